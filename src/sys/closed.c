/* Closed memory: pages without any right, but between open and close. What touches them meanwhile
   gets SIGSEGV; the handler here says which block, where in it, and who, and ends the process. */
#include "renga/private/closed.h"
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, STACK_DEPTH = 32, EXIT_TOUCHED = 86 };

typedef struct {
  char *map; /* pages, the first and the last of which are always closed */
  size_t pages_bytes;
  char *start;
  size_t bytes;
  bool freed;
} ClosedBlock;

struct _RengaClosedSpace {
  RengaClosedSpace next;
  const char *name, *work;
  bool open;
  int count, size;
  ClosedBlock *block; /* [count] in the order in which they were given, those that are freed too */
};

static RengaClosedSpace spaces; /* of this process, for the handler */
static struct sigaction former;

static const ClosedBlock *FindBlock(const char *at, RengaClosedSpace *space)
{
  for (RengaClosedSpace s = spaces; s; s = s->next)
    for (int b = 0; b < s->count; b++)
      if (at >= s->block[b].map && at < s->block[b].map + s->block[b].pages_bytes) {
        *space = s;
        return &s->block[b];
      }
  return NULL;
}

static void Tell(const char *at, const ClosedBlock *block, const RengaClosedSpace space)
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
  const ClosedBlock *block = FindBlock(info->si_addr, &space);
  if (block) Tell(info->si_addr, block, space);
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

static RengaErrorCode Protect(const ClosedBlock *block, bool open)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int rights = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  RengaCheck(mprotect(block->map + page, block->pages_bytes - 2 * page, rights) == 0,
             MPI_COMM_SELF, RENGA_ERR_LIBRARY, "mprotect of %zu bytes failed",
             block->pages_bytes);
  return RENGA_SUCCESS;
}

/* The end of the block is as near to the closed page behind it as its alignment allows. */
static RengaErrorCode MapBlock(size_t bytes, ClosedBlock *block)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t inside = (bytes + page - 1) / page * page;
  void *map = mmap(NULL, inside + 2 * page, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
  RengaCall(Protect(block, true));
  memset(block->start, 0xff, bytes);
  if (!space->open) RengaCall(Protect(block, false));
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

static RengaErrorCode ProtectAll(RengaClosedSpace space, bool open)
{
  if (space->open == open) return RENGA_SUCCESS;
  for (int b = 0; b < space->count; b++)
    if (!space->block[b].freed) RengaCall(Protect(&space->block[b], open));
  space->open = open;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedOpen_Private(RengaClosedSpace space)
{
  RengaCall(ProtectAll(space, true));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClosedClose_Private(RengaClosedSpace space)
{
  RengaCall(ProtectAll(space, false));
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
