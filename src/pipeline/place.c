/* Offsets for tensors that live from one position to another: largest first, each into the
   smallest gap between those it overlaps in time (best fit).

   Most lives are short and there may be a hundred thousand, so that those that overlap are found by
   time: a tensor is filed under the smallest aligned block of 2^level positions that holds its
   life, and only blocks that meet a life have what overlaps it. Where that is a large part of all,
   as of what a stage makes again before backward, all are gone through in the order of their
   offsets, which costs less than to sort it. */
#include "program.h"
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MOST = 32, OVERLAPS_FEW = 64, PART_LARGE = 64 };

typedef struct {
  Lifetime *row;
  int levels;
  int first[LEVELS_MOST]; /* of the blocks of each level */
  int *head;              /* [blocks] row that was filed last, -1: none */
  int *next;              /* [rows] filed before it, -1: none */
  Lifetime **found;       /* [rows] that overlap one */
  bool much;              /* lived with the one that was placed last */
  int n_filed;
  Lifetime **filed; /* [rows] as they were filed */
  int n_placed;     /* 0: nobody has asked for: */
  Lifetime *placed; /* [rows] copies of those that are filed, by their offsets */
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

/* Behind all that have no larger offset. */
static void InsertPlaced(Files *files, const Lifetime *item)
{
  int low = 0, high = files->n_placed;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (files->placed[middle].offset <= item->offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(files->placed + low + 1, files->placed + low,
          (size_t)(files->n_placed - low) * sizeof *files->placed);
  files->placed[low] = *item;
  files->n_placed++;
}

static void FileStorage(Files *files, Lifetime *item)
{
  int level = 0;
  while (item->first >> level != item->last >> level) level++;
  int *head = &files->head[files->first[level] + (item->first >> level)];
  files->next[item - files->row] = *head;
  *head = (int)(item - files->row);
  files->filed[files->n_filed++] = item;
  if (files->n_placed > 0) InsertPlaced(files, item);
}

/* Copies of all that are filed, from now on. */
static void SortPlaced(Files *files)
{
  if (files->n_placed > 0) return;
  memcpy(files->found, files->filed, (size_t)files->n_filed * sizeof *files->found);
  qsort(files->found, (size_t)files->n_filed, sizeof *files->found, CompareOffsets);
  for (int i = 0; i < files->n_filed; i++) files->placed[i] = *files->found[i];
  files->n_placed = files->n_filed;
}

static bool LivesWith(const Lifetime *item, const Lifetime *other)
{
  return other->last >= item->first && other->first <= item->last;
}

static int FindOverlaps(Files *files, const Lifetime *item)
{
  int count = 0;
  for (int level = 0; level < files->levels; level++)
    for (int block = item->first >> level; block <= item->last >> level; block++)
      for (int r = files->head[files->first[level] + block]; r >= 0; r = files->next[r])
        if (LivesWith(item, &files->row[r])) files->found[count++] = &files->row[r];
  return count;
}

/* The smallest gap so far, and the end of those that were passed by their offsets. */
typedef struct {
  int64_t end, best, size;
} BestGap;

static void PassPlaced(const Lifetime *item, const Lifetime *other, BestGap *gap)
{
  const int64_t size = other->offset - gap->end, end = other->offset + other->bytes;
  if (size >= item->bytes && size < gap->size) {
    gap->best = gap->end;
    gap->size = size;
  }
  if (end > gap->end) gap->end = end;
}

/* Those that live with it, of all. */
static int PassAll(Files *files, const Lifetime *item, BestGap *gap)
{
  int count = 0;
  SortPlaced(files);
  for (int i = 0; i < files->n_placed; i++) {
    if (!LivesWith(item, &files->placed[i])) continue;
    PassPlaced(item, &files->placed[i], gap);
    count++;
  }
  return count;
}

static bool IsLargePart(const Files *files, int count)
{
  return count > OVERLAPS_FEW && count > files->n_filed / PART_LARGE;
}

/* Where much lived with the one before, much does with this one, and both ways find the same. */
static int64_t FindGap(Files *files, const Lifetime *item)
{
  BestGap gap = {.best = -1, .size = INT64_MAX};
  const int count = files->much ? PassAll(files, item, &gap) : FindOverlaps(files, item);
  if (!files->much && IsLargePart(files, count)) {
    PassAll(files, item, &gap);
  } else if (!files->much) {
    qsort(files->found, (size_t)count, sizeof *files->found, CompareOffsets);
    for (int i = 0; i < count; i++) PassPlaced(item, files->found[i], &gap);
  }
  files->much = IsLargePart(files, count);
  return gap.best >= 0 ? gap.best : gap.end;
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
  RengaCall(RengaMalloc(count + 1, &files->placed));
  RengaCall(RengaMalloc(count + 1, &files->filed));
  for (int b = 0; b < blocks; b++) files->head[b] = -1;
  return RENGA_SUCCESS;
}

static int64_t PlaceInOrder(int count, Lifetime row[], Files *files, Lifetime *order[])
{
  for (int i = 0; i < count; i++) order[i] = &row[i];
  qsort(order, (size_t)count, sizeof *order, CompareStorageBytes);
  int64_t needed = 0;
  for (int i = 0; i < count; i++) {
    order[i]->offset = FindGap(files, order[i]);
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
  RengaFree(&files.placed);
  RengaFree(&files.filed);
  RengaCall(code);
  return RENGA_SUCCESS;
}
