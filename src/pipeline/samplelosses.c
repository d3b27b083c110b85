/* Losses of single samples: an output of the network that a training step makes besides its
   gradients. They travel with the shares of the loss, in places that have one writer each. */
#include "pipelineimpl.h"
#include <string.h>

/* Numbers of a sample; 0: they were not asked for. */
int64_t RengaOutlineSampleColumns_Private(const Outline *outline)
{
  RengaValue value = RENGA_VALUE_NONE;
  if (RengaGraphGetSampleLosses(outline->graph, &value) || value == RENGA_VALUE_NONE) return 0;
  return RengaGraphGetValue(outline->graph, value)->spec.dim[1];
}

/* The value in the chunk that makes it: in others a gradient may have its name. */
RengaErrorCode RengaChunkFindSampleLosses_Private(Chunk *chunk)
{
  RengaValue whole;
  chunk->loss->samples = RENGA_VALUE_NONE;
  RengaCall(RengaGraphGetSampleLosses(chunk->outline->graph, &whole));
  if (whole == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  const RengaGraphValue *value = RengaGraphGetValue(chunk->outline->graph, whole);
  if (RengaPlanStageOfNode(chunk->outline->plan, value->producer) == chunk->stage)
    chunk->loss->samples = RengaGraphFindValue(chunk->sub, value->name);
  return RENGA_SUCCESS;
}

static double *SampleLossesAt(const Chunk *chunk, const Pass *pass, int64_t number)
{
  return pass->sample_losses + RengaPassTurn_Private(pass, number) * chunk->outline->microbatch *
                                   RengaOutlineSampleColumns_Private(chunk->outline);
}

/* Of micro-batch number: floats into the first half of their places; the host does not look at them
   yet. */
RengaErrorCode RengaChunkQueueSampleLosses_Private(Chunk *chunk, const Pass *pass,
                                                   const Program *program, int64_t number)
{
  const RengaValue value = chunk->loss->samples;
  if (!pass->sample_losses || value == RENGA_VALUE_NONE || !RengaChunkSpeaks_Private(chunk))
    return RENGA_SUCCESS;
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST,
                            SampleLossesAt(chunk, pass, number),
                            RengaChunkAt_Private(chunk, program->place[value]),
                            RengaTensorSpecBytes(&program->spec[value])));
  return RENGA_SUCCESS;
}

/* One double for each float, from the last on: it overwrites only those that it has passed. */
static void Widen(int64_t count, double wide[])
{
  for (int64_t i = count - 1; i >= 0; i--) {
    float value;
    memcpy(&value, (const char *)wide + (size_t)i * sizeof value, sizeof value);
    wide[i] = (double)value;
  }
}

/* Once the copies are done. */
void RengaChunkKeepSampleLosses_Private(const Chunk *chunk, const Pass *pass)
{
  const Portion *portion = chunk->portion;
  const int64_t columns = RengaOutlineSampleColumns_Private(chunk->outline);
  if (!pass->sample_losses || chunk->loss->samples == RENGA_VALUE_NONE ||
      !RengaChunkSpeaks_Private(chunk))
    return;
  for (int64_t number = portion->first; number < portion->last; number++)
    Widen(RengaPassSamples_Private(chunk->pipeline, pass, number) * columns,
          SampleLossesAt(chunk, pass, number));
}

/* After a step: the pass's numbers stay until the next one. */
void RengaPipelineKeepSampleLosses_Private(RengaPipeline pipeline, Pass *pass)
{
  SampleLosses *kept = &pipeline->rank->sample_losses;
  if (!pass->sample_losses) return;
  RengaFree(&kept->values);
  *kept = (SampleLosses){pass->values, pass->sample_losses, pass->batch->samples};
  pass->values = NULL;
}

/*@
   RengaPipelineGetSampleLosses - the losses of the samples of the last step, one by one

   Input:
   . pipeline - the pipeline of a network with RengaGraphSetSampleLosses, after a step

   Output:
   . samples - the number of samples of the step's batch, at least 1
   . columns - 1: the loss; 2: and the probability of the likeliest class, negative where that is
     not the label
   . values - [samples, columns], the same bits on every rank and in every layout; lent until the
     next step

   Errors: RENGA_ERR_ORDER before set-up, or for a pipeline that can only be destroyed
   (RengaPipelineStep), where the network has no losses of single samples, or before the first step.

   Notes: of the forward that the step made, before its update; a sample that is left out of the
   loss altogether has 0. The numbers come with those of the loss: a step sends no message more. The
   output of an evaluation, whose name RengaGraphGetSampleLosses leads to, is had by
   RengaPipelineForwardTo.

   See also: RengaGraphSetSampleLosses(), RengaGraphGetSampleLosses(), RengaPipelineStep(),
   RengaPipelineForwardTo()
@*/
RengaErrorCode RengaPipelineGetSampleLosses(RengaPipeline pipeline, int64_t *samples,
                                            int64_t *columns, const double **values)
{
  RengaCheckPointers(samples, columns, values);
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  const SampleLosses *kept = &pipeline->rank->sample_losses;
  const int64_t found = RengaOutlineSampleColumns_Private(pipeline->outline);
  RengaCheck(found > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the network has no losses of single samples: call RengaGraphSetSampleLosses before "
             "its set-up");
  RengaCheck(kept->values, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "there are no losses of single samples before the first step");
  *samples = kept->samples;
  *columns = found;
  *values = kept->losses;
  return RENGA_SUCCESS;
}
