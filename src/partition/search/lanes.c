/* Lanes (-graph_lanes) in what is predicted. The copies that would make parts of parameters are not
   run. Of a given plan with tensor ranks (-partition_tensor) each stage has the costs of its rank
   with the most work in lanes: that of its lanes, of all nodes in no lane, and what the ranks of
   its replicas give each other, of which the runtime says how much. Nothing else is done meanwhile,
   so that it is work. That of forward stands in equal shares in the costs of the nodes in no lane
   that read what lanes make, so that those which are run again have it again; that of backward in
   the costs of the first node of the stage. Of parameters in parts a rank holds, adds up and
   updates its own. */
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include "solution.h"

/* While the costs of a task are changed. */
typedef struct {
  SearchTask *task;
  SearchChain *chain;
  int lanes, tensor, stages;
  int *parts;   /* [values] RengaPlanFindParts_Private */
  int *reader;  /* [values] the lane that reads it first, from 1 on; 0: none does */
  int *fullest; /* [stages] tensor rank with the most work in lanes */
} LaneShares;

static RengaProfileCost *CostOf(const LaneShares *shares, int node)
{
  return &shares->task->costs[0][node];
}

static int RankOfLane(const LaneShares *shares, int lane)
{
  return RengaPlanTensorRankOfLane_Private(shares->lanes, shares->tensor, lane);
}

static void LeaveCopiesOut(const LaneShares *shares)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(shares->task->graph); v++)
    for (int row = 0; shares->parts[v] && row < shares->task->n_sizes; row++) {
      RengaProfileCost *cost = &shares->task->costs[row][shares->parts[v] - 1];
      cost->forward = cost->backward = 0;
    }
}

static RengaErrorCode FindFullestRank(LaneShares *shares)
{
  RengaGraph graph = shares->task->graph;
  double *work = NULL;
  RengaCall(RengaMalloc((int64_t)shares->stages * shares->tensor, &work));
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    const int s = RengaPlanStageOfNode(shares->task->given, n);
    if (node->lane)
      work[s * shares->tensor + RankOfLane(shares, node->lane - 1)] +=
          CostOf(shares, n)->forward + CostOf(shares, n)->backward;
  }
  for (int s = 0; s < shares->stages; s++) {
    const double *own = work + (int64_t)s * shares->tensor;
    for (int t = 1; t < shares->tensor; t++)
      if (own[t] > own[shares->fullest[s]]) shares->fullest[s] = t;
  }
  RengaFree(&work);
  return RENGA_SUCCESS;
}

static bool IsOfOthers(const LaneShares *shares, int n)
{
  const int lane = RengaGraphGetNode(shares->task->graph, n)->lane;
  const int s = RengaPlanStageOfNode(shares->task->given, n);
  return lane && RankOfLane(shares, lane - 1) != shares->fullest[s];
}

static void LeaveOthersOut(const LaneShares *shares)
{
  for (int n = 0; n < RengaGraphGetNodeCount(shares->task->graph); n++)
    if (IsOfOthers(shares, n)) CostOf(shares, n)->forward = CostOf(shares, n)->backward = 0;
}

static void FindReaders(const LaneShares *shares)
{
  for (int n = 0; n < RengaGraphGetNodeCount(shares->task->graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(shares->task->graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE && !shares->reader[node->in[i]])
        shares->reader[node->in[i]] = node->lane;
  }
}

/* Elements of the parts that others than the fullest rank have. */
static double ElementsOfOthers(const LaneShares *shares, const RengaGraphNode *split)
{
  const int own = shares->fullest[RengaPlanStageOfNode(shares->task->given, split->id)];
  double elements = 0;
  for (int o = 0; o < split->n_out; o++)
    if (RankOfLane(shares, shares->reader[split->out[o]] - 1) != own)
      elements += (double)RengaTensorSpecCount(
          &RengaGraphGetValue(shares->task->graph, split->out[o])->spec);
  return elements;
}

/* Elements of parameters stand at the place of the node that reads them, here the Split. */
static void LeavePartsOut(const LaneShares *shares)
{
  SearchChain *chain = shares->chain;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(chain->graph); v++) {
    if (!shares->parts[v] || chain->last[v] < 0) continue;
    double *sums = RengaGraphGetValue(chain->graph, v)->frozen ? chain->states : chain->elements;
    const double others =
        ElementsOfOthers(shares, RengaGraphGetNode(chain->graph, shares->parts[v] - 1));
    for (int c = chain->last[v] + 1; c <= chain->count; c++) sums[c] -= others;
  }
}

/* The widest level between the ranks of a replica of the stage. */
static RengaErrorCode LevelOfGroups(const LaneShares *shares, int s, int *level)
{
  RengaPlan plan = shares->task->given;
  const int count = RengaSearchShapeDevices_Private(&RengaPlanGetStage(plan, s)->shape);
  int *rank = NULL;
  *level = 0;
  RengaCall(RengaMalloc(count, &rank));
  RengaSearchListRanks_Private(plan, s, rank);
  for (int first = 0; first < count; first += shares->tensor) {
    const int own =
        RengaSearchLevelWithin_Private(shares->task->machine, shares->tensor, rank + first);
    if (own > *level) *level = own;
  }
  RengaFree(&rank);
  return RENGA_SUCCESS;
}

static double SecondsOfTerms(const LaneShares *shares, int level, const RengaForecastTerms *terms)
{
  RengaMachine machine = shares->task->machine;
  const double latency = RengaMachineMessageSeconds(machine, level, 0);
  const double bytes = RengaMachineMessageSeconds(machine, level, (double)terms->bytes) - latency;
  return (double)terms->count * latency + bytes;
}

/* The first place of a stage, -1: it has none. */
static int FirstPlaceOf(const LaneShares *shares, int s)
{
  const SearchChain *chain = shares->chain;
  for (int c = 0; c < chain->count; c++)
    if (RengaPlanStageOfNode(shares->task->given, chain->node[c]) == s) return c;
  return -1;
}

static double WorkOfStage(const LaneShares *shares, int s, bool whole)
{
  double seconds = 0;
  for (int c = 0; c < shares->chain->count; c++) {
    const int n = shares->chain->node[c];
    if (RengaPlanStageOfNode(shares->task->given, n) != s) continue;
    if (!whole || !RengaGraphGetNode(shares->task->graph, n)->lane)
      seconds += CostOf(shares, n)->forward + CostOf(shares, n)->backward;
  }
  return seconds;
}

/* The stage whose ranks give each other most is the one that is spoken of. */
static void NoteExchanges(const LaneShares *shares, int s, double seconds,
                          const RengaForecastExchange *exchange)
{
  SearchLanes *lanes = &shares->task->lanes;
  if (s > 0 && seconds <= lanes->seconds) return;
  *lanes = (SearchLanes){.ranks = shares->tensor,
                         .stage = s,
                         .seconds = seconds,
                         .work = WorkOfStage(shares, s, false),
                         .whole = WorkOfStage(shares, s, true),
                         .count = exchange->lanes.forward.count + exchange->lanes.backward.count +
                                  exchange->lanes.weight.count,
                         .bytes = (double)(exchange->lanes.forward.bytes +
                                           exchange->lanes.backward.bytes +
                                           exchange->lanes.weight.bytes)};
}

/* In no lane, and of the stage, from which something of a lane comes. */
static bool JoinsLanes(const LaneShares *shares, int s, int n)
{
  const RengaGraphNode *node = RengaGraphGetNode(shares->task->graph, n);
  if (node->lane || RengaPlanStageOfNode(shares->task->given, n) != s) return false;
  for (int i = 0; i < node->n_in; i++) {
    const int maker = node->in[i] == RENGA_VALUE_NONE
                          ? -1
                          : RengaGraphGetValue(shares->task->graph, node->in[i])->producer;
    if (maker >= 0 && RengaGraphGetNode(shares->task->graph, maker)->lane) return true;
  }
  return false;
}

/* first: the first node of the stage. */
static void AddForward(const LaneShares *shares, int s, int first, double seconds)
{
  const SearchChain *chain = shares->chain;
  int count = 0;
  for (int c = 0; c < chain->count; c++) count += JoinsLanes(shares, s, chain->node[c]);
  if (count == 0) CostOf(shares, first)->forward += seconds;
  for (int c = 0; c < chain->count && count > 0; c++)
    if (JoinsLanes(shares, s, chain->node[c]))
      CostOf(shares, chain->node[c])->forward += seconds / count;
}

static RengaErrorCode AddExchangesOf(const LaneShares *shares, int s,
                                     const RengaForecastExchange *exchange)
{
  const int place = FirstPlaceOf(shares, s);
  int level = 0;
  double forward = 0, backward = 0, weight = 0;
  if (shares->task->machine) {
    RengaCall(LevelOfGroups(shares, s, &level));
    forward = SecondsOfTerms(shares, level, &exchange->lanes.forward);
    backward = SecondsOfTerms(shares, level, &exchange->lanes.backward);
    weight = SecondsOfTerms(shares, level, &exchange->lanes.weight);
  }
  NoteExchanges(shares, s, forward + backward + weight, exchange);
  if (place < 0) return RENGA_SUCCESS;
  RengaProfileCost *cost = CostOf(shares, shares->chain->node[place]);
  double *share = &shares->chain->weight[place];
  const double own = *share * cost->backward + weight;
  AddForward(shares, s, shares->chain->node[place], forward);
  cost->backward += backward + weight;
  if (cost->backward > 0) *share = own / cost->backward;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAllExchanges(const LaneShares *shares)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  SearchTask *task = shares->task;
  RengaForecastMemory *memory = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(shares->stages, &memory));
  if (forecast && task->session)
    code = forecast->stages(task->graph, task->given, &task->run, task->session, memory);
  for (int s = 0; s < shares->stages && !code; s++)
    code = AddExchangesOf(shares, s, &memory[s].exchange);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareAmongRanks(LaneShares *shares)
{
  RengaCall(RengaMalloc(RengaGraphGetValueCount(shares->task->graph) + 1, &shares->reader));
  RengaCall(RengaMalloc(shares->stages, &shares->fullest));
  RengaCall(FindFullestRank(shares));
  LeaveOthersOut(shares);
  FindReaders(shares);
  LeavePartsOut(shares);
  RengaCall(AddAllExchanges(shares));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchShareLanes_Private(SearchTask *task, SearchChain *chain)
{
  LaneShares shares = {.task = task, .chain = chain};
  int nodes;
  RengaCall(RengaGraphGetLanes(task->graph, &shares.lanes, &nodes));
  if (task->given) {
    shares.stages = RengaPlanGetStageCount(task->given);
    shares.tensor = RengaPlanGetStage(task->given, 0)->shape.tensor;
  }
  RengaCall(RengaMalloc(RengaGraphGetValueCount(task->graph) + 1, &shares.parts));
  RengaErrorCode code = RengaPlanFindParts_Private(task->given, task->graph, shares.parts);
  if (!code) LeaveCopiesOut(&shares);
  if (!code && shares.tensor > 1) code = ShareAmongRanks(&shares);
  if (!code && task->tensor > 1) code = RengaSearchShareTerms_Private(task, chain, shares.parts);
  RengaFree(&shares.parts);
  RengaFree(&shares.reader);
  RengaFree(&shares.fullest);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainLanes_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchLanes *lanes = &solution->task->lanes;
  char seconds[32], work[32], bytes[32];
  RengaFormatSeconds(lanes->seconds, sizeof seconds, seconds);
  RengaFormatSeconds(lanes->work, sizeof work, work);
  RengaFormatBytes(lanes->bytes, sizeof bytes, bytes);
  RengaCall(RengaSolutionSay_Private(
      answer, "tensor ranks",
      "%d of them compute each replica of a stage; in stage %d they take %s to give each other "
      "what lanes have made, in %lld exchange%s of a micro-batch with %s, and %s to compute, "
      "%.3g %% of it in no lane and so on each of them%s",
      lanes->ranks, lanes->stage, seconds, (long long)lanes->count, lanes->count == 1 ? "" : "s",
      bytes, work,
      lanes->work > 0 ? 100 * lanes->whole / lanes->work : 0,
      solution->task->searched ? ""
                               : "; their stages are not searched, and no lower bound is known of "
                                 "them"));
  return RENGA_SUCCESS;
}
