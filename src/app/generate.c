/* renga generate: text from a trained network of bytes, a byte at a time. */
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
  const char *output; /* name of the scores [1, sequence, BYTES] */
  int tokens_field;   /* the input that the text goes to */
  int64_t sequence;   /* bytes that the network sees */
  char *text;         /* prompt, then what was written */
  int64_t length;
  float *scores; /* [sequence, BYTES], rank 0 */
  double temperature;
  int64_t seed;
} Writer;

/* The network's end of the text, padded at the right: later places do not change earlier ones. */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Writer *writer = user;
  int64_t begin = writer->length > writer->sequence ? writer->length - writer->sequence : 0;
  const RengaTensorSpec *spec = &writer->fields.specs[field];
  (void)first; /* there is one sample */
  memset(buffer, 0, RengaTensorSpecBytes(spec) * (size_t)count);
  if (field != writer->tokens_field) return RENGA_SUCCESS;
  for (int64_t i = begin; i < writer->length; i++) {
    int byte = (unsigned char)writer->text[i];
    if (spec->type == RENGA_INT64)
      ((int64_t *)buffer)[i - begin] = byte;
    else
      ((int32_t *)buffer)[i - begin] = byte;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTokens(Writer *writer)
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

static RengaErrorCode CheckOutput(Writer *writer)
{
  char text[128] = "not there";
  RengaValue value;
  bool fits = false;
  RengaCall(RengaOptionsGetString("output", &writer->output, NULL));
  value = RengaGraphFindValue(writer->graph, writer->output);
  if (value >= 0) {
    RengaTensorSpec spec = RengaTensorSpecAt(&RengaGraphGetValue(writer->graph, value)->spec, 1);
    RengaTensorSpecFormat(&spec, sizeof text, text);
    fits = RengaTensorSpecCount(&spec) == writer->sequence * BYTES && spec.ndim >= 2 &&
           spec.dim[spec.ndim - 1] == BYTES;
  }
  RengaCheck(fits, writer->printer, RENGA_ERR_SUPPORT,
             "renga generate writes bytes: the output %s must be [batch, %lld, %d] but is %s; name "
             "another with -output",
             writer->output, (long long)writer->sequence, BYTES, text);
  return RENGA_SUCCESS;
}

static RengaErrorCode LoadCheckpoint(Writer *writer, const char *file)
{
  RengaCheckpoint checkpoint = NULL;
  RengaCall(RengaCheckpointCreate(writer->comm, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, writer->pipeline));
  RengaCall(RengaCheckpointSetSubset(checkpoint, true)); /* moments are not needed */
  RengaCall(RengaCheckpointRead(checkpoint, file));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUp(Writer *writer)
{
  const char *file, *prompt;
  RengaCall(AppNeedOption(writer->comm, "checkpoint", "the file of a trained network", &file));
  RengaCall(RengaOptionsGetString("prompt", &prompt, NULL));
  RengaCall(RengaOptionsGetReal("temperature", &writer->temperature, NULL));
  RengaCall(RengaOptionsGetInt64("seed", &writer->seed, NULL));
  RengaCheck(prompt[0], writer->printer, RENGA_ERR_OPTION, "-prompt is empty: give some text");
  RengaCall(AppLoadGraph(writer->comm, &writer->graph));
  RengaCall(AppFindFields(writer->comm, writer->graph, &writer->fields));
  RengaCall(FindTokens(writer));
  RengaCall(CheckOutput(writer));
  RengaCall(AppMakePlan(writer->comm, writer->graph, 1, 1, &writer->plan));
  RengaCall(RengaPipelineCreate(writer->comm, &writer->pipeline));
  RengaCall(RengaPipelineSetPlan(writer->pipeline, writer->graph, writer->plan));
  RengaCall(RengaPipelineSetFromOptions(writer->pipeline));
  RengaCall(RengaPipelineSetUp(writer->pipeline));
  RengaCall(LoadCheckpoint(writer, file));
  RengaCall(RengaStringCopy(prompt, &writer->text));
  RengaCall(RengaMalloc(writer->sequence * BYTES, &writer->scores));
  writer->length = (int64_t)strlen(prompt);
  return RENGA_SUCCESS;
}

static int Likeliest(const float scores[])
{
  int best = 0;
  for (int b = 1; b < BYTES; b++)
    if (scores[b] > scores[best]) best = b;
  return best;
}

/* Draw from the softmax of scores / temperature. */
static int Draw(const Writer *writer, const float scores[], int64_t number)
{
  double weights[BYTES], sum = 0, best = scores[Likeliest(scores)];
  float random;
  int byte = 0;
  for (int b = 0; b < BYTES; b++) {
    weights[b] = exp((scores[b] - best) / writer->temperature);
    sum += weights[b];
  }
  RengaRandomUniform((uint64_t)writer->seed, 0, (uint64_t)number, 1, &random);
  for (double left = random * sum; byte < BYTES - 1 && left >= weights[byte]; byte++)
    left -= weights[byte];
  return byte;
}

static RengaErrorCode WriteByte(Writer *writer, int64_t number)
{
  RengaBatch batch = {.samples = 1, .read = Read, .user = writer};
  unsigned char byte = 0;
  RengaCall(RengaPipelineForward(writer->pipeline, &batch, writer->output, writer->scores));
  if (RengaCommGetRank(writer->comm) == 0) {
    int64_t seen = writer->length < writer->sequence ? writer->length : writer->sequence;
    const float *scores = writer->scores + (seen - 1) * BYTES;
    byte =
        (unsigned char)(writer->temperature > 0 ? Draw(writer, scores, number) : Likeliest(scores));
  }
  RengaCall(RengaCommBroadcast(writer->comm, &byte, 1, 0, "the next byte"));
  writer->text[writer->length++] = (char)byte;
  RengaCall(RengaPrintf(writer->printer, "%c", byte));
  return RENGA_SUCCESS;
}

static RengaErrorCode Write(Writer *writer)
{
  int64_t tokens = 0;
  RengaCall(RengaOptionsGetInt64("tokens", &tokens, NULL));
  RengaCall(RengaRealloc(writer->length + tokens + 1, &writer->text));
  RengaCall(RengaPrintf(writer->printer, "%s", writer->text));
  for (int64_t t = 0; t < tokens; t++) RengaCall(WriteByte(writer, t));
  RengaCall(RengaPrintf(writer->printer, "\n"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppGenerate(const App *app)
{
  Writer writer = {.comm = app->comm};
  RengaCall(RengaObjectGetComm(app->comm, &writer.printer));
  RengaCall(SetUp(&writer));
  RengaCall(Write(&writer));
  RengaFree(&writer.scores);
  RengaFree(&writer.text);
  RengaCall(RengaPipelineDestroy(&writer.pipeline));
  RengaCall(RengaPlanDestroy(&writer.plan));
  AppFreeFields(&writer.fields);
  RengaCall(RengaGraphDestroy(&writer.graph));
  return RENGA_SUCCESS;
}
