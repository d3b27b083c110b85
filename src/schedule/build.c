/* Lists of actions: warm-up, then forward and backward in turn; around each, the receives that it
   needs and the sends of what it makes. */
#include "scheduleimpl.h"

static RengaRowsKind KindOfSend(const RengaMessage *message)
{
  return message->backward ? RENGA_ROWS_SEND_BACKWARD : RENGA_ROWS_SEND_FORWARD;
}

static RengaRowsKind KindOfReceive(const RengaMessage *message)
{
  return message->backward ? RENGA_ROWS_RECEIVE_BACKWARD : RENGA_ROWS_RECEIVE_FORWARD;
}

/* Where the rows of a stage and kind are counted, then where the next one goes. */
static int *StartAt(RengaSchedule schedule, int stage, RengaRowsKind kind)
{
  return &schedule->row_start[stage * RENGA_ROWS_KINDS + (int)kind];
}

static RengaErrorCode IndexRows(RengaSchedule schedule)
{
  const int kinds = schedule->stages * RENGA_ROWS_KINDS;
  RengaCall(RengaMalloc(kinds + 1, &schedule->row_start));
  RengaCall(RengaMalloc(2 * schedule->n_messages + 1, &schedule->row));
  for (int m = 0; m < schedule->n_messages; m++) {
    const RengaMessage *message = &schedule->message[m];
    ++*StartAt(schedule, message->from, KindOfSend(message));
    ++*StartAt(schedule, message->to, KindOfReceive(message));
  }
  for (int k = 1; k <= kinds; k++) schedule->row_start[k] += schedule->row_start[k - 1];
  for (int m = schedule->n_messages - 1; m >= 0; m--) {
    const RengaMessage *message = &schedule->message[m];
    schedule->row[--*StartAt(schedule, message->from, KindOfSend(message))] = m;
    schedule->row[--*StartAt(schedule, message->to, KindOfReceive(message))] = m;
  }
  return RENGA_SUCCESS;
}

const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count)
{
  const int *start = schedule->row_start + stage * RENGA_ROWS_KINDS + (int)kind;
  *count = start[1] - start[0];
  return schedule->row + start[0];
}

static void Append(RengaActionList *list, RengaActionKind kind, int64_t microbatch, int message)
{
  list->action[list->n_actions++] = (RengaAction){.kind = kind,
                                                  .stage = list->stage,
                                                  .replica = list->replica,
                                                  .message = message,
                                                  .microbatch = microbatch};
}

static void AppendRows(RengaSchedule schedule, RengaActionList *list, RengaRowsKind rows_kind,
                       RengaActionKind kind, int64_t microbatch)
{
  int count = 0;
  const int *row = RengaScheduleRows_Private(schedule, list->stage, rows_kind, &count);
  for (int i = 0; i < count; i++) Append(list, kind, microbatch, row[i]);
}

static void AppendForward(RengaSchedule schedule, RengaActionList *list, int64_t microbatch)
{
  AppendRows(schedule, list, RENGA_ROWS_RECEIVE_FORWARD, RENGA_ACTION_RECEIVE, microbatch);
  Append(list, RENGA_ACTION_FORWARD, microbatch, -1);
  AppendRows(schedule, list, RENGA_ROWS_SEND_FORWARD, RENGA_ACTION_SEND, microbatch);
}

/* What is recomputed is so while gradients are on their way. */
static void AppendBackward(RengaSchedule schedule, RengaActionList *list, int64_t microbatch)
{
  if (schedule->recompute[list->stage]) Append(list, RENGA_ACTION_RECOMPUTE, microbatch, -1);
  AppendRows(schedule, list, RENGA_ROWS_RECEIVE_BACKWARD, RENGA_ACTION_RECEIVE, microbatch);
  Append(list, RENGA_ACTION_BACKWARD, microbatch, -1);
  AppendRows(schedule, list, RENGA_ROWS_SEND_BACKWARD, RENGA_ACTION_SEND, microbatch);
}

/* forwards: [micro-batches of the list] how many there are before each backward. */
static RengaErrorCode FindForwards(RengaSchedule schedule, const RengaActionList *list,
                                   int64_t forwards[])
{
  const int64_t n = list->count, warm_up = schedule->warm_up[list->stage];
  if (schedule->rule) {
    RengaCall(RengaScheduleForwards_Private(schedule, list, forwards));
    return RENGA_SUCCESS;
  }
  for (int64_t i = 0; i < n; i++) forwards[i] = warm_up < n - i ? warm_up + i + 1 : n;
  return RENGA_SUCCESS;
}

static void BuildList(RengaSchedule schedule, RengaActionList *list, const int64_t forwards[])
{
  const int64_t *order = RengaScheduleSharing_Private(schedule, list->stage)->order + list->first;
  int64_t forward = 0;
  if (schedule->forward_only) {
    while (forward < list->count) AppendForward(schedule, list, order[forward++]);
    return;
  }
  for (int64_t i = 0; i < list->count; i++) {
    while (forward < forwards[i]) AppendForward(schedule, list, order[forward++]);
    AppendBackward(schedule, list, order[i]);
  }
  Append(list, RENGA_ACTION_REDUCE, -1, -1);
  Append(list, RENGA_ACTION_UPDATE, -1, -1);
}

static void NameLists(RengaSchedule schedule)
{
  const int64_t m = schedule->microbatches, leaf = schedule->leaf;
  for (int s = 0; s < schedule->stages; s++)
    for (int r = 0; r < schedule->replicas[s]; r++) {
      RengaActionList *list = &schedule->list[schedule->first_rank[s] + r];
      list->stage = s;
      list->replica = r;
      list->first = RengaPlanLeafBound(m, leaf, schedule->replicas[s], r);
      list->count = RengaPlanLeafBound(m, leaf, schedule->replicas[s], r + 1) - list->first;
    }
}

static RengaErrorCode PrepareAll(RengaSchedule schedule)
{
  RengaCall(RengaScheduleMakeOrder_Private(schedule));
  RengaCall(RengaMalloc(schedule->ranks, &schedule->list));
  RengaCall(RengaMalloc(schedule->stages, &schedule->in_flight));
  RengaCall(RengaMalloc(schedule->stages, &schedule->warm_up));
  NameLists(schedule);
  RengaCall(schedule->ops->warm_up(schedule, schedule->warm_up));
  for (int s = 0; s < schedule->stages; s++)
    for (int r = schedule->first_rank[s]; r < schedule->first_rank[s + 1]; r++) {
      const int64_t wanted = schedule->forward_only ? 1 : schedule->warm_up[s] + 1;
      const int64_t count = schedule->list[r].count, held = wanted < count ? wanted : count;
      if (held > schedule->in_flight[s]) schedule->in_flight[s] = held;
    }
  return RENGA_SUCCESS;
}

/* The micro-batches of each rank, their order, and how many are in flight: no actions yet. */
RengaErrorCode RengaSchedulePrepare_Private(RengaSchedule schedule)
{
  if (schedule->warm_up) return RENGA_SUCCESS;
  const RengaErrorCode code = PrepareAll(schedule);
  if (code) RengaScheduleFreeLists_Private(schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleBuild_Private(RengaSchedule schedule)
{
  enum { COMPUTATIONS = 3, ENDS = 2 };
  int64_t *forwards = NULL;
  RengaErrorCode code = IndexRows(schedule);
  if (!code) code = RengaMalloc(schedule->microbatches + 1, &forwards);
  for (int r = 0; r < schedule->ranks && !code; r++) {
    RengaActionList *list = &schedule->list[r];
    const int *start = StartAt(schedule, list->stage, RENGA_ROWS_RECEIVE_FORWARD);
    list->capacity = list->count * (COMPUTATIONS + start[RENGA_ROWS_KINDS] - start[0]) + ENDS;
    code = FindForwards(schedule, list, forwards);
    if (!code) code = RengaMalloc(list->capacity, &list->action);
    if (!code) BuildList(schedule, list, forwards);
  }
  RengaFree(&forwards);
  RengaCall(code);
  return RENGA_SUCCESS;
}
