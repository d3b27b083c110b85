/* Floats of a type that a kernel is compiled for, or, as Values<void>, of one that it looks at: one
   at a time, or four neighbours. They are read as float32, and rounded to nearest even where they
   are stored; the bits are those of include/renga/private/low.h. */
#pragma once
#include "../shapes.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static __device__ inline float Widened(float x)
{
  return x;
}

static __device__ inline float Widened(__nv_bfloat16 x)
{
  return __bfloat162float(x);
}

static __device__ inline float Widened(__half x)
{
  return __half2float(x);
}

template <class T> static __device__ inline T Rounded(float x)
{
  return x;
}

template <> __device__ inline __nv_bfloat16 Rounded<__nv_bfloat16>(float x)
{
  return __float2bfloat16_rn(x);
}

template <> __device__ inline __half Rounded<__half>(float x)
{
  return __float2half_rn(x);
}

enum { FOUR = 4 };
template <class T> struct alignas(FOUR * sizeof(T)) Four {
  T at[FOUR];
};

template <class T> struct Values {
  T *data;
  __device__ explicit Values(const RengaCudaOperand &operand) : data((T *)operand.data)
  {
  }
  __device__ float operator[](int64_t i) const
  {
    return Widened(data[i]);
  }
  __device__ void Put(int64_t i, float value) const
  {
    data[i] = Rounded<T>(value);
  }
  /* What is there once the value is stored. */
  __device__ float Stored(float value) const
  {
    return Widened(Rounded<T>(value));
  }
  /* May four be read or written at once? */
  __device__ bool IsWhole(int64_t i) const
  {
    return (uintptr_t)(data + i) % sizeof(Four<T>) == 0;
  }
  /* Neighbours from i on, of which `left` are there; in place of the others stands `none`. */
  __device__ Four<float> Get(int64_t i, int64_t left, float none = 0) const
  {
    Four<float> values;
    if (left >= FOUR && IsWhole(i)) {
      const Four<T> found = *(const Four<T> *)(data + i);
      for (int k = 0; k < FOUR; k++) values.at[k] = Widened(found.at[k]);
    } else
      for (int k = 0; k < FOUR; k++) values.at[k] = k < left ? Widened(data[i + k]) : none;
    return values;
  }
  __device__ void Put(int64_t i, int64_t left, const Four<float> &values) const
  {
    if (left >= FOUR && IsWhole(i)) {
      Four<T> made;
      for (int k = 0; k < FOUR; k++) made.at[k] = Rounded<T>(values.at[k]);
      *(Four<T> *)(data + i) = made;
    } else
      for (int k = 0; k < FOUR && k < left; k++) data[i + k] = Rounded<T>(values.at[k]);
  }
};

/* What it does, a Values of its type does. */
#define BY_TYPE(call)                                                                              \
  type == RENGA_CUDA_FLOAT32    ? Values<float>(*this).call                                        \
  : type == RENGA_CUDA_BFLOAT16 ? Values<__nv_bfloat16>(*this).call                                \
                                : Values<__half>(*this).call
template <> struct Values<void> : RengaCudaOperand {
  __device__ explicit Values(const RengaCudaOperand &operand) : RengaCudaOperand(operand)
  {
  }
  __device__ float operator[](int64_t i) const
  {
    return BY_TYPE(operator[](i));
  }
  __device__ void Put(int64_t i, float value) const
  {
    BY_TYPE(Put(i, value));
  }
  __device__ float Stored(float value) const
  {
    return BY_TYPE(Stored(value));
  }
  __device__ Four<float> Get(int64_t i, int64_t left, float none = 0) const
  {
    return BY_TYPE(Get(i, left, none));
  }
  __device__ void Put(int64_t i, int64_t left, const Four<float> &values) const
  {
    BY_TYPE(Put(i, left, values));
  }
};
#undef BY_TYPE

static inline size_t SizeOfFloat(RengaCudaType type)
{
  return type == RENGA_CUDA_FLOAT32 ? sizeof(float) : sizeof(__half);
}

/* Which of a kernel's forms takes operands of these types: that of the one type of those that are
   there, or the last one. */
enum { VALUE_FORMS = 4 };
template <class... Operand> static inline int FormFor(const Operand &...operand)
{
  int form = -1;
  for (const RengaCudaOperand *o : {&operand...})
    if (o->data) form = form < 0 || form == (int)o->type ? (int)o->type : VALUE_FORMS - 1;
  return form < 0 ? 0 : form;
}
/* Forms of a kernel, a template whose last parameter is the type: of the only one, or behind
   another one. */
#define RENGA_FORMS(kernel)                                                                        \
  {                                                                                                \
    kernel<float>, kernel<__nv_bfloat16>, kernel<__half>, kernel<void>                             \
  }
#define RENGA_FORMS_OF(kernel, other)                                                              \
  {                                                                                                \
    kernel<other, float>, kernel<other, __nv_bfloat16>, kernel<other, __half>, kernel<other, void> \
  }

/* Elements i to i + 3 of a line of n, which begins at base and goes on by stride. */
template <class T>
static __device__ inline Four<float> GetAlong(const Values<T> &x, int64_t base, int64_t stride,
                                              int64_t i, int64_t n, float none)
{
  if (stride == 1) return x.Get(base + i, n - i, none);
  Four<float> values;
  for (int k = 0; k < FOUR; k++) values.at[k] = i + k < n ? x[base + (i + k) * stride] : none;
  return values;
}

template <class T>
static __device__ inline void PutAlong(const Values<T> &y, int64_t base, int64_t stride, int64_t i,
                                       int64_t n, const Four<float> &values)
{
  if (stride == 1) {
    y.Put(base + i, n - i, values);
    return;
  }
  for (int k = 0; k < FOUR && i + k < n; k++) y.Put(base + (i + k) * stride, values.at[k]);
}
