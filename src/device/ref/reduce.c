/* Reductions. Each output element is a function of a series: the elements of x that it is made
   from. */
#include "ref.h"
#include <math.h>
#include <string.h>

/* Element i of the series is x at walk.at[0] + base after i steps. */
typedef struct {
  RefIn x;
  int64_t base, count;
  RefWalk walk; /* over the reduced dimensions */
} Series;

static double ReduceSum_Ref(Series series)
{
  double sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    sum += RefGet(series.x, series.base + series.walk.at[0]);
  return sum;
}

static double ReduceMean_Ref(Series series)
{
  return ReduceSum_Ref(series) / (double)series.count;
}

static double ReduceMax_Ref(Series series)
{
  double most = -INFINITY;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    double value = RefGet(series.x, series.base + series.walk.at[0]);
    if (value > most || isnan(value)) most = value;
  }
  return most;
}

static double ReduceMin_Ref(Series series)
{
  double least = INFINITY;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    double value = RefGet(series.x, series.base + series.walk.at[0]);
    if (value < least || isnan(value)) least = value;
  }
  return least;
}

static double ReduceProduct_Ref(Series series)
{
  double product = 1;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    product *= RefGet(series.x, series.base + series.walk.at[0]);
  return product;
}

static double Absolute(Series series)
{
  double sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    sum += fabs(RefGet(series.x, series.base + series.walk.at[0]));
  return sum;
}

static double Squares(Series series)
{
  double sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    double value = RefGet(series.x, series.base + series.walk.at[0]);
    sum += value * value;
  }
  return sum;
}

static double ReduceNorm_Ref(Series series)
{
  return sqrt(Squares(series));
}

static double ReduceLogSum_Ref(Series series)
{
  return log(ReduceSum_Ref(series));
}

static double ReduceLogSumExp_Ref(Series series)
{
  double most = ReduceMax_Ref(series), sum = 0;
  if (isinf(most)) return most;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    sum += exp(RefGet(series.x, series.base + series.walk.at[0]) - most);
  return most + log(sum);
}

/* The same of integers, exactly, modulo 2^64. */
static int64_t IntegerSum(Series series)
{
  uint64_t sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    sum += (uint64_t)RefGetInt(series.x, series.base + series.walk.at[0]);
  return (int64_t)sum;
}

static int64_t IntegerMean(Series series)
{
  return series.count ? IntegerSum(series) / series.count : 0;
}

static int64_t IntegerProduct(Series series)
{
  uint64_t product = 1;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk))
    product *= (uint64_t)RefGetInt(series.x, series.base + series.walk.at[0]);
  return (int64_t)product;
}

static int64_t IntegerAbsolute(Series series)
{
  uint64_t sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    int64_t value = RefGetInt(series.x, series.base + series.walk.at[0]);
    sum += value < 0 && !RefIsNatural(series.x.type) ? 0 - (uint64_t)value : (uint64_t)value;
  }
  return (int64_t)sum;
}

static int64_t IntegerSquares(Series series)
{
  uint64_t sum = 0;
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    uint64_t value = (uint64_t)RefGetInt(series.x, series.base + series.walk.at[0]);
    sum += value * value;
  }
  return (int64_t)sum;
}

/* The extreme of an empty series is the other end of the type, to which the real one saturates. */
static int64_t ReduceExtreme_Ref(Series series, bool most)
{
  bool flip = series.x.type == RENGA_UINT64; /* order the bits of uint64 as signed numbers */
  uint64_t mask = flip ? (uint64_t)INT64_MIN : 0;
  int64_t best = (int64_t)((uint64_t)RefGetInt(series.x, series.base) ^ mask);
  for (int64_t i = 0; i < series.count; i++, RefWalkNext(&series.walk)) {
    int64_t value = RefGetInt(series.x, series.base + series.walk.at[0]);
    value = (int64_t)((uint64_t)value ^ mask);
    if (most ? value > best : value < best) best = value;
  }
  return (int64_t)((uint64_t)best ^ mask);
}

static int64_t IntegerMax(Series series)
{
  return ReduceExtreme_Ref(series, true);
}

static int64_t IntegerMin(Series series)
{
  return ReduceExtreme_Ref(series, false);
}

static const struct {
  const char *name;
  double (*real)(Series series);
  int64_t (*integer)(Series series);
} rows[] = {
    {"ReduceSum", ReduceSum_Ref, IntegerSum},
    {"ReduceMean", ReduceMean_Ref, IntegerMean},
    {"ReduceMax", ReduceMax_Ref, IntegerMax},
    {"ReduceMin", ReduceMin_Ref, IntegerMin},
    {"ReduceProd", ReduceProduct_Ref, IntegerProduct},
    {"ReduceL1", Absolute, IntegerAbsolute},
    {"ReduceL2", ReduceNorm_Ref, NULL},
    {"ReduceSumSquare", Squares, IntegerSquares},
    {"ReduceLogSum", ReduceLogSum_Ref, NULL},
    {"ReduceLogSumExp", ReduceLogSumExp_Ref, NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int FindReduction_Ref(const char *name)
{
  int i = 0;
  while (i < N_ROWS && strcmp(rows[i].name, name) != 0) i++;
  return i;
}

/* Cuts the dimensions of x into those kept, which walk the outputs, and those reduced. */
static RengaErrorCode StartSeries(const RengaOpCall *call, const RengaTensorSpec *x, RefWalk *kept,
                                  RefWalk *reduced)
{
  bool chosen[RENGA_MAX_DIM];
  int64_t stride[RENGA_MAX_DIM], dim[2][RENGA_MAX_DIM] = {{0}}, step[2][RENGA_MAX_DIM] = {{0}};
  int n[2] = {0, 0};
  RengaCall(RengaOpAxes(call, x->ndim, chosen));
  RefStrides(x, stride);
  for (int d = 0; d < x->ndim; d++) {
    int part = chosen[d];
    dim[part][n[part]] = x->dim[d];
    step[part][n[part]++] = stride[d];
  }
  RefWalkStart(kept, n[0], dim[0]);
  RefWalkAdd(kept, 0, step[0]);
  RefWalkStart(reduced, n[1], dim[1]);
  RefWalkAdd(reduced, 0, step[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode Reduce_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  int row = FindReduction_Ref(call->op->name);
  RefOut y = RefOutput(call, out, 0);
  RefWalk kept;
  Series series = {.x = RefInput(call, in, 0)};
  RengaCall(StartSeries(call, &call->in[0], &kept, &series.walk));
  series.count = RefWalkCount(&series.walk);
  bool floating = RengaDataTypeIsFloating(series.x.type);
  bool exact = !floating && rows[row].integer && series.count > 0;
  int64_t count = RefWalkCount(&kept);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&kept)) {
    series.base = kept.at[0];
    if (exact)
      RefSetInt(y, i, rows[row].integer(series));
    else
      RefSet(y, i, rows[row].real(series));
  }
  return RENGA_SUCCESS;
}

/* dx_j = dy * product of the x_i other than x_j; right where some are zero. */
static RengaErrorCode ReduceProdGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                         const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0), x = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  RefWalk kept, start;
  RengaCall(StartSeries(call, &call->in[1], &kept, &start));
  int64_t outer = RefWalkCount(&kept), inner = RefWalkCount(&start);
  for (int64_t o = 0; o < outer; o++, RefWalkNext(&kept)) {
    RefWalk target = start;
    for (int64_t j = 0; j < inner; j++, RefWalkNext(&target)) {
      double product = RefGet(dy, o);
      RefWalk other = start;
      for (int64_t i = 0; i < inner; i++, RefWalkNext(&other))
        if (i != j) product *= RefGet(x, kept.at[0] + other.at[0]);
      RefSet(dx, kept.at[0] + target.at[0], product);
    }
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindReduce(const char *name)
{
  if (strcmp(name, "ReduceProdGrad") == 0) return ReduceProdGrad_Ref;
  return FindReduction_Ref(name) < N_ROWS ? Reduce_Ref : NULL;
}
