/* What the files of the solver with tensor degrees and options share. */
#pragma once
#include "exactimpl.h"

/* As y grows, a stage needs slower options: up to y the seconds beyond the fastest are these. */
typedef struct {
  int y;
  double extra;
} ShardStep;

/* A stage of one degree, between two ideals of the graph with its edges turned round. */
typedef struct {
  int from, to, degree;          /* ideals; index of the degree */
  double seconds, bytes, weight; /* with the fastest options */
  int steps;
  ShardStep *step;
} ShardStage;

/* Options that save the same memory, cheapest first: one class of the choice within a stage. */
typedef struct {
  double each, once; /* memory saved */
  int count;
  double *price; /* [count + 1] seconds of the first so many */
  int *item;     /* [count] */
} ShardClass;

typedef struct {
  int count, room;
  ShardClass *list;
  double each, once; /* memory with the fastest options */
} ShardChoice;

/* The choice of options of these items at a degree. */
RengaErrorCode ShardChoiceFill(const RengaCutsShardProblem *problem, int degree, int count,
                               const int item[], ShardChoice *choice);
/* Least seconds beyond the fastest options with memory within capacity; HUGE_VAL: none. taken: NULL
   or [2 * items]: how many of each class change, then room to search. */
double ShardChoiceSolve(const ShardChoice *choice, double capacity, int y, int taken[]);
RengaErrorCode ShardChoiceAllocate(int items, ShardChoice *choice);
void ShardChoiceFree(int items, ShardChoice *choice);
