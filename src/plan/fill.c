/* What each stage of a plan holds and sends, found from the network. */
#include "planimpl.h"
#include "renga/private/graph.h"

/* Parameters that nodes [first, last) use, each once; those used in another stage too count there
   again. seen[] has a place for each value and is given back all false. */
static int64_t CountParameters(RengaGraph graph, int first, int last, bool seen[])
{
  int64_t elements = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int n = first; n < last; n++) {
      const RengaGraphNode *node = RengaGraphGetNode(graph, n);
      for (int i = 0; i < node->n_in; i++) {
        RengaValue v = node->in[i];
        if (v < 0 || RengaGraphGetValue(graph, v)->kind != RENGA_VALUE_PARAMETER) continue;
        if (pass == 0 && !seen[v])
          elements += RengaTensorSpecCount(&RengaGraphGetValue(graph, v)->spec);
        seen[v] = pass == 0;
      }
    }
  return elements;
}

static RengaErrorCode CountFlops(RengaGraph graph, int first, int last, double *flops)
{
  *flops = 0;
  for (int n = first; n < last; n++) {
    double one = 0;
    if (RengaGraphNodeIsPrepared_Private(graph, RengaGraphGetNode(graph, n))) continue;
    RengaCall(RengaGraphGetNodeFlops(graph, n, 1, &one));
    *flops += one;
  }
  return RENGA_SUCCESS;
}

/* A value goes once to each stage that uses it. sent[v]: the last of these, seen so far. */
static void CountBytes(RengaPlan plan, RengaGraph graph, int sent[])
{
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    const bool sends =
        value->kind == RENGA_VALUE_ACTIVATION && !value->prepared && value->producer >= 0;
    sent[v] = sends ? RengaPlanStageOfNode(plan, value->producer) : plan->count;
  }
  for (int s = 0; s < plan->count; s++)
    for (int n = plan->stage[s].first; n < plan->stage[s].last; n++) {
      const RengaGraphNode *node = RengaGraphGetNode(graph, n);
      for (int i = 0; i < node->n_in; i++) {
        const RengaValue v = node->in[i];
        if (v < 0 || sent[v] >= s) continue;
        sent[v] = s;
        const RengaGraphValue *value = RengaGraphGetValue(graph, v);
        const RengaTensorSpec spec = RengaGraphStoredAt(value, 1);
        const double bytes = (double)RengaTensorSpecBytes(&spec);
        plan->stage[s].receives += bytes;
        plan->stage[RengaPlanStageOfNode(plan, value->producer)].sends += bytes;
      }
    }
}

static RengaErrorCode FillStages(RengaPlan plan, RengaGraph graph, bool seen[])
{
  for (int s = 0; s < plan->count; s++) {
    RengaPlanStage *stage = &plan->stage[s];
    stage->receives = stage->sends = 0;
    stage->parameters = CountParameters(graph, stage->first, stage->last, seen);
    RengaCall(CountFlops(graph, stage->first, stage->last, &stage->forward_flops));
    RengaCall(RengaStringCopy(RengaGraphGetNode(graph, stage->first)->name, &plan->first_name[s]));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanFill_Private(RengaPlan plan, RengaGraph graph)
{
  bool *seen = NULL;
  int *sent = NULL;
  RengaErrorCode code = RengaMalloc(RengaGraphGetValueCount(graph) + 1, &seen);
  if (!code) code = RengaMalloc(RengaGraphGetValueCount(graph) + 1, &sent);
  if (!code) code = FillStages(plan, graph, seen);
  if (!code) CountBytes(plan, graph, sent);
  RengaFree(&sent);
  RengaFree(&seen);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanGetLanes_Private(RengaGraph graph, int *lanes)
{
  int nodes;
  RengaCall(RengaGraphGetLanes(graph, lanes, &nodes));
  if (RengaGraphLanesAreTokens_Private(graph)) *lanes = 1;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetLanes - the lanes of the network that a plan was made for

   Not collective

   Input:
   . plan - the plan, with its stages

   Output:
   . lanes - of heads and columns (-graph_lanes); 1: it is in none, or the plan's file says nothing

   Errors: none beyond bad arguments.

   Notes: a plan is of a network in lanes, whose nodes they are. -graph_lanes auto takes those of
   the plan of -plan_load.

   See also: RengaGraphSetLanes(), RengaPlanLoad()
@*/
RengaErrorCode RengaPlanGetLanes(RengaPlan plan, int *lanes)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(lanes);
  *lanes = plan->lanes > 1 ? plan->lanes : 1;
  return RENGA_SUCCESS;
}
