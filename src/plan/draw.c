/* The plan as a picture (SVG): the network in its order as a band cut into stages, and below it,
   one column per stage, the load and the memory of a device. */
#include "planimpl.h"
#include "renga/private/number.h"
#include <math.h>

#define LEFT 96.0
#define RIGHT 976.0
#define BAND_Y 78.0
#define BAND_HEIGHT 22.0
#define COLUMNS_Y 132.0
#define PLOT_HEIGHT 170.0
#define LOAD_Y 196.0
#define MEMORY_Y 428.0
#define HEIGHT 640.0

static const char *const part_colours[RENGA_PLAN_PARTS] = {
    "#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb"};
static const char forward_colour[] = "#4477aa", backward_colour[] = "#99bbdd";

typedef struct {
  RengaPlan plan;
  RengaViewer viewer;
  double width;  /* of a column */
  int label_gap; /* every so manieth stage has a label */
} PlanDrawing;

static double ColumnX(const PlanDrawing *drawing, int stage)
{
  return LEFT + stage * drawing->width;
}

static double NodeX(const PlanDrawing *drawing, int node)
{
  return LEFT + (RIGHT - LEFT) * node / drawing->plan->n_nodes;
}

static RengaErrorCode DrawText(const PlanDrawing *drawing, double x, double y, const char *style,
                               const char *text)
{
  RengaCall(RengaViewerPrintf(drawing->viewer, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, style));
  for (; *text; text++) {
    const char *entity = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : NULL;
    const bool control = (unsigned char)*text < ' ';
    RengaCall(entity ? RengaViewerPrintf(drawing->viewer, "%s", entity)
                     : RengaViewerPrintf(drawing->viewer, "%c", control ? ' ' : *text));
  }
  RengaCall(RengaViewerPrintf(drawing->viewer, "</text>\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawBox(const PlanDrawing *drawing, double x, double y, double width,
                              double height, const char *fill)
{
  if (height <= 0) return RENGA_SUCCESS;
  RengaCall(RengaViewerPrintf(
      drawing->viewer, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
      x, y, width, height, fill));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawHead(const PlanDrawing *drawing)
{
  RengaPlan plan = drawing->plan;
  const RengaPlanPrediction *p = &plan->prediction;
  char shape[80], each[96], text[320], step[24], bound[24], rate[24];
  RengaPlanFormatShape_Private(plan, sizeof shape, shape);
  RengaPlanFormatGroups_Private(plan, sizeof each, each);
  const int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch);
  const int ranks = RengaPlanGetRankCount(plan);
  snprintf(text, sizeof text, "%s%s on %d rank%s: %lld samples in %lld micro-batch%s of %lld",
           shape, each, ranks, ranks == 1 ? "" : "s", (long long)plan->batch,
           (long long)microbatches, microbatches == 1 ? "" : "es", (long long)plan->microbatch);
  RengaCall(DrawText(drawing, LEFT, 30, " font-size=\"17\" font-weight=\"bold\"", text));
  if (p->step <= 0) return RENGA_SUCCESS;
  RengaFormatSeconds(p->step, sizeof step, step);
  RengaFormatSeconds(p->bound, sizeof bound, bound);
  RengaPlanFormatRate_Private(plan, sizeof rate, rate);
  int used = RengaTextFormat(text, sizeof text, "predicted step %s, %s samples/s; bubble %.1f %%",
                             step, rate, 100 * p->bubble);
  if (p->bound > 0)
    RengaTextFormat(text + used, sizeof text - (size_t)used, "; lower bound %s, gap %.2f %%", bound,
                    100 * (p->step / p->bound - 1));
  RengaCall(DrawText(drawing, LEFT, 52, "", text));
  return RENGA_SUCCESS;
}

static int Channel(double hue, double offset)
{
  static const double turn = 6.283185307179586;
  return (int)(175 + 60 * cos(turn * (hue + offset)));
}

/* Hues by the golden section: neighbours differ, and none comes again. */
static void NameColour(int s, size_t size, char text[])
{
  const double hue = fmod(0.55 + 0.6180339887 * s, 1);
  snprintf(text, size, "#%02x%02x%02x", Channel(hue, 0), Channel(hue, 2.0 / 3),
           Channel(hue, 1.0 / 3));
}

/* The stage's part of the band, and where it widens to its column. */
static RengaErrorCode DrawStage(const PlanDrawing *drawing, int s)
{
  const RengaPlanStage *stage = &drawing->plan->stage[s];
  const double begin = NodeX(drawing, stage->first), end = NodeX(drawing, stage->last);
  const double x = ColumnX(drawing, s), next = ColumnX(drawing, s + 1);
  const double below = BAND_Y + BAND_HEIGHT;
  char colour[8];
  NameColour(s, sizeof colour, colour);
  RengaCall(DrawBox(drawing, begin, BAND_Y, end - begin, BAND_HEIGHT, colour));
  RengaCall(RengaViewerPrintf(
      drawing->viewer,
      "<path d=\"M%.2f %.2fL%.2f %.2fL%.2f %.2fL%.2f %.2fZ\" fill=\"%s\" fill-opacity=\"0.3\"/>\n",
      begin, below, end, below, next, COLUMNS_Y, x, COLUMNS_Y, colour));
  RengaCall(DrawBox(drawing, x, COLUMNS_Y, next - x, 26, colour));
  return RENGA_SUCCESS;
}

/* Wider than narrow columns: drawn after all of them, so that none covers it. */
static RengaErrorCode DrawLabel(const PlanDrawing *drawing, int s)
{
  const RengaPlanStage *stage = &drawing->plan->stage[s];
  const double x = ColumnX(drawing, s), next = ColumnX(drawing, s + 1);
  char text[32];
  if (s % drawing->label_gap) return RENGA_SUCCESS;
  snprintf(text, sizeof text, drawing->width < 60 ? "%d" : "stage %d", s);
  RengaCall(DrawText(drawing, (x + next) / 2, COLUMNS_Y + 12,
                     " text-anchor=\"middle\" font-size=\"11\"", text));
  snprintf(text, sizeof text, "× %d", stage->shape.replicas);
  RengaCall(DrawText(drawing, (x + next) / 2, COLUMNS_Y + 23,
                     " text-anchor=\"middle\" font-size=\"10\"", text));
  return RENGA_SUCCESS;
}

/* At most five steps of 1, 2 or 5 times a power of ten; of bytes, of a power of two. */
static double GridStep(double most, bool bytes)
{
  if (bytes) return exp2(ceil(log2(most / 5)));
  const double power = pow(10, floor(log10(most / 5))), ratio = most / 5 / power;
  return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

/* marked: a value with a label of its own, next to which the grid has none; 0: there is none. */
typedef struct {
  double top, most, marked;
  bool bytes, share;
} PlanAxis;

static RengaErrorCode DrawGrid(const PlanDrawing *drawing, const PlanAxis *axis)
{
  enum { LABEL_HEIGHT = 12 };
  const double most = axis->most, step = GridStep(most, axis->bytes);
  char text[32];
  for (double value = 0; value <= most * 1.0001; value += step) {
    const double y = axis->top + PLOT_HEIGHT * (1 - value / most);
    if (axis->bytes)
      RengaFormatBytes(value, sizeof text, text);
    else if (axis->share)
      RengaTextFormat(text, sizeof text, "%.3g %%", 100 * value);
    else
      RengaFormatSeconds(value, sizeof text, text);
    RengaCall(RengaViewerPrintf(
        drawing->viewer, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#cccccc\" stroke-width=\"0.7\"/>\n",
        LEFT, y, RIGHT));
    if (axis->marked > 0 && fabs(value - axis->marked) * PLOT_HEIGHT < LABEL_HEIGHT * most)
      continue;
    RengaCall(DrawText(drawing, LEFT - 6, y + 4, " text-anchor=\"end\" font-size=\"11\"",
                       value > 0 ? text : "0"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawLegend(const PlanDrawing *drawing, double y, int count,
                                 const char *const names[], const char *const colours[])
{
  for (int i = 0; i < count; i++) {
    RengaCall(DrawBox(drawing, LEFT + 300 + 83 * i, y - 9, 10, 10, colours[i]));
    RengaCall(DrawText(drawing, LEFT + 314 + 83 * i, y, " font-size=\"11\"", names[i]));
  }
  return RENGA_SUCCESS;
}

/* Parts of a bar from the bottom upwards. */
static RengaErrorCode DrawStageBar(const PlanDrawing *drawing, int s, double top, double most,
                                   int count, const double parts[], const char *const colours[])
{
  const double gap = drawing->width > 8 ? drawing->width * 0.12 : 0;
  double y = top + PLOT_HEIGHT;
  for (int i = 0; i < count; i++) {
    const double height = PLOT_HEIGHT * parts[i] / most;
    y -= height;
    RengaCall(DrawBox(drawing, ColumnX(drawing, s) + gap, y, drawing->width - 2 * gap, height,
                      colours[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawSeconds(const PlanDrawing *drawing)
{
  RengaPlan plan = drawing->plan;
  static const char *const names[] = {"forward", "backward", "waiting"};
  const char *const colours[] = {forward_colour, backward_colour, "#eeeeee"};
  double most = plan->prediction.pipeline;
  for (int s = 0; s < plan->count; s++) most = fmax(most, RengaPlanGetBusy_Private(plan, s));
  const int count = plan->prediction.pipeline > 0 ? 3 : 2;
  RengaCall(DrawText(drawing, LEFT, LOAD_Y - 12, "", "load of a device in a step"));
  RengaCall(DrawLegend(drawing, LOAD_Y - 12, count, names, colours));
  for (int s = 0; s < plan->count; s++) {
    const RengaPlanStage *stage = &plan->stage[s];
    const double busy = RengaPlanGetBusy_Private(plan, s);
    const double both = stage->forward_seconds + stage->backward_seconds;
    const double forward = both > 0 ? busy * stage->forward_seconds / both : 0;
    const double parts[] = {forward, busy - forward, most - busy};
    RengaCall(DrawStageBar(drawing, s, LOAD_Y, most, count, parts, colours));
  }
  RengaCall(DrawGrid(drawing, &(PlanAxis){.top = LOAD_Y, .most = most}));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawFlops(const PlanDrawing *drawing)
{
  RengaPlan plan = drawing->plan;
  const char *const colours[] = {forward_colour};
  double most = 0;
  for (int s = 0; s < plan->count; s++) most = fmax(most, RengaPlanGetShare_Private(plan, s));
  RengaCall(DrawText(drawing, LEFT, LOAD_Y - 12, "", "share of the FLOPs"));
  if (most <= 0) return RENGA_SUCCESS;
  for (int s = 0; s < plan->count; s++) {
    const double share = RengaPlanGetShare_Private(plan, s);
    RengaCall(DrawStageBar(drawing, s, LOAD_Y, most, 1, &share, colours));
  }
  RengaCall(DrawGrid(drawing, &(PlanAxis){.top = LOAD_Y, .most = most, .share = true}));
  return RENGA_SUCCESS;
}

/* Bytes that a device may use, of the user or all that it has; 0: not known. */
static double FindMemoryLine(RengaPlan plan)
{
  return (double)(plan->memory_limit > 0 ? plan->memory_limit : plan->device_memory);
}

/* Its bytes stand on the axis, or above it with an arrow; what they are at the other end. */
static RengaErrorCode DrawLimit(const PlanDrawing *drawing, double limit, double most)
{
  const bool above = limit > most;
  const double y = above ? MEMORY_Y - 10 : MEMORY_Y + PLOT_HEIGHT * (1 - limit / most);
  char bytes[24], text[32];
  RengaFormatBytes(limit, sizeof bytes, bytes);
  snprintf(text, sizeof text, "%s%s", bytes, above ? " ↑" : "");
  RengaCall(DrawText(drawing, LEFT - 6, y + 4,
                     " text-anchor=\"end\" font-size=\"11\" fill=\"#bb0000\"", text));
  if (above) return RENGA_SUCCESS;
  RengaCall(RengaViewerPrintf(
      drawing->viewer,
      "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#bb0000\" stroke-dasharray=\"6 4\"/>\n", LEFT, y,
      RIGHT));
  RengaCall(DrawText(drawing, RIGHT, y - 4,
                     " text-anchor=\"end\" font-size=\"11\" fill=\"#bb0000\"",
                     drawing->plan->memory_limit > 0 ? "limit" : "all that it has"));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawMemoryHead(const PlanDrawing *drawing, double most)
{
  char text[64];
  const bool above = FindMemoryLine(drawing->plan) > most;
  snprintf(text, sizeof text, "memory of a device%s",
           !above                            ? ""
           : drawing->plan->memory_limit > 0 ? "; red: limit"
                                             : "; red: all that it has");
  RengaCall(DrawText(drawing, LEFT, MEMORY_Y - 12, "",
                     most > 0 ? text : "memory of a device: not known"));
  if (most > 0 && RengaPlanKnowsParts_Private(drawing->plan))
    RengaCall(DrawLegend(drawing, MEMORY_Y - 12, RENGA_PLAN_PARTS, RengaPlanPartNames_Private,
                         part_colours));
  return RENGA_SUCCESS;
}

/* As high as the fullest device, or as the limit where that is not far above. */
static double MostStageBytes(RengaPlan plan)
{
  enum { FAR = 8 };
  const double limit = FindMemoryLine(plan);
  double most = 0;
  for (int s = 0; s < plan->count; s++) most = fmax(most, (double)plan->stage[s].memory);
  return limit < FAR * most ? fmax(most, 1.05 * limit) : most;
}

static RengaErrorCode DrawMemory(const PlanDrawing *drawing)
{
  RengaPlan plan = drawing->plan;
  const bool known = RengaPlanKnowsParts_Private(plan);
  const double most = MostStageBytes(plan);
  RengaCall(DrawMemoryHead(drawing, most));
  if (most <= 0) return RENGA_SUCCESS;
  for (int s = 0; s < plan->count; s++) {
    int64_t bytes[RENGA_PLAN_PARTS];
    double parts[RENGA_PLAN_PARTS] = {(double)plan->stage[s].memory};
    RengaPlanGetParts_Private(&plan->stage[s].parts, bytes);
    for (int i = 0; known && i < RENGA_PLAN_PARTS; i++) parts[i] = (double)bytes[i];
    RengaCall(DrawStageBar(drawing, s, MEMORY_Y, most, RENGA_PLAN_PARTS, parts, part_colours));
  }
  const double limit = FindMemoryLine(plan), marked = limit <= most ? limit : 0;
  RengaCall(DrawGrid(drawing, &(PlanAxis){MEMORY_Y, most, marked, .bytes = true}));
  if (limit > 0) RengaCall(DrawLimit(drawing, limit, most));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawAll(const PlanDrawing *drawing)
{
  RengaCall(DrawHead(drawing));
  RengaCall(DrawText(drawing, LEFT - 6, BAND_Y + 15, " text-anchor=\"end\"", "network"));
  for (int s = 0; s < drawing->plan->count; s++) RengaCall(DrawStage(drawing, s));
  for (int s = 0; s < drawing->plan->count; s++) RengaCall(DrawLabel(drawing, s));
  RengaCall(RengaPlanKnowsSeconds_Private(drawing->plan) ? DrawSeconds(drawing)
                                                         : DrawFlops(drawing));
  RengaCall(DrawMemory(drawing));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanViewDraw_Private(RengaPlan plan, RengaViewer viewer)
{
  const PlanDrawing drawing = {plan, viewer, (RIGHT - LEFT) / plan->count,
                               1 + plan->count * 26 / 880};
  RengaCall(
      RengaViewerPrintf(viewer,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"%.0f\" "
                        "viewBox=\"0 0 1000 %.0f\" font-family=\"sans-serif\" font-size=\"13\">\n"
                        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                        HEIGHT, HEIGHT));
  RengaCall(DrawAll(&drawing));
  RengaCall(RengaViewerPrintf(viewer, "</svg>\n"));
  return RENGA_SUCCESS;
}
