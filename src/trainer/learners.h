/* Copies of the network that train apart (-train_average local:k, gossip:k), and what becomes of
   them. Their number is a setting, so that results do not depend on the ranks that have them. */
#pragma once
#include "rengatrainer.h"

typedef struct _RengaMean *RengaMean;

/* Ranks are cut into equal groups, and each has as many consecutive learners. A learner is a
   pipeline on the ranks of its group. Where the network is trained as one there is one learner. */
typedef struct {
  bool apart, gossip;
  const char *manner; /* lent: of RengaTrainerRules */
  int64_t every;      /* steps between exchanges */
  int64_t seed;
  int64_t batch; /* samples of a step, of all learners */
  int count;     /* learners */
  int groups, group;
  int first, own;   /* learners of this rank */
  RengaComm all;    /* lent */
  MPI_Comm printer; /* lent by all */
  RengaComm ranks;  /* of the group; all ranks where the network is trained as one */
  RengaComm across; /* the ranks with this one's place in their groups; NULL: there is one group */
  RengaPipeline *pipeline; /* [own] */
  bool lent;               /* the one pipeline is the program's */
  double *values;          /* [LEARNER_VALUES * count + 1] of a step */
  RengaMean mean;
  int64_t nonfinite; /* steps so far that were not, of all learners */
  bool shown;        /* the first of this rank's learners has the mean's parameters */
} RengaLearners;

/* Samples of one step as the data set has them; to be the user of a RengaBatch. */
typedef struct {
  RengaTrainer trainer;
  RengaDataPart part;
  int64_t first, epoch;
} RengaWindow;
/* reader.c. */
RengaErrorCode RengaReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer);

/* learners.c. Collective, all of it. First -train_average and -train_learners. */
RengaErrorCode RengaLearnersRead(MPI_Comm printer, const char *manner, int count,
                                 RengaLearners *learners);
RengaErrorCode RengaLearnersCreate(RengaComm comm, int64_t steps, RengaLearners *learners);
/* One that is a pipeline of the program's. */
RengaErrorCode RengaLearnersTake(RengaComm comm, RengaPipeline pipeline, int64_t batch,
                                 RengaLearners *learners);
RengaErrorCode RengaLearnersDestroy(RengaLearners *learners);
/* A partition whose options are read: each learner has a share of ranks, batch and memory. */
RengaErrorCode RengaLearnersSetPartition(RengaLearners *learners, RengaGraph graph, RengaData data,
                                         RengaPartition partition);
/* Data passes of a learner, of which the planner is told. */
RengaErrorCode RengaLearnersAddPasses(const RengaLearners *learners, RengaPartition partition,
                                      int64_t samples, int64_t eval_samples);
/* Once the batch is known; samples: of both parts. */
RengaErrorCode RengaLearnersSetUp(RengaLearners *learners, RengaGraph graph, RengaPlan plan,
                                  const int64_t samples[2]);
/* Each rank holds the samples that its learners read (-data_placement local). */
RengaErrorCode RengaLearnersPlaceData(const RengaLearners *learners, RengaData data, int fields);
/* All learners begin with the parameters of learner 0. */
RengaErrorCode RengaLearnersSpread(RengaLearners *learners);
RengaErrorCode RengaLearnersSetStep(RengaLearners *learners, int64_t step);
/* row->samples from the window on; the row gets the mean loss of the samples, the mean norm of the
   learners, and how many of their steps were not finite. */
RengaErrorCode RengaLearnersStep(RengaLearners *learners, const RengaWindow *window,
                                 RengaTrainerRow *row);
/* After so many steps: they average, or exchange by pairs, if that is due. */
RengaErrorCode RengaLearnersExchange(RengaLearners *learners, int64_t step);
/* The first learner of each group gets the parameters of the mean, and has its own back. */
RengaErrorCode RengaLearnersShowMean(RengaLearners *learners);
RengaErrorCode RengaLearnersHideMean(RengaLearners *learners);
/* copies.c: checkpoints fit beside what the learners of this rank take: the copies of
   -checkpoint_async, and once it has its tensors those of -checkpoint_memory. */
RengaErrorCode RengaCheckCopies(const RengaLearners *learners, RengaPlan plan,
                                RengaCheckpoint checkpoint);
RengaErrorCode RengaReserveMemory(const RengaLearners *learners, RengaPlan plan,
                                  RengaCheckpoint checkpoint);
/* learnerfiles.c: all learners are in its files. Before it is read: it holds as many. */
RengaErrorCode RengaLearnersSetCheckpoint(RengaLearners *learners, RengaCheckpoint checkpoint);
RengaErrorCode RengaLearnersCheckBefore(const RengaLearners *learners, RengaCheckpoint checkpoint);

/* mean.c: parameters and states of the learners, as vectors. */
RengaErrorCode RengaMeanCreate(const RengaLearners *learners, RengaMean *mean);
void RengaMeanDestroy(RengaMean *mean);
