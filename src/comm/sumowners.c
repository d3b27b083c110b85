/* Comm: who adds up how much of a sum that all ranks get.

   A node that has k partial sums for the others sends k of each block that another node owns, and
   the sum of each of its own to all others. Where leaves give nodes unequal numbers of partial
   sums, those that have more own more: what the busiest node sends and receives is the least for
   owners that add up whole blocks. Numbers are whole, the same on all ranks. */
#include "sum.h"

enum { WHOLE = 4096, ENOUGH = WHOLE / 32 };

/* Of a node; shares of the vector are in WHOLE parts. */
typedef struct {
  int64_t ranks, pieces, share, least, most;
} NodeShare;

typedef struct {
  NodeShare *owner; /* [nodes] */
  int64_t nodes, pieces;
} NodeShares;

static int64_t LowerOf(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Vectors that a node sends or receives, whichever is more. */
static int64_t Traffic(const NodeShares *owners, const NodeShare *owner)
{
  const int64_t others = WHOLE - owner->share;
  const int64_t out = owner->pieces * others + (owners->nodes - 1) * owner->share;
  const int64_t in = (owners->pieces - owner->pieces) * owner->share + others;
  return out > in ? out : in;
}

/* The shares with which a node has no more traffic. */
static void LimitShare(const NodeShares *owners, int64_t traffic, NodeShare *owner)
{
  const int64_t left = traffic - owner->pieces * WHOLE;
  const int64_t out = owners->nodes - 1 - owner->pieces;
  const int64_t in = owners->pieces - owner->pieces - 1;
  owner->least = 0;
  owner->most = WHOLE;
  if (out > 0) owner->most = left < 0 ? -1 : LowerOf(WHOLE, left / out);
  if (out == 0 && left < 0) owner->most = -1;
  if (out < 0 && left < 0) owner->least = (-left - out - 1) / -out;
  if (in > 0) owner->most = LowerOf(owner->most, (traffic - WHOLE) / in);
}

static bool IsEnough(const NodeShares *owners, int64_t traffic)
{
  int64_t least = 0, most = 0;
  for (int64_t n = 0; n < owners->nodes; n++) {
    NodeShare *owner = &owners->owner[n];
    LimitShare(owners, traffic, owner);
    if (owner->least > owner->most) return false;
    least += owner->least;
    most += owner->most;
  }
  return least <= WHOLE && WHOLE <= most;
}

static int64_t LeastTraffic(const NodeShares *owners)
{
  int64_t low = WHOLE - 1, high = owners->pieces * WHOLE;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (IsEnough(owners, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* As near to what they are as the limits allow. */
static void MoveShares(const NodeShares *owners)
{
  int64_t left = WHOLE;
  for (int64_t n = 0; n < owners->nodes; n++) {
    NodeShare *owner = &owners->owner[n];
    if (owner->share > owner->most) owner->share = owner->most;
    if (owner->share < owner->least) owner->share = owner->least;
    left -= owner->share;
  }
  for (int64_t n = 0; n < owners->nodes && left != 0; n++) {
    NodeShare *owner = &owners->owner[n];
    const int64_t room = left > 0 ? owner->most - owner->share : owner->least - owner->share;
    const int64_t moved = left > 0 ? LowerOf(left, room) : -LowerOf(-left, -room);
    owner->share += moved;
    left -= moved;
  }
}

/* The ranks of a node own as much each; blocks begin at multiples of 64 elements. */
static void SetBounds(RengaCommSum sum, const NodeShares *owners)
{
  const struct _p_RengaComm *comm = sum->comm;
  const int64_t count = sum->bounds[comm->size];
  int64_t all = 0, before = 0;
  for (int r = 0; r < comm->size; r++) {
    const NodeShare *owner = &owners->owner[comm->node_of[r]];
    all += owner->share * WHOLE / owner->ranks;
  }
  if (all == 0) return; /* no rank owns anything */
  for (int r = 0; r < comm->size; r++) {
    const NodeShare *owner = &owners->owner[comm->node_of[r]];
    sum->bounds[r] = before == all ? count : count / all * before + count % all * before / all;
    sum->bounds[r] -= before == all ? 0 : sum->bounds[r] % 64;
    before += owner->share * WHOLE / owner->ranks;
  }
}

/* Sets the bounds of blocks, where others than those of the task are better. */
RengaErrorCode RengaCommSumShareOut(RengaCommSum sum, const SumLeaves *leaves)
{
  const struct _p_RengaComm *comm = sum->comm;
  NodeShares owners = {.nodes = comm->nodes};
  int64_t now = 0, left = WHOLE;
  if (comm->nodes == 1) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(comm->nodes, &owners.owner));
  for (int n = 0; n < comm->nodes; n++) {
    NodeShare *owner = &owners.owner[n];
    owner->ranks = comm->node_begin[n + 1] - comm->node_begin[n];
    owner->pieces = RengaCommSumMerged(sum->comm, leaves, n);
    owner->share = n + 1 < comm->nodes ? WHOLE * owner->ranks / comm->size : left;
    owners.pieces += owner->pieces;
    left -= owner->share;
  }
  for (int n = 0; n < comm->nodes; n++)
    if (Traffic(&owners, &owners.owner[n]) > now) now = Traffic(&owners, &owners.owner[n]);
  const int64_t least = LeastTraffic(&owners);
  if (now > least + ENOUGH) {
    IsEnough(&owners, least);
    MoveShares(&owners);
    SetBounds(sum, &owners);
  }
  RengaFree(&owners.owner);
  return RENGA_SUCCESS;
}
