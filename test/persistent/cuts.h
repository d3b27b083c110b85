/* Tensors of several shapes and types, cut among ranks in several ways. */
#pragma once
#include "../check.h"
#include "renga/private/holdings.h"
#include <string.h>

enum { CUT_TENSORS = 8, CUT_MOST = CUT_TENSORS * RENGA_RANGE_RECTANGLES * 2 };
typedef enum { CUT_WHOLE, CUT_ROWS, CUT_COLUMNS, CUT_TILES, CUT_RANGES, CUT_KINDS } CutKind;

static const struct {
  const char *name;
  RengaTensorSpec spec;
} cut_tensors[CUT_TENSORS] = {
    {"embedding", {RENGA_FLOAT32, 2, {1501, 907}}}, /* more than a block */
    {"attention", {RENGA_FLOAT32, 4, {3, 5, 7, 11}}},
    {"bias", {RENGA_FLOAT32, 1, {13}}},
    {"scalar", {RENGA_FLOAT64, 0, {0}}},
    {"empty", {RENGA_FLOAT32, 2, {4, 0}}},
    {"count", {RENGA_INT64, 3, {2, 1, 9}}},
    {"half", {RENGA_BFLOAT16, 2, {17, 33}}},
    {"tall", {RENGA_FLOAT32, 2, {40001, 33}}}};

/* What a rank has; bytes of a tensor follow from their place in it. */
typedef struct {
  int count;
  RengaPersistent list[CUT_MOST];
} CutList;

static inline char CutByte(int tensor, int64_t at)
{
  return (char)((uint64_t)(at + 77 * tensor) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* Calls that visit each byte of a part: sets it, or compares. */
static inline bool CutVisit(const RengaPersistent *row, int tensor, bool set)
{
  const int64_t size = (int64_t)RengaDataTypeSize(row->spec.type);
  const RengaRuns runs = RengaRunsOf(&row->spec, &row->part);
  char *to = row->data;
  bool same = true;
  for (int64_t r = 0; r < runs.count; r++)
    for (int64_t b = 0; b < runs.length * size; b++, to++) {
      const char byte = CutByte(tensor, RengaRunsAt(&runs, r) * size + b);
      if (set)
        *to = byte;
      else
        same = same && *to == byte;
    }
  return same;
}

static inline RengaErrorCode CutAdd(CutList *cut, int tensor, const RengaRectangle *part,
                                    bool owner, bool filled)
{
  RengaPersistent row = {
      .name = cut_tensors[tensor].name, .spec = cut_tensors[tensor].spec, .owner = owner};
  char *bytes;
  row.part = *part;
  RengaCall(RengaMalloc(RengaPersistentGetBytes(&row) + 1, &bytes));
  row.data = bytes;
  if (filled) CutVisit(&row, tensor, true);
  cut->list[cut->count++] = row;
  return RENGA_SUCCESS;
}

/* Uneven: part r of n of a length. */
static inline int64_t CutBound(int64_t length, int n, int r)
{
  return length * r * (r + 1) / ((int64_t)n * (n + 1));
}

static inline void CutDimension(RengaRectangle *part, int d, int n, int r)
{
  const int64_t first = CutBound(part->extent[d], n, r), last = CutBound(part->extent[d], n, r + 1);
  part->start[d] += first;
  part->extent[d] = last - first;
}

static inline RengaErrorCode CutOne(CutKind kind, int tensor, int rank, int size, bool owner,
                                    bool filled, CutList *cut)
{
  const RengaTensorSpec *spec = &cut_tensors[tensor].spec;
  const int64_t all = RengaTensorSpecCount(spec);
  const int last = spec->ndim - 1;
  RengaRectangle part[RENGA_RANGE_RECTANGLES];
  int n = 1;
  RengaCall(RengaRectangleWhole(spec, &part[0]));
  if (kind == CUT_WHOLE || spec->ndim == 0 || all == 0) {
    n = tensor % size == rank;
  } else if (kind == CUT_RANGES) {
    const int64_t first = CutBound(all, size, rank), end = CutBound(all, size, rank + 1);
    RengaCall(RengaRectanglesOfRange(spec, first, end - first, &n, part));
    Expect(n <= 2 * spec->ndim - 1);
  } else if (kind == CUT_TILES && size % 2 == 0 && last > 0) {
    CutDimension(&part[0], 0, 2, rank % 2);
    CutDimension(&part[0], last, size / 2, rank / 2);
  } else
    CutDimension(&part[0], kind == CUT_ROWS ? 0 : last, size, rank);
  for (int i = 0; i < n; i++)
    if (all == 0 || RengaRectangleCount(spec, &part[i]) > 0)
      RengaCall(CutAdd(cut, tensor, &part[i], owner, filled));
  return RENGA_SUCCESS;
}

/* copies: what the rank before owns is here too. */
static inline RengaErrorCode CutCreate(CutKind kind, int rank, int size, bool copies, bool filled,
                                       CutList *cut)
{
  cut->count = 0;
  for (int t = 0; t < CUT_TENSORS; t++) {
    RengaCall(CutOne(kind, t, rank, size, true, filled, cut));
    if (copies && size > 1)
      RengaCall(CutOne(kind, t, (rank + size - 1) % size, size, false, filled, cut));
  }
  return RENGA_SUCCESS;
}

static inline void CutFree(CutList *cut)
{
  for (int i = 0; i < cut->count; i++) RengaFree(&cut->list[i].data);
}

static inline bool CutCheck(const CutList *cut)
{
  bool same = true;
  for (int i = 0; i < cut->count; i++) {
    int t = 0;
    while (strcmp(cut_tensors[t].name, cut->list[i].name) != 0) t++;
    same = same && CutVisit(&cut->list[i], t, false);
  }
  return same;
}
