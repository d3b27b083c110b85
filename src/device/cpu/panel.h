/* Products of float32 matrices by kernels of Renga, with AVX-512: results of 14 x 32 stay in
   registers while the terms go by, a's rows are read where they lie, and b is packed only where its
   terms follow each other. That is faster than a library where one side is short, so that packing
   both factors does not pay. Terms are added in the order that oneDNN 2.6 has with AVX-512. */
#pragma once
#include "product.h"

/* c = sum of a_i b_i, in order: so many, of which each has the factors of the one before it plus a
   step. Without bias; alpha is 1, beta 0. */
typedef struct {
  RengaCpuProduct first;
  int64_t count, a_step, b_step;
} RengaCpuPanelSum;

/* Whether that is so for the product's shape, with columns for all threads. */
bool RENGA_ISA_NAME(RengaCpuPanelsFit)(int threads, const RengaCpuProduct *product);
/* Floats of memory that a sum needs. */
int64_t RENGA_ISA_NAME(RengaCpuPanelFloats)(const RengaCpuProduct *product);
void RENGA_ISA_NAME(RengaCpuAddPanels)(int threads, const RengaCpuPanelSum *sum, float *work);
/* to[j][i] = from[i][j] of a matrix without gaps */
void RENGA_ISA_NAME(RengaCpuTurnMatrix)(int threads, int64_t rows, int64_t columns,
                                        const float *from, float *to);
#define RengaCpuTurnMatrix RENGA_ISA_NAME(RengaCpuTurnMatrix)
#define RengaCpuPanelsFit RENGA_ISA_NAME(RengaCpuPanelsFit)
#define RengaCpuPanelFloats RENGA_ISA_NAME(RengaCpuPanelFloats)
#define RengaCpuAddPanels RENGA_ISA_NAME(RengaCpuAddPanels)
