/* What network and plan say of a run, the same on all ranks: nothing of it needs a rank. */
#include "pipelineimpl.h"
#include "renga/private/graph.h"
#include "renga/private/optimizer.h"
#include "renga/private/schedule.h"
#include <string.h>

/* The plan's batch, then those that were announced. */
static RengaErrorCode ListBatches(RengaPipeline pipeline, Outline *outline)
{
  RengaCall(RengaMalloc(1 + pipeline->n_short, &outline->batch));
  RengaCall(RengaPlanGetBatch(pipeline->plan, &outline->batch[0], &outline->microbatch));
  for (int i = 0; i < pipeline->n_short; i++) outline->batch[1 + i] = pipeline->short_batch[i];
  outline->n_batches = 1 + pipeline->n_short;
  return RENGA_SUCCESS;
}

/* What a stage reads of parameters. */
typedef struct {
  int64_t elements, parameters;
} StageReading;

/* of: [stages] zeros. reader: [values] zeros, then one more than the stage that read it last. */
static void CountStageReadings(const Outline *outline, const RengaGraphRows *rows, int reader[],
                               StageReading of[])
{
  for (int n = 0, stage = 0; n < RengaGraphGetNodeCount(outline->graph); n++) {
    const RengaGraphRow *node = &rows->node[n];
    while (n >= RengaPlanGetStage(outline->plan, stage)->last) stage++;
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] < 0 || reader[node->in[i]] == stage + 1) continue;
      reader[node->in[i]] = stage + 1;
      if (rows->source[node->in[i]].kind != RENGA_VALUE_PARAMETER) continue;
      of[stage].elements +=
          RengaTensorSpecCount(&RengaGraphGetValue(outline->graph, node->in[i])->spec);
      of[stage].parameters++;
    }
  }
}

static int64_t LesserOf(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int CountBucketsOf(const Outline *outline, const StageReading *reading)
{
  const int64_t given = outline->settings->bucket_size, size = given ? given : RENGA_BUCKET_SIZE;
  const int64_t bytes = reading->elements * (int64_t)RengaDataTypeSize(RENGA_FLOAT32);
  const int64_t wanted = LesserOf((bytes + size - 1) / size, reading->parameters);
  const int64_t most = given ? RENGA_BUCKETS_MOST : RENGA_BUCKETS_ENOUGH;
  return wanted > 1 ? (int)LesserOf(wanted, most) : 1;
}

/* Sums that go on beside backward: those that Renga makes itself, and NCCL's, which may be the
   transport where nobody says which, of devices whose memory is not the host's. */
static bool GoesOnBeside(const Outline *outline)
{
  const RengaSettings settings = outline->settings;
  if (RengaSettingsIsOrdered_Private(settings) ||
      strcmp(settings->transport, RENGA_TRANSPORT_NCCL) == 0)
    return true;
  return strcmp(settings->transport, RENGA_TRANSPORT_AUTO) == 0 && settings->device &&
         !RengaDeviceIsHost(settings->device);
}

/* Of gradients whose sums begin inside the last backward: parts of a size that hides most. */
static bool IsCutBySize(const Outline *outline, int stage)
{
  const RengaSettings settings = outline->settings;
  if (settings->bucket_size > 0) return true;
  return settings->buckets == 0 && settings->overlap && GoesOnBeside(outline) &&
         RengaPlanGetStage(outline->plan, stage)->shape.replicas > 1;
}

/* Where gradients are folded (reducescatter.c) and nothing was said one bucket would hold all of
   them. */
static int FewestBuckets(const Outline *outline, int stage)
{
  const RengaSettings settings = outline->settings;
  const RengaShard shard = RengaPlanGetStage(outline->plan, stage)->shape.shard;
  if (settings->buckets > 0) return settings->buckets;
  return shard >= RENGA_SHARD_GRADIENTS && settings->bucket_size == 0 ? RENGA_BUCKETS_FOLDED : 1;
}

/* As many as the settings say, or of the size that they say, or of one of Renga's: no more than
   there are parameters, which buckets have as a whole. */
static RengaErrorCode CountOutlineBuckets(Outline *outline)
{
  bool cut = false;
  int *reader;
  StageReading *of = NULL;
  const RengaGraphRows *rows;
  RengaCall(RengaMalloc(outline->stages + 1, &outline->buckets));
  for (int s = 0; s < outline->stages; s++) {
    outline->buckets[s] = FewestBuckets(outline, s);
    cut = cut || IsCutBySize(outline, s);
  }
  if (!cut) return RENGA_SUCCESS;
  RengaCall(RengaGraphGetRows_Private(outline->graph, &rows));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(outline->graph) + 1, &reader));
  const RengaErrorCode code = RengaMalloc(outline->stages + 1, &of);
  if (!code) CountStageReadings(outline, rows, reader, of);
  for (int s = 0; s < outline->stages && !code; s++)
    if (IsCutBySize(outline, s) && CountBucketsOf(outline, &of[s]) > FewestBuckets(outline, s))
      outline->buckets[s] = CountBucketsOf(outline, &of[s]);
  RengaFree(&of);
  RengaFree(&reader);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOutline(RengaPipeline pipeline, Outline *outline)
{
  RengaValue loss;
  outline->stages = RengaPlanGetStageCount(pipeline->plan);
  outline->leaf = RengaPlanGetLeaf(pipeline->plan);
  RengaCall(CountOutlineBuckets(outline));
  RengaCall(ListBatches(pipeline, outline));
  RengaCall(RengaGraphGetLoss(pipeline->graph, &loss));
  outline->has_loss = loss != RENGA_VALUE_NONE;
  RengaCall(RengaOutlineFindParts_Private(outline));
  RengaCall(RengaPlanGetMessages(pipeline->plan, pipeline->graph, &outline->n_messages,
                                 &outline->message));
  RengaCall(RengaOutlineMarkRows_Private(outline));
  return RENGA_SUCCESS;
}

/* Of the pipeline's network, plan and settings, which it lends. */
RengaErrorCode RengaOutlineRead_Private(RengaPipeline pipeline, Outline *outline)
{
  Outline made = {.owner = pipeline->hdr.owner,
                  .graph = pipeline->graph,
                  .plan = pipeline->plan,
                  .settings = pipeline->settings};
  const RengaErrorCode code = ReadOutline(pipeline, &made);
  if (code) RengaOutlineFree_Private(&made);
  RengaCall(code);
  *outline = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOutlineFree_Private(Outline *outline)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int s = 0; s < outline->n_schedules; s++) {
    RengaKeepFirst_Private(&code, RengaScheduleDestroy(&outline->schedule[s].schedule));
    RengaFree(&outline->schedule[s].turn);
  }
  RengaFree(&outline->schedule);
  RengaFree(&outline->message);
  RengaFree(&outline->batch);
  RengaFree(&outline->tables);
  RengaFree(&outline->parts);
  RengaFree(&outline->number);
  RengaFree(&outline->buckets);
  *outline = (Outline){0};
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOutlineIsFrozen_Private(const Outline *outline, const RengaGraphValue *value,
                                            bool *frozen)
{
  double rate_scale, weight_decay;
  bool grouped = false;
  if (value->kind == RENGA_VALUE_PARAMETER)
    RengaCall(RengaOptimizerGetGroup(outline->settings->optimizer, value->name, &rate_scale,
                                     &weight_decay, &grouped));
  *frozen = value->frozen || grouped;
  return RENGA_SUCCESS;
}

/* Of a step of all that are known. */
int64_t RengaOutlineMostMicrobatches_Private(const Outline *outline)
{
  int64_t most = 0;
  for (int i = 0; i < outline->n_batches; i++) {
    const int64_t count = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    if (count > most) most = count;
  }
  return most;
}
