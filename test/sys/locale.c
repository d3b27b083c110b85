/* A program of which test/sys/locale.sh compares the runs in two locales: what the library reads,
   computes, shows and saves. Arguments: locale, folder for files. */
#include "../check.h"
#include <renga.h>
#include <locale.h>
#include <string.h>

enum { BATCH = 4, WIDTH = 6 };

/* Operators whose attributes have defaults that are no whole numbers. */
static RengaErrorCode MakeNetwork(RengaComm comm, RengaGraph *graph)
{
  static const char *const ops[] = {"Selu", "HardSigmoid", "Elu", "LeakyRelu"};
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, WIDTH}};
  RengaValue x, loss;
  RengaAttributes attributes = {0};
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &spec, &x));
  RengaCall(RengaGraphAddLinear(*graph, "layer", x, WIDTH, true, 0.5, &x));
  for (int i = 0; i < 4; i++) RengaCall(RengaGraphAddUnary(*graph, ops[i], x, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaErrorCode code =
      RengaGraphAddNode(*graph, "ReduceMean", "mean", &attributes, 1, &x, 1, NULL, &loss);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(RengaGraphSetLoss(*graph, loss));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, const char *folder,
                               RengaPlan *plan)
{
  RengaMachine machine;
  RengaPartition partition;
  RengaViewer viewer;
  RengaPlan again;
  char name[1024];
  RengaCall(RengaMachineCreate(comm, &machine));
  snprintf(name, sizeof name, "%s/machine.opts", folder);
  RengaCall(RengaMachineLoad(machine, name));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetBatch(partition, BATCH, 2));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  snprintf(name, sizeof name, "%s/plan", folder);
  RengaCall(RengaPlanSave(*plan, name));
  RengaCall(RengaPlanCreate(comm, &again));
  RengaCall(RengaPlanLoad(again, graph, name));
  const char *const kinds[] = {"ascii", "json", "draw"};
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s:%s/shown.%s", kinds[i], folder, kinds[i]);
    RengaCall(RengaViewerCreate(comm, name, &viewer));
    RengaCall(RengaPlanView(again, viewer));
    RengaCall(RengaViewerDestroy(&viewer));
  }
  snprintf(name, sizeof name, "%s/again", folder);
  RengaCall(RengaPlanSave(again, name));
  RengaCall(RengaPlanDestroy(&again));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user, (void)field;
  for (int64_t i = 0; i < WIDTH * count; i++)
    ((float *)buffer)[i] = 0.25f * (float)((WIDTH * first + i) % 11) - 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  RengaViewer viewer;
  double loss = 0;
  const RengaBatch batch = {.samples = BATCH, .read = Read};
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetFromOptions(optimizer));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RengaViewerCreate(comm, "ascii", &viewer));
  RengaCall(RengaOptimizerView(optimizer, viewer));
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    RengaCall(RengaViewerPrintf(viewer, "loss %.17g\n", loss));
  }
  RengaCall(RengaViewerDestroy(&viewer));
  ExpectError(RengaOptimizerSetWeightDecay(optimizer, -0.5), RENGA_ERR_ARGUMENT, "-0.5");
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Convert(RengaComm comm, const char *folder)
{
  char table[1024], out[1024], text[64];
  int64_t numbers[3];
  snprintf(table, sizeof table, "%s/table.csv", folder);
  snprintf(out, sizeof out, "%s/table.h5", folder);
  RengaCall(RengaDataWriteCsv(comm, table, out, NULL, "y", NULL, 0.25, numbers));
  RengaFormatBytes(1.5e9, sizeof text, text);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%lld %lld %lld rows; %s, %.3f\n", (long long)numbers[0],
                        (long long)numbers[1], (long long)numbers[2], text, 0.125));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(const char *folder)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(MakeNetwork(comm, &graph));
  RengaCall(MakePlan(comm, graph, folder, &plan));
  RengaCall(Train(comm, graph, plan));
  RengaCall(Convert(comm, folder));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  if (argc < 3 || !setlocale(LC_ALL, argv[1])) return 77;
  const char *folder = argv[2], half = *localeconv()->decimal_point;
  if (half != (strcmp(argv[1], "C") == 0 ? '.' : ',')) return 77;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run(folder));
  if (*localeconv()->decimal_point != half) return 3; /* the program's own stays as it is */
  RengaCallAbort(RengaFinalize());
  return 0;
}
