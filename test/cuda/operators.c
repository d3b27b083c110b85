/* Every case of the cpu device's operators on the cuda device, against ref; in place where the
   kernel says it may; and flat vectors against ref. device.sh runs it on the emulated runtime. */
#include "../check.h"
#include "../device/calls.h"
#include "../device/cases.h"
#include "../device/lowcalls.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <math.h>

static const RengaKernelContext context = {
    .seed = 17, .step = 3, .sample = 5, .samples = 2, .training = true};
/* Operators of the cases that the host computes, from copies; the device has kernels of its own for
   all others, but for products of nothing. */
static const char *const on_host[] = {NULL};

static RengaErrorCode Put(RengaDevice device, const RengaTensorSpec *spec, const void *data,
                          void *pointer_to_pointer)
{
  const size_t bytes = RengaTensorSpecBytes(spec);
  void **place = pointer_to_pointer;
  RengaCall(RengaDeviceMalloc(device, bytes, place));
  if (bytes && data)
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, *place, data, bytes));
  return RENGA_SUCCESS;
}

/* alias: output 0 is written over that input; -1: not. */
static RengaErrorCode Run(RengaDevice device, RengaKernel kernel, Call *call, int alias,
                          void *output[])
{
  void *in[MOST] = {NULL}, *out[MOST] = {NULL}, *workspace = NULL;
  RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel), &workspace));
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i].ndim >= 0) RengaCall(Put(device, &call->in[i], call->input[i], &in[i]));
  for (int o = 0; o < call->n_out; o++)
    if (o > 0 || alias < 0) RengaCall(Put(device, &call->out[o], NULL, &out[o]));
  void *first = out[0];
  if (alias >= 0) out[0] = in[alias];
  RengaCall(RengaKernelRun(kernel, NULL, &context, (const void *const *)in, out, workspace));
  for (int o = 0; o < call->n_out; o++)
    if (out[o])
      RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, output[o], out[o],
                                RengaTensorSpecBytes(&call->out[o])));
  RengaCall(RengaStreamSynchronize(device, NULL));
  out[0] = first;
  for (int o = 0; o < call->n_out; o++) RengaCall(RengaDeviceFree(device, &out[o]));
  for (int i = 0; i < call->n_in; i++) RengaCall(RengaDeviceFree(device, &in[i]));
  RengaCall(RengaDeviceFree(device, &workspace));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOnRef(RengaDevice ref, const RengaOpCall *op, Call *call)
{
  RengaKernel kernel = NULL;
  for (int o = 0; o < call->n_out; o++) RengaCall(Allocate(&call->out[o], &call->output[o]));
  RengaCall(RengaKernelCreate(ref, op, &kernel));
  RengaCall(
      RengaKernelRun(kernel, NULL, &context, (const void *const *)call->input, call->output, NULL));
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static bool IsNear(const RengaTensorSpec *spec, const void *got, const void *want, double tolerance)
{
  const float *x = got, *y = want;
  double largest = 1e-30;
  if (spec->type != RENGA_FLOAT32) return memcmp(got, want, RengaTensorSpecBytes(spec)) == 0;
  for (int64_t i = 0; i < RengaTensorSpecCount(spec); i++)
    if (isfinite(y[i]) && fabs(y[i]) > largest) largest = fabs(y[i]);
  for (int64_t i = 0; i < RengaTensorSpecCount(spec); i++)
    if (!(fabs((double)x[i] - y[i]) <= tolerance * largest || x[i] == y[i] ||
          (isnan(x[i]) && isnan(y[i]))))
      return false;
  return true;
}

static bool MayFallBack(const Call *call, const char *op)
{
  bool empty = false;
  for (int i = 0; i < call->n_in; i++) empty = empty || RengaTensorSpecCount(&call->in[i]) == 0;
  for (int i = 0; on_host[i]; i++)
    if (strcmp(on_host[i], op) == 0) return true;
  return empty && (strncmp(op, "Linear", 6) == 0 || strcmp(op, "MatMul") == 0);
}

static RengaErrorCode CheckCase(RengaDevice cuda, int number, const RengaOpCall *op, Call *call)
{
  const Case *c = &cases[number];
  void *got[MOST] = {NULL};
  RengaKernel kernel = NULL;
  RengaCall(RengaKernelCreate(cuda, op, &kernel));
  for (int o = 0; o < call->n_out; o++) RengaCall(Allocate(&call->out[o], &got[o]));
  for (int alias = -1; alias < call->n_in; alias++) {
    if (alias >= 0 && !RengaKernelMayAlias(kernel, 0, alias)) continue;
    RengaCall(Run(cuda, kernel, call, alias, got));
    for (int o = 0; o < call->n_out; o++)
      RengaCheck(
          IsNear(&call->out[o], got[o], call->output[o], c->tolerance > 0 ? c->tolerance : 1e-5),
          MPI_COMM_SELF, RENGA_ERR_INTERNAL,
          "case %d, %s %s (%s): output %d differs from ref (over input %d)", number, c->op,
          c->attributes, c->inputs, o, alias);
  }
  RengaCheck(MayFallBack(call, c->op) || !RengaKernelIsFallback(kernel), MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "case %d, %s (%s): no cuda kernel", number, c->op, c->inputs);
  for (int o = 0; o < call->n_out; o++) RengaFree(&got[o]);
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

/* In bfloat16 the results are ref's in float32, rounded. */
static RengaErrorCode CheckLow(RengaDevice ref, RengaDevice cuda, int number, const RengaOpCall *op,
                               const Call *call)
{
  const Case *c = &cases[number];
  const double tolerance = c->tolerance > 0 ? c->tolerance : 1e-5;
  Variant wide, low;
  RengaKernel kernel = NULL;
  RengaCall(
      MakeVariants(ref, op, (const void *const *)call->input, RENGA_BFLOAT16, ~0u, &wide, &low));
  RengaCall(RengaKernelCreate(ref, &wide.op, &kernel));
  RengaCall(RunVariant(ref, kernel, &context, -1, &wide));
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(RengaKernelCreate(cuda, &low.op, &kernel));
  RengaCall(RunVariant(cuda, kernel, &context, -1, &low));
  RengaCall(RengaKernelDestroy(&kernel));
  for (int o = 0; o < call->n_out; o++)
    RengaCheck(FindFar(ref, &wide, &low, o, tolerance) < 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "case %d, %s %s (%s): output %d in bfloat16 differs from ref, rounded", number,
               c->op, c->attributes, c->inputs, o);
  RengaCall(FreeVariant(&wide));
  RengaCall(FreeVariant(&low));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCases(RengaDevice ref, RengaDevice cuda)
{
  Call before, call;
  memset(&before, 0, sizeof before);
  for (int number = 0; number < N_CASES; number++) {
    RengaOpCall op;
    RengaCall(MakeCall(&cases[number], number, &before, &call, &op));
    RengaCall(RunOnRef(ref, &op, &call));
    RengaCall(CheckCase(cuda, number, &op, &call));
    RengaCall(CheckLow(ref, cuda, number, &op, &call));
    RengaCall(FreeCall(&before));
    before = call;
  }
  RengaCall(FreeCall(&before));
  return RENGA_SUCCESS;
}

enum { VECTORS = 40, COUNT = 20001, KINDS = 4 }; /* parameter, gradient, two moments */

/* Two steps of Adam, two of SGD, a sum and norms of all; a table is longer than a launch takes. */
static RengaErrorCode UseVectors(RengaDevice device, float *x[KINDS], double sums[VECTORS])
{
  static RengaParameterUpdate update[VECTORS];
  static RengaVector vector[VECTORS];
  const int each = COUNT / VECTORS;
  for (int v = 0; v < VECTORS; v++) {
    const int64_t count = v == 0 ? COUNT - (VECTORS - 1) * each : each,
                  at = v ? COUNT - v * each : 0;
    RengaVector part[KINDS];
    for (int k = 0; k < KINDS; k++) part[k] = (RengaVector){x[k] + at, RENGA_FLOAT32, count};
    update[v] = (RengaParameterUpdate){.parameter = part[0], .gradient = part[1], .rate_scale = 1};
    update[v].moment[0] = part[2];
    update[v].moment[1] = part[3];
    update[v].weight_decay = v % 2 ? 0.1 : 0;
    vector[v] = part[0];
  }
  for (int s = 1; s <= 2; s++) {
    const RengaAdamStep adam = {0.02, 0.9, 0.999, 1e-8, s == 1, s};
    const RengaSgdStep sgd = {0.2, 0.9, 0, s == 1, s == 1};
    RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 0.5, VECTORS, update));
    RengaCall(RengaDeviceUpdateSgd(device, NULL, &sgd, 0.5, VECTORS, update));
  }
  RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, COUNT, x[0], x[1]));
  vector[VECTORS - 1] = (RengaVector){x[0], RENGA_FLOAT32, COUNT};
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, VECTORS, vector, sums));
  RengaCall(RengaStreamSynchronize(device, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckVectors(RengaDevice ref, RengaDevice cuda)
{
  const RengaTensorSpec spec = {RENGA_FLOAT32, 1, {COUNT}};
  float *host[KINDS], *far[KINDS], *got = NULL;
  double want[VECTORS], sums[VECTORS];
  RengaCall(RengaMalloc(COUNT, &got));
  for (int k = 0; k < KINDS; k++) {
    RengaCall(RengaMalloc(COUNT, &host[k]));
    RengaRandomUniform(3, (uint64_t)k, 0, COUNT, host[k]);
    RengaCall(Put(cuda, &spec, host[k], &far[k]));
  }
  RengaCall(RengaStreamSynchronize(cuda, NULL));
  RengaCall(UseVectors(ref, host, want));
  RengaCall(UseVectors(cuda, far, sums));
  for (int v = 0; v < VECTORS; v++) Expect(fabs(sums[v] - want[v]) <= 1e-6 * want[v]);
  for (int k = 0; k < KINDS; k++) {
    RengaCall(RengaDeviceCopy(cuda, NULL, RENGA_DEVICE_TO_HOST, got, far[k], COUNT * sizeof *got));
    RengaCall(RengaStreamSynchronize(cuda, NULL));
    Expect(IsNear(&spec, got, host[k], 1e-6));
    RengaCall(RengaDeviceFree(cuda, &far[k]));
    RengaFree(&host[k]);
  }
  RengaFree(&got);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CUDA};
  RengaDevice device[2];
  RengaComm comm = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int d = 0; d < 2; d++) {
    RengaCall(RengaDeviceCreate(comm, &device[d]));
    RengaCall(RengaDeviceSetType(device[d], types[d]));
    if (d == 1) RengaCall(RengaDeviceSetFromOptions(device[d]));
    RengaCall(RengaDeviceSetUp(device[d]));
  }
  RengaCall(CheckVectors(device[0], device[1]));
  RengaCall(CheckCases(device[0], device[1]));
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
