/* TEST ranks: 1 */
/* Products with AVX-512 have the same bits whatever rows are beside: 128 rows, which are packed by
   kernels of Renga, are four times 32, which are oneDNN's, and those of three threads. */
#include "../check.h"
#include "../../src/device/cpu/onednn.h"
#include "renga/private/device.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"

enum { ROWS = 128, PARTS = 4, DEEP = 784, WIDE = 1104 };

static const RengaKernelContext context = {.samples = 1, .training = true};

/* y [rows, out] = x [rows, in] w [in, out] + bias, by one of the devices */
static RengaErrorCode Multiply(RengaDevice device, int64_t rows, int64_t k, int64_t n,
                               const float *const x[3], float *y)
{
  RengaAttributes attributes;
  memset(&attributes, 0, sizeof attributes);
  RengaTensorSpec in[3] = {{.type = RENGA_FLOAT32, .ndim = 2, .dim = {rows, k}},
                           {.type = RENGA_FLOAT32, .ndim = 2, .dim = {k, n}},
                           {.type = RENGA_FLOAT32, .ndim = 1, .dim = {n}}};
  RengaTensorSpec out = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {rows, n}};
  const RengaOpCall call = {RengaOperatorFind("Linear"), &attributes, 3, 1, in, &out};
  const void *const inputs[3] = {x[0], x[1], x[2]};
  void *outputs[1] = {y}, *work = NULL;
  RengaKernel kernel = NULL;
  RengaCall(RengaKernelCreate(device, &call, &kernel));
  if (RengaKernelGetWorkspace(kernel) > 0)
    RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel), &work));
  RengaCall(RengaKernelRun(kernel, NULL, &context, inputs, outputs, work));
  if (work) RengaCall(RengaDeviceFree(device, &work));
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckProduct(const RengaDevice device[2], int64_t k, int64_t n)
{
  static _Alignas(64) float x[ROWS * DEEP], w[DEEP * WIDE], bias[WIDE];
  static _Alignas(64) float whole[ROWS * WIDE], shared[ROWS * WIDE], parts[ROWS * WIDE];
  for (int i = 0; i < ROWS * DEEP; i++) x[i] = (float)(i * 7919L % 1013) / 1013 - 0.5F;
  for (int i = 0; i < DEEP * WIDE; i++) w[i] = (float)(i * 104729L % 2027) / 2027 - 0.5F;
  for (int i = 0; i < WIDE; i++) bias[i] = (float)i / WIDE;
  const float *in[3] = {x, w, bias};
  RengaCall(Multiply(device[0], ROWS, k, n, in, whole));
  RengaCall(Multiply(device[1], ROWS, k, n, in, shared));
  const int64_t rows = ROWS / PARTS;
  for (int i = 0; i < PARTS; i++, in[0] += rows * k)
    RengaCall(Multiply(device[0], rows, k, n, in, parts + i * rows * n));
  Expect(memcmp(whole, shared, (size_t)(ROWS * n) * sizeof *whole) == 0);
  Expect(memcmp(whole, parts, (size_t)(ROWS * n) * sizeof *whole) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  RengaDevice device[2] = {NULL, NULL};
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int i = 0; i < 2; i++) {
    RengaCall(RengaDeviceCreate(comm, &device[i]));
    RengaCall(RengaDeviceSetType(device[i], RENGA_DEVICE_CPU));
    RengaCall(RengaDeviceSetThreads(device[i], i == 0 ? 1 : 3));
    RengaCall(RengaDeviceSetUp(device[i]));
  }
  if (strcmp(device[0]->kernels, "avx512") == 0 && RengaDnnHasKnownSums()) {
    RengaCall(CheckProduct(device, 100, 1104));
    RengaCall(CheckProduct(device, 500, 1042));
    RengaCall(CheckProduct(device, 784, 1024));
  }
  for (int i = 0; i < 2; i++) RengaCall(RengaDeviceDestroy(&device[i]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
