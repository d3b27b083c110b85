/* BatchNormalization over images [N,C,...], forward and backward, alone or with what comes behind
   it in a network: a tensor that is added, and ReLU, each rounded as the types say. Small planes of
   a channel lie far apart, often a power of 2, so that they push each other out of the cache, and
   do not fill a line of it: neighbouring channels are gathered into dense rows of the thread's own
   first. */
#include "low.h"
#include "renga/private/op.h"
#include "rows.h"

/* x is [images, channels, pixels] */
typedef struct {
  int64_t images, channels, pixels, run; /* pixels that are worked on together */
  double epsilon;
  bool training, relu;
  int64_t block; /* channels that are gathered together; 0: none are */
} BatchNorm_Cpu;

/* A tensor of images, float32 or in runs by way of a buffer. */
typedef struct {
  RengaDataType type;
  void *data;
} ImagesOf;

static ImagesOf ImagesAt(const RengaTensorSpec *spec, const void *data)
{
  return (ImagesOf){spec->type, (void *)(uintptr_t)data};
}

/* The runs of a channel, by number: their first element and how many they are. */
static int64_t RunsOfChannel(const BatchNorm_Cpu *s)
{
  return s->pixels > 0 ? s->images * RengaCpuPieces(s->pixels, s->run) : 0;
}

static int64_t FindRun(const BatchNorm_Cpu *s, int64_t channel, int64_t run, int64_t *count)
{
  const int64_t runs = RengaCpuPieces(s->pixels, s->run), first = run % runs * s->run;
  *count = RengaCpuSmaller(s->pixels - first, s->run);
  return (run / runs * s->channels + channel) * s->pixels + first;
}

static double PlaneSum_Cpu(int64_t n, const float *x)
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

static double SquaresFrom(int64_t n, const float *x, double mean)
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

/* The sums of some planes at once: one alone waits for each of its additions, and for memory. */
enum { PLANES = 4 };

static void SumPlanes(int64_t n, const float *x, int64_t step, double sum[PLANES])
{
  const float *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < n; i++) {
    s0 += x[i];
    s1 += x1[i];
    s2 += x2[i];
    s3 += x3[i];
  }
  sum[0] = s0;
  sum[1] = s1;
  sum[2] = s2;
  sum[3] = s3;
}

static void SquarePlanes(int64_t n, const float *x, int64_t step, double mean, double sum[PLANES])
{
  const float *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < n; i++) {
    s0 += (x[i] - mean) * (x[i] - mean);
    s1 += (x1[i] - mean) * (x1[i] - mean);
    s2 += (x2[i] - mean) * (x2[i] - mean);
    s3 += (x3[i] - mean) * (x3[i] - mean);
  }
  sum[0] = s0;
  sum[1] = s1;
  sum[2] = s2;
  sum[3] = s3;
}

/* What a thread works on: channels of the tensors as they lie, or gathered ones. */
typedef struct {
  BatchNorm_Cpu shape;
  int64_t first, last, from; /* channels; the one that comes first where they lie */
  float *free;               /* memory of the thread for gathered tensors */
} Channels_Cpu;

static int64_t CountBlocks(const BatchNorm_Cpu *s)
{
  return s->block ? RengaCpuPieces(s->channels, s->block) : s->channels;
}

/* Piece of CountBlocks(). */
static Channels_Cpu TakeChannels(const BatchNorm_Cpu *s, int64_t piece, void *workspace)
{
  enum { MOST_GATHERED = 3 };
  const int64_t dense = s->images * s->pixels, step = s->block ? s->block : 1;
  Channels_Cpu c = {.shape = *s, .first = piece * step, .last = piece * step + step};
  if (!s->block) return c;
  c.last = RengaCpuSmaller(c.last, s->channels);
  c.from = c.first;
  c.free = (float *)workspace + MOST_GATHERED * s->block * dense * RengaCpuThread();
  c.shape.images = 1;
  c.shape.channels = s->block;
  c.shape.pixels = c.shape.run = dense;
  return c;
}

/* rows: [channels of c, images x pixels] */
static void GatherChannels(const BatchNorm_Cpu *s, const Channels_Cpu *c, const ImagesOf *x,
                           float *rows)
{
  float buffer[RENGA_CPU_RUN];
  const int64_t count = (c->last - c->first) * s->pixels, dense = s->images * s->pixels;
  for (int64_t n = 0; n < s->images; n++) {
    const int64_t at = (n * s->channels + c->first) * s->pixels;
    const float *from = RengaCpuRead(x->type, x->data, at, count, buffer);
    for (int64_t i = 0; i < c->last - c->first; i++)
      for (int64_t p = 0; p < s->pixels; p++)
        rows[i * dense + n * s->pixels + p] = from[i * s->pixels + p];
  }
}

static void ScatterChannels(const BatchNorm_Cpu *s, const Channels_Cpu *c, const float *rows,
                            const ImagesOf *y)
{
  float buffer[RENGA_CPU_RUN];
  const int64_t count = (c->last - c->first) * s->pixels, dense = s->images * s->pixels;
  for (int64_t n = 0; n < s->images; n++) {
    const int64_t at = (n * s->channels + c->first) * s->pixels;
    float *to = RengaCpuPlace(y->type, y->data, at, buffer);
    for (int64_t i = 0; i < c->last - c->first; i++)
      for (int64_t p = 0; p < s->pixels; p++)
        to[i * s->pixels + p] = rows[i * dense + n * s->pixels + p];
    RengaCpuWrite(y->type, y->data, at, count, to);
  }
}

/* An input as c.shape has it: where it lies, or gathered in place number k. */
static ImagesOf ReadChannels(const BatchNorm_Cpu *s, const Channels_Cpu *c,
                             const RengaTensorSpec *spec, const void *data, int k)
{
  const ImagesOf x = ImagesAt(spec, data);
  if (!c->free) return x;
  float *rows = c->free + k * c->shape.channels * c->shape.pixels;
  GatherChannels(s, c, &x, rows);
  return (ImagesOf){RENGA_FLOAT32, rows};
}

/* Where an output is made. */
static ImagesOf PlaceChannels(const Channels_Cpu *c, const RengaTensorSpec *spec, void *data, int k)
{
  if (!c->free) return ImagesAt(spec, data);
  return (ImagesOf){RENGA_FLOAT32, c->free + k * c->shape.channels * c->shape.pixels};
}

static void WriteChannels(const BatchNorm_Cpu *s, const Channels_Cpu *c, const ImagesOf *made,
                          const RengaTensorSpec *spec, void *data)
{
  const ImagesOf y = ImagesAt(spec, data);
  if (c->free) ScatterChannels(s, c, made->data, &y);
}

/* The sum of a channel, or of its squared distances from a mean. */
static double SumChannel(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, bool squares,
                         double mean)
{
  const bool whole = x->type == RENGA_FLOAT32 && s->run == s->pixels;
  const int64_t runs = RunsOfChannel(s);
  float buffer[RENGA_CPU_RUN];
  double total = 0, sum[PLANES];
  int64_t count, r = 0;
  for (; whole && r + PLANES <= runs; r += PLANES) {
    const float *first = (const float *)x->data + FindRun(s, channel, r, &count);
    if (squares)
      SquarePlanes(count, first, s->channels * s->pixels, mean, sum);
    else
      SumPlanes(count, first, s->channels * s->pixels, sum);
    for (int p = 0; p < PLANES; p++) total += sum[p];
  }
  for (; r < runs; r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *run = RengaCpuRead(x->type, x->data, at, count, buffer);
    total += squares ? SquaresFrom(count, run, mean) : PlaneSum_Cpu(count, run);
  }
  return total;
}

/* Mean and biased variance of a channel in the micro-batch. In double: networks of ReLU after
   BatchNormalization are chaotic, a wrong last bit of the mean turns units on and off. */
static void Statistics_Cpu(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, double *mean,
                           double *variance)
{
  const double total = (double)(s->images * s->pixels);
  *mean = SumChannel(s, x, channel, false, 0) / total;
  *variance = SumChannel(s, x, channel, true, *mean) / total;
}

static inline float ReluOf(float v)
{
  return v < 0 ? 0 : v;
}

/* As ForwardChannel, of bfloat16 in place. */
static void ForwardBrain(int64_t count, const uint16_t *x, float mean, float a, float b,
                         uint16_t *y)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    y[i] = RengaLowToBrain((RengaLowFromBrain(x[i]) - mean) * a + b);
}

static void ReluForwardBrain(int64_t count, const uint16_t *x, const uint16_t *more, float mean,
                             float a, float b, uint16_t *y)
{
  if (more == NULL) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      const uint16_t v = RengaLowToBrain((RengaLowFromBrain(x[i]) - mean) * a + b);
      y[i] = v > 0x8000 && v <= 0xff80 ? 0 : v;
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    const uint16_t v = RengaLowToBrain((RengaLowFromBrain(x[i]) - mean) * a + b);
    y[i] = RengaLowToBrain(ReluOf(RengaLowFromBrain(v) + RengaLowFromBrain(more[i])));
  }
}

static void ForwardRun(int64_t count, const float *x, float mean, float a, float b, float *y)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * a + b;
}

/* type: that y is stored in, whose roundings come before the sum and before ReLU */
static void ReluForwardRun(RengaDataType type, int64_t count, const float *x, const float *more,
                           float mean, float a, float b, float *y)
{
  if (type != RENGA_FLOAT32) {
    uint16_t low[RENGA_CPU_RUN];
    float wide[RENGA_CPU_RUN];
    for (int64_t at = 0; at < count; at += RENGA_CPU_RUN) {
      const int64_t here = RengaCpuSmaller(count - at, RENGA_CPU_RUN);
      ForwardRun(here, x + at, mean, a, b, wide);
      RengaCpuNarrow(type, here, wide, low);
      RengaCpuWiden(type, here, low, wide);
#pragma omp simd
      for (int64_t i = 0; i < here; i++)
        y[at + i] = ReluOf(more ? wide[i] + more[at + i] : wide[i]);
    }
  } else if (more) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = ReluOf((x[i] - mean) * a + b + more[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = ReluOf((x[i] - mean) * a + b);
  }
}

/* y = a (x - mean) + b, or what ReLU makes of that and of more, if data of it are given; type: that
   the kernel stores y in. */
static void ForwardChannel(const BatchNorm_Cpu *s, const ImagesOf *x, const ImagesOf *more,
                           int64_t channel, float mean, float a, float b, RengaDataType type,
                           const ImagesOf *y)
{
  float buffer[3][RENGA_CPU_RUN];
  int64_t count;
  const bool brain = x->type == RENGA_BFLOAT16 && y->type == RENGA_BFLOAT16 &&
                     (!more->data || more->type == RENGA_BFLOAT16);
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    if (brain) {
      const uint16_t *from = (const uint16_t *)x->data + at;
      uint16_t *to = (uint16_t *)y->data + at;
      if (s->relu)
        ReluForwardBrain(count, from, more->data ? (const uint16_t *)more->data + at : NULL, mean,
                         a, b, to);
      else
        ForwardBrain(count, from, mean, a, b, to);
      continue;
    }
    const float *from = RengaCpuRead(x->type, x->data, at, count, buffer[0]);
    const float *add =
        more->data ? RengaCpuRead(more->type, more->data, at, count, buffer[2]) : NULL;
    float *to = RengaCpuPlace(y->type, y->data, at, buffer[1]);
    if (s->relu)
      ReluForwardRun(type, count, from, add, mean, a, b, to);
    else
      ForwardRun(count, from, mean, a, b, to);
    RengaCpuWrite(y->type, y->data, at, count, to);
  }
}

/* in: x, scale, bias, running mean, running variance, (more); out: y, batch mean, batch variance */
static RengaErrorCode BatchNormForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const bool batch = context->training && s->training;
  const int64_t pieces = CountBlocks(s);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    const Channels_Cpu channels = TakeChannels(s, piece, workspace), *of = &channels;
    const ImagesOf x = ReadChannels(s, of, &call->in[0], in[0], 0);
    const ImagesOf y = PlaceChannels(of, &call->out[0], out[0], 1);
    const ImagesOf more =
        call->n_in > 5 ? ReadChannels(s, of, &call->in[5], in[5], 2) : (ImagesOf){0};
    for (int64_t c = of->first; c < of->last; c++) {
      double mean = RengaCpuGetOf(call, in, 3, c), variance = RengaCpuGetOf(call, in, 4, c);
      if (batch) Statistics_Cpu(&of->shape, &x, c - of->from, &mean, &variance);
      const float a = (float)(RengaCpuGetOf(call, in, 1, c) / sqrt(variance + s->epsilon));
      ForwardChannel(&of->shape, &x, &more, c - of->from, (float)mean, a,
                     RengaCpuGetOf(call, in, 2, c), call->out[0].type, &y);
      RengaCpuPutOf(call, out, 1, c, mean);
      RengaCpuPutOf(call, out, 2, c, variance);
    }
    WriteChannels(s, of, &y, &call->out[0], out[0]);
  }
  return RENGA_SUCCESS;
}

/* What the backward of a channel reads and writes. y: where it is not positive no gradient passes
   ReLU; data NULL: there is none. kept: where the gradient that passes is written, or NULL */
typedef struct {
  ImagesOf dy, y, kept, x, dx;
} Backward_Cpu;

static void SumRun(int64_t count, const float *d, const float *x, float mean, double *sum,
                   double *product)
{
  double plane = 0, plane_product = 0;
#pragma omp simd reduction(+ : plane, plane_product)
  for (int64_t i = 0; i < count; i++) {
    plane += d[i];
    plane_product += (double)d[i] * (x[i] - mean);
  }
  *sum += plane;
  *product += plane_product;
}

static void KeepRun(int64_t count, const float *dy, const float *y, float *kept)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) kept[i] = y[i] > 0 ? dy[i] : 0;
}

/* As SumRun, of what passes ReLU, which is kept if asked. */
static void ReluSumRun(int64_t count, const float *dy, const float *y, const float *x, float mean,
                       float *kept, double *sum, double *product)
{
  double plane = 0, plane_product = 0;
  if (kept) {
#pragma omp simd reduction(+ : plane, plane_product)
    for (int64_t i = 0; i < count; i++) {
      const float d = y[i] > 0 ? dy[i] : 0;
      kept[i] = d;
      plane += d;
      plane_product += (double)d * (x[i] - mean);
    }
  } else {
#pragma omp simd reduction(+ : plane, plane_product)
    for (int64_t i = 0; i < count; i++) {
      const float d = y[i] > 0 ? dy[i] : 0;
      plane += d;
      plane_product += (double)d * (x[i] - mean);
    }
  }
  *sum += plane;
  *product += plane_product;
}

/* sum of dy and of dy (x - mean) over a channel */
static void GradientSums(const BatchNorm_Cpu *s, const Backward_Cpu *t, int64_t channel, float mean,
                         double *sum, double *product)
{
  float buffer[3][RENGA_CPU_RUN];
  int64_t count;
  *sum = *product = 0;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *d = RengaCpuRead(t->dy.type, t->dy.data, at, count, buffer[0]);
    const float *x = RengaCpuRead(t->x.type, t->x.data, at, count, buffer[1]);
    if (t->y.data == NULL) {
      SumRun(count, d, x, mean, sum, product);
      continue;
    }
    const float *y = RengaCpuRead(t->y.type, t->y.data, at, count, buffer[2]);
    float *kept = t->kept.data ? RengaCpuPlace(t->kept.type, t->kept.data, at, buffer[0]) : NULL;
    ReluSumRun(count, d, y, x, mean, kept, sum, product);
    if (kept) RengaCpuWrite(t->kept.type, t->kept.data, at, count, kept);
  }
}

/* As BackwardChannel, of bfloat16 in place. */
static void BackwardBrain(int64_t count, const uint16_t *dy, const uint16_t *x, float mean, float a,
                          float m, float k, uint16_t *dx)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    dx[i] =
        RengaLowToBrain(a * (RengaLowFromBrain(dy[i]) - m - (RengaLowFromBrain(x[i]) - mean) * k));
}

static void ReluBackwardBrain(int64_t count, const uint16_t *dy, const uint16_t *y,
                              const uint16_t *x, float mean, float a, float m, float k,
                              uint16_t *dx)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    const float d = RengaLowFromBrain(y[i]) > 0 ? RengaLowFromBrain(dy[i]) : 0;
    dx[i] = RengaLowToBrain(a * (d - m - (RengaLowFromBrain(x[i]) - mean) * k));
  }
}

/* dx = a (dy - m - (x - mean) k), where y is not positive of dy = 0 */
static void BackwardChannel(const BatchNorm_Cpu *s, const Backward_Cpu *t, int64_t channel,
                            float mean, float a, float m, float k)
{
  float buffer[4][RENGA_CPU_RUN];
  int64_t count;
  const bool brain = t->dy.type == RENGA_BFLOAT16 && t->x.type == RENGA_BFLOAT16 &&
                     t->dx.type == RENGA_BFLOAT16 && (!t->y.data || t->y.type == RENGA_BFLOAT16);
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    if (brain) {
      const uint16_t *low = (const uint16_t *)t->dy.data + at,
                     *x = (const uint16_t *)t->x.data + at;
      uint16_t *to = (uint16_t *)t->dx.data + at;
      if (t->y.data)
        ReluBackwardBrain(count, low, (const uint16_t *)t->y.data + at, x, mean, a, m, k, to);
      else
        BackwardBrain(count, low, x, mean, a, m, k, to);
      continue;
    }
    const float *d = RengaCpuRead(t->dy.type, t->dy.data, at, count, buffer[0]);
    const float *v = RengaCpuRead(t->x.type, t->x.data, at, count, buffer[1]);
    float *to = RengaCpuPlace(t->dx.type, t->dx.data, at, buffer[2]);
    if (t->y.data) {
      const float *y = RengaCpuRead(t->y.type, t->y.data, at, count, buffer[3]);
#pragma omp simd
      for (int64_t i = 0; i < count; i++)
        to[i] = a * ((y[i] > 0 ? d[i] : 0) - m - (v[i] - mean) * k);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; i++) to[i] = a * (d[i] - m - (v[i] - mean) * k);
    }
    RengaCpuWrite(t->dx.type, t->dx.data, at, count, to);
  }
}

/* Channel c; in: dy, (y), x, scale, mean, variance; out: dx, dscale, dbias, (what passes ReLU) */
static void BackwardOf(const RengaKernel kernel, const Channels_Cpu *of, bool batch, int64_t c,
                       const void *const in[], void *const out[], Backward_Cpu t)
{
  const RengaOpCall *call = &kernel->call;
  const BatchNorm_Cpu *s = &of->shape;
  const int x = s->relu ? 2 : 1;
  const double count = (double)(s->images * s->pixels);
  const float mean = RengaCpuGetOf(call, in, x + 2, c);
  const double inverse = 1 / sqrt((double)RengaCpuGetOf(call, in, x + 3, c) + s->epsilon);
  double sum = 0, product = 0;
  GradientSums(s, &t, c - of->from, mean, &sum, &product);
  RengaCpuPutOf(call, out, 1, c, product * inverse);
  RengaCpuPutOf(call, out, 2, c, sum);
  if (!out[0]) return;
  if (t.kept.data && t.kept.type == t.dy.type) {
    t.dy = t.kept;
    t.y.data = NULL;
  }
  const double m = batch ? sum / count : 0, k = batch ? product * inverse * inverse / count : 0;
  BackwardChannel(s, &t, c - of->from, mean, (float)(RengaCpuGetOf(call, in, x + 1, c) * inverse),
                  (float)m, (float)k);
}

/* The tensors of channels. Of gathered ones dy is what passes ReLU, in the place of y then dx. */
static Backward_Cpu TakeTensors(const RengaKernel kernel, const Channels_Cpu *of,
                                const void *const in[], void *const out[])
{
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int x = s->relu ? 2 : 1;
  const bool keeps = call->n_out > 3 && out[3];
  Backward_Cpu t = {.dy = ReadChannels(s, of, &call->in[0], in[0], 0),
                    .x = ReadChannels(s, of, &call->in[x], in[x], 1)};
  if (s->relu) t.y = ReadChannels(s, of, &call->in[1], in[1], 2);
  if (s->relu && of->free) {
    KeepRun((of->last - of->first) * of->shape.pixels, t.dy.data, t.y.data, t.dy.data);
    if (keeps) WriteChannels(s, of, &t.dy, &call->out[3], out[3]);
    t.y.data = NULL;
  } else if (keeps) {
    t.kept = ImagesAt(&call->out[3], out[3]);
  }
  t.dx = PlaceChannels(of, &call->out[0], out[0], 2);
  return t;
}

static RengaErrorCode BatchNormBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const bool batch = context->training && s->training;
  const int64_t pieces = CountBlocks(s);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    const Channels_Cpu of = TakeChannels(s, piece, workspace);
    const Backward_Cpu tensor = TakeTensors(kernel, &of, in, out);
    for (int64_t c = of.first; c < of.last; c++) BackwardOf(kernel, &of, batch, c, in, out, tensor);
    if (out[0]) WriteChannels(s, &of, &tensor.dx, &call->out[0], out[0]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateBatchNorm_Cpu(RengaKernel kernel, const RengaTensorSpec *x,
                                          RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0) || x->ndim < 2 || RengaTensorSpecCount(x) == 0)
    return RENGA_SUCCESS;
  BatchNorm_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->images = x->dim[0];
  s->channels = x->dim[1];
  s->pixels = RengaOpProduct(x, 2, x->ndim);
  s->epsilon = RengaAttributesReal(call->attributes, "epsilon", 1e-5);
  s->training = RengaAttributesInt(call->attributes, "training", 1) != 0;
  s->run = RengaOpCallIsLow_Private(call) ? RENGA_CPU_RUN : s->pixels;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  kernel->run = run;
  return RENGA_SUCCESS;
}

/* Where planes are small: as many channels as fill some lines of a cache, if three tensors of them
   are no more than half a cache of the second level. */
static void GatherInBlocks(RengaKernel kernel)
{
  enum { SMALL = 64, MOST = 32768, TENSORS = 3 }; /* floats of an image, of a tensor */
  BatchNorm_Cpu *s = kernel->data;
  if (!s || s->pixels >= SMALL) return;
  const int64_t block = SMALL / s->pixels, floats = block * s->images * s->pixels;
  if (floats > MOST) return;
  s->block = block;
  kernel->workspace = (size_t)(TENSORS * floats * kernel->device->threads) * sizeof(float);
}

/* in: x, rows of an image; out: their mean, their variance */
static RengaErrorCode BatchLaneRun_Cpu(RengaKernel kernel, RengaStream stream,
                                       const RengaKernelContext *context, const void *const in[],
                                       void *const out[], void *workspace)
{
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    const ImagesOf x = ImagesAt(&call->in[0], in[0]);
    double mean, variance;
    Statistics_Cpu(s, &x, c, &mean, &variance);
    RengaCpuPutOf(call, out, 0, c, mean);
    RengaCpuPutOf(call, out, 1, c, variance);
  }
  return RENGA_SUCCESS;
}

/* dx = m + (x - mean) k */
static void BackwardLane(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, float mean,
                         float m, float k, const ImagesOf *dx)
{
  float buffer[2][RENGA_CPU_RUN];
  int64_t count;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *v = RengaCpuRead(x->type, x->data, at, count, buffer[0]);
    float *to = RengaCpuPlace(dx->type, dx->data, at, buffer[1]);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = m + (v[i] - mean) * k;
    RengaCpuWrite(dx->type, dx->data, at, count, to);
  }
}

/* in: dmean, dvariance, x, mean; out: dx */
static RengaErrorCode BatchLaneGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[],
                                           void *workspace)
{
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const double count = (double)(s->images * s->pixels);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    const ImagesOf x = ImagesAt(&call->in[2], in[2]);
    const ImagesOf dx = ImagesAt(&call->out[0], out[0]);
    const double m = RengaCpuGetOf(call, in, 0, c) / count,
                 k = 2 * RengaCpuGetOf(call, in, 1, c) / count;
    BackwardLane(s, &x, c, RengaCpuGetOf(call, in, 3, c), (float)m, (float)k, &dx);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[0], BatchNormForwardRun_Cpu));
  GatherInBlocks(kernel);
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[1], BatchNormBackwardRun_Cpu));
  GatherInBlocks(kernel);
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationReluCreate_Cpu(RengaKernel kernel)
{
  RengaCall(BatchNormalizationCreate_Cpu(kernel));
  BatchNorm_Cpu *s = kernel->data;
  if (s) s->relu = true;
  if (s && kernel->call.n_in > 5) kernel->alias |= RENGA_KERNEL_ALIAS(0, 5);
  return RENGA_SUCCESS;
}

/* A run of a channel is read before it is written. */
static RengaErrorCode BatchNormalizationReluGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[2], BatchNormBackwardRun_Cpu));
  GatherInBlocks(kernel);
  BatchNorm_Cpu *s = kernel->data;
  if (s) s->relu = true;
  const RengaOpCall *call = &kernel->call;
  const bool keeps = s && call->n_out > 3 && call->out[3].type == call->in[0].type;
  for (int i = 0; s && i < 2; i++)
    kernel->alias |= RENGA_KERNEL_ALIAS(0, i) | (keeps ? RENGA_KERNEL_ALIAS(3, i) : 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationLaneCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[0], BatchLaneRun_Cpu));
  kernel->alias = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationLaneGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[2], BatchLaneGradRun_Cpu));
  kernel->alias = RENGA_KERNEL_ALIAS(0, 2);
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuBatchNorm)[] = {
    {"BatchNormalizationLane", BatchNormalizationLaneCreate_Cpu},
    {"BatchNormalizationLaneGrad", BatchNormalizationLaneGradCreate_Cpu},
    {"BatchNormalization", BatchNormalizationCreate_Cpu},
    {"BatchNormalizationGrad", BatchNormalizationGradCreate_Cpu},
    {"BatchNormalizationRelu", BatchNormalizationReluCreate_Cpu},
    {"BatchNormalizationReluGrad", BatchNormalizationReluGradCreate_Cpu},
    {NULL, NULL},
};
