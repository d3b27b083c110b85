/* What the tests of this folder share: devices and transports, and vectors of a device. */
#pragma once
#include "../carried.h"
#include "../comm/sumtest.h"
#include "renga/private/kernel.h"
#include "renga/private/transport.h"
#include <stdlib.h>
#include <string.h>

enum { WAYS_TAG = 3 };

/* A device and a transport on it. */
typedef struct {
  RengaComm comm;
  RengaDevice device;
  RengaTransport transport;
  int rank, size;
} Ways;

/* All ranks to all under one tag, and sums of all. */
static inline void WaysConnect(const Ways *ways)
{
  RengaRoute route[MOST_RANKS * MOST_RANKS];
  RengaTransportNeeds needs = {
      .route = route, .n_groups = 1, .group = &ways->comm, .unordered = true, .exact = true};
  int count = 0;
  for (int from = 0; from < ways->size; from++)
    for (int to = 0; to < ways->size; to++) route[count++] = (RengaRoute){from, to, WAYS_TAG};
  needs.n_routes = count;
  RengaCallAbort(RengaTransportConnect_Private(ways->transport, &needs));
}

static inline void WaysCreate(RengaComm comm, const char *device, int64_t seed, const char *type,
                              Ways *ways)
{
  char text[32];
  *ways = (Ways){.comm = comm, .rank = RengaCommGetRank(comm), .size = RengaCommGetSize(comm)};
  RengaCallAbort(RengaDeviceCreate(comm, &ways->device));
  RengaCallAbort(RengaDeviceSetType(ways->device, device));
  snprintf(text, sizeof text, "%lld", (long long)seed);
  if (strcmp(device, "far") == 0) RengaCallAbort(RengaOptionsSetValue("device_far_seed", text));
  if (strcmp(device, "cuda") == 0)
    RengaCallAbort(RengaOptionsSetValue("device_cuda_module", getenv("RENGA_TEST_CUDA")));
  RengaCallAbort(RengaOptionsSetValue("device_type", device));
  RengaCallAbort(RengaDeviceSetFromOptions(ways->device));
  RengaCallAbort(RengaDeviceSetThreads(ways->device, 1));
  RengaCallAbort(RengaDeviceSetUp(ways->device));
  RengaCallAbort(RengaTransportCreate_Private(comm, ways->device, type, &ways->transport));
  WaysConnect(ways);
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

typedef struct {
  const char *device, *type;
  int64_t seeds;
} WaysRow;

/* The test on each device, with each transport that it may have. RENGA_TEST_CUDA, a module: on that
   alone, with the transports of RENGA_TEST_TRANSPORTS ("staged nccl"). */
static inline RengaErrorCode TestAllWays(void (*test)(const Ways *ways))
{
  static const WaysRow host[] = {
      {"ref", "mpi", 1},  {"ref", "staged", 1},  {"cpu", "mpi_device", 1}, {"cpu", "staged", 1},
      {"cpu", "auto", 1}, {"ref", "carried", 1}, {"far", "staged", 3},     {"far", "carried", 2}};
  static CarriedCounts counts; /* of a transport from outside */
  static const RengaTransportRule carried = CARRIED_RULE("carried", &counts);
  static const WaysRow cuda[] = {
      {"cuda", "staged", 1}, {"cuda", "nccl", 1}, {"cuda", "mpi_device", 1}, {"cuda", "auto", 1}};
  const bool on_cuda = getenv("RENGA_TEST_CUDA") != NULL;
  const char *wanted = on_cuda ? getenv("RENGA_TEST_TRANSPORTS") : NULL;
  const WaysRow *rows = on_cuda ? cuda : host;
  const int count = on_cuda ? 4 : 8;
  RengaComm comm;
  RengaCall(RengaTransportRegister(&carried));
  RengaCall(RengaOptionsSetValue("comm_message_limit", "64kB"));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetFromOptions(comm));
  RengaCall(RengaCommSetTimeout(comm, 150));
  for (int r = 0; r < count; r++)
    for (int64_t seed = 1; seed <= UnlessSlow((int)rows[r].seeds, 1); seed++) {
      Ways ways;
      if (wanted && !strstr(wanted, rows[r].type)) continue;
      WaysCreate(comm, rows[r].device, seed, rows[r].type, &ways);
      test(&ways);
      WaysDestroy(&ways);
    }
  RengaCall(RengaCommDestroy(&comm));
  TestTrue(counts.states == 0 && counts.under_way == 0 && (on_cuda || counts.sends > 0));
  return RENGA_SUCCESS;
}
