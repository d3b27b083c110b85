/* Data: numbers of one type to another. A row per type says how to load and store blocks of it;
   integers pass through int64, floats through double. */
#include "dataimpl.h"
#include <string.h>

enum { BLOCK = 256 };

typedef union {
  int64_t whole[BLOCK];
  double real[BLOCK];
} Wide;

#define LOADER(suffix, type, member)                                                               \
  static int Load##suffix(const void *in, int64_t at, int count, Wide *wide)                       \
  {                                                                                                \
    const type *values = (const type *)in + at;                                                    \
    for (int i = 0; i < count; i++) wide->member[i] = values[i];                                   \
    return count;                                                                                  \
  }
LOADER(Int8, int8_t, whole)
LOADER(Uint8, uint8_t, whole)
LOADER(Int16, int16_t, whole)
LOADER(Uint16, uint16_t, whole)
LOADER(Int32, int32_t, whole)
LOADER(Uint32, uint32_t, whole)
LOADER(Int64, int64_t, whole)
LOADER(Float32, float, real)
LOADER(Float64, double, real)

static int LoadUint64(const void *in, int64_t at, int count, Wide *wide)
{
  const uint64_t *values = (const uint64_t *)in + at;
  for (int i = 0; i < count; i++) {
    if (values[i] > INT64_MAX) return i;
    wide->whole[i] = (int64_t)values[i];
  }
  return count;
}

#define INTEGER_STORER(suffix, type, low, high)                                                    \
  static int Store##suffix(const Wide *wide, int count, void *out, int64_t at)                     \
  {                                                                                                \
    type *values = (type *)out + at;                                                               \
    for (int i = 0; i < count; i++) {                                                              \
      if (wide->whole[i] < (low) || wide->whole[i] > (high)) return i;                             \
      values[i] = (type)wide->whole[i];                                                            \
    }                                                                                              \
    return count;                                                                                  \
  }
INTEGER_STORER(Int8, int8_t, INT8_MIN, INT8_MAX)
INTEGER_STORER(Uint8, uint8_t, 0, UINT8_MAX)
INTEGER_STORER(Int16, int16_t, INT16_MIN, INT16_MAX)
INTEGER_STORER(Uint16, uint16_t, 0, UINT16_MAX)
INTEGER_STORER(Int32, int32_t, INT32_MIN, INT32_MAX)
INTEGER_STORER(Uint32, uint32_t, 0, (int64_t)UINT32_MAX)
INTEGER_STORER(Int64, int64_t, INT64_MIN, INT64_MAX)
INTEGER_STORER(Uint64, uint64_t, 0, INT64_MAX)
INTEGER_STORER(Bool, uint8_t, 0, 1)

#define FLOAT_STORER(suffix, type, member)                                                         \
  static int Store##suffix(const Wide *wide, int count, void *out, int64_t at)                     \
  {                                                                                                \
    type *values = (type *)out + at;                                                               \
    for (int i = 0; i < count; i++) values[i] = (type)wide->member[i];                             \
    return count;                                                                                  \
  }
FLOAT_STORER(Float32, float, real)
FLOAT_STORER(Float64, double, real)
FLOAT_STORER(Float32OfWhole, float, whole)
FLOAT_STORER(Float64OfWhole, double, whole)

typedef int (*Loader)(const void *in, int64_t at, int count, Wide *wide);
typedef int (*Storer)(const Wide *wide, int count, void *out, int64_t at);

/* A type without loader or storer (the 16-bit floats) is neither read nor filled. */
static const struct {
  bool integer;
  Loader load;
  Storer from_whole, from_real;
} kinds[RENGA_TYPE_COUNT] = {
    [RENGA_FLOAT32] = {false, LoadFloat32, StoreFloat32OfWhole, StoreFloat32},
    [RENGA_FLOAT64] = {false, LoadFloat64, StoreFloat64OfWhole, StoreFloat64},
    [RENGA_INT8] = {true, LoadInt8, StoreInt8, NULL},
    [RENGA_UINT8] = {true, LoadUint8, StoreUint8, NULL},
    [RENGA_INT16] = {true, LoadInt16, StoreInt16, NULL},
    [RENGA_UINT16] = {true, LoadUint16, StoreUint16, NULL},
    [RENGA_INT32] = {true, LoadInt32, StoreInt32, NULL},
    [RENGA_UINT32] = {true, LoadUint32, StoreUint32, NULL},
    [RENGA_INT64] = {true, LoadInt64, StoreInt64, NULL},
    [RENGA_UINT64] = {true, LoadUint64, StoreUint64, NULL},
    [RENGA_BOOL] = {true, LoadUint8, StoreBool, NULL},
};

static Storer StorerOf(RengaDataType from, RengaDataType to)
{
  return kinds[from].integer ? kinds[to].from_whole : kinds[to].from_real;
}

bool RengaDataIsInteger(RengaDataType type)
{
  return kinds[type].integer;
}

bool RengaDataConvertible(RengaDataType from, RengaDataType to)
{
  return kinds[from].load != NULL && StorerOf(from, to) != NULL;
}

int64_t RengaDataConvert(RengaDataType from, const void *in, RengaDataType to, void *out,
                         int64_t count)
{
  if (from == to && from != RENGA_BOOL) {
    memcpy(out, in, (size_t)count * RengaDataTypeSize(from));
    return count;
  }
  Storer store = StorerOf(from, to);
  for (int64_t at = 0; at < count; at += BLOCK) {
    Wide wide;
    int n = count - at < BLOCK ? (int)(count - at) : BLOCK;
    int loaded = kinds[from].load(in, at, n, &wide), stored = store(&wide, loaded, out, at);
    if (stored < n) return at + stored;
  }
  return count;
}

int64_t RengaDataFindOutside(RengaDataType type, const void *in, int64_t count, int64_t bound,
                             int64_t allowed)
{
  for (int64_t at = 0; at < count; at += BLOCK) {
    Wide wide;
    int n = count - at < BLOCK ? (int)(count - at) : BLOCK;
    int loaded = kinds[type].load(in, at, n, &wide);
    for (int i = 0; i < loaded; i++)
      if ((wide.whole[i] < 0 || wide.whole[i] >= bound) && wide.whole[i] != allowed) return at + i;
    if (loaded < n) return at + loaded;
  }
  return count;
}

double RengaDataValueAt(RengaDataType type, const void *in, int64_t at)
{
  Wide wide;
  if (kinds[type].load(in, at, 1, &wide) < 1) return (double)((const uint64_t *)in)[at];
  return kinds[type].integer ? (double)wide.whole[0] : wide.real[0];
}

void RengaDataSwapBytes(size_t size, int64_t count, unsigned char values[])
{
  for (int64_t i = 0; i < count && size > 1; i++)
    for (size_t low = 0, high = size - 1; low < high; low++, high--) {
      unsigned char *value = values + (size_t)i * size, keep = value[low];
      value[low] = value[high];
      value[high] = keep;
    }
}
