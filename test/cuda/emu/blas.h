/* Matrix products of the emulator: column-major, of fp32, bf16, fp16 or 8 bits, sums in
   fp32. */
#pragma once
#include "emu.h"
#include <cublasLt.h>

struct EmuMatrix {
  cudaDataType type;
  int64_t rows, columns, leading, batch, stride; /* elements */
};
size_t EmuMatrixBytes(const EmuMatrix &matrix); /* from the first to the last element */

/* D = epilogue(alpha op(A) op(B) + beta C) */
struct EmuProduct {
  cublasComputeType_t compute;
  bool transpose_a, transpose_b;
  EmuMatrix a, b, c, d;
  const void *in_a, *in_b, *in_c;
  void *out;
  float alpha, beta;
  cublasLtEpilogue_t epilogue;
  void *bias, *aux;
  int64_t aux_leading;
  cudaDataType bias_type, aux_type;
  const void *scale_a, *scale_b; /* of the device; of 8 bits */
};
float EmuLoadNumber(const void *from, cudaDataType type, int64_t i);
void EmuStoreNumber(float x, void *to, cudaDataType type, int64_t i);
float EmuRoundToTf32(float x);
bool EmuHasTypes(const EmuProduct &product);
bool EmuHasEpilogue(cublasLtEpilogue_t epilogue);
void EmuMultiply(const EmuProduct &product);
