/* Products of matrices of which some have 16 bits, made ready once: tiles of the result, each by
   one thread, summed in float32. */
#pragma once
#include "matmul.h"
#include "product.h"

/* As RengaCpuProduct, with a type for each operand; beta is 0, or 1 where it adds: then c is
   float32 and there is no bias. */
typedef struct {
  bool trans_a, trans_b, has_bias, adds;
  int64_t m, n, k, lda, ldb, ldc;
  float alpha;
  RengaDataType a, b, bias, c;
} RengaCpuLowShape;

typedef struct {
  RengaCpuLowShape shape;
  RengaCpuTiling tiling;
  bool amx;                      /* by kernels of Renga, see amx.h */
  RengaBrainProduct brain[2][2]; /* [last row of tiles][last column]; NULL: amx, or by blocks */
  bool turns;                    /* a tile's columns of a become rows in the workspace */
  size_t bytes;                  /* of workspace for each thread */
} RengaCpuLowProduct;

/* Memory for all of these: product is set on success. RengaCpuLowProductDestroy(&product) frees. */
RengaErrorCode RENGA_ISA_NAME(RengaCpuLowProductCreate)(int threads, const RengaCpuLowShape *shape,
                                                        RengaCpuLowProduct **product);
/* A tile by the calling thread; 0, or a status of oneDNN. workspace: of all threads */
int RENGA_ISA_NAME(RengaCpuLowProductTile)(const RengaCpuLowProduct *product, int64_t tile,
                                           const void *a, const void *b, const void *bias, void *c,
                                           void *workspace);
/* All tiles. workspace: of so many threads */
RengaErrorCode RENGA_ISA_NAME(RengaCpuLowMultiply)(int threads, const RengaCpuLowProduct *product,
                                                   const void *a, const void *b, const void *bias,
                                                   void *c, void *workspace);
RengaErrorCode RENGA_ISA_NAME(RengaCpuLowProductDestroy)(RengaCpuLowProduct **product);
#define RengaCpuLowProductCreate RENGA_ISA_NAME(RengaCpuLowProductCreate)
#define RengaCpuLowProductTile RENGA_ISA_NAME(RengaCpuLowProductTile)
#define RengaCpuLowMultiply RENGA_ISA_NAME(RengaCpuLowMultiply)
#define RengaCpuLowProductDestroy RENGA_ISA_NAME(RengaCpuLowProductDestroy)
