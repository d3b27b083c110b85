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
RengaErrorCode RengaCheckpointSetSubset(RengaCheckpoint checkpoint, bool subset);
RengaErrorCode RengaCheckpointSetSignals(RengaCheckpoint checkpoint, bool signals);
RengaErrorCode RengaCheckpointGetSignals(RengaCheckpoint checkpoint, bool *signals);
RengaErrorCode RengaCheckpointSetAsync(RengaCheckpoint checkpoint, bool async);
RengaErrorCode RengaCheckpointGetAsync(RengaCheckpoint checkpoint, bool *async);
RengaErrorCode RengaCheckpointGetAsyncMemory(RengaCheckpoint checkpoint, int64_t *bytes);
/* Safetensors: beside each file step_000000100.h5 a folder step_000000100 that Hugging Face's
   libraries load. */
typedef enum { RENGA_CHECKPOINT_HDF5, RENGA_CHECKPOINT_SAFETENSORS } RengaCheckpointFormat;
RengaErrorCode RengaCheckpointSetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat format);
RengaErrorCode RengaCheckpointGetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat *format);
RengaErrorCode RengaCheckpointSetFromOptions(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointSetWriters(RengaCheckpoint checkpoint, int of_node);
RengaErrorCode RengaCheckpointGetWriters(RengaCheckpoint checkpoint, int *of_node);
RengaErrorCode RengaCheckpointSetMemory(RengaCheckpoint checkpoint, int steps, const char *folder);
RengaErrorCode RengaCheckpointGetMemory(RengaCheckpoint checkpoint, int *steps,
                                        const char **folder);
RengaErrorCode RengaCheckpointReserveMemory(RengaCheckpoint checkpoint, int64_t *bytes);
RengaErrorCode RengaCheckpointGetRecovered(RengaCheckpoint checkpoint, int64_t *step);
RengaErrorCode RengaCheckpointSetUp(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointSetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char *value);
RengaErrorCode RengaCheckpointAddTensor(RengaCheckpoint checkpoint, const char *name,
                                        const RengaTensorSpec *spec, float data[]);
RengaErrorCode RengaCheckpointHasTensor(RengaCheckpoint checkpoint, const char *name, bool *has);
RengaErrorCode RengaCheckpointGetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char **value);
RengaErrorCode RengaCheckpointWrite(RengaCheckpoint checkpoint, char **file);
RengaErrorCode RengaCheckpointTry(RengaCheckpoint checkpoint, const char *name, bool *wrote);
RengaErrorCode RengaCheckpointGetMissing(RengaCheckpoint checkpoint, bool *missing);
RengaErrorCode RengaCheckpointGetWritten(RengaCheckpoint checkpoint, int64_t *step); /* -1: none */
RengaErrorCode RengaCheckpointMarkBad(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointRollBack(RengaCheckpoint checkpoint, bool *found, int64_t *from);
RengaErrorCode RengaCheckpointSetTimeLimit(RengaCheckpoint checkpoint, double seconds);
RengaErrorCode RengaCheckpointGetTimeLimit(RengaCheckpoint checkpoint, double *seconds,
                                           bool *stopped);
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop);
RengaErrorCode RengaCheckpointResume(RengaCheckpoint checkpoint, bool *found, int64_t *step);
RengaErrorCode RengaCheckpointPeek(RengaCheckpoint checkpoint, bool *found, int64_t *step);
RengaErrorCode RengaCheckpointGetNewest(RengaCheckpoint checkpoint, bool *found, int64_t *step);
RengaErrorCode RengaCheckpointCheckFresh(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointRead(RengaCheckpoint checkpoint, const char *file); /* collective */
/* What RengaCheckpointReadInitial found in another run's file. */
typedef struct {
  int64_t step;       /* of the file */
  int taken, network; /* tensors: taken from the file, there are in the network */
} RengaCheckpointInitial;
RengaErrorCode RengaCheckpointReadInitial(RengaCheckpoint checkpoint, const char *path,
                                          bool partial, RengaCheckpointInitial *initial);
RengaErrorCode RengaCheckpointReadAdapter(RengaCheckpoint checkpoint, const char *path,
                                          RengaCheckpointInitial *initial);
RengaErrorCode RengaCheckpointPeekInitial(RengaCheckpoint checkpoint, const char *path,
                                          int64_t *step);
/* What an exported folder of Hugging Face is like. */
typedef struct {
  RengaDataType type; /* of its numbers: float32, bfloat16, float16 */
  int64_t file_bytes; /* of a file at most, where it has several tensors; 0: 5 GB */
  const char *like;   /* the folder whose config.json and tokenizer are copied; NULL: none */
  bool merged;        /* adapters are added to their weights; else they are all that is written */
} RengaCheckpointExportSettings;
RengaErrorCode RengaCheckpointExport(RengaComm comm, const char *path, const char *folder,
                                     const RengaCheckpointExportSettings *settings);
RengaErrorCode RengaCheckpointView(RengaComm comm, const char *file, RengaViewer viewer);
RengaErrorCode RengaCheckpointDestroy(RengaCheckpoint *checkpoint);

RENGA_END_DECLS
