/* All ranks' actions in one sequence in which none comes before what it waits for. It follows from
   the lists alone, so it is made once, when a schedule is first simulated, and each simulation is
   one walk along it. The actions of a rank, and the sums of a stage, keep their order. */
#include "scheduleimpl.h"

typedef struct {
  RengaSchedule schedule;
  int64_t *next;     /* [rank] place in its list */
  bool *sent;        /* [message][micro-batch] */
  int *first_bucket; /* [stage + 1] */
  int *come;         /* [bucket][RENGA_SUM_KINDS] replicas that came to it */
  int *open;         /* [stage] sums that some replica came to, and not all */
} Ordering;

static RengaErrorCode AllocateOrdering(Ordering *ordering)
{
  RengaSchedule schedule = ordering->schedule;
  RengaCall(RengaMalloc(schedule->ranks, &ordering->next));
  RengaCall(RengaMalloc(schedule->n_messages * schedule->microbatches + 1, &ordering->sent));
  RengaCall(RengaMalloc(schedule->stages + 1, &ordering->first_bucket));
  for (int s = 0; s < schedule->stages; s++)
    ordering->first_bucket[s + 1] = ordering->first_bucket[s] + schedule->buckets[s];
  RengaCall(
      RengaMalloc(RENGA_SUM_KINDS * ordering->first_bucket[schedule->stages], &ordering->come));
  RengaCall(RengaMalloc(schedule->stages, &ordering->open));
  return RENGA_SUCCESS;
}

static void FreeOrdering(Ordering *ordering)
{
  RengaFree(&ordering->next);
  RengaFree(&ordering->sent);
  RengaFree(&ordering->first_bucket);
  RengaFree(&ordering->come);
  RengaFree(&ordering->open);
}

/* True for the last replica. Nothing of the list waits for a gather of parameters. */
static bool ComeToSum(Ordering *ordering, const RengaAction *action, int64_t *place)
{
  const RengaSumKind kind = RengaScheduleSumOf_Private(action->kind);
  const int stage = action->stage, all = ordering->schedule->replicas[stage];
  const int counts = kind != RENGA_SUM_PARAMETERS;
  *place = RENGA_SUM_KINDS * (ordering->first_bucket[stage] + action->bucket) + (int)kind;
  if (ordering->come[*place]++ == 0) ordering->open[stage] += counts;
  if (ordering->come[*place] < all) return false;
  ordering->open[stage] -= counts;
  return true;
}

static bool SumsAreBegun(const Ordering *ordering, int rank)
{
  const RengaActionList list = &ordering->schedule->list[rank];
  for (int c = 0; c < list->n_chunks; c++)
    if (ordering->open[list->chunk[c].stage] > 0) return false;
  return true;
}

/* The rank's next action as a row; false where it has to wait. */
static bool TakeNext(Ordering *ordering, int rank, RengaSequenceRow *row)
{
  RengaSchedule schedule = ordering->schedule;
  const RengaAction *action = &schedule->list[rank].action[ordering->next[rank]];
  *row = (RengaSequenceRow){
      .kind = action->kind, .rank = rank, .stage = action->stage, .action = action};
  switch (action->kind) {
  case RENGA_ACTION_RECEIVE:
  case RENGA_ACTION_SEND:
    row->place = action->message * schedule->microbatches + action->microbatch;
    if (action->kind == RENGA_ACTION_SEND) ordering->sent[row->place] = true;
    if (!ordering->sent[row->place]) return false;
    break;
  case RENGA_ACTION_REDUCE:
  case RENGA_ACTION_GATHER:
  case RENGA_ACTION_GATHER_PARAMETERS:
    row->last = ComeToSum(ordering, action, &row->place);
    break;
  case RENGA_ACTION_UPDATE:
    if (!SumsAreBegun(ordering, rank)) return false;
    break;
  default:
    break;
  }
  ordering->next[rank]++;
  return true;
}

/* Returns how many: all, of lists that can be proved. */
static int64_t TakeActions(Ordering *ordering, RengaSequenceRow rows[])
{
  RengaSchedule schedule = ordering->schedule;
  RengaSequenceRow *row = rows;
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < schedule->ranks; r++)
      while (ordering->next[r] < schedule->list[r].n_actions && TakeNext(ordering, r, row)) {
        row++;
        moved = true;
      }
  }
  return row - rows;
}

/* The proof says why; lists of provedtypes.c come here without it. */
static RengaErrorCode RefuseLists(RengaSchedule schedule)
{
  RengaCall(RengaScheduleProve_Private(schedule));
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN, "schedule %s: its lists wait for ever",
             schedule->hdr.type_name);
}

RengaErrorCode RengaScheduleMakeSequence_Private(RengaSchedule schedule)
{
  Ordering ordering = {.schedule = schedule};
  int64_t count = 0;
  RengaSequenceRow *row = NULL;
  if (schedule->sequence) return RENGA_SUCCESS;
  for (int r = 0; r < schedule->ranks; r++) count += schedule->list[r].n_actions;
  RengaErrorCode code = AllocateOrdering(&ordering);
  if (!code) code = RengaMalloc(count + 1, &row);
  if (!code && TakeActions(&ordering, row) < count) code = RefuseLists(schedule);
  if (code) RengaFree(&row);
  FreeOrdering(&ordering);
  RengaCall(code);
  schedule->sequence = row;
  schedule->n_sequence = count;
  return RENGA_SUCCESS;
}
