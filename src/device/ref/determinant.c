/* Determinants and their gradients, by elimination with complete pivoting in double. */
#include "ref.h"
#include <math.h>

/* P A Q = L U in place, row[i] and column[j] the places in A of row i and column j; sign: det P
   times det Q. Where the rank is less than n, the last pivots are 0. */
typedef struct {
  int64_t n, *row, *column;
  double *a, *vector, sign;
} Elimination;

static RengaErrorCode StartElimination(int64_t n, Elimination *e)
{
  *e = (Elimination){.n = n};
  RengaCall(RengaMalloc(n * n + n, &e->a));
  e->vector = e->a + n * n;
  RengaErrorCode code = RengaMalloc(2 * n, &e->row);
  if (code != RENGA_SUCCESS) RengaFree(&e->a);
  RengaCall(code);
  e->column = e->row + n;
  return RENGA_SUCCESS;
}

static void EndElimination(Elimination *e)
{
  RengaFree(&e->a);
  RengaFree(&e->row);
}

static void SwapRows(Elimination *e, int64_t i, int64_t k)
{
  if (i == k) return;
  for (int64_t j = 0; j < e->n; j++) {
    const double kept = e->a[i * e->n + j];
    e->a[i * e->n + j] = e->a[k * e->n + j];
    e->a[k * e->n + j] = kept;
  }
  const int64_t place = e->row[i];
  e->row[i] = e->row[k];
  e->row[k] = place;
  e->sign = -e->sign;
}

static void SwapColumns(Elimination *e, int64_t j, int64_t k)
{
  if (j == k) return;
  for (int64_t i = 0; i < e->n; i++) {
    const double kept = e->a[i * e->n + j];
    e->a[i * e->n + j] = e->a[i * e->n + k];
    e->a[i * e->n + k] = kept;
  }
  const int64_t place = e->column[j];
  e->column[j] = e->column[k];
  e->column[k] = place;
  e->sign = -e->sign;
}

/* The largest of what is left becomes pivot k. */
static void TakePivot(Elimination *e, int64_t k)
{
  int64_t at = k * e->n + k;
  for (int64_t i = k; i < e->n; i++)
    for (int64_t j = k; j < e->n; j++)
      if (fabs(e->a[i * e->n + j]) > fabs(e->a[at])) at = i * e->n + j;
  SwapRows(e, k, at / e->n);
  SwapColumns(e, k, at % e->n);
}

static void Eliminate(Elimination *e, RefIn x, int64_t first)
{
  const int64_t n = e->n;
  e->sign = 1;
  for (int64_t i = 0; i < n * n; i++) e->a[i] = RefGet(x, first + i);
  for (int64_t i = 0; i < n; i++) e->row[i] = e->column[i] = i;
  for (int64_t k = 0; k < n; k++) {
    TakePivot(e, k);
    if (e->a[k * n + k] == 0) return; /* and so is all that is left */
    for (int64_t i = k + 1; i < n; i++) {
      const double factor = e->a[i * n + k] / e->a[k * n + k];
      e->a[i * n + k] = factor;
      for (int64_t j = k + 1; j < n; j++) e->a[i * n + j] -= factor * e->a[k * n + j];
    }
  }
}

/* Product of the first `count` pivots, with the sign. */
static double PivotProduct(const Elimination *e, int64_t count)
{
  double product = e->sign;
  for (int64_t k = 0; k < count; k++) product *= e->a[k * e->n + k];
  return product;
}

static RengaErrorCode Det_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                              const void *const in[], void *const out[])
{
  const RengaTensorSpec *x = &call->in[0];
  const int64_t n = x->dim[x->ndim - 1], count = RengaTensorSpecCount(&call->out[0]);
  RefOut y = RefOutput(call, out, 0);
  Elimination e;
  RengaCall(StartElimination(n, &e));
  for (int64_t i = 0; i < count; i++) {
    Eliminate(&e, RefInput(call, in, 0), i * n * n);
    RefSet(y, i, PivotProduct(&e, n));
  }
  EndElimination(&e);
  return RENGA_SUCCESS;
}

/* Column i of adj(U) inv(L) without the product of the first n - 1 pivots. With U = [V u; 0 p],
   adj(U) is det(V) [p inv(V), -inv(V) u; 0, 1]: it does not divide by p, which may be 0. */
static void AdjugateColumn(Elimination *e, int64_t i)
{
  const int64_t n = e->n, last = n - 1;
  double *z = e->vector;
  for (int64_t k = 0; k < n; k++) {
    z[k] = k == i;
    for (int64_t j = 0; j < k; j++) z[k] -= e->a[k * n + j] * z[j];
  }
  for (int64_t k = last - 1; k >= 0; k--) {
    z[k] = e->a[last * n + last] * z[k] - e->a[k * n + last] * z[last];
    for (int64_t j = k + 1; j < last; j++) z[k] -= e->a[k * n + j] * z[j];
    z[k] /= e->a[k * n + k];
  }
}

/* dx = dy times the cofactors: finite where A is singular, 0 where two pivots are. */
static RengaErrorCode DetGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  const RengaTensorSpec *x = &call->in[1];
  const int64_t n = x->dim[x->ndim - 1], count = RengaTensorSpecCount(&call->in[0]);
  RefIn dy = RefInput(call, in, 0);
  RefOut dx = RefOutput(call, out, 0);
  Elimination e;
  RengaCall(StartElimination(n, &e));
  RefZero(dx, RengaTensorSpecCount(x));
  for (int64_t m = 0; m < count; m++) {
    Eliminate(&e, RefInput(call, in, 1), m * n * n);
    const double scale = RefGet(dy, m) * PivotProduct(&e, n - 1);
    for (int64_t i = 0; i < n && (n == 1 || e.a[(n - 2) * n + n - 2] != 0); i++) {
      AdjugateColumn(&e, i);
      for (int64_t j = 0; j < n; j++)
        RefSet(dx, (m * n + e.row[i]) * n + e.column[j], scale * e.vector[j]);
    }
  }
  EndElimination(&e);
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindDeterminant(const char *name)
{
  static const RefRow rows[] = {
      {"Det", Det_Ref},
      {"DetGrad", DetGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
