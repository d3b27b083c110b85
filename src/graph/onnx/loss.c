/* Cross-entropy. A mean over the batch is a sum over it by the count of the whole batch, so that
   the shares of the micro-batches add up. Scores are [N, C, d...], labels [N, d...]. */
#include "onnx.h"

typedef struct {
  RengaValue scores, labels, weights;
  bool ignores;
  int64_t ignore_index;
  double smoothing; /* this share of a label is spread evenly over the classes */
} OnnxLoss;

/* Weights of classes are given, not learnt: the divisor of a mean must be known before the first
   forward. */
static RengaErrorCode ReadWeights(RengaOnnxNode *node, RengaValue *weights)
{
  RengaOnnxBinding *binding;
  *weights = RENGA_VALUE_NONE;
  if (!RengaOnnxHasInput(node, 2)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxInputBinding(node, 2, &binding));
  bool learnt = binding->trainable && !node->importer->options->evaluate;
  RengaOnnxCheck(
      !learnt || (binding->tensor && binding->value == RENGA_VALUE_NONE), node, RENGA_ERR_SUPPORT,
      "the class weights \"%s\" are a parameter elsewhere, or have no data; they must be "
      "constants",
      binding->name);
  binding->trainable = false;
  RengaCall(RengaOnnxInputValue(node, 2, weights));
  return RENGA_SUCCESS;
}

/* ONNX has no smoothing of labels, and exporters drop it without a word: (scores, labels, weights,
   reduction, ignored, smoothing). */
static double Smoothing(const RengaOnnxNode *node)
{
  return RengaOnnxCallReal(node, "aten.cross_entropy_loss.default", 5, 0);
}

/* Rows that a mask leaves out have labels that are ignored. */
static RengaErrorCode LeaveOut(RengaOnnxNode *node, OnnxLoss *loss)
{
  const bool one = RengaOnnxString(node, "reduction", "none", "mean") || RengaOnnxIsUsed(node, 1);
  if (RengaOnnxMaskOf(node->importer, loss->scores) == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  if (one) RengaCall(RengaOnnxRefuseRows(node, loss->scores));
  if (!loss->ignores) loss->ignore_index = -100;
  loss->ignores = true;
  RengaCall(RengaOnnxIgnoreVoid(node, loss->ignore_index, &loss->scores, &loss->labels));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadLoss(RengaOnnxNode *node, OnnxLoss *loss)
{
  RengaCall(RengaOnnxInputValue(node, 0, &loss->scores));
  RengaCall(RengaOnnxInputValue(node, 1, &loss->labels));
  RengaCall(ReadWeights(node, &loss->weights));
  RengaOnnxCheck(loss->scores != RENGA_VALUE_NONE && loss->labels != RENGA_VALUE_NONE, node,
                 RENGA_ERR_FILE_FORMAT, "scores and labels are needed");
  const RengaTensorSpec *scores = RengaOnnxSpec(node, loss->scores);
  const RengaTensorSpec *labels = RengaOnnxSpec(node, loss->labels);
  bool fits = scores->ndim >= 2 && labels->ndim == scores->ndim - 1;
  for (int d = 0; d < labels->ndim && fits; d++)
    fits = labels->dim[d] == scores->dim[d == 0 ? 0 : d + 1];
  char wanted[160], given[160];
  RengaTensorSpecFormat(scores, sizeof wanted, wanted);
  RengaTensorSpecFormat(labels, sizeof given, given);
  const bool constant =
      RengaGraphGetValue(node->importer->graph, loss->labels)->kind == RENGA_VALUE_CONSTANT;
  RengaOnnxCheck(fits, node, RENGA_ERR_SHAPE, "labels %s do not fit scores %s%s", given, wanted,
                 constant
                     ? " (they are a constant of the file: dynamo=False makes one of the batch "
                       "of its example)"
                     : "");
  loss->ignores = RengaOnnxAttribute(node, "ignore_index") != NULL;
  loss->ignore_index = RengaOnnxInt(node, "ignore_index", INT64_MIN);
  loss->smoothing = Smoothing(node);
  RengaCall(LeaveOut(node, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetIgnored(RengaOnnxNode *node, const OnnxLoss *loss)
{
  if (loss->ignores)
    RengaCall(
        RengaAttributesSetInt(&node->importer->attributes, "ignore_index", loss->ignore_index));
  return RENGA_SUCCESS;
}

/* [N, C, d...] times the weights of the classes, if there are any */
static RengaErrorCode Weighted(RengaOnnxNode *node, const OnnxLoss *loss, RengaValue *x)
{
  const RengaTensorSpec *of = RengaOnnxSpec(node, *x);
  RengaTensorSpec spec = {.ndim = of->ndim, .dim = {1, of->dim[1], 1, 1, 1, 1, 1, 1}};
  RengaValue weights;
  if (loss->weights == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(RengaOnnxReshape(node, loss->weights, &spec, &weights));
  RengaCall(RengaOnnxApply(node, "Mul", *x, weights, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode ZeroWhere(RengaOnnxNode *node, bool where, RengaValue condition,
                                RengaValue *x)
{
  static const unsigned char zeros[8] = {0};
  const RengaTensorSpec scalar = {.type = RengaOnnxSpec(node, *x)->type, .ndim = 0};
  RengaValue zero;
  RengaCall(RengaOnnxConstant(node, &scalar, zeros, &zero));
  const RengaValue in[] = {condition, where ? zero : *x, where ? *x : zero};
  RengaCall(RengaOnnxEmit(node, "Where", 3, in, 1, NULL, x));
  return RENGA_SUCCESS;
}

/* One number per label: the mean over the classes of minus their log-probabilities. */
static RengaErrorCode EvenLoss(RengaOnnxNode *node, const OnnxLoss *loss, RengaValue *each)
{
  const int64_t axis = 1, classes = RengaOnnxSpec(node, loss->scores)->dim[1];
  RengaValue y, ignored;
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 1));
  RengaCall(RengaOnnxApply(node, "LogSoftmax", loss->scores, RENGA_VALUE_NONE, &y));
  RengaCall(Weighted(node, loss, &y));
  RengaCall(RengaOnnxReduce(node, "ReduceSum", y, 1, &axis, false, &y));
  RengaCall(RengaOnnxApplyReal(node, "Mul", y, -1.0 / (double)classes, each));
  if (!loss->ignores) return RENGA_SUCCESS;
  RengaCall(RengaOnnxApplyReal(node, "Equal", loss->labels, (double)loss->ignore_index, &ignored));
  RengaCall(ZeroWhere(node, true, ignored, each));
  return RENGA_SUCCESS;
}

/* x: (1 - smoothing) x + smoothing even */
static RengaErrorCode Mixed(RengaOnnxNode *node, double smoothing, RengaValue even, RengaValue *x)
{
  RengaCall(RengaOnnxApplyReal(node, "Mul", *x, 1 - smoothing, x));
  RengaCall(RengaOnnxApplyReal(node, "Mul", even, smoothing, &even));
  RengaCall(RengaOnnxApply(node, "Add", *x, even, x));
  return RENGA_SUCCESS;
}

/* op: CrossEntropy of scores or LogLikelihood of log-probabilities; the sum over the labels. */
static RengaErrorCode SumLoss(RengaOnnxNode *node, const char *op, const OnnxLoss *loss,
                              RengaValue *sum)
{
  const RengaValue in[] = {loss->scores, loss->labels, loss->weights};
  int n = loss->weights == RENGA_VALUE_NONE ? 2 : 3;
  RengaCall(SetIgnored(node, loss));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 1));
  RengaCall(RengaOnnxEmit(node, op, n, in, 1, NULL, sum));
  if (loss->smoothing == 0) return RENGA_SUCCESS;
  RengaValue even;
  const int64_t axes[RENGA_MAX_DIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  RengaCall(EvenLoss(node, loss, &even));
  RengaCall(RengaOnnxReduce(node, "ReduceSum", even, RengaOnnxSpec(node, even)->ndim, axes, false,
                            &even));
  RengaCall(Mixed(node, loss->smoothing, even, sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode MeanLoss(RengaOnnxNode *node, const char *op, const OnnxLoss *loss,
                               RengaValue *mean)
{
  RengaValue sum, count;
  RengaCall(SumLoss(node, op, loss, &sum));
  RengaCall(SetIgnored(node, loss));
  RengaCall(RengaOnnxApply(node, "CrossEntropyCount", loss->labels, loss->weights, &count));
  RengaCall(RengaOnnxApply(node, "BatchSum", count, RENGA_VALUE_NONE, &count));
  RengaCall(RengaOnnxCast(node, count, RengaOnnxSpec(node, sum)->type, &count));
  RengaCall(RengaOnnxApply(node, "Div", sum, count, mean));
  return RENGA_SUCCESS;
}

/* 0 … classes - 1 as [1, C, 1, …] */
static RengaErrorCode ClassNumbers(RengaOnnxNode *node, RengaDataType type, int ndim,
                                   int64_t classes, RengaValue *value)
{
  RengaOnnxHost *host;
  void *data;
  int64_t dim[RENGA_MAX_DIM] = {1, classes, 1, 1, 1, 1, 1, 1};
  RengaCall(RengaOnnxHostCreate(node->importer, type, ndim, dim, &host));
  for (int64_t i = 0; i < host->count; i++) host->number[i].whole = i;
  RengaCall(RengaOnnxHostToData(node, host, &data));
  RengaCall(RengaOnnxConstant(node, &host->spec, data, value));
  return RENGA_SUCCESS;
}

static RengaErrorCode Unsqueezed(RengaOnnxNode *node, RengaValue labels, RengaValue *value)
{
  RengaTensorSpec spec = *RengaOnnxSpec(node, labels);
  for (int d = spec.ndim; d > 1; d--) spec.dim[d] = spec.dim[d - 1];
  spec.dim[1] = 1;
  spec.ndim++;
  RengaCall(RengaOnnxReshape(node, labels, &spec, value));
  return RENGA_SUCCESS;
}

/* One number per label: minus the log-probability of the class that is the label, 0 where ignored.
   chosen [N, C, d...] is true at the class of the label. */
static RengaErrorCode EachLoss(RengaOnnxNode *node, const OnnxLoss *loss,
                               RengaValue log_probability, RengaValue *each)
{
  const RengaTensorSpec scores = *RengaOnnxSpec(node, log_probability);
  RengaDataType type = RengaOnnxSpec(node, loss->labels)->type;
  RengaValue classes, labels, chosen, y;
  RengaCall(ClassNumbers(node, type, scores.ndim, scores.dim[1], &classes));
  RengaCall(Unsqueezed(node, loss->labels, &labels));
  RengaCall(RengaOnnxApply(node, "Equal", labels, classes, &chosen));
  if (loss->ignores && loss->ignore_index >= 0 && loss->ignore_index < scores.dim[1]) {
    RengaValue kept;
    RengaCall(RengaOnnxApplyReal(node, "Equal", labels, (double)loss->ignore_index, &kept));
    RengaCall(RengaOnnxApply(node, "Not", kept, RENGA_VALUE_NONE, &kept));
    RengaCall(RengaOnnxApply(node, "And", chosen, kept, &chosen));
  }
  RengaCall(RengaOnnxApply(node, "Neg", log_probability, RENGA_VALUE_NONE, &y));
  RengaCall(Weighted(node, loss, &y));
  RengaCall(ZeroWhere(node, false, chosen, &y));
  int64_t axis = 1;
  RengaCall(RengaOnnxReduce(node, "ReduceSum", y, 1, &axis, false, each));
  if (loss->smoothing == 0) return RENGA_SUCCESS;
  RengaCall(EvenLoss(node, loss, &y));
  RengaCall(Mixed(node, loss->smoothing, y, each));
  return RENGA_SUCCESS;
}

static RengaErrorCode Reduced(RengaOnnxNode *node, const char *op, const OnnxLoss *loss,
                              RengaValue log_probability, RengaValue *y)
{
  if (RengaOnnxString(node, "reduction", "mean", "mean"))
    RengaCall(MeanLoss(node, op, loss, y));
  else if (RengaOnnxString(node, "reduction", "sum", "mean"))
    RengaCall(SumLoss(node, op, loss, y));
  else if (RengaOnnxString(node, "reduction", "none", "mean"))
    RengaCall(EachLoss(node, loss, log_probability, y));
  else
    RengaOnnxRaise(node, RENGA_ERR_FILE_FORMAT, "reduction must be mean, sum or none");
  return RENGA_SUCCESS;
}

/* Labels that are probabilities of the classes, as PyTorch exports them: the sum of -p log q. */
static RengaErrorCode SoftLoss(RengaOnnxNode *node, RengaValue scores, RengaValue labels)
{
  int64_t axes[RENGA_MAX_DIM];
  const int ndim = RengaOnnxSpec(node, scores)->ndim;
  const double classes = (double)RengaOnnxSpec(node, scores)->dim[1];
  const double smoothing = Smoothing(node);
  RengaValue logs, y, sum;
  RengaOnnxCheck(!RengaOnnxHasInput(node, 2), node, RENGA_ERR_SUPPORT,
                 "labels that are probabilities with weights of classes: weigh the labels instead");
  if (smoothing > 0) {
    RengaCall(RengaOnnxApplyReal(node, "Mul", labels, 1 - smoothing, &labels));
    RengaCall(RengaOnnxApplyReal(node, "Add", labels, smoothing / classes, &labels));
  }
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 1));
  RengaCall(RengaOnnxApply(node, "LogSoftmax", scores, RENGA_VALUE_NONE, &logs));
  RengaCall(RengaOnnxApply(node, "Mul", logs, labels, &y));
  RengaCall(RengaOnnxApply(node, "Neg", y, RENGA_VALUE_NONE, &y));
  axes[0] = 1;
  RengaCall(RengaOnnxReduce(node, "ReduceSum", y, 1, axes, false, &sum));
  for (int d = 0; d < ndim - 1; d++) axes[d] = d;
  if (RengaOnnxString(node, "reduction", "mean", "mean"))
    RengaCall(RengaOnnxReduce(node, "ReduceMean", sum, ndim - 1, axes, false, &sum));
  else if (RengaOnnxString(node, "reduction", "sum", "mean"))
    RengaCall(RengaOnnxReduce(node, "ReduceSum", sum, ndim - 1, axes, false, &sum));
  (void)RengaOnnxInt(node, "ignore_index", 0);
  RengaCall(RengaOnnxBindValue(node, 0, sum));
  RengaCall(RengaOnnxBindValue(node, 1, logs));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertSoftmaxCrossEntropyLoss(RengaOnnxNode *node)
{
  OnnxLoss loss;
  RengaValue log_probability = RENGA_VALUE_NONE, y, scores, labels;
  RengaCall(RengaOnnxInputValue(node, 0, &scores));
  RengaCall(RengaOnnxInputValue(node, 1, &labels));
  if (scores != RENGA_VALUE_NONE && labels != RENGA_VALUE_NONE &&
      RengaTensorSpecEqual(RengaOnnxSpec(node, scores), RengaOnnxSpec(node, labels))) {
    RengaCall(SoftLoss(node, scores, labels));
    return RENGA_SUCCESS;
  }
  RengaCall(ReadLoss(node, &loss));
  bool none = RengaOnnxString(node, "reduction", "none", "mean");
  if (none || RengaOnnxIsUsed(node, 1)) {
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 1));
    RengaCall(RengaOnnxApply(node, "LogSoftmax", loss.scores, RENGA_VALUE_NONE, &log_probability));
    RengaCall(RengaOnnxBindValue(node, 1, log_probability));
  }
  RengaCall(Reduced(node, "CrossEntropy", &loss, log_probability, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertNegativeLogLikelihoodLoss(RengaOnnxNode *node)
{
  OnnxLoss loss;
  RengaValue y;
  RengaCall(ReadLoss(node, &loss));
  RengaCall(Reduced(node, "LogLikelihood", &loss, loss.scores, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
