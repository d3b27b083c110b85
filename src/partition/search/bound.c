/* The lower bound of all layouts: covering the chain under a bound of what each stage may cost.

   A stage's share is its rounds, reduction and update. Without what the cuts cost, and with the
   memory of one micro-batch in flight, a part of a stage that fits under a bound fits too; then it
   is best to make each stage as long as it may be, and the fewest devices that cover the places
   before each one follow with one pass per number of replicas (two pointers). If that is more than
   there are, no layout reaches the bound. */
#include "search.h"
#include <math.h>
#include <string.h>

enum { PROBES = 48, PROBES_FEW = 14, WORK_WANTED = 1 << 20, GROUPS = 14 };
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
