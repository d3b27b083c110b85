/* Cross-entropy and sums over the batch. */
#include "renga/private/op.h"

/* Labels have the shape of the scores without the axis of the classes. */
static RengaErrorCode CheckLabelShape(const RengaOpCall *call, int scores, int labels, int weights)
{
  const RengaTensorSpec *x = &call->in[scores];
  RengaTensorSpec expected = {0};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  for (int d = 0; d < x->ndim; d++)
    if (d != axis) expected.dim[expected.ndim++] = x->dim[d];
  RengaOpCheck(RengaOpSameShape(&expected, &call->in[labels]), call,
               "the labels must have the shape of the scores without axis %d", axis);
  const int64_t padding = RengaOpCallInt(call, "padding"), classes = x->dim[axis] - padding;
  RengaOpCheckValue(padding >= 0 && classes >= 0 && (padding == 0 || axis == x->ndim - 1), call,
                    "padding is %lld", (long long)padding);
  if (RengaOpCallHasInput(call, weights))
    RengaOpCheck(call->in[weights].ndim == 1 && call->in[weights].dim[0] == classes, call,
                 "there must be a weight for each of %lld classes", (long long)classes);
  return RENGA_SUCCESS;
}

/* scores, labels, (weights) -> sum, log-sum-exp */
static RengaErrorCode ShapeCrossEntropy(RengaOpCall *call)
{
  RengaCall(CheckLabelShape(call, 0, 1, 2));
  call->out[0].ndim = 0;
  if (call->n_out > 1) RengaOpCopyShape(&call->out[1], &call->in[1]);
  return RENGA_SUCCESS;
}

/* d sum, scores, labels, (log-sum-exp), (weights) -> d scores */
static RengaErrorCode LossGradient(RengaOpCall *call, int labels, int weights)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call,
               "the gradient of the sum is no scalar");
  RengaCall(CheckLabelShape(call, 1, labels, weights));
  RengaOpCopyShape(&call->out[0], &call->in[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyGrad(RengaOpCall *call)
{
  RengaCall(LossGradient(call, 2, 4));
  RengaOpCheck(RengaOpSameShape(&call->in[2], &call->in[3]), call,
               "labels and log-sum-exp differ in shape");
  return RENGA_SUCCESS;
}

static RengaErrorCode LikelihoodGrad(RengaOpCall *call)
{
  RengaCall(LossGradient(call, 2, 3));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeCount(RengaOpCall *call)
{
  if (RengaOpCallHasInput(call, 1))
    RengaOpCheck(call->in[1].ndim == 1, call, "the class weights have %d dimensions, must have 1",
                 call->in[1].ndim);
  call->out[0].ndim = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeBatchSum(RengaOpCall *call)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call, "sums scalars only");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

/* Scores of some of the classes, [first, first + n) of them: a lane's. */
static RengaErrorCode CheckLaneOfClasses(const RengaOpCall *call, int scores)
{
  const RengaTensorSpec *x = &call->in[scores];
  const int64_t first = RengaOpCallInt(call, "first"), classes = RengaOpCallInt(call, "classes");
  int axis;
  RengaCall(CheckLabelShape(call, scores, scores + 1, call->n_in));
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCheckValue(first >= 0 && first + x->dim[axis] <= classes, call,
                    "classes %lld to %lld are not among %lld", (long long)first,
                    (long long)(first + x->dim[axis] - 1), (long long)classes);
  return RENGA_SUCCESS;
}

/* scores, labels -> log-sum-exp of the lane, the label's score or 0 */
static RengaErrorCode ShapeEntropyLane(RengaOpCall *call)
{
  RengaCall(CheckLaneOfClasses(call, 0));
  for (int o = 0; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[1]);
  return RENGA_SUCCESS;
}

/* d log-sum-exp, d label's score, scores, labels, log-sum-exp -> d scores */
static RengaErrorCode EntropyLaneGrad(RengaOpCall *call)
{
  RengaCall(CheckLaneOfClasses(call, 2));
  for (int i = 0; i < call->n_in; i++)
    RengaOpCheck(i == 2 || RengaOpSameShape(&call->in[i], &call->in[3]), call,
                 "input %d and the labels differ in shape", i);
  RengaOpCopyShape(&call->out[0], &call->in[2]);
  return RENGA_SUCCESS;
}

/* labels, (weights), each lane's log-sum-exp, each lane's score -> sum, log-sum-exp, score */
static RengaErrorCode ShapeEntropyJoin(RengaOpCall *call)
{
  RengaOpCheck(call->n_in > 3 && call->n_in % 2 == 0, call,
               "lanes have %d log-sum-exps and scores, of each as many", call->n_in - 2);
  for (int i = 2; i < call->n_in; i++)
    RengaOpCheck(RengaOpSameShape(&call->in[i], &call->in[0]), call,
                 "input %d and the labels differ in shape", i);
  call->out[0].ndim = 0;
  for (int o = 1; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[0]);
  return RENGA_SUCCESS;
}

/* d sum, labels, log-sum-exp, (weights), each lane's log-sum-exp -> d score, d log-sum-exp of each
   lane */
static RengaErrorCode EntropyJoinGrad(RengaOpCall *call)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call,
               "the gradient of the sum is no scalar");
  RengaOpCheck(call->n_in > 4 && call->n_out == call->n_in - 3, call, "%d lanes get %d gradients",
               call->n_in - 4, call->n_out - 1);
  for (int i = 2; i < call->n_in; i++)
    RengaOpCheck(i == 3 || RengaOpSameShape(&call->in[i], &call->in[1]), call,
                 "input %d and the labels differ in shape", i);
  for (int o = 0; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[1]);
  return RENGA_SUCCESS;
}

static double ScoreFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[0]);
}

static double ScoreGradFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[1]);
}

static double EntropyLaneGradFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[2]);
}

/* An exponential for each lane. */
static double EntropyJoinFlops(const RengaOpCall *call)
{
  return 6.0 * call->n_in * (double)RengaTensorSpecCount(&call->in[call->n_in - 1]);
}

static double LabelFlops(const RengaOpCall *call)
{
  return (double)RengaTensorSpecCount(&call->in[0]);
}

#define OWN RENGA_OP_INTERNAL
#define IGNORE "ignore_index:int=-9223372036854775808"
#define CLASSES "axis:int=-1 " IGNORE
#define PADDING " padding:int=0"                  /* columns of no class, the last ones */
#define LANE CLASSES " first:int=0 classes:int=0" /* of all lanes */
/* No label is as small as the default of ignore_index. */

const RengaOperator RengaOperatorsLoss[] = {
    {"CrossEntropy", 2, 3, 1, 2, OWN, ShapeCrossEntropy, ScoreFlops, CLASSES PADDING, "FIF>F",
     NULL},
    {"CrossEntropyGrad", 4, 5, 1, 1, OWN, CrossEntropyGrad, ScoreGradFlops, CLASSES PADDING,
     "FFIFF>F", NULL},
    {"CrossEntropyCount", 1, 2, 1, 1, OWN, ShapeCount, LabelFlops, IGNORE, "IF>S", NULL},
    {"CrossEntropyLane", 2, 2, 2, 2, OWN, ShapeEntropyLane, ScoreFlops, LANE, "FI>F", NULL},
    {"CrossEntropyLaneGrad", 5, 5, 1, 1, OWN, EntropyLaneGrad, EntropyLaneGradFlops, LANE,
     "FFFIF>F", NULL},
    {"CrossEntropyJoin", 1, -1, 1, 3, OWN, ShapeEntropyJoin, EntropyJoinFlops, IGNORE, "IFF>F",
     NULL},
    {"CrossEntropyJoinGrad", 3, -1, 2, -1, OWN, EntropyJoinGrad, EntropyJoinFlops, IGNORE,
     "FIFFF>F", NULL},
    {"LogLikelihood", 2, 3, 1, 1, OWN, ShapeCrossEntropy, LabelFlops, CLASSES, "FIF>F", NULL},
    {"LogLikelihoodGrad", 3, 4, 1, 1, OWN, LikelihoodGrad, LabelFlops, CLASSES, "FFIF>F", NULL},
    {"BatchSum", 1, 1, 1, 1, OWN | RENGA_OP_BATCH_SUM, ShapeBatchSum, NULL, NULL, "F>F", NULL},
    {0},
};
