/* TEST ranks: 1 2 4 */
/* Measured costs are positive, the same on all ranks, and measured once: the file knows them the
   next time. Damaged and foreign files are refused. The links of the ranks make a machine. */
#include "../check.h"
#include "renga/private/cost.h"
#include "rengacomm.h"
#include "rengaprofile.h"
#include <stdlib.h>

enum { WIDTH = 24, SAMPLES = 2 };
static RengaComm comm;
static const char file[] = "measured.h5";

/* words[N,4] -> Gather, of two tables -> Linear, LayerNormalization, Dropout, Gelu, Linear ->
   cross-entropy */
static RengaErrorCode MakeGraph(RengaGraph *graph)
{
  const RengaTensorSpec words = {.type = RENGA_INT64, .ndim = 2, .dim = {-1, 4}};
  const RengaTensorSpec table_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {50, WIDTH}};
  const RengaTensorSpec few_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {3, WIDTH}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 0.1};
  RengaValue x, labels, table, few, y, loss;
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "words", &words, &x));
  RengaCall(RengaGraphAddInput(*graph, "labels", &words, &labels));
  RengaCall(RengaGraphAddParameter(*graph, "table", &table_spec, &init, &table));
  RengaCall(RengaGraphAddParameter(*graph, "few rows", &few_spec, &init, &few));
  RengaCall(RengaGraphAddEmbedding(*graph, table, x, &y));
  RengaCall(RengaGraphAddEmbedding(*graph, few, x, &x)); /* indices within both */
  RengaCall(RengaGraphAddAdd(*graph, x, y, &x));
  RengaCall(RengaGraphAddLinear(*graph, "first", x, WIDTH, true, 0.1, &x));
  RengaCall(RengaGraphAddLayerNormalization(*graph, "norm", x, 1e-5, &x));
  RengaCall(RengaGraphAddDropout(*graph, x, 0.1, &x));
  RengaCall(RengaGraphAddUnary(*graph, "Gelu", x, &x));
  RengaCall(RengaGraphAddDropout(*graph, x, 0.1, &x));
  RengaCall(RengaGraphAddLinear(*graph, "last", x, 10, true, 0.1, &x));
  RengaCall(RengaGraphAddCrossEntropy(*graph, x, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(*graph, loss));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeProfile(RengaGraph graph, RengaProfile *profile)
{
  RengaCall(RengaProfileCreate(comm, profile));
  RengaCall(RengaProfileSetGraph(*profile, graph));
  RengaCall(RengaProfileSetFromOptions(*profile));
  return RENGA_SUCCESS;
}

/* Rank 0's bytes are mine. */
static RengaErrorCode ExpectSame(const void *mine, size_t bytes)
{
  char *first = NULL;
  RengaCall(RengaMalloc(bytes, &first));
  memcpy(first, mine, bytes);
  RengaCall(RengaCommBroadcast(comm, first, bytes, 0, "test"));
  Expect(memcmp(first, mine, bytes) == 0);
  RengaFree(&first);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCosts(RengaGraph graph, const RengaProfileCost costs[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    const bool free =
        RengaGraphGetValue(graph, node->out[0])->prepared || (node->op->flags & RENGA_OP_RESHAPE);
    Expect(free ? costs[n].forward == 0 : costs[n].forward > 0);
  }
  RengaCall(ExpectSame(costs, (size_t)RengaGraphGetNodeCount(graph) * sizeof *costs));
  return RENGA_SUCCESS;
}

static RengaErrorCode AskAll(RengaProfile profile, RengaProfileCost costs[], double seconds[2],
                             int64_t *measured)
{
  RengaMachine machine;
  int64_t devices;
  const RengaMachineLevel *level;
  int count;
  RengaCall(RengaProfileGetCosts(profile, SAMPLES, costs));
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000, &seconds[0]));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, 100000000, &seconds[1]));
  RengaCall(RengaProfileGetMachine(profile, &machine));
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  Expect(devices == RengaCommGetSize(comm) && count == 1);
  const double numbers[4] = {level->latency, level->bandwidth, level->reduce_bandwidth, seconds[0]};
  for (int i = 0; i < 4; i++) Expect(numbers[i] > 0);
  RengaCall(ExpectSame(numbers, sizeof numbers));
  RengaCall(RengaProfileGetMeasured(profile, measured));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTwice(RengaGraph graph)
{
  const int count = RengaGraphGetNodeCount(graph);
  RengaProfile profile;
  RengaProfileCost *costs[2];
  double seconds[2][2];
  int64_t measured[2];
  for (int time = 0; time < 2; time++) {
    RengaCall(RengaMalloc(count, &costs[time]));
    double kept = time ? 7 : 0.5 + RengaCommGetRank(comm);
    RengaCall(MakeProfile(graph, &profile));
    RengaCall(RengaProfileKeepSeconds(profile, "reading of data/set.h5", &kept));
    Expect(kept == 0.5);
    RengaCall(AskAll(profile, costs[time], seconds[time], &measured[time]));
    RengaCall(CheckCosts(graph, costs[time]));
    RengaCall(RengaProfileDestroy(&profile));
  }
  Expect(measured[0] > 10 && measured[1] == 0);
  Expect(memcmp(costs[0], costs[1], (size_t)count * sizeof **costs) == 0);
  Expect(memcmp(seconds[0], seconds[1], sizeof seconds[0]) == 0);
  /* The two Dropouts do the same work with other random numbers. */
  double dropout[2];
  for (int n = 0, seen = 0; n < count; n++)
    if (strcmp(RengaGraphGetNode(graph, n)->op->name, "Dropout") == 0)
      dropout[seen++ % 2] = costs[0][n].backward;
  Expect(dropout[0] == dropout[1]);
  RengaFree(&costs[0]);
  RengaFree(&costs[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteFile(const char *text)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *stream = fopen(file, "w");
    Expect(stream && fputs(text, stream) >= 0 && fclose(stream) == 0);
  }
  RengaCall(RengaCommBarrier(comm, "test"));
  return RENGA_SUCCESS;
}

/* Cuts the end off: rank 0. */
static RengaErrorCode CutFile(void)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *stream = fopen(file, "r+");
    Expect(stream && fseek(stream, 0, SEEK_END) == 0);
    Expect(ftruncate(fileno(stream), ftell(stream) / 2) == 0 && fclose(stream) == 0);
  }
  RengaCall(RengaCommBarrier(comm, "test"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectRefused(RengaGraph graph)
{
  RengaProfile profile;
  RengaProfileCost *costs;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph), &costs));
  RengaCall(MakeProfile(graph, &profile));
  ExpectError(RengaProfileGetCosts(profile, SAMPLES, costs), RENGA_ERR_FILE_FORMAT,
              RengaCommGetRank(comm) == 0 ? "measured.h5" : "");
  RengaCall(RengaProfileDestroy(&profile));
  RengaFree(&costs);
  RengaCall(RengaCommBarrier(comm, "test"));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  if (RengaCommGetRank(comm) == 0) unlink(file);
  RengaCall(RengaCommBarrier(comm, "test"));
  RengaCall(RengaOptionsSetValue("device_threads", "1"));
  RengaCall(RengaOptionsSetValue("profile_file", file));
  RengaCall(MakeGraph(&graph));
  RengaCall(TestTwice(graph));
  RengaCall(CutFile());
  RengaCall(ExpectRefused(graph));
  RengaCall(WriteFile("no profile at all\n"));
  RengaCall(ExpectRefused(graph));
  RengaCall(RengaGraphDestroy(&graph));
  if (RengaCommGetRank(comm) == 0) unlink(file);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
