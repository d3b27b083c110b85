/* Transport: which type fits devices and MPI, and why. All ranks ask, and find the same. */
#include "transportimpl.h"
#include <string.h>

/* What a rank knows of its device. */
typedef struct {
  int node;
  bool found;
  char place[RENGA_FABRIC_TEXT]; /* on the node */
  char text[RENGA_FABRIC_TEXT];  /* version, or why there is no fabric */
} DeviceFact;

static void FindFact(RengaTransport transport, const RengaFabric *fabric, DeviceFact *fact)
{
  fact->found = fabric->find(transport->device, fact->text);
  if (!fact->found || !fabric->place(transport->device, fact->place)) return;
  fact->found = false;
  snprintf(fact->text, sizeof fact->text, "nobody knows which device it has");
}

static void JudgeFacts(int size, const DeviceFact fact[], const char *library, bool *found,
                       size_t length, char why[])
{
  *found = false;
  for (int r = 0; r < size; r++)
    if (!fact[r].found) {
      snprintf(why, length, "rank %d has no %s (%s)", r, library, fact[r].text);
      return;
    }
  for (int r = 1; r < size; r++)
    for (int s = 0; s < r; s++)
      if (fact[r].node == fact[s].node && strcmp(fact[r].place, fact[s].place) == 0) {
        snprintf(why, length, "ranks %d and %d share device %s of node %d, and %s needs one each",
                 s, r, fact[s].place, fact[s].node, library);
        return;
      }
  *found = true;
  snprintf(why, length, "each rank has a device of its own, and all have %s", fact[0].text);
}

static RengaErrorCode GatherFacts(RengaTransport transport, const RengaFabric *fabric,
                                  DeviceFact fact[])
{
  RengaComm comm = transport->hdr.owner;
  DeviceFact mine = {.node = 0};
  RengaCall(RengaCommGetNode(comm, &mine.node, NULL, NULL, NULL));
  FindFact(transport, fabric, &mine);
  RengaCall(RengaCommGather(comm, &mine, sizeof mine, fact, -1, "all ranks to say their devices"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportFindFabric(RengaTransport transport, bool *found, size_t size,
                                        char why[])
{
  const RengaFabric *fabric = RengaDeviceGetFabric_Private(transport->device);
  const int ranks = RengaCommGetSize(transport->hdr.owner);
  DeviceFact *fact = NULL;
  const char *device;
  RengaCall(RengaDeviceGetType(transport->device, &device));
  *found = false;
  snprintf(why, size, "devices of type %s have no messages of their own", device);
  if (!fabric) return RENGA_SUCCESS;
  RengaErrorCode code = RengaErrorAgree(transport->hdr.comm, RengaMalloc(ranks, &fact));
  if (!code) code = GatherFacts(transport, fabric, fact);
  if (!code) JudgeFacts(ranks, fact, fabric->library, found, size, why);
  RengaFree(&fact);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of a type of devices that messages can go between without the host. */
static RengaErrorCode FitDevice(RengaTransport transport, const char **type)
{
  char fabric[TRANSPORT_REASON / 2 - 32], mpi[TRANSPORT_REASON / 2 - 32];
  bool fits;
  RengaCall(RengaTransportFindFabric(transport, &fits, sizeof fabric, fabric));
  *type = RENGA_TRANSPORT_NCCL;
  snprintf(transport->reason, sizeof transport->reason, "%s", fabric);
  if (fits) return RENGA_SUCCESS;
  RengaCall(RengaTransportProbe(transport, &fits, sizeof mpi, mpi));
  *type = fits ? RENGA_TRANSPORT_MPI_DEVICE : RENGA_TRANSPORT_STAGED;
  snprintf(transport->reason, sizeof transport->reason, "not nccl: %s; %s%s", fabric,
           fits ? "" : "not mpi_device: ", mpi);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportFit(RengaTransport transport, const char **type)
{
  const bool host = RengaDeviceIsHost(transport->device);
  *type = host ? RENGA_TRANSPORT_MPI : RENGA_TRANSPORT_STAGED;
  snprintf(transport->reason, sizeof transport->reason, "so it was chosen");
  if (!host && RengaDeviceGetFabric_Private(transport->device))
    RengaCall(FitDevice(transport, type));
  return RENGA_SUCCESS;
}
