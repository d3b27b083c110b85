/* Dropout: the same numbers as on any other device and layout. */
#include "cpu.h"
#include "random.h"
#include "renga/private/op.h"
#include <string.h>

/* x is [before, samples * factor, after]; an element's number in its sample is its place in
   [before, factor, after]. */
typedef struct {
  int64_t before, batch, factor, after, count, key;
  float ratio;
} Dropout;

static void DropoutPiece(const Dropout *s, const RengaDropout *dropout, int64_t first_sample,
                         int64_t first, int64_t last, const float *x, float *y)
{
  int64_t run = s->factor * s->after; /* neighbours of one sample */
  for (int64_t at = first; at < last;) {
    int64_t row = at / run, in_run = at % run, here = RengaCpuSmaller(run - in_run, last - at);
    int64_t samples = s->batch / s->factor, sample = row % samples, before = row / samples;
    RengaCpuDropoutRun(dropout, s->ratio, first_sample + sample, before * run + in_run, here,
                       x + at, y + at);
    at += here;
  }
}

static RengaErrorCode DropoutRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  (void)stream;
  (void)workspace;
  const Dropout *s = kernel->data;
  RengaDropout dropout = RengaDropoutStart(context->seed, context->step, s->key);
  bool drop = context->training && s->ratio > 0;
  int64_t pieces = RengaCpuPieces(s->count, RENGA_CPU_PIECE);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * RENGA_CPU_PIECE,
            last = RengaCpuSmaller(s->count, first + RENGA_CPU_PIECE);
    const float *x = in[0];
    float *y = out[0];
    if (drop)
      DropoutPiece(s, &dropout, context->sample, first, last, x, y);
    else if (x != y)
      memcpy(y + first, x + first, (size_t)(last - first) * sizeof *y);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DropoutCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[0];
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32)) return RENGA_SUCCESS;
  int batch_dim = (int)RengaAttributesInt(call->attributes, "batch_dim", 0);
  if (batch_dim < 0 || batch_dim >= x->ndim) return RENGA_SUCCESS;
  Dropout *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->before = RengaOpProduct(x, 0, batch_dim);
  s->batch = x->dim[batch_dim];
  s->after = RengaOpProduct(x, batch_dim + 1, x->ndim);
  s->factor = RengaAttributesInt(call->attributes, "batch_factor", 1);
  s->count = RengaTensorSpecCount(x);
  s->key = RengaAttributesInt(call->attributes, "key", 0);
  s->ratio = (float)RengaAttributesReal(call->attributes, "ratio", 0.5);
  kernel->run = DropoutRun_Cpu;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuDropout)[] = {
    {"Dropout", DropoutCreate_Cpu},
    {NULL, NULL},
};
