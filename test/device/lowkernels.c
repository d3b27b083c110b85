/* TEST ranks: 1 */
/* Every case of the kernels with 16-bit floats in all places, and in some: the result is that of
   float32 on the same values, rounded; the same bits with one and three threads, and in place where
   the kernel says it may. With -device_type cuda on that device alone (test/cuda/device.sh); on the
   emulated runtime each bit is then that of the float32 kernel's result, rounded, but where
   RoundingOnCuda allows more. */
#include "calls.h"
#include "cases.h"
#include "lowcalls.h"
#include "renga/private/device.h"
#include "rengacomm.h"

static const RengaKernelContext context = {
    .seed = 17, .step = 3, .sample = 5, .samples = 2, .training = true};
static const RengaDataType low_types[] = {RENGA_BFLOAT16, RENGA_FLOAT16};

/* All places; inputs or outputs alone; two thirds of the places. */
enum { MASKS = 4 };
static unsigned MaskOf(const RengaOpCall *op, int mask, int number)
{
  const unsigned inputs = (1u << op->n_in) - 1;
  unsigned some = 0;
  for (int p = 0; p < op->n_in + op->n_out; p++) some |= (unsigned)((number + p) % 3 != 0) << p;
  return mask == 0 ? ~0u : mask == 1 ? inputs : mask == 2 ? ~inputs : some;
}

typedef struct {
  const char *name;
  RengaDevice host, device, again; /* again: with more threads, the same bits; NULL: none */
  bool all;                        /* masks; else all places and one more */
  bool cuda;
  bool exact; /* the float32 kernel adds up in the same order */
} Bench;

/* Outputs of a are those of b to the last bit. */
static RengaErrorCode CheckSame(const Bench *bench, int number, const Variant *a, const Variant *b,
                                const char *what)
{
  for (int p = a->op.n_in; p < a->op.n_in + a->op.n_out; p++)
    RengaCheck(memcmp(a->data[p], b->data[p], RengaTensorSpecBytes(&a->spec[p])) == 0,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL, "case %d, %s (%s) on %s: %s changes output %d",
               number, cases[number].op, cases[number].inputs, bench->name, what, p - a->op.n_in);
  return RENGA_SUCCESS;
}

/* Once more, into other memory: with more threads, over each input that may be. */
static RengaErrorCode CheckAgain(const Bench *bench, int number, const RengaOpCall *op,
                                 const void *const input[], RengaDataType type, unsigned mask,
                                 const Variant *first)
{
  for (int alias = -1; alias < op->n_in; alias++) {
    Variant wide, low;
    RengaKernel kernel = NULL;
    RengaDevice device = bench->again ? bench->again : bench->device;
    RengaCall(MakeVariants(bench->host, op, input, type, mask, &wide, &low));
    RengaCall(RengaKernelCreate(device, &low.op, &kernel));
    const bool same_bytes =
        alias >= 0 && low.spec[alias].ndim >= 0 &&
        RengaTensorSpecBytes(&low.spec[alias]) == RengaTensorSpecBytes(&low.spec[op->n_in]);
    if (alias < 0 || (same_bytes && RengaKernelMayAlias(kernel, 0, alias))) {
      RengaCall(RunVariant(device, kernel, &context, alias, &low));
      RengaCall(
          CheckSame(bench, number, first, &low, alias < 0 ? "another run" : "running in place"));
    }
    RengaCall(RengaKernelDestroy(&kernel));
    RengaCall(FreeVariant(&wide));
    RengaCall(FreeVariant(&low));
  }
  return RENGA_SUCCESS;
}

/* Kernels do not keep whole tensors in float32. On the cpu some do: heads add to the gradient of a
   mask, some casts are rare, caches never have 16 bits, and oneDNN has no convolutions of float16,
   nor on processors without AVX-512 of bfloat16. It has images whose channels come last by copies
   of their type. */
static RengaErrorCode CheckNative(const RengaKernel kernel)
{
  static const char *const widened[] = {"AttentionGrad", "CachedAttention", "Cast",
                                        "Conv",          "ConvGradInput",   "ConvGradWeight"};
  const bool cpu = strcmp(kernel->device->hdr.type_name, RENGA_DEVICE_CPU) == 0;
  const char *name = kernel->call.op->name;
  bool may = kernel->fallback || (cpu && RengaOpIsLast_Private(&kernel->call)); /* of nothing */
  for (size_t i = 0; cpu && i < sizeof widened / sizeof *widened; i++)
    may = may || strcmp(widened[i], name) == 0;
  RengaCheck(!kernel->wide || may, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s of 16-bit floats keeps whole tensors in float32", name);
  return RENGA_SUCCESS;
}

/* Output o of low is that of wide, rounded, to the last bit; NaN may have any bits. */
static RengaErrorCode CheckExact(const Bench *bench, int number, const Variant *wide,
                                 const Variant *low, int o)
{
  const int p = wide->op.n_in + o;
  const RengaTensorSpec *spec = &low->spec[p];
  const int64_t count = spec->ndim >= 0 ? RengaTensorSpecCount(spec) : 0;
  const uint16_t *got = low->data[p];
  uint16_t *want = NULL;
  if (!RengaDeviceIsLow(spec->type)) {
    Expect(count == 0 || spec->type == RENGA_FLOAT32 ||
           memcmp(low->data[p], wide->data[p], RengaTensorSpecBytes(spec)) == 0);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(count + 1, &want));
  RengaCall(
      RengaDeviceConvert(bench->host, NULL, count, RENGA_FLOAT32, wide->data[p], spec->type, want));
  for (int64_t i = 0; i < count; i++)
    RengaCheck(got[i] == want[i] || isnan(((const float *)wide->data[p])[i]), MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "case %d, %s %s (%s): output %d, element %lld is %#x, not %#x",
               number, cases[number].op, cases[number].attributes, cases[number].inputs, o,
               (long long)i, got[i], want[i]);
  RengaFree(&want);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLow(const Bench *bench, int number, const RengaOpCall *op,
                               const void *const input[], RengaDataType type, unsigned mask)
{
  const Case *c = &cases[number];
  Variant wide, low;
  RengaKernel kernel[2] = {NULL, NULL};
  const double rounding = RoundingOf(bench->device, bench->cuda, c->op, type);
  const double tolerance = (c->tolerance > 0 ? c->tolerance : 1e-5) + rounding;
  RengaCall(MakeVariants(bench->host, op, input, type, mask, &wide, &low));
  RengaCall(RengaKernelCreate(bench->device, &wide.op, &kernel[0]));
  RengaCall(RengaKernelCreate(bench->device, &low.op, &kernel[1]));
  if (bench->all && mask == ~0u) RengaCall(CheckNative(kernel[1]));
  RengaCall(RunVariant(bench->device, kernel[0], &context, -1, &wide));
  RengaCall(RunVariant(bench->device, kernel[1], &context, -1, &low));
  for (int o = 0; o < op->n_out; o++) {
    const int64_t at = FindFar(bench->host, &wide, &low, o, tolerance);
    RengaCheck(at < 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "case %d, %s %s (%s) on %s, %s in places %#x: output %d, element %lld is not "
               "float32's, %.9g, rounded",
               number, c->op, c->attributes, c->inputs, bench->name, RengaDataTypeName(type), mask,
               o, (long long)at, (double)((const float *)wide.data[op->n_in + o])[at]);
    if (bench->exact && rounding == 0) RengaCall(CheckExact(bench, number, &wide, &low, o));
  }
  RengaCall(CheckAgain(bench, number, op, input, type, mask, &low));
  for (int k = 0; k < 2; k++) RengaCall(RengaKernelDestroy(&kernel[k]));
  RengaCall(FreeVariant(&wide));
  RengaCall(FreeVariant(&low));
  return RENGA_SUCCESS;
}

/* What the next case may take as its inputs. */
static RengaErrorCode KeepOutputs(RengaDevice ref, const RengaOpCall *op, Call *call)
{
  RengaKernel kernel = NULL;
  for (int o = 0; o < call->n_out; o++) RengaCall(Allocate(&call->out[o], &call->output[o]));
  RengaCall(RengaKernelCreate(ref, op, &kernel));
  char *workspace;
  RengaCall(RengaMalloc(RengaKernelGetWorkspace(kernel) + 1, &workspace));
  RengaCall(RengaKernelRun(kernel, NULL, &context, (const void *const *)call->input, call->output,
                           workspace));
  RengaFree(&workspace);
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCases(const Bench *bench)
{
  Call before, call;
  memset(&before, 0, sizeof before);
  for (int number = 0; number < N_CASES; number++) {
    RengaOpCall op;
    RengaCall(MakeCall(&cases[number], number, &before, &call, &op));
    RengaCall(KeepOutputs(bench->host, &op, &call));
    const bool refused = bench->cuda && (op.op->flags & RENGA_OP_WRITES_STATE);
    for (int t = 0; t < 2 && !refused; t++)
      for (int mask = 0; mask < MASKS; mask++)
        if (bench->all || mask == 0 || mask == 1 + number % 3)
          RengaCall(CheckLow(bench, number, &op, (const void *const *)call.input, low_types[t],
                             MaskOf(&op, mask, number)));
    RengaCall(FreeCall(&before));
    before = call;
  }
  RengaCall(FreeCall(&before));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeDevice(RengaComm comm, const char *type, const char *isa, int threads,
                                 RengaDevice *device)
{
  RengaCall(RengaOptionsSetValue("device_type", type));
  RengaCall(RengaOptionsSetValue("device_isa", isa));
  RengaCall(RengaOptionsSetValue("device_poison", "true"));
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetFromOptions(*device));
  RengaCall(RengaDeviceSetThreads(*device, threads));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDevice(RengaComm comm, const char *type, const char *isa)
{
  Bench bench = {.name = strcmp(type, RENGA_DEVICE_CPU) == 0 ? isa : type};
  const bool cpu = bench.name == isa, cuda = strcmp(type, RENGA_DEVICE_CUDA) == 0;
  RengaCall(RengaDeviceCreate(comm, &bench.host));
  RengaCall(RengaDeviceSetType(bench.host, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(bench.host));
  RengaCall(MakeDevice(comm, type, isa, 1, &bench.device));
  if (cpu) RengaCall(MakeDevice(comm, type, isa, 3, &bench.again));
  bench.all = cuda || (cpu && strcmp(isa, "auto") == 0);
  bench.cuda = cuda;
  bench.exact = cuda && getenv("EMU_MODE");
  RengaCall(CheckCases(&bench));
  if (cpu) RengaCall(RengaDeviceDestroy(&bench.again));
  RengaCall(RengaDeviceDestroy(&bench.device));
  RengaCall(RengaDeviceDestroy(&bench.host));
  return RENGA_SUCCESS;
}

/* The best instruction set first: oneDNN, once it uses AMX, is not held to less for the others. */
static RengaErrorCode CheckHosts(RengaComm comm)
{
  RengaCall(CheckDevice(comm, RENGA_DEVICE_REF, "auto"));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, "auto"));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, "base"));
#if defined __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, "avx2"));
#endif
  RengaCall(CheckDevice(comm, RENGA_DEVICE_FAR, "auto"));
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
  if (cuda)
    RengaCall(CheckDevice(comm, RENGA_DEVICE_CUDA, "auto"));
  else
    RengaCall(CheckHosts(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
