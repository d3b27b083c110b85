/* Comm: what a sum by the tree (rengacomm.h) has to exchange, and the memory that it takes. Blocks
   and rounds are counted in elements, memory and messages in bytes.

   Each rank owns a block of the vector. In rounds of at most `chunk` elements the ranks' pieces of
   every owner's next chunk go to that owner, by way of those who answer for it on the other nodes
   (sumlevels.c), and the sum goes back (exchange.c). With one piece per node (powers of two) that
   moves between nodes what a reduce-scatter and an all-gather of nodes move. */
#include "nodememory.h"
#include "sum.h"
#include <string.h>

/* Bytes. */
enum {
  LEVEL_BYTES = 4096, /* of work memory that are left free per level of the tree */
  ALIGN = 64,         /* chunks begin there; whole elements of any type */
  ELEMENT_MOST = 16,  /* whole elements of any type */
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

/* The most pieces that an owner receives of others. */
static int ForeignPieces(int ranks, int64_t n_leaves, const int64_t leaves[])
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int all = 0, fewest = RENGA_COMM_TREE_PIECES;
  for (int r = 0; r < ranks; r++) {
    int own = RengaCommTreePieces(n_leaves, leaves[r], leaves[r + 1], pieces);
    all += own;
    if (own < fewest) fewest = own;
  }
  return all - fewest;
}

/* Levels of the tree, its leaves among them. */
static int TreeDepth(int64_t n_leaves)
{
  int depth = 1;
  while (((int64_t)1 << (depth - 1)) < n_leaves) depth++;
  return depth;
}

/* How much work memory a sum likes. Bytes, the same on all ranks; about 64 MiB at most, or 32 KiB
   per piece of other ranks where that is more. Less works too, in more rounds: 128 bytes per piece
   of other ranks are enough. 0 for one rank. A little more than the chunks take is asked for: 4 KiB
   per level of the tree, which forecasts of memory in plans that are kept count. ranks: the number
   of ranks that add up, at least 1. n_leaves: leaves of the whole tree, at least 1. leaves: ranks +
   1 numbers: rank r holds leaves [leaves[r], leaves[r+1]). count: elements of the vectors, at least
   0. */
size_t RengaCommTreeWork(int ranks, int64_t n_leaves, const int64_t leaves[], RengaDataType type,
                         int64_t count)
{
  if (ranks == 1) return 0;
  const int foreign = ForeignPieces(ranks, n_leaves, leaves);
  int64_t chunk = WORK_WANTED / (SUM_ROUNDS * foreign) / ALIGN * ALIGN;
  if (chunk < CHUNK_SMALLEST) chunk = CHUNK_SMALLEST;
  chunk = Smaller(chunk, CHUNK_LARGEST);
  chunk = Smaller(chunk, AlignedBytes((count + ranks - 1) / ranks, type));
  const size_t free = (size_t)TreeDepth(n_leaves) * LEVEL_BYTES;
  return free + (size_t)chunk * SUM_ROUNDS * (size_t)foreign;
}

/* Bytes of a chunk, as memory for so many of a round lets it have. Where there is very little of it
   chunks begin at whole elements only. */
static int64_t ChunkOfMemory(int64_t chunk, int64_t units, size_t bytes)
{
  if (units == 0) return chunk;
  const int64_t most = (int64_t)(bytes / (size_t)units);
  return Smaller(chunk, most < ALIGN ? most / ELEMENT_MOST * ELEMENT_MOST : most / ALIGN * ALIGN);
}

/* How many messages of a sum are under way at once, at the most. The places and bytes that the
   reserve of a RengaCommCarrier is asked for, or more, of sums with a folder too. n_leaves: leaves
   of the whole tree, at least 1. leaves: [size + 1] rank r holds leaves [leaves[r], leaves[r+1]).
   work_bytes: bytes of work memory of the sum, at least 0. bytes: bytes of the longest of them, at
   least 0, whatever the type of the elements. */
int RengaCommTreePlaces(RengaComm comm, int64_t n_leaves, const int64_t leaves[], size_t work_bytes,
                        size_t *bytes)
{
  SumLeaves of = {.n = n_leaves, .bounds = leaves, .merge = true};
  SumCounts counts;
  int n_group[SUM_GROUPS];
  RengaCommSumCount(comm, &of, &counts);
  *bytes = (size_t)ChunkOfMemory(CHUNK_LARGEST, SUM_ROUNDS * counts.units, work_bytes);
  of.merge = false;
  RengaCommSumCount(comm, &of, &counts);
  return RengaCommSumPlaces(comm, &counts, n_group);
}

/* Elements of the largest block. bounds: [ranks + 1] */
static int64_t LargestBlock(int ranks, const int64_t bounds[])
{
  int64_t largest = 0;
  for (int r = 0; r < ranks; r++)
    if (bounds[r + 1] - bounds[r] > largest) largest = bounds[r + 1] - bounds[r];
  return largest;
}

/* How many messages of an all-gather are under way at once, at the most. As of RengaCommTreePlaces.
   bytes: bytes of the longest of them, at least 0. */
int RengaCommGatherPlaces(RengaComm comm, RengaBlocks blocks, RengaDataType type, size_t *bytes)
{
  const SumLeaves none = {0};
  SumCounts counts;
  int n_group[SUM_GROUPS];
  RengaCommSumCount(comm, &none, &counts);
  *bytes = (size_t)Smaller(CHUNK_LARGEST,
                           AlignedBytes(LargestBlock(blocks->ranks, blocks->bounds), type));
  return RengaCommSumPlaces(comm, &counts, n_group);
}

static RengaErrorCode CheckLeaves(RengaComm comm, const RengaCommSumTask *task)
{
  const int64_t *leaves = task->leaves;
  RengaCheck(leaves, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the task of a sum has no leaves");
  const bool some = task->folder.take && leaves[0] >= 0 && leaves[comm->size] <= task->n_leaves;
  RengaCheck(task->n_leaves > 0 &&
                 (some || (leaves[0] == 0 && leaves[comm->size] == task->n_leaves)),
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

/* What the work memory receives in a round, within nodes only where nothing is copied to shared
   memory: sums of pieces that may not change have their room there. */
static int64_t Received(const struct _RengaCommSum *sum, const SumCounts *counts)
{
  return sum->shared && !sum->direct ? counts->across : counts->units;
}

static bool LiesIn(RengaCommShared shared, const struct _RengaCommSum *sum, const char *vector)
{
  const size_t bytes = (size_t)sum->bounds[sum->comm->size] * sum->element;
  return vector >= shared->memory && vector + bytes <= shared->memory + shared->bytes;
}

/* Folders write over pieces, so that they get copies. */
static RengaErrorCode UseShared(RengaCommSum sum, const SumCounts *counts,
                                const RengaCommSumTask *task)
{
  if (!task->carrier.reserve) sum->shared = sum->comm->shared;
  if (!sum->shared || !task->shared || sum->folder.take) return RENGA_SUCCESS;
  RengaCheck(LiesIn(task->shared, sum, task->result), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the result of a sum does not lie in its shared memory");
  for (int i = 0; i < counts->own; i++)
    RengaCheck(LiesIn(task->shared, sum, task->pieces[i].data), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "piece %d of a sum does not lie in its shared memory", i);
  sum->direct = task->shared;
  return RENGA_SUCCESS;
}

/* Cut the work memory: two rounds of received chunks. */
static RengaErrorCode CutWork(RengaCommSum sum, const SumCounts *counts,
                              const RengaCommSumTask *task)
{
  const int64_t units = SUM_ROUNDS * Received(sum, counts), element = (int64_t)sum->element;
  const int64_t bytes = ChunkOfMemory(sum->chunk * element, units, task->work_bytes);
  RengaCheck(bytes > 0 && (task->work != NULL || units == 0), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%zu bytes of work memory are too few: at least %lld are needed", task->work_bytes,
             (long long)units * ELEMENT_MOST);
  sum->chunk = bytes / element;
  return RENGA_SUCCESS;
}

/* Shared memory of a node has room for what a rank shows of its pieces and of sums. */
static void CutShared(RengaCommSum sum, const SumCounts *counts)
{
  const int64_t units = (sum->reduces ? counts->shown : 0) + (sum->gathers ? counts->targets : 0);
  const int64_t bytes = ChunkOfMemory(sum->chunk * (int64_t)sum->element, units, sum->shared->half);
  if (bytes == 0) sum->shared = NULL; /* pieces without number */
  if (bytes > 0) sum->chunk = bytes / (int64_t)sum->element;
}

/* One message for each place. */
static RengaErrorCode SetUpPlaces(RengaCommSum sum, const SumCounts *counts,
                                  const RengaCommCarrier *carrier)
{
  int n_group[SUM_GROUPS];
  sum->memory->n_places = RengaCommSumPlaces(sum->comm, counts, n_group);
  RengaCall(RengaMalloc(sum->memory->n_places, &sum->memory->open));
  sum->carrier = *carrier;
  if (!carrier->reserve) RengaCall(RengaCommSumUseMPI(sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpMemory(RengaCommSum sum, const SumCounts *counts,
                                  const RengaCommSumTask *task)
{
  SumMemory *memory = sum->memory;
  const int64_t pieces = counts->node + counts->all_merged;
  memory->n_own = counts->own;
  RengaCall(RengaMalloc(counts->own, &memory->own));
  for (int i = 0; i < counts->own; i++) memory->own[i] = task->pieces[i].data;
  RengaCall(RengaMalloc(SUM_ROUNDS * counts->targets * counts->merged, &memory->merged));
  RengaCall(RengaMalloc(pieces, &memory->stack));
  if (sum->folder.take) RengaCall(RengaMalloc(pieces, &memory->taken));
  for (int r = 0; r < SUM_ROUNDS; r++)
    memory->received[r] = (char *)task->work + (size_t)r * (size_t)Received(sum, counts) *
                                                   (size_t)sum->chunk * sum->element;
  return RENGA_SUCCESS;
}

static RengaErrorCode CountRouted(RengaCommSum sum, SumLeaves *leaves, SumCounts *counts)
{
  const bool folds = sum->folder.take != NULL, whole = sum->reduces && sum->gathers;
  leaves->merge = !folds;
  RengaCommSumCount(sum->comm, leaves, counts);
  leaves->merge = !folds || sum->folder.merges;
  if (!sum->reduces || sum->bounds[sum->comm->size] == 0) return RENGA_SUCCESS;
  RengaCall(RengaCommSumRoute(sum->comm,
                              whole   ? RENGA_SUM_WHOLE
                              : folds ? RENGA_SUM_FOLD
                                      : RENGA_SUM_HALF,
                              leaves));
  RengaCommSumShare(sum, leaves);
  RengaCall(RengaCommSumCountRoutes(sum->comm, leaves, counts));
  return RENGA_SUCCESS;
}

/* Memory of the host that MPI has may be copied by Renga, too. Memory and places of a sum with a
   folder are those that it has where nothing merges, in any round of micro-batches. */
static RengaErrorCode SetUpExchange(RengaCommSum sum, const RengaCommSumTask *task)
{
  SumLeaves leaves = {.n = task->n_leaves, .bounds = sum->reduces ? task->leaves : NULL};
  SumCounts counts;
  if (sum->reduces) RengaCall(CheckLeaves(sum->comm, task));
  RengaCall(CountRouted(sum, &leaves, &counts));
  RengaCall(UseShared(sum, &counts, task));
  if (sum->shared && !sum->direct) CutShared(sum, &counts);
  RengaCall(CutWork(sum, &counts, task));
  RengaCall(RengaMalloc(1, &sum->memory));
  RengaCall(SetUpMemory(sum, &counts, task));
  RengaCall(RengaCommSumSetUpLevels(sum, &leaves, &counts));
  RengaCall(SetUpPlaces(sum, &counts, &task->carrier));
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
  const int64_t largest = LargestBlock(size, blocks->bounds);
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
  RengaCall(SetUpBounds(sum, task->blocks));
  const bool empty = sum->bounds[sum->comm->size] == 0;
  RengaCheck(sum->result != NULL || empty || sum->folder.take, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the sum has no place for its result");
  RengaCheck(!sum->folder.take || (sum->reduces && !sum->gathers), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "pieces are taken in a reduce-scatter only");
  RengaCall(SetUpExchange(sum, task));
  const int64_t largest = LargestBlock(sum->comm->size, sum->bounds);
  sum->rounds = (largest + sum->chunk - 1) / sum->chunk;
  return RENGA_SUCCESS;
}
