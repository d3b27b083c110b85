/* Convolutions by oneDNN. Two inputs of bfloat16 are multiplied as such, others in float32; what
   is of another type is converted where it is turned: by oneDNN, or, where the shape says so, by a
   kernel of Renga, part by part in front of oneDNN's turning. Each piece is a primitive made for
   one thread: an image (or some, where they are small), or, for the gradient of weights and where
   all images are too small for more than one piece, a range of channels of what is computed over
   all images. Tensors are turned into the layout that the primitive likes and
   back, next to the caches of the piece that uses them. */
#include "onednn.h"
#include "dnn.h"
#include "renga/private/device.h"
#include <omp.h>
#include <string.h>

enum { THEIRS, MINE, WHOLE, N_SIDES }; /* of a tensor: of what is turned at a time, and all of it */
enum { N_TENSORS = 3, BIAS = N_SIDES * N_TENSORS, SCRATCH, N_MEMORIES };

/* One tensor of the primitive, as the user has it and as the primitive wants it. A shared one is
   turned before the pieces start, in parts. */
typedef struct {
  int arg;
  bool output, shared, turned;
  dnnl_memory_desc_t user, own;
  bool low, reorders;                /* 16 bits that are widened before; another layout */
  RengaDataType given;               /* as the user has it */
  int64_t rows, run, row_step;       /* of a part that is low: runs of elements in the user's */
  int64_t stride;                    /* bytes of the user's tensor from piece to piece */
  int64_t parts, part_from, part_to; /* bytes from part to part: the user's, the primitive's */
  dnnl_primitive_t reorder;
  dnnl_memory_desc_t reorder_user, reorder_own;
  bool transposes;      /* images of 16 bits to and from channels last, instead of the primitive */
  size_t bytes, offset; /* of the buffer; one per thread unless shared */
} DnnTensor;

struct _RengaConvolution {
  RengaConvolutionKind kind;
  RengaConvolutionShape shape; /* as the user has it */
  int threads;
  int64_t pieces, group, tile, tile_in; /* images of a piece; its output and input channels */
  bool ranges;                          /* pieces are ranges of channels */
  dnnl_data_type_t inner;               /* of what is multiplied */
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive;
  DnnTensor *tensor; /* [N_TENSORS] */
  size_t scratch_bytes, scratch_offset, wide_bytes, wide_offset, bias_offset, workspace;
  dnnl_memory_t *memory; /* [threads][N_MEMORIES] */
};

static RengaErrorCode DescribeAny(dnnl_memory_desc_t *md, const dnnl_memory_desc_t *like,
                                  dnnl_data_type_t type)
{
  CallDNN(dnnl_memory_desc_init_by_tag(md, like->ndims, like->dims, type, dnnl_format_tag_any));
  return RENGA_SUCCESS;
}

/* As oneDNN sees it: float32 alone, where others widen. */
static RengaConvolutionShape ShapeInside(const struct _RengaConvolution *c)
{
  RengaConvolutionShape shape = c->shape;
  if (shape.widen) shape.x = shape.w = shape.y = shape.bias = RENGA_FLOAT32;
  return shape;
}

/* The user's tensors x, w, y of one piece. */
static RengaErrorCode DescribePiece(const struct _RengaConvolution *c, dnnl_memory_desc_t *x,
                                    dnnl_memory_desc_t *w, dnnl_memory_desc_t *y)
{
  const RengaConvolutionShape inside = ShapeInside(c), *s = &inside;
  int64_t plane = s->out[0] * s->out[1], in_plane = s->in[0] * s->in[1];
  int64_t window = s->kernel[0] * s->kernel[1];
  int64_t xs[] = {c->group, c->tile_in, s->in[0], s->in[1]};
  int64_t x_stride[] = {s->channels * in_plane, in_plane, s->in[1], 1};
  int64_t ys[] = {c->group, c->tile, s->out[0], s->out[1]};
  int64_t y_stride[] = {s->out_channels * plane, plane, s->out[1], 1};
  int64_t ws[] = {s->groups, c->tile / s->groups, c->tile_in / s->groups, s->kernel[0],
                  s->kernel[1]};
  int64_t w_stride[] = {s->channels * window, window, s->kernel[1], 1};
  RengaCall(RengaDnnDescribeMemory(x, s->x, 4, xs, x_stride));
  RengaCall(RengaDnnDescribeMemory(y, s->y, 4, ys, y_stride));
  if (s->groups > 1)
    RengaCall(RengaDnnDescribeMemory(w, s->w, 5, ws, NULL));
  else
    RengaCall(RengaDnnDescribeMemory(w, s->w, 4, ws + 1, w_stride));
  return RENGA_SUCCESS;
}

/* The tensors in whatever layout the primitive likes. output: which one has the type that the user
   has, where bfloat16 is multiplied; -1: none. */
static RengaErrorCode DescribeTensors(const struct _RengaConvolution *c,
                                      const dnnl_memory_desc_t plain[], int output,
                                      dnnl_memory_desc_t any[])
{
  for (int i = 0; i < N_TENSORS; i++) {
    const bool given = i == output && c->inner == dnnl_bf16;
    RengaCall(DescribeAny(&any[i], &plain[i], given ? plain[i].data_type : c->inner));
  }
  return RENGA_SUCCESS;
}

/* The primitive; NULL where there is none. plain: x, w, y as the user has them. */
static RengaErrorCode CreatePrimitive(RengaConvolution c, const dnnl_memory_desc_t plain[])
{
  static const int outputs[] = {[RENGA_CONVOLUTION_FORWARD] = 2,
                                [RENGA_CONVOLUTION_INPUT] = 0,
                                [RENGA_CONVOLUTION_WEIGHT] = 1};
  const bool is_forward = c->kind == RENGA_CONVOLUTION_FORWARD;
  dnnl_convolution_desc_t forward, backward;
  dnnl_memory_desc_t any[N_TENSORS];
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t hint = NULL;
  RengaConvolutionShape piece = ShapeInside(c);
  piece.out_channels = c->tile;
  piece.channels = c->tile_in;
  RengaCall(DescribeTensors(c, plain, is_forward ? outputs[c->kind] : -1, any));
  RengaCall(RengaDnnDescribeForward(&piece, any, &forward));
  RengaCall(DescribeTensors(c, plain, outputs[c->kind], any));
  if (!is_forward) RengaCall(RengaDnnDescribeBackward(c->kind, &piece, any, &backward));
  CallDNN(dnnl_primitive_attr_create(&attributes));
  dnnl_status_t status =
      dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (status == dnnl_success)
    status = dnnl_primitive_desc_create(&hint, &forward, attributes, c->engine, NULL);
  if (status == dnnl_success && !is_forward) {
    status = dnnl_primitive_desc_create(&c->description, &backward, attributes, c->engine, hint);
    dnnl_primitive_desc_destroy(hint);
  } else {
    c->description = hint;
  }
  dnnl_primitive_attr_destroy(attributes);
  if (status == dnnl_unimplemented) return RENGA_SUCCESS;
  CallDNN(status);
  CallDNN(dnnl_primitive_create(&c->primitive, c->description));
  return RENGA_SUCCESS;
}

static int64_t SizeOfElement(const dnnl_memory_desc_t *md)
{
  return (int64_t)dnnl_data_type_size(md->data_type);
}

/* Images are turned one after the other, of weights as many output channels at a time as lie side
   by side in the primitive's layout. */
static void CutIntoParts(DnnTensor *t)
{
  int64_t block = 1;
  for (int i = 0; i < t->own.format_desc.blocking.inner_nblks; i++)
    if (t->own.format_desc.blocking.inner_idxs[i] == 0)
      block *= t->own.format_desc.blocking.inner_blks[i];
  const bool images = (t->arg == DNNL_ARG_SRC || t->arg == DNNL_ARG_DIFF_DST) && block == 1;
  const bool weights = t->arg == DNNL_ARG_WEIGHTS && t->user.dims[0] % block == 0;
  if (!t->shared || !(images || weights)) return;
  t->parts = t->user.dims[0] / block;
  t->rows = block;
  t->part_from = t->row_step * block * (int64_t)RengaDataTypeSize(t->given);
  t->part_to = t->own.format_desc.blocking.strides[0] * SizeOfElement(&t->own);
  t->reorder_user.dims[0] = t->reorder_user.padded_dims[0] = block;
  t->reorder_own.dims[0] = t->reorder_own.padded_dims[0] = block;
}

static RengaErrorCode CreateReorder(RengaConvolution c, DnnTensor *t)
{
  CutIntoParts(t);
  if (t->low) {
    const size_t wide = dnnl_memory_desc_get_size(&t->reorder_user);
    if (wide > c->wide_bytes) c->wide_bytes = wide;
  }
  t->transposes = RengaDnnHasChannelsLast(&t->user, &t->own);
  if (t->transposes) return RENGA_SUCCESS;
  const dnnl_memory_desc_t *from = t->output ? &t->reorder_own : &t->reorder_user;
  const dnnl_memory_desc_t *to = t->output ? &t->reorder_user : &t->reorder_own;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t description = NULL;
  CallDNN(dnnl_primitive_attr_create(&attributes));
  dnnl_status_t status =
      dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (status == dnnl_success)
    status = dnnl_reorder_primitive_desc_create(&description, from, c->engine, to, c->engine,
                                                attributes);
  dnnl_primitive_attr_destroy(attributes);
  CallDNN(status);
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
  status = dnnl_primitive_create(&t->reorder, description);
  dnnl_primitive_desc_destroy(description);
  CallDNN(status);
  return RENGA_SUCCESS;
}

/* Which tensors each kind has: a, b -> c. */
static const struct {
  int arg;
  dnnl_query_t query;
  int plain; /* x, w or y */
} roles[][N_TENSORS] = {
    [RENGA_CONVOLUTION_FORWARD] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                   {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 1},
                                   {DNNL_ARG_DST, dnnl_query_dst_md, 2}},
    [RENGA_CONVOLUTION_INPUT] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 2},
                                 {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 1},
                                 {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0}},
    [RENGA_CONVOLUTION_WEIGHT] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                  {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 2},
                                  {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 1}},
};

/* How the user has it; what is low is described as its widened copy, without gaps. */
static RengaErrorCode DescribeUser(const struct _RengaConvolution *c,
                                   const dnnl_memory_desc_t *plain, int role, DnnTensor *t)
{
  const RengaDataType given[] = {c->shape.x, c->shape.w, c->shape.y};
  t->given = given[role];
  t->low = c->shape.widen && RengaDeviceIsLow(t->given);
  t->user = *plain;
  t->rows = plain->dims[0];
  t->row_step = plain->format_desc.blocking.strides[0];
  t->run = 1;
  for (int d = 1; d < plain->ndims; d++) t->run *= plain->dims[d];
  if (t->low)
    RengaCall(RengaDnnDescribeMemory(&t->user, RENGA_FLOAT32, plain->ndims, plain->dims, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateTensors(RengaConvolution c, const dnnl_memory_desc_t plain[])
{
  const RengaConvolutionShape *s = &c->shape;
  const bool input = c->kind == RENGA_CONVOLUTION_INPUT;
  const int64_t window = s->kernel[0] * s->kernel[1];
  const int64_t image[N_TENSORS] = {s->channels * s->in[0] * s->in[1], 0,
                                    s->out_channels * s->out[0] * s->out[1]};
  const int64_t range[N_TENSORS] = {c->tile_in * s->in[0] * s->in[1],
                                    input ? c->tile_in * window
                                          : c->tile * s->channels / s->groups * window,
                                    c->tile * s->out[0] * s->out[1]};
  const int whole = !c->ranges ? 1 : input ? 2 : 0; /* what all pieces read: w, dy, x */
  for (int i = 0; i < N_TENSORS; i++) {
    DnnTensor *t = &c->tensor[i];
    int role = roles[c->kind][i].plain;
    t->arg = roles[c->kind][i].arg;
    RengaCall(DescribeUser(c, &plain[role], role, t));
    t->own = *dnnl_primitive_desc_query_md(c->description, roles[c->kind][i].query, 0);
    t->reorders = !dnnl_memory_desc_equal(&t->user, &t->own);
    t->turned = t->reorders || t->low;
    t->output = i == N_TENSORS - 1;
    t->shared = role == whole;
    t->stride =
        (c->ranges ? range[role] : c->group * image[role]) * (int64_t)RengaDataTypeSize(t->given);
    t->parts = 1;
    t->reorder_user = t->user;
    t->reorder_own = t->own;
    if (t->turned) t->bytes = (dnnl_memory_desc_get_size(&t->own) + 63) / 64 * 64;
    if (t->reorders) RengaCall(CreateReorder(c, t));
  }
  return RENGA_SUCCESS;
}

static bool WidensBias(const struct _RengaConvolution *c)
{
  return c->shape.widen && c->shape.has_bias && RengaDeviceIsLow(c->shape.bias);
}

static void PlanWorkspace(RengaConvolution c)
{
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(c->description, dnnl_query_scratchpad_md, 0);
  size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
  c->scratch_bytes = (c->scratch_bytes + 63) / 64 * 64;
  for (int i = 0; i < N_TENSORS; i++) {
    c->tensor[i].offset = c->workspace;
    c->workspace += c->tensor[i].bytes * (size_t)(c->tensor[i].shared ? 1 : c->threads);
  }
  c->scratch_offset = c->workspace;
  c->workspace += c->scratch_bytes * (size_t)c->threads;
  c->wide_bytes = (c->wide_bytes + 63) / 64 * 64;
  c->wide_offset = c->workspace;
  c->workspace += c->wide_bytes * (size_t)c->threads;
  c->bias_offset = c->workspace;
  if (WidensBias(c)) c->workspace += (size_t)c->shape.out_channels * sizeof(float);
}

static RengaErrorCode CreateMemories(RengaConvolution c)
{
  RengaCall(RengaMalloc(c->threads * N_MEMORIES, &c->memory));
  dnnl_memory_desc_t bias, scratch;
  dnnl_dims_t channels = {c->tile}, bytes = {(int64_t)c->scratch_bytes};
  CallDNN(
      dnnl_memory_desc_init_by_tag(&bias, 1, channels, RengaDnnType(ShapeInside(c).bias), dnnl_a));
  CallDNN(dnnl_memory_desc_init_by_tag(&scratch, 1, bytes, dnnl_u8, dnnl_a));
  for (int thread = 0; thread < c->threads; thread++) {
    dnnl_memory_t *memory = c->memory + thread * N_MEMORIES;
    for (int i = 0; i < N_TENSORS; i++) {
      DnnTensor *t = &c->tensor[i];
      dnnl_memory_t *side = memory + N_SIDES * i;
      CallDNN(dnnl_memory_create(&side[WHOLE], &t->own, c->engine, DNNL_MEMORY_NONE));
      if (!t->reorders) continue;
      CallDNN(dnnl_memory_create(&side[THEIRS], &t->reorder_user, c->engine, DNNL_MEMORY_NONE));
      CallDNN(dnnl_memory_create(&side[MINE], &t->reorder_own, c->engine, DNNL_MEMORY_NONE));
    }
    CallDNN(dnnl_memory_create(&memory[BIAS], &bias, c->engine, DNNL_MEMORY_NONE));
    CallDNN(dnnl_memory_create(&memory[SCRATCH], &scratch, c->engine, DNNL_MEMORY_NONE));
  }
  return RENGA_SUCCESS;
}

/* The smallest group of images that divides them and has enough pixels to be worth the weights' way
   through the cache. Where that is all of them, and for the gradient of weights, ranges of at least
   32 channels, at most 4. */
static void CutIntoGroups(RengaConvolution c)
{
  enum { PIXELS = 196, LEAST = 32, MOST = 4 };
  const RengaConvolutionShape *s = &c->shape;
  c->tile = s->out_channels;
  c->tile_in = s->channels;
  c->group = 1;
  while (c->group < s->images &&
         (s->images % c->group != 0 || c->group * s->out[0] * s->out[1] < PIXELS))
    c->group++;
  if (c->kind == RENGA_CONVOLUTION_WEIGHT) c->group = s->images;
  c->pieces = s->images / c->group;
  c->ranges = c->pieces == 1;
  int64_t *tile = c->kind == RENGA_CONVOLUTION_INPUT ? &c->tile_in : &c->tile;
  while (c->ranges && s->groups == 1 && c->pieces < MOST && *tile % 32 == 0 && *tile / 2 >= LEAST) {
    c->pieces *= 2;
    *tile /= 2;
  }
}

static bool AllInputsAre(const struct _RengaConvolution *c, RengaDataType type)
{
  const RengaConvolutionShape inside = ShapeInside(c), *s = &inside;
  return (c->kind == RENGA_CONVOLUTION_INPUT || s->x == type) &&
         (c->kind == RENGA_CONVOLUTION_WEIGHT || s->w == type) &&
         (c->kind == RENGA_CONVOLUTION_FORWARD || s->y == type);
}

/* primitive stays NULL where there is none */
static RengaErrorCode SetUpPrimitive(RengaConvolution c)
{
  dnnl_memory_desc_t plain[N_TENSORS];
  CallDNN(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
  CallDNN(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
  CutIntoGroups(c);
  RengaCall(DescribePiece(c, &plain[0], &plain[1], &plain[2]));
  c->inner = AllInputsAre(c, RENGA_BFLOAT16) ? dnnl_bf16 : dnnl_f32;
  RengaCall(CreatePrimitive(c, plain));
  if (!c->primitive && c->inner == dnnl_bf16) {
    c->inner = dnnl_f32;
    RengaCall(CreatePrimitive(c, plain));
  }
  if (!c->primitive) return RENGA_SUCCESS;
  RengaCall(CreateTensors(c, plain));
  PlanWorkspace(c);
  RengaCall(CreateMemories(c));
  return RENGA_SUCCESS;
}

/* oneDNN asks OpenMP how many threads a primitive is made for. */
RengaErrorCode RengaConvolutionCreate(RengaConvolutionKind kind, const RengaConvolutionShape *shape,
                                      int threads, RengaConvolution *convolution)
{
  RengaConvolution made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->kind = kind;
  made->shape = *shape;
  made->threads = threads;
  int saved = omp_get_max_threads();
  omp_set_num_threads(1);
  RengaErrorCode code = RengaMalloc(N_TENSORS, &made->tensor);
  if (!code) code = SetUpPrimitive(made);
  omp_set_num_threads(saved);
  if (code || !made->primitive) RengaConvolutionDestroy(&made);
  RengaCall(code);
  *convolution = made;
  return RENGA_SUCCESS;
}

size_t RengaConvolutionGetWorkspace(RengaConvolution convolution)
{
  return convolution->workspace;
}

static void *BufferOf(const DnnTensor *t, int thread, void *workspace)
{
  return (char *)workspace + t->offset + (t->shared ? 0 : t->bytes * (size_t)thread);
}

/* Another layout, by oneDNN. */
static dnnl_status_t ReorderPart(const struct _RengaConvolution *c, int tensor, int thread,
                                 void *user, void *own, void *workspace)
{
  const DnnTensor *t = &c->tensor[tensor];
  dnnl_memory_t *memory = c->memory + thread * N_MEMORIES;
  dnnl_memory_t theirs = memory[N_SIDES * tensor + THEIRS], mine = memory[N_SIDES * tensor + MINE];
  dnnl_status_t status = dnnl_memory_set_data_handle(theirs, user);
  if (status == dnnl_success) status = dnnl_memory_set_data_handle(mine, own);
  if (status == dnnl_success)
    status = dnnl_memory_set_data_handle(memory[SCRATCH], (char *)workspace + c->scratch_offset +
                                                              c->scratch_bytes * (size_t)thread);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, t->output ? mine : theirs},
                            {DNNL_ARG_TO, t->output ? theirs : mine},
                            {DNNL_ARG_SCRATCHPAD, memory[SCRATCH]}};
  if (status == dnnl_success) status = dnnl_primitive_execute(t->reorder, c->stream, 3, args);
  return status;
}

/* The copy of a part that is low lies in memory of the thread if it is turned, too. */
static dnnl_status_t TurnTensor(const struct _RengaConvolution *c, int tensor, int thread,
                                char *user, void *own, void *workspace)
{
  const DnnTensor *t = &c->tensor[tensor];
  char *wide = (char *)workspace + c->wide_offset + c->wide_bytes * (size_t)thread;
  float *copy = (float *)(t->reorders ? (void *)wide : own);
  dnnl_status_t status = dnnl_success;
  if (t->transposes) {
    RengaDnnTurnImages(&t->reorder_user, &t->reorder_own, t->output, user, own);
    return dnnl_success;
  }
  for (int64_t r = 0; r < t->rows && t->low && !t->output; r++)
    c->shape.widen(t->given, t->run, (uint16_t *)(void *)user + r * t->row_step, copy + r * t->run);
  if (t->reorders)
    status = ReorderPart(c, tensor, thread, t->low ? (void *)copy : user, own, workspace);
  for (int64_t r = 0; r < t->rows && t->low && t->output; r++)
    c->shape.narrow(t->given, t->run, copy + r * t->run,
                    (uint16_t *)(void *)user + r * t->row_step);
  return status;
}

/* One piece: turn the inputs of its own, compute, turn the output. */
static dnnl_status_t RunPiece(const struct _RengaConvolution *c, int thread, int64_t piece,
                              char *const user[], const void *bias, void *workspace)
{
  dnnl_memory_t *memory = c->memory + thread * N_MEMORIES;
  dnnl_exec_arg_t args[N_TENSORS + 2];
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < N_TENSORS && status == dnnl_success; i++) {
    const DnnTensor *t = &c->tensor[i];
    char *mine = user[i] + (t->shared ? 0 : piece * t->stride);
    void *own = t->turned ? BufferOf(t, thread, workspace) : mine;
    if (t->turned && !t->output && !t->shared)
      status = TurnTensor(c, i, thread, mine, own, workspace);
    args[i] = (dnnl_exec_arg_t){t->arg, memory[N_SIDES * i + WHOLE]};
    if (status == dnnl_success) status = dnnl_memory_set_data_handle(args[i].memory, own);
  }
  int count = N_TENSORS;
  if (c->shape.has_bias && status == dnnl_success) {
    const size_t at =
        c->ranges ? (size_t)(piece * c->tile) * RengaDataTypeSize(ShapeInside(c).bias) : 0;
    status = dnnl_memory_set_data_handle(memory[BIAS], (char *)(uintptr_t)bias + at);
    args[count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, memory[BIAS]};
  }
  void *scratch = (char *)workspace + c->scratch_offset + c->scratch_bytes * (size_t)thread;
  if (status == dnnl_success) status = dnnl_memory_set_data_handle(memory[SCRATCH], scratch);
  args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory[SCRATCH]};
  if (c->shape.clears) memset(scratch, 0, c->scratch_bytes);
  if (status == dnnl_success) status = dnnl_primitive_execute(c->primitive, c->stream, count, args);
  const DnnTensor *last = &c->tensor[N_TENSORS - 1];
  if (last->turned && status == dnnl_success)
    status = TurnTensor(c, N_TENSORS - 1, thread, user[N_TENSORS - 1] + piece * last->stride,
                        BufferOf(last, thread, workspace), workspace);
  return status;
}

RengaErrorCode RengaConvolutionRun(RengaConvolution c, const void *a, const void *b,
                                   const void *bias, void *out, void *workspace)
{
  char *user[N_TENSORS] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, out};
  int failed = dnnl_success;
  if (WidensBias(c)) {
    float *wide = (float *)(void *)((char *)workspace + c->bias_offset);
    c->shape.widen(c->shape.bias, c->shape.out_channels, bias, wide);
    bias = wide;
  }
  for (int i = 0; i < N_TENSORS; i++) {
    const DnnTensor *t = &c->tensor[i];
    if (!t->shared || !t->turned) continue;
#pragma omp parallel for num_threads(t->parts < c->threads ? (int)t->parts : c->threads)
    for (int64_t part = 0; part < t->parts; part++) {
      RengaCpuBeAlone();
      const int thread = omp_get_thread_num();
      char *own = (char *)BufferOf(t, thread, workspace) + part * t->part_to;
      dnnl_status_t status =
          TurnTensor(c, i, thread, user[i] + part * t->part_from, own, workspace);
      if (status != dnnl_success) {
#pragma omp atomic write
        failed = (int)status;
      }
    }
  }
#pragma omp parallel for num_threads(c->pieces < c->threads ? (int)c->pieces : c->threads)
  for (int64_t piece = 0; piece < c->pieces; piece++) {
    RengaCpuBeAlone();
    dnnl_status_t status = RunPiece(c, omp_get_thread_num(), piece, user, bias, workspace);
    if (status != dnnl_success) {
#pragma omp atomic write
      failed = (int)status;
    }
  }
  RengaCheck(failed == dnnl_success, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d", failed);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaConvolutionDestroy(RengaConvolution *convolution)
{
  RengaConvolution c = *convolution;
  if (!c) return RENGA_SUCCESS;
  for (int i = 0; c->memory && i < c->threads * N_MEMORIES; i++)
    if (c->memory[i]) dnnl_memory_destroy(c->memory[i]);
  RengaFree(&c->memory);
  for (int i = 0; i < N_TENSORS && c->tensor; i++)
    if (c->tensor[i].reorder) dnnl_primitive_destroy(c->tensor[i].reorder);
  RengaFree(&c->tensor);
  if (c->primitive) dnnl_primitive_destroy(c->primitive);
  if (c->description) dnnl_primitive_desc_destroy(c->description);
  if (c->stream) dnnl_stream_destroy(c->stream);
  if (c->engine) dnnl_engine_destroy(c->engine);
  RengaFree(convolution);
  return RENGA_SUCCESS;
}
