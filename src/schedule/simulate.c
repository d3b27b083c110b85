/* The lists in time, on tracks, along the one sequence of all their actions: each rank computes one
   action after another; a receive waits until its message has arrived, sends cost the sender
   nothing, and messages of one rank to another go side by side or queue; sums over replicas begin
   when the last replica comes to them, one after the other on each rank, which computes meanwhile;
   an update waits for those of its rank; gathers of parameters follow it as other sums do, and the
   step is over when they are. */
#include "renga/private/schedule.h"
#include "scheduleimpl.h"
#include <math.h>

typedef struct {
  RengaSchedule schedule;
  const RengaScheduleClock *clock;
  double *now, *busy; /* [rank] */
  double *arrival;    /* [message][micro-batch] */
  double *begin;      /* [bucket][RENGA_SUM_KINDS] when the last replica came to it */
  double *summed;     /* [rank] when the last of its sums ends */
  double worked;      /* when the last rank is done with its own work */
  double *link;       /* [rank][rank] when the last message arrives; NULL: none queues */
  double *sent;       /* [message][micro-batch] when it left; NULL: nobody visits */
} Simulation;

static void Visit(const Simulation *simulation, int rank, const RengaAction *action, double begin,
                  double end)
{
  const RengaScheduleClock *clock = simulation->clock;
  if (clock->visit) clock->visit(clock->user, rank, action, begin, end);
}

static void SimulateWork(Simulation *simulation, const RengaSequenceRow *row, const double *seconds)
{
  const double begin = simulation->now[row->rank], length = seconds[row->stage];
  simulation->now[row->rank] = begin + length;
  simulation->busy[row->rank] += length;
  if (begin + length > simulation->worked) simulation->worked = begin + length;
  Visit(simulation, row->rank, row->action, begin, begin + length);
}

static void SimulateReceive(Simulation *simulation, const RengaSequenceRow *row)
{
  double *now = &simulation->now[row->rank];
  if (simulation->arrival[row->place] > *now) *now = simulation->arrival[row->place];
  if (simulation->sent)
    Visit(simulation, row->rank, row->action, simulation->sent[row->place], *now);
}

static int RankOfSeat(RengaSchedule schedule, int stage, int64_t microbatch)
{
  const int replica = RengaScheduleSharing_Private(schedule, stage)->owner[microbatch];
  return schedule->rank[schedule->first_seat[stage] + replica];
}

/* Returns when it arrives. */
static double Transfer(const Simulation *simulation, const RengaSequenceRow *row)
{
  RengaSchedule schedule = simulation->schedule;
  const RengaAction *action = row->action;
  const double *seconds = simulation->clock->durations.message;
  const double length = seconds ? seconds[action->message] : 0, now = simulation->now[row->rank];
  if (!simulation->link) return now + length;
  const int to = RankOfSeat(schedule, schedule->message[action->message].to, action->microbatch);
  double *link = &simulation->link[(int64_t)row->rank * schedule->ranks + to];
  *link = (*link > now ? *link : now) + length;
  return *link;
}

/* The ranks of a stage do one sum after the other; it begins when all are there and free. */
static void RunSum(Simulation *simulation, const RengaAction *last, double begin, double seconds)
{
  RengaSchedule schedule = simulation->schedule;
  const int stage = last->stage;
  const int *rank = schedule->rank + schedule->first_seat[stage];
  for (int r = 0; r < schedule->replicas[stage]; r++)
    if (simulation->summed[rank[r]] > begin) begin = simulation->summed[rank[r]];
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    RengaAction own = *last;
    own.replica = r;
    simulation->summed[rank[r]] = begin + seconds;
    Visit(simulation, rank[r], &own, begin, begin + seconds);
  }
}

/* All replicas sum the buckets of a stage in one order, as the proof has shown, and gather those
   that they gather by themselves. */
static void SimulateSum(Simulation *simulation, const RengaSequenceRow *row, const double *seconds)
{
  const double now = simulation->now[row->rank];
  double *begin = &simulation->begin[row->place];
  if (now > *begin) *begin = now;
  if (row->last) RunSum(simulation, row->action, *begin, seconds ? seconds[row->stage] : 0);
}

static void SimulateRow(Simulation *simulation, const RengaSequenceRow *row)
{
  const double *seconds = simulation->clock->durations.seconds[row->kind];
  double *now = &simulation->now[row->rank];
  switch (row->kind) {
  case RENGA_ACTION_RECEIVE:
    SimulateReceive(simulation, row);
    break;
  case RENGA_ACTION_SEND:
    if (simulation->sent) simulation->sent[row->place] = *now;
    simulation->arrival[row->place] = Transfer(simulation, row);
    break;
  case RENGA_ACTION_REDUCE:
  case RENGA_ACTION_GATHER:
  case RENGA_ACTION_GATHER_PARAMETERS:
    SimulateSum(simulation, row, seconds);
    break;
  case RENGA_ACTION_UPDATE:
    if (simulation->summed[row->rank] > *now) *now = simulation->summed[row->rank];
    if (seconds) SimulateWork(simulation, row, seconds);
    break;
  default:
    if (seconds) SimulateWork(simulation, row, seconds);
  }
}

/* All times in one block, zero; the caller frees it. */
static RengaErrorCode AllocateSimulation(Simulation *simulation, double **block)
{
  RengaSchedule schedule = simulation->schedule;
  const int64_t n = schedule->n_messages * schedule->microbatches, ranks = schedule->ranks;
  const bool queue = simulation->clock->durations.queue, visited = simulation->clock->visit;
  int64_t sums = 0;
  for (int s = 0; s < schedule->stages; s++) sums += RENGA_SUM_KINDS * schedule->buckets[s];
  const int64_t links = queue ? ranks * ranks : 0;
  RengaCall(RengaMalloc(3 * ranks + n + sums + links + (visited ? n : 0), block));
  simulation->now = *block;
  simulation->busy = simulation->now + ranks;
  simulation->summed = simulation->busy + ranks;
  simulation->arrival = simulation->summed + ranks;
  simulation->begin = simulation->arrival + n;
  if (queue) simulation->link = simulation->begin + sums;
  if (visited) simulation->sent = simulation->begin + sums + links;
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSimulation(RengaSchedule schedule, const RengaScheduleClock *clock,
                                    double *makespan, double *busy, double *worked)
{
  Simulation simulation = {.schedule = schedule, .clock = clock};
  double *block = NULL;
  RengaCall(RengaScheduleMakeSequence_Private(schedule));
  RengaCall(AllocateSimulation(&simulation, &block));
  for (int64_t i = 0; i < schedule->n_sequence; i++)
    SimulateRow(&simulation, &schedule->sequence[i]);
  *makespan = *busy = 0;
  for (int r = 0; r < schedule->ranks; r++) {
    *makespan = fmax(*makespan, fmax(simulation.now[r], simulation.summed[r]));
    *busy += simulation.busy[r];
  }
  *worked = simulation.worked;
  RengaFree(&block);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy)
{
  double worked;
  RengaCall(RunSimulation(schedule, clock, makespan, busy, &worked));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleSimulateSums_Private(RengaSchedule schedule,
                                                 const RengaScheduleDurations *durations,
                                                 double *work, double *makespan)
{
  const RengaScheduleClock clock = {.durations = *durations};
  double busy;
  RengaCall(RunSimulation(schedule, &clock, makespan, &busy, work));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulateWith - how long a step takes, from the time of each kind of action

   Not collective

   Input:
   . schedule - the schedule, set up
   . durations - seconds of each kind: of a micro-batch on one replica of the stage, of the sum of
     one bucket (where it is gathered by itself: of each half), of the update of a rank (that of the
     action's stage), of the gather of one bucket's parameters; seconds until a message arrives;
     whether messages of one rank to another queue

   Output:
   . makespan - seconds until the last rank is done with its list, and parameters are gathered
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp.

   Notes: sums run beside what ranks compute, one after the other on each rank, from when the last
   replica came to them; an update waits for those of its rank. Gathers of parameters run behind the
   update, as long as they take: what the next step hides of them is not taken off.

   See also: RengaScheduleSimulate()
@*/
RengaErrorCode RengaScheduleSimulateWith(RengaSchedule schedule,
                                         const RengaScheduleDurations *durations, double *makespan,
                                         double *bubble)
{
  double busy = 0;
  RengaCheckPointer(schedule);
  RengaCheckPointer(durations);
  RengaCheckPointer(makespan);
  RengaCheckPointer(bubble);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  const RengaScheduleClock clock = {.durations = *durations};
  RengaCall(RengaScheduleTime_Private(schedule, &clock, makespan, &busy));
  *bubble = *makespan > 0 ? 1 - busy / (schedule->ranks * *makespan) : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulate - how long the micro-batches of a step take

   Not collective

   Input:
   . schedule - the schedule, set up
   . forward - [stages] seconds of a micro-batch's forward on one replica of each stage
   . backward - [stages] seconds of one whole backward; not read where the schedule is forward only
   . message - [messages] seconds until a message arrives, or NULL: at once

   Output:
   . makespan - seconds until the last rank is done with its micro-batches
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Errors: backwards in two parts: RengaScheduleSimulateWith() takes the seconds of each.

   Notes: a stage that recomputes does a second forward before each backward. For equal stages and
   no cost of messages the bubble of gpipe and 1f1b is (p-1)/(m+p-1).

   See also: RengaScheduleSimulateWith()
@*/
RengaErrorCode RengaScheduleSimulate(RengaSchedule schedule, const double forward[],
                                     const double backward[], const double message[],
                                     double *makespan, double *bubble)
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(forward);
  RengaCheck(backward || schedule->forward_only, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "backward: null pointer");
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  for (int s = 0; s < schedule->stages; s++)
    RengaCheck(
        schedule->lag[s] == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
        "schedule %s does backwards in two parts: RengaScheduleSimulateWith takes the seconds of "
        "each",
        schedule->hdr.type_name);
  const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = forward,
                                                        [RENGA_ACTION_RECOMPUTE] = forward,
                                                        [RENGA_ACTION_BACKWARD] = backward},
                                            .message = message};
  RengaCall(RengaScheduleSimulateWith(schedule, &durations, makespan, bubble));
  return RENGA_SUCCESS;
}
