/* States: the statistics of each micro-batch are kept, and applied in the order of the micro-
   batches after the step, on every replica alike. */
#include "pipelineimpl.h"

static int64_t Elements(Chunk *chunk, int update)
{
  return RengaTensorSpecCount(
      &RengaGraphGetValue(chunk->sub, chunk->states->update[update].batch_value)->spec);
}

/* Where the states of an update are in states.host: several updates may change the same ones. */
static float *StatesOf(Chunk *chunk, int update, bool *first)
{
  const RengaStateUpdate *row = chunk->states->update;
  float *at = chunk->states->host;
  int u = 0;
  for (; row[u].state != row[update].state; u++) at += Elements(chunk, u);
  *first = u == update;
  return at;
}

RengaErrorCode RengaChunkFreeStates_Private(Chunk *chunk)
{
  RengaFree(&chunk->states->value);
  RengaFree(&chunk->states->offset);
  if (chunk->states->host) RengaCall(RengaDeviceHostFree(chunk->device, &chunk->states->host));
  return RENGA_SUCCESS;
}

/* The statistics of a micro-batch to their row of taken.statistics. */
RengaErrorCode RengaChunkQueueStatistics_Private(Chunk *chunk, const Program *program, int64_t row)
{
  float *to = chunk->portion->taken.statistics + row * chunk->states->elements;
  for (int u = 0; u < chunk->states->n_updates; u++) {
    const int64_t count = Elements(chunk, u);
    const Place place = program->place[chunk->states->update[u].batch_value];
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, to,
                              RengaChunkAt_Private(chunk, place), (size_t)count * sizeof *to));
    to += count;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyStates(Chunk *chunk, RengaCopyKind kind)
{
  for (int u = 0; u < chunk->states->n_updates; u++) {
    const Place place = chunk->value_place[chunk->states->update[u].state];
    bool first;
    float *here = StatesOf(chunk, u, &first), *there = RengaChunkAt_Private(chunk, place);
    const size_t bytes = (size_t)Elements(chunk, u) * sizeof *here;
    const bool up = kind == RENGA_HOST_TO_DEVICE;
    if (first)
      RengaCall(
          RengaDeviceCopy(chunk->device, NULL, kind, up ? there : here, up ? here : there, bytes));
  }
  return RENGA_SUCCESS;
}

/* The states of before the step. */
RengaErrorCode RengaChunkQueueStates_Private(Chunk *chunk)
{
  if (chunk->portion->statistics) RengaCall(CopyStates(chunk, RENGA_DEVICE_TO_HOST));
  return RENGA_SUCCESS;
}

/* Those of this replica's micro-batches, once they have come. */
void RengaChunkKeepStatistics_Private(Chunk *chunk, const Pass *pass)
{
  const Portion *portion = chunk->portion;
  const int64_t elements = chunk->states->elements;
  const float *from = portion->taken.statistics;
  if (!portion->statistics) return;
  for (int64_t number = portion->first; number < portion->last; number++, from += elements) {
    double *to = portion->statistics + RengaPassTurn_Private(pass, number) * elements;
    for (int64_t i = 0; i < elements; i++) to[i] = (double)from[i];
  }
}

/* A running variance is unbiased: a batch value of n values counts n / (n - 1) times. */
static double FactorOf(const RengaStateUpdate *update, int64_t samples)
{
  const double n = (double)(update->sample_values * samples + update->whole_values);
  return n > 1 ? n / (n - 1) : 1;
}

/* In the order of the batch the last micro-batch may be short. */
static int64_t SamplesOfTurn(const Chunk *chunk, const Pass *pass, int64_t turn)
{
  const int64_t size = chunk->outline->microbatch, left = pass->batch->samples - turn * size;
  return left < size ? left : size;
}

static void ApplyStatistics(Chunk *chunk, const Pass *pass, int u, const double batch[])
{
  bool first;
  float *state = StatesOf(chunk, u, &first);
  const RengaStateUpdate *update = &chunk->states->update[u];
  const int64_t count = Elements(chunk, u);
  for (int64_t m = 0; m < pass->microbatches; m++) {
    const double *row = batch + m * chunk->states->elements;
    const double factor = FactorOf(update, SamplesOfTurn(chunk, pass, m));
    for (int64_t i = 0; i < count; i++)
      state[i] = (float)(update->keep * (double)state[i] + (1 - update->keep) * factor * row[i]);
  }
}

/* Collective on the replicas of the stage: each gets the statistics of all micro-batches. Fails
   only where messages are left under way. */
RengaErrorCode RengaChunkSumStatistics_Private(Chunk *chunk, const Pass *pass)
{
  if (!chunk->portion->statistics) return RENGA_SUCCESS;
  char what[160];
  RengaChunkDescribe_Private(chunk, "collects the statistics of micro-batches in", sizeof what,
                             what);
  RengaCall(RengaCommSumExact(chunk->group, pass->microbatches * chunk->states->elements,
                              chunk->portion->statistics, what));
  return RENGA_SUCCESS;
}

/* The states that were queued have come. */
RengaErrorCode RengaChunkUpdateStates_Private(Chunk *chunk, const Pass *pass)
{
  const double *batch = chunk->portion->statistics;
  if (!batch) return RENGA_SUCCESS;
  for (int u = 0; u < chunk->states->n_updates; u++) {
    ApplyStatistics(chunk, pass, u, batch);
    batch += Elements(chunk, u);
  }
  RengaCall(CopyStates(chunk, RENGA_HOST_TO_DEVICE));
  return RENGA_SUCCESS;
}
