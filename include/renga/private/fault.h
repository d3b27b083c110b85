/* Failures on purpose, for tests: the n-th event of a kind fails once, so that for every n each way
   out is taken; or the process ends or stands still before the n-th action of its pipelines, which
   the other ranks must notice. Costs one branch that is never taken where no test asked for it. */
#pragma once
#include "rengasys.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  RENGA_FAULT_ALLOCATION, /* RengaMalloc, RengaRealloc */
  RENGA_FAULT_MESSAGE,    /* the start of a message or of a collective: RengaCallStart */
  RENGA_FAULT_FILE,       /* a call that writes to a file, of HDF5 or of the system */
  RENGA_FAULT_FAILURES,   /* how many kinds are failures, with which a process goes on */
  RENGA_FAULT_KILL = RENGA_FAULT_FAILURES, /* before an action: SIGKILL to itself */
  RENGA_FAULT_STOP,                        /* before an action: SIGSTOP to itself */
  RENGA_FAULT_KINDS
} RengaFaultKind;

/* The n-th event from now on fails (1: the next one); 0: none does. Counts anew. */
void RengaFaultSet(RengaFaultKind kind, int64_t n);
/* Events since RengaFaultSet. */
int64_t RengaFaultGetCount(RengaFaultKind kind);
/* RENGA_FAULT=KIND:N in the environment of a program does what RengaFaultSet does: allocation:17;
   allocation:17:1 on rank 1 of so many only. With N = 0 none fails, and RengaFaultReport says how
   many there were on this rank. */
RengaErrorCode RengaFaultReadEnvironment(int rank, int ranks);
void RengaFaultReport(void);

extern atomic_bool RengaFaultsAreCounted;
bool RengaFaultCount(RengaFaultKind kind);
/* Asked once by each event: is it the one that fails? */
static inline bool RengaFaultIsDue(RengaFaultKind kind)
{
  return atomic_load_explicit(&RengaFaultsAreCounted, memory_order_relaxed) &&
         RengaFaultCount(kind);
}

/* Before each action of a pipeline's list, and each exchange, gather and sum that begins within
   one, in words for people. Comes back after SIGCONT. */
void RengaFaultMeet(const char *action, int stage, int64_t microbatch);
static inline void RengaFaultMeetAction(const char *action, int stage, int64_t microbatch)
{
  if (atomic_load_explicit(&RengaFaultsAreCounted, memory_order_relaxed))
    RengaFaultMeet(action, stage, microbatch);
}

/* -1, and errno says EIO. */
int RengaFaultRefuse(void);
/* A call that writes, and is negative where that fails. */
#define RengaWritten(call) (RengaFaultIsDue(RENGA_FAULT_FILE) ? RengaFaultRefuse() : (call))

/* memory.c: a mark of now, and the blocks that were given after a mark and not got back: how
   many, with their places as text. */
unsigned RengaMemoryGetMark(void);
int64_t RengaMemoryListSince(unsigned mark, size_t size, char text[]);
