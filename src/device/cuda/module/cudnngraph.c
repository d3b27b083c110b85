/* Operation graphs of cuDNN: convolutions and their gradients, attention and its gradient.

   The gradient of attention has the form in which the last product writes dq: with sums of dq in
   memory, which cuDNN takes as well, bits would differ from run to run. */
#include "cudnn.h"

typedef struct {
  int64_t dim[4], stride[4];
} CudnnShape;

enum { ALIGNED = 16, FIRST_VIRTUAL = 100 };

static int DataTypeOf_Cudnn(int64_t type)
{
  if (type == RENGA_CUDA_FLOAT32) return CUDNN_DATA_FLOAT;
  return type == RENGA_CUDA_BFLOAT16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

static void SetNumber_Cudnn(RengaCudnnGraph *g, void *descriptor, int name, int type, int value)
{
  RengaCudnnSet(g, descriptor, name, type, 1, &value);
}

static void SetPart_Cudnn(RengaCudnnGraph *g, void *descriptor, int name, void *part)
{
  RengaCudnnSet(g, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void SetFlag_Cudnn(RengaCudnnGraph *g, void *descriptor, int name)
{
  const unsigned char yes = 1; /* as a bool of C++ */
  RengaCudnnSet(g, descriptor, name, CUDNN_TYPE_BOOLEAN, 1, &yes);
}

/* flag: CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_ATTR_TENSOR_IS_BY_VALUE, or 0 */
static void *MakeTensor_Cudnn(RengaCudnnGraph *g, int64_t id, int type, const CudnnShape *shape,
                              int flag)
{
  const int64_t alignment = ALIGNED;
  void *t = RengaCudnnMake(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SetNumber_Cudnn(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  RengaCudnnSet(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dim);
  RengaCudnnSet(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
  RengaCudnnSet(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  RengaCudnnSet(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  if (flag) SetFlag_Cudnn(g, t, flag);
  RengaCudnnFinish(g, t);
  return t;
}

static void *Operand_Cudnn(RengaCudnnGraph *g, int place, int type, const CudnnShape *shape)
{
  return g->tensor[place] = MakeTensor_Cudnn(g, place + 1, type, shape, 0);
}

static void *Constant_Cudnn(RengaCudnnGraph *g, int place)
{
  const CudnnShape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  if (!g->tensor[place])
    g->tensor[place] =
        MakeTensor_Cudnn(g, place + 1, CUDNN_DATA_FLOAT, &one, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return g->tensor[place];
}

static void *Virtual_Cudnn(RengaCudnnGraph *g, int type, const CudnnShape *shape)
{
  return MakeTensor_Cudnn(g, FIRST_VIRTUAL + g->n_virtual++, type, shape,
                          CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

static void AddOperation_Cudnn(RengaCudnnGraph *g, void *operation)
{
  RengaCudnnFinish(g, operation);
  if (!g->failed && g->n_operations == RENGA_CUDNN_OPERATIONS)
    g->failed = RengaCudaSay("cuDNN", 1, "a graph of too many operations");
  if (!g->failed) g->operation[g->n_operations++] = operation;
}

/* Each of these gives y back. */
static void *Product_Cudnn(RengaCudnnGraph *g, void *a, void *b, void *y)
{
  void *product = RengaCudnnMake(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  SetNumber_Cudnn(g, product, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  RengaCudnnFinish(g, product);
  void *operation = RengaCudnnMake(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  AddOperation_Cudnn(g, operation);
  return y;
}

static void *MakePointwise_Cudnn(RengaCudnnGraph *g, int mode, int type, int64_t axis)
{
  void *each = RengaCudnnMake(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SetNumber_Cudnn(g, each, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  SetNumber_Cudnn(g, each, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  if (axis >= 0) RengaCudnnSet(g, each, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  RengaCudnnFinish(g, each);
  return each;
}

/* b, choice: may be NULL */
static void *Pointwise_Cudnn(RengaCudnnGraph *g, void *each, void *x, void *b, void *choice,
                             void *y)
{
  void *operation = RengaCudnnMake(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, each);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  if (choice) SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choice);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  AddOperation_Cudnn(g, operation);
  return y;
}

static void *Each_Cudnn(RengaCudnnGraph *g, int mode, void *x, void *b, void *y)
{
  return Pointwise_Cudnn(g, MakePointwise_Cudnn(g, mode, CUDNN_DATA_FLOAT, -1), x, b, NULL, y);
}

static void *Reduced_Cudnn(RengaCudnnGraph *g, int mode, void *x, void *y)
{
  void *reduction = RengaCudnnMake(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  SetNumber_Cudnn(g, reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
                  mode);
  SetNumber_Cudnn(g, reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                  CUDNN_DATA_FLOAT);
  RengaCudnnFinish(g, reduction);
  void *operation = RengaCudnnMake(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  AddOperation_Cudnn(g, operation);
  return y;
}

/* Other extents and strides of the same numbers. */
static void *Seen_Cudnn(RengaCudnnGraph *g, void *x, void *y)
{
  void *operation = RengaCudnnMake(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  SetPart_Cudnn(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  AddOperation_Cudnn(g, operation);
  return y;
}

/* [samples, heads, rows, columns], the last two turned in memory or not. */
static CudnnShape ShapeOfHeads_Cudnn(const RengaCudnnTask *s, int64_t rows, int64_t columns,
                                     int turned)
{
  const int64_t plane = rows * columns;
  return (CudnnShape){{s->samples, s->heads, rows, columns},
                      {s->heads * plane, plane, turned ? 1 : columns, turned ? rows : 1}};
}

/* Rows of all heads, or their transposes. */
static CudnnShape ShapeOfRows_Cudnn(const RengaCudnnTask *s, const RengaCudaHeads *at, int64_t rows,
                                    int64_t width, int turned)
{
  const int64_t heads = s->heads / at->share;
  if (turned)
    return (CudnnShape){{s->samples, heads, width, rows}, {at->sample, at->head, 1, at->row}};
  return (CudnnShape){{s->samples, heads, rows, width}, {at->sample, at->head, at->row, 1}};
}

static void *Rows_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, int place, int turned)
{
  static const int of[] = {[RENGA_CUDNN_Q] = RENGA_CUDNN_Q,  [RENGA_CUDNN_K] = RENGA_CUDNN_K,
                           [RENGA_CUDNN_V] = RENGA_CUDNN_V,  [RENGA_CUDNN_O] = RENGA_CUDNN_O,
                           [RENGA_CUDNN_DO] = RENGA_CUDNN_O, [RENGA_CUDNN_DQ] = RENGA_CUDNN_Q,
                           [RENGA_CUDNN_DK] = RENGA_CUDNN_K, [RENGA_CUDNN_DV] = RENGA_CUDNN_V};
  const int which = of[place];
  const int query = which == RENGA_CUDNN_Q || which == RENGA_CUDNN_O;
  const int value = which == RENGA_CUDNN_V || which == RENGA_CUDNN_O;
  const CudnnShape shape = ShapeOfRows_Cudnn(s, &s->rows[which], query ? s->queries : s->keys,
                                             value ? s->values : s->width, turned);
  return Operand_Cudnn(g, place, DataTypeOf_Cudnn(s->type), &shape);
}

static void *Scores_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, int type)
{
  const CudnnShape shape = ShapeOfHeads_Cudnn(s, s->queries, s->keys, 0);
  return Virtual_Cudnn(g, type, &shape);
}

static void *Queries_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s)
{
  const CudnnShape shape = ShapeOfHeads_Cudnn(s, s->queries, 1, 0);
  return Virtual_Cudnn(g, CUDNN_DATA_FLOAT, &shape);
}

static void *QueriesOf_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, int place)
{
  const CudnnShape shape = ShapeOfHeads_Cudnn(s, s->queries, 1, 0);
  return Operand_Cudnn(g, place, CUDNN_DATA_FLOAT, &shape);
}

static void *Masked_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, void *scores)
{
  CudnnShape shape = {{s->samples, s->heads, s->queries, s->keys}, {0}};
  int64_t size = 1;
  if (!s->masked) return scores;
  for (int d = 3; d >= 0; d--) {
    if (s->mask_stride[d] == 0) shape.dim[d] = 1;
    shape.stride[d] = size;
    size *= shape.dim[d];
  }
  void *mask = Operand_Cudnn(g, RENGA_CUDNN_MASK, CUDNN_DATA_FLOAT, &shape);
  return Each_Cudnn(g, CUDNN_POINTWISE_ADD, scores, mask, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
}

/* Of keys behind their query the least number. */
static void *Causal_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, void *scores)
{
  if (!s->causal) return scores;
  void *row = Scores_Cudnn(g, s, CUDNN_DATA_INT32), *column = Scores_Cudnn(g, s, CUDNN_DATA_INT32);
  void *seen = Scores_Cudnn(g, s, CUDNN_DATA_BOOLEAN);
  Pointwise_Cudnn(g, MakePointwise_Cudnn(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2), scores,
                  NULL, NULL, row);
  Pointwise_Cudnn(g, MakePointwise_Cudnn(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 3), scores,
                  NULL, NULL, column);
  Pointwise_Cudnn(g, MakePointwise_Cudnn(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1), row,
                  column, NULL, seen);
  return Pointwise_Cudnn(
      g, MakePointwise_Cudnn(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1), scores,
      Constant_Cudnn(g, RENGA_CUDNN_LEAST), seen, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
}

static void *ScaledProduct_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, void *q, void *k)
{
  void *dot = Product_Cudnn(g, q, k, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  return Each_Cudnn(g, CUDNN_POINTWISE_MUL, dot, Constant_Cudnn(g, RENGA_CUDNN_SCALE),
                    Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
}

/* o = softmax(scale q k' + mask) v, and the log-sum-exp of each query */
static void DescribeAttention(RengaCudnnGraph *g, const RengaCudnnTask *s)
{
  void *q = Rows_Cudnn(g, s, RENGA_CUDNN_Q, 0), *k = Rows_Cudnn(g, s, RENGA_CUDNN_K, 1);
  void *v = Rows_Cudnn(g, s, RENGA_CUDNN_V, 0);
  void *x = Causal_Cudnn(g, s, Masked_Cudnn(g, s, ScaledProduct_Cudnn(g, s, q, k)));
  void *most = Reduced_Cudnn(g, CUDNN_REDUCE_TENSOR_MAX, x, Queries_Cudnn(g, s));
  x = Each_Cudnn(g, CUDNN_POINTWISE_SUB, x, most, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  x = Each_Cudnn(g, CUDNN_POINTWISE_EXP, x, NULL, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  void *sum = Reduced_Cudnn(g, CUDNN_REDUCE_TENSOR_ADD, x, Queries_Cudnn(g, s));
  void *logarithm = Each_Cudnn(g, CUDNN_POINTWISE_LOG, sum, NULL, Queries_Cudnn(g, s));
  Each_Cudnn(g, CUDNN_POINTWISE_ADD, most, logarithm, QueriesOf_Cudnn(g, s, RENGA_CUDNN_WHOLE));
  x = Each_Cudnn(g, CUDNN_POINTWISE_DIV, x, sum, Scores_Cudnn(g, s, DataTypeOf_Cudnn(s->type)));
  Product_Cudnn(g, x, v, Rows_Cudnn(g, s, RENGA_CUDNN_O, 0));
}

/* p' or ds', which dv or dk is the product of with queries' rows; heads that share keys are added
   up. */
static void KeysGradient_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s, void *p, void *rows,
                               int place, int64_t width)
{
  const int type = DataTypeOf_Cudnn(s->type);
  const CudnnShape turned = ShapeOfHeads_Cudnn(s, s->keys, s->queries, 1);
  const CudnnShape whole = ShapeOfHeads_Cudnn(s, s->keys, width, 0);
  void *t = Seen_Cudnn(g, p, Virtual_Cudnn(g, type, &turned)), *out = Rows_Cudnn(g, s, place, 0);
  if (s->rows[RENGA_CUDNN_K].share == 1)
    Product_Cudnn(g, t, rows, out);
  else
    Reduced_Cudnn(g, CUDNN_REDUCE_TENSOR_ADD,
                  Product_Cudnn(g, t, rows, Virtual_Cudnn(g, CUDNN_DATA_FLOAT, &whole)), out);
}

/* With p = exp(scores - log-sum-exp) and delta = sum of do o: dv = p' do, ds = p (do v' - delta)
   scale, dk = ds' q, dq = ds k */
static void DescribeAttentionGrad(RengaCudnnGraph *g, const RengaCudnnTask *s)
{
  void *q = Rows_Cudnn(g, s, RENGA_CUDNN_Q, 0), *k = Rows_Cudnn(g, s, RENGA_CUDNN_K, 1);
  void *v = Rows_Cudnn(g, s, RENGA_CUDNN_V, 1), *o = Rows_Cudnn(g, s, RENGA_CUDNN_O, 0);
  void *dy = Rows_Cudnn(g, s, RENGA_CUDNN_DO, 0), *whole = QueriesOf_Cudnn(g, s, RENGA_CUDNN_WHOLE);
  const CudnnShape rows = ShapeOfRows_Cudnn(s, &s->rows[RENGA_CUDNN_O], s->queries, s->values, 0);
  void *x = Each_Cudnn(g, CUDNN_POINTWISE_MUL, dy, o, Virtual_Cudnn(g, CUDNN_DATA_FLOAT, &rows));
  x = Reduced_Cudnn(g, CUDNN_REDUCE_TENSOR_ADD, x, Queries_Cudnn(g, s));
  void *delta = Each_Cudnn(g, CUDNN_POINTWISE_MUL, x, Constant_Cudnn(g, RENGA_CUDNN_ONE),
                           QueriesOf_Cudnn(g, s, RENGA_CUDNN_DELTA));
  x = Causal_Cudnn(g, s, Masked_Cudnn(g, s, ScaledProduct_Cudnn(g, s, q, k)));
  x = Each_Cudnn(g, CUDNN_POINTWISE_SUB, x, whole, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  void *p = Each_Cudnn(g, CUDNN_POINTWISE_EXP, x, NULL, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  KeysGradient_Cudnn(g, s, p, dy, RENGA_CUDNN_DV, s->values);
  x = Product_Cudnn(g, dy, v, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  x = Each_Cudnn(g, CUDNN_POINTWISE_SUB, x, delta, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  x = Each_Cudnn(g, CUDNN_POINTWISE_MUL, x, p, Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  void *ds = Each_Cudnn(g, CUDNN_POINTWISE_MUL, x, Constant_Cudnn(g, RENGA_CUDNN_SCALE),
                        Scores_Cudnn(g, s, CUDNN_DATA_FLOAT));
  KeysGradient_Cudnn(g, s, ds, q, RENGA_CUDNN_DK, s->width);
  const CudnnShape keys = ShapeOfRows_Cudnn(s, &s->rows[RENGA_CUDNN_K], s->keys, s->width, 0);
  k = Seen_Cudnn(g, k, Virtual_Cudnn(g, DataTypeOf_Cudnn(s->type), &keys));
  Product_Cudnn(g, ds, k, Rows_Cudnn(g, s, RENGA_CUDNN_DQ, 0));
}

/* [a, b, c, d] without gaps */
static CudnnShape PlainShape_Cudnn(int64_t a, int64_t b, int64_t c, int64_t d)
{
  return (CudnnShape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/* The same, stored as [a, c, d, b] */
static CudnnShape ImageShape_Cudnn(const RengaCudnnTask *s, int64_t a, int64_t b,
                                   const int64_t area[2])
{
  const int64_t c = area[0], d = area[1];
  if (s->last) return (CudnnShape){{a, b, c, d}, {b * c * d, 1, b * d, b}};
  return PlainShape_Cudnn(a, b, c, d);
}

static void *MakeConvolution_Cudnn(RengaCudnnGraph *g, const RengaCudnnTask *s)
{
  const int64_t dimensions = 2;
  void *c = RengaCudnnMake(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  SetNumber_Cudnn(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  SetNumber_Cudnn(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  CUDNN_CROSS_CORRELATION);
  RengaCudnnSet(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
  RengaCudnnSet(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, s->before);
  RengaCudnnSet(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, s->after);
  RengaCudnnSet(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, s->stride);
  RengaCudnnSet(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, s->dilation);
  RengaCudnnFinish(g, c);
  return c;
}

/* Attributes of the three directions, in one order. */
typedef struct {
  int kind, x, w, y, convolution, alpha, beta;
} CudnnDirection;
static const CudnnDirection directions[] = {
    [RENGA_CUDNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [RENGA_CUDNN_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [RENGA_CUDNN_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

static void DescribeConvolution(RengaCudnnGraph *g, const RengaCudnnTask *s)
{
  const CudnnDirection *to = &directions[s->kind];
  const int type = DataTypeOf_Cudnn(s->type);
  const CudnnShape x = ImageShape_Cudnn(s, s->images, s->channels, s->in);
  const CudnnShape y = ImageShape_Cudnn(s, s->images, s->out_channels, s->out);
  const CudnnShape w = ImageShape_Cudnn(s, s->out_channels, s->channels / s->groups, s->kernel);
  const float one = 1, zero = 0;
  void *convolution = MakeConvolution_Cudnn(g, s);
  void *a = Operand_Cudnn(g, RENGA_CUDNN_X, type, &x);
  void *b = Operand_Cudnn(g, RENGA_CUDNN_W, type, &w);
  void *c = Operand_Cudnn(g, RENGA_CUDNN_Y, type, &y);
  void *operation = RengaCudnnMake(g, to->kind);
  SetPart_Cudnn(g, operation, to->x, a);
  SetPart_Cudnn(g, operation, to->w, b);
  SetPart_Cudnn(g, operation, to->y, c);
  SetPart_Cudnn(g, operation, to->convolution, convolution);
  RengaCudnnSet(g, operation, to->alpha, CUDNN_TYPE_FLOAT, 1, &one);
  RengaCudnnSet(g, operation, to->beta, CUDNN_TYPE_FLOAT, 1, &zero);
  AddOperation_Cudnn(g, operation);
}

void RengaCudnnDescribe(RengaCudnnGraph *graph, const RengaCudnnTask *task)
{
  if (task->kind == RENGA_CUDNN_ATTENTION)
    DescribeAttention(graph, task);
  else if (task->kind == RENGA_CUDNN_ATTENTION_GRAD)
    DescribeAttentionGrad(graph, task);
  else
    DescribeConvolution(graph, task);
}
