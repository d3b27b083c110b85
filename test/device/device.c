/* TEST ranks: 1 2 */
/* Devices: types, options, memory, streams and events, kernels that stand in, bad calls. */
#include "../check.h"
#include "renga/private/device.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <math.h>

static RengaErrorCode Make(RengaComm comm, const char *type, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetType(*device, type));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMemory(RengaDevice device)
{
  size_t capacity, used, peak;
  char *a = NULL, *b = NULL, host[100], back[100];
  Expect(RengaDeviceIsHost(device));
  RengaCall(RengaDeviceMalloc(device, 0, &a));
  Expect(a == NULL);
  RengaCall(RengaDeviceMalloc(device, 100, &a));
  RengaCall(RengaDeviceMalloc(device, 1000, &b));
  Expect((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
  RengaCall(RengaDeviceGetMemory(device, &capacity, &used, &peak));
  Expect(capacity > 1100 && used == 1100 && peak == 1100);
  for (int i = 0; i < 100; i++) host[i] = (char)i;
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a, host, 100));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_DEVICE, b, a, 100));
  RengaCall(RengaDeviceSetBytes(device, NULL, b, 7, 50));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, b, 100));
  for (int i = 0; i < 100; i++) Expect(back[i] == (i < 50 ? 7 : i));
  ExpectError(RengaDeviceFree(device, &(char *){host}), RENGA_ERR_ARGUMENT, "not allocated");
  RengaCall(RengaDeviceFree(device, &a));
  RengaCall(RengaDeviceFree(device, &a));
  RengaCall(RengaDeviceGetMemory(device, NULL, &used, &peak));
  Expect(a == NULL && used == 1000 && peak == 1100);
  ExpectError(RengaDeviceSetType(device, RENGA_DEVICE_REF), RENGA_ERR_ORDER, "1 blocks");
  RengaCall(RengaDeviceFree(device, &b));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckStreams(RengaDevice device)
{
  RengaStream stream = NULL;
  RengaEvent event = NULL;
  bool done = false;
  RengaCall(RengaStreamCreate(device, &stream));
  RengaCall(RengaEventCreate(device, &event));
  RengaCall(RengaEventRecord(device, event, stream));
  RengaCall(RengaEventWait(device, event, NULL));
  RengaCall(RengaEventQuery(device, event, &done));
  RengaCall(RengaEventSynchronize(device, event));
  char *staging;
  RengaCall(RengaDeviceHostMalloc(device, 100, &staging));
  Expect(staging != NULL);
  staging[99] = 1;
  RengaCall(RengaDeviceHostFree(device, &staging));
  Expect(staging == NULL);
  Expect(done);
  RengaCall(RengaStreamSynchronize(device, stream));
  RengaCall(RengaStreamSynchronize(device, NULL));
  RengaCall(RengaEventDestroy(device, &event));
  RengaCall(RengaStreamDestroy(device, &stream));
  Expect(event == NULL && stream == NULL);
  return RENGA_SUCCESS;
}

/* A lane has rows 2 and 3 of seven: others read as zeros, and what is no row of all is an error. */
static RengaErrorCode CheckRowsOfLane(RengaDevice device)
{
  RengaAttributes attributes = {0, NULL};
  RengaTensorSpec in[2] = {{RENGA_FLOAT32, 2, {2, 1}}, {RENGA_INT64, 1, {3}}}, out[1];
  RengaOpCall call = {RengaOperatorFind("Gather"), &attributes, 2, 1, in, out};
  RengaKernelContext context = {0, 0, 0, 1, true};
  RengaKernel kernel = NULL;
  float table[2] = {5, 6}, row[3];
  int64_t index[3] = {6, 3, 7};
  const void *inputs[] = {table, index};
  void *outputs[] = {row};
  RengaCall(RengaAttributesSetInt(&attributes, "first", 2));
  ExpectError(RengaOperatorInfer(&call), RENGA_ERR_ARGUMENT,
              "2 rows from row 2 on are not those of a lane of 0 rows");
  RengaCall(RengaAttributesSetInt(&attributes, "rows", 7));
  RengaCall(RengaOperatorInfer(&call));
  RengaCall(RengaKernelCreate(device, &call, &kernel));
  ExpectError(RengaKernelRun(kernel, NULL, &context, inputs, outputs, NULL), RENGA_ERR_ARGUMENT,
              "index 7");
  index[2] = -5;
  RengaCall(RengaKernelRun(kernel, NULL, &context, inputs, outputs, NULL));
  Expect(row[0] == 0 && row[1] == 6 && row[2] == 5);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

/* float64 has no cpu kernel; the ref one stands in. An index out of range is an error. */
static RengaErrorCode CheckKernels(RengaDevice device, bool cpu)
{
  RengaAttributes none = {0, NULL};
  RengaTensorSpec in[2] = {{RENGA_FLOAT64, 1, {2}}, {RENGA_FLOAT64, 1, {2}}}, out[1];
  RengaOpCall call = {RengaOperatorFind("Add"), &none, 2, 1, in, out};
  RengaKernel kernel = NULL;
  RengaKernelContext context = {0, 0, 0, 1, true};
  double x[2] = {1, 2}, y[2] = {10, 20}, z[2] = {0, 0};
  RengaCall(RengaOperatorInfer(&call));
  RengaCall(RengaKernelCreate(device, &call, &kernel));
  Expect(RengaKernelIsFallback(kernel) == cpu);
  RengaCall(RengaKernelRun(kernel, NULL, &context, (const void *[]){x, y}, (void *[]){z}, NULL));
  Expect(z[0] == 11 && z[1] == 22);
  RengaCall(RengaKernelDestroy(&kernel));
  in[0] = (RengaTensorSpec){RENGA_FLOAT32, 2, {3, 1}};
  in[1] = (RengaTensorSpec){RENGA_INT64, 1, {1}};
  float table[3] = {1, 2, 3}, row[1];
  int64_t index[1] = {3};
  call.op = RengaOperatorFind("Gather");
  RengaCall(RengaOperatorInfer(&call));
  RengaCall(RengaKernelCreate(device, &call, &kernel));
  Expect(!RengaKernelIsFallback(kernel));
  const void *inputs[] = {table, index};
  void *outputs[] = {row};
  ExpectError(RengaKernelRun(kernel, NULL, &context, inputs, outputs, NULL), RENGA_ERR_ARGUMENT,
              "index 3");
  index[0] = -1;
  RengaCall(RengaKernelRun(kernel, NULL, &context, inputs, outputs, NULL));
  Expect(row[0] == 3);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(CheckRowsOfLane(device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPoison(RengaComm comm, const char *type)
{
  RengaDevice device = NULL;
  float *x = NULL;
  RengaCall(RengaOptionsSetValue("device_poison", "true"));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceSetType(device, type));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceMalloc(device, 40, &x));
  for (int i = 0; i < 10; i++) Expect(isnan(x[i]));
  RengaCall(RengaDeviceFree(device, &x));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaOptionsSetValue("device_poison", "false"));
  return RENGA_SUCCESS;
}

/* What two texts have in common at both ends is left out, word by word. */
static RengaErrorCode CheckKernelsText(RengaComm comm)
{
  static const char *const row[][4] = {
      {"cpu, a, avx2, x 1, y", "cpu, a, base, x 1, y", "avx2", "base"},
      {"cpu, a, avx2, x 1", "cpu, a, avx2, x 11", "x 1", "x 11"},
      {"cpu, a", "cpu, a, b", "a", "a, b"},
      {"ref, a, b", "cpu, a, b", "ref", "cpu"},
      {"cpu, a, b, c", "cpu, d, b, e", "a, b, c", "d, b, e"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const RengaKernelsDifference found = RengaDeviceFindDifference_Private(row[i][0], row[i][1]);
    for (int side = 0; side < 2; side++)
      Expect(found.length[side] == (int)strlen(row[i][2 + side]) &&
             strncmp(found.text[side], row[i][2 + side], strlen(row[i][2 + side])) == 0);
  }
  RengaDevice device = NULL;
  const char *text = NULL;
  RengaCall(RengaDeviceCreate(comm, &device));
  ExpectError(RengaDeviceGetKernels(device, &text), RENGA_ERR_ORDER, "RengaDeviceSetUp");
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceGetKernels(device, &text));
  Expect(strcmp(text, "ref, renga " RENGA_VERSION) == 0);
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSettings(RengaComm comm)
{
  RengaDevice device = NULL;
  const char *type = NULL;
  int threads = 0;
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceGetType(device, &type));
  Expect(strcmp(type, RENGA_DEVICE_CPU) == 0);
  ExpectError(RengaDeviceSetType(device, "cpv"), RENGA_ERR_ARGUMENT, "did you mean cpu");
  ExpectError(RengaDeviceSetThreads(device, -1), RENGA_ERR_ARGUMENT, "-1");
  ExpectError(RengaDeviceGetThreads(device, &threads), RENGA_ERR_ORDER, "RengaDeviceSetUp");
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceGetThreads(device, &threads));
  Expect(threads >= 1);
  RengaCall(RengaDeviceSetThreads(device, 3));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceGetThreads(device, &threads));
  Expect(threads == 3);
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetFromOptions(device)); /* what the program set stays */
  RengaCall(RengaDeviceGetType(device, &type));
  Expect(strcmp(type, RENGA_DEVICE_REF) == 0);
  RengaCall(RengaOptionsSetValue("device_type", "cpu"));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceGetType(device, &type));
  Expect(strcmp(type, RENGA_DEVICE_CPU) == 0);
  RengaCall(RengaDeviceDestroy(&device));
  Expect(device == NULL);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  RengaComm comm = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckKernelsText(comm));
  RengaCall(CheckSettings(comm));
  for (int t = 0; t < 2; t++) {
    RengaDevice device = NULL;
    RengaCall(Make(comm, types[t], &device));
    RengaCall(CheckMemory(device));
    RengaCall(CheckStreams(device));
    RengaCall(CheckKernels(device, t == 1));
    RengaCall(RengaDeviceDestroy(&device));
    RengaCall(CheckPoison(comm, types[t]));
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
