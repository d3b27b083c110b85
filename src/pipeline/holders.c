/* Which stages hold which parameters, how often each uses them, and who writes them: known to
   all. */
#include "pipelineimpl.h"

static bool IsHeldFirstHere(RengaPipeline pipeline, int number)
{
  for (int s = 0; s < pipeline->stage; s++)
    if (pipeline->holds[(int64_t)number * pipeline->stages + s] > 0) return false;
  return true;
}

static bool HasUses(RengaPipeline pipeline, int number)
{
  for (int s = 0; s < pipeline->stages; s++)
    if (pipeline->holds[(int64_t)number * pipeline->stages + s] > 1) return true;
  return false;
}

/* One writer of each parameter: in its first stage, the replica that has least to write so far. */
static RengaErrorCode ChooseOwners(RengaPipeline pipeline)
{
  int64_t *load;
  RengaCall(RengaMalloc(pipeline->replicas, &load));
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    if (!IsHeldFirstHere(pipeline, parameter->number)) continue;
    int least = 0;
    for (int r = 1; r < pipeline->replicas; r++)
      if (load[r] < load[least]) least = r;
    load[least] += parameter->count;
    parameter->owner = least == pipeline->replica;
  }
  RengaFree(&load);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTrained(RengaPipeline pipeline, Parameter *parameter)
{
  double rate_scale, weight_decay;
  bool frozen;
  RengaCall(RengaOptimizerGetGroup(pipeline->optimizer, parameter->name, &rate_scale, &weight_decay,
                                   &frozen));
  parameter->trained = !frozen && !RengaGraphGetValue(pipeline->graph, parameter->whole)->frozen &&
                       HasUses(pipeline, parameter->number);
  return RENGA_SUCCESS;
}

/* Gradients of one parameter's uses follow each other in a buffer. */
static RengaErrorCode PlaceUses(RengaPipeline pipeline)
{
  for (int p = 0; p < pipeline->n_parameters; p++) {
    Parameter *parameter = &pipeline->parameter[p];
    parameter->offset = pipeline->parameter_count;
    pipeline->parameter_count += parameter->stride;
    RengaCall(FindTrained(pipeline, parameter));
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

/* Collective on all ranks, idle ones too. */
RengaErrorCode RengaPipelineSetUpHolders_Private(RengaPipeline pipeline)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++)
    pipeline->n_network += RengaGraphGetValue(pipeline->graph, v)->kind == RENGA_VALUE_PARAMETER;
  const int64_t count = (int64_t)pipeline->n_network * pipeline->stages;
  RengaCall(RengaMalloc(count + 1, &pipeline->holds));
  if (pipeline->stage >= 0 && pipeline->replica == 0)
    for (int p = 0; p < pipeline->n_parameters; p++)
      pipeline->holds[(int64_t)pipeline->parameter[p].number * pipeline->stages + pipeline->stage] =
          1 + pipeline->parameter[p].n_uses;
  RengaCall(RengaCommSumInt64(pipeline->all, count, pipeline->holds,
                              "all ranks to say which parameters they hold"));
  if (pipeline->stage < 0) return RENGA_SUCCESS;
  RengaCall(PlaceUses(pipeline));
  RengaCall(ChooseOwners(pipeline));
  RengaCall(CheckStates(pipeline));
  return RENGA_SUCCESS;
}
