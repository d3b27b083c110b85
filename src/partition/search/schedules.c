/* Schedules that were set up, kept for the next layout: their lists depend on replicas,
   micro-batches, which stages send to which, and not on where the stages are cut. Types that are
   known to be in order are not proved here; a run proves its own lists. */
#include "event.h"
#include "search.h"
#include "renga/private/schedule.h"
#include <string.h>

enum {
  KEPT_MOST = 4096,
  ACTIONS_MOST = 4000000,
  ASKED_OF_ORDERED = 8 /* nodes whose memory is asked for in the time of an action of type auto */
};
static const double actions_most = 2e6; /* of a step that is simulated */

const SearchSchedule RengaSearchScheduleList[SEARCH_SCHEDULES] = {{false, 0, NULL},
                                                                  {false, 0.25, NULL},
                                                                  {false, 0.5, NULL},
                                                                  {false, 1, NULL},
                                                                  {false, 2, NULL},
                                                                  {true, 0, NULL},
                                                                  {false, 0, RENGA_SCHEDULE_ZB_H1},
                                                                  {false, 0, RENGA_SCHEDULE_ZB_H2}};

typedef struct {
  uint64_t hash;
  RengaSchedule schedule;
  RengaMessage *messages; /* lent to it */
} KeptSchedule;

struct SearchSchedules {
  int count, size;
  double actions;     /* of all, about */
  KeptSchedule *kept; /* [size] by hash; schedule NULL: free */
};

static void Mix(uint64_t *hash, uint64_t number)
{
  *hash = (*hash ^ number) * 1099511628211u;
  *hash ^= *hash >> 31;
}

/* In lists of whole backwards a stage that recomputes has one action more, which takes no time of
   one that does not: they are the same for all where one recomputes. Those of other types are not,
   nor is what replicas give each other within actions. */
static bool AllRecompute(const SearchLayout *layout, const char *type)
{
  bool any = false;
  if (strcmp(type, RENGA_SCHEDULE_GPIPE) && strcmp(type, RENGA_SCHEDULE_1F1B)) return false;
  for (int s = 0; s < layout->count; s++) {
    if (RengaSearchFoldsStage_Private(&layout->stage[s])) return false;
    any = any || layout->stage[s].shape.saved != RENGA_SAVED_KEEP;
  }
  return any;
}

static bool HasRecomputing(const SearchLayout *layout, int s, bool all)
{
  return all || layout->stage[s].shape.saved != RENGA_SAVED_KEEP;
}

/* Replicas of equal stages go their own ways until their gradients are summed: the one with the
   most micro-batches stands for all. */
static int64_t LaneOf(const SearchModel *model, const SearchLayout *layout)
{
  return RengaSearchIsEqual_Private(layout)
             ? RengaSearchCandidateOf_Private(model, &layout->stage[0].shape).rounds
             : model->microbatches;
}

/* About. */
static double StepActions(const SearchModel *model, const SearchLayout *layout, int n_messages)
{
  return (double)LaneOf(model, layout) * (2.0 * layout->count + 2.0 * n_messages);
}

static bool IsOfOneLane(const SearchLayout *layout)
{
  return RengaSearchIsEqual_Private(layout) && layout->chunks <= 1;
}

/* Values have other names and sizes in other layouts. */
static uint64_t HashShape(const SearchModel *model, const SearchLayout *layout, int n_messages,
                          const RengaMessage messages[], const char *type, double eager)
{
  const bool lane = IsOfOneLane(layout), all = AllRecompute(layout, type);
  uint64_t hash = 1469598103934665603u, bits;
  memcpy(&bits, &eager, sizeof bits);
  Mix(&hash, bits);
  for (const char *letter = type; *letter; letter++) Mix(&hash, (uint64_t)*letter);
  Mix(&hash, (uint64_t)(lane ? LaneOf(model, layout) : model->microbatches));
  Mix(&hash, lane ? 0 : (uint64_t)model->leaf);
  Mix(&hash, (uint64_t)layout->chunks << 1 ^ (uint64_t)layout->wave);
  Mix(&hash, (uint64_t)layout->count << 32 ^ (uint64_t)n_messages);
  for (int s = 0; s < layout->count; s++)
    Mix(&hash, (lane ? 0 : (uint64_t)layout->stage[s].shape.replicas) << 1 ^
                   (uint64_t)HasRecomputing(layout, s, all));
  for (int i = 0; i < n_messages; i++)
    Mix(&hash, (uint64_t)messages[i].from << 40 ^ (uint64_t)messages[i].to << 8 ^
                   (uint64_t)messages[i].backward);
  return hash;
}

static KeptSchedule *FindKept(const struct SearchSchedules *schedules, uint64_t hash)
{
  int at = (int)(hash % (uint64_t)schedules->size);
  while (schedules->kept[at].schedule && schedules->kept[at].hash != hash)
    at = (at + 1) % schedules->size;
  return &schedules->kept[at];
}

RengaErrorCode RengaSearchSchedulesCreate_Private(struct SearchSchedules **schedules)
{
  RengaCall(RengaMalloc(1, schedules));
  (*schedules)->size = 2 * KEPT_MOST;
  const RengaErrorCode code = RengaMalloc((*schedules)->size, &(*schedules)->kept);
  if (code) RengaFree(schedules);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void DropKept(struct SearchSchedules *schedules)
{
  for (int i = 0; i < schedules->size; i++) {
    KeptSchedule *kept = &schedules->kept[i];
    if (kept->schedule) RengaScheduleDestroy(&kept->schedule);
    RengaFree(&kept->messages);
  }
  schedules->count = 0;
  schedules->actions = 0;
}

void RengaSearchSchedulesFree_Private(struct SearchSchedules **schedules)
{
  if (*schedules) DropKept(*schedules);
  if (*schedules) RengaFree(&(*schedules)->kept);
  RengaFree(schedules);
}

RengaErrorCode RengaSearchSetSchedule_Private(const SearchSchedule *schedule, RengaPlan plan)
{
  const char *type = schedule->gpipe ? RENGA_SCHEDULE_GPIPE : RENGA_SCHEDULE_1F1B;
  RengaCall(RengaPlanSetSchedule(plan, schedule->type ? schedule->type : type));
  RengaCall(RengaPlanSetEager(plan, schedule->eager));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCheckSchedule_Private(const char *type)
{
  RengaCheck(!type || !RengaScheduleIsOutside_Private(type), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "what a step by schedule %s takes cannot be predicted: cut by -partition_type even, "
             "tree or manual, with stages or replicas given, and without costs of a machine, or "
             "plan for -schedule_type " RENGA_SCHEDULE_GPIPE " or " RENGA_SCHEDULE_1F1B,
             type);
  return RENGA_SUCCESS;
}

SearchSchedule RengaSearchScheduleNamed_Private(const char *type, double eager)
{
  const bool gpipe = type && !strcmp(type, RENGA_SCHEDULE_GPIPE);
  const bool known = !type || gpipe || !strcmp(type, RENGA_SCHEDULE_1F1B);
  return (SearchSchedule){
      .gpipe = gpipe, .eager = eager > 0 ? eager : 0, .type = known ? NULL : type};
}

bool RengaSearchIsHalved_Private(const SearchSchedule *schedule)
{
  return schedule->type && (!strcmp(schedule->type, RENGA_SCHEDULE_ZB_H1) ||
                            !strcmp(schedule->type, RENGA_SCHEDULE_ZB_H2));
}

bool RengaSearchIsBounded_Private(const SearchSchedule *schedule)
{
  return !schedule->type || RengaSearchIsHalved_Private(schedule);
}

bool RengaSearchMaySimulate_Private(const SearchModel *model, const SearchLayout *layout,
                                    int n_messages)
{
  return StepActions(model, layout, n_messages) <= actions_most;
}

RengaErrorCode RengaSearchSetShape_Private(const SearchModel *model, const SearchLayout *layout,
                                           int n_messages, const RengaMessage messages[],
                                           RengaPlan plan, RengaSchedule schedule)
{
  const bool lane = IsOfOneLane(layout);
  const char *type;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  if (!lane)
    RengaCall(
        RengaScheduleSetPlan(schedule, plan, model->microbatches, n_messages, messages, false));
  else
    RengaCall(RengaScheduleSetShape(schedule, layout->count, NULL, LaneOf(model, layout),
                                    n_messages, messages, false));
  const bool all = AllRecompute(layout, type);
  for (int s = 0; s < layout->count; s++)
    RengaCall(RengaScheduleSetRecompute(schedule, s, HasRecomputing(layout, s, all)));
  if (lane) RengaCall(RengaScheduleTakeSeconds_Private(schedule, plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeKeptSchedule(const SearchTask *task, const SearchModel *model,
                                       const SearchLayout *layout, int n_messages,
                                       const RengaMessage messages[], RengaPlan plan, bool known,
                                       RengaSchedule *schedule)
{
  const char *type;
  double eager = 0;
  RengaSchedule made = NULL;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaPlanGetEager(plan, &eager));
  RengaCall(RengaScheduleCreate(task->self, &made));
  RengaErrorCode code = RengaScheduleSetType(made, type);
  if (!code && eager > 0) code = RengaScheduleSetEager(made, eager);
  if (!code) code = RengaSearchSetShape_Private(model, layout, n_messages, messages, plan, made);
  RengaLogEventBegin(RengaSearchEvent_Private(SEARCH_EVENT_LISTS));
  if (!code) code = known ? RengaScheduleSetUpKnown_Private(made) : RengaScheduleSetUp(made);
  RengaLogEventEnd(RengaSearchEvent_Private(SEARCH_EVENT_LISTS), 0, 0, 0);
  if (task->session && strcmp(type, RENGA_SCHEDULE_AUTO) == 0) /* it takes as long as asking does */
    task->session->asked += ASKED_OF_ORDERED * (int64_t)StepActions(model, layout, n_messages);
  if (code) RengaScheduleDestroy(&made);
  RengaCall(code);
  *schedule = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode KeepSchedule(struct SearchSchedules *schedules, const SearchTask *task,
                                   const SearchModel *model, const SearchLayout *layout,
                                   int n_messages, const RengaMessage messages[], RengaPlan plan,
                                   KeptSchedule *kept)
{
  RengaMessage *own = NULL;
  RengaSchedule made = NULL;
  RengaCall(RengaMalloc(n_messages + 1, &own));
  if (n_messages) memcpy(own, messages, (size_t)n_messages * sizeof *own);
  for (int i = 0; i < n_messages; i++) own[i].value = ""; /* the plan's, which goes before it */
  const RengaErrorCode code =
      MakeKeptSchedule(task, model, layout, n_messages, own, plan, true, &made);
  if (code) RengaFree(&own);
  RengaCall(code);
  kept->schedule = made;
  kept->messages = own;
  schedules->count++;
  schedules->actions += StepActions(model, layout, n_messages);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchScheduleOf_Private(const SearchTask *task, const SearchModel *model,
                                             const SearchLayout *layout, const SearchDraft *draft,
                                             RengaSchedule *schedule, bool *lent)
{
  struct SearchSchedules *schedules = draft->schedules;
  const int n = draft->n_messages;
  const char *type;
  double eager = 0;
  RengaCall(RengaPlanGetSchedule(draft->plan, &type));
  RengaCall(RengaPlanGetEager(draft->plan, &eager));
  *lent = schedules != NULL && strcmp(type, RENGA_SCHEDULE_AUTO) && /* it goes by seconds */
          StepActions(model, layout, n) <= actions_most;
  if (*lent) {
    const uint64_t hash = HashShape(model, layout, n, draft->messages, type, eager);
    KeptSchedule *kept = FindKept(schedules, hash);
    if (!kept->schedule) {
      if (schedules->count >= KEPT_MOST || schedules->actions >= ACTIONS_MOST) DropKept(schedules);
      kept = FindKept(schedules, hash);
      kept->hash = hash;
      RengaCall(
          KeepSchedule(schedules, task, model, layout, n, draft->messages, draft->plan, kept));
    }
    *schedule = kept->schedule;
    return RENGA_SUCCESS;
  }
  RengaCall(
      MakeKeptSchedule(task, model, layout, n, draft->messages, draft->plan, false, schedule));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchInFlight_Private(const SearchTask *task, const SearchModel *model,
                                           const SearchLayout *layout, const SearchDraft *draft,
                                           int64_t in_flight[])
{
  RengaSchedule schedule = NULL;
  bool lent = false;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaSearchScheduleOf_Private(task, model, layout, draft, &schedule, &lent));
  for (int s = 0; s < layout->count && !code; s++)
    code = RengaScheduleGetInFlight(schedule, s, &in_flight[s]);
  if (!lent) RengaScheduleDestroy(&schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}
