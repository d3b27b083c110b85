/* The search from the task to the answer: sizes of micro-batches with their leaves, the smallest
   bounds first; of each the layout that fits, what challenges it, and what changes make it faster;
   last the bound on all. */
#include "kinds.h"
#include "portfolio.h"
#include "solution.h"
#include "rengaschedule.h"
#include <math.h>

enum {
  DEVICES_FEW = 32,       /* of which every number of replicas is looked at */
  IMPROVE_WORK = 5000000, /* actions, about, of all that is tried */
  EAGER_FEW = 1
};
/* Of the best step up to which a tired search challenges what was found in another row, and up to
   which it is gone on from. */
static const double near_fit = 1.03, near_best = 1.02;
/* Of the step that is known from which on what was found is not challenged, and from which on it is
   left as it is: shards may win more, less of short chains. */
static const double behind = 1.15, far_behind_short = 1.4, far_behind = 2.5;

/* A simulated layout instead of what was found. */
static RengaErrorCode TakeImproved(Solution *solution, const SearchLayout *best)
{
  SearchTask task = *solution->task;
  task.schedule = best->schedule;
  task.memory = 0; /* what recomputes is decided */
  RengaSolutionFree_Private(solution);
  solution->layout = *best;
  RengaCall(RengaSolutionWeigh_Private(&task, solution));
  RengaCall(RengaSolutionFindStep_Private(solution));
  return RENGA_SUCCESS;
}

/* In a long problem it is no faster than what is known. */
static bool IsLeftBehind(const Solution *solution, double known)
{
  return known > 0 && solution->step >= known &&
         RengaSearchIsLong_Private(solution->task, solution->chain);
}

/* A plan is known that is so much faster than what was found. */
static bool IsBehind(const Solution *solution, double share)
{
  const double known = solution->task->known;
  return known > 0 && solution->step > share * known;
}

/* So much faster that it is left as it is. */
static bool IsFarBehind(const Solution *solution)
{
  const bool is_short = solution->chain->count <= SEARCH_SHORT;
  return IsBehind(solution, is_short ? far_behind_short : far_behind);
}

/* What the task's searches find, or what its type does, and what challenges it. A tired search does
   that only where it may then be faster than what is known, and is faster than *fit, that of the
   same micro-batches with other leaves; one of a long problem where it is. */
static RengaErrorCode FindBest(Solution *solution, double known, double *fit, bool *fits,
                               bool *slow)
{
  RengaCall(RengaSolutionFit_Private(solution, fits));
  const bool near = known <= 0 || solution->step <= near_fit * known;
  *slow = RengaSearchIsTired_Private(solution->task) &&
          (*fits ? !near || solution->step >= *fit * (1 - 1e-9) : solution->hopeless || known > 0);
  if (*fits) *fit = fmin(*fit, solution->step);
  *slow = *slow || (*fits && IsLeftBehind(solution, solution->task->beat)) ||
          (*fits && IsBehind(solution, behind) && solution->chain->count > SEARCH_SHORT);
  if (!*slow) RengaCall(RengaSolutionChallenge_Private(solution, fits));
  return RENGA_SUCCESS;
}

/* Of one or more rows of a task. */
typedef struct {
  double *bound; /* seconds that no plan of the row is below; NULL: there is none */
  double *fit;   /* the least that was found first of those micro-batches; HUGE_VAL: none was */
} Row;

/* A row of the task, a micro-batch with a leaf, by itself. */
static SearchTask TaskOfRow(const SearchTask *task, int row)
{
  SearchTask own = *task;
  own.size += row;
  own.leaf += row;
  own.costs += row;
  own.n_sizes = own.n_first = 1;
  return own;
}

/* Of a small problem all ways of looking, of others changes to what was found, which only count
   where they are faster than what is known. */
static RengaErrorCode GoOn(Solution *solution, double *bound)
{
  SearchTask task = *solution->task;
  SearchLayout best = {0};
  const bool all =
      RengaSearchIsSmall_Private(&task, solution->chain) && !RengaSearchIsSpent_Private(&task);
  task.wanted.every = true;
  RengaCall(RengaSearchLayoutCopy_Private(&solution->layout, &best));
  best.simulated = solution->step;
  if (task.known > 0 && !all) best.simulated = fmin(best.simulated, task.known);
  const double before = best.simulated;
  const RengaErrorCode code =
      all ? RengaSearchPortfolio_Private(&task, solution->chain, &best, bound)
          : RengaSearchImprove_Private(&task, solution->chain, false, EAGER_FEW, IMPROVE_WORK,
                                       &best);
  const bool faster = !code && best.simulated < before;
  if (!faster) RengaSearchLayoutFree_Private(&best);
  RengaCall(code);
  if (faster) RengaCall(TakeImproved(solution, &best));
  return RENGA_SUCCESS;
}

/* Of two of which 0 is none. */
static double NearestOf(double one, double other)
{
  return one > 0 && (one < other || other <= 0) ? one : other;
}

/* Where there is a bound what is found is gone on from, unless it is far behind what is known. */
static RengaErrorCode FitTask(Solution *solution, const SearchTask *task, const Row *row,
                              bool *fits)
{
  const bool small = RengaSearchIsSmall_Private(task, solution->chain);
  const double beat = small ? 0 : task->beat, found = *fits ? solution->step : 0;
  const double near = NearestOf(beat, RengaSearchIsTired_Private(task) ? near_best * found : 0);
  Solution one = {.task = task, .chain = solution->chain, .beat = near};
  bool one_fits = false, slow = false;
  RengaErrorCode code = FindBest(&one, NearestOf(beat, found), row->fit, &one_fits, &slow);
  const bool others = (task->halves_only && !small) || RengaSearchIsTired_Private(task);
  const double known = NearestOf(beat, others ? found : 0);
  const bool far = (known > 0 && one.step > near_best * known) || IsFarBehind(&one);
  if (!code && one_fits && row->bound && !far && !slow) code = GoOn(&one, row->bound);
  const bool hopeless = one.hopeless;
  RengaSolutionTakeFaster_Private(solution, *fits, &one, one_fits && !code);
  RengaCall(code);
  *fits = *fits || one_fits;
  solution->hopeless = !*fits && (solution->hopeless || hopeless);
  return RENGA_SUCCESS;
}

/* Type exact begins with what type auto finds, so that it is never behind. */
static RengaErrorCode FitExactly(Solution *solution, const SearchTask *task, const Row *row,
                                 bool *fits)
{
  SearchTask quick = *task;
  Row own = *row;
  if (task->finder.find || RengaSearchIsLarge_Private(task, solution->chain)) own.bound = NULL;
  quick.exact = false;
  quick.until = 0;
  RengaCall(FitTask(solution, &quick, &own, fits));
  if (!task->exact || (own.bound && *fits && *own.bound >= solution->step * (1 - 1e-9)))
    return RENGA_SUCCESS;
  own.bound = NULL;
  RengaCall(FitTask(solution, task, &own, fits));
  return RENGA_SUCCESS;
}

/* What is known is no slower than the bound on schedules with whole backwards. */
static RengaErrorCode IsForHalvesOnly(const SearchTask *task, const SearchChain *chain, double step,
                                      bool *only)
{
  SearchTask whole = *task;
  double bound = step;
  *only = false;
  if (!task->any_schedule || task->whole) return RENGA_SUCCESS;
  whole.whole = true;
  RengaCall(RengaSearchBoundOf_Private(&whole, chain, 0, &bound));
  *only = bound >= step * (1 - 1e-9);
  return RENGA_SUCCESS;
}

/* All rows of a task. */
typedef struct {
  double *bound, *fit; /* [rows] as of Row; what was found first */
  bool *done;          /* [rows] */
  double most;         /* rows whose bound is no less are left alone */
} TaskRows;

static RengaErrorCode FitRow(Solution *solution, const TaskRows *rows, int row, bool *fits)
{
  SearchTask task = TaskOfRow(solution->task, row);
  int first = 0;
  while (solution->task->size[first] != task.size[0]) first++;
  const Row own = {.bound = &rows->bound[row], .fit = &rows->fit[first]};
  if (*fits) RengaCall(IsForHalvesOnly(&task, solution->chain, solution->step, &task.halves_only));
  RengaCall(FitExactly(solution, &task, &own, fits));
  return RENGA_SUCCESS;
}

static bool IsFirstLeaf(const SearchTask *task, int row)
{
  for (int r = 0; r < row; r++)
    if (task->size[r] == task->size[row] && task->leaf[r] <= task->leaf[row]) return false;
  return true;
}

/* In each row of the task. */
static RengaErrorCode IsAmpleInAll(const Solution *solution, double step, bool *ample)
{
  *ample = true;
  for (int row = 0; row < solution->task->n_sizes && *ample; row++) {
    const SearchTask task = TaskOfRow(solution->task, row);
    RengaCall(RengaSearchIsAmple_Private(&task, solution->chain, step, ample));
  }
  return RENGA_SUCCESS;
}

/* Larger leaves have fewer buffers of gradients and no other merit, with which other plans fit:
   only those with a bound below *most are looked at. Of small problems they are left alone where
   every plan fits; where every faster one does, they are looked at for a better bound on all, which
   is the smallest of all rows. */
static RengaErrorCode LimitLeaves(const Solution *solution, const double bound[], double *most)
{
  const SearchTask *task = solution->task;
  bool every = false, faster = false;
  *most = solution->step;
  if (RengaSolutionIsShort_Private(solution)) return RENGA_SUCCESS;
  *most = 0;
  if (!RengaSearchIsSmall_Private(task, solution->chain)) return RENGA_SUCCESS;
  RengaCall(IsAmpleInAll(solution, HUGE_VAL, &every));
  if (every) return RENGA_SUCCESS;
  RengaCall(IsAmpleInAll(solution, solution->step, &faster));
  *most = solution->step;
  for (int row = 0; row < task->n_sizes && faster; row++)
    if (IsFirstLeaf(task, row)) *most = fmin(*most, bound[row]);
  return RENGA_SUCCESS;
}

/* The row with the smallest bound of those that are left, -1: none. Of a tired search to which
   nothing fits yet that which needs least: it says what others must be faster than. */
static int NextRow(const Solution *solution, const TaskRows *rows, bool leaves, bool fits)
{
  const int least = RengaSearchSmallestRow_Private(solution->task);
  const bool needy = leaves && !fits && RengaSearchIsTired_Private(solution->task);
  int next = -1;
  if (needy && !rows->done[least]) return least;
  for (int r = 0; r < solution->task->n_sizes; r++)
    if (!rows->done[r] && (next < 0 || rows->bound[r] < rows->bound[next])) next = r;
  return next;
}

/* Rows one after the other, those with the smallest bounds first, and each whose bound leaves it a
   chance: it is below the step, and below most. Without a bound no plan of the row fits, but for
   schedules that bounds are not of, which may hold fewer micro-batches. */
static RengaErrorCode FitEach(Solution *solution, bool leaves, const TaskRows *rows, bool *fits)
{
  const SearchTask *task = solution->task;
  const double *bound = rows->bound;
  const bool bounded = RengaSearchIsBounded_Private(&task->schedule);
  for (int row; (row = NextRow(solution, rows, leaves, *fits)) >= 0;) {
    rows->done[row] = true;
    const double known = fmax(task->beat, task->known);
    const bool slow = known > 0 && bound[row] >= known * (1 - 1e-9);
    solution->hopeless = !*fits && (solution->hopeless || (slow && isfinite(bound[row])));
    if (slow || (bounded && isinf(bound[row]))) continue;
    if (*fits && bound[row] >= fmin(rows->most, solution->step * (1 - 1e-9))) continue;
    if (!leaves && !IsFirstLeaf(task, row)) continue;
    RengaCall(FitRow(solution, rows, row, fits));
  }
  return RENGA_SUCCESS;
}

/* Those of first leaves, then the others. */
static RengaErrorCode FitAllRows(Solution *solution, TaskRows *rows, bool *fits)
{
  const int count = solution->task->n_sizes;
  for (int r = 0; r < count; r++) rows->fit[r] = HUGE_VAL;
  RengaCall(FitEach(solution, false, rows, fits));
  if (*fits) RengaCall(LimitLeaves(solution, rows->bound, &rows->most));
  const bool small = RengaSearchIsSmall_Private(solution->task, solution->chain);
  for (int r = 0; r < count; r++)
    rows->done[r] = IsFirstLeaf(solution->task, r) ||
                    (!small && RengaSearchIsLeafUseless_Private(solution->task, r));
  RengaCall(FitEach(solution, true, rows, fits));
  return RENGA_SUCCESS;
}

static RengaErrorCode FitRows(Solution *solution, double bound[], bool *fits)
{
  const SearchTask *task = solution->task;
  TaskRows rows = {.bound = bound, .most = HUGE_VAL};
  const bool together = RengaSearchIsLarge_Private(task, solution->chain) && task->n_sizes > 1;
  double fit = HUGE_VAL, least = HUGE_VAL;
  for (int r = 0; r < task->n_sizes; r++) {
    bound[r] = together && !task->exact ? least : HUGE_VAL; /* the least is all that is needed */
    RengaCall(RengaSearchBoundOf_Private(task, solution->chain, r, &bound[r]));
    least = fmin(least, bound[r]);
  }
  if (together) {
    RengaCall(FitExactly(solution, task, &(Row){.fit = &fit}, fits));
    return RENGA_SUCCESS;
  }
  RengaErrorCode code = RengaMalloc(task->n_sizes, &rows.done);
  if (!code) code = RengaMalloc(task->n_sizes, &rows.fit);
  if (!code) code = FitAllRows(solution, &rows, fits);
  RengaFree(&rows.done);
  RengaFree(&rows.fit);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All layouts of a row that may be faster are simulated, as far as time goes. */
static RengaErrorCode LookAtRest(Solution *solution, int row, double *bound)
{
  SearchTask task = TaskOfRow(solution->task, row);
  SearchLayout best = {.simulated = solution->step};
  task.wanted.every = true;
  int64_t work = 0;
  RengaCall(RengaSearchBranch_Private(&task, solution->chain, &work, &best, bound));
  if (!best.count) return RENGA_SUCCESS;
  RengaCall(TakeImproved(solution, &best));
  return RENGA_SUCCESS;
}

/* Bounds of the searches themselves are under estimates of memory and of some layouts: these are of
   all. */
static RengaErrorCode FindProvedBound(Solution *solution, double bound[])
{
  const SearchTask *task = solution->task;
  double least = solution->step;
  for (int r = 0; r < task->n_sizes && task->exact && task->ranks <= DEVICES_FEW; r++)
    if (bound[r] < solution->step * (1 - 1e-9)) RengaCall(LookAtRest(solution, r, &bound[r]));
  for (int r = 0; r < task->n_sizes; r++) least = fmin(least, bound[r]);
  solution->bound = fmin(least, solution->step);
  solution->proved = least >= solution->step * (1 - 1e-9);
  return RENGA_SUCCESS;
}

/* What is looked for, first in the rows of the task and then in those on which results depend and
   which nobody asked for, where nothing fits in the others. */
typedef struct {
  SearchTask first, all;
  bool known; /* a plan that fits: the search itself needs to find none */
} RowsWanted;

/* What would fit, by estimate, is no faster than a plan of another number of tensor ranks. */
static bool IsBeaten(const Solution *solution)
{
  return fmax(solution->task->beat, solution->task->known) > 0 && solution->hopeless;
}

/* Something fits in the sizes that are wanted first, if it is too slow: others, which change
   results, are not for it. */
static bool IsSlowThere(const Solution *solution, bool fits)
{
  return !fits && IsBeaten(solution);
}

static RengaErrorCode LookInRows(Solution *solution, const RowsWanted *wanted, double bound[],
                                 bool *fits)
{
  const SearchTask *all = &wanted->all;
  const bool needed = !wanted->known;
  *fits = false;
  solution->task = &wanted->first;
  RengaCall(FitRows(solution, bound, fits));
  if (!*fits && needed && !IsBeaten(solution) && all->n_sizes > wanted->first.n_sizes) {
    solution->task = all;
    RengaCall(FitRows(solution, bound, fits));
  }
  if (!*fits && needed && !IsBeaten(solution))
    RengaCall(RengaSolutionSqueeze_Private(solution, fits));
  if (*fits) RengaCall(FindProvedBound(solution, bound));
  return RENGA_SUCCESS;
}

/* The faster of both, under a bound on the plans of either; where neither fits, what is refused is
   what needs less. */
static void TakeSharded(Solution *solution, bool *fits, const double bound[], Solution *sharded,
                        bool sharded_fits)
{
  const SearchTask *task = sharded->task;
  const bool taken = sharded_fits ? !*fits || sharded->step < solution->step : !*fits;
  double least = *fits ? solution->bound : HUGE_VAL;
  for (int r = 0; !*fits && r < solution->task->n_sizes; r++) least = fmin(least, bound[r]);
  least = fmin(least, sharded->bound);
  RengaSolutionTakeFaster_Private(solution, *fits, sharded, sharded_fits);
  if (taken) solution->task = task;
  *fits = *fits || sharded_fits;
  solution->bound = fmin(least, solution->step);
  solution->proved = least >= solution->step * (1 - 1e-9);
  solution->shards_too = true;
}

/* Stages may share more where nothing fits otherwise, memory is short or asks for many, or sums and
   updates take long. */
static RengaErrorCode ShardWhereShort(Solution *solution, RowsWanted *sharded, const double bound[],
                                      bool *fits)
{
  Solution other = {.chain = solution->chain};
  double *other_bound = NULL;
  bool other_fits = false;
  if (sharded->all.shards.least == sharded->all.shards.most || sharded->all.memory <= 0)
    return RENGA_SUCCESS;
  if (*fits && !RengaSolutionWantsShares_Private(solution)) return RENGA_SUCCESS;
  const bool tired = *fits && RengaSearchIsTired_Private(&sharded->all);
  sharded->known = tired || IsSlowThere(solution, *fits);
  if (tired) sharded->first.beat = sharded->all.beat = solution->step;
  RengaCall(RengaMalloc(sharded->all.n_sizes, &other_bound));
  for (int r = 0; r < sharded->all.n_sizes; r++) other_bound[r] = HUGE_VAL;
  const RengaErrorCode code = LookInRows(&other, sharded, other_bound, &other_fits);
  if (!other_fits) other.bound = HUGE_VAL;
  for (int r = 0; r < sharded->all.n_sizes; r++) other.bound = fmin(other.bound, other_bound[r]);
  RengaFree(&other_bound);
  if (code) RengaSolutionFree_Private(&other);
  RengaCall(code);
  const bool slow = solution->hopeless || other.hopeless;
  TakeSharded(solution, fits, bound, &other, other_fits);
  solution->hopeless = !*fits && slow;
  return RENGA_SUCCESS;
}

/* Where nothing fits by estimate of either level each is looked at by itself: estimates do not say
   which takes less. */
static RengaErrorCode LookInFolding(Solution *solution, RowsWanted *folding, double bound[],
                                    bool *fits)
{
  const SearchShards both = folding->all.shards;
  RengaCall(LookInRows(solution, folding, bound, fits));
  for (int level = both.least; level <= (int)both.most && !*fits; level++) {
    if (folding->known || IsBeaten(solution)) break;
    RengaSolutionFree_Private(solution);
    folding->first.shards.least = folding->first.shards.most = (RengaShard)level;
    folding->all.shards = folding->first.shards;
    RengaCall(LookInRows(solution, folding, bound, fits));
    folding->all.shards = folding->first.shards = both;
    if (*fits)
      RengaCall(RengaSolutionLeastBound_Private(solution->task, solution->chain, &solution->bound));
  }
  return RENGA_SUCCESS;
}

/* Then also gradients and parameters. */
static RengaErrorCode FoldWhereShort(Solution *solution, RowsWanted *folding, bool *fits)
{
  Solution other = {.chain = solution->chain};
  double *bound = NULL;
  bool other_fits = false;
  if (!folding->all.folds || folding->all.memory <= 0) return RENGA_SUCCESS;
  if (*fits && !RengaSolutionWantsShares_Private(solution)) return RENGA_SUCCESS;
  folding->known = *fits || IsSlowThere(solution, *fits);
  if (*fits) folding->first.beat = folding->all.beat = solution->step;
  RengaCall(RengaMalloc(folding->all.n_sizes, &bound));
  RengaErrorCode code = LookInFolding(&other, folding, bound, &other_fits);
  RengaFree(&bound);
  const bool slow = solution->hopeless || other.hopeless;
  if (!code) code = RengaSolutionTakeFolding_Private(solution, fits, &other, other_fits);
  if (code) RengaSolutionFree_Private(&other);
  RengaCall(code);
  solution->hopeless = !*fits && slow;
  return RENGA_SUCCESS;
}

/* wanted: with the least shards that stages may have; then with any of the optimizer; then with
   those of gradients and parameters. */
static RengaErrorCode FitAll(Solution *solution, RowsWanted wanted[3], double bound[], bool *beaten)
{
  const double beat = wanted[0].all.beat;
  bool fits;
  RengaCall(LookInRows(solution, &wanted[0], bound, &fits));
  if (fits && IsFarBehind(solution)) return RENGA_SUCCESS;
  RengaCall(ShardWhereShort(solution, &wanted[1], bound, &fits));
  RengaCall(FoldWhereShort(solution, &wanted[2], &fits));
  *beaten = fits ? IsLeftBehind(solution, beat) : IsBeaten(solution);
  if (fits && !*beaten) RengaCall(RengaSolutionShareLess_Private(solution));
  if (!fits && !*beaten)
    RengaCall(RengaSearchRefuse_Private(solution->task, wanted[2].all.folds ? &wanted[2].all : NULL,
                                        solution->chain));
  return RENGA_SUCCESS;
}

static RengaErrorCode Fit(Solution *solution, RowsWanted wanted[3], bool *beaten)
{
  double *bound = NULL;
  RengaCall(RengaMalloc(wanted->all.n_sizes, &bound));
  const RengaErrorCode code = FitAll(solution, wanted, bound, beaten);
  RengaFree(&bound);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeGiven(Solution *solution)
{
  RengaCall(RengaSolutionTake_Private(solution));
  double bound = HUGE_VAL;
  if (solution->layout.chunks > 1 || solution->task->lanes.ranks > 1 ||
      !RengaSearchIsBounded_Private(&solution->model.schedule)) {
    solution->bound = 0;
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchBoundOf_Private(solution->task, solution->chain, 0, &bound));
  RengaCall(FindProvedBound(solution, &bound));
  if (!isfinite(bound)) solution->bound = 0; /* it is over the memory */
  return RENGA_SUCCESS;
}

static RowsWanted FoldingRowsOf(const SearchTask *task)
{
  RowsWanted wanted = {.all = RengaSearchFoldingTask_Private(task)};
  wanted.first = wanted.all;
  wanted.first.n_sizes = task->n_first;
  return wanted;
}

static RowsWanted RowsWantedOf(const SearchTask *task, RengaShard most)
{
  RowsWanted wanted = {.first = *task, .all = *task};
  wanted.first.shards.most = wanted.all.shards.most = most;
  wanted.first.n_sizes = task->n_first;
  return wanted;
}

/* In a large problem what was found is tried with backwards in two parts, which the search did
   without; where they are faster the bound is of them too. */
static RengaErrorCode HalveAtLast(Solution *solution, SearchTask *all)
{
  bool taken = false;
  double least = HUGE_VAL, other = HUGE_VAL;
  if (!solution->task->whole || solution->task->given) return RENGA_SUCCESS;
  RengaCall(RengaSolutionHalve_Private(solution, &taken));
  if (!taken) return RENGA_SUCCESS;
  *all = *solution->task;
  all->whole = false;
  solution->task = all;
  const SearchTask open = RengaSearchOpenTask_Private(all);
  RengaCall(RengaSolutionLeastBound_Private(all, solution->chain, &least));
  if (solution->folds_too)
    RengaCall(RengaSolutionLeastBound_Private(&open, solution->chain, &other));
  least = fmin(least, other);
  solution->bound = fmin(least, solution->step);
  solution->proved = least >= solution->step * (1 - 1e-9);
  return RENGA_SUCCESS;
}

/* Of a small problem all is looked for once more in the order of type auto, with the micro-batches
   and leaves that were found. */
static RengaErrorCode LookInOrder(const Solution *solution, Solution *other, bool *fits)
{
  const int row = RengaSearchRowOf_Private(solution->task, &solution->layout);
  RowsWanted wanted = {.first = TaskOfRow(solution->task, row), .known = true};
  double *bound = NULL;
  wanted.first.any_schedule = false;
  wanted.first.schedule = (SearchSchedule){.type = RENGA_SCHEDULE_AUTO};
  wanted.all = wanted.first;
  RengaCall(RengaMalloc(wanted.all.n_sizes, &bound));
  const RengaErrorCode code = LookInRows(other, &wanted, bound, fits);
  RengaFree(&bound);
  other->task = solution->task;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The stages that were found in that order, or others, where they are faster. */
static RengaErrorCode OrderAtLast(Solution *solution)
{
  Solution other = RengaSolutionBeside_Private(solution);
  bool fits = false;
  RengaCall(RengaSolutionOrder_Private(solution));
  if (!RengaSolutionMayOrder_Private(solution) ||
      !RengaSearchIsSmall_Private(solution->task, solution->chain))
    return RENGA_SUCCESS;
  const RengaErrorCode code = LookInOrder(solution, &other, &fits);
  if (!code && fits) RengaSolutionTakeOrder_Private(solution, &other);
  RengaSolutionFree_Private(&other);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveOn(const SearchChain *chain, SearchTask *task, bool *over,
                              SearchAnswer *answer)
{
  SearchTask all;
  answer->work = chain->least;
  task->whole = task->any_schedule && !task->given && RengaSearchIsLarge_Private(task, chain);
  *over = false;
  const RengaShard first = task->given ? task->shards.most : task->shards.least;
  RowsWanted wanted[] = {RowsWantedOf(task, first), RowsWantedOf(task, task->shards.most),
                         FoldingRowsOf(task)};
  Solution solution = {.task = &wanted->first, .chain = chain};
  RengaErrorCode code =
      task->given ? TakeGiven(&solution) : Fit(&solution, wanted, &answer->beaten);
  answer->first = solution.step;
  if (code || answer->beaten) RengaSolutionFree_Private(&solution);
  RengaCall(code);
  if (answer->beaten) return RENGA_SUCCESS;
  code = HalveAtLast(&solution, &all);
  if (!code && task->unit > 1)
    code = RengaSolutionBoundBare_Private(&solution, task->whole_costs, task->shards.most);
  if (!RengaSearchIsBounded_Private(&task->schedule)) solution.bound = 0;
  if (task->kinds && solution.bound > 0)
    solution.bound = fmin(solution.step, fmax(solution.bound, chain->least * (1 - 1e-9)));
  if (!code) code = OrderAtLast(&solution);
  if (!code) code = RengaSolutionChunk_Private(&solution, &wanted[1].all);
  solution.leaves_shards = task->given ? task->shards.most == RENGA_SHARD_NOTHING
                                       : first < task->shards.most && !solution.shards_too;
  if (!code) code = RengaSolutionAskAll_Private(&solution, over);
  answer->beaten = *over && IsBehind(&solution, 1);
  *over = *over && !answer->beaten;
  if (!code && !*over && !answer->beaten) code = RengaSolutionAnswer_Private(&solution, answer);
  RengaSolutionFree_Private(&solution);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where what was found fits some tensor ranks alone all of them are asked in the search, too. */
static RengaErrorCode SolveForAllRanks(const SearchChain *chain, SearchTask *task,
                                       SearchAnswer *answer)
{
  SearchTask own = *task;
  bool over = false;
  RengaCall(SolveOn(chain, &own, &over, answer));
  task->run.fullest = false;
  if (over) RengaCall(SolveOn(chain, task, &over, answer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchSolve_Private(const SearchTask *task, SearchAnswer *answer)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  struct SearchSession session = {0};
  SearchTask own = *task;
  SearchChain chain = {0};
  if (!own.session) own.session = &session;
  if (task->exact && task->time_limit > 0) own.until = MPI_Wtime() + task->time_limit;
  *answer = (SearchAnswer){0};
  RengaProfileCost **costs = NULL, **before = NULL;
  RengaErrorCode code = RengaSearchChainCreate_Private(task->graph, task->all, &chain);
  if (!RengaSearchIsLong_Private(task, &chain)) own.beat = 0;
  if (!code) code = RengaSearchCutsCreate_Private(&own.cuts);
  if (!code && task->unit > 1) code = RengaSearchKeepCosts_Private(task, &costs);
  own.whole_costs = costs;
  if (!code && task->kinds) code = RengaSearchKeepCosts_Private(task, &before);
  if (!code) code = RengaSearchSpareTables_Private(task, &chain);
  if (!code && before) RengaSearchKindsFollow_Private(task, before);
  if (!code) code = RengaSearchShareLanes_Private(&own, &chain);
  if (!code && before) RengaSearchKindsFollow_Private(task, before);
  if (!code) code = SolveForAllRanks(&chain, &own, answer);
  if (forecast) forecast->end(&session.forecasts);
  RengaSearchCutsFree_Private(&own.cuts);
  RengaSearchChainFree_Private(&chain);
  RengaSearchFreeCosts_Private(task, &costs);
  RengaSearchFreeCosts_Private(task, &before);
  if (code) RengaSearchAnswerFree_Private(answer);
  RengaCall(code);
  return RENGA_SUCCESS;
}
