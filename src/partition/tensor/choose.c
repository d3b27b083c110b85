/* The choice for a stage, and what its parts cost. */
#include "tensorimpl.h"
#include <string.h>

enum { LAYERS_SHOWN = 3 };

static RengaErrorCode SolveStage(const TensorStage *stage, const TensorProblem *p,
                                 RengaWidthResult *result)
{
  const RengaWidthProblem problem = {.nodes = p->n_items,
                                     .values = p->values,
                                     .states = p->states,
                                     .first_in = p->first_in,
                                     .in = p->in,
                                     .first_out = p->first_out,
                                     .out = p->out,
                                     .first_way = p->first_way,
                                     .seconds = p->seconds,
                                     .bytes = p->bytes,
                                     .first_need = p->first_need,
                                     .need = p->need,
                                     .first_convert = p->first_convert,
                                     .convert = p->convert,
                                     .bound = stage->bound};
  RengaCall(RengaWidthSolve(&problem, result));
  return RENGA_SUCCESS;
}

static int ChosenRow(const TensorProblem *p, const RengaWidthResult *result, int item)
{
  return p->first_way[item] + result->way[item];
}

/* made[v]: the state in which v is made; wanted[v]: bit s: some node needs it in state s;
   outside[v]: a node of another layer, or part, reads it. */
typedef struct {
  int *made;
  uint32_t *wanted;
  int *maker; /* item */
  bool *outside, *behind;
} TensorUses;

static int LayerOfItem(const TensorStage *stage, const TensorItem *item)
{
  if (item->part != TENSOR_LAYER) return item->part == TENSOR_BEFORE ? -1 : stage->layers;
  return item->node < 0 ? -2 : (item->node - stage->repeat.first) / stage->repeat.period;
}

static void NoteUses(const TensorProblem *p, const RengaWidthResult *result, TensorUses *uses)
{
  for (int i = 0; i < p->n_items; i++) {
    const int *need = &p->need[p->first_need[ChosenRow(p, result, i)]];
    const int n_in = p->first_in[i + 1] - p->first_in[i];
    for (int k = 0; k < n_in; k++) {
      const int v = p->in[p->first_in[i] + k];
      const TensorItem *maker = &p->item[uses->maker[v]];
      uses->wanted[v] |= (uint32_t)1 << need[k];
      if (LayerOfItem(p->table.stage, maker) != LayerOfItem(p->table.stage, &p->item[i]))
        uses->outside[v] = true;
      if (p->item[i].part == TENSOR_BEHIND && maker->part == TENSOR_BEFORE) uses->behind[v] = true;
    }
    for (int o = p->first_out[i]; o < p->first_out[i + 1]; o++) {
      uses->made[p->out[o]] = need[n_in + o - p->first_out[i]];
      uses->maker[p->out[o]] = i;
    }
  }
}

/* Does the layer that stands for others take what it gives? */
static bool IsSteady(const TensorProblem *p, int shown, const TensorUses *uses)
{
  const TensorStage *stage = p->table.stage;
  const TensorRepeat *repeat = &stage->repeat;
  if (shown >= stage->layers) return true;
  const int first = repeat->first + (shown / 2) * repeat->period;
  for (int n = first; n < first + repeat->period; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(stage->graph, n);
    const RengaGraphNode *before = RengaGraphGetNode(stage->graph, n - repeat->period);
    for (int o = 0; o < node->n_out; o++) {
      const RengaValue v = node->out[o], w = before->out[o];
      if (v >= 0 && uses->outside[w] && uses->made[v] != uses->made[w]) return false;
    }
  }
  return true;
}

static void AddConversions(const TensorProblem *p, RengaValue v, const TensorUses *uses,
                           double share, TensorPart *part)
{
  const TensorStates *states = &p->table.state[v];
  for (int s = 0; s <= states->count; s++) {
    if (!(uses->wanted[v] >> s & 1)) continue;
    const TensorSeconds seconds =
        RengaTensorPriceConversion_Private(p->table.stage, v, &states->split[uses->made[v]],
                                           s < states->count ? &states->split[s] : NULL);
    part->forward += share * seconds.forward;
    part->backward += share * (seconds.backward + seconds.again);
    part->again += share * seconds.again;
    part->exchange += share * (seconds.forward + seconds.backward + seconds.again);
  }
}

/* Sums over layers, as shares of one. */
static void AddItem(const TensorProblem *p, int i, const TensorRow *row, const TensorUses *uses,
                    TensorCosts *costs)
{
  const TensorStage *stage = p->table.stage;
  const TensorItem *item = &p->item[i];
  TensorPart *part = &costs->part[item->part];
  const bool layer = item->part == TENSOR_LAYER;
  const double share = layer ? item->weight / stage->layers : 1;
  part->forward += share * row->seconds.forward;
  part->backward += share * (row->seconds.backward + row->seconds.again);
  part->again += share * row->seconds.again;
  part->elements += (int64_t)(share * (double)row->elements);
  part->saved += (int64_t)(share * (double)row->saved);
  part->held += (int64_t)(share * (double)row->held);
  if (row->working > part->working) part->working = row->working;
  for (int o = p->first_out[i]; o < p->first_out[i + 1]; o++) {
    const RengaValue v = p->out[o];
    const RengaSplit *split = &p->table.state[v].split[uses->made[v]];
    AddConversions(p, v, uses, share, part);
    if (uses->behind[v]) costs->tied += row->elements;
    if (!uses->outside[v] || item->node < 0 || !layer) continue;
    part->sent += (int64_t)(share * (double)RengaTensorBytesOf_Private(stage, v, split));
    part->whole_sent += (int64_t)(share * (double)RengaTensorBytesOf_Private(
                                              stage, v, &(RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1}));
  }
}

static int FormatSplit(const RengaSplit *split, size_t size, char text[])
{
  if (split->kind == RENGA_SPLIT_WHOLE) return snprintf(text, size, "whole");
  if (split->repeat == 1) return snprintf(text, size, "along %d", split->dim);
  return snprintf(text, size, "along %d in %lld parts of units of %lld", split->dim,
                  (long long)split->repeat, (long long)split->unit);
}

/* Factors of products of the layer that stands for the others, and of those beside the layers. */
static void DescribeChoice(const TensorProblem *p, int shown, const TensorUses *uses,
                           TensorCosts *costs)
{
  int used = 0;
  for (int i = 0; i < p->n_items && used < TENSOR_TEXT - 128; i++) {
    const TensorItem *item = &p->item[i];
    const RengaValue v = item->source;
    if (v < 0 || !p->factor[v]) continue;
    if (item->part == TENSOR_LAYER && item->layer != shown / 2) continue;
    const RengaGraphValue *value = RengaGraphGetValue(p->table.stage->graph, v);
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    used += snprintf(costs->chosen + used, 64, "%s%.40s ", used ? ", " : "", value->name);
    used += FormatSplit(&p->table.state[v].split[uses->made[v]], 64, costs->chosen + used);
  }
}

static RengaErrorCode AllocateUses(int values, TensorUses *uses)
{
  RengaCall(RengaMalloc(values + 1, &uses->made));
  RengaCall(RengaMalloc(values + 1, &uses->wanted));
  RengaCall(RengaMalloc(values + 1, &uses->maker));
  RengaCall(RengaMalloc(values + 1, &uses->outside));
  RengaCall(RengaMalloc(values + 1, &uses->behind));
  return RENGA_SUCCESS;
}

static RengaErrorCode CountCosts(const TensorProblem *p, int shown, const RengaWidthResult *result,
                                 bool *steady, TensorCosts *costs)
{
  TensorUses uses = {.made = NULL};
  const RengaErrorCode code = AllocateUses(p->values, &uses);
  if (!code) {
    NoteUses(p, result, &uses);
    *steady = IsSteady(p, shown, &uses);
    *costs = (TensorCosts){.proved = result->optimal};
    DescribeChoice(p, shown, &uses, costs);
    for (int i = 0; i < p->n_items; i++)
      AddItem(p, i, &p->row[ChosenRow(p, result, i)], &uses, costs);
  }
  RengaFree(&uses.made);
  RengaFree(&uses.wanted);
  RengaFree(&uses.maker);
  RengaFree(&uses.outside);
  RengaFree(&uses.behind);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseShown(const TensorStage *stage, int shown, bool *fits, bool *steady,
                                  TensorCosts *costs)
{
  TensorProblem problem;
  RengaWidthResult result = {.feasible = false};
  *steady = true;
  RengaCall(RengaTensorBuild_Private(stage, shown, &problem));
  RengaErrorCode code = SolveStage(stage, &problem, &result);
  *fits = !code && result.feasible;
  if (*fits) code = CountCosts(&problem, shown, &result, steady, costs);
  if (!*fits) *costs = (TensorCosts){.least = result.bytes};
  RengaWidthFreeResult(&result);
  RengaTensorFreeProblem_Private(&problem);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Behind the layers stands what reads of the last of them: of the last that is shown. */
static RengaErrorCode MakeMap(const TensorStage *stage, int shown, RengaValue map[])
{
  const TensorRepeat *repeat = &stage->repeat;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(stage->graph); v++) map[v] = v;
  const int last = repeat->first + repeat->period * (repeat->count - 1);
  const int skipped = (repeat->count - shown) * repeat->period;
  for (int n = last; repeat->count && n < last + repeat->period; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(stage->graph, n);
    const RengaGraphNode *stands = RengaGraphGetNode(stage->graph, n - skipped);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0) map[node->out[o]] = stands->out[o];
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTensorChoose_Private(const TensorStage *stage, bool *fits, TensorCosts *costs)
{
  TensorStage own = *stage;
  RengaValue *map = NULL;
  bool steady = true;
  int shown = own.layers < LAYERS_SHOWN ? own.layers : LAYERS_SHOWN;
  RengaCall(RengaMalloc(RengaGraphGetValueCount(stage->graph) + 1, &map));
  own.map = map;
  RengaErrorCode code = MakeMap(&own, shown, map);
  if (!code) code = ChooseShown(&own, shown, fits, &steady, costs);
  if (!code && !steady) { /* it takes all of them to see how they go on */
    shown = own.layers;
    code = MakeMap(&own, shown, map);
    if (!code) code = ChooseShown(&own, shown, fits, &steady, costs);
  }
  RengaFree(&map);
  RengaCall(code);
  return RENGA_SUCCESS;
}
