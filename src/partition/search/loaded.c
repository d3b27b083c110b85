/* A plan that is there already, as of a file: what a step of it takes and needs is worked out as if
   the searches had found it. */
#include "kept.h"
#include "kinds.h"
#include "solution.h"
#include "renga/private/plan.h"
#include "rengaschedule.h"
#include <math.h>
#include <string.h>

/* First place at or after the node. */
static int PlaceAfter(const SearchModel *model, int node)
{
  int place = 0;
  while (place < model->count && model->node[place] < node) place++;
  return place;
}

RengaErrorCode RengaSearchTakeSchedule_Private(RengaPlan plan, SearchTask *task)
{
  const char *type;
  if (!task->any_schedule) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaSearchCheckSchedule_Private(type));
  double eager = 0;
  RengaCall(RengaPlanGetEager(plan, &eager));
  task->schedule = RengaSearchScheduleNamed_Private(type, eager);
  return RENGA_SUCCESS;
}

/* The layout lies where the plan does, unless some of its replicas stay idle or ranks have several
   stages. */
static RengaErrorCode TakePlanRanks(RengaPlan plan, SearchLayout *layout)
{
  const int n = RengaSearchDevices_Private(layout);
  if (layout->chunks > 1) return RENGA_SUCCESS;
  for (int s = 0; s < layout->count; s++)
    if (RengaPlanGetStage(plan, s)->shape.replicas != layout->stage[s].shape.replicas)
      return RENGA_SUCCESS;
  RengaCall(RengaMalloc(n, &layout->rank));
  layout->n_ranks = n;
  for (int s = 0, place = 0; s < layout->count; s++) {
    RengaSearchListRanks_Private(plan, s, layout->rank + place);
    place += RengaSearchShapeDevices_Private(&layout->stage[s].shape);
  }
  return RENGA_SUCCESS;
}

/* Options are all numbers of replicas that have work; others of the plan stay idle. */
static RengaErrorCode FillLayout(RengaPlan plan, const SearchModel *model, SearchLayout *layout)
{
  const int count = RengaPlanGetStageCount(plan);
  const int working = model->candidate[model->n_candidates - 1].shape.replicas;
  RengaCall(RengaMalloc(count, &layout->stage));
  layout->count = count;
  layout->chunks = RengaPlanGetStage(plan, 0)->shape.chunks;
  const int across = RengaSearchAcross_Private(layout);
  layout->wave = layout->chunks > 1 && across > 1 && RengaPlanGetFirstStage(plan, across) != 0;
  for (int s = 0; s < count; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    const int most = working < stage->shape.replicas ? working : stage->shape.replicas;
    layout->stage[s] = (SearchStage){.begin = s ? PlaceAfter(model, stage->first) : 0,
                                     .end = PlaceAfter(model, stage->last),
                                     .shape = stage->shape};
    layout->stage[s].shape.replicas = most;
  }
  RengaSearchEvaluate_Private(model, layout);
  for (int s = 0; s < count; s++)
    layout->stage[s].shape.saved = RengaPlanGetStage(plan, s)->shape.saved;
  RengaCall(TakePlanRanks(plan, layout));
  return RENGA_SUCCESS;
}

/* What its stages keep, and make again, at the layout's micro-batch. */
static RengaErrorCode TakePlanKept(const SearchTask *task, const SearchChain *chain,
                                   const SearchModel *model, SearchLayout *layout)
{
  const RengaProfileCost *costs = task->costs[RengaSearchRowOf_Private(task, layout)];
  for (int s = 0; s < layout->count; s++)
    RengaCall(RengaSearchTakeKept_Private(chain, costs, model, task->given, s, &layout->stage[s]));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyPlanStages(RengaGraph graph, RengaPlan from, RengaPlan to)
{
  const int count = RengaPlanGetStageCount(from);
  RengaPlanStage *stage = NULL;
  int *rank = NULL, n = 0, places = 0;
  RengaErrorCode code = RengaMalloc(count, &stage);
  for (int s = 0; s < count; s++)
    places += RengaSearchShapeDevices_Private(&RengaPlanGetStage(from, s)->shape);
  if (!code) code = RengaMalloc(places, &rank);
  for (int s = 0; s < count && !code; s++) {
    const RengaPlanStage *own = RengaPlanGetStage(from, s);
    stage[s] = (RengaPlanStage){.first = own->first, .last = own->last, .shape = own->shape};
    RengaSearchListRanks_Private(from, s, rank + n);
    n += RengaSearchShapeDevices_Private(&own->shape);
  }
  if (!code) code = RengaPlanSetStages(to, graph, count, stage);
  for (int s = 0; s < count && !code; s++) {
    const char *const *name;
    int kept;
    code = RengaPlanGetKept(from, s, &kept, &name);
    if (!code && kept) code = RengaPlanSetKept(to, s, kept, name);
  }
  if (!code) code = RengaPlanSetRanks(to, rank);
  RengaFree(&stage);
  RengaFree(&rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCopyPlan_Private(RengaGraph graph, RengaPlan from, RengaPlan to)
{
  const char *schedule;
  double eager = 0;
  int64_t batch, microbatch;
  RengaCall(CopyPlanStages(graph, from, to));
  RengaCall(RengaPlanGetBatch(from, &batch, &microbatch));
  RengaCall(RengaPlanSetBatch(to, batch, microbatch));
  RengaCall(RengaPlanSetLeaf(to, RengaPlanGetLeaf(from)));
  RengaCall(RengaPlanGetSchedule(from, &schedule));
  RengaCall(RengaPlanGetEager(from, &eager));
  RengaCall(RengaPlanSetSchedule(to, schedule));
  if (schedule && eager > 0) RengaCall(RengaPlanSetEager(to, eager));
  return RENGA_SUCCESS;
}

/* Schedules may go by them. */
static void SetStageSeconds(Solution *solution)
{
  const SearchLayout *layout = &solution->layout;
  for (int s = 0; s < layout->count; s++) {
    const SearchCost cost =
        RengaSearchCostOf_Private(&solution->model, &layout->stage[s], layout->count - s);
    RengaPlanSetSeconds_Private(solution->plan, s, cost.forward, cost.backward);
  }
}

/* solution->task has the plan's own micro-batch and leaf as its first row. */
RengaErrorCode RengaSolutionTake_Private(Solution *solution)
{
  SearchTask task = *solution->task;
  SearchLayout *layout = &solution->layout;
  RengaPlanPrediction prediction;
  task.memory = 0; /* what recomputes is decided */
  task.wanted.every = true;
  RengaCall(RengaSearchTakeSchedule_Private(task.given, &task));
  RengaCall(RengaSearchModelOf_Private(&task, solution->chain, 0, false, &solution->model));
  RengaCall(FillLayout(task.given, &solution->model, layout));
  layout->schedule = task.schedule;
  RengaCall(TakePlanKept(&task, solution->chain, &solution->model, layout));
  RengaCall(RengaPlanCreate(task.self, &solution->plan));
  RengaCall(RengaSearchCopyPlan_Private(task.graph, task.given, solution->plan));
  RengaCall(RengaSearchSetSchedule_Private(&task.schedule, solution->plan));
  RengaSearchTakeKinds_Private(&solution->model, solution->plan, layout);
  SetStageSeconds(solution);
  RengaCall(RengaMalloc(layout->count, &solution->memory));
  RengaCall(RengaSearchMemory_Private(&task, &solution->model, layout, solution->plan,
                                      solution->memory, &solution->most));
  if (task.spares) RengaCall(RengaSolutionSpare_Private(solution));
  RengaSearchTakeExchanges_Private(solution->memory, layout);
  RengaCall(RengaSearchPredict_Private(&task, &solution->model, layout, NULL, solution->plan,
                                       &prediction));
  solution->step = prediction.step;
  solution->pipeline = prediction.pipeline;
  return RENGA_SUCCESS;
}
