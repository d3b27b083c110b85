/* TEST ranks: 1 */
/* Products of networks in lanes read 16 bits, forward and backward, as those of whole networks do:
   all but biases, statistics, what the network is given, and what -precision_keep names. Gradients
   are as near to those of float32 as without lanes. */
#include "../plan/plantest.h"
#include "execute.h"
#include "lanenetworks.h"
#include "renga/private/graph.h"
#include <math.h>

#define WORDS ",sequence=8,vocabulary=61"

static const char *const networks[] = {
    "gpt:layers=2,hidden=16,heads=4" WORDS,
    "gpt:layers=2,hidden=16,heads=4,tied=0,dropout=0.1" WORDS,
    "llama:layers=2,hidden=32,heads=8,groups=4,intermediate=36" WORDS,
    "llama:layers=2,hidden=32,heads=8,groups=2,intermediate=36" WORDS,
    "bert:layers=2,hidden=16,heads=4,intermediate=20,next_sentence=1" WORDS,
    "t5:layers=1,hidden=16,heads=4,head_width=4,intermediate=20,gated=1,buckets=8" WORDS,
    "transformer:layers=1,hidden=16,heads=4,intermediate=20,target=7" WORDS,
    "resnet:depth=18,width=0.125,image=32,classes=8",
    "mlp:sizes=9-16-12-16-10",
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0], BUILT = 4 };

static RengaErrorCode AddNetwork(RengaGraph graph, int number)
{
  if (number < N_NETWORKS) return RengaGraphLoad(graph, networks[number]);
  if (number == N_NETWORKS) return AddImages(graph);
  if (number == N_NETWORKS + 1) return AddSequences(graph);
  return AddExperts(graph, number == N_NETWORKS + 2);
}

typedef struct {
  int network, lanes, tokens;
  RengaPrecision precision;
  const char *keep;
} Case;

static RengaErrorCode Differentiate(RengaComm comm, const Case *one, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(AddNetwork(*graph, one->network));
  RengaCall(RengaGraphSetPrecision(*graph, one->precision, one->keep));
  RengaCall(RengaGraphSetLanes(*graph, one->lanes));
  RengaCall(RengaGraphSetTokenLanes(*graph, one->tokens));
  RengaCall(RengaGraphSetUp(*graph));
  RengaCall(RengaGraphDifferentiate(*graph, 0, NULL, NULL, 0, NULL, NULL));
  return RENGA_SUCCESS;
}

static bool IsProduct(const RengaGraphNode *node)
{
  static const char *const products[] = {"MatMul", "Linear", "Conv", "ConvTranspose", "Attention"};
  for (size_t p = 0; p < sizeof products / sizeof products[0]; p++)
    if (strncmp(node->op->name, products[p], strlen(products[p])) == 0) return true;
  return false;
}

/* Images and the like, or rows of them. */
static bool IsGiven(RengaGraph graph, RengaValue value)
{
  const RengaGraphValue *given = RengaGraphGetValue(graph, value);
  while (given->producer >= 0 && !given->prepared &&
         strcmp(RengaGraphGetNode(graph, given->producer)->op->name, "Slice") == 0)
    given = RengaGraphGetValue(graph, RengaGraphGetNode(graph, given->producer)->in[0]);
  return given->prepared || given->kind == RENGA_VALUE_INPUT;
}

/* Input i of a product is no factor where it is a bias or a statistic. */
static bool IsWideFactor(RengaGraph graph, const RengaGraphNode *node, int i)
{
  const bool bias = i == 2 && strncmp(node->op->name, "Attention", strlen("Attention")) != 0;
  if (node->in[i] == RENGA_VALUE_NONE || bias || IsGiven(graph, node->in[i])) return false;
  const RengaGraphValue *value = RengaGraphGetValue(graph, node->in[i]);
  return value->stored == RENGA_FLOAT32 && value->output == 0;
}

static int CountWideFactors(RengaGraph graph, const Case *one)
{
  int count = 0;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int i = 0; i < node->n_in && IsProduct(node); i++) {
      if (!IsWideFactor(graph, node, i)) continue;
      count++;
      if (!one->keep)
        fprintf(stderr, "network %d in %d lanes, %d of tokens: %s of \"%s\" reads %s in float32\n",
                one->network, one->lanes, one->tokens, node->op->name, node->name,
                RengaGraphGetValue(graph, node->in[i])->name);
    }
  }
  return count;
}

static RengaErrorCode CheckCase(RengaComm comm, const Case *one)
{
  RengaGraph graph;
  RengaCall(Differentiate(comm, one, &graph));
  TestTrue((CountWideFactors(graph, one) > 0) == (one->keep != NULL));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Terms, their pieces and inner sums of these have 32 bits; their sum, its pieces and all gradients
   of these 16. Of what lanes read terms of the gradient have 32. */
static RengaErrorCode CheckTerms(RengaComm comm)
{
  const Case one = {0, 4, 1, RENGA_PRECISION_BF16, NULL};
  RengaGraph graph;
  int terms = 0;
  RengaCall(Differentiate(comm, &one, &graph));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (strncmp(value->name, "blocks.1.out", strlen("blocks.1.out")) != 0) continue;
    if (value->kind != RENGA_VALUE_ACTIVATION || value->spec.ndim < 3) continue;
    const bool whole = !strstr(value->name, "lane") || strstr(value->name, "lanes0-3");
    TestTrue(value->stored == (whole ? RENGA_BFLOAT16 : RENGA_FLOAT32));
    TestTrue(value->stored_gradient == RENGA_BFLOAT16);
    terms += !whole;
  }
  TestTrue(terms == 4 + 4 * 4 + 2 * 4);
  const RengaValue read = RengaGraphFindValue(graph, "blocks.1.ln2.shared");
  TestTrue(read != RENGA_VALUE_NONE);
  TestTrue(RengaGraphGetValue(graph, read)->stored == RENGA_BFLOAT16);
  TestTrue(RengaGraphGetValue(graph, read)->stored_gradient == RENGA_FLOAT32);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(RengaComm comm, RengaDevice device, const Case *one, Execute *execute)
{
  RengaGraph graph;
  RengaCall(Differentiate(comm, one, &graph));
  RengaCall(ExecuteCreate(graph, device, 3, 5, execute));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    const bool two = value->spec.ndim < 2 || strstr(value->name, "segment");
    for (int64_t i = 0; i < ExecuteCountElements(execute, v); i++)
      if (value->kind == RENGA_VALUE_INPUT)
        ExecuteSet(execute, v, i,
                   value->spec.type == RENGA_FLOAT32 ? sin((double)i)
                                                     : (i * 5 + 3) % (two ? 2 : 7));
  }
  RengaCall(ExecuteRun(execute, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode End(Execute *execute)
{
  RengaGraph graph = execute->graph;
  RengaCall(ExecuteDestroy(execute));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Element i of the gradient of a parameter, all uses together. */
static double Gradient(const Execute *execute, const char *name, int64_t i)
{
  const RengaParameterUse *use;
  int count;
  double sum = 0;
  RengaCallAbort(RengaGraphGetParameterUses(execute->graph, &count, &use));
  for (int u = 0; u < count; u++)
    if (strcmp(RengaGraphGetValue(execute->graph, use[u].parameter)->name, name) == 0)
      sum += ExecuteGet(execute, use[u].gradient, i);
  return sum;
}

/* How far gradients are from those of float32. */
static RengaErrorCode Distances(RengaComm comm, RengaDevice device, const Case *one,
                                const Execute *exact, double distance[])
{
  Execute execute;
  RengaCall(Run(comm, device, one, &execute));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(exact->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(exact->graph, v);
    distance[v] = 0;
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    for (int64_t i = 0; i < ExecuteCountElements(exact, v); i++)
      distance[v] += pow(Gradient(&execute, value->name, i) - Gradient(exact, value->name, i), 2);
    distance[v] = sqrt(distance[v]);
  }
  RengaCall(End(&execute));
  return RENGA_SUCCESS;
}

/* Lanes leave gradients as near to those of float32 as one lane does. */
static RengaErrorCode CheckNumbers(RengaComm comm, RengaDevice device, int network)
{
  Case one = {network, 1, 1, RENGA_PRECISION_FP32, NULL};
  Execute exact;
  double *distance, all[2] = {0};
  RengaCall(Run(comm, device, &one, &exact));
  const int count = RengaGraphGetValueCount(exact.graph);
  RengaCall(RengaMalloc(2 * count, &distance));
  one.precision = RENGA_PRECISION_BF16;
  RengaCall(Distances(comm, device, &one, &exact, distance));
  one.lanes = 4;
  RengaCall(Distances(comm, device, &one, &exact, distance + count));
  for (int v = 0; v < count; v++) {
    TestTrue(distance[count + v] <= 1.5 * distance[v]);
    all[0] += distance[v] * distance[v];
    all[1] += distance[count + v] * distance[count + v];
  }
  TestTrue(all[0] > 0 && all[1] <= 1.1 * 1.1 * all[0]);
  RengaFree(&distance);
  RengaCall(End(&exact));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(void)
{
  static const int numbers[] = {1, 2, 4};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int n = 0; n < N_NETWORKS + BUILT; n++)
    for (int l = 0; l < 3; l++) {
      const bool in_tokens = n < N_NETWORKS - 1;
      Case one = {n, numbers[l], 1, l == 1 ? RENGA_PRECISION_FP16 : RENGA_PRECISION_BF16, NULL};
      RengaCall(CheckCase(comm, &one));
      one.lanes = 1;
      one.tokens = numbers[l];
      if (in_tokens && l > 0) RengaCall(CheckCase(comm, &one));
    }
  RengaCall(CheckCase(comm, &(Case){0, 2, 1, RENGA_PRECISION_BF16, "blocks.1.out"}));
  RengaCall(CheckTerms(comm));
  RengaDevice device;
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_CPU));
  RengaCall(RengaDeviceSetUp(device));
  for (int n = 0; n < N_NETWORKS + BUILT; n++) /* with dropout lanes have other random numbers */
    if (!strstr(n < N_NETWORKS ? networks[n] : "", "dropout"))
      RengaCall(CheckNumbers(comm, device, n));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(CheckAll());
  RengaCallAbort(RengaFinalize());
  return 0;
}
