/* Closed memory: pages without any right, but where they are opened for a while. A touch elsewhere
   is SIGSEGV; the handler here says which block, where in it, and who, and ends the process. */
#include "renga/private/closed.h"
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, STACK_DEPTH = 32, EXIT_TOUCHED = 86, SMALL = 1 << 20 };

typedef struct {
  char *map; /* pages, the first and the last of which are always closed */
  size_t pages_bytes;
  char *start;
  size_t bytes;
  bool freed, opened, open; /* opened: a part of it is open */
} ClosedBlock;

struct _RengaClosedSpace {
  RengaClosedSpace next;
  const char *name, *work;
  int count, size;
  ClosedBlock *block; /* [count] in the order in which they were given, those that are freed too */
};

static RengaClosedSpace spaces; /* of this process, for the handler */
static struct sigaction former;

static const ClosedBlock *FindClosedBlock(const char *at, RengaClosedSpace *space)
{
  for (RengaClosedSpace s = spaces; s; s = s->next)
    for (int b = 0; b < s->count; b++)
      if (at >= s->block[b].map && at < s->block[b].map + s->block[b].pages_bytes) {
        *space = s;
        return &s->block[b];
      }
  return NULL;
}

static void TellTouch(const char *at, const ClosedBlock *block, const RengaClosedSpace space)
{
  void *stack[STACK_DEPTH];
  char text[512];
  const int size = snprintf(
      text, sizeof text,
      "%s touched memory of device %s: address %p is byte %lld of block %d, which has %zu%s\n",
      space->work ? space->work : "The host", space->name, (const void *)at,
      (long long)(at - block->start), (int)(block - space->block), block->bytes,
      block->freed ? " and is freed" : "");
  if (write(STDERR_FILENO, text, (size_t)size) < 0) _exit(EXIT_TOUCHED);
  backtrace_symbols_fd(stack, backtrace(stack, STACK_DEPTH), STDERR_FILENO);
  _exit(EXIT_TOUCHED);
}

static void HandleTouch(int number, siginfo_t *info, void *context)
{
  RengaClosedSpace space = NULL;
  const ClosedBlock *block = FindClosedBlock(info->si_addr, &space);
  if (block) TellTouch(info->si_addr, block, space);
  if (former.sa_flags & SA_SIGINFO)
    former.sa_sigaction(number, info, context);
  else if (former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN)
    sigaction(SIGSEGV, &former, NULL); /* the fault comes again */
  else
    former.sa_handler(number);
}

static RengaErrorCode CatchTouches(void)
{
  void *stack[1];
  struct sigaction action = {.sa_sigaction = HandleTouch, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  backtrace(stack, 1); /* the first call loads a library, which a handler cannot */
  RengaCheck(sigaction(SIGSEGV, &action, &former) == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "SIGSEGV cannot be handled");
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedCreate_Private(const char *name, RengaClosedSpace *space)
{
  RengaClosedSpace made;
  RengaCall(RengaMalloc(1, &made));
  RengaErrorCode code = spaces ? RENGA_SUCCESS : CatchTouches();
  if (code) RengaFree(&made);
  RengaCall(code);
  made->name = name;
  made->next = spaces;
  spaces = made;
  *space = made;
  return RENGA_SUCCESS;
}

/* Pages of [start, end) inside the block. */
static RengaErrorCode Protect(const ClosedBlock *block, const char *start, const char *end,
                              int rights)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t first = (size_t)(start - block->map) / page * page;
  const size_t bytes = (size_t)(end - block->map) - first;
  RengaCheck(mprotect(block->map + first, bytes, rights) == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "mprotect of %zu bytes failed", bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseBlock(ClosedBlock *block)
{
  block->open = block->opened = false;
  RengaCall(Protect(block, block->start, block->start + block->bytes, PROT_NONE));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenBlock(ClosedBlock *block)
{
  block->open = block->opened = true;
  RengaCall(Protect(block, block->start, block->start + block->bytes, PROT_READ | PROT_WRITE));
  return RENGA_SUCCESS;
}

/* The end of the block is as near to the closed page behind it as its alignment allows. */
static RengaErrorCode MapBlock(size_t bytes, ClosedBlock *block)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t inside = (bytes + page - 1) / page * page;
  void *map =
      mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RengaCheck(map != MAP_FAILED, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes", bytes);
  *block = (ClosedBlock){.map = map, .pages_bytes = inside + 2 * page, .bytes = bytes};
  block->start =
      block->map + page + inside - (bytes + ALIGNMENT - 1) / ALIGNMENT * (size_t)ALIGNMENT;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedMalloc_Private(RengaClosedSpace space, size_t bytes, void **pointer)
{
  if (space->count == space->size) {
    RengaCall(RengaRealloc(2 * space->size + 16, &space->block));
    space->size = 2 * space->size + 16;
  }
  ClosedBlock *block = &space->block[space->count];
  RengaCall(MapBlock(bytes, block));
  RengaCall(OpenBlock(block));
  memset(block->start, 0xff, bytes);
  RengaCall(CloseBlock(block));
  space->count++;
  *pointer = block->start;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedFree_Private(RengaClosedSpace space, void **pointer)
{
  ClosedBlock *block = space->block;
  while (block->start != *pointer) block++;
  void *map = mmap(block->map, block->pages_bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  RengaCheck(map == block->map, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "%zu bytes cannot be given back",
             block->bytes);
  block->freed = true;
  *pointer = NULL;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedOpen_Private(RengaClosedSpace space, const void *at, size_t bytes)
{
  const char *start = at, *end = start + bytes;
  ClosedBlock *block = space->block + space->count - 1;
  if (bytes == 0) return RENGA_SUCCESS;
  while (start < block->start || start >= block->start + block->bytes) block--;
  if (block->open || block->freed) return RENGA_SUCCESS;
  block->opened = true;
  if (block->bytes <= SMALL)
    RengaCall(OpenBlock(block));
  else
    RengaCall(Protect(block, start, end, PROT_READ | PROT_WRITE));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedClose_Private(RengaClosedSpace space)
{
  for (int b = 0; b < space->count; b++)
    if (space->block[b].opened && !space->block[b].freed) RengaCall(CloseBlock(&space->block[b]));
  return RENGA_SUCCESS;
}

void RengaClosedSay_Private(RengaClosedSpace space, const char *work)
{
  space->work = work;
}

void RengaClosedDestroy_Private(RengaClosedSpace *space)
{
  RengaClosedSpace *place = &spaces;
  if (!*space) return;
  while (*place != *space) place = &(*place)->next;
  *place = (*space)->next;
  for (int b = 0; b < (*space)->count; b++)
    munmap((*space)->block[b].map, (*space)->block[b].pages_bytes);
  RengaFree(&(*space)->block);
  RengaFree(space);
  if (!spaces) sigaction(SIGSEGV, &former, NULL);
}
