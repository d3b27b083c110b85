/* What becomes of the tensors of forward that backward needs: one function says it for each of
   them. A stage that recomputes may keep some all the same; before a backward it makes the others
   again, and runs no node that leads to nothing but what it keeps or sends. */
#include "layout.h"

/* The shape of the stage says it, unless the pipeline has a rule of its own. */
RengaErrorCode RengaChunkGetPolicy_Private(const Chunk *chunk, RengaValue value, RengaSaved *policy)
{
  const RengaSavedRule *rule = &chunk->outline->saved;
  const char *name = RengaGraphGetValue(chunk->sub, value)->name;
  *policy = chunk->recompute ? RENGA_SAVED_RECOMPUTE : RENGA_SAVED_KEEP;
  if (!rule->policy) return RENGA_SUCCESS;
  *policy = rule->policy(rule->user, chunk->stage, name);
  RengaCheck(*policy == RENGA_SAVED_KEEP || *policy == RENGA_SAVED_RECOMPUTE, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "stage %d: policy offload of the saved tensor %s is not supported",
             chunk->stage, name);
  RengaCheck(*policy == RENGA_SAVED_KEEP || chunk->recompute, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "stage %d keeps its saved tensors: to recompute %s, recompute must be the policy of "
             "the stage's shape",
             chunk->stage, name);
  return RENGA_SUCCESS;
}

/* read: [values] of forward, by nodes of backward, or moved there. */
static void MarkRead(const Layout *layout, bool read[])
{
  for (int n = 0; n < layout->n_nodes; n++) {
    const RengaGraphNode *node = LayoutNode(layout, n);
    if (layout->part[n] <= PART_FORWARD) continue;
    for (int i = 0; i < node->n_in; i++)
      if (LayoutPartOf(layout, node->in[i]) == PART_FORWARD) read[node->in[i]] = true;
  }
  for (int m = 0; m < layout->n_moves; m++)
    if (LayoutPartOf(layout, layout->move[m].value) == PART_FORWARD)
      read[layout->move[m].value] = true;
}

static RengaErrorCode MarkEach(Layout *layout, const bool read[])
{
  for (RengaValue v = 0; v < layout->n_values; v++) {
    RengaSaved policy;
    if (!read[v]) continue;
    RengaCall(RengaChunkGetPolicy_Private(layout->chunk, v, &policy));
    layout->storage[v].kept = layout->chunk->recompute && policy == RENGA_SAVED_KEEP;
  }
  return RENGA_SUCCESS;
}

/* Before values are joined; of training. */
RengaErrorCode RengaLayoutMarkKept_Private(Layout *layout)
{
  bool *read;
  if (!layout->chunk->outline->saved.policy) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->n_values + 1, &read));
  MarkRead(layout, read);
  const RengaErrorCode code = MarkEach(layout, read);
  RengaFree(&read);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* It is there before a backward, whatever is made again. */
static bool IsThere(const Layout *layout, RengaValue value)
{
  if (LayoutPartOf(layout, value) != PART_FORWARD) return true;
  const RengaValue root = LayoutRoot(layout, value);
  return LayoutIsGiven(layout, root) || layout->storage[root].kept;
}

/* From what backward reads back to what is there. Where values share memory in place, all that
   wrote there before is run again too: it leads to what is read. */
RengaErrorCode RengaLayoutChooseAgain_Private(Layout *layout)
{
  bool *wanted;
  if (layout->program->kind != PROGRAM_TRAINING || !layout->chunk->recompute) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->n_values + 1, &wanted));
  MarkRead(layout, wanted);
  for (int n = layout->n_nodes - 1; n >= 0; n--) {
    const RengaGraphNode *node = LayoutNode(layout, n);
    if (layout->part[n] != PART_FORWARD) continue;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE && wanted[node->out[o]] &&
          !IsThere(layout, node->out[o]))
        layout->again[n] = true;
    for (int i = 0; layout->again[n] && i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) wanted[node->in[i]] = true;
  }
  RengaFree(&wanted);
  return RENGA_SUCCESS;
}
