/* renga generate: text from a trained network, a token at a time: a byte, or one of a
   vocabulary. */
#include "app.h"
#include <math.h>
#include <string.h>

enum { BYTES = 256 };

typedef struct {
  RengaComm comm;
  MPI_Comm printer;
  RengaGraph graph;
  AppFields fields;
  RengaPlan plan;
  RengaPipeline pipeline;
  const char *output;         /* name of the scores [1, sequence, kinds] */
  int tokens_field;           /* the input that the text goes to */
  int64_t sequence;           /* tokens that the network sees */
  RengaVocabulary vocabulary; /* NULL: tokens are bytes */
  int64_t kinds;              /* of tokens that the network knows */
  int64_t lowest, highest;    /* those that stand for text: [lowest, highest) */
  int64_t *tokens;            /* of the prompt, then what was written */
  int64_t length;
  float *scores;   /* [sequence, kinds], rank 0 */
  double *weights; /* [kinds] */
  double temperature;
  int64_t seed;
} TokenWriter;

/* The network's end of the text, padded at the right: later places do not change earlier ones. */
static RengaErrorCode ReadPrompt(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const TokenWriter *writer = user;
  int64_t begin = writer->length > writer->sequence ? writer->length - writer->sequence : 0;
  const RengaTensorSpec *spec = &writer->fields.specs[field];
  (void)first; /* there is one sample */
  memset(buffer, 0, RengaTensorSpecBytes(spec) * (size_t)count);
  if (field != writer->tokens_field) return RENGA_SUCCESS;
  for (int64_t i = begin; i < writer->length; i++)
    if (spec->type == RENGA_INT64)
      ((int64_t *)buffer)[i - begin] = writer->tokens[i];
    else
      ((int32_t *)buffer)[i - begin] = (int32_t)writer->tokens[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTokens(TokenWriter *writer)
{
  const AppFields *fields = &writer->fields;
  writer->tokens_field = -1;
  for (int f = 0; f < fields->count && writer->tokens_field < 0; f++)
    if (fields->is_table_index[f] && fields->specs[f].ndim == 1) writer->tokens_field = f;
  RengaCheck(writer->tokens_field >= 0, writer->printer, RENGA_ERR_SUPPORT,
             "renga generate needs a network with an input [batch, sequence] of tokens");
  RengaDataType type = fields->specs[writer->tokens_field].type;
  RengaCheck(type == RENGA_INT64 || type == RENGA_INT32, writer->printer, RENGA_ERR_SUPPORT,
             "renga generate: the tokens %s are %s, not int64 or int32",
             fields->names[writer->tokens_field], RengaDataTypeName(type));
  writer->sequence = fields->specs[writer->tokens_field].dim[0];
  return RENGA_SUCCESS;
}

/* The tokens that text is made of: bytes, or those of -vocabulary_file. */
static RengaErrorCode FindTextVocabulary(TokenWriter *writer)
{
  const char *file;
  writer->highest = BYTES;
  RengaCall(RengaOptionsGetString("vocabulary_file", &file, NULL));
  if (file == NULL) return RENGA_SUCCESS;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int turn = 0; turn < 2; turn++) { /* what is wrong with a file is said once */
    if ((turn == 0) == (RengaCommGetRank(writer->comm) == 0))
      code = RengaVocabularyRead(file, &writer->vocabulary);
    RengaCall(RengaErrorAgree(writer->printer, code));
  }
  RengaCall(RengaVocabularyGetCount(writer->vocabulary, &writer->highest));
  const char *text;
  int64_t length = 0; /* the first tokens may stand for no text */
  for (int64_t t = 0; t < writer->highest && length == 0; t++) {
    writer->lowest = t;
    RengaCall(RengaVocabularyDecode(writer->vocabulary, t, &text, &length));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckScores(TokenWriter *writer)
{
  char text[128] = "not there";
  RengaValue value;
  bool fits = false;
  RengaCall(RengaOptionsGetString("output", &writer->output, NULL));
  if (!writer->output) writer->output = "logits";
  value = RengaGraphFindValue(writer->graph, writer->output);
  if (value >= 0) {
    RengaTensorSpec spec = RengaTensorSpecAt(&RengaGraphGetValue(writer->graph, value)->spec, 1);
    RengaTensorSpecFormat(&spec, sizeof text, text);
    writer->kinds = spec.ndim >= 2 ? spec.dim[spec.ndim - 1] : 0;
    fits = RengaTensorSpecCount(&spec) == writer->sequence * writer->kinds &&
           (writer->vocabulary ? writer->kinds >= writer->highest : writer->kinds == BYTES);
  }
  RengaCheck(fits, writer->printer, RENGA_ERR_SUPPORT,
             "renga generate writes %s: the output %s must be [batch, %lld, %lld] but is %s; name "
             "another with -output%s",
             writer->vocabulary ? "tokens of a vocabulary" : "bytes", writer->output,
             (long long)writer->sequence, (long long)writer->highest, text,
             writer->vocabulary ? "" : ", or the vocabulary with -vocabulary_file");
  return RENGA_SUCCESS;
}

/* Its tokens, with room for as many more. */
static RengaErrorCode TakePrompt(TokenWriter *writer, const char *prompt, int64_t more)
{
  int64_t bytes = (int64_t)strlen(prompt);
  writer->length = bytes;
  if (writer->vocabulary) {
    RengaCall(
        RengaVocabularyEncode(writer->vocabulary, prompt, bytes, &writer->length, &writer->tokens));
  }
  RengaCall(RengaRealloc(writer->length + more + 1, &writer->tokens));
  for (int64_t i = 0; i < bytes && !writer->vocabulary; i++)
    writer->tokens[i] = (unsigned char)prompt[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpGenerator(TokenWriter *writer)
{
  const char *file, *prompt;
  RengaCheckpointInitial initial;
  int64_t more = 0;
  RengaCall(AppNeedOption(writer->comm, "checkpoint", "the file of a trained network", &file));
  RengaCall(RengaOptionsGetString("prompt", &prompt, NULL));
  RengaCall(RengaOptionsGetReal("temperature", &writer->temperature, NULL));
  RengaCall(RengaOptionsGetInt64("seed", &writer->seed, NULL));
  RengaCheck(prompt[0], writer->printer, RENGA_ERR_OPTION, "-prompt is empty: give some text");
  RengaCall(AppLoadGraph(writer->comm, NULL, &writer->graph));
  RengaCall(AppFindFields(writer->comm, writer->graph, &writer->fields));
  RengaCall(FindTokens(writer));
  RengaCall(FindTextVocabulary(writer));
  RengaCall(CheckScores(writer));
  RengaPartition partition = NULL;
  RengaCall(AppMakePartition(writer->comm, writer->graph, 1, 1, &partition));
  const RengaErrorCode code = RengaPartitionSolve(partition, &writer->plan);
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(code);
  RengaCall(RengaPipelineCreate(writer->comm, &writer->pipeline));
  RengaCall(RengaPipelineSetPlan(writer->pipeline, writer->graph, writer->plan));
  RengaCall(RengaPipelineSetFromOptions(writer->pipeline));
  RengaCall(RengaPipelineSetUp(writer->pipeline));
  RengaCall(AppReadParameters(writer->comm, writer->pipeline, file, false, false, &initial));
  RengaCall(AppReadAdapter(writer->comm, writer->pipeline));
  RengaCall(RengaOptionsGetInt64("tokens", &more, NULL));
  RengaCall(TakePrompt(writer, prompt, more));
  RengaCall(RengaMalloc(writer->sequence * writer->kinds, &writer->scores));
  RengaCall(RengaMalloc(writer->kinds, &writer->weights));
  return RENGA_SUCCESS;
}

static int64_t LikeliestToken(const TokenWriter *writer, const float scores[])
{
  int64_t best = writer->lowest;
  for (int64_t t = best + 1; t < writer->highest; t++)
    if (scores[t] > scores[best]) best = t;
  return best;
}

/* Draw from the softmax of scores / temperature. */
static int64_t DrawToken(const TokenWriter *writer, const float scores[], int64_t number)
{
  double sum = 0, best = scores[LikeliestToken(writer, scores)];
  float random;
  int64_t token = writer->lowest;
  for (int64_t t = token; t < writer->highest; t++) {
    writer->weights[t] = exp((scores[t] - best) / writer->temperature);
    sum += writer->weights[t];
  }
  RengaRandomUniform((uint64_t)writer->seed, 0, (uint64_t)number, 1, &random);
  for (double left = random * sum; token < writer->highest - 1 && left >= writer->weights[token];
       token++)
    left -= writer->weights[token];
  return token;
}

static RengaErrorCode PrintToken(const TokenWriter *writer, int64_t token)
{
  const char *text;
  int64_t length;
  if (writer->vocabulary) {
    RengaCall(RengaVocabularyDecode(writer->vocabulary, token, &text, &length));
    RengaCall(RengaPrintf(writer->printer, "%.*s", (int)length, text));
  } else {
    RengaCall(RengaPrintf(writer->printer, "%c", (int)token));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteToken(TokenWriter *writer, int64_t number)
{
  RengaBatch batch = {.samples = 1, .read = ReadPrompt, .user = writer};
  int64_t token = 0;
  RengaCall(RengaPipelineForward(writer->pipeline, &batch, writer->output, writer->scores));
  if (RengaCommGetRank(writer->comm) == 0) {
    int64_t seen = writer->length < writer->sequence ? writer->length : writer->sequence;
    const float *scores = writer->scores + (seen - 1) * writer->kinds;
    token = writer->temperature > 0 ? DrawToken(writer, scores, number)
                                    : LikeliestToken(writer, scores);
  }
  RengaCall(RengaCommBroadcast(writer->comm, &token, sizeof token, 0, "the next token"));
  writer->tokens[writer->length++] = token;
  RengaCall(PrintToken(writer, token));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteGenerated(TokenWriter *writer)
{
  const char *prompt;
  int64_t tokens = 0;
  RengaCall(RengaOptionsGetInt64("tokens", &tokens, NULL));
  RengaCall(RengaOptionsGetString("prompt", &prompt, NULL));
  RengaCall(RengaPrintf(writer->printer, "%s", prompt));
  for (int64_t t = 0; t < tokens; t++) RengaCall(WriteToken(writer, t));
  RengaCall(RengaPrintf(writer->printer, "\n"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppGenerate(const App *app)
{
  TokenWriter writer = {.comm = app->comm};
  RengaCall(RengaObjectGetComm(app->comm, &writer.printer));
  RengaCall(SetUpGenerator(&writer));
  RengaCall(WriteGenerated(&writer));
  RengaFree(&writer.scores);
  RengaFree(&writer.weights);
  RengaFree(&writer.tokens);
  RengaCall(RengaVocabularyDestroy(&writer.vocabulary));
  RengaCall(RengaPipelineDestroy(&writer.pipeline));
  RengaCall(RengaPlanDestroy(&writer.plan));
  AppFreeFields(&writer.fields);
  RengaCall(RengaGraphDestroy(&writer.graph));
  return RENGA_SUCCESS;
}
