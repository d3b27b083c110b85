/* Training that leaves out the samples that matter least (-data_hide): which they are is found at
   the beginning of each epoch, and their losses at its end, by a forward pass. */
#include "app.h"
#include <string.h>

#define HIDING_TENSOR "data_hide"

/* by_loss: what a step finds out decides. */
static RengaErrorCode ReadHiding(bool *hides, bool *by_loss, bool *by_norm)
{
  const char *importance;
  double fraction;
  RengaCall(RengaOptionsGetReal("data_hide", &fraction, NULL));
  RengaCall(RengaOptionsGetString("data_importance", &importance, NULL));
  *hides = fraction > 0;
  *by_norm = *hides && strcmp(importance, "gradient_norm") == 0;
  *by_loss = *by_norm || (*hides && strcmp(importance, "loss") == 0);
  return RENGA_SUCCESS;
}

/* Before the network is set up. */
static RengaErrorCode AskForLosses(RengaGraph graph, const char *outputs)
{
  bool hides, by_loss, by_norm;
  (void)outputs;
  RengaCall(ReadHiding(&hides, &by_loss, &by_norm));
  if (by_loss) RengaCall(RengaGraphSetSampleLosses(graph, true));
  if (by_norm) RengaCall(RengaGraphSetSampleNorms(graph, true));
  return RENGA_SUCCESS;
}

const AppEnds AppHidingEnds = {AskForLosses, NULL};

static RengaErrorCode CheckHidingOptions(MPI_Comm printer, const AppHiding *hiding)
{
  static const char *const all[] = {"data_importance", "data_hide_confidence", "data_hide_warmup",
                                    "data_hide_schedule", "data_hide_rate"};
  for (size_t i = 0; i < sizeof all / sizeof all[0] && !hiding->on; i++)
    RengaCall(AppRefuseUnused(printer, all[i], "nothing is hidden without -data_hide"));
  if (hiding->on && hiding->columns < 2)
    RengaCall(AppRefuseUnused(printer, "data_hide_confidence",
                              "it needs a network with one label for each sample, and "
                              "-data_importance loss or gradient_norm"));
  return RENGA_SUCCESS;
}

/* The learning rate grows by what the hidden samples leave undone. */
static RengaErrorCode RateOfHiding(void *context, int64_t step, double scheduled, double *rate)
{
  const AppHiding *hiding = context;
  (void)step;
  *rate = scheduled / (1 - (double)hiding->epoch.hidden / (double)hiding->samples);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindLosses(AppHiding *hiding, RengaGraph graph)
{
  RengaValue value;
  RengaCall(RengaGraphGetSampleLosses(graph, &value));
  if (value == RENGA_VALUE_NONE) return RENGA_SUCCESS; /* -data_importance random */
  hiding->output = RengaGraphGetValue(graph, value)->name;
  hiding->columns = RengaGraphGetValue(graph, value)->spec.dim[1];
  RengaCall(RengaMalloc(hiding->batch * hiding->columns, &hiding->rows));
  RengaCall(RengaMalloc(hiding->batch * hiding->columns, &hiding->wide));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingCreate(RengaComm comm, RengaGraph graph, RengaOptimizer optimizer,
                               int64_t batch, int64_t steps, AppHiding *hiding)
{
  MPI_Comm printer;
  bool by_loss, by_norm, adapts;
  double fraction;
  RengaImportance importance;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(ReadHiding(&hiding->on, &by_loss, &by_norm));
  hiding->batch = batch;
  RengaCall(FindLosses(hiding, graph));
  RengaCall(CheckHidingOptions(printer, hiding));
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(RengaDataGetCount(hiding->data, RENGA_DATA_TRAINING, &hiding->samples));
  hiding->steps = hiding->samples / batch + (hiding->samples % batch > 0);
  hiding->epochs = (steps + hiding->steps - 1) / hiding->steps;
  RengaCall(RengaDataGetHiding(hiding->data, &fraction, &importance, &adapts));
  if (adapts) RengaCall(RengaOptimizerSetLearningRateFunction(optimizer, RateOfHiding, hiding));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingAddState(AppHiding *hiding, RengaCheckpoint checkpoint)
{
  float *state;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {3}};
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(RengaDataGetHidingState(hiding->data, &spec.dim[1], &state));
  RengaCall(RengaCheckpointAddTensor(checkpoint, HIDING_TENSOR, &spec, state));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingResume(AppHiding *hiding, RengaComm comm, RengaCheckpoint checkpoint,
                               int64_t step)
{
  MPI_Comm printer;
  bool has;
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaCheckpointHasTensor(checkpoint, HIDING_TENSOR, &has));
  if (!has)
    RengaWarning(printer, "the checkpoint knows no losses of this run's samples: none is hidden "
                          "before it was trained again");
  if (!has || step % hiding->steps == 0) return RENGA_SUCCESS;
  hiding->epoch.epoch = step / hiding->steps;
  RengaCall(RengaDataResumeEpoch(hiding->data, hiding->epoch.epoch, hiding->batch));
  RengaCall(RengaDataGetHidden(hiding->data, &hiding->epoch.epoch, &hiding->epoch.hidden));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingRolledBack(AppHiding *hiding)
{
  if (hiding->on) RengaCall(RengaDataKeepEpoch(hiding->data));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingBeginStep(AppHiding *hiding, AppMonitor monitor, int64_t step)
{
  const int64_t epoch = hiding->on ? step / hiding->steps : 0;
  if (!hiding->on || step % hiding->steps != 0) return RENGA_SUCCESS;
  RengaCall(RengaDataBeginEpoch(hiding->data, epoch, hiding->batch,
                                (double)epoch / (double)hiding->epochs, &hiding->epoch));
  RengaCall(AppMonitorSay(monitor,
                          "epoch %lld hides %lld of %lld samples (%.3g %%); %lld with small loss "
                          "were moved back\n",
                          (long long)epoch, (long long)hiding->epoch.hidden,
                          (long long)hiding->samples,
                          100 * (double)hiding->epoch.hidden / (double)hiding->samples,
                          (long long)hiding->epoch.moved_back));
  return RENGA_SUCCESS;
}

bool AppHidingHides(const AppHiding *hiding, const AppWindow *window)
{
  return hiding->on && window->first >= hiding->samples - hiding->epoch.hidden;
}

RengaErrorCode AppHidingKeep(AppHiding *hiding, RengaPipeline pipeline, const AppWindow *window)
{
  const double *values;
  int64_t samples, columns;
  if (!hiding->output) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetSampleLosses(pipeline, &samples, &columns, &values));
  RengaCall(
      RengaDataPutLosses(hiding->data, window->epoch, window->first, samples, columns, values));
  hiding->trained += samples;
  return RENGA_SUCCESS;
}

RengaErrorCode AppHidingEvaluate(AppHiding *hiding, RengaPipeline pipeline, const RengaBatch *batch)
{
  const AppWindow *window = batch->user;
  const int64_t numbers = batch->samples * hiding->columns;
  hiding->left_out += batch->samples;
  if (!hiding->output) return RENGA_SUCCESS;
  RengaCall(RengaPipelineForwardTo(pipeline, batch, hiding->output, RENGA_TO_ALL, hiding->rows));
  for (int64_t i = 0; i < numbers; i++) hiding->wide[i] = (double)hiding->rows[i];
  RengaCall(RengaDataPutLosses(hiding->data, window->epoch, window->first, batch->samples,
                               hiding->columns, hiding->wide));
  return RENGA_SUCCESS;
}

void AppHidingFree(AppHiding *hiding)
{
  RengaFree(&hiding->rows);
  RengaFree(&hiding->wide);
}
