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

/* T, here and below: of x and y, and their gradients. */
template <class T>
__global__ void StatisticsKernel(RengaCudaBatchNorm s, int batch, RengaCudaOperand x_,
                                 RengaCudaOperand scale_, RengaCudaOperand running_mean,
                                 RengaCudaOperand running_variance, RengaCudaOperand means,
                                 RengaCudaOperand variances, Channel *channels)
{
  const Values<T> x(x_);
  const Values<void> scale(scale_);
  __shared__ double part[THREADS];
  const int64_t c = blockIdx.x, count = s.images * s.pixels;
  double mean = Values<void>(running_mean)[c], variance = Values<void>(running_variance)[c];
  double sum = 0, squares = 0;
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
  if (means.data) Values<void>(means).Put(c, (float)mean);
  if (variances.data) Values<void>(variances).Put(c, (float)variance);
}

/* y may be x. */
template <class T>
__global__ void ScaleChannelsKernel(RengaCudaBatchNorm s, RengaCudaOperand x_,
                                    RengaCudaOperand bias, const Channel *channels,
                                    RengaCudaOperand y_)
{
  const Values<T> x(x_), y(y_);
  const int64_t count = s.images * s.channels * s.pixels;
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> v = x.Get(i, count - i);
    for (int k = 0; k < FOUR; k++) {
      const int64_t c = (i + k) / s.pixels % s.channels;
      v.at[k] = (v.at[k] - channels[c].mean) * channels[c].a + Values<void>(bias)[c];
    }
    y.Put(i, count - i, v);
  }
}

template <class T>
__global__ void
ChannelGradKernel(RengaCudaBatchNorm s, int batch, RengaCudaOperand dy_, RengaCudaOperand x_,
                  RengaCudaOperand scale, RengaCudaOperand means, RengaCudaOperand variances,
                  RengaCudaOperand dscale, RengaCudaOperand dbias, Channel *channels)
{
  const Values<T> dy(dy_), x(x_);
  __shared__ double part[THREADS];
  const int64_t c = blockIdx.x, count = s.images * s.pixels;
  const float mean = Values<void>(means)[c];
  double sum = 0, product = 0;
  for (int64_t i = threadIdx.x; i < count; i += THREADS) {
    const int64_t at = PixelOf(s, c, i);
    sum += dy[at];
    product += (double)dy[at] * (x[at] - mean);
  }
  sum = SumOfThreads(sum, part);
  product = SumOfThreads(product, part);
  if (threadIdx.x > 0) return;
  const double inverse = 1 / sqrt((double)Values<void>(variances)[c] + s.epsilon);
  if (dscale.data) Values<void>(dscale).Put(c, (float)(product * inverse));
  if (dbias.data) Values<void>(dbias).Put(c, (float)sum);
  channels[c].mean = mean;
  channels[c].a = (float)(Values<void>(scale)[c] * inverse);
  channels[c].m = batch ? (float)(sum / (double)count) : 0;
  channels[c].k = batch ? (float)(product * inverse * inverse / (double)count) : 0;
}

/* dx may be dy. */
template <class T>
__global__ void PixelGradKernel(RengaCudaBatchNorm s, RengaCudaOperand dy_, RengaCudaOperand x_,
                                const Channel *channels, RengaCudaOperand dx_)
{
  const Values<T> dy(dy_), x(x_), dx(dx_);
  const int64_t count = s.images * s.channels * s.pixels;
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> d = dy.Get(i, count - i);
    const Four<float> v = x.Get(i, count - i);
    for (int k = 0; k < FOUR; k++) {
      const Channel &c = channels[(i + k) / s.pixels % s.channels];
      d.at[k] = c.a * (d.at[k] - c.m - (v.at[k] - c.mean) * c.k);
    }
    dx.Put(i, count - i, d);
  }
}

typedef RengaCudaOperand Operand;
static void (*const statistics[VALUE_FORMS])(RengaCudaBatchNorm, int, Operand, Operand, Operand,
                                             Operand, Operand, Operand,
                                             Channel *) = RENGA_FORMS(StatisticsKernel);
static void (*const scales[VALUE_FORMS])(RengaCudaBatchNorm, Operand, Operand, const Channel *,
                                         Operand) = RENGA_FORMS(ScaleChannelsKernel);
static void (*const channel_grads[VALUE_FORMS])(RengaCudaBatchNorm, int, Operand, Operand, Operand,
                                                Operand, Operand, Operand, Operand,
                                                Channel *) = RENGA_FORMS(ChannelGradKernel);
static void (*const pixel_grads[VALUE_FORMS])(RengaCudaBatchNorm, Operand, Operand, const Channel *,
                                              Operand) = RENGA_FORMS(PixelGradKernel);

/* in: x, scale, bias, running mean, running variance; out: y, batch mean, batch variance */
RENGA_CUDA_RUN(RengaCudaBatchNormalization)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  Channel *channels = (Channel *)workspace;
  cudaError_t code = RENGA_LAUNCH(statistics[FormFor(in[0])], (unsigned)s->channels, THREADS, 0,
                                  (cudaStream_t)stream, *s, context->training && s->training, in[0],
                                  in[1], in[3], in[4], out[1], out[2], channels);
  if (!code)
    code = RENGA_LAUNCH(scales[FormFor(in[0], out[0])], BlocksForFours(count), THREADS, 0,
                        (cudaStream_t)stream, *s, in[0], in[2], channels, out[0]);
  return RengaCudaSayError("StatisticsKernel", code);
}

/* in: dy, x, scale, mean, variance; out: dx, dscale, dbias */
RENGA_CUDA_RUN(RengaCudaBatchNormalizationGrad)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  Channel *channels = (Channel *)workspace;
  cudaError_t code =
      RENGA_LAUNCH(channel_grads[FormFor(in[0], in[1])], (unsigned)s->channels, THREADS, 0,
                   (cudaStream_t)stream, *s, context->training && s->training, in[0], in[1], in[2],
                   in[3], in[4], out[1], out[2], channels);
  if (!code && out[0].data)
    code = RENGA_LAUNCH(pixel_grads[FormFor(in[0], in[1], out[0])], BlocksForFours(count), THREADS,
                        0, (cudaStream_t)stream, *s, in[0], in[1], channels, out[0]);
  return RengaCudaSayError("ChannelGradKernel", code);
}
