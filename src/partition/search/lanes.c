/* Lanes (-graph_lanes) in what is predicted. The copies that would make parts of parameters are not
   run. Of a given plan with tensor ranks (-layout_tensor) each stage has the costs of its rank
   with the most work in lanes: that of its lanes, of all nodes in no lane, and what the ranks of
   its replicas give each other, of which the runtime says how much. Where another rank has more to
   do forward, or of either half of backward, its lanes take as much as that. Nothing else is done
   while ranks exchange, so that it is work. That of forward stands in equal shares in the costs of
   the nodes in no lane that read what lanes make, so that those which are run again have it again:
   exchanges that are made again are charged so, and nowhere else; that of backward in
   the costs of the first node of the stage. Of parameters in parts a rank holds, adds up and
   updates its own. */
#include "parts.h"
#include "renga/private/graph.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include "solution.h"
#include <math.h>

typedef enum { WORK_FORWARD, WORK_INPUT, WORK_WEIGHT, WORK_KINDS } WorkKind;

/* While the costs of a task are changed. */
typedef struct {
  SearchTask *task;
  SearchChain *chain;
  int stages;
  RengaLaneGroup group;
  int *parts;   /* [values] RengaPlanFindParts_Private */
  int *reader;  /* [values] the lane that reads it first, from 1 on; 0: none does */
  int *fullest; /* [stages] rank of the group with the most work in lanes */
  double *work; /* [stages][ranks of the group][WORK_KINDS] in lanes */
  double share; /* RengaSearchAllReduceShare_Private */
} LaneShares;

static RengaProfileCost *CostOf(const LaneShares *shares, int node)
{
  return &shares->task->costs[0][node];
}

/* Rank n of the group has the lane. */
static bool HasLane(const LaneShares *shares, int lane, int n)
{
  return RengaLaneCovers(RengaLaneGroupHas_Private(&shares->group, lane),
                         RengaLaneGroupRank_Private(&shares->group, n));
}

static int StageOf(const LaneShares *shares, int node)
{
  return RengaPlanStageOfNode(shares->task->given, node);
}

static double *RankWork(const LaneShares *shares, int s, int rank)
{
  return shares->work + ((int64_t)s * shares->group.size + rank) * WORK_KINDS;
}

/* Of all ranks in the lanes that they have. */
static void FindRankWork(const LaneShares *shares)
{
  const SearchChain *chain = shares->chain;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(shares->task->graph, chain->node[c]);
    const RengaProfileCost *cost = CostOf(shares, node->id);
    if (!node->lane) continue;
    for (int t = 0; t < shares->group.size; t++) {
      if (!HasLane(shares, node->lane, t)) continue;
      double *work = RankWork(shares, StageOf(shares, node->id), t);
      work[WORK_FORWARD] += cost->forward;
      work[WORK_INPUT] += (1 - chain->weight[c]) * cost->backward;
      work[WORK_WEIGHT] += chain->weight[c] * cost->backward;
    }
  }
}

static double AllWork(const double work[])
{
  return work[WORK_FORWARD] + work[WORK_INPUT] + work[WORK_WEIGHT];
}

static void FindFullestRank(const LaneShares *shares)
{
  for (int s = 0; s < shares->stages; s++)
    for (int t = 1; t < shares->group.size; t++)
      if (AllWork(RankWork(shares, s, t)) > AllWork(RankWork(shares, s, shares->fullest[s])))
        shares->fullest[s] = t;
}

static bool IsOfOthers(const LaneShares *shares, int n)
{
  const int lane = RengaGraphGetNode(shares->task->graph, n)->lane;
  const int s = RengaPlanStageOfNode(shares->task->given, n);
  return !HasLane(shares, lane, shares->fullest[s]);
}

static void LeaveOthersOut(const LaneShares *shares)
{
  for (int n = 0; n < RengaGraphGetNodeCount(shares->task->graph); n++)
    if (IsOfOthers(shares, n)) CostOf(shares, n)->forward = CostOf(shares, n)->backward = 0;
}

static double MostWork(const LaneShares *shares, int s, WorkKind kind)
{
  double most = 0;
  for (int t = 0; t < shares->group.size; t++) most = fmax(most, RankWork(shares, s, t)[kind]);
  return most;
}

/* Ranks wait for each other in each pass: one takes what the rank with most to do in it takes. */
static void WaitForMost(const LaneShares *shares)
{
  SearchChain *chain = shares->chain;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(shares->task->graph, chain->node[c]);
    const int s = StageOf(shares, node->id);
    if (!node->lane || IsOfOthers(shares, node->id)) continue;
    RengaProfileCost *cost = CostOf(shares, node->id);
    const double *work = RankWork(shares, s, shares->fullest[s]);
    double share[WORK_KINDS] = {0};
    for (WorkKind kind = 0; kind < WORK_KINDS; kind++)
      share[kind] = work[kind] > 0 ? MostWork(shares, s, kind) / work[kind] : 1;
    const double weight = share[WORK_WEIGHT] * chain->weight[c] * cost->backward;
    cost->forward *= share[WORK_FORWARD];
    cost->backward = share[WORK_INPUT] * (1 - chain->weight[c]) * cost->backward + weight;
    if (cost->backward > 0) chain->weight[c] = weight / cost->backward;
  }
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
static double ElementsOfOthers(const void *user, const RengaGraphNode *split)
{
  const LaneShares *shares = user;
  const int own = shares->fullest[RengaPlanStageOfNode(shares->task->given, split->id)];
  double elements = 0;
  for (int o = 0; o < split->n_out; o++)
    if (!HasLane(shares, shares->reader[split->out[o]], own))
      elements += (double)RengaTensorSpecCount(
          &RengaGraphGetValue(shares->task->graph, split->out[o])->spec);
  return elements;
}

/* The widest level between so many ranks of a replica of the stage that lie side by side. */
static RengaErrorCode LevelOfGroups(const LaneShares *shares, int s, int size, int *level)
{
  RengaPlan plan = shares->task->given;
  const int count = RengaSearchShapeDevices_Private(&RengaPlanGetStage(plan, s)->shape);
  int *rank = NULL;
  *level = 0;
  RengaCall(RengaMalloc(count, &rank));
  RengaSearchListRanks_Private(plan, s, rank);
  for (int first = 0; first < count; first += size) {
    const int own = RengaSearchLevelWithin_Private(shares->task->machine, size, rank + first);
    if (own > *level) *level = own;
  }
  RengaFree(&rank);
  return RENGA_SUCCESS;
}

/* Of all ranks of a group, and of the tensor ranks of one context rank. */
typedef struct {
  int all, tensor;
} GroupLevels;

static double SecondsOfTerms(const LaneShares *shares, GroupLevels level,
                             const RengaForecastTerms *terms)
{
  RengaMachine machine = shares->task->machine;
  const int tensor = shares->group.ranks[RENGA_LANES_OF_HEADS];
  const double near = shares->share * (double)(terms->bytes - terms->across);
  return (double)terms->count * RengaMachineMessageSeconds(machine, level.all, 0) +
         RengaMachineExchangeSeconds_Private(machine, level.tensor, tensor, 1, near) +
         RengaMachineExchangeSeconds_Private(machine, level.all,
                                             shares->group.ranks[RENGA_LANES_OF_TOKENS], tensor,
                                             (double)terms->across);
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
    if (!whole ||
        !RengaLaneGroupHas_Private(&shares->group, RengaGraphGetNode(shares->task->graph, n)->lane))
      seconds += CostOf(shares, n)->forward + CostOf(shares, n)->backward;
  }
  return seconds;
}

/* The stage whose ranks give each other most is the one that is spoken of. */
static void NoteExchanges(const LaneShares *shares, int s, double seconds,
                          const RengaForecastExchange *exchange)
{
  SearchLanes *lanes = &shares->task->lanes;
  const RengaForecastTerms *forward = &exchange->lanes.forward, *again = &exchange->lanes.again,
                           *backward = &exchange->lanes.backward, *weight = &exchange->lanes.weight;
  if (s > 0 && seconds <= lanes->seconds) return;
  *lanes = (SearchLanes){
      .ranks = shares->group.size,
      .stage = s,
      .seconds = seconds,
      .work = WorkOfStage(shares, s, false),
      .whole = WorkOfStage(shares, s, true),
      .count = forward->count + again->count + backward->count + weight->count,
      .again = again->count,
      .bytes = (double)(forward->bytes + again->bytes + backward->bytes + weight->bytes)};
}

/* Several ranks run it, and something comes to it that not all of these have. */
static bool JoinsLanes(const LaneShares *shares, int n)
{
  const RengaGraphNode *node = RengaGraphGetNode(shares->task->graph, n);
  const int own = RengaLaneGroupHas_Private(&shares->group, node->lane);
  if (RengaLaneGroupIsOne_Private(&shares->group, own)) return false;
  for (int i = 0; i < node->n_in; i++) {
    const int maker = node->in[i] == RENGA_VALUE_NONE
                          ? -1
                          : RengaGraphGetValue(shares->task->graph, node->in[i])->producer;
    if (maker >= 0 &&
        !RengaLaneCovers(RengaLaneGroupHas_Private(
                             &shares->group, RengaGraphGetNode(shares->task->graph, maker)->lane),
                         own))
      return true;
  }
  return false;
}

/* place: the first of the stage, whose places follow each other. */
static void AddForward(const LaneShares *shares, int s, int place, double seconds)
{
  const SearchChain *chain = shares->chain;
  int count = 0, end = place;
  for (; end < chain->count && StageOf(shares, chain->node[end]) == s; end++)
    count += JoinsLanes(shares, chain->node[end]);
  if (count == 0) CostOf(shares, chain->node[place])->forward += seconds;
  for (int c = place; c < end && count > 0; c++)
    if (JoinsLanes(shares, chain->node[c]))
      CostOf(shares, chain->node[c])->forward += seconds / count;
}

static RengaErrorCode AddExchangesOf(const LaneShares *shares, int s,
                                     const RengaForecastExchange *exchange)
{
  const int place = FirstPlaceOf(shares, s);
  GroupLevels level = {0};
  double forward = 0, again = 0, backward = 0, weight = 0;
  if (shares->task->machine) {
    RengaCall(LevelOfGroups(shares, s, shares->group.size, &level.all));
    RengaCall(LevelOfGroups(shares, s, shares->group.ranks[RENGA_LANES_OF_HEADS], &level.tensor));
    forward = SecondsOfTerms(shares, level, &exchange->lanes.forward);
    again = SecondsOfTerms(shares, level, &exchange->lanes.again);
    backward = SecondsOfTerms(shares, level, &exchange->lanes.backward);
    weight = SecondsOfTerms(shares, level, &exchange->lanes.weight);
  }
  NoteExchanges(shares, s, forward + again + backward + weight, exchange);
  if (place < 0) return RENGA_SUCCESS;
  RengaProfileCost *cost = CostOf(shares, shares->chain->node[place]);
  double *share = &shares->chain->weight[place];
  const double own = *share * cost->backward + weight;
  AddForward(shares, s, place, forward);
  cost->backward += backward + weight;
  if (cost->backward > 0) *share = own / cost->backward;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAllExchanges(LaneShares *shares)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  SearchTask *task = shares->task;
  RengaForecastMemory *memory = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaSearchAllReduceShare_Private(task, &shares->share));
  RengaCall(RengaMalloc(shares->stages, &memory));
  if (forecast && task->session)
    code =
        forecast->stages(task->graph, task->given, &task->run, &task->session->forecasts, memory);
  for (int s = 0; s < shares->stages && !code; s++)
    code = AddExchangesOf(shares, s, &memory[s].exchange);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What stages keep is chosen for the rank whose costs they have. */
static RengaErrorCode PairWithFullest(const LaneShares *shares)
{
  SearchChain *chain = shares->chain;
  int *own = NULL;
  RengaCall(RengaMalloc(chain->count + 1, &own));
  for (int c = 0; c < chain->count; c++) own[c] = shares->fullest[StageOf(shares, chain->node[c])];
  const RengaErrorCode code = RengaSearchPairLanes_Private(chain, &shares->group, own);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareAmongRanks(LaneShares *shares)
{
  RengaCall(RengaPlanCheckGroup_Private(shares->task->graph,
                                        shares->group.ranks[RENGA_LANES_OF_HEADS],
                                        shares->group.ranks[RENGA_LANES_OF_TOKENS]));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(shares->task->graph) + 1, &shares->reader));
  RengaCall(RengaMalloc(shares->stages, &shares->fullest));
  RengaCall(RengaMalloc(shares->chain->count + 1, &shares->chain->others));
  RengaCall(RengaMalloc((int64_t)shares->stages * shares->group.size * WORK_KINDS, &shares->work));
  FindRankWork(shares);
  FindFullestRank(shares);
  RengaCall(PairWithFullest(shares));
  LeaveOthersOut(shares);
  WaitForMost(shares);
  FindReaders(shares);
  RengaSearchLeavePartsOut_Private(shares->chain, shares->parts, ElementsOfOthers, shares);
  RengaCall(AddAllExchanges(shares));
  return RENGA_SUCCESS;
}

static double NoElements(const void *user, const RengaGraphNode *split)
{
  (void)user;
  (void)split;
  return 0;
}

/* One rank has all parts of parameters, which are in their place: they are no tensors of their
   own that a micro-batch keeps. */
static RengaErrorCode HaveAllParts(SearchChain *chain, const int parts[])
{
  bool any = false;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(chain->graph); v++) any = any || parts[v];
  if (!any) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(chain->count + 1, &chain->others));
  RengaSearchLeavePartsOut_Private(chain, parts, NoElements, NULL);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchShareLanes_Private(SearchTask *task, SearchChain *chain)
{
  LaneShares shares = {.task = task, .chain = chain};
  if (task->given) {
    shares.stages = RengaPlanGetStageCount(task->given);
    shares.group =
        RengaPlanGetLaneGroup_Private(&RengaPlanGetStage(task->given, 0)->shape, task->graph);
  }
  const int n_values = RengaGraphGetValueCount(task->graph) + 1;
  RengaCall(RengaMalloc(2 * n_values, &shares.parts));
  RengaErrorCode code = RengaPlanFindParts_Private(NULL, task->graph, shares.parts + n_values);
  if (!code) RengaSearchFindWork_Private(task, chain, shares.parts + n_values);
  if (!code) code = RengaPlanFindParts_Private(task->given, task->graph, shares.parts);
  if (!code) RengaSearchLeaveCopiesOut_Private(task, shares.parts);
  if (!code && shares.group.size > 1) code = ShareAmongRanks(&shares);
  if (!code && shares.group.size <= 1 && task->unit <= 1) code = HaveAllParts(chain, shares.parts);
  if (!code && task->unit > 1) code = RengaSearchShareTerms_Private(task, chain, shares.parts);
  RengaFree(&shares.parts);
  RengaFree(&shares.reader);
  RengaFree(&shares.fullest);
  RengaFree(&shares.work);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainLanes_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchLanes *lanes = &solution->task->lanes;
  const RengaLaneGroup group = RengaSearchGroupOf_Private(solution->task);
  char seconds[32], work[32], bytes[32], again[48] = "";
  RengaFormatSeconds(lanes->seconds, sizeof seconds, seconds);
  RengaFormatSeconds(lanes->work, sizeof work, work);
  RengaFormatBytes(lanes->bytes, sizeof bytes, bytes);
  if (lanes->again)
    snprintf(again, sizeof again, ", %lld of them recomputed", (long long)lanes->again);
  RengaCall(RengaSolutionSay_Private(
      answer,
      group.ranks[RENGA_LANES_OF_TOKENS] == 1  ? "tensor-parallel ranks"
      : group.ranks[RENGA_LANES_OF_HEADS] == 1 ? "context-parallel ranks"
                                               : "tensor-, context-parallel ranks",
      "%d of them compute each replica of a stage; in stage %d they take %s to give each other "
      "what lanes have made, in %lld exchange%s of a micro-batch with %s%s, and %s to compute, "
      "%.3g %% of it in no lane and so on each of them%s",
      lanes->ranks, lanes->stage, seconds, (long long)lanes->count, lanes->count == 1 ? "" : "s",
      bytes, again, work, lanes->work > 0 ? 100 * lanes->whole / lanes->work : 0,
      solution->task->searched ? ""
                               : "; their stages are not searched, and no other lower bound is "
                                 "known of them than that of the work"));
  return RENGA_SUCCESS;
}

/* Whole groups do. */
RengaErrorCode RengaSolutionExplainIdleGroups_Private(const SearchTask *task,
                                                      const SearchLayout *layout,
                                                      SearchAnswer *answer)
{
  const int idle = task->ranks - RengaSearchDevices_Private(layout) / task->unit;
  if (idle == 0) return RENGA_SUCCESS;
  RengaCall(RengaSolutionSay_Private(
      answer, "idle",
      "%d of %d devices stay idle, %d of %d groups of %d %s ranks: no plan that was "
      "found with all of them is faster",
      idle * task->unit, task->ranks * task->unit, idle, task->ranks, task->unit,
      RengaSearchKindOfRanks_Private(task)));
  return RENGA_SUCCESS;
}
