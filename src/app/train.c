/* renga train: network, data, plan, pipeline, checkpoint; then steps. */
#include "app.h"
#include <string.h>

typedef struct {
  RengaComm comm;   /* lent */
  MPI_Comm printer; /* lent */
  RengaGraph graph;
  AppFields fields;
  AppAccuracy accuracy; /* of the validation part */
  RengaData data;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaOptimizer optimizer;   /* lent by the pipeline */
  RengaCheckpoint checkpoint; /* NULL without -checkpoint_dir */
  AppMonitor monitor;
  int64_t seed, steps, batch;       /* steps: number of the last one */
  int64_t eval_every, eval_samples; /* eval_samples: of the validation part, 0: there are none */
  int64_t step;                     /* done so far, those before a resume included */
  int64_t timed_steps;              /* without the first, which warms up */
  double timed_seconds;
  bool stopped; /* asked to leave early */
} Training;

/* Samples of one step as the data set has them. */
typedef struct {
  RengaData data;
  RengaDataPart part;
  int64_t first, epoch;
} Window;

static RengaErrorCode ReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Window *window = user;
  RengaCall(RengaDataRead(window->data, window->part, field, window->epoch, window->first + first,
                          count, buffer));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpData(Training *training)
{
  const AppFields *fields = &training->fields;
  const char *data, *eval;
  int64_t validation = 0, wanted = 0;
  RengaCall(AppNeedOption(training->comm, "data",
                          "an HDF5 data set (renga data text makes one), or "
                          "synthetic",
                          &data));
  RengaCall(AppFindFields(training->comm, training->graph, &training->fields));
  RengaCall(RengaDataCreate(training->comm, &training->data));
  RengaCall(RengaDataSetSeed(training->data, (uint64_t)training->seed));
  RengaCall(RengaDataSetFromOptions(training->data));
  RengaCall(RengaOptionsGetString("eval", &eval, NULL));
  RengaCall(RengaDataSetValidationFile(training->data, eval));
  RengaCall(RengaDataSetFields(training->data, fields->count, fields->names, fields->specs,
                               fields->classes));
  RengaCall(RengaDataSetIgnored(training->data, fields->ignored));
  RengaCall(RengaDataSetUp(training->data));
  RengaCall(RengaDataGetCount(training->data, RENGA_DATA_VALIDATION, &validation));
  RengaCall(RengaOptionsGetInt64("eval_samples", &wanted, NULL));
  training->eval_samples = wanted && wanted < validation ? wanted : validation;
  if (training->eval_samples > 0)
    RengaCall(AppAccuracyCreate(training->graph, fields, &training->accuracy));
  return RENGA_SUCCESS;
}

/* The sizes of batches that will occur besides the whole one. */
static RengaErrorCode AnnounceShortBatches(Training *training)
{
  int64_t samples = 0;
  RengaCall(RengaDataGetCount(training->data, RENGA_DATA_TRAINING, &samples));
  RengaCheck(samples > 0, training->printer, RENGA_ERR_FILE_FORMAT,
             "the data set has no samples to train with");
  if (samples % training->batch)
    RengaCall(RengaPipelineSetDataShortBatch(training->pipeline, samples % training->batch));
  if (training->eval_samples % training->batch)
    RengaCall(RengaPipelineSetDataShortBatch(training->pipeline,
                                             training->eval_samples % training->batch));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPipeline(Training *training)
{
  RengaPartition partition = NULL;
  RengaSettings settings;
  int64_t microbatch = 0;
  RengaCall(RengaPipelineCreate(training->comm, &training->pipeline));
  RengaCall(RengaPipelineSetSeed(training->pipeline, (uint64_t)training->seed));
  RengaCall(RengaPipelineSetFromOptions(training->pipeline));
  RengaCall(RengaPipelineGetOptimizer(training->pipeline, &training->optimizer));
  RengaCall(RengaOptimizerSetTotalSteps(training->optimizer, training->steps));
  RengaCall(RengaPipelineGetSettings(training->pipeline, &settings));
  RengaCall(AppMakePartition(training->comm, training->graph, 0, 0, &partition));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(AppSetReading(partition, &training->fields, training->data));
  RengaCall(RengaPartitionSolve(partition, &training->plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPlanGetBatch(training->plan, &training->batch, &microbatch));
  RengaCall(AppPrintStart(training->comm, training->graph, training->plan));
  RengaCall(RengaPipelineSetPlan(training->pipeline, training->graph, training->plan));
  RengaCall(AnnounceShortBatches(training));
  RengaCall(RengaPipelineSetUp(training->pipeline));
  RengaCall(AppSetPlanMemory(training->comm, training->plan, training->pipeline));
  RengaCall(RengaPlanViewFromOptions(training->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode Resume(Training *training)
{
  bool found = false, resume;
  if (training->checkpoint == NULL) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointSetPipeline(training->checkpoint, training->pipeline));
  RengaCall(AppSetOrigin(training->checkpoint, training->graph, training->seed, training->batch));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (!resume) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointResume(training->checkpoint, &found, &training->step));
  if (!found) {
    training->step = 0;
    RengaCall(RengaPrintf(training->printer, "no checkpoint yet: training begins at step 0\n"));
    return RENGA_SUCCESS;
  }
  RengaCall(AppCompareOrigin(training->comm, training->checkpoint, training->graph, training->seed,
                             training->batch));
  RengaCall(RengaPrintf(training->printer, "goes on after step %lld\n", (long long)training->step));
  return RENGA_SUCCESS;
}

/* Early: a wrong option or a directory that cannot be written is found before any work. */
static RengaErrorCode SetUpCheckpoint(Training *training)
{
  const char *directory, *every;
  bool resume, every_given, found;
  int64_t step;
  RengaCall(RengaOptionsGetString("checkpoint_dir", &directory, NULL));
  RengaCall(RengaOptionsGetString("checkpoint_every", &every, &every_given));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  RengaCheck(directory || (!resume && !every_given), training->printer, RENGA_ERR_OPTION,
             "-%s needs -checkpoint_dir: where are the checkpoints?",
             resume ? "resume" : "checkpoint_every");
  if (!directory) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointCreate(training->comm, &training->checkpoint));
  RengaCall(RengaCheckpointSetFromOptions(training->checkpoint));
  RengaCall(RengaCheckpointSetUp(training->checkpoint));
  RengaCall(RengaCheckpointGetNewest(training->checkpoint, &found, &step));
  if (found && !resume)
    RengaWarning(training->printer,
                 "%s holds checkpoints, the newest of step %lld: they are kept, but for steps that "
                 "this run writes too; to go on from them add -resume",
                 directory, (long long)step);
  return RENGA_SUCCESS;
}

/* Samples are tokens where an input of [batch, sequence] indexes a table. */
static int64_t TokensPerSample(const AppFields *fields)
{
  for (int f = 0; f < fields->count; f++)
    if (fields->is_table_index[f] && fields->specs[f].ndim == 1) return fields->specs[f].dim[0];
  return 0;
}

static RengaErrorCode SetUp(Training *training)
{
  RengaCall(RengaOptionsGetInt64("seed", &training->seed, NULL));
  RengaCall(RengaOptionsGetInt64("steps", &training->steps, NULL));
  RengaCall(RengaOptionsGetInt64("eval_every", &training->eval_every, NULL));
  RengaCall(SetUpCheckpoint(training));
  RengaCall(AppLoadGraph(training->comm, &training->graph));
  RengaCall(SetUpData(training));
  RengaCall(SetUpPipeline(training));
  RengaCall(Resume(training));
  RengaCall(AppMonitorCreate(training->comm, training->step, training->steps,
                             TokensPerSample(&training->fields), &training->monitor));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayValidation(Training *training, double loss)
{
  char accuracy[64] = "";
  if (training->accuracy.counted > 0)
    snprintf(accuracy, sizeof accuracy, " accuracy %.2f %%",
             100 * training->accuracy.right / training->accuracy.counted);
  RengaCall(AppMonitorSay(training->monitor,
                          "validation loss %.6g%s after step %lld (%lld samples)\n", loss, accuracy,
                          (long long)training->step, (long long)training->eval_samples));
  return RENGA_SUCCESS;
}

/* Mean over the samples of the validation part, batch by batch. */
static RengaErrorCode Validate(Training *training)
{
  double sum = 0;
  int64_t done = 0;
  AppAccuracyBegin(&training->accuracy);
  for (int64_t b = 0; done < training->eval_samples; b++) {
    Window window = {.data = training->data, .part = RENGA_DATA_VALIDATION};
    int64_t count;
    double loss;
    RengaCall(RengaDataGetStep(training->data, RENGA_DATA_VALIDATION, training->batch, b,
                               &window.first, &count, &window.epoch));
    if (count > training->eval_samples - done) count = training->eval_samples - done;
    RengaBatch batch = {.samples = count, .read = ReadWindow, .user = &window};
    RengaCall(RengaPipelineEvaluate(training->pipeline, &batch, &loss));
    RengaCall(AppAccuracyAdd(&training->accuracy, training->comm, training->pipeline, &batch));
    sum += loss * (double)count;
    done += count;
  }
  if (done) RengaCall(SayValidation(training, sum / (double)done));
  return RENGA_SUCCESS;
}

static RengaErrorCode Record(Training *training, double loss, int64_t samples, double seconds)
{
  AppRow row = {.step = training->step, .loss = loss, .seconds = seconds, .samples = samples};
  RengaCall(RengaOptimizerGetLearningRate(training->optimizer, row.step, &row.learning_rate));
  RengaCall(RengaPipelineGetGradientNorm(training->pipeline, &row.gradient_norm));
  RengaCall(AppMonitorStep(training->monitor, &row));
  return RENGA_SUCCESS;
}

/* One step, timed. A loss that is no number is the pipeline's error, before anything is written. */
static RengaErrorCode Step(Training *training)
{
  Window window = {.data = training->data, .part = RENGA_DATA_TRAINING};
  int64_t count;
  double loss, begin = MPI_Wtime();
  RengaCall(RengaDataGetStep(training->data, RENGA_DATA_TRAINING, training->batch, training->step,
                             &window.first, &count, &window.epoch));
  RengaBatch batch = {.samples = count, .read = ReadWindow, .user = &window};
  RengaCall(RengaPipelineStep(training->pipeline, &batch, &loss));
  double seconds = MPI_Wtime() - begin;
  RengaCall(Record(training, loss, count, seconds));
  training->timed_steps++;
  training->timed_seconds += seconds;
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
  if (wrote)
    RengaCall(AppMonitorSay(training->monitor, "checkpoint after step %lld\n",
                            (long long)training->step));
  if (training->eval_every && training->step % training->eval_every == 0 && !training->stopped)
    RengaCall(Validate(training));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSteps(Training *training)
{
  int64_t first = training->step;
  if (first >= training->steps)
    RengaCall(AppMonitorSay(training->monitor, "nothing to do: step %lld of %lld is reached\n",
                            (long long)first, (long long)training->steps));
  while (training->step < training->steps && !training->stopped) {
    RengaCall(Step(training));
    if (training->step == first + 1) training->timed_steps = 0, training->timed_seconds = 0;
    RengaCall(BetweenSteps(training));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintDigest(Training *training)
{
  bool wanted = false;
  uint64_t digest = 0;
  RengaCall(RengaOptionsGetBool("parameter_digest", &wanted, NULL));
  if (!wanted) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetDigest(training->pipeline, &digest));
  RengaCall(
      AppMonitorSay(training->monitor, "parameter digest 0x%016llx\n", (unsigned long long)digest));
  return RENGA_SUCCESS;
}

/* A prediction takes a core for each thread. */
static RengaErrorCode SayShare(Training *training, double predicted)
{
  RengaDevice device;
  AppShare share;
  RengaCall(RengaPipelineGetDevice(training->pipeline, &device));
  RengaCall(AppFindShare(training->comm, training->plan, device, &share));
  if (!share.ranks) return RENGA_SUCCESS;
  RengaCall(AppMonitorSay(training->monitor,
                          "%d ranks with %lld threads share %lld cores: a step takes longer than "
                          "predicted, %.4g s at the least (processor time over cores)\n",
                          share.ranks, (long long)share.threads, (long long)share.cores,
                          share.least > predicted ? share.least : predicted));
  return RENGA_SUCCESS;
}

/* What the planner expected beside what was; steps after the first. */
static RengaErrorCode PrintSpeed(Training *training)
{
  RengaPlanPrediction prediction;
  const char *machine, *costs;
  int64_t memory;
  if (!training->timed_steps) return RENGA_SUCCESS;
  const double seconds = training->timed_seconds / (double)training->timed_steps;
  RengaCall(AppMonitorSay(training->monitor, "%.4g s per step\n", seconds));
  RengaCall(RengaPlanGetPrediction(training->plan, &prediction));
  if (prediction.step <= 0) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetOrigin(training->plan, &machine, &costs, &memory));
  const bool known = machine && costs && strcmp(costs, RENGA_PROFILE_MEASURED) != 0;
  RengaCall(SayShare(training, prediction.step));
  RengaCall(AppMonitorSay(
      training->monitor, "predicted %.4g s per step%s%s: measured is %.2f times that\n",
      prediction.step, known ? " on " : "", known ? machine : "", seconds / prediction.step));
  return RENGA_SUCCESS;
}

static RengaErrorCode Finish(Training *training, int64_t first)
{
  char *file = NULL;
  if (training->stopped)
    RengaCall(AppMonitorSay(training->monitor,
                            "asked to leave after step %lld of %lld: go on with -resume\n",
                            (long long)training->step, (long long)training->steps));
  else
    RengaCall(Validate(training));
  if (training->checkpoint && training->step > first && !training->stopped)
    RengaCall(RengaCheckpointWrite(training->checkpoint, &file));
  RengaCall(PrintSpeed(training));
  RengaCall(AppPrintMemory(training->comm, training->plan, training->pipeline));
  if (file) RengaCall(AppMonitorSay(training->monitor, "checkpoint %s\n", file));
  RengaFree(&file);
  RengaCall(PrintDigest(training));
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy(Training *training)
{
  RengaCall(AppMonitorDestroy(&training->monitor));
  if (training->checkpoint) RengaCall(RengaCheckpointDestroy(&training->checkpoint));
  RengaCall(RengaPipelineDestroy(&training->pipeline));
  RengaCall(RengaPlanDestroy(&training->plan));
  RengaCall(RengaDataDestroy(&training->data));
  AppAccuracyDestroy(&training->accuracy);
  AppFreeFields(&training->fields);
  RengaCall(RengaGraphDestroy(&training->graph));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTrain(const App *app)
{
  Training training = {.comm = app->comm};
  RengaCall(RengaObjectGetComm(app->comm, &training.printer));
  RengaCall(SetUp(&training));
  int64_t first = training.step;
  RengaCall(RunSteps(&training));
  RengaCall(Finish(&training, first));
  if (training.stopped && training.step < training.steps) *app->exit_code = APP_EXIT_ASKED_TO_LEAVE;
  RengaCall(Destroy(&training));
  return RENGA_SUCCESS;
}
