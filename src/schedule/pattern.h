/* What one replica of every stage does, for the ranks that follow each other. All replicas do the
   same, without the turns that they do not have: what is left of lists in which nobody waits for
   ever is such lists again. */
#pragma once
#include "scheduleimpl.h"

/* A forward, backward, backward input or backward weight; turn: of the replica's micro-batches, as
   it works through them, from 0. */
typedef struct {
  RengaActionKind kind;
  int stage;
  int64_t turn;
} RengaPatternRow;

typedef struct {
  int64_t count, capacity;
  RengaPatternRow *row;
} RengaPatternList;

typedef struct _RengaPattern {
  int across;             /* ranks that follow each other */
  int64_t turns;          /* micro-batches of a replica, at the most */
  RengaPatternList *list; /* [across] */
} RengaPattern;

RengaErrorCode RengaPatternCreate_Private(int across, int64_t turns, RengaPattern **pattern);
RengaErrorCode RengaPatternAdd_Private(RengaPattern *pattern, int at, RengaActionKind kind,
                                       int stage, int64_t turn);

/* Stages s, s + p, s + 2p, … are of one rank, or, as a wave that turns at both ends, r, 2p-1-r,
   2p+r, … */
static inline int RengaScheduleFirstOf_Private(bool wave, int across, int stage)
{
  const int first = stage % across;
  return wave && stage / across % 2 ? across - 1 - first : first;
}
/* Ranks that follow each other where all stages have as many replicas; whether their stages lie as
   a wave. Refuses other shapes by the type's name. */
RengaErrorCode RengaScheduleFindPlaces_Private(RengaSchedule schedule, int *across, bool *wave);
/* Wanted of the type; both are satisfied by one stage for each rank. */
RengaErrorCode RengaScheduleWantPlaces_Private(RengaSchedule schedule, bool wanted, int chunks);
/* The most micro-batches of a replica. */
int64_t RengaScheduleMostTurns_Private(RengaSchedule schedule);

/* greedy.c */
typedef struct {
  int stages, across;
  bool wave;
  const double *seconds[3]; /* [stages] forward, backward input, backward weight */
  const bool *whole;        /* [stages] backwards are whole */
  const int64_t *most;      /* [stages] micro-batches that a stage holds */
  int64_t most_of_rank;     /* of all stages of a rank */
  double patience;          /* share of a backward weight that a rank waits for something better */
} RengaGreedy;
/* pattern: empty; makespan HUGE_VAL: these bounds leave no way. held: of the rank that holds most
   the sum of the most of its stages. */
RengaErrorCode RengaScheduleRunGreedy_Private(const RengaGreedy *greedy, RengaPattern *pattern,
                                              double *makespan, int64_t *held);
