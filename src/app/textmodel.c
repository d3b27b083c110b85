/* A network that scores the next token of texts, run forward on the layout of the options. */
#include "text.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 256 };

/* The places of tokens in a text, of networks that read them. */
static void FillTokenPositions(const RengaTensorSpec *spec, int64_t count, void *buffer)
{
  for (int64_t i = 0; i < count * spec->dim[0]; i++)
    if (spec->type == RENGA_INT64)
      ((int64_t *)buffer)[i] = i % spec->dim[0];
    else
      ((int32_t *)buffer)[i] = (int32_t)(i % spec->dim[0]);
}

/* The network's end of each text, padded at the right: later places do not change earlier ones. */
static RengaErrorCode ReadTexts(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const AppTextModel *model = user;
  const RengaTensorSpec *spec = &model->fields.specs[field];
  const char *name = model->fields.names[field];
  const bool encoded = model->encoder && field != model->field;
  memset(buffer, 0, RengaTensorSpecBytes(spec) * (size_t)count);
  for (int64_t s = 0; s < count && encoded; s++)
    RengaCall(AppEncoderFill(model, name, spec, model->given[first + s], s, buffer));
  if (spec->ndim == 1 && strcmp(name, "position_ids") == 0 && !encoded &&
      (spec->type == RENGA_INT64 || spec->type == RENGA_INT32))
    FillTokenPositions(spec, count, buffer);
  if (field != model->field) return RENGA_SUCCESS;
  for (int64_t s = 0; s < count; s++) {
    const AppTokens *text = model->given[first + s];
    const int64_t places = AppTextPlaces(model, text);
    const int64_t begin = places > model->sequence ? places - model->sequence : 0;
    for (int64_t i = begin; i < places; i++)
      AppPutToken(spec, buffer, s * model->sequence + i - begin, AppTextTokenAt(model, text, i));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTokens(AppTextModel *model)
{
  const RengaDataFields *fields = &model->fields;
  int target = -1;
  model->field = -1;
  for (int f = 0; f < fields->count; f++)
    if (strcmp(fields->names[f], "target") == 0) target = f;
  for (int f = 0; f < fields->count && model->field < 0; f++)
    if (fields->is_table_index[f] && fields->specs[f].ndim == 1) model->field = f;
  if (target >= 0) RengaCall(AppEncoderOpen(model, target));
  RengaCheck(model->field >= 0, model->printer, RENGA_ERR_SUPPORT,
             "%s needs a network with an input [batch, sequence] of tokens", model->command);
  const RengaDataType type = fields->specs[model->field].type;
  RengaCheck(type == RENGA_INT64 || type == RENGA_INT32, model->printer, RENGA_ERR_SUPPORT,
             "%s: the tokens %s are %s, not int64 or int32", model->command,
             fields->names[model->field], RengaDataTypeName(type));
  model->sequence = fields->specs[model->field].dim[0];
  return RENGA_SUCCESS;
}

/* tokenizer.json of the network's folder, where prompts are no numbers; NULL: there is none. */
static RengaErrorCode FindFolderTokenizer(AppTextModel *model, char **file)
{
  const char *network, *numbers;
  bool there = false;
  *file = NULL;
  RengaCall(RengaOptionsGetString("graph", &network, NULL));
  RengaCall(RengaOptionsGetString("prompt_tokens", &numbers, NULL));
  if (!numbers) RengaCall(AppFolderFile(network, "tokenizer.json", file));
  if (!*file) return RENGA_SUCCESS;
  if (RengaCommGetRank(model->comm) == 0) there = access(*file, R_OK) == 0;
  RengaErrorCode code =
      RengaCommBroadcast(model->comm, &there, sizeof there, 0, "the folder's tokenizer");
  if (code || !there) RengaFree(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadTextVocabulary(AppTextModel *model, const char *file)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int turn = 0; turn < 2; turn++) { /* what is wrong with a file is said once */
    if ((turn == 0) == (RengaCommGetRank(model->comm) == 0))
      code = RengaVocabularyRead(file, &model->vocabulary);
    RengaCall(RengaErrorAgree(model->printer, code));
  }
  RengaCall(RengaVocabularyGetCount(model->vocabulary, &model->highest));
  const char *text;
  int64_t length = 0; /* the first tokens may stand for no text */
  for (int64_t t = 0; t < model->highest && length == 0; t++) {
    model->lowest = t;
    RengaCall(RengaVocabularyDecode(model->vocabulary, t, &text, &length));
  }
  return RENGA_SUCCESS;
}

/* The tokens that text is made of: bytes, or those of -vocabulary_file or of the folder. What its
   tokenizer puts around a text stands around prompts, and an end behind what an encoder reads. */
static RengaErrorCode FindTextVocabulary(AppTextModel *model)
{
  const char *given;
  char *own = NULL;
  model->highest = BYTES;
  RengaCall(RengaOptionsGetString("vocabulary_file", &given, NULL));
  if (!given) RengaCall(FindFolderTokenizer(model, &own));
  if (!given && !own) return RENGA_SUCCESS;
  RengaErrorCode code = ReadTextVocabulary(model, given ? given : own);
  if (!code && !AppReadsData(model) && (own || model->encoder))
    code = RengaVocabularyGetFrame(model->vocabulary, model->n_frame, model->frame);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* kinds 0: of no use. */
static RengaErrorCode DescribeScores(AppTextModel *model, size_t size, char text[])
{
  const RengaValue value = RengaGraphFindValue(model->graph, model->output);
  snprintf(text, size, "not there");
  if (value < 0) return RENGA_SUCCESS;
  const RengaTensorSpec spec = RengaTensorSpecAt(&RengaGraphGetValue(model->graph, value)->spec, 1);
  RengaTensorSpecFormat(&spec, size, text);
  const int64_t kinds = spec.ndim >= 2 ? spec.dim[spec.ndim - 1] : 0;
  if (RengaTensorSpecCount(&spec) == model->sequence * kinds) model->kinds = kinds;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckScores(AppTextModel *model, bool numbers)
{
  char text[128];
  RengaCall(DescribeScores(model, sizeof text, text));
  numbers = numbers || AppReadsData(model);
  model->numbers = numbers && !model->vocabulary && model->kinds != BYTES && model->kinds > 0;
  if (model->numbers) model->highest = model->kinds;
  const bool fits =
      model->vocabulary ? model->kinds >= model->highest : model->numbers || model->kinds == BYTES;
  RengaCheck(fits, model->printer, RENGA_ERR_SUPPORT,
             "%s writes %s: the output %s must be [batch, %lld, %lld] but is %s; name another with "
             "-output%s",
             model->command, model->vocabulary ? "tokens of a vocabulary" : "bytes", model->output,
             (long long)model->sequence, (long long)model->highest, text,
             model->vocabulary ? "" : ", or the vocabulary with -vocabulary_file");
  return RENGA_SUCCESS;
}

static const char usual[] = "logits";

/* Losses may compare tokens of all samples as rows: what they were made of. */
static void UndoRows(RengaGraph graph, const char **name)
{
  const RengaValue value = *name ? RengaGraphFindValue(graph, *name) : RENGA_VALUE_NONE;
  const int maker = value < 0 ? -1 : RengaGraphGetValue(graph, value)->producer;
  const RengaGraphNode *node = maker < 0 ? NULL : RengaGraphGetNode(graph, maker);
  if (node && strcmp(node->op->name, "Reshape") == 0)
    *name = RengaGraphGetValue(graph, node->in[0])->name;
}

/* The network without its loss, where it has the scores: those of a name, or that its loss compares
   where none is given. */
static RengaErrorCode EndAtScores(RengaGraph graph, const char *output)
{
  const char *name = output;
  if (RengaGraphFindValue(graph, name) < 0 && output == usual) {
    RengaCall(AppFindScores(graph, &name));
    UndoRows(graph, &name);
  }
  if (name && RengaGraphFindValue(graph, name) >= 0)
    RengaCall(RengaGraphKeepOutputs(graph, 1, &name));
  return RENGA_SUCCESS;
}

/* The only output, where there are no logits. */
static RengaErrorCode NameScores(AppTextModel *model)
{
  const RengaValue *values;
  int count;
  RengaCall(RengaGraphGetOutputs(model->graph, &count, &values));
  if (model->output == usual && RengaGraphFindValue(model->graph, usual) < 0 && count == 1)
    model->output = RengaGraphGetValue(model->graph, values[0])->name;
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenTextModel(AppTextModel *model, bool numbers)
{
  RengaCall(RengaOptionsGetString("output", &model->output, NULL));
  if (!model->output) model->output = usual;
  const AppEnds ends = {EndAtScores, model->output};
  RengaCall(AppLoadGraph(model->comm, &ends, &model->graph));
  RengaCall(NameScores(model));
  RengaCall(RengaDataFindFields(model->graph, &model->fields));
  RengaCall(FindTokens(model));
  RengaCall(FindTextVocabulary(model));
  RengaCall(CheckScores(model, numbers));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelOpen(RengaComm comm, const char *command, bool numbers,
                                AppTextModel *model)
{
  *model = (AppTextModel){.comm = comm, .command = command};
  RengaCall(RengaObjectGetComm(comm, &model->printer));
  RengaCall(OpenTextModel(model, numbers));
  return RENGA_SUCCESS;
}

/* What stands against caches; "": nothing that is known before they are made. */
static RengaErrorCode FindObstacle(const AppTextModel *model, int64_t longest, size_t size,
                                   char why[])
{
  const char *device, *plan, *context;
  int64_t replicas, tokens;
  RengaCall(RengaOptionsGetString("device_type", &device, NULL));
  RengaCall(RengaOptionsGetString("plan_load", &plan, NULL));
  RengaCall(RengaOptionsGetString("layout_context", &context, NULL));
  RengaCall(RengaOptionsGetInt64("layout_data", &replicas, NULL));
  RengaCall(RengaOptionsGetInt64("graph_token_lanes", &tokens, NULL));
  why[0] = '\0';
  if (strcmp(device, "cpu") != 0 && strcmp(device, "ref") != 0)
    snprintf(why, size, "device %s has no kernels for them", device);
  else if (replicas > 1 || tokens > 1 || (strcmp(context, "0") != 0 && strcmp(context, "1") != 0))
    snprintf(why, size, "they are not for replicas, context-parallel ranks and lanes of tokens");
  else if (plan)
    snprintf(why, size, "a plan is given, which is of whole sequences");
  else if (longest > model->sequence)
    snprintf(
        why, size,
        "a text may have %lld tokens, and the network's sequence is %lld, so that it loses its "
        "begin",
        (long long)longest, (long long)model->sequence);
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelCache(AppTextModel *model, int64_t texts, int64_t longest)
{
  char why[768];
  const char *wanted;
  RengaCall(RengaOptionsGetString("generate_cache", &wanted, NULL));
  if (strcmp(wanted, "off") == 0) return RENGA_SUCCESS;
  RengaCall(FindObstacle(model, longest, sizeof why, why));
  if (!why[0]) RengaCall(AppTokenRowsCreate(model, texts, sizeof why, why));
  RengaCheck(!why[0] || strcmp(wanted, "on") != 0, model->printer, RENGA_ERR_SUPPORT,
             "-generate_cache on: %s", why);
  if (why[0])
    RengaWarning(
        model->printer,
        "each token takes a pass over a whole sequence, without caches of keys and values: "
        "%s",
        why);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetNumber(const char *option, int64_t number)
{
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, number);
  RengaCall(RengaOptionsSetValue(option, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanTexts(AppTextModel *model)
{
  int64_t batch = model->batch, microbatch = 1;
  RengaPartition partition = NULL;
  if (model->rows)
    RengaCall(AppTokenRowsGetBatch(model, &batch, &microbatch));
  else
    RengaCall(AppRefuseUnused(model->printer, "microbatch_size", "each text is a micro-batch"));
  RengaCall(SetNumber("batch_size", batch));
  RengaCall(SetNumber("microbatch_size", microbatch));
  RengaCall(AppMakePartition(model->comm, model->graph, batch, 1, &partition));
  const RengaErrorCode code = RengaPartitionSolve(partition, &model->plan);
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(code);
  if (!model->rows) /* perhaps a file's */
    RengaCall(RengaPlanGetBatch(model->plan, &model->batch, &microbatch));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelSetUp(AppTextModel *model, int64_t batch, const char *parameters)
{
  RengaCheckpointInitial initial;
  RengaOptimizer optimizer;
  model->batch = batch;
  RengaCall(PlanTexts(model));
  RengaCall(RengaPipelineCreate(model->comm, &model->pipeline));
  RengaCall(RengaPipelineSetPlan(model->pipeline, model->graph, model->plan));
  RengaCall(RengaPipelineSetFromOptions(model->pipeline));
  RengaCall(RengaPipelineGetOptimizer(model->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD)); /* it has no moments */
  RengaCall(RengaPipelineSetUp(model->pipeline));
  RengaCall(parameters
                ? AppReadParameters(model->comm, model->pipeline, parameters, false, true, &initial)
                : AppReadInitial(model->comm, model->pipeline, true, &initial));
  if (parameters) RengaCall(AppReadAdapter(model->comm, model->pipeline, false));
  model->step = initial.step;
  if (model->encoder && model->encoder->graph) RengaCall(AppEncoderSetUp(model, parameters));
  if (RengaCommGetRank(model->comm) == 0)
    RengaCall(RengaMalloc(model->batch * (model->rows ? 1 : model->sequence) * model->kinds,
                          &model->scores));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelEncode(const AppTextModel *model, const char *text, int64_t length,
                                  int64_t more, AppTokens *tokens)
{
  tokens->length = length;
  if (model->vocabulary)
    RengaCall(
        RengaVocabularyEncode(model->vocabulary, text, length, &tokens->length, &tokens->token));
  RengaCall(RengaRealloc(tokens->length + more + 1, &tokens->token));
  for (int64_t i = 0; i < length && !model->vocabulary; i++)
    tokens->token[i] = (unsigned char)text[i];
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelSpell(AppTextModel *model, int64_t token, const char **text,
                                 int64_t *length)
{
  if (model->vocabulary) {
    RengaCall(RengaVocabularyDecode(model->vocabulary, token, text, length));
    return RENGA_SUCCESS;
  }
  if (model->numbers)
    snprintf(model->spelled, sizeof model->spelled, " %" PRId64, token);
  else
    model->spelled[0] = (char)token;
  *text = model->spelled;
  *length = model->numbers ? (int64_t)strlen(model->spelled) : 1;
  return RENGA_SUCCESS;
}

RengaErrorCode AppTextModelForward(AppTextModel *model, int64_t count, AppTokens *const texts[])
{
  const RengaBatch batch = {.samples = count, .read = ReadTexts, .user = model};
  model->given = texts;
  if (model->rows) {
    RengaCall(AppTokenRowsForward(model, count, texts));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaPipelineForward(model->pipeline, &batch, model->output, model->scores));
  return RENGA_SUCCESS;
}

void AppTextModelLeave(AppTextModel *model, AppTokens *text)
{
  if (model->rows) AppTokenRowsLeave(model, text);
}

const float *AppTextModelScoresAt(const AppTextModel *model, int64_t i, int64_t place)
{
  const AppTokens *text = model->given[i];
  const int64_t places = AppTextPlaces(model, text);
  const int64_t begin = places > model->sequence ? places - model->sequence : 0;
  if (model->rows) return model->scores + i * model->kinds;
  place += (model->encoder != NULL) - text->source - begin;
  return model->scores + (i * model->sequence + place) * model->kinds;
}

RengaErrorCode AppTextModelDestroy(AppTextModel *model)
{
  AppTokenRowsDestroy(&model->rows);
  RengaCall(AppEncoderDestroy(&model->encoder));
  RengaFree(&model->scores);
  for (int side = 0; side < 2; side++) RengaFree(&model->frame[side]);
  RengaCall(RengaVocabularyDestroy(&model->vocabulary));
  RengaCall(RengaPipelineDestroy(&model->pipeline));
  RengaCall(RengaPlanDestroy(&model->plan));
  RengaDataFreeFields(&model->fields);
  RengaCall(RengaGraphDestroy(&model->graph));
  return RENGA_SUCCESS;
}
