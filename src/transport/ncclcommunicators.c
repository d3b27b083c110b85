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

/* Routes that share a lane. */
static bool AreOneLane(const RengaTransportNeeds *needs, int r, int s)
{
  const RengaRoute *a = &needs->route[r], *b = &needs->route[s];
  return needs->channel && a->from == b->from && a->to == b->to && a->from != a->to &&
         needs->channel[r] == needs->channel[s];
}

/* The first route of the lane that this one goes by. */
static int FirstOfLane(const RengaTransportNeeds *needs, int r)
{
  int first = 0;
  while (first < r && !AreOneLane(needs, first, r)) first++;
  return first;
}

/* Of a rank; own: with those to itself. */
static int CountLanes(const RengaTransportNeeds *needs, int rank, bool own)
{
  int found = 0;
  for (int r = 0; r < needs->n_routes; r++) {
    const RengaRoute *route = &needs->route[r];
    found +=
        IsOnRoute(route, rank) && (own || route->from != route->to) && FirstOfLane(needs, r) == r;
  }
  return found;
}

/* Each communicator has a stream here, but that of all ranks, and one of NCCL's own, which waits
   for what it has begun last. Beside them work the default stream and that of copies. */
RengaErrorCode RengaTransportFits_NCCL(RengaTransport transport, const RengaTransportNeeds *needs,
                                       bool *fits, char why[TRANSPORT_WHY])
{
  enum { OWN = 2 };
  const RengaFabric *fabric = ((const Nccl *)transport->data)->fabric;
  const int rank = RengaCommGetRank(transport->hdr.owner);
  const int wires = CountLanes(needs, rank, false) + needs->n_groups + needs->exact;
  const int streams =
      OWN + CountLanes(needs, rank, true) + needs->n_groups + wires * fabric->own_streams;
  int queues = 0;
  RengaCall(fabric->queues(transport->device, &queues));
  *fits = streams <= queues;
  snprintf(why, TRANSPORT_WHY,
           "rank %d would have %d communicators, so %d streams at work, and its device has %d "
           "hardware queues for them (CUDA_DEVICE_MAX_CONNECTIONS)",
           rank, wires, streams, queues);
  return RENGA_SUCCESS;
}

static Way WayOf(const RengaRoute *route, int rank)
{
  const bool incoming = route->to == rank;
  return (Way){.peer = incoming ? route->from : route->to,
               .tag = route->tag,
               .incoming = incoming,
               .own = route->from == route->to};
}

/* The ways of this rank, and their lanes, in the order of the routes. */
static RengaErrorCode MakeLanes(RengaTransport transport, const RengaTransportNeeds *needs)
{
  Nccl *nccl = transport->data;
  const int rank = RengaCommGetRank(transport->hdr.owner);
  int *lane_of = NULL; /* [n_routes] */
  RengaCall(RengaMalloc(needs->n_routes + 1, &nccl->way));
  RengaCall(RengaMalloc(CountLanes(needs, rank, true) + 1, &nccl->lane));
  RengaCall(RengaMalloc(needs->n_routes + 1, &lane_of));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int r = 0; r < needs->n_routes && !code; r++) {
    if (!IsOnRoute(&needs->route[r], rank)) continue;
    const int first = FirstOfLane(needs, r);
    Way *way = &nccl->way[nccl->n_ways++];
    *way = WayOf(&needs->route[r], rank);
    if (first == r) {
      Lane *lane = &nccl->lane[nccl->n_lanes];
      *lane = (Lane){.peer = way->peer, .incoming = way->incoming, .own = way->own};
      lane_of[r] = nccl->n_lanes++;
      code = FillLane(transport, lane);
    }
    way->lane = lane_of[first];
  }
  RengaFree(&lane_of);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeGangs(RengaTransport transport, int count, const RengaComm group[])
{
  Nccl *nccl = transport->data;
  if (count > 0) RengaCall(RengaMalloc(count, &nccl->gang));
  for (int g = 0; g < count; g++) {
    Gang *gang = &nccl->gang[nccl->n_gangs++];
    *gang = (Gang){.comm = group[g]};
    RengaCall(RengaMalloc(RengaCommGetSize(group[g]), &gang->peer));
    RengaCommSumListPeers_Private(group[g], gang->peer, &gang->near, &gang->far);
    RengaCall(RengaStreamCreate(transport->device, &gang->track.stream));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeMarks(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  for (int m = 0; m < NCCL_MARKS; m++) {
    RengaCall(RengaEventCreate(transport->device, &nccl->mark[m].begun));
    RengaCall(RengaEventCreate(transport->device, &nccl->mark[m].done));
  }
  return RENGA_SUCCESS;
}

/* Those that this rank gives to others: of lanes on which it sends, and where it is the first. */
static RengaErrorCode MakeWireKeys(RengaTransport transport, bool exact)
{
  Nccl *nccl = transport->data;
  const RengaFabric *fabric = nccl->fabric;
  RengaDevice device = transport->device;
  for (int l = 0; l < nccl->n_lanes; l++)
    if (!nccl->lane[l].own && !nccl->lane[l].incoming)
      RengaCall(fabric->makekey(device, nccl->lane[l].track.key));
  for (int g = 0; g < nccl->n_gangs; g++)
    if (RengaCommGetRank(nccl->gang[g].comm) == 0)
      RengaCall(fabric->makekey(device, nccl->gang[g].track.key));
  if (exact && RengaCommGetRank(transport->hdr.owner) == 0)
    RengaCall(fabric->makekey(device, nccl->all.key));
  return RENGA_SUCCESS;
}

/* Of the lane, from its sender. */
static RengaErrorCode ShareKey(RengaTransport transport, Lane *lane)
{
  static const char what[] = "another rank to open a route for messages";
  RengaComm comm = transport->hdr.owner;
  char *key = lane->track.key;
  RengaRequest request = NULL;
  if (lane->incoming)
    RengaCall(RengaCommReceive(comm, key, RENGA_FABRIC_KEY, lane->peer, TAG_KEY, &request));
  else
    RengaCall(RengaCommSend(comm, key, RENGA_FABRIC_KEY, lane->peer, TAG_KEY, &request));
  RengaCall(RengaCommWait(comm, &request, what));
  return RENGA_SUCCESS;
}

/* A call that NCCL ends only when the others have come. */
static RengaErrorCode OpenGuarded(RengaTransport transport, int ranks, int rank, bool narrow,
                                  Track *track)
{
  const Nccl *nccl = transport->data;
  RengaGuardBegin_Private("ncclCommInitRank");
  const RengaErrorCode code =
      nccl->fabric->open(transport->device, track->key, ranks, rank, narrow, &track->wire);
  RengaGuardEnd_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenLane(RengaTransport transport, Lane *lane, char *memory)
{
  static const char what[] = "the first message of a route";
  const Nccl *nccl = transport->data;
  Track *track = &lane->track;
  RengaErrorCode code;
  RengaCall(ShareKey(transport, lane));
  RengaCall(OpenGuarded(transport, 2, lane->incoming, true, track));
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

/* Each sends to all with whom sums bring it together. memory: of a message, and of each peer's. */
static RengaErrorCode SendRoundGang(RengaTransport transport, const Gang *gang, char *memory)
{
  const RengaFabric *fabric = ((const Nccl *)transport->data)->fabric;
  RengaDevice device = transport->device;
  const Track *track = &gang->track;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(fabric->begin(device));
  for (int p = 0; p < gang->near + gang->far && !code; p++) {
    code = fabric->send(device, track->wire, track->stream, memory, FIRST_BYTES, gang->peer[p]);
    if (!code)
      code = fabric->receive(device, track->wire, track->stream, memory + FIRST_BYTES * (1 + p),
                             FIRST_BYTES, gang->peer[p]);
  }
  RengaKeepFirst_Private(&code, fabric->end(device));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenGang(RengaTransport transport, Gang *gang, char *memory)
{
  static const char what[] = "all ranks of a group to open their sums";
  const int rank = RengaCommGetRank(gang->comm), size = RengaCommGetSize(gang->comm);
  RengaCall(RengaCommBroadcast(gang->comm, gang->track.key, RENGA_FABRIC_KEY, 0, what));
  RengaCall(OpenGuarded(transport, size, rank, false, &gang->track));
  RengaGuardBegin_Private("the first messages of a group by NCCL");
  const RengaErrorCode code = SendRoundGang(transport, gang, memory);
  RengaGuardEnd_Private();
  RengaCall(code);
  RengaCall(RengaTransportAwait_Private(transport, gang->track.stream, what));
  return RENGA_SUCCESS;
}

/* For sums in the default stream. */
static RengaErrorCode OpenWireOfAll(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  RengaComm comm = transport->hdr.owner;
  RengaCall(
      RengaCommBroadcast(comm, nccl->all.key, RENGA_FABRIC_KEY, 0, "all ranks to open their sums"));
  RengaCall(
      OpenGuarded(transport, RengaCommGetSize(comm), RengaCommGetRank(comm), true, &nccl->all));
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

/* What one rank may lack the memory for, or may fail in alone, all agree on before any waits for
   the others. */
RengaErrorCode RengaTransportConnect_NCCL(RengaTransport transport,
                                          const RengaTransportNeeds *needs)
{
  char *memory = NULL;
  ((Nccl *)transport->data)->adds = needs->unordered;
  const size_t bytes = FIRST_BYTES * (1 + (size_t)RengaCommGetSize(transport->hdr.owner));
  RengaErrorCode code = RengaDeviceMalloc(transport->device, bytes, &memory);
  if (!code) code = MakeLanes(transport, needs);
  if (!code) code = MakeGangs(transport, needs->n_groups, needs->group);
  if (!code) code = MakeMarks(transport);
  if (!code) code = RengaDeviceSetBytes(transport->device, NULL, memory, 0, bytes);
  if (!code) code = RengaStreamSynchronize(transport->device, NULL);
  if (!code) code = MakeWireKeys(transport, needs->exact);
  code = RengaErrorAgree(transport->hdr.comm, code);
  if (!code) code = OpenAll(transport, memory);
  if (!code && needs->exact) code = OpenWireOfAll(transport);
  if (code) RengaTransportAbort_NCCL(transport); /* or the memory would be waited for */
  if (memory) RengaKeepFirst_Private(&code, RengaDeviceFree(transport->device, &memory));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of NCCL's communicators: for each peer on the node and each channel (by which blocks of threads
   send at the same time) a buffer of NCCL_BUFFSIZE, 4 MiB unless it is set (NCCL's documentation of
   environment variables). Messages to and from all other nodes share a pool each way, of 16 slots a
   channel (its net.cc), of 128 KiB (NCCL_P2P_NET_CHUNKSIZE). Narrow communicators, of routes, have
   2 channels; NCCL chooses how many the others have, and 16 stands for it here. What else it keeps
   is less. Those that add up themselves have the ways of sums besides, a ring and a tree. */
size_t RengaTransportBuffers_NCCL(RengaTransport transport)
{
  enum { NARROW_CHANNELS = 2, WIDE_CHANNELS = 16, SUM_WAYS = 2, BUFFER = 4 << 20 };
  enum { POOLS = 2, POOL = WIDE_CHANNELS * 16 * (128 << 10) };
  const Nccl *nccl = transport->data;
  const char *text = getenv("NCCL_BUFFSIZE");
  const long long set = text ? atoll(text) : 0;
  const size_t buffer = set > 0 ? (size_t)set : BUFFER;
  size_t buffers = 0, pools = 0;
  for (int l = 0; l < nccl->n_lanes; l++)
    if (nccl->lane[l].track.wire) buffers += NARROW_CHANNELS;
  for (int g = 0; g < nccl->n_gangs; g++) {
    const Gang *gang = &nccl->gang[g];
    if (!gang->track.wire) continue;
    buffers += WIDE_CHANNELS * (size_t)(gang->near + (nccl->adds ? SUM_WAYS : 0));
    if (gang->far > 0) pools += POOLS;
  }
  if (nccl->all.wire) buffers += NARROW_CHANNELS * SUM_WAYS;
  return buffers * buffer + pools * POOL;
}

static RengaErrorCode CheckOneWire(RengaTransport transport, RengaWire wire)
{
  const Nccl *nccl = transport->data;
  if (wire) RengaCall(nccl->fabric->check(transport->device, wire));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCheck_NCCL(RengaTransport transport)
{
  const Nccl *nccl = transport->data;
  for (int l = 0; l < nccl->n_lanes; l++)
    RengaCall(CheckOneWire(transport, nccl->lane[l].track.wire));
  for (int g = 0; g < nccl->n_gangs; g++)
    RengaCall(CheckOneWire(transport, nccl->gang[g].track.wire));
  RengaCall(CheckOneWire(transport, nccl->all.wire));
  return RENGA_SUCCESS;
}

static void CloseOneWire(RengaTransport transport, RengaWire *wire, bool abort,
                         RengaErrorCode *code)
{
  const Nccl *nccl = transport->data;
  if (*wire) RengaKeepFirst_Private(code, nccl->fabric->close(transport->device, wire, abort));
}

RengaErrorCode RengaTransportAbort_NCCL(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  RengaErrorCode code = RENGA_SUCCESS;
  nccl->aborted = true;
  for (int l = 0; l < nccl->n_lanes; l++)
    CloseOneWire(transport, &nccl->lane[l].track.wire, true, &code);
  for (int g = 0; g < nccl->n_gangs; g++)
    CloseOneWire(transport, &nccl->gang[g].track.wire, true, &code);
  CloseOneWire(transport, &nccl->all.wire, true, &code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FreeTrack(RengaTransport transport, Track *track, RengaErrorCode *code)
{
  CloseOneWire(transport, &track->wire, false, code);
  if (track->stream)
    RengaKeepFirst_Private(code, RengaStreamDestroy(transport->device, &track->stream));
}

RengaErrorCode RengaTransportDestroy_NCCL(RengaTransport transport)
{
  Nccl *nccl = transport->data;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!nccl) return RENGA_SUCCESS;
  for (int l = 0; l < nccl->n_lanes; l++) {
    FreeTrack(transport, &nccl->lane[l].track, &code);
    if (nccl->lane[l].taken)
      RengaKeepFirst_Private(&code, RengaEventDestroy(transport->device, &nccl->lane[l].taken));
  }
  for (int g = 0; g < nccl->n_gangs; g++) {
    FreeTrack(transport, &nccl->gang[g].track, &code);
    RengaFree(&nccl->gang[g].peer);
  }
  CloseOneWire(transport, &nccl->all.wire, false, &code);
  for (int m = 0; m < NCCL_MARKS; m++) {
    RengaEvent *event[] = {&nccl->mark[m].begun, &nccl->mark[m].done};
    for (int e = 0; e < 2; e++)
      if (*event[e]) RengaKeepFirst_Private(&code, RengaEventDestroy(transport->device, event[e]));
  }
  RengaFree(&nccl->lane);
  RengaFree(&nccl->way);
  RengaFree(&nccl->gang);
  RengaFree(&transport->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* In turn: of steps with more of them the first are forgotten. The device is not asked: that may
   take time. */
RengaErrorCode RengaMarkBegin(RengaTransport transport, RengaStream stream, int peer, Mark **mark)
{
  Nccl *nccl = transport->data;
  *mark = &nccl->mark[nccl->n_marks++ % NCCL_MARKS];
  (*mark)->peer = peer;
  (*mark)->used = false;
  RengaCall(RengaEventRecord(transport->device, (*mark)->begun, stream));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMarkEnd(RengaTransport transport, RengaStream stream, Mark *mark)
{
  if (!mark) return RENGA_SUCCESS;
  RengaCall(RengaEventRecord(transport->device, mark->done, stream));
  mark->used = true;
  return RENGA_SUCCESS;
}
