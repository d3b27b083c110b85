/* What a lane has cut and put together of rows (rowlanes.c), made again where backward needs it: it
   is a copy of what is kept anyway. Pieces of other lanes are kept, as they are few. What the
   network itself cuts or puts together is kept as any value is, and so is what is stored in
   another type than that which it is a copy of: made again it would have other bits. */
#include "../reverse.h"
#include <string.h>

/* The copies that reverse mode makes are stored as precision.c says of inner values: as the node's
   inputs, and in 32 bits for nodes that stay wide. */
static bool CopiesBits(const RengaReverse *reverse, const RengaGraphNode *node)
{
  RengaGraphValue *const *value = reverse->graph->value;
  const RengaDataType type = value[node->out[0]]->stored;
  if (reverse->node->wide && type != value[node->out[0]]->spec.type) return false;
  for (int i = 0; i < node->n_in; i++)
    if (value[node->in[i]]->stored != type) return false;
  for (int o = 0; o < node->n_out; o++)
    if (value[node->out[o]]->stored != type) return false;
  return true;
}

/* A copy of rows, made by the lane of the node. */
static const RengaGraphNode *FindLaneCopy(const RengaReverse *reverse, RengaValue value)
{
  const int maker = reverse->graph->value[value]->producer;
  const RengaGraphNode *node = maker < 0 ? NULL : RengaGraphEntryNode(reverse->graph, maker);
  if (!node || !reverse->graph->entry[maker]->rows) return NULL;
  return node->lane == reverse->node->lane && CopiesBits(reverse, node) ? node : NULL;
}

static RengaErrorCode CopyNode(RengaReverse *reverse, const RengaGraphNode *node,
                               const RengaValue in[], RengaValue out[])
{
  for (int o = 0; o < node->n_out; o++) out[o] = RENGA_VALUE_NONE;
  RengaCall(RengaGraphInsertNode(reverse->graph, node->op->name, NULL, &node->attributes,
                                 node->n_in, in, node->n_out, NULL, out));
  return RENGA_SUCCESS;
}

/* The pieces that a Concat reads: those that its lane has cut are cut again, once. */
static RengaErrorCode RecomputeCut(RengaReverse *reverse, const RengaGraphNode *node,
                                   RengaValue in[])
{
  const RengaGraphNode *last = NULL;
  RengaValue *out = NULL;
  for (int i = 0; i < node->n_in; i++) {
    const RengaGraphNode *cut = FindLaneCopy(reverse, node->in[i]);
    in[i] = node->in[i];
    if (!cut || strcmp(cut->op->name, "Concat") == 0) continue;
    if (cut != last) {
      RengaCall(RengaGraphScratch(reverse->graph, cut->n_out, &out));
      RengaCall(CopyNode(reverse, cut, cut->in, out));
      last = cut;
    }
    in[i] = out[reverse->graph->value[node->in[i]]->output];
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseRecompute(RengaReverse *reverse, RengaValue value, RengaValue *again)
{
  const RengaGraphNode *node = FindLaneCopy(reverse, value);
  RengaValue *in, *out;
  *again = value;
  if (!node) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(reverse->graph, node->n_in, &in));
  RengaCall(RengaGraphScratch(reverse->graph, node->n_out, &out));
  if (strcmp(node->op->name, "Concat") == 0)
    RengaCall(RecomputeCut(reverse, node, in));
  else
    memcpy(in, node->in, (size_t)node->n_in * sizeof *in);
  RengaCall(CopyNode(reverse, node, in, out));
  *again = out[reverse->graph->value[value]->output];
  return RENGA_SUCCESS;
}
