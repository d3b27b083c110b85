/* cuBLASLt: row-major y[M, N] = x[M, K] w[N, K]^T + bias, in fp32 and bf16, against loops. */
#include "cudatest.h"
#include <cublasLt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { M = 19, N = 24, K = 40, BATCH = 3, SPACE = 1 << 16 };
static float x[BATCH * M * K], w[BATCH * N * K], bias[N];
static cublasLtHandle_t handle;
static void *space;

static uint16_t ToHalf(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float FromHalf(uint16_t half)
{
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static void *PutAs(cudaDataType type, size_t count, const float from[])
{
  uint16_t half[BATCH * N * K];
  if (type == CUDA_R_32F) return OnDevice(from, count * sizeof(float));
  for (size_t i = 0; i < count; i++) half[i] = ToHalf(from[i]);
  return OnDevice(half, count * sizeof *half);
}

static void GetAs(cudaDataType type, size_t count, const void *from, float to[])
{
  uint16_t half[BATCH * M * N];
  ToHost(type == CUDA_R_32F ? (void *)to : half, from, count * (type == CUDA_R_32F ? 4 : 2));
  for (size_t i = 0; i < count && type != CUDA_R_32F; i++) to[i] = FromHalf(half[i]);
}

/* Column-major, as cuBLASLt sees it: y^T[N, M] = w[K, N]^T x[K, M]. */
static void MakeLayout(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                       uint64_t columns)
{
  const int32_t batch = BATCH;
  const int64_t stride = (int64_t)(rows * columns);
  CUDA(cublasLtMatrixLayoutCreate(layout, type, rows, columns, (int64_t)rows));
  CUDA(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                        sizeof batch));
  CUDA(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                        &stride, sizeof stride));
}

static void Set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t what, const void *value,
                size_t bytes)
{
  CUDA(cublasLtMatmulDescSetAttribute(op, what, value, bytes));
}

static cublasLtMatmulAlgo_t Choose(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t lw,
                                   cublasLtMatrixLayout_t lx, cublasLtMatrixLayout_t ly)
{
  const uint64_t bytes = SPACE;
  const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  CUDA(cublasLtMatmulPreferenceCreate(&preference));
  CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &bytes, sizeof bytes));
  CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                            &none, sizeof none));
  CUDA(cublasLtMatmulAlgoGetHeuristic(handle, op, lw, lx, ly, ly, preference, 1, &result, &found));
  EXPECT(found == 1);
  CUDA(cublasLtMatmulPreferenceDestroy(preference));
  return result.algo;
}

typedef struct {
  cudaDataType type;
  cublasLtEpilogue_t epilogue;
  float beta;
  void *x, *w, *bias, *y;
} Problem;

static void Multiply(const Problem *p)
{
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t lx, lw, ly;
  const cublasOperation_t transpose = CUBLAS_OP_T;
  const int32_t type = p->type;
  const float alpha = 1;
  CUDA(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Set(op, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
  Set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
  Set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
  Set(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
  MakeLayout(&lw, p->type, K, N);
  MakeLayout(&lx, p->type, K, M);
  MakeLayout(&ly, p->type, N, M);
  const cublasLtMatmulAlgo_t algo = Choose(op, lw, lx, ly);
  CUDA(cublasLtMatmul(handle, op, &alpha, p->w, lw, p->x, lx, &p->beta, p->y, ly, p->y, ly, &algo,
                      space, SPACE, NULL));
  CUDA(cublasLtMatrixLayoutDestroy(lx));
  CUDA(cublasLtMatrixLayoutDestroy(lw));
  CUDA(cublasLtMatrixLayoutDestroy(ly));
  CUDA(cublasLtMatmulDescDestroy(op));
}

static double Wanted(const Problem *p, int number, int m, int n)
{
  const bool biased = p->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  double sum = (biased ? bias[n] : 0) + (double)p->beta * 0.25;
  for (int k = 0; k < K; k++)
    sum += (double)x[(number * M + m) * K + k] * w[(number * N + n) * K + k];
  if (p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) return sum > 0 ? sum : 0;
  if (p->epilogue != CUBLASLT_EPILOGUE_GELU_BIAS) return sum;
  return 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
}

static void TestProduct(cudaDataType type, cublasLtEpilogue_t epilogue, float beta)
{
  static float y[BATCH * M * N];
  const double tolerance = type == CUDA_R_32F ? 1e-5 : 2e-2;
  for (int i = 0; i < BATCH * M * N; i++) y[i] = 0.25f;
  Problem p = {.type = type, .epilogue = epilogue, .beta = beta};
  p.x = PutAs(type, BATCH * M * K, x);
  p.w = PutAs(type, BATCH * N * K, w);
  p.bias = PutAs(type, N, bias);
  p.y = PutAs(type, BATCH * M * N, y);
  Multiply(&p);
  GetAs(type, BATCH * M * N, p.y, y);
  for (int b = 0; b < BATCH; b++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        const double want = Wanted(&p, b, m, n);
        EXPECT(fabs(y[(b * M + m) * N + n] - want) <= tolerance * (1 + fabs(want)));
      }
  CUDA(cudaFree(p.x));
  CUDA(cudaFree(p.w));
  CUDA(cudaFree(p.bias));
  CUDA(cudaFree(p.y));
}

int main(void)
{
  NeedDevice();
  FillRandom(BATCH * M * K, x);
  FillRandom(BATCH * N * K, w);
  FillRandom(N, bias);
  CUDA(cublasLtCreate(&handle));
  space = OnDevice(NULL, SPACE);
  for (int half = 0; half < 2; half++) {
    const cudaDataType type = half ? CUDA_R_16BF : CUDA_R_32F;
    TestProduct(type, CUBLASLT_EPILOGUE_DEFAULT, 0);
    TestProduct(type, CUBLASLT_EPILOGUE_DEFAULT, 1);
    TestProduct(type, CUBLASLT_EPILOGUE_BIAS, 0);
    TestProduct(type, CUBLASLT_EPILOGUE_RELU_BIAS, 0);
    TestProduct(type, CUBLASLT_EPILOGUE_GELU_BIAS, 0);
  }
  CUDA(cudaFree(space));
  CUDA(cublasLtDestroy(handle));
  return 0;
}
