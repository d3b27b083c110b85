/* Strided copies: rows by memcpy where both sides are contiguous, blocks of 32 x 32 where one is
 * turned. */
#include "copy.h"
#include "turn.h"
#include <string.h>

enum { BLOCK = 32 };

/* Drop dimensions of extent 1; join neighbours that are one run on both sides. */
static void JoinDimensions_Cpu(RengaCpuCopy *c)
{
  int n = 0;
  for (int d = 0; d < c->n; d++) {
    if (c->extent[d] == 1) continue;
    bool join = n > 0 && c->from[n - 1] == c->from[d] * c->extent[d] &&
                c->to[n - 1] == c->to[d] * c->extent[d];
    int64_t extent = join ? c->extent[n - 1] * c->extent[d] : c->extent[d];
    if (!join) n++;
    c->extent[n - 1] = extent;
    c->from[n - 1] = c->from[d];
    c->to[n - 1] = c->to[d];
  }
  if (n == 0) {
    c->extent[0] = c->from[0] = c->to[0] = 1;
    n = 1;
  }
  c->n = n;
}

void RengaCpuCopyInit(RengaCpuCopy *c)
{
  for (int d = 0; d < c->n; d++)
    if (c->extent[d] == 0) {
      c->pieces = 0;
      return;
    }
  JoinDimensions_Cpu(c);
  int last = c->n - 1;
  c->across = -1;
  if (c->from[last] != 1 && c->to[last] == 1)
    for (int d = 0; d < last; d++)
      if (c->from[d] == 1) c->across = d;
  c->rows = 1;
  for (int d = 0; d < last; d++)
    c->rows *= d == c->across ? RengaCpuPieces(c->extent[d], BLOCK) : c->extent[d];
  int64_t elements = c->extent[last] * (c->across >= 0 ? BLOCK : 1);
  c->rows_per_piece = elements < RENGA_CPU_PIECE ? RENGA_CPU_PIECE / elements : 1;
  c->pieces = RengaCpuPieces(c->rows, c->rows_per_piece);
}

static void CopyRun(int64_t count, size_t size, const char *from, int64_t from_step, char *to,
                    int64_t to_step)
{
  if (from_step == 1 && to_step == 1) {
    memcpy(to, from, (size_t)count * size);
  } else if (size == 4) {
    const int32_t *source = (const int32_t *)from;
    int32_t *target = (int32_t *)to;
    for (int64_t i = 0; i < count; i++) target[i * to_step] = source[i * from_step];
  } else if (size == 2) {
    const int16_t *source = (const int16_t *)from;
    int16_t *target = (int16_t *)to;
    for (int64_t i = 0; i < count; i++) target[i * to_step] = source[i * from_step];
  } else {
    for (int64_t i = 0; i < count; i++)
      memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
  }
}

/* to[i, j] = from[j, i] for i < rows <= BLOCK; both contiguous along their last index. */
static void TurnBlock_Cpu(int64_t rows, int64_t columns, size_t size, const char *from,
                          int64_t from_stride, char *to, int64_t to_stride)
{
  if (size == sizeof(uint16_t)) {
    RengaCpuTurn16(columns, rows, (const uint16_t *)(const void *)from, from_stride,
                   (uint16_t *)(void *)to, to_stride);
    return;
  }
  for (int64_t start = 0; start < columns; start += BLOCK) {
    int64_t end = RengaCpuSmaller(columns, start + BLOCK);
    for (int64_t i = 0; i < rows; i++) {
      if (size == 4) {
        const int32_t *source = (const int32_t *)from + i;
        int32_t *target = (int32_t *)to + i * to_stride;
        for (int64_t j = start; j < end; j++) target[j] = source[j * from_stride];
      } else {
        for (int64_t j = start; j < end; j++)
          memcpy(to + (i * to_stride + j) * (int64_t)size,
                 from + (j * from_stride + i) * (int64_t)size, size);
      }
    }
  }
}

/* Where a row begins. */
typedef struct {
  int64_t index[RENGA_CPU_COPY_DIM], source, target; /* elements */
} CopiedRow;

static int64_t StepOf(const RengaCpuCopy *c, int d)
{
  return d == c->across ? BLOCK : 1;
}

static void FindRow(const RengaCpuCopy *c, int64_t row, CopiedRow *place)
{
  place->source = c->from_offset;
  place->target = c->to_offset;
  for (int d = c->n - 2; d >= 0; d--) {
    const int64_t count = RengaCpuPieces(c->extent[d], StepOf(c, d));
    place->index[d] = row % count * StepOf(c, d);
    row /= count;
    place->source += place->index[d] * c->from[d];
    place->target += place->index[d] * c->to[d];
  }
}

/* The same for the row behind it, without divisions. */
static void PassRow(const RengaCpuCopy *c, CopiedRow *place)
{
  for (int d = c->n - 2; d >= 0; d--) {
    const int64_t step = StepOf(c, d);
    place->index[d] += step;
    place->source += step * c->from[d];
    place->target += step * c->to[d];
    if (place->index[d] < c->extent[d]) return;
    place->source -= place->index[d] * c->from[d];
    place->target -= place->index[d] * c->to[d];
    place->index[d] = 0;
  }
}

static void CopyRow_Cpu(const RengaCpuCopy *c, const CopiedRow *place, const char *from, char *to)
{
  const int last = c->n - 1;
  from += place->source * (int64_t)c->size;
  to += place->target * (int64_t)c->size;
  if (c->across < 0)
    CopyRun(c->extent[last], c->size, from, c->from[last], to, c->to[last]);
  else
    TurnBlock_Cpu(RengaCpuSmaller(BLOCK, c->extent[c->across] - place->index[c->across]),
                  c->extent[last], c->size, from, c->from[last], to, c->to[c->across]);
}

void RengaCpuCopyRun(int threads, const RengaCpuCopy *c, const void *from, void *to)
{
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, c->pieces))
  for (int64_t piece = 0; piece < c->pieces; piece++) {
    const int64_t first = piece * c->rows_per_piece;
    const int64_t end = RengaCpuSmaller(c->rows, first + c->rows_per_piece);
    CopiedRow place;
    FindRow(c, first, &place);
    for (int64_t row = first; row < end; row++, PassRow(c, &place))
      CopyRow_Cpu(c, &place, from, to);
  }
}
