/* The encoder beside a decoder that writes text. It reads a prompt, or a sample of -data; with
   caches it is a network of its own, which runs once for each text. */
#include "text.h"
#include <string.h>

void AppPutToken(const RengaTensorSpec *spec, void *buffer, int64_t at, int64_t token)
{
  if (spec->type == RENGA_INT64)
    ((int64_t *)buffer)[at] = token;
  else
    ((int32_t *)buffer)[at] = (int32_t)token;
}

/* With an encoder those behind its source, and before them the token that texts begin with. */
int64_t AppTextPlaces(const AppTextModel *model, const AppTokens *text)
{
  return text->length - text->source + (model->encoder != NULL);
}

int64_t AppTextTokenAt(const AppTextModel *model, const AppTokens *text, int64_t place)
{
  if (model->encoder && place == 0) return model->encoder->start;
  return text->token[text->source + place - (model->encoder != NULL)];
}

bool AppReadsData(const AppTextModel *model)
{
  return model->encoder && model->encoder->data;
}

static int FindField(const RengaDataFields *fields, const char *name)
{
  for (int f = 0; f < fields->count; f++)
    if (strcmp(fields->names[f], name) == 0) return f;
  return -1;
}

/* The token that targets begin with, as config.json says, or as data sets of Renga have it. */
static RengaErrorCode FindStart(AppTextModel *model)
{
  const char *network;
  char *folder = NULL;
  int64_t padding;
  model->encoder->start = RENGA_TOKEN_BEGIN;
  RengaCall(RengaOptionsGetString("graph", &network, NULL));
  RengaCall(AppFolderFile(network, "", &folder));
  if (!folder) return RENGA_SUCCESS;
  const RengaErrorCode code = AppReadStart(model->comm, folder, &model->encoder->start, &padding);
  RengaFree(&folder);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All inputs but the tokens. */
static RengaErrorCode ListEncoderFields(AppTextModel *model)
{
  const RengaDataFields *all = &model->fields;
  RengaDataFields *own = &model->encoder->fields;
  own->ignored = all->ignored;
  RengaCall(RengaMalloc(all->count, &own->names));
  RengaCall(RengaMalloc(all->count, &own->specs));
  RengaCall(RengaMalloc(all->count, &own->classes));
  for (int f = 0; f < all->count; f++) {
    if (f == model->field) continue;
    char *name = NULL; /* the network gives way to one with caches */
    RengaCall(RengaStringCopy(all->names[f], &name));
    own->names[own->count] = name;
    own->specs[own->count] = all->specs[f];
    own->classes[own->count++] = all->classes[f];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenEncoderData(AppTextModel *model)
{
  AppEncoder *encoder = model->encoder;
  RengaCall(ListEncoderFields(model));
  RengaCall(AppOpenFields(model->comm, &encoder->fields, true, &encoder->data));
  RengaCall(RengaDataGetCount(encoder->data, RENGA_DATA_TRAINING, &encoder->samples));
  RengaCheck(encoder->samples > 0, model->printer, RENGA_ERR_FILE_FORMAT,
             "%s: the data set has no samples to read", model->command);
  return RENGA_SUCCESS;
}

RengaErrorCode AppEncoderOpen(AppTextModel *model, int target)
{
  const RengaDataFields *fields = &model->fields;
  AppEncoder *encoder = NULL;
  const bool reads_tokens = model->field >= 0 && model->field != target;
  RengaCall(RengaMalloc(1, &encoder));
  model->encoder = encoder;
  encoder->source = -1;
  if (reads_tokens) encoder->source = model->field;
  model->field = target;
  const int real = FindField(fields, "source_mask");
  RengaCheck(!reads_tokens || (real >= 0 && fields->specs[real].ndim == 1), model->printer,
             RENGA_ERR_SUPPORT,
             "%s: the network has a source and a target, but no source_mask that says which of it "
             "is padding",
             model->command);
  RengaCall(FindStart(model));
  if (!reads_tokens) RengaCall(OpenEncoderData(model));
  return RENGA_SUCCESS;
}

RengaErrorCode AppEncoderFill(const AppTextModel *model, const char *name,
                              const RengaTensorSpec *spec, const AppTokens *text, int64_t number,
                              void *buffer)
{
  const AppEncoder *encoder = model->encoder;
  const bool mask = strcmp(name, "source_mask") == 0;
  char *to = (char *)buffer + (size_t)number * RengaTensorSpecBytes(spec);
  if (encoder->data) {
    RengaCall(RengaDataRead(encoder->data, RENGA_DATA_TRAINING, FindField(&encoder->fields, name),
                            0, text->sample, 1, to));
    return RENGA_SUCCESS;
  }
  for (int64_t i = 0; i < text->source; i++) AppPutToken(spec, to, i, mask ? 1 : text->token[i]);
  return RENGA_SUCCESS;
}

/* ---- as a network of its own ---- */
static int64_t FindMemoryPlaces(RengaGraph decoder)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(decoder); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(decoder, v);
    if (strncmp(value->name, RENGA_DECODER_MEMORY, strlen(RENGA_DECODER_MEMORY)) == 0)
      return value->spec.dim[2];
  }
  return 0;
}

RengaErrorCode AppEncoderCreate(AppTextModel *model, RengaGraph decoder, RengaGraph *graph)
{
  int lanes;
  model->encoder->places = FindMemoryPlaces(decoder);
  RengaCall(RengaGraphGetLanes(model->graph, &lanes, NULL));
  RengaCall(RengaGraphCreate(model->comm, graph));
  RengaCall(RengaGraphSetFromOptions(*graph));
  RengaCall(RengaGraphKeepMemory(*graph, decoder));
  RengaCall(RengaGraphSetLanes(*graph, lanes > 1 ? lanes : 1));
  RengaCall(RengaGraphSetTokenLanes(*graph, 1));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* One source is a batch. */
static RengaErrorCode PlanEncoder(AppTextModel *model)
{
  AppEncoder *encoder = model->encoder;
  RengaPartition partition = NULL;
  RengaCall(RengaOptionsSetValue("batch_size", "1"));
  RengaCall(RengaOptionsSetValue("microbatch_size", "1"));
  RengaCall(AppMakePartition(model->comm, encoder->graph, 1, 1, &partition));
  const RengaErrorCode code = RengaPartitionSolve(partition, &encoder->plan);
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppEncoderSetUp(AppTextModel *model, const char *parameters)
{
  AppEncoder *encoder = model->encoder;
  RengaCheckpointInitial initial;
  RengaOptimizer optimizer;
  const RengaValue *output;
  int count;
  RengaCall(PlanEncoder(model));
  RengaCall(RengaDataFindFields(encoder->graph, &encoder->inputs));
  RengaCall(RengaPipelineCreate(model->comm, &encoder->pipeline));
  RengaCall(RengaPipelineSetPlan(encoder->pipeline, encoder->graph, encoder->plan));
  RengaCall(RengaPipelineSetFromOptions(encoder->pipeline));
  RengaCall(RengaPipelineGetOptimizer(encoder->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD)); /* it has no moments */
  RengaCall(RengaPipelineSetUp(encoder->pipeline));
  RengaCall(AppReadParameters(model->comm, encoder->pipeline, parameters, false, true, &initial));
  RengaCall(AppReadAdapter(model->comm, encoder->pipeline, false));
  RengaCall(RengaGraphGetOutputs(encoder->graph, &count, &output));
  const RengaTensorSpec one =
      RengaTensorSpecAt(&RengaGraphGetValue(encoder->graph, output[0])->spec, 1);
  const int64_t numbers = RengaCommGetRank(model->comm) == 0 ? RengaTensorSpecCount(&one) : 0;
  RengaCall(RengaErrorAgree(model->printer, RengaMalloc(numbers, &encoder->memory)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSource(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const AppTextModel *model = user;
  const RengaDataFields *inputs = &model->encoder->inputs;
  const RengaTensorSpec *spec = &inputs->specs[field];
  (void)first;
  memset(buffer, 0, RengaTensorSpecBytes(spec) * (size_t)count);
  RengaCall(AppEncoderFill(model, inputs->names[field], spec, model->encoder->text, 0, buffer));
  return RENGA_SUCCESS;
}

RengaErrorCode AppEncoderRun(AppTextModel *model, const AppTokens *text)
{
  AppEncoder *encoder = model->encoder;
  const RengaBatch batch = {.samples = 1, .read = ReadSource, .user = model};
  encoder->text = text;
  RengaCall(RengaPipelineForward(encoder->pipeline, &batch, RENGA_DECODER_MEMORY, encoder->memory));
  RengaCall(RengaPipelineSetMemory(model->pipeline, text->cache - 1, 0, encoder->memory));
  return RENGA_SUCCESS;
}

RengaErrorCode AppEncoderDestroy(AppEncoder **encoder)
{
  AppEncoder *own = *encoder;
  if (!own) return RENGA_SUCCESS;
  RengaFree(&own->memory);
  for (int f = 0; f < own->fields.count; f++) {
    char *name = (char *)(uintptr_t)own->fields.names[f];
    RengaFree(&name);
  }
  RengaDataFreeFields(&own->fields);
  RengaDataFreeFields(&own->inputs);
  RengaCall(RengaPipelineDestroy(&own->pipeline));
  RengaCall(RengaPlanDestroy(&own->plan));
  RengaCall(RengaDataDestroy(&own->data));
  RengaCall(RengaGraphDestroy(&own->graph));
  RengaFree(encoder);
  return RENGA_SUCCESS;
}
