/* Operators of the cuda device that only move elements, of any type: each is one strided copy per
   input or output. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

/* Copy i goes to output i where split, else it comes from input i. */
typedef struct {
  bool fill, split; /* fill: the output gets `bits` first */
  uint64_t bits;
  int count;
  RengaCudaMove copy[];
} CudaMove;

static RengaErrorCode MoveRun_Cuda(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const CudaMove *s = kernel->data;
  void *queue = RengaCudaStream_Private(kernel->device, stream);
  (void)context;
  (void)workspace;
  if (s->fill)
    RENGA_CALL_CUDA(kernel->device,
                    module_->each.fill(queue, s->copy[0].size, s->bits,
                                       RengaTensorSpecCount(&kernel->call.out[0]), out[0]));
  for (int i = 0; i < s->count; i++) {
    void *to = out[s->split ? i : 0];
    if (to)
      RENGA_CALL_CUDA(kernel->device,
                      module_->each.move(queue, &s->copy[i], in[s->split ? 0 : i], to));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateMove_Cuda(RengaKernel kernel, int count, CudaMove **move)
{
  char *memory = NULL;
  RengaCall(RengaMalloc(sizeof(CudaMove) + (size_t)count * sizeof(RengaCudaMove), &memory));
  CudaMove *s = (CudaMove *)(void *)memory;
  s->count = count;
  for (int i = 0; i < count; i++)
    s->copy[i].size = (int)RengaDataTypeSize(kernel->call.out[0].type);
  kernel->data = s;
  kernel->destroy = RengaCudaFreeData_Private;
  kernel->run = MoveRun_Cuda;
  *move = s;
  return RENGA_SUCCESS;
}

/* Drops dimensions of extent 1, joins neighbours that are one run on both sides, and counts. */
static void FinishMove_Cuda(RengaCudaMove *c)
{
  int kept = 0;
  c->count = 1;
  for (int d = 0; d < c->dimensions; d++) c->count *= c->extent[d];
  if (c->count == 0) return;
  for (int d = 0; d < c->dimensions; d++) {
    if (c->extent[d] == 1) continue;
    const bool join = kept > 0 && c->from[kept - 1] == c->from[d] * c->extent[d] &&
                      c->to[kept - 1] == c->to[d] * c->extent[d];
    const int64_t extent = join ? c->extent[kept - 1] * c->extent[d] : c->extent[d];
    if (!join) kept++;
    c->extent[kept - 1] = extent;
    c->from[kept - 1] = c->from[d];
    c->to[kept - 1] = c->to[d];
  }
  c->dimensions = kept;
}

/* Strides of a contiguous tensor. */
static void FindContiguous_Cuda(const RengaTensorSpec *spec, int64_t stride[])
{
  int64_t size = 1;
  for (int d = spec->ndim - 1; d >= 0; d--) {
    stride[d] = size;
    size *= spec->dim[d];
  }
}

static RengaErrorCode ExpandCreate_Cuda(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  CudaMove *s;
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(CreateMove_Cuda(kernel, 1, &s));
  RengaCudaMove *c = s->copy;
  int64_t stride[RENGA_MAX_DIM];
  FindContiguous_Cuda(x, stride);
  FindContiguous_Cuda(y, c->to);
  c->dimensions = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    const int own = d - (y->ndim - x->ndim);
    c->extent[d] = y->dim[d];
    c->from[d] = own >= 0 && x->dim[own] != 1 ? stride[own] : 0;
  }
  FinishMove_Cuda(c);
  return RENGA_SUCCESS;
}

/* Each dimension becomes two: the repeats and the elements. */
static RengaErrorCode TileCreate_Cuda(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  CudaMove *s;
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(CreateMove_Cuda(kernel, 1, &s));
  RengaCudaMove *c = s->copy;
  int64_t from[RENGA_MAX_DIM], to[RENGA_MAX_DIM];
  FindContiguous_Cuda(x, from);
  FindContiguous_Cuda(y, to);
  c->dimensions = 2 * y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    c->extent[2 * d] = x->dim[d] ? y->dim[d] / x->dim[d] : 0;
    c->from[2 * d] = 0;
    c->to[2 * d] = to[d] * x->dim[d];
    c->extent[2 * d + 1] = x->dim[d];
    c->from[2 * d + 1] = from[d];
    c->to[2 * d + 1] = to[d];
  }
  FinishMove_Cuda(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode TransposeCreate_Cuda(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  CudaMove *s;
  int count = 0;
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(CreateMove_Cuda(kernel, 1, &s));
  RengaCudaMove *c = s->copy;
  const int64_t *perm = RengaOpCallInts(&kernel->call, "perm", &count);
  int64_t from[RENGA_MAX_DIM];
  FindContiguous_Cuda(x, from);
  FindContiguous_Cuda(y, c->to);
  c->dimensions = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    c->extent[d] = y->dim[d];
    c->from[d] = from[count ? perm[d] : x->ndim - 1 - d];
  }
  FinishMove_Cuda(c);
  return RENGA_SUCCESS;
}

/* large is sliced; the copy goes from it, or for the gradient to it. */
static RengaErrorCode CreateSlice_Cuda(RengaKernel kernel, const RengaTensorSpec *large,
                                       const RengaTensorSpec *small, bool gradient)
{
  CudaMove *s;
  RengaOpSlice slice;
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(RengaOpGetSlice(&kernel->call, large, &slice));
  RengaCall(CreateMove_Cuda(kernel, 1, &s));
  RengaCudaMove *c = s->copy;
  int64_t stride[RENGA_MAX_DIM];
  FindContiguous_Cuda(large, stride);
  int64_t *of_large = gradient ? c->to : c->from, *of_small = gradient ? c->from : c->to;
  int64_t *offset = gradient ? &c->to_offset : &c->from_offset;
  FindContiguous_Cuda(small, of_small);
  c->dimensions = large->ndim;
  for (int d = 0; d < large->ndim; d++) {
    c->extent[d] = small->dim[d];
    of_large[d] = stride[d] * slice.step[d];
    *offset += stride[d] * slice.begin[d];
  }
  s->fill = gradient;
  FinishMove_Cuda(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSlice_Cuda(kernel, &kernel->call.in[0], &kernel->call.out[0], false));
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSlice_Cuda(kernel, &kernel->call.out[0], &kernel->call.in[0], true));
  return RENGA_SUCCESS;
}

/* What padded and bare have in common is copied; other elements of the target are filled. Modes
   that repeat elements are the host's. */
static RengaErrorCode CreatePad_Cuda(RengaKernel kernel, const RengaTensorSpec *bare,
                                     const RengaTensorSpec *padded, bool gradient, uint64_t bits)
{
  CudaMove *s;
  RengaOpPad pad;
  const char *mode = RengaOpCallString(&kernel->call, "mode");
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  if (mode[0] != '\0' && strcmp(mode, "constant") != 0) return RENGA_SUCCESS;
  RengaCall(RengaOpGetPad(&kernel->call, bare->ndim, &pad));
  RengaCall(CreateMove_Cuda(kernel, 1, &s));
  RengaCudaMove *c = s->copy;
  int64_t *of_bare = gradient ? c->to : c->from, *of_padded = gradient ? c->from : c->to;
  int64_t *bare_offset = gradient ? &c->to_offset : &c->from_offset;
  int64_t *padded_offset = gradient ? &c->from_offset : &c->to_offset;
  FindContiguous_Cuda(bare, of_bare);
  FindContiguous_Cuda(padded, of_padded);
  c->dimensions = bare->ndim;
  for (int d = 0; d < bare->ndim; d++) {
    const int64_t before = pad.before[d], first = before < 0 ? -before : 0;
    int64_t end = padded->dim[d] - before < bare->dim[d] ? padded->dim[d] - before : bare->dim[d];
    c->extent[d] = end > first ? end - first : 0;
    *bare_offset += first * of_bare[d];
    *padded_offset += (first + before) * of_padded[d];
  }
  s->fill = true;
  s->bits = bits;
  FinishMove_Cuda(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode PadCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const double value = RengaOpCallReal(call, "value");
  if (value != 0 && !RengaCudaIsFloat_Private(&call->in[0])) return RENGA_SUCCESS;
  const uint64_t bits = value != 0 ? RengaCudaBits_Private(call->in[0].type, value) : 0;
  RengaCall(CreatePad_Cuda(kernel, &call->in[0], &call->out[0], false, bits));
  return RENGA_SUCCESS;
}

static RengaErrorCode PadGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreatePad_Cuda(kernel, &kernel->call.out[0], &kernel->call.in[0], true, 0));
  return RENGA_SUCCESS;
}

/* Parts lie side by side along an axis of the whole. */
static RengaErrorCode CreateParts_Cuda(RengaKernel kernel, const RengaTensorSpec *whole, int count,
                                       const RengaTensorSpec parts[], bool split)
{
  int axis = 0;
  CudaMove *s;
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(&kernel->call, "axis", whole->ndim, &axis));
  RengaCall(CreateMove_Cuda(kernel, count, &s));
  s->split = split;
  const int64_t inner = RengaOpProduct(whole, axis, whole->ndim);
  int64_t offset = 0;
  for (int i = 0; i < count; i++) {
    RengaCudaMove *c = &s->copy[i];
    const int64_t length = RengaOpProduct(&parts[i], axis, parts[i].ndim);
    c->dimensions = 2;
    c->extent[0] = RengaOpProduct(whole, 0, axis);
    c->extent[1] = length;
    c->from[1] = c->to[1] = 1;
    c->from[0] = split ? inner : length;
    c->to[0] = split ? length : inner;
    *(split ? &c->from_offset : &c->to_offset) = offset;
    offset += length;
    FinishMove_Cuda(c);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ConcatCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateParts_Cuda(kernel, &call->out[0], call->n_in, call->in, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateParts_Cuda(kernel, &call->in[0], call->n_out, call->out, true));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaMoveRows[] = {
    {"Expand", ExpandCreate_Cuda},       {"Tile", TileCreate_Cuda},
    {"Transpose", TransposeCreate_Cuda}, {"Slice", SliceCreate_Cuda},
    {"SliceGrad", SliceGradCreate_Cuda}, {"Pad", PadCreate_Cuda},
    {"PadGrad", PadGradCreate_Cuda},     {"Concat", ConcatCreate_Cuda},
    {"Split", SplitCreate_Cuda},         {NULL, NULL},
};
