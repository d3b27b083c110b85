/* A device that is not set up when it is destroyed, because a set-up failed on one rank or a setter
   came after it, gives back all that it has; and one that has no memory left works on. failures.sh
   runs it on two ranks. */
#include "../check.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <stdlib.h>
#include <string.h>

enum { COUNT = 100000, PIECES = 8 /* at least */ };

static RengaErrorCode MakeDevice(RengaComm comm, int number, RengaDevice *device)
{
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  RengaCall(RengaOptionsSetValue("device_number", text));
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetFromOptions(*device));
  return RENGA_SUCCESS;
}

/* What was refused, and told, spoils nothing that comes after it. */
static RengaErrorCode CheckTooMuch(RengaDevice device)
{
  void *none = NULL;
  ExpectError(RengaDeviceMalloc(device, (size_t)1 << 40, &none), RENGA_ERR_MEMORY, "has no");
  Expect(none == NULL);
  return RENGA_SUCCESS;
}

/* left: bytes of the GPU's memory once it is set up */
static RengaErrorCode UseDevice(RengaComm comm, size_t *left)
{
  RengaDevice device;
  float *x;
  double squares[PIECES];
  RengaCall(MakeDevice(comm, RengaCommGetRank(comm), &device));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceGetMemory(device, left, NULL, NULL));
  RengaCall(CheckTooMuch(device));
  RengaCall(RengaDeviceMalloc(device, COUNT * sizeof *x, &x));
  Expect(RengaVectorPieces(COUNT) <= PIECES);
  RengaCall(RengaDeviceSetBytes(device, NULL, x, 0, COUNT * sizeof *x));
  const RengaVector vector = {x, RENGA_FLOAT32, COUNT};
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &vector, squares));
  RengaCall(RengaStreamSynchronize(device, NULL));
  RengaCall(RengaDeviceFree(device, &x));
  RengaCall(RengaDeviceSetThreads(device, 1));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSetters(RengaComm comm)
{
  size_t left, again;
  RengaCall(UseDevice(comm, &left));
  RengaCall(UseDevice(comm, &again));
  Expect(again == left);
  return RENGA_SUCCESS;
}

/* Rank 0 has its GPU then, rank 1 none. */
static RengaErrorCode CheckSetUp(RengaComm comm)
{
  RengaDevice device;
  RengaCall(MakeDevice(comm, RengaCommGetRank(comm) == 0 ? 0 : 3, &device));
  ExpectError(RengaDeviceSetUp(device), RENGA_ERR_ARGUMENT, "");
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  Expect(RengaCommGetSize(comm) == 2);
  RengaCall(CheckSetters(comm));
  const char *loading = getenv("CUDA_MODULE_LOADING"); /* no kernel while messages wait for it */
  Expect(loading && strcmp(loading, "EAGER") == 0);
  RengaCall(CheckSetUp(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
