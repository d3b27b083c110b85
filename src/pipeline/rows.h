/* Tables whose gradients are lists of rows. */
#pragma once
#include "parameter.h"
#include "pipelineimpl.h"

/* A table whose gradient is a list of rows (rows.c). */
typedef struct {
  int parameter;                 /* number among the chunk's */
  RengaValue gradients, numbers; /* in the chunk's graph: what GatherGrad would add up */
  int64_t width, length;         /* of a row; rows of the table */
  int64_t padding;               /* the row that gets no gradient; -1: none */
  int64_t rows, last_rows;       /* positions of a micro-batch, and of the last one of the pass */
  bool wide;                     /* numbers are int64, else int32 */
  int64_t gradients_at, numbers_at;   /* bytes in a slot */
  int64_t index_at, count_at, sum_at; /* bytes behind the first slot */
  int64_t *index, *count;             /* of the device: the rows of the step, */
  float *sum;                         /* and their gradients */
} RowList;

/* All of the chunk, and where they are in a step. */
struct _p_RowLists {
  int count;
  RowList *row;
  int64_t slots, used; /* micro-batches: that there is memory for, of the running step */
  char *base;
  int64_t work_at;
  RengaBlocks blocks;  /* which replica has which slots of the running step */
  RengaConvoy convoy;  /* NULL: one replica */
  int places;          /* messages that the convoy was made for, */
  size_t room;         /* of so many bytes */
  RengaCommSum gather; /* under way, or NULL */
  bool begun;          /* of this step: the slots are being gathered */
  double *square;      /* [count] of the host */
};

/* rows.c */
RengaErrorCode RengaPipelineCheckRows_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckLazy_Private(RengaPipeline pipeline);
RengaErrorCode RengaChunkFindRows_Private(Chunk *chunk);
void RengaChunkPlaceRows_Private(Chunk *chunk);
RengaErrorCode RengaChunkSetUpRows_Private(Chunk *chunk, char *base);
RengaErrorCode RengaChunkPrepareRows_Private(Chunk *chunk, int64_t microbatches, int64_t samples);
RengaErrorCode RengaChunkFreeRows_Private(Chunk *chunk);
/* rowsums.c */
RengaErrorCode RengaChunkTakeRows_Private(Chunk *chunk, const RengaAction *action);
RengaErrorCode RengaChunkBeginRows_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkEndRows_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkQueueRowSums_Private(Chunk *chunk);
void RengaChunkKeepRowSquares_Private(const Chunk *chunk, double squares[]);
void RengaChunkDescribeRows_Private(const Chunk *chunk, const Parameter *parameter,
                                    RengaParameterUpdate *update);
RengaErrorCode RengaChunkSpreadRows_Private(const Chunk *chunk, const Parameter *parameter,
                                            float gradient[]);
