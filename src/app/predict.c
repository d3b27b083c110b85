/* renga predict OUT: the outputs of a network for the samples of a data set, in an HDF5 file that
   is written batch by batch. */
#include "app.h"
#include <string.h>

typedef struct {
  const char *name;     /* lent by the graph */
  RengaTensorSpec spec; /* of all samples */
  int64_t rows;         /* of a sample */
  int dataset;          /* of the writer */
} PredictOutput;

typedef struct {
  AppForward forward;
  const char *file;
  int64_t samples;
  int count;
  PredictOutput *output;  /* [count] */
  RengaDataWriter writer; /* rank 0 */
  char *buffer;           /* rank 0: of a batch of the largest output */
} Prediction;

static RengaErrorCode DescribeOutputs(Prediction *prediction)
{
  const AppForward *forward = &prediction->forward;
  const RengaValue *values;
  RengaCall(RengaGraphGetOutputs(forward->graph, &prediction->count, &values));
  RengaCall(RengaMalloc(prediction->count, &prediction->output));
  prediction->samples = forward->samples[0] + forward->samples[1];
  for (int o = 0; o < prediction->count; o++) {
    const RengaGraphValue *value = RengaGraphGetValue(forward->graph, values[o]);
    PredictOutput *output = &prediction->output[o];
    bool rows = value->spec.ndim > 0 && value->spec.dim[0] < 0;
    for (int d = 1; d < value->spec.ndim; d++) rows = rows && value->spec.dim[d] >= 0;
    RengaCheck(rows && value->in_order, forward->printer, RENGA_ERR_SUPPORT,
               "output %s has not its rows in the order of the samples: name others with -output",
               value->name);
    output->name = value->name;
    output->rows = -value->spec.dim[0];
    output->spec = RengaTensorSpecAt(&value->spec, prediction->samples);
  }
  return RENGA_SUCCESS;
}

/* A link of HDF5 has no slash: the name of the output is an attribute. */
static RengaErrorCode AddOutput(Prediction *prediction, PredictOutput *output)
{
  char *path;
  RengaCall(RengaMalloc(strlen(output->name) + 2, &path));
  path[0] = '/';
  strcpy(path + 1, output->name + (output->name[0] == '/'));
  for (char *at = path + 1; *at; at++)
    if (*at == '/') *at = '.';
  RengaErrorCode code =
      RengaDataWriterAdd(prediction->writer, path, &output->spec, &output->dataset);
  RengaFree(&path);
  RengaCall(code);
  RengaCall(RengaDataWriterPutText(prediction->writer, output->dataset, "output", output->name));
  RengaCall(
      RengaDataWriterPutInt(prediction->writer, output->dataset, "rows_per_sample", output->rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode DescribeFile(const Prediction *prediction)
{
  static const char *const texts[] = {"graph", "data", "eval", "initial"};
  const AppForward *forward = &prediction->forward;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const char *text;
    RengaCall(RengaOptionsGetString(texts[i], &text, NULL));
    if (text) RengaCall(RengaDataWriterPutText(prediction->writer, -1, texts[i], text));
  }
  RengaCall(RengaDataWriterPutInt(prediction->writer, -1, "step", forward->step));
  RengaCall(RengaDataWriterPutInt(prediction->writer, -1, "training_samples",
                                  forward->samples[RENGA_DATA_TRAINING]));
  RengaCall(RengaDataWriterPutInt(prediction->writer, -1, "validation_samples",
                                  forward->samples[RENGA_DATA_VALIDATION]));
  return RENGA_SUCCESS;
}

/* By rank 0. */
static RengaErrorCode OpenWriter(Prediction *prediction)
{
  int64_t most = 1;
  RengaCall(RengaDataWriterCreate(prediction->file, &prediction->writer));
  for (int o = 0; o < prediction->count; o++) {
    PredictOutput *output = &prediction->output[o];
    const int64_t bytes = (int64_t)RengaTensorSpecBytes(&output->spec) / prediction->samples;
    RengaCall(AddOutput(prediction, output));
    if (bytes > most) most = bytes;
  }
  RengaCall(DescribeFile(prediction));
  RengaCall(RengaMalloc(most * prediction->forward.batch, &prediction->buffer));
  return RENGA_SUCCESS;
}

/* Samples [at, at + count) of the file. */
static RengaErrorCode PredictBatch(const Prediction *prediction, const RengaBatch *batch,
                                   int64_t at)
{
  const AppForward *forward = &prediction->forward;
  for (int o = 0; o < prediction->count; o++) {
    const PredictOutput *output = &prediction->output[o];
    RengaErrorCode code = RENGA_SUCCESS;
    RengaCall(
        RengaPipelineForwardTo(forward->pipeline, batch, output->name, 0, prediction->buffer));
    if (prediction->writer)
      code = RengaDataWriterWrite(prediction->writer, output->dataset, at * output->rows,
                                  batch->samples * output->rows, prediction->buffer);
    RengaCall(RengaErrorAgree(forward->printer, code));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PredictPart(const Prediction *prediction, RengaDataPart part, int64_t *at)
{
  const AppForward *forward = &prediction->forward;
  for (int64_t done = 0, b = 0; done < forward->samples[part]; b++) {
    AppWindow window = {.data = forward->data, .part = part};
    int64_t count;
    RengaCall(RengaDataGetStep(forward->data, part, forward->batch, b, &window.first, &count,
                               &window.epoch));
    const RengaBatch batch = {.samples = count, .read = AppReadWindow, .user = &window};
    RengaCall(PredictBatch(prediction, &batch, *at));
    done += count;
    *at += count;
  }
  return RENGA_SUCCESS;
}

/* Training samples first, each part in the order of its files. */
static RengaErrorCode PredictAll(Prediction *prediction)
{
  RengaErrorCode code = RENGA_SUCCESS;
  int64_t at = 0;
  if (RengaCommGetRank(prediction->forward.comm) == 0) code = OpenWriter(prediction);
  code = RengaErrorAgree(prediction->forward.printer, code);
  for (int p = 0; p <= RENGA_DATA_VALIDATION && !code; p++)
    code = PredictPart(prediction, (RengaDataPart)p, &at);
  code = RengaDataWriterClose(&prediction->writer, code);
  RengaCall(RengaErrorAgree(prediction->forward.printer, code));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPredict(const App *app)
{
  Prediction prediction = {.file = app->words[0]};
  AppForward *forward = &prediction.forward;
  const char *outputs;
  forward->comm = app->comm;
  RengaCall(RengaObjectGetComm(app->comm, &forward->printer));
  RengaCall(RengaOptionsGetString("output", &outputs, NULL));
  RengaCall(AppCheckNewFile(app->comm, prediction.file));
  RengaCall(AppForwardOpen(app->comm, false, outputs, forward));
  RengaCall(DescribeOutputs(&prediction));
  RengaCall(AppForwardSetUp(forward));
  RengaCall(PredictAll(&prediction));
  RengaCall(RengaPrintf(forward->printer, "wrote %s: %d output%s of %lld samples (%s)\n",
                        prediction.file, prediction.count, prediction.count == 1 ? "" : "s",
                        (long long)prediction.samples, forward->part));
  RengaFree(&prediction.output);
  RengaFree(&prediction.buffer);
  RengaCall(AppForwardDestroy(forward));
  return RENGA_SUCCESS;
}
