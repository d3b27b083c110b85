/* Runs of 16-bit numbers, to float32 and back. type: RENGA_BFLOAT16 or RENGA_FLOAT16. */
#pragma once
#include "cpu.h"

void RENGA_ISA_NAME(RengaCpuWiden)(RengaDataType type, int64_t count, const void *x, float *y);
void RENGA_ISA_NAME(RengaCpuNarrow)(RengaDataType type, int64_t count, const float *x, void *y);
#define RengaCpuWiden RENGA_ISA_NAME(RengaCpuWiden)
#define RengaCpuNarrow RENGA_ISA_NAME(RengaCpuNarrow)
