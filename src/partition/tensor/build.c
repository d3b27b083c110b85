/* A stage as a problem of src/partition/split: items, the rows of their ways, conversions. Of many
   equal layers three are in it, the middle one with the weight of all but the outer two. */
#include "tensorimpl.h"
#include <string.h>

static const RengaSplit tensor_whole = {RENGA_SPLIT_WHOLE, 0, 1, 1};

typedef struct {
  TensorProblem *problem;
  int item;
  int room, need_room; /* of rows and needs */
} RowWriter;

static RengaErrorCode GrowRows(RowWriter *writer)
{
  TensorProblem *p = writer->problem;
  if (p->n_rows == writer->room) {
    writer->room = 2 * writer->room + 256;
    RengaCall(RengaRealloc(writer->room, &p->row));
    RengaCall(RengaRealloc(writer->room, &p->seconds));
    RengaCall(RengaRealloc(writer->room, &p->bytes));
    RengaCall(RengaRealloc(writer->room, &p->first_need));
  }
  if (p->n_needs + TENSOR_ARITY >= writer->need_room) {
    writer->need_room = 2 * writer->need_room + 4096;
    RengaCall(RengaRealloc(writer->need_room, &p->need));
  }
  return RENGA_SUCCESS;
}

/* Under full recomputation only what goes from part to part is kept. */
static RengaErrorCode AddTensorRow(RowWriter *writer, const TensorRow *row)
{
  TensorProblem *p = writer->problem;
  const TensorStage *stage = p->table.stage;
  const double weight = p->item[writer->item].weight;
  RengaCall(GrowRows(writer));
  p->row[p->n_rows] = *row;
  p->seconds[p->n_rows] =
      weight * (row->seconds.forward + row->seconds.backward + row->seconds.again);
  p->bytes[p->n_rows] = (int64_t)(weight * ((double)(row->elements * stage->resident) +
                                            stage->flight * (double)row->saved));
  p->first_need[p->n_rows++] = p->n_needs;
  return RENGA_SUCCESS;
}

static bool IsKeptTensor(const TensorStage *stage, const RengaGraphNode *node, RengaValue value)
{
  const TensorRepeat *repeat = &stage->repeat;
  const int n = node->id, end = repeat->first + repeat->period * repeat->count;
  if (!stage->saved[value]) return false;
  if (stage->recompute != RENGA_RECOMPUTE_FULL || n < repeat->first || n >= end) return true;
  return (n - repeat->first) % repeat->period == repeat->period - 1; /* a layer's last node */
}

static int64_t CountScoresKept(const TensorStage *stage, const TensorCall *made,
                               const RengaSplit split[])
{
  const RengaMachineDevice *device = NULL;
  RengaMachineGetDevice(stage->machine, &device);
  if (strcmp(made->node->op->name, "Attention") || !device || device->attention_passes <= 0 ||
      stage->recompute != RENGA_RECOMPUTE_NONE)
    return 0;
  const RengaTensorSpec q =
      RengaSplitSpec(&made->spec[0], &split[0], stage->ranks - 1, stage->ranks);
  const int64_t rows = q.ndim ? RengaTensorSpecCount(&q) / q.dim[q.ndim - 1] : 0;
  /* the softmax, what drops out of it, and a byte for each that says which (Korthikanti et al.) */
  return rows * made->spec[1].dim[made->spec[1].ndim - 2] * 5;
}

static RengaErrorCode WriteNodeRow(RowWriter *writer, const TensorCall *made,
                                   const RengaSplitWay *way, const RengaSplit split[])
{
  TensorProblem *p = writer->problem;
  const TensorStage *stage = p->table.stage;
  TensorRow row = {.elements = 0};
  const int n_in = made->call.n_in, tensors = n_in + made->call.n_out;
  int states[TENSOR_ARITY];
  for (int t = 0; t < tensors; t++) {
    const RengaValue v = RengaTensorValueAt_Private(stage, made->node, t);
    states[t] = -1;
    if (v < 0) continue;
    states[t] = RengaTensorFindSplit_Private(&p->table.state[v], &split[t]);
    if (states[t] < 0) return RENGA_SUCCESS; /* there are too many states for this one */
    if (way && t < n_in && split[t].kind == RENGA_SPLIT_WHOLE)
      states[t] = p->table.state[v].count; /* its gradient is a sum */
    const int64_t bytes = RengaTensorBytesOf_Private(stage, v, &split[t]);
    row.working += 2 * bytes;
    if (t >= n_in && stage->saved[v]) row.held += bytes;
    if (t >= n_in && IsKeptTensor(stage, made->node, v)) row.saved += bytes;
  }
  row.saved += CountScoresKept(stage, made, split);
  RengaCall(RengaTensorPriceWay_Private(stage, made, way, &row.seconds));
  RengaCall(AddTensorRow(writer, &row));
  for (int t = 0; t < tensors; t++)
    if (states[t] >= 0) p->need[p->n_needs++] = states[t];
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteWayRow(void *user, const TensorCall *made, const RengaSplitWay *way)
{
  RengaSplit split[TENSOR_ARITY];
  const int n_in = made->call.n_in;
  memcpy(split, way->in, (size_t)n_in * sizeof *split);
  memcpy(split + n_in, way->out, (size_t)made->call.n_out * sizeof *split);
  RengaCall(WriteNodeRow(user, made, way, split));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteWholeRow(RowWriter *writer, int node)
{
  RengaSplit split[TENSOR_ARITY];
  TensorCall made;
  TensorProblem *p = writer->problem;
  const TensorStage *stage = p->table.stage;
  for (int t = 0; t < TENSOR_ARITY; t++) split[t] = tensor_whole;
  if (RengaTensorMakeCall_Private(stage, node, &made)) {
    RengaCall(WriteNodeRow(writer, &made, NULL, split));
    return RENGA_SUCCESS;
  }
  const RengaGraphNode *what = RengaGraphGetNode(stage->graph, node);
  const TensorRow row = {.seconds = {stage->cost[node].forward, stage->cost[node].backward, 0}};
  RengaCall(AddTensorRow(writer, &row));
  for (int t = 0; t < what->n_in + what->n_out; t++) {
    if (p->n_needs + TENSOR_ARITY >= writer->need_room) {
      writer->need_room *= 2;
      RengaCall(RengaRealloc(writer->need_room, &p->need));
    }
    if (RengaTensorValueAt_Private(stage, what, t) >= 0) p->need[p->n_needs++] = 0;
  }
  return RENGA_SUCCESS;
}

static bool HasParts(const TensorStates *states)
{
  for (int s = 0; s < states->count; s++)
    if (states->split[s].kind == RENGA_SPLIT_ALONG) return true;
  return false;
}

/* What no node makes is there in any state but a sum. */
static RengaErrorCode WriteSourceRows(RowWriter *writer, RengaValue value)
{
  TensorProblem *p = writer->problem;
  const TensorStage *stage = p->table.stage;
  const RengaGraphValue *what = RengaGraphGetValue(stage->graph, value);
  const RengaTensorSpec spec = RengaGraphStoredAt(what, stage->samples);
  const bool parted = what->kind == RENGA_VALUE_PARAMETER && p->factor[value] &&
                      stage->split != RENGA_TENSOR_SPLIT_AUTO && HasParts(&p->table.state[value]);
  for (int s = 0; s < p->table.state[value].count; s++) {
    const RengaSplit *split = &p->table.state[value].split[s];
    if (split->kind == RENGA_SPLIT_SUM) continue;
    if (split->kind == RENGA_SPLIT_WHOLE && parted) continue;
    const RengaTensorSpec part = RengaSplitSpec(&spec, split, stage->ranks - 1, stage->ranks);
    TensorRow row = {.seconds = {0, 0, 0}};
    if (what->kind == RENGA_VALUE_PARAMETER) row.elements = RengaTensorSpecCount(&part);
    RengaCall(AddTensorRow(writer, &row));
    p->need[p->n_needs++] = s;
  }
  return RENGA_SUCCESS;
}

/* Sources stand right before the node that first needs them, so that few values are live. */
static RengaErrorCode ListItems(const TensorStage *stage, int shown, TensorProblem *p)
{
  const TensorRepeat *repeat = &stage->repeat;
  const int nodes = RengaGraphGetNodeCount(stage->graph);
  const int end = repeat->first + repeat->period * repeat->count;
  bool *brought = NULL;
  RengaCall(RengaMalloc(p->values + 1, &brought));
  RengaErrorCode code = RengaMalloc(nodes + p->values + 1, &p->item);
  if (!code) code = RengaMalloc(p->values + 1, &p->factor);
  for (int n = 0; n < nodes && !code; n++) {
    const int layer = (n - repeat->first) / repeat->period;
    TensorItem item = {.node = n, .source = -1, .part = TENSOR_BEFORE, .weight = 1, .layer = layer};
    if (n >= end && repeat->count)
      item.part = TENSOR_BEHIND;
    else if (n >= repeat->first)
      item.part = TENSOR_LAYER;
    if (item.part == TENSOR_LAYER && layer >= shown) continue;
    if (item.part == TENSOR_LAYER && shown < stage->layers && layer == shown / 2)
      item.weight = stage->layers - shown + 1;
    const RengaGraphNode *node = RengaGraphGetNode(stage->graph, n);
    for (int i = 0; i < node->n_in; i++) {
      const RengaValue v = RengaTensorValueAt_Private(stage, node, i);
      if (v >= 0 && RengaGraphGetValue(stage->graph, v)->spec.ndim > 1)
        p->factor[v] = p->factor[v] || (node->op->flags & RENGA_OP_PRODUCT);
      if (v < 0 || brought[v] || RengaGraphGetValue(stage->graph, v)->producer >= 0) continue;
      brought[v] = true;
      p->item[p->n_items] = item;
      p->item[p->n_items].node = -1;
      p->item[p->n_items++].source = v;
    }
    p->item[p->n_items++] = item;
  }
  RengaFree(&brought);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteItem(RowWriter *writer)
{
  TensorProblem *p = writer->problem;
  const TensorStage *stage = p->table.stage;
  const TensorItem *item = &p->item[writer->item];
  p->first_in[writer->item] = p->inputs;
  p->first_out[writer->item] = p->outputs;
  p->first_way[writer->item] = p->n_rows;
  if (item->source >= 0) {
    p->out[p->outputs++] = item->source;
    p->weight[item->source] = item->weight;
    RengaCall(WriteSourceRows(writer, item->source));
    return RENGA_SUCCESS;
  }
  const RengaGraphNode *node = RengaGraphGetNode(stage->graph, item->node);
  for (int t = 0; t < node->n_in + node->n_out; t++) {
    const RengaValue v = RengaTensorValueAt_Private(stage, node, t);
    if (v < 0) continue;
    if (t < node->n_in)
      p->in[p->inputs++] = v;
    else
      p->out[p->outputs++] = v;
    if (t >= node->n_in) p->weight[v] = item->weight;
  }
  RengaCall(WriteWholeRow(writer, item->node));
  RengaCall(RengaTensorVisitWays_Private(&p->table, item->node, WriteWayRow, writer));
  return RENGA_SUCCESS;
}

static double AllSeconds(const TensorSeconds *seconds)
{
  return seconds->forward < 0 ? -1 : seconds->forward + seconds->backward + seconds->again;
}

/* The last state is a need only: whole, with a gradient that is a sum. */
static RengaErrorCode FillConvert(TensorProblem *p)
{
  const TensorStage *stage = p->table.stage;
  int64_t room = 0;
  for (int v = 0; v < p->values; v++) {
    p->states[v] = p->table.state[v].count + 1;
    p->first_convert[v] = (int)room;
    room += (int64_t)p->states[v] * p->states[v];
  }
  RengaCall(RengaMalloc(room + 1, &p->convert));
  for (int v = 0; v < p->values; v++) {
    const TensorStates *states = &p->table.state[v];
    double *table = p->convert + p->first_convert[v];
    for (int a = 0; a < states->count; a++)
      for (int b = 0; b <= states->count && p->weight[v] > 0; b++) {
        const TensorSeconds seconds = RengaTensorPriceConversion_Private(
            stage, v, &states->split[a], b < states->count ? &states->split[b] : NULL);
        const double sum = AllSeconds(&seconds);
        table[a * p->states[v] + b] = sum < 0 ? -1 : p->weight[v] * sum;
      }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateProblem(TensorProblem *p)
{
  int tensors = 0;
  for (int i = 0; i < p->n_items; i++) {
    const TensorItem *item = &p->item[i];
    const RengaGraphNode *node =
        item->node < 0 ? NULL : RengaGraphGetNode(p->table.stage->graph, item->node);
    tensors += node ? node->n_in + node->n_out : 1;
  }
  RengaCall(RengaMalloc(p->n_items + 1, &p->first_in));
  RengaCall(RengaMalloc(p->n_items + 1, &p->first_out));
  RengaCall(RengaMalloc(p->n_items + 1, &p->first_way));
  RengaCall(RengaMalloc(tensors + 1, &p->in));
  RengaCall(RengaMalloc(tensors + 1, &p->out));
  RengaCall(RengaMalloc(p->values + 1, &p->states));
  RengaCall(RengaMalloc(p->values + 1, &p->weight));
  RengaCall(RengaMalloc(p->values + 1, &p->first_convert));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteProblem(TensorProblem *p)
{
  RowWriter writer = {.problem = p};
  int *nodes = NULL, count = 0;
  RengaCall(RengaMalloc(p->n_items + 1, &nodes));
  for (int i = 0; i < p->n_items; i++)
    if (p->item[i].node >= 0) nodes[count++] = p->item[i].node;
  RengaErrorCode code = RengaTensorCloseStates_Private(&p->table, count, nodes);
  RengaFree(&nodes);
  for (; writer.item < p->n_items && !code; writer.item++) code = WriteItem(&writer);
  RengaCall(code);
  p->first_in[p->n_items] = p->inputs;
  p->first_out[p->n_items] = p->outputs;
  p->first_way[p->n_items] = p->n_rows;
  RengaCall(FillConvert(p));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTensorBuild_Private(const TensorStage *stage, int shown, TensorProblem *problem)
{
  *problem =
      (TensorProblem){.table = {.stage = stage}, .values = RengaGraphGetValueCount(stage->graph)};
  RengaErrorCode code = RengaMalloc(problem->values + 1, &problem->table.state);
  for (int v = 0; v < problem->values && !code; v++)
    problem->table.state[v] = (TensorStates){1, {tensor_whole}};
  if (!code) code = ListItems(stage, shown, problem);
  if (!code) code = AllocateProblem(problem);
  if (!code) code = WriteProblem(problem);
  if (code) RengaTensorFreeProblem_Private(problem);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaTensorFreeProblem_Private(TensorProblem *problem)
{
  RengaFree(&problem->table.state);
  RengaFree(&problem->item);
  RengaFree(&problem->row);
  RengaFree(&problem->states);
  RengaFree(&problem->first_in);
  RengaFree(&problem->in);
  RengaFree(&problem->first_out);
  RengaFree(&problem->out);
  RengaFree(&problem->first_way);
  RengaFree(&problem->first_need);
  RengaFree(&problem->need);
  RengaFree(&problem->first_convert);
  RengaFree(&problem->seconds);
  RengaFree(&problem->convert);
  RengaFree(&problem->bytes);
  RengaFree(&problem->weight);
  RengaFree(&problem->factor);
}
