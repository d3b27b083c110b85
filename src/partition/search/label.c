/* All layouts, by labels: a label is a choice of stages from a place to the end. Labels are made
   from the last place to the first; one is dropped where another is no worse in everything that
   still counts, or where even the best that may come before it is no faster than the best layout.
   With no limit what is left is the fastest layout of the model. */
#include "search.h"
#include <math.h>

typedef struct {
  const SearchCandidate *candidate;
  int begin, end, depth, devices;
  int next;                             /* label of the stages after this one, -1: none */
  int older;                            /* label at the same place, -1: none */
  double extra, rounds, reduce, update; /* extra: fill besides the work */
} SearchLabel;

typedef struct {
  const SearchModel *model;
  SearchLayout *best;
  double work, until; /* until: on the clock, 0: any time */
  int64_t left;       /* labels to look at, negative: any number */
  bool bounded;       /* left and until hold */
  int n_labels, size_labels;
  SearchLabel *label;
  int *newest;      /* [count + 1] label at each place, -1: none */
  double *capacity; /* [devices + 1] most work per second of rounds */
} SearchLabels;

static double RoundsBefore(const SearchLabels *labels, const SearchLabel *label)
{
  const SearchModel *model = labels->model;
  const int i = label->begin;
  const double work =
      model->forward[i] + model->backward[i] + model->accumulate_rate * model->elements[i];
  if (work <= 0) return 0;
  const int devices = model->devices - label->devices;
  if (model->unequal) return work / labels->capacity[devices];
  return work * (double)(label->candidate->rounds - 1) /
         (devices / label->candidate->shape.replicas);
}

/* Seconds that no layout that ends with this label stays under; HUGE_VAL: there is none. */
static double StepAtLeast(const SearchLabels *labels, const SearchLabel *label)
{
  const SearchModel *model = labels->model;
  double rounds = label->rounds;
  if (label->begin > 0) {
    const int least =
        model->unequal ? model->candidate[0].devices : label->candidate->shape.replicas;
    if (model->devices - label->devices < least) return HUGE_VAL;
    if (model->stages && label->depth >= model->stages) return HUGE_VAL;
    rounds = fmax(rounds, RoundsBefore(labels, label));
  } else if (model->stages && label->depth != model->stages) {
    return HUGE_VAL;
  }
  return labels->work + label->extra + rounds + label->reduce + label->update;
}

static bool IsBetter(const SearchLabels *labels, double step)
{
  return !labels->best->count || step < labels->best->step * (1 - 1e-12);
}

static bool NoWorse(const SearchModel *model, const SearchLabel *a, const SearchLabel *b)
{
  if (!model->unequal && a->candidate->shape.replicas != b->candidate->shape.replicas) return false;
  if (model->stages && a->depth != b->depth) return false;
  return a->devices <= b->devices && a->depth <= b->depth && a->extra <= b->extra &&
         a->rounds <= b->rounds && a->reduce <= b->reduce && a->update <= b->update;
}

/* Looking through a long list is work as well. */
static bool IsLabelDominated(SearchLabels *labels, const SearchLabel *label)
{
  for (int l = labels->newest[label->begin]; l >= 0; l = labels->label[l].older, labels->left--)
    if (NoWorse(labels->model, &labels->label[l], label)) return true;
  return false;
}

static RengaErrorCode StoreLabel(SearchLabels *labels, const SearchLabel *label)
{
  if (labels->n_labels == labels->size_labels) {
    labels->size_labels = 2 * labels->size_labels + 1024;
    RengaCall(RengaRealloc(labels->size_labels, &labels->label));
  }
  labels->label[labels->n_labels] = *label;
  labels->label[labels->n_labels].older = labels->newest[label->begin];
  labels->newest[label->begin] = labels->n_labels++;
  return RENGA_SUCCESS;
}

static RengaErrorCode Complete(SearchLabels *labels, const SearchLabel *label)
{
  SearchLayout layout = {.count = label->depth};
  RengaCall(RengaMalloc(label->depth, &layout.stage));
  for (int s = 0; s < layout.count; s++) {
    layout.stage[s] =
        (SearchStage){.begin = label->begin, .end = label->end, .shape = label->candidate->shape};
    if (label->next >= 0) label = &labels->label[label->next];
  }
  RengaSearchLayoutKeep_Private(labels->model, &layout, labels->best);
  return RENGA_SUCCESS;
}

static bool CombineLabels(const SearchLabels *labels, int next, const SearchCandidate *candidate,
                          int begin, int end, SearchLabel *label)
{
  const SearchModel *model = labels->model;
  const SearchLabel *after = next >= 0 ? &labels->label[next] : NULL;
  SearchCost cost;
  *label = (SearchLabel){.candidate = candidate, .begin = begin, .end = end, .next = next};
  label->depth = after ? after->depth + 1 : 1;
  label->devices = candidate->devices + (after ? after->devices : 0);
  if (label->devices > model->devices) return false;
  if (!RengaSearchStageCost_Private(model, candidate, begin, end, label->depth, &cost))
    return false;
  label->extra = 2 * cost.delay + cost.again + (after ? after->extra : 0);
  label->rounds = fmax(cost.rounds, after ? after->rounds : 0);
  label->reduce = fmax(cost.reduce, after ? after->reduce : 0);
  label->update = fmax(cost.update, after ? after->update : 0);
  return true;
}

static bool IsLabelingOver(const SearchLabels *labels)
{
  return (labels->bounded && labels->left < 0) ||
         (labels->until > 0 && MPI_Wtime() > labels->until);
}

static RengaErrorCode ExtendLabel(SearchLabels *labels, int next, int end)
{
  const SearchModel *model = labels->model;
  const int own = next >= 0 ? labels->label[next].candidate->shape.replicas : 0;
  for (int o = 0; o < model->n_candidates && !IsLabelingOver(labels); o++) {
    const SearchCandidate *candidate = &model->candidate[o];
    if (own && !model->unequal && candidate->shape.replicas != own) continue;
    for (int begin = end - 1; begin >= 0 && !(labels->bounded && labels->left < 0); begin--) {
      SearchLabel label;
      labels->left--;
      if (!IsBetter(labels,
                    labels->work + RengaSearchLeastShare_Private(model, candidate, begin, end)))
        break;
      if (model->memory > 0 &&
          RengaSearchLeastBytes_Private(model, candidate, begin, end) > model->memory)
        break;
      if (!CombineLabels(labels, next, candidate, begin, end, &label)) continue;
      if (!IsBetter(labels, StepAtLeast(labels, &label))) continue;
      if (begin == 0)
        RengaCall(Complete(labels, &label));
      else if (!IsLabelDominated(labels, &label))
        RengaCall(StoreLabel(labels, &label));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunLabels(SearchLabels *labels, bool *proved)
{
  RengaCall(RengaSearchCapacity_Private(labels->model, &labels->capacity));
  RengaCall(RengaMalloc(labels->model->count + 1, &labels->newest));
  for (int c = 0; c <= labels->model->count; c++) labels->newest[c] = -1;
  RengaCall(ExtendLabel(labels, -1, labels->model->count));
  for (int place = labels->model->count - 1; place > 0; place--)
    for (int l = labels->newest[place]; l >= 0; l = labels->label[l].older) {
      if (IsLabelingOver(labels)) return RENGA_SUCCESS;
      if (!IsBetter(labels, StepAtLeast(labels, &labels->label[l]))) continue;
      RengaCall(ExtendLabel(labels, l, place));
    }
  *proved = !IsLabelingOver(labels);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchLabels_Private(const SearchModel *model, double until, int64_t work,
                                         SearchLayout *best, bool *proved)
{
  SearchLabels labels = {.model = model,
                         .best = best,
                         .work = RengaSearchWork_Private(model),
                         .until = until,
                         .left = work,
                         .bounded = work > 0};
  *proved = false;
  RengaErrorCode code = RunLabels(&labels, proved);
  RengaFree(&labels.capacity);
  RengaFree(&labels.newest);
  RengaFree(&labels.label);
  RengaCall(code);
  return RENGA_SUCCESS;
}
