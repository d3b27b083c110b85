/* A network that is run forward over a data set, by renga eval and renga predict: the parameters of
   -initial, or those that the network's file has. */
#include "text.h"
#include <inttypes.h>
#include <string.h>

enum { FORWARD_BATCH = 32, FORWARD_MICROBATCHES = 8 };

RengaErrorCode AppFindScores(RengaGraph graph, const char **scores)
{
  int n_outputs, n_found = 0;
  const RengaValue *outputs;
  RengaValue loss;
  *scores = NULL;
  RengaCall(RengaGraphGetOutputs(graph, &n_outputs, &outputs));
  RengaCall(RengaGraphGetLoss(graph, &loss));
  for (int o = 0; o < n_outputs; o++)
    if (outputs[o] != loss) return RENGA_SUCCESS;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, "CrossEntropy") != 0) continue;
    *scores = RengaGraphGetValue(graph, node->in[0])->name;
    n_found++;
  }
  if (n_found != 1) *scores = NULL;
  return RENGA_SUCCESS;
}

/* Names between commas become the only ends of the network. */
static RengaErrorCode EndAtOutputs(RengaGraph graph, const char *outputs)
{
  char *list = NULL;
  const char **names = NULL;
  int count = 0;
  if (!outputs) RengaCall(AppFindScores(graph, &outputs));
  RengaErrorCode code = RENGA_SUCCESS;
  if (outputs) code = RengaStringCopy(outputs, &list);
  if (!code) code = RengaMalloc(outputs ? strlen(outputs) + 1 : 1, &names);
  for (char *at = list, *comma; !code && at && *at; at = comma ? comma + 1 : NULL) {
    comma = strchr(at, ',');
    if (comma) *comma = '\0';
    names[count++] = at;
  }
  if (!code) code = RengaGraphKeepOutputs(graph, count, names);
  RengaFree(&names);
  RengaFree(&list);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Which parts of the data set; those of -part auto where there are two choices: standard. */
static RengaErrorCode ChooseParts(AppForward *forward, bool needs_loss)
{
  int64_t *samples = forward->samples;
  const char *part;
  RengaCall(RengaDataGetCount(forward->data, RENGA_DATA_TRAINING, &samples[RENGA_DATA_TRAINING]));
  RengaCall(
      RengaDataGetCount(forward->data, RENGA_DATA_VALIDATION, &samples[RENGA_DATA_VALIDATION]));
  RengaCall(RengaOptionsGetString("part", &part, NULL));
  if (strcmp(part, "auto") == 0)
    part = needs_loss && samples[RENGA_DATA_VALIDATION] > 0 ? "validation" : "all";
  if (strcmp(part, "validation") == 0) samples[RENGA_DATA_TRAINING] = 0;
  if (strcmp(part, "training") == 0) samples[RENGA_DATA_VALIDATION] = 0;
  RengaCheck(samples[0] + samples[1] > 0, forward->printer, RENGA_ERR_OPTION,
             "-part %s: the data set has no samples there; -data_validation or -eval makes a "
             "validation part",
             part);
  forward->part = part;
  return RENGA_SUCCESS;
}

RengaErrorCode AppForwardOpen(RengaComm comm, bool needs_loss, const char *outputs,
                              AppForward *forward)
{
  const AppEnds ends = {EndAtOutputs, outputs};
  RengaValue loss;
  *forward = (AppForward){.comm = comm, .step = -1, .subset = !needs_loss};
  RengaCall(RengaObjectGetComm(comm, &forward->printer));
  RengaCall(AppPeekInitial(comm));
  RengaCall(AppLoadGraph(comm, needs_loss ? NULL : &ends, &forward->graph));
  RengaCall(RengaGraphGetLoss(forward->graph, &loss));
  RengaCheck(!needs_loss || loss != RENGA_VALUE_NONE, forward->printer, RENGA_ERR_GRAPH,
             "the network has no loss to evaluate; renga predict writes its outputs");
  RengaCall(RengaDataFindFields(forward->graph, &forward->fields));
  RengaCall(AppOpenData(comm, forward->graph, true, &forward->data));
  RengaCall(ChooseParts(forward, needs_loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetSizeOption(const char *name, int64_t value)
{
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  RengaCall(RengaOptionsSetValue(name, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode NoteGiven(const char *name, bool *given)
{
  const char *value;
  bool is;
  RengaCall(RengaOptionsGetString(name, &value, &is));
  *given = *given || is;
  return RENGA_SUCCESS;
}

/* The micro-batch decides the bits: one that the layout has no part in. */
static RengaErrorCode FixSizes(AppForward *forward)
{
  bool planned = false, micro = false, leaf = false;
  int64_t batch;
  RengaCall(NoteGiven("plan_load", &planned));
  if (planned) return RENGA_SUCCESS;
  RengaCall(NoteGiven("microbatch_size", &micro));
  RengaCall(NoteGiven("partition_microbatch_sizes", &micro));
  RengaCall(NoteGiven("partition_leaf", &leaf));
  RengaCall(RengaOptionsGetInt64("batch_size", &batch, NULL));
  if (!batch) RengaCall(RengaGraphGetFileBatch(forward->graph, &batch));
  if (!batch) batch = FORWARD_BATCH;
  RengaCall(SetSizeOption("batch_size", batch));
  if (!micro)
    RengaCall(SetSizeOption("microbatch_size",
                            (batch + FORWARD_MICROBATCHES - 1) / FORWARD_MICROBATCHES));
  if (!leaf) RengaCall(SetSizeOption("partition_leaf", 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanForward(AppForward *forward)
{
  RengaPartition partition = NULL;
  RengaSettings settings;
  int64_t microbatch;
  RengaCall(RengaPipelineGetSettings(forward->pipeline, &settings));
  RengaCall(AppMakePartition(forward->comm, forward->graph, 0, 0, &partition));
  RengaErrorCode code = RengaPartitionSetSettings(partition, settings);
  int tensor = 0;
  if (!code) code = RengaPartitionGetTensor(partition, &tensor);
  if (!code && !tensor) code = RengaPartitionSetTensor(partition, 1); /* the network as it is */
  if (!code) code = RengaPartitionSolve(partition, &forward->plan);
  RengaPartitionDestroy(&partition);
  RengaCall(code);
  RengaCall(RengaPlanGetBatch(forward->plan, &forward->batch, &microbatch));
  return RENGA_SUCCESS;
}

RengaErrorCode AppForwardSetUp(AppForward *forward)
{
  RengaCheckpointInitial initial;
  RengaOptimizer optimizer;
  RengaCall(FixSizes(forward));
  RengaCall(RengaPipelineCreate(forward->comm, &forward->pipeline));
  RengaCall(RengaPipelineSetFromOptions(forward->pipeline));
  RengaCall(RengaPipelineGetOptimizer(forward->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD)); /* it has no moments */
  RengaCall(PlanForward(forward));
  RengaCall(AppPrintStart(forward->comm, forward->graph, forward->plan, NULL));
  RengaCall(RengaPipelineSetPlan(forward->pipeline, forward->graph, forward->plan));
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++)
    if (forward->samples[p] % forward->batch)
      RengaCall(
          RengaPipelineSetDataShortBatch(forward->pipeline, forward->samples[p] % forward->batch));
  RengaCall(RengaPipelineSetUp(forward->pipeline));
  RengaCall(AppViewPlan(forward->comm, forward->plan));
  RengaCall(AppReadInitial(forward->comm, forward->pipeline, forward->subset, &initial));
  forward->step = initial.step;
  return RENGA_SUCCESS;
}

RengaErrorCode AppForwardDestroy(AppForward *forward)
{
  RengaCall(RengaPipelineDestroy(&forward->pipeline));
  RengaCall(RengaPlanDestroy(&forward->plan));
  RengaCall(RengaDataDestroy(&forward->data));
  RengaDataFreeFields(&forward->fields);
  RengaCall(RengaGraphDestroy(&forward->graph));
  return RENGA_SUCCESS;
}
