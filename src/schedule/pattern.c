/* Lists of all replicas from a pattern. */
#include "pattern.h"

RengaErrorCode RengaPatternCreate_Private(int across, int64_t turns, RengaPattern **pattern)
{
  RengaPattern *made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->across = across;
  made->turns = turns;
  const RengaErrorCode code = RengaMalloc(across, &made->list);
  if (code) RengaFree(&made);
  RengaCall(code);
  *pattern = made;
  return RENGA_SUCCESS;
}

void RengaPatternFree_Private(RengaPattern **pattern)
{
  for (int r = 0; *pattern && r < (*pattern)->across; r++) RengaFree(&(*pattern)->list[r].row);
  if (*pattern) RengaFree(&(*pattern)->list);
  RengaFree(pattern);
}

RengaErrorCode RengaPatternAdd_Private(RengaPattern *pattern, int at, RengaActionKind kind,
                                       int stage, int64_t turn)
{
  RengaPatternList *list = &pattern->list[at];
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 64;
    RengaCall(RengaRealloc(list->capacity, &list->row));
  }
  list->row[list->count++] = (RengaPatternRow){kind, stage, turn};
  return RENGA_SUCCESS;
}

int64_t RengaScheduleMostTurns_Private(RengaSchedule schedule)
{
  int64_t most = 0;
  for (int c = 0; c < schedule->seats; c++)
    if (schedule->chunk[c].count > most) most = schedule->chunk[c].count;
  return most;
}

/* The stages of a rank are one replica's, and lie in a round, or as a wave. */
static bool LiesSo(const RengaActionList list, int across, bool wave)
{
  const RengaScheduleChunk *chunk = list->chunk;
  for (int c = 0; c < list->n_chunks; c++)
    if (chunk[c].replica != chunk->replica || chunk[c].stage / across != c ||
        RengaScheduleFirstOf_Private(wave, across, chunk[c].stage) != chunk->stage)
      return false;
  return true;
}

static bool AllLieSo(RengaSchedule schedule, int across, bool wave)
{
  const int chunks = schedule->stages / across;
  for (int r = 0; r < schedule->ranks; r++)
    if (schedule->list[r].n_chunks != chunks || !LiesSo(&schedule->list[r], across, wave))
      return false;
  return true;
}

RengaErrorCode RengaScheduleFindPlaces_Private(RengaSchedule schedule, int *across, bool *wave)
{
  const char *type = schedule->hdr.type_name;
  for (int s = 1; s < schedule->stages; s++)
    RengaCheck(
        schedule->replicas[s] == schedule->replicas[0], MPI_COMM_SELF, RENGA_ERR_PLAN,
        "schedule %s has as many replicas of all stages, but stage 0 has %d and stage %d has "
        "%d: take gpipe, 1f1b, zb-h1 or zb-h2, or give -layout_data",
        type, schedule->replicas[0], s, schedule->replicas[s]);
  const int ranks = schedule->ranks / schedule->replicas[0];
  RengaCheck(
      schedule->stages % ranks == 0 &&
          (AllLieSo(schedule, ranks, false) || AllLieSo(schedule, ranks, true)),
      MPI_COMM_SELF, RENGA_ERR_PLAN,
      "schedule %s has stages s, s + %d, … of one replica on each rank, or r and %d - r: the "
      "ranks of this plan have others",
      type, ranks, 2 * ranks - 1);
  *across = ranks;
  *wave = !AllLieSo(schedule, ranks, false);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleWantPlaces_Private(RengaSchedule schedule, bool wanted, int chunks)
{
  const char *type = schedule->hdr.type_name;
  int across;
  bool wave;
  RengaCall(RengaScheduleFindPlaces_Private(schedule, &across, &wave));
  const int own = schedule->stages / across;
  RengaCheck(!chunks || own == chunks, MPI_COMM_SELF, RENGA_ERR_PLAN,
             "schedule %s has %d virtual stages per rank, but here are %d: give -layout_chunks %d",
             type, chunks, own, chunks);
  RengaCheck(
      across == 1 || own == 1 || wave == wanted, MPI_COMM_SELF, RENGA_ERR_PLAN,
      "schedule %s has stages 0 and %d on one rank, but here these are stages 0 and %d: plan "
      "with -schedule_type %s",
      type, wanted ? 2 * across - 1 : across, wanted ? across : 2 * across - 1, type);
  return RENGA_SUCCESS;
}

/* A chunk while its list is filled. */
typedef struct {
  int64_t last; /* place of its last row in the pattern */
  int sums;     /* chunk whose sums come at this place among those of the rank's */
  bool done;    /* all gradients of parameters are there */
} PatternChunk;

/* Sums of all replicas come in one order, that of the pattern's last rows. */
static void OrderSums(const RengaActionList list, const RengaPatternList *rows, int across,
                      PatternChunk chunk[])
{
  for (int c = 0; c < list->n_chunks; c++) chunk[c] = (PatternChunk){.last = -1, .sums = c};
  for (int64_t i = 0; i < rows->count; i++) chunk[rows->row[i].stage / across].last = i;
  for (int c = 0; c < list->n_chunks; c++) chunk[c].done = list->chunk[c].count == 0;
  for (int i = 1; i < list->n_chunks; i++)
    for (int j = i; j > 0 && chunk[chunk[j].sums].last < chunk[chunk[j - 1].sums].last; j--) {
      const int swapped = chunk[j].sums;
      chunk[j].sums = chunk[j - 1].sums;
      chunk[j - 1].sums = swapped;
    }
}

/* Those whose turn has come; returns the place of the first that is left. */
static int PutSums(RengaActionList list, const PatternChunk chunk[], int next)
{
  for (; next < list->n_chunks && chunk[chunk[next].sums].done; next++)
    RengaActionListAppendSums_Private(list, &list->chunk[chunk[next].sums]);
  return next;
}

/* A stage that recomputes has room for one micro-batch, and does whole backwards. */
static void PutRow(RengaActionList list, const RengaPatternRow *row, int across,
                   PatternChunk chunk[])
{
  const int c = row->stage / across;
  const RengaScheduleChunk *own = &list->chunk[c];
  const bool whole = list->schedule->recompute[row->stage];
  RengaActionKind kind = row->kind;
  if (whole && kind == RENGA_ACTION_BACKWARD_WEIGHT) return;
  if (whole && kind == RENGA_ACTION_BACKWARD_INPUT) kind = RENGA_ACTION_BACKWARD;
  RengaActionListAppend_Private(list, kind, own, own->order[row->turn]);
  chunk[c].done = row->turn == own->count - 1 &&
                  (kind == RENGA_ACTION_BACKWARD || kind == RENGA_ACTION_BACKWARD_WEIGHT);
}

static RengaErrorCode FillFromPattern(RengaActionList list, const RengaPattern *pattern, int at)
{
  const RengaPatternList *rows = &pattern->list[at];
  PatternChunk *chunk = NULL;
  RengaCall(RengaActionListReserve_Private(list));
  RengaCall(RengaMalloc(list->n_chunks, &chunk));
  OrderSums(list, rows, pattern->across, chunk);
  int next = 0;
  for (int64_t i = 0; i < rows->count; i++) {
    const RengaPatternRow *row = &rows->row[i];
    if (row->turn >= list->chunk[row->stage / pattern->across].count) continue;
    PutRow(list, row, pattern->across, chunk);
    next = PutSums(list, chunk, next);
  }
  PutSums(list, chunk, next);
  RengaFree(&chunk);
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleFillPattern_Private(RengaSchedule schedule, int rank,
                                                RengaActionList list)
{
  (void)rank;
  if (!schedule->given && !schedule->pattern)
    RengaCall(schedule->ops->draw(schedule, &schedule->pattern));
  RengaCall(FillFromPattern(list, schedule->given ? schedule->given : schedule->pattern,
                            list->chunk->stage));
  return RENGA_SUCCESS;
}
