/* What the tests of this folder share: devices and transports, and vectors of a device. */
#pragma once
#include "../comm/sumtest.h"
#include "renga/private/transport.h"

/* A device and a transport on it. */
typedef struct {
  RengaComm comm;
  RengaDevice device;
  RengaTransport transport;
  int rank, size;
} Ways;

static inline void WaysCreate(RengaComm comm, const char *device, int64_t seed, const char *type,
                              Ways *ways)
{
  char text[32];
  *ways = (Ways){.comm = comm, .rank = RengaCommGetRank(comm), .size = RengaCommGetSize(comm)};
  RengaCallAbort(RengaDeviceCreate(comm, &ways->device));
  RengaCallAbort(RengaDeviceSetType(ways->device, device));
  snprintf(text, sizeof text, "%lld", (long long)seed);
  if (strcmp(device, "far") == 0) {
    RengaCallAbort(RengaOptionsSetValue("device_far_seed", text));
    RengaCallAbort(RengaOptionsSetValue("device_type", "far"));
    RengaCallAbort(RengaDeviceSetFromOptions(ways->device));
  }
  RengaCallAbort(RengaDeviceSetThreads(ways->device, 1));
  RengaCallAbort(RengaDeviceSetUp(ways->device));
  RengaCallAbort(RengaTransportCreate_Private(comm, ways->device, type, &ways->transport));
}

static inline void WaysDestroy(Ways *ways)
{
  TestTrue(RengaTransportGetStaging_Private(ways->transport) == 0);
  RengaCallAbort(RengaTransportDestroy_Private(&ways->transport));
  RengaCallAbort(RengaDeviceDestroy(&ways->device));
}

/* Waits; the source may change then. */
static inline void PutBytes(const Ways *ways, void *to, const void *from, size_t bytes)
{
  RengaCallAbort(RengaDeviceCopy(ways->device, NULL, RENGA_HOST_TO_DEVICE, to, from, bytes));
  RengaCallAbort(RengaStreamSynchronize(ways->device, NULL));
}

static inline void GetBytes(const Ways *ways, void *to, const void *from, size_t bytes)
{
  RengaCallAbort(RengaDeviceCopy(ways->device, NULL, RENGA_DEVICE_TO_HOST, to, from, bytes));
  RengaCallAbort(RengaStreamSynchronize(ways->device, NULL));
}

/* The test on each device, with each transport that it may have. */
static inline RengaErrorCode TestAllWays(void (*test)(const Ways *ways))
{
  static const struct {
    const char *device, *type;
    int64_t seeds;
  } rows[] = {{"ref", "mpi", 1},
              {"ref", "staged", 1},
              {"cpu", "staged", 1},
#ifdef RENGA_DEVICE_FAR
              {"far", "staged", 3}
#endif
  };
  RengaComm comm;
  RengaCall(RengaOptionsSetValue("comm_message_limit", "64kB"));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetFromOptions(comm));
  RengaCall(RengaCommSetTimeout(comm, 60));
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (int64_t seed = 1; seed <= UnlessSlow((int)rows[r].seeds, 1); seed++) {
      Ways ways;
      WaysCreate(comm, rows[r].device, seed, rows[r].type, &ways);
      test(&ways);
      WaysDestroy(&ways);
    }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
