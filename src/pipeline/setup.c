/* Set-up: the ranks agree on what they run, split into groups, and each makes its stage ready. All
   that it makes is forgotten again where it fails. */
#include "pipelineimpl.h"
#include "renga/private/plan.h"
#include <string.h>

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
             "the settings ask for %d stages per rank (-pipeline_chunks), but the plan has %d: "
             "make the plan with these settings, or leave the option out",
             wanted, chunks);
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
  RengaCall(CheckShortBatches(pipeline));
  if (ranks) RengaCall(RengaOptimizerSetUp(pipeline->optimizer));
  RengaCall(RengaPipelineCheckGroups_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckParts(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineCheckParts_Private(pipeline, RengaCommGetSize(pipeline->hdr.owner)));
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
  Togetherness *together = &pipeline->rank.together;
  RengaCall(RengaCommSplit(pipeline->hdr.owner, 0, rank, &pipeline->rank.all));
  RengaCall(RengaCommSplit(pipeline->hdr.owner, 0, rank, &together->side));
  RengaCall(RengaMalloc(size, &together->standing));
  RengaCall(RengaMalloc(size, &together->heard));
  RengaCall(RengaMalloc(size, &together->notice));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOutline(RengaPipeline pipeline)
{
  RengaCall(RengaOutlineRead_Private(pipeline, &pipeline->outline));
  RengaCall(RengaLossScaleSetUp_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeChunk(RengaPipeline pipeline, const RengaPlanPlace *place)
{
  Chunk *chunk = &pipeline->rank.chunk[pipeline->rank.n_chunks++];
  RengaCall(RengaChunkBegin_Private(&pipeline->outline, place->stage, chunk));
  chunk->pipeline = pipeline;
  chunk->replica = place->replica;
  RengaCall(RengaChunkSetUp_Private(chunk));
  return RENGA_SUCCESS;
}

/* One of each of the rank's stages, in their order. */
static RengaErrorCode MakeChunks(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
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
  RengaComm group = NULL;
  RengaCall(RengaCommSplit(pipeline->rank.all, chunk ? chunk->stage : -1,
                           chunk ? chunk->replica : 0, &group));
  if (chunk) chunk->group = group;
  return RENGA_SUCCESS;
}

/* Collective: the replicas of each stage. All ranks split for the first stage of each, then for
   the second, and so on. */
static RengaErrorCode MakeGroups(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
  const int rounds = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  for (int c = 0; c < rounds; c++)
    RengaCall(RengaErrorAgree(pipeline->hdr.comm,
                              MakeGroup(pipeline, c < rank->n_chunks ? &rank->chunk[c] : NULL)));
  return RENGA_SUCCESS;
}

/* Collective; what it takes of the device for a moment it gives back before the memory is made. */
static RengaErrorCode ConnectRanks(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
  RengaCall(RengaTransportCreate_Private(rank->all, pipeline->device, pipeline->settings->transport,
                                         &rank->transport));
  RengaCall(RengaPipelineConnect_Private(pipeline));
  return RENGA_SUCCESS;
}

/* The moments are known on idle ranks too. */
static RengaErrorCode MakeMemory(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &rank->n_moments, &rank->moment));
  if (!RengaDeviceIsHost(pipeline->device)) {
    RengaCall(RengaStreamCreate(pipeline->device, &rank->copies));
    RengaCall(RengaEventCreate(pipeline->device, &rank->updated));
  }
  RengaCall(RengaPipelineSetUpArena_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeValues(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineSetUpPersistents_Private(pipeline));
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline)); /* constants lie in the network */
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    RengaChunkSetBases_Private(&pipeline->rank.chunk[c], true, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowTransport(RengaPipeline pipeline)
{
  RengaCall(RengaTransportShow_Private(pipeline->rank.transport, pipeline->hdr.owner));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunPhases(RengaPipeline pipeline)
{
  static RengaErrorCode (*const phase[])(RengaPipeline) = {CheckParts,
                                                           RengaPipelineSetUpDevice_Private,
                                                           MakeRanks,
                                                           MakeOutline,
                                                           RengaPipelineCheckAgreement_Private,
                                                           MakeChunks,
                                                           MakeGroups,
                                                           ConnectRanks,
                                                           MakeMemory,
                                                           MakeValues,
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

   Errors: an error on one rank is an error on all. Ranks that differ in anything on which results
   depend (network, plan, schedule, seed, settings of the optimizer, ...) are named. After an error
   the pipeline is as before: its settings may be changed, and it may be set up.

   Notes: all memory of the device is forecast, checked against the plan's bound
   (-partition_memory), and taken here. The first values of the parameters follow from their names
   and the seed, or are read from the network's file; RengaPipelineSetParameter gives others.
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
