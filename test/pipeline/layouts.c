/* TEST ranks: 1 6 timeout: 600 */
/* Losses, norms, parameters and states are bit-equal for all layouts, schedules and idle ranks;
   batches do not divide, the last one is short, labels to ignore are spread unevenly, replicas
   may have no micro-batch. The memory forecast is what is used, and none of it is read before it
   is set. */
#include "run.h"

static const int64_t samples[] = {7, 7, 3, 1};
static const Run networks[] = {
    {.graph = "mlp:sizes=6-16-12-8-5", .classes = 5},
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static RengaErrorCode CheckLayout(RengaComm comm, Run run, int stages, int replicas,
                                  const Result *expected)
{
  static const char *const schedules[] = {"1f1b", "gpipe"};
  for (int s = 0; s < (stages > 1 && replicas < 3 ? 2 : 1); s++) {
    Result result;
    run.stages = stages;
    run.replicas = replicas;
    run.schedule = schedules[s];
    run.poison = s == 0;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, expected, &result));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected;
  run.batch = 7;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  RengaCall(RunAlone(self, &run, &expected));
  for (int stages = 1; stages <= 4; stages++)
    for (int replicas = 1; replicas <= 5; replicas++)
      if (stages * replicas <= RengaCommGetSize(comm) &&
          (strcmp(run.device, "cpu") == 0 || stages * replicas % 2 == 0))
        RengaCall(CheckLayout(comm, run, stages, replicas, &expected));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const devices[] = {"ref", "cpu"};
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int d = 0; d < 2; d++)
    for (int n = 0; n < N_NETWORKS; n++) {
      Run run = networks[n];
      run.device = devices[d];
      RengaCall(CheckNetwork(self, comm, run));
    }
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
