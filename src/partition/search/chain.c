/* The chain of a network: what the search knows of it before there is a micro-batch, and the model
   that follows for one. Which values backward reads is found by differentiating the network
   once. */
#include "kept.h"
#include "kinds.h"
#include "renga/private/graph.h"
#include "renga/private/schedule.h"
#include "renga/private/settings.h"
#include "rengagraph.h"
#include <math.h>
#include <string.h>

/* Models are asked for again and again under other bounds, replicas and schedules: a few are kept
   of a long chain, more of a short one. */
enum { STORED_FEW = 4, STORED_MOST = 64, STORED_PLACES = 200000 };
typedef struct {
  int64_t microbatch, microbatches;
  const RengaProfileCost *costs;
  SearchModel model; /* its arrays */
} Stored;
struct SearchStore {
  int count;
  Stored row[STORED_MOST];
};

static RengaErrorCode MarkSaved(RengaGraph all, const int place[], SearchChain *chain)
{
  for (int n = 0; n < RengaGraphGetNodeCount(all); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(all, n);
    for (int i = 0; node->phase != RENGA_PHASE_FORWARD && i < node->n_in; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphValue *in = RengaGraphGetValue(all, node->in[i]);
      if (in->producer < 0 || RengaGraphGetNode(all, in->producer)->phase != RENGA_PHASE_FORWARD)
        continue;
      const RengaValue whole = RengaGraphFindValue(chain->graph, in->name);
      if (whole < 0) continue;
      const RengaValue root = RengaSearchRootOf_Private(chain->graph, whole);
      chain->saved[root] = true;
      if (place[node->id] < chain->reader[root]) chain->reader[root] = place[node->id];
    }
  }
  return RENGA_SUCCESS;
}

/* Of each node; count: it is prepared. */
static RengaErrorCode FindChainPlaces(const SearchChain *chain, int **place)
{
  const int n_nodes = RengaGraphGetNodeCount(chain->graph);
  RengaCall(RengaMalloc(n_nodes + 1, place));
  for (int n = 0; n < n_nodes; n++) (*place)[n] = chain->count;
  for (int c = 0; c < chain->count; c++) (*place)[chain->node[c]] = c;
  return RENGA_SUCCESS;
}

/* What gradients of parameters take of the backward of each place, as their FLOPs are. */
static RengaErrorCode WeighParameters(RengaGraph all, const int place[], SearchChain *chain)
{
  double *whole;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(chain->count + 1, &whole));
  for (int n = 0; n < RengaGraphGetNodeCount(all) && !code; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(all, n);
    const int c = node->phase == RENGA_PHASE_FORWARD ? chain->count : place[node->id];
    double flops = 0;
    if (c == chain->count) continue;
    code = RengaGraphGetNodeFlops(all, n, 1, &flops);
    whole[c] += flops;
    if (node->phase == RENGA_PHASE_BACKWARD_WEIGHT) chain->weight[c] += flops;
  }
  for (int c = 0; c < chain->count; c++)
    if (whole[c] > 0) chain->weight[c] /= whole[c];
  RengaFree(&whole);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Without a loss there is no backward: nothing is kept. */
static RengaErrorCode FindSaved(RengaGraph all, SearchChain *chain)
{
  RengaGraph made = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaValue loss = RENGA_VALUE_NONE;
  int *place = NULL;
  for (int v = 0; v < RengaGraphGetValueCount(chain->graph); v++) chain->reader[v] = chain->count;
  RengaCall(RengaGraphGetLoss(chain->graph, &loss));
  if (loss == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  if (!all) {
    RengaCall(RengaGraphGetSubgraph(chain->graph, 0, RengaGraphGetNodeCount(chain->graph), &made));
    code = RengaGraphDifferentiate(made, 0, NULL, NULL, 0, NULL, NULL);
    all = made;
  }
  if (!code) code = FindChainPlaces(chain, &place);
  if (!code) code = MarkSaved(all, place, chain);
  if (!code) code = WeighParameters(all, place, chain);
  RengaFree(&place);
  if (made) RengaGraphDestroy(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddChainUse(SearchChain *chain, RengaValue v, int place)
{
  const RengaGraphValue *value = RengaGraphGetValue(chain->graph, v);
  const bool trained = value->kind == RENGA_VALUE_PARAMETER && !value->frozen;
  const int before = chain->last[v];
  const double elements =
      value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_STATE
          ? RengaSearchBytesOf_Private(value, 1) / (double)RengaDataTypeSize(value->stored)
          : 0;
  chain->last[v] = place;
  if (elements <= 0 || before == place) return RENGA_SUCCESS;
  if (!trained) {
    if (before < 0) chain->states[place + 1] += elements;
    return RENGA_SUCCESS;
  }
  chain->elements[place + 1] += elements;
  if (before < 0) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(chain->n_ties + 1, &chain->tie));
  chain->tie[chain->n_ties++] = (SearchTie){before, place, elements};
  return RENGA_SUCCESS;
}

static RengaErrorCode ListChainNodes(SearchChain *chain)
{
  RengaGraph graph = chain->graph;
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++) chain->last[v] = -1;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (RengaGraphNodeIsPrepared_Private(graph, node)) continue;
    const int place = chain->count++;
    chain->node[place] = n;
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0) RengaCall(AddChainUse(chain, node->in[i], place));
  }
  for (int c = 0; c < chain->count; c++) {
    chain->elements[c + 1] += chain->elements[c];
    chain->states[c + 1] += chain->states[c];
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchChainCreate_Private(RengaGraph graph, RengaGraph all, SearchChain *chain)
{
  const int n_nodes = RengaGraphGetNodeCount(graph), n_values = RengaGraphGetValueCount(graph);
  *chain = (SearchChain){.graph = graph};
  RengaCall(RengaMalloc(n_nodes + 1, &chain->node));
  RengaCall(RengaMalloc(n_nodes + 1, &chain->elements));
  RengaCall(RengaMalloc(n_nodes + 1, &chain->states));
  RengaCall(RengaMalloc(n_nodes + 1, &chain->weight));
  RengaCall(RengaMalloc(1, &chain->store));
  RengaCall(RengaSearchListedCreate_Private(&chain->listed));
  RengaCall(RengaSearchSumsCreate_Private(&chain->sums));
  RengaCall(RengaSearchBoundsCreate_Private(&chain->bounds));
  RengaCall(RengaSearchSchedulesCreate_Private(&chain->schedules));
  RengaCall(RengaSearchKeptCreate_Private(graph, &chain->kept));
  RengaCall(RengaMalloc(n_values + 1, &chain->saved));
  RengaCall(RengaMalloc(n_values + 1, &chain->last));
  RengaCall(RengaMalloc(n_values + 1, &chain->reader));
  RengaCall(ListChainNodes(chain));
  RengaCall(FindSaved(all, chain));
  return RENGA_SUCCESS;
}

void RengaSearchChainFree_Private(SearchChain *chain)
{
  for (int i = 0; chain->store && i < chain->store->count; i++) {
    chain->store->row[i].model.lent = false;
    RengaSearchModelFree_Private(&chain->store->row[i].model);
  }
  RengaFree(&chain->store);
  RengaSearchListedFree_Private(&chain->listed);
  RengaFree(&chain->sums);
  RengaSearchBoundsFree_Private(&chain->bounds);
  RengaSearchSchedulesFree_Private(&chain->schedules);
  RengaSearchKeptFree_Private(&chain->kept);
  RengaFree(&chain->node);
  RengaFree(&chain->elements);
  RengaFree(&chain->states);
  RengaFree(&chain->weight);
  RengaFree(&chain->saved);
  RengaFree(&chain->last);
  RengaFree(&chain->reader);
  RengaFree(&chain->others);
  RengaFree(&chain->twin);
  RengaFree(&chain->tie);
}

/* Of values that are made before a cut and used after it: added at the first such cut, taken away
   after the last. place is that of the producer. */
static void WeighValue(const SearchChain *chain, int v, int place, double bytes, SearchModel *model)
{
  const int last = chain->last[v];
  const bool others = chain->others && chain->others[place];
  if (last > place) {
    model->cut[place + 1] += bytes;
    model->cut[last + 1] -= bytes;
    if (!chain->saved[RengaSearchRootOf_Private(chain->graph, v)]) {
      model->unsaved[place + 1] += bytes;
      model->unsaved[last + 1] -= bytes;
    }
  }
  if (others) return;
  if (chain->saved[v]) model->saved[place + 1] += bytes;
  if (chain->reader[v] < chain->count) model->read[chain->reader[v] + 1] += bytes;
}

static bool IsRepeated(const RengaGraphNode *node, int input)
{
  for (int i = 0; i < input; i++)
    if (node->in[i] == node->in[input]) return true;
  return false;
}

static void WeighNode(const SearchChain *chain, int place, int64_t microbatch, SearchModel *model)
{
  const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[place]);
  const bool others = chain->others && chain->others[place];
  for (int o = 0; o < node->n_out; o++) {
    if (node->out[o] < 0) continue;
    const double bytes =
        RengaSearchBytesOf_Private(RengaGraphGetValue(chain->graph, node->out[o]), microbatch);
    WeighValue(chain, node->out[o], place, bytes, model);
    if (chain->last[node->out[o]] > place) model->sent[place + 1] += bytes;
    if (!others) model->temporary[place] += bytes;
  }
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    const RengaGraphValue *value = RengaGraphGetValue(chain->graph, node->in[i]);
    if (value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_STATE) continue;
    const double bytes = RengaSearchBytesOf_Private(value, microbatch);
    if (RengaSearchCrossesCuts_Private(value) && !others)
      model->temporary[place] += value->differentiable ? bytes : 0;
    if (!RengaSearchCrossesCuts_Private(value) && chain->last[node->in[i]] == place)
      model->inputs[place + 1] += bytes;
    if (IsRepeated(node, i)) continue;
    if (RengaSearchCrossesCuts_Private(value)) model->received[place] += bytes;
    if (value->kind == RENGA_VALUE_INPUT && chain->last[node->in[i]] == place)
      model->fields[place + 1] += bytes;
  }
}

/* Whether a gradient comes back to each node: its own backward works, or it hands one on to a node
   before it that has none of its own. */
static void MarkReturned(const SearchChain *chain, const RengaProfileCost costs[],
                         const int place[], bool returned[])
{
  for (int c = chain->count - 1; c >= 0; c--) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    returned[c] = returned[c] || costs[chain->node[c]].backward > 0;
    for (int i = 0; i < node->n_in && returned[c]; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphValue *value = RengaGraphGetValue(chain->graph, node->in[i]);
      if (RengaSearchCrossesCuts_Private(value) && value->differentiable)
        returned[place[value->producer]] = true;
    }
  }
}

/* Seconds of a place's backward that gradients further back wait for. */
static double BackSeconds(const SearchChain *chain, const RengaProfileCost costs[], bool input,
                          int place)
{
  const double backward = costs[chain->node[place]].backward;
  return input ? backward * (1 - chain->weight[place]) : backward;
}

/* What paths are made of. */
typedef struct {
  const SearchChain *chain;
  const RengaProfileCost *costs; /* by node */
  const int *place;              /* of each node */
  const bool *returned;          /* [places] */
  bool input;                    /* gradients of parameters are not on the paths */
} PathSearch;

/* Longest paths to each place, of forwards and of gradients: path[2 * c], path[2 * c + 1]. */
static void FindPaths(const PathSearch *search, double path[])
{
  const SearchChain *chain = search->chain;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphValue *value = RengaGraphGetValue(chain->graph, node->in[i]);
      if (!RengaSearchCrossesCuts_Private(value)) continue;
      const int from = search->place[value->producer];
      const double back = BackSeconds(chain, search->costs, search->input, from);
      path[2 * c] = fmax(path[2 * c], path[2 * from] + search->costs[value->producer].forward);
      if (search->returned[c] && value->differentiable)
        path[2 * c + 1] = fmax(path[2 * c + 1], path[2 * from + 1] + back);
    }
  }
}

static double PathCost(const PathSearch *search, int place)
{
  return search->costs[search->chain->node[place]].forward +
         BackSeconds(search->chain, search->costs, search->input, place);
}

/* Longest paths from each place, of forwards and back of gradients: path[c]. */
static void FindPathsBehind(const PathSearch *search, double path[])
{
  const SearchChain *chain = search->chain;
  for (int c = chain->count - 1; c >= 0; c--) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int i = 0; i < node->n_in && search->returned[c]; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphValue *value = RengaGraphGetValue(chain->graph, node->in[i]);
      if (!RengaSearchCrossesCuts_Private(value) || !value->differentiable) continue;
      double *before = &path[search->place[value->producer]];
      *before = fmax(*before, path[c] + PathCost(search, c));
    }
  }
}

/* path: [3 * count] of forwards and gradients before each place, then of both behind each. */
static void SetLeads(const PathSearch *search, const double path[], SearchModel *model)
{
  const int count = search->chain->count;
  const double *behind = path + (int64_t)2 * count;
  double *lead = search->input ? model->halves.lead : model->paths.lead;
  double *tail = search->input ? model->halves.tail : model->paths.tail;
  double *longest = search->input ? &model->halves.longest : &model->paths.longest;
  for (int c = 0; c < count; c++) {
    const double own = path[2 * c] + path[2 * c + 1];
    *longest = fmax(*longest, own + PathCost(search, c));
    lead[c] = c ? fmin(own, lead[c - 1] + PathCost(search, c - 1)) : own;
  }
  for (int end = count - 1; end > 0; end--)
    tail[end] = fmin(behind[end - 1], tail[end + 1] + PathCost(search, end));
}

/* Before a first forward alone. */
static void SetEarly(const PathSearch *search, const double path[], SearchModel *model)
{
  for (int c = 0; c < search->chain->count; c++) {
    const double before = c ? search->costs[search->chain->node[c - 1]].forward : 0;
    model->halves.early[c] = c ? fmin(path[2 * c], model->halves.early[c - 1] + before) : path[0];
  }
}

/* path: [6 * count], zero */
static void SetAllLeads(PathSearch *search, double path[], SearchModel *model)
{
  const int64_t count = search->chain->count;
  for (int input = 0; input < 2; input++, path += 3 * count) {
    search->input = input;
    FindPaths(search, path);
    FindPathsBehind(search, path + 2 * count);
    SetLeads(search, path, model);
  }
  SetEarly(search, path - 3 * count, model);
}

static RengaErrorCode FindChainLeads(const SearchChain *chain, const RengaProfileCost costs[],
                                     SearchModel *model)
{
  int *place = NULL;
  bool *returned = NULL;
  double *path = NULL;
  RengaErrorCode code = FindChainPlaces(chain, &place);
  if (!code) code = RengaMalloc(chain->count + 1, &returned);
  if (!code) code = RengaMalloc((int64_t)6 * chain->count + 1, &path);
  if (!code) {
    PathSearch search = {.chain = chain, .costs = costs, .place = place, .returned = returned};
    MarkReturned(chain, costs, place, returned);
    SetAllLeads(&search, path, model);
  }
  RengaFree(&path);
  RengaFree(&returned);
  RengaFree(&place);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void AddPrefixes(int count, double sums[])
{
  for (int c = 0; c < count; c++) sums[c + 1] += sums[c];
}

RengaErrorCode RengaSearchModelFill_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model)
{
  const int count = chain->count;
  SearchBytes bytes;
  RengaCall(RengaGraphGetPrecision(chain->graph, &model->listing.precision));
  RengaCall(
      RengaSearchFindBytes_Private(model->listing.precision, model->listing.precision, 0, &bytes));
  RengaCall(RengaSearchModelAllocate_Private(count, model));
  model->node = chain->node;
  for (int c = 0; c < count; c++) {
    model->forward[c + 1] = model->forward[c] + costs[chain->node[c]].forward;
    model->backward[c + 1] = model->backward[c] + costs[chain->node[c]].backward;
    model->weight[c + 1] = model->weight[c] + chain->weight[c] * costs[chain->node[c]].backward;
    WeighNode(chain, c, microbatch, model);
  }
  AddPrefixes(count, model->cut);
  AddPrefixes(count, model->unsaved);
  AddPrefixes(count, model->saved);
  AddPrefixes(count, model->inputs);
  AddPrefixes(count, model->read);
  for (int c = count - 2; c > 0; c--) model->sent[c] = fmin(model->sent[c], model->sent[c + 1]);
  AddPrefixes(count, model->fields);
  model->cut[count] = model->unsaved[count] = 0;
  memcpy(model->elements, chain->elements, (size_t)(count + 1) * sizeof(double));
  memcpy(model->states, chain->states, (size_t)(count + 1) * sizeof(double));
  for (int c = 0; c < count; c++) {
    const double gradient = bytes.gradient * (chain->elements[c + 1] - chain->elements[c]);
    model->temporary[c] += model->cut[c + 1] + (model->microbatches > 1 ? gradient : 0);
  }
  RengaSearchModelFinish_Private(model);
  RengaCall(FindChainLeads(chain, costs, model));
  RengaCall(RengaSearchFillRates_Private(chain, microbatch, costs, model));
  model->n_ties = chain->n_ties;
  model->tie = chain->tie;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchModelLend_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model)
{
  struct SearchStore *store = chain->store;
  for (int i = 0; i < store->count; i++) {
    const Stored *row = &store->row[i];
    if (row->microbatch != microbatch || row->microbatches != model->microbatches ||
        row->costs != costs)
      continue;
    *model = row->model;
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchModelFill_Private(chain, microbatch, costs, model));
  if (store->count == STORED_MOST ||
      (store->count >= STORED_FEW && store->count * chain->count > STORED_PLACES))
    return RENGA_SUCCESS;
  model->lent = true;
  store->row[store->count++] = (Stored){microbatch, model->microbatches, costs, *model};
  return RENGA_SUCCESS;
}

/* Of a stage with its share of the network. */
static double EstimateBuckets(const SearchModel *model)
{
  const double bytes = model->elements[model->count] * (double)RengaDataTypeSize(RENGA_FLOAT32);
  const double of_size = bytes / model->devices / RENGA_BUCKET_SIZE;
  return fmin(fmax(of_size, RENGA_BUCKETS_FOLDED), RENGA_BUCKETS_ENOUGH);
}

/* What the task wants of a model, whose places are there. */
static void SetSettings(const SearchTask *task, int size, bool spread, SearchModel *model)
{
  model->leaf = task->leaf[size];
  model->devices = task->ranks;
  model->memory = task->memory;
  model->microbatch = task->size[size];
  model->schedule = task->schedule;
  model->halves.open =
      (task->any_schedule && !task->whole) || RengaSearchIsHalved_Private(&task->schedule);
  RengaSearchSetPolicies_Private(!task->fixes_saved, model);
  model->policies.mixed = !task->fixes_saved || task->saved == RENGA_SAVED_RECOMPUTE;
  if (task->fixes_saved) model->policies.saved[0] = task->saved;
  model->unequal = !spread && !task->wanted.equal;
  model->listing.every = task->wanted.every;
  model->listing.several = task->wanted.several;
  model->listing.by_ranks = task->by_ranks;
  model->listing.unit = task->unit;
  model->listing.context = task->context;
  model->listing.shards = task->shards;
  model->listing.groups = task->run.settings ? task->run.settings->shard_groups : 1;
  if (task->unordered) model->listing.groups = 0;
  model->listing.buckets = EstimateBuckets(model);
  model->listing.n_short = task->run.n_short;
  model->listing.short_batch = task->run.short_batch;
  model->stages = task->wanted.stages;
  model->replicas = task->wanted.replicas;
  model->moments = task->moments;
  model->update_rate = task->update_rate;
  model->accumulate_rate = task->accumulate_rate;
}

/* What each kind of devices takes, where costs are of them. */
static RengaErrorCode AddKinds(const SearchTask *task, const SearchChain *chain, int size,
                               SearchModel *model)
{
  const SearchKinds *kinds = task->kinds;
  const int row = RengaSearchRowOfCosts_Private(kinds, task->costs[size]);
  if (row < 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &model->kinds));
  model->kinds->of = kinds;
  RengaCall(RengaMalloc(kinds->count, &model->kinds->model));
  model->kinds->order = task->order;
  for (int k = 0; k < kinds->count; k++) {
    SearchModel *own = &model->kinds->model[k];
    own->microbatches = model->microbatches;
    RengaCall(RengaSearchModelLend_Private(chain, task->size[size], kinds->costs[k][row], own));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchModelOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, bool spread, SearchModel *model)
{
  *model = (SearchModel){.microbatches = (task->batch + task->size[size] - 1) / task->size[size]};
  RengaErrorCode code =
      RengaSearchModelLend_Private(chain, task->size[size], task->costs[size], model);
  if (!code) {
    SetSettings(task, size, spread, model);
    model->listing.listed = chain->listed;
    model->listing.sums = chain->sums;
    code = RengaSearchModelCandidates_Private(task->machine, spread, model);
  }
  if (!code && task->kinds) code = AddKinds(task, chain, size, model);
  if (code) RengaSearchModelFree_Private(model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int RengaSearchRowOf_Private(const SearchTask *task, const SearchLayout *layout)
{
  for (int row = 0; row < task->n_sizes; row++)
    if (task->size[row] == layout->microbatch && task->leaf[row] == layout->leaf) return row;
  return 0;
}

RengaErrorCode RengaSearchModelFor_Private(const SearchTask *task, const SearchChain *chain,
                                           const SearchLayout *layout, SearchModel *model)
{
  RengaCall(RengaSearchModelOf_Private(task, chain, RengaSearchRowOf_Private(task, layout),
                                       layout->spread, model));
  return RENGA_SUCCESS;
}
