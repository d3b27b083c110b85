/* Memory of stages that were forecast: what forecasts.c and key.c share. */
#pragma once
#include "chunk.h"

/* Of a network, under settings. */
typedef struct {
  uint64_t *class;   /* [nodes] */
  int *first, *uses; /* [values] first node that reads it, and how many do */
} StageClasses;

typedef struct {
  int64_t count, capacity;
  int64_t *number;
} StageKey;

RengaErrorCode RengaClassesMake_Private(const Outline *outline, StageClasses *classes);
void RengaClassesFree_Private(StageClasses *classes);
RengaErrorCode RengaKeyMake_Private(const Chunk *chunk, const StageClasses *classes, int n_own,
                                    const int own[], StageKey *key);
