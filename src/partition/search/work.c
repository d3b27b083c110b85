/* A lower bound that holds for every plan, whatever the number of its stages for each rank, its
   replicas, its schedule, its memory and what it shares: the work alone.

   Each micro-batch goes through all nodes, forward and backward, on some devices, and each
   parameter is updated by some device. Devices compute one thing at a time, and updates come behind
   the pipeline. So the busiest device computes no less than all work shared out evenly, and updates
   no less than that share of the parameters. Of a group each rank computes the nodes that are in no
   lane, and the average of them its share of the others. Copies that make parts of parameters are
   not run where no cut is in the way. Of devices of several kinds each has a weight, and all
   weights add up to one: the weighted average of their seconds is no more than those of the
   busiest, and no less than what each node takes where that counts least. Without tensor ranks no
   step is shorter than the longest path of one micro-batch either: a path of nodes goes through
   stages in their order, be they on other ranks or on the same again. Gradients of parameters lie
   on no path, since backwards may be in two parts. Messages, sums, waits and recomputation only add
   to it. */
#include "kinds.h"
#include "parts.h"
#include "solution.h"
#include "renga/private/graph.h"
#include <math.h>

/* Rounding adds up in other orders. */
static const double rounding = 1 - 1e-9;

/* Groups of the ranks that compute a replica of a stage. */
static double CountGroups(const SearchTask *task)
{
  return task->unit > 1
             ? task->ranks
             : fmax(1, floor((double)task->ranks / RengaSearchGroupOf_Private(task).size));
}

/* Each once. */
static double CountUpdated(const SearchChain *chain)
{
  double elements = chain->elements[chain->count];
  for (int t = 0; t < chain->n_ties; t++) elements -= chain->tie[t].elements;
  return fmax(0, elements);
}

/* Seconds of a micro-batch on a rank of a group, on the average. */
static double WorkOfRow(const SearchTask *task, const SearchChain *chain, const int parts[],
                        int row)
{
  const RengaLaneGroup group = RengaSearchGroupOf_Private(task);
  double seconds = task->accumulate_rate * chain->elements[chain->count] / group.size;
  for (int c = 0; c < chain->count; c++) {
    if (RengaSearchCutsIntoParts_Private(task->graph, chain->node[c], parts)) continue;
    const RengaProfileCost *cost = &task->costs[row][chain->node[c]];
    double share = 1;
    const int ranks =
        RengaLaneGroupHas_Private(&group, RengaGraphGetNode(task->graph, chain->node[c])->lane);
    for (int k = 0; k < RENGA_LANE_KINDS; k++)
      if (RengaLaneOfKind(ranks, (RengaLaneKind)k)) share /= group.ranks[k];
    seconds += share * (task->kinds ? RengaSearchEvenWork_Private(task->kinds, row, chain->node[c])
                                    : cost->forward + cost->backward);
  }
  return seconds;
}

/* parts: [values] of the plans that have most parameters in parts, and so copy least. */
void RengaSearchFindWork_Private(const SearchTask *task, SearchChain *chain, const int parts[])
{
  const double groups = CountGroups(task);
  const double update =
      task->update_rate * CountUpdated(chain) / (groups * RengaSearchGroupOf_Private(task).size);
  double least = HUGE_VAL;
  for (int row = 0; row < task->n_sizes; row++) {
    const double count = ceil((double)task->batch / (double)task->size[row]);
    least = fmin(least, count * WorkOfRow(task, chain, parts, row) / groups);
  }
  chain->least = least + update;
}

/* Of one micro-batch, the shortest of all sizes. */
static RengaErrorCode FindPath(const Solution *solution, double *seconds)
{
  SearchTask task = *solution->task;
  *seconds = HUGE_VAL;
  task.memory = 0;
  for (int row = 0; row < task.n_sizes; row++) {
    SearchModel model;
    RengaCall(RengaSearchModelOf_Private(&task, solution->chain, row, false, &model));
    const double whole = model.paths.longest - model.weight[model.count];
    *seconds = fmin(*seconds, model.halves.open ? model.halves.longest : fmax(0, whole));
    RengaSearchModelFree_Private(&model);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionBoundByWork_Private(const Solution *solution, double *bound)
{
  const SearchTask *task = solution->task;
  double path = 0;
  if (RengaSearchGroupOf_Private(task).size == 1) RengaCall(FindPath(solution, &path));
  *bound = rounding * fmax(solution->chain->least, path);
  if (*bound > solution->step) *bound = solution->step;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainWork_Private(const Solution *solution, double bound,
                                                SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  const RengaLaneGroup group = RengaSearchGroupOf_Private(task);
  char ranks[96] = "", sizes[128] = "";
  RengaSearchNameNumbers_Private(task->n_sizes, task->size, sizeof sizes, sizes);
  if (group.size > 1)
    snprintf(ranks, sizeof ranks, " with %d %s ranks for each replica", group.size,
             RengaSearchKindOfRanks_Private(task));
  RengaCall(RengaSolutionSay_Private(
      answer, RENGA_PLAN_BOUND,
      "of all plans%s on so many devices in micro-batches of %s, with any number of virtual stages "
      "per rank, any replicas, schedule and memory: none takes less than %.4g s, %s",
      ranks, sizes, bound,
      solution->chain->least >= bound ? "all work split evenly, with no waiting, message or sum"
                                      : "the way of one micro-batch through all stages and back"));
  return RENGA_SUCCESS;
}
