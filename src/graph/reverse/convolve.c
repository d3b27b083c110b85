/* Convolutions and pooling. */
#include "../reverse.h"
#include <string.h>

/* Over the batch and the space: all dimensions but the channels. */
static RengaErrorCode Bias(RengaReverse *reverse)
{
  int64_t axes[RENGA_MAX_DIM];
  int count = 0, ndim = RengaReverseSpec(reverse, reverse->dy[0])->ndim;
  const bool last = RengaAttributesInt(&reverse->node->attributes, "channels_last", 0) != 0;
  for (int d = 0; d < ndim; d++)
    if (d != (last ? ndim - 1 : 1)) axes[count++] = d;
  RengaCall(RengaReverseSum(reverse, reverse->dy[0], count, axes, false, &reverse->dx[2]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseConv(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue x = node->in[0], w = node->in[1], dy = reverse->dy[0];
  RengaTensorSpec of_x = *RengaReverseSpec(reverse, x), of_w = *RengaReverseSpec(reverse, w);
  if (reverse->wanted[1]) {
    RengaCall(RengaReverseRecompute(reverse, x, &x));
    RengaCall(RengaReverseApplyLike(reverse, "ConvGradWeight", 2, (const RengaValue[]){x, dy},
                                    &of_w, 1, &reverse->dx[1]));
  }
  if (RengaReverseWants(reverse, 2)) RengaCall(Bias(reverse));
  if (!reverse->wanted[0]) return RENGA_SUCCESS;
  reverse->added = reverse->before >= 0;
  RengaCall(RengaReverseApplyLike(reverse, "ConvGradInput", reverse->added ? 3 : 2,
                                  (const RengaValue[]){dy, w, reverse->before}, &of_x, 1,
                                  &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* The transposed convolution is the input gradient of one that takes dy to dx with the same
   weight. */
static RengaErrorCode ReverseConvTranspose(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue x = node->in[0], w = node->in[1], dy = reverse->dy[0];
  RengaTensorSpec of_w = *RengaReverseSpec(reverse, w);
  if (reverse->wanted[1]) {
    RengaCall(RengaReverseRecompute(reverse, x, &x));
    RengaCall(RengaReverseApplyLike(reverse, "ConvGradWeight", 2, (const RengaValue[]){dy, x},
                                    &of_w, 1, &reverse->dx[1]));
  }
  if (RengaReverseWants(reverse, 2)) RengaCall(Bias(reverse));
  if (reverse->wanted[0])
    RengaCall(RengaReverseApplyLike(reverse, "Conv", 2, (const RengaValue[]){dy, w}, NULL, 1,
                                    &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MaxPool(RengaReverse *reverse)
{
  RengaTensorSpec given = *RengaReverseSpec(reverse, reverse->node->in[0]);
  if (reverse->node->n_out < 2) RengaReverseRefuse(reverse, "the index of the maxima is missing");
  RengaValue in[2] = {reverse->dy[0], reverse->node->out[1]};
  RengaCall(RengaReverseApplyLike(reverse, "MaxPoolGrad", 2, in, &given, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePool(RengaReverse *reverse)
{
  RengaTensorSpec given = *RengaReverseSpec(reverse, reverse->node->in[0]);
  RengaCall(RengaReverseApplyLike(reverse, "AveragePoolGrad", 1, &reverse->dy[0], &given, 1,
                                  &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* The images get a gradient. The boxes, to which torchvision gives none, are refused. */
static RengaErrorCode ReverseRoiAlign(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const char *mode = RengaAttributesString(&node->attributes, "mode", "avg");
  const bool maximum = strcmp(mode, "max") == 0;
  const RengaTensorSpec given = *RengaReverseSpec(reverse, node->in[0]);
  const RengaValue in[4] = {reverse->dy[0], node->in[1], node->in[2], node->in[0]};
  if (reverse->wanted[1])
    RengaReverseRefuse(reverse, "the boxes (input 1) get none: let them stop it (detach() in "
                                "PyTorch, or the property renga.stop_gradient)");
  RengaCall(RengaReverseApplyLike(reverse, "RoiAlignGrad", maximum ? 4 : 3, in, &given, 1,
                                  &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseConvolve[] = {
    {"Conv", ReverseConv, NULL},         {"ConvTranspose", ReverseConvTranspose, NULL},
    {"MaxPool", MaxPool, NULL},          {"AveragePool", AveragePool, NULL},
    {"RoiAlign", ReverseRoiAlign, NULL}, {NULL, NULL, NULL},
};
