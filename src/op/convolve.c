/* Convolutions and pooling: batch, channels, then spatial dimensions; with channels_last batch,
   spatial dimensions, then channels, of images and not of weights. */
#include "renga/private/op.h"
#include <string.h>

enum { REGION_MAX = 1 << 14 }; /* bins of a region along an axis, and samples of a bin */

/* Channels of x [N, C, …] against a weight [O, C / group, …]. */
static RengaErrorCode CheckGroups(const RengaOpCall *call, const RengaTensorSpec *x,
                                  const RengaTensorSpec *w)
{
  int64_t group = RengaOpCallInt(call, "group");
  RengaOpCheck(w->ndim == x->ndim, call, "the weight has %d dimensions, the input %d", w->ndim,
               x->ndim);
  RengaOpCheckValue(group > 0, call, "group is %lld", (long long)group);
  RengaOpCheck(x->dim[1] % group == 0 && w->dim[1] == x->dim[1] / group, call,
               "%lld channels in %lld groups need weights of %lld channels, not %lld",
               (long long)x->dim[1], (long long)group, (long long)(x->dim[1] / group),
               (long long)w->dim[1]);
  RengaOpCheck(w->dim[0] % group == 0, call, "%lld outputs are no multiple of %lld groups",
               (long long)w->dim[0], (long long)group);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBias(const RengaOpCall *call, int64_t channels)
{
  if (!RengaOpCallHasInput(call, 2)) return RENGA_SUCCESS;
  const RengaTensorSpec *bias = &call->in[2];
  RengaOpCheck(bias->ndim == 1 && bias->dim[0] == channels, call,
               "the bias must have %lld elements", (long long)channels);
  return RENGA_SUCCESS;
}

/* Places of the window along spatial dimension d of an extent; ceil: the last may hang over the end
   (but must begin inside the input or the padding before it). */
static int64_t WindowPlaces(const RengaOpWindow *window, int d, int64_t extent, bool ceil)
{
  int64_t reach = (window->kernel[d] - 1) * window->dilation[d] + 1, stride = window->stride[d];
  int64_t room = extent + window->before[d] + window->after[d] - reach;
  if (room < 0) return 0;
  int64_t places = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (places - 1) * stride >= extent + window->before[d]) places--;
  return places;
}

static RengaErrorCode ConvShape(const RengaOpCall *call, const RengaTensorSpec *x,
                                const RengaTensorSpec *w, RengaTensorSpec *y)
{
  RengaOpWindow window;
  RengaTensorSpec first = RengaOpChannelsFirst_Private(call, x);
  RengaCall(CheckGroups(call, &first, w));
  RengaCall(RengaOpGetWindow(call, x, w, &window));
  first.dim[1] = w->dim[0];
  for (int d = 0; d < window.n; d++) {
    first.dim[2 + d] = WindowPlaces(&window, d, first.dim[2 + d], false);
    RengaOpCheck(first.dim[2 + d] > 0, call, "the kernel is larger than spatial dimension %d", d);
  }
  first = RengaOpChannelsLast_Private(call, &first);
  RengaOpCopyShape(y, &first);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeConv(RengaOpCall *call)
{
  RengaCall(ConvShape(call, &call->in[0], &call->in[1], &call->out[0]));
  RengaCall(CheckBias(call, call->in[1].dim[0]));
  return RENGA_SUCCESS;
}

/* A gradient dy has the shape that convolving x with w gives. */
static RengaErrorCode CheckConv(const RengaOpCall *call, const RengaTensorSpec *x,
                                const RengaTensorSpec *w, const RengaTensorSpec *dy)
{
  RengaTensorSpec y = {0};
  RengaCall(ConvShape(call, x, w, &y));
  RengaOpCheck(RengaOpSameShape(&y, dy), call, "the gradient does not fit the shape given");
  return RENGA_SUCCESS;
}

/* before: a gradient that is added, where there is one */
static RengaErrorCode ConvGradInput(RengaOpCall *call)
{
  RengaCall(CheckConv(call, &call->out[0], &call->in[1], &call->in[0]));
  if (RengaOpCallHasInput(call, 2))
    RengaOpCheck(RengaOpSameShape(&call->in[2], &call->out[0]), call,
                 "what is added does not fit the shape given");
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvGradWeight(RengaOpCall *call)
{
  RengaCall(CheckConv(call, &call->in[0], &call->out[0], &call->in[1]));
  return RENGA_SUCCESS;
}

/* x [N, C, …], w [C, O / group, …] -> y [N, O, …]; the input gradient of a convolution. */
static RengaErrorCode ShapeConvTranspose(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0], *w = &call->in[1];
  RengaTensorSpec *y = &call->out[0];
  int64_t group = RengaOpCallInt(call, "group");
  RengaOpWindow window;
  int n_more;
  RengaOpCheck(w->ndim == x->ndim, call, "the weight has %d dimensions, the input %d", w->ndim,
               x->ndim);
  RengaCall(RengaOpGetWindow(call, x, w, &window));
  RengaOpCheckValue(group > 0 && x->dim[1] % group == 0, call, "%lld channels in %lld groups",
                    (long long)x->dim[1], (long long)group);
  RengaOpCheck(w->dim[0] == x->dim[1], call, "the weight must have %lld rows",
               (long long)x->dim[1]);
  const int64_t *more = RengaOpCallInts(call, "output_padding", &n_more);
  RengaOpCheck(n_more == 0 || n_more == window.n, call, "output_padding has %d values", n_more);
  RengaOpCopyShape(y, x);
  y->dim[1] = w->dim[1] * group;
  for (int d = 0; d < window.n; d++) {
    int64_t reach = (window.kernel[d] - 1) * window.dilation[d] + 1, extra = n_more ? more[d] : 0;
    RengaOpCheck(x->dim[2 + d] > 0 && extra >= 0 && extra <= INT32_MAX, call,
                 "spatial dimension %d: %lld "
                 "elements, output_padding %lld",
                 d, (long long)x->dim[2 + d], (long long)extra);
    y->dim[2 + d] =
        (x->dim[2 + d] - 1) * window.stride[d] + reach + extra - window.before[d] - window.after[d];
    RengaOpCheck(y->dim[2 + d] > 0, call, "spatial dimension %d would have %lld elements", d,
                 (long long)y->dim[2 + d]);
  }
  RengaCall(CheckBias(call, y->dim[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode PoolShape(const RengaOpCall *call, const RengaTensorSpec *x,
                                RengaTensorSpec *y)
{
  RengaOpWindow window;
  RengaTensorSpec first = RengaOpChannelsFirst_Private(call, x);
  RengaCall(RengaOpGetWindow(call, x, NULL, &window));
  bool ceil = RengaOpCallInt(call, "ceil_mode") != 0;
  for (int d = 0; d < window.n; d++) {
    int64_t reach = (window.kernel[d] - 1) * window.dilation[d] + 1;
    RengaOpCheck(window.before[d] >= 0 && window.after[d] >= 0 && window.before[d] < reach &&
                     window.after[d] < reach,
                 call, "pads %lld and %lld of a window of %lld", (long long)window.before[d],
                 (long long)window.after[d], (long long)reach);
    first.dim[2 + d] = WindowPlaces(&window, d, first.dim[2 + d], ceil);
    RengaOpCheck(first.dim[2 + d] > 0, call, "the window is larger than spatial dimension %d", d);
  }
  first = RengaOpChannelsLast_Private(call, &first);
  RengaOpCopyShape(y, &first);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapePool(RengaOpCall *call)
{
  for (int i = 0; i < call->n_out; i++) RengaCall(PoolShape(call, &call->in[0], &call->out[i]));
  return RENGA_SUCCESS;
}

/* dy and the indices of the maxima have one shape; dx is given. */
static RengaErrorCode MaxPoolGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dy = &call->in[0], *index = &call->in[1], *dx = &call->out[0];
  const RengaTensorSpec of_y = RengaOpChannelsFirst_Private(call, dy);
  const RengaTensorSpec of_x = RengaOpChannelsFirst_Private(call, dx);
  RengaOpCheck(RengaOpSameShape(dy, index), call, "gradient and indices differ in shape");
  RengaOpCheck(dx->ndim == dy->ndim && dy->ndim >= 3 && of_x.dim[0] == of_y.dim[0] &&
                   of_x.dim[1] == of_y.dim[1],
               call, "the gradient does not fit the shape given");
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePoolGrad(RengaOpCall *call)
{
  RengaTensorSpec y = {0};
  RengaCall(PoolShape(call, &call->out[0], &y));
  RengaOpCheck(RengaOpSameShape(&y, &call->in[0]), call,
               "the gradient does not fit the shape given");
  return RENGA_SUCCESS;
}

/* Images [N,C,H,W], boxes [R,4], the image of each [R] */
static RengaErrorCode CheckRegions(const RengaOpCall *call, const RengaTensorSpec *x, int boxes)
{
  const RengaTensorSpec *box = &call->in[boxes], *image = &call->in[boxes + 1];
  const char *mode = RengaOpCallString(call, "mode");
  RengaOpCheck(x->ndim == 4 && x->dim[2] > 0 && x->dim[3] > 0, call,
               "the images must be [N,channels,height,width]");
  RengaOpCheck(box->ndim == 2 && box->dim[1] == 4 && image->ndim == 1 &&
                   image->dim[0] == box->dim[0],
               call, "needs boxes [R,4] and the number of the image of each of them [R]");
  RengaOpCheckValue(!*mode || strcmp(mode, "avg") == 0 || strcmp(mode, "max") == 0, call,
                    "mode is %s, must be avg or max", mode);
  for (int i = 0; i < 3; i++) {
    static const char *const name[] = {"output_height", "output_width", "sampling_ratio"};
    const int64_t value = RengaOpCallInt(call, name[i]);
    RengaOpCheckValue(value >= (i < 2) && value <= REGION_MAX, call, "%s is %lld", name[i],
                      (long long)value);
  }
  return RENGA_SUCCESS;
}

static void RegionShape(const RengaOpCall *call, const RengaTensorSpec *x,
                        const RengaTensorSpec *boxes, RengaTensorSpec *y)
{
  y->ndim = 4;
  y->dim[0] = boxes->dim[0];
  y->dim[1] = x->dim[1];
  y->dim[2] = RengaOpCallInt(call, "output_height");
  y->dim[3] = RengaOpCallInt(call, "output_width");
}

static RengaErrorCode ShapeRoiAlign(RengaOpCall *call)
{
  RengaCall(CheckRegions(call, &call->in[0], 1));
  RegionShape(call, &call->in[0], &call->in[1], &call->out[0]);
  return RENGA_SUCCESS;
}

/* dy, boxes, images of boxes, (x, where its maxima are needed) */
static RengaErrorCode RoiAlignGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dx = &call->out[0];
  RengaTensorSpec y = {0};
  RengaCall(CheckRegions(call, dx, 1));
  RegionShape(call, dx, &call->in[1], &y);
  RengaOpCheck(RengaOpSameShape(&y, &call->in[0]), call,
               "the gradient does not fit the shape given");
  RengaOpCheck(RengaOpCallHasInput(call, 3) ? RengaOpSameShape(&call->in[3], dx)
                                            : strcmp(RengaOpCallString(call, "mode"), "max") != 0,
               call, "the gradient of maxima needs the images");
  return RENGA_SUCCESS;
}

/* Every element of y needs the weights of one output channel. */
static double ConvCost(const RengaTensorSpec *y, const RengaTensorSpec *w)
{
  return 2.0 * (double)RengaTensorSpecCount(y) * (double)RengaOpProduct(w, 1, w->ndim);
}

static double ConvFlops(const RengaOpCall *call)
{
  return ConvCost(&call->out[0], &call->in[1]);
}

static double ConvGradInputFlops(const RengaOpCall *call)
{
  return ConvCost(&call->in[0], &call->in[1]);
}

static double ConvGradWeightFlops(const RengaOpCall *call)
{
  return ConvCost(&call->in[1], &call->out[0]);
}

/* The transposed convolution is the input gradient of one whose output is x. */
static double ConvTransposeFlops(const RengaOpCall *call)
{
  return ConvCost(&call->in[0], &call->in[1]);
}

static double PoolFlops(const RengaOpCall *call)
{
  RengaOpWindow window;
  const RengaTensorSpec *x = call->op->flags & RENGA_OP_OUTPUT_GIVEN ? &call->out[0] : &call->in[0];
  const RengaTensorSpec *y = call->op->flags & RENGA_OP_OUTPUT_GIVEN ? &call->in[0] : &call->out[0];
  if (RengaOpGetWindow(call, x, NULL, &window) != RENGA_SUCCESS) return 0;
  double flops = (double)RengaTensorSpecCount(y);
  for (int d = 0; d < window.n; d++) flops *= (double)window.kernel[d];
  return flops;
}

/* Four elements for each sample; an adaptive number of samples is taken for four. */
static double RegionFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *y = call->op->flags & RENGA_OP_OUTPUT_GIVEN ? &call->in[0] : &call->out[0];
  const double ratio = (double)RengaOpCallInt(call, "sampling_ratio");
  return 8 * (ratio > 0 ? ratio * ratio : 4) * (double)RengaTensorSpecCount(y);
}

static double ConvGradientFlops(const RengaOpCall *call)
{
  return (double)RengaTensorSpecCount(&call->in[0]);
}

#define OWN (RENGA_OP_OUTPUT_GIVEN | RENGA_OP_INTERNAL)
#define LAST " channels_last:int=0" /* images are [N,…,C] */
#define CONV "kernel_shape:ints strides:ints pads:ints dilations:ints group:int=1"
#define ROUNDS " rounds:int=0" /* as in matrix.c */
#define POOL "kernel_shape:ints strides:ints pads:ints dilations:ints ceil_mode:int=0"
#define REGION                                                                                     \
  "output_height:int=1 output_width:int=1 sampling_ratio:int=0 spatial_scale:real=1 "              \
  "half_pixel:int=1 mode:string=avg"
#define AVERAGE POOL " count_include_pad:int=0"

const RengaOperator RengaOperatorsConvolve[] = {
    {"Conv", 2, 3, 1, 1, RENGA_OP_PRODUCT, ShapeConv, ConvFlops, CONV ROUNDS LAST, "F>F", NULL},
    {"ConvGradInput", 2, 3, 1, 1, OWN, ConvGradInput, ConvGradInputFlops, CONV ROUNDS LAST, "F>F",
     NULL},
    {"ConvGradWeight", 2, 2, 1, 1, OWN, ConvGradWeight, ConvGradWeightFlops, CONV ROUNDS LAST,
     "F>F", NULL},
    {"ConvTranspose", 2, 3, 1, 1, RENGA_OP_PRODUCT, ShapeConvTranspose, ConvTransposeFlops,
     CONV " output_padding:ints", "F>F", NULL},
    {"MaxPool", 1, 1, 1, 2, 0, ShapePool, PoolFlops, POOL LAST, "N>NL", NULL},
    {"MaxPoolGrad", 2, 2, 1, 1, OWN, MaxPoolGrad, ConvGradientFlops, POOL LAST, "FL>F", NULL},
    {"AveragePool", 1, 1, 1, 1, 0, ShapePool, PoolFlops, AVERAGE LAST, "F>F", NULL},
    {"AveragePoolGrad", 1, 1, 1, 1, OWN, AveragePoolGrad, PoolFlops, AVERAGE LAST, "F>F", NULL},
    {"RoiAlign", 3, 3, 1, 1, 0, ShapeRoiAlign, RegionFlops, REGION, "FFI>F", NULL},
    {"RoiAlignGrad", 3, 4, 1, 1, OWN, RoiAlignGrad, RegionFlops, REGION, "FFIF>F", NULL},
    {0},
};
