/* Networks that only lanes are tried with, built node by node. */
#pragma once
#include "../plan/plantest.h"

static const RengaTensorSpec rows = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 12}};

/* Columns of a convolution, statistics of channels and each channel by itself lead to rows of
   another; then channels, pooled, to rows of a layer. */
static RengaErrorCode AddImages(RengaGraph graph)
{
  const RengaTensorSpec images = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, 3, 6, 6}};
  const RengaTensorSpec classes = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels;
  RengaCall(RengaGraphAddInput(graph, "x", &images, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &classes, &labels));
  RengaCall(RengaGraphAddConvolution(graph, "c1", x, 6, 3, 1, 1, true, &x));
  RengaCall(RengaGraphAddBatchNormalization(graph, "b1", x, 1e-5, 0.9, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaGraphAddConvolution(graph, "c2", x, 5, 3, 1, 1, true, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaGraphAddConvolution(graph, "c3", x, 7, 3, 2, 1, false, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaGraphAddReshape(graph, x, 2, (const int64_t[]){-1, 7 * 3 * 3}, &x));
  RengaCall(RengaGraphAddLinear(graph, "fc", x, 11, true, 0.1, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &x));
  RengaCall(RengaGraphSetLoss(graph, x));
  return RENGA_SUCCESS;
}

/* Experts of which one parameter has all: a product for each, their hidden columns, and a product
   back; each counts as much as a gate says, and all are added up: by a sum, or by a product. */
static RengaErrorCode AddExperts(RengaGraph graph, bool product)
{
  enum { EXPERTS = 5, WIDTH = 4, HIDDEN = 3 };
  const RengaTensorSpec classes = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  const RengaTensorSpec wide = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {EXPERTS, WIDTH, HIDDEN}};
  const RengaTensorSpec back = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {EXPERTS, HIDDEN, WIDTH}};
  const RengaInit drawn = {.kind = RENGA_INIT_NORMAL, .b = 0.5};
  RengaAttributes attributes = {0};
  RengaValue x, labels, gate, w, y;
  RengaCall(RengaGraphAddInput(graph, "x", &rows, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &classes, &labels));
  RengaCall(RengaGraphAddLinear(graph, "embed", x, WIDTH, true, 0.3, &x));
  RengaCall(RengaGraphAddLinear(graph, "gate", x, EXPERTS, true, 0.3, &gate));
  RengaCall(RengaGraphAddUnary(graph, "Softmax", gate, &gate));
  RengaCall(RengaGraphAddReshape(graph, x, 3, (const int64_t[]){-1, 1, WIDTH}, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 4, (const int64_t[]){-1, 1, 1, WIDTH}, &y));
  RengaCall(RengaGraphAddParameter(graph, "wide", &wide, &drawn, &w));
  RengaCall(RengaGraphAddMatMul(graph, y, w, &y));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", y, &y));
  RengaCall(RengaGraphAddParameter(graph, "back", &back, &drawn, &w));
  RengaCall(RengaGraphAddMatMul(graph, y, w, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 3, (const int64_t[]){-1, EXPERTS, WIDTH}, &y));
  if (product) {
    RengaCall(RengaGraphAddReshape(graph, gate, 3, (const int64_t[]){-1, 1, EXPERTS}, &gate));
    RengaCall(RengaGraphAddMatMul(graph, gate, y, &y));
    RengaCall(RengaGraphAddReshape(graph, y, 2, (const int64_t[]){-1, WIDTH}, &y));
  } else {
    RengaCall(RengaGraphAddReshape(graph, gate, 3, (const int64_t[]){-1, EXPERTS, 1}, &gate));
    RengaCall(
        RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, (const RengaValue[]){gate, y}, 1, NULL, &y));
    RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
    RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
    RengaCall(RengaGraphAddNode(graph, "ReduceSum", NULL, &attributes, 1, (const RengaValue[]){y},
                                1, NULL, &y));
    RengaAttributesFree(&attributes);
  }
  RengaCall(RengaGraphAddAdd(graph, x, y, &x));
  RengaCall(RengaGraphAddLinear(graph, "fc", x, 11, true, 0.1, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &x));
  RengaCall(RengaGraphSetLoss(graph, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSlice(RengaGraph graph, RengaValue x, int64_t from, int64_t to,
                               RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, &from));
  RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, &to));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
  RengaCall(RengaGraphAddNode(graph, "Slice", NULL, &attributes, 1, &x, 1, NULL, y));
  RengaAttributesFree(&attributes);
  return RENGA_SUCCESS;
}

/* Two sequences, one behind the other, of which some tokens are read: those of one lane would not
   be consecutive. */
static RengaErrorCode AddSequences(RengaGraph graph)
{
  enum { TOKENS = 6, WIDTH = 4 };
  const RengaTensorSpec classes = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  const RengaTensorSpec tokens = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, TOKENS, WIDTH}};
  RengaAttributes attributes = {0};
  RengaValue x[2], y, labels;
  RengaCall(RengaGraphAddInput(graph, "a", &tokens, &x[0]));
  RengaCall(RengaGraphAddInput(graph, "b", &tokens, &x[1]));
  RengaCall(RengaGraphAddInput(graph, "labels", &classes, &labels));
  RengaCall(RengaGraphAddLinear(graph, "a.in", x[0], WIDTH, true, 0.3, &x[0]));
  RengaCall(RengaGraphAddLinear(graph, "b.in", x[1], WIDTH, true, 0.3, &x[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(RengaGraphAddNode(graph, "Concat", NULL, &attributes, 2, x, 1, NULL, &y));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddUnary(graph, "Tanh", y, &y));
  RengaCall(RengaGraphAddLinear(graph, "both", y, WIDTH, true, 0.3, &y));
  RengaCall(AddSlice(graph, y, 1, 5, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 2, (const int64_t[]){-1, 4 * WIDTH}, &y));
  RengaCall(RengaGraphAddLinear(graph, "fc", y, 11, true, 0.1, &y));
  RengaCall(RengaGraphAddCrossEntropy(graph, y, labels, -100, &y));
  RengaCall(RengaGraphSetLoss(graph, y));
  return RENGA_SUCCESS;
}
