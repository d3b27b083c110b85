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

__global__ void ColumnsKernel(RengaCudaColumns s, const float *__restrict__ x,
                              float *__restrict__ columns)
{
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
    columns[i] = r >= 0 && c >= 0 ? x[(plane * w.in[0] + r) * w.in[1] + c] : 0;
  }
}

__global__ void AddColumnsKernel(RengaCudaColumns s, const float *__restrict__ columns,
                                 float *__restrict__ dx)
{
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
    dx[s.first * w.planes * area + i] = sum;
  }
}

__global__ void AddBiasKernel(int64_t count, int64_t channels, int64_t pixels,
                              const float *__restrict__ bias, float *__restrict__ y)
{
  RENGA_EACH(i, count) y[i] += bias[i / pixels % channels];
}

/* The first of equal ones stays, and what is not a number. */
__global__ void MaxPoolKernel(RengaCudaWindow w, const float *__restrict__ x, float *__restrict__ y,
                              int64_t *places)
{
  const int64_t pixels = w.out[0] * w.out[1];
  RENGA_EACH(i, w.planes * pixels)
  {
    const float *plane = x + i / pixels * w.in[0] * w.in[1];
    float best = -INFINITY;
    int64_t at = -1;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = PlaceAt(w, 0, i % pixels / w.out[1], tap / w.kernel[1]);
      const int64_t c = PlaceAt(w, 1, i % w.out[1], tap % w.kernel[1]);
      if (r < 0 || c < 0) continue;
      const float v = plane[r * w.in[1] + c];
      if (v > best || v != v || at < 0) {
        best = v;
        at = r * w.in[1] + c;
      }
    }
    y[i] = best;
    if (places) places[i] = at;
  }
}

/* A block takes a plane, 256 outputs at a time: the first output of a place adds up those of all,
   in ascending order. */
__global__ void MaxPoolGradKernel(int64_t in, int64_t out, const float *__restrict__ dy,
                                  const int64_t *__restrict__ places, float *__restrict__ dx)
{
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

__global__ void AveragePoolKernel(RengaCudaWindow w, const float *__restrict__ x,
                                  float *__restrict__ y)
{
  const int64_t pixels = w.out[0] * w.out[1];
  RENGA_EACH(i, w.planes * pixels)
  {
    const float *plane = x + i / pixels * w.in[0] * w.in[1];
    const int64_t row = i % pixels / w.out[1], column = i % w.out[1];
    double sum = 0;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = PlaceAt(w, 0, row, tap / w.kernel[1]);
      const int64_t c = PlaceAt(w, 1, column, tap % w.kernel[1]);
      if (r >= 0 && c >= 0) sum += plane[r * w.in[1] + c];
    }
    y[i] = (float)(sum * ShareOf(w, row, column));
  }
}

__global__ void AveragePoolGradKernel(RengaCudaWindow w, const float *__restrict__ dy,
                                      float *__restrict__ dx)
{
  const int64_t area = w.in[0] * w.in[1];
  RENGA_EACH(i, w.planes * area)
  {
    const float *plane = dy + i / area * w.out[0] * w.out[1];
    float sum = 0;
    for (int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++) {
      const int64_t r = OutputAt(w, 0, i % area / w.in[1], tap / w.kernel[1]);
      const int64_t c = OutputAt(w, 1, i % w.in[1], tap % w.kernel[1]);
      if (r >= 0 && c >= 0) sum += plane[r * w.out[1] + c] * ShareOf(w, r, c);
    }
    dx[i] = sum;
  }
}

RENGA_CUDA_RUN(RengaCudaMakeColumns)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const RengaCudaWindow *w = &s->window;
  const int64_t count = s->images * w->planes * w->kernel[0] * w->kernel[1] * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  return RengaCudaSayError("ColumnsKernel", RENGA_LAUNCH(ColumnsKernel, BlocksFor(count), THREADS,
                                                         0, (cudaStream_t)stream, *s,
                                                         (const float *)in[0], (float *)out[0]));
}

RENGA_CUDA_RUN(RengaCudaAddColumns)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const int64_t count = s->images * s->window.planes * s->window.in[0] * s->window.in[1];
  (void)context, (void)workspace;
  return RengaCudaSayError("AddColumnsKernel", RENGA_LAUNCH(AddColumnsKernel, BlocksFor(count),
                                                            THREADS, 0, (cudaStream_t)stream, *s,
                                                            (const float *)in[0], (float *)out[0]));
}

/* The window's planes are the channels of the output. */
RENGA_CUDA_RUN(RengaCudaAddBias)
{
  const RengaCudaColumns *s = (const RengaCudaColumns *)shape;
  const int64_t pixels = s->window.out[0] * s->window.out[1];
  const int64_t count = s->images * s->window.planes * pixels;
  (void)context, (void)workspace;
  return RengaCudaSayError("AddBiasKernel",
                           RENGA_LAUNCH(AddBiasKernel, BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, count, s->window.planes, pixels,
                                        (const float *)in[0], (float *)out[0]));
}

RENGA_CUDA_RUN(RengaCudaMaxPool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("MaxPoolKernel",
                           RENGA_LAUNCH(MaxPoolKernel, BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, *w, (const float *)in[0],
                                        (float *)out[0], (int64_t *)out[1]));
}

/* Of the window its planes, and their elements, matter. */
RENGA_CUDA_RUN(RengaCudaMaxPoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t before = w->in[0] * w->in[1], after = w->out[0] * w->out[1];
  const size_t bytes = (size_t)(w->planes * before) * sizeof(float);
  (void)context, (void)workspace;
  if (bytes == 0) return 0;
  cudaError_t code = cudaMemsetAsync(out[0], 0, bytes, (cudaStream_t)stream);
  if (!code)
    code =
        RENGA_LAUNCH(MaxPoolGradKernel, (unsigned)w->planes, THREADS, 0, (cudaStream_t)stream,
                     before, after, (const float *)in[0], (const int64_t *)in[1], (float *)out[0]);
  return RengaCudaSayError("MaxPoolGradKernel", code);
}

RENGA_CUDA_RUN(RengaCudaAveragePool)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->out[0] * w->out[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolKernel",
                           RENGA_LAUNCH(AveragePoolKernel, BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, *w, (const float *)in[0],
                                        (float *)out[0]));
}

RENGA_CUDA_RUN(RengaCudaAveragePoolGrad)
{
  const RengaCudaWindow *w = (const RengaCudaWindow *)shape;
  const int64_t count = w->planes * w->in[0] * w->in[1];
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("AveragePoolGradKernel",
                           RENGA_LAUNCH(AveragePoolGradKernel, BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, *w, (const float *)in[0],
                                        (float *)out[0]));
}
