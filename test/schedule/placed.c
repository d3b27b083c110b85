/* TEST ranks: 1 */
/* Schedules of several stages for each rank: interleaved, ZB-V and DualPipe-V have the bubbles and
   the memory that are said of them; short steps, replicas and stages that recompute are proved;
   stages that lie otherwise are refused by name. */
#include "messages.h"
#include "replay.h"
#include <math.h>

enum { MOST_RANKS = 8, MOST_CHUNKS = 4, MOST = MOST_RANKS * MOST_CHUNKS, MOST_MICROBATCHES = 32 };

typedef struct {
  RengaSchedule schedule;
  RengaMessage messages[4 * MOST];
  int across, chunks, rank[MOST], stage_of[MOST_RANKS];
} Placed;

static void SetUpPlaced(Placed *placed, const char *type, int across, int chunks, int64_t m)
{
  bool wave;
  int wanted;
  const int stages = across * chunks, n = FillMessages(stages, placed->messages);
  RengaCallAbort(RengaScheduleFindPlacement(type, &wanted, &wave));
  TestTrue(wanted == 2);
  placed->across = across;
  placed->chunks = chunks;
  for (int s = 0; s < stages; s++) {
    const bool back = wave && s / across % 2;
    placed->rank[s] = back ? across - 1 - s % across : s % across;
  }
  for (int r = 0; r < across; r++) placed->stage_of[r] = r;
  RengaCallAbort(RengaScheduleSetType(placed->schedule, type));
  RengaCallAbort(
      RengaScheduleSetShape(placed->schedule, stages, NULL, m, n, placed->messages, false));
  RengaCallAbort(RengaScheduleSetRanks(placed->schedule, placed->rank));
  RengaCallAbort(RengaScheduleSetUp(placed->schedule));
}

/* Seconds beside the work of a rank. */
static double Bubble(const Placed *placed, Replay *replay, int64_t m)
{
  replay->ranks = placed->across;
  ReplayLists(placed->schedule, placed->across * placed->chunks, placed->stage_of, replay);
  return replay->makespan -
         (double)(m * placed->chunks) * (replay->forward + replay->input + replay->weight);
}

static int64_t MostHeld(const Replay *replay)
{
  int64_t most = 0;
  for (int r = 0; r < replay->ranks; r++)
    if (replay->held[r] > most) most = replay->held[r];
  return most;
}

/* Memory is planned for what each stage holds at the most. */
static int64_t MostPlanned(const Placed *placed)
{
  int64_t most = 0;
  for (int r = 0; r < placed->across; r++) {
    int64_t sum = 0, held;
    for (int s = 0; s < placed->across * placed->chunks; s++) {
      RengaCallAbort(RengaScheduleGetInFlight(placed->schedule, s, &held));
      if (placed->rank[s] == r) sum += held;
    }
    if (sum > most) most = sum;
  }
  return most;
}

/* (p-1)(F+B)/v for whole groups of p micro-batches, p(v+1)-1 of a stage held; never behind 1F1B of
   p stages. */
static void CheckInterleaved(Placed *placed)
{
  for (int v = 1; v <= MOST_CHUNKS; v++)
    for (int p = 1; p <= MOST_RANKS; p++)
      for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
        Replay replay = {.forward = 1, .input = 1, .weight = 0.5};
        SetUpPlaced(placed, RENGA_SCHEDULE_INTERLEAVED, p, v, m);
        const double bubble = Bubble(placed, &replay, m);
        TestTrue(bubble <= (p - 1) * 2.5 * v + 1e-9);
        if (m % p == 0 || v == 1) TestTrue(fabs(bubble - (p - 1) * 2.5) < 1e-9);
        const int64_t wanted = v == 1 ? p : p * (v + 1) - 1;
        TestTrue(MostHeld(&replay) == (wanted < m * v ? wanted : m * v) || m % p != 0);
        TestTrue(MostHeld(&replay) <= wanted);
      }
}

/* The first action of the last rank cannot come before p-1 forwards: so much waits at the least. */
static void CheckWave(Placed *placed)
{
  for (int p = 1; p <= MOST_RANKS; p++)
    for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
      Replay replay = {.forward = 1, .input = 1, .weight = 1};
      SetUpPlaced(placed, RENGA_SCHEDULE_ZB_V, p, 2, m);
      const double zero = Bubble(placed, &replay, m);
      TestTrue(MostHeld(&replay) <= 2 * p && MostPlanned(placed) <= 2 * p + 3);
      TestTrue(zero >= p - 1 && (m < 2 * p || zero <= p));
      if (m >= 2 * p && (p <= 4 || p == 6)) TestTrue(zero <= p - 1);
      SetUpPlaced(placed, RENGA_SCHEDULE_DUALPIPE_V, p, 2, m);
      const double dual = Bubble(placed, &replay, m);
      TestTrue(MostHeld(&replay) <= 2 * p + 1 && MostPlanned(placed) <= 2 * p + 1);
      TestTrue(dual >= p - 1 && (m < 2 * p || dual <= p - 1));
      if (m > p && p > 1) TestTrue(zero < 6 * (p - 1) && dual < 6 * (p - 1)); /* 1F1B's */
    }
}

/* Replicas with fewer micro-batches, sums of several buckets, stages that recompute, evaluation. */
static void CheckShapes(RengaSchedule schedule, const char *type)
{
  enum { STAGES = 4, REPLICAS = 3 };
  static const int replicas[STAGES] = {REPLICAS, REPLICAS, REPLICAS, REPLICAS};
  RengaMessage messages[4 * STAGES];
  const int n = FillMessages(STAGES, messages);
  int rank[STAGES * REPLICAS], chunks;
  bool wave;
  RengaCallAbort(RengaScheduleFindPlacement(type, &chunks, &wave));
  for (int s = 0; s < STAGES; s++)
    for (int r = 0; r < REPLICAS; r++)
      rank[s * REPLICAS + r] = (wave && s > 1 ? 3 - s : s % 2) * REPLICAS + r;
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  for (int64_t m = 0; m <= 25; m++)
    for (int training = 0; training < 2; training++) {
      RengaCallAbort(RengaScheduleSetShape(schedule, STAGES, replicas, m, n, messages, !training));
      RengaCallAbort(RengaScheduleSetLeaf(schedule, 1 + m % 3));
      RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
      for (int s = 0; s < STAGES; s++) {
        RengaCallAbort(RengaScheduleSetRecompute(schedule, s, m >> s & 1));
        RengaCallAbort(RengaScheduleSetBuckets(schedule, s, 1 + s % 2));
      }
      RengaCallAbort(RengaScheduleSetUp(schedule));
    }
}

static void CheckRefused(RengaSchedule schedule)
{
  RengaMessage messages[16];
  const int n = FillMessages(4, messages), unequal[] = {1, 2, 1, 2};
  const int round[] = {0, 1, 0, 1}, wave[] = {0, 1, 1, 0}, back[] = {0, 1, 2, 0, 1, 2};
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_ZB_V));
  RengaCallAbort(RengaScheduleSetShape(schedule, 4, NULL, 5, n, messages, false));
  TestError(RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
            "schedule zb-v has 2 virtual stages per rank, but here are 1: give -layout_chunks 2");
  RengaCallAbort(RengaScheduleSetRanks(schedule, round));
  TestError(RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
            "schedule zb-v has stages 0 and 3 on one rank, but here these are stages 0 and 2");
  RengaCallAbort(RengaScheduleSetType(schedule, RENGA_SCHEDULE_INTERLEAVED));
  RengaCallAbort(RengaScheduleSetRanks(schedule, wave));
  TestError(
      RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
      "schedule interleaved has stages 0 and 2 on one rank, but here these are stages 0 and 3");
  RengaCallAbort(RengaScheduleSetShape(schedule, 4, unequal, 5, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, back));
  TestError(
      RengaScheduleSetUp(schedule), RENGA_ERR_PLAN,
      "schedule interleaved has as many replicas of all stages, but stage 0 has 1 and stage 1 "
      "has 2");
}

int main(int argc, char **argv)
{
  static const char *const types[] = {RENGA_SCHEDULE_INTERLEAVED, RENGA_SCHEDULE_ZB_V,
                                      RENGA_SCHEDULE_DUALPIPE_V};
  static Placed placed;
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &placed.schedule));
  CheckInterleaved(&placed);
  CheckWave(&placed);
  for (int t = 0; t < 3; t++) CheckShapes(placed.schedule, types[t]);
  CheckRefused(placed.schedule);
  RengaCallAbort(RengaScheduleDestroy(&placed.schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
