/* The memory ledger: each block knows who asked for it, so that a leak is an error with a place. */
#include "renga/private/fault.h"
#include "renga/private/open.h"
#include "sys.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT ((size_t)64)
#define GUARD UINT64_C(0x52656e67614d656d)

/* Stands in the 64 bytes before each block. */
typedef struct MemoryBlock {
  uint64_t guard;
  size_t bytes;
  struct MemoryBlock *previous, *next;
  const char *function, *file;
  void *origin; /* what calloc gave */
  int line;
  unsigned number; /* blocks are counted as they are given */
} MemoryBlock;

static struct {
  pthread_mutex_t lock;
  MemoryBlock *first;
  size_t bytes, peak;
  int64_t blocks;
  unsigned last; /* number of the newest block */
  unsigned told; /* blocks up to this number were in a report of what was not freed */
  bool keeps;
} ledger = {PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0, 0, 0, 0, false};

void RengaMemoryKeep(bool keep)
{
  ledger.keeps = keep;
}

static void Enter(MemoryBlock *block)
{
  pthread_mutex_lock(&ledger.lock);
  block->number = ++ledger.last;
  block->next = ledger.first;
  if (ledger.first) ledger.first->previous = block;
  ledger.first = block;
  ledger.bytes += block->bytes;
  if (ledger.bytes > ledger.peak) ledger.peak = ledger.bytes;
  ledger.blocks++;
  pthread_mutex_unlock(&ledger.lock);
}

static void LeaveLedger(MemoryBlock *block)
{
  pthread_mutex_lock(&ledger.lock);
  if (block->previous)
    block->previous->next = block->next;
  else
    ledger.first = block->next;
  if (block->next) block->next->previous = block->previous;
  ledger.bytes -= block->bytes;
  ledger.blocks--;
  pthread_mutex_unlock(&ledger.lock);
}

/* NULL where RengaMalloc did not give the pointer. */
static MemoryBlock *BlockOf(void *pointer)
{
  MemoryBlock *block = (MemoryBlock *)((char *)pointer - ALIGNMENT);
  const bool aligned = (uintptr_t)pointer % ALIGNMENT == 0;
  return aligned && block->guard == GUARD ? block : NULL;
}

static RengaErrorCode RaiseForeign(const void *pointer)
{
  RengaRaise(
      MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
      "memory at %p was not given by RengaMalloc, was freed before, or what stands before it "
      "was overwritten; it is left as it is",
      pointer);
}

/*@
   RengaMemoryAllocate - a zeroed block of memory, 64-byte aligned; use RengaMalloc(count, &pointer)

   Input:
   . count, size - the number of elements, at least 0, and bytes of each
   . function, file, line - the place of the call; lines are numbered from 1

   Output:
   . pointer_to_pointer - the block; never NULL, also for count 0

   Errors: RENGA_ERR_MEMORY, and the pointer is NULL then.

   Notes: free with RengaFree(&pointer). Pages are touched only when they are used.

   See also: RengaMemoryGrow(), RengaMemoryFree(), RengaMemoryGetUsage()
@*/
RengaErrorCode RengaMemoryAllocate(size_t count, size_t size, const char *function,
                                   const char *file, int line, void *pointer_to_pointer)
{
  _Static_assert(sizeof(MemoryBlock) <= 64, "the header stands within one alignment");
  size_t bytes = 0, whole = 0;
  bool fits = !__builtin_mul_overflow(count, size, &bytes) &&
              !__builtin_add_overflow(bytes, 2 * ALIGNMENT, &whole);
  if (RengaFaultIsDue(RENGA_FAULT_ALLOCATION)) fits = false;
  char *origin = fits ? calloc(1, whole) : NULL;
  if (origin == NULL)
    return RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY, function, file, line,
                           "no room for %zu elements of %zu bytes; %zu bytes are in use", count,
                           size, ledger.bytes),
           RENGA_ERR_MEMORY;
  size_t past = (size_t)(uintptr_t)origin % ALIGNMENT;
  char *pointer = origin + ALIGNMENT + (past == 0 ? 0 : ALIGNMENT - past);
  MemoryBlock *block = (MemoryBlock *)(pointer - ALIGNMENT);
  *block = (MemoryBlock){GUARD, bytes, NULL, NULL, function, file, origin, line, 0};
  Enter(block);
  memcpy(pointer_to_pointer, &pointer, sizeof pointer);
  return RENGA_SUCCESS;
}

/*@
   RengaMemoryGrow - change the length of a block; use RengaRealloc(count, &pointer)

   Input:
   . count, size - the new number of elements, at least 0, and bytes of each
   . function, file, line - the place of the call; lines are numbered from 1

   Output:
   . pointer_to_pointer - the block, moved; NULL on entry is allowed. What was added is zeroed

   Errors: RENGA_ERR_MEMORY, and the old block stays; RENGA_ERR_ARGUMENT for memory that
   RengaMalloc did not give, or that was written over.

   Notes: the old block stays valid where this fails.

   See also: RengaMemoryAllocate(), RengaMemoryFree()
@*/
RengaErrorCode RengaMemoryGrow(size_t count, size_t size, const char *function, const char *file,
                               int line, void *pointer_to_pointer)
{
  void *old, *grown;
  memcpy(&old, pointer_to_pointer, sizeof old);
  if (old != NULL && BlockOf(old) == NULL) RengaCall(RaiseForeign(old));
  RengaErrorCode code = RengaMemoryAllocate(count, size, function, file, line, &grown);
  if (code != RENGA_SUCCESS) return code;
  if (old != NULL) {
    size_t before = BlockOf(old)->bytes, after = BlockOf(grown)->bytes;
    memcpy(grown, old, before < after ? before : after);
    RengaMemoryFree(&old);
  }
  memcpy(pointer_to_pointer, &grown, sizeof grown);
  return RENGA_SUCCESS;
}

/*@
   RengaMemoryFree - free a block of RengaMalloc; use RengaFree(&pointer)

   Output:
   . pointer_to_pointer - set to NULL; may point at NULL

   Errors: a pointer that RengaMalloc did not give is reported to the handler of errors, and left.

   See also: RengaMemoryAllocate(), RengaMemoryGetUsage()
@*/
void RengaMemoryFree(void *pointer_to_pointer)
{
  void *pointer, *nothing = NULL;
  memcpy(&pointer, pointer_to_pointer, sizeof pointer);
  if (pointer == NULL) return;
  MemoryBlock *block = BlockOf(pointer);
  if (block == NULL) {
    RaiseForeign(pointer);
    return;
  }
  LeaveLedger(block);
  block->guard = 0;
  if (!ledger.keeps) free(block->origin);
  memcpy(pointer_to_pointer, &nothing, sizeof nothing);
}

/*@
   RengaMemoryGetUsage - what RengaMalloc has given and not got back

   Output:
   . bytes - bytes that are taken now, at least 0
   . peak_bytes - the most bytes so far, at least 0
   . blocks - the number of blocks now, at least 0

   Notes: any of the pointers may be NULL.

   See also: RengaMemoryAllocate(), RengaMemoryResident()
@*/
void RengaMemoryGetUsage(size_t *bytes, size_t *peak_bytes, int64_t *blocks)
{
  if (bytes) *bytes = ledger.bytes;
  if (peak_bytes) *peak_bytes = ledger.peak;
  if (blocks) *blocks = ledger.blocks;
}

/*@
   RengaMemoryResident - resident bytes of this process

   Notes: 0 where the system does not say.

   See also: RengaMemoryGetUsage()
@*/
size_t RengaMemoryResident(void)
{
  FILE *file = RengaFileOpen_Private("/proc/self/statm", "r");
  if (file == NULL) return 0;
  size_t all = 0, resident = 0;
  int read = fscanf(file, "%zu %zu", &all, &resident);
  fclose(file);
  return read == 2 ? resident * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

unsigned RengaMemoryGetMark(void)
{
  return ledger.last;
}

int64_t RengaMemoryListSince(unsigned mark, size_t size, char text[])
{
  int64_t count = 0;
  size_t used = 0;
  text[0] = 0;
  for (const MemoryBlock *block = ledger.first; block; block = block->next) {
    if (block->number <= mark) continue;
    count++;
    const int wrote = snprintf(text + used, size - used, "\n    %zu bytes from %s() at %.200s:%d",
                               block->bytes, block->function, block->file, block->line);
    if (used + (size_t)wrote < size) used += (size_t)wrote;
    text[used] = 0;
  }
  return count;
}

RengaErrorCode RengaMemoryFinish(void)
{
  enum { LISTED = 10 };
  char text[4096] = "";
  int used = 0;
  long long blocks = 0;
  size_t bytes = 0;
  for (const MemoryBlock *block = ledger.first; block; block = block->next) {
    if (block->number <= ledger.told) continue;
    bytes += block->bytes;
    if (blocks++ < LISTED)
      used += snprintf(text + used, sizeof text - (size_t)used,
                       "\n    %zu bytes from %s() at %.200s:%d", block->bytes, block->function,
                       block->file, block->line);
  }
  ledger.told = ledger.last;
  RengaCheck(blocks == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%lld blocks (%zu bytes) were not freed:%s%s", blocks, bytes, text,
             blocks > LISTED ? "\n    ..." : "");
  return RENGA_SUCCESS;
}

/*@
   RengaStringCopy - a copy of a string

   Input:
   . text - the string; NULL gives NULL

   Output:
   . copy - free with RengaFree(&copy)

   Errors: RENGA_ERR_MEMORY.

   See also: RengaMemoryFree()
@*/
RengaErrorCode RengaStringCopy(const char *text, char **copy)
{
  char *fresh = NULL;
  if (text != NULL) {
    RengaCall(RengaMalloc(strlen(text) + 1, &fresh));
    strcpy(fresh, text);
  }
  *copy = fresh;
  return RENGA_SUCCESS;
}
