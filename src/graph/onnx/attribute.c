/* What a conversion asks of its node in the file: errors, inputs and outputs, attributes. */
#include "form.h"
#include "renga/private/number.h"
#include <stdarg.h>
#include <string.h>

RengaErrorCode RengaOnnxError(const RengaOnnxNode *node, RengaErrorCode code, const char *function,
                              const char *file, int line, const char *format, ...)
{
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
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
  RengaTextFormatList(text, sizeof text, format, arguments);
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
  for (size_t i = 0; i < node->proto->n_attribute; i++)
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

/* An attribute of ONNX that no conversion has looked at, and that is none of those which may be
   left: what follows from shapes, hints, and what another input or branch makes idle. Said once of
   an operator. */
static RengaErrorCode WarnOfIdle(const RengaOnnxNode *node, const char *name)
{
  static const char idle[] = "axis allowzero seed saturate hidden_size num_outputs storage_order "
                             "noop_with_empty_axes then_branch else_branch nearest_mode "
                             "keep_aspect_ratio_policy softmax_precision stash_type "
                             "consumed_inputs";
  RengaOnnxImporter *importer = node->importer;
  RengaOnnxBinding *first;
  char *both;
  if (RengaOnnxIsToolsAttribute(name) || RengaOnnxHasWord(idle, name)) return RENGA_SUCCESS;
  if (!importer->asked.warned)
    RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->asked.warned));
  RengaCall(RengaOnnxJoin(importer, node->proto->op_type, " ", &both));
  RengaCall(RengaOnnxJoin(importer, both, name, &both));
  RengaCall(RengaOnnxScopeAdd(importer, importer->asked.warned, both, &first));
  if (first)
    RengaWarning(importer->comm,
                 "%s: node \"%s\" (%s, opset %lld): attribute %s is ignored, here and in other "
                 "nodes of this operator",
                 importer->file, node->name, node->proto->op_type, (long long)node->opset, name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCheckAttributes(RengaOnnxNode *node)
{
  const char *mistyped = node->importer->asked.mistyped;
  node->importer->asked.mistyped = NULL;
  RengaOnnxCheck(!mistyped, node, RENGA_ERR_FILE_FORMAT, "attribute %s is of the wrong type",
                 mistyped);
  for (size_t i = 0; i < node->proto->n_attribute; i++)
    if (!(node->importer->asked.bits >> i & 1))
      RengaCall(WarnOfIdle(node, node->proto->attribute[i]->name));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxAxis(const RengaOnnxNode *node, int64_t axis, int ndim, int *result)
{
  RengaOnnxCheck(axis >= -ndim && axis < ndim, node, RENGA_ERR_FILE_FORMAT,
                 "axis %lld of a tensor of %d dimensions", (long long)axis, ndim);
  *result = (int)(axis < 0 ? axis + ndim : axis);
  return RENGA_SUCCESS;
}
