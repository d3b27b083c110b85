/* The network as one stage, differentiated: its backward nodes carry the ids of their forward
   nodes. Which nodes a training step runs is found as the pipeline does: those that lead to the
   loss, the gradients of parameters and the statistics, but for what depends on constants only. */
#include "profileimpl.h"
#include "renga/private/cost.h"
#include "renga/private/graph.h"
#include <string.h>

static bool DependsOnWholeConstants(RengaGraph whole, const RengaGraphNode *node,
                                    const bool constant[])
{
  if (node->op->flags & (RENGA_OP_RANDOM | RENGA_OP_BATCH_SUM)) return false;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    const RengaGraphValue *value = RengaGraphGetValue(whole, node->in[i]);
    if (value->kind == RENGA_VALUE_CONSTANT) continue;
    if (value->producer < 0 || !constant[value->producer]) return false;
  }
  return true;
}

static RengaErrorCode MarkWanted(RengaGraph whole, bool needed[])
{
  int count;
  RengaValue loss;
  const RengaValue *outputs;
  const RengaParameterUse *use;
  const RengaStateUpdate *update;
  RengaCall(RengaGraphGetLoss(whole, &loss));
  if (loss == RENGA_VALUE_NONE) {
    RengaCall(RengaGraphGetOutputs(whole, &count, &outputs));
    for (int i = 0; i < count; i++) needed[outputs[i]] = true;
    return RENGA_SUCCESS;
  }
  needed[loss] = true;
  RengaCall(RengaGraphGetParameterUses(whole, &count, &use));
  for (int i = 0; i < count; i++)
    if (use[i].gradient != RENGA_VALUE_NONE) needed[use[i].gradient] = true;
  RengaCall(RengaGraphGetStateUpdates(whole, &count, &update));
  for (int i = 0; i < count; i++) needed[update[i].batch_value] = true;
  return RENGA_SUCCESS;
}

static ProfilePart PartOfWhole(RengaGraph whole, const RengaGraphNode *node, const bool needed[],
                               bool constant)
{
  bool runs = false, prepared = true;
  for (int o = 0; o < node->n_out; o++) {
    if (node->out[o] == RENGA_VALUE_NONE) continue;
    runs = runs || needed[node->out[o]];
    prepared = prepared && RengaGraphGetValue(whole, node->out[o])->prepared;
  }
  if (!runs || constant || prepared || (node->op->flags & RENGA_OP_BATCH_SUM))
    return PROFILE_PART_NONE;
  return node->phase == RENGA_PHASE_FORWARD ? PROFILE_PART_FORWARD : PROFILE_PART_BACKWARD;
}

static void MarkParts(RengaProfile profile, bool needed[], bool constant[])
{
  RengaGraph whole = profile->whole;
  const int n_nodes = RengaGraphGetNodeCount(whole);
  for (int n = 0; n < n_nodes; n++)
    constant[n] = DependsOnWholeConstants(whole, RengaGraphGetNode(whole, n), constant);
  for (int n = n_nodes - 1; n >= 0; n--) {
    const RengaGraphNode *node = RengaGraphGetNode(whole, n);
    bool runs = false;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE && needed[node->out[o]]) runs = true;
    for (int i = 0; runs && i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) needed[node->in[i]] = true;
    profile->part[n] = PartOfWhole(whole, node, needed, constant[n]);
    if (node->n_in + node->n_out > profile->largest) profile->largest = node->n_in + node->n_out;
  }
}

/* The value whose memory a view shows. */
RengaValue RengaProfileRoot_Private(RengaGraph whole, RengaValue value)
{
  for (;;) {
    const int producer = RengaGraphGetValue(whole, value)->producer;
    if (producer < 0) return value;
    const RengaGraphNode *node = RengaGraphGetNode(whole, producer);
    if (!(node->op->flags & RENGA_OP_RESHAPE)) return value;
    value = node->in[0];
  }
}

static ProfilePart PartOfValue(RengaProfile profile, RengaValue value)
{
  const int producer = RengaGraphGetValue(profile->whole, value)->producer;
  return producer < 0 ? PROFILE_PART_NONE : profile->part[producer];
}

/* kept[v]: v outlives its part, being read in backward, or a parameter's gradient. */
static RengaErrorCode MarkKept(RengaProfile profile, bool kept[])
{
  RengaGraph whole = profile->whole;
  int count;
  const RengaParameterUse *use;
  for (int n = 0; n < RengaGraphGetNodeCount(whole); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(whole, n);
    for (int i = 0; i < node->n_in && profile->part[n] == PROFILE_PART_BACKWARD; i++) {
      if (node->in[i] == RENGA_VALUE_NONE) continue;
      const RengaValue root = RengaProfileRoot_Private(whole, node->in[i]);
      if (PartOfValue(profile, root) != PROFILE_PART_BACKWARD) kept[root] = true;
    }
  }
  RengaCall(RengaGraphGetParameterUses(whole, &count, &use));
  for (int i = 0; i < count; i++)
    if (use[i].gradient != RENGA_VALUE_NONE)
      kept[RengaProfileRoot_Private(whole, use[i].gradient)] = true;
  return RENGA_SUCCESS;
}

/* An input is warm where the same part made it; an output where it does not outlive the part, so
   that it lies where another tensor just was. */
static uint32_t FindWarm(RengaProfile profile, int n, const bool kept[])
{
  const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
  uint32_t warm = 0;
  for (int i = 0; i < node->n_in + node->n_out && i < 32; i++) {
    const RengaValue value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    if (value == RENGA_VALUE_NONE) continue;
    const RengaValue root = RengaProfileRoot_Private(profile->whole, value);
    const bool is_warm =
        i < node->n_in ? PartOfValue(profile, root) == profile->part[n] : !kept[root];
    if (is_warm) warm |= (uint32_t)1 << i;
  }
  return warm;
}

static RengaErrorCode MarkWarm(RengaProfile profile)
{
  bool *kept = NULL;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(profile->whole) + 1, &profile->warm));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(profile->whole) + 1, &kept));
  const RengaErrorCode code = MarkKept(profile, kept);
  for (int n = 0; n < RengaGraphGetNodeCount(profile->whole) && code == RENGA_SUCCESS; n++)
    if (profile->part[n] != PROFILE_PART_NONE) profile->warm[n] = FindWarm(profile, n, kept);
  RengaFree(&kept);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static ProfileSum RoleInSum(RengaProfile profile, int n)
{
  const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
  const char *name = node->op->name;
  if (RengaGraphIsOfPieces_Private(profile->whole, n))
    return strcmp(name, "Concat") == 0 ? PROFILE_SUM_WHOLE : PROFILE_SUM_TERMS;
  if (strcmp(name, "Add") != 0) return PROFILE_SUM_NONE;
  for (int i = 0; i < node->n_in; i++) { /* backward adds pieces, too */
    const int maker = RengaGraphGetValue(profile->whole, node->in[i])->producer;
    if (maker < 0 || profile->sum[maker] != PROFILE_SUM_TERMS) return PROFILE_SUM_NONE;
  }
  return PROFILE_SUM_TERMS;
}

static RengaErrorCode MarkSumsOfLanes(RengaProfile profile)
{
  const int n_nodes = RengaGraphGetNodeCount(profile->whole);
  RengaCall(RengaMalloc(n_nodes + 1, &profile->sum));
  for (int n = 0; n < n_nodes; n++) profile->sum[n] = RoleInSum(profile, n);
  return RENGA_SUCCESS;
}

static RengaErrorCode DifferentiateWhole(RengaProfile profile)
{
  bool *needed = NULL, *constant = NULL;
  RengaCall(RengaGraphGetSubgraph(profile->graph, 0, RengaGraphGetNodeCount(profile->graph),
                                  &profile->whole));
  RengaCall(RengaGraphDifferentiate(profile->whole, 0, NULL, NULL, 0, NULL, NULL));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(profile->whole) + 1, &profile->part));
  RengaErrorCode code = RengaMalloc(RengaGraphGetValueCount(profile->whole) + 1, &needed);
  if (!code) code = RengaMalloc(RengaGraphGetNodeCount(profile->whole) + 1, &constant);
  if (!code) code = MarkWanted(profile->whole, needed);
  if (code == RENGA_SUCCESS) MarkParts(profile, needed, constant);
  RengaFree(&needed);
  RengaFree(&constant);
  RengaCall(code);
  RengaCall(MarkWarm(profile));
  RengaCall(MarkSumsOfLanes(profile));
  return RENGA_SUCCESS;
}

RengaGraph RengaProfileGetWhole_Private(RengaProfile profile, RengaGraph graph)
{
  return profile->graph == graph ? profile->whole : NULL;
}

RengaErrorCode RengaProfileDifferentiate_Private(RengaProfile profile)
{
  if (profile->whole) return RENGA_SUCCESS;
  const RengaErrorCode code = DifferentiateWhole(profile);
  if (code) {
    RengaFree(&profile->part);
    RengaFree(&profile->warm);
    RengaFree(&profile->sum);
    RengaGraphDestroy(&profile->whole);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}
