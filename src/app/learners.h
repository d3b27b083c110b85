/* Copies of the network that train apart (-train_average local:k, gossip:k), and what becomes of
   them. Their number is a setting, so that results do not depend on the ranks that have them. */
#pragma once
#include "app.h"

typedef struct _AppMean *AppMean;

/* Ranks are cut into equal groups, and each has as many consecutive learners. A learner is a
   pipeline on the ranks of its group. Where the network is trained as one there is one learner. */
typedef struct {
  bool apart, gossip;
  int64_t every; /* steps between exchanges */
  int64_t seed;
  int64_t batch; /* samples of a step, of all learners */
  int count;     /* learners */
  int groups, group;
  int first, own;   /* learners of this rank */
  RengaComm all;    /* lent */
  RengaComm ranks;  /* of the group; all ranks where the network is trained as one */
  RengaComm across; /* the ranks with this one's place in their groups; NULL: there is one group */
  RengaPipeline *pipeline; /* [own] */
  double *values;          /* [LEARNER_VALUES * count + 1] of a step */
  AppMean mean;
  int64_t nonfinite; /* steps so far that were not, of all learners */
  bool shown;        /* the first of this rank's learners has the mean's parameters */
} AppLearners;

/* learners.c. Collective, all of it. */
RengaErrorCode AppLearnersCreate(RengaComm comm, int64_t seed, int64_t steps,
                                 AppLearners *learners);
RengaErrorCode AppLearnersDestroy(AppLearners *learners);
/* A partition whose options are read: each learner has a share of ranks, batch and memory. */
RengaErrorCode AppLearnersSetPartition(AppLearners *learners, RengaPartition partition);
/* Data passes of a learner, of which the planner is told. */
RengaErrorCode AppLearnersAddPasses(const AppLearners *learners, RengaPartition partition,
                                    RengaData data, int64_t eval_samples);
/* Once the plan is made; eval_samples: of the validation part. */
RengaErrorCode AppLearnersSetUp(AppLearners *learners, RengaGraph graph, RengaPlan plan,
                                RengaData data, int64_t eval_samples);
/* Each rank holds the samples that its learners read. */
RengaErrorCode AppLearnersPlaceData(const AppLearners *learners, RengaData data,
                                    const AppFields *fields);
/* A line about them, where they train apart. */
RengaErrorCode AppLearnersPrint(const AppLearners *learners);
/* learnerfiles.c: the parameters of -initial, for all learners. */
RengaErrorCode AppLearnersReadInitial(AppLearners *learners);
/* All learners begin with the parameters of learner 0. */
RengaErrorCode AppLearnersSpread(AppLearners *learners);
RengaErrorCode AppLearnersSetStep(AppLearners *learners, int64_t step);
/* row->samples from the window on; the row gets the mean loss of the samples, the mean norm of the
   learners, and how many of their steps were not finite. */
RengaErrorCode AppLearnersStep(AppLearners *learners, const AppWindow *window, AppRow *row);
/* After so many steps: they average, or exchange by pairs, if that is due. */
RengaErrorCode AppLearnersExchange(AppLearners *learners, int64_t step);
/* The first learner of each group gets the parameters of the mean, and has its own back. */
RengaErrorCode AppLearnersShowMean(AppLearners *learners);
RengaErrorCode AppLearnersHideMean(AppLearners *learners);
/* copies.c: those of -checkpoint_async fit beside what the learners of this rank take. */
RengaErrorCode AppCheckCopies(const AppLearners *learners, RengaPlan plan);
/* Once the checkpoint has its tensors: memory of the nodes for -checkpoint_memory. */
RengaErrorCode AppReserveMemory(const AppLearners *learners, RengaPlan plan,
                                RengaCheckpoint checkpoint);
/* learnerfiles.c: all learners are in its files; those that it holds are as many. */
RengaErrorCode AppLearnersSetCheckpoint(AppLearners *learners, RengaCheckpoint checkpoint);
/* As AppEndCheckpoints, after AppLearnersStep, which fails on all ranks. */
void AppLearnersEndCheckpoints(AppLearners *learners, int64_t step, RengaErrorCode code,
                               RengaCheckpoint *checkpoint);

/* mean.c: parameters and states of the learners, as vectors. */
RengaErrorCode AppMeanCreate(const AppLearners *learners, AppMean *mean);
void AppMeanDestroy(AppMean *mean);
