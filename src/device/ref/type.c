/* Numbers of any type, dot products, walks over shapes, rows of tables. */
#include "ref.h"
#include <math.h>
#include <string.h>

/* Half precision: sign, 5 bits of exponent, 10 of fraction. */
static double HalfToDouble(uint16_t bits)
{
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0    ? ldexp(fraction, -24)
                 : exponent == 31 ? (fraction ? NAN : INFINITY)
                                  : ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/* Rounded to nearest, ties to even. */
static uint16_t HalfFromDouble(double value)
{
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  frexp(size, &exponent);
  if (exponent < -13) exponent = -13; /* subnormal: one spacing for all */
  int64_t units = (int64_t)nearbyint(ldexp(size, 11 - exponent));
  if (units == 2048) { /* rounded up to the next power of two */
    units = 1024;
    exponent++;
  }
  if (units < 1024) return (uint16_t)(sign | units);
  return (uint16_t)(sign | (exponent + 14) << 10 | (units - 1024));
}

static double BrainToDouble(uint16_t bits)
{
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint16_t BrainFromDouble(double value)
{
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (isnan(value)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The integers, with the bounds that a floating number saturates at. */
#define INTEGERS(X)                                                                                \
  X(INT8, int8_t, INT8_MIN, INT8_MAX)                                                              \
  X(UINT8, uint8_t, 0, UINT8_MAX)                                                                  \
  X(INT16, int16_t, INT16_MIN, INT16_MAX)                                                          \
  X(UINT16, uint16_t, 0, UINT16_MAX)                                                               \
  X(INT32, int32_t, INT32_MIN, INT32_MAX)                                                          \
  X(UINT32, uint32_t, 0, UINT32_MAX)                                                               \
  X(INT64, int64_t, INT64_MIN, INT64_MAX)                                                          \
  X(UINT64, uint64_t, 0, UINT64_MAX)

#define DEFINE(name, type, low, high)                                                              \
  static int64_t GetInt_##name(const void *data, int64_t i)                                        \
  {                                                                                                \
    return (int64_t)((const type *)data)[i];                                                       \
  }                                                                                                \
  static void SetInt_##name(void *data, int64_t i, int64_t value)                                  \
  {                                                                                                \
    ((type *)data)[i] = (type)value;                                                               \
  }                                                                                                \
  static double GetReal_##name(const void *data, int64_t i)                                        \
  {                                                                                                \
    return (double)((const type *)data)[i];                                                        \
  }                                                                                                \
  static void SetReal_##name(void *data, int64_t i, double value)                                  \
  {                                                                                                \
    type rounded = isnan(value)              ? 0                                                   \
                   : value <= (double)(low)  ? low                                                 \
                   : value >= (double)(high) ? high                                                \
                                             : (type)value;                                        \
    ((type *)data)[i] = rounded;                                                                   \
  }
INTEGERS(DEFINE)
#undef DEFINE

static int64_t GetInt_BOOL(const void *data, int64_t i)
{
  return ((const uint8_t *)data)[i] != 0;
}

static void SetInt_BOOL(void *data, int64_t i, int64_t value)
{
  ((uint8_t *)data)[i] = value != 0;
}

static double GetReal_BOOL(const void *data, int64_t i)
{
  return (double)GetInt_BOOL(data, i);
}

static void SetReal_BOOL(void *data, int64_t i, double value)
{
  ((uint8_t *)data)[i] = value != 0;
}

static double GetReal_FLOAT16(const void *data, int64_t i)
{
  return HalfToDouble(((const uint16_t *)data)[i]);
}

static void SetReal_FLOAT16(void *data, int64_t i, double value)
{
  ((uint16_t *)data)[i] = HalfFromDouble(value);
}

static double GetReal_BFLOAT16(const void *data, int64_t i)
{
  return BrainToDouble(((const uint16_t *)data)[i]);
}

static void SetReal_BFLOAT16(void *data, int64_t i, double value)
{
  ((uint16_t *)data)[i] = BrainFromDouble(value);
}

static const struct {
  double (*getreal)(const void *data, int64_t i);
  void (*setreal)(void *data, int64_t i, double value);
  int64_t (*getint)(const void *data, int64_t i);
  void (*setint)(void *data, int64_t i, int64_t value);
} access[RENGA_TYPE_COUNT] = {
#define ROW(name, type, low, high)                                                                 \
  [RENGA_##name] = {GetReal_##name, SetReal_##name, GetInt_##name, SetInt_##name},
    INTEGERS(ROW)
#undef ROW
        [RENGA_BOOL] = {GetReal_BOOL, SetReal_BOOL, GetInt_BOOL, SetInt_BOOL},
    [RENGA_FLOAT16] = {GetReal_FLOAT16, SetReal_FLOAT16, NULL, NULL},
    [RENGA_BFLOAT16] = {GetReal_BFLOAT16, SetReal_BFLOAT16, NULL, NULL},
};

RefIn RefInput(const RengaOpCall *call, const void *const in[], int i)
{
  bool has = RengaOpCallHasInput(call, i);
  return (RefIn){has ? in[i] : NULL, has ? call->in[i].type : RENGA_FLOAT32};
}

RefOut RefOutput(const RengaOpCall *call, void *const out[], int i)
{
  bool has = i < call->n_out;
  return (RefOut){has ? out[i] : NULL, has ? call->out[i].type : RENGA_FLOAT32};
}

double RefGetAny(RefIn x, int64_t i)
{
  return access[x.type].getreal(x.data, i);
}

void RefSetAny(RefOut y, int64_t i, double value)
{
  access[y.type].setreal(y.data, i, value);
}

int64_t RefGetInt(RefIn x, int64_t i)
{
  return access[x.type].getint(x.data, i);
}

void RefSetInt(RefOut y, int64_t i, int64_t value)
{
  access[y.type].setint(y.data, i, value);
}

void RefZero(RefOut y, int64_t count)
{
  if (count > 0) memset(y.data, 0, (size_t)count * RengaDataTypeSize(y.type));
}

/* count elements from place j of from to place i of to. */
void RefCopy(void *to, int64_t i, const void *from, int64_t j, int64_t count, size_t size)
{
  if (count > 0)
    memcpy((char *)to + (size_t)i * size, (const char *)from + (size_t)j * size,
           (size_t)count * size);
}

static double DotFloat(const float a[], int64_t a_step, const float b[], int64_t b_step,
                       int64_t count)
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)a[i * a_step] * b[i * b_step];
  return sum;
}

double RefDot(RefIn a, int64_t a_at, int64_t a_step, RefIn b, int64_t b_at, int64_t b_step,
              int64_t count)
{
  if (a.type == RENGA_FLOAT32 && b.type == RENGA_FLOAT32)
    return DotFloat((const float *)a.data + a_at, a_step, (const float *)b.data + b_at, b_step,
                    count);
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += RefGet(a, a_at + i * a_step) * RefGet(b, b_at + i * b_step);
  return sum;
}

void RefWalkStart(RefWalk *walk, int ndim, const int64_t dim[])
{
  memset(walk, 0, sizeof *walk);
  walk->ndim = ndim;
  for (int d = 0; d < ndim; d++) walk->dim[d] = dim[d];
}

void RefWalkAdd(RefWalk *walk, int64_t at, const int64_t step[])
{
  walk->at[walk->n] = at;
  for (int d = 0; d < walk->ndim; d++) walk->step[walk->n][d] = step[d];
  walk->n++;
}

void RefStrides(const RengaTensorSpec *spec, int64_t stride[RENGA_MAX_DIM])
{
  int64_t step = 1;
  for (int d = spec->ndim - 1; d >= 0; d--) {
    stride[d] = step;
    step *= spec->dim[d];
  }
}

void RefWalkAddBroadcast(RefWalk *walk, const RengaTensorSpec *x)
{
  int64_t stride[RENGA_MAX_DIM], step[RENGA_MAX_DIM] = {0};
  int skipped = walk->ndim - x->ndim;
  RefStrides(x, stride);
  for (int d = 0; d < x->ndim; d++) step[skipped + d] = x->dim[d] == 1 ? 0 : stride[d];
  RefWalkAdd(walk, 0, step);
}

void RefWalkNext(RefWalk *walk)
{
  for (int d = walk->ndim - 1; d >= 0; d--) {
    for (int k = 0; k < walk->n; k++) walk->at[k] += walk->step[k][d];
    if (++walk->index[d] < walk->dim[d]) return;
    for (int k = 0; k < walk->n; k++) walk->at[k] -= walk->step[k][d] * walk->dim[d];
    walk->index[d] = 0;
  }
}

int64_t RefWalkCount(const RefWalk *walk)
{
  int64_t count = 1;
  for (int d = 0; d < walk->ndim; d++) count *= walk->dim[d];
  return count;
}

RefAxis RefAxisOf(const RengaTensorSpec *spec, int axis)
{
  return (RefAxis){RengaOpProduct(spec, 0, axis), spec->dim[axis],
                   RengaOpProduct(spec, axis + 1, spec->ndim)};
}

RengaRefKernel RefFindRow(const RefRow rows[], const char *name)
{
  while (rows->name && strcmp(rows->name, name) != 0) rows++;
  return rows->run;
}
