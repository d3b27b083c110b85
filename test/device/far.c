/* TEST ranks: 1 */
/* The far device: work is done late, in an order that events alone decide, on memory that the host
   cannot touch; what breaks the rules of copies is found. */
#include "../check.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <math.h>
#include <stdint.h>
#include <sys/wait.h>

enum { COUNT = 1000, SEEDS = 40 };

static RengaErrorCode MakeFar(RengaComm comm, const char *kernels, int seed, RengaDevice *device)
{
  char text[32];
  snprintf(text, sizeof text, "%d", seed);
  RengaCall(RengaOptionsSetValue("device_type", "far"));
  RengaCall(RengaOptionsSetValue("device_far_kernels", kernels));
  RengaCall(RengaOptionsSetValue("device_far_seed", text));
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetFromOptions(*device));
  RengaCall(RengaDeviceSetUp(*device));
  RengaCall(RengaOptionsSetValue("device_type", "cpu"));
  return RENGA_SUCCESS;
}

/* Its options for another type are a mistake. */
static RengaErrorCode CheckOptions(RengaComm comm)
{
  static const char *const names[] = {"device_far_seed", "device_far_kernels"};
  RengaDevice device;
  RengaCall(RengaDeviceCreate(comm, &device));
  for (int i = 0; i < 2; i++) {
    RengaCall(RengaOptionsClearValue(names[!i]));
    RengaCall(RengaOptionsSetValue(names[i], i == 0 ? "3" : "ref"));
    ExpectError(RengaDeviceSetFromOptions(device), RENGA_ERR_OPTION,
                "is for -device_type far, but the type is cpu");
    RengaCall(RengaOptionsClearValue(names[i]));
  }
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDeferred(RengaDevice device)
{
  char from[COUNT], back[COUNT], *a = NULL;
  RengaEvent event = NULL;
  bool done;
  int asked = 0;
  Expect(!RengaDeviceIsHost(device));
  RengaCall(RengaDeviceMalloc(device, COUNT, &a));
  Expect((uintptr_t)a % 64 == 0);
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, a, COUNT));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (int i = 0; i < COUNT; i++) Expect(back[i] == (char)0xff); /* not zeros by chance */
  memset(from, 7, COUNT);
  memset(back, 7, COUNT);
  RengaCall(RengaEventCreate(device, &event));
  RengaCall(RengaEventQuery(device, event, &done));
  Expect(done);
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a, from, COUNT));
  for (int i = 0; i < 10; i++) RengaCall(RengaDeviceSetBytes(device, NULL, a, 9, COUNT / 2));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, a, COUNT));
  RengaCall(RengaEventRecord(device, event, NULL));
  Expect(back[0] == (char)0xff && back[COUNT - 1] == (char)0xff); /* garbage before it runs */
  do RengaCall(RengaEventQuery(device, event, &done));
  while (asked++ < 1000 && !done);
  Expect(done && asked > 1);
  for (int i = 0; i < COUNT; i++) Expect(back[i] == (i < COUNT / 2 ? 9 : 7));
  RengaCall(RengaEventDestroy(device, &event));
  RengaCall(RengaDeviceFree(device, &a));
  return RENGA_SUCCESS;
}

/* One stream writes what another one reads. wait: behind an event; *right: what was read is what
   was written. */
static RengaErrorCode Exchange(RengaDevice device, bool wait, bool *right)
{
  RengaStream other = NULL;
  RengaEvent written = NULL;
  char *a = NULL, back = 0;
  RengaCall(RengaStreamCreate(device, &other));
  RengaCall(RengaEventCreate(device, &written));
  RengaCall(RengaDeviceMalloc(device, 1, &a));
  for (int i = 0; i < 4; i++) RengaCall(RengaDeviceSetBytes(device, other, a, 40 + i, 1));
  RengaCall(RengaEventRecord(device, written, other));
  if (wait) RengaCall(RengaEventWait(device, written, NULL));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, &back, a, 1));
  RengaCall(RengaEventRecord(device, written, NULL)); /* what was waited for stays the same */
  RengaCall(RengaEventSynchronize(device, written));
  *right = back == 43;
  RengaCall(RengaStreamSynchronize(device, other));
  RengaCall(RengaDeviceFree(device, &a));
  RengaCall(RengaEventDestroy(device, &written));
  RengaCall(RengaStreamDestroy(device, &other));
  return RENGA_SUCCESS;
}

/* With the event all orders are right, without it most are wrong. */
static RengaErrorCode CheckOrder(RengaComm comm)
{
  int wrong = 0;
  for (int seed = 0; seed < SEEDS; seed++) {
    RengaDevice device = NULL;
    bool right;
    RengaCall(MakeFar(comm, "cpu", seed, &device));
    RengaCall(Exchange(device, true, &right));
    Expect(right);
    RengaCall(Exchange(device, false, &right));
    wrong += !right;
    RengaCall(RengaDeviceDestroy(&device));
  }
  Expect(wrong > SEEDS / 4);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHostSides(RengaDevice device)
{
  char from[COUNT] = {0}, back[COUNT], *a = NULL;
  RengaCall(RengaDeviceMalloc(device, COUNT, &a));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a, from, COUNT));
  from[17] = 1;
  ExpectError(RengaStreamSynchronize(device, NULL), RENGA_ERR_INTERNAL, "source, 1000 bytes",
              "changed between queueing and running");
  RengaCall(RengaStreamSynchronize(device, NULL)); /* it was told once */
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, a, COUNT));
  back[0] = 3;
  ExpectError(RengaStreamSynchronize(device, NULL), RENGA_ERR_INTERNAL, "destination, 1000 bytes",
              "written to");
  ExpectError(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, from, a, COUNT),
              RENGA_ERR_ARGUMENT, "is said to be the host's and is memory of device far");
  ExpectError(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, from, COUNT),
              RENGA_ERR_ARGUMENT, "not in one block of device far");
  ExpectError(RengaDeviceSetBytes(device, NULL, a + 1, 0, COUNT), RENGA_ERR_ARGUMENT, "1000 bytes",
              "not in one block");
  RengaCall(RengaDeviceFree(device, &a));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckVectors(RengaDevice device)
{
  float x[4] = {1, 2, 3, 4}, back[4], *a = NULL;
  double sum = 0;
  const RengaSgdStep sgd = {.learning_rate = 0.5, .first = true};
  RengaCall(RengaDeviceMalloc(device, 2 * sizeof x, &a));
  for (int i = 0; i < 2; i++)
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a + 4 * i, x, sizeof x));
  RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, 4, a, a + 4));
  const RengaParameterUpdate update = {
      .parameter = {a, RENGA_FLOAT32, 4}, .gradient = {a + 4, RENGA_FLOAT32, 4}, .rate_scale = 1};
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &update.parameter, &sum));
  Expect(sum == 0);
  RengaCall(RengaStreamSynchronize(device, NULL));
  Expect(sum == 120);
  RengaCall(RengaDeviceUpdateSgd(device, NULL, &sgd, 1, 1, &update));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, back, a, sizeof back));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (int i = 0; i < 4; i++) Expect(back[i] == 1.5f * x[i]);
  RengaCall(RengaDeviceFree(device, &a));
  return RENGA_SUCCESS;
}

/* Row index[0] of a table of three. */
static RengaErrorCode MakeGather(RengaDevice device, RengaKernel *kernel)
{
  RengaAttributes none = {0, NULL};
  RengaTensorSpec in[2] = {{RENGA_FLOAT32, 2, {3, 1}}, {RENGA_INT64, 1, {1}}}, out[1];
  RengaOpCall call = {RengaOperatorFind("Gather"), &none, 2, 1, in, out};
  RengaCall(RengaOperatorInfer(&call));
  RengaCall(RengaKernelCreate(device, &call, kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKernels(RengaDevice device, bool fallback)
{
  const float table[3] = {1, 2, 3};
  int64_t index[1] = {1};
  float row = 0;
  char *a = NULL;
  RengaKernel kernel = NULL;
  RengaKernelContext context = {0, 0, 0, 1, true};
  RengaCall(MakeGather(device, &kernel));
  Expect(RengaKernelIsFallback(kernel) == fallback);
  RengaCall(RengaDeviceMalloc(device, 192, &a));
  const void *in[] = {a, a + 64};
  void *out[] = {a + 128};
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a, table, sizeof table));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a + 64, index, sizeof index));
  RengaCall(RengaKernelRun(kernel, NULL, &context, in, out, NULL));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, &row, a + 128, sizeof row));
  RengaCall(RengaStreamSynchronize(device, NULL));
  Expect(row == 2);
  index[0] = 5;
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, a + 64, index, sizeof index));
  if (fallback) {
    ExpectError(RengaKernelRun(kernel, NULL, &context, in, out, NULL), RENGA_ERR_ARGUMENT,
                "index 5");
  } else {
    RengaCall(RengaKernelRun(kernel, NULL, &context, in, out, NULL));
    ExpectError(RengaStreamSynchronize(device, NULL), RENGA_ERR_ARGUMENT, "index 5");
  }
  if (!fallback)
    ExpectError(RengaKernelRun(kernel, NULL, &context, (const void *[]){table, index}, out, NULL),
                RENGA_ERR_ARGUMENT, "Gather", "not in one block");
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(RengaDeviceFree(device, &a));
  return RENGA_SUCCESS;
}

typedef enum { TOUCH_READ, TOUCH_WRITE, TOUCH_BEHIND, TOUCH_FREED, TOUCH_NULL } Touch;

static void TouchMemory(RengaDevice device, Touch touch, volatile char *at)
{
  char *block = (char *)(uintptr_t)at;
  if (touch == TOUCH_FREED && RengaDeviceFree(device, &block)) _exit(1);
  if (touch == TOUCH_READ) _exit(at[5]);
  if (touch == TOUCH_NULL) at = NULL;
  at[touch == TOUCH_BEHIND ? 1024 : 5] = 0;
  _exit(0);
}

/* What a child that touches the device's memory says and how it ends. */
static RengaErrorCode CheckTouch(RengaDevice device, Touch touch, const char *expected)
{
  char *a = NULL;
  FILE *file;
  int status = 0;
  RengaCall(RengaDeviceMalloc(device, 1000, &a));
  const int saved = BeginErrors(&file);
  const pid_t child = fork();
  if (child == 0) TouchMemory(device, touch, a);
  waitpid(child, &status, 0);
  const char *text = EndErrors(file, saved);
  if (expected)
    Expect(WIFEXITED(status) && WEXITSTATUS(status) > 1 && strstr(text, expected));
  else /* a fault elsewhere is what it always was: under sanitizers their handler exits */
    Expect(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
  RengaCall(RengaDeviceFree(device, &a));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckTouches(RengaDevice device)
{
  RengaCall(CheckTouch(device, TOUCH_READ, "The host touched memory of device far"));
  RengaCall(CheckTouch(device, TOUCH_READ, "is byte 5 of block"));
  RengaCall(CheckTouch(device, TOUCH_WRITE, "which has 1000"));
  RengaCall(CheckTouch(device, TOUCH_BEHIND, "is byte 1024 of block"));
  RengaCall(CheckTouch(device, TOUCH_FREED, "and is freed"));
  RengaCall(CheckTouch(device, TOUCH_NULL, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(RengaComm comm, RengaDevice device, const char *kernels)
{
  char name[] = "ascii:renga-far-XXXXXX", text[1024] = "", expected[64], *path = name + 6;
  RengaViewer viewer = NULL;
  const int made = mkstemp(path);
  Expect(made >= 0);
  close(made);
  RengaCall(RengaViewerCreate(comm, name, &viewer));
  RengaCall(RengaDeviceView(device, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  FILE *file = fopen(path, "r");
  Expect(file);
  fread(text, 1, sizeof text - 1, file);
  fclose(file);
  unlink(path);
  snprintf(expected, sizeof expected, "kernels %s, seed of the order of work 3", kernels);
  Expect(strstr(text, expected));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const kernels[] = {"cpu", "ref"};
  RengaComm comm = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int k = 0; k < 2; k++) {
    RengaDevice device = NULL, copy = NULL;
    RengaCall(MakeFar(comm, kernels[k], 3, &device));
    RengaCall(RengaDeviceDuplicate(device, &copy));
    RengaCall(RengaDeviceSetUp(copy));
    RengaCall(CheckDeferred(device));
    RengaCall(CheckHostSides(device));
    RengaCall(CheckVectors(copy));
    RengaCall(CheckKernels(device, k == 1));
    RengaCall(CheckKernels(copy, k == 1));
    RengaCall(CheckTouches(device));
    RengaCall(CheckView(comm, device, kernels[k]));
    RengaCall(RengaDeviceDestroy(&copy));
    RengaCall(RengaDeviceDestroy(&device));
  }
  RengaCall(CheckOrder(comm));
  RengaCall(CheckOptions(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
