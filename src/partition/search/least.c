/* What a stage takes at the least, however the runtime lays out its memory and whatever its
   neighbours are. All of it grows with the interval, to both sides. */
#include "search.h"
#include <math.h>

enum { ELEMENT = sizeof(float) };

/* Whatever is in flight. */
static double FixedBytes(const SearchModel *model, const SearchOption *option, int begin, int end)
{
  const double gradients = model->elements[end] - model->elements[begin];
  return ELEMENT * (RengaSearchHeld_Private(model, begin, end) * (1 + model->moments) +
                    model->states[end] - model->states[begin] + gradients * option->least_buffers);
}

/* Of a micro-batch: what the stage makes that its own backward reads. */
static double KeptBytes(const SearchModel *model, int begin, int end)
{
  return fmax(0, model->read[end] - model->saved[begin]);
}

double RengaSearchDeepest_Private(const SearchModel *model, const SearchOption *option, int begin,
                                  int end, bool recompute, double received)
{
  const double rounds = (double)option->rounds, kept = KeptBytes(model, begin, end);
  if (model->memory <= 0) return rounds;
  const double each =
      received + model->fields[end] - model->fields[begin] + (recompute ? model->sent[end] : 0);
  const double left =
      model->memory - FixedBytes(model, option, begin, end) - (recompute ? kept : 0);
  if (left < 0) return 0;
  const double bytes = each + (recompute ? 0 : kept);
  return bytes * rounds <= left ? rounds : floor(left / bytes);
}

double RengaSearchLeastEnd_Private(const SearchModel *model, const SearchOption *option, int begin,
                                   int end)
{
  const double elements = model->elements[end] - model->elements[begin];
  double reduce =
      option->reduce_latency + option->reduce_rate * ELEMENT * elements - model->backward[begin];
  if (option->shape.replicas == 1 || reduce < 0) reduce = 0;
  return reduce + model->update_rate * RengaSearchHeld_Private(model, begin, end);
}
