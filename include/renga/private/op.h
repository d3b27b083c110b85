/* What the rooms that implement operators share with the table: families, checks, geometry. */
#pragma once
#include "rengaop.h"

/* Of RengaPrecision, for choice.h. */
#define RENGA_PRECISION_WORDS(first, other)                                                        \
  first("fp32") other("bf16") other("fp16") other("tf32") other("fp8")

/* The families of the table; each ends with a row without a name. */
extern const RengaOperator RengaOperatorsUnary[];
extern const RengaOperator RengaOperatorsBinary[];
extern const RengaOperator RengaOperatorsReduce[];
extern const RengaOperator RengaOperatorsMove[];
extern const RengaOperator RengaOperatorsIndex[];
extern const RengaOperator RengaOperatorsMatrix[];
extern const RengaOperator RengaOperatorsConvolve[];
extern const RengaOperator RengaOperatorsNormalize[];
extern const RengaOperator RengaOperatorsLoss[];
extern const RengaOperator RengaOperatorsAttention[];
extern const RengaOperator RengaOperatorsRecurrent[];

/* A graph does not know its batch: shapes are inferred at two sizes, primes near whose multiples no
   extent of a network is by accident. In sentences these are N, 2N, N-1, ... */
enum { RENGA_OP_SOME_BATCH = 1299709, RENGA_OP_OTHER_BATCH = 1299721 };

/* The sentence begins with the call, all shapes included: Add(float32[2,3], float32[4]): ... */
RengaErrorCode RengaOpRefuse(const RengaOpCall *call, RengaErrorCode code, const char *function,
                             const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
#define RengaOpCheck(condition, call, ...)                                                         \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return RengaOpRefuse(call, RENGA_ERR_SHAPE, __func__, __FILE__, __LINE__, __VA_ARGS__),      \
             RENGA_ERR_SHAPE;                                                                      \
  } while (0)
#define RengaOpCheckValue(condition, call, ...)                                                    \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return RengaOpRefuse(call, RENGA_ERR_ARGUMENT, __func__, __FILE__, __LINE__, __VA_ARGS__),   \
             RENGA_ERR_ARGUMENT;                                                                   \
  } while (0)
bool RengaOperatorIsOutside_Private(const char *name);
bool RengaOpRowIsSound_Private(const RengaOperator *op); /* its types and attributes can be read */
RengaErrorCode RengaOpCheckAttributes(const RengaOpCall *call);
RengaErrorCode RengaOpCheckTypes(RengaOpCall *call); /* sets the types of the outputs */

/* Shapes. */
void RengaOpCopyShape(RengaTensorSpec *to, const RengaTensorSpec *from); /* not the type */
bool RengaOpSameShape(const RengaTensorSpec *a, const RengaTensorSpec *b);
int64_t RengaOpProduct(const RengaTensorSpec *spec, int first,
                       int last); /* of dimensions [first, last) */
/* Where attribute channels_last says that images are [N,…,C], an image as [N,C,…]; and back. */
RengaTensorSpec RengaOpChannelsFirst_Private(const RengaOpCall *call, const RengaTensorSpec *image);
RengaTensorSpec RengaOpChannelsLast_Private(const RengaOpCall *call, const RengaTensorSpec *image);
static inline bool RengaOpIsLast_Private(const RengaOpCall *call)
{
  return call->attributes && RengaAttributesInt(call->attributes, "channels_last", 0) != 0;
}
RengaErrorCode RengaOpBroadcast(const RengaOpCall *call, const RengaTensorSpec *x,
                                RengaTensorSpec *y);
/* Attribute name (an int) as a dimension 0 … ndim-1. */
RengaErrorCode RengaOpAxis(const RengaOpCall *call, const char *name, int ndim, int *axis);
/* Attribute axes as flags per dimension; none given: all, or with noop_with_empty_axes none. */
RengaErrorCode RengaOpAxes(const RengaOpCall *call, int ndim, bool chosen[RENGA_MAX_DIM]);

/* Slice: element i of dimension d is element begin[d] + i * step[d] of x. */
typedef struct {
  int64_t begin[RENGA_MAX_DIM], step[RENGA_MAX_DIM], count[RENGA_MAX_DIM];
} RengaOpSlice;
RengaErrorCode RengaOpGetSlice(const RengaOpCall *call, const RengaTensorSpec *x,
                               RengaOpSlice *slice);
/* Pad: elements added before and after each dimension; negative ones remove. */
typedef struct {
  int64_t before[RENGA_MAX_DIM], after[RENGA_MAX_DIM];
} RengaOpPad;
RengaErrorCode RengaOpGetPad(const RengaOpCall *call, int ndim, RengaOpPad *pad);

/* A window that moves over the spatial dimensions 2 ... of a convolution or pooling: output o, tap
   t reads position o * stride + t * dilation - before of the (unpadded) input. */
typedef struct {
  int n; /* spatial dimensions */
  int64_t kernel[RENGA_MAX_DIM], stride[RENGA_MAX_DIM], dilation[RENGA_MAX_DIM];
  int64_t before[RENGA_MAX_DIM], after[RENGA_MAX_DIM];
} RengaOpWindow;
/* The kernel's extents come from dimensions 2 ... of weight, or where that is NULL from attribute
   kernel_shape. */
RengaErrorCode RengaOpGetWindow(const RengaOpCall *call, const RengaTensorSpec *x,
                                const RengaTensorSpec *weight, RengaOpWindow *window);

/* MatMul as batches of [m,k] x [k,n]; strides in elements of a and b. */
typedef struct {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  int n_batch;
  int64_t batch[RENGA_MAX_DIM], a_batch[RENGA_MAX_DIM], b_batch[RENGA_MAX_DIM];
} RengaOpMatMul;
RengaErrorCode RengaOpGetMatMul(const RengaOpCall *call, RengaOpMatMul *matmul);

/* Where an attention has the rows of a head: row r of head h of sample n begins at element first +
   n * sample + h / share * head + r * row of input `tensor`, counted from the queries'. Heads of a
   plain attention are samples. */
typedef struct {
  int tensor;
  int64_t first, sample, head, row;
  int64_t share; /* heads of queries that have these */
} RengaOpRows;
typedef struct {
  int64_t samples, heads, queries, keys, width, values;
  int dimensions; /* leading ones of the scores */
  int64_t extent[RENGA_MAX_DIM];
  RengaOpRows q, k, v, o;
} RengaOpHeads;
/* first: which input the queries are. */
RengaErrorCode RengaOpGetHeads(const RengaOpCall *call, int first, RengaOpHeads *heads);
/* The shape of the scores. */
static inline RengaTensorSpec RengaOpScoresOf(const RengaOpHeads *heads)
{
  RengaTensorSpec scores = {.ndim = heads->dimensions + 2};
  for (int d = 0; d < heads->dimensions; d++) scores.dim[d] = heads->extent[d];
  scores.dim[heads->dimensions] = heads->queries;
  scores.dim[heads->dimensions + 1] = heads->keys;
  return scores;
}
/* Which output of the gradient's call, whose queries are input `first`, is that of a tensor; 3: of
   the mask. */
static inline int RengaOpGradientOf(const RengaOpCall *call, int first, int tensor)
{
  int output = 0;
  for (int i = 0; i < tensor; i++) output += call->in[first + i].ndim >= 0;
  return output;
}
RengaErrorCode RengaAttributesRemove(RengaAttributes *attributes, const char *name);
RengaErrorCode RengaAttributesCopy(const RengaAttributes *from, RengaAttributes *to);
bool RengaAttributesEqual(const RengaAttributes *a, const RengaAttributes *b);
uint64_t RengaAttributesHash(const RengaAttributes *attributes, const char *except, uint64_t seed);
uint64_t RengaTensorSpecHash(int count, const RengaTensorSpec specs[], uint64_t seed);
RengaErrorCode RengaStorageCountParameterBytes(const RengaStorage *storage, int moments,
                                               int64_t *bytes);
RengaErrorCode RengaStorageCountUpdateBytes(const RengaStorage *storage, int moments,
                                            int64_t *bytes);
/* Do tensors of a precision have 16 bits? */
bool RengaPrecisionIsNarrow_Private(RengaPrecision precision);
/* The factors of the call, a product, are rounded to what the precision says. */
static inline bool RengaOpCallRounds_Private(const RengaOpCall *call, RengaPrecision precision)
{
  return RengaAttributesInt(call->attributes, "rounds", 0) == (int64_t)precision;
}
void RengaOpCallFormat(const RengaOpCall *call, size_t size, char text[]);
RengaErrorCode RengaOperatorInfer(RengaOpCall *call); /* arity, attributes, shape rule */
int64_t RengaVectorPieces(int64_t count); /* of a vector of so many elements, the last one short */
