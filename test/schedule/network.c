/* Steps on shared links: a message alone, two over one card, over uplinks; sums; what disturbs a
   step. The seconds are worked out by hand. */
#include "../check.h"
#include "renga.h"
#include "renga/private/flows.h"
#include <math.h>

static RengaComm comm;

static bool Near(double a, double b)
{
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Two flows over a link of 10 and one of them over a link of 3, too: 3 and 7; then the first has 10
   but for its own 8. Two messages of one sender get twice the share. */
static RengaErrorCode TestFlows(void)
{
  RengaFlows flows;
  RengaFlowHop hop[3] = {{.link = 0, .load = 1}, {.link = 0, .load = 1}, {.link = 1, .load = 1}};
  RengaFlow one = {.left = 70, .most = 8, .weight = 1, .n_hops = 1, .hop = &hop[0]};
  RengaFlow other = {.left = 60, .most = 8, .weight = 1, .n_hops = 2, .hop = &hop[1]};
  RengaCall(RengaFlowsCreate_Private(2, &flows));
  flows.capacity[0] = 10;
  flows.capacity[1] = 3;
  RengaCall(RengaFlowsBegin_Private(&flows, &one, 0));
  Expect(Near(one.rate, 8));
  RengaCall(RengaFlowsBegin_Private(&flows, &other, 1));
  Expect(Near(one.rate, 7) && Near(other.rate, 3) && Near(one.left, 62) && flows.n_near == 2);
  RengaCall(RengaFlowsEnd_Private(&flows, &other, 3));
  Expect(Near(one.rate, 8) && Near(one.left, 48) && flows.n_near == 1);
  RengaCall(RengaFlowsEnd_Private(&flows, &one, 9));
  Expect(flows.n_near == 0 && !flows.first[0] && !flows.first[1]);
  flows.capacity[1] = 100;
  other.weight = 4;
  RengaCall(RengaFlowsBegin_Private(&flows, &one, 10));
  RengaCall(RengaFlowsBegin_Private(&flows, &other, 10));
  Expect(Near(one.rate, 2) && Near(other.rate, 8));
  RengaFlowsDestroy_Private(&flows);
  return RENGA_SUCCESS;
}

/* A sender of many messages has its own 1, another one its own 100, whatever their quotients are
   rounded to: a 49th 49 times is less than 1. */
static RengaErrorCode TestRounding(void)
{
  RengaFlowHop hop[2] = {{.link = 0, .load = 1}, {.link = 0, .load = 1}};
  for (int messages = 1; messages < 100; messages++) {
    RengaFlow quick = {.left = 1, .most = 100, .weight = 1, .n_hops = 1, .hop = &hop[0]};
    RengaFlow slow = {.left = 1, .most = 1, .weight = messages, .n_hops = 1, .hop = &hop[1]};
    RengaFlows flows;
    RengaCall(RengaFlowsCreate_Private(1, &flows));
    flows.capacity[0] = 1000;
    RengaCall(RengaFlowsBegin_Private(&flows, &quick, 0));
    RengaCall(RengaFlowsBegin_Private(&flows, &slow, 0));
    Expect(Near(slow.rate, 1) && Near(quick.rate, 100));
    RengaFlowsDestroy_Private(&flows);
  }
  return RENGA_SUCCESS;
}

/* Nodes of two devices with so many cards, two nodes under a switch; messages have no latency. */
static RengaErrorCode MakeMachine(int64_t cards, double uplink, RengaMachine *machine)
{
  const RengaMachineDevice device = {.name = "test",
                                     .memory = 1 << 30,
                                     .matrix_rate = 1e9,
                                     .vector_rate = 1e9,
                                     .memory_bandwidth = 1e30,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1};
  const RengaMachineLevel levels[] = {{.name = "node", .devices = 2, .bandwidth = 1e30},
                                      {.name = "switch", .devices = 4, .bandwidth = 100},
                                      {.name = "cluster", .devices = 8, .bandwidth = 100}};
  const RengaMachineNetwork network = {cards, 100, 2, uplink};
  RengaCall(RengaMachineCreate(comm, machine));
  RengaCall(RengaMachineSetDevice(*machine, &device));
  RengaCall(RengaMachineSetLevels(*machine, 3, levels));
  RengaCall(RengaMachineSetNetwork(*machine, &network));
  return RENGA_SUCCESS;
}

/* Stages of a second forward and two backward, on the given ranks, and a schedule with a message of
   so many bytes forward. */
typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaSchedule schedule;
  RengaMessage message;
} Step;

static RengaErrorCode MakeStep(int stages, int replicas, const int ranks[], double reduce,
                               int64_t bytes, Step *step)
{
  RengaPlanStage stage[2] = {{0}};
  RengaCall(RengaGraphCreate(comm, &step->graph));
  RengaCall(RengaGraphLoad(step->graph, "mlp:sizes=4-4-4-2"));
  RengaCall(RengaGraphSetUp(step->graph));
  const int nodes = RengaGraphGetNodeCount(step->graph);
  for (int s = 0; s < stages; s++) {
    const int first = s ? nodes / 2 : 0, last = s + 1 < stages ? nodes / 2 : nodes;
    stage[s] = (RengaPlanStage){.first = first,
                                .last = last,
                                .shape = RengaStageShapePlain(replicas),
                                .forward_seconds = 1,
                                .backward_seconds = 2,
                                .weight_seconds = 1,
                                .reduce_seconds = reduce};
  }
  RengaCall(RengaPlanCreate(comm, &step->plan));
  RengaCall(RengaPlanSetStages(step->plan, step->graph, stages, stage));
  RengaCall(RengaPlanSetBatch(step->plan, replicas, 1));
  RengaCall(RengaPlanSetRanks(step->plan, ranks));
  step->message = (RengaMessage){.value = "x", .from = 0, .to = 1, .bytes = bytes};
  RengaCall(RengaScheduleCreate(comm, &step->schedule));
  RengaCall(RengaScheduleSetType(step->schedule, "1f1b"));
  RengaCall(RengaScheduleSetPlan(step->schedule, step->plan, replicas, stages - 1, &step->message,
                                 false));
  RengaCall(RengaScheduleSetUp(step->schedule));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndStep(Step *step)
{
  RengaCall(RengaScheduleDestroy(&step->schedule));
  RengaCall(RengaPlanDestroy(&step->plan));
  return RengaGraphDestroy(&step->graph);
}

static RengaErrorCode Simulate(const Step *step, int64_t cards, double uplink,
                               const RengaScheduleDisturbance *disturbance, double *seconds)
{
  RengaMachine machine;
  RengaCall(MakeMachine(cards, uplink, &machine));
  RengaCall(
      RengaScheduleSimulateNetwork(step->schedule, step->plan, machine, disturbance, seconds));
  return RengaMachineDestroy(&machine);
}

/* Two replicas: the first stage computes for a second, sends 200 bytes, and the second computes for
   three; no gradient goes back. */
static RengaErrorCode TestMessages(void)
{
  static const int near[] = {0, 1, 2, 3}, far[] = {0, 1, 4, 5}, apart[] = {0, 2, 4, 6};
  RengaScheduleDisturbance disturbance = RengaScheduleDisturbanceNone();
  Step step;
  double seconds;
  RengaCall(MakeStep(2, 2, near, 0, 200, &step));
  RengaCall(Simulate(&step, 0, 0, NULL, &seconds)); /* each has 100 bytes/s */
  Expect(Near(seconds, 1 + 2 + 3));
  RengaCall(Simulate(&step, 2, 0, NULL, &seconds)); /* a card for each */
  Expect(Near(seconds, 1 + 2 + 3));
  RengaCall(Simulate(&step, 1, 0, NULL, &seconds)); /* one for both */
  Expect(Near(seconds, 1 + 4 + 3));
  RengaCall(Simulate(&step, 2, 50, NULL, &seconds)); /* they do not leave the switch */
  Expect(Near(seconds, 1 + 2 + 3));
  disturbance.card_lost = true;
  disturbance.lost_node = 1;
  RengaCall(Simulate(&step, 2, 0, &disturbance, &seconds));
  Expect(Near(seconds, 1 + 4 + 3));
  disturbance = RengaScheduleDisturbanceNone();
  disturbance.link_factor = 0.5;
  disturbance.link_node = 1;
  RengaCall(Simulate(&step, 0, 0, &disturbance, &seconds));
  Expect(Near(seconds, 1 + 4 + 3));
  RengaCall(Simulate(&step, 1, 0, &disturbance, &seconds));
  Expect(Near(seconds, 1 + 8 + 3));
  disturbance = RengaScheduleDisturbanceNone();
  disturbance.slow_factor = 2;
  RengaCall(Simulate(&step, 2, 0, &disturbance, &seconds)); /* the first backward ends last */
  Expect(Near(seconds, 2 + 2 + 3));
  RengaCall(EndStep(&step));
  RengaCall(MakeStep(2, 2, far, 0, 200, &step));
  RengaCall(Simulate(&step, 2, 50, NULL, &seconds)); /* both over one uplink */
  Expect(Near(seconds, 1 + 8 + 3));
  RengaCall(EndStep(&step));
  RengaCall(MakeStep(2, 2, apart, 0, 200, &step));
  RengaCall(Simulate(&step, 1, 0, NULL, &seconds));
  Expect(Near(seconds, 1 + 2 + 3));
  RengaCall(EndStep(&step));
  return RENGA_SUCCESS;
}

/* One stage: a sum of one bucket begins behind the backward. The plan says 5 seconds for replicas
   side by side, which take twice as long where two devices of a node share a card, and 15 for those
   that lie apart, as three times as much leaves a node. */
static RengaErrorCode TestSums(void)
{
  static const int ranks[] = {0, 2, 4, 6}, pairs[] = {0, 1, 2, 3};
  Step step;
  double seconds, again;
  RengaScheduleDisturbance disturbance = RengaScheduleDisturbanceNone();
  RengaCall(MakeStep(1, 4, ranks, 15, 0, &step));
  RengaCall(Simulate(&step, 0, 0, NULL, &seconds));
  Expect(Near(seconds, 3 + 15));
  RengaCall(Simulate(&step, 1, 0, NULL, &seconds));
  Expect(Near(seconds, 3 + 15));
  disturbance.jitter = 0.1;
  disturbance.seed = 7;
  RengaCall(Simulate(&step, 1, 0, &disturbance, &seconds));
  RengaCall(Simulate(&step, 1, 0, &disturbance, &again));
  Expect(seconds != 18 && seconds == again);
  disturbance.seed = 8;
  RengaCall(Simulate(&step, 1, 0, &disturbance, &again));
  Expect(seconds != again);
  RengaCall(EndStep(&step));
  RengaCall(MakeStep(1, 4, pairs, 5, 0, &step));
  RengaCall(Simulate(&step, 2, 0, NULL, &seconds));
  Expect(Near(seconds, 3 + 5));
  RengaCall(Simulate(&step, 1, 0, NULL, &seconds)); /* both devices of a node over one card */
  Expect(Near(seconds, 3 + 10));
  RengaCall(EndStep(&step));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestErrors(void)
{
  static const int ranks[] = {0, 1, 2, 3};
  RengaScheduleDisturbance disturbance = RengaScheduleDisturbanceNone();
  RengaMachineNetwork network = {.cards = 1};
  const RengaMachineNetwork *got;
  RengaMachine machine;
  Step step, other;
  double seconds = -1;
  RengaCall(MakeMachine(1, 0, &machine));
  RengaCall(RengaMachineGetNetwork(machine, &got));
  Expect(got->cards == 1 && got->card_bandwidth == 100 && got->switch_nodes == 2);
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaMachineSetNetwork(machine, &network) == RENGA_ERR_ARGUMENT);
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(MakeStep(2, 2, ranks, 0, 200, &step));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  disturbance.card_lost = true;
  Expect(RengaScheduleSimulateNetwork(step.schedule, step.plan, machine, &disturbance, &seconds) ==
             RENGA_ERR_ARGUMENT &&
         seconds == -1);
  Expect(RengaScheduleViewNetwork(step.schedule, step.plan, machine, NULL) == RENGA_ERR_ARGUMENT);
  disturbance = RengaScheduleDisturbanceNone();
  disturbance.slow_factor = 2;
  disturbance.slow_node = 2;
  Expect(RengaScheduleSimulateNetwork(step.schedule, step.plan, machine, &disturbance, &seconds) ==
         RENGA_ERR_ARGUMENT);
  disturbance.slow_node = 0;
  disturbance.slow_factor = HUGE_VAL;
  Expect(RengaScheduleSimulateNetwork(step.schedule, step.plan, machine, &disturbance, &seconds) ==
         RENGA_ERR_ARGUMENT);
  network = (RengaMachineNetwork){.cards = INT64_MAX / 8, .card_bandwidth = 100};
  RengaCall(RengaMachineSetNetwork(machine, &network));
  Expect(RengaScheduleSimulateNetwork(step.schedule, step.plan, machine, NULL, &seconds) ==
             RENGA_ERR_SUPPORT &&
         seconds == -1);
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(MakeStep(2, 1, ranks, 0, 200, &other));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaScheduleSimulateNetwork(step.schedule, other.plan, machine, NULL, &seconds) ==
         RENGA_ERR_ARGUMENT);
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(EndStep(&other));
  RengaCall(EndStep(&step));
  return RengaMachineDestroy(&machine);
}

static RengaErrorCode RunTest(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(TestFlows());
  RengaCall(TestRounding());
  RengaCall(TestMessages());
  RengaCall(TestSums());
  RengaCall(TestErrors());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
