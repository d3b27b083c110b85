/* Reductions over dimensions. Each result is summed in double by one thread, in the order of
 * memory. */
#include "low.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

typedef enum { SUM, SQUARES, ABSOLUTES, MOST, LEAST } Kind;

/* Runs of kept and reduced dimensions in turn; the last is `inner`. kept: extents and strides of x
   for the kept ones but inner; reduced likewise. */
typedef struct {
  Kind kind;
  bool root, mean;
  bool inner_kept;
  int64_t inner, results, terms, count;
  int64_t block; /* results side by side that are summed together, where the inner run is kept */
  int n_kept, n_reduced;
  int64_t kept[RENGA_MAX_DIM], kept_stride[RENGA_MAX_DIM];
  int64_t reduced[RENGA_MAX_DIM], reduced_stride[RENGA_MAX_DIM];
} Reduce_Cpu;

/* Of a block; rows that are added in one go, which has their sums in registers. */
enum { COLUMNS = 1024, LEAST_COLUMNS = 64, ROWS = 4 };

static int64_t Offset(int n, const int64_t extent[], const int64_t stride[], int64_t index)
{
  int64_t offset = 0;
  for (int d = n - 1; d >= 0; d--) {
    offset += index % extent[d] * stride[d];
    index /= extent[d];
  }
  return offset;
}

static double JoinTerms_Cpu(Kind kind, double a, double b)
{
  if (kind == MOST) return b > a || b != b ? b : a;
  if (kind == LEAST) return b < a || b != b ? b : a;
  return a + b;
}

static double Start(Kind kind)
{
  return kind == MOST ? -INFINITY : kind == LEAST ? INFINITY : 0;
}

static double FinishReduce_Cpu(const Reduce_Cpu *s, double sum)
{
  if (s->root) sum = sqrt(sum);
  return s->mean ? sum / (double)s->count : sum;
}

#define PRAGMA(text) _Pragma(#text)
#define RUN(name, operation, start, expression)                                                    \
  static double name(int64_t n, const float *x)                                                    \
  {                                                                                                \
    double r = (start);                                                                            \
    PRAGMA(omp simd reduction(operation : r)) for (int64_t i = 0; i < n; i++)                      \
    {                                                                                              \
      double v = x[i];                                                                             \
      expression;                                                                                  \
    }                                                                                              \
    return r;                                                                                      \
  }
RUN(SumRun, +, 0, r += v)
RUN(SquaresRun, +, 0, r += v * v)
RUN(AbsolutesRun, +, 0, r += fabs(v))
RUN(MostRun, max, -INFINITY, r = v > r ? v : r)
RUN(LeastRun, min, INFINITY, r = v < r ? v : r)
static double (*const runs[])(int64_t n, const float *x) = {[SUM] = SumRun,
                                                            [SQUARES] = SquaresRun,
                                                            [ABSOLUTES] = AbsolutesRun,
                                                            [MOST] = MostRun,
                                                            [LEAST] = LeastRun};

/* The inner run at an element of x. */
static double InnerRun(const Reduce_Cpu *s, RengaDataType type, const void *x, int64_t at)
{
  if (type == RENGA_FLOAT32) return runs[s->kind](s->inner, (const float *)x + at);
  float buffer[RENGA_CPU_RUN];
  double sum = Start(s->kind);
  for (int64_t i = 0; i < s->inner; i += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(s->inner - i, RENGA_CPU_RUN);
    RengaCpuWiden(type, here, (const uint16_t *)x + at + i, buffer);
    sum = JoinTerms_Cpu(s->kind, sum, runs[s->kind](here, buffer));
  }
  return sum;
}

/* One result, where the inner run is reduced. */
static double OneResult(const Reduce_Cpu *s, RengaDataType type, const void *x, int64_t at)
{
  double sum = Start(s->kind);
  for (int64_t t = 0; t < s->terms; t++)
    sum = JoinTerms_Cpu(
        s->kind, sum,
        InnerRun(s, type, x, at + Offset(s->n_reduced, s->reduced, s->reduced_stride, t)));
  return FinishReduce_Cpu(s, sum);
}

#define ADD_ROWS(name, expression)                                                                 \
  static void name(int rows, int64_t n, const float *const x[], double *sum)                       \
  {                                                                                                \
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];                                        \
    _Pragma("omp simd") for (int64_t i = 0; i < (rows == ROWS ? n : 0); i++)                       \
    {                                                                                              \
      double r = sum[i], v = a[i];                                                                 \
      r = (expression);                                                                            \
      v = b[i];                                                                                    \
      r = (expression);                                                                            \
      v = c[i];                                                                                    \
      r = (expression);                                                                            \
      v = d[i];                                                                                    \
      sum[i] = (expression);                                                                       \
    }                                                                                              \
    for (int row = 0; row < (rows == ROWS ? 0 : rows); row++)                                      \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                          \
      {                                                                                            \
        double r = sum[i], v = x[row][i];                                                          \
        sum[i] = (expression);                                                                     \
      }                                                                                            \
  }
ADD_ROWS(SumRows, r + v)
ADD_ROWS(SquaresRows, r + v * v)
ADD_ROWS(AbsolutesRows, r + fabs(v))
ADD_ROWS(MostRows, v > r ? v : r)
ADD_ROWS(LeastRows, v < r ? v : r)
static void (*const add_rows[])(int rows, int64_t n, const float *const x[],
                                double *sum) = {[SUM] = SumRows,
                                                [SQUARES] = SquaresRows,
                                                [ABSOLUTES] = AbsolutesRows,
                                                [MOST] = MostRows,
                                                [LEAST] = LeastRows};

/* n <= COLUMNS results side by side, where the inner run is kept. */
static void Results(const Reduce_Cpu *s, int64_t n, RengaDataType type, const void *x, int64_t at,
                    float *y)
{
  double sum[COLUMNS];
  float buffer[ROWS][COLUMNS];
  for (int64_t i = 0; i < n; i++) sum[i] = Start(s->kind);
  for (int64_t t = 0; t < s->terms; t += ROWS) {
    const float *row[ROWS] = {NULL};
    const int rows = (int)RengaCpuSmaller(s->terms - t, ROWS);
    for (int r = 0; r < rows; r++)
      row[r] = RengaCpuRead(
          type, x, at + Offset(s->n_reduced, s->reduced, s->reduced_stride, t + r), n, buffer[r]);
    add_rows[s->kind](rows, n, row, sum);
  }
  for (int64_t i = 0; i < n; i++) y[i] = (float)FinishReduce_Cpu(s, sum[i]);
}

/* A block for each thread, if that is not too small: each result is one thread's in any case. */
static int64_t LengthOfBlock(int64_t inner, int threads)
{
  const int64_t length = (RengaCpuPieces(inner, threads) + 15) / 16 * 16;
  return length > COLUMNS ? COLUMNS : length < LEAST_COLUMNS ? LEAST_COLUMNS : length;
}

static RengaErrorCode ReduceRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Reduce_Cpu *s = kernel->data;
  const RengaDataType from = kernel->call.in[0].type, to = kernel->call.out[0].type;
  int64_t blocks = s->inner_kept ? RengaCpuPieces(s->inner, s->block) : 1;
  int64_t work = s->terms * (s->inner_kept ? s->block : s->inner) + 1;
  int64_t per_piece = RENGA_CPU_PIECE / work + 1,
          pieces = RengaCpuPieces(s->results * blocks, per_piece);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->results * blocks, (piece + 1) * per_piece);
    for (int64_t p = piece * per_piece; p < end; p++) {
      int64_t result = p / blocks, column = p % blocks * s->block;
      int64_t at = Offset(s->n_kept, s->kept, s->kept_stride, result) + column;
      if (!s->inner_kept) {
        RengaCpuPut(to, out[0], result, (float)OneResult(s, from, in[0], at));
        continue;
      }
      int64_t here = RengaCpuSmaller(s->inner - column, s->block), y = result * s->inner + column;
      float buffer[COLUMNS], *made = RengaCpuPlace(to, out[0], y, buffer);
      Results(s, here, from, in[0], at, made);
      RengaCpuWrite(to, out[0], y, here, made);
    }
  }
  return RENGA_SUCCESS;
}

/* Dimensions from last to first; neighbours of one sort are one run. */
static void CollectAxes_Cpu(Reduce_Cpu *s, const RengaTensorSpec *x, const bool chosen[])
{
  int64_t stride = 1;
  s->inner = s->results = s->terms = s->count = 1;
  bool inner = true, first = true;
  for (int d = x->ndim - 1; d >= 0; d--) {
    if (x->dim[d] == 1) continue;
    if (first) s->inner_kept = !chosen[d];
    first = false;
    inner = inner && chosen[d] == !s->inner_kept;
    if (chosen[d]) s->count *= x->dim[d];
    if (inner)
      s->inner *= x->dim[d];
    else if (chosen[d]) {
      s->terms *= x->dim[d];
      s->reduced[s->n_reduced] = x->dim[d];
      s->reduced_stride[s->n_reduced++] = stride;
    } else {
      s->results *= x->dim[d];
      s->kept[s->n_kept] = x->dim[d];
      s->kept_stride[s->n_kept++] = stride;
    }
    stride *= x->dim[d];
  }
}

static void Reverse(int n, int64_t values[])
{
  for (int i = 0; i < n / 2; i++) {
    int64_t value = values[i];
    values[i] = values[n - 1 - i];
    values[n - 1 - i] = value;
  }
}

static RengaErrorCode CreateReduce_Cpu(RengaKernel kernel, Kind kind, bool mean, bool root)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  if (RengaTensorSpecCount(&call->in[0]) == 0)
    return RENGA_SUCCESS; /* the rules for nothing: ref */
  bool chosen[RENGA_MAX_DIM] = {false};
  RengaCall(RengaOpAxes(call, call->in[0].ndim, chosen));
  Reduce_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->kind = kind;
  s->mean = mean;
  s->root = root;
  CollectAxes_Cpu(s, &call->in[0], chosen);
  s->block = LengthOfBlock(s->inner, kernel->device->threads);
  Reverse(s->n_kept, s->kept);
  Reverse(s->n_kept, s->kept_stride);
  Reverse(s->n_reduced, s->reduced);
  Reverse(s->n_reduced, s->reduced_stride);
  kernel->run = ReduceRun_Cpu;
  return RENGA_SUCCESS;
}

static const struct {
  const char *name;
  Kind kind;
  bool mean, root;
} rows[] = {
    {"ReduceSum", SUM, false, false},           {"ReduceMean", SUM, true, false},
    {"ReduceMax", MOST, false, false},          {"ReduceMin", LEAST, false, false},
    {"ReduceL1", ABSOLUTES, false, false},      {"ReduceL2", SQUARES, false, true},
    {"ReduceSumSquare", SQUARES, false, false},
};

static RengaErrorCode ReduceCreate_Cpu(RengaKernel kernel)
{
  size_t r = 0;
  while (strcmp(rows[r].name, kernel->call.op->name) != 0) r++;
  RengaCall(CreateReduce_Cpu(kernel, rows[r].kind, rows[r].mean, rows[r].root));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuReduce)[] = {
    {"ReduceSum", ReduceCreate_Cpu},       {"ReduceMean", ReduceCreate_Cpu},
    {"ReduceMax", ReduceCreate_Cpu},       {"ReduceMin", ReduceCreate_Cpu},
    {"ReduceL1", ReduceCreate_Cpu},        {"ReduceL2", ReduceCreate_Cpu},
    {"ReduceSumSquare", ReduceCreate_Cpu}, {NULL, NULL},
};
