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
  RengaErrorCode (*view)(RengaPartition partition, RengaViewer viewer);
  RengaErrorCode (*destroy)(RengaPartition partition); /* what data holds; NULL: nothing */
};

struct _p_RengaPartition {
  RENGAHEADER(struct _RengaPartitionOps);
  RengaGraph graph; /* borrowed */
  int stages, replicas, ranks;
  int64_t memory, batch, microbatch;
  char *load; /* a plan's file, instead of all this */
  void *data; /* of the type, freed with it */
};

RengaErrorCode RengaPartitionCreate_Manual(void *partition);
RengaErrorCode RengaPartitionCreate_Even(void *partition);
RengaErrorCode RengaPartitionCreate_Tree(void *partition);
