/* Matrix products, each element a dot product in double. */
#include "ref.h"

static int64_t IntegerDot(RefIn a, int64_t a_at, int64_t a_step, RefIn b, int64_t b_at,
                          int64_t b_step, int64_t count)
{
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += (uint64_t)RefGetInt(a, a_at + i * a_step) * (uint64_t)RefGetInt(b, b_at + i * b_step);
  return (int64_t)sum;
}

/* One product [m,k] x [k,n] from places a_at and b_at to place y_at. */
static void Product_Ref(const RengaOpMatMul *matmul, RefIn a, int64_t a_at, RefIn b, int64_t b_at,
                        RefOut y, int64_t y_at, double alpha)
{
  bool floating = RengaDataTypeIsFloating(y.type);
  for (int64_t i = 0; i < matmul->m; i++)
    for (int64_t j = 0; j < matmul->n; j++) {
      int64_t row = a_at + i * matmul->a_row, column = b_at + j * matmul->b_column;
      int64_t to = y_at + i * matmul->n + j;
      if (floating)
        RefSet(y, to,
               alpha * RefDot(a, row, matmul->a_column, b, column, matmul->b_row, matmul->k));
      else
        RefSetInt(y, to, IntegerDot(a, row, matmul->a_column, b, column, matmul->b_row, matmul->k));
    }
}

static RengaErrorCode MatMul_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  RengaOpMatMul matmul;
  RengaCall(RengaOpGetMatMul(call, &matmul));
  double alpha = RengaOpCallReal(call, "alpha");
  RefWalk walk;
  RefWalkStart(&walk, matmul.n_batch, matmul.batch);
  RefWalkAdd(&walk, 0, matmul.a_batch);
  RefWalkAdd(&walk, 0, matmul.b_batch);
  int64_t batches = RefWalkCount(&walk);
  for (int64_t i = 0; i < batches; i++, RefWalkNext(&walk))
    Product_Ref(&matmul, RefInput(call, in, 0), walk.at[0], RefInput(call, in, 1), walk.at[1],
                RefOutput(call, out, 0), i * matmul.m * matmul.n, alpha);
  return RENGA_SUCCESS;
}

/* A weight as w[k][o] whatever its layout. */
typedef struct {
  int64_t rows; /* of x: all dimensions but the last */
  int64_t k, o, k_step, o_step;
} LinearLayer_Ref;

static LinearLayer_Ref LayerOf(const RengaOpCall *call, const RengaTensorSpec *x,
                               const RengaTensorSpec *w)
{
  bool flip = RengaOpCallInt(call, "transB");
  LinearLayer_Ref layer = {.rows = RengaOpProduct(x, 0, x->ndim - 1)};
  layer.k = w->dim[flip ? 1 : 0];
  layer.o = w->dim[flip ? 0 : 1];
  layer.k_step = flip ? 1 : layer.o;
  layer.o_step = flip ? layer.k : 1;
  return layer;
}

static RengaErrorCode Linear_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0), w = RefInput(call, in, 1), bias = RefInput(call, in, 2);
  RefOut y = RefOutput(call, out, 0);
  LinearLayer_Ref layer = LayerOf(call, &call->in[0], &call->in[1]);
  for (int64_t r = 0; r < layer.rows; r++)
    for (int64_t o = 0; o < layer.o; o++) {
      double sum = RefDot(x, r * layer.k, 1, w, o * layer.o_step, layer.k_step, layer.k);
      RefSet(y, r * layer.o + o, bias.data ? sum + RefGet(bias, o) : sum);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradInput_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  RefIn dy = RefInput(call, in, 0), w = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  LinearLayer_Ref layer = LayerOf(call, &call->in[0], &call->in[1]);
  for (int64_t r = 0; r < layer.rows; r++)
    for (int64_t k = 0; k < layer.k; k++)
      RefSet(dx, r * layer.k + k,
             RefDot(dy, r * layer.o, 1, w, k * layer.k_step, layer.o_step, layer.o));
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradWeight_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0), dy = RefInput(call, in, 1);
  RefOut dw = RefOutput(call, out, 0);
  LinearLayer_Ref layer = LayerOf(call, &call->in[0], &call->out[0]);
  for (int64_t k = 0; k < layer.k; k++)
    for (int64_t o = 0; o < layer.o; o++)
      RefSet(dw, k * layer.k_step + o * layer.o_step,
             RefDot(x, k, layer.k, dy, o, layer.o, layer.rows));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindMatrix(const char *name)
{
  static const RefRow rows[] = {
      {"MatMul", MatMul_Ref},
      {"Linear", Linear_Ref},
      {"LinearGradInput", LinearGradInput_Ref},
      {"LinearGradWeight", LinearGradWeight_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
