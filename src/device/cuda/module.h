/* The module of the cuda device, renga_cuda.so: all that needs CUDA. The library opens it where
   -device_type cuda asks for it, and knows these functions alone; the module knows nothing of the
   library. A function's value is 0, or an error that error() says in words. Streams and events are
   CUDA's; all work is queued. */
#pragma once
#include "renga/private/factors.h"
#include "renga/private/fp8.h"
#include "shapes.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RENGA_CUDA_VERSION = 18, RENGA_CUDA_TABLE = 32 };
enum { RENGA_CUDA_ARGUMENTS = 8 }; /* inputs, or outputs, of a kernel by shape */
enum { RENGA_CUDA_PIECE = 16384 }; /* elements whose squares are added up together */
typedef enum { RENGA_CUDA_DOWN, RENGA_CUDA_UP, RENGA_CUDA_WITHIN } RengaCudaCopy;
/* Queues of the hardware, which streams share, as CUDA was told; whether the open device multiplies
   factors of 8 bits. */
typedef enum { RENGA_CUDA_QUEUES, RENGA_CUDA_HAS_EIGHTS } RengaCudaFact;

/* Rows of tables, at most RENGA_CUDA_TABLE in a call. value: gets the new parameter, rounded. */
typedef struct {
  const float *x;
  int64_t count;
  int64_t first; /* of its pieces among those of the call */
} RengaCudaNorm;
typedef struct {
  float *parameter, *momentum; /* NULL: none */
  const float *gradient;
  RengaCudaOperand value;
  int64_t count;
  RengaSgdFactors by;
} RengaCudaSgd;
typedef struct {
  float *parameter, *first, *second;
  const float *gradient;
  RengaCudaOperand value;
  int64_t count;
  RengaAdamFactors by;
} RengaCudaAdam;

/* A factor of a product, [rows, columns], rounded to 8 bits: y is bfloat16, or where it has
   RENGA_CUDA_NO_TYPE bytes of the format, [columns, rows] where turned; each is the number times
   the scale then, and 64 bytes in front of y are most, then 1 / scale as a float. most: of the
   device. */
typedef struct {
  RengaFp8 format;
  int turned;
  int64_t rows, columns;
  RengaCudaOperand x, y;
  uint32_t *most;
} RengaCudaRounding;
enum { RENGA_CUDA_SCALES = 64 };

typedef struct {
  /* Numbers of elementwise functions by name and type of the inputs, float32 for all floats; -1:
     there is none. */
  int (*findunary)(const char *name);
  int (*findbinary)(const char *name, RengaCudaType type);
  int (*findconversion)(const char *name, RengaCudaType from, RengaCudaType to);
  /* y = f(x; a, b), of gradients f(dy, x; a, b); y may be what of them has its type. */
  int (*unary)(void *stream, int function, int64_t count, RengaCudaOperand dy, RengaCudaOperand x,
               RengaCudaOperand y, float a, float b);
  int (*binary)(void *stream, int function, const RengaCudaBroadcast *shape, RengaCudaOperand a,
                RengaCudaOperand b, RengaCudaOperand y);
  int (*convert)(void *stream, int function, int64_t count, RengaCudaOperand x, RengaCudaOperand y);
  /* y = condition ? a : b, inputs 0, 1, 2 of the shape; size: bytes of an element */
  int (*choose)(void *stream, int size, const RengaCudaBroadcast *shape,
                const unsigned char *condition, const void *a, const void *b, void *y);
  int (*move)(void *stream, const RengaCudaMove *shape, const void *from, void *to);
  /* count elements of size bytes, all of them the first bytes of bits */
  int (*fill)(void *stream, int size, uint64_t bits, int64_t count, void *to);
  /* Looks for a number that is outside; fault, of pinned memory, says the first one. */
  int (*check)(void *stream, const RengaCudaIndices *indices, const void *values,
               RengaCudaFault *fault);
} RengaCudaElementwise;

/* What a kernel may know of the run. moment: of the device's memory, is added to step and sample
   when the kernel runs; NULL: nothing is. */
typedef struct {
  int64_t step, sample;
} RengaCudaMoment;
typedef struct {
  uint64_t seed;
  int64_t step, sample;
  int training;
  const RengaCudaMoment *moment;
} RengaCudaContext;
/* A kernel of one operator. shape: the struct of its family; in, out: RENGA_CUDA_ARGUMENTS of them;
   workspace: as many bytes as the struct says. */
typedef int (*RengaCudaRun)(void *stream, const void *shape, const RengaCudaContext *context,
                            const RengaCudaOperand in[], const RengaCudaOperand out[],
                            void *workspace);

/* Kernels by family, with the inputs and outputs of the operators. */
typedef struct {
  /* RengaCudaRows; (dy,) x -> y */
  RengaCudaRun softmax;
  /* RengaCudaNormalize; x, scale, (bias), (more) -> y, (mean), (inverse), (x + more) */
  RengaCudaRun norm;
  /* dy, x, scale, mean, inverse, (what dx is added to) -> dx, (dscale), (dbias) */
  RengaCudaRun normgrad;
  /* RengaCudaLoss; scores, labels, (weights) -> sum, (log-sum-exp); lane: log-sum-exp, score */
  RengaCudaRun loss;
  /* d sum, scores, labels, (log-sum-exp), (weights) -> d scores; lane: d log-sum-exp in place of
     d sum, d score in place of weights */
  RengaCudaRun lossgrad;
  /* RengaCudaJoin; labels, (weights), log-sum-exps, scores -> sum, (log-sum-exp), (score) */
  RengaCudaRun join;
  /* d sum, labels, log-sum-exp, (weights), log-sum-exps -> d score, d log-sum-exps */
  RengaCudaRun joingrad;
  /* labels, (weights) -> count */
  RengaCudaRun losscount;
  /* RengaCudaGather; data, indices -> y */
  RengaCudaRun gather;
  /* dy, indices -> d data */
  RengaCudaRun gathergrad;
  /* RengaCudaReduce; x -> y */
  RengaCudaRun reduce;
  /* RengaCudaDraw; (x) -> y */
  RengaCudaRun draw;
  /* RengaCudaAttention; q, k, v, (mask) -> o, (log-sum-exp) */
  RengaCudaRun attention;
  /* do, q, k, v, o, log-sum-exp, (mask) -> dq, dk, dv, (dmask) */
  RengaCudaRun attentiongrad;
  /* Around attention of cuDNN: mask -> mask as it is given there, most of its rows */
  RengaCudaRun preparemask;
  /* most of the mask's rows -> o, log-sum-exp, which change */
  RengaCudaRun finishmasked;
  /* q, k, v, mask as it is given there, most of its rows, log-sum-exp -> log-sum-exp with that */
  RengaCudaRun preparesums;
  /* RengaCudaBatchNorm; x, scale, bias, mean, variance -> y, (mean), (variance) */
  RengaCudaRun batchnorm;
  /* dy, x, scale, mean, variance -> dx, (dscale), (dbias) */
  RengaCudaRun batchnormgrad;
  /* RengaCudaColumns; x -> columns */
  RengaCudaRun columns;
  /* d columns -> dx */
  RengaCudaRun columnsgrad;
  /* RengaCudaBias; bias, x -> y, which may be x where it has its type */
  RengaCudaRun addbias;
  /* RengaCudaWindow; x -> y, (places) */
  RengaCudaRun maxpool;
  /* dy, places -> dx */
  RengaCudaRun maxpoolgrad;
  /* x -> y */
  RengaCudaRun averagepool;
  /* dy -> dx */
  RengaCudaRun averagepoolgrad;
} RengaCudaFamilies;

/* NCCL, which the module opens when it is asked for. A wire is a communicator; all but open and
   close is queued, or put into the group between begin and end. */
enum { RENGA_CUDA_KEY = 128, RENGA_CUDA_BUS = 32 };
typedef struct {
  int (*find)(size_t size, char text[]); /* text: its version */
  int (*bus)(char text[RENGA_CUDA_BUS]); /* where the GPU of this process is plugged in */
  int (*makekey)(char key[RENGA_CUDA_KEY]);
  /* Waits for all ranks; narrow: it shall leave the GPU to kernels. */
  int (*open)(const char key[RENGA_CUDA_KEY], int ranks, int rank, int narrow, void **wire);
  int (*begin)(void);
  int (*end)(void);
  int (*send)(void *wire, void *stream, const void *from, size_t bytes, int to);
  int (*receive)(void *wire, void *stream, void *to, size_t bytes, int from);
  int (*sum)(void *wire, void *stream, RengaCudaType type, int64_t count, void *values);
  int (*sumdoubles)(void *wire, void *stream, int64_t count, double *values);
  int (*check)(void *wire);            /* an error that it met since */
  int (*close)(void *wire, int abort); /* abort: its work ends, done or not */
} RengaCudaNccl;

/* cuDNN, which the module opens when it is asked for. A plan computes one task, again and again, on
   any stream, recorded or not. */
typedef struct {
  size_t bytes;                          /* of a plan, of the host's */
  int (*find)(size_t size, char text[]); /* text: its version; after a device was opened */
  /* The first of cuDNN's engines whose results depend on the inputs alone, round no more than the
     types say, and that needs no more than so many bytes; an error where it has none. */
  int (*create)(const RengaCudnnTask *task, size_t most, RengaCudnnChoice *choice, void *plan);
  int (*run)(void *stream, void *plan, void *const operand[RENGA_CUDNN_OPERANDS], void *workspace);
  int (*destroy)(void *plan);
} RengaCudaCudnn;

typedef struct {
  int version;
  size_t product_bytes; /* of a plan */
  const char *(*error)(void);
  int (*count)(int *devices);
  int (*open)(int device, size_t size, char text[]); /* text: what it is */
  int (*memory)(size_t *bytes);                      /* that are free */
  int (*tell)(RengaCudaFact fact);
  int (*reserve)(size_t bytes, void **pointer);
  int (*release)(void *pointer);
  int (*hostreserve)(size_t bytes, void **pointer);
  int (*hostrelease)(void *pointer);
  int (*copy)(void *stream, RengaCudaCopy kind, void *to, const void *from, size_t bytes);
  int (*set)(void *stream, void *to, int byte, size_t bytes);
  int (*streamcreate)(int ahead, void **stream); /* ahead: its kernels go before others */
  int (*streamsynchronize)(void *stream);
  int (*streamdestroy)(void *stream);
  int (*eventcreate)(void **event);
  int (*eventrecord)(void *event, void *stream);
  int (*eventwait)(void *event, void *stream);
  int (*eventsynchronize)(void *event);
  int (*eventquery)(void *event, int *done);
  int (*eventdestroy)(void *event);
  int (*eventcreatetimed)(void **event);
  /* done: both were reached. */
  int (*eventseconds)(void *from, void *to, int *done, double *seconds);
  /* What is queued on the stream between the two calls is a graph, and does not run; replay queues
     all of it. */
  int (*recordbegin)(void *stream);
  int (*recordend)(void *stream, void **recording);
  int (*replay)(void *recording, void *stream);
  int (*recordingdestroy)(void *recording);
  /* place: of the device */
  int (*setmoment)(void *stream, const RengaCudaMoment *moment, RengaCudaMoment *place);
  /* y = x, floats */
  int (*convert)(void *stream, int64_t count, RengaCudaOperand x, RengaCudaOperand y);
  int (*round)(void *stream, const RengaCudaRounding *rounding);
  /* y += x */
  int (*add)(void *stream, int64_t count, float *y, const float *x);
  /* parts: of the device, a number for each piece, of which there is one at least */
  int (*norms)(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces, double *parts);
  /* The values of this rank; fault: found, it has failed. */
  int (*gateshare)(void *stream, const RengaGate *gate, const RengaCudaFault *fault);
  /* place: of the device */
  int (*gate)(void *stream, const RengaGate *gate, RengaGateFound *place);
  /* gate: of the device; NULL: they go */
  int (*sgd)(void *stream, const RengaGateFound *gate, int count, const RengaCudaSgd rows[]);
  int (*adam)(void *stream, const RengaGateFound *gate, int count, const RengaCudaAdam rows[]);
  RengaCudaElementwise each;
  RengaCudaFamilies run;
  /* plan: product_bytes of the host's, 64-byte aligned; made once per shape. workspace: as many
     bytes of the device's memory in each call, and no two calls at the same time. */
  int (*productcreate)(const RengaCudaProduct *product, size_t workspace_bytes, void *plan);
  int (*productrun)(void *stream, void *plan, const void *a, const void *b, const void *bias,
                    void *c, void *workspace);
  int (*productdestroy)(void *plan);
  RengaCudaNccl nccl;
  RengaCudaCudnn cudnn;
} RengaCudaModule;

/* The one function that the module exports. */
typedef const RengaCudaModule *(*RengaCudaOpen)(void);
#define RENGA_CUDA_OPEN "RengaCudaGetModule"

#ifdef __cplusplus
}
#endif
