/* What the pipeline of a layout takes at the least, under any schedule and on any placement that
   fits into the memory: bound.c with the leads and tails of its own stages, messages included.

   A stage's first forward waits for all that leads to it from the first stage on; after its last
   backward gradients still go back; between a forward and its backward its micro-batch goes to the
   stages that it sends to, and comes back. */
#include "search.h"
#include <math.h>

typedef struct {
  int n_messages;
  const RengaMessage *message; /* sorted by where they leave */
  const double *seconds;
  SearchPace *pace; /* [stages] */
} Floor;

static double SecondsBack(const Floor *floor, const RengaMessage *forward)
{
  for (int m = 0; m < floor->n_messages; m++) {
    const RengaMessage *back = &floor->message[m];
    if (back->backward && back->from == forward->to && back->to == forward->from)
      return floor->seconds[m];
  }
  return -1;
}

static void FindWork(const SearchModel *model, const SearchLayout *layout, SearchPace pace[])
{
  for (int s = 0; s < layout->count; s++) {
    pace[s] = RengaSearchPace_Private(model, layout->stage[s].begin, layout->stage[s].end);
    pace[s].early = pace[s].lead = pace[s].tail = 0;
  }
}

/* after: [stages] seconds of gradients that still go back. */
static void FindFloorLeads(const Floor *floor, int stages, double after[])
{
  for (int m = 0; m < floor->n_messages; m++) {
    const RengaMessage *message = &floor->message[m];
    const SearchPace *from = &floor->pace[message->from], *to = &floor->pace[message->to];
    double *reached = message->backward ? &after[message->from] : &floor->pace[message->to].lead;
    const double seconds =
        message->backward ? to->input + after[message->to] : from->forward + from->lead;
    *reached = fmax(*reached, seconds + floor->seconds[m]);
  }
  for (int s = 0; s < stages; s++) {
    floor->pace[s].early = floor->pace[s].lead;
    floor->pace[s].lead += after[s];
  }
}

static void FindTails(const Floor *floor)
{
  for (int m = floor->n_messages - 1; m >= 0; m--) {
    const RengaMessage *message = &floor->message[m];
    const SearchPace *to = &floor->pace[message->to];
    SearchPace *from = &floor->pace[message->from];
    const double back = message->backward ? -1 : SecondsBack(floor, message);
    if (back >= 0)
      from->tail = fmax(from->tail, floor->seconds[m] + to->forward + to->tail + to->input + back);
  }
}

static double LongestStage(const SearchModel *bounded, const SearchLayout *layout,
                           const SearchPace pace[])
{
  double longest = 0;
  int behind = 0;
  for (int s = layout->count - 1; s >= 0; s--) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(bounded, &stage->shape);
    longest = fmax(longest, RengaSearchPipelineAtLeast_Private(
                                bounded, &candidate, stage->begin, stage->end, behind,
                                bounded->received[stage->begin], &pace[s], 0));
    behind += candidate.devices;
  }
  return longest;
}

RengaErrorCode RengaSearchFloor_Private(const SearchModel *bounded, const SearchLayout *layout,
                                        int n_messages, const RengaMessage messages[],
                                        const double seconds[], double *pipeline)
{
  Floor floor = {.n_messages = n_messages, .message = messages, .seconds = seconds};
  double *after = NULL;
  RengaErrorCode code = RengaMalloc(layout->count, &floor.pace);
  if (!code) code = RengaMalloc(layout->count, &after);
  if (!code) {
    FindWork(bounded, layout, floor.pace);
    FindFloorLeads(&floor, layout->count, after);
    FindTails(&floor);
    *pipeline = LongestStage(bounded, layout, floor.pace);
  }
  RengaFree(&after);
  RengaFree(&floor.pace);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* No schedule takes less: a stage does all its work after the first forwards of what comes before
   it and before their last backwards. */
double RengaSearchLeastPipeline_Private(const SearchModel *model, const SearchLayout *layout,
                                        bool halves)
{
  double least = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
    const SearchCost cost = RengaSearchCostOf_Private(model, stage, layout->count - s);
    const double work = (double)candidate.rounds * (cost.forward + cost.backward);
    least = fmax(least, work + (halves ? model->halves.early : model->paths.lead)[stage->begin]);
  }
  return least;
}
