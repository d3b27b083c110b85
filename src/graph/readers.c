/* Which nodes read a value: worked out for all values at once, as stage after stage of a network
   asks, which would each look at all of it; where a network is set up, and of another graph when it
   is first asked for. So are rows of all nodes, which lie where they are made. */
#include "graphimpl.h"
#include "renga/private/graph.h"

void RengaGraphForget(RengaGraph graph)
{
  graph->known.digest = 0;
  RengaFree(&graph->known.reading_from);
  RengaFree(&graph->known.reading);
  RengaFree(&graph->known.rows);
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

static RengaGraphRow NodeRowOf(const RengaGraphNode *node, RengaValue **number)
{
  const RengaGraphRow row = {.op = node->op,
                             .in = *number,
                             .out = *number + node->n_in,
                             .n_in = node->n_in,
                             .n_out = node->n_out,
                             .lane = node->lane,
                             .phase = node->phase};
  for (int i = 0; i < node->n_in; i++) *(*number)++ = node->in[i];
  for (int o = 0; o < node->n_out; o++) *(*number)++ = node->out[o];
  return row;
}

static void FindForward(int nodes, RengaGraphRows *rows)
{
  for (int n = 0; n < nodes; n++)
    if (rows->node[n].phase == RENGA_PHASE_FORWARD) rows->forward = n + 1;
  for (int n = 0; n < rows->forward; n++) {
    const RengaGraphRow *row = &rows->node[n];
    for (int i = 0; i < row->n_in; i++)
      if (row->in[i] >= rows->read) rows->read = row->in[i] + 1;
    for (int o = 0; o < row->n_out; o++)
      if (row->out[o] >= rows->read) rows->read = row->out[o] + 1;
  }
}

static void FillSources(RengaGraph graph, RengaGraphRows *rows)
{
  for (RengaValue v = 0; v < graph->n_values; v++) {
    const RengaGraphValue *value = graph->value[v];
    rows->source[v] =
        (RengaGraphSource){value->producer, value->kind, value->prepared, value->differentiable};
    if (value->kind != RENGA_VALUE_ACTIVATION) rows->leaf[rows->n_leaves++] = v;
  }
}

static bool IsPreparedRow(const RengaGraphRows *rows, int n)
{
  const RengaGraphRow *row = &rows->node[n];
  for (int o = 0; o < row->n_out; o++)
    if (row->out[o] >= 0) return rows->source[row->out[o]].prepared;
  return false;
}

/* Many stages are cut out of a network, which would each look at all of it for this. */
static void FindLastReaders(int nodes, int values, RengaGraphRows *rows)
{
  for (int v = 0; v < values; v++) rows->last[v] = -1;
  for (int n = 0; n < nodes; n++)
    for (int i = 0; i < rows->node[n].n_in && !IsPreparedRow(rows, n); i++)
      if (rows->node[n].in[i] >= 0) rows->last[rows->node[n].in[i]] = n;
}

/* All in one block: nodes, values, leaves, last readers, then the numbers of what nodes read and
   make. */
RengaErrorCode RengaGraphGetRows_Private(RengaGraph graph, const RengaGraphRows **rows)
{
  const size_t nodes = (size_t)graph->n_nodes, values = (size_t)graph->n_values;
  size_t count = 0;
  char *memory;
  *rows = graph->known.rows;
  if (*rows) return RENGA_SUCCESS;
  for (size_t n = 0; n < nodes; n++)
    count += (size_t)(graph->entry[n]->node.n_in + graph->entry[n]->node.n_out);
  RengaCall(RengaMalloc(sizeof **rows + nodes * sizeof(RengaGraphRow) +
                            values * sizeof(RengaGraphSource) +
                            (2 * values + count) * sizeof(RengaValue),
                        &memory));
  RengaGraphRows *made = (void *)memory;
  made->node = (void *)(made + 1);
  made->source = (void *)(made->node + nodes);
  made->leaf = (void *)(made->source + values);
  made->last = made->leaf + values;
  RengaValue *number = made->last + values;
  for (size_t n = 0; n < nodes; n++) made->node[n] = NodeRowOf(&graph->entry[n]->node, &number);
  FillSources(graph, made);
  FindForward(graph->n_nodes, made);
  FindLastReaders(graph->n_nodes, graph->n_values, made);
  *rows = graph->known.rows = made;
  return RENGA_SUCCESS;
}

/* Once a network is set up. */
RengaErrorCode RengaGraphFindAllReaders(RengaGraph graph)
{
  const RengaGraphRows *rows;
  RengaCall(RengaGraphFindReaders(graph));
  RengaCall(RengaGraphGetRows_Private(graph, &rows));
  return RENGA_SUCCESS;
}
