/* A list of entries grows, and kernels come between what was listed. */
#include "entry.h"

RengaErrorCode RengaEntryAdd_Private(EntryList *list, Entry entry)
{
  if (list->count == list->size) {
    RengaCall(RengaRealloc(2 * list->size + 8, &list->entry));
    list->size = 2 * list->size + 8;
  }
  list->entry[list->count++] = entry;
  return RENGA_SUCCESS;
}

/* An exchange is a row itself: those before it have ended for what stands there, and it starts
   behind that. */
static bool StandsBefore(const Entry *a, const Entry *b)
{
  const int order_a = a->kind == ENTRY_EXCHANGE ? 2 * !a->ends : 1;
  const int order_b = b->kind == ENTRY_EXCHANGE ? 2 * !b->ends : 1;
  return a->first != b->first ? a->first < b->first : order_a < order_b;
}

/* By the rows before which they stand; else they stay as they were listed. */
static void SortEntries(EntryList *list)
{
  for (int e = 1; e < list->count; e++) {
    const Entry entry = list->entry[e];
    int at = e;
    for (; at > 0 && StandsBefore(&entry, &list->entry[at - 1]); at--)
      list->entry[at] = list->entry[at - 1];
    list->entry[at] = entry;
  }
}

static RengaErrorCode AddKernels(EntryList *list, int first, int last)
{
  const Entry kernels = {.kind = ENTRY_KERNELS, .first = first, .last = last, .bucket = -1};
  if (first < last) RengaCall(RengaEntryAdd_Private(list, kernels));
  return RENGA_SUCCESS;
}

/* between: in any order. */
RengaErrorCode RengaEntryPutKernelsBetween_Private(const Sequence *sequence, EntryList *between,
                                                   EntryList *list)
{
  int row = 0;
  SortEntries(between);
  for (int e = 0; e < between->count; e++) {
    const Entry *entry = &between->entry[e];
    RengaCall(AddKernels(list, row, entry->first));
    if (entry->first > row) row = entry->first;
    RengaCall(RengaEntryAdd_Private(list, *entry));
    if (entry->kind == ENTRY_EXCHANGE && !entry->ends) row = entry->first + 1;
  }
  RengaCall(AddKernels(list, row, sequence->count));
  return RENGA_SUCCESS;
}
