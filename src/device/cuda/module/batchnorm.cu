/* BatchNormalization of images [images, channels, pixels] and its gradient. Blocks find sums of
   pieces of a channel in double: networks of ReLU after it are chaotic, a wrong last bit of the
   mean turns units on and off. A thread of each channel adds them in their order; then all elements
   are computed. Mean and variance are found at once, of numbers less the channel's first one (Chan,
   Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983). */
#include "kernel.h"

/* Of a channel: y = (x - mean) a + bias, dx = a (dy - m - (x - mean) k). */
struct Channel {
  float mean, a, m, k;
};
/* Of x less the first one, and of its square; or of dy, and of dy (x - mean). */
struct Sums {
  double one, two;
};

static __device__ inline void AddTo(Sums *sums, const Sums &more)
{
  sums->one += more.one;
  sums->two += more.two;
}

/* Of the block's threads, to where the piece has its sums. */
static __device__ inline void PutSums(const Sums &mine, Sums part[THREADS], Sums *pieces)
{
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) AddTo(&part[threadIdx.x], part[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) pieces[blockIdx.x] = part[0];
}

/* The first element of the block's channel. */
static __device__ inline int64_t FirstOf(const RengaCudaBatchNorm &s)
{
  return blockIdx.x / s.pieces * s.pixels;
}

/* What a thread adds of the block's piece. EIGHT are looked up at a time, none of which waits for
   another. term: of the element at a place. */
template <class F>
static __device__ inline Sums AddPiece(const RengaCudaBatchNorm &s, const Channels &of, F term)
{
  enum { EIGHT = 8 };
  const int64_t count = s.images * s.pixels, each = (count + s.pieces - 1) / s.pieces;
  const int64_t begin = blockIdx.x % s.pieces * each;
  const int64_t end = begin + each < count ? begin + each : count, first = FirstOf(s);
  const auto look = [&](int64_t i) {
    int64_t pixel;
    const int64_t image = Quotient(i, of.pixels, &pixel);
    return term(image * s.channels * s.pixels + first + pixel);
  };
  Sums sums = {0, 0};
  int64_t i = begin + threadIdx.x;
  for (; i + (EIGHT - 1) * THREADS < end; i += EIGHT * THREADS) {
    Sums found[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; k++) found[k] = look(i + k * THREADS);
    for (int k = 0; k < EIGHT; k++) AddTo(&sums, found[k]);
  }
  for (; i < end; i += THREADS) AddTo(&sums, look(i));
  return sums;
}

/* The same of rows, of which a warp has the block's channels of one: sums of the warps are added in
   their order. term: of the element at a place, of a channel. */
template <class F>
static __device__ inline void PutRows(const RengaCudaBatchNorm &s, Sums part[THREADS], Sums *pieces,
                                      F term)
{
  enum { TILE = RENGA_CUDA_TILE, WARPS = THREADS / TILE, FOUR_ROWS = 4 };
  const int64_t tiles = (s.channels + TILE - 1) / TILE, piece = blockIdx.x / tiles;
  const int64_t channel = blockIdx.x % tiles * TILE + threadIdx.x % TILE;
  const int64_t each = (s.images + s.pieces - 1) / s.pieces, begin = piece * each;
  const int64_t end = begin + each < s.images ? begin + each : s.images;
  Sums sums = {0, 0};
  if (channel < s.channels) {
    int64_t row = begin + threadIdx.x / TILE;
    for (; row + (FOUR_ROWS - 1) * WARPS < end; row += FOUR_ROWS * WARPS) {
      Sums found[FOUR_ROWS];
#pragma unroll
      for (int k = 0; k < FOUR_ROWS; k++)
        found[k] = term((row + k * WARPS) * s.channels + channel, channel);
      for (int k = 0; k < FOUR_ROWS; k++) AddTo(&sums, found[k]);
    }
    for (; row < end; row += WARPS) AddTo(&sums, term(row * s.channels + channel, channel));
  }
  part[threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.x >= TILE || channel >= s.channels) return;
  for (int w = 1; w < WARPS; w++) AddTo(&sums, part[w * TILE + threadIdx.x]);
  pieces[channel * s.pieces + piece] = sums;
}

static __device__ inline Sums SumsOf(const RengaCudaBatchNorm &s, int64_t channel,
                                     const Sums *pieces)
{
  Sums sums = pieces[channel * s.pieces];
  for (int64_t p = 1; p < s.pieces; p++) AddTo(&sums, pieces[channel * s.pieces + p]);
  return sums;
}

/* A block takes a piece. T, here and below: of x and y, and their gradients. */
template <class T>
__global__ void ChannelSumsKernel(RengaCudaBatchNorm s, Channels of, RengaCudaOperand x_,
                                  Sums *pieces)
{
  const Values<T> x(x_);
  __shared__ Sums part[THREADS];
  const double first = x[FirstOf(s)];
  const Sums mine = AddPiece(s, of, [&](int64_t at) {
    const double off = x[at] - first;
    return Sums{off, off * off};
  });
  PutSums(mine, part, pieces);
}

template <class T>
__global__ void RowSumsKernel(RengaCudaBatchNorm s, Channels, RengaCudaOperand x_, Sums *pieces)
{
  const Values<T> x(x_);
  __shared__ Sums part[THREADS];
  PutRows(s, part, pieces, [&](int64_t at, int64_t channel) {
    const double off = (double)x[at] - (double)x[channel];
    return Sums{off, off * off};
  });
}

template <class T>
__global__ void StatisticsKernel(RengaCudaBatchNorm s, int batch, RengaCudaOperand x_,
                                 RengaCudaOperand scale_, RengaCudaOperand running_mean,
                                 RengaCudaOperand running_variance, RengaCudaOperand means,
                                 RengaCudaOperand variances, const Sums *pieces, Channel *channels)
{
  const Values<T> x(x_);
  const Values<void> scale(scale_);
  const double count = (double)(s.images * s.pixels);
  RENGA_EACH(c, s.channels)
  {
    double mean = Values<void>(running_mean)[c], variance = Values<void>(running_variance)[c];
    if (batch) {
      const Sums sums = SumsOf(s, c, pieces);
      const double off = sums.one / count;
      mean = x[c * s.pixels] + off;
      variance = sums.two / count - off * off;
      if (variance < 0) variance = 0;
    }
    channels[c].mean = (float)mean;
    channels[c].a = (float)(scale[c] / sqrt(variance + s.epsilon));
    if (means.data) Values<void>(means).Put(c, (float)mean);
    if (variances.data) Values<void>(variances).Put(c, (float)variance);
  }
}

/* y may be x. */
template <class T>
__global__ void ScaleChannelsKernel(RengaCudaBatchNorm s, Channels of, RengaCudaOperand x_,
                                    RengaCudaOperand bias, const Channel *channels,
                                    RengaCudaOperand y_)
{
  const Values<T> x(x_), y(y_);
  const int64_t count = s.images * s.channels * s.pixels;
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> v = x.Get(i, count - i);
    ChannelPlace at = PlaceInChannels(of, i);
    for (int k = 0; k < FOUR; k++, at.Next(of)) {
      const Channel &c = channels[at.channel];
      v.at[k] = (v.at[k] - c.mean) * c.a + Values<void>(bias)[at.channel];
    }
    y.Put(i, count - i, v);
  }
}

/* A block takes a piece. */
template <class T>
__global__ void GradSumsKernel(RengaCudaBatchNorm s, Channels of, RengaCudaOperand dy_,
                               RengaCudaOperand x_, RengaCudaOperand means, Sums *pieces)
{
  const Values<T> dy(dy_), x(x_);
  __shared__ Sums part[THREADS];
  const float mean = Values<void>(means)[blockIdx.x / s.pieces];
  const Sums mine = AddPiece(s, of, [&](int64_t at) {
    const double given = dy[at];
    return Sums{given, given * (x[at] - mean)};
  });
  PutSums(mine, part, pieces);
}

template <class T>
__global__ void GradRowSumsKernel(RengaCudaBatchNorm s, Channels, RengaCudaOperand dy_,
                                  RengaCudaOperand x_, RengaCudaOperand means, Sums *pieces)
{
  const Values<T> dy(dy_), x(x_);
  __shared__ Sums part[THREADS];
  PutRows(s, part, pieces, [&](int64_t at, int64_t channel) {
    const double given = dy[at];
    return Sums{given, given * (x[at] - Values<void>(means)[channel])};
  });
}

__global__ void ChannelGradKernel(RengaCudaBatchNorm s, int batch, RengaCudaOperand scale,
                                  RengaCudaOperand means, RengaCudaOperand variances,
                                  RengaCudaOperand dscale, RengaCudaOperand dbias,
                                  const Sums *pieces, Channel *channels)
{
  const double count = (double)(s.images * s.pixels);
  RENGA_EACH(c, s.channels)
  {
    const Sums sums = SumsOf(s, c, pieces);
    const double inverse = 1 / sqrt((double)Values<void>(variances)[c] + s.epsilon);
    if (dscale.data) Values<void>(dscale).Put(c, (float)(sums.two * inverse));
    if (dbias.data) Values<void>(dbias).Put(c, (float)sums.one);
    channels[c].mean = Values<void>(means)[c];
    channels[c].a = (float)(Values<void>(scale)[c] * inverse);
    channels[c].m = batch ? (float)(sums.one / count) : 0;
    channels[c].k = batch ? (float)(sums.two * inverse * inverse / count) : 0;
  }
}

/* dx may be dy. */
template <class T>
__global__ void PixelGradKernel(RengaCudaBatchNorm s, Channels of, RengaCudaOperand dy_,
                                RengaCudaOperand x_, const Channel *channels, RengaCudaOperand dx_)
{
  const Values<T> dy(dy_), x(x_), dx(dx_);
  const int64_t count = s.images * s.channels * s.pixels;
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> d = dy.Get(i, count - i);
    const Four<float> v = x.Get(i, count - i);
    ChannelPlace at = PlaceInChannels(of, i);
    for (int k = 0; k < FOUR; k++, at.Next(of)) {
      const Channel &c = channels[at.channel];
      d.at[k] = c.a * (d.at[k] - c.m - (v.at[k] - c.mean) * c.k);
    }
    dx.Put(i, count - i, d);
  }
}

typedef RengaCudaOperand Operand;
static void (*const channel_sums[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand,
                                               Sums *) = RENGA_FORMS(ChannelSumsKernel);
static void (*const row_sums[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand,
                                           Sums *) = RENGA_FORMS(RowSumsKernel);
static void (*const statistics[VALUE_FORMS])(RengaCudaBatchNorm, int, Operand, Operand, Operand,
                                             Operand, Operand, Operand, const Sums *,
                                             Channel *) = RENGA_FORMS(StatisticsKernel);
static void (*const scales[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand, Operand,
                                         const Channel *,
                                         Operand) = RENGA_FORMS(ScaleChannelsKernel);
static void (*const grad_sums[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand, Operand, Operand,
                                            Sums *) = RENGA_FORMS(GradSumsKernel);
static void (*const grad_row_sums[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand, Operand,
                                                Operand, Sums *) = RENGA_FORMS(GradRowSumsKernel);
static void (*const pixel_grads[VALUE_FORMS])(RengaCudaBatchNorm, Channels, Operand, Operand,
                                              const Channel *,
                                              Operand) = RENGA_FORMS(PixelGradKernel);

/* The workspace: of channels, then of pieces. */
static inline Sums *PiecesOf(const RengaCudaBatchNorm *s, Channel *channels)
{
  return (Sums *)(channels + s->channels);
}

/* That make the sums. */
static inline unsigned BlocksOf(const RengaCudaBatchNorm *s)
{
  const int64_t tiles = (s->channels + RENGA_CUDA_TILE - 1) / RENGA_CUDA_TILE;
  return (unsigned)((s->rows ? tiles : s->channels) * s->pieces);
}

/* in: x, scale, bias, running mean, running variance; out: y, batch mean, batch variance */
RENGA_CUDA_RUN(RengaCudaBatchNormalization)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  const Channels of = ChannelsOf(s->channels, s->pixels);
  const int batch = context->training && s->training, x = FormFor(in[0]);
  Channel *channels = (Channel *)workspace;
  Sums *pieces = PiecesOf(s, channels);
  cudaError_t code = cudaSuccess;
  if (batch)
    code = RENGA_LAUNCH((s->rows ? row_sums : channel_sums)[x], BlocksOf(s), THREADS, 0,
                        (cudaStream_t)stream, *s, of, in[0], pieces);
  if (!code)
    code = RENGA_LAUNCH(statistics[x], BlocksFor(s->channels), THREADS, 0, (cudaStream_t)stream, *s,
                        batch, in[0], in[1], in[3], in[4], out[1], out[2], pieces, channels);
  if (!code)
    code = RENGA_LAUNCH(scales[FormFor(in[0], out[0])], BlocksForFours(count), THREADS, 0,
                        (cudaStream_t)stream, *s, of, in[0], in[2], channels, out[0]);
  return RengaCudaSayError("StatisticsKernel", code);
}

/* in: dy, x, scale, mean, variance; out: dx, dscale, dbias */
RENGA_CUDA_RUN(RengaCudaBatchNormalizationGrad)
{
  const RengaCudaBatchNorm *s = (const RengaCudaBatchNorm *)shape;
  const int64_t count = s->images * s->channels * s->pixels;
  const Channels of = ChannelsOf(s->channels, s->pixels);
  Channel *channels = (Channel *)workspace;
  Sums *pieces = PiecesOf(s, channels);
  cudaError_t code =
      RENGA_LAUNCH((s->rows ? grad_row_sums : grad_sums)[FormFor(in[0], in[1])], BlocksOf(s),
                   THREADS, 0, (cudaStream_t)stream, *s, of, in[0], in[1], in[3], pieces);
  if (!code)
    code = RENGA_LAUNCH(ChannelGradKernel, BlocksFor(s->channels), THREADS, 0, (cudaStream_t)stream,
                        *s, context->training && s->training, in[2], in[3], in[4], out[1], out[2],
                        pieces, channels);
  if (!code && out[0].data)
    code = RENGA_LAUNCH(pixel_grads[FormFor(in[0], in[1], out[0])], BlocksForFours(count), THREADS,
                        0, (cudaStream_t)stream, *s, of, in[0], in[1], channels, out[0]);
  return RengaCudaSayError("ChannelGradKernel", code);
}
