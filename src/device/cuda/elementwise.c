/* Elementwise operators of the cuda device: of one float and their gradients, of two numbers that
   broadcast, Where, conversions, and constants. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  int function;
  int64_t count;
  float a, b;
} CudaUnary;

typedef struct {
  int function, size; /* size: of Where */
  RengaCudaBroadcast shape;
} CudaBinary;

/* As functions are listed: all floats are one type. */
static RengaCudaType ListedType_Cuda(RengaDataType type)
{
  return RengaDeviceIsLow(type) ? RENGA_CUDA_FLOAT32 : RengaCudaTypeOf_Private(type);
}

static RengaErrorCode UnaryRun_Cuda(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const CudaUnary *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int x = call->n_in - 1; /* in gradients behind dy */
  const void *dy = x ? in[0] : NULL;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->each.unary(RengaCudaStream_Private(kernel->device, stream), s->function,
                                      s->count, RengaCudaOperand_Private(&call->in[0], dy),
                                      RengaCudaOperand_Private(&call->in[x], in[x]),
                                      RengaCudaOperand_Private(&call->out[0], out[0]), s->a, s->b));
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
  const RengaCudaModule *module = RengaCudaModuleOf_Private(kernel);
  const char *name = kernel->call.op->name;
  const bool is_gelu = strncmp(name, "Gelu", 4) == 0;
  if (is_gelu && strcmp(RengaOpCallString(&kernel->call, "approximate"), "tanh") == 0)
    name = strcmp(name, "Gelu") == 0 ? "GeluTanh" : "GeluTanhGrad";
  return module->each.findunary(name);
}

static RengaErrorCode UnaryCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int function = FindUnary_Cuda(kernel);
  if (function < 0 || !RengaCudaAllFloats_Private(call)) return RENGA_SUCCESS;
  CudaUnary *s;
  RengaCall(RengaMalloc(1, &s));
  *s = (CudaUnary){.function = function, .count = RengaTensorSpecCount(&call->out[0])};
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    if (strcmp(attributes[i].op, call->op->name) != 0) continue;
    s->a = (float)RengaOpCallReal(call, attributes[i].a);
    if (attributes[i].b) s->b = (float)RengaOpCallReal(call, attributes[i].b);
  }
  kernel->data = s;
  kernel->destroy = RengaCudaFreeData_Private;
  kernel->run = UnaryRun_Cuda;
  for (int i = 0; i < call->n_in; i++) RengaCudaAllowOver_Private(kernel, i);
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

/* Drops dimensions of extent 1, and joins neighbours that are one run in all n inputs. */
static void JoinBroadcast_Cuda(RengaCudaBroadcast *s, int n)
{
  int kept = 0;
  for (int d = 0; d < s->dimensions; d++) {
    if (s->extent[d] == 1) continue;
    bool join = kept > 0;
    for (int i = 0; i < n && join; i++)
      join = s->stride[i][kept - 1] == s->stride[i][d] * s->extent[d];
    const int64_t extent = join ? s->extent[kept - 1] * s->extent[d] : s->extent[d];
    if (!join) kept++;
    s->extent[kept - 1] = extent;
    for (int i = 0; i < n; i++) s->stride[i][kept - 1] = s->stride[i][d];
  }
  s->dimensions = kept;
}

/* The broadcast of all inputs; output 0 may be written over those that are not. */
static RengaErrorCode CreateBroadcast_Cuda(RengaKernel kernel, RengaKernelRunFunction run,
                                           CudaBinary **made)
{
  const RengaOpCall *call = &kernel->call;
  CudaBinary *s;
  RengaCall(RengaMalloc(1, &s));
  s->shape.dimensions = call->out[0].ndim;
  s->shape.count = RengaTensorSpecCount(&call->out[0]);
  memcpy(s->shape.extent, call->out[0].dim, sizeof s->shape.extent);
  for (int i = 0; i < call->n_in; i++)
    if (FindStrides_Cuda(&call->in[i], &call->out[0], s->shape.stride[i]))
      RengaCudaAllowOver_Private(kernel, i);
  if (s->shape.count > 0) JoinBroadcast_Cuda(&s->shape, call->n_in);
  kernel->data = s;
  kernel->destroy = RengaCudaFreeData_Private;
  kernel->run = run;
  *made = s;
  return RENGA_SUCCESS;
}

static RengaErrorCode BinaryRun_Cuda(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const CudaBinary *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->each.binary(RengaCudaStream_Private(kernel->device, stream), s->function,
                                       &s->shape, RengaCudaOperand_Private(&call->in[0], in[0]),
                                       RengaCudaOperand_Private(&call->in[1], in[1]),
                                       RengaCudaOperand_Private(&call->out[0], out[0])));
  return RENGA_SUCCESS;
}

static RengaErrorCode BinaryCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaCudaModule *module = RengaCudaModuleOf_Private(kernel);
  const RengaCudaType type = ListedType_Cuda(call->in[0].type);
  const int function = module->each.findbinary(call->op->name, type);
  CudaBinary *s;
  if (function < 0 || ListedType_Cuda(call->in[1].type) != type) return RENGA_SUCCESS;
  RengaCall(CreateBroadcast_Cuda(kernel, BinaryRun_Cuda, &s));
  s->function = function;
  return RENGA_SUCCESS;
}

static RengaErrorCode WhereRun_Cuda(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const CudaBinary *s = kernel->data;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->each.choose(RengaCudaStream_Private(kernel->device, stream), s->size,
                                       &s->shape, in[0], in[1], in[2], out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode WhereCreate_Cuda(RengaKernel kernel)
{
  CudaBinary *s;
  if (!RengaCudaAllOf_Private(&kernel->call, 1, kernel->call.in[1].type)) return RENGA_SUCCESS;
  RengaCall(CreateBroadcast_Cuda(kernel, WhereRun_Cuda, &s));
  s->size = (int)RengaDataTypeSize(kernel->call.out[0].type);
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvertRun_Cuda(RengaKernel kernel, RengaStream stream,
                                      const RengaKernelContext *context, const void *const in[],
                                      void *const out[], void *workspace)
{
  const CudaUnary *s = kernel->data;
  (void)context;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->each.convert(RengaCudaStream_Private(kernel->device, stream),
                                        s->function, s->count,
                                        RengaCudaOperand_Private(&kernel->call.in[0], in[0]),
                                        RengaCudaOperand_Private(&kernel->call.out[0], out[0])));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyRun_Cuda(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const size_t bytes = RengaTensorSpecBytes(&kernel->call.out[0]);
  (void)context;
  (void)workspace;
  if (bytes && in[0] != out[0])
    RENGA_CALL_CUDA(kernel->device, module_->copy(RengaCudaStream_Private(kernel->device, stream),
                                                  RENGA_CUDA_WITHIN, out[0], in[0], bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyCreate_Cuda(RengaKernel kernel)
{
  if (!RengaCudaOneType_Private(&kernel->call)) return RENGA_SUCCESS;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  kernel->run = CopyRun_Cuda;
  return RENGA_SUCCESS;
}

/* Cast and Not */
static RengaErrorCode ConvertCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaDataType from = call->in[0].type, to = call->out[0].type;
  const int function = RengaCudaModuleOf_Private(kernel)->each.findconversion(
      call->op->name, ListedType_Cuda(from), ListedType_Cuda(to));
  CudaUnary *s;
  if (from == to && strcmp(call->op->name, "Cast") == 0) {
    RengaCall(CopyCreate_Cuda(kernel));
    return RENGA_SUCCESS;
  }
  if (function < 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &s));
  *s = (CudaUnary){.function = function, .count = RengaTensorSpecCount(&call->out[0])};
  kernel->data = s;
  kernel->destroy = RengaCudaFreeData_Private;
  kernel->run = ConvertRun_Cuda;
  RengaCudaAllowOver_Private(kernel, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode ConstantRun_Cuda(RengaKernel kernel, RengaStream stream,
                                       const RengaKernelContext *context, const void *const in[],
                                       void *const out[], void *workspace)
{
  const RengaTensorSpec *y = &kernel->call.out[0];
  const uint64_t bits = RengaCudaBits_Private(y->type, RengaOpCallReal(&kernel->call, "value"));
  (void)context;
  (void)in;
  (void)workspace;
  RENGA_CALL_CUDA(kernel->device,
                  module_->each.fill(RengaCudaStream_Private(kernel->device, stream),
                                     (int)RengaDataTypeSize(y->type), bits, RengaTensorSpecCount(y),
                                     out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConstantCreate_Cuda(RengaKernel kernel)
{
  if (RengaCudaTypeOf_Private(kernel->call.out[0].type) != RENGA_CUDA_NO_TYPE)
    kernel->run = ConstantRun_Cuda;
  return RENGA_SUCCESS;
}

#define UNARY(name)                                                                                \
  {                                                                                                \
    name, UnaryCreate_Cuda                                                                         \
  }
#define BINARY(name)                                                                               \
  {                                                                                                \
    name, BinaryCreate_Cuda                                                                        \
  }
const RengaKernelRow RengaCudaElementwiseRows[] = {
    UNARY("Neg"),
    UNARY("Abs"),
    UNARY("Relu"),
    UNARY("Clip"),
    UNARY("Reciprocal"),
    UNARY("Sqrt"),
    UNARY("Exp"),
    UNARY("Log"),
    UNARY("Erf"),
    UNARY("Tanh"),
    UNARY("Sigmoid"),
    UNARY("Softplus"),
    UNARY("Softsign"),
    UNARY("Gelu"),
    UNARY("Swish"),
    UNARY("LeakyRelu"),
    UNARY("ThresholdedRelu"),
    UNARY("ReluGrad"),
    UNARY("SigmoidGrad"),
    UNARY("TanhGrad"),
    UNARY("SqrtGrad"),
    UNARY("ReciprocalGrad"),
    UNARY("AbsGrad"),
    UNARY("ErfGrad"),
    UNARY("SoftplusGrad"),
    UNARY("GeluGrad"),
    UNARY("SwishGrad"),
    UNARY("LeakyReluGrad"),
    BINARY("Add"),
    BINARY("Sub"),
    BINARY("Mul"),
    BINARY("Div"),
    BINARY("Min"),
    BINARY("Max"),
    BINARY("Pow"),
    BINARY("Equal"),
    BINARY("Less"),
    BINARY("Greater"),
    BINARY("LessOrEqual"),
    BINARY("GreaterOrEqual"),
    BINARY("And"),
    BINARY("Or"),
    BINARY("Xor"),
    {"Where", WhereCreate_Cuda},
    {"Cast", ConvertCreate_Cuda},
    {"Not", ConvertCreate_Cuda},
    {"ConstantOfShape", ConstantCreate_Cuda},
    {"Identity", CopyCreate_Cuda},
    {"StopGradient", CopyCreate_Cuda},
    {"Reshape", CopyCreate_Cuda},
    {NULL, NULL},
};
