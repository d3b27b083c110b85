/* What patterns are found and replaced with. */
#include "../fuse.h"
#include <math.h>
#include <string.h>

const RengaGraphNode *RengaFuseProducer(RengaGraph graph, RengaValue value, const char *op)
{
  int producer = value < 0 ? -1 : graph->value[value]->producer;
  if (producer < 0 || graph->entry[producer]->dead) return NULL;
  const RengaGraphNode *node = &graph->entry[producer]->node;
  return strcmp(node->op->name, op) == 0 ? node : NULL;
}

const RengaGraphNode *RengaFuseInner(RengaGraph graph, RengaValue value, const char *op)
{
  const RengaGraphNode *node = RengaFuseProducer(graph, value, op);
  return node && graph->readers[value] == 1 ? node : NULL;
}

bool RengaFuseScalar(RengaGraph graph, RengaValue value, double *number)
{
  if (value < 0 || graph->value[value]->kind != RENGA_VALUE_CONSTANT) return false;
  const RengaGraphValue *constant = graph->value[value];
  if (RengaTensorSpecCount(&constant->spec) != 1) return false;
  switch (constant->spec.type) {
  case RENGA_FLOAT32:
    *number = *(const float *)constant->data;
    return true;
  case RENGA_FLOAT64:
    *number = *(const double *)constant->data;
    return true;
  case RENGA_INT32:
    *number = *(const int32_t *)constant->data;
    return true;
  case RENGA_INT64:
    *number = (double)*(const int64_t *)constant->data;
    return true;
  default:
    return false;
  }
}

bool RengaFuseRepeated(RengaGraph graph, RengaValue value, double *number)
{
  const RengaGraphNode *expand = RengaFuseProducer(graph, value, "Expand");
  if (expand) value = expand->in[0];
  if (RengaFuseScalar(graph, value, number)) return true;
  const RengaGraphValue *constant = graph->value[value];
  if (constant->kind != RENGA_VALUE_CONSTANT || constant->spec.type != RENGA_FLOAT32) return false;
  const float *data = constant->data;
  const int64_t count = RengaTensorSpecCount(&constant->spec);
  for (int64_t i = 1; i < count; i++)
    if (data[i] != data[0]) return false;
  if (count > 0) *number = data[0];
  return count > 0;
}

RengaValue RengaFuseDefined(RengaGraph graph, int root)
{
  const RengaGraphNode *where = &graph->entry[root]->node;
  const RengaGraphNode *test = RengaFuseProducer(graph, where->in[0], "IsNaN");
  double zero;
  if (test == NULL || test->in[0] != where->in[2]) return RENGA_VALUE_NONE;
  return RengaFuseRepeated(graph, where->in[1], &zero) && zero == 0 ? where->in[2]
                                                                    : RENGA_VALUE_NONE;
}

bool RengaFuseWithScalar(RengaGraph graph, const RengaGraphNode *node, bool commutes,
                         double *number, RengaValue *other)
{
  if (node->n_in != 2) return false;
  int side = RengaFuseScalar(graph, node->in[1], number) ? 1 : 0;
  if (side == 0 && !(commutes && RengaFuseScalar(graph, node->in[0], number))) return false;
  *other = node->in[1 - side];
  return RengaTensorSpecEqual(RengaGraphSpec(graph, *other), RengaGraphSpec(graph, node->out[0]));
}

bool RengaFuseNear(double a, double b)
{
  return fabs(a - b) <= 1e-5 * fabs(b);
}

bool RengaFuseIsTail(const RengaTensorSpec *part, const RengaTensorSpec *whole, int axis)
{
  if (part->ndim != whole->ndim - axis) return false;
  for (int d = 0; d < part->ndim; d++)
    if (part->dim[d] != whole->dim[axis + d] || part->dim[d] < 0) return false;
  return true;
}

RengaErrorCode RengaFuseReplace(RengaGraph graph, int root, const char *op,
                                const RengaAttributes *attributes, int n_in, const RengaValue in[])
{
  RengaValue out = graph->entry[root]->node.out[0];
  graph->place = graph->entry[root]->place;
  RengaCall(RengaGraphInsertNode(graph, op, graph->entry[root]->node.name, attributes, n_in, in, 1,
                                 NULL, &out));
  RengaGraphKillNode(graph, root);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFuseBefore(RengaGraph graph, int root, const char *op,
                               const RengaAttributes *attributes, int n_in, const RengaValue in[],
                               RengaValue *y)
{
  graph->place = graph->entry[root]->place - 1;
  *y = RENGA_VALUE_NONE;
  RengaCall(RengaGraphInsertNode(graph, op, NULL, attributes, n_in, in, 1, NULL, y));
  return RENGA_SUCCESS;
}
