/*
   Samples stay apart: whatever micro-batches a batch is cut into, each sample meets the same
   numbers. So no operator may work along the batch, and a reshape may not move elements from one
   sample to another. In a dimension of c times the batch the batch need not be outermost: what is
   followed here is the number of runs through all samples inside that dimension (1 for [N] and
   [N*T]; T for [T*N], which is [T,N] made flat).
*/
#include "graphimpl.h"
#include "renga/private/op.h"
#include <string.h>

enum { ANY = 0 }; /* the same for all samples: fits every order */

typedef struct {
  RengaGraph graph;
  int64_t *runs; /* by value */
} Samples;

static const RengaTensorSpec *SpecOf(const Samples *samples, RengaValue value)
{
  return RengaGraphSpec(samples->graph, value);
}

static int BatchOf(const Samples *samples, RengaValue value)
{
  return value < 0 ? -1 : RengaGraphBatchDimension(SpecOf(samples, value));
}

#define Mixed(node, ...)                                                                           \
  RengaGraphRefuseMixed(samples->graph, node, "it would mix the samples of the batch: " __VA_ARGS__)

/* All inputs that have the batch have it in the same order, and so have the outputs. */
static RengaErrorCode Together(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  *runs = ANY;
  for (int i = 0; i < node->n_in; i++) {
    if (BatchOf(samples, node->in[i]) < 0) continue;
    int64_t mine = samples->runs[node->in[i]];
    if (mine == ANY) continue;
    if (*runs != ANY && *runs != mine)
      Mixed(node, "its inputs have them in different orders (a transpose is missing)");
    *runs = mine;
  }
  return RENGA_SUCCESS;
}

static int64_t FollowProduct(const RengaTensorSpec *spec, int last)
{
  int64_t product = 1;
  for (int d = 0; d < last; d++) product *= spec->dim[d];
  return product;
}

/* The runs through all samples that lie before and in the batch's dimension stay as many. */
static RengaErrorCode FollowReshape(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  int from = BatchOf(samples, node->in[0]), to = BatchOf(samples, node->out[0]);
  if (from < 0 || to < 0 || samples->runs[node->in[0]] == ANY) return RENGA_SUCCESS;
  const RengaTensorSpec *y = SpecOf(samples, node->out[0]);
  int64_t all = FollowProduct(SpecOf(samples, node->in[0]), from) * samples->runs[node->in[0]];
  int64_t before = FollowProduct(y, to);
  bool whole = before > 0 && all % before == 0 && -y->dim[to] % (all / before) == 0;
  if (!whole) Mixed(node, "elements of one sample would move to another (a transpose is missing)");
  *runs = all / before;
  return RENGA_SUCCESS;
}

static int AxisOf(const Samples *samples, const RengaGraphNode *node, int input)
{
  RengaOpCall call = {.op = node->op, .attributes = &node->attributes};
  int64_t axis = RengaOpCallInt(&call, "axis");
  return (int)(axis < 0 ? axis + SpecOf(samples, node->in[input])->ndim : axis);
}

static RengaErrorCode FollowAlongAxis(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  int batch = BatchOf(samples, node->in[0]);
  if (batch >= 0 && batch == AxisOf(samples, node, 0))
    Mixed(node,
          "it works along dimension %d, "
          "which is the batch",
          batch);
  return RENGA_SUCCESS;
}

/* From the axis on. */
static RengaErrorCode OverTail(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  if (BatchOf(samples, node->in[0]) >= AxisOf(samples, node, 0))
    Mixed(node, "it normalises over dimension %d, which is the batch",
          BatchOf(samples, node->in[0]));
  return RENGA_SUCCESS;
}

/* [N, C, space…] */
static RengaErrorCode BatchFirst(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  if (BatchOf(samples, node->in[0]) > 0)
    Mixed(node, "dimension %d is the batch, which must be the first here",
          BatchOf(samples, node->in[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode NotInMatrix(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  for (int i = 0; i < node->n_in && i < 3; i++) {
    int batch = BatchOf(samples, node->in[i]);
    if (batch >= 0 && batch >= SpecOf(samples, node->in[i])->ndim - 2)
      Mixed(node, "dimension %d of input %d is the batch, but one of the last two", batch, i);
  }
  return RENGA_SUCCESS;
}

/* Parts that are joined along the batch are runs through it. */
static RengaErrorCode FollowConcat(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  int batch = BatchOf(samples, node->in[0]);
  if (batch < 0 || batch != AxisOf(samples, node, 0)) return RENGA_SUCCESS;
  for (int i = 1; i < node->n_in; i++)
    if (SpecOf(samples, node->in[i])->dim[batch] != SpecOf(samples, node->in[0])->dim[batch])
      Mixed(node, "parts of different size are joined along the batch");
  if (*runs != ANY) *runs *= node->n_in;
  return RENGA_SUCCESS;
}

static RengaErrorCode FollowSplit(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  int batch = BatchOf(samples, node->in[0]);
  if (batch < 0 || batch != AxisOf(samples, node, 0)) return RENGA_SUCCESS;
  if (*runs % node->n_out != 0) Mixed(node, "the batch is split");
  *runs /= node->n_out;
  return RENGA_SUCCESS;
}

static RengaErrorCode FollowTile(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  int count, batch = BatchOf(samples, node->in[0]);
  const int64_t *repeats = RengaAttributesInts(&node->attributes, "repeats", &count);
  if (batch >= 0 && batch < count) *runs *= repeats[batch];
  return RENGA_SUCCESS;
}

static RengaErrorCode FollowSlice(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  int count, steps, batch = BatchOf(samples, node->in[0]);
  const int64_t *axes = RengaAttributesInts(&node->attributes, "axes", &count);
  const int64_t *step = RengaAttributesInts(&node->attributes, "steps", &steps);
  for (int i = 0; i < steps && batch >= 0; i++) {
    int64_t axis = count ? axes[i] : i;
    if (axis < 0) axis += SpecOf(samples, node->in[0])->ndim;
    if (axis == batch && step[i] != 1) Mixed(node, "it takes the samples in another order");
  }
  return RENGA_SUCCESS;
}

/* Indices into the batch name samples of the whole batch. */
static RengaErrorCode Indices(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  int batch = BatchOf(samples, node->in[0]);
  const RengaTensorSpec *indices = SpecOf(samples, node->in[1]);
  int64_t first = RengaAttributesInt(&node->attributes, "batch_dims", 0);
  int64_t depth = indices->dim[indices->ndim - 1];
  if (batch >= first && batch < first + depth) Mixed(node, "it takes samples by their number");
  return RENGA_SUCCESS;
}

static RengaErrorCode ByNumber(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  if (BatchOf(samples, node->in[0]) >= 0)
    Mixed(node, "it takes images of the batch by their number");
  return RENGA_SUCCESS;
}

static RengaErrorCode Numbered(Samples *samples, const RengaGraphNode *node, int64_t *runs)
{
  (void)runs;
  if (BatchOf(samples, node->out[0]) >= 0)
    Mixed(node,
          "it numbers the samples, and a micro-batch does not know the numbers of its own. As an "
          "index along the batch (x[torch.arange(len(x)), k]) they are known; for anything else "
          "give them to the network as an input [N]");
  return RENGA_SUCCESS;
}

/* An operator from outside takes rows for samples; one that is elementwise takes any shape. */
static RengaErrorCode FollowOutside(Samples *samples, const RengaGraphNode *node)
{
  if (node->op->flags & RENGA_OP_ELEMENTWISE) return RENGA_SUCCESS;
  for (int i = 0; i < node->n_in + node->n_out; i++) {
    const int batch = BatchOf(samples, i < node->n_in ? node->in[i] : node->out[i - node->n_in]);
    if (batch > 0)
      Mixed(node, "dimension %d is the batch, which must be the first of an operator from outside",
            batch);
  }
  return RENGA_SUCCESS;
}

static const struct {
  const char *op;
  RengaErrorCode (*rule)(Samples *samples, const RengaGraphNode *node, int64_t *runs);
} rules[] = {
    {"Reshape", FollowReshape},
    {"Concat", FollowConcat},
    {"Split", FollowSplit},
    {"Tile", FollowTile},
    {"Slice", FollowSlice},
    {"Softmax", FollowAlongAxis},
    {"LogSoftmax", FollowAlongAxis},
    {"LpNormalization", FollowAlongAxis},
    {"Hardmax", FollowAlongAxis},
    {"CumSum", FollowAlongAxis},
    {"CumProd", FollowAlongAxis},
    {"TopK", FollowAlongAxis},
    {"ArgMax", FollowAlongAxis},
    {"ArgMin", FollowAlongAxis},
    {"Gather", FollowAlongAxis},
    {"GatherElements", FollowAlongAxis},
    {"ScatterElements", FollowAlongAxis},
    {"CrossEntropy", FollowAlongAxis},
    {"CrossEntropyLane", FollowAlongAxis},
    {"LogLikelihood", FollowAlongAxis},
    {"GatherND", Indices},
    {"ScatterND", Indices},
    {"LayerNormalization", OverTail},
    {"RMSNormalization", OverTail},
    {"Conv", BatchFirst},
    {"ConvTranspose", BatchFirst},
    {"MaxPool", BatchFirst},
    {"AveragePool", BatchFirst},
    {"BatchNormalization", BatchFirst},
    {"GroupNormalization", BatchFirst},
    {"InstanceNormalization", BatchFirst},
    {"LRN", BatchFirst},
    {"DepthToSpace", BatchFirst},
    {"SpaceToDepth", BatchFirst},
    {"Attention", NotInMatrix},
    {"Trilu", NotInMatrix},
    {"Det", NotInMatrix},
    {"RoiAlign", ByNumber},
    {"Range", Numbered},
    {"EyeLike", Numbered},
};
enum { N_RULES = sizeof rules / sizeof rules[0] };

/* With a loss or without one: outputs are put together from micro-batches too. */
RengaErrorCode RengaGraphCheckSamples(RengaGraph graph)
{
  Samples samples = {.graph = graph};
  RengaCall(RengaGraphScratch(graph, graph->n_values, &samples.runs));
  for (int i = 0; i < graph->n_values; i++)
    samples.runs[i] = graph->value[i]->kind == RENGA_VALUE_INPUT ? 1 : ANY;
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    int64_t runs;
    RengaCall(Together(&samples, node, &runs));
    for (int r = 0; r < N_RULES; r++)
      if (strcmp(node->op->name, rules[r].op) == 0) RengaCall(rules[r].rule(&samples, node, &runs));
    if (RengaOperatorIsOutside_Private(node->op->name)) RengaCall(FollowOutside(&samples, node));
    for (int j = 0; j < node->n_out; j++) samples.runs[node->out[j]] = runs;
    for (int j = 0; j < node->n_out; j++) graph->value[node->out[j]]->in_order = runs <= 1;
  }
  return RENGA_SUCCESS;
}
