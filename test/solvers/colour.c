/* Items of coloured nodes. Forward nodes of a colour are one, its backward nodes go with them. The
   order is that of the forward part; colours with backward nodes only get their place from the
   mirrored backward edges; colours that depend on each other in a circle are one; a forward node
   without work and with one neighbour only joins that neighbour.
   (As in the authors' program of Tarnawski et al., NeurIPS 2020, so that objectives compare.) */
#include "exactimpl.h"
#include <string.h>

#define NO_WORK 1e-6

typedef struct {
  int nodes, edges;
  const RengaCutsNode *node;
  const int *edge;
  int colours;
  int *colour;    /* [nodes] 0 … colours - 1; changes as colours are merged */
  bool *forward;  /* [colours] has forward nodes */
  int links;      /* edges between colours of the forward part */
  int *link;      /* [links][2] */
  bool *mirrored; /* [links] made from a backward edge */
} Colouring;

static int RootOf(int into[], int colour)
{
  while (into[colour] != colour) colour = into[colour] = into[into[colour]];
  return colour;
}

static RengaErrorCode NumberColours(Colouring *colouring)
{
  int64_t slots = 4;
  int *slot = NULL;
  while (slots < 4 * (int64_t)colouring->nodes) slots *= 2;
  RengaCall(RengaMalloc(slots, &slot)); /* first node of a colour, plus 1 */
  for (int v = 0; v < colouring->nodes; v++) {
    int colour = colouring->node[v].colour;
    int64_t s = (int64_t)(RengaHash(&colour, sizeof colour, 0) & (uint64_t)(slots - 1));
    while (slot[s] && colouring->node[slot[s] - 1].colour != colour) s = (s + 1) & (slots - 1);
    if (!slot[s]) {
      slot[s] = v + 1;
      colouring->colour[v] = colouring->colours++;
    } else {
      colouring->colour[v] = colouring->colour[slot[s] - 1];
    }
  }
  RengaFree(&slot);
  return RENGA_SUCCESS;
}

/* Forward edges, and the mirror image of backward edges at colours with no forward nodes. */
static void LinkColours(Colouring *colouring)
{
  const RengaCutsNode *node = colouring->node;
  for (int v = 0; v < colouring->nodes; v++)
    if (!node[v].backward) colouring->forward[colouring->colour[v]] = true;
  for (int e = 0; e < colouring->edges; e++) {
    int from = colouring->edge[2 * e], to = colouring->edge[2 * e + 1];
    int source = colouring->colour[from], target = colouring->colour[to];
    bool mirrored = node[from].backward && node[to].backward &&
                    (!colouring->forward[source] || !colouring->forward[target]);
    if (source == target || (!mirrored && (node[from].backward || node[to].backward))) continue;
    colouring->link[2 * colouring->links] = mirrored ? target : source;
    colouring->link[2 * colouring->links + 1] = mirrored ? source : target;
    colouring->mirrored[colouring->links++] = mirrored;
  }
}

/* What a search for circles remembers (Tarjan's strongly connected components). */
typedef struct {
  int *first, *next, *target; /* links by source, as lists */
  int *index, *low, *stack, *path, *at;
  bool *stacked;
  int count, depth;
} Circles;

static void FindCircle(Circles *circles, int root, int into[])
{
  int length = 0;
  circles->path[length++] = root;
  while (length > 0) {
    int v = circles->path[length - 1];
    if (circles->index[v] == 0) {
      circles->index[v] = circles->low[v] = ++circles->count;
      circles->stack[circles->depth++] = v;
      circles->stacked[v] = true;
      circles->at[v] = circles->first[v];
    }
    int link = circles->at[v];
    if (link >= 0) {
      int w = circles->target[link];
      circles->at[v] = circles->next[link];
      if (circles->index[w] == 0)
        circles->path[length++] = w;
      else if (circles->stacked[w] && circles->index[w] < circles->low[v])
        circles->low[v] = circles->index[w];
      continue;
    }
    length--;
    if (length > 0 && circles->low[v] < circles->low[circles->path[length - 1]])
      circles->low[circles->path[length - 1]] = circles->low[v];
    for (int w = -1; circles->low[v] == circles->index[v] && w != v;) {
      w = circles->stack[--circles->depth];
      circles->stacked[w] = false;
      into[w] = v;
    }
  }
}

static RengaErrorCode AllocateCircles(const Colouring *colouring, Circles *circles)
{
  int colours = colouring->colours + 1;
  RengaCall(RengaMalloc(colours, &circles->first));
  RengaCall(RengaMalloc(colouring->links + 1, &circles->next));
  RengaCall(RengaMalloc(colouring->links + 1, &circles->target));
  RengaCall(RengaMalloc(colours, &circles->index));
  RengaCall(RengaMalloc(colours, &circles->low));
  RengaCall(RengaMalloc(colours, &circles->stack));
  RengaCall(RengaMalloc(colours, &circles->path));
  RengaCall(RengaMalloc(colours, &circles->at));
  RengaCall(RengaMalloc(colours, &circles->stacked));
  return RENGA_SUCCESS;
}

static void FreeCircles(Circles *circles)
{
  RengaFree(&circles->first);
  RengaFree(&circles->next);
  RengaFree(&circles->target);
  RengaFree(&circles->index);
  RengaFree(&circles->low);
  RengaFree(&circles->stack);
  RengaFree(&circles->path);
  RengaFree(&circles->at);
  RengaFree(&circles->stacked);
}

static RengaErrorCode MergeCircles(const Colouring *colouring, int into[])
{
  Circles circles = {0};
  RengaErrorCode code = AllocateCircles(colouring, &circles);
  if (code == RENGA_SUCCESS) {
    for (int c = 0; c < colouring->colours; c++) circles.first[c] = -1;
    for (int l = 0; l < colouring->links; l++) {
      int source = colouring->link[2 * l];
      circles.target[l] = colouring->link[2 * l + 1];
      circles.next[l] = circles.first[source];
      circles.first[source] = l;
    }
    for (int c = 0; c < colouring->colours; c++)
      if (circles.index[c] == 0) FindCircle(&circles, c, into);
  }
  FreeCircles(&circles);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What keeps a colour from joining its only neighbour: work, or links of its forward nodes to
   backward ones. */
static void WeighColours(const Colouring *colouring, int into[], double held[])
{
  const RengaCutsNode *node = colouring->node;
  for (int v = 0; v < colouring->nodes; v++)
    held[RootOf(into, colouring->colour[v])] += node[v].item.work + node[v].item.host_work;
  for (int e = 0; e < colouring->edges; e++) {
    int from = colouring->edge[2 * e], to = colouring->edge[2 * e + 1];
    if (node[from].backward == node[to].backward) continue;
    held[RootOf(into, colouring->colour[node[from].backward ? to : from])] = HUGE_VAL;
  }
}

/* Colours whose distinct links are one join the other end. Gives whether any did. */
static bool JoinNeighbours(const Colouring *colouring, int into[], const double held[],
                           int neighbour[])
{
  bool joined = false;
  enum { NONE = -1, SEVERAL = -2 };
  for (int c = 0; c < colouring->colours; c++) neighbour[c] = NONE;
  for (int l = 0; l < colouring->links; l++) {
    int end[2] = {RootOf(into, colouring->link[2 * l]), RootOf(into, colouring->link[2 * l + 1])};
    for (int s = 0; s < 2 && end[0] != end[1]; s++) {
      int *mine = &neighbour[end[s]];
      *mine = *mine == NONE || *mine == end[1 - s] ? end[1 - s] : SEVERAL;
    }
  }
  for (int c = 0; c < colouring->colours; c++) {
    if (held[c] >= NO_WORK || neighbour[c] < 0 || into[c] != c) continue;
    int other = RootOf(into, neighbour[c]);
    if (other == c) continue;
    into[c] = other;
    joined = true;
  }
  return joined;
}

static RengaErrorCode MergeColours(Colouring *colouring, int into[])
{
  int *neighbour = NULL;
  double *held = NULL;
  bool joined = true;
  for (int c = 0; c < colouring->colours; c++) into[c] = c;
  RengaCall(MergeCircles(colouring, into));
  RengaErrorCode code = RengaMalloc(colouring->colours + 1, &neighbour);
  if (!code) code = RengaMalloc(colouring->colours + 1, &held);
  while (joined && !code) {
    memset(held, 0, sizeof *held * (size_t)colouring->colours);
    WeighColours(colouring, into, held);
    joined = JoinNeighbours(colouring, into, held, neighbour);
  }
  RengaFree(&neighbour);
  RengaFree(&held);
  RengaCall(code);
  for (int v = 0; v < colouring->nodes; v++)
    colouring->colour[v] = RootOf(into, colouring->colour[v]);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeItems(const Colouring *colouring, RengaCutsColoured *coloured)
{
  int *number = NULL;
  RengaCall(RengaMalloc(colouring->colours + 1, &number));
  for (int v = 0; v < colouring->nodes; v++) {
    int *mine = &number[colouring->colour[v]];
    const RengaCutsItem *from = &colouring->node[v].item;
    if (*mine == 0) *mine = ++coloured->problem.items;
    coloured->item_of[v] = *mine - 1;
    RengaCutsItem *item = &coloured->item[*mine - 1];
    item->work += from->work;
    item->host_work += from->host_work;
    item->memory += from->memory;
    item->weight += from->weight;
    item->host_only = item->host_only || from->host_only;
  }
  RengaFree(&number);
  return RENGA_SUCCESS;
}

static void MakeEdges(const Colouring *colouring, int into[], RengaCutsColoured *coloured,
                      int item_of_colour[])
{
  int count = 0;
  for (int v = 0; v < colouring->nodes; v++)
    item_of_colour[colouring->colour[v]] = coloured->item_of[v];
  for (int l = 0; l < colouring->links; l++) {
    int from = item_of_colour[RootOf(into, colouring->link[2 * l])];
    int to = item_of_colour[RootOf(into, colouring->link[2 * l + 1])];
    if (from == to) continue;
    coloured->edge[2 * count] = from;
    coloured->edge[2 * count++ + 1] = to;
  }
  coloured->problem.edges = count;
}

/* A message per node with edges out of it: its pins are its item and those it goes to. */
static RengaErrorCode MakeMessages(const Colouring *colouring, RengaCutsColoured *coloured)
{
  int nodes = colouring->nodes, *next = NULL;
  RengaCall(RengaMalloc(nodes + 1, &next));
  for (int e = 0; e < colouring->edges; e++) coloured->message_first[colouring->edge[2 * e] + 1]++;
  for (int v = 0; v < nodes; v++) {
    coloured->message_first[v + 1] += coloured->message_first[v] + 1;
    coloured->message_cost[v] = colouring->node[v].message;
    coloured->message_pin[coloured->message_first[v]] = coloured->item_of[v];
    next[v] = coloured->message_first[v] + 1;
  }
  for (int e = 0; e < colouring->edges; e++)
    coloured->message_pin[next[colouring->edge[2 * e]]++] =
        coloured->item_of[colouring->edge[2 * e + 1]];
  RengaFree(&next);
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildConflicts(Colouring *colouring, RengaCutsColoured *coloured)
{
  int nodes = colouring->nodes, edges = colouring->edges, *into = NULL, *item = NULL;
  RengaCall(RengaMalloc(nodes + 1, &coloured->item_of));
  RengaCall(RengaMalloc(nodes + 1, &coloured->item));
  RengaCall(RengaMalloc(2 * edges + 1, &coloured->edge));
  RengaCall(RengaMalloc(nodes + 2, &coloured->message_first));
  RengaCall(RengaMalloc(nodes + edges + 1, &coloured->message_pin));
  RengaCall(RengaMalloc(nodes + 1, &coloured->message_cost));
  RengaCall(NumberColours(colouring));
  LinkColours(colouring);
  RengaErrorCode code = RengaMalloc(nodes + 1, &into);
  if (!code) code = RengaMalloc(nodes + 1, &item);
  if (!code) code = MergeColours(colouring, into);
  if (!code) code = MakeItems(colouring, coloured);
  if (!code) MakeEdges(colouring, into, coloured, item);
  if (!code) code = MakeMessages(colouring, coloured);
  RengaFree(&into);
  RengaFree(&item);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCutsCreateColoured(int nodes, const RengaCutsNode node[], int edges,
                                       const int edge[], RengaCutsColoured *coloured)
{
  Colouring colouring = {.nodes = nodes, .edges = edges, .node = node, .edge = edge};
  memset(coloured, 0, sizeof *coloured);
  for (int e = 0; e < 2 * edges; e++)
    RengaCheck(edge[e] >= 0 && edge[e] < nodes, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "edge %d names node %d of %d", e / 2, edge[e], nodes);
  RengaErrorCode code = RengaMalloc(nodes + 1, &colouring.colour);
  if (!code) code = RengaMalloc(nodes + 1, &colouring.forward);
  if (!code) code = RengaMalloc(2 * edges + 1, &colouring.link);
  if (!code) code = RengaMalloc(edges + 1, &colouring.mirrored);
  if (!code) code = BuildConflicts(&colouring, coloured);
  RengaFree(&colouring.colour);
  RengaFree(&colouring.forward);
  RengaFree(&colouring.link);
  RengaFree(&colouring.mirrored);
  if (code != RENGA_SUCCESS) RengaCutsFreeColoured(coloured);
  RengaCall(code);
  coloured->problem.messages = nodes;
  coloured->problem.item = coloured->item;
  coloured->problem.edge = coloured->edge;
  coloured->problem.message_first = coloured->message_first;
  coloured->problem.message_pin = coloured->message_pin;
  coloured->problem.message_cost = coloured->message_cost;
  coloured->problem.capacity = HUGE_VAL;
  return RENGA_SUCCESS;
}

void RengaCutsFreeColoured(RengaCutsColoured *coloured)
{
  RengaFree(&coloured->item_of);
  RengaFree(&coloured->item);
  RengaFree(&coloured->edge);
  RengaFree(&coloured->message_first);
  RengaFree(&coloured->message_pin);
  RengaFree(&coloured->message_cost);
}
