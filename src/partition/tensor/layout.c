/* A layout of stages, replicas and tensor ranks: what each stage takes, the pipeline simulated, and
   the plan that says so. */
#include "layout.h"
#include "rengaschedule.h"
#include <string.h>

/* Layers of chunk c, as even as can be. */
static int FirstLayer(const TensorPrediction *made, int chunk)
{
  return (int)((int64_t)made->repeat.count * chunk / made->chunks);
}

static int CountLayers(const TensorPrediction *made, int chunk)
{
  return FirstLayer(made, chunk + 1) - FirstLayer(made, chunk);
}

/* Sums over what the chunk has. */
static void AddTensorPart(TensorPart *sum, const TensorPart *part, int times)
{
  sum->forward += times * part->forward;
  sum->backward += times * part->backward;
  sum->again += times * part->again;
  sum->exchange += times * part->exchange;
  sum->elements += times * part->elements;
  sum->saved += times * part->saved;
  if (times && part->held > sum->held) sum->held = part->held;
  if (times && part->working > sum->working) sum->working = part->working;
}

static TensorPart SumLayoutChunk(const TensorPrediction *made, int chunk)
{
  const TensorCosts *costs = &made->costs;
  TensorPart sum = {.forward = 0};
  AddTensorPart(&sum, &costs->part[TENSOR_LAYER], CountLayers(made, chunk));
  if (chunk == 0) AddTensorPart(&sum, &costs->part[TENSOR_BEFORE], 1);
  if (chunk < made->chunks - 1) return sum;
  AddTensorPart(&sum, &costs->part[TENSOR_BEHIND], 1);
  if (made->layout.stages > 1) sum.elements += costs->tied;
  return sum;
}

/* Chunks of micro-batches that a rank of the pipeline keeps at a time. */
static double CountFlight(const TensorPrediction *made, int rank)
{
  const int p = made->layout.stages, v = made->layout.chunks;
  const double early = v == 1 ? p - rank : (2.0 * (p - 1 - rank) + (v - 1.0) * p + 1) / v;
  const double all = (double)made->rounds;
  return early < all ? early : all;
}

static double SendSeconds(const TensorPrediction *made, int chunk)
{
  const RengaTensorLayout *layout = &made->layout;
  const TensorPart *layer = &made->costs.part[TENSOR_LAYER];
  const int64_t span = (int64_t)layout->tensor * layout->replicas;
  const int level = RengaMachineLevelOf(made->machine, chunk % layout->stages * span,
                                        (chunk + 1) % layout->stages * span);
  const double whole = (double)layer->whole_sent, part = whole / layout->tensor;
  double seconds = RengaMachineMessageSeconds(made->machine, level, part);
  if ((double)layer->sent > 1.01 * part) /* all have it: each sends a part, and they gather it */
    seconds += RengaTensorGatherSeconds_Private(made->machine, 1, layout->tensor, whole);
  return seconds;
}

/* Each chunk's activation goes to the next, its gradient back. */
static void FillTensorMessages(const TensorPrediction *made, RengaMessage messages[],
                               double seconds[])
{
  const int64_t bytes = made->costs.part[TENSOR_LAYER].whole_sent;
  for (int c = 0; c + 1 < made->chunks; c++) {
    messages[2 * c] = (RengaMessage){.value = "x", .from = c, .to = c + 1, .bytes = bytes};
    messages[2 * c + 1] =
        (RengaMessage){.value = "x", .from = c + 1, .to = c, .backward = true, .bytes = bytes};
    seconds[2 * c] = seconds[2 * c + 1] = SendSeconds(made, c);
  }
}

typedef struct {
  RengaMessage *message;
  double *message_seconds, *forward, *backward, *half;
  int *rank;
} PipelineTimes;

static RengaErrorCode FillTimes(const TensorPrediction *made, PipelineTimes *times)
{
  const int chunks = made->chunks;
  RengaCall(RengaMalloc(2 * chunks, &times->message));
  RengaCall(RengaMalloc(2 * chunks, &times->message_seconds));
  RengaCall(RengaMalloc(chunks, &times->forward));
  RengaCall(RengaMalloc(chunks, &times->backward));
  RengaCall(RengaMalloc(chunks, &times->half));
  RengaCall(RengaMalloc(chunks, &times->rank));
  FillTensorMessages(made, times->message, times->message_seconds);
  for (int c = 0; c < chunks; c++) {
    const TensorPart sum = SumLayoutChunk(made, c);
    times->forward[c] = sum.forward;
    times->backward[c] = sum.backward;
    times->half[c] = sum.backward / 2;
    times->rank[c] = c % made->layout.stages;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SimulateTimes(TensorPrediction *made, const PipelineTimes *times,
                                    RengaSchedule schedule)
{
  const RengaScheduleDurations durations = {
      .seconds = {[RENGA_ACTION_FORWARD] = times->forward,
                  [RENGA_ACTION_BACKWARD] = times->backward,
                  [RENGA_ACTION_BACKWARD_INPUT] = times->half,
                  [RENGA_ACTION_BACKWARD_WEIGHT] = times->half},
      .message = times->message_seconds};
  RengaCall(RengaScheduleSetType(schedule, made->schedule));
  RengaCall(RengaScheduleSetShape(schedule, made->chunks, NULL, made->rounds,
                                  2 * (made->chunks - 1), times->message, false));
  if (made->layout.chunks > 1) RengaCall(RengaScheduleSetRanks(schedule, times->rank));
  RengaCall(RengaScheduleSetUp(schedule));
  RengaCall(RengaScheduleSimulateWith(schedule, &durations, &made->seconds.pipeline,
                                      &made->seconds.bubble));
  return RENGA_SUCCESS;
}

static RengaErrorCode SimulatePipeline(TensorPrediction *made)
{
  PipelineTimes times = {.message = NULL};
  RengaSchedule schedule = NULL;
  RengaErrorCode code = FillTimes(made, &times);
  if (!code) code = RengaScheduleCreate(made->comm, &schedule);
  if (!code) code = SimulateTimes(made, &times, schedule);
  if (schedule) RengaScheduleDestroy(&schedule);
  RengaFree(&times.message);
  RengaFree(&times.message_seconds);
  RengaFree(&times.forward);
  RengaFree(&times.backward);
  RengaFree(&times.half);
  RengaFree(&times.rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Parameters of a rank of the pipeline. */
static int64_t CountElements(const TensorPrediction *made, int rank)
{
  int64_t elements = 0;
  for (int c = rank; c < made->chunks; c += made->layout.stages)
    elements += SumLayoutChunk(made, c).elements;
  return elements;
}

/* Sums over replicas, and of what the first and the last stage share. */
static double TensorReduceSeconds(const TensorPrediction *made, int64_t elements)
{
  const RengaTensorLayout *layout = &made->layout;
  const double size = (double)RengaDataTypeSize(made->storage.gradient);
  double seconds = 2 * RengaTensorGatherSeconds_Private(made->machine, layout->tensor,
                                                        layout->replicas, size * (double)elements);
  if (layout->stages > 1 && made->costs.tied > 0)
    seconds += 2 * RengaTensorGatherSeconds_Private(made->machine,
                                                    (int64_t)layout->tensor * layout->replicas, 2,
                                                    size * (double)made->costs.tied);
  return seconds;
}

static RengaErrorCode PredictEnd(TensorPrediction *made)
{
  int64_t most = 0;
  for (int r = 0; r < made->layout.stages; r++) {
    const int64_t elements = CountElements(made, r);
    if (elements > most) most = elements;
  }
  made->seconds.reduce = TensorReduceSeconds(made, most);
  const int64_t shares = made->shard ? made->layout.replicas : 1;
  const int64_t own = (most + shares - 1) / shares;
  RengaCall(RengaProfileGetUpdateSeconds(made->profile, own, &made->seconds.update));
  made->seconds.step = made->seconds.pipeline + made->seconds.reduce + made->seconds.update;
  return RENGA_SUCCESS;
}

/* Of chunk c, of which a rank may have several: parameters with one sum of gradients; what is made
   again lies there once. */
RengaPlanMemory RengaTensorMemoryOf_Private(const TensorPrediction *made, int chunk)
{
  const RengaStorage *storage = &made->storage;
  const TensorPart sum = SumLayoutChunk(made, chunk);
  const int64_t n = sum.elements, shares = made->shard ? made->layout.replicas : 1;
  const int64_t value = (int64_t)RengaDataTypeSize(storage->value);
  const int64_t master =
      storage->master == storage->value ? 0 : (int64_t)RengaDataTypeSize(storage->master);
  const int64_t moments = made->moments * (int64_t)RengaDataTypeSize(storage->moment);
  const bool first = chunk < made->layout.stages; /* what a rank has once stands in its first */
  const bool again = made->layout.recompute == RENGA_RECOMPUTE_FULL;
  return (RengaPlanMemory){
      .parameters = value * n,
      .gradients = (int64_t)RengaDataTypeSize(storage->gradient) * n,
      .optimizer = (master + moments) * n / shares,
      .saved = (int64_t)(CountFlight(made, chunk % made->layout.stages) * (double)sum.saved),
      .temporary = first || chunk == made->chunks - 1 ? sum.working + (again ? sum.held : 0) : 0,
      .messages = made->chunks > 1 && first
                      ? 4 * made->costs.part[TENSOR_LAYER].whole_sent / made->layout.tensor
                      : 0};
}

static int64_t SumMemory(const RengaPlanMemory *m)
{
  return m->parameters + m->gradients + m->optimizer + m->saved + m->temporary + m->messages +
         m->inputs;
}

int64_t RengaTensorDeviceBytes_Private(const TensorPrediction *made, int rank)
{
  int64_t bytes = 0;
  for (int c = rank; c < made->chunks; c += made->layout.stages) {
    const RengaPlanMemory memory = RengaTensorMemoryOf_Private(made, c);
    bytes += SumMemory(&memory);
  }
  return bytes;
}

RengaErrorCode RengaTensorSimulate_Private(TensorPrediction *made)
{
  made->memory = 0;
  for (int r = 0; r < made->layout.stages; r++) {
    const int64_t bytes = RengaTensorDeviceBytes_Private(made, r);
    if (bytes > made->memory) made->memory = bytes;
  }
  RengaCall(SimulatePipeline(made));
  RengaCall(PredictEnd(made));
  return RENGA_SUCCESS;
}

static void FillStage(const TensorPrediction *made, int nodes, int c, RengaPlanStage *stage)
{
  const TensorRepeat *repeat = &made->repeat;
  const TensorPart sum = SumLayoutChunk(made, c);
  const bool last = c == made->chunks - 1;
  *stage = (RengaPlanStage){.first = c ? repeat->first + repeat->period * FirstLayer(made, c) : 0,
                            .last = last ? nodes
                                         : repeat->first + repeat->period * FirstLayer(made, c + 1),
                            .shape = RengaStageShapePlain(made->layout.replicas),
                            .forward_seconds = sum.forward,
                            .backward_seconds = sum.backward,
                            .again_seconds = sum.again,
                            .weight_seconds = (sum.backward - sum.again) / 2,
                            .reduce_seconds = TensorReduceSeconds(made, sum.elements),
                            .update_seconds = made->seconds.update / made->layout.chunks};
  stage->shape.tensor = made->layout.tensor;
  stage->shape.chunks = made->layout.chunks;
  stage->shape.precision = made->precision;
  if (made->shard) stage->shape.shard = RENGA_SHARD_OPTIMIZER;
  if (made->layout.recompute == RENGA_RECOMPUTE_FULL) stage->shape.saved = RENGA_SAVED_RECOMPUTE;
}

static RengaErrorCode SetRanks(const TensorPrediction *made, RengaPlan plan)
{
  const int each = made->layout.replicas * made->layout.tensor;
  int *ranks = NULL;
  RengaCall(RengaMalloc(made->chunks * each + 1, &ranks));
  for (int c = 0; c < made->chunks; c++)
    for (int r = 0; r < each; r++) ranks[c * each + r] = c % made->layout.stages * each + r;
  const RengaErrorCode code = RengaPlanSetRanks(plan, ranks);
  RengaFree(&ranks);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetStages(const TensorPrediction *made, RengaGraph graph, RengaPlan plan)
{
  RengaPlanStage *stages = NULL;
  RengaCall(RengaMalloc(made->chunks, &stages));
  for (int c = 0; c < made->chunks; c++)
    FillStage(made, RengaGraphGetNodeCount(graph), c, &stages[c]);
  const RengaErrorCode code = RengaPlanSetStages(plan, graph, made->chunks, stages);
  RengaFree(&stages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTensorMakePlan_Private(const TensorPrediction *made, RengaGraph graph,
                                           RengaPlan plan)
{
  const RengaMachineDevice *device;
  RengaCall(RengaMachineGetDevice(made->machine, &device));
  RengaCall(SetStages(made, graph, plan));
  RengaCall(RengaPlanSetBatch(plan, made->layout.batch, made->layout.microbatch));
  RengaCall(SetRanks(made, plan));
  RengaCall(RengaPlanSetSchedule(plan, made->schedule));
  for (int c = 0; c < made->chunks; c++) {
    const RengaPlanMemory memory = RengaTensorMemoryOf_Private(made, c);
    RengaCall(RengaPlanSetMemoryParts(plan, c, &memory));
  }
  RengaCall(RengaPlanSetOrigin(plan, device->name, RENGA_PROFILE_ANALYTIC, device->memory));
  RengaCall(RengaPlanSetPrediction(plan, &made->seconds));
  RengaCall(RengaPlanAddReason(plan, "tensor", made->costs.chosen));
  RengaCall(RengaPlanAddReason(
      plan, RENGA_PLAN_BOUND,
      "none is known of plans that share tensors by rule: of the layouts that were compared this "
      "is the fastest"));
  return RENGA_SUCCESS;
}
