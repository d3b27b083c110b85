/* What becomes of the tensors of forward that backward needs: one function says it for each of
   them. A stage that recomputes may keep some all the same; for a backward it makes the others
   again, each when it is needed (recompute.c), and runs no node that leads to nothing but what
   it keeps or sends. A stage that offloads has them in the host's memory, each micro-batch in a
   slot of its own there; the device has one slot, to which they come before their backward
   (offload.c). */
#include "layout.h"
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include <string.h>

/* The plan says it: the stage's shape, and what the stage keeps by name. */
RengaSaved RengaChunkGetPolicy_Private(const Chunk *chunk, const char *name)
{
  if (!chunk->recompute) return RENGA_SAVED_KEEP;
  if (RengaChunkKeepsAway_Private(chunk)) return RENGA_SAVED_OFFLOAD;
  return RengaPlanIsKept_Private(chunk->outline->plan, chunk->stage, name) ? RENGA_SAVED_KEEP
                                                                           : RENGA_SAVED_RECOMPUTE;
}

/* read: [values] of forward, by nodes of backward, or moved there. */
static void MarkRead(const Layout *layout, bool read[])
{
  for (int n = 0; n < layout->n_nodes; n++) {
    const RengaGraphRow *node = LayoutNode(layout, n);
    if (layout->part[n] <= PART_FORWARD) continue;
    for (int i = 0; i < node->n_in; i++)
      if (LayoutPartOf(layout, node->in[i]) == PART_FORWARD) read[node->in[i]] = true;
  }
  for (int m = 0; m < layout->n_moves; m++)
    if (LayoutPartOf(layout, layout->move[m].value) == PART_FORWARD)
      read[layout->move[m].value] = true;
}

/* What is kept lies in the memory of what it was reshaped from. That is known by itself once values
   are joined, but ranks of a tensor group join those of their own lanes alone. */
static void KeepBehindReshapes(Layout *layout)
{
  for (int n = layout->n_nodes - 1; n >= 0; n--) {
    const RengaGraphRow *node = LayoutNode(layout, n);
    if (layout->part[n] != PART_FORWARD || !(node->op->flags & RENGA_OP_RESHAPE)) continue;
    if (layout->storage[node->out[0]].kept && LayoutPartOf(layout, node->in[0]) == PART_FORWARD)
      layout->storage[node->in[0]].kept = true;
  }
}

/* Before values are joined; of training. */
RengaErrorCode RengaLayoutMarkKept_Private(Layout *layout)
{
  const Chunk *chunk = layout->chunk;
  bool *read;
  if (!chunk->recompute) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->n_values + 1, &read));
  MarkRead(layout, read);
  for (RengaValue v = 0; v < layout->n_values; v++)
    layout->storage[v].kept =
        read[v] && RengaChunkGetPolicy_Private(chunk, RengaGraphGetValue(chunk->sub, v)->name) ==
                       RENGA_SAVED_KEEP;
  if (chunk->tensor.group.size > 1) KeepBehindReshapes(layout);
  RengaFree(&read);
  return RENGA_SUCCESS;
}

/* It is there before a backward, whatever is made again. */
static bool IsThere(const Layout *layout, RengaValue value)
{
  if (LayoutPartOf(layout, value) != PART_FORWARD) return true;
  const RengaValue root = LayoutRoot(layout, value);
  return LayoutIsGiven(layout, root) || layout->storage[root].kept;
}

/* The node puts together what lanes have made, which the ranks that run it share out; no sum. */
static bool JoinsParts(const Layout *layout, int n)
{
  const RengaGraphRow *node = LayoutNode(layout, n);
  const int owner = LayoutOwner(layout, n);
  if (strcmp(node->op->name, "Concat") != 0 || RengaGraphIsOfPieces_Private(layout->chunk->sub, n))
    return false;
  for (int i = 0; i < node->n_in; i++) {
    if (LayoutPartOf(layout, node->in[i]) != PART_FORWARD) return false;
    const int own = LayoutOwner(layout, LayoutMaker(layout, node->in[i]));
    if (own == owner || !RengaLaneCovers(owner, own)) return false;
  }
  return true;
}

/* All of a stage that recomputes, but for what it keeps; of any stage what is put together of
   parts, unless it has to stay until it is sent: each rank keeps the parts of its own lanes. */
static bool MayBeRecomputed(const Layout *layout, int n)
{
  const Chunk *chunk = layout->chunk;
  if (layout->part[n] != PART_FORWARD) return false;
  if (chunk->recompute) return !RengaChunkKeepsAway_Private(chunk);
  return JoinsParts(layout, n) && !layout->storage[LayoutNode(layout, n)->out[0]].own;
}

/* Parts that are kept go again to the ranks that put them together again. */
static void MarkResent(Layout *layout, int n)
{
  const RengaGraphRow *node = LayoutNode(layout, n);
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue value = node->in[i];
    if (layout->copied[value]) continue;
    if (layout->again[LayoutMaker(layout, value)])
      layout->copied[value] = true;
    else
      layout->resent[value] = true;
  }
}

/* From what backward reads back to what is there. Where a tensor group computes the stage all nodes
   are looked at, so that its ranks choose alike. */
RengaErrorCode RengaLayoutChooseRecomputed_Private(Layout *layout)
{
  bool *wanted;
  const bool any = layout->chunk->recompute || layout->chunk->tensor.group.size > 1;
  if (layout->program->kind != PROGRAM_TRAINING || !any) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->n_values + 1, &wanted));
  MarkRead(layout, wanted);
  for (int n = layout->n_nodes - 1; n >= 0; n--) {
    const RengaGraphRow *node = LayoutNode(layout, n);
    if (!MayBeRecomputed(layout, n)) continue;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE && wanted[node->out[o]] &&
          !IsThere(layout, node->out[o]))
        layout->again[n] = true;
    for (int i = 0; layout->again[n] && i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) wanted[node->in[i]] = true;
    for (int o = 0; layout->again[n] && o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE)
        layout->copied[node->out[o]] = !IsThere(layout, node->out[o]);
  }
  for (int n = 0; n < layout->n_nodes; n++)
    if (layout->again[n] && JoinsParts(layout, n)) MarkResent(layout, n);
  RengaFree(&wanted);
  return RENGA_SUCCESS;
}
