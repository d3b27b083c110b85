/* The arena: what was forecast is checked against the bound and taken at once. */
#include "pipelineimpl.h"
#include <string.h>

static const struct {
  const char *name, *help;
} categories[] = {
    {"parameters", "more stages"},
    {"gradients", "a larger -reduction_leaf, more stages, or -pipeline_reduction unordered"},
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

static RengaErrorCode CheckBound(RengaPipeline pipeline)
{
  int64_t bytes[N_CATEGORIES], bound = pipeline->settings->memory_bound;
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
    if (!link->active) continue;
    if (link->incoming || pipeline->message[m].backward)
      link->base = Take(&next, link->ring * link->bytes);
    RengaCall(RengaMalloc(link->ring, &link->request));
  }
  RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, pipeline->gradient_base, 0,
                                (size_t)(pipeline->n_buffers * buffer)));
  RengaCall(RengaMalloc(pipeline->n_buffers, &pipeline->piece));
  RengaCall(RengaMalloc(REGION_MESSAGE + pipeline->n_messages, &pipeline->base));
  RengaCall(RengaMalloc(pipeline->replicas + 1, &pipeline->leaf_bounds));
  RengaCall(
      RengaMalloc(pipeline->stages + RengaPlanGetRankCount(pipeline->plan), &pipeline->exchange));
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

/* Forecast, check, allocate. Not for idle ranks; the ranks agree afterwards. */
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineSize_Private(pipeline));
  RengaCall(CheckBound(pipeline));
  RengaCall(Allocate(pipeline));
  RengaCall(Log(pipeline));
  return RENGA_SUCCESS;
}
