/* Errors of nodes, and of networks that mix the samples of a batch. */
#include "graphimpl.h"
#include "renga/private/number.h"
#include <stdarg.h>

RengaErrorCode RengaGraphError(const RengaGraphNode *node, RengaErrorCode code,
                               const char *function, const char *file, int line, const char *format,
                               ...)
{
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
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
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(why, sizeof why, "node \"%.80s\" (%s): %s", node->name, node->op->name, text);
  return RengaGraphRaiseMixed_Private(graph, RENGA_ERR_GRAPH, function, file, line, why);
}

/*@
   RengaGraphGetMixed - why a network is refused that mixes the samples of its batch

   Input:
   . graph - the graph, after RengaGraphLoad or RengaGraphSetUp has failed

   Output:
   . why - a sentence that names the node, lent by the graph; NULL: it was not refused for that

   Notes: such a network can be read into another graph after RengaGraphSetWholeBatch.

   See also: RengaGraphSetWholeBatch(), RengaGraphSetUp()
@*/
RengaErrorCode RengaGraphGetMixed(RengaGraph graph, const char **why)
{
  RengaCheckPointers(graph, why);
  *why = graph->mixed[0] ? graph->mixed : NULL;
  return RENGA_SUCCESS;
}
