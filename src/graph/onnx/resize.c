/* Resize and Upsample. Along each axis they are a linear map with constant weights: rows that are
   gathered (nearest), or a product with a matrix [in, out] (linear, cubic). The gradients of these
   are theirs. */
#include "onnx.h"
#include <math.h>
#include <string.h>

/* One axis: `scale` as the file gives it, or out / in; start and end: of tf_crop_and_resize. */
typedef struct {
  int64_t in, out;
  double scale, start, end;
} ResizeAxis;
typedef double Origin(const ResizeAxis *line, double i);   /* the place in x of element i of y */
typedef enum { NEAREST = 0, LINEAR = 1, CUBIC = 2 } Reach; /* elements on either side */
typedef struct {
  RengaOnnxNode *node;
  Origin *origin;
  Reach reach;
  bool crop, antialias, exclude;
  double cubic, outside;
  int ndim;
  ResizeAxis line[RENGA_MAX_DIM];
} Resize;

enum { WEIGHTS_MAX = 1 << 24 }; /* of one axis: what a few bytes of a file can make us allocate */

static double HalfPixel(const ResizeAxis *line, double i)
{
  return (i + 0.5) / line->scale - 0.5;
}
static double HalfPixelSymmetric(const ResizeAxis *line, double i)
{
  double exact = line->scale * (double)line->in, center = (double)line->in / 2;
  return center * (1 - (double)line->out / exact) + HalfPixel(line, i);
}
static double PytorchHalfPixel(const ResizeAxis *line, double i)
{
  return line->scale * (double)line->in == 1 ? -0.5 : HalfPixel(line, i);
}
static double HalfPixelForNearest(const ResizeAxis *line, double i)
{
  return (i + 0.5) / line->scale;
}
static double AlignCorners(const ResizeAxis *line, double i)
{
  double exact = line->scale * (double)line->in;
  return exact == 1 ? 0 : i * (double)(line->in - 1) / (exact - 1);
}
static double Asymmetric(const ResizeAxis *line, double i)
{
  return i / line->scale;
}
static double Crop(const ResizeAxis *line, double i)
{
  double last = (double)(line->in - 1), part = (line->end - line->start) * last;
  double exact = line->scale * (double)line->in;
  return line->start * last + (exact == 1 ? part / 2 : i * part / (exact - 1));
}

static const struct {
  const char *name;
  Origin *origin;
} origins[] = {
    {"half_pixel", HalfPixel},
    {"half_pixel_symmetric", HalfPixelSymmetric},
    {"pytorch_half_pixel", PytorchHalfPixel},
    {"tf_half_pixel_for_nn", HalfPixelForNearest},
    {"align_corners", AlignCorners},
    {"asymmetric", Asymmetric},
    {"tf_crop_and_resize", Crop},
};
enum { N_ORIGINS = sizeof origins / sizeof origins[0] };

static RengaErrorCode ReadModes(Resize *r)
{
  RengaOnnxNode *node = r->node;
  bool old = node->opset < 11 || strcmp(node->proto->op_type, "Upsample") == 0;
  const char *otherwise = old ? "asymmetric" : "half_pixel";
  for (int i = 0; i < N_ORIGINS; i++)
    if (RengaOnnxString(node, "coordinate_transformation_mode", origins[i].name, otherwise))
      r->origin = origins[i].origin;
  RengaOnnxCheck(r->origin, node, RENGA_ERR_FILE_FORMAT,
                 "coordinate_transformation_mode is none that ONNX knows");
  bool linear = RengaOnnxString(node, "mode", "linear", "nearest");
  bool cubic = RengaOnnxString(node, "mode", "cubic", "nearest");
  r->reach = linear ? LINEAR : cubic ? CUBIC : NEAREST;
  RengaOnnxCheck(linear || cubic || RengaOnnxString(node, "mode", "nearest", "nearest"), node,
                 RENGA_ERR_FILE_FORMAT, "mode must be nearest, linear or cubic");
  r->crop = r->origin == Crop;
  r->antialias = RengaOnnxInt(node, "antialias", 0) != 0;
  r->exclude = RengaOnnxInt(node, "exclude_outside", 0) != 0;
  r->cubic = RengaOnnxReal(node, "cubic_coeff_a", -0.75);
  r->outside = RengaOnnxReal(node, "extrapolation_value", 0);
  return RENGA_SUCCESS;
}

/* Which axes the numbers are for: all, or those of an attribute (opset 18). */
static RengaErrorCode ReadResizedAxes(Resize *r, int *count, int axis[])
{
  int64_t axes[2 * RENGA_MAX_DIM];
  RengaCall(RengaOnnxInts(r->node, "axes", count, axes));
  RengaOnnxCheck(*count <= r->ndim, r->node, RENGA_ERR_FILE_FORMAT, "%d axes", *count);
  for (int i = 0; i < *count; i++) RengaCall(RengaOnnxAxis(r->node, axes[i], r->ndim, &axis[i]));
  if (*count >= 0) return RENGA_SUCCESS;
  *count = r->ndim;
  for (int i = 0; i < r->ndim; i++) axis[i] = i;
  return RENGA_SUCCESS;
}

/* One number for each axis, or `more` of them. */
static RengaErrorCode ReadResizeNumbers(Resize *r, int input, int count, const RengaOnnxHost **host)
{
  *host = NULL;
  if (!RengaOnnxHasInput(r->node, input)) return RENGA_SUCCESS;
  const RengaOnnxHost *found;
  RengaCall(RengaOnnxInputHost(r->node, input, &found));
  if (found->count == 0) return RENGA_SUCCESS;
  RengaOnnxCheck(found->count == count, r->node, RENGA_ERR_FILE_FORMAT,
                 "input %d has %lld numbers for %d", input, (long long)found->count, count);
  *host = found;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeScale(Resize *r, int axis, double scale)
{
  ResizeAxis *line = &r->line[axis];
  RengaOnnxCheck(scale > 0 && scale < 1e6 && (line->in >= 0 || scale == 1), r->node,
                 RENGA_ERR_SUPPORT, "dimension %d (%lld) is scaled by %g", axis,
                 (long long)line->in, scale);
  line->scale = scale;
  if (line->in >= 0) line->out = (int64_t)floor((double)line->in * scale);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeSize(Resize *r, int axis, const RengaOnnxNumber *size)
{
  ResizeAxis *line = &r->line[axis];
  const int64_t batch = r->node->importer->file_batch;
  if (line->in < 0) {
    RengaOnnxCheck(size->batch == -line->in || size->whole == -line->in * batch, r->node,
                   RENGA_ERR_SUPPORT, "the dimension of the batch is resized");
    return RENGA_SUCCESS;
  }
  RengaOnnxCheck(size->batch == 0 && size->whole > 0 && size->whole < (1 << 30) && line->in > 0,
                 r->node, RENGA_ERR_FILE_FORMAT, "dimension %d is resized from %lld to %lld", axis,
                 (long long)line->in, (long long)size->whole);
  line->out = size->whole;
  line->scale = (double)line->out / (double)line->in;
  return RENGA_SUCCESS;
}

/* One scale for all axes: the least or the largest that the sizes ask for. */
static RengaErrorCode KeepAspect(Resize *r, int count, const int axis[])
{
  bool larger = RengaOnnxString(r->node, "keep_aspect_ratio_policy", "not_smaller", "stretch");
  bool smaller = RengaOnnxString(r->node, "keep_aspect_ratio_policy", "not_larger", "stretch");
  if (!larger && !smaller) return RENGA_SUCCESS;
  double scale = r->line[axis[0]].scale;
  for (int i = 1; i < count; i++) {
    double own = r->line[axis[i]].scale;
    if (larger ? own > scale : own < scale) scale = own;
  }
  for (int i = 0; i < count; i++) {
    ResizeAxis *line = &r->line[axis[i]];
    RengaOnnxCheck(line->in >= 0, r->node, RENGA_ERR_SUPPORT, "the batch is resized");
    line->scale = scale;
    line->out = (int64_t)floor(scale * (double)line->in + 0.5);
  }
  return RENGA_SUCCESS;
}

/* Until opset 9 scales are an attribute. */
static RengaErrorCode ReadOldScales(Resize *r)
{
  const Onnx__AttributeProto *scales = RengaOnnxAttribute(r->node, "scales");
  RengaOnnxCheck(scales && scales->n_floats == (size_t)r->ndim, r->node, RENGA_ERR_FILE_FORMAT,
                 "it needs a scale for each of %d dimensions", r->ndim);
  for (int d = 0; d < r->ndim; d++) RengaCall(TakeScale(r, d, (double)scales->floats[d]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadResizeLines(Resize *r, const RengaTensorSpec *x)
{
  RengaOnnxNode *node = r->node;
  const bool old = node->opset < 11 || strcmp(node->proto->op_type, "Upsample") == 0;
  const RengaOnnxHost *scales, *sizes = NULL, *roi = NULL;
  int count = 0, axis[RENGA_MAX_DIM];
  r->ndim = x->ndim;
  for (int d = 0; d < x->ndim; d++)
    r->line[d] = (ResizeAxis){.in = x->dim[d], .out = x->dim[d], .scale = 1, .end = 1};
  if (node->opset < 9) return ReadOldScales(r);
  RengaCall(ReadResizedAxes(r, &count, axis));
  RengaCall(ReadResizeNumbers(r, old ? 1 : 2, count, &scales));
  if (!old) RengaCall(ReadResizeNumbers(r, 3, count, &sizes));
  if (!old && r->crop) RengaCall(ReadResizeNumbers(r, 1, 2 * count, &roi));
  RengaOnnxCheck((scales != NULL) != (sizes != NULL) && (!r->crop || roi) && count > 0, node,
                 RENGA_ERR_FILE_FORMAT,
                 "either scales or sizes are needed, and for a crop its roi");
  for (int i = 0; i < count; i++) {
    if (scales)
      RengaCall(TakeScale(r, axis[i], scales->number[i].real));
    else
      RengaCall(TakeSize(r, axis[i], &sizes->number[i]));
    if (!roi) continue;
    r->line[axis[i]].start = roi->number[i].real;
    r->line[axis[i]].end = roi->number[count + i].real;
  }
  if (sizes) RengaCall(KeepAspect(r, count, axis));
  return RENGA_SUCCESS;
}

static int64_t Inside(const ResizeAxis *line, int64_t i)
{
  return i < 0 ? 0 : i >= line->in ? line->in - 1 : i;
}

static bool IsOutside(const Resize *r, const ResizeAxis *line, double place)
{
  return r->crop && (place < 0 || place > (double)(line->in - 1));
}

/* The element before the place, by less than 1 or by exactly 1, is `base`. */
static int64_t NearestTo(const Resize *r, const ResizeAxis *line, double place)
{
  const RengaOnnxNode *node = r->node;
  const bool old = node->opset < 11 || strcmp(node->proto->op_type, "Upsample") == 0;
  const char *otherwise = old ? "floor" : "round_prefer_floor";
  double base = ceil(place) - 1, ratio = place - base;
  bool after =
      ratio == 1 || RengaOnnxString(node, "nearest_mode", "ceil", otherwise) ||
      (RengaOnnxString(node, "nearest_mode", "round_prefer_floor", otherwise) && ratio > 0.5) ||
      (RengaOnnxString(node, "nearest_mode", "round_prefer_ceil", otherwise) && ratio >= 0.5);
  return Inside(line, (int64_t)base + after);
}

static RengaErrorCode GatherNearest(const Resize *r, int axis, RengaValue *x)
{
  const ResizeAxis *line = &r->line[axis];
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {line->out}};
  int64_t *index;
  RengaValue indices;
  RengaCall(RengaOnnxAllocate(r->node->importer, line->out, sizeof *index, &index));
  for (int64_t i = 0; i < line->out; i++) {
    double place = r->origin(line, (double)i);
    index[i] = IsOutside(r, line, place) ? 0 : NearestTo(r, line, place);
  }
  RengaCall(RengaOnnxConstant(r->node, &spec, index, &indices));
  RengaCall(RengaAttributesSetInt(&r->node->importer->attributes, "axis", axis));
  RengaCall(RengaOnnxApply(r->node, "Gather", *x, indices, x));
  return RENGA_SUCCESS;
}

/* A triangle, or the cubic of Keys (1981) with parameter a. */
static double Kernel(const Resize *r, double x)
{
  const double a = r->cubic;
  x = fabs(x);
  if (r->reach == LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Weights of the elements of x for place i of y: row[k * step]. Outside they are 0. */
static void FillWeights(const Resize *r, const ResizeAxis *line, int64_t i, int64_t step,
                        double row[])
{
  const double place = r->origin(line, (double)i), base = ceil(place) - 1;
  const double stretch = r->antialias && line->scale < 1 ? line->scale : 1;
  const int64_t first = (int64_t)floor(-(double)r->reach / stretch) + 1;
  double sum = 0;
  if (IsOutside(r, line, place)) return;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t k = first; k < 2 - first; k++) {
      const int64_t at = (int64_t)base + k;
      if (r->exclude && at != Inside(line, at)) continue;
      const double weight = Kernel(r, stretch * ((double)k - (place - base)));
      if (pass == 0)
        sum += weight;
      else
        row[Inside(line, at) * step] += weight / sum;
    }
}

/* [in, out], or for a product from the left [out, in] */
static RengaErrorCode WeightMatrix(const Resize *r, const ResizeAxis *line, RengaDataType type,
                                   bool left, RengaValue *value)
{
  RengaTensorSpec spec = {.type = type, .ndim = 2, .dim = {line->in, line->out}};
  int64_t count;
  double *wide;
  float *narrow;
  if (left) spec.dim[0] = line->out, spec.dim[1] = line->in;
  RengaOnnxCheck(RengaOnnxCount(2, spec.dim, &count) && count <= WEIGHTS_MAX, r->node,
                 RENGA_ERR_SUPPORT, "%lld x %lld weights", (long long)line->in,
                 (long long)line->out);
  RengaCall(RengaOnnxAllocate(r->node->importer, count, sizeof *wide, &wide));
  RengaCall(RengaOnnxAllocate(r->node->importer, count, sizeof *narrow, &narrow));
  for (int64_t i = 0; i < line->out; i++)
    FillWeights(r, line, i, left ? 1 : line->out, wide + (left ? i * line->in : i));
  for (int64_t k = 0; k < count; k++) narrow[k] = (float)wide[k];
  const void *data = type == RENGA_FLOAT64 ? (const void *)wide : narrow;
  RengaCall(RengaOnnxConstant(r->node, &spec, data, value));
  return RENGA_SUCCESS;
}

/* The last axis from the right, the one before from the left, others by way of the last. */
static RengaErrorCode Interpolate(const Resize *r, int axis, RengaValue *x)
{
  const RengaDataType type = RengaOnnxSpec(r->node, *x)->type;
  const int last = r->ndim - 1;
  const bool left = last > 0 && axis == last - 1, moved = !left && axis != last;
  int64_t order[RENGA_MAX_DIM];
  RengaValue weights;
  RengaOnnxCheck(type == RENGA_FLOAT32 || type == RENGA_FLOAT64, r->node, RENGA_ERR_SUPPORT,
                 "interpolation of type %s", RengaDataTypeName(type));
  RengaCall(WeightMatrix(r, &r->line[axis], type, left, &weights));
  for (int d = 0; d < r->ndim; d++) order[d] = d == axis ? last : d == last ? axis : d;
  if (moved) RengaCall(RengaOnnxTranspose(r->node, *x, r->ndim, order, x));
  RengaCall(RengaOnnxApply(r->node, "MatMul", left ? weights : *x, left ? *x : weights, x));
  if (moved) RengaCall(RengaOnnxTranspose(r->node, *x, r->ndim, order, x));
  return RENGA_SUCCESS;
}

static bool ComesFromOutside(const Resize *r, int axis, int64_t i)
{
  const ResizeAxis *line = &r->line[axis];
  return line->in > 0 && IsOutside(r, line, r->origin(line, (double)i));
}

/* The shape of y along the axes that are cropped and reach outside, 1 along others. */
static bool OutsideShape(const Resize *r, RengaTensorSpec *spec)
{
  bool found = false;
  *spec = (RengaTensorSpec){.type = RENGA_BOOL, .ndim = r->ndim};
  for (int d = 0; d < r->ndim; d++) {
    bool outside = false;
    for (int64_t i = 0; r->crop && i < r->line[d].out && !outside; i++)
      outside = ComesFromOutside(r, d, i);
    spec->dim[d] = outside ? r->line[d].out : 1;
    found = found || outside;
  }
  return found;
}

/* extrapolation_value where the crop reaches outside along an axis. Weights there are 0. */
static RengaErrorCode PutOutside(const Resize *r, RengaValue *x)
{
  RengaTensorSpec spec, scalar = {.type = RengaOnnxSpec(r->node, *x)->type};
  RengaValue in[3] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, *x};
  bool *outside;
  int64_t count;
  if (!OutsideShape(r, &spec) || (r->outside == 0 && r->reach != NEAREST)) return RENGA_SUCCESS;
  RengaOnnxCheck(RengaOnnxCount(r->ndim, spec.dim, &count) && count <= WEIGHTS_MAX, r->node,
                 RENGA_ERR_SUPPORT, "a crop of more than %d elements that reaches outside",
                 WEIGHTS_MAX);
  RengaCall(RengaOnnxAllocate(r->node->importer, count, sizeof *outside, &outside));
  for (int64_t i = 0; i < count; i++)
    for (int64_t d = r->ndim - 1, rest = i; d >= 0; rest /= spec.dim[d--])
      outside[i] = outside[i] || ComesFromOutside(r, (int)d, rest % spec.dim[d]);
  RengaCall(RengaOnnxConstant(r->node, &spec, outside, &in[0]));
  RengaCall(RengaOnnxScalar(r->node, scalar.type, r->outside, &in[1]));
  RengaCall(RengaOnnxEmit(r->node, "Where", 3, in, 1, NULL, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertResize(RengaOnnxNode *node)
{
  Resize r = {.node = node};
  RengaValue x;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaCall(ReadModes(&r));
  RengaCall(ReadResizeLines(&r, RengaOnnxSpec(node, x)));
  for (int d = 0; d < r.ndim; d++) {
    const ResizeAxis *line = &r.line[d];
    bool same = line->in == line->out && (line->in < 0 || (line->scale == 1 && !r.crop));
    if (same) continue;
    RengaOnnxCheck(line->in > 0 && line->out > 0, node, RENGA_ERR_SHAPE,
                   "dimension %d is resized from %lld to %lld", d, (long long)line->in,
                   (long long)line->out);
    if (r.reach == NEAREST)
      RengaCall(GatherNearest(&r, d, &x));
    else
      RengaCall(Interpolate(&r, d, &x));
  }
  RengaCall(PutOutside(&r, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}
