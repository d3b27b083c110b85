/* TEST ranks: 1 */
/* Backwards in two parts, by a type from outside: gradients of inputs first, those of parameters
   some micro-batches later. Lists, memory and time are those of the zero-bubble schedule ZB-H1
   (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024); random ones are accepted, and each
   mistake is refused with its place. */
#include "../delayed.h"
#include "../plan/plantest.h"
#include <math.h>

enum { MOST_STAGES = 8, MOST_MICROBATCHES = 20, MOST_ACTIONS = 400 };

static int FillMessages(int stages, RengaMessage rows[])
{
  int n = 0;
  for (int s = 0; s + 1 < stages; s++) {
    rows[n++] = (RengaMessage){"h", s, s + 1, false, 8};
    rows[n++] = (RengaMessage){"h", s + 1, s, true, 8};
  }
  return n;
}

/* (p-1)(F+I-W) of bubble, p micro-batches in flight on every stage. */
static void CheckFormulas(RengaSchedule schedule)
{
  for (int p = 1; p <= MOST_STAGES; p++)
    for (int64_t m = 2 * p; m <= MOST_MICROBATCHES; m++) {
      RengaMessage messages[2 * MOST_STAGES];
      const int n = FillMessages(p, messages);
      double one[MOST_STAGES], makespan, bubble;
      int64_t held, lag;
      for (int s = 0; s < p; s++) one[s] = 1;
      const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = one,
                                                            [RENGA_ACTION_BACKWARD_INPUT] = one,
                                                            [RENGA_ACTION_BACKWARD_WEIGHT] = one}};
      RengaCallAbort(RengaScheduleSetShape(schedule, p, NULL, m, n, messages, false));
      for (int s = 0; s < p; s++) {
        RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
        RengaCallAbort(RengaScheduleGetLag(schedule, s, &lag));
        TestTrue(held == p && lag == s + 1);
      }
      RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
      TestTrue(makespan == (double)(3 * m + p - 1));
      TestTrue(fabs(bubble - (p - 1) / makespan) < 1e-12);
      TestError(RengaScheduleSimulate(schedule, one, one, NULL, &makespan, &bubble),
                RENGA_ERR_ARGUMENT, "schedule delayed splits backward");
    }
}

typedef struct {
  int64_t count;
  RengaAction action[MOST_ACTIONS];
} List;

static void Take(RengaSchedule schedule, int stage, List *list)
{
  const RengaAction *actions;
  RengaCallAbort(RengaScheduleGetActions(schedule, stage, 0, &list->count, &actions));
  TestTrue(list->count < MOST_ACTIONS);
  memcpy(list->action, actions, sizeof actions[0] * (size_t)list->count);
}

static int64_t PlaceOf(const List *list, RengaActionKind kind, int64_t microbatch)
{
  for (int64_t i = 0; i < list->count; i++)
    if (list->action[i].kind == kind && list->action[i].microbatch == microbatch) return i;
  TestTrue(false);
  return -1;
}

static void Remove(List *list, int64_t place)
{
  memmove(list->action + place, list->action + place + 1,
          sizeof list->action[0] * (size_t)(--list->count - place));
}

static void Insert(List *list, int64_t place, RengaAction action)
{
  memmove(list->action + place + 1, list->action + place,
          sizeof list->action[0] * (size_t)(list->count++ - place));
  list->action[place] = action;
}

static void Move(List *list, int64_t from, int64_t to)
{
  const RengaAction action = list->action[from];
  Remove(list, from);
  Insert(list, to, action);
}

static void Refused(RengaSchedule schedule, const List *list, int stage, const char *text)
{
  int64_t before, after;
  RengaCallAbort(RengaScheduleGetInFlight(schedule, stage, &before));
  TestError(RengaScheduleSetActions(schedule, stage, 0, list->count, list->action), RENGA_ERR_PLAN,
            text);
  RengaCallAbort(RengaScheduleGetInFlight(schedule, stage, &after));
  TestTrue(before == after);
}

static void SetUp(RengaSchedule schedule, RengaMessage messages[])
{
  const int n = FillMessages(3, messages);
  RengaCallAbort(RengaScheduleSetShape(schedule, 3, NULL, 6, n, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
}

static void CheckOrder(RengaSchedule schedule)
{
  List list;
  Take(schedule, 1, &list);
  Move(&list, PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 0),
       PlaceOf(&list, RENGA_ACTION_BACKWARD_INPUT, 0));
  Refused(schedule, &list, 1,
          "(backward weight, micro-batch 0): it comes before its backward input");
  Take(schedule, 1, &list);
  list.action[PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 1)].microbatch = 0;
  Refused(schedule, &list, 1, "(backward weight, micro-batch 0): it was done before");
  Take(schedule, 2, &list);
  Move(&list, PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 1),
       PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 0));
  Refused(
      schedule, &list, 2,
      "(backward weight, micro-batch 1): gradients are added in the order of the micro-batches");
  Take(schedule, 1, &list);
  list.action[PlaceOf(&list, RENGA_ACTION_BACKWARD_INPUT, 1)].kind = RENGA_ACTION_BACKWARD;
  Refused(schedule, &list, 1, "(backward, micro-batch 1): gradients are added in the order");
  Take(schedule, 1, &list);
  list.action[PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 0)].kind = RENGA_ACTION_BACKWARD;
  Refused(schedule, &list, 1, "(backward, micro-batch 0): it was done before");
  Take(schedule, 1, &list);
  Remove(&list, PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 5));
  Refused(schedule, &list, 1, "(reduce): a backward is missing before it");
  Take(schedule, 2, &list);
  Move(&list, PlaceOf(&list, RENGA_ACTION_BACKWARD_INPUT, 0), 0);
  Refused(schedule, &list, 2, "(backward input, micro-batch 0): it comes before its forward");
}

/* A stage that recomputes has room for one micro-batch: its gradients of parameters come before the
   next is computed. */
static void CheckRecompute(RengaSchedule schedule)
{
  RengaMessage messages[2 * MOST_STAGES];
  List list;
  SetUp(schedule, messages);
  RengaCallAbort(RengaScheduleSetRecompute(schedule, 0, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  Take(schedule, 0, &list);
  Move(&list, PlaceOf(&list, RENGA_ACTION_BACKWARD_WEIGHT, 0),
       PlaceOf(&list, RENGA_ACTION_RECOMPUTE, 1));
  Refused(schedule, &list, 0,
          "(backward weight, micro-batch 0): its activations are not recomputed just before");
  RengaCallAbort(RengaScheduleSetRecompute(schedule, 2, true));
  TestError(RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
            "(backward weight, micro-batch 0): its activations are not recomputed just before");
}

static uint64_t draw = 1;
static int64_t Draw(int64_t most)
{
  draw = draw * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(draw >> 33) % most;
}

/* What a stage has done while random lists are made, all stages going on together. */
typedef struct {
  int64_t forward, input, weight;
  List list;
} Worker;

static void Add(Worker *worker, RengaActionKind kind, int stage, int message, int64_t microbatch)
{
  TestTrue(worker->list.count < MOST_ACTIONS);
  worker->list.action[worker->list.count++] = (RengaAction){
      .kind = kind, .stage = stage, .message = message, .bucket = -1, .microbatch = microbatch};
}

/* The stage does something that it may do, whole backwards or halves; false: nothing is left. */
static bool Act(Worker worker[], int stages, int stage, int64_t m)
{
  Worker *own = &worker[stage];
  const int in = 2 * (stage - 1), out = 2 * stage; /* rows of the chain */
  const bool forward = own->forward < m && own->forward < own->weight + stages + 2 &&
                       (stage == 0 || worker[stage - 1].forward > own->forward);
  const bool input =
      own->input < own->forward && (stage == stages - 1 || worker[stage + 1].input > own->input);
  const bool weight = own->weight < own->input;
  const int64_t choice = Draw(4);
  if (forward && choice < 2) {
    if (stage > 0) Add(own, RENGA_ACTION_RECEIVE, stage, in, own->forward);
    Add(own, RENGA_ACTION_FORWARD, stage, -1, own->forward);
    if (stage < stages - 1) Add(own, RENGA_ACTION_SEND, stage, out, own->forward);
    own->forward++;
  } else if (input && choice < 3) {
    const bool whole = own->weight == own->input && Draw(2);
    if (stage < stages - 1) Add(own, RENGA_ACTION_RECEIVE, stage, out + 1, own->input);
    Add(own, whole ? RENGA_ACTION_BACKWARD : RENGA_ACTION_BACKWARD_INPUT, stage, -1, own->input);
    if (stage > 0) Add(own, RENGA_ACTION_SEND, stage, in + 1, own->input);
    own->weight += whole;
    own->input++;
  } else if (weight) {
    Add(own, RENGA_ACTION_BACKWARD_WEIGHT, stage, -1, own->weight++);
  }
  return own->weight < m;
}

static List given[MOST_STAGES];

static RengaErrorCode BuildGiven(RengaSchedule schedule, int rank, RengaActionList list, void *user)
{
  (void)schedule;
  (void)user;
  for (int64_t i = 0; i < given[rank].count; i++)
    RengaCall(RengaActionListAddAction(list, &given[rank].action[i]));
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

/* Lists that come of an execution can be executed. */
static void CheckRandom(RengaSchedule schedule)
{
  static Worker worker[MOST_STAGES];
  for (int round = 0; round < 300; round++) {
    RengaMessage messages[2 * MOST_STAGES];
    const int p = 1 + (int)Draw(5), n = FillMessages(p, messages);
    const int64_t m = 1 + Draw(10);
    memset(worker, 0, sizeof worker);
    for (bool more = true; more;) {
      more = false;
      for (int turn = 0; turn < 4 * p; turn++) Act(worker, p, (int)Draw(p), m);
      for (int s = 0; s < p; s++) more = more || worker[s].weight < m;
    }
    for (int s = 0; s < p; s++) given[s] = worker[s].list;
    RengaCallAbort(RengaScheduleSetShape(schedule, p, NULL, m, n, messages, false));
    RengaCallAbort(RengaScheduleSetUp(schedule));
  }
}

int main(int argc, char **argv)
{
  static Delay delay = {0, 1};
  static const RengaScheduleRule delayed = {
      .name = "delayed", .build = BuildDelayed, .user = &delay};
  static const RengaScheduleRule random = {.name = "random", .build = BuildGiven};
  RengaMessage messages[2 * MOST_STAGES];
  RengaComm comm;
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleRegister(&delayed));
  RengaCallAbort(RengaScheduleRegister(&random));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, "delayed"));
  CheckFormulas(schedule);
  SetUp(schedule, messages);
  CheckOrder(schedule);
  CheckRecompute(schedule);
  RengaCallAbort(RengaScheduleSetType(schedule, "random"));
  CheckRandom(schedule);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
