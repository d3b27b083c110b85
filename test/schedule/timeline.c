/* TEST ranks: 1 */
/* A step that was run, drawn beside its simulation: bars as simulated give the same step in
   all three ways, messages that are slow show in the measured one alone, each replica has its own
   pace, of sums that begin in the last backward counts what is left behind it, and bars that are
   none of the schedule's are refused. */
#include "../plan/plantest.h"
#include <math.h>

enum { STAGES = 2, MICROBATCHES = 3, MOST = 64 };

static const RengaMessage messages[] = {{"h", 0, 1, false, 8}, {"h", 1, 0, true, 8}};

/* GPipe of two stages, a forward of 1 s and a backward of 2 s; messages take `delay`. */
static int64_t FillBars(RengaSchedule schedule, double delay, RengaScheduleBar bar[])
{
  int64_t count = 0;
  for (int s = 0; s < STAGES; s++) {
    const RengaAction *action;
    int64_t n, forward = 0, backward = 0;
    RengaCallAbort(RengaScheduleGetActions(schedule, s, 0, &n, &action));
    const double first = s ? 1 + delay : 0;
    const double back = s ? first + MICROBATCHES : 1 + delay + MICROBATCHES + 2 + delay;
    for (int64_t a = 0; a < n; a++) {
      double begin = 0, end = 0;
      if (action[a].kind == RENGA_ACTION_FORWARD) {
        begin = first + (double)forward++;
        end = begin + 1;
      } else if (action[a].kind == RENGA_ACTION_BACKWARD) {
        begin = back + 2 * (double)backward++;
        end = begin + 2;
      } else if (action[a].kind == RENGA_ACTION_SEND) {
        begin = end = s ? back + 2 * (double)backward : (double)forward;
      } else if (action[a].kind == RENGA_ACTION_RECEIVE) {
        begin = end = s ? first + (double)forward : back + 2 * (double)backward;
      } else {
        continue;
      }
      bar[count++] = (RengaScheduleBar){action[a], 100 + begin, 100 + end};
    }
  }
  return count;
}

static void Draw(RengaComm comm, RengaSchedule schedule, RengaScheduleStep *step)
{
  RengaViewer viewer;
  RengaCallAbort(RengaViewerCreate(comm, "draw:/dev/null", &viewer));
  RengaCallAbort(RengaScheduleDraw(schedule, step, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
}

static void CheckSteps(RengaComm comm, RengaSchedule schedule)
{
  RengaScheduleBar bar[MOST];
  RengaScheduleStep step = {.count = FillBars(schedule, 0, bar), .bar = bar};
  const double makespan = 3 * (MICROBATCHES + STAGES - 1);
  Draw(comm, schedule, &step);
  TestTrue(step.simulated == 0); /* nobody says what a step takes */
  TestTrue(fabs(step.measured - makespan) < 1e-9 && fabs(step.replayed - makespan) < 1e-9);
  step.count = FillBars(schedule, 0.5, bar);
  Draw(comm, schedule, &step);
  TestTrue(fabs(step.measured - makespan - 1) < 1e-9 && fabs(step.replayed - makespan) < 1e-9);
  step.count = 0;
  Draw(comm, schedule, &step);
  TestTrue(step.measured == 0 && step.replayed == 0);
}

/* Two replicas of 1f1b with two micro-batches each, a forward of 1 s, a backward of 2 s. The second
   begins 0.25 s later, and takes `slow` times that. Sums of two buckets begin 1.5 and 0.5 s before
   the end of its backward, and end 0.25 and 0.75 s behind it; norms take 0.5 s, the update 1 s. */
static int64_t FillReplicas(RengaSchedule schedule, double slow, RengaScheduleBar bar[])
{
  const double worked = 0.25 + 6 * slow;
  int64_t count = 0;
  for (int r = 0; r < 2; r++) {
    const RengaAction *action;
    int64_t n;
    double now = r ? 0.25 : 0;
    RengaCallAbort(RengaScheduleGetActions(schedule, 0, r, &n, &action));
    for (int64_t a = 0; a < n; a++) {
      const bool sum = action[a].kind == RENGA_ACTION_REDUCE;
      const bool update = action[a].kind == RENGA_ACTION_UPDATE;
      const double unit = action[a].kind == RENGA_ACTION_BACKWARD ? 2 : 1;
      double begin = now, end = now + unit * (r ? slow : 1);
      if (sum)
        begin = worked - 1.5 + action[a].bucket, end = worked + 0.25 + 0.5 * action[a].bucket;
      if (update) begin = worked + 1.25, end = begin + 1;
      if (!sum) now = end;
      bar[count++] = (RengaScheduleBar){action[a], begin, end};
    }
  }
  return count;
}

static void CheckReplicas(RengaComm comm)
{
  const int replicas[] = {2};
  RengaScheduleBar bar[MOST];
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_1F1B));
  RengaCallAbort(RengaScheduleSetShape(schedule, 1, replicas, 4, 0, NULL, false));
  RengaCallAbort(RengaScheduleSetBuckets(schedule, 0, 2));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  for (double slow = 1; slow < 2; slow += 0.5) {
    RengaScheduleStep step = {.count = FillReplicas(schedule, slow, bar), .bar = bar};
    Draw(comm, schedule, &step);
    TestTrue(fabs(step.measured - (0.25 + 6 * slow + 0.75 + 0.5 + 1)) < 1e-9);
    TestTrue(fabs(step.replayed - (6 * slow + 0.75 + 0.5 + 1)) < 1e-9); /* none begins late */
  }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

static void CheckRefusals(RengaComm comm, RengaSchedule schedule)
{
  RengaScheduleBar bar[MOST];
  RengaScheduleStep step = {.count = FillBars(schedule, 0, bar), .bar = bar};
  RengaViewer viewer, ascii;
  RengaCallAbort(RengaViewerCreate(comm, "draw:/dev/null", &viewer));
  RengaCallAbort(RengaViewerCreate(comm, "ascii:/dev/null", &ascii));
  TestError(RengaScheduleDraw(schedule, &step, ascii), RENGA_ERR_SUPPORT,
            "a step is drawn by a viewer of kind draw, not ascii");
  bar[1].action.stage = STAGES;
  TestError(RengaScheduleDraw(schedule, &step, viewer), RENGA_ERR_ARGUMENT, "a bar of stage 2");
  bar[1].action.stage = 0;
  bar[2].end = bar[2].begin - 1;
  TestError(RengaScheduleDraw(schedule, &step, viewer), RENGA_ERR_ARGUMENT, "a bar from ");
  step.count = -1;
  TestError(RengaScheduleDraw(schedule, &step, viewer), RENGA_ERR_ARGUMENT, "-1 bars");
  RengaCallAbort(RengaViewerDestroy(&ascii));
  RengaCallAbort(RengaViewerDestroy(&viewer));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaSchedule schedule;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_GPIPE));
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, NULL, MICROBATCHES, 2, messages, false));
  TestError(RengaScheduleDraw(schedule, NULL, (RengaViewer)comm), RENGA_ERR_ORDER,
            "RengaScheduleSetUp");
  RengaCallAbort(RengaScheduleSetUp(schedule));
  CheckSteps(comm, schedule);
  CheckReplicas(comm);
  CheckRefusals(comm, schedule);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
