/* Kernels that the emulator is tested with. All queue work on the stream. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t KernelAdd(cudaStream_t stream, int64_t count, float *y, const float *x); /* y += x */
cudaError_t KernelFill(cudaStream_t stream, int64_t count, float *y, float value);
/* y = x less its mean, row by row; a warp for each row */
cudaError_t KernelCentre(cudaStream_t stream, int64_t rows, int columns, const float *x, float *y);
/* y[columns, rows] = x[rows, columns], by tiles in shared memory */
cudaError_t KernelTranspose(cudaStream_t stream, int rows, int columns, const float *x, float *y);
/* sums[c] of x[r][c]: KERNEL_PARTS groups of rows, then these by a fixed tree. Each block adds its
   rows in dynamic shared memory. work: [KERNEL_PARTS * columns] */
enum { KERNEL_PARTS = 8 };
cudaError_t KernelSumRows(cudaStream_t stream, int64_t rows, int columns, const float *x,
                          float *work, float *sums);
#ifdef __cplusplus
}
#endif
