/* Attention of the cuda device, and its gradient. */
#include "cuda.h"
#include "renga/private/op.h"
#include <math.h>

/* Strides of the mask over the leading dimensions, queries and keys; 0 where it is broadcast. */
static void FindMaskStrides_Cuda(const RengaTensorSpec *mask, RengaCudaAttention *s)
{
  int64_t size = 1;
  for (int d = s->dimensions + 1; d >= 0; d--) {
    const int own = d - (s->dimensions + 2 - mask->ndim);
    const int64_t extent = own >= 0 ? mask->dim[own] : 1, stride = extent == 1 ? 0 : size;
    size *= extent;
    if (d < s->dimensions)
      s->mask_stride[d] = stride;
    else
      *(d == s->dimensions ? &s->mask_row : &s->mask_column) = stride;
  }
}

static RengaCudaHeads HeadsAt_Cuda(const RengaOpRows *rows)
{
  return (RengaCudaHeads){rows->first, rows->sample, rows->head, rows->row, rows->share};
}

/* mask: which input it is. */
static RengaCudaAttention ShapeOfAttention_Cuda(const RengaOpCall *call, const RengaOpHeads *heads,
                                                int mask)
{
  RengaCudaAttention s = {.heads = heads->samples * heads->heads,
                          .heads_of_sample = heads->heads,
                          .queries = heads->queries,
                          .keys = heads->keys,
                          .width = heads->width,
                          .values = heads->values,
                          .q = HeadsAt_Cuda(&heads->q),
                          .k = HeadsAt_Cuda(&heads->k),
                          .v = HeadsAt_Cuda(&heads->v),
                          .o = HeadsAt_Cuda(&heads->o),
                          .scale = (float)RengaOpCallReal(call, "scale"),
                          .ratio = (float)RengaOpCallReal(call, "ratio"),
                          .causal = RengaOpCallInt(call, "causal") != 0,
                          .dimensions = heads->dimensions,
                          .batch_dimension = (int)RengaOpCallInt(call, "batch_dim"),
                          .batch_factor = RengaOpCallInt(call, "batch_factor"),
                          .key = RengaOpCallInt(call, "key")};
  if (s.scale == 0) s.scale = (float)(1 / sqrt((double)s.width));
  for (int d = 0; d < s.dimensions; d++) s.extent[d] = heads->extent[d];
  if (RengaOpCallHasInput(call, mask)) FindMaskStrides_Cuda(&call->in[mask], &s);
  return s;
}

/* Bytes of count numbers, so that others may stand behind. */
static size_t RoomFor_Cuda(int64_t count, size_t size)
{
  return ((size_t)count * size + 63) / 64 * 64;
}

/* What the gradient works in: see RengaCudaAttention. */
static size_t WorkspaceOfAttention_Cuda(const RengaOpCall *call, const RengaCudaAttention *s)
{
  const size_t delta = 3 * RoomFor_Cuda(s->heads * s->queries, sizeof(float));
  const int mask = RengaOpGradientOf(call, 1, 3);
  if (call->n_out <= mask || call->out[mask].ndim < 0 || (s->mask_row && s->mask_column))
    return delta;
  const int64_t results = RengaTensorSpecCount(&call->out[mask]);
  const int64_t terms = (s->mask_row ? 1 : s->queries) * (s->mask_column ? 1 : s->keys);
  return delta + RoomFor_Cuda(results * terms, sizeof(float)) +
         RoomFor_Cuda(results * RengaCudaPieces_Private(terms, RENGA_CUDA_TERMS_ACROSS),
                      sizeof(double));
}

/* Of nothing, of very wide heads, and of queries in token lanes, the host computes it. */
static RengaErrorCode CreateAttention_Cuda(RengaKernel kernel, int first, int mask)
{
  const RengaOpCall *call = &kernel->call;
  const RengaCudaFamilies *run = &RengaCudaModuleOf_Private(kernel)->run;
  if (!RengaCudaAllFloats_Private(call)) return RENGA_SUCCESS;
  RengaOpHeads heads;
  RengaCall(RengaOpGetHeads(call, first, &heads));
  const RengaCudaAttention s = ShapeOfAttention_Cuda(call, &heads, mask);
  if (s.heads * s.queries * s.keys == 0 || s.width * s.values == 0 ||
      RengaOpCallInt(call, "first") > 0 || s.width > RENGA_CUDA_ATTENTION_WIDTH ||
      s.values > RENGA_CUDA_ATTENTION_WIDTH)
    return RENGA_SUCCESS;
  RengaCall(RengaCudaCreateShaped_Private(kernel, first ? run->attentiongrad : run->attention,
                                          sizeof s, &s));
  RengaCudaMapInput_Private(kernel, first + 1, first + heads.k.tensor);
  RengaCudaMapInput_Private(kernel, first + 2, first + heads.v.tensor);
  if (!first) return RENGA_SUCCESS;
  RengaCudaMapOutput_Private(kernel, 1, RengaOpGradientOf(call, first, heads.k.tensor));
  RengaCudaMapOutput_Private(kernel, 2, RengaOpGradientOf(call, first, heads.v.tensor));
  RengaCudaMapOutput_Private(kernel, 3, RengaOpGradientOf(call, first, 3));
  kernel->workspace = WorkspaceOfAttention_Cuda(call, &s);
  return RENGA_SUCCESS;
}

static RengaErrorCode AttentionCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateAttention_Cuda(kernel, 0, 3));
  return RENGA_SUCCESS;
}

static RengaErrorCode AttentionGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateAttention_Cuda(kernel, 1, 6));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaAttentionRows[] = {
    {"Attention", AttentionCreate_Cuda},
    {"AttentionGrad", AttentionGradCreate_Cuda},
    {"PackedAttention", AttentionCreate_Cuda},
    {"PackedAttentionGrad", AttentionGradCreate_Cuda},
    {NULL, NULL},
};
