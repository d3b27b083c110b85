/* What the kernels share: loops over elements, sums of threads in a fixed tree, random numbers. */
#pragma once
#include "cuda.h"
#include "../launch.h"
#include "values.h"
#include <math.h>

enum { WARP = 32, ROWS = 8, THREADS = WARP * ROWS };
#define EVERY_LANE 0xffffffffu

/* Blocks of threads that take all of count elements between them, or with RENGA_EACH_FOUR. */
static inline unsigned BlocksFor(int64_t count)
{
  const int64_t blocks = (count + THREADS - 1) / THREADS, most = 8192;
  return (unsigned)(blocks < most ? blocks : most);
}

static inline unsigned BlocksForFours(int64_t count)
{
  return BlocksFor((count + FOUR - 1) / FOUR);
}

#define RENGA_EACH(i, count)                                                                       \
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x,                                 \
               step_ = (int64_t)gridDim.x * blockDim.x;                                            \
       i < (count); i += step_)

/* The first of four neighbours for each thread in turn. */
#define RENGA_EACH_FOUR(i, count)                                                                  \
  for (int64_t i = FOUR * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x),                        \
               step_ = FOUR * (int64_t)gridDim.x * blockDim.x;                                     \
       i < (count); i += step_)

/* Divides by a number that stays the same, at least 1, by a product and a shift (Granlund and
   Montgomery, Division by Invariant Integers using Multiplication, 1994): a division of 64 bits
   takes a hundred instructions. */
struct FastDivisor {
  int64_t by;
  uint64_t factor;
  int shift;
};

static inline FastDivisor FastDivisorOf(int64_t by)
{
  FastDivisor d = {by, 0, 0};
  while (d.shift < 63 && (int64_t)((uint64_t)1 << d.shift) < by) d.shift++;
  const unsigned __int128 more = ((uint64_t)1 << d.shift) - (uint64_t)by;
  d.factor = (uint64_t)((more << 64) / (uint64_t)by + 1);
  return d;
}

/* n: at least 0 */
static __device__ inline int64_t Quotient(int64_t n, const FastDivisor &d)
{
  const uint64_t number = (uint64_t)n;
#ifdef __CUDACC__
  const uint64_t high = __umul64hi(number, d.factor);
#else
  const uint64_t high = (uint64_t)((unsigned __int128)number * d.factor >> 64);
#endif
  return (int64_t)((high + number) >> d.shift);
}

/* n = quotient by + rest */
static __device__ inline int64_t Quotient(int64_t n, const FastDivisor &d, int64_t *rest)
{
  const int64_t quotient = Quotient(n, d);
  *rest = n - quotient * d.by;
  return quotient;
}

/* Of elements [before, channels, pixels]: the channel and the pixel of one, and of the next. */
struct Channels {
  FastDivisor channels, pixels;
};

static inline Channels ChannelsOf(int64_t channels, int64_t pixels)
{
  return {FastDivisorOf(channels), FastDivisorOf(pixels)};
}

struct ChannelPlace {
  int64_t channel, pixel;
  __device__ void Next(const Channels &s)
  {
    if (++pixel < s.pixels.by) return;
    pixel = 0;
    if (++channel == s.channels.by) channel = 0;
  }
};

static __device__ inline ChannelPlace PlaceInChannels(const Channels &s, int64_t i)
{
  ChannelPlace at;
  Quotient(Quotient(i, s.pixels, &at.pixel), s.channels, &at.channel);
  return at;
}

struct AddUp {
  template <class T> static __device__ T Join(T a, T b)
  {
    return a + b;
  }
};
struct TakeMost {
  template <class T> static __device__ T Join(T a, T b)
  {
    return b > a || b != b ? b : a;
  }
};
struct TakeLeast {
  template <class T> static __device__ T Join(T a, T b)
  {
    return b < a || b != b ? b : a;
  }
};

/* All lanes get the same bits: the operation's sides may be exchanged. */
template <class J, class T> static __device__ inline T JoinWarp(T value)
{
  for (int step = WARP / 2; step > 0; step /= 2)
    value = J::Join(value, (T)__shfl_xor_sync(EVERY_LANE, value, step));
  return value;
}

/* A team takes a line: a warp, of which a block of 32 x 8 threads has 8, or the whole block. part:
   shared, a number per warp. */
template <bool WIDE> struct Team {
  static __device__ int64_t Line()
  {
    return WIDE ? (int64_t)blockIdx.x : (int64_t)blockIdx.x * ROWS + threadIdx.y;
  }
  static __device__ int Lane()
  {
    return WIDE ? (int)(threadIdx.y * WARP + threadIdx.x) : (int)threadIdx.x;
  }
  static __device__ int Lanes()
  {
    return WIDE ? (int)THREADS : (int)WARP;
  }
  template <class J, class T> static __device__ T Together(T value, T *part)
  {
    value = JoinWarp<J>(value);
    if (!WIDE) return value;
    __syncthreads(); /* the numbers before were read */
    if (threadIdx.x == 0) part[threadIdx.y] = value;
    __syncthreads();
    value = part[0];
    for (int w = 1; w < ROWS; w++) value = J::Join(value, part[w]);
    return value;
  }
};

/* The first of four neighbours for each lane of a team in turn, along a line of n elements. */
#define RENGA_ALONG(WIDE, i, n)                                                                    \
  for (int64_t i = FOUR * Team<WIDE>::Lane(); i < (n); i += FOUR * Team<WIDE>::Lanes())

static inline dim3 TeamBlock()
{
  return dim3(WARP, ROWS);
}

static inline unsigned TeamGrid(bool wide, int64_t lines)
{
  return (unsigned)(wide ? lines : (lines + ROWS - 1) / ROWS);
}

/* What may be taken off all numbers whose largest is most: finite, or 0. */
static __device__ inline float ShiftOf(float most)
{
  return most > -INFINITY && most < INFINITY ? most : 0;
}

#define LOG2_E 1.4426950408889634f

/* 2^x by the GPU's own approximation, 0 in place of the smallest floats. */
static __device__ inline float PowerOfTwo(float x)
{
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

static __device__ inline int64_t IntegerAt(int wide, const void *values, int64_t i)
{
  return wide ? ((const int64_t *)values)[i] : (int64_t)((const int32_t *)values)[i];
}

/* Philox 4x32-10, as src/device/cpu: element e of sample s has lane e % 4 of counter {e / 4, s,
   step} under a key mixed from the seed and the operator's own. */
struct Randoms {
  uint32_t key[2], step;
  const RengaCudaMoment *moment; /* added to step and sample; NULL: nothing is */
};

static inline Randoms RandomsOf(const RengaCudaContext *context, int64_t key)
{
  uint64_t mix = context->seed + 0x9e3779b97f4a7c15u * ((uint64_t)key + 1);
  mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9u;
  mix = (mix ^ mix >> 27) * 0x94d049bb133111ebu;
  mix ^= mix >> 31;
  Randoms randoms = {
      {(uint32_t)mix, (uint32_t)(mix >> 32)}, (uint32_t)context->step, context->moment};
  return randoms;
}

/* Numbers in [0,1) of elements 4 block … 4 block + 3. */
static __device__ inline void DrawFour(const Randoms &randoms, int64_t sample, int64_t block,
                                       float uniform[4])
{
  uint32_t c[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32), (uint32_t)sample,
                   randoms.step};
  if (randoms.moment) {
    c[2] += (uint32_t)randoms.moment->sample;
    c[3] += (uint32_t)randoms.moment->step;
  }
  uint32_t k0 = randoms.key[0], k1 = randoms.key[1];
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  for (int lane = 0; lane < 4; lane++)
    uniform[lane] = (float)(c[lane] >> 8) * 5.9604644775390625e-8f;
}

static __device__ inline float PickOne(const float uniform[4], int lane)
{
  return lane < 2 ? (lane == 0 ? uniform[0] : uniform[1]) : lane == 2 ? uniform[2] : uniform[3];
}

static __device__ inline float DrawElement(const Randoms &randoms, int64_t sample, int64_t element)
{
  float uniform[4];
  DrawFour(randoms, sample, element / 4, uniform);
  return PickOne(uniform, (int)(element % 4));
}
