/* Products by cuBLASLt. One plan per shape, asked for once: no split sums, a workspace of one size
   and one alignment for all, so that the algorithm and with it the bits follow from the shape
   alone. */
#include "cuda.h"
#include <cublasLt.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  float alpha, beta;
  size_t workspace_bytes;
  bool eights;
} Plan;
const size_t RengaCudaProductBytes = sizeof(Plan);

enum { ALIGNMENT = 16, OPERANDS = 4, ADVICE = 8, EIGHTS_CAPABILITY = 89 };
static cublasLtHandle_t handle;

static int SayStatus(const char *what, cublasStatus_t status)
{
  return RengaCudaSay(what, (int)status, cublasLtGetStatusString(status));
}

size_t RengaCudaProductVersion(void)
{
  return cublasLtGetVersion();
}

int RengaCudaProductOpen(void)
{
  return handle ? 0 : SayStatus("cublasLtCreate", cublasLtCreate(&handle));
}

/* cuBLAS is column-major: a row-major matrix is its transpose. */
static cublasStatus_t CreateLayout(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                   int64_t rows, int64_t columns, int64_t leading, int64_t batch,
                                   int64_t stride)
{
  const int32_t count = (int32_t)batch;
  cublasStatus_t status =
      cublasLtMatrixLayoutCreate(layout, type, (uint64_t)columns, (uint64_t)rows, leading);
  if (!status)
    status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count);
  if (!status)
    status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride);
  return status;
}

/* alignment: of A, B, C, D */
static cublasStatus_t SetPreference(cublasLtMatmulPreference_t preference,
                                    const uint32_t alignment[OPERANDS], size_t workspace_bytes)
{
  const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint64_t bytes = workspace_bytes;
  cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme);
  if (!status)
    status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  for (int i = 0; i < OPERANDS && !status; i++)
    status = cublasLtMatmulPreferenceSetAttribute(
        preference,
        (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
        &alignment[i], sizeof alignment[i]);
  return status;
}

static uint32_t AlignmentOf(const RengaCudaProduct *p, RengaCudaType type)
{
  if (!p->scattered) return ALIGNMENT;
  return type == RENGA_CUDA_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

/* cuBLASLt numbers its families of kernels in the order in which they came, and its first advice
   may be of an old one: a weight gradient [768, 768] of 16384 tokens in bfloat16 took an H200 0.36
   ms with family 41, its first advice, and 0.079 ms with 66, its last (13.0). So for 16-bit factors
   the first of the newest family is taken. NVIDIA promises nothing of these numbers: of a version
   in which they were not looked at the first advice is taken. */
enum { LOOKED_AT = 13, MAJOR = 10000 };
static bool KnowsFamilies(void)
{
  return cublasLtGetVersion() / MAJOR == LOOKED_AT;
}

static cublasLtMatmulAlgo_t FindNewest(const cublasLtMatmulHeuristicResult_t advice[], int count)
{
  int newest = 0;
  int32_t most = -1;
  for (int i = 0; i < count; i++) {
    int32_t family = 0;
    size_t written;
    if (advice[i].state != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulAlgoConfigGetAttribute(&advice[i].algo, CUBLASLT_ALGO_CONFIG_ID, &family,
                                             sizeof family, &written))
      continue;
    if (family > most) newest = i;
    if (family > most) most = family;
  }
  return advice[newest].algo;
}

static int ChooseAlgorithm(Plan *plan, const RengaCudaProduct *p)
{
  const uint32_t factors = AlignmentOf(p, p->factors), result = AlignmentOf(p, p->result);
  const uint32_t alignment[OPERANDS] = {factors, factors, result, result};
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t advice[ADVICE];
  const int wanted = p->factors == RENGA_CUDA_FLOAT32 || !KnowsFamilies() ? 1 : ADVICE;
  int found = 0;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
  if (status) return SayStatus("cublasLtMatmulPreferenceCreate", status);
  status = SetPreference(preference, alignment, plan->workspace_bytes);
  if (!status)
    status = cublasLtMatmulAlgoGetHeuristic(handle, plan->op, plan->b, plan->a, plan->c, plan->c,
                                            preference, wanted, advice, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (!status) status = found ? advice[0].state : CUBLAS_STATUS_NOT_SUPPORTED;
  if (!status) plan->algo = FindNewest(advice, found);
  return SayStatus("cublasLtMatmulAlgoGetHeuristic", status);
}

static cudaDataType_t DataTypeOf(RengaCudaType type)
{
  if (type == RENGA_CUDA_FLOAT32) return CUDA_R_32F;
  return type == RENGA_CUDA_BFLOAT16 ? CUDA_R_16BF : CUDA_R_16F;
}

static cudaDataType_t FactorTypeOf(const RengaCudaProduct *p, int factor)
{
  if (!p->eights) return DataTypeOf(p->factors);
  return p->format[factor] == RENGA_FP8_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

/* cuBLASLt's A is b. A plan without them has no algorithms. */
static cublasStatus_t SetScales(cublasLtMatmulDesc_t op, const void *a, const void *b)
{
  const void *scale_a = (const char *)a - RENGA_CUDA_SCALES + sizeof(uint32_t);
  const void *scale_b = (const char *)b - RENGA_CUDA_SCALES + sizeof(uint32_t);
  cublasStatus_t status = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                                         &scale_b, sizeof scale_b);
  if (!status)
    status = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale_a,
                                            sizeof scale_a);
  return status;
}

static cublasStatus_t CreateOperation(const RengaCudaProduct *p, cublasLtMatmulDesc_t *op)
{
  const int32_t first = p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t second = p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const uint32_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  const cublasComputeType_t compute = p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasStatus_t status = cublasLtMatmulDescCreate(op, compute, CUDA_R_32F);
  if (!status)
    status = cublasLtMatmulDescSetAttribute(*op, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (!status)
    status =
        cublasLtMatmulDescSetAttribute(*op, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (!status)
    status = cublasLtMatmulDescSetAttribute(*op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                            sizeof epilogue);
  const int32_t type = (int32_t)DataTypeOf(p->result);
  if (!status && p->eights && p->bias)
    status = cublasLtMatmulDescSetAttribute(*op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                            sizeof type);
  if (!status && p->eights) status = SetScales(*op, op, op); /* looked at when it runs */
  return status;
}

int RengaCudaHasEights(void)
{
  return RengaCudaCapability >= EIGHTS_CAPABILITY;
}

int RengaCudaProductCreate(const RengaCudaProduct *p, size_t workspace_bytes, void *memory)
{
  Plan *plan = memory;
  const cudaDataType_t result = DataTypeOf(p->result);
  memset(plan, 0, sizeof *plan);
  if (p->eights && !RengaCudaHasEights())
    return RengaCudaSay("products of 8 bits", 1, "the GPU has none");
  plan->eights = p->eights != 0;
  plan->alpha = p->alpha;
  plan->beta = p->beta;
  plan->workspace_bytes = workspace_bytes;
  cublasStatus_t status = CreateOperation(p, &plan->op);
  if (!status)
    status = CreateLayout(&plan->a, FactorTypeOf(p, 0), p->trans_a ? p->k : p->m,
                          p->trans_a ? p->m : p->k, p->lda, p->batch, p->stride_a);
  if (!status)
    status = CreateLayout(&plan->b, FactorTypeOf(p, 1), p->trans_b ? p->n : p->k,
                          p->trans_b ? p->k : p->n, p->ldb, p->batch, p->stride_b);
  if (!status) status = CreateLayout(&plan->c, result, p->m, p->n, p->ldc, p->batch, p->stride_c);
  int code = SayStatus("a plan of cuBLASLt", status);
  if (!code) code = ChooseAlgorithm(plan, p);
  if (code) RengaCudaProductDestroy(plan);
  return code;
}

int RengaCudaProductRun(void *stream, void *memory, const void *a, const void *b, const void *bias,
                        void *c, void *workspace)
{
  Plan *plan = memory;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (bias)
    status = cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                            sizeof bias);
  if (!status && plan->eights) status = SetScales(plan->op, a, b);
  if (!status)
    status = cublasLtMatmul(handle, plan->op, &plan->alpha, b, plan->b, a, plan->a, &plan->beta, c,
                            plan->c, c, plan->c, &plan->algo, workspace, plan->workspace_bytes,
                            (cudaStream_t)stream);
  return SayStatus("cublasLtMatmul", status);
}

int RengaCudaProductDestroy(void *memory)
{
  Plan *plan = memory;
  if (plan->a) cublasLtMatrixLayoutDestroy(plan->a);
  if (plan->b) cublasLtMatrixLayoutDestroy(plan->b);
  if (plan->c) cublasLtMatrixLayoutDestroy(plan->c);
  if (plan->op) cublasLtMatmulDescDestroy(plan->op);
  memset(plan, 0, sizeof *plan);
  return 0;
}
