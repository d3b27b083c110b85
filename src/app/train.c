/* renga train: network, data, plan, checkpoint for a trainer, which makes the steps. */
#include "exitcode.h"
#include "hostmemory.h"
#include <string.h>

typedef struct {
  RengaComm comm;   /* lent */
  MPI_Comm printer; /* lent */
  RengaTrainer trainer;
  RengaTrainerRules rules;
  RengaTrainerParts parts; /* lent by the trainer */
  RengaGraph graph;
  RengaDataFields fields;
  AppAccuracy accuracy; /* of the validation part */
  RengaData data;
  RengaPlan plan;
  RengaCheckpoint checkpoint; /* NULL without -checkpoint_dir and -time_limit */
  AppMonitor monitor;
  AppTimeline timeline; /* NULL: it is not drawn */
  bool resumes, saves;  /* -resume finds a checkpoint; there is a -checkpoint_dir */
} Training;

static RengaErrorCode OnBeginStep(void *user, int64_t step)
{
  (void)step;
  const Training *training = user;
  RengaCall(AppMonitorBeginStep(training->monitor));
  RengaCall(AppTimelineBeginStep(training->timeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode OnStep(void *user, const RengaTrainerRow *row)
{
  const Training *training = user;
  RengaCall(AppTimelineEndStep(training->timeline, row->whole, row->step, row->seconds));
  RengaCall(AppMonitorStep(training->monitor, row));
  return RENGA_SUCCESS;
}

static RengaErrorCode OnEvaluating(void *user, const RengaTrainerProgress *progress)
{
  Training *training = user;
  const RengaTrainerParts *parts = &training->parts;
  if (!progress->batch)
    AppAccuracyBegin(&training->accuracy);
  else
    RengaCall(AppAccuracyAdd(&training->accuracy, parts->ranks, parts->pipeline, progress->batch));
  if (progress->done < progress->samples)
    AppMonitorValidating(training->monitor, progress->done, progress->samples, progress->batches);
  return RENGA_SUCCESS;
}

static RengaErrorCode OnEvaluated(void *user, double loss, int64_t step, int64_t samples)
{
  const Training *training = user;
  const AppAccuracy *accuracy = &training->accuracy;
  AppValidation found = {loss, AppPerplexity(&training->fields, accuracy, loss), -1, step, samples};
  if (accuracy->counted > 0) found.accuracy = accuracy->right / accuracy->counted;
  RengaCall(AppMonitorValidation(training->monitor, &found));
  return RENGA_SUCCESS;
}

static RengaErrorCode OnSentence(void *user, const char *sentence)
{
  const Training *training = user;
  RengaCall(AppMonitorSay(training->monitor, "%s", sentence));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeTrainer(Training *training)
{
  const RengaTrainerMonitor monitor = {.begin_step = OnBeginStep,
                                       .step = OnStep,
                                       .evaluating = OnEvaluating,
                                       .evaluated = OnEvaluated,
                                       .say = OnSentence,
                                       .user = training};
  RengaCall(RengaTrainerCreate(training->comm, &training->trainer));
  RengaCall(RengaTrainerSetFromOptions(training->trainer));
  RengaCall(RengaTrainerAddMonitor(training->trainer, &monitor));
  RengaCall(RengaTrainerGetRules(training->trainer, &training->rules));
  if (strcmp(training->rules.average, "sync") != 0)
    RengaCall(AppRefuseApart(training->printer, training->rules.average));
  return RENGA_SUCCESS;
}

/* Its directory is locked; a fresh run takes none that has checkpoints. */
static RengaErrorCode OpenDirectory(Training *training, bool resume)
{
  const char *directory;
  int64_t step;
  RengaCall(RengaCheckpointSetFromOptions(training->checkpoint));
  RengaCall(RengaCheckpointSetUp(training->checkpoint));
  RengaCall(RengaCheckpointGetDirectory(training->checkpoint, &directory));
  RengaCall(RengaCheckpointGetNewest(training->checkpoint, &training->resumes, &step));
  RengaCheck(
      resume || !training->resumes, training->printer, RENGA_ERR_OPTION,
      "%s holds the checkpoints of another run, the newest of step %lld, which are not "
      "replaced: go on from them with -resume, or give this run a -checkpoint_dir of its own",
      directory, (long long)step);
  RengaCall(AppSayRecovered(training->checkpoint, directory, training->printer));
  if (resume) RengaCall(AppKeepChoices(training->checkpoint));
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

static RengaErrorCode SetUpData(Training *training)
{
  RengaCall(AppLoadTrained(training->comm, &training->graph));
  RengaCall(RengaDataFindFields(training->graph, &training->fields));
  RengaCall(AppOpenData(training->comm, training->graph, false, &training->data));
  RengaCall(RengaTrainerSetData(training->trainer, training->graph, training->data));
  RengaCall(RengaTrainerGetParts(training->trainer, &training->parts));
  if (training->parts.eval_samples > 0)
    RengaCall(AppAccuracyCreate(training->graph, &training->fields, &training->accuracy));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanTraining(Training *training)
{
  RengaPartition partition = NULL;
  RengaCall(AppMakePartition(training->comm, training->graph, 0, 0, &partition));
  RengaCall(RengaTrainerSetPartition(training->trainer, partition));
  RengaCall(AppSetReading(partition, &training->fields, training->data));
  RengaCall(RengaPartitionSolve(partition, &training->plan));
  RengaCall(AppKeepPlannedLanes(training->graph));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPipeline(Training *training)
{
  RengaTrainerParts *parts = &training->parts;
  RengaCall(PlanTraining(training));
  RengaCall(RengaTrainerGetParts(training->trainer, parts));
  if (parts->group == 0)
    RengaCall(AppPrintStart(parts->ranks, training->graph, training->plan, parts->pipeline));
  RengaCall(RengaTrainerSetPlan(training->trainer, training->plan));
  RengaCall(AppCheckHiding(training->printer, training->graph));
  RengaCall(RengaTrainerSetUp(training->trainer));
  RengaCall(RengaTrainerGetParts(training->trainer, parts));
  RengaCall(AppSetPlanMemory(parts->ranks, training->plan, parts->pipeline));
  if (training->checkpoint)
    RengaCall(RengaTrainerSetCheckpoint(training->trainer, training->checkpoint));
  RengaCall(AppViewPlan(training->comm, training->plan));
  if (training->rules.learners == 0) RengaCall(AppViewSchedule(training->comm, parts->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode ResumeTraining(Training *training)
{
  AppOrigin origin = {.graph = training->graph,
                      .data = training->data,
                      .plan = training->plan,
                      .steps = training->rules.steps,
                      .batch = training->parts.batch};
  int64_t step;
  bool resume;
  if (!training->saves) return RENGA_SUCCESS;
  RengaCall(RengaOptionsGetInt64("seed", &origin.seed, NULL));
  RengaCall(RengaPipelineGetOptimizer(training->parts.pipeline, &origin.optimizer));
  RengaCall(AppSetOrigin(training->checkpoint, &origin));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (!resume) return RENGA_SUCCESS;
  RengaCall(RengaTrainerResume(training->trainer, &training->resumes, &step));
  if (!training->resumes) {
    RengaCall(RengaPrintf(training->printer, "no checkpoint yet: training begins at step 0\n"));
    return RENGA_SUCCESS;
  }
  RengaCall(AppCompareOrigin(training->comm, training->checkpoint, &origin));
  RengaCall(RengaPrintf(training->printer, "goes on after step %lld\n", (long long)step));
  return RENGA_SUCCESS;
}

/* A job's script gives the same command when it goes on. Of learners the first has it. */
static RengaErrorCode TakeInitialState(Training *training)
{
  static const char *const names[] = {"initial", "initial_adapter"};
  const RengaTrainerParts *parts = &training->parts;
  RengaCheckpointInitial initial;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!training->resumes && parts->group == 0)
    code = AppReadInitial(parts->ranks, parts->pipeline, false, &initial);
  RengaCall(RengaErrorAgree(training->printer, code));
  for (int i = 0; i < 2 && training->resumes; i++) {
    const char *path;
    RengaCall(RengaOptionsGetString(names[i], &path, NULL));
    if (path)
      RengaCall(RengaPrintf(training->printer,
                            "-%s %s is not read: the run goes on from its own checkpoint\n",
                            names[i], path));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTraining(Training *training)
{
  RengaTrainerStatus status;
  RengaCall(MakeTrainer(training));
  RengaCall(AppTimelineCreate(training->comm, &training->timeline));
  RengaCall(AppMonitorCreate(training->comm, &training->monitor));
  RengaCall(SetUpCheckpoint(training));
  if (!training->resumes) RengaCall(AppPeekInitial(training->comm));
  RengaCall(SetUpData(training));
  RengaCall(SetUpPipeline(training));
  RengaCall(ResumeTraining(training));
  RengaCall(TakeInitialState(training));
  RengaCall(RengaTrainerGetStatus(training->trainer, &status));
  const AppRun run = {status.step, training->rules.steps, AppTokensPerSample(&training->fields),
                      training->plan, training->parts.pipeline};
  RengaCall(AppMonitorBegin(training->monitor, &run));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintEnd(Training *training, const RengaTrainerStatus *status)
{
  const RengaTrainerParts *parts = &training->parts;
  const double seconds = status->timed_seconds / (double)status->timed_steps;
  if (status->timed_steps > 0 && training->rules.learners > 0)
    RengaCall(AppMonitorSay(training->monitor, "%.4g s per step\n", seconds));
  else if (status->timed_steps > 0)
    RengaCall(
        AppPrintSpeed(training->comm, training->plan, parts->pipeline, training->monitor, seconds));
  if (parts->group == 0) RengaCall(AppPrintMemory(parts->ranks, training->plan, parts->pipeline));
  RengaCall(AppPrintSharedMemory(training->comm));
  RengaCall(
      AppTimelineDraw(training->timeline, parts->pipeline, training->plan, training->monitor));
  RengaCall(AppPrintTraffic(training->comm, training->data, training->monitor));
  RengaCall(AppPrintDigest(parts->pipeline, training->monitor));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyTraining(Training *training, bool goes_on)
{
  AppLeave();
  if (training->checkpoint) RengaCall(RengaCheckpointDestroy(&training->checkpoint));
  RengaCall(RengaTrainerDestroy(&training->trainer));
  RengaCall(RengaPlanDestroy(&training->plan));
  RengaCall(RengaDataDestroy(&training->data));
  AppAccuracyDestroy(&training->accuracy);
  AppTimelineDestroy(&training->timeline);
  RengaDataFreeFields(&training->fields);
  RengaCall(RengaGraphDestroy(&training->graph));
  RengaCall(AppMonitorDestroy(&training->monitor, goes_on));
  return RENGA_SUCCESS;
}

/* After an error of all ranks a checkpoint under way is ended. */
static RengaErrorCode RunTraining(Training *training, RengaTrainerStatus *status)
{
  const RengaErrorCode code = RengaTrainerRun(training->trainer);
  RengaCall(RengaTrainerGetStatus(training->trainer, status));
  if (status->failed && training->checkpoint) RengaCheckpointDestroy(&training->checkpoint);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppTrain(const App *app)
{
  Training training = {.comm = app->comm};
  RengaTrainerStatus status;
  RengaCall(RengaObjectGetComm(app->comm, &training.printer));
  AppLetOutputFail();
  AppCatchLateSignals();
  RengaCall(SetUpTraining(&training));
  RengaCall(RunTraining(&training, &status));
  if (status.stopped)
    *app->exit_code = status.time_is_up ? APP_EXIT_TIME_IS_UP
                      : training.saves  ? APP_EXIT_ASKED_TO_LEAVE
                                        : APP_EXIT_NOTHING_KEPT;
  RengaCall(PrintEnd(&training, &status));
  RengaCall(DestroyTraining(&training, *app->exit_code != 0));
  RengaCheck(!status.unsaved, training.printer, RENGA_ERR_FILE_WRITE,
             "the checkpoint after the last step, %lld, could not be written",
             (long long)status.step);
  if (*app->exit_code == 0) RengaCall(AppCheckOutput(training.printer));
  return RENGA_SUCCESS;
}
