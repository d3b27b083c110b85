/* TEST ranks: 1 */
/* A list with a mistake is refused with stage, action and micro-batch, and the old one stays. */
#include "../plan/plantest.h"
#include "renga/private/schedule.h"

enum { STAGES = 3, MICROBATCHES = 4, MOST_ACTIONS = 64 };

static const RengaMessage messages[] = {
    {"h", 0, 1, false, 8}, {"h", 1, 0, true, 8}, {"k", 1, 2, false, 8}, {"k", 2, 1, true, 8}};

typedef struct {
  RengaSchedule schedule;
  int64_t count;
  RengaAction action[MOST_ACTIONS + 1];
} List;

static void TakeOf(RengaSchedule schedule, int stage, int replica, List *list)
{
  const RengaAction *actions;
  list->schedule = schedule;
  RengaCallAbort(RengaScheduleGetActions(schedule, stage, replica, &list->count, &actions));
  TestTrue(list->count <= MOST_ACTIONS);
  memcpy(list->action, actions, sizeof actions[0] * (size_t)list->count);
}

static void Take(RengaSchedule schedule, int stage, List *list)
{
  TakeOf(schedule, stage, 0, list);
}

/* Place of the n-th action of a kind. */
static int64_t Find(const List *list, RengaActionKind kind, int n)
{
  for (int64_t i = 0; i < list->count; i++)
    if (list->action[i].kind == kind && n-- == 0) return i;
  TestTrue(false);
  return -1;
}

static void Remove(List *list, int64_t place)
{
  memmove(list->action + place, list->action + place + 1,
          sizeof list->action[0] * (size_t)(--list->count - place));
}

static void Move(List *list, int64_t from, int64_t to)
{
  RengaAction action = list->action[from];
  Remove(list, from);
  memmove(list->action + to + 1, list->action + to,
          sizeof list->action[0] * (size_t)(list->count++ - to));
  list->action[to] = action;
}

static void Refused(const List *list, int stage, const char *text)
{
  int64_t count;
  const RengaAction *actions;
  TestError(RengaScheduleSetActions(list->schedule, stage, 0, list->count, list->action),
            RENGA_ERR_PLAN, text);
  RengaCallAbort(RengaScheduleGetActions(list->schedule, stage, 0, &count, &actions));
  RengaCallAbort(RengaScheduleSetActions(list->schedule, stage, 0, count, actions));
}

static void CheckMessages(RengaSchedule schedule)
{
  List list;
  Take(schedule, 1, &list);
  Remove(&list, Find(&list, RENGA_ACTION_RECEIVE, 0));
  Refused(&list, 1, "stage 1, action 0 (forward, micro-batch 0): a message that it needs");
  Take(schedule, 1, &list);
  Remove(&list, Find(&list, RENGA_ACTION_SEND, 0));
  Refused(&list, 1, "(receive 'k' from stage 1, micro-batch 0): the message that comes next is of");
  Take(schedule, 1, &list);
  list.action[Find(&list, RENGA_ACTION_RECEIVE, 0)].microbatch = 1;
  Refused(&list, 1, "(receive 'h' from stage 0, micro-batch 1): the message that comes next is of");
  Take(schedule, 1, &list);
  Move(&list, Find(&list, RENGA_ACTION_SEND, 0), 0);
  Refused(&list, 1, "(send 'k' to stage 2, micro-batch 0): it comes before the action that makes");
  Take(schedule, 1, &list);
  list.action[0].message = 1;
  Refused(&list, 1,
          "stage 1, action 0 (receive gradient of 'h' from stage 1, micro-batch 0): the "
          "message is for another stage");
  list.action[0].message = 9;
  Refused(&list, 1, "there is no such message");
  Take(schedule, 0, &list);
  list.action[list.count++] = list.action[Find(&list, RENGA_ACTION_SEND, 0)];
  Refused(&list, 0, "it comes after the update");
}

static void CheckDeadlock(RengaSchedule schedule)
{
  List list;
  Take(schedule, 0, &list);
  Move(&list, Find(&list, RENGA_ACTION_RECEIVE, 0), 0);
  Refused(
      &list, 0,
      "stage 0, action 0 (receive gradient of 'h' from stage 1, micro-batch 0): it waits for ever");
}

static void CheckOrder(RengaSchedule schedule)
{
  List list;
  Take(schedule, 2, &list);
  Remove(&list, Find(&list, RENGA_ACTION_FORWARD, 0));
  Refused(&list, 2, "stage 2, action 1 (backward, micro-batch 0): it comes before its forward");
  Take(schedule, 0, &list);
  list.action[Find(&list, RENGA_ACTION_FORWARD, 1)].microbatch = 0;
  Refused(&list, 0, "(forward, micro-batch 0): it was done before");
  Take(schedule, 0, &list);
  list.action[0].microbatch = 7;
  Refused(&list, 0, "stage 0, action 0 (forward, micro-batch 7): there is no such micro-batch");
  Take(schedule, 0, &list);
  list.action[0].kind = RENGA_ACTION_RECOMPUTE;
  Refused(&list, 0,
          "stage 0, action 0 (recompute, micro-batch 0): the stage keeps its activations");
  Take(schedule, 0, &list);
  Remove(&list, Find(&list, RENGA_ACTION_UPDATE, 0));
  Refused(&list, 0, "the list has no update");
  Take(schedule, 0, &list);
  Remove(&list, Find(&list, RENGA_ACTION_REDUCE, 0));
  Refused(&list, 0, "(update): it comes before the gradients are reduced");
  Take(schedule, 0, &list);
  Move(&list, Find(&list, RENGA_ACTION_REDUCE, 0), 0);
  Refused(&list, 0, "stage 0, action 0 (reduce): a backward is missing before it");
}

/* The fourth forward of stage 0 before its first backward: one more in flight than p - s. */
static void CheckMemory(RengaSchedule schedule)
{
  List list;
  Take(schedule, 0, &list);
  int64_t forward = Find(&list, RENGA_ACTION_FORWARD, 3);
  int64_t wait = Find(&list, RENGA_ACTION_RECEIVE, 0);
  Move(&list, forward + 1, wait);
  Move(&list, forward + 1, wait);
  Refused(&list, 0,
          "(forward, micro-batch 3): more micro-batches in flight than the type promises");
}

/* Where all forwards come first, gradients may be sent late and received early, as long as there is
   room for them: for two. */
static void CheckRoom(RengaSchedule schedule)
{
  List list;
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_GPIPE));
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 4, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  Take(schedule, 2, &list);
  Move(&list, Find(&list, RENGA_ACTION_SEND, 0), Find(&list, RENGA_ACTION_BACKWARD, 1));
  RengaCallAbort(RengaScheduleSetActions(schedule, 2, 0, list.count, list.action));
  Move(&list, Find(&list, RENGA_ACTION_SEND, 1), Find(&list, RENGA_ACTION_BACKWARD, 2));
  Move(&list, Find(&list, RENGA_ACTION_SEND, 0), Find(&list, RENGA_ACTION_BACKWARD, 2));
  Refused(&list, 2,
          "(send gradient of 'k' to stage 1, micro-batch 0): what it sends is no longer there");
  Take(schedule, 0, &list);
  Move(&list, Find(&list, RENGA_ACTION_RECEIVE, 1), Find(&list, RENGA_ACTION_BACKWARD, 0));
  RengaCallAbort(RengaScheduleSetActions(schedule, 0, 0, list.count, list.action));
  Move(&list, Find(&list, RENGA_ACTION_RECEIVE, 2), Find(&list, RENGA_ACTION_BACKWARD, 0));
  Refused(&list, 0, "micro-batch 2): there is no room yet for this gradient");
}

/* Forwards only: a forward takes the place of what the one before it made. */
static void CheckForwardOnly(RengaSchedule schedule)
{
  List list;
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 4, messages, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  Take(schedule, 0, &list);
  Move(&list, Find(&list, RENGA_ACTION_SEND, 0), Find(&list, RENGA_ACTION_FORWARD, 1));
  Refused(&list, 0, "(send 'h' to stage 1, micro-batch 0): what it sends is no longer there");
  Take(schedule, 1, &list);
  list.action[Find(&list, RENGA_ACTION_FORWARD, 1)].kind = RENGA_ACTION_BACKWARD;
  Refused(&list, 1, "(backward, micro-batch 1): a schedule of forwards only has no backward");
  Take(schedule, 1, &list);
  list.action[Find(&list, RENGA_ACTION_FORWARD, 3)].kind = RENGA_ACTION_UPDATE;
  Refused(&list, 1, "a schedule of forwards only has no end of the step");
}

/* Sums bucket by bucket, which all replicas come to in one order; gathered by all replicas or by
   none, after they are reduced. */
static void CheckBuckets(RengaSchedule schedule)
{
  const int replicas[STAGES] = {1, 2, 1};
  int buckets;
  List list;
  RengaCallAbort(
      RengaScheduleSetShape(schedule, STAGES, replicas, MICROBATCHES, 4, messages, false));
  TestError(RengaScheduleSetBuckets(schedule, 1, 0), RENGA_ERR_ARGUMENT, "stage 1 has 0 buckets");
  RengaCallAbort(RengaScheduleSetBuckets(schedule, 1, 2));
  RengaCallAbort(RengaScheduleGetBuckets(schedule, 1, &buckets));
  TestTrue(buckets == 2);
  RengaCallAbort(RengaScheduleSetUp(schedule));
  Take(schedule, 1, &list);
  TestTrue(list.action[list.count - 3].bucket == 0 && list.action[list.count - 2].bucket == 1);
  Move(&list, Find(&list, RENGA_ACTION_REDUCE, 1), Find(&list, RENGA_ACTION_REDUCE, 0));
  Refused(&list, 1, "another replica does not come to this sum");
  Take(schedule, 1, &list);
  list.action[Find(&list, RENGA_ACTION_REDUCE, 1)].bucket = 0;
  Refused(&list, 1, "stage 1, replica 0, action 13 (reduce of bucket 0): it was done before");
  list.action[Find(&list, RENGA_ACTION_REDUCE, 1)].bucket = 2;
  Refused(&list, 1, "(reduce of bucket 2): the stage has no such bucket");
  Take(schedule, 1, &list);
  Remove(&list, Find(&list, RENGA_ACTION_REDUCE, 1));
  Refused(&list, 1, "(update): it comes before the gradients are reduced");
  Take(schedule, 1, &list);
  list.action[list.count - 1].kind = RENGA_ACTION_GATHER;
  list.action[list.count - 1].bucket = 1;
  Refused(&list, 1, "(gather of bucket 1): it waits for ever: another replica does not come to");
  list.action[list.count - 2].kind = RENGA_ACTION_GATHER;
  Refused(&list, 1, "(gather of bucket 1): it comes before the bucket is reduced");
  Take(schedule, 2, &list);
  list.action[list.count - 2].kind = RENGA_ACTION_GATHER;
  Refused(&list, 2, "(gather): it comes before the bucket is reduced");
  list.action[list.count - 2].kind = (RengaActionKind)99;
  Refused(&list, 2, "(unknown action): the pipeline has no such action");
}

/* Seconds of a step in which only the ends of stage 1 take time. */
static double SimulateEnd(RengaSchedule schedule)
{
  const double sums[STAGES] = {0, 3, 0}, updates[STAGES] = {0, 5, 0}, gathers[STAGES] = {0, 7, 0};
  const RengaScheduleDurations durations = {
      .seconds = {[RENGA_ACTION_REDUCE] = sums,
                  [RENGA_ACTION_UPDATE] = updates,
                  [RENGA_ACTION_GATHER_PARAMETERS] = gathers}};
  double makespan, bubble;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  return makespan;
}

/* Parameters that replicas have shares of are gathered behind the update, once, by all of them, and
   take time there. Of three buckets two are. */
static void CheckGathers(RengaSchedule schedule)
{
  const int replicas[STAGES] = {1, 2, 1};
  int buckets;
  List list;
  RengaCallAbort(
      RengaScheduleSetShape(schedule, STAGES, replicas, MICROBATCHES, 4, messages, false));
  RengaCallAbort(RengaScheduleSetBuckets(schedule, 1, 3));
  TestError(RengaScheduleSetGathers(schedule, 1, 4), RENGA_ERR_ARGUMENT,
            "parameters of 4 of the 3 buckets of stage 1 are gathered");
  RengaCallAbort(RengaScheduleSetUp(schedule));
  TestTrue(SimulateEnd(schedule) == 3 * 3 + 5);
  RengaCallAbort(RengaScheduleSetGathers(schedule, 1, 2));
  RengaCallAbort(RengaScheduleGetGathers(schedule, 1, &buckets));
  TestTrue(buckets == 2);
  RengaCallAbort(RengaScheduleSetUp(schedule));
  TestTrue(SimulateEnd(schedule) == 3 * 3 + 5 + 2 * 7);
  Take(schedule, 1, &list);
  const int64_t first = Find(&list, RENGA_ACTION_GATHER_PARAMETERS, 0);
  TestTrue(first == list.count - 2 && list.action[first - 1].kind == RENGA_ACTION_UPDATE);
  list.action[first + 1].bucket = 0;
  Refused(&list, 1, "(gather parameters of bucket 0): it was done before");
  list.action[first + 1].bucket = 2;
  Refused(&list, 1, "(gather parameters of bucket 2): every replica updates all of its parameters");
  list.action[first + 1].bucket = 3;
  Refused(&list, 1, "(gather parameters of bucket 3): the stage has no such bucket");
  Take(schedule, 1, &list);
  Move(&list, first + 1, first);
  Refused(&list, 1, "(gather parameters of bucket 1): it waits for ever: another replica does not");
  Take(schedule, 1, &list);
  Move(&list, first, first - 1);
  Refused(&list, 1, "(gather parameters of bucket 0): it comes before the update");
  Take(schedule, 1, &list);
  list.action[first + 1].kind = RENGA_ACTION_UPDATE;
  Refused(&list, 1, "(update of bucket 1): it comes after the update");
}

/* One that is gathered by no replica. */
static void CheckUngathered(RengaSchedule schedule)
{
  List list;
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 4, messages, false));
  RengaCallAbort(RengaScheduleSetGathers(schedule, 2, 1));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  Take(schedule, 2, &list);
  Remove(&list, Find(&list, RENGA_ACTION_GATHER_PARAMETERS, 0));
  Refused(&list, 2, "the list does not gather the parameters of some bucket");
}

/* Two ranks have two stages each; one does the first backward of stage 0 before the second of stage
   1, the other one the other way round: where they fold gradients each would wait where the other
   has not come. */
static void CheckTogether(RengaSchedule schedule)
{
  static const int replicas[] = {2, 2}, rank[] = {0, 1, 0, 1};
  for (int folds = 0; folds < 2; folds++) {
    List list;
    RengaCallAbort(RengaScheduleSetShape(schedule, 2, replicas, 4, 2, messages, false));
    RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
    for (int s = 0; s < 2; s++)
      RengaCallAbort(RengaScheduleSetFold_Private(schedule, s, folds > 0));
    RengaCallAbort(RengaScheduleSetUp(schedule));
    TakeOf(schedule, 0, 1, &list);
    const int64_t second = Find(&list, RENGA_ACTION_BACKWARD, 1);
    TestTrue(list.action[second].stage == 0 && list.action[second + 1].stage == 1);
    Move(&list, second, second + 1);
    if (folds)
      TestError(RengaScheduleSetActions(schedule, 0, 1, list.count, list.action), RENGA_ERR_PLAN,
                "replicas with sharded gradients go through one list, and the one with most "
                "micro-batches does something else here");
    else
      RengaCallAbort(RengaScheduleSetActions(schedule, 0, 1, list.count, list.action));
  }
}

/* Of three micro-batches one replica has two, the other one: its list is the first one's without
   the second of them. */
static void CheckShorter(RengaSchedule schedule)
{
  static const int replicas[] = {2, 2}, rank[] = {0, 1, 0, 1};
  List list[2];
  int64_t at = 0;
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, replicas, 3, 2, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
  RengaCallAbort(RengaScheduleSetFold_Private(schedule, 0, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  for (int r = 0; r < 2; r++) TakeOf(schedule, 0, r, &list[r]);
  const List *own = &list[list[0].count > list[1].count], *longer = &list[own == &list[0]];
  const int64_t first = own->action[Find(own, RENGA_ACTION_FORWARD, 0)].microbatch;
  const int64_t others = longer->action[Find(longer, RENGA_ACTION_FORWARD, 0)].microbatch;
  TestTrue(own->count < longer->count);
  for (int64_t a = 0; a < longer->count; a++) {
    const RengaAction *action = &longer->action[a];
    if (action->microbatch > others) continue;
    TestTrue(at < own->count && own->action[at].kind == action->kind &&
             own->action[at].stage == action->stage);
    TestTrue(action->microbatch < 0 || own->action[at].microbatch == first);
    at++;
  }
  TestTrue(at == own->count);
}

static void CheckView(RengaComm comm, RengaSchedule schedule)
{
  char file_name[] = "schedule-view-XXXXXX", specification[64], text[4096];
  RengaViewer viewer;
  TestTrue(mkstemp(file_name) >= 0);
  snprintf(specification, sizeof specification, "ascii:%s", file_name);
  RengaCallAbort(RengaViewerCreate(comm, specification, &viewer));
  RengaCallAbort(RengaScheduleView(schedule, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  FILE *file = fopen(file_name, "r");
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  unlink(file_name);
  TestTrue(strstr(text, "schedule 1f1b: 3 stages, 4 micro-batches, bubble 33.3 %"));
  TestTrue(strstr(text, "  stage   0,   3 in flight | F0  F1  F2  .   .   .   .   B0  B0  F3  B1  "
                        "B1  .   B2  B2  .   B3  B3\n"));
  TestTrue(strstr(text, "  stage   2,   1 in flight | .   .   F0  B0  B0  F1  B1  B1  F2  B2  B2  "
                        "F3  B3  B3  .   .   .   .\n"));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaSchedule schedule;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  TestError(RengaScheduleSetType(schedule, "gpip"), RENGA_ERR_ARGUMENT, "did you mean gpipe");
  TestError(RengaScheduleSetUp(schedule), RENGA_ERR_ORDER, "call RengaScheduleSetShape first");
  const RengaMessage wrong = {"h", 0, 3, false, 8};
  TestError(RengaScheduleSetShape(schedule, STAGES, NULL, 1, 1, &wrong, false), RENGA_ERR_ARGUMENT,
            "message 0 goes forward from stage 0 to stage 3 of 3 stages");
  RengaCallAbort(RengaScheduleSetFromOptions(schedule));
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 4, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  CheckView(comm, schedule);
  CheckMessages(schedule);
  CheckDeadlock(schedule);
  CheckOrder(schedule);
  CheckMemory(schedule);
  CheckForwardOnly(schedule);
  CheckRoom(schedule);
  CheckBuckets(schedule);
  CheckGathers(schedule);
  CheckUngathered(schedule);
  CheckTogether(schedule);
  CheckShorter(schedule);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
