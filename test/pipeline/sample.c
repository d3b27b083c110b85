/* TEST ranks: 4 timeout: 600 */
/* A fixed sample of layouts, drawn by their number: stages and replicas, equal and not, what is
   sharded, in how many buckets and of which size, with overlap and without, recomputation,
   schedules, devices of the host and one whose memory is not. Each has the losses, norms and
   parameters of one rank, to the bit, and takes the memory that was forecast.

   RENGA_TEST_LAYOUTS=n: so many of each network (4); 22 are more than 120 in all. Ranks that they
   need and there are not are drawn again, so `mpiexec -n 9` has three stages of three replicas. */
#include "run.h"

enum { MOST_STAGES = 3, MOST_REPLICAS = 3 };
static const int64_t samples[] = {7, 3};

static RengaErrorCode BuildGpt(RengaGraph graph)
{
  RengaCall(RengaGraphLoad(graph, "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,"
                                  "dropout=0.1"));
  RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_BF16, NULL));
  return RENGA_SUCCESS;
}

/* T5 uses its table of words on both sides, gpt its own first and last; sizes are odd. */
static const Run networks[] = {
    {.graph = "mlp:sizes=39-501-67-5", .classes = 5},
    {.graph = "skip", .classes = 4, .groups = "in.*:frozen=yes;*.bias:weight_decay=0"},
    {.graph = "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,dropout=0.1",
     .classes = 401},
    {.graph = "gpt in bf16", .build = BuildGpt, .classes = 401},
    {.graph = "t5:layers=1,hidden=18,heads=3,sequence=7,target=5,vocabulary=53", .classes = 53},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

/* Number which of what layout number makes of a network. */
static int Draw(int layout, int which, int count)
{
  uint32_t x = (uint32_t)layout * 2654435761u ^ (uint32_t)which * 2246822519u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  x *= 3266489917u;
  return (int)((x ^ x >> 16) % (uint32_t)count);
}

/* At most so many ranks, several where there are any. */
static void DrawStages(int layout, int ranks, Run *run, int replicas[])
{
  int sum = 0;
  for (int turn = 0; sum < 2 || sum > ranks; turn++) {
    run->stages = 1 + Draw(layout, 100 * turn, MOST_STAGES);
    sum = 0;
    for (int s = 0; s < run->stages; s++)
      sum += replicas[s] = 1 + Draw(layout, 100 * turn + 1 + s, MOST_REPLICAS);
    if (Draw(layout, 100 * turn + 9, 3) > 0) { /* as many in all stages */
      for (int s = 0; s < run->stages; s++) replicas[s] = replicas[0];
      sum = run->stages * replicas[0];
    }
  }
  run->unequal = replicas;
}

/* Gradients and parameters are shared in all stages, or in none. */
static void DrawLevel(int layout, Run *run)
{
  bool equal = true;
  for (int s = 1; s < run->stages; s++) equal = equal && run->unequal[s] == run->unequal[0];
  run->level = RENGA_SHARD_OPTIMIZER + (equal ? (RengaShard)Draw(layout, 29, 3) : 0);
  if (run->level > RENGA_SHARD_OPTIMIZER) run->shard = 7;
}

static void DrawLayout(int layout, int ranks, Run *run, int replicas[])
{
  static const int64_t sizes[] = {600, 5000, 100000};
  DrawStages(layout, ranks, run, replicas);
  run->shard = (unsigned)Draw(layout, 20, 4) > 0 ? 7u >> Draw(layout, 21, 2) : 0;
  DrawLevel(layout, run);
  run->recompute = (unsigned)Draw(layout, 22, 8);
  if (Draw(layout, 23, 2))
    run->buckets = 1 + Draw(layout, 24, 4);
  else
    run->bucket_size = sizes[Draw(layout, 24, 3)];
  run->in_place = Draw(layout, 25, 3) == 0;
  run->schedule = Draw(layout, 26, 2) ? "1f1b" : "gpipe";
  run->device = Draw(layout, 27, 4) ? "cpu" : "far";
  run->poison = Draw(layout, 28, 2);
}

/* A replica that has no micro-batch in the last step, where leaves have two. */
static void TakeIdle(Run *run, int replicas[])
{
  run->stages = 1;
  replicas[0] = 3;
  run->shard = 1;
  run->level = RENGA_SHARD_PARAMETERS;
  run->in_place = false;
  run->device = "far";
}

static Run Begin(const Run *network, int leaf)
{
  Run run = *network;
  run.device = "cpu";
  run.batch = 7;
  run.microbatch = 1;
  run.leaf = leaf;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.schedule = "1f1b";
  return run;
}

/* Of one leaf: it decides the bits. */
static RengaErrorCode CheckLeaf(RengaComm self, RengaComm comm, int network, int leaf, int count)
{
  Result expected, result;
  int replicas[MOST_STAGES];
  Run run = Begin(&networks[network], leaf);
  RengaCall(RunAlone(self, &run, &expected));
  for (int l = 0; l < count; l++) {
    run = Begin(&networks[network], leaf);
    DrawLayout(1000 * network + 100 * leaf + l, RengaCommGetSize(comm), &run, replicas);
    if (l == 0 && RengaCommGetSize(comm) > 2) TakeIdle(&run, replicas);
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  const char *text = getenv("RENGA_TEST_LAYOUTS");
  const int count = text ? atoi(text) : 4;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  Expect(RengaCommGetSize(comm) > 1 && count > 1);
  for (int n = 0; n < N_NETWORKS; n++)
    for (int leaf = 1; leaf <= 2; leaf++)
      RengaCall(CheckLeaf(self, comm, n, leaf, leaf == 1 ? count - count / 2 : count / 2));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
