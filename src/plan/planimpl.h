/* What the files of the plan's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengaplan.h"

enum { RENGA_PLAN_FILE_VERSION = 2 };

struct _p_RengaPlan {
  struct _p_RengaObject hdr;
  int count;             /* stages */
  RengaPlanStage *stage; /* [count] */
  char **first_name;     /* [count] name of each stage's first node */
  int *offset;           /* [count + 1] place of each stage's first rank in rank[] */
  int *rank;             /* [stage][replica] */
  int n_nodes;           /* of the graph */
  uint64_t digest;       /* of the graph */
  int64_t batch, microbatch, memory_limit;
  int available;  /* ranks there are; 0: not known */
  char *schedule; /* NULL: open */
  RengaPlanPrediction prediction;
  int n_reasons;
  char **reason; /* [2 n_reasons] topic, sentence, … */
};

/* Errors of stages on their own: order, cover, emptiness, replicas. */
RengaErrorCode RengaPlanCheckStages_Private(RengaPlan plan, RengaGraph graph, int count,
                                            const RengaPlanStage stages[]);
/* Errors of ranks: negative, twice, at or above the limit (limit 0: none). */
RengaErrorCode RengaPlanCheckRanks_Private(RengaPlan plan, int count, const int ranks[], int limit);
