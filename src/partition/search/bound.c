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
   backward reads of forward, or with recomputation a part of it, however small, and what the
   stage's first node received; besides parameters, moments, and the buffers of gradients that no
   order of its micro-batches can do without (least.c).

   Time. A micro-batch's trip is its forward on the stage, the longest path of forwards behind the
   stage's last node and of gradients back to it, its backward. With the leads before and after (see
   search.h) a step takes no less than
     all work of the rank; a recomputation is one more forward, or what must be freed at its
     cheapest (rates.c);
     the first trip, and then what the list still has after it;
     what the list has before the last trip, and then that one;
     trips that follow each other, one for each depth of micro-batches, and the rank's work for the
     micro-batches between;
   where depth is the most that memory allows, not the schedule's own: it may begin early.

   Backwards in two parts (zb-h1, zb-h2; SearchHalves) come in the same order as whole ones, and so
   do gradients of parameters after those of inputs. Leads, trips and tails then have gradients of
   inputs alone. Those of parameters of all micro-batches but depth are done before the last forward
   and before the last gradient of inputs; or, where the list ends with them, nothing goes back
   after it, and only the forwards before the stage's first count beside its own work. Stages that
   recompute do whole backwards. */
#include "search.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES = 40, PROBES_FEW = 12, WORK_WANTED = 3 << 14, WORK_MOST = 1 << 16, STEPS_MOST = 64 };
static const double precision = 1e-6;

typedef struct {
  const SearchModel *model;
  int stages; /* at least */
  int n_candidates;
  const SearchCandidate *candidate;
  int *reach;   /* [devices + 1] the first place that these reach from the end */
  int *pointer; /* [n_candidates] where the last stage of each began */
} BoundProof;

static double Most(double a, double b)
{
  return a > b ? a : b;
}

/* Until the list ends with gradients of parameters that nobody waits for. b: of inputs. */
static double WeightsAtLast(const SearchPace *pace, double rounds, double rest, double b)
{
  const double f = pace->forward, w = pace->weight, others = rounds - 1;
  const double trip = f + b + pace->tail;
  double most = rounds * (f + b + w);
  most = Most(most, trip + rest * f + others * b + rounds * w);
  most = Most(most, trip + others * f + rest * (b + w) + w);
  return pace->early + most;
}

/* Seconds from the first forward of the step to its last gradient; again: of a recomputation, with
   which backwards are whole. */
static double PipelineSeconds(const SearchPace *pace, double rounds, double depth, double again)
{
  const double w = again > 0 ? 0 : pace->weight;
  const double f = pace->forward, b = pace->input + pace->weight - w + again, both = f + b;
  const double trip = f + b - again + pace->tail;
  const double rest = Most(0, rounds - depth), others = rounds - 1;
  double most = rounds * both + rest * w;
  most = Most(most, trip + rest * (f + w) + others * b);
  most = Most(most, trip + others * f + rest * (b + w));
  const double trips = floor(others / depth);
  if (trips >= 1) {
    const double longer = trip - depth * both;
    most = Most(most, trip + others * both + (longer > 0 ? trips : 1) * longer);
  }
  most += pace->lead;
  return w > 0 ? Most(most, WeightsAtLast(pace, rounds, rest, b)) : most;
}

static double WorkBefore(const SearchModel *model, int place)
{
  return model->backward[place] + model->accumulate_rate * model->elements[place];
}

/* Micro-batches that the stage holds at the least. */
static double LeastDepth(const SearchModel *model, const SearchCandidate *candidate,
                         int devices_behind)
{
  const int most = candidate->most_replicas;
  if (model->listing.widest > 1)
    devices_behind /= model->listing.widest; /* replicas, at the least */
  const double rounds = (double)candidate->rounds;
  return model->schedule.gpipe ? rounds : fmin(rounds, 1 + (devices_behind + most - 1) / most);
}

typedef struct {
  int begin, end;
  double received;
} StagePlace;

/* Of a stage that keeps what there is room for: the more micro-batches in flight, the less. Some of
   from least to deepest are; a range of these has the seconds of its most and what its fewest run
   again. */
static double MixedSeconds(const SearchModel *model, const SearchCandidate *candidate,
                           const StagePlace *at, const SearchPace *pace, double least,
                           double deepest, double enough)
{
  const double rounds = (double)candidate->rounds;
  double seconds = HUGE_VAL;
  for (double few = least, many; few <= deepest; few = many + 1) {
    many = fmin(deepest, floor(1.5 * few));
    const double bytes =
        RengaSearchNotKept_Private(model, candidate, at->begin, at->end, at->received, few);
    const double again =
        RengaSearchAgainAtLeast_Private(model, candidate, at->begin, at->end, bytes);
    seconds = fmin(seconds, PipelineSeconds(pace, rounds, many, again));
    if (seconds <= enough) break;
  }
  return seconds;
}

double RengaSearchPipelineAtLeast_Private(const SearchModel *model,
                                          const SearchCandidate *candidate, int begin, int end,
                                          int devices_behind, double received,
                                          const SearchPace *pace, double enough)
{
  const double least = LeastDepth(model, candidate, devices_behind);
  const double rounds = (double)candidate->rounds;
  const StagePlace at = {begin, end, received};
  double seconds = HUGE_VAL, before = 0; /* in flight under the policy before */
  for (int p = 0; p < model->policies.count; p++) {
    const RengaSaved saved = model->policies.saved[p];
    const double deepest =
        RengaSearchDeepest_Private(model, candidate, saved, begin, end, received);
    if (deepest < least) continue;
    const double again = RengaSearchAgain_Private(saved, pace->forward);
    const bool mixed = model->policies.mixed && saved == RENGA_SAVED_RECOMPUTE;
    const double own =
        mixed ? MixedSeconds(model, candidate, &at, pace, fmax(least, before + 1), deepest, enough)
              : PipelineSeconds(pace, rounds, deepest, again);
    seconds = fmin(seconds, own);
    before = deepest;
    if (seconds <= enough || deepest >= rounds) break; /* other policies win nothing */
  }
  return seconds;
}

SearchPace RengaSearchPace_Private(const SearchModel *model, int begin, int end)
{
  const double forward = model->forward[end] - model->forward[begin];
  const double input =
      model->backward[end] - model->backward[begin] - model->weight[end] + model->weight[begin];
  if (!model->halves.open)
    return (SearchPace){.early = model->paths.lead[begin],
                        .lead = model->paths.lead[begin],
                        .forward = forward,
                        .input = WorkBefore(model, end) - WorkBefore(model, begin),
                        .tail = model->paths.tail[end]};
  return (SearchPace){.early = model->halves.early[begin],
                      .lead = model->halves.lead[begin],
                      .forward = forward,
                      .input = input,
                      .weight = WorkBefore(model, end) - WorkBefore(model, begin) - input,
                      .tail = model->halves.tail[end]};
}

/* With reduction and update, whatever the stages around it are. */
static double LeastSeconds(const SearchModel *model, const SearchCandidate *candidate, int begin,
                           int end, int devices_behind, double received, double enough)
{
  const SearchPace pace = RengaSearchPace_Private(model, begin, end);
  const double last = RengaSearchLeastEnd_Private(model, candidate, begin, end);
  return last + RengaSearchPipelineAtLeast_Private(model, candidate, begin, end, devices_behind,
                                                   received, &pace, enough - last);
}

double RengaSearchStageAtLeast_Private(const SearchModel *model, const SearchCandidate *candidate,
                                       int begin, int end, int devices_behind)
{
  return LeastSeconds(model, candidate, begin, end, devices_behind, 0, 0);
}

/* Under no bound, HUGE_VAL, there is one that fits all the same. */
static bool FitsBound(const BoundProof *proof, const SearchCandidate *candidate, int begin, int end,
                      int devices_behind, double received, double bound)
{
  const double seconds =
      LeastSeconds(proof->model, candidate, begin, end, devices_behind, received, bound);
  return seconds <= bound && isfinite(seconds);
}

/* The first place of the longest stage that ends there, whatever it receives; end where none fits.
   near: a guess. Steps away from it double. */
static int LongestAtMost(const BoundProof *proof, const SearchCandidate *candidate, int end,
                         int devices_behind, int near, double bound)
{
  int low = 0, high = end; /* begins before low do not fit, those from high on do */
  int at = near < end ? near : end - 1;
  for (int step = 1; at >= low && at < high; step *= 2) {
    if (FitsBound(proof, candidate, at, end, devices_behind, 0, bound)) {
      high = at;
      at = at > step ? at - step : 0;
    } else {
      low = at + 1;
      at = at + step < end ? at + step : end - 1;
    }
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (FitsBound(proof, candidate, middle, end, devices_behind, 0, bound))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

/* What is received depends on the first place alone, so that the first that fits is the best; after
   some that do not one is taken to fit. */
static int Longest(const BoundProof *proof, const SearchCandidate *candidate, int end,
                   int devices_behind, int near, double bound)
{
  const double *received = proof->model->received;
  const int first = LongestAtMost(proof, candidate, end, devices_behind, near, bound);
  int begin = first;
  if (proof->model->memory <= 0) return first;
  while (begin < end && begin < first + STEPS_MOST &&
         !FitsBound(proof, candidate, begin, end, devices_behind, received[begin], bound))
    begin++;
  return begin;
}

/* Enough places stay for the stages that must come before; there are only so many behind. */
static int LeavePlaces(const BoundProof *proof, int begin, int devices_behind)
{
  const int left = proof->stages - 1 - devices_behind / proof->candidate[0].devices;
  return begin < left ? left : begin;
}

/* The first place that so many devices reach with a last stage of this row, if it is before
   furthest; one place tells. */
static int ReachWith(BoundProof *proof, int o, int devices, int furthest, double bound)
{
  const SearchModel *model = proof->model;
  const SearchCandidate *candidate = &proof->candidate[o];
  if (candidate->devices > devices || furthest == 0) return model->count + 1;
  const int behind = devices - candidate->devices, end = proof->reach[behind];
  if (end == 0 || end > model->count) return model->count + 1;
  if (furthest <= end && !FitsBound(proof, candidate, furthest - 1, end, behind, 0, bound))
    return model->count + 1;
  const int begin = Longest(proof, candidate, end, behind, proof->pointer[o], bound);
  if (begin >= end) return model->count + 1;
  proof->pointer[o] = begin;
  const int placed = LeavePlaces(proof, begin, behind);
  return placed < end ? placed : model->count + 1;
}

static bool CanCover(BoundProof *proof, double bound)
{
  const SearchModel *model = proof->model;
  int first = 0; /* the row that reached furthest with the last number of devices: mostly again */
  for (int o = 0; o < proof->n_candidates; o++) proof->pointer[o] = model->count;
  proof->reach[0] = model->count;
  for (int devices = 1; devices <= model->devices; devices++) {
    int furthest = ReachWith(proof, first, devices, model->count + 1, bound);
    for (int o = 0; o < proof->n_candidates && proof->candidate[o].devices <= devices; o++) {
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
  return (int64_t)proof->model->devices * proof->n_candidates > WORK_WANTED;
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

/* The row becomes no worse than the candidate, which has no fewer devices, in all that a bound
   counts. */
static void LowerRow(const SearchCandidate *candidate, SearchCandidate *row)
{
  const SearchBytes *bytes = &candidate->bytes;
  if (candidate->most_replicas > row->most_replicas) row->most_replicas = candidate->most_replicas;
  if (candidate->rounds < row->rounds) row->rounds = candidate->rounds;
  if (candidate->updaters > row->updaters) row->updaters = candidate->updaters;
  if (candidate->least_buffers < row->least_buffers) row->least_buffers = candidate->least_buffers;
  row->bytes.parameter = fmin(row->bytes.parameter, bytes->parameter);
  row->bytes.gradient = fmin(row->bytes.gradient, bytes->gradient);
  row->bytes.saved = fmin(row->bytes.saved, bytes->saved);
  row->bytes.message = fmin(row->bytes.message, bytes->message);
  row->bytes.value = fmin(row->bytes.value, bytes->value);
  row->reduce_latency = fmin(row->reduce_latency, candidate->reduce_latency);
  row->reduce_rate = fmin(row->reduce_rate, candidate->reduce_rate);
  row->gather_latency = fmin(row->gather_latency, candidate->gather_latency);
  row->gather_rate = fmin(row->gather_rate, candidate->gather_rate);
}

/* Equal stages may share different things, so that one row stands for all of their replicas. */
static bool IsOfGroup(const SearchModel *model, const SearchCandidate *candidate, bool shares)
{
  return !model->unequal || (candidate->updaters > 1) == shares;
}

/* Few rows that are no worse than those they stand for. Those of a row have the same rounds, or
   replicas that differ by a factor at the most. shares: rows whose replicas update a share each. */
static int GroupBy(const SearchModel *model, double factor, bool shares, SearchCandidate group[])
{
  SearchCandidate *row = NULL;
  int n = 0;
  for (int i = 0; i < model->n_candidates; i++) {
    const SearchCandidate *candidate = &model->candidate[i];
    if (!IsOfGroup(model, candidate, shares)) continue;
    if (!row || (candidate->rounds != row->rounds && candidate->devices > factor * row->devices)) {
      row = &group[n++];
      *row = *candidate;
    } else {
      LowerRow(candidate, row);
    }
  }
  return n;
}

static int CompareRowDevices(const void *a, const void *b)
{
  const SearchCandidate *x = a, *y = b;
  if (x->devices != y->devices) return x->devices - y->devices;
  return x->updaters - y->updaters;
}

/* Of both kinds, by their devices. */
static int GroupBoth(const SearchModel *model, double factor, SearchCandidate group[])
{
  const int n = GroupBy(model, factor, false, group);
  if (!model->unequal) return n;
  const int both = n + GroupBy(model, factor, true, group + n);
  if (both > n) qsort(group, (size_t)both, sizeof *group, CompareRowDevices);
  return both;
}

/* As many rows as there is time for. */
static int GroupCandidates(const SearchModel *model, SearchCandidate group[])
{
  double factor = 1;
  int n = GroupBoth(model, factor, group);
  while (model->unequal && n > 2 && (int64_t)n * model->devices > WORK_MOST)
    n = GroupBoth(model, factor *= 1.01, group);
  return n;
}

/* Work per second of rounds of one stage. */
static double OwnCapacity(const SearchCandidate *candidate)
{
  return candidate->rounds > 1 ? 1.0 / (double)(candidate->rounds - 1) : HUGE_VAL;
}

RengaErrorCode RengaSearchCapacity_Private(const SearchModel *model, double **capacity)
{
  double *most = NULL;
  RengaCall(RengaMalloc(model->devices + 1, &most));
  for (int d = 1; d <= model->devices; d++) {
    most[d] = most[d - 1];
    for (int o = 0; o < model->n_candidates && model->candidate[o].devices <= d; o++) {
      const SearchCandidate *candidate = &model->candidate[o];
      const double own = OwnCapacity(candidate);
      most[d] = fmax(most[d], model->unequal ? own + most[d - candidate->devices]
                                             : own * (d / candidate->devices));
    }
  }
  *capacity = most;
  return RENGA_SUCCESS;
}

/* Layouts of equal replicas are bounded one number at a time. */
static double LargestBound(BoundProof *proof, int n_candidates, const SearchCandidate candidates[],
                           double low, double best)
{
  proof->n_candidates = proof->model->unequal ? n_candidates : 1;
  for (int o = 0; o < (proof->model->unequal ? 1 : n_candidates); o++) {
    proof->candidate = candidates + o;
    best = LeastBound(proof, low, best);
  }
  return best;
}

/* The longest path, and the devices' own time: they have the work of all micro-batches. */
static double SimpleBound(const SearchModel *model)
{
  const double work = RengaSearchWork_Private(model);
  const double longest = model->halves.open ? model->halves.longest : model->paths.longest;
  return fmax(longest, work * (double)model->microbatches / model->devices);
}

RengaErrorCode RengaSearchBound_Private(const SearchModel *model, int stages, double *seconds)
{
  BoundProof proof = {.model = model, .stages = stages};
  SearchCandidate *group = NULL;
  RengaErrorCode code = RengaMalloc(model->n_candidates + 1, &group);
  if (!code) code = RengaMalloc(model->devices + 1, &proof.reach);
  if (!code) code = RengaMalloc(model->n_candidates + 1, &proof.pointer);
  if (!code)
    *seconds =
        LargestBound(&proof, GroupCandidates(model, group), group, SimpleBound(model), *seconds);
  RengaFree(&proof.reach);
  RengaFree(&proof.pointer);
  RengaFree(&group);
  RengaCall(code);
  return RENGA_SUCCESS;
}
