/* Partition: graph and options to plan. */
#pragma once
#include "rengaplan.h"
#include "rengaprofile.h"
#include "rengasettings.h"

RENGA_BEGIN_DECLS

/* The planner: a network, a machine and bounds, of which RengaPartitionSolve makes a plan. */
typedef struct _p_RengaPartition *RengaPartition;
/* Ways to cut a network, for RengaPartitionSetType and -partition_type. */
#define RENGA_PARTITION_MANUAL "manual" /* where the user says */
#define RENGA_PARTITION_EVEN "even"     /* into stages of about equal work */
#define RENGA_PARTITION_TREE "tree"     /* along the subtrees of the network */
#define RENGA_PARTITION_RANNC "rannc"   /* as RaNNC does: blocks, then stages of blocks */
#define RENGA_PARTITION_AUTO "auto"     /* the fastest plan that a search over layouts finds */
#define RENGA_PARTITION_EXACT "exact"   /* the same, searched until it is proved or time is up */

/* For RengaPartitionSetTensor and …SetSequence: types that search choose the number. */
#define RENGA_PARTITION_TENSOR_AUTO (-1)

/* A type from outside. cut fills first[1 … stages - 1], the node with which each stage begins;
   first[0] is 0. */
typedef struct {
  const char *name; /* of the type, as -partition_type takes it */
  RengaErrorCode (*cut)(RengaGraph graph, int stages, int first[], void *user); /* fills first */
  void *user;                                                                   /* handed to cut */
} RengaPartitionRule;
RengaErrorCode RengaPartitionRegister(const RengaPartitionRule *rule);

RengaErrorCode RengaPartitionCreate(RengaComm comm, RengaPartition *partition);
RengaErrorCode RengaPartitionSetGraph(RengaPartition partition, RengaGraph graph);
/* What the run goes by, the machine, costs and links; default: those of the options. Borrowed. */
RengaErrorCode RengaPartitionSetSettings(RengaPartition partition, RengaSettings settings);
RengaErrorCode RengaPartitionGetSettings(RengaPartition partition, RengaSettings *settings);
RengaErrorCode RengaPartitionSetMachine(RengaPartition partition, RengaMachine machine);
RengaErrorCode RengaPartitionGetMachine(RengaPartition partition, RengaMachine *machine);
RengaErrorCode RengaPartitionSetProfile(RengaPartition partition, RengaProfile profile);
RengaErrorCode RengaPartitionGetProfile(RengaPartition partition, RengaProfile *profile);
RengaErrorCode RengaPartitionSetType(RengaPartition partition, const char *type);
RengaErrorCode RengaPartitionGetType(RengaPartition partition, const char **type);
RengaErrorCode RengaPartitionSetStages(RengaPartition partition, int stages); /* 0: choose */
/* Seconds to read a sample of an input from the data set of that name; 0 at first. */
RengaErrorCode RengaPartitionSetReadSeconds(RengaPartition partition, const char *input,
                                            const char *data, double seconds);
RengaErrorCode RengaPartitionAddDataPass(RengaPartition partition, int64_t samples);
RengaErrorCode RengaPartitionGetDataPasses(RengaPartition partition, int *count,
                                           const int64_t **samples);
RengaErrorCode RengaPartitionGetReadSeconds(RengaPartition partition, const char *input,
                                            double *seconds);
RengaErrorCode RengaPartitionSetReplicas(RengaPartition partition, int replicas); /* 0: choose */
RengaErrorCode RengaPartitionSetTensor(RengaPartition partition, int tensor);     /* 0: 1 */
RengaErrorCode RengaPartitionSetSequence(RengaPartition partition, int sequence); /* 0: 1 */
RengaErrorCode RengaPartitionSetRanks(RengaPartition partition, int ranks); /* default: of comm */
RengaErrorCode RengaPartitionSetMemory(RengaPartition partition,
                                       int64_t bytes); /* per device; 0: no bound */
RengaErrorCode RengaPartitionSetBatch(RengaPartition partition, int64_t batch, int64_t microbatch);
/* Micro-batches whose gradients are added one after the other; 0: 1, or more where nothing fits. */
RengaErrorCode RengaPartitionSetLeaf(RengaPartition partition, int64_t leaf);
/* Several, of which the fastest is taken: auto, or a list; NULL: auto, fewer of large problems. */
RengaErrorCode RengaPartitionSetLeaves(RengaPartition partition, const char *leaves);
RengaErrorCode RengaPartitionGetLeaves(RengaPartition partition, const char **leaves); /* lent */
/* As they were set; 0 or NULL: nothing was. */
RengaErrorCode RengaPartitionGetGraph(RengaPartition partition, RengaGraph *graph); /* lent */
RengaErrorCode RengaPartitionGetStages(RengaPartition partition, int *stages);
RengaErrorCode RengaPartitionGetReplicas(RengaPartition partition, int *replicas);
RengaErrorCode RengaPartitionGetTensor(RengaPartition partition, int *tensor);
RengaErrorCode RengaPartitionGetSequence(RengaPartition partition, int *sequence);
RengaErrorCode RengaPartitionGetRanks(RengaPartition partition, int *ranks);
RengaErrorCode RengaPartitionGetMemory(RengaPartition partition, int64_t *bytes);
RengaErrorCode RengaPartitionGetBatch(RengaPartition partition, int64_t *batch,
                                      int64_t *microbatch);
RengaErrorCode RengaPartitionGetLeaf(RengaPartition partition, int64_t *leaf);
/* A plan's file instead of a new plan; NULL: none. */
RengaErrorCode RengaPartitionSetPlanFile(RengaPartition partition, const char *file);
RengaErrorCode RengaPartitionGetPlanFile(RengaPartition partition, const char **file); /* lent */
/* manual: names of the first node (or value) of stages 1, 2, …, or the node count of each. */
RengaErrorCode RengaPartitionManualSetCuts(RengaPartition partition, const char *cuts);
RengaErrorCode RengaPartitionManualGetCuts(RengaPartition partition, const char **cuts); /* lent */
/* even: share by which a stage may be over the least largest load, to send fewer bytes. */
RengaErrorCode RengaPartitionEvenSetSlack(RengaPartition partition, double slack);
RengaErrorCode RengaPartitionEvenGetSlack(RengaPartition partition, double *slack);
/* rannc: blocks at most, of which stages are made; 0: as many as stages need. */
RengaErrorCode RengaPartitionRanncSetBlocks(RengaPartition partition, int blocks);
RengaErrorCode RengaPartitionRanncGetBlocks(RengaPartition partition, int *blocks);
/* tree: share of memory, beside time, in the cost of a subtree. */
RengaErrorCode RengaPartitionTreeSetMemoryWeight(RengaPartition partition, double weight);
RengaErrorCode RengaPartitionTreeGetMemoryWeight(RengaPartition partition, double *weight);
/* auto, exact: default, auto, or a list of sizes. */
RengaErrorCode RengaPartitionAutoSetMicrobatchSizes(RengaPartition partition, const char *sizes);
RengaErrorCode RengaPartitionAutoGetMicrobatchSizes(RengaPartition partition, const char **sizes);
RengaErrorCode RengaPartitionExactSetTimeLimit(RengaPartition partition, double seconds);
RengaErrorCode RengaPartitionExactGetTimeLimit(RengaPartition partition, double *seconds);
RengaErrorCode RengaPartitionSetFromOptions(RengaPartition partition);
RengaErrorCode RengaPartitionView(RengaPartition partition, RengaViewer viewer);
RengaErrorCode RengaPartitionSolve(RengaPartition partition, RengaPlan *plan);
RengaErrorCode RengaPartitionDestroy(RengaPartition *partition);

RENGA_END_DECLS
