/* Networks whose attention and convolutions are computed by cuDNN, beside own kernels: the gradient
   of each parameter in steps that are run, recorded and replayed; bytes that were foretold.
   engines.sh runs it on the emulated runtime. */
#include "../pipeline/run.h"
#include "renga/private/device.h"

enum { PARAMETERS = 256 };

typedef struct {
  double norm;
  float *x;
} Gradient;

static RengaErrorCode MakeGraphOf(RengaComm comm, const char *what, RengaPrecision precision,
                                  RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphLoad(*graph, what));
  RengaCall(RengaGraphSetPrecision(*graph, precision, NULL));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* How many tasks cuDNN computes. */
static RengaErrorCode CountEngines(RengaPipeline pipeline, int *engines)
{
  RengaDevice device;
  RengaDeviceChoice *choice = NULL;
  int count = 0;
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(device->choices->list(device, &count, &choice));
  *engines = 0;
  for (int c = 0; c < count; c++) *engines += choice[c].chosen != 0;
  RengaFree(&choice);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeGradients(RengaGraph graph, RengaPipeline pipeline, Gradient gradient[])
{
  int n = 0;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    Expect(n < PARAMETERS);
    Gradient *g = &gradient[n++];
    if (!g->x) RengaCall(RengaMalloc(RengaTensorSpecCount(&value->spec), &g->x));
    RengaCall(RengaPipelineGetGradient(pipeline, value->name, g->x));
    g->norm = 0;
    for (int64_t i = 0; i < RengaTensorSpecCount(&value->spec); i++)
      g->norm += (double)g->x[i] * (double)g->x[i];
    g->norm = sqrt(g->norm);
  }
  return RENGA_SUCCESS;
}

/* A later pipeline of the device comes to own kernels. */
static RengaErrorCode RefuseAll(RengaPipeline pipeline)
{
  RengaDevice device;
  RengaDeviceChoice *choice = NULL;
  int count = 0, engines;
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(device->choices->list(device, &count, &choice));
  for (int c = 0; c < count; c++) RengaCall(device->choices->drop(device, choice[c].task));
  RengaFree(&choice);
  RengaCall(CountEngines(pipeline, &engines));
  Expect(engines == 0);
  return RENGA_SUCCESS;
}

/* Gradients of the last step; with `refused`, of another so many steps behind that. */
static RengaErrorCode RunNetwork(RengaComm comm, const Run *run, RengaGraph graph,
                                 const char *cudnn, const bool *refused, Gradient gradient[],
                                 int *engines)
{
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  Result result;
  RengaPipelineMemory forecast;
  memset(&result, 0, sizeof result);
  RengaCall(RengaOptionsSetValue("device_cudnn", cudnn));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunConfigure(comm, run, graph, plan, &pipeline));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 1e-6));
  RengaCall(RengaPipelineForecastStage(pipeline, 0, &forecast));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RunCheckForecast(comm, plan, &forecast, pipeline));
  RengaCall(RunSteps(run, graph, pipeline, &result));
  Expect(result.memory.forecast == result.memory.measured);
  RengaCall(CountEngines(pipeline, engines));
  if (refused && *refused) RengaCall(RefuseAll(pipeline));
  if (refused) RengaCall(RunSteps(run, graph, pipeline, &result));
  RengaCall(TakeGradients(graph, pipeline, gradient));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

typedef struct {
  const char *graph;
  RengaPrecision precision;
  int64_t classes;
  int engines;
  double tolerance; /* of the norm of a gradient; of one that is small, of the largest one */
} Network;

static Run RunOf(const Network *network)
{
  static const int64_t samples[] = {4, 4, 4};
  return (Run){.graph = network->graph,
               .device = RENGA_DEVICE_CUDA,
               .optimizer = "sgd",
               .stages = 1,
               .replicas = 1,
               .batch = 4,
               .microbatch = 2,
               .classes = network->classes,
               .steps = 3,
               .samples = samples};
}

static RengaErrorCode CheckNetwork(RengaComm comm, const Network *network)
{
  static Gradient gradient[2][PARAMETERS];
  const Run run = RunOf(network);
  RengaGraph graph;
  int engines[2], n = 0;
  double largest = 0, furthest = 0;
  RengaCall(MakeGraphOf(comm, network->graph, network->precision, &graph));
  RengaCall(RunNetwork(comm, &run, graph, "off", NULL, gradient[0], &engines[0]));
  RengaCall(RunNetwork(comm, &run, graph, "on", NULL, gradient[1], &engines[1]));
  RengaCheck(engines[0] == 0 && engines[1] == network->engines, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: cuDNN computes %d and %d tasks, not 0 and %d", network->graph, engines[0],
             engines[1], network->engines);
  for (int p = 0; p < PARAMETERS; p++) largest = fmax(largest, gradient[0][p].norm);
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    Gradient *own = &gradient[0][n], *its = &gradient[1][n++];
    double difference = 0;
    for (int64_t i = 0; i < RengaTensorSpecCount(&value->spec); i++)
      difference += pow((double)own->x[i] - (double)its->x[i], 2);
    difference = sqrt(difference) / fmax(own->norm, 0.01 * largest);
    furthest = fmax(furthest, difference);
    RengaCheck(difference <= network->tolerance, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%s: the gradient of %s by cuDNN is %g of its norm from that of own kernels",
               network->graph, value->name, difference);
    RengaFree(&own->x);
    RengaFree(&its->x);
  }
  Expect(network->precision == RENGA_PRECISION_FP32 || furthest > 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A pipeline keeps its engines, whatever those that come later agree on. */
static RengaErrorCode CheckKept(RengaComm comm, const Network *network)
{
  static Gradient gradient[2][PARAMETERS];
  const Run run = RunOf(network);
  RengaGraph graph;
  int engines;
  RengaCall(MakeGraphOf(comm, network->graph, network->precision, &graph));
  for (int refused = 0; refused < 2; refused++) {
    const bool refuses = refused;
    RengaCall(RunNetwork(comm, &run, graph, "on", &refuses, gradient[refused], &engines));
    Expect(engines == network->engines);
  }
  for (int p = 0; p < PARAMETERS; p++) {
    Expect(gradient[0][p].norm == gradient[1][p].norm);
    for (int refused = 0; refused < 2; refused++) RengaFree(&gradient[refused][p].x);
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* What cuda chose is of no other type. */
static RengaErrorCode CheckOtherType(RengaComm comm)
{
  static const int64_t samples[] = {2};
  const Run run = {.graph = "mlp:sizes=4-8-3",
                   .classes = 3,
                   .batch = 2,
                   .microbatch = 1,
                   .stages = 1,
                   .replicas = 1,
                   .steps = 1,
                   .samples = samples};
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaDevice device;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  Expect(device->choices != NULL);
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_CPU));
  Expect(device->choices == NULL);
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const Network networks[] = {
      {"gpt:layers=2,hidden=32,heads=2,sequence=9,vocabulary=40", RENGA_PRECISION_BF16, 40, 2,
       0.03},
      {"gpt:layers=2,hidden=32,heads=2,sequence=9,vocabulary=40", RENGA_PRECISION_FP16, 40, 2,
       0.01},
      {"llama:layers=1,hidden=32,heads=4,groups=2,sequence=9,vocabulary=40", RENGA_PRECISION_BF16,
       40, 2, 0.03},
      {"bert:layers=1,hidden=32,heads=2,sequence=9,vocabulary=30,padding=1,dropout=0",
       RENGA_PRECISION_BF16, 30, 2, 0.03},
      {"resnet:depth=18,width=0.0625,image=32,classes=5", RENGA_PRECISION_FP32, 5, 32, 1e-3},
      {"resnet:depth=18,width=0.0625,image=32,classes=5", RENGA_PRECISION_BF16, 5, 32, 0.2},
  };
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
    RengaCall(CheckNetwork(comm, &networks[n]));
  RengaCall(CheckKept(comm, &networks[0]));
  RengaCall(CheckOtherType(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
