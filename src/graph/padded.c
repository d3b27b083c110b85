/* Scores of a number of classes whose rows are no multiple of 16 bytes, as of 50257 words, in rows
   that are: products read and write them much faster then. The weight gets rows of zeros; the loss
   passes over the columns that come of them. Which products these are does not depend on how the
   network is cut, so that they have the same bits in any stage. */
#include "graphimpl.h"
#include <string.h>

enum { FEWEST = 256, MULTIPLE = 64, SIXTEEN = 16 };

static bool IsLoss(RengaGraph graph, int n, RengaValue scores)
{
  const RengaGraphNode *node = &graph->entry[n]->node;
  if (strcmp(node->op->name, "CrossEntropy") != 0 || node->in[0] != scores) return false;
  const int64_t axis = RengaAttributesInt(&node->attributes, "axis", -1);
  return axis == -1 || axis == RengaGraphSpec(graph, scores)->ndim - 1;
}

int64_t RengaGraphFindPadding(RengaGraph graph, RengaValue scores)
{
  const RengaGraphValue *value = graph->value[scores];
  const RengaGraphNode *node = value->producer >= 0 ? &graph->entry[value->producer]->node : NULL;
  const int *from = &graph->known.reading_from[scores];
  if (node == NULL || strcmp(node->op->name, "Linear") != 0 || node->lane != 0 ||
      graph->value[node->in[1]]->kind != RENGA_VALUE_PARAMETER ||
      RengaAttributesInt(&node->attributes, "transB", 0) == 0)
    return 0;
  const int64_t classes = value->spec.dim[value->spec.ndim - 1];
  const int64_t bytes = classes * (int64_t)RengaDataTypeSize(value->stored);
  bool read = false;
  for (int r = from[0]; r < from[1]; r++)
    read = read || IsLoss(graph, graph->known.reading[r], scores);
  return read && classes >= FEWEST && bytes % SIXTEEN ? MULTIPLE - classes % MULTIPLE : 0;
}

/* y = x with so many zeros behind it in the first dimension, kept as x is. */
static RengaErrorCode AddZeros(RengaGraph graph, RengaValue x, int64_t zeros, RengaValue *y)
{
  const int ndim = RengaGraphSpec(graph, x)->ndim;
  int64_t pads[2 * RENGA_MAX_DIM] = {0};
  RengaAttributes attributes = {0};
  *y = RENGA_VALUE_NONE;
  pads[ndim] = zeros;
  RengaErrorCode code = RengaAttributesSetInts(&attributes, "pads", 2 * ndim, pads);
  if (!code) code = RengaGraphInsertNode(graph, "Pad", NULL, &attributes, 1, &x, 1, NULL, y);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  graph->value[*y]->stored = graph->value[x]->stored;
  graph->value[*y]->stored_gradient = graph->value[x]->stored_gradient;
  return RENGA_SUCCESS;
}

/* The scores without padding, for others than losses. */
static RengaErrorCode WithoutPadding(RengaGraph graph, RengaValue padded, RengaValue scores)
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, scores);
  const int64_t last = spec->ndim - 1, begin = 0, end = spec->dim[last];
  RengaAttributes attributes = {0};
  RengaErrorCode code = RengaAttributesSetInts(&attributes, "axes", 1, &last);
  if (!code) code = RengaAttributesSetInts(&attributes, "starts", 1, &begin);
  if (!code) code = RengaAttributesSetInts(&attributes, "ends", 1, &end);
  if (!code)
    code = RengaGraphInsertNode(graph, "Slice", NULL, &attributes, 1, &padded, 1, NULL, &scores);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphInsertPadded(RengaGraph graph, const RengaGraphNode *node,
                                      const RengaValue in[], int64_t zeros, RengaValue scores,
                                      RengaValue *padded)
{
  const int first = graph->n_nodes;
  RengaValue wide[3] = {in[0], RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  *padded = RENGA_VALUE_NONE;
  for (int i = 1; i < node->n_in; i++)
    if (in[i] >= 0) RengaCall(AddZeros(graph, in[i], zeros, &wide[i]));
  RengaCall(
      RengaGraphInsertNode(graph, "Linear", NULL, &node->attributes, 3, wide, 1, NULL, padded));
  graph->value[*padded]->stored = graph->value[scores]->stored;
  graph->value[*padded]->stored_gradient = graph->value[scores]->stored_gradient;
  RengaCall(WithoutPadding(graph, *padded, scores));
  for (int n = first; n < graph->n_nodes; n++) RengaGraphEntryNode(graph, n)->wide = node->wide;
  return RENGA_SUCCESS;
}
