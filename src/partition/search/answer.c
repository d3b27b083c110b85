/* What was found as the answer: stages with their seconds and bytes, prediction, reasons. */
#include "solution.h"

static void TakeMemory(const RengaForecastMemory *memory, RengaPlanStage *stage)
{
  stage->memory = memory->total;
  stage->parts = (RengaPlanMemory){.parameters = memory->parameters,
                                   .gradients = memory->gradients,
                                   .optimizer = memory->optimizer,
                                   .saved = memory->saved,
                                   .temporary = memory->temporary,
                                   .messages = memory->messages,
                                   .inputs = memory->inputs};
}

static RengaErrorCode TakeStages(const Solution *solution, SearchAnswer *answer)
{
  const SearchModel *model = &solution->model;
  const SearchLayout *layout = &solution->layout;
  answer->n_stages = layout->count;
  answer->n_ranks = 0;
  for (int s = 0; s < layout->count; s++)
    answer->n_ranks +=
        RengaSearchShapeDevices_Private(&RengaPlanGetStage(solution->plan, s)->shape);
  RengaCall(RengaMalloc(answer->n_stages, &answer->stage));
  RengaCall(RengaMalloc(answer->n_ranks, &answer->rank));
  for (int s = 0, place = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCost cost = RengaSearchCostOf_Private(model, stage, layout->count - s);
    answer->stage[s] = *RengaPlanGetStage(solution->plan, s);
    RengaSearchListRanks_Private(solution->plan, s, answer->rank + place);
    place += RengaSearchShapeDevices_Private(&answer->stage[s].shape);
    answer->stage[s].forward_seconds = cost.forward;
    answer->stage[s].backward_seconds = cost.backward;
    TakeMemory(&solution->memory[s], &answer->stage[s]);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionAnswer_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  answer->microbatch = solution->layout.microbatch;
  answer->leaf = solution->layout.leaf;
  answer->schedule = solution->model.schedule;
  RengaCall(TakeStages(solution, answer));
  RengaCall(RengaSearchPredict_Private(task, &solution->model, &solution->layout, solution->plan,
                                       &answer->prediction));
  answer->prediction.bound = solution->bound;
  RengaCall(RengaSolutionExplain_Private(solution, answer));
  return RENGA_SUCCESS;
}

void RengaSearchAnswerFree_Private(SearchAnswer *answer)
{
  RengaFree(&answer->stage);
  RengaFree(&answer->rank);
  RengaFree(&answer->reason);
}
