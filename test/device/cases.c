/* TEST ranks: 1 */
/* Worked examples of operators, from the files of cases/, on every device. A file holds blocks:

     op MatMul transB=1           operator and attributes
     in real 2,3 : 1 2 3 4 5 6    an input; "in none" is one that is absent
     out real 2,2 : ...           an output that is expected; where the operator takes its shape
                                  from the node, it is this one
     error no multiple            instead of outputs: the message that is expected, in part
     run 7 3 0                    seed, step, first sample; without it the run is for inference
     tolerance 1e-5

   "real" stands for float32 and then float64. ".." repeats the last value to the end. With all
   float32 tensors in a type of 16 bits the answer is float32's on the same values, rounded. */
#include "../plan/plantest.h"
#include "lowcalls.h"
#include "renga/private/op.h"
#include <ctype.h>
#include <glob.h>
#include <math.h>

enum { MOST_TENSORS = 8, MOST_VALUES = 512, MOST_WORDS = 32, LINE = 4096 };

typedef struct {
  RengaTensorSpec spec;
  bool real; /* float32 in one run, float64 in another */
  double value[MOST_VALUES];
} Tensor;

typedef struct {
  const char *file;
  int line;
  char op[64], error[LINE];
  RengaAttributes attributes;
  int n_in, n_out;
  Tensor in[MOST_TENSORS], out[MOST_TENSORS];
  RengaKernelContext context;
  double tolerance;
} Case;

static void Fail(const Case *test, const char *what, const char *which)
{
  fprintf(stderr, "%s:%d: %s: %s %s\n", test->file, test->line, test->op, what, which);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int wrong; /* answers */

static void Wrong(const Case *test, const char *what, const char *which)
{
  fprintf(stderr, "%s:%d: %s: %s %s\n", test->file, test->line, test->op, what, which);
  wrong++;
}

/* Every word of text after its first; the words are cut in place. */
static int Words(char *text, char *word[])
{
  int n = 0;
  strtok(text, " \n");
  for (char *next; n < MOST_WORDS && (next = strtok(NULL, " \n")) != NULL;) word[n++] = next;
  return n;
}

static int ReadInts(const char *text, int64_t value[])
{
  int n = 0;
  for (const char *at = text; n < MOST_WORDS && *at;) {
    char *end;
    value[n++] = strtoll(at, &end, 10);
    at = *end == ',' ? end + 1 : end;
    if (end == text) return 0;
  }
  return n;
}

/* name=value, of the kind that the operator's row declares. */
static RengaErrorCode ReadAttribute(Case *test, char *text)
{
  char *value = strchr(text, '='), name[64];
  if (!value) Fail(test, "no value for", text);
  *value++ = '\0';
  const RengaOperator *op = RengaOperatorFind(test->op);
  snprintf(name, sizeof name, "%s:", text);
  const char *row = op && op->attributes ? strstr(op->attributes, name) : NULL;
  const char *kind = row ? row + strlen(name) : "int";
  int64_t ints[MOST_WORDS];
  if (strncmp(kind, "ints", 4) == 0) {
    int n = ReadInts(value, ints);
    RengaCall(RengaAttributesSetInts(&test->attributes, text, n, ints));
  } else if (strncmp(kind, "int", 3) == 0) {
    RengaCall(RengaAttributesSetInt(&test->attributes, text, strtoll(value, NULL, 10)));
  } else if (strncmp(kind, "real", 4) == 0) {
    RengaCall(RengaAttributesSetReal(&test->attributes, text, strtod(value, NULL)));
  } else {
    RengaCall(RengaAttributesSetString(&test->attributes, text, value));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOperator(Case *test, char *line)
{
  char *word[MOST_WORDS];
  int n = Words(line, word);
  memset(test->op, 0, sizeof test->op);
  strncpy(test->op, word[0], sizeof test->op - 1);
  for (int i = 1; i < n; i++) RengaCall(ReadAttribute(test, word[i]));
  return RENGA_SUCCESS;
}

static RengaDataType ReadType(const Case *test, const char *name)
{
  int type = 0;
  while (type < RENGA_TYPE_COUNT && strcmp(RengaDataTypeName((RengaDataType)type), name) != 0)
    type++;
  if (type == RENGA_TYPE_COUNT) Fail(test, "no type", name);
  return (RengaDataType)type;
}

static void ReadValues(const Case *test, char *text, Tensor *tensor)
{
  int64_t count = RengaTensorSpecCount(&tensor->spec), n = 0;
  if (count > MOST_VALUES) Fail(test, "too many values", "");
  for (char *next = strtok(text, " \n"); next; next = strtok(NULL, " \n")) {
    if (strcmp(next, "..") == 0)
      for (; n > 0 && n < count; n++) tensor->value[n] = tensor->value[n - 1];
    else if (n++ < count)
      tensor->value[n - 1] = strtod(next, NULL);
  }
  if (n != count) Fail(test, "not as many values as the shape says", "");
}

/* "real 2,3 : 1 2 3 4 5 6"; a scalar has the shape "-" */
static void ReadTensor(const Case *test, char *line, Tensor *tensor)
{
  char *values = strchr(line, ':'), *word[MOST_WORDS];
  if (values) *values++ = '\0';
  int n = Words(line, word);
  tensor->spec.ndim = -1;
  if (n == 1 && strcmp(word[0], "none") == 0) return;
  if (n != 2) Fail(test, "no type and shape", "");
  tensor->real = strcmp(word[0], "real") == 0;
  tensor->spec.type = tensor->real ? RENGA_FLOAT32 : ReadType(test, word[0]);
  tensor->spec.ndim = strcmp(word[1], "-") == 0 ? 0 : ReadInts(word[1], tensor->spec.dim);
  if (values) ReadValues(test, values, tensor);
}

static void ReadRun(char *line, RengaKernelContext *context)
{
  char *word[MOST_WORDS];
  int n = Words(line, word);
  context->training = true;
  context->seed = n > 0 ? strtoull(word[0], NULL, 10) : 0;
  context->step = n > 1 ? strtoll(word[1], NULL, 10) : 0;
  context->sample = n > 2 ? strtoll(word[2], NULL, 10) : 0;
}

static bool Begins(const char *line, const char *word)
{
  return strncmp(line, word, strlen(word)) == 0;
}

static RengaErrorCode ReadLine(Case *test, char *line)
{
  if (Begins(line, "op "))
    RengaCall(ReadOperator(test, line));
  else if (Begins(line, "in "))
    ReadTensor(test, line, &test->in[test->n_in++]);
  else if (Begins(line, "out "))
    ReadTensor(test, line, &test->out[test->n_out++]);
  else if (Begins(line, "run"))
    ReadRun(line, &test->context);
  else if (Begins(line, "tolerance "))
    test->tolerance = strtod(line + 10, NULL);
  else if (Begins(line, "error ")) {
    strcpy(test->error, line + 6);
    test->error[strcspn(test->error, "\n")] = '\0';
  } else
    Fail(test, "cannot read the line", line);
  return RENGA_SUCCESS;
}

#define ACCESS(X)                                                                                  \
  X(FLOAT32, float)                                                                                \
  X(FLOAT64, double)                                                                               \
  X(INT8, int8_t)                                                                                  \
  X(UINT8, uint8_t)                                                                                \
  X(INT16, int16_t)                                                                                \
  X(UINT16, uint16_t)                                                                              \
  X(INT32, int32_t) X(UINT32, uint32_t) X(INT64, int64_t) X(UINT64, uint64_t) X(BOOL, uint8_t)

static void Put(RengaDataType type, void *data, int64_t i, double value)
{
#define PUT(name, c)                                                                               \
  if (type == RENGA_##name) ((c *)data)[i] = (c)value;
  ACCESS(PUT)
#undef PUT
}

static double Get(RengaDataType type, const void *data, int64_t i)
{
#define GET(name, c)                                                                               \
  if (type == RENGA_##name) return (double)((const c *)data)[i];
  ACCESS(GET)
#undef GET
  return NAN;
}

/* A block for a tensor, with a guard behind it that nobody may touch. */
static RengaErrorCode Allocate(const RengaTensorSpec *spec, const double value[], void **data)
{
  char *bytes;
  size_t size = RengaTensorSpecBytes(spec);
  RengaCall(RengaMalloc(size + 64, &bytes));
  memset(bytes, 0x7f, size + 64);
  for (int64_t i = 0; value && i < RengaTensorSpecCount(spec); i++)
    Put(spec->type, bytes, i, value[i]);
  *data = bytes;
  return RENGA_SUCCESS;
}

static bool GuardIsWhole(const RengaTensorSpec *spec, const void *data)
{
  const char *guard = (const char *)data + RengaTensorSpecBytes(spec);
  for (int i = 0; i < 64; i++)
    if (guard[i] != 0x7f) return false;
  return true;
}

static bool Near(double got, double want, double tolerance)
{
  if (isnan(want)) return isnan(got);
  return got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

static void Compare(const Case *test, const char *device, int output, const RengaTensorSpec *spec,
                    const void *data)
{
  char text[256], got[160], want[160];
  const Tensor *wanted = &test->out[output];
  RengaTensorSpecFormat(spec, sizeof got, got);
  RengaTensorSpecFormat(&wanted->spec, sizeof want, want);
  if (strcmp(strchr(got, '['), strchr(want, '[')) != 0) Wrong(test, "output has shape", got);
  if (!wanted->real && strcmp(got, want) != 0) Wrong(test, "output has type", got);
  for (int64_t i = 0; i < RengaTensorSpecCount(spec); i++) {
    double value = Get(spec->type, data, i);
    snprintf(text, sizeof text, "%s: output %d, element %lld: %.9g, not %.9g", device, output,
             (long long)i, value, wanted->value[i]);
    if (Near(value, wanted->value[i], test->tolerance)) continue;
    Wrong(test, "on", text);
    return;
  }
  if (!GuardIsWhole(spec, data)) Wrong(test, "writes past the end of an output on", device);
}

/* The kernel on one device; the answers are compared unless an error is expected. */
static RengaErrorCode Run(const Case *test, RengaDevice device, const RengaOpCall *call,
                          bool compare)
{
  const char *type;
  void *in[MOST_TENSORS] = {NULL}, *out[MOST_TENSORS] = {NULL};
  char *workspace = NULL;
  RengaKernel kernel = NULL;
  RengaCall(RengaDeviceGetType(device, &type));
  RengaErrorCode code = RengaKernelCreate(device, call, &kernel);
  for (int i = 0; i < test->n_in; i++)
    if (call->in[i].ndim >= 0) RengaCall(Allocate(&call->in[i], test->in[i].value, &in[i]));
  for (int i = 0; i < test->n_out; i++) RengaCall(Allocate(&call->out[i], NULL, &out[i]));
  if (kernel) RengaCall(RengaMalloc(RengaKernelGetWorkspace(kernel) + 1, &workspace));
  if (kernel)
    code = RengaKernelRun(kernel, NULL, &test->context, (const void *const *)in, out, workspace);
  for (int i = 0; i < test->n_out && compare && !code; i++)
    Compare(test, type, i, &call->out[i], out[i]);
  if (kernel) RengaCall(RengaKernelDestroy(&kernel));
  for (int i = 0; i < MOST_TENSORS; i++) {
    RengaFree(&in[i]);
    RengaFree(&out[i]);
  }
  RengaFree(&workspace);
  return code;
}

static RengaErrorCode InferAndRun(const Case *test, RengaDevice device, RengaDataType real)
{
  RengaTensorSpec in[MOST_TENSORS], out[MOST_TENSORS];
  for (int i = 0; i < test->n_in; i++) {
    in[i] = test->in[i].spec;
    if (test->in[i].real) in[i].type = real;
  }
  for (int i = 0; i < test->n_out; i++) out[i] = test->out[i].spec;
  RengaOpCall call = {
      RengaOperatorFind(test->op), &test->attributes, test->n_in, test->n_out, in, out};
  if (!call.op) Fail(test, "no operator", test->op);
  RengaErrorCode code = RengaOperatorInfer(&call);
  if (code != RENGA_SUCCESS) return code;
  if (RengaOperatorFlops(&call) < 0 || RengaOperatorBytes(&call) < 0)
    Fail(test, "costs", "less than 0");
  return Run(test, device, &call, test->error[0] == '\0');
}

static RengaErrorCode CompareLow(const Case *test, RengaDevice device, const RengaOpCall *call,
                                 const void *const input[], RengaDataType type)
{
  Variant wide, low;
  char text[160];
  RengaCall(MakeVariants(device, call, input, type, ~0u, &wide, &low));
  Variant *variant[] = {&wide, &low};
  for (int v = 0; v < 2; v++) {
    RengaKernel kernel = NULL;
    RengaCall(RengaKernelCreate(device, &variant[v]->op, &kernel));
    RengaCall(RunVariant(device, kernel, &test->context, -1, variant[v]));
    RengaCall(RengaKernelDestroy(&kernel));
  }
  for (int o = 0; o < test->n_out; o++) {
    const double rounding = RoundingOf(device, false, test->op, type);
    const int64_t at = FindFar(device, &wide, &low, o, test->tolerance + rounding);
    snprintf(text, sizeof text, "output %d, element %lld in %s", o, (long long)at,
             RengaDataTypeName(type));
    if (at >= 0) Wrong(test, "is not float32's answer, rounded:", text);
  }
  RengaCall(FreeVariant(&wide));
  RengaCall(FreeVariant(&low));
  return RENGA_SUCCESS;
}

/* The case in float32, and once more in a type of 16 bits. */
static RengaErrorCode CheckLow(const Case *test, RengaDevice device, RengaDataType type)
{
  RengaTensorSpec in[MOST_TENSORS], out[MOST_TENSORS];
  void *input[MOST_TENSORS] = {NULL};
  for (int i = 0; i < test->n_in; i++) in[i] = test->in[i].spec;
  for (int o = 0; o < test->n_out; o++) out[o] = test->out[o].spec;
  RengaOpCall call = {
      RengaOperatorFind(test->op), &test->attributes, test->n_in, test->n_out, in, out};
  RengaCall(RengaOperatorInfer(&call));
  for (int i = 0; i < test->n_in; i++)
    if (in[i].ndim >= 0) RengaCall(Allocate(&in[i], test->in[i].value, &input[i]));
  RengaCall(CompareLow(test, device, &call, (const void *const *)input, type));
  for (int i = 0; i < test->n_in; i++) RengaFree(&input[i]);
  return RENGA_SUCCESS;
}

static bool HasReal(const Case *test)
{
  bool real = false;
  for (int i = 0; i < test->n_in; i++) real = real || test->in[i].real;
  return real;
}

static void CheckError(const Case *test, RengaDevice device, RengaDataType real)
{
  FILE *file;
  int saved = BeginErrors(&file);
  RengaErrorCode code = InferAndRun(test, device, real);
  const char *text = EndErrors(file, saved);
  if (code == RENGA_SUCCESS) Wrong(test, "no error, expected", test->error);
  if (!strstr(text, test->error)) Wrong(test, "another error:", text);
}

static RengaErrorCode CheckCase(Case *test, int n_devices, RengaDevice device[])
{
  if (test->error[0] && test->n_out == 0) {
    test->n_out = 1;
    test->out[0].spec.ndim = 0;
  }
  for (int d = 0; d < n_devices; d++)
    for (RengaDataType real = RENGA_FLOAT32; real <= RENGA_FLOAT64; real++) {
      if (real == RENGA_FLOAT64 && !HasReal(test)) continue;
      if (test->error[0])
        CheckError(test, device[d], real);
      else if (InferAndRun(test, device[d], real))
        Wrong(test, "is refused", "");
    }
  for (int d = 0; d < n_devices && !test->error[0]; d++)
    for (int t = 0; t < 2; t++)
      RengaCall(CheckLow(test, device[d], t ? RENGA_FLOAT16 : RENGA_BFLOAT16));
  RengaCall(RengaAttributesFree(&test->attributes));
  return RENGA_SUCCESS;
}

static bool IsBlank(const char *line)
{
  while (isspace((unsigned char)*line)) line++;
  return *line == '\0' || *line == '#';
}

static void StartCase(Case *test, const char *file, int line)
{
  memset(test, 0, sizeof *test);
  test->file = file;
  test->line = line;
  test->tolerance = 2e-6;
}

/* A block ends where the next begins. */
static RengaErrorCode CheckFile(const char *name, int n_devices, RengaDevice device[])
{
  static Case test;
  char line[LINE];
  int number = 0;
  FILE *file = fopen(name, "r");
  TestTrue(file != NULL);
  StartCase(&test, name, 1);
  while (fgets(line, sizeof line, file)) {
    number++;
    if (IsBlank(line)) continue;
    if (Begins(line, "op ")) {
      if (test.op[0]) RengaCall(CheckCase(&test, n_devices, device));
      StartCase(&test, name, number);
    }
    RengaCall(ReadLine(&test, line));
  }
  if (test.op[0]) RengaCall(CheckCase(&test, n_devices, device));
  fclose(file);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAll(void)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  RengaDevice device[2];
  RengaComm comm;
  char pattern[LINE];
  glob_t files;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &comm));
  for (int d = 0; d < 2; d++) {
    RengaCall(RengaDeviceCreate(comm, &device[d]));
    RengaCall(RengaDeviceSetType(device[d], types[d]));
    RengaCall(RengaDeviceSetUp(device[d]));
  }
  const char *source = getenv("top_srcdir");
  snprintf(pattern, sizeof pattern, "%s/test/device/cases/*.txt", source ? source : ".");
  TestTrue(glob(pattern, 0, NULL, &files) == 0);
  for (size_t i = 0; i < files.gl_pathc; i++) RengaCall(CheckFile(files.gl_pathv[i], 2, device));
  globfree(&files);
  TestTrue(wrong == 0);
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunAll());
  RengaCallAbort(RengaFinalize());
  return 0;
}
