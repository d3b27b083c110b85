/* A tensor that is known while reading, as a value of the graph: a constant, or numbers that depend
   on the batch or on the sample. */
#include "onnx.h"

/* Of copies along a dimension that is the file's batch: one row, and what it grows by. */
RengaErrorCode RengaOnnxOpenHost(RengaOnnxNode *node, const RengaOnnxHost *from, int d,
                                 RengaOnnxHost **open)
{
  int64_t size = from->spec.dim[d], inner = 1;
  RengaTensorSpec spec = from->spec;
  *open = NULL;
  for (int i = d + 1; i < spec.ndim; i++) inner *= spec.dim[i];
  spec.dim[d] = 1;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, spec.type, spec.ndim, spec.dim, &made));
  made->open = d;
  for (int64_t i = 0; i < made->count; i++) {
    const RengaOnnxNumber *first = &from->number[i / inner * size * inner + i % inner];
    made->number[i] = *first;
    made->number[i].sample = first[inner].whole - first->whole;
    for (int64_t k = 0; k < size; k++)
      if (first[k * inner].whole != first->whole + k * made->number[i].sample) return RENGA_SUCCESS;
  }
  *open = made;
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

/* sample * (0 … N - 1), by a node that is called as the file's. */
static RengaErrorCode NumberSamples(RengaOnnxNode *node, const RengaOnnxHost *factor, int open,
                                    RengaValue *y)
{
  RengaOnnxNode range = *node;
  RengaAttributes *to = &node->importer->attributes;
  RengaTensorSpec line = {.type = factor->spec.type, .ndim = 1, .dim = {-1}}, across = factor->spec;
  RengaValue numbers, column, times;
  range.name = node->importer->range ? node->importer->range : node->name;
  range.emitted = 0;
  for (int d = 0; d < across.ndim; d++) across.dim[d] = d == open ? -1 : 1;
  RengaCall(RengaAttributesSetReal(to, "start", 0));
  RengaCall(RengaAttributesSetReal(to, "delta", 1));
  RengaCall(RengaAttributesSetInt(to, "to", (int64_t)line.type));
  RengaCall(RengaOnnxEmit(&range, "Range", 0, NULL, 1, &line, &numbers));
  RengaCall(RengaOnnxReshape(&range, numbers, &across, &column));
  RengaCall(RengaOnnxHostValue(&range, factor, &times));
  RengaCall(RengaOnnxApply(&range, "Mul", column, times, y));
  return RENGA_SUCCESS;
}

/* One row for each sample as a value: whole + sample * (0 … N - 1). */
RengaErrorCode RengaOnnxNumbersValue(RengaOnnxNode *node, const RengaOnnxHost *host,
                                     RengaValue *value)
{
  RengaOnnxImporter *importer = node->importer;
  const RengaTensorSpec *spec = &host->spec;
  RengaOnnxHost *whole, *factor, *kept;
  RengaTensorSpec all;
  RengaValue constant, numbers;
  bool numbered = false;
  RengaCall(RengaOnnxHostCreate(importer, spec->type, spec->ndim, spec->dim, &whole));
  RengaCall(RengaOnnxHostCreate(importer, spec->type, spec->ndim, spec->dim, &factor));
  RengaCall(RengaOnnxHostCreate(importer, spec->type, spec->ndim, spec->dim, &kept));
  for (int64_t i = 0; i < host->count; i++) {
    const RengaOnnxNumber *from = &host->number[i];
    kept->number[i] = *from;
    whole->number[i] = *from;
    whole->number[i].sample = 0;
    factor->number[i] = (RengaOnnxNumber){.whole = from->sample, .real = (double)from->sample};
    numbered = numbered || from->sample != 0;
  }
  kept->open = host->open;
  RengaOnnxHostSpec(host, &all);
  RengaCall(RengaOnnxHostValue(node, whole, &constant));
  if (numbered) {
    RengaCall(NumberSamples(node, factor, host->open, &numbers));
    RengaCall(RengaOnnxApply(node, "Add", numbers, constant, value));
  } else {
    RengaCall(RengaOnnxEmit(node, "Expand", 1, &constant, 1, &all, value));
  }
  RengaCall(RengaOnnxSetInner(importer, *value, 1));
  importer->numbers[*value] = kept;
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

/* A constant in which a sample has its own number, or a multiple of it: copies along the dimension
   that differ by the same amount from each to the next. open NONE: it is none. */
RengaErrorCode RengaOnnxOpenNumbers(RengaOnnxNode *node, RengaValue x, int axis, RengaValue *open)
{
  const RengaGraphValue *value = RengaGraphGetValue(node->importer->graph, x);
  RengaOnnxHost *all, *own;
  *open = RENGA_VALUE_NONE;
  if (value->kind != RENGA_VALUE_CONSTANT || RengaDataTypeIsFloating(value->spec.type) ||
      !RengaOnnxHostHasType(value->spec.type) ||
      RengaTensorSpecCount(&value->spec) > RENGA_ONNX_HOST_MAX)
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxHostFromData(node->importer, &value->spec, value->data, &all));
  RengaCall(RengaOnnxOpenHost(node, all, axis, &own));
  if (own) RengaCall(RengaOnnxHostValue(node, own, open));
  return RENGA_SUCCESS;
}
