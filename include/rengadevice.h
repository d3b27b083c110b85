/* Devices: memory, streams, events, kernels by operator, and updates of flat vectors. */
#pragma once
#include "rengaop.h"

RENGA_BEGIN_DECLS

/* What computes for a rank: its memory, its streams and its kernels. */
typedef struct _p_RengaDevice *RengaDevice;
/* A queue of a device's work, which is done in the order in which it was put there. */
typedef struct _RengaStream *RengaStream;
/* A place in a stream that another stream or the program may wait for. */
typedef struct _RengaEvent *RengaEvent;
/* One operator made ready for fixed shapes on a device. */
typedef struct _RengaKernel *RengaKernel;
/* Types of devices, for RengaDeviceSetType and -device_type. */
#define RENGA_DEVICE_REF "ref"   /* plain loops, which the other types are compared with */
#define RENGA_DEVICE_CPU "cpu"   /* the cores of this rank, with vector instructions */
#define RENGA_DEVICE_CUDA "cuda" /* a GPU of NVIDIA */
#define RENGA_DEVICE_FAR "far"   /* for tests: memory and time of its own */

RengaErrorCode RengaDeviceCreate(RengaComm comm, RengaDevice *device);
RengaErrorCode RengaDeviceSetType(RengaDevice device, const char *type);
RengaErrorCode RengaDeviceGetType(RengaDevice device, const char **type);
RengaErrorCode RengaDeviceSetThreads(RengaDevice device, int threads); /* 0: cores of this rank */
RengaErrorCode RengaDeviceSetPoison(RengaDevice device, bool poison);
bool RengaDeviceGetPoison(RengaDevice device);
RengaErrorCode RengaDeviceGetThreads(RengaDevice device, int *threads);
RengaErrorCode RengaDeviceSetFromOptions(RengaDevice device);
RengaErrorCode RengaDeviceSetUp(RengaDevice device);
RengaErrorCode RengaDeviceGetKernels(RengaDevice device, const char **text);
RengaErrorCode RengaDeviceDescribe(RengaDevice device, size_t size, char text[]);
RengaErrorCode RengaDeviceView(RengaDevice device, RengaViewer viewer);
RengaErrorCode RengaDeviceDestroy(RengaDevice *device);

/* Memory of the device. A host pointer may be used on it only where RengaDeviceIsHost is true. */
bool RengaDeviceIsHost(RengaDevice device);
RengaErrorCode RengaDeviceGetMemory(RengaDevice device, size_t *capacity, size_t *used,
                                    size_t *peak);
/* From where to where a rule of a device copies. */
typedef enum { RENGA_HOST_TO_DEVICE, RENGA_DEVICE_TO_HOST, RENGA_DEVICE_TO_DEVICE } RengaCopyKind;

/* What a kernel may know of the run: enough to draw the same random numbers on any layout. */
typedef struct {
  uint64_t seed;   /* of the run */
  int64_t step;    /* number of the step, from 0 */
  int64_t sample;  /* number of the micro-batch's first sample in the step's global batch */
  int64_t samples; /* in this micro-batch */
  bool training;   /* false: Dropout is the identity, BatchNormalization uses running statistics */
} RengaKernelContext;
/* What computes an operator from outside, on devices whose memory is the host's. call: concrete
   shapes; in, out: one pointer for each. It may allocate nothing that it keeps, and its result may
   depend on nothing but these. */
typedef struct {
  const char *op; /* name of the operator */
  /* Fills the outputs of one call. */
  RengaErrorCode (*run)(const RengaOpCall *call, const RengaKernelContext *context,
                        const void *const in[], void *const out[], void *user);
  void *user; /* handed to run */
} RengaKernelRule;
/* A type of device from outside: its memory, and as much as it has of the rest. Work that is queued
   later than its call returns needs all nine functions of streams and events; stream NULL is the
   default one. struct _RengaStream and struct _RengaEvent are then the program's own. */
typedef struct {
  const char *name; /* of the type, as -device_type takes it */
  bool host;        /* the host may use its pointers */
  RengaErrorCode (*malloc)(size_t bytes, void **pointer, void *user); /* 64-byte aligned */
  RengaErrorCode (*free)(size_t bytes, void **pointer, void *user);   /* as many as malloc gave */
  /* bytes from one place to another: to and from are of the device or the host, as kind says. */
  RengaErrorCode (*copy)(RengaStream stream, RengaCopyKind kind, void *to, const void *from,
                         size_t bytes, void *user);
  /* Each of the bytes becomes byte; they are the device's. */
  RengaErrorCode (*setbytes)(RengaStream stream, void *to, int byte, size_t bytes, void *user);
  RengaErrorCode (*streamcreate)(RengaStream *stream, void *user);     /* a queue, empty */
  RengaErrorCode (*streamsynchronize)(RengaStream stream, void *user); /* returns when it is */
  RengaErrorCode (*streamdestroy)(RengaStream *stream, void *user);    /* an empty one */
  RengaErrorCode (*eventcreate)(RengaEvent *event, void *user);        /* in no stream yet */
  /* Puts it behind the work that is in the stream now. */
  RengaErrorCode (*eventrecord)(RengaEvent event, RengaStream stream, void *user);
  /* Work put into the stream from now on is begun after the event; returns at once. */
  RengaErrorCode (*eventwait)(RengaEvent event, RengaStream stream, void *user);
  /* Returns when the work before the event is done. */
  RengaErrorCode (*eventsynchronize)(RengaEvent event, void *user);
  RengaErrorCode (*eventquery)(RengaEvent event, bool *done, void *user); /* is it? At once */
  RengaErrorCode (*eventdestroy)(RengaEvent *event, void *user);          /* nobody waits for it */
  /* Operators that it computes itself; both this and compute NULL: none. Each floating tensor of a
     call may have a type of its own. */
  bool (*knows)(const RengaOpCall *call, void *user);
  /* Computes such a call; in, out: a pointer for each tensor. The work may be queued. */
  RengaErrorCode (*compute)(RengaStream stream, const RengaOpCall *call,
                            const RengaKernelContext *context, const void *const in[],
                            void *const out[], void *user);
  void *user; /* handed to each of them */
} RengaDeviceRule;
RengaErrorCode RengaDeviceRegister(const RengaDeviceRule *rule);
RengaErrorCode RengaKernelRegister(const RengaKernelRule *rule);

/* Vectors in the device's memory: elements of one type, one after the other. All types but float32
   are refused, but for values beside parameters and conversions. Work is queued; tables are copied.
   A result depends neither on the number of threads nor on what else comes in the same call. */
typedef struct {
  void *data;         /* first element, in the device's memory */
  RengaDataType type; /* of the elements */
  int64_t count;      /* number of elements */
} RengaVector;
/* Rows of a table that have gradients: numbers and their count are the device's. */
typedef struct {
  int64_t width;        /* elements of a row; 0: all of the table is updated */
  const int64_t *index; /* [most] in ascending order, each once; *count of them are there */
  const int64_t *count; /* how many rows have gradients */
  int64_t most;         /* how many there may be at most */
  bool whole;           /* all others are updated, too, with gradients of 0; else they rest */
} RengaRows;
/* What is updated in one step: all vectors have as many elements, but for the gradient of rows,
   [most][width], row i of which is that of row index[i] of parameter and moments. */
#define RENGA_MOMENTS_MOST 8
typedef struct {
  RengaVector parameter, gradient, moment[RENGA_MOMENTS_MOST]; /* data NULL: there is none */
  RengaVector value; /* gets the new parameter, rounded to its type: bfloat16, float16 or float32;
                        data NULL: there is none */
  double rate_scale, weight_decay; /* of the learning rate; sgd and adam: L2 */
  RengaRows rows;                  /* width 0: the gradient is the whole parameter's */
} RengaParameterUpdate;

RENGA_END_DECLS
