/* Comm: the fixed binary tree over leaves 0 … n-1, as arithmetic on ranges of leaves.

   Node (level, k) covers the leaves of [k 2^level, (k+1) 2^level) that exist and is left + right; a
   node without a right half is its left half. So a piece is known by its first leaf and its number
   of leaves, and two pieces are a node exactly when PiecesMerge says so. Who adds in whatever
   grouping these rules allow gets the same bits. */
#include "commimpl.h"
#include "sumtree.h"

/* Where a node that has room for size leaves from first on ends. */
static int64_t NodeEnd(int64_t n_leaves, int64_t first, int64_t size)
{
  return first + size < n_leaves ? first + size : n_leaves;
}

/* left is the whole left half of a node, right the whole right half, as far as there are leaves. */
static bool PiecesMerge(int64_t n_leaves, const RengaPartialSum *left, const RengaPartialSum *right)
{
  int64_t half = left->count, node_end = NodeEnd(n_leaves, left->first, 2 * half);
  return (half & (half - 1)) == 0 && left->first % (2 * half) == 0 &&
         right->first == left->first + half && right->first + right->count == node_end;
}

int RengaCommTreeMerges(int64_t n_leaves, int count, const RengaPartialSum pieces[])
{
  RengaPartialSum right = pieces[count - 1];
  int merges = 0;
  while (merges < count - 1 && PiecesMerge(n_leaves, &pieces[count - 2 - merges], &right)) {
    const RengaPartialSum *left = &pieces[count - 2 - merges++];
    right.first = left->first;
    right.count += left->count;
  }
  return merges;
}

/* As RengaCommTreeMerge with nothing to add: what pieces are left when leaf is put after count. */
static int PutLeaf(int64_t n_leaves, int64_t leaf, int count, RengaPartialSum pieces[])
{
  pieces[count++] = (RengaPartialSum){.first = leaf, .count = 1};
  for (int merges = RengaCommTreeMerges(n_leaves, count, pieces); merges > 0; merges--, count--)
    pieces[count - 2].count += pieces[count - 1].count;
  return count;
}

/*@
   RengaCommTreeBuffers - how many partial sums a rank may hold at once

   Not collective

   Input:
   . n_leaves - leaves of the whole tree
   . first, last - the rank accumulates leaves [first, last), ascending

   Notes: the new leaf counts. At most RENGA_COMM_TREE_PIECES.
@*/
int RengaCommTreeBuffers(int64_t n_leaves, int64_t first, int64_t last)
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int count = 0, most = 0;
  for (int64_t leaf = first; leaf < last; leaf++) {
    if (count + 1 > most) most = count + 1;
    count = PutLeaf(n_leaves, leaf, count, pieces);
  }
  return most;
}

/* Put a leaf between the ranges [first, count]; what has become a node is one range. */
static int64_t PutBetween(int64_t n_leaves, int64_t leaf, int64_t count, RengaPartialSum pieces[])
{
  int64_t at = count++;
  for (; at > 0 && pieces[at - 1].first > leaf; at--) pieces[at] = pieces[at - 1];
  pieces[at] = (RengaPartialSum){.first = leaf, .count = 1};
  for (;;) {
    const bool left = at > 0 && PiecesMerge(n_leaves, &pieces[at - 1], &pieces[at]);
    if (!left && (at + 1 == count || !PiecesMerge(n_leaves, &pieces[at], &pieces[at + 1])))
      return count;
    if (left) at--;
    pieces[at].count += pieces[at + 1].count;
    count--;
    for (int64_t i = at + 1; i < count; i++) pieces[i] = pieces[i + 1];
  }
}

/*@
   RengaCommTreeBuffersInOrder - how many partial sums a rank may hold at once, in any order

   Not collective

   Input:
   . n_leaves - leaves of the whole tree
   . count - leaves of this rank
   . order - [count] the leaves, each once, as they come

   Output:
   . buffers - the most partial sums at once, the new leaf among them
@*/
RengaErrorCode RengaCommTreeBuffersInOrder(int64_t n_leaves, int64_t count, const int64_t order[],
                                           int *buffers)
{
  RengaPartialSum *pieces;
  int64_t held = 0, most = 0;
  RengaCheckPointer(order);
  RengaCheckPointer(buffers);
  RengaCall(RengaMalloc(count + 1, &pieces));
  for (int64_t i = 0; i < count; i++) {
    if (held + 1 > most) most = held + 1;
    held = PutBetween(n_leaves, order[i], held, pieces);
  }
  RengaFree(&pieces);
  *buffers = (int)most;
  return RENGA_SUCCESS;
}

/*@
   RengaCommTreePieces - the tree nodes that a rank holds after all its leaves

   Not collective

   Input:
   . n_leaves - leaves of the whole tree
   . first, last - the rank's leaves are [first, last)

   Output:
   . pieces - first leaf and number of leaves of each node, ascending; data is not touched; at most
     RENGA_COMM_TREE_PIECES

   Notes: returns their number; 0 where the range is empty.
@*/
int RengaCommTreePieces(int64_t n_leaves, int64_t first, int64_t last, RengaPartialSum pieces[])
{
  int count = 0;
  while (first < last) {
    int64_t size = 1;
    while (first + size < n_leaves && first % (2 * size) == 0 &&
           NodeEnd(n_leaves, first, 2 * size) <= last)
      size *= 2;
    pieces[count].first = first;
    pieces[count].count = NodeEnd(n_leaves, first, size) - first;
    first += pieces[count++].count;
  }
  return count;
}

/* Piece at+1 is added to piece at; its buffer goes behind the pieces that are left. */
static RengaErrorCode MergeAt(int at, int *count, RengaPartialSum pieces[], RengaCommAdd add,
                              void *user)
{
  float *freed = pieces[at + 1].data;
  RengaCall(add(user, pieces[at].data, freed));
  pieces[at].count += pieces[at + 1].count;
  for (int i = at + 1; i < *count - 1; i++) pieces[i] = pieces[i + 1];
  pieces[--*count] = (RengaPartialSum){.data = freed};
  return RENGA_SUCCESS;
}

/*@
   RengaCommTreeMerge - add up the pieces that have become a whole node of the tree

   Not collective

   Input:
   . n_leaves - leaves of the whole tree
   . add - called as add(user, y, x): y += x
   . user - handed to add

   Input and output:
   . count - number of pieces
   . pieces - ascending; the newest leaf stands as a piece of its own. A merged sum stays in the
     buffer of its left piece; buffers that become free stand behind the *count pieces

   Notes: leaves may come in any order; in ascending order RengaCommTreeBuffers bounds the pieces.
@*/
RengaErrorCode RengaCommTreeMerge(int64_t n_leaves, int *count, RengaPartialSum pieces[],
                                  RengaCommAdd add, void *user)
{
  RengaCheckPointer(count);
  RengaCheckPointer(add);
  for (int at = *count - 2; at >= 0; at--) {
    while (at + 1 < *count && PiecesMerge(n_leaves, &pieces[at], &pieces[at + 1]))
      RengaCall(MergeAt(at, count, pieces, add, user));
  }
  return RENGA_SUCCESS;
}
