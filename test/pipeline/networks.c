/* TEST ranks: 1 4 timeout: 300 */
/* Networks of many kinds train with the same bits in 1, 2 and 4 stages and with 2 replicas: those
   that are built by size. */
#include "run.h"

static const int64_t samples[] = {4, 3, 4};
static const Run networks[] = {
    {.graph =
         "bert:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1,next_sentence=1",
     .classes = 11},
    {.graph = "bert:layers=3,hidden=8,sequence=5,vocabulary=7,segments=0,padding=0,prenorm=1",
     .classes = 7},
    {.graph =
         "transformer:layers=2,hidden=16,heads=2,sequence=6,target=5,vocabulary=11,dropout=0.1,"
         "smoothing=0.1",
     .classes = 11},
    {.graph = "transformer:layers=1,hidden=8,sequence=4,vocabulary=7,tied=0,padding=0,prenorm=1",
     .classes = 7},
    {.graph = "t5:layers=2,hidden=16,head_width=4,sequence=6,target=5,vocabulary=11,buckets=8,"
              "distance=6,dropout=0.1",
     .classes = 11},
    {.graph = "t5:layers=1,hidden=8,heads=3,head_width=4,sequence=4,vocabulary=7,padding=0,gated=1,"
              "tied=0",
     .classes = 7},
    {.graph = "ncf:users=5,items=5,factors=3,layers=6-4-2", .classes = 5},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas;
} layouts[] = {{2, 1}, {4, 1}, {2, 2}, {1, 2}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected, result;
  run.batch = 4;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.device = "cpu";
  run.schedule = "1f1b";
  run.poison = true;
  run.stages = run.replicas = 1;
  RengaCall(RunAll(self, &run, &expected));
  for (int i = 0; i < run.steps; i++) Expect(isfinite(expected.loss[i]) && expected.norm[i] > 0);
  for (int i = 0; i < N_LAYOUTS; i++) {
    run.stages = layouts[i].stages;
    run.replicas = layouts[i].replicas;
    if (run.stages * run.replicas > RengaCommGetSize(comm)) continue;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
