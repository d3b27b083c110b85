/* Who owns which part of which tensor, known to all ranks; tensors brought together from it. */
#pragma once
#include "renga/private/rectangle.h"

typedef struct {
  int rank;
  RengaRectangle part;
  const RengaPersistent *mine; /* lent; NULL: another rank's */
} RengaHolding;
typedef struct {
  const char *name;
  RengaTensorSpec spec;
  bool state;
  int first, count; /* its rows, in order of their first elements */
} RengaHeldTensor;
typedef struct {
  RengaComm comm;
  MPI_Comm ranks; /* of comm */
  int n_tensors, n_rows;
  RengaHeldTensor *tensor; /* [n_tensors] in order of their names */
  RengaHolding *row;       /* [n_rows] */
  char *names;
} RengaHoldings;
/* Collective. Only the tensor of this name, or NULL: all. An error on all ranks where the owned
   parts are not the whole tensor, each element once. The list is lent. */
RengaErrorCode RengaHoldingsCreate(RengaComm comm, int count, const RengaPersistent list[],
                                   const char *only, RengaHoldings *holdings);
void RengaHoldingsFree(RengaHoldings *holdings);
int RengaHoldingsFind(const RengaHoldings *holdings, const char *name); /* -1: nobody owns it */

/* Tensors are brought together block after block: RENGA_HOLDINGS_BLOCK bytes of the tensor as a
   row-major vector, the last one of a tensor less. One rank takes a block: the rank that is named,
   or the one that owns most of the block (RENGA_TAKER_OF_BLOCK) or of the tensor
   (RENGA_TAKER_OF_TENSOR). An empty tensor is one block of no bytes. */
enum { RENGA_HOLDINGS_BLOCK = 4 << 20, RENGA_TAKER_OF_BLOCK = -1, RENGA_TAKER_OF_TENSOR = -2 };
typedef struct {
  int taker;
  bool split_only; /* tensors of one owner are left out */
  int *writer;     /* [ranks of comm] of each rank's blocks who takes them; NULL: itself */
  /* On the rank that takes, in order of tensors and blocks: bytes [first, first + bytes) of a
     tensor, on the host. An error ends the taking, not the messages. */
  RengaErrorCode (*take)(void *user, int tensor, int64_t first, int64_t bytes, const void *data);
  void *user;
} RengaBringing;
/* Who takes a block (RENGA_TAKER_OF_BLOCK): block * RENGA_HOLDINGS_BLOCK bytes of the tensor lie
   before it. */
int RengaHoldingsTaker(const RengaHoldings *holdings, int tensor, int64_t block);
/* Bytes of all blocks that this rank takes so; writer: as of RengaBringing. */
int64_t RengaHoldingsCountTaken(const RengaHoldings *holdings, const int *writer);
/* Collective. device NULL: host memory. Fails on the ranks where something failed; lost: messages
   were left under way. */
RengaErrorCode RengaHoldingsBring(const RengaHoldings *holdings, RengaDevice device,
                                  const RengaBringing *bringing, bool *lost);

/* Two copies that are not the same. */
typedef struct {
  int64_t rank, number; /* in the list of its rank */
  uint64_t hash;
} RengaPartCopy;
typedef struct {
  const char *name; /* NULL: all copies are the same; else lent by the holdings */
  RengaPartCopy right, wrong;
} RengaDeparture;
/* Collective: the sum modulo 2^64 of XXH64(bytes of the tensor; seed XXH64(name)), whatever parts
   the ranks have. */
RengaErrorCode RengaHoldingsDigest(const RengaHoldings *holdings, RengaDevice device, int count,
                                   const RengaPersistent list[], uint64_t *digest,
                                   RengaDeparture *departure);
