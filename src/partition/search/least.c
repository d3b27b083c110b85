/* What a stage takes at the least, however the runtime lays out its memory and whatever its
   neighbours are. All of it grows with the interval, to both sides. */
#include "search.h"
#include <math.h>

/* Whatever is in flight. */
static double FixedBytes(const SearchModel *model, const SearchCandidate *candidate, int begin,
                         int end)
{
  const SearchBytes *bytes = &candidate->bytes;
  const double gradients = bytes->gradient * (model->elements[end] - model->elements[begin]);
  return bytes->parameter * RengaSearchHeld_Private(model, begin, end) +
         bytes->state * (model->states[end] - model->states[begin]) +
         gradients * candidate->least_buffers;
}

/* Of a micro-batch: what the stage makes that its own backward reads. */
static double KeptBytes(const SearchModel *model, int begin, int end)
{
  return fmax(0, model->read[end] - model->saved[begin]);
}

double RengaSearchDeepest_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  RengaSaved saved, int begin, int end, double received)
{
  const SearchBytes *bytes = &candidate->bytes;
  const bool keeps = saved == RENGA_SAVED_KEEP;
  const double rounds = (double)candidate->rounds;
  const double kept = bytes->saved * KeptBytes(model, begin, end);
  if (model->memory <= 0) return rounds;
  const double sent = bytes->message * (keeps ? 0 : model->sent[end]);
  const double each = bytes->message * received + model->fields[end] - model->fields[begin] + sent;
  const double left = model->memory - FixedBytes(model, candidate, begin, end);
  if (left < 0) return 0;
  const double most = each + (keeps ? kept : 0);
  return most * rounds <= left ? rounds : floor(left / most);
}

/* What is kept takes its bytes for each micro-batch in flight. What is made again dies as soon as
   it is read, so that it is not counted; nor is what is sent: that and what is kept lie in one
   place. */
double RengaSearchNotKept_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  int begin, int end, double received, double depth)
{
  const SearchBytes *bytes = &candidate->bytes;
  const double kept = bytes->saved * KeptBytes(model, begin, end);
  const double each = bytes->message * received + model->fields[end] - model->fields[begin];
  const double left = model->memory - FixedBytes(model, candidate, begin, end) - depth * each;
  if (model->memory <= 0 || depth < 1) return 0;
  return fmax(0, kept - fmax(0, left) / depth);
}
