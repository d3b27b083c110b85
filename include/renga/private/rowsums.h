/* Gradients of rows of a table: how they lie, their sums, and updates by them. */
#pragma once
#include "rengadevice.h"

/* Gradients of rows of a table as micro-batches make them: each has a slot with the numbers of the
   rows that it read, in order, and a gradient for each of these positions. */
typedef struct {
  const char *slot;               /* the first one */
  int64_t stride;                 /* bytes from slot to slot */
  int64_t gradients, numbers;     /* bytes after the beginning of a slot */
  int64_t slots, rows, last_rows; /* positions of a slot, and of the last one */
  int64_t leaf;                   /* slots whose sums are added one after the other */
  int64_t width, length, padding; /* of a row; rows of the table; the one without a gradient */
  bool wide;                      /* numbers are int64, else int32 */
  int64_t *index, *count;         /* [all positions], [1] gets RengaRows */
  float *sum;                     /* [all positions][width] gets the gradients of these rows */
  uint64_t *work;                 /* [2][all positions] */
} RengaRowsTask;

static inline int64_t RengaRowsTaskPositions(const RengaRowsTask *sum)
{
  return sum->slots > 0 ? (sum->slots - 1) * sum->rows + sum->last_rows : 0;
}
/* A position and the row that it is of, in one number: they sort by row, then by position. */
enum { RENGA_ROW_SHIFT = 32 };
static inline uint64_t RengaRowKey(const RengaRowsTask *sum, int64_t position, bool *counts)
{
  const char *numbers = sum->slot + position / sum->rows * sum->stride + sum->numbers;
  const int64_t at = position % sum->rows;
  int64_t row = sum->wide ? ((const int64_t *)(const void *)numbers)[at]
                          : ((const int32_t *)(const void *)numbers)[at];
  if (row < 0) row += sum->length;
  *counts = row >= 0 && row < sum->length && row != sum->padding;
  return (uint64_t)row << RENGA_ROW_SHIFT | (uint64_t)position;
}
static inline int64_t RengaRowOfKey(uint64_t key)
{
  return (int64_t)(key >> RENGA_ROW_SHIFT);
}
static inline int64_t RengaPositionOfKey(uint64_t key)
{
  return (int64_t)(key & UINT32_MAX);
}
static inline const float *RengaRowGradient(const RengaRowsTask *sum, int64_t position)
{
  const char *gradients = sum->slot + position / sum->rows * sum->stride + sum->gradients;
  return (const float *)(const void *)gradients + position % sum->rows * sum->width;
}
/* Rows that an update of rows touches, and one of them by number, as an update of all of a shorter
   parameter, with a gradient, or, data NULL, of 0. read: of the rows with gradients those before
   it, 0 at first */
int64_t RengaUpdatedRows_Private(const RengaParameterUpdate *update);
RengaParameterUpdate RengaUpdateOfRow_Private(const RengaParameterUpdate *update, int64_t number,
                                              int64_t *read);
/* The device sums and updates rows. */
bool RengaDeviceHasRows_Private(RengaDevice device);
/* The gradient of a table from that of positions: that of a micro-batch is the sum over its
   positions in their order, beginning at 0; those of a leaf are added up in order, those of leaves
   by the tree of rengacomm.h, and a row that is missing from a sum adds nothing to it. The whole
   gradient has these bits, and 0 in other rows. square: of the host, the sum of the squares,
   there once the stream was waited for. Positions and rows are less than 2^31. */
RengaErrorCode RengaDeviceSumRows_Private(RengaDevice device, RengaStream stream,
                                          const RengaRowsTask *sum, double *square);
/* Of the ref device. */
RengaErrorCode RengaRefSumRows_Private(RengaDevice device, RengaStream stream,
                                       const RengaRowsTask *sum, double *square);
