/* Losses in forms that overflow, as forms that do not. */
#include "../fuse.h"

/* Log(Softmax(x)) */
static RengaErrorCode FuseLogSoftmax(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaGraphNode *softmax = RengaFuseProducer(graph, node->in[0], "Softmax");
  if (softmax == NULL || RengaAttributesInt(&softmax->attributes, "flat", 0)) return RENGA_SUCCESS;
  RengaCall(RengaFuseReplace(graph, root, "LogSoftmax", &softmax->attributes, 1, softmax->in));
  *done = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplaceNegative(RengaGraph graph, int root, RengaValue x)
{
  RengaValue y;
  RengaCall(RengaFuseBefore(graph, root, "Softplus", NULL, 1, &x, &y));
  RengaCall(RengaFuseReplace(graph, root, "Neg", NULL, 1, &y));
  return RENGA_SUCCESS;
}

/* log sigmoid(z) = -softplus(-z), log(1 - sigmoid(z)) = -softplus(z) */
static RengaErrorCode FuseLogSigmoid(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaGraphNode *sigmoid = RengaFuseProducer(graph, node->in[0], "Sigmoid");
  const RengaGraphNode *sub = RengaFuseProducer(graph, node->in[0], "Sub");
  double one;
  RengaValue z;
  if (sigmoid) {
    RengaCall(RengaFuseBefore(graph, root, "Neg", NULL, 1, sigmoid->in, &z));
    RengaCall(ReplaceNegative(graph, root, z));
    *done = true;
    return RENGA_SUCCESS;
  }
  if (sub == NULL || !RengaFuseScalar(graph, sub->in[0], &one) || one != 1) return RENGA_SUCCESS;
  sigmoid = RengaFuseProducer(graph, sub->in[1], "Sigmoid");
  if (sigmoid == NULL || !RengaTensorSpecEqual(RengaGraphSpec(graph, sigmoid->in[0]),
                                               RengaGraphSpec(graph, node->out[0])))
    return RENGA_SUCCESS;
  RengaCall(ReplaceNegative(graph, root, sigmoid->in[0]));
  *done = true;
  return RENGA_SUCCESS;
}

/* LogLikelihood(LogSoftmax(x), labels) over the same axis */
static RengaErrorCode FuseCrossEntropy(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaGraphNode *soft = RengaFuseProducer(graph, node->in[0], "LogSoftmax");
  if (soft == NULL || node->n_out != 1) return RENGA_SUCCESS;
  int64_t ndim = RengaGraphSpec(graph, node->in[0])->ndim;
  int64_t a = RengaAttributesInt(&node->attributes, "axis", -1);
  int64_t b = RengaAttributesInt(&soft->attributes, "axis", -1);
  if ((a < 0 ? a + ndim : a) != (b < 0 ? b + ndim : b)) return RENGA_SUCCESS;
  RengaValue in[3] = {soft->in[0], node->in[1], node->n_in > 2 ? node->in[2] : RENGA_VALUE_NONE};
  RengaCall(RengaFuseReplace(graph, root, "CrossEntropy", &node->attributes, 3, in));
  *done = true;
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseLoss[] = {
    {"Log", FuseLogSoftmax},
    {"Log", FuseLogSigmoid},
    {"LogLikelihood", FuseCrossEntropy},
    {NULL, NULL},
};
