/* TEST ranks: 1 */
/* What dropout keeps depends on seed, step, key, sample and element only: not on how a batch is
   cut into micro-batches, not on the device, not on where the batch dimension is. */
#include "../plan/plantest.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"

enum { SAMPLES = 6, WIDTH = 35, COUNT = SAMPLES * WIDTH };

static RengaDevice device[2];

/* One micro-batch of ones through Dropout with ratio 1/4. */
static RengaErrorCode Drop(RengaDevice on, int ndim, const int64_t dim[], int64_t batch_dim,
                           int64_t factor, const RengaKernelContext *context, const float x[],
                           float y[])
{
  RengaAttributes attributes = {0};
  RengaTensorSpec in = {RENGA_FLOAT32, ndim, {0}}, out = {.ndim = -1};
  RengaKernel kernel;
  char *workspace = NULL;
  memcpy(in.dim, dim, (size_t)ndim * sizeof *dim);
  RengaCall(RengaAttributesSetReal(&attributes, "ratio", 0.25));
  RengaCall(RengaAttributesSetInt(&attributes, "key", 5));
  RengaCall(RengaAttributesSetInt(&attributes, "batch_dim", batch_dim));
  RengaCall(RengaAttributesSetInt(&attributes, "batch_factor", factor));
  RengaOpCall call = {RengaOperatorFind("Dropout"), &attributes, 1, 1, &in, &out};
  RengaCall(RengaOperatorInfer(&call));
  RengaCall(RengaKernelCreate(on, &call, &kernel));
  RengaCall(RengaMalloc(RengaKernelGetWorkspace(kernel) + 1, &workspace));
  RengaCall(RengaKernelRun(kernel, NULL, context, (const void *const[]){x}, (void *const[]){y},
                           workspace));
  RengaFree(&workspace);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCuts(const float x[], const RengaKernelContext *context,
                                const float whole[])
{
  float part[COUNT];
  for (int d = 0; d < 2; d++)
    for (int first = 0, size = 1; first < SAMPLES; first += size, size++) {
      RengaKernelContext here = *context;
      here.sample += first;
      int64_t dim[2] = {size, WIDTH};
      RengaCall(Drop(device[d], 2, dim, 0, 1, &here, x, part));
      TestTrue(memcmp(part, whole + first * WIDTH, (size_t)size * WIDTH * sizeof *part) == 0);
    }
  return RENGA_SUCCESS;
}

/* [samples x 5, 7] with five rows per sample is the same memory; [35, samples] is its transpose. */
static RengaErrorCode CheckPlaces(const float x[], const RengaKernelContext *context,
                                  const float whole[])
{
  float y[COUNT];
  for (int d = 0; d < 2; d++) {
    RengaCall(Drop(device[d], 2, (int64_t[]){SAMPLES * 5, 7}, 0, 5, context, x, y));
    TestTrue(memcmp(y, whole, sizeof y) == 0);
    RengaCall(Drop(device[d], 2, (int64_t[]){WIDTH, SAMPLES}, 1, 1, context, x, y));
    for (int i = 0; i < COUNT; i++) TestTrue(y[i] == whole[i % SAMPLES * WIDTH + i / SAMPLES]);
    RengaCall(Drop(device[d], 3, (int64_t[]){5, SAMPLES, 7}, 1, 1, context, x, y));
    for (int i = 0; i < COUNT; i++) {
      int sample = i / 7 % SAMPLES, element = i / (7 * SAMPLES) * 7 + i % 7;
      TestTrue(y[i] == whole[sample * WIDTH + element]);
    }
  }
  return RENGA_SUCCESS;
}

/* Another seed, step or sample keeps others; not training keeps all; about a quarter is dropped. */
static RengaErrorCode CheckDraws(const float x[], const RengaKernelContext *context,
                                 const float whole[])
{
  float y[COUNT];
  int dropped = 0;
  int64_t dim[2] = {SAMPLES, WIDTH};
  RengaKernelContext others[3] = {*context, *context, *context};
  others[0].seed++;
  others[1].step++;
  others[2].sample += SAMPLES;
  for (int k = 0; k < 3; k++) {
    RengaCall(Drop(device[0], 2, dim, 0, 1, &others[k], x, y));
    TestTrue(memcmp(y, whole, sizeof y) != 0);
  }
  RengaKernelContext idle = *context;
  idle.training = false;
  RengaCall(Drop(device[0], 2, dim, 0, 1, &idle, x, y));
  TestTrue(memcmp(y, x, sizeof y) == 0);
  for (int i = 0; i < COUNT; i++) {
    TestTrue(whole[i] == 0 || whole[i] == 1 / 0.75f);
    if (whole[i] == 0) dropped++;
  }
  TestTrue(dropped > COUNT / 8 && dropped < COUNT * 3 / 8);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAll(void)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  RengaKernelContext context = {.seed = 11, .step = 3, .sample = 40, .training = true};
  float x[COUNT], whole[COUNT];
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &comm));
  for (int d = 0; d < 2; d++) {
    RengaCall(RengaDeviceCreate(comm, &device[d]));
    RengaCall(RengaDeviceSetType(device[d], types[d]));
    RengaCall(RengaDeviceSetUp(device[d]));
  }
  for (int i = 0; i < COUNT; i++) x[i] = 1;
  RengaCall(Drop(device[0], 2, (int64_t[]){SAMPLES, WIDTH}, 0, 1, &context, x, whole));
  RengaCall(CheckCuts(x, &context, whole));
  RengaCall(CheckPlaces(x, &context, whole));
  RengaCall(CheckDraws(x, &context, whole));
  for (int d = 0; d < 2; d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunAll());
  RengaCallAbort(RengaFinalize());
  return 0;
}
