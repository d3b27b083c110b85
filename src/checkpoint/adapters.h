/* What a checkpoint says of the adapters of its network. */
#pragma once
#include "file.h"
#include "rengapipeline.h"

typedef struct {
  int64_t rank; /* 0: there are none */
  double alpha, dropout;
  int64_t others;         /* parameters that are trained, and states, besides */
  const char *transposed; /* layers whose weights are [inputs, outputs]: "*", or their names with
                             commas; lent by the table */
} RengaCheckpointAdapters;
/* adapters.c: into the table of a file that is to be written. */
RengaErrorCode RengaCheckpointKeepAdapters_Private(RengaPipeline pipeline,
                                                   RengaCheckpointTable *table);
/* path: of the file that the table is of. */
RengaErrorCode RengaCheckpointFindAdapters_Private(const char *path,
                                                   const RengaCheckpointTable *table,
                                                   RengaCheckpointAdapters *adapters);
bool RengaCheckpointIsTransposed_Private(const RengaCheckpointAdapters *adapters,
                                         const char *layer);
/* The factors of LAYER are LAYER.lora_A.weight and LAYER.lora_B.weight; false: it is no factor. */
enum { RENGA_ADAPTER_NAME = 512 };
bool RengaCheckpointIsFactor_Private(const char *name, char layer[RENGA_ADAPTER_NAME]);
