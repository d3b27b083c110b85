/* The lists in time: each rank does one action after another, a receive waits until its message
   has arrived, sends cost the sender nothing. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  const RengaScheduleClock *clock;
  int64_t *next;      /* [rank] place in its list */
  double *now, *busy; /* [rank] */
  double *arrival;    /* [message][micro-batch], -1: not sent */
} Simulation;

/* A recomputation is a forward. */
static void Work(Simulation *simulation, int rank, const RengaAction *action)
{
  const RengaScheduleClock *clock = simulation->clock;
  const bool backward = action->kind == RENGA_ACTION_BACKWARD;
  const double seconds = (backward ? clock->backward : clock->forward)[action->stage];
  const double begin = simulation->now[rank];
  simulation->now[rank] = begin + seconds;
  simulation->busy[rank] += seconds;
  if (clock->visit) clock->visit(clock->user, action, begin, begin + seconds);
}

/* Do the rank's next action; false where it has to wait. */
static bool Step(Simulation *simulation, int rank)
{
  RengaSchedule schedule = simulation->schedule;
  const RengaAction *action = &schedule->list[rank].action[simulation->next[rank]];
  bool moves = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  double *now = &simulation->now[rank], *arrival = NULL;
  if (moves)
    arrival = &simulation->arrival[action->message * schedule->microbatches + action->microbatch];
  if (action->kind == RENGA_ACTION_RECEIVE) {
    if (*arrival < 0) return false;
    if (*arrival > *now) *now = *arrival;
  } else if (action->kind == RENGA_ACTION_SEND) {
    const double *message = simulation->clock->message;
    *arrival = *now + (message ? message[action->message] : 0);
  } else if (action->microbatch >= 0) {
    Work(simulation, rank, action);
  }
  simulation->next[rank]++;
  return true;
}

/* The lists are proved, so this ends with all of them done. */
static void Run(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < schedule->ranks; r++)
      while (simulation->next[r] < schedule->list[r].n_actions && Step(simulation, r)) moved = true;
  }
}

static RengaErrorCode Allocate(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  int64_t n = schedule->n_messages * schedule->microbatches;
  RengaCall(RengaMalloc(schedule->ranks, &simulation->next));
  RengaCall(RengaMalloc(schedule->ranks, &simulation->now));
  RengaCall(RengaMalloc(schedule->ranks, &simulation->busy));
  RengaCall(RengaMalloc(n + 1, &simulation->arrival));
  for (int64_t i = 0; i < n; i++) simulation->arrival[i] = -1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy)
{
  Simulation simulation = {.schedule = schedule, .clock = clock};
  *makespan = *busy = 0;
  RengaErrorCode code = Allocate(&simulation);
  if (!code) {
    Run(&simulation);
    for (int r = 0; r < schedule->ranks; r++) {
      if (simulation.now[r] > *makespan) *makespan = simulation.now[r];
      *busy += simulation.busy[r];
    }
  }
  RengaFree(&simulation.arrival);
  RengaFree(&simulation.busy);
  RengaFree(&simulation.now);
  RengaFree(&simulation.next);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulate - how long a step takes, from the time of each action

   Not collective

   Input:
   . schedule - the schedule, set up
   . forward - [stages] seconds of a micro-batch's forward on one replica of each stage
   . backward - [stages] seconds of one backward; not read where the schedule is forward only
   . message - [messages] seconds until a message arrives, or NULL: at once

   Output:
   . makespan - seconds until the last rank is done with its micro-batches
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Notes: a stage that recomputes does a second forward before each backward. For equal stages and
   no cost of messages the bubble of gpipe and 1f1b is (p-1)/(m+p-1).
@*/
RengaErrorCode RengaScheduleSimulate(RengaSchedule schedule, const double forward[],
                                     const double backward[], const double message[],
                                     double *makespan, double *bubble)
{
  RengaCheckPointer(schedule);
  RengaCheckPointer(forward);
  RengaCheckPointer(makespan);
  RengaCheckPointer(bubble);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(backward || schedule->forward_only, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "backward: null pointer");
  RengaScheduleClock clock = {.forward = forward, .backward = backward, .message = message};
  double busy = 0;
  RengaCall(RengaScheduleTime_Private(schedule, &clock, makespan, &busy));
  *bubble = *makespan > 0 ? 1 - busy / (schedule->ranks * *makespan) : 0;
  return RENGA_SUCCESS;
}
