/* A planned step as a text, for simulators of networks: the links of the machine, what each rank
   does and gives whom, and the messages of each sum over replicas. */
#include "network.h"
#include "renga/private/plan.h"

typedef struct {
  RengaSchedule schedule;
  StepNetwork network;
  RengaStepSeconds seconds;
  StageSum *sum; /* [stages] */
  RengaViewer viewer;
} StepTrace;

static RengaErrorCode TraceMachine(const StepTrace *trace)
{
  const RengaMachineNetwork *network = trace->network.network;
  const RengaMachineLevel *levels;
  const int64_t *island;
  int count = 0;
  RengaCall(RengaMachineGetIslands(trace->network.machine, &count, &island));
  RengaCheck(count == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the text of a step is of nodes that have as many devices each, not of islands");
  RengaCall(RengaMachineGetLevels(trace->network.machine, &count, &levels));
  RengaCall(RengaViewerPrintf(trace->viewer, "renga-step 1\nnodes %lld devices %lld\n",
                              (long long)trace->network.nodes, (long long)trace->network.devices));
  RengaCall(RengaViewerPrintf(trace->viewer, "cards %lld bandwidth %.17g\n",
                              (long long)network->cards, network->card_bandwidth));
  RengaCall(RengaViewerPrintf(trace->viewer, "switch %lld uplink %.17g\n",
                              (long long)network->switch_nodes, network->uplink_bandwidth));
  for (int l = 0; l < count; l++)
    RengaCall(RengaViewerPrintf(trace->viewer, "level %lld latency %.17g bandwidth %.17g\n",
                                (long long)levels[l].devices, levels[l].latency,
                                levels[l].bandwidth));
  return RENGA_SUCCESS;
}

/* A stage's sum: how many buckets of so many bytes that a device gives those of other nodes. */
static RengaErrorCode TraceSum(const StepTrace *trace, int stage)
{
  const StageSum *sum = &trace->sum[stage];
  const RengaStageShape *shape = &RengaPlanGetStage(trace->network.plan, stage)->shape;
  RengaCall(RengaViewerPrintf(trace->viewer,
                              "sum %d replicas %d group %d buckets %d within %.17g bytes %.17g\n",
                              stage, shape->replicas, RengaShapeGroup_Private(shape), sum->buckets,
                              sum->within, sum->bytes[0] + sum->bytes[1]));
  for (int r = 0; r < shape->replicas; r++)
    for (int n = 0; n < RengaShapeGroup_Private(shape); n++)
      RengaCall(RengaViewerPrintf(
          trace->viewer, "%lld\n",
          (long long)RengaStepNetworkDevice_Private(&trace->network, stage, r, n)));
  return RENGA_SUCCESS;
}

static RengaErrorCode TraceWork(const StepTrace *trace, const RengaAction *action, int64_t *begun)
{
  const double seconds = trace->seconds.durations.seconds[action->kind][action->stage];
  const StageSum *sum = &trace->sum[action->stage];
  const bool backward =
      action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT;
  const int64_t all =
      RengaScheduleChunk_Private(trace->schedule, action->stage, action->replica)->count;
  if (!backward || ++*begun < all || trace->schedule->replicas[action->stage] == 1) {
    RengaCall(RengaViewerPrintf(trace->viewer, "work %.17g\n", seconds));
    return RENGA_SUCCESS;
  }
  for (int b = 0; b < sum->buckets; b++)
    RengaCall(RengaViewerPrintf(trace->viewer, "work %.17g\ncome %d %d\n", seconds / sum->buckets,
                                action->stage, b));
  return RENGA_SUCCESS;
}

static RengaErrorCode TraceMessage(const StepTrace *trace, const RengaAction *action)
{
  const RengaMessage *message = &trace->schedule->message[action->message];
  const long long place = action->message * trace->schedule->microbatches + action->microbatch;
  if (action->kind == RENGA_ACTION_SEND)
    RengaCall(RengaViewerPrintf(trace->viewer, "send %lld bytes %lld\n", place,
                                (long long)message->bytes));
  else
    RengaCall(RengaViewerPrintf(trace->viewer, "receive %lld\n", place));
  return RENGA_SUCCESS;
}

/* A replica without a micro-batch has its parts at once. */
static RengaErrorCode TraceIdle(const StepTrace *trace, int stage, int replica)
{
  const bool idle = RengaScheduleChunk_Private(trace->schedule, stage, replica)->count == 0;
  for (int b = 0; b < trace->sum[stage].buckets && idle && trace->schedule->replicas[stage] > 1;
       b++)
    RengaCall(RengaViewerPrintf(trace->viewer, "come %d %d\n", stage, b));
  return RENGA_SUCCESS;
}

/* The list of a rank that has one stage. */
static RengaErrorCode TraceRank(const StepTrace *trace, int stage, int replica)
{
  const RengaAction *action;
  int64_t count, begun = 0;
  RengaCall(RengaScheduleGetActions(trace->schedule, stage, replica, &count, &action));
  RengaCall(RengaViewerPrintf(
      trace->viewer, "rank %lld\n",
      (long long)RengaStepNetworkDevice_Private(&trace->network, stage, replica, 0)));
  RengaCall(TraceIdle(trace, stage, replica));
  for (int64_t i = 0; i < count; i++) {
    if (action[i].kind == RENGA_ACTION_SEND || action[i].kind == RENGA_ACTION_RECEIVE)
      RengaCall(TraceMessage(trace, &action[i]));
    if (action[i].kind == RENGA_ACTION_UPDATE && trace->schedule->replicas[stage] > 1)
      RengaCall(RengaViewerPrintf(trace->viewer, "await %d\n", stage));
    if (RengaActionIsWork_Private(action[i].kind)) RengaCall(TraceWork(trace, &action[i], &begun));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TraceStep(StepTrace *trace)
{
  RengaSchedule schedule = trace->schedule;
  RengaCall(RengaMalloc(schedule->stages, &trace->sum));
  RengaCall(RengaStepSecondsOfPlan_Private(schedule, trace->network.plan, &trace->seconds));
  RengaCall(TraceMachine(trace));
  for (int s = 0; s < schedule->stages; s++) {
    RengaCall(RengaStepNetworkSum_Private(&trace->network, s, &trace->sum[s]));
    if (schedule->replicas[s] > 1) RengaCall(TraceSum(trace, s));
  }
  for (int s = 0; s < schedule->stages; s++)
    for (int r = 0; r < schedule->replicas[s]; r++) RengaCall(TraceRank(trace, s, r));
  RengaCall(RengaViewerPrintf(trace->viewer, "end\n"));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleViewNetwork - a planned step as a text for simulators of networks

   Input:
   . schedule - the schedule of the plan, set up, a stage for each rank
   . plan - the plan, with the seconds of its stages
   . machine - the machine for which the plan was made
   . viewer - the viewer, of kind ascii

   Errors: those of RengaScheduleSimulateNetwork(); RENGA_ERR_SUPPORT for ranks with several stages,
   and for sharded gradients or parameters, which are exchanged with each micro-batch.

   Notes: doc/formats.md says what stands in the text.

   See also: RengaScheduleSimulateNetwork()
@*/
RengaErrorCode RengaScheduleViewNetwork(RengaSchedule schedule, RengaPlan plan,
                                        RengaMachine machine, RengaViewer viewer)
{
  const RengaScheduleDisturbance none = RengaScheduleDisturbanceNone();
  StepTrace trace = {.schedule = schedule, .viewer = viewer};
  RengaCheckPointers(schedule, plan, machine, viewer);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCall(RengaStepNetworkCheck_Private(schedule, plan));
  for (int s = 0; s < schedule->stages; s++)
    RengaCheck(RengaPlanGetStage(plan, s)->exchange.parts == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "gradients or parameters of stage %d are sharded: what replicas exchange with each "
               "micro-batch is not written for other simulators (-simulate_save); plans with "
               "-layout_zero 1 are",
               s);
  RengaCheck(!RengaScheduleSharesRanks_Private(schedule), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a step whose ranks have several stages is not written for other simulators: give "
             "-layout_chunks 1");
  RengaCall(RengaStepNetworkCreate_Private(plan, machine, &none, &trace.network));
  const RengaErrorCode code = TraceStep(&trace);
  for (int s = 0; trace.sum && s < schedule->stages; s++)
    RengaStepNetworkFreeSum_Private(&trace.sum[s]);
  RengaFree(&trace.sum);
  RengaFree(&trace.seconds.block);
  RengaStepNetworkDestroy_Private(&trace.network);
  RengaCall(code);
  return RENGA_SUCCESS;
}
