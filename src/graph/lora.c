/* Adapters of low rank (LoRA, Hu et al. 2022): a product W x becomes W x + alpha / rank * B A x, of
   which W stays as it is. A begins uniform, as peft's does, and B at zero, so that the network
   computes at first what it did before.

   Adapters come after products are fused, so that readers and builders know nothing of them. The
   sum of a product and its adapter takes the name that the product's output had. A factor stands
   where A x is narrow. Frozen parameters are not differentiated, and reverse mode ends there. Lanes
   have the first factor of a product that ends a chain as this has it. */
#include "graphimpl.h"
#include "renga/private/pattern.h"
#include <math.h>
#include <string.h>

enum { NAME_SIZE = 512, PATTERN_SIZE = RENGA_GRAPH_PATTERN };
enum { MOST_RANK = 65536 };
static const double most_alpha = 1e9;

#define AT(member) offsetof(RengaGraphLora, member)
static const RengaOptionRow rows[] = {
    {"graph_lora", RENGA_OPTION_INT64, "0", AT(rank), NULL, 0, MOST_RANK,
     "rank of low-rank adapters (LoRA), trained in place of parameters; 0: none"},
    {"graph_lora_targets", RENGA_OPTION_STRING, NULL, AT(targets), NULL, 0, 0,
     "patterns of the weights or layers that get adapters: q_proj,v_proj"},
    {"graph_lora_alpha", RENGA_OPTION_REAL, "0", AT(alpha), NULL, 0, 1e9,
     "LoRA's alpha: adapters are scaled by alpha / rank; 0: by 1"},
    {"graph_lora_dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999999,
     "LoRA's dropout: share of adapter inputs that training sets to zero"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaGraphRegisterLora(void)
{
  RengaCall(RengaOptionsRegister("Graph", N_ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode HaveLora(RengaGraph graph)
{
  if (!graph->lora) RengaCall(RengaMalloc(1, &graph->lora));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphReadLora(RengaGraph graph)
{
  RengaCall(HaveLora(graph));
  RengaCall(RengaOptionsSetFromDatabase(graph->hdr.prefix, N_ROWS, rows, graph->lora));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphCopyLora(RengaGraph from, RengaGraph to)
{
  if (from->lora) RengaCall(RengaGraphSetLora(to, from->lora));
  return RENGA_SUCCESS;
}

void RengaGraphFreeLora(RengaGraph graph)
{
  if (graph->lora) RengaOptionsFreeStrings(N_ROWS, rows, graph->lora);
  RengaFree(&graph->lora);
}

/* By value of the network as it was before; all lists are scratch. */
typedef struct {
  RengaGraph graph;
  int n_values;
  RengaAdapterKind *kind; /* of what products alone read as their weight; else NONE */
  bool *chosen;
  RengaValue *a, *b; /* the factors, once they are there */
} Adapters;

/* ---- which products ---- */
static bool IsProduct(const RengaGraphNode *node)
{
  return strcmp(node->op->name, "Linear") == 0;
}

/* A weight that is read as it is, and transposed, has no kind: its factors would differ. */
static void CountReading(const RengaGraphNode *node, int input, RengaAdapterKind *kind, bool *other)
{
  const RengaAdapterKind is =
      RengaAttributesInt(&node->attributes, "transB", 0) ? RENGA_ADAPTER : RENGA_ADAPTER_TRANSPOSED;
  if (!IsProduct(node) || input != 1 || (*kind != RENGA_ADAPTER_NONE && *kind != is)) *other = true;
  *kind = is;
}

static RengaErrorCode FindWeights(Adapters *adapters)
{
  RengaGraph graph = adapters->graph;
  bool *other;
  RengaCall(RengaGraphScratch(graph, adapters->n_values, &other));
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    for (int i = 0; i < node->n_in && !graph->entry[n]->dead; i++)
      if (node->in[i] >= 0)
        CountReading(node, i, &adapters->kind[node->in[i]], &other[node->in[i]]);
  }
  for (int v = 0; v < adapters->n_values; v++)
    if (other[v] || graph->value[v]->kind != RENGA_VALUE_PARAMETER)
      adapters->kind[v] = RENGA_ADAPTER_NONE;
  return RENGA_SUCCESS;
}

/* The name of a weight without its last word: of the layer, as modules of torch have it. */
static const char *ModuleName(const char *weight, char module[NAME_SIZE])
{
  static const char end[] = ".weight";
  const size_t length = strlen(weight), tail = sizeof end - 1;
  const bool has = length > tail && strcmp(weight + length - tail, end) == 0;
  snprintf(module, NAME_SIZE, "%.*s", (int)(has ? length - tail : length), weight);
  return module;
}

/* The name, or an end of it behind a point. */
static bool FitsEnd(const char *pattern, const char *name)
{
  for (const char *at = name; at; at = strchr(at, '.')) {
    at += *at == '.';
    if (RengaIsMatch(pattern, at)) return true;
  }
  return false;
}

/* By the name of the weight, or that of its layer. */
static bool FitsTarget(const char *pattern, const char *weight)
{
  char module[NAME_SIZE];
  return FitsEnd(pattern, weight) || FitsEnd(pattern, ModuleName(weight, module));
}

/* *near: a parameter that fits, and has no adapter. */
static bool ChooseFitting(Adapters *adapters, const char *pattern, const char **near)
{
  bool fits = false;
  *near = NULL;
  for (int v = 0; v < adapters->n_values; v++) {
    const RengaGraphValue *value = adapters->graph->value[v];
    if (value->kind != RENGA_VALUE_PARAMETER || !FitsTarget(pattern, value->name)) continue;
    if (adapters->kind[v] == RENGA_ADAPTER_NONE)
      *near = value->name;
    else
      fits = adapters->chosen[v] = true;
  }
  return fits;
}

static RengaErrorCode ChooseTargets(Adapters *adapters)
{
  RengaGraph graph = adapters->graph;
  const char *list = graph->lora->targets, *near;
  char pattern[PATTERN_SIZE];
  while (RengaGraphNextPattern(&list, pattern)) {
    const bool fits = ChooseFitting(adapters, pattern, &near);
    RengaCheck(fits || near, graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_lora_targets: \"%s\" fits no parameter of the network", pattern);
    RengaCheck(fits, graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_lora_targets: \"%s\" fits %s, which has no adapter: it is not the weight of "
               "products alone",
               pattern, near);
  }
  return RENGA_SUCCESS;
}

/* ---- their factors ---- */
static RengaErrorCode AddFactor(Adapters *adapters, RengaValue weight, const char *part,
                                const int64_t dim[2], RengaValue *factor)
{
  RengaGraph graph = adapters->graph;
  char name[NAME_SIZE + 32], module[NAME_SIZE];
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {dim[0], dim[1]}};
  const double bound = 1 / sqrt((double)dim[1]); /* Kaiming's for a slope of sqrt(5) */
  const RengaInit uniform = {.kind = RENGA_INIT_UNIFORM, .a = -bound, .b = bound};
  const bool inner = strcmp(part, "lora_A") == 0;
  snprintf(name, sizeof name, "%s.%s.weight", ModuleName(graph->value[weight]->name, module), part);
  RengaCall(RengaGraphAddParameter(graph, name, &spec, inner ? &uniform : NULL, factor));
  graph->value[*factor]->adapter = adapters->kind[weight];
  return RENGA_SUCCESS;
}

static RengaErrorCode AddFactors(Adapters *adapters, RengaValue weight)
{
  RengaGraph graph = adapters->graph;
  const RengaTensorSpec *spec = RengaGraphSpec(graph, weight);
  const bool transposed = adapters->kind[weight] == RENGA_ADAPTER_TRANSPOSED;
  const int64_t inputs = spec->dim[!transposed], outputs = spec->dim[transposed];
  const int64_t rank = graph->lora->rank;
  RengaCheck(spec->type == RENGA_FLOAT32, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "-graph_lora: %s is %s, and adapters are those of float32 weights",
             graph->value[weight]->name, RengaDataTypeName(spec->type));
  RengaCall(
      AddFactor(adapters, weight, "lora_A", (const int64_t[]){rank, inputs}, &adapters->a[weight]));
  RengaCall(AddFactor(adapters, weight, "lora_B", (const int64_t[]){outputs, rank},
                      &adapters->b[weight]));
  return RENGA_SUCCESS;
}

/* x w' */
static RengaErrorCode AddRows(RengaGraph graph, RengaValue w, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  const RengaErrorCode code = RengaGraphAddNode(graph, "Linear", NULL, &attributes, 2,
                                                (const RengaValue[]){*x, w}, 1, NULL, x);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Here, where it is narrow, and not where it is added. */
static RengaErrorCode ScaleInner(RengaGraph graph, RengaValue *x)
{
  const RengaGraphLora *lora = graph->lora;
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  const float scale = lora->alpha > 0 ? (float)(lora->alpha / (double)lora->rank) : 1;
  RengaValue in[2] = {*x, RENGA_VALUE_NONE};
  if (scale == 1) return RENGA_SUCCESS;
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &scale, &in[1]));
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, in, 1, NULL, x));
  return RENGA_SUCCESS;
}

/* The product again, under its name, as a value of its own. */
static RengaErrorCode AddProductAgain(RengaGraph graph, int at, RengaValue *y)
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  const RengaTensorSpec spec = *RengaGraphSpec(graph, node->out[0]);
  char name[NAME_SIZE], unique[NAME_SIZE];
  snprintf(name, sizeof name, "%.480s.base", node->name);
  RengaCall(RengaGraphUniqueName(graph, name, sizeof unique, unique));
  RengaCall(RengaGraphNewValue(graph, unique, RENGA_VALUE_ACTIVATION, &spec, y));
  RengaCall(RengaGraphInsertNode(graph, node->op->name, node->name, &node->attributes, node->n_in,
                                 node->in, 1, NULL, y));
  graph->entry[at]->dead = true;
  return RENGA_SUCCESS;
}

/* Readers of the product read the sum. */
static RengaErrorCode AdaptProduct(Adapters *adapters, int at)
{
  RengaGraph graph = adapters->graph;
  const RengaValue x = graph->entry[at]->node.in[0], weight = graph->entry[at]->node.in[1];
  RengaValue sum = graph->entry[at]->node.out[0], in[2];
  char name[NAME_SIZE];
  if (adapters->a[weight] == RENGA_VALUE_NONE) RengaCall(AddFactors(adapters, weight));
  graph->place = graph->entry[at]->place;
  snprintf(name, sizeof name, "%.480s.adapted", graph->entry[at]->node.name);
  RengaCall(AddProductAgain(graph, at, &in[0]));
  RengaCall(RengaGraphAddDropout(graph, x, graph->lora->dropout, &in[1]));
  RengaCall(AddRows(graph, adapters->a[weight], &in[1]));
  RengaCall(ScaleInner(graph, &in[1]));
  RengaCall(AddRows(graph, adapters->b[weight], &in[1]));
  RengaCall(RengaGraphInsertNode(graph, "Add", name, NULL, 2, in, 1, NULL, &sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLora(RengaGraph graph)
{
  const RengaGraphLora *lora = graph->lora;
  if (!lora) return RENGA_SUCCESS;
  RengaCheck(lora->rank > 0 || (!lora->targets && lora->alpha == 0 && lora->dropout == 0),
             graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_lora_targets, _alpha and _dropout need -graph_lora: adapters of which rank?");
  const char *list = lora->targets ? lora->targets : "";
  char pattern[PATTERN_SIZE];
  RengaCheck(lora->rank == 0 || RengaGraphNextPattern(&list, pattern), graph->hdr.comm,
             RENGA_ERR_OPTION,
             "-graph_lora needs -graph_lora_targets: which products have adapters? q_proj,v_proj, "
             "for instance");
  return RENGA_SUCCESS;
}

/* It was made of a network that had them, as decoders are. */
static bool HasFactors(RengaGraph graph)
{
  for (int v = 0; v < graph->n_values; v++)
    if (graph->value[v]->adapter != RENGA_ADAPTER_NONE) return true;
  return false;
}

RengaErrorCode RengaGraphAddAdapters(RengaGraph graph)
{
  Adapters adapters = {.graph = graph, .n_values = graph->n_values};
  const int n_nodes = graph->n_nodes;
  RengaCall(CheckLora(graph));
  if (!RengaGraphHasAdapters(graph) || HasFactors(graph)) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(graph, adapters.n_values, &adapters.kind));
  RengaCall(RengaGraphScratch(graph, adapters.n_values, &adapters.chosen));
  RengaCall(RengaGraphScratch(graph, adapters.n_values, &adapters.a));
  RengaCall(RengaGraphScratch(graph, adapters.n_values, &adapters.b));
  for (int v = 0; v < adapters.n_values; v++) adapters.a[v] = adapters.b[v] = RENGA_VALUE_NONE;
  RengaCall(FindWeights(&adapters));
  RengaCall(ChooseTargets(&adapters));
  for (int n = 0; n < n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    if (!graph->entry[n]->dead && IsProduct(node) && adapters.chosen[node->in[1]])
      RengaCall(AdaptProduct(&adapters, n));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetLora - train small factors of some products in place of the network's parameters

   Input:
   . graph - the graph, before RengaGraphLoad: a file may have parameters that can only be frozen
   . lora - rank, 0: no adapters; alpha, 0: the rank; dropout, in [0, 1); targets: patterns of the
     shell, comma separated, copied

   Options:
   . -graph_lora RANK, -graph_lora_targets PATTERNS, -graph_lora_alpha A, -graph_lora_dropout P -
     likewise

   Errors: RENGA_ERR_ARGUMENT for a number outside of its range; RENGA_ERR_ORDER after
   RengaGraphSetUp.

   Notes: a product with a weight W [outputs, inputs] becomes W x + alpha / rank * B A x with new
   parameters LAYER.lora_A.weight [rank, inputs], uniform as in peft, and LAYER.lora_B.weight
   [outputs, rank], zero, LAYER.weight being W (Hu et al. 2022). Weights may be stored transposed. A
   pattern fits the name of W or of the layer, or an end of these behind a point. One that fits no
   parameter, or none that products alone read as their weight, is an error of RengaGraphSetUp. All
   other parameters are frozen, but those of RengaGraphSetTrained. A weight that several products
   read has one pair of factors.

   See also: RengaGraphGetLora(), RengaGraphSetTrained(), RengaCheckpointExport()
@*/
RengaErrorCode RengaGraphSetLora(RengaGraph graph, const RengaGraphLora *lora)
{
  char *targets = NULL;
  RengaCheckPointers(graph, lora);
  RengaCheck(lora->rank >= 0 && lora->rank <= MOST_RANK, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "adapters of rank %lld: must be from 0 to %d", (long long)lora->rank, MOST_RANK);
  RengaCheck(lora->alpha >= 0 && lora->alpha <= most_alpha, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "adapters with alpha %g: must be from 0 to %g", lora->alpha, most_alpha);
  RengaCheck(lora->dropout >= 0 && lora->dropout < 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "adapters with a dropout of %g: must be from 0 to less than 1", lora->dropout);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetLora: call it before RengaGraphSetUp");
  if (lora->targets) RengaCall(RengaStringCopy(lora->targets, &targets));
  RengaGraphFreeLora(graph);
  const RengaErrorCode code = HaveLora(graph);
  if (code) RengaFree(&targets);
  RengaCall(code);
  *graph->lora = *lora;
  graph->lora->targets = targets;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetLora - the adapters of a network

   Output:
   . lora - the setting as it was set, with the rank for an alpha that stands for it. Rank 0: there
     are no adapters. Targets are lent by the graph until it is set again
@*/
RengaErrorCode RengaGraphGetLora(RengaGraph graph, RengaGraphLora *lora)
{
  RengaCheckPointers(graph, lora);
  *lora = graph->lora ? *graph->lora : (RengaGraphLora){.rank = 0};
  if (lora->alpha == 0) lora->alpha = (double)lora->rank;
  return RENGA_SUCCESS;
}
