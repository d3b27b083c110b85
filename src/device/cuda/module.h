/* The module of the cuda device, renga_cuda.so: all that needs CUDA. The library opens it where
   -device_type cuda asks for it, and knows these functions alone; the module knows nothing of the
   library. A function's value is 0, or an error that error() says in words. Streams and events are
   CUDA's; all work is queued. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RENGA_CUDA_VERSION = 2, RENGA_CUDA_DIMENSIONS = 8, RENGA_CUDA_TABLE = 32 };
enum { RENGA_CUDA_PIECE = 16384 }; /* elements whose squares are added up together */
typedef enum { RENGA_CUDA_DOWN, RENGA_CUDA_UP, RENGA_CUDA_WITHIN } RengaCudaCopy;

/* Types that vectors are converted between. */
typedef enum { RENGA_CUDA_FLOAT32, RENGA_CUDA_BFLOAT16, RENGA_CUDA_FLOAT16 } RengaCudaType;

/* Rows of tables, at most RENGA_CUDA_TABLE in a call. */
typedef struct {
  const float *x;
  int64_t count;
  int64_t first; /* of its pieces among those of the call */
} RengaCudaNorm;
/* v = keep v + take g; p -= rate (a g + b v), with g = scale g + decay p */
typedef struct {
  float *parameter, *momentum; /* NULL: none */
  const float *gradient;
  int64_t count;
  float rate, decay, scale, keep, take, a, b;
} RengaCudaSgd;
typedef struct {
  float *parameter, *first, *second;
  const float *gradient;
  int64_t count;
  float shrink, decay, scale, keep1, take1, keep2, take2, rate, root, epsilon;
} RengaCudaAdam;

/* y of these extents from inputs with these strides, 0 where one is broadcast. */
typedef struct {
  int dimensions;
  int64_t count, extent[RENGA_CUDA_DIMENSIONS];
  int64_t stride[2][RENGA_CUDA_DIMENSIONS];
} RengaCudaBroadcast;

/* c[m,n] = alpha a b, or with a bias of n values a b + bias; row-major. a is [m,k], or [k,m] where
   trans_a; b is [k,n], or [n,k] where trans_b; ld: distance of rows as stored. */
typedef struct {
  int trans_a, trans_b, bias;
  int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
  float alpha;
} RengaCudaProduct;

typedef struct {
  int version;
  size_t product_bytes; /* of a plan */
  const char *(*error)(void);
  int (*count)(int *devices);
  int (*open)(int device, size_t size, char text[]); /* text: what it is */
  int (*memory)(size_t *bytes);
  int (*reserve)(size_t bytes, void **pointer);
  int (*release)(void *pointer);
  int (*hostreserve)(size_t bytes, void **pointer);
  int (*hostrelease)(void *pointer);
  int (*copy)(void *stream, RengaCudaCopy kind, void *to, const void *from, size_t bytes);
  int (*set)(void *stream, void *to, int byte, size_t bytes);
  int (*streamcreate)(void **stream);
  int (*streamsynchronize)(void *stream);
  int (*streamdestroy)(void *stream);
  int (*eventcreate)(void **event);
  int (*eventrecord)(void *event, void *stream);
  int (*eventwait)(void *event, void *stream);
  int (*eventsynchronize)(void *event);
  int (*eventquery)(void *event, int *done);
  int (*eventdestroy)(void *event);
  /* y = x; one of the types is RENGA_CUDA_FLOAT32, the other one is not */
  int (*convert)(void *stream, int64_t count, RengaCudaType from, const void *x, RengaCudaType to,
                 void *y);
  /* y += x */
  int (*add)(void *stream, int64_t count, float *y, const float *x);
  /* parts: of the device, a number for each piece; sums: of the device, one for each row */
  int (*norms)(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces, double *parts,
               double *sums);
  int (*sgd)(void *stream, int count, const RengaCudaSgd rows[]);
  int (*adam)(void *stream, int count, const RengaCudaAdam rows[]);
  /* Numbers of elementwise functions by name; -1: there is none. */
  int (*findunary)(const char *name);
  int (*findbinary)(const char *name);
  /* y = f(x; a, b), of gradients f(dy, x; a, b); y may be x or dy. */
  int (*unary)(void *stream, int function, int64_t count, const float *dy, const float *x, float *y,
               float a, float b);
  int (*binary)(void *stream, int function, const RengaCudaBroadcast *shape, const float *a,
                const float *b, float *y);
  /* plan: product_bytes of the host's, 64-byte aligned; made once per shape */
  int (*productcreate)(const RengaCudaProduct *product, void *plan);
  int (*productrun)(void *stream, void *plan, const float *a, const float *b, const float *bias,
                    float *c);
  int (*productdestroy)(void *plan);
} RengaCudaModule;

/* The one function that the module exports. */
typedef const RengaCudaModule *(*RengaCudaOpen)(void);
#define RENGA_CUDA_OPEN "RengaCudaGetModule"

#ifdef __cplusplus
}
#endif
