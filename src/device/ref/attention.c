/* Scaled dot-product attention. Probabilities are recomputed wherever they are needed.

   Vaswani and others: Attention is all you need, arXiv 1706.03762, equation 1. Gradients: Dao and
   others: FlashAttention, arXiv 2205.14135, appendix B.2. */
#include "ref.h"
#include "renga/private/dropout.h"
#include "renga/private/logsum.h"
#include <math.h>

enum { CHUNK = 64 }; /* columns that are summed at a time */

typedef struct {
  const RengaOpHeads *of;
  int64_t heads, queries, keys, width, values; /* heads: of all samples */
  RefIn q, k, v, mask;
  RefWalk mask_walk; /* over the leading dimensions, queries and keys */
  int64_t mask_step[RENGA_MAX_DIM];
  int ndim;
  int64_t dim[RENGA_MAX_DIM]; /* of the scores */
  double scale;
  bool causal;
  int64_t first; /* place of the first query among the keys, where it is causal */
  float ratio;
  RengaDropout dropout;
  int64_t batch, inner; /* the batch dimension of the scores, elements behind it */
  int64_t batch_factor, sample;
} AttentionCall_Ref;

static RengaErrorCode StartDropout(const RengaOpCall *call, const RengaKernelContext *context,
                                   const RengaTensorSpec *scores, AttentionCall_Ref *attention)
{
  int dimension;
  RengaCall(RengaOpAxis(call, "batch_dim", scores->ndim, &dimension));
  attention->ratio = context->training ? (float)RengaOpCallReal(call, "ratio") : 0;
  attention->dropout = RengaDropoutStart(context->seed, context->step, RengaOpCallInt(call, "key"));
  const RefAxis axis = RefAxisOf(scores, dimension);
  attention->batch = axis.extent;
  attention->inner = axis.inner;
  attention->batch_factor = RengaOpCallInt(call, "batch_factor");
  attention->sample = context->sample;
  return RENGA_SUCCESS;
}

/* first: which input is q; mask: which input is the mask. attention->of is given. */
static RengaErrorCode AttentionOf(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], int first, int mask,
                                  AttentionCall_Ref *attention)
{
  const RengaOpHeads *of = attention->of;
  *attention = (AttentionCall_Ref){.of = of,
                                   .heads = of->samples * of->heads,
                                   .queries = of->queries,
                                   .keys = of->keys,
                                   .width = of->width,
                                   .values = of->values,
                                   .q = RefInput(call, in, first + of->q.tensor),
                                   .k = RefInput(call, in, first + of->k.tensor),
                                   .v = RefInput(call, in, first + of->v.tensor),
                                   .mask = RefInput(call, in, mask),
                                   .causal = RengaOpCallInt(call, "causal") != 0,
                                   .first = RengaOpCallInt(call, "first")};
  attention->scale = RengaOpCallReal(call, "scale");
  if (attention->scale == 0) attention->scale = 1 / sqrt((double)attention->width);
  const RengaTensorSpec scores = RengaOpScoresOf(of);
  attention->ndim = scores.ndim;
  for (int d = 0; d < scores.ndim; d++) attention->dim[d] = scores.dim[d];
  if (attention->mask.data) {
    RefWalkStart(&attention->mask_walk, scores.ndim, scores.dim);
    RefWalkAddBroadcast(&attention->mask_walk, &call->in[mask]);
  }
  RengaCall(StartDropout(call, context, &scores, attention));
  return RENGA_SUCCESS;
}

/* The element that row r of a head begins at. */
static int64_t RowPlace(const AttentionCall_Ref *attention, const RengaOpRows *rows, int64_t head,
                        int64_t r)
{
  const int64_t heads = attention->of->heads;
  return rows->first + head / heads * rows->sample + head % heads / rows->share * rows->head +
         r * rows->row;
}

/* Place in the mask of score i, counted through all of them. */
static int64_t MaskPlace(const AttentionCall_Ref *attention, int64_t i)
{
  int64_t place = 0;
  for (int d = attention->ndim; d-- > 0;) {
    place += i % attention->dim[d] * attention->mask_walk.step[0][d];
    i /= attention->dim[d];
  }
  return place;
}

static int64_t AttentionPlace_Ref(const AttentionCall_Ref *attention, int64_t head, int64_t t,
                                  int64_t s)
{
  return (head * attention->queries + t) * attention->keys + s;
}

static double Score(const AttentionCall_Ref *attention, int64_t head, int64_t t, int64_t s)
{
  if (attention->causal && s > attention->first + t) return -INFINITY;
  double dot =
      RefDot(attention->q, RowPlace(attention, &attention->of->q, head, t), 1, attention->k,
             RowPlace(attention, &attention->of->k, head, s), 1, attention->width);
  double score = attention->scale * dot;
  if (!attention->mask.data) return score;
  return score +
         RefGet(attention->mask, MaskPlace(attention, AttentionPlace_Ref(attention, head, t, s)));
}

/* A query to which every key is masked has log-sum-exp -infinity and attends to nothing. */
static double LogSumExpOfKeys_Ref(const AttentionCall_Ref *attention, int64_t head, int64_t t)
{
  double most = -INFINITY, sum = 0;
  for (int64_t s = 0; s < attention->keys; s++) most = fmax(most, Score(attention, head, t, s));
  if (isinf(most)) return most;
  for (int64_t s = 0; s < attention->keys; s++) sum += exp(Score(attention, head, t, s) - most);
  return most + log(sum);
}

/* Probabilities of a query are exp(score - shift) / sum. */
typedef struct {
  double shift, sum;
} QueryRow;

/* From the log-sum-exp, or again from the scores where it has lost the logarithm. */
static QueryRow RowOfQuery(const AttentionCall_Ref *attention, int64_t head, int64_t t,
                           double log_sum)
{
  QueryRow row = {log_sum, 1};
  if (isinf(log_sum) || !RENGA_LOGSUM_IS_LARGE(log_sum)) return row;
  row = (QueryRow){-INFINITY, 0};
  for (int64_t s = 0; s < attention->keys; s++)
    row.shift = fmax(row.shift, Score(attention, head, t, s));
  for (int64_t s = 0; s < attention->keys; s++)
    row.sum += exp(Score(attention, head, t, s) - row.shift);
  return row;
}

static double Probability(const AttentionCall_Ref *attention, int64_t head, int64_t t, int64_t s,
                          QueryRow row)
{
  return isinf(row.shift) ? 0 : exp(Score(attention, head, t, s) - row.shift) / row.sum;
}

/* What dropout multiplies the probability with: 0 or 1 / (1 - ratio). */
static double KeptShare_Ref(const AttentionCall_Ref *attention, int64_t head, int64_t t, int64_t s)
{
  if (attention->ratio == 0) return 1;
  const int64_t batch = attention->batch, inner = attention->inner;
  int64_t i = AttentionPlace_Ref(attention, head, t, s), factor = attention->batch_factor;
  int64_t o = i / inner / batch, b = i / inner % batch;
  int64_t element = (o * factor + b % factor) * inner + i % inner;
  float u = RengaDropoutUniform(&attention->dropout, attention->sample + b / factor, element);
  return u >= attention->ratio ? 1 / (1 - (double)attention->ratio) : 0;
}

/* Columns [first, first + n) of the output of one query. */
static void OutputChunk(const AttentionCall_Ref *attention, int64_t head, int64_t t, QueryRow row,
                        int64_t first, int64_t n, RefOut o)
{
  double sum[CHUNK] = {0};
  for (int64_t s = 0; s < attention->keys; s++) {
    double p = Probability(attention, head, t, s, row) * KeptShare_Ref(attention, head, t, s);
    int64_t v_at = RowPlace(attention, &attention->of->v, head, s) + first;
    for (int64_t e = 0; e < n; e++) sum[e] += p == 0 ? 0 : p * RefGet(attention->v, v_at + e);
  }
  int64_t o_at = RowPlace(attention, &attention->of->o, head, t) + first;
  for (int64_t e = 0; e < n; e++) RefSet(o, o_at + e, sum[e]);
}

static int64_t ChunkSize(int64_t first, int64_t extent)
{
  return extent - first < CHUNK ? extent - first : CHUNK;
}

static RengaErrorCode Attention_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                    const void *const in[], void *const out[])
{
  RefOut o = RefOutput(call, out, 0), log_sums = RefOutput(call, out, 1);
  RengaOpHeads of;
  RengaCall(RengaOpGetHeads(call, 0, &of));
  AttentionCall_Ref attention = {.of = &of};
  RengaCall(AttentionOf(call, context, in, 0, 3, &attention));
  for (int64_t head = 0; head < attention.heads; head++)
    for (int64_t t = 0; t < attention.queries; t++) {
      double log_sum = LogSumExpOfKeys_Ref(&attention, head, t);
      QueryRow row = RowOfQuery(&attention, head, t, log_sum);
      for (int64_t e = 0; e < attention.values; e += CHUNK)
        OutputChunk(&attention, head, t, row, e, ChunkSize(e, attention.values), o);
      if (log_sums.data) RefSet(log_sums, head * attention.queries + t, log_sum);
    }
  return RENGA_SUCCESS;
}

typedef struct {
  AttentionCall_Ref forward;
  RefIn d_o, o, log_sums;
} AttentionBackward_Ref;

static double ProbabilityAgain(const AttentionBackward_Ref *backward, int64_t head, int64_t t,
                               int64_t s)
{
  const AttentionCall_Ref *attention = &backward->forward;
  double log_sum = RefGet(backward->log_sums, head * attention->queries + t);
  return Probability(attention, head, t, s, RowOfQuery(attention, head, t, log_sum));
}

/* Gradient of the score of (t, s): p * (dp - sum over all keys of p dp), and that sum is do . o */
static double ScoreGradient(const AttentionBackward_Ref *backward, int64_t head, int64_t t,
                            int64_t s)
{
  const AttentionCall_Ref *attention = &backward->forward;
  const int64_t at = RowPlace(attention, &attention->of->o, head, t);
  double p = ProbabilityAgain(backward, head, t, s);
  if (p == 0) return 0;
  double dp = RefDot(backward->d_o, at, 1, attention->v,
                     RowPlace(attention, &attention->of->v, head, s), 1, attention->values);
  double all = RefDot(backward->d_o, at, 1, backward->o, at, 1, attention->values);
  return p * (dp * KeptShare_Ref(attention, head, t, s) - all);
}

static void QueryGradient(const AttentionBackward_Ref *backward, int64_t head, int64_t t, RefOut dq)
{
  const AttentionCall_Ref *attention = &backward->forward;
  for (int64_t first = 0; first < attention->width; first += CHUNK) {
    double sum[CHUNK] = {0};
    int64_t n = ChunkSize(first, attention->width);
    for (int64_t s = 0; s < attention->keys; s++) {
      double g = ScoreGradient(backward, head, t, s);
      int64_t k_at = RowPlace(attention, &attention->of->k, head, s) + first;
      for (int64_t i = 0; i < n; i++) sum[i] += g * RefGet(attention->k, k_at + i);
    }
    int64_t at = RowPlace(attention, &attention->of->q, head, t) + first;
    for (int64_t i = 0; i < n; i++) RefSet(dq, at + i, attention->scale * sum[i]);
  }
}

/* Of the key of all heads from this one on that share it. */
static void KeyGradient(const AttentionBackward_Ref *backward, int64_t head, int64_t s, RefOut dk)
{
  const AttentionCall_Ref *attention = &backward->forward;
  for (int64_t first = 0; first < attention->width; first += CHUNK) {
    double sum[CHUNK] = {0};
    int64_t n = ChunkSize(first, attention->width);
    for (int64_t i = 0; i < attention->of->k.share * attention->queries; i++) {
      const int64_t own = head + i / attention->queries, t = i % attention->queries;
      double g = ScoreGradient(backward, own, t, s);
      int64_t q_at = RowPlace(attention, &attention->of->q, own, t) + first;
      for (int64_t c = 0; c < n; c++) sum[c] += g * RefGet(attention->q, q_at + c);
    }
    int64_t at = RowPlace(attention, &attention->of->k, head, s) + first;
    for (int64_t i = 0; i < n; i++) RefSet(dk, at + i, attention->scale * sum[i]);
  }
}

static void ValueGradient(const AttentionBackward_Ref *backward, int64_t head, int64_t s, RefOut dv)
{
  const AttentionCall_Ref *attention = &backward->forward;
  for (int64_t first = 0; first < attention->values; first += CHUNK) {
    double sum[CHUNK] = {0};
    int64_t n = ChunkSize(first, attention->values);
    for (int64_t i = 0; i < attention->of->v.share * attention->queries; i++) {
      const int64_t own = head + i / attention->queries, t = i % attention->queries;
      const int64_t o_at = RowPlace(attention, &attention->of->o, own, t) + first;
      double p = ProbabilityAgain(backward, own, t, s) * KeptShare_Ref(attention, own, t, s);
      for (int64_t e = 0; e < n; e++) sum[e] += p * RefGet(backward->d_o, o_at + e);
    }
    int64_t at = RowPlace(attention, &attention->of->v, head, s) + first;
    for (int64_t e = 0; e < n; e++) RefSet(dv, at + e, sum[e]);
  }
}

/* Summed over the dimensions that the mask is broadcast along. */
static void MaskGradient(const AttentionBackward_Ref *backward, int64_t count, RefOut dmask)
{
  const AttentionCall_Ref *attention = &backward->forward;
  RefZero(dmask, count);
  for (int64_t head = 0; head < attention->heads; head++)
    for (int64_t t = 0; t < attention->queries; t++)
      for (int64_t s = 0; s < attention->keys; s++)
        RefAdd(dmask, MaskPlace(attention, AttentionPlace_Ref(attention, head, t, s)),
               ScoreGradient(backward, head, t, s));
}

static RengaErrorCode AttentionGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  AttentionBackward_Ref backward = {
      .d_o = RefInput(call, in, 0), .o = RefInput(call, in, 4), .log_sums = RefInput(call, in, 5)};
  RengaOpHeads of;
  RengaCall(RengaOpGetHeads(call, 1, &of));
  backward.forward.of = &of;
  RengaCall(AttentionOf(call, context, in, 1, 6, &backward.forward));
  const AttentionCall_Ref *attention = &backward.forward;
  const int k = RengaOpGradientOf(call, 1, of.k.tensor);
  const int v = RengaOpGradientOf(call, 1, of.v.tensor), mask = RengaOpGradientOf(call, 1, 3);
  for (int64_t head = 0; head < attention->heads; head++) {
    for (int64_t t = 0; t < attention->queries; t++)
      QueryGradient(&backward, head, t, RefOutput(call, out, 0));
    for (int64_t s = 0; s < attention->keys && head % of.k.share == 0; s++) {
      KeyGradient(&backward, head, s, RefOutput(call, out, k));
      ValueGradient(&backward, head, s, RefOutput(call, out, v));
    }
  }
  if (call->n_out > mask && out[mask])
    MaskGradient(&backward, RengaTensorSpecCount(&call->out[mask]), RefOutput(call, out, mask));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindAttention(const char *name)
{
  static const RefRow rows[] = {{"Attention", Attention_Ref},
                                {"AttentionGrad", AttentionGrad_Ref},
                                {"PackedAttention", Attention_Ref},
                                {"PackedAttentionGrad", AttentionGrad_Ref},
                                {NULL, NULL}};
  return RefFindRow(rows, name);
}
