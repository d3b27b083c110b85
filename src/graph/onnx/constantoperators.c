/* Operators that make something from shapes or attributes alone, and If. */
#include "onnx.h"
#include <math.h>

static RengaErrorCode BindTensor(RengaOnnxNode *node, const Onnx__TensorProto *tensor)
{
  RengaTensorSpec spec;
  RengaCall(RengaOnnxTensorSpec(node->importer, tensor, &spec));
  void *data;
  RengaCall(RengaOnnxTensorRead(node->importer, tensor, &spec, &data));
  if (RengaOnnxHostHasType(spec.type) && RengaTensorSpecCount(&spec) <= RENGA_ONNX_HOST_MAX) {
    RengaOnnxHost *host;
    RengaCall(RengaOnnxHostFromData(node->importer, &spec, data, &host));
    RengaCall(RengaOnnxBindHost(node, 0, host));
  } else {
    RengaValue value;
    RengaCall(RengaOnnxConstant(node, &spec, data, &value));
    RengaCall(RengaOnnxBindValue(node, 0, value));
  }
  return RENGA_SUCCESS;
}

/* value_int, value_ints, value_float, value_floats */
RengaErrorCode RengaOnnxConvertConstant(RengaOnnxNode *node)
{
  const Onnx__AttributeProto *tensor = RengaOnnxAttribute(node, "value");
  if (tensor && tensor->t) {
    RengaCall(BindTensor(node, tensor->t));
    return RENGA_SUCCESS;
  }
  const Onnx__AttributeProto *i = RengaOnnxAttribute(node, "value_int");
  const Onnx__AttributeProto *is = RengaOnnxAttribute(node, "value_ints");
  const Onnx__AttributeProto *f = RengaOnnxAttribute(node, "value_float");
  const Onnx__AttributeProto *fs = RengaOnnxAttribute(node, "value_floats");
  RengaOnnxCheck(i || is || f || fs, node, RENGA_ERR_SUPPORT,
                 "a constant that is neither a tensor nor numbers");
  int64_t count = is ? (int64_t)is->n_ints : fs ? (int64_t)fs->n_floats : 1;
  RengaOnnxHost *host;
  RengaCall(RengaOnnxHostCreate(node->importer, i || is ? RENGA_INT64 : RENGA_FLOAT32,
                                is || fs ? 1 : 0, &count, &host));
  for (int64_t k = 0; k < host->count; k++) {
    if (i || is)
      host->number[k].whole = i ? i->i : is->ints[k];
    else
      host->number[k].real = f ? (double)f->f : (double)fs->floats[k];
  }
  RengaCall(RengaOnnxBindHost(node, 0, host));
  return RENGA_SUCCESS;
}

/* The input's shape, whatever its kind, without making a parameter of it. */
static RengaErrorCode InputSpec(RengaOnnxNode *node, int input, RengaTensorSpec *spec)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  if (binding->value != RENGA_VALUE_NONE)
    *spec = *RengaOnnxSpec(node, binding->value);
  else if (binding->host)
    RengaOnnxHostSpec(binding->host, spec);
  else
    *spec = binding->spec;
  return RENGA_SUCCESS;
}

/* How many rows a mask selects is not known. */
static RengaErrorCode CountRows(RengaOnnxNode *node)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxInputBinding(node, 0, &binding));
  RengaCall(RengaOnnxRefuseRows(node, binding->value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertShape(RengaOnnxNode *node)
{
  RengaTensorSpec x;
  RengaCall(InputSpec(node, 0, &x));
  int64_t start = RengaOnnxInt(node, "start", 0), end = RengaOnnxInt(node, "end", x.ndim);
  start = start < 0 ? start + x.ndim : start;
  end = end < 0 ? end + x.ndim : end;
  start = start < 0 ? 0 : start > x.ndim ? x.ndim : start;
  end = end < start ? start : end > x.ndim ? x.ndim : end;
  int64_t count = end - start;
  RengaOnnxHost *host;
  if (start == 0 && count > 0) RengaCall(CountRows(node));
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 1, &count, &host));
  for (int64_t d = 0; d < count; d++) {
    int64_t size = x.dim[start + d];
    host->number[d] =
        (RengaOnnxNumber){.whole = size < 0 ? 0 : size, .batch = size < 0 ? -size : 0};
  }
  RengaCall(RengaOnnxBindHost(node, 0, host));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSize(RengaOnnxNode *node)
{
  RengaTensorSpec x;
  RengaOnnxHost *host;
  RengaCall(InputSpec(node, 0, &x));
  RengaCall(CountRows(node));
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 0, NULL, &host));
  bool batch = RengaOnnxBatchDimension(&x) >= 0;
  int64_t product = 1;
  for (int d = 0; d < x.ndim; d++) product *= x.dim[d] < 0 ? -x.dim[d] : x.dim[d];
  *host->number = (RengaOnnxNumber){.whole = batch ? 0 : product, .batch = batch ? product : 0};
  RengaCall(RengaOnnxBindHost(node, 0, host));
  return RENGA_SUCCESS;
}

/* What is known stays known: exporters write ends and steps of ranges in this way. */
RengaErrorCode RengaOnnxConvertCastLike(RengaOnnxNode *node)
{
  RengaTensorSpec like;
  const RengaOnnxHost *known;
  RengaOnnxHost *host = NULL;
  RengaValue x;
  RengaCall(InputSpec(node, 1, &like));
  RengaCall(RengaOnnxKnownInput(node, 0, &known));
  if (known) RengaCall(RengaOnnxCastHost(node, known, like.type, &host));
  if (host) {
    RengaCall(RengaOnnxBindHost(node, 0, host));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxCast(node, x, like.type, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitGiven(RengaOnnxNode *node, const char *op, const RengaTensorSpec *given)
{
  RengaValue y;
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "to", (int64_t)given->type));
  RengaCall(RengaOnnxEmit(node, op, 0, NULL, 1, given, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertConstantOfShape(RengaOnnxNode *node)
{
  const RengaOnnxHost *target;
  RengaOnnxHost *fill = NULL, *host;
  RengaTensorSpec spec, one;
  void *data;
  RengaCall(RengaOnnxInputShape(node, 0, &target));
  RengaCall(RengaOnnxFilledShape(node, target, &spec));
  spec.type = RENGA_FLOAT32;
  const Onnx__AttributeProto *value = RengaOnnxAttribute(node, "value");
  if (value && value->t) {
    RengaCall(RengaOnnxTensorRead(node->importer, value->t, &one, &data));
    RengaOnnxCheck(RengaTensorSpecCount(&one) == 1 && RengaOnnxHostHasType(one.type), node,
                   RENGA_ERR_SUPPORT, "the value must be one number of a supported type");
    RengaCall(RengaOnnxHostFromData(node->importer, &one, data, &fill));
    spec.type = one.type;
  }
  RengaOnnxNumber number = fill ? *fill->number : (RengaOnnxNumber){0};
  if (RengaOnnxBatchDimension(&spec) < 0 && RengaTensorSpecCount(&spec) <= RENGA_ONNX_HOST_MAX) {
    RengaCall(RengaOnnxHostCreate(node->importer, spec.type, spec.ndim, spec.dim, &host));
    for (int64_t i = 0; i < host->count; i++) host->number[i] = number;
    RengaCall(RengaOnnxBindHost(node, 0, host));
    return RENGA_SUCCESS;
  }
  bool real = spec.type == RENGA_FLOAT32 || spec.type == RENGA_FLOAT64;
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "value",
                                   real ? number.real : (double)number.whole));
  RengaCall(EmitGiven(node, "ConstantOfShape", &spec));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertEyeLike(RengaOnnxNode *node)
{
  RengaTensorSpec x;
  RengaCall(InputSpec(node, 0, &x));
  const Onnx__AttributeProto *type = RengaOnnxAttribute(node, "dtype");
  int wanted = type ? RengaOnnxTypeFromFile(type->i) : (int)x.type;
  RengaOnnxCheck(wanted >= 0, node, RENGA_ERR_SUPPORT, "its type is not supported");
  x.type = (RengaDataType)wanted;
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "k", RengaOnnxInt(node, "k", 0)));
  RengaCall(EmitGiven(node, "EyeLike", &x));
  return RENGA_SUCCESS;
}

/* Only ranges that folding leaves: long ones, and 0 … c * batch. */
RengaErrorCode RengaOnnxConvertRange(RengaOnnxNode *node)
{
  const RengaOnnxHost *in[3];
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaOnnxInputHost(node, i, &in[i]));
    RengaOnnxCheck(in[i]->count == 1, node, RENGA_ERR_FILE_FORMAT, "input %d must be a scalar", i);
  }
  RengaCall(RengaOnnxUniteRange(node, in));
  RengaTensorSpec spec = {.type = in[0]->spec.type, .ndim = 1};
  bool real = spec.type == RENGA_FLOAT32 || spec.type == RENGA_FLOAT64;
  RengaOnnxNumber start = *in[0]->number, limit = *in[1]->number, delta = *in[2]->number;
  double first = real ? start.real : (double)start.whole,
         step = real ? delta.real : (double)delta.whole;
  double last = real ? limit.real : (double)limit.whole, length = ceil((last - first) / step);
  bool whole_batch = limit.batch > 0 && last == first && step == 1;
  RengaOnnxCheckApart(start.batch == 0 && delta.batch == 0 && (limit.batch == 0 || whole_batch),
                      node, "a range that depends on the batch size in this way");
  RengaOnnxCheck(step != 0 && (whole_batch || length < 1e12), node, RENGA_ERR_FILE_FORMAT,
                 "a range from %g to %g by %g", first, last, step);
  spec.dim[0] = whole_batch ? -limit.batch : length > 0 ? (int64_t)length : 0;
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "start", first));
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "delta", step));
  RengaCall(EmitGiven(node, "Range", &spec));
  return RENGA_SUCCESS;
}

/* A condition that is known while reading chooses the branch. */
RengaErrorCode RengaOnnxConvertIf(RengaOnnxNode *node)
{
  const RengaOnnxHost *condition;
  RengaCall(RengaOnnxInputHost(node, 0, &condition));
  RengaOnnxCheck(condition->count == 1, node, RENGA_ERR_FILE_FORMAT, "the condition is no scalar");
  const char *name = condition->number->whole ? "then_branch" : "else_branch";
  const Onnx__AttributeProto *branch = RengaOnnxAttribute(node, name);
  RengaOnnxCheck(branch && branch->g, node, RENGA_ERR_FILE_FORMAT, "it has no %s", name);
  const Onnx__GraphProto *graph = branch->g;
  RengaOnnxCheck(graph->n_output == node->proto->n_output, node, RENGA_ERR_FILE_FORMAT,
                 "its %s makes %zu tensors, but the node %zu", name, graph->n_output,
                 node->proto->n_output);
  RengaOnnxScope *scope;
  RengaCall(RengaOnnxScopeCreate(node->importer, node->scope, &scope));
  RengaCall(RengaOnnxImportInitializers(node->importer, scope, graph));
  RengaCall(RengaOnnxImportNodes(node->importer, scope, graph->n_node, graph->node));
  for (size_t i = 0; i < graph->n_output; i++) {
    const char *made = graph->output[i]->name ? graph->output[i]->name : "";
    RengaOnnxBinding *binding = RengaOnnxScopeFind(scope, made);
    RengaOnnxCheck(binding, node, RENGA_ERR_FILE_FORMAT, "its %s does not make \"%s\"", name, made);
    RengaCall(RengaOnnxBindAlias(node, (int)i, binding));
  }
  return RENGA_SUCCESS;
}
