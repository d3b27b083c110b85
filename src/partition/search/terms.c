/* Costs of a search for plans with tensor ranks, before there are stages. All stages are taken to
   have the costs of the rank with the most work in lanes in the whole network: nodes of others'
   lanes cost nothing and make nothing that is kept, and of parameters in parts it holds its own.
   What ranks give each other is taken node by node, so that any interval has a sum: a value of a
   lane goes to the ranks that read it, once forward, to all others where a node in no lane does; so
   does the gradient of what a lane reads and no lane has made, back, or a piece of it to each rank,
   which gives back the sum. Exchanges have the terms of all lanes of a rank: the
   latency is counted with its first one. Of a bound on all such plans ranks give each other
   nothing, and hold the parts of the one that has least. */
#include "parts.h"
#include "renga/private/graph.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"

typedef struct {
  SearchTask *task;
  SearchChain *chain;
  const int *parts; /* [values] RengaPlanFindParts_Private */
  int lanes, own, level;
  double share;  /* of the runtime's bytes those of all-reduces */
  int *reader;   /* [values] the lane that reads it first, from 1 on; 0: none does */
  int *others;   /* [values] of those that lanes make: how many other ranks read it */
  bool *counted; /* [values] its exchange of the first lane */
  double *rank;  /* [tensor ranks] work, or elements */
} LaneTerms;

static int RankOfNode(const LaneTerms *terms, const RengaGraphNode *node)
{
  return RengaPlanRankOfLane_Private(terms->lanes, terms->task->tensor, node->lane - 1);
}

static bool IsOfOtherRank(const LaneTerms *terms, const RengaGraphNode *node)
{
  return node->lane && RankOfNode(terms, node) != terms->own;
}

/* The rank computes the first of its lanes with it. */
static bool IsInFirstLane(const LaneTerms *terms, const RengaGraphNode *node)
{
  return node->lane == 1 || RengaPlanRankOfLane_Private(terms->lanes, terms->task->tensor,
                                                        node->lane - 2) != terms->own;
}

/* Rows of the same size have the same costs. */
static bool IsFirstOfSize(const SearchTask *task, int row)
{
  for (int r = 0; r < row; r++)
    if (task->costs[r] == task->costs[row]) return false;
  return true;
}

static void FindBusiestRank(LaneTerms *terms)
{
  RengaGraph graph = terms->task->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    const RengaProfileCost *cost = &terms->task->costs[0][n];
    if (node->lane) terms->rank[RankOfNode(terms, node)] += cost->forward + cost->backward;
  }
  for (int t = 1; t < terms->task->tensor; t++)
    if (terms->rank[t] > terms->rank[terms->own]) terms->own = t;
}

static void LeaveOtherRanksOut(const LaneTerms *terms)
{
  const SearchTask *task = terms->task;
  for (int row = 0; row < task->n_sizes; row++)
    for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++)
      if (IsOfOtherRank(terms, RengaGraphGetNode(task->graph, n)))
        task->costs[row][n].forward = task->costs[row][n].backward = 0;
  for (int c = 0; c < terms->chain->count; c++)
    terms->chain->others[c] =
        IsOfOtherRank(terms, RengaGraphGetNode(task->graph, terms->chain->node[c]));
}

/* All stages have the costs of the same rank. */
static RengaErrorCode PairWithOwn(const LaneTerms *terms)
{
  int *own = NULL;
  RengaCall(RengaMalloc(terms->chain->count + 1, &own));
  for (int c = 0; c < terms->chain->count; c++) own[c] = terms->own;
  const RengaStageShape shape = {.tensor = terms->task->tensor, .sequence = 1};
  const RengaLaneGroup group = RengaPlanGetLaneGroup_Private(&shape, terms->chain->graph);
  const RengaErrorCode code = RengaSearchPairLanes_Private(terms->chain, &group, own);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FindWhoReads(const LaneTerms *terms)
{
  RengaGraph graph = terms->task->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == RENGA_VALUE_NONE) continue;
      if (!terms->reader[node->in[i]]) terms->reader[node->in[i]] = node->lane;
      if (!node->lane) terms->others[node->in[i]] = terms->task->tensor - 1;
    }
  }
}

/* Ranks besides the maker's that read the value in their lanes. */
static RengaErrorCode CountOthers(const LaneTerms *terms, RengaValue v, int maker, int *others)
{
  RengaGraph graph = terms->task->graph;
  const int *reader;
  int count;
  RengaCall(RengaGraphGetReaders_Private(graph, v, &count, &reader));
  *others = 0;
  for (int t = 0; t < terms->task->tensor; t++) terms->rank[t] = 0;
  for (int r = 0; r < count; r++) {
    const int rank = RankOfNode(terms, RengaGraphGetNode(graph, reader[r]));
    if (rank != maker && terms->rank[rank] == 0) ++*others;
    terms->rank[rank] = 1;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindOthers(const LaneTerms *terms)
{
  RengaGraph graph = terms->task->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int o = 0; o < node->n_out && node->lane && !IsOfOtherRank(terms, node); o++) {
      const RengaValue v = node->out[o];
      if (v != RENGA_VALUE_NONE && !terms->others[v])
        RengaCall(CountOthers(terms, v, terms->own, &terms->others[v]));
    }
  }
  return RENGA_SUCCESS;
}

/* Elements of the parts that the rank does not have, or (of a bound) the one with the fewest. */
static double ElementsElsewhere(const void *user, const RengaGraphNode *split)
{
  const LaneTerms *terms = user;
  const SearchTask *task = terms->task;
  double all = 0, own = 0;
  for (int t = 0; t < task->tensor; t++) terms->rank[t] = 0;
  for (int o = 0; o < split->n_out; o++) {
    const int lane = terms->reader[split->out[o]] - 1;
    const double elements =
        (double)RengaTensorSpecCount(&RengaGraphGetValue(task->graph, split->out[o])->spec);
    terms->rank[RengaPlanRankOfLane_Private(terms->lanes, task->tensor, lane)] += elements;
    all += elements;
  }
  own = terms->rank[terms->own];
  for (int t = 0; t < task->tensor && task->bare; t++)
    if (terms->rank[t] < own) own = terms->rank[t];
  return all - own;
}

/* A sum gives away its terms, of 4 bytes an element, and the sum as it is stored. An all-reduce has
   terms as they are stored: of what the runtime would give away the share that one does. */
RengaErrorCode RengaSearchAllReduceShare_Private(const SearchTask *task, double *share)
{
  const RengaMachineDevice *device;
  RengaPrecision precision;
  RengaStorage storage;
  *share = 1;
  if (!task->machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetDevice(task->machine, &device));
  RengaCall(RengaGraphGetPrecision(task->graph, &precision));
  RengaCall(RengaPrecisionGetStorage(precision, &storage));
  const double stored = (double)RengaDataTypeSize(storage.value);
  if (device->all_reduce > 0) *share = 2 * stored / (sizeof(float) + stored);
  return RENGA_SUCCESS;
}

/* bytes: to all of the other ranks that get some */
static double SecondsOfTerm(const LaneTerms *terms, double bytes, bool first)
{
  RengaMachine machine = terms->task->machine;
  const double latency = RengaMachineMessageSeconds(machine, terms->level, 0);
  return (first ? latency : 0) + RengaMachineExchangeSeconds_Private(machine, terms->level,
                                                                     terms->task->tensor, 1,
                                                                     terms->share * bytes);
}

/* Of what the node makes, all that others need. */
static double SecondsForward(const LaneTerms *terms, const RengaGraphNode *node, int64_t microbatch)
{
  double seconds = 0;
  bool first = IsInFirstLane(terms, node);
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    if (v == RENGA_VALUE_NONE || !terms->others[v]) continue;
    const double bytes =
        RengaSearchBytesOf_Private(RengaGraphGetValue(terms->task->graph, v), microbatch);
    seconds += SecondsOfTerm(terms, terms->others[v] * bytes, first);
    first = false;
  }
  return seconds;
}

/* A lane's share of the gradient of a value has to be given to the others. */
static bool GoesBack(const LaneTerms *terms, const RengaGraphValue *value)
{
  const bool parameter = value->kind == RENGA_VALUE_PARAMETER;
  if (parameter ? value->frozen : !value->differentiable) return false;
  if (value->producer < 0) return parameter;
  const RengaGraphNode *maker = RengaGraphGetNode(terms->task->graph, value->producer);
  if (maker->lane) return false;
  for (int i = 0; i < maker->n_in; i++)
    if (maker->in[i] != RENGA_VALUE_NONE && terms->parts[maker->in[i]]) return false; /* a part */
  return true;
}

/* A term of the gradient goes to all others, or a piece of it to each of them; the rank's pieces of
   the sum go to all. */
static double SecondsOfGradient(const LaneTerms *terms, RengaValue v, int64_t microbatch,
                                bool first)
{
  RengaGraph graph = terms->task->graph;
  const RengaGraphValue *value = RengaGraphGetValue(graph, v);
  const RengaGraphLaneGradient gradient = RengaGraphGetLaneGradient_Private(graph, v);
  const double elements =
      RengaSearchBytesOf_Private(value, microbatch) / (double)RengaDataTypeSize(value->stored);
  const int tensor = terms->task->tensor;
  const double term = (tensor - 1) * elements * (double)gradient.term;
  if (!gradient.in_pieces) return SecondsOfTerm(terms, term, first);
  const double sum = (tensor - 1) * elements * (double)gradient.sum / tensor;
  return SecondsOfTerm(terms, term / tensor, first) + (first ? SecondsOfTerm(terms, sum, true) : 0);
}

/* weight: of them those of gradients of parameters. */
static double SecondsBackward(const LaneTerms *terms, const RengaGraphNode *node,
                              int64_t microbatch, double *weight)
{
  double seconds = 0;
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    if (v == RENGA_VALUE_NONE) continue;
    const RengaGraphValue *value = RengaGraphGetValue(terms->task->graph, v);
    if (!GoesBack(terms, value)) continue;
    const bool first = IsInFirstLane(terms, node) && !terms->counted[v];
    const double own = SecondsOfGradient(terms, v, microbatch, first);
    terms->counted[v] = terms->counted[v] || first;
    seconds += own;
    if (value->kind == RENGA_VALUE_PARAMETER) *weight += own;
  }
  return seconds;
}

static void AddTermsOf(const LaneTerms *terms, int row, int place)
{
  SearchTask *task = terms->task;
  const int n = terms->chain->node[place];
  const RengaGraphNode *node = RengaGraphGetNode(task->graph, n);
  RengaProfileCost *cost = &task->costs[row][n];
  double weight = 0, *share = &terms->chain->weight[place];
  if (!node->lane || IsOfOtherRank(terms, node)) return;
  const double before = cost->backward;
  cost->forward += SecondsForward(terms, node, task->size[row]);
  cost->backward += SecondsBackward(terms, node, task->size[row], &weight);
  if (row == 0 && cost->backward > 0) *share = (*share * before + weight) / cost->backward;
}

/* Groups that follow each other do not all lie within what the level joins. */
static bool LeavesLevel(const SearchTask *task, const RengaMachineLevel *level)
{
  if (level->devices < task->tensor) return true;
  return level->devices < (int64_t)task->ranks * task->tensor && level->devices % task->tensor;
}

static RengaErrorCode AddTerms(LaneTerms *terms)
{
  const SearchTask *task = terms->task;
  const RengaMachineLevel *levels;
  int count = 0;
  if (!task->machine || task->bare) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetLevels(task->machine, &count, &levels));
  RengaCall(RengaSearchAllReduceShare_Private(task, &terms->share));
  while (terms->level < count - 1 && LeavesLevel(task, &levels[terms->level])) terms->level++;
  for (int row = 0; row < task->n_sizes; row++) {
    if (!IsFirstOfSize(task, row)) continue;
    for (int v = 0; v < RengaGraphGetValueCount(task->graph); v++) terms->counted[v] = false;
    for (int c = 0; c < terms->chain->count; c++) AddTermsOf(terms, row, c);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateTerms(LaneTerms *terms)
{
  const int n_values = RengaGraphGetValueCount(terms->task->graph);
  RengaCall(RengaMalloc(n_values + 1, &terms->reader));
  RengaCall(RengaMalloc(n_values + 1, &terms->others));
  RengaCall(RengaMalloc(n_values + 1, &terms->counted));
  RengaCall(RengaMalloc(terms->task->tensor, &terms->rank));
  if (!terms->chain->others) RengaCall(RengaMalloc(terms->chain->count + 1, &terms->chain->others));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchShareTerms_Private(SearchTask *task, SearchChain *chain,
                                             const int parts[])
{
  LaneTerms terms = {.task = task, .chain = chain, .parts = parts};
  int nodes;
  RengaCall(RengaGraphGetLanes(task->graph, &terms.lanes, &nodes));
  RengaErrorCode code = AllocateTerms(&terms);
  if (!code) {
    FindBusiestRank(&terms);
    LeaveOtherRanksOut(&terms);
    FindWhoReads(&terms);
    code = FindOthers(&terms);
  }
  if (!code) {
    RengaSearchLeavePartsOut_Private(chain, parts, ElementsElsewhere, &terms);
    code = PairWithOwn(&terms);
    if (!code) code = AddTerms(&terms);
  }
  RengaFree(&terms.reader);
  RengaFree(&terms.others);
  RengaFree(&terms.counted);
  RengaFree(&terms.rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}
