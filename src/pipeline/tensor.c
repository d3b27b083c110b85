/* A stage that several tensor ranks compute together. Each runs the nodes of its lanes
   (-graph_lanes), and all run the others, with the same bits. What a lane makes, and such a node
   reads, goes to all of them: terms of the sum at the end of a chain, gradients of what its lanes
   have read, gradients of parameters. So each adds up the terms in the order of one rank.

   Nodes that wait for an exchange are put off until a lane needs what they make, so that one
   exchange takes the terms of all lanes, which the ranks have made at the same time. */
#include "layout.h"

static void ExchangeValue(Layout *layout, RengaValue value, int reader)
{
  if (value == RENGA_VALUE_NONE || LayoutIsGiven(layout, value)) return;
  const int maker = RengaGraphGetValue(layout->chunk->sub, value)->producer;
  if (maker < 0 || layout->part[maker] == PART_NONE) return;
  const int owner = LayoutOwner(layout, maker);
  if (owner != RENGA_TENSOR_ALL && owner != reader) layout->exchanged[value] = true;
}

/* The gradient of a part stays where the part is. own: [values] zeros. */
static void MarkGradientsOfParts(const Chunk *chunk, bool own[])
{
  for (int u = 0; u < chunk->uses.count; u++) {
    const RengaParameterUse *use = &chunk->uses.row[u];
    own[use->gradient] =
        RengaGraphGetValue(chunk->sub, use->parameter)->kind != RENGA_VALUE_PARAMETER;
  }
}

/* Once it is known which nodes run in which part. */
RengaErrorCode RengaLayoutFindExchanged_Private(Layout *layout)
{
  int count;
  RengaValue *wanted = NULL;
  bool *own;
  if (layout->chunk->tensor.size == 1) return RENGA_SUCCESS;
  RengaCall(RengaLayoutWanted_Private(layout, &count, NULL));
  RengaCall(RengaMalloc(layout->n_values + 1, &own));
  MarkGradientsOfParts(layout->chunk, own);
  RengaErrorCode code = RengaMalloc(count + 1, &wanted);
  if (!code) code = RengaLayoutWanted_Private(layout, &count, wanted);
  for (int i = 0; i < count && !code; i++)
    if (!own[wanted[i]]) ExchangeValue(layout, wanted[i], RENGA_TENSOR_ALL);
  RengaFree(&wanted);
  RengaFree(&own);
  RengaCall(code);
  for (int n = 0; n < layout->n_nodes; n++) {
    const RengaGraphNode *node = LayoutNode(layout, n);
    if (layout->part[n] == PART_NONE) continue;
    for (int i = 0; i < node->n_in; i++) ExchangeValue(layout, node->in[i], LayoutOwner(layout, n));
  }
  return RENGA_SUCCESS;
}

/* While the steps of a part are listed. */
typedef struct {
  Layout *layout;
  ProgramPart part;
  bool *waits; /* [values] of an exchange that is to come, or made of such values */
  int n_terms, n_late;
  int *terms; /* [nodes] whose values the next exchange takes */
  int *late;  /* [nodes] that are put off until then */
} TensorListing;

static void AddTensorStep(const TensorListing *listing, int n, bool exchange)
{
  Layout *layout = listing->layout;
  layout->step[layout->n_steps++] = (Step){.node = n,
                                           .part = listing->part,
                                           .runs = listing->part,
                                           .position = layout->length[listing->part],
                                           .exchange = exchange,
                                           .workspace.region = REGION_ABSENT};
  if (!exchange) layout->length[listing->part]++;
}

static void MarkWaiting(const TensorListing *listing, int n, bool all)
{
  const RengaGraphNode *node = LayoutNode(listing->layout, n);
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] != RENGA_VALUE_NONE)
      listing->waits[node->out[o]] = all || listing->layout->exchanged[node->out[o]];
}

static void MarkThere(const TensorListing *listing, int n)
{
  const RengaGraphNode *node = LayoutNode(listing->layout, n);
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] != RENGA_VALUE_NONE) listing->waits[node->out[o]] = false;
}

/* The exchange, and what was put off. */
static void ListExchange(TensorListing *listing)
{
  for (int i = 0; i < listing->n_terms; i++) {
    AddTensorStep(listing, listing->terms[i], true);
    MarkThere(listing, listing->terms[i]);
  }
  if (listing->n_terms > 0) listing->layout->length[listing->part]++;
  for (int i = 0; i < listing->n_late; i++) {
    AddTensorStep(listing, listing->late[i], false);
    MarkThere(listing, listing->late[i]);
  }
  listing->n_terms = listing->n_late = 0;
}

static bool HasTerm(const Layout *layout, const RengaGraphNode *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] != RENGA_VALUE_NONE && layout->exchanged[node->out[o]]) return true;
  return false;
}

/* A rank has what it made itself. */
static bool WaitsForTerm(const TensorListing *listing, RengaValue value, int reader)
{
  if (value == RENGA_VALUE_NONE || !listing->waits[value]) return false;
  const int maker = RengaGraphGetValue(listing->layout->chunk->sub, value)->producer;
  return reader == RENGA_TENSOR_ALL || LayoutOwner(listing->layout, maker) != reader;
}

/* All ranks of the group come to the same exchanges: nothing here depends on which one this is, but
   for the steps of lanes that others have. */
static void ListTensorNode(TensorListing *listing, int n)
{
  Layout *layout = listing->layout;
  const RengaGraphNode *node = LayoutNode(layout, n);
  const int owner = LayoutOwner(layout, n);
  bool waits = false;
  for (int i = 0; i < node->n_in; i++) waits = waits || WaitsForTerm(listing, node->in[i], owner);
  if (waits && owner == RENGA_TENSOR_ALL) {
    listing->late[listing->n_late++] = n;
    MarkWaiting(listing, n, true);
    return;
  }
  if (waits) ListExchange(listing);
  if (!LayoutIsElsewhere(layout, n)) AddTensorStep(listing, n, false);
  if (!HasTerm(layout, node)) return;
  listing->terms[listing->n_terms++] = n;
  MarkWaiting(listing, n, false);
}

RengaErrorCode RengaLayoutListTensor_Private(Layout *layout, ProgramPart part)
{
  TensorListing listing = {.layout = layout, .part = part};
  int *nodes = NULL;
  RengaCall(RengaMalloc(layout->n_values + 1, &listing.waits));
  const RengaErrorCode code = RengaMalloc(2 * layout->n_nodes + 1, &nodes);
  if (nodes) {
    listing.terms = nodes;
    listing.late = nodes + layout->n_nodes;
    for (int n = 0; n < layout->n_nodes; n++)
      if (layout->part[n] == part) ListTensorNode(&listing, n);
    ListExchange(&listing);
  }
  RengaFree(&nodes);
  RengaFree(&listing.waits);
  RengaCall(code);
  return RENGA_SUCCESS;
}
