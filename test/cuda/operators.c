/* Every case of the cpu device's operators, and longer ones, on the cuda device, against ref: by
   kernels of its own, in place where the kernel says it may, on two streams; flat vectors; numbers
   that are outside. device.sh runs it on the emulated runtime. */
#include "../check.h"
#include "../device/calls.h"
#include "../device/cases.h"
#include "../device/lowcalls.h"
#include "longcases.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <math.h>

static const RengaKernelContext context = {
    .seed = 17, .step = 3, .sample = 5, .samples = 2, .training = true};
static RengaStream other; /* every second case is computed on it, the others on NULL */

static RengaErrorCode Put(RengaDevice device, RengaStream stream, const RengaTensorSpec *spec,
                          const void *data, void *pointer_to_pointer)
{
  const size_t bytes = RengaTensorSpecBytes(spec);
  void **place = pointer_to_pointer;
  RengaCall(RengaDeviceMalloc(device, bytes, place));
  if (bytes && data)
    RengaCall(RengaDeviceCopy(device, stream, RENGA_HOST_TO_DEVICE, *place, data, bytes));
  return RENGA_SUCCESS;
}

/* alias: output 0 is written over that input; -1: not. */
static RengaErrorCode Run(RengaDevice device, RengaStream stream, RengaKernel kernel, Call *call,
                          int alias, void *output[])
{
  void *in[MOST] = {NULL}, *out[MOST] = {NULL}, *workspace = NULL;
  RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel), &workspace));
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i].ndim >= 0) RengaCall(Put(device, stream, &call->in[i], call->input[i], &in[i]));
  for (int o = 0; o < call->n_out; o++)
    if (o > 0 || alias < 0) RengaCall(Put(device, stream, &call->out[o], NULL, &out[o]));
  void *first = out[0];
  if (alias >= 0) out[0] = in[alias];
  RengaCall(RengaKernelRun(kernel, stream, &context, (const void *const *)in, out, workspace));
  RengaErrorCode code = RENGA_SUCCESS; /* a copy to memory of the host waits, too */
  for (int o = 0; o < call->n_out && !code; o++)
    if (out[o])
      code = RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_HOST, output[o], out[o],
                             RengaTensorSpecBytes(&call->out[o]));
  if (!code) code = RengaStreamSynchronize(device, stream);
  out[0] = first;
  for (int o = 0; o < call->n_out; o++) RengaCall(RengaDeviceFree(device, &out[o]));
  for (int i = 0; i < call->n_in; i++) RengaCall(RengaDeviceFree(device, &in[i]));
  RengaCall(RengaDeviceFree(device, &workspace));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOnRef(RengaDevice ref, const RengaOpCall *op, Call *call)
{
  RengaKernel kernel = NULL;
  for (int o = 0; o < call->n_out; o++) RengaCall(Allocate(&call->out[o], &call->output[o]));
  RengaCall(RengaKernelCreate(ref, op, &kernel));
  char *workspace;
  RengaCall(RengaMalloc(RengaKernelGetWorkspace(kernel) + 1, &workspace));
  RengaCall(RengaKernelRun(kernel, NULL, &context, (const void *const *)call->input, call->output,
                           workspace));
  RengaFree(&workspace);
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

/* Products of nothing are the host's, statistics of rows in lanes, and BatchNormalization with
   ReLU and sums of convolutions' gradients, which graphs of the device leave apart; all other
   operators of the cases have kernels. */
static bool MayFallBack(const Call *call, const char *op)
{
  bool empty = false;
  if (strncmp(op, "BatchNormalizationLane", 22) == 0) return true;
  if (strncmp(op, "BatchNormalizationJoin", 22) == 0) return true;
  if (strncmp(op, "BatchNormalizationRelu", 22) == 0) return true;
  if (strcmp(op, "ConvGradInput") == 0 && call->n_in > 2) return true;
  for (int i = 0; i < call->n_in; i++) empty = empty || RengaTensorSpecCount(&call->in[i]) == 0;
  return empty && (strncmp(op, "Linear", 6) == 0 || strcmp(op, "MatMul") == 0);
}

static RengaErrorCode CheckCase(RengaDevice cuda, int number, const Case *c, const RengaOpCall *op,
                                Call *call)
{
  void *got[MOST] = {NULL};
  RengaKernel kernel = NULL;
  RengaCall(RengaKernelCreate(cuda, op, &kernel));
  for (int o = 0; o < call->n_out; o++) RengaCall(Allocate(&call->out[o], &got[o]));
  for (int alias = -1; alias < call->n_in; alias++) {
    if (alias >= 0 && !RengaKernelMayAlias(kernel, 0, alias)) continue;
    RengaCall(Run(cuda, number % 2 ? other : NULL, kernel, call, alias, got));
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

/* Which tensors are of 16 bits: not log-sum-exps and masks of attention, as in networks; where each
   key of a query is masked by a number beside which float32 loses the scores, all. */
static unsigned LowPlaces(const Case *c, const RengaOpCall *op)
{
  const bool gradient = strstr(c->op, "AttentionGrad") != NULL;
  if (strchr(c->inputs, '!') || strncmp(c->op, "Cached", 6) == 0) return ~0u;
  if (gradient) return ~(3u << 5);
  return strstr(c->op, "Attention") ? ~(1u << 3 | 1u << (op->n_in + 1)) : ~0u;
}

/* In bfloat16 the results are ref's in float32, rounded. */
static RengaErrorCode CheckLow(RengaDevice ref, RengaDevice cuda, int number, const Case *c,
                               const RengaOpCall *op, const Call *call)
{
  const double rounding = RoundingOnCuda(c->op, RENGA_BFLOAT16);
  const double tolerance = (c->tolerance > 0 ? c->tolerance : 1e-5) + rounding;
  Variant wide, low;
  RengaKernel kernel = NULL;
  RengaCall(MakeVariants(ref, op, (const void *const *)call->input, RENGA_BFLOAT16,
                         LowPlaces(c, op), &wide, &low));
  RengaCall(RengaKernelCreate(ref, &wide.op, &kernel));
  RengaCall(RunVariant(ref, kernel, &context, -1, &wide));
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(RengaKernelCreate(cuda, &low.op, &kernel));
  RengaCheck(!kernel->wide || MayFallBack(call, c->op), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "case %d, %s (%s): no cuda kernel of bfloat16", number, c->op, c->inputs);
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

static RengaErrorCode CheckCases(RengaDevice ref, RengaDevice cuda, int count, const Case table[])
{
  Call before, call;
  memset(&before, 0, sizeof before);
  for (int number = 0; number < count; number++) {
    RengaOpCall op;
    RengaCall(MakeCall(&table[number], number, &before, &call, &op));
    RengaCall(RunOnRef(ref, &op, &call));
    if (op.op->flags & RENGA_OP_WRITES_STATE) { /* a copy on the host would be written to */
      RengaKernel kernel = NULL;
      ExpectError(RengaKernelCreate(cuda, &op, &kernel), RENGA_ERR_SUPPORT,
                  "writes to what it reads: device cuda, whose memory is not the host's");
    } else {
      RengaCall(CheckCase(cuda, number, &table[number], &op, &call));
      RengaCall(CheckLow(ref, cuda, number, &table[number], &op, &call));
    }
    RengaCall(FreeCall(&before));
    before = call;
  }
  RengaCall(FreeCall(&before));
  return RENGA_SUCCESS;
}

/* Queries whose keys are all masked: by -infinity, and by a large number, beside which their scores
   count, where cuDNN computes. */
static RengaErrorCode CheckMaskedRows(RengaDevice ref, RengaDevice cuda)
{
  static const Case masked[] = {
      {"Attention", "", "f3,2,9,8 f3,2,7,8 f3,2,7,16 f3,1,9,7", "2", 0},
      {"AttentionGrad", "", "f3,2,9,16 ^0 ^1 ^2 @0 @1 ^3", "3", 2e-5},
      {"PackedAttention", "heads=2", "f3,9,48 - - f3,1,1,9", "2", 0},
      {"PackedAttentionGrad", "heads=2", "f3,9,16 ^0 - - @0 @1 ^3", "1", 2e-5},
  };
  Call before, call;
  memset(&before, 0, sizeof before);
  for (int number = 0; getenv("EMU_CUDNN") && number < 4; number++) {
    RengaOpCall op;
    RengaCall(MakeCall(&masked[number], number, &before, &call, &op));
    float *mask = number % 2 ? NULL : call.input[3];
    const int64_t count = mask ? RengaTensorSpecCount(&call.in[3]) : 0;
    for (int64_t i = 0; i < count / 3; i++) mask[i] -= 1e6f;
    for (int64_t i = count / 3; i < 2 * count / 3; i++) mask[i] = -INFINITY;
    RengaCall(RunOnRef(ref, &op, &call));
    RengaCall(CheckLow(ref, cuda, number, &masked[number], &op, &call));
    RengaCall(FreeCall(&before));
    before = call;
  }
  RengaCall(FreeCall(&before));
  return RENGA_SUCCESS;
}

enum { VECTORS = 40, COUNT = 20001, KINDS = 4 }; /* parameter, gradient, two moments */

/* Two steps of Adam, two of SGD, a sum and norms of all; a table is longer than a launch takes. */
static RengaErrorCode UseVectors(RengaDevice device, float *x[KINDS], double sums[VECTORS + 1])
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
  double want[VECTORS + 1], sums[VECTORS + 1]; /* the last vector has two pieces */
  RengaCall(RengaMalloc(COUNT, &got));
  for (int k = 0; k < KINDS; k++) {
    RengaCall(RengaMalloc(COUNT, &host[k]));
    RengaRandomUniform(3, (uint64_t)k, 0, COUNT, host[k]);
    RengaCall(Put(cuda, NULL, &spec, host[k], &far[k]));
  }
  RengaCall(RengaStreamSynchronize(cuda, NULL));
  RengaCall(UseVectors(ref, host, want));
  RengaCall(UseVectors(cuda, far, sums));
  for (int v = 0; v <= VECTORS; v++) Expect(fabs(sums[v] - want[v]) <= 1e-6 * want[v]);
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

/* Sums of squares on two streams at a time, which have one work memory. */
static RengaErrorCode CheckStreams(RengaDevice ref, RengaDevice cuda)
{
  enum { TIMES = 12, LENGTH = 40000, PIECES = 3 };
  const RengaTensorSpec spec = {RENGA_FLOAT32, 1, {LENGTH}};
  double want[TIMES][PIECES], (*sums)[PIECES] = NULL;
  float *host = NULL, *far[TIMES];
  RengaCall(RengaMalloc(LENGTH, &host));
  RengaCall(RengaDeviceHostMalloc(cuda, sizeof want, &sums));
  for (int k = 0; k < TIMES; k++) {
    RengaRandomUniform(4, (uint64_t)k, 0, LENGTH, host);
    const RengaVector x = {host, RENGA_FLOAT32, LENGTH - 3000 * k};
    RengaCall(RengaDeviceSumsOfSquares(ref, NULL, 1, &x, want[k]));
    RengaCall(Put(cuda, NULL, &spec, host, &far[k]));
    RengaCall(RengaStreamSynchronize(cuda, NULL));
  }
  for (int k = 0; k < TIMES; k++) {
    const RengaVector x = {far[k], RENGA_FLOAT32, LENGTH - 3000 * k};
    RengaCall(RengaDeviceSumsOfSquares(cuda, k % 2 ? other : NULL, 1, &x, sums[k]));
  }
  RengaCall(RengaStreamSynchronize(cuda, NULL));
  RengaCall(RengaStreamSynchronize(cuda, other));
  for (int k = 0; k < TIMES; k++) {
    for (int64_t p = 0; p < RengaVectorPieces(LENGTH - 3000 * k); p++)
      Expect(fabs(sums[k][p] - want[k][p]) <= 1e-6 * want[k][p]);
    RengaCall(RengaDeviceFree(cuda, &far[k]));
  }
  RengaCall(RengaDeviceHostFree(cuda, &sums));
  RengaFree(&host);
  return RENGA_SUCCESS;
}

/* A number that is outside is told by the next wait, once; the kernel is usable after it. */
static RengaErrorCode CheckFault(RengaDevice ref, RengaDevice cuda, const Case *c, int input,
                                 const char *sentence)
{
  Call before, call;
  RengaOpCall op;
  void *got[MOST] = {NULL};
  RengaKernel kernel = NULL;
  memset(&before, 0, sizeof before);
  RengaCall(MakeCall(c, 0, &before, &call, &op));
  RengaCall(RunOnRef(ref, &op, &call));
  RengaCall(RengaKernelCreate(cuda, &op, &kernel));
  for (int o = 0; o < call.n_out; o++) RengaCall(Allocate(&call.out[o], &got[o]));
  int64_t *numbers = call.input[input];
  const int64_t right = numbers[3];
  numbers[3] = 77;
  ExpectError(Run(cuda, other, kernel, &call, -1, got), RENGA_ERR_ARGUMENT, sentence);
  numbers[3] = right;
  RengaCall(Run(cuda, other, kernel, &call, -1, got));
  Expect(IsNear(&call.out[0], got[0], call.output[0], 1e-5));
  for (int o = 0; o < call.n_out; o++) RengaFree(&got[o]);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(FreeCall(&call));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFaults(RengaDevice ref, RengaDevice cuda)
{
  static const Case gather = {"Gather", "axis=0", "f7,5 l9<7", "1", 0};
  static const Case gradient = {"GatherGrad", "axis=0", "f9,5 l9<7", "f7,5", 0};
  static const Case loss = {"CrossEntropy", "axis=1", "f9,7 l9<7", "2", 0};
  RengaCall(CheckFault(ref, cuda, &gather, 1, "Gather: index 77 at position 3 is outside [0, 7)"));
  RengaCall(CheckFault(ref, cuda, &gradient, 1, "GatherGrad: index 77 at position 3 is outside"));
  RengaCall(CheckFault(ref, cuda, &loss, 1, "label 77 at position 3 is outside [0, 7)"));
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
  RengaCall(RengaStreamCreate(device[1], &other));
  RengaCall(CheckStreams(device[0], device[1]));
  RengaCall(CheckCases(device[0], device[1], N_CASES, cases));
  RengaCall(CheckCases(device[0], device[1], N_LONG_CASES, long_cases));
  RengaCall(CheckMaskedRows(device[0], device[1]));
  RengaCall(CheckFaults(device[0], device[1]));
  RengaCall(RengaStreamDestroy(device[1], &other));
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
