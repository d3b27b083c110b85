/* The lists in time, event by event, where messages and sums over replicas are flows over the links
   of a machine: what is under way at one time shares cards and uplinks. A rank computes one action
   after another and waits for messages that it receives; a sum of a bucket begins when the last
   replica has its gradients, within the last backward where the runtime does so, and runs beside
   what ranks compute, one at a time on each; an update waits for its rank's sums. Sharded gradients
   and parameters, which replicas exchange within an action, come in parts, one exchange at a time
   on each rank, as simulate.c has it: a part's parameters are asked for when the part before is
   begun, its gradients leave when it is computed, two parts at a time. */
#include "network.h"
#include "queue.h"
#include "rengamachine.h"

/* Of a rank: parameters that come, or gradients that leave. */
typedef struct {
  int seat;
  bool folds;
  double seconds;
} PartsExchange;

/* What a rank has under way of an action in parts, and exchanges of that and the last one. */
enum { EXCHANGES_MOST = 8 };
typedef struct {
  bool now; /* the action is not done */
  int stage, seat, parts, computed;
  bool computing, apart;
  double length, fetch, fold; /* seconds of a part */
  int fetched, asked,
      folded;       /* parts whose parameters have come; folds that were asked for, over */
  int before;       /* folds of the last action that are not over */
  int first, count; /* of exchanges that wait or are under way */
  bool exchanging;
  PartsExchange exchange[EXCHANGES_MOST]; /* a ring */
} RankParts;

typedef struct {
  int64_t next;     /* place in its list */
  int64_t wants;    /* 1 + the message that it waits for; 0: none */
  int sums;         /* that it has not ended */
  bool summing;     /* one is under way */
  bool waits, busy; /* for its sums; with an action */
  double pace;
  RankParts parts;
} NetworkRank;

typedef struct {
  RengaSchedule schedule;
  StepNetwork *network;
  RengaStepSeconds seconds;
  EventQueue queue;
  double now;
  NetworkRank *rank;  /* [ranks] */
  int64_t *backwards; /* [seats] of the chunk, begun */
  bool *arrived;      /* [message][micro-batch] */
  StageSum *sum;      /* [stages] */
  SeatExchange *seat; /* [seats] */
  int *come;          /* [stages][RENGA_BUCKETS_ENOUGH] replicas */
  int *ready;         /* [n_ready] of come that all replicas came to, in this order */
  int n_ready;
  int n_transfers, n_free;
  NetworkMessage **transfer; /* [n_transfers] */
  int *vacant;               /* [n_free] of them */
} NetworkRun;

static RengaErrorCode AddEvent(NetworkRun *run, double at, EventKind kind, int64_t who,
                               int64_t version)
{
  return RengaEventAdd_Private(&run->queue,
                               (Event){.at = at, .kind = kind, .who = who, .version = version});
}

/* Messages are numbered from 0, flows of sums and of seats below that: -1 - (SUM_FLOWS number +
   flow), stages before seats. */
static RengaFlow *FlowOf(const NetworkRun *run, int64_t who)
{
  const int64_t number = (-1 - who) / SUM_FLOWS, flow = (-1 - who) % SUM_FLOWS;
  if (who >= 0) return &run->transfer[who]->flow;
  if (number < run->schedule->stages) return &run->sum[number].flow[flow];
  return &run->seat[number - run->schedule->stages].flow[flow];
}

/* When those arrive whose rates have changed. */
static RengaErrorCode AddArrivals(NetworkRun *run)
{
  const RengaFlows *flows = &run->network->flows;
  for (int n = 0; n < flows->n_near; n++) {
    const RengaFlow *flow = flows->near[n];
    RengaCall(AddEvent(run, run->now + flow->left / flow->rate, EVENT_ARRIVE, flow->number,
                       flow->version));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTransfer(NetworkRun *run, int *number)
{
  if (run->n_free > 0) {
    *number = run->vacant[--run->n_free];
    return RENGA_SUCCESS;
  }
  const int n = run->n_transfers;
  if ((n & (n - 1)) == 0) {
    RengaCall(RengaRealloc(2 * n + 1, &run->transfer));
    RengaCall(RengaRealloc(2 * n + 1, &run->vacant));
  }
  RengaCall(RengaMalloc(1, &run->transfer[n]));
  run->transfer[n]->flow.number = n;
  *number = run->n_transfers++;
  return RENGA_SUCCESS;
}

static int SeatOfMicrobatch(const NetworkRun *run, int stage, int64_t microbatch)
{
  return run->schedule->first_seat[stage] +
         RengaScheduleSharing_Private(run->schedule, stage)->owner[microbatch];
}

static int64_t DeviceOfSeat(const NetworkRun *run, int stage, int64_t microbatch)
{
  const int replica = SeatOfMicrobatch(run, stage, microbatch) - run->schedule->first_seat[stage];
  return RengaPlanGetRank(run->network->plan, stage, replica);
}

static RengaErrorCode SendMessage(NetworkRun *run, const RengaAction *action)
{
  const RengaMessage *message = &run->schedule->message[action->message];
  double latency;
  int number;
  RengaCall(TakeTransfer(run, &number));
  NetworkMessage *transfer = run->transfer[number];
  RengaStepNetworkRoute_Private(run->network, DeviceOfSeat(run, message->from, action->microbatch),
                                DeviceOfSeat(run, message->to, action->microbatch), transfer,
                                &latency);
  transfer->flow.left = (double)message->bytes;
  transfer->place = action->message * run->schedule->microbatches + action->microbatch;
  return AddEvent(run, run->now + latency, EVENT_LEAVE, number, 0);
}

static const int *RanksOfSum(const NetworkRun *run, int stage)
{
  return run->schedule->rank + run->schedule->first_seat[stage];
}

static bool MaySum(const NetworkRun *run, int stage)
{
  const int *rank = RanksOfSum(run, stage);
  for (int r = 0; r < run->schedule->replicas[stage]; r++)
    if (run->rank[rank[r]].summing || run->rank[rank[r]].parts.count > 0) return false;
  return true;
}

/* Of those that are ready the first of each rank. */
static RengaErrorCode BeginSums(NetworkRun *run)
{
  int left = 0;
  for (int i = 0; i < run->n_ready; i++) {
    const int stage = run->ready[i] / RENGA_BUCKETS_ENOUGH;
    if (!MaySum(run, stage)) {
      run->ready[left++] = run->ready[i];
      continue;
    }
    for (int r = 0; r < run->schedule->replicas[stage]; r++)
      run->rank[RanksOfSum(run, stage)[r]].summing = true;
    run->sum[stage].under_way = SUM_FLOWS;
    for (int f = 0; f < SUM_FLOWS; f++) {
      run->sum[stage].flow[f].left = run->sum[stage].bytes[f];
      RengaCall(AddEvent(run, run->now + run->sum[stage].within, EVENT_LEAVE,
                         run->sum[stage].flow[f].number, 0));
    }
  }
  run->n_ready = left;
  return RENGA_SUCCESS;
}

static RengaErrorCode ComeToBucket(NetworkRun *run, int place)
{
  const int stage = place / RENGA_BUCKETS_ENOUGH;
  if (++run->come[place] < run->schedule->replicas[stage]) return RENGA_SUCCESS;
  run->ready[run->n_ready++] = place;
  return BeginSums(run);
}

/* Buckets of a replica, whose last backward takes so long. */
static RengaErrorCode AddComing(NetworkRun *run, int stage, double length)
{
  const StageSum *sum = &run->sum[stage];
  for (int b = 0; b < sum->buckets && run->schedule->replicas[stage] > 1; b++) {
    const double part = sum->early ? (b + 1.0) / sum->buckets : 1;
    RengaCall(AddEvent(run, run->now + part * length, EVENT_COME,
                       (int64_t)stage * RENGA_BUCKETS_ENOUGH + b, 0));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Advance(NetworkRun *run, int rank);

/* The next exchange of a rank, one at a time. */
static RengaErrorCode BeginNextParts(NetworkRun *run, int rank)
{
  RankParts *parts = &run->rank[rank].parts;
  if (parts->exchanging || parts->count == 0 || run->rank[rank].summing) return RENGA_SUCCESS;
  const PartsExchange *next = &parts->exchange[parts->first];
  SeatExchange *seat = &run->seat[next->seat];
  parts->exchanging = true;
  seat->under_way = SUM_FLOWS;
  for (int f = 0; f < SUM_FLOWS; f++) {
    seat->flow[f].left = seat->bytes[f] * next->seconds;
    RengaCall(AddEvent(run, run->now + seat->within * next->seconds, EVENT_LEAVE,
                       seat->flow[f].number, 0));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AskExchange(NetworkRun *run, int rank, bool folds)
{
  RankParts *parts = &run->rank[rank].parts;
  RengaCheck(parts->count < EXCHANGES_MOST, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "rank %d has %d exchanges under way", rank, parts->count);
  parts->exchange[(parts->first + parts->count++) % EXCHANGES_MOST] =
      (PartsExchange){parts->seat, folds, folds ? parts->fold : parts->fetch};
  parts->asked += folds;
  return BeginNextParts(run, rank);
}

/* As far as the action gets: a part waits for its parameters, and for the gradients of the part
   before the last one. */
static RengaErrorCode GoOnInParts(NetworkRun *run, int rank)
{
  NetworkRank *own = &run->rank[rank];
  RankParts *parts = &own->parts;
  if (!parts->now || parts->computing) return RENGA_SUCCESS;
  if (parts->fold > 0 && parts->asked < parts->computed) {
    if (parts->asked - parts->folded >= 2) return RENGA_SUCCESS;
    RengaCall(AskExchange(run, rank, true));
  }
  if (parts->computed == parts->parts) {
    if (!parts->apart && parts->folded < parts->asked) return RENGA_SUCCESS;
    parts->now = own->busy = false;
    return Advance(run, rank);
  }
  if (parts->fetch > 0 && parts->fetched <= parts->computed) return RENGA_SUCCESS;
  parts->computing = true;
  if (parts->fetch > 0 && parts->computed + 1 < parts->parts)
    RengaCall(AskExchange(run, rank, false));
  return AddEvent(run, run->now + parts->length, EVENT_DONE, rank, 0);
}

static RengaErrorCode EndParts(NetworkRun *run, int seat_number)
{
  SeatExchange *seat = &run->seat[seat_number];
  if (--seat->under_way > 0) return RENGA_SUCCESS;
  const int rank = run->schedule->rank[seat_number];
  NetworkRank *own = &run->rank[rank];
  RankParts *parts = &own->parts;
  const bool folds = parts->exchange[parts->first].folds;
  parts->first = (parts->first + 1) % EXCHANGES_MOST;
  parts->count--;
  parts->exchanging = false;
  if (folds && parts->before > 0)
    parts->before--;
  else if (folds)
    parts->folded++;
  else
    parts->fetched++;
  RengaCall(BeginNextParts(run, rank));
  RengaCall(GoOnInParts(run, rank));
  if (parts->count == 0 && own->waits && own->sums == 0) {
    own->waits = false;
    RengaCall(Advance(run, rank));
  }
  return parts->count == 0 ? BeginSums(run) : RENGA_SUCCESS;
}

/* What the plan says of an action, in seconds; first: of the first micro-batch of a chunk. */
static double FetchOf(const RengaPlanExchange *exchange, RengaActionKind kind, bool first)
{
  switch (kind) {
  case RENGA_ACTION_FORWARD:
    return first ? exchange->first : exchange->forward;
  case RENGA_ACTION_RECOMPUTE:
    return exchange->again;
  case RENGA_ACTION_BACKWARD:
  case RENGA_ACTION_BACKWARD_INPUT:
    return exchange->backward;
  case RENGA_ACTION_BACKWARD_WEIGHT:
    return exchange->weight;
  default:
    return 0;
  }
}

/* false: the action has no exchanges. */
static bool HasParts(NetworkRun *run, int rank, const RengaAction *action, double length)
{
  const RengaPlanExchange *exchange =
      &RengaPlanGetStage(run->network->plan, action->stage)->exchange;
  const RengaScheduleChunk *chunk =
      RengaScheduleChunk_Private(run->schedule, action->stage, action->replica);
  const bool folds =
      action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT;
  if (exchange->parts == 0 || action->kind == RENGA_ACTION_UPDATE) return false;
  const double fetch = FetchOf(exchange, action->kind, chunk->order[0] == action->microbatch);
  const double fold = folds ? exchange->fold : 0;
  if (fetch + fold <= 0) return false;
  RankParts *parts = &run->rank[rank].parts;
  const int count = exchange->apart ? exchange->parts : 1;
  parts->before += parts->asked - parts->folded;
  parts->now = true;
  parts->stage = action->stage;
  parts->seat = run->schedule->first_seat[action->stage] + action->replica;
  parts->parts = count;
  parts->computed = parts->fetched = parts->asked = parts->folded = 0;
  parts->apart = exchange->apart;
  parts->length = length / count;
  parts->fetch = fetch / count;
  parts->fold = fold / count;
  return true;
}

static double JitterOf(const NetworkRun *run, int rank)
{
  const RengaScheduleDisturbance *of = run->network->disturbance;
  float normal = 0;
  if (of->jitter <= 0) return 1;
  RengaRandomNormal(of->seed, (uint64_t)rank, (uint64_t)run->rank[rank].next, 1, &normal);
  const double factor = 1 + of->jitter * (double)normal;
  return factor > 0 ? factor : 0;
}

static RengaErrorCode BeginWork(NetworkRun *run, int rank, const RengaAction *action)
{
  const double *seconds = run->seconds.durations.seconds[action->kind];
  const double length = seconds[action->stage] * run->rank[rank].pace * JitterOf(run, rank);
  const int seat = run->schedule->first_seat[action->stage] + action->replica;
  if (action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT) {
    const RengaScheduleChunk *chunk =
        RengaScheduleChunk_Private(run->schedule, action->stage, action->replica);
    if (++run->backwards[seat] == chunk->count) RengaCall(AddComing(run, action->stage, length));
  }
  run->rank[rank].busy = true;
  if (!HasParts(run, rank, action, length))
    return AddEvent(run, run->now + length, EVENT_DONE, rank, 0);
  if (run->rank[rank].parts.fetch > 0) RengaCall(AskExchange(run, rank, false));
  return GoOnInParts(run, rank);
}

/* Returns false where the rank has to wait before the action. */
static bool NeedNotWait(NetworkRun *run, int rank, const RengaAction *action)
{
  NetworkRank *own = &run->rank[rank];
  const int64_t place = action->message * run->schedule->microbatches + action->microbatch;
  if (action->kind == RENGA_ACTION_RECEIVE && !run->arrived[place]) own->wants = place + 1;
  if (action->kind == RENGA_ACTION_UPDATE && (own->sums > 0 || own->parts.count > 0))
    own->waits = true;
  return own->wants == 0 && !own->waits;
}

/* As far as the rank gets without waiting and without time. */
static RengaErrorCode Advance(NetworkRun *run, int rank)
{
  const RengaActionList list = &run->schedule->list[rank];
  NetworkRank *own = &run->rank[rank];
  while (!own->busy && own->next < list->n_actions) {
    const RengaAction *action = &list->action[own->next];
    if (!NeedNotWait(run, rank, action)) return RENGA_SUCCESS;
    if (action->kind == RENGA_ACTION_SEND) RengaCall(SendMessage(run, action));
    if (RengaActionIsWork_Private(action->kind)) RengaCall(BeginWork(run, rank, action));
    own->next++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EndMessage(NetworkRun *run, int number)
{
  const int64_t place = run->transfer[number]->place;
  const int64_t microbatches = run->schedule->microbatches;
  const int to = run->schedule->message[place / microbatches].to;
  const int rank = run->schedule->rank[SeatOfMicrobatch(run, to, place % microbatches)];
  run->arrived[place] = true;
  run->vacant[run->n_free++] = number;
  if (run->rank[rank].wants != place + 1) return RENGA_SUCCESS;
  run->rank[rank].wants = 0;
  return Advance(run, rank);
}

static RengaErrorCode EndSumFlow(NetworkRun *run, int stage)
{
  if (--run->sum[stage].under_way > 0) return RENGA_SUCCESS;
  for (int r = 0; r < run->schedule->replicas[stage]; r++) {
    NetworkRank *rank = &run->rank[RanksOfSum(run, stage)[r]];
    rank->summing = false;
    rank->sums--;
    RengaCall(BeginNextParts(run, RanksOfSum(run, stage)[r]));
    if (rank->sums > 0 || rank->parts.count > 0 || !rank->waits) continue;
    rank->waits = false;
    RengaCall(Advance(run, RanksOfSum(run, stage)[r]));
  }
  return BeginSums(run);
}

static RengaErrorCode EndTransfer(NetworkRun *run, int64_t who)
{
  const int number = (int)((-1 - who) / SUM_FLOWS), stages = run->schedule->stages;
  if (who >= 0) return EndMessage(run, (int)who);
  return number < stages ? EndSumFlow(run, number) : EndParts(run, number - stages);
}

static RengaErrorCode Leave(NetworkRun *run, int64_t who)
{
  RengaFlow *flow = FlowOf(run, who);
  if (flow->left <= 0) return EndTransfer(run, who);
  RengaCall(RengaFlowsBegin_Private(&run->network->flows, flow, run->now));
  return AddArrivals(run);
}

static RengaErrorCode Arrive(NetworkRun *run, const Event *event)
{
  RengaFlow *flow = FlowOf(run, event->who);
  RengaCall(RengaFlowsEnd_Private(&run->network->flows, flow, run->now));
  RengaCall(AddArrivals(run));
  return EndTransfer(run, event->who);
}

static RengaErrorCode EndWork(NetworkRun *run, int rank)
{
  NetworkRank *own = &run->rank[rank];
  if (own->parts.now) {
    own->parts.computing = false;
    own->parts.computed++;
    return GoOnInParts(run, rank);
  }
  own->busy = false;
  return Advance(run, rank);
}

static RengaErrorCode Happen(NetworkRun *run, const Event *event)
{
  if (event->kind == EVENT_ARRIVE && FlowOf(run, event->who)->version != event->version)
    return RENGA_SUCCESS; /* its rate has changed since */
  run->now = event->at;
  switch (event->kind) {
  case EVENT_DONE:
    return EndWork(run, (int)event->who);
  case EVENT_COME:
    return ComeToBucket(run, (int)event->who);
  case EVENT_LEAVE:
    return Leave(run, event->who);
  default:
    return Arrive(run, event);
  }
}

static RengaErrorCode BeginSeat(NetworkRun *run, int stage, int replica)
{
  const int number = run->schedule->first_seat[stage] + replica;
  SeatExchange *seat = &run->seat[number];
  if (RengaPlanGetStage(run->network->plan, stage)->exchange.parts == 0) return RENGA_SUCCESS;
  RengaCall(RengaStepNetworkExchange_Private(run->network, stage, replica, seat));
  for (int f = 0; f < SUM_FLOWS; f++)
    seat->flow[f].number = -1 - (SUM_FLOWS * (run->schedule->stages + number) + f);
  return RENGA_SUCCESS;
}

/* The ranks of a stage, and its sums; a replica without a micro-batch comes to them at once. */
static RengaErrorCode BeginStage(NetworkRun *run, int stage)
{
  RengaSchedule schedule = run->schedule;
  RengaCall(RengaStepNetworkSum_Private(run->network, stage, &run->sum[stage]));
  for (int f = 0; f < SUM_FLOWS; f++) run->sum[stage].flow[f].number = -1 - (SUM_FLOWS * stage + f);
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    NetworkRank *rank = &run->rank[RanksOfSum(run, stage)[r]];
    const double pace = RengaStepNetworkPace_Private(run->network, stage, r);
    if (pace > rank->pace) rank->pace = pace;
    if (schedule->replicas[stage] == 1) continue;
    RengaCall(BeginSeat(run, stage, r));
    rank->sums += run->sum[stage].buckets;
    if (RengaScheduleChunk_Private(schedule, stage, r)->count == 0)
      RengaCall(AddComing(run, stage, 0));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginRun(NetworkRun *run)
{
  RengaSchedule schedule = run->schedule;
  const int places = schedule->stages * RENGA_BUCKETS_ENOUGH;
  RengaCall(RengaMalloc(schedule->ranks, &run->rank));
  RengaCall(RengaMalloc(schedule->seats, &run->backwards));
  RengaCall(RengaMalloc(schedule->n_messages * schedule->microbatches + 1, &run->arrived));
  RengaCall(RengaMalloc(schedule->stages, &run->sum));
  RengaCall(RengaMalloc(schedule->seats, &run->seat));
  RengaCall(RengaMalloc(2 * places, &run->come));
  run->ready = run->come + places;
  RengaCall(RengaStepSecondsOfPlan_Private(schedule, run->network->plan, &run->seconds));
  for (int s = 0; s < schedule->stages; s++) RengaCall(BeginStage(run, s));
  for (int r = 0; r < schedule->ranks; r++) RengaCall(Advance(run, r));
  return RENGA_SUCCESS;
}

/* Lists that were proved come to their ends: where one does not the step would look shorter. */
static RengaErrorCode CheckListsEnded(const NetworkRun *run)
{
  for (int r = 0; r < run->schedule->ranks; r++)
    RengaCheck(run->rank[r].next == run->schedule->list[r].n_actions && !run->rank[r].busy,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "rank %d of the simulated step waits for ever at action %lld", r,
               (long long)run->rank[r].next);
  return RENGA_SUCCESS;
}

static void EndRun(NetworkRun *run)
{
  for (int s = 0; run->sum && s < run->schedule->stages; s++)
    RengaStepNetworkFreeSum_Private(&run->sum[s]);
  for (int n = 0; run->seat && n < run->schedule->seats; n++)
    RengaStepNetworkFreeExchange_Private(&run->seat[n]);
  RengaFree(&run->seat);
  for (int n = 0; n < run->n_transfers; n++) RengaFree(&run->transfer[n]);
  RengaFree(&run->transfer);
  RengaFree(&run->vacant);
  RengaFree(&run->queue.event);
  RengaFree(&run->seconds.block);
  RengaFree(&run->rank);
  RengaFree(&run->backwards);
  RengaFree(&run->arrived);
  RengaFree(&run->sum);
  RengaFree(&run->come);
}

/*@
   RengaScheduleDisturbanceNone - a step that nothing disturbs

   See also: RengaScheduleSimulateNetwork()
@*/
RengaScheduleDisturbance RengaScheduleDisturbanceNone(void)
{
  return (RengaScheduleDisturbance){.slow_factor = 1, .link_factor = 1};
}

/*@
   RengaScheduleSimulateNetwork - how long a step takes where messages and sums share links

   Input:
   . schedule - the schedule of the plan, set up
   . plan - the plan, with the seconds of its stages
   . machine - the machine for which the plan was made
   . disturbance - slower nodes and links, jitter, or NULL: none

   Output:
   . step - seconds, at least 0, until the last rank is done

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_ARGUMENT for a plan that does not
   know its seconds, and for factors out of their ranges, nodes that the plan does not have, and a
   lost card of a node that has only one.

   Notes: what RengaMachineGetNetwork() says is shared, max-min fair by messages: network cards, and
   uplinks of switches. A sum is one flow of all its devices, within nodes first; its buckets begin
   within the last backward where the machine says of no share that it is hidden. On a machine
   without cards each device has the bandwidth of its level to itself. Random numbers are a function
   of seed, rank and place in the list.

   See also: RengaScheduleSimulateWith(), RengaMachineSetNetwork()
@*/
RengaErrorCode RengaScheduleSimulateNetwork(RengaSchedule schedule, RengaPlan plan,
                                            RengaMachine machine,
                                            const RengaScheduleDisturbance *disturbance,
                                            double *step)
{
  const RengaScheduleDisturbance none = RengaScheduleDisturbanceNone();
  StepNetwork network;
  RengaCheckPointers(schedule, plan, machine, step);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCall(RengaStepNetworkCheck_Private(schedule, plan));
  RengaCall(
      RengaStepNetworkCreate_Private(plan, machine, disturbance ? disturbance : &none, &network));
  NetworkRun run = {.schedule = schedule, .network = &network};
  RengaErrorCode code = BeginRun(&run);
  while (!code && run.queue.count > 0) {
    const Event event = RengaEventTake_Private(&run.queue);
    code = Happen(&run, &event);
  }
  if (!code) code = CheckListsEnded(&run);
  EndRun(&run);
  RengaStepNetworkDestroy_Private(&network);
  RengaCall(code);
  *step = run.now;
  return RENGA_SUCCESS;
}
