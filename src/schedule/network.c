/* Links of a machine that messages and sums share: each node's network cards, in either direction,
   and what leads from each switch to the others. Devices of a node are dealt to its cards in turn.
   Of a machine whose cards are not described each device has what its level says to itself. */
#include "network.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"
#include <limits.h>
#include <math.h>

enum { WAYS = 2, AT_ONCE = 32 }; /* messages of a kind that a rank has under way */

static int64_t NodeOf(const StepNetwork *network, int64_t device)
{
  return RengaMachineNodeOf_Private(network->machine, device, NULL);
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
  int64_t of;
  const int64_t cards = network->network->cards,
                node = RengaMachineNodeOf_Private(network->machine, device, &of);
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
  RengaCheck(of->slow_factor >= 1 && isfinite(of->slow_factor) && of->link_factor > 0 &&
                 of->link_factor <= 1 && of->jitter >= 0 && isfinite(of->jitter),
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
  bool same = RengaPlanGetStageCount(plan) == schedule->stages;
  for (int s = 0; s < schedule->stages && same; s++)
    same = RengaPlanGetStage(plan, s)->shape.replicas == schedule->replicas[s];
  RengaCheck(same && RengaPlanGetStage(plan, 0)->forward_seconds > 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "the plan does not say how long its stages take, or is not the schedule's");
  for (int s = 0; s < schedule->stages; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    RengaCheck(stage->shape.shard < RENGA_SHARD_GRADIENTS || stage->shape.replicas == 1 ||
                   stage->exchange.parts > 0,
               MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "gradients or parameters of stage %d are sharded, and the plan does not say how "
               "long replicas exchange them",
               s);
  }
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
  const int64_t below = network->network->switch_nodes, cards = network->network->cards;
  const int64_t switches = HasUplinks(network) ? 1 + (network->nodes - 1) / below : 0;
  RengaCheck(cards <= (INT_MAX / WAYS - switches) / network->nodes, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "%lld nodes of %lld cards are too many links",
             (long long)network->nodes, (long long)cards);
  const int64_t links = WAYS * (network->nodes * cards + switches);
  RengaCall(RengaFlowsCreate_Private((int)links, &network->flows));
  FillCapacities(network);
  return RENGA_SUCCESS;
}

void RengaStepNetworkDestroy_Private(StepNetwork *network)
{
  RengaFlowsDestroy_Private(&network->flows);
}

static void AddHop(RengaFlow *flow, int link)
{
  flow->hop[flow->n_hops++] = (RengaFlowHop){.link = link, .load = 1};
}

/* The same where devices share links; number: [links] 1 + the hop over each, 0: none. */
static void AddLoad(RengaFlow *flow, int link, int number[])
{
  if (number[link]) {
    flow->hop[number[link] - 1].load += 1;
    return;
  }
  AddHop(flow, link);
  number[link] = flow->n_hops;
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
  AddHop(flow, CardOf(network, from, 0));
  AddHop(flow, CardOf(network, to, 1));
  if (!HasUplinks(network) || SwitchOf(network, from) == SwitchOf(network, to)) return;
  AddHop(flow, UplinkOf(network, from, 0));
  AddHop(flow, UplinkOf(network, to, 1));
}

/* The widest level that a replica's devices reach those of the others over, or of others of its
   group. */
static int LevelOfSum(const StepNetwork *network, int stage, int groups)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  const int each = shape->replicas / groups;
  int level = 0;
  for (int n = 0; n < RengaShapeGroup_Private(shape); n++)
    for (int r = 1; r < shape->replicas; r++) {
      const int own = RengaMachineLevelOf(
          network->machine, RengaStepNetworkDevice_Private(network, stage, r / each * each, n),
          RengaStepNetworkDevice_Private(network, stage, r, n));
      if (own > level) level = own;
    }
  return level;
}

static int64_t LesserOfTwo(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Each device over its card, and what goes to other switches over theirs, of replicas from `first`
   on. */
static RengaErrorCode LayOutSum(StepNetwork *network, int stage, int first, int replicas,
                                bool beyond, RengaFlow *flow)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  const int group = RengaShapeGroup_Private(shape);
  int *number;
  if (network->network->cards <= 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc((int64_t)2 * WAYS * group * replicas, &flow->hop));
  RengaCall(RengaMalloc(network->flows.n_links, &number));
  for (int r = first; r < first + replicas; r++)
    for (int n = 0; n < group; n++)
      for (int way = 0; way < WAYS; way++) {
        const int64_t device = RengaStepNetworkDevice_Private(network, stage, r, n);
        AddLoad(flow, CardOf(network, device, way), number);
        if (HasUplinks(network) && beyond) AddLoad(flow, UplinkOf(network, device, way), number);
      }
  RengaFree(&number);
  return RENGA_SUCCESS;
}

/* What is left of the slowest device's bandwidth, where it has it to itself. */
static double FactorOfSum(const StepNetwork *network, int stage)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  for (int r = 0; r < shape->replicas; r++)
    for (int n = 0; n < RengaShapeGroup_Private(shape); n++)
      if (IsImpaired(network,
                     NodeOf(network, RengaStepNetworkDevice_Private(network, stage, r, n))))
        return network->disturbance->link_factor;
  return 1;
}

/* What is known of a sum by its levels. */
typedef struct {
  double all, latency;     /* seconds; of these without any bytes */
  double between;          /* in which they pass between nodes */
  double bytes[SUM_FLOWS]; /* of a device to those of other nodes */
  double most;             /* bytes/s of a device, by the levels */
  double scale;            /* what the plan says of it, by the same of one piece of each node */
} LevelSum;

/* Over all replicas, or those of a group. */
static RengaErrorCode FindLevelSum(const StepNetwork *network, int stage, int groups, LevelSum *of)
{
  static const RengaSumPieces one = {1, 1};
  const RengaPlanStage *row = RengaPlanGetStage(network->plan, stage);
  const RengaMachine machine = network->machine;
  const int64_t each = RengaPlanStride_Private(network->plan, stage),
                replicas = row->shape.replicas / groups;
  const int64_t group = RengaShapeGroup_Private(&row->shape);
  const double bytes = (double)(row->parameters / group) * (double)RengaDataTypeSize(RENGA_FLOAT32);
  const int level = LevelOfSum(network, stage, groups);
  const RengaMachineLevel *levels;
  int count = 0;
  double over[SUM_FLOWS + 1] = {0};
  RengaCall(RengaMachineGetLevels(machine, &count, &levels));
  RengaMachineSumBytes_Private(machine, level, replicas, each, bytes, over);
  *of = (LevelSum){
      .all = RengaMachineSumSeconds_Private(machine, level, replicas, each, bytes, &one),
      .latency = RengaMachineSumSeconds_Private(machine, level, replicas, each, 0, &one)};
  const bool apart = network->network->cards > 0; /* else one after the other, as levels have it */
  for (int l = 1; l <= level; l++) {
    const RengaMachineLevel *link = &levels[l];
    of->bytes[apart ? l - 1 : 0] += over[l];
    of->between +=
        over[l] / (link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth);
  }
  if (apart)
    of->most = network->network->card_bandwidth;
  else if (of->between > 0)
    of->most = of->bytes[0] / of->between * FactorOfSum(network, stage);
  if (of->all > 0) of->scale = row->reduce_seconds / of->all;
  return RENGA_SUCCESS;
}

/* Messages of a device to those of the other nodes: of a flow as many as are of its bytes. */
static double MessagesOfSum(const StepNetwork *network, int stage, const LevelSum *of, int flow)
{
  const RengaStageShape *shape = &RengaPlanGetStage(network->plan, stage)->shape;
  const int64_t own = RengaMachineNodeReplicas_Private(
      network->machine, LevelOfSum(network, stage, 1), shape->replicas,
      RengaPlanStride_Private(network->plan, stage));
  const double peers = (double)((shape->replicas + own - 1) / own - 1);
  const double share = of->bytes[flow] / (of->bytes[0] + of->bytes[1]);
  return share * fmin(AT_ONCE, peers);
}

static RengaErrorCode BeginSumFlow(StepNetwork *network, int stage, const LevelSum *of, int number,
                                   StageSum *sum)
{
  RengaFlow *flow = &sum->flow[number];
  sum->bytes[number] = of->scale * of->bytes[number] / sum->buckets;
  if (sum->bytes[number] <= 0) return RENGA_SUCCESS;
  flow->weight = MessagesOfSum(network, stage, of, number);
  flow->most = of->most;
  const int replicas = RengaPlanGetStage(network->plan, stage)->shape.replicas;
  return LayOutSum(network, stage, 0, replicas, number == 1, flow);
}

RengaErrorCode RengaStepNetworkSum_Private(StepNetwork *network, int stage, StageSum *sum)
{
  const RengaPlanStage *row = RengaPlanGetStage(network->plan, stage);
  const RengaMachineLevel *levels;
  int count = 0;
  LevelSum of;
  RengaCall(RengaMachineGetLevels(network->machine, &count, &levels));
  const int64_t bytes = row->parameters * (int64_t)RengaDataTypeSize(RENGA_FLOAT32);
  const int64_t wanted = (bytes + RENGA_BUCKET_SIZE - 1) / RENGA_BUCKET_SIZE;
  *sum = (StageSum){.early = levels[count - 1].reduce_hidden <= 0};
  sum->buckets = sum->early && wanted > 1 ? (int)LesserOfTwo(wanted, RENGA_BUCKETS_ENOUGH) : 1;
  if (row->exchange.parts > 0) /* it is made with each micro-batch, but over groups */
    sum->buckets = row->exchange.groups > 1;
  if (row->shape.replicas == 1 || sum->buckets == 0) return RENGA_SUCCESS;
  RengaCall(FindLevelSum(network, stage, 1, &of));
  sum->within = of.scale * (of.latency + (of.all - of.latency - of.between) / sum->buckets);
  for (int f = 0; f < SUM_FLOWS; f++) RengaCall(BeginSumFlow(network, stage, &of, f, sum));
  return RENGA_SUCCESS;
}

void RengaStepNetworkFreeSum_Private(StageSum *sum)
{
  for (int f = 0; f < SUM_FLOWS; f++) RengaFree(&sum->flow[f].hop);
}

/* Gathers and reduce-scatters pass over the links that the whole sum does. */
RengaErrorCode RengaStepNetworkExchange_Private(StepNetwork *network, int stage, int replica,
                                                SeatExchange *exchange)
{
  LevelSum of;
  *exchange = (SeatExchange){.within = 1};
  const int groups = RengaPlanGetStage(network->plan, stage)->exchange.groups;
  RengaCall(FindLevelSum(network, stage, groups > 1 ? groups : 1, &of));
  if (of.all <= 0) return RENGA_SUCCESS;
  exchange->within = (of.all - of.between) / of.all;
  for (int f = 0; f < SUM_FLOWS; f++) {
    exchange->bytes[f] = of.bytes[f] / of.all;
    if (exchange->bytes[f] <= 0) continue;
    exchange->flow[f].weight = MessagesOfSum(network, stage, &of, f);
    exchange->flow[f].most = of.most;
    RengaCall(LayOutSum(network, stage, replica, 1, f == 1, &exchange->flow[f]));
  }
  return RENGA_SUCCESS;
}

void RengaStepNetworkFreeExchange_Private(SeatExchange *exchange)
{
  for (int f = 0; f < SUM_FLOWS; f++) RengaFree(&exchange->flow[f].hop);
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
