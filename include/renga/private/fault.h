/* Failures on purpose, for tests: the n-th event of a kind fails once, for every n, so that each
   way out is taken. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  RENGA_FAULT_ALLOCATION, /* RengaMalloc, RengaRealloc */
  RENGA_FAULT_MESSAGE,    /* the start of a message or a collective of comm */
  RENGA_FAULT_FILE,       /* a write to a file: HDF5 and others */
  RENGA_FAULT_KINDS
} RengaFaultKind;

/* The n-th event from now on fails (1: the next one); 0: none does. Counts anew. */
void RengaFaultSet(RengaFaultKind kind, int64_t n);
/* Events since RengaFaultSet. */
int64_t RengaFaultGetCount(RengaFaultKind kind);
/* Asked once by each event: is it the one that fails? Without RengaFaultSet the environment's
   RENGA_FAULT=allocation:17 (or message:N, file:N) says. */
bool RengaFaultIsDue(RengaFaultKind kind);

/* memory.c: a mark of now, and the blocks that were given after a mark and not got back: how
   many, with their places as text. */
unsigned RengaMemoryGetMark(void);
int64_t RengaMemoryListSince(unsigned mark, size_t size, char text[]);
