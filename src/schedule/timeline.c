/* A step in time, as bars: simulated from what its actions take, or taken from a step that was
   run. */
#include "renga/private/plan.h"
#include "scheduleimpl.h"
#include <math.h>

enum { KINDS = RENGA_ACTION_KINDS };

bool RengaActionIsWork_Private(RengaActionKind kind)
{
  return kind <= RENGA_ACTION_RECOMPUTE || kind == RENGA_ACTION_UPDATE;
}

void RengaTimelineFree_Private(RengaTimeline *timeline)
{
  RengaFree(&timeline->bar);
}

/* What moves on under the next step is not waited for. The bubble is one of the pipeline, as plans
   have it: until the last rank is done with its micro-batches, before sums and updates. */
static void JudgeTimeline(RengaSchedule schedule, RengaTimeline *timeline)
{
  double busy = 0, pipeline = 0;
  timeline->makespan = 0;
  for (int64_t i = 0; i < timeline->count; i++) {
    const RengaScheduleBar *bar = &timeline->bar[i];
    if (bar->action.kind <= RENGA_ACTION_RECOMPUTE) {
      busy += bar->end - bar->begin;
      pipeline = fmax(pipeline, bar->end);
    }
    if (bar->action.kind != RENGA_ACTION_GATHER_PARAMETERS)
      timeline->makespan = fmax(timeline->makespan, bar->end);
  }
  timeline->bubble = pipeline > 0 ? 1 - busy / (schedule->ranks * pipeline) : 0;
}

static void AddSimulatedBar(void *user, int rank, const RengaAction *action, double begin,
                            double end)
{
  RengaTimeline *timeline = user;
  (void)rank; /* the action's stage and replica say it */
  timeline->bar[timeline->count++] = (RengaScheduleBar){*action, begin, end};
}

RengaErrorCode RengaTimelineSimulate_Private(RengaSchedule schedule,
                                             const RengaStepSeconds *seconds,
                                             RengaTimeline *timeline)
{
  const RengaScheduleClock clock = {.durations = seconds->durations,
                                    .pace = seconds->pace,
                                    .visit = AddSimulatedBar,
                                    .user = timeline};
  double makespan, busy;
  *timeline = (RengaTimeline){0};
  RengaCall(RengaScheduleMakeSequence_Private(schedule));
  RengaCall(RengaMalloc(schedule->n_sequence + 1, &timeline->bar)); /* an action is visited once */
  const RengaErrorCode code = RengaScheduleTime_Private(schedule, &clock, &makespan, &busy);
  if (code) RengaTimelineFree_Private(timeline);
  RengaCall(code);
  JudgeTimeline(schedule, timeline);
  return RENGA_SUCCESS;
}

/* A bar of an action that the schedule may have. */
static RengaErrorCode CheckBar(RengaSchedule schedule, const RengaScheduleBar *bar)
{
  const RengaAction *action = &bar->action;
  const bool place = action->stage >= 0 && action->stage < schedule->stages &&
                     action->replica >= 0 && action->replica < schedule->replicas[action->stage];
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  RengaCheck((size_t)action->kind < KINDS && place && action->microbatch < schedule->microbatches,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a bar of stage %d, replica %d, micro-batch %lld, which the schedule has not",
             action->stage, action->replica, (long long)action->microbatch);
  RengaCheck(!message || (action->message >= 0 && action->message < schedule->n_messages &&
                          action->microbatch >= 0),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a bar of message %d of %d", action->message,
             schedule->n_messages);
  RengaCheck(isfinite(bar->begin) && isfinite(bar->end) && bar->begin <= bar->end, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "a bar from %g to %g", bar->begin, bar->end);
  return RENGA_SUCCESS;
}

/* A message is under way from its send until it is taken. sent: [message][micro-batch] */
static void JoinMessages(RengaSchedule schedule, RengaTimeline *timeline, double sent[])
{
  int64_t left = 0;
  for (int64_t i = 0; i < timeline->count; i++) {
    const RengaScheduleBar *bar = &timeline->bar[i];
    const int64_t place = bar->action.message * schedule->microbatches + bar->action.microbatch;
    if (bar->action.kind == RENGA_ACTION_SEND) sent[place] = bar->begin + 1;
  }
  for (int64_t i = 0; i < timeline->count; i++) {
    RengaScheduleBar bar = timeline->bar[i];
    const int64_t place = bar.action.message * schedule->microbatches + bar.action.microbatch;
    if (bar.action.kind == RENGA_ACTION_SEND) continue;
    if (bar.action.kind == RENGA_ACTION_RECEIVE && sent[place] > 0)
      bar.begin = fmin(sent[place] - 1, bar.end); /* clocks of two nodes may differ */
    timeline->bar[left++] = bar;
  }
  timeline->count = left;
}

RengaErrorCode RengaTimelineTake_Private(RengaSchedule schedule, int64_t count,
                                         const RengaScheduleBar bars[], RengaTimeline *timeline)
{
  double first = HUGE_VAL;
  *timeline = (RengaTimeline){0};
  for (int64_t i = 0; i < count; i++) {
    RengaCall(CheckBar(schedule, &bars[i]));
    first = fmin(first, bars[i].begin);
  }
  double *sent;
  RengaCall(RengaMalloc(schedule->n_messages * schedule->microbatches + 1, &sent));
  const RengaErrorCode code = RengaMalloc(count + 1, &timeline->bar);
  if (code) RengaFree(&sent);
  RengaCall(code);
  for (int64_t i = 0; i < count; i++)
    timeline->bar[i] =
        (RengaScheduleBar){bars[i].action, bars[i].begin - first, bars[i].end - first};
  timeline->count = count;
  JoinMessages(schedule, timeline, sent);
  RengaFree(&sent);
  JudgeTimeline(schedule, timeline);
  return RENGA_SUCCESS;
}

/* A row of [stages] for each kind of action, one of [messages], one of [seats]; durations look at
   the first two. */
static RengaErrorCode AllocateSeconds(RengaSchedule schedule, RengaStepSeconds *seconds)
{
  const int p = schedule->stages;
  *seconds = (RengaStepSeconds){0};
  RengaCall(RengaMalloc(KINDS * p + schedule->n_messages + schedule->seats, &seconds->block));
  for (int k = 0; k < KINDS; k++) seconds->durations.seconds[k] = seconds->block + k * p;
  seconds->durations.message = seconds->block + KINDS * p;
  return RENGA_SUCCESS;
}

static double *SecondsRow(RengaSchedule schedule, const RengaStepSeconds *seconds,
                          RengaActionKind kind)
{
  return seconds->block + (int)kind * schedule->stages;
}

/* The update of a rank counts for its first stage: of all that it has. */
static void AddUpdate(RengaSchedule schedule, RengaStepSeconds *seconds, int stage, double update)
{
  const int rank = schedule->rank[schedule->first_seat[stage]];
  SecondsRow(schedule, seconds, RENGA_ACTION_UPDATE)[schedule->list[rank].chunk[0].stage] += update;
}

static void TakePlannedStage(RengaSchedule schedule, const RengaPlanStage *stage, int s,
                             RengaStepSeconds *seconds)
{
  const double both = stage->backward_seconds - stage->again_seconds;
  SecondsRow(schedule, seconds, RENGA_ACTION_FORWARD)[s] = stage->forward_seconds;
  SecondsRow(schedule, seconds, RENGA_ACTION_RECOMPUTE)[s] = stage->again_seconds;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD)[s] = both;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD_INPUT)[s] = both - stage->weight_seconds;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD_WEIGHT)[s] = stage->weight_seconds;
  SecondsRow(schedule, seconds, RENGA_ACTION_REDUCE)[s] =
      stage->reduce_seconds / schedule->buckets[s];
  AddUpdate(schedule, seconds, s, stage->update_seconds);
}

/* A backward takes two forwards, half of it for gradients of parameters. */
static void TakeUnits(RengaSchedule schedule, int s, double forward, RengaStepSeconds *seconds)
{
  SecondsRow(schedule, seconds, RENGA_ACTION_FORWARD)[s] = forward;
  SecondsRow(schedule, seconds, RENGA_ACTION_RECOMPUTE)[s] = forward;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD)[s] = 2 * forward;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD_INPUT)[s] = forward;
  SecondsRow(schedule, seconds, RENGA_ACTION_BACKWARD_WEIGHT)[s] = forward;
}

RengaErrorCode RengaStepSecondsOfPlan_Private(RengaSchedule schedule, RengaPlan plan,
                                              RengaStepSeconds *seconds)
{
  const double *message = NULL;
  bool weighed = plan != NULL;
  RengaCall(AllocateSeconds(schedule, seconds));
  seconds->known = plan != NULL;
  for (int s = 0; plan && s < schedule->stages; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    seconds->known = seconds->known && stage->forward_seconds > 0;
    weighed = weighed && stage->forward_flops > 0;
  }
  for (int s = 0; s < schedule->stages; s++) {
    const RengaPlanStage *stage = plan ? RengaPlanGetStage(plan, s) : NULL;
    if (seconds->known)
      TakePlannedStage(schedule, stage, s, seconds);
    else
      TakeUnits(schedule, s, weighed ? stage->forward_flops : 1, seconds);
  }
  const int known = plan ? RengaPlanGetMessageSeconds_Private(plan, &message) : 0;
  for (int m = 0; known == schedule->n_messages && m < known; m++)
    seconds->block[KINDS * schedule->stages + m] = message[m];
  return RENGA_SUCCESS;
}

/* Of the ranks of a step that was run: when each was done with its micro-batches, and with its sums
   then. What of the sums goes on beside actions is in the time of those. */
typedef struct {
  double *worked, *summed; /* [ranks] */
  double *rest;            /* [kinds][seats] of sums that its rank waited for */
} StepEnds;

static int SeatOf(RengaSchedule schedule, const RengaAction *action)
{
  return schedule->first_seat[action->stage] + action->replica;
}

static void FindWorked(RengaSchedule schedule, int64_t count, const RengaScheduleBar bars[],
                       const StepEnds *ends)
{
  for (int64_t i = 0; i < count; i++) {
    const int rank = schedule->rank[SeatOf(schedule, &bars[i].action)];
    if (bars[i].action.kind <= RENGA_ACTION_RECOMPUTE)
      ends->worked[rank] = fmax(ends->worked[rank], bars[i].end);
  }
  for (int r = 0; r < schedule->ranks; r++) ends->summed[r] = ends->worked[r];
}

/* One after the other, behind the last micro-batch. */
static void AddSums(RengaSchedule schedule, int64_t count, const RengaScheduleBar bars[],
                    const StepEnds *ends)
{
  for (int64_t i = 0; i < count; i++) {
    const RengaScheduleBar *bar = &bars[i];
    const int seat = SeatOf(schedule, &bar->action);
    double *summed = &ends->summed[schedule->rank[seat]];
    const double begin = fmax(bar->begin, *summed);
    if (RengaScheduleSumOf_Private(bar->action.kind) >= RENGA_SUM_PARAMETERS || bar->end <= begin)
      continue;
    ends->rest[(int)bar->action.kind * schedule->seats + seat] += bar->end - begin;
    *summed = bar->end;
  }
}

/* The replica that comes last waits least: what it takes is what the sums take. */
static void TakeSums(RengaSchedule schedule, const StepEnds *ends, RengaActionKind kind,
                     double row[])
{
  for (int s = 0; s < schedule->stages; s++) {
    double least = HUGE_VAL;
    for (int seat = schedule->first_seat[s]; seat < schedule->first_seat[s + 1]; seat++)
      least = fmin(least, ends->rest[(int)kind * schedule->seats + seat]);
    row[s] = least / schedule->buckets[s];
  }
}

/* All ranks add up norms before an update: so does the one that comes last, and waits for none. */
static void AddNorms(RengaSchedule schedule, int64_t count, const RengaScheduleBar bars[],
                     const StepEnds *ends, RengaStepSeconds *seconds)
{
  double least = HUGE_VAL;
  for (int64_t i = 0; i < count; i++) {
    const RengaScheduleBar *bar = &bars[i];
    const int rank = schedule->rank[SeatOf(schedule, &bar->action)];
    if (bar->action.kind == RENGA_ACTION_UPDATE)
      least = fmin(least, fmax(0, bar->begin - ends->summed[rank]));
  }
  double *row = SecondsRow(schedule, seconds, RENGA_ACTION_UPDATE);
  for (int s = 0; s < schedule->stages && isfinite(least); s++)
    if (row[s] > 0) row[s] += least;
}

static RengaErrorCode AddEndOfStep(RengaSchedule schedule, int64_t count,
                                   const RengaScheduleBar bars[], RengaStepSeconds *seconds)
{
  StepEnds ends = {0};
  double *block;
  RengaCall(RengaMalloc(2 * schedule->ranks + KINDS * schedule->seats, &block));
  ends = (StepEnds){
      .worked = block, .summed = block + schedule->ranks, .rest = block + 2 * schedule->ranks};
  for (int r = 0; r < schedule->ranks; r++) ends.worked[r] = -HUGE_VAL;
  FindWorked(schedule, count, bars, &ends);
  AddSums(schedule, count, bars, &ends);
  TakeSums(schedule, &ends, RENGA_ACTION_REDUCE,
           SecondsRow(schedule, seconds, RENGA_ACTION_REDUCE));
  TakeSums(schedule, &ends, RENGA_ACTION_GATHER,
           SecondsRow(schedule, seconds, RENGA_ACTION_GATHER));
  AddNorms(schedule, count, bars, &ends, seconds);
  RengaFree(&block);
  return RENGA_SUCCESS;
}

/* What a replica's micro-batches took, as a part of what they would by the means of its stage. */
static RengaErrorCode FindPaces(RengaSchedule schedule, int64_t count,
                                const RengaScheduleBar bars[], RengaStepSeconds *seconds)
{
  double *pace = seconds->block + KINDS * schedule->stages + schedule->n_messages, *mean;
  RengaCall(RengaMalloc(schedule->seats, &mean));
  for (int64_t i = 0; i < count; i++) {
    const RengaScheduleBar *bar = &bars[i];
    const int seat = SeatOf(schedule, &bar->action);
    if (bar->action.kind > RENGA_ACTION_RECOMPUTE) continue;
    pace[seat] += bar->end - bar->begin;
    mean[seat] += SecondsRow(schedule, seconds, bar->action.kind)[bar->action.stage];
  }
  for (int seat = 0; seat < schedule->seats; seat++)
    pace[seat] = mean[seat] > 0 ? pace[seat] / mean[seat] : 1;
  seconds->pace = pace;
  RengaFree(&mean);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaStepSecondsOfBars_Private(RengaSchedule schedule, int64_t count,
                                              const RengaScheduleBar bars[],
                                              RengaStepSeconds *seconds)
{
  int64_t *met = NULL; /* [KINDS][stages] bars */
  RengaCall(RengaMalloc(KINDS * schedule->stages, &met));
  RengaErrorCode code = AllocateSeconds(schedule, seconds);
  for (int64_t i = 0; i < count && !code; i++) {
    const RengaAction *action = &bars[i].action;
    if (!RengaActionIsWork_Private(action->kind)) continue;
    seconds->block[(int)action->kind * schedule->stages + action->stage] +=
        bars[i].end - bars[i].begin;
    met[(int)action->kind * schedule->stages + action->stage]++;
  }
  for (int k = 0; k < KINDS * schedule->stages && !code; k++)
    if (met[k]) seconds->block[k] /= (double)met[k];
  RengaFree(&met);
  if (!code) code = FindPaces(schedule, count, bars, seconds);
  if (!code) code = AddEndOfStep(schedule, count, bars, seconds);
  if (code) RengaFree(&seconds->block);
  RengaCall(code);
  seconds->known = true;
  return RENGA_SUCCESS;
}
