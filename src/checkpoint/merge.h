/* Weights with what their adapters add to them. */
#pragma once
#include "adapters.h"

typedef struct {
  const RengaCheckpointTable *table;
  const RengaCheckpointAdapters *adapters;
  /* Elements [first, first + count) of an entry of the table. */
  RengaErrorCode (*read)(void *user, int entry, int64_t first, int64_t count, float to[]);
  void *user;
  int entry;             /* whose factors are here */
  int64_t rows, columns; /* of it; 0: nothing is added to it */
  float *left, *right;   /* [rows, rank] and [rank, columns] */
  double *sum;           /* [columns] */
} RengaMerger;
/* Adds its part of alpha / rank * left right to elements [first, first + count) of the entry. */
RengaErrorCode RengaMergeElements(RengaMerger *merger, int entry, int64_t first, int64_t count,
                                  float to[]);
void RengaMergerFree(RengaMerger *merger);
