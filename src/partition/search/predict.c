/* A layout as a plan: which ranks it takes, what a step takes on the links between them, and what
   the runtime says of its memory. */
#include "search.h"
#include "rengaschedule.h"
#include <math.h>

enum { PAIRS_LOOKED_AT = 64 };
static const double actions_most = 2e6; /* simulated */

/* Stage after stage; spread: replica after replica, each with all its stages side by side. */
static void PlaceRanks(const SearchModel *model, const SearchCandidate *candidate, int ranks[])
{
  const SearchLayout *layout = &candidate->layout;
  for (int s = 0, n = 0; s < layout->count; s++) {
    const int replicas = model->option[layout->stage[s].option].replicas;
    for (int r = 0; r < replicas; r++, n++)
      ranks[n] = candidate->spread ? r * layout->count + s : n;
  }
}

static RengaErrorCode FillPlan(const SearchTask *task, const SearchChain *chain,
                               const SearchModel *model, const SearchCandidate *candidate,
                               RengaPlanStage stages[], int ranks[], RengaPlan plan)
{
  const SearchLayout *layout = &candidate->layout;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    stages[s] =
        (RengaPlanStage){.first = s ? chain->node[stage->begin] : 0,
                         .last = s + 1 < layout->count ? chain->node[stage->end]
                                                       : RengaGraphGetNodeCount(task->graph),
                         .replicas = model->option[stage->option].replicas,
                         .recompute = stage->recompute};
  }
  PlaceRanks(model, candidate, ranks);
  RengaCall(RengaPlanSetStages(plan, task->graph, layout->count, stages));
  RengaCall(RengaPlanSetRanks(plan, ranks));
  RengaCall(RengaPlanSetBatch(plan, task->batch, task->size[candidate->size]));
  RengaCall(RengaPlanSetLeaf(plan, task->leaf[candidate->size]));
  RengaCall(RengaPlanSetSchedule(plan, task->gpipe ? RENGA_SCHEDULE_GPIPE : RENGA_SCHEDULE_1F1B));
  RengaCall(RengaPlanSetEager(plan, task->eager));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPlan_Private(const SearchTask *task, const SearchChain *chain,
                                       const SearchModel *model, const SearchCandidate *candidate,
                                       RengaPlan *plan)
{
  RengaPlanStage *stages = NULL;
  int *ranks = NULL;
  RengaPlan made = NULL;
  RengaCall(RengaPlanCreate(task->self, &made));
  RengaErrorCode code = RengaMalloc(candidate->layout.count, &stages);
  if (!code) code = RengaMalloc(RengaSearchDevices_Private(model, &candidate->layout), &ranks);
  if (!code) code = FillPlan(task, chain, model, candidate, stages, ranks, made);
  RengaFree(&stages);
  RengaFree(&ranks);
  if (code) RengaPlanDestroy(&made);
  RengaCall(code);
  *plan = made;
  return RENGA_SUCCESS;
}

/* The widest level between replicas of two stages that work on the same micro-batch. */
static int LevelBetween(RengaMachine machine, RengaPlan plan, int a, int b)
{
  const int m = RengaPlanGetStage(plan, a)->replicas, n = RengaPlanGetStage(plan, b)->replicas;
  const int pairs = m > n ? m : n, step = pairs > PAIRS_LOOKED_AT ? pairs / PAIRS_LOOKED_AT : 1;
  int widest = 0;
  for (int i = 0; i < pairs; i += step) {
    const int from = RengaPlanGetRank(plan, a, (int)((int64_t)i * m / pairs));
    const int to = RengaPlanGetRank(plan, b, (int)((int64_t)i * n / pairs));
    const int level = RengaMachineLevelOf(machine, from, to);
    if (level > widest) widest = level;
  }
  return widest;
}

static int LevelOfStage(RengaMachine machine, RengaPlan plan, int s)
{
  const int last = RengaPlanGetStage(plan, s)->replicas - 1;
  return RengaMachineLevelOf(machine, RengaPlanGetRank(plan, s, 0),
                             RengaPlanGetRank(plan, s, last));
}

/* Replicas of equal stages go their own ways until their gradients are summed: the one with the
   most micro-batches stands for all. */
static int64_t LaneOf(const SearchModel *model, const SearchLayout *layout)
{
  return RengaSearchIsEqual_Private(layout) ? model->option[layout->stage[0].option].rounds
                                            : model->microbatches;
}

bool RengaSearchMaySimulate_Private(const SearchModel *model, const SearchLayout *layout,
                                    int n_messages)
{
  return (double)LaneOf(model, layout) * (2.0 * layout->count + 2.0 * n_messages) <= actions_most;
}

static RengaErrorCode SetShape(const SearchModel *model, const SearchLayout *layout, int n_messages,
                               const RengaMessage messages[], RengaPlan plan,
                               RengaSchedule schedule)
{
  if (!RengaSearchIsEqual_Private(layout)) {
    RengaCall(
        RengaScheduleSetPlan(schedule, plan, model->microbatches, n_messages, messages, false));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaScheduleSetShape(schedule, layout->count, NULL, LaneOf(model, layout), n_messages,
                                  messages, false));
  for (int s = 0; s < layout->count; s++)
    RengaCall(RengaScheduleSetRecompute(schedule, s, layout->stage[s].recompute));
  return RENGA_SUCCESS;
}

static RengaErrorCode Simulate(const SearchModel *model, const SearchLayout *layout,
                               RengaSchedule schedule, const double seconds[], double *makespan,
                               double *bubble)
{
  double *forward = NULL;
  RengaCall(RengaMalloc(2 * layout->count, &forward));
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    SearchCost cost = {0};
    RengaSearchStageCost_Private(model, &model->option[stage->option], stage->begin, stage->end,
                                 layout->count - s, &cost);
    forward[s] = cost.forward;
    forward[layout->count + s] = cost.backward - cost.extra;
  }
  RengaErrorCode code =
      RengaScheduleSimulate(schedule, forward, forward + layout->count, seconds, makespan, bubble);
  RengaFree(&forward);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSchedule(const SearchTask *task, const SearchModel *model,
                                  const SearchLayout *layout, int n_messages,
                                  const RengaMessage messages[], const double seconds[],
                                  RengaPlan plan, double *makespan, double *bubble)
{
  RengaSchedule schedule = NULL;
  const char *type;
  double eager = 0;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaPlanGetEager(plan, &eager));
  RengaCall(RengaScheduleCreate(task->self, &schedule));
  RengaErrorCode code = RengaScheduleSetType(schedule, type);
  if (!code && eager > 0) code = RengaScheduleSetEager(schedule, eager);
  if (!code) code = SetShape(model, layout, n_messages, messages, plan, schedule);
  if (!code) code = RengaScheduleSetUp(schedule);
  if (!code) code = Simulate(model, layout, schedule, seconds, makespan, bubble);
  RengaScheduleDestroy(&schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Seconds of the pipeline, by simulation or, where that takes long, by the model. */
static RengaErrorCode PredictPipeline(const SearchTask *task, const SearchModel *model,
                                      const SearchLayout *layout, RengaPlan plan,
                                      RengaPlanPrediction *prediction)
{
  RengaMessage *messages = NULL;
  double *seconds = NULL;
  int n = 0;
  prediction->pipeline = layout->fill + layout->rounds;
  if (!RengaSearchMaySimulate_Private(model, layout, 0)) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetMessages(plan, task->graph, &n, &messages));
  RengaErrorCode code = RengaMalloc(n + 1, &seconds);
  for (int i = 0; i < n && !code && task->machine; i++)
    seconds[i] = RengaMachineMessageSeconds(
        task->machine, LevelBetween(task->machine, plan, messages[i].from, messages[i].to),
        (double)messages[i].bytes);
  if (!code && RengaSearchMaySimulate_Private(model, layout, n))
    code = RunSchedule(task, model, layout, n, messages, seconds, plan, &prediction->pipeline,
                       &prediction->bubble);
  RengaFree(&seconds);
  RengaFree(&messages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* No schedule takes less: a stage does all its work after the first forwards of those before it and
   before their last backwards. */
double RengaSearchLeastPipeline_Private(const SearchModel *model, const SearchLayout *layout)
{
  double lead = 0, least = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchOption *option = &model->option[stage->option];
    SearchCost cost = {0};
    RengaSearchStageCost_Private(model, option, stage->begin, stage->end, layout->count - s, &cost);
    least = fmax(least, lead + (double)option->rounds * (cost.forward + cost.backward));
    lead += cost.forward + cost.backward - cost.extra;
  }
  return least;
}

static double BusyShare(const SearchModel *model, const SearchLayout *layout, double pipeline)
{
  double busy = 0, devices = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchOption *option = &model->option[stage->option];
    SearchCost cost = {0};
    RengaSearchStageCost_Private(model, option, stage->begin, stage->end, layout->count - s, &cost);
    busy += (double)model->microbatches *
            (cost.forward + RengaSearchBackward_Private(&cost, stage->recompute));
    devices += option->replicas;
  }
  return pipeline > 0 ? fmin(1, busy / (devices * pipeline)) : 1;
}

static double PredictReduce(const SearchTask *task, const SearchModel *model,
                            const SearchLayout *layout, RengaPlan plan)
{
  double most = 0;
  for (int s = 0; s < layout->count && task->machine; s++) {
    const SearchStage *stage = &layout->stage[s];
    const int replicas = model->option[stage->option].replicas;
    const double elements = model->elements[stage->end] - model->elements[stage->begin];
    if (replicas == 1) continue;
    const double seconds =
        RengaMachineReduceSeconds(task->machine, LevelOfStage(task->machine, plan, s), replicas,
                                  elements * (double)sizeof(float));
    most = fmax(most, seconds - model->backward[stage->begin]);
  }
  return most;
}

RengaErrorCode RengaSearchPredict_Private(const SearchTask *task, const SearchModel *model,
                                          const SearchCandidate *candidate, RengaPlan plan,
                                          RengaPlanPrediction *prediction)
{
  const SearchLayout *layout = &candidate->layout;
  *prediction = (RengaPlanPrediction){.update = layout->update};
  RengaCall(PredictPipeline(task, model, layout, plan, prediction));
  prediction->bubble = 1 - BusyShare(model, layout, prediction->pipeline);
  prediction->reduce = PredictReduce(task, model, layout, plan);
  prediction->step = prediction->pipeline + prediction->reduce + prediction->update;
  prediction->bound = candidate->bound;
  return RENGA_SUCCESS;
}

/* Micro-batches that a stage holds under 1F1B: as many as stages from it to the last; between
   stages of different replicas what the schedule says, which is more. */
static RengaErrorCode FindDepths(const SearchTask *task, const SearchModel *model,
                                 const SearchLayout *layout, RengaPlan plan, int64_t depth[])
{
  RengaSchedule schedule = NULL;
  const char *type;
  for (int s = 0; s < layout->count; s++) depth[s] = layout->count - s;
  if (RengaSearchIsEqual_Private(layout)) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaScheduleCreate(task->self, &schedule));
  RengaErrorCode code = RengaScheduleSetType(schedule, type);
  if (!code) code = RengaScheduleSetPlan(schedule, plan, model->microbatches, 0, NULL, false);
  for (int s = 0; s < layout->count && !code; s++)
    code = RengaScheduleGetInFlight(schedule, s, &depth[s]);
  RengaScheduleDestroy(&schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchMemory_Private(const SearchTask *task, const SearchModel *model,
                                         const SearchCandidate *candidate, RengaPlan plan,
                                         RengaForecastMemory memory[], double *most)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  const SearchLayout *layout = &candidate->layout;
  double *estimate = NULL;
  int64_t *depth = NULL;
  RengaErrorCode code = RengaMalloc(layout->count, &estimate);
  if (!code) code = RengaMalloc(layout->count, &depth);
  if (!code) code = FindDepths(task, model, layout, plan, depth);
  *most = 0;
  for (int s = 0; s < layout->count && !code; s++) {
    const SearchStage *stage = &layout->stage[s];
    estimate[s] = RengaSearchStageBytes_Private(model, &model->option[stage->option], stage->begin,
                                                stage->end, (int)depth[s], stage->recompute);
  }
  for (int s = 0; s < layout->count && !code; s++)
    memory[s] = (RengaForecastMemory){.total = (int64_t)estimate[s]};
  if (!code && forecast && task->session)
    code = forecast->stages(task->graph, plan, task->settings, task->session, memory);
  for (int s = 0; s < layout->count && !code; s++) {
    *most = fmax(*most, (double)memory[s].total);
  }
  RengaFree(&depth);
  RengaFree(&estimate);
  RengaCall(code);
  return RENGA_SUCCESS;
}
