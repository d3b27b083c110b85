/* Comm: who sends what to whom in a sum by levels: within nodes, between nodes, within nodes.

   Each rank owns a block of the vector. On each other node one rank answers for the block: the
   others of its node give it their pieces, it adds up those that are nodes of the tree together,
   and sends what is left to the owner; so a node sends a sum once, by all its ranks. The owner
   adds up what the ranks of its own node and those who answer on the others gave it; the sum goes
   back by the same ranks. Where no two ranks share a node, or all do, one level is left.

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
   that each rank of a node gets as many, of each other node. */
static int Answers(const struct _p_RengaComm *comm, int node, int block)
{
  const int home = comm->node_of[block];
  if (home == node) return block;
  return comm
      ->by_node[comm->node_begin[node] + (comm->local_of[block] + home) % NodeSize(comm, node)];
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

/* Partial sums that a node has for others. */
int RengaCommSumMerged(RengaComm comm, const SumLeaves *leaves, int node)
{
  return CountNode(comm, leaves, node).merged;
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

/* Messages of a round of each group, or more. Returns the places that all of them take. */
int RengaCommSumPlaces(RengaComm comm, const SumCounts *counts, int n_group[])
{
  const int targets = (int)counts->targets, others = comm->local_size - 1;
  const int n[SUM_GROUPS] = {[SUM_NODE_PIECE_IN] = targets * (counts->node - counts->own),
                             [SUM_NODE_PIECE_OUT] = others > 0 ? (comm->size - 1) * counts->own : 0,
                             [SUM_PIECE_IN] = counts->all_merged - counts->merged,
                             [SUM_PIECE_OUT] = (targets - 1) * counts->merged,
                             [SUM_BLOCK_IN] = targets,
                             [SUM_BLOCK_OUT] = comm->nodes,
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
  RengaPartialSum *across; /* [all_merged] what nodes have left, node after node */
  int *across_begin;       /* [nodes + 1] */
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

/* The pieces of this node's ranks, and what is left of those of all nodes. */
static RengaErrorCode ListNodePieces(const Levels *l, RengaPartialSum mine[])
{
  const struct _p_RengaComm *comm = l->comm;
  SumLevels *levels = l->sum->levels;
  for (int n = 0; n < comm->nodes; n++) {
    Merger merger = {.n_leaves = l->leaves->n,
                     .merges = l->leaves->merge,
                     .out = l->across + l->across_begin[n]};
    for (int i = comm->node_begin[n]; i < comm->node_begin[n + 1]; i++) {
      RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
      const int own = PiecesOf(l->leaves, comm->by_node[i], piece);
      for (int p = 0; p < own; p++) {
        const int merges = PutPiece(&merger, &piece[p]);
        if (n != comm->node) continue;
        const bool is_own = comm->by_node[i] == comm->rank;
        mine[levels->n_node] = piece[p];
        levels->node_piece[levels->n_node++] =
            (SumPiece){is_own ? -1 - p : levels->n_foreign++, merges};
      }
    }
    FlushMerger(&merger);
    l->across_begin[n + 1] = l->across_begin[n] + merger.left;
  }
  levels->n_merged = l->across_begin[comm->node + 1] - l->across_begin[comm->node];
  return RENGA_SUCCESS;
}

typedef struct {
  RengaPartialSum sum;
  int source;
} Sourced;

/* Of Sourced, which begin with a partial sum, too. */
static int ComparePieces(const void *a, const void *b)
{
  const RengaPartialSum *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

/*@
   RengaCommFoldPieces - the pieces that a folder is given on this rank

   Not collective

   Input:
   . comm - the ranks
   . n_leaves, leaves - the number of leaves, from 1, and [ranks + 1] where each rank's begin
   . merges - whether pieces of one node are added up before they leave it

   Output:
   . pieces - first leaf and number of leaves of each, ascending; data is not touched

   Errors: none.

   Notes: returns their number. Those of the ranks of this rank's own node are never added up.

   See also: RengaCommReduceScatterBegin(), RengaCommTreePieces()
@*/
int RengaCommFoldPieces(RengaComm comm, int64_t n_leaves, const int64_t leaves[], bool merges,
                        RengaPartialSum pieces[])
{
  const SumLeaves of = {n_leaves, leaves, merges};
  int count = 0;
  for (int n = 0; n < comm->nodes; n++) {
    Merger merger = {
        .n_leaves = n_leaves, .merges = merges && n != comm->node, .out = pieces + count};
    for (int i = comm->node_begin[n]; i < comm->node_begin[n + 1]; i++) {
      RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
      const int own = PiecesOf(&of, comm->by_node[i], piece);
      for (int p = 0; p < own; p++) PutPiece(&merger, &piece[p]);
    }
    FlushMerger(&merger);
    count += merger.left;
  }
  qsort(pieces, (size_t)count, sizeof *pieces, ComparePieces);
  return count;
}

/* What the sum of the own block is made of, in ascending order. */
static RengaErrorCode ListPieces(const Levels *l, const RengaPartialSum mine[], Sourced all[])
{
  SumLevels *levels = l->sum->levels;
  const int first = levels->own_target * levels->n_foreign;
  const int begin = l->across_begin[l->comm->node], end = l->across_begin[l->comm->node + 1];
  int n = 0, unit = levels->n_targets * levels->n_foreign;
  for (int p = 0; p < levels->n_node; p++) {
    const int source = levels->node_piece[p].source;
    all[n++] = (Sourced){mine[p], source < 0 ? source : first + source};
  }
  for (int p = 0; p < l->across_begin[l->comm->nodes]; p++)
    if (p < begin || p >= end) all[n++] = (Sourced){l->across[p], unit++};
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
  const int foreign = levels->n_targets * levels->n_foreign;
  for (int step = 1; step < comm->nodes; step++) {
    const int to = NodeBehind(comm, step), from = NodeBehind(comm, -step);
    for (int t = 0; t < levels->n_targets; t++)
      for (int j = 0; comm->node_of[levels->target[t]] == to && j < levels->n_merged; j++)
        RengaCall(Append(&levels->group[SUM_PIECE_OUT], levels->target[t], levels->target[t],
                         t * levels->n_merged + j));
    for (int p = l->across_begin[from]; p < l->across_begin[from + 1]; p++)
      RengaCall(Append(&levels->group[SUM_PIECE_IN], Answers(comm, from, comm->rank), comm->rank,
                       foreign + (from < comm->node ? p : p - levels->n_merged)));
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
    RengaCall(Append(out, Answers(comm, to, comm->rank), comm->rank, 0));
    for (int t = 0; t < levels->n_targets; t++)
      if (comm->node_of[levels->target[t]] == from)
        RengaCall(Append(in, levels->target[t], levels->target[t], 0));
  }
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
  const bool empty = sum->bounds[sum->comm->size] == 0; /* then all may lie in one place */
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

static RengaErrorCode SetUpPieces(const Levels *l)
{
  SumLevels *levels = l->sum->levels;
  const int64_t node = l->counts->node, all = node + l->counts->all_merged;
  RengaPartialSum *mine = NULL;
  Sourced *sourced = NULL;
  RengaCall(RengaMalloc(node, &levels->node_piece));
  RengaCall(RengaMalloc(all, &levels->piece));
  RengaErrorCode code = RengaMalloc(node, &mine);
  if (!code) code = RengaMalloc(all, &sourced);
  if (!code) code = ListNodePieces(l, mine);
  if (!code) code = ListPieces(l, mine, sourced);
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
  RengaCall(RengaMalloc(l->counts->all_merged, &l->across));
  RengaCall(RengaMalloc(l->comm->nodes + 1, &l->across_begin));
  RengaCall(ListTargets(l));
  if (l->sum->reduces) RengaCall(SetUpPieces(l));
  if (!messages) RengaCall(SetUpShown(l));
  if (l->sum->reduces && messages) RengaCall(SendPiecesInNode(l));
  if (l->sum->reduces && messages) RengaCall(ReceivePiecesInNode(l));
  if (l->sum->reduces) RengaCall(ListPieceMessages(l));
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

RengaErrorCode RengaCommSumSetUpLevels(RengaCommSum sum, const SumLeaves *leaves,
                                       const SumCounts *counts)
{
  Levels l = {.sum = sum, .comm = sum->comm, .leaves = leaves, .counts = counts};
  RengaCall(RengaMalloc(1, &sum->levels));
  sum->levels->home = -1;
  const RengaErrorCode code = MakeLevels(&l);
  RengaFree(&l.answer);
  RengaFree(&l.across);
  RengaFree(&l.across_begin);
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
  RengaFree(&(*levels)->shown);
  RengaFree(&(*levels)->n_shown);
  RengaFree(&(*levels)->block);
  RengaFree(levels);
}
