/* Contiguous stages whose largest has as few FLOPs as can be, up to a slack; among those, with the
   fewest bytes that stages receive. FLOPs are a guess of time, so that a last percent of balance is
   not worth cutting through a block, where several values cross. A value that a stage does not read
   passes it by: the parts of a divided network are cut where none waits for another.
   The least largest load is found exactly: bisection on the load with a greedy probe, where the
   bounds jump to loads of real intervals (Pinar and Aykanat, "Fast optimal load balancing
   algorithms for 1D partitioning", JPDC 64, 2004). The cuts are then a shortest path over the nodes
   in which every stage's load is within that bound; so are those of the stages before and behind
   it, which leaves few places to begin at. Prepared nodes are cloned where needed: they
   weigh nothing and a stage does not consist of them. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include <math.h>
#include <string.h>

#define DEFAULT_SLACK 0.02

typedef struct {
  double slack;
} Even;

/* A value that a node reads: a stage with the node receives it if it begins behind the place where
   the value was last made or read. */
typedef struct {
  int last;
  double bytes; /* per sample */
} EvenRead;

typedef struct {
  RengaGraph graph;
  int count;      /* nodes that are not prepared: the chain */
  int *node;      /* [count] */
  double *before; /* [count + 1] FLOPs of the chain before each place */
  int *first;     /* [count + 1] into read, for each place */
  EvenRead *read;
} EvenChain;

static void FreeChain(EvenChain *chain)
{
  RengaFree(&chain->node);
  RengaFree(&chain->before);
  RengaFree(&chain->first);
  RengaFree(&chain->read);
}

static bool IsSent(const RengaGraphValue *value)
{
  return value->kind == RENGA_VALUE_ACTIVATION && !value->prepared && value->producer >= 0;
}

/* place[n] is the place of node n in the chain. */
static RengaErrorCode ListReads(EvenChain *chain, const int place[])
{
  RengaGraph graph = chain->graph;
  int *last = NULL, count = 0;
  for (int c = 0; c < chain->count; c++) count += RengaGraphGetNode(graph, chain->node[c])->n_in;
  RengaCall(RengaMalloc(count + 1, &chain->read));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(graph) + 1, &last));
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    if (IsSent(RengaGraphGetValue(graph, v)))
      last[v] = place[RengaGraphGetValue(graph, v)->producer];
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, chain->node[c]);
    chain->first[c + 1] = chain->first[c];
    for (int i = 0; i < node->n_in; i++) {
      const RengaGraphValue *value =
          node->in[i] >= 0 ? RengaGraphGetValue(graph, node->in[i]) : NULL;
      if (!value || !IsSent(value) || last[node->in[i]] == c) continue;
      const RengaTensorSpec spec = RengaGraphStoredAt(value, 1);
      chain->read[chain->first[c + 1]++] =
          (EvenRead){last[node->in[i]], (double)RengaTensorSpecBytes(&spec)};
      last[node->in[i]] = c;
    }
  }
  RengaFree(&last);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillChain(RengaGraph graph, EvenChain *chain, int place[])
{
  const int n_nodes = RengaGraphGetNodeCount(graph);
  RengaCall(RengaMalloc(n_nodes + 1, &chain->node));
  RengaCall(RengaMalloc(n_nodes + 1, &chain->before));
  RengaCall(RengaMalloc(n_nodes + 1, &chain->first));
  for (int n = 0; n < n_nodes; n++) {
    double flops = 0;
    if (RengaGraphNodeIsPrepared_Private(graph, RengaGraphGetNode(graph, n))) continue;
    RengaCall(RengaGraphGetNodeFlops(graph, n, 1, &flops));
    place[n] = chain->count;
    chain->node[chain->count] = n;
    chain->before[chain->count + 1] = chain->before[chain->count] + flops;
    chain->count++;
  }
  RengaCall(ListReads(chain, place));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildChain(RengaGraph graph, EvenChain *chain)
{
  int *place = NULL;
  chain->graph = graph;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &place));
  const RengaErrorCode code = FillChain(graph, chain, place);
  RengaFree(&place);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The largest end with load(begin, end) <= bound; at least begin + 1. */
static int ReachUnder(const EvenChain *chain, int begin, double bound)
{
  int low = begin + 1, high = chain->count;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (chain->before[middle] - chain->before[begin] <= bound)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Fill stages greedily up to the bound. Where all fits, *next is the largest load; where it does
   not, the smallest load above the bound that was refused. */
static bool Probe(const EvenChain *chain, int stages, double bound, double *next)
{
  double largest = 0, refused = chain->before[chain->count];
  int begin = 0;
  for (int s = 0; s < stages && begin < chain->count; s++) {
    int end = ReachUnder(chain, begin, bound);
    double load = chain->before[end] - chain->before[begin];
    if (load > largest) largest = load;
    if (end < chain->count && chain->before[end + 1] - chain->before[begin] < refused)
      refused = chain->before[end + 1] - chain->before[begin];
    begin = end;
  }
  *next = begin == chain->count ? largest : refused;
  return begin == chain->count;
}

static double LeastLargestLoad(const EvenChain *chain, int stages)
{
  double low = chain->before[chain->count] / stages, high = chain->before[chain->count], next;
  for (int c = 0; c < chain->count; c++)
    if (chain->before[c + 1] - chain->before[c] > low)
      low = chain->before[c + 1] - chain->before[c];
  while (low < high) { /* the least is in [low, high] */
    if (Probe(chain, stages, low, &next)) return next;
    low = next;
    if (Probe(chain, stages, low + (high - low) / 2, &next))
      high = next;
    else
      low = next;
  }
  return high;
}

/* Shortest path, one stage further, with some behind it: longer[end] is the least of bytes[begin]
   and what the stage [begin, end) receives, over all begins whose stage is within the bound. */
static void ExtendPaths(const EvenChain *chain, double bound, int behind, const double bytes[],
                        double longer[], int from[])
{
  const double all = chain->before[chain->count];
  for (int end = 0; end <= chain->count; end++) longer[end] = HUGE_VAL;
  for (int begin = 0; begin < chain->count; begin++) {
    double received = bytes[begin];
    if (received == HUGE_VAL || all - chain->before[begin] > bound * (behind + 1) * (1 + 1e-9))
      continue;
    for (int c = begin; c < chain->count; c++) {
      if (chain->before[c + 1] - chain->before[begin] > bound) break;
      for (int r = chain->first[c]; r < chain->first[c + 1]; r++)
        if (chain->read[r].last < begin) received += chain->read[r].bytes;
      if (received >= longer[c + 1]) continue;
      longer[c + 1] = received;
      from[c + 1] = begin;
    }
  }
}

typedef struct {
  double *bytes[2]; /* [count + 1] received so far, for one stage less and for this one */
  int *from;        /* [stages][count + 1] where the last stage begins */
} EvenPaths;

static void FreePaths(EvenPaths *paths)
{
  RengaFree(&paths->bytes[0]);
  RengaFree(&paths->bytes[1]);
  RengaFree(&paths->from);
}

static RengaErrorCode AllocatePaths(const EvenChain *chain, int stages, EvenPaths *paths)
{
  int64_t places = chain->count + 1;
  RengaCall(RengaMalloc(places, &paths->bytes[0]));
  RengaCall(RengaMalloc(places, &paths->bytes[1]));
  RengaCall(RengaMalloc(places * stages, &paths->from));
  return RENGA_SUCCESS;
}

static void FindCuts(const EvenChain *chain, double slack, EvenPaths *paths, int count,
                     RengaPlanStage stages[])
{
  double bound = LeastLargestLoad(chain, count) * (1 + slack);
  int end = chain->count, places = chain->count + 1;
  for (int c = 1; c < places; c++) paths->bytes[0][c] = HUGE_VAL;
  for (int s = 0; s < count; s++)
    ExtendPaths(chain, bound, count - 1 - s, paths->bytes[s % 2], paths->bytes[(s + 1) % 2],
                paths->from + (int64_t)s * places);
  for (int s = count - 1; s >= 0; s--) {
    stages[s].last = end < chain->count ? chain->node[end] : RengaGraphGetNodeCount(chain->graph);
    end = paths->from[(int64_t)s * places + end];
    stages[s].first = s ? chain->node[end] : 0;
  }
}

static RengaErrorCode Count_Even(RengaPartition partition, int *stages)
{
  (void)partition;
  *stages = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode CutChain(RengaPartition partition, double slack, EvenChain *chain,
                               EvenPaths *paths, int count, RengaPlanStage stages[])
{
  RengaCall(BuildChain(partition->graph, chain));
  RengaCheck(
      count <= chain->count, partition->hdr.comm, RENGA_ERR_PLAN,
      "%d stages, but the network has only %d nodes that depend on parameters: ask for fewer "
      "stages",
      count, chain->count);
  RengaCall(AllocatePaths(chain, count, paths));
  FindCuts(chain, slack, paths, count, stages);
  return RENGA_SUCCESS;
}

static RengaErrorCode CutUnderSlack(RengaPartition partition, double slack, int count,
                                    RengaPlanStage stages[])
{
  EvenChain chain = {0};
  EvenPaths paths = {0};
  RengaErrorCode code = CutChain(partition, slack, &chain, &paths, count, stages);
  FreePaths(&paths);
  FreeChain(&chain);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCutEvenly_Private(RengaPartition partition, int count,
                                               RengaPlanStage stages[])
{
  RengaCall(CutUnderSlack(partition, DEFAULT_SLACK, count, stages));
  return RENGA_SUCCESS;
}

static RengaErrorCode Solve_Even(RengaPartition partition, int count, RengaPlanStage stages[])
{
  const Even *even = partition->data;
  RengaCall(CutUnderSlack(partition, even->slack, count, stages));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_Even(RengaPartition partition)
{
  double slack = 0;
  bool given = false;
  RengaCall(RengaOptionsGetReal("partition_even_slack", &slack, &given));
  if (given) RengaCall(RengaPartitionEvenSetSlack(partition, slack));
  return RENGA_SUCCESS;
}

static void List_Even(RengaPartition partition, RengaSettingList *list)
{
  const Even *even = partition->data;
  RengaSettingAdd_Private(list, "-partition_even_slack", &even->slack, sizeof even->slack);
}

static RengaErrorCode View_Even(RengaPartition partition, RengaViewer viewer)
{
  const Even *even = partition->data;
  RengaCall(RengaViewerPrintf(viewer, "  slack %g of the least largest load\n", even->slack));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindEven(RengaPartition partition, Even **even, const char *function)
{
  RengaCheckPointerOf(function, partition);
  RengaCheck(!strcmp(partition->hdr.type_name, RENGA_PARTITION_EVEN), partition->hdr.comm,
             RENGA_ERR_ORDER, "slack is for a partition of type even, but this one's type is %s",
             partition->hdr.type_name);
  *even = partition->data;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionEvenSetSlack - how even stages must be

   Collective

   Input:
   . partition - the partition, of type even
   . slack - share by which a stage may be over the least largest load, if stages then receive fewer
     bytes; 0: as even as can be. 0.02 at first

   Options:
   . -partition_even_slack - the share

   Errors: RENGA_ERR_ORDER for another type; RENGA_ERR_ARGUMENT for a negative slack.
@*/
RengaErrorCode RengaPartitionEvenSetSlack(RengaPartition partition, double slack)
{
  Even *even = NULL;
  RengaCall(FindEven(partition, &even, __func__));
  RengaCheck(slack >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "a slack of %g", slack);
  even->slack = slack;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionEvenGetSlack - how even stages must be

   Input:
   . partition - the partition, of type even

   Output:
   . slack - the share, at least 0, by which a stage may be over the least largest load

   Errors: RENGA_ERR_ORDER for another type.
@*/
RengaErrorCode RengaPartitionEvenGetSlack(RengaPartition partition, double *slack)
{
  Even *even = NULL;
  RengaCheckPointer(slack);
  RengaCall(FindEven(partition, &even, __func__));
  *slack = even->slack;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Even(void *object)
{
  RengaPartition partition = object;
  Even *even = NULL;
  RengaCall(RengaMalloc(1, &even));
  even->slack = DEFAULT_SLACK;
  partition->data = even;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = SetFromOptions_Even,
                                                  .count = Count_Even,
                                                  .solve = Solve_Even,
                                                  .list = List_Even,
                                                  .view = View_Even};
  return RENGA_SUCCESS;
}
