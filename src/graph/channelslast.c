/* Stages whose images are [N,H,W,C]. Convolutions, normalizations by the batch, pooling and means
   over space have attribute channels_last, or other axes; nodes whose elements stand for themselves
   follow what they read. All else reads a copy [N,C,H,W] of its own.

   Which operators sum up in which order follows from each node alone, so that bits do not depend on
   how the network is cut. And each reader has its own copy, or all later readers have one, so that
   gradients of an image are added in the order of its readers, as without. */
#include "graphimpl.h"
#include <string.h>

enum { HEIGHT = 2, WIDTH = 3 };

static bool IsImage(RengaGraph graph, RengaValue value)
{
  return value >= 0 && RengaGraphSpec(graph, value)->ndim == 4;
}

/* A constant of one element, which is broadcast alike in any order of dimensions. */
static bool IsOneConstant(RengaGraph graph, RengaValue value)
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, value);
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] != 1) return false;
  return graph->value[value]->kind == RENGA_VALUE_CONSTANT;
}

static bool IsEach(RengaGraph graph, const RengaGraphNode *node)
{
  const unsigned flags = node->op->flags;
  if (!(flags & RENGA_OP_ELEMENTWISE) || flags & (RENGA_OP_RANDOM | RENGA_OP_OUTPUT_GIVEN) ||
      node->n_out != 1)
    return false;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0 && !IsOneConstant(graph, node->in[i]) &&
        !RengaOpSameShape(RengaGraphSpec(graph, node->in[i]), RengaGraphSpec(graph, node->out[0])))
      return false;
  return true;
}

static bool IsMeanOfPlanes(const RengaGraphNode *node)
{
  int count;
  const int64_t *axes = RengaAttributesInts(&node->attributes, "axes", &count);
  return strcmp(node->op->name, "ReduceMean") == 0 && count == 2 &&
         ((axes[0] == HEIGHT && axes[1] == WIDTH) || (axes[0] == -2 && axes[1] == -1));
}

RengaGraphImages RengaGraphFindImages(RengaGraph graph, int n)
{
  static const char *const windows[] = {"Conv", "BatchNormalization", "MaxPool", "AveragePool"};
  const RengaGraphEntry *entry = graph->entry[n];
  const RengaGraphNode *node = &entry->node;
  const int64_t axis = RengaAttributesInt(&node->attributes, "axis", 0);
  if (node->n_in == 0 || node->lane != 0 || entry->rows || entry->term || entry->pieces ||
      node->phase != RENGA_PHASE_FORWARD || !IsImage(graph, node->in[0]) ||
      graph->value[node->in[0]]->kind == RENGA_VALUE_PARAMETER ||
      RengaGraphNodeIsPrepared_Private(graph, node))
    return IMAGES_NONE;
  for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
    if (strcmp(node->op->name, windows[w]) == 0) return IMAGES_WINDOW;
  if (IsMeanOfPlanes(node)) return IMAGES_MEAN;
  const bool joins = strcmp(node->op->name, "Concat") == 0 || strcmp(node->op->name, "Split") == 0;
  if (joins && (axis == 1 || axis == -3)) return IMAGES_JOIN;
  return IsEach(graph, node) ? IMAGES_EACH : IMAGES_NONE;
}

bool RengaGraphIsImageOf(RengaGraph graph, const RengaGraphNode *node, RengaGraphImages kind,
                         RengaValue value)
{
  if (!IsImage(graph, value)) return false;
  if (kind == IMAGES_EACH) return !IsOneConstant(graph, value);
  if (kind == IMAGES_JOIN || value == node->in[0]) return true;
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] == value) return kind == IMAGES_WINDOW;
  return false;
}

RengaErrorCode RengaGraphTurnImage(RengaGraph graph, RengaValue image, bool back,
                                   RengaValue *turned)
{
  static const int64_t order[2][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}};
  const RengaGraphValue *from = graph->value[image];
  const bool made = *turned >= 0;
  char name[512]; /* as no other node and no value of the network */
  snprintf(name, sizeof name, "%s (channels %s for %d)", from->name, back ? "first" : "last",
           graph->id);
  RengaAttributes attributes = {0};
  RengaErrorCode code = RengaAttributesSetInts(&attributes, "perm", 4, order[back]);
  if (!code)
    code = RengaGraphInsertNode(graph, "Transpose", name, &attributes, 1, &image, 1, NULL, turned);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  if (!made) RengaGraphStoreLike(from, graph->value[*turned]);
  return RENGA_SUCCESS;
}

void RengaGraphStoreLike(const RengaGraphValue *from, RengaGraphValue *to)
{
  to->stored = from->stored;
  to->stored_gradient = from->stored_gradient;
  to->prepared = from->prepared;
  to->differentiable = from->differentiable;
}

RengaErrorCode RengaGraphTurnAttributes(const RengaGraphNode *node, RengaGraphImages kind,
                                        RengaAttributes *attributes)
{
  static const int64_t space[] = {1, 2};
  RengaCall(RengaAttributesCopy(&node->attributes, attributes));
  if (kind == IMAGES_WINDOW) RengaCall(RengaAttributesSetInt(attributes, "channels_last", 1));
  if (kind == IMAGES_MEAN) RengaCall(RengaAttributesSetInts(attributes, "axes", 2, space));
  if (kind == IMAGES_JOIN) RengaCall(RengaAttributesSetInt(attributes, "axis", 3));
  return RENGA_SUCCESS;
}
