/* Windows over planes: the columns that make a convolution a product, and pooling. Gradients are
   gathered: an element of the input adds up what its windows have for it, in a fixed order. */
#include "kernel.h"

/* Output along dimension d whose tap `tap` lies on place i; -1: none. */
static __device__ inline int64_t OutputAt(const RengaCudaWindow &w, int d, int64_t i, int64_t tap)
{
  const int64_t start = i + w.before[d] - tap * w.dilation[d];
  if (start < 0 || start % w.stride[d] != 0) return -1;
  const int64_t output = start / w.stride[d];
  return output < w.out[d] ? output : -1;
}

static __device__ inline int64_t PlaceAt(const RengaCudaWindow &w, int d, int64_t output,
                                         int64_t tap)
{
  const int64_t place = output * w.stride[d] - w.before[d] + tap * w.dilation[d];
  return place >= 0 && place < w.in[d] ? place : -1;
}

/* Bits are copied; those of 0 are 0. */
template <class Bits>
__global__ void ColumnsKernel(RengaCudaColumns s, const void *x_, void *columns_)
{
  const Bits *x = (const Bits *)x_;
  Bits *columns = (Bits *)columns_;
  const RengaCudaWindow &w = s.window;
  const int64_t taps = w.kernel[0] * w.kernel[1], pixels = w.out[0] * w.out[1];
  RENGA_EACH(i, s.images * w.planes * taps * pixels)
  {
    const int64_t pixel = i % pixels, rest = i / pixels;
    const int64_t image = s.joined ? rest % s.images : rest / taps / w.planes;
    const int64_t row = s.joined ? rest / s.images : rest % (taps * w.planes);
    const int64_t tap = row % taps, plane = (s.first + image) * w.planes + row / taps;
    const int64_t r = PlaceAt(w, 0, pixel / w.out[1], tap / w.kernel[1]);
    const int64_t c = PlaceAt(w, 1, pixel % w.out[1], tap % w.kernel[1]);
    columns[i] = r >= 0 && c >= 0 ? x[(plane * w.in[0] + r) * w.in[1] + c] : (Bits)0;
  }
}

template <class T>
__global__ void AddColumnsKernel(RengaCudaColumns s, const float *__restrict__ columns,
                                 RengaCudaOperand dx_)
{
  const Values<T> dx(dx_);
  const RengaCudaWindow &w = s.window;
  const int64_t taps = w.kernel[0] * w.kernel[1], pixels = w.out[0] * w.out[1];
  const int64_t area = w.in[0] * w.in[1];
  RENGA_EACH(i, s.images * w.planes * area)
  {
    const float *from = columns + i / area * taps * pixels;
    float sum = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
      const int64_t r = OutputAt(w, 0, i % area / w.in[1], tap / w.kernel[1]);
      const int64_t c = OutputAt(w, 1, i % w.in[1], tap % w.kernel[1]);
      if (r >= 0 && c >= 0) sum += from[tap * pixels + r * w.out[1] + c];
    }
    dx.Put(s.first * w.planes * area + i, sum);
  }
}

/* y may be x. */
__global__ void AddBiasKernel(RengaCudaBias s, RengaCudaOperand bias, RengaCudaOperand x,
                              RengaCudaOperand y)
{
  RENGA_EACH_FOUR(i, s.count)
  {
    Four<float> v = Values<void>(x).Get(i, s.count - i);
    for (int k = 0; k < FOUR; k++) v.at[k] += Values<void>(bias)[(i + k) / s.pixels % s.channels];
    Values<void>(y).Put(i, s.count - i, v);
  }
}

/* The first of equal ones stays, and what is not a number. */
template <class T>
__global__ void MaxPoolKernel(RengaCudaWindow w, RengaCudaOperand x_, RengaCudaOperand y_,
                              int64_t *places)
{
  const Values<T> x(x_), y(y_);
  const int64_t pixels = w.out[0] * w.out[1];
  RENGA_EACH(i, w.planes * pixels)
  {
    const int64_t plane = i / pixels * w.in[0] * w.in[1];
    float best = -INFINITY;
    int64_t at = -1;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = PlaceAt(w, 0, i % pixels / w.out[1], tap / w.kernel[1]);
      const int64_t c = PlaceAt(w, 1, i % w.out[1], tap % w.kernel[1]);
      if (r < 0 || c < 0) continue;
      const float v = x[plane + r * w.in[1] + c];
      if (v > best || v != v || at < 0) {
        best = v;
        at = r * w.in[1] + c;
      }
    }
    y.Put(i, best);
    if (places) places[i] = at;
  }
}

/* A block takes a plane, 256 outputs at a time: the first output of a place adds up those of all,
   in ascending order. */
__global__ void MaxPoolGradKernel(int64_t in, int64_t out, RengaCudaOperand dy_,
                                  const int64_t *__restrict__ places, float *__restrict__ dx)
{
  const Values<void> dy(dy_);
  __shared__ int64_t place[THREADS];
  const int64_t first = blockIdx.x * out;
  for (int64_t start = 0; start < out; start += THREADS) {
    const int64_t mine = start + threadIdx.x;
    const int here = out - start < THREADS ? (int)(out - start) : (int)THREADS;
    __syncthreads(); /* the places before were read, their sums written */
    place[threadIdx.x] = mine < out ? places[first + mine] : -1;
    __syncthreads();
    const int64_t own = place[threadIdx.x];
    bool adds = own >= 0;
    for (unsigned t = 0; t < threadIdx.x && adds; t++) adds = place[t] != own;
    float sum = 0;
    for (int t = (int)threadIdx.x; t < here && adds; t++)
      if (place[t] == own) sum += dy[first + start + t];
    if (adds) dx[blockIdx.x * in + own] += sum;
  }
}

/* 1 / the number of elements that the mean of an output is over. */
static __device__ inline float ShareOf(const RengaCudaWindow &w, int64_t row, int64_t column)
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
__global__ void AveragePoolKernel(RengaCudaWindow w, RengaCudaOperand x_, RengaCudaOperand y_)
{
  const Values<T> x(x_), y(y_);
  const int64_t pixels = w.out[0] * w.out[1];
  RENGA_EACH(i, w.planes * pixels)
  {
    const int64_t plane = i / pixels * w.in[0] * w.in[1];
    const int64_t row = i % pixels / w.out[1], column = i % w.out[1];
    double sum = 0;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = PlaceAt(w, 0, row, tap / w.kernel[1]);
      const int64_t c = PlaceAt(w, 1, column, tap % w.kernel[1]);
      if (r >= 0 && c >= 0) sum += x[plane + r * w.in[1] + c];
    }
    y.Put(i, (float)(sum * ShareOf(w, row, column)));
  }
}

template <class T>
__global__ void AveragePoolGradKernel(RengaCudaWindow w, RengaCudaOperand dy_, RengaCudaOperand dx_)
{
  const Values<T> dy(dy_), dx(dx_);
  const int64_t area = w.in[0] * w.in[1];
  RENGA_EACH(i, w.planes * area)
  {
    const int64_t plane = i / area * w.out[0] * w.out[1];
    float sum = 0;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = OutputAt(w, 0, i % area / w.in[1], tap / w.kernel[1]);
      const int64_t c = OutputAt(w, 1, i % w.in[1], tap % w.kernel[1]);
      if (r >= 0 && c >= 0) sum += dy[plane + r * w.out[1] + c] * ShareOf(w, r, c);
    }
    dx.Put(i, sum);
  }
}

static void (*const add_columns[VALUE_FORMS])(RengaCudaColumns, const float *,
                                              RengaCudaOperand) = RENGA_FORMS(AddColumnsKernel);
static void (*const max_pools[VALUE_FORMS])(RengaCudaWindow, RengaCudaOperand, RengaCudaOperand,
                                            int64_t *) = RENGA_FORMS(MaxPoolKernel);
typedef void (*PoolForm)(RengaCudaWindow, RengaCudaOperand, RengaCudaOperand);
static const PoolForm average_pools[VALUE_FORMS] = RENGA_FORMS(AveragePoolKernel);
static const PoolForm average_pool_grads[VALUE_FORMS] = RENGA_FORMS(AveragePoolGradKernel);

RENGA_CUDA_RUN(RengaCudaMakeColumns)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const RengaCudaWindow *w = &s->window;
  const int64_t count = s->images * w->planes * w->kernel[0] * w->kernel[1] * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  return RengaCudaSayError(
      "ColumnsKernel",
      RENGA_LAUNCH((s->size == 2 ? ColumnsKernel<uint16_t> : ColumnsKernel<uint32_t>),
                   BlocksFor(count), THREADS, 0, (cudaStream_t)stream, *s, (const void *)in[0].data,
                   out[0].data));
}

RENGA_CUDA_RUN(RengaCudaAddColumns)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const int64_t count = s->images * s->window.planes * s->window.in[0] * s->window.in[1];
  (void)context, (void)workspace;
  return RengaCudaSayError("AddColumnsKernel",
                           RENGA_LAUNCH(add_columns[FormFor(out[0])], BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, *s, (const float *)in[0].data,
                                        out[0]));
}

RENGA_CUDA_RUN(RengaCudaAddBias)
{
  const RengaCudaBias *s = (const RengaCudaBias *)shape;
  (void)context, (void)workspace;
  return RengaCudaSayError("AddBiasKernel",
                           RENGA_LAUNCH(AddBiasKernel, BlocksForFours(s->count), THREADS, 0,
                                        (cudaStream_t)stream, *s, in[0], in[1], out[0]));
}

RENGA_CUDA_RUN(RengaCudaMaxPool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("MaxPoolKernel",
                           RENGA_LAUNCH(max_pools[FormFor(in[0], out[0])], BlocksFor(count),
                                        THREADS, 0, (cudaStream_t)stream, *w, in[0], out[0],
                                        (int64_t *)out[1].data));
}

/* Of the window its planes, and their elements, matter. Sums of 16-bit floats are made in the
   workspace, and rounded once. */
RENGA_CUDA_RUN(RengaCudaMaxPoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t before = w->in[0] * w->in[1], after = w->out[0] * w->out[1];
  const int64_t count = w->planes * before;
  const bool rounds = out[0].type != RENGA_CUDA_FLOAT32;
  const RengaCudaOperand sums = {rounds ? workspace : out[0].data, RENGA_CUDA_FLOAT32};
  (void)context;
  if (count == 0) return 0;
  cudaError_t code =
      cudaMemsetAsync(sums.data, 0, (size_t)count * sizeof(float), (cudaStream_t)stream);
  if (!code)
    code = RENGA_LAUNCH(MaxPoolGradKernel, (unsigned)w->planes, THREADS, 0, (cudaStream_t)stream,
                        before, after, in[0], (const int64_t *)in[1].data, (float *)sums.data);
  if (code || !rounds) return RengaCudaSayError("MaxPoolGradKernel", code);
  return RengaCudaConvert(stream, count, sums, out[0]);
}

RENGA_CUDA_RUN(RengaCudaAveragePool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolKernel",
                           RENGA_LAUNCH(average_pools[FormFor(in[0], out[0])], BlocksFor(count),
                                        THREADS, 0, (cudaStream_t)stream, *w, in[0], out[0]));
}

RENGA_CUDA_RUN(RengaCudaAveragePoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->in[0] * w->in[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolGradKernel",
                           RENGA_LAUNCH(average_pool_grads[FormFor(in[0], out[0])],
                                        BlocksFor(count), THREADS, 0, (cudaStream_t)stream, *w,
                                        in[0], out[0]));
}
