/* A rank's fragment of a checkpoint, in a file of the memory of a node: blocks of tensors, and on
   rank 0 the table of all. Knows nothing of ranks that talk. */
#pragma once
#include "file.h"

/* Bytes [first, first + bytes) of a tensor of the table. */
typedef struct {
  int64_t tensor, first, bytes; /* tensor RENGA_FRAGMENT_TABLE: the packed table itself */
  uint64_t hash;                /* XXH64 of the bytes */
} RengaFragmentBlock;
enum { RENGA_FRAGMENT_TABLE = -1 };

/* At the beginning of the file; behind it the bytes of the blocks, one after the other, then their
   rows. It is written last and wiped out first, so that a fragment is whole or none. */
typedef struct {
  char magic[40];
  uint64_t token;      /* of the folder of checkpoints */
  uint64_t run;        /* as of a checkpoint's head */
  int64_t step, time;  /* likewise */
  int64_t ranks, rank; /* of the run, and whose fragment it is */
  int64_t data_bytes, n_blocks;
  uint64_t rows_hash; /* of the rows of the blocks */
  uint64_t hash;      /* of the bytes above */
} RengaFragmentHead;
enum { RENGA_FRAGMENT_HEAD = 4096 };

typedef struct {
  char *path;
  uint64_t token;          /* of the head, from its first bytes on */
  int file;                /* -1: not open; locked while it is */
  char *at;                /* mapped */
  int64_t room;            /* bytes that are mapped, and taken of the memory */
  RengaFragmentHead head;  /* of the fragment that is made */
  RengaFragmentBlock *row; /* [most_rows] of it */
  int64_t most_rows;
} RengaFragment;

/* rank's fragment, on the rank `by`; slot 0 or 1. */
RengaErrorCode RengaFragmentCreate(const char *folder, int rank, int by, int slot,
                                   RengaFragment *fragment);
/* The file is made; one that is there is another run's. 0 or errno. */
int RengaFragmentOpen(RengaFragment *fragment);
/* The memory is there: a write to what is mapped does not fail. 0 or errno. */
int RengaFragmentReserve(RengaFragment *fragment, int64_t bytes);
/* What the file held is none any more; one that was removed is made again. 0 or errno. */
int RengaFragmentBegin(RengaFragment *fragment);
RengaErrorCode RengaFragmentAdd(RengaFragment *fragment, const RengaFragmentBlock *block,
                                const void *data); /* the hash is found here */
/* Rows, and all of the head but for what the caller has set; bytes of the file that are used. */
RengaErrorCode RengaFragmentEnd(RengaFragment *fragment);
int64_t RengaFragmentBytes(const RengaFragmentHead *head);
int RengaFragmentCommit(RengaFragment *fragment); /* 0 or errno */
/* One that is all zeros was never created. unlinks: the file that it has made. */
void RengaFragmentDestroy(RengaFragment *fragment, bool unlinks);

/* Files of a folder. */
bool RengaFragmentParseName(const char *name, int *rank, int *by, int *slot);
bool RengaFragmentHeadRead(const char *path,
                           RengaFragmentHead *head); /* false: it is no fragment */
/* Of a run that goes on, and has another token. */
bool RengaFragmentIsTaken(const char *path, uint64_t token);
/* whole: what is read is what was written. */
/* Its blocks to their places in the checkpoint's file, which the table knows, and their hashes to
   the table. reason: 0 or errno of that file. */
RengaErrorCode RengaFragmentCopyOut(const char *path, const RengaFragmentHead *head,
                                    RengaCheckpointTable *table, int file, bool *whole,
                                    int *reason);
/* The packed table: RengaFree(bytes). */
RengaErrorCode RengaFragmentReadTable(const char *path, const RengaFragmentHead *head, char **bytes,
                                      int64_t *count, bool *whole);
