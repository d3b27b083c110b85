/* Layouts on devices of several kinds: stages lie on each order of kinds, and on some of them. The
   first places of the chain have the seconds of the first kind, as many as make the work of all
   devices even, and so on: so the searches, which know one array of seconds, find layouts. Beside
   them stages of each shape are cut where the busiest has least to do on its own kind. */
#include "kinds.h"
#include <float.h>
#include <math.h>

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
      work += RengaSearchSecondsOf(&kinds->costs[order->kind[i]][row][n]);
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
      most = fmax(most, RengaSearchSecondsOf(&kinds->costs[order->kind[i]][row][chain->node[c]]));
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
  const int same = RengaSearchFirstRow(kinds, row);
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
  bool cut = CutWithin(model, candidate, DBL_MAX, layout);
  while (cut && high < DBL_MAX / 4 && !CutWithin(model, candidate, high, layout)) high *= 4;
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
        layout->rank[n] =
            RengaSearchDeviceAt_Private(order, layout->spread ? r * across + before + t : n);
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
  const int row = RengaSearchRowOfCosts_Private(kinds, task->costs[size]);
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
