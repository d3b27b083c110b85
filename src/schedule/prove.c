/* Proof of the lists by executing them in the abstract: receives block, sends do not, and messages
   of one row of the table arrive in the order in which they were sent. A stage runs until it would
   wait; when no stage can go on, either all are done or the first that waits does so for ever. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  int64_t *next;            /* [stage] place in its list */
  int64_t *active;          /* [stage] forward but not yet backward */
  bool *forward, *backward; /* [stage][micro-batch] done */
  bool *reduced, *updated;  /* [stage] */
  int64_t *queue;           /* [message][place] micro-batch sent */
  int64_t *sent, *received; /* [message] how many */
  bool *arrived;            /* [message][micro-batch] received */
} Proof;

static RengaErrorCode Allocate(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int64_t p = schedule->stages, m = schedule->microbatches, n = schedule->n_messages;
  RengaCall(RengaMalloc(p, &proof->next));
  RengaCall(RengaMalloc(p, &proof->active));
  RengaCall(RengaMalloc(p, &proof->reduced));
  RengaCall(RengaMalloc(p, &proof->updated));
  RengaCall(RengaMalloc(p * m + 1, &proof->forward));
  RengaCall(RengaMalloc(p * m + 1, &proof->backward));
  RengaCall(RengaMalloc(n + 1, &proof->sent));
  RengaCall(RengaMalloc(n + 1, &proof->received));
  RengaCall(RengaMalloc(n * m + 1, &proof->queue));
  RengaCall(RengaMalloc(n * m + 1, &proof->arrived));
  return RENGA_SUCCESS;
}

static void Free(Proof *proof)
{
  RengaFree(&proof->next);
  RengaFree(&proof->active);
  RengaFree(&proof->reduced);
  RengaFree(&proof->updated);
  RengaFree(&proof->forward);
  RengaFree(&proof->backward);
  RengaFree(&proof->sent);
  RengaFree(&proof->received);
  RengaFree(&proof->queue);
  RengaFree(&proof->arrived);
}

/* Raise: where in which list, what the action is, and what is wrong with it. */
static RengaErrorCode Refuse(const Proof *proof, int stage, const char *why)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList *list = &schedule->list[stage];
  char text[200] = "end of the list";
  if (proof->next[stage] < list->count)
    RengaScheduleDescribe_Private(schedule, &list->action[proof->next[stage]], sizeof text, text);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN, "schedule %s: stage %d, action %lld (%s): %s",
             schedule->hdr.type_name, stage, (long long)proof->next[stage], text, why);
}

#define Require(condition, why)                                                                    \
  do {                                                                                             \
    if (!(condition)) return Refuse(proof, stage, why);                                            \
  } while (0)

static bool AllArrived(const Proof *proof, int stage, RengaRowsKind kind, int64_t microbatch)
{
  int count = 0;
  const int *row = RengaScheduleRows_Private(proof->schedule, stage, kind, &count);
  for (int i = 0; i < count; i++)
    if (!proof->arrived[row[i] * proof->schedule->microbatches + microbatch]) return false;
  return true;
}

static RengaErrorCode Forward(Proof *proof, int stage, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  bool *done = &proof->forward[stage * schedule->microbatches + action->microbatch];
  Require(!*done, "it was done before");
  Require(AllArrived(proof, stage, RENGA_ROWS_RECEIVE_FORWARD, action->microbatch),
          "a message that it needs is not received before");
  *done = true;
  proof->active[stage]++;
  if (proof->active[stage] > schedule->in_flight[stage])
    schedule->in_flight[stage] = proof->active[stage];
  int64_t bound = schedule->ops->bound(schedule->stages, stage, schedule->microbatches);
  if (schedule->forward_only)
    proof->active[stage]--;
  else
    Require(proof->active[stage] <= bound, "more micro-batches in flight than the type promises");
  return RENGA_SUCCESS;
}

static RengaErrorCode Backward(Proof *proof, int stage, const RengaAction *action)
{
  int64_t place = stage * proof->schedule->microbatches + action->microbatch;
  Require(!proof->schedule->forward_only, "a schedule of forwards only has no backward");
  Require(proof->forward[place], "it comes before its forward");
  Require(!proof->backward[place], "it was done before");
  Require(action->microbatch == 0 || proof->backward[place - 1],
          "gradients are added in the order of the micro-batches: an earlier one is not done");
  Require(AllArrived(proof, stage, RENGA_ROWS_RECEIVE_BACKWARD, action->microbatch),
          "a message that it needs is not received before");
  proof->backward[place] = true;
  proof->active[stage]--;
  return RENGA_SUCCESS;
}

static RengaErrorCode Send(Proof *proof, int stage, const RengaAction *action)
{
  RengaSchedule schedule = proof->schedule;
  const RengaMessage *message = &schedule->message[action->message];
  int64_t m = schedule->microbatches, *sent = &proof->sent[action->message];
  const bool *made = message->backward ? proof->backward : proof->forward;
  Require(message->from == stage, "the message is another stage's to send");
  Require(made[stage * m + action->microbatch], "it comes before the action that makes it");
  Require(*sent < m, "sent too often");
  proof->queue[action->message * m + (*sent)++] = action->microbatch;
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive(Proof *proof, int stage, const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  int64_t m = schedule->microbatches, *received = &proof->received[action->message];
  Require(schedule->message[action->message].to == stage, "the message is for another stage");
  *waits = *received == proof->sent[action->message];
  if (*waits) return RENGA_SUCCESS;
  Require(proof->queue[action->message * m + *received] == action->microbatch,
          "the message that comes next is of another micro-batch");
  proof->arrived[action->message * m + action->microbatch] = true;
  (*received)++;
  return RENGA_SUCCESS;
}

/* The actions that end a step: every gradient is there. */
static RengaErrorCode EndOfStep(Proof *proof, int stage, bool *done, bool reduce_done)
{
  int64_t m = proof->schedule->microbatches;
  Require(!proof->schedule->forward_only, "a schedule of forwards only has no end of the step");
  Require(!*done, "it was done before");
  Require(reduce_done, "it comes before the gradients are reduced");
  for (int64_t i = 0; i < m; i++)
    Require(proof->backward[stage * m + i], "a backward is missing before it");
  *done = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Proof *proof, int stage, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  const RengaAction *action = &schedule->list[stage].action[proof->next[stage]];
  bool end = action->kind == RENGA_ACTION_REDUCE || action->kind == RENGA_ACTION_UPDATE;
  bool moves = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  *waits = false;
  Require(action->stage == stage, "the action is another stage's");
  Require(end || (action->microbatch >= 0 && action->microbatch < schedule->microbatches),
          "there is no such micro-batch");
  Require(!moves || (action->message >= 0 && action->message < schedule->n_messages),
          "there is no such message");
  Require(!proof->updated[stage], "it comes after the update");
  if (action->kind == RENGA_ACTION_FORWARD) return Forward(proof, stage, action);
  if (action->kind == RENGA_ACTION_BACKWARD) return Backward(proof, stage, action);
  if (action->kind == RENGA_ACTION_SEND) return Send(proof, stage, action);
  if (action->kind == RENGA_ACTION_RECEIVE) return Receive(proof, stage, action, waits);
  if (action->kind == RENGA_ACTION_REDUCE)
    return EndOfStep(proof, stage, &proof->reduced[stage], true);
  if (action->kind == RENGA_ACTION_UPDATE)
    return EndOfStep(proof, stage, &proof->updated[stage], proof->reduced[stage]);
  return Refuse(proof, stage, "the pipeline has no such action");
}

/* Nothing is left over: each micro-batch is done, each message taken. */
static RengaErrorCode CheckEnd(const Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  int64_t m = schedule->microbatches;
  bool forward_only = schedule->forward_only;
  for (int stage = 0; stage < schedule->stages; stage++) {
    for (int64_t i = 0; i < m; i++)
      Require(proof->forward[stage * m + i], "the list has no forward of some micro-batch");
    Require(forward_only || proof->updated[stage], "the list has no update");
  }
  for (int row = 0; row < schedule->n_messages; row++) {
    int64_t wanted = forward_only && schedule->message[row].backward ? 0 : m;
    int stage = proof->sent[row] < wanted ? schedule->message[row].from : schedule->message[row].to;
    Require(proof->sent[row] == wanted, "some message is not sent for each micro-batch");
    Require(proof->received[row] == wanted, "some message is not received for each micro-batch");
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  bool moved = true;
  int waiting = 0;
  while (moved) {
    moved = false;
    waiting = -1;
    for (int s = schedule->stages - 1; s >= 0; s--) {
      bool waits = false;
      while (!waits && proof->next[s] < schedule->list[s].count) {
        RengaCall(Step(proof, s, &waits));
        if (!waits) proof->next[s]++, moved = true;
      }
      if (waits) waiting = s;
    }
  }
  if (waiting >= 0) return Refuse(proof, waiting, "it waits for ever: nothing sends this message");
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
