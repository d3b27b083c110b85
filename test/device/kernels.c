/* TEST ranks: 1 timeout: 120 */
/* Every cpu kernel against the ref one, on each instruction set of this machine; the same bits with one,
   two and three threads, and in place where the kernel says it may. */
#include "../check.h"
#include "cases.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, THREADS = 3 };

typedef struct {
  RengaAttributes attributes;
  RengaTensorSpec in[MOST], out[MOST];
  void *input[MOST], *output[MOST]; /* what ref made */
  int n_in, n_out;
} Call;

static const RengaKernelContext context = {.seed = 17, .step = 3, .sample = 5, .samples = 2,
                                           .training = true};

/* ---- text to calls ---- */

static RengaErrorCode ParseAttribute(const char *name, char *value, RengaAttributes *attributes)
{
  if (strchr("0123456789-", value[0]) == NULL) {
    RengaCall(RengaAttributesSetString(attributes, name, value));
    return RENGA_SUCCESS;
  }
  static const char *const lists[] = {"perm", "axes", "starts", "ends", "steps", "split", "repeats",
                                      "pads", "strides", "dilations", "kernel_shape"};
  static const char *const reals[] = {"alpha", "min", "max", "epsilon", "ratio", "scale"};
  int64_t ints[MOST];
  int count = 0;
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
    if (strcmp(name, reals[i]) == 0) {
      RengaCall(RengaAttributesSetReal(attributes, name, atof(value)));
      return RENGA_SUCCESS;
    }
  for (char *end = value; *value && count < MOST; value = *end ? end + 1 : end)
    ints[count++] = strtoll(value, &end, 10);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strcmp(name, lists[i]) == 0) {
      RengaCall(RengaAttributesSetInts(attributes, name, count, ints));
      return RENGA_SUCCESS;
    }
  RengaCall(RengaAttributesSetInt(attributes, name, ints[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseAttributes(const char *text, RengaAttributes *attributes)
{
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    Expect(equals != NULL);
    *equals = '\0';
    RengaCall(ParseAttribute(word, equals + 1, attributes));
  }
  return RENGA_SUCCESS;
}

static RengaTensorSpec ParseSpec(const char *word, int64_t *below, bool *positive)
{
  static const struct {
    char letter;
    RengaDataType type;
  } types[] = {{'f', RENGA_FLOAT32}, {'l', RENGA_INT64}, {'i', RENGA_INT32}, {'b', RENGA_BOOL},
               {'d', RENGA_FLOAT64}};
  RengaTensorSpec spec = {.ndim = 0};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    if (types[t].letter == word[0]) spec.type = types[t].type;
  const char *at = word + 1;
  while (*at >= '0' && *at <= '9') {
    char *end = NULL;
    spec.dim[spec.ndim++] = strtoll(at, &end, 10);
    at = *end == ',' ? end + 1 : end;
  }
  *below = *at == '<' ? atoll(at + 1) : 2;
  *positive = *at == '+';
  return spec;
}

static RengaErrorCode Fill(const RengaTensorSpec *spec, uint64_t stream, int64_t below, bool positive,
                           void *data)
{
  int64_t count = RengaTensorSpecCount(spec);
  float *uniform = NULL;
  RengaCall(RengaMalloc(count + 1, &uniform));
  RengaRandomUniform(7, stream, 0, count, uniform);
  for (int64_t i = 0; i < count; i++) {
    float value = positive ? uniform[i] + 0.2f : 4 * uniform[i] - 2;
    int64_t integer = (int64_t)(uniform[i] * (float)below);
    if (spec->type == RENGA_FLOAT32) ((float *)data)[i] = value;
    if (spec->type == RENGA_INT64) ((int64_t *)data)[i] = integer;
    if (spec->type == RENGA_INT32) ((int32_t *)data)[i] = (int32_t)integer;
    if (spec->type == RENGA_BOOL) ((bool *)data)[i] = integer != 0;
  }
  RengaFree(&uniform);
  return RENGA_SUCCESS;
}

static RengaErrorCode Allocate(const RengaTensorSpec *spec, void **data)
{
  char *bytes = NULL;
  RengaCall(RengaMalloc(RengaTensorSpecBytes(spec) + 64, &bytes));
  *data = bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeInputs(const char *text, uint64_t number, const Call *before, Call *call)
{
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    int i = call->n_in++;
    RengaTensorSpec *spec = &call->in[i];
    if (word[0] == '@' || word[0] == '^') {
      int from = atoi(word + 1);
      *spec = word[0] == '@' ? before->out[from] : before->in[from];
      RengaCall(Allocate(spec, &call->input[i]));
      memcpy(call->input[i], word[0] == '@' ? before->output[from] : before->input[from],
             RengaTensorSpecBytes(spec));
      continue;
    }
    int64_t below;
    bool positive;
    *spec = ParseSpec(word, &below, &positive);
    RengaCall(Allocate(spec, &call->input[i]));
    RengaCall(Fill(spec, 100 * number + (uint64_t)i, below, positive, call->input[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOutputs(const char *text, Call *call)
{
  int64_t below;
  bool positive;
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  if (text[0] >= '0' && text[0] <= '9') {
    call->n_out = atoi(text);
    return RENGA_SUCCESS;
  }
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    call->out[call->n_out++] = ParseSpec(word, &below, &positive);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeCall(int number, const Call *before, Call *call, RengaOpCall *op)
{
  const Case *c = &cases[number];
  memset(call, 0, sizeof *call);
  RengaCall(ParseAttributes(c->attributes, &call->attributes));
  RengaCall(MakeInputs(c->inputs, (uint64_t)number, before, call));
  RengaCall(MakeOutputs(c->outputs, call));
  *op = (RengaOpCall){.op = RengaOperatorFind(c->op), .attributes = &call->attributes,
                      .n_in = call->n_in, .n_out = call->n_out, .in = call->in, .out = call->out};
  Expect(op->op != NULL);
  RengaCall(RengaOperatorInfer(op));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeCall(Call *call)
{
  RengaCall(RengaAttributesFree(&call->attributes));
  for (int i = 0; i < MOST; i++) {
    RengaFree(&call->input[i]);
    RengaFree(&call->output[i]);
  }
  return RENGA_SUCCESS;
}

/* ---- running ---- */

/* alias: output 0 is written over that input; -1: not. */
static RengaErrorCode Run(RengaDevice device, const RengaOpCall *op, Call *call, int alias,
                          bool *fallback, void *output[])
{
  RengaKernel kernel = NULL;
  void *workspace = NULL;
  const void *in[MOST] = {NULL};
  void *out[MOST] = {NULL}, *own[MOST] = {NULL};
  RengaCall(RengaKernelCreate(device, op, &kernel));
  *fallback = RengaKernelIsFallback(kernel);
  RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel), &workspace));
  for (int i = 0; i < call->n_out; i++) {
    RengaCall(RengaDeviceMalloc(device, RengaTensorSpecBytes(&call->out[i]) + 64, &own[i]));
    out[i] = own[i];
  }
  for (int i = 0; i < call->n_in; i++) in[i] = call->input[i];
  if (alias >= 0) {
    memcpy(own[0], call->input[alias], RengaTensorSpecBytes(&call->in[alias]));
    in[alias] = own[0];
  }
  RengaCall(RengaKernelRun(kernel, NULL, &context, in, out, workspace));
  for (int i = 0; i < call->n_out; i++) {
    memcpy(output[i], out[i], RengaTensorSpecBytes(&call->out[i]));
    RengaCall(RengaDeviceFree(device, &own[i]));
  }
  RengaCall(RengaDeviceFree(device, &workspace));
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode MayAlias(RengaDevice device, const RengaOpCall *op, int input, bool *may)
{
  RengaKernel kernel = NULL;
  RengaCall(RengaKernelCreate(device, op, &kernel));
  *may = RengaKernelMayAlias(kernel, 0, input);
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode Compare(int number, const char *what, const RengaTensorSpec *spec,
                              const void *got, const void *expected)
{
  const Case *c = &cases[number];
  int64_t count = RengaTensorSpecCount(spec);
  if (spec->type != RENGA_FLOAT32) {
    RengaCheck(memcmp(got, expected, RengaTensorSpecBytes(spec)) == 0, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "case %d, %s %s (%s), %s: integers differ from ref", number, c->op,
               c->attributes, c->inputs, what);
    return RENGA_SUCCESS;
  }
  const float *x = got, *y = expected;
  double largest = 1e-30, tolerance = c->tolerance > 0 ? c->tolerance : 1e-5;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(y[i]) && fabs(y[i]) > largest) largest = fabs(y[i]);
  for (int64_t i = 0; i < count; i++) {
    bool same = fabs((double)x[i] - y[i]) <= tolerance * largest || x[i] == y[i] ||
                (isnan(x[i]) && isnan(y[i]));
    RengaCheck(same, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "case %d, %s %s (%s), %s: element %lld is %.9g, ref has %.9g", number, c->op,
               c->attributes, c->inputs, what, (long long)i, (double)x[i], (double)y[i]);
  }
  return RENGA_SUCCESS;
}

/* One instruction set: devices with 1, 2 and 3 threads. */
static RengaErrorCode CheckSet(RengaDevice const device[THREADS], const char *isa, int number,
                               const RengaOpCall *op, Call *call)
{
  void *first[MOST] = {NULL}, *again[MOST] = {NULL};
  bool fallback = false, may = false;
  for (int i = 0; i < call->n_out; i++) {
    RengaCall(Allocate(&call->out[i], &first[i]));
    RengaCall(Allocate(&call->out[i], &again[i]));
  }
  RengaCall(Run(device[0], op, call, -1, &fallback, first));
  int64_t elements = 1;
  for (int i = 0; i < call->n_in; i++) elements *= RengaTensorSpecCount(&call->in[i]);
  RengaCheck(!fallback || elements == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "case %d, %s (%s): no cpu kernel", number, cases[number].op, cases[number].inputs);
  for (int i = 0; i < call->n_out; i++)
    RengaCall(Compare(number, isa, &call->out[i], first[i], call->output[i]));
  for (int t = 1; t < THREADS; t++) {
    RengaCall(Run(device[t], op, call, -1, &fallback, again));
    for (int i = 0; i < call->n_out; i++)
      RengaCheck(memcmp(first[i], again[i], RengaTensorSpecBytes(&call->out[i])) == 0, MPI_COMM_SELF,
                 RENGA_ERR_INTERNAL, "case %d, %s (%s): %d threads change output %d", number,
                 cases[number].op, cases[number].inputs, t + 1, i);
  }
  for (int j = 0; j < call->n_in; j++) {
    RengaCall(MayAlias(device[0], op, j, &may));
    if (!may) continue;
    RengaCall(Run(device[1], op, call, j, &fallback, again));
    for (int i = 0; i < call->n_out; i++)
      RengaCheck(memcmp(first[i], again[i], RengaTensorSpecBytes(&call->out[i])) == 0, MPI_COMM_SELF,
                 RENGA_ERR_INTERNAL, "case %d, %s (%s): over input %d, output %d differs", number,
                 cases[number].op, cases[number].inputs, j, i);
  }
  for (int i = 0; i < call->n_out; i++) {
    RengaFree(&first[i]);
    RengaFree(&again[i]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeDevice(RengaComm comm, const char *type, int threads, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetFromOptions(*device));
  RengaCall(RengaDeviceSetType(*device, type));
  RengaCall(RengaDeviceSetThreads(*device, threads));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(RengaComm comm, const char *isa)
{
  RengaDevice ref = NULL, cpu[THREADS] = {NULL};
  Call before, call;
  bool fallback = false;
  RengaCall(RengaOptionsSetValue("device_isa", isa));
  RengaCall(RengaOptionsSetValue("device_poison", "true"));
  RengaCall(MakeDevice(comm, RENGA_DEVICE_REF, 1, &ref));
  for (int t = 0; t < THREADS; t++) RengaCall(MakeDevice(comm, RENGA_DEVICE_CPU, t + 1, &cpu[t]));
  memset(&before, 0, sizeof before);
  for (int number = 0; number < N_CASES; number++) {
    RengaOpCall op;
    RengaCall(MakeCall(number, &before, &call, &op));
    for (int i = 0; i < call.n_out; i++) RengaCall(Allocate(&call.out[i], &call.output[i]));
    RengaCall(Run(ref, &op, &call, -1, &fallback, call.output));
    RengaCall(CheckSet(cpu, isa, number, &op, &call));
    RengaCall(FreeCall(&before));
    before = call;
  }
  RengaCall(FreeCall(&before));
  for (int t = 0; t < THREADS; t++) RengaCall(RengaDeviceDestroy(&cpu[t]));
  RengaCall(RengaDeviceDestroy(&ref));
  return RENGA_SUCCESS;
}

/* Every operator that has a cpu kernel has a case. */
static RengaErrorCode CheckCases(RengaComm comm)
{
  RengaDevice cpu = NULL;
  RengaCall(MakeDevice(comm, RENGA_DEVICE_CPU, 1, &cpu));
  for (int o = 0; o < RengaOperatorCount(); o++) {
    const char *name = RengaOperatorAt(o)->name;
    const RengaKernelRow *row = NULL;
    RengaCall(cpu->ops->findkernel(cpu, name, &row));
    int number = 0;
    while (row && number < N_CASES && strcmp(cases[number].op, name) != 0) number++;
    RengaCheck(number < N_CASES, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "no case for %s", name);
  }
  RengaCall(RengaDeviceDestroy(&cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckCases(comm));
  RengaCall(CheckAll(comm, "base"));
#if defined __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) RengaCall(CheckAll(comm, "avx2"));
#endif
  RengaCall(CheckAll(comm, "auto"));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
