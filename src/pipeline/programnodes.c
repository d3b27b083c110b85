/* Which nodes of a stage a program runs, and in which part: those that lead to what is wanted. What
   depends on constants only is worked out once, before the first micro-batch. */
#include "rows.h"
#include "layout.h"

static int AddWanted(int count, RengaValue values[], RengaValue value)
{
  if (value == RENGA_VALUE_NONE) return count;
  if (values) values[count] = value;
  return count + 1;
}

static int WantedOfTraining(const Chunk *chunk, int count, RengaValue values[])
{
  count = AddWanted(count, values, chunk->loss->value);
  count = AddWanted(count, values, chunk->loss->samples);
  for (int u = 0; u < chunk->uses->count; u++)
    if (chunk->uses->place[u] != USE_UNWANTED)
      count = AddWanted(count, values, chunk->uses->row[u].gradient);
  for (int l = 0; l < chunk->rows->count; l++) {
    count = AddWanted(count, values, chunk->rows->row[l].gradients);
    count = AddWanted(count, values, chunk->rows->row[l].numbers);
  }
  for (int u = 0; u < chunk->states->n_updates; u++)
    count = AddWanted(count, values, chunk->states->update[u].batch_value);
  return count;
}

/* The values that the program must make; values may be NULL. */
RengaErrorCode RengaLayoutWanted_Private(const Layout *layout, int *count, RengaValue values[])
{
  const Chunk *chunk = layout->chunk;
  const ProgramKind kind = layout->program->kind;
  int n = 0;
  if (kind == PROGRAM_PROLOGUE) {
    for (int s = 0; s < chunk->n_sums; s++) n = AddWanted(n, values, chunk->sum[s].share);
  } else {
    for (int m = 0; m < chunk->outline->n_messages; m++) {
      const Link *link = &chunk->link[m];
      const bool backward = chunk->outline->message[m].backward;
      if (link->active && !link->incoming && (!backward || kind == PROGRAM_TRAINING))
        n = AddWanted(n, values, link->value);
    }
    if (kind == PROGRAM_TRAINING)
      n = WantedOfTraining(chunk, n, values);
    else
      n = AddWanted(n, values, layout->program->target);
  }
  *count = n;
  return RENGA_SUCCESS;
}

static bool IsBatchSum(const RengaGraphRow *node)
{
  return (node->op->flags & RENGA_OP_BATCH_SUM) != 0;
}

/* What makes parts of a parameter does not run, nor what puts parts together that lie so. */
static bool NodeIsNeeded(const Layout *layout, const RengaGraphRow *node)
{
  if (node->n_out == 1 && layout->chunk->uses->joined[node->out[0]]) return false;
  if (node->n_in == 1 && node->in[0] >= 0 && layout->chunk->uses->cut[node->in[0]]) return false;
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] != RENGA_VALUE_NONE && layout->needed[node->out[o]]) return true;
  return false;
}

static ProgramPart PartOfNode(const Layout *layout, const RengaGraphRow *node, int n)
{
  if (layout->program->kind == PROGRAM_PROLOGUE) return PART_FORWARD;
  if (layout->shapes->constant[n]) return PART_CONSTANT;
  if (node->phase == RENGA_PHASE_FORWARD) return PART_FORWARD;
  return node->phase == RENGA_PHASE_BACKWARD_WEIGHT && layout->chunk->memory->lag > 0
             ? PART_WEIGHT
             : PART_BACKWARD;
}

/* From what is wanted back to what it needs. Sums over the batch are given from outside. */
static RengaErrorCode MarkNeeded(Layout *layout)
{
  for (int n = layout->n_nodes - 1; n >= 0; n--) {
    const RengaGraphRow *node = LayoutNode(layout, n);
    layout->part[n] = PART_NONE;
    if (!NodeIsNeeded(layout, node)) continue;
    if (IsBatchSum(node)) {
      RengaCheck(layout->program->kind != PROGRAM_PROLOGUE, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
                 "%s: a sum over the batch depends on another sum over the batch",
                 RengaGraphGetNode(layout->chunk->sub, n)->name);
      continue;
    }
    layout->part[n] = PartOfNode(layout, node, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) layout->needed[node->in[i]] = true;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindKernels(Layout *layout)
{
  for (int n = 0; n < layout->n_nodes; n++) {
    if (layout->part[n] == PART_NONE || LayoutIsElsewhere(layout, n)) continue;
    if (!(LayoutNode(layout, n)->op->flags & RENGA_OP_RESHAPE))
      RengaCall(RengaChunkFindKernel_Private(layout->chunk, layout->shapes, n));
  }
  return RENGA_SUCCESS;
}

/* Fills needed and part. */
RengaErrorCode RengaLayoutChoose_Private(Layout *layout)
{
  int count;
  RengaValue *wanted;
  RengaCall(RengaLayoutWanted_Private(layout, &count, NULL));
  RengaCall(RengaMalloc(count + 1, &wanted));
  const RengaErrorCode code = RengaLayoutWanted_Private(layout, &count, wanted);
  for (int i = 0; i < count && !code; i++) layout->needed[wanted[i]] = true;
  RengaFree(&wanted);
  RengaCall(code);
  RengaCall(MarkNeeded(layout));
  RengaCall(FindKernels(layout));
  return RENGA_SUCCESS;
}
