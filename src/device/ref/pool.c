/* Pooling with any number of spatial dimensions. */
#include "ref.h"
#include <math.h>

/* Planes [batch x channels] of x and y, the window and its number of taps. */
typedef struct {
  int64_t planes, in_plane, out_plane, taps;
  const int64_t *in_dim, *out_dim;
  RengaOpWindow window;
} Pool_Ref;

static RengaErrorCode PoolOf(const RengaOpCall *call, const RengaTensorSpec *x,
                             const RengaTensorSpec *y, Pool_Ref *pool)
{
  RengaCall(RengaOpGetWindow(call, x, NULL, &pool->window));
  pool->planes = RengaOpProduct(x, 0, 2);
  pool->in_plane = RengaOpProduct(x, 2, x->ndim);
  pool->out_plane = RengaOpProduct(y, 2, y->ndim);
  pool->in_dim = x->dim + 2;
  pool->out_dim = y->dim + 2;
  pool->taps = 1;
  for (int d = 0; d < pool->window.n; d++) pool->taps *= pool->window.kernel[d];
  return RENGA_SUCCESS;
}

static bool IsMore(RefIn x, int64_t i, int64_t j)
{
  double a = RefGet(x, i), b = RefGet(x, j);
  return a > b || (isnan(a) && !isnan(b));
}

/* Place in the plane of the first maximum under the window; -1 where all of it is padding. */
static int64_t MaximumPlace(const Pool_Ref *pool, RefIn x, int64_t plane_at, const int64_t index[])
{
  int64_t best = -1;
  RefWalk tap;
  RefWalkStart(&tap, pool->window.n, pool->window.kernel);
  for (int64_t t = 0; t < pool->taps; t++, RefWalkNext(&tap)) {
    int64_t place = RefInputPlace(&pool->window, index, tap.index, pool->in_dim);
    if (place >= 0 && (best < 0 || IsMore(x, plane_at + place, plane_at + best))) best = place;
  }
  return best;
}

static RengaErrorCode MaxPool_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  int64_t *places = call->n_out > 1 ? out[1] : NULL, i = 0;
  size_t size = RengaDataTypeSize(x.type);
  Pool_Ref pool;
  RengaCall(PoolOf(call, &call->in[0], &call->out[0], &pool));
  for (int64_t plane = 0; plane < pool.planes; plane++) {
    RefWalk walk;
    RefWalkStart(&walk, pool.window.n, pool.out_dim);
    for (int64_t p = 0; p < pool.out_plane; p++, i++, RefWalkNext(&walk)) {
      int64_t place = MaximumPlace(&pool, x, plane * pool.in_plane, walk.index);
      if (place >= 0)
        RefCopy(out[0], i, x.data, plane * pool.in_plane + place, 1, size);
      else
        RefSet(y, i, -INFINITY);
      if (places) places[i] = place;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MaxPoolGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                      const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0), places = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  const RengaTensorSpec *x = &call->out[0], *y = &call->in[0];
  int64_t in_plane = RengaOpProduct(x, 2, x->ndim), out_plane = RengaOpProduct(y, 2, y->ndim);
  int64_t count = RengaTensorSpecCount(y);
  RefZero(dx, RengaTensorSpecCount(x));
  for (int64_t i = 0; i < count; i++) {
    int64_t place = RefGetInt(places, i);
    RengaOpCheckValue(place < in_plane, call, "index %lld is outside a plane of %lld",
                      (long long)place, (long long)in_plane);
    if (place >= 0) RefAdd(dx, i / out_plane * in_plane + place, RefGet(dy, i));
  }
  return RENGA_SUCCESS;
}

/* By how much the sum under the window at index is divided: its elements inside the input or, where
   padding counts, inside the padded input. */
static double Divisor(const Pool_Ref *pool, const int64_t index[], bool with_padding)
{
  double product = 1;
  for (int d = 0; d < pool->window.n; d++) {
    int64_t count = 0, low = with_padding ? -pool->window.before[d] : 0;
    int64_t high = pool->in_dim[d] + (with_padding ? pool->window.after[d] : 0);
    for (int64_t t = 0; t < pool->window.kernel[d]; t++) {
      int64_t i =
          index[d] * pool->window.stride[d] + t * pool->window.dilation[d] - pool->window.before[d];
      if (i >= low && i < high) count++;
    }
    product *= (double)count;
  }
  return product > 0 ? product : 1;
}

static double WindowSum(const Pool_Ref *pool, RefIn x, int64_t plane_at, const int64_t index[])
{
  double sum = 0;
  RefWalk tap;
  RefWalkStart(&tap, pool->window.n, pool->window.kernel);
  for (int64_t t = 0; t < pool->taps; t++, RefWalkNext(&tap)) {
    int64_t place = RefInputPlace(&pool->window, index, tap.index, pool->in_dim);
    if (place >= 0) sum += RefGet(x, plane_at + place);
  }
  return sum;
}

static RengaErrorCode AveragePool_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                      const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  bool with_padding = RengaOpCallInt(call, "count_include_pad");
  Pool_Ref pool;
  RengaCall(PoolOf(call, &call->in[0], &call->out[0], &pool));
  int64_t i = 0;
  for (int64_t plane = 0; plane < pool.planes; plane++) {
    RefWalk walk;
    RefWalkStart(&walk, pool.window.n, pool.out_dim);
    for (int64_t p = 0; p < pool.out_plane; p++, RefWalkNext(&walk))
      RefSet(y, i++,
             WindowSum(&pool, x, plane * pool.in_plane, walk.index) /
                 Divisor(&pool, walk.index, with_padding));
  }
  return RENGA_SUCCESS;
}

/* dx at index: its share of all windows that hold it. */
static double ShareSum(const Pool_Ref *pool, RefIn dy, int64_t plane_at, const int64_t index[],
                       bool with_padding)
{
  double sum = 0;
  RefWalk tap;
  RefWalkStart(&tap, pool->window.n, pool->window.kernel);
  for (int64_t t = 0; t < pool->taps; t++, RefWalkNext(&tap)) {
    int64_t place = RefOutputPlace(&pool->window, index, tap.index, pool->out_dim);
    if (place < 0) continue;
    int64_t where[RENGA_MAX_DIM], rest = place;
    for (int d = pool->window.n - 1; d >= 0; d--) {
      where[d] = rest % pool->out_dim[d];
      rest /= pool->out_dim[d];
    }
    sum += RefGet(dy, plane_at + place) / Divisor(pool, where, with_padding);
  }
  return sum;
}

static RengaErrorCode AveragePoolGrad_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  RefIn dy = RefInput(call, in, 0);
  RefOut dx = RefOutput(call, out, 0);
  bool with_padding = RengaOpCallInt(call, "count_include_pad");
  Pool_Ref pool;
  RengaCall(PoolOf(call, &call->out[0], &call->in[0], &pool));
  int64_t i = 0;
  for (int64_t plane = 0; plane < pool.planes; plane++) {
    RefWalk walk;
    RefWalkStart(&walk, pool.window.n, pool.in_dim);
    for (int64_t p = 0; p < pool.in_plane; p++, RefWalkNext(&walk))
      RefSet(dx, i++, ShareSum(&pool, dy, plane * pool.out_plane, walk.index, with_padding));
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindPool(const char *name)
{
  static const RefRow rows[] = {
      {"MaxPool", MaxPool_Ref},
      {"MaxPoolGrad", MaxPoolGrad_Ref},
      {"AveragePool", AveragePool_Ref},
      {"AveragePoolGrad", AveragePoolGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
