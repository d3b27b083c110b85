/* Costs of a search for plans with tensor- and context-parallel ranks, before there are stages. All
   stages are taken to have the costs of the rank of a group with the most work in lanes of the
   whole network: nodes of others' lanes cost nothing and make nothing that is kept, and of
   parameters in parts it holds its own. What ranks give each other is taken node by node, so that
   any interval has a sum: a value of a lane goes to the ranks that read it, once forward, to all
   others where a node in no lane does; so does the gradient of what a lane reads and no lane has
   made, back, or a piece of it to each rank, which gives back the sum of lanes of heads. What lanes
   of tokens put together goes once more, in backward. Exchanges have the terms of all lanes of a
   rank: the latency is counted with its first one. Of a bound on all such plans ranks give each
   other nothing, and hold the parts of the one that has least. */
#include "parts.h"
#include "renga/private/graph.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include <string.h>

/* Of tensor-parallel ranks of one context-parallel rank, and of the other ranks of the group. */
typedef struct {
  double near, across;
} TermReach;

typedef struct {
  SearchTask *task;
  SearchChain *chain;
  const int *parts; /* [values] RengaPlanFindParts_Private */
  RengaLaneGroup group;
  int own;           /* the rank of the group whose costs all stages have */
  int near, all;     /* levels between the tensor ranks of a context rank, and between all */
  double share;      /* of the runtime's bytes those of all-reduces */
  int *reader;       /* [values] the lane that reads it first, from 1 on; 0: none does */
  TermReach *others; /* [values] of those that lanes make: how many other ranks get it */
  bool *counted;     /* [values] its exchange of the first lane */
  double *rank;      /* [ranks of the group] work, or elements */
} LaneTerms;

static bool HasTermLane(const LaneTerms *terms, int lane, int rank)
{
  return RengaLaneCovers(RengaLaneGroupHas_Private(&terms->group, lane),
                         RengaLaneGroupRank_Private(&terms->group, rank));
}

static bool IsOfOtherRank(const LaneTerms *terms, const RengaGraphNode *node)
{
  return !HasTermLane(terms, node->lane, terms->own);
}

/* The rank computes the first of its lanes of each kind with it. */
static bool IsInFirstLane(const LaneTerms *terms, const RengaGraphNode *node)
{
  const int own = RengaLaneGroupHas_Private(&terms->group, node->lane);
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const RengaLaneKind kind = (RengaLaneKind)k;
    const int number = RengaLaneNumber(node->lane, kind);
    const int before = number > 0 ? RengaLaneMake(kind, number - 1) : 0;
    if (before && RengaLaneGroupHas_Private(&terms->group, before) == RengaLaneOfKind(own, kind))
      return false;
  }
  return true;
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
    for (int t = 0; t < terms->group.size && node->lane; t++)
      if (HasTermLane(terms, node->lane, t)) terms->rank[t] += cost->forward + cost->backward;
  }
  for (int t = 1; t < terms->group.size; t++)
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
  const RengaErrorCode code = RengaSearchPairLanes_Private(terms->chain, &terms->group, own);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FindWhoReads(const LaneTerms *terms)
{
  RengaGraph graph = terms->task->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE && !terms->reader[node->in[i]])
        terms->reader[node->in[i]] = node->lane;
  }
}

/* To whom the rank gives what it has made: each that has not gets it from the one beside it. */
static RengaErrorCode CountOthers(const LaneTerms *terms, RengaValue v, int lane, TermReach *others)
{
  RengaGraph graph = terms->task->graph;
  const RengaLaneGroup *group = &terms->group;
  const int made = RengaLaneGroupHas_Private(group, lane), tensor = group->ranks[0];
  const int *reader;
  int count;
  RengaCall(RengaGraphGetReaders_Private(graph, v, &count, &reader));
  for (int t = 0; t < group->size; t++) {
    bool reads = false;
    if (RengaLaneCovers(made, RengaLaneGroupRank_Private(group, t)) ||
        RengaLaneGroupAt_Private(group, made, t) != terms->own)
      continue;
    for (int r = 0; r < count && !reads; r++)
      reads = HasTermLane(terms, RengaGraphGetNode(graph, reader[r])->lane, t);
    if (reads) *(t / tensor == terms->own / tensor ? &others->near : &others->across) += 1;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindOthers(const LaneTerms *terms)
{
  RengaGraph graph = terms->task->graph;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int o = 0; o < node->n_out && node->lane && !IsOfOtherRank(terms, node); o++)
      if (node->out[o] != RENGA_VALUE_NONE)
        RengaCall(CountOthers(terms, node->out[o], node->lane, &terms->others[node->out[o]]));
  }
  return RENGA_SUCCESS;
}

/* Elements of the parts that the rank does not have, or (of a bound) the one with the fewest. */
static double ElementsElsewhere(const void *user, const RengaGraphNode *split)
{
  const LaneTerms *terms = user;
  const SearchTask *task = terms->task;
  double all = 0, own = 0;
  for (int t = 0; t < terms->group.size; t++) terms->rank[t] = 0;
  for (int o = 0; o < split->n_out; o++) {
    const double elements =
        (double)RengaTensorSpecCount(&RengaGraphGetValue(task->graph, split->out[o])->spec);
    for (int t = 0; t < terms->group.size; t++)
      if (HasTermLane(terms, terms->reader[split->out[o]], t)) terms->rank[t] += elements;
    all += elements;
  }
  own = terms->rank[terms->own];
  for (int t = 0; t < terms->group.size && task->bare; t++)
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
static double SecondsOfTerm(const LaneTerms *terms, TermReach bytes, bool first)
{
  RengaMachine machine = terms->task->machine;
  const int tensor = terms->group.ranks[RENGA_LANES_OF_HEADS];
  const double latency =
      RengaMachineMessageSeconds(machine, bytes.across > 0 ? terms->all : terms->near, 0);
  double seconds = first ? latency : 0;
  if (bytes.near > 0)
    seconds += RengaMachineExchangeSeconds_Private(machine, terms->near, tensor, 1,
                                                   terms->share * bytes.near);
  if (bytes.across > 0)
    seconds += RengaMachineExchangeSeconds_Private(
        machine, terms->all, terms->group.ranks[RENGA_LANES_OF_TOKENS], tensor, bytes.across);
  return seconds;
}

/* Of what the node makes, all that others need. across: what goes to other context ranks alone. */
static double SecondsForward(const LaneTerms *terms, const RengaGraphNode *node, int64_t microbatch,
                             bool across)
{
  double seconds = 0;
  bool first = IsInFirstLane(terms, node);
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    if (v == RENGA_VALUE_NONE) continue;
    const double bytes =
        RengaSearchBytesOf_Private(RengaGraphGetValue(terms->task->graph, v), microbatch);
    const TermReach gives = {.near = across ? 0 : terms->others[v].near * bytes,
                             .across = terms->others[v].across * bytes};
    if (gives.near + gives.across <= 0) continue;
    seconds += SecondsOfTerm(terms, gives, first);
    first = false;
  }
  return seconds;
}

/* The kinds of lanes that the reader is in and the maker is not, each of which makes a term. */
static int KindsOfTerms(const LaneTerms *terms, const RengaGraphNode *reader,
                        const RengaGraphValue *value)
{
  int maker = 0, kinds = RengaLaneGroupHas_Private(&terms->group, reader->lane);
  if (value->producer >= 0)
    maker = RengaLaneGroupHas_Private(&terms->group,
                                      RengaGraphGetNode(terms->task->graph, value->producer)->lane);
  for (int k = 0; k < RENGA_LANE_KINDS; k++)
    if (RengaLaneOfKind(maker, (RengaLaneKind)k))
      kinds &= ~RengaLaneOfKind(kinds, (RengaLaneKind)k);
  return kinds;
}

/* A lane's share of the gradient of a value has to be given to the others. */
static bool GoesBack(const LaneTerms *terms, const RengaGraphValue *value)
{
  const bool parameter = value->kind == RENGA_VALUE_PARAMETER;
  if (parameter ? value->frozen : !value->differentiable) return false;
  if (value->producer < 0) return parameter;
  const RengaGraphNode *maker = RengaGraphGetNode(terms->task->graph, value->producer);
  for (int i = 0; i < maker->n_in; i++)
    if (maker->in[i] != RENGA_VALUE_NONE && terms->parts[maker->in[i]]) return false; /* a part */
  return true;
}

/* Of a parameter, or a view of one: lanes of tokens add up all of it. */
static bool IsOfParameter(const LaneTerms *terms, const RengaGraphValue *value)
{
  RengaGraph graph = terms->task->graph;
  if (value->producer < 0) return value->kind == RENGA_VALUE_PARAMETER;
  const RengaGraphNode *maker = RengaGraphGetNode(graph, value->producer);
  return !strcmp(maker->op->name, "Identity") && maker->in[0] != RENGA_VALUE_NONE &&
         RengaGraphGetValue(graph, maker->in[0])->kind == RENGA_VALUE_PARAMETER;
}

/* A term of the gradient goes to all others, or a piece of it to each of them; of lanes of heads
   the rank's pieces of the sum go to all. */
static double SecondsOfGradient(const LaneTerms *terms, RengaValue v, int kinds, int64_t microbatch,
                                bool first)
{
  RengaGraph graph = terms->task->graph;
  const RengaGraphValue *value = RengaGraphGetValue(graph, v);
  const RengaGraphLaneGradient gradient = RengaGraphGetLaneGradient_Private(graph, v);
  const double elements =
      RengaSearchBytesOf_Private(value, microbatch) / (double)RengaDataTypeSize(value->stored);
  const bool heads = RengaLaneOfKind(kinds, RENGA_LANES_OF_HEADS),
             tokens = RengaLaneOfKind(kinds, RENGA_LANES_OF_TOKENS);
  const int tensor = heads ? terms->group.ranks[RENGA_LANES_OF_HEADS] : 1,
            context = tokens ? terms->group.ranks[RENGA_LANES_OF_TOKENS] : 1;
  const bool whole = IsOfParameter(terms, value);
  const double near = (tensor - 1) * elements * (double)gradient.term;
  double across = (context - 1) * elements * (double)gradient.term;
  across = whole ? tensor * across : across / context;
  if (!heads || !gradient.in_pieces) return SecondsOfTerm(terms, (TermReach){near, across}, first);
  const double sum = (tensor - 1) * elements * (double)gradient.sum / tensor;
  return SecondsOfTerm(terms, (TermReach){near / tensor, across}, first) +
         (first ? SecondsOfTerm(terms, (TermReach){.near = sum}, true) : 0);
}

/* weight: of them those of gradients of parameters. */
static double SecondsBackward(const LaneTerms *terms, const RengaGraphNode *node,
                              int64_t microbatch, double *weight)
{
  double seconds = SecondsForward(terms, node, microbatch, true); /* is put together again */
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    if (v == RENGA_VALUE_NONE) continue;
    const RengaGraphValue *value = RengaGraphGetValue(terms->task->graph, v);
    const int kinds = KindsOfTerms(terms, node, value);
    if (!kinds || !GoesBack(terms, value)) continue;
    const bool first = IsInFirstLane(terms, node) && !terms->counted[v];
    const double own = SecondsOfGradient(terms, v, kinds, microbatch, first);
    terms->counted[v] = terms->counted[v] || first;
    seconds += own;
    if (IsOfParameter(terms, value)) *weight += own;
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
  cost->forward += SecondsForward(terms, node, task->size[row], false);
  cost->backward += SecondsBackward(terms, node, task->size[row], &weight);
  if (row == 0 && cost->backward > 0) *share = (*share * before + weight) / cost->backward;
}

/* So many ranks that follow each other do not all lie within what the level joins. */
static bool LeavesLevel(const SearchTask *task, int size, const RengaMachineLevel *level)
{
  if (level->devices < size) return true;
  return level->devices < (int64_t)task->ranks * task->unit && level->devices % size;
}

static RengaErrorCode FindTermLevel(const SearchTask *task, int size, int *found)
{
  const RengaMachineLevel *levels;
  int count = 0, level = 0;
  RengaCall(RengaMachineGetLevels(task->machine, &count, &levels));
  while (level < count - 1 && LeavesLevel(task, size, &levels[level])) level++;
  *found = level;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTerms(LaneTerms *terms)
{
  const SearchTask *task = terms->task;
  if (!task->machine || task->bare) return RENGA_SUCCESS;
  RengaCall(RengaSearchAllReduceShare_Private(task, &terms->share));
  RengaCall(FindTermLevel(task, terms->group.ranks[RENGA_LANES_OF_HEADS], &terms->near));
  RengaCall(FindTermLevel(task, terms->group.size, &terms->all));
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
  RengaCall(RengaMalloc(terms->group.size, &terms->rank));
  if (!terms->chain->others) RengaCall(RengaMalloc(terms->chain->count + 1, &terms->chain->others));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchShareTerms_Private(SearchTask *task, SearchChain *chain,
                                             const int parts[])
{
  LaneTerms terms = {
      .task = task, .chain = chain, .parts = parts, .group = RengaSearchGroupOf_Private(task)};
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
