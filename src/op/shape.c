/* What the shape rules of several families share: axes, broadcasting, slices, windows. */
#include "renga/private/op.h"
#include <string.h>

void RengaOpCopyShape(RengaTensorSpec *to, const RengaTensorSpec *from)
{
  RengaDataType type = to->type;
  *to = *from;
  to->type = type;
}

bool RengaOpSameShape(const RengaTensorSpec *a, const RengaTensorSpec *b)
{
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->dim[d] != b->dim[d]) return false;
  return true;
}

int64_t RengaOpProduct(const RengaTensorSpec *spec, int first, int last)
{
  RengaTensorSpec part = {.ndim = last > first ? last - first : 0};
  for (int d = 0; d < part.ndim; d++) part.dim[d] = spec->dim[first + d];
  return RengaTensorSpecCount(&part);
}

/* y becomes the shape that y and x broadcast to; dimensions are matched from the last one. */
RengaErrorCode RengaOpBroadcast(const RengaOpCall *call, const RengaTensorSpec *x,
                                RengaTensorSpec *y)
{
  RengaTensorSpec wide = *y;
  wide.ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
  for (int d = 1; d <= wide.ndim; d++) { /* counted from the end */
    int64_t a = d <= x->ndim ? x->dim[x->ndim - d] : 1;
    int64_t b = d <= y->ndim ? y->dim[y->ndim - d] : 1;
    RengaOpCheck(a == b || a == 1 || b == 1, call,
                 "shapes do not broadcast: %lld against %lld in dimension %d from the end",
                 (long long)b, (long long)a, d);
    wide.dim[wide.ndim - d] = a == 1 ? b : a;
  }
  *y = wide;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOpAxis(const RengaOpCall *call, const char *name, int ndim, int *axis)
{
  int64_t value = RengaOpCallInt(call, name);
  RengaOpCheck(value >= -ndim && value < ndim, call, "%s %lld of a tensor with %d dimensions", name,
               (long long)value, ndim);
  *axis = (int)(value < 0 ? value + ndim : value);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOpAxes(const RengaOpCall *call, int ndim, bool chosen[RENGA_MAX_DIM])
{
  int count;
  const int64_t *axes = RengaOpCallInts(call, "axes", &count);
  bool all = count == 0 && !RengaOpCallInt(call, "noop_with_empty_axes");
  for (int d = 0; d < RENGA_MAX_DIM; d++) chosen[d] = all && d < ndim;
  for (int i = 0; i < count; i++) {
    RengaOpCheck(axes[i] >= -ndim && axes[i] < ndim, call,
                 "axis %lld of a tensor with %d dimensions", (long long)axes[i], ndim);
    chosen[axes[i] < 0 ? axes[i] + ndim : axes[i]] = true;
  }
  return RENGA_SUCCESS;
}

static int64_t Clamp(int64_t value, int64_t low, int64_t high)
{
  return value < low ? low : value > high ? high : value;
}

/* ONNX: out-of-range starts and ends are clamped; counted from the end where negative. */
static void SliceDimension(int64_t extent, int64_t start, int64_t end, int64_t step, int64_t *begin,
                           int64_t *count)
{
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (step > 0) {
    start = Clamp(start, 0, extent);
    end = Clamp(end, 0, extent);
    *count = end > start ? (end - start - 1) / step + 1 : 0;
  } else {
    start = Clamp(start, 0, extent - 1);
    end = Clamp(end, -1, extent - 1);
    *count = extent > 0 && start > end ? (start - end - 1) / -step + 1 : 0;
  }
  *begin = start;
}

RengaErrorCode RengaOpGetSlice(const RengaOpCall *call, const RengaTensorSpec *x,
                               RengaOpSlice *slice)
{
  int n, n_ends, n_axes, n_steps;
  const int64_t *starts = RengaOpCallInts(call, "starts", &n);
  const int64_t *ends = RengaOpCallInts(call, "ends", &n_ends);
  const int64_t *axes = RengaOpCallInts(call, "axes", &n_axes);
  const int64_t *steps = RengaOpCallInts(call, "steps", &n_steps);
  RengaOpCheck(n_ends == n && (n_axes == n || (n_axes == 0 && n <= x->ndim)) &&
                   (n_steps == n || n_steps == 0),
               call, "%d starts, %d ends, %d axes, %d steps", n, n_ends, n_axes, n_steps);
  for (int d = 0; d < x->ndim; d++) {
    slice->begin[d] = 0;
    slice->step[d] = 1;
    slice->count[d] = x->dim[d];
  }
  for (int i = 0; i < n; i++) {
    int64_t axis = n_axes ? axes[i] : i, step = n_steps ? steps[i] : 1;
    RengaOpCheck(axis >= -x->ndim && axis < x->ndim, call,
                 "axis %lld of a tensor with %d dimensions", (long long)axis, x->ndim);
    RengaOpCheck(step != 0 && step > -INT64_MAX, call, "step %lld on axis %lld", (long long)step,
                 (long long)axis);
    if (axis < 0) axis += x->ndim;
    slice->step[axis] = step;
    SliceDimension(x->dim[axis], starts[i], ends[i], step, &slice->begin[axis],
                   &slice->count[axis]);
  }
  return RENGA_SUCCESS;
}

/* pads: all befores, then all afters, one of each per axis (axes absent: all axes). */
RengaErrorCode RengaOpGetPad(const RengaOpCall *call, int ndim, RengaOpPad *pad)
{
  int n_pads, n_axes;
  const int64_t *pads = RengaOpCallInts(call, "pads", &n_pads);
  const int64_t *axes = RengaOpCallInts(call, "axes", &n_axes);
  int n = n_axes ? n_axes : ndim;
  RengaOpCheck(n_pads == 2 * n, call, "%d pads for %d axes; a before and an after each are needed",
               n_pads, n);
  memset(pad, 0, sizeof *pad);
  for (int i = 0; i < n; i++) {
    int64_t axis = n_axes ? axes[i] : i;
    RengaOpCheck(axis >= -ndim && axis < ndim, call, "axis %lld of a tensor with %d dimensions",
                 (long long)axis, ndim);
    if (axis < 0) axis += ndim;
    for (int k = i; k < 2 * n; k += n)
      RengaOpCheck(pads[k] >= -INT32_MAX && pads[k] <= INT32_MAX, call, "pads[%d] is %lld", k,
                   (long long)pads[k]);
    pad->before[axis] = pads[i];
    pad->after[axis] = pads[n + i];
  }
  return RENGA_SUCCESS;
}

/* An ints attribute with one value per spatial dimension; otherwise where it is absent. */
static RengaErrorCode SpatialInts(const RengaOpCall *call, const char *name, int n, int64_t low,
                                  int64_t otherwise, int64_t to[])
{
  int count;
  const int64_t *values = RengaOpCallInts(call, name, &count);
  RengaOpCheck(count == 0 || count == n, call, "%s has %d values for %d spatial dimensions", name,
               count, n);
  for (int d = 0; d < n; d++) {
    to[d] = count ? values[d] : otherwise;
    RengaOpCheck(to[d] >= low && to[d] <= INT32_MAX, call, "%s is %lld in spatial dimension %d",
                 name, (long long)to[d], d);
  }
  return RENGA_SUCCESS;
}

static bool InRange(int64_t pad)
{
  return pad >= -INT32_MAX && pad <= INT32_MAX;
}

RengaTensorSpec RengaOpChannelsFirst_Private(const RengaOpCall *call, const RengaTensorSpec *image)
{
  RengaTensorSpec first = *image;
  if (!RengaOpIsLast_Private(call) || image->ndim < 3) return first;
  first.dim[1] = image->dim[image->ndim - 1];
  for (int d = 2; d < image->ndim; d++) first.dim[d] = image->dim[d - 1];
  return first;
}

RengaTensorSpec RengaOpChannelsLast_Private(const RengaOpCall *call, const RengaTensorSpec *image)
{
  RengaTensorSpec last = *image;
  if (!RengaOpIsLast_Private(call) || image->ndim < 3) return last;
  for (int d = 2; d < image->ndim; d++) last.dim[d - 1] = image->dim[d];
  last.dim[image->ndim - 1] = image->dim[1];
  return last;
}

RengaErrorCode RengaOpGetWindow(const RengaOpCall *call, const RengaTensorSpec *x,
                                const RengaTensorSpec *weight, RengaOpWindow *window)
{
  RengaOpCheck(x->ndim >= 3, call, "needs a batch, a channel and at least one spatial dimension");
  int n = x->ndim - 2, n_pads;
  memset(window, 0, sizeof *window);
  window->n = n;
  RengaCall(SpatialInts(call, "strides", n, 1, 1, window->stride));
  RengaCall(SpatialInts(call, "dilations", n, 1, 1, window->dilation));
  RengaCall(SpatialInts(call, "kernel_shape", n, 0, 0, window->kernel));
  for (int d = 0; d < n; d++) {
    int64_t extent = weight ? weight->dim[2 + d] : window->kernel[d];
    RengaOpCheck(extent > 0, call, "the kernel has no extent in spatial dimension %d", d);
    RengaOpCheck(window->kernel[d] == 0 || window->kernel[d] == extent, call,
                 "kernel_shape says %lld, the weight %lld in spatial dimension %d",
                 (long long)window->kernel[d], (long long)extent, d);
    window->kernel[d] = extent;
  }
  const int64_t *pads = RengaOpCallInts(call, "pads", &n_pads);
  RengaOpCheck(n_pads == 0 || n_pads == 2 * n, call, "%d pads for %d spatial dimensions", n_pads,
               n);
  for (int d = 0; d < n && n_pads; d++) {
    window->before[d] = pads[d];
    window->after[d] = pads[n + d];
    RengaOpCheck(InRange(pads[d]) && InRange(pads[n + d]), call,
                 "pads %lld and %lld in spatial dimension %d", (long long)pads[d],
                 (long long)pads[n + d], d);
  }
  return RENGA_SUCCESS;
}
