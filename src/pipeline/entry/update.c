/* The last action of a step: all sums and the gradient's norm, then the update of parameters and
   states by it. */
#include "../gradients.h"
#include "../updates.h"
#include "renga/private/log.h"
#include "renga/private/optimizer.h"
#include <math.h>

/* Sums of squares are queued; the host has them once the results are taken. */
static RengaErrorCode QueueNorms(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaSpan span;
  if (pass->failed || pipeline->rank->n_chunks == 0) return RENGA_SUCCESS;
  RengaCall(RengaPipelineBeginTimed_Private(pipeline, EVENT_NORM, &span));
  for (int c = 0; c < pipeline->rank->n_chunks && !code; c++)
    code = RengaChunkQueueStates_Private(&pipeline->rank->chunk[c]);
  for (int c = 0; c < pipeline->rank->n_chunks && !code; c++)
    code = RengaChunkQueueSquares_Private(&pipeline->rank->chunk[c]);
  RengaCall(RengaPipelineEndTimed_Private(pipeline, EVENT_NORM, span, 0, "norm", code));
  return RENGA_SUCCESS;
}

/* The host goes on while the device changes parameters: what comes next is queued behind that.
   Under the log it waits where the device does not time its work itself. */
static RengaErrorCode MarkUpdate(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  if (!rank->updated) return RENGA_SUCCESS;
  RengaCall(RengaEventRecord(pipeline->device, rank->updated, NULL));
  rank->updating = true;
  if (RengaLogIsWanted_Private() && !RengaDeviceHasSpans_Private(pipeline->device))
    RengaCall(RengaPipelineAwaitUpdate_Private(pipeline));
  return RENGA_SUCCESS;
}

/* The update of the step before is done, before anything else of the device is waited for: an error
   here is one after which some parameters have changed, those that are found later change nothing.
   The device has other work behind it, so that it is not idle meanwhile. */
RengaErrorCode RengaPipelineAwaitUpdate_Private(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  if (!rank->updating) return RENGA_SUCCESS;
  rank->updating = false;
  RengaCall(RengaPipelineAwaitEvent_Private(pipeline, rank->updated));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAll(RengaPipeline pipeline, const Pass *pass, double scale)
{
  for (int c = 0; c < pipeline->rank->n_chunks && !pass->judged; c++)
    RengaCall(RengaChunkQueueUpdates_Private(&pipeline->rank->chunk[c], scale));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(RengaChunkUpdateStates_Private(&pipeline->rank->chunk[c], pass));
  RengaCall(MarkUpdate(pipeline));
  return RENGA_SUCCESS;
}

/* Parameters, moments and states of this rank, by the gradient whose norm this is. */
static RengaErrorCode UpdateRank(RengaPipeline pipeline, const Pass *pass, double norm)
{
  double scale = 1;
  RengaSpan span = RENGA_SPAN_NONE;
  const double begin = MPI_Wtime();
  const bool timed = !pass->judged; /* else they were, as they were queued */
  if (pipeline->rank->n_chunks == 0) return RENGA_SUCCESS;
  RengaCall(RengaOptimizerGetScale(pipeline->optimizer, norm, &scale));
  scale /= RengaLossScaleOf_Private(pipeline);
  if (pass->judged) RengaCall(RengaPipelineCheckGate_Private(pipeline, true, scale));
  if (timed) RengaCall(RengaPipelineBeginTimed_Private(pipeline, EVENT_UPDATE, &span));
  RengaErrorCode code = UpdateAll(pipeline, pass, scale);
  if (timed) code = RengaPipelineEndTimed_Private(pipeline, EVENT_UPDATE, span, 0, "update", code);
  if (timed) RengaLogTrace(RengaPipelineTrack_Private(pipeline), "update", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A rule from outside may fail on one rank when others have changed parameters: it fails on all
   then. No other update can fail on the host. */
static RengaErrorCode UpdateTogether(RengaPipeline pipeline, const Pass *pass)
{
  RengaErrorCode code = UpdateRank(pipeline, pass, pass->info.norm);
  if (RengaOptimizerIsOutside_Private(pipeline->optimizer))
    code = RengaErrorAgree(pipeline->hdr.comm, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* In a pass: what the step before left under way on this rank is over. Fails only where messages
   stay under way. */
RengaErrorCode RengaPipelineEndOwnGathers_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code = RengaPipelineAwaitShares_Private(pipeline);
  if (code == RENGA_ERR_TIMEOUT) RengaCall(code);
  if (pipeline->rank->torn && !code) code = RENGA_ERR_LIBRARY;
  RengaCall(RengaPipelineNote_Private(pipeline, pass, code));
  return RENGA_SUCCESS;
}

/* The same in a pass that no rank refuses any more: all ranks know that nothing is under way. */
RengaErrorCode RengaPipelineEndGathers_Private(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaPipelineEndOwnGathers_Private(pipeline, pass));
  if (rank->gathering && !rank->torn) code = MarkUpdate(pipeline);
  rank->gathering = false;
  RengaCall(RengaPipelineNote_Private(pipeline, pass, code));
  return RENGA_SUCCESS;
}

/* Some stage has replicas that change a share of their parameters each. */
static bool Gathers(const Outline *outline)
{
  for (int s = 0; s < outline->stages; s++)
    if (RengaOutlineCountBuckets_Private(outline, s).shared > 0 &&
        !RengaOutlineFetches_Private(outline, s))
      return true;
  return false;
}

/* Gradients and statistics of the whole batch, and their norms; then what all ranks say of the
   pass. */
static RengaErrorCode SumUpAll(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkEndBuckets_Private(&rank->chunk[c], pass));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkEndRounds_Private(&rank->chunk[c], pass));
  RengaCall(RengaPipelineExchangeTied_Private(pipeline, pass));
  RengaCall(RengaPipelineAwaitUpdate_Private(pipeline));
  RengaCall(RengaPipelineNote_Private(pipeline, pass, QueueNorms(pipeline, pass)));
  RengaCall(RengaPipelineUpdateAhead_Private(pipeline, pass));
  RengaCall(RengaPipelineTakeResults_Private(pipeline, pass));
  for (int c = 0; c < rank->n_chunks && !pass->failed; c++)
    RengaChunkKeepSquares_Private(&rank->chunk[c], pass->values + pass->microbatches);
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkSumSplitNorms_Private(&rank->chunk[c], pass->values + pass->microbatches));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkSumStatistics_Private(&rank->chunk[c], pass));
  RengaCall(RengaPipelineSumValues_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* The same on all ranks; it errs on all of them. */
static RengaErrorCode JudgeStep(RengaPipeline pipeline, const Pass *pass,
                                RengaPipelineStepInfo *info)
{
  *info = (RengaPipelineStepInfo){.step = pipeline->step,
                                  .samples = pass->batch->samples,
                                  .loss = RengaAddInOrder_Private(pass->microbatches, pass->values),
                                  .counts = true};
  info->norm = sqrt(RengaAddInOrder_Private(pipeline->outline->n_parameters,
                                            pass->values + pass->microbatches)) /
               RengaLossScaleOf_Private(pipeline);
  pipeline->rank->scaled = RengaLossScaleOf_Private(pipeline);
  RengaCall(RengaOptimizerGetLearningRate(pipeline->optimizer, info->step, &info->learning_rate));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    pipeline->rank->chunk[c].gradients->valid = true;
  RengaCall(RengaPipelineJudge_Private(pipeline, info));
  return RENGA_SUCCESS;
}

/* The end of a step, of ranks without a stage too. Where the pass has failed, or the step
   is not finite, nothing changes. Fails where messages are left under way. */
RengaErrorCode RengaPipelineRunUpdate_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(RengaPipelineEndGathers_Private(pipeline, pass));
  RengaCall(SumUpAll(pipeline, pass));
  if (RengaPassHasFailed_Private(pass)) RengaPipelineFailGate_Private(pipeline, pass);
  if (RengaPassHasFailed_Private(pass)) return RENGA_SUCCESS;
  pass->verdict = JudgeStep(pipeline, pass, &pass->info);
  if (pass->judged && !pass->info.finite)
    RengaKeepFirst_Private(&pass->verdict, RengaPipelineCheckGate_Private(pipeline, false, 0));
  if (pass->verdict || !pass->info.finite) return RENGA_SUCCESS;
  pass->changes = true;
  pipeline->rank->gathering = Gathers(pipeline->outline);
  pass->verdict = UpdateTogether(pipeline, pass);
  if (pass->verdict == RENGA_ERR_TIMEOUT) RengaCall(pass->verdict);
  if (pass->verdict) RengaPipelineSpoil_Private(pipeline, pass->verdict);
  if (!pass->verdict) RengaLossScaleCount_Private(pipeline);
  return RENGA_SUCCESS;
}
