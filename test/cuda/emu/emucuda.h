/* CUDA C++ for g++: what a .cu file needs beside NVIDIA's own headers (g++ -x c++ -include
   emucuda.h). Threads are fibers; a barrier or a warp's operation is a meeting of those who must
   come. Host code in C includes nothing from here. */
#pragma once
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#undef __shared__
#define __shared__ static __attribute__((section("emu_shared")))
#undef __launch_bounds__
#define __launch_bounds__(...)

struct EmuIndex {
  unsigned x, y, z;
};
extern EmuIndex emu_thread, emu_block, emu_block_size, emu_grid_size;
#define threadIdx emu_thread
#define blockIdx emu_block
#define blockDim emu_block_size
#define gridDim emu_grid_size
static const int warpSize = 32;

[[noreturn]] void EmuFail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void EmuBarrier(const char *file, int line);
/* All lanes of mask meet. Returns the 32 values they brought, whole until this lane's next call. */
const uint64_t *EmuMeet(unsigned mask, uint64_t value, const char *file, int line);
unsigned EmuLane();
void *EmuDynamicShared();
/* As cp.async and the wait for it: the bytes, or zeros in place of NULL, are there when this thread
   has waited; others need a barrier, too. */
void EmuCopyLate(void *to, const void *from, size_t bytes);
void EmuWaitForLate();
void EmuRegisterShared(char *begin, char *end);
/* A pointer that is an argument of a kernel: memory that kernels may touch, or the end. */
void EmuCheckPointer(const char *kernel, int number, const void *pointer);
cudaError_t EmuLaunch(const char *kernel, const void *function, dim3 grid, dim3 block,
                      size_t shared, cudaStream_t stream, std::function<void()> body);

#define __syncthreads() EmuBarrier(__FILE__, __LINE__)
#define __syncwarp(...) EmuMeet(EmuMask(__VA_ARGS__), 0, __FILE__, __LINE__)
static inline unsigned EmuMask(unsigned mask = 0xffffffffu)
{
  return mask;
}

template <class T> static inline uint64_t EmuPack(T value)
{
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "8 bytes at most");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

/* The lane that is read must be in the mask: on a GPU its value is undefined otherwise. */
template <class T>
static inline T EmuShuffle(unsigned mask, T value, unsigned from, const char *file, int line)
{
  const uint64_t *all = EmuMeet(mask, EmuPack(value), file, line);
  if (from >= 32) return value;
  if (!(mask >> from & 1))
    EmuFail("%s:%d: lane %u reads lane %u, which is not in mask %08x", file, line, EmuLane(), from,
            mask);
  memcpy(&value, &all[from], sizeof value);
  return value;
}
#define __shfl_sync(mask, value, lane)                                                             \
  EmuShuffle(mask, value, (unsigned)(lane)&31, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                                         \
  EmuShuffle(mask, value, EmuLane() ^ (unsigned)(bits), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, by)                                                          \
  EmuShuffle(mask, value, EmuLane() + (unsigned)(by), __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, by)                                                            \
  EmuShuffle(mask, value, EmuLane() - (unsigned)(by), __FILE__, __LINE__)

static inline unsigned EmuBallot(unsigned mask, bool yes, const char *file, int line)
{
  const uint64_t *all = EmuMeet(mask, yes, file, line);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; lane++)
    if (mask >> lane & 1) bits |= (unsigned)(all[lane] & 1) << lane;
  return bits;
}
#define __ballot_sync(mask, yes) EmuBallot(mask, yes, __FILE__, __LINE__)
#define __any_sync(mask, yes) (EmuBallot(mask, yes, __FILE__, __LINE__) != 0)
#define __all_sync(mask, yes) (EmuBallot(mask, yes, __FILE__, __LINE__) == (mask))

/* One thread of the process runs all kernels, so that plain operations are atomic. */
template <class T> static inline T atomicAdd(T *at, T value)
{
  const T old = *at;
  *at = old + value;
  return old;
}
template <class T> static inline T atomicMax(T *at, T value)
{
  const T old = *at;
  if (value > old) *at = value;
  return old;
}
template <class T> static inline T atomicMin(T *at, T value)
{
  const T old = *at;
  if (value < old) *at = value;
  return old;
}
template <class T> static inline T atomicCAS(T *at, T expected, T value)
{
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
static inline void __threadfence()
{
}
static inline void __threadfence_system()
{
}
#define __ffs(bits) __builtin_ffs(bits)
#define __popc(bits) __builtin_popcount(bits)
template <class T> static inline T __ldg(const T *at)
{
  return *at;
}
#define rsqrtf(x) (1.0f / sqrtf(x))

/* A pointer, or a struct with one of this name. */
template <class P, class = void> struct EmuHasData : std::false_type {
};
template <class P> struct EmuHasData<P, std::void_t<decltype(P::data)>> : std::true_type {
};
template <class P>
static inline void EmuCheckArgument(const char *kernel, int number, const P &value)
{
  if constexpr (std::is_pointer<P>::value)
    EmuCheckPointer(kernel, number, (const void *)value);
  else if constexpr (EmuHasData<P>::value)
    EmuCheckPointer(kernel, number, (const void *)value.data);
  else
    (void)kernel, (void)number, (void)value;
}
template <class... P, class... A>
static inline cudaError_t EmuLaunchTyped(const char *name, void (*kernel)(P...), dim3 grid,
                                         dim3 block, size_t shared, cudaStream_t stream, A &&...a)
{
  std::tuple<P...> arguments(static_cast<P>(a)...);
  int number = 0;
  std::apply([&](const P &...p) { (EmuCheckArgument(name, ++number, p), ...); }, arguments);
  return EmuLaunch(name, (const void *)kernel, grid, block, shared, stream,
                   [kernel, arguments] { std::apply(kernel, arguments); });
}
#define RENGA_LAUNCH(kernel, grid, block, shared, stream, ...)                                     \
  (EmuLaunchTyped(#kernel, kernel, grid, block, shared, stream, __VA_ARGS__), cudaPeekAtLastError())
#define RENGA_DYNAMIC_SHARED(type, name) type *name = (type *)EmuDynamicShared()

/* The shared variables of all files of a program or module are one section. */
extern "C" char __start_emu_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emu_shared[] __attribute__((weak, visibility("hidden")));
static struct EmuSharedOfThisFile {
  EmuSharedOfThisFile()
  {
    if (__start_emu_shared) EmuRegisterShared(__start_emu_shared, __stop_emu_shared);
  }
} emu_shared_of_this_file;
