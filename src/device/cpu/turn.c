/* Transposed copies of matrices of 16 bits, in blocks of 8 x 8 that stay in registers. */
#include "turn.h"

enum { SIDE = 8, LINE = 32 };

static void TurnRest(int64_t rows, int64_t columns, const uint16_t *from, int64_t from_stride,
                     uint16_t *to, int64_t to_stride)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[j * to_stride + i] = from[i * from_stride + j];
}

#if defined __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES
#endif
#endif

#ifdef HAS_SHUFFLES
typedef uint16_t Row __attribute__((vector_size(2 * SIDE)));
typedef uint16_t RowInMemory __attribute__((vector_size(2 * SIDE), aligned(2), may_alias));

/* Elements of a and b in turn, from their lower or upper halves. */
static Row LowerHalves(Row a, Row b)
{
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static Row UpperHalves(Row a, Row b)
{
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* Three times halves of rows that are four apart in turn: the number of an element's row and
   column, of six bits together, is rotated by one each time. */
static void TurnSquare(const uint16_t *from, int64_t from_stride, uint16_t *to, int64_t to_stride)
{
  Row row[SIDE], next[SIDE];
  for (int i = 0; i < SIDE; i++) row[i] = *(const RowInMemory *)(from + i * from_stride);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < SIDE / 2; i++) {
      next[2 * i] = LowerHalves(row[i], row[i + SIDE / 2]);
      next[2 * i + 1] = UpperHalves(row[i], row[i + SIDE / 2]);
    }
    for (int i = 0; i < SIDE; i++) row[i] = next[i];
  }
  for (int i = 0; i < SIDE; i++) *(RowInMemory *)(to + i * to_stride) = row[i];
}
#else
static void TurnSquare(const uint16_t *from, int64_t from_stride, uint16_t *to, int64_t to_stride)
{
  TurnRest(SIDE, SIDE, from, from_stride, to, to_stride);
}
#endif

/* Lines of the source's cache: their rows of the target stay in the cache until they are full. */
void RengaCpuTurn16(int64_t rows, int64_t columns, const uint16_t *from, int64_t from_stride,
                    uint16_t *to, int64_t to_stride)
{
  const int64_t whole_rows = rows / SIDE * SIDE, whole_columns = columns / SIDE * SIDE;
  for (int64_t line = 0; line < whole_columns; line += LINE) {
    const int64_t end = line + LINE < whole_columns ? line + LINE : whole_columns;
    for (int64_t i = 0; i < whole_rows; i += SIDE)
      for (int64_t j = line; j < end; j += SIDE)
        TurnSquare(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  }
  TurnRest(rows - whole_rows, columns, from + whole_rows * from_stride, from_stride,
           to + whole_rows, to_stride);
  TurnRest(whole_rows, columns - whole_columns, from + whole_columns, from_stride,
           to + whole_columns * to_stride, to_stride);
}
