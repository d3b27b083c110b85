/* A model into a graph: inputs and their batch, initializers, nodes, outputs, loss. */
#include "onnx.h"
#include <string.h>

static const int64_t batch_max = 1 << 20;

static const RengaOnnxTensor *FindConstant(const RengaOnnxImporter *importer, const char *name)
{
  for (int i = 0; i < importer->options->n_constants; i++)
    if (strcmp(importer->options->constants[i].name, name) == 0)
      return &importer->options->constants[i];
  return NULL;
}

static RengaErrorCode Bind(RengaOnnxImporter *importer, RengaOnnxScope *scope, const char *name,
                           const char *what, RengaOnnxBinding **binding)
{
  RengaCheck(name && *name, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: an %s has no name",
             importer->file, what);
  RengaCall(RengaOnnxScopeAdd(importer, scope, name, binding));
  RengaCheck(*binding, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: two tensors are called \"%s\"",
             importer->file, name);
  return RENGA_SUCCESS;
}

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
    RengaCall(Bind(importer, scope, tensor->name, "initializer", &binding));
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

/* ---- inputs ---- */
static const Onnx__TypeProto__Tensor *InputType(const Onnx__ValueInfoProto *input)
{
  bool tensor = input->type && input->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  return tensor ? input->type->tensor_type : NULL;
}

static const char *DimensionName(const Onnx__TensorShapeProto__Dimension *dimension)
{
  bool named = dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
               dimension->dim_param && dimension->dim_param[0];
  return named ? dimension->dim_param : NULL;
}

static bool HasSize(const Onnx__TensorShapeProto__Dimension *dimension)
{
  return dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
}

/* -graph_dimension name=size,name=size */
static RengaErrorCode NamedDimension(RengaOnnxImporter *importer, const char *input, int d,
                                     const char *name, int64_t *size)
{
  *size = 0;
  if (name) RengaCall(RengaGraphGetDimension_Private(importer->graph, name, size));
  RengaCheck(*size > 0, importer->comm, RENGA_ERR_GRAPH,
             "%s: dimension %d of input \"%s\" is %s%s; the batch is %s. Give it a size with "
             "-graph_dimension %s=SIZE",
             importer->file, d, input, name ? "called " : "not known", name ? name : "",
             importer->batch_name ? importer->batch_name : "dimension 0", name ? name : "NAME");
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadDimension(RengaOnnxImporter *importer, const char *input, int d,
                                    const Onnx__TensorShapeProto__Dimension *dimension,
                                    int64_t *size)
{
  const char *name = DimensionName(dimension);
  if (HasSize(dimension)) {
    RengaCheck(dimension->dim_value >= 0, importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: dimension %d of input \"%s\" is %lld", importer->file, d, input,
               (long long)dimension->dim_value);
    *size = dimension->dim_value;
    if (importer->open && d == 0 && importer->file_batch > 0 && *size == importer->file_batch)
      *size = -1;
    return RENGA_SUCCESS;
  }
  bool same = name && importer->batch_name && strcmp(name, importer->batch_name) == 0;
  int64_t given = 0;
  if (name) RengaCall(RengaGraphGetDimension_Private(importer->graph, name, &given));
  /* exporters give the batch of each input a name of its own */
  if (importer->open && (same || (d == 0 && given == 0)))
    *size = -1;
  else
    RengaCall(NamedDimension(importer, input, d, name, size));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadInputSpec(RengaOnnxImporter *importer, const Onnx__ValueInfoProto *input,
                                    RengaTensorSpec *spec)
{
  const Onnx__TypeProto__Tensor *type = InputType(input);
  RengaCheck(type, importer->comm, RENGA_ERR_SUPPORT,
             "%s: input \"%s\" is no tensor; sequences, maps and optionals are not supported",
             importer->file, input->name);
  int data_type = RengaOnnxTypeFromFile(type->elem_type);
  RengaCheck(data_type >= 0, importer->comm, RENGA_ERR_SUPPORT,
             "%s: input \"%s\" has ONNX data type %d, which is not supported", importer->file,
             input->name, type->elem_type);
  RengaCheck(type->shape, importer->comm, RENGA_ERR_GRAPH, "%s: input \"%s\" has no shape",
             importer->file, input->name);
  RengaCheck(type->shape->n_dim <= RENGA_MAX_DIM, importer->comm, RENGA_ERR_SUPPORT,
             "%s: input \"%s\" has %zu dimensions; at most %d are supported", importer->file,
             input->name, type->shape->n_dim, RENGA_MAX_DIM);
  int batches = 0;
  RengaTensorSpec widths = {.ndim = 0};
  *spec = (RengaTensorSpec){.type = (RengaDataType)data_type, .ndim = (int)type->shape->n_dim};
  for (int d = 0; d < spec->ndim; d++) {
    RengaCall(ReadDimension(importer, input->name, d, type->shape->dim[d], &spec->dim[d]));
    batches += spec->dim[d] < 0;
    widths.dim[d] = spec->dim[d] < 0 ? 1 : spec->dim[d];
  }
  int64_t count;
  RengaCheck(batches <= 1 && RengaOnnxCount(spec->ndim, widths.dim, &count), importer->comm,
             RENGA_ERR_GRAPH, "%s: input \"%s\" has an impossible shape", importer->file,
             input->name);
  return RENGA_SUCCESS;
}

/* The first dimension of the first input that no initializer gives is the batch. */
static RengaErrorCode FindBatch(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                const Onnx__GraphProto *graph)
{
  for (size_t i = 0; i < graph->n_input; i++) {
    const Onnx__TypeProto__Tensor *type = InputType(graph->input[i]);
    const char *name = graph->input[i]->name ? graph->input[i]->name : "";
    if (!type || !type->shape || type->shape->n_dim == 0 || RengaOnnxScopeFind(scope, name))
      continue;
    const Onnx__TensorShapeProto__Dimension *first = type->shape->dim[0];
    importer->batch_name = DimensionName(first);
    if (HasSize(first)) importer->file_batch = first->dim_value;
    RengaCheck(importer->file_batch >= 0 && importer->file_batch <= batch_max, importer->comm,
               RENGA_ERR_FILE_FORMAT, "%s: the batch of input \"%s\" is %lld", importer->file, name,
               (long long)importer->file_batch);
    break;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BindConstant(RengaOnnxImporter *importer, const RengaOnnxTensor *constant,
                                   RengaOnnxBinding *binding)
{
  if (RengaOnnxHostHasType(constant->spec.type) &&
      RengaTensorSpecCount(&constant->spec) <= RENGA_ONNX_HOST_MAX) {
    binding->kind = RENGA_ONNX_HOST;
    RengaCall(RengaOnnxHostFromData(importer, &constant->spec, constant->data, &binding->host));
    return RENGA_SUCCESS;
  }
  binding->kind = RENGA_ONNX_VALUE;
  RengaCall(RengaGraphAddConstant(importer->graph, constant->name, &constant->spec, constant->data,
                                  &binding->value));
  return RENGA_SUCCESS;
}

/* A floating input without the batch cannot come from a data set: it is a parameter whose data the
   file leaves out. */
/* The batch is a size like any other behind the input. */
static RengaErrorCode AddWholeInput(RengaOnnxImporter *importer, const Onnx__ValueInfoProto *input,
                                    RengaOnnxBinding *binding)
{
  const int at = RengaOnnxBatchDimension(&binding->spec);
  RengaTensorSpec whole = binding->spec;
  RengaValue x;
  RengaCall(RengaGraphAddInput(importer->graph, input->name, &binding->spec, &x));
  whole.dim[at] *= -importer->whole_batch;
  binding->kind = RENGA_ONNX_VALUE;
  binding->spec = whole;
  RengaCall(RengaGraphAddNode(importer->graph, "WholeBatch", NULL, NULL, 1, &x, 1, &whole,
                              &binding->value));
  return RENGA_SUCCESS;
}

/* Only of a file that leaves the batch open, or has that size. */
static RengaErrorCode ReadWholeBatch(RengaOnnxImporter *importer)
{
  RengaCall(RengaGraphGetWholeBatch(importer->graph, &importer->whole_batch));
  RengaCheck(importer->whole_batch == 0 || importer->file_batch == 0 ||
                 importer->file_batch == importer->whole_batch,
             importer->comm, RENGA_ERR_OPTION,
             "-graph_whole_batch %lld: %s has a fixed batch of %lld: give that, or export it with "
             "an open batch",
             (long long)importer->whole_batch, importer->file, (long long)importer->file_batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode ImportInput(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                  const Onnx__ValueInfoProto *input)
{
  RengaOnnxBinding *binding = input->name ? RengaOnnxScopeFind(scope, input->name) : NULL;
  if (binding && binding->tensor) return RENGA_SUCCESS; /* an initializer gives it */
  RengaCall(Bind(importer, scope, input->name, "input", &binding));
  const RengaOnnxTensor *constant = FindConstant(importer, input->name);
  if (constant) {
    RengaCall(BindConstant(importer, constant, binding));
    return RENGA_SUCCESS;
  }
  RengaCall(ReadInputSpec(importer, input, &binding->spec));
  if (importer->whole_batch > 0 && RengaOnnxBatchDimension(&binding->spec) >= 0) {
    RengaCall(AddWholeInput(importer, input, binding));
    return RENGA_SUCCESS;
  }
  bool data = RengaOnnxBatchDimension(&binding->spec) >= 0 || !importer->open;
  if (!data && IsFloating(binding->spec.type) && binding->spec.ndim > 0) {
    binding->kind = RENGA_ONNX_TENSOR;
    binding->trainable = true;
    return RENGA_SUCCESS;
  }
  binding->kind = RENGA_ONNX_VALUE;
  RengaCall(RengaGraphAddInput(importer->graph, input->name, &binding->spec, &binding->value));
  if (RengaOnnxBatchDimension(&binding->spec) >= 0)
    RengaCall(RengaOnnxSetInner(importer, binding->value, 1));
  return RENGA_SUCCESS;
}

/* ---- outputs ---- */
static bool IsScalar(const RengaTensorSpec *spec)
{
  return RengaOnnxBatchDimension(spec) < 0 && RengaTensorSpecCount(spec) == 1 &&
         IsFloating(spec->type);
}

/* The loss: the output called loss, or the first floating scalar. */
static RengaErrorCode SetLoss(RengaOnnxNode *node, const Onnx__GraphProto *graph,
                              const RengaValue outputs[])
{
  RengaValue loss = RENGA_VALUE_NONE;
  for (size_t i = 0; i < graph->n_output; i++) {
    if (outputs[i] == RENGA_VALUE_NONE || !IsScalar(RengaOnnxSpec(node, outputs[i]))) continue;
    bool named = strcmp(graph->output[i]->name, "loss") == 0;
    if (loss == RENGA_VALUE_NONE || named) loss = outputs[i];
    if (named) break;
  }
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
    const char *name = graph->output[i]->name ? graph->output[i]->name : "";
    RengaOnnxBinding *binding = RengaOnnxScopeFind(scope, name);
    outputs[i] = RENGA_VALUE_NONE;
    RengaCheck(binding, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: no node makes output \"%s\"",
               importer->file, name);
    if (binding->kind == RENGA_ONNX_DROPPED) continue;
    node.name = name;
    RengaCall(RengaOnnxBindingValue(&node, binding, &outputs[i]));
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
  RengaCall(RengaOnnxReadSaid(importer));
  RengaCall(RengaOnnxImportInitializers(importer, scope, graph));
  RengaCall(CheckTypes(importer, scope));
  RengaCall(RengaOnnxMatchCalls(importer));
  RengaCall(FindBatch(importer, scope, graph));
  RengaCall(ReadWholeBatch(importer));
  for (size_t i = 0; i < graph->n_input; i++)
    RengaCall(ImportInput(importer, scope, graph->input[i]));
  if (importer->whole_batch > 0) importer->open = false;
  for (size_t i = 0; i < graph->n_output; i++)
    RengaCall(RengaOnnxMarkUsed(importer, graph->output[i]->name));
  RengaCall(RengaOnnxImportNodes(importer, scope, graph->n_node, graph->node));
  RengaCall(ImportOutputs(importer, scope, graph));
  RengaCall(RengaOnnxCheckSaid(importer));
  RengaOnnxWarnOfExport(importer);
  return RENGA_SUCCESS;
}
