/* Which kernel of the cuda device an operator has. An operator that has no row here, or a type or
   shape that its row does not take, is computed on the host from copies. */
#include "cuda.h"
#include <string.h>

RengaErrorCode RengaCudaFindKernel_Private(RengaDevice device, const char *name,
                                           const RengaKernelRow **row)
{
  static const RengaKernelRow *const tables[] = {
      RengaCudaElementwiseRows, RengaCudaProductRows, RengaCudaMoveRows,
      RengaCudaLineRows,        RengaCudaIndexRows,   RengaCudaReduceRows,
      RengaCudaAttentionRows,   RengaCudaWindowRows,  RengaCudaConvolutionRows,
  };
  (void)device;
  *row = NULL;
  for (size_t t = 0; t < sizeof tables / sizeof *tables && !*row; t++)
    for (const RengaKernelRow *r = tables[t]; r->name && !*row; r++)
      if (strcmp(r->name, name) == 0) *row = r;
  return RENGA_SUCCESS;
}
