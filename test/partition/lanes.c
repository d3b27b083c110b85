/* TEST ranks: 1 */
/* What a plan with tensor ranks takes, against numbers by hand: of the rank with most lanes its
   nodes and those in no lane, exchanges by latency and bytes, its own parts of parameters. */
#include "renga/private/graph.h"
#include "setting.h"
#include <math.h>
#include <string.h>

enum { BATCH = 24, MICROBATCH = 3, MICROBATCHES = 8, ELEMENTS = 492 };
static const double latency = 1e-5, bandwidth = 1e9, far_latency = 1e-3, far_bandwidth = 1e8;

/* On nodes of two devices; of lanes of tokens as many as context ranks. */
static RengaErrorCode BeginBoth(Setting *own, const char *network, int lanes, int tensor,
                                int context, int stages)
{
  const RengaMachineDevice device = {.name = "device",
                                     .memory = (int64_t)1 << 30,
                                     .matrix_rate = 1e9,
                                     .vector_rate = 1e9,
                                     .memory_bandwidth = 1e9,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .launch = 1e-6};
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 2, .latency = latency, .bandwidth = bandwidth},
      {.name = "cluster", .devices = 64, .latency = far_latency, .bandwidth = far_bandwidth}};
  RengaCall(BeginSetting(own, &device, levels, network, lanes, context));
  RengaCall(RengaPartitionSetBatch(own->partition, BATCH, MICROBATCH));
  RengaCall(RengaPartitionSetTensor(own->partition, tensor));
  RengaCall(RengaPartitionSetSequence(own->partition, context));
  RengaCall(RengaPartitionSetStages(own->partition, stages));
  RengaCall(RengaPartitionSetRanks(own->partition, stages * context * tensor));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginWith(Setting *own, const char *network, int lanes, int tensor,
                                int stages)
{
  RengaCall(BeginBoth(own, network, lanes, tensor, 1, stages));
  return RENGA_SUCCESS;
}

/* Two chains, 8-16-8 and 8-16-4. */
static RengaErrorCode Begin(Setting *own, int lanes, int tensor, int stages)
{
  RengaCall(BeginWith(own, "mlp:sizes=8-16-8-16-4", lanes, tensor, stages));
  return RENGA_SUCCESS;
}

static bool IsClose(double a, double b)
{
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Seconds of the nodes that the rank with lanes [first, end) runs, forward and backward; parts of
   parameters are not made, nor pieces of sums backward. */
static RengaErrorCode AddNodes(const Setting *own, int first, int end, double seconds[2])
{
  const int n_nodes = RengaGraphGetNodeCount(own->graph);
  RengaProfileCost *costs = NULL;
  RengaCall(RengaMalloc(n_nodes, &costs));
  const RengaErrorCode code = RengaProfileGetCosts(own->profile, MICROBATCH, costs);
  seconds[0] = seconds[1] = 0;
  for (int n = 0; n < n_nodes && !code; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(own->graph, n);
    const bool pieces = RengaGraphIsOfPieces_Private(own->graph, n);
    if (!strcmp(node->op->name, "Split") && !pieces) continue;
    if (node->lane && (node->lane - 1 < first || node->lane > end)) continue;
    seconds[0] += costs[n].forward;
    if (!pieces) seconds[1] += costs[n].backward;
  }
  RengaFree(&costs);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What tensor ranks give each other in a micro-batch: exchanges, and elements of a sample; backward
   also elements of whole biases. */
typedef struct {
  int forward, backward;
  double terms, gradients, biases;
} Exchanged;

/* The fullest of two tensor ranks has lanes [first, end), and with them `units` of the 16 hidden
   columns of each chain. Lane 0 alone has biases of sums: so of two equal ranks the first is the
   fullest. */
static RengaErrorCode CheckOneStage(int lanes, int first, int end, int units,
                                    const Exchanged *exchanged)
{
  Setting own;
  RengaPlan plan = NULL;
  RengaPlanPrediction prediction;
  double seconds[2], add, update;
  const double all[] = {4 * MICROBATCH * exchanged->terms,
                        4 * MICROBATCH * exchanged->gradients + 4 * exchanged->biases};
  const double held = (8 + 1 + 8) * units + 8 + (8 + 1 + 4) * units + 4;
  RengaCall(Begin(&own, lanes, 2, 1));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  const RengaPlanStage *stage = RengaPlanGetStage(plan, 0);
  RengaCall(AddNodes(&own, first, end, seconds));
  RengaCall(RengaProfileGetAccumulateSeconds(own.profile, ELEMENTS, &add));
  RengaCall(RengaProfileGetUpdateSeconds(own.profile, ELEMENTS, &update));
  add *= held / ELEMENTS; /* as all other plans are taken to add and update */
  update *= held / ELEMENTS;
  Expect(stage->shape.tensor == 2);
  Expect(IsClose(stage->forward_seconds,
                 seconds[0] + exchanged->forward * latency + all[0] / bandwidth));
  Expect(IsClose(stage->backward_seconds,
                 seconds[1] + exchanged->backward * latency + all[1] / bandwidth + add));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  Expect(IsClose(prediction.pipeline,
                 MICROBATCHES * (stage->forward_seconds + stage->backward_seconds)));
  Expect(IsClose(prediction.update, update));
  Expect(prediction.reduce == 0 && fabs(prediction.bubble) < 1e-9);
  Expect(prediction.bound > 0 && prediction.bound <= prediction.step * (1 + 1e-9));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

/* A table of 32 rows that is the output layer as well: a rank has half of it, once, of a stage that
   looks it up and multiplies by it. Positions, norms and biases of sums are whole. */
static RengaErrorCode CheckTiedTable(void)
{
  static const char network[] = "gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=32";
  const double halves = 32 * 8 + (8 + 1) * 24 + 8 * 8 + (8 + 1) * 32 + 32 * 8;
  const double whole = 4 * 8 + 3 * 16 + 8 + 8;
  double update[2], all[2] = {halves + whole, halves / 2 + whole};
  for (int i = 0; i < 2; i++) {
    Setting own;
    RengaPlan plan = NULL;
    RengaPlanPrediction prediction;
    RengaCall(BeginWith(&own, network, 2, 1 + i, 1));
    RengaCall(RengaPartitionSetType(own.partition, RENGA_PARTITION_EVEN));
    RengaCall(RengaPartitionSolve(own.partition, &plan));
    RengaCall(RengaPlanGetPrediction(plan, &prediction));
    update[i] = prediction.update;
    RengaCall(RengaPlanDestroy(&plan));
    RengaCall(EndSetting(&own));
  }
  Expect(IsClose(update[1] / update[0], all[1] / all[0]));
  return RENGA_SUCCESS;
}

/* A group of two ranks has one node, one of four has two: latencies are those of the widest of
   their links, and of three peers one is in the same node. */
static RengaErrorCode CheckLevels(void)
{
  static const int tensor[] = {2, 4};
  double forward[2];
  for (int i = 0; i < 2; i++) {
    Setting own;
    RengaPlan plan = NULL;
    double seconds[2];
    /* of each sum half to the other rank, and half of the sum; or half to one, a quarter to
       another, and a quarter of the sum to three */
    const double share = i ? 1. / 2 + 1. / 4 + 3. / 4 : 1;
    const double bytes = share * MICROBATCH * (8 + 4) * 4;
    RengaCall(Begin(&own, 4, tensor[i], 1));
    RengaCall(RengaPartitionSolve(own.partition, &plan));
    RengaCall(AddNodes(&own, 0, i ? 1 : 2, seconds));
    forward[i] = RengaPlanGetStage(plan, 0)->forward_seconds - seconds[0];
    const double far = i ? 2. / 3 : 0;
    Expect(IsClose(forward[i], (i ? 6 * far_latency : 4 * latency) + far * bytes / far_bandwidth +
                                   (1 - far) * bytes / bandwidth));
    RengaCall(RengaPlanDestroy(&plan));
    RengaCall(EndSetting(&own));
  }
  return RENGA_SUCCESS;
}

/* Two context ranks of two tensor ranks each, on two nodes. Tensor ranks give each other the terms
   of two sums, over links within a node; context ranks keys and values of their heads, and the
   losses of their tokens, over those between nodes. */
static RengaErrorCode CheckContext(void)
{
  static const char network[] = "gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=11";
  const double near = 4 * MICROBATCH * 2 * (2 * 8), far = 4 * (MICROBATCH * 2 * (2 * 4) + 1);
  Setting own;
  RengaPlan plan = NULL;
  RengaProfileCost *costs = NULL;
  double seconds = 0;
  RengaCall(BeginBoth(&own, network, 2, 2, 2, 1));
  RengaCall(RengaPartitionSetType(own.partition, RENGA_PARTITION_EVEN));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  const RengaPlanStage *stage = RengaPlanGetStage(plan, 0);
  Expect(stage->shape.tensor == 2 && stage->shape.sequence == 2);
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(own.graph), &costs));
  RengaCall(RengaProfileGetCosts(own.profile, MICROBATCH, costs));
  for (int n = 0; n < RengaGraphGetNodeCount(own.graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(own.graph, n);
    const bool cuts = !strcmp(node->op->name, "Split") &&
                      RengaGraphGetValue(own.graph, node->in[0])->kind == RENGA_VALUE_PARAMETER;
    const int lane =
        RengaLaneMake(RENGA_LANES_OF_HEADS, 0) | RengaLaneMake(RENGA_LANES_OF_TOKENS, 0);
    if (!cuts && RengaLaneCovers(node->lane, lane)) seconds += costs[n].forward;
  }
  Expect(IsClose(stage->forward_seconds,
                 seconds + 4 * far_latency + near / bandwidth + far / far_bandwidth));
  RengaFree(&costs);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

/* Of two stages on two nodes: a message goes from each tensor rank to its own, and all wait for
   it. */
static RengaErrorCode CheckTwoStages(void)
{
  Setting own;
  RengaPlan plan = NULL;
  RengaPlanPrediction prediction;
  double work = 0;
  RengaCall(Begin(&own, 2, 2, 2));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  for (int s = 0; s < 2; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    work = fmax(work, stage->forward_seconds + stage->backward_seconds);
  }
  Expect(prediction.pipeline >= MICROBATCHES * work + 2 * far_latency);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

/* One micro-batch on two ranks, which replicas cannot share and stages cannot overlap: two tensor
   ranks are faster where links are, one where they are not, and two where one is too large. */
static RengaErrorCode Choose(const char *type, int tensor, double link, int64_t memory,
                             RengaPlan *plan)
{
  Setting own;
  const RengaMachineLevel level = {
      .name = "node", .devices = 2, .latency = link, .bandwidth = 1 / link};
  RengaCall(Begin(&own, 2, 1, 1));
  RengaCall(RengaPartitionSetTensor(own.partition, tensor));
  RengaCall(RengaMachineSetLevels(own.machine, 1, &level));
  RengaCall(RengaPartitionSetType(own.partition, type));
  RengaCall(RengaPartitionSetBatch(own.partition, MICROBATCH, MICROBATCH));
  RengaCall(RengaPartitionSetRanks(own.partition, 2));
  RengaCall(RengaPartitionSetMemory(own.partition, memory));
  const RengaErrorCode code = RengaPartitionSolve(own.partition, plan);
  RengaCall(EndSetting(&own));
  return code;
}

static RengaErrorCode ExpectChoice(double link, int64_t memory, int tensor, const char *said)
{
  RengaPlan plan = NULL;
  const char *topic = "", *sentence;
  RengaCall(Choose(RENGA_PARTITION_AUTO, RENGA_PARTITION_TENSOR_AUTO, link, memory, &plan));
  Expect(RengaPlanGetStage(plan, 0)->shape.tensor == tensor);
  for (int r = 0; topic && strcmp(topic, "tensor-parallel degrees"); r++)
    RengaCall(RengaPlanGetReason(plan, r, &topic, &sentence));
  RengaCheck(topic && strstr(sentence, said), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "no \"%s\" in \"%s\"", said, topic ? sentence : "");
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckChoice(void)
{
  RengaPlan plan = NULL;
  RengaCall(ExpectChoice(1e-9, 0, 2, "2: "));
  RengaCall(ExpectChoice(1e-4, 0, 1, " us (1 stage, 1 rank, micro-batches of 3); 2: "));
  RengaCall(Choose(RENGA_PARTITION_EVEN, 2, 1e-4, 0, &plan));
  const int64_t memory = RengaPlanGetStage(plan, 0)->memory;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(ExpectChoice(1e-4, memory, 2, "1: none (the network does not fit"));
  ExpectError(Choose(RENGA_PARTITION_AUTO, RENGA_PARTITION_TENSOR_AUTO, 1e-4, memory / 2, &plan),
              RENGA_ERR_MEMORY,
              "nor is there a plan with tensor-parallel ranks (-layout_tensor auto): ");
  ExpectError(Choose(RENGA_PARTITION_EVEN, RENGA_PARTITION_TENSOR_AUTO, 1e-4, 0, &plan),
              RENGA_ERR_SUPPORT, "-layout_tensor auto is not supported by -partition_type even");
  return RENGA_SUCCESS;
}

/* Nodes of three devices: groups of two would lie on two of them, and are not compared. They can be
   asked for. */
static RengaErrorCode CheckAcross(void)
{
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 3, .latency = latency, .bandwidth = bandwidth},
      {.name = "cluster", .devices = 12, .latency = far_latency, .bandwidth = far_bandwidth}};
  for (int given = 0; given < 2; given++) {
    Setting own;
    RengaPlan plan = NULL;
    const char *topic = "", *sentence;
    bool said = false;
    RengaCall(Begin(&own, 2, 2, 1));
    if (!given) RengaCall(RengaPartitionSetTensor(own.partition, RENGA_PARTITION_TENSOR_AUTO));
    RengaCall(RengaMachineSetLevels(own.machine, 2, levels));
    RengaCall(RengaPartitionSetType(own.partition, RENGA_PARTITION_AUTO));
    RengaCall(RengaPartitionSetStages(own.partition, 0));
    RengaCall(RengaPartitionSetRanks(own.partition, 6));
    RengaCall(RengaPartitionSolve(own.partition, &plan));
    Expect(RengaPlanGetStage(plan, 0)->shape.tensor == 1 + given);
    for (int r = 0; topic; r++) {
      RengaCall(RengaPlanGetReason(plan, r, &topic, &sentence));
      if (topic && !strcmp(topic, "left out")) Expect(given || !strstr(sentence, "-layout_tensor"));
      said = said || (topic && strstr(sentence, "2: not looked at, as groups would lie across"));
    }
    Expect(said == !given);
    RengaCall(RengaPlanDestroy(&plan));
    RengaCall(EndSetting(&own));
  }
  return RENGA_SUCCESS;
}

/* What is kept of one lane is kept of the other. */
static RengaErrorCode ExpectTwinsKept(RengaPlan plan)
{
  const char *const *name;
  int count, in_lanes = 0;
  RengaCall(RengaPlanGetKept(plan, 0, &count, &name));
  for (int k = 0; k < count; k++) {
    char twin[256];
    const char *lane = strstr(name[k], ".lane");
    bool found = false;
    if (!lane) continue;
    in_lanes++;
    snprintf(twin, sizeof twin, "%s", name[k]);
    twin[lane - name[k] + 5] = lane[5] == '0' ? '1' : '0';
    for (int i = 0; i < count; i++) found = found || !strcmp(name[i], twin);
    RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s is kept, %s is not", name[k], twin);
  }
  Expect(in_lanes > 0);
  return RENGA_SUCCESS;
}

/* What does not fit by a little makes again what comes of no exchange; who is told to makes all. */
static RengaErrorCode CheckAgain(void)
{
  const double link = 1e-2; /* beside which work is nothing */
  Setting own;
  RengaSettings settings;
  RengaPlan plan = NULL;
  RengaCall(Choose(RENGA_PARTITION_EVEN, 2, link, 0, &plan));
  const int64_t memory = RengaPlanGetStage(plan, 0)->memory;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(Choose(RENGA_PARTITION_EVEN, 2, link, memory - 64, &plan));
  RengaCall(ExpectTwinsKept(plan));
  const RengaPlanStage *stage = RengaPlanGetStage(plan, 0);
  Expect(stage->shape.saved == RENGA_SAVED_RECOMPUTE && stage->memory <= memory - 64);
  Expect(stage->again_seconds > 0 && stage->again_seconds < link);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(Begin(&own, 2, 2, 1));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  const double backward = RengaPlanGetStage(plan, 0)->backward_seconds;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionGetSettings(own.partition, &settings));
  RengaCall(RengaSettingsSetRecompute(settings, RENGA_RECOMPUTE_FULL));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  stage = RengaPlanGetStage(plan, 0);
  Expect(stage->shape.saved == RENGA_SAVED_RECOMPUTE);
  Expect(stage->again_seconds > 2 * latency && stage->again_seconds <= stage->forward_seconds);
  Expect(IsClose(stage->backward_seconds, backward + stage->again_seconds)); /* exchanges once */
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  /* Two lanes: terms whole, each sum in an exchange, of 8 and of 4 elements; the gradient of what
     lies between the chains, with that of the last bias, then that of the other bias. */
  const Exchanged whole = {2, 2, 8 + 4, 8, 4 + 8};
  /* Lanes of 5, 5 and 6 columns; pieces of sums have 2, 3 and 3 or 1, 1 and 2 elements. Lane 1
     gives lane 0 the first and the last, and lane 2 the first; then lane 0 gives the last of both
     to lane 2, and its sum to the other rank; then lane 2 its own. Backward rank 0 gives its
     second and last piece, and the other one the sums of these. */
  const Exchanged pieces = {6, 3, 7 + 5 + 3 + 4 + 3 + 2, 6 + 6, 4 + 8};
  RengaCall(CheckOneStage(2, 0, 1, 8, &whole));
  RengaCall(CheckOneStage(3, 1, 3, 11, &pieces));
  RengaCall(CheckTiedTable());
  RengaCall(CheckLevels());
  RengaCall(CheckTwoStages());
  RengaCall(CheckContext());
  RengaCall(CheckChoice());
  RengaCall(CheckAgain());
  RengaCall(CheckAcross());
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
