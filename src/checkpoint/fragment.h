/* A rank's fragment of a checkpoint, in a file of the memory of a node: blocks of the file that the
   checkpoint would be, with their places there. Knows nothing of ranks that talk. */
#pragma once
#include "file.h"

typedef struct {
  int64_t offset, bytes; /* in the checkpoint's file */
  uint64_t hash;         /* XXH64 of the bytes */
} RengaFragmentBlock;

/* At the beginning of the file; behind it the bytes of the blocks, one after the other, then their
   rows. It is written last and wiped out first, so that a fragment is whole or none. */
typedef struct {
  char magic[40];
  uint64_t token;                 /* of the folder of checkpoints */
  uint64_t run;                   /* as of a checkpoint's head */
  int64_t step, time, file_bytes; /* likewise */
  int64_t ranks, rank;            /* of the run, and whose fragment it is */
  int64_t data_bytes, n_blocks;
  uint64_t rows_hash; /* of the rows of the blocks */
  uint64_t hash;      /* of the bytes above */
} RengaFragmentHead;
enum { RENGA_FRAGMENT_HEAD = 4096 };

typedef struct {
  char *path;
  int file;                /* -1: not open */
  char *at;                /* mapped */
  int64_t room;            /* bytes that are mapped, and taken of the memory */
  RengaFragmentHead head;  /* of the fragment that is made */
  RengaFragmentBlock *row; /* [most_rows] of it */
  int64_t most_rows;
} RengaFragment;

/* rank's fragment, on the rank `by`; slot 0 or 1. The file is made. 0 or errno. */
RengaErrorCode RengaFragmentCreate(const char *folder, int rank, int by, int slot,
                                   RengaFragment *fragment);
int RengaFragmentOpen(RengaFragment *fragment);
/* The memory is there: a write to what is mapped does not fail. 0 or errno. */
int RengaFragmentReserve(RengaFragment *fragment, int64_t bytes);
/* What the file held is none any more. 0 or errno. */
int RengaFragmentBegin(RengaFragment *fragment);
RengaErrorCode RengaFragmentAdd(RengaFragment *fragment, int64_t offset, int64_t bytes,
                                const void *data);
/* Rows, and all of the head but for what the caller has set; bytes of the file that are used. */
RengaErrorCode RengaFragmentEnd(RengaFragment *fragment);
int64_t RengaFragmentBytes(const RengaFragmentHead *head);
int RengaFragmentCommit(RengaFragment *fragment); /* 0 or errno */
void RengaFragmentDestroy(RengaFragment *fragment, bool unlinks);

/* Files of a folder. */
bool RengaFragmentParseName(const char *name, int *rank, int *by, int *slot);
bool RengaFragmentHeadRead(const char *path,
                           RengaFragmentHead *head); /* false: it is no fragment */
/* Its blocks to their places; whole: they are what was written. 0 or errno of the file. */
RengaErrorCode RengaFragmentCopyOut(const char *path, const RengaFragmentHead *head, int file,
                                    bool *whole, int *reason);
