/* Operators that change shapes or move elements, by opset. */
#include "onnx.h"

static RengaErrorCode ReshapeInput(RengaOnnxNode *node, const RengaTensorSpec *shape)
{
  RengaValue x, y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxReshape(node, x, shape, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode InputShape(RengaOnnxNode *node, RengaTensorSpec *x)
{
  RengaValue value;
  RengaCall(RengaOnnxInputValue(node, 0, &value));
  RengaOnnxCheck(value != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  *x = *RengaOnnxSpec(node, value);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertReshape(RengaOnnxNode *node)
{
  RengaValue x;
  RengaTensorSpec shape;
  const RengaOnnxHost *target;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxInputShape(node, 1, &target));
  RengaCall(RengaOnnxTargetShape(node, x, (int)target->count, target->number,
                                 RengaOnnxInt(node, "allowzero", 0) == 0, &shape));
  RengaCall(ReshapeInput(node, &shape));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertFlatten(RengaOnnxNode *node)
{
  RengaTensorSpec x;
  RengaCall(InputShape(node, &x));
  int64_t axis = RengaOnnxInt(node, "axis", 1);
  RengaOnnxCheck(axis >= -x.ndim && axis <= x.ndim, node, RENGA_ERR_FILE_FORMAT, "axis %lld",
                 (long long)axis);
  if (axis < 0) axis += x.ndim;
  RengaTensorSpec shape = {.type = x.type, .ndim = 2, .dim = {1, 1}};
  for (int d = 0; d < x.ndim; d++) { /* at most one dimension is negative */
    int64_t *to = &shape.dim[d < axis ? 0 : 1];
    *to *= x.dim[d];
  }
  RengaCall(ReshapeInput(node, &shape));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSqueeze(RengaOnnxNode *node)
{
  RengaTensorSpec x;
  bool gone[RENGA_MAX_DIM];
  RengaCall(InputShape(node, &x));
  RengaCall(RengaOnnxSqueezed(node, &x, gone));
  RengaTensorSpec shape = {.type = x.type, .ndim = 0};
  for (int d = 0; d < x.ndim; d++)
    if (!gone[d]) shape.dim[shape.ndim++] = x.dim[d];
  RengaCall(ReshapeInput(node, &shape));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertUnsqueeze(RengaOnnxNode *node)
{
  RengaTensorSpec x, shape;
  RengaCall(InputShape(node, &x));
  RengaCall(RengaOnnxUnsqueezed(node, &x, &shape));
  RengaCall(ReshapeInput(node, &shape));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertExpand(RengaOnnxNode *node)
{
  RengaValue x, y;
  RengaTensorSpec shape;
  const RengaOnnxHost *target;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxInputShape(node, 1, &target));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  for (int d = 0; d < (int)target->count; d++) {
    int axis = d + RengaOnnxSpec(node, x)->ndim - (int)target->count;
    if (axis >= 0) RengaCall(RengaOnnxOpenDimension(node, axis, -target->number[d].batch, &x));
  }
  RengaCall(RengaOnnxExpandShape(node, x, target, &shape));
  RengaCall(RengaOnnxEmit(node, "Expand", 1, &x, 1, &shape, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertTranspose(RengaOnnxNode *node)
{
  RengaValue x, y;
  int64_t order[RENGA_MAX_DIM];
  RengaOnnxBinding *positions;
  if (RengaOnnxArePositions(node, 0, &positions)) {
    RengaCall(RengaOnnxTurnPositions(node, positions));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  int ndim = RengaOnnxSpec(node, x)->ndim;
  RengaCall(RengaOnnxOrder(node, ndim, order));
  bool moves = RengaOnnxMaskOf(node->importer, x) == RENGA_VALUE_NONE;
  for (int d = 0; d < ndim; d++) moves = moves || order[d] != d;
  y = x; /* rows that a mask selects: what moves nothing keeps them */
  if (moves) RengaCall(RengaOnnxTranspose(node, x, ndim, order, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSlice(RengaOnnxNode *node)
{
  RengaValue x, y;
  RengaOnnxSlice slice;
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  RengaCall(RengaOnnxReadSlice(node, spec->ndim, &slice));
  for (int i = 0; i < slice.count; i++) { /* all samples of the file's batch: all samples */
    int64_t size = spec->dim[slice.axis[i]];
    if (size < 0 && slice.end[i] == -size * node->importer->file_batch) slice.end[i] = INT64_MAX;
  }
  RengaCall(RengaAttributesSetInts(to, "starts", slice.count, slice.start));
  RengaCall(RengaAttributesSetInts(to, "ends", slice.count, slice.end));
  RengaCall(RengaAttributesSetInts(to, "axes", slice.count, slice.axis));
  RengaCall(RengaAttributesSetInts(to, "steps", slice.count, slice.step));
  RengaCall(RengaOnnxApply(node, "Slice", x, RENGA_VALUE_NONE, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* Parts: attribute split until 12, input 1 since 13, num_outputs since 18, or equal ones. */
RengaErrorCode RengaOnnxConvertSplit(RengaOnnxNode *node)
{
  enum { PARTS_MAX = 4096 };
  RengaAttributes *to = &node->importer->attributes;
  RengaValue x, *out;
  int64_t parts = (int64_t)node->proto->n_output, *size;
  RengaOnnxCheck(parts >= 1 && parts <= PARTS_MAX, node, RENGA_ERR_SUPPORT, "%lld parts",
                 (long long)parts);
  RengaCall(RengaOnnxAllocate(node->importer, parts, sizeof *out, &out));
  RengaCall(RengaOnnxAllocate(node->importer, parts, sizeof *size, &size));
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaAttributesSetInt(to, "axis", RengaOnnxInt(node, "axis", 0)));
  const Onnx__AttributeProto *attribute = RengaOnnxAttribute(node, "split");
  const RengaOnnxHost *host = NULL;
  if (RengaOnnxHasInput(node, 1)) RengaCall(RengaOnnxInputHost(node, 1, &host));
  int count = host ? (int)host->count : attribute ? (int)attribute->n_ints : 0;
  RengaOnnxCheck(count == 0 || count == parts, node, RENGA_ERR_FILE_FORMAT,
                 "%d sizes for %lld parts", count, (long long)parts);
  if (host) RengaCall(RengaOnnxHostToInts(node, host, (int)parts, &count, size));
  for (int i = 0; i < count && !host; i++) size[i] = attribute->ints[i];
  if (count)
    RengaCall(RengaAttributesSetInts(to, "split", count, size));
  else
    RengaCall(RengaAttributesSetInt(to, "num_outputs", parts));
  RengaCall(RengaOnnxEmit(node, "Split", 1, &x, (int)parts, NULL, out));
  for (int i = 0; i < parts; i++) RengaCall(RengaOnnxBindValue(node, i, out[i]));
  return RENGA_SUCCESS;
}

/* Pads: attribute until 10, then input 1; value: input 2; axes: input 3. */
RengaErrorCode RengaOnnxConvertPad(RengaOnnxNode *node)
{
  RengaAttributes *to = &node->importer->attributes;
  int64_t pads[2 * RENGA_MAX_DIM], axes[2 * RENGA_MAX_DIM];
  int count, n_axes = -1;
  double value = RengaOnnxReal(node, "value", 0);
  RengaValue x, y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  if (node->opset < 11)
    RengaCall(RengaOnnxInts(node, "pads", &count, pads));
  else {
    RengaCall(RengaOnnxInputInts(node, 1, &count, pads));
    RengaCall(RengaOnnxInputReal(node, 2, &value));
    RengaCall(RengaOnnxInputInts(node, 3, &n_axes, axes));
  }
  RengaOnnxCheck(count >= 0, node, RENGA_ERR_FILE_FORMAT, "it has no pads");
  RengaCall(RengaOnnxCopyAttributes(node, "pads value"));
  RengaCall(RengaAttributesSetInts(to, "pads", count, pads));
  if (n_axes >= 0) RengaCall(RengaAttributesSetInts(to, "axes", n_axes, axes));
  RengaCall(RengaAttributesSetReal(to, "value", value));
  RengaCall(RengaOnnxApply(node, "Pad", x, RENGA_VALUE_NONE, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* [D] to [factor * N * D]: a copy for each sample. */
static RengaErrorCode CopyToSamples(RengaOnnxNode *node, int axis, int64_t factor, RengaValue *x)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  RengaTensorSpec one = {.type = spec.type, .ndim = spec.ndim + 1}, all, flat = spec;
  RengaValue thin, copies;
  RengaOnnxCheck(
      one.ndim <= RENGA_MAX_DIM && RengaOnnxBatchDimension(&spec) < 0, node, RENGA_ERR_SUPPORT,
      "it copies a tensor of the samples, or one of %d dimensions, for each sample", spec.ndim);
  for (int d = 0; d < one.ndim; d++) one.dim[d] = d == axis ? 1 : spec.dim[d < axis ? d : d - 1];
  all = one;
  all.dim[axis] = -factor;
  flat.dim[axis] *= -factor;
  RengaCall(RengaOnnxReshape(node, *x, &one, &thin));
  RengaCall(RengaOnnxEmit(node, "Expand", 1, &thin, 1, &all, &copies));
  RengaCall(RengaOnnxReshape(node, copies, &flat, x));
  return RENGA_SUCCESS;
}

/* Of the file's batch, where something learnt is copied to each of its samples; or of the batch. */
static RengaOnnxNumber CopiesOf(RengaOnnxNode *node, RengaValue x, int d, RengaOnnxNumber number)
{
  const RengaOnnxImporter *importer = node->importer;
  const bool all = importer->open && importer->file_batch > 1 && d == 0 &&
                   number.whole == importer->file_batch && number.batch == 0;
  if (all && RengaOnnxBatchDimension(RengaOnnxSpec(node, x)) < 0 &&
      RengaOnnxIsOfParameter(importer->graph, x))
    return (RengaOnnxNumber){.batch = 1};
  return number;
}

/* A number of copies may be a multiple of the batch: copies for each sample. */
RengaErrorCode RengaOnnxConvertTile(RengaOnnxNode *node)
{
  const RengaOnnxHost *host;
  int64_t repeats[RENGA_MAX_DIM], copies[RENGA_MAX_DIM];
  bool any = false, plain = true;
  RengaValue x, y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxInputShape(node, 1, &host));
  int count = (int)host->count;
  RengaOnnxCheck(count == RengaOnnxSpec(node, x)->ndim, node, RENGA_ERR_FILE_FORMAT,
                 "%d repeats for %d dimensions", count, RengaOnnxSpec(node, x)->ndim);
  for (int d = 0; d < count; d++) {
    const RengaOnnxNumber number = CopiesOf(node, x, d, host->number[d]);
    RengaOnnxCheck(number.batch == 0 || (number.batch > 0 && number.whole == 0), node,
                   RENGA_ERR_SUPPORT, "%lld + %lld * batch copies", (long long)number.whole,
                   (long long)number.batch);
    copies[d] = number.batch;
    repeats[d] = number.batch == 0 ? number.whole : 1;
    any = any || repeats[d] != 1;
    plain = plain && number.batch == 0;
  }
  y = x;
  if (any || plain) {
    RengaCall(RengaAttributesSetInts(&node->importer->attributes, "repeats", count, repeats));
    RengaCall(RengaOnnxApply(node, "Tile", x, RENGA_VALUE_NONE, &y));
  }
  for (int d = 0; d < count; d++)
    if (copies[d] > 0) RengaCall(CopyToSamples(node, d, copies[d], &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
