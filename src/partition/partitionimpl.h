/* What the files of the partition's room share. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/plan.h"
#include "renga/private/same.h"
#include "rengapartition.h"

enum { RENGA_MICROBATCHES_MANY = 1 << 16 }; /* not chosen where nobody asks for them */
enum { PARTITION_RANKS_SMALL = 8 };         /* which are searched in all ways and sizes together */

/* A plan that has hardly more ranks than so many may be slower than one of these alone. */
static inline bool RengaHasHardlyMore(int planned, int ranks)
{
  return 2 * planned <= 3 * ranks;
}

struct _RengaPartitionOps {
  RengaErrorCode (*set_from_options)(RengaPartition partition);
  /* How many stages the type itself was told to make; 0: any number. */
  RengaErrorCode (*count)(RengaPartition partition, int *stages);
  /* Fills first and last of stages[0 … count-1]. */
  RengaErrorCode (*solve)(RengaPartition partition, int count, RengaPlanStage stages[]);
  /* Instead of count and solve: fills the whole plan; batch and microbatch as wished or usual. */
  RengaErrorCode (*plan)(RengaPartition partition, int ranks, int64_t batch, int64_t microbatch,
                         RengaPlan plan);
  /* What the type itself was told, to be the same on all ranks; NULL: nothing. */
  void (*list)(RengaPartition partition, RengaSettingList *list);
  RengaErrorCode (*view)(RengaPartition partition, RengaViewer viewer);
  RengaErrorCode (*destroy)(RengaPartition partition); /* what data holds; NULL: nothing */
};

/* Seconds to read one sample of an input. */
typedef struct {
  char *input, *data;
  double seconds;
} PartitionReading;

/* Of the options. */
typedef struct {
  RengaSettings settings; /* NULL: not made yet */
  RengaMachine machine;   /* NULL: none is named */
  RengaProfile profile;   /* NULL: the options were not read */
  bool type_given;        /* of the profile, by an option */
  bool plain;             /* costs are of ranks that nothing is known of */
} PartitionOwn;

struct _p_RengaPartition {
  RENGAHEADER(struct _RengaPartitionOps);
  RengaGraph graph; /* a reference, as of the others */
  /* NULL: those of own */
  RengaSettings settings;
  RengaMachine machine;
  RengaProfile profile;
  PartitionOwn own;
  int stages, replicas, tensor, sequence, ranks; /* tensor, sequence 0: 1, or "auto": chosen */
  /* As -layout_tensor and -layout_context have it; NULL: it was not given. */
  char *tensor_text, *sequence_text, *leaf_text;
  bool compares; /* it looks for plans of several numbers of tensor ranks */
  bool explains; /* somebody will ask what each of them takes */
  double beat;   /* seconds: slower ones are of no use (of long chains) */
  bool beaten;   /* and what is looked for is none that is faster */
  bool quick;    /* small problems are not searched in all ways, but where sizes are given */
  bool one_size; /* of micro-batches was looked at, as the problem is large */
  double work;   /* seconds of all work of a step shared out evenly, of the last search */
  double first;  /* seconds of the plan that was found, before it was improved at last */
  int64_t asked; /* nodes whose memory this plan's searches asked for */
  int64_t memory, batch, microbatch, leaf;
  char *leaves; /* to choose from; NULL: leaf */
  int n_readings;
  PartitionReading *reading;
  int n_passes;
  int64_t *pass; /* samples of each pass over data */
  char *load;    /* a plan's file, instead of all this */
  void *data;    /* of the type, freed with it */
};

/* object.c: a partition without a type, to be given one by a RengaPartitionCreate_; the end of its
   type. */
RengaErrorCode RengaPartitionCreatePlain_Private(RengaComm comm, RengaPartition *partition);
RengaErrorCode RengaPartitionReset_Private(void *partition);

/* options.c: from the options into the partition's members; errors of options that are for another
   type, or beside a plan from a file. */
RengaErrorCode RengaPartitionReadOptions_Private(RengaPartition partition);
RengaErrorCode RengaPartitionFreeOptions_Private(RengaPartition partition);
RengaErrorCode RengaPartitionCheckOptions_Private(RengaPartition partition);
RengaErrorCode RengaPartitionCheckLoadAlone_Private(RengaPartition partition);

/* agree.c: collective; an error on all ranks where they are not given the same. */
RengaErrorCode RengaPartitionCheckAgreement_Private(RengaPartition partition);

void RengaPartitionFreeReadings_Private(RengaPartition partition); /* reading.c */

/* passes.c: samples of the batches that passes end with, none where they end with a whole one;
   RengaFree. */
RengaErrorCode RengaPartitionListShort_Private(RengaPartition partition, int64_t batch, int *count,
                                               int64_t **samples);

/* costsources.c: settings, machine and profile. */
RengaErrorCode RengaPartitionTakeGiven_Private(RengaPartition partition);
RengaErrorCode RengaPartitionFreeGiven_Private(RengaPartition partition);
/* Collective: costs for so many ranks. */
typedef struct {
  RengaProfile profile; /* to be asked; lent */
  RengaProfile made;    /* for this alone; NULL: none */
  RengaMachine plain;   /* of ranks that nothing is known of; NULL: none */
} PartitionCosts;
RengaErrorCode RengaPartitionFindCosts_Private(RengaPartition partition, int ranks,
                                               PartitionCosts *costs);
RengaErrorCode RengaPartitionFreeCosts_Private(RengaPartition partition, PartitionCosts *costs);
/* Bytes that a device of a kind may use, or any device; 0: no bound. */
RengaErrorCode RengaPartitionMemoryOfKind_Private(RengaPartition partition, int kind,
                                                  double *memory);
RengaErrorCode RengaPartitionMemoryBound_Private(RengaPartition partition, double *memory);
/* Bytes of the fullest device of a plan that was forecast. */
RengaErrorCode RengaPartitionMostOfRank_Private(RengaPartition partition, RengaPlan plan,
                                                double *most);
/* An error where a device of the plan needs more; what: the plan's name; advice: what to do. */
RengaErrorCode RengaPartitionCheckMemory_Private(RengaPartition partition, const char *what,
                                                 const char *advice, RengaPlan plan);

/* even.c: cuts of a partition of any type, with even's usual slack. */
RengaErrorCode RengaPartitionCutEvenly_Private(RengaPartition partition, int count,
                                               RengaPlanStage stages[]);

RengaErrorCode RengaPartitionCreate_Manual(void *partition);
RengaErrorCode RengaPartitionCreate_Even(void *partition);
RengaErrorCode RengaPartitionCreate_Rannc(void *partition);
RengaErrorCode RengaPartitionCreate_Tree(void *partition);
RengaErrorCode RengaPartitionCreate_Auto(void *partition);
RengaErrorCode RengaPartitionCreate_Exact(void *partition);

/* outside.c: the type of a rule that a program registered. */
RengaErrorCode RengaPartitionAdopt_Private(void *partition, const void *rule);

/* groups.c: how many ranks compute a replica of a stage together, where it is said; errors of what
   cannot be chosen or done; the groups that ranks make; an error where some are left over. */
int RengaPartitionTensorRanks_Private(RengaPartition partition);
int RengaPartitionContextRanks_Private(RengaPartition partition);
int RengaPartitionGroupRanks_Private(RengaPartition partition);           /* all of them */
RengaLaneKind RengaPartitionChosenKind_Private(RengaPartition partition); /* by "auto" */
bool RengaPartitionSearchesTensor_Private(RengaPartition partition);
bool RengaPartitionChoosesLanes_Private(RengaPartition partition);
bool RengaPartitionChoosesTokens_Private(RengaPartition partition);
bool RengaPartitionHasLongInput_Private(RengaPartition partition); /* whose tokens are many */
bool RengaPartitionChoosesTensor_Private(RengaPartition partition, int ranks);
RengaErrorCode RengaPartitionCheckGroup_Private(RengaPartition partition);
RengaErrorCode RengaPartitionFindGroups_Private(RengaPartition partition, int ranks, int *groups);
RengaErrorCode RengaPartitionCheckGroups_Private(RengaPartition partition, int ranks, int stages,
                                                 int replicas);
/* trialplans.c: there is no plan, or it is not supported; of a search that was made quietly,
   what is no refusal is told, and is its code. */
bool RengaPartitionIsRefusal_Private(RengaErrorCode code);
RengaErrorCode RengaPartitionTellFailure_Private(RengaErrorCode code);
/* degrees.c: collective; instead of *plan, which is freed, the best of those of a type that
   searches and of plans with tensor ranks. */
RengaErrorCode RengaPartitionChooseTensor_Private(RengaPartition partition, int ranks,
                                                  int64_t batch, int64_t microbatch,
                                                  RengaPlan *plan);
/* fewerranks.c: collective; what a type that plans finds, also for fewer ranks. */
RengaErrorCode RengaPartitionPlan_Private(RengaPartition partition, int ranks, int64_t batch,
                                          int64_t microbatch, RengaPlan *plan);
/* degrees.c: the same with chosen tensor ranks. */
RengaErrorCode RengaPartitionSearch_Private(RengaPartition partition, int ranks, int64_t batch,
                                            int64_t microbatch, RengaPlan *plan);
/* axes.c: collective; reasons of the plan that a type that searches found. */
RengaErrorCode RengaPartitionExplainAxes_Private(RengaPartition partition, int ranks, int64_t batch,
                                                 int64_t microbatch, RengaPlan plan);
/* load.c: the plan of -plan_load, checked. */
RengaErrorCode RengaPartitionLoad_Private(RengaPartition partition, int ranks, RengaPlan plan);
/* What the stages of a plan take, as the runtime says. */
RengaErrorCode RengaPartitionForecast_Private(RengaPartition partition, RengaPlan plan);
