/* TEST ranks: 1 */
/* Products whose factors are rounded to 8 bits, on every device: one factor is the identity, so
   that the result is the other one, rounded; what it should be is found here by the formats'
   definition.
   With -device_type cuda on that device alone (test/cuda/device.sh). */
#include "guard.h"
#include "renga/private/device.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include <math.h>

enum { ROWS = 48, COLUMNS = 32, COUNT = ROWS * COLUMNS };
typedef struct {
  int fraction, least, numbers; /* bits; power of the smallest number; how many from 0 on */
} Format;
static const Format e4m3 = {3, -9, 127}, e5m2 = {2, -16, 124};

static double NumberOf(const Format *f, int pattern)
{
  const int exponent = pattern >> f->fraction, fraction = pattern & ((1 << f->fraction) - 1);
  if (exponent == 0) return ldexp(fraction, f->least);
  return ldexp(fraction + (1 << f->fraction), f->least + exponent - 1);
}

/* Ties go to the even pattern. */
static double NearestTo(const Format *f, double x)
{
  const double size = fabs(x);
  int p = 0;
  while (p + 1 < f->numbers && NumberOf(f, p + 1) <= size) p++;
  if (p + 1 < f->numbers) {
    const double below = size - NumberOf(f, p), above = NumberOf(f, p + 1) - size;
    p += above < below || (above == below && p % 2);
  }
  return copysign(NumberOf(f, p), x);
}

static int ScaleOf(const Format *f, int count, const float x[])
{
  double most = 0;
  for (int i = 0; i < count; i++)
    if (isfinite(x[i])) most = fmax(most, fabs((double)x[i]));
  int power = 100;
  while (most > 0 && ldexp(most, power) > NumberOf(f, f->numbers - 1)) power--;
  return most > 0 ? power : 0;
}

/* Which factor the numbers are, of which operator. */
typedef struct {
  const char *op;
  int place;
  const Format *format;
  bool turned; /* so is the result */
} Product;
static const Product products[] = {
    {"Linear", 0, &e4m3, false},          {"Linear", 1, &e4m3, false},
    {"LinearGradInput", 0, &e5m2, false}, {"LinearGradInput", 1, &e4m3, true},
    {"LinearGradWeight", 0, &e4m3, true}, {"LinearGradWeight", 1, &e5m2, false},
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static RengaErrorCode PutOn(RengaDevice device, const RengaTensorSpec *spec, const float x[],
                            char **data)
{
  const int64_t count = RengaTensorSpecCount(spec);
  float *wide = NULL;
  RengaCall(RengaDeviceMalloc(device, RengaTensorSpecBytes(spec), data));
  RengaCall(RengaDeviceMalloc(device, (size_t)count * sizeof *x, &wide));
  RengaCall(
      RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, wide, x, (size_t)count * sizeof *x));
  RengaCall(RengaDeviceConvert(device, NULL, count, RENGA_FLOAT32, wide, spec->type, *data));
  RengaCall(RengaStreamSynchronize(device, NULL));
  RengaCall(RengaDeviceFree(device, &wide));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCall(RengaDevice device, RengaOpCall *call, char *const in[2], float y[])
{
  static const RengaKernelContext context = {.samples = 1, .training = true};
  RengaKernel kernel = NULL;
  char *workspace = NULL, *out = NULL;
  RengaCall(RengaKernelCreate(device, call, &kernel));
  RengaCall(NewWorkspace(device, kernel, &workspace));
  RengaCall(RengaDeviceMalloc(device, COUNT * sizeof *y, &out));
  RengaCall(RengaKernelRun(kernel, NULL, &context, (const void *const[]){in[0], in[1]},
                           (void *const[]){out}, workspace));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, y, out, COUNT * sizeof *y));
  RengaCall(RengaStreamSynchronize(device, NULL));
  RengaCall(FreeWorkspace(device, kernel, workspace));
  RengaCall(RengaDeviceFree(device, &out));
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

/* y = x, rounded: x is [ROWS, COLUMNS] of a type. */
static RengaErrorCode RoundOn(RengaDevice device, const Product *p, RengaDataType type,
                              const float x[], float y[])
{
  static float one[ROWS * ROWS], turned[COUNT];
  const bool weight = strcmp(p->op, "LinearGradWeight") == 0;
  const int side =
      strcmp(p->op, "LinearGradInput") == 0 || (p->place == 0 && !weight) ? COLUMNS : ROWS;
  RengaTensorSpec in[2], out = {RENGA_FLOAT32, 2, {ROWS, COLUMNS}};
  in[p->place] = (RengaTensorSpec){type, 2, {ROWS, COLUMNS}};
  in[1 - p->place] = (RengaTensorSpec){RENGA_BFLOAT16, 2, {side, side}};
  memset(one, 0, sizeof one);
  for (int i = 0; i < side; i++) one[i * side + i] = 1;
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "rounds", RENGA_PRECISION_FP8));
  if (p->turned) out = (RengaTensorSpec){RENGA_FLOAT32, 2, {COLUMNS, ROWS}};
  RengaOpCall call = {RengaOperatorFind(p->op), &attributes, 2, 1, in, &out};
  char *data[2];
  for (int i = 0; i < 2; i++) RengaCall(PutOn(device, &in[i], i == p->place ? x : one, &data[i]));
  RengaCall(RunCall(device, &call, data, p->turned ? turned : y));
  for (int i = 0; i < COUNT && p->turned; i++) y[i] = turned[i % COLUMNS * ROWS + i / COLUMNS];
  for (int i = 0; i < 2; i++) RengaCall(RengaDeviceFree(device, &data[i]));
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

/* Numbers half-way between neighbours, and next to that on both sides, the largest at 2^power. */
static void FillMiddles(const Format *f, RengaDataType type, int power, float x[])
{
  const uint32_t step = type == RENGA_FLOAT32 ? 1 : 1 << 16;
  int count = 0;
  memset(x, 0, COUNT * sizeof *x);
  for (int p = 0; p + 1 < f->numbers; p++) {
    const float middle = (float)((NumberOf(f, p) + NumberOf(f, p + 1)) / 2);
    for (int k = 0; k < 6; k++) {
      uint32_t bits;
      memcpy(&bits, &middle, sizeof bits);
      bits += k / 2 == 0 ? (uint32_t) - (int32_t)step : k / 2 == 1 ? 0 : step;
      memcpy(&x[count], &bits, sizeof bits);
      x[count] = ldexpf(k % 2 ? -x[count] : x[count], power);
      count++;
    }
  }
  x[COUNT - 1] = ldexpf((float)NumberOf(f, f->numbers - 1), power);
}

static RengaErrorCode CheckNumbers(RengaDevice device, const Product *p, RengaDataType type,
                                   const float x[])
{
  static float y[COUNT];
  const int power = ScaleOf(p->format, COUNT, x);
  RengaCall(RoundOn(device, p, type, x, y));
  for (int i = 0; i < COUNT; i++) {
    const double want = ldexp(NearestTo(p->format, ldexp((double)x[i], power)), -power);
    RengaCheck((double)y[i] == want, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%s of %s on %s: %.9g of input %d becomes %.9g, and should be %.9g (scale 2^%d)",
               p->op, RengaDataTypeName(type), device->hdr.type_name, (double)x[i], p->place,
               (double)y[i], want, power);
  }
  return RENGA_SUCCESS;
}

/* What is not finite becomes a NaN, whatever its sign, and decides no scale. */
static RengaErrorCode CheckSpecials(RengaDevice device, const Product *p, RengaDataType type)
{
  static const float special[] = {INFINITY, -INFINITY, NAN};
  static float x[COUNT], y[COUNT];
  for (int s = 0; s < 3; s++) {
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 15) - 7;
    x[COUNT / 3] = special[s];
    RengaCall(RoundOn(device, p, type, x, y));
    Expect(isnan(y[COUNT / 3]));
    int finite = 0;
    for (int i = 0; i < COUNT; i++) {
      finite += isfinite(y[i]);
      Expect(!isfinite(y[i]) || y[i] == x[i]); /* these need three bits */
    }
    Expect(finite >= COUNT - ROWS);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckProduct(RengaDevice device, const Product *p, RengaDataType type)
{
  static const int powers[] = {0, -7, -40, -100, 30, 100};
  static float x[COUNT];
  for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
    FillMiddles(p->format, type, powers[i], x);
    RengaCall(CheckNumbers(device, p, type, x));
  }
  FillMiddles(p->format, type, 0, x);
  x[COUNT - 1] = ldexpf(1.9375f, 9); /* which would round to more than the largest */
  RengaCall(CheckNumbers(device, p, type, x));
  memset(x, 0, sizeof x);
  RengaCall(CheckNumbers(device, p, type, x));
  RengaCall(CheckSpecials(device, p, type));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDevice(RengaComm comm, const char *type, const char *isa)
{
  RengaDevice device = NULL;
  RengaCall(RengaOptionsSetValue("device_type", type));
  RengaCall(RengaOptionsSetValue("device_isa", isa));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceSetThreads(device, 3));
  RengaCall(RengaDeviceSetUp(device));
  for (int p = 0; p < N_PRODUCTS; p++) {
    RengaCall(CheckProduct(device, &products[p], RENGA_BFLOAT16));
    RengaCall(CheckProduct(device, &products[p], RENGA_FLOAT32));
  }
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  const char *type = NULL;
  bool given = false;
  RengaCall(RengaOptionsGetString("device_type", &type, &given));
  const bool cuda = given && strcmp(type, RENGA_DEVICE_CUDA) == 0;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  if (cuda) {
    RengaCall(CheckDevice(comm, RENGA_DEVICE_CUDA, "auto"));
  } else {
    RengaCall(CheckDevice(comm, RENGA_DEVICE_REF, "auto"));
    RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, "base"));
    RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, "auto"));
    RengaCall(CheckDevice(comm, RENGA_DEVICE_FAR, "auto"));
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
