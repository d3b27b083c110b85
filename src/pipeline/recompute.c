/* The order in which a program runs its nodes. What a stage makes again is made just before the
   first node of backward that needs it, by way of other nodes that are run again or by itself, and
   its memory is free once backward has read it: where values between layers are kept, one layer is
   there at a time. What backward needs first is made before gradients have arrived, by a part of
   its own.

   Where gradients of parameters come in a part that runs later, all is made before backward, into
   the slot: the list says when the later part runs. */
#include "layout.h"
#include <stdlib.h>

typedef struct {
  Layout *layout;
  bool *done; /* [nodes] listed again, or about to be */
  int count;  /* of those that are about to be */
  int *node;  /* [nodes] */
  bool begun; /* backward: what it needs first is listed, or nothing runs before it */
} Listing;

static void AddStep(Layout *layout, int n, ProgramPart part, ProgramPart runs, bool again)
{
  layout->step[layout->n_steps++] = (Step){.node = n,
                                           .again = again,
                                           .resent = again && !layout->again[n],
                                           .part = part,
                                           .runs = runs,
                                           .position = layout->length[part]++,
                                           .workspace.region = REGION_ABSENT};
}

/* What depends on constants, and forward. */
RengaErrorCode RengaLayoutListForward_Private(Layout *layout)
{
  for (int n = 0; n < layout->n_nodes; n++)
    if (layout->part[n] == PART_CONSTANT || layout->part[n] == PART_FORWARD)
      AddStep(layout, n, layout->part[n], layout->part[n], false);
  RengaCall(RengaLayoutShareSteps_Private(layout, 0));
  return RENGA_SUCCESS;
}

/* The makers of what the node reads that are still to be run again. */
static void AddMakers(Listing *listing, int n)
{
  const Layout *layout = listing->layout;
  const RengaGraphRow *node = LayoutNode(layout, n);
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    if (!layout->copied[node->in[i]] && !layout->resent[node->in[i]]) continue;
    const int maker = LayoutMaker(layout, node->in[i]);
    if (listing->done[maker]) continue;
    listing->done[maker] = true;
    listing->node[listing->count++] = maker;
  }
}

static int CompareNodes(const void *a, const void *b)
{
  const int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

/* A part of its own makes all again before backward. */
static bool MakesAllBefore(const Layout *layout)
{
  return layout->chunk->memory->lag > 0 && layout->chunk->recompute;
}

/* Those that are about to be listed, and what they need, in the order of forward. */
static void ListMakers(Listing *listing)
{
  Layout *layout = listing->layout;
  const ProgramPart part = MakesAllBefore(layout) ? PART_AGAIN : PART_BACKWARD;
  for (int i = 0; i < listing->count; i++)
    if (layout->again[listing->node[i]]) AddMakers(listing, listing->node[i]);
  if (listing->count)
    qsort(listing->node, (size_t)listing->count, sizeof *listing->node, CompareNodes);
  for (int i = 0; i < listing->count; i++)
    AddStep(layout, listing->node[i], part, listing->begun ? part : PART_AGAIN, true);
  listing->count = 0;
}

/* What is left, or all. */
static void ListAllMakers(Listing *listing)
{
  for (int n = 0; n < listing->layout->n_nodes; n++)
    if (listing->layout->again[n] && !listing->done[n]) {
      listing->done[n] = true;
      listing->node[listing->count++] = n;
    }
  ListMakers(listing);
}

/* The first node of backward that reads what forward makes; -1: none does. */
static int FirstReader(const Layout *layout)
{
  for (int n = 0; n < layout->n_nodes; n++) {
    const RengaGraphRow *node = LayoutNode(layout, n);
    for (int i = 0; i < node->n_in && layout->part[n] > PART_FORWARD; i++)
      if (LayoutPartOf(layout, node->in[i]) == PART_FORWARD) return n;
  }
  return -1;
}

static void ListBackward(Listing *listing)
{
  Layout *layout = listing->layout;
  const int first = FirstReader(layout);
  listing->begun = !layout->chunk->recompute;
  if (MakesAllBefore(layout)) ListAllMakers(listing);
  if (first >= 0) AddMakers(listing, first);
  ListMakers(listing);
  listing->begun = true;
  for (int n = 0; n < layout->n_nodes; n++) {
    if (layout->part[n] <= PART_FORWARD) continue;
    AddMakers(listing, n);
    ListMakers(listing);
    AddStep(layout, n, layout->part[n], layout->part[n], false);
  }
  ListAllMakers(listing); /* of what is only moved */
}

/* Backward, and what it makes again. */
RengaErrorCode RengaLayoutListBackward_Private(Layout *layout)
{
  Listing listing = {.layout = layout};
  const int before = layout->n_steps;
  RengaCall(RengaMalloc(layout->n_nodes + 1, &listing.done));
  const RengaErrorCode code = RengaMalloc(layout->n_nodes + 1, &listing.node);
  if (!code) ListBackward(&listing);
  RengaFree(&listing.done);
  RengaFree(&listing.node);
  RengaCall(code);
  RengaCall(RengaLayoutShareSteps_Private(layout, before));
  return RENGA_SUCCESS;
}
