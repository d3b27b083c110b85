/* In which states values may be had, and in which ways nodes be computed: from the split rules. */
#include "tensorimpl.h"
#include <string.h>

bool RengaTensorMakeCall_Private(const TensorStage *stage, int node, TensorCall *made)
{
  made->node = RengaGraphGetNode(stage->graph, node);
  const int n_in = made->node->n_in, tensors = n_in + made->node->n_out;
  if (tensors > TENSOR_ARITY) return false;
  for (int t = 0; t < tensors; t++) {
    const RengaValue value = RengaTensorValueAt_Private(stage, made->node, t);
    if (value == RENGA_VALUE_NONE)
      made->spec[t] = (RengaTensorSpec){.ndim = -1};
    else
      made->spec[t] = RengaGraphStoredAt(RengaGraphGetValue(stage->graph, value), stage->samples);
  }
  made->call = (RengaOpCall){.op = made->node->op,
                             .attributes = &made->node->attributes,
                             .n_in = n_in,
                             .n_out = made->node->n_out,
                             .in = made->spec,
                             .out = made->spec + n_in};
  return true;
}

int RengaTensorValueAt_Private(const TensorStage *stage, const RengaGraphNode *node, int tensor)
{
  const RengaValue value = tensor < node->n_in ? node->in[tensor] : node->out[tensor - node->n_in];
  return value < 0 ? value : stage->map[value];
}

int RengaTensorFindSplit_Private(const TensorStates *states, const RengaSplit *split)
{
  for (int s = 0; s < states->count; s++)
    if (RengaSplitEqual(&states->split[s], split)) return s;
  return -1;
}

/* Tokens lie along the second dimension of the network's inputs, and of what has their extent
   there or farther on; the last dimension is that of features. */
static bool IsAlongTokens(const TensorStage *stage, const RengaGraphValue *value, int dim)
{
  if (value->kind == RENGA_VALUE_PARAMETER || dim >= value->spec.ndim - 1) return false;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(stage->graph); v++) {
    const RengaGraphValue *input = RengaGraphGetValue(stage->graph, v);
    if (input->kind == RENGA_VALUE_INPUT && input->spec.ndim > 1)
      return input->spec.dim[1] == value->spec.dim[dim];
  }
  return false;
}

/* Not along samples, which are replicas' affair, and at least a unit for each rank. */
static bool IsWayWanted(const TensorTable *table, const TensorCall *made, const RengaSplitWay *way)
{
  const TensorStage *stage = table->stage;
  if (way->units > 0 && way->units < stage->ranks) return false;
  for (int t = 0; t < made->call.n_in + made->call.n_out; t++) {
    const RengaSplit *split = &way->in[t];
    const int v = RengaTensorValueAt_Private(stage, made->node, t);
    if (v < 0 || split->kind != RENGA_SPLIT_ALONG) continue;
    const RengaGraphValue *value = RengaGraphGetValue(stage->graph, v);
    if (value->spec.dim[split->dim] < 0) return false;
    if (stage->split == RENGA_TENSOR_SPLIT_FEATURES && IsAlongTokens(stage, value, split->dim))
      return false;
  }
  return true;
}

/* The way in other units, so that a tensor is had as given; false where that cannot be. */
static bool RefineWay(const TensorCall *made, RengaSplitWay *way, int tensor,
                      const RengaSplit *wanted)
{
  const RengaSplit *split = &way->in[tensor];
  if (split->kind != RENGA_SPLIT_ALONG || wanted->kind != split->kind ||
      wanted->dim != split->dim || wanted->repeat % split->repeat || wanted->unit % split->unit)
    return false;
  const int64_t repeat = wanted->repeat / split->repeat, unit = wanted->unit / split->unit;
  if (way->units % (repeat * unit)) return false;
  if (repeat > 1 && way->need == RENGA_LANE_INDICES) return false;
  return RengaSplitWayRefine(way, &made->call, repeat, unit) == RENGA_SUCCESS;
}

/* The way as it is, and in each of the units in which one of its tensors may be had. */
static RengaErrorCode VisitUnits(const TensorTable *table, const TensorCall *made,
                                 RengaSplitWay *way, TensorVisitor visit, void *user)
{
  const TensorStage *stage = table->stage;
  RengaSplit kept[TENSOR_ARITY], *own = way->in;
  const int64_t units = way->units;
  const int tensors = made->call.n_in + made->call.n_out;
  memcpy(kept, own, (size_t)tensors * sizeof *kept);
  if (IsWayWanted(table, made, way)) RengaCall(visit(user, made, way));
  for (int t = 0; t < tensors; t++) {
    const int value = RengaTensorValueAt_Private(stage, made->node, t);
    for (int s = 0; value >= 0 && s < table->state[value].count; s++) {
      memcpy(own, kept, (size_t)tensors * sizeof *kept);
      way->units = units;
      if (RengaSplitEqual(&own[t], &table->state[value].split[s])) continue;
      if (RefineWay(made, way, t, &table->state[value].split[s]) && IsWayWanted(table, made, way))
        RengaCall(visit(user, made, way));
    }
  }
  memcpy(own, kept, (size_t)tensors * sizeof *kept);
  way->units = units;
  return RENGA_SUCCESS;
}

/* What draws random numbers by the place of an element stays whole: no kernel does it in parts. So
   does a causal attention along its queries, of which the later ones see more keys, and what needs
   rows or statistics of others. */
RengaErrorCode RengaTensorVisitWays_Private(const TensorTable *table, int node, TensorVisitor visit,
                                            void *user)
{
  TensorCall made;
  RengaSplitWays ways = {0};
  if (!RengaTensorMakeCall_Private(table->stage, node, &made)) return RENGA_SUCCESS;
  RengaCall(RengaSplitWaysGet(&made.call, &ways));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int w = 0; w < ways.count && !code; w++)
    if ((ways.way[w].need == RENGA_LANE_ALONE || ways.way[w].need == RENGA_LANE_INDICES) &&
        !ways.way[w].shifted)
      code = VisitUnits(table, &made, &ways.way[w], visit, user);
  RengaSplitWaysFree(&ways);
  RengaCall(code);
  return RENGA_SUCCESS;
}

typedef struct {
  const TensorTable *table;
  bool changed;
} StateGrowth;

static RengaErrorCode AddStatesOfWay(void *user, const TensorCall *made, const RengaSplitWay *way)
{
  StateGrowth *growth = user;
  const TensorStage *stage = growth->table->stage;
  for (int t = 0; t < made->call.n_in + made->call.n_out; t++) {
    const int value = RengaTensorValueAt_Private(stage, made->node, t);
    if (value < 0) continue;
    TensorStates *states = &growth->table->state[value];
    if (RengaTensorFindSplit_Private(states, &way->in[t]) >= 0) continue;
    if (states->count == TENSOR_SPLITS) continue; /* ways that need more are left out */
    states->split[states->count++] = way->in[t];
    growth->changed = true;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTensorCloseStates_Private(const TensorTable *table, int count,
                                              const int nodes[])
{
  StateGrowth growth = {table, true};
  while (growth.changed) {
    growth.changed = false;
    for (int n = 0; n < count; n++)
      RengaCall(RengaTensorVisitWays_Private(table, nodes[n], AddStatesOfWay, &growth));
  }
  return RENGA_SUCCESS;
}
