/* Evaluation of nodes while reading: two files of one table. */
#pragma once
#include "onnx.h"

/* in[i] is NULL where the node leaves it out. out stays NULL where the result has no known form. */
typedef struct {
  const char *op;
  RengaErrorCode (*fold)(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                         RengaOnnxHost **out);
} RengaOnnxFoldRow;
const RengaOnnxFoldRow *RengaOnnxFindMove(const char *op); /* operators that only move elements */
