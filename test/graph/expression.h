/* Networks written as expressions: short names make the nodes of one graph. */
#pragma once
#include "../plan/plantest.h"

enum { BATCH = 3, T = 5, D = 8 };

static RengaGraph graph; /* the one that is being built */

static RengaValue Node(const char *op, RengaAttributes *attributes, int n, const RengaValue in[])
{
  RengaValue y;
  TestTrue(RengaGraphAddNode(graph, op, NULL, attributes, n, in, 1, NULL, &y) == RENGA_SUCCESS);
  if (attributes) RengaAttributesFree(attributes);
  return y;
}

static RengaValue U(const char *op, RengaValue x)
{
  return Node(op, NULL, 1, &x);
}

static RengaValue B(const char *op, RengaValue a, RengaValue b)
{
  return Node(op, NULL, 2, (const RengaValue[]){a, b});
}

static RengaValue S(double number)
{
  RengaTensorSpec spec = {.type = RENGA_FLOAT32};
  RengaValue y;
  float data = (float)number;
  TestTrue(RengaGraphAddConstant(graph, NULL, &spec, &data, &y) == RENGA_SUCCESS);
  return y;
}

static RengaValue Mean(RengaValue x)
{
  RengaAttributes attributes = {0};
  TestTrue(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){-1}) == RENGA_SUCCESS);
  return Node("ReduceMean", &attributes, 1, &x);
}

static RengaValue Softmax(RengaValue x)
{
  RengaAttributes attributes = {0};
  TestTrue(RengaAttributesSetInt(&attributes, "axis", -1) == RENGA_SUCCESS);
  return Node("Softmax", &attributes, 1, &x);
}

static RengaValue Flip(RengaValue x, int n, const int64_t perm[])
{
  RengaAttributes attributes = {0};
  TestTrue(RengaAttributesSetInts(&attributes, "perm", n, perm) == RENGA_SUCCESS);
  return Node("Transpose", &attributes, 1, &x);
}

static RengaValue Parameter(int ndim, int64_t a, int64_t b)
{
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = ndim, .dim = {a, b}};
  RengaInit init = {.kind = RENGA_INIT_NORMAL, .a = 0.2, .b = 0.5};
  RengaValue y;
  TestTrue(RengaGraphAddParameter(graph, NULL, &spec, &init, &y) == RENGA_SUCCESS);
  return y;
}
