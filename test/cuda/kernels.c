/* Kernels against plain loops, at sizes that divide nothing. */
#include "cudatest.h"
#include "kernels.h"
#include <math.h>

enum { ROWS = 37, COLUMNS = 71, COUNT = ROWS * COLUMNS };
static float x[COUNT], y[COUNT], got[COUNT], want[COUNT];
static float *dx, *dy;
static cudaStream_t stream;

static void TestAdd(void)
{
  CUDA(cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice));
  CUDA(KernelAdd(stream, COUNT, dy, dx));
  ToHost(got, dy, sizeof got);
  for (int i = 0; i < COUNT; i++) EXPECT(got[i] == y[i] + x[i]);
}

static void TestCentre(void)
{
  CUDA(KernelCentre(stream, ROWS, COLUMNS, dx, dy));
  ToHost(got, dy, sizeof got);
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int c = 0; c < COLUMNS; c++) sum += x[r * COLUMNS + c];
    for (int c = 0; c < COLUMNS; c++)
      EXPECT(fabs(got[r * COLUMNS + c] - (x[r * COLUMNS + c] - sum / COLUMNS)) < 1e-6);
  }
}

static void TestTranspose(void)
{
  CUDA(KernelTranspose(stream, ROWS, COLUMNS, dx, dy));
  ToHost(got, dy, sizeof got);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) EXPECT(got[c * ROWS + r] == x[r * COLUMNS + c]);
}

/* The same additions in the same order: the same bits. */
static void TestSumRows(void)
{
  float *work = OnDevice(NULL, KERNEL_PARTS * COLUMNS * sizeof(float));
  CUDA(KernelSumRows(stream, ROWS, COLUMNS, dx, work, dy));
  ToHost(got, dy, COLUMNS * sizeof(float));
  for (int c = 0; c < COLUMNS; c++) {
    float part[KERNEL_PARTS] = {0};
    for (int r = 0; r < ROWS; r++) part[r % KERNEL_PARTS] += x[r * COLUMNS + c];
    for (int step = 1; step < KERNEL_PARTS; step *= 2)
      for (int p = 0; p + step < KERNEL_PARTS; p += 2 * step) part[p] += part[p + step];
    want[c] = part[0];
  }
  EXPECT(memcmp(got, want, COLUMNS * sizeof(float)) == 0);
  CUDA(cudaFree(work));
}

/* What nobody wrote is no number. */
static void TestUnset(void)
{
  float *fresh = OnDevice(NULL, sizeof(float));
  ToHost(got, fresh, sizeof(float));
  EXPECT(isnan(got[0]));
  CUDA(cudaFree(fresh));
}

int main(void)
{
  NeedDevice();
  FillRandom(COUNT, x);
  for (int i = 0; i < COUNT; i++) y[i] = (float)i / COUNT;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  dx = OnDevice(x, sizeof x);
  dy = OnDevice(y, sizeof y);
  TestAdd();
  TestCentre();
  TestTranspose();
  TestSumRows();
  if (getenv("EMU_MODE")) TestUnset();
  CUDA(cudaFree(dx));
  CUDA(cudaFree(dy));
  CUDA(cudaStreamDestroy(stream));
  return 0;
}
