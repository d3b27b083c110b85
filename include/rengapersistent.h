/* Tensors that live across steps: which part of each a rank has. Parts are rectangles of the
   logical tensor. */
#pragma once
#include "rengacomm.h"
#include "rengadevice.h"

RENGA_BEGIN_DECLS

/* Elements start[d] to start[d] + extent[d] - 1 in each dimension d of a tensor. */
typedef struct {
  int64_t start[RENGA_MAX_DIM], extent[RENGA_MAX_DIM]; /* one for each dimension */
} RengaRectangle;
/* Elements [first, first + count) of the tensor as a row-major vector, as a few rectangles. */
#define RENGA_RANGE_RECTANGLES (2 * RENGA_MAX_DIM)

/* What a rank has of a tensor. The parts that have an owner are the tensor, each element once; a
   rank may own several parts of it. */
typedef struct {
  const char *name;     /* unique over the network */
  RengaTensorSpec spec; /* whole logical shape, and the type of its elements */
  RengaRectangle part;  /* of it, which is here */
  void *data;           /* on the device, row-major: the part, nothing else */
  bool owner;           /* this rank writes it to checkpoints */
  bool state;           /* not trained: running statistics */
  bool host;            /* data lies in the host's memory, once the device's work is done */
} RengaPersistent;

RENGA_END_DECLS
