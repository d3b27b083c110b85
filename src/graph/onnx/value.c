/* What is known of values of the graph besides their shapes: the samples' stride in the dimension
   that holds the batch, and the mask that leaves out rows. */
#include "onnx.h"

const char RengaOnnxSelectAdvice[] =
    "how much a mask selects depends on data, and so would the shapes behind it. What follows a "
    "selection may work on each row by itself, and sum, average or compare the rows with labels "
    "that the same mask selects; for anything else keep all rows, multiply by the mask, and divide "
    "by its sum";

const RengaTensorSpec *RengaOnnxSpec(const RengaOnnxNode *node, RengaValue value)
{
  return &RengaGraphGetValue(node->importer->graph, value)->spec;
}

int64_t RengaOnnxGetInner(const RengaOnnxImporter *importer, RengaValue value)
{
  return value < importer->n_inner ? importer->inner[value] : 0;
}

RengaErrorCode RengaOnnxSetInner(RengaOnnxImporter *importer, RengaValue value, int64_t inner)
{
  if (value >= importer->n_inner) {
    int count = 2 * value + 64;
    RengaCall(RengaRealloc(count, &importer->inner));
    RengaCall(RengaRealloc(count, &importer->numbers));
    RengaCall(RengaRealloc(count, &importer->mask));
    for (int i = importer->n_inner; i < count; i++) {
      importer->inner[i] = 0;
      importer->numbers[i] = NULL;
      importer->mask[i] = RENGA_VALUE_NONE;
    }
    importer->n_inner = count;
  }
  importer->inner[value] = inner;
  return RENGA_SUCCESS;
}

/* The dimension that holds the batch, -1 where there is none. */
int RengaOnnxBatchDimension(const RengaTensorSpec *spec)
{
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] < 0) return d;
  return -1;
}

RengaValue RengaOnnxMaskOf(const RengaOnnxImporter *importer, RengaValue value)
{
  return value >= 0 && value < importer->n_inner ? importer->mask[value] : RENGA_VALUE_NONE;
}

RengaErrorCode RengaOnnxRefuseRows(const RengaOnnxNode *node, RengaValue value)
{
  RengaOnnxCheck(RengaOnnxMaskOf(node->importer, value) == RENGA_VALUE_NONE, node,
                 RENGA_ERR_SUPPORT, "%s", RengaOnnxSelectAdvice);
  return RENGA_SUCCESS;
}

/* Operators whose rows of output 0 need only the same rows of their inputs, where the rows stay the
   first dimension. */
static bool MayFollow(const RengaOnnxNode *node, const char *op, RengaValue x, RengaValue y)
{
  static const char by_row[] =
      "Linear MatMul Softmax LogSoftmax LayerNormalization RMSNormalization Gather GatherElements "
      "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp "
      "Reshape Slice Concat Split OneHot ArgMax Expand Dropout";
  const RengaOperator *row = RengaOperatorFind(op);
  const RengaTensorSpec *from = RengaOnnxSpec(node, x), *to = RengaOnnxSpec(node, y);
  if (!row || from->ndim == 0 || to->ndim == 0 || from->dim[0] >= 0) return false;
  return from->dim[0] == to->dim[0] &&
         (row->flags & RENGA_OP_ELEMENTWISE || RengaOnnxHasWord(by_row, op));
}

/* What is made of rows is rows, or an error. */
RengaErrorCode RengaOnnxKeepMask(RengaOnnxNode *node, const char *op, int n_in,
                                 const RengaValue in[], RengaValue y)
{
  RengaOnnxImporter *importer = node->importer;
  RengaValue mask = RENGA_VALUE_NONE;
  bool fits = true;
  for (int i = 0; i < n_in; i++) {
    const RengaValue mine = RengaOnnxMaskOf(importer, in[i]);
    if (mine == RENGA_VALUE_NONE) continue;
    fits = fits && (mask == RENGA_VALUE_NONE || mask == mine) && MayFollow(node, op, in[i], y);
    mask = mine;
  }
  if (mask == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  for (int i = 0; i < n_in; i++)
    if (in[i] != RENGA_VALUE_NONE && RengaOnnxBatchDimension(RengaOnnxSpec(node, in[i])) >= 0)
      fits = fits && RengaOnnxMaskOf(importer, in[i]) == mask;
  RengaOnnxCheck(fits, node, RENGA_ERR_SUPPORT, "%s", RengaOnnxSelectAdvice);
  importer->mask[y] = mask;
  return RENGA_SUCCESS;
}
