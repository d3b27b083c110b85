/* What the ref kernels share. They read any type as double (or, for integers, as int64_t),
   compute in it, and round once when they store; they recompute, and allocate nothing but
   the matrix of an elimination. */
#pragma once
#include "renga/private/op.h"
#include "renga/private/ref.h"

/* A kernel has the parameters of all kernels, and uses those that it needs. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A family of kernels: the one of an operator, NULL where it is of another family. */
RengaRefKernel RefFindUnary(const char *name);
RengaRefKernel RefFindBinary(const char *name);
RengaRefKernel RefFindReduce(const char *name);
RengaRefKernel RefFindScan(const char *name);
RengaRefKernel RefFindMove(const char *name);
RengaRefKernel RefFindPad(const char *name);
RengaRefKernel RefFindIndex(const char *name);
RengaRefKernel RefFindMatrix(const char *name);
RengaRefKernel RefFindDeterminant(const char *name);
RengaRefKernel RefFindConvolve(const char *name);
RengaRefKernel RefFindPool(const char *name);
RengaRefKernel RefFindRegion(const char *name);
RengaRefKernel RefFindNormalize(const char *name);
RengaRefKernel RefFindBatch(const char *name);
RengaRefKernel RefFindSoftmax(const char *name);
RengaRefKernel RefFindAttention(const char *name);
RengaRefKernel RefFindCached(const char *name);
RengaRefKernel RefFindLoss(const char *name);
RengaRefKernel RefFindRecurrent(const char *name);

typedef struct {
  const char *name; /* NULL ends a table */
  RengaRefKernel run;
} RefRow;
RengaRefKernel RefFindRow(const RefRow rows[], const char *name);

/* A tensor as an array of numbers. */
typedef struct {
  const void *data; /* NULL: an optional input that is absent */
  RengaDataType type;
} RefIn;
typedef struct {
  void *data;
  RengaDataType type;
} RefOut;

RefIn RefInput(const RengaOpCall *call, const void *const in[], int i);
/* An optional output that nobody asked for has data NULL. */
RefOut RefOutput(const RengaOpCall *call, void *const out[], int i);

static inline bool RefIsNatural(RengaDataType type)
{
  return type == RENGA_UINT8 || type == RENGA_UINT16 || type == RENGA_UINT32 ||
         type == RENGA_UINT64;
}

double RefGetAny(RefIn x, int64_t i);
void RefSetAny(RefOut y, int64_t i, double value); /* integers saturate, toward zero */
int64_t RefGetInt(RefIn x, int64_t i);             /* uint64 as its bits */
void RefSetInt(RefOut y, int64_t i, int64_t value);

static inline double RefGet(RefIn x, int64_t i)
{
  if (x.type == RENGA_FLOAT32) return ((const float *)x.data)[i];
  if (x.type == RENGA_FLOAT64) return ((const double *)x.data)[i];
  return RefGetAny(x, i);
}

static inline void RefSet(RefOut y, int64_t i, double value)
{
  if (y.type == RENGA_FLOAT32)
    ((float *)y.data)[i] = (float)value;
  else if (y.type == RENGA_FLOAT64)
    ((double *)y.data)[i] = value;
  else
    RefSetAny(y, i, value);
}

/* y[i] += value, for gradients that are scattered. */
static inline void RefAdd(RefOut y, int64_t i, double value)
{
  RefSet(y, i, RefGet((RefIn){y.data, y.type}, i) + value);
}

void RefZero(RefOut y, int64_t count);
void RefCopy(void *to, int64_t i, const void *from, int64_t j, int64_t count, size_t size);

/* Sum of a[i * a_step] * b[i * b_step], i = 0 ... count-1, from the given places on. */
double RefDot(RefIn a, int64_t a_at, int64_t a_step, RefIn b, int64_t b_at, int64_t b_step,
              int64_t count);

/* A walk over all elements of a shape in row-major order, with the places of up to four tensors
   that are read or written on the way. */
enum { REF_WALKERS = 4 };
typedef struct {
  int ndim, n;
  int64_t dim[RENGA_MAX_DIM], index[RENGA_MAX_DIM];
  int64_t step[REF_WALKERS][RENGA_MAX_DIM];
  int64_t at[REF_WALKERS];
} RefWalk;
void RefWalkStart(RefWalk *walk, int ndim, const int64_t dim[]);
void RefWalkAdd(RefWalk *walk, int64_t at, const int64_t step[]);
void RefWalkAddBroadcast(RefWalk *walk,
                         const RengaTensorSpec *x); /* steps 0 where x has extent 1 */
void RefWalkNext(RefWalk *walk);
int64_t RefWalkCount(const RefWalk *walk);
void RefStrides(const RengaTensorSpec *spec, int64_t stride[RENGA_MAX_DIM]);

/* A tensor as [outer][extent][inner] around one of its dimensions. */
typedef struct {
  int64_t outer, extent, inner;
} RefAxis;
RefAxis RefAxisOf(const RengaTensorSpec *spec, int axis);

/* One line of it along the extent: elements at, at + step, ... */
typedef struct {
  int64_t at, step, extent;
} RefLine;
static inline RefLine RefLineOf(RefAxis axis, int64_t outer, int64_t inner)
{
  return (RefLine){outer * axis.extent * axis.inner + inner, axis.inner, axis.extent};
}

/* Place in the input's plane that tap reads for output index; -1 where it is padding. */
int64_t RefInputPlace(const RengaOpWindow *window, const int64_t index[], const int64_t tap[],
                      const int64_t in_dim[]);
/* Place in the output's plane that reads input index by this tap; -1 where there is none. */
int64_t RefOutputPlace(const RengaOpWindow *window, const int64_t index[], const int64_t tap[],
                       const int64_t out_dim[]);
