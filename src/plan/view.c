/* The plan for people: a table. What is not known has no column. */
#include "planimpl.h"
#include "renga/private/number.h"
#include "rengacomm.h"
#include <string.h>

enum { CELL = 128, NAME_WIDTH = 32 };

static void FormatNodeNames(RengaPlan plan, int s, char text[CELL])
{
  snprintf(text, CELL, "%d-%d", plan->stage[s].first, plan->stage[s].last - 1);
}

/* The end of a name says more than its beginning. */
static void FormatName(RengaPlan plan, int s, char text[CELL])
{
  const size_t length = strlen(plan->first_name[s]);
  const size_t skip = length > NAME_WIDTH ? length - NAME_WIDTH : 0;
  snprintf(text, CELL, "%s", plan->first_name[s] + skip);
}

static void FormatParameters(RengaPlan plan, int s, char text[CELL])
{
  RengaFormatCount((double)plan->stage[s].parameters, CELL, text);
}

static void FormatReplicaCount(RengaPlan plan, int s, char text[CELL])
{
  snprintf(text, CELL, "%d", plan->stage[s].shape.replicas);
}

static void FormatFlops(RengaPlan plan, int s, char text[CELL])
{
  RengaTextFormat(text, CELL, "%.1f %%", 100 * RengaPlanGetShare_Private(plan, s));
}

static void FormatRecompute(RengaPlan plan, int s, char text[CELL])
{
  const bool recomputes = plan->stage[s].shape.saved == RENGA_SAVED_RECOMPUTE;
  snprintf(text, CELL, "%s",
           !recomputes                           ? "no"
           : RengaPlanCountKept_Private(plan, s) ? "in part"
                                                 : "yes");
}

static void FormatForward(RengaPlan plan, int s, char text[CELL])
{
  RengaFormatSeconds(plan->stage[s].forward_seconds, CELL, text);
}

static void FormatBackward(RengaPlan plan, int s, char text[CELL])
{
  RengaFormatSeconds(plan->stage[s].backward_seconds, CELL, text);
}

static void FormatWait(RengaPlan plan, int s, char text[CELL])
{
  RengaTextFormat(text, CELL, "%.1f %%", 100 * RengaPlanGetWait_Private(plan, s));
}

static void FormatReceives(RengaPlan plan, int s, char text[CELL])
{
  RengaFormatBytes(plan->stage[s].receives * (double)plan->microbatch, CELL, text);
}

static void FormatSends(RengaPlan plan, int s, char text[CELL])
{
  RengaFormatBytes(plan->stage[s].sends * (double)plan->microbatch, CELL, text);
}

static void FormatMemory(RengaPlan plan, int s, char text[CELL])
{
  if (plan->stage[s].memory)
    RengaFormatBytes((double)plan->stage[s].memory, CELL, text);
  else
    snprintf(text, CELL, "not known");
}

static void FormatRanks(RengaPlan plan, int s, char text[CELL])
{
  RengaPlanFormatRanks_Private(plan->offset[s + 1] - plan->offset[s], plan->rank + plan->offset[s],
                               CELL, text);
}

static bool Recomputes(RengaPlan plan)
{
  for (int s = 0; s < plan->count; s++)
    if (plan->stage[s].shape.saved == RENGA_SAVED_RECOMPUTE) return true;
  return false;
}

static void FormatShape(RengaPlan plan, int s, char text[CELL])
{
  RengaStageShapeFormat(&plan->stage[s].shape, CELL, text);
}

static bool KnowsWait(RengaPlan plan)
{
  return RengaPlanGetWait_Private(plan, 0) >= 0;
}

static bool HasMessages(RengaPlan plan)
{
  return plan->count > 1;
}

static const struct {
  const char *title;
  int width;                     /* negative: to the left */
  bool (*shown)(RengaPlan plan); /* NULL: always */
  void (*format)(RengaPlan plan, int stage, char text[CELL]);
} columns[] = {
    {"nodes", -13, NULL, FormatNodeNames},
    {"first node", -NAME_WIDTH, NULL, FormatName},
    {"parameters", 10, NULL, FormatParameters},
    {"replicas", 8, NULL, FormatReplicaCount},
    {"FLOPs", 7, NULL, FormatFlops},
    {"recomputes", 10, Recomputes, FormatRecompute},
    {"shape", -40, RengaPlanHasShapes_Private, FormatShape},
    {"forward", 9, RengaPlanKnowsSeconds_Private, FormatForward},
    {"backward", 9, RengaPlanKnowsSeconds_Private, FormatBackward},
    {"waits", 7, KnowsWait, FormatWait},
    {"receives", 9, HasMessages, FormatReceives},
    {"sends", 9, HasMessages, FormatSends},
    {"memory", 9, NULL, FormatMemory},
    {"ranks", -1, NULL, FormatRanks},
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* stage -1: the titles. */
static RengaErrorCode ViewRow(RengaPlan plan, RengaViewer viewer, int s)
{
  char text[CELL];
  snprintf(text, CELL, s < 0 ? "stage" : "%d", s);
  RengaCall(RengaViewerPrintf(viewer, "  %5s", text));
  for (int c = 0; c < N_COLUMNS; c++) {
    if (columns[c].shown && !columns[c].shown(plan)) continue;
    snprintf(text, CELL, "%s", columns[c].title);
    if (s >= 0) columns[c].format(plan, s, text);
    RengaCall(RengaViewerPrintf(viewer, "  %*s", columns[c].width, text));
  }
  RengaCall(RengaViewerPrintf(viewer, "\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewIdleReplicas(RengaPlan plan, RengaViewer viewer)
{
  int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch);
  const int replicas = RengaPlanMostReplicas_Private(plan);
  if (microbatches < replicas)
    RengaCall(RengaViewerPrintf(viewer,
                                "  only %lld of %d replicas have a micro-batch: -microbatch_size "
                                "must be smaller for all to work\n",
                                (long long)microbatches, replicas));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewIdle(RengaPlan plan, RengaViewer viewer)
{
  int *idle = NULL, count = 0;
  bool *busy = NULL;
  char text[120];
  if (plan->available <= RengaPlanGetRankCount(plan)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(plan->available, &idle);
  if (!code) code = RengaMalloc(plan->available, &busy);
  if (code) RengaFree(&idle);
  RengaCall(code);
  for (int r = 0; r < plan->offset[plan->count]; r++)
    if (plan->rank[r] < plan->available) busy[plan->rank[r]] = true;
  for (int r = 0; r < plan->available; r++)
    if (!busy[r]) idle[count++] = r;
  RengaPlanFormatRanks_Private(count, idle, sizeof text, text);
  RengaFree(&busy);
  RengaFree(&idle);
  RengaCall(
      RengaViewerPrintf(viewer, "  idle: %d of %d ranks (%s)\n", count, plan->available, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewReasons(RengaPlan plan, RengaViewer viewer, const char *topic)
{
  for (int r = 0; r < plan->n_reasons; r++)
    if (!strcmp(plan->reason[2 * r], topic))
      RengaCall(RengaViewerPrintf(viewer, "  %s: %s\n", topic, plan->reason[2 * r + 1]));
  return RENGA_SUCCESS;
}

/* The bound is bisected to a millionth. What it leaves out is said with it, or why there is
   none. */
static RengaErrorCode ViewBound(RengaPlan plan, RengaViewer viewer)
{
  const RengaPlanPrediction *p = &plan->prediction;
  char bound[24];
  if (p->bound <= 0) {
    RengaCall(ViewReasons(plan, viewer, RENGA_PLAN_BOUND));
    return RENGA_SUCCESS;
  }
  RengaFormatSeconds(p->bound, sizeof bound, bound);
  RengaCall(RengaViewerPrintf(
      viewer, "  lower bound: no plan takes less than %s; gap %.2f %%%s\n", bound,
      100 * (p->step / p->bound - 1),
      p->step <= p->bound * (1 + 2e-6) ? ": proved best of the plans searched" : ""));
  RengaCall(ViewReasons(plan, viewer, RENGA_PLAN_BOUND));
  RengaCall(ViewReasons(plan, viewer, "left out"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewPrediction(RengaPlan plan, RengaViewer viewer)
{
  const RengaPlanPrediction *p = &plan->prediction;
  char step[24], rate[24], pipeline[24], reduce[24], update[24];
  if (p->step <= 0) return RENGA_SUCCESS;
  RengaFormatSeconds(p->step, sizeof step, step);
  RengaPlanFormatRate_Private(plan, sizeof rate, rate);
  RengaFormatSeconds(p->pipeline, sizeof pipeline, pipeline);
  RengaFormatSeconds(p->reduce, sizeof reduce, reduce);
  RengaFormatSeconds(p->update, sizeof update, update);
  RengaCall(RengaViewerPrintf(viewer,
                              "  predicted: %s per step, %s samples/s; pipeline %s, bubble %.1f "
                              "%%; reduction %s; update %s\n",
                              step, rate, pipeline, 100 * p->bubble, reduce, update));
  RengaCall(ViewReasons(plan, viewer, "kinds"));
  RengaCall(ViewBound(plan, viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewOrigin(RengaPlan plan, RengaViewer viewer)
{
  char memory[24];
  if (!plan->machine) return RENGA_SUCCESS;
  RengaFormatBytes((double)plan->device_memory, sizeof memory, memory);
  RengaCall(RengaViewerPrintf(viewer, "  made for: %s%s%s%s%s\n", plan->machine,
                              plan->device_memory ? ", " : "", plan->device_memory ? memory : "",
                              plan->costs ? " per device; costs " : "",
                              plan->costs ? plan->costs : ""));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewHead(RengaPlan plan, RengaViewer viewer)
{
  const int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch);
  double largest = 0;
  char shape[80], schedule[64], leaf[64] = "";
  if (plan->leaf > 1)
    snprintf(leaf, sizeof leaf, ", their gradients in leaves of %lld", (long long)plan->leaf);
  RengaPlanFormatShape_Private(plan, sizeof shape, shape);
  for (int s = 0; s < plan->count; s++)
    if (RengaPlanGetShare_Private(plan, s) > largest) largest = RengaPlanGetShare_Private(plan, s);
  RengaPlanFormatSchedule_Private(plan, sizeof schedule, schedule);
  RengaCall(RengaViewerPrintf(
      viewer, "plan: %s; steps of %lld samples in %lld micro-batch%s of %lld%s%s%s\n", shape,
      (long long)plan->batch, (long long)microbatches, microbatches == 1 ? "" : "es",
      (long long)plan->microbatch, leaf, plan->schedule ? "; schedule " : "",
      plan->schedule ? schedule : ""));
  RengaCall(ViewOrigin(plan, viewer));
  RengaCall(RengaViewerPrintf(
      viewer, "  the largest stage has %.1f %% of the FLOPs; an even share is %.1f %%\n",
      100 * largest, 100.0 / plan->count));
  RengaCall(ViewPrediction(plan, viewer));
  return RENGA_SUCCESS;
}

/* What decides the bits of results, and what a proof covers, is shown whether or not anybody asks
   why. */
static RengaErrorCode ViewChosen(RengaPlan plan, RengaViewer viewer)
{
  RengaCall(ViewReasons(plan, viewer, RENGA_PLAN_CHOSEN));
  RengaCall(ViewReasons(plan, viewer, RENGA_PLAN_STATISTICS));
  RengaCall(ViewReasons(plan, viewer, "covered"));
  return RENGA_SUCCESS;
}

/* stage -1: the titles. */
static RengaErrorCode ViewParts(RengaPlan plan, RengaViewer viewer, int s)
{
  char text[CELL];
  int64_t parts[RENGA_PLAN_PARTS];
  snprintf(text, CELL, s < 0 ? "stage" : "%d", s);
  RengaCall(RengaViewerPrintf(viewer, "  %5s", text));
  if (s >= 0) RengaPlanGetParts_Private(&plan->stage[s].parts, parts);
  for (int i = 0; i < RENGA_PLAN_PARTS; i++) {
    snprintf(text, CELL, "%s", RengaPlanPartNames_Private[i]);
    if (s >= 0) RengaFormatBytes((double)parts[i], CELL, text);
    RengaCall(RengaViewerPrintf(viewer, "  %10s", text));
  }
  snprintf(text, CELL, "all");
  if (s >= 0) FormatMemory(plan, s, text);
  RengaCall(RengaViewerPrintf(viewer, "  %10s\n", text));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanViewAscii_Private(RengaPlan plan, RengaViewer viewer)
{
  RengaCall(ViewHead(plan, viewer));
  RengaCall(ViewChosen(plan, viewer));
  RengaCall(ViewIdle(plan, viewer));
  RengaCall(ViewIdleReplicas(plan, viewer));
  for (int s = -1; s < plan->count; s++) RengaCall(ViewRow(plan, viewer, s));
  if (!RengaPlanKnowsParts_Private(plan)) return RENGA_SUCCESS;
  RengaCall(RengaViewerPrintf(viewer, "  memory of a device%s\n",
                              plan->stage[0].shape.chunks > 1 ? ", for each of its stages" : ""));
  for (int s = -1; s < plan->count; s++) RengaCall(ViewParts(plan, viewer, s));
  return RENGA_SUCCESS;
}

static const struct {
  const char *kind;
  RengaErrorCode (*view)(RengaPlan plan, RengaViewer viewer);
} kinds[] = {{"ascii", RengaPlanViewAscii_Private},
             {"json", RengaPlanViewJson_Private},
             {"draw", RengaPlanViewDraw_Private}};

/*@
   RengaPlanView - show a plan

   Collective

   Input:
   . plan - the plan, with its stages
   . viewer - the viewer, of kind ascii (a table), json, or draw (SVG: stages along the network,
     load, memory)

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_SUPPORT for a viewer that is not
   ascii, json or draw.

   Notes: receives and sends are bytes of activations of a micro-batch; their gradients go back. A
   stage waits while other stages have work and it has none, in share of the pipeline's time. The
   gap is how much slower than the lower bound the plan is expected to be.

   See also: RengaPlanExplain(), RengaPlanViewFromOptions()
@*/
RengaErrorCode RengaPlanView(RengaPlan plan, RengaViewer viewer)
{
  RengaCheckPointers(plan, viewer);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    if (!strcmp(RengaViewerGetKind(viewer), kinds[k].kind)) {
      RengaCall(kinds[k].view(plan, viewer));
      return RENGA_SUCCESS;
    }
  RengaRaise(plan->hdr.comm, RENGA_ERR_SUPPORT, "a plan is shown as ascii, json or draw, not as %s",
             RengaViewerGetKind(viewer));
}

/*@
   RengaPlanExplain - say why a plan is as it is

   Collective

   Input:
   . plan - the plan, with its stages
   . viewer - the viewer, of kind ascii

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_SUPPORT for a viewer that is not
   ascii; RENGA_ERR_FILE_WRITE where the file does not take it.

   Notes: the sentences are the planner's; a plan made by hand has none.

   See also: RengaPlanAddReason(), RengaPlanView()
@*/
RengaErrorCode RengaPlanExplain(RengaPlan plan, RengaViewer viewer)
{
  RengaCheckPointers(plan, viewer);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "ascii"), plan->hdr.comm, RENGA_ERR_SUPPORT,
             "reasons are shown as ascii, not as %s", RengaViewerGetKind(viewer));
  RengaCall(RengaViewerPrintf(viewer, "why this plan%s\n",
                              plan->n_reasons ? "" : ": its planner left no reasons"));
  for (int r = 0; r < plan->n_reasons; r++)
    if (strcmp(plan->reason[2 * r], "left out"))
      RengaCall(
          RengaViewerPrintf(viewer, "  %s: %s\n", plan->reason[2 * r], plan->reason[2 * r + 1]));
  RengaCall(ViewPrediction(plan, viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewAs(RengaPlan plan, const char *specification,
                             RengaErrorCode (*view)(RengaPlan, RengaViewer))
{
  RengaViewer viewer = NULL;
  RengaCall(RengaViewerCreate(plan->hdr.owner, specification, &viewer));
  const RengaErrorCode code = view(plan, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanViewFromOptions - show, explain and save a plan as the user asked

   Collective

   Input:
   . plan - the plan, with its stages

   Options:
   . -plan_view - ascii[:FILE], json[:FILE] or draw:FILE.svg
   . -plan_explain - why the plan is as it is
   . -plan_save - a file for RengaPlanLoad()

   Errors: RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_WRITE where a file that the options name cannot
   be written.

   Notes: called by programs once the memory of the stages is known.

   See also: RengaPlanView(), RengaPlanExplain(), RengaPlanSave()
@*/
RengaErrorCode RengaPlanViewFromOptions(RengaPlan plan)
{
  const char *view = NULL, *file = NULL;
  bool given = false, explain = false;
  RengaCheckPointer(plan);
  RengaCall(RengaOptionsGetString("plan_view", &view, &given));
  if (given && view) RengaCall(ViewAs(plan, view, RengaPlanView));
  RengaCall(RengaOptionsGetBool("plan_explain", &explain, NULL));
  if (explain) RengaCall(ViewAs(plan, "ascii", RengaPlanExplain));
  RengaCall(RengaOptionsGetString("plan_save", &file, &given));
  if (given && file) RengaCall(RengaPlanSave(plan, file));
  return RENGA_SUCCESS;
}
