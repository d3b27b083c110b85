/* Products of bfloat16 matrices by oneDNN, each by one thread. */
#pragma once
#include "rengaop.h"

/* c[m,n] = alpha a b + bias, row-major, summed in float32. a is [m,k], or [k,m] where trans_a; b is
   [k,n], or [n,k] where trans_b; ld: distance of rows as stored. c and bias are bfloat16 or
   float32. adds: to what c is, which is float32, and without a bias. */
typedef struct {
  bool trans_a, trans_b, has_bias, adds;
  int64_t m, n, k, lda, ldb, ldc;
  float alpha;
  RengaDataType c, bias;
} RengaBrainShape;

typedef struct _RengaBrainProduct *RengaBrainProduct;
/* NULL where oneDNN has none of this shape on this processor. threads: how many may run it at the
   same time. */
RengaErrorCode RengaBrainProductCreate(const RengaBrainShape *shape, int threads,
                                       RengaBrainProduct *product);
size_t RengaBrainProductGetScratch(RengaBrainProduct product); /* bytes for each thread */
/* 0, or oneDNN's status. Any number of threads may call it, each with a number and scratch memory
   of its own. */
int RengaBrainProductRun(RengaBrainProduct product, int thread, const void *a, const void *b,
                         const void *bias, void *c, void *scratch);
RengaErrorCode RengaBrainProductDestroy(RengaBrainProduct *product);
