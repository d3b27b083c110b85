/* Checkpoint: the logical network in one HDF5 file, whatever the layout that wrote it. */
#pragma once
#include "rengapipeline.h"

RENGA_BEGIN_DECLS

/* A writer and reader of checkpoints: one HDF5 file has the whole network, whatever the layout. */
typedef struct _p_RengaCheckpoint *RengaCheckpoint;
RengaErrorCode RengaCheckpointCreate(RengaComm comm, RengaCheckpoint *checkpoint);
RengaErrorCode RengaCheckpointSetPipeline(RengaCheckpoint checkpoint, RengaPipeline pipeline);
/* What is written and read in place of the pipeline's tensors: collective, called for each file;
   the list is lent. Those whose names begin with RENGA_CHECKPOINT_OWN need not be in a file, and
   only who lists them sees them. */
#define RENGA_CHECKPOINT_OWN "renga:"
typedef RengaErrorCode (*RengaCheckpointTensors)(void *user, int *count,
                                                 const RengaPersistent **tensors);
RengaErrorCode RengaCheckpointSetTensors(RengaCheckpoint checkpoint, RengaCheckpointTensors tensors,
                                         void *user);
RengaErrorCode RengaCheckpointSetDirectory(RengaCheckpoint checkpoint, const char *directory);
RengaErrorCode RengaCheckpointGetDirectory(RengaCheckpoint checkpoint, const char **directory);
/* true: files may hold more than the network, as when it is only evaluated. */
RengaErrorCode RengaCheckpointSetSubset(RengaCheckpoint checkpoint, bool subset);
RengaErrorCode RengaCheckpointSetSignals(RengaCheckpoint checkpoint, bool signals);
RengaErrorCode RengaCheckpointGetSignals(RengaCheckpoint checkpoint, bool *signals);
/* true: training goes on while a file of RengaCheckpointStep is written. */
RengaErrorCode RengaCheckpointSetAsync(RengaCheckpoint checkpoint, bool async);
RengaErrorCode RengaCheckpointGetAsync(RengaCheckpoint checkpoint, bool *async);
/* Collective: bytes that this rank copies for that; 0: files are written at once. */
RengaErrorCode RengaCheckpointGetAsyncMemory(RengaCheckpoint checkpoint, int64_t *bytes);
/* Safetensors: beside each file step_000000100.h5 a folder step_000000100 that Hugging Face's
   libraries load. */
typedef enum { RENGA_CHECKPOINT_HDF5, RENGA_CHECKPOINT_SAFETENSORS } RengaCheckpointFormat;
RengaErrorCode RengaCheckpointSetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat format);
RengaErrorCode RengaCheckpointGetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat *format);
RengaErrorCode RengaCheckpointSetFromOptions(RengaCheckpoint checkpoint);
/* -checkpoint_dir, -checkpoint_every 100 (steps) or 30min, -checkpoint_keep */
/* Ranks of each node that write files; 0: all, each what it owns. */
RengaErrorCode RengaCheckpointSetWriters(RengaCheckpoint checkpoint, int of_node);
RengaErrorCode RengaCheckpointGetWriters(RengaCheckpoint checkpoint, int *of_node);
/* steps > 0: so often a checkpoint is also kept in memory, a part in each node's and in the next
   node's, in files of this folder (/dev/shm). */
RengaErrorCode RengaCheckpointSetMemory(RengaCheckpoint checkpoint, int steps, const char *folder);
RengaErrorCode RengaCheckpointGetMemory(RengaCheckpoint checkpoint, int *steps,
                                        const char **folder);
/* Collective, before the first step: is there room? bytes: for this rank. */
RengaErrorCode RengaCheckpointReserveMemory(RengaCheckpoint checkpoint, int64_t *bytes);
/* After RengaCheckpointSetUp: the step that was found in memory, and is a file now; -1: none. */
RengaErrorCode RengaCheckpointGetRecovered(RengaCheckpoint checkpoint, int64_t *step);
/* Collective: is the directory writable? Catches signals. */
RengaErrorCode RengaCheckpointSetUp(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointSetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char *value);
/* Collective: a tensor of the program's own, the same on all ranks, in files from now on. */
RengaErrorCode RengaCheckpointAddTensor(RengaCheckpoint checkpoint, const char *name,
                                        const RengaTensorSpec *spec, float data[]);
RengaErrorCode RengaCheckpointHasTensor(RengaCheckpoint checkpoint, const char *name, bool *has);
/* Of the file that was read last; lent, NULL where it has none. */
RengaErrorCode RengaCheckpointGetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char **value);
/* Collective; file (may be NULL): its path, for RengaFree. */
RengaErrorCode RengaCheckpointWrite(RengaCheckpoint checkpoint, char **file);
/* Collective: a file that cannot be written is a warning. name "best": best.h5, which stays. */
RengaErrorCode RengaCheckpointTry(RengaCheckpoint checkpoint, const char *name, bool *wrote);
RengaErrorCode RengaCheckpointGetMissing(RengaCheckpoint checkpoint, bool *missing);
RengaErrorCode RengaCheckpointGetWritten(RengaCheckpoint checkpoint, int64_t *step); /* -1: none */
/* Collective, after a step that was not finite. */
RengaErrorCode RengaCheckpointMarkBad(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointRollBack(RengaCheckpoint checkpoint, bool *found, int64_t *from);
/* seconds from now; RengaCheckpointStep says stop while there is time for a last file. */
RengaErrorCode RengaCheckpointSetTimeLimit(RengaCheckpoint checkpoint, double seconds);
RengaErrorCode RengaCheckpointGetTimeLimit(RengaCheckpoint checkpoint, double *seconds,
                                           bool *stopped);
/* Collective, after each step: writes when due or asked by SIGUSR1/SIGTERM. stop: leave now. */
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop);
/* Collective: the newest whole file of the directory; *found false where there is none. */
RengaErrorCode RengaCheckpointResume(RengaCheckpoint checkpoint, bool *found, int64_t *step);
/* Collective: its attributes alone. */
RengaErrorCode RengaCheckpointPeek(RengaCheckpoint checkpoint, bool *found, int64_t *step);
/* Collective: the same, not read. */
RengaErrorCode RengaCheckpointGetNewest(RengaCheckpoint checkpoint, bool *found, int64_t *step);
/* Collective: an error where there is one, which a run that does not go on from it would not
   replace. */
RengaErrorCode RengaCheckpointCheckFresh(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointRead(RengaCheckpoint checkpoint, const char *file); /* collective */
/* What RengaCheckpointReadInitial found in another run's file. */
typedef struct {
  int64_t step;       /* of the file */
  int taken, network; /* tensors: taken from the file, there are in the network */
} RengaCheckpointInitial;
/* Collective: parameters and states of another run's file, or of the newest in a directory; no
   moments, no step. partial: those that are on one side only, or of other shapes, are a
   warning, not an error. */
RengaErrorCode RengaCheckpointReadInitial(RengaCheckpoint checkpoint, const char *path,
                                          bool partial, RengaCheckpointInitial *initial);
/* Collective: the adapters of a folder of peft, and nothing else. */
RengaErrorCode RengaCheckpointReadAdapter(RengaCheckpoint checkpoint, const char *path,
                                          RengaCheckpointInitial *initial);
/* Collective: the attributes of that file alone. */
RengaErrorCode RengaCheckpointPeekInitial(RengaCheckpoint checkpoint, const char *path,
                                          int64_t *step);
/* What an exported folder of Hugging Face is like. */
typedef struct {
  RengaDataType type; /* of its numbers: float32, bfloat16, float16 */
  int64_t file_bytes; /* of a file at most, where it has several tensors; 0: 5 GB */
  const char *like;   /* the folder whose config.json and tokenizer are copied; NULL: none */
  bool merged;        /* adapters are added to their weights; else they are all that is written */
} RengaCheckpointExportSettings;
/* Collective: parameters and states as safetensors files, in a new folder. */
RengaErrorCode RengaCheckpointExport(RengaComm comm, const char *path, const char *folder,
                                     const RengaCheckpointExportSettings *settings);
RengaErrorCode RengaCheckpointView(RengaComm comm, const char *file, RengaViewer viewer);
RengaErrorCode RengaCheckpointDestroy(RengaCheckpoint *checkpoint);

RENGA_END_DECLS
