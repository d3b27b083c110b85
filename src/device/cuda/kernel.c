/* Kernels of the cuda device, for float32: elementwise functions and products. An operator that
   has no row here, or a type or shape that its row does not take, is computed on the host from
   copies. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  int function;
  int64_t count;
  float a, b;
} CudaUnary;

typedef struct {
  int function;
  RengaCudaBroadcast shape;
} CudaBinary;

/* a, b: numbers of the kernel's inputs; the plan stands behind. */
typedef struct {
  int a, b;
  _Alignas(64) char plan[];
} CudaProduct;

static bool AllAreFloats_Cuda(const RengaOpCall *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i].ndim < 0 || call->in[i].type != RENGA_FLOAT32) return false;
  for (int o = 0; o < call->n_out; o++)
    if (call->out[o].ndim < 0 || call->out[o].type != RENGA_FLOAT32) return false;
  return true;
}

static RengaErrorCode FreeData_Cuda(RengaKernel kernel)
{
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode UnaryRun_Cuda(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const CudaUnary *s = kernel->data;
  const bool gradient = kernel->call.n_in == 2;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device, module_->unary(RengaCudaStream_Private(kernel->device, stream),
                                                 s->function, s->count, gradient ? in[0] : NULL,
                                                 in[gradient ? 1 : 0], out[0], s->a, s->b));
  return RENGA_SUCCESS;
}

/* The operators that have attributes, and the names of these. */
static const struct {
  const char *op, *a, *b;
} attributes[] = {
    {"Clip", "min", "max"},           {"Swish", "alpha", NULL},
    {"SwishGrad", "alpha", NULL},     {"LeakyRelu", "alpha", NULL},
    {"LeakyReluGrad", "alpha", NULL}, {"ThresholdedRelu", "alpha", NULL},
};

static int FindUnary_Cuda(const RengaKernel kernel)
{
  const RengaCudaModule *module = RengaCudaOf_Private(kernel->device)->module;
  const char *name = kernel->call.op->name;
  const bool is_gelu = strncmp(name, "Gelu", 4) == 0;
  if (is_gelu && strcmp(RengaOpCallString(&kernel->call, "approximate"), "tanh") == 0)
    name = strcmp(name, "Gelu") == 0 ? "GeluTanh" : "GeluTanhGrad";
  return module->findunary(name);
}

static RengaErrorCode UnaryCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int function = FindUnary_Cuda(kernel);
  if (function < 0 || !AllAreFloats_Cuda(call)) return RENGA_SUCCESS;
  CudaUnary *s;
  RengaCall(RengaMalloc(1, &s));
  *s = (CudaUnary){.function = function, .count = RengaTensorSpecCount(&call->out[0])};
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    if (strcmp(attributes[i].op, call->op->name) != 0) continue;
    s->a = (float)RengaOpCallReal(call, attributes[i].a);
    if (attributes[i].b) s->b = (float)RengaOpCallReal(call, attributes[i].b);
  }
  kernel->data = s;
  kernel->destroy = FreeData_Cuda;
  kernel->run = UnaryRun_Cuda;
  for (int i = 0; i < call->n_in; i++) kernel->alias |= RENGA_KERNEL_ALIAS(0, i);
  return RENGA_SUCCESS;
}

static RengaErrorCode BinaryRun_Cuda(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const CudaBinary *s = kernel->data;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device, module_->binary(RengaCudaStream_Private(kernel->device, stream),
                                                  s->function, &s->shape, in[0], in[1], out[0]));
  return RENGA_SUCCESS;
}

/* Strides of an input that is aligned at the output's last dimension; true: none is broadcast. */
static bool FindStrides_Cuda(const RengaTensorSpec *in, const RengaTensorSpec *out,
                             int64_t stride[])
{
  int64_t size = 1;
  for (int d = out->ndim - 1; d >= 0; d--) {
    const int own = d - (out->ndim - in->ndim);
    const int64_t extent = own >= 0 ? in->dim[own] : 1;
    stride[d] = extent == 1 ? 0 : size;
    size *= extent;
  }
  return size == RengaTensorSpecCount(out);
}

static RengaErrorCode BinaryCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int function = RengaCudaOf_Private(kernel->device)->module->findbinary(call->op->name);
  if (function < 0 || call->n_in != 2 || !AllAreFloats_Cuda(call)) return RENGA_SUCCESS;
  CudaBinary *s;
  RengaCall(RengaMalloc(1, &s));
  s->function = function;
  s->shape.dimensions = call->out[0].ndim;
  s->shape.count = RengaTensorSpecCount(&call->out[0]);
  memcpy(s->shape.extent, call->out[0].dim, sizeof s->shape.extent);
  for (int i = 0; i < 2; i++)
    if (FindStrides_Cuda(&call->in[i], &call->out[0], s->shape.stride[i]))
      kernel->alias |= RENGA_KERNEL_ALIAS(0, i);
  kernel->data = s;
  kernel->destroy = FreeData_Cuda;
  kernel->run = BinaryRun_Cuda;
  return RENGA_SUCCESS;
}

static RengaErrorCode ProductRun_Cuda(RengaKernel kernel, RengaStream stream,
                                      const RengaKernelContext *context, const void *const in[],
                                      void *const out[], void *workspace)
{
  CudaProduct *s = kernel->data;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->productrun(RengaCudaStream_Private(kernel->device, stream), s->plan,
                                      in[s->a], in[s->b], kernel->call.n_in > 2 ? in[2] : NULL,
                                      out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ProductDestroy_Cuda(RengaKernel kernel)
{
  CudaProduct *s = kernel->data;
  RENGA_CALL_CUDA(kernel->device, module_->productdestroy(s->plan));
  RengaCall(FreeData_Cuda(kernel));
  return RENGA_SUCCESS;
}

/* Leaves the kernel to the host where a dimension is 0. a, b: which inputs the factors are. */
static RengaErrorCode CreateProduct_Cuda(RengaKernel kernel, const RengaCudaProduct *product, int a,
                                         int b)
{
  const RengaCudaModule *module = RengaCudaOf_Private(kernel->device)->module;
  char *memory;
  if (!AllAreFloats_Cuda(&kernel->call)) return RENGA_SUCCESS;
  if (product->m * product->n * product->k * product->batch == 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(sizeof(CudaProduct) + module->product_bytes, &memory));
  CudaProduct *s = (CudaProduct *)(void *)memory;
  s->a = a;
  s->b = b;
  const int failed = module->productcreate(product, s->plan);
  if (failed) RengaFree(&memory);
  RengaCheck(!failed, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "%s: CUDA failed: %s",
             kernel->call.op->name, module->error());
  kernel->data = s;
  kernel->run = ProductRun_Cuda;
  kernel->destroy = ProductDestroy_Cuda;
  return RENGA_SUCCESS;
}

static RengaCudaProduct ProductOf_Cuda(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)
{
  return (RengaCudaProduct){.trans_a = trans_a,
                            .trans_b = trans_b,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = trans_a ? m : k,
                            .ldb = trans_b ? k : n,
                            .ldc = n,
                            .batch = 1,
                            .alpha = 1};
}

static int64_t LastExtent_Cuda(const RengaTensorSpec *spec)
{
  return spec->dim[spec->ndim - 1];
}

/* y = x w + bias; w is [in, out], or [out, in] with transB */
static RengaErrorCode LinearCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCudaProduct p = ProductOf_Cuda(RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1),
                                      LastExtent_Cuda(&call->out[0]), LastExtent_Cuda(&call->in[0]),
                                      false, RengaOpCallInt(call, "transB") != 0);
  p.bias = call->n_in > 2;
  RengaCall(CreateProduct_Cuda(kernel, &p, 0, 1));
  return RENGA_SUCCESS;
}

/* dx = dy w^T */
static RengaErrorCode LinearGradInputCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaCudaProduct p = ProductOf_Cuda(
      RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1), LastExtent_Cuda(&call->out[0]),
      LastExtent_Cuda(&call->in[0]), false, RengaOpCallInt(call, "transB") == 0);
  RengaCall(CreateProduct_Cuda(kernel, &p, 0, 1));
  return RENGA_SUCCESS;
}

/* dw = x^T dy, or with transB dy^T x */
static RengaErrorCode LinearGradWeightCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const bool swap = RengaOpCallInt(call, "transB") != 0;
  const int a = swap ? 1 : 0, b = swap ? 0 : 1;
  const RengaCudaProduct p =
      ProductOf_Cuda(LastExtent_Cuda(&call->in[a]), LastExtent_Cuda(&call->in[b]),
                     RengaOpProduct(&call->in[0], 0, call->in[0].ndim - 1), true, false);
  RengaCall(CreateProduct_Cuda(kernel, &p, a, b));
  return RENGA_SUCCESS;
}

/* Matrices, or one dimension of batches. */
static RengaErrorCode MatMulCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaOpMatMul shape;
  RengaCall(RengaOpGetMatMul(call, &shape));
  if (call->in[0].ndim < 2 || call->in[1].ndim < 2 || shape.n_batch > 1) return RENGA_SUCCESS;
  RengaCudaProduct p =
      ProductOf_Cuda(shape.m, shape.n, shape.k, RengaOpCallInt(call, "transA") != 0,
                     RengaOpCallInt(call, "transB") != 0);
  p.alpha = (float)RengaOpCallReal(call, "alpha");
  if (shape.n_batch == 1) {
    p.batch = shape.batch[0];
    p.stride_a = shape.a_batch[0];
    p.stride_b = shape.b_batch[0];
    p.stride_c = shape.m * shape.n;
  }
  RengaCall(CreateProduct_Cuda(kernel, &p, 0, 1));
  return RENGA_SUCCESS;
}

static const RengaKernelRow rows[] = {
    {"Linear", LinearCreate_Cuda},
    {"LinearGradInput", LinearGradInputCreate_Cuda},
    {"LinearGradWeight", LinearGradWeightCreate_Cuda},
    {"MatMul", MatMulCreate_Cuda},
};

RengaErrorCode RengaCudaFindKernel_Private(RengaDevice device, const char *name,
                                           const RengaKernelRow **row)
{
  static const RengaKernelRow unary = {"any of one input", UnaryCreate_Cuda};
  static const RengaKernelRow binary = {"any of two inputs", BinaryCreate_Cuda};
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  *row = NULL;
  if (module->findunary(name) >= 0) *row = &unary;
  if (module->findbinary(name) >= 0) *row = &binary;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) *row = &rows[i];
  return RENGA_SUCCESS;
}
