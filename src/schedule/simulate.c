/* The lists in time, on tracks, along the one sequence of all their actions: each rank computes one
   action after another; a receive waits until its message has arrived, sends cost the sender
   nothing, and messages of one rank to another go side by side or queue; sums over replicas begin
   when the last replica comes to them, one after the other on each rank, which computes meanwhile;
   an update waits for those of its rank; gathers of parameters follow it as other sums do, and the
   step is over when they are. What replicas that share parameters and gradients give each other
   within an action goes in parts along the track of the rank's sums: a part's parameters are asked
   for when the part before is begun, its gradients leave when it is computed, two parts at a time.
   Where nobody moves them but the rank itself they are its work. All replicas of a stage are taken
   to be as far there. Of a step that was run each replica has a pace: its work may take longer. */
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

/* What replicas give each other within an action. */
typedef struct {
  double fetch, fold; /* seconds */
  int parts;
} Exchanged;

static bool IsFirst(const Simulation *simulation, const RengaSequenceRow *row)
{
  const RengaAction *action = row->action;
  return simulation->clock->durations.first && row->kind == RENGA_ACTION_FORWARD &&
         RengaScheduleChunk_Private(simulation->schedule, row->stage, action->replica)->order[0] ==
             action->microbatch;
}

static Exchanged ExchangedIn(const Simulation *simulation, const RengaSequenceRow *row)
{
  const RengaScheduleDurations *durations = &simulation->clock->durations;
  const double *fetch = IsFirst(simulation, row) ? durations->first : durations->fetch[row->kind];
  const bool folds = durations->fold && (row->kind == RENGA_ACTION_BACKWARD ||
                                         row->kind == RENGA_ACTION_BACKWARD_WEIGHT);
  return (Exchanged){.fetch = fetch ? fetch[row->stage] : 0,
                     .fold = folds ? durations->fold[row->stage] : 0,
                     .parts = durations->parts ? durations->parts[row->stage] : 1};
}

/* One more on the track of a rank's sums; returns when it ends. */
static double RunOnTrack(double *track, double begin, double seconds)
{
  *track = (*track > begin ? *track : begin) + seconds;
  return *track;
}

/* When an action that takes so long by itself ends. */
static double EndOfParts(const Exchanged *exchanged, double begin, double length, double *track)
{
  const double fetch = exchanged->fetch / exchanged->parts,
               fold = exchanged->fold / exchanged->parts;
  double now = begin, come = fetch > 0 ? RunOnTrack(track, begin, fetch) : begin;
  double left[2] = {begin, begin}; /* when the last two folds end */
  for (int k = 0; k < exchanged->parts; k++) {
    if (come > now) now = come;
    if (fetch > 0 && k + 1 < exchanged->parts) come = RunOnTrack(track, now, fetch);
    now += length / exchanged->parts;
    if (fold <= 0) continue;
    if (left[k % 2] > now) now = left[k % 2];
    left[k % 2] = RunOnTrack(track, now, fold);
  }
  return now;
}

/* Of an update there is one for all that the rank has. */
static double PaceOf(const Simulation *simulation, const RengaSequenceRow *row)
{
  const double *pace = simulation->clock->pace;
  if (!pace || row->kind == RENGA_ACTION_UPDATE) return 1;
  return pace[simulation->schedule->first_seat[row->stage] + row->action->replica];
}

static void SimulateWork(Simulation *simulation, const RengaSequenceRow *row, const double *seconds)
{
  const double begin = simulation->now[row->rank];
  const double length = seconds[row->stage] * PaceOf(simulation, row);
  const Exchanged exchanged = ExchangedIn(simulation, row);
  double end = begin + length + exchanged.fetch + exchanged.fold;
  if (simulation->clock->durations.apart && exchanged.fetch + exchanged.fold > 0)
    end = EndOfParts(&exchanged, begin, length, &simulation->summed[row->rank]);
  simulation->now[row->rank] = end;
  simulation->busy[row->rank] += length;
  if (end > simulation->worked) simulation->worked = end;
  Visit(simulation, row->rank, row->action, begin, end);
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

static RengaErrorCode CheckSeconds(const char *what, int count, const double seconds[])
{
  for (int i = 0; seconds && i < count; i++)
    RengaCheck(seconds[i] >= 0 && seconds[i] < 1e300, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "%s: %g seconds at place %d, which must be 0 or more", what, seconds[i], i);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDurations(RengaSchedule schedule,
                                     const RengaScheduleDurations *durations)
{
  const int stages = schedule->stages;
  for (int k = 0; k < RENGA_ACTION_KINDS; k++) {
    RengaCall(CheckSeconds(RengaActionName((RengaActionKind)k), stages, durations->seconds[k]));
    RengaCall(CheckSeconds("fetch", stages, durations->fetch[k]));
  }
  RengaCall(CheckSeconds("first fetch", stages, durations->first));
  RengaCall(CheckSeconds("fold", stages, durations->fold));
  RengaCall(CheckSeconds("message", schedule->n_messages, durations->message));
  for (int s = 0; durations->parts && s < stages; s++)
    RengaCheck(durations->parts[s] >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "stage %d fetches and folds in %d parts: at least 1", s, durations->parts[s]);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulateWith - how long a step takes, from the time of each kind of action

   Input:
   . schedule - the schedule, set up
   . durations - seconds of each kind, at least 0: of a micro-batch on one replica of the stage, of
     the update of a rank, and of the all-gather of one bucket's parameters. That of the sum of one
     bucket is of each half where it is gathered by itself. Also seconds until a message arrives,
     whether messages of one rank to another queue, and the seconds of exchanges of replicas within
     actions

   Output:
   . makespan - seconds, at least 0, until the last rank is done with its list, and parameters are
     gathered
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp; RENGA_ERR_ARGUMENT for seconds that are
   negative or not finite, and for parts that are not at least 1.

   Notes: sums run beside what ranks compute, one after the other on each rank, from when the last
   replica came to them; an update waits for those of its rank. All-gathers of parameters run behind
   the update, as long as they take: what the next step hides of them is not taken off. Of an action
   with K parts that computes for c seconds and fetches for g the rank waits for g/K, and where g is
   longer than c for (g - c) (K - 1)/K beside; of what it folds one part is left at its end where
   that takes no longer than the computing, and the next action or the update may wait for it.

   See also: RengaScheduleSimulate()
@*/
RengaErrorCode RengaScheduleSimulateWith(RengaSchedule schedule,
                                         const RengaScheduleDurations *durations, double *makespan,
                                         double *bubble)
{
  double busy = 0;
  RengaCheckPointers(schedule, durations, makespan, bubble);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCall(CheckDurations(schedule, durations));
  const RengaScheduleClock clock = {.durations = *durations};
  RengaCall(RengaScheduleTime_Private(schedule, &clock, makespan, &busy));
  *bubble = *makespan > 0 ? 1 - busy / (schedule->ranks * *makespan) : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSimulate - how long the micro-batches of a step take

   Input:
   . schedule - the schedule, set up
   . forward - [stages] seconds of a micro-batch's forward on one replica of each stage
   . backward - [stages] seconds of one whole backward; not read where the schedule is forward only
   . message - [messages] seconds until a message arrives, or NULL: at once

   Output:
   . makespan - seconds, at least 0, until the last rank is done with its micro-batches
   . bubble - share of all ranks' time in which they wait, 0 … 1

   Errors: split backwards: RengaScheduleSimulateWith() takes the seconds of each; seconds
   that are negative or not finite.

   Notes: a stage that recomputes does a second forward before each backward. For equal stages and
   no cost of messages the bubble of gpipe and 1f1b is (p-1)/(m+p-1).

   See also: RengaScheduleSimulateWith()
@*/
RengaErrorCode RengaScheduleSimulate(RengaSchedule schedule, const double forward[],
                                     const double backward[], const double message[],
                                     double *makespan, double *bubble)
{
  RengaCheckPointers(schedule, forward);
  RengaCheck(backward || schedule->forward_only, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "backward: null pointer");
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  for (int s = 0; s < schedule->stages; s++)
    RengaCheck(schedule->lag[s] == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "schedule %s splits backward: RengaScheduleSimulateWith takes the seconds of each",
               schedule->hdr.type_name);
  const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = forward,
                                                        [RENGA_ACTION_RECOMPUTE] = forward,
                                                        [RENGA_ACTION_BACKWARD] = backward},
                                            .message = message};
  RengaCall(RengaScheduleSimulateWith(schedule, &durations, makespan, bubble));
  return RENGA_SUCCESS;
}
