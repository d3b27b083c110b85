/* Products of bfloat16 matrices by AMX, Renga's own, for processors that have it: amx.c alone is
   compiled for these. */
#pragma once
#include "lowproduct.h"

#ifdef RENGA_AMX
/* Not where oneDNN is held to other instructions. */
bool RengaAmxIsHere(void);
/* Of workspace, aligned to 64 bytes, for a thread whose part of c has at most m rows and n
   columns; the same shape with fewer terms needs no more. */
size_t RengaAmxBytes(const RengaCpuLowShape *shape, int64_t m, int64_t n);
/* m rows and n columns of c by the calling thread. a, b, bias and c begin at the first of them. An
   element's terms are added up in an order that follows from k alone. */
void RengaAmxMultiply(const RengaCpuLowShape *shape, int64_t m, int64_t n, const uint16_t *a,
                      const uint16_t *b, const void *bias, void *c, void *workspace);
#else
static inline bool RengaAmxIsHere(void)
{
  return false;
}

static inline size_t RengaAmxBytes(const RengaCpuLowShape *shape, int64_t m, int64_t n)
{
  return 0;
}

static inline void RengaAmxMultiply(const RengaCpuLowShape *shape, int64_t m, int64_t n,
                                    const uint16_t *a, const uint16_t *b, const void *bias, void *c,
                                    void *workspace)
{
}
#endif
