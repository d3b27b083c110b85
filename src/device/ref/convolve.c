/* Convolutions with any number of spatial dimensions, as the sums of their definition. */
#include "ref.h"

int64_t RefInputPlace(const RengaOpWindow *window, const int64_t index[], const int64_t tap[],
                      const int64_t in_dim[])
{
  int64_t place = 0;
  for (int d = 0; d < window->n; d++) {
    int64_t i = index[d] * window->stride[d] + tap[d] * window->dilation[d] - window->before[d];
    if (i < 0 || i >= in_dim[d]) return -1;
    place = place * in_dim[d] + i;
  }
  return place;
}

int64_t RefOutputPlace(const RengaOpWindow *window, const int64_t index[], const int64_t tap[],
                       const int64_t out_dim[])
{
  int64_t place = 0;
  for (int d = 0; d < window->n; d++) {
    int64_t i = index[d] + window->before[d] - tap[d] * window->dilation[d];
    if (i < 0 || i % window->stride[d] != 0 || i / window->stride[d] >= out_dim[d]) return -1;
    place = place * out_dim[d] + i / window->stride[d];
  }
  return place;
}

/* x [batch, groups, in, in_plane], w [groups, out, in, taps], y [batch, groups, out, out_plane] */
typedef struct {
  int64_t batch, groups, in, out, in_plane, out_plane, taps;
  const int64_t *in_dim, *out_dim;
  RengaOpWindow window;
} Convolution_Ref;

static RengaErrorCode ConvOf(const RengaOpCall *call, const RengaTensorSpec *x,
                             const RengaTensorSpec *w, const RengaTensorSpec *y,
                             Convolution_Ref *conv)
{
  RengaCall(RengaOpGetWindow(call, x, w, &conv->window));
  conv->batch = x->dim[0];
  conv->groups = RengaOpCallInt(call, "group");
  conv->in = w->dim[1];
  conv->out = w->dim[0] / conv->groups;
  conv->in_dim = x->dim + 2;
  conv->out_dim = y->dim + 2;
  conv->in_plane = RengaOpProduct(x, 2, x->ndim);
  conv->out_plane = RengaOpProduct(y, 2, y->ndim);
  conv->taps = RengaOpProduct(w, 2, w->ndim);
  return RENGA_SUCCESS;
}

/* y at one channel and index: over all taps, the dot product over the channels of the group. */
static double OutputSum(const Convolution_Ref *conv, RefIn x, RefIn w, int64_t n, int64_t channel,
                        const int64_t index[])
{
  double sum = 0;
  int64_t group = channel / conv->out;
  int64_t x_at = (n * conv->groups + group) * conv->in * conv->in_plane;
  RefWalk tap;
  RefWalkStart(&tap, conv->window.n, conv->window.kernel);
  for (int64_t t = 0; t < conv->taps; t++, RefWalkNext(&tap)) {
    int64_t place = RefInputPlace(&conv->window, index, tap.index, conv->in_dim);
    if (place >= 0)
      sum += RefDot(x, x_at + place, conv->in_plane, w, channel * conv->in * conv->taps + t,
                    conv->taps, conv->in);
  }
  return sum;
}

static RengaErrorCode Conv_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0), w = RefInput(call, in, 1), bias = RefInput(call, in, 2);
  RefOut y = RefOutput(call, out, 0);
  Convolution_Ref conv;
  RengaCall(ConvOf(call, &call->in[0], &call->in[1], &call->out[0], &conv));
  int64_t i = 0;
  for (int64_t n = 0; n < conv.batch; n++)
    for (int64_t o = 0; o < conv.groups * conv.out; o++) {
      RefWalk walk;
      RefWalkStart(&walk, conv.window.n, conv.out_dim);
      for (int64_t p = 0; p < conv.out_plane; p++, RefWalkNext(&walk)) {
        double sum = OutputSum(&conv, x, w, n, o, walk.index);
        RefSet(y, i++, bias.data ? sum + RefGet(bias, o) : sum);
      }
    }
  return RENGA_SUCCESS;
}

/* dx at one channel of one group and index: all outputs that read it. */
static double InputSum(const Convolution_Ref *conv, RefIn dy, RefIn w, int64_t n, int64_t channel,
                       const int64_t index[])
{
  double sum = 0;
  int64_t group = channel / conv->in, c = channel % conv->in;
  int64_t dy_at = (n * conv->groups + group) * conv->out * conv->out_plane;
  int64_t w_at = (group * conv->out * conv->in + c) * conv->taps;
  RefWalk tap;
  RefWalkStart(&tap, conv->window.n, conv->window.kernel);
  for (int64_t t = 0; t < conv->taps; t++, RefWalkNext(&tap)) {
    int64_t place = RefOutputPlace(&conv->window, index, tap.index, conv->out_dim);
    if (place >= 0)
      sum +=
          RefDot(dy, dy_at + place, conv->out_plane, w, w_at + t, conv->in * conv->taps, conv->out);
  }
  return sum;
}

/* bias, before: data NULL where there is none */
static void ConvInputGradient_Ref(const Convolution_Ref *conv, RefIn dy, RefIn w, RefIn bias,
                                  RefIn before, RefOut dx)
{
  int64_t i = 0;
  for (int64_t n = 0; n < conv->batch; n++)
    for (int64_t c = 0; c < conv->groups * conv->in; c++) {
      RefWalk walk;
      RefWalkStart(&walk, conv->window.n, conv->in_dim);
      for (int64_t p = 0; p < conv->in_plane; p++, RefWalkNext(&walk)) {
        double sum = InputSum(conv, dy, w, n, c, walk.index);
        if (bias.data) sum += RefGet(bias, c);
        RefSet(dx, i, before.data ? sum + RefGet(before, i) : sum);
        i++;
      }
    }
}

static RengaErrorCode ConvGradInput_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  Convolution_Ref conv;
  RengaCall(ConvOf(call, &call->out[0], &call->in[1], &call->in[0], &conv));
  ConvInputGradient_Ref(&conv, RefInput(call, in, 0), RefInput(call, in, 1),
                        (RefIn){NULL, RENGA_FLOAT32}, RefInput(call, in, 2),
                        RefOutput(call, out, 0));
  return RENGA_SUCCESS;
}

/* The convolution whose input gradient this is takes y to x. */
static RengaErrorCode ConvTranspose_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  Convolution_Ref conv;
  RengaCall(ConvOf(call, &call->out[0], &call->in[1], &call->in[0], &conv));
  ConvInputGradient_Ref(&conv, RefInput(call, in, 0), RefInput(call, in, 1), RefInput(call, in, 2),
                        (RefIn){NULL, RENGA_FLOAT32}, RefOutput(call, out, 0));
  return RENGA_SUCCESS;
}

/* dw of one output channel, input channel and tap: over all samples and places of the output. */
static double WeightSum(const Convolution_Ref *conv, RefIn x, RefIn dy, int64_t channel, int64_t c,
                        const int64_t tap[])
{
  double sum = 0;
  int64_t group = channel / conv->out;
  for (int64_t n = 0; n < conv->batch; n++) {
    int64_t x_at = ((n * conv->groups + group) * conv->in + c) * conv->in_plane;
    int64_t dy_at = (n * conv->groups * conv->out + channel) * conv->out_plane;
    RefWalk walk;
    RefWalkStart(&walk, conv->window.n, conv->out_dim);
    for (int64_t p = 0; p < conv->out_plane; p++, RefWalkNext(&walk)) {
      int64_t place = RefInputPlace(&conv->window, walk.index, tap, conv->in_dim);
      if (place >= 0) sum += RefGet(x, x_at + place) * RefGet(dy, dy_at + p);
    }
  }
  return sum;
}

static RengaErrorCode ConvGradWeight_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                         const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0), dy = RefInput(call, in, 1);
  RefOut dw = RefOutput(call, out, 0);
  Convolution_Ref conv;
  RengaCall(ConvOf(call, &call->in[0], &call->out[0], &call->in[1], &conv));
  int64_t i = 0;
  for (int64_t o = 0; o < conv.groups * conv.out; o++)
    for (int64_t c = 0; c < conv.in; c++) {
      RefWalk tap;
      RefWalkStart(&tap, conv.window.n, conv.window.kernel);
      for (int64_t t = 0; t < conv.taps; t++, RefWalkNext(&tap))
        RefSet(dw, i++, WeightSum(&conv, x, dy, o, c, tap.index));
    }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindConvolve(const char *name)
{
  static const RefRow rows[] = {
      {"Conv", Conv_Ref},
      {"ConvTranspose", ConvTranspose_Ref},
      {"ConvGradInput", ConvGradInput_Ref},
      {"ConvGradWeight", ConvGradWeight_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
