/* Broadcasting as rows: the output is [rows, inner]; along inner each input is contiguous or one
 * value. */
#pragma once
#include "cpu.h"

enum { RENGA_CPU_INPUTS = 3 };
typedef struct {
  int n_in, n_outer;
  int64_t inner, rows;
  int64_t step[RENGA_CPU_INPUTS]; /* along inner: 1 or 0 */
  int64_t outer[RENGA_MAX_DIM];   /* extents that make up rows */
  int64_t stride[RENGA_CPU_INPUTS][RENGA_MAX_DIM];
  int64_t pieces, rows_per_piece, columns_per_piece, pieces_per_row;
} RengaCpuBroadcast;

/* Rows [first, last), columns [column, column + columns) of a piece. */
typedef struct {
  int64_t first, last, column, columns;
} RengaCpuRows;

/* Strides of an input in elements, aligned at the output's last dimension; 0 where broadcast. */
static inline void RengaCpuStrides(const RengaTensorSpec *in, int ndim, int64_t stride[])
{
  int64_t size = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    int own = d - (ndim - in->ndim);
    int64_t extent = own >= 0 ? in->dim[own] : 1;
    stride[d] = extent == 1 ? 0 : size;
    size *= extent;
  }
}

/* Rows of about one piece's elements, or pieces of a row where rows are long. */
static inline void RengaCpuBroadcastCut(RengaCpuBroadcast *s)
{
  s->columns_per_piece = s->inner < 2 * RENGA_CPU_PIECE ? s->inner : RENGA_CPU_PIECE;
  s->pieces_per_row = s->inner ? RengaCpuPieces(s->inner, s->columns_per_piece) : 0;
  s->rows_per_piece = 1;
  if (s->pieces_per_row == 1 && s->inner < RENGA_CPU_PIECE)
    s->rows_per_piece = RENGA_CPU_PIECE / s->inner;
  s->pieces = RengaCpuPieces(s->rows, s->rows_per_piece) * s->pieces_per_row;
}

/* Neighbouring dimensions are joined where all inputs allow it. */
static inline void RengaCpuBroadcastInit(RengaCpuBroadcast *s, const RengaTensorSpec *out, int n_in,
                                         const RengaTensorSpec in[])
{
  int64_t full[RENGA_CPU_INPUTS][RENGA_MAX_DIM];
  *s = (RengaCpuBroadcast){.n_in = n_in, .inner = 1, .rows = 1};
  for (int i = 0; i < n_in; i++) RengaCpuStrides(&in[i], out->ndim, full[i]);
  int64_t extent[RENGA_MAX_DIM];
  int n = 0;
  for (int d = 0; d < out->ndim; d++) {
    if (out->dim[d] == 1) continue;
    bool join = n > 0;
    for (int i = 0; i < n_in && join; i++) join = s->stride[i][n - 1] == full[i][d] * out->dim[d];
    if (!join) n++;
    extent[n - 1] = join ? extent[n - 1] * out->dim[d] : out->dim[d];
    for (int i = 0; i < n_in; i++) s->stride[i][n - 1] = full[i][d];
  }
  if (n > 0) s->inner = extent[n - 1];
  for (int i = 0; i < n_in; i++) s->step[i] = n > 0 ? s->stride[i][n - 1] : 0;
  s->n_outer = n > 0 ? n - 1 : 0;
  for (int d = 0; d < s->n_outer; d++) {
    s->outer[d] = extent[d];
    s->rows *= extent[d];
  }
  RengaCpuBroadcastCut(s);
}

static inline RengaCpuRows RengaCpuBroadcastRows(const RengaCpuBroadcast *s, int64_t piece)
{
  int64_t first = piece / s->pieces_per_row * s->rows_per_piece;
  int64_t column = piece % s->pieces_per_row * s->columns_per_piece;
  return (RengaCpuRows){first, RengaCpuSmaller(s->rows, first + s->rows_per_piece), column,
                        RengaCpuSmaller(s->inner - column, s->columns_per_piece)};
}

/* Offset in elements of each input at the start of a row. */
static inline void RengaCpuBroadcastAt(const RengaCpuBroadcast *s, int64_t row, int64_t at[])
{
  for (int i = 0; i < s->n_in; i++) at[i] = 0;
  for (int d = s->n_outer - 1; d >= 0; d--) {
    int64_t index = row % s->outer[d];
    row /= s->outer[d];
    for (int i = 0; i < s->n_in; i++) at[i] += index * s->stride[i][d];
  }
}
