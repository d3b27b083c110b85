/* TEST ranks: 1 */
/* Flat vectors: the cpu device against the ref one, and the same bits for 1, 2 and 3 threads. */
#include "../check.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <math.h>
#include <string.h>

enum { COUNT = 70001, THREADS = 3, VECTORS = 4 };
typedef RengaErrorCode (*Action)(RengaDevice device, int variant, int64_t count, float *const x[],
                                 double *sum);

static RengaErrorCode Add(RengaDevice device, int variant, int64_t count, float *const x[],
                          double *sum)
{
  (void)variant;
  RengaCall(RengaDeviceAdd(device, NULL, count, x[0], x[1]));
  RengaCall(RengaDeviceSumOfSquares(device, NULL, count, x[0], sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sgd(RengaDevice device, int variant, int64_t count, float *const x[],
                          double *sum)
{
  (void)sum;
  static const RengaSgdStep steps[] = {{0.1, 0, 0, 0, false, false},
                                       {0.1, 0, 0, 0.01, false, false},
                                       {0.1, 0.9, 0, 0.01, false, true},
                                       {0.1, 0.9, 0.3, 0, false, false},
                                       {0.1, 0.9, 0, 0.01, true, false}};
  const RengaSgdStep *step = &steps[variant % 5];
  RengaCall(RengaDeviceUpdateSgd(device, NULL, step, 0.5, count, x[0], x[1],
                                 step->momentum > 0 ? x[2] : NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode Adam(RengaDevice device, int variant, int64_t count, float *const x[],
                           double *sum)
{
  (void)sum;
  RengaAdamStep step = {0.01,       0.9, 0.999, 1e-8, variant % 2 ? 0.1 : 0, variant / 2 % 2 == 1,
                        1 + variant};
  RengaCall(RengaDeviceUpdateAdam(device, NULL, &step, 0.5, count, x[0], x[1], x[2], x[3]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Start(float *const x[])
{
  for (int v = 0; v < VECTORS; v++) {
    RengaRandomUniform(3, (uint64_t)v, 0, COUNT, x[v]);
    for (int i = 0; i < COUNT && v < 2; i++) x[v][i] -= 0.5f; /* moments stay positive */
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAction(const RengaDevice device[], Action action, int variant,
                                  int64_t count, float *const expected[], float *const got[],
                                  float *const first[])
{
  double sum[2] = {0, 0}, first_sum = 0;
  RengaCall(Start(expected));
  RengaCall(action(device[0], variant, count, expected, &sum[0]));
  for (int t = 1; t <= THREADS; t++) {
    RengaCall(Start(got));
    RengaCall(action(device[t], variant, count, got, &sum[1]));
    if (t == 1) first_sum = sum[1];
    Expect(sum[1] == first_sum && fabs(sum[0] - sum[1]) <= 1e-12 * fabs(sum[0]));
    for (int v = 0; v < VECTORS; v++) {
      for (int i = 0; i < COUNT; i++)
        RengaCheck(fabs((double)got[v][i] - expected[v][i]) <= 2e-6, MPI_COMM_SELF,
                   RENGA_ERR_INTERNAL, "variant %d, vector %d, element %d is %.9g, not %.9g",
                   variant, v, i, (double)got[v][i], (double)expected[v][i]);
      if (t == 1) memcpy(first[v], got[v], COUNT * sizeof(float));
      Expect(memcmp(first[v], got[v], COUNT * sizeof(float)) == 0);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t counts[] = {COUNT, 16384, 1, 0};
  RengaComm comm = NULL;
  RengaDevice device[THREADS + 1] = {NULL};
  float *x[3][VECTORS] = {{NULL}};
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int t = 0; t <= THREADS; t++) {
    RengaCall(RengaDeviceCreate(comm, &device[t]));
    RengaCall(RengaDeviceSetType(device[t], t ? RENGA_DEVICE_CPU : RENGA_DEVICE_REF));
    RengaCall(RengaDeviceSetThreads(device[t], t));
    RengaCall(RengaDeviceSetUp(device[t]));
  }
  for (int i = 0; i < 3 * VECTORS; i++) RengaCall(RengaMalloc(COUNT, &x[i / VECTORS][i % VECTORS]));
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    RengaCall(CheckAction(device, Add, 0, counts[c], x[0], x[1], x[2]));
    for (int v = 0; v < 5; v++) RengaCall(CheckAction(device, Sgd, v, counts[c], x[0], x[1], x[2]));
    for (int v = 0; v < 4; v++)
      RengaCall(CheckAction(device, Adam, v, counts[c], x[0], x[1], x[2]));
  }
  for (int i = 0; i < 3 * VECTORS; i++) RengaFree(&x[i / VECTORS][i % VECTORS]);
  for (int t = 0; t <= THREADS; t++) RengaCall(RengaDeviceDestroy(&device[t]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
