/* The canonical order: which nodes are needed, where new ones stand, and what number a value
   has. */
#include "graphimpl.h"
#include <stdlib.h>

RengaErrorCode RengaGraphCountReaders(RengaGraph graph)
{
  RengaFree(&graph->readers);
  RengaCall(RengaMalloc(graph->size_values + 1, &graph->readers));
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    for (int j = 0; j < node->n_in && !graph->entry[i]->dead; j++)
      if (node->in[j] >= 0) graph->readers[node->in[j]]++;
  }
  for (int i = 0; i < graph->n_outputs; i++) graph->readers[graph->output[i]]++;
  if (graph->loss >= 0) graph->readers[graph->loss]++;
  return RENGA_SUCCESS;
}

static bool IsNodeRead(RengaGraph graph, const RengaGraphNode *node)
{
  for (int i = 0; i < node->n_out; i++)
    if (graph->readers[node->out[i]] > 0) return true;
  return false;
}

/* A node dies, and with it all that only it has read. An output may have got another producer. */
void RengaGraphKillNode(RengaGraph graph, int at)
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  if (graph->entry[at]->dead) return;
  graph->entry[at]->dead = true;
  for (int i = 0; i < node->n_in; i++) {
    RengaValue value = node->in[i];
    if (value < 0 || --graph->readers[value] > 0) continue;
    int producer = graph->value[value]->producer;
    if (producer >= 0 && !IsNodeRead(graph, &graph->entry[producer]->node))
      RengaGraphKillNode(graph, producer);
  }
}

RengaErrorCode RengaGraphRemoveDead(RengaGraph graph)
{
  RengaCall(RengaGraphCountReaders(graph));
  for (int i = graph->n_nodes; i-- > 0;)
    if (!graph->entry[i]->dead && !IsNodeRead(graph, &graph->entry[i]->node))
      RengaGraphKillNode(graph, i);
  return RENGA_SUCCESS;
}

typedef struct {
  RengaGraphEntry *entry;
  int index;
} Placed;

static int CompareOrder(const void *a, const void *b)
{
  const Placed *x = a, *y = b;
  if (x->entry->place != y->entry->place) return x->entry->place < y->entry->place ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Every node stands behind those that make its inputs. */
static RengaErrorCode CheckOrder(RengaGraph graph)
{
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    for (int j = 0; j < node->n_in; j++)
      if (node->in[j] >= 0 && graph->value[node->in[j]]->producer >= i)
        RengaGraphRefuse(node, RENGA_ERR_INTERNAL, "it stands before the node that makes \"%s\"",
                         graph->value[node->in[j]]->name);
  }
  return RENGA_SUCCESS;
}

/* Removes dead nodes and sorts the others by place; places are even, so that there is room
   between. */
RengaErrorCode RengaGraphSortNodes(RengaGraph graph)
{
  Placed *placed;
  int count = 0;
  RengaGraphForget(graph);
  RengaCall(RengaGraphScratch(graph, graph->n_nodes, &placed));
  for (int i = 0; i < graph->n_nodes; i++)
    if (!graph->entry[i]->dead) placed[count++] = (Placed){graph->entry[i], i};
  qsort(placed, (size_t)count, sizeof *placed, CompareOrder);
  for (int i = 0; i < graph->n_values; i++) {
    graph->value[i]->producer = -1;
    graph->value[i]->output = 0;
  }
  for (int i = 0; i < graph->n_nodes; i++)
    if (graph->entry[i]->dead) RengaGraphFreeEntry(&graph->entry[i]);
  for (int i = 0; i < graph->n_nodes; i++) graph->entry[i] = i < count ? placed[i].entry : NULL;
  graph->n_nodes = count;
  for (int i = 0; i < count; i++) {
    graph->entry[i]->place = 2 * (int64_t)(i + 1);
    graph->entry[i]->node.id = i;
    for (int j = 0; j < graph->entry[i]->node.n_out; j++) {
      graph->value[graph->entry[i]->node.out[j]]->producer = i;
      graph->value[graph->entry[i]->node.out[j]]->output = j;
    }
  }
  RengaCall(CheckOrder(graph));
  return RENGA_SUCCESS;
}

static void Renumber(const int number[], int count, RengaValue values[])
{
  for (int i = 0; i < count; i++)
    if (values[i] >= 0) values[i] = number[values[i]];
}

/* Values that no node reads or makes go; the others keep their order. */
RengaErrorCode RengaGraphCompactValues(RengaGraph graph)
{
  int *number, kept = 0;
  RengaCall(RengaGraphCountReaders(graph));
  RengaCall(RengaGraphScratch(graph, graph->n_values, &number));
  for (int i = 0; i < graph->n_values; i++) /* a state is kept for its parts */
    if (graph->readers[i] > 0 && graph->value[i]->whole >= 0)
      graph->readers[graph->value[i]->whole]++;
  for (int i = 0; i < graph->n_values; i++) {
    bool keep = graph->readers[i] > 0 || graph->value[i]->producer >= 0;
    number[i] = keep ? kept : RENGA_VALUE_NONE;
    if (keep)
      graph->value[kept++] = graph->value[i];
    else
      RengaGraphFreeValue(&graph->value[i]);
  }
  graph->n_values = kept;
  for (int i = 0; i < kept; i++) Renumber(number, 1, &graph->value[i]->whole);
  for (int i = 0; i < graph->n_nodes; i++) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, i);
    Renumber(number, node->n_in, node->in);
    Renumber(number, node->n_out, node->out);
  }
  Renumber(number, graph->n_outputs, graph->output);
  Renumber(number, 1, &graph->loss);
  RengaFree(&graph->readers);
  RengaCall(RengaGraphRebuildNames(graph));
  return RENGA_SUCCESS;
}
