/* Set-up: the ranks agree on what they run, split into groups, and each makes its stage ready. All
   that it makes is forgotten again where it fails. */
#include "exchange.h"
#include "gradients.h"
#include "rows.h"
#include "updates.h"
#include "window.h"
#include "renga/private/device.h"
#include "renga/private/optimizer.h"
#include "renga/private/plan.h"

/* A pattern that fits no parameter of the whole network is a slip of the pen. */
RengaErrorCode RengaPipelineCheckGroups_Private(RengaPipeline pipeline)
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

/* What was announced can be scheduled. Every step of a network that is read for whole batches is
   one. */
static RengaErrorCode CheckShortBatches(RengaPipeline pipeline)
{
  int64_t whole, batch, microbatch;
  RengaCall(RengaPlanGetBatch(pipeline->plan, &batch, &microbatch));
  for (int i = 0; i < pipeline->n_short; i++)
    RengaCall(RengaPlanCheckMicrobatches_Private(pipeline->hdr.comm, pipeline->short_batch[i],
                                                 microbatch));
  RengaCall(RengaGraphGetWholeBatch(pipeline->graph, &whole));
  for (int i = 0; i < pipeline->n_short && whole > 0; i++)
    RengaCheck(pipeline->short_batch[i] == whole, pipeline->hdr.comm, RENGA_ERR_PLAN,
               "the network is read for batches of %lld that are never cut, but some steps have "
               "%lld samples; such a network needs data whose samples (also -eval_samples) are a "
               "multiple of the batch",
               (long long)whole, (long long)pipeline->short_batch[i]);
  return RENGA_SUCCESS;
}

/* What settings and plan say of stages per rank. */
static RengaErrorCode CheckChunks(RengaPipeline pipeline)
{
  const int chunks = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  const int wanted = pipeline->settings->chunks;
  RengaCheck(!wanted || wanted == chunks, pipeline->hdr.comm, RENGA_ERR_PLAN,
             "the settings ask for %d virtual stages per rank (-layout_chunks), but the plan has "
             "%d: make the plan with these settings, or leave the option out",
             wanted, chunks);
  return RENGA_SUCCESS;
}

/* Replicas that share gradients take micro-batches in turn, in all stages alike
   (microbatchorder.c), and add them up in order. */
static RengaErrorCode CheckFolds(RengaPipeline pipeline, int s)
{
  const RengaStageShape *shape = &RengaPlanGetStage(pipeline->plan, s)->shape;
  const RengaSettings settings = pipeline->settings;
  const char *name = RengaShardName(shape->shard);
  RengaSparse sparse;
  for (int t = 0; t < RengaPlanGetStageCount(pipeline->plan); t++) {
    const RengaStageShape *other = &RengaPlanGetStage(pipeline->plan, t)->shape;
    RengaCheck(other->replicas == shape->replicas && other->shard >= RENGA_SHARD_GRADIENTS,
               pipeline->hdr.comm, RENGA_ERR_SUPPORT,
               "stage %d has %d replicas and shards %s, stage %d has %d and shards %s: where one "
               "stage shards gradients all must, with as many replicas (-layout_zero 1 "
               "needs neither)",
               s, shape->replicas, name, t, other->replicas, RengaShardName(other->shard));
  }
  RengaCheck(RengaSettingsIsOrdered_Private(settings), pipeline->hdr.comm, RENGA_ERR_SUPPORT,
             "-layout_zero %d adds gradients in order: it does not go with -pipeline_reduction "
             "unordered; use -layout_zero 1",
             (int)shape->shard);
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &sparse));
  RengaCheck(sparse != RENGA_SPARSE_LAZY, pipeline->hdr.comm, RENGA_ERR_SUPPORT,
             "-layout_zero %d does not go with -optimizer_sparse lazy yet: use -layout_zero 1",
             (int)shape->shard);
  return RENGA_SUCCESS;
}

/* What settings and plan say of shards. A rule of the program may need all of a parameter. */
static RengaErrorCode CheckSharding(RengaPipeline pipeline)
{
  RengaShard wanted;
  const bool said = RengaSettingsFindShard_Private(pipeline->settings, &wanted);
  const char *type;
  RengaCall(RengaOptimizerGetType(pipeline->optimizer, &type));
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaShard shard = RengaPlanGetStage(pipeline->plan, s)->shape.shard;
    RengaCheck(!said || shard == wanted, pipeline->hdr.comm, RENGA_ERR_PLAN,
               "the settings ask for -layout_zero %d, but stage %d of the plan shards %s: make "
               "the plan with these settings, or leave the option out",
               (int)wanted, s, RengaShardName(shard));
    RengaCheck(shard == RENGA_SHARD_NOTHING ||
                   !RengaOptimizerIsOutside_Private(pipeline->optimizer),
               pipeline->hdr.comm, RENGA_ERR_SUPPORT,
               "stage %d shards the optimizer (-layout_zero %d), and it is not known whether "
               "the program's own rule %s may update parts of parameters: use -layout_zero 0",
               s, (int)shard, type);
    if (shard >= RENGA_SHARD_GRADIENTS && RengaPlanGetStage(pipeline->plan, s)->shape.replicas > 1)
      RengaCall(CheckFolds(pipeline, s));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOffloadedTensors(RengaPipeline pipeline)
{
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++)
    RengaCheck(RengaPlanGetStage(pipeline->plan, s)->shape.saved == RENGA_SAVED_OFFLOAD,
               pipeline->hdr.comm, RENGA_ERR_PLAN,
               "the settings ask for -layout_offload %s, but stage %d of the plan offloads no "
               "saved activations: make the plan with these settings, or leave the option out",
               RengaOffloadName(pipeline->settings->offload), s);
  return RENGA_SUCCESS;
}

/* What settings and plan say of recomputation. */
static RengaErrorCode CheckRecomputation(RengaPipeline pipeline)
{
  RengaSaved wanted;
  if (!RengaSettingsFindSaved_Private(pipeline->settings, &wanted)) return RENGA_SUCCESS;
  if (wanted == RENGA_SAVED_OFFLOAD) return CheckOffloadedTensors(pipeline);
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaSaved saved = RengaPlanGetStage(pipeline->plan, s)->shape.saved;
    RengaCheck(saved == wanted, pipeline->hdr.comm, RENGA_ERR_PLAN,
               "the settings ask for -layout_recompute %s, but stage %d of the plan %s: make the "
               "plan with these settings, or leave the option out",
               RengaRecomputeName(pipeline->settings->recompute), s,
               saved == RENGA_SAVED_RECOMPUTE ? "recomputes" : "recomputes nothing");
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOffloadedMoments(RengaPipeline pipeline)
{
  MPI_Comm comm = pipeline->hdr.comm;
  const char *const *names, *optimizer;
  RengaSparse sparse;
  int moments = 0;
  if (!RengaSettingsOffloadsMoments_Private(pipeline->settings)) return RENGA_SUCCESS;
  RengaCall(RengaOptimizerGetType(pipeline->optimizer, &optimizer));
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &moments, &names));
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &sparse));
  RengaCheck(moments > 0, comm, RENGA_ERR_SUPPORT,
             "-layout_offload optimizer: %s as it is set has no moments that could be offloaded: "
             "leave the option out",
             optimizer);
  RengaCheck(!RengaOptimizerIsOutside_Private(pipeline->optimizer), comm, RENGA_ERR_SUPPORT,
             "-layout_offload optimizer: it is not known whether the program's own rule %s may "
             "update parts of parameters: leave the option out",
             optimizer);
  RengaCheck(sparse != RENGA_SPARSE_LAZY, comm, RENGA_ERR_SUPPORT,
             "-layout_offload optimizer does not go with -optimizer_sparse lazy, whose rows are "
             "updated on the device: leave one of the two out");
  return RENGA_SUCCESS;
}

/* ranks 0: the device may be that of another machine. */
static RengaErrorCode CheckOffload(RengaPipeline pipeline, int ranks)
{
  bool offloads = pipeline->settings->offload != RENGA_OFFLOAD_NONE;
  const char *type;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++)
    offloads = offloads || RengaPlanGetStage(pipeline->plan, s)->shape.saved == RENGA_SAVED_OFFLOAD;
  RengaCall(RengaDeviceGetType(pipeline->device, &type));
  RengaCheck(!offloads || !ranks || !RengaDeviceIsHost(pipeline->device), pipeline->hdr.comm,
             RENGA_ERR_SUPPORT,
             "offloading (-layout_offload %s, or as the plan says): the memory of device %s is the "
             "host's already: leave it out",
             RengaOffloadName(pipeline->settings->offload), type);
  RengaCall(CheckOffloadedMoments(pipeline));
  return RENGA_SUCCESS;
}

/* ranks 0: however many there will be, to forecast what they take; the optimizer, whose number of
   steps need not be known then, is not set up. */
RengaErrorCode RengaPipelineCheckParts_Private(RengaPipeline pipeline, int ranks)
{
  RengaCheck(pipeline->plan && pipeline->graph, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the pipeline has no plan: call RengaPipelineSetPlan first");
  RengaCall(RengaPlanCheck(pipeline->plan, pipeline->graph, ranks));
  RengaCall(CheckChunks(pipeline));
  RengaCall(CheckSharding(pipeline));
  RengaCall(RengaPipelineCheckRows_Private(pipeline));
  RengaCall(CheckRecomputation(pipeline));
  RengaCall(CheckOffload(pipeline, ranks));
  RengaCall(RengaPipelineCheckTensor_Private(pipeline));
  RengaCall(CheckShortBatches(pipeline));
  if (ranks) RengaCall(RengaOptimizerSetUp(pipeline->optimizer));
  RengaCall(RengaPipelineCheckGroups_Private(pipeline));
  return RENGA_SUCCESS;
}

/* Where groups of replicas are asked for and none are made; all stages share gradients alike. */
static void WarnOfGroups(RengaPipeline pipeline)
{
  const int groups = pipeline->settings->shard_groups;
  const RengaStageShape *shape = &RengaPlanGetStage(pipeline->plan, 0)->shape;
  if (groups == 1) return;
  if (shape->shard < RENGA_SHARD_GRADIENTS || shape->replicas == 1)
    RengaWarning(pipeline->hdr.comm,
                 "-layout_zero_groups %d is for replicas that shard gradients (-layout_zero 2, 3); "
                 "those of the plan do not",
                 groups);
  else if (shape->replicas % groups != 0)
    RengaWarning(
        pipeline->hdr.comm,
        "%d replicas do not make %d equal groups (-layout_zero_groups): they are one group",
        shape->replicas, groups);
}

static RengaErrorCode CheckParts(RengaPipeline pipeline)
{
  RengaPrecision precision;
  RengaCall(RengaPipelineCheckParts_Private(pipeline, RengaCommGetSize(pipeline->hdr.owner)));
  RengaCall(RengaGraphGetPrecision(pipeline->graph, &precision));
  RengaCall(RengaDeviceCheckPrecision_Private(pipeline->device, precision));
  WarnOfGroups(pipeline);
  return RENGA_SUCCESS;
}

/* Collective. */
RengaErrorCode RengaPipelineSetUpDevice_Private(RengaPipeline pipeline)
{
  RengaCall(RengaDeviceSetUp(pipeline->device));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRanks(RengaPipeline pipeline)
{
  const int rank = RengaCommGetRank(pipeline->hdr.owner);
  const int size = RengaCommGetSize(pipeline->hdr.owner);
  Togetherness *together = &pipeline->rank->together;
  RengaCall(RengaCommSplit(pipeline->hdr.owner, 0, rank, &pipeline->rank->all));
  RengaCall(RengaCommSplit(pipeline->hdr.owner, 0, rank, &together->side));
  RengaCall(RengaMalloc(size, &together->standing));
  RengaCall(RengaMalloc(size, &together->heard));
  RengaCall(RengaMalloc(size, &together->notice));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOutline(RengaPipeline pipeline)
{
  RengaCall(RengaOutlineRead_Private(pipeline, pipeline->outline));
  RengaCall(RengaLossScaleSetUp_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeChunk(RengaPipeline pipeline, const RengaPlanPlace *place)
{
  Chunk *chunk = &pipeline->rank->chunk[pipeline->rank->n_chunks++];
  RengaCall(RengaChunkBegin_Private(pipeline->outline, place->stage, chunk));
  chunk->pipeline = pipeline;
  chunk->replica = place->replica;
  chunk->tensor.rank =
      RengaShapeMember_Private(&RengaPlanGetStage(pipeline->plan, place->stage)->shape, place);
  RengaCall(RengaChunkSetUp_Private(chunk));
  return RENGA_SUCCESS;
}

/* One of each of the rank's stages, in their order. */
static RengaErrorCode MakeChunks(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  const int most = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  RengaPlanPlace *place;
  int count;
  RengaCall(RengaMalloc(most, &place));
  RengaErrorCode code =
      RengaPlanFindPlaces(pipeline->plan, RengaCommGetRank(rank->all), most, place, &count);
  if (!code && count > 0) code = RengaMalloc(count, &rank->chunk);
  for (int c = 0; c < count && !code; c++) code = MakeChunk(pipeline, &place[c]);
  RengaFree(&place);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Collective; chunk NULL: this rank has none. */
static RengaErrorCode MakeGroup(RengaPipeline pipeline, Chunk *chunk)
{
  RengaComm group = NULL, again = NULL;
  bool fetches = false;
  for (int s = 0; s < pipeline->outline->stages; s++)
    fetches = fetches || RengaOutlineFetches_Private(pipeline->outline, s);
  const int color = chunk ? chunk->stage * chunk->tensor.group.size + chunk->tensor.rank : -1;
  RengaCall(RengaCommSplit(pipeline->rank->all, color, chunk ? chunk->replica : 0, &group));
  if (chunk) chunk->group = group;
  if (!fetches) return RENGA_SUCCESS;
  const bool own = chunk && RengaChunkFetches_Private(chunk);
  RengaCall(RengaCommSplit(pipeline->rank->all, own ? color : -1,
                           own ? RengaChunkPlace_Private(chunk, chunk->replica) : 0, &again));
  if (own) chunk->window->comm = again;
  return RENGA_SUCCESS;
}

/* Where groups of replicas add up by themselves first. Collective; chunk NULL: this rank has
   none. */
static RengaErrorCode MakeFoldGroups(RengaPipeline pipeline, Chunk *chunk)
{
  RengaComm none = NULL, all = pipeline->rank->all;
  int groups = 1;
  for (int s = 0; s < pipeline->outline->stages; s++)
    if (RengaOutlineGroups_Private(pipeline->outline, s) > 1)
      groups = RengaOutlineGroups_Private(pipeline->outline, s);
  if (groups == 1) return RENGA_SUCCESS;
  const bool own = chunk && RengaChunkGroups_Private(chunk) > 1;
  GradientFold *fold = own ? &chunk->gradients->fold : NULL;
  const int each = own ? RengaChunkEach_Private(chunk) : 1, replica = own ? chunk->replica : 0;
  const int color = own ? chunk->stage * chunk->tensor.group.size + chunk->tensor.rank : -1;
  RengaCall(RengaCommSplit(all, color, own ? RengaChunkPlace_Private(chunk, replica) : 0,
                           own ? &fold->owners : &none));
  RengaCall(RengaCommSplit(all, own ? color * groups + replica / each : -1, replica,
                           own ? &fold->inner : &none));
  RengaCall(RengaCommSplit(all, own ? color * each + replica % each : -1, replica,
                           own ? &fold->across : &none));
  return RENGA_SUCCESS;
}

/* Collective: the replicas of each stage. All ranks split for the first stage of each, then for
   the second, and so on. */
static RengaErrorCode MakeGroups(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  const int rounds = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  for (int c = 0; c < rounds; c++)
    RengaCall(RengaErrorAgree(pipeline->hdr.comm,
                              MakeGroup(pipeline, c < rank->n_chunks ? &rank->chunk[c] : NULL)));
  for (int c = 0; c < rounds; c++)
    RengaCall(RengaErrorAgree(
        pipeline->hdr.comm, MakeFoldGroups(pipeline, c < rank->n_chunks ? &rank->chunk[c] : NULL)));
  return RENGA_SUCCESS;
}

/* Collective. */
static RengaErrorCode MakeTransport(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  RengaCall(RengaTransportCreate_Private(rank->all, pipeline->device, pipeline->settings->transport,
                                         &rank->transport));
  return RENGA_SUCCESS;
}

/* The moments are known on idle ranks too. */
static RengaErrorCode FindMoments(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &rank->n_moments, &rank->moment));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeMemory(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  if (!RengaDeviceIsHost(pipeline->device)) {
    RengaCall(RengaStreamCreate(pipeline->device, &rank->copies));
    RengaCall(RengaEventCreate(pipeline->device, &rank->updated));
  }
  RengaCall(RengaPipelineSetUpArena_Private(pipeline));
  return RENGA_SUCCESS;
}

/* All chunks take part, also behind one that failed: their replicas wait for it. */
static RengaErrorCode ShareGradients(RengaPipeline pipeline)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaKeepFirst_Private(&code, RengaChunkShareGradients_Private(&pipeline->rank->chunk[c]));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeValues(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineSetUpPersistents_Private(pipeline));
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline)); /* constants lie in the network */
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaChunkSetBases_Private(&pipeline->rank->chunk[c], true, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinSums(RengaPipeline pipeline)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(RengaChunkJoinSums_Private(&pipeline->rank->chunk[c]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowTransport(RengaPipeline pipeline)
{
  RengaCall(RengaTransportShow_Private(pipeline->rank->transport, pipeline->hdr.owner));
  return RENGA_SUCCESS;
}

/* The schedule's lists, where they are in a file. */
static RengaErrorCode ShareLists(RengaPipeline pipeline)
{
  const char *planned, *type;
  RengaCall(RengaPlanGetSchedule(pipeline->plan, &planned));
  RengaCall(RengaSettingsGetSchedule(pipeline->settings, &type));
  RengaCall(RengaScheduleShareLists(pipeline->rank->all, type ? type : planned));
  return RENGA_SUCCESS;
}

/* What the first messages depend on: threads are counted together where none says how many. */
static RengaErrorCode CheckSameStart(RengaPipeline pipeline)
{
  RengaSettingList list = {0};
  const RengaDevice device = pipeline->device;
  RengaSettingAddText_Private(&list, "device type", device->hdr.type_name);
  RengaSettingAddInt64_Private(&list, "device_threads", device->options.threads == 0);
  RengaCall(RengaCommCheckSame_Private(pipeline->hdr.owner, RENGA_ERR_PLAN,
                                       "all ranks to set up the pipeline", &list));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunPhases(RengaPipeline pipeline)
{
  static RengaErrorCode (*const phase[])(RengaPipeline) = {CheckParts,
                                                           CheckSameStart,
                                                           RengaPipelineSetUpDevice_Private,
                                                           MakeRanks,
                                                           ShareLists,
                                                           MakeOutline,
                                                           RengaPipelineCheckAgreement_Private,
                                                           MakeChunks,
                                                           MakeGroups,
                                                           MakeTransport,
                                                           RengaPipelineConnect_Private,
                                                           FindMoments,
                                                           RengaPipelineSizeArena_Private,
                                                           RengaPipelineAgreeOnChoices_Private,
                                                           MakeMemory,
                                                           ShareGradients,
                                                           RengaPipelineCheckEntries_Private,
                                                           MakeValues,
                                                           JoinSums,
                                                           RengaPipelineMakeGate_Private,
                                                           ShowTransport};
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

   Errors: RENGA_ERR_ORDER without a plan; RENGA_ERR_PLAN for a plan that is not of this network,
   these ranks or these settings, and where ranks differ in anything on which results depend
   (network, plan, schedule, seed, settings of the optimizer, ...): they are named;
   RENGA_ERR_SUPPORT for settings that do not go together; RENGA_ERR_MEMORY where the stage needs
   more than the plan's bound, or than there is. An error on one rank is an error on all. After an
   error the pipeline is as before: its settings may be changed, and it may be set up.

   Notes: all memory of the device is forecast, checked against the plan's bound
   (-partition_memory), and taken here. The first values of the parameters follow from their names
   and the seed, or are read from the network's file; RengaPipelineSetParameter gives others.

   See also: RengaPipelineCreate(), RengaPipelineSetPlan(), RengaPipelineReset(),
   RengaPipelineForecastStage()
@*/
RengaErrorCode RengaPipelineSetUp(RengaPipeline pipeline)
{
  RengaCheckPointer(pipeline);
  if (pipeline->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_SETUP));
  const RengaErrorCode code = RunPhases(pipeline);
  if (code) RengaPipelineForget_Private(pipeline);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_SETUP), 0, 0, 0);
  RengaCall(code);
  RengaSettingsHold_Private(pipeline->settings);
  pipeline->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineReset - forget all that RengaPipelineSetUp made

   Collective

   Input:
   . pipeline - the pipeline; it keeps its settings and the number of steps done

   Errors: RENGA_ERR_ORDER for a pipeline that can only be destroyed (RengaPipelineStep).

   Notes: parameters, moments and states are lost: take them with RengaPipelineGetParameter or a
   checkpoint before. Then all settings may be changed, and RengaPipelineSetUp makes the pipeline
   anew.

   See also: RengaPipelineSetUp(), RengaPipelineDestroy()
@*/
RengaErrorCode RengaPipelineReset(RengaPipeline pipeline)
{
  RengaCheckPointer(pipeline);
  RengaCall(RengaPipelineCheckWhole_Private(pipeline));
  if (pipeline->hdr.state >= RENGA_STATE_SETUP) RengaSettingsRelease_Private(pipeline->settings);
  pipeline->hdr.state = RENGA_STATE_NEW;
  RengaCall(RengaPipelineForget_Private(pipeline));
  return RENGA_SUCCESS;
}
