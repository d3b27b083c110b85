/* A model into a graph: initializers, nodes, outputs, loss. */
#include "onnx.h"
#include <string.h>

static bool IsFloating(RengaDataType type)
{
  return type == RENGA_FLOAT32 || type == RENGA_FLOAT64 || type == RENGA_BFLOAT16 ||
         type == RENGA_FLOAT16;
}

RengaErrorCode RengaOnnxImportInitializers(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                           const Onnx__GraphProto *graph)
{
  RengaCheck(graph->n_sparse_initializer == 0, importer->comm, RENGA_ERR_SUPPORT,
             "%s: sparse initializers are not supported", importer->file);
  for (size_t i = 0; i < graph->n_initializer; i++) {
    RengaOnnxBinding *binding;
    const Onnx__TensorProto *tensor = graph->initializer[i];
    RengaCall(RengaOnnxBindNew(importer, scope, tensor->name, "initializer", &binding));
    RengaCall(RengaOnnxTensorSpec(importer, tensor, &binding->spec));
    binding->kind = RENGA_ONNX_TENSOR;
    binding->tensor = tensor;
    RengaOnnxDecide(importer, binding);
  }
  return RENGA_SUCCESS;
}

/* Parameters, their gradients and sums are float32; nothing is converted unasked. */
static RengaErrorCode CheckTypes(const RengaOnnxImporter *importer, const RengaOnnxScope *scope)
{
  const RengaOnnxBinding *first = NULL;
  int count = 0;
  for (int i = 0; i < scope->capacity && !importer->options->evaluate; i++) {
    const RengaOnnxBinding *binding = scope->slot[i];
    if (!binding || !binding->trainable || binding->spec.type == RENGA_FLOAT32) continue;
    first = binding;
    count++;
  }
  RengaCheck(!first, importer->comm, RENGA_ERR_SUPPORT,
             "%s: %d parameters are not float32 (\"%s\" is %s), and training is in float32: "
             "convert the network with model.float() before it is exported",
             importer->file, count, first ? first->name : "",
             first ? RengaDataTypeName(first->spec.type) : "");
  return RENGA_SUCCESS;
}

/* ---- outputs ---- */
static bool IsScalar(const RengaTensorSpec *spec)
{
  return RengaOnnxBatchDimension(spec) < 0 && RengaTensorSpecCount(spec) == 1 &&
         IsFloating(spec->type);
}

static const char *OutputName(const Onnx__GraphProto *graph, size_t i)
{
  return graph->output[i]->name ? graph->output[i]->name : "";
}

/* Two losses, and neither is called so: the other one might be meant. */
static void WarnOfSecondLoss(const RengaOnnxImporter *importer, const Onnx__GraphProto *graph,
                             size_t first, size_t second)
{
  RengaWarning(importer->comm,
               "%s: outputs \"%s\" and \"%s\" are one number each, and none is called loss: the "
               "first, \"%s\", is trained; call the other one loss (output_names) where that is "
               "meant",
               importer->file, OutputName(graph, first), OutputName(graph, second),
               OutputName(graph, first));
}

/* The loss: the output called loss, or the first floating scalar. */
static RengaErrorCode SetLoss(RengaOnnxNode *node, const Onnx__GraphProto *graph,
                              const RengaValue outputs[])
{
  RengaValue loss = RENGA_VALUE_NONE;
  size_t first = 0, second = 0;
  bool named = false;
  for (size_t i = 0; i < graph->n_output && !named; i++) {
    if (outputs[i] == RENGA_VALUE_NONE || !IsScalar(RengaOnnxSpec(node, outputs[i]))) continue;
    named = strcmp(OutputName(graph, i), "loss") == 0;
    if (loss == RENGA_VALUE_NONE)
      first = i;
    else if (second == 0)
      second = i;
    if (loss == RENGA_VALUE_NONE || named) loss = outputs[i];
  }
  if (second > 0 && !named) WarnOfSecondLoss(node->importer, graph, first, second);
  if (loss == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaTensorSpec scalar = {.ndim = 0};
  if (RengaOnnxSpec(node, loss)->ndim > 0) RengaCall(RengaOnnxReshape(node, loss, &scalar, &loss));
  RengaCall(RengaGraphSetLoss(node->importer->graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode ImportOutputs(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                    const Onnx__GraphProto *graph)
{
  static char op_type[] = "output";
  Onnx__NodeProto proto = ONNX__NODE_PROTO__INIT;
  proto.op_type = op_type;
  RengaOnnxNode node = {.importer = importer,
                        .scope = scope,
                        .proto = &proto,
                        .name = op_type,
                        .opset = scope->opset};
  RengaValue *outputs;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)graph->n_output, sizeof *outputs, &outputs));
  for (size_t i = 0; i < graph->n_output; i++) {
    const char *name = OutputName(graph, i);
    RengaOnnxBinding *binding = RengaOnnxScopeFind(scope, name);
    outputs[i] = RENGA_VALUE_NONE;
    RengaCheck(binding, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: no node makes output \"%s\"",
               importer->file, name);
    if (binding->kind == RENGA_ONNX_DROPPED) continue;
    node.name = name;
    RengaCall(RengaOnnxBindingValue(&node, binding, &outputs[i]));
    RengaCall(RengaOnnxRefuseRows(&node, outputs[i]));
    RengaCall(RengaOnnxNameOutput(&node, name, outputs[i]));
    RengaCall(RengaGraphAddOutput(importer->graph, outputs[i]));
  }
  if (!importer->options->evaluate) RengaCall(SetLoss(&node, graph, outputs));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxImportModel(RengaOnnxImporter *importer)
{
  enum { OPSET_MAX = 24 };
  const Onnx__ModelProto *model = importer->model;
  const Onnx__GraphProto *graph = model->graph;
  RengaOnnxScope *scope;
  RengaCheck(graph, importer->comm, RENGA_ERR_FILE_FORMAT,
             "%s is not an ONNX model: it has no graph", importer->file);
  int64_t opset = RengaOnnxOpset(model->n_opset_import, model->opset_import);
  if (opset == 0 && model->n_opset_import > 0) opset = OPSET_MAX; /* none of ONNX's own operators */
  RengaCheck(opset > 0, importer->comm, RENGA_ERR_FILE_FORMAT,
             "%s does not say which version of ONNX's operators it uses", importer->file);
  RengaCheck(opset <= OPSET_MAX, importer->comm, RENGA_ERR_SUPPORT,
             "%s uses opset %lld; 11 to %d are supported: export it with opset_version=%d",
             importer->file, (long long)opset, OPSET_MAX, OPSET_MAX);
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &scope));
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->used));
  scope->opset = opset;
  importer->model_scope = scope;
  importer->n_node = graph->n_node;
  importer->node = graph->node;
  RengaCall(RengaOnnxReadMetadata(importer));
  RengaCall(RengaOnnxImportInitializers(importer, scope, graph));
  RengaCall(RengaOnnxCheckNames(importer, scope, graph));
  RengaCall(CheckTypes(importer, scope));
  RengaCall(RengaOnnxCheckCalls(importer));
  RengaCall(RengaOnnxMatchCalls(importer));
  RengaCall(RengaOnnxCheckChanged(importer));
  RengaCall(RengaOnnxImportInputs(importer, scope, graph));
  for (size_t i = 0; i < graph->n_output; i++)
    RengaCall(RengaOnnxMarkUsed(importer, graph->output[i]->name));
  RengaCall(RengaOnnxImportNodes(importer, scope, importer->n_node, importer->node));
  RengaCall(ImportOutputs(importer, scope, graph));
  RengaCall(RengaOnnxCheckMetadata(importer));
  RengaOnnxWarnOfExport(importer);
  return RENGA_SUCCESS;
}
