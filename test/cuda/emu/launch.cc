/* Launches: CUDA's limits, the order of blocks and threads, and what changes with it. */
#include "emucuda.h"
#include "emu.h"
#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <unordered_map>

static std::unordered_map<const void *, size_t> shared_limit; /* of functions; emu_lock */
static uint64_t random_state = 0x9e3779b97f4a7c15ull;

void EmuCheckPointer(const char *kernel, int number, const void *pointer)
{
  EmuStart();
  EmuNotePointer(pointer);
  if (pointer && !EmuIsDevice(pointer, 0) && !EmuIsPinned(pointer, 1))
    EmuFail("kernel %s: argument %d, %p, is no memory of the device", kernel, number, pointer);
}

static uint64_t DrawCoprime(uint64_t n)
{
  for (;;) {
    const uint64_t a = EmuNextRandom(&random_state) % n + 1;
    if (std::gcd(a, n) == 1) return a;
  }
}

/* 0 where nobody asks. */
static double ThreadSeconds()
{
  timespec now = {};
  if (!EmuGetSettings().longest.empty()) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One block does alone what many could share. */
static void CheckTime(const EmuGrid &grid, uint64_t block, double seconds)
{
  const std::string &longest = EmuGetSettings().longest;
  const size_t end = longest.find(':');
  if (end == std::string::npos || longest.substr(0, end) != grid.kernel) return;
  const double most = atof(longest.c_str() + end + 1);
  if (1e3 * seconds > most)
    EmuFail("block %" PRIu64 " of kernel %s takes %.1f ms, more than %g", block, grid.kernel,
            1e3 * seconds, most);
}

static void RunGrid(const EmuGrid &grid, EmuOrder order)
{
  const int threads = (int)(grid.block.x * grid.block.y * grid.block.z);
  const uint64_t blocks = (uint64_t)grid.grid.x * grid.grid.y * grid.grid.z;
  const uint64_t a = DrawCoprime(blocks), b = EmuNextRandom(&random_state) % blocks;
  static int thread[EMU_THREADS];
  for (int t = 0; t < threads; t++) thread[t] = order == EMU_REVERSE ? threads - 1 - t : t;
  EmuBeginGrid(grid);
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t block = i;
    if (order == EMU_REVERSE) block = blocks - 1 - i;
    if (order == EMU_RANDOM) block = (uint64_t)(((unsigned __int128)i * a + b) % blocks);
    for (int t = threads; order == EMU_RANDOM && i % 16 == 0 && t > 1; t--)
      std::swap(thread[t - 1], thread[EmuNextRandom(&random_state) % (unsigned)t]);
    const double begin = ThreadSeconds();
    EmuRunBlock(block, thread, order == EMU_RANDOM, &random_state);
    CheckTime(grid, block, ThreadSeconds() - begin);
  }
  EmuEndGrid();
  EmuCheckFences(grid.kernel);
}

typedef std::map<char *, std::string> Memory;

static Memory SaveMemory()
{
  Memory saved;
  std::unique_lock<std::mutex> hold(emu_lock);
  for (const auto &b : emu_blocks) saved[b.first] = std::string(b.first, b.second.bytes);
  return saved;
}

/* The same bytes whatever the order, or there is a race, or a sum by atomic operations. */
static void RunBothWays(const EmuGrid &grid)
{
  const Memory before = SaveMemory();
  RunGrid(grid, EMU_FORWARD);
  const Memory after = SaveMemory();
  for (const auto &b : before) memcpy(b.first, b.second.data(), b.second.size());
  RunGrid(grid, EMU_REVERSE);
  for (const auto &a : after) {
    const auto differs = std::mismatch(a.second.begin(), a.second.end(), a.first);
    if (differs.first != a.second.end())
      EmuFail("kernel %s depends on the order of its threads (a race, or an atomic sum): byte %td "
              "of a block of %zu bytes",
              grid.kernel, differs.first - a.second.begin(), a.second.size());
  }
}

static bool IsLegal(dim3 grid, dim3 block)
{
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  return threads > 0 && threads <= EMU_THREADS && block.z <= 64 && grid.x > 0 && grid.y > 0 &&
         grid.z > 0 && grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535;
}

static size_t SharedLimit(const void *function)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  const auto found = shared_limit.find(function);
  return found == shared_limit.end() ? 48 * 1024 : found->second;
}

cudaError_t EmuLaunch(const char *kernel, const void *function, dim3 grid, dim3 block,
                      size_t shared, cudaStream_t stream, std::function<void()> body)
{
  if (!IsLegal(grid, block)) return EmuSetError(cudaErrorInvalidConfiguration);
  if (shared > SharedLimit(function)) return EmuSetError(cudaErrorInvalidValue);
  const bool hangs = EmuFails("hang"), faults = EmuFails("kernel");
  return EmuQueue(stream, std::string("kernel ") + kernel, [=]() -> bool {
    if (hangs) return false;
    if (faults) EmuSetFault();
    if (faults) return true;
    const EmuGrid whole = {kernel, grid, block, shared, &body};
    const EmuOrder order = EmuGetSettings().order;
    if (order == EMU_CHECK)
      RunBothWays(whole);
    else
      RunGrid(whole, order);
    return true;
  });
}

#undef cudaFuncSetAttribute
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
    EmuFail("cudaFuncSetAttribute: attribute %d is not emulated", (int)attribute);
  if (value < 0 || value > EMU_SHARED) return EmuSetError(cudaErrorInvalidValue);
  std::unique_lock<std::mutex> hold(emu_lock);
  shared_limit[function] = (size_t)value;
  return cudaSuccess;
}
