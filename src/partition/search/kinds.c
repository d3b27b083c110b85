/* Devices of several kinds. Sums of a model are the least of all kinds, place by place, so that
   every bound holds wherever stages lie; costs of a stage are those of the slowest kind that it
   lies on, and a kind with less memory than others takes that much more for granted. Searches,
   which know one array of seconds, look at each order of kinds, and of some of them, by itself: its
   first places have the seconds of the first kind, as many as make the work of all devices even,
   and so on. Then stages are cut anew where their own kinds want it. */
#include "kinds.h"
#include "renga/private/plan.h"
#include <math.h>
#include <string.h>

struct SearchKindModels {
  const SearchKinds *of;
  const SearchOrder *order;
  SearchModel *model; /* [kinds] for their arrays */
};

int RengaSearchKindOf_Private(const SearchKinds *kinds, int device)
{
  int k = 0;
  while (k + 1 < kinds->count && kinds->begin[k + 1] <= device) k++;
  return k;
}

/* ---- the model ---- */

SearchModel RengaSearchModelOfKind_Private(const SearchModel *model, int kind)
{
  const SearchModel *arrays = &model->kinds->model[kind];
  const SearchKinds *kinds = model->kinds->of;
  SearchModel own = *model;
  own.forward = arrays->forward;
  own.backward = arrays->backward;
  own.weight = arrays->weight;
  own.listing.rates = arrays->listing.rates;
  own.update_rate = kinds->update_rate[kind];
  own.accumulate_rate = kinds->accumulate_rate[kind];
  if (model->memory > 0) own.memory = fmax(1, model->memory - kinds->hidden[kind]);
  own.kinds = NULL;
  return own;
}

double RengaSearchHidden_Private(const struct SearchKindModels *kinds, unsigned mask)
{
  double most = 0;
  for (int k = 0; kinds && k < kinds->of->count; k++)
    if (mask >> k & 1) most = fmax(most, kinds->of->hidden[k]);
  return most;
}

void RengaSearchFreeKinds_Private(SearchModel *model)
{
  for (int k = 0; model->kinds && model->kinds->model && k < model->kinds->of->count; k++)
    RengaSearchModelFree_Private(&model->kinds->model[k]);
  if (model->kinds) RengaFree(&model->kinds->model);
  RengaFree(&model->kinds);
}

/* The row of costs; -1: it is none of the kinds', as of bounds. */
static int RowOfCosts(const SearchKinds *kinds, const RengaProfileCost *costs)
{
  for (int row = 0; row < kinds->n_rows; row++)
    if (kinds->base[row] == costs) return row;
  for (int m = 0; m < kinds->n_mixed; m++)
    if (kinds->mixed[m].costs == costs) return kinds->mixed[m].row;
  return -1;
}

RengaErrorCode RengaSearchAddKinds_Private(const SearchTask *task, const SearchChain *chain,
                                           int size, SearchModel *model)
{
  const SearchKinds *kinds = task->kinds;
  const int row = RowOfCosts(kinds, task->costs[size]);
  if (row < 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &model->kinds));
  model->kinds->of = kinds;
  RengaCall(RengaMalloc(kinds->count, &model->kinds->model));
  model->kinds->order = task->order;
  for (int k = 0; k < kinds->count; k++) {
    SearchModel *own = &model->kinds->model[k];
    own->microbatches = model->microbatches;
    RengaCall(RengaSearchModelLend_Private(chain, task->size[size], kinds->costs[k][row], own));
  }
  return RENGA_SUCCESS;
}

/* Of a layout without ranks of its own: stage after stage, or replica after replica. */
static int DeviceAt(const SearchOrder *order, int place)
{
  if (!order) return place;
  return order->device[place < order->n_devices ? place : order->n_devices - 1];
}

void RengaSearchFindKinds_Private(const SearchModel *model, SearchLayout *layout)
{
  int n = 0, across = 0, before = 0;
  if (!model->kinds) return;
  for (int s = 0; s < layout->count; s++)
    across += RengaShapeGroup_Private(&layout->stage[s].shape);
  for (int s = 0; s < layout->count; s++) {
    SearchStage *stage = &layout->stage[s];
    const int each = RengaShapeGroup_Private(&stage->shape);
    stage->kinds = 0;
    for (int r = 0; r < stage->shape.replicas; r++)
      for (int t = 0; t < each; t++, n++) {
        const int place = layout->spread ? r * across + before + t : n;
        const int device = layout->rank ? layout->rank[n] : DeviceAt(model->kinds->order, place);
        stage->kinds |= 1u << RengaSearchKindOf_Private(model->kinds->of, device);
      }
    before += each;
  }
}

void RengaSearchTakeKinds_Private(const SearchModel *model, RengaPlan plan, SearchLayout *layout)
{
  for (int s = 0; model->kinds && s < layout->count; s++) {
    const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
    const int each = RengaShapeGroup_Private(shape);
    layout->stage[s].kinds = 0;
    for (int n = 0; n < shape->replicas * each; n++) {
      const RengaPlanPlace place = RengaPlanPlaceOf_Private(plan, s, n / each, n % each);
      layout->stage[s].kinds |=
          1u << RengaSearchKindOf_Private(model->kinds->of, RengaPlanGetRankAt(plan, &place));
    }
  }
}

/* As RengaSearchEvaluate_Private(), whatever memory there is. */
static void SumStages(const SearchModel *model, SearchLayout *layout)
{
  const int across = RengaSearchAcross_Private(layout);
  layout->fill = layout->rounds = layout->reduce = layout->update = 0;
  for (int first = 0; first < across; first++) {
    SearchCost sum = {0};
    for (int c = 0; c == 0 || c < layout->chunks; c++) {
      const int s = RengaSearchStageOf_Private(layout, first, c);
      const SearchCost cost =
          RengaSearchCostOf_Private(model, &layout->stage[s], layout->count - s);
      layout->fill += cost.forward + cost.backward + 2 * cost.delay;
      sum.rounds += cost.rounds;
      sum.reduce += cost.reduce;
      sum.update += cost.update;
    }
    layout->rounds = fmax(layout->rounds, sum.rounds);
    layout->reduce = fmax(layout->reduce, sum.reduce);
    layout->update = fmax(layout->update, sum.update);
  }
  layout->step = layout->fill + layout->rounds + layout->reduce + layout->update;
}

RengaErrorCode RengaSearchOnKinds_Private(const SearchModel *model, const SearchLayout *layout,
                                          RengaPlan plan, SearchLayout *own)
{
  RengaCall(RengaSearchLayoutCopy_Private(layout, own));
  if (plan)
    RengaSearchTakeKinds_Private(model, plan, own);
  else
    for (int s = 0; s < own->count; s++) own->stage[s].kinds = 0;
  SumStages(model, own);
  return RENGA_SUCCESS;
}

/* ---- life ---- */

static RengaErrorCode AddKindOrder(SearchKinds *kinds, int unit, int count, const int kind[])
{
  enum { ORDERS_FIRST = 16 };
  if (kinds->n_orders % ORDERS_FIRST == 0)
    RengaCall(RengaRealloc(kinds->n_orders + ORDERS_FIRST, &kinds->order));
  SearchOrder *order = &kinds->order[kinds->n_orders];
  *order = (SearchOrder){.count = count};
  memcpy(order->kind, kind, (size_t)count * sizeof *kind);
  RengaCall(RengaMalloc(kinds->begin[kinds->count] + 1, &order->device));
  kinds->n_orders++;
  for (int i = 0; i < count; i++) {
    const int begin = kinds->begin[kind[i]], end = kinds->begin[kind[i] + 1];
    for (int d = begin; d < begin + (end - begin) / unit * unit; d++)
      order->device[order->n_devices++] = d;
    order->end[i] = order->n_devices;
  }
  return RENGA_SUCCESS;
}

/* All that go on from the first `count` of kind[], which are in order. */
static RengaErrorCode AddOrdersFrom(SearchKinds *kinds, int unit, int count, int kind[])
{
  if (count) RengaCall(AddKindOrder(kinds, unit, count, kind));
  for (int k = 0; k < kinds->count; k++) {
    bool there = false;
    for (int i = 0; i < count; i++) there = there || kind[i] == k;
    kind[count] = k;
    if (!there) RengaCall(AddOrdersFrom(kinds, unit, count + 1, kind));
  }
  return RENGA_SUCCESS;
}

/* Of few kinds all orders of all of them and of some; of more the file's, the other way round, and
   each kind alone. */
static RengaErrorCode FindOrders(SearchKinds *kinds, int unit)
{
  enum { KINDS_FEW = 3 };
  int kind[SEARCH_KINDS_MOST + 1];
  if (kinds->count <= KINDS_FEW) {
    RengaCall(AddOrdersFrom(kinds, unit, 0, kind));
    return RENGA_SUCCESS;
  }
  for (int back = 0; back < 2; back++) {
    for (int k = 0; k < kinds->count; k++) kind[k] = back ? kinds->count - 1 - k : k;
    RengaCall(AddKindOrder(kinds, unit, kinds->count, kind));
  }
  for (int k = 0; k < kinds->count; k++) RengaCall(AddKindOrder(kinds, unit, 1, &k));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchKindsCreate_Private(const SearchTask *task, int count, const int begin[],
                                              SearchKinds **kinds)
{
  SearchKinds *made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->count = count;
  made->n_rows = task->n_sizes;
  memcpy(made->begin, begin, (size_t)(count + 1) * sizeof *begin);
  *kinds = made;
  RengaCall(RengaMalloc(made->n_rows, &made->base));
  for (int row = 0; row < made->n_rows; row++) made->base[row] = task->costs[row];
  for (int k = 0; k < count; k++) {
    RengaCall(RengaMalloc(made->n_rows, &made->costs[k]));
    for (int row = 0; row < made->n_rows; row++) {
      int same = 0;
      while (made->base[same] != made->base[row]) same++;
      made->costs[k][row] = made->costs[k][same];
      if (same == row)
        RengaCall(RengaMalloc(RengaGraphGetNodeCount(task->graph) + 1, &made->costs[k][row]));
    }
  }
  RengaCall(FindOrders(made, task->unit > 1 ? task->unit : 1));
  return RENGA_SUCCESS;
}

void RengaSearchKindsFree_Private(SearchKinds **kinds)
{
  SearchKinds *own = *kinds;
  if (!own) return;
  for (int k = 0; k < own->count; k++) {
    for (int row = own->n_rows - 1; own->costs[k] && row >= 0; row--) {
      int same = 0;
      while (own->base[same] != own->base[row]) same++;
      if (same == row) RengaFree(&own->costs[k][row]);
    }
    RengaFree(&own->costs[k]);
  }
  for (int m = 0; m < own->n_mixed; m++) RengaFree(&own->mixed[m].costs);
  for (int o = 0; o < own->n_orders; o++) RengaFree(&own->order[o].device);
  RengaFree(&own->mixed);
  RengaFree(&own->order);
  RengaFree(&own->base);
  RengaFree(kinds);
}

static double NodeWork(const RengaProfileCost *cost)
{
  return cost->forward + cost->backward;
}

/* The faster a kind is the more a second of it counts. */
static void WeighKinds(const SearchTask *task, SearchKinds *kinds)
{
  double sum = 0;
  for (int k = 0; k < kinds->count; k++) {
    double seconds = 0;
    for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++)
      seconds += NodeWork(&kinds->costs[k][0][n]);
    kinds->weight[k] = seconds > 0 ? 1 / seconds : 1;
    sum += (kinds->begin[k + 1] - kinds->begin[k]) * kinds->weight[k];
  }
  for (int k = 0; k < kinds->count; k++) kinds->weight[k] *= kinds->begin[kinds->count] / sum;
}

void RengaSearchKindsLeast_Private(const SearchTask *task, SearchKinds *kinds)
{
  WeighKinds(task, kinds);
  for (int row = 0; row < kinds->n_rows; row++)
    for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++) {
      RengaProfileCost *least = &task->costs[row][n];
      *least = kinds->costs[0][row][n];
      for (int k = 1; k < kinds->count; k++) {
        least->forward = fmin(least->forward, kinds->costs[k][row][n].forward);
        least->backward = fmin(least->backward, kinds->costs[k][row][n].backward);
      }
    }
}

double RengaSearchEvenWork_Private(const SearchKinds *kinds, int row, int node)
{
  double least = HUGE_VAL;
  for (int k = 0; k < kinds->count; k++)
    least = fmin(least, kinds->weight[k] * NodeWork(&kinds->costs[k][row][node]));
  return least;
}

/* What has become less has done so in proportion; what is more is the same for all kinds. */
static double FollowCost(double own, double before, double after)
{
  return after < before ? own * after / before : own + after - before;
}

void RengaSearchKindsFollow_Private(const SearchTask *task, RengaProfileCost **before)
{
  const SearchKinds *kinds = task->kinds;
  for (int row = 0; row < kinds->n_rows; row++) {
    int same = 0;
    while (kinds->base[same] != kinds->base[row]) same++;
    for (int k = 0; k < kinds->count && same == row; k++)
      for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++) {
        RengaProfileCost *own = &kinds->costs[k][row][n];
        const RengaProfileCost *was = &before[row][n], *is = &task->costs[row][n];
        own->forward = FollowCost(own->forward, was->forward, is->forward);
        own->backward = FollowCost(own->backward, was->backward, is->backward);
      }
    if (same == row)
      memcpy(before[row], task->costs[row],
             (size_t)RengaGraphGetNodeCount(task->graph) * sizeof **before);
  }
}

/* ---- layouts ---- */

/* Costs of the nodes on the kinds of an order, none of whose devices works longer than so many
   seconds; false: that is too short for all nodes. */
static bool DealNodes(const SearchKinds *kinds, const SearchOrder *order, int row,
                      const SearchChain *chain, double seconds, RengaProfileCost costs[])
{
  int i = 0, first = 0;
  double work = 0;
  for (int c = 0; c < chain->count; c++) {
    const int n = chain->node[c];
    while (i < order->count) {
      const int devices = order->end[i] - first;
      work += NodeWork(&kinds->costs[order->kind[i]][row][n]);
      if (work <= seconds * devices) break;
      work = 0;
      first = order->end[i++];
    }
    if (i == order->count) return false;
    costs[n] = kinds->costs[order->kind[i]][row][n];
  }
  return true;
}

static void FillMixed(const SearchKinds *kinds, const SearchOrder *order, int row,
                      const SearchChain *chain, RengaProfileCost costs[])
{
  enum { HALVINGS = 50 };
  double low = 0, high = 0;
  for (int c = 0; c < chain->count; c++) {
    double most = 0;
    for (int i = 0; i < order->count; i++)
      most = fmax(most, NodeWork(&kinds->costs[order->kind[i]][row][chain->node[c]]));
    high += most;
  }
  for (int i = 0; i < HALVINGS; i++) {
    const double middle = low + (high - low) / 2;
    if (DealNodes(kinds, order, row, chain, middle, costs))
      high = middle;
    else
      low = middle;
  }
  if (!DealNodes(kinds, order, row, chain, high, costs))
    DealNodes(kinds, order, row, chain, HUGE_VAL, costs);
}

/* Kept, as models that are stored know them by where they lie. */
static RengaErrorCode MixedCosts(const SearchTask *task, const SearchChain *chain, int row,
                                 const SearchOrder *order, RengaProfileCost **costs)
{
  SearchKinds *kinds = task->kinds;
  int same = 0;
  while (kinds->base[same] != kinds->base[row]) same++;
  for (int m = 0; m < kinds->n_mixed; m++)
    if (kinds->mixed[m].row == same && kinds->mixed[m].order == order) {
      *costs = kinds->mixed[m].costs;
      return RENGA_SUCCESS;
    }
  RengaCall(RengaRealloc(kinds->n_mixed + 1, &kinds->mixed));
  SearchMixed *mixed = &kinds->mixed[kinds->n_mixed];
  *mixed = (SearchMixed){.row = same, .order = order};
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(task->graph) + 1, &mixed->costs));
  kinds->n_mixed++;
  FillMixed(kinds, order, same, chain, mixed->costs);
  *costs = mixed->costs;
  return RENGA_SUCCESS;
}

/* Seconds of the stage's devices, from the first of its micro-batches to its update; HUGE_VAL: it
   does not fit. */
static double BusySeconds(const SearchModel *model, const SearchStage *stage,
                          const SearchCandidate *candidate, int depth)
{
  SearchCost cost;
  if (!RengaSearchStageOn_Private(model, stage, candidate, depth, &cost)) return HUGE_VAL;
  return (double)candidate->rounds * (cost.forward + cost.backward) + cost.reduce + cost.update;
}

/* Each stage as long as so many seconds allow; false: they do not reach the end. */
static bool CutWithin(const SearchModel *model, const SearchCandidate *candidate, double seconds,
                      SearchLayout *layout)
{
  int begin = 0;
  for (int s = 0; s < layout->count; s++) {
    SearchStage *stage = &layout->stage[s];
    const int most = model->count - (layout->count - 1 - s);
    int low = begin, high = most;
    stage->begin = begin;
    while (low < high) {
      stage->end = low + (high - low + 1) / 2;
      if (BusySeconds(model, stage, candidate, layout->count - s) <= seconds)
        low = stage->end;
      else
        high = stage->end - 1;
    }
    if (low == begin) return false;
    stage->end = begin = low;
  }
  return begin == model->count;
}

/* So many stages of a shape, cut where the busiest has least to do; count 0: they do not fit. */
static RengaErrorCode CutForKinds(const SearchModel *model, const SearchCandidate *candidate,
                                  int count, SearchLayout *layout)
{
  enum { HALVINGS = 40 };
  double low = 0, high = 0;
  *layout = (SearchLayout){.count = count, .spread = model->listing.spread};
  RengaCall(RengaMalloc(count, &layout->stage));
  for (int s = 0; s < count; s++) layout->stage[s].shape = candidate->shape;
  RengaSearchFindKinds_Private(model, layout);
  for (int k = 0; k < model->kinds->of->count; k++) {
    const SearchModel *kind = &model->kinds->model[k];
    high = fmax(high, kind->forward[model->count] + kind->backward[model->count]);
  }
  high = 4 * high * (double)candidate->rounds + 1;
  bool cut = CutWithin(model, candidate, high, layout);
  for (int i = 0; i < HALVINGS && cut; i++) {
    const double middle = low + (high - low) / 2;
    if (CutWithin(model, candidate, middle, layout))
      high = middle;
    else
      low = middle;
  }
  if (cut) CutWithin(model, candidate, high, layout);
  if (!cut) RengaSearchLayoutFree_Private(layout);
  return RENGA_SUCCESS;
}

/* Stages of each shape, as many as there are devices for. */
static RengaErrorCode CutAllForKinds(const SearchModel *model, SearchLayout *best)
{
  for (int i = 0; i < model->n_candidates; i++) {
    const SearchCandidate *candidate = &model->candidate[i];
    const int most = model->devices * RengaSearchUnit_Private(model) /
                     RengaSearchShapeDevices_Private(&candidate->shape);
    int count = model->stages ? model->stages : most;
    SearchLayout layout;
    if (count > model->count) count = model->count;
    if (count > most || count < 1) continue;
    RengaCall(CutForKinds(model, candidate, count, &layout));
    if (layout.count) RengaCall(RengaSearchTake_Private(model, &layout, best));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PlaceOnOrder(const SearchOrder *order, SearchLayout *layout)
{
  int n = 0, across = 0, before = 0;
  RengaFree(&layout->rank);
  layout->n_ranks = 0;
  for (int s = 0; s < layout->count; s++) {
    layout->n_ranks += RengaSearchShapeDevices_Private(&layout->stage[s].shape);
    across += RengaShapeGroup_Private(&layout->stage[s].shape);
  }
  RengaCall(RengaMalloc(layout->n_ranks, &layout->rank));
  for (int s = 0; s < layout->count; s++) {
    const int each = RengaShapeGroup_Private(&layout->stage[s].shape);
    for (int r = 0; r < layout->stage[s].shape.replicas; r++)
      for (int t = 0; t < each; t++, n++)
        layout->rank[n] = DeviceAt(order, layout->spread ? r * across + before + t : n);
    before += each;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode LayoutInOrder(const SearchTask *task, const SearchChain *chain, bool spread,
                                    SearchLayout *layout)
{
  SearchModel model = {0};
  RengaCall(RengaSearchModelOf_Private(task, chain, 0, spread, &model));
  RengaErrorCode code = RENGA_SUCCESS;
  if (model.n_candidates && model.count) {
    code = RengaSearchQuickly_Private(&model, layout);
    if (!code) code = CutAllForKinds(&model, layout);
  }
  RengaSearchModelFree_Private(&model);
  if (!code && layout->count) code = PlaceOnOrder(task->order, layout);
  if (code) RengaSearchLayoutFree_Private(layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchKindLayouts_Private(const SearchTask *task, const SearchChain *chain,
                                              int size, bool spread, SearchLayout *best)
{
  const SearchKinds *kinds = task->kinds;
  const int row = RowOfCosts(kinds, task->costs[size]);
  const int unit = task->unit > 1 ? task->unit : 1;
  for (int o = 0; o < kinds->n_orders && row >= 0; o++) {
    SearchLayout layout = {0};
    RengaProfileCost *mixed;
    SearchTask own = *task;
    RengaCall(MixedCosts(task, chain, row, &kinds->order[o], &mixed));
    own.order = &kinds->order[o];
    own.ranks = own.order->n_devices / unit;
    own.size += size;
    own.leaf += size;
    own.costs = &mixed;
    own.n_sizes = own.n_first = 1;
    if (own.ranks < 1) continue;
    RengaCall(LayoutInOrder(&own, chain, spread, &layout));
    if (layout.count && (!best->count || layout.step < best->step)) {
      RengaSearchLayoutFree_Private(best);
      *best = layout;
    } else {
      RengaSearchLayoutFree_Private(&layout);
    }
  }
  return RENGA_SUCCESS;
}

/* "A100 (40.0 GiB) and V100 (16.0 GiB)" */
static void NameKinds(const SearchKinds *kinds, unsigned mask, size_t size, char text[])
{
  size_t used = 0;
  text[0] = '\0';
  for (int k = 0; k < kinds->count && used < size; k++) {
    char bytes[32];
    if (!(mask >> k & 1)) continue;
    RengaFormatBytes(kinds->memory[k], sizeof bytes, bytes);
    used += (size_t)snprintf(text + used, size - used, "%s%.40s (%s)", used ? " and " : "",
                             kinds->name[k], kinds->memory[k] > 0 ? bytes : "any memory");
  }
}

/* Stages [begin, end). */
static RengaErrorCode SayKinds(const SearchKinds *kinds, unsigned mask, int begin, int end,
                               SearchAnswer *answer)
{
  char names[SEARCH_KINDS_MOST * 80], stages[48];
  NameKinds(kinds, mask, sizeof names, names);
  if (end - begin > 1)
    snprintf(stages, sizeof stages, "stages %d to %d lie", begin, end - 1);
  else
    snprintf(stages, sizeof stages, "stage %d lies", begin);
  RengaCall(RengaSolutionSay_Private(
      answer, "kinds", "%s on %s%s", stages, names,
      mask & (mask - 1) ? ": replicas on the faster wait for the others" : ""));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainKinds_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchKinds *kinds = solution->task->kinds;
  const SearchLayout *layout = &solution->layout;
  unsigned used = 0;
  char idle[SEARCH_KINDS_MOST * 80];
  int begin = 0;
  if (!kinds) return RENGA_SUCCESS;
  for (int s = 0; s < layout->count; s++) {
    const unsigned own = layout->stage[s].kinds;
    used |= own;
    if (s + 1 < layout->count && layout->stage[s + 1].kinds == own) continue;
    RengaCall(SayKinds(kinds, own, begin, s + 1, answer));
    begin = s + 1;
  }
  NameKinds(kinds, ~used, sizeof idle, idle);
  if (idle[0])
    RengaCall(RengaSolutionSay_Private(
        answer, "kinds", "%s stay idle: no plan that was found with them is faster", idle));
  RengaCall(RengaSolutionSay_Private(
      answer, RENGA_PLAN_BOUND,
      "each layer is taken to be computed by the kind of devices that suits it best, in no more "
      "than the share of work that each device has where all work is shared out by speed"));
  return RENGA_SUCCESS;
}
