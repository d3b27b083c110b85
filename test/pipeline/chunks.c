/* TEST ranks: 1 2 4 timeout: 600 */
/* Several stages on each rank, with the bits of one stage on one rank: tied parameters of two
   stages of a rank, values that are sent within it, states, dropout, recomputation, several buckets
   and replicas, short batches, lists of the program's own whose gradients of parameters come last,
   or whose sums are gathered by themselves, and types that fill waits. The memory forecast is what
   is used, and none of it is read before it is set. */
#include "../delayed.h"
#include "run.h"

static const int64_t samples[] = {11, 11, 5, 1};
static const Run networks[] = {
    {.graph = "mlp:sizes=6-16-12-8-5", .classes = 5},
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int across, chunks, replicas;
  unsigned recompute;
  const char *schedule;
} layouts[] = {
    {1, 2, 1, 0, "1f1b"},        {1, 3, 1, 2, "gpipe"},       {2, 2, 1, 0, "1f1b"},
    {2, 2, 1, 5, "gpipe"},       {2, 3, 1, 0, "1f1b"},        {1, 2, 2, 1, "1f1b"},
    {2, 2, 2, 0, "1f1b"},        {2, 2, 2, 15, "1f1b"},       {1, 4, 4, 0, "gpipe"},
    {4, 2, 1, 3, "1f1b"},        {1, 3, 1, 0, "breadth"},     {2, 2, 1, 0, "breadth"},
    {2, 3, 1, 0, "breadth"},     {2, 2, 2, 0, "breadth"},     {1, 2, 2, 0, "gathered"},
    {1, 1, 2, 1, "gathered"},    {1, 1, 4, 0, "gathered"},    {2, 2, 2, 0, "gathered"},
    {2, 2, 1, 0, "interleaved"}, {2, 3, 2, 5, "interleaved"}, {4, 2, 1, 0, "interleaved"},
    {1, 2, 1, 0, "zb-v"},        {2, 2, 1, 0, "zb-v"},        {2, 2, 2, 3, "zb-v"},
    {4, 2, 1, 0, "zb-v"},        {1, 2, 2, 0, "dualpipe-v"},  {2, 2, 1, 4, "dualpipe-v"},
    {2, 2, 2, 0, "dualpipe-v"},  {4, 2, 1, 0, "dualpipe-v"},  {2, 2, 1, 0, "auto"},
    {2, 1, 2, 1, "auto"},        {4, 1, 1, 0, "auto"},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected, result;
  run.device = "cpu";
  run.batch = 11;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  RengaCall(RunAlone(self, &run, &expected));
  for (int l = 0; l < N_LAYOUTS; l++) {
    if (layouts[l].across * layouts[l].replicas > RengaCommGetSize(comm)) continue;
    run.stages = layouts[l].across * layouts[l].chunks;
    run.chunks = layouts[l].chunks;
    run.replicas = layouts[l].replicas;
    run.recompute = layouts[l].recompute;
    run.schedule = layouts[l].schedule;
    run.poison = l % 2 == 0;
    run.buckets = 1 + l % 3;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
  }
  return RENGA_SUCCESS;
}

/* A parameter of two stages of a rank, by name; and its copies there, when they part. */
static RengaErrorCode CheckCopies(RengaComm comm)
{
  const Run run = {.graph = "skip",
                   .stages = 4 * RengaCommGetSize(comm),
                   .chunks = 4,
                   .replicas = 1,
                   .batch = 4,
                   .microbatch = 2,
                   .classes = 4};
  float values[36], again[36] = {0};
  uint64_t before, after;
  int count, copies = 0;
  const float wrong = 7;
  const RengaPersistent *list;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  for (int i = 0; i < 36; i++) values[i] = (float)i / 64;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  RengaCall(RengaPipelineGetDigest(pipeline, &before));
  RengaCall(RengaPipelineSetParameter(pipeline, "shared", 0, values));
  RengaCall(RengaPipelineGetDigest(pipeline, &after));
  RengaCall(RengaPipelineGetParameter(pipeline, "shared", RENGA_TO_ALL, again));
  Expect(before != after && memcmp(values, again, sizeof values) == 0);
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &list));
  for (int t = 0; t < count; t++)
    if (strcmp(list[t].name, "shared") == 0 && copies++ == 1)
      RengaCall(
          RunCopy(pipeline, RENGA_HOST_TO_DEVICE, (float *)list[t].data + 3, &wrong, sizeof wrong));
  if (RengaCommGetSize(comm) == 1) {
    Expect(copies > 2);
    ExpectError(RengaPipelineGetDigest(pipeline, &after), RENGA_ERR_INTERNAL,
                "departs from rank 0 (stage");
  }
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  if (RengaCommGetSize(comm) <= 2) RengaCall(CheckCopies(comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  static const RengaScheduleRule rules[] = {{.name = "breadth", .build = BuildBreadth},
                                            {.name = "gathered", .build = BuildGathered}};
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
    RengaCallAbort(RengaScheduleRegister(&rules[r]));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  RengaCallAbort(RengaFinalize());
  return 0;
}
