/* to[j, i] = from[i, j] for i < rows, j < columns, elements of 16 bits; both are contiguous along
   their last index, strides are those of the first. */
#pragma once
#include <stdint.h>

void RengaCpuTurn16(int64_t rows, int64_t columns, const uint16_t *from, int64_t from_stride,
                    uint16_t *to, int64_t to_stride);
