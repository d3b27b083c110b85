/* Random numbers: those of dropout, so that a sample meets the same ones on any layout. */
#include "onnx.h"
#include <math.h>
#include <string.h>

/* In [0, 1) */
static RengaErrorCode DrawUniform(RengaOnnxNode *node, const RengaTensorSpec *spec, RengaValue *u)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaAttributesSetInt(to, "to", (int64_t)spec->type));
  RengaCall(RengaOnnxEmit(node, "RandomUniform", 0, NULL, 1, spec, u));
  return RENGA_SUCCESS;
}

/* sqrt(-2 log u) cos(2 pi v): Box and Muller, A note on the generation of random normal deviates,
   1958. u is in (0, 1]. */
static RengaErrorCode DrawNormal(RengaOnnxNode *node, const RengaTensorSpec *spec, RengaValue *y)
{
  RengaValue u, v;
  RengaCall(DrawUniform(node, spec, &u));
  RengaCall(DrawUniform(node, spec, &v));
  RengaCall(RengaOnnxApply(node, "Neg", u, RENGA_VALUE_NONE, &u));
  RengaCall(RengaOnnxApplyReal(node, "Add", u, 1, &u));
  RengaCall(RengaOnnxApply(node, "Log", u, RENGA_VALUE_NONE, &u));
  RengaCall(RengaOnnxApplyReal(node, "Mul", u, -2, &u));
  RengaCall(RengaOnnxApply(node, "Sqrt", u, RENGA_VALUE_NONE, &u));
  RengaCall(RengaOnnxApplyReal(node, "Mul", v, 2 * acos(-1.0), &v));
  RengaCall(RengaOnnxApply(node, "Cos", v, RENGA_VALUE_NONE, &v));
  RengaCall(RengaOnnxApply(node, "Mul", u, v, y));
  return RENGA_SUCCESS;
}

/* y * factor + offset */
static RengaErrorCode ScaleAndShift(RengaOnnxNode *node, double factor, double offset,
                                    RengaValue *y)
{
  if (factor != 1) RengaCall(RengaOnnxApplyReal(node, "Mul", *y, factor, y));
  if (offset != 0) RengaCall(RengaOnnxApplyReal(node, "Add", *y, offset, y));
  return RENGA_SUCCESS;
}

/* The shape of input 0, or of attribute shape, where a first dimension of the file's batch is the
   batch. */
static RengaErrorCode DrawnSpec(RengaOnnxNode *node, RengaTensorSpec *spec)
{
  const RengaOnnxImporter *importer = node->importer;
  int64_t dim[2 * RENGA_MAX_DIM];
  RengaValue x;
  int type = RengaOnnxTypeFromFile(RengaOnnxInt(node, "dtype", 1));
  if (RengaOnnxHasInput(node, 0)) {
    RengaCall(RengaOnnxInputValue(node, 0, &x));
    *spec = *RengaOnnxSpec(node, x);
    if (!RengaOnnxAttribute(node, "dtype")) type = (int)spec->type;
  } else {
    *spec = (RengaTensorSpec){.ndim = 0};
    RengaCall(RengaOnnxInts(node, "shape", &spec->ndim, dim));
    RengaOnnxCheck(spec->ndim >= 0 && spec->ndim <= RENGA_MAX_DIM, node, RENGA_ERR_FILE_FORMAT,
                   "a shape of %d dimensions", spec->ndim);
    for (int d = 0; d < spec->ndim; d++) spec->dim[d] = dim[d];
    if (spec->ndim > 0 && importer->open && dim[0] == importer->file_batch && dim[0] > 0)
      spec->dim[0] = -1;
  }
  RengaOnnxCheck(type >= 0 && RengaDataTypeIsFloating((RengaDataType)type), node, RENGA_ERR_SUPPORT,
                 "random numbers of this type");
  spec->type = (RengaDataType)type;
  return RENGA_SUCCESS;
}

/* RandomUniform and RandomNormal, of a shape or like another tensor. */
RengaErrorCode RengaOnnxConvertRandom(RengaOnnxNode *node)
{
  RengaTensorSpec spec;
  RengaValue y;
  double first = RengaOnnxReal(node, "low", 0), last = RengaOnnxReal(node, "high", 1);
  double mean = RengaOnnxReal(node, "mean", 0), scale = RengaOnnxReal(node, "scale", 1);
  RengaCall(DrawnSpec(node, &spec));
  const RengaDataType wanted = spec.type;
  spec.type = RENGA_FLOAT32;
  if (strncmp(node->proto->op_type, "RandomUniform", strlen("RandomUniform")) == 0) {
    RengaCall(DrawUniform(node, &spec, &y));
    RengaCall(ScaleAndShift(node, last - first, first, &y));
  } else {
    RengaCall(DrawNormal(node, &spec, &y));
    RengaCall(ScaleAndShift(node, scale, mean, &y));
  }
  RengaCall(RengaOnnxCast(node, y, wanted, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* 1 with the probability that input 0 says. */
RengaErrorCode RengaOnnxConvertBernoulli(RengaOnnxNode *node)
{
  RengaValue p, u, y;
  RengaCall(RengaOnnxInputValue(node, 0, &p));
  RengaOnnxCheck(p != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaTensorSpec spec = *RengaOnnxSpec(node, p);
  int type = RengaOnnxAttribute(node, "dtype")
                 ? RengaOnnxTypeFromFile(RengaOnnxInt(node, "dtype", 1))
                 : (int)spec.type;
  RengaOnnxCheck(type >= 0, node, RENGA_ERR_SUPPORT, "its type is not supported");
  RengaCall(DrawUniform(node, &spec, &u));
  RengaCall(RengaOnnxApply(node, "Less", u, p, &y));
  RengaCall(RengaOnnxCast(node, y, (RengaDataType)type, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
