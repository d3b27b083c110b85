/* Nodes that the rules of reverse mode are made of. */
#include "../reverse.h"
#include <string.h>

RengaErrorCode RengaReverseApply(RengaReverse *reverse, const char *op, RengaAttributes *attributes,
                                 int n_in, const RengaValue in[], const RengaTensorSpec *given,
                                 RengaValue *y)
{
  RengaValue made = RENGA_VALUE_NONE;
  RengaErrorCode code =
      RengaGraphInsertNode(reverse->graph, op, NULL, attributes, n_in, in, 1, given, &made);
  if (attributes) RengaAttributesFree(attributes);
  RengaCall(code);
  *y = made;
  return RENGA_SUCCESS;
}

/* "axis" is declared in "axis:int=-1 epsilon:real=1e-5" */
static bool Declares(const RengaOperator *op, const char *name)
{
  size_t length = strlen(name);
  for (const char *text = op->attributes; text; text = strchr(text, ' ')) {
    text += strspn(text, " ");
    if (strncmp(text, name, length) == 0 && text[length] == ':') return true;
  }
  return false;
}

RengaErrorCode RengaReverseApplyLike(RengaReverse *reverse, const char *op, int n_in,
                                     const RengaValue in[], const RengaTensorSpec *given, int n_out,
                                     RengaValue y[])
{
  const RengaOperator *row = RengaOperatorFind(op);
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesCopy(&reverse->node->attributes, &attributes));
  for (int i = attributes.count; i-- > 0;)
    if (row && !Declares(row, attributes.row[i].name))
      RengaCall(RengaAttributesRemove(&attributes, attributes.row[i].name));
  for (int i = 0; i < n_out; i++) y[i] = RENGA_VALUE_NONE;
  RengaErrorCode code =
      RengaGraphInsertNode(reverse->graph, op, NULL, &attributes, n_in, in, n_out, given, y);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseUnaryOp(RengaReverse *reverse, const char *op, RengaValue x,
                                   RengaValue *y)
{
  RengaCall(RengaReverseApply(reverse, op, NULL, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseBinaryOp(RengaReverse *reverse, const char *op, RengaValue a,
                                    RengaValue b, RengaValue *y)
{
  RengaCall(RengaReverseApply(reverse, op, NULL, 2, (const RengaValue[]){a, b}, NULL, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseScalar(RengaReverse *reverse, RengaDataType type, double number,
                                  RengaValue *y)
{
  char name[64];
  RengaTensorSpec spec = {.type = type, .ndim = 0};
  char *data = NULL;
  if (type != RENGA_FLOAT32 && type != RENGA_FLOAT64)
    RengaReverseRefuse(reverse, "constants of type %s", RengaDataTypeName(type));
  RengaCall(RengaGraphUniqueName(reverse->graph, "constant", sizeof name, name));
  RengaCall(RengaGraphNewValue(reverse->graph, name, RENGA_VALUE_CONSTANT, &spec, y));
  RengaCall(RengaMalloc(sizeof(double), &data));
  if (type == RENGA_FLOAT64)
    memcpy(data, &number, sizeof number);
  else
    memcpy(data, &(float){(float)number}, sizeof(float));
  reverse->graph->value[*y]->data = data;
  reverse->graph->value[*y]->prepared = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseWithScalar(RengaReverse *reverse, const char *op, RengaValue a,
                                      double number, RengaValue *y)
{
  RengaValue scalar;
  RengaCall(RengaReverseScalar(reverse, RengaReverseSpec(reverse, a)->type, number, &scalar));
  RengaCall(RengaReverseBinaryOp(reverse, op, a, scalar, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseChoose(RengaReverse *reverse, RengaValue condition, RengaValue a,
                                  RengaValue b, RengaValue *y)
{
  RengaValue zero, in[3] = {condition, a, b};
  RengaDataType type = RengaReverseSpec(reverse, a >= 0 ? a : b)->type;
  RengaCall(RengaReverseScalar(reverse, type, 0, &zero));
  for (int i = 1; i < 3; i++)
    if (in[i] < 0) in[i] = zero;
  RengaCall(RengaReverseApply(reverse, "Where", NULL, 3, in, NULL, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseWithoutZero(RengaReverse *reverse, RengaValue x, RengaValue g,
                                       RengaValue *y)
{
  RengaValue zero;
  RengaCall(RengaReverseWithScalar(reverse, "Equal", x, 0, &zero));
  RengaCall(RengaReverseChoose(reverse, zero, RENGA_VALUE_NONE, g, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseReshape(RengaReverse *reverse, RengaValue x,
                                   const RengaTensorSpec *shape, RengaValue *y)
{
  RengaTensorSpec given = *shape;
  given.type = RengaReverseSpec(reverse, x)->type;
  *y = x;
  if (RengaTensorSpecEqual(&given, RengaReverseSpec(reverse, x))) return RENGA_SUCCESS;
  RengaCall(RengaReverseApply(reverse, "Reshape", NULL, 1, &x, &given, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseSum(RengaReverse *reverse, RengaValue x, int count, const int64_t axes[],
                               bool keep, RengaValue *y)
{
  RengaAttributes attributes = {0};
  *y = x;
  if (count == 0) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInts(&attributes, "axes", count, axes));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", keep));
  RengaCall(RengaReverseApply(reverse, "ReduceSum", &attributes, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseZeros(RengaReverse *reverse, RengaValue like, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaTensorSpec given = *RengaReverseSpec(reverse, like);
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)given.type));
  RengaCall(RengaReverseApply(reverse, "ConstantOfShape", &attributes, 0, NULL, &given, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseReduceTo(RengaReverse *reverse, RengaValue x, RengaValue target,
                                    RengaValue *y)
{
  const RengaTensorSpec *wide = RengaReverseSpec(reverse, x);
  const RengaTensorSpec *narrow = RengaReverseSpec(reverse, target);
  int64_t axes[RENGA_MAX_DIM];
  int count = 0, lead = wide->ndim - narrow->ndim;
  for (int d = 0; d < wide->ndim; d++) {
    bool repeated = d < lead || (narrow->dim[d - lead] == 1 && wide->dim[d] != 1);
    if (repeated) axes[count++] = d;
  }
  RengaValue sum;
  RengaCall(RengaReverseSum(reverse, x, count, axes, true, &sum));
  RengaCall(RengaReverseReshape(reverse, sum, narrow, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseInsertLike(RengaGraph graph, const char *op, int lane, int n_in,
                                      const RengaValue in[], RengaValue *out)
{
  RengaCall(RengaGraphInsertNode(graph, op, NULL, NULL, n_in, in, 1, NULL, out));
  graph->value[*out]->stored = graph->value[in[0]]->stored;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = lane;
  return RENGA_SUCCESS;
}
