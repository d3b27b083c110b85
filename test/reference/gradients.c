/* TEST ranks: 1 timeout: 300 */
/* Networks from ONNX files against PyTorch: the loss of the first batch and the gradient of every
   parameter, on ref and on cpu. Arguments: files to try instead of all. */
#include "../onnx/execute.h"
#include "reference.h"
#include "rengacomm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Loss: relative. Gradient: of its norm; exact zeros (biases of attention keys) have a floor. */
static const double loss_tolerance = 1e-5, gradient_tolerance = 1e-4, gradient_floor = 1e-7;
static const struct {
  const char *file, *reference;
  /* Has the file the reference's parameters? Of LSTMs, in another order, the norm of all counts. */
  bool gradients;
  ReferenceSet set;
} rows[] = {
    {"bert_trace", "bert", true, REFERENCE_OWN},
    {"bert_export", "bert", true, REFERENCE_OWN},
    {"gpt_export", "gpt", true, REFERENCE_OWN},
    {"translation_trace", "translation", true, REFERENCE_OWN},
    {"translation_export", "translation", true, REFERENCE_OWN},
    {"t5_trace", "t5", true, REFERENCE_OWN},
    {"t5_export", "t5", true, REFERENCE_OWN},
    {"mlp_trace", "mlp", true, REFERENCE_OWN},
    {"mlp_export", "mlp", true, REFERENCE_OWN},
    {"resnet_trace", "resnet", true, REFERENCE_OWN},
    {"ncf_trace", "ncf", true, REFERENCE_OWN},
    {"ncf_export", "ncf", true, REFERENCE_OWN},
    {"lstm_trace", "lstm", false, REFERENCE_OWN},
    {"lstm_export", "lstm", false, REFERENCE_OWN},
    {"gpt_micro_op13", "gpt_micro", true, REFERENCE_LARGER},
    {"gpt_micro_op17", "gpt_micro", true, REFERENCE_LARGER},
    {"gpt_micro_dyn_op17", "gpt_micro", true, REFERENCE_LARGER},
    {"gpt_micro_evalfold_op17", "gpt_micro", false, REFERENCE_LARGER},
    {"gpt_micro_trainfold_op17", "gpt_micro", false, REFERENCE_LARGER},
    {"gpt_tiny_noparams_op17", "gpt_tiny", false, REFERENCE_LARGER},
    {"mlp_small_op13", "mlp_small", true, REFERENCE_LARGER},
    {"mlp_small_op17", "mlp_small", true, REFERENCE_LARGER},
    {"mlp_small_evalfold_op17", "mlp_small", true, REFERENCE_LARGER},
    {"resnet18_small_op13", "resnet18_small", true, REFERENCE_LARGER},
    {"resnet18_small_op17", "resnet18_small", true, REFERENCE_LARGER},
    {"resnet50_small_op13", "resnet50_small", true, REFERENCE_LARGER},
    {"resnet50_small_op17", "resnet50_small", true, REFERENCE_LARGER},
    {"bert_tiny_op13", "bert_tiny", true, REFERENCE_LARGER},
    {"bert_tiny_op17", "bert_tiny", true, REFERENCE_LARGER},
    {"bert_tiny_dropout_op17", "bert_tiny", true, REFERENCE_LARGER},
    {"nmt_tiny_op13", "nmt_tiny", true, REFERENCE_LARGER},
    {"nmt_tiny_op17", "nmt_tiny", true, REFERENCE_LARGER},
    {"t5_tiny_op13", "t5_tiny", true, REFERENCE_LARGER},
    {"t5_tiny_op17", "t5_tiny", true, REFERENCE_LARGER},
    {"ncf_tiny_op13", "ncf_tiny", true, REFERENCE_LARGER},
    {"ncf_tiny_op17", "ncf_tiny", true, REFERENCE_LARGER},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* The first batch of each input; parameters of a file without data. */
static RengaErrorCode SetData(Execution *execution, const Reference *reference)
{
  for (int i = 0; i < execution->count; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(execution->graph, i);
    bool input = value->kind == RENGA_VALUE_INPUT;
    bool bare = value->kind == RENGA_VALUE_PARAMETER && value->init.kind != RENGA_INIT_FILE;
    if (!input && !bare) continue;
    RengaTensorSpec spec = ExecutionSpec(execution, i);
    char *data = NULL;
    RengaCall(RengaMalloc(RengaTensorSpecBytes(&spec) + 1, &data));
    RengaErrorCode code = ReferenceRead(reference, input ? "inputs" : "init", value->name,
                                        spec.type, 0, RengaTensorSpecCount(&spec), data);
    if (code == RENGA_SUCCESS) code = ExecutionSet(execution, i, data);
    RengaFree(&data);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* Sum over the uses of a parameter, in their order. */
static RengaErrorCode SumUses(const Execution *execution, RengaValue parameter, int64_t count,
                              double sum[], bool *used)
{
  int n;
  const RengaParameterUse *uses;
  *used = false;
  RengaCall(RengaGraphGetParameterUses(execution->graph, &n, &uses));
  for (int u = 0; u < n; u++) {
    if (uses[u].parameter != parameter) continue;
    const float *gradient = execution->memory[uses[u].gradient];
    for (int64_t i = 0; i < count; i++) sum[i] += (double)gradient[i];
    *used = true;
  }
  return RENGA_SUCCESS;
}

static double Norm(int64_t count, const double a[], const double b[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    double difference = a[i] - (b ? b[i] : 0);
    sum += difference * difference;
  }
  return sqrt(sum);
}

static RengaErrorCode CheckGradient(const Execution *execution, const Reference *reference,
                                    RengaValue parameter, double *worst)
{
  const char *name = RengaGraphGetValue(execution->graph, parameter)->name;
  RengaTensorSpec spec = ExecutionSpec(execution, parameter);
  int64_t count = RengaTensorSpecCount(&spec);
  double *both = NULL;
  bool used = false;
  RengaCall(RengaMalloc(2 * count + 1, &both));
  RengaErrorCode code =
      ReferenceRead(reference, "grad0_f64", name, RENGA_FLOAT64, 0, count, both + count);
  if (code == RENGA_SUCCESS) code = SumUses(execution, parameter, count, both, &used);
  double wrong = Norm(count, both, both + count), norm = Norm(count, both + count, NULL);
  RengaFree(&both);
  RengaCall(code);
  if (norm > 1e-6) *worst = fmax(*worst, wrong / norm);
  RengaCheck(used && wrong <= gradient_tolerance * norm + gradient_floor, MPI_COMM_SELF,
             RENGA_ERR_NUMERIC, "gradient of %s: %s, off by %.3g of %.3g", name,
             used ? "used" : "never used", wrong, norm);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGradients(const Execution *execution, const Reference *reference,
                                     double *worst)
{
  for (int i = 0; i < execution->count; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(execution->graph, i);
    if (value->kind == RENGA_VALUE_PARAMETER)
      RengaCall(CheckGradient(execution, reference, i, worst));
  }
  return RENGA_SUCCESS;
}

/* Of parameters that the file has in another order: the norm of all. */
static RengaErrorCode CheckNorm(const Execution *execution, const Reference *reference,
                                double *worst)
{
  double sum = 0, norm;
  for (int i = 0; i < execution->count; i++) {
    const RengaTensorSpec spec = ExecutionSpec(execution, i);
    const int64_t count = RengaTensorSpecCount(&spec);
    double *gradient = NULL;
    bool used;
    if (RengaGraphGetValue(execution->graph, i)->kind != RENGA_VALUE_PARAMETER) continue;
    RengaCall(RengaMalloc(count + 1, &gradient));
    RengaErrorCode code = SumUses(execution, i, count, gradient, &used);
    sum += Norm(count, gradient, NULL) * Norm(count, gradient, NULL);
    RengaFree(&gradient);
    RengaCall(code);
  }
  RengaCall(ReferenceNorm(reference, "grad0_f64", &norm));
  *worst = fabs(sqrt(sum) - norm) / norm;
  RengaCheck(*worst <= gradient_tolerance, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the norm of all gradients is %.9g, not %.9g", sqrt(sum), norm);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLoss(const Execution *execution, const Reference *reference, double *off)
{
  RengaValue value;
  double wanted;
  RengaCall(RengaGraphGetLoss(execution->graph, &value));
  RengaCheck(value != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_GRAPH, "the file has no loss");
  RengaCall(ReferenceReal(reference, "loss0_f64", &wanted));
  double loss = (double)*(const float *)execution->memory[value];
  *off = fabs(loss - wanted) / fabs(wanted);
  RengaCheck(*off <= loss_tolerance, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "loss %.9g, not %.9g", loss,
             wanted);
  return RENGA_SUCCESS;
}

static RengaErrorCode Check(RengaGraph graph, RengaDevice device, const Reference *reference,
                            int row)
{
  double batch, loss = 0, gradient = 0;
  Execution execution;
  RengaKernelContext context = {.training = strstr(rows[row].file, "dropout") == NULL};
  RengaCall(ReferenceReal(reference, "batch", &batch));
  context.samples = (int64_t)batch;
  RengaCall(ExecutionCreate(graph, device, (int64_t)batch, &execution));
  RengaErrorCode code = ExecutionInitialize(&execution, 0);
  if (code == RENGA_SUCCESS) code = SetData(&execution, reference);
  if (code == RENGA_SUCCESS) code = ExecutionRun(&execution, &context);
  if (code == RENGA_SUCCESS) code = CheckLoss(&execution, reference, &loss);
  if (code == RENGA_SUCCESS && rows[row].gradients)
    code = CheckGradients(&execution, reference, &gradient);
  if (code == RENGA_SUCCESS && strncmp(rows[row].file, "lstm", 4) == 0)
    code = CheckNorm(&execution, reference, &gradient);
  RengaCall(ExecutionDestroy(&execution));
  RengaCall(code);
  if (getenv("RENGA_TEST_VERBOSE"))
    printf("%-26s loss off by %.1e, gradients by %.1e\n", rows[row].file, loss, gradient);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFile(RengaComm comm, const RengaDevice device[2], int row)
{
  char path[2048];
  Reference reference;
  RengaGraph graph;
  ReferenceNetwork(rows[row].set, rows[row].file, sizeof path, path);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, path));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  RengaCall(ReferenceOpen(rows[row].set, rows[row].reference, &reference));
  bool small = strstr(rows[row].file, "gpt_tiny") == NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int d = small ? 0 : 1; d < 2 && code == RENGA_SUCCESS; d++)
    code = Check(graph, device[d], &reference, row);
  RengaCall(ReferenceClose(&reference));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(RengaComm comm, const RengaDevice device[2], int argc, char **argv)
{
  int failed = 0;
  for (int row = 0; row < N_ROWS; row++) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= strstr(rows[row].file, argv[i]) != NULL;
    if (wanted && ReferenceIsThere(rows[row].set) &&
        CheckFile(comm, device, row) != RENGA_SUCCESS) {
      printf("%s fails\n", rows[row].file);
      failed++;
    }
  }
  RengaCheck(failed == 0, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "%d files fail", failed);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int argc, char **argv)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  RengaComm comm;
  RengaDevice device[2];
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int d = 0; d < 2; d++) {
    RengaCall(RengaDeviceCreate(comm, &device[d]));
    RengaCall(RengaDeviceSetType(device[d], types[d]));
    RengaCall(RengaDeviceSetUp(device[d]));
  }
  RengaErrorCode code = CheckAll(comm, device, argc, argv);
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Main(int argc, char **argv)
{
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  RengaCall(Run(argc, argv));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Main(argc, argv));
  return 0;
}
