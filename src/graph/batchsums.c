/*
   Sums over the batch. A micro-batch knows only its share of such a sum, so after one only linear
   operators may follow; a share that depends on the data alone may be made whole by BatchSum.
*/
#include "graphimpl.h"
#include <string.h>

static RengaErrorCode AddCast(RengaGraph graph, RengaValue x, RengaDataType type, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaValue made = x;
  if (RengaGraphSpec(graph, x)->type != type) {
    made = RENGA_VALUE_NONE;
    RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
    RengaErrorCode code =
        RengaGraphInsertNode(graph, "Cast", NULL, &attributes, 1, &x, 1, NULL, &made);
    RengaAttributesFree(&attributes);
    RengaCall(code);
  }
  *y = made;
  return RENGA_SUCCESS;
}

/* Sums over the batch are float32, whatever the type of the network. */
static RengaErrorCode AddBatchSum(RengaGraph graph, RengaValue share, RengaValue *whole)
{
  const RengaDataType type = RengaGraphSpec(graph, share)->type;
  RengaValue sum = RENGA_VALUE_NONE, x;
  RengaCall(AddCast(graph, share, RENGA_FLOAT32, &x));
  RengaCall(RengaGraphInsertNode(graph, "BatchSum", NULL, NULL, 1, &x, 1, NULL, &sum));
  RengaCall(AddCast(graph, sum, type, whole));
  graph->value[x]->prepared = graph->value[sum]->prepared = graph->value[*whole]->prepared = true;
  return RENGA_SUCCESS;
}

/* ReduceMean over the batch = ReduceSum / BatchSum(number of elements) */
static RengaErrorCode AddCount(RengaGraph graph, const RengaGraphNode *node, const bool over[],
                               RengaValue *count)
{
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[0]);
  RengaTensorSpec ones = {.type = x->type, .ndim = 1};
  double number = 1;
  for (int d = 0; d < x->ndim; d++) {
    if (over[d] && x->dim[d] < 0)
      ones.dim[0] = x->dim[d];
    else if (over[d])
      number *= (double)x->dim[d];
  }
  RengaAttributes attributes = {0};
  RengaValue y = RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetReal(&attributes, "value", number));
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)x->type));
  RengaErrorCode code =
      RengaGraphInsertNode(graph, "ConstantOfShape", NULL, &attributes, 0, NULL, 1, &ones, &y);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaValue sum = RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  code = RengaGraphInsertNode(graph, "ReduceSum", NULL, &attributes, 1, &y, 1, NULL, &sum);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(AddBatchSum(graph, sum, count));
  return RENGA_SUCCESS;
}

static RengaErrorCode RewriteMean(RengaGraph graph, int at, const bool over[])
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  RengaValue sum = RENGA_VALUE_NONE, count, out = node->out[0];
  graph->place = graph->entry[at]->place;
  RengaCall(AddCount(graph, node, over, &count));
  RengaCall(RengaGraphInsertNode(graph, "ReduceSum", NULL, &node->attributes, 1, node->in, 1, NULL,
                                 &sum));
  RengaCall(RengaGraphInsertNode(graph, "Div", node->name, NULL, 2,
                                 (const RengaValue[]){sum, count}, 1, NULL, &out));
  graph->entry[at]->dead = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphRewriteMeans(RengaGraph graph)
{
  for (int i = 0, n = graph->n_nodes; i < n; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    bool over[RENGA_MAX_DIM] = {false};
    int count;
    if (strcmp(node->op->name, "ReduceMean") != 0) continue;
    int ndim = RengaGraphSpec(graph, node->in[0])->ndim;
    int batch = RengaGraphBatchDimension(RengaGraphSpec(graph, node->in[0]));
    const int64_t *axes = RengaAttributesInts(&node->attributes, "axes", &count);
    bool all = count == 0 && !RengaAttributesInt(&node->attributes, "noop_with_empty_axes", 0);
    for (int d = 0; d < ndim; d++) over[d] = all;
    for (int j = 0; j < count; j++) over[axes[j] < 0 ? axes[j] + ndim : axes[j]] = true;
    if (batch >= 0 && over[batch]) RengaCall(RewriteMean(graph, i, over));
  }
  return RENGA_SUCCESS;
}

/* What becomes of shares in an operator. */
typedef enum {
  SHARE_OTHER,   /* not linear */
  SHARE_SUM,     /* may add up over the batch: its result is a share */
  SHARE_UNARY,   /* linear in its first input */
  SHARE_ALL,     /* linear in all inputs together: all or none are shares */
  SHARE_PRODUCT, /* linear in each input */
  SHARE_QUOTIENT,
  SHARE_WHOLE, /* makes a share whole */
} ShareKind;

static const struct {
  const char *op;
  ShareKind kind;
} kinds[] = {
    {"ReduceSum", SHARE_SUM},
    {"ReduceSumSquare", SHARE_SUM},
    {"ReduceL1", SHARE_SUM},
    {"CrossEntropy", SHARE_SUM},
    {"CrossEntropyCount", SHARE_SUM},
    {"CrossEntropyJoin", SHARE_SUM},
    {"LogLikelihood", SHARE_SUM},
    {"MatMul", SHARE_PRODUCT},
    {"Mul", SHARE_PRODUCT},
    {"Div", SHARE_QUOTIENT},
    {"Add", SHARE_ALL},
    {"Sub", SHARE_ALL},
    {"Concat", SHARE_ALL},
    {"Neg", SHARE_UNARY},
    {"Identity", SHARE_UNARY},
    {"StopGradient", SHARE_UNARY},
    {"Reshape", SHARE_UNARY},
    {"Expand", SHARE_UNARY},
    {"Transpose", SHARE_UNARY},
    {"Slice", SHARE_UNARY},
    {"Split", SHARE_UNARY},
    {"Gather", SHARE_UNARY},
    {"Cast", SHARE_UNARY},
    {"ReduceMean", SHARE_UNARY},
    {"Tile", SHARE_UNARY},
    {"BatchSum", SHARE_WHOLE},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static ShareKind KindOfShare(const RengaOperator *op)
{
  for (int i = 0; i < N_KINDS; i++)
    if (strcmp(op->name, kinds[i].op) == 0) return kinds[i].kind;
  return SHARE_OTHER;
}

typedef struct {
  RengaGraph graph;
  bool *share; /* by value */
  int size;
} Shares;

static bool IsShare(const Shares *shares, RengaValue value)
{
  return value >= 0 && value < shares->size && shares->share[value];
}

static bool IsPrepared(const Shares *shares, RengaValue value)
{
  return shares->graph->value[value]->prepared;
}

/* The input is read as its sum over the whole batch. */
static RengaErrorCode MakeWhole(Shares *shares, int at, int input)
{
  RengaGraph graph = shares->graph;
  RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  RengaValue value = node->in[input], whole = RENGA_VALUE_NONE;
  if (!IsPrepared(shares, value))
    RengaGraphRefuseMixed(graph, node,
                          "input \"%s\" is a sum over the batch that depends on parameters. Each "
                          "micro-batch makes a part of it, and after this operator the parts would "
                          "not add up. Linear operators may follow such a sum, nothing else",
                          graph->value[value]->name);
  graph->place = graph->entry[at]->place - 1;
  RengaCall(AddBatchSum(graph, value, &whole));
  node->in[input] = whole;
  return RENGA_SUCCESS;
}

/* Bit i: input i is a share. */
static unsigned ShareBits(const Shares *shares, const RengaGraphNode *node)
{
  unsigned bits = 0;
  for (int i = 0; i < node->n_in; i++)
    if (IsShare(shares, node->in[i])) bits |= 1u << (i < 31 ? i : 31);
  return bits;
}

static RengaErrorCode MakeAllWhole(Shares *shares, int at)
{
  const RengaGraphNode *node = &shares->graph->entry[at]->node;
  for (int i = 0; i < node->n_in; i++)
    if (IsShare(shares, node->in[i])) RengaCall(MakeWhole(shares, at, i));
  return RENGA_SUCCESS;
}

/* The micro-batch's part of the batch: its samples / BatchSum(its samples). */
static RengaErrorCode AddMicrobatchPart(RengaGraph graph, RengaDataType type, RengaValue *part)
{
  const RengaTensorSpec ones = {.type = type, .ndim = 1, .dim = {-1}};
  RengaAttributes attributes = {0};
  RengaValue one = RENGA_VALUE_NONE, number = RENGA_VALUE_NONE, all;
  *part = RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetReal(&attributes, "value", 1));
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
  RengaErrorCode code =
      RengaGraphInsertNode(graph, "ConstantOfShape", NULL, &attributes, 0, NULL, 1, &ones, &one);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  code = RengaGraphInsertNode(graph, "ReduceSum", NULL, &attributes, 1, &one, 1, NULL, &number);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(AddBatchSum(graph, number, &all));
  RengaCall(RengaGraphInsertNode(graph, "Div", NULL, NULL, 2, (const RengaValue[]){number, all}, 1,
                                 NULL, part));
  return RENGA_SUCCESS;
}

/* What is added to a sum and has no samples, a penalty on weights: each micro-batch has its part of
   that too. */
static RengaErrorCode MakeShare(Shares *shares, int at, int input)
{
  RengaGraph graph = shares->graph;
  RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  RengaValue value = node->in[input], part, share = RENGA_VALUE_NONE;
  graph->place = graph->entry[at]->place - 1;
  RengaCall(AddMicrobatchPart(graph, RengaGraphSpec(graph, value)->type, &part));
  RengaCall(RengaGraphInsertNode(graph, "Mul", NULL, NULL, 2, (const RengaValue[]){value, part}, 1,
                                 NULL, &share));
  node->in[input] = share;
  return RENGA_SUCCESS;
}

/* May the rest be cut into shares as well? */
static bool CanShareAll(const Shares *shares, const RengaGraphNode *node)
{
  if (strcmp(node->op->name, "Add") != 0 && strcmp(node->op->name, "Sub") != 0) return false;
  for (int i = 0; i < node->n_in; i++) {
    bool share = IsShare(shares, node->in[i]);
    if (share ? IsPrepared(shares, node->in[i]) : RengaGraphHasBatch(shares->graph, node->in[i]))
      return false;
  }
  return true;
}

/* A sum and something that is none: a sum over data alone is made whole. */
static RengaErrorCode LinearInAll(Shares *shares, int at, bool *share)
{
  const RengaGraphNode *node = &shares->graph->entry[at]->node;
  *share = true;
  for (int i = 0; i < node->n_in; i++) *share = *share && IsShare(shares, node->in[i]);
  if (*share) return RENGA_SUCCESS;
  *share = CanShareAll(shares, node);
  if (!*share) RengaCall(MakeAllWhole(shares, at));
  for (int i = 0; i < node->n_in && *share; i++)
    if (!IsShare(shares, node->in[i])) RengaCall(MakeShare(shares, at, i));
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearInEach(Shares *shares, int at, bool *share)
{
  const RengaGraphNode *node = &shares->graph->entry[at]->node;
  bool both = IsShare(shares, node->in[0]) && IsShare(shares, node->in[1]);
  int whole = -1;
  for (int i = 0; i < 2; i++) {
    bool other_has_batch = RengaGraphHasBatch(shares->graph, node->in[1 - i]);
    if (!IsShare(shares, node->in[i])) continue;
    if ((both && IsPrepared(shares, node->in[i])) || other_has_batch) whole = i;
  }
  if (both && whole < 0) whole = 1;
  if (whole >= 0) RengaCall(MakeWhole(shares, at, whole));
  *share = IsShare(shares, node->in[0]) || IsShare(shares, node->in[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode QuotientKind(Shares *shares, int at, bool *share)
{
  const RengaGraphNode *node = &shares->graph->entry[at]->node;
  if (IsShare(shares, node->in[1])) RengaCall(MakeWhole(shares, at, 1));
  *share = IsShare(shares, node->in[0]);
  if (*share && RengaGraphHasBatch(shares->graph, node->in[1])) {
    RengaCall(MakeWhole(shares, at, 0));
    *share = false;
  }
  return RENGA_SUCCESS;
}

/* Inputs that are shares, by the kind of the operator. */
static RengaErrorCode PassShares(Shares *shares, int at, ShareKind kind, bool *share)
{
  const RengaGraphNode *node = &shares->graph->entry[at]->node;
  *share = false;
  if (kind == SHARE_ALL)
    RengaCall(LinearInAll(shares, at, share));
  else if (kind == SHARE_PRODUCT)
    RengaCall(LinearInEach(shares, at, share));
  else if (kind == SHARE_QUOTIENT)
    RengaCall(QuotientKind(shares, at, share));
  else if (kind == SHARE_UNARY || (kind == SHARE_SUM && strcmp(node->op->name, "ReduceSum") == 0))
    *share = IsShare(shares, node->in[0]) && ShareBits(shares, node) == 1;
  else if (kind != SHARE_WHOLE)
    RengaCall(MakeAllWhole(shares, at));
  if (kind == SHARE_UNARY && !*share) RengaCall(MakeAllWhole(shares, at));
  return RENGA_SUCCESS;
}

/* A node that reads the batch and makes something without it. */
static RengaErrorCode LoseBatch(Shares *shares, const RengaGraphNode *node, ShareKind kind,
                                bool *share)
{
  *share = false;
  if (strcmp(node->op->name, "WholeBatch") == 0) return RENGA_SUCCESS;
  bool sum = kind == SHARE_SUM || (kind == SHARE_PRODUCT && strcmp(node->op->name, "MatMul") == 0);
  if (!sum && strcmp(node->op->name, "BatchNormalization") != 0)
    RengaGraphRefuseMixed(
        shares->graph, node,
        "\"%s\" has no batch although an input has: only sums and means over the batch "
        "can be put together from micro-batches",
        shares->graph->value[node->out[0]]->name);
  *share = sum;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBatchSum(Shares *shares, const RengaGraphNode *node)
{
  RengaGraph graph = shares->graph;
  if (!IsPrepared(shares, node->in[0]))
    RengaGraphRefuseMixed(
        graph, node,
        "\"%s\" depends on parameters, states or random numbers: it cannot be summed over "
        "the batch before the first forward",
        graph->value[node->in[0]]->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitSharedNode(Shares *shares, int at)
{
  RengaGraph graph = shares->graph;
  const RengaGraphNode *node = &graph->entry[at]->node;
  ShareKind kind = KindOfShare(node->op);
  bool share = false, batch = false;
  if (kind == SHARE_WHOLE) RengaCall(CheckBatchSum(shares, node));
  if (ShareBits(shares, node)) RengaCall(PassShares(shares, at, kind, &share));
  for (int i = 0; i < node->n_in; i++) batch = batch || RengaGraphHasBatch(graph, node->in[i]);
  if (batch && !RengaGraphHasBatch(graph, node->out[0]))
    RengaCall(LoseBatch(shares, node, kind, &share));
  for (int i = 0; i < node->n_out; i++)
    shares->share[node->out[i]] = share && !RengaGraphHasBatch(graph, node->out[i]);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphCheckShares(RengaGraph graph)
{
  Shares shares = {.graph = graph, .size = graph->n_values};
  bool open = false;
  RengaCall(RengaGraphScratch(graph, graph->n_values, &shares.share));
  for (int i = 0; i < graph->n_values; i++) open = open || RengaGraphHasBatch(graph, i);
  for (int i = 0, n = graph->n_nodes; i < n && open; i++) RengaCall(VisitSharedNode(&shares, i));
  if (!open || graph->loss < 0 || graph->options.whole_batch > 0) return RENGA_SUCCESS;
  const RengaGraphNode *node = &graph->entry[graph->value[graph->loss]->producer]->node;
  if (!shares.share[graph->loss])
    RengaGraphRefuseMixed(graph, node,
                          "the loss \"%s\" is not a sum or mean over the samples of the "
                          "batch",
                          graph->value[graph->loss]->name);
  return RENGA_SUCCESS;
}
