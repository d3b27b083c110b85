/* Windows over planes: the columns that make a convolution a product, and pooling. Gradients are
   gathered: an element of the input adds up what its windows have for it, in a fixed order. */
#include "kernel.h"

/* What a kernel divides places by. */
struct Window : RengaCudaWindow {
  FastDivisor pixels, columns; /* of the output: of a plane, of a row of it */
  FastDivisor area, width;     /* of the input likewise */
  FastDivisor steps[2];
  FastDivisor last; /* channels of a plane */
};

static inline Window WindowOf(const RengaCudaWindow *w)
{
  Window window;
  (RengaCudaWindow &)window = *w;
  window.pixels = FastDivisorOf(w->out[0] * w->out[1]);
  window.columns = FastDivisorOf(w->out[1]);
  window.area = FastDivisorOf(w->in[0] * w->in[1]);
  window.width = FastDivisorOf(w->in[1]);
  window.last = FastDivisorOf(w->channels > 0 ? w->channels : 1);
  for (int d = 0; d < 2; d++) window.steps[d] = FastDivisorOf(w->stride[d]);
  return window;
}

/* Output along dimension d whose tap `tap` lies on place i; -1: none. */
static __device__ inline int64_t OutputAt(const Window &w, int d, int64_t i, int64_t tap)
{
  const int64_t start = i + w.before[d] - tap * w.dilation[d];
  int64_t rest;
  if (start < 0) return -1;
  const int64_t output = Quotient(start, w.steps[d], &rest);
  return rest == 0 && output < w.out[d] ? output : -1;
}

static __device__ inline int64_t PlaceAt(const RengaCudaWindow &w, int d, int64_t output,
                                         int64_t tap)
{
  const int64_t place = output * w.stride[d] - w.before[d] + tap * w.dilation[d];
  return place >= 0 && place < w.in[d] ? place : -1;
}

/* between: of what stands between pixels and the outermost: images where these are joined, else
   rows of columns. */
struct ColumnsCall {
  Window w;
  int64_t first, count, images;
  int joined;
  FastDivisor between, taps, taps_of_row;
};

static inline ColumnsCall CallOf(const RengaCudaColumns *s)
{
  const RengaCudaWindow *w = &s->window;
  const int64_t taps = w->kernel[0] * w->kernel[1], rows = w->planes * taps;
  ColumnsCall call;
  call.w = WindowOf(w);
  call.first = s->first;
  call.count = s->images * rows * w->out[0] * w->out[1];
  call.images = s->images;
  call.joined = s->joined;
  call.between = FastDivisorOf(s->joined ? s->images : rows);
  call.taps = FastDivisorOf(taps);
  call.taps_of_row = FastDivisorOf(w->kernel[1]);
  return call;
}

/* Bits are copied; those of 0 are 0. */
template <class Bits> __global__ void ColumnsKernel(ColumnsCall s, const void *x_, void *columns_)
{
  const Bits *x = (const Bits *)x_;
  Bits *columns = (Bits *)columns_;
  const Window &w = s.w;
  RENGA_EACH(i, s.count)
  {
    int64_t pixel, inner, tap, column, tap_column;
    const int64_t outer = Quotient(Quotient(i, w.pixels, &pixel), s.between, &inner);
    const int64_t image = s.joined ? inner : outer, row = s.joined ? outer : inner;
    const int64_t plane = (s.first + image) * w.planes + Quotient(row, s.taps, &tap);
    const int64_t tap_row = Quotient(tap, s.taps_of_row, &tap_column);
    const int64_t r = PlaceAt(w, 0, Quotient(pixel, w.columns, &column), tap_row);
    const int64_t c = PlaceAt(w, 1, column, tap_column);
    columns[i] = r >= 0 && c >= 0 ? x[(plane * w.in[0] + r) * w.in[1] + c] : (Bits)0;
  }
}

template <class T>
__global__ void AddColumnsKernel(ColumnsCall s, const float *__restrict__ columns,
                                 RengaCudaOperand dx_)
{
  const Values<T> dx(dx_);
  const Window &w = s.w;
  RENGA_EACH(i, s.images * w.planes * w.area.by)
  {
    int64_t at, column;
    const float *from = columns + Quotient(i, w.area, &at) * s.taps.by * w.pixels.by;
    const int64_t row = Quotient(at, w.width, &column);
    float sum = 0;
    for (int64_t y = 0; y < w.kernel[0]; y++) {
      const int64_t r = OutputAt(w, 0, row, y);
      for (int64_t x = 0; x < w.kernel[1] && r >= 0; x++) {
        const int64_t c = OutputAt(w, 1, column, x);
        if (c >= 0) sum += from[(y * w.kernel[1] + x) * w.pixels.by + r * w.out[1] + c];
      }
    }
    dx.Put(s.first * w.planes * w.area.by + i, sum);
  }
}

/* The same where the channels of x come last. */
template <class Bits>
__global__ void ColumnsLastKernel(ColumnsCall s, const void *x_, void *columns_)
{
  const Bits *x = (const Bits *)x_;
  Bits *columns = (Bits *)columns_;
  const Window &w = s.w;
  RENGA_EACH(i, s.count)
  {
    int64_t pixel, tap, channel, column, tap_column;
    const int64_t row = Quotient(Quotient(i, s.taps, &tap), w.last, &channel);
    const int64_t image = s.first + Quotient(row, w.pixels, &pixel);
    const int64_t tap_row = Quotient(tap, s.taps_of_row, &tap_column);
    const int64_t r = PlaceAt(w, 0, Quotient(pixel, w.columns, &column), tap_row);
    const int64_t c = PlaceAt(w, 1, column, tap_column);
    columns[i] =
        r >= 0 && c >= 0 ? x[((image * w.in[0] + r) * w.in[1] + c) * w.last.by + channel] : (Bits)0;
  }
}

template <class T>
__global__ void AddColumnsLastKernel(ColumnsCall s, const float *__restrict__ columns,
                                     RengaCudaOperand dx_)
{
  const Values<T> dx(dx_);
  const Window &w = s.w;
  const int64_t terms = w.last.by * s.taps.by; /* of a pixel */
  RENGA_EACH(i, s.images * w.area.by * w.last.by)
  {
    int64_t at, column, channel;
    const int64_t image = Quotient(Quotient(i, w.last, &channel), w.area, &at);
    const float *from = columns + image * w.pixels.by * terms + channel * s.taps.by;
    const int64_t row = Quotient(at, w.width, &column);
    float sum = 0;
    for (int64_t y = 0; y < w.kernel[0]; y++) {
      const int64_t r = OutputAt(w, 0, row, y);
      for (int64_t x = 0; x < w.kernel[1] && r >= 0; x++) {
        const int64_t c = OutputAt(w, 1, column, x);
        if (c >= 0) sum += from[(r * w.out[1] + c) * terms + y * w.kernel[1] + x];
      }
    }
    dx.Put(s.first * w.area.by * w.last.by + i, sum);
  }
}

/* y may be x. */
__global__ void AddBiasKernel(RengaCudaBias s, Channels channels, RengaCudaOperand bias,
                              RengaCudaOperand x, RengaCudaOperand y)
{
  RENGA_EACH_FOUR(i, s.count)
  {
    Four<float> v = Values<void>(x).Get(i, s.count - i);
    ChannelPlace at = PlaceInChannels(channels, i);
    for (int k = 0; k < FOUR; k++, at.Next(channels)) v.at[k] += Values<void>(bias)[at.channel];
    Values<void>(y).Put(i, s.count - i, v);
  }
}

/* An element of a plane: its number there, and where its plane begins on the other side. */
struct Spot {
  int64_t at, row, column, plane;
};

static __device__ inline Spot SpotOf(const Window &w, int64_t i, FastDivisor own, FastDivisor width,
                                     FastDivisor other)
{
  Spot spot;
  int64_t channel;
  const int64_t outer = Quotient(Quotient(i, w.last, &channel), own, &spot.at);
  spot.plane = outer * other.by * w.last.by + channel;
  spot.row = Quotient(spot.at, width, &spot.column);
  return spot;
}

static __device__ inline Spot OfOutput(const Window &w, int64_t i)
{
  return SpotOf(w, i, w.pixels, w.columns, w.area);
}

static __device__ inline Spot OfInput(const Window &w, int64_t i)
{
  return SpotOf(w, i, w.area, w.width, w.pixels);
}

/* The first of equal ones stays, and what is not a number. */
template <class T>
__global__ void MaxPoolKernel(Window w, RengaCudaOperand x_, RengaCudaOperand y_, int64_t *places)
{
  const Values<T> x(x_), y(y_);
  RENGA_EACH(i, w.planes * w.pixels.by * w.last.by)
  {
    const Spot spot = OfOutput(w, i);
    int64_t at = -1;
    float best = -INFINITY;
    for (int64_t tap_row = 0; tap_row < w.kernel[0]; tap_row++) {
      const int64_t r = PlaceAt(w, 0, spot.row, tap_row);
      for (int64_t tap = 0; tap < w.kernel[1] && r >= 0; tap++) {
        const int64_t c = PlaceAt(w, 1, spot.column, tap);
        if (c < 0) continue;
        const float v = x[spot.plane + (r * w.in[1] + c) * w.last.by];
        if (v > best || v != v || at < 0) {
          best = v;
          at = r * w.in[1] + c;
        }
      }
    }
    y.Put(i, best);
    if (places) places[i] = at;
  }
}

/* An element adds up, in ascending order, what the windows have for it whose place it is. */
template <class T>
__global__ void MaxPoolGradKernel(Window w, RengaCudaOperand dy_,
                                  const int64_t *__restrict__ places, RengaCudaOperand dx_)
{
  const Values<T> dy(dy_), dx(dx_);
  RENGA_EACH(i, w.planes * w.area.by * w.last.by)
  {
    const Spot spot = OfInput(w, i);
    float sum = 0;
    for (int64_t tap_row = w.kernel[0]; tap_row-- > 0;) { /* the last tap is of the first output */
      const int64_t r = OutputAt(w, 0, spot.row, tap_row);
      for (int64_t tap = w.kernel[1]; tap-- > 0 && r >= 0;) {
        const int64_t c = OutputAt(w, 1, spot.column, tap);
        if (c < 0) continue;
        const int64_t from = spot.plane + (r * w.out[1] + c) * w.last.by;
        if (places[from] == spot.at) sum += dy[from];
      }
    }
    dx.Put(i, sum);
  }
}

/* 1 / the number of elements that the mean of an output is over. */
static __device__ inline float ShareOf(const Window &w, int64_t row, int64_t column)
{
  const int64_t output[2] = {row, column};
  int64_t count = 1;
  for (int d = 0; d < 2; d++) {
    const int64_t start = output[d] * w.stride[d] - w.before[d];
    int64_t taps = 0;
    for (int64_t tap = 0; tap < w.kernel[d]; tap++) {
      const int64_t at = start + tap * w.dilation[d];
      taps += w.count_pad ? at < w.in[d] + w.after[d] : at >= 0 && at < w.in[d];
    }
    count *= taps;
  }
  return 1 / (float)count;
}

template <class T>
__global__ void AveragePoolKernel(Window w, RengaCudaOperand x_, RengaCudaOperand y_)
{
  const Values<T> x(x_), y(y_);
  RENGA_EACH(i, w.planes * w.pixels.by * w.last.by)
  {
    const Spot spot = OfOutput(w, i);
    double sum = 0;
    for (int64_t tap_row = 0; tap_row < w.kernel[0]; tap_row++) {
      const int64_t r = PlaceAt(w, 0, spot.row, tap_row);
      for (int64_t tap = 0; tap < w.kernel[1] && r >= 0; tap++) {
        const int64_t c = PlaceAt(w, 1, spot.column, tap);
        if (c >= 0) sum += x[spot.plane + (r * w.in[1] + c) * w.last.by];
      }
    }
    y.Put(i, (float)(sum * ShareOf(w, spot.row, spot.column)));
  }
}

template <class T>
__global__ void AveragePoolGradKernel(Window w, RengaCudaOperand dy_, RengaCudaOperand dx_)
{
  const Values<T> dy(dy_), dx(dx_);
  RENGA_EACH(i, w.planes * w.area.by * w.last.by)
  {
    const Spot spot = OfInput(w, i);
    float sum = 0;
    for (int64_t tap_row = 0; tap_row < w.kernel[0]; tap_row++) {
      const int64_t r = OutputAt(w, 0, spot.row, tap_row);
      for (int64_t tap = 0; tap < w.kernel[1] && r >= 0; tap++) {
        const int64_t c = OutputAt(w, 1, spot.column, tap);
        if (c >= 0) sum += dy[spot.plane + (r * w.out[1] + c) * w.last.by] * ShareOf(w, r, c);
      }
    }
    dx.Put(i, sum);
  }
}

static void (*const add_columns[VALUE_FORMS])(ColumnsCall, const float *,
                                              RengaCudaOperand) = RENGA_FORMS(AddColumnsKernel);
static void (*const max_pools[VALUE_FORMS])(Window, RengaCudaOperand, RengaCudaOperand,
                                            int64_t *) = RENGA_FORMS(MaxPoolKernel);
static void (*const add_columns_last[VALUE_FORMS])(ColumnsCall, const float *, RengaCudaOperand) =
    RENGA_FORMS(AddColumnsLastKernel);
static void (*const max_pool_grads[VALUE_FORMS])(Window, RengaCudaOperand, const int64_t *,
                                                 RengaCudaOperand) = RENGA_FORMS(MaxPoolGradKernel);
typedef void (*PoolForm)(Window, RengaCudaOperand, RengaCudaOperand);
static const PoolForm average_pools[VALUE_FORMS] = RENGA_FORMS(AveragePoolKernel);
static const PoolForm average_pool_grads[VALUE_FORMS] = RENGA_FORMS(AveragePoolGradKernel);

RENGA_CUDA_RUN(RengaCudaMakeColumns)
{
  const ColumnsCall call = CallOf((const RengaCudaColumns *)shape);
  const int size = ((const RengaCudaColumns *)shape)->size;
  (void)context, (void)workspace;
  if (((const RengaCudaColumns *)shape)->window.channels > 0)
    return RengaCudaSayError(
        "ColumnsLastKernel",
        RENGA_LAUNCH((size == 2 ? ColumnsLastKernel<uint16_t> : ColumnsLastKernel<uint32_t>),
                     BlocksFor(call.count), THREADS, 0, (cudaStream_t)stream, call,
                     (const void *)in[0].data, out[0].data));
  return RengaCudaSayError(
      "ColumnsKernel", RENGA_LAUNCH((size == 2 ? ColumnsKernel<uint16_t> : ColumnsKernel<uint32_t>),
                                    BlocksFor(call.count), THREADS, 0, (cudaStream_t)stream, call,
                                    (const void *)in[0].data, out[0].data));
}

RENGA_CUDA_RUN(RengaCudaAddColumns)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const int64_t count = s->images * s->window.planes * s->window.in[0] * s->window.in[1];
  (void)context, (void)workspace;
  if (s->window.channels > 0)
    return RengaCudaSayError("AddColumnsLastKernel",
                             RENGA_LAUNCH(add_columns_last[FormFor(out[0])], BlocksFor(count),
                                          THREADS, 0, (cudaStream_t)stream, CallOf(s),
                                          (const float *)in[0].data, out[0]));
  return RengaCudaSayError("AddColumnsKernel",
                           RENGA_LAUNCH(add_columns[FormFor(out[0])], BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, CallOf(s), (const float *)in[0].data,
                                        out[0]));
}

RENGA_CUDA_RUN(RengaCudaAddBias)
{
  const RengaCudaBias *s = (const RengaCudaBias *)shape;
  (void)context, (void)workspace;
  return RengaCudaSayError("AddBiasKernel",
                           RENGA_LAUNCH(AddBiasKernel, BlocksForFours(s->count), THREADS, 0,
                                        (cudaStream_t)stream, *s,
                                        ChannelsOf(s->channels, s->pixels), in[0], in[1], out[0]));
}

RENGA_CUDA_RUN(RengaCudaMaxPool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1] * w->channels;
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("MaxPoolKernel",
                           RENGA_LAUNCH(max_pools[FormFor(in[0], out[0])], BlocksFor(count),
                                        THREADS, 0, (cudaStream_t)stream, WindowOf(w), in[0],
                                        out[0], (int64_t *)out[1].data));
}

RENGA_CUDA_RUN(RengaCudaMaxPoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->in[0] * w->in[1] * w->channels;
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("MaxPoolGradKernel",
                           RENGA_LAUNCH(max_pool_grads[FormFor(in[0], out[0])], BlocksFor(count),
                                        THREADS, 0, (cudaStream_t)stream, WindowOf(w), in[0],
                                        (const int64_t *)in[1].data, out[0]));
}

RENGA_CUDA_RUN(RengaCudaAveragePool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1] * w->channels;
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolKernel",
                           RENGA_LAUNCH(average_pools[FormFor(in[0], out[0])], BlocksFor(count),
                                        THREADS, 0, (cudaStream_t)stream, WindowOf(w), in[0],
                                        out[0]));
}

RENGA_CUDA_RUN(RengaCudaAveragePoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->in[0] * w->in[1] * w->channels;
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolGradKernel",
                           RENGA_LAUNCH(average_pool_grads[FormFor(in[0], out[0])],
                                        BlocksFor(count), THREADS, 0, (cudaStream_t)stream,
                                        WindowOf(w), in[0], out[0]));
}
