/* TEST ranks: 1 */
/* Lists that are set up without a proof can be proved, of many shapes, and what ranks hold is what
   the proof counts; where replicas wait for each other within them they are proved all the same. */
#include "../plan/plantest.h"
#include "messages.h"
#include "renga/private/schedule.h"

enum { MOST_STAGES = 6, MOST_REPLICAS = 4, MOST_MICROBATCHES = 24, SHAPES = 2000 };
enum { MOST_MESSAGES = MOST_STAGES * MOST_STAGES };
static const char *const types[] = {RENGA_SCHEDULE_GPIPE, RENGA_SCHEDULE_1F1B, RENGA_SCHEDULE_ZB_H1,
                                    RENGA_SCHEDULE_ZB_H2};

typedef struct {
  int stages, replicas[MOST_STAGES];
  int64_t microbatches, leaf;
  uint64_t recompute; /* a bit of each stage */
  uint64_t sends;     /* a bit of each pair of stages; 0: a chain and more */
} Shape;

typedef struct {
  int64_t held[MOST_STAGES], lag[MOST_STAGES];
  double makespan;
} Numbers;

static int Draw(uint64_t *draw, int below)
{
  *draw = *draw * 6364136223846793005u + 1442695040888963407u;
  return (int)((*draw >> 33) % (uint64_t)below);
}

static Shape DrawShape(uint64_t *draw)
{
  const bool equal = Draw(draw, 3) == 0;
  Shape shape = {.stages = 1 + Draw(draw, MOST_STAGES),
                 .microbatches = 1 + Draw(draw, MOST_MICROBATCHES),
                 .leaf = 1 + Draw(draw, 3),
                 .recompute = (uint64_t)Draw(draw, 1 << MOST_STAGES)};
  for (int s = 0; s < shape.stages; s++)
    shape.replicas[s] = equal && s ? shape.replicas[0] : 1 + Draw(draw, MOST_REPLICAS);
  if (Draw(draw, 2)) shape.sends = 1 + (uint64_t)Draw(draw, 1 << 15);
  return shape;
}

/* Of any pairs of stages: some have no way between them. */
static int FillPairs(const Shape *shape, RengaMessage rows[])
{
  int n = 0, pair = 0;
  for (int to = 1; to < shape->stages; to++)
    for (int from = 0; from < to; from++)
      if (shape->sends >> pair++ & 1) {
        rows[n++] = (RengaMessage){"pair", from, to, false, 8};
        rows[n++] = (RengaMessage){"pair", to, from, true, 8};
      }
  return n;
}

static void TakeShape(RengaSchedule schedule, const Shape *shape, RengaMessage messages[])
{
  const int n = shape->sends ? FillPairs(shape, messages) : FillMessages(shape->stages, messages);
  RengaCallAbort(RengaScheduleSetShape(schedule, shape->stages, shape->replicas,
                                       shape->microbatches, n, messages, false));
  RengaCallAbort(RengaScheduleSetLeaf(schedule, shape->leaf));
  for (int s = 0; s < shape->stages; s++)
    RengaCallAbort(RengaScheduleSetRecompute(schedule, s, shape->recompute >> s & 1));
}

static Numbers NumbersOf(RengaSchedule schedule, int stages)
{
  static const double forward[MOST_STAGES] = {3, 1, 4, 1, 5, 9}, half[MOST_STAGES] = {2, 6, 5, 3};
  Numbers numbers = {0};
  double bubble;
  RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = forward,
                                                  [RENGA_ACTION_RECOMPUTE] = forward,
                                                  [RENGA_ACTION_BACKWARD] = forward,
                                                  [RENGA_ACTION_BACKWARD_INPUT] = half,
                                                  [RENGA_ACTION_BACKWARD_WEIGHT] = half}};
  for (int s = 0; s < stages; s++) {
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &numbers.held[s]));
    RengaCallAbort(RengaScheduleGetLag(schedule, s, &numbers.lag[s]));
  }
  RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, &numbers.makespan, &bubble));
  return numbers;
}

static void CheckType(RengaComm comm, const char *type)
{
  uint64_t draw = 7;
  RengaMessage messages[MOST_MESSAGES];
  RengaSchedule schedule;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  for (int i = 0; i < SHAPES; i++) {
    const Shape shape = DrawShape(&draw);
    if (!strcmp(type, RENGA_SCHEDULE_1F1B))
      RengaCallAbort(RengaScheduleSetEager(schedule, 0.25 * Draw(&draw, 9)));
    TakeShape(schedule, &shape, messages);
    RengaCallAbort(RengaScheduleSetUpKnown_Private(schedule));
    const Numbers known = NumbersOf(schedule, shape.stages);
    TakeShape(schedule, &shape, messages);
    RengaCallAbort(RengaScheduleSetUp(schedule));
    const Numbers proved = NumbersOf(schedule, shape.stages);
    for (int s = 0; s < shape.stages; s++)
      TestTrue(known.held[s] == proved.held[s] && known.lag[s] == proved.lag[s]);
    TestTrue(known.makespan == proved.makespan);
  }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) CheckType(comm, types[t]);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
