/* The kernels of one instruction set, by operator. */
#include "cpu.h"
#include <string.h>

#define NAME_TEXT(isa) NAME_TEXT2(isa)
#define NAME_TEXT2(isa) #isa

#define TABLE(table) RENGA_ISA_NAME(table),
static const RengaKernelRow *const tables[] = {RENGA_CPU_TABLES(TABLE) NULL};
#undef TABLE

RengaErrorCode RengaCpuFreeData(RengaKernel kernel)
{
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

static const RengaKernelRow *FindKernelRow(const char *name)
{
  for (int t = 0; tables[t]; t++)
    for (const RengaKernelRow *row = tables[t]; row->name; row++)
      if (strcmp(row->name, name) == 0) return row;
  return NULL;
}

const RengaCpuSet RENGA_ISA_NAME(RengaCpuSet) = {
    NAME_TEXT(RENGA_ISA),
    FindKernelRow,
    RENGA_ISA_NAME(RengaCpuConvert),
    RENGA_ISA_NAME(RengaCpuRound),
    RENGA_ISA_NAME(RengaCpuAdd),
    RENGA_ISA_NAME(RengaCpuSumsOfSquares),
    RENGA_ISA_NAME(RengaCpuUpdateSgd),
    RENGA_ISA_NAME(RengaCpuUpdateAdam),
    RENGA_ISA_NAME(RengaCpuSumRows),
};
