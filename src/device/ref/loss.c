/* Cross-entropy and likelihood of labels, summed (not averaged) over a micro-batch. */
#include "ref.h"
#include <math.h>

/* scores [outer, classes, inner], labels [outer, inner]; label j is of line (j / inner, j %
   inner) */
typedef struct {
  RefAxis axis;
  RefIn scores, labels, weights;
  int64_t ignore;
} Loss_Ref;

static RengaErrorCode LossOf(const RengaOpCall *call, const void *const in[], int scores,
                             int weights, Loss_Ref *loss)
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[scores].ndim, &dimension));
  *loss = (Loss_Ref){RefAxisOf(&call->in[scores], dimension), RefInput(call, in, scores),
                     RefInput(call, in, scores + 1), RefInput(call, in, weights),
                     RengaOpCallInt(call, "ignore_index")};
  return RENGA_SUCCESS;
}

static int64_t LabelCount(const Loss_Ref *loss)
{
  return loss->axis.outer * loss->axis.inner;
}

/* Place of the score of class c for label j. */
static int64_t ScorePlace_Ref(const Loss_Ref *loss, int64_t j, int64_t c)
{
  int64_t inner = loss->axis.inner;
  return (j / inner * loss->axis.extent + c) * inner + j % inner;
}

/* The weight of label j: 0 where it is ignored. */
static RengaErrorCode ReadLabel(const RengaOpCall *call, const Loss_Ref *loss, int64_t j,
                                int64_t *label, double *weight)
{
  int64_t value = RefGetInt(loss->labels, j);
  *weight = 0;
  *label = 0;
  if (value == loss->ignore) return RENGA_SUCCESS;
  RengaOpCheckValue(value >= 0 && value < loss->axis.extent, call,
                    "label %lld at place %lld is no class from 0 to %lld", (long long)value,
                    (long long)j, (long long)(loss->axis.extent - 1));
  *label = value;
  *weight = loss->weights.data ? RefGet(loss->weights, value) : 1;
  return RENGA_SUCCESS;
}

static double LogSumExpOfScores_Ref(const Loss_Ref *loss, int64_t j)
{
  double most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < loss->axis.extent; c++)
    most = fmax(most, RefGet(loss->scores, ScorePlace_Ref(loss, j, c)));
  if (isinf(most)) return most;
  for (int64_t c = 0; c < loss->axis.extent; c++)
    sum += exp(RefGet(loss->scores, ScorePlace_Ref(loss, j, c)) - most);
  return most + log(sum);
}

static RengaErrorCode CrossEntropy_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  (void)context;
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 0, 2, &loss));
  RefOut log_sums = RefOutput(call, out, 1);
  double sum = 0, weight;
  int64_t count = LabelCount(&loss), label;
  for (int64_t j = 0; j < count; j++) {
    double log_sum = LogSumExpOfScores_Ref(&loss, j);
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    if (weight != 0)
      sum += weight * (log_sum - RefGet(loss.scores, ScorePlace_Ref(&loss, j, label)));
    if (log_sums.data) RefSet(log_sums, j, log_sum);
  }
  RefSet(RefOutput(call, out, 0), 0, sum);
  return RENGA_SUCCESS;
}

/* d score = d sum * weight * (probability - 1 for the label) */
static RengaErrorCode CrossEntropyGrad_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  (void)context;
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 1, 4, &loss));
  RefIn log_sums = RefInput(call, in, 3);
  RefOut dscores = RefOutput(call, out, 0);
  double dsum = RefGet(RefInput(call, in, 0), 0), weight;
  int64_t count = LabelCount(&loss), label;
  for (int64_t j = 0; j < count; j++) {
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    for (int64_t c = 0; c < loss.axis.extent; c++) {
      int64_t i = ScorePlace_Ref(&loss, j, c);
      double p = exp(RefGet(loss.scores, i) - RefGet(log_sums, j));
      RefSet(dscores, i, weight == 0 ? 0 : dsum * weight * (p - (c == label)));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCount_Ref(const RengaOpCall *call,
                                            const RengaKernelContext *context,
                                            const void *const in[], void *const out[])
{
  (void)context;
  RefIn labels = RefInput(call, in, 0), weights = RefInput(call, in, 1);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  int64_t ignore = RengaOpCallInt(call, "ignore_index");
  double sum = 0;
  for (int64_t j = 0; j < count; j++) {
    int64_t label = RefGetInt(labels, j);
    if (label == ignore) continue;
    RengaOpCheckValue(!weights.data || (label >= 0 && label < call->in[1].dim[0]), call,
                      "label %lld at place %lld has no weight", (long long)label, (long long)j);
    sum += weights.data ? RefGet(weights, label) : 1;
  }
  RefSet(RefOutput(call, out, 0), 0, sum);
  return RENGA_SUCCESS;
}

/* Sum of -weight * log-probability of the label, the log-probabilities being given. */
static RengaErrorCode LogLikelihood_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  (void)context;
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 0, 2, &loss));
  double sum = 0, weight;
  int64_t count = LabelCount(&loss), label;
  for (int64_t j = 0; j < count; j++) {
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    if (weight != 0) sum -= weight * RefGet(loss.scores, ScorePlace_Ref(&loss, j, label));
  }
  RefSet(RefOutput(call, out, 0), 0, sum);
  return RENGA_SUCCESS;
}

static RengaErrorCode LogLikelihoodGrad_Ref(const RengaOpCall *call,
                                            const RengaKernelContext *context,
                                            const void *const in[], void *const out[])
{
  (void)context;
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 1, 3, &loss));
  RefOut dscores = RefOutput(call, out, 0);
  double dsum = RefGet(RefInput(call, in, 0), 0), weight;
  int64_t count = LabelCount(&loss), label;
  RefZero(dscores, RengaTensorSpecCount(&call->out[0]));
  for (int64_t j = 0; j < count; j++) {
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    if (weight != 0) RefSet(dscores, ScorePlace_Ref(&loss, j, label), -dsum * weight);
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindLoss(const char *name)
{
  static const RefRow rows[] = {
      {"CrossEntropy", CrossEntropy_Ref},           {"CrossEntropyGrad", CrossEntropyGrad_Ref},
      {"CrossEntropyCount", CrossEntropyCount_Ref}, {"LogLikelihood", LogLikelihood_Ref},
      {"LogLikelihoodGrad", LogLikelihoodGrad_Ref}, {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
