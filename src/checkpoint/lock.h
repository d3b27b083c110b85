/* Who may write checkpoints in a directory. All by one process. */
#pragma once
#include "rengasys.h"

#define RENGA_CHECKPOINT_LOCK ".renga_lock"
typedef struct _RengaCheckpointLock *RengaCheckpointLock;
typedef enum {
  RENGA_LOCK_TAKEN,
  RENGA_LOCK_REFUSED, /* another run has it */
  RENGA_LOCK_AGAIN,   /* try again: it may be about to end */
  RENGA_LOCK_WATCHED, /* try again: whether the other one lives cannot be seen yet */
  RENGA_LOCK_DEAD     /* internal: the other one does not */
} RengaLockAnswer;

RengaErrorCode RengaCheckpointLockCreate(const char *directory, RengaCheckpointLock *lock);
RengaErrorCode RengaCheckpointLockTry(RengaCheckpointLock lock, RengaLockAnswer *answer);
/* Whose lock was found: "process 123 on host, since 2026-11-22T08:00:00Z". */
void RengaCheckpointLockDescribe(RengaCheckpointLock lock, size_t size, char text[]);
/* Is it still ours? An error that says whose it is. */
RengaErrorCode RengaCheckpointLockCheck(RengaCheckpointLock lock);
void RengaCheckpointLockDestroy(RengaCheckpointLock *lock); /* and release it */
