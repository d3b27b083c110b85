/* Comm: how a sum goes on, round by round, whenever a call of MPI finds that something arrived.

   A round is a row of steps; each is done when what it waits for has come. Pieces of the next round
   are on their way while this one's are added. A rank that failed goes through all its messages
   too, and sends them empty: so none is left under way, and all who lack a part of the sum learn
   of it. Where the carrier queues messages, nobody waits: all rounds are queued at once. */
#include "renga/private/log.h"
#include "sum.h"

enum { ADD_MOST = 64 * 1024 }; /* elements added at a time: operands stay in caches */

/* Elements [*begin, *begin + length) of the vector are rank's chunk in a round. */
static int64_t SumChunk(const struct _RengaCommSum *sum, int rank, int64_t round, int64_t *begin)
{
  const int64_t first = sum->bounds[rank] + round * sum->chunk, last = sum->bounds[rank + 1];
  *begin = first < last ? first : last;
  return last - *begin < sum->chunk ? last - *begin : sum->chunk;
}

static void SumNote(RengaCommSum sum, RengaErrorCode code)
{
  if (code && !sum->code) sum->code = code;
  if (code) sum->spoiled = true;
}

/* By a carrier whose messages are queued work. */
static bool IsQueued(const struct _RengaCommSum *sum)
{
  return sum->carrier.together != NULL;
}

/* A message that is under way from an earlier try is not begun again. */
static RengaErrorCode SumSend(RengaCommSum sum, const char *from, int64_t length, int to, int tag,
                              int place)
{
  const size_t bytes = sum->spoiled && !IsQueued(sum) ? 0 : (size_t)length * sum->element;
  if (sum->open[place]) return RENGA_SUCCESS;
  RengaCall(sum->carrier.send(sum->carrier.user, place, from, bytes, to, tag));
  sum->open[place] = !IsQueued(sum);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumReceive(RengaCommSum sum, char *to, int64_t length, int from, int tag,
                                 int place)
{
  const size_t room = (size_t)length * sum->element;
  if (sum->open[place]) return RENGA_SUCCESS;
  RengaCall(sum->carrier.receive(sum->carrier.user, place, to, room, from, tag));
  sum->open[place] = !IsQueued(sum);
  return RENGA_SUCCESS;
}

static char *InResult(const struct _RengaCommSum *sum, int64_t at)
{
  return sum->result + (size_t)at * sum->element;
}

/* This rank's chunk of another rank's piece. begin: the chunk's place in the vector. */
static char *ReceivedPiece(const struct _RengaCommSum *sum, int piece, int64_t round, int64_t begin)
{
  const int foreign = piece < sum->first_own ? piece : piece - sum->n_own;
  if (piece == sum->home) return InResult(sum, begin);
  return sum->received[round % SUM_ROUNDS] + (size_t)foreign * (size_t)sum->chunk * sum->element;
}

/* Pieces travel from every rank to the owner of each chunk. Peers are taken in turn from the next
   one on, so that not all ranks begin with the same. */
static RengaErrorCode StartPieces(RengaCommSum sum, int64_t round)
{
  const int rank = sum->comm->rank, size = sum->comm->size;
  int in = sum->group[round % SUM_ROUNDS][SUM_PIECE_IN];
  int out = sum->group[round % SUM_ROUNDS][SUM_PIECE_OUT];
  int64_t begin, length = SumChunk(sum, rank, round, &begin);
  for (int p = 0; length > 0 && p < sum->n_pieces; p++)
    if (sum->pieces[p].rank != rank)
      RengaCall(SumReceive(sum, ReceivedPiece(sum, p, round, begin), length, sum->pieces[p].rank,
                           sum->tag, in++));
  for (int step = 1; step < size; step++) {
    const int owner = (rank + step) % size;
    length = SumChunk(sum, owner, round, &begin);
    for (int i = 0; length > 0 && i < sum->n_own; i++) {
      const char *data = sum->pieces[sum->first_own + i].data + (size_t)begin * sum->element;
      RengaCall(SumSend(sum, data, length, owner, sum->tag, out++));
    }
  }
  return RENGA_SUCCESS;
}

/* Steps of a round. */

static RengaErrorCode StartFirstPieces(RengaCommSum sum, bool *done)
{
  (void)done;
  if (sum->round == 0) RengaCall(StartPieces(sum, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartNextPieces(RengaCommSum sum, bool *done)
{
  (void)done;
  if (sum->round + 1 < sum->rounds) RengaCall(StartPieces(sum, sum->round + 1));
  return RENGA_SUCCESS;
}

/* Who sends the message, and how many elements it has. Blocks are of the last round that had the
   requests of this one. */
static int64_t ExpectedPart(const struct _RengaCommSum *sum, SumGroup group, int at, int *peer)
{
  const int rank = sum->comm->rank, size = sum->comm->size;
  int64_t begin;
  if (group == SUM_PIECE_IN) {
    *peer = sum->pieces[at < sum->first_own ? at : at + sum->n_own].rank;
    return SumChunk(sum, rank, sum->round, &begin);
  }
  *peer = (rank + size - at) % size;
  return SumChunk(sum, *peer, sum->round - SUM_ROUNDS, &begin);
}

/* An empty message: a rank has failed. */
static RengaErrorCode CheckSumPart(RengaCommSum sum, SumGroup group, size_t bytes)
{
  int peer;
  const int64_t length = ExpectedPart(sum, group, sum->at, &peer);
  if (bytes == 0) sum->spoiled = true;
  RengaCheck(bytes == 0 || bytes == (size_t)length * sum->element, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "rank %d received %zu bytes of a sum from rank %d, where %lld were expected: the "
             "ranks began other sums, or in another order",
             sum->comm->rank, bytes, peer, (long long)length * (long long)sum->element);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestPart(RengaCommSum sum, SumGroup group, int place, bool *done)
{
  const bool in = group == SUM_PIECE_IN || group == SUM_BLOCK_IN;
  size_t bytes = 0;
  const RengaErrorCode code = sum->carrier.test(sum->carrier.user, place, done, in ? &bytes : NULL);
  if (*done) sum->open[place] = false;
  if (*done) sum->comm->sums->moved++;
  RengaCall(code);
  if (*done && in) RengaCall(CheckSumPart(sum, group, bytes));
  return RENGA_SUCCESS;
}

/* Whether all messages of a group are done. */
static void TestGroup(RengaCommSum sum, SumGroup group, bool *done)
{
  const int first = sum->group[sum->round % SUM_ROUNDS][group];
  for (; sum->at < sum->n_group[group]; sum->at++) {
    if (!sum->open[first + sum->at]) continue;
    *done = false;
    SumNote(sum, TestPart(sum, group, first + sum->at, done));
    if (!*done) return;
  }
  sum->at = 0;
}

static RengaErrorCode TakePieces(RengaCommSum sum, bool *done)
{
  TestGroup(sum, SUM_PIECE_IN, done);
  return RENGA_SUCCESS;
}

/* A partial sum while a chunk is added up. */
typedef struct {
  char *data;
  bool writable, home; /* home: it lies in result */
} Addend;

/* The sum of two stands in one of them: in result, or in memory that received a piece. */
static RengaErrorCode MergeAddends(RengaCommSum sum, int64_t count, Addend *left, Addend *right)
{
  const bool to_right = right->home || (!left->home && !left->writable);
  const Addend *y = to_right ? right : left, *x = to_right ? left : right;
  RengaCheck(y->writable, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "two pieces of this rank are merged");
  RengaCall(sum->adder.begin(sum->adder.user, sum->type, count, y->data, x->data));
  *left = (Addend){y->data, true, y->home};
  return RENGA_SUCCESS;
}

/* Elements [at, at + count) of this rank's chunk, by the tree. */
static RengaErrorCode AddRange(RengaCommSum sum, int64_t chunk_begin, int64_t at, int64_t count)
{
  Addend stack[RENGA_COMM_TREE_PIECES];
  int depth = 0;
  for (int p = 0; p < sum->n_pieces; p++) {
    const SumPiece *piece = &sum->pieces[p];
    const bool own = piece->rank == sum->comm->rank, home = p == sum->home;
    char *data = own ? piece->data + (size_t)chunk_begin * sum->element
                     : ReceivedPiece(sum, p, sum->round, chunk_begin);
    stack[depth++] = (Addend){data + (size_t)at * sum->element, !own || home, home};
    for (int m = 0; m < piece->merges; m++, depth--)
      RengaCall(MergeAddends(sum, count, &stack[depth - 2], &stack[depth - 1]));
  }
  return RENGA_SUCCESS;
}

/* The same elements of all pieces, to who takes them. */
static RengaErrorCode GivePieces(RengaCommSum sum, int64_t chunk_begin, int64_t at, int64_t count)
{
  for (int p = 0; p < sum->n_pieces; p++) {
    const SumPiece *piece = &sum->pieces[p];
    char *data = piece->rank == sum->comm->rank ? piece->data + (size_t)chunk_begin * sum->element
                                                : ReceivedPiece(sum, p, sum->round, chunk_begin);
    sum->taken[p] = data + (size_t)at * sum->element;
  }
  RengaCall(sum->folder.take(sum->folder.user, chunk_begin + at, count, sum->taken));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPieces(RengaCommSum sum, bool *done)
{
  int64_t begin;
  const int64_t length = SumChunk(sum, sum->comm->rank, sum->round, &begin);
  const int64_t most = IsQueued(sum) ? length : ADD_MOST;
  (void)done;
  for (int64_t at = 0; at < length && !sum->spoiled; at += most) {
    const int64_t count = length - at < most ? length - at : most;
    SumNote(sum,
            sum->folder.take ? GivePieces(sum, begin, at, count) : AddRange(sum, begin, at, count));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAdder(RengaCommSum sum, bool *done)
{
  if (sum->reduces && sum->adder.test) SumNote(sum, sum->adder.test(sum->adder.user, done));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeBlocks(RengaCommSum sum, bool *done)
{
  TestGroup(sum, SUM_BLOCK_IN, done);
  return RENGA_SUCCESS;
}

static RengaErrorCode EndBlocks(RengaCommSum sum, bool *done)
{
  TestGroup(sum, SUM_BLOCK_OUT, done);
  return RENGA_SUCCESS;
}

/* Where the only piece of all is this rank's and not in result, it gets there by a message too. */
static bool SendsToItself(const struct _RengaCommSum *sum)
{
  return sum->n_pieces > 0 && sum->home < 0 && !sum->folder.take;
}

static RengaErrorCode SendBlock(RengaCommSum sum, bool *done)
{
  const int rank = sum->comm->rank, size = sum->comm->size;
  const bool itself = SendsToItself(sum);
  int64_t begin;
  const int64_t length = SumChunk(sum, rank, sum->round, &begin);
  const int out = sum->group[sum->round % SUM_ROUNDS][SUM_BLOCK_OUT];
  (void)done;
  const char *from =
      itself ? sum->pieces->data + (size_t)begin * sum->element : InResult(sum, begin);
  for (int step = itself ? 0 : 1; length > 0 && step < (sum->gathers ? size : 1); step++)
    RengaCall(SumSend(sum, from, length, (rank + step) % size, sum->tag + 1, out + step));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndPieces(RengaCommSum sum, bool *done)
{
  TestGroup(sum, SUM_PIECE_OUT, done);
  return RENGA_SUCCESS;
}

/* Only when the pieces of these chunks have left: result may be one of them. */
static RengaErrorCode ReceiveBlocks(RengaCommSum sum, bool *done)
{
  const int rank = sum->comm->rank, size = sum->comm->size;
  const int in = sum->group[sum->round % SUM_ROUNDS][SUM_BLOCK_IN];
  (void)done;
  for (int step = SendsToItself(sum) ? 0 : 1; step < (sum->gathers ? size : 1); step++) {
    const int owner = (rank + size - step) % size;
    int64_t begin;
    const int64_t length = SumChunk(sum, owner, sum->round, &begin);
    if (length > 0)
      RengaCall(SumReceive(sum, InResult(sum, begin), length, owner, sum->tag + 1, in + step));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode (*const round_steps[])(RengaCommSum sum, bool *done) = {
    StartFirstPieces, StartNextPieces, TakePieces, AddPieces, WaitAdder,
    TakeBlocks,       EndBlocks,       SendBlock,  EndPieces, ReceiveBlocks};
enum { N_STEPS = sizeof round_steps / sizeof *round_steps };

/* The last rounds have no pieces left: they take the blocks of those before. */
bool RengaCommSumIsOver(const struct _RengaCommSum *sum)
{
  return sum->round == sum->rounds + SUM_ROUNDS;
}

/* What a round has to do with others at once: the blocks of the one before, of which nobody needs
   the pieces any more, and its pieces. */
static RengaErrorCode ExchangeRound(RengaCommSum sum)
{
  const int64_t round = sum->round;
  bool done;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(sum->carrier.together(sum->carrier.user, true));
  sum->round = round - 1;
  if (round > 0) code = SendBlock(sum, &done);
  if (round > 0 && !code) code = ReceiveBlocks(sum, &done);
  sum->round = round;
  if (round < sum->rounds && !code) code = StartPieces(sum, round);
  RengaKeepFirst_Private(&code, sum->carrier.together(sum->carrier.user, false));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All of it, where messages are queued. Others wait for a rank whose queue takes no more until the
   time limit. */
static void QueueAll(RengaCommSum sum)
{
  bool done;
  for (sum->round = 0; sum->round <= sum->rounds && !sum->code; sum->round++) {
    SumNote(sum, ExchangeRound(sum));
    if (sum->round < sum->rounds && !sum->code) AddPieces(sum, &done);
  }
  sum->round = sum->rounds + SUM_ROUNDS;
}

/* Messages of the sum begin to move, or are all done. */
void RengaCommSumMoves(RengaCommSum sum, bool begins)
{
  RengaCommSums *sums = sum->comm->sums;
  if (begins && sums->moving++ == 0) sums->since = MPI_Wtime();
  if (begins || --sums->moving > 0) return;
  RengaLogEventAdd_Private(sum->comm->event[RENGA_COMM_EVENT_UNDERWAY], MPI_Wtime() - sums->since,
                           0);
}

void RengaCommSumAdvance(RengaCommSum sum)
{
  if (sum->busy || sum->stall || RengaCommSumIsOver(sum)) return;
  sum->busy = true;
  if (IsQueued(sum) && !RengaCommSumIsOver(sum)) QueueAll(sum);
  for (bool done = true; done && !RengaCommSumIsOver(sum);) {
    sum->stall = round_steps[sum->step](sum, &done);
    if (sum->stall) break;
    if (done) sum->step = (sum->step + 1) % N_STEPS;
    if (done && sum->step == 0) sum->round++;
  }
  sum->busy = false;
  if (RengaCommSumIsOver(sum)) RengaCommSumMoves(sum, false);
}
