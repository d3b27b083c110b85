/* Options of a graph, and what readers of files ask of them. */
#include "graphimpl.h"
#include "renga/private/choice.h"
#include "renga/private/op.h"
#include "renga/private/packages.h"
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(RengaGraphOptions, member)
static const RengaOptionRow rows[] = {
    {"graph", RENGA_OPTION_STRING, NULL, AT(graph), NULL, 0, 0,
     "network: FILE.onnx, or bert, gpt, llama, mlp, ncf, resnet, t5, transformer with "
     ":key=value,..."},
    {"graph_view", RENGA_OPTION_STRING, NULL, AT(view), NULL, 0, 0,
     "show the network once it is set up: ascii, dot:FILE or json:FILE"},
    {"graph_frozen", RENGA_OPTION_STRING, NULL, AT(frozen), NULL, 0, 0,
     "parameters that are not trained: patterns of the shell, comma separated"},
    {"graph_trained", RENGA_OPTION_STRING, NULL, AT(trained), NULL, 0, 0,
     "parameters that are trained, whatever the file or -graph_frozen says: patterns"},
    {"graph_dimension", RENGA_OPTION_STRING, NULL, AT(dimension), NULL, 0, 0,
     "sizes of a file's symbolic dimensions: name=size,..."},
    {"graph_whole_batch", RENGA_OPTION_INT64, "0", AT(whole_batch), NULL, 0, 1 << 20,
     "batch of a network whose samples need each other: no micro-batches; 0: any"},
    {"graph_lanes", RENGA_OPTION_STRING, "auto", AT(lanes_text), NULL, 0, 0,
     "lanes (tensor-parallel units) of columns and heads; auto: the degree; decides bits"},
    {"graph_token_lanes", RENGA_OPTION_INT64, "0", AT(token_lanes), NULL, 0, 1024,
     "lanes (context-parallel units) of tokens or image rows; 0: chosen; decides bits"},
    {"graph_split", RENGA_OPTION_STRING, NULL, AT(split), NULL, 0, 0,
     "how lanes split nodes: PATTERN:HOW,... (whole, lanes, columns, rows)"},
    {"graph_batch_inputs", RENGA_OPTION_STRING, NULL, AT(batch_inputs), NULL, 0, 0,
     "the inputs of a file that hold samples, and which dimension counts them: "
     "NAME[:dimension],..."},
    {"precision", RENGA_OPTION_ENUM, "fp32", AT(precision),
     RENGA_PRECISION_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "number type of tensors and matrix products; sums and master weights are fp32"},
    {"precision_keep", RENGA_OPTION_STRING, NULL, AT(keep), NULL, 0, 0,
     "patterns of nodes that stay in fp32, comma separated"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], LANES_MOST = 1024, LANES_CHOSEN = 8 };

RengaErrorCode RengaGraphRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Graph", N_ROWS, rows));
  RengaCall(RengaGraphRegisterLora());
  RengaCall(RengaGraphRegisterDivision());
  return RENGA_SUCCESS;
}

/* What other rooms read too, and lanes follow. */
typedef struct {
  char *tensor, *context, *machine, *ranks;
} RankOptions;
static const RengaOptionRow rank_rows[] = {
    {"layout_tensor", RENGA_OPTION_STRING, NULL, offsetof(RankOptions, tensor), NULL, 0, 0, ""},
    {"layout_context", RENGA_OPTION_STRING, NULL, offsetof(RankOptions, context), NULL, 0, 0, ""},
    {"machine_file", RENGA_OPTION_STRING, NULL, offsetof(RankOptions, machine), NULL, 0, 0, ""},
    {"partition_ranks", RENGA_OPTION_STRING, NULL, offsetof(RankOptions, ranks), NULL, 0, 0, ""},
};
enum { N_RANK_ROWS = sizeof rank_rows / sizeof rank_rows[0] };

/* From 1 to LANES_MOST; 1 where the text is no number, which its own room refuses. */
static int64_t ReadCount(const char *text)
{
  char *end = NULL;
  const long long count = text ? strtoll(text, &end, 10) : 1;
  if (!text || end == text || *end || count < 1) return 1;
  return count < LANES_MOST ? count : LANES_MOST;
}

/* As many lanes as tensor ranks. Where these are chosen, lanes are chosen with them; but for nodes
   that are to be in lanes there are as many as there may be of tensor ranks. */
static void CountTensorRanks(RengaGraph graph, const RankOptions *given)
{
  RengaGraphOptions *options = &graph->options;
  int size = LANES_CHOSEN;
  if (!given->machine) MPI_Comm_size(graph->hdr.comm, &size);
  const int64_t most = given->ranks ? ReadCount(given->ranks) : size;
  const bool chosen = given->tensor && strcmp(given->tensor, "auto") == 0;
  options->lanes_at_most = chosen && options->split;
  options->lanes_open =
      !options->split && (chosen || !given->tensor || strcmp(given->tensor, "0") == 0);
  options->lanes = ReadCount(given->tensor);
  while (options->lanes_at_most && 2 * options->lanes <= most && options->lanes < LANES_CHOSEN)
    options->lanes *= 2;
}

/* As many as ranks of the kind, where nobody gives lanes. */
static RengaErrorCode CountRanks(RengaGraph graph, bool chosen)
{
  RengaGraphOptions *options = &graph->options;
  RankOptions given = {.machine = NULL};
  const RengaErrorCode code =
      RengaOptionsSetFromDatabase(graph->hdr.prefix, N_RANK_ROWS, rank_rows, &given);
  if (!code && chosen) CountTensorRanks(graph, &given);
  if (!code && options->token_lanes == 0 && ReadCount(given.context) > 1)
    options->token_lanes = ReadCount(given.context);
  RengaCall(RengaOptionsFreeStrings(N_RANK_ROWS, rank_rows, &given));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A number, or a word. */
static RengaErrorCode ReadLanes(RengaGraph graph)
{
  const char *text = graph->options.lanes_text;
  char *end;
  if (!text && graph->options.lanes > 0) return RENGA_SUCCESS; /* the program's */
  const bool chosen = !text || strcmp(text, "auto") == 0;
  const long long lanes = chosen ? 0 : strtoll(text, &end, 10);
  RengaCheck(chosen || (end != text && !*end && lanes >= 1 && lanes <= LANES_MOST), graph->hdr.comm,
             RENGA_ERR_OPTION, "-graph_lanes %s: write a whole number from 1 to %d, or auto", text,
             LANES_MOST);
  graph->options.lanes = lanes;
  graph->options.lanes_at_most = graph->options.lanes_open = false;
  RengaCall(CountRanks(graph, chosen));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphReadOptions(RengaGraph graph)
{
  RengaCall(RengaOptionsSetFromDatabase(graph->hdr.prefix, N_ROWS, rows, &graph->options));
  RengaCall(ReadLanes(graph));
  RengaCall(RengaGraphReadLora(graph));
  RengaCall(RengaGraphReadDivision(graph));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphFreeOptions(RengaGraph graph)
{
  RengaGraphFreeLora(graph);
  RengaGraphFreeDivision(graph);
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, &graph->options));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphCopyOptions(RengaGraph from, RengaGraph to)
{
  to->options = from->options;
  for (int r = 0; r < N_ROWS; r++) {
    char *text, **place = (char **)((char *)&to->options + rows[r].offset);
    if (rows[r].kind != RENGA_OPTION_STRING || !*place) continue;
    const RengaErrorCode code = RengaStringCopy(*place, &text);
    *place = code ? NULL : text;
    RengaCall(code);
  }
  RengaCall(RengaGraphCopyLora(from, to));
  RengaCall(RengaGraphCopyDivision(from, to));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetText(char **place, const char *text)
{
  char *copy = NULL;
  if (text) RengaCall(RengaStringCopy(text, &copy));
  RengaFree(place);
  *place = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetFrozen - name the parameters that are not trained

   Input:
   . graph - the graph, before RengaGraphSetUp
   . patterns - patterns of the shell, comma separated: "wte.*,blocks.0.*"; NULL: none

   Notes: a pattern that fits no parameter is an error of RengaGraphSetUp.

   See also: RengaGraphSetTrained(), RengaGraphGetTrained()
@*/
RengaErrorCode RengaGraphSetFrozen(RengaGraph graph, const char *patterns)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.frozen, patterns));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetTrained - name parameters that are trained, whatever else is said of them

   Input:
   . graph - the graph, before RengaGraphLoad: a file may hold constants that are to be trained
   . patterns - patterns of the shell, comma separated: "head.*"; NULL: none

   Notes: stands above RengaGraphSetFrozen, so that frozen "*" and trained "head.*" train the head
   alone. A pattern that fits no parameter is an error of RengaGraphSetUp.

   See also: RengaGraphSetFrozen(), RengaGraphGetTrained()
@*/
RengaErrorCode RengaGraphSetTrained(RengaGraph graph, const char *patterns)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.trained, patterns));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetTrained - the patterns of -graph_trained and -graph_frozen

   Output:
   . trained - the patterns, lent by the graph until they are set again; NULL: none
   . frozen - likewise

   See also: RengaGraphSetTrained(), RengaGraphSetFrozen()
@*/
RengaErrorCode RengaGraphGetTrained(RengaGraph graph, const char **trained, const char **frozen)
{
  RengaCheckPointers(graph, trained, frozen);
  *trained = graph->options.trained;
  *frozen = graph->options.frozen;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetWholeBatch - read a network as a function of a whole batch, never cut

   Input:
   . graph - the graph, empty: before RengaGraphLoad of an ONNX file
   . samples - samples of each batch, at least 1; 0: a batch is cut into micro-batches, whose losses
     add up

   Options:
   . -graph_whole_batch SAMPLES - likewise

   Errors: RENGA_ERR_ORDER after a network was loaded; RENGA_ERR_ARGUMENT for a negative number.

   Notes: products of the samples with each other (contrastive losses) and functions of sums over
   the batch have no shares that micro-batches could add up. A network that is read in this way may
   have them; it runs on plans of one micro-batch and one replica per stage, and all batches have
   that many samples.

   See also: RengaGraphGetWholeBatch(), RengaGraphGetMixed()
@*/
RengaErrorCode RengaGraphSetWholeBatch(RengaGraph graph, int64_t samples)
{
  RengaCheckPointer(graph);
  RengaCheck(samples >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)samples);
  RengaCheck(graph->n_values == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetWholeBatch: call it before RengaGraphLoad");
  graph->options.whole_batch = samples;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetWholeBatch(RengaGraph graph, int64_t *samples)
{
  RengaCheckPointers(graph, samples);
  *samples = graph->options.whole_batch;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetDimension - give sizes to the symbolic dimensions of a file that is read later

   Input:
   . graph - the graph, before RengaGraphLoad
   . dimensions - "sequence=128,width=64"; NULL: none

   See also: RengaGraphGetDimension(), RengaGraphLoad()
@*/
RengaErrorCode RengaGraphSetDimension(RengaGraph graph, const char *dimensions)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.dimension, dimensions));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetDimension(RengaGraph graph, const char **dimensions)
{
  RengaCheckPointers(graph, dimensions);
  *dimensions = graph->options.dimension;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetSplit - say how lanes split nodes, where the choice of the library is not wanted

   Not collective (the same on all ranks)

   Input:
   . graph - the graph, before RengaGraphSetUp
   . patterns - "PATTERN:HOW,...", where HOW is whole, lanes, columns or rows, and the first pattern
     of the shell that fits a node's name decides; NULL: the library chooses

   Options:
   . -graph_split - the same

   Errors: a node that cannot be split so is an error of RengaGraphSetUp.

   See also: RengaGraphGetSplit(), RengaGraphSetLanes()
@*/
RengaErrorCode RengaGraphSetSplit(RengaGraph graph, const char *patterns)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.split, patterns));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetSplit(RengaGraph graph, const char **patterns)
{
  RengaCheckPointers(graph, patterns);
  *patterns = graph->options.split;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetBatchInputs - say which inputs of a file that is read later hold samples

   Input:
   . graph - the graph, empty: before RengaGraphLoad
   . inputs - names, each with the dimension that counts the samples where it is not the first:
     "tokens,image:1". NULL: the first dimension of every input whose first dimension is like that
     of the first input

   Options:
   . -graph_batch_inputs NAME[:D],… - likewise

   Errors: RENGA_ERR_ORDER after a network was loaded.

   Notes: needed where a file has a fixed batch, or symbolic sizes, and the default takes for the
   batch what is none. An input of which the samples are not the first dimension becomes one of
   which they are, as in data sets. A name that no input has is an error of RengaGraphLoad.

   See also: RengaGraphGetBatchInputs(), RengaGraphLoad()
@*/
RengaErrorCode RengaGraphSetBatchInputs(RengaGraph graph, const char *inputs)
{
  RengaCheckPointer(graph);
  RengaCheck(graph->n_values == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetBatchInputs: call it before RengaGraphLoad");
  RengaCall(SetText(&graph->options.batch_inputs, inputs));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetBatchInputs(RengaGraph graph, const char **inputs)
{
  RengaCheckPointers(graph, inputs);
  *inputs = graph->options.batch_inputs;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetDimension_Private(RengaGraph graph, const char *name, int64_t *size)
{
  const char *text = graph->options.dimension ? graph->options.dimension : "";
  int64_t found = 0;
  while (*text) {
    size_t length = strcspn(text, ",");
    const char *equals = memchr(text, '=', length);
    char *end = NULL;
    long long number = equals ? strtoll(equals + 1, &end, 10) : 0;
    RengaCheck(equals && end == text + length && number > 0, graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_dimension: \"%.*s\" is not name=size with a size above 0", (int)length,
               text);
    size_t name_length = (size_t)(equals - text);
    if (strlen(name) == name_length && strncmp(name, text, name_length) == 0) found = number;
    text += length + (text[length] == ',');
  }
  *size = found;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetLanes - compute a network in lanes, whatever ranks it runs on

   Input:
   . graph - the graph, before RengaGraphSetUp
   . lanes - the number of lanes that heads and hidden columns are split into, 1 to 1024. 1: nothing
     is split. 0: as many as tensor-parallel ranks, which RengaPartitionSolve() chooses

   Options:
   . -graph_lanes L|auto - likewise; auto, the default: as many as -layout_tensor has ranks

   Errors: RENGA_ERR_ARGUMENT for a number outside of its range; RENGA_ERR_ORDER after
   RengaGraphSetUp.

   Notes: what lanes make is added up in a fixed order, so that losses and parameters have the bits
   of this number of lanes on any layout. Tensor-parallel ranks split the lanes. Where their number
   is chosen the lanes are, too: RengaPartitionSolve() may then put the network in lanes, after
   which values are to be found by name again.

   See also: RengaGraphGetLanes(), RengaPartitionSetTensor()
@*/
RengaErrorCode RengaGraphSetLanes(RengaGraph graph, int lanes)
{
  RengaCheckPointer(graph);
  RengaCheck(lanes >= 0 && lanes <= LANES_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d lanes: must be from 1 to %d, or 0 where they are chosen", lanes, LANES_MOST);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetLanes: call it before RengaGraphSetUp");
  graph->options.lanes = lanes;
  graph->options.lanes_at_most = false;
  graph->options.lanes_open = lanes == 0;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetLanes - the lanes that a network is computed in

   Input:
   . graph - the graph, after RengaGraphSetUp

   Output:
   . lanes - the number of lanes of heads, columns and experts; 1: nothing is split so
   . nodes - the number of nodes, of the network before it was split, that are computed in lanes; or
     NULL

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp, which may choose fewer.

   See also: RengaGraphSetLanes(), RengaGraphGetTokenLanes()
@*/
RengaErrorCode RengaGraphGetLanes(RengaGraph graph, int *lanes, int *nodes)
{
  RengaCheckPointers(graph, lanes);
  RengaCheck(graph->hdr.state >= RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphGetLanes: call RengaGraphSetUp first");
  RengaGraphCountLanes_Private(graph, RENGA_LANES_OF_HEADS, lanes, nodes);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetTokenLanes - compute a network in lanes of the tokens of a sequence

   Collective

   Input:
   . graph - the graph, before RengaGraphSetUp
   . lanes - the number of lanes that tokens, or rows of images, are split into, 1 to 1024; 1: they
     are not split; 0: type auto may choose them where it chooses the lanes of heads

   Options:
   . -graph_token_lanes L - likewise

   Errors: RENGA_ERR_ARGUMENT for a number outside of its range; RENGA_ERR_ORDER after
   RengaGraphSetUp.

   Notes: context-parallel ranks split these lanes. They go with lanes of heads
   (RengaGraphSetLanes()): each of those then has lanes of tokens.

   See also: RengaGraphGetTokenLanes(), RengaPartitionSetSequence()
@*/
RengaErrorCode RengaGraphSetTokenLanes(RengaGraph graph, int lanes)
{
  RengaCheckPointer(graph);
  RengaCheck(lanes >= 0 && lanes <= LANES_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d lanes of tokens: must be from 1 to %d, or 0 where they are chosen", lanes,
             LANES_MOST);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetTokenLanes: call it before RengaGraphSetUp");
  graph->options.token_lanes = lanes;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetTokenLanes - the lanes of tokens that a network is computed in

   Input:
   . graph - the graph, after RengaGraphSetUp

   Output:
   . lanes - 1: tokens are not split
   . nodes - the number of nodes that are computed in them, those of lanes of heads each by itself;
     or NULL

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp.

   See also: RengaGraphSetTokenLanes(), RengaGraphGetLanes()
@*/
RengaErrorCode RengaGraphGetTokenLanes(RengaGraph graph, int *lanes, int *nodes)
{
  RengaCheckPointers(graph, lanes);
  RengaCheck(graph->hdr.state >= RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphGetTokenLanes: call RengaGraphSetUp first");
  RengaGraphCountLanes_Private(graph, RENGA_LANES_OF_TOKENS, lanes, nodes);
  return RENGA_SUCCESS;
}

void RengaGraphCountLanes_Private(RengaGraph graph, RengaLaneKind kind, int *lanes, int *nodes)
{
  const int64_t count[] = {graph->options.lanes, graph->options.token_lanes};
  *lanes = count[kind] > 1 ? (int)count[kind] : 1;
  if (nodes) *nodes = graph->in_lanes[kind];
}

const RengaLaneWords RengaLaneWords_Private[RENGA_LANE_KINDS] = {
    [RENGA_LANES_OF_HEADS] = {"-graph_lanes", "-layout_tensor", "tensor-parallel"},
    [RENGA_LANES_OF_TOKENS] = {"-graph_token_lanes", "-layout_context", "context-parallel"},
};

RengaErrorCode RengaGraphSetFileBatch_Private(RengaGraph graph, int64_t batch)
{
  graph->file_batch = batch;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetFileBatch - the batch size that an input file was exported with

   Output:
   . batch - a default for the user's; 0 where the file leaves it open

   See also: RengaGraphLoad()
@*/
RengaErrorCode RengaGraphGetFileBatch(RengaGraph graph, int64_t *batch)
{
  RengaCheckPointers(graph, batch);
  *batch = graph->file_batch;
  return RENGA_SUCCESS;
}
