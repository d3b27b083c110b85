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

/* foldnumber.c: y of a and b; false where it has no known form. Floating types are real. */
typedef struct {
  const char *op;
  bool (*apply)(bool real, RengaOnnxNumber a, RengaOnnxNumber b, RengaOnnxNumber *y);
  bool to_bool;
} RengaOnnxBinary;
const RengaOnnxBinary *RengaOnnxFindBinary(const char *op); /* NULL: not one of these */
bool RengaOnnxIsNumber(RengaOnnxNumber x); /* the same for all batches and samples */
static inline bool RengaOnnxIsReal(RengaDataType type)
{
  return type == RENGA_FLOAT32 || type == RENGA_FLOAT64;
}
