/* TEST ranks: 6 timeout: 600 */
/* Stages of different numbers of replicas, and stages that recompute, give the bits of one rank:
   tied and shared parameters, dropout, statistics of batches, a short last batch, replicas without
   a micro-batch, gradients that are summed in several buckets, some of which are empty. A stage
      that recomputes needs less memory for what is saved. */
#include "run.h"

static const int64_t samples[] = {11, 11, 5, 1};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas[4];
  unsigned recompute;
  const char *schedule;
} layouts[] = {
    {2, {1, 2}, 0, "1f1b"},    {2, {2, 1}, 1, "1f1b"},       {2, {1, 3}, 2, "gpipe"},
    {2, {3, 1}, 0, "gpipe"},   {3, {3, 1, 2}, 5, "1f1b"},    {2, {2, 3}, 3, "1f1b"},
    {2, {4, 2}, 0, "1f1b"},    {4, {1, 2, 1, 2}, 4, "1f1b"}, {3, {1, 1, 4}, 3, "gpipe"},
    {3, {2, 2, 2}, 7, "1f1b"}, {1, {6}, 1, "gpipe"},         {4, {1, 1, 1, 1}, 15, "1f1b"},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected;
  run.device = "cpu";
  run.batch = 11;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  RengaCall(RunAlone(self, &run, &expected));
  for (int l = 0; l < N_LAYOUTS; l++) {
    Result result;
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].replicas;
    run.recompute = layouts[l].recompute;
    run.schedule = layouts[l].schedule;
    run.poison = l % 2 == 0;
    run.buckets = l % 3 == 2 ? 100 : 1 + l % 3 * 3;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
  }
  return RENGA_SUCCESS;
}

/* Eight micro-batches in flight: recomputing, the stage keeps what it receives, and makes the rest
   again when backward needs it. */
static RengaErrorCode CheckMemory(RengaComm self)
{
  static const int64_t whole[] = {16};
  Run run = {.graph = "gpt:layers=2,hidden=32,heads=2,sequence=16,vocabulary=11,dropout=0.1",
             .device = "cpu",
             .schedule = "gpipe",
             .stages = 1,
             .replicas = 1,
             .classes = 11,
             .batch = 16,
             .microbatch = 2,
             .steps = 1,
             .samples = whole};
  Result keeps, again;
  RengaCall(RunAll(self, &run, &keeps));
  run.recompute = 1;
  RengaCall(RunAll(self, &run, &again));
  RengaCall(RunCompare(&run, &keeps, &again));
  Expect(8 * again.memory.saved <= keeps.memory.saved);
  Expect(again.memory.forecast < keeps.memory.forecast);
  return RENGA_SUCCESS;
}

enum { SAMPLES = 11, CLASSES = 4, GRADIENT = 36 };
typedef struct {
  float output[SAMPLES * CLASSES], gradient[GRADIENT]; /* on rank 0 */
} Seen;

/* What rank 0 sees of the network's output, and of the gradient of a parameter of three stages. */
static RengaErrorCode Look(RengaComm comm, const Run *run, Seen *seen)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  const RengaValue *output;
  int count;
  double loss;
  RengaCall(RunGraph(comm, run->graph, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  Source source = {.graph = graph, .classes = run->classes};
  const RengaBatch batch = {SAMPLES, RunRead, &source};
  RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetGradient(pipeline, "shared", seen->gradient));
  RengaCall(RengaGraphGetOutputs(graph, &count, &output));
  RengaCall(RengaPipelineForward(pipeline, &batch, RengaGraphGetValue(graph, output[0])->name,
                                 seen->output));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSeen(RengaComm self, RengaComm comm)
{
  Run run = networks[0];
  Seen one = {{0}, {0}}, other = {{0}, {0}};
  run.device = "cpu";
  run.batch = SAMPLES;
  run.microbatch = 2;
  run.stages = run.replicas = 1;
  RengaCall(Look(self, &run, &one));
  for (int l = 0; l < N_LAYOUTS; l++) {
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].replicas;
    run.recompute = layouts[l].recompute;
    run.schedule = layouts[l].schedule;
    RengaCall(Look(comm, &run, &other));
    if (RengaCommGetRank(comm) != 0) continue;
    Expect(one.output[0] != 0 && one.gradient[0] != 0);
    Expect(memcmp(&one, &other, sizeof one) == 0);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  RengaCall(CheckMemory(self));
  RengaCall(CheckSeen(self, comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
