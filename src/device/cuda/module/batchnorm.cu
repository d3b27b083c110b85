/* BatchNormalization of images [images, channels, pixels] and its gradient. A block finds the sums
   of a channel in double: networks of ReLU after it are chaotic, a wrong last bit of the mean turns
   units on and off. Then all elements are computed. */
#include "kernel.h"

/* Of a channel: y = (x - mean) a + bias, dx = a (dy - m - (x - mean) k). */
struct Channel {
  float mean, a, m, k;
};

static __device__ double SumOfThreads(double mine, double *sum)
{
  __syncthreads(); /* the sum before was read */
  sum[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sum[threadIdx.x] += sum[threadIdx.x + step];
    __syncthreads();
  }
  return sum[0];
}

/* Place of element i of a channel. */
static __device__ inline int64_t PixelOf(const RengaCudaBatchNorm &s, int64_t channel, int64_t i)
{
  return (i / s.pixels * s.channels + channel) * s.pixels + i % s.pixels;
}

__global__ void StatisticsKernel(RengaCudaBatchNorm s, int batch, const float *x,
                                 const float *scale, const float *running_mean,
                                 const float *running_variance, float *means, float *variances,
                                 Channel *channels)
{
  __shared__ double part[THREADS];
  const int64_t c = blockIdx.x, count = s.images * s.pixels;
  double mean = running_mean[c], variance = running_variance[c], sum = 0, squares = 0;
  if (batch) {
    for (int64_t i = threadIdx.x; i < count; i += THREADS) sum += x[PixelOf(s, c, i)];
    mean = SumOfThreads(sum, part) / (double)count;
    for (int64_t i = threadIdx.x; i < count; i += THREADS) {
      const double off = x[PixelOf(s, c, i)] - mean;
      squares += off * off;
    }
    variance = SumOfThreads(squares, part) / (double)count;
  }
  if (threadIdx.x > 0) return;
  channels[c].mean = (float)mean;
  channels[c].a = (float)(scale[c] / sqrt(variance + s.epsilon));
  if (means) means[c] = (float)mean;
  if (variances) variances[c] = (float)variance;
}

/* y may be x. */
__global__ void ScaleChannelsKernel(RengaCudaBatchNorm s, const float *x, const float *bias,
                                    const Channel *channels, float *y)
{
  RENGA_EACH(i, s.images * s.channels * s.pixels)
  {
    const int64_t c = i / s.pixels % s.channels;
    y[i] = (x[i] - channels[c].mean) * channels[c].a + bias[c];
  }
}

__global__ void ChannelGradKernel(RengaCudaBatchNorm s, int batch, const float *dy, const float *x,
                                  const float *scale, const float *means, const float *variances,
                                  float *dscale, float *dbias, Channel *channels)
{
  __shared__ double part[THREADS];
  const int64_t c = blockIdx.x, count = s.images * s.pixels;
  const float mean = means[c];
  double sum = 0, product = 0;
  for (int64_t i = threadIdx.x; i < count; i += THREADS) {
    const int64_t at = PixelOf(s, c, i);
    sum += dy[at];
    product += (double)dy[at] * (x[at] - mean);
  }
  sum = SumOfThreads(sum, part);
  product = SumOfThreads(product, part);
  if (threadIdx.x > 0) return;
  const double inverse = 1 / sqrt((double)variances[c] + s.epsilon);
  if (dscale) dscale[c] = (float)(product * inverse);
  if (dbias) dbias[c] = (float)sum;
  channels[c].mean = mean;
  channels[c].a = (float)(scale[c] * inverse);
  channels[c].m = batch ? (float)(sum / (double)count) : 0;
  channels[c].k = batch ? (float)(product * inverse * inverse / (double)count) : 0;
}

/* dx may be dy. */
__global__ void PixelGradKernel(RengaCudaBatchNorm s, const float *dy, const float *x,
                                const Channel *channels, float *dx)
{
  RENGA_EACH(i, s.images * s.channels * s.pixels)
  {
    const Channel &c = channels[i / s.pixels % s.channels];
    dx[i] = c.a * (dy[i] - c.m - (x[i] - c.mean) * c.k);
  }
}

/* in: x, scale, bias, running mean, running variance; out: y, batch mean, batch variance */
RENGA_CUDA_RUN(RengaCudaBatchNormalization)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  Channel *channels = (Channel *)workspace;
  cudaError_t code = RENGA_LAUNCH(StatisticsKernel, (unsigned)s->channels, THREADS, 0,
                                  (cudaStream_t)stream, *s, context->training && s->training,
                                  (const float *)in[0], (const float *)in[1], (const float *)in[3],
                                  (const float *)in[4], (float *)out[1], (float *)out[2], channels);
  if (!code)
    code = RENGA_LAUNCH(ScaleChannelsKernel, BlocksFor(count), THREADS, 0, (cudaStream_t)stream, *s,
                        (const float *)in[0], (const float *)in[2], channels, (float *)out[0]);
  return RengaCudaSayError("StatisticsKernel", code);
}

/* in: dy, x, scale, mean, variance; out: dx, dscale, dbias */
RENGA_CUDA_RUN(RengaCudaBatchNormalizationGrad)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  Channel *channels = (Channel *)workspace;
  cudaError_t code =
      RENGA_LAUNCH(ChannelGradKernel, (unsigned)s->channels, THREADS, 0, (cudaStream_t)stream, *s,
                   context->training && s->training, (const float *)in[0], (const float *)in[1],
                   (const float *)in[2], (const float *)in[3], (const float *)in[4],
                   (float *)out[1], (float *)out[2], channels);
  if (!code && out[0])
    code = RENGA_LAUNCH(PixelGradKernel, BlocksFor(count), THREADS, 0, (cudaStream_t)stream, *s,
                        (const float *)in[0], (const float *)in[1], channels, (float *)out[0]);
  return RengaCudaSayError("ChannelGradKernel", code);
}
