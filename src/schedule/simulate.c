/* The lists in time: each stage does one action after another, a receive waits until its message
   has arrived, sends cost the sender nothing. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  const RengaScheduleClock *clock;
  int64_t *next;      /* [stage] place in its list */
  double *now, *busy; /* [stage] */
  double *arrival;    /* [message][micro-batch], -1: not sent */
} Simulation;

static void Work(Simulation *simulation, const RengaAction *action)
{
  const RengaScheduleClock *clock = simulation->clock;
  bool forward = action->kind == RENGA_ACTION_FORWARD;
  double seconds = (forward ? clock->forward : clock->backward)[action->stage];
  double begin = simulation->now[action->stage];
  simulation->now[action->stage] = begin + seconds;
  simulation->busy[action->stage] += seconds;
  if (clock->visit) clock->visit(clock->user, action, begin, begin + seconds);
}

/* Do the stage's next action; false where it has to wait. */
static bool Step(Simulation *simulation, int stage)
{
  RengaSchedule schedule = simulation->schedule;
  const RengaAction *action = &schedule->list[stage].action[simulation->next[stage]];
  bool moves = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  double *now = &simulation->now[stage], *arrival = NULL;
  if (moves)
    arrival = &simulation->arrival[action->message * schedule->microbatches + action->microbatch];
  if (action->kind == RENGA_ACTION_RECEIVE) {
    if (*arrival < 0) return false;
    if (*arrival > *now) *now = *arrival;
  } else if (action->kind == RENGA_ACTION_SEND) {
    const double *message = simulation->clock->message;
    *arrival = *now + (message ? message[action->message] : 0);
  } else if (action->kind == RENGA_ACTION_FORWARD || action->kind == RENGA_ACTION_BACKWARD) {
    Work(simulation, action);
  }
  simulation->next[stage]++;
  return true;
}

/* The lists are proved, so this ends with all of them done. */
static void Run(Simulation *simulation)
{
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < simulation->schedule->stages; s++)
      while (simulation->next[s] < simulation->schedule->list[s].count && Step(simulation, s))
        moved = true;
  }
}

static RengaErrorCode Allocate(Simulation *simulation)
{
  RengaSchedule schedule = simulation->schedule;
  int64_t n = schedule->n_messages * schedule->microbatches;
  RengaCall(RengaMalloc(schedule->stages, &simulation->next));
  RengaCall(RengaMalloc(schedule->stages, &simulation->now));
  RengaCall(RengaMalloc(schedule->stages, &simulation->busy));
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
    for (int s = 0; s < schedule->stages; s++) {
      if (simulation.now[s] > *makespan) *makespan = simulation.now[s];
      *busy += simulation.busy[s];
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
   . forward - [stages] seconds of one forward of each stage
   . backward - [stages] seconds of one backward; not read where the schedule is forward only
   . message - [messages] seconds until a message arrives, or NULL: at once

   Output:
   . makespan - seconds until the last stage is done with its micro-batches
   . bubble - share of all stages' time in which they wait, 0 … 1

   Notes: for equal stages and no cost of messages the bubble of gpipe and 1f1b is (p-1)/(m+p-1).
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
  *bubble = *makespan > 0 ? 1 - busy / (schedule->stages * *makespan) : 0;
  return RENGA_SUCCESS;
}
