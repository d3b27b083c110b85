/* Links between ranks: latency and bandwidth by ping-pong within a node and between nodes, and the
   sum over replicas by RengaCommSumBegin. They make the machine that goes with measured costs. */
#include "measured.h"
#include "renga/private/kernel.h"
#include "renga/private/transport.h"
#include <math.h>
#include <string.h>

enum { PINGS = 50, LARGE_PINGS = 7, SUMS = 5, LARGE = 8 << 20, SUM_COUNT = 4 << 20, TAG = 77 };
static const char what[] = "ranks to measure their links";
static const RengaDataType sum_type = RENGA_FLOAT32; /* of gradients, in all precisions */

/* Ranks wait for each other here, so that other work on the machine only ever adds time: the least
   of some trials is what a link takes. */
static double Least(int count, const double values[])
{
  double least = INFINITY;
  for (int i = 0; i < count; i++)
    if (values[i] < least) least = values[i];
  return least;
}

/* One end of a link: memory of the device, and what carries its messages. */
typedef struct {
  RengaTransport transport;
  RengaParcel out, in;
  char *memory;
  int rank, other;
} LinkEnd;

/* A message in one direction; the host does not wait where the device sends by itself. */
static RengaErrorCode SendOnce(LinkEnd *end, size_t bytes, bool sends)
{
  if (sends) {
    RengaCall(RengaParcelSend_Private(end->out, end->memory, bytes, end->other, TAG));
    RengaCall(RengaParcelWait_Private(end->out, what));
  } else {
    RengaCall(RengaParcelReceive_Private(end->in, end->memory, bytes, end->other, TAG));
    RengaCall(RengaParcelWait_Private(end->in, what));
  }
  return RENGA_SUCCESS;
}

/* rank 0 and its partner send a message forth and back: half of the time. */
static RengaErrorCode PingPong(LinkEnd *end, size_t bytes, int pings, double *seconds)
{
  double value[PINGS];
  for (int p = 0; p < pings; p++) {
    const double begin = MPI_Wtime();
    for (int turn = 0; turn < 2; turn++)
      RengaCall(SendOnce(end, bytes, (turn == 0) == (end->rank == 0)));
    RengaCall(RengaTransportAwait_Private(end->transport, NULL, what));
    value[p] = (MPI_Wtime() - begin) / 2;
  }
  *seconds = Least(pings, value);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenEnd(RengaComm comm, RengaDevice device, LinkEnd *end)
{
  RengaCall(RengaDeviceMalloc(device, LARGE, &end->memory));
  RengaCall(RengaDeviceSetBytes(device, NULL, end->memory, 0, LARGE));
  RengaCall(RengaParcelCreate_Private(end->transport, comm, LARGE, &end->out));
  RengaCall(RengaParcelCreate_Private(end->transport, comm, LARGE, &end->in));
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseEnd(RengaDevice device, LinkEnd *end)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (end->out) code = RengaParcelDestroy_Private(&end->out);
  if (end->in) RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&end->in));
  if (end->memory) RengaKeepFirst_Private(&code, RengaDeviceFree(device, &end->memory));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What one rank may lack the memory for, and what its link fails at, all agree on. */
static RengaErrorCode TimeMessages(RengaComm comm, RengaDevice device, LinkEnd *end,
                                   double seconds[2])
{
  const bool on_link = end->other >= 0;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code =
      RengaErrorAgree(ranks, on_link ? OpenEnd(comm, device, end) : RENGA_SUCCESS);
  if (!code && on_link) code = PingPong(end, 8, PINGS, &seconds[0]);
  if (!code && on_link) code = PingPong(end, LARGE, LARGE_PINGS, &seconds[1]);
  if (on_link) RengaKeepFirst_Private(&code, CloseEnd(device, end));
  RengaCall(RengaErrorAgree(ranks, code));
  return RENGA_SUCCESS;
}

/* Of the link from rank 0 to partner, on all ranks, by the transport that moves tensors. */
static RengaErrorCode MeasureLink(RengaComm comm, RengaDevice device, RengaTransport transport,
                                  int partner, RengaMachineLevel *level)
{
  const int rank = RengaCommGetRank(comm);
  const RengaRoute route[2] = {{0, partner, TAG}, {partner, 0, TAG}};
  const RengaTransportNeeds needs = {.n_routes = 2, .route = route};
  LinkEnd end = {.transport = transport, .rank = rank, .other = -1};
  double seconds[2] = {0, 0};
  if (rank == 0) end.other = partner;
  if (rank == partner) end.other = 0;
  RengaCall(RengaCommBarrier(comm, what));
  RengaCall(RengaTransportConnect_Private(transport, &needs));
  RengaCall(TimeMessages(comm, device, &end, seconds));
  RengaCall(RengaCommBroadcast(comm, seconds, sizeof seconds, 0, what));
  level->latency = seconds[0];
  level->bandwidth = LARGE / fmax(seconds[1] - seconds[0], 1e-9);
  return RENGA_SUCCESS;
}

static RengaErrorCode TimeSums(RengaComm group, RengaTransport transport,
                               const RengaCommSumTask *task, double *seconds)
{
  double value[SUMS];
  for (int s = -1; s < SUMS; s++) {
    RengaCommSum sum;
    bool whole;
    RengaCall(RengaCommBarrier(group, what));
    const double begin = MPI_Wtime();
    RengaCall(RengaCommSumBegin(group, task, &sum));
    RengaErrorCode code = RengaCommSumEnd(&sum, what, &whole);
    if (sum) RengaCommSumCancel(&sum, what);
    if (!code) code = RengaTransportAwait_Private(transport, NULL, what);
    RengaCall(code);
    if (s >= 0) value[s] = MPI_Wtime() - begin;
  }
  *seconds = Least(SUMS, value);
  return RENGA_SUCCESS;
}

/* By what moves the gradients of replicas, too. */
static RengaErrorCode TimeCarriedSums(RengaComm group, RengaProfile profile, RengaCommSumTask *task,
                                      double *seconds)
{
  RengaDevice device = RengaMeasuredDevice_Private(profile);
  const char *type = NULL;
  const int size = RengaCommGetSize(group);
  const RengaTransportNeeds needs = {.n_groups = 1, .group = &group};
  RengaTransport transport = NULL;
  RengaConvoy convoy = NULL;
  MPI_Comm ranks;
  size_t room, other;
  int places = RengaCommTreePlaces(group, size, task->leaves, task->work_bytes, &room);
  const int gathered = RengaCommGatherPlaces(group, task->blocks, task->type, &other);
  if (gathered > places) places = gathered;
  if (other > room) room = other;
  RengaCall(RengaObjectGetComm(group, &ranks));
  if (profile->settings) RengaCall(RengaSettingsGetTransport(profile->settings, &type));
  RengaErrorCode code = RengaTransportCreate_Private(group, device, type, &transport);
  if (!code) code = RengaTransportConnect_Private(transport, &needs);
  if (!code) code = RengaConvoyCreate_Private(transport, group, places, room, &convoy);
  code = RengaErrorAgree(ranks, code);
  if (!code) {
    task->carrier = RengaConvoyGetCarrier_Private(convoy);
    task->adder = RengaConvoyGetAdder_Private(convoy);
    code = TimeSums(group, transport, task, seconds);
  }
  if (convoy) RengaConvoyDestroy_Private(&convoy);
  if (transport) RengaTransportDestroy_Private(&transport);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* vectors: zeros; the piece of this rank, the result, then work memory. */
static RengaErrorCode TimeSumsOf(RengaComm group, RengaProfile profile, RengaCommSumTask *task,
                                 char *vectors, double *seconds)
{
  RengaDevice device = RengaMeasuredDevice_Private(profile);
  static const int64_t whole[2] = {0, SUM_COUNT};
  const RengaPartialSum piece = {RengaCommGetRank(group), 1, vectors};
  const size_t bytes = SUM_COUNT * RengaDataTypeSize(task->type);
  RengaCall(RengaDeviceSetBytes(device, NULL, vectors, 0, 2 * bytes + task->work_bytes));
  RengaCall(RengaStreamSynchronize(device, NULL));
  task->pieces = &piece;
  task->result = vectors + bytes;
  task->work = vectors + 2 * bytes;
  RengaCall(RengaBlocksCreate(RengaCommGetSize(group), 1, whole, &task->blocks));
  const RengaErrorCode code = TimeCarriedSums(group, profile, task, seconds);
  RengaBlocksDestroy(&task->blocks);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Each rank of the group has one leaf. */
static RengaErrorCode MeasureSum(RengaComm group, RengaProfile profile, double *seconds)
{
  RengaDevice device = RengaMeasuredDevice_Private(profile);
  const int size = RengaCommGetSize(group);
  int64_t *leaves = NULL;
  char *vectors = NULL;
  RengaCall(RengaMalloc(size + 1, &leaves));
  for (int r = 0; r <= size; r++) leaves[r] = r;
  RengaCommSumTask task = {.type = sum_type,
                           .n_leaves = size,
                           .leaves = leaves,
                           .work_bytes =
                               RengaCommTreeWork(size, size, leaves, sum_type, SUM_COUNT)};
  RengaErrorCode code = RengaDeviceMalloc(
      device, 2 * SUM_COUNT * RengaDataTypeSize(sum_type) + task.work_bytes, &vectors);
  if (!code) code = TimeSumsOf(group, profile, &task, vectors, seconds);
  if (vectors) RengaDeviceFree(device, &vectors);
  RengaFree(&leaves);
  RengaCall(code);
  return RENGA_SUCCESS;
}

typedef struct {
  int nodes, largest;  /* ranks of the largest node */
  int neighbour, away; /* a rank of rank 0's node, one of another; -1: none */
  int node, local_rank;
  int64_t *begin; /* [nodes + 1] ranks before each */
} LinkLayout;

static RengaErrorCode FindLayout(RengaComm comm, LinkLayout *layout)
{
  const int size = RengaCommGetSize(comm);
  int mine[2], local_size, *all = NULL;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaCommGetNode(comm, &mine[0], &layout->nodes, &mine[1], &local_size));
  RengaErrorCode code = RengaMalloc(2 * size, &all);
  if (!code) code = RengaMalloc(layout->nodes + 1, &layout->begin);
  code = RengaErrorAgree(ranks, code);
  if (!code) code = RengaCommGather(comm, mine, sizeof mine, all, -1, what);
  layout->node = mine[0];
  layout->local_rank = mine[1];
  layout->neighbour = layout->away = -1;
  layout->largest = 1;
  for (int r = 0; r < size && !code; r++) {
    layout->begin[all[2 * r] + 1]++;
    if (r > 0 && all[2 * r] == all[0] && layout->neighbour < 0) layout->neighbour = r;
    if (all[2 * r] != all[0] && layout->away < 0) layout->away = r;
    if (all[2 * r + 1] + 1 > layout->largest) layout->largest = all[2 * r + 1] + 1;
  }
  for (int n = 0; n < layout->nodes && !code; n++) layout->begin[n + 1] += layout->begin[n];
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of the sums that a level's links make. */
typedef struct {
  double nodes, memory;           /* of the ranks; bytes/s of additions */
  const RengaMachineLevel *inner; /* the links of nodes, known; NULL: it is those */
} LinkSums;

/* What the machine's formula says of the sum without the links of the level, so that they can be
   found. */
static double ReduceBandwidth(double seconds, int ranks, const LinkSums *sums, double latency)
{
  const RengaMachineLevel *inner = sums->inner;
  const double bytes = SUM_COUNT * (double)RengaDataTypeSize(sum_type);
  const double nodes = sums->nodes, own = ranks / nodes, peers = inner ? nodes - 1 : own - 1;
  double rest = seconds - 3 * bytes * (1 - 1.0 / ranks) / sums->memory - 2 * peers * latency;
  if (inner) rest -= 2 * (own - 1) * (inner->latency + bytes / own / inner->reduce_bandwidth);
  return 2 * peers * bytes / ranks / fmax(rest, 0.05 * seconds);
}

static RengaErrorCode MeasureLevel(RengaComm group, RengaProfile profile, RengaTransport transport,
                                   int partner, const LinkSums *sums, RengaMachineLevel *level)
{
  RengaComm comm = profile->hdr.owner;
  struct {
    double seconds;
    int ranks;
  } sum = {.ranks = RengaCommGetSize(group)};
  RengaCall(MeasureLink(comm, RengaMeasuredDevice_Private(profile), transport, partner, level));
  RengaCall(MeasureSum(group, profile, &sum.seconds));
  RengaCall(RengaCommBroadcast(comm, &sum, sizeof sum, 0, what));
  level->reduce_bandwidth = ReduceBandwidth(sum.seconds, sum.ranks, sums, level->latency);
  return RENGA_SUCCESS;
}

/* ", by nccl": links have other numbers by another transport; MPI from the host's memory is not
   named. */
static void NameTransport(RengaTransport transport, size_t size, char text[])
{
  const char *type = RengaTransportGetType_Private(transport);
  text[0] = '\0';
  if (strcmp(type, RENGA_TRANSPORT_MPI) != 0) snprintf(text, size, ", by %s", type);
}

/* A level's three numbers, from the rows or measured. */
static RengaErrorCode FindLinkNumbers(RengaProfile profile, const LinkLayout *layout,
                                      RengaTransport transport, const LinkSums *sums,
                                      RengaMachineLevel *level)
{
  const bool within = !sums->inner;
  Measured *measured = profile->data;
  RengaComm comm = profile->hdr.owner, group = comm;
  char name[3][160], by[32];
  static const char *const quantity[] = {"latency", "seconds per byte",
                                         "seconds per byte of a sum by levels"};
  double value[3];
  bool known = true;
  NameTransport(transport, sizeof by, by);
  for (int q = 0; q < 3; q++) {
    snprintf(name[q], sizeof name[q], "link %s, %d ranks on %d nodes%s: %s",
             within ? "within a node" : "between nodes", RengaCommGetSize(comm), layout->nodes, by,
             quantity[q]);
    known = RengaProfileRowsFind_Private(&measured->rows, name[q], &value[q]) && known;
  }
  if (!known) {
    if (within) RengaCall(RengaCommSplit(comm, layout->node, layout->local_rank, &group));
    RengaErrorCode code = MeasureLevel(group, profile, transport,
                                       within ? layout->neighbour : layout->away, sums, level);
    const RengaErrorCode freed = within ? RengaCommDestroy(&group) : RENGA_SUCCESS;
    RengaCall(code ? code : freed);
    const double found[3] = {level->latency, 1 / level->bandwidth, 1 / level->reduce_bandwidth};
    memcpy(value, found, sizeof value);
    for (int q = 0; q < 3; q++)
      RengaCall(RengaProfileRowsAdd_Private(&measured->rows, name[q], value[q]));
    measured->measured += 3;
    RengaCall(RengaMeasuredSave_Private(profile));
  }
  level->latency = value[0];
  level->bandwidth = 1 / value[1];
  level->reduce_bandwidth = 1 / value[2];
  return RENGA_SUCCESS;
}

/* By the transport that a run on these devices has. Collective. */
static RengaErrorCode FindLevel(RengaProfile profile, const LinkLayout *layout,
                                const LinkSums *sums, RengaMachineLevel *level)
{
  const char *type = NULL;
  RengaTransport transport = NULL;
  if (profile->settings) RengaCall(RengaSettingsGetTransport(profile->settings, &type));
  RengaCall(RengaTransportCreate_Private(profile->hdr.owner, RengaMeasuredDevice_Private(profile),
                                         type, &transport));
  RengaErrorCode code = FindLinkNumbers(profile, layout, transport, sums, level);
  RengaKeepFirst_Private(&code, RengaTransportDestroy_Private(&transport));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The highest rates that a call of the network reached. */
static void FindRates(RengaProfile profile, RengaMachineDevice *device)
{
  for (int c = 0; c < profile->n_calls; c++) {
    const RengaOpCall call = RengaProfileOpCall_Private(&profile->call[c]);
    if (profile->call[c].seconds <= 0) continue;
    const double rate = RengaOperatorFlops(&call) / profile->call[c].seconds;
    double *best =
        RengaProfileIsMatrix_Private(&call) ? &device->matrix_rate : &device->vector_rate;
    if (rate > *best) *best = rate;
  }
}

/* Without a neighbour a link is taken to be a copy through memory. */
static RengaErrorCode FillMachine(RengaProfile profile, const LinkLayout *layout,
                                  RengaMachine machine)
{
  size_t capacity, used, peak;
  double seconds;
  int64_t memory = ((const Measured *)profile->data)->memory;
  RengaDevice device = RengaMeasuredDevice_Private(profile);
  RengaMachineLevel level[2] = {{.name = "node", .devices = layout->largest},
                                {.name = "cluster", .devices = layout->largest * layout->nodes}};
  RengaCall(RengaMeasuredAccumulate_Private(profile, 1 << 28, &seconds));
  const double bandwidth = 12.0 * (1 << 28) / seconds;
  RengaCall(RengaDeviceGetMemory(device, &capacity, &used, &peak));
  if (memory == 0)
    memory = (int64_t)(capacity / (size_t)(RengaDeviceIsHost(device) ? layout->largest : 1));
  RengaMachineDevice row = {.name = "measured",
                            .memory = memory,
                            .matrix_rate = bandwidth,
                            .vector_rate = bandwidth / 4,
                            .memory_bandwidth = bandwidth,
                            .matrix_efficiency = 1,
                            .vector_efficiency = 1,
                            .bandwidth_efficiency = 1,
                            .launch = 0};
  FindRates(profile, &row);
  RengaCall(RengaMachineSetDevice(machine, &row));
  level[0].latency = 1e-6;
  level[0].bandwidth = level[0].reduce_bandwidth = bandwidth / 3;
  const LinkSums within = {1, bandwidth, NULL}, between = {layout->nodes, bandwidth, &level[0]};
  if (layout->neighbour >= 0) RengaCall(FindLevel(profile, layout, &within, &level[0]));
  if (layout->away >= 0) RengaCall(FindLevel(profile, layout, &between, &level[1]));
  RengaCall(RengaMachineSetLevels(machine, layout->nodes > 1 ? 2 : 1, level));
  bool unequal = false;
  for (int n = 0; n < layout->nodes; n++)
    unequal = unequal || layout->begin[n + 1] - layout->begin[n] != layout->largest;
  if (unequal) RengaCall(RengaMachineSetIslands(machine, layout->nodes, layout->begin));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredMachine_Private(RengaProfile profile, RengaMachine *machine)
{
  LinkLayout layout = {0};
  RengaMachine made = NULL;
  RengaCall(RengaMeasuredAgree_Private(profile, 0, "links"));
  RengaCall(RengaMeasuredSetUp_Private(profile));
  RengaErrorCode code = FindLayout(profile->hdr.owner, &layout);
  if (!code) code = RengaMachineCreate(profile->hdr.owner, &made);
  if (!code) code = FillMachine(profile, &layout, made);
  if (code && made) RengaMachineDestroy(&made);
  RengaFree(&layout.begin);
  RengaCall(code);
  *machine = made;
  return RENGA_SUCCESS;
}
