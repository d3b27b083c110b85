/* What the kernels of the module are told of an operator: its shape and attributes, and into how
   many parts sums are cut, which follows from the shape alone. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { RENGA_CUDA_DIMENSIONS = 8 };

typedef enum {
  RENGA_CUDA_FLOAT32,
  RENGA_CUDA_BFLOAT16,
  RENGA_CUDA_FLOAT16,
  RENGA_CUDA_INT64,
  RENGA_CUDA_INT32,
  RENGA_CUDA_BOOL,
  RENGA_CUDA_NO_TYPE /* that the module knows */
} RengaCudaType;

/* Memory of the device that a kernel reads or writes, NULL where it is absent. Where a kernel works
   on floats each operand has a type of its own, float32, bfloat16 or float16: inputs are widened
   exactly, results of float32 are rounded once, to nearest even. */
typedef struct {
  void *data;
  RengaCudaType type;
} RengaCudaOperand;

/* y of these extents from inputs with these strides, 0 where one is broadcast. */
typedef struct {
  int dimensions;
  int64_t count, extent[RENGA_CUDA_DIMENSIONS];
  int64_t stride[3][RENGA_CUDA_DIMENSIONS];
} RengaCudaBroadcast;

/* A copy between two strided arrays of these extents; size: bytes of an element, 1, 2, 4 or 8. */
enum { RENGA_CUDA_MOVE_DIMENSIONS = 2 * RENGA_CUDA_DIMENSIONS };
typedef struct {
  int dimensions, size;
  int64_t count, from_offset, to_offset;
  int64_t extent[RENGA_CUDA_MOVE_DIMENSIONS];
  int64_t from[RENGA_CUDA_MOVE_DIMENSIONS], to[RENGA_CUDA_MOVE_DIMENSIONS];
} RengaCudaMove;

/* c[m,n] = alpha a b, or with a bias of n values a b + bias; row-major. a is [m,k], or [k,m] where
   trans_a; b is [k,n], or [n,k] where trans_b; ld: distance of rows as stored. Sums are float32's.
   The types that cuBLASLt has: a and b are of one, c and the bias of that one, or of float32. */
typedef struct {
  int trans_a, trans_b, bias;
  int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
  RengaCudaType factors, result; /* of a and b; of c and the bias */
  int tf32;                      /* factors, of float32, are rounded to 10 bits of fraction */
  int eights;        /* factors are bytes of RengaCudaRounding, with trans_b and without trans_a */
  int format[2];     /* RengaFp8 of a and b, where they are bytes */
  int scattered;     /* pointers are those of any elements, else multiples of 16 bytes */
  float alpha, beta; /* c = alpha a b + beta c */
} RengaCudaProduct;

/* Lines of n elements, inner apart; outer x inner of them. */
typedef enum {
  RENGA_CUDA_SOFTMAX,
  RENGA_CUDA_LOG_SOFTMAX,
  RENGA_CUDA_SOFTMAX_GRAD,
  RENGA_CUDA_LOG_SOFTMAX_GRAD
} RengaCudaLine;
typedef struct {
  RengaCudaLine function;
  int64_t outer, n, inner;
} RengaCudaRows;

/* x is [rows, n]. Gradients of scale and bias are sums of pieces of rows: workspace [pieces, 2,
   n]. */
typedef struct {
  int64_t rows, n, pieces, rows_per_piece;
  float epsilon;
  int centred; /* 0: root mean square; there is no mean then, and inverse takes its place */
} RengaCudaNormalize;

/* scores are [outer, extent, inner], of which the first ones are of classes, labels [outer, inner].
   Workspace: a double per label. The classes are those from first on. */
typedef struct {
  int64_t outer, classes, extent, inner, ignore, first;
  int wide;   /* labels are int64, else int32 */
  int scored; /* the scores are logarithms of probabilities: no log-sum-exp is taken */
  int lane;   /* there is no sum, but log-sum-exp and score of each label, without workspace */
} RengaCudaLoss;

/* Of lanes; classes: that have weights. Workspace: a double per label. */
typedef struct {
  int64_t rows, classes, ignore;
  int wide, lanes;
} RengaCudaJoin;

/* data is [outer, length, inner], indices [count], the result [outer, count, inner]. outer count is
   at most RENGA_CUDA_PLACES. A row that comes more than RENGA_CUDA_RUN_LENGTH times has its
   gradient added up in runs of so many, of which there may be `runs`. Workspace of the gradient:
   three int32 for each of length, two for each run and one more, in 64 bytes' multiples, then a
   float for outer runs inner. */
typedef struct {
  int64_t outer, length, inner, count;
  int64_t rows, first; /* of all lanes; the first of these that data has */
  int64_t padding;     /* the row of data that gets no gradient; below 0: none */
  int size, wide;      /* bytes of an element; indices are int64, else int32 */
  int64_t runs;
} RengaCudaGather;
enum { RENGA_CUDA_PLACES = 0x7f000000, RENGA_CUDA_RUN_LENGTH = 64 };
static inline int64_t RengaCudaRunsOf(int64_t count)
{
  return count > RENGA_CUDA_RUN_LENGTH ? 2 * (count / RENGA_CUDA_RUN_LENGTH) : 0;
}
/* Bytes before the floats. */
static inline int64_t RengaCudaRunTables(const RengaCudaGather *s)
{
  return ((3 * s->length + 2 * s->runs + 1) * 4 + 63) / 64 * 64;
}

/* Numbers that must be in [low, high) or be ignore. */
typedef struct {
  int64_t count, low, high, ignore;
  int wide;
  const char *what; /* of the host: what the fault says */
} RengaCudaIndices;
typedef struct {
  volatile int found;
  const char *what;
  int64_t value, place, high;
} RengaCudaFault;

/* A result is a sum (or the like) of terms. Kept: dimensions of the results, with their strides in
   x; reduced: those of the terms. Each result has pieces of per_piece terms: workspace [results,
   pieces] doubles, where there is more than one. */
typedef enum {
  RENGA_CUDA_SUM,
  RENGA_CUDA_SQUARES,
  RENGA_CUDA_ABSOLUTES,
  RENGA_CUDA_MOST,
  RENGA_CUDA_LEAST
} RengaCudaSum;
typedef struct {
  RengaCudaSum kind;
  int mean, root;
  int across; /* neighbours in memory are of different results */
  int n_kept, n_reduced;
  int64_t results, terms, pieces, per_piece;
  int64_t kept[RENGA_CUDA_DIMENSIONS], kept_stride[RENGA_CUDA_DIMENSIONS];
  int64_t reduced[RENGA_CUDA_DIMENSIONS], reduced_stride[RENGA_CUDA_DIMENSIONS];
} RengaCudaReduce;
enum { RENGA_CUDA_TERMS = 2048, RENGA_CUDA_TERMS_ACROSS = 512 }; /* of a piece */

/* Random numbers, or x where they are not below ratio; x is [before, batch, after]. An element's
   number in its sample is its place in [before, factor, after]. */
typedef struct {
  int64_t count, batch, factor, after, key;
  float ratio;
} RengaCudaDraw;

/* Where the rows of a head are: row r of head h of sample n begins at element first + n * sample +
   h / share * head + r * row. */
typedef struct {
  int64_t first, sample, head, row, share;
} RengaCudaHeads;

/* Leading dimensions of the scores; heads: of all samples, which have heads_of_sample each. q and
   its gradient have queries rows of width numbers, k has keys of them, v keys rows of values
   numbers; o and its gradient queries rows. k and v have one share, q and o 1. The strides of the
   mask are 0 where it is broadcast.
   Workspace of the gradient: three times the queries of all heads, floats; where the mask's is
   wanted [heads that do not share one, queries, keys] more. */
typedef struct {
  int64_t heads, heads_of_sample, queries, keys, width, values;
  RengaCudaHeads q, k, v, o;
  float scale, ratio;
  int causal, dimensions;
  int64_t extent[RENGA_CUDA_DIMENSIONS], mask_stride[RENGA_CUDA_DIMENSIONS];
  int64_t mask_row, mask_column;
  int batch_dimension;
  int64_t batch_factor, key;
} RengaCudaAttention;
enum { RENGA_CUDA_ATTENTION_WIDTH = 256 }; /* the largest */

/* x is [images, channels, pixels], or rows [images, channels] of 1 pixel, of which a block has
   RENGA_CUDA_TILE channels; pieces: into which a channel's elements are cut, whose sums are made by
   a block. Workspace: per channel two doubles, and two for each piece. */
typedef struct {
  int64_t images, channels, pixels, pieces;
  double epsilon;
  int training, rows;
} RengaCudaBatchNorm;
enum { RENGA_CUDA_TILE = 32 };

/* A window over planes of two dimensions, each of so many channels that stand side by side. */
typedef struct {
  int64_t planes, channels, in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2];
  int count_pad;
} RengaCudaWindow;

/* size: bytes of an element of x and of its columns; gradients of columns are float32.
   columns[channels, kernel, pixels] of each of some images, or joined [channels, kernel, images,
   pixels]; pixels: of the output. x is [all images, channels, in]. Where the window has channels,
   x is [all images, in, channels], and columns [images, pixels, channels, kernel]. */
typedef struct {
  RengaCudaWindow window; /* planes: channels of an image */
  int64_t first, images;
  int joined, size;
} RengaCudaColumns;

/* y = x + bias; y is [before, channels, pixels]. */
typedef struct {
  int64_t count, channels, pixels;
} RengaCudaBias;

/* What cuDNN may compute in place of own kernels: numbers without gaps, so that equal tasks have
   equal bytes. */
typedef enum {
  RENGA_CUDNN_FORWARD, /* of a convolution, the gradients of its input and of its weights */
  RENGA_CUDNN_INPUT,
  RENGA_CUDNN_WEIGHT,
  RENGA_CUDNN_ATTENTION,
  RENGA_CUDNN_ATTENTION_GRAD
} RengaCudnnKind;
/* x is [images, channels, in], w [out_channels, channels / groups, kernel], y [images,
   out_channels, out]; last: each has its channels last in memory. Attention is that of
   RengaCudaAttention, without dropout; the mask, of float32 and finite, has strides of [samples,
   heads, queries, keys], 0 where it is broadcast. All are of one type, but masks and
   log-sum-exps. */
typedef struct {
  int64_t kind, type; /* RengaCudnnKind, RengaCudaType */
  int64_t tf32;       /* factors, of float32, are rounded to 10 bits of fraction */
  int64_t last;
  int64_t biased;     /* an own kernel adds a bias behind it, which is tried with it */
  int64_t images, channels, out_channels, groups, in[2], out[2], kernel[2];
  int64_t stride[2], dilation[2], before[2], after[2];
  int64_t samples, heads, queries, keys, width, values, causal, masked, mask_stride[4];
  RengaCudaHeads rows[4]; /* of q, k, v and o, in this order; first: 0 */
  double scale;
} RengaCudnnTask;
/* Where the pointers of a task's operands stand; delta: a float for each query, to work in. */
enum { RENGA_CUDNN_X, RENGA_CUDNN_W, RENGA_CUDNN_Y };
enum {
  RENGA_CUDNN_Q,
  RENGA_CUDNN_K,
  RENGA_CUDNN_V,
  RENGA_CUDNN_O,
  RENGA_CUDNN_WHOLE, /* log-sum-exp */
  RENGA_CUDNN_MASK,
  RENGA_CUDNN_DO,
  RENGA_CUDNN_DELTA,
  RENGA_CUDNN_DQ,
  RENGA_CUDNN_DK,
  RENGA_CUDNN_DV,
  RENGA_CUDNN_OPERANDS
};
/* What was chosen: equal on ranks that compute the same bits. */
typedef struct {
  size_t workspace; /* bytes */
  int64_t engine;   /* cuDNN's number of it */
  int64_t place;    /* in cuDNN's list */
} RengaCudnnChoice;
