/* The products themselves, by plain loops in one order: the same bits wherever operands stand. */
#include "blas.h"
#include <cmath>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef std::vector<float> Floats; /* a matrix without gaps */

static bool IsEight(cudaDataType type)
{
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/* Products of 8 bits: terms follow each other in both factors, extents are multiples of 16. */
static bool HasEights(const EmuProduct &p)
{
  const bool one_is_e4m3 = p.a.type == CUDA_R_8F_E4M3 || p.b.type == CUDA_R_8F_E4M3;
  const bool typed = p.c.type == p.d.type && (p.d.type == CUDA_R_16BF || p.d.type == CUDA_R_32F);
  for (const auto *m : {&p.a, &p.b, &p.d})
    if (m->rows % 16 || m->columns % 16 || m->leading % 16) return false;
  return IsEight(p.a.type) && IsEight(p.b.type) && one_is_e4m3 && typed && p.transpose_a &&
         !p.transpose_b && (!p.bias || p.bias_type == CUDA_R_16BF) && p.scale_a && p.scale_b &&
         p.compute == CUBLAS_COMPUTE_32F && EmuGetSettings().capability >= 89;
}

/* Those that NVIDIA's documentation lists for sums of float32. */
bool EmuHasTypes(const EmuProduct &p)
{
  if (IsEight(p.a.type) || IsEight(p.b.type)) return HasEights(p);
  const bool low = p.a.type == CUDA_R_16BF || p.a.type == CUDA_R_16F;
  const bool biased = p.bias && p.bias_type != p.d.type;
  return (low || p.a.type == CUDA_R_32F) && p.b.type == p.a.type && p.c.type == p.d.type &&
         (p.d.type == p.a.type || p.d.type == CUDA_R_32F) && !biased &&
         (p.compute == CUBLAS_COMPUTE_32F || p.a.type == CUDA_R_32F);
}

static size_t SizeOf(cudaDataType type)
{
  return type == CUDA_R_32F ? 4 : IsEight(type) ? 1 : 2;
}

size_t EmuMatrixBytes(const EmuMatrix &m)
{
  if (m.rows == 0 || m.columns == 0 || m.batch == 0) return 0;
  return (size_t)((m.batch - 1) * m.stride + (m.columns - 1) * m.leading + m.rows) * SizeOf(m.type);
}

/* By definition: 4 or 5 bits of exponent, 3 or 2 of fraction. */
static float LoadEight(unsigned char byte, bool e4m3)
{
  const int bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, size = byte & 0x7f;
  const int exponent = size >> bits, fraction = size & ((1 << bits) - 1);
  const float sign = byte & 0x80 ? -1.f : 1.f;
  if (e4m3 ? size == 0x7f : size > 0x7c) return NAN;
  if (!e4m3 && size == 0x7c) return sign * INFINITY;
  if (exponent == 0) return sign * ldexpf((float)fraction, 1 - bias - bits);
  return sign * ldexpf((float)(fraction + (1 << bits)), exponent - bias - bits);
}

float EmuLoadNumber(const void *from, cudaDataType type, int64_t i)
{
  if (IsEight(type)) return LoadEight(((const unsigned char *)from)[i], type == CUDA_R_8F_E4M3);
  if (type == CUDA_R_32F) return ((const float *)from)[i];
  return type == CUDA_R_16F ? __half2float(((const __half *)from)[i])
                            : __bfloat162float(((const __nv_bfloat16 *)from)[i]);
}

void EmuStoreNumber(float x, void *to, cudaDataType type, int64_t i)
{
  if (type == CUDA_R_32F)
    ((float *)to)[i] = x;
  else if (type == CUDA_R_16F)
    ((__half *)to)[i] = __float2half_rn(x);
  else
    ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn(x);
}

/* 10 bits of fraction, to nearest, ties to even. */
float EmuRoundToTf32(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000) == 0x7f800000) return x;
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

static Floats LoadMatrix(const void *from, const EmuMatrix &m, int64_t number, bool transpose)
{
  Floats to((size_t)(m.rows * m.columns));
  for (int64_t c = 0; c < m.columns; c++)
    for (int64_t r = 0; r < m.rows; r++)
      to[(size_t)(transpose ? r * m.columns + c : c * m.rows + r)] =
          EmuLoadNumber(from, m.type, number * m.stride + c * m.leading + r);
  return to;
}

static void StoreMatrix(const Floats &from, void *to, const EmuMatrix &m, int64_t number)
{
  for (int64_t c = 0; c < m.columns; c++)
    for (int64_t r = 0; r < m.rows; r++)
      EmuStoreNumber(from[(size_t)(c * m.rows + r)], to, m.type,
                     number * m.stride + c * m.leading + r);
}

/* y[rows, columns] = a[rows, inner] b[inner, columns] */
static Floats Multiply(const Floats &a, const Floats &b, int64_t rows, int64_t columns,
                       int64_t inner)
{
  Floats y((size_t)(rows * columns), 0.f);
  for (int64_t c = 0; c < columns; c++)
    for (int64_t k = 0; k < inner; k++) {
      const float *column = &a[(size_t)(k * rows)], x = b[(size_t)(c * inner + k)];
      float *out = &y[(size_t)(c * rows)];
      for (int64_t r = 0; r < rows; r++) out[r] += column[r] * x;
    }
  return y;
}

static const float SCALE = 0.7978845608f; /* sqrt(2 / pi) */

static float Gelu(float x)
{
  return 0.5f * x * (1 + tanhf(SCALE * (x + 0.044715f * x * x * x)));
}

static float GeluSlope(float x)
{
  const float t = tanhf(SCALE * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SCALE * (1 + 3 * 0.044715f * x * x);
}

/* What an epilogue does, in this order. */
enum { ADD_BIAS = 1, KEEP = 2, RELU = 4, GELU = 8, GELU_SLOPE = 16, SUM_ROWS = 32, SUM_B = 64 };
static const struct {
  cublasLtEpilogue_t epilogue;
  int does;
} epilogues[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, 0},
    {CUBLASLT_EPILOGUE_BIAS, ADD_BIAS},
    {CUBLASLT_EPILOGUE_RELU, RELU},
    {CUBLASLT_EPILOGUE_RELU_BIAS, ADD_BIAS | RELU},
    {CUBLASLT_EPILOGUE_GELU, GELU},
    {CUBLASLT_EPILOGUE_GELU_BIAS, ADD_BIAS | GELU},
    {CUBLASLT_EPILOGUE_GELU_AUX, KEEP | GELU},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, ADD_BIAS | KEEP | GELU},
    {CUBLASLT_EPILOGUE_DGELU, GELU_SLOPE},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, GELU_SLOPE | SUM_ROWS},
    {CUBLASLT_EPILOGUE_BGRADB, SUM_B},
};

static int Does(cublasLtEpilogue_t epilogue)
{
  for (const auto &row : epilogues)
    if (row.epilogue == epilogue) return row.does;
  return -1;
}

bool EmuHasEpilogue(cublasLtEpilogue_t epilogue)
{
  return Does(epilogue) >= 0;
}

/* y[i] gets what elements of its row have in common, or gives to it. */
static void ApplyEpilogue(const EmuProduct &p, Floats &y)
{
  const int does = Does(p.epilogue);
  const int64_t rows = p.d.rows, columns = p.d.columns;
  Floats sum((size_t)rows, 0.f);
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++) {
      float &x = y[(size_t)(c * rows + r)];
      const int64_t aux = c * p.aux_leading + r;
      if (does & ADD_BIAS) x += EmuLoadNumber(p.bias, p.bias_type, r);
      if (does & KEEP) EmuStoreNumber(x, p.aux, p.aux_type, aux);
      if (does & RELU) x = x > 0 ? x : 0;
      if (does & GELU) x = Gelu(x);
      if (does & GELU_SLOPE) x *= GeluSlope(EmuLoadNumber(p.aux, p.aux_type, aux));
      if (does & SUM_ROWS) sum[(size_t)r] += x;
    }
  for (int64_t r = 0; r < rows && (does & SUM_ROWS); r++)
    EmuStoreNumber(sum[(size_t)r], p.bias, p.bias_type, r);
}

/* b: [inner, columns] */
static void SumColumnsOfB(const EmuProduct &p, const Floats &b, int64_t inner)
{
  for (int64_t c = 0; c < p.d.columns; c++) {
    float sum = 0;
    for (int64_t k = 0; k < inner; k++) sum += b[(size_t)(c * inner + k)];
    EmuStoreNumber(sum, p.bias, p.bias_type, c);
  }
}

void EmuMultiply(const EmuProduct &p)
{
  const int64_t inner = p.transpose_a ? p.a.rows : p.a.columns;
  for (int64_t i = 0; i < p.d.batch; i++) {
    Floats a = LoadMatrix(p.in_a, p.a, i, p.transpose_a);
    Floats b = LoadMatrix(p.in_b, p.b, i, p.transpose_b);
    if (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      for (float &v : a) v = EmuRoundToTf32(v);
      for (float &v : b) v = EmuRoundToTf32(v);
    }
    Floats y = Multiply(a, b, p.d.rows, p.d.columns, inner);
    const Floats c = p.beta != 0 ? LoadMatrix(p.in_c, p.c, i, false) : Floats();
    const float scales = p.scale_a ? *(const float *)p.scale_a * *(const float *)p.scale_b : 1;
    for (float &v : y) v *= scales;
    for (size_t k = 0; k < y.size(); k++) y[k] = p.alpha * y[k] + (c.empty() ? 0 : p.beta * c[k]);
    ApplyEpilogue(p, y);
    if (Does(p.epilogue) & SUM_B) SumColumnsOfB(p, b, inner);
    StoreMatrix(y, p.out, p.d, i);
  }
}
