/* Training that leaves out the samples that matter least (-data_hide): which they are is found at
   the beginning of each epoch, and their losses at its end, by a forward pass. */
#include "renga/private/epochs.h"
#include "trainerimpl.h"

#define HIDING_TENSOR "data_hide"

/* The learning rate grows by what the hidden samples leave undone. */
static RengaErrorCode RateOfHiding(void *context, int64_t step, double scheduled, double *rate)
{
  const RengaHiding *hiding = context;
  (void)step;
  *rate = scheduled / (1 - (double)hiding->epoch.hidden / (double)hiding->samples);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindLosses(RengaHiding *hiding, RengaGraph graph)
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

RengaErrorCode RengaHidingCreate(RengaHiding *hiding, RengaGraph graph, RengaOptimizer optimizer,
                                 int64_t steps)
{
  const int64_t batch = hiding->batch;
  bool adapts;
  double fraction;
  RengaImportance importance;
  RengaCall(RengaDataGetHiding(hiding->data, &fraction, &importance, &adapts));
  hiding->on = fraction > 0;
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(FindLosses(hiding, graph));
  RengaCall(RengaDataGetCount(hiding->data, RENGA_DATA_TRAINING, &hiding->samples));
  hiding->steps = hiding->samples / batch + (hiding->samples % batch > 0);
  hiding->epochs = (steps + hiding->steps - 1) / hiding->steps;
  if (!adapts) return RENGA_SUCCESS;
  RengaCall(RengaOptimizerSetLearningRateFunction(optimizer, RateOfHiding, hiding));
  hiding->optimizer = optimizer;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHidingAddState(RengaHiding *hiding, RengaCheckpoint checkpoint)
{
  float *state;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {3}};
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(RengaDataGetHidingState(hiding->data, &spec.dim[1], &state));
  RengaCall(RengaCheckpointAddTensor(checkpoint, HIDING_TENSOR, &spec, state));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHidingResume(RengaHiding *hiding, RengaCheckpoint checkpoint, int64_t step)
{
  MPI_Comm printer;
  bool has;
  if (!hiding->on) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(hiding->data, &printer));
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

RengaErrorCode RengaHidingRolledBack(RengaHiding *hiding)
{
  if (hiding->on) RengaCall(RengaDataKeepEpoch(hiding->data));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHidingBeginStep(RengaHiding *hiding, RengaTrainer trainer, int64_t step)
{
  const int64_t epoch = hiding->on ? step / hiding->steps : 0;
  if (!hiding->on || step % hiding->steps != 0) return RENGA_SUCCESS;
  RengaCall(RengaDataBeginEpoch(hiding->data, epoch, hiding->batch,
                                (double)epoch / (double)hiding->epochs, &hiding->epoch));
  RengaCall(RengaTrainerSay(trainer,
                            "epoch %lld hides %lld of %lld samples (%.3g %%); %lld with small loss "
                            "were moved back\n",
                            (long long)epoch, (long long)hiding->epoch.hidden,
                            (long long)hiding->samples,
                            100 * (double)hiding->epoch.hidden / (double)hiding->samples,
                            (long long)hiding->epoch.moved_back));
  return RENGA_SUCCESS;
}

bool RengaHidingHides(const RengaHiding *hiding, const RengaWindow *window)
{
  return hiding->on && window->first >= hiding->samples - hiding->epoch.hidden;
}

RengaErrorCode RengaHidingKeep(RengaHiding *hiding, RengaPipeline pipeline,
                               const RengaWindow *window)
{
  const double *values;
  int64_t samples, columns;
  if (!hiding->output) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetSampleLosses(pipeline, &samples, &columns, &values));
  RengaCall(
      RengaDataPutLosses(hiding->data, window->epoch, window->first, samples, columns, values));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHidingEvaluate(RengaHiding *hiding, RengaPipeline pipeline,
                                   const RengaBatch *batch)
{
  const RengaWindow *window = batch->user;
  const int64_t numbers = batch->samples * hiding->columns;
  if (!hiding->output) return RENGA_SUCCESS;
  RengaCall(RengaPipelineForwardTo(pipeline, batch, hiding->output, RENGA_TO_ALL, hiding->rows));
  for (int64_t i = 0; i < numbers; i++) hiding->wide[i] = (double)hiding->rows[i];
  RengaCall(RengaDataPutLosses(hiding->data, window->epoch, window->first, batch->samples,
                               hiding->columns, hiding->wide));
  return RENGA_SUCCESS;
}

void RengaHidingFree(RengaHiding *hiding)
{
  if (hiding->optimizer) RengaOptimizerSetLearningRateFunction(hiding->optimizer, NULL, NULL);
  RengaFree(&hiding->rows);
  RengaFree(&hiding->wide);
  *hiding = (RengaHiding){.on = false};
}
