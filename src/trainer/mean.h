/* What learners have of parameters and states, as one vector each: mean.c makes their mean,
   gossip.c that of pairs. */
#pragma once
#include "learners.h"
#include "renga/private/sums.h"

enum { RENGA_MEAN_PART = 1 << 20 }; /* elements of a vector that are added or sent at a time */

struct _RengaMean {
  const RengaLearners *learners;
  int count;      /* tensors that a learner has on this rank */
  bool *taken;    /* [count] parameters and states; moments stay with their learner */
  int64_t *begin; /* [count] where a tensor that is taken stands in the vector */
  int64_t elements;
  const RengaPersistent **row; /* [own] lists of tensors, lent by the pipelines */
  float *values, *kept;        /* [elements] the mean; what it stands in place of */
  int n_sums;                  /* vectors of a part that are under way in the tree */
  RengaPartialSum *sum;        /* [n_sums] */
  int64_t *leaves;             /* [groups + 1] learners of each group */
  char *work;                  /* of a sum over the groups */
  size_t work_bytes;
  float *sent, *received;  /* [own][RENGA_MEAN_PART] of a gossip */
  int *partner;            /* [learners] of the running exchange */
  RengaRequest *request;   /* [2 * own] */
  RengaPersistent *listed; /* of checkpoints */
  int n_listed;
};

/* mean.c. Between steps: lists are asked for anew before anything is read or written. */
RengaErrorCode RengaMeanTakeLists(RengaMean mean);
/* Elements first … first + count - 1 of this rank's learner l to a vector, or from it. */
void RengaMeanRead(RengaMean mean, int l, int64_t first, int64_t count, float vector[]);
void RengaMeanWrite(RengaMean mean, int l, int64_t first, int64_t count, const float vector[]);
/* Collective: the mean of all learners. */
RengaErrorCode RengaMeanMake(RengaMean mean);
/* gossip.c. Collective: pairs of learners, drawn for this exchange, become their means. */
RengaErrorCode RengaMeanGossip(RengaMean mean, int64_t exchange);
