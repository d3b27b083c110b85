/* What a machine can do at best, one thread: products of whatever library there is, and copies. */
#pragma once
#include "rengaop.h"

/* c[m,n] = a b, as a is [m,k] or [k,m], and b [k,n] or [n,k], where they are transposed. */
typedef struct {
  bool trans_a, trans_b;
  int64_t m, n, k;
} BenchProduct;

typedef struct {
  const char *library; /* of the fastest */
  double seconds;
} BenchBest;

/* The fastest product of that shape: low: of bfloat16, where something multiplies that. rounds: of
   which the least is taken */
RengaErrorCode BenchTimeProduct(const BenchProduct *shape, bool low, int rounds, BenchBest *best);
/* Bytes per second, read and written, of a copy, or of a pass in place, whichever is faster, over
   so many bytes again and again: at most 128 MiB. */
double BenchCopyRate(int64_t bytes);
/* The names of the libraries that were found. */
void BenchPrintLibraries(void);
/* Processor time of this thread. */
double BenchClock(void);
