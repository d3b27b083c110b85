/* Indices that give each sample its own number. Exporters write x[arange(batch), k] and masks as a
   GatherND, or as a Gather of a flat table, with sample n at position n: the sample's own rows.
   That is the identity along the batch, and what is left is a gather within each sample. */
#include "onnx.h"
#include <string.h>

static RengaOnnxHost *FindNumbers(const RengaOnnxImporter *importer, RengaValue value)
{
  return value >= 0 && value < importer->n_inner ? importer->numbers[value] : NULL;
}

/* Does each element say n * width + something in 0 … width - 1, or n where width is 1? */
static bool IsOwn(const RengaOnnxHost *host, int64_t width, int64_t component, int64_t components)
{
  for (int64_t i = component; i < host->count; i += components) {
    const RengaOnnxNumber *number = &host->number[i];
    if (number->sample != width || number->batch != 0) return false;
    if (number->whole < 0 || number->whole >= width) return false;
  }
  return host->open >= 0;
}

/* The input as numbers of which the component is the sample's own; NULL: it is not so. */
static RengaErrorCode OwnNumbers(RengaOnnxNode *node, int input, int64_t width, int64_t component,
                                 int64_t components, RengaOnnxHost **own)
{
  const RengaOnnxHost *host;
  const int64_t batch = node->importer->open ? node->importer->file_batch : 0;
  *own = NULL;
  RengaCall(RengaOnnxKnownInput(node, input, &host));
  if (!host || host->spec.type == RENGA_FLOAT32 || host->spec.type == RENGA_FLOAT64)
    return RENGA_SUCCESS;
  if (host->open >= 0) {
    RengaCall(
        RengaOnnxHostCreate(node->importer, host->spec.type, host->spec.ndim, host->spec.dim, own));
    memcpy((*own)->number, host->number, (size_t)host->count * sizeof *host->number);
    (*own)->open = host->open;
    if (!IsOwn(*own, width, component, components)) *own = NULL;
    return RENGA_SUCCESS;
  }
  for (int d = 0; d < host->spec.ndim && batch > 1 && RengaOnnxHostIsBatchFree(host); d++) {
    if (host->spec.dim[d] != batch) continue;
    RengaCall(RengaOnnxOpenHost(node, host, d, own));
    if (*own && IsOwn(*own, width, component, components)) return RENGA_SUCCESS;
  }
  *own = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode MoveDimension(RengaOnnxNode *node, int from, int to, RengaValue *x)
{
  int64_t order[RENGA_MAX_DIM];
  int ndim = RengaOnnxSpec(node, *x)->ndim, k = 0;
  if (from == to) return RENGA_SUCCESS;
  for (int d = 0; d < ndim; d++) {
    if (k == from) k++;
    order[d] = d == to ? from : k++;
  }
  const RengaValue before = *x;
  RengaCall(RengaOnnxTranspose(node, before, ndim, order, x));
  return RENGA_SUCCESS;
}

/* data [N, …]; index [positions with N at own, components]: a gather within each sample. With the
   shape of positions instead of an index the sample's data stand at each position. */
static RengaErrorCode GatherOwn(RengaOnnxNode *node, RengaValue data, RengaValue index,
                                const RengaTensorSpec *positions, int own)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, data);
  RengaValue y;
  if (!positions) {
    const RengaValue in[] = {data, index};
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "batch_dims", 1));
    RengaCall(RengaOnnxEmit(node, "GatherND", 2, in, 1, NULL, &y));
  } else {
    RengaTensorSpec thin = {.type = spec.type, .ndim = positions->ndim + spec.ndim - 1}, all;
    RengaOnnxCheck(thin.ndim <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT,
                   "a result of %d dimensions; at most %d are supported", thin.ndim, RENGA_MAX_DIM);
    for (int d = 0; d < thin.ndim; d++)
      thin.dim[d] = d == 0 ? -1 : d < positions->ndim ? 1 : spec.dim[d - positions->ndim + 1];
    all = thin;
    for (int d = 1; d < positions->ndim; d++) all.dim[d] = positions->dim[d <= own ? d - 1 : d];
    RengaCall(RengaOnnxReshape(node, data, &thin, &y));
    const RengaValue one = y;
    if (!RengaTensorSpecEqual(&thin, &all))
      RengaCall(RengaOnnxEmit(node, "Expand", 1, &one, 1, &all, &y));
  }
  RengaCall(MoveDimension(node, 0, own, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* The other components of known numbers, with the samples first. */
static RengaErrorCode OtherComponents(RengaOnnxNode *node, const RengaOnnxHost *own, int64_t gone,
                                      RengaValue *index)
{
  RengaOnnxHost *rest;
  RengaTensorSpec spec = own->spec;
  int64_t components = spec.dim[spec.ndim - 1];
  *index = RENGA_VALUE_NONE;
  if (components == 1) return RENGA_SUCCESS;
  spec.dim[spec.ndim - 1]--;
  RengaCall(RengaOnnxHostCreate(node->importer, spec.type, spec.ndim, spec.dim, &rest));
  rest->open = own->open;
  for (int64_t i = 0, k = 0; i < own->count; i++)
    if (i % components != gone) rest->number[k++] = own->number[i];
  RengaCall(RengaOnnxHostValue(node, rest, index));
  RengaCall(MoveDimension(node, rest->open, 0, index));
  return RENGA_SUCCESS;
}

/* Positions of an index without its components. */
static RengaTensorSpec Positions(const RengaTensorSpec *index)
{
  RengaTensorSpec positions = *index;
  positions.ndim--;
  return positions;
}

/* An index that is joined of the samples' numbers and of other values: the parts without them. */
static RengaErrorCode OtherParts(RengaOnnxNode *node, RengaValue index, int component,
                                 RengaValue *others, int *own)
{
  enum { PARTS_MAX = 16 };
  const RengaOnnxImporter *importer = node->importer;
  const RengaGraphNode *made =
      RengaGraphGetNode(importer->graph, RengaGraphGetValue(importer->graph, index)->producer);
  const RengaTensorSpec *spec = RengaOnnxSpec(node, index);
  RengaValue rest[PARTS_MAX];
  int n = 0, batch = RengaOnnxBatchDimension(spec);
  int64_t axis = made ? RengaAttributesInt(&made->attributes, "axis", 0) : 0;
  *own = -1;
  if (!made || strcmp(made->op->name, "Concat") != 0 || made->n_in > PARTS_MAX ||
      made->n_in != spec->dim[spec->ndim - 1] || component >= made->n_in || batch < 0 ||
      (axis < 0 ? axis + spec->ndim : axis) != spec->ndim - 1)
    return RENGA_SUCCESS;
  const RengaOnnxHost *numbers = FindNumbers(importer, made->in[component]);
  if (!numbers || numbers->open != batch || !IsOwn(numbers, 1, 0, 1)) return RENGA_SUCCESS;
  for (int i = 0; i < made->n_in; i++)
    if (i != component) rest[n++] = made->in[i];
  if (n == 0) return RENGA_SUCCESS;
  *others = rest[0];
  if (n > 1) {
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", spec->ndim - 1));
    RengaCall(RengaOnnxEmit(node, "Concat", n, rest, 1, NULL, others));
  }
  RengaCall(MoveDimension(node, batch, 0, others));
  *own = batch;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGatherND(RengaOnnxNode *node)
{
  RengaValue data, index;
  RengaOnnxHost *numbers = NULL;
  RengaOnnxBinding *selected;
  int own = -1;
  if (RengaOnnxArePositions(node, 1, &selected)) {
    RengaCall(RengaOnnxSelect(node, selected));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxInputValue(node, 0, &data));
  RengaOnnxCheck(data != RENGA_VALUE_NONE && RengaOnnxHasInput(node, 1), node,
                 RENGA_ERR_FILE_FORMAT, "it needs two inputs");
  int batch = RengaOnnxBatchDimension(RengaOnnxSpec(node, data));
  bool may = batch >= 0 && RengaOnnxInt(node, "batch_dims", 0) == 0 &&
             RengaOnnxSpec(node, data)->dim[batch] == -1;
  const RengaOnnxHost *known = NULL;
  if (may) RengaCall(RengaOnnxKnownInput(node, 1, &known));
  if (known && known->spec.ndim > 0 && batch < known->spec.dim[known->spec.ndim - 1])
    RengaCall(OwnNumbers(node, 1, 1, batch, known->spec.dim[known->spec.ndim - 1], &numbers));
  if (numbers) {
    const RengaTensorSpec positions = Positions(&numbers->spec);
    RengaCall(OtherComponents(node, numbers, batch, &index));
    RengaCall(MoveDimension(node, batch, 0, &data));
    const bool whole = index == RENGA_VALUE_NONE;
    RengaCall(GatherOwn(node, data, index, whole ? &positions : NULL, numbers->open));
    return RENGA_SUCCESS;
  }
  RengaValue others = RENGA_VALUE_NONE;
  RengaCall(RengaOnnxInputValue(node, 1, &index));
  if (may) RengaCall(OtherParts(node, index, batch, &others, &own));
  if (own >= 0) {
    RengaCall(MoveDimension(node, batch, 0, &data));
    RengaCall(GatherOwn(node, data, others, NULL, own));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxConvertSame(node));
  return RENGA_SUCCESS;
}

/* Where the indices are the samples' own numbers, all rows are replaced: by the updates. */
RengaErrorCode RengaOnnxConvertScatterND(RengaOnnxNode *node)
{
  RengaValue data, updates;
  RengaOnnxHost *numbers = NULL;
  RengaCall(RengaOnnxInputValue(node, 0, &data));
  RengaCall(RengaOnnxInputValue(node, 2, &updates));
  RengaOnnxCheck(data != RENGA_VALUE_NONE && updates != RENGA_VALUE_NONE &&
                     RengaOnnxHasInput(node, 1),
                 node, RENGA_ERR_FILE_FORMAT, "it needs three inputs");
  const RengaTensorSpec *spec = RengaOnnxSpec(node, data);
  if (spec->ndim > 0 && spec->dim[0] == -1 && RengaOnnxString(node, "reduction", "none", "none"))
    RengaCall(OwnNumbers(node, 1, 1, 0, 1, &numbers));
  if (numbers && numbers->spec.ndim == 2 && numbers->open == 0 &&
      RengaTensorSpecEqual(spec, RengaOnnxSpec(node, updates))) {
    RengaCall(RengaOnnxBindValue(node, 0, updates));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxConvertSame(node));
  return RENGA_SUCCESS;
}

/* n * width + k, of which k is not known: the index is a sum of the samples' numbers and of k. */
static RengaErrorCode OtherAddend(RengaOnnxNode *node, RengaValue index, int64_t width,
                                  RengaValue *other, int *own)
{
  const RengaOnnxImporter *importer = node->importer;
  const RengaGraphNode *made =
      RengaGraphGetNode(importer->graph, RengaGraphGetValue(importer->graph, index)->producer);
  *own = -1;
  if (!made || strcmp(made->op->name, "Add") != 0) return RENGA_SUCCESS;
  for (int i = 0; i < 2; i++) {
    const RengaOnnxHost *numbers = FindNumbers(importer, made->in[i]);
    const RengaTensorSpec *spec = RengaOnnxSpec(node, made->in[1 - i]);
    if (!numbers || !IsOwn(numbers, width, 0, 1) || numbers->count != 1) continue;
    if (numbers->number->whole != 0 || RengaOnnxBatchDimension(spec) < 0) continue;
    if (!RengaTensorSpecEqual(spec, RengaOnnxSpec(node, index))) continue;
    *other = made->in[1 - i];
    *own = RengaOnnxBatchDimension(spec);
  }
  return RENGA_SUCCESS;
}

/* data [c * N, …] as [N, c, …], where samples are c rows each. */
static RengaErrorCode RowsOfSamples(RengaOnnxNode *node, RengaValue *data)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, *data);
  RengaTensorSpec shape = {.type = spec->type, .ndim = spec->ndim + 1};
  for (int d = 0; d < shape.ndim; d++)
    shape.dim[d] = d == 0 ? -1 : d == 1 ? -spec->dim[0] : spec->dim[d - 1];
  const RengaValue from = *data;
  RengaCall(RengaOnnxReshape(node, from, &shape, data));
  return RENGA_SUCCESS;
}

/* A component more, of one number. */
static RengaErrorCode WithComponent(RengaOnnxNode *node, RengaValue *index)
{
  RengaTensorSpec shape = *RengaOnnxSpec(node, *index);
  shape.dim[shape.ndim++] = 1;
  const RengaValue from = *index;
  RengaCall(RengaOnnxReshape(node, from, &shape, index));
  return RENGA_SUCCESS;
}

/* The row of a table that gets no gradient; -1: none. */
static RengaErrorCode FindPaddingRow(RengaOnnxNode *node, int64_t *row)
{
  const RengaOnnxImporter *importer = node->importer;
  RengaOnnxBinding *table, *given = NULL;
  RengaCall(RengaOnnxInputBinding(node, 0, &table));
  if (importer->padding) given = RengaOnnxScopeFind(importer->padding, table->name);
  *row = (int64_t)RengaOnnxCallReal(node, "aten.embedding.default", 2, -1);
  if (!given) return RENGA_SUCCESS;
  *row = given->row;
  given->found = true;
  RengaOnnxCheck(table->spec.ndim > 0 && *row < table->spec.dim[0], node, RENGA_ERR_FILE_FORMAT,
                 "property renga.padding_rows: \"%s\" has no row %lld", table->name,
                 (long long)*row);
  return RENGA_SUCCESS;
}

/* Rows of a table; that of padding gets no gradient. */
static RengaErrorCode GatherRows(RengaOnnxNode *node)
{
  int64_t row;
  RengaCall(FindPaddingRow(node, &row));
  if (row >= 0) RengaCall(RengaAttributesSetInt(&node->importer->attributes, "padding", row));
  RengaCall(RengaOnnxConvertSame(node));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGather(RengaOnnxNode *node)
{
  RengaValue data, index = RENGA_VALUE_NONE;
  RengaOnnxHost *numbers = NULL;
  int own = -1, axis;
  RengaCall(RengaOnnxInputValue(node, 0, &data));
  RengaOnnxCheck(data != RENGA_VALUE_NONE && RengaOnnxHasInput(node, 1), node,
                 RENGA_ERR_FILE_FORMAT, "it needs two inputs");
  const RengaTensorSpec spec = *RengaOnnxSpec(node, data);
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), spec.ndim, &axis));
  int64_t width = -spec.dim[axis];
  bool may = axis == 0 && width > 0 && spec.ndim < RENGA_MAX_DIM &&
             (width == 1 || RengaOnnxGetInner(node->importer, data) == width);
  if (may) RengaCall(OwnNumbers(node, 1, width, 0, 1, &numbers));
  if (numbers) {
    const RengaTensorSpec positions = numbers->spec;
    own = numbers->open;
    for (int64_t i = 0; i < numbers->count; i++) numbers->number[i].sample = 0;
    if (width > 1) RengaCall(RengaOnnxHostValue(node, numbers, &index));
    if (width > 1) RengaCall(WithComponent(node, &index));
    if (width > 1) RengaCall(RowsOfSamples(node, &data));
    if (width > 1) RengaCall(MoveDimension(node, own, 0, &index));
    RengaCall(GatherOwn(node, data, index, width > 1 ? NULL : &positions, own));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxInputValue(node, 1, &index));
  RengaValue other;
  if (may && width > 1) RengaCall(OtherAddend(node, index, width, &other, &own));
  if (own >= 0) {
    RengaCall(WithComponent(node, &other));
    RengaCall(RowsOfSamples(node, &data));
    RengaCall(MoveDimension(node, own, 0, &other));
    RengaCall(GatherOwn(node, data, other, NULL, own));
    return RENGA_SUCCESS;
  }
  RengaCall(GatherRows(node));
  return RENGA_SUCCESS;
}
