/* Proof of the lists by executing them in the abstract: receives and sums over replicas block,
   sends do not, and messages of one row of the table between two replicas arrive in the order in
   which they were sent. What replicas do together with each micro-batch they do at one place of
   one list (commonlist.c). Where ranks have several stages the lists are executed once more, in the
   room that they were seen to need, and an action waits until what it writes over is taken: a
   rank may be waiting for itself. A rank runs until it would wait; when no rank can go on, either
   all are done or the first that waits does so for ever. What an action needs, makes and frees is
   one table (actionrules.c). */
#include "proof.h"
#include <string.h>

static RengaErrorCode AllocatePairs(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int64_t pairs = 0;
  RengaCall(RengaMalloc(schedule->n_messages + 1, &proof->first_pair));
  for (int row = 0; row < schedule->n_messages; row++) {
    const RengaMessage *message = &schedule->message[row];
    proof->first_pair[row] = pairs;
    pairs += schedule->replicas[message->from] + schedule->replicas[message->to];
  }
  RengaCall(RengaMalloc(pairs + 1, &proof->sent));
  RengaCall(RengaMalloc(pairs + 1, &proof->received));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateProofSums(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  RengaCall(RengaMalloc(schedule->stages + 1, &proof->first_bucket));
  for (int s = 0; s < schedule->stages; s++) {
    proof->first_bucket[s + 1] = proof->first_bucket[s] + schedule->buckets[s];
    if (schedule->replicas[s] > proof->most_replicas) proof->most_replicas = schedule->replicas[s];
  }
  const int64_t buckets = proof->first_bucket[schedule->stages];
  for (int kind = 0; kind < RENGA_SUM_KINDS; kind++) {
    RengaCall(RengaMalloc(buckets, &proof->summing[kind]));
    RengaCall(RengaMalloc(buckets * proof->most_replicas, &proof->sum[kind]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateProof(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int64_t p = schedule->stages, m = schedule->microbatches, n = schedule->n_messages;
  RengaCall(RengaMalloc(schedule->ranks, &proof->next));
  RengaCall(RengaMalloc(schedule->ranks, &proof->updated));
  RengaCall(RengaMalloc(schedule->seats, &proof->count));
  RengaCall(RengaMalloc(schedule->seats, &proof->recomputed));
  for (int c = 0; c < schedule->seats; c++) proof->recomputed[c] = NOTHING;
  RengaCall(RengaMalloc(p, &proof->in_flight));
  RengaCall(RengaMalloc(p, &proof->lag));
  RengaCall(RengaMalloc(p * m + 1, &proof->fact));
  RengaCall(RengaMalloc(n + 1, &proof->row_sent));
  RengaCall(RengaMalloc(n + 1, &proof->row_received));
  RengaCall(RengaMalloc(n * m + 1, &proof->queue));
  RengaCall(RengaMalloc(n * m + 1, &proof->arrived));
  RengaCall(AllocateProofSums(proof));
  RengaCall(AllocatePairs(proof));
  return RENGA_SUCCESS;
}

static void FreeProof(Proof *proof)
{
  RengaFree(&proof->next);
  RengaFree(&proof->updated);
  RengaFree(&proof->count);
  RengaFree(&proof->recomputed);
  RengaFree(&proof->in_flight);
  RengaFree(&proof->lag);
  RengaFree(&proof->fact);
  RengaFree(&proof->first_bucket);
  for (int kind = 0; kind < RENGA_SUM_KINDS; kind++) {
    RengaFree(&proof->summing[kind]);
    RengaFree(&proof->sum[kind]);
  }
  RengaFree(&proof->first_pair);
  RengaFree(&proof->sent);
  RengaFree(&proof->received);
  RengaFree(&proof->row_sent);
  RengaFree(&proof->row_received);
  RengaFree(&proof->queue);
  RengaFree(&proof->arrived);
}

/* Ranges of two stages overlap along a staircase, so that the sum of the replicas tells the pairs
   of replicas apart, and the micro-batches of a pair are consecutive. first: the least of them. */
static int64_t PairOf(const Proof *proof, int row, int64_t microbatch, int64_t *first)
{
  RengaSchedule schedule = proof->schedule;
  const RengaMessage *message = &schedule->message[row];
  const int from = RengaScheduleSharing_Private(schedule, message->from)->owner[microbatch];
  const int to = RengaScheduleSharing_Private(schedule, message->to)->owner[microbatch];
  const int64_t a = RengaScheduleChunk_Private(schedule, message->from, from)->first;
  const int64_t b = RengaScheduleChunk_Private(schedule, message->to, to)->first;
  *first = a > b ? a : b;
  return proof->first_pair[row] + from + to;
}

/* What is sent lies where it was made: an activation until the gradients of its micro-batch are
   made, or without these until the next forward; a gradient until the second backward after it. */
static bool IsOverwritten(const Proof *proof, const RengaScheduleChunk *chunk,
                          const RengaMessage *message, int64_t microbatch)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t *count = CountsOf(proof, chunk);
  const int64_t turn = RengaScheduleSharing_Private(schedule, chunk->stage)->turn[microbatch];
  if (message->backward) return count[COUNT_INPUT] > turn + RENGA_SCHEDULE_GRADIENTS;
  return schedule->forward_only ? count[COUNT_FORWARD] > turn + 1 : count[COUNT_WEIGHT] > turn;
}

static RengaErrorCode ProveSend(Proof *proof, const RengaScheduleChunk *chunk,
                                const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const RengaMessage *message = &schedule->message[action->message];
  const int64_t m = schedule->microbatches;
  const unsigned made = message->backward ? FACT_INPUT : FACT_FORWARD;
  int64_t first, pair = PairOf(proof, action->message, action->microbatch, &first);
  Require(message->from == chunk->stage, "the message is another stage's to send");
  Require(*FactsOf(proof, chunk->stage, action->microbatch) & made,
          "it comes before the action that makes it");
  Require(!IsOverwritten(proof, chunk, message, action->microbatch),
          "what it sends is no longer there: a later action has taken its place");
  Require(proof->row_sent[action->message] < m && first + proof->sent[pair] < m, "sent too often");
  proof->queue[action->message * m + first + proof->sent[pair]++] = action->microbatch;
  proof->row_sent[action->message]++;
  return RENGA_SUCCESS;
}

/* A message has a buffer until the backward of its micro-batch; there is one more of them than
   micro-batches are in flight, and of gradients a fixed number. */
static RengaErrorCode CountBuffers(Proof *proof, const RengaScheduleChunk *chunk,
                                   const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t *count = CountsOf(proof, chunk);
  const int64_t turn =
      RengaScheduleSharing_Private(schedule, chunk->stage)->turn[action->microbatch];
  const int64_t held = turn + 1 - count[schedule->forward_only ? COUNT_FORWARD : COUNT_WEIGHT];
  if (schedule->message[action->message].backward)
    Require(turn + 1 - count[COUNT_INPUT] <= RENGA_SCHEDULE_GRADIENTS,
            "there is no room yet for this gradient");
  else if (held > 1)
    RengaCall(RengaProofCountInFlight_Private(proof, chunk, held - 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive(Proof *proof, const RengaScheduleChunk *chunk,
                              const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t m = schedule->microbatches;
  int64_t first, pair = PairOf(proof, action->message, action->microbatch, &first);
  Require(schedule->message[action->message].to == chunk->stage,
          "the message is for another stage");
  *waits = proof->received[pair] == proof->sent[pair];
  if (*waits) return RENGA_SUCCESS;
  Require(proof->queue[action->message * m + first + proof->received[pair]] == action->microbatch,
          "the message that comes next is of another micro-batch");
  RengaCall(CountBuffers(proof, chunk, action));
  proof->arrived[action->message * m + action->microbatch] = true;
  proof->received[pair]++;
  proof->row_received[action->message]++;
  return RENGA_SUCCESS;
}

/* The chunk of an action; NULL: another rank's. */
static const RengaScheduleChunk *ChunkOfAction(const RengaActionList list,
                                               const RengaAction *action)
{
  for (int c = 0; c < list->n_chunks; c++)
    if (list->chunk[c].stage == action->stage && list->chunk[c].replica == action->replica)
      return &list->chunk[c];
  return NULL;
}

static RengaErrorCode CheckAction(const Proof *proof, const RengaScheduleChunk *chunk,
                                  const RengaAction *action)
{
  const bool moves = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  const bool works = RengaProofComputes_Private(action);
  Require((!works && !moves) || (action->microbatch >= chunk->first &&
                                 action->microbatch < chunk->first + chunk->count),
          "there is no such micro-batch");
  Require(!moves || (action->message >= 0 && action->message < proof->schedule->n_messages),
          "there is no such message");
  Require(!proof->updated[chunk->rank] || action->kind == RENGA_ACTION_GATHER_PARAMETERS,
          "it comes after the update");
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveStep(Proof *proof, int rank, bool *waits)
{
  const RengaActionList list = &proof->schedule->list[rank];
  const RengaAction *action = &list->action[proof->next[rank]];
  const RengaScheduleChunk *chunk = ChunkOfAction(list, action);
  *waits = false;
  if (!chunk) return RengaProofRefuse_Private(proof, list->chunk, "the action is another stage's");
  RengaCall(CheckAction(proof, chunk, action));
  switch (action->kind) {
  case RENGA_ACTION_SEND:
    return ProveSend(proof, chunk, action);
  case RENGA_ACTION_RECEIVE:
    return Receive(proof, chunk, action, waits);
  case RENGA_ACTION_REDUCE:
  case RENGA_ACTION_GATHER:
  case RENGA_ACTION_GATHER_PARAMETERS:
    return RengaProofSum_Private(proof, chunk, action, waits);
  case RENGA_ACTION_UPDATE:
    return RengaProofUpdate_Private(proof, chunk);
  default:
    if (RengaProofComputes_Private(action))
      return RengaProofCompute_Private(proof, chunk, action, waits);
    return RengaProofRefuse_Private(proof, chunk, "the pipeline has no such action");
  }
}

/* Nothing is left over: each micro-batch is done, each message taken. */
static RengaErrorCode CheckAllDone(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t m = schedule->microbatches;
  const bool forward_only = schedule->forward_only;
  for (int c = 0; c < schedule->seats; c++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[c];
    Require(proof->count[c][COUNT_FORWARD] == chunk->count,
            "the list has no forward of some micro-batch");
    Require(forward_only || proof->updated[chunk->rank], "the list has no update");
    RengaCall(RengaProofGathered_Private(proof, chunk));
  }
  for (int row = 0; row < schedule->n_messages; row++) {
    const RengaMessage *message = &schedule->message[row];
    const int64_t wanted = forward_only && message->backward ? 0 : m;
    const bool unsent = proof->row_sent[row] < wanted;
    const RengaScheduleChunk *chunk =
        RengaScheduleChunk_Private(schedule, unsent ? message->from : message->to, 0);
    Require(proof->row_sent[row] == wanted, "some message is not sent for each micro-batch");
    Require(proof->row_received[row] == wanted,
            "some message is not received for each micro-batch");
  }
  return RENGA_SUCCESS;
}

/* The first rank that waits; before it one that waits until what it writes over is taken: others
   wait for its messages. */
static int FindWaiting(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int found = NOTHING;
  bool computes = false;
  for (int r = 0; r < schedule->ranks && !computes; r++) {
    const RengaActionList list = &schedule->list[r];
    if (proof->next[r] == list->n_actions) continue;
    computes = RengaProofComputes_Private(&list->action[proof->next[r]]);
    if (found == NOTHING || computes) found = r;
  }
  return found;
}

static RengaErrorCode RefuseWaiting(const Proof *proof, int rank)
{
  const RengaActionList list = &proof->schedule->list[rank];
  const RengaAction *action = &list->action[proof->next[rank]];
  const char *why = "it waits for ever: what it writes over is not taken before by the stage that "
                    "it was sent to; let that stage come earlier, or have fewer chunks per rank";
  const RengaScheduleChunk *chunk = ChunkOfAction(list, action);
  if (RengaScheduleSumOf_Private(action->kind) != RENGA_SUM_KINDS)
    why = "it waits for ever: another replica does not come to this sum";
  if (action->kind == RENGA_ACTION_RECEIVE) why = "it waits for ever: nothing sends this message";
  return RengaProofRefuse_Private(proof, chunk, why);
}

static RengaErrorCode RunProof(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  for (proof->moved = true; proof->moved;) {
    proof->moved = false;
    for (int r = schedule->ranks - 1; r >= 0; r--) {
      bool waits = false;
      while (!waits && proof->next[r] < schedule->list[r].n_actions) {
        RengaCall(ProveStep(proof, r, &waits));
        if (!waits) proof->next[r]++, proof->moved = true;
      }
    }
  }
  const int waiting = FindWaiting(proof);
  if (waiting != NOTHING) return RefuseWaiting(proof, waiting);
  RengaCall(CheckAllDone(proof));
  return RENGA_SUCCESS;
}

/* Once more, in the room that the lists were seen to need; of forwards only, in what they get. */
static RengaErrorCode RunRepeated(const Proof *first)
{
  RengaSchedule schedule = first->schedule;
  Proof proof = {.schedule = schedule,
                 .slots = schedule->forward_only ? schedule->in_flight : first->in_flight,
                 .lags = first->lag};
  RengaErrorCode code = AllocateProof(&proof);
  if (!code) code = RunProof(&proof);
  FreeProof(&proof);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void TakeNumbers(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  const size_t bytes = (size_t)schedule->stages * sizeof(int64_t);
  if (!schedule->forward_only || !RengaScheduleSharesRanks_Private(schedule))
    memcpy(schedule->in_flight, proof->in_flight, bytes);
  memcpy(schedule->lag, proof->lag, bytes);
}

RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule)
{
  Proof proof = {.schedule = schedule};
  RengaErrorCode code = AllocateProof(&proof);
  if (!code) code = RengaProofAligned_Private(&proof);
  if (!code) code = RunProof(&proof);
  if (!code && RengaScheduleSharesRanks_Private(schedule)) code = RunRepeated(&proof);
  if (!code) TakeNumbers(&proof);
  FreeProof(&proof);
  RengaCall(code);
  return RENGA_SUCCESS;
}
