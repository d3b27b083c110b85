/* Transport nccl: how its communicators are opened, watched, and closed.

   All ranks go through the same routes in one order, then through their groups in one order, and to
   open a communicator waits for its ranks alone: so the first in that order that is not open can
   always be opened. A first message follows at once, since NCCL joins two ranks when they first
   send to each other, and waits for both then: later no call waits. */
#include "nccl.h"
#include <stdlib.h>

enum { FIRST_BYTES = 16, TAG_KEY = 1 };

static RengaErrorCode FillLane(RengaTransport transport, Lane *lane)
{
  RengaCall(RengaStreamCreate(transport->device, &lane->track.stream));
  RengaCall(RengaEventCreate(transport->device, &lane->taken));
  return RENGA_SUCCESS;
}

static bool IsOnRoute(const RengaRoute *route, int rank)
{
  return route->from == rank || route->to == rank;
}

static RengaErrorCode FillGang(RengaTransport transport, Gang *gang)
{
  RengaCall(RengaStreamCreate(transport->device, &gang->track.stream));
  RengaCall(RengaEventCreate(transport->device, &gang->ready));
  RengaCall(RengaEventCreate(transport->device, &gang->done));
  return RENGA_SUCCESS;
}

/* Of a rank; own: with those to itself. */
static int CountRoutes(int count, const RengaRoute route[], int rank, bool own)
{
  int found = 0;
  for (int r = 0; r < count; r++)
    found += IsOnRoute(&route[r], rank) && (own || route[r].from != route[r].to);
  return found;
}

/* Each communicator has a stream here, and one of NCCL's own, which waits for what it has begun
   last. Beside them work the default stream and that of copies. */
RengaErrorCode RengaTransportFits_NCCL(RengaTransport transport, int n_routes,
                                       const RengaRoute route[], int n_groups, bool *fits,
                                       char why[TRANSPORT_WHY])
{
  enum { OWN = 2 };
  const RengaFabric *fabric = ((const Nccl *)transport->data)->fabric;
  const int rank = RengaCommGetRank(transport->hdr.owner);
  const int wires = CountRoutes(n_routes, route, rank, false) + n_groups;
  const int streams =
      OWN + CountRoutes(n_routes, route, rank, true) + n_groups + wires * fabric->own_streams;
  int queues = 0;
  RengaCall(fabric->queues(transport->device, &queues));
  *fits = streams <= queues;
  snprintf(why, TRANSPORT_WHY,
           "rank %d would have %d communicators, so %d streams at work, and its device has %d "
           "hardware queues for them (CUDA_DEVICE_MAX_CONNECTIONS)",
           rank, wires, streams, queues);
  return RENGA_SUCCESS;
}

/* The lanes of this rank, in the order of the routes. */
static RengaErrorCode MakeLanes(RengaTransport transport, int count, const RengaRoute route[])
{
  Nccl *nccl = transport->data;
  const int rank = RengaCommGetRank(transport->hdr.owner);
  const int most = CountRoutes(count, route, rank, true);
  if (most > 0) RengaCall(RengaMalloc(most, &nccl->lane));
  for (int r = 0; r < count; r++) {
    if (!IsOnRoute(&route[r], rank)) continue;
    const bool incoming = route[r].to == rank;
    Lane *lane = &nccl->lane[nccl->n_lanes++];
    *lane = (Lane){.peer = incoming ? route[r].from : route[r].to,
                   .tag = route[r].tag,
                   .incoming = incoming,
                   .own = route[r].from == route[r].to};
    RengaCall(FillLane(transport, lane));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeGangs(RengaTransport transport, int count, const RengaComm group[])
{
  Nccl *nccl = transport->data;
  if (count > 0) RengaCall(RengaMalloc(count, &nccl->gang));
  for (int g = 0; g < count; g++) {
    Gang *gang = &nccl->gang[nccl->n_gangs++];
    *gang = (Gang){.comm = group[g], .ranks = RengaCommGetSize(group[g])};
    RengaCall(FillGang(transport, gang));
  }
  return RENGA_SUCCESS;
}

/* Of the lane, from its sender. */
static RengaErrorCode ShareKey(RengaTransport transport, const Lane *lane,
                               char key[RENGA_FABRIC_KEY])
{
  static const char what[] = "another rank to open a route for messages";
  const Nccl *nccl = transport->data;
  RengaComm comm = transport->hdr.owner;
  RengaRequest request = NULL;
  if (lane->incoming) {
    RengaCall(RengaCommReceive(comm, key, RENGA_FABRIC_KEY, lane->peer, TAG_KEY, &request));
  } else {
    RengaCall(nccl->fabric->makekey(transport->device, key));
    RengaCall(RengaCommSend(comm, key, RENGA_FABRIC_KEY, lane->peer, TAG_KEY, &request));
  }
  RengaCall(RengaCommWait(comm, &request, what));
  return RENGA_SUCCESS;
}

/* A call that NCCL ends only when the others have come. */
static RengaErrorCode OpenGuarded(RengaTransport transport, const char key[RENGA_FABRIC_KEY],
                                  int ranks, int rank, bool narrow, RengaWire *wire)
{
  const Nccl *nccl = transport->data;
  RengaGuardBegin_Private("ncclCommInitRank");
  const RengaErrorCode code = nccl->fabric->open(transport->device, key, ranks, rank, narrow, wire);
  RengaGuardEnd_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenLane(RengaTransport transport, Lane *lane, char *memory)
{
  static const char what[] = "the first message of a route";
  const Nccl *nccl = transport->data;
  char key[RENGA_FABRIC_KEY];
  Track *track = &lane->track;
  RengaErrorCode code;
  RengaCall(ShareKey(transport, lane, key));
  RengaCall(OpenGuarded(transport, key, 2, lane->incoming, true, &track->wire));
  RengaGuardBegin_Private("the first message by NCCL");
  if (lane->incoming)
    code = nccl->fabric->receive(transport->device, track->wire, track->stream, memory, FIRST_BYTES,
                                 0);
  else
    code =
        nccl->fabric->send(transport->device, track->wire, track->stream, memory, FIRST_BYTES, 1);
  RengaGuardEnd_Private();
  RengaCall(code);
  RengaCall(RengaTransportAwait_Private(transport, track->stream, what));
  return RENGA_SUCCESS;
}

/* Each sends to each, as sums do. memory: of two messages. */
static RengaErrorCode SendRoundGang(RengaTransport transport, const Gang *gang, char *memory)
{
  const RengaFabric *fabric = ((const Nccl *)transport->data)->fabric;
  const int rank = RengaCommGetRank(gang->comm), size = RengaCommGetSize(gang->comm);
  RengaDevice device = transport->device;
  const Track *track = &gang->track;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(fabric->begin(device));
  for (int r = 0; r < size && !code; r++) {
    if (r == rank) continue;
    code = fabric->send(device, track->wire, track->stream, memory, FIRST_BYTES, r);
    if (!code)
      code = fabric->receive(device, track->wire, track->stream, memory + FIRST_BYTES * (1 + r),
                             FIRST_BYTES, r);
  }
  RengaKeepFirst_Private(&code, fabric->end(device));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* NCCL joins a group anew for its own sums. memory: of one message. */
static RengaErrorCode SumInGang(RengaTransport transport, const Gang *gang, char *memory)
{
  const Nccl *nccl = transport->data;
  RengaCall(nccl->fabric->sum(transport->device, gang->track.wire, gang->track.stream,
                              RENGA_FLOAT32, FIRST_BYTES / (int64_t)sizeof(float), memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenGang(RengaTransport transport, Gang *gang, char *memory)
{
  static const char what[] = "all ranks of a group to open their sums";
  const Nccl *nccl = transport->data;
  const int rank = RengaCommGetRank(gang->comm), size = RengaCommGetSize(gang->comm);
  char key[RENGA_FABRIC_KEY] = "";
  if (rank == 0) RengaCall(nccl->fabric->makekey(transport->device, key));
  RengaCall(RengaCommBroadcast(gang->comm, key, sizeof key, 0, what));
  RengaCall(OpenGuarded(transport, key, size, rank, false, &gang->track.wire));
  for (int sums = 0; sums < (nccl->adds ? 2 : 1); sums++) {
    RengaGuardBegin_Private("the first messages of a group by NCCL");
    const RengaErrorCode code =
        sums ? SumInGang(transport, gang, memory) : SendRoundGang(transport, gang, memory);
    RengaGuardEnd_Private();
    RengaCall(code);
    RengaCall(RengaTransportAwait_Private(transport, gang->track.stream, what));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenAll(RengaTransport transport, char *memory)
{
  Nccl *nccl = transport->data;
  for (int l = 0; l < nccl->n_lanes; l++)
    if (!nccl->lane[l].own) RengaCall(OpenLane(transport, &nccl->lane[l], memory));
  for (int g = 0; g < nccl->n_gangs; g++) RengaCall(OpenGang(transport, &nccl->gang[g], memory));
  return RENGA_SUCCESS;
}

/* Its sums take one way or another by their sizes, and NCCL (2.22 or later) would join the ranks on
   each way when it is first taken, in the middle of a step: it shall do so when a communicator is
   opened. It reads this once, before the first one. */
static void JoinEarly(void)
{
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

/* What one rank may lack the memory for, all agree on before any waits for the others. */
RengaErrorCode RengaTransportConnect_NCCL(RengaTransport transport, int n_routes,
                                          const RengaRoute route[], const RengaTransportSums *sums)
{
  char *memory = NULL;
  ((Nccl *)transport->data)->adds = sums->unordered;
  if (sums->unordered) JoinEarly();
  const size_t bytes = FIRST_BYTES * (1 + (size_t)RengaCommGetSize(transport->hdr.owner));
  RengaErrorCode code = RengaDeviceMalloc(transport->device, bytes, &memory);
  if (!code) code = MakeLanes(transport, n_routes, route);
  if (!code) code = MakeGangs(transport, sums->count, sums->group);
  if (!code) code = RengaDeviceSetBytes(transport->device, NULL, memory, 0, bytes);
  if (!code) code = RengaStreamSynchronize(transport->device, NULL);
  code = RengaErrorAgree(transport->hdr.comm, code);
  if (!code) code = OpenAll(transport, memory);
  if (code) RengaTransportAbort_NCCL(transport); /* or the memory would be waited for */
  if (memory) RengaKeepFirst_Private(&code, RengaDeviceFree(transport->device, &memory));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of NCCL's communicators: for each peer and each channel (by which blocks of threads send at the
   same time) a buffer of NCCL_BUFFSIZE, 4 MiB unless it is set (NCCL's documentation of environment
   variables). Narrow communicators, of routes, have 2 channels; NCCL chooses how many the others
   have, and 16 stands for it here. What else it keeps is less. Communicators that are joined early
   have the ways of sums besides, a ring and a tree. */
size_t RengaTransportBuffers_NCCL(RengaTransport transport)
{
  enum { NARROW_CHANNELS = 2, WIDE_CHANNELS = 16, SUM_WAYS = 2, BUFFER = 4 << 20 };
  const Nccl *nccl = transport->data;
  const char *text = getenv("NCCL_BUFFSIZE");
  const long long set = text ? atoll(text) : 0;
  const size_t buffer = set > 0 ? (size_t)set : BUFFER;
  size_t buffers = 0;
  for (int l = 0; l < nccl->n_lanes; l++)
    if (nccl->lane[l].track.wire) buffers += NARROW_CHANNELS * (nccl->adds ? 1 + SUM_WAYS : 1);
  for (int g = 0; g < nccl->n_gangs; g++)
    if (nccl->gang[g].track.wire)
      buffers += WIDE_CHANNELS * (size_t)(nccl->gang[g].ranks - 1 + (nccl->adds ? SUM_WAYS : 0));
  return buffers * buffer;
}

static RengaErrorCode CheckTrack(RengaTransport transport, const Track *track)
{
  const Nccl *nccl = transport->data;
  if (track->wire) RengaCall(nccl->fabric->check(transport->device, track->wire));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCheck_NCCL(RengaTransport transport)
{
  const Nccl *nccl = transport->data;
  for (int l = 0; l < nccl->n_lanes; l++) RengaCall(CheckTrack(transport, &nccl->lane[l].track));
  for (int g = 0; g < nccl->n_gangs; g++) RengaCall(CheckTrack(transport, &nccl->gang[g].track));
  return RENGA_SUCCESS;
}

static void AbortTrack(RengaTransport transport, Track *track, RengaErrorCode *code)
{
  const Nccl *nccl = transport->data;
  if (track->wire)
    RengaKeepFirst_Private(code, nccl->fabric->close(transport->device, &track->wire, true));
}

RengaErrorCode RengaTransportAbort_NCCL(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  RengaErrorCode code = RENGA_SUCCESS;
  nccl->aborted = true;
  for (int l = 0; l < nccl->n_lanes; l++) AbortTrack(transport, &nccl->lane[l].track, &code);
  for (int g = 0; g < nccl->n_gangs; g++) AbortTrack(transport, &nccl->gang[g].track, &code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FreeTrack(RengaTransport transport, Track *track, RengaErrorCode *code)
{
  const Nccl *nccl = transport->data;
  if (track->wire)
    RengaKeepFirst_Private(code, nccl->fabric->close(transport->device, &track->wire, false));
  if (track->stream)
    RengaKeepFirst_Private(code, RengaStreamDestroy(transport->device, &track->stream));
}

static void FreeEvent(RengaTransport transport, RengaEvent *event, RengaErrorCode *code)
{
  if (*event) RengaKeepFirst_Private(code, RengaEventDestroy(transport->device, event));
}

RengaErrorCode RengaTransportDestroy_NCCL(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!nccl) return RENGA_SUCCESS;
  for (int l = 0; l < nccl->n_lanes; l++) {
    FreeTrack(transport, &nccl->lane[l].track, &code);
    FreeEvent(transport, &nccl->lane[l].taken, &code);
  }
  for (int g = 0; g < nccl->n_gangs; g++) {
    FreeTrack(transport, &nccl->gang[g].track, &code);
    FreeEvent(transport, &nccl->gang[g].ready, &code);
    FreeEvent(transport, &nccl->gang[g].done, &code);
  }
  RengaFree(&nccl->lane);
  RengaFree(&nccl->gang);
  RengaFree(&transport->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}
