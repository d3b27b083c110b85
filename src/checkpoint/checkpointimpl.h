/* The class RengaCheckpoint: when and where files are written, which is read. */
#pragma once
#include "file.h"
#include "lock.h"
#include "renga/private/object.h"
#include "rengacheckpoint.h"

struct _p_RengaCheckpoint {
  struct _p_RengaObject hdr;
  RengaPipeline pipeline; /* not owned: outlives the checkpoint */
  struct {
    char *directory, *every;
    int keep;
    bool signals;
  } options;
  bool subset;                     /* files may hold more than the network */
  int64_t every_steps;             /* 0: not by steps */
  double every_seconds;            /* 0: not by time */
  double last_time;                /* of the last write, MPI_Wtime */
  int64_t last_step;               /* that a file was written of or read; -1: none */
  RengaCheckpointTable attributes; /* of files to be written */
  RengaCheckpointTable found;      /* attributes of the file that was read */
  int n_extras;                    /* tensors of the program's own */
  RengaPersistent *extra;          /* [n_extras] names are owned */
  uint64_t run; /* rank 0: of the files that are written; taken over from the file that was read */
  bool catches_signals;
  RengaCheckpointLock lock; /* rank 0 */
  int64_t unmarked;         /* step of the file that no step has followed; -1: none */
  bool missing;             /* the file that was due last was not written */
  bool looked_for_room;
  int64_t bytes;                      /* of the tensors of a file, once looked for */
  double end_time;                    /* MPI_Wtime when all must be done; 0: no limit */
  double step_time;                   /* of the step before */
  double step_seconds, write_seconds; /* the longest */
  bool time_is_up;
};

/* A file of a step of -checkpoint_every, where that counts steps: those that every run writes,
   however often it was interrupted. */
static inline bool RengaCheckpointIsRegular_Private(RengaCheckpoint checkpoint, int64_t step)
{
  return checkpoint->every_steps == 0 || step % checkpoint->every_steps == 0;
}

/* options.c */
RengaErrorCode RengaCheckpointParseEvery_Private(MPI_Comm comm, const char *text, int64_t *steps,
                                                 double *seconds);
/* The checkpoint has this table as that of the file it found; table is emptied. */
/* scale.c */
RengaErrorCode RengaCheckpointKeepScale_Private(RengaCheckpoint checkpoint,
                                                RengaCheckpointTable *table);
RengaErrorCode RengaCheckpointAdoptScale_Private(RengaCheckpoint checkpoint,
                                                 const RengaCheckpointTable *table);
void RengaCheckpointKeepFound_Private(RengaCheckpoint checkpoint, RengaCheckpointTable *table);
RengaLogEvent RengaCheckpointEvent_Private(bool writes);

/* initial.c. Collective: the newest whole file of a directory, or the file; RengaFree(file). */
RengaErrorCode RengaCheckpointFindFile_Private(RengaComm comm, const char *path, char **file);

/* resume.c. Collective: the files of a directory, newest first; then those that a step followed
   that was not finite behind the others, with a warning for each. */
RengaErrorCode RengaCheckpointListShared_Private(RengaCheckpoint checkpoint, const char *directory,
                                                 int *count, RengaCheckpointFileInfo **files);
void RengaCheckpointPutBadLast_Private(MPI_Comm comm, int count, RengaCheckpointFileInfo files[]);

/* extra.c */
RengaErrorCode RengaCheckpointListTensors_Private(RengaCheckpoint checkpoint,
                                                  const RengaCheckpointTable *table, int *count,
                                                  RengaPersistent **tensors);
void RengaCheckpointFreeExtras_Private(RengaCheckpoint checkpoint);

/* signals.c */
enum { RENGA_ASKED_TO_WRITE = 1, RENGA_ASKED_TO_STOP = 2, RENGA_ASKED_BY_TIME = 4 };
RengaErrorCode RengaCheckpointCatchSignals_Private(void);
void RengaCheckpointReleaseSignals_Private(void);
int RengaCheckpointTakeSignals_Private(void); /* what was asked since the last call */
