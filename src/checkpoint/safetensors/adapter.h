/* Folders of adapters, as peft writes and loads them. */
#pragma once
#include "../file.h"
#include "rengagraph.h"

#define RENGA_ADAPTER_PREFIX "base_model.model."
/* Does the folder have adapters? */
bool RengaAdapterIsThere(const char *path);
/* By one process: its tensors, by their names in the network, sorted, if they are those of such
   adapters. Attribute "shard 0" is the path of the file. */
RengaErrorCode RengaAdapterRead(const char *folder, const RengaGraphLora *lora,
                                RengaCheckpointTable *table);
/* What adapter_config.json says. */
typedef struct {
  int64_t rank;
  double alpha, dropout;
  bool transposed;  /* weights are [inputs, outputs] */
  const char *base; /* the folder of the network; NULL: it is not of one */
  int count;
  const char **module; /* [count] names of layers */
} RengaAdapterDescription;
/* By one process. */
RengaErrorCode RengaAdapterWriteConfig(const char *folder, const RengaAdapterDescription *adapter);
