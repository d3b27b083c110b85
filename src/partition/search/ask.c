/* What a step of a plan takes, once the runtime has said what replicas that share gradients give
   each other. */
#include "search.h"

RengaErrorCode RengaSearchPredict_Private(const SearchTask *task, const SearchModel *model,
                                          const SearchLayout *layout,
                                          struct SearchSchedules *schedules, RengaPlan plan,
                                          RengaPlanPrediction *prediction)
{
  SearchLayout asked = {0};
  RengaForecastMemory *memory = NULL;
  double most = 0;
  if (!RengaSearchMustAskExchanges_Private(task, layout)) {
    RengaCall(RengaSearchPredictKnown_Private(task, model, layout, schedules, plan, prediction));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(layout->count, &memory));
  RengaErrorCode code = RengaSearchMemory_Private(task, model, layout, plan, memory, &most);
  if (!code) code = RengaSearchLayoutCopy_Private(layout, &asked);
  if (!code) RengaSearchTakeExchanges_Private(memory, &asked);
  if (!code)
    code = RengaSearchPredictKnown_Private(task, model, &asked, schedules, plan, prediction);
  RengaSearchLayoutFree_Private(&asked);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}
