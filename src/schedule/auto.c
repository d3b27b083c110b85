/* auto: of the types that are built in, and of lists that are made greedily in time, the one with
   the shortest simulated step, by the seconds of the stages. What a rank holds is bounded: none
   holds more micro-batches of its stages than the fullest one of 1f1b, and those begun early
   (RengaScheduleSetEager()). So auto is never behind a type that holds as little. */
#include "pattern.h"
#include "renga/private/quiet.h"
#include <math.h>
#include <string.h>

enum { ROWS_FEW = 200000 }; /* of a step for which more than a few greedy lists are made */

typedef struct {
  RengaSchedule schedule, best;
  int64_t bound;
  double makespan;
} AutoChoice;

/* A type, by the function that creates it. */
typedef struct {
  RengaErrorCode (*create)(void *schedule);
  double eager;
} RivalType;

/* A schedule of the same shape, whose lists are its own and whose shape is lent. */
static RengaErrorCode MakeRival(RengaSchedule schedule, const RivalType *type, RengaSchedule *rival)
{
  RengaSchedule made = NULL;
  RengaCall(RengaMalloc(1, &made));
  *made = *schedule;
  made->n_sharings = 0;
  made->sharing = NULL;
  made->sharing_of = NULL;
  made->global = made->place = NULL;
  made->chunk = NULL;
  made->chunk_of = NULL;
  made->list = NULL;
  made->sequence = NULL;
  made->warm_up = made->in_flight = made->lag = NULL;
  made->row_start = made->row = NULL;
  made->pattern = NULL;
  made->chosen = NULL;
  made->eager = type->eager;
  const RengaErrorCode code = type->create(made);
  if (code) RengaFree(&made);
  RengaCall(code);
  *rival = made;
  return RENGA_SUCCESS;
}

static void FreeRival(RengaSchedule *rival)
{
  if (*rival) RengaScheduleFreeLists_Private(*rival);
  RengaFree(rival);
}

static RengaErrorCode SetUpRival(RengaSchedule rival)
{
  RengaCall(RengaSchedulePrepare_Private(rival));
  RengaCall(RengaScheduleBuild_Private(rival));
  RengaCall(RengaScheduleProve_Private(rival));
  return RENGA_SUCCESS;
}

/* Micro-batches of all stages of the rank that holds most. */
static int64_t Fullest(RengaSchedule schedule)
{
  int64_t most = 0;
  for (int r = 0; r < schedule->ranks; r++) {
    int64_t held = 0;
    for (int c = 0; c < schedule->list[r].n_chunks; c++)
      held += schedule->in_flight[schedule->list[r].chunk[c].stage];
    if (held > most) most = held;
  }
  return most;
}

static RengaErrorCode TimeRival(RengaSchedule schedule, RengaSchedule rival, double *makespan)
{
  const int p = schedule->stages;
  const double *seconds = schedule->seconds;
  double *whole = NULL, busy;
  RengaCall(RengaMalloc(2 * p, &whole));
  for (int s = 0; s < p; s++) {
    whole[s] = seconds ? seconds[p + s] + seconds[2 * p + s] : 2;
    whole[p + s] = 1;
  }
  const double *one = whole + p;
  const RengaScheduleClock clock = {
      .durations = {.seconds = {[RENGA_ACTION_FORWARD] = seconds ? seconds : one,
                                [RENGA_ACTION_RECOMPUTE] = seconds ? seconds : one,
                                [RENGA_ACTION_BACKWARD] = whole,
                                [RENGA_ACTION_BACKWARD_INPUT] = seconds ? seconds + p : one,
                                [RENGA_ACTION_BACKWARD_WEIGHT] = seconds ? seconds + 2 * p : one},
                    .message = seconds ? seconds + 3 * p : NULL}};
  const RengaErrorCode code = RengaScheduleTime_Private(rival, &clock, makespan, &busy);
  RengaFree(&whole);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* made: false where the type has no lists of this shape. */
static RengaErrorCode SetUpQuietly(RengaSchedule rival, bool *made)
{
  RengaQuiet quiet;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = SetUpRival(rival);
  RengaQuietEnd_Private(&quiet);
  *made = code == RENGA_SUCCESS;
  RengaCheck(*made || code == RENGA_ERR_PLAN, MPI_COMM_SELF, code,
             "schedule auto: the lists of another type could not be made");
  return RENGA_SUCCESS;
}

/* The rival becomes the best, or is freed. */
static RengaErrorCode WeighRival(AutoChoice *choice, RengaSchedule *rival)
{
  double makespan = HUGE_VAL;
  bool made = false;
  RengaErrorCode code = SetUpQuietly(*rival, &made);
  const bool fits = made && (!choice->best || Fullest(*rival) <= choice->bound);
  if (!code && fits) code = TimeRival(choice->schedule, *rival, &makespan);
  if (!code && makespan < choice->makespan) {
    RengaSchedule old = choice->best;
    choice->best = *rival;
    choice->makespan = makespan;
    *rival = old;
  }
  FreeRival(rival);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first one's memory is the bound; nothing is slower than no plan. */
static RengaErrorCode TryNamed(AutoChoice *choice)
{
  static const RivalType named[] = {
      {RengaScheduleCreate_1F1B, 0},   {RengaScheduleCreate_1F1B, 0.25},
      {RengaScheduleCreate_1F1B, 0.5}, {RengaScheduleCreate_1F1B, 1},
      {RengaScheduleCreate_GPipe, 0},  {RengaScheduleCreate_Interleaved, 0},
      {RengaScheduleCreate_ZBH1, 0},   {RengaScheduleCreate_ZBH2, 0},
      {RengaScheduleCreate_ZBV, 0},    {RengaScheduleCreate_DualPipeV, 0}};
  RengaSchedule schedule = choice->schedule;
  for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
    RengaSchedule rival;
    RengaCall(MakeRival(schedule, &named[i], &rival));
    RengaCall(WeighRival(choice, &rival));
    if (i > 0) continue;
    RengaCheck(choice->best, MPI_COMM_SELF, RENGA_ERR_PLAN,
               "schedule auto: not even 1f1b has lists for this shape: -schedule_type 1f1b says "
               "why");
    choice->bound =
        Fullest(choice->best) + RengaScheduleEarly(schedule->eager, schedule->stages - 1);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TryPattern(AutoChoice *choice, const RengaPattern *pattern)
{
  static const RivalType any = {RengaScheduleCreate_Interleaved, 0};
  RengaSchedule rival;
  RengaCall(MakeRival(choice->schedule, &any, &rival));
  rival->given = pattern;
  RengaCall(WeighRival(choice, &rival));
  if (choice->best->given == pattern) choice->best->given = NULL;
  return RENGA_SUCCESS;
}

/* The list is worth its proof: it may be the shortest. */
static RengaErrorCode TryGreedy(AutoChoice *choice, const RengaGreedy *greedy)
{
  RengaPattern *pattern = NULL;
  double makespan = 0;
  int64_t held = 0;
  RengaCall(RengaPatternCreate_Private(greedy->across,
                                       RengaScheduleMostTurns_Private(choice->schedule), &pattern));
  RengaErrorCode code = RengaScheduleRunGreedy_Private(greedy, pattern, &makespan, &held);
  if (!code && makespan < choice->makespan && held <= choice->bound)
    code = TryPattern(choice, pattern);
  RengaPatternFree_Private(&pattern);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All stages may hold as much, or each so many more than there are stages behind it. */
static void BoundStages(const RengaSchedule schedule, bool alike, int64_t bound, int64_t most[])
{
  for (int s = 0; s < schedule->stages; s++) {
    const int64_t wanted = alike ? bound : bound - s;
    most[s] = wanted > 1 ? wanted : 1;
  }
}

static RengaErrorCode TryBounded(AutoChoice *choice, RengaGreedy *greedy, int64_t most[])
{
  static const double patience[] = {0, 0.5, 1};
  const int64_t rows = 3 * greedy->stages * RengaScheduleMostTurns_Private(choice->schedule);
  const int64_t step = rows > ROWS_FEW ? choice->bound : 1 + choice->bound / 8;
  for (int alike = 0; alike < 2; alike++)
    for (int64_t bound = choice->bound; bound > 0; bound -= step) {
      BoundStages(choice->schedule, alike, bound, most);
      for (size_t i = 0; i < sizeof patience / sizeof patience[0]; i++) {
        greedy->patience = patience[i];
        RengaCall(TryGreedy(choice, greedy));
      }
    }
  return RENGA_SUCCESS;
}

/* Stages of other numbers of replicas, or that lie otherwise, have the types' own lists alone. */
static RengaErrorCode TryGreedyLists(AutoChoice *choice)
{
  RengaSchedule schedule = choice->schedule;
  const int p = schedule->stages;
  int across = 0;
  bool wave = false;
  RengaQuiet quiet;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode other = RengaScheduleFindPlaces_Private(schedule, &across, &wave);
  RengaQuietEnd_Private(&quiet);
  if (other) return RENGA_SUCCESS;
  double *one = NULL;
  int64_t *most = NULL;
  RengaErrorCode code = RengaMalloc(p, &one);
  for (int s = 0; s < p && !code; s++) one[s] = 1;
  if (!code) code = RengaMalloc(p, &most);
  const double *seconds = schedule->seconds;
  RengaGreedy greedy = {.stages = p,
                        .across = across,
                        .wave = wave,
                        .seconds = {seconds ? seconds : one, seconds ? seconds + p : one,
                                    seconds ? seconds + 2 * p : one},
                        .whole = schedule->recompute,
                        .most = most,
                        .most_of_rank = choice->bound};
  if (!code) code = TryBounded(choice, &greedy, most);
  RengaFree(&one);
  RengaFree(&most);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseLists(RengaSchedule schedule)
{
  AutoChoice choice = {.schedule = schedule, .makespan = HUGE_VAL};
  RengaErrorCode code = TryNamed(&choice);
  if (!code && schedule->microbatches > 0) code = TryGreedyLists(&choice);
  if (code) FreeRival(&choice.best);
  RengaCall(code);
  schedule->chosen = choice.best;
  return RENGA_SUCCESS;
}

static RengaErrorCode Build_Auto(RengaSchedule schedule, int rank, RengaActionList list)
{
  if (!schedule->chosen) RengaCall(ChooseLists(schedule));
  const RengaActionList from = &schedule->chosen->list[rank];
  RengaCall(RengaRealloc(from->n_actions, &list->action));
  memcpy(list->action, from->action, (size_t)from->n_actions * sizeof *from->action);
  list->n_actions = list->capacity = from->n_actions;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_Auto(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] = (struct _RengaScheduleOps){.build = Build_Auto};
  return RENGA_SUCCESS;
}
