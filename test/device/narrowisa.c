/* TEST ranks: 1 */
/* Convolutions with 16-bit floats where oneDNN may use no more than AVX2: they are widened part by
   part by Renga's kernel, and are those of float32, rounded; the same with three threads. */
#include "calls.h"
#include "cases.h"
#include "lowcalls.h"
#include "../../src/device/cpu/onednn.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <stdlib.h>

static const RengaKernelContext context = {.samples = 2, .training = true};

static RengaErrorCode MakeDevice(RengaComm comm, const char *type, int threads, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetType(*device, type));
  RengaCall(RengaDeviceSetThreads(*device, threads));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

/* mask: the places that have 16 bits */
static RengaErrorCode CheckConvolution(RengaDevice ref, RengaDevice cpu, int number,
                                       RengaDataType type, unsigned mask)
{
  Call before, call;
  RengaOpCall op;
  Variant wide, low;
  RengaKernel kernel[2] = {NULL, NULL};
  memset(&before, 0, sizeof before);
  RengaCall(MakeCall(&cases[number], number, &before, &call, &op));
  RengaCall(MakeVariants(ref, &op, (const void *const *)call.input, type, mask, &wide, &low));
  RengaCall(RengaKernelCreate(ref, &wide.op, &kernel[0]));
  RengaCall(RengaKernelCreate(cpu, &low.op, &kernel[1]));
  const bool sums = strcmp(cases[number].op, "ConvGradInput") == 0 && op.n_in > 2;
  const bool last = RengaOpIsLast_Private(&op); /* by copies */
  Expect(sums || last || !kernel[1]->wide);     /* no copies of whole tensors */
  RengaCall(RunVariant(ref, kernel[0], &context, -1, &wide));
  RengaCall(RunVariant(cpu, kernel[1], &context, -1, &low));
  const int64_t at = FindFar(ref, &wide, &low, 0, 1e-5);
  RengaCheck(at < 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s %s (%s) of %s in places %#x: element %lld is not float32's, rounded",
             cases[number].op, cases[number].attributes, cases[number].inputs,
             RengaDataTypeName(type), mask, (long long)at);
  for (int k = 0; k < 2; k++) RengaCall(RengaKernelDestroy(&kernel[k]));
  RengaCall(FreeVariant(&wide));
  RengaCall(FreeVariant(&low));
  RengaCall(FreeCall(&call));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  RengaDevice ref, cpu[2];
  int checked = 0;
  setenv("DNNL_MAX_CPU_ISA", "AVX2", 1); /* it looks at this with its first call */
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  Expect(!RengaConvolutionHasBrain());
  RengaCall(MakeDevice(comm, RENGA_DEVICE_REF, 1, &ref));
  for (int d = 0; d < 2; d++) RengaCall(MakeDevice(comm, RENGA_DEVICE_CPU, 1 + 2 * d, &cpu[d]));
  for (int number = 0; number < N_CASES; number++) {
    const bool one = strncmp(cases[number].op, "Conv", strlen("Conv")) == 0;
    const int mask = number % 3 == 0 ? 2 : number % 3 == 1 ? 5 : 13; /* some places */
    for (int k = 0; k < 4 && one; k++)
      RengaCall(CheckConvolution(ref, cpu[k / 2], number, k % 2 ? RENGA_FLOAT16 : RENGA_BFLOAT16,
                                 k < 2 ? ~0u : (unsigned)mask));
    checked += one;
  }
  Expect(checked > 20);
  RengaCall(RengaDeviceDestroy(&ref));
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&cpu[d]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
