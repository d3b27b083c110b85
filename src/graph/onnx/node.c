/* What a conversion asks of its node: inputs as values and numbers; and what it gives back. */
#include "onnx.h"
#include <string.h>

RengaErrorCode RengaOnnxInputBinding(RengaOnnxNode *node, int input, RengaOnnxBinding **binding)
{
  RengaOnnxCheck(RengaOnnxHasInput(node, input), node, RENGA_ERR_FILE_FORMAT, "input %d is missing",
                 input);
  *binding = RengaOnnxReplaced(node, input);
  if (*binding) return RENGA_SUCCESS;
  const char *name = node->proto->input[input];
  RengaOnnxBinding *found = RengaOnnxScopeFind(node->scope, name);
  RengaOnnxCheck(
      found, node, RENGA_ERR_FILE_FORMAT,
      "no input, initializer or earlier node makes tensor \"%s\" (or nodes form a cycle)", name);
  RengaOnnxCheck(found->kind != RENGA_ONNX_DROPPED, node, RENGA_ERR_SUPPORT,
                 "tensor \"%s\" is not supported: %s", name, found->why);
  *binding = found;
  return RENGA_SUCCESS;
}

/* First values of a parameter without data in the file: as networks usually begin. */
static RengaInit DefaultInit(const RengaOnnxBinding *binding)
{
  size_t length = strlen(binding->name);
  bool bias = length >= 4 && strcmp(binding->name + length - 4, "bias") == 0;
  if (binding->zeros) return (RengaInit){.kind = RENGA_INIT_CONSTANT};
  if (binding->spec.ndim > 1) return (RengaInit){.kind = RENGA_INIT_NORMAL, .b = 0.02};
  return (RengaInit){.kind = RENGA_INIT_CONSTANT, .a = bias ? 0 : 1};
}

static RengaErrorCode FindInit(RengaOnnxNode *node, const RengaOnnxBinding *binding,
                               RengaTensorSpec *spec, RengaInit *init)
{
  *spec = binding->spec;
  spec->type = RENGA_FLOAT32;
  *init = DefaultInit(binding);
  const Onnx__TensorProto *tensor = binding->tensor;
  if (!tensor) return RENGA_SUCCESS;
  if (spec->ndim > 0 || tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
    RengaCall(RengaOnnxTensorInit(node->importer, tensor, init));
    init->map = binding->map;
    init->a = binding->shift;
    return RENGA_SUCCESS;
  }
  RengaTensorSpec scalar;
  RengaOnnxHost *host;
  void *data;
  RengaCall(RengaOnnxTensorRead(node->importer, tensor, &scalar, &data));
  RengaOnnxCheck(RengaOnnxHostHasType(scalar.type), node, RENGA_ERR_SUPPORT,
                 "parameter \"%s\" is %s", binding->name, RengaDataTypeName(scalar.type));
  RengaCall(RengaOnnxHostFromData(node->importer, &scalar, data, &host));
  const double real = binding->map ? binding->map(host->number->real) : host->number->real;
  *init = (RengaInit){.kind = RENGA_INIT_CONSTANT, .a = real + binding->shift};
  return RENGA_SUCCESS;
}

/* A parameter is float32; a network that computes in another type casts it where it is used. */
static RengaErrorCode AddFileParameter(RengaOnnxNode *node, const RengaOnnxBinding *binding,
                                       RengaValue *value)
{
  RengaInit init;
  RengaTensorSpec spec;
  RengaCall(FindInit(node, binding, &spec, &init));
  RengaCall(RengaGraphAddParameter(node->importer->graph, binding->name, &spec, &init, value));
  RengaCall(RengaOnnxCast(node, *value, binding->spec.type, value));
  return RENGA_SUCCESS;
}

/* Constants are on all ranks; a large one is a parameter that is not trained. */
static RengaErrorCode AddConstantTensor(RengaOnnxNode *node, const RengaOnnxBinding *binding,
                                        RengaValue *value)
{
  enum { ELEMENTS_MAX = 1 << 20 };
  RengaGraph graph = node->importer->graph;
  RengaTensorSpec spec;
  void *data;
  if (RengaTensorSpecCount(&binding->spec) > ELEMENTS_MAX && !node->importer->options->evaluate &&
      RengaDataTypeIsFloating(binding->spec.type)) {
    RengaCall(AddFileParameter(node, binding, value));
    RengaCall(RengaGraphFreeze_Private(graph, RengaGraphFindValue(graph, binding->name)));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxTensorRead(node->importer, binding->tensor, &spec, &data));
  if (RengaGraphFindValue(graph, binding->name) == RENGA_VALUE_NONE)
    RengaCall(RengaGraphAddConstant(graph, binding->name, &spec, data, value));
  else
    RengaCall(RengaOnnxConstant(node, &spec, data, value));
  return RENGA_SUCCESS;
}

/* A weight that is in the file in two forms: this one is made from the other. */
static RengaErrorCode MoveSame(RengaOnnxNode *node, const RengaOnnxBinding *binding,
                               RengaValue *value)
{
  static const int64_t turned[] = {1, 0};
  RengaCall(RengaOnnxBindingValue(node, binding->same, value));
  if (binding->turned)
    RengaCall(RengaOnnxTranspose(node, *value, 2, turned, value));
  else
    RengaCall(RengaOnnxReshape(node, *value, &binding->spec, value));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeValue(RengaOnnxNode *node, const RengaOnnxBinding *binding,
                                RengaValue *value)
{
  if (binding->undone) {
    RengaCall(RengaOnnxBindingValue(node, binding->same, value));
    RengaCall(RengaOnnxUnfoldFunctions(node, binding, value));
  } else if (binding->same)
    RengaCall(MoveSame(node, binding, value));
  else if (binding->kind == RENGA_ONNX_HOST)
    RengaCall(RengaOnnxHostValue(node, binding->host, value));
  else if (binding->trainable && !node->importer->options->evaluate)
    RengaCall(AddFileParameter(node, binding, value));
  else
    RengaCall(AddConstantTensor(node, binding, value));
  return RENGA_SUCCESS;
}

/* What it takes to make the value keeps off the attributes of the node that reads it. */
RengaErrorCode RengaOnnxBindingValue(RengaOnnxNode *node, RengaOnnxBinding *binding,
                                     RengaValue *value)
{
  RengaOnnxCheck(binding->kind != RENGA_ONNX_SEQUENCE, node, RENGA_ERR_SUPPORT,
                 "\"%s\" is a sequence of tensors; here only a tensor is supported", binding->name);
  RengaOnnxCheck(binding->kind != RENGA_ONNX_POSITIONS, node, RENGA_ERR_SUPPORT,
                 "positions of what is not zero are supported as an index only, as in x[mask]: how "
                 "many they are depends on data");
  if (binding->value == RENGA_VALUE_NONE) {
    RengaAttributes own = node->importer->attributes;
    node->importer->attributes = (RengaAttributes){0};
    RengaErrorCode code = MakeValue(node, binding, &binding->value);
    RengaAttributesFree(&node->importer->attributes);
    node->importer->attributes = own;
    RengaCall(code);
  }
  *value = binding->value;
  return RENGA_SUCCESS;
}

/* No gradient flows through x. Attributes that are set already are the node's. */
static RengaErrorCode StopGradient(RengaOnnxNode *node, RengaValue *x)
{
  RengaAttributes own = node->importer->attributes;
  node->importer->attributes = (RengaAttributes){0};
  RengaErrorCode code = RengaOnnxApply(node, "StopGradient", *x, RENGA_VALUE_NONE, x);
  RengaAttributesFree(&node->importer->attributes);
  node->importer->attributes = own;
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxInputValue(RengaOnnxNode *node, int input, RengaValue *value)
{
  *value = RENGA_VALUE_NONE;
  if (!RengaOnnxHasInput(node, input)) return RENGA_SUCCESS;
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  RengaCall(RengaOnnxNoteUse(node, binding));
  RengaCall(RengaOnnxBindingValue(node, binding, value));
  if (RengaOnnxIsDetached(node, input) &&
      RengaDataTypeIsFloating(RengaOnnxSpec(node, *value)->type))
    RengaCall(StopGradient(node, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxInputHost(RengaOnnxNode *node, int input, const RengaOnnxHost **host)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  RengaOnnxCheck(node->importer->options->evaluate || binding->kind != RENGA_ONNX_TENSOR ||
                     !RengaOnnxIsCertain(node->importer, binding),
                 node, RENGA_ERR_SUPPORT,
                 "input %d (\"%s\") is a parameter, which cannot be trained here: -graph_frozen %s "
                 "makes a constant of it",
                 input, binding->name, binding->name);
  if (binding->kind == RENGA_ONNX_TENSOR && !binding->host && binding->tensor) {
    RengaTensorSpec spec;
    void *data;
    RengaCall(RengaOnnxTensorRead(node->importer, binding->tensor, &spec, &data));
    RengaOnnxCheck(RengaOnnxHostHasType(spec.type), node, RENGA_ERR_SUPPORT,
                   "input %d has type %s, which is not supported here", input,
                   RengaDataTypeName(spec.type));
    RengaCall(RengaOnnxHostFromData(node->importer, &spec, data, &binding->host));
  }
  RengaOnnxCheck(
      binding->host, node, RENGA_ERR_SUPPORT,
      "input %d (\"%s\") depends on data; only one that is known while reading is supported", input,
      binding->name);
  RengaOnnxCheckApart(binding->host->open < 0, node,
                      "input %d (\"%s\") numbers the samples of the batch, and may differ between "
                      "them; only one that is known while reading is supported",
                      input, binding->name);
  *host = binding->host;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxInputInts(RengaOnnxNode *node, int input, int *count, int64_t ints[])
{
  *count = -1;
  if (!RengaOnnxHasInput(node, input)) return RENGA_SUCCESS;
  const RengaOnnxHost *host;
  RengaCall(RengaOnnxInputHost(node, input, &host));
  RengaCall(RengaOnnxHostToInts(node, host, 2 * RENGA_MAX_DIM, count, ints));
  return RENGA_SUCCESS;
}

/* A shape: whole numbers. */
RengaErrorCode RengaOnnxInputShape(RengaOnnxNode *node, int input, const RengaOnnxHost **host)
{
  RengaCall(RengaOnnxInputHost(node, input, host));
  RengaDataType type = (*host)->spec.type;
  RengaOnnxCheck(type == RENGA_INT64 || type == RENGA_INT32, node, RENGA_ERR_FILE_FORMAT,
                 "input %d is a shape of type %s, must be int64", input, RengaDataTypeName(type));
  RengaOnnxCheck((*host)->count <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT,
                 "a shape of %lld dimensions; at most %d are supported", (long long)(*host)->count,
                 RENGA_MAX_DIM);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxInputReal(RengaOnnxNode *node, int input, double *value)
{
  if (!RengaOnnxHasInput(node, input)) return RENGA_SUCCESS;
  const RengaOnnxHost *host;
  RengaCall(RengaOnnxInputHost(node, input, &host));
  RengaOnnxCheck(host->count == 1 && host->number->batch == 0, node, RENGA_ERR_FILE_FORMAT,
                 "input %d must be one constant number", input);
  bool real = host->spec.type == RENGA_FLOAT32 || host->spec.type == RENGA_FLOAT64;
  *value = real ? host->number->real : (double)host->number->whole;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxInputState(RengaOnnxNode *node, int input, RengaValue *value)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  if (binding->kind != RENGA_ONNX_TENSOR || !RengaDataTypeIsFloating(binding->spec.type) ||
      RengaOnnxIsCertain(node->importer, binding) || node->importer->options->evaluate ||
      binding->value != RENGA_VALUE_NONE) {
    RengaCall(RengaOnnxBindingValue(node, binding, value));
    return RENGA_SUCCESS;
  }
  RengaInit init;
  RengaTensorSpec spec;
  RengaCall(FindInit(node, binding, &spec, &init));
  if (!binding->tensor) init.a = input == 3 ? 0 : 1; /* mean and variance */
  RengaCall(
      RengaGraphAddState(node->importer->graph, binding->name, &spec, &init, &binding->value));
  *value = binding->value;
  return RENGA_SUCCESS;
}

static RengaErrorCode BindOutput(RengaOnnxNode *node, int output, RengaOnnxBinding **binding)
{
  *binding = NULL;
  if (!RengaOnnxHasOutput(node, output)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeAdd(node->importer, node->scope, node->proto->output[output], binding));
  RengaOnnxCheck(*binding, node, RENGA_ERR_FILE_FORMAT, "tensor \"%s\" is made a second time",
                 node->proto->output[output]);
  return RENGA_SUCCESS;
}

/* No gradient flows through an output that property renga.stop_gradient names. */
static RengaErrorCode StopAsAsked(RengaOnnxNode *node, const char *name, RengaValue *value)
{
  if (node->importer->stopped && RengaOnnxIsStopped(node->importer, name) &&
      RengaDataTypeIsFloating(RengaOnnxSpec(node, *value)->type))
    RengaCall(RengaOnnxApply(node, "StopGradient", *value, RENGA_VALUE_NONE, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxBindValue(RengaOnnxNode *node, int output, RengaValue value)
{
  RengaOnnxBinding *binding;
  RengaCall(BindOutput(node, output, &binding));
  if (!binding) return RENGA_SUCCESS;
  RengaCall(StopAsAsked(node, binding->name, &value));
  binding->kind = RENGA_ONNX_VALUE;
  binding->value = value;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxBindHost(RengaOnnxNode *node, int output, RengaOnnxHost *host)
{
  RengaOnnxBinding *binding;
  RengaCall(BindOutput(node, output, &binding));
  if (!binding) return RENGA_SUCCESS;
  RengaOnnxIsStopped(node->importer, binding->name); /* it has no gradient anyhow */
  binding->kind = RENGA_ONNX_HOST;
  binding->host = host;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxBindAlias(RengaOnnxNode *node, int output, RengaOnnxBinding *of)
{
  RengaOnnxBinding *binding;
  RengaValue value;
  if (RengaOnnxHasOutput(node, output) &&
      RengaOnnxIsStopped(node->importer, node->proto->output[output])) {
    RengaCall(RengaOnnxBindingValue(node, of, &value));
    RengaCall(RengaOnnxBindValue(node, output, value));
    return RENGA_SUCCESS;
  }
  RengaCall(BindOutput(node, output, &binding));
  if (binding) binding->alias = of;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxDrop(RengaOnnxNode *node, int output, const char *why)
{
  RengaOnnxBinding *binding;
  RengaCall(BindOutput(node, output, &binding));
  if (!binding) return RENGA_SUCCESS;
  binding->kind = RENGA_ONNX_DROPPED;
  binding->why = why;
  return RENGA_SUCCESS;
}
