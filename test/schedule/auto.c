/* TEST ranks: 1 */
/* auto: on random pipelines of unequal stages, alone or two on each rank, no type that holds as
   little is faster; lists that are saved, and replayed from the file, are the same ones; bad files
   are told by line. */
#include "messages.h"
#include "renga/private/schedule.h"
#include "replay.h"
#include <math.h>
#include <unistd.h>

enum { MOST_STAGES = 8, PIPELINES = 500, NAME = 256 };

static uint64_t drawn = 7;
static int Draw(int most)
{
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return (int)((drawn >> 33) % (uint64_t)most);
}

/* Of stages that take between 1 and 9, with messages that take up to 2. */
typedef struct {
  int stages, across, n;
  bool wave;
  int64_t m;
  double eager, seconds[3][MOST_STAGES], whole[MOST_STAGES], message[4 * MOST_STAGES];
  int rank[MOST_STAGES];
  RengaMessage messages[4 * MOST_STAGES];
} Pipeline;

static void DrawPipeline(Pipeline *pipeline)
{
  const int chunks = 1 + Draw(2);
  pipeline->across = chunks == 1 ? 1 + Draw(MOST_STAGES) : 1 + Draw(MOST_STAGES / 2);
  pipeline->stages = chunks * pipeline->across;
  pipeline->wave = Draw(2);
  pipeline->m = 1 + Draw(16);
  pipeline->eager = Draw(2) ? 0 : 1;
  pipeline->n = FillMessages(pipeline->stages, pipeline->messages);
  const bool late = Draw(2);
  for (int i = 0; i < pipeline->n; i++) pipeline->message[i] = late ? 0.25 * Draw(9) : 0;
  for (int s = 0; s < pipeline->stages; s++) {
    const int first = s % pipeline->across;
    pipeline->rank[s] =
        pipeline->wave && s / pipeline->across ? pipeline->across - 1 - first : first;
    for (int k = 0; k < 3; k++) pipeline->seconds[k][s] = 1 + 0.25 * Draw(33);
    pipeline->whole[s] = pipeline->seconds[1][s] + pipeline->seconds[2][s];
  }
}

/* False where the type has no lists of the shape. */
static bool Run(RengaComm comm, const Pipeline *pipeline, const char *type, double eager,
                double *makespan, int64_t *held)
{
  const RengaScheduleDurations durations = {
      .seconds = {[RENGA_ACTION_FORWARD] = pipeline->seconds[0],
                  [RENGA_ACTION_BACKWARD] = pipeline->whole,
                  [RENGA_ACTION_BACKWARD_INPUT] = pipeline->seconds[1],
                  [RENGA_ACTION_BACKWARD_WEIGHT] = pipeline->seconds[2]},
      .message = pipeline->message};
  RengaSchedule schedule;
  double bubble;
  FILE *file;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  if (eager > 0) RengaCallAbort(RengaScheduleSetEager(schedule, eager));
  RengaCallAbort(RengaScheduleSetShape(schedule, pipeline->stages, NULL, pipeline->m, pipeline->n,
                                       pipeline->messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, pipeline->rank));
  RengaCallAbort(RengaScheduleSetSeconds(schedule, pipeline->seconds[0], pipeline->seconds[1],
                                         pipeline->seconds[2], pipeline->message));
  const int saved = BeginErrors(&file);
  const bool made = RengaScheduleSetUp(schedule) == RENGA_SUCCESS;
  EndErrors(file, saved);
  *held = 0;
  for (int r = 0; r < pipeline->across && made; r++) {
    int64_t sum = 0, own;
    for (int s = 0; s < pipeline->stages; s++) {
      RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &own));
      if (pipeline->rank[s] == r) sum += own;
    }
    if (sum > *held) *held = sum;
  }
  if (made) RengaCallAbort(RengaScheduleSimulateWith(schedule, &durations, makespan, &bubble));
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  return made;
}

/* Better than all by the greedy lists: counted. */
static bool CheckPipeline(RengaComm comm, const Pipeline *pipeline)
{
  static const char *const types[] = {RENGA_SCHEDULE_1F1B,       RENGA_SCHEDULE_GPIPE,
                                      RENGA_SCHEDULE_ZB_H1,      RENGA_SCHEDULE_ZB_H2,
                                      RENGA_SCHEDULE_ZB_V,       RENGA_SCHEDULE_DUALPIPE_V,
                                      RENGA_SCHEDULE_INTERLEAVED};
  double own = 0, other = 0, best = HUGE_VAL;
  int64_t held, bound = 0;
  TestTrue(Run(comm, pipeline, RENGA_SCHEDULE_1F1B, 0, &other, &bound));
  bound += RengaScheduleEarly(pipeline->eager, pipeline->stages - 1);
  TestTrue(Run(comm, pipeline, RENGA_SCHEDULE_AUTO, pipeline->eager, &own, &held));
  TestTrue(held <= bound);
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    if (Run(comm, pipeline, types[t], 0, &other, &held) && held <= bound) best = fmin(best, other);
  TestTrue(own <= best * (1 + 1e-12));
  return own < best * (1 - 1e-9);
}

static void CheckReplay(RengaComm comm, const char *type, int across, int chunks, int64_t m)
{
  enum { REPLICAS = 2 };
  const int stages = across * chunks, replicas[MOST_STAGES] = {2, 2, 2, 2, 2, 2, 2, 2};
  int rank[REPLICAS * MOST_STAGES], wanted;
  bool wave, lies;
  char name[NAME];
  RengaMessage messages[4 * MOST_STAGES];
  RengaSchedule schedule, again;
  const int n = FillMessages(stages, messages);
  snprintf(name, sizeof name, "file:schedule.%d.txt", (int)getpid());
  RengaCallAbort(RengaScheduleFindPlacement(type, &wanted, &wave));
  for (int s = 0; s < stages; s++)
    for (int r = 0; r < REPLICAS; r++)
      rank[s * REPLICAS + r] =
          (wave && s / across % 2 ? across - 1 - s % across : s % across) * REPLICAS + r;
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleCreate(comm, &again));
  RengaCallAbort(RengaScheduleSetType(schedule, type));
  RengaCallAbort(RengaScheduleSetShape(schedule, stages, replicas, m, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(schedule, rank));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSave(schedule, name + strlen(RENGA_SCHEDULE_FILE)));
  RengaCallAbort(RengaScheduleFindPlacement(name, &wanted, &lies));
  TestTrue(wanted == chunks && (lies == wave || across == 1));
  RengaCallAbort(RengaScheduleSetType(again, name));
  RengaCallAbort(RengaScheduleSetShape(again, stages, replicas, m, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(again, rank));
  RengaCallAbort(RengaScheduleSetUp(again));
  for (int s = 0; s < across; s++)
    for (int r = 0; r < REPLICAS; r++) {
      const RengaAction *one, *other;
      int64_t count, counted;
      RengaCallAbort(RengaScheduleGetActions(schedule, s, r, &count, &one));
      RengaCallAbort(RengaScheduleGetActions(again, s, r, &counted, &other));
      TestTrue(count == counted);
      for (int64_t i = 0; i < count; i++)
        TestTrue(one[i].kind == other[i].kind && one[i].stage == other[i].stage &&
                 one[i].microbatch == other[i].microbatch && one[i].message == other[i].message);
    }
  RengaCallAbort(RengaScheduleSetShape(again, stages, replicas, m / 2, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(again, rank));
  RengaCallAbort(RengaScheduleSetUp(again));
  RengaCallAbort(RengaScheduleSetShape(again, stages, replicas, m + 2, n, messages, false));
  RengaCallAbort(RengaScheduleSetRanks(again, rank));
  TestError(RengaScheduleSetUp(again), RENGA_ERR_PLAN, "micro-batches, but a replica has");
  unlink(name + strlen(RENGA_SCHEDULE_FILE));
  RengaCallAbort(RengaScheduleDestroy(&again));
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

/* Two stages, one micro-batch. */
static void CheckBad(RengaComm comm, const char *text, RengaErrorCode code, const char *wanted)
{
  char name[NAME];
  RengaMessage messages[8];
  RengaSchedule schedule;
  snprintf(name, sizeof name, "file:bad.%d.txt", (int)getpid());
  FILE *file = fopen(name + strlen(RENGA_SCHEDULE_FILE), "w");
  TestTrue(file != NULL);
  fputs(text, file);
  fclose(file);
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  RengaCallAbort(RengaScheduleSetType(schedule, name));
  RengaCallAbort(
      RengaScheduleSetShape(schedule, 2, NULL, 1, FillMessages(2, messages), messages, false));
  TestError(RengaScheduleSetUp(schedule), code, wanted);
  unlink(name + strlen(RENGA_SCHEDULE_FILE));
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

#define HEAD "renga-schedule 1\nranks 2 stages 2 microbatches 1 round\n"
static void CheckBadFiles(RengaComm comm)
{
  static const struct {
    const char *text;
    RengaErrorCode code;
    const char *wanted;
  } bad[] = {
      {"renga-plan 4\n", RENGA_ERR_FILE_FORMAT, "txt:1: \"renga-plan 4\": a schedule begins with"},
      {"renga-schedule 1\nranks 2 stages 3 microbatches 1 round\n", RENGA_ERR_FILE_FORMAT,
       "3 stages cannot be placed on 2 ranks"},
      {"renga-schedule 1\nranks 2 stages 2 microbatches 1 square\n", RENGA_ERR_FILE_FORMAT,
       ":2: \"ranks 2 stages 2 microbatches 1 square\": expected: ranks P stages S"},
      {HEAD "forward 0 0\n", RENGA_ERR_FILE_FORMAT, "before the first \"rank R\""},
      {HEAD "rank 1\n", RENGA_ERR_FILE_FORMAT, ":3: \"rank 1\": ranks come in their order"},
      {HEAD "rank 0\nfroward 0 0\n", RENGA_ERR_FILE_FORMAT,
       ":4: \"froward 0 0\": froward is no action"},
      {HEAD "rank 0\nforward 0\n", RENGA_ERR_FILE_FORMAT, "expected: forward STAGE MICROBATCH"},
      {HEAD "rank 0\nforward 2 0\n", RENGA_ERR_FILE_FORMAT, "stage 2 of 2"},
      {HEAD "rank 0\nforward 4294967296 0\n", RENGA_ERR_FILE_FORMAT, "stage 4294967296 of 2"},
      {HEAD "rank 4294967296\n", RENGA_ERR_FILE_FORMAT, "ranks come in their order"},
      {"renga-schedule 1\nranks 4294967298 stages 4294967298 microbatches 1 round\n",
       RENGA_ERR_FILE_FORMAT, "4294967298 stages cannot be placed on 4294967298 ranks"},
      {HEAD "rank 0\nforward 1 0\n", RENGA_ERR_FILE_FORMAT, "stage 1 is rank 1's, not rank 0's"},
      {HEAD "rank 0\nforward 0 1\n", RENGA_ERR_FILE_FORMAT, "micro-batch 1 of 1"},
      {HEAD "rank 0\nforward 0 0\nforward 0 0\n", RENGA_ERR_FILE_FORMAT,
       ":5: \"forward 0 0\": forward of stage 0 and micro-batch 0 is there a second time"},
      {HEAD "rank 0\nforward 0 0\nrank 1\nbackward-weight 1 0\nbackward-weight 1 0\n",
       RENGA_ERR_FILE_FORMAT,
       "backward-weight of stage 1 and micro-batch 0 is there a second time"},
      {HEAD "rank 0\nforward 0 0\nbackward-input 0 0\nbackward 0 0\n", RENGA_ERR_FILE_FORMAT,
       ":6: \"backward 0 0\": the backward of stage 0 and micro-batch 0 is there whole, and in"},
      {HEAD "rank 0\nforward 0 0\nbackward 0 0\nbackward-weight 0 0\n", RENGA_ERR_FILE_FORMAT,
       "the backward of stage 0 and micro-batch 0 is there whole, and in halves"},
      {HEAD "rank 0\nforward 0 0\nend\n", RENGA_ERR_FILE_FORMAT,
       "the lists of ranks 1 to 1 are missing"},
      {HEAD "rank 0\nforward 0 0\n", RENGA_ERR_FILE_FORMAT, "the file is cut off"},
      {HEAD "rank 0\nbackward 0 0\nforward 0 0\nrank 1\nforward 1 0\nbackward 1 0\nend\n",
       RENGA_ERR_PLAN, "it waits for ever: nothing sends this message"},
      {HEAD "rank 0\nforward 0 0\nbackward 0 0\nrank 1\nbackward 1 0\nend\n", RENGA_ERR_PLAN,
       "(backward, micro-batch 0): it comes before its forward"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CheckBad(comm, bad[i].text, bad[i].code, bad[i].wanted);
}

int main(int argc, char **argv)
{
  static Pipeline pipeline;
  RengaComm comm;
  int better = 0;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int i = 0; i < PIPELINES; i++) {
    DrawPipeline(&pipeline);
    better += CheckPipeline(comm, &pipeline);
  }
  printf("%d of %d pipelines are faster than by any named type\n", better, PIPELINES);
  TestTrue(better > PIPELINES / 4);
  CheckReplay(comm, RENGA_SCHEDULE_1F1B, 4, 1, 9);
  CheckReplay(comm, RENGA_SCHEDULE_GPIPE, 3, 2, 6);
  CheckReplay(comm, RENGA_SCHEDULE_ZB_H2, 4, 1, 15);
  CheckReplay(comm, RENGA_SCHEDULE_INTERLEAVED, 2, 3, 8);
  CheckReplay(comm, RENGA_SCHEDULE_ZB_V, 4, 2, 17);
  CheckReplay(comm, RENGA_SCHEDULE_DUALPIPE_V, 3, 2, 14);
  CheckBadFiles(comm);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
