/* The schedule drawn: a row per rank, a column per unit of time; a forward (F) and a recomputation
   (R) take one unit, a backward (B) two. Of replicas that all do the same the first is shown. */
#include "scheduleimpl.h"
#include <string.h>

enum { MAX_COLUMNS = 60, CELL = 4, WIDTH = MAX_COLUMNS * CELL + 8 };

typedef struct {
  RengaSchedule schedule;
  char *text; /* [ranks][WIDTH] */
  int columns;
} Drawing;

static void Draw(void *user, const RengaAction *action, double begin, double end)
{
  Drawing *drawing = user;
  const int rank = drawing->schedule->first_rank[action->stage] + action->replica;
  const char letter = action->kind == RENGA_ACTION_FORWARD     ? 'F'
                      : action->kind == RENGA_ACTION_RECOMPUTE ? 'R'
                                                               : 'B';
  for (int column = (int)begin; column < (int)end && column < MAX_COLUMNS; column++) {
    char cell[32];
    snprintf(cell, sizeof cell, "%c%-*lld", letter, CELL - 1,
             (long long)(action->microbatch % 1000));
    memcpy(drawing->text + rank * WIDTH + column * CELL, cell, CELL);
    if (column >= drawing->columns) drawing->columns = column + 1;
  }
}

static void Clear(RengaSchedule schedule, Drawing *drawing)
{
  for (int r = 0; r < schedule->ranks; r++)
    for (int c = 0; c < MAX_COLUMNS * CELL; c++)
      drawing->text[r * WIDTH + c] = c % CELL ? ' ' : '.';
}

static RengaErrorCode ViewRows(RengaSchedule schedule, RengaViewer viewer, Drawing *drawing,
                               bool more)
{
  const bool equal = RengaScheduleIsEqual_Private(schedule);
  for (int r = 0; r < schedule->ranks; r++) {
    const RengaActionList *list = &schedule->list[r];
    char *row = drawing->text + r * WIDTH, *end = row + drawing->columns * CELL, replica[32] = "";
    if (equal && list->replica > 0) continue;
    while (end > row && end[-1] == ' ') end--;
    *end = 0;
    if (schedule->ranks > schedule->stages)
      snprintf(replica, sizeof replica, " replica %d of %d,", list->replica,
               schedule->replicas[list->stage]);
    RengaCall(RengaViewerPrintf(viewer, "  stage %3d,%s %3lld in flight | %s%s\n", list->stage,
                                replica, (long long)schedule->in_flight[list->stage], row,
                                more ? " …" : ""));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewDrawing(RengaSchedule schedule, RengaViewer viewer, Drawing *drawing)
{
  RengaScheduleClock clock = {.visit = Draw, .user = drawing};
  double makespan = 0, busy = 0, *time = NULL;
  RengaCall(RengaMalloc(2 * schedule->stages, &time));
  for (int s = 0; s < schedule->stages; s++) time[s] = 1, time[schedule->stages + s] = 2;
  clock.forward = time;
  clock.backward = time + schedule->stages;
  Clear(schedule, drawing);
  RengaErrorCode code = RengaScheduleTime_Private(schedule, &clock, &makespan, &busy);
  RengaFree(&time);
  RengaCall(code);
  RengaCall(RengaViewerPrintf(viewer,
                              "schedule %s: %d stages, %lld micro-batches, bubble %.1f %% where a "
                              "backward takes two forwards\n",
                              schedule->hdr.type_name, schedule->stages,
                              (long long)schedule->microbatches,
                              makespan > 0 ? 100 * (1 - busy / (schedule->ranks * makespan)) : 0));
  RengaCall(ViewRows(schedule, viewer, drawing, makespan > MAX_COLUMNS));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleView - draw a schedule

   Collective

   Input:
   . schedule - the schedule, set up
   . viewer - of kind ascii
@*/
RengaErrorCode RengaScheduleView(RengaSchedule schedule, RengaViewer viewer)
{
  Drawing drawing = {.schedule = schedule};
  RengaCheckPointer(schedule);
  RengaCheckPointer(viewer);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "ascii"), schedule->hdr.comm, RENGA_ERR_SUPPORT,
             "a schedule is shown as ascii, not as %s", RengaViewerGetKind(viewer));
  RengaCall(RengaMalloc((int64_t)schedule->ranks * WIDTH, &drawing.text));
  RengaErrorCode code = ViewDrawing(schedule, viewer, &drawing);
  RengaFree(&drawing.text);
  RengaCall(code);
  return RENGA_SUCCESS;
}
