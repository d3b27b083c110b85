/* A network with caches of keys and values: a sample is one token of a text. All tokens that caches
   do not have yet are rows of a batch, those of a prompt one behind the other; the last row of each
   text has the scores that are wanted. Micro-batches have always as many rows, so that what comes
   of a row does not depend on how many texts there are: rows of no text fill the last one. */
#include "text.h"
#include <string.h>

enum { BATCH_ROWS = 64, MICROBATCH_ROWS = 8 };

struct _AppTokenRows {
  int64_t texts, batch, microbatch;
  bool *taken;  /* [texts] of the caches */
  float *score; /* [batch, kinds] of a forward, on rank 0 */
  int64_t count;
  int64_t *token, *text, *place, *source; /* [batch] of the forward that runs */
};

/* ---- the network ---- */
/* The same network again, without loss and lanes: what the decoder is made of. */
static RengaErrorCode LoadWhole(const AppTextModel *model, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(model->comm, graph));
  RengaCall(RengaGraphSetFromOptions(*graph));
  RengaCall(RengaGraphKeepOutputs(*graph, 1, &model->output));
  RengaCall(RengaGraphSetLanes(*graph, 1));
  RengaCall(RengaGraphSetTokenLanes(*graph, 1));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* In as many lanes as the network. */
static RengaErrorCode MakeDecoder(const AppTextModel *model, int64_t texts, RengaGraph *decoder)
{
  RengaGraph whole = NULL;
  int lanes;
  RengaCall(RengaGraphGetLanes(model->graph, &lanes, NULL));
  RengaErrorCode code = LoadWhole(model, &whole);
  if (!code) code = RengaGraphMakeDecoder(whole, model->fields.names[model->field], texts, decoder);
  RengaGraphDestroy(&whole);
  RengaCall(code);
  RengaCall(RengaGraphSetLanes(*decoder, lanes > 1 ? lanes : 1));
  RengaCall(RengaGraphSetUp(*decoder));
  return RENGA_SUCCESS;
}

/* Of all ranks; on those that have it the error is the reason. */
static RengaErrorCode AgreeWhy(const AppTextModel *model, RengaErrorCode code, size_t size,
                               char why[])
{
  if (code) snprintf(why, size, "%s", RengaErrorGetMessage());
  return RengaErrorAgree(model->printer, code);
}

/* An error is the reason, and is told by nobody else. */
static RengaErrorCode TryDecoder(AppTextModel *model, int64_t texts, RengaGraph *decoder,
                                 size_t size, char why[])
{
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  RengaErrorCode code = AgreeWhy(model, MakeDecoder(model, texts, decoder), size, why);
  if (!code && model->encoder)
    code = AgreeWhy(model, AppEncoderCreate(model, *decoder, &model->encoder->graph), size, why);
  RengaErrorSetHandler(NULL, NULL);
  if (code && !why[0]) snprintf(why, size, "another rank cannot make its decoder");
  if (code && *decoder) RengaCall(RengaGraphDestroy(decoder));
  if (code && model->encoder) RengaCall(RengaGraphDestroy(&model->encoder->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateRows(const AppTextModel *model, int64_t texts, AppTokenRows *rows)
{
  rows->texts = texts;
  RengaCall(RengaOptionsGetInt64("microbatch_size", &rows->microbatch, NULL));
  if (rows->microbatch == 0) rows->microbatch = MICROBATCH_ROWS;
  rows->batch = (BATCH_ROWS + rows->microbatch - 1) / rows->microbatch * rows->microbatch;
  RengaCall(RengaMalloc(texts, &rows->taken));
  RengaCall(RengaMalloc(rows->batch, &rows->token));
  RengaCall(RengaMalloc(rows->batch, &rows->text));
  RengaCall(RengaMalloc(rows->batch, &rows->place));
  RengaCall(RengaMalloc(rows->batch, &rows->source));
  if (RengaCommGetRank(model->comm) == 0)
    RengaCall(RengaMalloc(rows->batch * model->kinds, &rows->score));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeDecoder(AppTextModel *model, RengaGraph decoder)
{
  const char *name = model->fields.names[model->field];
  RengaDataFields fields;
  RengaCall(RengaDataFindFields(decoder, &fields));
  model->field = -1;
  for (int f = 0; f < fields.count; f++)
    if (strcmp(fields.names[f], name) == 0) model->field = f;
  RengaDataFreeFields(&model->fields);
  model->fields = fields;
  model->output = RengaGraphGetValue(decoder, RengaGraphFindValue(decoder, model->output))->name;
  RengaCall(RengaGraphDestroy(&model->graph));
  model->graph = decoder;
  return RENGA_SUCCESS;
}

RengaErrorCode AppTokenRowsCreate(AppTextModel *model, int64_t texts, size_t size, char why[])
{
  RengaGraph decoder = NULL;
  AppTokenRows *rows = NULL;
  RengaCall(TryDecoder(model, texts, &decoder, size, why));
  if (!decoder) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(1, &rows);
  if (!code) code = AllocateRows(model, texts, rows);
  if (!code) code = TakeDecoder(model, decoder);
  if (code) AppTokenRowsDestroy(&rows);
  RengaCall(code);
  model->rows = rows;
  return RENGA_SUCCESS;
}

RengaErrorCode AppTokenRowsGetBatch(const AppTextModel *model, int64_t *batch, int64_t *microbatch)
{
  *batch = model->rows->batch;
  *microbatch = model->rows->microbatch;
  return RENGA_SUCCESS;
}

void AppTokenRowsDestroy(AppTokenRows **rows)
{
  if (!*rows) return;
  RengaFree(&(*rows)->taken);
  RengaFree(&(*rows)->score);
  RengaFree(&(*rows)->token);
  RengaFree(&(*rows)->text);
  RengaFree(&(*rows)->place);
  RengaFree(&(*rows)->source);
  RengaFree(rows);
}

/* ---- forward ---- */
static RengaErrorCode ReadRows(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const AppTextModel *model = user;
  const AppTokenRows *rows = model->rows;
  const char *name = model->fields.names[field];
  const int64_t *from = strcmp(name, RENGA_DECODER_TEXT) == 0     ? rows->text
                        : strcmp(name, RENGA_DECODER_PLACE) == 0  ? rows->place
                        : strcmp(name, RENGA_DECODER_SOURCE) == 0 ? rows->source
                                                                  : rows->token;
  for (int64_t i = 0; i < count; i++)
    if (model->fields.specs[field].type == RENGA_INT64)
      ((int64_t *)buffer)[i] = from[first + i];
    else
      ((int32_t *)buffer)[i] = (int32_t)from[first + i];
  return RENGA_SUCCESS;
}

/* With rows of no text up to a whole micro-batch. */
static RengaErrorCode RunRows(AppTextModel *model)
{
  AppTokenRows *rows = model->rows;
  for (; rows->count % rows->microbatch; rows->count++) {
    rows->token[rows->count] = rows->place[rows->count] = rows->source[rows->count] = 0;
    rows->text[rows->count] = -1;
  }
  const RengaBatch batch = {.samples = rows->count, .read = ReadRows, .user = model};
  RengaCall(RengaPipelineForward(model->pipeline, &batch, model->output, rows->score));
  rows->count = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeCache(AppTextModel *model, AppTokens *text)
{
  AppTokenRows *rows = model->rows;
  for (int64_t t = 0; t < rows->texts && text->cache == 0; t++)
    if (!rows->taken[t]) text->cache = t + 1;
  rows->taken[text->cache - 1] = true;
  if (model->encoder) RengaCall(AppEncoderRun(model, text));
  return RENGA_SUCCESS;
}

/* The scores of rows that are the last of their texts. */
static void KeepScores(AppTextModel *model, int64_t first, int64_t count, const int64_t last[])
{
  const size_t bytes = (size_t)model->kinds * sizeof *model->scores;
  for (int64_t i = first; i < count && RengaCommGetRank(model->comm) == 0; i++)
    if (last[i] >= 0)
      memcpy(model->scores + i * model->kinds, model->rows->score + last[i] * model->kinds, bytes);
}

/* The last place of what the encoder reads. */
static int64_t LastOfSource(const AppTextModel *model, const AppTokens *text)
{
  if (text->source > 0) return text->source - 1;
  return model->encoder ? model->encoder->places - 1 : 0;
}

/* last[i]: the row of text i's last token in the forward that is filled; -1: it is in none yet. */
static RengaErrorCode RunTexts(AppTextModel *model, int64_t count, AppTokens *const texts[],
                               int64_t last[])
{
  AppTokenRows *rows = model->rows;
  int64_t done = 0; /* texts whose scores are kept */
  for (int64_t i = 0; i < count; i++) {
    last[i] = -1;
    if (texts[i]->cache == 0) RengaCall(TakeCache(model, texts[i]));
    while (texts[i]->kept < AppTextPlaces(model, texts[i])) {
      if (rows->count == rows->batch) {
        RengaCall(RunRows(model));
        KeepScores(model, done, i, last);
        done = i;
      }
      rows->token[rows->count] = AppTextTokenAt(model, texts[i], texts[i]->kept);
      rows->source[rows->count] = LastOfSource(model, texts[i]);
      rows->text[rows->count] = texts[i]->cache - 1;
      rows->place[rows->count] = texts[i]->kept++;
      last[i] = rows->count++;
    }
  }
  RengaCall(RunRows(model));
  KeepScores(model, done, count, last);
  return RENGA_SUCCESS;
}

RengaErrorCode AppTokenRowsForward(AppTextModel *model, int64_t count, AppTokens *const texts[])
{
  int64_t *last = NULL;
  RengaCall(RengaMalloc(count + 1, &last));
  const RengaErrorCode code = RunTexts(model, count, texts, last);
  RengaFree(&last);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void AppTokenRowsLeave(AppTextModel *model, AppTokens *text)
{
  if (text->cache > 0) model->rows->taken[text->cache - 1] = false;
  text->cache = text->kept = 0;
}
