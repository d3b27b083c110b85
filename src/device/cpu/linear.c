/* Linear, its gradients, and MatMul, as tiled products. */
#include "low.h"
#include "lowproduct.h"
#include "onednn.h"
#include "packed.h"
#include "renga/private/op.h"

/* c = a b (+ bias): which inputs are the factors. */
typedef struct {
  RengaCpuProduct product; /* all but the pointers */
  int a, b;
  RengaCpuLowProduct *low; /* NULL: all is float32 */
} Linear_Cpu;

static int64_t LastDimension(const RengaTensorSpec *spec)
{
  return spec->dim[spec->ndim - 1];
}

static int64_t RowsOf_Cpu(const RengaTensorSpec *spec)
{
  return RengaOpProduct(spec, 0, spec->ndim - 1);
}

static RengaErrorCode CheckStatus_Cpu(int status)
{
  RengaCheck(status == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d", status);
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Linear_Cpu *s = kernel->data;
  const void *bias = kernel->call.n_in > 2 ? in[2] : NULL;
  RengaCpuProduct product = s->product;
  if (s->low) {
    RengaCall(RengaCpuLowMultiply(kernel->device->threads, s->low, in[s->a], in[s->b], bias, out[0],
                                  workspace));
    return RENGA_SUCCESS;
  }
  product.a = in[s->a];
  product.b = in[s->b];
  product.bias = bias;
  product.c = out[0];
  product.work = kernel->workspace > 0 ? workspace : NULL;
  RengaCpuMultiply(kernel->device->threads, &product);
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyLinear(RengaKernel kernel)
{
  Linear_Cpu *s = kernel->data;
  if (s) RengaCall(RengaCpuLowProductDestroy(&s->low));
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

/* The product with the types that the call's tensors have. */
static RengaCpuLowShape LowShapeOf(const RengaOpCall *call, const RengaCpuProduct *p, int a, int b)
{
  const bool has_bias = RengaOpCallHasInput(call, 2);
  return (RengaCpuLowShape){.trans_a = p->trans_a,
                            .trans_b = p->trans_b,
                            .has_bias = has_bias,
                            .m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .lda = p->lda,
                            .ldb = p->ldb,
                            .ldc = p->ldc,
                            .alpha = p->alpha,
                            .a = call->in[a].type,
                            .b = call->in[b].type,
                            .bias = has_bias ? call->in[2].type : RENGA_FLOAT32,
                            .c = call->out[0].type};
}

static RengaErrorCode CreateLinear(RengaKernel kernel, const RengaCpuProduct *product, int a, int b)
{
  const RengaOpCall *call = &kernel->call;
  const int threads = kernel->device->threads;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  Linear_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  *s = (Linear_Cpu){.product = *product, .a = a, .b = b};
  kernel->data = s;
  kernel->destroy = DestroyLinear;
  if (RengaOpCallIsLow_Private(call)) {
    const RengaCpuLowShape shape = LowShapeOf(call, product, a, b);
    RengaCall(RengaCpuLowProductCreate(threads, &shape, &s->low));
    kernel->workspace = s->low->bytes * (size_t)threads;
  } else if (RengaDnnHasKnownSums() && RengaCpuPackedFits(product)) {
    kernel->workspace = (size_t)(RengaCpuPackedFloats(product) * threads) * sizeof(float);
  }
  kernel->run = LinearRun_Cpu;
  return RENGA_SUCCESS;
}

/* x is [rows, in], w [in, out] or with transB [out, in], y [rows, out] */
static RengaErrorCode LinearCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool trans = RengaAttributesInt(call->attributes, "transB", 0) != 0;
  const int64_t in = LastDimension(&call->in[0]), out = LastDimension(&call->out[0]);
  const RengaCpuProduct product = {.trans_b = trans,
                                   .m = RowsOf_Cpu(&call->in[0]),
                                   .n = out,
                                   .k = in,
                                   .lda = in,
                                   .ldb = trans ? in : out,
                                   .ldc = out,
                                   .alpha = 1};
  RengaCall(CreateLinear(kernel, &product, 0, 1));
  return RENGA_SUCCESS;
}

/* dx = dy w^T */
static RengaErrorCode LinearGradInputCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool trans = RengaAttributesInt(call->attributes, "transB", 0) != 0;
  const int64_t in = LastDimension(&call->out[0]), out = LastDimension(&call->in[0]);
  const RengaCpuProduct product = {.trans_b = !trans,
                                   .m = RowsOf_Cpu(&call->in[0]),
                                   .n = in,
                                   .k = out,
                                   .lda = out,
                                   .ldb = trans ? in : out,
                                   .ldc = in,
                                   .alpha = 1};
  RengaCall(CreateLinear(kernel, &product, 0, 1));
  return RENGA_SUCCESS;
}

/* dw = x^T dy, or dy^T x */
static RengaErrorCode LinearGradWeightCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool trans = RengaAttributesInt(call->attributes, "transB", 0) != 0;
  const int64_t in = LastDimension(&call->in[0]), out = LastDimension(&call->in[1]);
  const int64_t m = trans ? out : in, n = trans ? in : out;
  const RengaCpuProduct product = {.trans_a = true,
                                   .m = m,
                                   .n = n,
                                   .k = RowsOf_Cpu(&call->in[0]),
                                   .lda = m,
                                   .ldb = n,
                                   .ldc = n,
                                   .alpha = 1};
  RengaCall(CreateLinear(kernel, &product, trans ? 1 : 0, trans ? 0 : 1));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaOpMatMul shape;
  int64_t batches;
  RengaCpuProduct product; /* of a batch, all but the pointers */
  RengaCpuTiling tiling;
  RengaCpuLowProduct *low; /* NULL: all is float32 */
} MatMul_Cpu;

/* Where b is the same for all batches and the rows of a follow each other, they are one batch. */
static void JoinBatches(MatMul_Cpu *s)
{
  RengaOpMatMul *shape = &s->shape;
  int64_t rows = shape->m;
  for (int i = shape->n_batch - 1; i >= 0; i--) {
    if (shape->b_batch[i] != 0 && shape->batch[i] != 1) return;
    if (shape->a_batch[i] != rows * shape->k && shape->batch[i] != 1) return;
    rows *= shape->batch[i];
  }
  if (shape->a_column != 1 || (shape->a_row != shape->k && shape->m != 1)) return;
  shape->a_row = shape->k;
  shape->m = rows;
  shape->n_batch = 0;
  s->batches = 1;
}

static void BatchOffsets(const RengaOpMatMul *shape, int64_t batch, int64_t *a, int64_t *b)
{
  *a = *b = 0;
  for (int i = shape->n_batch - 1; i >= 0; i--) {
    int64_t index = batch % shape->batch[i];
    batch /= shape->batch[i];
    *a += index * shape->a_batch[i];
    *b += index * shape->b_batch[i];
  }
}

static int64_t LargerSize_Cpu(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Element i of a tensor. */
static void *At_Cpu(const RengaTensorSpec *spec, const void *data, int64_t i)
{
  return (char *)(uintptr_t)data + (size_t)i * RengaDataTypeSize(spec->type);
}

static RengaErrorCode MatMulRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const MatMul_Cpu *s = kernel->data;
  const RengaOpMatMul *shape = &s->shape;
  const int64_t tiles = s->tiling.rows * s->tiling.columns, pieces = s->batches * tiles;
  int failed = 0;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    RengaCpuProduct product = s->product;
    int64_t batch = piece / tiles, a = 0, b = 0, c = batch * shape->m * shape->n;
    int status = 0;
    BatchOffsets(shape, batch, &a, &b);
    product.a = (const float *)in[0] + a;
    product.b = (const float *)in[1] + b;
    product.c = (float *)out[0] + c;
    if (s->low)
      status = RengaCpuLowProductTile(s->low, piece % tiles, At_Cpu(&kernel->call.in[0], in[0], a),
                                      At_Cpu(&kernel->call.in[1], in[1], b), NULL,
                                      At_Cpu(&kernel->call.out[0], out[0], c), workspace);
    else
      RengaCpuMultiplyTile(&product, &s->tiling, piece % tiles);
    if (status) {
#pragma omp atomic write
      failed = status;
    }
  }
  RengaCall(CheckStatus_Cpu(failed));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyMatMul(RengaKernel kernel)
{
  MatMul_Cpu *s = kernel->data;
  if (s) RengaCall(RengaCpuLowProductDestroy(&s->low));
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

static void SetProduct(MatMul_Cpu *s, int threads, float alpha)
{
  const RengaOpMatMul *shape = &s->shape;
  const bool trans_a = shape->a_column != 1, trans_b = shape->b_column != 1;
  s->product = (RengaCpuProduct){.trans_a = trans_a,
                                 .trans_b = trans_b,
                                 .m = shape->m,
                                 .n = shape->n,
                                 .k = shape->k,
                                 .lda = trans_a ? LargerSize_Cpu(shape->a_column, shape->m)
                                                : LargerSize_Cpu(shape->a_row, shape->k),
                                 .ldb = trans_b ? LargerSize_Cpu(shape->b_column, shape->k)
                                                : LargerSize_Cpu(shape->b_row, shape->n),
                                 .ldc = shape->n,
                                 .alpha = alpha};
  if (shape->m > 0 && shape->n > 0 && s->batches > 0)
    s->tiling = RengaCpuTileFor(threads, s->batches, shape->m, shape->n, false);
}

static RengaErrorCode MatMulCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int threads = kernel->device->threads;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  MatMul_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = DestroyMatMul;
  RengaCall(RengaOpGetMatMul(call, &s->shape));
  s->batches = 1;
  for (int i = 0; i < s->shape.n_batch; i++) s->batches *= s->shape.batch[i];
  JoinBatches(s);
  SetProduct(s, threads, (float)RengaAttributesReal(call->attributes, "alpha", 1));
  if (RengaOpCallIsLow_Private(call)) {
    const RengaCpuLowShape shape = LowShapeOf(call, &s->product, 0, 1);
    RengaCall(RengaCpuLowProductCreate(threads, &shape, &s->low));
    s->tiling = s->low->tiling;
    kernel->workspace = s->low->bytes * (size_t)threads;
  }
  kernel->run = MatMulRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuLinear)[] = {
    {"Linear", LinearCreate_Cpu},
    {"LinearGradInput", LinearGradInputCreate_Cpu},
    {"LinearGradWeight", LinearGradWeightCreate_Cpu},
    {"MatMul", MatMulCreate_Cpu},
    {NULL, NULL},
};
