/* Cross-entropy and likelihood of labels, summed (not averaged) over a micro-batch. */
#include "ref.h"
#include "renga/private/logsum.h"
#include <math.h>

/* scores [outer, classes, inner], labels [outer, inner]; label j is of line (j / inner, j %
   inner) */
typedef struct {
  RefAxis axis;
  RefIn scores, labels, weights;
  int64_t ignore;
  int64_t own;            /* classes that there are scores of */
  int64_t first, classes; /* the scores are those of classes from the first on, of so many */
} Loss_Ref;

static RengaErrorCode LossOf(const RengaOpCall *call, const void *const in[], int scores,
                             int weights, Loss_Ref *loss)
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[scores].ndim, &dimension));
  *loss = (Loss_Ref){RefAxisOf(&call->in[scores], dimension),
                     RefInput(call, in, scores),
                     RefInput(call, in, scores + 1),
                     RefInput(call, in, weights),
                     RengaOpCallInt(call, "ignore_index"),
                     0,
                     0,
                     0};
  loss->classes = loss->own = loss->axis.extent - RengaOpCallInt(call, "padding");
  return RENGA_SUCCESS;
}

static RengaErrorCode LaneLossOf(const RengaOpCall *call, const void *const in[], int scores,
                                 Loss_Ref *loss)
{
  RengaCall(LossOf(call, in, scores, call->n_in, loss));
  loss->first = RengaOpCallInt(call, "first");
  loss->classes = RengaOpCallInt(call, "classes");
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
  RengaOpCheckValue(value >= 0 && value < loss->classes, call,
                    "label %lld at place %lld is no class from 0 to %lld", (long long)value,
                    (long long)j, (long long)(loss->classes - 1));
  *label = value;
  *weight = loss->weights.data ? RefGet(loss->weights, value) : 1;
  return RENGA_SUCCESS;
}

/* The log-sum-exp of scores in two parts: most + log(sum). */
typedef struct {
  double most, sum;
} Scores_Ref;

static Scores_Ref SumOfScores_Ref(const Loss_Ref *loss, int64_t j)
{
  Scores_Ref scores = {-INFINITY, 0};
  for (int64_t c = 0; c < loss->own; c++)
    scores.most = fmax(scores.most, RefGet(loss->scores, ScorePlace_Ref(loss, j, c)));
  if (isinf(scores.most)) return (Scores_Ref){scores.most, 1};
  for (int64_t c = 0; c < loss->own; c++)
    scores.sum += exp(RefGet(loss->scores, ScorePlace_Ref(loss, j, c)) - scores.most);
  return scores;
}

static double LogSumExpOfScores_Ref(const Loss_Ref *loss, int64_t j)
{
  const Scores_Ref scores = SumOfScores_Ref(loss, j);
  return scores.most + log(scores.sum);
}

/* Probabilities are exp(score - most) / sum: by the log-sum-exp, or from the scores again where it
   has lost the logarithm. */
static Scores_Ref ScoresAgain_Ref(const Loss_Ref *loss, int64_t j, double log_sum)
{
  return RENGA_LOGSUM_IS_LARGE(log_sum) ? SumOfScores_Ref(loss, j) : (Scores_Ref){log_sum, 1};
}

static RengaErrorCode CrossEntropy_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 0, 2, &loss));
  RefOut log_sums = RefOutput(call, out, 1);
  double sum = 0, weight;
  int64_t count = LabelCount(&loss), label;
  for (int64_t j = 0; j < count; j++) {
    double log_sum = LogSumExpOfScores_Ref(&loss, j);
    Scores_Ref scores = ScoresAgain_Ref(&loss, j, log_sum);
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    double score = RefGet(loss.scores, ScorePlace_Ref(&loss, j, label));
    if (weight != 0) sum += weight * (scores.most - score + log(scores.sum));
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
  Loss_Ref loss;
  RengaCall(LossOf(call, in, 1, 4, &loss));
  RefIn log_sums = RefInput(call, in, 3);
  RefOut dscores = RefOutput(call, out, 0);
  double dsum = RefGet(RefInput(call, in, 0), 0), weight;
  int64_t count = LabelCount(&loss), label;
  for (int64_t j = 0; j < count; j++) {
    Scores_Ref scores = ScoresAgain_Ref(&loss, j, RefGet(log_sums, j));
    RengaCall(ReadLabel(call, &loss, j, &label, &weight));
    for (int64_t c = 0; c < loss.axis.extent; c++) {
      int64_t i = ScorePlace_Ref(&loss, j, c);
      double p = exp(RefGet(loss.scores, i) - scores.most) / scores.sum;
      RefSet(dscores, i, weight == 0 || c >= loss.own ? 0 : dsum * weight * (p - (c == label)));
    }
  }
  return RENGA_SUCCESS;
}

/* The class of label j among those of the lane; -1: it is another lane's, or ignored. */
static RengaErrorCode ReadLabelOfLane(const RengaOpCall *call, const Loss_Ref *loss, int64_t j,
                                      int64_t *at)
{
  int64_t label;
  double weight;
  RengaCall(ReadLabel(call, loss, j, &label, &weight));
  *at = label - loss->first;
  if (weight == 0 || *at < 0 || *at >= loss->axis.extent) *at = -1;
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyLane_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  Loss_Ref loss;
  RengaCall(LaneLossOf(call, in, 0, &loss));
  int64_t at;
  for (int64_t j = 0; j < LabelCount(&loss); j++) {
    RengaCall(ReadLabelOfLane(call, &loss, j, &at));
    RefSet(RefOutput(call, out, 0), j, LogSumExpOfScores_Ref(&loss, j));
    RefSet(RefOutput(call, out, 1), j,
           at < 0 ? 0 : RefGet(loss.scores, ScorePlace_Ref(&loss, j, at)));
  }
  return RENGA_SUCCESS;
}

/* d score = d log-sum-exp * share of the lane's sum, and d label's score for the label */
static RengaErrorCode CrossEntropyLaneGrad_Ref(const RengaOpCall *call,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[])
{
  Loss_Ref loss;
  RengaCall(LaneLossOf(call, in, 2, &loss));
  RefOut dscores = RefOutput(call, out, 0);
  int64_t at;
  for (int64_t j = 0; j < LabelCount(&loss); j++) {
    const double dsum = RefGet(RefInput(call, in, 0), j), dscore = RefGet(RefInput(call, in, 1), j);
    const Scores_Ref scores = ScoresAgain_Ref(&loss, j, RefGet(RefInput(call, in, 4), j));
    RengaCall(ReadLabelOfLane(call, &loss, j, &at));
    for (int64_t c = 0; c < loss.axis.extent; c++) {
      const int64_t i = ScorePlace_Ref(&loss, j, c);
      const double p = exp(RefGet(loss.scores, i) - scores.most) / scores.sum;
      const double share = dsum == 0 ? 0 : dsum * p;
      RefSet(dscores, i, c == at ? share + dscore : share);
    }
  }
  return RENGA_SUCCESS;
}

/* Weight of label j, 0 where it is ignored. weights: which input they are. */
static double WeightOfLabel_Ref(const RengaOpCall *call, RefIn labels, int weights,
                                const void *const in[], int64_t j)
{
  const int64_t label = RefGetInt(labels, j);
  if (label == RengaOpCallInt(call, "ignore_index")) return 0;
  if (!in[weights]) return 1;
  if (label < 0 || label >= call->in[weights].dim[0]) return 0; /* the lanes raise the error */
  return RefGet(RefInput(call, in, weights), label);
}

/* The log-sum-exp of lanes whose own are inputs first, first + 1, ... */
static double JoinLogSums_Ref(const RengaOpCall *call, const void *const in[], int first, int lanes,
                              int64_t j)
{
  double most = -INFINITY, sum = 0;
  for (int l = 0; l < lanes; l++) most = fmax(most, RefGet(RefInput(call, in, first + l), j));
  for (int l = 0; l < lanes; l++) {
    const double own = RefGet(RefInput(call, in, first + l), j);
    if (isnan(own)) return own;
    sum += isinf(most) ? 0 : exp(own - most);
  }
  return isinf(most) ? most : most + log(sum);
}

static RengaErrorCode CrossEntropyJoin_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  const RefIn labels = RefInput(call, in, 0);
  const RefOut log_sums = RefOutput(call, out, 1), scores = RefOutput(call, out, 2);
  const int lanes = (call->n_in - 2) / 2;
  double sum = 0;
  for (int64_t j = 0; j < RengaTensorSpecCount(&call->in[0]); j++) {
    const double log_sum = JoinLogSums_Ref(call, in, 2, lanes, j);
    const double weight = WeightOfLabel_Ref(call, labels, 1, in, j);
    double score = 0; /* all lanes but one have 0 */
    for (int l = 0; l < lanes; l++) score += RefGet(RefInput(call, in, 2 + lanes + l), j);
    if (weight != 0) sum += weight * (log_sum - score);
    if (log_sums.data) RefSet(log_sums, j, log_sum);
    if (scores.data) RefSet(scores, j, score);
  }
  RefSet(RefOutput(call, out, 0), 0, sum);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyJoinGrad_Ref(const RengaOpCall *call,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[])
{
  const RefIn labels = RefInput(call, in, 1);
  const double dsum = RefGet(RefInput(call, in, 0), 0);
  for (int64_t j = 0; j < RengaTensorSpecCount(&call->in[1]); j++) {
    const double factor = dsum * WeightOfLabel_Ref(call, labels, 3, in, j);
    const double log_sum = RefGet(RefInput(call, in, 2), j);
    RefSet(RefOutput(call, out, 0), j, -factor);
    for (int l = 0; l < call->n_out - 1; l++) {
      const double own = RefGet(RefInput(call, in, 4 + l), j);
      RefSet(RefOutput(call, out, 1 + l), j, factor == 0 ? 0 : factor * exp(own - log_sum));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCount_Ref(const RengaOpCall *call,
                                            const RengaKernelContext *context,
                                            const void *const in[], void *const out[])
{
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
      {"CrossEntropy", CrossEntropy_Ref},
      {"CrossEntropyGrad", CrossEntropyGrad_Ref},
      {"CrossEntropyCount", CrossEntropyCount_Ref},
      {"LogLikelihood", LogLikelihood_Ref},
      {"LogLikelihoodGrad", LogLikelihoodGrad_Ref},
      {"CrossEntropyLane", CrossEntropyLane_Ref},
      {"CrossEntropyLaneGrad", CrossEntropyLaneGrad_Ref},
      {"CrossEntropyJoin", CrossEntropyJoin_Ref},
      {"CrossEntropyJoinGrad", CrossEntropyJoinGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
