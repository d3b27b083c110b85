/* What a conversion asks of its node: inputs, attributes; and what it gives back. */
#include "onnx.h"
#include <stdarg.h>
#include <string.h>

RengaErrorCode RengaOnnxError(const RengaOnnxNode *node, RengaErrorCode code, const char *function,
                              const char *file, int line, const char *format, ...)
{
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return RengaErrorRaise(node->importer->comm, code, function, file, line,
                         "%s: node \"%s\" (%s, opset %lld): %s", node->importer->file, node->name,
                         node->proto->op_type, (long long)node->opset, text);
}

RengaErrorCode RengaOnnxMixedError(const RengaOnnxNode *node, const char *function,
                                   const char *file, int line, const char *format, ...)
{
  char text[512], why[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(why, sizeof why, "node \"%.120s\" (%.40s, opset %lld): %s", node->name,
           node->proto->op_type, (long long)node->opset, text);
  return RengaGraphRaiseMixed_Private(node->importer->graph, RENGA_ERR_SUPPORT, function, file,
                                      line, why);
}

int RengaOnnxInputCount(const RengaOnnxNode *node)
{
  size_t count = node->proto->n_input;
  if (RengaOnnxReplaced(node, (int)count)) return (int)count + 1;
  while (count > 0 && !RengaOnnxHasInput(node, (int)count - 1)) count--;
  return (int)count;
}

bool RengaOnnxHasInput(const RengaOnnxNode *node, int input)
{
  if (RengaOnnxReplaced(node, input)) return true;
  if ((size_t)input >= node->proto->n_input || !node->proto->input[input][0]) return false;
  const RengaOnnxBinding *binding = RengaOnnxScopeFind(node->scope, node->proto->input[input]);
  return !binding || binding->kind != RENGA_ONNX_ABSENT;
}

bool RengaOnnxHasOutput(const RengaOnnxNode *node, int output)
{
  return (size_t)output < node->proto->n_output && node->proto->output[output][0];
}

RengaErrorCode RengaOnnxMarkUsed(RengaOnnxImporter *importer, const char *name)
{
  RengaOnnxBinding *mark;
  if (name) RengaCall(RengaOnnxScopeAdd(importer, importer->used, name, &mark));
  return RENGA_SUCCESS;
}

/* Names of different scopes are not told apart: an output may count as used that is not. */
bool RengaOnnxIsUsed(const RengaOnnxNode *node, int output)
{
  return RengaOnnxHasOutput(node, output) &&
         RengaOnnxScopeFind(node->importer->used, node->proto->output[output]);
}

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
static RengaErrorCode AddParameter(RengaOnnxNode *node, const RengaOnnxBinding *binding,
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
    RengaCall(AddParameter(node, binding, value));
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

/* The batch size itself, used as data: whole + batch * N. */
static RengaErrorCode AddBatchNumber(RengaOnnxNode *node, const RengaOnnxHost *host,
                                     RengaValue *value)
{
  RengaOnnxCheckApart(host->count == 1, node,
                      "a tensor that depends on the batch size is used as data");
  bool real = host->spec.type == RENGA_FLOAT32 || host->spec.type == RENGA_FLOAT64;
  double whole = real ? host->number->real : (double)host->number->whole;
  RengaValue n;
  RengaCall(RengaOnnxBatchSize(node, &n));
  if (host->number->batch != 1)
    RengaCall(RengaOnnxApplyReal(node, "Mul", n, (double)host->number->batch, &n));
  if (whole != 0) RengaCall(RengaOnnxApplyReal(node, "Add", n, whole, &n));
  if (host->spec.type != RENGA_FLOAT32) RengaCall(RengaOnnxCast(node, n, host->spec.type, &n));
  if (host->spec.ndim > 0) RengaCall(RengaOnnxReshape(node, n, &host->spec, &n));
  *value = n;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxHostValue(RengaOnnxNode *node, const RengaOnnxHost *host, RengaValue *value)
{
  if (host->open >= 0) {
    RengaCall(RengaOnnxNumbersValue(node, host, value));
    return RENGA_SUCCESS;
  }
  if (!RengaOnnxHostIsBatchFree(host)) {
    RengaCall(AddBatchNumber(node, host, value));
    return RENGA_SUCCESS;
  }
  void *data;
  RengaCall(RengaOnnxHostToData(node, host, &data));
  RengaCall(RengaOnnxConstant(node, &host->spec, data, value));
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
  if (binding->undone)
    RengaCall(RengaOnnxDoAgain(node, binding, value));
  else if (binding->same)
    RengaCall(MoveSame(node, binding, value));
  else if (binding->kind == RENGA_ONNX_HOST)
    RengaCall(RengaOnnxHostValue(node, binding->host, value));
  else if (binding->trainable && !node->importer->options->evaluate)
    RengaCall(AddParameter(node, binding, value));
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

enum { ATTRIBUTES_MAX = 64 }; /* whose use is followed */

static const Onnx__AttributeProto *FindIn(size_t count, Onnx__AttributeProto *const attributes[],
                                          const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (attributes[i]->name && strcmp(attributes[i]->name, name) == 0) return attributes[i];
  return NULL;
}

/* In the body of a function an attribute may stand for one of the call, or for a default. */
const Onnx__AttributeProto *RengaOnnxAttribute(const RengaOnnxNode *node, const char *name)
{
  const Onnx__AttributeProto *found =
      FindIn(node->proto->n_attribute, node->proto->attribute, name);
  for (size_t i = 0; i < node->proto->n_attribute && i < ATTRIBUTES_MAX; i++)
    if (node->proto->attribute[i] == found) node->importer->asked.bits |= UINT64_C(1) << i;
  while (found && found->ref_attr_name && found->ref_attr_name[0]) {
    const RengaOnnxScope *scope = node->scope;
    name = found->ref_attr_name;
    node = scope->call;
    found = node ? FindIn(node->proto->n_attribute, node->proto->attribute, name) : NULL;
    if (!found && scope->defaults)
      found = FindIn(scope->defaults->count, scope->defaults->attribute, name);
    if (!node) break;
  }
  return found;
}

/* The attribute, where it is of the type; writers may leave out a value that is 0 or empty. */
static const Onnx__AttributeProto *TypedAttribute(const RengaOnnxNode *node, const char *name,
                                                  Onnx__AttributeProto__AttributeType type)
{
  const Onnx__AttributeProto *attribute = RengaOnnxAttribute(node, name);
  if (!attribute) return NULL;
  bool fits = attribute->has_type && attribute->type == type;
  if (!attribute->has_type) /* files before IR version 2 */
    fits = (type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT && attribute->has_i) ||
           (type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT && attribute->has_f) ||
           (type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING && attribute->has_s) ||
           (type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS && !attribute->has_i &&
            !attribute->has_f && !attribute->has_s);
  if (!fits) node->importer->asked.mistyped = attribute->name;
  return fits ? attribute : NULL;
}

int64_t RengaOnnxInt(const RengaOnnxNode *node, const char *name, int64_t otherwise)
{
  const Onnx__AttributeProto *attribute =
      TypedAttribute(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  return attribute ? attribute->i : otherwise;
}

double RengaOnnxReal(const RengaOnnxNode *node, const char *name, double otherwise)
{
  const Onnx__AttributeProto *attribute =
      TypedAttribute(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  return attribute ? (double)attribute->f : otherwise;
}

bool RengaOnnxString(const RengaOnnxNode *node, const char *name, const char *value,
                     const char *otherwise)
{
  const Onnx__AttributeProto *attribute =
      TypedAttribute(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  if (!attribute) return strcmp(value, otherwise) == 0;
  return attribute->s.len == strlen(value) &&
         memcmp(attribute->s.data, value, attribute->s.len) == 0;
}

RengaErrorCode RengaOnnxInts(const RengaOnnxNode *node, const char *name, int *count,
                             int64_t ints[])
{
  const Onnx__AttributeProto *attribute =
      TypedAttribute(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  *count = -1;
  if (!attribute) return RENGA_SUCCESS;
  RengaOnnxCheck(attribute->n_ints <= 2 * RENGA_MAX_DIM, node, RENGA_ERR_FILE_FORMAT,
                 "attribute %s has %zu numbers", name, attribute->n_ints);
  *count = (int)attribute->n_ints;
  for (int i = 0; i < *count; i++) ints[i] = attribute->ints[i];
  return RENGA_SUCCESS;
}

/* An attribute that no conversion has looked at, and that is none of those which may be left: what
   follows from shapes, hints, and what another input or branch makes idle. Said once. */
static void WarnOfUnknown(const RengaOnnxNode *node)
{
  static const char idle[] = "axis allowzero seed saturate hidden_size num_outputs storage_order "
                             "noop_with_empty_axes then_branch else_branch nearest_mode "
                             "keep_aspect_ratio_policy softmax_precision stash_type "
                             "consumed_inputs";
  RengaOnnxImporter *importer = node->importer;
  for (size_t i = 0; i < node->proto->n_attribute && i < ATTRIBUTES_MAX; i++) {
    const char *name = node->proto->attribute[i]->name;
    if (importer->asked.bits >> i & 1 || importer->asked.warned || !name ||
        RengaOnnxHasWord(idle, name))
      continue;
    importer->asked.warned = true;
    RengaWarning(importer->comm,
                 "%s: node \"%s\" (%s, opset %lld): attribute %s is not known, and ignored, here "
                 "and in other nodes",
                 importer->file, node->name, node->proto->op_type, (long long)node->opset, name);
  }
}

RengaErrorCode RengaOnnxCheckAttributes(RengaOnnxNode *node)
{
  const char *mistyped = node->importer->asked.mistyped;
  node->importer->asked.mistyped = NULL;
  RengaOnnxCheck(!mistyped, node, RENGA_ERR_FILE_FORMAT, "attribute %s is of the wrong type",
                 mistyped);
  WarnOfUnknown(node);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxAxis(const RengaOnnxNode *node, int64_t axis, int ndim, int *result)
{
  RengaOnnxCheck(axis >= -ndim && axis < ndim, node, RENGA_ERR_FILE_FORMAT,
                 "axis %lld of a tensor of %d dimensions", (long long)axis, ndim);
  *result = (int)(axis < 0 ? axis + ndim : axis);
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
