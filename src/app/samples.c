/* The samples of -data, as a network takes them; the loss of many of them, batch by batch. */
#include "app.h"
#include <math.h>

RengaErrorCode AppReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const AppWindow *window = user;
  RengaCall(RengaDataRead(window->data, window->part, field, window->epoch, window->first + first,
                          count, buffer));
  return RENGA_SUCCESS;
}

RengaErrorCode AppOpenData(RengaComm comm, const AppFields *fields, bool in_order, RengaData *data)
{
  const char *name, *eval;
  int64_t seed;
  RengaCall(AppNeedOption(comm, "data",
                          "an HDF5 data set (renga data text makes one), or "
                          "synthetic",
                          &name));
  RengaCall(RengaOptionsGetInt64("seed", &seed, NULL));
  RengaCall(RengaOptionsGetString("eval", &eval, NULL));
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetSeed(*data, (uint64_t)seed));
  RengaCall(RengaDataSetFromOptions(*data));
  if (in_order) RengaCall(RengaDataSetShuffle(*data, false));
  RengaCall(RengaDataSetValidationFile(*data, eval));
  RengaCall(
      RengaDataSetFields(*data, fields->count, fields->names, fields->specs, fields->classes));
  RengaCall(RengaDataSetIgnored(*data, fields->ignored));
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

typedef struct {
  const AppLosses *losses;
  RengaDataPart part;
  AppWindow window;
  int64_t number, done, samples;
} BatchWalk;

static RengaErrorCode NextBatch(BatchWalk *walk, RengaBatch *batch)
{
  const AppLosses *losses = walk->losses;
  int64_t count;
  walk->window = (AppWindow){.data = losses->data, .part = walk->part};
  RengaCall(RengaDataGetStep(losses->data, walk->part, losses->batch, walk->number++,
                             &walk->window.first, &count, &walk->window.epoch));
  if (count > walk->samples - walk->done) count = walk->samples - walk->done;
  *batch = (RengaBatch){.samples = count, .read = AppReadWindow, .user = &walk->window};
  walk->done += count;
  return RENGA_SUCCESS;
}

/* Samples of a batch may count differently (labels that are left out, weights): then the batches
   are parts of one. */
static RengaErrorCode CountBatches(const AppLosses *losses, const int64_t samples[2], bool *even)
{
  RengaBatch batch;
  *even = true;
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++)
    for (BatchWalk walk = {losses, (RengaDataPart)p, .samples = samples[p]};
         walk.done < samples[p];) {
      bool same = false;
      RengaCall(NextBatch(&walk, &batch));
      RengaCall(RengaPipelineCount(losses->pipeline, &batch, &same));
      *even = *even && same;
    }
  if (*even) RengaCall(RengaPipelineForgetCounts(losses->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumLosses(const AppLosses *losses, const int64_t samples[2], bool even,
                                double *sum)
{
  RengaBatch batch;
  *sum = 0;
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++)
    for (BatchWalk walk = {losses, (RengaDataPart)p, .samples = samples[p]};
         walk.done < samples[p];) {
      double loss;
      if (losses->monitor)
        AppMonitorValidating(losses->monitor, walk.done, samples[p], walk.number);
      RengaCall(NextBatch(&walk, &batch));
      RengaCall(RengaPipelineEvaluate(losses->pipeline, &batch, &loss));
      RengaCall(AppAccuracyAdd(losses->accuracy, losses->comm, losses->pipeline, &batch));
      *sum += even ? loss * (double)batch.samples : loss;
    }
  return RENGA_SUCCESS;
}

RengaErrorCode AppFindLoss(const AppLosses *losses, const int64_t samples[2], double *loss)
{
  bool even = true;
  int64_t whole;
  RengaCall(RengaGraphGetWholeBatch(losses->graph, &whole));
  if (!whole) RengaCall(CountBatches(losses, samples, &even)); /* else each batch is by itself */
  const RengaErrorCode code = SumLosses(losses, samples, even, loss);
  if (even) *loss /= (double)(samples[RENGA_DATA_TRAINING] + samples[RENGA_DATA_VALIDATION]);
  RengaCall(RengaPipelineForgetCounts(losses->pipeline));
  RengaCall(code);
  return RENGA_SUCCESS;
}

int64_t AppTokensPerSample(const AppFields *fields)
{
  for (int f = 0; f < fields->count; f++)
    if (fields->is_table_index[f] && fields->specs[f].ndim == 1) return fields->specs[f].dim[0];
  return 0;
}

double AppPerplexity(const AppFields *fields, const AppAccuracy *accuracy, double loss)
{
  return accuracy->likelihood && AppTokensPerSample(fields) > 0 ? exp(loss) : 0;
}
