/* Memory of stages that were forecast: what forecasts.c, key.c and
   differentiate.c share. */
#pragma once
#include "chunk.h"

typedef struct {
  int64_t count, capacity;
  int64_t *number;
} StageKey;

/* A number of a key that a plan decides: the parameter is there in parts. */
typedef struct {
  int64_t at;
  RengaValue parameter;
} KeyOfParts;

/* Of a network, under settings. */
typedef struct {
  uint64_t *class;   /* [nodes] */
  int *first, *uses; /* [values] first node that reads it, and how many do */
  StageKey all;      /* of all nodes, as one stage; those of node n are [from[n], from[n + 1]) */
  int64_t *from;     /* [nodes + 1] */
  int n_parts, *part_from; /* [nodes + 1] likewise */
  KeyOfParts *part;        /* [n_parts] */
} StageClasses;

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
