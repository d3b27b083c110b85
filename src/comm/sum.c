/* Comm: sums that begin, are tested and end (rengacomm.h), several at once.

   Sums of one comm are told apart by tags, counted as they begin. A sum takes errors to its own
   end: who waits for something else is not told. */
#include "nodememory.h"
#include "sum.h"

static void MemoryFree(SumMemory **memory)
{
  if (!*memory) return;
  RengaFree(&(*memory)->own);
  RengaFree(&(*memory)->merged);
  RengaFree(&(*memory)->relayed);
  RengaFree(&(*memory)->stack);
  RengaFree(&(*memory)->taken);
  RengaFree(&(*memory)->open);
  RengaFree(&(*memory)->requests);
  RengaFree(memory);
}

static void SumFree(RengaCommSum *sum)
{
  RengaFree(&(*sum)->bounds);
  RengaCommSumFreeLevels(&(*sum)->levels);
  MemoryFree(&(*sum)->memory);
  RengaFree(sum);
}

/* All that the sum needs: nothing is sent. */
static RengaErrorCode SumMake(RengaComm comm, bool reduces, bool gathers,
                              const RengaCommSumTask *task, RengaCommSum *sum, const char *function)
{
  RengaCommSum made;
  RengaCheckPointerOf(function, comm);
  RengaCheckPointerOf(function, task);
  RengaCheckPointerOf(function, sum);
  RengaCall(RengaMalloc(1, &made));
  made->comm = comm;
  made->reduces = reduces;
  made->gathers = gathers;
  const RengaErrorCode code = RengaCommSumSetUp(made, task);
  if (code) SumFree(&made);
  RengaCall(code);
  *sum = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode SumBegin(RengaComm comm, bool reduces, bool gathers,
                               const RengaCommSumTask *task, RengaCommSum *sum,
                               const char *function)
{
  RengaCommSum made;
  RengaCall(SumMake(comm, reduces, gathers, task, &made, function));
  const RengaErrorCode code = RengaCommSumStart(made);
  if (code) SumFree(&made);
  RengaCall(code);
  *sum = made;
  return RENGA_SUCCESS;
}

/* Begin to add up all ranks' pieces by the fixed tree. Collective; sums of one comm are begun in
   the same order on all its ranks. A reduce-scatter of pieces and an all-gather of sums, in rounds:
   within nodes first, by memory that their ranks share where the vectors are the host's, then
   between nodes, and back, so that a node sends a sum once, by all its ranks. It goes on in
   RengaCommProgress, and whenever this rank waits for anything in comm, in the comm that it was
   made of or in groups of that; only there is the adder called, and between begin and end no other
   way. No piece is changed but the one that is the result. The bits depend neither on blocks nor on
   leaves. Several sums at once need work and results of their own. task: the task, which is read
   now: blocks and the lists of leaves and pieces may be freed or changed. The vectors, work and all
   that the adder needs must stay until the sum has ended. sum: the sum, for RengaCommSumTest;
   RengaCommSumEnd or RengaCommSumCancel must end it. */
RengaErrorCode RengaCommSumBegin(RengaComm comm, const RengaCommSumTask *task, RengaCommSum *sum)
{
  RengaCall(SumBegin(comm, true, true, task, sum, __func__));
  return RENGA_SUCCESS;
}

/* Begin to add up all ranks' pieces, each rank its own block. Collective; as RengaCommSumBegin. The
   same bits as the whole sum has in this block. task: the task, as of RengaCommSumBegin; of result
   only this rank's block is written. */
RengaErrorCode RengaCommReduceScatterBegin(RengaComm comm, const RengaCommSumTask *task,
                                           RengaCommSum *sum)
{
  RengaCall(SumBegin(comm, true, false, task, sum, __func__));
  return RENGA_SUCCESS;
}

/* Begin to give all ranks each rank's block of a vector. Collective; as RengaCommSumBegin. task:
   blocks, type and result are read; this rank's block of result is sent, the others are written. */
RengaErrorCode RengaCommAllGatherBegin(RengaComm comm, const RengaCommSumTask *task,
                                       RengaCommSum *sum)
{
  RengaCall(SumBegin(comm, false, true, task, sum, __func__));
  return RENGA_SUCCESS;
}

/* All that an all-gather allocates, before it begins. For who may not fail any more when it is to
   begin. sum: RengaCommSumStart begins it; RengaCommSumCancel frees it, before that without a
   message. */
RengaErrorCode RengaCommAllGatherPrepare(RengaComm comm, const RengaCommSumTask *task,
                                         RengaCommSum *sum)
{
  RengaCall(SumMake(comm, false, true, task, sum, __func__));
  return RENGA_SUCCESS;
}

/* The boxes of shared memory go round among the sums of a comm. */
static void TakeBoxes(RengaCommSum sum)
{
  RengaNodeMemory shared = sum->shared;
  if (shared->sums < NODE_SUMS) sum->comm->sums->shared_bytes += (int64_t)RengaNodeBoxBytes(shared);
  sum->slot = (int)(shared->sums++ % NODE_SUMS);
  sum->base = shared->begun[sum->slot];
  shared->begun[sum->slot] += sum->rounds;
}

/* Begin a sum that is prepared. Collective; as RengaCommSumBegin. Allocates nothing. */
RengaErrorCode RengaCommSumStart(RengaCommSum sum)
{
  RengaCheckPointer(sum);
  RengaCheck(!sum->started, MPI_COMM_SELF, RENGA_ERR_ORDER, "the sum was begun before");
  const RengaCommCarrier *carrier = &sum->carrier;
  if (carrier->reserve)
    RengaCall(
        carrier->reserve(carrier->user, sum->memory->n_places, (size_t)sum->chunk * sum->element));
  RengaComm comm = sum->comm;
  sum->started = true;
  sum->tag = (int)(SUM_TAGS * (comm->begun++ % (comm->tag_limit / SUM_TAGS)));
  RengaCommSumEnter(sum);
  if (sum->shared) TakeBoxes(sum);
  RengaCommSumMoves(sum, true);
  RengaCommSumAdvance(sum);
  return RENGA_SUCCESS;
}

/* The error that stopped it is told once; then it is tried again. It may wait for boxes of one that
   began before. */
static RengaErrorCode SumMove(RengaCommSum sum)
{
  for (RengaCommSum s = sum->shared ? sum->comm->sums->first : sum; s != sum; s = s->next)
    RengaCommSumAdvance(s);
  RengaCommSumAdvance(sum);
  const RengaErrorCode code = sum->stall;
  sum->stall = RENGA_SUCCESS;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Is a sum done? done: nothing of it is under way; RengaCommSumEnd is still to be called, and does
   not wait. */
RengaErrorCode RengaCommSumTest(RengaCommSum sum, bool *done)
{
  RengaCheckPointers(sum, done);
  RengaCall(SumMove(sum));
  *done = RengaCommSumIsOver(sum);
  return RENGA_SUCCESS;
}

/* The oldest round that is not over. */
static void DescribeSum(const void *subject, size_t size, char text[])
{
  const struct _RengaCommSum *sum = subject;
  const int64_t oldest = sum->turn > SUM_LAG ? sum->turn - SUM_LAG : 0;
  const int64_t round = oldest < sum->rounds ? oldest : sum->rounds - 1; /* others still read */
  snprintf(text, size, " (round %lld of %lld of a sum over %d ranks)", (long long)round + 1,
           (long long)sum->rounds, sum->comm->size);
}

static RengaErrorCode SumWait(RengaCommSum sum, const char *what)
{
  RengaWait wait = {
      .comm = sum->comm->hdr.comm, .what = what, .describe = DescribeSum, .subject = sum};
  for (int64_t moved = -1;;) {
    RengaCall(SumMove(sum));
    if (RengaCommSumIsOver(sum)) return RENGA_SUCCESS;
    if (moved != sum->comm->sums->moved) wait.pauses = 0; /* no sleep while messages come */
    moved = sum->comm->sums->moved;
    RengaCall(RengaCommPause_Private(sum->comm, &wait));
  }
}

/* Wait until a sum is done, politely. Collective, in any order of sums. sum: set to NULL where
   nothing of it is under way; NULL is done. whole: true: the result is there. false: the adder
   failed on some rank, or a rank cancelled the sum; this holds on all ranks that lack a part of it.
   It is set on errors too. */
RengaErrorCode RengaCommSumEnd(RengaCommSum *sum, const char *what, bool *whole)
{
  RengaCheckPointers(sum, what, whole);
  *whole = *sum == NULL;
  if (*sum == NULL) return RENGA_SUCCESS;
  RengaCheck((*sum)->started, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the sum is prepared only: call RengaCommSumStart");
  const RengaLogEvent event = (*sum)->comm->event[RENGA_COMM_EVENT_TREE];
  RengaLogEventBegin(event);
  RengaErrorCode code = SumWait(*sum, what);
  RengaLogEventEnd(event, 0, (*sum)->sent, (*sum)->bytes);
  RengaCall(code);
  *whole = !(*sum)->spoiled;
  code = (*sum)->code;
  if ((*sum)->carrier.take)
    RengaKeepFirst_Private(&code, (*sum)->carrier.take((*sum)->carrier.user));
  RengaCommSumLeave(*sum);
  SumFree(sum);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* End a sum whose result is not wanted. Collective: each rank ends or cancels the sum. The rank
   goes through its messages, but sends them empty and adds nothing. Other ranks' sums are not whole
   then, unless all that they need of this rank had left before. sum: set to NULL; NULL is none. */
RengaErrorCode RengaCommSumCancel(RengaCommSum *sum, const char *what)
{
  RengaCheckPointers(sum, what);
  if (*sum && !(*sum)->started) SumFree(sum);
  if (*sum == NULL) return RENGA_SUCCESS;
  (*sum)->spoiled = true;
  RengaErrorCode code = SumWait(*sum, what);
  const RengaCommCarrier *carrier = &(*sum)->carrier;
  if (carrier->test && carrier->take) RengaKeepFirst_Private(&code, carrier->take(carrier->user));
  RengaCommSumLeave(*sum);
  if (code) RengaWatchBreak_Private((*sum)->comm->hdr.comm);
  SumFree(sum);
  RengaCall(code);
  return RENGA_SUCCESS;
}
