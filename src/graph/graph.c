/* The graph: life, options, errors, memory of its algorithms. */
#include "graphimpl.h"
#include "renga/private/packages.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(RengaGraphOptions, member)
static const RengaOptionRow rows[] = {
    {"graph", RENGA_OPTION_STRING, NULL, AT(graph), NULL, 0, 0,
     "network: FILE.onnx, or bert, gpt, mlp, ncf, resnet, t5, transformer with :key=value,..."},
    {"graph_view", RENGA_OPTION_STRING, NULL, AT(view), NULL, 0, 0,
     "show the network once it is set up: ascii, dot:FILE or json:FILE"},
    {"graph_frozen", RENGA_OPTION_STRING, NULL, AT(frozen), NULL, 0, 0,
     "parameters that are not trained: patterns of the shell, comma separated"},
    {"graph_trained", RENGA_OPTION_STRING, NULL, AT(trained), NULL, 0, 0,
     "parameters that are trained, whatever the file or -graph_frozen says: patterns"},
    {"graph_dimension", RENGA_OPTION_STRING, NULL, AT(dimension), NULL, 0, 0,
     "sizes of a file's symbolic dimensions: name=size,..."},
    {"graph_whole_batch", RENGA_OPTION_INT64, "0", AT(whole_batch), NULL, 0, 1 << 20,
     "samples of a batch that is never cut, for losses across samples: one micro-batch, one "
     "replica"},
    {"graph_batch_inputs", RENGA_OPTION_STRING, NULL, AT(batch_inputs), NULL, 0, 0,
     "the inputs of a file that hold samples, and which dimension counts them: "
     "NAME[:dimension],..."},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaGraphRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Graph", N_ROWS, rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphError(const RengaGraphNode *node, RengaErrorCode code,
                               const char *function, const char *file, int line, const char *format,
                               ...)
{
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return RengaErrorRaise(MPI_COMM_SELF, code, function, file, line, "node \"%s\" (%s): %s",
                         node->name, node->op->name, text);
}

RengaErrorCode RengaGraphRaiseMixed_Private(RengaGraph graph, RengaErrorCode code,
                                            const char *function, const char *file, int line,
                                            const char *why)
{
  MPI_Comm comm;
  RengaCall(RengaObjectGetComm(graph, &comm));
  snprintf(graph->mixed, sizeof graph->mixed, "%s", why);
  return RengaErrorRaise(comm, code, function, file, line,
                         "%s. Where that is meant, one micro-batch on one replica may be the whole "
                         "batch: give -microbatch_size that of -batch_size, or -graph_whole_batch "
                         "SIZE",
                         graph->mixed);
}

RengaErrorCode RengaGraphMixedError(RengaGraph graph, const RengaGraphNode *node,
                                    const char *function, const char *file, int line,
                                    const char *format, ...)
{
  char text[640], why[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(why, sizeof why, "node \"%.80s\" (%s): %s", node->name, node->op->name, text);
  return RengaGraphRaiseMixed_Private(graph, RENGA_ERR_GRAPH, function, file, line, why);
}

RengaErrorCode RengaGraphAllocateScratch(RengaGraph graph, int64_t count, size_t size,
                                         void *pointer_to_pointer)
{
  char *memory = NULL;
  if ((graph->n_scratch & (graph->n_scratch - 1)) == 0) /* room for twice as many */
    RengaCall(RengaRealloc(graph->n_scratch ? 2 * graph->n_scratch : 1, &graph->scratch));
  RengaCall(RengaMalloc((size_t)(count > 0 ? count : 1) * size, &memory));
  graph->scratch[graph->n_scratch++] = memory;
  memcpy(pointer_to_pointer, &memory, sizeof memory);
  return RENGA_SUCCESS;
}

void RengaGraphFreeScratch(RengaGraph graph)
{
  for (int i = 0; i < graph->n_scratch; i++) RengaFree(&graph->scratch[i]);
  RengaFree(&graph->scratch);
  graph->n_scratch = 0;
}

static RengaErrorCode DestroyGraph(void *object)
{
  RengaGraph graph = object;
  RengaGraphFreeScratch(graph);
  for (int i = 0; i < graph->n_values; i++) RengaGraphFreeValue(&graph->value[i]);
  for (int i = 0; i < graph->n_nodes; i++) RengaGraphFreeEntry(&graph->entry[i]);
  RengaFree(&graph->value);
  RengaFree(&graph->entry);
  RengaFree(&graph->slot);
  RengaFree(&graph->output);
  RengaFree(&graph->use);
  RengaFree(&graph->update);
  RengaFree(&graph->readers);
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, &graph->options));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphCreate - an empty network

   Collective

   Input:
   . comm - the processes that hold it

   Output:
   . graph - to be freed with RengaGraphDestroy
@*/
RengaErrorCode RengaGraphCreate(RengaComm comm, RengaGraph *graph)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(graph);
  RengaGraph made;
  RengaCall(RengaHeaderCreate(comm, "graph", sizeof *made, DestroyGraph, &made));
  made->loss = RENGA_VALUE_NONE;
  made->place = made->id = -1;
  *graph = made;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphDestroy - free a network

   Collective

   Input:
   . graph - set to NULL; views lent by it are no longer valid
@*/
RengaErrorCode RengaGraphDestroy(RengaGraph *graph)
{
  RengaCheckPointer(graph);
  RengaCall(RengaHeaderDestroy(graph));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetFromOptions - take the options, and load the network that they name

   Collective

   Input:
   . graph - the graph; empty where -graph is given

   Options:
   . -graph WHAT - FILE.onnx, or a builder, bert:layers=12,hidden=768,…: see RengaGraphLoad
   . -graph_view KIND:FILE - show it once it is set up: ascii, dot, json
   . -graph_frozen PATTERNS - parameters that are not trained
   . -graph_trained PATTERNS - parameters that are, whatever the file or -graph_frozen says
   . -graph_dimension NAME=SIZE,… - sizes of a file's symbolic dimensions
   . -graph_whole_batch SAMPLES - of a batch that is never cut, for losses across samples
   . -graph_batch_inputs NAME[:D],… - the inputs of a file that hold samples
@*/
RengaErrorCode RengaGraphSetFromOptions(RengaGraph graph)
{
  RengaCheckPointer(graph);
  RengaCall(RengaOptionsSetFromDatabase(graph->hdr.prefix, N_ROWS, rows, &graph->options));
  if (graph->options.graph) RengaCall(RengaGraphLoad(graph, graph->options.graph));
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

   Not collective

   Input:
   + graph - the graph, before RengaGraphSetUp
   - patterns - patterns of the shell, comma separated: "wte.*,blocks.0.*"; NULL: none

   Notes: a pattern that fits no parameter is an error of RengaGraphSetUp.
@*/
RengaErrorCode RengaGraphSetFrozen(RengaGraph graph, const char *patterns)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.frozen, patterns));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetTrained - name parameters that are trained, whatever else is said of them

   Not collective

   Input:
   + graph - the graph, before RengaGraphLoad: a file may hold constants that are to be trained
   - patterns - patterns of the shell, comma separated: "head.*"; NULL: none

   Notes: stands above RengaGraphSetFrozen, so that frozen "*" and trained "head.*" train the head
   alone. A pattern that fits no parameter is an error of RengaGraphSetUp.
@*/
RengaErrorCode RengaGraphSetTrained(RengaGraph graph, const char *patterns)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.trained, patterns));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetTrained - the patterns of -graph_trained and -graph_frozen

   Not collective

   Input:
   . graph - the graph

   Output:
   + trained - lent by the graph until it is set again; NULL: none
   - frozen - likewise
@*/
RengaErrorCode RengaGraphGetTrained(RengaGraph graph, const char **trained, const char **frozen)
{
  RengaCheckPointer(graph);
  RengaCheckPointer(trained);
  RengaCheckPointer(frozen);
  *trained = graph->options.trained;
  *frozen = graph->options.frozen;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetWholeBatch - read a network as a function of a whole batch, never cut

   Not collective

   Input:
   + graph - the graph, empty: before RengaGraphLoad of an ONNX file
   - samples - of each batch; 0: a batch is cut into micro-batches, whose losses add up

   Options:
   . -graph_whole_batch SAMPLES - likewise

   Notes: products of the samples with each other (contrastive losses) and functions of sums over
   the batch have no shares that micro-batches could add up. A network that is read in this way may
   have them; it runs on plans of one micro-batch and one replica per stage, and all batches have
   that many samples.
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

/*@
   RengaGraphGetWholeBatch - the samples of a batch that is never cut

   Not collective

   Input:
   . graph - the graph

   Output:
   . samples - 0: the batch is cut into micro-batches
@*/
RengaErrorCode RengaGraphGetWholeBatch(RengaGraph graph, int64_t *samples)
{
  RengaCheckPointer(graph);
  RengaCheckPointer(samples);
  *samples = graph->options.whole_batch;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetMixed - why a network is refused that mixes the samples of its batch

   Not collective

   Input:
   . graph - the graph, after RengaGraphLoad or RengaGraphSetUp has failed

   Output:
   . why - a sentence that names the node, lent by the graph; NULL: it was not refused for that

   Notes: such a network can be read into another graph after RengaGraphSetWholeBatch.
@*/
RengaErrorCode RengaGraphGetMixed(RengaGraph graph, const char **why)
{
  RengaCheckPointer(graph);
  RengaCheckPointer(why);
  *why = graph->mixed[0] ? graph->mixed : NULL;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetDimension - give sizes to the symbolic dimensions of a file that is read later

   Not collective

   Input:
   + graph - the graph, before RengaGraphLoad
   - dimensions - "sequence=128,width=64"; NULL: none
@*/
RengaErrorCode RengaGraphSetDimension(RengaGraph graph, const char *dimensions)
{
  RengaCheckPointer(graph);
  RengaCall(SetText(&graph->options.dimension, dimensions));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetBatchInputs - say which inputs of a file that is read later hold samples

   Not collective

   Input:
   + graph - the graph, empty: before RengaGraphLoad
   - inputs - "tokens,image:1": names, and the dimension that counts the samples where it is not
     the first; NULL: the first dimension of every input whose first dimension is like that of the
     first input

   Options:
   . -graph_batch_inputs NAME[:D],… - likewise

   Notes: needed where a file has a fixed batch, or symbolic sizes, and the default takes for the
   batch what is none. An input of which the samples are not the first dimension becomes one of
   which they are, as in data sets. A name that no input has is an error of RengaGraphLoad.
@*/
RengaErrorCode RengaGraphSetBatchInputs(RengaGraph graph, const char *inputs)
{
  RengaCheckPointer(graph);
  RengaCheck(graph->n_values == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetBatchInputs: call it before RengaGraphLoad");
  RengaCall(SetText(&graph->options.batch_inputs, inputs));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetBatchInputs - the inputs of a file that hold samples

   Not collective

   Input:
   . graph - the graph

   Output:
   . inputs - lent by the graph until it is set again; NULL: not said
@*/
RengaErrorCode RengaGraphGetBatchInputs(RengaGraph graph, const char **inputs)
{
  RengaCheckPointer(graph);
  RengaCheckPointer(inputs);
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

RengaErrorCode RengaGraphSetFileBatch_Private(RengaGraph graph, int64_t batch)
{
  graph->file_batch = batch;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetFileBatch - the batch size that an input file was exported with

   Not collective

   Input:
   . graph - the graph

   Output:
   . batch - a default for the user's; 0 where the file leaves it open
@*/
RengaErrorCode RengaGraphGetFileBatch(RengaGraph graph, int64_t *batch)
{
  RengaCheckPointer(graph);
  RengaCheckPointer(batch);
  *batch = graph->file_batch;
  return RENGA_SUCCESS;
}
