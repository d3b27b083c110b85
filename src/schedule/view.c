/* The schedule drawn: a row per rank, a column per unit of time; a forward (F), a recomputation
   (R), a backward of inputs (I) and one of weights (W) take one unit, a backward of both (B) two.
   Of a rank's several stages every other one has small letters. Of replicas that all do the same
   the first is shown. */
#include "scheduleimpl.h"
#include "renga/private/number.h"
#include "rengacomm.h"
#include <string.h>

enum { MAX_COLUMNS = 60, CELL = 4, WIDTH = MAX_COLUMNS * CELL + 8 };

typedef struct {
  RengaSchedule schedule;
  char *text; /* [ranks][WIDTH] */
  int columns;
} ScheduleDrawing;

static const char letters[RENGA_ACTION_KINDS] = {[RENGA_ACTION_FORWARD] = 'F',
                                                 [RENGA_ACTION_RECOMPUTE] = 'R',
                                                 [RENGA_ACTION_BACKWARD] = 'B',
                                                 [RENGA_ACTION_BACKWARD_INPUT] = 'I',
                                                 [RENGA_ACTION_BACKWARD_WEIGHT] = 'W'};

static bool HasSmallLetters(RengaSchedule schedule, int rank, int stage)
{
  int c = 0;
  while (schedule->list[rank].chunk[c].stage != stage) c++;
  return c % 2;
}

static void DrawSchedule(void *user, int rank, const RengaAction *action, double begin, double end)
{
  ScheduleDrawing *drawing = user;
  if (!letters[action->kind]) return;
  const bool small = HasSmallLetters(drawing->schedule, rank, action->stage);
  const int letter = small ? RengaToLower(letters[action->kind]) : letters[action->kind];
  for (int column = (int)begin; column < (int)end && column < MAX_COLUMNS; column++) {
    char cell[32];
    snprintf(cell, sizeof cell, "%c%-*lld", letter, CELL - 1,
             (long long)(action->microbatch % 1000));
    memcpy(drawing->text + rank * WIDTH + column * CELL, cell, CELL);
    if (column >= drawing->columns) drawing->columns = column + 1;
  }
}

static void Clear(RengaSchedule schedule, ScheduleDrawing *drawing)
{
  for (int r = 0; r < schedule->ranks; r++)
    for (int c = 0; c < MAX_COLUMNS * CELL; c++)
      drawing->text[r * WIDTH + c] = c % CELL ? ' ' : '.';
}

/* "stage   2, replica 0 of 2,   3 in flight", "stages 0 4,   5 in flight" */
static void NameRow(RengaSchedule schedule, const RengaActionList list, size_t size, char text[])
{
  const RengaScheduleChunk *chunk = list->chunk;
  int64_t held = 0;
  int used = list->n_chunks == 1 ? snprintf(text, size, "stage %3d,", chunk->stage)
                                 : snprintf(text, size, "stages");
  for (int c = 0; c < list->n_chunks; c++) {
    held += schedule->in_flight[chunk[c].stage];
    if (list->n_chunks > 1 && used < (int)size)
      used += snprintf(text + used, size - (size_t)used, " %d%s", chunk[c].stage,
                       c + 1 < list->n_chunks ? "" : ",");
  }
  if (list->n_chunks == 1 && schedule->seats > schedule->stages)
    used += snprintf(text + used, size - (size_t)used, " replica %d of %d,", chunk->replica,
                     schedule->replicas[chunk->stage]);
  if (used < (int)size)
    snprintf(text + used, size - (size_t)used, " %3lld in flight", (long long)held);
}

static RengaErrorCode ViewRows(RengaSchedule schedule, RengaViewer viewer, ScheduleDrawing *drawing,
                               bool more)
{
  const bool equal = RengaScheduleIsEqual_Private(schedule);
  for (int r = 0; r < schedule->ranks; r++) {
    const RengaActionList list = &schedule->list[r];
    char *row = drawing->text + r * WIDTH, *end = row + drawing->columns * CELL, name[128];
    if (equal && list->chunk->replica > 0) continue;
    while (end > row && end[-1] == ' ') end--;
    *end = 0;
    NameRow(schedule, list, sizeof name, name);
    RengaCall(RengaViewerPrintf(viewer, "  %s | %s%s\n", name, row, more ? " …" : ""));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewDrawing(RengaSchedule schedule, RengaViewer viewer,
                                  ScheduleDrawing *drawing)
{
  RengaScheduleClock clock = {.visit = DrawSchedule, .user = drawing};
  double makespan = 0, busy = 0, *one = NULL;
  RengaCall(RengaMalloc(2 * schedule->stages, &one));
  double *two = one + schedule->stages;
  for (int s = 0; s < schedule->stages; s++) one[s] = 1, two[s] = 2;
  for (int k = 0; k < RENGA_ACTION_KINDS; k++)
    if (letters[k]) clock.durations.seconds[k] = k == RENGA_ACTION_BACKWARD ? two : one;
  Clear(schedule, drawing);
  RengaErrorCode code = RengaScheduleTime_Private(schedule, &clock, &makespan, &busy);
  RengaFree(&one);
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
   . viewer - the viewer, of kind ascii; or draw, for what RengaScheduleDraw() says

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_SUPPORT for a viewer of another
   kind; RENGA_ERR_FILE_WRITE where the file does not take it.

   Notes: a forward takes one unit of time, a backward two.

   See also: RengaScheduleDraw(), RengaScheduleGetActions(), RengaViewerCreate()
@*/
RengaErrorCode RengaScheduleView(RengaSchedule schedule, RengaViewer viewer)
{
  ScheduleDrawing drawing = {.schedule = schedule};
  RengaCheckPointers(schedule, viewer);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  if (!strcmp(RengaViewerGetKind(viewer), "draw")) {
    RengaCall(RengaScheduleDraw(schedule, NULL, viewer));
    return RENGA_SUCCESS;
  }
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "ascii"), schedule->hdr.comm, RENGA_ERR_SUPPORT,
             "a schedule is shown as ascii or draw, not as %s", RengaViewerGetKind(viewer));
  RengaCall(RengaMalloc((int64_t)schedule->ranks * WIDTH, &drawing.text));
  RengaErrorCode code = ViewDrawing(schedule, viewer, &drawing);
  RengaFree(&drawing.text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewScheduleAs(RengaSchedule schedule, const char *view)
{
  RengaViewer viewer = NULL;
  RengaCall(RengaViewerCreate(schedule->hdr.owner, view, &viewer));
  const RengaErrorCode code = RengaScheduleView(schedule, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleViewFromOptions - draw and save a schedule as the user asked

   Collective

   Input:
   . schedule - the schedule, set up

   Options:
   . -schedule_view - ascii[:FILE], draw[:FILE], or file:FILE for RengaScheduleSave()

   Errors: RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_WRITE where a file cannot be written; what
   RengaScheduleSave() says, on all ranks.

   See also: RengaScheduleView(), RengaScheduleSave()
@*/
RengaErrorCode RengaScheduleViewFromOptions(RengaSchedule schedule)
{
  const char *view = NULL;
  bool given = false;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointer(schedule);
  RengaCall(RengaOptionsGetString("schedule_view", &view, &given));
  if (!given || !view) return RENGA_SUCCESS;
  const size_t length = strlen(RENGA_SCHEDULE_FILE);
  if (strncmp(view, RENGA_SCHEDULE_FILE, length)) {
    RengaCall(ViewScheduleAs(schedule, view));
    return RENGA_SUCCESS;
  }
  if (RengaCommGetRank(schedule->hdr.owner) == 0) code = RengaScheduleSave(schedule, view + length);
  RengaCall(RengaErrorAgree(schedule->hdr.comm, code));
  return RENGA_SUCCESS;
}
