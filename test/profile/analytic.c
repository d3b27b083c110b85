/* TEST ranks: 1 2 */
/* Analytic costs are the formulas, node by node, forward and backward; what costs nothing costs
   nothing; a long network is priced in no time worth mention. */
#include "../check.h"
#include "rengacomm.h"
#include "rengaprofile.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 16, SAMPLES = 3, LAYERS = 2000 };
static RengaComm comm;
static RengaMachine machine;
static double slow_host, uneven; /* of the device of typed products */
static int lanes = 1;            /* of MakeGraph */

static const RengaMachineDevice plain = {.name = "test",
                                         .memory = 1 << 30,
                                         .matrix_rate = 8e9,
                                         .vector_rate = 2e9,
                                         .memory_bandwidth = 4e9,
                                         .matrix_efficiency = 0.5,
                                         .vector_efficiency = 0.25,
                                         .bandwidth_efficiency = 0.5,
                                         .launch = 1e-6};
static const RengaMachineLevel pair = {
    .name = "node", .devices = 2, .latency = 1e-6, .bandwidth = 1e10};

static RengaErrorCode MakeMachine(void)
{
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineSetDevice(machine, &plain));
  RengaCall(RengaMachineSetLevels(machine, 1, &pair));
  return RENGA_SUCCESS;
}

/* x[N,16] -> `layers` x (Linear, Relu) -> Linear -> cross-entropy */
static RengaErrorCode MakeGraph(int layers, RengaGraph *graph)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, WIDTH}};
  const RengaTensorSpec label_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels, loss;
  char name[32];
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &x_spec, &x));
  RengaCall(RengaGraphAddInput(*graph, "labels", &label_spec, &labels));
  for (int l = 0; l <= layers; l++) {
    snprintf(name, sizeof name, "layer%d", l);
    RengaCall(RengaGraphAddLinear(*graph, name, x, WIDTH, true, 0.1, &x));
    if (l < layers) RengaCall(RengaGraphAddUnary(*graph, "Relu", x, &x));
  }
  RengaCall(RengaGraphAddCrossEntropy(*graph, x, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(*graph, loss));
  if (lanes > 1) RengaCall(RengaGraphSetLanes(*graph, lanes));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static double Roof(double flops, double rate, double bytes)
{
  const double work = flops / rate, traffic = bytes / 2e9;
  return (work > traffic ? work : traffic) + 1e-6;
}

static bool Near(double a, double b)
{
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* The costs of layer l; the first has no gradient of its input to find. */
static RengaErrorCode CheckLayer(RengaGraph graph, const RengaProfileCost costs[], int l)
{
  int linear = -1, relu = -1;
  for (int n = 0, seen = 0; n < RengaGraphGetNodeCount(graph) && relu < 0; n++) {
    const char *op = RengaGraphGetNode(graph, n)->op->name;
    if (strcmp(op, "Linear") == 0 && seen++ == l) linear = n;
    if (strcmp(op, "Relu") == 0 && linear >= 0) relu = n;
  }
  Expect(linear >= 0 && relu >= 0);
  const double x = 4.0 * SAMPLES * WIDTH, w = 4.0 * WIDTH * WIDTH, b = 4.0 * WIDTH;
  const double product = 2.0 * SAMPLES * WIDTH * WIDTH;
  Expect(Near(costs[relu].forward, Roof(SAMPLES * WIDTH, 5e8, 2 * x)));
  Expect(costs[relu].backward > 0);
  Expect(costs[linear].forward >= Roof(product, 4e9, 2 * x + w + b));
  double least = Roof(product, 4e9, 2 * x + w); /* dw; then the bias, and dx */
  if (l > 0) least += Roof(product, 4e9, 2 * x + w);
  Expect(costs[linear].backward > least && costs[linear].backward < least + 2e-6 + x / 1e8);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestFormulas(void)
{
  RengaGraph graph, same;
  RengaProfile profile;
  RengaMachine lent;
  RengaProfileCost *costs;
  double seconds;
  RengaCall(MakeGraph(3, &graph));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph), &costs));
  ExpectError(RengaProfileGetCosts(profile, SAMPLES, costs), RENGA_ERR_ORDER, "");
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileGetGraph(profile, &same));
  Expect(same == graph);
  ExpectError(RengaProfileGetCosts(profile, SAMPLES, costs), RENGA_ERR_ORDER, "");
  RengaCall(RengaProfileSetMachine(profile, machine));
  ExpectError(RengaProfileGetCosts(profile, 0, costs), RENGA_ERR_ARGUMENT, "");
  RengaCall(RengaProfileGetCosts(profile, SAMPLES, costs));
  for (int l = 0; l < 3; l++) RengaCall(CheckLayer(graph, costs, l));
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    const bool free =
        RengaGraphGetValue(graph, node->out[0])->prepared || (node->op->flags & RENGA_OP_RESHAPE);
    Expect((costs[n].forward == 0) == free && (!free || costs[n].backward == 0));
  }
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000, &seconds)); /* adamw */
  Expect(Near(seconds, 28000 / 2e9 + 1e-6));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, 1000, &seconds));
  Expect(Near(seconds, 12000 / 2e9 + 1e-6));
  RengaCall(RengaProfileGetMachine(profile, &lent));
  Expect(lent == machine);
  RengaFree(&costs);
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* All layers of a long network but the first cost the same, and costs grow with the samples. */
static RengaErrorCode TestLong(void)
{
  RengaGraph graph;
  RengaProfile profile;
  RengaProfileCost *costs, *more;
  double seen[2] = {0, 0};
  RengaCall(MakeGraph(LAYERS, &graph));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaProfileSetFromOptions(profile)); /* analytic, as there is a machine */
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph), &costs));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph), &more));
  RengaCall(RengaProfileGetCosts(profile, 1, costs));
  RengaCall(RengaProfileGetCosts(profile, 64, more));
  for (int n = 0, linear = 0; n < RengaGraphGetNodeCount(graph); n++) {
    Expect(more[n].forward >= costs[n].forward && more[n].backward >= costs[n].backward);
    if (strcmp(RengaGraphGetNode(graph, n)->op->name, "Linear") || linear++ == 0) continue;
    if (linear == 2) seen[0] = costs[n].forward, seen[1] = costs[n].backward;
    Expect(costs[n].forward == seen[0] && costs[n].backward == seen[1]);
  }
  RengaFree(&costs);
  RengaFree(&more);
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Products of matrices of a type, at the rate of that type, which is asked for where it is missing;
   in -precision tf32 those of float32 have a rate of their own. */
static RengaErrorCode TestType(RengaDataType type, RengaPrecision precision, const char *key,
                               double rate)
{
  const RengaTensorSpec spec = {.type = type, .ndim = 3, .dim = {-1, 64, 64}};
  RengaMachineDevice device = {.name = "typed",
                               .memory = 1 << 30,
                               .matrix_rate = 8e9,
                               .vector_rate = 2e9,
                               .memory_bandwidth = 4e12,
                               .matrix_efficiency = 0.5,
                               .vector_efficiency = 0.25,
                               .bandwidth_efficiency = 0.5,
                               .launch = 1e-6,
                               .host = slow_host,
                               .spread = uneven};
  const RengaMachineLevel level = {
      .name = "node", .devices = 2, .latency = 1e-6, .bandwidth = 1e10};
  RengaGraph graph;
  RengaMachine typed;
  RengaProfile profile;
  RengaProfileCost cost[1];
  RengaValue a, b, y;
  if (type == RENGA_FLOAT64) device.matrix_rate_float64 = rate;
  if (type == RENGA_BFLOAT16) device.matrix_rate_bfloat16 = rate;
  if (type == RENGA_FLOAT16) device.matrix_rate_float16 = rate;
  if (precision == RENGA_PRECISION_TF32) device.matrix_rate_tf32 = rate;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetPrecision(graph, precision, NULL));
  RengaCall(RengaGraphAddInput(graph, "a", &spec, &a));
  const RengaTensorSpec weights = {.type = type, .ndim = 2, .dim = {64, 64}};
  RengaCall(RengaGraphAddParameter(graph, "b", &weights, NULL, &b));
  RengaCall(RengaGraphAddMatMul(graph, a, b, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(RengaGraphSetUp(graph));
  Expect(RengaGraphGetNodeCount(graph) == 1);
  RengaCall(RengaMachineCreate(comm, &typed));
  RengaCall(RengaMachineSetDevice(typed, &device));
  RengaCall(RengaMachineSetLevels(typed, 1, &level));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileSetMachine(profile, typed));
  if (rate > 0) {
    RengaCall(RengaProfileGetCosts(profile, 1, cost));
    const double alone = fmax(2.0 * 64 * 64 * 64 / (0.5 * rate) + 1e-6, slow_host);
    Expect(Near(cost[0].forward, alone * (1 + uneven * sqrt(2 * log(2)))));
  } else
    ExpectError(RengaProfileGetCosts(profile, 1, cost), RENGA_ERR_SUPPORT,
                RengaCommGetRank(comm) == 0 ? key : "");
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&typed));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Two linear layers in -precision fp8: the first one's factors are rounded, by four kernels, which
   read them twice and write a byte for each number; the last one is of bfloat16. */
static RengaErrorCode TestFp8(void)
{
  enum { SIDE = 64 };
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, SIDE}};
  const RengaTensorSpec weight = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {SIDE, SIDE}};
  RengaMachineDevice device = plain;
  RengaGraph graph;
  RengaMachine eights;
  RengaProfile profile;
  RengaProfileCost cost[2];
  RengaValue x;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_FP8, NULL));
  RengaCall(RengaGraphAddInput(graph, "x", &spec, &x));
  for (int i = 0; i < 2; i++) {
    RengaValue w;
    RengaCall(RengaGraphAddParameter(graph, i ? "last" : "first", &weight, NULL, &w));
    RengaCall(RengaGraphAddMatMul(graph, x, w, &x));
  }
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaMachineCreate(comm, &eights));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  for (int known = 0; known < 2; known++) {
    device.matrix_rate_bfloat16 = 16e9;
    device.matrix_rate_fp8 = known ? 1e9 : 0;
    RengaCall(RengaMachineSetDevice(eights, &device));
    RengaCall(RengaMachineSetLevels(eights, 1, &pair));
    RengaCall(RengaProfileSetGraph(profile, graph));
    RengaCall(RengaProfileSetMachine(profile, eights));
    if (!known)
      ExpectError(RengaProfileGetCosts(profile, SIDE, cost), RENGA_ERR_SUPPORT,
                  RengaCommGetRank(comm) == 0 ? "a Linear of fp8 values" : "",
                  RengaCommGetRank(comm) == 0 ? "give it a matrix_rate_fp8" : "");
  }
  RengaCall(RengaProfileGetCosts(profile, SIDE, cost));
  const double work = 2.0 * SIDE * SIDE * SIDE, numbers = SIDE * SIDE, bytes = numbers * (9 + 5);
  Expect(Near(cost[0].forward, work / 0.5e9 + bytes / 2e9 + 5e-6));
  Expect(Near(cost[1].forward, work / 8e9 + 1e-6));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&eights));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTypes(void)
{
  RengaCall(TestType(RENGA_FLOAT32, RENGA_PRECISION_FP32, "", 8e9));
  RengaCall(TestType(RENGA_FLOAT64, RENGA_PRECISION_FP32, "", 3e9));
  RengaCall(TestType(RENGA_FLOAT32, RENGA_PRECISION_TF32, "", 64e9));
  RengaCall(TestType(RENGA_FLOAT32, RENGA_PRECISION_TF32, "give it a matrix_rate_tf32", 0));
  RengaCall(TestType(RENGA_FLOAT64, RENGA_PRECISION_FP32, "machine typed does not say", 0));
  RengaCall(TestType(RENGA_FLOAT64, RENGA_PRECISION_FP32, "give it a matrix_rate_float64", 0));
  uneven = 0.1; /* two devices differ, and wait for a host that is slower than the product */
  RengaCall(TestType(RENGA_FLOAT32, RENGA_PRECISION_FP32, "", 8e9));
  slow_host = 1e-3;
  RengaCall(TestType(RENGA_FLOAT32, RENGA_PRECISION_FP32, "", 8e9));
  RengaCall(TestFp8());
  return RENGA_SUCCESS;
}

/* Costs of the graph's nodes on one such device: RengaFree. */
static RengaErrorCode PriceOn(const RengaMachineDevice *device, RengaGraph graph, int64_t samples,
                              RengaProfileCost **costs)
{
  const RengaMachineLevel level = {
      .name = "node", .devices = 1, .latency = 1e-6, .bandwidth = 1e10};
  RengaMachine other;
  RengaProfile profile;
  RengaCall(RengaMachineCreate(comm, &other));
  RengaCall(RengaMachineSetDevice(other, device));
  RengaCall(RengaMachineSetLevels(other, 1, &level));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileSetMachine(profile, other));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph), costs));
  RengaCall(RengaProfileGetCosts(profile, samples, *costs));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&other));
  return RENGA_SUCCESS;
}

/* Seconds of the second Linear and of the Relu after it, forward. */
static RengaErrorCode PriceLayer(const RengaMachineDevice *device, double *linear, double *relu)
{
  RengaGraph graph;
  RengaProfileCost *costs;
  RengaCall(MakeGraph(3, &graph));
  RengaCall(PriceOn(device, graph, SAMPLES, &costs));
  for (int n = 0, seen = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const char *op = RengaGraphGetNode(graph, n)->op->name;
    if (strcmp(op, "Linear") == 0 && ++seen == 2) *linear = costs[n].forward;
    if (strcmp(op, "Relu") == 0 && seen == 2) *relu = costs[n].forward;
  }
  RengaFree(&costs);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A product of short sums is slower, and a host issues it with what follows. */
static RengaErrorCode TestProducts(void)
{
  RengaMachineDevice device = {.memory = 1 << 30,
                               .matrix_rate = 1e8,
                               .vector_rate = 2e9,
                               .memory_bandwidth = 4e9,
                               .matrix_efficiency = 1,
                               .vector_efficiency = 1,
                               .bandwidth_efficiency = 1};
  const double work = 2.0 * SAMPLES * WIDTH * WIDTH / 1e8;
  double linear, relu, after;
  RengaCall(PriceLayer(&device, &linear, &relu));
  Expect(Near(linear, work) && relu > 0);
  device.half_depth = WIDTH;
  RengaCall(PriceLayer(&device, &linear, &after));
  Expect(Near(linear, 2 * work) && after == relu);
  device.half_depth = 0;
  device.processors = 3; /* one tile */
  RengaCall(PriceLayer(&device, &linear, &after));
  Expect(Near(linear, work));
  device.host = work + relu / 2;
  RengaCall(PriceLayer(&device, &linear, &after));
  Expect(Near(linear, device.host) && Near(after, relu / 2));
  device.host = work + 2 * relu;
  RengaCall(PriceLayer(&device, &linear, &after));
  Expect(Near(linear, device.host) && after == 0);
  return RENGA_SUCCESS;
}

/* Seconds of a network in four lanes, all of their ranks together. */
static RengaErrorCode PriceLanes(double all_reduce, double *seconds)
{
  const RengaMachineDevice device = {.memory = 1 << 30,
                                     .matrix_rate = 1e8,
                                     .vector_rate = 2e9,
                                     .memory_bandwidth = 4e9,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .all_reduce = all_reduce};
  RengaGraph graph;
  RengaProfileCost *costs;
  lanes = 4;
  RengaCall(MakeGraph(3, &graph));
  lanes = 1;
  RengaCall(PriceOn(&device, graph, 64, &costs));
  *seconds = 0;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++)
    *seconds += costs[n].forward + costs[n].backward;
  RengaFree(&costs);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Kernels that cut and add terms are gone, and each sum takes what is said. */
static RengaErrorCode TestSums(void)
{
  double pieces, first, second;
  RengaCall(PriceLanes(0, &pieces));
  RengaCall(PriceLanes(1e-9, &first));
  RengaCall(PriceLanes(1e-3, &second));
  const double sums = (second - first) / (1e-3 - 1e-9);
  Expect(first < pieces && sums > 0.5 && fabs(sums - round(sums)) < 1e-6);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(MakeMachine());
  RengaCall(TestFormulas());
  RengaCall(TestLong());
  RengaCall(TestTypes());
  RengaCall(TestProducts());
  RengaCall(TestSums());
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
