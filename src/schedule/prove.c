/* Proof of the lists by executing them in the abstract: receives block, sends do not, and messages
   of one row of the table between two ranks arrive in the order in which they were sent. A rank
   runs until it would wait; when no rank can go on, either all are done or the first that waits
   does so for ever. */
#include "scheduleimpl.h"

enum { NOTHING = -1 };

typedef struct {
  RengaSchedule schedule;
  int64_t *next;            /* [rank] place in its list */
  int64_t *forward_count;   /* [rank] */
  int64_t *backward_count;  /* [rank] */
  int64_t *recomputed;      /* [rank] micro-batch whose activations are there, or NOTHING */
  bool *forward, *backward; /* [stage][micro-batch] done */
  bool *reduced, *updated;  /* [rank] */
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

static RengaErrorCode Allocate(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int64_t p = schedule->stages, m = schedule->microbatches, n = schedule->n_messages;
  RengaCall(RengaMalloc(schedule->ranks, &proof->next));
  RengaCall(RengaMalloc(schedule->ranks, &proof->forward_count));
  RengaCall(RengaMalloc(schedule->ranks, &proof->backward_count));
  RengaCall(RengaMalloc(schedule->ranks, &proof->recomputed));
  for (int r = 0; r < schedule->ranks; r++) proof->recomputed[r] = NOTHING;
  RengaCall(RengaMalloc(schedule->ranks, &proof->reduced));
  RengaCall(RengaMalloc(schedule->ranks, &proof->updated));
  RengaCall(RengaMalloc(p * m + 1, &proof->forward));
  RengaCall(RengaMalloc(p * m + 1, &proof->backward));
  RengaCall(RengaMalloc(n + 1, &proof->row_sent));
  RengaCall(RengaMalloc(n + 1, &proof->row_received));
  RengaCall(RengaMalloc(n * m + 1, &proof->queue));
  RengaCall(RengaMalloc(n * m + 1, &proof->arrived));
  RengaCall(AllocatePairs(proof));
  return RENGA_SUCCESS;
}

static void Free(Proof *proof)
{
  RengaFree(&proof->next);
  RengaFree(&proof->forward_count);
  RengaFree(&proof->backward_count);
  RengaFree(&proof->recomputed);
  RengaFree(&proof->forward);
  RengaFree(&proof->backward);
  RengaFree(&proof->reduced);
  RengaFree(&proof->updated);
  RengaFree(&proof->first_pair);
  RengaFree(&proof->sent);
  RengaFree(&proof->received);
  RengaFree(&proof->row_sent);
  RengaFree(&proof->row_received);
  RengaFree(&proof->queue);
  RengaFree(&proof->arrived);
}

/* Raise: where in which list, what the action is, and what is wrong with it. */
static RengaErrorCode Refuse(const Proof *proof, int rank, const char *why)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList *list = &schedule->list[rank];
  char text[200] = "end of the list", replica[32] = "";
  if (proof->next[rank] < list->n_actions)
    RengaScheduleDescribe_Private(schedule, &list->action[proof->next[rank]], sizeof text, text);
  if (schedule->replicas[list->stage] > 1)
    snprintf(replica, sizeof replica, ", replica %d", list->replica);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN, "schedule %s: stage %d%s, action %lld (%s): %s",
             schedule->hdr.type_name, list->stage, replica, (long long)proof->next[rank], text,
             why);
}

#define Require(condition, why)                                                                    \
  do {                                                                                             \
    if (!(condition)) return Refuse(proof, rank, why);                                             \
  } while (0)

static bool AllArrived(const Proof *proof, int rank, RengaRowsKind kind, int64_t microbatch)
{
  int count = 0;
  const int *row =
      RengaScheduleRows_Private(proof->schedule, proof->schedule->list[rank].stage, kind, &count);
  for (int i = 0; i < count; i++)
    if (!proof->arrived[row[i] * proof->schedule->microbatches + microbatch]) return false;
  return true;
}

/* The micro-batch that comes n-th on this rank, in the order that all ranks agree on. */
static int64_t InOrder(const Proof *proof, const RengaActionList *list, int64_t n)
{
  return RengaScheduleSharing_Private(proof->schedule, list->stage)->order[list->first + n];
}

static RengaErrorCode Forward(Proof *proof, int rank, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList *list = &schedule->list[rank];
  bool *done = &proof->forward[list->stage * schedule->microbatches + action->microbatch];
  Require(!*done, "it was done before");
  Require(action->microbatch == InOrder(proof, list, proof->forward_count[rank]),
          "another micro-batch comes before it in the order of the ranks");
  Require(AllArrived(proof, rank, RENGA_ROWS_RECEIVE_FORWARD, action->microbatch),
          "a message that it needs is not received before");
  *done = true;
  proof->recomputed[rank] = NOTHING;
  int64_t active = ++proof->forward_count[rank] - proof->backward_count[rank];
  if (schedule->forward_only) active = 1;
  if (active > schedule->in_flight[list->stage]) schedule->in_flight[list->stage] = active;
  Require(active <= schedule->warm_up[list->stage] + 1,
          "more micro-batches in flight than the type promises");
  return RENGA_SUCCESS;
}

static RengaErrorCode Recompute(Proof *proof, int rank, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const int stage = schedule->list[rank].stage;
  const int64_t place = stage * schedule->microbatches + action->microbatch;
  Require(schedule->recompute[stage] && !schedule->forward_only,
          "the stage keeps its activations: nothing is to be computed again");
  Require(proof->forward[place], "it comes before its forward");
  Require(!proof->backward[place], "it comes after its backward");
  proof->recomputed[rank] = action->microbatch;
  return RENGA_SUCCESS;
}

static RengaErrorCode Backward(Proof *proof, int rank, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList *list = &schedule->list[rank];
  int64_t place = list->stage * schedule->microbatches + action->microbatch;
  Require(!schedule->forward_only, "a schedule of forwards only has no backward");
  Require(proof->forward[place], "it comes before its forward");
  Require(!proof->backward[place], "it was done before");
  Require(action->microbatch == InOrder(proof, list, proof->backward_count[rank]),
          "gradients are added in the order of the micro-batches: an earlier one is not done");
  Require(AllArrived(proof, rank, RENGA_ROWS_RECEIVE_BACKWARD, action->microbatch),
          "a message that it needs is not received before");
  Require(!schedule->recompute[list->stage] || proof->recomputed[rank] == action->microbatch,
          "its activations are not recomputed just before");
  proof->recomputed[rank] = NOTHING;
  proof->backward[place] = true;
  proof->backward_count[rank]++;
  return RENGA_SUCCESS;
}

/* Ranges of two stages overlap along a staircase, so that the sum of the replicas tells the pairs
   of ranks apart, and the micro-batches of a pair are consecutive. first: the least of them. */
static int64_t PairOf(const Proof *proof, int row, int64_t microbatch, int64_t *first)
{
  RengaSchedule schedule = proof->schedule;
  const RengaMessage *message = &schedule->message[row];
  const int from = RengaScheduleSharing_Private(schedule, message->from)->owner[microbatch];
  const int to = RengaScheduleSharing_Private(schedule, message->to)->owner[microbatch];
  const int64_t a = schedule->list[schedule->first_rank[message->from] + from].first;
  const int64_t b = schedule->list[schedule->first_rank[message->to] + to].first;
  *first = a > b ? a : b;
  return proof->first_pair[row] + from + to;
}

static RengaErrorCode Send(Proof *proof, int rank, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const int stage = schedule->list[rank].stage;
  const RengaMessage *message = &schedule->message[action->message];
  const int64_t m = schedule->microbatches;
  const bool *made = message->backward ? proof->backward : proof->forward;
  int64_t first, pair = PairOf(proof, action->message, action->microbatch, &first);
  Require(message->from == stage, "the message is another stage's to send");
  Require(made[stage * m + action->microbatch], "it comes before the action that makes it");
  Require(proof->row_sent[action->message] < m && first + proof->sent[pair] < m, "sent too often");
  proof->queue[action->message * m + first + proof->sent[pair]++] = action->microbatch;
  proof->row_sent[action->message]++;
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive(Proof *proof, int rank, const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t m = schedule->microbatches;
  int64_t first, pair = PairOf(proof, action->message, action->microbatch, &first);
  Require(schedule->message[action->message].to == schedule->list[rank].stage,
          "the message is for another stage");
  *waits = proof->received[pair] == proof->sent[pair];
  if (*waits) return RENGA_SUCCESS;
  Require(proof->queue[action->message * m + first + proof->received[pair]] == action->microbatch,
          "the message that comes next is of another micro-batch");
  proof->arrived[action->message * m + action->microbatch] = true;
  proof->received[pair]++;
  proof->row_received[action->message]++;
  return RENGA_SUCCESS;
}

/* The actions that end a step: every gradient is there. */
static RengaErrorCode EndOfStep(Proof *proof, int rank, bool *done, bool reduce_done)
{
  Require(!proof->schedule->forward_only, "a schedule of forwards only has no end of the step");
  Require(!*done, "it was done before");
  Require(reduce_done, "it comes before the gradients are reduced");
  Require(proof->backward_count[rank] == proof->schedule->list[rank].count,
          "a backward is missing before it");
  *done = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAction(const Proof *proof, int rank, const RengaAction *action)
{
  const RengaActionList *list = &proof->schedule->list[rank];
  const bool end = action->kind == RENGA_ACTION_REDUCE || action->kind == RENGA_ACTION_UPDATE;
  const bool moves = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  Require(action->stage == list->stage && action->replica == list->replica,
          "the action is another stage's");
  Require(end ||
              (action->microbatch >= list->first && action->microbatch < list->first + list->count),
          "there is no such micro-batch");
  Require(!moves || (action->message >= 0 && action->message < proof->schedule->n_messages),
          "there is no such message");
  Require(!proof->updated[rank], "it comes after the update");
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Proof *proof, int rank, bool *waits)
{
  const RengaAction *action = &proof->schedule->list[rank].action[proof->next[rank]];
  *waits = false;
  RengaCall(CheckAction(proof, rank, action));
  switch (action->kind) {
  case RENGA_ACTION_FORWARD:
    return Forward(proof, rank, action);
  case RENGA_ACTION_RECOMPUTE:
    return Recompute(proof, rank, action);
  case RENGA_ACTION_BACKWARD:
    return Backward(proof, rank, action);
  case RENGA_ACTION_SEND:
    return Send(proof, rank, action);
  case RENGA_ACTION_RECEIVE:
    return Receive(proof, rank, action, waits);
  case RENGA_ACTION_REDUCE:
    return EndOfStep(proof, rank, &proof->reduced[rank], true);
  case RENGA_ACTION_UPDATE:
    return EndOfStep(proof, rank, &proof->updated[rank], proof->reduced[rank]);
  default:
    return Refuse(proof, rank, "the pipeline has no such action");
  }
}

/* Nothing is left over: each micro-batch is done, each message taken. */
static RengaErrorCode CheckEnd(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  const int64_t m = schedule->microbatches;
  const bool forward_only = schedule->forward_only;
  for (int rank = 0; rank < schedule->ranks; rank++) {
    Require(proof->forward_count[rank] == schedule->list[rank].count,
            "the list has no forward of some micro-batch");
    Require(forward_only || proof->updated[rank], "the list has no update");
  }
  for (int row = 0; row < schedule->n_messages; row++) {
    const RengaMessage *message = &schedule->message[row];
    const int64_t wanted = forward_only && message->backward ? 0 : m;
    const int rank =
        schedule->first_rank[proof->row_sent[row] < wanted ? message->from : message->to];
    Require(proof->row_sent[row] == wanted, "some message is not sent for each micro-batch");
    Require(proof->row_received[row] == wanted,
            "some message is not received for each micro-batch");
  }
  return RENGA_SUCCESS;
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
  if (waiting != NOTHING)
    return Refuse(proof, waiting, "it waits for ever: nothing sends this message");
  RengaCall(CheckEnd(proof));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule)
{
  Proof proof = {.schedule = schedule};
  for (int s = 0; s < schedule->stages; s++) schedule->in_flight[s] = 0;
  RengaErrorCode code = Allocate(&proof);
  if (!code) code = Run(&proof);
  Free(&proof);
  RengaCall(code);
  return RENGA_SUCCESS;
}
