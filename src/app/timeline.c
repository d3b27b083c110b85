/* -schedule_view: the schedule of a step, and of renga train with draw also a step that was run.
   Each rank keeps the bars of its last steps; at the end that of median length is brought together
   and drawn below the simulated one. */
#include "app.h"
#include <stdlib.h>
#include <string.h>

enum { KEPT_STEPS = 15 };

typedef struct {
  RengaActionKind kind;
  bool taken;     /* by an action of the list */
  int64_t number; /* of the micro-batch, or of the bucket */
  double begin, end;
} KeptBar;

typedef struct {
  int64_t step;
  double seconds;
  int64_t count, room;
  KeptBar *bar; /* in the order in which they ended */
} KeptStep;

struct _AppTimeline {
  RengaComm comm;   /* lent */
  MPI_Comm printer; /* lent */
  const char *view;
  int64_t steps; /* whole ones */
  double began;
  bool lost;                 /* memory ran out */
  KeptStep kept[KEPT_STEPS]; /* that of number n at n % KEPT_STEPS */
};

/* Of rank 0, before any work. */
static RengaErrorCode CheckViewPlace(const char *view)
{
  static const char *const kinds[] = {"", "ascii", "draw", "file"};
  const char *colon = strchr(view, ':'), *file = colon && colon[1] ? colon + 1 : NULL;
  const size_t length = colon ? (size_t)(colon - view) : strlen(view);
  size_t kind = 0;
  while (kind < 4 && (strlen(kinds[kind]) != length || strncmp(kinds[kind], view, length))) kind++;
  RengaCheck(kind < 4, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-schedule_view %s: write ascii, ascii:FILE, draw:FILE or file:FILE", view);
  RengaCheck(kind < 3 || file, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-schedule_view %s: which file? write file:FILE", view);
  if (file && kind >= 2) RengaCall(RengaViewerCheckFile(file));
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadScheduleView(RengaComm comm, const char **view, bool *drawn)
{
  RengaErrorCode code = RENGA_SUCCESS;
  bool given = false;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("schedule_view", view, &given));
  if (given && !*view) *view = "";
  if (!given) *view = NULL;
  if (given && RengaCommGetRank(comm) == 0) code = CheckViewPlace(*view);
  RengaCall(RengaErrorAgree(printer, code));
  *drawn = given && !strncmp(*view, "draw", 4);
  return RENGA_SUCCESS;
}

void AppTimelineDestroy(AppTimeline *timeline)
{
  if (!*timeline) return;
  (void)RengaLogTraceSetListener(NULL, *timeline);
  for (int k = 0; k < KEPT_STEPS; k++) RengaFree(&(*timeline)->kept[k].bar);
  RengaFree(timeline);
}

/* "backward input 3", "reduce of bucket 2"; false: no action of a list, or the end of a gather that
   the step before has begun. */
static bool ReadBarName(const char *name, RengaActionKind *kind, int64_t *number)
{
  static const char bucket[] = " of bucket ";
  size_t most = 0;
  for (int k = 0; k < RENGA_ACTION_GATHER_PARAMETERS; k++) {
    const char *text = RengaActionName((RengaActionKind)k);
    const size_t length = strlen(text);
    if (length <= most || strncmp(name, text, length) || (name[length] && name[length] != ' '))
      continue;
    most = length;
    *kind = (RengaActionKind)k;
  }
  if (most == 0 || !strncmp(name + most, " of parameters", 14)) return false;
  const bool counted = !strncmp(name + most, bucket, sizeof bucket - 1);
  *number = strtoll(name + most + (counted ? sizeof bucket - 1 : 0), NULL, 10);
  return true;
}

/* A listener. What a device does is heard of from its own clock, not as the host queues it. */
static void KeepTimelineBar(void *user, const char *track, const char *name, double begin,
                            double end)
{
  AppTimeline timeline = user;
  KeptStep *step = &timeline->kept[timeline->steps % KEPT_STEPS];
  KeptBar bar = {.begin = begin, .end = end};
  if (begin < timeline->began || !strcmp(track, "host")) return;
  if (!ReadBarName(name, &bar.kind, &bar.number)) return;
  if (step->count == step->room) {
    const int64_t room = step->room ? 2 * step->room : 256;
    timeline->lost = timeline->lost || RengaRealloc(room, &step->bar) != RENGA_SUCCESS;
    if (timeline->lost) return;
    step->room = room;
  }
  step->bar[step->count++] = bar;
}

static RengaErrorCode BeginTimelineStep(void *user, int64_t step)
{
  AppTimeline timeline = user;
  timeline->kept[timeline->steps % KEPT_STEPS].count = 0;
  timeline->kept[timeline->steps % KEPT_STEPS].step = step;
  timeline->began = MPI_Wtime();
  RengaCall(RengaLogTraceSetListener(KeepTimelineBar, timeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndTimelineStep(void *user, const RengaTrainerRow *row)
{
  AppTimeline timeline = user;
  RengaCall(RengaLogTraceSetListener(NULL, timeline));
  timeline->kept[timeline->steps % KEPT_STEPS].seconds = row->seconds;
  if (row->whole) timeline->steps++;
  return RENGA_SUCCESS;
}

RengaErrorCode AppTimelineCreate(RengaComm comm, RengaTrainer trainer, AppTimeline *timeline)
{
  const char *view;
  bool drawn;
  RengaCall(AppReadScheduleView(comm, &view, &drawn));
  if (!drawn) return RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaErrorAgree(printer, RengaMalloc(1, timeline)));
  (*timeline)->comm = comm;
  (*timeline)->printer = printer;
  (*timeline)->view = view;
  const RengaTrainerMonitor monitor = {
      .begin_step = BeginTimelineStep, .step = EndTimelineStep, .user = *timeline};
  RengaCall(RengaTrainerAddMonitor(trainer, &monitor));
  return RENGA_SUCCESS;
}

/* The place of the one of median length, by rank 0's clock, without the first step of all, which
   warms up; -1: no whole step was made. Collective. */
static RengaErrorCode ChooseStep(AppTimeline timeline, int *chosen)
{
  const int count = timeline->steps < KEPT_STEPS ? (int)timeline->steps : KEPT_STEPS;
  const int first = count > 1 && timeline->steps <= KEPT_STEPS;
  *chosen = -1;
  for (int k = first; k < count; k++) {
    int before = 0;
    for (int i = first; i < count; i++) {
      const double other = timeline->kept[i].seconds, own = timeline->kept[k].seconds;
      before += other < own || (other == own && i < k);
    }
    if (before == (count - first) / 2) *chosen = k;
  }
  RengaCall(RengaCommBroadcast(timeline->comm, chosen, sizeof *chosen, 0, "the step to be drawn"));
  return RENGA_SUCCESS;
}

/* The bar of a sum: the last one. Where replicas fold their gradients there is one for each
   micro-batch, and the list has the sum that the update waits for. */
static KeptBar *TakeLastBar(const KeptStep *step, const RengaAction *action)
{
  for (int64_t i = step->count - 1; i >= 0; i--) {
    KeptBar *bar = &step->bar[i];
    if (bar->taken || bar->kind != action->kind || bar->number != action->bucket) continue;
    bar->taken = true;
    return bar;
  }
  return NULL;
}

/* The bar of another action: the first of its kind and number that no other has. start: [kinds]
   where those begin that may be free. */
static KeptBar *TakeBar(const KeptStep *step, const RengaAction *action, int64_t start[])
{
  const int64_t number = action->microbatch >= 0 ? action->microbatch : 0;
  int64_t *from = &start[action->kind];
  if (action->bucket >= 0) return TakeLastBar(step, action);
  while (*from < step->count && (step->bar[*from].taken || step->bar[*from].kind != action->kind))
    ++*from;
  for (int64_t i = *from; i < step->count; i++) {
    KeptBar *bar = &step->bar[i];
    if (bar->taken || bar->kind != action->kind || bar->number != number) continue;
    bar->taken = true;
    return bar;
  }
  return NULL;
}

/* This rank's list, with its bars. Ranks of a group go through a list together, and wait for each
   other in its actions: the first shows what they do. bars: to be freed with RengaFree. */
static RengaErrorCode MatchBars(const AppTimeline timeline, RengaSchedule schedule, RengaPlan plan,
                                const KeptStep *step, int64_t *count, RengaScheduleBar **bars)
{
  int64_t start[RENGA_ACTION_KINDS] = {0}, n_actions = 0;
  const RengaAction *action = NULL;
  RengaPlanPlace place;
  int places;
  *count = 0;
  RengaCall(RengaPlanFindPlaces(plan, RengaCommGetRank(timeline->comm), 1, &place, &places));
  if (places > 0 && place.tensor == 0 && place.sequence == 0)
    RengaCall(RengaScheduleGetActions(schedule, place.stage, place.replica, &n_actions, &action));
  RengaCall(RengaMalloc(n_actions + 1, bars));
  for (int64_t a = 0; a < n_actions; a++) {
    const KeptBar *bar = TakeBar(step, &action[a], start);
    if (bar) (*bars)[(*count)++] = (RengaScheduleBar){action[a], bar->begin, bar->end};
  }
  return RENGA_SUCCESS;
}

/* Those of all ranks on rank 0, one behind the other, by one clock. Collective. */
static RengaErrorCode GatherBars(const AppTimeline timeline, int64_t mine, RengaScheduleBar **own,
                                 int64_t *count, RengaScheduleBar **all)
{
  static const char what[] = "all ranks to hand in the timeline of a step";
  const int size = RengaCommGetSize(timeline->comm);
  int64_t *counts = NULL, most = 0;
  *count = 0;
  RengaCall(RengaErrorAgree(timeline->printer, RengaMalloc(size, &counts)));
  RengaErrorCode code = RengaCommGather(timeline->comm, &mine, sizeof mine, counts, -1, what);
  for (int r = 0; r < size; r++) most = counts[r] > most ? counts[r] : most;
  if (!code) {
    code = RengaRealloc(most + 1, own);
    if (!code) code = RengaMalloc(most * size + 1, all);
    code = RengaErrorAgree(timeline->printer, code);
  }
  if (!code)
    code = RengaCommGather(timeline->comm, *own, (size_t)most * sizeof **own, *all, 0, what);
  for (int r = 0; r < size && !code; r++)
    for (int64_t i = 0; i < counts[r]; i++) (*all)[(*count)++] = (*all)[r * most + i];
  RengaFree(&counts);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BringBars(const AppTimeline timeline, RengaSchedule schedule, RengaPlan plan,
                                const KeptStep *kept, int64_t *count, RengaScheduleBar **all)
{
  RengaScheduleBar *own = NULL;
  int64_t mine = 0;
  double zero = 0;
  RengaErrorCode code = MatchBars(timeline, schedule, plan, kept, &mine, &own);
  code = RengaErrorAgree(timeline->printer, code);
  if (!code) code = RengaLogTraceFindZero(timeline->printer, &zero);
  for (int64_t i = 0; i < mine; i++) own[i].begin -= zero, own[i].end -= zero;
  if (!code) code = GatherBars(timeline, mine, &own, count, all);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppDrawSchedule(RengaComm comm, RengaSchedule schedule, const char *view,
                               RengaScheduleStep *step)
{
  RengaViewer viewer = NULL;
  RengaCall(RengaViewerCreate(comm, view, &viewer));
  RengaErrorCode code = RengaScheduleDraw(schedule, step, viewer);
  const RengaErrorCode closed = RengaViewerDestroy(&viewer);
  RengaCall(code ? code : closed);
  return RENGA_SUCCESS;
}

static RengaErrorCode SayTimeline(const AppTimeline timeline, AppMonitor monitor,
                                  const RengaScheduleStep *step, int64_t number)
{
  char measured[32], simulated[32], replayed[32];
  const char *colon = strchr(timeline->view, ':');
  RengaFormatSeconds(step->measured, sizeof measured, measured);
  RengaFormatSeconds(step->simulated, sizeof simulated, simulated);
  RengaFormatSeconds(step->replayed, sizeof replayed, replayed);
  if (!colon || step->measured <= 0) return RENGA_SUCCESS;
  RengaCall(
      AppMonitorSay(monitor,
                    "%s shows step %lld: %s measured, %s%s%s simulated with what its actions "
                    "took\n",
                    colon + 1, (long long)number, measured, step->simulated > 0 ? simulated : "",
                    step->simulated > 0 ? " simulated with the plan's costs, " : "", replayed));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTimelineDraw(AppTimeline timeline, RengaPipeline pipeline, RengaPlan plan,
                               AppMonitor monitor)
{
  RengaSchedule schedule;
  RengaScheduleStep step = {.plan = plan};
  RengaScheduleBar *all = NULL;
  int chosen;
  if (!timeline) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(timeline->printer, timeline->lost ? RENGA_ERR_MEMORY : RENGA_SUCCESS));
  RengaCall(RengaPipelineGetStepSchedule(pipeline, &schedule));
  RengaCall(ChooseStep(timeline, &chosen));
  const KeptStep *kept = chosen >= 0 ? &timeline->kept[chosen] : NULL;
  RengaErrorCode code =
      kept ? BringBars(timeline, schedule, plan, kept, &step.count, &all) : RENGA_SUCCESS;
  step.bar = all;
  if (!code) code = AppDrawSchedule(timeline->comm, schedule, timeline->view, &step);
  RengaFree(&all);
  RengaCall(code);
  if (kept) RengaCall(SayTimeline(timeline, monitor, &step, kept->step));
  return RENGA_SUCCESS;
}

RengaErrorCode AppViewSchedule(RengaComm comm, RengaPipeline pipeline)
{
  const char *view;
  bool drawn;
  RengaSchedule schedule;
  RengaCall(AppReadScheduleView(comm, &view, &drawn));
  if (!view || drawn) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetStepSchedule(pipeline, &schedule));
  RengaCall(RengaScheduleViewFromOptions(schedule));
  return RENGA_SUCCESS;
}
