/* The lower bound of all layouts that fit: covering the chain under a bound of what each stage may
   cost.

   What a stage costs here shrinks with the stage, whatever the stages around it are, so that it is
   best to make each as long as it may be. The chain is covered from its end: the furthest place
   that stages on so many devices reach follows from those on fewer. If no number of devices
   reaches the first place, no layout stays under the bound.

   Memory. A rank of a stage holds at least one micro-batch more than its share of the devices
   behind it, for 1F1B warms up until each of these has had one, or all of its own: depth (with
   different replicas that is what the lanes of src/schedule/order.c make; the test looks for
   exceptions). That many times it holds what
   backward reads of forward, or with recomputation once, and what the stage's first node received;
   besides parameters, moments, and the buffers of gradients that no order of its micro-batches can
   do without (least.c).

   Time. A micro-batch's trip is its forward on the stage, the longest path of forwards behind the
   stage's last node and of gradients back to it, its backward. With the leads before and after (see
   search.h) a step takes no less than
     all work of the rank; a recomputation is one more forward;
     the first trip, and then what the list still has after it;
     what the list has before the last trip, and then that one;
     trips that follow each other, one for each depth of micro-batches, and the rank's work for the
     micro-batches between;
   where depth is the most that memory allows, not the schedule's own: it may begin early. */
#include "search.h"
#include <math.h>
#include <string.h>

enum { PROBES = 40, PROBES_FEW = 12, WORK_WANTED = 3 << 14, WORK_MOST = 1 << 20, STEPS_MOST = 64 };
static const double precision = 1e-6;

typedef struct {
  const SearchModel *model;
  int stages; /* at least */
  int n_options;
  const SearchOption *option;
  int *reach;   /* [devices + 1] the first place that these reach from the end */
  int *pointer; /* [n_options] where the last stage of each began */
} BoundProof;

static double Most(double a, double b)
{
  return a > b ? a : b;
}

/* Seconds from the first forward of the step to its last gradient; again: of a recomputation. */
static double PipelineSeconds(const SearchPace *pace, double rounds, double depth, double again)
{
  const double f = pace->forward, b = pace->backward + again, both = f + b;
  const double trip = pace->forward + pace->backward + pace->tail;
  const double rest = Most(0, rounds - depth), others = rounds - 1;
  double most = rounds * both;
  most = Most(most, trip + rest * f + others * b);
  most = Most(most, trip + others * f + rest * b);
  const double trips = floor(others / depth);
  if (trips >= 1) {
    const double longer = trip - depth * both;
    most = Most(most, trip + others * both + (longer > 0 ? trips : 1) * longer);
  }
  return pace->lead + most;
}

static double WorkBefore(const SearchModel *model, int place)
{
  return model->backward[place] + model->accumulate_rate * model->elements[place];
}

/* Micro-batches that the stage holds at the least. */
static double LeastDepth(const SearchModel *model, const SearchOption *option, int devices_behind)
{
  const int most = option->most_replicas;
  const double rounds = (double)option->rounds;
  return model->gpipe ? rounds : fmin(rounds, 1 + (devices_behind + most - 1) / most);
}

double RengaSearchPipelineAtLeast_Private(const SearchModel *model, const SearchOption *option,
                                          int begin, int end, int devices_behind, double received,
                                          const SearchPace *pace, double enough)
{
  const double least = LeastDepth(model, option, devices_behind);
  const double rounds = (double)option->rounds;
  double seconds = HUGE_VAL;
  for (int again = 0; again <= model->recompute; again++) {
    const double deepest = RengaSearchDeepest_Private(model, option, begin, end, again, received);
    if (deepest < least) continue;
    seconds = fmin(seconds, PipelineSeconds(pace, rounds, deepest, again ? pace->forward : 0));
    if (seconds <= enough || deepest >= rounds) break; /* to compute again wins nothing */
  }
  return seconds;
}

SearchPace RengaSearchPace_Private(const SearchModel *model, int begin, int end)
{
  return (SearchPace){.lead = model->lead[begin],
                      .forward = model->forward[end] - model->forward[begin],
                      .backward = WorkBefore(model, end) - WorkBefore(model, begin),
                      .tail = model->tail[end]};
}

/* With reduction and update, whatever the stages around it are. */
static double LeastSeconds(const SearchModel *model, const SearchOption *option, int begin, int end,
                           int devices_behind, double received, double enough)
{
  const SearchPace pace = RengaSearchPace_Private(model, begin, end);
  const double last = RengaSearchLeastEnd_Private(model, option, begin, end);
  return last + RengaSearchPipelineAtLeast_Private(model, option, begin, end, devices_behind,
                                                   received, &pace, enough - last);
}

double RengaSearchStageAtLeast_Private(const SearchModel *model, const SearchOption *option,
                                       int begin, int end, int devices_behind)
{
  return LeastSeconds(model, option, begin, end, devices_behind, 0, 0);
}

static bool FitsBound(const BoundProof *proof, const SearchOption *option, int begin, int end,
                      int devices_behind, double received, double bound)
{
  return LeastSeconds(proof->model, option, begin, end, devices_behind, received, bound) <= bound;
}

/* The first place of the longest stage that ends there, whatever it receives; end where none fits.
   near: a guess. Steps away from it double. */
static int LongestAtMost(const BoundProof *proof, const SearchOption *option, int end,
                         int devices_behind, int near, double bound)
{
  int low = 0, high = end; /* begins before low do not fit, those from high on do */
  int at = near < end ? near : end - 1;
  for (int step = 1; at >= low && at < high; step *= 2) {
    if (FitsBound(proof, option, at, end, devices_behind, 0, bound)) {
      high = at;
      at = at > step ? at - step : 0;
    } else {
      low = at + 1;
      at = at + step < end ? at + step : end - 1;
    }
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (FitsBound(proof, option, middle, end, devices_behind, 0, bound))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

/* What is received depends on the first place alone, so that the first that fits is the best; after
   some that do not one is taken to fit. */
static int Longest(const BoundProof *proof, const SearchOption *option, int end, int devices_behind,
                   int near, double bound)
{
  const double *received = proof->model->received;
  const int first = LongestAtMost(proof, option, end, devices_behind, near, bound);
  int begin = first;
  if (proof->model->memory <= 0) return first;
  while (begin < end && begin < first + STEPS_MOST &&
         !FitsBound(proof, option, begin, end, devices_behind, received[begin], bound))
    begin++;
  return begin;
}

/* Enough places stay for the stages that must come before; there are only so many behind. */
static int LeavePlaces(const BoundProof *proof, int begin, int devices_behind)
{
  const int left = proof->stages - 1 - devices_behind / proof->option[0].shape.replicas;
  return begin < left ? left : begin;
}

/* The first place that so many devices reach with a last stage of this row, if it is before
   furthest; one place tells. */
static int ReachWith(BoundProof *proof, int o, int devices, int furthest, double bound)
{
  const SearchModel *model = proof->model;
  const SearchOption *option = &proof->option[o];
  if (option->shape.replicas > devices || furthest == 0) return model->count + 1;
  const int behind = devices - option->shape.replicas, end = proof->reach[behind];
  if (end == 0 || end > model->count) return model->count + 1;
  if (furthest <= end && !FitsBound(proof, option, furthest - 1, end, behind, 0, bound))
    return model->count + 1;
  const int begin = Longest(proof, option, end, behind, proof->pointer[o], bound);
  if (begin >= end) return model->count + 1;
  proof->pointer[o] = begin;
  const int placed = LeavePlaces(proof, begin, behind);
  return placed < end ? placed : model->count + 1;
}

static bool CanCover(BoundProof *proof, double bound)
{
  const SearchModel *model = proof->model;
  int first = 0; /* the row that reached furthest with the last number of devices: mostly again */
  for (int o = 0; o < proof->n_options; o++) proof->pointer[o] = model->count;
  proof->reach[0] = model->count;
  for (int devices = 1; devices <= model->devices; devices++) {
    int furthest = ReachWith(proof, first, devices, model->count + 1, bound);
    for (int o = 0; o < proof->n_options && proof->option[o].shape.replicas <= devices; o++) {
      const int begin = ReachWith(proof, o, devices, furthest, bound);
      if (begin < furthest) furthest = begin, first = o;
    }
    if (furthest == 0) return true;
    proof->reach[devices] = furthest;
  }
  return false;
}

static bool IsLarge(const BoundProof *proof)
{
  return (int64_t)proof->model->devices * proof->n_options > WORK_WANTED;
}

/* The largest bound that is known to be out of reach; HUGE_VAL: every one. From `low` on, which is
   known; where even `enough` is out of reach that is said. */
static double LeastBound(BoundProof *proof, double low, double enough)
{
  double high = fmax(low, 1e-12);
  if (!CanCover(proof, enough)) return enough;
  while (!CanCover(proof, high)) low = high, high *= 1.5;
  for (int probe = 0;
       probe < (IsLarge(proof) ? PROBES_FEW : PROBES) && high - low > precision * high; probe++) {
    const double middle = low + (high - low) / 2;
    if (CanCover(proof, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}

/* Few rows that are no worse than those they stand for. Those of a row have the same rounds, or
   replicas that differ by a factor at the most. */
static int GroupBy(const SearchModel *model, double factor, SearchOption group[])
{
  int n = 0;
  for (int i = 0; i < model->n_options;) {
    SearchOption *row = &group[n++];
    *row = model->option[i];
    for (i++; i < model->n_options; i++) {
      const SearchOption *option = &model->option[i];
      if (option->rounds != row->rounds && option->shape.replicas > factor * row->shape.replicas)
        break;
      row->most_replicas = option->most_replicas;
      row->rounds = option->rounds < row->rounds ? option->rounds : row->rounds;
      if (option->least_buffers < row->least_buffers) row->least_buffers = option->least_buffers;
      row->reduce_latency = fmin(row->reduce_latency, option->reduce_latency);
      row->reduce_rate = fmin(row->reduce_rate, option->reduce_rate);
    }
  }
  return n;
}

/* As many rows as there is time for. */
static int GroupOptions(const SearchModel *model, SearchOption group[])
{
  double factor = 1;
  int n = GroupBy(model, factor, group);
  while (model->unequal && n > 1 && (int64_t)n * model->devices > WORK_MOST)
    n = GroupBy(model, factor *= 1.01, group);
  return n;
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
    for (int o = 0; o < model->n_options && model->option[o].shape.replicas <= d; o++) {
      const SearchOption *option = &model->option[o];
      const double own = OwnCapacity(option);
      most[d] = fmax(most[d], model->unequal ? own + most[d - option->shape.replicas]
                                             : own * (d / option->shape.replicas));
    }
  }
  *capacity = most;
  return RENGA_SUCCESS;
}

/* Layouts of equal replicas are bounded one number at a time. */
static double LargestBound(BoundProof *proof, int n_options, const SearchOption options[],
                           double low)
{
  double best = HUGE_VAL;
  proof->n_options = proof->model->unequal ? n_options : 1;
  for (int o = 0; o < (proof->model->unequal ? 1 : n_options); o++) {
    proof->option = options + o;
    best = LeastBound(proof, low, best);
  }
  return best;
}

/* The longest path, and the devices' own time: they have the work of all micro-batches. */
static double SimpleBound(const SearchModel *model)
{
  const double work = RengaSearchWork_Private(model);
  return fmax(model->longest, work * (double)model->microbatches / model->devices);
}

RengaErrorCode RengaSearchBound_Private(const SearchModel *model, int stages, double *seconds)
{
  BoundProof proof = {.model = model, .stages = stages};
  SearchOption *group = NULL;
  RengaErrorCode code = RengaMalloc(model->n_options + 1, &group);
  if (!code) code = RengaMalloc(model->devices + 1, &proof.reach);
  if (!code) code = RengaMalloc(model->n_options + 1, &proof.pointer);
  if (!code) *seconds = LargestBound(&proof, GroupOptions(model, group), group, SimpleBound(model));
  RengaFree(&proof.reach);
  RengaFree(&proof.pointer);
  RengaFree(&group);
  RengaCall(code);
  return RENGA_SUCCESS;
}
