/* TEST ranks: 2 4 timeout: 300 */
/* Pipelines whose tensors travel by staging memory have the bits of one rank of the cpu device: on
   that device, and on one whose memory is closed and whose work is late. Stages and replicas, equal
   or not, several stages of a rank, tied parameters, buckets, recomputation, short batches, a rank
   that fails in the middle of a step, and MPI's own sums. What does not fit is refused, and what
   was chosen is shown. */
#include "../pipeline/run.h"
#include <stdlib.h>

static const int64_t samples[] = {11, 11, 3};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int ranks, stages, replicas[4], chunks;
  unsigned recompute;
  int buckets;
  const char *schedule;
} layouts[] = {
    {2, 2, {1, 1}, 0, 1, 1, "1f1b"},       {2, 1, {2}, 0, 0, 3, "gpipe"},
    {2, 4, {1, 1, 1, 1}, 2, 0, 1, "1f1b"}, {4, 4, {1, 1, 1, 1}, 0, 4, 1, "gpipe"},
    {4, 2, {1, 3}, 0, 0, 2, "1f1b"},       {4, 2, {2, 2}, 0, 3, 100, "1f1b"},
    {4, 3, {2, 1, 1}, 0, 0, 4, "1f1b"},    {4, 1, {4}, 0, 1, 2, "gpipe"},
    {3, 3, {1, 1, 1}, 0, 2, 1, "1f1b"},    {3, 2, {2, 1}, 0, 0, 2, "1f1b"},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* RENGA_TEST_CUDA: a module of the cuda device; the test is of that device alone then. */
static const char *CudaModule(void)
{
  return getenv("RENGA_TEST_CUDA");
}

/* What pipelines that are made from now on are on. Each process has a GPU of its own. */
static RengaErrorCode Choose(const char *device, int seed, const char *transport)
{
  char text[16], number[16];
  if (strcmp(device, "cuda") == 0) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(number, sizeof number, "%d", rank);
    RengaCall(RengaOptionsSetValue("device_cuda_module", CudaModule()));
    RengaCall(RengaOptionsSetValue("device_number", number));
  }
  snprintf(text, sizeof text, "%d", seed);
  RengaCall(RengaOptionsSetValue("device_type", device));
  RengaCall(RengaOptionsClearValue("device_far_seed"));
  if (strcmp(device, "far") == 0) RengaCall(RengaOptionsSetValue("device_far_seed", text));
  RengaCall(RengaOptionsSetValue("transport_type", transport));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLayouts(RengaComm comm, Run run, const Result *expected, bool first)
{
  for (int l = 0; l < N_LAYOUTS; l++) {
    Result result;
    if (layouts[l].ranks != RengaCommGetSize(comm)) continue;
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].chunks ? NULL : layouts[l].replicas;
    run.replicas = layouts[l].replicas[0];
    run.chunks = layouts[l].chunks;
    run.recompute = layouts[l].recompute;
    run.buckets = layouts[l].buckets;
    run.schedule = layouts[l].schedule;
    run.poison = first;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, expected, &result));
  }
  return RENGA_SUCCESS;
}

static bool IsWanted(const char *transport)
{
  const char *wanted = getenv("RENGA_TEST_TRANSPORTS");
  return !wanted || strstr(wanted, transport);
}

static RengaErrorCode CheckOnCuda(RengaComm self, RengaComm comm, Run run)
{
  static const char *const transports[] = {"staged", "nccl", "auto", "mpi_device"};
  Result expected;
  run.device = "cuda"; /* said by RunCompare */
  RengaCall(Choose("cuda", 1, "staged"));
  RengaCall(RunAll(self, &run, &expected));
  for (int t = 0; t < 4; t++) {
    if (!IsWanted(transports[t])) continue;
    RengaCall(Choose("cuda", 1, transports[t]));
    RengaCall(CheckLayouts(comm, run, &expected, t == 0));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected;
  run.batch = 11;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.stages = run.replicas = 1;
  if (CudaModule()) {
    RengaCall(CheckOnCuda(self, comm, run));
    return RENGA_SUCCESS;
  }
  run.device = "cpu"; /* said by RunCompare */
  RengaCall(Choose("cpu", 1, "mpi"));
  RengaCall(RunAll(self, &run, &expected));
  RengaCall(Choose("cpu", 1, "staged"));
  RengaCall(CheckLayouts(comm, run, &expected, true));
  run.device = "far";
  for (int seed = 1; seed <= UnlessSlow(3, 1); seed++) {
    RengaCall(Choose("far", seed, "staged"));
    RengaCall(CheckLayouts(comm, run, &expected, seed == 1));
  }
  return RENGA_SUCCESS;
}

/* MPI adds the same numbers, wherever they come from. */
static RengaErrorCode CheckUnordered(RengaComm comm)
{
  static const char *const ways[][2] = {{"cpu", "mpi"}, {"cpu", "staged"}, {"far", "staged"}};
  static const char *const cuda_ways[][2] = {
      {"cuda", "staged"}, {"cuda", "nccl"}, {"cuda", "nccl"}};
  const int first = CudaModule() && IsWanted("nccl"); /* NCCL's order is not MPI's */
  Run run = networks[1];
  Result result[3];
  run.batch = 8;
  run.microbatch = 2;
  run.steps = 2;
  run.samples = (const int64_t[]){8, 8};
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm);
  run.schedule = "gpipe";
  run.reduction = RENGA_REDUCTION_UNORDERED;
  run.buckets = 2;
  for (int w = first; w < (CudaModule() && !first ? 1 : 3); w++) {
    const char *const *way = CudaModule() ? cuda_ways[w] : ways[w];
    run.device = way[0];
    RengaCall(Choose(way[0], 2, way[1]));
    RengaCall(RunAll(comm, &run, &result[w]));
    RengaCall(RunCompare(&run, &result[first], &result[w]));
  }
  return RENGA_SUCCESS;
}

/* A read of one rank fails; then all is as if nothing had been. */
typedef struct {
  Source source;
  int reads, fails_at;
} Failing;

static RengaErrorCode ReadFailing(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  Failing *failing = user;
  if (failing->reads++ == failing->fails_at)
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "sample %lld is lost", (long long)first);
  return RunRead(&failing->source, field, first, count, buffer);
}

static RengaErrorCode FailOnce(RengaComm comm, RengaPipeline pipeline, Failing *failing, int who)
{
  const RengaBatch batch = {8, ReadFailing, failing};
  uint64_t before, after;
  double loss = 17;
  FILE *file;
  failing->reads = 0;
  failing->fails_at = RengaCommGetRank(comm) == who ? 1 : -1;
  RengaCall(RengaPipelineGetDigest(pipeline, &before));
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaPipelineStep(pipeline, &batch, &loss);
  EndErrors(file, saved);
  int64_t failed = failing->fails_at >= 0 && failing->reads > failing->fails_at;
  failing->fails_at = -1;
  RengaCall(RengaCommSumInt64(comm, 1, &failed, "whether a read failed"));
  Expect(code == (failed ? RENGA_ERR_FILE_OPEN : RENGA_SUCCESS));
  if (!failed) return RENGA_SUCCESS; /* the rank reads less */
  RengaCall(RengaPipelineGetDigest(pipeline, &after));
  Expect(before == after && loss == 17);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFailure(RengaComm comm, const char *device, const char *transport,
                                   uint64_t *digest)
{
  Run run = networks[1];
  Failing failing = {.source.classes = run.classes, .fails_at = -1};
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  double loss;
  run.batch = 8;
  run.microbatch = 2;
  run.steps = 1;
  run.samples = (const int64_t[]){8};
  run.stages = 2;
  run.replicas = RengaCommGetSize(comm) / 2;
  run.buckets = 2;
  RengaCall(Choose(device, 3, transport));
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  failing.source.graph = graph;
  for (int who = 0; who < RengaCommGetSize(comm); who++) {
    const RengaBatch batch = {8, ReadFailing, &failing};
    RengaCall(FailOnce(comm, pipeline, &failing, who));
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  }
  RengaCall(RengaPipelineGetDigest(pipeline, digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFailures(RengaComm comm)
{
  const bool cuda = CudaModule() != NULL;
  uint64_t one, other;
  RengaCall(CheckFailure(comm, cuda ? "cuda" : "cpu", "staged", &one));
  RengaCall(CheckFailure(comm, cuda ? "cuda" : "far", cuda ? "auto" : "staged", &other));
  Expect(one == other);
  return RENGA_SUCCESS;
}

/* What crosses between the two stages of the schedule below. */
static struct {
  int count;
  RengaMessage *row;
} crossing;

static RengaErrorCode AddLone(RengaActionList list, const RengaScheduleChunk *chunk,
                              RengaActionKind kind, int message, int64_t microbatch)
{
  const RengaAction action = {.kind = kind,
                              .stage = chunk->stage,
                              .replica = chunk->replica,
                              .message = message,
                              .bucket = -1,
                              .microbatch = microbatch};
  RengaCall(RengaActionListAddAction(list, &action));
  return RENGA_SUCCESS;
}

/* An action of a micro-batch, with its messages from the last row to the first. */
static RengaErrorCode AddTurned(RengaActionList list, const RengaScheduleChunk *chunk,
                                RengaActionKind kind, int64_t microbatch)
{
  const bool backward = kind == RENGA_ACTION_BACKWARD;
  for (int m = crossing.count - 1; m >= 0; m--)
    if (crossing.row[m].to == chunk->stage && crossing.row[m].backward == backward)
      RengaCall(AddLone(list, chunk, RENGA_ACTION_RECEIVE, m, microbatch));
  RengaCall(AddLone(list, chunk, kind, -1, microbatch));
  for (int m = crossing.count - 1; m >= 0; m--)
    if (crossing.row[m].from == chunk->stage && crossing.row[m].backward == backward)
      RengaCall(AddLone(list, chunk, RENGA_ACTION_SEND, m, microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildTurned(RengaSchedule schedule, int rank, RengaActionList list,
                                  void *user)
{
  const RengaScheduleChunk *chunk;
  int count;
  (void)user;
  RengaCall(RengaScheduleGetChunks(schedule, rank, &count, &chunk));
  for (int64_t i = 0; i < chunk->count; i++)
    RengaCall(AddTurned(list, chunk, RENGA_ACTION_FORWARD, chunk->order[i]));
  for (int64_t i = 0; i < chunk->count; i++)
    RengaCall(AddTurned(list, chunk, RENGA_ACTION_BACKWARD, chunk->order[i]));
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

static RengaErrorCode StepOnce(RengaComm comm, const Run *run, const char *transport)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source = {.classes = run->classes};
  double loss;
  RengaCall(Choose("cuda", 1, transport));
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RengaPlanGetMessages(plan, graph, &crossing.count, &crossing.row));
  Expect(crossing.count > 2);
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  source.graph = graph;
  const RengaBatch batch = {8, RunRead, &source};
  const RengaErrorCode code = RengaPipelineStep(pipeline, &batch, &loss);
  RengaFree(&crossing.row);
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Both ends of a channel of NCCL go through rows in their order: lists that do not are refused. */
static RengaErrorCode CheckTurned(RengaComm comm)
{
  Run run = networks[0];
  run.batch = 8;
  run.microbatch = 2;
  run.stages = 2;
  run.replicas = 1;
  run.schedule = "turned";
  RengaCall(StepOnce(comm, &run, "staged"));
  ExpectError(StepOnce(comm, &run, "nccl"), RENGA_ERR_SUPPORT,
              "the schedule mixes messages of several micro-batches between two stages");
  return RENGA_SUCCESS;
}

/* text: of the file that -comm_view wrote, on rank 0. */
static RengaErrorCode SetUpAndView(RengaComm comm, const char *path, size_t size, char text[])
{
  static const Run run = {.graph = "skip", .classes = 4, .batch = 4, .microbatch = 2, .stages = 1};
  Run all = run;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  all.replicas = RengaCommGetSize(comm);
  RengaCall(RunBuild(comm, &all, &graph));
  RengaCall(RunPlan(comm, &all, graph, &plan));
  RengaCall(RunConfigure(comm, &all, graph, plan, &pipeline));
  const RengaErrorCode code = RengaPipelineSetUp(pipeline);
  text[0] = '\0';
  if (RengaCommGetRank(comm) == 0 && !code) {
    FILE *file = fopen(path, "r");
    Expect(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
  }
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(void)
{
  static const struct {
    const char *device, *transport, *said[3];
  } rows[] = {
      {"cpu", "mpi", {"ranks on", "Transport: mpi", "device cpu is the host's"}},
      {"cpu", "staged", {"ranks on", "Transport: staged", "the program chose it"}},
      {"far", "staged", {"ranks on", "Transport: staged", "device far is not the host's"}},
  };
  RengaComm comm;
  char path[] = "transport-view.txt", wanted[64], text[2048];
  snprintf(wanted, sizeof wanted, "ascii:%s", path);
  RengaCall(RengaOptionsSetValue("comm_view", wanted));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetFromOptions(comm));
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    RengaCall(Choose(rows[r].device, 1, rows[r].transport));
    RengaCall(SetUpAndView(comm, path, sizeof text, text));
    for (int s = 0; s < 3 && RengaCommGetRank(comm) == 0; s++)
      RengaCheck(strstr(text, rows[r].said[s]), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "no \"%s\" in:\n%s", rows[r].said[s], text);
  }
  RengaCall(Choose("far", 1, "mpi"));
  ExpectError(SetUpAndView(comm, path, sizeof text, text), RENGA_ERR_SUPPORT,
              RengaCommGetRank(comm) == 0 ? "device far is not the host's: use -transport_type "
                                            "auto"
                                          : "");
  RengaCall(Choose("far", 1, "mpi_device"));
  ExpectError(SetUpAndView(comm, path, sizeof text, text), RENGA_ERR_SUPPORT,
              RengaCommGetRank(comm) == 0 ? "this MPI does not read memory of the device" : "");
  RengaCall(Choose("far", 1, "nccl"));
  ExpectError(SetUpAndView(comm, path, sizeof text, text), RENGA_ERR_SUPPORT,
              RengaCommGetRank(comm) == 0 ? "devices of type far have no messages of their own"
                                          : "");
  if (RengaCommGetRank(comm) == 0) remove(path);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNames(RengaComm comm)
{
  RengaSettings settings;
  const char *type = "";
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaSettingsGetTransport(settings, &type));
  Expect(strcmp(type, RENGA_TRANSPORT_AUTO) == 0);
  ExpectError(RengaSettingsSetTransport(settings, "stagd"), RENGA_ERR_ARGUMENT,
              "mpi_device, staged, nccl");
  ExpectError(RengaOptionsSetValue("transport_type", "ncc"), RENGA_ERR_OPTION, "transport_type");
  RengaCall(RengaSettingsSetTransport(settings, RENGA_TRANSPORT_MPI));
  RengaCall(RengaOptionsSetValue("transport_type", "staged"));
  RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaSettingsGetTransport(settings, &type));
  Expect(strcmp(type, RENGA_TRANSPORT_STAGED) == 0);
  RengaCall(RengaSettingsDestroy(&settings));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  RengaCall(CheckNames(comm));
  if (!CudaModule()) RengaCall(CheckView());
  if (CudaModule() && IsWanted("nccl") && RengaCommGetSize(comm) == 2) RengaCall(CheckTurned(comm));
  RengaCall(CheckUnordered(comm));
  if (RengaCommGetSize(comm) % 2 == 0) RengaCall(CheckFailures(comm));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  static const RengaScheduleRule turned = {.name = "turned", .build = BuildTurned};
  RengaCallAbort(RengaScheduleRegister(&turned));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  RengaCallAbort(RengaFinalize());
  return 0;
}
