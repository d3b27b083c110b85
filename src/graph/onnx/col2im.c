/* What puts elements back in their places: Col2Im, MaxUnpool. */
#include "onnx.h"

/* ---- Col2Im: the sum of overlapping patches is a transposed convolution whose kernel t has its
   only one at tap t ---- */
enum { SPACE_MAX = 3 };
typedef struct {
  int space;
  int64_t image[SPACE_MAX], block[SPACE_MAX], stride[SPACE_MAX], dilation[SPACE_MAX];
  int64_t pad[2 * SPACE_MAX], more[SPACE_MAX], places[SPACE_MAX], taps;
} Patches;

static RengaErrorCode ReadOr(const RengaOnnxNode *node, const char *name, int count,
                             int64_t otherwise, int64_t value[])
{
  int64_t given[2 * RENGA_MAX_DIM];
  int n;
  RengaCall(RengaOnnxInts(node, name, &n, given));
  RengaOnnxCheck(n < 0 || n == count, node, RENGA_ERR_FILE_FORMAT, "%s has %d numbers", name, n);
  for (int i = 0; i < count; i++) value[i] = n < 0 ? otherwise : given[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPatches(RengaOnnxNode *node, Patches *p)
{
  int64_t image[2 * RENGA_MAX_DIM], block[2 * RENGA_MAX_DIM];
  int n_block;
  RengaCall(RengaOnnxInputInts(node, 1, &p->space, image));
  RengaCall(RengaOnnxInputInts(node, 2, &n_block, block));
  RengaOnnxCheck(p->space >= 1 && p->space <= SPACE_MAX && n_block == p->space, node,
                 RENGA_ERR_SUPPORT, "an image of %d dimensions", p->space);
  RengaCall(ReadOr(node, "strides", p->space, 1, p->stride));
  RengaCall(ReadOr(node, "dilations", p->space, 1, p->dilation));
  RengaCall(ReadOr(node, "pads", 2 * p->space, 0, p->pad));
  p->taps = 1;
  for (int d = 0; d < p->space; d++) {
    p->image[d] = image[d];
    p->block[d] = block[d];
    p->taps *= block[d];
    const int64_t room =
        image[d] + p->pad[d] + p->pad[p->space + d] - (block[d] - 1) * p->dilation[d] - 1;
    RengaOnnxCheck(block[d] > 0 && p->stride[d] > 0 && room >= 0, node, RENGA_ERR_SHAPE,
                   "blocks of %lld in %lld elements", (long long)block[d], (long long)image[d]);
    p->places[d] = room / p->stride[d] + 1;
    p->more[d] = room % p->stride[d];
  }
  return RENGA_SUCCESS;
}

/* [taps, 1, block…] */
static RengaErrorCode OneTapEach(RengaOnnxNode *node, const Patches *p, RengaValue *kernel)
{
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = p->space + 2, .dim = {p->taps, 1}};
  int64_t count;
  float *number;
  for (int d = 0; d < p->space; d++) spec.dim[d + 2] = p->block[d];
  RengaOnnxCheck(RengaOnnxCount(spec.ndim, spec.dim, &count), node, RENGA_ERR_SUPPORT,
                 "blocks of %lld elements", (long long)p->taps);
  RengaCall(RengaOnnxAllocate(node->importer, count, sizeof *number, &number));
  for (int64_t t = 0; t < p->taps; t++) number[t * p->taps + t] = 1;
  RengaCall(RengaOnnxConstant(node, &spec, number, kernel));
  return RENGA_SUCCESS;
}

/* [N, C * taps, places] to [N, C, image…], each channel as a sample of its own meanwhile */
RengaErrorCode RengaOnnxConvertCol2Im(RengaOnnxNode *node)
{
  Patches p;
  RengaAttributes *to = &node->importer->attributes;
  RengaValue in[2], y;
  RengaCall(RengaOnnxInputValue(node, 0, &in[0]));
  RengaCall(ReadPatches(node, &p));
  RengaOnnxCheck(in[0] != RENGA_VALUE_NONE && RengaOnnxSpec(node, in[0])->ndim == 3, node,
                 RENGA_ERR_SHAPE, "an input [N, channels, places] is needed");
  const RengaTensorSpec x = *RengaOnnxSpec(node, in[0]);
  const int64_t channels = x.dim[1] / p.taps;
  RengaOnnxCheck(x.dim[1] > 0 && x.dim[1] % p.taps == 0 && x.type == RENGA_FLOAT32, node,
                 RENGA_ERR_SHAPE, "%lld channels of %s for blocks of %lld elements",
                 (long long)x.dim[1], RengaDataTypeName(x.type), (long long)p.taps);
  RengaTensorSpec all = {.ndim = p.space + 2, .dim = {x.dim[0] * channels, p.taps}};
  RengaTensorSpec shape = {.ndim = p.space + 2, .dim = {x.dim[0], channels}};
  for (int d = 0; d < p.space; d++) {
    all.dim[d + 2] = p.places[d];
    shape.dim[d + 2] = p.image[d];
  }
  RengaCall(RengaOnnxReshape(node, in[0], &all, &in[0]));
  RengaCall(OneTapEach(node, &p, &in[1]));
  RengaCall(RengaAttributesSetInts(to, "kernel_shape", p.space, p.block));
  RengaCall(RengaAttributesSetInts(to, "strides", p.space, p.stride));
  RengaCall(RengaAttributesSetInts(to, "dilations", p.space, p.dilation));
  RengaCall(RengaAttributesSetInts(to, "pads", 2 * p.space, p.pad));
  RengaCall(RengaAttributesSetInts(to, "output_padding", p.space, p.more));
  RengaCall(RengaOnnxEmit(node, "ConvTranspose", 2, in, 1, NULL, &y));
  RengaCall(RengaOnnxReshape(node, y, &shape, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* ---- MaxUnpool ---- */
/* [N, C, size…]: as large as the pooling's input was, for which indices are, and zeros behind where
   input 2 wants more. */
static RengaErrorCode UnpooledShape(RengaOnnxNode *node, const RengaTensorSpec *x,
                                    RengaTensorSpec *y, int64_t pads[])
{
  int64_t kernel[RENGA_MAX_DIM], stride[RENGA_MAX_DIM], pad[2 * RENGA_MAX_DIM];
  const RengaOnnxHost *target = NULL;
  const int space = x->ndim - 2;
  RengaOnnxCheck(space >= 1, node, RENGA_ERR_SHAPE, "an input [N, C, ...] is needed");
  RengaCall(ReadOr(node, "kernel_shape", space, 1, kernel));
  RengaCall(ReadOr(node, "strides", space, 1, stride));
  RengaCall(ReadOr(node, "pads", 2 * space, 0, pad));
  if (RengaOnnxHasInput(node, 2)) RengaCall(RengaOnnxInputShape(node, 2, &target));
  RengaOnnxCheck(!target || target->count == x->ndim, node, RENGA_ERR_FILE_FORMAT,
                 "an output shape of another number of dimensions");
  *y = *x;
  for (int d = 0; d < 2 * x->ndim; d++) pads[d] = 0;
  for (int d = 0; d < space; d++) {
    const int64_t size = (x->dim[d + 2] - 1) * stride[d] + kernel[d] - pad[d] - pad[space + d];
    y->dim[d + 2] = size;
    if (target) pads[x->ndim + d + 2] = target->number[d + 2].whole - size;
    RengaOnnxCheck(size > 0, node, RENGA_ERR_SHAPE, "dimension %d would have %lld elements", d + 2,
                   (long long)size);
  }
  return RENGA_SUCCESS;
}

/* Indices are places in the whole tensor: within a plane they are the rest. */
RengaErrorCode RengaOnnxConvertMaxUnpool(RengaOnnxNode *node)
{
  RengaValue in[3], index, y;
  RengaTensorSpec shape;
  RengaAttributes *to = &node->importer->attributes;
  int64_t pads[2 * RENGA_MAX_DIM];
  RengaCall(RengaOnnxInputValue(node, 0, &in[2]));
  RengaCall(RengaOnnxInputValue(node, 1, &index));
  RengaOnnxCheck(in[2] != RENGA_VALUE_NONE && index != RENGA_VALUE_NONE, node,
                 RENGA_ERR_FILE_FORMAT, "it needs two inputs");
  const RengaTensorSpec x = *RengaOnnxSpec(node, in[2]);
  RengaCall(UnpooledShape(node, &x, &shape, pads));
  RengaTensorSpec from = {.type = x.type, .ndim = 3, .dim = {x.dim[0], x.dim[1], 1}}, flat = from;
  for (int d = 2; d < x.ndim; d++) {
    from.dim[2] *= x.dim[d];
    flat.dim[2] *= shape.dim[d];
  }
  RengaCall(RengaOnnxReshape(node, in[2], &from, &in[2]));
  RengaCall(RengaOnnxReshape(node, index, &from, &index));
  RengaCall(RengaOnnxApplyReal(node, "Mod", index, (double)flat.dim[2], &in[1]));
  RengaCall(RengaAttributesSetInt(to, "to", (int64_t)x.type));
  RengaCall(RengaOnnxEmit(node, "ConstantOfShape", 0, NULL, 1, &flat, &in[0]));
  RengaCall(RengaAttributesSetInt(to, "axis", 2));
  RengaCall(RengaOnnxEmit(node, "ScatterElements", 3, in, 1, NULL, &y));
  RengaCall(RengaOnnxReshape(node, y, &shape, &y));
  if (RengaOnnxHasInput(node, 2)) {
    RengaCall(RengaAttributesSetInts(to, "pads", 2 * x.ndim, pads));
    RengaCall(RengaOnnxApply(node, "Pad", y, RENGA_VALUE_NONE, &y));
  }
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
