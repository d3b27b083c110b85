/* The kernel of an operator, from the families. */
#include "ref.h"

RengaRefKernel RengaRefFind(const char *name)
{
  static RengaRefKernel (*const families[])(const char *) = {
      RefFindUnary,     RefFindBinary,      RefFindReduce,  RefFindScan,      RefFindMove,
      RefFindPad,       RefFindIndex,       RefFindMatrix,  RefFindConvolve,  RefFindPool,
      RefFindNormalize, RefFindBatch,       RefFindSoftmax, RefFindAttention, RefFindLoss,
      RefFindRecurrent, RefFindDeterminant, RefFindRegion,  RefFindCached,
  };
  for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
    RengaRefKernel run = families[f](name);
    if (run) return run;
  }
  return NULL;
}
