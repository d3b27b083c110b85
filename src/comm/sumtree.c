/* Comm: the sum of all ranks' pieces of the tree (rengacomm.h), the same bits whoever holds them.

   The vector is cut into one block per rank, the block's owner. In rounds of at most `chunk`
   elements each rank sends its pieces of every owner's next chunk straight to that owner; the owner
   adds all ranks' pieces by the tree, in blocks that stay in its cache, and sends the sum to all
   others. Sends of the next round are on their way while this one is added. With one piece per rank
   (powers of two) that moves what a reduce-scatter and an all-gather move. */
#include "sumtree.h"
#include "commimpl.h"
#include <string.h>

enum {
  BLOCK = 1024,                   /* elements added at a time: 4 KiB per operand */
  ALIGN = 16,                     /* elements: chunks and blocks begin on 64 bytes */
  CHUNK_LARGEST = 256 * 1024,     /* elements: 1 MiB */
  CHUNK_SMALLEST = 4 * 1024,      /* wanted even where that takes more than WORK_WANTED */
  WORK_WANTED = 64 * 1024 * 1024, /* bytes */
  ROUNDS = 2,                     /* in flight */
  TAG_PIECE = 0,
  TAG_SUM = 1
};

/* Where piece i of all pieces comes from, and how many merges follow it. */
typedef struct {
  int rank, merges;
  const float *data; /* of this rank's own pieces: the whole vector */
} TreePiece;

typedef struct {
  MPI_Request *piece_in, *piece_out, *sum_in, *sum_out;
} Round;

typedef struct {
  RengaComm comm;
  int64_t count, chunk, rounds;
  int n_pieces, first_own, n_own; /* of all ranks; this rank's */
  int depth;                      /* intermediate sums alive at once */
  TreePiece *pieces;
  float *received[ROUNDS]; /* n_pieces - n_own chunks each */
  float *sums;             /* depth blocks */
  float *result;
  MPI_Request *requests;
  Round round[ROUNDS];
  const char *what;
} Exchange;

static int64_t Smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t RoundUp(int64_t n, int64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

static int64_t LargestBlock(int64_t count, int size)
{
  return RoundUp((count + size - 1) / size, ALIGN);
}

static RengaErrorCode CheckBounds(RengaComm comm, int64_t n_leaves, const int64_t bounds[])
{
  RengaCheckPointer(comm);
  RengaCheckPointer(bounds);
  RengaCheck(n_leaves > 0 && bounds[0] == 0 && bounds[comm->size] == n_leaves, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "the bounds run from %lld to %lld, not from 0 to the %lld leaves",
             (long long)bounds[0], (long long)bounds[comm->size], (long long)n_leaves);
  for (int r = 0; r < comm->size; r++)
    RengaCheck(bounds[r] <= bounds[r + 1], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "the leaves of rank %d begin at %lld and end at %lld", r, (long long)bounds[r],
               (long long)bounds[r + 1]);
  return RENGA_SUCCESS;
}

/* Pieces of all ranks, and the largest number that an owner receives of others. */
static int CountPieces(int ranks, int64_t n_leaves, const int64_t bounds[], int *foreign)
{
  RengaPartialSum pieces[RENGA_COMM_TREE_PIECES];
  int all = 0, fewest = RENGA_COMM_TREE_PIECES;
  for (int r = 0; r < ranks; r++) {
    int own = RengaCommTreePieces(n_leaves, bounds[r], bounds[r + 1], pieces);
    all += own;
    if (own < fewest) fewest = own;
  }
  *foreign = all - fewest;
  return all;
}

/* Intermediate sums alive at once: no more than levels, and one for the sum that is being made. */
static int TreeDepth(int64_t n_leaves)
{
  int depth = 1;
  while (((int64_t)1 << (depth - 1)) < n_leaves) depth++;
  return depth;
}

static size_t FixedWork(int n_pieces, int64_t n_leaves)
{
  return n_pieces == 1 ? 0 : (size_t)TreeDepth(n_leaves) * BLOCK * sizeof(float);
}

/*@
   RengaCommTreeWork - how much work memory RengaCommSumTree likes

   Not collective

   Input:
   . ranks - how many of them add up
   . n_leaves - leaves of the whole tree
   . bounds - ranks + 1 numbers: rank r holds leaves [bounds[r], bounds[r+1])
   . count - length of the vectors

   Notes: bytes, the same on all ranks; about 64 MiB at most, or 32 KiB per piece of other ranks
   where that is more. Less works too, in more rounds: 4 KiB per level of the tree and 128 bytes per
   piece of other ranks are enough. 0 for one rank.
@*/
size_t RengaCommTreeWork(int ranks, int64_t n_leaves, const int64_t bounds[], int64_t count)
{
  int foreign, n_pieces = CountPieces(ranks, n_leaves, bounds, &foreign);
  if (ranks == 1) return 0;
  int64_t chunk = WORK_WANTED / (ROUNDS * (int64_t)sizeof(float) * foreign) / ALIGN * ALIGN;
  if (chunk < CHUNK_SMALLEST) chunk = CHUNK_SMALLEST;
  chunk = Smaller(chunk, CHUNK_LARGEST);
  chunk = Smaller(chunk, LargestBlock(count, ranks));
  return FixedWork(n_pieces, n_leaves) + (size_t)chunk * ROUNDS * (size_t)foreign * sizeof(float);
}

/* Elements [*begin, *begin + length) of the vector are rank's chunk in this round. */
static int64_t ChunkOf(const Exchange *e, int rank, int64_t round, int64_t *begin)
{
  int64_t block = LargestBlock(e->count, e->comm->size);
  int64_t block_end = Smaller((rank + 1) * block, e->count);
  *begin = Smaller(rank * block + round * e->chunk, block_end);
  return Smaller(e->chunk, block_end - *begin);
}

static RengaErrorCode ExchangePieces(Exchange *e, int64_t n_leaves, const int64_t bounds[],
                                     const RengaPartialSum own[])
{
  RengaPartialSum all[RENGA_COMM_TREE_PIECES], stack[RENGA_COMM_TREE_PIECES];
  int depth = 0, n = 0;
  for (int r = 0; r < e->comm->size; r++) {
    int held = RengaCommTreePieces(n_leaves, bounds[r], bounds[r + 1], all);
    if (r == e->comm->rank) e->first_own = n;
    if (r == e->comm->rank) e->n_own = held;
    for (int i = 0; i < held; i++, n++) {
      stack[depth++] = all[i];
      int merges = RengaCommTreeMerges(n_leaves, depth, stack);
      for (int m = 0; m < merges; m++, depth--) stack[depth - 2].count += stack[depth - 1].count;
      e->pieces[n] = (TreePiece){.rank = r, .merges = merges};
      if (r == e->comm->rank) e->pieces[n].data = own[i].data;
    }
  }
  RengaCheck(depth == 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d pieces are left over", depth);
  for (int i = 0; i < e->n_own; i++)
    RengaCheck(own[i].data != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "piece %d has no data", i);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExchangeRequests(Exchange *e)
{
  int peers = e->comm->size - 1, foreign = e->n_pieces - e->n_own, own = e->n_own * peers;
  int each = foreign + own + 2 * peers;
  RengaCall(RengaMalloc(ROUNDS * each, &e->requests));
  for (int i = 0; i < ROUNDS * each; i++) e->requests[i] = MPI_REQUEST_NULL;
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Request *at = e->requests + i * each;
    e->round[i] = (Round){at, at + foreign, at + foreign + own, at + foreign + own + peers};
  }
  return RENGA_SUCCESS;
}

/* Cut the work memory: intermediate sums, then two rounds of received chunks. */
static RengaErrorCode ExchangeMemory(Exchange *e, int64_t n_leaves, int foreign, void *work,
                                     size_t work_bytes)
{
  size_t fixed = FixedWork(e->n_pieces, n_leaves);
  size_t unit = (size_t)ROUNDS * (size_t)foreign * sizeof(float);
  size_t least = fixed + unit * ALIGN;
  RengaCheck(work_bytes >= least && (work != NULL || least == 0), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%zu bytes of work memory are too few: at least %zu are needed", work_bytes, least);
  int64_t block = LargestBlock(e->count, e->comm->size);
  e->chunk = block;
  if (unit > 0) e->chunk = Smaller(block, (int64_t)((work_bytes - fixed) / unit) / ALIGN * ALIGN);
  e->chunk = Smaller(e->chunk, e->comm->message_limit / (int64_t)sizeof(float) / ALIGN * ALIGN);
  e->rounds = (block + e->chunk - 1) / e->chunk;
  e->sums = work;
  if (least == 0) return RENGA_SUCCESS;
  e->received[0] = e->sums + fixed / sizeof(float);
  e->received[1] = e->received[0] + e->chunk * (e->n_pieces - e->n_own);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExchangeSetUp(Exchange *e, int64_t n_leaves, const int64_t bounds[],
                                    const RengaPartialSum own[], void *work, size_t work_bytes)
{
  int foreign;
  e->n_pieces = CountPieces(e->comm->size, n_leaves, bounds, &foreign);
  RengaCall(RengaMalloc(e->n_pieces, &e->pieces));
  RengaCall(ExchangePieces(e, n_leaves, bounds, own));
  RengaCall(ExchangeMemory(e, n_leaves, e->comm->size == 1 ? 0 : foreign, work, work_bytes));
  RengaCall(ExchangeRequests(e));
  return RENGA_SUCCESS;
}

/* This rank's chunk of another rank's piece. */
static float *Received(const Exchange *e, int piece, int64_t round)
{
  int foreign = piece < e->first_own ? piece : piece - e->n_own;
  return e->received[round % ROUNDS] + foreign * e->chunk;
}

static const float *PieceData(const Exchange *e, int piece, int64_t round, int64_t begin)
{
  if (e->pieces[piece].rank == e->comm->rank) return e->pieces[piece].data + begin;
  return Received(e, piece, round);
}

static void Add(int64_t n, const float *a, const float *b, float *sum)
{
#pragma omp simd
  for (int64_t i = 0; i < n; i++) sum[i] = a[i] + b[i];
}

/* Elements [at, at+n) of this rank's chunk by the tree. Sum d of the stack lives in block d. */
static void SumBlock(const Exchange *e, int64_t round, int64_t begin, int64_t at, int64_t n)
{
  const float *stack[RENGA_COMM_TREE_PIECES];
  int depth = 0;
  for (int p = 0; p < e->n_pieces; p++) {
    stack[depth++] = PieceData(e, p, round, begin) + at;
    for (int m = 0; m < e->pieces[p].merges; m++) {
      depth--;
      float *sum = e->sums + (size_t)(depth - 1) * BLOCK;
      Add(n, stack[depth - 1], stack[depth], sum);
      stack[depth - 1] = sum;
    }
  }
  if (stack[0] != e->result + begin + at) memcpy(e->result + begin + at, stack[0], (size_t)n * 4);
}

static void SumChunk(const Exchange *e, int64_t round)
{
  int64_t begin, length = ChunkOf(e, e->comm->rank, round, &begin);
  for (int64_t at = 0; at < length; at += BLOCK)
    SumBlock(e, round, begin, at, Smaller(BLOCK, length - at));
}

/* Pieces travel from every rank to the owner of each chunk. Peers are taken in turn from the next
   one on, so that not all ranks begin with the same. */
static RengaErrorCode StartPieces(Exchange *e, int64_t round)
{
  RengaComm comm = e->comm;
  Round *now = &e->round[round % ROUNDS];
  int64_t begin, length = ChunkOf(e, comm->rank, round, &begin);
  for (int p = 0, in = 0; p < e->n_pieces; p++) {
    if (e->pieces[p].rank == comm->rank) continue;
    if (length > 0)
      RengaCallStart(MPI_Irecv(Received(e, p, round), (int)length, MPI_FLOAT, e->pieces[p].rank,
                               TAG_PIECE, comm->tree, &now->piece_in[in]));
    in++;
  }
  for (int step = 1, out = 0; step < comm->size; step++) {
    int owner = (comm->rank + step) % comm->size;
    length = ChunkOf(e, owner, round, &begin);
    for (int i = 0; length > 0 && i < e->n_own; i++, out++)
      RengaCallStart(MPI_Isend(e->pieces[e->first_own + i].data + begin, (int)length, MPI_FLOAT,
                               owner, TAG_PIECE, comm->tree, &now->piece_out[out]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SendSum(Exchange *e, int64_t round)
{
  RengaComm comm = e->comm;
  int64_t begin, length = ChunkOf(e, comm->rank, round, &begin);
  for (int step = 1; length > 0 && step < comm->size; step++)
    RengaCallStart(MPI_Isend(e->result + begin, (int)length, MPI_FLOAT,
                             (comm->rank + step) % comm->size, TAG_SUM, comm->tree,
                             &e->round[round % ROUNDS].sum_out[step - 1]));
  return RENGA_SUCCESS;
}

/* Only when the pieces of these chunks have left: result may be one of them. */
static RengaErrorCode ReceiveSums(Exchange *e, int64_t round)
{
  RengaComm comm = e->comm;
  for (int step = 1; step < comm->size; step++) {
    int owner = (comm->rank + comm->size - step) % comm->size;
    int64_t begin, length = ChunkOf(e, owner, round, &begin);
    if (length > 0)
      RengaCallStart(MPI_Irecv(e->result + begin, (int)length, MPI_FLOAT, owner, TAG_SUM,
                               comm->tree, &e->round[round % ROUNDS].sum_in[step - 1]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitSums(Exchange *e, int64_t round)
{
  Round *then = &e->round[round % ROUNDS];
  RengaCall(RengaCommWaitAll(e->comm, e->comm->size - 1, then->sum_in, e->what));
  RengaCall(RengaCommWaitAll(e->comm, e->comm->size - 1, then->sum_out, e->what));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunRound(Exchange *e, int64_t round)
{
  int peers = e->comm->size - 1;
  Round *now = &e->round[round % ROUNDS];
  if (round + 1 < e->rounds) RengaCall(StartPieces(e, round + 1));
  RengaCall(RengaCommWaitAll(e->comm, e->n_pieces - e->n_own, now->piece_in, e->what));
  SumChunk(e, round);
  if (round >= ROUNDS) RengaCall(WaitSums(e, round));
  RengaCall(SendSum(e, round));
  RengaCall(RengaCommWaitAll(e->comm, e->n_own * peers, now->piece_out, e->what));
  RengaCall(ReceiveSums(e, round));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunExchange(Exchange *e)
{
  if (e->count > 0) RengaCall(StartPieces(e, 0));
  for (int64_t round = 0; round < e->rounds; round++) RengaCall(RunRound(e, round));
  for (int i = 0; i < ROUNDS; i++) RengaCall(WaitSums(e, i));
  return RENGA_SUCCESS;
}

/*@
   RengaCommSumTree - add up all ranks' pieces by the fixed tree

   Collective

   Input:
   . comm - the ranks
   . n_leaves - leaves of the whole tree
   . bounds - size + 1 numbers: rank r holds leaves [bounds[r], bounds[r+1]), which may be none
   . pieces - this rank's, as RengaCommTreePieces says, each of count floats
   . count - length of the vectors
   . work - memory, 64-byte aligned
   . work_bytes - its size, the same on all ranks; RengaCommTreeWork says what is best
   . what - printed when nothing moves for the timeout

   Output:
   . result - count floats, the same bits on every rank and for any bounds; may be pieces[0].data

   Notes: a reduce-scatter of pieces and an all-gather of sums, in rounds. No piece is changed but
   the one that is the result.
@*/
RengaErrorCode RengaCommSumTree(RengaComm comm, int64_t n_leaves, const int64_t bounds[],
                                const RengaPartialSum pieces[], int64_t count, float result[],
                                void *work, size_t work_bytes, const char *what)
{
  RengaCall(CheckBounds(comm, n_leaves, bounds));
  RengaCheck(count >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a count of %lld is negative",
             (long long)count);
  RengaCheckPointer(what);
  if (count == 0) return RENGA_SUCCESS;
  RengaCheckPointer(result);
  Exchange e = {.comm = comm, .count = count, .result = result, .what = what};
  RengaLogEventBegin(comm->event[RENGA_COMM_EVENT_TREE]);
  RengaErrorCode code = ExchangeSetUp(&e, n_leaves, bounds, pieces, work, work_bytes);
  if (code == RENGA_SUCCESS) code = RunExchange(&e);
  RengaFree(&e.requests);
  RengaFree(&e.pieces);
  RengaCall(code);
  int64_t sent = (int64_t)sizeof(float) * (count * e.n_own + count / comm->size * (comm->size - 1));
  RengaLogEventEnd(comm->event[RENGA_COMM_EVENT_TREE], 0, (int64_t)e.n_own * (comm->size - 1),
                   sent);
  return RENGA_SUCCESS;
}
