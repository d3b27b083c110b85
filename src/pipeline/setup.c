/* Set-up: the ranks agree on what they run, split into groups, and each makes its stage ready. */
#include "pipelineimpl.h"
#include <string.h>

/* A pattern that fits no parameter of the whole network is a slip of the pen. */
static RengaErrorCode CheckGroups(RengaPipeline pipeline)
{
  const int n_values = RengaGraphGetValueCount(pipeline->graph);
  const char **names;
  int count = 0;
  RengaCall(RengaMalloc(n_values, &names));
  for (RengaValue v = 0; v < n_values; v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
    if (value->kind == RENGA_VALUE_PARAMETER) names[count++] = value->name;
  }
  const RengaErrorCode code = RengaOptimizerCheckGroups(pipeline->optimizer, count, names);
  RengaFree(&names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ranks 0: however many there will be, to forecast what they take; the optimizer, whose number of
   steps need not be known then, is not set up. */
RengaErrorCode RengaPipelineCheckParts_Private(RengaPipeline pipeline, int ranks)
{
  RengaCheck(pipeline->plan && pipeline->graph, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the pipeline has no plan: call RengaPipelineSetPlan first");
  RengaCall(RengaPlanCheck(pipeline->plan, pipeline->graph, ranks));
  RengaCall(RengaDeviceSetUp(pipeline->device));
  RengaCheck(RengaDeviceIsHost(pipeline->device), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "messages from memory that is not the host's are not supported yet");
  if (ranks) RengaCall(RengaOptimizerSetUp(pipeline->optimizer));
  RengaCall(CheckGroups(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckParts(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineCheckParts_Private(pipeline, RengaCommGetSize(pipeline->hdr.owner)));
  return RENGA_SUCCESS;
}

static uint64_t HashPlan(RengaPipeline pipeline)
{
  uint64_t hash = 0;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(pipeline->plan, s);
    const int row[4] = {stage->first, stage->last, stage->replicas, stage->recompute};
    hash = RengaHash(row, sizeof row, hash);
    for (int r = 0; r < stage->replicas; r++) {
      const int rank = RengaPlanGetRank(pipeline->plan, s, r);
      hash = RengaHash(&rank, sizeof rank, hash);
    }
  }
  const int64_t sizes[3] = {pipeline->batch, pipeline->microbatch, pipeline->leaf};
  return RengaHash(sizes, sizeof sizes, hash);
}

static RengaErrorCode HashOptions(RengaPipeline pipeline, uint64_t *hash)
{
  const char *optimizer, *device;
  double rate;
  RengaCall(RengaOptimizerGetType(pipeline->optimizer, &optimizer));
  RengaCall(RengaOptimizerGetLearningRate(pipeline->optimizer, 0, &rate));
  RengaCall(RengaDeviceGetType(pipeline->device, &device));
  *hash = RengaHash(&pipeline->settings->seed, sizeof pipeline->settings->seed, 0);
  *hash = RengaHash(pipeline->settings->reduction, strlen(pipeline->settings->reduction), *hash);
  const char *schedule = pipeline->settings->schedule;
  if (schedule) *hash = RengaHash(schedule, strlen(schedule), *hash);
  *hash = RengaHash(&pipeline->settings->eager, sizeof pipeline->settings->eager, *hash);
  *hash = RengaHash(optimizer, strlen(optimizer), *hash);
  *hash = RengaHash(device, strlen(device), *hash);
  *hash = RengaHash(&rate, sizeof rate, *hash);
  for (int i = 0; i < pipeline->n_short; i++)
    *hash = RengaHash(&pipeline->short_batch[i], sizeof pipeline->short_batch[i], *hash);
  return RENGA_SUCCESS;
}

enum { N_HASHES = 3 };

static RengaErrorCode Compare(RengaPipeline pipeline, const uint64_t all[])
{
  static const char *const names[N_HASHES] = {
      "network", "plan", "options (seed, reduction, schedule, optimizer, device, short batches)"};
  for (int r = 1; r < RengaCommGetSize(pipeline->all); r++)
    for (int h = 0; h < N_HASHES; h++)
      RengaCheck(all[r * N_HASHES + h] == all[h], pipeline->hdr.comm, RENGA_ERR_PLAN,
                 "rank %d differs from rank 0 in its %s: all ranks must be given the same", r,
                 names[h]);
  return RENGA_SUCCESS;
}

/* Collective. */
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline)
{
  uint64_t mine[N_HASHES] = {RengaGraphGetDigest(pipeline->graph), HashPlan(pipeline)}, *all;
  RengaCall(HashOptions(pipeline, &mine[2]));
  RengaCall(RengaMalloc(N_HASHES * RengaCommGetSize(pipeline->all), &all));
  RengaErrorCode code = RengaCommGather(pipeline->all, mine, sizeof mine, all, -1,
                                        "all ranks to set up the pipeline");
  if (code == RENGA_SUCCESS) code = Compare(pipeline, all);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What is the same on all ranks. */
RengaErrorCode RengaPipelineReadPlan_Private(RengaPipeline pipeline)
{
  RengaValue loss;
  RengaPlan plan = pipeline->plan;
  pipeline->stages = RengaPlanGetStageCount(plan);
  RengaCall(RengaPlanGetBatch(plan, &pipeline->batch, &pipeline->microbatch));
  pipeline->leaf = RengaPlanGetLeaf(plan);
  RengaCall(RengaGraphGetLoss(pipeline->graph, &loss));
  pipeline->has_loss = loss != RENGA_VALUE_NONE;
  pipeline->loss = RENGA_VALUE_NONE;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++)
    pipeline->n_network += RengaGraphGetValue(pipeline->graph, v)->kind == RENGA_VALUE_PARAMETER;
  RengaCall(RengaPlanGetMessages(plan, pipeline->graph, &pipeline->n_messages, &pipeline->message));
  RengaCall(RengaMalloc(pipeline->n_messages + 1, &pipeline->link));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeGroups(RengaPipeline pipeline)
{
  RengaCall(RengaCommSplit(pipeline->all, pipeline->stage, pipeline->replica, &pipeline->group));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeStage(RengaPipeline pipeline)
{
  int stage;
  RengaCall(RengaPlanFindRank(pipeline->plan, RengaCommGetRank(pipeline->all), &stage,
                              &pipeline->replica));
  if (stage >= 0) RengaCall(RengaPipelineSetUpStage_Private(pipeline, stage));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeMemory(RengaPipeline pipeline)
{
  if (pipeline->stage < 0) return RENGA_SUCCESS;
  RengaCall(RengaPipelineSetUpArena_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeValues(RengaPipeline pipeline)
{
  if (pipeline->stage < 0) return RENGA_SUCCESS;
  RengaCall(RengaPipelineSetUpPersistents_Private(pipeline));
  RengaPipelineSetBases_Private(pipeline, true, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunPhases(RengaPipeline pipeline)
{
  static RengaErrorCode (*const phase[])(RengaPipeline) = {CheckParts,
                                                           RengaPipelineReadPlan_Private,
                                                           RengaPipelineCheckAgreement_Private,
                                                           MakeStage,
                                                           MakeGroups,
                                                           MakeMemory,
                                                           MakeValues};
  for (size_t p = 0; p < sizeof phase / sizeof phase[0]; p++) {
    const RengaErrorCode mine = phase[p](pipeline);
    const RengaErrorCode all = RengaErrorAgree(pipeline->hdr.comm, mine);
    RengaCall(all);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetUp - make this rank's stage ready to run

   Collective

   Input:
   . pipeline - the pipeline, with its plan

   Notes: an error on one rank is an error on all. All memory of the device is forecast, checked
   against the plan's bound (-partition_memory), and taken here. The first values of the parameters
   follow from their names and the seed, or are read from the network's file.
@*/
RengaErrorCode RengaPipelineSetUp(RengaPipeline pipeline)
{
  RengaCheckPointer(pipeline);
  if (pipeline->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_SETUP));
  RengaCall(RengaCommSplit(pipeline->hdr.owner, 0, RengaCommGetRank(pipeline->hdr.owner),
                           &pipeline->all));
  RengaCall(RunPhases(pipeline));
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_SETUP), 0, 0, 0);
  RengaSettingsHold_Private(pipeline->settings);
  pipeline->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}
