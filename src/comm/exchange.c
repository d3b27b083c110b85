/* Comm: how a sum goes on, round by round, whenever a call of MPI finds that something arrived.

   A round is a row of steps; each is done when what it waits for has come. The steps of a turn
   belong to several rounds: while pieces of one are on their way between nodes, those of the next
   are added up within nodes. A rank that failed goes through all its messages too, and sends them
   empty: so none is left under way, and all who lack a part of the sum learn of it. Where the
   carrier queues messages, nobody waits: all rounds are queued at once. */
#include "nodememory.h"
#include "renga/private/log.h"
#include "sum.h"
#include <string.h>

enum { ADD_MOST = 64 * 1024 }; /* elements added at a time: operands stay in caches */

/* Elements [*begin, *begin + length) of the vector are the block's chunk in a round. */
static int64_t SumChunk(const struct _RengaCommSum *sum, int block, int64_t round, int64_t *begin)
{
  const int64_t first = sum->bounds[block] + round * sum->chunk, last = sum->bounds[block + 1];
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

/* Where vectors lie. */

static char *InVector(const struct _RengaCommSum *sum, char *vector, int64_t at)
{
  return vector + (size_t)at * sum->element;
}

static char *InShared(const struct _RengaCommSum *sum, int local, int64_t chunk, int64_t round)
{
  return RengaNodeHalf(sum->shared, local, sum->slot, sum->base + round) +
         (size_t)(chunk * sum->chunk) * sum->element;
}

/* A piece that another rank gave, in the order of the memory that receives them. */
static char *ReceivedPiece(const struct _RengaCommSum *sum, int number, int64_t round)
{
  const SumLevels *levels = sum->levels;
  const bool boxes = sum->shared && !sum->direct;
  const int shown = boxes ? levels->n_targets * levels->n_foreign : 0;
  if (boxes && number < shown)
    return InShared(sum, levels->shown[number].local, levels->shown[number].chunk, round);
  return sum->memory->received[round % SUM_ROUNDS] +
         (size_t)(number - shown) * (size_t)sum->chunk * sum->element;
}

/* Of shared vectors: where a rank's result lies in its memory, and its pieces. */
static int64_t *OffsetsOf(const struct _RengaCommSum *sum, int local)
{
  return (int64_t *)(void *)RengaNodeHalf(sum->shared, local, sum->slot, 0);
}

/* number: 0: the result; 1: the first piece. */
static char *SharedVector(const struct _RengaCommSum *sum, int local, int number)
{
  return sum->direct->view[local].memory + OffsetsOf(sum, local)[number];
}

/* It is received in result by messages, and copied there from shared memory. */
static bool IsHome(const struct _RengaCommSum *sum, int number)
{
  const SumLevels *levels = sum->levels;
  return levels->home >= 0 && levels->piece[levels->home].source == number;
}

static bool IsShown(const struct _RengaCommSum *sum, int number)
{
  return sum->shared && number < sum->levels->n_targets * sum->levels->n_foreign;
}

/* Pieces merged by this rank for its node. */
static char **MergedPiece(const struct _RengaCommSum *sum, int64_t round, int number)
{
  const SumLevels *levels = sum->levels;
  const int all = levels->n_targets * levels->n_merged;
  return &sum->memory->merged[(round % SUM_ROUNDS) * all + number];
}

/* Sums that this rank has added up for owners of other nodes. */
static char **RelayedSum(const struct _RengaCommSum *sum, int64_t round, int number)
{
  return &sum->memory->relayed[(round % SUM_ROUNDS) * sum->levels->n_relays + number];
}

/* Messages. */

static bool IsReceived(SumGroupKind kind)
{
  return kind == SUM_NODE_PIECE_IN || kind == SUM_PIECE_IN || kind == SUM_RELAY_IN ||
         kind == SUM_BLOCK_IN || kind == SUM_PASSED_IN || kind == SUM_NODE_BLOCK_IN;
}

static bool IsRelayed(SumGroupKind kind)
{
  return kind == SUM_RELAY_IN || kind == SUM_RELAY_OUT;
}

static char *MemoryOf(const struct _RengaCommSum *sum, SumGroupKind kind, const SumMessage *message,
                      int64_t round, int64_t begin)
{
  switch (kind) {
  case SUM_NODE_PIECE_IN:
  case SUM_PIECE_IN:
  case SUM_RELAY_IN:
    if (!IsHome(sum, message->from)) return ReceivedPiece(sum, message->from, round);
    return InVector(sum, sum->result, begin);
  case SUM_NODE_PIECE_OUT:
    return InVector(sum, sum->memory->own[message->from], begin);
  case SUM_PIECE_OUT:
    return *MergedPiece(sum, round, message->from);
  case SUM_RELAY_OUT:
    return *RelayedSum(sum, round, message->from);
  case SUM_BLOCK_OUT:
    if (message->from > 0) return *RelayedSum(sum, round, message->from - 1);
    if (sum->levels->itself && sum->memory->only[round % SUM_ROUNDS])
      return sum->memory->only[round % SUM_ROUNDS];
    return InVector(sum, sum->result, begin);
  default:
    return InVector(sum, sum->result, begin);
  }
}

static void CountMessage(RengaCommSum sum, int peer, int64_t bytes)
{
  RengaCommSums *sums = sum->comm->sums;
  sum->sent++;
  sum->bytes += bytes;
  if (sum->comm->node_of[peer] == sum->comm->node) return;
  sums->messages_out++;
  sums->bytes_out += bytes;
}

/* A message that is under way from an earlier try is not begun again. */
static RengaErrorCode StartMessage(RengaCommSum sum, SumGroupKind kind, int64_t round,
                                   const SumMessage *message, int place)
{
  const bool passed = kind == SUM_PASSED_IN || kind == SUM_PASSED_OUT; /* where nothing relays */
  const int tag = sum->tag + (IsRelayed(kind) || passed ? 2 : kind > SUM_PIECE_OUT);
  int64_t begin;
  const int64_t length = SumChunk(sum, message->block, round, &begin);
  size_t bytes = (size_t)length * sum->element;
  if (length == 0) return RENGA_SUCCESS;
  char *memory = MemoryOf(sum, kind, message, round, begin);
  if (IsReceived(kind)) {
    RengaCall(sum->carrier.receive(sum->carrier.user, place, memory, bytes, message->peer, tag));
  } else {
    if (sum->spoiled && !IsQueued(sum)) bytes = 0;
    RengaCall(sum->carrier.send(sum->carrier.user, place, memory, bytes, message->peer, tag));
    CountMessage(sum, message->peer, (int64_t)bytes);
  }
  sum->memory->open[place] = !IsQueued(sum);
  return RENGA_SUCCESS;
}

/* Few messages of a group are under way at once: so many ranks do not drown each other. */
static RengaErrorCode StartSumMessages(RengaCommSum sum, SumGroupKind kind)
{
  SumGroup *group = &sum->levels->group[kind];
  while (group->started < group->wanted &&
         (IsQueued(sum) || group->started - group->done < group->n_places)) {
    const int place = group->first_place + (int)(group->started % group->n_places);
    RengaCall(StartMessage(sum, kind, group->started / group->n,
                           &group->message[group->started % group->n], place));
    group->started++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WantRound(RengaCommSum sum, SumGroupKind kind, int64_t round)
{
  SumGroup *group = &sum->levels->group[kind];
  if (group->wanted < (round + 1) * group->n) group->wanted = (round + 1) * group->n;
  RengaCall(StartSumMessages(sum, kind));
  return RENGA_SUCCESS;
}

static RengaErrorCode RaiseOther(const struct _RengaCommSum *sum, size_t bytes, int peer,
                                 int64_t expected)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "rank %d received %zu bytes of a sum from rank %d, where %lld were expected: the "
             "ranks began other sums, or in another order",
             sum->comm->rank, bytes, peer, (long long)expected);
}

/* An empty message: a rank has failed. */
static RengaErrorCode CheckSumMessage(RengaCommSum sum, const SumMessage *message, int64_t round,
                                      size_t bytes)
{
  int64_t begin;
  const int64_t length = SumChunk(sum, message->block, round, &begin);
  if (bytes == 0) sum->spoiled = true;
  if (bytes != 0 && bytes != (size_t)length * sum->element)
    RengaCall(RaiseOther(sum, bytes, message->peer, length * (int64_t)sum->element));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMessage(RengaCommSum sum, SumGroupKind kind, bool *done)
{
  const SumGroup *group = &sum->levels->group[kind];
  const int place = group->first_place + (int)(group->done % group->n_places);
  size_t bytes = 0;
  const RengaErrorCode code =
      sum->carrier.test(sum->carrier.user, place, done, IsReceived(kind) ? &bytes : NULL);
  if (*done) sum->memory->open[place] = false;
  if (*done) sum->comm->sums->moved++;
  RengaCall(code);
  if (*done && IsReceived(kind))
    RengaCall(CheckSumMessage(sum, &group->message[group->done % group->n], group->done / group->n,
                              bytes));
  return RENGA_SUCCESS;
}

/* Those that are done, and more that may begin then. */
static RengaErrorCode MoveMessages(RengaCommSum sum, SumGroupKind kind)
{
  SumGroup *group = &sum->levels->group[kind];
  for (bool done = true; done && group->done < group->started; group->done += done) {
    done = !sum->memory->open[group->first_place + (int)(group->done % group->n_places)];
    if (!done) SumNote(sum, TestMessage(sum, kind, &done));
  }
  RengaCall(StartSumMessages(sum, kind));
  return RENGA_SUCCESS;
}

static RengaErrorCode MoveAllMessages(RengaCommSum sum)
{
  for (int g = 0; g < SUM_GROUPS; g++) {
    const SumGroup *group = &sum->levels->group[g];
    if (group->done < group->wanted) RengaCall(MoveMessages(sum, (SumGroupKind)g));
  }
  return RENGA_SUCCESS;
}

/* Whether all messages of a group are done, up to a round. */
static RengaErrorCode AskMessages(RengaCommSum sum, SumGroupKind kind, int64_t round, bool *done)
{
  const SumGroup *group = &sum->levels->group[kind];
  const int64_t wanted = (round + 1) * group->n;
  if (group->done < wanted) RengaCall(MoveMessages(sum, kind));
  *done = group->done >= wanted;
  return RENGA_SUCCESS;
}

/* Shared memory of a node. */

static RengaNodeFlags *BoxFlags(const struct _RengaCommSum *sum, int local)
{
  return RengaNodeFlagsOf(sum->shared, local, sum->slot);
}

/* Whether all others of the node have shown, or taken, what they have to in so many rounds. */
static bool HaveShown(const struct _RengaCommSum *sum, NodeKind kind, int64_t rounds, bool taken)
{
  for (int q = 0; q < sum->comm->local_size; q++) {
    RengaNodeFlags *flags = BoxFlags(sum, q);
    const atomic_llong *count = taken ? &flags->taken[kind] : &flags->shown[kind];
    if (q != sum->comm->local_rank &&
        atomic_load_explicit(count, memory_order_acquire) < sum->base + rounds)
      return false;
  }
  return true;
}

static void Show(const struct _RengaCommSum *sum, NodeKind kind, int64_t round, bool taken)
{
  RengaNodeFlags *flags = BoxFlags(sum, sum->comm->local_rank);
  atomic_store_explicit(taken ? &flags->taken[kind] : &flags->shown[kind], sum->base + round + 1,
                        memory_order_release);
}

/* This rank's half is free for the round: the last sum that had it is over, and others have taken
   what was there. */
static bool MayShow(const struct _RengaCommSum *sum, NodeKind kind, int64_t round)
{
  if (sum->shared->ended[sum->slot] != sum->base) return false;
  if (!sum->direct) return HaveShown(sum, kind, round + 1 - NODE_ROUNDS, true);
  return round > 0 ||
         (HaveShown(sum, NODE_PIECES, 0, true) && HaveShown(sum, NODE_BLOCKS, 0, true));
}

static int64_t VectorBytes(const struct _RengaCommSum *sum)
{
  return sum->bounds[sum->comm->size] * (int64_t)sum->element;
}

static void ShowFlags(const struct _RengaCommSum *sum, NodeKind kind, int64_t round)
{
  RengaNodeFlags *flags = BoxFlags(sum, sum->comm->local_rank);
  const int half = (int)((sum->base + round) % NODE_ROUNDS);
  flags->empty[kind][half] = sum->spoiled;
  flags->vector[kind][half] = VectorBytes(sum);
  Show(sum, kind, round, false);
}

/* What others say of what they show. */
static RengaErrorCode LookAtFlags(RengaCommSum sum, NodeKind kind, int64_t round)
{
  const int half = (int)((sum->base + round) % NODE_ROUNDS);
  for (int q = 0; q < sum->comm->local_size; q++) {
    const RengaNodeFlags *flags = BoxFlags(sum, q);
    if (q == sum->comm->local_rank) continue;
    if (flags->empty[kind][half]) sum->spoiled = true;
    if (flags->vector[kind][half] != VectorBytes(sum))
      RengaCall(RaiseOther(sum, (size_t)flags->vector[kind][half],
                           sum->comm->by_node[sum->comm->node_begin[sum->comm->node] + q],
                           VectorBytes(sum)));
  }
  return RENGA_SUCCESS;
}

static void ShowOffsets(const struct _RengaCommSum *sum)
{
  int64_t *offset = OffsetsOf(sum, sum->comm->local_rank);
  *offset++ = sum->result - sum->direct->memory;
  for (int i = 0; i < sum->memory->n_own; i++)
    *offset++ = sum->memory->own[i] - sum->direct->memory;
}

/* A chunk of each block that another rank of the node answers for. */
static void CopyPieces(const struct _RengaCommSum *sum, int64_t round)
{
  const SumLevels *levels = sum->levels;
  int64_t chunk = 0, begin;
  for (int b = 0, t = 0; b < sum->comm->size; b++) {
    const int64_t length = SumChunk(sum, b, round, &begin);
    const bool own = t < levels->n_targets && levels->target[t] == b;
    t += own;
    for (int i = 0; i < sum->memory->n_own && !own; i++, chunk++)
      memcpy(InShared(sum, sum->comm->local_rank, chunk, round),
             InVector(sum, sum->memory->own[i], begin), (size_t)length * sum->element);
  }
}

/* Chunks that are summed stand behind the pieces. */
static int64_t ShownBlock(const struct _RengaCommSum *sum, int local, int target)
{
  return sum->levels->n_shown[local] + target;
}

static void CopyBlocksOut(const struct _RengaCommSum *sum, int64_t round)
{
  const SumLevels *levels = sum->levels;
  int64_t begin;
  for (int t = 0; t < levels->n_targets; t++) {
    const int64_t length = SumChunk(sum, levels->target[t], round, &begin);
    const int local = sum->comm->local_rank;
    memcpy(InShared(sum, local, ShownBlock(sum, local, t), round),
           InVector(sum, sum->result, begin), (size_t)length * sum->element);
  }
}

static void CopyBlocksIn(const struct _RengaCommSum *sum, int64_t round)
{
  const struct _p_RengaComm *comm = sum->comm;
  int64_t begin;
  for (int b = 0; b < comm->size; b++) {
    const int64_t length = SumChunk(sum, b, round, &begin);
    const SumShown *at = &sum->levels->block[b];
    if (at->local == comm->local_rank || length == 0) continue;
    const char *from = sum->direct
                           ? InVector(sum, SharedVector(sum, at->local, 0), begin)
                           : InShared(sum, at->local, ShownBlock(sum, at->local, at->chunk), round);
    memcpy(InVector(sum, sum->result, begin), from, (size_t)length * sum->element);
  }
}

/* Additions. */

/* Elements [at, at + count) of a chunk, whose place in the vector is begin. */
typedef struct {
  int64_t round, begin, at, count;
} SumRange;

/* What may not change is copied. */
static void CopyForSum(const struct _RengaCommSum *sum, int64_t count, SumAddend *left,
                       const SumAddend *right)
{
  char *room = left->room ? left->room : right->room;
  if (left->writable || right->writable || !room) return;
  memcpy(room, left->data, (size_t)count * sum->element);
  *left = (SumAddend){room, true, false, NULL};
}

/* The sum of two stands in one of them: in result, or in memory that received a piece. */
static RengaErrorCode MergeAddends(RengaCommSum sum, int64_t count, SumAddend *left,
                                   SumAddend *right)
{
  CopyForSum(sum, count, left, right);
  const bool to_right = right->home || (!left->home && !left->writable);
  const SumAddend *y = to_right ? right : left, *x = to_right ? left : right;
  RengaCheck(y->writable, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "two pieces of this rank are merged");
  RengaCall(sum->adder.begin(sum->adder.user, sum->type, count, y->data, x->data));
  *left = (SumAddend){y->data, true, y->home, NULL};
  return RENGA_SUCCESS;
}

/* The range of a piece. first: of the memory that receives the target's pieces. */
static SumAddend AddendOf(const struct _RengaCommSum *sum, int source, int first, bool home,
                          const SumRange *range)
{
  const size_t offset = (size_t)range->at * sum->element;
  const int number = first + source;
  if (source < 0)
    return (SumAddend){InVector(sum, sum->memory->own[-1 - source], range->begin) + offset, home,
                       home, NULL};
  const bool is_shown = IsShown(sum, number);
  char *data = ReceivedPiece(sum, number, range->round) + offset, *room = NULL;
  if (is_shown && sum->direct) {
    const SumShown *shown = &sum->levels->shown[number];
    room = data;
    data = InVector(sum, SharedVector(sum, shown->local, 1 + shown->chunk), range->begin) + offset;
  }
  if (!home) return (SumAddend){data, !room, false, room};
  char *in_result = InVector(sum, sum->result, range->begin) + offset;
  if (is_shown) memcpy(in_result, data, (size_t)range->count * sum->element);
  return (SumAddend){in_result, true, true, NULL};
}

/* By the tree; what is left stands in the stack. home: number of the piece in result, or -1. */
static RengaErrorCode AddRange(RengaCommSum sum, const SumPiece pieces[], int n, int first,
                               int home, const SumRange *range, int *depth)
{
  SumAddend *stack = sum->memory->stack;
  *depth = 0;
  for (int p = 0; p < n; p++) {
    stack[(*depth)++] = AddendOf(sum, pieces[p].source, first, p == home, range);
    for (int m = 0; m < pieces[p].merges; m++, --*depth)
      RengaCall(MergeAddends(sum, range->count, &stack[*depth - 2], &stack[*depth - 1]));
  }
  return RENGA_SUCCESS;
}

static int64_t RangeMost(const struct _RengaCommSum *sum)
{
  return IsQueued(sum) ? INT64_MAX : ADD_MOST;
}

/* Partial sums of nodes, as a relay. */
static RengaErrorCode AddRelay(RengaCommSum sum, int number, int64_t round)
{
  const SumRelayed *relay = &sum->levels->relay[number];
  SumAddend *stack = sum->memory->stack;
  int64_t begin, count;
  const int64_t length =
      SumChunk(sum, sum->levels->group[SUM_RELAY_OUT].message[number].block, round, &begin);
  for (int64_t at = 0; at < length; at += count) {
    const size_t offset = (size_t)at * sum->element;
    int depth = 0;
    count = length - at < RangeMost(sum) ? length - at : RangeMost(sum);
    for (int p = relay->begin; p < relay->end; p++) {
      const SumPiece *piece = &sum->levels->relay_piece[p];
      const bool came = piece->source >= 0;
      char *data = came ? ReceivedPiece(sum, piece->source, round)
                        : *MergedPiece(sum, round, -1 - piece->source);
      stack[depth++] = (SumAddend){data + offset, came, false, NULL};
      for (int m = 0; m < piece->merges; m++, depth--)
        RengaCall(MergeAddends(sum, count, &stack[depth - 2], &stack[depth - 1]));
    }
    if (at == 0) *RelayedSum(sum, round, number) = stack[0].data;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTarget(RengaCommSum sum, int target, int64_t round)
{
  const SumLevels *levels = sum->levels;
  SumRange range = {.round = round};
  const int64_t length = SumChunk(sum, levels->target[target], round, &range.begin);
  for (range.at = 0; range.at < length; range.at += range.count) {
    int depth;
    range.count = length - range.at < RangeMost(sum) ? length - range.at : RangeMost(sum);
    RengaCall(AddRange(sum, levels->node_piece, levels->n_node, target * levels->n_foreign, -1,
                       &range, &depth));
    for (int j = 0; j < depth && range.at == 0; j++)
      *MergedPiece(sum, round, target * levels->n_merged + j) = sum->memory->stack[j].data;
  }
  return RENGA_SUCCESS;
}

/* The same elements of all pieces, to who takes them. */
static RengaErrorCode GivePiecesTo(RengaCommSum sum, const SumRange *range)
{
  const SumLevels *levels = sum->levels;
  for (int p = 0; p < levels->n_pieces; p++)
    sum->memory->taken[p] = AddendOf(sum, levels->piece[p].source, 0, false, range).data;
  RengaCall(sum->folder.take(sum->folder.user, range->begin + range->at, range->count,
                             sum->memory->taken));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddOwnBlock(RengaCommSum sum, int64_t round)
{
  const SumLevels *levels = sum->levels;
  SumRange range = {.round = round};
  const int64_t length = SumChunk(sum, sum->comm->rank, round, &range.begin);
  for (range.at = 0; range.at < length; range.at += range.count) {
    int depth;
    range.count = length - range.at < RangeMost(sum) ? length - range.at : RangeMost(sum);
    if (sum->folder.take)
      RengaCall(GivePiecesTo(sum, &range));
    else
      RengaCall(AddRange(sum, levels->piece, levels->n_pieces, 0, levels->home, &range, &depth));
    if (levels->itself && range.at == 0)
      sum->memory->only[round % SUM_ROUNDS] = sum->memory->stack[0].data;
  }
  return RENGA_SUCCESS;
}

/* Steps of a round. */

/* What comes in of a kind, and what goes out. */
static RengaErrorCode WantBoth(RengaCommSum sum, SumGroupKind in, int64_t round)
{
  RengaCall(WantRound(sum, in, round));
  RengaCall(WantRound(sum, (SumGroupKind)(in + 1), round));
  return RENGA_SUCCESS;
}

static RengaErrorCode GivePiecesInNode(RengaCommSum sum, int64_t round, bool *done)
{
  if (!sum->shared) return WantBoth(sum, SUM_NODE_PIECE_IN, round);
  *done = MayShow(sum, NODE_PIECES, round);
  if (*done && sum->direct && round == 0) ShowOffsets(sum);
  if (*done && !sum->direct && sum->reduces && !sum->spoiled) CopyPieces(sum, round);
  if (*done) ShowFlags(sum, NODE_PIECES, round);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakePiecesInNode(RengaCommSum sum, int64_t round, bool *done)
{
  if (!sum->shared) {
    RengaCall(AskMessages(sum, SUM_NODE_PIECE_IN, round, done));
    return RENGA_SUCCESS;
  }
  *done = HaveShown(sum, NODE_PIECES, round + 1, false);
  if (*done) SumNote(sum, LookAtFlags(sum, NODE_PIECES, round));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddForNode(RengaCommSum sum, int64_t round, bool *done)
{
  const SumLevels *levels = sum->levels;
  (void)done;
  for (int t = 0; t < levels->n_targets && sum->reduces && !sum->spoiled; t++)
    if (t != levels->own_target || levels->away) SumNote(sum, AddTarget(sum, t, round));
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAdder(RengaCommSum sum, int64_t round, bool *done)
{
  (void)round;
  if (sum->reduces && sum->adder.test) SumNote(sum, sum->adder.test(sum->adder.user, done));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddRelays(RengaCommSum sum, int64_t round, bool *done)
{
  (void)done;
  for (int r = 0; r < sum->levels->n_relays && !sum->spoiled; r++)
    SumNote(sum, AddRelay(sum, r, round));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddOwnChunk(RengaCommSum sum, int64_t round, bool *done)
{
  (void)done;
  if (sum->reduces && !sum->spoiled) SumNote(sum, AddOwnBlock(sum, round));
  return RENGA_SUCCESS;
}

/* Only then may others' blocks be received: result may be one of the pieces. */
static RengaErrorCode EndPieces(RengaCommSum sum, int64_t round, bool *done)
{
  RengaCall(AskMessages(sum, SUM_NODE_PIECE_OUT, round, done));
  if (*done) RengaCall(AskMessages(sum, SUM_PIECE_OUT, round, done));
  if (*done) RengaCall(AskMessages(sum, SUM_RELAY_OUT, round, done));
  if (*done && sum->shared) Show(sum, NODE_PIECES, round, true);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeBlocks(RengaCommSum sum, int64_t round, bool *done)
{
  RengaCall(AskMessages(sum, SUM_BLOCK_IN, round, done));
  if (*done && (sum->levels->itself || sum->levels->n_relays > 0)) /* from where pieces come */
    RengaCall(AskMessages(sum, SUM_BLOCK_OUT, round, done));
  return RENGA_SUCCESS;
}

static RengaErrorCode GiveBlocksInNode(RengaCommSum sum, int64_t round, bool *done)
{
  if (!sum->shared) return WantBoth(sum, SUM_NODE_BLOCK_IN, round);
  *done = !sum->gathers || MayShow(sum, NODE_BLOCKS, round);
  if (*done && !sum->direct && sum->gathers && !sum->spoiled) CopyBlocksOut(sum, round);
  if (*done && sum->gathers) ShowFlags(sum, NODE_BLOCKS, round);
  if (!sum->gathers) Show(sum, NODE_BLOCKS, round, false);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeBlocksInNode(RengaCommSum sum, int64_t round, bool *done)
{
  if (!sum->shared) {
    RengaCall(AskMessages(sum, SUM_NODE_BLOCK_IN, round, done));
    return RENGA_SUCCESS;
  }
  *done = !sum->gathers || HaveShown(sum, NODE_BLOCKS, round + 1, false);
  if (*done && sum->gathers) SumNote(sum, LookAtFlags(sum, NODE_BLOCKS, round));
  if (*done && sum->gathers && !sum->spoiled) CopyBlocksIn(sum, round);
  if (*done) Show(sum, NODE_BLOCKS, round, true);
  return RENGA_SUCCESS;
}

/* Of a turn, the oldest round first. lag: the step is one of the round begun so many turns ago.
   Where no function goes the messages of a kind are begun, or asked for. */
static const struct {
  int lag;
  RengaErrorCode (*go)(RengaCommSum sum, int64_t round, bool *done);
  SumGroupKind in;
  bool asks;
} steps[] = {
    {.lag = 5, .go = TakeBlocksInNode}, {.lag = 4, .in = SUM_PASSED_IN, .asks = true},
    {.lag = 4, .go = GiveBlocksInNode}, {.lag = 3, .go = TakeBlocks},
    {.lag = 3, .in = SUM_PASSED_IN},    {.lag = 2, .in = SUM_PIECE_IN, .asks = true},
    {.lag = 2, .go = AddRelays},        {.lag = 2, .go = WaitAdder},
    {.lag = 2, .in = SUM_RELAY_IN},     {.lag = 1, .go = TakePiecesInNode},
    {.lag = 1, .go = AddForNode},       {.lag = 1, .go = WaitAdder},
    {.lag = 1, .in = SUM_PIECE_IN},     {.lag = 2, .in = SUM_RELAY_IN, .asks = true},
    {.lag = 2, .go = AddOwnChunk},      {.lag = 2, .go = WaitAdder},
    {.lag = 2, .go = EndPieces},        {.lag = 2, .in = SUM_BLOCK_IN},
    {.lag = 0, .go = GivePiecesInNode},
};
enum { N_STEPS = sizeof steps / sizeof *steps };

bool RengaCommSumIsOver(const struct _RengaCommSum *sum)
{
  return sum->turn > sum->rounds + SUM_LAG;
}

/* All that a turn has to do with others at once: relays by themselves. */
static RengaErrorCode ExchangeTurn(RengaCommSum sum, int64_t turn, bool relays)
{
  static const int lag[SUM_GROUPS] = {0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4};
  bool now[SUM_GROUPS];
  RengaErrorCode code = RENGA_SUCCESS;
  int n = 0;
  for (int g = 0; g < SUM_GROUPS; g++) {
    now[g] = turn >= lag[g] && turn - lag[g] < sum->rounds && relays == IsRelayed((SumGroupKind)g);
    if (now[g]) n += sum->levels->group[g].n;
  }
  if (n == 0) return RENGA_SUCCESS;
  RengaCall(sum->carrier.together(sum->carrier.user, true));
  for (int g = SUM_GROUPS - 1; g >= 0; g--)
    if (now[g] && !code) code = WantRound(sum, (SumGroupKind)g, turn - lag[g]);
  RengaKeepFirst_Private(&code, sum->carrier.together(sum->carrier.user, false));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All of it, where messages are queued. Others wait for a rank whose queue takes no more until the
   time limit. */
static void QueueAll(RengaCommSum sum)
{
  bool done;
  for (int64_t turn = 0; turn < sum->rounds + 4 && !sum->code; turn++) {
    SumNote(sum, ExchangeTurn(sum, turn, false));
    if (turn < sum->rounds && !sum->code) AddForNode(sum, turn, &done);
    if (turn < 1 || turn > sum->rounds || sum->code) continue;
    AddRelays(sum, turn - 1, &done);
    SumNote(sum, ExchangeTurn(sum, turn, true));
    if (!sum->code) AddOwnChunk(sum, turn - 1, &done);
  }
  sum->turn = sum->rounds + SUM_LAG + 1;
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

/* The last turn waits for what was sent. */
static RengaErrorCode GoStep(RengaCommSum sum, bool *done)
{
  const int64_t round = sum->turn - steps[sum->step].lag;
  if (sum->turn == sum->rounds + SUM_LAG) {
    for (int g = 0; g < SUM_GROUPS && *done; g++)
      RengaCall(AskMessages(sum, (SumGroupKind)g, sum->rounds - 1, done));
    if (*done && sum->direct) /* others read this rank's vectors */
      *done = HaveShown(sum, NODE_PIECES, sum->rounds, true) &&
              HaveShown(sum, NODE_BLOCKS, sum->rounds, true);
    return RENGA_SUCCESS;
  }
  if (round < 0 || round >= sum->rounds) return RENGA_SUCCESS;
  if (steps[sum->step].go)
    RengaCall(steps[sum->step].go(sum, round, done));
  else if (steps[sum->step].asks)
    RengaCall(AskMessages(sum, steps[sum->step].in, round, done));
  else
    RengaCall(WantBoth(sum, steps[sum->step].in, round));
  return RENGA_SUCCESS;
}

static void GoSteps(RengaCommSum sum)
{
  for (bool done = true; done && !RengaCommSumIsOver(sum);) {
    sum->stall = GoStep(sum, &done);
    if (sum->stall || !done) return;
    sum->step = (sum->step + 1) % N_STEPS;
    if (sum->step == 0) sum->turn++;
    if (sum->shared) sum->comm->sums->moved++;
  }
}

void RengaCommSumAdvance(RengaCommSum sum)
{
  if (sum->busy || sum->stall || RengaCommSumIsOver(sum)) return;
  sum->busy = true;
  if (IsQueued(sum)) QueueAll(sum);
  if (!RengaCommSumIsOver(sum)) sum->stall = MoveAllMessages(sum);
  if (!sum->stall) GoSteps(sum);
  sum->busy = false;
  if (!RengaCommSumIsOver(sum)) return;
  if (sum->shared) sum->shared->ended[sum->slot] += sum->rounds;
  RengaCommSumMoves(sum, false);
}
