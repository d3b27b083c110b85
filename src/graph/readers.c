/* Which nodes read a value: worked out for all values at once, as stage after stage of a network
   asks, which would each look at all of it; where a network is set up, and of another graph when it
   is first asked for. */
#include "graphimpl.h"
#include "renga/private/graph.h"

void RengaGraphForget(RengaGraph graph)
{
  graph->known.digest = 0;
  RengaFree(&graph->known.last_reader);
  RengaFree(&graph->known.reading_from);
  RengaFree(&graph->known.reading);
}

/* from: [values + 2] zeros; then reading[from[v] … from[v + 1]) are the nodes that read value v. */
static void FillReaders(RengaGraph graph, int from[], int reading[])
{
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0) from[node->in[i] + 2]++;
  }
  for (int v = 2; v < graph->n_values + 2; v++) from[v] += from[v - 1];
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0) reading[from[node->in[i] + 1]++] = n;
  }
}

RengaErrorCode RengaGraphFindReaders(RengaGraph graph)
{
  int *from = NULL, *reading = NULL;
  int64_t count = 0;
  if (graph->known.reading) return RENGA_SUCCESS;
  for (int n = 0; n < graph->n_nodes; n++) count += graph->entry[n]->node.n_in;
  RengaCall(RengaMalloc(graph->n_values + 2, &from));
  const RengaErrorCode code = RengaMalloc(count + 1, &reading);
  if (code) RengaFree(&from);
  RengaCall(code);
  FillReaders(graph, from, reading);
  graph->known.reading_from = from;
  graph->known.reading = reading;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetReaders_Private(RengaGraph graph, RengaValue value, int *count,
                                            const int **node)
{
  RengaCheck(value >= 0 && value < graph->n_values, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "value %d of a graph with %d", value, graph->n_values);
  RengaCall(RengaGraphFindReaders(graph));
  const int *from = &graph->known.reading_from[value];
  *count = from[1] - from[0];
  *node = graph->known.reading + from[0];
  return RENGA_SUCCESS;
}
