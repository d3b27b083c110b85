/* A network by name: a file, or a builder with its sizes. */
#include "huggingface/huggingface.h"
#include "renga/private/choice.h"
#include "renga/private/number.h"
#include "renga/private/quiet.h"
#include "renga/private/wait.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *suffix;
  RengaErrorCode (*read)(RengaGraph graph, const char *file);
} GraphReader;

static const GraphReader readers[] = {
    {".onnx", RengaGraphReadOnnx},
};
enum { N_READERS = sizeof readers / sizeof readers[0] };

static const RengaGraphBuilder *const builders[] = {
    &RengaGraphBuilderBert, &RengaGraphBuilderGpt,         &RengaGraphBuilderLlama,
    &RengaGraphBuilderMlp,  &RengaGraphBuilderNcf,         &RengaGraphBuilderResnet,
    &RengaGraphBuilderT5,   &RengaGraphBuilderTransformer,
};
enum { N_BUILDERS = sizeof builders / sizeof builders[0], MAX_SETTINGS = 32, TEXT_SIZE = 512 };

static RengaErrorCode StoreInteger(const RengaGraphBuilder *builder, const RengaOptionRow *row,
                                   const char *text, void *place)
{
  char *end;
  long long number = strtoll(text, &end, 10);
  RengaCheck(*text && *end == '\0' && number >= (int64_t)row->low && number <= (int64_t)row->high,
             MPI_COMM_SELF, RENGA_ERR_OPTION, "%s: %s=%s must be a number from %lld to %lld",
             builder->name, row->name, text, (long long)row->low, (long long)row->high);
  memcpy(place, &(int64_t){number}, sizeof(int64_t));
  return RENGA_SUCCESS;
}

static RengaErrorCode StoreReal(const RengaGraphBuilder *builder, const RengaOptionRow *row,
                                const char *text, void *place)
{
  char *end;
  double number = RengaReadReal(text, &end);
  RengaCheck(*text && *end == '\0' && number >= row->low && number <= row->high, MPI_COMM_SELF,
             RENGA_ERR_OPTION, "%s: %s=%s must be a number from %g to %g", builder->name, row->name,
             text, row->low, row->high);
  memcpy(place, &number, sizeof number);
  return RENGA_SUCCESS;
}

static RengaErrorCode StoreText(const RengaGraphBuilder *builder, const RengaOptionRow *row,
                                const char *text, char *place)
{
  RengaCheck(strlen(text) < (size_t)row->high, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "%s: %s=%.40s… has %zu characters, and may have %d", builder->name, row->name, text,
             strlen(text), (int)row->high - 1);
  RengaCheck(!row->choices || RengaFindChoice_Private(text, row->choices) >= 0, MPI_COMM_SELF,
             RENGA_ERR_OPTION, "%s: %s=%s is not one of %s", builder->name, row->name, text,
             row->choices);
  strcpy(place, text);
  return RENGA_SUCCESS;
}

/* Settings are integers, reals, or texts of at most TEXT_SIZE - 1 characters inside the struct. */
static RengaErrorCode StoreSettings(const RengaGraphBuilder *builder, const RengaOptionRow *row,
                                    const char *text, char *settings)
{
  void *place = settings + row->offset;
  if (row->kind == RENGA_OPTION_INT64)
    RengaCall(StoreInteger(builder, row, text, place));
  else if (row->kind == RENGA_OPTION_REAL)
    RengaCall(StoreReal(builder, row, text, place));
  else
    RengaCall(StoreText(builder, row, text, place));
  return RENGA_SUCCESS;
}

/* "bert, gpt, llama" */
static void JoinNames(int count, const char *const names[], char list[TEXT_SIZE])
{
  list[0] = '\0';
  for (int i = 0; i < count; i++) {
    size_t used = strlen(list);
    snprintf(list + used, TEXT_SIZE - used, "%s%s", i ? ", " : "", names[i]);
  }
}

static RengaErrorCode FindSetting(const RengaGraphBuilder *builder, const char *name,
                                  const RengaOptionRow **row)
{
  const char *names[MAX_SETTINGS];
  char list[TEXT_SIZE];
  for (int i = 0; i < builder->n_settings; i++) {
    if (strcmp(builder->settings[i].name, name) == 0) {
      *row = &builder->settings[i];
      return RENGA_SUCCESS;
    }
    names[i] = builder->settings[i].name;
  }
  JoinNames(builder->n_settings, names, list);
  const char *closest = RengaClosestName(name, builder->n_settings, names);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_OPTION, "%s has no setting \"%s\"%s%s%s; it has %s",
             builder->name, name, closest ? "; did you mean " : "", closest ? closest : "",
             closest ? "?" : "", list);
}

/* "layers=12,hidden=768" */
static RengaErrorCode ReadSettings(const RengaGraphBuilder *builder, const char *text,
                                   char *settings)
{
  for (int i = 0; i < builder->n_settings; i++)
    RengaCall(StoreSettings(builder, &builder->settings[i], builder->settings[i].value, settings));
  while (*text) {
    char pair[TEXT_SIZE];
    size_t length = strcspn(text, ",");
    const RengaOptionRow *row = NULL;
    RengaCheck(length < sizeof pair, MPI_COMM_SELF, RENGA_ERR_OPTION, "%s: \"%.40s…\" is too long",
               builder->name, text);
    snprintf(pair, sizeof pair, "%.*s", (int)length, text);
    char *equals = strchr(pair, '=');
    RengaCheck(equals, MPI_COMM_SELF, RENGA_ERR_OPTION, "%s: \"%s\" is not name=value",
               builder->name, pair);
    *equals = '\0';
    RengaCall(FindSetting(builder, pair, &row));
    RengaCall(StoreSettings(builder, row, equals + 1, settings));
    text += length + (text[length] == ',');
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildNamed(RengaGraph graph, const RengaGraphBuilder *builder,
                                 const char *text)
{
  RengaCheck(graph->options.whole_batch == 0, graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_whole_batch is for ONNX files: the losses of %s are of samples",
             builder->name);
  char *settings = NULL;
  RengaCall(RengaMalloc(builder->size, &settings));
  RengaErrorCode code = ReadSettings(builder, text, settings);
  if (code == RENGA_SUCCESS) code = RengaGraphBuildParts(graph, builder, settings);
  RengaFree(&settings);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildByName(RengaGraph graph, const char *what)
{
  size_t length = strcspn(what, ":");
  const char *names[N_BUILDERS];
  for (int i = 0; i < N_BUILDERS; i++) {
    names[i] = builders[i]->name;
    if (strlen(names[i]) != length || strncmp(names[i], what, length) != 0) continue;
    RengaCall(BuildNamed(graph, builders[i], what + length + (what[length] == ':')));
    return RENGA_SUCCESS;
  }
  char name[TEXT_SIZE], list[TEXT_SIZE];
  JoinNames(N_BUILDERS, names, list);
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), what);
  const char *closest = RengaClosestName(name, N_BUILDERS, names);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-graph %s: neither a file FILE.onnx, nor hf:FOLDER, nor one of %s%s%s%s", what, list,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
}

/* FOLDER,key=value,… */
static RengaErrorCode BuildOfConfig(RengaGraph graph, const char *what, const char *folder,
                                    const char *config)
{
  RengaHfOptions options = {.folder = folder, .config = config};
  RengaCheck(graph->options.whole_batch == 0, graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_whole_batch is for ONNX files: the losses of hf:%s are of samples", folder);
  const size_t length = strlen(folder);
  RengaCall(ReadSettings(&RengaGraphBuilderFolder, what + length + (what[length] == ','),
                         (char *)&options));
  RengaCall(RengaGraphBuildParts(graph, &RengaGraphBuilderFolder, &options));
  return RENGA_SUCCESS;
}

/* Rank 0 reads config.json, and all ranks build the same. */
static RengaErrorCode LoadNamedFolder(RengaGraph graph, const char *what)
{
  RengaQuiet quiet;
  char *folder = NULL, *config = NULL;
  RengaCall(RengaErrorAgree(graph->hdr.comm, RengaStringCopy(what, &folder)));
  folder[strcspn(folder, ",")] = '\0';
  RengaErrorCode code = RengaHfShareConfig(graph->hdr.comm, folder, &config);
  if (!code) {
    RengaQuietBegin_Private(&quiet);
    code = BuildOfConfig(graph, what, folder, config);
    RengaQuietEnd_Private(&quiet);
    code = RengaErrorAgreeOnce_Private(graph->hdr.comm, code);
  }
  RengaFree(&config);
  RengaFree(&folder);
  return code;
}

static bool IsNamedFolder(const char *what)
{
  return strncmp(what, "hf:", 3) == 0;
}

static bool EndsWith(const char *text, const char *suffix)
{
  size_t length = strlen(text), tail = strlen(suffix);
  return length > tail && strcmp(text + length - tail, suffix) == 0;
}

/* Rank 0 reads files for all. file NULL: this rank builds its network. */
static RengaErrorCode CheckSameFile(RengaGraph graph, const char *file)
{
  const uint64_t hash = file ? RengaHash(file, strlen(file), 1) : 0;
  int64_t largest = (int64_t)hash, inverse = (int64_t)~hash;
  RengaCall(
      RengaReduceInt64_Private(graph->hdr.comm, MPI_MAX, &largest, "all ranks to load a network"));
  RengaCall(
      RengaReduceInt64_Private(graph->hdr.comm, MPI_MAX, &inverse, "all ranks to load a network"));
  RengaCheck(largest == ~inverse, graph->hdr.comm, RENGA_ERR_ARGUMENT,
             "ranks load networks from different files, or some build theirs: this rank %s: all "
             "ranks must be given the same",
             file ? file : "builds it");
  return RENGA_SUCCESS;
}

static const GraphReader *FindReader(const char *what)
{
  for (int i = 0; i < N_READERS; i++)
    if (EndsWith(what, readers[i].suffix)) return &readers[i];
  return NULL;
}

/*@
   RengaGraphLoad - read a network from a file, or build a known one by size

   Collective

   Input:
   . graph - an empty graph
   . what - FILE.onnx; or NAME:key=value,… with NAME that of a builder; or hf:FOLDER,key=value,…
     with a folder of Hugging Face, whose config.json says what is built

   Errors: RENGA_ERR_ORDER where the graph is not empty; RENGA_ERR_OPTION for a name that is
   neither a file nor a network, or a key that the network has not. Of a file:
   RENGA_ERR_FILE_OPEN where it cannot be read, RENGA_ERR_FILE_FORMAT where it is no ONNX model
   or is damaged, RENGA_ERR_SUPPORT for what Renga does not have, RENGA_ERR_SHAPE or
   RENGA_ERR_GRAPH for nodes that do not go together, with the node; all ranks have the error.

   Notes: the builders, their settings and the inputs of their networks: bert: layers, hidden,
   heads, intermediate, sequence, vocabulary, segments, padding, next_sentence, prenorm, dropout,
   deviation; inputs tokens, segments, attention_mask, labels, next_sentence. gpt: layers, hidden,
   heads, sequence, vocabulary, dropout, tied; inputs tokens, labels. llama: layers, hidden, heads,
   groups, intermediate, sequence, vocabulary, tied, base; inputs tokens, labels. mlp:
   sizes=784-2048-10, or input, layers, hidden, classes; inputs x, labels. ncf: users, items,
   factors, layers=256-256-128-64; inputs user, item, label. resnet: depth (18, 34, 50, 101, 152),
   width, classes, image, channels; inputs image, labels. t5: layers, hidden, heads, head_width,
   intermediate, sequence, target, vocabulary, buckets, distance, gated, tied, padding, dropout;
   inputs source, target, labels. transformer: layers, hidden, heads, intermediate, sequence,
   target, vocabulary, tied, padding, prenorm, dropout, smoothing; inputs source, target, labels.
   hf: sequence, dropout, segments, padding; inputs tokens, labels, of encoders attention_mask and
   segments, too, or image, labels; parameters have the names of the family's state dict, and begin
   at random: RengaCheckpointReadInitial reads the folder's.
   Labels of -100 do not count; with padding=1 token 0 of a source is not attended to, and a target
   is what the decoder reads: the labels, one place later.

   See also: RengaGraphSetFromOptions(), RengaGraphSetUp()
@*/
RengaErrorCode RengaGraphLoad(RengaGraph graph, const char *what)
{
  RengaCheckPointers(graph, what);
  RengaCheck(graph->n_values == 0 && graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF,
             RENGA_ERR_ORDER, "a network is loaded into a graph that is not empty");
  const GraphReader *reader = IsNamedFolder(what) ? NULL : FindReader(what);
  RengaCall(CheckSameFile(graph, reader || IsNamedFolder(what) ? what : NULL));
  if (IsNamedFolder(what)) {
    RengaCall(LoadNamedFolder(graph, what + 3));
    return RENGA_SUCCESS;
  }
  if (reader) {
    RengaCall(RengaGraphRefuseParts(graph, what));
    RengaCall(reader->read(graph, what));
    return RENGA_SUCCESS;
  }
  RengaQuiet quiet; /* all ranks read the same settings */
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = BuildByName(graph, what);
  RengaQuietEnd_Private(&quiet);
  return RengaErrorAgreeOnce_Private(graph->hdr.comm, code);
}

/*@
   RengaGraphSetFromOptions - take the options, and load the network that they name

   Collective

   Input:
   . graph - the graph; empty where -graph is given

   Options:
   . -graph WHAT - FILE.onnx, hf:FOLDER, or a builder, bert:layers=12,hidden=768,…: see
     RengaGraphLoad
   . -graph_view KIND:FILE - show it once it is set up: ascii, dot, json
   . -graph_frozen PATTERNS - parameters that are not trained
   . -graph_trained PATTERNS - parameters that are, whatever the file or -graph_frozen says
   . -graph_lora RANK, -graph_lora_targets PATTERNS, -graph_lora_alpha A, -graph_lora_dropout P -
     adapters, see RengaGraphSetLora
   . -graph_divide S, -graph_divide_weight W - parts of a network, see RengaGraphSetDivision
   . -graph_dimension NAME=SIZE,… - sizes of a file's symbolic dimensions
   . -graph_whole_batch SAMPLES - of a batch that is never cut, for losses across samples
   . -graph_batch_inputs NAME[:D],… - the inputs of a file that hold samples
   . -graph_lanes L|auto - lanes of heads and columns, see RengaGraphSetLanes
   . -graph_token_lanes L - lanes of the tokens of a sequence in place of those
   . -graph_split PATTERN:HOW,… - how lanes have nodes: whole, lanes, columns, rows

   Errors: RENGA_ERR_OPTION for a bad value; of -graph, what RengaGraphLoad says.

   See also: RengaGraphLoad(), RengaGraphSetUp()
@*/
RengaErrorCode RengaGraphSetFromOptions(RengaGraph graph)
{
  RengaCheckPointer(graph);
  RengaCall(RengaGraphReadOptions(graph));
  if (graph->options.graph) RengaCall(RengaGraphLoad(graph, graph->options.graph));
  return RENGA_SUCCESS;
}
