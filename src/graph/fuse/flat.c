/* Norms and deviations in parts, as exporters write them. Their roots and powers get the attribute
   flat: the gradient is 0 where all terms are 0, as that of the function which was exported.
   Without it the gradient of a root of 0 is infinite, and that of its terms no number. A root of a
   sum of squares that nobody exports for a norm stays as it is: its gradient has no end in PyTorch,
   too. Softmax and Log get it where a pattern makes a number of what is none. */
#include "../fuse.h"

/* Past nodes that repeat, reshape or multiply by one number. */
static RengaValue PastFactors(RengaGraph graph, RengaValue value)
{
  static const char *const through[] = {"Reshape", "Expand", "Identity", "Cast", "Mul", "Div"};
  for (int i = 0; i < 6; i++) {
    const RengaGraphNode *node = RengaFuseProducer(graph, value, through[i]);
    double number;
    if (node == NULL) continue;
    if (i >= 4 && RengaFuseScalar(graph, node->in[1], &number))
      value = node->in[0];
    else if (i == 4 && RengaFuseScalar(graph, node->in[0], &number))
      value = node->in[1];
    else if (i < 4)
      value = node->in[0];
    else
      continue;
    i = -1;
  }
  return value;
}

/* c = x - mean(x) */
static bool IsCentered(RengaGraph graph, RengaValue c)
{
  const RengaGraphNode *sub = RengaFuseProducer(graph, c, "Sub");
  if (sub == NULL) return false;
  const RengaGraphNode *mean =
      RengaFuseProducer(graph, PastFactors(graph, sub->in[1]), "ReduceMean");
  return mean && mean->in[0] == sub->in[0];
}

static RengaErrorCode SetFlat(RengaGraph graph, int root)
{
  RengaCall(RengaAttributesSetInt(&graph->entry[root]->node.attributes, "flat", 1));
  return RENGA_SUCCESS;
}

/* sqrt(mean(c * c)), of which the mean may be repeated or have a factor, n / (n - 1) */
static RengaErrorCode MarkDeviation(RengaGraph graph, int root, bool *done)
{
  (void)done;
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaValue inside = PastFactors(graph, node->in[0]);
  const RengaGraphNode *mean = RengaFuseProducer(graph, inside, "ReduceMean");
  if (mean == NULL) mean = RengaFuseProducer(graph, inside, "ReduceSum");
  const RengaGraphNode *square = mean ? RengaFuseProducer(graph, mean->in[0], "Mul") : NULL;
  if (square && square->in[0] == square->in[1] && IsCentered(graph, square->in[0]))
    RengaCall(SetFlat(graph, root));
  return RENGA_SUCCESS;
}

/* sum(|x|^p)^(1/p): the outer power is flat, and where p < 1 the inner one, too. */
static RengaErrorCode MarkNorm(RengaGraph graph, int root, bool *done)
{
  (void)done;
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaGraphNode *sum = RengaFuseProducer(graph, node->in[0], "ReduceSum");
  const RengaGraphNode *power = sum ? RengaFuseProducer(graph, sum->in[0], "Pow") : NULL;
  double inverse, p;
  if (power == NULL || RengaFuseProducer(graph, power->in[0], "Abs") == NULL ||
      !RengaFuseScalar(graph, node->in[1], &inverse) || !RengaFuseScalar(graph, power->in[1], &p) ||
      !RengaFuseNear(inverse * p, 1))
    return RENGA_SUCCESS;
  RengaCall(SetFlat(graph, root));
  if (p < 1) RengaCall(SetFlat(graph, graph->value[sum->in[0]]->producer));
  return RENGA_SUCCESS;
}

/* Where(IsNaN(p), 0, p) of p = softmax(x): a row of nothing has no gradient. */
static RengaErrorCode MarkSoftmax(RengaGraph graph, int root, bool *done)
{
  (void)done;
  const RengaValue p = RengaFuseDefined(graph, root);
  if (RengaFuseProducer(graph, p, "Softmax")) RengaCall(SetFlat(graph, graph->value[p]->producer));
  return RENGA_SUCCESS;
}

/* There is a logarithm of 1 - x beside that of x, or the other way round. */
static bool HasOpposite(RengaGraph graph, RengaValue x)
{
  const RengaGraphNode *own = RengaFuseProducer(graph, x, "Sub");
  for (RengaValue v = 0; v < graph->n_values; v++) {
    const RengaGraphNode *log = RengaFuseProducer(graph, v, "Log");
    const RengaGraphNode *other = log ? RengaFuseProducer(graph, log->in[0], "Sub") : NULL;
    if (log && own && own->in[1] == log->in[0]) return true;
    if (other && other->in[1] == x) return true;
  }
  return false;
}

/* The logarithm that max(log(x), -100) bounds: that of a binary cross-entropy. Its gradient is
   that of log(x), whatever the bound. */
static RengaErrorCode MarkLogarithm(RengaGraph graph, int root, bool *done)
{
  (void)done;
  const RengaGraphNode *node = &graph->entry[root]->node;
  for (int i = 0; i < node->n_in && i < 2; i++) {
    const RengaGraphNode *log = RengaFuseProducer(graph, node->in[i], "Log");
    double least = RengaAttributesReal(&node->attributes, "min", 0);
    if (RengaFuseInner(graph, node->in[i], "Log") == NULL) continue;
    if (node->n_in > 1) RengaFuseRepeated(graph, node->in[1 - i], &least);
    if (least != -100) continue;
    RengaCall(SetFlat(graph, graph->value[node->in[i]]->producer));
    if (log && HasOpposite(graph, log->in[0])) RengaCall(SetFlat(graph, root));
  }
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseFlat[] = {
    {"Sqrt", MarkDeviation}, {"Pow", MarkNorm},       {"Where", MarkSoftmax},
    {"Max", MarkLogarithm},  {"Clip", MarkLogarithm}, {NULL, NULL},
};
