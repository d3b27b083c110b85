/* renga plan -plan_tensor: what ranks that share tensors would take, for one number of them or
   several. */
#include "app.h"
#include <stdlib.h>
#include <string.h>

enum { TENSOR_COUNTS = 16, USUAL_BATCH = 32 };

/* Options that say something else of a plan than -plan_tensor does, and what to do. */
static const struct {
  const char *option, *advice;
} excluded[] = {
    {"plan_load", "a plan from a file has its tensor ranks: leave one of the two out"},
    {"plan_diff", "it compares plans that are there: leave one of the two out"},
    {"plan_sweep", "give several numbers as -plan_tensor 1,2,4 instead"},
    {"partition_tensor", "it is for runs: leave one of the two out"},
    {"partition_sequence", "it is for runs: leave one of the two out"},
    {"partition_type", "layers are dealt out evenly: leave it out"},
    {"partition_cuts", "layers are dealt out evenly: leave it out"},
    {"partition_ranks", "the machine says how many there are: give -machine_nodes"},
    {"partition_microbatch_sizes", "give -microbatch_size, or leave it out"},
    {"partition_leaves", "gradients are counted once: leave it out"},
    {"reduction_leaf", "gradients are counted once: leave it out"},
    {"pipeline_recompute", "give -plan_recompute"},
    {"pipeline_offload", "nothing waits on the host: leave it out"},
    {"pipeline_eager", "no micro-batch begins early: leave it out"},
    {"pipeline_reduction", "gradients are counted once: leave it out"},
    {"pipeline_buckets", "gradients are summed behind the pipeline: leave it out"},
    {"pipeline_bucket_size", "gradients are summed behind the pipeline: leave it out"},
    {"pipeline_overlap", "gradients are summed behind the pipeline: leave it out"},
    {"partition_even_slack", "layers are dealt out evenly: leave it out"},
};
/* Options of -plan_tensor, and those of other plans. */
static const struct {
  const char *option, *advice;
} tensor_only[] = {
    {"plan_recompute", "give it too, or -pipeline_recompute for a plan without tensor ranks"},
    {"plan_tensor_split", "give it too, or leave this out"},
};

typedef struct {
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
  RengaSettings settings;
} TensorPlanning;

/* 1f1b of one part on each rank, interleaved of several: another one is not predicted. */
static RengaErrorCode CheckTensorSchedule(MPI_Comm printer, const char *counts)
{
  const char *schedule;
  int64_t chunks;
  bool given;
  RengaCall(RengaOptionsGetInt64("pipeline_chunks", &chunks, NULL));
  RengaCall(RengaOptionsGetString("pipeline_schedule", &schedule, &given));
  const char *predicted = chunks > 1 ? RENGA_SCHEDULE_INTERLEAVED : RENGA_SCHEDULE_1F1B;
  RengaCheck(!given || (chunks > 0 && !strcmp(schedule, predicted)), printer, RENGA_ERR_OPTION,
             "-plan_tensor %s predicts " RENGA_SCHEDULE_1F1B
             " with -pipeline_chunks 1, " RENGA_SCHEDULE_INTERLEAVED
             " with more, and not -pipeline_schedule %s: leave it out, and give -pipeline_chunks",
             counts, schedule);
  return RENGA_SUCCESS;
}

RengaErrorCode AppFindPlanTensor(RengaComm comm, bool *given)
{
  MPI_Comm printer;
  const char *counts, *text, *machine;
  bool other;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("plan_tensor", &counts, given));
  for (size_t i = 0; i < sizeof tensor_only / sizeof *tensor_only && !*given; i++) {
    RengaCall(RengaOptionsGetString(tensor_only[i].option, &text, &other));
    RengaCheck(!other, printer, RENGA_ERR_OPTION, "-%s %s goes with -plan_tensor only: %s",
               tensor_only[i].option, text, tensor_only[i].advice);
  }
  if (!*given) return RENGA_SUCCESS;
  RengaCall(RengaOptionsGetString("machine_file", &machine, &other));
  RengaCheck(other, printer, RENGA_ERR_OPTION,
             "-plan_tensor %s predicts for a machine: give -machine_file", counts);
  for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++) {
    RengaCall(RengaOptionsGetString(excluded[i].option, &text, &other));
    RengaCheck(!other, printer, RENGA_ERR_OPTION, "-%s %s does not go with -plan_tensor %s: %s",
               excluded[i].option, text, counts, excluded[i].advice);
  }
  RengaCall(CheckTensorSchedule(printer, counts));
  return RENGA_SUCCESS;
}

/* One number of nodes: what is compared are numbers of tensor ranks. */
static RengaErrorCode CheckTensorNodes(MPI_Comm printer, RengaMachine machine)
{
  const int64_t *nodes;
  const char *text;
  int count;
  RengaCall(RengaMachineGetNodeCounts(machine, &count, &nodes));
  RengaCall(RengaOptionsGetString("machine_nodes", &text, NULL));
  RengaCheck(count <= 1, printer, RENGA_ERR_OPTION,
             "-machine_nodes %s does not go with -plan_tensor: give one number of nodes", text);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTensorPlanning(RengaComm comm, RengaGraph graph, TensorPlanning *own)
{
  MPI_Comm printer;
  int64_t devices;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaMachineCreate(comm, &own->machine));
  RengaCall(RengaMachineSetFromOptions(own->machine));
  RengaCall(CheckTensorNodes(printer, own->machine));
  RengaCall(RengaMachineGetDeviceCount(own->machine, &devices));
  RengaCall(RengaProfileCreate(comm, &own->profile));
  RengaCall(RengaProfileSetMachine(own->profile, own->machine));
  RengaCall(RengaProfileSetType(own->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaSettingsCreate(comm, &own->settings));
  RengaCall(RengaSettingsSetFromOptions(own->settings));
  RengaCall(RengaPartitionCreate(comm, &own->partition));
  RengaCall(RengaPartitionSetGraph(own->partition, graph));
  RengaCall(RengaPartitionSetSettings(own->partition, own->settings));
  RengaCall(RengaProfileSetSettings(own->profile, own->settings));
  RengaCall(RengaPartitionSetMachine(own->partition, own->machine));
  RengaCall(RengaPartitionSetProfile(own->partition, own->profile));
  RengaCall(RengaPartitionSetRanks(own->partition, (int)devices));
  RengaCall(RengaPartitionSetFromOptions(own->partition));
  return RENGA_SUCCESS;
}

static void KeepFirstError(RengaErrorCode freed, RengaErrorCode *code)
{
  if (!*code) *code = freed;
}

/* All is freed, whatever the planning has come to. */
static RengaErrorCode EndTensorPlanning(TensorPlanning *own, RengaErrorCode code)
{
  if (own->partition) KeepFirstError(RengaPartitionDestroy(&own->partition), &code);
  if (own->settings) KeepFirstError(RengaSettingsDestroy(&own->settings), &code);
  if (own->profile) KeepFirstError(RengaProfileDestroy(&own->profile), &code);
  if (own->machine) KeepFirstError(RengaMachineDestroy(&own->machine), &code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What the options leave open is 0. */
static RengaErrorCode ReadTensorLayout(const TensorPlanning *own, RengaTensorLayout *layout)
{
  static const char *const splits[] = {"auto", "parameters", "features"};
  const char *text;
  *layout = (RengaTensorLayout){.tensor = 1};
  RengaCall(RengaPartitionGetStages(own->partition, &layout->stages));
  RengaCall(RengaPartitionGetReplicas(own->partition, &layout->replicas));
  RengaCall(RengaPartitionGetBatch(own->partition, &layout->batch, &layout->microbatch));
  RengaCall(RengaSettingsGetChunks(own->settings, &layout->chunks));
  RengaCall(RengaOptionsGetString("plan_tensor_split", &text, NULL));
  for (int i = 0; i < (int)(sizeof splits / sizeof *splits); i++)
    if (!strcmp(text, splits[i])) layout->split = (RengaTensorSplit)i;
  RengaCall(RengaOptionsGetString("plan_recompute", &text, NULL));
  for (RengaRecompute r = RENGA_RECOMPUTE_AUTO; RengaRecomputeName(r); r++)
    if (!strcmp(text, RengaRecomputeName(r))) layout->recompute = r;
  if (layout->batch == 0) layout->batch = USUAL_BATCH;
  return RENGA_SUCCESS;
}

/* "1,2,4,8" */
static RengaErrorCode ReadTensorCounts(MPI_Comm printer, const char *text, int *count, int tensor[])
{
  *count = 0;
  for (const char *at = text; *at;) {
    char *end;
    const long long ranks = strtoll(at, &end, 10);
    RengaCheck(end != at && (*end == ',' || *end == 0) && ranks > 0 && ranks <= 1024, printer,
               RENGA_ERR_OPTION,
               "-plan_tensor %s: write how many ranks share a tensor, or several numbers: 1,2,4,8",
               text);
    RengaCheck(*count < TENSOR_COUNTS, printer, RENGA_ERR_OPTION,
               "-plan_tensor %s: more than %d numbers", text, TENSOR_COUNTS);
    tensor[(*count)++] = (int)ranks;
    at = end + (*end == ',');
  }
  RengaCheck(*count > 0, printer, RENGA_ERR_OPTION,
             "-plan_tensor is empty: write how many ranks share a tensor");
  return RENGA_SUCCESS;
}

static RengaErrorCode SayLayout(MPI_Comm printer, const RengaTensorLayout *layout)
{
  static const char *const recomputed[] = {"", "nothing", "all of each layer", "attention"};
  RengaCall(
      RengaPrintf(printer,
                  "  predicted for %d stages x %d replicas x %d tensor ranks, %d part%s on "
                  "each, micro-batches of %lld, backward makes again: %s\n"
                  "  this is a prediction, which no run takes: runs split by -partition_tensor\n",
                  layout->stages, layout->replicas, layout->tensor, layout->chunks,
                  layout->chunks == 1 ? "" : "s", (long long)layout->microbatch,
                  recomputed[layout->recompute]));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanOneTensor(MPI_Comm printer, const TensorPlanning *own, int tensor,
                                    RengaPlan *plan)
{
  RengaTensorLayout layout;
  RengaCall(ReadTensorLayout(own, &layout));
  layout.tensor = tensor;
  RengaCall(RengaPartitionPredictTensor(own->partition, &layout, plan));
  RengaCall(SayLayout(printer, &layout));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintTensorRow(MPI_Comm printer, const RengaTensorLayout *layout,
                                     RengaPlan plan)
{
  RengaPlanPrediction prediction;
  char step[24], memory[24], shape[48];
  int64_t most = 0, bytes;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &bytes));
    if (bytes > most) most = bytes;
  }
  RengaFormatSeconds(prediction.step, sizeof step, step);
  RengaFormatBytes((double)most, sizeof memory, memory);
  snprintf(shape, sizeof shape, "%d x %d x %d", layout->stages, layout->replicas, layout->tensor);
  RengaCall(RengaPrintf(printer, "  %6d  %-16s  %6d  %11lld  %10s  %9s  %8s  %9.4g\n",
                        layout->tensor, shape, layout->chunks, (long long)layout->microbatch,
                        RengaRecomputeName(layout->recompute), memory, step,
                        (double)layout->batch / prediction.step));
  return RENGA_SUCCESS;
}

/* A number for which there is no plan has a row that says why; another error ends the program. */
static RengaErrorCode CompareOneTensor(MPI_Comm printer, const TensorPlanning *own, int tensor)
{
  RengaTensorLayout layout;
  RengaPlan plan = NULL;
  RengaCall(ReadTensorLayout(own, &layout));
  layout.tensor = tensor;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  RengaErrorCode code = RengaPartitionPredictTensor(own->partition, &layout, &plan);
  RengaErrorSetHandler(NULL, NULL);
  RengaCheck(!code || code == RENGA_ERR_PLAN, printer, code, "-plan_tensor %d: %s", tensor,
             RengaErrorGetMessage());
  if (code) {
    RengaCall(RengaPrintf(printer, "  %6d  %s\n", tensor, RengaErrorGetMessage()));
    return RENGA_SUCCESS;
  }
  code = PrintTensorRow(printer, &layout, plan);
  KeepFirstError(RengaPlanDestroy(&plan), &code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareTensors(MPI_Comm printer, const TensorPlanning *own, int count,
                                     const int tensor[])
{
  RengaCall(RengaPrintf(printer, "  %6s  %-16s  %6s  %11s  %10s  %9s  %8s  %9s\n", "tensor",
                        "stages x rep x t", "chunks", "micro-batch", "recomputed", "memory", "step",
                        "samples/s"));
  for (int i = 0; i < count; i++) RengaCall(CompareOneTensor(printer, own, tensor[i]));
  RengaCall(RengaPrintf(printer, "  bound: none is known of plans that share tensors by rule\n"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlanTensor(RengaComm comm, RengaGraph graph, RengaPlan *plan, int64_t *nodes,
                             int64_t *devices)
{
  TensorPlanning own = {NULL, NULL, NULL, NULL};
  MPI_Comm printer;
  const char *text;
  int count, tensor[TENSOR_COUNTS];
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("plan_tensor", &text, NULL));
  RengaCall(ReadTensorCounts(printer, text, &count, tensor));
  if (count > 1) RengaCall(AppRefuseOfOnePlan(comm));
  RengaErrorCode code = SetUpTensorPlanning(comm, graph, &own);
  if (!code) code = RengaMachineGetNodes(own.machine, nodes);
  if (!code) code = RengaMachineGetDeviceCount(own.machine, devices);
  if (!code)
    code = count > 1 ? CompareTensors(printer, &own, count, tensor)
                     : PlanOneTensor(printer, &own, tensor[0], plan);
  RengaCall(EndTensorPlanning(&own, code));
  return RENGA_SUCCESS;
}
