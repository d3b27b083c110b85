/* Checkpoints in the memory of nodes (-checkpoint_memory): each rank's fragment in its node's
   memory, and a copy of it in that of the next node. */
#pragma once
#include "fragment.h"
#include "rengacomm.h"

typedef struct {
  int node, local, local_size;
} RengaNodePlace;

/* The files of this rank have two slots: while one is written the other one holds the checkpoint
   before. */
typedef struct _RengaNodesMemory {
  RengaComm comm; /* lent */
  MPI_Comm ranks; /* of it */
  char *folder;   /* of the node, for this user and this folder of checkpoints */
  char *token_file;
  uint64_t token; /* in the folder of checkpoints, so that what another run left is known */
  bool was_there; /* the token: a run did not come to its end */
  bool cleared;   /* what it left is a file now, or of no use */
  int nodes;
  RengaNodePlace *place;       /* [ranks] */
  int to;                      /* who has the copy of this rank's fragment; -1: nobody */
  int n_from, *from;           /* [n_from] of whom this rank has copies */
  RengaFragment own[2], *copy; /* [2 * n_from]: of from[i] in slot s at 2 * i + s */
  RengaFragmentHead *heads;    /* [ranks] of the checkpoint that is made */
  RengaRequest *request;       /* [n_from + 1] */
  int slot;                    /* the next to be written */
  int64_t step, before;        /* the newest that is whole, and the one before; -1: none */
} * RengaNodesMemory;

/* memory.c. Collective, but for IsLeft, Forget and Destroy. */
/* By a run that has not come to its end; what of it is still there only nodes know. */
bool RengaNodesMemoryIsLeft(const char *directory);
/* parent: where the node's folder is made, such as /dev/shm. */
RengaErrorCode RengaNodesMemoryCreate(RengaComm comm, const char *parent, const char *directory,
                                      RengaNodesMemory *memory);
/* Room for fragments, of which this rank's has so many bytes; all: that this rank takes. An error
   on all ranks where a node has less. */
RengaErrorCode RengaNodesMemoryReserve(RengaNodesMemory memory, int64_t bytes, int64_t *all);
/* Rank 0: a run of the directory has not come to its end. */
bool RengaNodesMemoryIsLeft(const char *directory);
/* table: step and attributes; rank 0: run and time. */
RengaErrorCode RengaNodesMemorySave(RengaNodesMemory memory, RengaDevice device, int count,
                                    const RengaPersistent tensors[], RengaCheckpointTable *table);
/* The checkpoint of this step is none any more. */
void RengaNodesMemoryForget(RengaNodesMemory memory, int64_t step);
/* keeps: another run may find what is there. What was not cleared is kept in any case. */
void RengaNodesMemoryDestroy(RengaNodesMemory *memory, bool keeps);

/* memoryfind.c. Collective: the newest checkpoint that the nodes have whole, if it is newer than
   `newest` (rank 0's counts), becomes a file of the directory; step: its step, or -1. The nodes
   have none then. */
RengaErrorCode RengaNodesMemoryRecover(RengaNodesMemory memory, const char *directory,
                                       int64_t newest, int64_t *step);
