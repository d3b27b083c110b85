/* What the programs of this folder share; they are plain users of CUDA. A program ends with 77
   where there is no device. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    const int code_ = (int)(call);                                                                 \
    if (code_) {                                                                                   \
      fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, code_);                  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static inline void NeedDevice(void)
{
  int count = 0;
  if (cudaGetDeviceCount(&count) || count == 0) exit(77);
}

static inline void *OnDevice(const void *data, size_t bytes)
{
  void *made = NULL;
  CUDA(cudaMalloc(&made, bytes));
  if (data) CUDA(cudaMemcpy(made, data, bytes, cudaMemcpyHostToDevice));
  return made;
}

static inline void ToHost(void *to, const void *from, size_t bytes)
{
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

static inline void FillRandom(size_t count, float x[])
{
  unsigned state = 12345;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / (float)(1 << 24) - 0.5f;
  }
}
