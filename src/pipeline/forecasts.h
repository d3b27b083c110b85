/* Memory of stages that were forecast: what forecasts.c, key.c and
   differentiate.c share. */
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

/* The nodes of a stage, differentiated for its messages. */
typedef struct {
  int first, last; /* nodes of the network */
  int n_seeds, n_wanted;
  RengaValue *value; /* [3][seeds, then wanted] in the network, in the graph; their gradients */
  RengaGraph graph;
} StageGraph;

/* Those that were used last, in this order. */
typedef struct _p_StageGraphs {
  int count, nodes;
  StageGraph *row; /* [count] */
} StageGraphs;

void RengaFreeStageGraphs_Private(StageGraphs *graphs);
RengaErrorCode RengaClassesMake_Private(const Outline *outline, StageClasses *classes);
void RengaClassesFree_Private(StageClasses *classes);
RengaErrorCode RengaKeyMake_Private(const Chunk *chunk, const StageClasses *classes, int n_own,
                                    const int own[], StageKey *key);
