/* TEST ranks: 1 */
/* ZB-H1 and ZB-H2: memory and bubble are those of the paper's formulas, less than 1F1B's; stages
   that recompute, other numbers of replicas and few micro-batches are proved; what cannot be is
   refused. */
#include "messages.h"
#include "replay.h"
#include <math.h>

enum { MOST_STAGES = 8, MOST_MICROBATCHES = 32 };

static const char *const types[] = {RENGA_SCHEDULE_ZB_H1, RENGA_SCHEDULE_ZB_H2,
                                    RENGA_SCHEDULE_1F1B};
static const struct {
  double forward, input, weight;
} costs[] = {{1, 1, 1}, {2, 2, 1}, {3, 3, 2}, {2, 3, 2}};

static RengaSchedule Make(RengaComm comm, const char *type)
{
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  return schedule;
}

/* At most p micro-batches of ZB-H1, 2p-1 of ZB-H2; all stages hold as many where there are. */
static void CheckHeld(RengaSchedule schedule, int h2, int p, int64_t m)
{
  const int64_t most = h2 ? 2 * p - 1 : p;
  int64_t held, lag;
  for (int s = 0; s < p; s++) {
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    RengaCallAbort(RengaScheduleGetLag(schedule, s, &lag));
    TestTrue(held == (m < most ? m : most));
    TestTrue(lag >= 1 && lag <= held);
  }
}

/* ZB-H1's (p-1)(F+I-W), where W fills what F and I leave; ZB-H2 has no wait between the first and
   the last action of any rank where all take as long. 1F1B's (p-1)(F+I+W). */
static void CheckBubble(RengaSchedule schedule, int type, int p, int64_t m)
{
  int stage_of[MOST_STAGES];
  for (int s = 0; s < p; s++) stage_of[s] = s;
  for (size_t c = 0; c < sizeof costs / sizeof costs[0]; c++) {
    Replay replay = {.forward = costs[c].forward,
                     .input = costs[c].input,
                     .weight = costs[c].weight,
                     .ranks = p};
    const double f = replay.forward, b = replay.input, w = replay.weight;
    const double work = (double)m * (f + b + w);
    ReplayLists(schedule, p, stage_of, &replay);
    if (type == 2) TestTrue(fabs(replay.makespan - work - (p - 1) * (f + b + w)) < 1e-9);
    if (type == 0 && m >= 2 * p) TestTrue(replay.makespan <= work + (p - 1) * (f + b - w) + 1e-9);
    if (type == 0 && m >= 2 * p && f <= b)
      TestTrue(fabs(replay.makespan - work - (p - 1) * (f + b - w)) < 1e-9);
    if (type == 1 && m >= 3 * p)
      TestTrue(ReplayMostWait(&replay) <= (p - 1) * (f + b - 2 * w) + 1e-9);
    if (type < 2 && m >= 2 * p && p > 1)
      TestTrue(replay.makespan < work + (p - 1) * (f + b + w) - 1e-9);
    for (int s = 0; s < p; s++) TestTrue(replay.held[s] <= (type == 1 ? 2 * p - 1 : p));
  }
}

static void CheckFormulas(RengaComm comm, int type)
{
  RengaSchedule schedule = Make(comm, types[type]);
  for (int p = 1; p <= MOST_STAGES; p++)
    for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
      RengaMessage messages[4 * MOST_STAGES];
      const int n = FillMessages(p, messages);
      RengaCallAbort(RengaScheduleSetShape(schedule, p, NULL, m, n, messages, false));
      RengaCallAbort(RengaScheduleSetUp(schedule));
      if (type < 2) CheckHeld(schedule, type == 1, p, m);
      CheckBubble(schedule, type, p, m);
    }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* Whole backwards in a stage that recomputes; sums of each bucket follow its last gradient. */
static void CheckRecompute(RengaComm comm, const char *type)
{
  enum { STAGES = 3, MICROBATCHES = 7 };
  RengaMessage messages[4 * STAGES];
  const int n = FillMessages(STAGES, messages);
  RengaSchedule schedule = Make(comm, type);
  const RengaAction *action;
  int64_t count, lag;
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, n, messages, false));
  RengaCallAbort(RengaScheduleSetRecompute(schedule, 1, true));
  RengaCallAbort(RengaScheduleSetBuckets(schedule, 0, 2));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleGetLag(schedule, 1, &lag));
  TestTrue(lag == 0);
  RengaCallAbort(RengaScheduleGetLag(schedule, 2, &lag));
  TestTrue(lag > 0);
  RengaCallAbort(RengaScheduleGetActions(schedule, 0, 0, &count, &action));
  TestTrue(action[count - 4].kind == RENGA_ACTION_BACKWARD_WEIGHT &&
           action[count - 4].microbatch == MICROBATCHES - 1);
  TestTrue(action[count - 3].kind == RENGA_ACTION_REDUCE && action[count - 2].bucket == 1);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

static void CheckReplicas(RengaComm comm, const char *type)
{
  static const int replicas[][3] = {{2, 2, 2}, {1, 2, 3}, {3, 1, 2}, {2, 3, 1}, {1, 3, 1}};
  RengaMessage messages[4 * MOST_STAGES];
  const int n = FillMessages(3, messages);
  RengaSchedule schedule = Make(comm, type);
  for (size_t r = 0; r < sizeof replicas / sizeof replicas[0]; r++)
    for (int64_t m = 0; m <= 20; m++) {
      RengaCallAbort(RengaScheduleSetShape(schedule, 3, replicas[r], m, n, messages, false));
      RengaCallAbort(RengaScheduleSetLeaf(schedule, 1 + m % 3));
      RengaCallAbort(RengaScheduleSetUp(schedule));
      RengaCallAbort(RengaScheduleSetShape(schedule, 3, replicas[r], m, n, messages, true));
      RengaCallAbort(RengaScheduleSetUp(schedule));
    }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

static void CheckRefused(RengaComm comm, const char *type)
{
  RengaMessage messages[4 * 4];
  const int n = FillMessages(4, messages), rank[] = {0, 1, 0, 1};
  RengaSchedule schedule = Make(comm, type);
  RengaCallAbort(RengaScheduleSetShape(schedule, 4, NULL, 5, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
  TestError(RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
            "has one stage on each rank, but a rank has stages 0 and 2");
  TestError(RengaScheduleSetEager(schedule, 1), RENGA_ERR_ORDER, "this one's type is zb-h");
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int t = 0; t < 3; t++) CheckFormulas(comm, t);
  for (int t = 0; t < 2; t++) {
    CheckRecompute(comm, types[t]);
    CheckReplicas(comm, types[t]);
    CheckRefused(comm, types[t]);
  }
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
