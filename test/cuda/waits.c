/* A kernel that hangs: each way to wait for the device ends within the time limit and names it, and
   what is destroyed then waits for nothing. failures.sh runs it with EMU_FAIL=hang:1. */
#include "../check.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"
#include "rengadevice.h"

enum { COUNT = 100 };
static const char words[] = "the device to end what is queued on it (of type cuda";

/* One more that hangs, or waits behind it. */
static RengaErrorCode Queue(RengaDevice device, float *x)
{
  RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, COUNT, x, x + COUNT));
  return RENGA_SUCCESS;
}

/* More memory for the pieces than those that are queued have. */
static RengaErrorCode CheckNorms(RengaComm comm, RengaDevice device, float *x, double *pinned)
{
  const RengaVector vector[2] = {{x, RENGA_FLOAT32, COUNT}, {x + COUNT, RENGA_FLOAT32, COUNT}};
  RengaCall(RengaCommSetTimeout(comm, 0.5));
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, vector, pinned));
  ExpectError(RengaDeviceSumsOfSquares(device, NULL, 2, vector, pinned), RENGA_ERR_TIMEOUT, words,
              "nothing moved for");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWaits(RengaComm comm, RengaDevice device, float *x)
{
  float host[COUNT];
  RengaEvent event;
  RengaCall(RengaEventCreate(device, &event));
  RengaCall(Queue(device, x));
  RengaCall(RengaEventRecord(device, event, NULL));
  ExpectError(RengaStreamSynchronize(device, NULL), RENGA_ERR_TIMEOUT, words, "nothing moved for");
  RengaCall(RengaCommSetTimeout(comm, 0.5));
  ExpectError(RengaEventSynchronize(device, event), RENGA_ERR_TIMEOUT, words, "nothing moved for");
  RengaCall(RengaCommSetTimeout(comm, 0.5));
  ExpectError(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, host, x, sizeof host),
              RENGA_ERR_TIMEOUT, words, "nothing moved for");
  RengaCall(RengaEventDestroy(device, &event));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaDevice device;
  float *x;
  double *pinned;
  Expect(!getenv("CUDA_MODULE_LOADING")); /* one rank loads kernels when they are launched */
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaCommSetTimeout(comm, 0.5));
  RengaCall(RengaDeviceMalloc(device, 2 * COUNT * sizeof *x, &x));
  RengaCall(RengaDeviceHostMalloc(device, COUNT * sizeof *pinned, &pinned));
  RengaCall(RengaDeviceSetBytes(device, NULL, x, 0, 2 * COUNT * sizeof *x));
  RengaCall(RengaStreamSynchronize(device, NULL));
  RengaCall(CheckWaits(comm, device, x));
  RengaCall(CheckNorms(comm, device, x, pinned));
  RengaCall(RengaDeviceHostFree(device, &pinned));
  RengaCall(RengaDeviceFree(device, &x));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  printf("all waits ended\n");
  fflush(stdout);
  _exit(0); /* the emulator waits for its thread, which hangs */
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
