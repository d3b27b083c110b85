/* The arena: what was forecast is checked against the bound and taken at once. */
#include "gradients.h"
#include "rows.h"
#include "updates.h"
#include "window.h"
#include "renga/private/quiet.h"
#include <string.h>

static const struct {
  const char *name, *help;
} categories[] = {
    {"parameters", "more stages"},
    {"gradients", "a larger -partition_leaf, more stages, or -pipeline_reduction unordered"},
    {"optimizer", "more stages, or an optimizer with fewer moments"},
    {"saved", "a smaller -microbatch_size, more stages, or recomputation (-partition_type auto)"},
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

/* "stage 1 needs", "stages 1 and 3 need together". */
static void NameStages(const Rank *rank, size_t size, char text[])
{
  const int last = rank->n_chunks - 1;
  size_t used = (size_t)snprintf(text, size, last > 0 ? "stages" : "stage");
  for (int c = 0; c <= last && used < size; c++)
    used += (size_t)snprintf(text + used, size - used, "%s %d",
                             c == 0      ? ""
                             : c == last ? " and"
                                         : ",",
                             rank->chunk[c].stage);
  if (used < size) snprintf(text + used, size - used, last > 0 ? " need together" : " needs");
}

static RengaErrorCode CheckBound(RengaPipeline pipeline)
{
  const Rank *rank = pipeline->rank;
  int64_t bytes[N_CATEGORIES], bound = pipeline->settings->memory_bound;
  char needed[32], allowed[32], most[32], stages[128];
  int largest = 0;
  if (bound <= 0) RengaCall(RengaPlanGetMemoryLimit(pipeline->plan, &bound));
  if (bound <= 0 || rank->memory.forecast <= bound) return RENGA_SUCCESS;
  ListCategories(&rank->memory, bytes);
  for (int c = 1; c < N_CATEGORIES; c++)
    if (bytes[c] > bytes[largest]) largest = c;
  RengaFormatBytes((double)rank->memory.forecast, sizeof needed, needed);
  RengaFormatBytes((double)bound, sizeof allowed, allowed);
  RengaFormatBytes((double)bytes[largest], sizeof most, most);
  NameStages(rank, sizeof stages, stages);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s %s (%lld bytes) per device, -partition_memory allows %s; the largest part "
             "is %s with %s; what helps: %s",
             stages, needed, (long long)rank->memory.forecast, allowed, categories[largest].name,
             most, categories[largest].help);
}

/* The rank's memory is that of its chunks. */
static RengaErrorCode SizeChunks(Rank *rank)
{
  int64_t sum[N_CATEGORIES] = {0}, all = 0;
  for (int c = 0; c < rank->n_chunks; c++) {
    int64_t bytes[N_CATEGORIES];
    RengaCall(RengaChunkSize_Private(&rank->chunk[c]));
    ListCategories(&rank->chunk[c].memory->bytes, bytes);
    for (int k = 0; k < N_CATEGORIES; k++) sum[k] += bytes[k];
    all += rank->chunk[c].memory->bytes.forecast;
  }
  rank->memory = (RengaPipelineMemory){.parameters = sum[0],
                                       .gradients = sum[1],
                                       .optimizer = sum[2],
                                       .saved = sum[3],
                                       .temporary = sum[4],
                                       .messages = sum[5],
                                       .inputs = sum[6],
                                       .forecast = all};
  return RENGA_SUCCESS;
}

static char *Take(char **next, int64_t bytes)
{
  char *start = *next;
  *next += bytes;
  return start;
}

static void GiveLinks(Chunk *chunk, char **next)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    Link *link = &chunk->link[m];
    if (!link->active) continue;
    if (link->incoming || chunk->outline->message[m].backward)
      link->base = Take(next, link->ring * link->bytes);
  }
}

static RengaErrorCode GiveTables(Chunk *chunk)
{
  const Outline *outline = chunk->outline;
  RengaCall(RengaMalloc(REGION_MESSAGE + outline->n_messages, &chunk->at->region));
  if (chunk->states->elements > 0)
    RengaCall(RengaDeviceHostMalloc(chunk->device,
                                    (size_t)chunk->states->elements * sizeof *chunk->states->host,
                                    &chunk->states->host));
  return RENGA_SUCCESS;
}

/* Masters of sharded parameters; values, where they are not the same; the window. */
static void GiveShares(Chunk *chunk, char **next)
{
  const int64_t own = chunk->memory->own;
  const bool fetches = RengaChunkFetches_Private(chunk);
  const bool masters = RengaChunkHasMasters_Private(chunk);
  if (!fetches && !masters) return;
  chunk->at->masters = Take(next, RengaChunkRoleBytes_Private(chunk, ROLE_MASTER, own));
  if (!fetches) return;
  chunk->at->shares =
      masters ? Take(next, RengaValueBytes_Private(chunk, own)) : chunk->at->masters;
  chunk->at->window = Take(next, chunk->sizes->window_bytes);
}

static int64_t BuffersBytes(const Chunk *chunk)
{
  return chunk->memory->n_buffers * RengaGradientBytes_Private(chunk, chunk->sizes->gradient_count);
}

/* The chunk's part of the arena, from *next on. */
static RengaErrorCode GiveMemory(Chunk *chunk, char **next)
{
  const RengaPipelineMemory *memory = &chunk->memory->bytes;
  const bool folds = RengaChunkShardsGradients_Private(chunk);
  const int64_t folded =
      chunk->memory->n_buffers * RengaGradientBytes_Private(chunk, chunk->memory->folded);
  const int64_t bytes = folds ? chunk->sizes->local_bytes : BuffersBytes(chunk);
  chunk->at->persistent = Take(next, chunk->sizes->persistent_bytes);
  chunk->at->folded = Take(next, chunk->sizes->folded_bytes);
  GiveShares(chunk, next);
  chunk->at->gradients = Take(next, bytes);
  if (folds) chunk->at->partial = chunk->at->scattered = Take(next, folded);
  if (RengaChunkGroups_Private(chunk) > 1)
    chunk->at->scattered = Take(next, RengaGradientBytes_Private(chunk, chunk->memory->kept));
  chunk->at->work = Take(next, (int64_t)chunk->memory->work_bytes);
  chunk->at->tied = Take(next, chunk->sizes->tied_bytes);
  char *rows = Take(next, chunk->sizes->row_bytes);
  chunk->at->moments = Take(next, memory->optimizer);
  chunk->at->saved = Take(next, memory->saved + memory->temporary);
  chunk->at->inputs = Take(next, memory->inputs);
  GiveLinks(chunk, next);
  RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at->gradients, 0, (size_t)bytes));
  RengaCall(GiveTables(chunk));
  RengaCall(RengaChunkMakeParcels_Private(chunk));
  RengaCall(RengaChunkSetUpTied_Private(chunk));
  RengaCall(RengaChunkSetUpBuckets_Private(chunk));
  RengaCall(RengaChunkOrderBuckets_Private(chunk));
  RengaCall(RengaChunkSetUpFetches_Private(chunk));
  RengaCall(RengaChunkSetUpRows_Private(chunk, rows));
  RengaCall(RengaChunkSetUpInputs_Private(chunk));
  RengaCall(RengaChunkTakeOffload_Private(chunk));
  RengaCall(RengaChunkSetUpUpdates_Private(chunk));
  RengaCall(RengaChunkSetUpOffload_Private(chunk));
  return RENGA_SUCCESS;
}

static RengaErrorCode Allocate(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  RengaCall(RengaDeviceMalloc(pipeline->device, (size_t)rank->memory.forecast, &rank->arena));
  char *next = rank->arena;
  for (int c = 0; c < rank->n_chunks; c++) RengaCall(GiveMemory(&rank->chunk[c], &next));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogArena(RengaPipeline pipeline)
{
  RengaPipelineMemory *memory = &pipeline->rank->memory;
  int64_t bytes[N_CATEGORIES];
  size_t peak;
  RengaCall(RengaDeviceGetMemory(pipeline->device, NULL, NULL, &peak));
  memory->measured = (int64_t)peak;
  ListCategories(memory, bytes);
  for (int c = 0; c < N_CATEGORIES; c++) RengaLogMemory(categories[c].name, bytes[c], bytes[c]);
  RengaLogMemory("device", memory->forecast, memory->measured);
  int64_t offloaded = 0;
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    offloaded += RengaChunkOffloadedBytes_Private(&pipeline->rank->chunk[c]);
  if (offloaded > 0) RengaLogMemory("offloaded, on the host", offloaded, offloaded);
  const int64_t staging = (int64_t)RengaTransportGetStaging_Private(pipeline->rank->transport);
  if (staging > 0) RengaLogMemory("staging, of the host", staging, staging);
  const int64_t buffers = (int64_t)RengaTransportGetBuffers_Private(pipeline->rank->transport);
  if (buffers > 0) RengaLogMemory("NCCL's buffers (estimate)", buffers, -1);
  return RENGA_SUCCESS;
}

/* Collective: forecast, and check. Nothing for idle ranks. */
RengaErrorCode RengaPipelineSizeArena_Private(RengaPipeline pipeline)
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaQuiet quiet; /* replicas find alike that there is no room */
  RengaQuietBegin_Private(&quiet);
  if (pipeline->rank->n_chunks > 0) code = SizeChunks(pipeline->rank);
  if (pipeline->rank->n_chunks > 0 && !code) code = CheckBound(pipeline);
  RengaQuietEnd_Private(&quiet);
  return RengaErrorAgreeOnce_Private(pipeline->hdr.comm, code);
}

/* Nothing for idle ranks; the ranks agree afterwards. */
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline)
{
  if (pipeline->rank->n_chunks == 0) return RENGA_SUCCESS;
  RengaCall(Allocate(pipeline));
  RengaCall(LogArena(pipeline));
  return RENGA_SUCCESS;
}
