/* Conv and its gradients. Kernels of one pixel, stride 1 on images that are not small are matrix
   products on the images as they lie; others of one pixel are products of images that are gathered
   side by side, where they are multiplied by AMX or are of few pixels. Gradients of other weights
   of one pixel, or of any where few pixels come out, are one product over all images; all others go
   to oneDNN. */
#include "amx.h"
#include "low.h"
#include "lowproduct.h"
#include "onednn.h"
#include "panel.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  RengaConvolution general; /* NULL: one pixel */
  RengaCpuLowProduct *low;  /* of an image, where not all is float32; NULL: it is, or general */
  bool gathers;             /* images are side by side: for gradients of weights all of them */
  bool adds;                /* products may be added to what is there */
  bool panels;              /* gradients of weights are made in panels */
  bool turns;    /* as their transposed matrix; or weights are transposed for gradients of inputs */
  int64_t group; /* images that are side by side, for others */
  int64_t images, channels, out_channels, pixels, width, in_pixels, in_width;
  int64_t window[2], stride[2], dilation[2], before[2];
  RengaCpuTiling tiling;
} Convolution;

static RengaErrorCode DestroyConvolution_Cpu(RengaKernel kernel)
{
  Convolution *s = kernel->data;
  if (s) RengaCall(RengaConvolutionDestroy(&s->general));
  if (s) RengaCall(RengaCpuLowProductDestroy(&s->low));
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

static void AddBias_Cpu(int64_t rows, int64_t n, const float *bias, float *y)
{
  for (int64_t r = 0; r < rows; r++) {
    float b = bias[r];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[r * n + i] += b;
  }
}

/* y[image] = w x[image], or with w^T: the shape has it. */
static RengaErrorCode RunLowImages(const RengaKernel kernel, const void *const in[], void *y,
                                   const void *w, void *workspace)
{
  const Convolution *s = kernel->data;
  const RengaCpuLowShape *shape = &s->low->shape;
  const int64_t tiles = s->low->tiling.rows * s->low->tiling.columns, pieces = s->images * tiles;
  const size_t from = (size_t)(shape->k * shape->n) * RengaDataTypeSize(shape->b);
  const size_t to = (size_t)(shape->m * shape->n) * RengaDataTypeSize(shape->c);
  int failed = 0;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    const size_t image = (size_t)(piece / tiles);
    const int status =
        RengaCpuLowProductTile(s->low, piece % tiles, w, (const char *)in[0] + image * from, NULL,
                               (char *)y + image * to, workspace);
    if (status) {
#pragma omp atomic write
      failed = status;
    }
  }
  RengaCheck(failed == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d", failed);
  return RENGA_SUCCESS;
}

/* The pixels of a line of outputs that one of the window's sees: every stride-th, in [first, end);
   zeros beside these. */
typedef struct {
  int64_t width, stride, first, end;
} GatheredLine;

#define GATHER_LINE(name, type)                                                                    \
  static void name(const GatheredLine *l, const void *from, void *to)                              \
  {                                                                                                \
    const type *x = from;                                                                          \
    type *y = to;                                                                                  \
    const bool whole = l->end - l->first == l->width;                                              \
    for (int64_t j = 0; j < l->width && whole; j++) y[j] = x[j * l->stride];                       \
    for (int64_t j = 0; j < l->width && !whole; j++)                                               \
      y[j] = j >= l->first && j < l->end ? x[j * l->stride] : 0;                                   \
  }
GATHER_LINE(GatherWide, float)
GATHER_LINE(GatherLow, uint16_t)

/* What pixel k of the window sees of an image's channel: [lines, width]. */
static void GatherSeen(const Convolution *s, size_t element, int64_t k, const char *x, char *y)
{
  const int64_t row = k / s->window[1] * s->dilation[0] - s->before[0];
  const int64_t column = k % s->window[1] * s->dilation[1] - s->before[1];
  const int64_t stride = s->stride[1], left = s->in_width - column;
  GatheredLine line = {.width = s->width, .stride = stride};
  if (column < 0) line.first = RengaCpuPieces(-column, stride);
  if (left > 0) line.end = RengaCpuSmaller(RengaCpuPieces(left, stride), s->width);
  for (int64_t i = 0; i < s->pixels / s->width; i++, y += (size_t)s->width * element) {
    const int64_t at = row + i * s->stride[0];
    const char *from = x + (at * s->in_width + column) * (int64_t)element;
    if (at < 0 || at >= s->in_pixels / s->in_width || line.first >= line.end)
      memset(y, 0, (size_t)s->width * element);
    else
      (element == sizeof(float) ? GatherWide : GatherLow)(&line, from, y);
  }
}

/* Channels' planes of images side by side: [rows, images, pixels]. Of x a row is what a pixel of
   the window sees of a channel, of dy an output channel. element: bytes, of float32 or of
   16 bits */
static void GatherPixels(int threads, const Convolution *s, size_t element, bool windows,
                         const void *from, void *to)
{
  const int64_t taps = windows ? s->window[0] * s->window[1] : 1;
  const int64_t channels = windows ? s->channels : s->out_channels;
  const int64_t plane = windows ? s->in_pixels : s->pixels;
  const bool whole = !windows || (taps == 1 && plane == s->pixels && s->stride[0] == 1 &&
                                  s->stride[1] == 1 && s->before[0] == 0 && s->before[1] == 0);
  const size_t bytes = (size_t)s->pixels * element;
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, channels))
  for (int64_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < taps; k++)
      for (int64_t n = 0; n < s->images; n++) {
        const char *x = (const char *)from + (size_t)((n * channels + c) * plane) * element;
        char *y = (char *)to + (size_t)((c * taps + k) * s->images + n) * bytes;
        if (whole)
          memcpy(y, x, bytes);
        else
          GatherSeen(s, element, k, x, y);
      }
}

static int64_t RowsGathered(const Convolution *s)
{
  return s->channels * s->window[0] * s->window[1];
}

/* Each stride-th element of a line is one of those that lie side by side; or all of a plane are. */
static void SpreadLine(size_t element, int64_t count, int64_t stride, const void *from, void *to)
{
  if (stride == 1) {
    memcpy(to, from, (size_t)count * element);
  } else if (element == sizeof(float)) {
    for (int64_t p = 0; p < count; p++) ((float *)to)[p * stride] = ((const float *)from)[p];
  } else {
    for (int64_t p = 0; p < count; p++) ((uint16_t *)to)[p * stride] = ((const uint16_t *)from)[p];
  }
}

/* Images of channels from rows [channels, images, pixels]. input: they are dx, and 0 where no
   output sees them */
static void ScatterPixels(int threads, const Convolution *s, size_t element, bool input,
                          const char *from, char *to)
{
  const int64_t channels = input ? s->channels : s->out_channels;
  const int64_t plane = input ? s->in_pixels : s->pixels;
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, channels))
  for (int64_t c = 0; c < channels; c++)
    for (int64_t n = 0; n < s->images; n++) {
      const char *x = from + (size_t)((c * s->images + n) * s->pixels) * element;
      char *y = to + (size_t)((n * channels + c) * plane) * element;
      if (plane == s->pixels) {
        memcpy(y, x, (size_t)plane * element);
        continue;
      }
      memset(y, 0, (size_t)plane * element);
      for (int64_t p = 0; p < s->pixels; p += s->width)
        SpreadLine(element, s->width, s->stride[1], x + (size_t)p * element,
                   y + (size_t)(p / s->width * s->stride[0] * s->in_width) * element);
    }
}

/* y = w x, or dx = w^T dy, for a group of images side by side at a time. */
static RengaErrorCode RunGathered(const RengaKernel kernel, const void *const in[], void *out,
                                  bool input, void *workspace)
{
  const int threads = kernel->device->threads;
  Convolution part = *(const Convolution *)kernel->data;
  const int64_t all = part.images, n = part.group * part.pixels;
  const int64_t m = input ? part.channels : part.out_channels;
  const int64_t k = input ? part.out_channels : part.channels;
  const size_t element = RengaDataTypeSize(kernel->call.in[0].type);
  const size_t image = (size_t)(k * (input ? part.pixels : part.in_pixels)) * element;
  const size_t made = (size_t)(m * (input ? part.in_pixels : part.pixels)) * element;
  char *x = (char *)workspace + (part.low ? part.low->bytes * (size_t)threads : 0);
  char *y = x + (size_t)(k * n) * element;
  const RengaCpuProduct product = {.trans_a = input,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .lda = part.channels,
                                   .ldb = n,
                                   .ldc = n,
                                   .alpha = 1,
                                   .a = in[1],
                                   .b = (const float *)(const void *)x,
                                   .c = (float *)(void *)y};
  part.images = part.group;
  for (int64_t first = 0; first < all; first += part.group) {
    GatherPixels(threads, &part, element, !input, (const char *)in[0] + (size_t)first * image, x);
    if (part.low)
      RengaCall(RengaCpuLowMultiply(threads, part.low, in[1], x, NULL, y, workspace));
    else
      RengaCpuMultiply(threads, &product);
    ScatterPixels(threads, &part, element, input, y, (char *)out + (size_t)first * made);
  }
  return RENGA_SUCCESS;
}

/* y[image] = w x[image], tile by tile; the bias of an image's channels after its last tile. */
static RengaErrorCode ConvolutionRun_Cpu(RengaKernel kernel, RengaStream stream,
                                         const RengaKernelContext *context, const void *const in[],
                                         void *const out[], void *workspace)
{
  const Convolution *s = kernel->data;
  const void *bias = kernel->call.n_in > 2 ? in[2] : NULL;
  if (s->general) {
    RengaCall(RengaConvolutionRun(s->general, in[0], in[1], bias, out[0], workspace));
    return RENGA_SUCCESS;
  }
  if (s->gathers) {
    RengaCall(RunGathered(kernel, in, out[0], false, workspace));
    return RENGA_SUCCESS;
  }
  if (s->low) {
    RengaCall(RunLowImages(kernel, in, out[0], in[1], workspace));
    return RENGA_SUCCESS;
  }
  int64_t tiles = s->tiling.rows * s->tiling.columns, pieces = s->images * tiles;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t image = piece / tiles;
    RengaCpuProduct product = {.m = s->out_channels,
                               .n = s->pixels,
                               .k = s->channels,
                               .lda = s->channels,
                               .ldb = s->pixels,
                               .ldc = s->pixels,
                               .alpha = 1,
                               .a = in[1],
                               .b = (const float *)in[0] + image * s->channels * s->pixels,
                               .c = (float *)out[0] + image * s->out_channels * s->pixels};
    RengaCpuMultiplyTile(&product, &s->tiling, piece % tiles);
  }
  if (!bias) return RENGA_SUCCESS;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->images))
  for (int64_t image = 0; image < s->images; image++)
    AddBias_Cpu(s->out_channels, s->pixels, bias,
                (float *)out[0] + image * s->out_channels * s->pixels);
  return RENGA_SUCCESS;
}

/* dx += before, which has been made apart from it. */
static void AddBefore_Cpu(const RengaKernel kernel, const float *before, float *dx)
{
  enum { PART = 1 << 14 };
  const int64_t count = RengaTensorSpecCount(&kernel->call.out[0]);
  const int64_t parts = RengaCpuPieces(count, PART);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, parts))
  for (int64_t part = 0; part < parts; part++) {
    const int64_t first = part * PART, end = first + RengaCpuSmaller(count - first, PART);
#pragma omp simd
    for (int64_t i = first; i < end; i++) dx[i] += before[i];
  }
}

/* dx[image] = w^T dy[image], and what has come before */
static RengaErrorCode InputRun_Cpu(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const Convolution *s = kernel->data;
  const void *before = kernel->call.n_in > 2 ? in[2] : NULL;
  const bool adds = s->adds && before && before == out[0];
  if (s->general) {
    RengaCall(RengaConvolutionRun(s->general, in[0], in[1], NULL, out[0], workspace));
    if (before) AddBefore_Cpu(kernel, before, out[0]);
    return RENGA_SUCCESS;
  }
  if (s->gathers) {
    RengaCall(RunGathered(kernel, in, out[0], true, workspace));
    if (before) AddBefore_Cpu(kernel, before, out[0]);
    return RENGA_SUCCESS;
  }
  if (s->low) {
    RengaCall(RunLowImages(kernel, in, out[0], in[1], workspace));
    return RENGA_SUCCESS;
  }
  int64_t tiles = s->tiling.rows * s->tiling.columns, pieces = s->images * tiles;
  if (s->turns)
    RengaCpuTurnMatrix(kernel->device->threads, s->out_channels, s->channels, in[1], workspace);
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t image = piece / tiles;
    RengaCpuProduct product = {.trans_a = !s->turns,
                               .m = s->channels,
                               .n = s->pixels,
                               .k = s->out_channels,
                               .lda = s->turns ? s->out_channels : s->channels,
                               .ldb = s->pixels,
                               .ldc = s->pixels,
                               .alpha = 1,
                               .beta = adds,
                               .a = s->turns ? workspace : in[1],
                               .b = (const float *)in[0] + image * s->out_channels * s->pixels,
                               .c = (float *)out[0] + image * s->channels * s->pixels};
    RengaCpuMultiplyTile(&product, &s->tiling, piece % tiles);
  }
  if (before && !adds) AddBefore_Cpu(kernel, before, out[0]);
  return RENGA_SUCCESS;
}

/* dw = dy x^T, where both have all images side by side. */
static RengaErrorCode RunGatheredWeights(const RengaKernel kernel, const void *const in[], float *w,
                                         void *workspace)
{
  const Convolution *s = kernel->data;
  const int threads = kernel->device->threads;
  const size_t element = RengaDataTypeSize(kernel->call.in[0].type);
  const int64_t k = s->images * s->pixels, rows = RowsGathered(s);
  char *x = (char *)workspace + (s->low ? s->low->bytes * (size_t)threads : 0);
  char *dy = x + (size_t)(rows * k) * element;
  GatherPixels(threads, s, element, true, in[0], x);
  GatherPixels(threads, s, element, false, in[1], dy);
  if (s->low) {
    RengaCall(RengaCpuLowMultiply(threads, s->low, dy, x, NULL, w, workspace));
    return RENGA_SUCCESS;
  }
  const RengaCpuProduct product = {.trans_b = true,
                                   .m = s->out_channels,
                                   .n = rows,
                                   .k = k,
                                   .lda = k,
                                   .ldb = k,
                                   .ldc = rows,
                                   .alpha = 1,
                                   .a = (const float *)(const void *)dy,
                                   .b = (const float *)(const void *)x,
                                   .c = w};
  const RengaCpuPanelSum sum = {.first = product, .count = 1};
  if (s->panels)
    RengaCpuAddPanels(threads, &sum,
                      (float *)(void *)(dy + (size_t)(s->out_channels * k) * element));
  else
    RengaCpuMultiply(threads, &product);
  return RENGA_SUCCESS;
}

/* dw = sum over images of dy[image] x[image]^T, in order. */
static RengaErrorCode RunLowWeights(const RengaKernel kernel, const void *const in[], float *w,
                                    void *workspace)
{
  const Convolution *s = kernel->data;
  const size_t x = (size_t)(s->channels * s->pixels) * RengaDataTypeSize(s->low->shape.b);
  const size_t dy = (size_t)(s->out_channels * s->pixels) * RengaDataTypeSize(s->low->shape.a);
  memset(w, 0, (size_t)(s->out_channels * s->channels) * sizeof *w);
  for (size_t image = 0; image < (size_t)s->images; image++)
    RengaCall(RengaCpuLowMultiply(kernel->device->threads, s->low, (const char *)in[1] + image * dy,
                                  (const char *)in[0] + image * x, NULL, w, workspace));
  return RENGA_SUCCESS;
}

/* The product that makes gradients of weights as panels do: dw = dy x^T, or its transposed matrix,
   so that the smaller factor is packed. */
static RengaCpuProduct PanelProduct(const Convolution *s, int64_t k, const float *dy,
                                    const float *x, float *w)
{
  return (RengaCpuProduct){.trans_b = true,
                           .m = s->turns ? s->channels : s->out_channels,
                           .n = s->turns ? s->out_channels : s->channels,
                           .k = k,
                           .lda = k,
                           .ldb = k,
                           .ldc = s->turns ? s->out_channels : s->channels,
                           .alpha = 1,
                           .a = s->turns ? x : dy,
                           .b = s->turns ? dy : x,
                           .c = w};
}

/* dw = sum over images of dy[image] x[image]^T, in order. work: packed panels, and dw^T behind
   them where that is made */
static void RunPanelWeights(const RengaKernel kernel, const void *const in[], float *w, float *work)
{
  const Convolution *s = kernel->data;
  const int64_t x = s->channels * s->pixels, dy = s->out_channels * s->pixels;
  RengaCpuPanelSum sum = {.first = PanelProduct(s, s->pixels, in[1], in[0], w),
                          .count = s->images,
                          .a_step = s->turns ? x : dy,
                          .b_step = s->turns ? dy : x};
  if (s->turns) sum.first.c = work + RengaCpuPanelFloats(&sum.first);
  RengaCpuAddPanels(kernel->device->threads, &sum, work);
  if (s->turns)
    RengaCpuTurnMatrix(kernel->device->threads, s->channels, s->out_channels, sum.first.c, w);
}

/* dw = sum over images of dy[image] x[image]^T; each tile adds the images in order. */
static RengaErrorCode WeightRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Convolution *s = kernel->data;
  if (s->general) {
    RengaCall(RengaConvolutionRun(s->general, in[0], in[1], NULL, out[0], workspace));
    return RENGA_SUCCESS;
  }
  if (s->gathers) {
    RengaCall(RunGatheredWeights(kernel, in, out[0], workspace));
    return RENGA_SUCCESS;
  }
  if (s->low) {
    RengaCall(RunLowWeights(kernel, in, out[0], workspace));
    return RENGA_SUCCESS;
  }
  if (s->panels) {
    RunPanelWeights(kernel, in, out[0], workspace);
    return RENGA_SUCCESS;
  }
  int64_t tiles = s->tiling.rows * s->tiling.columns;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, tiles))
  for (int64_t tile = 0; tile < tiles; tile++)
    for (int64_t image = 0; image < s->images; image++) {
      RengaCpuProduct product = {.trans_b = true,
                                 .m = s->out_channels,
                                 .n = s->channels,
                                 .k = s->pixels,
                                 .lda = s->pixels,
                                 .ldb = s->pixels,
                                 .ldc = s->channels,
                                 .alpha = 1,
                                 .beta = image > 0,
                                 .a = (const float *)in[1] + image * s->out_channels * s->pixels,
                                 .b = (const float *)in[0] + image * s->channels * s->pixels,
                                 .c = out[0]};
      RengaCpuMultiplyTile(&product, &s->tiling, tile);
    }
  return RENGA_SUCCESS;
}

/* Convolutions over one dimension are ones over two with a height of 1. */
static RengaConvolutionShape ShapeOf(const RengaOpCall *call, const RengaOpWindow *window,
                                     const RengaTensorSpec *x, const RengaTensorSpec *w,
                                     const RengaTensorSpec *y)
{
  RengaConvolutionShape shape = {.images = x->dim[0],
                                 .groups = RengaAttributesInt(call->attributes, "group", 1),
                                 .channels = x->dim[1],
                                 .out_channels = w->dim[0],
                                 .x = x->type,
                                 .w = w->type,
                                 .y = y->type,
                                 .in = {1, 1},
                                 .out = {1, 1},
                                 .kernel = {1, 1},
                                 .stride = {1, 1},
                                 .dilation = {1, 1}};
  for (int d = 0; d < window->n; d++) {
    int to = d + 2 - window->n;
    shape.in[to] = x->dim[2 + d];
    shape.out[to] = y->dim[2 + d];
    shape.kernel[to] = window->kernel[d];
    shape.stride[to] = window->stride[d];
    shape.dilation[to] = window->dilation[d];
    shape.before[to] = window->before[d];
    shape.after[to] = window->after[d];
  }
  return shape;
}

/* Of a kernel of one pixel without padding each output is of one input. */
static bool OnePixel(const RengaConvolutionShape *shape)
{
  bool one = shape->groups == 1;
  for (int d = 0; d < 2; d++)
    one = one && shape->kernel[d] == 1 && shape->before[d] == 0 && shape->after[d] == 0;
  return one;
}

/* Images of one pixel's kernels that are multiplied as they lie. */
static bool AsTheyLie(const RengaConvolutionShape *shape)
{
  enum { SMALL = 64 };
  return OnePixel(shape) && shape->stride[0] == 1 && shape->stride[1] == 1 &&
         shape->out[0] * shape->out[1] >= SMALL;
}

static void CopyShape(const RengaConvolutionShape *shape, Convolution *s)
{
  s->images = shape->images;
  s->channels = shape->channels;
  s->out_channels = shape->out_channels;
  s->pixels = shape->out[0] * shape->out[1];
  s->width = shape->out[1];
  s->in_pixels = shape->in[0] * shape->in[1];
  s->in_width = shape->in[1];
  for (int d = 0; d < 2; d++) {
    s->window[d] = shape->kernel[d];
    s->stride[d] = shape->stride[d];
    s->dilation[d] = shape->dilation[d];
    s->before[d] = shape->before[d];
  }
}

/* Whether gradients of weights are one product over all images: oneDNN is slow where few pixels
   come out, and slower than AMX where there are more. */
static bool GathersAll(const RengaConvolutionShape *shape)
{
  enum { FEW = 16, MORE = 64, SKIPPING = 1024 };
  const int64_t pixels = shape->out[0] * shape->out[1];
  const bool amx = shape->x == RENGA_BFLOAT16 && RengaAmxIsHere();
  const bool skips = shape->stride[0] > 1 || shape->stride[1] > 1;
  const bool few = pixels < (!amx ? FEW : skips || OnePixel(shape) ? SKIPPING : MORE);
  const bool wide = shape->x == RENGA_FLOAT32 && shape->y == RENGA_FLOAT32;
  const bool brain = shape->x == RENGA_BFLOAT16 && shape->y == RENGA_BFLOAT16;
  return shape->groups == 1 && (wide || brain) && shape->w == RENGA_FLOAT32 &&
         (few || (OnePixel(shape) && !AsTheyLie(shape)));
}

/* Whether results of one pixel's kernels are products of images side by side: in float32 where
   oneDNN is slower, of few pixels with AVX-512. types: of x, w, y */
static bool GathersGroups(const RengaConvolutionShape *shape, const RengaDataType types[3])
{
  enum { FEW = 64, LEAST = 64 };
  const int64_t pixels = shape->out[0] * shape->out[1];
  bool brain = RengaAmxIsHere();
  bool wide = RengaConvolutionHasBrain() && pixels < FEW && shape->images * pixels >= LEAST;
  for (int i = 0; i < 3; i++) {
    brain = brain && types[i] == RENGA_BFLOAT16;
    wide = wide && types[i] == RENGA_FLOAT32;
  }
  return (brain || wide) && OnePixel(shape) && !AsTheyLie(shape) && !shape->has_bias;
}

/* A part of the images that has no rest and not too many pixels. */
static int64_t ImagesOfGroup(const Convolution *s)
{
  enum { MOST = 4096 };
  int64_t group = s->images;
  while (group > 1 && (s->images % group != 0 || group * s->pixels > MOST)) group--;
  return group;
}

/* Output gradients can be narrower than what the window reaches: oneDNN wants the padding that
 * fits. */
static void FitPadding(RengaConvolutionShape *shape)
{
  for (int d = 0; d < 2; d++) {
    int64_t reach = (shape->kernel[d] - 1) * shape->dilation[d] + 1;
    shape->after[d] =
        (shape->out[d] - 1) * shape->stride[d] + reach - shape->in[d] - shape->before[d];
  }
}

/* Some weight of the window stands on the padding at every place: for its gradient in 16 bits
   oneDNN 2.6 reads scratch memory that it has not written. */
static bool HasIdleWeights(const RengaConvolutionShape *s)
{
  bool idle = false;
  for (int d = 0; d < 2; d++)
    for (int64_t k = 0; k < s->kernel[d]; k++) {
      bool used = false;
      for (int64_t o = 0; o < s->out[d] && !used; o++) {
        const int64_t at = o * s->stride[d] + k * s->dilation[d] - s->before[d];
        used = at >= 0 && at < s->in[d];
      }
      idle = idle || !used;
    }
  return idle;
}

/* Some place of the window stands wholly on padding: oneDNN 2.6 reads beside images in 16 bits. */
static bool LeavesImage(const RengaConvolutionShape *s)
{
  bool leaves = false;
  for (int d = 0; d < 2; d++) {
    const int64_t reach = (s->kernel[d] - 1) * s->dilation[d] + 1;
    leaves = leaves || s->before[d] >= reach || s->after[d] >= reach;
  }
  return leaves;
}

static bool HasHalf_Cpu(const RengaOpCall *call)
{
  bool half = call->out[0].type == RENGA_FLOAT16;
  for (int i = 0; i < call->n_in; i++)
    half = half || (call->in[i].ndim >= 0 && call->in[i].type == RENGA_FLOAT16);
  return half;
}

/* The product of an image or of a group of them, in the types of the call: y = w x, or
   dx = w^T dy. */
static RengaErrorCode CreateLowImages(RengaKernel kernel, bool input)
{
  Convolution *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t n = s->gathers ? s->group * s->pixels : s->pixels;
  const RengaCpuLowShape shape = {.trans_a = input,
                                  .m = input ? s->channels : s->out_channels,
                                  .n = n,
                                  .k = input ? s->out_channels : s->channels,
                                  .lda = s->channels,
                                  .ldb = n,
                                  .ldc = n,
                                  .alpha = 1,
                                  .a = call->in[1].type,
                                  .b = call->in[0].type,
                                  .bias = RENGA_FLOAT32,
                                  .c = call->out[0].type};
  RengaCall(RengaCpuLowProductCreate(kernel->device->threads, &shape, &s->low));
  kernel->workspace = s->low->bytes * (size_t)kernel->device->threads;
  return RENGA_SUCCESS;
}

/* With memory for a group of images and for what is made of them. */
static RengaErrorCode CreateGathered(RengaKernel kernel, bool input)
{
  Convolution *s = kernel->data;
  s->gathers = true;
  s->group = ImagesOfGroup(s);
  if (RengaOpCallIsLow_Private(&kernel->call)) RengaCall(CreateLowImages(kernel, input));
  kernel->workspace += (size_t)((s->channels + s->out_channels) * s->group * s->pixels) *
                       RengaDataTypeSize(kernel->call.in[0].type);
  return RENGA_SUCCESS;
}

static size_t BytesGathered(const RengaKernel kernel)
{
  const Convolution *s = kernel->data;
  return (size_t)((RowsGathered(s) + s->out_channels) * s->images * s->pixels) *
         RengaDataTypeSize(kernel->call.in[0].type);
}

/* The product of an image that is added to dw, or of all of them. */
static RengaErrorCode CreateLowWeights(RengaKernel kernel)
{
  Convolution *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t k = s->gathers ? s->images * s->pixels : s->pixels;
  const int64_t n = s->gathers ? RowsGathered(s) : s->channels;
  const RengaCpuLowShape shape = {.trans_b = true,
                                  .adds = !s->gathers,
                                  .m = s->out_channels,
                                  .n = n,
                                  .k = k,
                                  .lda = k,
                                  .ldb = k,
                                  .ldc = n,
                                  .alpha = 1,
                                  .a = call->in[1].type,
                                  .b = call->in[0].type,
                                  .bias = RENGA_FLOAT32,
                                  .c = RENGA_FLOAT32};
  RengaCall(RengaCpuLowProductCreate(kernel->device->threads, &shape, &s->low));
  kernel->workspace = s->low->bytes * (size_t)kernel->device->threads;
  if (s->gathers) kernel->workspace += BytesGathered(kernel);
  return RENGA_SUCCESS;
}

/* Where panels fit; dw^T has places of its own. */
static void CreatePanelWeights(RengaKernel kernel)
{
  Convolution *s = kernel->data;
  s->turns = s->channels > s->out_channels;
  const RengaCpuProduct product = PanelProduct(s, s->pixels, NULL, NULL, NULL);
  s->panels = RengaCpuPanelsFit(kernel->device->threads, &product);
  if (!s->panels) return;
  const int64_t turned = s->turns ? s->channels * s->out_channels : 0;
  kernel->workspace = (size_t)(RengaCpuPanelFloats(&product) + turned) * sizeof(float);
}

/* oneDNN is faster with what lies in the order of the result, and turning takes less time than that
   where the weights stay in the cache. */
static void TurnWeights(RengaKernel kernel)
{
  enum { MOST = 1 << 18 };
  Convolution *s = kernel->data;
  const int64_t count = s->channels * s->out_channels;
  const RengaCpuProduct product = {.m = s->channels, .n = s->pixels, .k = s->out_channels};
  s->turns = count <= MOST && RengaCpuPanelsFit(1, &product);
  if (s->turns) kernel->workspace = (size_t)count * sizeof(float);
}

/* The same of images side by side, behind which panels are packed. */
static void UsePanelsOfGathered(RengaKernel kernel)
{
  Convolution *s = kernel->data;
  const RengaCpuProduct product = {
      .trans_b = true, .m = s->out_channels, .n = RowsGathered(s), .k = s->images * s->pixels};
  s->panels = product.n <= product.m && RengaCpuPanelsFit(kernel->device->threads, &product);
  if (s->panels) kernel->workspace += (size_t)RengaCpuPanelFloats(&product) * sizeof(float);
}

/* The kernel is left to others. */
static RengaErrorCode ForgetConvolution(RengaKernel kernel)
{
  RengaCall(DestroyConvolution_Cpu(kernel));
  kernel->destroy = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateConvolution_Cpu(RengaKernel kernel, RengaConvolutionKind kind,
                                            RengaKernelRunFunction run, const RengaTensorSpec *x,
                                            const RengaTensorSpec *w, const RengaTensorSpec *y)
{
  const RengaOpCall *call = &kernel->call;
  RengaOpWindow window;
  const bool low = RengaOpCallIsLow_Private(call);
  if (!RengaCpuAllFloats(call, 0) || x->ndim < 3 || x->ndim > 4) return RENGA_SUCCESS;
  if (RengaTensorSpecCount(x) == 0 || RengaTensorSpecCount(y) == 0 || RengaTensorSpecCount(w) == 0)
    return RENGA_SUCCESS;
  RengaCall(RengaOpGetWindow(call, x, w, &window));
  RengaConvolutionShape shape = ShapeOf(call, &window, x, w, y);
  shape.has_bias = kind == RENGA_CONVOLUTION_FORWARD && RengaOpCallHasInput(call, 2);
  shape.bias = shape.has_bias ? call->in[2].type : RENGA_FLOAT32;
  Convolution *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = DestroyConvolution_Cpu;
  CopyShape(&shape, s);
  const bool weight = kind == RENGA_CONVOLUTION_WEIGHT, input = kind == RENGA_CONVOLUTION_INPUT;
  const bool lie = AsTheyLie(&shape), products = low && !shape.has_bias && OnePixel(&shape);
  const RengaDataType types[] = {x->type, w->type, y->type};
  s->gathers = weight && GathersAll(&shape);
  if (!weight && GathersGroups(&shape, types)) {
    RengaCall(CreateGathered(kernel, input));
  } else if (products && !weight && lie) {
    RengaCall(CreateLowImages(kernel, input));
  } else if (low && weight && (s->gathers || (products && lie && w->type == RENGA_FLOAT32))) {
    RengaCall(CreateLowWeights(kernel));
  } else if (!low && s->gathers) {
    kernel->workspace = BytesGathered(kernel);
    UsePanelsOfGathered(kernel);
  } else if (!low && lie) {
    s->tiling = RengaCpuTileFor(kernel->device->threads, weight ? 1 : s->images,
                                input ? s->channels : s->out_channels,
                                weight ? s->channels : s->pixels, false);
    if (weight) CreatePanelWeights(kernel);
    if (input) TurnWeights(kernel);
  } else {
    FitPadding(&shape);
    if (HasHalf_Cpu(call) || (low && (!RengaConvolutionHasBrain() || LeavesImage(&shape)))) {
      shape.widen = RengaCpuWiden; /* oneDNN has no float16, and turns bfloat16 slowly there */
      shape.narrow = RengaCpuNarrow;
    }
    shape.clears = weight && HasIdleWeights(&shape);
    RengaCall(RengaConvolutionCreate(kind, &shape, kernel->device->threads, &s->general));
    if (!s->general) return ForgetConvolution(kernel);
    kernel->workspace = RengaConvolutionGetWorkspace(s->general);
  }
  kernel->run = run;
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvCreate_Cpu(RengaKernel kernel)
{
  RengaOpCall *call = &kernel->call;
  RengaCall(CreateConvolution_Cpu(kernel, RENGA_CONVOLUTION_FORWARD, ConvolutionRun_Cpu,
                                  &call->in[0], &call->in[1], &call->out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvGradInputCreate_Cpu(RengaKernel kernel)
{
  RengaOpCall *call = &kernel->call;
  const bool before = RengaOpCallHasInput(call, 2);
  if (before && RengaOpCallIsLow_Private(call)) return RENGA_SUCCESS;
  RengaCall(CreateConvolution_Cpu(kernel, RENGA_CONVOLUTION_INPUT, InputRun_Cpu, &call->out[0],
                                  &call->in[1], &call->in[0]));
  Convolution *s = kernel->data;
  if (!before || !s || s->general || s->gathers) return RENGA_SUCCESS;
  s->adds = RengaCpuAddsAtOnce(s->channels, s->pixels, s->out_channels);
  if (s->adds) kernel->alias = RENGA_KERNEL_ALIAS(0, 2);
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvGradWeightCreate_Cpu(RengaKernel kernel)
{
  RengaOpCall *call = &kernel->call;
  RengaCall(CreateConvolution_Cpu(kernel, RENGA_CONVOLUTION_WEIGHT, WeightRun_Cpu, &call->in[0],
                                  &call->out[0], &call->in[1]));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuConvolution)[] = {
    {"Conv", ConvCreate_Cpu},
    {"ConvGradInput", ConvGradInputCreate_Cpu},
    {"ConvGradWeight", ConvGradWeightCreate_Cpu},
    {NULL, NULL},
};
