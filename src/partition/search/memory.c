/* What stages hold: micro-batches, by their schedule, and bytes, by the runtime's forecast. */
#include "event.h"
#include "kinds.h"
#include "search.h"
#include "renga/private/schedule.h"
#include "rengaschedule.h"
#include <math.h>

/* Their lists say what stages hold. */
static RengaErrorCode SetUpHalves(const SearchModel *model, const SearchLayout *layout,
                                  RengaPlan plan, RengaSchedule schedule)
{
  RengaCall(RengaSearchSetShape_Private(model, layout, 0, NULL, plan, schedule));
  RengaCall(RengaScheduleSetUpKnown_Private(schedule));
  return RENGA_SUCCESS;
}

/* Micro-batches that a stage holds under 1F1B: as many as stages from it to the last; between
   stages of different replicas, and under other types, what the schedule says. */
static RengaErrorCode FindDepths(const SearchTask *task, const SearchModel *model,
                                 const SearchLayout *layout, RengaPlan plan, int64_t depth[])
{
  RengaSchedule schedule = NULL;
  const char *type;
  double eager = 0;
  for (int s = 0; s < layout->count; s++) depth[s] = layout->count - s;
  if (RengaSearchIsEqual_Private(layout) && !layout->schedule.type) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaPlanGetEager(plan, &eager));
  RengaCall(RengaScheduleCreate(task->self, &schedule));
  RengaErrorCode code = RengaScheduleSetType(schedule, type);
  if (!code && eager > 0) code = RengaScheduleSetEager(schedule, eager);
  if (!code && !RengaSearchIsHalved_Private(&layout->schedule))
    code = RengaScheduleSetPlan(schedule, plan, model->microbatches, 0, NULL, false);
  else if (!code)
    code = SetUpHalves(model, layout, plan, schedule);
  for (int s = 0; s < layout->count && !code; s++)
    code = RengaScheduleGetInFlight(schedule, s, &depth[s]);
  RengaScheduleDestroy(&schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchFindSlots_Private(const SearchTask *task, const SearchModel *model,
                                            const SearchLayout *layout, RengaPlan plan,
                                            int64_t slots[])
{
  RengaCall(FindDepths(task, model, layout, plan, slots));
  if (!RengaSearchIsEqual_Private(layout) || layout->schedule.type) return RENGA_SUCCESS;
  for (int s = 0; s < layout->count; s++) {
    const SearchCandidate candidate =
        RengaSearchCandidateOf_Private(model, &layout->stage[s].shape);
    slots[s] = (int64_t)RengaSearchSlots_Private(model, &candidate, (int)slots[s]);
  }
  return RENGA_SUCCESS;
}

/* A stage on devices with less memory than others is taken to need so much more. */
static RengaErrorCode HideMemory(const SearchModel *model, RengaPlan plan, int count,
                                 RengaForecastMemory memory[])
{
  SearchStage *stage = NULL;
  RengaCall(RengaMalloc(count, &stage));
  SearchLayout layout = {.count = count, .stage = stage};
  RengaSearchTakeKinds_Private(model, plan, &layout);
  for (int s = 0; s < count; s++)
    memory[s].total += (int64_t)RengaSearchHidden_Private(model->kinds, stage[s].kinds);
  RengaFree(&stage);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchMemory_Private(const SearchTask *task, const SearchModel *model,
                                         const SearchLayout *layout, RengaPlan plan,
                                         RengaForecastMemory memory[], double *most)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  double *estimate = NULL;
  int64_t *depth = NULL;
  RengaErrorCode code = RengaMalloc(layout->count, &estimate);
  if (!code) code = RengaMalloc(layout->count, &depth);
  if (!code) code = FindDepths(task, model, layout, plan, depth);
  *most = 0;
  for (int s = 0; s < layout->count && !code; s++) {
    const SearchStage *stage = &layout->stage[s];
    estimate[s] = RengaSearchCostOf_Private(model, stage, (int)depth[s]).memory;
  }
  for (int s = 0; s < layout->count && !code; s++)
    memory[s] = (RengaForecastMemory){.total = (int64_t)estimate[s]};
  if (!code && forecast && task->session) {
    task->session->asked += model->count;
    RengaLogEventBegin(RengaSearchEvent_Private(SEARCH_EVENT_MEMORY));
    code = forecast->stages(task->graph, plan, &task->run, &task->session->forecasts, memory);
    RengaLogEventEnd(RengaSearchEvent_Private(SEARCH_EVENT_MEMORY), 0, 0, 0);
  }
  if (!code && model->kinds) code = HideMemory(model, plan, layout->count, memory);
  for (int first = 0; first < RengaSearchAcross_Private(layout) && !code; first++) {
    double sum = 0;
    for (int s = first; s < layout->count; s++)
      if (RengaPlanGetFirstStage(plan, s) == first) sum += (double)memory[s].total;
    *most = fmax(*most, sum);
  }
  RengaFree(&depth);
  RengaFree(&estimate);
  RengaCall(code);
  return RENGA_SUCCESS;
}
