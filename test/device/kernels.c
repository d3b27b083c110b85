/* TEST ranks: 1 */
/* Every cpu kernel against the ref one, on each instruction set of this machine; the same bits with
   one, two and three threads, and in place where the kernel says it may. */
#include "../check.h"
#include "calls.h"
#include "cases.h"
#include "guard.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

enum { THREADS = 3 };
static const RengaKernelContext context = {
    .seed = 17, .step = 3, .sample = 5, .samples = 2, .training = true};

/* alias: output 0 is written over that input; -1: not. */
static RengaErrorCode Run(RengaDevice device, const RengaOpCall *op, Call *call, int alias,
                          bool *fallback, void *output[])
{
  RengaKernel kernel = NULL;
  char *workspace = NULL;
  const void *in[MOST] = {NULL};
  void *out[MOST] = {NULL}, *own[MOST] = {NULL};
  RengaCall(RengaKernelCreate(device, op, &kernel));
  *fallback = RengaKernelIsFallback(kernel);
  RengaCall(NewWorkspace(device, kernel, &workspace));
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
  RengaCall(FreeWorkspace(device, kernel, workspace));
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
               RENGA_ERR_INTERNAL, "case %d, %s %s (%s), %s: integers differ from ref", number,
               c->op, c->attributes, c->inputs, what);
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
  bool empty = false;
  for (int i = 0; i < call->n_in; i++) empty = empty || RengaTensorSpecCount(&call->in[i]) == 0;
  RengaCheck(!fallback || empty, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "case %d, %s (%s): no cpu kernel", number, cases[number].op, cases[number].inputs);
  for (int i = 0; i < call->n_out; i++)
    RengaCall(Compare(number, isa, &call->out[i], first[i], call->output[i]));
  for (int t = 1; t < THREADS; t++) {
    RengaCall(Run(device[t], op, call, -1, &fallback, again));
    for (int i = 0; i < call->n_out; i++)
      RengaCheck(memcmp(first[i], again[i], RengaTensorSpecBytes(&call->out[i])) == 0,
                 MPI_COMM_SELF, RENGA_ERR_INTERNAL, "case %d, %s (%s): %d threads change output %d",
                 number, cases[number].op, cases[number].inputs, t + 1, i);
  }
  for (int j = 0; j < call->n_in; j++) {
    RengaCall(MayAlias(device[0], op, j, &may));
    if (!may) continue;
    RengaCall(Run(device[1], op, call, j, &fallback, again));
    for (int i = 0; i < call->n_out; i++)
      RengaCheck(memcmp(first[i], again[i], RengaTensorSpecBytes(&call->out[i])) == 0,
                 MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "case %d, %s (%s): over input %d, output %d differs", number, cases[number].op,
                 cases[number].inputs, j, i);
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
    RengaCall(MakeCall(&cases[number], number, &before, &call, &op));
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
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    RengaCall(CheckAll(comm, "avx2"));
#endif
  RengaCall(CheckAll(comm, "auto"));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
