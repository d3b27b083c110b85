/* A step in time as a picture (SVG): for each rank a row of what it computes, and below that a thin
   one of what is on its way; the simulated step, and where one was run that step below it, on one
   scale. Colours say what is done, shades which of a rank's stages it is for. */
#include "renga/private/number.h"
#include "rengacomm.h"
#include "scheduleimpl.h"
#include <math.h>
#include <string.h>

#define LEFT 190.0
#define RIGHT 1180.0
#define WORK_HEIGHT 24.0
#define WAY_HEIGHT 7.0
#define ROW_HEIGHT 42.0
#define HEAD_HEIGHT 112.0
#define PART_HEAD 26.0
#define AXIS_HEIGHT 34.0
enum { MOST_BARS = 200000, CHANNELS = 3, ROWS_FEW = 12, PIXEL_PARTS = 4 };

/* Light enough for dark text on either background. */
static const struct {
  const char *what;
  int colour[CHANNELS];
} looks[RENGA_ACTION_KINDS] = {
    [RENGA_ACTION_FORWARD] = {"forward", {104, 160, 224}},
    [RENGA_ACTION_BACKWARD] = {"backward", {240, 158, 84}},
    [RENGA_ACTION_BACKWARD_INPUT] = {"backward of inputs", {240, 130, 110}},
    [RENGA_ACTION_BACKWARD_WEIGHT] = {"of weights", {118, 190, 118}},
    [RENGA_ACTION_RECOMPUTE] = {"recomputation", {190, 150, 216}},
    [RENGA_ACTION_RECEIVE] = {"message", {120, 170, 170}},
    [RENGA_ACTION_REDUCE] = {"sum of gradients", {226, 104, 134}},
    [RENGA_ACTION_GATHER] = {"gather", {206, 176, 60}},
    [RENGA_ACTION_UPDATE] = {"update", {160, 160, 160}},
    [RENGA_ACTION_GATHER_PARAMETERS] = {"all-gather of parameters", {170, 150, 40}},
};

typedef struct {
  RengaSchedule schedule;
  RengaPlan plan; /* NULL: none */
  RengaViewer viewer;
  double scale; /* width of a second */
  bool known;   /* it is one */
  int n_rows;   /* of the picture, from the top */
  int *row;     /* [ranks] in which a rank stands, with all that look like it */
  int *alike;   /* [ranks] how many stand in the row that the rank begins; 0: it begins none */
} StepDrawing;

static RengaErrorCode DrawWords(RengaViewer viewer, double x, double y, const char *style,
                                const char *text)
{
  RengaCall(RengaViewerPrintf(viewer, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, style));
  for (; *text; text++) {
    const unsigned char letter = (unsigned char)*text;
    const char *entity = letter == '<' ? "&lt;" : letter == '&' ? "&amp;" : NULL;
    RengaCall(entity
                  ? RengaViewerPrintf(viewer, "%s", entity)
                  : RengaViewerPrintf(viewer, "%c", letter < ' ' || letter > '~' ? '?' : letter));
  }
  RengaCall(RengaViewerPrintf(viewer, "</text>\n"));
  return RENGA_SUCCESS;
}

/* Number of a stage among those of its rank. */
static int FindShade(const StepDrawing *drawing, int row, int stage)
{
  const RengaActionList list = &drawing->schedule->list[row];
  int c = 0;
  while (c < list->n_chunks - 1 && list->chunk[c].stage != stage) c++;
  return c;
}

/* Later stages of a rank are paler. */
static void NameShade(RengaActionKind kind, int shade, int shades, size_t size, char text[])
{
  const double pale = shades > 1 ? 0.55 * shade / (shades - 1) : 0;
  int channel[CHANNELS];
  for (int i = 0; i < CHANNELS; i++)
    channel[i] = (int)(looks[kind].colour[i] + pale * (255 - looks[kind].colour[i]));
  snprintf(text, size, "#%02x%02x%02x", channel[0], channel[1], channel[2]);
}

static void NameSeconds(const StepDrawing *drawing, double seconds, size_t size, char text[])
{
  if (drawing->known)
    RengaFormatSeconds(seconds, size, text);
  else if (seconds >= 1e4)
    RengaFormatCount(seconds, size, text);
  else
    RengaTextFormat(text, size, "%.4g", seconds);
}

/* What a pointer that rests on a bar is told. */
static RengaErrorCode PutTip(const StepDrawing *drawing, const RengaScheduleBar *bar)
{
  const RengaAction *action = &bar->action;
  char begin[32], end[32], number[48] = "", bucket[32] = "";
  NameSeconds(drawing, bar->begin, sizeof begin, begin);
  NameSeconds(drawing, bar->end, sizeof end, end);
  if (action->microbatch >= 0)
    snprintf(number, sizeof number, ", micro-batch %lld", (long long)action->microbatch);
  if (action->bucket >= 0) snprintf(bucket, sizeof bucket, ", bucket %d", action->bucket);
  RengaCall(RengaViewerPrintf(drawing->viewer, "<title>%s, stage %d%s%s: %s to %s</title>",
                              looks[action->kind].what, action->stage, number, bucket, begin, end));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawBarNumber(const StepDrawing *drawing, const RengaScheduleBar *bar,
                                    double y)
{
  const double width = (bar->end - bar->begin) * drawing->scale;
  char text[32];
  const int letters = snprintf(text, sizeof text, "%lld", (long long)bar->action.microbatch);
  if (bar->action.microbatch < 0 || width < 4 + 6 * letters) return RENGA_SUCCESS;
  RengaCall(DrawWords(drawing->viewer, LEFT + bar->begin * drawing->scale + width / 2,
                      y + WORK_HEIGHT / 2 + 4, " class=\"number\"", text));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawStepBar(const StepDrawing *drawing, const RengaScheduleBar *bar,
                                  double top)
{
  RengaSchedule schedule = drawing->schedule;
  const RengaAction *action = &bar->action;
  const int rank = schedule->rank[schedule->first_seat[action->stage] + action->replica];
  const bool work = RengaActionIsWork_Private(action->kind);
  const double y = top + drawing->row[rank] * ROW_HEIGHT + (work ? 0 : WORK_HEIGHT + 2);
  char colour[8];
  if (action->kind == RENGA_ACTION_SEND || bar->end <= bar->begin) return RENGA_SUCCESS;
  if (!drawing->alike[rank]) return RENGA_SUCCESS;
  NameShade(action->kind, FindShade(drawing, rank, action->stage), schedule->list[rank].n_chunks,
            sizeof colour, colour);
  RengaCall(RengaViewerPrintf(
      drawing->viewer,
      "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\">",
      work ? "work" : "way", LEFT + bar->begin * drawing->scale, y,
      fmax((bar->end - bar->begin) * drawing->scale, 0.2), work ? WORK_HEIGHT : WAY_HEIGHT,
      colour));
  RengaCall(PutTip(drawing, bar));
  RengaCall(RengaViewerPrintf(drawing->viewer, "</rect>\n"));
  if (work) RengaCall(DrawBarNumber(drawing, bar, y));
  return RENGA_SUCCESS;
}

/* Ranks of the plan that a list is for, side by side: more than one with tensor ranks. */
static int RanksOfList(const StepDrawing *drawing)
{
  if (!drawing->plan) return 1;
  return RengaPlanGetStage(drawing->plan, 0)->shape.tensor *
         RengaPlanGetStage(drawing->plan, 0)->shape.sequence;
}

/* "rank 3", "ranks 6-7", "rank 3 and 31 alike" */
static int NameRanks(const StepDrawing *drawing, int row, size_t size, char text[])
{
  const RengaScheduleChunk *chunk = drawing->schedule->list[row].chunk;
  const int each = RanksOfList(drawing), alike = drawing->alike[row] - 1;
  const int rank =
      drawing->plan ? RengaPlanGetRank(drawing->plan, chunk->stage, chunk->replica) : row;
  int used = each > 1 ? snprintf(text, size, "ranks %d-%d", rank, rank + each - 1)
                      : snprintf(text, size, "rank %d", rank);
  if (alike) used += snprintf(text + used, size - (size_t)used, " and %d alike", alike * each);
  return used;
}

/* "rank 3: stages 1 5", "4 in flight, 1.2 MiB" */
static RengaErrorCode DrawRowName(const StepDrawing *drawing, int row, double y)
{
  RengaSchedule schedule = drawing->schedule;
  const RengaActionList list = &schedule->list[row];
  const RengaScheduleChunk *chunk = list->chunk;
  char text[128], bytes[32] = "";
  int64_t held = 0, memory = 0;
  int used = NameRanks(drawing, row, sizeof text, text);
  used +=
      snprintf(text + used, sizeof text - (size_t)used, ": stage%s", list->n_chunks > 1 ? "s" : "");
  for (int c = 0; c < list->n_chunks; c++) {
    held += schedule->in_flight[chunk[c].stage];
    if (used < 34) used += snprintf(text + used, sizeof text - (size_t)used, " %d", chunk[c].stage);
  }
  RengaCall(DrawWords(drawing->viewer, 12, y + 11, " font-size=\"11\"", text));
  if (drawing->plan) RengaCall(RengaPlanGetDeviceMemory(drawing->plan, chunk->stage, &memory));
  if (memory > 0) RengaFormatBytes((double)memory, sizeof bytes, bytes);
  snprintf(text, sizeof text, "%lld in flight%s%s", (long long)held, memory > 0 ? ", " : "", bytes);
  RengaCall(DrawWords(drawing->viewer, 12, y + 25, " font-size=\"10\" class=\"faint\"", text));
  return RENGA_SUCCESS;
}

/* At most eight steps of 1, 2 or 5 times a power of ten. */
static RengaErrorCode DrawAxis(const StepDrawing *drawing, double top, double bottom, double most)
{
  if (most <= 0) return RENGA_SUCCESS;
  const double power = pow(10, floor(log10(most / 8))), ratio = most / 8 / power;
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  char text[32];
  for (int i = 0; i * step <= most * 1.0001; i++) {
    const double x = LEFT + i * step * drawing->scale;
    NameSeconds(drawing, i * step, sizeof text, text);
    RengaCall(RengaViewerPrintf(drawing->viewer, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n",
                                x, top, bottom + 4));
    RengaCall(DrawWords(drawing->viewer, x, bottom + 16,
                        " text-anchor=\"middle\" font-size=\"10\" class=\"faint\"",
                        i ? text : "0"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawPart(const StepDrawing *drawing, const RengaTimeline *timeline,
                               const char *head, double most, double top)
{
  const double first = top + PART_HEAD, bottom = first + drawing->n_rows * ROW_HEIGHT;
  RengaCall(DrawWords(drawing->viewer, 12, top + 14, " font-size=\"13\"", head));
  RengaCall(DrawAxis(drawing, first - 4, bottom - 8, most));
  for (int r = 0; r < drawing->schedule->ranks; r++)
    if (drawing->alike[r]) RengaCall(DrawRowName(drawing, r, first + drawing->row[r] * ROW_HEIGHT));
  for (int64_t i = 0; i < timeline->count; i++)
    RengaCall(DrawStepBar(drawing, &timeline->bar[i], first));
  return RENGA_SUCCESS;
}

/* Of the kinds that occur. */
static RengaErrorCode DrawKey(const StepDrawing *drawing, const RengaTimeline parts[2])
{
  double x = 12;
  for (int k = 0; k < RENGA_ACTION_KINDS; k++) {
    bool occurs = false;
    char colour[8];
    for (int t = 0; t < 2; t++)
      for (int64_t i = 0; i < parts[t].count && !occurs; i++)
        occurs =
            (int)parts[t].bar[i].action.kind == k && parts[t].bar[i].end > parts[t].bar[i].begin;
    if (!occurs || !looks[k].what) continue;
    NameShade((RengaActionKind)k, 0, 1, sizeof colour, colour);
    RengaCall(RengaViewerPrintf(
        drawing->viewer, "<rect x=\"%.1f\" y=\"76\" width=\"11\" height=\"11\" fill=\"%s\"/>\n", x,
        colour));
    RengaCall(DrawWords(drawing->viewer, x + 15, 86, " font-size=\"11\"", looks[k].what));
    x += 32 + 6.2 * (double)strlen(looks[k].what);
  }
  return RENGA_SUCCESS;
}

/* The rank that needs most memory; false: none is known. */
static RengaErrorCode FindPeak(const StepDrawing *drawing, int *rank, int64_t *most)
{
  *most = 0;
  for (int s = 0; drawing->plan && s < drawing->schedule->stages; s++) {
    int64_t bytes = 0;
    RengaCall(RengaPlanGetDeviceMemory(drawing->plan, s, &bytes));
    if (bytes <= *most) continue;
    *most = bytes;
    *rank = RengaPlanGetRank(drawing->plan, s, 0);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawHeads(const StepDrawing *drawing)
{
  RengaSchedule schedule = drawing->schedule;
  char text[256], bytes[32], groups[64] = "";
  const int each = RanksOfList(drawing), ranks = each * schedule->ranks;
  int rank = 0;
  int64_t most = 0;
  if (each > 1) snprintf(groups, sizeof groups, " (%d at a time compute a stage together)", each);
  snprintf(text, sizeof text, "schedule %.80s: %d stage%s on %d rank%s%s, %lld micro-batch%s",
           schedule->hdr.type_name, schedule->stages, schedule->stages == 1 ? "" : "s", ranks,
           ranks == 1 ? "" : "s", groups, (long long)schedule->microbatches,
           schedule->microbatches == 1 ? "" : "es");
  RengaCall(DrawWords(drawing->viewer, 12, 28, " font-size=\"17\" font-weight=\"bold\"", text));
  RengaCall(FindPeak(drawing, &rank, &most));
  if (most == 0) return RENGA_SUCCESS;
  RengaFormatBytes((double)most, sizeof bytes, bytes);
  snprintf(text, sizeof text, "peak memory %s, of rank %d", bytes, rank);
  RengaCall(DrawWords(drawing->viewer, 12, 52, "", text));
  return RENGA_SUCCESS;
}

static const char opening[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"%.0f\" "
    "viewBox=\"0 0 1200 %.0f\" font-family=\"sans-serif\" font-size=\"13\">\n"
    "<style>\n"
    "svg { background: #ffffff; }\n"
    "text { fill: #222222; } .faint { fill: #666666; } .grid { stroke: #cccccc; }\n"
    ".work { stroke: #444444; stroke-width: 0.4; } .way { fill-opacity: 0.65; }\n"
    "text.number { fill: #111111; font-size: 10px; text-anchor: middle; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "svg { background: #16181c; } text { fill: #e6e6e6; } .faint { fill: #a0a0a0; }\n"
    ".grid { stroke: #3a3d44; } .work { stroke: #000000; } text.number { fill: #111111; }\n"
    "}\n</style>\n";

/* The two timelines and what stands over each. */
typedef struct {
  RengaTimeline part[2]; /* simulated, measured: without bars where nothing was run */
  char head[2][256];
} StepPicture;

/* What of a rank can be seen, but for the numbers of its micro-batches. */
static void AddToLook(const StepDrawing *drawing, const RengaScheduleBar *bar, uint64_t looks_of[])
{
  RengaSchedule schedule = drawing->schedule;
  const RengaAction *action = &bar->action;
  const int rank = schedule->rank[schedule->first_seat[action->stage] + action->replica];
  const double unit = drawing->scale * PIXEL_PARTS;
  const int64_t seen[] = {(int64_t)action->kind, action->stage, llround(bar->begin * unit),
                          llround(bar->end * unit)};
  if (action->kind != RENGA_ACTION_SEND && bar->end > bar->begin)
    looks_of[rank] += RengaHash(seen, sizeof seen, 0); /* in any order */
}

/* Where there are many ranks those that look alike, as replicas do, are in one row. */
static void FindPictureRows(StepDrawing *drawing, const StepPicture *picture, uint64_t looks_of[])
{
  const int ranks = drawing->schedule->ranks;
  for (int t = 0; t < 2; t++)
    for (int64_t i = 0; i < picture->part[t].count; i++)
      AddToLook(drawing, &picture->part[t].bar[i], looks_of);
  drawing->n_rows = 0;
  for (int r = 0; r < ranks; r++) {
    int first = r;
    for (int q = 0; q < r && first == r && ranks > ROWS_FEW; q++)
      if (looks_of[q] == looks_of[r]) first = q;
    drawing->row[r] = first == r ? drawing->n_rows++ : drawing->row[first];
    drawing->alike[first]++;
  }
}

static RengaErrorCode DrawRowsOf(StepDrawing *drawing, const StepPicture *picture)
{
  const bool ran = picture->part[1].count > 0;
  const double most = fmax(picture->part[0].makespan, picture->part[1].makespan);
  const double part = PART_HEAD + drawing->n_rows * ROW_HEIGHT + AXIS_HEIGHT;
  const double height = HEAD_HEIGHT + part * (ran ? 2 : 1);
  RengaCall(RengaViewerPrintf(drawing->viewer, opening, height, height));
  RengaCall(DrawHeads(drawing));
  RengaCall(DrawKey(drawing, picture->part));
  for (int t = 0; t < (ran ? 2 : 1); t++)
    RengaCall(DrawPart(drawing, &picture->part[t], picture->head[t], most, HEAD_HEIGHT + t * part));
  RengaCall(RengaViewerPrintf(drawing->viewer, "</svg>\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawPicture(StepDrawing *drawing, const StepPicture *picture)
{
  const double most = fmax(picture->part[0].makespan, picture->part[1].makespan);
  const int ranks = drawing->schedule->ranks;
  uint64_t *looks_of = NULL;
  drawing->scale = most > 0 ? (RIGHT - LEFT) / most : 0;
  RengaErrorCode code = RengaMalloc(ranks, &looks_of);
  if (!code) code = RengaMalloc(ranks, &drawing->row);
  if (!code) code = RengaMalloc(ranks, &drawing->alike);
  if (!code) FindPictureRows(drawing, picture, looks_of);
  if (!code) code = DrawRowsOf(drawing, picture);
  RengaFree(&looks_of);
  RengaFree(&drawing->row);
  RengaFree(&drawing->alike);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void NamePart(const StepDrawing *drawing, const RengaTimeline *timeline, const char *what,
                     size_t size, char text[])
{
  char step[32];
  NameSeconds(drawing, timeline->makespan, sizeof step, step);
  RengaTextFormat(text, size, "%s: step %s, bubble %.1f %%", what, step, 100 * timeline->bubble);
}

/* What was run, beside what the simulation makes of the very seconds of its actions. */
static RengaErrorCode AddMeasuredPart(StepDrawing *drawing, RengaScheduleStep *step, bool replaces,
                                      StepPicture *picture)
{
  RengaStepSeconds seconds = {0};
  RengaTimeline replayed = {0};
  RengaCall(
      RengaTimelineTake_Private(drawing->schedule, step->count, step->bar, &picture->part[1]));
  step->measured = picture->part[1].makespan;
  RengaErrorCode code =
      RengaStepSecondsOfBars_Private(drawing->schedule, step->count, step->bar, &seconds);
  if (!code) code = RengaTimelineSimulate_Private(drawing->schedule, &seconds, &replayed);
  RengaFree(&seconds.block);
  RengaCall(code);
  step->replayed = replayed.makespan;
  if (replaces) {
    RengaTimelineFree_Private(&picture->part[0]);
    picture->part[0] = replayed;
    drawing->known = true;
    NamePart(drawing, &replayed, "simulated, its actions taking what they took on the average",
             sizeof picture->head[0], picture->head[0]);
  } else {
    RengaTimelineFree_Private(&replayed);
  }
  NamePart(drawing, &picture->part[1], "measured", sizeof picture->head[1], picture->head[1]);
  return RENGA_SUCCESS;
}

static void NameRatio(const RengaScheduleStep *step, size_t size, char text[])
{
  const size_t used = strlen(text);
  if (step->simulated > 0)
    RengaTextFormat(text + used, size - used, "; %.3f of the simulated step",
                    step->measured / step->simulated);
  const size_t more = strlen(text);
  if (step->replayed > 0)
    RengaTextFormat(text + more, size - more, "; %.3f of one simulated with what its actions took",
                    step->measured / step->replayed);
}

static RengaErrorCode MakePicture(StepDrawing *drawing, RengaScheduleStep *step,
                                  StepPicture *picture)
{
  RengaStepSeconds seconds = {0};
  RengaErrorCode code = RengaStepSecondsOfPlan_Private(drawing->schedule, step->plan, &seconds);
  if (!code) code = RengaTimelineSimulate_Private(drawing->schedule, &seconds, &picture->part[0]);
  RengaFree(&seconds.block);
  RengaCall(code);
  drawing->known = seconds.known;
  NamePart(drawing, &picture->part[0],
           seconds.known ? "simulated"
           : step->plan  ? "simulated, as if time went as FLOPs"
                         : "simulated, a forward taking 1 and a backward 2",
           sizeof picture->head[0], picture->head[0]);
  if (seconds.known) step->simulated = picture->part[0].makespan;
  if (step->count == 0) return RENGA_SUCCESS;
  RengaCall(AddMeasuredPart(drawing, step, !seconds.known, picture));
  NameRatio(step, sizeof picture->head[1], picture->head[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawOnFirst(RengaSchedule schedule, RengaScheduleStep *step,
                                  RengaViewer viewer)
{
  StepDrawing drawing = {.schedule = schedule, .plan = step->plan, .viewer = viewer};
  StepPicture picture = {0};
  RengaErrorCode code = MakePicture(&drawing, step, &picture);
  if (!code) code = DrawPicture(&drawing, &picture);
  for (int t = 0; t < 2; t++) RengaTimelineFree_Private(&picture.part[t]);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckStep(RengaSchedule schedule, const RengaScheduleStep *step)
{
  int64_t actions = 0;
  for (int r = 0; r < schedule->ranks; r++) actions += schedule->list[r].n_actions;
  RengaCheck(actions <= MOST_BARS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a step of %lld actions is too much for one picture: draw one of at most %d, with "
             "fewer micro-batches",
             (long long)actions, (int)MOST_BARS);
  RengaCheck(!step->plan || RengaPlanGetStageCount(step->plan) == schedule->stages, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "a schedule of %d stages is not of a plan of %d", schedule->stages,
             RengaPlanGetStageCount(step->plan));
  RengaCheck(step->count >= 0 && (step->count == 0 || step->bar), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%lld bars", (long long)step->count);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleDraw - draw a step in time, simulated and measured

   Collective

   Input:
   . schedule - the schedule, set up
   . step - seconds of the step on rank 0: simulated with the plan's, measured, and simulated with
     the mean of the measured actions
   . viewer - the viewer, of kind draw: an SVG

   Output:
   . step - seconds of the step on rank 0: simulated with the plan's, measured, and simulated with
     the mean of the measured actions

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp(); RENGA_ERR_SUPPORT for another viewer, or
   more actions than a picture can show; RENGA_ERR_ARGUMENT for bars that are not of the
   schedule, or a plan of other stages; RENGA_ERR_FILE_WRITE where the file does not take it.

   Notes: a row for each rank, of more than 12 ranks one for all that look alike; what it computes
   has the number of its micro-batch, what is on its way to it (messages from their send until they
   are taken, sums and gathers) lies below. Of a rank's several stages the later ones are paler. A
   step ends with the last update; all-gathers of parameters, which go on under the next one, are
   not counted.

   See also: RengaScheduleView(), RengaScheduleSimulateWith()
@*/
RengaErrorCode RengaScheduleDraw(RengaSchedule schedule, RengaScheduleStep *step,
                                 RengaViewer viewer)
{
  RengaScheduleStep plain = {0};
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointers(schedule, viewer);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "draw"), schedule->hdr.comm, RENGA_ERR_SUPPORT,
             "a step is drawn by a viewer of kind draw, not %s", RengaViewerGetKind(viewer));
  if (!step) step = &plain;
  step->simulated = step->measured = step->replayed = 0;
  if (RengaCommGetRank(schedule->hdr.owner) == 0) {
    code = CheckStep(schedule, step);
    if (!code) code = DrawOnFirst(schedule, step, viewer);
  }
  RengaCall(RengaErrorAgree(schedule->hdr.comm, code));
  return RENGA_SUCCESS;
}
