/* Caches of a decoder that no node writes: keys and values of what an encoder made of a source. */
#include "gradients.h"
#include "updates.h"
#include "renga/private/graph.h"
#include <string.h>

/* Numbers of one text, in the order of the network's caches; texts: that there is room for. */
static int64_t CountMemoryNumbers(RengaGraph graph, int64_t *texts)
{
  int64_t numbers = 0;
  *texts = 0;
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (!RengaGraphIsMemory_Private(value)) continue;
    *texts = value->spec.dim[1];
    numbers += RengaTensorSpecCount(&value->spec) / value->spec.dim[1];
  }
  return numbers;
}

/* A state [heads, texts, places, width] of the chunk, from those of all heads. */
static RengaErrorCode CopyHeads(RengaPipeline pipeline, const Chunk *chunk, int state,
                                int64_t first, int64_t text, const float *numbers)
{
  const RengaTensorSpec *spec = &RengaGraphGetValue(chunk->sub, chunk->states->value[state])->spec;
  const int64_t count = spec->dim[2] * spec->dim[3];
  float *to = (float *)(void *)(chunk->at->persistent + chunk->states->offset[state]);
  for (int64_t head = 0; head < spec->dim[0]; head++)
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE,
                              to + (head * spec->dim[1] + text) * count,
                              numbers + (first + head) * count, (size_t)count * sizeof *to));
  return RENGA_SUCCESS;
}

/* As far as the chunk has heads of the cache. */
static RengaErrorCode FillCache(RengaPipeline pipeline, const Chunk *chunk, RengaValue cache,
                                int64_t text, const float *numbers)
{
  RengaGraph graph = chunk->outline->graph;
  for (int s = 0; s < chunk->states->count; s++) {
    const char *name = RengaGraphGetValue(chunk->sub, chunk->states->value[s])->name;
    const RengaValue own = RengaGraphFindValue(graph, name);
    const RengaGraphValue *state = RengaGraphGetValue(graph, own);
    const bool part = state->whole != RENGA_VALUE_NONE;
    if ((part ? state->whole : own) == cache)
      RengaCall(CopyHeads(pipeline, chunk, s, part ? state->first : 0, text, numbers));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillMemoryCaches(RengaPipeline pipeline, int64_t text, const float *numbers)
{
  const Rank *rank = pipeline->rank;
  for (int v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
    if (!RengaGraphIsMemory_Private(value)) continue;
    for (int c = 0; c < rank->n_chunks; c++)
      RengaCall(FillCache(pipeline, &rank->chunk[c], v, text, numbers));
    numbers += RengaTensorSpecCount(&value->spec) / value->spec.dim[1];
  }
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNumbers(bool has, const float buffer[], const char *function)
{
  if (has) RengaCheckPointerOf(function, buffer);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetMemory - what the encoder beside a decoder made of the source of a text

   Collective

   Input:
   . pipeline - the pipeline, set up, whose graph RengaGraphMakeDecoder made
   . text - number of the text, from 0; the same on all ranks
   . from - the rank that has the numbers
   . buffer - there: a row of the output RENGA_DECODER_MEMORY of RengaGraphKeepMemory, float32;
     copied. Not looked at on other ranks

   Errors: RENGA_ERR_ARGUMENT where the network attends to no encoder, or has no such text or rank.

   See also: RengaGraphKeepMemory(), RengaPipelineForward()
@*/
RengaErrorCode RengaPipelineSetMemory(RengaPipeline pipeline, int64_t text, int from,
                                      const float buffer[])
{
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  const Rank *rank = pipeline->rank;
  const bool has = RengaCommGetRank(rank->all) == from;
  float *numbers = NULL;
  int64_t texts;
  const int64_t count = CountMemoryNumbers(pipeline->graph, &texts);
  RengaCheck(text >= 0 && text < texts && from >= 0 && from < RengaCommGetSize(rank->all),
             pipeline->hdr.comm, RENGA_ERR_ARGUMENT,
             "text %lld from rank %d, of %lld texts with an encoder on %d ranks", (long long)text,
             from, (long long)texts, RengaCommGetSize(rank->all));
  RengaErrorCode code = CheckNumbers(has, buffer, __func__);
  if (!code) code = RengaMalloc(count, &numbers);
  if (!code && has) memcpy(numbers, buffer, (size_t)count * sizeof *numbers);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code)
    code = RengaCommBroadcast(rank->all, numbers, (size_t)count * sizeof *numbers, from,
                              "all ranks to get an encoder's result");
  if (!code) code = FillMemoryCaches(pipeline, text, numbers);
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}
