/* cuBLASLt's functions: descriptions, and the queueing of products. An algorithm is what it was
   asked for: alignments and workspace, which a call must keep. */
#include "blas.h"
#include <cstring>

struct Description {
  cublasComputeType_t compute;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_leading = 0;
  int32_t bias_type = -1, aux_type = -1; /* -1: that of D */
  const void *scale_a = nullptr, *scale_b = nullptr;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};
struct Algorithm {
  uint32_t alignment[4];
  uint64_t workspace;
  int32_t family;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm is too long");

/* Copies an attribute of a size that is known. */
template <class T> static cublasStatus_t SetTo(T *to, const void *from, size_t bytes)
{
  if (bytes != sizeof *to || !from) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class H> static cublasStatus_t Make(H *handle)
{
  *handle = (H) new T();
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class H> static cublasStatus_t Drop(H handle)
{
  delete (T *)handle;
  return CUBLAS_STATUS_SUCCESS;
}

static EmuProduct Describe(const Description *d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out)
{
  EmuProduct p = {};
  p.compute = d->compute;
  p.transpose_a = d->transpose_a != CUBLAS_OP_N;
  p.transpose_b = d->transpose_b != CUBLAS_OP_N;
  p.a = *(const EmuMatrix *)a;
  p.b = *(const EmuMatrix *)b;
  p.c = *(const EmuMatrix *)c;
  p.d = *(const EmuMatrix *)out;
  p.epilogue = (cublasLtEpilogue_t)d->epilogue;
  p.bias = d->bias;
  p.aux = d->aux;
  p.aux_leading = d->aux_leading;
  p.scale_a = d->scale_a;
  p.scale_b = d->scale_b;
  p.bias_type = d->bias_type < 0 ? p.d.type : (cudaDataType)d->bias_type;
  p.aux_type = d->aux_type < 0 ? p.d.type : (cudaDataType)d->aux_type;
  return p;
}

static cublasStatus_t CheckShapes(const EmuProduct &p)
{
  const int64_t rows = p.transpose_a ? p.a.columns : p.a.rows;
  const int64_t inner_a = p.transpose_a ? p.a.rows : p.a.columns;
  const int64_t inner_b = p.transpose_b ? p.b.columns : p.b.rows;
  const int64_t columns = p.transpose_b ? p.b.rows : p.b.columns;
  for (const auto *m : {&p.a, &p.b, &p.c, &p.d}) {
    if (m->leading < m->rows || m->batch != p.d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!EmuHasTypes(p) || !EmuHasEpilogue(p.epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return inner_a == inner_b && rows == p.d.rows && columns == p.d.columns
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

static void CheckAlignment(const Algorithm &algorithm, const EmuProduct &p)
{
  const void *operand[4] = {p.in_a, p.in_b, p.in_c, p.out};
  for (int i = 0; i < 4; i++)
    if ((uintptr_t)operand[i] % algorithm.alignment[i])
      EmuFail("cublasLtMatmul: operand %c is at %p, and the algorithm was chosen for %u bytes of "
              "alignment (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_%c_BYTES; 256 unless told)",
              "ABCD"[i], operand[i], algorithm.alignment[i], "ABCD"[i]);
}

static void CheckMemory(const EmuProduct &p)
{
  EmuNeedDevice("cublasLtMatmul", "A", p.in_a, EmuMatrixBytes(p.a));
  EmuNeedDevice("cublasLtMatmul", "B", p.in_b, EmuMatrixBytes(p.b));
  EmuNeedDevice("cublasLtMatmul", "D", p.out, EmuMatrixBytes(p.d));
  if (p.beta != 0) EmuNeedDevice("cublasLtMatmul", "C", p.in_c, EmuMatrixBytes(p.c));
  if (p.scale_a) EmuNeedDevice("cublasLtMatmul", "the scale of A", p.scale_a, sizeof(float));
  if (p.scale_b) EmuNeedDevice("cublasLtMatmul", "the scale of B", p.scale_b, sizeof(float));
  if (p.bias) EmuNeedDevice("cublasLtMatmul", "the bias", p.bias, 1);
  if (p.aux) EmuNeedDevice("cublasLtMatmul", "the auxiliary output", p.aux, 1);
}

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
  if (!EmuGetSettings().devices) return CUBLAS_STATUS_NOT_INITIALIZED;
  return Make<int>(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
  return Drop<int>(handle);
}

size_t cublasLtGetVersion(void)
{
  const int major = EmuGetSettings().cublas;
  return major ? (size_t)major * 10000 : CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t)
{
  return "error of the emulated cuBLASLt";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t scale)
{
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cublasStatus_t status = Make<Description>(description);
  ((Description *)*description)->compute = compute;
  return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
  return Drop<Description>(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *from, size_t bytes)
{
  Description *d = (Description *)description;
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return SetTo(&d->transpose_a, from, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return SetTo(&d->transpose_b, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return SetTo(&d->epilogue, from, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return SetTo(&d->bias, from, bytes);
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return SetTo(&d->scale_a, from, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return SetTo(&d->scale_b, from, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return SetTo(&d->bias_type, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return SetTo(&d->aux, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return SetTo(&d->aux_leading, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return SetTo(&d->aux_type, from, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
  *layout =
      (cublasLtMatrixLayout_t) new EmuMatrix{type, (int64_t)rows, (int64_t)columns, leading, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
  return Drop<EmuMatrix>(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *from, size_t bytes)
{
  EmuMatrix *m = (EmuMatrix *)layout;
  int32_t count = 0;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    status = SetTo(&count, from, bytes);
    if (!status) m->batch = count;
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    status = SetTo(&m->stride, from, bytes);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
  return Make<Preference>(preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
  return Drop<Preference>(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *from, size_t bytes)
{
  Preference *p = (Preference *)preference;
  const int operand = (int)attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return SetTo(&p->workspace, from, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return SetTo(&p->schemes, from, bytes);
  if (operand >= 0 && operand < 4) return SetTo(&p->alignment[operand], from, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
  Algorithm algorithm;
  memcpy(&algorithm, algo, sizeof algorithm);
  const int32_t family = algorithm.family;
  if (attribute != CUBLASLT_ALGO_CONFIG_ID || bytes != sizeof family)
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, &family, sizeof family);
  *written = sizeof family;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t result[], int *found)
{
  const Preference *p = (const Preference *)preference;
  const cublasStatus_t status = CheckShapes(Describe((const Description *)description, a, b, c, d));
  *found = 0;
  if (status || wanted < 1) return status ? status : CUBLAS_STATUS_INVALID_VALUE;
  if (p->schemes != CUBLASLT_REDUCTION_SCHEME_NONE)
    EmuFail("cublasLtMatmulAlgoGetHeuristic: sums may be split (CUBLASLT_MATMUL_PREF_REDUCTION_"
            "SCHEME_MASK is %u): their bits would depend on the device",
            p->schemes);
  Algorithm algorithm = {};
  memcpy(algorithm.alignment, p->alignment, sizeof algorithm.alignment);
  algorithm.workspace = p->workspace;
  memset((void *)result, 0, (size_t)wanted * sizeof *result);
  for (*found = 0; *found < 2 && *found < wanted; ++*found) {
    algorithm.family = *found;
    memcpy((void *)&result[*found].algo, &algorithm, sizeof algorithm);
    result[*found].workspaceSize = p->workspace;
    result[*found].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t stream)
{
  Algorithm algorithm;
  if (!algo) EmuFail("cublasLtMatmul: no algorithm, so that each call might take another one");
  memcpy(&algorithm, algo, sizeof algorithm);
  if (EmuGetSettings().cublas && algorithm.family > 0)
    EmuFail(
        "cublasLtMatmul: an algorithm that was not advised first, for the number of its family, "
        "of which cuBLAS %d says nothing",
        EmuGetSettings().cublas);
  EmuProduct p = Describe((const Description *)description, a, b, c, d);
  p.in_a = A;
  p.in_b = B;
  p.in_c = C;
  p.out = D;
  p.alpha = *(const float *)alpha;
  p.beta = *(const float *)beta;
  const cublasStatus_t status = CheckShapes(p);
  if (status) return status;
  if (algorithm.workspace > bytes) return CUBLAS_STATUS_INVALID_VALUE;
  CheckAlignment(algorithm, p);
  CheckMemory(p);
  EmuNeedDevice("cublasLtMatmul", "the workspace", workspace, bytes);
  const cudaError_t code = EmuQueue(stream, "cublasLtMatmul", [p] {
    EmuMultiply(p);
    return true;
  });
  return code ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
}
