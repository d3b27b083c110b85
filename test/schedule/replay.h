/* The lists of all ranks once more in time, by loops that share nothing with the library's: what is
   sent is there at once. */
#pragma once
#include "../plan/plantest.h"

enum { REPLAY_STAGES = 64, REPLAY_MICROBATCHES = 128, REPLAY_RANKS = 64 };

typedef struct {
  double forward, input, weight; /* seconds of each stage */
  int ranks;
  double begin[REPLAY_RANKS], end[REPLAY_RANKS], busy[REPLAY_RANKS];
  double makespan;
  int64_t held[REPLAY_RANKS]; /* the most micro-batches of all stages of a rank at a time */
} Replay;

typedef struct {
  double now;
  int64_t next, holds;
} ReplayRank;

/* When the action may begin; negative: not yet. done: [forward, input][stage][micro-batch] ends. */
static inline double ReplayReady(const RengaAction *action, int stages,
                                 double done[2][REPLAY_STAGES][REPLAY_MICROBATCHES])
{
  const int s = action->stage;
  const int64_t i = action->microbatch;
  switch (action->kind) {
  case RENGA_ACTION_FORWARD:
    return s == 0 ? 0 : done[0][s - 1][i];
  case RENGA_ACTION_BACKWARD:
  case RENGA_ACTION_BACKWARD_INPUT:
    return s == stages - 1 ? done[0][s][i] : done[1][s + 1][i];
  default:
    return 0;
  }
}

static inline double ReplaySeconds(const Replay *replay, RengaActionKind kind)
{
  switch (kind) {
  case RENGA_ACTION_FORWARD:
    return replay->forward;
  case RENGA_ACTION_BACKWARD:
    return replay->input + replay->weight;
  case RENGA_ACTION_BACKWARD_INPUT:
    return replay->input;
  case RENGA_ACTION_BACKWARD_WEIGHT:
    return replay->weight;
  default:
    return 0;
  }
}

static inline void ReplayAct(Replay *replay, int r, ReplayRank *rank, const RengaAction *action,
                             double ready, double done[2][REPLAY_STAGES][REPLAY_MICROBATCHES])
{
  const double seconds = ReplaySeconds(replay, action->kind);
  const double begin = ready > rank->now ? ready : rank->now;
  rank->now = begin + seconds;
  if (replay->begin[r] < 0) replay->begin[r] = begin;
  replay->end[r] = rank->now;
  replay->busy[r] += seconds;
  if (action->kind == RENGA_ACTION_FORWARD) {
    done[0][action->stage][action->microbatch] = rank->now;
    if (++rank->holds > replay->held[r]) replay->held[r] = rank->holds;
  } else if (action->kind != RENGA_ACTION_BACKWARD_WEIGHT) {
    done[1][action->stage][action->microbatch] = rank->now;
  }
  rank->holds -=
      action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT;
}

/* Of one replica of each stage; stage_of: one stage of each rank. */
static inline void ReplayLists(RengaSchedule schedule, int stages, const int stage_of[],
                               Replay *replay)
{
  static double done[2][REPLAY_STAGES][REPLAY_MICROBATCHES];
  ReplayRank rank[REPLAY_RANKS] = {{0, 0, 0}};
  for (int b = 0; b < 2; b++)
    for (int s = 0; s < stages; s++)
      for (int i = 0; i < REPLAY_MICROBATCHES; i++) done[b][s][i] = -1;
  replay->makespan = 0;
  for (int r = 0; r < replay->ranks; r++) {
    replay->begin[r] = -1;
    replay->end[r] = replay->busy[r] = 0;
    replay->held[r] = 0;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < replay->ranks; r++) {
      int64_t count;
      const RengaAction *action;
      RengaCallAbort(RengaScheduleGetActions(schedule, stage_of[r], 0, &count, &action));
      for (; rank[r].next < count; rank[r].next++, moved = true) {
        const double ready = ReplayReady(&action[rank[r].next], stages, done);
        if (ready < 0) break;
        if (ReplaySeconds(replay, action[rank[r].next].kind) > 0)
          ReplayAct(replay, r, &rank[r], &action[rank[r].next], ready, done);
      }
      if (rank[r].now > replay->makespan) replay->makespan = rank[r].now;
    }
  }
}

/* The most that a rank waits between its first action and its last. */
static inline double ReplayMostWait(const Replay *replay)
{
  double most = 0;
  for (int r = 0; r < replay->ranks; r++) {
    const double wait = replay->end[r] - replay->begin[r] - replay->busy[r];
    if (wait > most) most = wait;
  }
  return most;
}
