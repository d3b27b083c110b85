/* The lists in time, on tracks: each rank computes one action after another; a receive waits
   until its message has arrived, sends cost the sender nothing, and messages of one rank to
   another go side by side or queue; sums over replicas begin when the last replica comes to them,
   one after the other on each rank, which computes meanwhile; an update waits for those of its
   rank. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  const RengaScheduleClock *clock;
  int64_t *next;      /* [rank] place in its list */
  double *now, *busy; /* [rank] */
  double *arrival;    /* [message][micro-batch], -1: not sent */
  double *link;       /* [rank][rank] when the last message arrives; NULL: none queues */
  int *first_bucket;  /* [stage + 1] */
  double *begin;      /* [bucket][2] when the last replica came to its sum, and to its gather */
  int *summing;       /* [bucket][2] replicas that came to it */
  double *summed;     /* [rank] when the last of its sums ends */
  int *open;          /* [stage] sums that some replica came to, and not all */
} Simulation;

static void SimulateWork(Simulation *simulation, int rank, const RengaAction *action)
{
  const RengaScheduleClock *clock = simulation->clock;
  const double *seconds = clock->durations.seconds[action->kind];
  if (!seconds) return;
  const double begin = simulation->now[rank], end = begin + seconds[action->stage];
  simulation->now[rank] = end;
  simulation->busy[rank] += seconds[action->stage];
  if (clock->visit) clock->visit(clock->user, rank, action, begin, end);
}

static int RankOfSeat(RengaSchedule schedule, int stage, int64_t microbatch)
{
  const int replica = RengaScheduleSharing_Private(schedule, stage)->owner[microbatch];
  return schedule->rank[schedule->first_seat[stage] + replica];
}

/* Returns when it arrives. */
static double Transfer(Simulation *simulation, int rank, const RengaAction *action)
{
  RengaSchedule schedule = simulation->schedule;
  const double *seconds = simulation->clock->durations.message;
  const double length = seconds ? seconds[action->message] : 0, now = simulation->now[rank];
  if (!simulation->link) return now + length;
  const int to = RankOfSeat(schedule, schedule->message[action->message].to, action->microbatch);
  double *link = &simulation->link[(int64_t)rank * schedule->ranks + to];
  *link = (*link > now ? *link : now) + length;
  return *link;
}

/* The ranks of a stage do one sum after the other; it begins when all are there and free. */
static void RunSum(Simulation *simulation, int stage, double begin, double seconds)
{
  RengaSchedule schedule = simulation->schedule;
  const int *rank = schedule->rank + schedule->first_seat[stage];
  for (int r = 0; r < schedule->replicas[stage]; r++)
    if (simulation->summed[rank[r]] > begin) begin = simulation->summed[rank[r]];
  for (int r = 0; r < schedule->replicas[stage]; r++) simulation->summed[rank[r]] = begin + seconds;
}

/* All replicas sum the buckets of a stage in one order, as the proof has shown, and gather those
   that they gather by themselves. */
static void Sum(Simulation *simulation, int rank, const RengaAction *action)
{
  const double *seconds = simulation->clock->durations.seconds[action->kind];
  const int half = action->kind == RENGA_ACTION_GATHER;
  const int bucket = 2 * (simulation->first_bucket[action->stage] + action->bucket) + half;
  double *begin = &simulation->begin[bucket];
  if (simulation->now[rank] > *begin) *begin = simulation->now[rank];
  if (simulation->summing[bucket]++ == 0) simulation->open[action->stage]++;
  if (simulation->summing[bucket] < simulation->schedule->replicas[action->stage]) return;
  RunSum(simulation, action->stage, *begin, seconds ? seconds[action->stage] : 0);
  simulation->open[action->stage]--;
}

/* False where a sum of the rank's stages is not begun by all. */
static bool WaitForSums(Simulation *simulation, int rank)
{
  const RengaActionList list = &simulation->schedule->list[rank];
  for (int c = 0; c < list->n_chunks; c++)
    if (simulation->open[list->chunk[c].stage] > 0) return false;
  const double end = simulation->summed[rank];
  if (end > simulation->now[rank]) simulation->now[rank] = end;
  return true;
}

/* Do the rank's next action; false where it has to wait. */
static bool SimulateStep(Simulation *simulation, int rank)
{
  RengaSchedule schedule = simulation->schedule;
  const RengaAction *action = &schedule->list[rank].action[simulation->next[rank]];
  const int64_t place = action->message * schedule->microbatches + action->microbatch;
  double *now = &simulation->now[rank];
  switch (action->kind) {
  case RENGA_ACTION_RECEIVE:
    if (simulation->arrival[place] < 0) return false;
    if (simulation->arrival[place] > *now) *now = simulation->arrival[place];
    break;
  case RENGA_ACTION_SEND:
    simulation->arrival[place] = Transfer(simulation, rank, action);
    break;
  case RENGA_ACTION_REDUCE:
  case RENGA_ACTION_GATHER:
    Sum(simulation, rank, action);
    break;
  case RENGA_ACTION_UPDATE:
    if (!WaitForSums(simulation, rank)) return false;
    SimulateWork(simulation, rank, action);
    break;
  default:
    SimulateWork(simulation, rank, action);
  }
  simulation->next[rank]++;
  return true;
}

/* The lists are proved, so this ends with all of them done. */
static void RunSimulation(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < schedule->ranks; r++)
      while (simulation->next[r] < schedule->list[r].n_actions && SimulateStep(simulation, r))
        moved = true;
  }
}

static RengaErrorCode AllocateSimulatedSums(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  RengaCall(RengaMalloc(schedule->stages + 1, &simulation->first_bucket));
  for (int s = 0; s < schedule->stages; s++)
    simulation->first_bucket[s + 1] = simulation->first_bucket[s] + schedule->buckets[s];
  const int halves = 2 * simulation->first_bucket[schedule->stages];
  RengaCall(RengaMalloc(halves, &simulation->begin));
  RengaCall(RengaMalloc(halves, &simulation->summing));
  RengaCall(RengaMalloc(schedule->ranks, &simulation->summed));
  RengaCall(RengaMalloc(schedule->stages, &simulation->open));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateSimulation(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  const int64_t n = schedule->n_messages * schedule->microbatches, ranks = schedule->ranks;
  RengaCall(RengaMalloc(ranks, &simulation->next));
  RengaCall(RengaMalloc(ranks, &simulation->now));
  RengaCall(RengaMalloc(ranks, &simulation->busy));
  RengaCall(RengaMalloc(n + 1, &simulation->arrival));
  for (int64_t i = 0; i < n; i++) simulation->arrival[i] = -1;
  if (simulation->clock->durations.queue) RengaCall(RengaMalloc(ranks * ranks, &simulation->link));
  RengaCall(AllocateSimulatedSums(simulation));
  return RENGA_SUCCESS;
}

static void FreeSimulation(Simulation *simulation)
{
  RengaFree(&simulation->next);
  RengaFree(&simulation->now);
  RengaFree(&simulation->busy);
  RengaFree(&simulation->arrival);
  RengaFree(&simulation->link);
  RengaFree(&simulation->first_bucket);
  RengaFree(&simulation->begin);
  RengaFree(&simulation->summing);
  RengaFree(&simulation->summed);
  RengaFree(&simulation->open);
}

RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy)
{
  Simulation simulation = {.schedule = schedule, .clock = clock};
  *makespan = *busy = 0;
  RengaErrorCode code = AllocateSimulation(&simulation);
  if (!code) {
    RunSimulation(&simulation);
    for (int r = 0; r < schedule->ranks; r++) {
      if (simulation.now[r] > *makespan) *makespan = simulation.now[r];
      *busy += simulation.busy[r];
    }
  }
  FreeSimulation(&simulation);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulateWith - how long a step takes, from the time of each kind of action

   Not collective

   Input:
   . schedule - the schedule, set up
   . durations - seconds of each kind: of a micro-batch on one replica of the stage, of the sum of
     one bucket (where it is gathered by itself: of each half), of the update of a rank (that of the
     action's stage); seconds until a message arrives; whether messages of one rank to another queue

   Output:
   . makespan - seconds until the last rank is done with its list
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Notes: sums run beside what ranks compute, one after the other on each rank, from when the last
   replica came to them; an update waits for those of its rank.
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
