/* Threads of a block as fibers. A thread runs until it waits for others (a barrier, an operation of
   its warp) or ends; a fiber whose thread has ended takes the next one, so that a kernel without
   barriers costs a call per thread and no switch. Lanes of a warp do not go in step. */
#include "emucuda.h"
#include "emu.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

EmuIndex emu_thread, emu_block, emu_block_size, emu_grid_size;

/* Switches stacks: what the ABI wants kept is pushed on the old one and popped from the new one. */
extern "C" void EmuSwitch(void **save, void *load);
asm(".text\n.globl EmuSwitch\n.hidden EmuSwitch\n.type EmuSwitch,@function\nEmuSwitch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size EmuSwitch,.-EmuSwitch\n");

/* Stacks begin at different lines of the cache. */
enum { STACK = 64 * 1024 + 192, FENCE = 64, FENCE_BYTE = 0xa5, MOST_MASKS = 4 };

/* Of a thread that has not waited for it. from NULL: zeros. */
struct LateCopy {
  void *to;
  const void *from;
  size_t bytes;
};
struct Fiber {
  void *stack;
  int thread;
  EmuIndex index;
  std::vector<LateCopy> late;
};

/* Of the lanes of one mask. Values of two meetings, as some lanes still read those of the last. */
struct Meeting {
  unsigned mask, arrived;
  int phase;
  uint64_t value[2][32];
  int fiber[32];
  const char *file;
  int line;
};
struct Warp {
  int count;
  Meeting meeting[MOST_MASKS];
};
struct List {
  int count, fiber[EMU_THREADS];
};

static Fiber fiber[EMU_THREADS];
static Warp warp[EMU_THREADS / 32];
static List idle, ready, waiting; /* waiting: at the barrier */
static char *stacks, *dynamic_shared;
static void *scheduler;
static int current, fibers_made;
static const int *thread_order;
static int n_threads, n_started, n_live;
static bool shuffled;
static uint64_t *random_state;
static const EmuGrid *grid;
static const char *barrier_file;
static int barrier_line;
static std::vector<std::pair<char *, char *>> shared_sections;

void EmuRegisterShared(char *begin, char *end)
{
  for (const auto &s : shared_sections)
    if (s.first == begin) return;
  shared_sections.push_back({begin, end});
}

void *EmuDynamicShared()
{
  return dynamic_shared;
}

unsigned EmuLane()
{
  return (unsigned)fiber[current].thread & 31;
}

bool EmuDescribeThread(size_t size, char text[])
{
  if (grid)
    snprintf(text, size, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", grid->kernel,
             emu_block.x, emu_block.y, emu_block.z, emu_thread.x, emu_thread.y, emu_thread.z);
  return grid;
}

static EmuIndex IndexOf(unsigned i, const EmuIndex &size)
{
  return {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
}

static bool IsElsewhere(const char *file, int line, const char *here, int here_line)
{
  return line != here_line || (file != here && strcmp(file, here) != 0);
}

static void Push(List *list, int which)
{
  list->fiber[list->count++] = which;
}

/* Straight to another fiber that can go on, else to the scheduler. */
static void Suspend()
{
  Fiber *me = &fiber[current];
  void *to = scheduler;
  if (ready.count) {
    const int next = ready.fiber[--ready.count];
    if (next == current) return;
    current = next;
    to = fiber[next].stack;
  }
  EmuSwitch(&me->stack, to);
  emu_thread = me->index;
}

/* All that wait at the barrier may go on; the last of `ready` goes first. */
static void Release()
{
  for (int i = waiting.count; shuffled && i > 1; i--)
    std::swap(waiting.fiber[i - 1], waiting.fiber[EmuNextRandom(random_state) % (unsigned)i]);
  for (int i = waiting.count - 1; i >= 0; i--) Push(&ready, waiting.fiber[i]);
  waiting.count = 0;
  barrier_file = nullptr;
}

void EmuBarrier(const char *file, int line)
{
  if (barrier_file && IsElsewhere(barrier_file, barrier_line, file, line))
    EmuFail("threads of a block are at different barriers: %s:%d and %s:%d", barrier_file,
            barrier_line, file, line);
  barrier_file = file;
  barrier_line = line;
  if (waiting.count + 1 == n_live && !shuffled) {
    Release(); /* the last to come goes on */
    return;
  }
  Push(&waiting, current);
  if (waiting.count == n_live) Release();
  Suspend();
}

static Meeting *FindMeeting(Warp *w, unsigned mask, const char *file, int line)
{
  for (int i = 0; i < w->count; i++)
    if (w->meeting[i].mask == mask) return &w->meeting[i];
  if (w->count == MOST_MASKS)
    EmuFail("%s:%d: more than %d masks in a warp", file, line, MOST_MASKS);
  Meeting *made = &w->meeting[w->count++];
  *made = Meeting{};
  made->mask = mask;
  return made;
}

const uint64_t *EmuMeet(unsigned mask, uint64_t value, const char *file, int line)
{
  const int thread = fiber[current].thread, lane = thread & 31;
  if (!(mask >> lane & 1))
    EmuFail("%s:%d: lane %d is not in its own mask %08x", file, line, lane, mask);
  Meeting *m = FindMeeting(&warp[thread / 32], mask, file, line);
  if (m->arrived && IsElsewhere(m->file, m->line, file, line))
    EmuFail("lanes of a warp are at different operations: %s:%d and %s:%d", m->file, m->line, file,
            line);
  m->file = file;
  m->line = line;
  const uint64_t *all = m->value[m->phase];
  m->value[m->phase][lane] = value;
  m->fiber[lane] = current;
  m->arrived |= 1u << lane;
  if (m->arrived != mask) {
    Suspend();
    return all;
  }
  m->phase ^= 1;
  m->arrived = 0;
  for (int l = 31; l >= 0; l--)
    if (l != lane && (mask >> l & 1)) Push(&ready, m->fiber[l]);
  return all;
}

/* Until the thread waits there is no number at the target. */
void EmuCopyLate(void *to, const void *from, size_t bytes)
{
  memset(to, 0xff, bytes);
  fiber[current].late.push_back({to, from, bytes});
}

void EmuWaitForLate()
{
  for (const LateCopy &copy : fiber[current].late)
    if (copy.from)
      memcpy(copy.to, copy.from, copy.bytes);
    else
      memset(copy.to, 0, copy.bytes);
  fiber[current].late.clear();
}

/* Thread after thread, until others that wait should go on. */
static void FiberMain()
{
  const int me = current;
  for (;;) {
    while (n_started < n_threads && !ready.count) {
      fiber[me].thread = thread_order[n_started++];
      fiber[me].late.clear();
      emu_thread = fiber[me].index = IndexOf((unsigned)fiber[me].thread, emu_block_size);
      (*grid->body)();
      n_live--;
      if (waiting.count && waiting.count == n_live) Release();
    }
    Push(&idle, me);
    EmuSwitch(&fiber[me].stack, scheduler);
  }
}

static int TakeFiber()
{
  if (idle.count) return idle.fiber[--idle.count];
  const int made = fibers_made++;
  if (!stacks)
    stacks = (char *)mmap(nullptr, (size_t)EMU_THREADS * STACK, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) EmuFail("no memory for the stacks of %d threads", EMU_THREADS);
  void **top = (void **)((uintptr_t)(stacks + (size_t)(made + 1) * STACK) & ~(uintptr_t)15);
  *--top = nullptr; /* FiberMain begins as after a call */
  *--top = (void *)FiberMain;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  fiber[made].stack = top;
  return made;
}

/* Nobody can go on: who waits where? */
[[noreturn]] static void ReportHang()
{
  std::string what;
  char text[256];
  if (waiting.count) {
    snprintf(text, sizeof text, " %d of %d threads wait at the barrier %s:%d;", waiting.count,
             n_live, barrier_file, barrier_line);
    what += text;
  }
  for (int w = 0; w < (n_threads + 31) / 32; w++)
    for (int i = 0; i < warp[w].count && what.size() < 600; i++) {
      const Meeting *m = &warp[w].meeting[i];
      if (!m->arrived) continue;
      snprintf(text, sizeof text, " warp %d: lanes %08x of mask %08x wait at %s:%d;", w, m->arrived,
               m->mask, m->file, m->line);
      what += text;
    }
  EmuFail("a block hangs:%s", what.c_str());
}

static int NextFiber()
{
  if (ready.count) return ready.fiber[--ready.count];
  if (n_started == n_threads) ReportHang();
  return TakeFiber();
}

static void BeginShared()
{
  for (const auto &s : shared_sections) memset(s.first, 0xff, (size_t)(s.second - s.first));
  memset(dynamic_shared, 0xff, grid->shared);
  memset(dynamic_shared + grid->shared, FENCE_BYTE, FENCE);
}

static void CheckShared()
{
  for (size_t i = grid->shared; i < grid->shared + FENCE; i++)
    if ((unsigned char)dynamic_shared[i] != FENCE_BYTE)
      EmuFail("byte %zu of dynamic shared memory is written, which has %zu bytes", i, grid->shared);
}

void EmuBeginGrid(const EmuGrid &begun)
{
  grid = &begun;
  emu_grid_size = {begun.grid.x, begun.grid.y, begun.grid.z};
  emu_block_size = {begun.block.x, begun.block.y, begun.block.z};
  n_threads = (int)(begun.block.x * begun.block.y * begun.block.z);
  if (!dynamic_shared) dynamic_shared = (char *)aligned_alloc(128, EMU_SHARED / 128 * 128 + 256);
}

void EmuEndGrid()
{
  grid = nullptr;
}

void EmuRunBlock(uint64_t block, const int order[], bool shuffle, uint64_t *random)
{
  emu_block = {(unsigned)(block % emu_grid_size.x),
               (unsigned)(block / emu_grid_size.x % emu_grid_size.y),
               (unsigned)(block / emu_grid_size.x / emu_grid_size.y)};
  thread_order = order;
  shuffled = shuffle;
  random_state = random;
  n_started = 0;
  n_live = n_threads;
  for (int w = 0; w < (n_threads + 31) / 32; w++) warp[w].count = 0;
  BeginShared();
  while (n_live > 0) {
    current = NextFiber();
    EmuSwitch(&scheduler, fiber[current].stack);
  }
  CheckShared();
}
