/* renga train: network, data, plan, pipeline, checkpoint; then steps. */
#include "exitcode.h"
#include "hostmemory.h"
#include "learners.h"
#include "renga/private/number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  RengaComm comm;   /* lent */
  MPI_Comm printer; /* lent */
  RengaGraph graph;
  AppFields fields;
  AppAccuracy accuracy; /* of the validation part */
  AppHiding hiding;
  RengaData data;
  RengaPlan plan;
  AppLearners learners;
  RengaPipeline pipeline;     /* lent: the first of this rank's learners */
  RengaOptimizer optimizer;   /* lent by the pipeline */
  RengaCheckpoint checkpoint; /* NULL without -checkpoint_dir and -time_limit */
  AppMonitor monitor;
  AppTimeline timeline;             /* NULL: it is not drawn */
  int64_t seed, steps;              /* steps: number of the last one */
  int64_t batch;                    /* samples that the pipeline takes at once */
  int64_t eval_every, eval_samples; /* eval_samples: of the validation part, 0: there are none */
  int64_t step;                     /* done so far, those before a resume included */
  int64_t timed_steps;              /* without the first, which warms up */
  double timed_seconds;
  int64_t rollbacks;
  bool goes_on;                 /* from a checkpoint of its own */
  bool saves;                   /* checkpoints: there is a -checkpoint_dir */
  double best;                  /* the least validation loss, HUGE_VAL: there was none */
  int64_t best_step, validated; /* after which steps; validated -1: none */
  int *exit_code;               /* of the program */
  bool stopped, unsaved; /* asked to leave, or the time is up; the last checkpoint is missing */
} Training;

static RengaErrorCode SetUpData(Training *training)
{
  int64_t validation = 0, wanted = 0;
  RengaCall(AppFindFields(training->comm, training->graph, &training->fields));
  RengaCall(AppOpenData(training->comm, &training->fields, false, &training->data));
  RengaCall(RengaDataGetCount(training->data, RENGA_DATA_VALIDATION, &validation));
  RengaCall(RengaOptionsGetInt64("eval_samples", &wanted, NULL));
  training->eval_samples = wanted && wanted < validation ? wanted : validation;
  RengaCall(AppCheckValidation(training->printer, training->eval_every, training->eval_samples));
  if (training->eval_samples > 0)
    RengaCall(AppAccuracyCreate(training->graph, &training->fields, &training->accuracy));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanLearner(Training *training)
{
  RengaPartition partition = NULL;
  RengaSettings settings;
  int64_t microbatch;
  RengaCall(RengaPipelineGetSettings(training->pipeline, &settings));
  if (training->learners.apart)
    RengaCall(RengaSettingsSetShard(settings, RENGA_SHARD_NOTHING)); /* others are refused */
  RengaCall(AppMakePartition(training->comm, training->graph, 0, 0, &partition));
  RengaCall(AppLearnersSetPartition(&training->learners, partition));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(AppSetReading(partition, &training->fields, training->data));
  RengaCall(
      AppLearnersAddPasses(&training->learners, partition, training->data, training->eval_samples));
  RengaCall(RengaPartitionSolve(partition, &training->plan));
  RengaCall(AppKeepPlannedLanes(training->graph));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPlanGetBatch(training->plan, &training->batch, &microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPipeline(Training *training)
{
  AppLearners *learners = &training->learners;
  RengaCall(AppLearnersCreate(training->comm, training->seed, training->steps, learners));
  training->pipeline = learners->pipeline[0];
  RengaCall(RengaPipelineGetOptimizer(training->pipeline, &training->optimizer));
  RengaCall(PlanLearner(training));
  if (learners->group == 0)
    RengaCall(AppPrintStart(learners->ranks, training->graph, training->plan, training->pipeline));
  RengaCall(AppSayLargeBatch(training->printer, training->data, training->batch * learners->count));
  RengaCall(AppLearnersPrint(learners));
  RengaCall(AppCheckStatistics(training->plan, training->graph, training->data, learners->count));
  RengaCall(RengaDataSetBatch(training->data, training->batch * learners->count));
  training->hiding.data = training->data;
  RengaCall(AppHidingCreate(training->comm, training->graph, training->optimizer, training->batch,
                            training->steps, &training->hiding));
  RengaCall(AppLearnersSetUp(learners, training->graph, training->plan, training->data,
                             training->eval_samples));
  RengaCall(AppLearnersPlaceData(learners, training->data, &training->fields));
  RengaCall(AppSetPlanMemory(learners->ranks, training->plan, training->pipeline));
  RengaCall(AppCheckCopies(learners, training->plan));
  RengaCall(AppViewPlan(training->comm, training->plan));
  if (!learners->apart) RengaCall(AppViewSchedule(training->comm, training->pipeline));
  return RENGA_SUCCESS;
}

/* What the run knew of its validations. */
static RengaErrorCode TakeBestState(Training *training)
{
  const char *best, *step, *validated;
  RengaCall(RengaCheckpointGetAttribute(training->checkpoint, "best_validation_loss", &best));
  RengaCall(RengaCheckpointGetAttribute(training->checkpoint, "best_validation_step", &step));
  RengaCall(RengaCheckpointGetAttribute(training->checkpoint, "validated_step", &validated));
  if (!best || !step) return RENGA_SUCCESS;
  training->best = RengaReadReal(best, NULL);
  training->best_step = strtoll(step, NULL, 10);
  if (validated) training->validated = strtoll(validated, NULL, 10);
  RengaCall(RengaCheckpointSetAttribute(training->checkpoint, "best_validation_loss", best));
  RengaCall(RengaCheckpointSetAttribute(training->checkpoint, "best_validation_step", step));
  return RENGA_SUCCESS;
}

/* A job's script gives the same command when it goes on. */
static RengaErrorCode TakeInitialState(Training *training)
{
  static const char *const names[] = {"initial", "initial_adapter"};
  if (!training->goes_on) RengaCall(AppLearnersReadInitial(&training->learners));
  for (int i = 0; i < 2 && training->goes_on; i++) {
    const char *path;
    RengaCall(RengaOptionsGetString(names[i], &path, NULL));
    if (path)
      RengaCall(RengaPrintf(training->printer,
                            "-%s %s is not read: the run goes on from its own checkpoint\n",
                            names[i], path));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ResumeTraining(Training *training)
{
  const AppOrigin origin = {training->graph,         training->data, training->plan,
                            training->optimizer,     training->seed, training->steps,
                            training->learners.batch};
  bool found = false, resume;
  if (training->checkpoint == NULL) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointSetPipeline(training->checkpoint, training->pipeline));
  if (!training->saves) return RENGA_SUCCESS;
  RengaCall(AppSetOrigin(training->checkpoint, &origin));
  RengaCall(AppLearnersSetCheckpoint(&training->learners, training->checkpoint));
  RengaCall(AppHidingAddState(&training->hiding, training->checkpoint));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (!resume) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointResume(training->checkpoint, &found, &training->step));
  if (!found) {
    training->step = 0;
    RengaCall(RengaPrintf(training->printer, "no checkpoint yet: training begins at step 0\n"));
    return RENGA_SUCCESS;
  }
  training->goes_on = true;
  RengaCall(AppLearnersSetStep(&training->learners, training->step));
  RengaCall(AppCompareOrigin(training->comm, training->checkpoint, &origin));
  RengaCall(TakeBestState(training));
  RengaCall(
      AppHidingResume(&training->hiding, training->comm, training->checkpoint, training->step));
  RengaCall(RengaPrintf(training->printer, "goes on after step %lld\n", (long long)training->step));
  return RENGA_SUCCESS;
}

/* Its directory is locked; a fresh run takes none that has checkpoints. */
static RengaErrorCode OpenDirectory(Training *training, bool resume)
{
  const char *directory;
  bool found;
  int64_t step;
  RengaCall(RengaCheckpointSetFromOptions(training->checkpoint));
  RengaCall(RengaCheckpointSetUp(training->checkpoint));
  RengaCall(RengaCheckpointGetDirectory(training->checkpoint, &directory));
  RengaCall(RengaCheckpointGetNewest(training->checkpoint, &found, &step));
  RengaCheck(
      resume || !found, training->printer, RENGA_ERR_OPTION,
      "%s holds the checkpoints of another run, the newest of step %lld, which are not "
      "replaced: go on from them with -resume, or give this run a -checkpoint_dir of its own",
      directory, (long long)step);
  RengaCall(AppSayRecovered(training->checkpoint, directory, training->printer));
  if (resume) RengaCall(AppKeepChoices(training->checkpoint));
  training->goes_on = found;
  return RENGA_SUCCESS;
}

/* Early: a wrong option or a directory that cannot be written is found before any work. */
static RengaErrorCode SetUpCheckpoint(Training *training)
{
  const char *directory;
  bool resume;
  double seconds;
  RengaCall(AppFindDirectory(training->comm, &directory, &resume));
  RengaCall(AppFindTimeLimit(training->comm, &seconds));
  if (!directory && seconds == 0) return RENGA_SUCCESS;
  if (!directory)
    RengaWarning(training->printer, "at the time limit the run leaves and nothing of it is kept: "
                                    "-checkpoint_dir keeps checkpoints");
  RengaCall(RengaCheckpointCreate(training->comm, &training->checkpoint));
  RengaCall(RengaCheckpointSetSignals(training->checkpoint, true));
  training->saves = directory != NULL;
  if (directory)
    RengaCall(OpenDirectory(training, resume));
  else
    RengaCall(RengaCheckpointSetUp(training->checkpoint));
  RengaCall(RengaCheckpointSetTimeLimit(training->checkpoint, seconds));
  return RENGA_SUCCESS;
}

/* What was taken of the nodes' memory before they refuse is given back. */
static RengaErrorCode ReserveNodes(Training *training)
{
  if (!training->saves) return RENGA_SUCCESS;
  const RengaErrorCode code =
      AppReserveMemory(&training->learners, training->plan, training->checkpoint);
  if (code == RENGA_ERR_MEMORY) RengaCheckpointDestroy(&training->checkpoint);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTraining(Training *training)
{
  RengaCall(RengaOptionsGetInt64("seed", &training->seed, NULL));
  RengaCall(RengaOptionsGetInt64("steps", &training->steps, NULL));
  RengaCall(RengaOptionsGetInt64("eval_every", &training->eval_every, NULL));
  RengaCall(AppTimelineCreate(training->comm, &training->timeline));
  RengaCall(AppMonitorCreate(training->comm, &training->monitor));
  RengaCall(SetUpCheckpoint(training));
  if (!training->goes_on) RengaCall(AppPeekInitial(training->comm));
  RengaCall(AppLoadTrained(training->comm, &training->graph));
  RengaCall(SetUpData(training));
  RengaCall(SetUpPipeline(training));
  RengaCall(ResumeTraining(training));
  RengaCall(TakeInitialState(training));
  RengaCall(ReserveNodes(training));
  const AppRun run = {training->step, training->steps, AppTokensPerSample(&training->fields),
                      training->plan, training->pipeline};
  RengaCall(AppMonitorBegin(training->monitor, &run));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayValidation(Training *training, double loss)
{
  AppValidation found = {loss, AppPerplexity(&training->fields, &training->accuracy, loss), -1,
                         training->step, training->eval_samples};
  if (training->accuracy.counted > 0)
    found.accuracy = training->accuracy.right / training->accuracy.counted;
  RengaCall(AppMonitorValidation(training->monitor, &found));
  return RENGA_SUCCESS;
}

/* The least loss so far: known to all checkpoints from now on; with -keep_best one of its own. */
static RengaErrorCode KeepBestState(Training *training, double loss)
{
  char text[32];
  bool keep, wrote = false;
  training->best = loss;
  training->best_step = training->step;
  RengaCall(RengaOptionsGetBool("keep_best", &keep, NULL));
  if (!training->saves) return RENGA_SUCCESS;
  RengaTextFormat(text, sizeof text, "%.17g", loss);
  RengaCall(RengaCheckpointSetAttribute(training->checkpoint, "best_validation_loss", text));
  snprintf(text, sizeof text, "%lld", (long long)training->step);
  RengaCall(RengaCheckpointSetAttribute(training->checkpoint, "best_validation_step", text));
  if (keep) RengaCall(RengaCheckpointTry(training->checkpoint, "best", &wrote));
  if (wrote) RengaCall(AppMonitorSay(training->monitor, "checkpoint best.h5: the least loss\n"));
  return RENGA_SUCCESS;
}

/* -early_stop: these were the last steps, also where the run goes on from its last checkpoint. */
static RengaErrorCode StopEarly(Training *training)
{
  int64_t patience;
  RengaCall(RengaOptionsGetInt64("early_stop", &patience, NULL));
  if (!patience || !training->eval_every || training->validated != training->step ||
      training->step >= training->steps ||
      training->step - training->best_step < patience * training->eval_every)
    return RENGA_SUCCESS;
  RengaCall(AppMonitorSay(training->monitor,
                          "early stop: no loss below %.6g, of step %lld, in %lld validations\n",
                          training->best, (long long)training->best_step, (long long)patience));
  training->steps = training->step;
  return RENGA_SUCCESS;
}

static RengaErrorCode UseValidation(Training *training, double loss)
{
  char text[32];
  RengaCall(SayValidation(training, loss));
  snprintf(text, sizeof text, "%lld", (long long)training->step);
  if (training->saves)
    RengaCall(RengaCheckpointSetAttribute(training->checkpoint, "validated_step", text));
  if (loss < training->best) RengaCall(KeepBestState(training, loss));
  RengaCall(StopEarly(training));
  return RENGA_SUCCESS;
}

/* Mean over the samples of the validation part, batch by batch. */
static RengaErrorCode Validate(Training *training)
{
  const AppLosses losses = {.comm = training->learners.ranks,
                            .graph = training->graph,
                            .data = training->data,
                            .pipeline = training->pipeline,
                            .accuracy = &training->accuracy,
                            .batch = training->batch,
                            .monitor = training->monitor};
  const int64_t samples[2] = {[RENGA_DATA_VALIDATION] = training->eval_samples};
  double loss = 0;
  RengaCall(AppLearnersShowMean(&training->learners));
  AppAccuracyBegin(&training->accuracy);
  if (training->eval_samples > 0) RengaCall(AppFindLoss(&losses, samples, &loss));
  RengaCall(AppLearnersHideMean(&training->learners));
  training->validated = training->step;
  if (training->eval_samples > 0) RengaCall(UseValidation(training, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode RecordStep(Training *training, AppRow *row)
{
  RengaCall(RengaOptimizerGetLearningRate(training->optimizer, row->step, &row->learning_rate));
  RengaCall(AppMonitorStep(training->monitor, row));
  return RENGA_SUCCESS;
}

static RengaErrorCode AfterFailure(Training *training, RengaErrorCode code)
{
  if (code && training->saves && !training->learners.apart)
    AppEndCheckpoints(training->pipeline, training->step, code, &training->checkpoint);
  if (code && training->saves && training->learners.apart)
    AppLearnersEndCheckpoints(&training->learners, training->step, code, &training->checkpoint);
  return code;
}

/* -pipeline_on_nonfinite rollback: the parameters of the newest good checkpoint, the next batch. */
static RengaErrorCode RollBack(Training *training)
{
  int64_t from = 0, most;
  bool found = false;
  RengaCall(RengaOptionsGetInt64("rollback_limit", &most, NULL));
  RengaCheck(training->rollbacks++ < most, training->printer, RENGA_ERR_NUMERIC,
             "step %lld is not finite after %lld rollbacks: a smaller -optimizer_learning_rate or "
             "-optimizer_clip_norm may help; -rollback_limit allows more",
             (long long)training->step, (long long)most);
  RengaCall(RengaCheckpointRollBack(training->checkpoint, &found, &from));
  RengaCheck(found, training->printer, RENGA_ERR_NUMERIC,
             "step %lld is not finite, and there is no checkpoint yet that a finite step followed",
             (long long)training->step);
  RengaCall(AppHidingRolledBack(&training->hiding));
  RengaCall(AppMonitorSay(training->monitor,
                          "rolled back to the checkpoint of step %lld; batches %lld to %lld are "
                          "left out\n",
                          (long long)from, (long long)from, (long long)training->step));
  return RENGA_SUCCESS;
}

/* The samples of this step are left out of training; what they are worth is found anew. */
static RengaErrorCode StepOverHidden(Training *training, const RengaBatch *batch)
{
  RengaCall(AppHidingEvaluate(&training->hiding, training->pipeline, batch));
  training->step++;
  RengaCall(RengaPipelineSetStepNumber(training->pipeline, training->step));
  return RENGA_SUCCESS;
}

/* One step, timed. A loss that is no number is the pipeline's error, before anything is written. */
static RengaErrorCode TrainStep(Training *training)
{
  AppWindow window = {.data = training->data, .part = RENGA_DATA_TRAINING};
  AppRow row = {.step = training->step};
  const double begin = MPI_Wtime();
  RengaCall(AppHidingBeginStep(&training->hiding, training->monitor, training->step));
  RengaCall(RengaDataBeginStep(training->data, training->step));
  RengaCall(RengaDataGetStep(training->data, RENGA_DATA_TRAINING, training->learners.batch,
                             training->step, &window.first, &row.samples, &window.epoch));
  RengaCall(AppMonitorBeginStep(training->monitor));
  RengaBatch batch = {.samples = row.samples, .read = AppReadWindow, .user = &window};
  if (AppHidingHides(&training->hiding, &window)) return StepOverHidden(training, &batch);
  RengaCall(AppTimelineBeginStep(training->timeline));
  RengaCall(AfterFailure(training, AppLearnersStep(&training->learners, &window, &row)));
  RengaPipelineStepInfo info = {.finite = true};
  if (!training->learners.apart) RengaCall(RengaPipelineGetLastStep(training->pipeline, &info));
  RengaCall(AppLearnersExchange(&training->learners, training->step + 1));
  row.seconds = MPI_Wtime() - begin;
  RengaCall(AppTimelineEndStep(training->timeline,
                               info.finite && row.samples == training->learners.batch,
                               training->step, row.seconds));
  RengaCall(RecordStep(training, &row));
  RengaCall(AppHidingKeep(&training->hiding, training->pipeline, &window));
  if (!info.finite && !info.counts) RengaCall(RollBack(training));
  training->timed_steps++;
  training->timed_seconds += row.seconds;
  training->step++;
  return RENGA_SUCCESS;
}

/* What comes between steps: a checkpoint if one is due, a validation if one is. */
static RengaErrorCode BetweenSteps(Training *training)
{
  bool wrote = false;
  if (training->step == training->steps) return RENGA_SUCCESS; /* the end does both */
  if (training->checkpoint)
    RengaCall(RengaCheckpointStep(training->checkpoint, &wrote, &training->stopped));
  if (wrote) RengaCall(AppSayWritten(training->checkpoint, training->monitor));
  if (training->eval_every && training->step % training->eval_every == 0 && !training->stopped)
    RengaCall(Validate(training));
  return RENGA_SUCCESS;
}

/* A checkpoint is written before the validation of its step, which a run that left then owes. */
static RengaErrorCode ValidateOwed(Training *training)
{
  if (training->goes_on && training->eval_every && training->step > 0 &&
      training->step < training->steps && training->step % training->eval_every == 0 &&
      training->validated != training->step)
    RengaCall(Validate(training));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSteps(Training *training)
{
  int64_t first = training->step;
  RengaCall(ValidateOwed(training));
  RengaCall(StopEarly(training));
  if (first >= training->steps)
    RengaCall(AppMonitorSay(training->monitor, "nothing to do: step %lld of %lld is reached\n",
                            (long long)first, (long long)training->steps));
  while (training->step < training->steps && !training->stopped) {
    RengaCall(TrainStep(training));
    if (training->step == first + 1) training->timed_steps = 0, training->timed_seconds = 0;
    RengaCall(BetweenSteps(training));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SayStop(Training *training)
{
  double left = 0;
  bool time_is_up = false;
  RengaCall(RengaCheckpointGetTimeLimit(training->checkpoint, &left, &time_is_up));
  RengaCall(RengaCheckpointGetMissing(training->checkpoint, &training->unsaved));
  RengaCall(AppMonitorSay(training->monitor, "%s after step %lld of %lld%s\n",
                          time_is_up ? "the time limit is near: leaving" : "asked to leave",
                          (long long)training->step, (long long)training->steps,
                          training->unsaved || !training->saves ? "" : ": go on with -resume"));
  *training->exit_code = time_is_up        ? APP_EXIT_TIME_IS_UP
                         : training->saves ? APP_EXIT_ASKED_TO_LEAVE
                                           : APP_EXIT_NOTHING_KEPT;
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteLast(Training *training)
{
  bool wrote = false;
  const char *directory;
  RengaCall(RengaCheckpointTry(training->checkpoint, NULL, &wrote));
  RengaCall(RengaCheckpointGetDirectory(training->checkpoint, &directory));
  training->unsaved = !wrote;
  if (wrote)
    RengaCall(AppMonitorSay(training->monitor, "checkpoint %s/step_%09lld.h5\n", directory,
                            (long long)training->step));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintEnd(Training *training)
{
  const double seconds = training->timed_seconds / (double)training->timed_steps;
  if (training->timed_steps > 0 && training->learners.apart)
    RengaCall(AppMonitorSay(training->monitor, "%.4g s per step\n", seconds));
  else if (training->timed_steps > 0)
    RengaCall(AppPrintSpeed(training->comm, training->plan, training->pipeline, training->monitor,
                            seconds));
  if (training->learners.group == 0)
    RengaCall(AppPrintMemory(training->learners.ranks, training->plan, training->pipeline));
  RengaCall(AppPrintSharedMemory(training->comm));
  RengaCall(
      AppTimelineDraw(training->timeline, training->pipeline, training->plan, training->monitor));
  RengaCall(AppPrintTraffic(training->comm, training->data, training->monitor));
  RengaCall(AppLearnersShowMean(&training->learners));
  RengaCall(AppPrintDigest(training->pipeline, training->monitor));
  return RENGA_SUCCESS;
}

static RengaErrorCode FinishTraining(Training *training, int64_t first)
{
  bool early = training->stopped && training->step < training->steps;
  if (early)
    RengaCall(SayStop(training));
  else if (training->validated != training->step)
    RengaCall(Validate(training));
  if (training->saves && training->step > first && !early) RengaCall(WriteLast(training));
  RengaCall(PrintEnd(training));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyTraining(Training *training)
{
  AppLeave();
  if (training->checkpoint) RengaCall(RengaCheckpointDestroy(&training->checkpoint));
  RengaCall(AppLearnersDestroy(&training->learners));
  RengaCall(RengaPlanDestroy(&training->plan));
  RengaCall(RengaDataDestroy(&training->data));
  AppAccuracyDestroy(&training->accuracy);
  AppHidingFree(&training->hiding);
  AppTimelineDestroy(&training->timeline);
  AppFreeFields(&training->fields);
  RengaCall(RengaGraphDestroy(&training->graph));
  RengaCall(AppMonitorDestroy(&training->monitor, *training->exit_code != 0));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTrain(const App *app)
{
  Training training = {
      .comm = app->comm, .best = HUGE_VAL, .validated = -1, .exit_code = app->exit_code};
  RengaCall(RengaObjectGetComm(app->comm, &training.printer));
  AppLetOutputFail();
  AppCatchLateSignals();
  RengaCall(SetUpTraining(&training));
  int64_t first = training.step;
  RengaCall(RunSteps(&training));
  RengaCall(FinishTraining(&training, first));
  bool unsaved = training.unsaved;
  int64_t step = training.step;
  RengaCall(DestroyTraining(&training));
  RengaCheck(!unsaved, training.printer, RENGA_ERR_FILE_WRITE,
             "the checkpoint after the last step, %lld, could not be written", (long long)step);
  if (*app->exit_code == 0) RengaCall(AppCheckOutput(training.printer));
  return RENGA_SUCCESS;
}
