/* Comm: who sends what to whom in a sum by levels: within nodes, between nodes, within nodes.

   Each rank owns a block of the vector. On each other node one rank answers for the block: the
   others of its node give it their pieces, it adds up those that are nodes of the tree together,
   and sends what is left to the owner; so a node sends a sum once, by all its ranks. Some of it
   goes by way of another node, whose rank that answers for the block adds it up to a larger node of
   the tree (sumroutes.c). The owner adds up what the ranks of its own node and those who answer on
   the others gave it; the sum goes back by the same ranks. Where no two ranks share a node, or all
   do, one level is left.

   Groupings follow the rules of tree.c alone, whoever sits where: the bits are those of one
   rank. */
#include "sum.h"
#include <stdlib.h>
#include <string.h>

static int NodeSize(const struct _p_RengaComm *comm, int node)
{
  return comm->node_begin[node + 1] - comm->node_begin[node];
}

/* The rank of a node that answers for a block: the owner on its own. Others' blocks are dealt so
   that each rank of a node gets as many, of each other node: those of a node of as many ranks each
   to the rank with the owner's number, which thus has one peer there, by the same rail of a network
   that has them. */
static int Answers(const struct _p_RengaComm *comm, int node, int block)
{
  const int home = comm->node_of[block], ranks = NodeSize(comm, node);
  const int turn = NodeSize(comm, home) == ranks ? 0 : home;
  if (home == node) return block;
  return comm->by_node[comm->node_begin[node] + (comm->local_of[block] + turn) % ranks];
}

/* Those who answer for a block have messages for each other. */
static bool MeetAcross(const struct _p_RengaComm *comm, int one, int other)
{
  for (int b = 0; b < comm->size; b++)
    if (Answers(comm, comm->node_of[one], b) == one &&
        Answers(comm, comm->node_of[other], b) == other)
      return true;
  return false;
}

/* With whom this rank may have messages of sums and all-gathers. peer: [size - 1] first the `near`
   others of its node, then `far` ranks of other nodes. */
void RengaCommSumListPeers_Private(RengaComm comm, int peer[], int *near, int *far)
{
  *near = *far = 0;
  for (int r = 0; r < comm->size; r++)
    if (comm->node_of[r] == comm->node && r != comm->rank) peer[(*near)++] = r;
  for (int r = 0; r < comm->size; r++)
    if (comm->node_of[r] != comm->node && MeetAcross(comm, comm->rank, r))
      peer[*near + (*far)++] = r;
}

/* Pieces of one node, in ascending order, as they merge. Those behind a gap, which other nodes
   fill, never merge with those before. */
typedef struct {
  int64_t n_leaves;
  bool merges;
  RengaPartialSum stack[RENGA_COMM_TREE_PIECES];
  int depth, left;
  RengaPartialSum *out; /* all that is left; NULL: it is counted only */
} Merger;

static void FlushMerger(Merger *merger)
{
  if (merger->out)
    memcpy(merger->out + merger->left, merger->stack,
           (size_t)merger->depth * sizeof *merger->stack);
  merger->left += merger->depth;
  merger->depth = 0;
}

/* Returns how many merges follow the piece. */
static int PutPiece(Merger *merger, const RengaPartialSum *piece)
{
  const RengaPartialSum *top = merger->depth > 0 ? &merger->stack[merger->depth - 1] : NULL;
  if (top && (!merger->merges || top->first + top->count != piece->first)) FlushMerger(merger);
  merger->stack[merger->depth++] = *piece;
  const int merges = RengaCommTreeMerges(merger->n_leaves, merger->depth, merger->stack);
  for (int m = 0; m < merges; m++, merger->depth--)
    merger->stack[merger->depth - 2].count += merger->stack[merger->depth - 1].count;
  return merges;
}

static int PiecesOf(const SumLeaves *leaves, int rank, RengaPartialSum pieces[])
{
  const int64_t *bounds = leaves->bounds;
  return bounds ? RengaCommTreePieces(leaves->n, bounds[rank], bounds[rank + 1], pieces) : 0;
}

/* What the ranks of a node have of the tree. */
typedef struct {
  int all, merged, least, most; /* pieces of all, what is left of them, pieces of a rank */
} NodePieces;

static NodePieces CountNode(const struct _p_RengaComm *comm, const SumLeaves *leaves, int node)
{
  Merger merger = {.n_leaves = leaves->n, .merges = leaves->merge};
  NodePieces pieces = {.least = RENGA_COMM_TREE_PIECES};
  for (int i = comm->node_begin[node]; i < comm->node_begin[node + 1]; i++) {
    RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
    const int own = PiecesOf(leaves, comm->by_node[i], piece);
    for (int p = 0; p < own; p++) PutPiece(&merger, &piece[p]);
    pieces.all += own;
    if (own < pieces.least) pieces.least = own;
    if (own > pieces.most) pieces.most = own;
  }
  FlushMerger(&merger);
  pieces.merged = merger.left;
  return pieces;
}

/* The most blocks that a rank of the node answers for. */
static int64_t CountTargets(const struct _p_RengaComm *comm, int node)
{
  const int own = NodeSize(comm, node);
  int64_t count = 1;
  for (int n = 0; n < comm->nodes; n++)
    if (n != node) count += (NodeSize(comm, n) + own - 1) / own;
  return count;
}

static int64_t TheMore(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* The node that the partial sum of another goes to. relay: the one that adds it up, or NULL */
static int NextNode(const struct _p_RengaComm *comm, const SumRoutes *routes, int block, int s,
                    const SumRelay **relay)
{
  *relay = NULL;
  for (int r = routes ? routes->first[block] : 0; routes && r < routes->first[block + 1]; r++)
    if (routes->relay[r].begin <= s && s < routes->relay[r].end) *relay = &routes->relay[r];
  return *relay ? (*relay)->node : comm->node_of[block];
}

/* The most that a rank receives of other nodes, as owner and relay; no fewer than without relays,
   of which memory was counted. */
static RengaErrorCode CountAcross(const struct _p_RengaComm *comm, const SumRoutes *routes,
                                  int n_crossing, const SumCrossing crossing[], SumCounts *counts)
{
  int64_t *received, most = counts->across;
  const SumRelay *relay;
  RengaCall(RengaMalloc(comm->size, &received));
  for (int b = 0; b < comm->size; b++) {
    received[b] += routes->first[b + 1] - routes->first[b];
    for (int s = 0; s < n_crossing; s++) {
      const int node = NextNode(comm, routes, b, s, &relay);
      if (node != crossing[s].node) received[Answers(comm, node, b)]++;
    }
  }
  for (int r = 0; r < comm->size; r++) most = TheMore(most, received[r]);
  RengaFree(&received);
  counts->units += most - counts->across;
  counts->across = most;
  return RENGA_SUCCESS;
}

/* The same on all ranks, but for own, node and merged. */
void RengaCommSumCount(RengaComm comm, const SumLeaves *leaves, SumCounts *counts)
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  int64_t least = INT64_MAX;
  *counts = (SumCounts){.own = PiecesOf(leaves, comm->rank, piece)};
  for (int n = 0; n < comm->nodes; n++) {
    const NodePieces pieces = CountNode(comm, leaves, n);
    const int64_t targets = CountTargets(comm, n);
    counts->targets = TheMore(counts->targets, targets);
    counts->units = TheMore(counts->units, targets * (pieces.all - pieces.least));
    counts->shown = TheMore(counts->shown, (int64_t)(comm->size - 1) * pieces.most);
    counts->all_merged += pieces.merged;
    if (pieces.merged < least) least = pieces.merged;
    if (n != comm->node) continue;
    counts->node = pieces.all;
    counts->merged = pieces.merged;
  }
  if (comm->nodes > 1) counts->across = counts->all_merged - least;
  counts->units += counts->across;
}

/* A block goes to one node, and from there to some others: a bit for each. */
typedef struct {
  int node;
  uint64_t to; /* 0: none */
} SumPassed;
enum { PASSED_MOST = 64 }; /* nodes */

/* Owners on nodes with more ranks than others have more blocks to give to all nodes. */
static bool MayPass(const struct _p_RengaComm *comm)
{
  bool even = true;
  for (int k = 1; k < comm->nodes; k++)
    even = even && comm->node_begin[k + 1] - comm->node_begin[k] == comm->node_begin[1];
  return !even && comm->nodes > 2 && comm->nodes <= PASSED_MOST;
}

/* The node that has most to spare. */
static int ChoosePasser(const struct _p_RengaComm *comm, int owner, const int64_t spare[])
{
  int most = -1;
  for (int k = 0; k < comm->nodes; k++)
    if (k != owner && (most < 0 || spare[k] > spare[most])) most = k;
  return most;
}

/* One more node gets the block by way of another, if that sends no more than the owner's then. */
static bool PassOn(const struct _p_RengaComm *comm, int block, int64_t length, int64_t spare[],
                   SumPassed *passed)
{
  const int owner = comm->node_of[block];
  const int by = passed->to ? passed->node : ChoosePasser(comm, owner, spare);
  int to = 0;
  while (to < comm->nodes && (to == owner || to == by || passed->to >> to & 1)) to++;
  if (length == 0 || to == comm->nodes || spare[owner] + length > spare[by] - length) return false;
  passed->node = by;
  passed->to |= 1ULL << to;
  spare[owner] += length;
  spare[by] -= length;
  return true;
}

/* Of an all-gather: a node that has more than its part of the vector gives some blocks to one node
   alone, which passes them on. So each sends V (N - 1) / N or a block more, or its own blocks once
   where that is more. bounds: [size + 1] of blocks; passed: [size], zeros */
static void RouteGather(const struct _p_RengaComm *comm, const int64_t bounds[], SumPassed passed[])
{
  int64_t spare[PASSED_MOST] = {0};
  for (int b = 0; b < comm->size; b++)
    spare[comm->node_of[b]] -= (comm->nodes - 1) * (bounds[b + 1] - bounds[b]);
  for (bool moved = true; moved;) {
    moved = false;
    for (int b = 0; b < comm->size; b++)
      if (PassOn(comm, b, bounds[b + 1] - bounds[b], spare, &passed[b])) moved = true;
  }
}

/* Messages of a round of each group, or more. Returns the places that all of them take. */
int RengaCommSumPlaces(RengaComm comm, const SumCounts *counts, int n_group[])
{
  const int targets = (int)counts->targets, others = comm->local_size - 1;
  const int n[SUM_GROUPS] = {[SUM_NODE_PIECE_IN] = targets * (counts->node - counts->own),
                             [SUM_NODE_PIECE_OUT] = others > 0 ? (comm->size - 1) * counts->own : 0,
                             [SUM_PIECE_IN] = comm->nodes > 1 ? counts->all_merged : 0,
                             [SUM_PIECE_OUT] = comm->nodes > 1 ? targets * counts->merged : 0,
                             [SUM_RELAY_IN] = comm->nodes > 1,
                             [SUM_RELAY_OUT] = comm->nodes > 1,
                             [SUM_BLOCK_IN] = targets,
                             [SUM_BLOCK_OUT] = comm->nodes,
                             [SUM_PASSED_IN] = MayPass(comm) ? targets : 0,
                             [SUM_PASSED_OUT] = MayPass(comm) ? targets * (comm->nodes - 2) : 0,
                             [SUM_NODE_BLOCK_IN] = others > 0 ? comm->size - 1 : 0,
                             [SUM_NODE_BLOCK_OUT] = targets * others};
  int places = 0;
  for (int g = 0; g < SUM_GROUPS; g++) {
    n_group[g] = SUM_ROUNDS * n[g] < SUM_FLIGHT ? SUM_ROUNDS * n[g] : SUM_FLIGHT;
    places += n_group[g];
  }
  return places;
}

/* While the lists are made. */
typedef struct {
  RengaCommSum sum;
  RengaComm comm;
  const SumLeaves *leaves;
  const SumCounts *counts;
  int *answer;             /* [size] of each block the local rank here that answers for it */
  SumCrossing *across;     /* [n_across] what nodes have left, ascending */
  int n_across, *received; /* [n_targets * n_across] number of the memory that receives it */
  int n_units;
  SumPassed *passed; /* [size] of an all-gather, or NULL */
} Levels;

static RengaErrorCode Append(SumGroup *group, int peer, int block, int from)
{
  if ((group->n & (group->n - 1)) == 0)
    RengaCall(RengaRealloc(group->n > 0 ? 2 * group->n : 1, &group->message));
  group->message[group->n++] = (SumMessage){peer, block, from};
  return RENGA_SUCCESS;
}

/* The blocks that this rank answers for. */
static RengaErrorCode ListTargets(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  RengaCall(RengaMalloc(l->counts->targets, &levels->target));
  for (int b = 0; b < comm->size; b++) {
    l->answer[b] = comm->local_of[Answers(comm, comm->node, b)];
    if (b == comm->rank) levels->own_target = levels->n_targets;
    if (l->answer[b] == comm->local_rank) levels->target[levels->n_targets++] = b;
  }
  return RENGA_SUCCESS;
}

/* The pieces of this node's ranks. */
static void ListNodePieces(const Levels *l, RengaPartialSum mine[])
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  Merger merger = {.n_leaves = l->leaves->n, .merges = l->leaves->merge};
  for (int i = comm->node_begin[comm->node]; i < comm->node_begin[comm->node + 1]; i++) {
    RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
    const int own = PiecesOf(l->leaves, comm->by_node[i], piece);
    for (int p = 0; p < own; p++) {
      const bool is_own = comm->by_node[i] == comm->rank;
      mine[levels->n_node] = piece[p];
      levels->node_piece[levels->n_node++] =
          (SumPiece){is_own ? -1 - p : levels->n_foreign++, PutPiece(&merger, &piece[p])};
    }
  }
  FlushMerger(&merger);
  levels->n_merged = merger.left;
}

typedef struct {
  RengaPartialSum sum;
  int source;
} Sourced;

/* Of Sourced and SumCrossing, which begin with a partial sum, too. */
static int ComparePieces(const void *a, const void *b)
{
  const RengaPartialSum *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

RengaErrorCode RengaCommSumListCrossing(RengaComm comm, const SumLeaves *leaves, int *n,
                                        SumCrossing **crossing)
{
  RengaPartialSum *left = NULL;
  SumCrossing *all = NULL;
  int count = 0, most = 0;
  for (int r = 0; r < comm->size; r++) {
    RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
    most += PiecesOf(leaves, r, piece);
  }
  RengaCall(RengaMalloc(most, &left));
  const RengaErrorCode code = RengaMalloc(most, &all);
  for (int k = 0; k < comm->nodes && !code; k++) {
    Merger merger = {.n_leaves = leaves->n, .merges = leaves->merge, .out = left};
    for (int i = comm->node_begin[k]; i < comm->node_begin[k + 1]; i++) {
      RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
      const int own = PiecesOf(leaves, comm->by_node[i], piece);
      for (int p = 0; p < own; p++) PutPiece(&merger, &piece[p]);
    }
    FlushMerger(&merger);
    for (int j = 0; j < merger.left; j++) all[count++] = (SumCrossing){left[j], k, j};
  }
  RengaFree(&left);
  RengaCall(code);
  qsort(all, (size_t)count, sizeof *all, ComparePieces);
  *crossing = all;
  *n = count;
  return RENGA_SUCCESS;
}

/* The memory that receives the sum of a relay of the own block. */
static int ReceivedRelay(const Levels *l, const SumRelay *relay)
{
  const SumRoutes *routes = l->leaves->routes;
  return l->n_units - (routes->first[l->comm->rank + 1] - (int)(relay - routes->relay));
}

/* Where partial sums of other nodes are received; those of relays last. */
static RengaErrorCode NumberReceived(Levels *l)
{
  const SumRoutes *routes = l->leaves->routes;
  SumLevels *levels = l->sum->levels;
  const SumRelay *relay;
  RengaCall(RengaMalloc((int64_t)levels->n_targets * l->n_across, &l->received));
  l->n_units = levels->n_targets * levels->n_foreign;
  for (int t = 0; t < levels->n_targets; t++)
    for (int s = 0; s < l->n_across; s++)
      if (NextNode(l->comm, routes, levels->target[t], s, &relay) == l->comm->node &&
          l->across[s].node != l->comm->node)
        l->received[t * l->n_across + s] = l->n_units++;
  if (routes) l->n_units += routes->first[l->comm->rank + 1] - routes->first[l->comm->rank];
  RengaCheck(l->n_units <= levels->n_targets * levels->n_foreign + l->counts->across, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "%d partial sums of other nodes come, not %lld", l->n_units,
             (long long)l->counts->across);
  return RENGA_SUCCESS;
}

/* What the sum of the own block is made of, in ascending order. */
static RengaErrorCode ListPieces(const Levels *l, const RengaPartialSum mine[], Sourced all[])
{
  SumLevels *levels = l->sum->levels;
  const int first = levels->own_target * levels->n_foreign;
  const SumRelay *relay;
  int n = 0;
  for (int s = 0; s < l->n_across; s++) {
    const SumCrossing *piece = &l->across[s];
    const int node = NextNode(l->comm, l->leaves->routes, l->comm->rank, s, &relay);
    RengaPartialSum sum = piece->sum;
    if (relay && piece->node == l->comm->node) levels->away = true;
    if (relay && relay->begin < s) continue;
    for (int q = s + 1; relay && q < relay->end; q++) sum.count += l->across[q].sum.count;
    if (relay)
      all[n++] = (Sourced){sum, ReceivedRelay(l, relay)};
    else if (piece->node != node)
      all[n++] = (Sourced){sum, l->received[levels->own_target * l->n_across + s]};
  }
  for (int p = 0; p < levels->n_node && !levels->away; p++) {
    const int source = levels->node_piece[p].source;
    all[n++] = (Sourced){mine[p], source < 0 ? source : first + source};
  }
  qsort(all, (size_t)n, sizeof *all, ComparePieces);
  const bool folds = l->sum->folder.take != NULL;
  Merger merger = {.n_leaves = l->leaves->n, .merges = !folds};
  for (int p = 0; p < n; p++)
    levels->piece[p] = (SumPiece){all[p].source, PutPiece(&merger, &all[p].sum)};
  levels->n_pieces = n;
  FlushMerger(&merger);
  RengaCheck(folds || merger.left == 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%d pieces are left over", merger.left);
  return RENGA_SUCCESS;
}

/* What this rank adds up of target t for its owner. */
static void AddRelayOf(const Levels *l, int t, const SumRelay *route, int *n)
{
  SumLevels *levels = l->sum->levels;
  SumRelayed *relay = &levels->relay[levels->n_relays++];
  Merger merger = {.n_leaves = l->leaves->n, .merges = true};
  relay->begin = *n;
  for (int s = route->begin; s < route->end; s++) {
    const SumCrossing *piece = &l->across[s];
    const int source = piece->node == l->comm->node ? -1 - (t * levels->n_merged + piece->number)
                                                    : l->received[t * l->n_across + s];
    levels->relay_piece[(*n)++] = (SumPiece){source, PutPiece(&merger, &piece->sum)};
  }
  relay->end = *n;
}

static RengaErrorCode ListRelayed(const Levels *l)
{
  const SumRoutes *routes = l->leaves->routes;
  SumLevels *levels = l->sum->levels;
  int n = 0;
  if (!routes) return RENGA_SUCCESS;
  RengaCall(RengaMalloc((int64_t)levels->n_targets * SUM_RELAYS, &levels->relay));
  RengaCall(RengaMalloc((int64_t)levels->n_targets * l->n_across, &levels->relay_piece));
  for (int t = 0; t < levels->n_targets; t++)
    for (int r = routes->first[levels->target[t]]; r < routes->first[levels->target[t] + 1]; r++)
      if (routes->relay[r].node == l->comm->node) AddRelayOf(l, t, &routes->relay[r], &n);
  RengaCall(RengaMalloc(SUM_ROUNDS * levels->n_relays, &l->sum->memory->relayed));
  return RENGA_SUCCESS;
}

/* What the ranks of this node show each other in shared memory: a rank its pieces of the blocks
   that others answer for, block after block, then the sums of its targets. */
static void ListShown(const Levels *l, int below[])
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  SumShown *shown = levels->shown;
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int *ranks = comm->by_node + comm->node_begin[comm->node];
  for (int b = 0; b < comm->size; b++) { /* below: targets so far of each rank of the node */
    for (int q = 0; l->answer[b] == comm->local_rank && q < comm->local_size; q++) {
      const int own = q == comm->local_rank ? 0 : PiecesOf(l->leaves, ranks[q], piece);
      const int before = l->sum->direct ? 0 : (b - below[q]) * own;
      for (int i = 0; i < own; i++) *shown++ = (SumShown){q, before + i};
    }
    levels->block[b] = (SumShown){l->answer[b], below[l->answer[b]]++};
  }
  for (int q = 0; q < comm->local_size; q++)
    levels->n_shown[q] = (comm->size - below[q]) * PiecesOf(l->leaves, ranks[q], piece);
}

static RengaErrorCode SetUpShown(const Levels *l)
{
  SumLevels *levels = l->sum->levels;
  int *below;
  RengaCall(RengaMalloc((int64_t)levels->n_targets * levels->n_foreign, &levels->shown));
  RengaCall(RengaMalloc(l->comm->local_size, &levels->n_shown));
  RengaCall(RengaMalloc(l->comm->size, &levels->block));
  RengaCall(RengaMalloc(l->comm->local_size, &below));
  ListShown(l, below);
  RengaFree(&below);
  return RENGA_SUCCESS;
}

/* The rank of this node that is so many places behind this one. */
static int Neighbour(const struct _p_RengaComm *comm, int step)
{
  return comm->by_node[comm->node_begin[comm->node] +
                       (comm->local_rank + step + comm->local_size) % comm->local_size];
}

static int NodeBehind(const struct _p_RengaComm *comm, int step)
{
  return (comm->node + step + comm->nodes) % comm->nodes;
}

/* Peers are taken in turn from the next one on, so that not all ranks begin with the same. */
static RengaErrorCode SendPiecesInNode(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumGroup *group = &l->sum->levels->group[SUM_NODE_PIECE_OUT];
  for (int step = 1; step < comm->local_size; step++) {
    const int peer = Neighbour(comm, step);
    for (int b = 0; b < comm->size; b++)
      for (int i = 0; l->answer[b] == comm->local_of[peer] && i < l->counts->own; i++)
        RengaCall(Append(group, peer, b, i));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceivePiecesInNode(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  SumGroup *group = &levels->group[SUM_NODE_PIECE_IN];
  for (int step = 1; step < comm->local_size; step++) {
    RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
    const int peer = Neighbour(comm, -step), own = PiecesOf(l->leaves, peer, piece);
    int before = 0; /* pieces of foreign ranks of the node below the peer */
    for (int q = 0; q < comm->local_of[peer]; q++)
      if (q != comm->local_rank)
        before += PiecesOf(l->leaves, comm->by_node[comm->node_begin[comm->node] + q], piece);
    for (int t = 0; t < levels->n_targets; t++)
      for (int i = 0; i < own; i++)
        RengaCall(Append(group, peer, levels->target[t], t * levels->n_foreign + before + i));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListPieceMessages(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  SumGroup *group = levels->group;
  const SumRelay *relay;
  for (int step = 1; step < comm->nodes; step++) {
    const int to = NodeBehind(comm, step), from = NodeBehind(comm, -step);
    for (int t = 0; t < levels->n_targets; t++)
      for (int s = 0; s < l->n_across; s++) {
        const int block = levels->target[t],
                  next = NextNode(comm, l->leaves->routes, block, s, &relay);
        const SumCrossing *piece = &l->across[s];
        if (piece->node == comm->node && next == to)
          RengaCall(Append(&group[SUM_PIECE_OUT], Answers(l->comm, to, block), block,
                           t * levels->n_merged + piece->number));
        if (piece->node == from && next == comm->node)
          RengaCall(Append(&group[SUM_PIECE_IN], Answers(l->comm, from, block), block,
                           l->received[t * l->n_across + s]));
      }
  }
  return RENGA_SUCCESS;
}

/* Of the relays of target t, in the order of the tree. A relay of the whole tree has the sum. */
static RengaErrorCode ListRelayMessages(const Levels *l)
{
  const SumRoutes *routes = l->leaves->routes;
  SumGroup *group = l->sum->levels->group;
  int number = 0;
  for (int t = 0; routes && t < l->sum->levels->n_targets; t++) {
    const int block = l->sum->levels->target[t];
    for (const SumRelay *r = routes->relay + routes->first[block];
         r < routes->relay + routes->first[block + 1]; r++) {
      if (block == l->comm->rank)
        RengaCall(Append(&group[SUM_RELAY_IN], Answers(l->comm, r->node, block), block,
                         ReceivedRelay(l, r)));
      if (r->node != l->comm->node) continue;
      RengaCall(Append(&group[SUM_RELAY_OUT], block, block, number));
      if (l->sum->gathers && r->end - r->begin == l->n_across) {
        RengaCall(Append(&group[SUM_BLOCK_OUT], l->comm->rank, block, 1 + number));
        RengaCall(Append(&group[SUM_BLOCK_IN], l->comm->rank, block, 0));
      }
      number++;
    }
  }
  return RENGA_SUCCESS;
}

/* The node that has added up a block that another owns; -1: none. */
static int NodeOfSum(const Levels *l, int block)
{
  const SumRoutes *routes = l->leaves->routes;
  if (!routes || routes->first[block] == routes->first[block + 1]) return -1;
  const SumRelay *relay = &routes->relay[routes->first[block]];
  return relay->end - relay->begin == l->n_across ? relay->node : -1;
}

static bool IsPassedTo(const Levels *l, int block, int node)
{
  return l->passed && (l->passed[block].to >> node & 1);
}

/* Blocks that came from their owners, or come from a node that has them. */
static RengaErrorCode ListPassedMessages(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  for (int step = 1; l->passed && step < comm->nodes; step++) {
    const int to = NodeBehind(comm, step), from = NodeBehind(comm, -step);
    for (int t = 0; t < levels->n_targets; t++) {
      const int block = levels->target[t], by = l->passed[block].node;
      if (by == comm->node && IsPassedTo(l, block, to))
        RengaCall(Append(&levels->group[SUM_PASSED_OUT], Answers(comm, to, block), block, 0));
      if (by == from && IsPassedTo(l, block, comm->node))
        RengaCall(Append(&levels->group[SUM_PASSED_IN], Answers(comm, from, block), block, 0));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListBlockMessages(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  SumGroup *in = &levels->group[SUM_BLOCK_IN], *out = &levels->group[SUM_BLOCK_OUT];
  if (levels->itself) RengaCall(Append(in, comm->rank, comm->rank, 0));
  if (levels->itself) RengaCall(Append(out, comm->rank, comm->rank, 0));
  for (int step = 1; l->sum->gathers && step < comm->nodes; step++) {
    const int to = NodeBehind(comm, step), from = NodeBehind(comm, -step);
    if (NodeOfSum(l, comm->rank) != to && !IsPassedTo(l, comm->rank, to))
      RengaCall(Append(out, Answers(comm, to, comm->rank), comm->rank, 0));
    for (int t = 0; t < levels->n_targets; t++) {
      const int block = levels->target[t];
      if (comm->node_of[block] == from && NodeOfSum(l, block) != comm->node &&
          !IsPassedTo(l, block, comm->node))
        RengaCall(Append(in, block, block, 0));
    }
  }
  RengaCall(ListPassedMessages(l));
  return RENGA_SUCCESS;
}

static RengaErrorCode ListBlocksInNode(const Levels *l)
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  for (int step = 1; step < comm->local_size; step++) {
    const int to = Neighbour(comm, step), from = Neighbour(comm, -step);
    for (int t = 0; t < levels->n_targets; t++)
      RengaCall(Append(&levels->group[SUM_NODE_BLOCK_OUT], to, levels->target[t], 0));
    for (int b = 0; b < comm->size; b++)
      if (l->answer[b] == comm->local_of[from])
        RengaCall(Append(&levels->group[SUM_NODE_BLOCK_IN], from, b, 0));
  }
  return RENGA_SUCCESS;
}

/* The sum grows in result: from the first own piece where that lies there, else from the first
   piece of another rank. */
static RengaErrorCode ChooseHome(RengaCommSum sum)
{
  SumLevels *levels = sum->levels;
  const int rank = sum->comm->rank;
  const bool empty = sum->gathers ? sum->bounds[sum->comm->size] == 0 /* all may lie anywhere */
                                  : sum->bounds[rank] == sum->bounds[rank + 1];
  if (sum->folder.take) return RENGA_SUCCESS;
  for (int i = 0; i < sum->memory->n_own; i++) {
    RengaCheck(sum->memory->own[i] != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "piece %d has no data", i);
    RengaCheck(i == 0 || empty || sum->memory->own[i] != sum->result, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "the result is piece %d: it may be the first one, or none", i);
  }
  const bool in_place = sum->memory->n_own > 0 && sum->memory->own[0] == sum->result;
  for (int p = levels->n_pieces - 1; p >= 0; p--)
    if (in_place ? levels->piece[p].source == -1 : levels->piece[p].source >= 0) levels->home = p;
  levels->itself = levels->home < 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPieces(Levels *l)
{
  SumLevels *levels = l->sum->levels;
  const int64_t node = l->counts->node, all = node + l->counts->all_merged;
  RengaPartialSum *mine = NULL;
  Sourced *sourced = NULL;
  RengaCall(RengaMalloc(node, &levels->node_piece));
  RengaCall(RengaMalloc(all, &levels->piece));
  RengaErrorCode code = RengaMalloc(node, &mine);
  if (!code) code = RengaMalloc(all, &sourced);
  if (!code) ListNodePieces(l, mine);
  if (!code) code = NumberReceived(l);
  if (!code) code = ListPieces(l, mine, sourced);
  if (!code) code = ListRelayed(l);
  RengaFree(&mine);
  RengaFree(&sourced);
  RengaCall(code);
  RengaCall(ChooseHome(l->sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeLevels(Levels *l)
{
  SumLevels *levels = l->sum->levels;
  const bool messages = l->sum->shared == NULL; /* within nodes */
  RengaCall(RengaMalloc(l->comm->size, &l->answer));
  if (!l->sum->reduces && MayPass(l->comm)) {
    RengaCall(RengaMalloc(l->comm->size, &l->passed));
    RouteGather(l->comm, l->sum->bounds, l->passed);
  }
  RengaCall(ListTargets(l));
  if (l->sum->reduces) RengaCall(SetUpPieces(l));
  if (!messages) RengaCall(SetUpShown(l));
  if (l->sum->reduces && messages) RengaCall(SendPiecesInNode(l));
  if (l->sum->reduces && messages) RengaCall(ReceivePiecesInNode(l));
  if (l->sum->reduces) RengaCall(ListPieceMessages(l));
  if (l->sum->reduces) RengaCall(ListRelayMessages(l));
  RengaCall(ListBlockMessages(l));
  if (l->sum->gathers && messages) RengaCall(ListBlocksInNode(l));
  int n_group[SUM_GROUPS], place = 0;
  RengaCommSumPlaces(l->comm, l->counts, n_group);
  for (int g = 0; g < SUM_GROUPS; place += n_group[g++]) {
    levels->group[g].first_place = place;
    levels->group[g].n_places = n_group[g];
  }
  return RENGA_SUCCESS;
}

/* With relays, whose partial sums are those of the leaves as they merge. */
RengaErrorCode RengaCommSumCountRoutes(RengaComm comm, const SumLeaves *leaves, SumCounts *counts)
{
  SumCrossing *across = NULL;
  int n_across;
  if (!leaves->routes) return RENGA_SUCCESS;
  RengaCall(RengaCommSumListCrossing(comm, leaves, &n_across, &across));
  const RengaErrorCode code = CountAcross(comm, leaves->routes, n_across, across, counts);
  RengaFree(&across);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommSumSetUpLevels(RengaCommSum sum, const SumLeaves *leaves,
                                       const SumCounts *counts)
{
  Levels l = {.sum = sum, .comm = sum->comm, .leaves = leaves, .counts = counts};
  RengaCall(RengaMalloc(1, &sum->levels));
  sum->levels->home = -1;
  RengaErrorCode code = RengaCommSumListCrossing(sum->comm, leaves, &l.n_across, &l.across);
  if (!code) code = MakeLevels(&l);
  RengaFree(&l.answer);
  RengaFree(&l.across);
  RengaFree(&l.received);
  RengaFree(&l.passed);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaCommSumFreeLevels(SumLevels **levels)
{
  if (!*levels) return;
  for (int g = 0; g < SUM_GROUPS; g++) RengaFree(&(*levels)->group[g].message);
  RengaFree(&(*levels)->target);
  RengaFree(&(*levels)->node_piece);
  RengaFree(&(*levels)->piece);
  RengaFree(&(*levels)->relay);
  RengaFree(&(*levels)->relay_piece);
  RengaFree(&(*levels)->shown);
  RengaFree(&(*levels)->n_shown);
  RengaFree(&(*levels)->block);
  RengaFree(levels);
}
