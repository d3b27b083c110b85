/* Sequences of tensors whose length and positions are known while reading: what chunk, split,
   unbind and stack of PyTorch become. A sequence is a list of bindings; no node of the graph
   holds one. */
#include "onnx.h"

enum { ITEMS_MAX = 4096 };

static RengaErrorCode InputSequence(RengaOnnxNode *node, RengaOnnxBinding **sequence)
{
  RengaCall(RengaOnnxInputBinding(node, 0, sequence));
  RengaOnnxCheck((*sequence)->kind == RENGA_ONNX_SEQUENCE, node, RENGA_ERR_FILE_FORMAT,
                 "input 0 (\"%s\") is no sequence", (*sequence)->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode BindItems(RengaOnnxNode *node, int count, RengaOnnxBinding **items)
{
  RengaOnnxBinding *made;
  RengaOnnxCheck(count <= ITEMS_MAX, node, RENGA_ERR_SUPPORT,
                 "a sequence of %d tensors; at most %d are supported", count, ITEMS_MAX);
  RengaCall(RengaOnnxAllocate(node->importer, 1, sizeof *made, &made));
  *made = (RengaOnnxBinding){.name = node->name,
                             .kind = RENGA_ONNX_SEQUENCE,
                             .item = items,
                             .n_items = count,
                             .value = RENGA_VALUE_NONE};
  RengaCall(RengaOnnxBindAlias(node, 0, made));
  return RENGA_SUCCESS;
}

/* An item that no name of the file stands for. */
static RengaErrorCode NewItem(RengaOnnxNode *node, RengaValue value, RengaOnnxBinding **item)
{
  RengaCall(RengaOnnxAllocate(node->importer, 1, sizeof **item, item));
  **item = (RengaOnnxBinding){.name = node->name, .kind = RENGA_ONNX_VALUE, .value = value};
  return RENGA_SUCCESS;
}

/* A position of a sequence; end: one after the last is allowed. */
static RengaErrorCode Position(RengaOnnxNode *node, int input, int length, bool end, int *position)
{
  int64_t number[2 * RENGA_MAX_DIM];
  int count;
  *position = end ? length : length - 1;
  RengaCall(RengaOnnxInputInts(node, input, &count, number));
  if (count < 0) return RENGA_SUCCESS;
  RengaOnnxCheck(count == 1, node, RENGA_ERR_FILE_FORMAT, "the position must be one number");
  int64_t at = number[0] < 0 ? number[0] + length : number[0];
  RengaOnnxCheck(at >= 0 && at < length + end, node, RENGA_ERR_FILE_FORMAT,
                 "position %lld of a sequence of %d tensors", (long long)number[0], length);
  *position = (int)at;
  return RENGA_SUCCESS;
}

/* Sizes of the parts: all 1, all of one size but the last, or as given. */
static RengaErrorCode PartSizes(RengaOnnxNode *node, int64_t size, int *count, int64_t **sizes)
{
  const RengaOnnxHost *split = NULL;
  int64_t each = 1;
  if (RengaOnnxHasInput(node, 1)) {
    RengaCall(RengaOnnxInputHost(node, 1, &split));
    RengaOnnxCheckApart(RengaOnnxHostIsBatchFree(split), node,
                        "the sizes of its parts depend on the batch");
    if (split->spec.ndim == 0) each = split->number->whole;
  }
  bool given = split && split->spec.ndim > 0;
  RengaOnnxCheck(each > 0, node, RENGA_ERR_FILE_FORMAT, "parts of size %lld", (long long)each);
  int64_t n = given ? split->count : (size + each - 1) / each;
  RengaOnnxCheck(n >= 1 && n <= ITEMS_MAX, node, RENGA_ERR_SUPPORT,
                 "%lld parts; at most %d are supported", (long long)n, ITEMS_MAX);
  *count = (int)n;
  RengaCall(RengaOnnxAllocate(node->importer, n, sizeof **sizes, sizes));
  for (int64_t i = 0; i < n; i++)
    (*sizes)[i] = given ? split->number[i].whole : i < n - 1 ? each : size - (n - 1) * each;
  return RENGA_SUCCESS;
}

static RengaErrorCode SqueezeItem(RengaOnnxNode *node, int axis, RengaValue *x)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, *x);
  RengaTensorSpec shape = {.type = spec->type};
  for (int d = 0; d < spec->ndim; d++)
    if (d != axis) shape.dim[shape.ndim++] = spec->dim[d];
  const RengaValue from = *x;
  RengaCall(RengaOnnxReshape(node, from, &shape, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSplitToSequence(RengaOnnxNode *node)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaOnnxBinding **items;
  RengaValue x, *part;
  int axis, count = 0;
  int64_t *sizes;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), spec.ndim, &axis));
  bool keep = RengaOnnxInt(node, "keepdims", 1) != 0 || RengaOnnxHasInput(node, 1);
  RengaOnnxCheckApart(
      spec.dim[axis] >= 0, node,
      "it takes the samples of the batch apart (axis %d): write the network so that it "
      "does the same with each sample",
      axis);
  RengaCall(PartSizes(node, spec.dim[axis], &count, &sizes));
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof(RengaOnnxBinding *), &items));
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof *part, &part));
  part[0] = x;
  if (count > 1) {
    RengaCall(RengaAttributesSetInt(to, "axis", axis));
    RengaCall(RengaAttributesSetInts(to, "split", count, sizes));
    RengaCall(RengaOnnxEmit(node, "Split", 1, &x, count, NULL, part));
  }
  for (int i = 0; i < count; i++) {
    if (!keep) RengaCall(SqueezeItem(node, axis, &part[i]));
    RengaCall(NewItem(node, part[i], &items[i]));
  }
  RengaCall(BindItems(node, count, items));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSequenceConstruct(RengaOnnxNode *node)
{
  int count = RengaOnnxInputCount(node);
  RengaOnnxBinding **items;
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof(RengaOnnxBinding *), &items));
  for (int i = 0; i < count; i++) RengaCall(RengaOnnxInputBinding(node, i, &items[i]));
  RengaCall(BindItems(node, count, items));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSequenceAt(RengaOnnxNode *node)
{
  RengaOnnxBinding *sequence;
  int at;
  RengaCall(InputSequence(node, &sequence));
  RengaCall(Position(node, 1, sequence->n_items, false, &at));
  RengaCall(RengaOnnxBindAlias(node, 0, sequence->item[at]));
  return RENGA_SUCCESS;
}

/* SequenceInsert and SequenceErase: the others keep their order. */
static RengaErrorCode Change(RengaOnnxNode *node, int at, int out, int in,
                             RengaOnnxBinding *const added[])
{
  RengaOnnxBinding *sequence, **items;
  RengaCall(InputSequence(node, &sequence));
  int count = sequence->n_items - out + in;
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof(RengaOnnxBinding *), &items));
  for (int i = 0; i < count; i++)
    items[i] = i < at        ? sequence->item[i]
               : i < at + in ? added[i - at]
                             : sequence->item[i - in + out];
  RengaCall(BindItems(node, count, items));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSequenceInsert(RengaOnnxNode *node)
{
  RengaOnnxBinding *sequence, *added;
  int at;
  RengaCall(InputSequence(node, &sequence));
  RengaCall(RengaOnnxInputBinding(node, 1, &added));
  RengaCall(Position(node, 2, sequence->n_items, true, &at));
  RengaCall(Change(node, at, 0, 1, &added));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSequenceErase(RengaOnnxNode *node)
{
  RengaOnnxBinding *sequence;
  int at;
  RengaCall(InputSequence(node, &sequence));
  RengaCall(Position(node, 1, sequence->n_items, false, &at));
  RengaCall(Change(node, at, 1, 0, NULL));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSequenceLength(RengaOnnxNode *node)
{
  RengaOnnxBinding *sequence;
  RengaOnnxHost *host;
  RengaCall(InputSequence(node, &sequence));
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 0, NULL, &host));
  host->number->whole = sequence->n_items;
  RengaCall(RengaOnnxBindHost(node, 0, host));
  return RENGA_SUCCESS;
}

/* Numbers of a shape, one after the other: stays known. */
static RengaErrorCode JoinKnown(RengaOnnxNode *node, const RengaOnnxBinding *sequence, bool stack,
                                bool *done)
{
  int64_t count = 0, at = 0;
  *done = false;
  for (int i = 0; i < sequence->n_items; i++) {
    const RengaOnnxHost *host = sequence->item[i]->host;
    if (!host || host->spec.ndim != !stack || host->open >= 0 ||
        host->spec.type != sequence->item[0]->host->spec.type)
      return RENGA_SUCCESS;
    count += host->count;
  }
  if (count == 0 || count > RENGA_ONNX_HOST_MAX) return RENGA_SUCCESS;
  RengaOnnxHost *joined;
  RengaCall(
      RengaOnnxHostCreate(node->importer, sequence->item[0]->host->spec.type, 1, &count, &joined));
  for (int i = 0; i < sequence->n_items; i++)
    for (int64_t k = 0; k < sequence->item[i]->host->count; k++)
      joined->number[at++] = sequence->item[i]->host->number[k];
  RengaCall(RengaOnnxBindHost(node, 0, joined));
  *done = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertConcatFromSequence(RengaOnnxNode *node)
{
  RengaOnnxBinding *sequence;
  RengaValue *part, y;
  bool stack = RengaOnnxInt(node, "new_axis", 0) != 0, done;
  int axis;
  RengaCall(InputSequence(node, &sequence));
  RengaOnnxCheck(sequence->n_items > 0, node, RENGA_ERR_FILE_FORMAT, "the sequence is empty");
  RengaCall(JoinKnown(node, sequence, stack, &done));
  if (done) return RENGA_SUCCESS;
  RengaCall(RengaOnnxAllocate(node->importer, sequence->n_items, sizeof *part, &part));
  for (int i = 0; i < sequence->n_items; i++)
    RengaCall(RengaOnnxBindingValue(node, sequence->item[i], &part[i]));
  int ndim = RengaOnnxSpec(node, part[0])->ndim + stack;
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), ndim, &axis));
  for (int i = 0; i < sequence->n_items && stack; i++) {
    const RengaTensorSpec *spec = RengaOnnxSpec(node, part[i]);
    RengaTensorSpec shape = {.type = spec->type, .ndim = spec->ndim + 1};
    RengaOnnxCheck(shape.ndim <= RENGA_MAX_DIM && shape.ndim == ndim, node, RENGA_ERR_SUPPORT,
                   "tensors of %d dimensions become one of %d", spec->ndim, ndim);
    for (int d = 0; d < shape.ndim; d++)
      shape.dim[d] = d == axis ? 1 : spec->dim[d < axis ? d : d - 1];
    const RengaValue from = part[i];
    RengaCall(RengaOnnxReshape(node, from, &shape, &part[i]));
  }
  RengaCall(RengaOnnxOpenOperands(node, false, sequence->n_items, part));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", axis));
  RengaCall(RengaOnnxEmit(node, "Concat", sequence->n_items, part, 1, NULL, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
