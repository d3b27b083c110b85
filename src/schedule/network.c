/* Links of a machine that messages and sums share: each node's network cards, in either direction,
   and what leads from each switch to the others. Devices of a node are dealt to its cards in turn.
   Of a machine whose cards are not described each device has what its level says to itself. */
#include "network.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"
#include <math.h>

enum { WAYS = 2, AT_ONCE = 32 }; /* messages of a kind that a rank has under way */

static int64_t NodeOf(const StepNetwork *network, int64_t device)
{
  return device / network->devices;
}

static int64_t SwitchOf(const StepNetwork *network, int64_t device)
{
  const int64_t nodes = network->network->switch_nodes;
  return nodes > 0 ? NodeOf(network, device) / nodes : 0;
}

static bool HasUplinks(const StepNetwork *network)
{
  return network->network->uplink_bandwidth > 0;
}

static bool IsImpaired(const StepNetwork *network, int64_t node)
{
  return network->disturbance->link_factor < 1 && node == network->disturbance->link_node;
}

static bool HasLostCard(const StepNetwork *network, int64_t node)
{
  return network->disturbance->card_lost && node == network->disturbance->lost_node;
}

/* way 0: out of the node. Of a node that has lost its first card the others carry all. */
static int CardOf(const StepNetwork *network, int64_t device, int way)
{
  const int64_t cards = network->network->cards, node = NodeOf(network, device);
  const int64_t of = device % network->devices;
  const int64_t card = HasLostCard(network, node) ? 1 + of % (cards - 1) : of % cards;
  return (int)(WAYS * (node * cards + card) + way);
}

static int UplinkOf(const StepNetwork *network, int64_t device, int way)
{
  return (int)(WAYS * (network->nodes * network->network->cards + SwitchOf(network, device)) + way);
}

int64_t RengaStepNetworkDevice_Private(const StepNetwork *network, int stage, int replica, int n)
{
  const RengaPlanPlace place = RengaPlanPlaceOf_Private(network->plan, stage, replica, n);
  return RengaPlanGetRankAt(network->plan, &place);
}

/* The last node that the plan has a device of, and those before it. */
static int64_t CountNodes(const StepNetwork *network)
{
  int64_t most = 0;
  for (int s = 0; s < RengaPlanGetStageCount(network->plan); s++) {
    const RengaStageShape *shape = &RengaPlanGetStage(network->plan, s)->shape;
    for (int r = 0; r < shape->replicas; r++)
      for (int n = 0; n < RengaShapeGroup_Private(shape); n++) {
        const int64_t node = NodeOf(network, RengaStepNetworkDevice_Private(network, s, r, n));
        if (node > most) most = node;
      }
  }
  return most + 1;
}

static RengaErrorCode CheckDisturbance(const StepNetwork *network)
{
  const RengaScheduleDisturbance *of = network->disturbance;
  RengaCheck(of->slow_factor >= 1 && of->link_factor > 0 && of->link_factor <= 1 && of->jitter >= 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a node that takes %g times as long, a share %g of a link, jitter %g: at least 1, "
             "above 0 and at most 1, at least 0",
             of->slow_factor, of->link_factor, of->jitter);
  RengaCheck(!of->card_lost || network->network->cards > 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "node %lld has %lld network card%s: with one lost no other carries its messages",
             (long long)of->lost_node, (long long)network->network->cards,
             network->network->cards == 1 ? "" : "s");
  const int64_t nodes[] = {of->slow_factor > 1 ? of->slow_node : 0,
                           of->link_factor < 1 ? of->link_node : 0,
                           of->card_lost ? of->lost_node : 0};
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
    RengaCheck(nodes[i] >= 0 && nodes[i] < network->nodes, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "node %lld: the plan is on nodes 0 to %lld", (long long)nodes[i],
               (long long)network->nodes - 1);
  return RENGA_SUCCESS;
}

static void FillCapacities(StepNetwork *network)
{
  const int64_t cards = network->network->cards;
  for (int64_t l = 0; l < network->flows.n_links; l++) {
    const bool uplink = l >= WAYS * network->nodes * cards;
    const int64_t node = uplink ? -1 : l / (WAYS * cards);
    network->flows.capacity[l] =
        uplink ? network->network->uplink_bandwidth
               : network->network->card_bandwidth *
                     (IsImpaired(network, node) ? network->disturbance->link_factor : 1);
  }
}

RengaErrorCode RengaStepNetworkCheck_Private(RengaSchedule schedule, RengaPlan plan)
{
  RengaCheck(RengaPlanGetStageCount(plan) == schedule->stages &&
                 RengaPlanGetStage(plan, 0)->forward_seconds > 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the plan does not say how long its stages take, or is not the schedule's");
  for (int s = 0; s < schedule->stages; s++)
    RengaCheck(RengaPlanGetStage(plan, s)->shape.shard < RENGA_SHARD_GRADIENTS, MPI_COMM_SELF,
               RENGA_ERR_SUPPORT,
               "replicas of stage %d share gradients or parameters: what they exchange with each "
               "micro-batch is not simulated on shared links; -pipeline_shard optimizer is",
               s);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaStepNetworkCreate_Private(RengaPlan plan, RengaMachine machine,
                                              const RengaScheduleDisturbance *disturbance,
                                              StepNetwork *network)
{
  *network = (StepNetwork){.plan = plan, .machine = machine, .disturbance = disturbance};
  RengaCall(RengaMachineGetNetwork(machine, &network->network));
  RengaCall(RengaMachineGetDevicesPerNode(machine, &network->devices));
  network->nodes = CountNodes(network);
  RengaCall(CheckDisturbance(network));
  const int64_t below = network->network->switch_nodes;
  const int64_t switches = HasUplinks(network) ? (network->nodes + below - 1) / below : 0;
  const int64_t links = WAYS * (network->nodes * network->network->cards + switches);
  RengaCall(RengaFlowsCreate_Private((int)links, &network->flows));
  FillCapacities(network);
  return RENGA_SUCCESS;
}

void RengaStepNetworkDestroy_Private(StepNetwork *network)
{
  RengaFlowsDestroy_Private(&network->flows);
}

static void AddHop(RengaFlow *flow, int link, double load)
{
  for (int h = 0; h < flow->n_hops; h++)
    if (flow->hop[h].link == link) {
      flow->hop[h].load += load;
      return;
    }
  flow->hop[flow->n_hops++] = (RengaFlowHop){.link = link, .load = load};
}

/* What a device alone gives one of another node. */
static double AloneBetween(const StepNetwork *network, double bandwidth, int64_t from, int64_t to)
{
  if (network->network->cards > 0) return network->network->card_bandwidth;
  const bool impaired =
      IsImpaired(network, NodeOf(network, from)) || IsImpaired(network, NodeOf(network, to));
  return bandwidth * (impaired ? network->disturbance->link_factor : 1);
}

void RengaStepNetworkRoute_Private(StepNetwork *network, int64_t from, int64_t to,
                                   NetworkMessage *transfer, double *latency)
{
  const RengaMachineLevel *levels;
  int count = 0;
  RengaFlow *flow = &transfer->flow;
  const int level = RengaMachineLevelOf(network->machine, from, to);
  RengaMachineGetLevels(network->machine, &count, &levels);
  *latency = levels[level].latency;
  flow->hop = transfer->hop;
  flow->n_hops = 0;
  flow->weight = 1;
  flow->most = levels[level].bandwidth;
  if (level == 0) return;
  flow->most = AloneBetween(network, levels[level].bandwidth, from, to);
  if (network->network->cards <= 0) return;
  AddHop(flow, CardOf(network, from, 0), 1);
  AddHop(flow, CardOf(network, to, 1), 1);
  if (!HasUplinks(network) || SwitchOf(network, from) == SwitchOf(network, to)) return;
  AddHop(flow, UplinkOf(network, from, 0), 1);
  AddHop(flow, UplinkOf(network, to, 1), 1);
}

/* The widest level that a replica's devices reach those of the others over. */
static int LevelOfSum(const StepNetwork *network, int stage)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  int level = 0;
  for (int n = 0; n < RengaShapeGroup_Private(shape); n++)
    for (int r = 1; r < shape->replicas; r++) {
      const int own = RengaMachineLevelOf(network->machine,
                                          RengaStepNetworkDevice_Private(network, stage, 0, n),
                                          RengaStepNetworkDevice_Private(network, stage, r, n));
      if (own > level) level = own;
    }
  return level;
}

static int64_t LesserOfTwo(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Each device over its card, and what goes to other switches over theirs. */
static RengaErrorCode LayOutSum(StepNetwork *network, int stage, double beyond, RengaFlow *flow)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  const int group = RengaShapeGroup_Private(shape);
  if (network->network->cards <= 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(2 * WAYS * group * shape->replicas, &flow->hop));
  for (int r = 0; r < shape->replicas; r++)
    for (int n = 0; n < group; n++)
      for (int way = 0; way < WAYS; way++) {
        const int64_t device = RengaStepNetworkDevice_Private(network, stage, r, n);
        AddHop(flow, CardOf(network, device, way), 1);
        if (HasUplinks(network) && beyond > 0) AddHop(flow, UplinkOf(network, device, way), beyond);
      }
  return RENGA_SUCCESS;
}

/* What is known of a sum by its levels. */
typedef struct {
  int64_t peers;       /* other nodes, with which each device exchanges messages */
  double all, latency; /* seconds; of these without any bytes */
  double bytes;        /* of a device to those of other nodes */
  double between;      /* seconds in which they pass */
  double beyond;       /* share of them that leaves the switch */
} LevelSum;

static RengaErrorCode FindLevelSum(const StepNetwork *network, int stage, LevelSum *parts)
{
  static const RengaSumPieces one = {1, 1};
  const RengaPlanStage *row = RengaPlanGetStage(network->plan, stage);
  const int64_t each = RengaShapeGroup_Private(&row->shape), replicas = row->shape.replicas;
  const double bytes =
      (double)row->parameters / (double)each * (double)RengaDataTypeSize(RENGA_FLOAT32);
  const int level = LevelOfSum(network, stage);
  const RengaMachineLevel *levels;
  int count = 0;
  double between[8] = {0};
  RengaCall(RengaMachineGetLevels(network->machine, &count, &levels));
  RengaMachineSumBytes_Private(network->machine, level, replicas, each, bytes, between);
  *parts = (LevelSum){
      .all = RengaMachineSumSeconds_Private(network->machine, level, replicas, each, bytes, &one),
      .latency = RengaMachineSumSeconds_Private(network->machine, level, replicas, each, 0, &one)};
  for (int l = 1; l <= level; l++) {
    const RengaMachineLevel *link = &levels[l];
    parts->bytes += between[l];
    parts->between +=
        between[l] / (link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth);
  }
  const int64_t own = RengaMachineNodeReplicas_Private(network->machine, level, replicas, each);
  parts->peers = (replicas + own - 1) / own - 1;
  if (level > 1 && parts->bytes > 0) parts->beyond = between[level] / parts->bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaStepNetworkSum_Private(StepNetwork *network, int stage, StageSum *sum)
{
  const RengaPlanStage *row = RengaPlanGetStage(network->plan, stage);
  const RengaMachineLevel *levels;
  int count = 0;
  LevelSum parts;
  RengaCall(RengaMachineGetLevels(network->machine, &count, &levels));
  RengaCall(FindLevelSum(network, stage, &parts));
  const int64_t bytes = row->parameters * (int64_t)RengaDataTypeSize(RENGA_FLOAT32);
  const int64_t wanted = (bytes + RENGA_BUCKET_SIZE - 1) / RENGA_BUCKET_SIZE;
  *sum = (StageSum){.early = levels[count - 1].reduce_hidden <= 0};
  sum->buckets = sum->early && wanted > 1 ? (int)LesserOfTwo(wanted, RENGA_BUCKETS_ENOUGH) : 1;
  if (parts.all <= 0 || row->reduce_seconds <= 0) return RENGA_SUCCESS;
  const double scale = row->reduce_seconds / parts.all;
  sum->within =
      scale * (parts.latency + (parts.all - parts.latency - parts.between) / sum->buckets);
  sum->bytes = scale * parts.bytes / sum->buckets;
  if (parts.bytes <= 0) return RENGA_SUCCESS;
  sum->flow.weight = (double)LesserOfTwo(AT_ONCE, parts.peers);
  sum->flow.most = network->network->cards > 0
                       ? network->network->card_bandwidth
                       : parts.bytes / parts.between * network->disturbance->link_factor;
  RengaCall(LayOutSum(network, stage, parts.beyond, &sum->flow));
  return RENGA_SUCCESS;
}

double RengaStepNetworkPace_Private(const StepNetwork *network, int stage, int replica)
{
  const RengaScheduleDisturbance *of = network->disturbance;
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  for (int n = 0; n < RengaShapeGroup_Private(shape); n++)
    if (NodeOf(network, RengaStepNetworkDevice_Private(network, stage, replica, n)) ==
        of->slow_node)
      return of->slow_factor;
  return 1;
}
