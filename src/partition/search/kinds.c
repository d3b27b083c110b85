/* Devices of several kinds. Sums of a model are the least of all kinds, place by place, so that
   every bound holds wherever stages lie; costs of a stage are those of the slowest kind that it
   lies on, and a kind with less memory than others takes that much more for granted. */
#include "kinds.h"
#include "renga/private/plan.h"
#include <math.h>
#include <string.h>

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

/* The row of costs; -1: it is none of the kinds', as of bounds. */
int RengaSearchRowOfCosts_Private(const SearchKinds *kinds, const RengaProfileCost *costs)
{
  for (int row = 0; row < kinds->n_rows; row++)
    if (kinds->base[row] == costs) return row;
  for (int m = 0; m < kinds->n_mixed; m++)
    if (kinds->mixed[m].costs == costs) return kinds->mixed[m].row;
  return -1;
}

/* Of a layout without ranks of its own: stage after stage, or replica after replica. */
int RengaSearchDeviceAt_Private(const SearchOrder *order, int place)
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
        const int device = layout->rank ? layout->rank[n]
                                        : RengaSearchDeviceAt_Private(model->kinds->order, place);
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

/* ---- life ---- */

/* Whole groups of so many ranks, which lie in one node where nodes have so many devices. */
static RengaErrorCode AddKindOrder(const SearchTask *task, SearchKinds *kinds, int count,
                                   const int kind[])
{
  enum { ORDERS_FIRST = 16 };
  const int unit = task->unit > 1 ? task->unit : 1;
  int64_t node = 0;
  RengaCall(RengaMachineGetDevicesPerNode(task->machine, &node));
  if (kinds->n_orders % ORDERS_FIRST == 0)
    RengaCall(RengaRealloc(kinds->n_orders + ORDERS_FIRST, &kinds->order));
  SearchOrder *order = &kinds->order[kinds->n_orders];
  *order = (SearchOrder){.count = count};
  memcpy(order->kind, kind, (size_t)count * sizeof *kind);
  RengaCall(RengaMalloc(kinds->begin[kinds->count] + 1, &order->device));
  kinds->n_orders++;
  for (int i = 0; i < count; i++) {
    const int begin = kinds->begin[kind[i]], end = kinds->begin[kind[i] + 1];
    for (int d = begin; d + unit <= end;) {
      const bool whole =
          unit > node || RengaMachineNodeOf_Private(task->machine, d, NULL) ==
                             RengaMachineNodeOf_Private(task->machine, d + unit - 1, NULL);
      for (int t = 0; whole && t < unit; t++) order->device[order->n_devices++] = d + t;
      d += whole ? unit : 1;
    }
    order->end[i] = order->n_devices;
  }
  return RENGA_SUCCESS;
}

/* All that go on from the first `count` of kind[], which are in order. */
static RengaErrorCode AddOrdersFrom(const SearchTask *task, SearchKinds *kinds, int count,
                                    int kind[])
{
  if (count) RengaCall(AddKindOrder(task, kinds, count, kind));
  for (int k = 0; k < kinds->count; k++) {
    bool there = false;
    for (int i = 0; i < count; i++) there = there || kind[i] == k;
    kind[count] = k;
    if (!there) RengaCall(AddOrdersFrom(task, kinds, count + 1, kind));
  }
  return RENGA_SUCCESS;
}

/* Of few kinds all orders of all of them and of some; of more the file's, the other way round, and
   each kind alone. */
static RengaErrorCode FindOrders(const SearchTask *task, SearchKinds *kinds)
{
  enum { KINDS_FEW = 3 };
  int kind[SEARCH_KINDS_MOST + 1];
  if (kinds->count <= KINDS_FEW) {
    RengaCall(AddOrdersFrom(task, kinds, 0, kind));
    return RENGA_SUCCESS;
  }
  for (int back = 0; back < 2; back++) {
    for (int k = 0; k < kinds->count; k++) kind[k] = back ? kinds->count - 1 - k : k;
    RengaCall(AddKindOrder(task, kinds, kinds->count, kind));
  }
  for (int k = 0; k < kinds->count; k++) RengaCall(AddKindOrder(task, kinds, 1, &k));
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
      const int same = RengaSearchFirstRow(made, row);
      made->costs[k][row] = made->costs[k][same];
      if (same == row)
        RengaCall(RengaMalloc(RengaGraphGetNodeCount(task->graph) + 1, &made->costs[k][row]));
    }
  }
  RengaCall(FindOrders(task, made));
  return RENGA_SUCCESS;
}

void RengaSearchKindsFree_Private(SearchKinds **kinds)
{
  SearchKinds *own = *kinds;
  if (!own) return;
  for (int k = 0; k < own->count; k++) {
    for (int row = own->n_rows - 1; own->costs[k] && row >= 0; row--) {
      const int same = RengaSearchFirstRow(own, row);
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

/* The faster a kind is the more a second of it counts. */
static void WeighKinds(const SearchTask *task, SearchKinds *kinds)
{
  double sum = 0;
  for (int k = 0; k < kinds->count; k++) {
    double seconds = 0;
    for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++)
      seconds += RengaSearchSecondsOf(&kinds->costs[k][0][n]);
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
    least = fmin(least, kinds->weight[k] * RengaSearchSecondsOf(&kinds->costs[k][row][node]));
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
    const int same = RengaSearchFirstRow(kinds, row);
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

void RengaSearchNameKinds_Private(const SearchKinds *kinds, unsigned mask, size_t size, char text[])
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
