/* Products of a warp on tensor cores, of 16 x 16 by 16 x 8 numbers of 16 bits with sums in float32
   (PTX ISA, mma.m16n8k16), and how shared memory is read for them (ldmatrix). Lane l has in a left
   factor rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next one, and both 8 further; in a
   right factor these columns are its rows, and l / 4 its column; of the sums it has these rows, and
   columns 2 (l % 4) and the next one. Without nvcc the same goes by shuffles. */
#pragma once
#include "kernel.h"
#include <string.h>

/* The first GPUs that have them for bfloat16, too. */
enum { MATRIX_CAPABILITY = 80 };

/* Two numbers of T, the first one in the lower half. */
template <class T> static __device__ inline uint32_t PackTwo(float first, float second);
template <> __device__ inline uint32_t PackTwo<__nv_bfloat16>(float first, float second)
{
  const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
  uint32_t bits;
  memcpy(&bits, &two, sizeof bits);
  return bits;
}
template <> __device__ inline uint32_t PackTwo<__half>(float first, float second)
{
  const __half2 two = __floats2half2_rn(first, second);
  uint32_t bits;
  memcpy(&bits, &two, sizeof bits);
  return bits;
}

#ifdef __CUDACC__
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
#define RENGA_MATRIX_CODE(...) __VA_ARGS__
#else
#define RENGA_MATRIX_CODE(...)
#endif

/* 16 bytes to shared memory, or zeros; they are there behind WaitForCopies. */
static __device__ inline void CopySixteen(uint16_t *to, const uint16_t *from, bool there)
{
  const uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
  RENGA_MATRIX_CODE(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                                 :
                                 : "r"(place), "l"(from), "r"(there ? 16 : 0)
                                 : "memory");)
}

/* The same of 4 bytes. */
static __device__ inline void CopyFour(float *to, const float *from, bool there)
{
  const uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
  RENGA_MATRIX_CODE(asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                                 :
                                 : "r"(place), "l"(from), "r"(there ? 4 : 0)
                                 : "memory");)
}

static __device__ inline void WaitForCopies()
{
  RENGA_MATRIX_CODE(asm volatile("cp.async.wait_all;" ::: "memory");)
}

/* Four matrices of 8 x 8; row: of matrix l / 8, row l % 8. */
template <bool TURNED>
static __device__ inline void LoadMatrices(uint32_t at[4], const uint16_t *row)
{
  const uint32_t place = (uint32_t)__cvta_generic_to_shared(row);
  if (TURNED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(at[0]), "=r"(at[1]), "=r"(at[2]), "=r"(at[3])
                 : "r"(place)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(at[0]), "=r"(at[1]), "=r"(at[2]), "=r"(at[3])
                 : "r"(place)
                 : "memory");
}

#define RENGA_MULTIPLY(type)                                                                       \
  RENGA_MATRIX_CODE(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type            \
                                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"      \
                                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])          \
                                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),         \
                                   "r"(right[0]), "r"(right[1]));)
template <class T>
static __device__ inline void Multiply(float sum[4], const uint32_t left[4],
                                       const uint32_t right[2]);
template <>
__device__ inline void Multiply<__nv_bfloat16>(float sum[4], const uint32_t left[4],
                                               const uint32_t right[2])
{
  RENGA_MULTIPLY("bf16")
}
template <>
__device__ inline void Multiply<__half>(float sum[4], const uint32_t left[4],
                                        const uint32_t right[2])
{
  RENGA_MULTIPLY("f16")
}

#else

static inline void CopySixteen(uint16_t *to, const uint16_t *from, bool there)
{
  EmuCopyLate(to, there ? from : NULL, 16);
}

static inline void CopyFour(float *to, const float *from, bool there)
{
  EmuCopyLate(to, there ? from : NULL, 4);
}

static inline void WaitForCopies()
{
  EmuWaitForLate();
}

template <bool TURNED> static inline void LoadMatrices(uint32_t at[4], const uint16_t *row)
{
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  for (int m = 0; m < 4; m++) {
    const uint16_t *one = __shfl_sync(EVERY_LANE, row, 8 * m + (TURNED ? pair : group));
    const uint16_t *next = __shfl_sync(EVERY_LANE, row, 8 * m + (TURNED ? pair + 1 : group));
    at[m] = TURNED ? one[group] | (uint32_t)next[group] << 16
                   : one[pair] | (uint32_t)next[pair + 1] << 16;
  }
}

template <class T> static inline float HalfOf(uint32_t two, int which)
{
  const uint16_t bits = (uint16_t)(two >> 16 * which);
  T value;
  memcpy((void *)&value, &bits, sizeof value);
  return Widened(value);
}

template <class T>
static inline void Multiply(float sum[4], const uint32_t left[4], const uint32_t right[2])
{
  const int lane = threadIdx.x, group = lane / 4 * 4, pair = lane % 4 * 2;
  for (int k = 0; k < 4; k++) { /* the lane that has terms 2 k, 2 k + 1, 2 k + 8, 2 k + 9 */
    uint32_t a[4], b[2][2];
    for (int i = 0; i < 4; i++) a[i] = __shfl_sync(EVERY_LANE, left[i], group + k);
    for (int c = 0; c < 2; c++)
      for (int i = 0; i < 2; i++) b[c][i] = __shfl_sync(EVERY_LANE, right[i], (pair + c) * 4 + k);
    for (int e = 0; e < 4; e++)
      for (int h = 0; h < 4; h++)
        sum[e] += HalfOf<T>(a[e / 2 + h / 2 * 2], h % 2) * HalfOf<T>(b[e % 2][h / 2], h % 2);
  }
}
#endif
