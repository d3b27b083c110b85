/* TEST ranks: 1 timeout: 300 */
/* A run on the far device has the bits of the cpu one, whatever the order in which it does its
   work: losses, norms, parameters, states, outputs. With the ref kernels, which stand in on any
   device, it has the loss of the ref device. */
#include "renga/private/device.h"
#include "run.h"

static const int64_t samples[] = {9, 9, 4, 1};
static const Run networks[] = {
    {.graph = "skip", .build = RunSkip, .classes = 4},
    {.graph = "gpt:layers=1,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "bert:layers=1,hidden=8,heads=2,sequence=5,vocabulary=7,next_sentence=1",
     .classes = 7},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

/* Micro-batches in flight, gradients and recomputation in all ways that one stage has. */
static const struct {
  const char *schedule;
  RengaReduction reduction;
  int leaf;
  unsigned recompute;
  bool poison;
} ways[] = {{"1f1b", RENGA_REDUCTION_ORDERED, 1, 0, true},
            {"gpipe", RENGA_REDUCTION_ORDERED, 2, 0, false},
            {"gpipe", RENGA_REDUCTION_ORDERED, 1, 1, true},
            {"1f1b", RENGA_REDUCTION_UNORDERED, 1, 0, false}};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static RengaErrorCode TrainOn(RengaComm comm, const char *device, const char *kernels, int seed,
                              const Run *run, Result *result)
{
  char text[32];
  snprintf(text, sizeof text, "%d", seed);
  RengaCall(RengaOptionsSetValue("device_type", device));
  RengaCall(RengaOptionsClearValue("device_far_kernels"));
  RengaCall(RengaOptionsClearValue("device_far_seed"));
  if (strcmp(device, "far") == 0) {
    RengaCall(RengaOptionsSetValue("device_far_kernels", kernels));
    RengaCall(RengaOptionsSetValue("device_far_seed", text));
  }
  RengaCall(RunAll(comm, run, result));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRef(RengaComm comm, const Run *run)
{
  Result ref, far;
  RengaCall(TrainOn(comm, "ref", "ref", 1, run, &ref));
  RengaCall(TrainOn(comm, "far", "ref", 1, run, &far));
  Expect(ref.loss[0] == far.loss[0]);
  for (int i = 0; i < run->steps; i++)
    Expect(fabs(ref.loss[i] - far.loss[i]) < 1e-3 * fabs(ref.loss[i]));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWay(RengaComm comm, Run run, int w)
{
  Result cpu, far;
  run.schedule = ways[w].schedule;
  run.reduction = ways[w].reduction;
  run.leaf = ways[w].leaf;
  run.recompute = ways[w].recompute;
  run.poison = ways[w].poison;
  RengaCall(TrainOn(comm, "cpu", "cpu", 1, &run, &cpu));
  for (int i = 0; i < run.steps; i++) Expect(isfinite(cpu.loss[i]) && cpu.norm[i] > 0);
  for (int seed = 1; seed <= UnlessSlow(3, 1); seed++) {
    RengaCall(TrainOn(comm, "far", "cpu", seed, &run, &far));
    RengaCall(RunCompare(&run, &cpu, &far));
    Expect(cpu.outputs == far.outputs);
  }
  return RENGA_SUCCESS;
}

/* A loss that is a sum needs no sums over the batch before the first forward. */
static RengaErrorCode BuildSum(RengaGraph graph)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 6}};
  RengaAttributes attributes = {0};
  RengaValue x, y, loss;
  RengaCall(RengaGraphAddInput(graph, "x", &x_spec, &x));
  RengaCall(RengaGraphAddLinear(graph, "in", x, 6, true, 0.4, &y));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", y, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddNode(graph, "ReduceSum", NULL, &attributes, 1, &y, 1, NULL, &loss));
  RengaCall(RengaAttributesFree(&attributes));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

/* So often somebody waits until the device has nothing to do, in each of some steps. */
static RengaErrorCode CountWaits(RengaPipeline pipeline, const Run *run, RengaGraph graph,
                                 int64_t waits)
{
  enum { STEPS = 3 };
  Source source = {graph, 0, run->classes};
  const RengaBatch batch = {run->batch, RunRead, &source};
  RengaSettings settings;
  RengaDevice device;
  double loss;
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsGetDevice(settings, &device));
  for (int step = 0; step < STEPS; step++) {
    const int64_t before = RengaFarGetIdle_Private(device);
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    Expect(RengaFarGetIdle_Private(device) - before == waits);
  }
  return RENGA_SUCCESS;
}

/* Gradients are clipped. */
static RengaErrorCode CheckWaits(RengaComm comm, const Run *run, int64_t waits)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RengaOptionsSetValue("device_type", "far"));
  RengaCall(RengaOptionsSetValue("device_far_kernels", "cpu"));
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  RengaCall(CountWaits(pipeline, run, graph, waits));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int n = 0; n < N_NETWORKS; n++) {
    Run run = networks[n];
    run.device = "cpu";
    run.schedule = "1f1b";
    run.batch = 9;
    run.microbatch = 2;
    run.steps = sizeof samples / sizeof samples[0];
    run.samples = samples;
    run.clip_norm = 0.5;
    run.stages = run.replicas = 1;
    for (int w = 0; w < N_WAYS; w++) RengaCall(CheckWay(comm, run, w));
    RengaCall(CheckRef(comm, &run));
    RengaCall(CheckWaits(comm, &run, 2)); /* the prologue's, the results' */
    run.build = BuildSum;
    RengaCall(CheckWaits(comm, &run, 1));
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
