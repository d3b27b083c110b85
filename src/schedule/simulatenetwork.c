/* The lists in time, event by event, where messages and sums over replicas are flows over the links
   of a machine: what is under way at one time shares cards and uplinks. A rank computes one action
   after another and waits for messages that it receives; a sum of a bucket begins when the last
   replica has its gradients, within the last backward where the runtime does so, and runs beside
   what ranks compute, one at a time on each; an update waits for its rank's sums. Exchanges
   of replicas that share gradients or parameters, within actions, are not simulated. */
#include "network.h"
#include "queue.h"
#include "rengamachine.h"

typedef struct {
  int64_t next;     /* place in its list */
  int64_t wants;    /* 1 + the message that it waits for; 0: none */
  int sums;         /* that it has not ended */
  bool summing;     /* one is under way */
  bool waits, busy; /* for its sums; with an action */
  double pace;
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

/* Messages are numbered from 0, flows of sums below that: -1 - (SUM_FLOWS stage + flow). */
static RengaFlow *FlowOf(const NetworkRun *run, int64_t who)
{
  const int64_t of = -1 - who;
  return who < 0 ? &run->sum[of / SUM_FLOWS].flow[of % SUM_FLOWS] : &run->transfer[who]->flow;
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
    if (run->rank[rank[r]].summing) return false;
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
  return AddEvent(run, run->now + length, EVENT_DONE, rank, 0);
}

/* Returns false where the rank has to wait before the action. */
static bool NeedNotWait(NetworkRun *run, int rank, const RengaAction *action)
{
  NetworkRank *own = &run->rank[rank];
  const int64_t place = action->message * run->schedule->microbatches + action->microbatch;
  if (action->kind == RENGA_ACTION_RECEIVE && !run->arrived[place]) own->wants = place + 1;
  if (action->kind == RENGA_ACTION_UPDATE && own->sums > 0) own->waits = true;
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
    if (rank->sums > 0 || !rank->waits) continue;
    rank->waits = false;
    RengaCall(Advance(run, RanksOfSum(run, stage)[r]));
  }
  return BeginSums(run);
}

static RengaErrorCode EndTransfer(NetworkRun *run, int64_t who)
{
  return who < 0 ? EndSumFlow(run, (int)((-1 - who) / SUM_FLOWS)) : EndMessage(run, (int)who);
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

static RengaErrorCode Happen(NetworkRun *run, const Event *event)
{
  if (event->kind == EVENT_ARRIVE && FlowOf(run, event->who)->version != event->version)
    return RENGA_SUCCESS; /* its rate has changed since */
  run->now = event->at;
  switch (event->kind) {
  case EVENT_DONE:
    run->rank[event->who].busy = false;
    return Advance(run, (int)event->who);
  case EVENT_COME:
    return ComeToBucket(run, (int)event->who);
  case EVENT_LEAVE:
    return Leave(run, event->who);
  default:
    return Arrive(run, event);
  }
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
    RengaCheck(run->rank[r].next == run->schedule->list[r].n_actions, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "rank %d of the simulated step waits for ever at action %lld", r,
               (long long)run->rank[r].next);
  return RENGA_SUCCESS;
}

static void EndRun(NetworkRun *run)
{
  for (int s = 0; run->sum && s < run->schedule->stages; s++)
    RengaStepNetworkFreeSum_Private(&run->sum[s]);
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

   Not collective

   Errors: none.

   See also: RengaScheduleSimulateNetwork()
@*/
RengaScheduleDisturbance RengaScheduleDisturbanceNone(void)
{
  return (RengaScheduleDisturbance){.slow_factor = 1, .link_factor = 1};
}

/*@
   RengaScheduleSimulateNetwork - how long a step takes where messages and sums share links

   Not collective

   Input:
   . schedule - the schedule of the plan, set up
   . plan - the plan, with the seconds of its stages
   . machine - the machine for which the plan was made
   . disturbance - slower nodes and links, jitter, or NULL: none

   Output:
   . step - seconds, at least 0, until the last rank is done

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_ARGUMENT for a plan that does not
   know its seconds, and for factors out of their ranges, nodes that the plan does not have, and a
   lost card of a node that has only one; RENGA_ERR_SUPPORT for sharded gradients or parameters,
   which are exchanged with each micro-batch.

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
