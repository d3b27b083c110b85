/* Discrete Fourier transforms: products with constant matrices of cosines and sines. */
#include "onnx.h"
#include <math.h>

enum { ENTRIES_MAX = 1 << 24 };

/* Of in numbers, the first `length` are the signal (zeros follow where there are fewer). Numbers
   are real (1 part) or complex (2). */
typedef struct {
  int64_t in, length, out;
  int parts, parts_out;
  bool inverse, half; /* half: of a spectrum whose other half is its mirror image */
} Transform;

/* Row (n, part), column (k, part): the part of exp(-+ 2 pi i n k / length) times 1 or i. */
static double SpectrumEntry(const Transform *t, int64_t n, int part, int64_t k, int part_out)
{
  const double turn = 2 * acos(-1.0), sign = t->inverse ? 1 : -1;
  double angle = turn * (double)(n * k % t->length) / (double)t->length, weight = 1;
  if (n >= t->length) return 0;
  if (t->inverse) weight /= (double)t->length;
  if (t->half && (n > t->length / 2)) return 0;
  if (t->half && n > 0 && 2 * n != t->length) weight *= 2; /* and its mirror image */
  if (part == part_out) return weight * cos(angle);
  return weight * sign * (part_out == 1 ? sin(angle) : -sin(angle));
}

/* [in * parts, out * parts_out] */
static RengaErrorCode TransformMatrix(RengaOnnxNode *node, const Transform *t, RengaDataType type,
                                      RengaValue *matrix)
{
  RengaTensorSpec spec = {
      .type = type, .ndim = 2, .dim = {t->in * t->parts, t->out * t->parts_out}};
  double *wide;
  float *narrow;
  int64_t count, place = 0;
  RengaOnnxCheck(RengaOnnxCount(2, spec.dim, &count) && count <= ENTRIES_MAX, node,
                 RENGA_ERR_SUPPORT, "a transform of %lld numbers; at most %d x %d are supported",
                 (long long)t->in, 2048, 2048);
  RengaOnnxCheck(type == RENGA_FLOAT32 || type == RENGA_FLOAT64, node, RENGA_ERR_SUPPORT,
                 "a transform of type %s", RengaDataTypeName(type));
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof *wide, &wide));
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof *narrow, &narrow));
  for (int64_t n = 0; n < t->in; n++)
    for (int part = 0; part < t->parts; part++)
      for (int64_t k = 0; k < t->out; k++)
        for (int part_out = 0; part_out < t->parts_out; part_out++)
          wide[place++] = SpectrumEntry(t, n, part, k, part_out);
  for (int64_t i = 0; i < count; i++) narrow[i] = (float)wide[i];
  RengaCall(
      RengaOnnxConstant(node, &spec, type == RENGA_FLOAT64 ? (const void *)wide : narrow, matrix));
  return RENGA_SUCCESS;
}

/* x [..., in, parts] to [..., out, parts_out] */
static RengaErrorCode TransformRows(RengaOnnxNode *node, const Transform *t, RengaValue *x)
{
  RengaTensorSpec spec = *RengaOnnxSpec(node, *x), flat = spec;
  RengaValue matrix, from = *x, product;
  flat.dim[--flat.ndim - 1] = t->in * t->parts;
  spec.dim[spec.ndim - 2] = t->out;
  spec.dim[spec.ndim - 1] = t->parts_out;
  RengaCall(TransformMatrix(node, t, spec.type, &matrix));
  RengaCall(RengaOnnxReshape(node, from, &flat, &from));
  RengaCall(RengaOnnxApply(node, "MatMul", from, matrix, &product));
  RengaCall(RengaOnnxReshape(node, product, &spec, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSignal(const RengaOnnxNode *node, const RengaTensorSpec *x, int axis)
{
  RengaOnnxCheck(x->ndim >= 2 && (x->dim[x->ndim - 1] == 1 || x->dim[x->ndim - 1] == 2), node,
                 RENGA_ERR_SHAPE, "the last dimension must hold 1 or 2 parts of a number");
  RengaOnnxCheck(axis < x->ndim - 1, node, RENGA_ERR_SHAPE, "axis %d holds the parts of a number",
                 axis);
  RengaOnnxCheck(x->dim[axis] > 0, node, RENGA_ERR_SUPPORT,
                 "it transforms dimension %d, which is the batch", axis);
  return RENGA_SUCCESS;
}

/* Axis: an attribute until opset 19, then input 2. Length: input 1. */
static RengaErrorCode ReadTransform(RengaOnnxNode *node, const RengaTensorSpec *x, int *axis,
                                    Transform *t)
{
  double wanted = node->opset < 20 ? (double)RengaOnnxInt(node, "axis", 1) : -2, length = 0;
  RengaCall(RengaOnnxInputReal(node, 1, &length));
  if (node->opset >= 20) RengaCall(RengaOnnxInputReal(node, 2, &wanted));
  RengaCall(RengaOnnxAxis(node, (int64_t)wanted, x->ndim, axis));
  RengaCall(CheckSignal(node, x, *axis));
  bool onesided = RengaOnnxInt(node, "onesided", 0) != 0;
  *t = (Transform){.in = x->dim[*axis],
                   .parts = (int)x->dim[x->ndim - 1],
                   .inverse = RengaOnnxInt(node, "inverse", 0) != 0};
  t->half = onesided && t->inverse;
  t->parts_out = t->half ? 1 : 2;
  t->length = RengaOnnxHasInput(node, 1) ? (int64_t)length : t->half ? 2 * (t->in - 1) : t->in;
  t->out = onesided && !t->inverse ? t->length / 2 + 1 : t->length;
  RengaOnnxCheck(t->length > 0, node, RENGA_ERR_SHAPE, "a transform of %lld numbers",
                 (long long)t->length);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertDFT(RengaOnnxNode *node)
{
  Transform t;
  int axis;
  int64_t order[RENGA_MAX_DIM];
  RengaValue x;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  RengaCall(ReadTransform(node, &spec, &axis, &t));
  const int last = spec.ndim - 2;
  for (int d = 0; d < spec.ndim; d++) order[d] = d == axis ? last : d == last ? axis : d;
  if (axis != last) RengaCall(RengaOnnxTranspose(node, x, spec.ndim, order, &x));
  RengaCall(TransformRows(node, &t, &x));
  if (axis != last) RengaCall(RengaOnnxTranspose(node, x, spec.ndim, order, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* Signal [N, length, parts] to frames [N, frames, length of one, parts]. */
static RengaErrorCode CutFrames(RengaOnnxNode *node, int64_t step, int64_t length, RengaValue *x)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, *x);
  RengaOnnxCheck(step > 0 && length > 0 && length <= spec->dim[1], node, RENGA_ERR_SHAPE,
                 "frames of %lld, %lld apart, of a signal of %lld", (long long)length,
                 (long long)step, (long long)spec->dim[1]);
  RengaTensorSpec places = {
      .type = RENGA_INT64, .ndim = 2, .dim = {(spec->dim[1] - length) / step + 1, length}};
  int64_t *place;
  RengaValue index;
  RengaCall(
      RengaOnnxAllocate(node->importer, RengaTensorSpecCount(&places), sizeof *place, &place));
  for (int64_t i = 0; i < RengaTensorSpecCount(&places); i++)
    place[i] = i / length * step + i % length;
  RengaCall(RengaOnnxConstant(node, &places, place, &index));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 1));
  RengaCall(RengaOnnxApply(node, "Gather", *x, index, x));
  return RENGA_SUCCESS;
}

/* The signal may come without a dimension for the parts of a number. */
static RengaErrorCode ReadSignal(RengaOnnxNode *node, RengaValue *x)
{
  RengaCall(RengaOnnxInputValue(node, 0, x));
  RengaOnnxCheck(*x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  if (spec.ndim == 2) {
    const RengaValue flat = *x;
    spec.dim[spec.ndim++] = 1;
    RengaCall(RengaOnnxReshape(node, flat, &spec, x));
  }
  RengaOnnxCheck(spec.ndim == 3, node, RENGA_ERR_SHAPE, "a signal of %d dimensions", spec.ndim);
  RengaCall(CheckSignal(node, &spec, 1));
  return RENGA_SUCCESS;
}

/* Signal, step, window, length of a frame. */
RengaErrorCode RengaOnnxConvertSTFT(RengaOnnxNode *node)
{
  RengaValue x, window;
  double step = 0, length = 0;
  RengaCall(ReadSignal(node, &x));
  RengaCall(RengaOnnxInputReal(node, 1, &step));
  RengaCall(RengaOnnxInputValue(node, 2, &window));
  if (window != RENGA_VALUE_NONE) length = (double)RengaOnnxSpec(node, window)->dim[0];
  RengaCall(RengaOnnxInputReal(node, 3, &length));
  Transform t = {.in = (int64_t)length,
                 .length = (int64_t)length,
                 .parts = (int)RengaOnnxSpec(node, x)->dim[2],
                 .parts_out = 2};
  t.out = RengaOnnxInt(node, "onesided", 1) ? t.length / 2 + 1 : t.length;
  RengaCall(CutFrames(node, (int64_t)step, t.length, &x));
  if (window != RENGA_VALUE_NONE) {
    const RengaTensorSpec column = {.ndim = 2, .dim = {t.length, 1}};
    RengaCall(RengaOnnxReshape(node, window, &column, &window));
    RengaCall(RengaOnnxApply(node, "Mul", x, window, &x));
  }
  RengaCall(TransformRows(node, &t, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}
