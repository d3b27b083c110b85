/* Operators that only move elements, of any type: each is one strided copy per input or output. */
#include "copy.h"
#include "low.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  bool fill;  /* zero the output first */
  bool split; /* copy i goes to output i; else it comes from input i */
  int count;
  RengaCpuCopy copy[1];
} Move_Cpu;

static RengaErrorCode MoveRun_Cpu(RengaKernel kernel, RengaStream stream,
                                  const RengaKernelContext *context, const void *const in[],
                                  void *const out[], void *workspace)
{
  const Move_Cpu *s = kernel->data;
  size_t bytes = RengaTensorSpecBytes(&kernel->call.out[0]);
  if (s->fill && bytes) memset(out[0], 0, bytes);
  for (int i = 0; i < s->count; i++)
    RengaCpuCopyRun(kernel->device->threads, &s->copy[i], in[s->split ? 0 : i],
                    out[s->split ? i : 0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateMove(RengaKernel kernel, int count, Move_Cpu **move)
{
  char *bytes = NULL;
  RengaCall(RengaMalloc(sizeof(Move_Cpu) + (size_t)count * sizeof(RengaCpuCopy), &bytes));
  Move_Cpu *s = (Move_Cpu *)(void *)bytes;
  s->count = count;
  for (int i = 0; i < count; i++) s->copy[i].size = RengaDataTypeSize(kernel->call.out[0].type);
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  kernel->run = MoveRun_Cpu;
  *move = s;
  return RENGA_SUCCESS;
}

/* Strides of a contiguous tensor. */
static void Contiguous(const RengaTensorSpec *spec, int64_t stride[])
{
  int64_t size = 1;
  for (int d = spec->ndim - 1; d >= 0; d--) {
    stride[d] = size;
    size *= spec->dim[d];
  }
}

static RengaErrorCode ReshapeCreate_Cpu(RengaKernel kernel)
{
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  Move_Cpu *s = NULL;
  RengaCall(CreateMove(kernel, 1, &s));
  RengaCpuCopy *c = s->copy;
  c->n = 2; /* rows of a piece, so that threads share them */
  int64_t count = RengaTensorSpecCount(&kernel->call.out[0]);
  c->extent[0] = count % RENGA_CPU_PIECE == 0 ? count / RENGA_CPU_PIECE : 1;
  c->extent[1] = count % RENGA_CPU_PIECE == 0 ? RENGA_CPU_PIECE : count;
  c->from[0] = c->to[0] = c->extent[1];
  c->from[1] = c->to[1] = 1;
  RengaCpuCopyInit(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpandCreate_Cpu(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  Move_Cpu *s = NULL;
  RengaCall(CreateMove(kernel, 1, &s));
  RengaCpuCopy *c = s->copy;
  int64_t stride[RENGA_MAX_DIM];
  Contiguous(x, stride);
  Contiguous(y, c->to);
  c->n = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    int own = d - (y->ndim - x->ndim);
    c->extent[d] = y->dim[d];
    c->from[d] = own >= 0 && x->dim[own] != 1 ? stride[own] : 0;
  }
  RengaCpuCopyInit(c);
  return RENGA_SUCCESS;
}

/* Each dimension becomes two: the repeats and the elements. */
static RengaErrorCode TileCreate_Cpu(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  Move_Cpu *s = NULL;
  RengaCall(CreateMove(kernel, 1, &s));
  RengaCpuCopy *c = s->copy;
  int64_t from[RENGA_MAX_DIM], to[RENGA_MAX_DIM];
  Contiguous(x, from);
  Contiguous(y, to);
  c->n = 2 * y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    c->extent[2 * d] = x->dim[d] ? y->dim[d] / x->dim[d] : 0;
    c->from[2 * d] = 0;
    c->to[2 * d] = to[d] * x->dim[d];
    c->extent[2 * d + 1] = x->dim[d];
    c->from[2 * d + 1] = from[d];
    c->to[2 * d + 1] = to[d];
  }
  RengaCpuCopyInit(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode TransposeCreate_Cpu(RengaKernel kernel)
{
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  Move_Cpu *s = NULL;
  RengaCall(CreateMove(kernel, 1, &s));
  RengaCpuCopy *c = s->copy;
  int count = 0;
  const int64_t *perm = RengaAttributesInts(kernel->call.attributes, "perm", &count);
  int64_t from[RENGA_MAX_DIM];
  Contiguous(x, from);
  Contiguous(y, c->to);
  c->n = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    c->extent[d] = y->dim[d];
    c->from[d] = from[count ? perm[d] : x->ndim - 1 - d];
  }
  RengaCpuCopyInit(c);
  return RENGA_SUCCESS;
}

/* large is sliced; the copy goes from it, or for the gradient to it. */
static RengaErrorCode CreateSlice(RengaKernel kernel, const RengaTensorSpec *large,
                                  const RengaTensorSpec *small, bool gradient)
{
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  Move_Cpu *s = NULL;
  RengaOpSlice slice;
  RengaCall(RengaOpGetSlice(&kernel->call, large, &slice));
  RengaCall(CreateMove(kernel, 1, &s));
  RengaCpuCopy *c = s->copy;
  int64_t stride[RENGA_MAX_DIM];
  Contiguous(large, stride);
  int64_t *of_large = gradient ? c->to : c->from, *of_small = gradient ? c->from : c->to;
  int64_t *offset = gradient ? &c->to_offset : &c->from_offset;
  Contiguous(small, of_small);
  c->n = large->ndim;
  for (int d = 0; d < large->ndim; d++) {
    c->extent[d] = small->dim[d];
    of_large[d] = stride[d] * slice.step[d];
    *offset += stride[d] * slice.begin[d];
  }
  s->fill = gradient;
  RengaCpuCopyInit(c);
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSlice(kernel, &kernel->call.in[0], &kernel->call.out[0], false));
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSlice(kernel, &kernel->call.out[0], &kernel->call.in[0], true));
  return RENGA_SUCCESS;
}

/* Parts lie side by side along an axis of the whole. */
static RengaErrorCode CreateParts(RengaKernel kernel, const RengaTensorSpec *whole, int count,
                                  const RengaTensorSpec parts[], bool split)
{
  int axis = 0;
  if (!RengaCpuOneType(&kernel->call)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(&kernel->call, "axis", whole->ndim, &axis));
  Move_Cpu *s = NULL;
  RengaCall(CreateMove(kernel, count, &s));
  s->split = split;
  int64_t outer = RengaOpProduct(whole, 0, axis), inner = RengaOpProduct(whole, axis, whole->ndim);
  int64_t after = RengaOpProduct(whole, axis + 1, whole->ndim), offset = 0;
  for (int i = 0; i < count; i++) {
    RengaCpuCopy *c = &s->copy[i];
    int64_t length = parts[i].dim[axis] * after;
    c->n = 2;
    c->extent[0] = outer;
    c->extent[1] = length;
    c->from[1] = c->to[1] = 1;
    c->from[0] = split ? inner : length;
    c->to[0] = split ? length : inner;
    *(split ? &c->from_offset : &c->to_offset) = offset;
    offset += length;
    RengaCpuCopyInit(c);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ConcatCreate_Cpu(RengaKernel kernel)
{
  RengaOpCall *call = &kernel->call;
  RengaCall(CreateParts(kernel, &call->out[0], call->n_in, call->in, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitCreate_Cpu(RengaKernel kernel)
{
  RengaOpCall *call = &kernel->call;
  RengaCall(CreateParts(kernel, &call->in[0], call->n_out, call->out, true));
  return RENGA_SUCCESS;
}

/* Between the types that networks convert: floats, int64, int32, bool. */
#define CAST(name, source, target, expression)                                                     \
  static void name(int64_t count, const void *from, void *to)                                      \
  {                                                                                                \
    const source *x = from;                                                                        \
    target *y = to;                                                                                \
    for (int64_t i = 0; i < count; i++) y[i] = (target)(expression);                               \
  }
CAST(FloatToBool, float, bool, x[i] != 0)
CAST(BoolToFloat, bool, float, x[i])
CAST(Int64ToFloat, int64_t, float, x[i])
CAST(Int32ToFloat, int32_t, float, x[i])
CAST(Int64ToBool, int64_t, bool, x[i] != 0)
CAST(BoolToInt64, bool, int64_t, x[i])
CAST(Int64ToInt32, int64_t, int32_t, x[i])
CAST(Int32ToInt64, int32_t, int64_t, x[i])
CAST(FloatToBrain, float, uint16_t, RengaLowToBrain(x[i]))
CAST(FloatToHalf, float, uint16_t, RengaLowToHalf(x[i]))
CAST(BrainToFloat, uint16_t, float, RengaLowFromBrain(x[i]))
CAST(HalfToFloat, uint16_t, float, RengaLowFromHalf(x[i]))
CAST(BoolToBrain, bool, uint16_t, RengaLowToBrain(x[i]))
CAST(BoolToHalf, bool, uint16_t, RengaLowToHalf(x[i]))
CAST(Int64ToBrain, int64_t, uint16_t, RengaLowToBrain((float)x[i]))
CAST(Int64ToHalf, int64_t, uint16_t, RengaLowToHalf((float)x[i]))

static const struct {
  RengaDataType from, to;
  void (*cast)(int64_t count, const void *from, void *to);
} casts[] = {
    {RENGA_FLOAT32, RENGA_BOOL, FloatToBool},      {RENGA_BOOL, RENGA_FLOAT32, BoolToFloat},
    {RENGA_INT64, RENGA_FLOAT32, Int64ToFloat},    {RENGA_INT32, RENGA_FLOAT32, Int32ToFloat},
    {RENGA_INT64, RENGA_BOOL, Int64ToBool},        {RENGA_BOOL, RENGA_INT64, BoolToInt64},
    {RENGA_INT64, RENGA_INT32, Int64ToInt32},      {RENGA_INT32, RENGA_INT64, Int32ToInt64},
    {RENGA_FLOAT32, RENGA_BFLOAT16, FloatToBrain}, {RENGA_FLOAT32, RENGA_FLOAT16, FloatToHalf},
    {RENGA_BFLOAT16, RENGA_FLOAT32, BrainToFloat}, {RENGA_FLOAT16, RENGA_FLOAT32, HalfToFloat},
    {RENGA_BOOL, RENGA_BFLOAT16, BoolToBrain},     {RENGA_BOOL, RENGA_FLOAT16, BoolToHalf},
    {RENGA_INT64, RENGA_BFLOAT16, Int64ToBrain},   {RENGA_INT64, RENGA_FLOAT16, Int64ToHalf},
};
enum { N_CASTS = sizeof casts / sizeof *casts };

static int FindCast(const RengaOpCall *call)
{
  int c = 0;
  while (c < N_CASTS && (casts[c].from != call->in[0].type || casts[c].to != call->out[0].type))
    c++;
  return c;
}

static RengaErrorCode CastRun_Cpu(RengaKernel kernel, RengaStream stream,
                                  const RengaKernelContext *context, const void *const in[],
                                  void *const out[], void *workspace)
{
  casts[FindCast(&kernel->call)].cast(RengaTensorSpecCount(&kernel->call.out[0]), in[0], out[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CastCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  if (call->in[0].type == call->out[0].type)
    RengaCall(ReshapeCreate_Cpu(kernel));
  else if (FindCast(call) < N_CASTS)
    kernel->run = CastRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode NotRun_Cpu(RengaKernel kernel, RengaStream stream,
                                 const RengaKernelContext *context, const void *const in[],
                                 void *const out[], void *workspace)
{
  const bool *x = in[0];
  bool *y = out[0];
  int64_t count = RengaTensorSpecCount(&kernel->call.out[0]);
  for (int64_t i = 0; i < count; i++) y[i] = !x[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode NotCreate_Cpu(RengaKernel kernel)
{
  kernel->run = NotRun_Cpu;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode ConstantRun_Cpu(RengaKernel kernel, RengaStream stream,
                                      const RengaKernelContext *context, const void *const in[],
                                      void *const out[], void *workspace)
{
  const RengaTensorSpec *y = &kernel->call.out[0];
  double value = RengaAttributesReal(kernel->call.attributes, "value", 0);
  int64_t count = RengaTensorSpecCount(y);
  for (int64_t i = 0; i < count && y->type == RENGA_FLOAT32; i++)
    ((float *)out[0])[i] = (float)value;
  for (int64_t i = 0; i < count && RengaDeviceIsLow(y->type); i++)
    RengaCpuPut(y->type, out[0], i, (float)value);
  for (int64_t i = 0; i < count && y->type == RENGA_INT64; i++)
    ((int64_t *)out[0])[i] = (int64_t)value;
  for (int64_t i = 0; i < count && y->type == RENGA_BOOL; i++) ((bool *)out[0])[i] = value != 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ConstantOfShapeCreate_Cpu(RengaKernel kernel)
{
  RengaDataType type = kernel->call.out[0].type;
  if (RengaCpuAllFloats(&kernel->call, 0) || type == RENGA_INT64 || type == RENGA_BOOL)
    kernel->run = ConstantRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuMove)[] = {
    {"Identity", ReshapeCreate_Cpu},
    {"StopGradient", ReshapeCreate_Cpu},
    {"Reshape", ReshapeCreate_Cpu},
    {"Expand", ExpandCreate_Cpu},
    {"Tile", TileCreate_Cpu},
    {"Transpose", TransposeCreate_Cpu},
    {"Slice", SliceCreate_Cpu},
    {"SliceGrad", SliceGradCreate_Cpu},
    {"Concat", ConcatCreate_Cpu},
    {"Split", SplitCreate_Cpu},
    {"Cast", CastCreate_Cpu},
    {"Not", NotCreate_Cpu},
    {"ConstantOfShape", ConstantOfShapeCreate_Cpu},
    {NULL, NULL},
};
