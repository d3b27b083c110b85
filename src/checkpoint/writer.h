/* A checkpoint's file under way: written at once (write.c), or by threads while training goes on
   (asynchronous.c). */
#pragma once
#include "file.h"

typedef struct {
  RengaComm comm;
  MPI_Comm ranks; /* of comm */
  RengaDevice device;
  const char *path;
  char *temporary; /* on the same file system, renamed at the end */
  bool reserve;    /* its space before anything is written */
  RengaHoldings holdings;
  RengaCheckpointTable *table; /* of the same tensors in the same order; on all ranks */
  RengaCheckpointTable shared; /* the table of ranks that have none */
  int file;                    /* -1: not opened yet */
} RengaCheckpointWriter;

/* Collective. The temporary file is there, with names and shapes in it; all ranks have its table.
   The caller has set comm, device, path, reserve and, on rank 0, table. */
RengaErrorCode RengaCheckpointWriterBegin_Private(RengaCheckpointWriter *writer, int count,
                                                  const RengaPersistent tensors[]);
/* The same, where rank 0's table has its entries, and no tensors are brought together. */
RengaErrorCode RengaCheckpointWriterBeginTable_Private(RengaCheckpointWriter *writer);
/* Collective: each block was written by one rank. */
RengaErrorCode RengaCheckpointWriterShareHashes_Private(RengaCheckpointWriter *writer);
/* Rank 0: checksums and head. */
RengaErrorCode RengaCheckpointWriterEnd_Private(RengaCheckpointWriter *writer);
/* Any thread: on the disk, then under its name. On failure false and a message. */
bool RengaCheckpointWriterName_Private(const RengaCheckpointWriter *writer,
                                       char message[RENGA_CHECKPOINT_MESSAGE]);
/* failed: the temporary file goes. */
void RengaCheckpointWriterFree_Private(RengaCheckpointWriter *writer, bool failed);
