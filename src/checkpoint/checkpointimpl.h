/* The class RengaCheckpoint: when and where files are written, which is read. */
#pragma once
#include "file.h"
#include "lock.h"
#include "memory.h"
#include "renga/private/object.h"
#include "rengacheckpoint.h"

struct _p_RengaCheckpoint {
  struct _p_RengaObject hdr;
  RengaPipeline pipeline;         /* not owned: outlives the checkpoint */
  RengaCheckpointTensors tensors; /* NULL: those of the pipeline */
  void *tensors_user;
  struct {
    char *directory, *every, *memory_dir;
    int keep, memory;
    bool signals, async;
    RengaCheckpointFormat format;
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
  uint64_t run;  /* rank 0: of the files that are written; taken over from the file that was read */
  int64_t stamp; /* rank 0: the time of what was written last, nanoseconds since 1970 */
  RengaNodesMemory nodes; /* of -checkpoint_memory; NULL: there is none */
  int64_t recovered;      /* step that was found in the nodes' memory; -1: none */
  bool catches_signals;
  RengaCheckpointLock lock; /* rank 0 */
  int64_t unmarked;         /* step of the file that no step has followed; -1: none */
  bool missing;             /* the file that was due last was not written */
  int64_t bytes;    /* of the tensors of a file, once there was looked for room; 0: not yet */
  double end_time;  /* MPI_Wtime when all must be done; 0: no limit */
  double step_time; /* of the step before */
  double step_seconds, write_seconds; /* the longest */
  bool time_is_up;
  struct { /* a file that is written while training goes on */
    RengaAside aside;
    int64_t step; /* -1: none */
    bool named;   /* rank 0's thread gives it its name */
    RengaCheckpointMarkKind mark;
    double stall;  /* seconds of training that it took */
    int64_t bytes; /* of this rank */
  } pending;
};

/* A file of a step of -checkpoint_every, where that counts steps: those that every run writes,
   however often it was interrupted. */
static inline bool RengaCheckpointIsRegular_Private(RengaCheckpoint checkpoint, int64_t step)
{
  return checkpoint->every_steps == 0 || step % checkpoint->every_steps == 0;
}

/* A checkpoint's events. */
typedef enum {
  RENGA_CHECKPOINT_READ,
  RENGA_CHECKPOINT_WRITE, /* beside training: by the thread of the rank */
  RENGA_CHECKPOINT_STALL, /* of training, by one that is written beside it */
  RENGA_CHECKPOINT_WAIT,  /* for one that is written, before the next one */
  RENGA_CHECKPOINT_MEMORY,
  RENGA_CHECKPOINT_EVENTS
} RengaCheckpointEvents;

/* event.c */
RengaErrorCode RengaCheckpointRegisterEvents_Private(void);

/* checkpoint.c. Collective: an error on all ranks where they do not mean the same; file: what else
   is named, or NULL. */
RengaErrorCode RengaCheckpointCheckSame_Private(RengaCheckpoint checkpoint, const char *file);

/* options.c */
RengaErrorCode RengaCheckpointParseEvery_Private(MPI_Comm comm, const char *text, int64_t *steps,
                                                 double *seconds);
/* scale.c */
RengaErrorCode RengaCheckpointKeepScale_Private(RengaCheckpoint checkpoint,
                                                RengaCheckpointTable *table);
RengaErrorCode RengaCheckpointAdoptScale_Private(RengaCheckpoint checkpoint,
                                                 const RengaCheckpointTable *table);
/* The checkpoint has this table as that of the file it found; table is emptied. */
void RengaCheckpointKeepFound_Private(RengaCheckpoint checkpoint, RengaCheckpointTable *table);
RengaLogEvent RengaCheckpointEvent_Private(RengaCheckpointEvents event);

/* keep.c. Rank 0: the files that go once another one is there; coming: one that is not yet, or
   NULL. */
RengaErrorCode RengaCheckpointFindOld_Private(RengaCheckpoint checkpoint,
                                              const RengaCheckpointFileInfo *coming,
                                              RengaCheckpointOld *old);
RengaErrorCode RengaCheckpointDeleteOld_Private(RengaCheckpoint checkpoint);
/* Collective, once: a warning where the disk is too small. */
RengaErrorCode RengaCheckpointLookForRoom_Private(RengaCheckpoint checkpoint);

/* contents.c. Collective. */
typedef struct {
  char *path;
  RengaCheckpointTable table; /* step, attributes; on rank 0 run and time */
  RengaDevice device;
  int count;
  RengaPersistent *tensors;
  int64_t bytes; /* of those that this rank owns */
} RengaCheckpointContents;
/* Of a file of the present step, or NAME.h5, which may be written. Free it in any case. */
RengaErrorCode RengaCheckpointContentsMake_Private(RengaCheckpoint checkpoint, const char *name,
                                                   RengaCheckpointContents *contents);
/* The same without looking at the directory: of one in memory. */
RengaErrorCode RengaCheckpointContentsOfMemory_Private(RengaCheckpoint checkpoint,
                                                       RengaCheckpointContents *contents);
void RengaCheckpointContentsFree_Private(RengaCheckpointContents *contents);
/* What cannot be written for reasons of the disk is a warning. */
RengaErrorCode RengaCheckpointAttempt_Private(RengaCheckpoint checkpoint,
                                              RengaErrorCode (*action)(RengaCheckpoint checkpoint,
                                                                       void *user),
                                              void *user, bool *good);
/* background.c. Collective. */
/* Once: room for copies of what this rank owns, after RengaCheckpointLookForRoom_Private. */
RengaErrorCode RengaCheckpointPrepare_Private(RengaCheckpoint checkpoint);
/* Copy the present step aside, and begin to write it. Nothing else may be under way. */
RengaErrorCode RengaCheckpointBegin_Private(RengaCheckpoint checkpoint, bool *begun);
/* This rank is not ready for the next call. */
bool RengaCheckpointIsBusy_Private(RengaCheckpoint checkpoint);
/* No rank is busy: go on with the file under way. done: it is there. */
RengaErrorCode RengaCheckpointGoOn_Private(RengaCheckpoint checkpoint, bool *done);
/* Wait until nothing is under way. done: a file is there that was not before. */
RengaErrorCode RengaCheckpointFinish_Private(RengaCheckpoint checkpoint, bool *done);
/* A finite step has followed the file of this step, which is under way; false: it is not, or has
   its mark. */
bool RengaCheckpointMarkPending_Private(RengaCheckpoint checkpoint, int64_t step);

/* inmemory.c. Collective. */
RengaErrorCode RengaCheckpointSetUpMemory_Private(RengaCheckpoint checkpoint);
/* The present step's; what fails is a warning. */
RengaErrorCode RengaCheckpointSaveMemory_Private(RengaCheckpoint checkpoint);
void RengaCheckpointFreeMemory_Private(RengaCheckpoint checkpoint);

/* initial.c. Collective: the newest whole file of a directory, or the file; RengaFree(file). */
RengaErrorCode RengaCheckpointFindFile_Private(RengaComm comm, const char *path, char **file);

/* exportfile.c. Collective: the parameters of a file as a folder, which is whole under its name. */
typedef struct {
  const char *folder, *partial;
  RengaCheckpointExportSettings settings;
} RengaCheckpointTarget;
RengaErrorCode RengaCheckpointExportFile_Private(RengaComm comm, const char *file,
                                                 const RengaCheckpointTarget *target);
/* format.c. Collective: the folder beside a file, where one is wanted; what fails is a warning. */
RengaErrorCode RengaCheckpointWriteFolder_Private(RengaCheckpoint checkpoint, const char *file);

/* resume.c. Collective: the files of a directory, newest first; then those that a step followed
   that was not finite behind the others, with a warning for each. */
RengaErrorCode RengaCheckpointListShared_Private(RengaCheckpoint checkpoint, const char *directory,
                                                 int *count, RengaCheckpointFileInfo **files);
void RengaCheckpointPutBadLast_Private(MPI_Comm comm, int count, RengaCheckpointFileInfo files[]);

/* programtensors.c */
RengaErrorCode RengaCheckpointListTensors_Private(RengaCheckpoint checkpoint,
                                                  const RengaCheckpointTable *table, int *count,
                                                  RengaPersistent **tensors);
void RengaCheckpointFreeExtras_Private(RengaCheckpoint checkpoint);

/* signals.c */
enum {
  RENGA_ASKED_TO_WRITE = 1,
  RENGA_ASKED_TO_STOP = 2,
  RENGA_ASKED_BY_TIME = 4,
  RENGA_ASKED = 7,
  RENGA_STILL_WRITES = 8 /* nobody asked: a thread of this rank is at work */
};
RengaErrorCode RengaCheckpointCatchSignals_Private(void);
void RengaCheckpointReleaseSignals_Private(void);
int RengaCheckpointTakeSignals_Private(void); /* what was asked since the last call */
