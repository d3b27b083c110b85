/* TEST ranks: 1 */
/* Memory, bubble and makespan of the schedules against the known formulas, for all small shapes. */
#include "../plan/plantest.h"
#include "messages.h"
#include "renga/private/schedule.h"
#include <math.h>

enum { MOST_STAGES = 8, MOST_MICROBATCHES = 16 };

static void CheckInFlight(RengaSchedule schedule, const char *type, int stages, int64_t m,
                          bool forward_only)
{
  for (int s = 0; s < stages; s++) {
    int64_t held, lag, few = m < stages - s ? m : stages - s;
    int64_t wanted = !strcmp(type, RENGA_SCHEDULE_GPIPE) ? m : few;
    if (forward_only) wanted = m ? 1 : 0;
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    RengaCallAbort(RengaScheduleGetLag(schedule, s, &lag));
    TestTrue(held == wanted && lag == 0);
  }
}

/* Equal stages: (m + p - 1) (F + B), of which p - 1 units are the bubble. */
static void CheckTimes(RengaSchedule schedule, int stages, int64_t m, bool forward_only)
{
  for (int b = 1; b <= 3; b++) {
    double forward[MOST_STAGES], backward[MOST_STAGES], makespan, bubble;
    for (int s = 0; s < stages; s++) forward[s] = 1, backward[s] = b;
    RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
    double unit = forward_only ? 1 : 1 + b, slots = (double)(m + stages - 1);
    TestTrue(makespan == (m ? slots * unit : 0));
    TestTrue(fabs(bubble - (m ? (stages - 1) / slots : 0)) < 1e-12);
  }
}

static void CheckList(RengaSchedule schedule, int stage, int64_t m, bool forward_only)
{
  int64_t count, forwards = 0, backwards = 0;
  const RengaAction *actions;
  RengaCallAbort(RengaScheduleGetActions(schedule, stage, 0, &count, &actions));
  for (int64_t i = 0; i < count; i++) {
    forwards += actions[i].kind == RENGA_ACTION_FORWARD;
    backwards += actions[i].kind == RENGA_ACTION_BACKWARD;
    TestTrue(actions[i].stage == stage);
  }
  TestTrue(forwards == m && backwards == (forward_only ? 0 : m));
  if (forward_only) return;
  TestTrue(actions[count - 2].kind == RENGA_ACTION_REDUCE);
  TestTrue(actions[count - 1].kind == RENGA_ACTION_UPDATE);
}

static void CheckShape(RengaComm comm, const char *type, int stages, int64_t m, bool forward_only)
{
  RengaMessage messages[4 * MOST_STAGES];
  int n = FillMessages(stages, messages);
  RengaSchedule schedule;
  const char *name;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  RengaCallAbort(RengaScheduleGetType(schedule, &name));
  TestTrue(!strcmp(name, type));
  RengaCallAbort(RengaScheduleSetShape(schedule, stages, NULL, m, n, messages, forward_only));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  CheckInFlight(schedule, type, stages, m, forward_only);
  CheckTimes(schedule, stages, m, forward_only);
  for (int s = 0; s < stages; s++) CheckList(schedule, s, m, forward_only);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* One micro-batch through two stages, a message of 5 s each way; and a slow first stage. */
static void CheckMessageTimes(RengaComm comm)
{
  RengaMessage messages[4 * MOST_STAGES];
  double forward[] = {1, 2}, backward[] = {3, 4}, slow[] = {10, 1}, makespan, bubble;
  double message[] = {5, 5, 0, 0};
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  int n = FillMessages(2, messages);
  TestTrue(n == 4);
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, NULL, 1, n, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, message, &makespan, &bubble));
  TestTrue(makespan == 1 + 5 + 2 + 4 + 5 + 3);
  TestTrue(fabs(bubble - (1 - 10.0 / 40)) < 1e-12);
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, NULL, 8, n, messages, true));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, slow, NULL, NULL, &makespan, &bubble));
  TestTrue(makespan == 8 * 10 + 1);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* In flight in proportion to the stages that follow, never more than there are; the last stage
   holds one. Messages of a quarter of the work are hidden by 1 for each: the step is as without
   messages, but for the first way there and the last way back. */
static void CheckEager(RengaComm comm)
{
  enum { STAGES = 4, MICROBATCHES = 12 };
  RengaMessage messages[4 * MOST_STAGES];
  const int n = FillMessages(STAGES, messages);
  const double forward[] = {1, 1, 1, 1}, backward[] = {2, 2, 2, 2};
  double message[4 * MOST_STAGES], makespan, late, eager, bubble;
  int64_t held;
  RengaSchedule schedule;
  for (int i = 0; i < n; i++) message[i] = !strcmp(messages[i].value, "chain") ? 0.75 : 0;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, n, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, message, &late, &bubble));
  RengaCallAbort(RengaScheduleSetEager(schedule, 0.5));
  RengaCallAbort(RengaScheduleGetEager(schedule, &eager));
  TestTrue(eager == 0.5);
  for (int s = 0; s < STAGES; s++) {
    static const int64_t wanted[STAGES] = {3 + 2 + 1, 2 + 1 + 1, 1 + 1 + 1, 1};
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    TestTrue(held == wanted[s]);
  }
  RengaCallAbort(RengaScheduleSetEager(schedule, 1));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, message, &makespan, &bubble));
  TestTrue(makespan == (MICROBATCHES + STAGES - 1) * 3 + 2 * (STAGES - 1) * 0.75);
  TestTrue(late > makespan);
  for (int i = 0; i < n; i++) message[i] *= 2;
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, message, &makespan, &bubble));
  TestTrue(makespan == (MICROBATCHES + STAGES - 1) * 3 + 2 * (STAGES - 1) * 1.5);
  RengaCallAbort(RengaScheduleSetEager(schedule, 100));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleGetInFlight(schedule, 0, &held));
  TestTrue(held == MICROBATCHES);
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_GPIPE));
  TestError(RengaScheduleSetEager(schedule, 1), RENGA_ERR_ORDER, "this one's type is gpipe");
  TestError(RengaScheduleSetEager(schedule, -1), RENGA_ERR_ARGUMENT, "-1 extra warm-up");
  TestTrue(RengaScheduleEarly(0.25, 4) == 1 && RengaScheduleEarly(0.25, 5) == 2);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* Stages that send to the last alone work at the same time, and each begins one micro-batch more
   than the last. */
static void CheckApart(RengaComm comm)
{
  enum { STAGES = 4, MICROBATCHES = 12 };
  RengaMessage messages[2 * STAGES];
  const double forward[] = {1, 1, 1, 1}, backward[] = {2, 2, 2, 2};
  double makespan, bubble;
  int64_t held;
  RengaSchedule schedule;
  for (int s = 0; s + 1 < STAGES; s++) {
    messages[2 * s] = (RengaMessage){"scores", s, STAGES - 1, false, 8};
    messages[2 * s + 1] = (RengaMessage){"scores", STAGES - 1, s, true, 8};
  }
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(
      RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 2 * STAGES - 2, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  for (int s = 0; s < STAGES; s++) {
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    TestTrue(held == (s + 1 < STAGES ? 2 : 1));
  }
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
  TestTrue(makespan == (MICROBATCHES + 1) * 3);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* What replicas give each other within actions: by the rank itself it adds to its work; apart, all
   but one part of a fetch is hidden while it is shorter than the computing, and of folds all but
   the last part. */
static void CheckExchanges(RengaComm comm)
{
  enum { MICROBATCHES = 3 };
  const double forward[] = {4}, backward[] = {8}, fetch[] = {2}, long_fetch[] = {6}, fold[] = {4},
               less[] = {-1};
  const int parts[] = {4}, no_parts[] = {0};
  double makespan, bubble;
  RengaSchedule schedule;
  RengaScheduleDurations durations = {
      .seconds = {[RENGA_ACTION_FORWARD] = forward, [RENGA_ACTION_BACKWARD] = backward},
      .fetch = {[RENGA_ACTION_FORWARD] = fetch, [RENGA_ACTION_BACKWARD] = fetch},
      .fold = fold,
      .parts = parts};
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetShape(schedule, 1, NULL, MICROBATCHES, 0, NULL, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(fabs(makespan - MICROBATCHES * (12 + 2 + 2 + 4)) < 1e-12);
  TestTrue(fabs(bubble - 8.0 / 20) < 1e-12);
  durations.apart = true;
  durations.fold = NULL;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(fabs(makespan - MICROBATCHES * (12 + 0.5 + 0.5)) < 1e-12);
  durations.fetch[RENGA_ACTION_FORWARD] = long_fetch;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(fabs(makespan - MICROBATCHES * (12 + 1.5 + (6 - 4) * 0.75 + 0.5)) < 1e-12);
  durations.fetch[RENGA_ACTION_FORWARD] = fetch;
  durations.first = long_fetch;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(fabs(makespan - (MICROBATCHES * (12 + 0.5 + 0.5) + 1 + (6 - 4) * 0.75)) < 1e-12);
  durations.fetch[RENGA_ACTION_FORWARD] = durations.fetch[RENGA_ACTION_BACKWARD] = NULL;
  durations.first = NULL;
  durations.fold = fold;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(fabs(makespan - (MICROBATCHES * 12 + 1)) < 1e-12);
  durations.parts = no_parts;
  TestError(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble), RENGA_ERR_ARGUMENT,
            "stage 0 fetches and folds in 0 parts");
  durations.parts = parts;
  durations.fold = less;
  TestError(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble), RENGA_ERR_ARGUMENT,
            "fold: -1 seconds at place 0");
  durations.fold = NULL;
  durations.fetch[RENGA_ACTION_BACKWARD] = less;
  TestError(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble), RENGA_ERR_ARGUMENT,
            "fetch: -1 seconds at place 0");
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

int main(int argc, char **argv)
{
  const char *const types[] = {RENGA_SCHEDULE_GPIPE, RENGA_SCHEDULE_1F1B};
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int t = 0; t < 2; t++)
    for (int p = 1; p <= MOST_STAGES; p++)
      for (int64_t m = 0; m <= MOST_MICROBATCHES; m++)
        for (int forward_only = 0; forward_only < 2; forward_only++)
          CheckShape(comm, types[t], p, m, forward_only);
  CheckMessageTimes(comm);
  CheckEager(comm);
  CheckApart(comm);
  CheckExchanges(comm);
  TestTrue(!strcmp(RengaActionName(RENGA_ACTION_BACKWARD_INPUT), "backward input"));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
