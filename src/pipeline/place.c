/* Offsets for tensors that live from one position to another: largest first, each into the
   smallest gap between those it overlaps in time (best fit).

   Most lives are short and there may be a hundred thousand, so that those that overlap are found by
   time: a tensor is filed under the smallest aligned block of 2^level positions that holds its
   life, and only blocks that meet a life have what overlaps it. */
#include "pipelineimpl.h"
#include <stdlib.h>

enum { LEVELS_MOST = 32 };

typedef struct {
  Lifetime *row;
  int levels;
  int first[LEVELS_MOST]; /* of the blocks of each level */
  int *head;              /* [blocks] row that was filed last, -1: none */
  int *next;              /* [rows] filed before it, -1: none */
  Lifetime **found;       /* [rows] that overlap one */
} Files;

static int CompareStorageBytes(const void *a, const void *b)
{
  const Lifetime *x = *(Lifetime *const *)a, *y = *(Lifetime *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int CompareOffsets(const void *a, const void *b)
{
  const Lifetime *x = *(Lifetime *const *)a, *y = *(Lifetime *const *)b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static void FileStorage(Files *files, Lifetime *item)
{
  int level = 0;
  while (item->first >> level != item->last >> level) level++;
  int *head = &files->head[files->first[level] + (item->first >> level)];
  files->next[item - files->row] = *head;
  *head = (int)(item - files->row);
}

/* In order of their offsets. */
static int FindOverlaps(Files *files, const Lifetime *item)
{
  int count = 0;
  for (int level = 0; level < files->levels; level++)
    for (int block = item->first >> level; block <= item->last >> level; block++)
      for (int r = files->head[files->first[level] + block]; r >= 0; r = files->next[r]) {
        Lifetime *other = &files->row[r];
        if (other->last >= item->first && other->first <= item->last) files->found[count++] = other;
      }
  qsort(files->found, (size_t)count, sizeof *files->found, CompareOffsets);
  return count;
}

static int64_t FindGap(const Lifetime *item, int count, Lifetime *const found[])
{
  int64_t end = 0, best = -1, best_size = INT64_MAX;
  for (int i = 0; i < count; i++) {
    const int64_t gap = found[i]->offset - end;
    if (gap >= item->bytes && gap < best_size) {
      best = end;
      best_size = gap;
    }
    if (found[i]->offset + found[i]->bytes > end) end = found[i]->offset + found[i]->bytes;
  }
  return best >= 0 ? best : end;
}

static RengaErrorCode OpenFiles(int count, Lifetime row[], Files *files)
{
  int last = 0, blocks = 0;
  for (int i = 0; i < count; i++)
    if (row[i].last > last) last = row[i].last;
  for (int level = 0; level == 0 || last >> (level - 1); level++) {
    files->first[level] = blocks;
    blocks += (last >> level) + 1;
    files->levels = level + 1;
  }
  RengaCall(RengaMalloc(blocks, &files->head));
  RengaCall(RengaMalloc(count + 1, &files->next));
  RengaCall(RengaMalloc(count + 1, &files->found));
  for (int b = 0; b < blocks; b++) files->head[b] = -1;
  return RENGA_SUCCESS;
}

static int64_t PlaceInOrder(int count, Lifetime row[], Files *files, Lifetime *order[])
{
  for (int i = 0; i < count; i++) order[i] = &row[i];
  qsort(order, (size_t)count, sizeof *order, CompareStorageBytes);
  int64_t needed = 0;
  for (int i = 0; i < count; i++) {
    order[i]->offset = FindGap(order[i], FindOverlaps(files, order[i]), files->found);
    FileStorage(files, order[i]);
    const int64_t end = order[i]->offset + order[i]->bytes;
    if (end > needed) needed = end;
  }
  return needed;
}

/* Fills the offsets; *bytes is what they need in all. Sizes must be multiples of the alignment. */
RengaErrorCode RengaPlaceLifetimes_Private(int count, Lifetime row[], int64_t *bytes)
{
  Files files = {.row = row};
  Lifetime **order = NULL;
  RengaErrorCode code = RengaMalloc(count + 1, &order);
  if (!code) code = OpenFiles(count, row, &files);
  if (!code) *bytes = PlaceInOrder(count, row, &files, order);
  RengaFree(&order);
  RengaFree(&files.head);
  RengaFree(&files.next);
  RengaFree(&files.found);
  RengaCall(code);
  return RENGA_SUCCESS;
}
