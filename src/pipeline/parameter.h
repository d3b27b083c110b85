/* Parameters of a chunk: what it has of them, where they lie, who uses and updates them. */
#pragma once
#include "memory.h"

/* What a parameter is there as. Each role is a vector of one type (RengaStorage) in which the
   parameters follow each other (role.c). */
typedef enum {
  ROLE_VALUE,    /* what kernels read */
  ROLE_MASTER,   /* what updates read and write; of the type of values: the same memory */
  ROLE_GRADIENT, /* of the step's batch, in the buffer of the sum */
  ROLE_MOMENT    /* + number of the moment */
} ParameterRole;

/* A parameter of this chunk. Places are elements (parameter.c): what is at one place in the vectors
   of values, masters and moments, and at another in a gradient buffer, where its first use begins;
   further uses follow each other elsewhere, each padded to `stride`. */
struct _p_Parameter {
  RengaValue value, whole; /* in the chunk's graph, in the network */
  const char *name;        /* in the network */
  RengaRectangle part;     /* of it, that this is */
  int64_t count, stride;
  int64_t place, gradient, further;
  bool sparse;      /* its gradient is a list of rows (rows.c), and has no place in a buffer */
  bool sharded;     /* each replica updates a share of it (shard.c) */
  int64_t from, to; /* elements that this replica updates */
  int64_t own;      /* of a share: where it is among all shares of this replica */
  int n_uses;       /* in this chunk */
  bool frozen;      /* it has no moments */
  bool narrow;      /* frozen, and its value, of 16 bits, is its master */
  bool trained;     /* not frozen, and some stage has a gradient for it */
  bool owner;
  int number; /* among all parameters of the network: the canonical order */
};

/* Uses of parameters that have a gradient. */
enum { USE_UNWANTED = -1, USE_ELSEWHERE = -2 /* another rank of the tensor group has the part */ };
struct _p_ParameterUses {
  int count;
  RengaParameterUse *row;     /* [count] in the order of their nodes */
  int64_t *place;             /* [count] element of a gradient buffer, or one of the above */
  const RengaGraphRows *rows; /* of sub, which lends them */
  RengaValue *whole;          /* [values of sub] a parameter's number in the network; else NONE */
  bool *cut;                  /* [values of sub] parameters that are there in parts (parts.c) */
  int *rank;                  /* [values of sub] those of the tensor group that have it: of parts */
  int *split;                 /* [values of sub] 1 + the first node that makes parts of it */
  RengaValue *same;           /* [values of sub] the part that the first node makes; else itself */
  bool *joined;               /* [values of sub] its parts lie in a row (concatenatedparts.c) */
  int64_t *holds;             /* [parameters][stages] 0: not there, else 1 + uses (holders.c) */
};

/* holders.c */
RengaErrorCode RengaChunkSetUpHolders_Private(Chunk *chunk);
RengaErrorCode RengaChunkIsTrained_Private(const Chunk *chunk, int parameter, bool *trained);
/* parts.c: of which lanes have parts */
RengaErrorCode RengaChunkMarkParts_Private(Chunk *chunk);
void RengaChunkFreeUses_Private(Chunk *chunk);
RengaErrorCode RengaChunkGetPart_Private(const Chunk *chunk, const RengaGraphNode *split, int o,
                                         RengaValue *value, RengaRectangle *part);
RengaErrorCode RengaChunkCutParts_Private(const Chunk *chunk, const Parameter *parameter,
                                          ParameterRole role, int *count, RengaRectangle part[]);
/* concatenatedparts.c: parts that a lane puts together lie one after the other. */
RengaErrorCode RengaChunkOrderParameters_Private(const Chunk *chunk, int order[]);
RengaErrorCode RengaChunkPlaceJoined_Private(Chunk *chunk);
RengaErrorCode RengaChunkListUses_Private(Chunk *chunk, int count, const RengaParameterUse whole[]);
/* parameter.c */
RengaErrorCode RengaChunkPlaceParameters_Private(Chunk *chunk);
/* role.c */
int64_t RengaChunkStride_Private(const Chunk *chunk, int64_t count);
int64_t RengaChunkRoom_Private(const Chunk *chunk, int64_t count);
int64_t RengaChunkRoleBytes_Private(const Chunk *chunk, ParameterRole role, int64_t count);
int64_t RengaChunkParameterBytes_Private(const Chunk *chunk);
static inline int64_t RengaGradientBytes_Private(const Chunk *chunk, int64_t count)
{
  return RengaChunkRoleBytes_Private(chunk, ROLE_GRADIENT, count);
}
static inline int64_t RengaValueBytes_Private(const Chunk *chunk, int64_t count)
{
  return RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, count);
}
bool RengaChunkIsWide_Private(const Chunk *chunk, const Parameter *parameter);
bool RengaChunkIsNarrow_Private(const Chunk *chunk, const Parameter *parameter);
Place RengaChunkPlaceOf_Private(const Chunk *chunk, const Parameter *parameter);
RengaErrorCode RengaChunkRoundValues_Private(const Chunk *chunk);
RengaVector RengaChunkVectorOf_Private(const Chunk *chunk, const Parameter *parameter,
                                       ParameterRole role);
RengaVector RengaChunkShareOf_Private(const Chunk *chunk, const Parameter *parameter,
                                      ParameterRole role);
char *RengaChunkValuesAt_Private(const Chunk *chunk, int64_t place);
bool RengaChunkHoldsShare_Private(const Chunk *chunk, const Parameter *parameter,
                                  ParameterRole role);
/* tied.c */
int64_t RengaChunkTiedBytes_Private(const Chunk *chunk);
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaChunkSetUpTied_Private(Chunk *chunk);
bool RengaChunkExchanges_Private(const Chunk *chunk, int from, int to);
bool RengaChunkIsTied_Private(const Chunk *chunk, const Parameter *parameter);
RengaErrorCode RengaChunkFreeTied_Private(Chunk *chunk);
