/* Rows of tables: the ref device's sum of their gradients, and updates of rows alone. */
#include "renga/private/device.h"
#include <stdlib.h>

bool RengaDeviceHasRows_Private(RengaDevice device)
{
  return device->ops->sumrows != NULL;
}

RengaErrorCode RengaDeviceSumRows_Private(RengaDevice device, RengaStream stream,
                                          const RengaRowsTask *sum, double *square)
{
  const int64_t most = INT32_MAX;
  RengaCheckPointers(device, sum, square);
  RengaCheck(RengaDeviceHasRows_Private(device), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a device of type %s adds up no gradients of rows", device->hdr.type_name);
  RengaCheck(sum->rows > 0 && sum->leaf > 0 && RengaRowsTaskPositions(sum) <= most &&
                 sum->length <= most,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "gradients of %lld positions in leaves of %lld, of a table of %lld rows",
             (long long)RengaRowsTaskPositions(sum), (long long)sum->leaf, (long long)sum->length);
  RengaCall(device->ops->sumrows(device, stream, sum, square));
  return RENGA_SUCCESS;
}

int64_t RengaUpdatedRows_Private(const RengaParameterUpdate *update)
{
  const RengaRows *rows = &update->rows;
  if (!rows->width) return 0;
  return rows->whole ? update->parameter.count / rows->width : *rows->count;
}

static RengaVector RowOfVector(const RengaVector *vector, int64_t row, int64_t width)
{
  float *data = vector->data;
  return (RengaVector){data ? data + row * width : NULL, vector->type, data ? width : 0};
}

RengaParameterUpdate RengaUpdateOfRow_Private(const RengaParameterUpdate *update, int64_t number,
                                              int64_t *read)
{
  const RengaRows *rows = &update->rows;
  const int64_t width = rows->width, r = *read;
  const bool has = r < *rows->count && (!rows->whole || rows->index[r] == number);
  const int64_t row = rows->whole ? number : rows->index[r];
  RengaParameterUpdate one = *update;
  one.rows.width = 0;
  *read += has;
  one.parameter = RowOfVector(&update->parameter, row, width);
  one.gradient = has ? RowOfVector(&update->gradient, r, width) : (RengaVector){0};
  for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
    one.moment[m] = RowOfVector(&update->moment[m], row, width);
  return one;
}

static int CompareKeys(const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Slot of a key's position. */
static int64_t SlotOfKey(const RengaRowsTask *sum, uint64_t key)
{
  return RengaPositionOfKey(key) / sum->rows;
}

/* Column of a row over [first, last) of the keys, which are of one leaf: slots in order, each the
   sum of its positions. */
static float SumLeaf(const RengaRowsTask *sum, const uint64_t *first, const uint64_t *last,
                     int64_t column)
{
  float all = 0;
  for (const uint64_t *key = first; key < last;) {
    const int64_t slot = SlotOfKey(sum, *key);
    const bool begins = key == first;
    float own = 0;
    for (; key < last && SlotOfKey(sum, *key) == slot; key++)
      own += RengaRowGradient(sum, RengaPositionOfKey(*key))[column];
    all = begins ? own : all + own;
  }
  return all;
}

/* The same of keys whose leaves are in [from, from + 2^level): the sum of both halves, or the one
   that has any. */
static float SumNode(const RengaRowsTask *sum, const uint64_t *first, const uint64_t *last,
                     int64_t column, int64_t from, int level)
{
  const uint64_t *middle = first;
  if (level == 0) return SumLeaf(sum, first, last, column);
  const int64_t half = from + ((int64_t)1 << (level - 1));
  while (middle < last && SlotOfKey(sum, *middle) / sum->leaf < half) middle++;
  if (middle == first) return SumNode(sum, first, last, column, half, level - 1);
  if (middle == last) return SumNode(sum, first, last, column, from, level - 1);
  const float left = SumNode(sum, first, middle, column, from, level - 1);
  return left + SumNode(sum, middle, last, column, half, level - 1);
}

static int64_t SortKeys(const RengaRowsTask *sum)
{
  int64_t n = 0;
  for (int64_t position = 0; position < RengaRowsTaskPositions(sum); position++) {
    bool counts;
    sum->work[n] = RengaRowKey(sum, position, &counts);
    n += counts;
  }
  qsort(sum->work, (size_t)n, sizeof *sum->work, CompareKeys);
  return n;
}

/* In the order of the elements, piece by piece. */
static double SquareOfRows(int64_t count, const float x[])
{
  double square = 0;
  for (int64_t first = 0; first < count; first += RENGA_VECTOR_PIECE) {
    double piece = 0;
    for (int64_t i = first; i < count && i < first + RENGA_VECTOR_PIECE; i++)
      piece += (double)x[i] * x[i];
    square += piece;
  }
  return square;
}

RengaErrorCode RengaRefSumRows_Private(RengaDevice device, RengaStream stream,
                                       const RengaRowsTask *sum, double *square)
{
  const int64_t n = SortKeys(sum);
  int levels = 0;
  (void)device;
  (void)stream;
  while ((int64_t)1 << levels < sum->slots) levels++;
  *sum->count = 0;
  for (int64_t first = 0, last; first < n; first = last) {
    const int64_t row = RengaRowOfKey(sum->work[first]), r = (*sum->count)++;
    for (last = first; last < n && RengaRowOfKey(sum->work[last]) == row; last++) continue;
    sum->index[r] = row;
    for (int64_t column = 0; column < sum->width; column++)
      sum->sum[r * sum->width + column] =
          SumNode(sum, sum->work + first, sum->work + last, column, 0, levels);
  }
  *square = SquareOfRows(*sum->count * sum->width, sum->sum);
  return RENGA_SUCCESS;
}
