/* BatchNormalization and pooling of the cuda device, over one or two dimensions. Images whose
   channels come last are rows of channels, and planes of several channels. */
#include "cuda.h"
#include "renga/private/op.h"

void RengaCudaSetWindow_Private(const RengaOpWindow *from, const RengaTensorSpec *x,
                                const RengaTensorSpec *y, RengaCudaWindow *w)
{
  for (int d = 0; d < 2; d++)
    w->in[d] = w->out[d] = w->kernel[d] = w->stride[d] = w->dilation[d] = 1;
  for (int d = 0; d < from->n; d++) {
    const int to = d + 2 - from->n;
    w->in[to] = x->dim[2 + d];
    w->out[to] = y->dim[2 + d];
    w->kernel[to] = from->kernel[d];
    w->stride[to] = from->stride[d];
    w->dilation[to] = from->dilation[d];
    w->before[to] = from->before[d];
    w->after[to] = from->after[d];
  }
}

/* As many as fill a GPU, of no few elements: the shape alone decides. */
static int64_t PiecesOfChannel_Cuda(int64_t channels, int64_t elements)
{
  enum { BLOCKS = 2048, LEAST = 4096 };
  const int64_t most = BLOCKS / channels, wanted = (elements + LEAST - 1) / LEAST;
  const int64_t pieces = wanted < most ? wanted : most;
  return pieces > 1 ? pieces : 1;
}

static RengaErrorCode CreateBatchNorm_Cuda(RengaKernel kernel, const RengaTensorSpec *x,
                                           RengaCudaRun run)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCudaAllFloats_Private(call) || x->ndim < 2 || RengaTensorSpecCount(x) == 0)
    return RENGA_SUCCESS;
  const bool last = RengaOpIsLast_Private(call);
  const int64_t channels = x->dim[last ? x->ndim - 1 : 1];
  const RengaCudaBatchNorm s = {
      .images = last ? RengaOpProduct(x, 0, x->ndim - 1) : x->dim[0],
      .channels = channels,
      .pixels = last ? 1 : RengaOpProduct(x, 2, x->ndim),
      .pieces = last ? PiecesOfChannel_Cuda(RengaCudaPieces_Private(channels, RENGA_CUDA_TILE),
                                            RengaTensorSpecCount(x) / channels * RENGA_CUDA_TILE)
                     : PiecesOfChannel_Cuda(channels, RengaTensorSpecCount(x) / channels),
      .rows = last,
      .epsilon = RengaAttributesReal(call->attributes, "epsilon", 1e-5),
      .training = RengaAttributesInt(call->attributes, "training", 1) != 0,
  };
  RengaCall(RengaCudaCreateShaped_Private(kernel, run, sizeof s, &s));
  kernel->workspace = 2 * sizeof(double) * (size_t)(channels * (1 + s.pieces));
  RengaCudaAllowOver_Private(kernel, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cuda(kernel, &kernel->call.in[0],
                                 RengaCudaModuleOf_Private(kernel)->run.batchnorm));
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cuda(kernel, &kernel->call.in[1],
                                 RengaCudaModuleOf_Private(kernel)->run.batchnormgrad));
  return RENGA_SUCCESS;
}

/* x: what the window moves over; y: what it makes. */
static RengaErrorCode CreatePool_Cuda(RengaKernel kernel, RengaCudaRun run,
                                      const RengaTensorSpec *x, const RengaTensorSpec *y)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec of_x = RengaOpChannelsFirst_Private(call, x);
  const RengaTensorSpec of_y = RengaOpChannelsFirst_Private(call, y);
  const bool last = RengaOpIsLast_Private(call);
  RengaOpWindow window;
  RengaCudaWindow s = {.planes = x->dim[0] * (last ? 1 : x->dim[1]),
                       .channels = last ? of_x.dim[1] : 1};
  if (!RengaCudaIsFloat_Private(x) || !RengaCudaIsFloat_Private(y) || x->ndim < 3 || x->ndim > 4)
    return RENGA_SUCCESS;
  RengaCall(RengaOpGetWindow(call, x, NULL, &window));
  RengaCudaSetWindow_Private(&window, &of_x, &of_y, &s);
  s.count_pad = RengaAttributesInt(call->attributes, "count_include_pad", 0) != 0;
  RengaCall(RengaCudaCreateShaped_Private(kernel, run, sizeof s, &s));
  return RENGA_SUCCESS;
}

static RengaErrorCode MaxPoolCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreatePool_Cuda(kernel, RengaCudaModuleOf_Private(kernel)->run.maxpool,
                            &kernel->call.in[0], &kernel->call.out[0]));
  return RENGA_SUCCESS;
}

/* Elements are gathered: without its window the call is computed on the host. */
static RengaErrorCode MaxPoolGradCreate_Cuda(RengaKernel kernel)
{
  int count = 0;
  RengaAttributesInts(kernel->call.attributes, "kernel_shape", &count);
  if (count == 0) return RENGA_SUCCESS;
  RengaCall(CreatePool_Cuda(kernel, RengaCudaModuleOf_Private(kernel)->run.maxpoolgrad,
                            &kernel->call.out[0], &kernel->call.in[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePoolCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreatePool_Cuda(kernel, RengaCudaModuleOf_Private(kernel)->run.averagepool,
                            &kernel->call.in[0], &kernel->call.out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePoolGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreatePool_Cuda(kernel, RengaCudaModuleOf_Private(kernel)->run.averagepoolgrad,
                            &kernel->call.out[0], &kernel->call.in[0]));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaWindowRows[] = {
    {"BatchNormalization", BatchNormalizationCreate_Cuda},
    {"BatchNormalizationGrad", BatchNormalizationGradCreate_Cuda},
    {"MaxPool", MaxPoolCreate_Cuda},
    {"MaxPoolGrad", MaxPoolGradCreate_Cuda},
    {"AveragePool", AveragePoolCreate_Cuda},
    {"AveragePoolGrad", AveragePoolGradCreate_Cuda},
    {NULL, NULL},
};
