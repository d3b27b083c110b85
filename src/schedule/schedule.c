/* The schedule: create, set, get; and lists of actions from an order of forwards and backwards. */
#include "scheduleimpl.h"
#include "renga/private/packages.h"
#include <string.h>

static const RengaOptionRow rows[] = {
    {"pipeline_schedule", RENGA_OPTION_STRING, RENGA_SCHEDULE_1F1B, RENGA_OPTION_NO_OFFSET,
     "gpipe|1f1b", 0, 0, "order of forward and backward: gpipe keeps all micro-batches, 1f1b few"},
};

static const RengaTypeRow types[] = {
    {RENGA_SCHEDULE_GPIPE, RengaScheduleCreate_GPipe, NULL},
    {RENGA_SCHEDULE_1F1B, RengaScheduleCreate_1F1B, NULL},
    {NULL, NULL, NULL},
};

static const char *const action_names[] = {
    [RENGA_ACTION_FORWARD] = "forward",
    [RENGA_ACTION_BACKWARD] = "backward",
    [RENGA_ACTION_BACKWARD_INPUT] = "backward input",
    [RENGA_ACTION_BACKWARD_WEIGHT] = "backward weight",
    [RENGA_ACTION_RECOMPUTE] = "recompute",
    [RENGA_ACTION_SEND] = "send",
    [RENGA_ACTION_RECEIVE] = "receive",
    [RENGA_ACTION_REDUCE] = "reduce",
    [RENGA_ACTION_GATHER] = "gather",
    [RENGA_ACTION_UPDATE] = "update",
};

RengaErrorCode RengaScheduleRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Schedule", (int)(sizeof rows / sizeof rows[0]), rows));
  return RENGA_SUCCESS;
}

/*@
   RengaActionName - what an action is called

   Not collective

   Input:
   . kind - the kind of action
@*/
const char *RengaActionName(RengaActionKind kind)
{
  size_t count = sizeof action_names / sizeof action_names[0];
  return (size_t)kind < count ? action_names[kind] : "unknown action";
}

void RengaScheduleDescribe_Private(RengaSchedule schedule, const RengaAction *action, size_t size,
                                   char text[])
{
  bool send = action->kind == RENGA_ACTION_SEND, receive = action->kind == RENGA_ACTION_RECEIVE;
  int used = snprintf(text, size, "%s", RengaActionName(action->kind));
  if ((send || receive) && action->message >= 0 && action->message < schedule->n_messages) {
    const RengaMessage *message = &schedule->message[action->message];
    used += snprintf(text + used, size - (size_t)used, " %s'%.80s' %s stage %d",
                     message->backward ? "gradient of " : "", message->value, send ? "to" : "from",
                     send ? message->to : message->from);
  }
  if (action->microbatch >= 0)
    snprintf(text + used, size - (size_t)used, ", micro-batch %lld", (long long)action->microbatch);
}

static void FreeLists(RengaSchedule schedule)
{
  for (int s = 0; schedule->list && s < schedule->stages; s++) RengaFree(&schedule->list[s].action);
  RengaFree(&schedule->list);
  RengaFree(&schedule->in_flight);
  RengaFree(&schedule->row_start);
  RengaFree(&schedule->row);
}

static RengaErrorCode Destroy(void *object)
{
  FreeLists(object);
  return RENGA_SUCCESS;
}

/* Which of a stage's four kinds a message is, -1 where the stage has no part in it. */
static int KindOfRow(const RengaMessage *message, int stage)
{
  if (message->to == stage)
    return message->backward ? RENGA_ROWS_RECEIVE_BACKWARD : RENGA_ROWS_RECEIVE_FORWARD;
  if (message->from == stage)
    return message->backward ? RENGA_ROWS_SEND_BACKWARD : RENGA_ROWS_SEND_FORWARD;
  return -1;
}

static RengaErrorCode IndexRows(RengaSchedule schedule)
{
  int used = 0;
  RengaCall(RengaMalloc(schedule->stages * RENGA_ROWS_KINDS + 1, &schedule->row_start));
  RengaCall(RengaMalloc(2 * schedule->n_messages + 1, &schedule->row));
  for (int s = 0; s < schedule->stages; s++)
    for (int kind = 0; kind < RENGA_ROWS_KINDS; kind++) {
      schedule->row_start[s * RENGA_ROWS_KINDS + kind] = used;
      for (int m = 0; m < schedule->n_messages; m++)
        if (KindOfRow(&schedule->message[m], s) == kind) schedule->row[used++] = m;
    }
  schedule->row_start[schedule->stages * RENGA_ROWS_KINDS] = used;
  return RENGA_SUCCESS;
}

const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count)
{
  const int *start = schedule->row_start + stage * RENGA_ROWS_KINDS + (int)kind;
  *count = start[1] - start[0];
  return schedule->row + start[0];
}

static RengaErrorCode Append(RengaSchedule schedule, int stage, RengaActionKind kind,
                             int64_t microbatch, int message)
{
  RengaActionList *list = &schedule->list[stage];
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 16;
    RengaCall(RengaRealloc(list->capacity, &list->action));
  }
  list->action[list->count++] = (RengaAction){kind, stage, microbatch, message};
  return RENGA_SUCCESS;
}

static RengaErrorCode AppendRows(RengaSchedule schedule, int stage, RengaRowsKind rows_kind,
                                 RengaActionKind kind, int64_t microbatch)
{
  int count = 0;
  const int *row = RengaScheduleRows_Private(schedule, stage, rows_kind, &count);
  for (int i = 0; i < count; i++) RengaCall(Append(schedule, stage, kind, microbatch, row[i]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCompute_Private(RengaSchedule schedule, int stage, RengaActionKind kind,
                                            int64_t microbatch)
{
  bool forward = kind == RENGA_ACTION_FORWARD;
  RengaCall(AppendRows(schedule, stage,
                       forward ? RENGA_ROWS_RECEIVE_FORWARD : RENGA_ROWS_RECEIVE_BACKWARD,
                       RENGA_ACTION_RECEIVE, microbatch));
  RengaCall(Append(schedule, stage, kind, microbatch, -1));
  RengaCall(AppendRows(schedule, stage,
                       forward ? RENGA_ROWS_SEND_FORWARD : RENGA_ROWS_SEND_BACKWARD,
                       RENGA_ACTION_SEND, microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildStage(RengaSchedule schedule, int stage)
{
  if (schedule->forward_only) {
    for (int64_t m = 0; m < schedule->microbatches; m++)
      RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_FORWARD, m));
    return RENGA_SUCCESS;
  }
  RengaCall(schedule->ops->order(schedule, stage));
  RengaCall(Append(schedule, stage, RENGA_ACTION_REDUCE, -1, -1));
  RengaCall(Append(schedule, stage, RENGA_ACTION_UPDATE, -1, -1));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleCreate - make a schedule of the default type, 1f1b

   Collective

   Input:
   . comm - the ranks that will run it

   Output:
   . schedule - to be freed with RengaScheduleDestroy()
@*/
RengaErrorCode RengaScheduleCreate(RengaComm comm, RengaSchedule *schedule)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(schedule);
  RengaCall(RengaHeaderCreate(comm, "RengaSchedule", sizeof **schedule, Destroy, schedule));
  RengaCall(RengaScheduleSetType(*schedule, RENGA_SCHEDULE_1F1B));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetType - choose the order of forwards and backwards

   Collective

   Input:
   . schedule - the schedule
   . type - gpipe or 1f1b
@*/
RengaErrorCode RengaScheduleSetType(RengaSchedule schedule, const char *type)
{
  const RengaTypeRow *row = NULL;
  RengaCheckPointer(schedule);
  RengaCheckPointer(type);
  RengaCall(RengaTypeFind("RengaSchedule", types, type, &row));
  RengaCall(row->create(schedule));
  RengaCall(RengaHeaderSetTypeName(schedule, type));
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetType - the name of the type, lent

   Not collective

   Input:
   . schedule - the schedule

   Output:
   . type - its name
@*/
RengaErrorCode RengaScheduleGetType(RengaSchedule schedule, const char **type)
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(type);
  *type = schedule->hdr.type_name;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetFromOptions - take what the user asked for

   Collective

   Input:
   . schedule - the schedule

   Options:
   . -pipeline_schedule - gpipe or 1f1b
@*/
RengaErrorCode RengaScheduleSetFromOptions(RengaSchedule schedule)
{
  const char *type = NULL;
  bool given = false;
  RengaCheckPointer(schedule);
  RengaCall(RengaOptionsGetString("pipeline_schedule", &type, &given));
  if (given) RengaCall(RengaScheduleSetType(schedule, type));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetShape - say what is to be scheduled

   Collective

   Input:
   . schedule - the schedule
   . stages - of the pipeline, at least 1
   . microbatches - of this replica; 0 where it has none in this step
   . n_messages - rows of the message table
   . messages - what crosses for every micro-batch; borrowed until the schedule is freed
   . forward_only - evaluation: rows of gradients are not used
@*/
RengaErrorCode RengaScheduleSetShape(RengaSchedule schedule, int stages, int64_t microbatches,
                                     int n_messages, const RengaMessage messages[],
                                     bool forward_only)
{
  RengaCheckPointer(schedule);
  RengaCheck(stages >= 1 && microbatches >= 0 && n_messages >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a schedule of %d stages, %lld micro-batches, %d messages", stages,
             (long long)microbatches, n_messages);
  for (int m = 0; m < n_messages; m++)
    RengaCheck(messages[m].from >= 0 && messages[m].from < stages && messages[m].to >= 0 &&
                   messages[m].to < stages &&
                   (messages[m].backward ? messages[m].from > messages[m].to
                                         : messages[m].from < messages[m].to),
               MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "message %d goes %s from stage %d to stage %d of %d stages", m,
               messages[m].backward ? "backward" : "forward", messages[m].from, messages[m].to,
               stages);
  FreeLists(schedule);
  schedule->stages = stages;
  schedule->microbatches = microbatches;
  schedule->n_messages = n_messages;
  schedule->message = messages;
  schedule->forward_only = forward_only;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetUp - build the lists of all stages and prove them

   Not collective

   Input:
   . schedule - the schedule, with its shape

   Notes: an error of the proof names stage, action and micro-batch.
@*/
RengaErrorCode RengaScheduleSetUp(RengaSchedule schedule)
{
  RengaCheckPointer(schedule);
  RengaCheck(schedule->stages, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaSchedule has no shape: call RengaScheduleSetShape first");
  if (schedule->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  FreeLists(schedule);
  RengaCall(RengaMalloc(schedule->stages, &schedule->list));
  RengaCall(RengaMalloc(schedule->stages, &schedule->in_flight));
  RengaCall(IndexRows(schedule));
  for (int s = 0; s < schedule->stages; s++) RengaCall(BuildStage(schedule, s));
  RengaCall(RengaScheduleProve_Private(schedule));
  schedule->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetActions - replace the list of a stage

   Not collective

   Input:
   . schedule - the schedule, set up
   . stage - whose list
   . count - number of actions
   . actions - the list; copied

   Notes: all lists are proved again; if the proof fails the old list stays.
@*/
RengaErrorCode RengaScheduleSetActions(RengaSchedule schedule, int stage, int64_t count,
                                       const RengaAction actions[])
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(actions);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(stage >= 0 && stage < schedule->stages && count >= 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "%lld actions for stage %d of %d stages", (long long)count, stage,
             schedule->stages);
  RengaActionList old = schedule->list[stage], list = {count, count, NULL};
  RengaCall(RengaMalloc(count + 1, &list.action));
  for (int64_t i = 0; i < count; i++) list.action[i] = actions[i];
  schedule->list[stage] = list;
  RengaErrorCode code = RengaScheduleProve_Private(schedule);
  RengaFree(code ? &list.action : &old.action);
  if (code) schedule->list[stage] = old;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetActions - the list of a stage, lent

   Not collective

   Input:
   . schedule - the schedule, set up
   . stage - whose list

   Output:
   . count - number of actions
   . actions - in the order in which they are to be done
@*/
RengaErrorCode RengaScheduleGetActions(RengaSchedule schedule, int stage, int64_t *count,
                                       const RengaAction **actions)
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(count);
  RengaCheckPointer(actions);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(stage >= 0 && stage < schedule->stages, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of %d stages", stage, schedule->stages);
  *count = schedule->list[stage].count;
  *actions = schedule->list[stage].action;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetInFlight - how many micro-batches a stage holds at the most

   Not collective

   Input:
   . schedule - the schedule, set up
   . stage - which stage

   Output:
   . microbatches - the most that are forward but not yet backward; their activations are saved
@*/
RengaErrorCode RengaScheduleGetInFlight(RengaSchedule schedule, int stage, int64_t *microbatches)
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(microbatches);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(stage >= 0 && stage < schedule->stages, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of %d stages", stage, schedule->stages);
  *microbatches = schedule->in_flight[stage];
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleDestroy - free a schedule

   Collective

   Input:
   . schedule - the schedule; set to NULL
@*/
RengaErrorCode RengaScheduleDestroy(RengaSchedule *schedule)
{
  RengaCall(RengaHeaderDestroy(schedule));
  return RENGA_SUCCESS;
}
