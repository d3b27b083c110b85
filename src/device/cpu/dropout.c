/* Dropout and random numbers: the same as on any other device and layout. */
#include "low.h"
#include "random.h"
#include "renga/private/op.h"
#include <string.h>

/* x is [before, samples * factor, after]; an element's number in its sample is its place in
   [before, factor, after]. Without x the numbers themselves are wanted. */
typedef struct {
  int64_t before, batch, factor, after, count, key;
  float ratio;
} Dropout_Cpu;

/* x and y begin at element first. */
static void DropoutPiece(const Dropout_Cpu *s, const RengaDropout *dropout, int64_t first_sample,
                         int64_t first, int64_t last, const float *x, float *y)
{
  int64_t run = s->factor * s->after; /* neighbours of one sample */
  for (int64_t at = first; at < last;) {
    int64_t row = at / run, in_run = at % run, here = RengaCpuSmaller(run - in_run, last - at);
    int64_t samples = s->batch / s->factor, sample = row % samples, before = row / samples;
    int64_t element = before * run + in_run;
    if (x)
      RengaCpuDropoutRun(dropout, s->ratio, first_sample + sample, element, here, x + at - first,
                         y + at - first);
    else
      RengaCpuUniformRun(dropout, first_sample + sample, element, here, y + at - first);
    at += here;
  }
}

/* A piece of which not all is float32; draw: else the inputs as they are. */
static void DropoutLow(const RengaKernel kernel, const RengaDropout *dropout, bool draw,
                       int64_t first_sample, int64_t first, int64_t last, const void *x, void *y)
{
  const Dropout_Cpu *s = kernel->data;
  const RengaDataType type = kernel->call.out[0].type;
  float buffer[2][RENGA_CPU_RUN];
  for (int64_t at = first; at < last; at += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(last - at, RENGA_CPU_RUN);
    const float *from = x ? RengaCpuRead(kernel->call.in[0].type, x, at, here, buffer[0]) : NULL;
    float *to = RengaCpuPlace(type, y, at, buffer[1]);
    if (draw)
      DropoutPiece(s, dropout, first_sample, at, at + here, from, to);
    else
      memcpy(to, from, (size_t)here * sizeof *to);
    RengaCpuWrite(type, y, at, here, to);
  }
}

static RengaErrorCode DropoutRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const Dropout_Cpu *s = kernel->data;
  RengaDropout dropout = RengaDropoutStart(context->seed, context->step, s->key);
  const bool low = RengaOpCallIsLow_Private(&kernel->call);
  const float *x = kernel->call.n_in > 0 ? in[0] : NULL;
  bool draw = !x || (context->training && s->ratio > 0);
  int64_t pieces = RengaCpuPieces(s->count, RENGA_CPU_PIECE);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * RENGA_CPU_PIECE,
            last = RengaCpuSmaller(s->count, first + RENGA_CPU_PIECE);
    float *y = out[0];
    if (low)
      DropoutLow(kernel, &dropout, draw, context->sample, first, last, x, y);
    else if (draw)
      DropoutPiece(s, &dropout, context->sample, first, last, x ? x + first : NULL, y + first);
    else if (x != y)
      memcpy(y + first, x + first, (size_t)(last - first) * sizeof *y);
  }
  return RENGA_SUCCESS;
}

/* x: of the shape of the output. */
static RengaErrorCode CreateDraws(RengaKernel kernel, const RengaTensorSpec *x, double ratio)
{
  const RengaAttributes *attributes = kernel->call.attributes;
  int batch_dim = (int)RengaAttributesInt(attributes, "batch_dim", 0);
  if (batch_dim < 0 || batch_dim >= x->ndim) return RENGA_SUCCESS;
  Dropout_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->before = RengaOpProduct(x, 0, batch_dim);
  s->batch = x->dim[batch_dim];
  s->after = RengaOpProduct(x, batch_dim + 1, x->ndim);
  s->factor = RengaAttributesInt(attributes, "batch_factor", 1);
  s->count = RengaTensorSpecCount(x);
  s->key = RengaAttributesInt(attributes, "key", 0);
  s->ratio = (float)ratio;
  kernel->run = DropoutRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode DropoutCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  RengaCall(CreateDraws(kernel, &call->in[0], RengaAttributesReal(call->attributes, "ratio", 0.5)));
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RandomUniformCreate_Cpu(RengaKernel kernel)
{
  if (!RengaCpuAllFloats(&kernel->call, 0)) return RENGA_SUCCESS;
  RengaCall(CreateDraws(kernel, &kernel->call.out[0], 0));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuDropout)[] = {
    {"Dropout", DropoutCreate_Cpu},
    {"RandomUniform", RandomUniformCreate_Cpu},
    {NULL, NULL},
};
