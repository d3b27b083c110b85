/* What each stage of a plan holds and sends, found from the network. */
#include "planimpl.h"
#include "renga/private/graph.h"
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

const char *const RengaPlanLaneWords_Private[RENGA_LANE_KINDS] = {
    [RENGA_LANES_OF_HEADS] = "lanes", [RENGA_LANES_OF_TOKENS] = "token_lanes"};

void RengaPlanGetLanes_Private(RengaGraph graph, int lanes[RENGA_LANE_KINDS])
{
  for (int k = 0; k < RENGA_LANE_KINDS; k++)
    RengaGraphCountLanes_Private(graph, (RengaLaneKind)k, &lanes[k], NULL);
}

/*@
   RengaPlanGetLanes - the lanes of the network that a plan was made for

   Input:
   . plan - the plan, with its stages

   Output:
   . lanes - the lanes of heads and columns (-graph_lanes); 1: it is in none, or the plan's file
     says nothing

   Notes: a plan is of a network in lanes, whose nodes they are. -graph_lanes auto takes those of
   the plan of -plan_load.

   See also: RengaPlanGetTokenLanes(), RengaGraphSetLanes(), RengaPlanLoad()
@*/
RengaErrorCode RengaPlanGetLanes(RengaPlan plan, int *lanes)
{
  RengaCheckPointers(plan, lanes);
  *lanes = plan->lanes[RENGA_LANES_OF_HEADS];
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetTokenLanes - the lanes of tokens of the network that a plan was made for

   Input:
   . plan - the plan, with its stages

   Output:
   . lanes - the lanes of tokens (-graph_token_lanes); 1: it is in none; 0: the plan's file is older
     than version 5 and does not say

   See also: RengaPlanGetLanes(), RengaGraphSetTokenLanes()
@*/
RengaErrorCode RengaPlanGetTokenLanes(RengaPlan plan, int *lanes)
{
  RengaCheckPointers(plan, lanes);
  *lanes = plan->lanes[RENGA_LANES_OF_TOKENS];
  return RENGA_SUCCESS;
}
