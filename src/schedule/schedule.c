/* The schedule: create, set, get. */
#include "scheduleimpl.h"
#include "renga/private/packages.h"
#include <string.h>

enum { EAGER_MOST = 1 << 20 };

static const RengaOptionRow rows[] = {
    {"schedule_type", RENGA_OPTION_STRING, RENGA_SCHEDULE_1F1B, RENGA_OPTION_NO_OFFSET,
     "gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-v|dualpipe-v|auto|file:", 0, 0,
     "order of forward and backward: a type, auto, or lists in file:FILE"},
    {"schedule_view", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "show the schedule of a step: ascii[:FILE], draw[:FILE], or file:FILE saves it"},
    {"schedule_eager", RENGA_OPTION_REAL, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, EAGER_MOST,
     "extra warm-up micro-batches of 1f1b, for each stage that follows"},
};

static const RengaTypeRow types[] = {
    {RENGA_SCHEDULE_GPIPE, RengaScheduleCreate_GPipe, NULL},
    {RENGA_SCHEDULE_1F1B, RengaScheduleCreate_1F1B, NULL},
    {RENGA_SCHEDULE_INTERLEAVED, RengaScheduleCreate_Interleaved, NULL},
    {RENGA_SCHEDULE_ZB_H1, RengaScheduleCreate_ZBH1, NULL},
    {RENGA_SCHEDULE_ZB_H2, RengaScheduleCreate_ZBH2, NULL},
    {RENGA_SCHEDULE_ZB_V, RengaScheduleCreate_ZBV, NULL},
    {RENGA_SCHEDULE_DUALPIPE_V, RengaScheduleCreate_DualPipeV, NULL},
    {RENGA_SCHEDULE_AUTO, RengaScheduleCreate_Auto, NULL},
    {RENGA_SCHEDULE_FILE, RengaScheduleCreate_File, NULL},
    {NULL, NULL, NULL},
};

static RengaErrorCode ResetSchedule(void *object)
{
  RengaSchedule schedule = object;
  RengaScheduleFreeLists_Private(schedule);
  schedule->eager = 0;
  schedule->rule = NULL;
  return RENGA_SUCCESS;
}

static const RengaClass schedules = {"RengaSchedule", "schedule_type", types, ResetSchedule,
                                     RengaScheduleAdopt_Private};

/*@
   RengaScheduleRegister - add a type of schedule from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, and the function that fills the list
     of a rank

   Errors: a name that another type has. What the function returns, and lists that the proof
   refuses, such as those of ranks that would wait for each other for ever, are errors of
   RengaScheduleSetUp().

   Notes: before RengaInitialize, so that -schedule_type may choose it. RengaActionListFill()
   makes a whole list in which forward and backward alternate; RengaActionListAdd() and
   RengaActionListEnd() make any other, for the micro-batches of RengaScheduleGetChunks(). The
   function is called on every rank for the lists of all ranks, and more than once for a list: it
   must look at nothing but its arguments; RengaPipelineSetUp() refuses ranks that made different
   lists. Micro-batches keep their order, forward and backward, and so the loss does not depend on
   the schedule. What a step takes is not predicted: plans of types auto, exact and rannc, and
   plans with costs of a machine are refused, those of even, tree and manual are made without a
   prediction.

   See also: RengaScheduleSetType(), RengaActionListAdd()
@*/
RengaErrorCode RengaScheduleRegister(const RengaScheduleRule *rule)
{
  RengaCheckPointer(rule);
  RengaCheck(rule->build, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the schedule %s needs a function that fills the list of a rank",
             rule->name ? rule->name : "without a name");
  RengaCall(RengaClassRegisterType_Private(&schedules, rule->name, rule));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Schedule", (int)(sizeof rows / sizeof rows[0]), rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroySchedule(void *object)
{
  RengaScheduleFreeShape_Private(object);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleCreate - make a schedule of the default type, 1f1b

   Collective

   Input:
   . comm - the ranks that will run it

   Output:
   . schedule - the new schedule; RengaScheduleDestroy() frees it

   See also: RengaScheduleSetType(), RengaScheduleSetShape(), RengaScheduleDestroy()
@*/
RengaErrorCode RengaScheduleCreate(RengaComm comm, RengaSchedule *schedule)
{
  RengaCheckPointers(comm, schedule);
  RengaSchedule made;
  RengaCall(RengaHeaderCreate(comm, "RengaSchedule", sizeof *made, DestroySchedule, &made));
  const RengaErrorCode code = RengaScheduleSetType(made, RENGA_SCHEDULE_1F1B);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *schedule = made;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetType - choose the order of forwards and backwards

   Collective

   Input:
   . type - gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe-v, auto, file: with the name of a
     file of RengaScheduleSave(), or one of RengaScheduleRegister()

   Errors: RENGA_ERR_SUPPORT for a type that there is not.

   Notes: there are no extra warm-up micro-batches after this call; see RengaScheduleSetEager().

   See also: RengaScheduleGetType(), RengaScheduleRegister()
@*/
RengaErrorCode RengaScheduleSetType(RengaSchedule schedule, const char *type)
{
  const bool file = type && !strncmp(type, RENGA_SCHEDULE_FILE, strlen(RENGA_SCHEDULE_FILE));
  RengaCall(
      RengaClassSetType_Private(&schedules, schedule, file ? RENGA_SCHEDULE_FILE : type, __func__));
  if (file) RengaCall(RengaHeaderSetTypeName(schedule, type));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleGetType(RengaSchedule schedule, const char **type)
{
  RengaCheckPointers(schedule, type);
  *type = schedule->hdr.type_name;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetEager - extra warm-up micro-batches of 1f1b, to hide messages

   Not collective (the same on all ranks)

   Input:
   . schedule - the schedule, of type 1f1b. Or of type auto, which may then hold as many more on
     each rank as a first stage has extra
   . eager - extra warm-up micro-batches for each stage that follows, at least 0: of p stages stage
     s warms up with p-s-1 + eager (p-s-1) forwards, rounded up. 0: as few as keep the pipeline full
     where messages take no time

   Options:
   . -schedule_eager - the same

   Errors: RENGA_ERR_ORDER for a type other than 1f1b and auto; RENGA_ERR_ARGUMENT for a number that
   is out of range.

   Notes: a stage's gradient comes back after the work and the messages of all stages that follow.
   Where a message takes c seconds and a micro-batch w seconds of work, 2 c / w hides a part of
   that, 1 all of it up to c = w / 2; it takes the memory of that many micro-batches more. 1 is the
   eager 1F1B of Zhuang et al., "On Optimizing the Communication of Model Parallelism", MLSys 2023.

   See also: RengaScheduleGetEager()
@*/
RengaErrorCode RengaScheduleSetEager(RengaSchedule schedule, double eager)
{
  RengaCheckPointer(schedule);
  RengaCheck(eager >= 0 && eager <= EAGER_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%g extra warm-up micro-batches for each stage: at least 0, at most %d", eager,
             (int)EAGER_MOST);
  RengaCheck(eager <= 0 || !strcmp(schedule->hdr.type_name, RENGA_SCHEDULE_1F1B) ||
                 !strcmp(schedule->hdr.type_name, RENGA_SCHEDULE_AUTO),
             MPI_COMM_SELF, RENGA_ERR_ORDER,
             "extra warm-up micro-batches are for a schedule of type 1f1b or auto, but this one's "
             "type is %s",
             schedule->hdr.type_name);
  RengaScheduleFreeLists_Private(schedule);
  schedule->eager = eager;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetEager - extra warm-up micro-batches for each stage that follows

   Output:
   . eager - extra warm-up micro-batches for each stage that follows, at least 0: see
     RengaScheduleSetEager()
@*/
RengaErrorCode RengaScheduleGetEager(RengaSchedule schedule, double *eager)
{
  RengaCheckPointers(schedule, eager);
  *eager = schedule->eager;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetFromOptions - take what the user asked for

   Collective

   Options:
   . -schedule_type - a type of RengaScheduleSetType()
   . -schedule_eager - see RengaScheduleSetEager()

   Errors: RENGA_ERR_OPTION for a bad value; RENGA_ERR_SUPPORT for a type that there is not.

   See also: RengaScheduleSetType(), RengaScheduleSetEager()
@*/
RengaErrorCode RengaScheduleSetFromOptions(RengaSchedule schedule)
{
  const char *type = NULL;
  double eager = 0;
  bool given = false, eager_given = false;
  RengaCheckPointer(schedule);
  RengaCall(RengaOptionsGetString("schedule_type", &type, &given));
  RengaCall(RengaOptionsGetReal("schedule_eager", &eager, &eager_given));
  if (given) RengaCall(RengaScheduleShareLists(schedule->hdr.owner, type));
  if (given || eager_given)
    RengaCall(RengaScheduleSetType(schedule, given ? type : RENGA_SCHEDULE_1F1B));
  if (eager_given) RengaCall(RengaScheduleSetEager(schedule, eager));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetUp - build the lists of all ranks and prove them

   Input:
   . schedule - the schedule, with its shape

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_PLAN where the lists cannot be proved, with
   the action that is wrong.

   Notes: this is proved. Every message has its match, in order. Nothing deadlocks where receives
   and sums block and sends do not. Each stage runs every micro-batch once, forward before
   backward, backward of inputs before that of weights. Gradients are summed after the last
   backward; parameters change after the last sum and are gathered after that. Nothing is used
   after it is freed. Each rank works through its micro-batches in one order that all ranks agree
   on: ascending where all stages have as many replicas. An error names stage, action and
   micro-batch.

   See also: RengaScheduleSetShape(), RengaScheduleGetActions()
@*/
RengaErrorCode RengaScheduleSetUp(RengaSchedule schedule)
{
  RengaCheckPointer(schedule);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  if (schedule->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaScheduleFreeLists_Private(schedule);
  RengaCall(RengaSchedulePrepare_Private(schedule));
  RengaCall(RengaScheduleBuild_Private(schedule));
  RengaCall(RengaScheduleProve_Private(schedule));
  schedule->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetActions - replace the list of a rank

   Input:
   . schedule - the schedule, set up
   . stage, replica - numbers from 0 of a stage and a replica of the rank
   . count - the number of actions, at least 0
   . actions - the list; copied

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_ARGUMENT for a stage or a replica
   that there is not; RENGA_ERR_PLAN where the lists cannot be proved, and the old list stays.

   Notes: all lists are proved again; if the proof fails the old list stays.
@*/
RengaErrorCode RengaScheduleSetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t count, const RengaAction actions[])
{
  RengaCheckPointers(schedule, actions);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, replica));
  RengaCheck(count >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%lld actions", (long long)count);
  RengaActionList list =
      &schedule->list[RengaScheduleChunk_Private(schedule, stage, replica)->rank];
  const struct _p_RengaActionList old = *list;
  RengaAction *copy = NULL, *replaced = old.action;
  RengaCall(RengaMalloc(count + 1, &copy));
  list->action = copy;
  list->n_actions = list->capacity = count;
  for (int64_t i = 0; i < count; i++) list->action[i] = actions[i];
  RengaErrorCode code = RengaScheduleProve_Private(schedule);
  if (code) *list = old;
  if (!code) RengaFree(&schedule->sequence); /* of the old lists */
  RengaFree(code ? &copy : &replaced);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetActions - the list of a rank, lent

   Input:
   . schedule - the schedule, set up
   . stage, replica - numbers from 0 of a stage and a replica of the rank

   Output:
   . count - the number of actions, at least 0
   . actions - [count], the actions in the order in which they are done, lent by the schedule

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_ARGUMENT for a stage or a replica
   that there is not.

   See also: RengaScheduleSetActions(), RengaScheduleGetChunks()
@*/
RengaErrorCode RengaScheduleGetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t *count, const RengaAction **actions)
{
  RengaCheckPointers(schedule, count, actions);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, replica));
  const RengaActionList list =
      &schedule->list[RengaScheduleChunk_Private(schedule, stage, replica)->rank];
  *count = list->n_actions;
  *actions = list->action;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetRankCount - how many ranks have a list

   Input:
   . schedule - the schedule, with its shape

   Output:
   . ranks - the number of ranks, at least 1

   Errors: RENGA_ERR_ORDER without a shape.

   See also: RengaScheduleGetChunks()
@*/
RengaErrorCode RengaScheduleGetRankCount(RengaSchedule schedule, int *ranks)
{
  RengaCheckPointers(schedule, ranks);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  *ranks = schedule->ranks;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetChunks - the virtual stages per rank, and the micro-batches of each

   Input:
   . schedule - the schedule, with its shape; it need not be set up
   . rank - the number of the rank in the schedule, from 0: see RengaScheduleSetRanks()

   Output:
   . count - the number of its stages, at least 0
   . chunks - [count] by stage; lent

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a rank that there is not.

   See also: RengaScheduleGetActions()
@*/
RengaErrorCode RengaScheduleGetChunks(RengaSchedule schedule, int rank, int *count,
                                      const RengaScheduleChunk **chunks)
{
  RengaCheckPointers(schedule, count, chunks);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCheck(rank >= 0 && rank < schedule->ranks, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d of a schedule of %d", rank, schedule->ranks);
  RengaCall(RengaSchedulePrepare_Private(schedule));
  *count = schedule->list[rank].n_chunks;
  *chunks = schedule->list[rank].chunk;
  return RENGA_SUCCESS;
}

/* The micro-batches of a rank, as it works through them. schedule: the schedule, with its shape; it
   need not be set up. stage, replica: numbers from 0 of a stage and a replica of the rank. count:
   the number of its micro-batches, at least 0. order: [count] their numbers in the step, forward
   and backward alike; lent. */
RengaErrorCode RengaScheduleGetOrder(RengaSchedule schedule, int stage, int replica, int64_t *count,
                                     const int64_t **order)
{
  RengaCheckPointers(schedule, count, order);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, replica));
  RengaCall(RengaSchedulePrepare_Private(schedule));
  const RengaScheduleChunk *chunk = RengaScheduleChunk_Private(schedule, stage, replica);
  *count = chunk->count;
  *order = chunk->order;
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
  RengaCheckPointer(schedule);
  RengaCall(RengaHeaderDestroy(schedule));
  return RENGA_SUCCESS;
}
