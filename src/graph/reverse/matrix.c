/* Matrix products. */
#include "../reverse.h"

static RengaErrorCode AddProduct(RengaReverse *reverse, RengaValue a, bool flip_a, RengaValue b,
                                 bool flip_b, RengaValue *y)
{
  RengaAttributes attributes = {0};
  double alpha = RengaAttributesReal(&reverse->node->attributes, "alpha", 1);
  RengaCall(RengaAttributesSetInt(&attributes, "transA", flip_a));
  RengaCall(RengaAttributesSetInt(&attributes, "transB", flip_b));
  RengaCall(RengaAttributesSetReal(&attributes, "alpha", alpha));
  RengaCall(
      RengaReverseApply(reverse, "MatMul", &attributes, 2, (const RengaValue[]){a, b}, NULL, y));
  return RENGA_SUCCESS;
}

/* A vector on the left is a row, on the right a column; dy gets the dimensions that these lost. */
static RengaErrorCode AsFlatMatrices(RengaReverse *reverse, RengaValue matrix[3])
{
  const RengaGraphNode *node = reverse->node;
  RengaTensorSpec a = *RengaReverseSpec(reverse, node->in[0]);
  RengaTensorSpec b = *RengaReverseSpec(reverse, node->in[1]);
  RengaTensorSpec dy = *RengaReverseSpec(reverse, reverse->dy[0]);
  if (b.ndim == 1) {
    b.dim[b.ndim++] = 1;
    dy.dim[dy.ndim++] = 1;
  }
  if (a.ndim == 1) {
    a.dim[1] = a.dim[0];
    a.dim[0] = 1;
    a.ndim = 2;
    dy.dim[dy.ndim] = dy.ndim > 0 ? dy.dim[dy.ndim - 1] : 1;
    dy.dim[dy.ndim > 0 ? dy.ndim - 1 : 0] = 1;
    dy.ndim++;
  }
  RengaCall(RengaReverseReshape(reverse, node->in[0], &a, &matrix[0]));
  RengaCall(RengaReverseReshape(reverse, node->in[1], &b, &matrix[1]));
  RengaCall(RengaReverseReshape(reverse, reverse->dy[0], &dy, &matrix[2]));
  return RENGA_SUCCESS;
}

/* g is the gradient of the matrix that stands for an input */
static RengaErrorCode GiveMatrix(RengaReverse *reverse, int input, RengaValue matrix, RengaValue g)
{
  RengaValue sum;
  RengaCall(RengaReverseReduceTo(reverse, g, matrix, &sum));
  const RengaTensorSpec *shape = RengaReverseSpec(reverse, reverse->node->in[input]);
  RengaCall(RengaReverseReshape(reverse, sum, shape, &reverse->dx[input]));
  return RENGA_SUCCESS;
}

/* y = a b: da = dy b', db = a' dy; transposed where the factor was */
static RengaErrorCode ReverseMatMul(RengaReverse *reverse)
{
  const RengaAttributes *attributes = &reverse->node->attributes;
  bool flip_a = RengaAttributesInt(attributes, "transA", 0) != 0;
  bool flip_b = RengaAttributesInt(attributes, "transB", 0) != 0;
  RengaValue m[3], g;
  RengaCall(AsFlatMatrices(reverse, m));
  if (reverse->wanted[1]) {
    if (flip_b)
      RengaCall(AddProduct(reverse, m[2], true, m[0], flip_a, &g));
    else
      RengaCall(AddProduct(reverse, m[0], !flip_a, m[2], false, &g));
    RengaCall(GiveMatrix(reverse, 1, m[1], g));
  }
  if (reverse->wanted[0]) {
    if (flip_a)
      RengaCall(AddProduct(reverse, m[1], flip_b, m[2], true, &g));
    else
      RengaCall(AddProduct(reverse, m[2], false, m[1], !flip_b, &g));
    RengaCall(GiveMatrix(reverse, 0, m[0], g));
  }
  return RENGA_SUCCESS;
}

/* The weight first, so that x may be forgotten before dx is made. */
static RengaErrorCode ReverseLinear(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue x = node->in[0], w = node->in[1], dy = reverse->dy[0];
  if (reverse->wanted[1])
    RengaCall(RengaReverseApplyLike(reverse, "LinearGradWeight", 2, (const RengaValue[]){x, dy},
                                    NULL, 1, &reverse->dx[1]));
  if (RengaReverseWants(reverse, 2)) {
    int64_t axes[RENGA_MAX_DIM];
    int leading = RengaReverseSpec(reverse, dy)->ndim - 1;
    for (int d = 0; d < leading; d++) axes[d] = d;
    RengaCall(RengaReverseSum(reverse, dy, leading, axes, false, &reverse->dx[2]));
  }
  if (reverse->wanted[0])
    RengaCall(RengaReverseApplyLike(reverse, "LinearGradInput", 2, (const RengaValue[]){dy, w},
                                    NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseDeterminant(RengaReverse *reverse)
{
  const RengaValue in[2] = {reverse->dy[0], reverse->node->in[0]};
  RengaCall(RengaReverseApplyLike(reverse, "DetGrad", 2, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseMatrix[] = {
    {"MatMul", ReverseMatMul, NULL},
    {"Linear", ReverseLinear, NULL},
    {"Det", ReverseDeterminant, NULL},
    {NULL, NULL, NULL},
};
