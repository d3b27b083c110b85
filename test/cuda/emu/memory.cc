/* Memory of the device: an address range of its own, closed to the host. Each block ends at a
   closed page, begins as NaN, and is never used again once it is freed. */
#include "emu.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, ALIGNMENT = 256, FILL = 0xff };
static const size_t RANGE = (size_t)64 << 30;

std::map<char *, EmuBlock> emu_blocks;
static std::map<char *, EmuBlock> freed;
static std::map<char *, size_t> pinned;
static char *range, *next_free;
static size_t used;
static bool opened;

void EmuReserveMemory()
{
  range =
      (char *)mmap(nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) EmuFail("no address range of %zu bytes", RANGE);
  next_free = (char *)(((uintptr_t)range / HUGE_PAGE + 1) * HUGE_PAGE);
  opened = EmuGetSettings().open_memory;
  madvise(next_free, RANGE - HUGE_PAGE, MADV_HUGEPAGE); /* opened and closed in few steps */
}

void EmuOpenMemory(bool open)
{
  if (opened == open || EmuGetSettings().open_memory) return;
  opened = open;
  for (auto &b : emu_blocks)
    mprotect(b.second.map, b.second.map_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* The last block of the table that begins at `at` or before, or NULL. */
template <class Table> static typename Table::value_type *FindBefore(Table &table, const void *at)
{
  auto b = table.upper_bound((char *)at);
  return b == table.begin() ? nullptr : &*--b;
}

bool EmuDescribeAddress(const char *at, size_t size, char text[])
{
  if (!range || at < range || at >= range + RANGE) return false;
  snprintf(text, size, "%p, which is no memory of the device", (const void *)at);
  for (auto *table : {&emu_blocks, &freed}) {
    auto *b = FindBefore(*table, at);
    if (b && at < b->second.map + b->second.map_bytes + PAGE)
      snprintf(text, size, "byte %td of a block of %zu bytes of the device%s", at - b->first,
               b->second.bytes, table == &freed ? ", which was freed" : "");
  }
  return true;
}

bool EmuIsDevice(const void *pointer, size_t bytes)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  const auto *b = FindBefore(emu_blocks, pointer);
  return b && (const char *)pointer + bytes <= b->first + b->second.bytes;
}

bool EmuIsPinned(const void *pointer, size_t bytes)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  const auto *b = FindBefore(pinned, pointer);
  return b && (const char *)pointer + bytes <= b->first + b->second;
}

void EmuNeedDevice(const char *who, const char *what, const void *pointer, size_t bytes)
{
  if (bytes) EmuNotePointer(pointer);
  if (bytes && !EmuIsDevice(pointer, bytes))
    EmuFail("%s: %s at %p is not %zu bytes of device memory", who, what, pointer, bytes);
}

/* What was written between the start of the first page and the block, or behind it. */
static void CheckFence(const char *who, const char *from, const char *to, const char *start,
                       size_t bytes)
{
  for (const char *c = from; c < to; c++)
    if (*c != (char)FILL)
      EmuFail("%s wrote byte %td of a block of %zu bytes", who, c - start, bytes);
}

/* After each kernel, so that it is named: behind all blocks. */
void EmuCheckFences(const char *who)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  for (auto &b : emu_blocks)
    CheckFence(who, b.first + b.second.bytes, b.second.map + b.second.map_bytes, b.first,
               b.second.bytes);
}

static cudaError_t Allocate(void **pointer, size_t bytes)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (used + bytes > EmuGetSettings().memory) return EmuSetError(cudaErrorMemoryAllocation);
  const size_t unit = bytes >= HUGE_PAGE / 4 ? HUGE_PAGE : PAGE;
  const size_t whole = (bytes + unit - 1) / unit * unit;
  char *map = (char *)(((uintptr_t)next_free + unit - 1) / unit * unit);
  if (map + whole + PAGE > range + RANGE) return EmuSetError(cudaErrorMemoryAllocation);
  next_free = map + whole + PAGE; /* the page between stays closed */
  mprotect(map, whole, PROT_READ | PROT_WRITE);
  memset(map, FILL, whole);
  if (!opened) mprotect(map, whole, PROT_NONE);
  char *start = map + (whole - bytes) / ALIGNMENT * ALIGNMENT;
  emu_blocks[start] = {bytes, map, whole};
  used += bytes;
  *pointer = start;
  return cudaSuccess;
}

cudaError_t EmuFreeBlock(void *pointer)
{
  const auto found = emu_blocks.find((char *)pointer);
  if (found == emu_blocks.end()) return EmuSetError(cudaErrorInvalidValue);
  const auto block = *found;
  const EmuBlock &b = block.second;
  mprotect(b.map, b.map_bytes, PROT_READ | PROT_WRITE);
  CheckFence("somebody", b.map, block.first, block.first, b.bytes);
  CheckFence("somebody", block.first + b.bytes, b.map + b.map_bytes, block.first, b.bytes);
  madvise(b.map, b.map_bytes, MADV_DONTNEED);
  mprotect(b.map, b.map_bytes, PROT_NONE);
  used -= b.bytes;
  freed.insert(block);
  emu_blocks.erase(found);
  return cudaSuccess;
}

static cudaError_t AddPinned(void *pointer, size_t bytes)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  pinned[(char *)pointer] = bytes;
  return cudaSuccess;
}

extern "C" {

#undef cudaMalloc
cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
  EmuStart();
  {
    std::unique_lock<std::mutex> hold(emu_lock);
    if (EmuIsCapturing()) return EmuRefuseCapture();
  }
  if (EmuFault()) return EmuFault();
  return Allocate(pointer, bytes);
}

cudaError_t cudaFree(void *pointer)
{
  if (!pointer) return cudaSuccess;
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuWaitAll(hold);
  return EmuFreeBlock(pointer);
}

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t)
{
  EmuStart();
  return Allocate(pointer, bytes);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
  return EmuQueue(stream, "cudaFreeAsync", [=] {
    std::unique_lock<std::mutex> hold(emu_lock);
    if (EmuFreeBlock(pointer)) EmuFail("cudaFreeAsync: %p is no block", pointer);
    return true;
  });
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
  EmuStart();
  if (EmuFault()) return EmuFault();
  *total = EmuGetSettings().memory;
  *left = *total - used;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned)
{
  EmuStart();
  {
    std::unique_lock<std::mutex> hold(emu_lock);
    if (EmuIsCapturing()) return EmuRefuseCapture();
  }
  *pointer = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
  if (!*pointer) return EmuSetError(cudaErrorMemoryAllocation);
  memset(*pointer, FILL, bytes);
  return AddPinned(*pointer, bytes);
}

cudaError_t cudaFreeHost(void *pointer)
{
  if (!pointer) return cudaSuccess;
  std::unique_lock<std::mutex> hold(emu_lock);
  if (!pinned.count((char *)pointer)) return EmuSetError(cudaErrorInvalidValue);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuWaitAll(hold);
  pinned.erase((char *)pointer);
  free(pointer);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned)
{
  EmuStart();
  return AddPinned(pointer, bytes);
}

cudaError_t cudaHostUnregister(void *pointer)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  EmuWaitAll(hold);
  return pinned.erase((char *)pointer) ? cudaSuccess
                                       : EmuSetError(cudaErrorHostMemoryNotRegistered);
}
}
