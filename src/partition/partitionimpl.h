/* What the files of the partition's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengapartition.h"

struct _RengaPartitionOps {
  RengaErrorCode (*set_from_options)(RengaPartition partition);
  /* How many stages the type itself was told to make; 0: any number. */
  RengaErrorCode (*count)(RengaPartition partition, int *stages);
  /* Fills first and last of stages[0 … count-1]. */
  RengaErrorCode (*solve)(RengaPartition partition, int count, RengaPlanStage stages[]);
  /* Instead of count and solve: fills the whole plan; batch and microbatch as wished or usual. */
  RengaErrorCode (*plan)(RengaPartition partition, int ranks, int64_t batch, int64_t microbatch,
                         RengaPlan plan);
  RengaErrorCode (*view)(RengaPartition partition, RengaViewer viewer);
  RengaErrorCode (*destroy)(RengaPartition partition); /* what data holds; NULL: nothing */
};

/* Seconds to read one sample of an input. */
typedef struct {
  char *input, *data;
  double seconds;
} PartitionReading;

struct _p_RengaPartition {
  RENGAHEADER(struct _RengaPartitionOps);
  RengaGraph graph;     /* borrowed */
  RengaProfile profile; /* borrowed; NULL: that of the options */
  int stages, replicas, ranks;
  int64_t memory, batch, microbatch, leaf;
  char *leaves; /* to choose from; NULL: leaf */
  int n_readings;
  PartitionReading *reading;
  char *load; /* a plan's file, instead of all this */
  void *data; /* of the type, freed with it */
};

void RengaPartitionFreeReadings_Private(RengaPartition partition); /* reading.c */

RengaErrorCode RengaPartitionCreate_Manual(void *partition);
RengaErrorCode RengaPartitionCreate_Even(void *partition);
RengaErrorCode RengaPartitionCreate_Rannc(void *partition);
RengaErrorCode RengaPartitionCreate_Tree(void *partition);
RengaErrorCode RengaPartitionCreate_Auto(void *partition);
RengaErrorCode RengaPartitionCreate_Exact(void *partition);

/* load.c: the plan of -plan_load, checked. */
RengaErrorCode RengaPartitionLoad_Private(RengaPartition partition, int ranks, RengaPlan plan);
