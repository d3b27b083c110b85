/* TEST ranks: 1 */
/* Several stages on one rank: each keeps the order that it has alone, nothing waits for ever,
   whatever the placement; what cannot be is refused. Sums beside the work and messages that queue
   take their time. */
#include "../plan/plantest.h"
#include "messages.h"
#include <math.h>

enum { MOST_STAGES = 12, MOST_REPLICAS = 3, MOST_SEATS = MOST_STAGES * MOST_REPLICAS };

/* Stages round and round the ranks, or there and back; [stage][replica]. */
static void Place(int stages, int across, int replicas, bool back, int rank[])
{
  for (int s = 0; s < stages; s++) {
    const int round = s / across, place = s % across;
    for (int r = 0; r < replicas; r++)
      rank[s * replicas + r] = (back && round % 2 ? across - 1 - place : place) * replicas + r;
  }
}

/* The actions of a stage among those of its rank are those that it has alone. Where nothing is
   backward, forwards may run ahead of those of later stages of the rank. */
static void CheckAlone(RengaSchedule schedule, RengaSchedule alone, int stages, int across,
                       int replicas, bool training)
{
  for (int s = 0; s < stages; s++) {
    int64_t held, wanted;
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    RengaCallAbort(RengaScheduleGetInFlight(alone, s, &wanted));
    TestTrue(held == (across < stages && !training ? stages - s : wanted));
    for (int r = 0; r < replicas; r++) {
      int64_t count, n, found = 0;
      const RengaAction *action, *own;
      RengaCallAbort(RengaScheduleGetActions(schedule, s, r, &count, &action));
      RengaCallAbort(RengaScheduleGetActions(alone, s, r, &n, &own));
      for (int64_t i = 0; i < count; i++) {
        if (action[i].stage != s || action[i].kind == RENGA_ACTION_UPDATE) continue;
        TestTrue(found < n && action[i].kind == own[found].kind && action[i].replica == r);
        TestTrue(action[i].microbatch == own[found].microbatch);
        TestTrue(action[i].message == own[found].message);
        found++;
      }
      TestTrue(found == n - training);
      TestTrue(!training || action[count - 1].kind == RENGA_ACTION_UPDATE);
    }
  }
}

static void CheckPlacement(RengaSchedule schedule, RengaSchedule alone, int stages, int across,
                           int replicas, bool back)
{
  RengaMessage messages[4 * MOST_STAGES];
  const int n = FillMessages(stages, messages);
  int rank[MOST_SEATS], each[MOST_STAGES], ranks;
  double forward[MOST_STAGES], backward[MOST_STAGES], makespan, bubble;
  Place(stages, across, replicas, back, rank);
  for (int s = 0; s < stages; s++) each[s] = replicas, forward[s] = 1, backward[s] = 2;
  for (int64_t m = 1; m <= 13; m += 3)
    for (int training = 0; training < 2; training++) {
      RengaCallAbort(RengaScheduleSetShape(alone, stages, each, m, n, messages, !training));
      RengaCallAbort(RengaScheduleSetUp(alone));
      RengaCallAbort(RengaScheduleSetShape(schedule, stages, each, m, n, messages, !training));
      RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
      RengaCallAbort(RengaScheduleSetUp(schedule));
      RengaCallAbort(RengaScheduleGetRankCount(schedule, &ranks));
      TestTrue(ranks == across * replicas);
      CheckAlone(schedule, alone, stages, across, replicas, training);
      RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, NULL, &makespan, &bubble));
      TestTrue(makespan >=
                   (double)((m + replicas - 1) / replicas * (training ? 3 : 1) * stages / across) &&
               bubble >= 0);
    }
}

static void CheckPlacements(RengaComm comm, const char *type, double eager)
{
  RengaSchedule schedule, alone;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleCreate(comm, &alone));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  RengaCallAbort(RengaScheduleSetType(alone, type));
  if (eager > 0) RengaCallAbort(RengaScheduleSetEager(schedule, eager));
  if (eager > 0) RengaCallAbort(RengaScheduleSetEager(alone, eager));
  for (int across = 1; across <= 4; across++)
    for (int chunks = 1; chunks <= 3; chunks++)
      for (int replicas = 1; replicas <= MOST_REPLICAS; replicas += 1 + (across > 2))
        for (int back = 0; back < 2; back++)
          CheckPlacement(schedule, alone, across * chunks, across, replicas, back);
  RengaCallAbort(RengaScheduleDestroy(&alone));
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* Stages of other numbers of replicas in turn, so that ranks work through several lanes: what a
   stage writes over is taken later than it is where all have the same. */
static void CheckUnequal(RengaComm comm, const char *type, int across, int chunks, int first)
{
  enum { MOST_MICROBATCHES = 21 };
  RengaMessage messages[4 * MOST_STAGES];
  int each[MOST_STAGES], rank[MOST_SEATS], start[MOST_STAGES + 1] = {0};
  const int stages = across * chunks, n = FillMessages(stages, messages);
  RengaSchedule schedule;
  for (int s = 0; s < stages; s++) {
    each[s] = s % across % 2 == first ? 1 : 2;
    start[s + 1] = start[s] + each[s];
    for (int r = 0; r < each[s]; r++) rank[start[s] + r] = start[s % across] + r;
  }
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  for (int64_t m = 1; m <= MOST_MICROBATCHES; m += 4)
    for (int training = 0; training < 2; training++) {
      RengaCallAbort(RengaScheduleSetShape(schedule, stages, each, m, n, messages, !training));
      RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
      RengaCallAbort(RengaScheduleSetUp(schedule));
    }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

static void CheckAllUnequal(RengaComm comm)
{
  for (int across = 2; across <= 4; across++)
    for (int chunks = 1; chunks <= 3; chunks++)
      for (int first = 0; first < 2; first++) {
        CheckUnequal(comm, RENGA_SCHEDULE_GPIPE, across, chunks, first);
        CheckUnequal(comm, RENGA_SCHEDULE_1F1B, across, chunks, first);
      }
}

static void CheckRefused(RengaComm comm)
{
  RengaMessage messages[16];
  const int n = FillMessages(4, messages), replicas[] = {2, 2, 1, 1};
  const RengaScheduleChunk *chunk;
  RengaSchedule schedule;
  int count;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetShape(schedule, 4, replicas, 5, n, messages, false));
  TestError(RengaScheduleSetRanks(schedule, (int[]){0, 0, 1, 2, 0, 1}), RENGA_ERR_ARGUMENT,
            "two replicas of stage 0 are on rank 0");
  TestError(RengaScheduleSetRanks(schedule, (int[]){0, 1, 2, 4, 0, 1}), RENGA_ERR_ARGUMENT,
            "1 of the schedule's ranks 0 to 4 have no stage");
  TestError(RengaScheduleSetRanks(schedule, (int[]){0, 1, 2, 6, 0, 1}), RENGA_ERR_ARGUMENT,
            "stage 1 is on rank 6 of a schedule of at most 6");
  RengaCallAbort(RengaScheduleSetRanks(schedule, (int[]){0, 1, 2, 3, 1, 0}));
  RengaCallAbort(RengaScheduleGetChunks(schedule, 1, &count, &chunk));
  TestTrue(count == 2 && chunk[0].stage == 0 && chunk[0].replica == 1 && chunk[1].stage == 2);
  TestTrue(chunk[0].first == 2 && chunk[0].count == 3 && chunk[1].count == 5);
  TestError(RengaScheduleGetChunks(schedule, 4, &count, &chunk), RENGA_ERR_ARGUMENT,
            "rank 4 of a schedule of 4");
  RengaCallAbort(RengaScheduleSetUp(schedule)); /* stages of other numbers of replicas */
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* One stage on two replicas: 3 micro-batches and 2, sums of 2 s for each of 2 buckets, one behind
   the other, then the update. Two messages of 5 s that queue. */
static void CheckTracks(RengaComm comm)
{
  const RengaMessage messages[] = {
      {"h", 0, 1, false, 8}, {"k", 0, 1, false, 8}, {"h", 1, 0, true, 8}};
  const double one[] = {1, 1}, two[] = {2, 2}, seconds[] = {5, 5, 0};
  const int replicas[] = {2};
  double makespan, bubble;
  RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = one,
                                                  [RENGA_ACTION_BACKWARD] = two,
                                                  [RENGA_ACTION_REDUCE] = two,
                                                  [RENGA_ACTION_UPDATE] = one}};
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetShape(schedule, 1, replicas, 5, 0, NULL, false));
  RengaCallAbort(RengaScheduleSetBuckets(schedule, 0, 2));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(makespan == 3 * 3 + 2 * 2 + 1);
  TestTrue(fabs(bubble - (1 - (5 * 3 + 2 * 1) / (2 * makespan))) < 1e-12);
  RengaCallAbort(RengaScheduleSetShape(schedule, 2, NULL, 1, 3, messages, false));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  durations.message = seconds;
  durations.seconds[RENGA_ACTION_REDUCE] = durations.seconds[RENGA_ACTION_UPDATE] = NULL;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(makespan == 1 + 5 + 1 + 2 + 2);
  durations.queue = true;
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(makespan == 1 + 5 + 5 + 1 + 2 + 2);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* The same lists with all sums behind the work. */
static void PutSumsLast(RengaSchedule schedule, int stages, int replicas)
{
  enum { MOST_ACTIONS = 256 };
  for (int s = 0; s < stages; s++)
    for (int r = 0; r < replicas; r++) {
      RengaAction moved[MOST_ACTIONS];
      const RengaAction *action;
      int64_t count, n = 0;
      RengaCallAbort(RengaScheduleGetActions(schedule, s, r, &count, &action));
      TestTrue(count <= MOST_ACTIONS);
      for (int last = 0; last < 2; last++)
        for (int64_t i = 0; i < count; i++)
          if ((action[i].microbatch < 0) == last) moved[n++] = action[i];
      RengaCallAbort(RengaScheduleSetActions(schedule, s, r, count, moved));
    }
}

/* Two stages on each rank, each with two replicas: a later stage's gradients are summed while the
   earlier ones compute. A forward takes 1 s, a backward 2 s, a sum 8 s. */
static void CheckEarlySums(RengaComm comm, const char *type, double early, double late)
{
  enum { STAGES = 4, REPLICAS = 2, MICROBATCHES = 8 };
  const double one[] = {1, 1, 1, 1}, two[] = {2, 2, 2, 2}, eight[] = {8, 8, 8, 8};
  const int replicas[] = {REPLICAS, REPLICAS, REPLICAS, REPLICAS};
  const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = one,
                                                        [RENGA_ACTION_BACKWARD] = two,
                                                        [RENGA_ACTION_REDUCE] = eight}};
  RengaMessage messages[4 * STAGES];
  int rank[STAGES * REPLICAS];
  double makespan, bubble;
  RengaSchedule schedule;
  Place(STAGES, 2, REPLICAS, false, rank);
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, replicas, MICROBATCHES,
                                       FillMessages(STAGES, messages), messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(makespan == early);
  PutSumsLast(schedule, STAGES, REPLICAS);
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  TestTrue(makespan == late);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  CheckPlacements(comm, RENGA_SCHEDULE_GPIPE, 0);
  CheckPlacements(comm, RENGA_SCHEDULE_1F1B, 0);
  CheckPlacements(comm, RENGA_SCHEDULE_1F1B, 0.75);
  CheckAllUnequal(comm);
  CheckRefused(comm);
  CheckTracks(comm);
  CheckEarlySums(comm, RENGA_SCHEDULE_GPIPE, 39, 43);
  CheckEarlySums(comm, RENGA_SCHEDULE_1F1B, 43, 47);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
