/* One checkpoint file: a list of named tensors, wherever they are. Knows nothing of pipelines. */
#pragma once
#include "renga/private/holdings.h"

/* The first bytes of a file, before the HDF5 part (its user block). Little-endian. The number is
   the kind of file: 1 has a checksum for each tensor, 2 for each block of one. Programs refuse
   kinds that are newer than they are. */
#define RENGA_CHECKPOINT_MAGIC "Renga checkpoint %d, HDF5 from byte 4096\n"
enum { RENGA_CHECKPOINT_KIND = 2 };
typedef struct {
  char magic[64];
  int64_t file_bytes, step;
  int64_t time; /* nanoseconds since 1970, and later than any file that was there before */
  uint64_t run; /* the same in all files of a run and of those that went on from it */
  int64_t index_offset, index_count; /* rows of int64: offset, bytes, XXH64 of a block */
  uint64_t rest_hash;                /* of all from byte 4096 that is no tensor */
  uint64_t head_hash;                /* of the bytes above */
} RengaCheckpointHead;
enum { RENGA_CHECKPOINT_HEAD = 4096, RENGA_CHECKPOINT_MESSAGE = 1024 };

/* What is known of a file once a step has followed it: written into the head later, in a sector of
   its own, of which either all or nothing is read. */
typedef enum {
  RENGA_MARK_NONE, /* no step followed */
  RENGA_MARK_GOOD, /* the step after it was finite */
  RENGA_MARK_BAD   /* it was not */
} RengaCheckpointMarkKind;
enum { RENGA_CHECKPOINT_MARK = 2048 }; /* its place */

typedef struct {
  char *name;
  RengaTensorSpec spec;
  int64_t offset, bytes; /* in the file */
  int64_t first_hash;    /* of its rows among the hashes */
  bool state;
  RengaDataType stored; /* of safetensors: the type of its bytes, and the number of its file */
  int shard;
} RengaCheckpointEntry;
typedef struct {
  char *name, *value;
} RengaCheckpointAttribute;

/* What a file holds. Entries are in order of their names. */
typedef struct {
  int64_t step, file_bytes, index_offset;
  int64_t time; /* on rank 0 only, as run: see the head */
  uint64_t run;
  RengaCheckpointMarkKind mark; /* that it is written with, on rank 0 */
  int64_t block;    /* bytes of a tensor that have one hash; 0: each tensor has one, as in older
                       files */
  int64_t n_hashes; /* known once all entries are there: RengaCheckpointTableCountHashes */
  uint64_t *hashes; /* [n_hashes] XXH64 of blocks; in order of entries */
  int n_entries, n_attributes;
  RengaCheckpointEntry *entries;
  RengaCheckpointAttribute *attributes;
} RengaCheckpointTable;

/* Files to be deleted. */
typedef struct {
  int count;
  char **path;  /* [count] */
  bool folders; /* each has one beside it, of safetensors */
} RengaCheckpointOld;
void RengaCheckpointOldDelete_Private(const RengaCheckpointOld *old); /* calls the system alone */
void RengaCheckpointOldFree_Private(RengaCheckpointOld *old);         /* directory.c */

/* table.c */
RengaErrorCode RengaCheckpointTableAdd(RengaCheckpointTable *table, const char *name,
                                       const RengaTensorSpec *spec, bool state);
RengaErrorCode RengaCheckpointTableSetAttribute(RengaCheckpointTable *table, const char *name,
                                                const char *value);
const char *RengaCheckpointTableGetAttribute(const RengaCheckpointTable *table, const char *name);
int RengaCheckpointTableFind(const RengaCheckpointTable *table,
                             const char *name); /* -1: not there */
RengaErrorCode RengaCheckpointTableIsMoment(const RengaCheckpointTable *table, int entry,
                                            bool *moment);
void RengaCheckpointTableSort(RengaCheckpointTable *table);
void RengaCheckpointTableFree(RengaCheckpointTable *table);
/* All tensors that somebody owns. */
RengaErrorCode RengaCheckpointTableAddHoldings(RengaCheckpointTable *table,
                                               const RengaHoldings *holdings);
/* The sorted table gets room for its hashes. */
RengaErrorCode RengaCheckpointTableCountHashes(RengaCheckpointTable *table);
int64_t RengaCheckpointTableBlocks(const RengaCheckpointTable *table, int entry); /* its hashes */
/* Bytes [*first, *first + *bytes) of the entry have hash number `block` of its hashes. */
void RengaCheckpointTableBlock(const RengaCheckpointTable *table, int entry, int64_t block,
                               int64_t *first, int64_t *bytes);
/* Collective: rank 0's table to all. */
RengaErrorCode RengaCheckpointTableBroadcast(RengaComm comm, RengaCheckpointTable *table);
/* Step, entries and attributes of a table, as bytes and back; the table is empty before. */
RengaErrorCode RengaCheckpointTablePack(const RengaCheckpointTable *table, char **bytes,
                                        int64_t *count);
RengaErrorCode RengaCheckpointTableUnpack(char *bytes, int64_t count, RengaCheckpointTable *table);
/* Where an entry is in the file: /parameters/NAME, /moments/first_moment/NAME, /states/NAME. */
RengaErrorCode RengaCheckpointTablePath(const RengaCheckpointTable *table, int entry, char **path);

/* programtensors.c: a tensor of the program's own, which neither the file nor its reader need
   have. */
bool RengaCheckpointIsExtra_Private(const char *name);

/* layout.c: the HDF5 part, by one process. On failure false and a message. file is one in memory:
   HDF5 does not bear a disk that is full. */
bool RengaCheckpointLayoutCreate(const char *file, RengaCheckpointTable *table,
                                 char message[RENGA_CHECKPOINT_MESSAGE]);
RengaErrorCode RengaCheckpointLayoutRead(const char *file, RengaCheckpointTable *table,
                                         char message[RENGA_CHECKPOINT_MESSAGE]);

/* head.c: what protects all that is no tensor, by one process. On failure false and a message. */
bool RengaCheckpointHeadWrite(int file, const RengaCheckpointTable *table,
                              char message[RENGA_CHECKPOINT_MESSAGE]);
bool RengaCheckpointHeadRead(const char *file, RengaCheckpointHead *head); /* false: not whole */
/* 0 or errno. */
int RengaCheckpointMarkWrite(const char *file, RengaCheckpointMarkKind mark);
RengaCheckpointMarkKind RengaCheckpointMarkRead(const char *file);
/* An error only where this process itself fails; a message where the file is wrong. */
RengaErrorCode RengaCheckpointHeadCheck(const char *file, RengaCheckpointHead *head,
                                        char message[RENGA_CHECKPOINT_MESSAGE]);

/* transfer.c: a place in a file. reason: 0 or errno. */
int RengaTransferWrite(int file, int64_t offset, int64_t bytes, const void *data);
typedef struct _RengaTransfer *RengaTransfer;
RengaErrorCode RengaTransferCreate(RengaDevice device, RengaTransfer *transfer); /* NULL: host */
/* Where a tensor stands in a file, and of what type it is there. */
typedef struct {
  int file;
  int64_t offset;
  RengaDataType type;
} RengaTransferSource;
/* Bytes [first, first + bytes) of a tensor, which begins at offset, and their checksum; what of
   them is in the part of a rank goes there. persistent NULL: only the checksum. */
RengaErrorCode RengaTransferRead(RengaTransfer transfer, const RengaTransferSource *source,
                                 int64_t first, int64_t bytes, const RengaPersistent *persistent,
                                 uint64_t *hash, int *reason);
/* What is here of the tensor becomes zero. */
RengaErrorCode RengaTransferClear(RengaTransfer transfer, const RengaPersistent *persistent);
void RengaTransferDestroy(RengaTransfer *transfer);

/* write.c. Collective: path appears whole or not at all. table: step and attributes; gets entries
   on rank 0. */
RengaErrorCode RengaCheckpointFileWrite(RengaComm comm, RengaDevice device, const char *path,
                                        int count, const RengaPersistent tensors[],
                                        RengaCheckpointTable *table);

/* asynchronous.c: the same by a thread of each rank, while the tensors change. Buffers for what
   is copied aside stay from file to file. */
typedef struct _RengaAside *RengaAside;
RengaErrorCode RengaAsideCreate(RengaAside *aside);
/* Buffers for so many bytes, once: else the first file makes them as it needs them. */
RengaErrorCode RengaAsidePrepare(RengaAside aside, int64_t bytes);
/* Collective: the tensors are copied, and a thread begins to write them. table as of
   RengaCheckpointFileWrite; it is emptied. */
RengaErrorCode RengaAsideBegin(RengaAside aside, RengaComm comm, RengaDevice device,
                               const char *path, int count, const RengaPersistent tensors[],
                               RengaCheckpointTable *table);
bool RengaAsideIsBusy(RengaAside aside); /* the thread of this rank is at work */
int64_t RengaAsideBytes(RengaAside aside);
double RengaAsideSeconds(RengaAside aside); /* that the thread of this rank has written */
/* Collective, after RengaAsideBegin, best once no rank is busy: checksums are brought together,
   and a thread of rank 0 gives the file its name, marked so, then deletes the files of old, which
   is emptied. */
RengaErrorCode RengaAsidePublish(RengaAside aside, RengaCheckpointMarkKind mark,
                                 RengaCheckpointOld *old);
/* Collective, after RengaAsidePublish: the file is there. */
RengaErrorCode RengaAsideEnd(RengaAside aside);
/* What is under way, if anything is. Its thread is waited for as long as for a message; after that
   what it uses stays. */
void RengaAsideGiveUp(RengaAside aside);
void RengaAsideDestroy(RengaAside *aside);

/* read.c. Collective: the table of a file. *whole false, and a message on all ranks, for a damaged
   one. */
RengaErrorCode RengaCheckpointFileOpen(RengaComm comm, const char *path,
                                       RengaCheckpointTable *table, bool *whole,
                                       char message[RENGA_CHECKPOINT_MESSAGE]);
/* Collective: an error that names the differences of names and shapes. subset: the file may hold
   more. */
RengaErrorCode RengaCheckpointFileCompare(RengaComm comm, const char *path,
                                          const RengaCheckpointTable *table, int count,
                                          const RengaPersistent tensors[], bool subset);
/* A list of differences that says how many more there are. */
typedef struct {
  char text[2048];
  int count;
} RengaCheckpointDifferences;
/* Shapes are equal, and types, or floating ones of which one is made the other. */
bool RengaCheckpointSpecFits(const RengaTensorSpec *network, const RengaTensorSpec *file);
void RengaCheckpointDifferencesAdd(RengaCheckpointDifferences *differences, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The last line of the list: "" or "...". */
const char *RengaCheckpointDifferencesMore(const RengaCheckpointDifferences *differences);
/* Collective: read and check this rank's tensors; count 0: only check, shared among the ranks. */
RengaErrorCode RengaCheckpointFileRead(RengaComm comm, RengaDevice device, const char *path,
                                       const RengaCheckpointTable *table, int count,
                                       const RengaPersistent tensors[], bool *whole,
                                       char message[RENGA_CHECKPOINT_MESSAGE]);

/* directory.c: files step_000000100.h5 of a directory, by one process. */
RengaErrorCode RengaCheckpointDirectoryPath(const char *directory, int64_t step, char **path);
/* NAME.h5, which is not listed. */
RengaErrorCode RengaCheckpointDirectoryNamed(const char *directory, const char *name, char **path);
typedef struct {
  int64_t step, time;
  uint64_t run; /* 0: its head cannot be read */
  bool whole;   /* its head can be read, and it is as long as that says */
  RengaCheckpointMarkKind mark;
} RengaCheckpointFileInfo;
/* The newest first. */
RengaErrorCode RengaCheckpointDirectoryList(const char *directory, int *count,
                                            RengaCheckpointFileInfo **files);
RengaErrorCode RengaCheckpointDirectoryProbe(RengaComm comm, const char *directory);
/* Files that were never finished, of runs that are dead: the directory is ours. */
void RengaCheckpointDirectoryClean(const char *directory);
/* A folder and the files in it, whatever is there of them; calls the system alone. */
void RengaCheckpointDirectoryRemove(const char *folder);
void RengaCheckpointDirectoryRemoveBeside(const char *file); /* the folder of a file */
int RengaCheckpointDirectoryMake(const char *directory);     /* with those above it; 0 or errno */
int RengaCheckpointDirectorySync(const char *directory);     /* 0 or errno */
