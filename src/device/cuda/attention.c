/* Attention of the cuda device, and its gradient. */
#include "cuda.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

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

/* Where a mask that goes to cuDNN stands in the workspace, and what belongs to it: bytes. */
typedef struct {
  size_t mask, most, whole, all;
} CudaMaskRoom;

static CudaMaskRoom MaskRoom_Cuda(const RengaCudaAttention *s, const RengaTensorSpec *mask)
{
  const int64_t count = mask ? RengaTensorSpecCount(mask) : 0, queries = s->heads * s->queries;
  CudaMaskRoom room = {.mask = RoomFor_Cuda(queries, sizeof(float))};
  room.most = room.mask + RoomFor_Cuda(count, sizeof(float));
  room.whole = room.most + RoomFor_Cuda(count / s->keys, sizeof(float));
  room.all = room.whole + (mask ? RoomFor_Cuda(queries, sizeof(float)) : 0);
  return room;
}

static const RengaTensorSpec *MaskOf_Cuda(const RengaOpCall *call, int first)
{
  const int mask = first ? 6 : 3;
  return RengaOpCallHasInput(call, mask) ? &call->in[mask] : NULL;
}

/* Has cuDNN these types? All are of one of 16 bits, but log-sum-exps and the mask. */
static bool HasTypes_Cuda(const RengaOpCall *call, int first)
{
  const RengaDataType type = call->in[first].type;
  for (int i = 0; i < (first ? 5 : 3) && i < call->n_in; i++)
    if (call->in[i].ndim >= 0 && call->in[i].type != type) return false;
  for (int o = 0; o < (first ? call->n_out : 1); o++)
    if (call->out[o].ndim >= 0 && call->out[o].type != type) return false;
  const RengaTensorSpec *sums = first ? &call->in[5] : &call->out[1];
  const bool wide = (!first && call->n_out < 2) || sums->ndim < 0 || sums->type == RENGA_FLOAT32;
  return RengaDeviceIsLow(type) && wide;
}

/* Without dropout; of masks those that have a row of all keys, whose gradient nobody wants. false:
   it is no task for cuDNN. */
static bool TaskOfAttention_Cuda(const RengaOpCall *call, const RengaOpHeads *heads, int first,
                                 const RengaCudaAttention *s, RengaCudnnTask *task)
{
  const RengaTensorSpec *mask = MaskOf_Cuda(call, first);
  const RengaDataType type = call->in[first].type;
  if (!HasTypes_Cuda(call, first) || s->ratio > 0) return false;
  if (mask && (s->causal || s->mask_column == 0 || s->dimensions != 2)) return false;
  if (mask && first && call->n_out > RengaOpGradientOf(call, first, 3) &&
      call->out[RengaOpGradientOf(call, first, 3)].ndim >= 0)
    return false;
  *task = (RengaCudnnTask){.kind = first ? RENGA_CUDNN_ATTENTION_GRAD : RENGA_CUDNN_ATTENTION,
                           .type = RengaCudaTypeOf_Private(type),
                           .samples = heads->samples,
                           .heads = heads->heads,
                           .queries = s->queries,
                           .keys = s->keys,
                           .width = s->width,
                           .values = s->values,
                           .causal = s->causal,
                           .masked = mask != NULL,
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
  const int64_t stride[] = {s->mask_stride[0], s->mask_stride[1], s->mask_row, s->mask_column};
  if (mask) memcpy(task->mask_stride, stride, sizeof stride);
  return true;
}

static RengaCudaOperand At_CudaMask(void *workspace, size_t at)
{
  return (RengaCudaOperand){(char *)workspace + at, RENGA_CUDA_FLOAT32};
}

/* The shape again, which own kernels have: first, as of the kernel's operator. */
static RengaErrorCode ShapeOfMasked_Cuda(const RengaOpCall *call, int first, RengaOpHeads *heads,
                                         RengaCudaAttention *s, CudaMaskRoom *room)
{
  RengaCall(RengaOpGetHeads(call, first, heads));
  *s = ShapeOfAttention_Cuda(call, heads, first ? 6 : 3);
  *room = MaskRoom_Cuda(s, MaskOf_Cuda(call, first));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareMask_Cuda(RengaKernel kernel, RengaStream stream, int first,
                                       const void *const in[], void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  const int mask = first ? 6 : 3;
  RengaOpHeads heads;
  RengaCudaAttention s;
  CudaMaskRoom room;
  RengaCall(ShapeOfMasked_Cuda(call, first, &heads, &s, &room));
  const RengaCudaOperand from[RENGA_CUDA_ARGUMENTS] = {
      RengaCudaOperand_Private(&call->in[mask], in[mask])};
  const RengaCudaOperand to[RENGA_CUDA_ARGUMENTS] = {At_CudaMask(workspace, room.mask),
                                                     At_CudaMask(workspace, room.most)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->run.preparemask(RengaCudaStream_Private(kernel->device, stream), &s,
                                           NULL, from, to, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeforeMasked_Cuda(RengaKernel kernel, RengaStream stream,
                                        const void *const in[], void *workspace, void *const out[])
{
  (void)out;
  RengaCall(PrepareMask_Cuda(kernel, stream, 0, in, workspace));
  return RENGA_SUCCESS;
}

static RengaErrorCode AfterMasked_Cuda(RengaKernel kernel, RengaStream stream,
                                       const void *const in[], void *workspace, void *const out[])
{
  const RengaOpCall *call = &kernel->call;
  const bool wanted = call->n_out > 1 && out[1];
  RengaOpHeads heads;
  RengaCudaAttention s;
  CudaMaskRoom room;
  (void)in;
  RengaCall(ShapeOfMasked_Cuda(call, 0, &heads, &s, &room));
  const RengaCudaOperand from[RENGA_CUDA_ARGUMENTS] = {At_CudaMask(workspace, room.most)};
  const RengaCudaOperand to[RENGA_CUDA_ARGUMENTS] = {
      RengaCudaOperand_Private(&call->out[0], out[0]),
      wanted ? (RengaCudaOperand){out[1], RENGA_CUDA_FLOAT32} : At_CudaMask(workspace, 0)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->run.finishmasked(RengaCudaStream_Private(kernel->device, stream), &s,
                                            NULL, from, to, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeforeMaskedGrad_Cuda(RengaKernel kernel, RengaStream stream,
                                            const void *const in[], void *workspace,
                                            void *const out[])
{
  static const RengaKernelContext none = {.samples = 1};
  const RengaOpCall *call = &kernel->call;
  RengaOpHeads heads;
  RengaCudaAttention s;
  CudaMaskRoom room;
  (void)out;
  RengaCall(PrepareMask_Cuda(kernel, stream, 1, in, workspace));
  RengaCall(ShapeOfMasked_Cuda(call, 1, &heads, &s, &room));
  const RengaCudaContext context = RengaCudaContextOf_Private(kernel->device, &none);
  const int k = 1 + heads.k.tensor, v = 1 + heads.v.tensor;
  const RengaCudaOperand from[RENGA_CUDA_ARGUMENTS] = {
      RengaCudaOperand_Private(&call->in[1], in[1]),
      RengaCudaOperand_Private(&call->in[k], in[k]),
      RengaCudaOperand_Private(&call->in[v], in[v]),
      At_CudaMask(workspace, room.mask),
      At_CudaMask(workspace, room.most),
      RengaCudaOperand_Private(&call->in[5], in[5])};
  const RengaCudaOperand to[RENGA_CUDA_ARGUMENTS] = {At_CudaMask(workspace, room.whole)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->run.preparesums(RengaCudaStream_Private(kernel->device, stream), &s,
                                           &context, from, to, NULL));
  return RENGA_SUCCESS;
}

static CudaOperandPlace PlaceOf_Cuda(CudaOperandFrom from, int tensor, int64_t first)
{
  return (CudaOperandPlace){from, tensor, (size_t)first * sizeof(uint16_t)};
}

static CudaOperandPlace InWorkspace_Cuda(size_t at)
{
  return (CudaOperandPlace){CUDA_OPERAND_WORKSPACE, 0, at};
}

/* Log-sum-exps that nobody wants, and what the gradient works in, stand in the workspace. */
static RengaErrorCode OfferAttention_Cuda(RengaKernel kernel, const RengaOpHeads *heads, int first,
                                          const RengaCudaAttention *s)
{
  const RengaOpCall *call = &kernel->call;
  RengaCudnnTask task;
  const RengaTensorSpec *mask = MaskOf_Cuda(call, first);
  const CudaMaskRoom room = MaskRoom_Cuda(s, mask);
  CudaOperands operands = {.workspace = room.all};
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
    place[RENGA_CUDNN_DELTA] = InWorkspace_Cuda(0);
    if (mask) place[RENGA_CUDNN_WHOLE] = InWorkspace_Cuda(room.whole);
    if (mask) operands.before = BeforeMaskedGrad_Cuda;
  } else {
    const bool wanted = call->n_out > 1 && call->out[1].ndim >= 0;
    place[RENGA_CUDNN_O] = PlaceOf_Cuda(CUDA_OPERAND_OUTPUT, 0, 0);
    place[RENGA_CUDNN_WHOLE] =
        wanted ? PlaceOf_Cuda(CUDA_OPERAND_OUTPUT, 1, 0) : InWorkspace_Cuda(0);
    if (mask) operands.before = BeforeMasked_Cuda;
    if (mask) operands.after = AfterMasked_Cuda;
  }
  if (mask) place[RENGA_CUDNN_MASK] = InWorkspace_Cuda(room.mask);
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
