/* The schedule drawn: a row per stage, a column per unit of time; a forward takes one unit, a
   backward two. */
#include "scheduleimpl.h"
#include <string.h>

enum { MAX_COLUMNS = 60, CELL = 4, WIDTH = MAX_COLUMNS * CELL + 8 };

typedef struct {
  char *text; /* [stages][WIDTH] */
  int columns;
} Drawing;

static void Draw(void *user, const RengaAction *action, double begin, double end)
{
  Drawing *drawing = user;
  bool forward = action->kind == RENGA_ACTION_FORWARD;
  for (int column = (int)begin; column < (int)end && column < MAX_COLUMNS; column++) {
    char cell[32];
    snprintf(cell, sizeof cell, "%c%-*lld", forward ? 'F' : 'B', CELL - 1,
             (long long)(action->microbatch % 1000));
    memcpy(drawing->text + action->stage * WIDTH + column * CELL, cell, CELL);
    if (column >= drawing->columns) drawing->columns = column + 1;
  }
}

static void Clear(RengaSchedule schedule, Drawing *drawing)
{
  for (int s = 0; s < schedule->stages; s++)
    for (int c = 0; c < MAX_COLUMNS * CELL; c++)
      drawing->text[s * WIDTH + c] = c % CELL ? ' ' : '.';
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
                              makespan > 0 ? 100 * (1 - busy / (schedule->stages * makespan)) : 0));
  for (int s = 0; s < schedule->stages; s++) {
    char *end = drawing->text + s * WIDTH + drawing->columns * CELL;
    while (end > drawing->text + s * WIDTH && end[-1] == ' ') end--;
    *end = 0;
    RengaCall(RengaViewerPrintf(viewer, "  stage %3d, %3lld in flight | %s%s\n", s,
                                (long long)schedule->in_flight[s], drawing->text + s * WIDTH,
                                makespan > MAX_COLUMNS ? " …" : ""));
  }
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
  Drawing drawing = {0};
  RengaCheckPointer(schedule);
  RengaCheckPointer(viewer);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "ascii"), schedule->hdr.comm, RENGA_ERR_SUPPORT,
             "a schedule is shown as ascii, not as %s", RengaViewerGetKind(viewer));
  RengaCall(RengaMalloc((int64_t)schedule->stages * WIDTH, &drawing.text));
  RengaErrorCode code = ViewDrawing(schedule, viewer, &drawing);
  RengaFree(&drawing.text);
  RengaCall(code);
  return RENGA_SUCCESS;
}
