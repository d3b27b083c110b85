/* Sampling at places that the network computes: a grid of places, and what lies there.
   Jaderberg et al., Spatial transformer networks, 2015. */
#include "onnx.h"

enum { SPACE_MAX = 3, TAPS_MAX = 4 };
typedef enum { NEAREST, LINEAR, CUBIC } GridMode;
typedef enum { ZEROS, BORDER, REFLECTION } GridPadding;

/* x [N, C, size…], grid [N, out…, space]: P places, T taps per axis */
typedef struct {
  RengaOnnxNode *node;
  GridMode mode;
  GridPadding padding;
  bool corners; /* -1 and 1 are the centres of the first and last elements, not their edges */
  int space;
  int64_t size[SPACE_MAX], places, channels, batch;
  int taps;
  RengaTensorSpec x, grid;
} GridSample;

/* ---- places ---- */
static RengaErrorCode LinearTaps(RengaOnnxNode *node, double factor, double offset, RengaValue *x)
{
  RengaCall(RengaOnnxApplyReal(node, "Mul", *x, factor, x));
  RengaCall(RengaOnnxApplyReal(node, "Add", *x, offset, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode ClipTo(RengaOnnxNode *node, double low, double high, RengaValue *x)
{
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "min", low));
  RengaCall(RengaAttributesSetReal(&node->importer->attributes, "max", high));
  RengaCall(RengaOnnxApply(node, "Clip", *x, RENGA_VALUE_NONE, x));
  return RENGA_SUCCESS;
}

/* Mirrored at both ends, as often as it takes: with t = |x - low| = n * span + rest, rest from low
   on where n is even, from the other end where it is odd. */
static RengaErrorCode ReflectCoordinate(const GridSample *s, int64_t size, RengaValue *x)
{
  RengaOnnxNode *node = s->node;
  const double low = s->corners ? 0 : -0.5, span = (double)(s->corners ? size - 1 : size);
  RengaValue t, n, rest, odd, back;
  if (span == 0) {
    RengaCall(RengaOnnxApplyReal(node, "Mul", *x, 0, x));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxApplyReal(node, "Sub", *x, low, &t));
  RengaCall(RengaOnnxApply(node, "Abs", t, RENGA_VALUE_NONE, &t));
  RengaCall(RengaOnnxApplyReal(node, "Div", t, span, &n));
  RengaCall(RengaOnnxApply(node, "Floor", n, RENGA_VALUE_NONE, &n));
  RengaCall(RengaOnnxApplyReal(node, "Mul", n, span, &rest));
  RengaCall(RengaOnnxApply(node, "Sub", t, rest, &rest));
  RengaCall(RengaOnnxApplyReal(node, "Div", n, 2, &odd)); /* n / 2 - floor(n / 2): 0 or 1/2 */
  RengaCall(RengaOnnxApply(node, "Floor", odd, RENGA_VALUE_NONE, &back));
  RengaCall(RengaOnnxApplyReal(node, "Div", n, 2, &odd));
  RengaCall(RengaOnnxApply(node, "Sub", odd, back, &odd));
  RengaCall(RengaOnnxApplyReal(node, "Mul", odd, 2, &odd));
  RengaCall(RengaOnnxApplyReal(node, "Mul", rest, -2, &back));
  RengaCall(RengaOnnxApplyReal(node, "Add", back, span, &back));
  RengaCall(RengaOnnxApply(node, "Mul", odd, back, &back));
  RengaCall(RengaOnnxApply(node, "Add", rest, back, &rest));
  RengaCall(RengaOnnxApplyReal(node, "Add", rest, low, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutInside(const GridSample *s, int64_t size, RengaValue *x)
{
  if (s->padding == ZEROS) return RENGA_SUCCESS;
  if (s->padding == REFLECTION) RengaCall(ReflectCoordinate(s, size, x));
  RengaCall(ClipTo(s->node, 0, (double)(size - 1), x));
  return RENGA_SUCCESS;
}

/* The places along one axis in elements, [N, P, 1]; the grid has the last axis first. */
static RengaErrorCode PlacesOf(const GridSample *s, RengaValue grid, int axis, RengaValue *place)
{
  RengaOnnxNode *node = s->node;
  RengaAttributes *to = &node->importer->attributes;
  const int64_t start = s->space - 1 - axis, end = start + 1, along = 2, step = 1;
  const double size = (double)s->size[axis];
  RengaCall(RengaAttributesSetInts(to, "starts", 1, &start));
  RengaCall(RengaAttributesSetInts(to, "ends", 1, &end));
  RengaCall(RengaAttributesSetInts(to, "axes", 1, &along));
  RengaCall(RengaAttributesSetInts(to, "steps", 1, &step));
  RengaCall(RengaOnnxApply(node, "Slice", grid, RENGA_VALUE_NONE, place));
  if (s->corners)
    RengaCall(LinearTaps(node, (size - 1) / 2, (size - 1) / 2, place));
  else
    RengaCall(LinearTaps(node, size / 2, (size - 1) / 2, place));
  return RENGA_SUCCESS;
}

/* ---- taps: the elements around a place, and their weights ---- */
static RengaErrorCode Vector(const GridSample *s, int ndim, int64_t rows, int64_t count,
                             const double value[], RengaValue *constant)
{
  RengaOnnxHost *host;
  const int64_t dim[] = {rows, count};
  RengaCall(RengaOnnxHostCreate(s->node->importer, s->x.type, ndim, dim + 2 - ndim, &host));
  for (int64_t i = 0; i < rows * count; i++) host->number[i].real = value[i];
  RengaCall(RengaOnnxHostValue(s->node, host, constant));
  return RENGA_SUCCESS;
}

/* [N, P, T] from how far a place [N, P, 1] is behind the element before it. Cubic: Keys, Cubic
   convolution interpolation for digital image processing, 1981, with a = -3/4. */
static RengaErrorCode WeightsOf(const GridSample *s, RengaValue behind, RengaValue *weight)
{
  static const double linear[] = {-1, 1}, first[] = {1, 0}, second[] = {0, 1, 0, 0};
  static const double cubic[] = {-0.75, 0,     0.75,  0,    1.5,   -2.25,
                                 1.5,   -0.75, -0.75, 1.25, -1.25, 0.75};
  RengaOnnxNode *node = s->node;
  RengaValue factor, offset, power[3] = {behind};
  if (s->mode == LINEAR) {
    RengaCall(Vector(s, 1, 1, 2, linear, &factor));
    RengaCall(Vector(s, 1, 1, 2, first, &offset));
    RengaCall(RengaOnnxApply(node, "Mul", behind, factor, weight));
  } else {
    RengaCall(Vector(s, 2, 3, 4, cubic, &factor));
    RengaCall(Vector(s, 1, 1, 4, second, &offset));
    RengaCall(RengaOnnxApply(node, "Mul", behind, behind, &power[1]));
    RengaCall(RengaOnnxApply(node, "Mul", power[1], behind, &power[2]));
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 2));
    RengaCall(RengaOnnxEmit(node, "Concat", 3, power, 1, NULL, weight));
    RengaCall(RengaOnnxApply(node, "MatMul", *weight, factor, weight));
  }
  RengaCall(RengaOnnxApply(node, "Add", *weight, offset, weight));
  return RENGA_SUCCESS;
}

/* Weights of taps outside are 0. */
static RengaErrorCode WithoutOutside(const GridSample *s, int64_t size, RengaValue tap,
                                     RengaValue *weight)
{
  RengaOnnxNode *node = s->node;
  RengaValue low, high;
  RengaCall(RengaOnnxApplyReal(node, "GreaterOrEqual", tap, 0, &low));
  RengaCall(RengaOnnxApplyReal(node, "LessOrEqual", tap, (double)(size - 1), &high));
  RengaCall(RengaOnnxApply(node, "And", low, high, &low));
  RengaCall(RengaOnnxCast(node, low, s->x.type, &low));
  if (*weight == RENGA_VALUE_NONE)
    *weight = low;
  else
    RengaCall(RengaOnnxApply(node, "Mul", *weight, low, weight));
  return RENGA_SUCCESS;
}

/* Elements (as positions along the axis) and weights [N, P, T]; weight NONE: all 1. */
static RengaErrorCode GridTaps(const GridSample *s, int axis, RengaValue place, RengaValue *tap,
                               RengaValue *weight)
{
  static const double steps[] = {-1, 0, 1, 2};
  RengaOnnxNode *node = s->node;
  const int64_t size = s->size[axis];
  RengaValue behind, offsets;
  *weight = RENGA_VALUE_NONE;
  if (s->mode != CUBIC) RengaCall(PutInside(s, size, &place));
  RengaCall(
      RengaOnnxApply(node, s->mode == NEAREST ? "Round" : "Floor", place, RENGA_VALUE_NONE, tap));
  if (s->mode != NEAREST) {
    RengaCall(RengaOnnxApply(node, "Sub", place, *tap, &behind));
    RengaCall(WeightsOf(s, behind, weight));
    RengaCall(Vector(s, 1, 1, s->taps, s->mode == CUBIC ? steps : steps + 1, &offsets));
    RengaCall(RengaOnnxApply(node, "Add", *tap, offsets, tap));
  }
  if (s->mode == CUBIC) RengaCall(PutInside(s, size, tap));
  if (s->padding == ZEROS) RengaCall(WithoutOutside(s, size, *tap, weight));
  RengaCall(ClipTo(node, 0, (double)(size - 1), tap));
  RengaCall(RengaOnnxCast(node, *tap, RENGA_INT64, tap));
  return RENGA_SUCCESS;
}

/* [N, P, A] and [N, P, T] to [N, P, A * T], combined element by element. */
static RengaErrorCode Outer(const GridSample *s, const char *op, int64_t a_count, RengaValue a,
                            RengaValue b, RengaValue *y)
{
  RengaOnnxNode *node = s->node;
  const int64_t t = s->taps;
  const RengaTensorSpec column = {.ndim = 4, .dim = {s->batch, s->places, a_count, 1}};
  const RengaTensorSpec row = {.ndim = 4, .dim = {s->batch, s->places, 1, t}};
  const RengaTensorSpec flat = {.ndim = 3, .dim = {s->batch, s->places, a_count * t}};
  RengaCall(RengaOnnxReshape(node, a, &column, &a));
  RengaCall(RengaOnnxReshape(node, b, &row, &b));
  RengaCall(RengaOnnxApply(node, op, a, b, &a));
  RengaCall(RengaOnnxReshape(node, a, &flat, y));
  return RENGA_SUCCESS;
}

/* All taps of a place, as positions in a flat plane, and the products of their weights. */
static RengaErrorCode AllTaps(const GridSample *s, RengaValue grid, RengaValue *position,
                              RengaValue *weight)
{
  RengaOnnxNode *node = s->node;
  RengaValue place, tap, w;
  int64_t count = 1;
  for (int d = 0; d < s->space; d++) {
    RengaCall(PlacesOf(s, grid, d, &place));
    RengaCall(GridTaps(s, d, place, &tap, &w));
    if (d == 0) {
      *position = tap;
      *weight = w;
    } else {
      RengaCall(RengaOnnxApplyReal(node, "Mul", *position, (double)s->size[d], position));
      RengaCall(Outer(s, "Add", count, *position, tap, position));
      if (w != RENGA_VALUE_NONE) RengaCall(Outer(s, "Mul", count, *weight, w, weight));
    }
    count *= s->taps;
  }
  return RENGA_SUCCESS;
}

/* [N, P, 1, all taps] x [N, P, all taps, C] to [N, C, out…] */
static RengaErrorCode SampleAt(const GridSample *s, RengaValue x, RengaValue position,
                               RengaValue weight, RengaValue *y)
{
  static const int64_t swap[] = {0, 2, 1};
  RengaOnnxNode *node = s->node;
  int64_t plane = 1, all = 1;
  for (int d = 0; d < s->space; d++) plane *= s->size[d];
  for (int d = 0; d < s->space; d++) all *= s->taps;
  const RengaTensorSpec flat = {.ndim = 3, .dim = {s->batch, s->channels, plane}};
  const RengaTensorSpec index = {.ndim = 3, .dim = {s->batch, s->places * all, 1}};
  const RengaTensorSpec rows = {.ndim = 4, .dim = {s->batch, s->places, all, s->channels}};
  const RengaTensorSpec columns = {.ndim = 4, .dim = {s->batch, s->places, 1, all}};
  const RengaTensorSpec found = {.ndim = 3, .dim = {s->batch, s->places, s->channels}};
  RengaTensorSpec shape = {.ndim = s->x.ndim, .dim = {s->batch, s->channels}};
  for (int d = 0; d < s->space; d++) shape.dim[d + 2] = s->grid.dim[d + 1];
  RengaCall(RengaOnnxReshape(node, x, &flat, &x));
  RengaCall(RengaOnnxTranspose(node, x, 3, swap, &x));
  RengaCall(RengaOnnxReshape(node, position, &index, &position));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "batch_dims", 1));
  RengaCall(RengaOnnxApply(node, "GatherND", x, position, &x));
  if (weight != RENGA_VALUE_NONE) {
    RengaCall(RengaOnnxReshape(node, x, &rows, &x));
    RengaCall(RengaOnnxReshape(node, weight, &columns, &weight));
    RengaCall(RengaOnnxApply(node, "MatMul", weight, x, &x));
    RengaCall(RengaOnnxReshape(node, x, &found, &x));
  }
  RengaCall(RengaOnnxTranspose(node, x, 3, swap, &x));
  RengaCall(RengaOnnxReshape(node, x, &shape, y));
  return RENGA_SUCCESS;
}

/* Names of modes until opset 19, and since 20. */
static RengaErrorCode ReadSample(GridSample *s)
{
  const RengaOnnxNode *node = s->node;
  const bool newer = node->opset >= 20;
  const char *mode = newer ? "linear" : "bilinear", *cubic = newer ? "cubic" : "bicubic";
  bool is_linear = RengaOnnxString(node, "mode", mode, mode);
  bool is_cubic = RengaOnnxString(node, "mode", cubic, mode);
  bool is_nearest = RengaOnnxString(node, "mode", "nearest", mode);
  bool zeros = RengaOnnxString(node, "padding_mode", "zeros", "zeros");
  bool border = RengaOnnxString(node, "padding_mode", "border", "zeros");
  bool reflection = RengaOnnxString(node, "padding_mode", "reflection", "zeros");
  RengaOnnxCheck(is_linear || is_cubic || is_nearest, node, RENGA_ERR_FILE_FORMAT,
                 "its mode is not known");
  RengaOnnxCheck(zeros || border || reflection, node, RENGA_ERR_FILE_FORMAT,
                 "its padding_mode is not known");
  s->mode = is_linear ? LINEAR : is_cubic ? CUBIC : NEAREST;
  s->taps = s->mode == LINEAR ? 2 : s->mode == CUBIC ? TAPS_MAX : 1;
  s->padding = zeros ? ZEROS : border ? BORDER : REFLECTION;
  s->corners = RengaOnnxInt(node, "align_corners", 0) != 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSample(GridSample *s, RengaValue x, RengaValue grid)
{
  RengaOnnxNode *node = s->node;
  RengaOnnxCheck(x != RENGA_VALUE_NONE && grid != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT,
                 "it needs two inputs");
  s->x = *RengaOnnxSpec(node, x);
  s->grid = *RengaOnnxSpec(node, grid);
  s->space = s->x.ndim - 2;
  RengaOnnxCheck(s->space >= 1 && s->space <= SPACE_MAX && s->grid.ndim == s->x.ndim &&
                     s->grid.dim[s->grid.ndim - 1] == s->space && s->grid.type == s->x.type,
                 node, RENGA_ERR_SHAPE, "tensor and grid do not fit");
  RengaOnnxCheck(RengaOnnxHostHasType(s->x.type), node, RENGA_ERR_SUPPORT, "type %s",
                 RengaDataTypeName(s->x.type));
  RengaOnnxCheck(s->x.dim[0] == s->grid.dim[0], node, RENGA_ERR_SHAPE,
                 "tensor and grid have batches of %lld and %lld", (long long)s->x.dim[0],
                 (long long)s->grid.dim[0]);
  s->batch = s->x.dim[0];
  s->channels = s->x.dim[1];
  s->places = 1;
  for (int d = 0; d < s->space; d++) {
    s->size[d] = s->x.dim[d + 2];
    s->places *= s->grid.dim[d + 1];
    RengaOnnxCheck(s->size[d] > 0 && s->grid.dim[d + 1] > 0, node, RENGA_ERR_SHAPE,
                   "dimension %d is empty, or the batch", d + 2);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGridSample(RengaOnnxNode *node)
{
  GridSample s = {.node = node};
  RengaValue in[2], position = RENGA_VALUE_NONE, weight = RENGA_VALUE_NONE, y;
  for (int i = 0; i < 2; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  RengaCall(RengaOnnxOpenOperands(node, false, 2, in));
  RengaCall(ReadSample(&s));
  RengaCall(CheckSample(&s, in[0], in[1]));
  const RengaTensorSpec places = {.ndim = 3, .dim = {s.batch, s.places, s.space}};
  RengaCall(RengaOnnxReshape(node, in[1], &places, &in[1]));
  RengaCall(AllTaps(&s, in[1], &position, &weight));
  RengaCall(SampleAt(&s, in[0], position, weight, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* ---- AffineGrid: theta [N, space, space + 1] times (x, y, ..., 1) of each place ---- */
static double CentreOf(int64_t i, int64_t size, bool corners)
{
  if (!corners) return (double)(2 * i + 1) / (double)size - 1;
  return size > 1 ? (double)(2 * i) / (double)(size - 1) - 1 : -1;
}

/* [places, space + 1], the last axis first */
static RengaErrorCode PlainGrid(RengaOnnxNode *node, int space, const int64_t size[],
                                RengaValue *grid)
{
  const bool corners = RengaOnnxInt(node, "align_corners", 0) != 0;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {1, space + 1}};
  float *number;
  int64_t count;
  for (int d = 0; d < space; d++) spec.dim[0] *= size[d];
  RengaOnnxCheck(RengaOnnxCount(2, spec.dim, &count), node, RENGA_ERR_FILE_FORMAT, "its size");
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof *number, &number));
  for (int64_t p = 0; p < spec.dim[0]; p++) {
    float *row = number + p * (space + 1);
    for (int64_t d = space - 1, rest = p; d >= 0; rest /= size[d--])
      row[space - 1 - d] = (float)CentreOf(rest % size[d], size[d], corners);
    row[space] = 1;
  }
  RengaCall(RengaOnnxConstant(node, &spec, number, grid));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertAffineGrid(RengaOnnxNode *node)
{
  static const int64_t swap[] = {0, 2, 1};
  const RengaOnnxHost *target;
  int64_t size[SPACE_MAX];
  RengaValue theta, grid, y;
  RengaCall(RengaOnnxInputValue(node, 0, &theta));
  RengaCall(RengaOnnxInputShape(node, 1, &target));
  const int space = (int)target->count - 2;
  RengaOnnxCheck(theta != RENGA_VALUE_NONE && space >= 1 && space <= SPACE_MAX, node,
                 RENGA_ERR_SHAPE, "a size of %lld dimensions", (long long)target->count);
  RengaTensorSpec shape = *RengaOnnxSpec(node, theta);
  RengaOnnxCheck(shape.ndim == 3 && shape.dim[1] == space && shape.dim[2] == space + 1, node,
                 RENGA_ERR_SHAPE, "theta and size do not fit");
  RengaOnnxCheck(shape.type == RENGA_FLOAT32, node, RENGA_ERR_SUPPORT, "type %s",
                 RengaDataTypeName(shape.type));
  for (int d = 0; d < space; d++) {
    size[d] = target->number[d + 2].whole;
    RengaOnnxCheck(size[d] > 0 && target->number[d + 2].batch == 0, node, RENGA_ERR_SHAPE,
                   "dimension %d of the size is %lld, or the batch", d + 2, (long long)size[d]);
    shape.dim[d + 1] = size[d];
  }
  shape.ndim = space + 2;
  shape.dim[space + 1] = space;
  RengaCall(PlainGrid(node, space, size, &grid));
  RengaCall(RengaOnnxTranspose(node, theta, 3, swap, &theta));
  RengaCall(RengaOnnxApply(node, "MatMul", grid, theta, &y));
  RengaCall(RengaOnnxReshape(node, y, &shape, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
