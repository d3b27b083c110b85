/* Matrix products in tiles of the result; each tile is one single-threaded call of a library. */
#pragma once
#include "cpu.h"

/* c[m,n] = alpha a b + beta c, or with bias (n values, beta unused) a b + bias in each row. a is
   [m,k], or [k,m] where trans_a; b is [k,n], or [n,k] where trans_b; ld: distance of rows as
   stored. work: RengaCpuPackedFloats for each thread, NULL: products are a library's */
typedef struct {
  bool trans_a, trans_b;
  int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const float *a, *b, *bias;
  float *c, *work;
} RengaCpuProduct;

/* A cut into tiles; RengaCpuTile's depends on m and n alone. */
typedef struct {
  int64_t m, n;          /* of a tile */
  int64_t rows, columns; /* tiles */
} RengaCpuTiling;
RengaCpuTiling RENGA_ISA_NAME(RengaCpuTile)(int64_t m, int64_t n);
/* For threads that share so many products of one shape: as few tiles as they need, where bits do
   not depend on them. Neither length nor products is 0. */
RengaCpuTiling RENGA_ISA_NAME(RengaCpuTileFor)(int threads, int64_t products, int64_t m, int64_t n,
                                               bool bias);
void RENGA_ISA_NAME(RengaCpuMultiplyTile)(const RengaCpuProduct *product,
                                          const RengaCpuTiling *tiling, int64_t tile);
/* c = alpha a b + beta c by one thread; row-major, ld: distance of rows as stored. */
void RENGA_ISA_NAME(RengaCpuGemm)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                                  float alpha, const float *a, int64_t lda, const float *b,
                                  int64_t ldb, float beta, float *c, int64_t ldc);
void RENGA_ISA_NAME(RengaCpuMultiply)(int threads, const RengaCpuProduct *product);
/* Whether c + a b has the bits of a b that is added to c afterwards. */
bool RENGA_ISA_NAME(RengaCpuAddsAtOnce)(int64_t m, int64_t n, int64_t k);
#define RengaCpuTile RENGA_ISA_NAME(RengaCpuTile)
#define RengaCpuTileFor RENGA_ISA_NAME(RengaCpuTileFor)
#define RengaCpuMultiplyTile RENGA_ISA_NAME(RengaCpuMultiplyTile)
#define RengaCpuGemm RENGA_ISA_NAME(RengaCpuGemm)
#define RengaCpuMultiply RENGA_ISA_NAME(RengaCpuMultiply)
#define RengaCpuAddsAtOnce RENGA_ISA_NAME(RengaCpuAddsAtOnce)
