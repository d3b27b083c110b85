/* Matrix products and determinants. */
#include "renga/private/op.h"
#include <string.h>

/* Strides of the batch dimensions of one factor, 0 where it is broadcast; matched from the end. */
static void BatchStrides(const RengaTensorSpec *x, int n_batch, int64_t matrix, int64_t stride[])
{
  int64_t step = matrix;
  for (int d = 1; d <= n_batch; d++) { /* counted from the end */
    int64_t extent = d <= x->ndim - 2 ? x->dim[x->ndim - 2 - d] : 1;
    stride[n_batch - d] = extent == 1 ? 0 : step;
    step *= extent;
  }
}

/* A vector is a row on the left and a column on the right; it is never transposed. */
static RengaTensorSpec AsMatrix(const RengaTensorSpec *x, bool left)
{
  RengaTensorSpec matrix = *x;
  if (x->ndim == 1) {
    matrix.ndim = 2;
    matrix.dim[0] = left ? 1 : x->dim[0];
    matrix.dim[1] = left ? x->dim[0] : 1;
  }
  return matrix;
}

RengaErrorCode RengaOpGetMatMul(const RengaOpCall *call, RengaOpMatMul *matmul)
{
  bool flip_a = RengaOpCallInt(call, "transA") != 0, flip_b = RengaOpCallInt(call, "transB") != 0;
  RengaOpCheck(call->in[0].ndim >= 1 && call->in[1].ndim >= 1, call, "a scalar is no matrix");
  RengaOpCheck((call->in[0].ndim > 1 || !flip_a) && (call->in[1].ndim > 1 || !flip_b), call,
               "a vector cannot be transposed");
  RengaTensorSpec a = AsMatrix(&call->in[0], true), b = AsMatrix(&call->in[1], false);
  int64_t rows_a = a.dim[a.ndim - 2], columns_a = a.dim[a.ndim - 1];
  int64_t rows_b = b.dim[b.ndim - 2], columns_b = b.dim[b.ndim - 1];
  memset(matmul, 0, sizeof *matmul);
  matmul->m = flip_a ? columns_a : rows_a;
  matmul->k = flip_a ? rows_a : columns_a;
  matmul->n = flip_b ? rows_b : columns_b;
  int64_t k = flip_b ? columns_b : rows_b;
  RengaOpCheck(matmul->k == k, call, "%lld columns of the left meet %lld rows of the right",
               (long long)matmul->k, (long long)k);
  matmul->a_row = flip_a ? 1 : columns_a;
  matmul->a_column = flip_a ? columns_a : 1;
  matmul->b_row = flip_b ? 1 : columns_b;
  matmul->b_column = flip_b ? columns_b : 1;
  RengaTensorSpec batch = {.ndim = a.ndim - 2}, other = {.ndim = b.ndim - 2};
  memcpy(batch.dim, a.dim, sizeof a.dim);
  memcpy(other.dim, b.dim, sizeof b.dim);
  RengaCall(RengaOpBroadcast(call, &other, &batch));
  matmul->n_batch = batch.ndim;
  memcpy(matmul->batch, batch.dim, sizeof batch.dim);
  BatchStrides(&a, batch.ndim, rows_a * columns_a, matmul->a_batch);
  BatchStrides(&b, batch.ndim, rows_b * columns_b, matmul->b_batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeMatMul(RengaOpCall *call)
{
  RengaOpMatMul matmul;
  RengaTensorSpec *y = &call->out[0];
  RengaCall(RengaOpGetMatMul(call, &matmul));
  y->ndim = matmul.n_batch;
  memcpy(y->dim, matmul.batch, sizeof y->dim);
  if (call->in[0].ndim > 1) y->dim[y->ndim++] = matmul.m;
  if (call->in[1].ndim > 1) y->dim[y->ndim++] = matmul.n;
  return RENGA_SUCCESS;
}

/* Width of x that the weight takes, and of y that it makes. */
static RengaErrorCode WeightExtents(const RengaOpCall *call, const RengaTensorSpec *w, int64_t *k,
                                    int64_t *o)
{
  RengaOpCheck(w->ndim == 2, call, "the weight has %d dimensions, must have 2", w->ndim);
  bool flip = RengaOpCallInt(call, "transB") != 0;
  *k = w->dim[flip ? 1 : 0];
  *o = w->dim[flip ? 0 : 1];
  return RENGA_SUCCESS;
}

static RengaErrorCode LastIs(const RengaOpCall *call, int input, int64_t width)
{
  const RengaTensorSpec *x = &call->in[input];
  RengaOpCheck(x->ndim >= 1 && x->dim[x->ndim - 1] == width, call,
               "the last dimension of input %d must be %lld", input, (long long)width);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeLinearLayer(RengaOpCall *call)
{
  int64_t k, o;
  RengaCall(WeightExtents(call, &call->in[1], &k, &o));
  RengaCall(LastIs(call, 0, k));
  if (RengaOpCallHasInput(call, 2))
    RengaOpCheck(call->in[2].ndim == 1 && call->in[2].dim[0] == o, call,
                 "the bias must have %lld elements", (long long)o);
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  call->out[0].dim[call->in[0].ndim - 1] = o;
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradInput(RengaOpCall *call)
{
  int64_t k, o;
  RengaCall(WeightExtents(call, &call->in[1], &k, &o));
  RengaCall(LastIs(call, 0, o));
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  call->out[0].dim[call->in[0].ndim - 1] = k;
  return RENGA_SUCCESS;
}

static RengaErrorCode LinearGradWeight(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0], *dy = &call->in[1];
  RengaTensorSpec *dw = &call->out[0];
  RengaOpCheck(x->ndim >= 1 && x->ndim == dy->ndim, call,
               "input and gradient differ in dimensions");
  for (int d = 0; d < x->ndim - 1; d++)
    RengaOpCheck(x->dim[d] == dy->dim[d], call, "input and gradient differ in dimension %d", d);
  bool flip = RengaOpCallInt(call, "transB") != 0;
  dw->ndim = 2;
  dw->dim[flip ? 1 : 0] = x->dim[x->ndim - 1];
  dw->dim[flip ? 0 : 1] = dy->dim[dy->ndim - 1];
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSquare(const RengaOpCall *call, const RengaTensorSpec *x)
{
  RengaOpCheck(x->ndim >= 2 && x->dim[x->ndim - 1] == x->dim[x->ndim - 2], call,
               "the last two dimensions must be those of a square matrix");
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeDeterminant(RengaOpCall *call)
{
  RengaCall(CheckSquare(call, &call->in[0]));
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  call->out[0].ndim -= 2;
  return RENGA_SUCCESS;
}

static RengaErrorCode DeterminantGrad(RengaOpCall *call)
{
  RengaTensorSpec y = call->in[1];
  RengaCall(CheckSquare(call, &y));
  y.ndim -= 2;
  RengaOpCheck(RengaOpSameShape(&y, &call->in[0]), call,
               "the gradient must have one element for each matrix");
  RengaOpCopyShape(&call->out[0], &call->in[1]);
  return RENGA_SUCCESS;
}

/* 2/3 n^3 for a matrix; the gradient solves as many systems as it has rows, 2 n^3 more. */
static double DeterminantFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[call->n_in - 1];
  const double factor = call->n_in == 1 ? 2.0 / 3 : 8.0 / 3;
  return factor * (double)RengaTensorSpecCount(x) * (double)x->dim[x->ndim - 1];
}

static double MatMulFlops(const RengaOpCall *call)
{
  RengaOpMatMul matmul;
  if (RengaOpGetMatMul(call, &matmul) != RENGA_SUCCESS) return 0;
  return 2.0 * (double)RengaTensorSpecCount(&call->out[0]) * (double)matmul.k;
}

/* Rows of x or dy, times both extents of the weight. */
static double LinearFlops(const RengaOpCall *call)
{
  double rows = (double)RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1);
  return 2.0 * rows * (double)RengaTensorSpecCount(&call->in[1]);
}

static double GradWeightFlops(const RengaOpCall *call)
{
  double rows = (double)RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1);
  return 2.0 * rows * (double)RengaTensorSpecCount(&call->out[0]);
}

#define OWN RENGA_OP_INTERNAL
#define SUM RENGA_OP_PRODUCT
/* rounds: the RengaPrecision that factors are rounded to: _TF32, or of Linear and its gradients
   _FP8; 0: to none. */
#define LINEAR "transB:int=0 rounds:int=0"

const RengaOperator RengaOperatorsMatrix[] = {
    {"MatMul", 2, 2, 1, 1, SUM, ShapeMatMul, MatMulFlops,
     "transA:int=0 transB:int=0 alpha:real=1 rounds:int=0", "NN>N", NULL},
    {"Linear", 2, 3, 1, 1, OWN | SUM, ShapeLinearLayer, LinearFlops, LINEAR, "F>F", NULL},
    {"LinearGradInput", 2, 2, 1, 1, OWN, LinearGradInput, LinearFlops, LINEAR, "F>F", NULL},
    {"LinearGradWeight", 2, 2, 1, 1, OWN, LinearGradWeight, GradWeightFlops, LINEAR, "F>F", NULL},
    {"Det", 1, 1, 1, 1, 0, ShapeDeterminant, DeterminantFlops, NULL, "F>F", NULL},
    {"DetGrad", 2, 2, 1, 1, OWN, DeterminantGrad, DeterminantFlops, NULL, "F>F", NULL},
    {0},
};
