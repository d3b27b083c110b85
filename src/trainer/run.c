/* The steps of a run, and what comes between them. */
#include "renga/private/epochs.h"
#include "trainerimpl.h"
#include "renga/private/number.h"
#include <stdlib.h>

/* What its files hold, for which there is room. */
static RengaErrorCode AddTensors(RengaTrainer trainer, RengaCheckpoint checkpoint)
{
  RengaCall(RengaLearnersSetCheckpoint(trainer->learners, checkpoint));
  RengaCall(RengaHidingAddState(trainer->hiding, checkpoint));
  if (trainer->parts.plan)
    RengaCall(RengaCheckCopies(trainer->learners, trainer->parts.plan, checkpoint));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetCheckpoint - where checkpoints are kept, and who says that it is time to leave

   Collective

   Input:
   . trainer - set up
   . checkpoint - set up; lent until it is destroyed, before the trainer

   Errors: RENGA_ERR_MEMORY where copies of -checkpoint_async do not fit beside the plan;
   RENGA_ERR_ORDER before RengaTrainerSetUp.

   Notes: one without a directory only looks at signals and the time.

   See also: RengaTrainerResume(), RengaTrainerRun()
@*/
RengaErrorCode RengaTrainerSetCheckpoint(RengaTrainer trainer, RengaCheckpoint checkpoint)
{
  const char *directory;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointer(trainer);
  RengaCheckState(trainer, RENGA_STATE_SETUP, "RengaTrainerSetUp");
  RengaCall(RengaCheckpointGetDirectory(checkpoint, &directory));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, trainer->parts.pipeline));
  if (directory) code = AddTensors(trainer, checkpoint);
  if (code) (void)RengaCheckpointSetTensors(checkpoint, NULL, NULL);
  RengaCall(code);
  trainer->parts.checkpoint = checkpoint;
  trainer->saves = directory != NULL;
  return RENGA_SUCCESS;
}

/* What the run knew of its evaluations. */
static RengaErrorCode TakeBestState(RengaTrainer trainer)
{
  const char *best, *step, *evaluated;
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "best_validation_loss", &best));
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "best_validation_step", &step));
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "validated_step", &evaluated));
  if (!best || !step) return RENGA_SUCCESS;
  trainer->status.best = RengaReadReal(best, NULL);
  trainer->status.best_step = strtoll(step, NULL, 10);
  if (evaluated) trainer->evaluated = strtoll(evaluated, NULL, 10);
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "best_validation_loss", best));
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "best_validation_step", step));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerResume - go on from the newest checkpoint, if there is one

   Collective

   Input:
   . trainer - the trainer, after RengaTrainerSetCheckpoint()

   Output:
   . found - whether there was one
   . step - steps that were done then, at least 0; 0 where there was none

   Errors: RENGA_ERR_OPTION for one of another number of learners; those of
   RengaCheckpointResume().

   See also: RengaTrainerSetCheckpoint(), RengaTrainerRun()
@*/
RengaErrorCode RengaTrainerResume(RengaTrainer trainer, bool *found, int64_t *step)
{
  RengaCheckPointers(trainer, found, step);
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  RengaCheck(trainer->saves, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetCheckpoint comes before RengaTrainerResume");
  *step = 0;
  RengaCall(RengaLearnersCheckBefore(trainer->learners, checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, found, step));
  if (!*found) return RENGA_SUCCESS;
  RengaCall(RengaLearnersSetStep(trainer->learners, *step));
  RengaCall(TakeBestState(trainer));
  RengaCall(RengaHidingResume(trainer->hiding, checkpoint, *step));
  trainer->resumed = true;
  trainer->status.step = *step;
  return RENGA_SUCCESS;
}

/* By its code: is it the error of all ranks? A device's fault is that of a rank alone. */
static bool AllHave(RengaErrorCode code)
{
  return code != RENGA_ERR_TIMEOUT && code != RENGA_ERR_LIBRARY && code != RENGA_ERR_INTERNAL &&
         code != RENGA_ERR_MEMORY;
}

/* A step that was not finite: the checkpoint that it went on from must not be resumed for ever. */
static void MarkAfterFailure(RengaTrainer trainer)
{
  RengaPipelineStepInfo info;
  RengaLearners *learners = trainer->learners;
  int64_t count = learners->nonfinite;
  if (!learners->apart) (void)RengaPipelineGetNonfiniteCount(trainer->parts.pipeline, &count);
  if (count == 0) return; /* other numbers were wrong */
  const bool marks =
      learners->apart ? RengaLearnersSetStep(learners, trainer->status.step) == RENGA_SUCCESS
                      : RengaPipelineGetLastStep(trainer->parts.pipeline, &info) == RENGA_SUCCESS &&
                            !info.finite && info.step == trainer->status.step;
  if (marks) RengaCheckpointMarkBad(trainer->parts.checkpoint);
}

static RengaErrorCode AfterFailure(RengaTrainer trainer, RengaErrorCode code)
{
  if (!code || !trainer->saves || !AllHave(code)) return code;
  if (code == RENGA_ERR_NUMERIC) MarkAfterFailure(trainer);
  trainer->status.failed = true;
  return code;
}

/* -pipeline_on_nonfinite rollback: the parameters of the newest good checkpoint, the next batch. */
static RengaErrorCode RollBack(RengaTrainer trainer, long long step)
{
  int64_t from = 0;
  bool found = false;
  const long long most = trainer->rules->rollback_limit;
  RengaCheck(trainer->rollbacks++ < most, trainer->hdr.comm, RENGA_ERR_NUMERIC,
             "step %lld is not finite after %lld rollbacks: a smaller -optimizer_learning_rate or "
             "-optimizer_clip_norm may help; -rollback_limit allows more",
             step, most);
  if (trainer->saves) RengaCall(RengaCheckpointRollBack(trainer->parts.checkpoint, &found, &from));
  RengaCheck(found, trainer->hdr.comm, RENGA_ERR_NUMERIC,
             "step %lld is not finite, and there is no checkpoint yet that a finite step followed",
             step);
  RengaCall(RengaHidingRolledBack(trainer->hiding));
  RengaCall(RengaTrainerSay(trainer,
                            "rolled back to the checkpoint of step %lld; batches %lld to %lld are "
                            "left out\n",
                            (long long)from, (long long)from, step));
  return RENGA_SUCCESS;
}

/* The samples of this step are left out of training; what they are worth is found anew. */
static RengaErrorCode StepOverHidden(RengaTrainer trainer, const RengaBatch *batch)
{
  RengaCall(RengaHidingEvaluate(trainer->hiding, trainer->parts.pipeline, batch));
  trainer->status.step++;
  RengaCall(RengaPipelineSetStepNumber(trainer->parts.pipeline, trainer->status.step));
  return RENGA_SUCCESS;
}

static void CountStep(RengaTrainer trainer, double seconds)
{
  RengaTrainerStatus *status = &trainer->status;
  const bool warm = status->step > trainer->first;
  status->timed_steps += warm;
  status->timed_seconds += warm ? seconds : 0;
  status->step++;
}

/* One step, timed. A loss that is no number is the pipeline's error, before anything is written. */
static RengaErrorCode TrainStep(RengaTrainer trainer)
{
  const RengaTrainerParts *parts = &trainer->parts;
  RengaLearners *learners = trainer->learners;
  RengaWindow window = {.trainer = trainer, .part = RENGA_DATA_TRAINING};
  RengaTrainerRow row = {.step = trainer->status.step};
  RengaPipelineStepInfo info = {.finite = true};
  const double begin = MPI_Wtime();
  RengaCall(RengaHidingBeginStep(trainer->hiding, trainer, row.step));
  RengaCall(RengaDataBeginStep(parts->data, row.step));
  RengaCall(RengaDataGetStep(parts->data, RENGA_DATA_TRAINING, parts->batch, row.step,
                             &window.first, &row.samples, &window.epoch));
  const RengaBatch batch = {.samples = row.samples, .read = RengaReadWindow, .user = &window};
  if (RengaHidingHides(trainer->hiding, &window)) return StepOverHidden(trainer, &batch);
  RengaCall(RengaTrainerTellBegin(trainer, row.step));
  RengaCall(AfterFailure(trainer, RengaLearnersStep(learners, &window, &row)));
  if (!learners->apart) RengaCall(RengaPipelineGetLastStep(parts->pipeline, &info));
  RengaCall(RengaLearnersExchange(learners, row.step + 1));
  row.seconds = MPI_Wtime() - begin;
  row.whole = info.finite && row.samples == parts->batch;
  CountStep(trainer, row.seconds);
  RengaCall(RengaTrainerTellStep(trainer, &row));
  RengaCall(RengaHidingKeep(trainer->hiding, parts->pipeline, &window));
  if (!info.finite && !info.counts) RengaCall(RollBack(trainer, row.step));
  return RENGA_SUCCESS;
}

/* Before the first step of this run. What was taken of the nodes' memory before they refuse is to
   be given back, by who destroys the checkpoint. */
static RengaErrorCode StartSteps(RengaTrainer trainer)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (trainer->begun) return RENGA_SUCCESS;
  if (trainer->saves && !trainer->resumed)
    RengaCall(RengaCheckpointCheckFresh(trainer->parts.checkpoint));
  trainer->begun = true;
  trainer->first = trainer->status.step;
  if (!trainer->resumed) RengaCall(RengaLearnersSpread(trainer->learners));
  if (trainer->saves && trainer->parts.plan)
    code = RengaReserveMemory(trainer->learners, trainer->parts.plan, trainer->parts.checkpoint);
  trainer->status.failed = code == RENGA_ERR_MEMORY;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerStep - one step, and nothing else

   Collective

   Input:
   . trainer - set up

   Errors: RENGA_ERR_ORDER before RengaTrainerSetUp; RENGA_ERR_OPTION where the folder of
   checkpoints holds those of another run; RENGA_ERR_NUMERIC for a loss that is not finite, as
   -pipeline_on_nonfinite says; those of RengaPipelineStep() and of monitors.

   Notes: no evaluation, no checkpoint: RengaTrainerRun() goes on from here.

   See also: RengaTrainerRun(), RengaTrainerEvaluate()
@*/
RengaErrorCode RengaTrainerStep(RengaTrainer trainer)
{
  RengaCheckPointer(trainer);
  RengaCheckState(trainer, RENGA_STATE_SETUP, "RengaTrainerSetUp");
  RengaCall(StartSteps(trainer));
  RengaCall(RengaLearnersHideMean(trainer->learners));
  RengaCall(TrainStep(trainer));
  return RENGA_SUCCESS;
}

/* What comes between steps: a checkpoint if one is due, an evaluation if one is. */
static RengaErrorCode BetweenSteps(RengaTrainer trainer)
{
  bool wrote = false;
  int64_t written;
  const int64_t every = trainer->rules->eval_every, step = trainer->status.step;
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  if (step == trainer->rules->steps) return RENGA_SUCCESS; /* the end does both */
  if (checkpoint) RengaCall(RengaCheckpointStep(checkpoint, &wrote, &trainer->status.stopped));
  if (wrote) {
    RengaCall(RengaCheckpointGetWritten(checkpoint, &written));
    RengaCall(RengaTrainerSay(trainer, "checkpoint after step %lld\n", (long long)written));
  }
  if (every && step % every == 0 && !trainer->status.stopped)
    RengaCall(RengaTrainerValidate(trainer));
  return RENGA_SUCCESS;
}

/* A checkpoint is written before the evaluation of its step, which a run that left then owes. */
static RengaErrorCode ValidateOwed(RengaTrainer trainer)
{
  const int64_t every = trainer->rules->eval_every, step = trainer->status.step;
  if (trainer->resumed && every && step > 0 && step < trainer->rules->steps && step % every == 0 &&
      trainer->evaluated != step)
    RengaCall(RengaTrainerValidate(trainer));
  RengaCall(RengaTrainerStopEarly(trainer));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayStop(RengaTrainer trainer)
{
  double left = 0;
  RengaTrainerStatus *status = &trainer->status;
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  RengaCall(RengaCheckpointGetTimeLimit(checkpoint, &left, &status->time_is_up));
  RengaCall(RengaCheckpointGetMissing(checkpoint, &status->unsaved));
  RengaCall(
      RengaTrainerSay(trainer, "%s after step %lld of %lld%s\n",
                      status->time_is_up ? "the time limit is near: leaving" : "asked to leave",
                      (long long)status->step, (long long)trainer->rules->steps,
                      status->unsaved || !trainer->saves ? "" : ": go on with -resume"));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteLast(RengaTrainer trainer)
{
  bool wrote = false;
  const char *directory;
  RengaCheckpoint checkpoint = trainer->parts.checkpoint;
  RengaCall(RengaCheckpointTry(checkpoint, NULL, &wrote));
  RengaCall(RengaCheckpointGetDirectory(checkpoint, &directory));
  trainer->status.unsaved = !wrote;
  if (wrote)
    RengaCall(RengaTrainerSay(trainer, "checkpoint %s/step_%09lld.h5\n", directory,
                              (long long)trainer->status.step));
  return RENGA_SUCCESS;
}

static RengaErrorCode FinishRun(RengaTrainer trainer)
{
  RengaTrainerStatus *status = &trainer->status;
  status->stopped = status->stopped && status->step < trainer->rules->steps;
  if (status->stopped)
    RengaCall(SayStop(trainer));
  else if (trainer->evaluated != status->step)
    RengaCall(RengaTrainerValidate(trainer));
  if (trainer->saves && status->step > trainer->first && !status->stopped)
    RengaCall(WriteLast(trainer));
  RengaCall(RengaLearnersShowMean(trainer->learners));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerRun - train up to the last step, evaluate, and write a checkpoint

   Collective

   Input:
   . trainer - set up

   Errors: those of RengaTrainerStep(); RENGA_ERR_NUMERIC after too many rollbacks. A checkpoint
   that cannot be written is a warning, and unsaved in the status.

   Notes: it ends before where the checkpoint is asked to leave (signals, the time limit), or after
   -early_stop; the status says so. Of learners, the pipeline has the mean then.

   See also: RengaTrainerGetStatus(), RengaTrainerAddMonitor(), RengaTrainerStep()
@*/
RengaErrorCode RengaTrainerRun(RengaTrainer trainer)
{
  RengaCheckPointer(trainer);
  RengaTrainerStatus *status = &trainer->status;
  RengaCheckState(trainer, RENGA_STATE_SETUP, "RengaTrainerSetUp");
  RengaCall(StartSteps(trainer));
  RengaCall(RengaLearnersHideMean(trainer->learners));
  RengaCall(ValidateOwed(trainer));
  if (trainer->first >= trainer->rules->steps)
    RengaCall(RengaTrainerSay(trainer, "nothing to do: step %lld of %lld is reached\n",
                              (long long)trainer->first, (long long)trainer->rules->steps));
  while (status->step < trainer->rules->steps && !status->stopped) {
    RengaCall(TrainStep(trainer));
    RengaCall(BetweenSteps(trainer));
  }
  RengaCall(FinishRun(trainer));
  return RENGA_SUCCESS;
}
