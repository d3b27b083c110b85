/* The scale of the loss in fp16, whose numbers end at 65504 and lose bits below 2^-14: reverse mode
   begins with the scale instead of 1, norms and updates divide by it again. A gradient that is not
   finite at a scale above 1 is one that does not fit: the step is skipped and the scale halved.
   After many steps that fit it is doubled. It is a power of two, so that dividing by it is exact,
   and all ranks know it without a message, since they know the norm. */
#include "pipelineimpl.h"
#include <math.h>

enum { STEPS_TO_DOUBLE = 2000 };
static const double least = 1, most = 0x1p24;

/* Of the running step; 1 where there is none. */
double RengaLossScaleOf_Private(RengaPipeline pipeline)
{
  return pipeline->rank->seeded ? pipeline->loss_scale : 1;
}

/* What reverse mode begins with, before the first backward of a step. */
RengaErrorCode RengaChunkQueueSeed_Private(Chunk *chunk)
{
  if (chunk->loss->seed == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  chunk->loss->scale = (float)RengaLossScaleOf_Private(chunk->pipeline);
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE,
                            chunk->at->persistent + chunk->value_place[chunk->loss->seed].offset,
                            &chunk->loss->scale, sizeof chunk->loss->scale));
  return RENGA_SUCCESS;
}

/* The gradient does not fit: nothing is changed but the scale, the same on all ranks. */
bool RengaLossScaleOverflows_Private(RengaPipeline pipeline, const RengaPipelineStepInfo *info)
{
  if (!pipeline->rank->seeded || !isfinite(info->loss) || isfinite(info->norm)) return false;
  return pipeline->loss_scale > least;
}

void RengaLossScaleHalve_Private(RengaPipeline pipeline)
{
  pipeline->loss_scale /= 2;
  pipeline->loss_scale_steps = 0;
}

/* After a step that fits. */
void RengaLossScaleCount_Private(RengaPipeline pipeline)
{
  if (!pipeline->rank->seeded || ++pipeline->loss_scale_steps < STEPS_TO_DOUBLE) return;
  pipeline->loss_scale_steps = 0;
  if (pipeline->loss_scale < most) pipeline->loss_scale *= 2;
}

static RengaErrorCode CheckLossScale(MPI_Comm comm, double scale, int64_t steps)
{
  int exponent;
  RengaCheck(
      scale >= least && scale <= most && frexp(scale, &exponent) == 0.5, comm, RENGA_ERR_ARGUMENT,
      "a loss scale of %.10g: a power of two from %.0f to %.0f is needed", scale, least, most);
  RengaCheck(steps >= 0 && steps < STEPS_TO_DOUBLE, comm, RENGA_ERR_ARGUMENT,
             "%lld steps at a loss scale: 0 to %d are counted", (long long)steps,
             STEPS_TO_DOUBLE - 1);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLossScaleSetUp_Private(RengaPipeline pipeline)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(pipeline->graph, &precision));
  pipeline->rank->seeded = precision == RENGA_PRECISION_FP16 && pipeline->outline->has_loss;
  if (pipeline->rank->seeded)
    RengaCall(CheckLossScale(pipeline->hdr.comm, pipeline->loss_scale, pipeline->loss_scale_steps));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetLossScale - the scale that the loss has in fp16

   Collective

   Input:
   . pipeline - the pipeline; also between steps
   . scale - a power of two, 1 to 2^24; 65536 at first
   . steps - since it last changed, 0 to 1999: after 2000 steps that fit it is doubled

   Options:
   . -pipeline_loss_scale SCALE - the first one

   Errors: RENGA_ERR_ARGUMENT for numbers out of these ranges.

   Notes: only networks of RENGA_PRECISION_FP16 use it; a step whose gradient does not fit at a
   scale above 1 changes nothing, counts, and halves it. Checkpoints keep both numbers.

   Source: P. Micikevicius and others, Mixed precision training, ICLR 2018.

   See also: RengaPipelineGetLossScale(), RengaGraphSetPrecision()
@*/
RengaErrorCode RengaPipelineSetLossScale(RengaPipeline pipeline, double scale, int64_t steps)
{
  RengaCheckPointer(pipeline);
  RengaCall(CheckLossScale(MPI_COMM_SELF, scale, steps));
  pipeline->loss_scale = scale;
  pipeline->loss_scale_steps = steps;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetLossScale - the scale that the loss has in fp16

   Output:
   . scale - the factor of the next step's loss, above 0
   . steps - steps since it last changed, at least 0
   . used - whether the network is of RENGA_PRECISION_FP16, once the pipeline is set up
@*/
RengaErrorCode RengaPipelineGetLossScale(RengaPipeline pipeline, double *scale, int64_t *steps,
                                         bool *used)
{
  RengaCheckPointers(pipeline, scale, steps, used);
  *scale = pipeline->loss_scale;
  *steps = pipeline->loss_scale_steps;
  *used = pipeline->hdr.state == RENGA_STATE_SETUP && pipeline->rank->seeded;
  return RENGA_SUCCESS;
}
