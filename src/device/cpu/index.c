/* Gather and its gradient: the embedding of tokens. */
#include "low.h"
#include "renga/private/op.h"
#include <string.h>

/* data is [outer, length, inner], indices [count], the result [outer, count, inner] */
typedef struct {
  int64_t outer, length, inner, count;
  int64_t rows, first; /* of all lanes; the first of these that data has */
  int64_t padding;     /* the row of data that gets no gradient; below 0: none */
  int64_t per_range;   /* rows of the gradient that are made together */
  size_t size;         /* bytes of an element */
  bool wide;           /* indices are int64, else int32 */
} Gather_Cpu;

static int64_t IndexAt(const Gather_Cpu *s, const void *indices, int64_t i)
{
  int64_t index = s->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
  return index < 0 ? index + s->rows : index;
}

/* Of data; below 0 or behind its last: a row of another lane. */
static int64_t RowAt_Cpu(const Gather_Cpu *s, const void *indices, int64_t i)
{
  return IndexAt(s, indices, i) - s->first;
}

static RengaErrorCode CheckIndices(const Gather_Cpu *s, const char *name, const void *indices)
{
  for (int64_t i = 0; i < s->count; i++) {
    int64_t index = IndexAt(s, indices, i);
    RengaCheck(index >= 0 && index < s->rows, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "%s: index %lld at position %lld is outside [0, %lld)", name, (long long)index,
               (long long)i, (long long)s->rows);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Gather_Cpu *s = kernel->data;
  RengaCall(CheckIndices(s, "Gather", in[1]));
  size_t row = (size_t)s->inner * s->size;
  int64_t rows = s->outer * s->count, per_piece = RENGA_CPU_PIECE / (s->inner + 1) + 1;
  int64_t pieces = RengaCpuPieces(rows, per_piece);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t end = RengaCpuSmaller(rows, (piece + 1) * per_piece);
    for (int64_t r = piece * per_piece; r < end; r++) {
      const int64_t own = RowAt_Cpu(s, in[1], r % s->count), from = r / s->count * s->length + own;
      char *to = (char *)out[0] + (size_t)r * row;
      if (own < 0 || own >= s->length)
        memset(to, 0, row);
      else
        memcpy(to, (const char *)in[0] + (size_t)from * row, row);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateGather_Cpu(RengaKernel kernel, const RengaTensorSpec *data,
                                       RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *indices = &call->in[1];
  if (indices->type != RENGA_INT64 && indices->type != RENGA_INT32) return RENGA_SUCCESS;
  int axis = 0;
  RengaCall(RengaOpAxis(call, "axis", data->ndim, &axis));
  const int64_t rows = RengaOpCallInt(call, "rows"), first = RengaOpCallInt(call, "first");
  Gather_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  *s = (Gather_Cpu){.outer = RengaOpProduct(data, 0, axis),
                    .length = data->dim[axis],
                    .inner = RengaOpProduct(data, axis + 1, data->ndim),
                    .count = RengaTensorSpecCount(indices),
                    .rows = rows ? rows : data->dim[axis],
                    .first = first,
                    .padding = RengaOpCallInt(call, "padding") - first,
                    .size = RengaDataTypeSize(data->type),
                    .wide = indices->type == RENGA_INT64};
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  kernel->run = run;
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherCreate_Cpu(RengaKernel kernel)
{
  if (kernel->call.in[0].type == kernel->call.out[0].type)
    RengaCall(CreateGather_Cpu(kernel, &kernel->call.in[0], GatherRun_Cpu));
  return RENGA_SUCCESS;
}

static void AddToRow(int64_t n, const float *x, float *row)
{
#pragma omp simd
  for (int64_t j = 0; j < n; j++) row[j] += x[j];
}

static void AddLowToRow(RengaDataType type, const void *x, int64_t at, int64_t n, float *row)
{
  float buffer[RENGA_CPU_RUN];
  for (int64_t j = 0; j < n; j += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(n - j, RENGA_CPU_RUN);
    AddToRow(here, RengaCpuRead(type, x, at + j, here, buffer), row + j);
  }
}

/* Rows [first, last) of the table's gradient, of which the first one is at rows: every thread reads
   all indices and keeps its own, so that each row is summed in ascending position. */
static void GradientRows(const Gather_Cpu *s, const void *indices, RengaDataType type,
                         const void *dy, int64_t outer, int64_t first, int64_t last, float *rows)
{
  memset(rows, 0, (size_t)((last - first) * s->inner) * sizeof *rows);
  for (int64_t i = 0; i < s->count; i++) {
    int64_t own = RowAt_Cpu(s, indices, i), from = (outer * s->count + i) * s->inner;
    if (own < first || own >= last || own == s->padding) continue;
    float *row = rows + (own - first) * s->inner;
    if (type == RENGA_FLOAT32)
      AddToRow(s->inner, (const float *)dy + from, row);
    else
      AddLowToRow(type, dy, from, s->inner, row);
  }
}

static RengaErrorCode GatherGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                        const RengaKernelContext *context, const void *const in[],
                                        void *const out[], void *workspace)
{
  const Gather_Cpu *s = kernel->data;
  const RengaDataType from = kernel->call.in[0].type, to = kernel->call.out[0].type;
  RengaCall(CheckIndices(s, "GatherGrad", in[1]));
  int64_t ranges = RengaCpuPieces(s->length, s->per_range), pieces = s->outer * ranges;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece % ranges * s->per_range, outer = piece / ranges;
    int64_t last = RengaCpuSmaller(s->length, first + s->per_range);
    int64_t at = (outer * s->length + first) * s->inner;
    float *buffer = (float *)workspace + s->per_range * s->inner * RengaCpuThread();
    float *rows = RengaCpuPlace(to, out[0], at, buffer);
    GradientRows(s, in[1], from, in[0], outer, first, last, rows);
    RengaCpuWrite(to, out[0], at, (last - first) * s->inner, rows);
  }
  return RENGA_SUCCESS;
}

/* Rows of a range, which stay in the cache from their zeros to their last sum; low: those of a
   range are added up in a buffer. Every range reads all indices. */
static int64_t RangeOf(const Gather_Cpu *s, int threads, bool low)
{
  enum { SHARES = 4, CACHED = 1 << 17, BUFFER = 1 << 16 };
  int64_t rows = RengaCpuPieces(s->length, threads > 1 ? SHARES * (int64_t)threads : 1);
  const int64_t most = low ? BUFFER : CACHED;
  if (rows * s->inner > most) rows = most / s->inner;
  if (rows * s->inner < RENGA_CPU_PIECE) rows = RENGA_CPU_PIECE / (s->inner + 1) + 1;
  return rows;
}

static RengaErrorCode GatherGradCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool low = RengaDeviceIsLow(call->out[0].type);
  if (!RengaCpuIsFloat(call->in[0].type) || !RengaCpuIsFloat(call->out[0].type))
    return RENGA_SUCCESS;
  RengaCall(CreateGather_Cpu(kernel, &call->out[0], GatherGradRun_Cpu));
  Gather_Cpu *s = kernel->data;
  if (!s) return RENGA_SUCCESS;
  s->per_range = RangeOf(s, kernel->device->threads, low);
  if (low)
    kernel->workspace = (size_t)(s->per_range * s->inner * kernel->device->threads) * sizeof(float);
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuIndex)[] = {
    {"Gather", GatherCreate_Cpu},
    {"GatherGrad", GatherGradCreate_Cpu},
    {NULL, NULL},
};
