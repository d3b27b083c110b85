/* TEST ranks: 1 */
/* 16-bit floats on every device: all patterns are widened exactly, and what lies between two of
   them is rounded to the nearer one, ties to the even one; updates leave values beside parameters.
   The numbers of the patterns are found here by their definition. With -device_type cuda on that
   device alone (test/cuda/device.sh). */
#include "../check.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <float.h>
#include <math.h>
#include <stdint.h>

enum { PATTERNS = 1 << 16 };
typedef struct {
  RengaDataType type;
  int exponent, fraction; /* bits */
} Format;
static const Format formats[] = {{RENGA_BFLOAT16, 8, 7}, {RENGA_FLOAT16, 5, 10}};

/* Of a pattern with sign 0 that may be the next one behind the largest, as if it were finite. */
static double SizeOf(const Format *f, int pattern)
{
  const int exponent = pattern >> f->fraction, fraction = pattern & ((1 << f->fraction) - 1);
  const int least = 2 - (1 << (f->exponent - 1)) - f->fraction; /* power of the smallest number */
  if (exponent == 0) return ldexp(fraction, least);
  return ldexp(fraction + (1 << f->fraction), least + exponent - 1);
}

static int InfinityOf(const Format *f)
{
  return ((1 << f->exponent) - 1) << f->fraction;
}

static bool IsNan(const Format *f, uint16_t pattern)
{
  return (pattern & 0x7fff) > InfinityOf(f);
}

/* x, of the host, on the device, converted, and back. */
static RengaErrorCode ConvertOn(RengaDevice device, int64_t count, RengaDataType from,
                                const void *x, RengaDataType to, void *y)
{
  const size_t bytes_x = (size_t)count * RengaDataTypeSize(from);
  const size_t bytes_y = (size_t)count * RengaDataTypeSize(to);
  char *source = NULL, *target = NULL, guard[8];
  RengaCall(RengaDeviceMalloc(device, bytes_x, &source));
  RengaCall(RengaDeviceMalloc(device, bytes_y + sizeof guard, &target));
  RengaCall(RengaDeviceSetBytes(device, NULL, target + bytes_y, 0x5a, sizeof guard));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, source, x, bytes_x));
  RengaCall(RengaDeviceConvert(device, NULL, count, from, source, to, target));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, y, target, bytes_y));
  RengaCall(
      RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, guard, target + bytes_y, sizeof guard));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (size_t i = 0; i < sizeof guard; i++) Expect(guard[i] == 0x5a);
  RengaCall(RengaDeviceFree(device, &source));
  RengaCall(RengaDeviceFree(device, &target));
  return RENGA_SUCCESS;
}

/* All patterns, there and back. */
static RengaErrorCode CheckPatterns(RengaDevice device, const Format *f)
{
  static uint16_t pattern[PATTERNS], back[PATTERNS];
  static float wide[PATTERNS];
  for (int p = 0; p < PATTERNS; p++) pattern[p] = (uint16_t)p;
  RengaCall(ConvertOn(device, PATTERNS, f->type, pattern, RENGA_FLOAT32, wide));
  RengaCall(ConvertOn(device, PATTERNS, RENGA_FLOAT32, wide, f->type, back));
  for (int p = 0; p < PATTERNS; p++) {
    const int size = p & 0x7fff;
    const double value = size == InfinityOf(f) ? (double)INFINITY : SizeOf(f, size);
    if (IsNan(f, pattern[p])) {
      Expect(isnan(wide[p]) && IsNan(f, back[p]));
      continue;
    }
    Expect((double)wide[p] == (p > 0x7fff ? -value : value));
    Expect(!signbit(wide[p]) == (p <= 0x7fff) && back[p] == pattern[p]);
  }
  return RENGA_SUCCESS;
}

/* What lies half-way between neighbours, and next to that on both sides, with both signs. */
static RengaErrorCode CheckRounding(RengaDevice device, const Format *f)
{
  enum { EACH = 6 };
  static float wide[EACH * PATTERNS];
  static uint16_t got[EACH * PATTERNS], want[EACH * PATTERNS];
  int64_t count = 0;
  for (int p = 0; p < InfinityOf(f); p++) {
    const float middle = (float)((SizeOf(f, p) + SizeOf(f, p + 1)) / 2);
    const float x[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
    const int nearer[3] = {p, p % 2 ? p + 1 : p, p + 1};
    for (int k = 0; k < EACH; k++) {
      wide[count] = k % 2 ? -x[k / 2] : x[k / 2];
      want[count++] = (uint16_t)(nearer[k / 2] | (k % 2 ? 0x8000 : 0));
    }
  }
  RengaCall(ConvertOn(device, count, RENGA_FLOAT32, wide, f->type, got));
  for (int64_t i = 0; i < count; i++)
    RengaCheck(got[i] == want[i], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%.9g is %#x in %s, and should be %#x", (double)wide[i], got[i],
               RengaDataTypeName(f->type), want[i]);
  return RENGA_SUCCESS;
}

/* Far outside of the range, and floats with any bits set in what is cut off. */
static RengaErrorCode CheckSpecial(RengaDevice device, const Format *f)
{
  uint32_t bits[] = {0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff, 0x7f80ffff};
  float nan[5], wide[] = {FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, FLT_TRUE_MIN, -0.0f};
  const uint16_t infinite = (uint16_t)InfinityOf(f), minus = 0x8000;
  const uint16_t want[] = {infinite, minus | infinite, infinite, minus | infinite, 0, minus};
  uint16_t got[6];
  memcpy(nan, bits, sizeof nan);
  RengaCall(ConvertOn(device, 5, RENGA_FLOAT32, nan, f->type, got));
  for (int i = 0; i < 5; i++) Expect(IsNan(f, got[i]));
  RengaCall(ConvertOn(device, 6, RENGA_FLOAT32, wide, f->type, got));
  for (int i = 0; i < 6; i++) Expect(got[i] == want[i]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCopies(RengaDevice device)
{
  const int64_t x[3] = {5, -7, INT64_MAX};
  int64_t y[3] = {0, 0, 0};
  float none = 3;
  RengaCall(ConvertOn(device, 3, RENGA_INT64, x, RENGA_INT64, y));
  Expect(memcmp(x, y, sizeof x) == 0);
  RengaCall(RengaDeviceConvert(device, NULL, 0, RENGA_FLOAT32, &none, RENGA_FLOAT16, &none));
  Expect(none == 3);
  ExpectError(RengaDeviceConvert(device, NULL, 1, RENGA_BFLOAT16, x, RENGA_FLOAT16, y),
              RENGA_ERR_SUPPORT, "a conversion of bfloat16 to float16 vectors is not supported");
  ExpectError(RengaDeviceConvert(device, NULL, 1, RENGA_FLOAT64, x, RENGA_FLOAT32, y),
              RENGA_ERR_SUPPORT, "a conversion of float64 to float32 vectors is not supported");
  return RENGA_SUCCESS;
}

/* Memory of an update on the device. */
enum { SHORT = 37, LONG = 40001, VECTORS = 4, MOST_VALUES = 4 * LONG };
typedef struct {
  float *vector[VECTORS]; /* parameter, gradient, moments */
  char *value;
} Numbers;

static RengaErrorCode MakeNumbers(RengaDevice device, Numbers *x)
{
  static float start[LONG];
  for (int v = 0; v < VECTORS; v++) {
    RengaRandomUniform(3, (uint64_t)v, 0, LONG, start);
    RengaCall(RengaDeviceMalloc(device, sizeof start, &x->vector[v]));
    RengaCall(
        RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, x->vector[v], start, sizeof start));
    RengaCall(RengaStreamSynchronize(device, NULL));
  }
  RengaCall(RengaDeviceMalloc(device, MOST_VALUES, &x->value));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeNumbers(RengaDevice device, Numbers *x)
{
  for (int v = 0; v < VECTORS; v++) RengaCall(RengaDeviceFree(device, &x->vector[v]));
  RengaCall(RengaDeviceFree(device, &x->value));
  return RENGA_SUCCESS;
}

/* Two rows: [0, SHORT) and the rest. */
static void FillUpdates(const Numbers *x, RengaDataType type, bool momentum,
                        RengaParameterUpdate update[2])
{
  for (int u = 0; u < 2; u++) {
    const int64_t at = u ? SHORT : 0, count = u ? LONG - SHORT : SHORT;
    update[u] = (RengaParameterUpdate){.rate_scale = 1, .weight_decay = 0.1};
    update[u].parameter = (RengaVector){x->vector[0] + at, RENGA_FLOAT32, count};
    update[u].gradient = (RengaVector){x->vector[1] + at, RENGA_FLOAT32, count};
    for (int m = 0; m < 2 && momentum; m++)
      update[u].moment[m] = (RengaVector){x->vector[2 + m] + at, RENGA_FLOAT32, count};
    update[u].value = (RengaVector){x->value + (size_t)at * RengaDataTypeSize(type), type, count};
  }
}

/* After an update values are the parameters, rounded. rule: Adam, SGD with momentum, without. */
static RengaErrorCode CheckValues(RengaDevice device, RengaDevice ref, int rule, RengaDataType type)
{
  const RengaAdamStep adam = {0.02, 0.9, 0.999, 1e-8, true, 3};
  const RengaSgdStep sgd = {0.2, rule == 1 ? 0.9 : 0, 0, false, false};
  const size_t bytes = LONG * RengaDataTypeSize(type);
  static float parameter[LONG], first;
  static char value[MOST_VALUES], want[MOST_VALUES];
  RengaParameterUpdate update[2];
  Numbers x;
  RengaCall(MakeNumbers(device, &x));
  FillUpdates(&x, type, rule < 2, update);
  RengaRandomUniform(3, 0, 0, 1, &first);
  if (rule == 0)
    RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 0.5, 2, update));
  else
    RengaCall(RengaDeviceUpdateSgd(device, NULL, &sgd, 0.5, 2, update));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, parameter, x.vector[0],
                            sizeof parameter));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, value, x.value, bytes));
  RengaCall(RengaStreamSynchronize(device, NULL));
  Expect(parameter[0] != first);
  RengaCall(RengaDeviceConvert(ref, NULL, LONG, RENGA_FLOAT32, parameter, type, want));
  Expect(memcmp(value, want, bytes) == 0);
  update[1].value.count--;
  ExpectError(RengaDeviceUpdateSgd(device, NULL, &sgd, 0.5, 2, update), RENGA_ERR_ARGUMENT,
              "update 1 of 2: 39964 elements have values of 39963");
  update[1].value.type = RENGA_INT32;
  ExpectError(RengaDeviceUpdateSgd(device, NULL, &sgd, 0.5, 2, update), RENGA_ERR_SUPPORT,
              "values of int32 beside the parameters are not supported");
  RengaCall(FreeNumbers(device, &x));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDevice(RengaComm comm, RengaDevice ref, const char *type,
                                  const char *isa)
{
  static const RengaDataType values[] = {RENGA_FLOAT32, RENGA_BFLOAT16, RENGA_FLOAT16};
  RengaDevice device = NULL;
  RengaCall(RengaOptionsSetValue("device_type", type));
  RengaCall(RengaOptionsSetValue("device_isa", isa));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceSetThreads(device, 3));
  RengaCall(RengaDeviceSetUp(device));
  for (int f = 0; f < 2; f++) {
    RengaCall(CheckPatterns(device, &formats[f]));
    RengaCall(CheckRounding(device, &formats[f]));
    RengaCall(CheckSpecial(device, &formats[f]));
  }
  RengaCall(CheckCopies(device));
  for (int rule = 0; rule < 3; rule++)
    for (int t = 0; t < 3; t++) RengaCall(CheckValues(device, ref, rule, values[t]));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHosts(RengaComm comm, RengaDevice ref)
{
  RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_REF, "auto"));
  RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_CPU, "base"));
#if defined __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_CPU, "avx2"));
#endif
  RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_CPU, "auto"));
  RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_FAR, "auto"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  RengaDevice ref = NULL;
  const char *type = NULL;
  bool given = false;
  RengaCall(RengaOptionsGetString("device_type", &type, &given));
  const bool cuda = given && strcmp(type, RENGA_DEVICE_CUDA) == 0;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &ref));
  RengaCall(RengaDeviceSetType(ref, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(ref));
  if (cuda)
    RengaCall(CheckDevice(comm, ref, RENGA_DEVICE_CUDA, "auto"));
  else
    RengaCall(CheckHosts(comm, ref));
  RengaCall(RengaDeviceDestroy(&ref));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
