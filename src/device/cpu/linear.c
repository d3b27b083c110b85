/* Linear, its gradients, and MatMul, as tiled products. */
#include "product.h"
#include "renga/private/op.h"

/* x is [rows, in], w [in, out] or with transB [out, in], y [rows, out] */
typedef struct {
  int64_t rows, in, out;
  bool trans;
} Linear_Cpu;

static int64_t LastDimension(const RengaTensorSpec *spec)
{
  return spec->dim[spec->ndim - 1];
}

static int64_t RowsOf_Cpu(const RengaTensorSpec *spec)
{
  return RengaOpProduct(spec, 0, spec->ndim - 1);
}

static RengaErrorCode LinearRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Linear_Cpu *s = kernel->data;
  RengaCpuProduct product = {.trans_b = s->trans,
                             .m = s->rows,
                             .n = s->out,
                             .k = s->in,
                             .lda = s->in,
                             .ldb = s->trans ? s->in : s->out,
                             .ldc = s->out,
                             .alpha = 1,
                             .a = in[0],
                             .b = in[1],
                             .bias = kernel->call.n_in > 2 ? in[2] : NULL,
                             .c = out[0]};
  RengaCpuMultiply(kernel->device->threads, &product);
  return RENGA_SUCCESS;
}

/* dx = dy w^T */
static RengaErrorCode LinearGradInputRun_Cpu(RengaKernel kernel, RengaStream stream,
                                             const RengaKernelContext *context,
                                             const void *const in[], void *const out[],
                                             void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Linear_Cpu *s = kernel->data;
  RengaCpuProduct product = {.trans_b = !s->trans,
                             .m = s->rows,
                             .n = s->in,
                             .k = s->out,
                             .lda = s->out,
                             .ldb = s->trans ? s->in : s->out,
                             .ldc = s->in,
                             .alpha = 1,
                             .a = in[0],
                             .b = in[1],
                             .c = out[0]};
  RengaCpuMultiply(kernel->device->threads, &product);
  return RENGA_SUCCESS;
}

/* dw = x^T dy, or dy^T x */
static RengaErrorCode LinearGradWeightRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Linear_Cpu *s = kernel->data;
  RengaCpuProduct product = {.trans_a = true,
                             .m = s->in,
                             .n = s->out,
                             .k = s->rows,
                             .lda = s->in,
                             .ldb = s->out,
                             .ldc = s->out,
                             .alpha = 1,
                             .a = in[0],
                             .b = in[1],
                             .c = out[0]};
  if (s->trans) {
    product.m = product.lda = s->out;
    product.n = product.ldb = product.ldc = s->in;
    product.a = in[1];
    product.b = in[0];
  }
  RengaCpuMultiply(kernel->device->threads, &product);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateLinear(RengaKernel kernel, RengaKernelRunFunction run, int64_t rows,
                                   int64_t in, int64_t out)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32)) return RENGA_SUCCESS;
  Linear_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  *s = (Linear_Cpu){rows, in, out, RengaAttributesInt(call->attributes, "transB", 0) != 0};
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  kernel->run = run;
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateLinear(kernel, LinearRun_Cpu, RowsOf_Cpu(&call->in[0]),
                         LastDimension(&call->in[0]), LastDimension(&call->out[0])));
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradInputCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateLinear(kernel, LinearGradInputRun_Cpu, RowsOf_Cpu(&call->in[0]),
                         LastDimension(&call->out[0]), LastDimension(&call->in[0])));
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradWeightCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateLinear(kernel, LinearGradWeightRun_Cpu, RowsOf_Cpu(&call->in[0]),
                         LastDimension(&call->in[0]), LastDimension(&call->in[1])));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaOpMatMul shape;
  float alpha;
  int64_t batches;
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

static RengaErrorCode MatMulRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const MatMul_Cpu *s = kernel->data;
  const RengaOpMatMul *shape = &s->shape;
  bool trans_a = shape->a_column != 1, trans_b = shape->b_column != 1;
  RengaCpuProduct common = {.trans_a = trans_a,
                            .trans_b = trans_b,
                            .m = shape->m,
                            .n = shape->n,
                            .k = shape->k,
                            .lda = trans_a ? LargerSize_Cpu(shape->a_column, shape->m)
                                           : LargerSize_Cpu(shape->a_row, shape->k),
                            .ldb = trans_b ? LargerSize_Cpu(shape->b_column, shape->k)
                                           : LargerSize_Cpu(shape->b_row, shape->n),
                            .ldc = shape->n,
                            .alpha = s->alpha};
  if (shape->m == 0 || shape->n == 0) return RENGA_SUCCESS;
  RengaCpuTiling tiling = RengaCpuTile(shape->m, shape->n);
  int64_t tiles = tiling.rows * tiling.columns, pieces = s->batches * tiles;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    RengaCpuProduct product = common;
    int64_t batch = piece / tiles, a = 0, b = 0;
    BatchOffsets(shape, batch, &a, &b);
    product.a = (const float *)in[0] + a;
    product.b = (const float *)in[1] + b;
    product.c = (float *)out[0] + batch * shape->m * shape->n;
    RengaCpuMultiplyTile(&product, &tiling, piece % tiles);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MatMulCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32)) return RENGA_SUCCESS;
  MatMul_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  RengaCall(RengaOpGetMatMul(call, &s->shape));
  s->alpha = (float)RengaAttributesReal(call->attributes, "alpha", 1);
  s->batches = 1;
  for (int i = 0; i < s->shape.n_batch; i++) s->batches *= s->shape.batch[i];
  JoinBatches(s);
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
