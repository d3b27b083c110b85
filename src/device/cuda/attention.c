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

/* Of 16 bits without dropout; a mask in token lanes, or of other numbers of dimensions, is left to
   own kernels. false: it is no task for cuDNN. */
static bool TaskOfAttention_Cuda(const RengaOpCall *call, const RengaOpHeads *heads, int first,
                                 const RengaCudaAttention *s, RengaCudnnTask *task)
{
  const RengaDataType type = call->in[first].type;
  const int whole = first ? 5 : 1;
  const RengaTensorSpec *sums = first ? &call->in[whole] : &call->out[whole];
  if (!RengaDeviceIsLow(type) || s->ratio > 0 || RengaOpCallHasInput(call, first ? 6 : 3))
    return false;
  for (int i = 0; i < call->n_in; i++)
    if (i != whole && call->in[i].ndim >= 0 && call->in[i].type != type) return false;
  for (int o = 0; o < (first ? call->n_out : 1); o++)
    if (call->out[o].ndim >= 0 && call->out[o].type != type) return false;
  if ((first || call->n_out > 1) && sums->ndim >= 0 && sums->type != RENGA_FLOAT32) return false;
  *task = (RengaCudnnTask){.kind = first ? RENGA_CUDNN_ATTENTION_GRAD : RENGA_CUDNN_ATTENTION,
                           .type = RengaCudaTypeOf_Private(type),
                           .samples = heads->samples,
                           .heads = heads->heads,
                           .queries = s->queries,
                           .keys = s->keys,
                           .width = s->width,
                           .values = s->values,
                           .causal = s->causal,
                           .rows = {s->q, s->k, s->v, s->o},
                           .scale = (double)s->scale};
  const bool plain = heads->heads == 1 && heads->dimensions > 1; /* heads stand among the samples */
  if (plain) task->heads = heads->extent[heads->dimensions - 1];
  if (plain) task->samples /= task->heads;
  for (int r = 0; r < 4; r++) {
    if (plain) task->rows[r].head = task->rows[r].sample;
    if (plain) task->rows[r].sample *= task->heads;
    if (task->rows[r].first * (int64_t)RengaDataTypeSize(type) % 16 != 0) return false;
    task->rows[r].first = 0;
  }
  return true;
}

static CudaOperandPlace PlaceOf_Cuda(CudaOperandFrom from, int tensor, int64_t first)
{
  return (CudaOperandPlace){from, tensor, (size_t)first * sizeof(uint16_t)};
}

/* Log-sum-exps that nobody wants, and what the gradient works in, stand in the workspace. */
static RengaErrorCode OfferAttention_Cuda(RengaKernel kernel, const RengaOpHeads *heads, int first,
                                          const RengaCudaAttention *s)
{
  const RengaOpCall *call = &kernel->call;
  RengaCudnnTask task;
  CudaOperands operands = {.workspace = RoomFor_Cuda(s->heads * s->queries, sizeof(float))};
  CudaOperandPlace *place = operands.place;
  if (!TaskOfAttention_Cuda(call, heads, first, s, &task)) return RENGA_SUCCESS;
  const RengaOpRows *rows[] = {&heads->q, &heads->k, &heads->v};
  for (int r = 0; r < 3; r++) {
    const int tensor = first + rows[r]->tensor;
    place[RENGA_CUDNN_Q + r] = PlaceOf_Cuda(CUDA_OPERAND_INPUT, tensor, rows[r]->first);
    if (first)
      place[RENGA_CUDNN_DQ + r] = PlaceOf_Cuda(
          CUDA_OPERAND_OUTPUT, RengaOpGradientOf(call, first, rows[r]->tensor), rows[r]->first);
  }
  if (first) {
    place[RENGA_CUDNN_DO] = PlaceOf_Cuda(CUDA_OPERAND_INPUT, 0, 0);
    place[RENGA_CUDNN_O] = PlaceOf_Cuda(CUDA_OPERAND_INPUT, 4, 0);
    place[RENGA_CUDNN_WHOLE] = PlaceOf_Cuda(CUDA_OPERAND_INPUT, 5, 0);
    place[RENGA_CUDNN_DELTA] = PlaceOf_Cuda(CUDA_OPERAND_WORKSPACE, 0, 0);
  } else {
    const bool wanted = call->n_out > 1 && call->out[1].ndim >= 0;
    place[RENGA_CUDNN_O] = PlaceOf_Cuda(CUDA_OPERAND_OUTPUT, 0, 0);
    place[RENGA_CUDNN_WHOLE] =
        PlaceOf_Cuda(wanted ? CUDA_OPERAND_OUTPUT : CUDA_OPERAND_WORKSPACE, wanted, 0);
  }
  RengaCall(RengaCudnnOffer_Private(kernel, &task, &operands));
  return RENGA_SUCCESS;
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
  if (first) {
    RengaCudaMapOutput_Private(kernel, 1, RengaOpGradientOf(call, first, heads.k.tensor));
    RengaCudaMapOutput_Private(kernel, 2, RengaOpGradientOf(call, first, heads.v.tensor));
    RengaCudaMapOutput_Private(kernel, 3, RengaOpGradientOf(call, first, 3));
    kernel->workspace = WorkspaceOfAttention_Cuda(call, &s);
  }
  RengaCall(OfferAttention_Cuda(kernel, &heads, first, &s));
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
