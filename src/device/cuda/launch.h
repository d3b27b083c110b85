/* How a .cu file launches its kernels, for nvcc and for the emulator of test/cuda (which defines
   these macros itself). RENGA_LAUNCH's value is a cudaError_t. */
#pragma once
#include <cuda_runtime.h>

#ifdef __CUDACC__
#define RENGA_LAUNCH(kernel, grid, block, shared, stream, ...)                                     \
  (kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__), cudaPeekAtLastError())
/* Memory of the block, of as many bytes as the launch said. */
#define RENGA_DYNAMIC_SHARED(type, name)                                                           \
  extern __shared__ __align__(16) unsigned char renga_shared_bytes[];                              \
  type *name = reinterpret_cast<type *>(renga_shared_bytes)
#endif
