/* Attention and cross-entropy. */
#include "../reverse.h"

static RengaErrorCode ReverseAttention(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  bool mask = node->n_in > 3 && node->in[3] >= 0;
  RengaValue dx[4];
  if (node->n_out < 2 || reverse->dy[0] < 0 || reverse->dy[1] >= 0)
    RengaReverseRefuse(reverse, "it needs the log-sum-exp, of which there is no gradient");
  RengaValue in[7] = {reverse->dy[0],
                      node->in[0],
                      node->in[1],
                      node->in[2],
                      node->out[0],
                      node->out[1],
                      mask ? node->in[3] : RENGA_VALUE_NONE};
  int n_out = RengaReverseWants(reverse, 3) ? 4 : 3;
  RengaCall(RengaReverseApplyLike(reverse, "AttentionGrad", 7, in, NULL, n_out, dx));
  for (int i = 0; i < n_out; i++) reverse->dx[i] = dx[i];
  return RENGA_SUCCESS;
}

/* Of the tensors that are there, and the mask. */
static RengaErrorCode ReversePackedAttention(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue in[7] = {reverse->dy[0], RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE,
                      node->out[0],   node->out[1],     RENGA_VALUE_NONE};
  RengaValue dx[4];
  const bool mask = node->n_in > 3 && RengaReverseWants(reverse, 3);
  int n_out = mask;
  for (int i = 0; i < node->n_in; i++) in[i < 3 ? 1 + i : 6] = node->in[i];
  for (int i = 0; i < 3; i++) n_out += in[1 + i] >= 0;
  RengaCall(RengaReverseApplyLike(reverse, "PackedAttentionGrad", 7, in, NULL, n_out, dx));
  if (mask) reverse->dx[3] = dx[--n_out];
  for (int i = 3; i-- > 0;)
    if (in[1 + i] >= 0) reverse->dx[i] = dx[--n_out];
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckScoresOnly(RengaReverse *reverse)
{
  if (RengaReverseWants(reverse, 2)) RengaReverseRefuse(reverse, "the class weights are trained");
  if (reverse->node->n_out > 1 && reverse->dy[1] >= 0)
    RengaReverseRefuse(reverse, "the loss depends on the log-sum-exp");
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseCrossEntropy(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckScoresOnly(reverse));
  if (node->n_out < 2) RengaReverseRefuse(reverse, "it lacks the log-sum-exp");
  RengaValue weights = node->n_in > 2 ? node->in[2] : RENGA_VALUE_NONE;
  RengaValue in[5] = {reverse->dy[0], node->in[0], node->in[1], node->out[1], weights};
  RengaCall(RengaReverseApplyLike(reverse, "CrossEntropyGrad", 5, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* Its gradients come of CrossEntropyJoin, all or none. */
static RengaErrorCode ReverseEntropyLane(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  if (reverse->dy[0] < 0 || reverse->dy[1] < 0)
    RengaReverseRefuse(reverse, "it needs that of the log-sum-exp and that of the label's score");
  RengaValue in[5] = {reverse->dy[0], reverse->dy[1], node->in[0], node->in[1], node->out[0]};
  RengaCall(RengaReverseApplyLike(reverse, "CrossEntropyLaneGrad", 5, in, NULL, 1, reverse->dx));
  return RENGA_SUCCESS;
}

/* One gradient for the label's score of all lanes: a lane without the label ignores it. */
static RengaErrorCode ReverseEntropyJoin(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const int lanes = (node->n_in - 2) / 2;
  RengaValue *in, *dx;
  if (RengaReverseWants(reverse, 1)) RengaReverseRefuse(reverse, "the class weights are trained");
  for (int o = 1; o < node->n_out; o++)
    if (reverse->dy[o] >= 0) RengaReverseRefuse(reverse, "the loss depends on the log-sum-exp");
  if (node->n_out < 2) RengaReverseRefuse(reverse, "it lacks the log-sum-exp");
  RengaCall(RengaGraphScratch(reverse->graph, 4 + lanes, &in));
  RengaCall(RengaGraphScratch(reverse->graph, 1 + lanes, &dx));
  in[0] = reverse->dy[0];
  in[1] = node->in[0];
  in[2] = node->out[1];
  in[3] = node->in[1];
  for (int l = 0; l < lanes; l++) in[4 + l] = node->in[2 + l];
  RengaCall(
      RengaReverseApplyLike(reverse, "CrossEntropyJoinGrad", 4 + lanes, in, NULL, 1 + lanes, dx));
  for (int l = 0; l < lanes; l++) {
    reverse->dx[2 + l] = dx[1 + l];
    reverse->dx[2 + lanes + l] = dx[0];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode LogLikelihood(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckScoresOnly(reverse));
  RengaValue weights = node->n_in > 2 ? node->in[2] : RENGA_VALUE_NONE;
  RengaValue in[4] = {reverse->dy[0], node->in[0], node->in[1], weights};
  RengaCall(RengaReverseApplyLike(reverse, "LogLikelihoodGrad", 4, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseLoss[] = {
    {"Attention", ReverseAttention, NULL},
    {"PackedAttention", ReversePackedAttention, NULL},
    {"CrossEntropy", ReverseCrossEntropy, NULL},
    {"CrossEntropyLane", ReverseEntropyLane, NULL},
    {"CrossEntropyJoin", ReverseEntropyJoin, NULL},
    {"LogLikelihood", LogLikelihood, NULL},
    {NULL, NULL, NULL},
};
