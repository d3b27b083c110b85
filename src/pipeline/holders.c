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

/* One writer of each parameter: in its first stage, the replica that has least to write so far. */
static RengaErrorCode ChooseOwners(RengaPipeline pipeline)
{
  int64_t *load;
  RengaCall(RengaMalloc(pipeline->replicas, &load));
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    if (!IsHeldFirstHere(pipeline, p)) continue;
    int least = 0;
    for (int r = 1; r < pipeline->replicas; r++)
      if (load[r] < load[least]) least = r;
    load[least] += parameter->count;
    parameter->owner = least == pipeline->replica;
  }
  RengaFree(&load);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTrained(RengaPipeline pipeline, int number)
{
  Parameter *parameter = &pipeline->parameter[number];
  double rate_scale, weight_decay;
  bool frozen;
  RengaCall(RengaOptimizerGetGroup(pipeline->optimizer, parameter->name, &rate_scale, &weight_decay,
                                   &frozen));
  parameter->trained = !frozen && !RengaGraphGetValue(pipeline->graph, parameter->whole)->frozen &&
                       HasUses(pipeline, number);
  return RENGA_SUCCESS;
}

/* Gradients of one parameter's uses follow each other in a buffer. */
static RengaErrorCode PlaceUses(RengaPipeline pipeline)
{
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    parameter->offset = pipeline->parameter_count;
    pipeline->parameter_count += parameter->stride;
    RengaCall(FindTrained(pipeline, p));
    parameter->gradient = pipeline->gradient_count;
    int64_t place = parameter->gradient;
    for (int u = 0; u < pipeline->n_uses; u++) {
      if (pipeline->use[u].parameter != parameter->value) continue;
      pipeline->use_place[u] = parameter->trained ? place : -1;
      place += parameter->stride;
    }
    if (!parameter->trained) continue;
    pipeline->gradient_count += parameter->stride * (parameter->n_uses > 1 ? parameter->n_uses : 1);
  }
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
  RengaCall(RengaPipelineDifferentiate_Private(pipeline, stage, sub, NULL));
  RengaCall(RengaGraphGetParameterUses(sub, &count, &use));
  for (int u = 0; u < count; u++) {
    const char *name = RengaGraphGetValue(sub, use[u].parameter)->name;
    const int parameter = index[RengaGraphFindValue(pipeline->graph, name)];
    if (parameter >= 0) ++*Holds(pipeline, parameter, stage);
  }
  RengaCall(RengaGraphDestroy(&sub));
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
  int *index;
  bool *shares;
  RengaCall(RengaMalloc((int64_t)pipeline->n_parameters * pipeline->stages + 1, &pipeline->holds));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(pipeline->graph) + 1, &index));
  RengaCall(RengaMalloc(pipeline->stages, &shares));
  const RengaErrorCode code = FindHolders(pipeline, index, shares);
  RengaFree(&index);
  RengaFree(&shares);
  RengaCall(code);
  RengaCall(PlaceUses(pipeline));
  RengaCall(ChooseOwners(pipeline));
  RengaCall(CheckStates(pipeline));
  return RENGA_SUCCESS;
}
