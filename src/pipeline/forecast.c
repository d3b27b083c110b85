/* Forecast: programs, places and sizes of all that a stage keeps in memory. Set-up takes what is
   worked out here; a forecast for others runs the same code for any stage and takes nothing. */
#include "pipelineimpl.h"

/* Sizes of batches that are known to come: the plan's and the short ones. */
static int64_t BatchAt(RengaPipeline pipeline, int i)
{
  return i == 0 ? pipeline->batch : pipeline->short_batch[i - 1];
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
    if (program->saved_bytes > pipeline->slot_bytes[training])
      pipeline->slot_bytes[training] = program->saved_bytes;
    if (program->sent_bytes > pipeline->sent_bytes[training])
      pipeline->sent_bytes[training] = program->sent_bytes;
    if (program->folded_bytes > pipeline->folded_bytes)
      pipeline->folded_bytes = program->folded_bytes;
    if (program->temporary_bytes > pipeline->temporary_bytes[training])
      pipeline->temporary_bytes[training] = program->temporary_bytes;
  }
  return RENGA_SUCCESS;
}

/* Work memory of the sum over the replicas, the same on each of them: the most of all batches. */
static RengaErrorCode CountWork(RengaPipeline pipeline)
{
  const int replicas = pipeline->replicas;
  int64_t *bounds;
  if (replicas == 1 || !RengaPipelineIsOrdered_Private(pipeline)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(replicas + 1, &bounds));
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t leaves = RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i));
    for (int r = 0; r <= replicas; r++) bounds[r] = RengaPlanBound(leaves, replicas, r);
    const int64_t work = RengaAlign_Private(
        (int64_t)RengaCommTreeWork(replicas, leaves, bounds, pipeline->gradient_count));
    if ((size_t)work > pipeline->tree_work_bytes) pipeline->tree_work_bytes = (size_t)work;
  }
  RengaFree(&bounds);
  return RENGA_SUCCESS;
}

/* Micro-batches in flight and buffers of the tree: the most of all batches. */
static RengaErrorCode CountBuffers(RengaPipeline pipeline, int64_t *most_local)
{
  pipeline->slots = pipeline->n_buffers = 1;
  *most_local = 1;
  for (int i = 0; i <= pipeline->n_short; i++) {
    const int64_t all = RengaPlanMicrobatches(pipeline->plan, BatchAt(pipeline, i));
    const int64_t local = RengaPlanBound(all, pipeline->replicas, pipeline->replica + 1) -
                          RengaPlanBound(all, pipeline->replicas, pipeline->replica);
    int64_t in_flight;
    int buffers;
    RengaSchedule schedule;
    RengaCall(RengaPipelineGetShape_Private(pipeline, all, !pipeline->has_loss, &schedule));
    RengaCall(RengaScheduleGetInFlight(schedule, pipeline->stage, &in_flight));
    RengaCall(RengaPipelineCountTreeBuffers_Private(pipeline, all, &buffers));
    if (in_flight > pipeline->slots) pipeline->slots = (int)in_flight;
    if (local > *most_local) *most_local = local;
    if (buffers > pipeline->n_buffers) pipeline->n_buffers = buffers;
  }
  return RENGA_SUCCESS;
}

static int64_t SizeRings(RengaPipeline pipeline, int64_t most_local)
{
  int64_t bytes = 0;
  for (int m = 0; m < pipeline->n_messages; m++) {
    Link *link = &pipeline->link[m];
    if (!link->active) continue;
    const bool saved = !link->incoming && !pipeline->message[m].backward;
    const int64_t wanted = pipeline->message[m].backward ? 2 : pipeline->slots + 1;
    link->ring = (int)(wanted < most_local ? wanted : most_local);
    if (saved)
      link->ring = pipeline->slots;
    else
      bytes += link->ring * link->bytes;
  }
  return bytes;
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

/* Training has its slots, then its temporary tensors; evaluation cuts the same memory elsewhere. */
static void ShareMemory(RengaPipeline pipeline, RengaPipelineMemory *memory)
{
  int64_t most = 0;
  for (int k = 0; k < 2; k++) {
    const int64_t bytes =
        RengaPipelineKeptBytes_Private(pipeline, k) + pipeline->temporary_bytes[k];
    if (bytes > most) most = bytes;
  }
  memory->saved = RengaPipelineKeptBytes_Private(pipeline, true);
  memory->temporary = most - memory->saved;
}

/* All memory of one replica; fills the sizes that depend on the replica. */
static RengaErrorCode SizeReplica(RengaPipeline pipeline, RengaPipelineMemory *memory)
{
  const int64_t buffer = pipeline->gradient_count * (int64_t)sizeof(float);
  int64_t most_local;
  *memory = (RengaPipelineMemory){0};
  RengaCall(CountBuffers(pipeline, &most_local));
  memory->parameters = pipeline->persistent_bytes + pipeline->folded_bytes;
  memory->gradients =
      pipeline->n_buffers * buffer + (int64_t)pipeline->tree_work_bytes + pipeline->tied_bytes;
  memory->optimizer = pipeline->n_moments * pipeline->parameter_count * (int64_t)sizeof(float);
  ShareMemory(pipeline, memory);
  memory->messages = SizeRings(pipeline, most_local);
  memory->inputs = pipeline->slots * pipeline->input_bytes;
  memory->forecast = memory->parameters + memory->gradients + memory->optimizer + memory->saved +
                     memory->temporary + memory->messages + memory->inputs;
  return RENGA_SUCCESS;
}

/* What is the same for all replicas of the stage: programs and the places of what is given. */
static RengaErrorCode SizeStage(RengaPipeline pipeline)
{
  const char *const *names;
  RengaCall(PlaceGiven(pipeline));
  RengaCall(CompileAll(pipeline));
  RengaCall(CountWork(pipeline));
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &pipeline->n_moments, &names));
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
  RengaCall(ProveSchedules(pipeline));
  RengaCall(SizeStage(pipeline));
  RengaCall(SizeReplica(pipeline, &pipeline->memory));
  for (int k = 0; k < 2; k++)
    pipeline->temporary_bytes[k] = pipeline->memory.saved + pipeline->memory.temporary -
                                   RengaPipelineKeptBytes_Private(pipeline, k);
  return RENGA_SUCCESS;
}

static RengaErrorCode ForecastStage(RengaPipeline pipeline, int stage, RengaPipelineMemory *worst)
{
  *worst = (RengaPipelineMemory){0};
  RengaCall(RengaPipelineReadPlan_Private(pipeline));
  RengaCall(RengaPipelineSetUpStage_Private(pipeline, stage));
  RengaCall(SizeStage(pipeline));
  for (int r = 0; r < pipeline->replicas; r++) {
    RengaPipelineMemory memory;
    pipeline->replica = r;
    RengaCall(SizeReplica(pipeline, &memory));
    if (memory.forecast > worst->forecast) *worst = memory;
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecastStage - memory that a stage of a pipeline will take, without its ranks

   Collective the first time where -device_threads is not given, else not

   Input:
   . pipeline - the pipeline, with plan, device, optimizer and options; not yet set up
   . stage - which stage of the plan

   Output:
   . memory - bytes by category on the replica that needs most; what RengaPipelineSetUp will take
     there, to the byte, with the same number of threads; measured is 0

   Notes: the set-up of the stage itself is run, but for its memory, so that no parameter is made:
   stages of any size are forecast on any machine. Device and optimizer are set up by it.
@*/
RengaErrorCode RengaPipelineForecastStage(RengaPipeline pipeline, int stage,
                                          RengaPipelineMemory *memory)
{
  RengaPipeline copy;
  RengaPipelineMemory worst;
  RengaCheckPointer(pipeline);
  RengaCheckPointer(memory);
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCheck(stage >= 0 && stage < RengaPlanGetStageCount(pipeline->plan), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "stage %d of a plan of %d stages", stage,
             RengaPlanGetStageCount(pipeline->plan));
  RengaCall(RengaPipelineCopy_Private(pipeline, &copy));
  RengaErrorCode code = ForecastStage(copy, stage, &worst);
  RengaPipelineDestroy(&copy);
  RengaCall(code);
  *memory = worst;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecast - memory that a stage of a plan will take, as the options stand

   Collective the first time where -device_threads is not given, else not

   Input:
   . graph - the network, set up
   . plan - its plan, with stages and batch
   . stage - which stage

   Output:
   . memory - as of RengaPipelineForecastStage()
@*/
RengaErrorCode RengaPipelineForecast(RengaGraph graph, RengaPlan plan, int stage,
                                     RengaPipelineMemory *memory)
{
  RengaPipeline pipeline;
  RengaCheckPointer(graph);
  RengaCheckPointer(plan);
  RengaCall(RengaPipelineCreate(((struct _p_RengaObject *)plan)->owner, &pipeline));
  RengaErrorCode code = RengaPipelineSetFromOptions(pipeline);
  if (code == RENGA_SUCCESS) code = RengaPipelineSetPlan(pipeline, graph, plan);
  if (code == RENGA_SUCCESS) code = RengaPipelineForecastStage(pipeline, stage, memory);
  RengaPipelineDestroy(&pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}
