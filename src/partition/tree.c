/* Stages along the tree of names: the method of SageMaker's model parallel library (Karakus et al.,
   "Amazon SageMaker Model Parallelism", 2021). "encoder/layer.3/attention" is a path from the root.
   From the root down, the children of a subtree that has several stages are put together in as
   many segments, whose largest costs as little as can be, and segments get stages in proportion to
   what they cost, by D'Hondt's highest averages. A cost is a share of the memory and a share of the
   time. Here a stage must be an interval of the canonical order: a subtree whose nodes do not
   follow each other counts as several, and what gets no stage goes with its neighbour. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include <math.h>
#include <string.h>

#define DEFAULT_MEMORY_WEIGHT 0.2
#define ALIKE 1e-9 /* sums of like costs differ in their last places */

typedef struct {
  double memory_weight;
} Tree;

typedef struct {
  RengaGraph graph;
  int count;         /* nodes that are not prepared */
  int *node;         /* [count] */
  const char **path; /* [count] lent by the graph */
  double *cost;      /* [count + 1] before each place; all of it is 1 */
  int n_cuts, *cut;  /* places where stages 1, 2, … begin */
} TreeWalk;

static double Bytes(const RengaGraphValue *value)
{
  const RengaTensorSpec spec = RengaGraphStoredAt(value, 1);
  return (double)RengaTensorSpecBytes(&spec);
}

/* Parameters, where they are first used, and outputs, which backward keeps. */
static double CountMemory(RengaGraph graph, const RengaGraphNode *node, bool seen[])
{
  double bytes = 0;
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    if (v < 0 || seen[v]) continue;
    seen[v] = true;
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind == RENGA_VALUE_PARAMETER) bytes += Bytes(value);
  }
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0) bytes += Bytes(RengaGraphGetValue(graph, node->out[o]));
  return bytes;
}

/* Time and memory before each place, each a share of its whole, become one cost. */
static void MixCosts(TreeWalk *walk, double memory_weight, const double memory[])
{
  const double all = walk->cost[walk->count], bytes = memory[walk->count];
  for (int c = 1; c <= walk->count; c++)
    walk->cost[c] = (1 - memory_weight) * (all > 0 ? walk->cost[c] / all : 0) +
                    memory_weight * (bytes > 0 ? memory[c] / bytes : 0);
}

static RengaErrorCode WeighNodes(TreeWalk *walk, bool seen[], double memory[])
{
  RengaGraph graph = walk->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    double flops = 0;
    if (RengaGraphNodeIsPrepared_Private(graph, node)) continue;
    RengaCall(RengaGraphGetNodeFlops(graph, n, 1, &flops));
    const int c = walk->count++;
    walk->node[c] = n;
    walk->path[c] = node->name;
    walk->cost[c + 1] = walk->cost[c] + flops;
    memory[c + 1] = memory[c] + CountMemory(graph, node, seen);
  }
  return RENGA_SUCCESS;
}

static bool HasPath(const char *name)
{
  return strpbrk(name, "/.") != NULL;
}

/* A node without a path, between two of one child of the root, belongs to the first. */
static void AdoptStrays(TreeWalk *walk)
{
  for (int c = 1, next = 0; c < walk->count; c++) {
    const char *before = walk->path[c - 1];
    if (HasPath(walk->path[c]) || !HasPath(before)) continue;
    if (next < c) next = c;
    while (next < walk->count && !HasPath(walk->path[next])) next++;
    const size_t word = strcspn(before, "/.") + 1;
    if (next < walk->count && !strncmp(before, walk->path[next], word)) walk->path[c] = before;
  }
}

static void FreeWalk(TreeWalk *walk)
{
  RengaFree(&walk->node);
  RengaFree(&walk->path);
  RengaFree(&walk->cost);
  RengaFree(&walk->cut);
}

static RengaErrorCode BuildWalk(RengaGraph graph, double memory_weight, TreeWalk *walk)
{
  const int n_nodes = RengaGraphGetNodeCount(graph);
  bool *seen = NULL;
  double *memory = NULL;
  walk->graph = graph;
  RengaErrorCode code = RengaMalloc(n_nodes + 1, &walk->node);
  if (!code) code = RengaMalloc(n_nodes + 1, &walk->path);
  if (!code) code = RengaMalloc(n_nodes + 1, &walk->cost);
  if (!code) code = RengaMalloc(n_nodes + 1, &walk->cut);
  if (!code) code = RengaMalloc(n_nodes + 1, &memory);
  if (!code) code = RengaMalloc(RengaGraphGetValueCount(graph) + 1, &seen);
  if (!code) code = WeighNodes(walk, seen, memory);
  if (!code) MixCosts(walk, memory_weight, memory);
  if (!code) AdoptStrays(walk);
  RengaFree(&seen);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The word of a name at a depth of its path: 0 the first. NULL: the path is shorter. */
static const char *WordAt(const char *name, int depth, size_t *length)
{
  for (;; depth--) {
    name += strspn(name, "/.");
    if (!*name) return NULL;
    *length = strcspn(name, "/.");
    if (depth == 0) return name;
    name += *length;
  }
}

/* Whether the node at this place belongs to the same child, at this depth, as the one before it.
   The last word of a path is the node itself. */
static bool SameChild(const TreeWalk *walk, int place, int depth)
{
  size_t one = 0, other = 0;
  const char *a = WordAt(walk->path[place - 1], depth, &one);
  const char *b = WordAt(walk->path[place], depth, &other);
  return a && b && one == other && !memcmp(a, b, one) && a[one] && b[other];
}

/* begin[0 … count]: where the children of [first, last) begin. */
static int FindChildren(const TreeWalk *walk, int first, int last, int depth, int begin[])
{
  int count = 0;
  for (int place = first; place < last; place++)
    if (place == first || !SameChild(walk, place, depth)) begin[count++] = place;
  begin[count] = last;
  return count;
}

/* Segments of at most this cost, each as long as can be, but at least `least` of them if there are
   as many children; begin becomes that of the segments. */
static int FillSegments(const TreeWalk *walk, int count, const int child[], double most, int least,
                        int begin[])
{
  int segments = 0, at = 0;
  while (at < count) {
    begin[segments++] = child[at];
    const double before = walk->cost[child[at++]];
    while (at < count && count - at > least - segments &&
           walk->cost[child[at + 1]] - before <= most)
      at++;
  }
  begin[segments] = child[count];
  return segments;
}

/* As many segments as `most`, or as children, whose largest costs as little as can be. */
static int FindSegments(const TreeWalk *walk, int count, const int child[], int most, int begin[])
{
  double low = 0, high = walk->cost[child[count]] - walk->cost[child[0]];
  for (int c = 0; c < count; c++) low = fmax(low, walk->cost[child[c + 1]] - walk->cost[child[c]]);
  if (FillSegments(walk, count, child, low, 1, begin) > most)
    for (double middle = low + (high - low) / 2; middle > low && middle < high;
         middle = low + (high - low) / 2) {
      if (FillSegments(walk, count, child, middle, 1, begin) > most)
        low = middle;
      else
        high = middle;
    }
  else
    high = low;
  return FillSegments(walk, count, child, high * (1 + ALIKE), most < count ? most : count, begin);
}

/* D'Hondt: the next stage goes to the segment with the most cost per stage, of those alike to the
   one with the fewest; a segment has no more stages than nodes. */
static void Apportion(const TreeWalk *walk, int count, const int begin[], int stages, int seats[])
{
  for (int i = 0; i < count; i++) seats[i] = 0;
  for (; stages > 0; stages--) {
    int next = -1;
    double most = 0;
    for (int i = 0; i < count; i++) {
      const double average = (walk->cost[begin[i + 1]] - walk->cost[begin[i]]) / (seats[i] + 1);
      if (seats[i] == begin[i + 1] - begin[i]) continue;
      if (next >= 0 && average < most * (1 - ALIKE)) continue;
      if (next >= 0 && average <= most * (1 + ALIKE) && seats[i] >= seats[next]) continue;
      most = average;
      next = i;
    }
    seats[next]++;
  }
}

static RengaErrorCode SplitTree(TreeWalk *walk, int first, int last, int depth, int stages);

/* Segments with stages begin one each, but the first; those with several are split further. */
static RengaErrorCode SplitSegments(TreeWalk *walk, int count, const int begin[], const int seats[],
                                    int depth)
{
  bool later = false;
  for (int i = 0; i < count; i++) {
    if (!seats[i]) continue;
    if (later) walk->cut[walk->n_cuts++] = begin[i];
    later = true;
    RengaCall(SplitTree(walk, begin[i], begin[i + 1], depth, seats[i]));
  }
  return RENGA_SUCCESS;
}

/* Cuts [first, last), whose paths are alike up to a depth, into stages. */
static RengaErrorCode SplitTree(TreeWalk *walk, int first, int last, int depth, int stages)
{
  int *child = NULL, *begin = NULL, *seats = NULL, count = 0;
  if (stages == 1) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(last - first + 1, &child);
  if (!code) code = RengaMalloc(last - first + 1, &begin);
  if (!code) code = RengaMalloc(last - first + 1, &seats);
  if (!code) {
    while ((count = FindChildren(walk, first, last, depth, child)) == 1) depth++;
    count = FindSegments(walk, count, child, stages, begin);
    Apportion(walk, count, begin, stages, seats);
    code = SplitSegments(walk, count, begin, seats, depth);
  }
  RengaFree(&seats);
  RengaFree(&begin);
  RengaFree(&child);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CutTree(RengaPartition partition, TreeWalk *walk, int count,
                              RengaPlanStage stages[])
{
  const Tree *tree = partition->data;
  RengaCall(BuildWalk(partition->graph, tree->memory_weight, walk));
  RengaCheck(
      count <= walk->count, partition->hdr.comm, RENGA_ERR_PLAN,
      "%d stages, but the network has only %d nodes that depend on parameters: ask for fewer "
      "stages",
      count, walk->count);
  RengaCall(SplitTree(walk, 0, walk->count, 0, count));
  for (int s = 0; s < count; s++) {
    stages[s].first = s ? walk->node[walk->cut[s - 1]] : 0;
    if (s) stages[s - 1].last = stages[s].first;
  }
  stages[count - 1].last = RengaGraphGetNodeCount(partition->graph);
  return RENGA_SUCCESS;
}

static RengaErrorCode Solve_Tree(RengaPartition partition, int count, RengaPlanStage stages[])
{
  TreeWalk walk = {0};
  const RengaErrorCode code = CutTree(partition, &walk, count, stages);
  FreeWalk(&walk);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Count_Tree(RengaPartition partition, int *stages)
{
  (void)partition;
  *stages = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_Tree(RengaPartition partition)
{
  double weight = 0;
  bool given = false;
  RengaCall(RengaOptionsGetReal("partition_tree_memory_weight", &weight, &given));
  if (given) RengaCall(RengaPartitionTreeSetMemoryWeight(partition, weight));
  return RENGA_SUCCESS;
}

static void List_Tree(RengaPartition partition, RengaSettingList *list)
{
  const Tree *tree = partition->data;
  RengaSettingAdd_Private(list, "-partition_tree_memory_weight", &tree->memory_weight,
                          sizeof tree->memory_weight);
}

static RengaErrorCode View_Tree(RengaPartition partition, RengaViewer viewer)
{
  const Tree *tree = partition->data;
  RengaCall(RengaViewerPrintf(viewer, "  memory counts %g, time %g of a subtree's cost\n",
                              tree->memory_weight, 1 - tree->memory_weight));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTree(RengaPartition partition, Tree **tree, const char *function)
{
  RengaCheckPointerOf(function, partition);
  RengaCheck(!strcmp(partition->hdr.type_name, RENGA_PARTITION_TREE), partition->hdr.comm,
             RENGA_ERR_ORDER,
             "a memory weight is for a partition of type tree, but this one's type is %s",
             partition->hdr.type_name);
  *tree = partition->data;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionTreeSetMemoryWeight - how much memory counts beside time

   Collective

   Input:
   . partition - the partition, of type tree
   . weight - share of memory in the cost of a subtree, 0 … 1. 0.2 at first

   Options:
   . -partition_tree_memory_weight - the share

   Errors: RENGA_ERR_ORDER for another type; RENGA_ERR_ARGUMENT for a weight that is not in 0 to
   1.
@*/
RengaErrorCode RengaPartitionTreeSetMemoryWeight(RengaPartition partition, double weight)
{
  Tree *tree = NULL;
  RengaCall(FindTree(partition, &tree, __func__));
  RengaCheck(weight >= 0 && weight <= 1, partition->hdr.comm, RENGA_ERR_ARGUMENT,
             "a memory weight of %g: it must be within 0 and 1", weight);
  tree->memory_weight = weight;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionTreeGetMemoryWeight - how much memory counts beside time

   Input:
   . partition - the partition, of type tree

   Output:
   . weight - the share of memory in the cost of a subtree, from 0 to 1

   Errors: RENGA_ERR_ORDER for another type.
@*/
RengaErrorCode RengaPartitionTreeGetMemoryWeight(RengaPartition partition, double *weight)
{
  Tree *tree = NULL;
  RengaCheckPointer(weight);
  RengaCall(FindTree(partition, &tree, __func__));
  *weight = tree->memory_weight;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Tree(void *object)
{
  RengaPartition partition = object;
  Tree *tree = NULL;
  RengaCall(RengaMalloc(1, &tree));
  tree->memory_weight = DEFAULT_MEMORY_WEIGHT;
  partition->data = tree;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = SetFromOptions_Tree,
                                                  .count = Count_Tree,
                                                  .solve = Solve_Tree,
                                                  .list = List_Tree,
                                                  .view = View_Tree};
  return RENGA_SUCCESS;
}
