/* Covering the chain under a bound of what each stage may cost: proofs, and layouts with any
   numbers of replicas.

   A stage's share is its rounds, reduction and update. Without what the cuts cost, and with the
   memory of one micro-batch in flight, a part of a stage that fits under a bound fits too; then it
   is best to make each stage as long as
number of replicas (two pointers). If that is more than there are, no layout reaches the
   bound. */
#include "search.h"
#include <math.h>
#include <string.h>

enum {
  PROBES = 48,
  PROBES_FEW = 14,
  WORK_WANTED = 1 << 20,
  GROUPS = 14,
  CHAIN_LONG = 20000,
  STEPS_BACK = 20,
  FRONT_MOST = 6
};
static const double precision = 1e-6;

typedef struct {
  const SearchModel *model;
  int stages; /* at least */
  int n_options;
  const SearchOption *option;
  int *devices; /* [count + 1] fewest that cover the places before */
  int *pointer; /* [n_options] */
} Proof;

static bool FitsAtLeast(const SearchModel *model, const SearchOption *option, int begin, int end,
                        double bound)
{
  if (RengaSearchLeastShare_Private(model, option, begin, end) > bound) return false;
  return model->memory <= 0 ||
         RengaSearchLeastBytes_Private(model, option, begin, end) <= model->memory;
}

/* All micro-batches of the stage, after its lead. */
static bool LeadFits(const SearchModel *model, const SearchOption *option, int begin, int end,
                     double bound)
{
  return FitsAtLeast(model, option, begin, end, bound - model->lead[begin]);
}

static bool CanCover(Proof *proof, double bound)
{
  const SearchModel *model = proof->model;
  const int none = model->devices + 1;
  memset(proof->pointer, 0, (size_t)proof->n_options * sizeof *proof->pointer);
  proof->devices[0] = 0;
  for (int end = 1; end <= model->count; end++) {
    int fewest = none;
    for (int o = 0; o < proof->n_options; o++) {
      const SearchOption *option = &proof->option[o];
      int *begin = &proof->pointer[o];
      if (*begin < end - model->count + proof->stages - 1)
        *begin = end - model->count + proof->stages - 1;
      while (*begin < end && !LeadFits(model, option, *begin, end, bound)) ++*begin;
      if (*begin < end && proof->devices[*begin] + option->replicas < fewest)
        fewest = proof->devices[*begin] + option->replicas;
    }
    proof->devices[end] = fewest;
    if (fewest == none) return false;
  }
  return true;
}

/* The largest bound that is known to be out of reach; HUGE_VAL: every one. */
static double LeastShare(Proof *proof)
{
  double low = 0, high = fmax(RengaSearchWork_Private(proof->model), 1e-12);
  if (!CanCover(proof, HUGE_VAL)) return HUGE_VAL;
  if (CanCover(proof, 0)) return 0;
  while (!CanCover(proof, high)) low = high, high *= 4;
  const bool few = (int64_t)proof->model->count * proof->model->n_options <= WORK_WANTED;
  for (int probe = 0; probe < (few ? PROBES : PROBES_FEW) && high - low > precision * high;
       probe++) {
    const double middle = low + (high - low) / 2;
    if (CanCover(proof, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}

/* Few rows that are no worse than those they stand for: fewest replicas, fewest rounds. Replicas of
   a row differ by a factor at the most, by none where all rows are few enough. */
static RengaErrorCode GroupOptions(const SearchModel *model, int *count, SearchOption **group)
{
  const bool few = (int64_t)model->count * model->n_options <= WORK_WANTED;
  const double factor = few ? 1 : pow(model->devices, 1.0 / GROUPS);
  int n = 0;
  RengaCall(RengaMalloc(model->n_options + 1, group));
  for (int i = 0; i < model->n_options;) {
    SearchOption *row = &(*group)[n++];
    *row = model->option[i];
    for (i++; i < model->n_options && model->option[i].replicas <= factor * row->replicas; i++) {
      const SearchOption *option = &model->option[i];
      row->rounds = option->rounds < row->rounds ? option->rounds : row->rounds;
      row->buffers = option->buffers < row->buffers ? option->buffers : row->buffers;
      row->reduce_latency = fmin(row->reduce_latency, option->reduce_latency);
      row->reduce_rate = fmin(row->reduce_rate, option->reduce_rate);
    }
  }
  *count = n;
  return RENGA_SUCCESS;
}

/* Work per second of rounds of one stage. */
static double OwnCapacity(const SearchOption *option)
{
  return option->rounds > 1 ? 1.0 / (double)(option->rounds - 1) : HUGE_VAL;
}

RengaErrorCode RengaSearchCapacity_Private(const SearchModel *model, double **capacity)
{
  double *most = NULL;
  RengaCall(RengaMalloc(model->devices + 1, &most));
  for (int d = 1; d <= model->devices; d++) {
    most[d] = most[d - 1];
    for (int o = 0; o < model->n_options && model->option[o].replicas <= d; o++) {
      const SearchOption *option = &model->option[o];
      const double own = OwnCapacity(option);
      most[d] = fmax(most[d], model->unequal ? own + most[d - option->replicas]
                                             : own * (d / option->replicas));
    }
  }
  *capacity = most;
  return RENGA_SUCCESS;
}

/* Layouts of equal replicas are bounded one number at a time. */
static double LargestBound(Proof *proof, int n_options, const SearchOption options[])
{
  double best = HUGE_VAL;
  proof->n_options = proof->model->unequal ? n_options : 1;
  for (int o = 0; o < (proof->model->unequal ? 1 : n_options); o++) {
    proof->option = options + o;
    best = fmin(best, LeastShare(proof));
  }
  return best;
}

/* Options whose rounds are all micro-batches rather than all but one. */
static RengaErrorCode WholeOptions(const SearchModel *model, SearchOption **options)
{
  RengaCall(RengaMalloc(model->n_options + 1, options));
  for (int o = 0; o < model->n_options; o++) {
    (*options)[o] = model->option[o];
    (*options)[o].rounds++;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchBound_Private(const SearchModel *model, int stages, double *seconds)
{
  SearchModel whole = *model;
  Proof proof = {.model = &whole, .stages = stages};
  SearchOption *group = NULL;
  double *capacity = NULL;
  int count = 0;
  whole.option = NULL;
  RengaErrorCode code = WholeOptions(model, &whole.option);
  if (!code) code = GroupOptions(&whole, &count, &group);
  if (!code) code = RengaMalloc(model->count + 1, &proof.devices);
  if (!code) code = RengaMalloc(count + 1, &proof.pointer);
  if (!code) code = RengaSearchCapacity_Private(&whole, &capacity);
  if (!code) {
    const double rounds = RengaSearchWork_Private(model) / capacity[model->devices];
    *seconds = fmax(LargestBound(&proof, count, group), fmax(rounds, model->longest));
  }
  RengaFree(&capacity);
  RengaFree(&proof.devices);
  RengaFree(&proof.pointer);
  RengaFree(&group);
  RengaFree(&whole.option);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A way to cover the places from one on: devices ascend and stages descend along a front, since
   with more stages behind it a stage holds more micro-batches. */
typedef struct {
  int devices, stages, end, option;
  int next; /* number in the front of end */
} Suffix;

typedef struct {
  const SearchModel *model;
  int n_options;
  int *option;    /* [n_options] rows of the model that are tried */
  int *count;     /* [places + 1] of the front */
  Suffix *suffix; /* [places + 1][FRONT_MOST] */
  int *pointer;   /* [n_options] */
} Cover;

static bool Fits(const SearchModel *model, int option, int begin, int end, int depth, double bound)
{
  SearchCost cost;
  return RengaSearchStageCost_Private(model, &model->option[option], begin, end, depth, &cost) &&
         cost.rounds + cost.reduce + cost.update <= bound;
}

static bool IsDominated(const Cover *cover, int begin, int devices, int stages)
{
  const Suffix *front = cover->suffix + (int64_t)begin * FRONT_MOST;
  for (int i = 0; i < cover->count[begin]; i++)
    if (front[i].devices <= devices && front[i].stages <= stages) return true;
  return cover->count[begin] == FRONT_MOST && front[FRONT_MOST - 1].devices <= devices;
}

/* Behind those with fewer devices; those that are no better than it go, the last where it is
   full. */
static void Insert(Cover *cover, int begin, const Suffix *suffix)
{
  Suffix *front = cover->suffix + (int64_t)begin * FRONT_MOST;
  int at = 0, left = 0, count = cover->count[begin];
  while (at < count && front[at].devices < suffix->devices) at++;
  for (int i = left = at; i < count; i++)
    if (front[i].stages < suffix->stages) front[left++] = front[i];
  count = left < FRONT_MOST ? left : FRONT_MOST - 1;
  memmove(front + at + 1, front + at, (size_t)(count - at) * sizeof *front);
  front[at] = *suffix;
  cover->count[begin] = count + 1;
}

/* The longest stage from begin on, or one a little shorter where the cut is dear, before each way
   to go on. */
static void TryOption(Cover *cover, int number, int begin, double bound)
{
  const SearchModel *model = cover->model;
  const int o = cover->option[number], replicas = model->option[o].replicas;
  int *last = &cover->pointer[number];
  int waiting = FRONT_MOST; /* numbers of the fronts for which no end is found yet */
  while (*last > begin && !FitsAtLeast(model, &model->option[o], begin, *last, bound)) --*last;
  for (int end = *last, step = 0; end > begin && step < STEPS_BACK && waiting; end--, step++) {
    const Suffix *next = cover->suffix + (int64_t)end * FRONT_MOST;
    for (int i = 0; i < cover->count[end] && i < waiting; i++) {
      const Suffix made = {next[i].devices + replicas, next[i].stages + 1, end, o, i};
      if (made.devices > model->devices || IsDominated(cover, begin, made.devices, made.stages))
        continue;
      if (!Fits(model, o, begin, end, made.stages, bound)) continue;
      Insert(cover, begin, &made);
      waiting = i;
    }
  }
}

static bool CoverUnder(Cover *cover, double bound)
{
  const int n = cover->model->count;
  for (int o = 0; o < cover->n_options; o++) cover->pointer[o] = n;
  cover->suffix[(int64_t)n * FRONT_MOST] = (Suffix){.end = n};
  cover->count[n] = 1;
  for (int begin = n - 1; begin >= 0; begin--) {
    cover->count[begin] = 0;
    for (int o = 0; o < cover->n_options; o++) TryOption(cover, o, begin, bound);
  }
  return cover->count[0] > 0;
}

static RengaErrorCode TakeLayout(const Cover *cover, int first, SearchLayout *best)
{
  const Suffix *suffix = cover->suffix + first;
  SearchLayout layout = {.count = suffix->stages};
  RengaCall(RengaMalloc(layout.count, &layout.stage));
  for (int s = 0, begin = 0; s < layout.count; s++) {
    layout.stage[s] = (SearchStage){begin, suffix->end, suffix->option, false};
    begin = suffix->end;
    suffix = cover->suffix + (int64_t)begin * FRONT_MOST + suffix->next;
  }
  RengaCall(RengaSearchTake_Private(cover->model, &layout, best));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFront(const Cover *cover, SearchLayout *best)
{
  for (int i = 0; i < cover->count[0]; i++) RengaCall(TakeLayout(cover, i, best));
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchCovers(Cover *cover, SearchLayout *best)
{
  static const double looser[] = {1, 1.02, 1.05, 1.1, 1.25, 1.6};
  const double work = RengaSearchWork_Private(cover->model);
  double low = 0, high = best->count ? best->step - work : work;
  const int probes =
      cover->model->quick || (int64_t)cover->model->count * cover->n_options > 40000 ? 8 : 24;
  if (!CoverUnder(cover, high)) {
    high = HUGE_VAL;
    if (best->count || !CoverUnder(cover, high)) return RENGA_SUCCESS;
    for (high = fmax(work, 1e-12); !CoverUnder(cover, high); high *= 4) continue;
  }
  for (int probe = 0; probe < probes; probe++) {
    const double middle = low + (high - low) / 2;
    if (CoverUnder(cover, middle))
      high = middle;
    else
      low = middle;
  }
  const size_t n_looser = cover->model->count > CHAIN_LONG ? 1 : sizeof looser / sizeof looser[0];
  for (size_t i = 0; i < n_looser; i++)
    if (CoverUnder(cover, high * looser[i])) RengaCall(TakeFront(cover, best));
  return RENGA_SUCCESS;
}

/* All small numbers of replicas, then steps of a quarter; fewer of them in a long chain. */
static RengaErrorCode ChooseOptions(Cover *cover)
{
  const SearchModel *model = cover->model;
  const bool few = model->count > CHAIN_LONG;
  const int all_up_to = few ? 1 : 8;
  RengaCall(RengaMalloc(model->n_options + 1, &cover->option));
  for (int o = 0, last = 0; o < model->n_options; o++) {
    const int replicas = model->option[o].replicas;
    if (o + 1 < model->n_options && replicas > all_up_to &&
        (few ? replicas < 3 * last : 4 * replicas < 5 * last))
      continue;
    cover->option[cover->n_options++] = o;
    last = replicas;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCover_Private(const SearchModel *model, SearchLayout *best)
{
  Cover cover = {.model = model};
  RengaErrorCode code = ChooseOptions(&cover);
  if (!code) code = RengaMalloc((int64_t)(model->count + 1) * FRONT_MOST, &cover.suffix);
  if (!code) code = RengaMalloc(model->count + 1, &cover.count);
  if (!code) code = RengaMalloc(cover.n_options + 1, &cover.pointer);
  if (!code) code = SearchCovers(&cover, best);
  RengaFree(&cover.option);
  RengaFree(&cover.suffix);
  RengaFree(&cover.count);
  RengaFree(&cover.pointer);
  RengaCall(code);
  return RENGA_SUCCESS;
}
