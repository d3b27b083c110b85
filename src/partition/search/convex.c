/* Stages of a plan are intervals of the canonical order. Are there convex stages, whatever the
   order, as many at most and with as many replicas, whose bottleneck is smaller? The exact cuts
   answer that. A stage takes, for a micro-batch, its work or, where that is longer, the messages
   that go over its link in one direction: activations that it sends and gradients that it returns,
   which are those of activations that it receives. One that recomputes counts without it. Of the
   memory, only parameters, gradients and moments are bounded, so that a no holds for all plans that
   fit. */
#include "search.h"
#include "renga/private/cuts.h"
#include <math.h>

/* Where the search is not exact, or its time is over: no seconds, so that it says the same on every
   run. */
enum { QUICK_PLACES = 20000, QUICK_IDEALS = 20000, QUICK_PAIRS = 1000000 };

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model;
  const SearchLayout *layout;
  RengaCutsProblem problem; /* points into what follows */
  RengaCutsItem *item;      /* [places] */
  int *edge, *first, *pin;  /* messages are values */
  double *cost;
  int *stage_of; /* [places] of the plan */
  RengaCutsStage *stage;
  double bottleneck; /* of the plan */
} Convex;

static SearchCandidate CandidateOfConvex(const Convex *convex)
{
  return RengaSearchCandidateOf_Private(convex->model, &convex->layout->stage[0].shape);
}

static bool CrossesStages(const RengaGraphValue *value)
{
  return value->kind == RENGA_VALUE_ACTIVATION && !value->prepared && value->producer >= 0;
}

/* Bytes that a stage holds for sure; of a tied parameter only its first use counts, gradients are
   of each use. */
static void FillItems(Convex *convex)
{
  const SearchModel *model = convex->model;
  const SearchTask *task = convex->task;
  const RengaProfileCost *costs = task->costs[RengaSearchRowOf_Private(task, convex->layout)];
  const SearchCandidate candidate = CandidateOfConvex(convex);
  const SearchBytes *bytes = &candidate.bytes;
  const double each = bytes->parameter + bytes->gradient * candidate.least_buffers;
  for (int c = 0; c < model->count; c++) {
    const RengaProfileCost *own = &costs[model->node[c]];
    const double elements = model->elements[c + 1] - model->elements[c];
    const double states = model->states[c + 1] - model->states[c];
    convex->item[c].work = own->forward + own->backward + model->accumulate_rate * elements;
    convex->item[c].memory = each * elements + bytes->state * states;
  }
  for (int t = 0; t < model->n_ties; t++)
    convex->item[model->tie[t].after].memory -= bytes->parameter * model->tie[t].elements;
}

static double CostOfConvex(const Convex *convex, const RengaGraphValue *value)
{
  const SearchCandidate candidate = CandidateOfConvex(convex);
  const int64_t microbatch = convex->layout->microbatch;
  const RengaTensorSpec spec = RengaGraphStoredAt(value, microbatch);
  return candidate.message_latency +
         candidate.message_rate * (candidate.bytes.message * (double)RengaTensorSpecBytes(&spec));
}

/* An edge for each use of what another node made; value: [inputs of all nodes] whose it is. */
static void ListUses(Convex *convex, const int place[], int value[])
{
  RengaGraph graph = convex->chain->graph;
  int *edges = &convex->problem.edges;
  for (int c = 0; c < convex->model->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, convex->model->node[c]);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphValue *used = RengaGraphGetValue(graph, node->in[i]);
      if (!CrossesStages(used)) continue;
      convex->edge[2 * *edges] = place[used->producer];
      convex->edge[2 * *edges + 1] = c;
      value[(*edges)++] = node->in[i];
    }
  }
}

/* A message for each value: its producer, then its users. */
static void FillMessages(Convex *convex, const int value[], int pins[])
{
  const RengaCutsProblem *problem = &convex->problem;
  for (int e = 0; e < problem->edges; e++) pins[value[e]] += pins[value[e]] ? 1 : 2;
  for (int v = 0; v < problem->messages; v++) {
    convex->first[v + 1] = convex->first[v] + pins[v];
    if (pins[v])
      convex->cost[v] = CostOfConvex(convex, RengaGraphGetValue(convex->chain->graph, v));
    pins[v] = 0;
  }
  for (int e = 0; e < problem->edges; e++) {
    const int v = value[e];
    if (pins[v] == 0) convex->pin[convex->first[v] + pins[v]++] = convex->edge[2 * e];
    convex->pin[convex->first[v] + pins[v]++] = convex->edge[2 * e + 1];
  }
}

static RengaErrorCode FillGraph(Convex *convex)
{
  RengaGraph graph = convex->chain->graph;
  const int count = convex->model->count, n_values = RengaGraphGetValueCount(graph);
  int *place = NULL, *value = NULL, inputs = 0;
  for (int c = 0; c < count; c++) inputs += RengaGraphGetNode(graph, convex->model->node[c])->n_in;
  convex->problem.messages = n_values;
  RengaCall(RengaMalloc(count + 1, &convex->item));
  RengaCall(RengaMalloc(2 * inputs + 1, &convex->edge));
  RengaCall(RengaMalloc(2 * inputs + 1, &convex->pin));
  RengaCall(RengaMalloc(n_values + 1, &convex->first));
  RengaCall(RengaMalloc(n_values + 1, &convex->cost));
  RengaErrorCode code = RengaMalloc(RengaGraphGetNodeCount(graph) + n_values + 1, &place);
  if (!code) code = RengaMalloc(inputs + 1, &value);
  if (!code) {
    for (int c = 0; c < count; c++) place[convex->model->node[c]] = c;
    FillItems(convex);
    ListUses(convex, place, value);
    FillMessages(convex, value, place + RengaGraphGetNodeCount(graph));
  }
  RengaFree(&value);
  RengaFree(&place);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FillProblem(Convex *convex)
{
  const SearchTask *task = convex->task;
  RengaCutsProblem *problem = &convex->problem;
  problem->items = convex->model->count;
  problem->item = convex->item;
  problem->edge = convex->edge;
  problem->message_cost = convex->cost;
  problem->message_first = convex->first;
  problem->message_pin = convex->pin;
  problem->overlapped = true;
  problem->devices = convex->layout->count;
  problem->capacity = task->memory > 0 ? task->memory : HUGE_VAL;
  const double left = task->until > 0 ? task->until - MPI_Wtime() : 0;
  const bool quick = !task->exact || left < 0;
  problem->time_limit = quick ? 0 : left;
  problem->ideal_limit = quick ? QUICK_IDEALS : 0;
  problem->pair_limit = quick ? QUICK_PAIRS : 0;
}

static RengaErrorCode WeighPlan(Convex *convex)
{
  const SearchLayout *layout = convex->layout;
  RengaCall(RengaMalloc(convex->model->count + 1, &convex->stage_of));
  RengaCall(RengaMalloc(layout->count, &convex->stage));
  for (int s = 0; s < layout->count; s++) {
    convex->stage[s].replicas = 1;
    for (int c = layout->stage[s].begin; c < layout->stage[s].end; c++) convex->stage_of[c] = s;
  }
  RengaCall(RengaCutsEvaluate(&convex->problem, convex->stage_of, layout->count, convex->stage));
  for (int s = 0; s < layout->count; s++)
    convex->bottleneck = fmax(convex->bottleneck, convex->stage[s].load);
  convex->problem.known_load = convex->bottleneck;
  return RENGA_SUCCESS;
}

static bool HasIntervals(const RengaCutsProblem *problem, const RengaCutsResult *result)
{
  for (int c = 1; c < problem->items && result->count > 0; c++)
    if (result->stage_of[c] < result->stage_of[c - 1]) return false;
  return true;
}

static RengaErrorCode CompareConvex(Convex *convex, SearchConvex *answer)
{
  RengaCutsResult result = {.count = 0};
  RengaCall(FillGraph(convex));
  FillProblem(convex);
  RengaCall(WeighPlan(convex));
  if (!(convex->bottleneck > 0)) return RENGA_SUCCESS;
  RengaCall(RengaCutsSolve(&convex->problem, &result));
  *answer = (SearchConvex){.own = convex->bottleneck,
                           .least = result.load,
                           .bound = result.bound,
                           .stages = result.count,
                           .compared = true,
                           .proved = result.proof == RENGA_CUTS_OPTIMAL,
                           .intervals = HasIntervals(&convex->problem, &result)};
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchConvex_Private(const SearchTask *task, const SearchChain *chain,
                                         const SearchModel *model, const SearchLayout *layout,
                                         SearchConvex *answer)
{
  Convex convex = {.task = task, .chain = chain, .model = model, .layout = layout};
  *answer = (SearchConvex){.compared = false};
  if (layout->count < 2 || !RengaSearchIsEqual_Private(layout)) return RENGA_SUCCESS;
  if (!task->exact && model->count > QUICK_PLACES) return RENGA_SUCCESS;
  const RengaErrorCode code = CompareConvex(&convex, answer);
  RengaFree(&convex.item);
  RengaFree(&convex.edge);
  RengaFree(&convex.first);
  RengaFree(&convex.pin);
  RengaFree(&convex.cost);
  RengaFree(&convex.stage_of);
  RengaFree(&convex.stage);
  RengaCall(code);
  return RENGA_SUCCESS;
}
