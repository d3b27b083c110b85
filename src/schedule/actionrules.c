/* The part of the proof (prove.c) that knows what actions need of their micro-batch, make and
   free: one table. */
#include "proof.h"

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

RengaErrorCode RengaProofRefuse_Private(const Proof *proof, const RengaScheduleChunk *chunk,
                                        const char *why)
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

bool RengaProofComputes_Private(const RengaAction *action)
{
  return (size_t)action->kind < RENGA_ACTION_KINDS && rules[action->kind].known;
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
RengaErrorCode RengaProofCountInFlight_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                               int64_t held)
{
  RengaSchedule schedule = proof->schedule;
  if (held <= proof->in_flight[chunk->stage]) return RENGA_SUCCESS;
  proof->in_flight[chunk->stage] = held;
  Require(!schedule->ops->warm_up || held <= schedule->warm_up[chunk->stage] + 1,
          "more micro-batches in flight than the type promises");
  return RENGA_SUCCESS;
}

/* A stage that recomputes has room for what backward reads of one micro-batch. */
static void HoldRoom(Proof *proof, const RengaScheduleChunk *chunk, int64_t microbatch)
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

/* Whether the stage that gets the message has posted a receive for it: of an activation for one
   more than are in flight, of a gradient for a fixed number and those whose gradients of parameters
   are still to be made. */
static bool IsTaken(const Proof *proof, const RengaMessage *message, int64_t microbatch)
{
  RengaSchedule schedule = proof->schedule;
  const RengaSharing *sharing = RengaScheduleSharing_Private(schedule, message->to);
  const int64_t *count = CountsOf(
      proof, RengaScheduleChunk_Private(schedule, message->to, sharing->owner[microbatch]));
  const int64_t done = count[schedule->forward_only ? COUNT_FORWARD : COUNT_WEIGHT];
  const int64_t room = message->backward ? RENGA_SCHEDULE_GRADIENTS + proof->lags[message->to]
                                         : proof->slots[message->to] + 1;
  return sharing->turn[microbatch] < done + room;
}

/* What is sent lies in one of as many places as the stage has. */
static bool WritesOverUntaken(const Proof *proof, const RengaScheduleChunk *chunk, bool backward)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t places =
      backward ? RENGA_SCHEDULE_GRADIENTS + proof->lags[chunk->stage] : proof->slots[chunk->stage];
  const int64_t over = CountsOf(proof, chunk)[backward ? COUNT_INPUT : COUNT_FORWARD] - places;
  int count = 0;
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
  return proof->slots && (backward || kind == RENGA_ACTION_FORWARD) &&
         WritesOverUntaken(proof, chunk, backward);
}

RengaErrorCode RengaProofCompute_Private(Proof *proof, const RengaScheduleChunk *chunk,
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
          "the stage keeps its activations: nothing is to be recomputed");
  RengaCall(CheckFacts(proof, chunk, rule, *fact));
  Require(IsInTurn(count, rule, chunk, action->microbatch), rule->out_of_turn);
  Require(rule->receives == RENGA_ROWS_KINDS ||
              AllArrived(proof, chunk->stage, rule->receives, action->microbatch),
          "a message that it needs is not received before");
  Require(!(rule->needs & ~*fact & FACT_SAVED), "its activations are not recomputed just before");
  *waits = MustWait(proof, chunk, action->kind);
  if (*waits) return RENGA_SUCCESS;
  if (again && rule->makes & FACT_SAVED)
    HoldRoom(proof, chunk, action->kind == RENGA_ACTION_RECOMPUTE ? action->microbatch : NOTHING);
  *fact = (unsigned char)((*fact | rule->makes) & ~rule->frees);
  if (again && action->kind == RENGA_ACTION_FORWARD) *fact &= (unsigned char)~FACT_SAVED;
  for (int k = 0; k < COUNTS; k++) count[k] += rule->counts[k];
  const int64_t lag = count[COUNT_INPUT] - count[COUNT_WEIGHT];
  if (lag > proof->lag[chunk->stage]) proof->lag[chunk->stage] = lag;
  if (action->kind == RENGA_ACTION_FORWARD)
    RengaCall(RengaProofCountInFlight_Private(
        proof, chunk, schedule->forward_only ? 1 : count[COUNT_FORWARD] - count[COUNT_WEIGHT]));
  return RENGA_SUCCESS;
}
