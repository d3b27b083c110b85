/* cuBLASLt: row-major y[M, N] = x[M, K] w[N, K]^T + bias, in fp32, tf32, bf16 and fp16, against
   loops; and the types that it refuses. */
#include "cudatest.h"
#include "renga/private/low.h"
#include <cublasLt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { M = 19, N = 24, K = 40, BATCH = 3, SPACE = 1 << 16 };
static float x[BATCH * M * K], w[BATCH * N * K], bias[N];
static cublasLtHandle_t handle;
static void *space;

static size_t SizeOf(cudaDataType type)
{
  return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

static void *PutAs(cudaDataType type, size_t count, const float from[])
{
  uint16_t low[BATCH * N * K];
  if (type == CUDA_R_32F) return OnDevice(from, count * sizeof(float));
  for (size_t i = 0; i < count; i++)
    low[i] = type == CUDA_R_16F ? RengaLowToHalf(from[i]) : RengaLowToBrain(from[i]);
  return OnDevice(low, count * sizeof *low);
}

static void GetAs(cudaDataType type, size_t count, const void *from, float to[])
{
  uint16_t low[BATCH * M * N];
  ToHost(type == CUDA_R_32F ? (void *)to : low, from, count * SizeOf(type));
  for (size_t i = 0; i < count && type != CUDA_R_32F; i++)
    to[i] = type == CUDA_R_16F ? RengaLowFromHalf(low[i]) : RengaLowFromBrain(low[i]);
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

/* 0, or why there is none. */
static cublasStatus_t Choose(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t lw,
                             cublasLtMatrixLayout_t lx, cublasLtMatrixLayout_t ly,
                             cublasLtMatmulAlgo_t *algo)
{
  const uint64_t bytes = SPACE;
  const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  memset(&result, 0, sizeof result);
  CUDA(cublasLtMatmulPreferenceCreate(&preference));
  CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &bytes, sizeof bytes));
  CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                            &none, sizeof none));
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, op, lw, lx, ly, ly, preference, 1, &result, &found);
  CUDA(cublasLtMatmulPreferenceDestroy(preference));
  EXPECT((found == 1) == (status == CUBLAS_STATUS_SUCCESS));
  *algo = result.algo;
  return status;
}

typedef struct {
  cublasComputeType_t compute;
  cudaDataType x, w, y, bias;
} Types;

typedef struct {
  Types type;
  cublasLtEpilogue_t epilogue;
  float beta;
  void *x, *w, *bias, *y;
} Problem;

static cublasStatus_t Multiply(const Problem *p)
{
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t lx, lw, ly;
  cublasLtMatmulAlgo_t algo;
  const cublasOperation_t transpose = CUBLAS_OP_T;
  const int32_t type = p->type.bias;
  const float alpha = 1;
  CUDA(cublasLtMatmulDescCreate(&op, p->type.compute, CUDA_R_32F));
  Set(op, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
  Set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
  Set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
  Set(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
  MakeLayout(&lw, p->type.w, K, N);
  MakeLayout(&lx, p->type.x, K, M);
  MakeLayout(&ly, p->type.y, N, M);
  const cublasStatus_t status = Choose(op, lw, lx, ly, &algo);
  if (status == CUBLAS_STATUS_SUCCESS)
    CUDA(cublasLtMatmul(handle, op, &alpha, p->w, lw, p->x, lx, &p->beta, p->y, ly, p->y, ly, &algo,
                        space, SPACE, NULL));
  CUDA(cublasLtMatrixLayoutDestroy(lx));
  CUDA(cublasLtMatrixLayoutDestroy(lw));
  CUDA(cublasLtMatrixLayoutDestroy(ly));
  CUDA(cublasLtMatmulDescDestroy(op));
  return status;
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

/* The factors are rounded, and y. */
static double ToleranceOf(const Types *type)
{
  if (type->x == CUDA_R_16BF) return 2e-2;
  if (type->x == CUDA_R_16F) return 3e-3;
  return type->compute == CUBLAS_COMPUTE_32F ? 1e-5 : 3e-3;
}

static void TestProduct(Types type, cublasLtEpilogue_t epilogue, float beta)
{
  static float y[BATCH * M * N];
  double furthest = 0;
  for (int i = 0; i < BATCH * M * N; i++) y[i] = 0.25f;
  Problem p = {.type = type, .epilogue = epilogue, .beta = beta};
  p.x = PutAs(type.x, BATCH * M * K, x);
  p.w = PutAs(type.w, BATCH * N * K, w);
  p.bias = PutAs(type.bias, N, bias);
  p.y = PutAs(type.y, BATCH * M * N, y);
  EXPECT(Multiply(&p) == CUBLAS_STATUS_SUCCESS);
  GetAs(type.y, BATCH * M * N, p.y, y);
  for (int b = 0; b < BATCH; b++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        const double want = Wanted(&p, b, m, n);
        const double off = fabs(y[(b * M + m) * N + n] - want) / (1 + fabs(want));
        furthest = off > furthest ? off : furthest;
      }
  EXPECT(furthest <= ToleranceOf(&type));
  EXPECT(furthest > 1e-5 || type.compute == CUBLAS_COMPUTE_32F); /* tf32 is not fp32 */
  CUDA(cudaFree(p.x));
  CUDA(cudaFree(p.w));
  CUDA(cudaFree(p.bias));
  CUDA(cudaFree(p.y));
}

/* The library has no sums of float32 from factors of two types, no rounding from float32's factors
   or to another 16-bit type, no bias of another type than y's, tf32 of float32 alone, and 8 bits of
   extents that are multiples of 16. */
static void TestRefusals(void)
{
  static const Types refused[] = {
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16F, CUDA_R_16F},
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF},
      {CUBLAS_COMPUTE_32F, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, CUDA_R_16BF, CUDA_R_16BF},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    Problem p = {.type = refused[i], .epilogue = CUBLASLT_EPILOGUE_BIAS};
    p.bias = space;
    EXPECT(Multiply(&p) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

int main(void)
{
  static const Types types[] = {
      {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF},
      {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
      {CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUDA_R_32F},
      {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
  };
  NeedDevice();
  FillRandom(BATCH * M * K, x);
  FillRandom(BATCH * N * K, w);
  FillRandom(N, bias);
  CUDA(cublasLtCreate(&handle));
  space = OnDevice(NULL, SPACE);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    TestProduct(types[t], CUBLASLT_EPILOGUE_DEFAULT, 0);
    TestProduct(types[t], CUBLASLT_EPILOGUE_DEFAULT, 1);
    TestProduct(types[t], CUBLASLT_EPILOGUE_BIAS, 0);
    TestProduct(types[t], CUBLASLT_EPILOGUE_RELU_BIAS, 0);
    TestProduct(types[t], CUBLASLT_EPILOGUE_GELU_BIAS, 0);
  }
  TestRefusals();
  CUDA(cudaFree(space));
  CUDA(cublasLtDestroy(handle));
  return 0;
}
