/* The arena: all memory of the device is forecast by category, checked against the bound, and
   taken at once. What is forecast is what is used. */
#include "pipelineimpl.h"
#include <string.h>

static const struct {
  const char *name, *help;
} categories[] = {
    {"parameters", "more stages"},
    {"gradients", "more stages, or -pipeline_reduction unordered"},
    {"optimizer", "more stages, or an optimizer with fewer moments"},
    {"saved", "a smaller -microbatch_size, more stages, or -pipeline_schedule 1f1b"},
    {"temporary", "a smaller -microbatch_size"},
    {"messages", "a smaller -microbatch_size, or other cuts"},
    {"inputs", "a smaller -microbatch_size"},
};
enum { N_CATEGORIES = sizeof categories / sizeof categories[0] };

static void ListCategories(const RengaPipelineMemory *memory, int64_t bytes[N_CATEGORIES])
{
  const int64_t all[N_CATEGORIES] = {memory->parameters, memory->gradients, memory->optimizer,
                                     memory->saved,      memory->temporary, memory->messages,
                                     memory->inputs};
  memcpy(bytes, all, sizeof all);
}

/* Sizes of batches that are known to come: the plan's and the short ones. */
static int64_t BatchAt(RengaPipeline pipeline, int i)
{
  return i == 0 ? pipeline->batch : pipeline->short_batch[i - 1];
}

static void LocalRange(RengaPipeline pipeline, int64_t samples, int64_t range[3])
{
  range[0] = RengaPlanMicrobatches(pipeline->plan, samples);
  range[1] = RengaPlanBound(range[0], pipeline->replicas, pipeline->replica);
  range[2] = RengaPlanBound(range[0], pipeline->replicas, pipeline->replica + 1);
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
    if (program->folded_bytes > pipeline->folded_bytes)
      pipeline->folded_bytes = program->folded_bytes;
    if (program->temporary_bytes > pipeline->temporary_bytes[training])
      pipeline->temporary_bytes[training] = program->temporary_bytes;
  }
  return RENGA_SUCCESS;
}

/* Micro-batches in flight, buffers of the tree and its work memory: the most of all batches. */
static RengaErrorCode CountBuffers(RengaPipeline pipeline, int64_t *most_local)
{
  pipeline->slots = pipeline->n_buffers = 1;
  *most_local = 1;
  int64_t *bounds;
  RengaCall(RengaMalloc(pipeline->replicas + 1, &bounds));
  for (int i = 0; i <= pipeline->n_short; i++) {
    int64_t range[3], in_flight;
    RengaSchedule schedule;
    LocalRange(pipeline, BatchAt(pipeline, i), range);
    RengaCall(RengaPipelineGetSchedule_Private(pipeline, range[2] - range[1], !pipeline->has_loss,
                                               &schedule));
    RengaCall(RengaScheduleGetInFlight(schedule, pipeline->stage, &in_flight));
    if (in_flight > pipeline->slots) pipeline->slots = (int)in_flight;
    if (range[2] - range[1] > *most_local) *most_local = range[2] - range[1];
    const int buffers = RengaCommTreeBuffers(range[0], range[1], range[2]);
    if (RengaPipelineIsOrdered_Private(pipeline) && buffers > pipeline->n_buffers)
      pipeline->n_buffers = buffers;
    for (int r = 0; r <= pipeline->replicas; r++)
      bounds[r] = RengaPlanBound(range[0], pipeline->replicas, r);
    if (pipeline->replicas == 1 || !RengaPipelineIsOrdered_Private(pipeline)) continue;
    const size_t work =
        RengaCommTreeWork(pipeline->group, range[0], bounds, pipeline->gradient_count);
    if (work > pipeline->tree_work_bytes) pipeline->tree_work_bytes = work;
  }
  RengaFree(&bounds);
  return RENGA_SUCCESS;
}

static RengaErrorCode SizeRings(RengaPipeline pipeline, int64_t most_local, int64_t *bytes)
{
  *bytes = 0;
  for (int m = 0; m < pipeline->n_messages; m++) {
    Link *link = &pipeline->link[m];
    if (!link->active) continue;
    const bool saved = !link->incoming && !pipeline->message[m].backward;
    const int64_t wanted = pipeline->message[m].backward ? 2 : pipeline->slots + 1;
    link->ring = (int)(wanted < most_local ? wanted : most_local);
    if (saved)
      link->ring = pipeline->slots;
    else
      *bytes += link->ring * link->bytes;
    RengaCall(RengaMalloc(link->ring, &link->request));
  }
  return RENGA_SUCCESS;
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

/* Training has its slots, then its temporary tensors; evaluation cuts the same memory elsewhere. */
static void ShareMemory(RengaPipeline pipeline)
{
  int64_t most = 0;
  for (int k = 0; k < 2; k++) {
    const int64_t bytes = pipeline->slots * pipeline->slot_bytes[k] + pipeline->temporary_bytes[k];
    if (bytes > most) most = bytes;
  }
  for (int k = 0; k < 2; k++)
    pipeline->temporary_bytes[k] = most - pipeline->slots * pipeline->slot_bytes[k];
  pipeline->memory.saved = pipeline->slots * pipeline->slot_bytes[1];
  pipeline->memory.temporary = pipeline->temporary_bytes[1];
}

static RengaErrorCode Forecast(RengaPipeline pipeline)
{
  RengaPipelineMemory *memory = &pipeline->memory;
  int64_t most_local, bytes[N_CATEGORIES];
  const char *const *names;
  RengaCall(PlaceGiven(pipeline));
  RengaCall(CompileAll(pipeline));
  RengaCall(CountBuffers(pipeline, &most_local));
  RengaCall(SizeRings(pipeline, most_local, &memory->messages));
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &pipeline->n_moments, &names));
  const int64_t buffer = pipeline->gradient_count * (int64_t)sizeof(float);
  pipeline->tied_bytes = RengaPipelineTiedBytes_Private(pipeline);
  pipeline->tree_work_bytes = (size_t)RengaAlign_Private((int64_t)pipeline->tree_work_bytes);
  memory->parameters = pipeline->persistent_bytes + pipeline->folded_bytes;
  memory->gradients =
      pipeline->n_buffers * buffer + (int64_t)pipeline->tree_work_bytes + pipeline->tied_bytes;
  memory->optimizer = pipeline->n_moments * pipeline->parameter_count * (int64_t)sizeof(float);
  ShareMemory(pipeline);
  memory->inputs = pipeline->slots * pipeline->input_bytes;
  ListCategories(memory, bytes);
  for (int c = 0; c < N_CATEGORIES; c++) memory->forecast += bytes[c];
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBound(RengaPipeline pipeline)
{
  int64_t bytes[N_CATEGORIES], bound = pipeline->memory_bound;
  char needed[32], allowed[32], most[32];
  int largest = 0;
  if (bound <= 0) RengaCall(RengaPlanGetMemoryLimit(pipeline->plan, &bound));
  if (bound <= 0 || pipeline->memory.forecast <= bound) return RENGA_SUCCESS;
  ListCategories(&pipeline->memory, bytes);
  for (int c = 1; c < N_CATEGORIES; c++)
    if (bytes[c] > bytes[largest]) largest = c;
  RengaFormatBytes((double)pipeline->memory.forecast, sizeof needed, needed);
  RengaFormatBytes((double)bound, sizeof allowed, allowed);
  RengaFormatBytes((double)bytes[largest], sizeof most, most);
  RengaRaise(
      MPI_COMM_SELF, RENGA_ERR_MEMORY,
      "stage %d needs %s (%lld bytes) per device, -partition_memory allows %s; the largest part "
      "is %s with %s; what helps: %s",
      pipeline->stage, needed, (long long)pipeline->memory.forecast, allowed,
      categories[largest].name, most, categories[largest].help);
}

static char *Take(char **next, int64_t bytes)
{
  char *start = *next;
  *next += bytes;
  return start;
}

static RengaErrorCode Allocate(RengaPipeline pipeline)
{
  RengaCall(
      RengaDeviceMalloc(pipeline->device, (size_t)pipeline->memory.forecast, &pipeline->arena));
  char *next = pipeline->arena;
  const int64_t buffer = pipeline->gradient_count * (int64_t)sizeof(float);
  pipeline->persistent_base = Take(&next, pipeline->persistent_bytes);
  pipeline->folded_base = Take(&next, pipeline->folded_bytes);
  pipeline->gradient_base = (float *)Take(&next, pipeline->n_buffers * buffer);
  pipeline->tree_work = Take(&next, (int64_t)pipeline->tree_work_bytes);
  pipeline->tied_work = Take(&next, pipeline->tied_bytes);
  pipeline->moment_base = Take(&next, pipeline->memory.optimizer);
  pipeline->saved_base = Take(&next, pipeline->memory.saved + pipeline->memory.temporary);
  pipeline->input_base = Take(&next, pipeline->memory.inputs);
  for (int m = 0; m < pipeline->n_messages; m++) {
    Link *link = &pipeline->link[m];
    if (link->active && (link->incoming || pipeline->message[m].backward))
      link->base = Take(&next, link->ring * link->bytes);
  }
  RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, pipeline->gradient_base, 0,
                                (size_t)(pipeline->n_buffers * buffer)));
  RengaCall(RengaMalloc(pipeline->n_buffers, &pipeline->piece));
  RengaCall(RengaMalloc(REGION_MESSAGE + pipeline->n_messages, &pipeline->base));
  return RENGA_SUCCESS;
}

static RengaErrorCode Log(RengaPipeline pipeline)
{
  int64_t bytes[N_CATEGORIES];
  size_t peak;
  RengaCall(RengaDeviceGetMemory(pipeline->device, NULL, NULL, &peak));
  pipeline->memory.measured = (int64_t)peak;
  ListCategories(&pipeline->memory, bytes);
  for (int c = 0; c < N_CATEGORIES; c++) RengaLogMemory(categories[c].name, bytes[c], bytes[c]);
  RengaLogMemory("device", pipeline->memory.forecast, pipeline->memory.measured);
  return RENGA_SUCCESS;
}

/* Compile for all sizes, forecast, check, allocate. Not for idle ranks; the ranks agree
   afterwards. */
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline)
{
  RengaCall(Forecast(pipeline));
  RengaCall(CheckBound(pipeline));
  RengaCall(Allocate(pipeline));
  RengaCall(Log(pipeline));
  return RENGA_SUCCESS;
}
