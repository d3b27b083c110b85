/* Comm: the fixed binary tree over leaves 0 … n-1, as arithmetic on ranges of leaves.

   Node (level, k) covers the leaves of [k 2^level, (k+1) 2^level) that exist and is left + right; a
   node without a right half is its left half. So a piece is known by its first leaf and its number
   of leaves, and two pieces are a node exactly when PiecesMerge says so. Who adds in whatever
   grouping these rules allow gets the same bits. */
#include "sum.h"

/* Where a node that has room for size leaves from first on ends. */
static int64_t NodeEnd(int64_t n_leaves, int64_t first, int64_t size)
{
  return first + size < n_leaves ? first + size : n_leaves;
}

/* left is the whole left half of a node, right the whole right half, as far as there are leaves. */
static bool PiecesMerge(int64_t n_leaves, const RengaPartialSum *left, const RengaPartialSum *right)
{
  int64_t half = left->count, node_end = NodeEnd(n_leaves, left->first, 2 * half);
  return half > 0 && (half & (half - 1)) == 0 && left->first % (2 * half) == 0 &&
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

/* How many partial sums a rank may hold at once. The new leaf counts. At most
   RENGA_COMM_TREE_PIECES. n_leaves: leaves of the whole tree, at least 1. chains: true: a leaf is
   made of several summands, and needs a buffer of its own. false: a leaf whose left neighbour waits
   for it is added to that at once. first, last: numbers of leaves from 0: the rank accumulates
   leaves [first, last), ascending. */
int RengaCommTreeBuffers(int64_t n_leaves, bool chains, int64_t first, int64_t last)
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int count = 0, most = 0;
  for (int64_t leaf = first; leaf < last; leaf++) {
    const RengaPartialSum one = {.first = leaf, .count = 1};
    const bool own = chains || count == 0 || !PiecesMerge(n_leaves, &pieces[count - 1], &one);
    if (count + own > most) most = count + own;
    count = PutLeaf(n_leaves, leaf, count, pieces);
  }
  return most;
}

/* The partial sum that the next summand of a leaf goes to. Summands of a leaf come ascending, and
   RengaCommTreeClose() follows the last. A leaf of one summand whose left neighbour waits for it is
   added to that at once: the same bits, no buffer. n_leaves: leaves of the whole tree, at least 1.
   leaf: the number of the leaf whose summand it is, from 0. pieces: ascending, with room for one
   more, whose buffer is the next one behind them. A leaf of which summands are missing is a piece
   of 0 leaves. at: the number of the piece, from 0. adds: the summand is added to what the piece
   holds; else it is written there. */
RengaErrorCode RengaCommTreeTake(int64_t n_leaves, int64_t leaf, bool alone, int *count,
                                 RengaPartialSum pieces[], int *at, bool *adds)
{
  const RengaPartialSum one = {.first = leaf, .count = 1};
  RengaCheckPointers(count, at, adds);
  int place = *count;
  while (place > 0 && pieces[place - 1].first > leaf) place--;
  const bool open = place > 0 && pieces[place - 1].first == leaf && pieces[place - 1].count == 0;
  *adds = open || (alone && place > 0 && PiecesMerge(n_leaves, &pieces[place - 1], &one));
  *at = *adds ? place - 1 : place;
  if (*adds) return RENGA_SUCCESS;
  void *data = pieces[*count].data;
  for (int i = (*count)++; i > place; i--) pieces[i] = pieces[i - 1];
  pieces[place] = (RengaPartialSum){.first = leaf, .data = data};
  return RENGA_SUCCESS;
}

/* After the last summand of a leaf: add up what has become a whole node. n_leaves: leaves of the
   whole tree, at least 1. at: the number of the piece that RengaCommTreeTake() said, from 0.
   pieces: ascending. */
RengaErrorCode RengaCommTreeClose(int64_t n_leaves, int at, int *count, RengaPartialSum pieces[],
                                  RengaDataType type, int64_t length, const RengaCommAdder *adder)
{
  RengaCheckPointer(count);
  RengaCheck(at >= 0 && at < *count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "piece %d of %d", at,
             *count);
  pieces[at].count++;
  RengaCall(RengaCommTreeMerge(n_leaves, count, pieces, type, length, adder));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddNothing(void *user, RengaDataType type, int64_t count, void *y,
                                 const void *x)
{
  (void)user, (void)type, (void)count, (void)y, (void)x;
  return RENGA_SUCCESS;
}

/* One more summand, taken as a rank takes it. */
static RengaErrorCode CountSummand(int64_t n, int64_t leaf, int64_t number, int *count,
                                   RengaPartialSum pieces[], int *most)
{
  static const RengaCommAdder nothing = {.begin = AddNothing}; /* of elements of any type */
  const int64_t n_leaves = (n + leaf - 1) / leaf, begin = number / leaf * leaf;
  const int64_t end = begin + leaf < n ? begin + leaf : n;
  bool adds;
  int at;
  RengaCall(
      RengaCommTreeTake(n_leaves, number / leaf, end - begin == 1, count, pieces, &at, &adds));
  if (*count > *most) *most = *count;
  if (number + 1 == end)
    RengaCall(RengaCommTreeClose(n_leaves, at, count, pieces, RENGA_FLOAT32, 1, &nothing));
  return RENGA_SUCCESS;
}

/* How many partial sums a rank may hold at once, in any order. n: summands of the whole sum, at
   least 1. leaf: summands that are a leaf of the tree, added up one after the other; at least 1.
   count: summands of this rank, at least 0, in whole leaves. order: [count] the summands, each
   once, as they come; those of a leaf ascending. buffers: the most partial sums at once, at least
   0, leaves that are not whole among them. */
RengaErrorCode RengaCommTreeBuffersInOrder(int64_t n, int64_t leaf, int64_t count,
                                           const int64_t order[], int *buffers)
{
  RengaPartialSum *pieces;
  int held = 0, most = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointers(order, buffers);
  RengaCheck(leaf >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "leaves of %lld", (long long)leaf);
  RengaCall(RengaMalloc(count + 1, &pieces));
  for (int64_t i = 0; i < count && !code; i++)
    code = CountSummand(n, leaf, order[i], &held, pieces, &most);
  RengaFree(&pieces);
  RengaCall(code);
  *buffers = most;
  return RENGA_SUCCESS;
}

/* The tree nodes that a rank holds after all its leaves. Returns their number; 0 where the range is
   empty. n_leaves: leaves of the whole tree, at least 1. first, last: numbers of leaves from 0: the
   rank's leaves are [first, last). pieces: first leaf and number of leaves of each node, ascending;
   data is not touched; at most RENGA_COMM_TREE_PIECES. */
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
static RengaErrorCode MergeAt(int at, int *count, RengaPartialSum pieces[], RengaDataType type,
                              int64_t length, const RengaCommAdder *adder)
{
  void *freed = pieces[at + 1].data;
  RengaCall(adder->begin(adder->user, type, length, pieces[at].data, freed));
  pieces[at].count += pieces[at + 1].count;
  for (int i = at + 1; i < *count - 1; i++) pieces[i] = pieces[i + 1];
  pieces[--*count] = (RengaPartialSum){.data = freed};
  return RENGA_SUCCESS;
}

/* Add up the pieces that have become a whole node of the tree. Leaves may come in any order; in
   ascending order RengaCommTreeBuffers bounds the pieces. What the adder began may be under way
   still. n_leaves: leaves of the whole tree, at least 1. type, length: the type of the vectors, and
   their elements, at least 0. pieces: ascending; the newest leaf stands as a piece of its own. A
   merged sum stays in the buffer of its left piece; buffers that become free stand behind the
   *count pieces. */
RengaErrorCode RengaCommTreeMerge(int64_t n_leaves, int *count, RengaPartialSum pieces[],
                                  RengaDataType type, int64_t length, const RengaCommAdder *adder)
{
  RengaCheckPointers(count, adder);
  for (int at = *count - 2; at >= 0; at--) {
    while (at + 1 < *count && PiecesMerge(n_leaves, &pieces[at], &pieces[at + 1]))
      RengaCall(MergeAt(at, count, pieces, type, length, adder));
  }
  return RENGA_SUCCESS;
}
