/* Inputs of a model, and where their batch is. */
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

static const int64_t batch_max = 1 << 20;

static const RengaOnnxTensor *FindInputConstant(const RengaOnnxImporter *importer, const char *name)
{
  for (int i = 0; i < importer->options->n_constants; i++)
    if (strcmp(importer->options->constants[i].name, name) == 0)
      return &importer->options->constants[i];
  return NULL;
}

/* ---- -graph_batch_inputs NAME[:dimension],... ---- */
static const char *GetList(const RengaOnnxImporter *importer)
{
  const char *list = NULL;
  RengaGraphGetBatchInputs(importer->graph, &list);
  return list;
}

/* Without the number behind the last colon. */
static size_t NameLength(const char *text, size_t length)
{
  size_t digits = 0;
  while (digits < length && text[length - 1 - digits] >= '0' && text[length - 1 - digits] <= '9')
    digits++;
  return digits > 0 && digits < length && text[length - 1 - digits] == ':' ? length - 1 - digits
                                                                           : length;
}

static bool IsListedInput(const char *text, size_t length, const char *name)
{
  return name && strlen(name) == length && strncmp(text, name, length) == 0;
}

/* The dimension of the input that is the batch; -1: it has none. */
static RengaErrorCode BatchPlace(const RengaOnnxImporter *importer, const char *input, int *place)
{
  const char *text = GetList(importer);
  *place = text ? -1 : 0;
  while (text && *text) {
    const size_t length = strcspn(text, ","), name = NameLength(text, length);
    const long number = name < length ? strtol(text + name + 1, NULL, 10) : 0;
    if (IsListedInput(text, name, input)) {
      RengaCheck(number < RENGA_MAX_DIM, importer->comm, RENGA_ERR_OPTION,
                 "-graph_batch_inputs: \"%.*s\": a dimension is a number below %d", (int)length,
                 text, RENGA_MAX_DIM);
      *place = (int)number;
    }
    text += length + (text[length] == ',');
  }
  return RENGA_SUCCESS;
}

/* ---- types and shapes ---- */
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
  char samples[256] = "";
  *size = 0;
  if (name) RengaCall(RengaGraphGetDimension_Private(importer->graph, name, size));
  if (!GetList(importer))
    snprintf(samples, sizeof samples,
             ", or, if it counts the samples, say so with -graph_batch_inputs %.160s:%d", input, d);
  RengaCheck(*size > 0, importer->comm, RENGA_ERR_GRAPH,
             "%s: dimension %d of input \"%s\" is %s%s; the batch is %s. Give it a size with "
             "-graph_dimension %s=SIZE%s",
             importer->file, d, input, name ? "called " : "not known", name ? name : "",
             importer->batch_name ? importer->batch_name : "dimension 0", name ? name : "NAME",
             samples);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadDimension(RengaOnnxImporter *importer, const char *input, int d,
                                    int batch, const Onnx__TensorShapeProto__Dimension *dimension,
                                    int64_t *size)
{
  const char *name = DimensionName(dimension);
  if (HasSize(dimension)) {
    RengaCheck(dimension->dim_value >= 0, importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: dimension %d of input \"%s\" is %lld", importer->file, d, input,
               (long long)dimension->dim_value);
    *size = dimension->dim_value;
    bool samples = importer->open && d == batch && importer->file_batch > 0;
    RengaCheck(
        !samples || !GetList(importer) || *size == importer->file_batch, importer->comm,
        RENGA_ERR_OPTION,
        "-graph_batch_inputs: dimension %d of input \"%s\" of %s is %lld, but the batch of the "
        "first input named is %lld",
        d, input, importer->file, (long long)*size, (long long)importer->file_batch);
    if (samples && *size == importer->file_batch) *size = -1;
    return RENGA_SUCCESS;
  }
  bool same = name && importer->batch_name && strcmp(name, importer->batch_name) == 0;
  int64_t given = 0;
  if (name) RengaCall(RengaGraphGetDimension_Private(importer->graph, name, &given));
  /* exporters give the batch of each input a name of its own */
  if (importer->open && (d == batch ? given == 0 : same && !GetList(importer)))
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
  int batches = 0, batch;
  RengaCall(BatchPlace(importer, input->name, &batch));
  RengaCheck(batch < (int)type->shape->n_dim || batch == 0, importer->comm, RENGA_ERR_OPTION,
             "-graph_batch_inputs: input \"%s\" of %s has %zu dimensions, not one of number %d",
             input->name, importer->file, type->shape->n_dim, batch);
  RengaTensorSpec widths = {.ndim = 0};
  *spec = (RengaTensorSpec){.type = (RengaDataType)data_type, .ndim = (int)type->shape->n_dim};
  for (int d = 0; d < spec->ndim; d++) {
    RengaCall(ReadDimension(importer, input->name, d, batch, type->shape->dim[d], &spec->dim[d]));
    batches += spec->dim[d] < 0;
    widths.dim[d] = spec->dim[d] < 0 ? 1 : spec->dim[d];
  }
  int64_t count;
  RengaCheck(batches <= 1 && RengaOnnxCount(spec->ndim, widths.dim, &count), importer->comm,
             RENGA_ERR_GRAPH, "%s: input \"%s\" has an impossible shape", importer->file,
             input->name);
  return RENGA_SUCCESS;
}

/* The batch: of the first input that -graph_batch_inputs names, or the first dimension of the first
   that no initializer gives. */
static RengaErrorCode FindFileBatch(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                    const Onnx__GraphProto *graph)
{
  for (size_t i = 0; i < graph->n_input; i++) {
    const Onnx__TypeProto__Tensor *type = InputType(graph->input[i]);
    const char *name = graph->input[i]->name ? graph->input[i]->name : "";
    int batch;
    RengaCall(BatchPlace(importer, name, &batch));
    if (!type || !type->shape || batch < 0 || (int)type->shape->n_dim <= batch ||
        RengaOnnxScopeFind(scope, name))
      continue;
    const Onnx__TensorShapeProto__Dimension *first = type->shape->dim[batch];
    importer->batch_name = DimensionName(first);
    if (HasSize(first)) importer->file_batch = first->dim_value;
    RengaCheck(importer->file_batch >= 0 && importer->file_batch <= batch_max, importer->comm,
               RENGA_ERR_FILE_FORMAT, "%s: the batch of input \"%s\" is %lld", importer->file, name,
               (long long)importer->file_batch);
    break;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxBindNew(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                const char *name, const char *what, RengaOnnxBinding **binding)
{
  RengaCheck(name && *name, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: an %s has no name",
             importer->file, what);
  RengaCall(RengaOnnxScopeAdd(importer, scope, name, binding));
  RengaCheck(*binding, importer->comm, RENGA_ERR_FILE_FORMAT, "%s: two tensors are called \"%s\"",
             importer->file, name);
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

/* The batch is a size like any other behind the input. */
static RengaErrorCode AddWholeBatch(const RengaOnnxImporter *importer, RengaTensorSpec *spec,
                                    RengaValue *x)
{
  const RengaValue in = *x;
  spec->dim[RengaOnnxBatchDimension(spec)] *= -importer->whole_batch;
  RengaCall(RengaGraphAddNode(importer->graph, "WholeBatch", NULL, NULL, 1, &in, 1, spec, x));
  return RENGA_SUCCESS;
}

/* Data have the samples first: where the file has them elsewhere, they are moved there. */
static RengaErrorCode AddDataInput(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                   RengaOnnxBinding *binding)
{
  static char op_type[] = "input";
  const int ndim = binding->spec.ndim, batch = RengaOnnxBatchDimension(&binding->spec);
  const bool move = batch > 0 && GetList(importer);
  Onnx__NodeProto proto = ONNX__NODE_PROTO__INIT;
  proto.op_type = op_type;
  RengaOnnxNode node = {
      .importer = importer, .scope = scope, .proto = &proto, .name = binding->name};
  RengaTensorSpec spec = binding->spec;
  int64_t order[RENGA_MAX_DIM];
  for (int d = 0; d < ndim && move; d++) {
    spec.dim[d == batch ? 0 : d < batch ? d + 1 : d] = binding->spec.dim[d];
    order[d] = d == batch ? 0 : d < batch ? d + 1 : d;
  }
  RengaCall(RengaGraphAddInput(importer->graph, binding->name, &spec, &binding->value));
  if (batch >= 0 && importer->whole_batch > 0)
    RengaCall(AddWholeBatch(importer, &spec, &binding->value));
  else if (batch >= 0)
    RengaCall(RengaOnnxSetInner(importer, binding->value, 1));
  if (move) RengaCall(RengaOnnxTranspose(&node, binding->value, ndim, order, &binding->value));
  return RENGA_SUCCESS;
}

/* An input may have an initializer's name, whose values are then its own; but not another shape. */
RengaErrorCode RengaOnnxCheckNames(const RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                   const Onnx__GraphProto *graph)
{
  for (size_t i = 0; i < graph->n_input; i++) {
    const Onnx__TypeProto__Tensor *type = InputType(graph->input[i]);
    const RengaOnnxBinding *binding =
        graph->input[i]->name ? RengaOnnxScopeFind(scope, graph->input[i]->name) : NULL;
    if (!type || !type->shape || !binding || !binding->tensor) continue;
    const int ndim = (int)type->shape->n_dim;
    bool fits = ndim == binding->spec.ndim;
    for (int d = 0; d < ndim && fits; d++)
      fits =
          !HasSize(type->shape->dim[d]) || type->shape->dim[d]->dim_value == binding->spec.dim[d];
    char shape[160];
    RengaTensorSpecFormat(&binding->spec, sizeof shape, shape);
    RengaCheck(fits, importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: an input of %d dimensions and a parameter %s are both called \"%s\": export it "
               "with another name for the input (input_names)",
               importer->file, ndim, shape, graph->input[i]->name);
  }
  return RENGA_SUCCESS;
}

/* A floating input without the batch cannot come from a data set: it is a parameter whose data the
   file leaves out. */
static RengaErrorCode ImportInput(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                  const Onnx__ValueInfoProto *input)
{
  RengaOnnxBinding *binding = input->name ? RengaOnnxScopeFind(scope, input->name) : NULL;
  if (binding && binding->tensor) return RENGA_SUCCESS; /* an initializer gives it */
  RengaCall(RengaOnnxBindNew(importer, scope, input->name, "input", &binding));
  const RengaOnnxTensor *constant = FindInputConstant(importer, input->name);
  if (constant) {
    RengaCall(BindConstant(importer, constant, binding));
    return RENGA_SUCCESS;
  }
  RengaCall(ReadInputSpec(importer, input, &binding->spec));
  bool data = RengaOnnxBatchDimension(&binding->spec) >= 0 || !importer->open;
  if (!data && RengaDataTypeIsFloating(binding->spec.type) && binding->spec.ndim > 0) {
    binding->kind = RENGA_ONNX_TENSOR;
    binding->trainable = true;
    return RENGA_SUCCESS;
  }
  binding->kind = RENGA_ONNX_VALUE;
  RengaCall(AddDataInput(importer, scope, binding));
  return RENGA_SUCCESS;
}

/* Every name of the list is one of an input that may hold samples. */
static RengaErrorCode CheckList(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                const Onnx__GraphProto *graph)
{
  for (const char *text = GetList(importer); text && *text;) {
    const size_t length = strcspn(text, ","), name = NameLength(text, length);
    const Onnx__ValueInfoProto *input = NULL;
    for (size_t i = 0; i < graph->n_input; i++)
      if (IsListedInput(text, name, graph->input[i]->name)) input = graph->input[i];
    RengaCheck(input, importer->comm, RENGA_ERR_OPTION,
               "-graph_batch_inputs: %s has no input \"%.*s\"", importer->file, (int)name, text);
    const Onnx__TypeProto__Tensor *type = InputType(input);
    const bool scalar = type && type->shape && type->shape->n_dim == 0;
    const bool given = RengaOnnxScopeFind(scope, input->name);
    RengaCheck(!scalar && !given, importer->comm, RENGA_ERR_OPTION,
               "-graph_batch_inputs: input \"%s\" of %s cannot hold samples: it %s", input->name,
               importer->file, scalar ? "is one number" : "is given by an initializer");
    text += length + (text[length] == ',');
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxImportInputs(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                     const Onnx__GraphProto *graph)
{
  RengaCall(CheckList(importer, scope, graph));
  RengaCall(FindFileBatch(importer, scope, graph));
  RengaCall(ReadWholeBatch(importer));
  for (size_t i = 0; i < graph->n_input; i++)
    RengaCall(ImportInput(importer, scope, graph->input[i]));
  if (importer->whole_batch > 0) importer->open = false;
  return RENGA_SUCCESS;
}
