/* Products of float32 matrices by kernels of Renga, with AVX-512: results of 9 x 48 stay in
   registers while the terms of two packed factors go by. The next columns of b are fetched and
   packed between them, so that cold weights cost little: that is faster than oneDNN where rows of b
   have a term each. Terms are added in the order that oneDNN 2.6 has with AVX-512, beside which
   alone they are used: smaller parts of the same product are its. */
#pragma once
#include "product.h"

/* Whether that is so for a product, or for a part of its rows and columns; its alpha is 1. */
bool RENGA_ISA_NAME(RengaCpuPackedFits)(const RengaCpuProduct *product);
/* Floats of memory that a thread needs, for it or for a part. */
int64_t RENGA_ISA_NAME(RengaCpuPackedFloats)(const RengaCpuProduct *product);
/* By one thread; beta is 0 or 1. work: so many floats, aligned to 64 bytes */
void RENGA_ISA_NAME(RengaCpuMultiplyPacked)(const RengaCpuProduct *product, float *work);
#define RengaCpuPackedFits RENGA_ISA_NAME(RengaCpuPackedFits)
#define RengaCpuPackedFloats RENGA_ISA_NAME(RengaCpuPackedFloats)
#define RengaCpuMultiplyPacked RENGA_ISA_NAME(RengaCpuMultiplyPacked)
