/* Operators whose newest ONNX form is Renga's, and those that differ in one attribute. */
#include "form.h"
#include <math.h>
#include <string.h>

/* Attributes of the file onto the node that is being made; except: names separated by blanks. */
RengaErrorCode RengaOnnxCopyAttributes(RengaOnnxNode *node, const char *except)
{
  RengaAttributes *to = &node->importer->attributes;
  for (size_t i = 0; i < node->proto->n_attribute; i++) {
    const char *name = node->proto->attribute[i]->name;
    if (RengaOnnxIsToolsAttribute(name) || RengaOnnxHasWord(except, name)) continue;
    const Onnx__AttributeProto *from = RengaOnnxAttribute(node, name);
    if (!from) continue;
    if (from->has_f || from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT)
      RengaCall(RengaAttributesSetReal(to, name, (double)from->f));
    else if (from->has_i || from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)
      RengaCall(RengaAttributesSetInt(to, name, from->i));
    else if (from->n_ints)
      RengaCall(RengaAttributesSetInts(to, name, (int)from->n_ints, from->ints));
    else if (from->has_s || from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING) {
      char *text;
      RengaCall(RengaOnnxAllocate(node->importer, (int64_t)from->s.len + 1, 1, &text));
      if (from->s.len) memcpy(text, from->s.data, from->s.len);
      RengaCall(RengaAttributesSetString(to, name, text));
    } else
      RengaOnnxRaise(node, RENGA_ERR_SUPPORT, "attribute %s is of a kind that is not supported",
                     name);
  }
  return RENGA_SUCCESS;
}

/* Samples cannot be put in a row with something that is there once for all of them. */
static RengaErrorCode CheckJoined(RengaOnnxNode *node, int n, const RengaValue in[])
{
  bool samples = false, others = false;
  int axis;
  for (int i = 0; i < n; i++) {
    if (in[i] == RENGA_VALUE_NONE) continue;
    const RengaTensorSpec *spec = RengaOnnxSpec(node, in[i]);
    RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), spec->ndim, &axis));
    samples = samples || spec->dim[axis] < 0;
    others = others || spec->dim[axis] > 0;
  }
  RengaOnnxCheckApart(!samples || !others, node,
                      "it joins the samples of the batch with something that is no sample (as "
                      "torch.nn.EmbeddingBag does: write it as Embedding and a sum)");
  return RENGA_SUCCESS;
}

enum { INPUTS_MAX = 4096 };

/* Inputs as values, outputs as many as the file uses. */
RengaErrorCode RengaOnnxConvertSame(RengaOnnxNode *node)
{
  int n_in = RengaOnnxInputCount(node), n_out = 1;
  RengaValue *in, *out;
  RengaOnnxCheck(n_in <= INPUTS_MAX && node->proto->n_output <= INPUTS_MAX, node, RENGA_ERR_SUPPORT,
                 "more than %d inputs or outputs", INPUTS_MAX);
  for (int i = 1; i < (int)node->proto->n_output; i++)
    if (RengaOnnxIsUsed(node, i)) n_out = i + 1;
  RengaCall(RengaOnnxAllocate(node->importer, n_in, sizeof *in, &in));
  RengaCall(RengaOnnxAllocate(node->importer, n_out, sizeof *out, &out));
  for (int i = 0; i < n_in; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  const RengaOperator *op = RengaOperatorFind(node->proto->op_type);
  bool broadcasts = op && op->flags & RENGA_OP_ELEMENTWISE;
  if (broadcasts || RengaOnnxHasWord("Concat GatherElements", node->proto->op_type))
    RengaCall(RengaOnnxOpenOperands(node, broadcasts, n_in, in));
  if (strcmp(node->proto->op_type, "Concat") == 0) RengaCall(CheckJoined(node, n_in, in));
  RengaCall(RengaOnnxCopyAttributes(node, ""));
  RengaCall(RengaOnnxEmit(node, node->proto->op_type, n_in, in, n_out, NULL, out));
  for (int i = 0; i < n_out; i++) RengaCall(RengaOnnxBindValue(node, i, out[i]));
  return RENGA_SUCCESS;
}

/* Indices that are constant along the axis, perhaps copied along others; NULL: they are data. */
static const RengaGraphValue *ConstantIndices(RengaGraph graph, RengaValue indices)
{
  const RengaGraphValue *value = RengaGraphGetValue(graph, indices);
  const RengaGraphNode *made = RengaGraphGetNode(graph, value->producer);
  const int ndim = value->spec.ndim;
  if (made && strcmp(made->op->name, "Expand") == 0) value = RengaGraphGetValue(graph, made->in[0]);
  bool known = value->kind == RENGA_VALUE_CONSTANT && value->spec.type == RENGA_INT64;
  return known && value->spec.ndim == ndim ? value : NULL;
}

/* [outer, n, inner]: does an index stand twice in one of the lines? */
static bool HasTwice(const RengaGraphValue *indices, int axis, int64_t *twice)
{
  const int64_t *data = indices->data, n = indices->spec.dim[axis];
  int64_t inner = 1;
  for (int d = axis + 1; d < indices->spec.ndim; d++) inner *= indices->spec.dim[d];
  for (int64_t i = 0; i < RengaTensorSpecCount(&indices->spec); i++)
    for (int64_t k = i / inner % n + 1, j = i + inner; k < n; k++, j += inner)
      if (data[i] == data[j]) {
        *twice = data[i];
        return true;
      }
  return false;
}

/* ONNX leaves open which of two updates of one element stays. The older exporter writes
   index_add so, whose sum it loses. */
static RengaErrorCode CheckWrittenOnce(RengaOnnxNode *node, RengaValue indices)
{
  const RengaGraphValue *known = ConstantIndices(node->importer->graph, indices);
  int64_t twice;
  int axis;
  if (!known || known->spec.ndim == 0 || RengaTensorSpecCount(&known->spec) > RENGA_ONNX_HOST_MAX ||
      !RengaOnnxString(node, "reduction", "none", "none"))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), known->spec.ndim, &axis));
  RengaOnnxCheck(!HasTwice(known, axis, &twice), node, RENGA_ERR_SUPPORT,
                 "index %lld is written twice, and which of the two stays is not defined. Where "
                 "they were to be added, say so with reduction=\"add\": torch.onnx.export(..., "
                 "dynamo=True) does it for index_add and scatter_add",
                 (long long)twice);
  return RENGA_SUCCESS;
}

/* Scatter is the name of ScatterElements before opset 11. */
RengaErrorCode RengaOnnxConvertScatter(RengaOnnxNode *node)
{
  RengaValue in[3], y;
  for (int i = 0; i < 3; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  RengaCall(CheckWrittenOnce(node, in[1]));
  RengaCall(RengaOnnxOpenOperands(node, false, 3, in));
  RengaCall(RengaOnnxCopyAttributes(node, ""));
  RengaCall(RengaOnnxEmit(node, "ScatterElements", 3, in, 1, NULL, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvertToChain(RengaOnnxNode *node, const char *op, RengaValue *y)
{
  RengaCall(RengaOnnxInputValue(node, 0, y));
  for (int i = 1; i < RengaOnnxInputCount(node); i++) {
    RengaValue pair[2] = {*y, RENGA_VALUE_NONE};
    RengaCall(RengaOnnxInputValue(node, i, &pair[1]));
    RengaCall(RengaOnnxOpenOperands(node, true, 2, pair));
    RengaCall(RengaOnnxApply(node, op, pair[0], pair[1], y));
  }
  RengaOnnxCheck(*y != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "the first input is missing");
  return RENGA_SUCCESS;
}

/* clamp() by a number may be written as Max and Min, whose gradient at the bound is another. The
   number is a scalar that the exporter made: a bound that is a tensor keeps its half. */
static RengaErrorCode ClampByNumber(RengaOnnxNode *node, bool *done)
{
  const RengaOnnxHost *bound = NULL;
  const bool most = strcmp(node->proto->op_type, "Max") == 0;
  RengaValue x;
  *done = false;
  if (RengaOnnxInputCount(node) != 2 || strcmp(node->proto->op_type, "Sum") == 0 ||
      !RengaOnnxIsCallOf(node, "aten.clamp.Tensor") || !strstr(node->call, "%scalar_tensor"))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxKnownInput(node, 1, &bound));
  if (!bound || bound->spec.ndim != 0 || !RengaDataTypeIsFloating(bound->spec.type))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, most ? "min" : "max",
                                   bound->number->real));
  RengaCall(RengaOnnxApply(node, "Clip", x, RENGA_VALUE_NONE, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  *done = true;
  return RENGA_SUCCESS;
}

/* Min, Max and Sum of n inputs: ((a, b), c) … */
RengaErrorCode RengaOnnxConvertChain(RengaOnnxNode *node)
{
  RengaValue y;
  bool done;
  const char *op = node->proto->op_type;
  RengaCall(ClampByNumber(node, &done));
  if (done) return RENGA_SUCCESS;
  RengaCall(ConvertToChain(node, strcmp(op, "Sum") == 0 ? "Add" : op, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertMean(RengaOnnxNode *node)
{
  RengaValue y;
  RengaCall(ConvertToChain(node, "Add", &y));
  RengaCall(RengaOnnxApplyReal(node, "Div", y, RengaOnnxInputCount(node), &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertIdentity(RengaOnnxNode *node)
{
  RengaOnnxBinding *binding;
  RengaValue x;
  RengaCall(RengaOnnxInputBinding(node, 0, &binding));
  if (RengaOnnxIsDetach(node) && binding->kind != RENGA_ONNX_HOST) {
    RengaCall(RengaOnnxInputValue(node, 0, &x));
    RengaCall(RengaOnnxApply(node, "StopGradient", x, RENGA_VALUE_NONE, &x));
    RengaCall(RengaOnnxBindValue(node, 0, x));
    return RENGA_SUCCESS;
  }
  RengaOnnxNoteMerged(node, binding);
  RengaCall(RengaOnnxBindAlias(node, 0, binding));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertCast(RengaOnnxNode *node)
{
  int64_t to = RengaOnnxInt(node, "to", 0);
  int type = RengaOnnxTypeFromFile(to);
  RengaOnnxCheck(type >= 0, node, RENGA_ERR_SUPPORT, "a cast to ONNX data type %lld",
                 (long long)to);
  RengaValue x;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxCast(node, x, (RengaDataType)type, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* A bound of Clip: an attribute until opset 10, then an input that may be no constant. */
static RengaErrorCode ClipBound(RengaOnnxNode *node, int input, const char *attribute,
                                const char *op, RengaValue *x)
{
  if (node->opset < 11) {
    if (!RengaOnnxAttribute(node, attribute)) return RENGA_SUCCESS;
    double bound = RengaOnnxReal(node, attribute, 0);
    RengaCall(RengaOnnxApplyReal(node, op, *x, bound, x));
    return RENGA_SUCCESS;
  }
  if (!RengaOnnxHasInput(node, input)) return RENGA_SUCCESS;
  RengaValue bound;
  RengaCall(RengaOnnxInputValue(node, input, &bound));
  RengaCall(RengaOnnxApply(node, op, *x, bound, x));
  return RENGA_SUCCESS;
}

/* Both bounds constant: one Clip. */
static RengaErrorCode ClipConstant(RengaOnnxNode *node, bool *done)
{
  double low = -INFINITY, high = INFINITY;
  RengaValue x;
  *done = false;
  for (int i = 1; i < 3 && node->opset >= 11; i++) {
    RengaOnnxBinding *binding;
    if (!RengaOnnxHasInput(node, i)) continue;
    RengaCall(RengaOnnxInputBinding(node, i, &binding));
    if (binding->kind == RENGA_ONNX_VALUE) return RENGA_SUCCESS;
    RengaCall(RengaOnnxInputReal(node, i, i == 1 ? &low : &high));
  }
  if (node->opset < 11) {
    low = RengaOnnxReal(node, "min", low);
    high = RengaOnnxReal(node, "max", high);
  }
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "min", low));
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "max", high));
  RengaCall(RengaOnnxApply(node, "Clip", x, RENGA_VALUE_NONE, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  *done = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertClip(RengaOnnxNode *node)
{
  RengaValue x;
  bool done;
  RengaCall(ClipConstant(node, &done));
  if (done) return RENGA_SUCCESS;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(ClipBound(node, 1, "min", "Max", &x));
  RengaCall(ClipBound(node, 2, "max", "Min", &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* An axis or count that newer forms take as an input and Renga as an attribute. */
static RengaErrorCode InputToAttribute(RengaOnnxNode *node, int input, const char *name)
{
  int64_t number[2 * RENGA_MAX_DIM];
  int count;
  RengaCall(RengaOnnxInputInts(node, input, &count, number));
  if (count < 0) return RENGA_SUCCESS;
  RengaOnnxCheck(count == 1, node, RENGA_ERR_FILE_FORMAT, "input %d must be one number", input);
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, name, number[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvertOneInput(RengaOnnxNode *node, int n_out)
{
  RengaValue x, out[2];
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxEmit(node, node->proto->op_type, 1, &x, n_out, NULL, out));
  for (int i = 0; i < n_out; i++) RengaCall(RengaOnnxBindValue(node, i, out[i]));
  return RENGA_SUCCESS;
}

/* Input 1, a constant, becomes the attribute. */
static RengaErrorCode ConvertWithAttribute(RengaOnnxNode *node, const char *attribute, int n_out)
{
  RengaCall(RengaOnnxCopyAttributes(node, ""));
  RengaCall(InputToAttribute(node, 1, attribute));
  RengaCall(ConvertOneInput(node, n_out));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertTrilu(RengaOnnxNode *node)
{
  return ConvertWithAttribute(node, "k", 1);
}

RengaErrorCode RengaOnnxConvertCumSum(RengaOnnxNode *node)
{
  return ConvertWithAttribute(node, "axis", 1);
}

RengaErrorCode RengaOnnxConvertTopK(RengaOnnxNode *node)
{
  return ConvertWithAttribute(node, "k", 2);
}

/* Indices, depth, [off, on]. */
RengaErrorCode RengaOnnxConvertOneHot(RengaOnnxNode *node)
{
  RengaValue indices, values, y;
  double depth = 0;
  RengaCall(RengaOnnxInputValue(node, 0, &indices));
  RengaCall(RengaOnnxInputReal(node, 1, &depth));
  RengaCall(RengaOnnxInputValue(node, 2, &values));
  RengaCall(RengaOnnxCopyAttributes(node, ""));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "depth", (int64_t)depth));
  RengaCall(RengaOnnxApply(node, "OneHot", indices, values, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
