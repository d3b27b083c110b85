/* Copies between two strided arrays of one shape: Transpose, Slice, Concat, Expand, Tile. */
#pragma once
#include "cpu.h"

enum { RENGA_CPU_COPY_DIM = 2 * RENGA_MAX_DIM };
typedef struct {
  int n;
  int64_t extent[RENGA_CPU_COPY_DIM], from[RENGA_CPU_COPY_DIM], to[RENGA_CPU_COPY_DIM];
  size_t size;                    /* bytes of an element */
  int64_t from_offset, to_offset; /* elements */
  int across; /* dimension along which the source is contiguous; -1: the last, or none */
  int64_t pieces, rows_per_piece, rows; /* rows: all dimensions but the last (and across) */
} RengaCpuCopy;

void RENGA_ISA_NAME(RengaCpuCopyInit)(RengaCpuCopy *copy); /* joins dimensions, cuts into pieces */
void RENGA_ISA_NAME(RengaCpuCopyRun)(int threads, const RengaCpuCopy *copy, const void *from,
                                     void *to);
#define RengaCpuCopyInit RENGA_ISA_NAME(RengaCpuCopyInit)
#define RengaCpuCopyRun RENGA_ISA_NAME(RengaCpuCopyRun)
