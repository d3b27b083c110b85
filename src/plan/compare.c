/* Two plans side by side: what the second has otherwise. */
#include "planimpl.h"
#include <string.h>

enum { CELL = 48 };

/* "a" where both are the same, else "a -> b". */
static void FormatPair(const char *a, const char *b, size_t size, char text[])
{
  if (strcmp(a, b))
    snprintf(text, size, "%s -> %s", a, b);
  else
    snprintf(text, size, "%s", a);
}

static RengaErrorCode CompareText(RengaViewer viewer, const char *name, const char *a,
                                  const char *b)
{
  char text[2 * CELL + 8];
  FormatPair(a, b, sizeof text, text);
  RengaCall(RengaViewerPrintf(viewer, "  %-20s %s\n", name, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareWhole(RengaViewer viewer, const char *name, int64_t a, int64_t b)
{
  char first[CELL], second[CELL];
  snprintf(first, CELL, "%lld", (long long)a);
  snprintf(second, CELL, "%lld", (long long)b);
  RengaCall(CompareText(viewer, name, first, second));
  return RENGA_SUCCESS;
}

static void FormatKnownSeconds(double value, bool bytes, char text[CELL])
{
  if (value <= 0)
    snprintf(text, CELL, "not known");
  else if (bytes)
    RengaFormatBytes(value, CELL, text);
  else
    RengaFormatSeconds(value, CELL, text);
}

static RengaErrorCode CompareReal(RengaViewer viewer, const char *name, double a, double b,
                                  bool bytes)
{
  char first[CELL], second[CELL], text[2 * CELL + 8];
  if (a <= 0 && b <= 0) return RENGA_SUCCESS;
  FormatKnownSeconds(a, bytes, first);
  FormatKnownSeconds(b, bytes, second);
  FormatPair(first, second, sizeof text, text);
  RengaCall(RengaViewerPrintf(viewer, "  %-20s %s", name, text));
  if (a > 0 && b > 0 && a != b)
    RengaCall(RengaViewerPrintf(viewer, " (%+.2f %%)", 100 * (b / a - 1)));
  RengaCall(RengaViewerPrintf(viewer, "\n"));
  return RENGA_SUCCESS;
}

static int64_t MostMemory(RengaPlan plan)
{
  int64_t most = 0;
  for (int s = 0; s < plan->count; s++)
    if (plan->stage[s].memory > most) most = plan->stage[s].memory;
  return most;
}

static RengaErrorCode CompareHeads(RengaPlan a, RengaPlan b, RengaViewer viewer)
{
  const RengaPlanPrediction *p = &a->prediction, *q = &b->prediction;
  char schedule[2][CELL];
  RengaCall(CompareWhole(viewer, "stages", a->count, b->count));
  RengaCall(CompareWhole(viewer, "ranks", RengaPlanGetRankCount(a), RengaPlanGetRankCount(b)));
  RengaCall(CompareWhole(viewer, "batch", a->batch, b->batch));
  RengaCall(CompareWhole(viewer, "micro-batch", a->microbatch, b->microbatch));
  RengaCall(CompareWhole(viewer, "leaf", a->leaf, b->leaf));
  RengaPlanFormatSchedule_Private(a, sizeof schedule[0], schedule[0]);
  RengaPlanFormatSchedule_Private(b, sizeof schedule[1], schedule[1]);
  RengaCall(CompareText(viewer, "schedule", schedule[0], schedule[1]));
  RengaCall(CompareText(viewer, "machine", a->machine ? a->machine : "not known",
                        b->machine ? b->machine : "not known"));
  RengaCall(CompareText(viewer, "costs", a->costs ? a->costs : "not known",
                        b->costs ? b->costs : "not known"));
  RengaCall(CompareReal(viewer, "predicted step", p->step, q->step, false));
  RengaCall(CompareReal(viewer, "  of this pipeline", p->pipeline, q->pipeline, false));
  RengaCall(CompareReal(viewer, "  reduction", p->reduce, q->reduce, false));
  RengaCall(CompareReal(viewer, "  update", p->update, q->update, false));
  RengaCall(CompareReal(viewer, "lower bound", p->bound, q->bound, false));
  RengaCall(
      CompareReal(viewer, "largest memory", (double)MostMemory(a), (double)MostMemory(b), true));
  return RENGA_SUCCESS;
}

static void FormatNodeRange(const RengaPlanStage *stage, char text[CELL])
{
  snprintf(text, CELL, "%d-%d", stage->first, stage->last - 1);
}

static int CountAt(RengaPlan plan, int s)
{
  return plan->offset[s + 1] - plan->offset[s];
}

/* The ranks' numbers, cut off where they are many. */
static bool SameRanks(RengaPlan a, RengaPlan b, int s)
{
  const int count = CountAt(a, s);
  return count == CountAt(b, s) &&
         !memcmp(a->rank + a->offset[s], b->rank + b->offset[s], (size_t)count * sizeof *a->rank);
}

static RengaErrorCode CompareRanks(RengaPlan a, RengaPlan b, int s, RengaViewer viewer)
{
  char first[CELL], second[CELL];
  if (SameRanks(a, b, s)) return RENGA_SUCCESS;
  RengaPlanFormatRanks_Private(CountAt(a, s), a->rank + a->offset[s], CELL, first);
  RengaPlanFormatRanks_Private(CountAt(b, s), b->rank + b->offset[s], CELL, second);
  RengaCall(CompareText(viewer, "  ranks", first, second));
  return RENGA_SUCCESS;
}

static bool SameStage(RengaPlan a, RengaPlan b, int s)
{
  const RengaPlanStage *x = &a->stage[s], *y = &b->stage[s];
  return x->first == y->first && x->last == y->last && RengaStageShapeEqual(&x->shape, &y->shape) &&
         x->forward_seconds == y->forward_seconds && x->backward_seconds == y->backward_seconds &&
         x->memory == y->memory && SameRanks(a, b, s) && RengaPlanKeepsTheSame_Private(a, s, b, s);
}

/* The fields that differ. */
static RengaErrorCode CompareShapes(const RengaStageShape *a, const RengaStageShape *b,
                                    RengaViewer viewer)
{
  char first[CELL], second[CELL], name[CELL];
  for (int f = 0; f < RENGA_PLAN_SHAPE_FIELDS; f++) {
    RengaPlanFormatShapeField_Private(a, f, CELL, first);
    RengaPlanFormatShapeField_Private(b, f, CELL, second);
    snprintf(name, CELL, "  %s", RengaPlanShapeFieldName_Private(f));
    if (strcmp(first, second)) RengaCall(CompareText(viewer, name, first, second));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareStage(RengaPlan a, RengaPlan b, int s, RengaViewer viewer)
{
  const RengaPlanStage *x = &a->stage[s], *y = &b->stage[s];
  char first[CELL], second[CELL];
  FormatNodeRange(x, first);
  FormatNodeRange(y, second);
  RengaCall(RengaViewerPrintf(viewer, "  stage %d\n", s));
  RengaCall(CompareText(viewer, "  nodes", first, second));
  if (strcmp(a->first_name[s], b->first_name[s]))
    RengaCall(RengaViewerPrintf(viewer, "    %-18s %s -> %s\n", "first node", a->first_name[s],
                                b->first_name[s]));
  RengaCall(CompareShapes(&x->shape, &y->shape, viewer));
  if (!RengaPlanKeepsTheSame_Private(a, s, b, s))
    RengaCall(CompareWhole(viewer, "  values kept", RengaPlanCountKept_Private(a, s),
                           RengaPlanCountKept_Private(b, s)));
  RengaCall(CompareRanks(a, b, s, viewer));
  RengaCall(CompareReal(viewer, "  forward", x->forward_seconds, y->forward_seconds, false));
  RengaCall(CompareReal(viewer, "  backward", x->backward_seconds, y->backward_seconds, false));
  RengaCall(CompareReal(viewer, "  memory", (double)x->memory, (double)y->memory, true));
  return RENGA_SUCCESS;
}

/* Nodes whose stage has another number in the other plan. */
static int CountMoved(RengaPlan a, RengaPlan b)
{
  int moved = 0, s = 0, t = 0;
  for (int node = 0; node < a->n_nodes; node++) {
    while (a->stage[s].last <= node) s++;
    while (b->stage[t].last <= node) t++;
    moved += s != t;
  }
  return moved;
}

static RengaErrorCode CompareStages(RengaPlan a, RengaPlan b, RengaViewer viewer)
{
  const int both = a->count < b->count ? a->count : b->count;
  RengaPlan longer = a->count > b->count ? a : b;
  char nodes[CELL];
  int same = 0;
  for (int s = 0; s < both; s++) {
    same += SameStage(a, b, s);
    if (!SameStage(a, b, s)) RengaCall(CompareStage(a, b, s, viewer));
  }
  for (int s = both; s < longer->count; s++) {
    FormatNodeRange(&longer->stage[s], nodes);
    RengaCall(RengaViewerPrintf(
        viewer, "  stage %d is only in the %s plan: nodes %s, %d replicas\n", s,
        longer == a ? "first" : "second", nodes, longer->stage[s].shape.replicas));
  }
  RengaCall(RengaViewerPrintf(viewer,
                              "  %d stage%s the same; %d of %d nodes are in another stage\n", same,
                              same == 1 ? " is" : "s are", CountMoved(a, b), a->n_nodes));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanCompare - show what another plan has otherwise

   Collective

   Input:
   . plan - a plan, with its stages
   . other - another plan of the same network; may be the same plan
   . viewer - the viewer, of kind ascii

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_SUPPORT for a viewer that is not
   ascii; RENGA_ERR_PLAN for plans of two networks; RENGA_ERR_FILE_WRITE where the file does not
   take it.

   Notes: "a -> b" is what the first and the second plan have; stages that are the same are only
   counted. Plans of two networks are an error.

   See also: RengaPlanView(), RengaPlanLoad()
@*/
RengaErrorCode RengaPlanCompare(RengaPlan plan, RengaPlan other, RengaViewer viewer)
{
  RengaCheckPointers(plan, other, viewer);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCheckState(other, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCheck(!strcmp(RengaViewerGetKind(viewer), "ascii"), plan->hdr.comm, RENGA_ERR_SUPPORT,
             "plans are compared as ascii, not as %s", RengaViewerGetKind(viewer));
  RengaCheck(plan->digest == other->digest && plan->n_nodes == other->n_nodes, plan->hdr.comm,
             RENGA_ERR_PLAN,
             "the plans are of two networks: 0x%016llx (%d nodes) and 0x%016llx (%d nodes)",
             (unsigned long long)plan->digest, plan->n_nodes, (unsigned long long)other->digest,
             other->n_nodes);
  RengaCall(CompareHeads(plan, other, viewer));
  RengaCall(CompareStages(plan, other, viewer));
  return RENGA_SUCCESS;
}
