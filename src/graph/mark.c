/* Marks of values, keys of random numbers, outputs that gradients need, updates of states. */
#include "graphimpl.h"
#include <string.h>

static void MarkLeaf(RengaGraphValue *value)
{
  value->prepared = value->kind == RENGA_VALUE_INPUT || value->kind == RENGA_VALUE_CONSTANT;
  value->differentiable = value->kind == RENGA_VALUE_PARAMETER && !value->frozen;
}

static void MarkOutputs(RengaGraph graph, const RengaGraphNode *node)
{
  bool prepared = !(node->op->flags & RENGA_OP_RANDOM), differentiable = false;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    prepared = prepared && graph->value[node->in[i]]->prepared;
    differentiable = differentiable || graph->value[node->in[i]]->differentiable;
  }
  if (RengaGraphGetGradientKind(node->op) == RENGA_GRADIENT_ZERO) differentiable = false;
  for (int i = 0; i < node->n_out; i++) {
    RengaGraphValue *value = graph->value[node->out[i]];
    value->prepared = prepared;
    value->differentiable = differentiable && RengaDataTypeIsFloating(value->spec.type);
  }
}

RengaErrorCode RengaGraphMarkValues(RengaGraph graph)
{
  RengaGraphForget(graph);
  for (int i = 0; i < graph->n_values; i++)
    if (graph->value[i]->kind != RENGA_VALUE_ACTIVATION) MarkLeaf(graph->value[i]);
  for (int i = 0; i < graph->n_nodes; i++)
    if (!graph->entry[i]->dead) MarkOutputs(graph, &graph->entry[i]->node);
  return RENGA_SUCCESS;
}

/* What the gradient of an operator reads besides its first output. */
static const struct {
  const char *op;
  int n_out;
} complete[] = {
    {"LayerNormalization", 3},  {"RMSNormalization", 2},
    {"GroupNormalization", 3},  {"InstanceNormalization", 3},
    {"BatchNormalization", 3},  {"MaxPool", 2},
    {"Attention", 2},           {"CrossEntropy", 2},
    {"CrossEntropyJoin", 2},    {"TopK", 2},
    {"PackedAttention", 2},     {"AddLayerNormalization", 4},
    {"AddRMSNormalization", 3}, {"BatchNormalizationRelu", 3},
};
enum { N_COMPLETE = sizeof complete / sizeof complete[0] };

static int WantedOutputs(const RengaGraphNode *node)
{
  for (int i = 0; i < N_COMPLETE; i++)
    if (strcmp(node->op->name, complete[i].op) == 0) return complete[i].n_out;
  return 0;
}

RengaErrorCode RengaGraphCompleteOutputs(RengaGraph graph)
{
  for (int i = 0, n = graph->n_nodes; i < n; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    RengaValue out[4] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
    int wanted = WantedOutputs(node);
    if (node->n_out >= wanted || !graph->value[node->out[0]]->differentiable) continue;
    for (int j = 0; j < node->n_out; j++) out[j] = node->out[j];
    graph->place = graph->entry[i]->place;
    RengaCall(RengaGraphInsertNode(graph, node->op->name, node->name, &node->attributes, node->n_in,
                                   node->in, wanted, NULL, out));
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = node->lane;
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = node->wide;
    graph->entry[graph->n_nodes - 1]->term = graph->entry[i]->term;
    graph->entry[i]->dead = true;
  }
  return RENGA_SUCCESS;
}

/* Where the samples are in the input, or in what is made of none: dimension and its part of each
   sample. */
static RengaErrorCode SetKey(RengaGraph graph, RengaGraphNode *node, int64_t key)
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, node->n_in > 0 ? node->in[0] : node->out[0]);
  int batch = RengaGraphBatchDimension(spec);
  int64_t whole = spec->ndim > 0 && spec->dim[0] > 0 ? spec->dim[0] : 1;
  int64_t factor = batch >= 0 ? -spec->dim[batch] : whole;
  RengaCall(RengaAttributesSetInt(&node->attributes, "key", key));
  RengaCall(RengaAttributesSetInt(&node->attributes, "batch_dim", batch >= 0 ? batch : 0));
  RengaCall(RengaAttributesSetInt(&node->attributes, "batch_factor", factor));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphSetKeys(RengaGraph graph)
{
  int64_t key = 0;
  for (int k = 0; k < RENGA_LANE_KINDS; k++)
    if (graph->in_lanes[k] > 0) return RENGA_SUCCESS; /* they were set before there were lanes */
  for (int i = 0; i < graph->n_nodes; i++) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, i);
    if (node->op->flags & RENGA_OP_RANDOM) RengaCall(SetKey(graph, node, key++));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddStateUpdate(RengaGraph graph, const RengaStateUpdate *row)
{
  if (row->state < 0 || graph->value[row->state]->kind != RENGA_VALUE_STATE) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(graph->n_updates + 1, &graph->update));
  graph->update[graph->n_updates++] = *row;
  return RENGA_SUCCESS;
}

/* The running statistics of BatchNormalization. */
RengaErrorCode RengaGraphFindUpdates(RengaGraph graph)
{
  graph->n_updates = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    const RengaStatisticsSize size = RengaGraphStatisticsOf(graph, node);
    const bool join = !strcmp(node->op->name, "BatchNormalizationJoin");
    if (!size.sample && !size.whole) continue;
    const RengaValue *state = node->in + (join ? 0 : 3), *batch = node->out + (join ? 0 : 1);
    const double keep = RengaAttributesReal(&node->attributes, "momentum", 0.9);
    const RengaStateUpdate mean = {state[0], batch[0], keep, 0, 0};
    const RengaStateUpdate variance = {state[1], batch[1], keep, size.sample, size.whole};
    RengaCall(AddStateUpdate(graph, &mean));
    RengaCall(AddStateUpdate(graph, &variance));
  }
  return RENGA_SUCCESS;
}

/* States that change after each micro-batch. Factor is 1 of a mean, and n / (n - 1) of a variance
   of n values, n = sample_values * the samples of the micro-batch + whole_values: the batch value
   is the biased variance, by which BatchNormalization divides, and the state is the unbiased one,
   as in PyTorch. count: the number of updates, at least 0. updates: the updates, lent by the graph:
   state = keep * state + (1 - keep) * factor * batch_value, in micro-batch order. */
RengaErrorCode RengaGraphGetStateUpdates(RengaGraph graph, int *count,
                                         const RengaStateUpdate **updates)
{
  RengaCheckPointer(graph);
  RengaCheckState(graph, RENGA_STATE_SETUP, "RengaGraphSetUp");
  *count = graph->n_updates;
  *updates = graph->update;
  return RENGA_SUCCESS;
}
