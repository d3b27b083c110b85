/* Products of the cuda device by cuBLASLt: Linear, its gradients, and MatMul. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

/* a, b: numbers of the kernel's inputs. Dimensions of batches that one product cannot go through
   are gone through here. rounds: a bias of another type than y's is converted to it, in the
   workspace: cuBLASLt takes no other. parts: of the terms, whose sums are products of their own, of
   float32 in the workspace, and are added up in order. The plan stands behind. */
typedef struct {
  int a, b, dimensions;
  bool rounds;
  int64_t parts;
  int64_t products;
  int64_t extent[RENGA_MAX_DIM], stride_a[RENGA_MAX_DIM], stride_b[RENGA_MAX_DIM], stride_c;
  _Alignas(64) char plan[];
} CudaProduct;

bool RengaCudaHasProduct_Private(const RengaTensorSpec *a, const RengaTensorSpec *b,
                                 const RengaTensorSpec *y)
{
  return a->type == b->type && RengaCudaIsFloat_Private(a) &&
         (y->type == a->type || y->type == RENGA_FLOAT32);
}

RengaErrorCode RengaCudaAddBias_Private(RengaKernel kernel, RengaStream stream, RengaCudaBias shape,
                                        const void *bias, RengaCudaOperand x, void *y)
{
  const RengaOpCall *call = &kernel->call;
  const RengaCudaOperand in[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(&call->in[2], bias),
                                                     x};
  const RengaCudaOperand out[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(&call->out[0], y)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->run.addbias(RengaCudaStream_Private(kernel->device, stream), &shape,
                                       NULL, in, out, NULL));
  return RENGA_SUCCESS;
}

/* An element of a tensor without gaps. */
static void *ElementOf_Cuda(const RengaTensorSpec *spec, const void *data, int64_t i)
{
  return (char *)(uintptr_t)data + (size_t)i * RengaDataTypeSize(spec->type);
}

static RengaErrorCode RunBatches_Cuda(RengaKernel kernel, RengaStream stream,
                                      const void *const in[], const void *bias, void *out)
{
  CudaProduct *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  for (int64_t p = 0; p < s->products; p++) {
    int64_t rest = p, a = 0, b = 0;
    for (int d = s->dimensions - 1; d >= 0; d--) {
      a += rest % s->extent[d] * s->stride_a[d];
      b += rest % s->extent[d] * s->stride_b[d];
      rest /= s->extent[d];
    }
    RengaCall(RengaCudaPlanRun_Private(kernel->device, stream, s->plan,
                                       ElementOf_Cuda(&call->in[s->a], in[s->a], a),
                                       ElementOf_Cuda(&call->in[s->b], in[s->b], b), bias,
                                       ElementOf_Cuda(&call->out[0], out, p * s->stride_c)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ProductRun_Cuda(RengaKernel kernel, RengaStream stream,
                                      const RengaKernelContext *context, const void *const in[],
                                      void *const out[], void *workspace)
{
  const CudaProduct *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const void *bias = call->n_in > 2 ? in[2] : NULL;
  (void)context;
  if (s->rounds) {
    const RengaCudaOperand to = RengaCudaOperand_Private(&call->out[0], workspace);
    RENGA_CALL_CUDA(kernel->device,
                    module_->convert(RengaCudaStream_Private(kernel->device, stream),
                                     RengaTensorSpecCount(&call->in[2]),
                                     RengaCudaOperand_Private(&call->in[2], bias), to));
    bias = workspace;
  }
  RengaCall(RunBatches_Cuda(kernel, stream, in, bias, s->parts > 1 ? workspace : out[0]));
  if (s->parts > 1)
    RengaCall(
        RengaCudaAddParts_Private(kernel, stream, s->parts, workspace, &call->out[0], out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ProductDestroy_Cuda(RengaKernel kernel)
{
  CudaProduct *s = kernel->data;
  RengaCall(RengaCudaPlanDestroy_Private(kernel->device, s->plan));
  RengaCall(RengaCudaFreeData_Private(kernel));
  return RENGA_SUCCESS;
}

static void SetTypes_Cuda(const RengaOpCall *call, int a, RengaCudaProduct *product)
{
  product->factors = RengaCudaTypeOf_Private(call->in[a].type);
  product->result = RengaCudaTypeOf_Private(call->out[0].type);
  product->tf32 = RengaOpCallRounds_Private(call, RENGA_PRECISION_TF32) &&
                  product->factors == RENGA_CUDA_FLOAT32;
}

/* Leaves the kernel to the host where a dimension is 0. a, b: which inputs the factors are; parts:
   into which the terms are cut already. */
static RengaErrorCode CreateProduct_Cuda(RengaKernel kernel, RengaCudaProduct product, int a, int b,
                                         int64_t parts)
{
  const RengaOpCall *call = &kernel->call;
  char *memory;
  if (RengaOpCallRounds_Private(call, RENGA_PRECISION_FP8)) {
    RengaCall(RengaCudaCreateEights_Private(kernel, product, a, b));
    return RENGA_SUCCESS;
  }
  if (!RengaCudaHasProduct_Private(&call->in[a], &call->in[b], &call->out[0])) return RENGA_SUCCESS;
  if (product.m * product.n * product.k * product.batch == 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(sizeof(CudaProduct) + RengaCudaPlanBytes_Private(kernel->device), &memory));
  CudaProduct *s = (CudaProduct *)(void *)memory;
  s->a = a;
  s->b = b;
  s->products = 1;
  s->parts = parts;
  s->rounds = product.bias && call->in[2].type != call->out[0].type;
  SetTypes_Cuda(call, a, &product);
  if (parts > 1) product.result = RENGA_CUDA_FLOAT32;
  const RengaErrorCode code = RengaCudaPlanCreate_Private(kernel->device, &product, s->plan);
  if (code) RengaFree(&memory);
  RengaCall(code);
  if (s->rounds)
    kernel->workspace =
        (size_t)RengaTensorSpecCount(&call->in[2]) * RengaDataTypeSize(call->out[0].type);
  if (parts > 1)
    kernel->workspace = (size_t)(parts * RengaTensorSpecCount(&call->out[0])) * sizeof(float);
  kernel->data = s;
  kernel->run = ProductRun_Cuda;
  kernel->destroy = ProductDestroy_Cuda;
  return RENGA_SUCCESS;
}

RengaCudaProduct RengaCudaProductOf_Private(int64_t m, int64_t n, int64_t k, bool trans_a,
                                            bool trans_b)
{
  return (RengaCudaProduct){.trans_a = trans_a,
                            .trans_b = trans_b,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = trans_a ? m : k,
                            .ldb = trans_b ? k : n,
                            .ldc = n,
                            .batch = 1,
                            .alpha = 1};
}

static int64_t LastExtent_Cuda(const RengaTensorSpec *spec)
{
  return spec->dim[spec->ndim - 1];
}

/* y = x w + bias; w is [in, out], or [out, in] with transB */
static RengaErrorCode LinearCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCudaProduct p = RengaCudaProductOf_Private(
      RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1), LastExtent_Cuda(&call->out[0]),
      LastExtent_Cuda(&call->in[0]), false, RengaOpCallInt(call, "transB") != 0);
  p.bias = call->n_in > 2;
  RengaCall(CreateProduct_Cuda(kernel, p, 0, 1, 1));
  return RENGA_SUCCESS;
}

/* dx = dy w^T */
static RengaErrorCode LinearGradInputCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaCudaProduct p = RengaCudaProductOf_Private(
      RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1), LastExtent_Cuda(&call->out[0]),
      LastExtent_Cuda(&call->in[0]), false, RengaOpCallInt(call, "transB") == 0);
  RengaCall(CreateProduct_Cuda(kernel, p, 0, 1, 1));
  return RENGA_SUCCESS;
}

/* dw = x^T dy, or with transB dy^T x */
static RengaErrorCode LinearGradWeightCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool swap = RengaOpCallInt(call, "transB") != 0;
  const int a = swap ? 1 : 0, b = swap ? 0 : 1;
  RengaCudaProduct p = RengaCudaProductOf_Private(
      LastExtent_Cuda(&call->in[a]), LastExtent_Cuda(&call->in[b]),
      RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1), true, false);
  const bool eights = RengaOpCallRounds_Private(call, RENGA_PRECISION_FP8);
  const int64_t parts =
      eights ? 1 : RengaCudaFindParts_Private(&p, (int64_t)RengaDataTypeSize(call->in[a].type));
  if (parts > 1) RengaCudaCutTerms_Private(&p, parts);
  RengaCall(CreateProduct_Cuda(kernel, p, a, b, parts));
  return RENGA_SUCCESS;
}

/* Drops batch dimensions of extent 1, and joins neighbours that are one run in both factors. */
static void JoinBatches_Cuda(RengaOpMatMul *shape)
{
  int kept = 0;
  for (int d = 0; d < shape->n_batch; d++) {
    const int64_t extent = shape->batch[d];
    if (extent == 1) continue;
    const bool join = kept > 0 && shape->a_batch[kept - 1] == shape->a_batch[d] * extent &&
                      shape->b_batch[kept - 1] == shape->b_batch[d] * extent;
    shape->batch[join ? kept - 1 : kept] = (join ? shape->batch[kept - 1] : 1) * extent;
    if (!join) kept++;
    shape->a_batch[kept - 1] = shape->a_batch[d];
    shape->b_batch[kept - 1] = shape->b_batch[d];
  }
  shape->n_batch = kept;
}

/* All dimensions of batches but the last one, which the product goes through itself. */
static void KeepBatches_Cuda(const RengaOpMatMul *shape, CudaProduct *s)
{
  s->stride_c = shape->m * shape->n;
  for (int d = 0; d < shape->n_batch - 1; d++) {
    s->extent[d] = shape->batch[d];
    s->stride_a[d] = shape->a_batch[d];
    s->stride_b[d] = shape->b_batch[d];
    s->products *= shape->batch[d];
  }
  s->dimensions = shape->n_batch > 0 ? shape->n_batch - 1 : 0;
  if (shape->n_batch > 0) s->stride_c *= shape->batch[shape->n_batch - 1];
}

static RengaErrorCode MatMulCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaOpMatMul shape;
  if (RengaTensorSpecCount(&call->out[0]) == 0) return RENGA_SUCCESS;
  RengaCall(RengaOpGetMatMul(call, &shape));
  JoinBatches_Cuda(&shape);
  RengaCudaProduct p =
      RengaCudaProductOf_Private(shape.m, shape.n, shape.k, RengaOpCallInt(call, "transA") != 0,
                                 RengaOpCallInt(call, "transB") != 0);
  p.alpha = (float)RengaOpCallReal(call, "alpha");
  if (shape.n_batch > 0) {
    p.batch = shape.batch[shape.n_batch - 1];
    p.stride_a = shape.a_batch[shape.n_batch - 1];
    p.stride_b = shape.b_batch[shape.n_batch - 1];
    p.stride_c = shape.m * shape.n;
  }
  const int64_t unit = 16 / (int64_t)RengaDataTypeSize(call->in[0].type);
  const bool aligned = p.stride_a % unit == 0 && p.stride_b % unit == 0 && p.stride_c % unit == 0;
  p.scattered = shape.n_batch > 1 || !aligned;
  RengaCall(CreateProduct_Cuda(kernel, p, 0, 1, 1));
  if (kernel->run) KeepBatches_Cuda(&shape, kernel->data);
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaProductRows[] = {
    {"Linear", LinearCreate_Cuda},
    {"LinearGradInput", LinearGradInputCreate_Cuda},
    {"LinearGradWeight", LinearGradWeightCreate_Cuda},
    {"MatMul", MatMulCreate_Cuda},
    {NULL, NULL},
};
