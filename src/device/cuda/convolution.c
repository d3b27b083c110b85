/* Convolutions of the cuda device, and their gradients: columns of the input, then products. Images
   are taken some at a time, as many as the shape says, so that their columns have room; kernels of
   one pixel need none. A gradient of weights has few results and many terms, which are cut into
   parts (product.c) that are added up in their order, chunk after chunk. Of images whose channels
   come last columns are rows of pixels, and nothing need be turned. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

typedef enum { CONVOLUTION_FORWARD, CONVOLUTION_INPUT, CONVOLUTION_WEIGHT } CudaConvolutionKind;
enum { MOST_PLANS = 3 };

/* last: channels of images come last. channels and out_channels: of all groups; area: of a plane of
   the input; pixels: of the output. cut: the most parts of a chunk's terms, where some chunk has
   several; else 0. A plan is of so many images, and adds to what was there or not, if no terms are
   cut; plans stand behind. */
typedef struct {
  CudaConvolutionKind kind;
  RengaCudaColumns columns;
  bool last;
  bool direct; /* the images are their columns */
  bool tf32;   /* see RengaCudaProduct */
  bool rounds; /* the result is made in the workspace, behind the columns, and rounded from there */
  RengaDataType factors, result; /* of products */
  int64_t groups, images, per_chunk, channels, out_channels, taps, area, pixels, cut;
  int plans;
  struct {
    int64_t images;
    bool adds;
  } plan[MOST_PLANS];
  size_t plan_bytes;
  _Alignas(64) char plan_memory[];
} CudaConvolution;

static int64_t SmallerOf_Cuda(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Of rows of pixels: columns [images pixels, k of all groups], y likewise; w [m, k] of a group. */
static RengaCudaProduct ProductOfRows_Cuda(const CudaConvolution *s, int64_t images)
{
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  const int64_t rows = images * s->pixels, row = s->groups * k, row_of_y = s->out_channels;
  RengaCudaProduct p;
  if (s->kind == CONVOLUTION_FORWARD) { /* columns w^T */
    p = RengaCudaProductOf_Private(rows, m, k, false, true);
    p.lda = row;
    p.ldc = row_of_y;
  } else if (s->kind == CONVOLUTION_INPUT) { /* dy w */
    p = RengaCudaProductOf_Private(rows, k, m, false, false);
    p.lda = row_of_y;
    p.ldc = row;
  } else { /* dy^T columns */
    p = RengaCudaProductOf_Private(m, k, rows, true, false);
    p.lda = row_of_y;
    p.ldb = row;
  }
  return p;
}

/* Where gradients of weights of all groups have parts of this product. Of all types the same ones,
   as those of 16 bits are the fewest. */
static int64_t PartsOfImages_Cuda(const CudaConvolution *s, int64_t images)
{
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  const RengaCudaProduct p =
      s->last ? ProductOfRows_Cuda(s, images)
              : RengaCudaProductOf_Private(m, k, images * s->pixels, false, true);
  return s->kind == CONVOLUTION_WEIGHT ? RengaCudaFindParts_Private(&p, sizeof(uint16_t)) : 1;
}

/* Of one group and some images. */
static RengaCudaProduct ProductOfImages_Cuda(const CudaConvolution *s, int64_t images, bool adds)
{
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  const int64_t column_stride = s->channels * s->taps * s->pixels;
  const int64_t stride = s->out_channels * s->pixels;
  RengaCudaProduct p;
  if (s->last) p = ProductOfRows_Cuda(s, images);
  if (s->kind == CONVOLUTION_WEIGHT) { /* [m, images pixels] x [k, images pixels]^T */
    if (!s->last) p = RengaCudaProductOf_Private(m, k, images * s->pixels, false, true);
    p.beta = adds;
    if (s->cut > 0) RengaCudaCutTerms_Private(&p, PartsOfImages_Cuda(s, images));
    if (s->cut > 0) p.stride_c = s->groups * m * k;
  } else if (!s->last && s->kind == CONVOLUTION_FORWARD) {
    p = RengaCudaProductOf_Private(m, s->pixels, k, false, false);
    p.stride_b = column_stride;
    p.stride_c = stride;
    p.batch = images;
  } else if (!s->last) {
    p = RengaCudaProductOf_Private(k, s->pixels, m, true, false);
    p.stride_b = stride;
    p.stride_c = column_stride;
    p.batch = images;
  }
  const int64_t unit = 16 / (int64_t)RengaDataTypeSize(s->factors);
  p.scattered = s->groups > 1 || (s->last ? s->out_channels % unit || s->channels % unit
                                          : s->kind != CONVOLUTION_WEIGHT && s->pixels % unit);
  p.factors = RengaCudaTypeOf_Private(s->factors);
  p.result = RengaCudaTypeOf_Private(s->result);
  p.tf32 = s->tf32;
  return p;
}

static void *PlanMemory_Cuda(CudaConvolution *s, int plan)
{
  return s->plan_memory + (size_t)plan * s->plan_bytes;
}

static int FindPlan_Cuda(const CudaConvolution *s, int64_t images, bool adds)
{
  int plan = 0;
  while (plan < s->plans && (s->plan[plan].images != images || s->plan[plan].adds != adds)) plan++;
  return plan;
}

/* Images of the chunk that begins at `first`; adds: to what the chunk before it made. */
static int64_t ChunkAt_Cuda(const CudaConvolution *s, int64_t first, bool *adds)
{
  *adds = s->kind == CONVOLUTION_WEIGHT && first > 0 && s->cut == 0;
  return SmallerOf_Cuda(s->per_chunk, s->images - first);
}

static RengaErrorCode MakePlans_Cuda(RengaDevice device, CudaConvolution *s)
{
  bool adds;
  for (int64_t first = 0; first < s->images; first += s->per_chunk) {
    const int64_t images = ChunkAt_Cuda(s, first, &adds);
    if (FindPlan_Cuda(s, images, adds) < s->plans) continue;
    const RengaCudaProduct p = ProductOfImages_Cuda(s, images, adds);
    RengaCall(RengaCudaPlanCreate_Private(device, &p, PlanMemory_Cuda(s, s->plans)));
    s->plan[s->plans].images = images;
    s->plan[s->plans++].adds = adds;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyPlans_Cuda(RengaDevice device, CudaConvolution *s)
{
  for (; s->plans > 0; s->plans--)
    RengaCall(RengaCudaPlanDestroy_Private(device, PlanMemory_Cuda(s, s->plans - 1)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvolutionDestroy_Cuda(RengaKernel kernel)
{
  RengaCall(DestroyPlans_Cuda(kernel->device, kernel->data));
  RengaCall(RengaCudaFreeData_Private(kernel));
  return RENGA_SUCCESS;
}

/* The module's kernel about columns; to: of this type. */
static RengaErrorCode RunColumns_Cuda(RengaDevice device, RengaStream stream, RengaCudaRun run,
                                      const RengaCudaColumns *columns, const void *from, void *to,
                                      RengaDataType type)
{
  const RengaTensorSpec spec = {.type = type};
  const RengaCudaOperand in[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(&spec, from)};
  const RengaCudaOperand out[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(&spec, to)};
  RENGA_CALL_CUDA(device,
                  run(RengaCudaStream_Private(device, stream), columns, NULL, in, out, NULL));
  return RENGA_SUCCESS;
}

/* Element i of a type. */
static void *At_Cuda(RengaDataType type, const void *data, int64_t i)
{
  return (char *)(uintptr_t)data + (size_t)i * RengaDataTypeSize(type);
}

/* Products of all groups: a, b and c go on by so much from one to the next. */
static RengaErrorCode RunGroups_Cuda(RengaKernel kernel, RengaStream stream, void *plan,
                                     const void *a, int64_t step_a, const void *b, int64_t step_b,
                                     void *c, int64_t step_c)
{
  const CudaConvolution *s = kernel->data;
  for (int64_t g = 0; g < s->groups; g++)
    RengaCall(RengaCudaPlanRun_Private(
        kernel->device, stream, plan, At_Cuda(s->factors, a, g * step_a),
        At_Cuda(s->factors, b, g * step_b), NULL, At_Cuda(s->result, c, g * step_c)));
  return RENGA_SUCCESS;
}

/* y[image] = w columns[image] */
static RengaErrorCode ForwardChunk_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                        const void *const in[], void *const out[], void *workspace)
{
  CudaConvolution *s = kernel->data;
  RengaCudaColumns columns = s->columns;
  bool adds;
  columns.first = first;
  columns.images = ChunkAt_Cuda(s, first, &adds);
  const void *from =
      s->direct ? At_Cuda(s->factors, in[0], first * s->channels * s->area) : workspace;
  if (!s->direct)
    RengaCall(RunColumns_Cuda(kernel->device, stream,
                              RengaCudaModuleOf_Private(kernel)->run.columns, &columns, in[0],
                              workspace, s->factors));
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  void *to = At_Cuda(s->result, out[0], first * s->out_channels * s->pixels);
  RengaCall(RunGroups_Cuda(kernel, stream,
                           PlanMemory_Cuda(s, FindPlan_Cuda(s, columns.images, adds)), in[1], m * k,
                           from, k * s->pixels, to, m * s->pixels));
  return RENGA_SUCCESS;
}

/* d columns[image] = w^T dy[image] */
static RengaErrorCode InputChunk_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                      const void *const in[], void *const out[], void *workspace)
{
  CudaConvolution *s = kernel->data;
  RengaCudaColumns columns = s->columns;
  bool adds;
  columns.first = first;
  columns.images = ChunkAt_Cuda(s, first, &adds);
  void *to = s->direct ? At_Cuda(s->result, out[0], first * s->channels * s->area) : workspace;
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  RengaCall(RunGroups_Cuda(kernel, stream,
                           PlanMemory_Cuda(s, FindPlan_Cuda(s, columns.images, adds)), in[1], m * k,
                           At_Cuda(s->factors, in[0], first * s->out_channels * s->pixels),
                           m * s->pixels, to, k * s->pixels));
  if (!s->direct)
    RengaCall(RunColumns_Cuda(kernel->device, stream,
                              RengaCudaModuleOf_Private(kernel)->run.columnsgrad, &columns, to,
                              out[0], kernel->call.out[0].type));
  return RENGA_SUCCESS;
}

/* turned[channel, image, pixel] of some images [image, channel, pixel] */
static RengaErrorCode TurnImages_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                      int64_t images, const void *from, void *to)
{
  const CudaConvolution *s = kernel->data;
  const RengaCudaMove move = {.dimensions = 3,
                              .size = (int)RengaDataTypeSize(s->factors),
                              .count = images * s->out_channels * s->pixels,
                              .from_offset = first * s->out_channels * s->pixels,
                              .extent = {s->out_channels, images, s->pixels},
                              .from = {s->pixels, s->out_channels * s->pixels, 1},
                              .to = {images * s->pixels, s->pixels, 1}};
  RENGA_CALL_CUDA(
      kernel->device,
      module_->each.move(RengaCudaStream_Private(kernel->device, stream), &move, from, to));
  return RENGA_SUCCESS;
}

/* Images that are turned begin there, behind the columns. */
static size_t OffsetOfTurned_Cuda(const CudaConvolution *s)
{
  const int64_t columns = s->per_chunk * s->channels * s->taps * s->pixels;
  return ((size_t)columns * RengaDataTypeSize(s->factors) + 63) / 64 * 64;
}

/* Bytes of the workspace that columns take, with images turned for gradients of weights. */
static size_t BytesOfColumns_Cuda(const CudaConvolution *s)
{
  const bool input = s->kind == CONVOLUTION_INPUT, weight = s->kind == CONVOLUTION_WEIGHT;
  const int64_t columns = s->direct ? 0 : s->channels * s->taps * s->pixels;
  const int64_t numbers =
      s->per_chunk * (weight && !s->last ? s->out_channels * s->pixels : columns);
  const size_t size = RengaDataTypeSize(input ? s->result : s->factors);
  return (weight && !s->last ? OffsetOfTurned_Cuda(s) : 0) +
         ((size_t)numbers * size + 63) / 64 * 64;
}

/* Parts that a chunk has made, and before them the sum of the chunks before it. sums: begin of the
   memory of both. */
static RengaErrorCode AddChunk_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                    float *sums, void *out)
{
  const CudaConvolution *s = kernel->data;
  RengaTensorSpec y = kernel->call.out[0];
  const int64_t images = SmallerOf_Cuda(s->per_chunk, s->images - first);
  const bool last = first + images == s->images;
  const int64_t before = first > 0, terms = PartsOfImages_Cuda(s, images) + before;
  if (!last) y.type = RENGA_FLOAT32;
  RengaCall(RengaCudaAddParts_Private(kernel, stream, terms,
                                      sums + (1 - before) * RengaTensorSpecCount(&y), &y,
                                      last ? out : sums));
  return RENGA_SUCCESS;
}

/* dw += dy columns^T over some images; in: x, dy */
static RengaErrorCode WeightChunk_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                       const void *const in[], void *const out[], void *workspace)
{
  CudaConvolution *s = kernel->data;
  RengaCudaColumns columns = s->columns;
  bool adds;
  columns.first = first;
  columns.images = ChunkAt_Cuda(s, first, &adds);
  columns.joined = true;
  void *turned = (char *)workspace + OffsetOfTurned_Cuda(s);
  float *sums = (float *)(void *)((char *)workspace + BytesOfColumns_Cuda(s));
  void *to = s->cut > 0 ? sums + RengaTensorSpecCount(&kernel->call.out[0]) : out[0];
  RengaCall(RunColumns_Cuda(kernel->device, stream, RengaCudaModuleOf_Private(kernel)->run.columns,
                            &columns, in[0], workspace, s->factors));
  RengaCall(TurnImages_Cuda(kernel, stream, first, columns.images, in[1], turned));
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  const int64_t row = columns.images * s->pixels;
  RengaCall(RunGroups_Cuda(kernel, stream,
                           PlanMemory_Cuda(s, FindPlan_Cuda(s, columns.images, adds)), turned,
                           m * row, workspace, k * row, to, m * k));
  if (s->cut > 0) RengaCall(AddChunk_Cuda(kernel, stream, first, sums, out[0]));
  return RENGA_SUCCESS;
}

static const void *ColumnsOrImages_Cuda(const CudaConvolution *s, int64_t first, const void *x,
                                        const void *workspace)
{
  return s->direct ? At_Cuda(s->factors, x, first * s->channels * s->area) : workspace;
}

/* Any direction, of images whose channels come last. */
static RengaErrorCode LastChunk_Cuda(RengaKernel kernel, RengaStream stream, int64_t first,
                                     const void *const in[], void *const out[], void *workspace)
{
  CudaConvolution *s = kernel->data;
  const RengaCudaModule *module = RengaCudaModuleOf_Private(kernel);
  const int64_t m = s->out_channels / s->groups, k = s->channels / s->groups * s->taps;
  const int64_t first_of_y = first * s->out_channels * s->pixels;
  const bool input = s->kind == CONVOLUTION_INPUT, weight = s->kind == CONVOLUTION_WEIGHT;
  RengaCudaColumns columns = s->columns;
  bool adds;
  columns.first = first;
  columns.images = ChunkAt_Cuda(s, first, &adds);
  void *plan = PlanMemory_Cuda(s, FindPlan_Cuda(s, columns.images, adds));
  const void *from = ColumnsOrImages_Cuda(s, first, input ? out[0] : in[0], workspace);
  if (!s->direct && !input)
    RengaCall(RunColumns_Cuda(kernel->device, stream, module->run.columns, &columns, in[0],
                              workspace, s->factors));
  if (s->kind == CONVOLUTION_FORWARD) {
    RengaCall(RunGroups_Cuda(kernel, stream, plan, from, k, in[1], m * k,
                             At_Cuda(s->result, out[0], first_of_y), m));
  } else if (weight) {
    float *sums = (float *)(void *)((char *)workspace + BytesOfColumns_Cuda(s));
    void *to = s->cut > 0 ? sums + RengaTensorSpecCount(&kernel->call.out[0]) : out[0];
    RengaCall(RunGroups_Cuda(kernel, stream, plan, At_Cuda(s->factors, in[1], first_of_y), m, from,
                             k, to, m * k));
    if (s->cut > 0) RengaCall(AddChunk_Cuda(kernel, stream, first, sums, out[0]));
  } else {
    void *to = s->direct ? At_Cuda(s->result, out[0], first * s->channels * s->area) : workspace;
    RengaCall(RunGroups_Cuda(kernel, stream, plan, At_Cuda(s->factors, in[0], first_of_y), m, in[1],
                             m * k, to, k));
    if (!s->direct)
      RengaCall(RunColumns_Cuda(kernel->device, stream, module->run.columnsgrad, &columns, to,
                                out[0], kernel->call.out[0].type));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvolutionRun_Cuda(RengaKernel kernel, RengaStream stream,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[], void *workspace)
{
  static RengaErrorCode (*const chunks[])(RengaKernel, RengaStream, int64_t, const void *const[],
                                          void *const[],
                                          void *) = {[CONVOLUTION_FORWARD] = ForwardChunk_Cuda,
                                                     [CONVOLUTION_INPUT] = InputChunk_Cuda,
                                                     [CONVOLUTION_WEIGHT] = WeightChunk_Cuda};
  const CudaConvolution *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const bool has_bias = s->kind == CONVOLUTION_FORWARD && RengaOpCallHasInput(call, 2);
  void *made[] = {s->rounds ? (char *)workspace + BytesOfColumns_Cuda(s) : out[0]};
  (void)context;
  for (int64_t first = 0; first < s->images; first += s->per_chunk)
    RengaCall(
        (s->last ? LastChunk_Cuda : chunks[s->kind])(kernel, stream, first, in, made, workspace));
  const int64_t count = RengaTensorSpecCount(&call->out[0]);
  const RengaCudaBias shape = {count, s->out_channels, s->last ? 1 : s->pixels};
  if (has_bias)
    RengaCall(RengaCudaAddBias_Private(kernel, stream, shape, in[2],
                                       (RengaCudaOperand){made[0], RENGA_CUDA_FLOAT32}, out[0]));
  else if (s->rounds)
    RengaCall(RengaDeviceConvert(kernel->device, stream, count, RENGA_FLOAT32, made[0],
                                 call->out[0].type, out[0]));
  return RENGA_SUCCESS;
}

/* Images whose columns, of float32, would take at most twice the workspace of products, or one: as
   many in all types, so that sums of gradients have one order. */
static void CutImages_Cuda(CudaConvolution *s, size_t workspace)
{
  const int64_t most = (int64_t)(2 * workspace / sizeof(float));
  const RengaCudaWindow *w = &s->columns.window;
  s->direct = (s->last || s->kind != CONVOLUTION_WEIGHT) && s->taps == 1;
  for (int d = 0; d < 2; d++)
    s->direct = s->direct && w->stride[d] == 1 && w->before[d] == 0 && w->in[d] == w->out[d];
  s->per_chunk = s->direct ? s->images : most / (s->channels * s->taps * s->pixels);
  if (s->per_chunk < 1) s->per_chunk = 1;
  s->per_chunk = SmallerOf_Cuda(s->per_chunk, s->images);
}

static void CutTermsOfImages_Cuda(CudaConvolution *s)
{
  const int64_t rest = s->images % s->per_chunk;
  const int64_t parts = PartsOfImages_Cuda(s, s->per_chunk);
  const int64_t last = rest > 0 ? PartsOfImages_Cuda(s, rest) : 1;
  const int64_t most = parts > last ? parts : last;
  s->cut = most > 1 ? most : 0;
}

static void SetConvolution_Cuda(const RengaOpCall *call, const RengaOpWindow *window,
                                const RengaTensorSpec *x, const RengaTensorSpec *w,
                                const RengaTensorSpec *y, size_t workspace, CudaConvolution *s)
{
  s->last = RengaOpIsLast_Private(call);
  RengaCudaSetWindow_Private(window, x, y, &s->columns.window);
  s->columns.window.channels = s->last ? x->dim[1] : 0;
  s->columns.window.planes = x->dim[1];
  s->groups = RengaOpCallInt(call, "group");
  s->images = x->dim[0];
  s->channels = x->dim[1];
  s->out_channels = w->dim[0];
  s->taps = RengaOpProduct(w, 2, w->ndim);
  s->area = RengaOpProduct(x, 2, x->ndim);
  s->pixels = RengaOpProduct(y, 2, y->ndim);
  CutImages_Cuda(s, workspace);
  CutTermsOfImages_Cuda(s);
}

/* Types of its products. Gradients of columns are added up in float32, and so is what a bias or
   another chunk is added to. false: cuBLASLt has none of these types. */
static bool SetTypesOfImages_Cuda(const RengaOpCall *call, CudaConvolution *s)
{
  const bool adds = s->kind == CONVOLUTION_WEIGHT && s->per_chunk < s->images && s->cut == 0;
  const bool biased = s->kind == CONVOLUTION_FORWARD && RengaOpCallHasInput(call, 2);
  s->factors = call->in[0].type;
  s->result = call->out[0].type;
  s->tf32 = RengaOpCallRounds_Private(call, RENGA_PRECISION_TF32) && s->factors == RENGA_FLOAT32;
  s->rounds = (biased || adds) && s->result != RENGA_FLOAT32;
  if (s->rounds || s->cut > 0 || (s->kind == CONVOLUTION_INPUT && !s->direct))
    s->result = RENGA_FLOAT32;
  s->columns.size = (int)RengaDataTypeSize(s->factors);
  const RengaTensorSpec result = {.type = s->result};
  return RengaCudaHasProduct_Private(&call->in[0], &call->in[1], &result) &&
         RengaCudaAllFloats_Private(call);
}

static RengaErrorCode MakeConvolution_Cuda(RengaKernel kernel, CudaConvolution *s)
{
  const RengaErrorCode code = MakePlans_Cuda(kernel->device, s);
  if (code) DestroyPlans_Cuda(kernel->device, s);
  RengaCall(code);
  kernel->workspace = BytesOfColumns_Cuda(s);
  if (s->rounds)
    kernel->workspace += (size_t)RengaTensorSpecCount(&kernel->call.out[0]) * sizeof(float);
  if (s->cut > 0)
    kernel->workspace +=
        (size_t)((1 + s->cut) * RengaTensorSpecCount(&kernel->call.out[0])) * sizeof(float);
  kernel->data = s;
  kernel->run = ConvolutionRun_Cuda;
  kernel->destroy = ConvolutionDestroy_Cuda;
  return RENGA_SUCCESS;
}

/* [m, taps, k] of weights [m, k, taps] of 2 or 4 bytes, or back. */
static RengaErrorCode TurnWeights_Cuda(RengaKernel kernel, RengaStream stream,
                                       const RengaTensorSpec *w, const void *from, void *to,
                                       bool back)
{
  const int64_t k = w->dim[1], taps = RengaOpProduct(w, 2, w->ndim);
  RengaCudaMove move = {.dimensions = 3,
                        .size = (int)RengaDataTypeSize(w->type),
                        .count = RengaTensorSpecCount(w),
                        .extent = {w->dim[0], taps, k},
                        .from = {k * taps, 1, taps},
                        .to = {k * taps, k, 1}};
  if (back)
    move = (RengaCudaMove){.dimensions = 3,
                           .size = move.size,
                           .count = move.count,
                           .extent = {w->dim[0], k, taps},
                           .from = {k * taps, 1, k},
                           .to = {k * taps, taps, 1}};
  RENGA_CALL_CUDA(
      kernel->device,
      module_->each.move(RengaCudaStream_Private(kernel->device, stream), &move, from, to));
  return RENGA_SUCCESS;
}

/* Before cuDNN: weights of images whose channels come last. */
static RengaErrorCode PrepareWeights_Cuda(RengaKernel kernel, RengaStream stream,
                                          const void *const in[], void *workspace,
                                          void *const out[])
{
  (void)out;
  RengaCall(TurnWeights_Cuda(kernel, stream, &kernel->call.in[1], in[1], workspace, false));
  return RENGA_SUCCESS;
}

/* Where gradients of weights that were turned back are, behind those that were not. */
static size_t BytesOfTurnedWeights_Cuda(const RengaTensorSpec *w)
{
  return ((size_t)RengaTensorSpecCount(w) * sizeof(uint16_t) + 63) / 64 * 64;
}

/* Behind cuDNN, which adds no bias, and makes gradients of weights of bfloat16, or of images whose
   channels come last, in the workspace. */
static RengaErrorCode FinishConvolution_Cuda(RengaKernel kernel, RengaStream stream,
                                             const void *const in[], void *workspace,
                                             void *const out[])
{
  const CudaConvolutionKind kind =
      strcmp(kernel->call.op->name, "Conv") == 0 ? CONVOLUTION_FORWARD : CONVOLUTION_WEIGHT;
  const RengaTensorSpec *y = &kernel->call.out[0];
  const int64_t count = RengaTensorSpecCount(y);
  const bool last = RengaOpIsLast_Private(&kernel->call);
  const RengaCudaBias shape = {count, y->dim[last ? y->ndim - 1 : 1],
                               last ? 1 : RengaOpProduct(y, 2, y->ndim)};
  if (kind == CONVOLUTION_FORWARD)
    RengaCall(RengaCudaAddBias_Private(kernel, stream, shape, in[2],
                                       RengaCudaOperand_Private(y, out[0]), out[0]));
  if (kind == CONVOLUTION_FORWARD) return RENGA_SUCCESS;
  const bool turned = last && RengaOpProduct(y, 2, y->ndim) > 1;
  const bool widened = y->type != kernel->call.in[0].type;
  RengaTensorSpec made = *y;
  made.type = kernel->call.in[0].type;
  void *narrow = (char *)workspace + (turned ? BytesOfTurnedWeights_Cuda(y) : 0);
  if (turned)
    RengaCall(TurnWeights_Cuda(kernel, stream, &made, workspace, widened ? narrow : out[0], true));
  if (widened)
    RengaCall(RengaDeviceConvert(kernel->device, stream, count, RENGA_BFLOAT16, narrow,
                                 RENGA_FLOAT32, out[0]));
  return RENGA_SUCCESS;
}

/* Sums of gradients of float16 might overflow where they are rounded, so that they are own ones. */
static RengaErrorCode OfferConvolution_Cuda(RengaKernel kernel)
{
  static const CudaOperandPlace y_of[] = {[CONVOLUTION_FORWARD] = {CUDA_OPERAND_OUTPUT, 0, 0},
                                          [CONVOLUTION_INPUT] = {CUDA_OPERAND_INPUT, 0, 0},
                                          [CONVOLUTION_WEIGHT] = {CUDA_OPERAND_INPUT, 1, 0}};
  const RengaOpCall *call = &kernel->call;
  const CudaConvolution *s = kernel->data;
  const RengaCudaWindow *w = &s->columns.window;
  const bool biased = s->kind == CONVOLUTION_FORWARD && RengaOpCallHasInput(call, 2);
  const bool widened = s->kind == CONVOLUTION_WEIGHT && s->factors == RENGA_BFLOAT16 &&
                       call->out[0].type == RENGA_FLOAT32;
  const bool turned = s->last && s->taps > 1;
  const bool weight = s->kind == CONVOLUTION_WEIGHT, made = weight && (widened || turned);
  if (s->factors != call->out[0].type && !widened) return RENGA_SUCCESS;
  RengaCudnnTask task = {.kind = RENGA_CUDNN_FORWARD + (int)s->kind,
                         .type = RengaCudaTypeOf_Private(s->factors),
                         .tf32 = s->tf32,
                         .last = s->last,
                         .biased = biased,
                         .images = s->images,
                         .channels = s->channels,
                         .out_channels = s->out_channels,
                         .groups = s->groups};
  CudaOperands operands = {.after = biased || made ? FinishConvolution_Cuda : NULL,
                           .before = turned && !weight ? PrepareWeights_Cuda : NULL};
  for (int d = 0; d < 2; d++) {
    task.in[d] = w->in[d];
    task.out[d] = w->out[d];
    task.kernel[d] = w->kernel[d];
    task.stride[d] = w->stride[d];
    task.dilation[d] = w->dilation[d];
    task.before[d] = w->before[d];
    task.after[d] = w->after[d];
  }
  operands.place[RENGA_CUDNN_X].from = CUDA_OPERAND_INPUT;
  operands.place[RENGA_CUDNN_W] = (CudaOperandPlace){CUDA_OPERAND_INPUT, 1, 0};
  operands.place[RENGA_CUDNN_Y] = y_of[s->kind];
  if (s->kind == CONVOLUTION_INPUT) operands.place[RENGA_CUDNN_X].from = CUDA_OPERAND_OUTPUT;
  if (weight) operands.place[RENGA_CUDNN_W] = (CudaOperandPlace){CUDA_OPERAND_OUTPUT, 0, 0};
  if (turned || made) operands.place[RENGA_CUDNN_W].from = CUDA_OPERAND_WORKSPACE;
  const RengaTensorSpec *of_w = weight ? &call->out[0] : &call->in[1];
  if (turned || made)
    operands.workspace = (size_t)RengaTensorSpecCount(of_w) * RengaDataTypeSize(s->factors);
  if (turned && widened) operands.workspace += BytesOfTurnedWeights_Cuda(of_w);
  RengaCall(RengaCudnnOffer_Private(kernel, &task, &operands));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateConvolution_Cuda(RengaKernel kernel, CudaConvolutionKind kind,
                                             const RengaTensorSpec *x, const RengaTensorSpec *w,
                                             const RengaTensorSpec *y)
{
  const RengaOpCall *call = &kernel->call;
  const size_t plan_bytes = RengaCudaPlanBytes_Private(kernel->device);
  RengaErrorCode code = RENGA_SUCCESS;
  RengaOpWindow window;
  char *memory = NULL;
  if (x->ndim < 3 || x->ndim > 4 ||
      RengaTensorSpecCount(x) * RengaTensorSpecCount(y) * RengaTensorSpecCount(w) == 0)
    return RENGA_SUCCESS;
  const RengaTensorSpec of_x = RengaOpChannelsFirst_Private(call, x);
  const RengaTensorSpec of_y = RengaOpChannelsFirst_Private(call, y);
  RengaCall(RengaOpGetWindow(call, x, w, &window));
  RengaCall(RengaMalloc(sizeof(CudaConvolution) + MOST_PLANS * plan_bytes, &memory));
  CudaConvolution *s = (CudaConvolution *)(void *)memory;
  s->kind = kind;
  s->plan_bytes = plan_bytes;
  SetConvolution_Cuda(call, &window, &of_x, w, &of_y, RengaCudaWorkspace_Private(kernel->device),
                      s);
  if (SetTypesOfImages_Cuda(call, s)) code = MakeConvolution_Cuda(kernel, s);
  if (!kernel->run) RengaFree(&memory);
  RengaCall(code);
  if (kernel->run) RengaCall(OfferConvolution_Cuda(kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateConvolution_Cuda(kernel, CONVOLUTION_FORWARD, &call->in[0], &call->in[1],
                                   &call->out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvGradInputCreate_Cuda(RengaKernel kernel)
{
  if (RengaOpCallHasInput(&kernel->call, 2)) return RENGA_SUCCESS;
  const RengaOpCall *call = &kernel->call;
  RengaCall(
      CreateConvolution_Cuda(kernel, CONVOLUTION_INPUT, &call->out[0], &call->in[1], &call->in[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvGradWeightCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateConvolution_Cuda(kernel, CONVOLUTION_WEIGHT, &call->in[0], &call->out[0],
                                   &call->in[1]));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaConvolutionRows[] = {
    {"Conv", ConvCreate_Cuda},
    {"ConvGradInput", ConvGradInputCreate_Cuda},
    {"ConvGradWeight", ConvGradWeightCreate_Cuda},
    {NULL, NULL},
};
