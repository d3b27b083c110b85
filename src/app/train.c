/* renga train: network, data, plan, checkpoint for a trainer, which makes the steps. */
#include "exitcode.h"
#include "hostmemory.h"

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
  AppCheckpoint kept;
  AppMonitor monitor;
  AppTimeline timeline; /* NULL: it is not drawn */
} Training;

static RengaErrorCode MakeTrainer(Training *training)
{
  RengaCall(RengaTrainerCreate(training->comm, &training->trainer));
  RengaCall(RengaTrainerSetFromOptions(training->trainer));
  RengaCall(RengaTrainerGetRules(training->trainer, &training->rules));
  if (training->rules.learners > 0)
    RengaCall(AppRefuseUnused(training->printer, "schedule_view",
                              "learners of -train_average have a schedule each"));
  RengaCall(AppTimelineCreate(training->comm, training->trainer, &training->timeline));
  RengaCall(AppMonitorCreate(training->comm, training->trainer, &training->monitor));
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
  if (training->kept.checkpoint)
    RengaCall(RengaTrainerSetCheckpoint(training->trainer, training->kept.checkpoint));
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
  if (!training->kept.saves) return RENGA_SUCCESS;
  RengaCall(RengaOptionsGetInt64("seed", &origin.seed, NULL));
  RengaCall(RengaPipelineGetOptimizer(training->parts.pipeline, &origin.optimizer));
  RengaCall(AppSetOrigin(training->kept.checkpoint, &origin));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (!resume) return RENGA_SUCCESS;
  RengaCall(RengaTrainerResume(training->trainer, &training->kept.resumes, &step));
  if (!training->kept.resumes) {
    RengaCall(RengaPrintf(training->printer, "no checkpoint yet: training begins at step 0\n"));
    return RENGA_SUCCESS;
  }
  RengaCall(AppCompareOrigin(training->comm, training->kept.checkpoint, &origin));
  RengaCall(RengaPrintf(training->printer, "goes on after step %lld\n", (long long)step));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTraining(Training *training)
{
  RengaTrainerStatus status;
  RengaCall(MakeTrainer(training));
  RengaCall(AppOpenCheckpoint(training->comm, &training->kept));
  if (!training->kept.resumes) RengaCall(AppPeekInitial(training->comm));
  RengaCall(SetUpData(training));
  RengaCall(SetUpPipeline(training));
  RengaCall(ResumeTraining(training));
  RengaCall(AppTakeInitial(training->comm, &training->parts, training->kept.resumes));
  RengaCall(RengaTrainerGetStatus(training->trainer, &status));
  const AppRun run = {status.step, training->rules.steps, AppTokensPerSample(&training->fields),
                      training->plan, training->parts.pipeline};
  RengaCall(AppMonitorBegin(training->monitor, &run, &training->fields, &training->accuracy));
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
  if (training->kept.checkpoint) RengaCall(RengaCheckpointDestroy(&training->kept.checkpoint));
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
  if (status->failed && training->kept.checkpoint)
    RengaCheckpointDestroy(&training->kept.checkpoint);
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
    *app->exit_code = status.time_is_up     ? APP_EXIT_TIME_IS_UP
                      : training.kept.saves ? APP_EXIT_ASKED_TO_LEAVE
                                            : APP_EXIT_NOTHING_KEPT;
  RengaCall(PrintEnd(&training, &status));
  RengaCall(DestroyTraining(&training, *app->exit_code != 0));
  RengaCheck(!status.unsaved, training.printer, RENGA_ERR_FILE_WRITE,
             "the checkpoint after the last step, %lld, could not be written",
             (long long)status.step);
  if (*app->exit_code == 0) RengaCall(AppCheckOutput(training.printer));
  return RENGA_SUCCESS;
}
