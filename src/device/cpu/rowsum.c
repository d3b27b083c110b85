/* Sums of the gradients of a table's rows: positions are sorted by row, then each row adds up its
   own in the order of the tree. Threads share the rows. */
#include "cpu.h"
#include <string.h>

enum { DIGIT = 11, BUCKETS = 1 << DIGIT, COLUMNS = 64, LEVELS = 40, ALL_LEVELS = 65 };

/* The keys of positions with a gradient, in the order of positions. */
static int64_t MakeRowKeys(const RengaRowsTask *sum, uint64_t keys[])
{
  const int64_t positions = RengaRowsTaskPositions(sum);
  int64_t n = 0;
  for (int64_t position = 0; position < positions; position++) {
    bool counts;
    keys[n] = RengaRowKey(sum, position, &counts);
    n += counts;
  }
  return n;
}

/* By one digit of the row; what is equal there keeps its order. */
static void SortByDigit(int64_t n, int shift, const uint64_t from[], uint64_t to[])
{
  int64_t place[BUCKETS + 1] = {0};
  for (int64_t i = 0; i < n; i++) place[(from[i] >> shift & (BUCKETS - 1)) + 1]++;
  for (int b = 0; b < BUCKETS; b++) place[b + 1] += place[b];
  for (int64_t i = 0; i < n; i++) to[place[from[i] >> shift & (BUCKETS - 1)]++] = from[i];
}

/* Half of the work has the keys in order then, the other one is free. */
static int64_t SortRows(const RengaRowsTask *sum, uint64_t **keys, uint64_t **other)
{
  uint64_t *from = sum->work, *to = sum->work + RengaRowsTaskPositions(sum);
  const int64_t n = MakeRowKeys(sum, from);
  for (int digit = 0; (sum->length - 1) >> digit > 0; digit += DIGIT) {
    SortByDigit(n, RENGA_ROW_SHIFT + digit, from, to);
    uint64_t *swapped = from;
    from = to;
    to = swapped;
  }
  *keys = from;
  *other = to;
  return n;
}

/* begin: [rows + 1] of each row's keys. */
static int64_t FindRowRuns(int64_t n, const uint64_t keys[], int64_t index[], uint64_t begin[])
{
  int64_t rows = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t row = RengaRowOfKey(keys[i]);
    if (rows > 0 && index[rows - 1] == row) continue;
    begin[rows] = (uint64_t)i;
    index[rows++] = row;
  }
  return rows;
}

static void AddColumns(int64_t count, float *restrict y, const float *restrict x)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] += x[i];
}

/* Sums of some columns of one row that wait for others: those of nodes of the tree, the higher
   first. */
typedef struct {
  int64_t first, count; /* columns */
  int depth;
  int64_t leaf[LEVELS]; /* a leaf of each node */
  float sum[LEVELS][COLUMNS];
} RowStack;

/* The level of the node in which two leaves meet. */
static int MeetingLevel(int64_t a, int64_t b)
{
  int level = 0;
  for (uint64_t differs = (uint64_t)(a ^ b); differs; differs >>= 1) level++;
  return level;
}

/* The nodes below the level are whole: each is added to its left neighbour. */
static void JoinBelow(RowStack *stack, int level)
{
  while (stack->depth > 1) {
    const int top = stack->depth - 1;
    if (MeetingLevel(stack->leaf[top - 1], stack->leaf[top]) >= level) return;
    AddColumns(stack->count, stack->sum[top - 1], stack->sum[top]);
    stack->depth--;
  }
}

/* The next slot of the row, of keys [first, last). It begins a leaf, or is added to the one that is
   there. */
static void AddSlot(const RengaRowsTask *sum, RowStack *stack, const uint64_t *first,
                    const uint64_t *last, int64_t leaf)
{
  float own[COLUMNS] = {0};
  for (; first < last; first++)
    AddColumns(stack->count, own, RengaRowGradient(sum, RengaPositionOfKey(*first)) + stack->first);
  if (stack->depth > 0 && stack->leaf[stack->depth - 1] == leaf) {
    AddColumns(stack->count, stack->sum[stack->depth - 1], own);
    return;
  }
  if (stack->depth > 0) JoinBelow(stack, MeetingLevel(stack->leaf[stack->depth - 1], leaf));
  stack->leaf[stack->depth] = leaf;
  memcpy(stack->sum[stack->depth++], own, (size_t)stack->count * sizeof *own);
}

/* Columns [first, first + count) of a row whose keys are [begin, end). */
static void SumColumns(const RengaRowsTask *sum, const uint64_t *begin, const uint64_t *end,
                       int64_t first, int64_t count, float to[])
{
  RowStack stack;
  stack.first = first;
  stack.count = count;
  stack.depth = 0;
  while (begin < end) {
    const int64_t slot = RengaPositionOfKey(*begin) / sum->rows;
    const uint64_t *next = begin;
    while (next < end && RengaPositionOfKey(*next) / sum->rows == slot) next++;
    AddSlot(sum, &stack, begin, next, slot / sum->leaf);
    begin = next;
  }
  JoinBelow(&stack, ALL_LEVELS);
  memcpy(to, stack.sum[0], (size_t)count * sizeof *to);
}

static void SumOneRow(const RengaRowsTask *sum, const uint64_t *begin, const uint64_t *end,
                      float to[])
{
  if (end - begin == 1) {
    const float *only = RengaRowGradient(sum, RengaPositionOfKey(*begin));
#pragma omp simd
    for (int64_t i = 0; i < sum->width; i++) to[i] = 0.0f + only[i];
    return;
  }
  for (int64_t first = 0; first < sum->width; first += COLUMNS)
    SumColumns(sum, begin, end, first, RengaCpuSmaller(sum->width - first, COLUMNS), to + first);
}

static double SquareOfSums(int64_t count, const float x[])
{
  double square = 0;
  for (int64_t first = 0; first < count; first += RENGA_VECTOR_PIECE) {
    const int64_t last = RengaCpuSmaller(count, first + RENGA_VECTOR_PIECE);
    double piece = 0;
#pragma omp simd reduction(+ : piece)
    for (int64_t i = first; i < last; i++) piece += (double)x[i] * x[i];
    square += piece;
  }
  return square;
}

void RENGA_ISA_NAME(RengaCpuSumRows)(int threads, const RengaRowsTask *sum, double *square)
{
  uint64_t *keys, *begin;
  const int64_t n = SortRows(sum, &keys, &begin);
  const int64_t rows = FindRowRuns(n, keys, sum->index, begin);
  *sum->count = rows;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(threads, RengaCpuPieces(n * sum->width, RENGA_VECTOR_PIECE)))
  for (int64_t r = 0; r < rows; r++)
    SumOneRow(sum, keys + begin[r], keys + (r + 1 < rows ? (int64_t)begin[r + 1] : n),
              sum->sum + r * sum->width);
  *square = SquareOfSums(rows * sum->width, sum->sum);
}
