/* What was found as the answer: stages with their seconds and bytes, prediction, reasons. */
#include "kept.h"
#include "kinds.h"
#include "solution.h"
#include "renga/private/settings.h"
#include "rengacomm.h"

static void TakeMemory(const RengaForecastMemory *memory, double hidden, RengaPlanStage *stage)
{
  stage->memory = memory->total - (int64_t)hidden;
  stage->parts = (RengaPlanMemory){.parameters = memory->parameters,
                                   .gradients = memory->gradients,
                                   .optimizer = memory->optimizer,
                                   .saved = memory->saved,
                                   .temporary = memory->temporary,
                                   .messages = memory->messages,
                                   .inputs = memory->inputs};
}

static RengaErrorCode TakeSeconds(const Solution *solution, int s, RengaPlanStage *stage)
{
  const SearchLayout *layout = &solution->layout;
  const SearchCost cost =
      RengaSearchCostOf_Private(&solution->model, &layout->stage[s], layout->count - s);
  stage->forward_seconds = cost.forward;
  stage->backward_seconds = cost.backward;
  stage->again_seconds = cost.again;
  stage->weight_seconds = cost.weight;
  stage->update_seconds = cost.update;
  if (solution->task->machine)
    RengaCall(RengaSearchReduceSeconds_Private(solution->task, &solution->model, &layout->stage[s],
                                               solution->plan, s, false, &stage->reduce_seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeStages(const Solution *solution, SearchAnswer *answer)
{
  const SearchLayout *layout = &solution->layout;
  answer->n_stages = layout->count;
  answer->n_ranks = 0;
  for (int s = 0; s < layout->count; s++)
    answer->n_ranks +=
        RengaSearchShapeDevices_Private(&RengaPlanGetStage(solution->plan, s)->shape);
  RengaCall(RengaMalloc(answer->n_stages, &answer->stage));
  RengaCall(RengaMalloc(answer->n_ranks, &answer->rank));
  for (int s = 0, place = 0; s < layout->count; s++) {
    answer->stage[s] = *RengaPlanGetStage(solution->plan, s);
    RengaSearchListRanks_Private(solution->plan, s, answer->rank + place);
    place += RengaSearchShapeDevices_Private(&answer->stage[s].shape);
    RengaCall(TakeSeconds(solution, s, &answer->stage[s]));
    TakeMemory(&solution->memory[s],
               RengaSearchHidden_Private(solution->model.kinds, layout->stage[s].kinds),
               &answer->stage[s]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeExchanges(const Solution *solution, SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  const int count = answer->n_stages;
  double *seconds = NULL;
  int *parts = NULL;
  if (!RengaSearchFolds_Private(task, &solution->layout)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(SEARCH_EXCHANGES * count, &seconds);
  if (!code) code = RengaMalloc(count, &parts);
  if (!code)
    code = RengaSearchFindExchanges_Private(task, &solution->model, &solution->layout,
                                            solution->plan, false, seconds, parts);
  for (int s = 0; s < count && !code; s++) {
    const RengaStageShape *shape = &solution->layout.stage[s].shape;
    if (RengaSearchFoldsStage_Private(&solution->layout.stage[s]))
      answer->stage[s].exchange =
          (RengaPlanExchange){.first = seconds[SEARCH_FETCH_FIRST * count + s],
                              .forward = seconds[SEARCH_FETCH_FORWARD * count + s],
                              .again = seconds[SEARCH_FETCH_AGAIN * count + s],
                              .backward = seconds[SEARCH_FETCH_BACKWARD * count + s],
                              .weight = seconds[SEARCH_FETCH_WEIGHT * count + s],
                              .fold = seconds[SEARCH_FOLD * count + s],
                              .parts = parts[s],
                              .apart = !task->by_ranks,
                              .groups = RengaSettingsShardGroups_Private(
                                  task->run.settings, shape->shard, shape->replicas)};
  }
  RengaFree(&seconds);
  RengaFree(&parts);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeAllKept(const Solution *solution, SearchAnswer *answer)
{
  const SearchLayout *layout = &solution->layout;
  const RengaValue *value;
  int count;
  answer->n_kept = 0;
  RengaCall(RengaMalloc(layout->count + 1, &answer->kept_first));
  for (int s = 0; s < layout->count; s++) {
    RengaSearchGetKept_Private(solution->chain, &layout->stage[s], &count, &value);
    answer->kept_first[s + 1] = answer->kept_first[s] + count;
  }
  answer->n_kept = answer->kept_first[layout->count];
  RengaCall(RengaMalloc(answer->n_kept + 1, &answer->kept));
  for (int s = 0; s < layout->count; s++) {
    RengaSearchGetKept_Private(solution->chain, &layout->stage[s], &count, &value);
    for (int k = 0; k < count; k++) answer->kept[answer->kept_first[s] + k] = value[k];
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionAnswer_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  answer->microbatch = solution->layout.microbatch;
  answer->leaf = solution->layout.leaf;
  answer->schedule = solution->model.schedule;
  if (answer->schedule.type && task->any_schedule && !task->given)
    snprintf(answer->type, sizeof answer->type, "%s", answer->schedule.type);
  RengaCall(TakeStages(solution, answer));
  RengaCall(TakeExchanges(solution, answer));
  RengaCall(RengaSearchMessageSeconds_Private(task, &solution->model, &solution->layout,
                                              solution->plan, &answer->n_messages,
                                              &answer->message));
  RengaCall(TakeAllKept(solution, answer));
  RengaCall(RengaSearchPredict_Private(task, &solution->model, &solution->layout, NULL,
                                       solution->plan, &answer->prediction));
  answer->prediction.bound = solution->chunks.taken ? 0 : solution->bound; /* one of others */
  RengaCall(RengaSolutionExplain_Private(solution, answer));
  if (answer->prediction.bound <= 0) {
    RengaCall(RengaSolutionBoundByWork_Private(solution, &answer->prediction.bound));
    RengaCall(RengaSolutionExplainWork_Private(solution, answer->prediction.bound, answer));
  }
  RengaCall(RengaSolutionExplainShards_Private(solution, answer));
  RengaCall(RengaSolutionExplainKinds_Private(solution, answer));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateAnswer(SearchAnswer *answer)
{
  RengaCall(RengaMalloc(answer->n_stages, &answer->stage));
  RengaCall(RengaMalloc(answer->n_ranks, &answer->rank));
  RengaCall(RengaMalloc(answer->n_messages + 1, &answer->message));
  RengaCall(RengaMalloc(answer->n_reasons, &answer->reason));
  RengaCall(RengaMalloc(answer->n_kept + 1, &answer->kept));
  RengaCall(RengaMalloc(answer->n_stages + 1, &answer->kept_first));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchShareAnswer_Private(RengaComm comm, SearchAnswer *answer)
{
  static const char what[] = "the plan of rank 0";
  const bool root = RengaCommGetRank(comm) == 0;
  SearchAnswer mine = *answer;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaCommBroadcast(comm, answer, sizeof *answer, 0, what));
  answer->stage = mine.stage;
  answer->rank = mine.rank;
  answer->message = mine.message;
  answer->reason = mine.reason;
  answer->kept = mine.kept;
  answer->kept_first = mine.kept_first;
  if (answer->beaten) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(ranks, root ? RENGA_SUCCESS : AllocateAnswer(answer)));
  RengaCall(RengaCommBroadcast(comm, answer->stage,
                               (size_t)answer->n_stages * sizeof *answer->stage, 0, what));
  RengaCall(RengaCommBroadcast(comm, answer->rank, (size_t)answer->n_ranks * sizeof *answer->rank,
                               0, what));
  RengaCall(RengaCommBroadcast(comm, answer->message,
                               (size_t)answer->n_messages * sizeof *answer->message, 0, what));
  RengaCall(RengaCommBroadcast(comm, answer->reason,
                               (size_t)answer->n_reasons * sizeof *answer->reason, 0, what));
  RengaCall(RengaCommBroadcast(comm, answer->kept, (size_t)answer->n_kept * sizeof *answer->kept, 0,
                               what));
  RengaCall(RengaCommBroadcast(comm, answer->kept_first,
                               (size_t)(answer->n_stages + 1) * sizeof *answer->kept_first, 0,
                               what));
  return RENGA_SUCCESS;
}

void RengaSearchAnswerFree_Private(SearchAnswer *answer)
{
  RengaFree(&answer->stage);
  RengaFree(&answer->rank);
  RengaFree(&answer->message);
  RengaFree(&answer->reason);
  RengaFree(&answer->kept);
  RengaFree(&answer->kept_first);
}
