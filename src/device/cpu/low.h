/* Runs of floats of any type (float32, bfloat16, float16) as runs of float32: where they are in
   place, else in a buffer of the thread that stays in its cache. A kernel reads its inputs so, gets
   a place for its output, and writes that once it is there. */
#pragma once
#include "cpu.h"
#include "renga/private/low.h"

/* Elements of a buffer for elementwise work; a few of them fit on the stack. */
enum { RENGA_CPU_RUN = 1024 };

/* type: of 16 bits */
void RENGA_ISA_NAME(RengaCpuWiden)(RengaDataType type, int64_t count, const void *x, float *y);
void RENGA_ISA_NAME(RengaCpuNarrow)(RengaDataType type, int64_t count, const float *x, void *y);
#define RengaCpuWiden RENGA_ISA_NAME(RengaCpuWiden)
#define RengaCpuNarrow RENGA_ISA_NAME(RengaCpuNarrow)

static inline bool RengaCpuIsFloat(RengaDataType type)
{
  return type == RENGA_FLOAT32 || RengaDeviceIsLow(type);
}

/* Are all inputs from the given one on, and all outputs, absent or floats of these types? */
static inline bool RengaCpuAllFloats(const RengaOpCall *call, int first)
{
  for (int p = first; p < call->n_in + call->n_out; p++) {
    const RengaTensorSpec *spec = p < call->n_in ? &call->in[p] : &call->out[p - call->n_in];
    if (spec->ndim >= 0 && !RengaCpuIsFloat(spec->type)) return false;
  }
  return true;
}

/* count elements of x from one on */
static inline const float *RengaCpuRead(RengaDataType type, const void *x, int64_t first,
                                        int64_t count, float *buffer)
{
  if (type == RENGA_FLOAT32) return (const float *)x + first;
  RengaCpuWiden(type, count, (const uint16_t *)x + first, buffer);
  return buffer;
}

/* Where elements of y from one on are made, before RengaCpuWrite. */
static inline float *RengaCpuPlace(RengaDataType type, void *y, int64_t first, float *buffer)
{
  return type == RENGA_FLOAT32 ? (float *)y + first : buffer;
}

static inline void RengaCpuWrite(RengaDataType type, void *y, int64_t first, int64_t count,
                                 const float *buffer)
{
  if (type != RENGA_FLOAT32) RengaCpuNarrow(type, count, buffer, (uint16_t *)y + first);
}

/* One element. */
static inline float RengaCpuGet(RengaDataType type, const void *x, int64_t i)
{
  if (type == RENGA_FLOAT32) return ((const float *)x)[i];
  const uint16_t bits = ((const uint16_t *)x)[i];
  return type == RENGA_BFLOAT16 ? RengaLowFromBrain(bits) : RengaLowFromHalf(bits);
}

static inline void RengaCpuPut(RengaDataType type, void *y, int64_t i, float value)
{
  if (type == RENGA_FLOAT32)
    ((float *)y)[i] = value;
  else
    ((uint16_t *)y)[i] = type == RENGA_BFLOAT16 ? RengaLowToBrain(value) : RengaLowToHalf(value);
}

/* One element of an input of a call, and of an output, if that is wanted. */
static inline float RengaCpuGetOf(const RengaOpCall *call, const void *const in[], int i,
                                  int64_t element)
{
  return RengaCpuGet(call->in[i].type, in[i], element);
}

static inline void RengaCpuPutOf(const RengaOpCall *call, void *const out[], int o, int64_t element,
                                 double value)
{
  if (o < call->n_out && out[o]) RengaCpuPut(call->out[o].type, out[o], element, (float)value);
}
