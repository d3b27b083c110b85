/* TEST ranks: 1 timeout: 300 */
/* A run on the far device has the bits of the cpu one, whatever the order in which it does its
   work: losses, norms, parameters, states, outputs. With the ref kernels, which stand in on any
   device, it has the loss of the ref device. */
#include "run.h"

static const int64_t samples[] = {9, 9, 4, 1};
static const Run networks[] = {
    {.graph = "skip", .build = RunSkip, .classes = 4},
    {.graph = "gpt:layers=1,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "bert:layers=1,hidden=8,heads=2,sequence=5,vocabulary=7,next_sentence=1",
     .classes = 7},
    {.graph = "resnet:depth=18,width=0.0625,image=16,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

/* Micro-batches in flight, gradients and recomputation in all ways that one stage has. */
static const struct {
  const char *schedule, *reduction;
  int leaf;
  unsigned recompute;
  bool poison;
} ways[] = {{"1f1b", "ordered", 1, 0, true},
            {"gpipe", "ordered", 2, 0, false},
            {"gpipe", "ordered", 1, 1, true},
            {"1f1b", "unordered", 1, 0, false}};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static RengaErrorCode TrainOn(RengaComm comm, const char *device, const char *kernels, int seed,
                              const Run *run, Result *result)
{
  char text[32];
  snprintf(text, sizeof text, "%d", seed);
  RengaCall(RengaOptionsSetValue("device_type", device));
  RengaCall(RengaOptionsSetValue("device_far_kernels", kernels));
  RengaCall(RengaOptionsSetValue("device_far_seed", text));
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
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
