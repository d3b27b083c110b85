/* A stage that several tensor and context ranks compute together. Each runs the nodes of its lanes
   (-graph_lanes, -graph_token_lanes), and all run the others, with the same bits. What a lane
   makes, and such a node reads, goes to all of them: terms of the sum at the end of a chain,
   gradients of what its lanes have read, gradients of parameters. So each adds up the terms in the
   order of one rank. What only one other rank reads goes to that one, and what ranks of one kind
   read, of one number in the other, to these.

   Nodes of several ranks, and sums of gradients, that wait for an exchange are put off until a
   lane needs what they make, so that one exchange takes the terms of all lanes, which the ranks
   have made at the same time. What of backward an exchange does not take may be done beside it
   (program.c): it stands behind all that the exchange takes. What a stage that recomputes makes
   again (recompute.c) is exchanged again, where another lane, or a node in none, reads what a
   lane has made. */
#include "parameter.h"
#include "layout.h"
#include <string.h>

/* value: or the copy of one. */
static void ExchangeValue(Layout *layout, RengaValue value, int reader)
{
  if (value == RENGA_VALUE_NONE || LayoutIsGiven(layout, value)) return;
  const int maker = LayoutMaker(layout, value);
  if (maker < 0 || layout->part[maker] == PART_NONE) return;
  if (RengaLaneCovers(LayoutOwner(layout, maker), reader)) return;
  int *receiver = &layout->receiver[value];
  *receiver = *receiver == RENGA_TENSOR_NONE ? reader : RengaLaneBoth(*receiver, reader);
}

/* What a node reads, in the part. */
static void ExchangeInputs(Layout *layout, int n, ProgramPart part)
{
  const RengaGraphRow *node = LayoutNode(layout, n);
  for (int i = 0; i < node->n_in; i++)
    ExchangeValue(layout, LayoutRead(layout, part, node->in[i]), LayoutOwner(layout, n));
}

/* The gradient of a part stays where the part is. own: [values] zeros. */
static void MarkGradientsOfParts(const Chunk *chunk, bool own[])
{
  for (int u = 0; u < chunk->uses->count; u++) {
    const RengaParameterUse *use = &chunk->uses->row[u];
    own[use->gradient] =
        RengaGraphGetValue(chunk->sub, use->parameter)->kind != RENGA_VALUE_PARAMETER;
  }
}

/* What is wanted outside; a move may read what is made again. */
static void ExchangeWanted(Layout *layout, int count, const RengaValue wanted[], const bool own[])
{
  for (int i = 0; i < count; i++)
    if (!own[wanted[i]]) ExchangeValue(layout, wanted[i], RENGA_TENSOR_ALL);
  for (int m = 0; m < layout->n_moves; m++) {
    const Move *move = &layout->move[m];
    if (move->value == RENGA_VALUE_NONE || own[move->value]) continue;
    const ProgramPart part = LayoutFills(layout, move->value, move->to);
    ExchangeValue(layout, LayoutRead(layout, part, move->value), RENGA_TENSOR_ALL);
  }
}

/* Once it is known which nodes run in which part, and what is moved. What is made again is chosen
   before values are joined, which ranks do in other ways, so that all choose alike. */
RengaErrorCode RengaLayoutFindExchanged_Private(Layout *layout)
{
  int count;
  RengaValue *wanted = NULL;
  bool *own;
  RengaCall(RengaLayoutChooseRecomputed_Private(layout));
  RengaCall(RengaLayoutWanted_Private(layout, &count, NULL));
  RengaCall(RengaMalloc(layout->n_values + 1, &own));
  if (layout->program->kind == PROGRAM_TRAINING) MarkGradientsOfParts(layout->chunk, own);
  RengaErrorCode code = RengaMalloc(count + 1, &wanted);
  if (!code) code = RengaLayoutWanted_Private(layout, &count, wanted);
  if (!code) ExchangeWanted(layout, count, wanted, own);
  RengaFree(&wanted);
  RengaFree(&own);
  RengaCall(code);
  for (int n = 0; n < layout->n_nodes; n++) {
    if (layout->part[n] != PART_NONE) ExchangeInputs(layout, n, layout->part[n]);
    if (layout->again[n]) ExchangeInputs(layout, n, PART_BACKWARD);
  }
  return RENGA_SUCCESS;
}

/* A value that is not there: the lane's own rank has made it, or nobody has. */
typedef enum { WAITS_NOT, WAITS_ELSEWHERE, WAITS_EVERYWHERE } Waiting;

/* While the steps that run in one part are shared out. */
typedef struct {
  Layout *layout;
  Waiting *waits; /* [values, then their copies] of an exchange that is to come, or made of such */
  bool *taken;    /* [values, then their copies] what the terms of the exchange are made of */
  int first;      /* step behind the exchange before */
  int n_terms, n_late;
  Step *terms; /* whose values the next exchange takes */
  Step *late;  /* that are put off until then */
} TensorListing;

static void AddTensorStep(const TensorListing *listing, const Step *one, bool exchange)
{
  Layout *layout = listing->layout;
  Step *step = &layout->step[layout->n_steps++];
  *step = *one;
  step->exchange = exchange;
  step->position = step->ready = layout->length[one->part];
  if (!exchange) layout->length[one->part]++;
}

static bool HasTerm(const Layout *layout, const Step *step)
{
  for (int o = 0; o < LayoutNode(layout, step->node)->n_out; o++)
    if (LayoutIsExchanged(layout, LayoutOut(layout, step, o))) return true;
  return false;
}

/* The exchange takes something that the step makes, or that leads to what it takes. */
static bool ExchangeTakes(const TensorListing *listing, const Step *step)
{
  const Layout *layout = listing->layout;
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  bool taken = step->resent || HasTerm(layout, step);
  for (int o = 0; o < node->n_out && !taken; o++) {
    const RengaValue value = LayoutOut(layout, step, o);
    taken = value != RENGA_VALUE_NONE && listing->taken[value];
  }
  for (int i = 0; i < node->n_in && taken; i++) {
    const RengaValue value = LayoutIn(layout, step, i);
    if (value != RENGA_VALUE_NONE) listing->taken[value] = true;
  }
  return taken;
}

/* Steps since the exchange before, of one part: what the next one takes comes first. ready: the
   position of the last of these. spare: room for as many steps. */
static void PutTakenFirst(const TensorListing *listing, Step spare[], int *ready)
{
  Layout *layout = listing->layout;
  Step *step = layout->step + listing->first;
  const int count = layout->n_steps - listing->first;
  int at = count, n_spare = 0, position;
  for (int s = 0; s < count; s++)
    if (step[s].part != step[s].runs || step[s].part != step[0].part) return;
  if (count == 0) return;
  memset(listing->taken, 0, (size_t)layout->n_storages * sizeof *listing->taken);
  position = step[0].position;
  for (int s = count - 1; s >= 0; s--)
    if (ExchangeTakes(listing, &step[s]))
      spare[n_spare++] = step[s];
    else
      step[--at] = step[s];
  for (int s = 0; s < n_spare; s++) step[s] = spare[n_spare - 1 - s];
  for (int s = 0; s < count; s++) step[s].position = step[s].ready = position++;
  *ready = step[n_spare > 0 ? n_spare - 1 : 0].position;
}

static void MarkWaiting(const TensorListing *listing, const Step *step, bool all)
{
  const Layout *layout = listing->layout;
  for (int o = 0; o < LayoutNode(layout, step->node)->n_out; o++) {
    const RengaValue value = LayoutOut(layout, step, o);
    if (value == RENGA_VALUE_NONE) continue;
    listing->waits[value] = all                                ? WAITS_EVERYWHERE
                            : LayoutIsExchanged(layout, value) ? WAITS_ELSEWHERE
                                                               : WAITS_NOT;
  }
}

static void MarkThere(const TensorListing *listing, const Step *step)
{
  for (int o = 0; o < LayoutNode(listing->layout, step->node)->n_out; o++) {
    const RengaValue value = LayoutOut(listing->layout, step, o);
    if (value != RENGA_VALUE_NONE) listing->waits[value] = WAITS_NOT;
  }
}

/* The exchange, and what was put off. */
static void ListExchange(TensorListing *listing)
{
  int ready = -1;
  if (listing->n_terms > 0 && listing->layout->beside && listing->terms[0].runs > PART_AGAIN)
    PutTakenFirst(listing, listing->late + listing->n_late, &ready);
  for (int i = 0; i < listing->n_terms; i++) {
    AddTensorStep(listing, &listing->terms[i], true);
    if (ready >= 0) listing->layout->step[listing->layout->n_steps - 1].ready = ready;
    MarkThere(listing, &listing->terms[i]);
  }
  listing->first = listing->layout->n_steps;
  if (listing->n_terms > 0) listing->layout->length[listing->terms[0].part]++;
  for (int i = 0; i < listing->n_late; i++) {
    if (!LayoutIsElsewhere(listing->layout, listing->late[i].node))
      AddTensorStep(listing, &listing->late[i], false);
    MarkThere(listing, &listing->late[i]);
  }
  listing->n_terms = listing->n_late = 0;
}

/* Sums of gradients in lanes, too: the terms of all lanes come at once. */
static bool MayBePutOff(const Layout *layout, const Step *step, int owner)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  const bool sum = step->part > PART_FORWARD && !step->again && strcmp(node->op->name, "Add") == 0;
  return (sum || !RengaLaneGroupIsOne_Private(&layout->chunk->tensor.group, owner)) &&
         !HasTerm(layout, step);
}

/* A rank has what it made itself. */
static bool WaitsForTerm(const TensorListing *listing, RengaValue value, int reader)
{
  const Layout *layout = listing->layout;
  if (value == RENGA_VALUE_NONE || !listing->waits[value]) return false;
  if (listing->waits[value] == WAITS_EVERYWHERE) return true;
  const int maker = LayoutMaker(layout, value);
  return !RengaLaneCovers(LayoutOwner(layout, maker), reader);
}

/* All ranks of the group come to the same exchanges: nothing here depends on which one this is, but
   for the steps of lanes that others have. */
static void ListTensorStep(TensorListing *listing, const Step *step)
{
  Layout *layout = listing->layout;
  const int owner = LayoutOwner(layout, step->node);
  bool waits = false;
  for (int i = 0; i < LayoutNode(layout, step->node)->n_in && !step->resent; i++)
    waits = waits || WaitsForTerm(listing, LayoutIn(layout, step, i), owner);
  if (waits && MayBePutOff(layout, step, owner)) {
    listing->late[listing->n_late++] = *step;
    MarkWaiting(listing, step, true);
    return;
  }
  if (waits) ListExchange(listing);
  if (!LayoutIsElsewhere(layout, step->node)) AddTensorStep(listing, step, false);
  if (!HasTerm(layout, step)) return;
  listing->terms[listing->n_terms++] = *step;
  MarkWaiting(listing, step, false);
}

/* Part by part, as each is an action of the rank's list, or one of a few that follow each other.
   What is worked out once all ranks do. */
static void ListShares(TensorListing *listing, int count, const Step one[])
{
  Layout *layout = listing->layout;
  for (int s = 0; s < count; s++)
    if (one[s].part != PART_CONSTANT) layout->length[one[s].part] = 0;
  for (int s = 0; s < count; s++)
    if (one[s].part == PART_CONSTANT) layout->step[layout->n_steps++] = one[s];
  for (ProgramPart runs = PART_FORWARD; runs < PART_COUNT; runs++) {
    listing->first = layout->n_steps;
    for (int s = 0; s < count; s++)
      if (one[s].runs == runs) ListTensorStep(listing, &one[s]);
    ListExchange(listing);
  }
}

/* The steps from the first on are those of one rank; they become this rank's, with exchanges. */
RengaErrorCode RengaLayoutShareSteps_Private(Layout *layout, int first)
{
  TensorListing listing = {.layout = layout};
  const int count = layout->n_steps - first;
  Step *one = NULL;
  if (layout->chunk->tensor.group.size == 1) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->n_storages + 1, &listing.waits));
  RengaErrorCode code = RengaMalloc(layout->n_storages + 1, &listing.taken);
  if (!code) code = RengaMalloc(4 * count + 1, &one);
  if (!code) {
    memcpy(one, layout->step + first, (size_t)count * sizeof *one);
    listing.terms = one + count;
    listing.late = one + 2 * (int64_t)count;
    layout->n_steps = first;
    ListShares(&listing, count, one);
  }
  RengaFree(&one);
  RengaFree(&listing.waits);
  RengaFree(&listing.taken);
  RengaCall(code);
  return RENGA_SUCCESS;
}
