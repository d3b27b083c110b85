/* A layout as a plan: which ranks it takes, what a step takes on the links between them, and what
   the runtime says of its memory. */
#include "event.h"
#include "kept.h"
#include "kinds.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"
#include "renga/private/settings.h"
#include "rengaschedule.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Stage after stage; spread: replica after replica, each with all its stages side by side; or where
   the layout says. The ranks of a replica of a stage always lie side by side. */
static void PlaceRanks(const SearchLayout *layout, int ranks[])
{
  int n = 0, across = 0, before = 0; /* devices of one replica of all stages; of those before */
  if (layout->rank) memcpy(ranks, layout->rank, (size_t)layout->n_ranks * sizeof *ranks);
  for (int s = 0; s < layout->count; s++)
    across += RengaShapeGroup_Private(&layout->stage[s].shape);
  for (int s = 0; !layout->rank && s < layout->count; s++) {
    const int each = RengaShapeGroup_Private(&layout->stage[s].shape);
    for (int r = 0; r < layout->stage[s].shape.replicas; r++)
      for (int t = 0; t < each; t++, n++) ranks[n] = layout->spread ? r * across + before + t : n;
    before += each;
  }
}

/* Of all replicas of all stages, be they on the same ranks or not. */
static int PlacesOfStages(const SearchLayout *layout)
{
  int places = 0;
  for (int s = 0; s < layout->count; s++)
    places += RengaSearchShapeDevices_Private(&layout->stage[s].shape);
  return places;
}

/* Of plans whose schedule goes by them. */
static RengaErrorCode FillStageSeconds(const SearchTask *task, const SearchChain *chain,
                                       const SearchLayout *layout, RengaPlanStage stages[])
{
  SearchModel model;
  if (!layout->schedule.type || strcmp(layout->schedule.type, RENGA_SCHEDULE_AUTO))
    return RENGA_SUCCESS;
  RengaCall(RengaSearchModelFor_Private(task, chain, layout, &model));
  for (int s = 0; s < layout->count; s++) {
    const SearchCost cost = RengaSearchCostOf_Private(&model, &layout->stage[s], layout->count - s);
    stages[s].forward_seconds = cost.forward;
    stages[s].backward_seconds = cost.backward;
  }
  RengaSearchModelFree_Private(&model);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillPlanFromLayout(const SearchTask *task, const SearchChain *chain,
                                         const SearchLayout *layout, RengaPlanStage stages[],
                                         int ranks[], RengaPlan plan)
{
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    stages[s] =
        (RengaPlanStage){.first = s ? chain->node[stage->begin] : 0,
                         .last = s + 1 < layout->count ? chain->node[stage->end]
                                                       : RengaGraphGetNodeCount(task->graph),
                         .shape = stage->shape};
  }
  RengaCall(FillStageSeconds(task, chain, layout, stages));
  PlaceRanks(layout, ranks);
  RengaCall(RengaPlanSetCuts_Private(plan, task->graph, layout->count, stages));
  for (int s = 0; s < layout->count; s++) {
    const RengaValue *value;
    int count;
    RengaSearchGetKept_Private(chain, &layout->stage[s], &count, &value);
    RengaCall(RengaSearchSetKept_Private(task->graph, plan, s, count, value));
  }
  RengaCall(RengaPlanSetRanks(plan, ranks));
  RengaCall(RengaPlanSetBatch(plan, task->batch, layout->microbatch));
  RengaCall(RengaPlanSetLeaf(plan, layout->leaf));
  RengaCall(RengaSearchSetSchedule_Private(&layout->schedule, plan));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPlan_Private(const SearchTask *task, const SearchChain *chain,
                                       const SearchLayout *layout, RengaPlan *plan)
{
  RengaPlanStage *stages = NULL;
  int *ranks = NULL;
  RengaPlan made = NULL;
  RengaCall(RengaPlanCreate(task->self, &made));
  RengaErrorCode code = RengaMalloc(layout->count, &stages);
  if (!code) code = RengaMalloc(PlacesOfStages(layout), &ranks);
  if (!code) code = FillPlanFromLayout(task, chain, layout, stages, ranks, made);
  RengaFree(&stages);
  RengaFree(&ranks);
  if (code) RengaPlanDestroy(&made);
  RengaCall(code);
  *plan = made;
  return RENGA_SUCCESS;
}

void RengaSearchListRanks_Private(RengaPlan plan, int s, int rank[])
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
  const int each = RengaShapeGroup_Private(shape);
  for (int n = 0; n < RengaSearchShapeDevices_Private(shape); n++) {
    const RengaPlanPlace place = RengaPlanPlaceOf_Private(plan, s, n / each, n % each);
    rank[n] = RengaPlanGetRankAt(plan, &place);
  }
}

/* What a step is simulated from beside the layout. */
typedef struct {
  const double *messages;  /* [messages] seconds */
  const double *sums;      /* [stages] of the sum of a stage's gradients; NULL: none */
  const double *exchanges; /* of a micro-batch (exchanges.c); NULL: none */
  const int *parts;        /* [stages] of these */
  bool apart;              /* they go on while ranks compute */
} StepParts;

/* work: until the last rank is done with its own; makespan: and with its sums. */
static RengaErrorCode SimulateSchedule(const SearchModel *model, const SearchLayout *layout,
                                       RengaSchedule schedule, const StepParts *step, double *work,
                                       double *makespan)
{
  double *forward = NULL;
  RengaCall(RengaMalloc(5 * layout->count, &forward));
  for (int s = 0; s < layout->count; s++) {
    const SearchCost cost = RengaSearchCostOf_Private(model, &layout->stage[s], layout->count - s);
    forward[s] = cost.forward;
    forward[layout->count + s] = cost.backward - cost.again;
    forward[2 * layout->count + s] = cost.backward - cost.again - cost.weight;
    forward[3 * layout->count + s] = cost.weight;
    const bool keeps = layout->stage[s].shape.saved == RENGA_SAVED_KEEP;
    forward[4 * layout->count + s] = keeps ? 0 : cost.again; /* lists may have it nevertheless */
  }
  RengaScheduleDurations durations = {
      .seconds = {[RENGA_ACTION_FORWARD] = forward,
                  [RENGA_ACTION_RECOMPUTE] = forward + 4 * layout->count,
                  [RENGA_ACTION_BACKWARD] = forward + layout->count,
                  [RENGA_ACTION_BACKWARD_INPUT] = forward + 2 * layout->count,
                  [RENGA_ACTION_BACKWARD_WEIGHT] = forward + 3 * layout->count,
                  [RENGA_ACTION_REDUCE] = step->sums},
      .message = step->messages};
  if (step->exchanges)
    RengaSearchSetExchanges_Private(layout, step->exchanges, step->parts, step->apart, &durations);
  RengaLogEventBegin(RengaSearchEvent_Private(SEARCH_EVENT_SIMULATE));
  const RengaErrorCode code =
      RengaScheduleSimulateSums_Private(schedule, &durations, work, makespan);
  RengaLogEventEnd(RengaSearchEvent_Private(SEARCH_EVENT_SIMULATE), 0, 0, 0);
  RengaFree(&forward);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSchedule(const SearchTask *task, const SearchModel *model,
                                  const SearchLayout *layout, const SearchDraft *draft,
                                  const StepParts *step, double *work, double *makespan)
{
  RengaSchedule schedule = NULL;
  bool lent = false;
  RengaCall(RengaSearchScheduleOf_Private(task, model, layout, draft, &schedule, &lent));
  const RengaErrorCode code = SimulateSchedule(model, layout, schedule, step, work, makespan);
  if (!lent) RengaScheduleDestroy(&schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindMessageSeconds(const SearchTask *task, RengaPlan plan, bool nearest,
                                         int n_messages, const RengaMessage messages[],
                                         double seconds[])
{
  for (int i = 0; i < n_messages && task->machine; i++) {
    int level = 0;
    if (!nearest)
      RengaCall(
          RengaSearchLevelOfMessage_Private(task, plan, messages[i].from, messages[i].to, &level));
    seconds[i] = RengaMachineMessageSeconds(task->machine, level, (double)messages[i].bytes);
  }
  return RENGA_SUCCESS;
}

/* Of replicas that add up gradients by themselves first; 1: they do not. */
static int GroupsOf(const SearchTask *task, const RengaStageShape *shape)
{
  return RengaSettingsShardGroups_Private(task->run.settings, shape->shard, shape->replicas);
}

/* Of what groups of replicas have added up by themselves: each node gives the others its part. */
static RengaErrorCode SumAcrossGroups(const SearchTask *task, const SearchModel *model,
                                      const RengaStageShape *shape, RengaPlan plan, int s,
                                      bool nearest, double bytes, double *seconds)
{
  const RengaSumPieces one = {1, 1};
  const int groups = GroupsOf(task, shape), each = shape->replicas / groups;
  RengaMachine machine = task->machine;
  RengaStageShape across = *shape;
  RengaSumPieces pieces;
  int level = 0, within = 0;
  RengaCall(RengaSearchLevelOfStage_Private(task, plan, s, 1, nearest, &level));
  RengaCall(RengaSearchLevelOfStage_Private(task, plan, s, groups, nearest, &within));
  const int64_t stride =
      nearest ? RengaShapeGroup_Private(shape) : RengaPlanStride_Private(plan, s);
  across.shard = RENGA_SHARD_OPTIMIZER;
  across.replicas = groups;
  RengaCall(
      RengaSearchRoutedPieces_Private(machine, model, &across, level, stride * each, &pieces));
  pieces.rank = 1;
  const double whole =
      RengaMachineSumSeconds_Private(machine, level, shape->replicas, stride, bytes, &pieces);
  *seconds = (1 - SEARCH_GATHER) *
             (whole - RengaMachineSumSeconds_Private(machine, within, each, stride, bytes, &one));
  if (*seconds < 0) *seconds = 0;
  return RENGA_SUCCESS;
}

/* Of one stage's gradients over its replicas. */
RengaErrorCode RengaSearchReduceSeconds_Private(const SearchTask *task, const SearchModel *model,
                                                const SearchStage *stage, RengaPlan plan, int s,
                                                bool nearest, double *seconds)
{
  const int replicas = stage->shape.replicas;
  const double elements = model->elements[stage->end] - model->elements[stage->begin];
  const double bytes = model->listing.bytes[stage->shape.precision].gradient * elements;
  int level = 0;
  *seconds = 0;
  if (replicas == 1) return RENGA_SUCCESS;
  if (GroupsOf(task, &stage->shape) > 1) {
    RengaCall(SumAcrossGroups(task, model, &stage->shape, plan, s, nearest, bytes, seconds));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchLevelOfStage_Private(task, plan, s, 1, nearest, &level));
  const int64_t group = RengaShapeGroup_Private(&stage->shape);
  const int64_t each = nearest ? group : RengaPlanStride_Private(plan, s);
  RengaSumPieces pieces = {1, 1}; /* of rounds of micro-batches */
  if (stage->shape.shard < RENGA_SHARD_GRADIENTS)
    RengaCall(
        RengaSearchRoutedPieces_Private(task->machine, model, &stage->shape, level, each, &pieces));
  *seconds = RengaMachineSumSeconds_Private(task->machine, level, replicas, each, bytes, &pieces);
  if (stage->shape.shard >= RENGA_SHARD_OPTIMIZER) *seconds *= 1 - SEARCH_GATHER;
  if (stage->shape.shard >= RENGA_SHARD_GRADIENTS) /* those of each round of micro-batches */
    *seconds *= ceil((double)model->microbatches / replicas);
  return RENGA_SUCCESS;
}

/* seconds: [stages]; 0 without a machine, and of stages all of whose sums go with each
   micro-batch */
static RengaErrorCode FindAllSums(const SearchTask *task, const SearchModel *model,
                                  const SearchLayout *layout, RengaPlan plan, bool nearest,
                                  double seconds[])
{
  for (int s = 0; s < layout->count && task->machine; s++)
    if (!RengaSearchFoldsStage_Private(&layout->stage[s]) ||
        GroupsOf(task, &layout->stage[s].shape) > 1)
      RengaCall(RengaSearchReduceSeconds_Private(task, model, &layout->stage[s], plan, s, nearest,
                                                 &seconds[s]));
  return RENGA_SUCCESS;
}

/* Ranks end about together, or have several stages, so that nothing hides all of the sums. */
static bool SumsAreSimulated(const SearchTask *task, const SearchLayout *layout)
{
  return layout->chunks > 1 || RengaSearchIsHalved_Private(&layout->schedule) ||
         RengaSearchFolds_Private(task, layout);
}

/* The pipeline, and what the sums of gradients add to it: a rank sums those of each of its stages
   while it computes others; with backwards in two parts all ranks end about together, and nothing
   hides the sums; replicas that share gradients add them with each micro-batch. step: with its
   messages. */
static RengaErrorCode SimulateSums(const SearchTask *task, const SearchModel *model,
                                   const SearchLayout *layout, const SearchDraft *draft,
                                   bool nearest, StepParts *step, RengaPlanPrediction *prediction)
{
  const int count = layout->count;
  double *sums = NULL, makespan = 0;
  int *parts = NULL;
  RengaErrorCode code = RengaMalloc((1 + SEARCH_EXCHANGES) * count, &sums);
  if (!code) code = RengaMalloc(count, &parts);
  if (!code) code = FindAllSums(task, model, layout, draft->plan, nearest, sums);
  if (!code && RengaSearchFolds_Private(task, layout)) {
    code = RengaSearchFindExchanges_Private(task, model, layout, draft->plan, nearest, sums + count,
                                            parts);
    step->exchanges = sums + count;
    step->parts = parts;
    step->apart = !task->by_ranks;
  }
  step->sums = sums;
  if (!code) code = RunSchedule(task, model, layout, draft, step, &prediction->pipeline, &makespan);
  RengaFree(&parts);
  RengaFree(&sums);
  RengaCall(code);
  prediction->reduce = makespan - prediction->pipeline;
  return RENGA_SUCCESS;
}

/* Seconds of the pipeline, by simulation or, where that takes long, by the model. */
static RengaErrorCode PredictPipeline(const SearchTask *task, const SearchModel *model,
                                      const SearchLayout *layout, const SearchDraft *draft,
                                      bool nearest, RengaPlanPrediction *prediction)
{
  const int n = draft->n_messages;
  double *seconds = NULL;
  prediction->pipeline = layout->fill + layout->rounds;
  RengaCheck(layout->chunks <= 1 || RengaSearchMaySimulate_Private(model, layout, n), MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "a step of %lld micro-batches with %d virtual stages per rank takes too long to "
             "simulate: give a larger -microbatch_size",
             (long long)model->microbatches, layout->chunks);
  if (!draft->messages || !RengaSearchMaySimulate_Private(model, layout, n)) {
    RengaCall(RengaSearchAddExchanges_Private(task, model, layout, draft->plan, nearest,
                                              &prediction->pipeline));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(n + 1, &seconds));
  RengaErrorCode code = FindMessageSeconds(task, draft->plan, nearest, n, draft->messages, seconds);
  StepParts step = {.messages = seconds};
  double makespan = 0;
  if (!code && SumsAreSimulated(task, layout))
    code = SimulateSums(task, model, layout, draft, nearest, &step, prediction);
  else if (!code)
    code = RunSchedule(task, model, layout, draft, &step, &prediction->pipeline, &makespan);
  RengaFree(&seconds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static double BusyShare(const SearchModel *model, const SearchLayout *layout, double pipeline)
{
  const double devices = RengaSearchDevices_Private(layout);
  double busy = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchCost cost = RengaSearchCostOf_Private(model, &layout->stage[s], layout->count - s);
    busy += (double)model->microbatches * (cost.forward + cost.backward) *
            RengaShapeGroup_Private(&layout->stage[s].shape);
  }
  return pipeline > 0 ? fmin(1, busy / (devices * pipeline)) : 1;
}

/* Of one stage per rank: it sums its gradients after its last backward, while those before it still
   compute. */
static RengaErrorCode PredictReduce(const SearchTask *task, const SearchModel *model,
                                    const SearchLayout *layout, RengaPlan plan, bool nearest,
                                    double *most)
{
  *most = 0;
  for (int s = 0; s < layout->count && task->machine; s++) {
    const SearchStage *stage = &layout->stage[s];
    double seconds;
    const bool folds = RengaSearchFoldsStage_Private(stage); /* then nothing hides what is left */
    if (folds && GroupsOf(task, &stage->shape) == 1) continue;
    RengaCall(RengaSearchReduceSeconds_Private(task, model, stage, plan, s, nearest, &seconds));
    *most = fmax(*most, seconds - (folds ? 0 : model->backward[stage->begin]));
  }
  return RENGA_SUCCESS;
}

static int CompareMessages(const void *a, const void *b)
{
  const RengaMessage *x = a, *y = b;
  if (x->from != y->from) return x->from - y->from;
  if (x->to != y->to) return x->to - y->to;
  if (x->backward != y->backward) return x->backward - y->backward;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What a stage sends another in one direction leaves together and is waited for together: the
   largest arrives last and stands for all. */
static RengaErrorCode FindMessages(const SearchTask *task, SearchDraft *draft)
{
  int count = 0, kept = 0;
  RengaCall(RengaPlanGetMessages(draft->plan, task->graph, &count, &draft->messages));
  RengaMessage *message = draft->messages;
  if (count) qsort(message, (size_t)count, sizeof *message, CompareMessages);
  for (int i = 0; i < count; i++) {
    const RengaMessage *last = kept ? &message[kept - 1] : NULL;
    if (!last || message[i].from != last->from || message[i].to != last->to ||
        message[i].backward != last->backward)
      message[kept++] = message[i];
  }
  draft->n_messages = kept;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchDraftCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              const SearchModel *model, const SearchLayout *layout,
                                              SearchDraft *draft)
{
  *draft = (SearchDraft){.schedules = chain->schedules};
  RengaErrorCode code = RengaSearchPlan_Private(task, chain, layout, &draft->plan);
  if (!code && RengaSearchMaySimulate_Private(model, layout, 0)) code = FindMessages(task, draft);
  if (code) RengaSearchDraftFree_Private(draft);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaSearchDraftFree_Private(SearchDraft *draft)
{
  if (draft->plan) RengaPlanDestroy(&draft->plan);
  RengaFree(&draft->messages);
  *draft = (SearchDraft){0};
}

/* A copy of the layout whose stages lie on the kinds of the plan's ranks, with its seconds; plan
   NULL: on the best. */
static RengaErrorCode LayOnKinds(const SearchModel *model, const SearchLayout *layout,
                                 RengaPlan plan, SearchLayout *own)
{
  RengaCall(RengaSearchLayoutCopy_Private(layout, own));
  if (plan)
    RengaSearchTakeKinds_Private(model, plan, own);
  else
    for (int s = 0; s < own->count; s++) own->stage[s].kinds = 0;
  RengaSearchSumStages_Private(model, own);
  return RENGA_SUCCESS;
}

static RengaErrorCode PredictOnKinds(const SearchTask *task, const SearchModel *model,
                                     const SearchLayout *layout, const SearchDraft *draft,
                                     bool nearest, RengaPlanPrediction *prediction)
{
  *prediction = (RengaPlanPrediction){.update = layout->update};
  RengaCall(PredictPipeline(task, model, layout, draft, nearest, prediction));
  prediction->bubble = 1 - BusyShare(model, layout, prediction->pipeline);
  if (layout->chunks <= 1) {
    double reduce;
    RengaCall(PredictReduce(task, model, layout, draft->plan, nearest, &reduce));
    prediction->reduce = fmax(prediction->reduce, reduce);
  }
  prediction->step = prediction->pipeline + prediction->reduce + prediction->update;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPredictDraft_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout, const SearchDraft *draft,
                                               bool nearest, RengaPlanPrediction *prediction)
{
  SearchLayout own = {0};
  if (model->kinds) RengaCall(LayOnKinds(model, layout, nearest ? NULL : draft->plan, &own));
  const RengaErrorCode code =
      PredictOnKinds(task, model, model->kinds ? &own : layout, draft, nearest, prediction);
  RengaSearchLayoutFree_Private(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode LeastOnKinds(const SearchTask *task, const SearchModel *bounded,
                                   const SearchLayout *layout, const SearchDraft *draft,
                                   bool nearest, double *step)
{
  const int n = draft->n_messages;
  double *seconds = NULL, pipeline = 0, reduce = 0;
  *step = 0;
  if (!draft->messages) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(n + 1, &seconds));
  RengaErrorCode code = FindMessageSeconds(task, draft->plan, nearest, n, draft->messages, seconds);
  if (!code)
    code = RengaSearchFloor_Private(bounded, layout, n, draft->messages, seconds, &pipeline);
  if (!code) code = PredictReduce(task, bounded, layout, draft->plan, nearest, &reduce);
  RengaFree(&seconds);
  RengaCall(code);
  *step = pipeline + reduce + layout->update;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchDraftAtLeast_Private(const SearchTask *task, const SearchModel *bounded,
                                               const SearchLayout *layout, const SearchDraft *draft,
                                               bool nearest, double *step)
{
  SearchLayout own = {0};
  if (bounded->kinds) RengaCall(LayOnKinds(bounded, layout, nearest ? NULL : draft->plan, &own));
  const RengaErrorCode code =
      LeastOnKinds(task, bounded, bounded->kinds ? &own : layout, draft, nearest, step);
  RengaSearchLayoutFree_Private(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPredictKnown_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout,
                                               struct SearchSchedules *schedules, RengaPlan plan,
                                               RengaPlanPrediction *prediction)
{
  SearchDraft draft = {.plan = plan, .schedules = schedules};
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaSearchMaySimulate_Private(model, layout, 0)) code = FindMessages(task, &draft);
  if (!code) code = RengaSearchPredictDraft_Private(task, model, layout, &draft, false, prediction);
  RengaFree(&draft.messages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchMessageSeconds_Private(const SearchTask *task, const SearchModel *model,
                                                 const SearchLayout *layout, RengaPlan plan,
                                                 int *count, double **seconds)
{
  RengaMessage *messages = NULL;
  int n = 0;
  *count = 0;
  if (!RengaSearchMaySimulate_Private(model, layout, 0)) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetMessages(plan, task->graph, &n, &messages));
  RengaErrorCode code = RengaMalloc(n + 1, seconds);
  if (!code) code = FindMessageSeconds(task, plan, false, n, messages, *seconds);
  RengaFree(&messages);
  if (code) RengaFree(seconds);
  RengaCall(code);
  *count = n;
  return RENGA_SUCCESS;
}
