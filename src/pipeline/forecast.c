/* Programs, places and sizes of all that a stage keeps in memory. Set-up takes what is worked out
   here; a forecast for others (ask.c) runs the same code for any stage and takes nothing. */
#include "pipelineimpl.h"

/* Sizes of batches that are known to come: the plan's and the short ones. */
static int64_t BatchAt(RengaPipeline pipeline, int i)
{
  return i == 0 ? pipeline->batch : pipeline->short_batch[i - 1];
}

/* Whether some replica may add the gradients of a micro-batch to those of another. */
static bool MayAdd(RengaPipeline pipeline)
{
  if (!pipeline->has_loss || !RengaPipelineIsOrdered_Private(pipeline)) return false;
  for (int i = 0; i <= pipeline->n_short; i++)
    if (BatchAt(pipeline, i) > pipeline->microbatch) return true;
  return false;
}

static RengaErrorCode CompileSize(RengaPipeline pipeline, int64_t samples)
{
  Program *program;
  int count;
  const RengaValue *output;
  if (pipeline->has_loss)
    RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_TRAINING, samples, RENGA_VALUE_NONE,
                                              &program));
  RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_EVALUATION, samples, pipeline->loss,
                                            &program));
  if (MayAdd(pipeline)) RengaCall(RengaPipelineGetAdding_Private(pipeline, samples, &program));
  if (pipeline->n_sums > 0)
    RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_PROLOGUE, samples, RENGA_VALUE_NONE,
                                              &program));
  RengaCall(RengaGraphGetOutputs(pipeline->graph, &count, &output));
  for (int o = 0; o < count; o++) {
    const char *name = RengaGraphGetValue(pipeline->graph, output[o])->name;
    const RengaValue here = RengaGraphFindValue(pipeline->sub, name);
    if (here != RENGA_VALUE_NONE && RengaGraphGetValue(pipeline->sub, here)->producer >= 0)
      RengaCall(
          RengaPipelineGetProgram_Private(pipeline, PROGRAM_EVALUATION, samples, here, &program));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CompileAll(RengaPipeline pipeline)
{
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t samples = BatchAt(pipeline, i), rest = samples % pipeline->microbatch;
    if (samples >= pipeline->microbatch) RengaCall(CompileSize(pipeline, pipeline->microbatch));
    if (rest > 0) RengaCall(CompileSize(pipeline, rest));
  }
  for (int p = 0; p < pipeline->n_programs; p++) {
    const Program *program = pipeline->program[p];
    const bool training = program->kind == PROGRAM_TRAINING;
    int64_t *temporary = &pipeline->temporary_bytes[training];
    if (program->adds && RengaPipelineIsOrdered_Private(pipeline))
      temporary = &pipeline->adding_bytes;
    if (program->saved_bytes > pipeline->slot_bytes[training])
      pipeline->slot_bytes[training] = program->saved_bytes;
    if (program->sent_bytes > pipeline->sent_bytes[training])
      pipeline->sent_bytes[training] = program->sent_bytes;
    if (program->folded_bytes > pipeline->folded_bytes)
      pipeline->folded_bytes = program->folded_bytes;
    if (program->temporary_bytes > *temporary) *temporary = program->temporary_bytes;
  }
  return RENGA_SUCCESS;
}

/* Work memory of the sum over the replicas, the same on each of them: the most of all batches. */
static RengaErrorCode CountWork(RengaPipeline pipeline)
{
  const int replicas = pipeline->replicas;
  int64_t *bounds;
  pipeline->tree_work_bytes = 0;
  if (replicas == 1 || !RengaPipelineIsOrdered_Private(pipeline)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(replicas + 1, &bounds));
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t leaves = RengaPipelineLeaves_Private(
        pipeline, RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i)));
    for (int r = 0; r <= replicas; r++) bounds[r] = RengaPlanBound(leaves, replicas, r);
    const int64_t work = RengaAlign_Private(
        (int64_t)RengaCommTreeWork(replicas, leaves, bounds, pipeline->gradient_count));
    if ((size_t)work > pipeline->tree_work_bytes) pipeline->tree_work_bytes = (size_t)work;
  }
  RengaFree(&bounds);
  return RENGA_SUCCESS;
}

/* Micro-batches in flight: the most of all batches. */
static RengaErrorCode CountSlots(RengaPipeline pipeline)
{
  pipeline->slots = 1;
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t all = RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i));
    int64_t in_flight;
    RengaSchedule schedule;
    RengaCall(RengaPipelineGetShape_Private(pipeline, all, !pipeline->has_loss, &schedule));
    RengaCall(RengaScheduleGetInFlight(schedule, pipeline->stage, &in_flight));
    if (in_flight > pipeline->slots) pipeline->slots = (int)in_flight;
  }
  return RENGA_SUCCESS;
}

/* Micro-batches of this replica, and its buffers of the tree: the most of all batches. */
static RengaErrorCode CountShare(RengaPipeline pipeline, ReplicaShare *share)
{
  *share = (ReplicaShare){1, 1};
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t all = RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i));
    int64_t first, last;
    int buffers;
    RengaPipelineRange_Private(pipeline, all, &first, &last);
    RengaCall(RengaPipelineCountTreeBuffers_Private(pipeline, all, &buffers));
    if (last - first > share->most_local) share->most_local = last - first;
    if (buffers > share->n_buffers) share->n_buffers = buffers;
  }
  return RENGA_SUCCESS;
}

/* Instances of a message that a replica holds. */
static int64_t RingOf(const RengaPipeline pipeline, bool backward, int64_t most_local)
{
  const int64_t wanted = backward ? 2 : pipeline->slots + 1;
  return wanted < most_local ? wanted : most_local;
}

/* What is sent forward lies in its slot, anything else in instances of its own. */
static bool IsSaved(const RengaPipeline pipeline, int m)
{
  return !pipeline->link[m].incoming && !pipeline->message[m].backward;
}

static void SetRings(RengaPipeline pipeline, int64_t most_local)
{
  for (int m = 0; m < pipeline->n_messages; m++) {
    const bool backward = pipeline->message[m].backward;
    if (!pipeline->link[m].active) continue;
    pipeline->link[m].ring =
        (int)(IsSaved(pipeline, m) ? pipeline->slots : RingOf(pipeline, backward, most_local));
  }
}

static void CountLinkBytes(RengaPipeline pipeline)
{
  pipeline->instance_bytes[0] = pipeline->instance_bytes[1] = 0;
  for (int m = 0; m < pipeline->n_messages; m++)
    if (pipeline->link[m].active && !IsSaved(pipeline, m))
      pipeline->instance_bytes[pipeline->message[m].backward] += pipeline->link[m].bytes;
}

static void PlacePersistent(RengaPipeline pipeline)
{
  int64_t offset = pipeline->parameter_count * (int64_t)sizeof(float);
  for (int s = 0; s < pipeline->n_states; s++) {
    pipeline->state_offset[s] = offset;
    offset += RengaAlign_Private((int64_t)RengaTensorSpecBytes(
        &RengaGraphGetValue(pipeline->sub, pipeline->state[s])->spec));
  }
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->sub, v);
    if (value->kind != RENGA_VALUE_CONSTANT) continue;
    pipeline->value_place[v] = (Place){REGION_PERSISTENT, offset};
    offset += RengaAlign_Private((int64_t)RengaTensorSpecBytes(&value->spec));
  }
  for (int s = 0; s < pipeline->n_sums; s++) {
    pipeline->sum[s].offset = offset;
    pipeline->value_place[pipeline->sum[s].sum] = (Place){REGION_PERSISTENT, offset};
    offset += PIPELINE_ALIGNMENT;
  }
  pipeline->persistent_bytes = offset;
}

/* Places of what the programs do not make. */
static RengaErrorCode PlaceGiven(RengaPipeline pipeline)
{
  const int count = RengaGraphGetValueCount(pipeline->sub);
  RengaCall(RengaMalloc(count + 1, &pipeline->value_place));
  for (RengaValue v = 0; v < count; v++) pipeline->value_place[v].region = REGION_ABSENT;
  PlacePersistent(pipeline);
  for (int p = 0; p < pipeline->n_parameters; p++)
    pipeline->value_place[pipeline->parameter[p].value] =
        (Place){REGION_PERSISTENT, pipeline->parameter[p].offset * (int64_t)sizeof(float)};
  for (int s = 0; s < pipeline->n_states; s++)
    pipeline->value_place[pipeline->state[s]] =
        (Place){REGION_PERSISTENT, pipeline->state_offset[s]};
  for (int f = 0; f < pipeline->n_fields; f++)
    pipeline->value_place[pipeline->field[f].value] =
        (Place){REGION_INPUTS, pipeline->field[f].offset};
  for (int m = 0; m < pipeline->n_messages; m++)
    if (pipeline->link[m].active && pipeline->link[m].incoming)
      pipeline->value_place[pipeline->link[m].value] = (Place){REGION_MESSAGE + m, 0};
  return RENGA_SUCCESS;
}

/* A slot for each micro-batch in flight; where the stage recomputes, that holds what is sent, and
   one slot with all that backward needs is shared. */
int64_t RengaPipelineKeptBytes_Private(RengaPipeline pipeline, bool training)
{
  const int64_t saved = pipeline->slot_bytes[training], sent = pipeline->sent_bytes[training];
  return pipeline->recompute ? pipeline->slots * sent + saved + sent : pipeline->slots * saved;
}

/* Training has its slots, then its temporary tensors; evaluation cuts the same memory elsewhere. A
   replica of one micro-batch adds no gradients. */
static void ShareMemory(RengaPipeline pipeline, const ReplicaShare *share,
                        RengaPipelineMemory *memory)
{
  int64_t most = 0;
  for (int k = 0; k < 2; k++) {
    int64_t temporary = pipeline->temporary_bytes[k];
    if (k == 1 && share->most_local > 1 && pipeline->adding_bytes > temporary)
      temporary = pipeline->adding_bytes;
    const int64_t bytes = RengaPipelineKeptBytes_Private(pipeline, k) + temporary;
    if (bytes > most) most = bytes;
  }
  memory->saved = RengaPipelineKeptBytes_Private(pipeline, true);
  memory->temporary = most - memory->saved;
}

/* All memory of one replica. */
static void SizeReplica(RengaPipeline pipeline, const ReplicaShare *share,
                        RengaPipelineMemory *memory)
{
  const int64_t buffer = pipeline->gradient_count * (int64_t)sizeof(float);
  *memory = (RengaPipelineMemory){0};
  memory->parameters = pipeline->persistent_bytes + pipeline->folded_bytes;
  memory->gradients =
      share->n_buffers * buffer + (int64_t)pipeline->tree_work_bytes + pipeline->tied_bytes;
  memory->optimizer = pipeline->n_moments * pipeline->parameter_count * (int64_t)sizeof(float);
  ShareMemory(pipeline, share, memory);
  for (int backward = 0; backward < 2; backward++)
    memory->messages +=
        RingOf(pipeline, backward, share->most_local) * pipeline->instance_bytes[backward];
  memory->inputs = pipeline->slots * pipeline->input_bytes;
  memory->forecast = memory->parameters + memory->gradients + memory->optimizer + memory->saved +
                     memory->temporary + memory->messages + memory->inputs;
}

/* What is the same for all replicas, and however many there are: programs and the places of what is
   given. */
RengaErrorCode RengaPipelineSizeStage_Private(RengaPipeline pipeline)
{
  RengaCall(PlaceGiven(pipeline));
  RengaCall(CompileAll(pipeline));
  CountLinkBytes(pipeline);
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &pipeline->n_moments, &pipeline->moment));
  pipeline->tied_bytes = RengaPipelineTiedBytes_Private(pipeline);
  return RENGA_SUCCESS;
}

/* Before the first step. */
static RengaErrorCode ProveSchedules(RengaPipeline pipeline)
{
  for (int i = 0; i <= pipeline->n_short; i++) {
    RengaSchedule schedule;
    RengaCall(RengaPipelineGetSchedule_Private(
        pipeline, RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i)), !pipeline->has_loss,
        &schedule));
  }
  return RENGA_SUCCESS;
}

/* Fills all sizes and memory.forecast of this rank's stage and replica. */
RengaErrorCode RengaPipelineSize_Private(RengaPipeline pipeline)
{
  ReplicaShare share;
  RengaCall(ProveSchedules(pipeline));
  RengaCall(RengaPipelineSizeStage_Private(pipeline));
  RengaCall(CountSlots(pipeline));
  RengaCall(CountWork(pipeline));
  RengaCall(CountShare(pipeline, &share));
  pipeline->n_buffers = share.n_buffers;
  SetRings(pipeline, share.most_local);
  SizeReplica(pipeline, &share, &pipeline->memory);
  for (int k = 0; k < 2; k++)
    pipeline->temporary_bytes[k] = pipeline->memory.saved + pipeline->memory.temporary -
                                   RengaPipelineKeptBytes_Private(pipeline, k);
  return RENGA_SUCCESS;
}

/* Shares of the replicas that may need most: one with fewer micro-batches and no more buffers than
   another is left out. */
static RengaErrorCode AddShare(ReplicaShares *shares, const ReplicaShare *share)
{
  for (int i = 0; i < shares->count; i++)
    if (shares->row[i].most_local >= share->most_local &&
        shares->row[i].n_buffers >= share->n_buffers)
      return RENGA_SUCCESS;
  RengaCall(RengaRealloc(shares->count + 1, &shares->row));
  shares->row[shares->count++] = *share;
  return RENGA_SUCCESS;
}

/* They are the same in all stages with as many replicas. */
static RengaErrorCode FindShares(RengaPipeline pipeline, const ReplicaShares **found)
{
  ReplicaShares made = {.replicas = pipeline->replicas};
  for (int i = 0; i < pipeline->n_shares; i++) {
    *found = &pipeline->shares[i];
    if ((*found)->replicas == pipeline->replicas) return RENGA_SUCCESS;
  }
  RengaCall(RengaRealloc(pipeline->n_shares + 1, &pipeline->shares));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int r = 0; r < pipeline->replicas && !code; r++) {
    ReplicaShare share;
    pipeline->replica = r;
    code = CountShare(pipeline, &share);
    if (!code) code = AddShare(&made, &share);
  }
  if (code) RengaFree(&made.row);
  RengaCall(code);
  *found = &pipeline->shares[pipeline->n_shares++];
  pipeline->shares[pipeline->n_shares - 1] = made;
  return RENGA_SUCCESS;
}

/* The replica that needs most of a stage whose own sizes are there. */
RengaErrorCode RengaPipelineSizeWorst_Private(RengaPipeline pipeline, RengaPipelineMemory *worst)
{
  const ReplicaShares *shares = NULL;
  *worst = (RengaPipelineMemory){0};
  RengaCall(CountSlots(pipeline));
  RengaCall(CountWork(pipeline));
  RengaCall(FindShares(pipeline, &shares));
  for (int i = 0; i < shares->count; i++) {
    RengaPipelineMemory memory;
    SizeReplica(pipeline, &shares->row[i], &memory);
    if (memory.forecast > worst->forecast) *worst = memory;
  }
  return RENGA_SUCCESS;
}
