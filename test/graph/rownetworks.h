/* Networks of images whose rows are in lanes, built node by node. */
#pragma once
#include "../plan/plantest.h"

enum { CLASSES = 11 };

static RengaErrorCode AddSquarePool(RengaGraph graph, const char *op, int64_t kernel,
                                    int64_t stride, int64_t pad, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "kernel_shape", 2, (int64_t[]){kernel, kernel}));
  RengaCall(RengaAttributesSetInts(&attributes, "strides", 2, (int64_t[]){stride, stride}));
  RengaCall(RengaAttributesSetInts(&attributes, "pads", 4, (int64_t[]){pad, pad, pad, pad}));
  RengaCall(RengaGraphAddNode(graph, op, NULL, &attributes, 1, (RengaValue[]){*x}, 1, NULL, x));
  RengaAttributesFree(&attributes);
  return RENGA_SUCCESS;
}

/* A convolution and ReLU, maybe with the statistics of the batch between them. */
static RengaErrorCode AddConvolved(RengaGraph graph, const char *name, int64_t channels,
                                   int64_t kernel, int64_t stride, bool norm, RengaValue *x)
{
  char text[32];
  RengaCall(
      RengaGraphAddConvolution(graph, name, *x, channels, kernel, stride, kernel / 2, !norm, x));
  snprintf(text, sizeof text, "%s.norm", name);
  if (norm) RengaCall(RengaGraphAddBatchNormalization(graph, text, *x, 1e-5, 0.9, x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", *x, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddImageInputs(RengaGraph graph, int64_t height, int64_t width, bool pixels,
                                     RengaValue *x, RengaValue *labels)
{
  const RengaTensorSpec images = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, 2, height, width}};
  const RengaTensorSpec classes = {
      .type = RENGA_INT64, .ndim = pixels ? 3 : 1, .dim = {-1, height, width}};
  RengaCall(RengaGraphAddInput(graph, "x", &images, x));
  RengaCall(RengaGraphAddInput(graph, "labels", &classes, labels));
  return RENGA_SUCCESS;
}

/* 11 rows, 6 behind the pool, 3 behind a residual block; a kernel of 5 rows reaches beyond the
   lane above and below where there are 4 lanes. */
static RengaErrorCode AddClassified(RengaGraph graph, bool norm)
{
  RengaAttributes attributes = {0};
  RengaValue x, y, labels;
  RengaCall(AddImageInputs(graph, 11, 5, false, &x, &labels));
  RengaCall(AddConvolved(graph, "c1", 3, 3, 1, norm, &x));
  RengaCall(AddSquarePool(graph, "MaxPool", 3, 2, 1, &x));
  RengaCall(AddConvolved(graph, "c2", 4, 5, 1, norm, &x));
  y = x;
  RengaCall(AddConvolved(graph, "c3", 4, 3, 2, norm, &y));
  RengaCall(RengaGraphAddConvolution(graph, "c4", y, 4, 3, 1, 1, true, &y));
  RengaCall(RengaGraphAddConvolution(graph, "short", x, 4, 1, 2, 0, true, &x));
  RengaCall(RengaGraphAddAdd(graph, x, y, &x));
  RengaCall(AddSquarePool(graph, "AveragePool", 2, 1, 1, &x));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 2, (int64_t[]){2, 3}));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(
      RengaGraphAddNode(graph, "ReduceMean", NULL, &attributes, 1, (RengaValue[]){x}, 1, NULL, &x));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddLinear(graph, "fc", x, CLASSES, true, 0.1, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &x));
  RengaCall(RengaGraphSetLoss(graph, x));
  return RENGA_SUCCESS;
}

/* x [N,C,H,W] -> [N,channels,2H+1,2W] */
static RengaErrorCode AddUpsampled(RengaGraph graph, const char *name, int64_t channels,
                                   RengaValue *x)
{
  const RengaInit drawn = {.kind = RENGA_INIT_NORMAL, .b = 0.3};
  RengaTensorSpec weight = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {0, channels, 2, 2}};
  RengaAttributes attributes = {0};
  RengaValue in[2] = {*x};
  weight.dim[0] = RengaGraphGetValue(graph, *x)->spec.dim[1];
  RengaCall(RengaGraphAddParameter(graph, name, &weight, &drawn, &in[1]));
  RengaCall(RengaAttributesSetInts(&attributes, "strides", 2, (int64_t[]){2, 2}));
  RengaCall(RengaAttributesSetInts(&attributes, "output_padding", 2, (int64_t[]){1, 0}));
  RengaCall(RengaGraphAddNode(graph, "ConvTranspose", NULL, &attributes, 2, in, 1, NULL, x));
  RengaAttributesFree(&attributes);
  return RENGA_SUCCESS;
}

/* A U-Net of two levels: each pixel of 9 rows has a class. */
static RengaErrorCode AddUNet(RengaGraph graph, bool norm)
{
  RengaAttributes attributes = {0};
  RengaValue x, skip, labels;
  RengaCall(AddImageInputs(graph, 9, 4, true, &x, &labels));
  RengaCall(AddConvolved(graph, "down", 3, 3, 1, norm, &x));
  skip = x;
  RengaCall(AddSquarePool(graph, "MaxPool", 2, 2, 0, &x));
  RengaCall(AddConvolved(graph, "middle", 5, 3, 1, norm, &x));
  RengaCall(AddUpsampled(graph, "up", 3, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(RengaGraphAddNode(graph, "Concat", NULL, &attributes, 2, (RengaValue[]){skip, x}, 1,
                              NULL, &x));
  RengaAttributesFree(&attributes);
  RengaCall(AddConvolved(graph, "last", 4, 3, 1, norm, &x));
  RengaCall(RengaGraphAddConvolution(graph, "scores", x, CLASSES, 1, 1, 0, true, &x));
  RengaCall(RengaAttributesSetInts(&attributes, "perm", 4, (int64_t[]){0, 2, 3, 1}));
  RengaCall(
      RengaGraphAddNode(graph, "Transpose", NULL, &attributes, 1, (RengaValue[]){x}, 1, NULL, &x));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &x));
  RengaCall(RengaGraphSetLoss(graph, x));
  return RENGA_SUCCESS;
}
