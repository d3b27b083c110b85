/* Several stages on one rank: in which order their forwards and backwards are done.

   If each stage had a rank of its own, and every action took one unit of time, each would have a
   time at which it ends, later than all that it depends on: what it reads is there, and what it
   writes over is taken (actionrules.c). A rank does its actions by these times.
   So the actions of all ranks have one order in which nothing comes before what it needs: no rank
   waits for ever. Each stage does its own in the order in which it would do them alone, so that it
   holds as many micro-batches as it would alone. The sums of a stage's gradients have the time at
   which the last backward of all its replicas ends, and come behind all actions of that time: they
   are under way while the rank computes other stages, and all ranks come to the sums in one order,
   so that even a sum that blocks keeps nobody waiting for ever. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  const int64_t *forwards; /* [seats][micro-batches of each], or NULL: no backward */
  int64_t *start;          /* [seats] where its micro-batches begin there */
  int64_t *slots;          /* [stages] micro-batches that there is room for */
  int64_t *next[2], *now;  /* [seats] forwards and backwards done; when the last of them was */
  int64_t *time[2];        /* [stages][micro-batches] end of forward and backward; 0: not done */
} Interleaving;

/* What a chunk of the list has had. */
typedef struct {
  int64_t passes[2]; /* forwards and backwards */
  bool sums;
} TurnsHad;

static const int64_t NEVER = INT64_MAX / 4;

static RengaErrorCode CreateInterleaving(Interleaving *together)
{
  RengaSchedule schedule = together->schedule;
  const int64_t n = schedule->stages * schedule->microbatches;
  int64_t used = 0;
  RengaCall(RengaMalloc(schedule->seats, &together->start));
  RengaCall(RengaMalloc(schedule->seats, &together->now));
  RengaCall(RengaMalloc(schedule->stages, &together->slots));
  for (int backward = 0; backward < 2; backward++) {
    RengaCall(RengaMalloc(schedule->seats, &together->next[backward]));
    RengaCall(RengaMalloc(n + 1, &together->time[backward]));
  }
  for (int seat = 0; seat < schedule->seats; seat++) {
    together->start[seat] = used;
    used += schedule->chunk[schedule->chunk_of[seat]].count;
  }
  return RENGA_SUCCESS;
}

static void FreeInterleaving(Interleaving *together)
{
  RengaFree(&together->start);
  RengaFree(&together->now);
  RengaFree(&together->slots);
  for (int backward = 0; backward < 2; backward++) {
    RengaFree(&together->next[backward]);
    RengaFree(&together->time[backward]);
  }
}

/* As many as the proof will count. */
static void FillSlots(Interleaving *together)
{
  RengaSchedule schedule = together->schedule;
  for (int seat = 0; seat < schedule->seats; seat++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[schedule->chunk_of[seat]];
    int64_t *slots = &together->slots[chunk->stage];
    if (!together->forwards) *slots = schedule->in_flight[chunk->stage];
    for (int64_t i = 0; together->forwards && i < chunk->count; i++) {
      const int64_t held = together->forwards[together->start[seat] + i] - i;
      if (held > *slots) *slots = held;
    }
  }
}

/* Whether the seat's next action is a backward, after so many of each. */
static bool BackwardIsNext(const Interleaving *together, int seat, int64_t forward,
                           int64_t backward)
{
  return together->forwards && forward >= together->forwards[together->start[seat] + backward];
}

/* When what an action of the stage needs is there; 0: not yet, which is never so for the first
   stage's forwards. */
static int64_t ReadyAt(const Interleaving *together, int stage, bool backward, int64_t microbatch)
{
  RengaSchedule schedule = together->schedule;
  const int64_t m = schedule->microbatches;
  if (!backward) return stage == 0 ? 1 : together->time[0][(stage - 1) * m + microbatch];
  const bool last = stage == schedule->stages - 1;
  return together->time[!last][(last ? stage : stage + 1) * m + microbatch];
}

/* When the stage that gets what was made of a micro-batch has room for it: once it has done with
   another one, so many places before in its own order. 0: not yet. */
static int64_t TakenAt(const Interleaving *together, int to, bool backward, int64_t microbatch)
{
  RengaSchedule schedule = together->schedule;
  const bool training = together->forwards != NULL;
  const RengaSharing *sharing = RengaScheduleSharing_Private(schedule, to);
  const int64_t room = backward ? RENGA_SCHEDULE_GRADIENTS : together->slots[to] + 1;
  const int64_t place = sharing->turn[microbatch] - room;
  if (place < 0) return 1;
  const int64_t *order =
      RengaScheduleChunk_Private(schedule, to, sharing->owner[microbatch])->order;
  return together->time[training][to * schedule->microbatches + order[place]];
}

/* When all stages have taken what an action of the chunk writes over, which has had so many of its
   kind; 0: not yet. */
static int64_t FreeAt(const Interleaving *together, const RengaScheduleChunk *chunk, bool backward,
                      int64_t done)
{
  RengaSchedule schedule = together->schedule;
  const int64_t places = backward ? RENGA_SCHEDULE_GRADIENTS : together->slots[chunk->stage];
  int64_t last = 1;
  int count = 0;
  if (done < places) return last;
  const int *row = RengaScheduleRows_Private(
      schedule, chunk->stage, backward ? RENGA_ROWS_SEND_BACKWARD : RENGA_ROWS_SEND_FORWARD,
      &count);
  for (int i = 0; i < count && last > 0; i++) {
    const int64_t taken =
        TakenAt(together, schedule->message[row[i]].to, backward, chunk->order[done - places]);
    if (taken == 0 || taken > last) last = taken;
  }
  return last;
}

/* The next action of a seat; false where there is none, or where it has to wait. */
static bool TakeStep(Interleaving *together, int seat)
{
  RengaSchedule schedule = together->schedule;
  const RengaScheduleChunk *chunk = &schedule->chunk[schedule->chunk_of[seat]];
  int64_t *forward = &together->next[0][seat], *backward = &together->next[1][seat];
  if ((together->forwards ? *backward : *forward) == chunk->count) return false;
  const bool back = BackwardIsNext(together, seat, *forward, *backward);
  const int64_t done = back ? *backward : *forward, number = chunk->order[done];
  const int64_t ready = ReadyAt(together, chunk->stage, back, number);
  const int64_t vacant = FreeAt(together, chunk, back, done);
  if (!ready || !vacant) return false;
  if (together->now[seat] < ready) together->now[seat] = ready;
  if (together->now[seat] < vacant) together->now[seat] = vacant;
  together->now[seat]++;
  together->time[back][chunk->stage * schedule->microbatches + number] = together->now[seat];
  ++*(back ? backward : forward);
  return true;
}

static void TimeAll(Interleaving *together)
{
  for (bool moved = true; moved;) {
    moved = false;
    for (int seat = 0; seat < together->schedule->seats; seat++)
      while (TakeStep(together, seat)) moved = true;
  }
}

/* The end of a chunk's forward or backward; what was never done comes last. */
static int64_t EndOf(const Interleaving *together, const RengaScheduleChunk *chunk, bool backward,
                     int64_t microbatch)
{
  const int64_t m = together->schedule->microbatches;
  const int64_t end = together->time[backward][chunk->stage * m + microbatch];
  return end > 0 ? end : NEVER;
}

/* The end of the last backward of all replicas of a stage. */
static int64_t EndOfStage(const Interleaving *together, int stage)
{
  RengaSchedule schedule = together->schedule;
  int64_t last = 0;
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    const RengaScheduleChunk *chunk = RengaScheduleChunk_Private(schedule, stage, r);
    if (chunk->count == 0) continue;
    const int64_t end = EndOf(together, chunk, true, chunk->order[chunk->count - 1]);
    if (end > last) last = end;
  }
  return last;
}

/* The next turn of a chunk that has had so many, and its place among those of all chunks: its time,
   and of one time the sums last. Returns false after the last. */
static bool NextTurn(const Interleaving *together, const RengaScheduleChunk *chunk,
                     const TurnsHad *had, RengaScheduleTurn *turn, int64_t *place)
{
  RengaSchedule schedule = together->schedule;
  const int seat = schedule->first_seat[chunk->stage] + chunk->replica;
  const bool training = together->forwards != NULL;
  if (had->passes[training] == chunk->count) {
    *turn = (RengaScheduleTurn){RENGA_ACTION_REDUCE, chunk, -1};
    *place = 2 * EndOfStage(together, chunk->stage) + 1;
    return training && !had->sums;
  }
  const bool back = BackwardIsNext(together, seat, had->passes[0], had->passes[1]);
  const int64_t number = chunk->order[had->passes[back]];
  *turn = (RengaScheduleTurn){back ? RENGA_ACTION_BACKWARD : RENGA_ACTION_FORWARD, chunk, number};
  *place = 2 * EndOf(together, chunk, back, number);
  return true;
}

static void CountTurn(TurnsHad *had, RengaActionKind kind)
{
  if (kind == RENGA_ACTION_REDUCE)
    had->sums = true;
  else
    had->passes[kind == RENGA_ACTION_BACKWARD]++;
}

/* Of the list's chunks the one whose turn comes first, the earlier stage where two are alike. */
static bool FirstTurn(const Interleaving *together, RengaActionList list, TurnsHad had[],
                      RengaScheduleTurn *first)
{
  int64_t least = 0;
  int found = -1;
  for (int c = 0; c < list->n_chunks; c++) {
    RengaScheduleTurn turn;
    int64_t place;
    if (!NextTurn(together, &list->chunk[c], &had[c], &turn, &place)) continue;
    if (found >= 0 && place >= least) continue;
    found = c;
    least = place;
    *first = turn;
  }
  if (found >= 0) CountTurn(&had[found], first->kind);
  return found >= 0;
}

static RengaErrorCode TakeChunkTurns(Interleaving *together, RengaActionList list, int64_t *count,
                                     RengaScheduleTurn **turns)
{
  TurnsHad *had = NULL;
  int64_t total = 0;
  for (int c = 0; c < list->n_chunks; c++) total += 2 * list->chunk[c].count + 1;
  RengaCall(CreateInterleaving(together));
  RengaCall(RengaMalloc(total + 1, turns));
  RengaCall(RengaMalloc(list->n_chunks, &had));
  FillSlots(together);
  TimeAll(together);
  *count = 0;
  while (FirstTurn(together, list, had, &(*turns)[*count])) ++*count;
  RengaFree(&had);
  return RENGA_SUCCESS;
}

/* turns: to be freed with RengaFree */
RengaErrorCode RengaScheduleInterleave_Private(RengaActionList list, const int64_t forwards[],
                                               int64_t *count, RengaScheduleTurn **turns)
{
  Interleaving together = {.schedule = list->schedule, .forwards = forwards};
  RengaScheduleTurn *made = NULL;
  const RengaErrorCode code = TakeChunkTurns(&together, list, count, &made);
  FreeInterleaving(&together);
  if (code) RengaFree(&made);
  RengaCall(code);
  *turns = made;
  return RENGA_SUCCESS;
}
