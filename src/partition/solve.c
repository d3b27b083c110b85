/* From wishes to a plan: how many stages and replicas, how many stages of each rank, which batch;
   then the type's plan, or its cuts, or the plan of a file. */
#include "partitionimpl.h"
#include "search/search.h"
#include "renga/private/graph.h"
#include "renga/private/schedule.h"
#include "renga/private/settings.h"
#include "rengacomm.h"
#include "rengaschedule.h"
#include <string.h>

enum { DEFAULT_BATCH = 32, DEFAULT_MICROBATCHES = 8 };

/* Stages of each rank: of the settings, where there are any. */
static RengaErrorCode FindChunks(RengaPartition partition, int *chunks)
{
  RengaSettings settings = NULL;
  const char *schedule = NULL;
  *chunks = 1;
  if (!partition->settings && !partition->own.settings) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaScheduleShareLists(partition->hdr.owner, schedule));
  RengaCall(RengaSettingsGetChunks(settings, chunks));
  if (*chunks == 0) *chunks = 1;
  return RENGA_SUCCESS;
}

/* Where the schedule of the settings, if there is one, wants the stages of a rank. */
static RengaErrorCode PlaceStages(RengaPartition partition, RengaPlan plan)
{
  RengaSettings settings = NULL;
  const char *schedule = NULL;
  int chunks;
  bool wave;
  if (!partition->settings && !partition->own.settings) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaScheduleFindPlacement(schedule, &chunks, &wave));
  if (wave) RengaCall(RengaPlanSetWave(plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWishes(RengaPartition partition, int ranks, int stages, int replicas)
{
  MPI_Comm comm = partition->hdr.comm;
  int n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCheck(stages <= n_nodes, comm, RENGA_ERR_PLAN,
             "%d stages, but the network has only %d nodes: ask for fewer stages", stages, n_nodes);
  RengaCheck(
      stages <= ranks, comm, RENGA_ERR_PLAN,
      "%d stages need at least %d ranks, but there are %d: start more ranks or ask for fewer "
      "stages",
      stages, stages, ranks);
  RengaCheck(replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d replicas need at least %d ranks, but there are %d: start more ranks or ask for "
             "fewer replicas",
             replicas, replicas, ranks);
  RengaCheck((int64_t)stages * replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d stages x %d replicas need %lld ranks, but there are %d: start more ranks or ask "
             "for fewer stages or replicas",
             stages, replicas, (long long)stages * replicas, ranks);
  return RENGA_SUCCESS;
}

/* Leaves of a step: more replicas than these have nothing to do. */
static int64_t CountLeaves(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t count = (batch + microbatch - 1) / microbatch;
  const int64_t leaf = partition->leaf ? partition->leaf : 1;
  return (count + leaf - 1) / leaf;
}

/* Before a search, which would find no layout and could not say why. The size of a micro-batch that
   is not given may be made as small as a sample. */
static RengaErrorCode CheckReplicas(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t least = partition->microbatch ? microbatch : 1;
  const int64_t leaves = CountLeaves(partition, batch, least);
  RengaCheck(partition->replicas <= leaves, partition->hdr.comm, RENGA_ERR_PLAN,
             "%d replicas, but a step of %lld samples in micro-batches of %lld makes only %lld "
             "parts, and each replica needs one: ask for fewer replicas, a larger -batch_size or "
             "a smaller -microbatch_size",
             partition->replicas, (long long)batch, (long long)least, (long long)leaves);
  return RENGA_SUCCESS;
}

/* Nothing, where nothing was said of it. */
static RengaErrorCode FindShard(RengaPartition partition, RengaShard *shard)
{
  RengaSettings settings;
  *shard = RENGA_SHARD_NOTHING;
  if (!partition->settings && !partition->own.settings) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaSettingsFindShard_Private(settings, shard);
  return RENGA_SUCCESS;
}

/* All is kept, where nothing was said of it. */
static RengaErrorCode FindSavedPolicy(RengaPartition partition, RengaSaved *saved)
{
  RengaSettings settings;
  *saved = RENGA_SAVED_KEEP;
  if (!partition->settings && !partition->own.settings) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaSettingsFindSaved_Private(settings, saved);
  return RENGA_SUCCESS;
}

/* Those of the type or of the user, where either says a number; 0: neither. With several chunks per
   rank the user says how many ranks follow each other. */
static RengaErrorCode FindStages(RengaPartition partition, int chunks, int *stages)
{
  int own = 0;
  RengaCall(partition->ops->count(partition, &own));
  *stages = own ? own / chunks : partition->stages;
  RengaCheck(own % chunks == 0, partition->hdr.comm, RENGA_ERR_PLAN,
             "the cuts make %d stages, which are no multiple of %d virtual stages per rank "
             "(-layout_chunks)",
             own, chunks);
  RengaCheck(!own || !partition->stages || *stages == partition->stages, partition->hdr.comm,
             RENGA_ERR_PLAN, "the cuts make %d stages, but %d stages are asked for", own,
             partition->stages * chunks);
  return RENGA_SUCCESS;
}

/* The number of stages and replicas that are not given, and whether all fits. Where replicas are
   not given, those that would have no micro-batch are left out. Chunks are for pipelines: all ranks
   follow each other where nothing else is said. */
static RengaErrorCode ChooseLayout(RengaPartition partition, int ranks, int64_t leaves, int chunks,
                                   int *stages, int *replicas)
{
  const int most = RengaGraphGetNodeCount(partition->graph) / chunks;
  RengaCall(FindStages(partition, chunks, stages));
  *replicas = partition->replicas;
  RengaCall(CheckWishes(partition, ranks, *stages, *replicas));
  if (!*stages) *stages = *replicas ? ranks / *replicas : chunks > 1 ? ranks : 1;
  RengaCheck(most > 0, partition->hdr.comm, RENGA_ERR_PLAN,
             "%d virtual stages per rank, but the network has only %d nodes: give a smaller "
             "-layout_chunks",
             chunks, RengaGraphGetNodeCount(partition->graph));
  if (*stages > most) *stages = most;
  if (!*replicas) *replicas = ranks / *stages < leaves ? ranks / *stages : (int)leaves;
  return RENGA_SUCCESS;
}

/* Results that depend on the micro-batch are those of the whole batch, or of what each replica has
   of it where their number is given. */
static RengaErrorCode FindBatchSizes(RengaPartition partition, int64_t *batch, int64_t *microbatch)
{
  const int64_t replicas = partition->replicas ? partition->replicas : 1;
  int statistics, node;
  int64_t values;
  *batch = partition->batch;
  *microbatch = partition->microbatch;
  if (!*batch) RengaCall(RengaGraphGetFileBatch(partition->graph, batch));
  if (!*batch) *batch = DEFAULT_BATCH;
  RengaCall(RengaGraphGetBatchStatistics(partition->graph, &statistics, &node, &values));
  const int64_t parts = statistics ? replicas : DEFAULT_MICROBATCHES;
  if (!*microbatch) *microbatch = (*batch - 1) / parts + 1;
  return RENGA_SUCCESS;
}

/* All that can be said of cuts without costs. */
static RengaErrorCode ExplainCuts(int chunks, RengaPlan plan)
{
  char sentence[96];
  RengaCall(RengaPlanAddReason(plan, "cuts",
                               "made without costs; -machine_file, or -profile_type on these "
                               "ranks, predict what it takes and say what limits it"));
  if (chunks == 1) return RENGA_SUCCESS;
  snprintf(sentence, sizeof sentence, "each rank computes %d of the %d stages", chunks,
           RengaPlanGetStageCount(plan));
  RengaCall(RengaPlanAddReason(plan, "chunks", sentence));
  return RENGA_SUCCESS;
}

static RengaErrorCode CutStages(RengaPartition partition, int ranks, int64_t batch,
                                int64_t microbatch, RengaPlan plan)
{
  int chunks = 0, count = 0, replicas = 0, groups = 0;
  RengaPrecision precision;
  RengaPlanStage *stages = NULL;
  RengaShard shard;
  RengaSaved saved;
  RengaCall(RengaGraphGetPrecision(partition->graph, &precision));
  RengaCall(FindShard(partition, &shard));
  RengaCall(FindSavedPolicy(partition, &saved));
  RengaCall(FindChunks(partition, &chunks));
  RengaCall(RengaPartitionFindGroups_Private(partition, ranks, &groups));
  RengaCall(ChooseLayout(partition, groups, CountLeaves(partition, batch, microbatch), chunks,
                         &count, &replicas));
  RengaCall(RengaPartitionCheckGroups_Private(partition, ranks, count, replicas));
  count *= chunks;
  RengaCall(RengaMalloc(count, &stages));
  RengaErrorCode code = partition->ops->solve(partition, count, stages);
  for (int s = 0; s < count; s++) {
    stages[s].shape = RengaStageShapePlain(replicas);
    stages[s].shape.tensor = RengaPartitionTensorRanks_Private(partition);
    stages[s].shape.sequence = RengaPartitionContextRanks_Private(partition);
    stages[s].shape.chunks = chunks;
    stages[s].shape.precision = precision;
    stages[s].shape.shard = shard;
    stages[s].shape.saved = saved;
  }
  if (!code) code = RengaPlanSetStages(plan, partition->graph, count, stages);
  RengaFree(&stages);
  RengaCall(code);
  if (chunks > 1) RengaCall(PlaceStages(partition, plan));
  RengaCall(RengaPlanSetBatch(plan, batch, microbatch));
  if (partition->leaf) RengaCall(RengaPlanSetLeaf(plan, partition->leaf));
  return RENGA_SUCCESS;
}

/* What to do about a plan that is settled and does not fit: no search looks for another one. */
static RengaErrorCode AdviseSettled(RengaPartition partition, int64_t microbatch, size_t size,
                                    char text[])
{
  int statistics, node;
  int64_t values;
  const char *more = RengaPartitionContextRanks_Private(partition) > 1
                         ? "more ranks for -layout_context or -layout_pipeline"
                     : RengaPartitionTensorRanks_Private(partition) > 1
                         ? "more ranks for -layout_tensor or -layout_pipeline"
                         : "more -layout_pipeline";
  RengaCall(RengaGraphGetBatchStatistics(partition->graph, &statistics, &node, &values));
  if (microbatch == 1)
    snprintf(text, size, "micro-batches of one sample are as small as can be: %s need less", more);
  else
    snprintf(text, size, "a smaller -microbatch_size than %lld%s or %s need less",
             (long long)microbatch,
             partition->microbatch ? ""
             : statistics          ? " (chosen for the statistics of BatchNormalization)"
                                   : " (an eighth of the batch, as none is given)",
             more);
  return RENGA_SUCCESS;
}

/* What the cuts take, and what their stages make again, as of a plan that is there already. */
static RengaErrorCode WeighSettled(RengaPartition partition, int ranks, int64_t batch,
                                   int64_t microbatch, RengaPlan plan)
{
  RengaPlan cut = NULL;
  RengaCall(RengaPlanCreate(partition->hdr.owner, &cut));
  RengaErrorCode code =
      RengaErrorAgree(partition->hdr.comm, CutStages(partition, ranks, batch, microbatch, cut));
  const RengaSearchWish wish = {.given = cut, .spares = true};
  if (!code) code = RengaSearchPartition_Private(partition, &wish, ranks, batch, microbatch, plan);
  RengaPlanDestroy(&cut);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Several chunks per rank, shared gradients, or tensor ranks, with costs. */
static RengaErrorCode PredictSettled(RengaPartition partition, int ranks, int64_t batch,
                                     int64_t microbatch, RengaPlan plan)
{
  char advice[160];
  RengaCall(AdviseSettled(partition, microbatch, sizeof advice, advice));
  RengaCall(WeighSettled(partition, ranks, batch, microbatch, plan));
  RengaCall(RengaPartitionCheckMemory_Private(partition, "the plan", advice, plan));
  return RENGA_SUCCESS;
}

/* Types that search do not choose stages for ranks of several, nor, but for those of this room,
   share gradients. */
static RengaErrorCode CheckWishedChunks(RengaPartition partition, int chunks, RengaShard shard)
{
  const char *type = partition->hdr.type_name;
  const bool knows = !partition->ops->plan || !strcmp(type, RENGA_PARTITION_AUTO) ||
                     !strcmp(type, RENGA_PARTITION_EXACT);
  RengaCheck(shard < RENGA_SHARD_GRADIENTS || knows, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "-layout_zero %d is not supported by -partition_type %s, which does not know what "
             "it takes: give -partition_type auto, exact, even, tree or manual",
             (int)shard, type);
  RengaCheck(chunks == 1 || !partition->ops->plan, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "-layout_chunks %d: %d virtual stages per rank are not supported by -partition_type "
             "%s: give -partition_type even, tree or manual",
             chunks, chunks, partition->hdr.type_name);
  RengaCheck(chunks == 1 || !partition->leaves, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "-partition_leaf %s: with %d virtual stages per rank the leaf is not chosen: give "
             "a number",
             partition->leaves, chunks);
  return RENGA_SUCCESS;
}

/* The plan of a type that only cuts, with costs: weighed as those of the search are. */
static RengaErrorCode PredictCuts(RengaPartition partition, int ranks, int64_t batch,
                                  int64_t microbatch, RengaPlan plan)
{
  const RengaSearchWish wish = {
      .finder = {.find = RengaSearchCutsFind_Private, .context = partition}};
  int stages = 0, chunks = 0;
  RengaShard shard;
  RengaCall(FindShard(partition, &shard));
  RengaCall(FindChunks(partition, &chunks));
  RengaCall(FindStages(partition, chunks, &stages));
  RengaCall(CheckWishes(partition, ranks, stages, partition->replicas));
  if (chunks > 1 || shard >= RENGA_SHARD_GRADIENTS ||
      RengaPartitionGroupRanks_Private(partition) > 1)
    RengaCall(PredictSettled(partition, ranks, batch, microbatch, plan));
  else
    RengaCall(RengaSearchPartition_Private(partition, &wish, ranks, batch, microbatch, plan));
  return RENGA_SUCCESS;
}

/* Stages of the cuts are to recompute, or do not fit and may. */
static RengaErrorCode MustSpare(RengaPartition partition, RengaPlan cut, bool *must)
{
  RengaSaved saved;
  RengaSettings settings;
  const char *schedule;
  double memory = 0, most = 0;
  *must = false;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  const bool fixed = RengaSettingsFindSaved_Private(settings, &saved);
  RengaCall(RengaPartitionMemoryBound_Private(partition, &memory));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  if (schedule && RengaScheduleIsOutside_Private(schedule)) return RENGA_SUCCESS;
  *must = fixed && saved == RENGA_SAVED_RECOMPUTE;
  if (fixed || memory <= 0) return RENGA_SUCCESS;
  RengaCall(RengaPartitionForecast_Private(partition, cut));
  RengaCall(RengaPartitionMostOfRank_Private(partition, cut, &most));
  *must = most > memory;
  return RENGA_SUCCESS;
}

/* The cuts with what their stages make again, by the work of plain ranks: nothing is measured for
   it. Where that does not fit either the plan stays, and who runs it says so. */
static RengaErrorCode SpareByWork(RengaPartition partition, int ranks, int64_t batch,
                                  int64_t microbatch, RengaPlan plan)
{
  RengaPlan made = NULL;
  double memory = 0, most = 0;
  RengaCall(RengaPlanCreate(partition->hdr.owner, &made));
  partition->own.plain = true;
  RengaErrorCode code = WeighSettled(partition, ranks, batch, microbatch, made);
  partition->own.plain = false;
  if (!code) code = RengaPartitionMemoryBound_Private(partition, &memory);
  if (!code) code = RengaPartitionMostOfRank_Private(partition, made, &most);
  if (!code && (memory <= 0 || most <= memory))
    code = RengaSearchCopyPlan_Private(partition->graph, made, plan);
  RengaPlanDestroy(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Stages are cuts of what depends on parameters. */
static RengaErrorCode CheckParameters(RengaPartition partition)
{
  const int n_values = RengaGraphGetValueCount(partition->graph);
  bool found = false;
  for (int v = 0; v < n_values && !found; v++)
    found = RengaGraphGetValue(partition->graph, v)->kind == RENGA_VALUE_PARAMETER;
  RengaCheck(
      found, partition->hdr.comm, RENGA_ERR_PLAN,
      "the network has no parameters, so that there is nothing to train and no stage to cut: "
      "what a file gives as a constant, -graph_trained makes a parameter");
  return RENGA_SUCCESS;
}

/* What is asked for, as each rank finds it by itself. */
typedef struct {
  int chunks;
  RengaShard shard;
  int64_t batch, microbatch;
  bool costs; /* or else a plan that only cuts has no prediction */
} SolveWish;

static RengaErrorCode FindSolveWish(RengaPartition partition, int ranks, SolveWish *wish)
{
  RengaMachine machine;
  RengaCall(CheckParameters(partition));
  RengaCall(FindChunks(partition, &wish->chunks));
  RengaCall(FindShard(partition, &wish->shard));
  RengaCall(CheckWishedChunks(partition, wish->chunks, wish->shard));
  RengaCall(FindBatchSizes(partition, &wish->batch, &wish->microbatch));
  RengaCall(RengaPlanCheckMicrobatches_Private(partition->hdr.comm, wish->batch, wish->microbatch));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  wish->costs = machine || partition->profile || partition->own.type_given;
  RengaCall(RengaPartitionCheckGroup_Private(partition));
  if (partition->ops->plan || wish->costs)
    RengaCall(CheckReplicas(partition, wish->batch, wish->microbatch));
  if (partition->ops->plan)
    RengaCall(CheckWishes(partition, ranks, partition->stages, partition->replicas));
  return RENGA_SUCCESS;
}

/* Without costs. spares: its stages are to recompute, or do not fit and may. */
static RengaErrorCode CutAlone(RengaPartition partition, int ranks, const SolveWish *wish,
                               RengaPlan plan, bool *spares)
{
  RengaCheck(!partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_leaf %s: type %s does not know which is faster without costs: give "
             "a number, or -machine_file",
             partition->leaves, partition->hdr.type_name);
  RengaCall(CutStages(partition, ranks, wish->batch, wish->microbatch, plan));
  RengaCall(MustSpare(partition, plan, spares));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanBySearch(RengaPartition partition, int ranks, const SolveWish *wish,
                                   RengaPlan *plan)
{
  const RengaErrorCode code =
      RengaPartitionSearch_Private(partition, ranks, wish->batch, wish->microbatch, plan);
  RengaCall(RengaErrorAgree(partition->hdr.comm, code));
  if (!strcmp(partition->hdr.type_name, RENGA_PARTITION_AUTO))
    RengaCall(
        RengaPartitionExplainAxes_Private(partition, ranks, wish->batch, wish->microbatch, *plan));
  return RENGA_SUCCESS;
}

/* Ranks go on together to what they do together. */
static RengaErrorCode MakePlan(RengaPartition partition, int ranks, RengaPlan *made)
{
  RengaPlan plan = *made; /* but for chosen tensor ranks */
  SolveWish wish = {0};
  bool spares = false;
  partition->asked = 0;
  RengaErrorCode code = FindSolveWish(partition, ranks, &wish);
  const bool alone = !partition->ops->plan && !wish.costs;
  if (!code && alone) code = CutAlone(partition, ranks, &wish, plan, &spares);
  RengaCall(RengaErrorAgree(partition->hdr.comm, code));
  if (partition->ops->plan || partition->tensor == RENGA_PARTITION_TENSOR_AUTO ||
      partition->sequence == RENGA_PARTITION_TENSOR_AUTO)
    RengaCall(PlanBySearch(partition, ranks, &wish, made));
  else if (wish.costs)
    RengaCall(PredictCuts(partition, ranks, wish.batch, wish.microbatch, plan));
  if (!alone) return RENGA_SUCCESS;
  if (spares) {
    RengaCall(SpareByWork(partition, ranks, wish.batch, wish.microbatch, plan));
    if (wish.chunks > 1) RengaCall(PlaceStages(partition, plan));
  }
  RengaCall(ExplainCuts(wish.chunks, plan));
  return RENGA_SUCCESS;
}

/* Statistics over less than the batch that nobody asked for are told at once. */
static RengaErrorCode SayStatistics(RengaPartition partition, int ranks, RengaPlan plan)
{
  bool parts;
  const char *topic = "", *sentence = NULL;
  const bool given = partition->microbatch || partition->load;
  RengaCall(RengaPlanSayStatistics_Private(plan, partition->graph, given ? 0 : ranks, &parts));
  for (int r = 0; parts && !given && topic; r++) {
    RengaCall(RengaPlanGetReason(plan, r, &topic, &sentence));
    if (topic && !strcmp(topic, RENGA_PLAN_STATISTICS))
      RengaWarning(partition->hdr.comm, "%s", sentence);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSolve - make the plan

   Collective

   Input:
   . partition - the partition, with its graph

   Output:
   . plan - the caller frees it with RengaPlanDestroy()

   Errors: RENGA_ERR_ORDER without a network; RENGA_ERR_OPTION for settings that the type does
   not know; RENGA_ERR_PLAN where no plan of the wanted kind is possible, and RENGA_ERR_MEMORY
   where none fits the devices, with what is missing; RENGA_ERR_PLAN where ranks differ in network,
   settings, machine or what is asked for, which is named; of a measured or analytic profile, what
   RengaProfileGetCosts says. All ranks have the error, and there is no plan.

   Notes: where the number of lanes is open (RengaGraphSetLanes()) the graph may be in lanes
   afterwards: values are to be found by name again. An error says with numbers what does not fit.
   Ranks that are left over are idle; the view of the plan names them.

   See also: RengaPartitionSetFromOptions(), RengaPlanCheck(), RengaPipelineSetPlan()
@*/
RengaErrorCode RengaPartitionSolve(RengaPartition partition, RengaPlan *plan)
{
  RengaPlan made = NULL;
  RengaCheckPointer(partition);
  RengaCheckPointer(plan);
  RengaCheck(partition->graph, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaPartition has no graph: call RengaPartitionSetGraph first");
  RengaCall(RengaPartitionCheckAgreement_Private(partition));
  int ranks = partition->ranks ? partition->ranks : RengaCommGetSize(partition->hdr.owner);
  RengaErrorCode code =
      RengaErrorAgree(partition->hdr.comm, RengaPlanCreate(partition->hdr.owner, &made));
  if (code && made) RengaPlanDestroy(&made); /* others have none */
  RengaCall(code);
  code = partition->load ? RengaPartitionLoad_Private(partition, ranks, made)
                         : MakePlan(partition, ranks, &made);
  if (!code && RengaPlanGetLeaf(made) > 1) code = RengaPlanCheck(made, partition->graph, 0);
  if (!code) code = RengaPlanSetAvailableRanks(made, ranks);
  if (!code) code = RengaPlanSetMemoryLimit(made, partition->memory);
  if (!code) code = SayStatistics(partition, ranks, made);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (code) RengaPlanDestroy(&made);
  RengaCall(code);
  partition->hdr.state = RENGA_STATE_SOLVED;
  *plan = made;
  return RENGA_SUCCESS;
}
