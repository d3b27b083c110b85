/* TEST ranks: 1 */
/* Stages of different numbers of replicas, and stages that recompute: every shape is proved when it
   is set up; memory, order and time of some against what is known. */
#include "../plan/plantest.h"
#include "messages.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"
#include <math.h>

enum { MOST_STAGES = 8, MOST_REPLICAS = 4, MOST_MICROBATCHES = 16 };
static const char *const types[] = {RENGA_SCHEDULE_GPIPE, RENGA_SCHEDULE_1F1B};

/* Replica r does the micro-batches of its range, each once, backward in the order of forward, and
   recomputes just before. */
static void CheckList(RengaSchedule schedule, int stage, int replica, int64_t first, int64_t last,
                      bool recompute)
{
  int64_t count, mine, forwards = 0, backwards = 0, again = 0, ready = -1;
  const int64_t *order;
  const RengaAction *action;
  RengaCallAbort(RengaScheduleGetOrder(schedule, stage, replica, &mine, &order));
  TestTrue(mine == last - first);
  RengaCallAbort(RengaScheduleGetActions(schedule, stage, replica, &count, &action));
  for (int64_t i = 0; i < count; i++) {
    TestTrue(action[i].stage == stage && action[i].replica == replica);
    TestTrue(action[i].microbatch == -1 ||
             (action[i].microbatch >= first && action[i].microbatch < last));
    if (action[i].kind == RENGA_ACTION_FORWARD) TestTrue(action[i].microbatch == order[forwards++]);
    if (action[i].kind == RENGA_ACTION_RECOMPUTE) ready = action[i].microbatch, again++;
    if (action[i].kind != RENGA_ACTION_BACKWARD) continue;
    TestTrue(action[i].microbatch == order[backwards++]);
    TestTrue(!recompute || ready == action[i].microbatch);
  }
  TestTrue(forwards == last - first && backwards == forwards);
  TestTrue(again == (recompute ? forwards : 0));
}

/* Micro-batches of a leaf follow each other, with others between them at the most. */
static void CheckLeaves(RengaSchedule schedule, int stage, int replica, int64_t leaf)
{
  int64_t count;
  const int64_t *order;
  RengaCallAbort(RengaScheduleGetOrder(schedule, stage, replica, &count, &order));
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < i; k++)
      TestTrue(order[k] / leaf != order[i] / leaf || order[k] < order[i]);
}

static void CheckShape(RengaSchedule schedule, int stages, const int replicas[], int64_t m,
                       int64_t leaf, uint64_t recompute)
{
  RengaMessage messages[4 * MOST_STAGES];
  const int n = FillMessages(stages, messages);
  double forward[MOST_STAGES], backward[MOST_STAGES], makespan, bubble, least = 0;
  RengaCallAbort(RengaScheduleSetShape(schedule, stages, replicas, m, n, messages, false));
  RengaCallAbort(RengaScheduleSetLeaf(schedule, leaf));
  for (int s = 0; s < stages; s++)
    RengaCallAbort(RengaScheduleSetRecompute(schedule, s, recompute >> s & 1));
  int64_t promised[MOST_STAGES], held;
  for (int s = 0; s < stages; s++)
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &promised[s]));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  for (int s = 0; s < stages; s++) {
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    TestTrue(held == promised[s]);
    forward[s] = 1, backward[s] = 2;
    for (int r = 0; r < replicas[s]; r++) {
      const int64_t first = RengaPlanLeafBound(m, leaf, replicas[s], r);
      const int64_t last = RengaPlanLeafBound(m, leaf, replicas[s], r + 1);
      CheckList(schedule, s, r, first, last, recompute >> s & 1);
      CheckLeaves(schedule, s, r, leaf);
      const double busy = (double)(last - first) * (3 + (double)(recompute >> s & 1));
      if (busy > least) least = busy;
    }
  }
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
  TestTrue(makespan >= least && bubble >= 0 && bubble < 1);
  RengaCallAbort(RengaScheduleSetShape(schedule, stages, replicas, m, n, messages, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
}

/* All numbers of replicas for few stages, some for many. */
static void CheckShapes(RengaSchedule schedule)
{
  uint64_t draw = 1;
  for (int stages = 1; stages <= MOST_STAGES; stages++) {
    int shapes = 1, tried = 0;
    for (int s = 0; s < stages && s < 4; s++) shapes *= MOST_REPLICAS;
    for (; tried < shapes; tried++) {
      int replicas[MOST_STAGES], rest = tried;
      for (int s = 0; s < stages; s++, rest /= MOST_REPLICAS) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        replicas[s] = 1 + (stages <= 4 ? rest : (int)(draw >> 40)) % MOST_REPLICAS;
      }
      for (int64_t m = 1 + tried % 3; m <= MOST_MICROBATCHES; m += 3)
        for (int64_t leaf = 1; leaf <= (tried % 4 == 0 ? 4 : 1); leaf += 1 + leaf % 2)
          CheckShape(schedule, stages, replicas, m, leaf, draw >> 33 & draw >> 50);
    }
  }
}

/* A fast stage of one replica feeds two: both work from the start, and the order interleaves. */
static void CheckFanOut(RengaSchedule schedule)
{
  const RengaMessage messages[] = {{"h", 0, 1, false, 8}, {"h", 1, 0, true, 8}};
  const int replicas[] = {1, 2};
  const int64_t expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
  const double forward[] = {1, 2}, backward[] = {1, 2};
  int64_t count, held, forwards = 0;
  const RengaAction *action;
  double makespan, bubble;
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, replicas, 8, 2, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleGetActions(schedule, 0, 0, &count, &action));
  for (int64_t i = 0; i < count; i++)
    if (action[i].kind == RENGA_ACTION_FORWARD)
      TestTrue(action[i].microbatch == expected[forwards++]);
  RengaCallAbort(RengaScheduleGetInFlight(schedule, 0, &held));
  TestTrue(held == 3);
  RengaCallAbort(RengaScheduleGetInFlight(schedule, 1, &held));
  TestTrue(held == 1);
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
  /* each rank is busy for 16 s; the second replica begins after 2 s, stage 0 ends 1 s after it */
  TestTrue(makespan <= 16 + 2 + 1 + 1);
}

/* Four forwards in place of three where a stage recomputes. */
static void CheckRecompute(RengaSchedule schedule)
{
  const RengaMessage messages[] = {{"h", 0, 1, false, 8}, {"h", 1, 0, true, 8}};
  const double forward[] = {1, 1}, backward[] = {2, 2};
  double makespan, bubble;
  int64_t count;
  const RengaAction *action;
  RengaAction list[64];
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, NULL, 4, 2, messages, false));
  RengaCallAbort(RengaScheduleSetRecompute(schedule, 1, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
  TestTrue(makespan == 1 + 4 * 4 + 2);
  RengaCallAbort(RengaScheduleGetActions(schedule, 1, 0, &count, &action));
  memcpy(list, action, (size_t)count * sizeof *list);
  for (int64_t i = 0; i < count; i++)
    if (list[i].kind == RENGA_ACTION_RECOMPUTE && list[i].microbatch == 1) list[i].microbatch = 0;
  TestError(RengaScheduleSetActions(schedule, 1, 0, count, list), RENGA_ERR_PLAN,
            "(recompute, micro-batch 0): it comes after its backward");
  for (int64_t i = 0; i < count; i++)
    if (list[i].kind == RENGA_ACTION_RECOMPUTE)
      memmove(list + i, list + i + 1, sizeof list[0] * (size_t)(--count - i));
  TestError(RengaScheduleSetActions(schedule, 1, 0, count, list), RENGA_ERR_PLAN,
            "stage 1, action 2 (backward, micro-batch 0): its activations are not recomputed");
  TestError(RengaScheduleGetActions(schedule, 1, 1, &count, &action), RENGA_ERR_ARGUMENT,
            "replica 1 of 1 replicas of stage 1");
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaSchedule schedule;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  for (int t = 0; t < 2; t++) {
    RengaCallAbort(RengaScheduleSetType(schedule, types[t]));
    CheckShapes(schedule);
  }
  CheckFanOut(schedule);
  RengaCallAbort(RengaScheduleSetEager(schedule, 0.75));
  CheckShapes(schedule);
  RengaCallAbort(RengaScheduleSetEager(schedule, 0));
  CheckRecompute(schedule);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
