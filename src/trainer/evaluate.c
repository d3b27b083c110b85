/* Evaluations: the loss of many samples, batch by batch, and what follows from it. */
#include "trainerimpl.h"
#include "renga/private/number.h"

typedef struct {
  RengaTrainer trainer;
  RengaWindow window;
  int64_t batch, number, done, samples; /* number: batches done; done, samples: of the part */
} BatchWalk;

static BatchWalk StartWalk(RengaTrainer trainer, int part, const int64_t samples[2])
{
  return (BatchWalk){.trainer = trainer,
                     .window = {.trainer = trainer, .part = (RengaDataPart)part},
                     .batch = trainer->parts.batch / trainer->learners->count,
                     .samples = samples[part]};
}

static RengaBatch NextBatch(BatchWalk *walk)
{
  const int64_t left = walk->samples - walk->done, count = left < walk->batch ? left : walk->batch;
  walk->window.first = walk->done;
  walk->done += count;
  walk->number++;
  return (RengaBatch){.samples = count, .read = RengaReadWindow, .user = &walk->window};
}

/* Samples of a batch may count differently (labels that are left out, weights): then the batches
   are parts of one. */
static RengaErrorCode CountBatches(RengaTrainer trainer, const int64_t samples[2], bool *even)
{
  *even = true;
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++)
    for (BatchWalk walk = StartWalk(trainer, p, samples); walk.done < samples[p];) {
      bool same = false;
      const RengaBatch batch = NextBatch(&walk);
      RengaCall(RengaPipelineCount(trainer->parts.pipeline, &batch, &same));
      *even = *even && same;
    }
  if (*even) RengaCall(RengaPipelineForgetCounts(trainer->parts.pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode TellBatch(const BatchWalk *walk, const RengaBatch *batch)
{
  const RengaTrainerProgress progress = {batch, walk->done, walk->samples, walk->number};
  RengaCall(RengaTrainerTellProgress(walk->trainer, &progress));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumLosses(RengaTrainer trainer, const int64_t samples[2], bool even,
                                double *sum)
{
  *sum = 0;
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++) {
    BatchWalk walk = StartWalk(trainer, p, samples);
    if (samples[p] > 0) RengaCall(TellBatch(&walk, NULL));
    while (walk.done < samples[p]) {
      double loss;
      const RengaBatch batch = NextBatch(&walk);
      RengaCall(RengaPipelineEvaluate(trainer->parts.pipeline, &batch, &loss));
      RengaCall(TellBatch(&walk, &batch));
      *sum += even ? loss * (double)batch.samples : loss;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindLoss(RengaTrainer trainer, const int64_t samples[2], double *loss)
{
  bool even = true;
  int64_t whole;
  double sum = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaGraphGetWholeBatch(trainer->parts.graph, &whole));
  if (!whole) code = CountBatches(trainer, samples, &even); /* else each batch is by itself */
  if (!code) code = SumLosses(trainer, samples, even, &sum);
  RengaCall(RengaPipelineForgetCounts(trainer->parts.pipeline));
  RengaCall(code);
  if (even) sum /= (double)(samples[RENGA_DATA_TRAINING] + samples[RENGA_DATA_VALIDATION]);
  *loss = sum;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerEvaluate - the loss of samples as of one batch of them all; nothing changes

   Collective

   Input:
   . trainer - set up
   . samples - [2] the first samples of the training part, and of the validation part, that it is
     the mean of; NULL: those of the validation part that the rules say

   Output:
   . loss - mean over the samples, any number; learners have the mean of their parameters for it

   Errors: RENGA_ERR_ARGUMENT where there are no samples; RENGA_ERR_ORDER before RengaTrainerSetUp;
   those of RengaPipelineEvaluate().

   See also: RengaTrainerRun(), RengaTrainerAddMonitor()
@*/
RengaErrorCode RengaTrainerEvaluate(RengaTrainer trainer, const int64_t samples[2], double *loss)
{
  RengaCheckPointers(trainer, loss);
  RengaCheckState(trainer, RENGA_STATE_SETUP, "RengaTrainerSetUp");
  const int64_t own[2] = {[RENGA_DATA_VALIDATION] = trainer->parts.eval_samples};
  if (!samples) samples = own;
  RengaCheck(samples[0] >= 0 && samples[1] >= 0 && samples[0] + samples[1] > 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "an evaluation of %lld and %lld samples", (long long)samples[0],
             (long long)samples[1]);
  const bool shown = trainer->learners->shown; /* after RengaTrainerRun() */
  if (!trainer->begun && !trainer->resumed) RengaCall(RengaLearnersSpread(trainer->learners));
  RengaCall(RengaLearnersShowMean(trainer->learners));
  RengaCall(FindLoss(trainer, samples, loss));
  if (!shown) RengaCall(RengaLearnersHideMean(trainer->learners));
  return RENGA_SUCCESS;
}

/* The least loss so far: known to all checkpoints from now on; with -keep_best one of its own. */
static RengaErrorCode KeepBestState(RengaTrainer trainer, double loss)
{
  char text[32];
  bool wrote = false;
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  trainer->status.best = loss;
  trainer->status.best_step = trainer->status.step;
  if (!trainer->saves) return RENGA_SUCCESS;
  RengaTextFormat(text, sizeof text, "%.17g", loss);
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "best_validation_loss", text));
  snprintf(text, sizeof text, "%lld", (long long)trainer->status.step);
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "best_validation_step", text));
  if (trainer->rules->keep_best) RengaCall(RengaCheckpointTry(checkpoint, "best", &wrote));
  if (wrote) RengaCall(RengaTrainerSay(trainer, "checkpoint best.h5: the least loss\n"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerStopEarly(RengaTrainer trainer)
{
  const RengaTrainerStatus *status = &trainer->status;
  RengaTrainerRules *rules = trainer->rules;
  if (!rules->early_stop || !rules->eval_every || trainer->evaluated != status->step ||
      status->step >= rules->steps ||
      (status->step - status->best_step) / rules->eval_every < rules->early_stop)
    return RENGA_SUCCESS;
  RengaCall(RengaTrainerSay(
      trainer, "early stop: no loss below %.6g, of step %lld, in %lld validations\n", status->best,
      (long long)status->best_step, (long long)rules->early_stop));
  rules->steps = status->step;
  return RENGA_SUCCESS;
}

static RengaErrorCode UseLoss(RengaTrainer trainer, double loss)
{
  char text[32];
  const int64_t step = trainer->status.step;
  RengaCall(RengaTrainerTellLoss(trainer, loss));
  snprintf(text, sizeof text, "%lld", (long long)step);
  if (trainer->saves)
    RengaCall(RengaCheckpointSetAttribute(trainer->parts.checkpoint, "validated_step", text));
  if (loss < trainer->status.best) RengaCall(KeepBestState(trainer, loss));
  RengaCall(RengaTrainerStopEarly(trainer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerValidate(RengaTrainer trainer)
{
  double loss;
  trainer->evaluated = trainer->status.step;
  if (trainer->parts.eval_samples == 0) return RENGA_SUCCESS;
  RengaCall(RengaTrainerEvaluate(trainer, NULL, &loss));
  RengaCall(UseLoss(trainer, loss));
  return RENGA_SUCCESS;
}
