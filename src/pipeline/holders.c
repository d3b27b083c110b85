/* Which stages hold this stage's parameters, how often each uses them, and who writes them. It
   follows from network and plan: no rank is asked. */
#include "pipelineimpl.h"

static int64_t *Holds(RengaPipeline pipeline, int parameter, int stage)
{
  return &pipeline->holds[(int64_t)parameter * pipeline->stages + stage];
}

static bool IsHeldFirstHere(RengaPipeline pipeline, int parameter)
{
  for (int s = 0; s < pipeline->stage; s++)
    if (*Holds(pipeline, parameter, s) > 0) return false;
  return true;
}

static bool HasUses(RengaPipeline pipeline, int parameter)
{
  for (int s = 0; s < pipeline->stages; s++)
    if (*Holds(pipeline, parameter, s) > 1) return true;
  return false;
}

/* Replicas as a heap, the one with the least to do first, of equal ones the first. */
static void SiftDown(int count, int heap[], const int64_t load[])
{
  for (int at = 0, child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count) {
      const int a = heap[child], b = heap[child + 1];
      if (load[b] < load[a] || (load[b] == load[a] && b < a)) child++;
    }
    const int own = heap[at], other = heap[child];
    if (load[own] < load[other] || (load[own] == load[other] && own < other)) return;
    heap[at] = other;
    heap[child] = own;
  }
}

/* One writer of each parameter: in its first stage, the replica that has least to write so far. */
static RengaErrorCode ChooseOwners(RengaPipeline pipeline)
{
  int64_t *load = NULL;
  int *heap = NULL;
  RengaErrorCode code = RengaMalloc(pipeline->replicas, &load);
  if (!code) code = RengaMalloc(pipeline->replicas, &heap);
  if (code) RengaFree(&load);
  RengaCall(code);
  for (int r = 0; r < pipeline->replicas; r++) heap[r] = r;
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    if (!IsHeldFirstHere(pipeline, p)) continue;
    load[heap[0]] += parameter->count;
    parameter->owner = heap[0] == pipeline->replica;
    SiftDown(pipeline->replicas, heap, load);
  }
  RengaFree(&heap);
  RengaFree(&load);
  return RENGA_SUCCESS;
}

/* Not frozen, and some stage has a gradient for it. */
RengaErrorCode RengaPipelineIsTrained_Private(RengaPipeline pipeline, int number, bool *trained)
{
  const Parameter *parameter = &pipeline->parameter[number];
  double rate_scale, weight_decay;
  bool frozen;
  RengaCall(RengaOptimizerGetGroup(pipeline->optimizer, parameter->name, &rate_scale, &weight_decay,
                                   &frozen));
  *trained = !frozen && !RengaGraphGetValue(pipeline->graph, parameter->whole)->frozen &&
             HasUses(pipeline, number);
  return RENGA_SUCCESS;
}

/* Gradients of one parameter's uses follow each other in a buffer. */
static RengaErrorCode PlaceUses(RengaPipeline pipeline)
{
  int64_t *next; /* by value: the place of its next use, and its stride; place -1: not trained */
  RengaCall(RengaMalloc(2 * (int64_t)RengaGraphGetValueCount(pipeline->sub) + 1, &next));
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    parameter->offset = pipeline->parameter_count;
    pipeline->parameter_count += parameter->stride;
    const RengaErrorCode code = RengaPipelineIsTrained_Private(pipeline, p, &parameter->trained);
    if (code) RengaFree(&next);
    RengaCall(code);
    parameter->gradient = pipeline->gradient_count;
    next[2 * parameter->value] = parameter->trained ? parameter->gradient : -1;
    next[2 * parameter->value + 1] = parameter->stride;
    if (!parameter->trained) continue;
    pipeline->gradient_count += parameter->stride * (parameter->n_uses > 1 ? parameter->n_uses : 1);
  }
  for (int u = 0; u < pipeline->n_uses; u++) {
    int64_t *place = &next[2 * pipeline->use[u].parameter];
    pipeline->use_place[u] = place[0];
    if (place[0] >= 0) place[0] += place[1];
  }
  RengaFree(&next);
  return RENGA_SUCCESS;
}

/* A state that is updated in two stages would need statistics from both. */
static RengaErrorCode CheckStates(RengaPipeline pipeline)
{
  const RengaPlanStage *stage = RengaPlanGetStage(pipeline->plan, pipeline->stage);
  for (int u = 0; u < pipeline->n_updates; u++) {
    const char *name = RengaGraphGetValue(pipeline->sub, pipeline->update[u].state)->name;
    const RengaValue whole = RengaGraphFindValue(pipeline->graph, name);
    for (int n = 0; n < RengaGraphGetNodeCount(pipeline->graph); n++) {
      const RengaGraphNode *node = RengaGraphGetNode(pipeline->graph, n);
      for (int i = 0; i < node->n_in; i++)
        RengaCheck(node->in[i] != whole || (n >= stage->first && n < stage->last), MPI_COMM_SELF,
                   RENGA_ERR_SUPPORT, "state %s is used in several stages (node %s): cut elsewhere",
                   name, node->name);
    }
  }
  return RENGA_SUCCESS;
}

/* index: [values of the network] this stage's parameter, or -1. shares: [stages] whether a stage
   has one of them. */
static void MarkHolders(RengaPipeline pipeline, const int index[], bool shares[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(pipeline->graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(pipeline->graph, n);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == RENGA_VALUE_NONE || index[node->in[i]] < 0) continue;
      const int stage = RengaPlanStageOfNode(pipeline->plan, n);
      *Holds(pipeline, index[node->in[i]], stage) = 1;
      shares[stage] = true;
    }
  }
}

/* Uses of this stage's parameters in another stage, from that stage's own gradients. */
static RengaErrorCode CountUses(RengaPipeline pipeline, int stage, const int index[])
{
  const RengaPlanStage *row = RengaPlanGetStage(pipeline->plan, stage);
  const RengaParameterUse *use;
  RengaGraph sub;
  int count;
  RengaCall(RengaGraphGetSubgraph(pipeline->graph, row->first, row->last, &sub));
  RengaErrorCode code = RengaPipelineDifferentiate_Private(pipeline, stage, sub, NULL);
  if (!code) code = RengaGraphGetParameterUses(sub, &count, &use);
  for (int u = 0; !code && u < count; u++) {
    const char *name = RengaGraphGetValue(sub, use[u].parameter)->name;
    const int parameter = index[RengaGraphFindValue(pipeline->graph, name)];
    if (parameter >= 0) ++*Holds(pipeline, parameter, stage);
  }
  RengaGraphDestroy(&sub);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindHolders(RengaPipeline pipeline, int index[], bool shares[])
{
  for (int v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++) index[v] = -1;
  for (int p = 0; p < pipeline->n_parameters; p++) index[pipeline->parameter[p].whole] = p;
  MarkHolders(pipeline, index, shares);
  for (int p = 0; p < pipeline->n_parameters; p++)
    *Holds(pipeline, p, pipeline->stage) = 1 + pipeline->parameter[p].n_uses;
  for (int s = 0; pipeline->has_loss && s < pipeline->stages; s++)
    if (shares[s] && s != pipeline->stage) RengaCall(CountUses(pipeline, s, index));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineSetUpHolders_Private(RengaPipeline pipeline)
{
  int *index = NULL;
  bool *shares = NULL;
  RengaCall(RengaMalloc((int64_t)pipeline->n_parameters * pipeline->stages + 1, &pipeline->holds));
  RengaErrorCode code = RengaMalloc(RengaGraphGetValueCount(pipeline->graph) + 1, &index);
  if (!code) code = RengaMalloc(pipeline->stages, &shares);
  if (!code) code = FindHolders(pipeline, index, shares);
  RengaFree(&index);
  RengaFree(&shares);
  RengaCall(code);
  RengaCall(PlaceUses(pipeline));
  RengaCall(ChooseOwners(pipeline));
  RengaCall(CheckStates(pipeline));
  return RENGA_SUCCESS;
}
