/* Calls with 16-bit floats in some places beside the same calls in float32: inputs have the same
   values, outputs must be those of float32, rounded. */
#pragma once
#include "../check.h"
#include "guard.h"
#include "renga/private/kernel.h"
#include "rengadevice.h"
#include <math.h>

enum { MOST_LOW = 16 };

/* data: of the host */
typedef struct {
  RengaOpCall op;
  RengaTensorSpec spec[2 * MOST_LOW]; /* of inputs, then of outputs */
  void *data[2 * MOST_LOW];
} Variant;

static inline RengaErrorCode NewTensor(const RengaTensorSpec *spec, void **data)
{
  char *bytes = NULL;
  *data = NULL;
  if (spec->ndim < 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(RengaTensorSpecBytes(spec) + 1, &bytes));
  *data = bytes;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode FreeVariant(Variant *v)
{
  for (int p = 0; p < 2 * MOST_LOW; p++) RengaFree(&v->data[p]);
  return RENGA_SUCCESS;
}

/* Two variants of a float32 call: tensors of the mask (bit p: of inputs, then outputs) are of the
   type in low; wide has float32, and inputs of the same values. host: has the host's memory. */
static inline RengaErrorCode MakeVariants(RengaDevice host, const RengaOpCall *op,
                                          const void *const input[], RengaDataType type,
                                          unsigned mask, Variant *wide, Variant *low)
{
  Expect(op->n_in < MOST_LOW && op->n_out < MOST_LOW);
  memset(wide, 0, sizeof *wide);
  memset(low, 0, sizeof *low);
  for (int p = 0; p < op->n_in + op->n_out; p++) {
    const RengaTensorSpec *spec = p < op->n_in ? &op->in[p] : &op->out[p - op->n_in];
    const bool change = spec->ndim >= 0 && spec->type == RENGA_FLOAT32 && (mask >> p & 1);
    wide->spec[p] = low->spec[p] = *spec;
    if (change) low->spec[p].type = type;
    RengaCall(NewTensor(&wide->spec[p], &wide->data[p]));
    RengaCall(NewTensor(&low->spec[p], &low->data[p]));
    if (p >= op->n_in || spec->ndim < 0) continue;
    const int64_t count = RengaTensorSpecCount(spec);
    memcpy(wide->data[p], input[p], RengaTensorSpecBytes(spec));
    RengaCall(RengaDeviceConvert(host, NULL, count, spec->type, wide->data[p], low->spec[p].type,
                                 low->data[p]));
    RengaCall(RengaDeviceConvert(host, NULL, count, low->spec[p].type, low->data[p], spec->type,
                                 wide->data[p]));
  }
  wide->op = low->op = *op;
  wide->op.in = wide->spec;
  wide->op.out = wide->spec + op->n_in;
  low->op.in = low->spec;
  low->op.out = low->spec + op->n_in;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode PutTensor(RengaDevice device, const Variant *v, int p, void **place)
{
  const size_t bytes = v->spec[p].ndim >= 0 ? RengaTensorSpecBytes(&v->spec[p]) : 0;
  *place = NULL;
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCall(RengaDeviceMalloc(device, bytes, place));
  if (p < v->op.n_in)
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, *place, v->data[p], bytes));
  return RENGA_SUCCESS;
}

/* On the device; output 0 over input alias, -1: not. */
static inline RengaErrorCode RunVariant(RengaDevice device, RengaKernel kernel,
                                        const RengaKernelContext *context, int alias, Variant *v)
{
  const int n_in = v->op.n_in, count = n_in + v->op.n_out;
  void *place[2 * MOST_LOW] = {NULL}, *own = NULL;
  char *workspace = NULL;
  RengaCall(NewWorkspace(device, kernel, &workspace));
  for (int p = 0; p < count; p++) RengaCall(PutTensor(device, v, p, &place[p]));
  if (alias >= 0) own = place[n_in], place[n_in] = place[alias];
  RengaCall(
      RengaKernelRun(kernel, NULL, context, (const void *const *)place, place + n_in, workspace));
  for (int p = n_in; p < count; p++)
    if (place[p])
      RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, v->data[p], place[p],
                                RengaTensorSpecBytes(&v->spec[p])));
  RengaCall(RengaStreamSynchronize(device, NULL));
  if (alias >= 0) place[n_in] = own;
  for (int p = 0; p < count; p++) RengaCall(RengaDeviceFree(device, &place[p]));
  RengaCall(FreeWorkspace(device, kernel, workspace));
  return RENGA_SUCCESS;
}

/* The unit in the last place of a number in the type. */
static inline double UnitOf(RengaDataType type, double value)
{
  int exponent = 0;
  frexp(value, &exponent);
  if (type == RENGA_BFLOAT16) return ldexp(1, (exponent < -125 ? -125 : exponent) - 8);
  if (type == RENGA_FLOAT16) return ldexp(1, (exponent < -13 ? -13 : exponent) - 11);
  return 0;
}

/* What roundings on the way may add to an error on the cuda device, as a part of the largest value:
   attention on tensor cores rounds probabilities and gradients of scores before they are
   multiplied, cuBLASLt takes the bias in the type of the result, gradients of norms are rounded
   before they are added to others, and sums before they are normalised. */
static inline double RoundingOnCuda(const char *op, RengaDataType type)
{
  const bool attention = strstr(op, "Attention") != NULL;
  const bool added = strncmp(op, "Add", 3) == 0 && strstr(op, "Normalization") != NULL;
  const bool norm = added || strstr(op, "NormalizationGrad") != NULL;
  const bool convolved = getenv("EMU_CUDNN") && strcmp(op, "Conv") == 0; /* before the bias */
  if (!attention && !norm && !convolved && strcmp(op, "Linear") != 0) return 0;
  return ldexp(1, type == RENGA_BFLOAT16 ? -8 : -11);
}

/* On any device: attention by AMX rounds as that of tensor cores does, and a normalisation rounds
   before it adds something and takes ReLU. */
static inline double RoundingOf(RengaDevice device, bool cuda, const char *op, RengaDataType type)
{
  char text[512] = "";
  if (cuda) return RoundingOnCuda(op, type);
  if (strcmp(op, "BatchNormalizationRelu") == 0) return ldexp(1, type == RENGA_BFLOAT16 ? -8 : -11);
  RengaDeviceDescribe(device, sizeof text, text);
  const bool amx = type == RENGA_BFLOAT16 && strstr(text, "with amx") != NULL;
  return amx && strncmp(op, "Attention", 9) == 0 ? RoundingOnCuda(op, type) : 0;
}

/* The first element of output o that is further from float32's than a unit in the last place of its
   type, and the part that tolerance is of the largest value; -1: none. */
static inline int64_t FindFar(RengaDevice host, const Variant *wide, const Variant *low, int o,
                              double tolerance)
{
  const int p = wide->op.n_in + o;
  const RengaTensorSpec *spec = &wide->spec[p];
  const int64_t count = RengaTensorSpecCount(spec);
  const float *want = wide->data[p];
  float *got = NULL, *rounded = NULL;
  uint16_t *half = NULL;
  double largest = 0;
  int64_t i = -1;
  if (spec->type != RENGA_FLOAT32)
    return memcmp(want, low->data[p], RengaTensorSpecBytes(spec)) == 0 ? -1 : 0;
  if (RengaMalloc(count + 1, &got) || RengaMalloc(count + 1, &rounded) ||
      RengaMalloc(2 * count + 1, &half))
    return 0;
  const RengaDataType type = low->spec[p].type;
  RengaDeviceConvert(host, NULL, count, type, low->data[p], RENGA_FLOAT32, got);
  RengaDeviceConvert(host, NULL, count, RENGA_FLOAT32, want, type, half);
  RengaDeviceConvert(host, NULL, count, type, half, RENGA_FLOAT32, rounded);
  for (i = 0; i < count; i++)
    if (isfinite(want[i]) && fabs(want[i]) > largest) largest = fabs(want[i]);
  for (i = 0; i < count; i++) {
    const double room = UnitOf(type, want[i]) + tolerance * largest;
    if (isnan(want[i]) && isnan(got[i])) continue;
    if (!(got[i] == rounded[i] || fabs((double)got[i] - want[i]) <= room)) break;
  }
  RengaFree(&got);
  RengaFree(&rounded);
  RengaFree(&half);
  return i < count ? i : -1;
}
