/* Kernels along one axis: running sums and products, the places and values of the largest. */
#include "ref.h"
#include <math.h>
#include <string.h>

/* Integers below 2^53 are exact in double; larger ones are added as integers. */
static void ScanLine(RefIn x, RefOut y, RefLine line, bool exclusive, bool reverse, bool product)
{
  bool floating = RengaDataTypeIsFloating(x.type);
  double real = product;
  uint64_t integer = product;
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + (reverse ? line.extent - 1 - k : k) * line.step;
    double old_real = real;
    uint64_t old_integer = integer;
    if (floating)
      real = product ? real * RefGet(x, i) : real + RefGet(x, i);
    else {
      uint64_t value = (uint64_t)RefGetInt(x, i);
      integer = product ? integer * value : integer + value;
    }
    if (floating)
      RefSet(y, i, exclusive ? old_real : real);
    else
      RefSetInt(y, i, (int64_t)(exclusive ? old_integer : integer));
  }
}

static RengaErrorCode Scan(const RengaOpCall *call, const RengaKernelContext *context,
                           const void *const in[], void *const out[])
{
  int dimension;
  const bool product = strcmp(call->op->name, "CumProd") == 0;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  bool exclusive = RengaOpCallInt(call, "exclusive"), reverse = RengaOpCallInt(call, "reverse");
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++)
      ScanLine(x, y, RefLineOf(axis, o, i), exclusive, reverse, product);
  return RENGA_SUCCESS;
}

/* Whether element i comes before element j in the order of choice: larger (or smaller) values
   first, NaN before all, equal ones by place. */
static bool ComesBefore_Ref(RefIn x, int64_t i, int64_t j, bool largest)
{
  int order = 0;
  if (RengaDataTypeIsFloating(x.type)) {
    double a = RefGet(x, i), b = RefGet(x, j);
    order = isnan(a) || isnan(b) ? (isnan(a) != 0) - (isnan(b) != 0)
            : largest            ? (a > b) - (a < b)
                                 : (a < b) - (a > b);
  } else {
    int64_t a = RefGetInt(x, i), b = RefGetInt(x, j);
    bool more = x.type == RENGA_UINT64 ? (uint64_t)a > (uint64_t)b : a > b;
    order = a == b ? 0 : more == largest ? 1 : -1;
  }
  return order > 0 || (order == 0 && i < j);
}

/* Place on the line of its first element in the order of choice; last: of equal ones the last. */
static int64_t BestOf(RefIn x, RefLine line, bool largest, bool last)
{
  int64_t best = 0;
  for (int64_t k = 1; k < line.extent; k++) {
    int64_t i = line.at + k * line.step, j = line.at + best * line.step;
    bool strictly = ComesBefore_Ref(x, i, j, largest);
    bool equal = !strictly && RefGet(x, i) == RefGet(x, j);
    if (strictly || (last && equal)) best = k;
  }
  return best;
}

static RengaErrorCode ArgExtreme_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                     const void *const in[], void *const out[])
{
  int dimension;
  const bool largest = strcmp(call->op->name, "ArgMax") == 0;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  bool last = RengaOpCallInt(call, "select_last_index");
  RefIn x = RefInput(call, in, 0);
  int64_t *y = out[0];
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++)
      y[o * axis.inner + i] = BestOf(x, RefLineOf(axis, o, i), largest, last);
  return RENGA_SUCCESS;
}

/* Rank of element k: how many of its line come before it. */
static int64_t RankOf_Ref(RefIn x, RefLine line, int64_t k, bool largest)
{
  int64_t rank = 0;
  for (int64_t j = 0; j < line.extent; j++)
    if (j != k && ComesBefore_Ref(x, line.at + j * line.step, line.at + k * line.step, largest))
      rank++;
  return rank;
}

/* Values and places, best first (which is right for sorted and unsorted alike). */
static RengaErrorCode TopK_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  int64_t k = RengaOpCallInt(call, "k"), *places = call->n_out > 1 ? out[1] : NULL;
  bool largest = RengaOpCallInt(call, "largest");
  RefIn x = RefInput(call, in, 0);
  size_t size = RengaDataTypeSize(x.type);
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++) {
      RefLine line = RefLineOf(axis, o, i);
      for (int64_t j = 0; j < axis.extent; j++) {
        int64_t rank = RankOf_Ref(x, line, j, largest), to = (o * k + rank) * axis.inner + i;
        if (rank >= k) continue;
        RefCopy(out[0], to, x.data, line.at + j * line.step, 1, size);
        if (places) places[to] = j;
      }
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode Hardmax_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++) {
      RefLine line = RefLineOf(axis, o, i);
      int64_t best = BestOf(x, line, true, false);
      for (int64_t k = 0; k < axis.extent; k++) RefSet(y, line.at + k * line.step, k == best);
    }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindScan(const char *name)
{
  static const RefRow rows[] = {
      {"CumSum", Scan},
      {"CumProd", Scan},
      {"ArgMax", ArgExtreme_Ref},
      {"ArgMin", ArgExtreme_Ref},
      {"TopK", TopK_Ref},
      {"Hardmax", Hardmax_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
