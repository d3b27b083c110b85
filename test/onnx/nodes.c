/* TEST ranks: 1 timeout: 600 */
/* ONNX's own tests of single operators (Debian package libonnx-testdata) through the reader, the
   canonical form and the kernels of ref and cpu. What is supported must agree within ONNX's
   tolerances. Of the tests whose tensors are float32, int64 or bool only, at least 97 % must be
   supported; the others are listed. Arguments: names of some tests. Where these tests are not here
   this one is left out, or fails if RENGA_TEST_STRICT is set. */
#include "execute.h"
#include "renga/private/onnx.h"
#include "rengacomm.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* or what the environment variable ONNX_NODE_TESTS says */
static const char *folder = "/usr/share/libonnx-testdata/data/node";
enum { TENSORS_MAX = 16, PATH_SIZE = 1024, SKIPPED = 77, PLAIN_LEAST_PERCENT = 97 };
static const double relative = 1e-3, absolute = 1e-7;

/* Inputs that must be known while reading, by their names in these tests. */
static const struct {
  const char *prefix, *input;
} known[] = {
    {"test_", "shape"},
    {"test_", "new_shape"},
    {"test_", "axes"},
    {"test_", "starts"},
    {"test_", "ends"},
    {"test_", "steps"},
    {"test_", "axis"},
    {"test_", "split"},
    {"test_", "pads"},
    {"test_", "value"},
    {"test_", "depth"},
    {"test_", "k"},
    {"test_top_k", "K"},
    {"test_", "start"},
    {"test_", "limit"},
    {"test_", "delta"},
    {"test_", "r"},
    {"test_", "t"},
    {"test_", "min"},
    {"test_", "max"},
    {"test_constantofshape", "x"},
    {"test_tile", "y"},
    {"test_", "cond"},
    {"test_", "repeats"},
    {"test_resize", "scales"},
    {"test_resize", "sizes"},
    {"test_resize", "roi"},
    {"test_upsample", "scales"},
    {"test_hannwindow", "x"},
    {"test_hammingwindow", "x"},
    {"test_blackmanwindow", "x"},
    {"test_compress", "condition"},
    {"test_nonzero", "condition"},
    {"test_", "dft_length"},
    {"test_stft", "frame_step"},
    {"test_stft", "frame_length"},
    {"test_", "image_shape"},
    {"test_", "block_shape"},
    {"test_", "output_shape"},
    {"test_affine_grid", "size"},
    {"test_", "trip_count"},
};
/* Their expected outputs are drawn at random. */
static const char *const unpredictable[] = {
    "test_bernoulli",
    "test_bernoulli_double",
    "test_bernoulli_double_expanded",
    "test_bernoulli_expanded",
    "test_bernoulli_seed",
    "test_bernoulli_seed_expanded",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_default_mask",
    "test_training_dropout_mask",
};

typedef struct {
  int count;
  char *name[TENSORS_MAX];
  RengaTensorSpec spec[TENSORS_MAX];
  void *data[TENSORS_MAX];
} Tensors;
typedef struct {
  RengaComm comm;
  RengaDevice device[2];
  int log; /* where messages of errors go meanwhile */
  int total, passed, failed, unsupported;
  int plain, plain_passed; /* tensors of float32, int64 and bool only */
} Test;

static void FreeTensors(Tensors *tensors)
{
  for (int i = 0; i < tensors->count; i++) {
    RengaFree(&tensors->name[i]);
    RengaFree(&tensors->data[i]);
  }
  tensors->count = 0;
}

/* input_0.pb, input_1.pb, … */
static RengaErrorCode ReadTensors(const char *test, const char *what, Tensors *tensors)
{
  char path[PATH_SIZE];
  tensors->count = 0;
  for (int i = 0; i < TENSORS_MAX; i++) {
    snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_%d.pb", folder, test, what, i);
    if (access(path, R_OK) != 0) break;
    RengaCall(
        RengaOnnxReadTensorFile(path, &tensors->name[i], &tensors->spec[i], &tensors->data[i]));
    tensors->count++;
  }
  return RENGA_SUCCESS;
}

static bool IsKnown(const char *test, const char *input)
{
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(known[i].input, input) == 0 &&
        strncmp(known[i].prefix, test, strlen(known[i].prefix)) == 0)
      return true;
  return false;
}

static RengaErrorCode Load(Test *test, const char *name, const Tensors *inputs, RengaGraph *graph)
{
  char path[PATH_SIZE];
  RengaOnnxTensor constants[TENSORS_MAX];
  RengaOnnxOptions options = {.keep_batch = true, .evaluate = true, .constants = constants};
  for (int i = 0; i < inputs->count; i++)
    if (IsKnown(name, inputs->name[i]))
      constants[options.n_constants++] =
          (RengaOnnxTensor){inputs->name[i], inputs->spec[i], inputs->data[i]};
  snprintf(path, sizeof path, "%s/%s/model.onnx", folder, name);
  RengaCall(RengaGraphCreate(test->comm, graph));
  RengaCall(RengaGraphReadOnnxWith(*graph, path, &options));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static double Element(RengaDataType type, const void *data, int64_t i)
{
  uint32_t bits;
  float real;
  switch (type) {
  case RENGA_FLOAT32:
    return (double)((const float *)data)[i];
  case RENGA_FLOAT64:
    return ((const double *)data)[i];
  case RENGA_INT8:
    return ((const int8_t *)data)[i];
  case RENGA_BOOL:
  case RENGA_UINT8:
    return ((const uint8_t *)data)[i];
  case RENGA_INT16:
    return ((const int16_t *)data)[i];
  case RENGA_UINT16:
    return ((const uint16_t *)data)[i];
  case RENGA_INT32:
    return ((const int32_t *)data)[i];
  case RENGA_UINT32:
    return ((const uint32_t *)data)[i];
  case RENGA_INT64:
    return (double)((const int64_t *)data)[i];
  case RENGA_UINT64:
    return (double)((const uint64_t *)data)[i];
  case RENGA_BFLOAT16:
    bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&real, &bits, sizeof real);
    return (double)real;
  case RENGA_FLOAT16: {
    uint16_t half = ((const uint16_t *)data)[i];
    int exponent = half >> 10 & 31;
    double fraction = half & 1023, sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
  }
  default:
    return (double)NAN;
  }
}

static bool Agrees(RengaDataType type, double got, double wanted)
{
  if (isnan(wanted)) return isnan(got);
  if (isinf(wanted)) return got == wanted;
  if (type == RENGA_BFLOAT16) return fabs(got - wanted) <= fabs(wanted) / 128;
  bool half = type == RENGA_FLOAT16;
  bool exact = !half && type != RENGA_FLOAT32 && type != RENGA_FLOAT64;
  return fabs(got - wanted) <= (exact ? 0 : absolute + relative * fabs(wanted));
}

static RengaErrorCode Compare(const Execution *execution, RengaValue value, const Tensors *wanted,
                              int i)
{
  char a[128], b[128];
  RengaTensorSpec spec = ExecutionSpec(execution, value);
  /* these tests store bfloat16 as the integers that hold its bits, and cut where Renga rounds */
  RengaTensorSpec as_stored = wanted->spec[i];
  if (spec.type == RENGA_BFLOAT16) as_stored.type = spec.type;
  RengaTensorSpecFormat(&spec, sizeof a, a);
  RengaTensorSpecFormat(&as_stored, sizeof b, b);
  RengaCheck(strcmp(a, b) == 0, MPI_COMM_SELF, RENGA_ERR_SHAPE, "output %d is %s, not %s", i, a, b);
  RengaCheck(execution->memory[value], MPI_COMM_SELF, RENGA_ERR_ORDER, "output %d has no data", i);
  for (int64_t k = 0; k < RengaTensorSpecCount(&spec); k++) {
    double got = Element(spec.type, execution->memory[value], k);
    double right = Element(spec.type, wanted->data[i], k);
    RengaCheck(Agrees(spec.type, got, right), MPI_COMM_SELF, RENGA_ERR_NUMERIC,
               "output %d, element %lld is %.9g, not %.9g", i, (long long)k, got, right);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOn(RengaDevice device, RengaGraph graph, const Tensors *inputs,
                            const Tensors *wanted)
{
  int count;
  const RengaValue *outputs;
  Execution execution;
  RengaKernelContext context = {.training = true, .samples = 1};
  RengaCall(ExecutionCreate(graph, device, 1, &execution));
  RengaErrorCode code = RengaGraphGetOutputs(graph, &count, &outputs);
  for (int i = 0; i < inputs->count && code == RENGA_SUCCESS; i++) {
    RengaValue value = RengaGraphFindValue(graph, inputs->name[i]);
    if (value != RENGA_VALUE_NONE) code = ExecutionSet(&execution, value, inputs->data[i]);
  }
  if (code == RENGA_SUCCESS) code = ExecutionRun(&execution, &context);
  for (int i = 0; i < wanted->count && code == RENGA_SUCCESS; i++) {
    RengaValue value = RengaGraphFindValue(graph, wanted->name[i]);
    if (value == RENGA_VALUE_NONE && i < count) value = outputs[i];
    if (value != RENGA_VALUE_NONE)
      code = Compare(&execution, value, wanted, i);
    else
      code = RENGA_ERR_GRAPH;
  }
  RengaCall(ExecutionDestroy(&execution));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNamed(Test *test, const char *name, const Tensors *inputs,
                               const Tensors *wanted, bool *supported)
{
  RengaGraph graph = NULL;
  RengaErrorCode code = Load(test, name, inputs, &graph);
  *supported = code != RENGA_ERR_SUPPORT;
  for (int d = 0; d < 2 && code == RENGA_SUCCESS; d++)
    if ((code = RunOn(test->device[d], graph, inputs, wanted)) != RENGA_SUCCESS)
      fprintf(stderr, "on device %s\n", d == 0 ? RENGA_DEVICE_REF : RENGA_DEVICE_CPU);
  if (graph) RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool ArePlain(const Tensors *tensors)
{
  for (int i = 0; i < tensors->count; i++) {
    RengaDataType type = tensors->spec[i].type;
    if (type != RENGA_FLOAT32 && type != RENGA_INT64 && type != RENGA_BOOL) return false;
  }
  return true;
}

/* Sequences, strings and other tensors that cannot be read are no tensors of the plain types. */
static RengaErrorCode RunTest(Test *test, const char *name, bool *plain, bool *supported)
{
  Tensors inputs = {0}, wanted = {0};
  RengaErrorCode code = ReadTensors(name, "input", &inputs);
  if (code == RENGA_SUCCESS) code = ReadTensors(name, "output", &wanted);
  *plain = code == RENGA_SUCCESS && ArePlain(&inputs) && ArePlain(&wanted);
  *supported = code == RENGA_SUCCESS;
  if (code == RENGA_SUCCESS) code = RunNamed(test, name, &inputs, &wanted, supported);
  FreeTensors(&inputs);
  FreeTensors(&wanted);
  return code;
}

static void CountTest(Test *test, const char *name)
{
  bool supported, plain;
  for (size_t i = 0; i < sizeof unpredictable / sizeof unpredictable[0]; i++)
    if (strcmp(name, unpredictable[i]) == 0) return;
  fprintf(stderr, "== %s\n", name);
  RengaErrorCode code = RunTest(test, name, &plain, &supported);
  test->total++;
  test->plain += plain;
  test->passed += code == RENGA_SUCCESS;
  test->plain_passed += plain && code == RENGA_SUCCESS;
  test->unsupported += !supported;
  test->failed += supported && code != RENGA_SUCCESS;
  if (supported && code != RENGA_SUCCESS) printf("%s fails\n", name);
  if (!supported && plain) printf("%s is not supported\n", name);
}

static RengaErrorCode RunAll(Test *test, int argc, char **argv)
{
  struct dirent **entries;
  int count = argc > 1 ? 0 : scandir(folder, &entries, NULL, alphasort);
  for (int i = 1; i < argc; i++) CountTest(test, argv[i]);
  for (int i = 0; i < count; i++) {
    if (entries[i]->d_name[0] != '.') CountTest(test, entries[i]->d_name);
    free(entries[i]);
  }
  if (count > 0) free(entries);
  printf("ONNX's node tests: %d, passed %d, not supported %d, failed %d\n"
         "of float32, int64 and bool only: %d, passed %d, not supported and listed above %d\n",
         test->total, test->passed, test->unsupported, test->failed, test->plain,
         test->plain_passed, test->plain - test->plain_passed);
  RengaCheck(test->failed == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d tests fail", test->failed);
  RengaCheck(argc > 1 || 100 * test->plain_passed >= PLAIN_LEAST_PERCENT * test->plain,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "only %d of %d are supported", test->plain_passed,
             test->plain);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateDevices(Test *test)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  for (int d = 0; d < 2; d++) {
    RengaCall(RengaDeviceCreate(test->comm, &test->device[d]));
    RengaCall(RengaDeviceSetType(test->device[d], types[d]));
    RengaCall(RengaDeviceSetUp(test->device[d]));
  }
  return RENGA_SUCCESS;
}

static const char messages_file[] = "onnx-nodes.messages";

static void ShowMessages(void)
{
  char line[4096];
  FILE *file = fopen(messages_file, "r");
  while (file && fgets(line, sizeof line, file)) fputs(line, stderr);
  if (file) fclose(file);
}

/* What is not supported says so on standard error, hundreds of times: into a file. */
static RengaErrorCode RunQuietly(int argc, char **argv)
{
  Test test = {.log = -1};
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &test.comm));
  RengaCall(CreateDevices(&test));
  int kept = dup(STDERR_FILENO), file = -1;
  if (argc == 1) file = open(messages_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0) dup2(file, STDERR_FILENO);
  RengaErrorCode code = RunAll(&test, argc, argv);
  dup2(kept, STDERR_FILENO);
  close(kept);
  if (file >= 0) close(file);
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&test.device[d]));
  RengaCall(RengaCommDestroy(&test.comm));
  if (code && file >= 0) ShowMessages();
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Main(int argc, char **argv)
{
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  RengaCall(RunQuietly(argc, argv));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  if (getenv("ONNX_NODE_TESTS")) folder = getenv("ONNX_NODE_TESTS");
  if (access(folder, R_OK) != 0) {
    const bool strict = getenv("RENGA_TEST_STRICT") != NULL;
    fprintf(stderr,
            "%s: ONNX's tests are not here: apt-get install libonnx-testdata, or say where "
            "by ONNX_NODE_TESTS\n",
            folder);
    return strict ? EXIT_FAILURE : SKIPPED;
  }
  RengaCallAbort(Main(argc, argv));
  return 0;
}
