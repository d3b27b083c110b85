/* The stage of this rank: its part of the network, differentiated; what it reads, holds and adds
   up. */
#include "pipelineimpl.h"

static RengaErrorCode FindHere(RengaGraph sub, int stage, const char *name, RengaValue *value)
{
  *value = RengaGraphFindValue(sub, name);
  RengaCheck(*value != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d has a message of %s but no such value", stage, name);
  return RENGA_SUCCESS;
}

/* value: [4][n] seeds, their gradients, wanted values, their gradients. */
static RengaErrorCode DifferentiateInto(RengaPipeline pipeline, int stage, RengaGraph sub,
                                        Link link[], int n, RengaValue value[])
{
  int n_seeds = 0, n_wanted = 0;
  for (int m = 0; m < pipeline->n_messages; m++) {
    const RengaMessage *message = &pipeline->message[m];
    if (!message->backward) continue;
    if (message->to == stage) RengaCall(FindHere(sub, stage, message->value, &value[n_seeds++]));
    if (message->from == stage)
      RengaCall(FindHere(sub, stage, message->value, &value[2 * n + n_wanted++]));
  }
  RengaCall(RengaGraphDifferentiate(sub, n_seeds, value, value + n, n_wanted, value + 2 * n,
                                    value + 3 * n));
  n_seeds = n_wanted = 0;
  for (int m = 0; link && m < pipeline->n_messages; m++) {
    const RengaMessage *message = &pipeline->message[m];
    if (!message->backward) continue;
    if (message->to == stage) link[m].value = value[n + n_seeds++];
    if (message->from == stage) link[m].value = value[3 * n + n_wanted++];
  }
  return RENGA_SUCCESS;
}

/* Gradients that come in are seeds, gradients that go out are wanted. link, or NULL, gets them. */
RengaErrorCode RengaPipelineDifferentiate_Private(RengaPipeline pipeline, int stage, RengaGraph sub,
                                                  Link link[])
{
  const int n = pipeline->n_messages + 1;
  RengaValue *value;
  RengaCall(RengaMalloc(4 * n, &value));
  const RengaErrorCode code = DifferentiateInto(pipeline, stage, sub, link, n, value);
  RengaFree(&value);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The number of a field among the network's inputs; false for what another stage makes. */
static bool IsData(RengaPipeline pipeline, const RengaGraphValue *value, int *field)
{
  const RengaValue whole = RengaGraphFindValue(pipeline->graph, value->name);
  *field = 0;
  if (whole < 0 || RengaGraphGetValue(pipeline->graph, whole)->kind != RENGA_VALUE_INPUT)
    return false;
  for (RengaValue v = 0; v < whole; v++)
    *field += RengaGraphGetValue(pipeline->graph, v)->kind == RENGA_VALUE_INPUT;
  return true;
}

static RengaErrorCode ListFields(RengaPipeline pipeline)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->sub, v);
    int field;
    if (value->kind != RENGA_VALUE_INPUT || !IsData(pipeline, value, &field)) continue;
    RengaCall(RengaRealloc(pipeline->n_fields + 1, &pipeline->field));
    const RengaTensorSpec spec = RengaTensorSpecAt(&value->spec, pipeline->microbatch);
    pipeline->field[pipeline->n_fields++] =
        (Field){.value = v, .field = field, .offset = pipeline->input_bytes};
    pipeline->input_bytes += RengaAlign_Private((int64_t)RengaTensorSpecBytes(&spec));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListSums(RengaPipeline pipeline)
{
  for (int n = 0; n < RengaGraphGetNodeCount(pipeline->sub); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(pipeline->sub, n);
    if (!(node->op->flags & RENGA_OP_BATCH_SUM)) continue;
    const RengaTensorSpec *spec = &RengaGraphGetValue(pipeline->sub, node->in[0])->spec;
    RengaCheck(spec->type == RENGA_FLOAT32 && spec->ndim == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s: a sum over the batch takes a float32 scalar", node->name);
    RengaCall(RengaRealloc(pipeline->n_sums + 1, &pipeline->sum));
    pipeline->sum[pipeline->n_sums++] = (BatchSum){.share = node->in[0], .sum = node->out[0]};
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHeld(const RengaGraphValue *value)
{
  bool known = value->spec.type == RENGA_FLOAT32;
  for (int d = 0; d < value->spec.ndim; d++) known = known && value->spec.dim[d] >= 0;
  RengaCheck(
      known, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
      "%s: a parameter or state must be float32 and of a size that does not depend on the batch",
      value->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddParameter(RengaPipeline pipeline, RengaValue value, RengaValue whole,
                                   int n_uses, int number)
{
  const RengaGraphValue *view = RengaGraphGetValue(pipeline->sub, value);
  const int64_t count = RengaTensorSpecCount(&view->spec);
  RengaCall(CheckHeld(view));
  pipeline->parameter[pipeline->n_parameters++] = (Parameter){
      .value = value,
      .whole = whole,
      .name = RengaGraphGetValue(pipeline->graph, whole)->name,
      .count = count,
      .stride = RengaAlign_Private(count * (int64_t)sizeof(float)) / (int64_t)sizeof(float),
      .n_uses = n_uses,
      .number = number,
  };
  return RENGA_SUCCESS;
}

static RengaErrorCode AddState(RengaPipeline pipeline, RengaValue value)
{
  RengaCall(CheckHeld(RengaGraphGetValue(pipeline->sub, value)));
  RengaCall(RengaRealloc(pipeline->n_states + 1, &pipeline->state));
  RengaCall(RengaRealloc(pipeline->n_states + 1, &pipeline->state_offset));
  pipeline->state[pipeline->n_states++] = value;
  return RENGA_SUCCESS;
}

/* here: [values of the network] 1 + the stage's own value, or 0. */
static RengaErrorCode FindHeld(RengaPipeline pipeline, int here[])
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->sub, v);
    if (value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_STATE)
      here[RengaGraphFindValue(pipeline->graph, value->name)] = 1 + v;
  }
  return RENGA_SUCCESS;
}

/* uses: [values of the stage] of each parameter. */
static RengaErrorCode AddHeld(RengaPipeline pipeline, const int here[], const int uses[])
{
  const int n_values = RengaGraphGetValueCount(pipeline->graph);
  int number = 0, held = 0;
  for (RengaValue whole = 0; whole < n_values; whole++)
    held +=
        here[whole] && RengaGraphGetValue(pipeline->graph, whole)->kind == RENGA_VALUE_PARAMETER;
  RengaCall(RengaRealloc(held + 1, &pipeline->parameter));
  for (RengaValue whole = 0; whole < n_values; whole++) {
    const RengaValueKind kind = RengaGraphGetValue(pipeline->graph, whole)->kind;
    const RengaValue own = here[whole] - 1;
    if (own >= 0 && kind == RENGA_VALUE_PARAMETER)
      RengaCall(AddParameter(pipeline, own, whole, uses[own], number));
    if (own >= 0 && kind == RENGA_VALUE_STATE) RengaCall(AddState(pipeline, own));
    number += kind == RENGA_VALUE_PARAMETER;
  }
  return RENGA_SUCCESS;
}

/* Parameters and states in the order of the whole network. */
static RengaErrorCode ListHeld(RengaPipeline pipeline)
{
  int *here = NULL, *uses = NULL;
  RengaCall(RengaMalloc(RengaGraphGetValueCount(pipeline->graph) + 1, &here));
  RengaErrorCode code = FindHeld(pipeline, here);
  if (!code) code = RengaMalloc(RengaGraphGetValueCount(pipeline->sub) + 1, &uses);
  for (int u = 0; u < pipeline->n_uses && !code; u++) uses[pipeline->use[u].parameter]++;
  if (!code) code = AddHeld(pipeline, here, uses);
  RengaFree(&here);
  RengaFree(&uses);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void CountStatistics(RengaPipeline pipeline)
{
  for (int u = 0; u < pipeline->n_updates; u++)
    pipeline->statistics += RengaTensorSpecCount(
        &RengaGraphGetValue(pipeline->sub, pipeline->update[u].batch_value)->spec);
}

/* Makes sub and the lists of what it holds; needs no other rank. */
RengaErrorCode RengaPipelineSetUpStage_Private(RengaPipeline pipeline, int stage)
{
  const RengaPlanStage *row = RengaPlanGetStage(pipeline->plan, stage);
  pipeline->stage = stage;
  pipeline->replicas = row->replicas;
  pipeline->recompute = row->recompute && pipeline->has_loss;
  RengaCall(RengaGraphGetSubgraph(pipeline->graph, row->first, row->last, &pipeline->sub));
  if (pipeline->has_loss)
    RengaCall(RengaPipelineDifferentiate_Private(pipeline, stage, pipeline->sub, pipeline->link));
  RengaCall(RengaGraphGetLoss(pipeline->sub, &pipeline->loss));
  RengaCall(RengaGraphGetStateUpdates(pipeline->sub, &pipeline->n_updates, &pipeline->update));
  if (pipeline->has_loss)
    RengaCall(RengaGraphGetParameterUses(pipeline->sub, &pipeline->n_uses, &pipeline->use));
  RengaCall(RengaMalloc(pipeline->n_uses + 1, &pipeline->use_place));
  RengaCall(ListFields(pipeline));
  RengaCall(ListSums(pipeline));
  RengaCall(ListHeld(pipeline));
  CountStatistics(pipeline);
  RengaCall(RengaPipelineSetUpLinks_Private(pipeline));
  RengaCall(RengaPipelineSetUpHolders_Private(pipeline));
  return RENGA_SUCCESS;
}
