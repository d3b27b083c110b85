/* A small network with a skip connection, and a look at its nodes. */
#pragma once
#include "plantest.h"

/* x [N,8] -> Linear, Relu = h -> Linear, Relu = k; h + k -> Linear -> cross-entropy. */
static inline RengaGraph TestNetworkOf(RengaComm comm, int64_t whole_batch)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 8}};
  const RengaTensorSpec label_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaGraph graph;
  RengaValue x, labels, h, k, loss;
  RengaCallAbort(RengaGraphCreate(comm, &graph));
  RengaCallAbort(RengaGraphSetWholeBatch(graph, whole_batch));
  RengaCallAbort(RengaGraphAddInput(graph, "x", &x_spec, &x));
  RengaCallAbort(RengaGraphAddInput(graph, "labels", &label_spec, &labels));
  RengaCallAbort(RengaGraphAddLinear(graph, "first", x, 16, true, 0.1, &x));
  RengaCallAbort(RengaGraphAddUnary(graph, "Relu", x, &h));
  RengaCallAbort(RengaGraphAddLinear(graph, "second", h, 16, true, 0.1, &k));
  RengaCallAbort(RengaGraphAddUnary(graph, "Relu", k, &k));
  RengaCallAbort(RengaGraphAddAdd(graph, h, k, &x));
  RengaCallAbort(RengaGraphAddLinear(graph, "third", x, 4, true, 0.1, &x));
  RengaCallAbort(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss));
  RengaCallAbort(RengaGraphSetLoss(graph, loss));
  RengaCallAbort(RengaGraphSetUp(graph));
  return graph;
}

static inline RengaGraph TestNetwork(RengaComm comm)
{
  return TestNetworkOf(comm, 0);
}

/* The n-th node of an operator. */
static inline int TestFind(RengaGraph graph, const char *op, int n)
{
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++)
    if (!strcmp(RengaGraphGetNode(graph, i)->op->name, op) && n-- == 0) return i;
  TestTrue(false);
  return -1;
}

static inline bool TestPrepared(RengaGraph graph, int node)
{
  return RengaGraphGetValue(graph, RengaGraphGetNode(graph, node)->out[0])->prepared;
}

/* What a view or a saved file says. */
static inline void TestReadFile(const char *file_name, size_t size, char text[])
{
  FILE *file = fopen(file_name, "r");
  TestTrue(file);
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
}
