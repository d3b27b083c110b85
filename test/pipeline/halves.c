/* TEST ranks: 1 6 timeout: 600 */
/* Backwards in two parts, at once or with gradients of parameters later: losses, norms and
   parameters are those of whole backwards, with replicas, recomputation and short batches too;
   the forecast of each stage is what is used, and nothing is read before it is set. */
#include "../delayed.h"
#include "run.h"

static const int64_t samples[] = {14, 14, 7, 3};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static RengaErrorCode CheckHalves(RengaComm comm, Run run, const Result *expected)
{
  static const char *const schedules[] = {"at-once", "delayed", "unequal", "zb-h1", "zb-h2"};
  for (int s = 0; s < 5; s++) {
    Result result;
    run.schedule = schedules[s];
    run.poison = s != 1;
    run.recompute = s == 0 || s == 4 ? 1 : 0;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, expected, &result));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected;
  run.batch = 14;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  RengaCall(RunAlone(self, &run, &expected));
  for (run.stages = 1; run.stages <= 3; run.stages++)
    for (run.replicas = 1; run.replicas <= 2; run.replicas++)
      if (run.stages * run.replicas <= RengaCommGetSize(comm))
        RengaCall(CheckHalves(comm, run, &expected));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) {
    Run run = networks[n];
    run.device = "cpu";
    RengaCall(CheckNetwork(self, comm, run));
  }
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RegisterDelayed());
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  RengaCallAbort(RengaFinalize());
  return 0;
}
