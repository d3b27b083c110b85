/* All of a pass that may fail on one rank alone, before the ranks agree on it: checks, programs,
   lists and memory. */
#include "gradients.h"
#include "rows.h"
#include "updates.h"
#include "window.h"
#include "renga/private/optimizer.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"
#include <string.h>

static RengaErrorCode CheckBatch(RengaPipeline pipeline, const Pass *pass)
{
  const RengaBatch *batch = pass->batch;
  RengaCheck(batch, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the batch is a null pointer");
  RengaCheck(batch->read != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the batch has no function that reads it");
  RengaCheck(batch->samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)batch->samples);
  RengaCheck(pipeline->outline->has_loss || pass->call == CALL_FORWARD, pipeline->hdr.comm,
             RENGA_ERR_ORDER,
             "the network has no loss: it can be run forward, not %s; RengaGraphSetLoss says which "
             "scalar it is",
             pass->training ? "trained" : "evaluated");
  return RENGA_SUCCESS;
}

static uint64_t HashSettings(RengaPipeline pipeline)
{
  RengaSettingList list = {0};
  uint64_t hash = RengaHash(&pipeline->on_nonfinite, sizeof pipeline->on_nonfinite, 0);
  RengaOptimizerListSettings_Private(pipeline->optimizer, &list);
  for (int s = 0; s < list.count; s++)
    hash = RengaHash(&list.row[s].hash, sizeof list.row[s].hash, hash);
  return hash;
}

/* Settings of the optimizer that change what is held in memory are those of the set-up. */
static RengaErrorCode CheckMoments(RengaPipeline pipeline)
{
  const Rank *rank = pipeline->rank;
  const char *const *names, *type;
  int count;
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &count, &names));
  RengaCall(RengaOptimizerGetType(pipeline->optimizer, &type));
  bool same = count == rank->n_moments;
  for (int m = 0; m < count && same; m++) same = strcmp(names[m], rank->moment[m]) == 0;
  RengaCheck(
      same, MPI_COMM_SELF, RENGA_ERR_ORDER,
      "the optimizer, now of type %s, keeps %d moments of each parameter, and memory is laid "
      "out for %d: call RengaPipelineReset and RengaPipelineSetUp",
      type, count, rank->n_moments);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckTrained(const Chunk *chunk)
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    bool trained;
    RengaCall(RengaChunkIsTrained_Private(chunk, p, &trained));
    RengaCheck(trained == parameter->trained, MPI_COMM_SELF, RENGA_ERR_ORDER,
               "the groups of the optimizer %s %s, and memory is laid out otherwise: call "
               "RengaPipelineReset and RengaPipelineSetUp",
               trained ? "no longer freeze" : "now freeze", parameter->name);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLayout(RengaPipeline pipeline)
{
  if (pipeline->rank->n_chunks > 0) RengaCall(CheckMoments(pipeline));
  RengaCall(RengaPipelineCheckLazy_Private(pipeline));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(CheckTrained(&pipeline->rank->chunk[c]));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareOptimizer(RengaPipeline pipeline, Pass *pass)
{
  uint64_t hash;
  double rate;
  RengaCall(RengaOptimizerSetUp(pipeline->optimizer));
  hash = HashSettings(pipeline);
  if (hash != pipeline->rank->checked) {
    RengaCall(RengaPipelineCheckGroups_Private(pipeline));
    RengaCall(CheckLayout(pipeline));
    for (int c = 0; c < pipeline->rank->n_chunks; c++)
      RengaCall(RengaChunkTakeGroups_Private(&pipeline->rank->chunk[c]));
    pipeline->rank->checked = hash;
  }
  RengaCall(RengaOptimizerFixLearningRate_Private(pipeline->optimizer, pipeline->step, &rate));
  memcpy(&pass->want[WANT_RATE], &rate, sizeof rate);
  memcpy(&pass->want[WANT_SETTINGS], &hash, sizeof hash);
  pass->want[WANT_SCALE] = (int64_t)RengaLossScaleOf_Private(pipeline);
  return RENGA_SUCCESS;
}

/* A step of another size than announced must fit the buffers that were planned. */
static RengaErrorCode CheckStepFits(Chunk *chunk, const Pass *pass)
{
  Outline *outline = chunk->outline;
  RengaSchedule schedule;
  int64_t in_flight, lag;
  int buffers;
  RengaCall(RengaOutlineGetSchedule_Private(outline, pass->microbatches, false, &schedule));
  RengaCall(RengaScheduleGetInFlight(schedule, chunk->stage, &in_flight));
  RengaCall(RengaScheduleGetLag(schedule, chunk->stage, &lag));
  RengaCall(RengaChunkCountTreeBuffers_Private(chunk, pass->microbatches, &buffers));
  RengaCheck(in_flight <= chunk->memory->slots && lag <= chunk->memory->lag &&
                 buffers <= chunk->memory->n_buffers &&
                 RengaChunkSumsFit_Private(chunk, pass->microbatches),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a step of %lld samples needs more memory than was planned for %lld: announce it with "
             "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)pass->batch->samples, (long long)outline->batch[0]);
  return RENGA_SUCCESS;
}

/* Replicas that fold go through one list, of the one that has most micro-batches, each with its own
   in the place of that one's: where it has none left the action is empty. Its own list is
   that without them (schedule/commonlist.c). */
static RengaErrorCode AlignActions(const Chunk *chunk, int longest, Pass *pass)
{
  const int64_t leaf = chunk->outline->leaf, m = pass->microbatches;
  const int64_t first = RengaPlanLeafBound(m, leaf, chunk->replicas, longest);
  const int64_t own = RengaPlanLeafBound(m, leaf, chunk->replicas, chunk->replica);
  RengaCall(RengaMalloc(pass->n_actions + 1, &pass->own));
  for (int64_t a = 0; a < pass->n_actions; a++) {
    pass->own[a] = pass->action[a];
    pass->own[a].replica = chunk->replica;
    if (pass->own[a].microbatch >= 0) pass->own[a].microbatch += own - first;
  }
  pass->action = pass->own;
  return RENGA_SUCCESS;
}

/* The list of this rank. One without a stage has its part in the end of a step. */
static RengaErrorCode PrepareActions(RengaPipeline pipeline, Pass *pass)
{
  static const RengaAction update = {
      .kind = RENGA_ACTION_UPDATE, .stage = -1, .message = -1, .bucket = -1, .microbatch = -1};
  const Chunk *chunk = pipeline->rank->chunk;
  RengaSchedule schedule;
  if (pipeline->rank->n_chunks == 0) {
    pass->n_actions = pass->training;
    pass->action = &update;
    return RENGA_SUCCESS;
  }
  const bool together = RengaChunkShardsGradients_Private(chunk);
  RengaCall(RengaOutlineGetSchedule_Private(pipeline->outline, pass->microbatches, !pass->training,
                                            &schedule));
  const int longest =
      together ? RengaScheduleLongestReplica_Private(schedule, chunk->stage) : chunk->replica;
  RengaCall(
      RengaScheduleGetActions(schedule, chunk->stage, longest, &pass->n_actions, &pass->action));
  if (together) RengaCall(AlignActions(chunk, longest, pass));
  RengaPipelineMarkGathers_Private(pipeline, pass);
  return RENGA_SUCCESS;
}

/* The programs that micro-batch number runs. */
static RengaErrorCode PrepareSize(Chunk *chunk, const Pass *pass, int64_t number, bool adds,
                                  bool *uses_sums)
{
  Program *program;
  const int64_t samples = RengaPassSamples_Private(chunk->pipeline, pass, number);
  RengaCall(
      RengaChunkGetProgram_Private(chunk, pass->kind, samples, chunk->portion->target, &program));
  *uses_sums = program->uses_sums;
  RengaCall(RengaChunkListProgram_Private(chunk, program));
  if (adds) RengaCall(RengaChunkGetAdding_Private(chunk, samples, &program));
  if (adds) RengaCall(RengaChunkListProgram_Private(chunk, program));
  if (!*uses_sums) return RENGA_SUCCESS;
  RengaCall(
      RengaChunkGetProgram_Private(chunk, PROGRAM_PROLOGUE, samples, RENGA_VALUE_NONE, &program));
  RengaCall(RengaChunkListProgram_Private(chunk, program));
  return RENGA_SUCCESS;
}

/* All micro-batches have one size, but for the last of the batch. */
static RengaErrorCode PreparePrograms(Chunk *chunk, const Pass *pass)
{
  Portion *portion = chunk->portion;
  const int64_t count = portion->last - portion->first;
  const bool ordered = RengaChunkIsOrdered_Private(chunk);
  const bool adds =
      pass->training && count > 1 && ordered && !RengaChunkShardsGradients_Private(chunk);
  bool uses_sums;
  if (count > 0) RengaCall(PrepareSize(chunk, pass, portion->first, adds, &uses_sums));
  if (count > 1) RengaCall(PrepareSize(chunk, pass, portion->last - 1, adds, &uses_sums));
  for (int64_t n = portion->first; pass->turn && n < portion->last; n++)
    if (pass->turn[n] == pass->microbatches - 1)
      RengaCall(PrepareSize(chunk, pass, n, adds, &uses_sums));
  RengaCall(PrepareSize(chunk, pass, 0, false, &uses_sums));
  if (!uses_sums) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(chunk->n_sums * pass->microbatches, &portion->share));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareChunk(Chunk *chunk, const Pass *pass)
{
  const int64_t elements = chunk->states->elements;
  Portion *portion = chunk->portion;
  const bool losses = pass->loss && chunk->loss->value != RENGA_VALUE_NONE;
  if (pass->training) RengaCall(CheckStepFits(chunk, pass));
  RengaCall(RengaChunkFindOrder_Private(chunk, pass->microbatches, !pass->training, portion));
  RengaCall(PreparePrograms(chunk, pass));
  RengaChunkBeginFetches_Private(chunk);
  RengaCall(RengaChunkPrepareResults_Private(chunk, losses, pass->training && elements > 0));
  if (!pass->training) return RENGA_SUCCESS;
  if (elements > 0) RengaCall(RengaMalloc(pass->microbatches * elements, &portion->statistics));
  RengaCall(RengaChunkPrepareGathers_Private(chunk));
  RengaCall(RengaChunkPrepareRows_Private(chunk, pass->microbatches, pass->batch->samples));
  RengaCall(RengaChunkBeginGradients_Private(chunk));
  RengaCall(RengaChunkPrepareRounds_Private(chunk, pass));
  return RENGA_SUCCESS;
}

/* Not collective; changes nothing that the next pass could see. */
RengaErrorCode RengaPipelinePrepare_Private(RengaPipeline pipeline, Pass *pass)
{
  pass->training = pass->kind == PROGRAM_TRAINING;
  RengaCall(CheckBatch(pipeline, pass));
  RengaCall(RengaPlanCheckMicrobatches_Private(MPI_COMM_SELF, pass->batch->samples,
                                               pipeline->outline->microbatch));
  pass->microbatches = RengaPlanMicrobatches(pipeline->plan, pass->batch->samples);
  pass->want[WANT_CALL] = pass->call;
  pass->want[WANT_STEP] = pipeline->step;
  pass->want[WANT_SAMPLES] = pass->batch->samples;
  if (pass->training) RengaCall(PrepareOptimizer(pipeline, pass));
  pass->n_values = 1;
  const bool loss = pass->call == CALL_STEP || pass->call == CALL_EVALUATE;
  if (loss) pass->n_values += pass->microbatches;
  if (pass->call == CALL_COUNT) pass->n_values += COUNT_VALUES;
  if (pass->training) pass->n_values += pipeline->outline->n_parameters;
  const int64_t before = pass->n_values - 1; /* the last says who failed */
  if (pass->training)
    pass->n_values += pass->batch->samples * RengaOutlineSampleColumns_Private(pipeline->outline);
  RengaCall(RengaMalloc(pass->n_values, &pass->values));
  if (pass->n_values - 1 > before && pass->training) pass->sample_losses = pass->values + before;
  if (loss) pass->loss = pass->values;
  if (pass->training)
    RengaCall(RengaOutlineGetTurns_Private(pipeline->outline, pass->microbatches, &pass->turn));
  RengaCall(PrepareActions(pipeline, pass));
  RengaCall(RengaPipelineCheckChannels_Private(pipeline, pass));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(PrepareChunk(&pipeline->rank->chunk[c], pass));
  if (pass->training) RengaCall(RengaPipelinePrepareGate_Private(pipeline, pass));
  return RENGA_SUCCESS;
}
