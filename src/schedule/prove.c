/* Proof of the lists by executing them in the abstract: receives and sums over replicas block,
   sends do not, and messages of one row of the table between two replicas arrive in the order in
   which they were sent. Where a rank has several stages an action also waits until what it writes
   over is taken: the rank may be waiting for itself. A rank runs until it would wait; when no rank
   can go on, either all are
   done or the first that waits does so for ever. What an action needs, makes and frees is one
   table. */
#include "scheduleimpl.h"
#include <string.h>

enum { NOTHING = -1 };

/* What is true of a micro-batch in a stage. */
enum {
  FACT_FORWARD = 1, /* its forward is done */
  FACT_SAVED = 2,   /* what backward reads is there */
  FACT_INPUT = 4,   /* gradients of what the stage receives are made */
  FACT_WEIGHT = 8,  /* gradients of parameters are made */
};

/* Counters of a chunk: how many of its micro-batches had their forward, their gradients of inputs,
   of weights. */
enum { COUNT_FORWARD, COUNT_INPUT, COUNT_WEIGHT, COUNTS };

/* What an action needs of its micro-batch in its stage, and what is true afterwards. */
typedef struct {
  bool known, backward;   /* it has a rule; it is one of training only */
  unsigned needs, spoils; /* facts that must hold, that must not */
  unsigned makes, frees;
  RengaRowsKind receives;  /* messages that must have come; RENGA_ROWS_KINDS: none */
  bool counts[COUNTS];     /* micro-batches come in the order of the ranks in each of these */
  const char *out_of_turn; /* the sentence where one does not */
} Rule;

static const char gradients_in_order[] =
    "gradients are added in the order of the micro-batches: an earlier one is not done";

static const Rule rules[RENGA_ACTION_KINDS] = {
    [RENGA_ACTION_FORWARD] = {.known = true,
                              .spoils = FACT_FORWARD,
                              .makes = FACT_FORWARD | FACT_SAVED,
                              .receives = RENGA_ROWS_RECEIVE_FORWARD,
                              .counts = {[COUNT_FORWARD] = true},
                              .out_of_turn =
                                  "another micro-batch comes before it in the order of the ranks"},
    [RENGA_ACTION_RECOMPUTE] = {.known = true,
                                .backward = true,
                                .needs = FACT_FORWARD,
                                .spoils = FACT_INPUT,
                                .makes = FACT_SAVED,
                                .receives = RENGA_ROWS_KINDS},
    [RENGA_ACTION_BACKWARD] = {.known = true,
                               .backward = true,
                               .needs = FACT_FORWARD | FACT_SAVED,
                               .spoils = FACT_INPUT,
                               .makes = FACT_INPUT | FACT_WEIGHT,
                               .frees = FACT_SAVED,
                               .receives = RENGA_ROWS_RECEIVE_BACKWARD,
                               .counts = {[COUNT_INPUT] = true, [COUNT_WEIGHT] = true},
                               .out_of_turn = gradients_in_order},
    [RENGA_ACTION_BACKWARD_INPUT] = {.known = true,
                                     .backward = true,
                                     .needs = FACT_FORWARD | FACT_SAVED,
                                     .spoils = FACT_INPUT,
                                     .makes = FACT_INPUT,
                                     .receives = RENGA_ROWS_RECEIVE_BACKWARD,
                                     .counts = {[COUNT_INPUT] = true},
                                     .out_of_turn = gradients_in_order},
    [RENGA_ACTION_BACKWARD_WEIGHT] = {.known = true,
                                      .backward = true,
                                      .needs = FACT_FORWARD | FACT_INPUT | FACT_SAVED,
                                      .spoils = FACT_WEIGHT,
                                      .makes = FACT_WEIGHT,
                                      .frees = FACT_SAVED,
                                      .receives = RENGA_ROWS_KINDS,
                                      .counts = {[COUNT_WEIGHT] = true},
                                      .out_of_turn = gradients_in_order},
};

/* How far a replica is with a sum over all of them. */
typedef enum { SUM_AHEAD, SUM_WAITED_FOR, SUM_DONE } SumState;

typedef struct {
  RengaSchedule schedule;
  int64_t *next;            /* [rank] place in its list */
  bool *updated;            /* [rank] */
  int64_t (*count)[COUNTS]; /* [chunk] */
  int64_t *recomputed;      /* [chunk] micro-batch whose activations are there, or NOTHING */
  int64_t *in_flight;       /* [stage] the most so far */
  int64_t *lag;             /* [stage] the most gradients of inputs without those of parameters */
  unsigned char *fact;      /* [stage][micro-batch] */
  int *first_bucket;        /* [stage + 1] */
  int *summing;             /* [bucket] replicas that came to its sum */
  unsigned char *sum;       /* [bucket][replica of the stage with most] SumState */
  int most_replicas;
  int64_t *first_pair;      /* [message] */
  int64_t *queue;           /* [message][place] micro-batch sent; each pair has its own places */
  int64_t *sent, *received; /* [pair] how many */
  int64_t *row_sent, *row_received; /* [message] how many */
  bool *arrived;                    /* [message][micro-batch] received */
} Proof;

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

static RengaErrorCode AllocateSums(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  RengaCall(RengaMalloc(schedule->stages + 1, &proof->first_bucket));
  for (int s = 0; s < schedule->stages; s++) {
    proof->first_bucket[s + 1] = proof->first_bucket[s] + schedule->buckets[s];
    if (schedule->replicas[s] > proof->most_replicas) proof->most_replicas = schedule->replicas[s];
  }
  const int64_t buckets = proof->first_bucket[schedule->stages];
  RengaCall(RengaMalloc(buckets, &proof->summing));
  RengaCall(RengaMalloc(buckets * proof->most_replicas, &proof->sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode Allocate(Proof *proof)
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
  RengaCall(AllocateSums(proof));
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
  RengaFree(&proof->summing);
  RengaFree(&proof->sum);
  RengaFree(&proof->first_pair);
  RengaFree(&proof->sent);
  RengaFree(&proof->received);
  RengaFree(&proof->row_sent);
  RengaFree(&proof->row_received);
  RengaFree(&proof->queue);
  RengaFree(&proof->arrived);
}

/* Raise: where in which list, what the action is, and what is wrong with it. */
static RengaErrorCode Refuse(const Proof *proof, const RengaScheduleChunk *chunk, const char *why)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList list = &schedule->list[chunk->rank];
  const int64_t next = proof->next[chunk->rank];
  char text[200] = "end of the list", replica[32] = "";
  if (next < list->n_actions)
    RengaScheduleDescribe_Private(schedule, &list->action[next], sizeof text, text);
  if (schedule->replicas[chunk->stage] > 1)
    snprintf(replica, sizeof replica, ", replica %d", chunk->replica);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN, "schedule %s: stage %d%s, action %lld (%s): %s",
             schedule->hdr.type_name, chunk->stage, replica, (long long)next, text, why);
}

#define Require(condition, why)                                                                    \
  do {                                                                                             \
    if (!(condition)) return Refuse(proof, chunk, why);                                            \
  } while (0)

static int64_t *CountsOf(const Proof *proof, const RengaScheduleChunk *chunk)
{
  return proof->count[chunk - proof->schedule->chunk];
}

static unsigned char *FactsOf(const Proof *proof, int stage, int64_t microbatch)
{
  return &proof->fact[stage * proof->schedule->microbatches + microbatch];
}

static bool AllArrived(const Proof *proof, int stage, RengaRowsKind kind, int64_t microbatch)
{
  int count = 0;
  const int *row = RengaScheduleRows_Private(proof->schedule, stage, kind, &count);
  for (int i = 0; i < count; i++)
    if (!proof->arrived[row[i] * proof->schedule->microbatches + microbatch]) return false;
  return true;
}

static bool IsInTurn(const int64_t count[], const Rule *rule, const RengaScheduleChunk *chunk,
                     int64_t microbatch)
{
  for (int k = 0; k < COUNTS; k++)
    if (rule->counts[k] && microbatch != chunk->order[count[k]]) return false;
  return true;
}

/* What a forward leaves behind is there until the last gradient of its micro-batch is made. */
static RengaErrorCode CountInFlight(Proof *proof, const RengaScheduleChunk *chunk, int64_t held)
{
  RengaSchedule schedule = proof->schedule;
  if (held <= proof->in_flight[chunk->stage]) return RENGA_SUCCESS;
  proof->in_flight[chunk->stage] = held;
  Require(!schedule->ops->warm_up || held <= schedule->warm_up[chunk->stage] + 1,
          "more micro-batches in flight than the type promises");
  return RENGA_SUCCESS;
}

/* A stage that recomputes has room for what backward reads of one micro-batch. */
static void TakeRoom(Proof *proof, const RengaScheduleChunk *chunk, int64_t microbatch)
{
  int64_t *there = &proof->recomputed[chunk - proof->schedule->chunk];
  if (*there != NOTHING) *FactsOf(proof, chunk->stage, *there) &= (unsigned char)~FACT_SAVED;
  *there = microbatch;
}

static RengaErrorCode CheckFacts(const Proof *proof, const RengaScheduleChunk *chunk,
                                 const Rule *rule, unsigned fact)
{
  const unsigned missing = rule->needs & ~fact;
  Require(!(missing & FACT_FORWARD), "it comes before its forward");
  Require(!(missing & FACT_INPUT), "it comes before its backward input");
  Require(!(rule->spoils & fact), rule->makes & ~(unsigned)FACT_SAVED
                                      ? "it was done before"
                                      : "it comes after its backward");
  return RENGA_SUCCESS;
}

/* Whether the stage that gets the message has room for it, in the least memory that a rank may
   have: of an activation for one more than had their forward. */
static bool IsTaken(const Proof *proof, const RengaMessage *message, int64_t microbatch)
{
  RengaSchedule schedule = proof->schedule;
  const RengaSharing *sharing = RengaScheduleSharing_Private(schedule, message->to);
  const int64_t *count = CountsOf(
      proof, RengaScheduleChunk_Private(schedule, message->to, sharing->owner[microbatch]));
  const int64_t turn = sharing->turn[microbatch];
  if (message->backward) return turn < count[COUNT_INPUT] + RENGA_SCHEDULE_GRADIENTS;
  return turn <=
         count[COUNT_FORWARD] + (schedule->forward_only ? schedule->in_flight[message->to] : 0);
}

/* A forward writes where that lay whose gradients are made, or without these what was forward so
   many before; a backward where the gradient before the last one lay. */
static bool WritesOverUntaken(const Proof *proof, const RengaScheduleChunk *chunk, bool backward)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t *done = CountsOf(proof, chunk);
  int64_t over = done[COUNT_WEIGHT] - 1;
  int count = 0;
  if (schedule->forward_only) over = done[COUNT_FORWARD] - schedule->in_flight[chunk->stage];
  if (backward) over = done[COUNT_INPUT] - RENGA_SCHEDULE_GRADIENTS;
  if (over < 0) return false;
  const int *row = RengaScheduleRows_Private(
      schedule, chunk->stage, backward ? RENGA_ROWS_SEND_BACKWARD : RENGA_ROWS_SEND_FORWARD,
      &count);
  for (int i = 0; i < count; i++)
    if (!IsTaken(proof, &schedule->message[row[i]], chunk->order[over])) return true;
  return false;
}

static bool MustWait(const Proof *proof, const RengaScheduleChunk *chunk, RengaActionKind kind)
{
  const bool backward = kind == RENGA_ACTION_BACKWARD || kind == RENGA_ACTION_BACKWARD_INPUT;
  if (!RengaScheduleSharesRanks_Private(proof->schedule)) return false;
  return (backward || kind == RENGA_ACTION_FORWARD) && WritesOverUntaken(proof, chunk, backward);
}

static RengaErrorCode Compute(Proof *proof, const RengaScheduleChunk *chunk,
                              const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  const Rule *rule = &rules[action->kind];
  const bool again = schedule->recompute[chunk->stage];
  unsigned char *fact = FactsOf(proof, chunk->stage, action->microbatch);
  int64_t *count = CountsOf(proof, chunk);
  Require(!rule->backward || !schedule->forward_only,
          "a schedule of forwards only has no backward");
  Require(action->kind != RENGA_ACTION_RECOMPUTE || again,
          "the stage keeps its activations: nothing is to be computed again");
  RengaCall(CheckFacts(proof, chunk, rule, *fact));
  Require(IsInTurn(count, rule, chunk, action->microbatch), rule->out_of_turn);
  Require(rule->receives == RENGA_ROWS_KINDS ||
              AllArrived(proof, chunk->stage, rule->receives, action->microbatch),
          "a message that it needs is not received before");
  Require(!(rule->needs & ~*fact & FACT_SAVED), "its activations are not recomputed just before");
  *waits = MustWait(proof, chunk, action->kind);
  if (*waits) return RENGA_SUCCESS;
  if (again && rule->makes & FACT_SAVED)
    TakeRoom(proof, chunk, action->kind == RENGA_ACTION_RECOMPUTE ? action->microbatch : NOTHING);
  *fact = (unsigned char)((*fact | rule->makes) & ~rule->frees);
  if (again && action->kind == RENGA_ACTION_FORWARD) *fact &= (unsigned char)~FACT_SAVED;
  for (int k = 0; k < COUNTS; k++) count[k] += rule->counts[k];
  const int64_t lag = count[COUNT_INPUT] - count[COUNT_WEIGHT];
  if (lag > proof->lag[chunk->stage]) proof->lag[chunk->stage] = lag;
  if (action->kind == RENGA_ACTION_FORWARD)
    RengaCall(CountInFlight(
        proof, chunk, schedule->forward_only ? 1 : count[COUNT_FORWARD] - count[COUNT_WEIGHT]));
  return RENGA_SUCCESS;
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

static RengaErrorCode Send(Proof *proof, const RengaScheduleChunk *chunk, const RengaAction *action)
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
    RengaCall(CountInFlight(proof, chunk, held - 1));
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

/* All replicas of the stage come to the sum, and go on together. */
static RengaErrorCode Reduce(Proof *proof, const RengaScheduleChunk *chunk,
                             const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  Require(!schedule->forward_only, "a schedule of forwards only has no end of the step");
  Require(action->bucket >= 0 && action->bucket < schedule->buckets[chunk->stage],
          "the stage has no such bucket");
  const int bucket = proof->first_bucket[chunk->stage] + action->bucket;
  unsigned char *state = &proof->sum[bucket * proof->most_replicas + chunk->replica];
  Require(*state != SUM_DONE, "it was done before");
  Require(CountsOf(proof, chunk)[COUNT_WEIGHT] == chunk->count, "a backward is missing before it");
  if (*state == SUM_AHEAD) proof->summing[bucket]++;
  *waits = proof->summing[bucket] < schedule->replicas[chunk->stage];
  *state = *waits ? SUM_WAITED_FOR : SUM_DONE;
  return RENGA_SUCCESS;
}

/* Of all stages of the rank. */
static RengaErrorCode Update(Proof *proof, const RengaScheduleChunk *chunk)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList list = &schedule->list[chunk->rank];
  Require(!schedule->forward_only, "a schedule of forwards only has no end of the step");
  for (int c = 0; c < list->n_chunks; c++) {
    const RengaScheduleChunk *own = &list->chunk[c];
    for (int b = proof->first_bucket[own->stage]; b < proof->first_bucket[own->stage + 1]; b++)
      Require(proof->sum[b * proof->most_replicas + own->replica] == SUM_DONE,
              "it comes before the gradients are reduced");
  }
  proof->updated[chunk->rank] = true;
  return RENGA_SUCCESS;
}

/* The chunk of an action; NULL: another rank's. */
static const RengaScheduleChunk *ChunkOf(const RengaActionList list, const RengaAction *action)
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
  const bool works = (size_t)action->kind < RENGA_ACTION_KINDS && rules[action->kind].known;
  Require((!works && !moves) || (action->microbatch >= chunk->first &&
                                 action->microbatch < chunk->first + chunk->count),
          "there is no such micro-batch");
  Require(!moves || (action->message >= 0 && action->message < proof->schedule->n_messages),
          "there is no such message");
  Require(!proof->updated[chunk->rank], "it comes after the update");
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Proof *proof, int rank, bool *waits)
{
  const RengaActionList list = &proof->schedule->list[rank];
  const RengaAction *action = &list->action[proof->next[rank]];
  const RengaScheduleChunk *chunk = ChunkOf(list, action);
  *waits = false;
  if (!chunk) return Refuse(proof, list->chunk, "the action is another stage's");
  RengaCall(CheckAction(proof, chunk, action));
  switch (action->kind) {
  case RENGA_ACTION_SEND:
    return Send(proof, chunk, action);
  case RENGA_ACTION_RECEIVE:
    return Receive(proof, chunk, action, waits);
  case RENGA_ACTION_REDUCE:
    return Reduce(proof, chunk, action, waits);
  case RENGA_ACTION_UPDATE:
    return Update(proof, chunk);
  case RENGA_ACTION_GATHER:
    return Refuse(proof, chunk, "nothing is sharded over replicas: there is nothing to gather");
  default:
    if ((size_t)action->kind < RENGA_ACTION_KINDS && rules[action->kind].known)
      return Compute(proof, chunk, action, waits);
    return Refuse(proof, chunk, "the pipeline has no such action");
  }
}

/* Nothing is left over: each micro-batch is done, each message taken. */
static RengaErrorCode CheckEnd(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t m = schedule->microbatches;
  const bool forward_only = schedule->forward_only;
  for (int c = 0; c < schedule->seats; c++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[c];
    Require(proof->count[c][COUNT_FORWARD] == chunk->count,
            "the list has no forward of some micro-batch");
    Require(forward_only || proof->updated[chunk->rank], "the list has no update");
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

static RengaErrorCode RefuseWaiting(const Proof *proof, int rank)
{
  const RengaActionList list = &proof->schedule->list[rank];
  const RengaAction *action = &list->action[proof->next[rank]];
  const char *why = "it waits for ever: what it writes over is not taken before by the stage that "
                    "it was sent to; let that stage come earlier, or have fewer chunks per rank";
  if (action->kind == RENGA_ACTION_REDUCE)
    why = "it waits for ever: another replica does not come to this sum";
  if (action->kind == RENGA_ACTION_RECEIVE) why = "it waits for ever: nothing sends this message";
  return Refuse(proof, ChunkOf(list, action), why);
}

static RengaErrorCode Run(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  bool moved = true;
  int waiting = NOTHING;
  while (moved) {
    moved = false;
    waiting = NOTHING;
    for (int r = schedule->ranks - 1; r >= 0; r--) {
      bool waits = false;
      while (!waits && proof->next[r] < schedule->list[r].n_actions) {
        RengaCall(Step(proof, r, &waits));
        if (!waits) proof->next[r]++, moved = true;
      }
      if (waits) waiting = r;
    }
  }
  if (waiting != NOTHING) return RefuseWaiting(proof, waiting);
  RengaCall(CheckEnd(proof));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule)
{
  Proof proof = {.schedule = schedule};
  RengaErrorCode code = Allocate(&proof);
  if (!code) code = Run(&proof);
  if (!code) {
    if (!schedule->forward_only || !RengaScheduleSharesRanks_Private(schedule))
      memcpy(schedule->in_flight, proof.in_flight, (size_t)schedule->stages * sizeof(int64_t));
    memcpy(schedule->lag, proof.lag, (size_t)schedule->stages * sizeof(int64_t));
  }
  FreeProof(&proof);
  RengaCall(code);
  return RENGA_SUCCESS;
}
