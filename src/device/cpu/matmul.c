/* Products of bfloat16 matrices: a primitive of oneDNN for one shape, made for one thread. */
#include "matmul.h"
#include "dnn.h"
#include "onednn.h"
#include <omp.h>

enum { MATRIX_A, MATRIX_B, MATRIX_C, MATRIX_BIAS, MATRIX_SCRATCH, N_MATRICES };
static const int arguments[N_MATRICES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                          DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD};

struct _RengaBrainProduct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  bool has_bias;
  int threads;
  size_t scratch;
  dnnl_memory_t *memory; /* [threads][N_MATRICES] */
};

static dnnl_data_type_t TypeOfDnn(RengaDataType type)
{
  return type == RENGA_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

static dnnl_status_t DescribeMatrix(int64_t rows, int64_t columns, bool transposed, int64_t ld,
                                    dnnl_data_type_t type, dnnl_memory_desc_t *matrix)
{
  dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
  return dnnl_memory_desc_init_by_strides(matrix, 2, dims, type, strides);
}

static RengaErrorCode DescribeMatrices(const RengaBrainShape *s, dnnl_memory_desc_t matrix[])
{
  CallDNN(DescribeMatrix(s->m, s->k, s->trans_a, s->lda, dnnl_bf16, &matrix[MATRIX_A]));
  CallDNN(DescribeMatrix(s->k, s->n, s->trans_b, s->ldb, dnnl_bf16, &matrix[MATRIX_B]));
  CallDNN(DescribeMatrix(s->m, s->n, false, s->ldc, TypeOfDnn(s->c), &matrix[MATRIX_C]));
  CallDNN(DescribeMatrix(1, s->n, false, s->n, TypeOfDnn(s->bias), &matrix[MATRIX_BIAS]));
  return RENGA_SUCCESS;
}

/* How the result is scaled and where it goes. */
static dnnl_status_t DescribeResult(const RengaBrainShape *s, dnnl_primitive_attr_t attributes)
{
  dnnl_status_t status =
      dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (status == dnnl_success && s->alpha != 1)
    status = dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &s->alpha);
  if (status != dnnl_success || !s->adds) return status;
  dnnl_post_ops_t sum = NULL;
  status = dnnl_post_ops_create(&sum);
  if (status == dnnl_success) status = dnnl_post_ops_append_sum(sum, 1);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, sum);
  dnnl_post_ops_destroy(sum);
  return status;
}

/* description: NULL where there is none. */
static RengaErrorCode DescribeProduct(RengaBrainProduct product, const RengaBrainShape *s,
                                      const dnnl_memory_desc_t matrix[],
                                      dnnl_primitive_desc_t *description)
{
  dnnl_matmul_desc_t wanted;
  dnnl_primitive_attr_t attributes = NULL;
  *description = NULL;
  CallDNN(dnnl_matmul_desc_init(&wanted, &matrix[MATRIX_A], &matrix[MATRIX_B],
                                s->has_bias ? &matrix[MATRIX_BIAS] : NULL, &matrix[MATRIX_C]));
  CallDNN(dnnl_primitive_attr_create(&attributes));
  dnnl_status_t status = DescribeResult(s, attributes);
  if (status == dnnl_success)
    status = dnnl_primitive_desc_create(description, &wanted, attributes, product->engine, NULL);
  dnnl_primitive_attr_destroy(attributes);
  if (status == dnnl_unimplemented) return RENGA_SUCCESS;
  CallDNN(status);
  return RENGA_SUCCESS;
}

/* One for each thread; who runs it says where they are. */
static RengaErrorCode CreateMatrices(RengaBrainProduct product, dnnl_memory_desc_t matrix[])
{
  dnnl_dims_t bytes = {(int64_t)product->scratch};
  CallDNN(dnnl_memory_desc_init_by_tag(&matrix[MATRIX_SCRATCH], 1, bytes, dnnl_u8, dnnl_a));
  RengaCall(RengaMalloc(product->threads * N_MATRICES, &product->memory));
  for (int i = 0; i < product->threads * N_MATRICES; i++)
    CallDNN(dnnl_memory_create(&product->memory[i], &matrix[i % N_MATRICES], product->engine,
                               DNNL_MEMORY_NONE));
  return RENGA_SUCCESS;
}

/* primitive stays NULL where oneDNN has none. */
static RengaErrorCode SetUpProduct(RengaBrainProduct product, const RengaBrainShape *shape)
{
  dnnl_memory_desc_t matrix[N_MATRICES];
  dnnl_primitive_desc_t description;
  CallDNN(dnnl_engine_create(&product->engine, dnnl_cpu, 0));
  CallDNN(dnnl_stream_create(&product->stream, product->engine, dnnl_stream_default_flags));
  RengaCall(DescribeMatrices(shape, matrix));
  RengaCall(DescribeProduct(product, shape, matrix, &description));
  if (!description) return RENGA_SUCCESS;
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  product->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  const dnnl_status_t status = dnnl_primitive_create(&product->primitive, description);
  dnnl_primitive_desc_destroy(description);
  CallDNN(status);
  RengaCall(CreateMatrices(product, matrix));
  return RENGA_SUCCESS;
}

/* oneDNN asks OpenMP how many threads a primitive is made for. */
RengaErrorCode RengaBrainProductCreate(const RengaBrainShape *shape, int threads,
                                       RengaBrainProduct *product)
{
  RengaBrainProduct made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->has_bias = shape->has_bias;
  made->threads = threads;
  const int saved = omp_get_max_threads();
  omp_set_num_threads(1);
  const RengaErrorCode code = SetUpProduct(made, shape);
  omp_set_num_threads(saved);
  if (code || !made->primitive) RengaBrainProductDestroy(&made);
  RengaCall(code);
  *product = made;
  return RENGA_SUCCESS;
}

size_t RengaBrainProductGetScratch(RengaBrainProduct product)
{
  return product->scratch;
}

int RengaBrainProductRun(RengaBrainProduct product, int thread, const void *a, const void *b,
                         const void *bias, void *c, void *scratch)
{
  const void *data[N_MATRICES] = {a, b, c, bias, scratch};
  dnnl_memory_t *memory = product->memory + thread * N_MATRICES;
  dnnl_exec_arg_t args[N_MATRICES];
  dnnl_status_t status = dnnl_success;
  int count = 0;
  for (int i = 0; i < N_MATRICES && status == dnnl_success; i++) {
    if (i == MATRIX_BIAS && !product->has_bias) continue;
    status = dnnl_memory_set_data_handle(memory[i], (void *)(uintptr_t)data[i]);
    args[count++] = (dnnl_exec_arg_t){arguments[i], memory[i]};
  }
  RengaCpuBeAlone();
  if (status == dnnl_success)
    status = dnnl_primitive_execute(product->primitive, product->stream, count, args);
  return (int)status;
}

RengaErrorCode RengaBrainProductDestroy(RengaBrainProduct *product)
{
  RengaBrainProduct p = *product;
  if (!p) return RENGA_SUCCESS;
  for (int i = 0; p->memory && i < p->threads * N_MATRICES; i++)
    if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
  RengaFree(&p->memory);
  if (p->primitive) dnnl_primitive_destroy(p->primitive);
  if (p->stream) dnnl_stream_destroy(p->stream);
  if (p->engine) dnnl_engine_destroy(p->engine);
  RengaFree(product);
  return RENGA_SUCCESS;
}
