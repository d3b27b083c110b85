/* TEST ranks: 1 2 4 */
/* A schedule from outside: forwards run ahead by numbers that a seed makes, backwards are in two
   parts, ranks have several stages; loss and parameters have the bits of 1f1b, memory is what was
   forecast, what a step takes is simulated, and what cannot be is refused. */
#include "../check.h"
#include "../delayed.h"
#include "wave.h"

enum { SAMPLES = 26, MICROBATCH = 2, STEPS = 3, SEEDS = 8 };

typedef struct {
  RengaScheduleForwards forwards;
  void *user;
} Ahead;

static uint32_t Scramble(uint32_t a, uint32_t b, uint32_t c)
{
  uint32_t x = a * 2654435761u ^ b * 40503u ^ c * 2246822519u;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ x >> 13;
}

/* Each stage runs ahead of the next by 1 to 3, which changes in the step. */
static RengaErrorCode FillBySeed(int stages, const int replicas[], int stage, int64_t count,
                                 int64_t forwards[], void *user)
{
  (void)replicas;
  for (int64_t i = 0; i < count; i++) {
    int64_t ahead = i + 1;
    for (int s = stage; s < stages; s++)
      ahead += (s < stages - 1) + Scramble(*(const uint32_t *)user, (uint32_t)s, (uint32_t)i) % 3;
    forwards[i] = ahead < count ? ahead : count;
    if (i > 0 && forwards[i] < forwards[i - 1]) forwards[i] = forwards[i - 1];
  }
  return RENGA_SUCCESS;
}

/* The last stage wants all forwards first, the others give them one by one. */
static RengaErrorCode FillStuck(int stages, const int replicas[], int stage, int64_t count,
                                int64_t forwards[], void *user)
{
  (void)replicas;
  (void)user;
  for (int64_t i = 0; i < count; i++) forwards[i] = stage == stages - 1 ? count : i + 1;
  return RENGA_SUCCESS;
}

/* The first rank runs further ahead, in the lists of all. */
static RengaErrorCode FillByRank(int stages, const int replicas[], int stage, int64_t count,
                                 int64_t forwards[], void *user)
{
  int rank;
  (void)replicas;
  (void)user;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int64_t i = 0; i < count; i++) {
    const int64_t ahead = i + stages - stage + (rank == 0);
    forwards[i] = ahead < count ? ahead : count;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillNothing(int stages, const int replicas[], int stage, int64_t count,
                                  int64_t forwards[], void *user)
{
  (void)stages, (void)replicas, (void)stage, (void)count, (void)forwards, (void)user;
  return RENGA_SUCCESS;
}

/* The user of each rule says how far its forwards run ahead. */
static RengaErrorCode BuildAhead(RengaSchedule schedule, int rank, RengaActionList list, void *user)
{
  const Ahead *ahead = user;
  (void)schedule, (void)rank;
  RengaCall(RengaActionListFill(list, ahead->forwards, ahead->user));
  return RENGA_SUCCESS;
}

/* Whole backwards and such in two parts, as a seed says. */
static RengaErrorCode BuildMixed(RengaSchedule schedule, int rank, RengaActionList list, void *user)
{
  const RengaScheduleChunk *chunk;
  int count;
  int64_t weight = 0;
  RengaCall(RengaScheduleGetChunks(schedule, rank, &count, &chunk));
  const int s = chunk->stage;
  for (int64_t i = 0; i < chunk->count; i++)
    RengaCall(RengaActionListAdd(list, RENGA_ACTION_FORWARD, s, chunk->order[i]));
  for (int64_t i = 0; i < chunk->count; i++) {
    const uint32_t choice = Scramble(*(const uint32_t *)user, (uint32_t)s, (uint32_t)i) % 3;
    if (choice == 0 && weight == i) {
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD, s, chunk->order[i]));
      weight++;
      continue;
    }
    RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_INPUT, s, chunk->order[i]));
    for (; weight <= i && choice == 1; weight++)
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_WEIGHT, s, chunk->order[weight]));
  }
  for (; weight < chunk->count; weight++)
    RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_WEIGHT, s, chunk->order[weight]));
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

static int chunks = 1; /* stages of each rank */

static RengaErrorCode PlanOf(RengaComm comm, RengaGraph graph, int stages, RengaPlan *plan)
{
  RengaPartition partition;
  RengaSettings settings;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, SAMPLES, MICROBATCH));
  RengaCall(RengaPartitionSetStages(partition, stages));
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsSetChunks(settings, chunks));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

typedef struct {
  double loss;
  uint64_t digest;
  int64_t memory; /* of this rank */
} Trained;

static RengaErrorCode TrainWith(RengaComm comm, RengaGraph graph, int stages, const char *schedule,
                                Trained *trained)
{
  RengaSettings settings;
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave};
  const char *type;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaPipelineMemory memory = {0};
  RengaCall(PlanOf(comm, graph, stages, &plan));
  RengaCall(RengaPlanSetSchedule(plan, schedule));
  RengaCall(RengaPlanGetSchedule(plan, &type));
  Expect(!strcmp(type, schedule));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsSetTimeout(settings, 150));
  RengaErrorCode code = RengaPipelineSetUp(pipeline);
  for (int step = 0; step < STEPS && !code; step++)
    code = RengaPipelineStep(pipeline, &batch, &trained->loss);
  if (!code) code = RengaPipelineGetDigest(pipeline, &trained->digest);
  if (!code) code = RengaPipelineGetMemory(pipeline, &memory);
  if (!code) Expect(memory.forecast == memory.measured);
  trained->memory = memory.measured;
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static uint32_t seed; /* of the rules */
static Delay delay = {0, 1};

static RengaErrorCode TestBits(RengaComm comm, RengaGraph graph)
{
  const int size = RengaCommGetSize(comm);
  for (int stages = 1; stages <= size; stages *= 2) {
    Trained inside = {0}, outside = {0};
    int64_t most = 0;
    RengaCall(TrainWith(comm, graph, stages, RENGA_SCHEDULE_1F1B, &inside));
    for (int s = 0; s < SEEDS; s++) {
      seed = (uint32_t)s;
      RengaCall(TrainWith(comm, graph, stages, "seeded", &outside));
      Expect(outside.loss == inside.loss && outside.digest == inside.digest);
      if (outside.memory > most) most = outside.memory;
    }
    Expect(most > inside.memory); /* more are in flight */
  }
  return RENGA_SUCCESS;
}

/* Backwards in two parts. */
static RengaErrorCode TestHalves(RengaComm comm, RengaGraph graph)
{
  const int size = RengaCommGetSize(comm);
  for (int stages = 1; stages <= size; stages *= 2) {
    Trained inside = {0}, outside = {0};
    RengaCall(TrainWith(comm, graph, stages, RENGA_SCHEDULE_1F1B, &inside));
    for (delay.all = 0; delay.all < 4; delay.all++) {
      RengaCall(TrainWith(comm, graph, stages, "delayed", &outside));
      Expect(outside.loss == inside.loss && outside.digest == inside.digest);
      Expect(delay.all == 0 || outside.memory > inside.memory);
    }
    for (seed = 0; seed < 4; seed++) {
      RengaCall(TrainWith(comm, graph, stages, "mixed", &outside));
      Expect(outside.loss == inside.loss && outside.digest == inside.digest);
    }
  }
  return RENGA_SUCCESS;
}

/* Two stages of each rank, by lists that alternate and by lists that are made action by action; a
   rank that has no room for all gradients of its last stage would wait for itself. */
static RengaErrorCode TestChunks(RengaComm comm, RengaGraph graph)
{
  static const char *const types[] = {"seeded", "breadth"};
  const int size = RengaCommGetSize(comm);
  Trained inside = {0}, outside = {0};
  RengaCall(TrainWith(comm, graph, size, RENGA_SCHEDULE_1F1B, &inside));
  chunks = 2;
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (int stages = 1; stages <= size && stages <= 2; stages++) {
      RengaCall(TrainWith(comm, graph, stages, types[t], &outside));
      Expect(outside.loss == inside.loss && outside.digest == inside.digest);
    }
  if (size == 1)
    ExpectError(TrainWith(comm, graph, 1, "gathered", &outside), RENGA_ERR_PLAN,
                "it waits for ever: what it writes over is not taken");
  chunks = 1;
  return RENGA_SUCCESS;
}

/* One rank with two stages: 5 micro-batches forward in 1 s, backward in 2 s, of inputs and of
   weights in 1 s each; then the update. */
static RengaErrorCode TestSimulated(RengaComm comm, RengaGraph graph)
{
  const double one[] = {1, 1};
  const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = one,
                                                        [RENGA_ACTION_BACKWARD_INPUT] = one,
                                                        [RENGA_ACTION_BACKWARD_WEIGHT] = one,
                                                        [RENGA_ACTION_UPDATE] = one}};
  double makespan, bubble;
  int64_t lag;
  int n_messages;
  RengaMessage *messages;
  RengaPlan plan;
  RengaSchedule schedule;
  chunks = 2;
  RengaCall(PlanOf(comm, graph, 1, &plan));
  chunks = 1;
  RengaCall(RengaPlanGetMessages(plan, graph, &n_messages, &messages));
  RengaCall(RengaScheduleCreate(comm, &schedule));
  RengaCall(RengaScheduleSetType(schedule, "breadth"));
  RengaCall(RengaScheduleSetPlan(schedule, plan, 5, n_messages, messages, false));
  RengaCall(RengaScheduleSetUp(schedule));
  RengaCall(RengaScheduleGetLag(schedule, 1, &lag));
  RengaCall(RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble));
  if (RengaCommGetSize(comm) == 1) Expect(lag == 5 && makespan == 2 * 5 * 3 + 1 && bubble == 0);
  RengaCall(RengaScheduleDestroy(&schedule));
  RengaFree(&messages);
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* On every rank; rank 0 says why. */
static RengaErrorCode TestRefusedLists(RengaComm comm, RengaGraph graph)
{
  const int size = RengaCommGetSize(comm);
  const bool first = RengaCommGetRank(comm) == 0;
  Trained trained;
  ExpectError(TrainWith(comm, graph, size, "nothing", &trained), RENGA_ERR_PLAN,
              first ? "schedule nothing: stage 0 does 0 forwards before its backward 0: at least 1"
                    : "");
  if (size > 1)
    ExpectError(TrainWith(comm, graph, size, "stuck", &trained), RENGA_ERR_PLAN,
                first ? "schedule stuck: stage" : "", first ? "it waits for ever" : "");
  if (size > 1)
    ExpectError(TrainWith(comm, graph, size, "by-rank", &trained), RENGA_ERR_PLAN,
                first ? "rank 1 differs from rank 0 in its schedule (the lists" : "");
  return RENGA_SUCCESS;
}

/* A rule that fails does so each time it is asked. */
static RengaErrorCode TestHalfMade(RengaComm comm)
{
  RengaSchedule schedule;
  int64_t in_flight = -1;
  RengaCall(RengaScheduleCreate(comm, &schedule));
  RengaCall(RengaScheduleSetType(schedule, "nothing"));
  RengaCall(RengaScheduleSetShape(schedule, 2, NULL, 4, 0, NULL, false));
  for (int i = 0; i < 2; i++)
    ExpectError(RengaScheduleGetInFlight(schedule, 1, &in_flight), RENGA_ERR_PLAN,
                "0 forwards before its backward 0");
  Expect(in_flight == -1);
  RengaCall(RengaScheduleDestroy(&schedule));
  return RENGA_SUCCESS;
}

/* Searches and predictions do not know it. */
static RengaErrorCode TestNotPlanned(RengaComm comm, RengaGraph graph)
{
  static const char *const types[] = {RENGA_PARTITION_AUTO, RENGA_PARTITION_EXACT,
                                      RENGA_PARTITION_RANNC};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    RengaPartition partition;
    RengaSettings settings;
    RengaPlan plan = NULL;
    RengaCall(RengaPartitionCreate(comm, &partition));
    RengaCall(RengaPartitionSetGraph(partition, graph));
    RengaCall(RengaPartitionSetType(partition, types[t]));
    RengaCall(RengaPartitionGetSettings(partition, &settings));
    RengaCall(RengaSettingsSetSchedule(settings, "seeded"));
    ExpectError(RengaPartitionSolve(partition, &plan), RENGA_ERR_SUPPORT,
                RengaCommGetRank(comm) ? "" : "by schedule seeded takes cannot be predicted");
    Expect(plan == NULL);
    RengaCall(RengaPartitionDestroy(&partition));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestSchedules(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-16-16-16-16-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(TestBits(comm, graph));
  RengaCall(TestHalves(comm, graph));
  RengaCall(TestChunks(comm, graph));
  RengaCall(TestSimulated(comm, graph));
  RengaCall(TestRefusedLists(comm, graph));
  RengaCall(TestHalfMade(comm));
  RengaCall(TestNotPlanned(comm, graph));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefusedNames(void)
{
  static const RengaScheduleRule same = {.name = "1f1b", .build = BuildAhead};
  static const RengaScheduleRule idle = {.name = "idle"};
  ExpectError(RengaScheduleRegister(&same), RENGA_ERR_ARGUMENT, "has a type 1f1b already");
  ExpectError(RengaScheduleRegister(&idle), RENGA_ERR_ARGUMENT, "idle needs a function");
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  static Ahead seeded = {FillBySeed, &seed}, stuck = {FillStuck, NULL};
  static Ahead nothing = {FillNothing, NULL}, by_rank = {FillByRank, NULL};
  static const RengaScheduleRule rules[] = {
      {.name = "seeded", .build = BuildAhead, .user = &seeded},
      {.name = "stuck", .build = BuildAhead, .user = &stuck},
      {.name = "nothing", .build = BuildAhead, .user = &nothing},
      {.name = "by-rank", .build = BuildAhead, .user = &by_rank},
      {.name = "delayed", .build = BuildDelayed, .user = &delay},
      {.name = "mixed", .build = BuildMixed, .user = &seed},
      {.name = "breadth", .build = BuildBreadth},
      {.name = "gathered", .build = BuildGathered},
  };
  (void)argc;
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
    RengaCallAbort(RengaScheduleRegister(&rules[r]));
  RengaCallAbort(TestRefusedNames());
  char *words[] = {argv[0], (char[]){"-schedule_type"}, (char[]){"seeded"}, NULL};
  char **given = words;
  int n_words = 3;
  RengaCallAbort(RengaInitialize(&n_words, &given, NULL)); /* the option knows it */
  RengaCallAbort(TestSchedules());
  RengaCallAbort(RengaFinalize());
  return 0;
}
