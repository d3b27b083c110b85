/* Operators that move elements: the gradient moves back. */
#include "../reverse.h"

RengaErrorCode RengaReverseBack(RengaReverse *reverse)
{
  RengaTensorSpec given = *RengaReverseSpec(reverse, reverse->node->in[0]);
  RengaCall(RengaReverseApplyLike(reverse, reverse->with, 1, &reverse->dy[0], &given, 1,
                                  &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseReshape(RengaReverse *reverse)
{
  const RengaTensorSpec *x = RengaReverseSpec(reverse, reverse->node->in[0]);
  RengaCall(RengaReverseReshape(reverse, reverse->dy[0], x, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseExpand(RengaReverse *reverse)
{
  RengaCall(RengaReverseReduceTo(reverse, reverse->dy[0], reverse->node->in[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseTranspose(RengaReverse *reverse)
{
  int count, ndim = RengaReverseSpec(reverse, reverse->node->in[0])->ndim;
  const int64_t *perm = RengaAttributesInts(&reverse->node->attributes, "perm", &count);
  int64_t inverse[RENGA_MAX_DIM];
  for (int d = 0; d < ndim; d++) inverse[count ? perm[d] : ndim - 1 - d] = d;
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "perm", ndim, inverse));
  RengaCall(RengaReverseApply(reverse, "Transpose", &attributes, 1, &reverse->dy[0], NULL,
                              &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* Parts that each hold the batch must be equal: numbers that depend on it are no attributes. */
static RengaErrorCode ConcatOfBatches(RengaReverse *reverse, int axis)
{
  const RengaGraphNode *node = reverse->node;
  const RengaTensorSpec *first = RengaReverseSpec(reverse, node->in[0]);
  RengaValue *part;
  RengaAttributes attributes = {0};
  for (int i = 1; i < node->n_in; i++)
    if (RengaReverseSpec(reverse, node->in[i])->dim[axis] != first->dim[axis])
      RengaReverseRefuse(reverse, "parts of different size are joined along the batch");
  RengaCall(RengaGraphScratch(reverse->graph, node->n_in, &part));
  for (int i = 0; i < node->n_in; i++) part[i] = RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetInt(&attributes, "axis", axis));
  RengaErrorCode code = RengaGraphInsertNode(reverse->graph, "Split", NULL, &attributes, 1,
                                             &reverse->dy[0], node->n_in, NULL, part);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  for (int i = 0; i < node->n_in; i++)
    if (reverse->wanted[i]) reverse->dx[i] = part[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseConcat(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  int ndim = RengaReverseSpec(reverse, node->in[0])->ndim;
  int64_t axis = RengaAttributesInt(&node->attributes, "axis", 0), begin = 0;
  if (axis < 0) axis += ndim;
  if (RengaReverseSpec(reverse, node->in[0])->dim[axis] < 0) {
    RengaCall(ConcatOfBatches(reverse, (int)axis));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < node->n_in; i++) {
    int64_t end = begin + RengaReverseSpec(reverse, node->in[i])->dim[axis];
    RengaAttributes attributes = {0};
    RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, &begin));
    RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, &end));
    RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, &axis));
    begin = end;
    if (!reverse->wanted[i])
      RengaAttributesFree(&attributes);
    else
      RengaCall(RengaReverseApply(reverse, "Slice", &attributes, 1, &reverse->dy[0], NULL,
                                  &reverse->dx[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseSplit(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue *part;
  RengaCall(RengaGraphScratch(reverse->graph, node->n_out, &part));
  for (int i = 0; i < node->n_out; i++) {
    part[i] = reverse->dy[i];
    if (part[i] < 0) RengaCall(RengaReverseZeros(reverse, node->out[i], &part[i]));
  }
  RengaCall(RengaReverseApplyLike(reverse, "Concat", node->n_out, part, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* dy as [repeats, extent, …], summed over the repeats */
static RengaErrorCode ReverseTile(RengaReverse *reverse)
{
  const RengaTensorSpec *x = RengaReverseSpec(reverse, reverse->node->in[0]);
  RengaTensorSpec apart = {.ndim = 0};
  int count, n_axes = 0;
  int64_t axes[RENGA_MAX_DIM];
  const int64_t *repeats = RengaAttributesInts(&reverse->node->attributes, "repeats", &count);
  for (int d = 0; d < x->ndim; d++) {
    if (apart.ndim + 2 > RENGA_MAX_DIM)
      RengaReverseRefuse(reverse, "more than 4 repeated dimensions");
    if (repeats[d] != 1) {
      axes[n_axes++] = apart.ndim;
      apart.dim[apart.ndim++] = repeats[d];
    }
    apart.dim[apart.ndim++] = x->dim[d];
  }
  RengaValue g;
  RengaCall(RengaReverseReshape(reverse, reverse->dy[0], &apart, &g));
  RengaCall(RengaReverseSum(reverse, g, n_axes, axes, false, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseMove[] = {
    {"Reshape", ReverseReshape, NULL},
    {"Expand", ReverseExpand, NULL},
    {"Transpose", ReverseTranspose, NULL},
    {"Slice", RengaReverseBack, "SliceGrad"},
    {"Concat", ReverseConcat, NULL},
    {"Split", ReverseSplit, NULL},
    {"Pad", RengaReverseBack, "PadGrad"},
    {"Tile", ReverseTile, NULL},
    {"Trilu", RengaReverseBack, "Trilu"},
    {"DepthToSpace", RengaReverseBack, "SpaceToDepth"},
    {"SpaceToDepth", RengaReverseBack, "DepthToSpace"},
    {NULL, NULL, NULL},
};
