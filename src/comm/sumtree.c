/* Comm: what a sum by the tree (rengacomm.h) has to exchange, and the memory that it takes. Blocks
   and rounds are counted in elements, memory and messages in bytes.

   Each rank owns a block of the vector. In rounds of at most `chunk` elements each rank sends its
   pieces of every owner's next chunk straight to that owner, who adds all ranks' pieces by the
   tree and sends the sum to all others (exchange.c). With one piece per rank (powers of two) that
   moves what a reduce-scatter and an all-gather move. */
#include "sum.h"
#include <string.h>

/* Bytes. */
enum {
  LEVEL_BYTES = 4096, /* of work memory that are left free per level of the tree */
  ALIGN = 64,         /* chunks begin there; whole elements of any type */
  CHUNK_LARGEST = 1024 * 1024,
  CHUNK_SMALLEST = 16 * 1024, /* wanted even where that takes more than WORK_WANTED */
  WORK_WANTED = 64 * 1024 * 1024,
};

static int64_t Smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Of a chunk that has room for so many elements. */
static int64_t AlignedBytes(int64_t count, RengaDataType type)
{
  return (count * (int64_t)RengaDataTypeSize(type) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Pieces of all ranks, and the largest number that an owner receives of others. */
static int CountPieces(int ranks, int64_t n_leaves, const int64_t leaves[], int *foreign)
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int all = 0, fewest = RENGA_COMM_TREE_PIECES;
  for (int r = 0; r < ranks; r++) {
    int own = RengaCommTreePieces(n_leaves, leaves[r], leaves[r + 1], pieces);
    all += own;
    if (own < fewest) fewest = own;
  }
  *foreign = ranks == 1 ? 0 : all - fewest;
  return all;
}

/* Levels of the tree, its leaves among them. */
static int TreeDepth(int64_t n_leaves)
{
  int depth = 1;
  while (((int64_t)1 << (depth - 1)) < n_leaves) depth++;
  return depth;
}

/*@
   RengaCommTreeWork - how much work memory a sum likes

   Not collective

   Input:
   . ranks - how many of them add up
   . n_leaves - leaves of the whole tree
   . leaves - ranks + 1 numbers: rank r holds leaves [leaves[r], leaves[r+1])
   . type - of the elements
   . count - length of the vectors

   Errors: none.

   Notes: bytes, the same on all ranks; about 64 MiB at most, or 32 KiB per piece of other ranks
   where that is more. Less works too, in more rounds: 128 bytes per piece of other ranks are
   enough. 0 for one rank. A little more than the chunks take is asked for: 4 KiB per level of the
   tree, which forecasts of memory in plans that are kept count.

   See also: RengaCommTreeBuffers(), RengaCommTreePlaces()
@*/
size_t RengaCommTreeWork(int ranks, int64_t n_leaves, const int64_t leaves[], RengaDataType type,
                         int64_t count)
{
  int foreign, n_pieces = CountPieces(ranks, n_leaves, leaves, &foreign);
  if (ranks == 1) return 0;
  int64_t chunk = WORK_WANTED / (SUM_ROUNDS * foreign) / ALIGN * ALIGN;
  if (chunk < CHUNK_SMALLEST) chunk = CHUNK_SMALLEST;
  chunk = Smaller(chunk, CHUNK_LARGEST);
  chunk = Smaller(chunk, AlignedBytes((count + ranks - 1) / ranks, type));
  const size_t free = n_pieces == 1 ? 0 : (size_t)TreeDepth(n_leaves) * LEVEL_BYTES;
  return free + (size_t)chunk * SUM_ROUNDS * (size_t)foreign;
}

/* Messages of all rounds that are in flight; n_group: of each group. */
static int CountPlaces(int ranks, int n_pieces, int n_own, int n_group[])
{
  int count = 0;
  n_group[SUM_PIECE_IN] = n_pieces - n_own;
  n_group[SUM_PIECE_OUT] = n_own * (ranks - 1);
  n_group[SUM_BLOCK_IN] = n_group[SUM_BLOCK_OUT] = ranks;
  for (int g = 0; g < SUM_GROUPS; g++) count += n_group[g];
  return SUM_ROUNDS * count;
}

/* Bytes of a chunk, as the work memory lets it have. */
static int64_t ChunkOfWork(int64_t chunk, int foreign, size_t work_bytes)
{
  const size_t unit = (size_t)SUM_ROUNDS * (size_t)foreign;
  return unit == 0 ? chunk : Smaller(chunk, (int64_t)(work_bytes / unit) / ALIGN * ALIGN);
}

/*@
   RengaCommTreePlaces - how many messages of a sum are under way at once, at the most

   Not collective

   Input:
   . ranks - how many of them add up
   . rank - this one
   . n_leaves - leaves of the whole tree
   . leaves - ranks + 1 numbers: rank r holds leaves [leaves[r], leaves[r+1])
   . work_bytes - work memory of the sum

   Output:
   . bytes - of the longest of them, whatever the type of the elements

   Errors: none.

   Notes: the places and bytes that the reserve of a RengaCommCarrier is asked for, or more.

   See also: RengaCommTreeWork(), RengaCommGatherPlaces()
@*/
int RengaCommTreePlaces(int ranks, int rank, int64_t n_leaves, const int64_t leaves[],
                        size_t work_bytes, size_t *bytes)
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int foreign, n_group[SUM_GROUPS];
  const int n_pieces = CountPieces(ranks, n_leaves, leaves, &foreign);
  const int own = RengaCommTreePieces(n_leaves, leaves[rank], leaves[rank + 1], pieces);
  *bytes = (size_t)ChunkOfWork(CHUNK_LARGEST, foreign, work_bytes);
  return CountPlaces(ranks, n_pieces, own, n_group);
}

/* Elements of the largest block. */
static int64_t LargestBlock(const struct _RengaBlocks *blocks)
{
  int64_t largest = 0;
  for (int r = 0; r < blocks->ranks; r++)
    if (blocks->bounds[r + 1] - blocks->bounds[r] > largest)
      largest = blocks->bounds[r + 1] - blocks->bounds[r];
  return largest;
}

/*@
   RengaCommGatherPlaces - how many messages of an all-gather are under way at once, at the most

   Not collective

   Input:
   . blocks - of the vector
   . type - of its elements

   Output:
   . bytes - of the longest of them

   Errors: none.

   Notes: as of RengaCommTreePlaces.

   See also: RengaCommTreePlaces()
@*/
int RengaCommGatherPlaces(RengaBlocks blocks, RengaDataType type, size_t *bytes)
{
  int n_group[SUM_GROUPS];
  *bytes = (size_t)Smaller(CHUNK_LARGEST, AlignedBytes(LargestBlock(blocks), type));
  return CountPlaces(blocks->ranks, 0, 0, n_group);
}

static RengaErrorCode CheckLeaves(RengaComm comm, const RengaCommSumTask *task)
{
  const int64_t *leaves = task->leaves;
  RengaCheck(leaves, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the task of a sum has no leaves");
  RengaCheck(task->n_leaves > 0 && leaves[0] == 0 && leaves[comm->size] == task->n_leaves,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the bounds run from %lld to %lld, not from 0 to the %lld leaves",
             (long long)leaves[0], (long long)leaves[comm->size], (long long)task->n_leaves);
  for (int r = 0; r < comm->size; r++)
    RengaCheck(leaves[r] <= leaves[r + 1], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "the leaves of rank %d begin at %lld and end at %lld", r, (long long)leaves[r],
               (long long)leaves[r + 1]);
  RengaCheck(task->adder.begin, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "nobody adds the vectors");
  return RENGA_SUCCESS;
}

static RengaErrorCode ListPieces(RengaCommSum sum, const RengaCommSumTask *task)
{
  RengaPartialSum all[RENGA_COMM_TREE_PIECES], stack[RENGA_COMM_TREE_PIECES];
  int depth = 0, n = 0;
  for (int r = 0; r < sum->comm->size; r++) {
    int held = RengaCommTreePieces(task->n_leaves, task->leaves[r], task->leaves[r + 1], all);
    if (r == sum->comm->rank) sum->first_own = n;
    if (r == sum->comm->rank) sum->n_own = held;
    for (int i = 0; i < held; i++, n++) {
      stack[depth++] = all[i];
      int merges = RengaCommTreeMerges(task->n_leaves, depth, stack);
      for (int m = 0; m < merges; m++, depth--) stack[depth - 2].count += stack[depth - 1].count;
      sum->pieces[n] = (SumPiece){.rank = r, .merges = merges};
      if (r == sum->comm->rank) sum->pieces[n].data = task->pieces[i].data;
    }
  }
  RengaCheck(depth == 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d pieces are left over", depth);
  return RENGA_SUCCESS;
}

/* The sum grows in result: from the first own piece where that lies there, else from the first
   piece of another rank. */
static RengaErrorCode ChooseHome(RengaCommSum sum)
{
  const SumPiece *own = sum->pieces + sum->first_own;
  const bool empty = sum->bounds[sum->comm->size] == 0; /* then all may lie in one place */
  if (sum->folder.take) return RENGA_SUCCESS;
  for (int i = 0; i < sum->n_own; i++) {
    RengaCheck(own[i].data != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "piece %d has no data", i);
    RengaCheck(i == 0 || empty || own[i].data != sum->result, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "the result is piece %d: it may be the first one, or none", i);
  }
  if (sum->n_own > 0 && own->data == sum->result)
    sum->home = sum->first_own;
  else if (sum->n_own < sum->n_pieces)
    sum->home = sum->first_own > 0 ? 0 : sum->n_own;
  return RENGA_SUCCESS;
}

/* Cut the work memory: two rounds of received chunks. */
static RengaErrorCode CutWork(RengaCommSum sum, int foreign, void *work, size_t work_bytes)
{
  const size_t needed = (size_t)SUM_ROUNDS * (size_t)foreign * ALIGN;
  RengaCheck(work_bytes >= needed && (work != NULL || needed == 0), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "%zu bytes of work memory are too few: at least %zu are needed",
             work_bytes, needed);
  if (needed == 0) return RENGA_SUCCESS;
  const int64_t bytes = ChunkOfWork(sum->chunk * (int64_t)sum->element, foreign, work_bytes);
  sum->chunk = bytes / (int64_t)sum->element;
  sum->received[0] = work;
  sum->received[1] = sum->received[0] + (size_t)bytes * (size_t)foreign;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPieces(RengaCommSum sum, const RengaCommSumTask *task)
{
  int foreign;
  RengaCall(CheckLeaves(sum->comm, task));
  sum->n_pieces = CountPieces(sum->comm->size, task->n_leaves, task->leaves, &foreign);
  RengaCall(RengaMalloc(sum->n_pieces, &sum->pieces));
  if (sum->folder.take) RengaCall(RengaMalloc(sum->n_pieces, &sum->taken));
  RengaCall(ListPieces(sum, task));
  RengaCall(ChooseHome(sum));
  RengaCall(CutWork(sum, foreign, task->work, task->work_bytes));
  return RENGA_SUCCESS;
}

/* One message for each peer, and one to itself. */
static RengaErrorCode SetUpPlaces(RengaCommSum sum, const RengaCommCarrier *carrier)
{
  sum->n_places = CountPlaces(sum->comm->size, sum->n_pieces, sum->n_own, sum->n_group);
  int at = 0;
  for (int r = 0; r < SUM_ROUNDS; r++)
    for (int g = 0; g < SUM_GROUPS; at += sum->n_group[g++]) sum->group[r][g] = at;
  RengaCall(RengaMalloc(sum->n_places, &sum->open));
  sum->carrier = *carrier;
  if (!carrier->reserve) RengaCall(RengaCommSumUseMPI(sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpBounds(RengaCommSum sum, const struct _RengaBlocks *blocks)
{
  const int size = sum->comm->size;
  RengaCheck(blocks, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the task of a sum has no blocks");
  RengaCheck(blocks->ranks == size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "blocks for %d ranks, and %d add up", blocks->ranks, size);
  RengaCall(RengaMalloc(size + 1, &sum->bounds));
  memcpy(sum->bounds, blocks->bounds, (size_t)(size + 1) * sizeof *sum->bounds);
  const int64_t largest = LargestBlock(blocks);
  sum->rounds = largest;
  int64_t bytes = Smaller(CHUNK_LARGEST, sum->comm->message_limit / ALIGN * ALIGN);
  if (largest > 0) bytes = Smaller(bytes, AlignedBytes(largest, sum->type));
  sum->chunk = bytes / (int64_t)sum->element;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommSumSetUp(RengaCommSum sum, const RengaCommSumTask *task)
{
  sum->type = task->type;
  sum->element = RengaDataTypeSize(task->type);
  RengaCheck(sum->element > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the vectors to add up have no type: %d is none", (int)task->type);
  sum->adder = task->adder;
  sum->folder = task->folder;
  sum->result = task->result;
  sum->home = -1;
  RengaCall(SetUpBounds(sum, task->blocks));
  RengaCheck(sum->result != NULL || sum->rounds == 0 || sum->folder.take, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "the sum has no place for its result");
  RengaCheck(!sum->folder.take || (sum->reduces && !sum->gathers), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "pieces are taken in a reduce-scatter only");
  if (sum->reduces) RengaCall(SetUpPieces(sum, task));
  RengaCall(SetUpPlaces(sum, &task->carrier));
  sum->rounds = (sum->rounds + sum->chunk - 1) / sum->chunk;
  return RENGA_SUCCESS;
}
