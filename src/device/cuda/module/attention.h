/* What the kernels of attention share: those of any floats, and those of 16-bit ones on tensor
   cores. */
#pragma once
#include "kernel.h"
#include "renga/private/logsum.h"

struct AttentionHead {
  int64_t number, mask, sample, element; /* element: of its first probability in the sample */
};

/* What all kernels get of the operator's arguments. */
struct AttentionCall {
  RengaCudaOperand q, k, v, mask, dy, whole;
  /* Of each query: dy . o; p is exp(score - shift - rest). For tensor cores delta is times the
     scale, and p is 2^(factor (dot - shift) - rest). */
  const float *delta, *shift, *rest;
  Randoms randoms;
  int64_t sample;
  int drops;
};

static __device__ AttentionHead HeadOf(const RengaCudaAttention &s, int64_t number, int64_t sample)
{
  AttentionHead head = {number, 0, sample, 0};
  int64_t places = 1;
  uint32_t rest = (uint32_t)number; /* a grid has no more blocks */
  for (int d = s.dimensions - 1; d >= 0; d--) {
    const uint32_t extent = (uint32_t)s.extent[d], factor = (uint32_t)s.batch_factor;
    const uint32_t index = rest % extent;
    rest /= extent;
    head.mask += index * s.mask_stride[d];
    const bool batch = d == s.batch_dimension;
    head.element += (batch ? index % factor : index) * places;
    places *= batch ? factor : extent;
    if (batch) head.sample += index / factor;
  }
  head.element *= s.queries * s.keys;
  return head;
}

/* The element that the rows of head `number`, of all samples, begin at. */
static __device__ inline int64_t FirstOf(const RengaCudaAttention &s, const RengaCudaHeads &rows,
                                         int64_t number)
{
  const uint32_t heads = (uint32_t)s.heads_of_sample, sample = (uint32_t)number / heads;
  const uint32_t own = (uint32_t)number - sample * heads;
  return rows.first + sample * rows.sample + own / (uint32_t)rows.share * rows.head;
}

static __device__ inline bool SeesKey(const RengaCudaAttention &s, int64_t query, int64_t key)
{
  return query < s.queries && key < s.keys && (!s.causal || key <= query);
}

/* The least dot product that is not -infinity: the smallest floats would overflow. */
#define LEAST_DOT -3e38f

/* What a number of the mask adds to a dot product, which the scale, above 0, is multiplied with
   later. */
static __device__ inline float MaskOfDot(const RengaCudaAttention &s, float mask)
{
  return mask > -INFINITY ? fmaxf(mask * (1 / s.scale), LEAST_DOT) : mask;
}

/* The score of a row's largest dot; of the least one any number that is as large will do. */
static __device__ inline float ScoreOfMost(const RengaCudaAttention &s, float most)
{
  return most == LEAST_DOT ? most : ShiftOf(most) * s.scale;
}

/* 0 or 1 / (1 - ratio) */
static __device__ inline float KeepFactor(const RengaCudaAttention &s, const AttentionCall &call,
                                          const AttentionHead &head, int64_t i, int64_t j)
{
  if (!call.drops) return 1;
  const float u = DrawElement(call.randoms, head.sample, head.element + i * s.keys + j);
  return u < s.ratio ? 0 : 1 / (1 - s.ratio);
}

static inline AttentionCall CallOf(const RengaCudaAttention *s, const RengaCudaContext *context,
                                   const RengaCudaOperand q[], RengaCudaOperand mask)
{
  AttentionCall call = {};
  call.q = q[0];
  call.k = q[1];
  call.v = q[2];
  call.mask = mask;
  call.randoms = RandomsOf(context, s->key);
  call.sample = context->sample;
  call.drops = context->training && s->ratio > 0;
  return call;
}

/* Does the GPU have tensor cores for a call of these types and widths? */
bool RengaCudaHasTensorAttention(const RengaCudaAttention *s, int form);
cudaError_t RengaCudaTensorAttend(cudaStream_t stream, const RengaCudaAttention *s,
                                  const AttentionCall *call, int form, RengaCudaOperand y,
                                  RengaCudaOperand whole_of);
cudaError_t RengaCudaTensorAttendGrad(cudaStream_t stream, const RengaCudaAttention *s,
                                      const AttentionCall *call, int form, RengaCudaOperand dq,
                                      RengaCudaOperand dk, RengaCudaOperand dv);
