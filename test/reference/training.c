/* TEST ranks: 4 timeout: 600 */
/* Twenty steps of training of networks from ONNX files against PyTorch's losses, by SGD and AdamW,
   on several layouts, whose losses and parameters are bit-equal. Gradients of the first batch,
   gathered from the stages, are PyTorch's too. Arguments: files to try instead of all. With
   RENGA_TEST_FULL set and 12 ranks: every layout of 1 to 4 stages and 1 to 3 replicas.
   A network of each family is trained in lanes, too (-graph_lanes), against the same losses.
   Units of ReLU after BatchNormalization turn on and off by a last bit, which the BLAS of another
   processor makes otherwise, and then losses part: such networks are compared closely in their
   first steps, then roughly, and with RENGA_TEST_OTHER_ROUNDING set (other compiler flags than the
   usual) in their first steps only. Layouts are compared in all of them. */
#include "../check.h"
#include "reference.h"
#include "renga/private/graph.h"
#include "rengacomm.h"
#include "rengapipeline.h"
#include <math.h>
#include <stdlib.h>

enum {
  STEPS = 20,
  STEPS_SLOW = 5,
  STEPS_ALIKE = 3,
  BATCHES = 4,
  STAGES_MOST = 4,
  REPLICAS_MOST = 3
};
typedef struct {
  const char *file, *reference;
  int64_t microbatch; /* the whole batch where it is normalised */
  double tolerance, sgd_rate, adamw_rate;
  bool all_layouts; /* else one rank only: the network is that of another file */
  bool bare;        /* the file has no parameters: the reference's are taken; a large network */
  bool gradients;   /* the file's parameters have the reference's names and shapes */
  ReferenceSet set;
} Row;
static const Row rows[] = {
    {"bert_trace", "bert", 2, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_OWN},
    {"bert_export", "bert", 2, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"gpt_export", "gpt", 2, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"translation_trace", "translation", 1, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_OWN},
    {"translation_export", "translation", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"t5_trace", "t5", 1, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_OWN},
    {"t5_export", "t5", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"mlp_trace", "mlp", 2, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_OWN},
    {"mlp_export", "mlp", 2, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"resnet_trace", "resnet", 16, 1e-3, 0.005, 1e-4, true, false, true, REFERENCE_OWN},
    {"ncf_trace", "ncf", 7, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_OWN},
    {"ncf_export", "ncf", 7, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_OWN},
    {"lstm_trace", "lstm", 2, 1e-4, 0.1, 1e-3, false, false, false, REFERENCE_OWN},
    {"lstm_export", "lstm", 2, 1e-4, 0.1, 1e-3, true, false, false, REFERENCE_OWN},
    {"gpt_micro_op17", "gpt_micro", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
    {"gpt_micro_op13", "gpt_micro", 1, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_LARGER},
    {"gpt_micro_dyn_op17", "gpt_micro", 1, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_LARGER},
    {"gpt_tiny_noparams_op17", "gpt_tiny", 2, 1e-4, 0.1, 1e-3, true, true, true, REFERENCE_LARGER},
    {"mlp_small_op13", "mlp_small", 3, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
    {"mlp_small_op17", "mlp_small", 16, 1e-4, 0.1, 1e-3, false, false, true, REFERENCE_LARGER},
    {"resnet18_small_op17", "resnet18_small", 16, 1e-3, 0.005, 1e-4, true, false, true,
     REFERENCE_LARGER},
    {"resnet18_small_op13", "resnet18_small", 16, 1e-3, 0.005, 1e-4, false, false, true,
     REFERENCE_LARGER},
    {"resnet50_small_op13", "resnet50_small", 16, 1e-3, 0.005, 1e-4, true, false, true,
     REFERENCE_LARGER},
    {"resnet50_small_op17", "resnet50_small", 16, 1e-3, 0.005, 1e-4, false, false, true,
     REFERENCE_LARGER},
    {"bert_tiny_op17", "bert_tiny", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
    {"nmt_tiny_op17", "nmt_tiny", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
    {"t5_tiny_op17", "t5_tiny", 1, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
    {"ncf_tiny_op17", "ncf_tiny", 10, 1e-4, 0.1, 1e-3, true, false, true, REFERENCE_LARGER},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

typedef struct {
  const Row *row;
  RengaComm comm;
  RengaGraph graph;
  Reference reference;
  int64_t batch, step;
  const char *optimizer;
  int stages, replicas;
} Run;
typedef struct {
  double loss[STEPS];
  uint64_t digest;
} Result;

static int Steps(void)
{
  return UnlessSlow(STEPS, STEPS_SLOW);
}

static const RengaGraphValue *Field(RengaGraph graph, int field)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind == RENGA_VALUE_INPUT && field-- == 0) return value;
  }
  return NULL;
}

/* Samples of the step's batch: step s has batch s modulo 4. */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Run *run = user;
  const RengaGraphValue *value = Field(run->graph, field);
  Expect(value != NULL);
  RengaTensorSpec sample = RengaTensorSpecAt(&value->spec, 1);
  int64_t size = RengaTensorSpecCount(&sample);
  int64_t from = (run->step % BATCHES * run->batch + first) * size;
  RengaCall(ReferenceRead(&run->reference, "inputs", value->name, value->spec.type, from,
                          count * size, buffer));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(const Run *run, RengaPlan *plan)
{
  RengaPlanStage stage[STAGES_MOST] = {{0}};
  int nodes = RengaGraphGetNodeCount(run->graph);
  for (int s = 0; s < run->stages; s++) {
    stage[s].first = nodes * s / run->stages;
    stage[s].last = nodes * (s + 1) / run->stages;
    stage[s].shape = RengaStageShapePlain(run->replicas);
  }
  RengaCall(RengaPlanCreate(run->comm, plan));
  RengaCall(RengaPlanSetStages(*plan, run->graph, run->stages, stage));
  RengaCall(RengaPlanSetBatch(*plan, run->batch, run->row->microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePipeline(const Run *run, RengaPlan plan, RengaPipeline *pipeline)
{
  RengaSettings settings;
  RengaDevice device;
  RengaOptimizer optimizer;
  bool sgd = strcmp(run->optimizer, RENGA_OPTIMIZER_SGD) == 0;
  RengaCall(RengaPipelineCreate(run->comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, run->graph, plan));
  RengaCall(RengaPipelineGetDevice(*pipeline, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_CPU));
  RengaCall(RengaDeviceSetThreads(device, 1));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, run->optimizer));
  RengaCall(
      RengaOptimizerSetLearningRate(optimizer, sgd ? run->row->sgd_rate : run->row->adamw_rate));
  RengaCall(RengaOptimizerSetWeightDecay(optimizer, sgd ? 0 : 0.01));
  RengaCall(RengaPipelineGetSettings(*pipeline, &settings));
  RengaCall(RengaSettingsSetTimeout(settings, 150));
  RengaCall(RengaPipelineSetUp(*pipeline));
  return RENGA_SUCCESS;
}

/* Parameters of this rank's stage, for a file that has none. */
static RengaErrorCode SetParameters(const Run *run, RengaPipeline pipeline)
{
  int count;
  const RengaPersistent *tensor;
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &tensor));
  for (int t = 0; t < count; t++)
    if (!strchr(tensor[t].name, ':'))
      RengaCall(ReferenceRead(&run->reference, "init", tensor[t].name, RENGA_FLOAT32, 0,
                              RengaTensorSpecCount(&tensor[t].spec), tensor[t].data));
  return RENGA_SUCCESS;
}

static double Norm(int64_t count, const double a[], const float b[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    double difference = a[i] - (b ? (double)b[i] : 0);
    sum += difference * difference;
  }
  return sqrt(sum);
}

/* What the reference keeps of a gradient: all of it, or, of large ones, the first 64 elements. */
static RengaErrorCode ReadGradient(const Run *run, const char *parameter, int64_t *count,
                                   double wanted[])
{
  enum { HEAD = 64 };
  const bool whole = !run->row->bare;
  if (!whole && *count > HEAD) *count = HEAD;
  RengaCall(ReferenceRead(&run->reference, whole ? "grad0_f64" : "grad0_head", parameter,
                          RENGA_FLOAT64, 0, *count, wanted));
  return RENGA_SUCCESS;
}

/* Within 1e-4 of the norm; biases of attention keys have none but noise. */
static RengaErrorCode CheckGradient(const Run *run, RengaPipeline pipeline,
                                    const RengaGraphValue *parameter, int rank)
{
  int64_t count = RengaTensorSpecCount(&parameter->spec);
  double *wanted = NULL;
  float *got = NULL;
  RengaCall(RengaMalloc(count, &wanted));
  RengaCall(RengaMalloc(count, &got));
  RengaCall(ReadGradient(run, parameter->name, &count, wanted));
  RengaCall(RengaPipelineGetGradient(pipeline, parameter->name, got));
  double off = Norm(count, wanted, got), norm = Norm(count, wanted, NULL);
  RengaFree(&wanted);
  RengaFree(&got);
  RengaCheck(rank != 0 || off <= 1e-4 * norm + 1e-7, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "%s: the gradient of %s is off by %.3g of %.3g", run->row->file, parameter->name, off,
             norm);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGradients(const Run *run, RengaPipeline pipeline)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(run->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(run->graph, v);
    if (value->kind == RENGA_VALUE_PARAMETER)
      RengaCall(CheckGradient(run, pipeline, value, RengaCommGetRank(run->comm)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(Run *run, Result *result)
{
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(MakePlan(run, &plan));
  RengaCall(MakePipeline(run, plan, &pipeline));
  if (run->row->bare) RengaCall(SetParameters(run, pipeline));
  for (run->step = 0; run->step < Steps(); run->step++) {
    const RengaBatch batch = {run->batch, Read, run};
    RengaCall(RengaPipelineStep(pipeline, &batch, &result->loss[run->step]));
    bool first = run->step == 0 && strcmp(run->optimizer, RENGA_OPTIMIZER_SGD) == 0;
    if (first && run->row->gradients && run->replicas < 3) RengaCall(CheckGradients(run, pipeline));
  }
  RengaCall(RengaPipelineGetDigest(pipeline, &result->digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* Of a step's loss, relative. */
static double ToleranceAt(const Row *row, bool parts, int step)
{
  return parts && step >= STEPS_ALIKE ? 0.2 : row->tolerance;
}

static RengaErrorCode CheckLosses(const Run *run, const Result *result)
{
  double wanted[STEPS], worst = 0;
  const bool parts = !strncmp(run->row->file, "resnet", 6);
  const bool alike = parts && getenv("RENGA_TEST_OTHER_ROUNDING");
  char name[32];
  snprintf(name, sizeof name, "%s_f64", run->optimizer);
  RengaCall(ReferenceRead(&run->reference, "loss", name, RENGA_FLOAT64, 0, STEPS, wanted));
  for (int s = 0; s < (alike ? STEPS_ALIKE : Steps()); s++) {
    double off = fabs(result->loss[s] - wanted[s]) / fabs(wanted[s]);
    worst = off > worst ? off : worst;
    RengaCheck(off <= ToleranceAt(run->row, parts, s), MPI_COMM_SELF, RENGA_ERR_NUMERIC,
               "%s, %s, step %d: loss %.9g, PyTorch has %.9g", run->row->file, run->optimizer, s,
               result->loss[s], wanted[s]);
  }
  if (getenv("RENGA_TEST_VERBOSE") && RengaCommGetRank(run->comm) == 0)
    printf("%-22s %-5s %d x %d: losses within %.1e\n", run->row->file, run->optimizer, run->stages,
           run->replicas, worst);
  return RENGA_SUCCESS;
}

/* A layout of the quick test, or any with RENGA_TEST_FULL; one rank only for a row that says so. */
static bool IsWanted(const Run *run)
{
  static const int quick[][2] = {{1, 1}, {1, 3}, {2, 2}, {4, 1}};
  if (run->stages * run->replicas > RengaCommGetSize(run->comm)) return false;
  if (run->stages * run->replicas > 1 && !run->row->all_layouts) return false;
  if (run->stages * run->replicas > 1 && run->row->bare) return getenv("RENGA_TEST_FULL") != NULL;
  for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++)
    if (run->stages == quick[i][0] && run->replicas == quick[i][1]) return true;
  return getenv("RENGA_TEST_FULL") != NULL;
}

static RengaErrorCode CheckLayouts(Run *run)
{
  Result first = {0};
  for (run->stages = 1; run->stages <= STAGES_MOST; run->stages++)
    for (run->replicas = 1; run->replicas <= REPLICAS_MOST; run->replicas++) {
      Result result = {0};
      if (!IsWanted(run)) continue;
      RengaCall(Train(run, &result));
      RengaCall(CheckLosses(run, &result));
      if (run->stages == 1 && run->replicas == 1) first = result;
      for (int s = 0; s < Steps(); s++)
        RengaCheck(result.loss[s] == first.loss[s], MPI_COMM_SELF, RENGA_ERR_NUMERIC,
                   "%s, %s, %d x %d, step %d: loss %.17g, on one rank %.17g", run->row->file,
                   run->optimizer, run->stages, run->replicas, s, result.loss[s], first.loss[s]);
      RengaCheck(result.digest == first.digest, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
                 "%s, %s, %d x %d: other parameters than on one rank", run->row->file,
                 run->optimizer, run->stages, run->replicas);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFile(RengaComm comm, const Row *row, int lanes)
{
  static const char *const optimizers[] = {RENGA_OPTIMIZER_SGD, RENGA_OPTIMIZER_ADAMW};
  char path[2048];
  double batch;
  Run run = {.row = row, .comm = comm};
  ReferenceNetwork(row->set, row->file, sizeof path, path);
  RengaCall(RengaGraphCreate(comm, &run.graph));
  RengaCall(RengaGraphLoad(run.graph, path));
  RengaCall(RengaGraphSetLanes(run.graph, lanes));
  RengaCall(RengaGraphSetUp(run.graph));
  RengaCall(ReferenceOpen(row->set, row->reference, &run.reference));
  RengaCall(ReferenceReal(&run.reference, "batch", &batch));
  run.batch = (int64_t)batch;
  for (int i = 0; i < 2; i++) {
    run.optimizer = optimizers[i];
    RengaCall(CheckLayouts(&run));
  }
  RengaCall(ReferenceClose(&run.reference));
  RengaCall(RengaGraphDestroy(&run.graph));
  return RENGA_SUCCESS;
}

/* Lanes in which a network is computed once more: some are uneven, and heads are the fewest. */
static int LanesOf(const Row *row)
{
  static const char *const files[] = {"gpt_export", "bert_export", "t5_export", "mlp_export"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strcmp(files[i], row->file) == 0) return strcmp(row->file, "mlp_export") == 0 ? 3 : 2;
  return 1;
}

static RengaErrorCode CheckAll(int argc, char **argv)
{
  RengaComm comm;
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int row = 0; row < N_ROWS; row++) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= strstr(rows[row].file, argv[i]) != NULL;
    if (!wanted || !ReferenceIsThere(rows[row].set)) continue;
    RengaCall(CheckFile(comm, &rows[row], 1));
    if (LanesOf(&rows[row]) > 1) RengaCall(CheckFile(comm, &rows[row], LanesOf(&rows[row])));
  }
  RengaCall(RengaCommDestroy(&comm));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(CheckAll(argc, argv));
  return 0;
}
