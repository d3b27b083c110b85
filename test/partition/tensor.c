/* TEST ranks: 1 */
/* Predictions with ranks that share tensors, on built GPTs. Where each device has room for its
   share of the parameters alone the choice is Megatron's: columns, heads, rows. Repeated layers are
   looked at once, and cost as if all were; one rank costs what the profile says; what cannot be is
   refused. */
#include "setting.h"
#include <math.h>

/* About nodes of 8 H100. */
static RengaErrorCode Begin(Setting *own, const char *network, int64_t memory, double passes)
{
  const RengaMachineDevice device = {.name = "about-h100",
                                     .memory = memory,
                                     .matrix_rate = 400e12,
                                     .vector_rate = 60e12,
                                     .memory_bandwidth = 2.5e12,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .launch = 5e-6,
                                     .attention_passes = passes};
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 8, .latency = 1e-5, .bandwidth = 300e9},
      {.name = "cluster", .devices = 64, .latency = 1e-5, .bandwidth = 40e9}};
  RengaCall(BeginSetting(own, &device, levels, network, 1));
  return RENGA_SUCCESS;
}

/* Micro-batches of one sample on one stage. */
static RengaErrorCode Predict(const char *network, int64_t memory, int tensor,
                              RengaRecompute recompute, RengaPlanStage *stage, char *reason)
{
  Setting own;
  RengaPlan plan = NULL;
  RengaTensorLayout layout = {.stages = 1,
                              .replicas = 1,
                              .tensor = tensor,
                              .chunks = 1,
                              .batch = 64,
                              .microbatch = 1,
                              .recompute = recompute};
  const char *topic, *sentence;
  RengaCall(Begin(&own, network, memory, 4));
  RengaCall(RengaPartitionPredictTensor(own.partition, &layout, &plan));
  *stage = *RengaPlanGetStage(plan, 0);
  RengaCall(RengaPlanGetReason(plan, 0, &topic, &sentence));
  Expect(topic && !strcmp(topic, "tensor"));
  if (reason) strcpy(reason, sentence);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMegatron(void)
{
  static const char network[] = "gpt:layers=8,hidden=4096,heads=32,sequence=2048,vocabulary=50264";
  static const char *const parts[] = {"qkv.weight along 0 in 3 parts of units of 128",
                                      "proj.weight along 1", "fc.weight along 0",
                                      "out.weight along 1", "wte.weight along 0"};
  RengaPlanStage narrow, wide;
  char text[2048], free[2048];
  /* 1.8 G parameters with moments and gradients, an eighth of them, and saved tensors */
  RengaCall(Predict(network, (int64_t)5 << 30, 8, RENGA_RECOMPUTE_SELECTIVE, &narrow, text));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    RengaCheck(strstr(text, parts[i]), MPI_COMM_SELF, RENGA_ERR_INTERNAL, "no \"%s\" in \"%s\"",
               parts[i], text);
  Expect(narrow.shape.tensor == 8 && narrow.memory <= (int64_t)5 << 30);
  RengaCall(Predict(network, (int64_t)1 << 40, 8, RENGA_RECOMPUTE_SELECTIVE, &wide, free));
  Expect(strstr(free, "qkv.weight whole"));
  Expect(wide.forward_seconds + wide.backward_seconds <
         narrow.forward_seconds + narrow.backward_seconds);
  return RENGA_SUCCESS;
}

/* What n layers take is a + n b, be all of them looked at (3) or one for all. */
static RengaErrorCode TestLayers(void)
{
  static const int counts[] = {3, 5, 9};
  double seconds[3];
  for (int i = 0; i < 3; i++) {
    char network[96];
    RengaPlanStage stage;
    snprintf(network, sizeof network,
             "gpt:layers=%d,hidden=1024,heads=16,sequence=512,vocabulary=50264", counts[i]);
    RengaCall(Predict(network, (int64_t)1 << 40, 8, RENGA_RECOMPUTE_NONE, &stage, NULL));
    seconds[i] = stage.forward_seconds + stage.backward_seconds;
  }
  const double first = seconds[1] - seconds[0], second = seconds[2] - seconds[1];
  Expect(first > 0 && fabs(second / first - 2) < 1e-6);
  return RENGA_SUCCESS;
}

/* One rank shares nothing: its stage is the network of the profile, with what is made again. */
static RengaErrorCode TestOneRank(void)
{
  static const char network[] = "gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=1000";
  Setting own;
  RengaProfileCost *costs = NULL;
  RengaPlanStage none, selective, full;
  double forward = 0, backward = 0, attention = 0;
  RengaCall(Begin(&own, network, (int64_t)1 << 40, 4));
  const int nodes = RengaGraphGetNodeCount(own.graph);
  RengaCall(RengaMalloc(nodes, &costs));
  RengaCall(RengaProfileSetGraph(own.profile, own.graph));
  RengaCall(RengaProfileGetCosts(own.profile, 1, costs));
  for (int n = 0; n < nodes; n++) {
    forward += costs[n].forward;
    backward += costs[n].backward;
    if (!strcmp(RengaGraphGetNode(own.graph, n)->op->name, "Attention"))
      attention += costs[n].forward;
  }
  RengaFree(&costs);
  RengaCall(EndSetting(&own));
  RengaCall(Predict(network, (int64_t)1 << 40, 1, RENGA_RECOMPUTE_NONE, &none, NULL));
  RengaCall(Predict(network, (int64_t)1 << 40, 1, RENGA_RECOMPUTE_SELECTIVE, &selective, NULL));
  RengaCall(Predict(network, (int64_t)1 << 40, 1, RENGA_RECOMPUTE_FULL, &full, NULL));
  Expect(fabs(none.forward_seconds / forward - 1) < 1e-9);
  Expect(fabs(none.backward_seconds / backward - 1) < 1e-9);
  Expect(attention > 0 && fabs(selective.again_seconds / attention - 1) < 1e-9);
  Expect(full.again_seconds > selective.again_seconds);
  Expect(full.parts.saved < selective.parts.saved && selective.parts.saved < none.parts.saved);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectRefusal(Setting *own, RengaTensorLayout layout, RengaErrorCode expected,
                                    const char *words)
{
  RengaPlan plan = NULL;
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaPartitionPredictTensor(own->partition, &layout, &plan);
  const char *text = EndErrors(file, saved);
  RengaCheck(code == expected && strstr(text, words), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "expected \"%s\", code %d: code %d, %s", words, (int)expected, (int)code, text);
  return RENGA_SUCCESS;
}

/* Of the machine of TestLayouts; its four layers go in two stages of two chunks. */
static RengaErrorCode TestOddLayouts(Setting *own, const RengaTensorLayout *layout)
{
  RengaPlan plan = NULL;
  RengaTensorLayout open = {.tensor = 2, .chunks = 2, .batch = 128, .microbatch = 1}, bad;
  RengaCall(RengaPartitionPredictTensor(own->partition, &open, &plan));
  Expect(open.stages == 2 && open.chunks == 2);
  RengaCall(RengaPlanDestroy(&plan));
  bad = open;
  bad.stages = 0;
  bad.replicas = 32;
  RengaCall(ExpectRefusal(own, bad, RENGA_ERR_PLAN, "has 2 chunks on each of several stages"));
  bad = *layout;
  bad.stages = 1;
  RengaCall(ExpectRefusal(own, bad, RENGA_ERR_ARGUMENT, "a pipeline that has one stage only"));
  bad = *layout;
  bad.recompute = (RengaRecompute)4;
  RengaCall(ExpectRefusal(own, bad, RENGA_ERR_ARGUMENT, "4 is no RengaRecompute"));
  bad = *layout;
  bad.split = (RengaTensorSplit)7;
  RengaCall(ExpectRefusal(own, bad, RENGA_ERR_ARGUMENT, "7 is no kind of split"));
  bad = (RengaTensorLayout){.tensor = 1, .batch = 3, .replicas = 2};
  RengaCall(ExpectRefusal(own, bad, RENGA_ERR_PLAN, "cuts the batch of 3 into whole"));
  return RENGA_SUCCESS;
}

/* The network's four layers in two stages of two chunks; what is open is chosen. */
static RengaErrorCode TestLayouts(void)
{
  Setting own;
  RengaPlan plan = NULL;
  RengaTensorLayout layout = {.stages = 2,
                              .replicas = 2,
                              .tensor = 4,
                              .chunks = 2,
                              .batch = 16,
                              .microbatch = 1,
                              .recompute = RENGA_RECOMPUTE_NONE,
                              .split = RENGA_TENSOR_SPLIT_FEATURES};
  RengaTensorLayout open = {.tensor = 2,
                            .batch = 128,
                            .microbatch = 1,
                            .split = RENGA_TENSOR_SPLIT_FEATURES},
                    bad;
  RengaPlanPrediction prediction;
  RengaCall(Begin(&own, "gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=1000",
                  (int64_t)64 << 20, 0));
  RengaCall(RengaPartitionPredictTensor(own.partition, &layout, &plan));
  Expect(RengaPlanGetStageCount(plan) == 4 && RengaPlanGetRankCount(plan) == 16);
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  Expect(prediction.reduce > 0 && prediction.step > prediction.pipeline);
  Expect(RengaPlanGetStage(plan, 3)->shape.tensor == 4);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionPredictTensor(own.partition, &open, &plan));
  Expect(open.stages && open.replicas && open.chunks && open.microbatch && open.recompute);
  RengaCall(RengaPlanDestroy(&plan));
  bad = layout;
  bad.tensor = 32;
  RengaCall(
      ExpectRefusal(&own, bad, RENGA_ERR_ARGUMENT, "need 128 devices, but the machine has 64"));
  bad = layout;
  bad.stages = 4;
  RengaCall(ExpectRefusal(&own, bad, RENGA_ERR_ARGUMENT, "has 4 layers that are alike"));
  bad = layout;
  bad.microbatch = 3;
  RengaCall(ExpectRefusal(&own, bad, RENGA_ERR_ARGUMENT, "no whole number of micro-batches of 3"));
  bad = layout;
  bad.batch = 0;
  RengaCall(ExpectRefusal(&own, bad, RENGA_ERR_ARGUMENT, "a batch of 0"));
  RengaCall(TestOddLayouts(&own, &layout));
  RengaCall(EndSetting(&own));
  RengaCall(Begin(&own, "gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=1000",
                  (int64_t)2 << 20, 0));
  RengaCall(ExpectRefusal(&own, layout, RENGA_ERR_PLAN, "fits: the nearest takes"));
  RengaCall(RengaPartitionSetMemory(own.partition, 1 << 20));
  RengaCall(ExpectRefusal(&own, layout, RENGA_ERR_PLAN, "of a device's 1.00 MiB"));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(TestMegatron());
  RengaCall(TestLayers());
  RengaCall(TestOneRank());
  RengaCall(TestLayouts());
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
