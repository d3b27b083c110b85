/* Devices of several kinds, as the search sees them (kinds.c). */
#pragma once
#include "solution.h"

enum { SEARCH_KINDS_MOST = RENGA_MACHINE_KINDS_MOST };

/* Kinds that stages lie on one after the other, and devices: of kind[i] those up to end[i]. */
typedef struct SearchOrder {
  int count, n_devices;
  int kind[SEARCH_KINDS_MOST], end[SEARCH_KINDS_MOST];
  int *device; /* [n_devices] */
} SearchOrder;

/* Costs that an order is searched with. */
typedef struct {
  int row;
  const SearchOrder *order;
  RengaProfileCost *costs; /* [nodes] */
} SearchMixed;

typedef struct SearchKinds {
  int count;
  int begin[SEARCH_KINDS_MOST + 1]; /* the first device of each, and all */
  char name[SEARCH_KINDS_MOST][64];
  double memory[SEARCH_KINDS_MOST]; /* bytes of a device; 0: no bound */
  double hidden[SEARCH_KINDS_MOST]; /* bytes of a device that the one with most has more */
  double weight[SEARCH_KINDS_MOST]; /* of a device's seconds in a bound, times all devices */
  double update_rate[SEARCH_KINDS_MOST], accumulate_rate[SEARCH_KINDS_MOST];
  int n_rows;
  RengaProfileCost **base;                     /* [n_rows] those of the task, lent */
  RengaProfileCost **costs[SEARCH_KINDS_MOST]; /* [n_rows][nodes] */
  int n_orders, n_mixed;
  SearchOrder *order;
  SearchMixed *mixed;
} SearchKinds;

/* Of a model. */
struct SearchKindModels {
  const SearchKinds *of;
  const SearchOrder *order;
  SearchModel *model; /* [kinds] for their arrays */
};

/* For devices [begin[k], begin[k + 1]) of each kind, with the task's rows; without costs. What was
   made is there to be freed after an error too. */
RengaErrorCode RengaSearchKindsCreate_Private(const SearchTask *task, int count, const int begin[],
                                              SearchKinds **kinds);
void RengaSearchKindsFree_Private(SearchKinds **kinds);
/* Costs of the task become the least of all kinds. */
void RengaSearchKindsLeast_Private(const SearchTask *task, SearchKinds *kinds);
/* Of all work shared out evenly what counts for a node, times all devices (work.c). */
double RengaSearchEvenWork_Private(const SearchKinds *kinds, int row, int node);
/* Costs of the task were changed, from those before: those of kinds are changed alike, and these
   are those before from now on. */
void RengaSearchKindsFollow_Private(const SearchTask *task, RengaProfileCost **before);
/* "A100 (40.0 GiB) and V100 (16.0 GiB)" */
void RengaSearchNameKinds_Private(const SearchKinds *kinds, unsigned mask, size_t size,
                                  char text[]);
/* Seconds of a node, forward and backward. */
static inline double RengaSearchSecondsOf(const RengaProfileCost *cost)
{
  return cost->forward + cost->backward;
}
/* The first row with the same costs. */
static inline int RengaSearchFirstRow(const SearchKinds *kinds, int row)
{
  int first = 0;
  while (kinds->base[first] != kinds->base[row]) first++;
  return first;
}
/* Of a device. */
int RengaSearchKindOf_Private(const SearchKinds *kinds, int device);
/* model.c: costs of a stage on the kinds that it lies on, under the first policy of saved tensors
   that fits on all of them; false: none does. */
bool RengaSearchStageOn_Private(const SearchModel *model, const SearchStage *stage,
                                const SearchCandidate *candidate, int depth, SearchCost *cost);
/* The model of one kind, with the arrays of both: for costs alone. */
SearchModel RengaSearchModelOfKind_Private(const SearchModel *model, int kind);
/* Bytes that devices of some kinds have less than those with most, where each kind has its own. */
double RengaSearchHidden_Private(const struct SearchKindModels *kinds, unsigned mask);
/* Stages lie on the kinds of the layout's ranks. */
void RengaSearchFindKinds_Private(const SearchModel *model, SearchLayout *layout);
/* The row of the kinds that costs are of; -1: none, as of bounds. */
int RengaSearchRowOfCosts_Private(const SearchKinds *kinds, const RengaProfileCost *costs);
/* The device of a place of stages in an order. */
int RengaSearchDeviceAt_Private(const SearchOrder *order, int place);
/* orders.c: layouts on kinds in each order, and on some; *best is replaced by what is better. */
RengaErrorCode RengaSearchKindLayouts_Private(const SearchTask *task, const SearchChain *chain,
                                              int size, bool spread, SearchLayout *best);
/* model.c: as RengaSearchEvaluate_Private(), of stages with kinds, whatever memory there is. */
void RengaSearchSumStages_Private(const SearchModel *model, SearchLayout *layout);
void RengaSearchTakeKinds_Private(const SearchModel *model, RengaPlan plan, SearchLayout *layout);
/* explain.c: which stages lie on which kinds, and who waits. */
RengaErrorCode RengaSolutionExplainKinds_Private(const Solution *solution, SearchAnswer *answer);
