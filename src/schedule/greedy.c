/* Lists by going on in time: the rank that can begin something first does so; of what it can begin
   then it takes a backward of inputs before a forward before gradients of parameters: of the
   earliest stage, of the latest, of the one that is furthest behind. A forward waits while its
   stage, or its rank, holds as much as it may. */
#include "pattern.h"
#include <math.h>

enum { PASS_FORWARD, PASS_INPUT, PASS_WEIGHT, PASSES };

static const double CLOSE = 1e-12;

typedef struct {
  const RengaGreedy *how;
  RengaPattern *pattern;
  int chunks;
  int64_t (*done)[PASSES]; /* [stages] */
  double *end[2];          /* [stages][turns] of forward and of backward of inputs */
  double *now, *start;     /* [across] end of the last action; when something can begin */
  int64_t *held;           /* [stages] the most */
} GreedyRun;

typedef struct {
  int pass, stage; /* pass PASSES: nothing can be begun */
  double begin;
} GreedyStep;

static int StageOfRank(const GreedyRun *run, int at, int chunk)
{
  const int across = run->how->across;
  return chunk * across + (run->how->wave && chunk % 2 ? across - 1 - at : at);
}

static int64_t HeldBy(const GreedyRun *run, int stage)
{
  return run->done[stage][PASS_FORWARD] - run->done[stage][PASS_WEIGHT];
}

/* A later stage of the rank that holds nothing keeps a place: without it nothing could go on. */
static bool HasRoom(const GreedyRun *run, int at, int stage)
{
  int64_t held = 0;
  if (HeldBy(run, stage) >= run->how->most[stage]) return false;
  for (int c = 0; c < run->chunks; c++) {
    const int own = StageOfRank(run, at, c);
    held += HeldBy(run, own);
    held += own > stage && HeldBy(run, own) == 0;
  }
  return held < run->how->most_of_rank;
}

/* When what the pass needs is there; below 0: not known yet. */
static double WhenThere(const GreedyRun *run, int stage, int pass)
{
  const int64_t turns = run->pattern->turns, turn = run->done[stage][pass];
  const int last = run->how->stages - 1;
  if (pass == PASS_WEIGHT) return turn < run->done[stage][PASS_INPUT] ? 0 : -1;
  if (turn >= turns) return -1;
  if (pass == PASS_FORWARD) return stage == 0 ? 0 : run->end[0][(stage - 1) * turns + turn];
  return stage == last ? run->end[0][stage * turns + turn]
                       : run->end[1][(stage + 1) * turns + turn];
}

/* Whether the second is better than the first; what comes earlier is, but for a wait that a rank
   has patience for. */
static bool IsBetterStep(const GreedyRun *run, const GreedyStep *first, const GreedyStep *second)
{
  if (first->pass == PASSES) return true;
  const bool waits = first->pass == PASS_WEIGHT && second->pass != PASS_WEIGHT;
  const double wait = waits ? run->how->patience * run->how->seconds[PASS_WEIGHT][first->stage] : 0;
  const bool put_off = second->pass == PASS_WEIGHT && first->pass != PASS_WEIGHT;
  const double patience =
      put_off ? run->how->patience * run->how->seconds[PASS_WEIGHT][second->stage] : 0;
  if (second->begin > first->begin + wait + CLOSE) return false;
  if (second->begin + patience < first->begin - CLOSE) return true;
  static const int places[PASSES] = {[PASS_INPUT] = 0, [PASS_FORWARD] = 1, [PASS_WEIGHT] = 2};
  if (places[first->pass] != places[second->pass])
    return places[second->pass] < places[first->pass];
  if (second->pass == PASS_WEIGHT)
    return run->done[second->stage][PASS_WEIGHT] < run->done[first->stage][PASS_WEIGHT];
  return second->pass == PASS_FORWARD ? second->stage > first->stage : second->stage < first->stage;
}

static GreedyStep BestStep(const GreedyRun *run, int at)
{
  GreedyStep best = {PASSES, -1, HUGE_VAL};
  for (int c = 0; c < run->chunks; c++)
    for (int pass = 0; pass < PASSES; pass++) {
      const int stage = StageOfRank(run, at, c);
      const double there = WhenThere(run, stage, pass);
      if (there < 0 || (pass == PASS_FORWARD && !HasRoom(run, at, stage))) continue;
      const GreedyStep step = {pass, stage, fmax(there, run->now[at])};
      if (IsBetterStep(run, &best, &step)) best = step;
    }
  return best;
}

static RengaErrorCode TakeGreedyStep(GreedyRun *run, int at, const GreedyStep *step)
{
  static const RengaActionKind kinds[PASSES] = {RENGA_ACTION_FORWARD, RENGA_ACTION_BACKWARD_INPUT,
                                                RENGA_ACTION_BACKWARD_WEIGHT};
  const int s = step->stage;
  const bool whole = step->pass == PASS_INPUT && run->how->whole[s];
  const int64_t turn = run->done[s][step->pass]++;
  run->now[at] = step->begin + run->how->seconds[step->pass][s];
  if (whole) run->now[at] += run->how->seconds[PASS_WEIGHT][s];
  if (whole) run->done[s][PASS_WEIGHT]++;
  if (step->pass != PASS_WEIGHT)
    run->end[step->pass == PASS_INPUT][s * run->pattern->turns + turn] = run->now[at];
  if (HeldBy(run, s) > run->held[s]) run->held[s] = HeldBy(run, s);
  RengaCall(RengaPatternAdd_Private(run->pattern, at,
                                    whole ? RENGA_ACTION_BACKWARD : kinds[step->pass], s, turn));
  return RENGA_SUCCESS;
}

/* When the rank can begin something; and those that what it did may have waited for it. */
static void RefreshStarts(GreedyRun *run, const GreedyStep *step)
{
  for (int s = step->stage - 1; s <= step->stage + 1; s++)
    if (s >= 0 && s < run->how->stages) {
      const int at = RengaScheduleFirstOf_Private(run->how->wave, run->how->across, s);
      run->start[at] = BestStep(run, at).begin;
    }
}

static RengaErrorCode AdvanceGreedy(GreedyRun *run, int64_t *left)
{
  int first = 0;
  for (int at = 1; at < run->how->across; at++)
    if (run->start[at] < run->start[first]) first = at;
  const GreedyStep step = BestStep(run, first);
  if (step.pass == PASSES) { /* nobody can do anything */
    *left = 0;
    return RENGA_SUCCESS;
  }
  *left -= 1 + (step.pass == PASS_INPUT && run->how->whole[step.stage]);
  RengaCall(TakeGreedyStep(run, first, &step));
  RefreshStarts(run, &step);
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateRun(GreedyRun *run)
{
  const int64_t stages = run->how->stages, ends = stages * run->pattern->turns;
  RengaCall(RengaMalloc(stages, &run->done));
  RengaCall(RengaMalloc(stages, &run->held));
  RengaCall(RengaMalloc(run->how->across, &run->now));
  RengaCall(RengaMalloc(run->how->across, &run->start));
  for (int b = 0; b < 2; b++) {
    RengaCall(RengaMalloc(ends + 1, &run->end[b]));
    for (int64_t i = 0; i < ends; i++) run->end[b][i] = -1;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunToEnd(GreedyRun *run, double *makespan, int64_t *held)
{
  const int64_t all = PASSES * run->how->stages * run->pattern->turns;
  int64_t left = all, done = 0;
  RengaCall(AllocateRun(run));
  for (int at = 0; at < run->how->across; at++) run->start[at] = BestStep(run, at).begin;
  while (left > 0) RengaCall(AdvanceGreedy(run, &left));
  for (int s = 0; s < run->how->stages; s++)
    for (int pass = 0; pass < PASSES; pass++) done += run->done[s][pass];
  *makespan = done < all ? HUGE_VAL : 0;
  *held = 0;
  for (int at = 0; at < run->how->across; at++) {
    int64_t sum = 0;
    for (int c = 0; c < run->chunks; c++) sum += run->held[StageOfRank(run, at, c)];
    if (sum > *held) *held = sum;
    *makespan = fmax(*makespan, run->now[at]);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleRunGreedy_Private(const RengaGreedy *greedy, RengaPattern *pattern,
                                              double *makespan, int64_t *held)
{
  GreedyRun run = {.how = greedy, .pattern = pattern, .chunks = greedy->stages / greedy->across};
  const RengaErrorCode code = RunToEnd(&run, makespan, held);
  RengaFree(&run.done);
  RengaFree(&run.held);
  RengaFree(&run.now);
  RengaFree(&run.start);
  for (int b = 0; b < 2; b++) RengaFree(&run.end[b]);
  RengaCall(code);
  return RENGA_SUCCESS;
}
