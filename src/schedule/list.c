/* Actions into the list of a rank, one by one, or with the messages around them. */
#include "scheduleimpl.h"

/* What comes with an action: receives of what it needs, sends of what it makes. What is recomputed
   is so while gradients are on their way. */
typedef struct {
  bool added, recomputes;
  RengaRowsKind before, after; /* RENGA_ROWS_KINDS: none */
} Company;

static const Company companies[RENGA_ACTION_KINDS] = {
    [RENGA_ACTION_FORWARD] = {true, false, RENGA_ROWS_RECEIVE_FORWARD, RENGA_ROWS_SEND_FORWARD},
    [RENGA_ACTION_BACKWARD] = {true, true, RENGA_ROWS_RECEIVE_BACKWARD, RENGA_ROWS_SEND_BACKWARD},
    [RENGA_ACTION_BACKWARD_INPUT] = {true, true, RENGA_ROWS_RECEIVE_BACKWARD,
                                     RENGA_ROWS_SEND_BACKWARD},
    [RENGA_ACTION_BACKWARD_WEIGHT] = {true, false, RENGA_ROWS_KINDS, RENGA_ROWS_KINDS},
};

static void PutAction(RengaActionList list, RengaActionKind kind, const RengaScheduleChunk *chunk,
                      int64_t microbatch, int message, int bucket)
{
  list->action[list->n_actions++] = (RengaAction){.kind = kind,
                                                  .stage = chunk->stage,
                                                  .replica = chunk->replica,
                                                  .message = message,
                                                  .bucket = bucket,
                                                  .microbatch = microbatch};
}

static void PutMessages(RengaActionList list, RengaRowsKind rows, RengaActionKind kind,
                        const RengaScheduleChunk *chunk, int64_t microbatch)
{
  int count = 0;
  if (rows == RENGA_ROWS_KINDS) return;
  const int *row = RengaScheduleRows_Private(list->schedule, chunk->stage, rows, &count);
  for (int i = 0; i < count; i++) PutAction(list, kind, chunk, microbatch, row[i], -1);
}

void RengaActionListAppend_Private(RengaActionList list, RengaActionKind kind,
                                   const RengaScheduleChunk *chunk, int64_t microbatch)
{
  const Company *company = &companies[kind];
  if (company->recomputes && list->schedule->recompute[chunk->stage])
    PutAction(list, RENGA_ACTION_RECOMPUTE, chunk, microbatch, -1, -1);
  PutMessages(list, company->before, RENGA_ACTION_RECEIVE, chunk, microbatch);
  PutAction(list, kind, chunk, microbatch, -1, -1);
  PutMessages(list, company->after, RENGA_ACTION_SEND, chunk, microbatch);
}

void RengaActionListAppendSums_Private(RengaActionList list, const RengaScheduleChunk *chunk)
{
  const int buckets = list->schedule->buckets[chunk->stage];
  for (int b = 0; b < buckets; b++) PutAction(list, RENGA_ACTION_REDUCE, chunk, -1, -1, b);
}

static void PutGathers(RengaActionList list, const RengaScheduleChunk *chunk)
{
  const int buckets = list->schedule->gathers[chunk->stage];
  for (int b = 0; b < buckets; b++)
    PutAction(list, RENGA_ACTION_GATHER_PARAMETERS, chunk, -1, -1, b);
}

static RengaErrorCode GrowList(RengaActionList list, int64_t more)
{
  if (list->n_actions + more <= list->capacity) return RENGA_SUCCESS;
  const int64_t wanted = 2 * list->capacity + more;
  RengaCall(RengaRealloc(wanted, &list->action));
  list->capacity = wanted;
  return RENGA_SUCCESS;
}

static int64_t CountListMessages(RengaSchedule schedule, int stage)
{
  const int *start = schedule->row_start + stage * RENGA_ROWS_KINDS;
  return start[RENGA_ROWS_KINDS] - start[0];
}

RengaErrorCode RengaActionListReserve_Private(RengaActionList list)
{
  enum { COMPUTATIONS = 3 };
  int64_t actions = 1;
  for (int c = 0; c < list->n_chunks; c++) {
    const RengaScheduleChunk *chunk = &list->chunk[c];
    actions += list->schedule->buckets[chunk->stage] + list->schedule->gathers[chunk->stage];
    actions += chunk->count * (COMPUTATIONS + CountListMessages(list->schedule, chunk->stage));
  }
  RengaCall(GrowList(list, actions));
  return RENGA_SUCCESS;
}

/*@
   RengaActionListAdd - put an action with its messages behind those of a list

   Input:
   . list - the list that the function was given
   . kind - forward, backward, backward input or backward weight
   . stage - the number of one of the rank's stages, from 0
   . microbatch - the micro-batch's number in the step, from 0

   Errors: another kind, a stage that the rank has not.

   Notes: in front of a forward come the receives of what the stage needs, behind it the sends of
   what it makes; around a backward and a backward input those of gradients, and in front of them
   the recomputation of a stage that recomputes.

   See also: RengaActionListAddAction(), RengaActionListEnd()
@*/
RengaErrorCode RengaActionListAdd(RengaActionList list, RengaActionKind kind, int stage,
                                  int64_t microbatch)
{
  int c = 0;
  RengaCheckPointer(list);
  RengaCheck((size_t)kind < RENGA_ACTION_KINDS && companies[kind].added, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "%s is added alone: RengaActionListAddAction",
             RengaActionName(kind));
  while (c < list->n_chunks && list->chunk[c].stage != stage) c++;
  RengaCheck(c < list->n_chunks, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "schedule %s: the rank of stage %d has no stage %d", list->schedule->hdr.type_name,
             list->chunk[0].stage, stage);
  RengaCall(GrowList(list, 2 + CountListMessages(list->schedule, stage)));
  RengaActionListAppend_Private(list, kind, &list->chunk[c], microbatch);
  return RENGA_SUCCESS;
}

/*@
   RengaActionListAddAction - put one action behind those of a list, as it is

   Input:
   . list - the list that the function was given
   . action - copied; the proof looks at it when all lists are made

   See also: RengaActionListAdd()
@*/
RengaErrorCode RengaActionListAddAction(RengaActionList list, const RengaAction *action)
{
  RengaCheckPointers(list, action);
  RengaCall(GrowList(list, 1));
  list->action[list->n_actions++] = *action;
  return RENGA_SUCCESS;
}

static bool HasSums(const RengaActionList list, int stage)
{
  for (int64_t i = list->n_actions - 1; i >= 0; i--)
    if (list->action[i].kind == RENGA_ACTION_REDUCE && list->action[i].stage == stage) return true;
  return false;
}

/*@
   RengaActionListEnd - put the end of the step behind the actions of a list

   Input:
   . list - the list that the function was given

   Notes: gradients of the rank's stages are summed over their replicas, bucket by bucket, then
   parameters change, then those are gathered of which replicas have changed a share each: of the
   first stage first, as the next step needs them. A stage of which the list has sums already gets
   no other.

   See also: RengaActionListAdd(), RengaActionListFill()
@*/
RengaErrorCode RengaActionListEnd(RengaActionList list)
{
  int64_t more = 1;
  RengaCheckPointer(list);
  for (int c = 0; c < list->n_chunks; c++) {
    const int stage = list->chunk[c].stage;
    more += list->schedule->buckets[stage] + list->schedule->gathers[stage];
  }
  RengaCall(GrowList(list, more));
  for (int c = 0; c < list->n_chunks; c++)
    if (!HasSums(list, list->chunk[c].stage))
      RengaActionListAppendSums_Private(list, &list->chunk[c]);
  PutAction(list, RENGA_ACTION_UPDATE, &list->chunk[0], -1, -1, -1);
  for (int c = 0; c < list->n_chunks; c++) PutGathers(list, &list->chunk[c]);
  return RENGA_SUCCESS;
}
