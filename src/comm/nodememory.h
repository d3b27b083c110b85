/* Memory that the ranks of a node share (nodememory.c). */
#pragma once
#include "commimpl.h"
#include <stdatomic.h>

enum {
  NODE_SUMS = 2,  /* of a comm that use it at once */
  NODE_ROUNDS = 2 /* of a sum that have a half of a box each */
};

typedef enum { NODE_PIECES, NODE_BLOCKS, NODE_KINDS } NodeKind;

/* Of a rank's box; the others read them. Counts are of rounds of all sums that had the box. */
typedef struct {
  _Alignas(64) atomic_llong shown[NODE_KINDS];
  _Alignas(64) atomic_llong taken[NODE_KINDS];
  _Alignas(64) bool empty[NODE_KINDS][NODE_ROUNDS]; /* nothing is shown: a rank has failed */
  int64_t vector[NODE_KINDS][NODE_ROUNDS];          /* bytes of the sum's */
} RengaNodeFlags;

/* Another rank's memory, as it lies here. */
typedef struct {
  char *memory, *pages;
  size_t length;
} NodeView;

struct _RengaNodeMemory {
  char *at;
  size_t bytes, half;       /* of all, and of what a rank shows in a round */
  bool works;               /* all ranks of the comm have it */
  int64_t sums;             /* of this comm that had boxes */
  int64_t begun[NODE_SUMS]; /* rounds of sums that begun, and that this rank has ended */
  int64_t ended[NODE_SUMS];
};

/* Whole pages of each rank's memory, which the others of its node have mapped. */
struct _RengaCommShared {
  RengaComm comm;
  char *memory; /* what was asked for, */
  size_t bytes;
  char *pages; /* and where its pages begin */
  size_t length;
  bool works;     /* all ranks of the comm have it */
  NodeView *view; /* [local_size] */
};

static inline size_t RengaNodeBoxBytes(const struct _RengaNodeMemory *memory)
{
  return sizeof(RengaNodeFlags) + NODE_ROUNDS * memory->half;
}

/* Of a sum of this slot. */
static inline RengaNodeFlags *RengaNodeFlagsOf(const struct _RengaNodeMemory *memory, int local,
                                               int slot)
{
  const size_t box = (size_t)local * NODE_SUMS + (size_t)slot;
  return (RengaNodeFlags *)(void *)(memory->at + box * RengaNodeBoxBytes(memory));
}

static inline char *RengaNodeHalf(const struct _RengaNodeMemory *memory, int local, int slot,
                                  int64_t round)
{
  return (char *)(RengaNodeFlagsOf(memory, local, slot) + 1) +
         (size_t)(round % NODE_ROUNDS) * memory->half;
}
