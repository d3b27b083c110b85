/* Products of 8 bits by cuBLASLt, of Linear and its gradients: factors are rounded to bytes in the
   workspace, where terms of the sums follow each other, as the library asks for. What it does not
   take is a product of bfloat16 (src/device/round.c). */
#include "cuda.h"
#include <string.h>

enum { ALIGNED = 64, UNIT = 16 }; /* extents are multiples of the unit */

/* a, b: numbers of the kernel's inputs. Of factors a and b: the format, whether columns become
   rows, and where their bytes are in the workspace. bias: the same of a bias that is rounded to
   y's type; sums: of the parts of the terms. The plan stands behind. */
typedef struct {
  int a, b;
  bool rounds, turned[2];
  RengaFp8 format[2];
  size_t bytes[2], bias, sums;
  int64_t parts;
  _Alignas(64) char plan[];
} CudaEights;

static RengaErrorCode RoundFactor_Cuda(RengaKernel kernel, RengaStream stream, int factor,
                                       const void *x, char *bytes)
{
  const CudaEights *s = kernel->data;
  const RengaTensorSpec *spec = &kernel->call.in[factor ? s->b : s->a];
  const int64_t columns = spec->dim[spec->ndim - 1];
  const RengaCudaRounding rounding = {.format = s->format[factor],
                                      .turned = s->turned[factor],
                                      .rows = RengaTensorSpecCount(spec) / columns,
                                      .columns = columns,
                                      .x = RengaCudaOperand_Private(spec, x),
                                      .y = {bytes, RENGA_CUDA_NO_TYPE},
                                      .most = (uint32_t *)(void *)(bytes - RENGA_CUDA_SCALES)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->round(RengaCudaStream_Private(kernel->device, stream), &rounding));
  return RENGA_SUCCESS;
}

static RengaErrorCode EightsRun_Cuda(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  CudaEights *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  char *memory = workspace, *a = memory + s->bytes[0], *b = memory + s->bytes[1];
  const void *bias = call->n_in > 2 ? in[2] : NULL;
  (void)context;
  RengaCall(RoundFactor_Cuda(kernel, stream, 0, in[s->a], a));
  RengaCall(RoundFactor_Cuda(kernel, stream, 1, in[s->b], b));
  if (s->rounds) {
    const RengaCudaOperand to = RengaCudaOperand_Private(&call->out[0], memory + s->bias);
    RENGA_CALL_CUDA(kernel->device,
                    module_->convert(RengaCudaStream_Private(kernel->device, stream),
                                     RengaTensorSpecCount(&call->in[2]),
                                     RengaCudaOperand_Private(&call->in[2], bias), to));
    bias = to.data;
  }
  RengaCall(RengaCudaPlanRun_Private(kernel->device, stream, s->plan, a, b, bias,
                                     s->parts > 1 ? memory + s->sums : out[0]));
  if (s->parts > 1)
    RengaCall(RengaCudaAddParts_Private(kernel, stream, s->parts, memory + s->sums, &call->out[0],
                                        out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode EightsDestroy_Cuda(RengaKernel kernel)
{
  CudaEights *s = kernel->data;
  RengaCall(RengaCudaPlanDestroy_Private(kernel->device, s->plan));
  RengaCall(RengaCudaFreeData_Private(kernel));
  return RENGA_SUCCESS;
}

/* A bias is bfloat16, as y is. */
static bool HasEights(const RengaOpCall *call, const RengaCudaProduct *p)
{
  const RengaDataType y = call->out[0].type;
  return p->m % UNIT == 0 && p->n % UNIT == 0 && p->k % UNIT == 0 && p->m * p->n * p->k > 0 &&
         (y == RENGA_BFLOAT16 || (y == RENGA_FLOAT32 && !p->bias)) &&
         RengaCudaIsFloat_Private(&call->in[0]) && RengaCudaIsFloat_Private(&call->in[1]);
}

static size_t RoundUp_Cuda(size_t bytes)
{
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Places in the workspace; formats and turns as the product is asked for. */
static void LayOutEights(const RengaOpCall *call, const RengaCudaProduct *p, CudaEights *s,
                         size_t *workspace)
{
  RengaFp8 format[2];
  RengaOpCallFormats_Private(call, format);
  for (int f = 0; f < 2; f++) {
    const int input = f ? s->b : s->a;
    s->format[f] = format[input];
    s->turned[f] = f ? !p->trans_b : p->trans_a != 0;
    s->bytes[f] = *workspace + RENGA_CUDA_SCALES;
    *workspace = RoundUp_Cuda(s->bytes[f] + (size_t)RengaTensorSpecCount(&call->in[input]));
  }
  s->bias = s->sums = *workspace;
  s->rounds = p->bias && call->in[2].type != call->out[0].type;
  if (s->rounds) *workspace += RoundUp_Cuda((size_t)p->n * RengaDataTypeSize(call->out[0].type));
}

RengaErrorCode RengaCudaCreateEights_Private(RengaKernel kernel, RengaCudaProduct p, int a, int b)
{
  const RengaOpCall *call = &kernel->call;
  char *memory;
  size_t workspace = 0;
  if (!HasEights(call, &p)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(sizeof(CudaEights) + RengaCudaPlanBytes_Private(kernel->device), &memory));
  CudaEights *s = (CudaEights *)(void *)memory;
  *s = (CudaEights){.a = a, .b = b, .parts = 1};
  LayOutEights(call, &p, s, &workspace);
  p.trans_a = false;
  p.trans_b = true;
  p.lda = p.ldb = p.k;
  p.eights = true;
  p.result = RengaCudaTypeOf_Private(call->out[0].type);
  p.factors = RENGA_CUDA_BFLOAT16; /* of alignments and advice */
  for (int f = 0; f < 2; f++) p.format[f] = (int)s->format[f];
  if (strcmp(call->op->name, "LinearGradWeight") == 0) s->parts = RengaCudaFindParts_Private(&p, 1);
  if (s->parts > 1) {
    workspace += (size_t)(s->parts * p.m * p.n) * sizeof(float);
    RengaCudaCutTerms_Private(&p, s->parts);
    p.result = RENGA_CUDA_FLOAT32;
  }
  bool found = false;
  const RengaErrorCode code = RengaCudaPlanTry_Private(kernel->device, &p, s->plan, &found);
  if (code || !found) RengaFree(&memory);
  RengaCall(code);
  if (!found) return RENGA_SUCCESS;
  kernel->workspace = workspace;
  kernel->data = s;
  kernel->run = EightsRun_Cuda;
  kernel->destroy = EightsDestroy_Cuda;
  return RENGA_SUCCESS;
}
