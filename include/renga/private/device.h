/* What the types of devices share: the object, the table of a type, and a kernel. */
#pragma once
#include "renga/private/fabric.h"
#include "renga/private/factors.h"
#include "renga/private/fp8.h"
#include "renga/private/kernel.h"
#include "renga/private/object.h"
#include "renga/private/recording.h"
#include "renga/private/rowsums.h"

typedef RengaErrorCode (*RengaKernelRunFunction)(RengaKernel kernel, RengaStream stream,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[],
                                                 void *workspace);

/* One operator of a device type. create looks at kernel->call and fills run, workspace, alias, data
   and destroy; it may leave run NULL, and the ref kernel is taken instead, or for a call with
   16-bit floats the kernel for float32 between conversions. Each floating tensor of a call may have
   a type of its own. */
typedef struct {
  const char *name; /* of the operator; NULL ends a table */
  RengaErrorCode (*create)(RengaKernel kernel);
} RengaKernelRow;

struct _RengaKernel {
  RengaDevice device;
  RengaOpCall call; /* a copy: attributes, in and out are the kernel's own */
  RengaKernelRunFunction run;
  RengaErrorCode (*destroy)(RengaKernel kernel); /* frees data; NULL: there is nothing to free */
  size_t workspace;                              /* bytes */
  uint64_t alias; /* bit 8 * output + input: output may be that input */
  bool fallback;
  bool waits;       /* for the stream, when it is queued: it computes on the host */
  RengaKernel wide; /* computes with converted copies, and is freed with this one; NULL: none */
  void *data;
};
#define RENGA_KERNEL_ALIAS(output, input) ((uint64_t)1 << (8 * (output) + (input)))

/* The type has kernels of its own for the operator. */
bool RengaDeviceHasKernel_Private(RengaDevice device, const char *op);

/* What a device whose memory is not the host's keeps for kernels that compute on the host. */
typedef struct {
  char *memory;
  size_t bytes;
  RengaEvent free; /* recorded behind the copies that read the memory last */
} RengaDeviceStaging;

/* A factor of a product, rounded to 8 bits as fp8.h says: y is bfloat16. */
enum { RENGA_ROUNDING_WORK = 64 };
typedef struct {
  RengaFp8 format;
  int64_t count;
  RengaDataType from; /* of x, a floating type */
  const void *x;
  uint16_t *y;
  void *work; /* RENGA_ROUNDING_WORK bytes */
} RengaRounding;

/* What a library chose for a kernel's task; 0: an own kernel. Equal choices, equal bits. */
typedef struct {
  uint64_t task, chosen;
} RengaDeviceChoice;
typedef struct { /* list: of what was tried, of all kernels; the caller frees it */
  RengaErrorCode (*list)(RengaDevice device, int *count, RengaDeviceChoice **choice);
  RengaErrorCode (*drop)(RengaDevice device, uint64_t task); /* an own kernel from now on */
  RengaErrorCode (*view)(RengaDevice device, RengaViewer viewer);
} RengaDeviceChoices;

struct _RengaDeviceOps {
  /* what the type keeps beside RengaDeviceOptions; may be NULL */
  RengaErrorCode (*setfromoptions)(RengaDevice device);
  RengaErrorCode (*duplicate)(RengaDevice device, RengaDevice copy);
  RengaErrorCode (*setup)(RengaDevice device);
  RengaErrorCode (*view)(RengaDevice device, RengaViewer viewer);
  RengaErrorCode (*describe)(RengaDevice device, size_t size, char text[]); /* may be NULL */
  RengaErrorCode (*destroy)(RengaDevice device);
  RengaErrorCode (*findkernel)(RengaDevice device, const char *name, const RengaKernelRow **row);
  RengaErrorCode (*malloc)(RengaDevice device, size_t bytes, void **pointer);
  RengaErrorCode (*free)(RengaDevice device, size_t bytes, void **pointer);
  /* Memory of the host that copies are fast from and to; NULL: any is */
  RengaErrorCode (*hostmalloc)(RengaDevice device, size_t bytes, void **pointer);
  RengaErrorCode (*hostfree)(RengaDevice device, void **pointer);
  RengaErrorCode (*capacity)(RengaDevice device, size_t *bytes);
  RengaErrorCode (*copy)(RengaDevice device, RengaStream stream, RengaCopyKind kind, void *to,
                         const void *from, size_t bytes);
  RengaErrorCode (*setbytes)(RengaDevice device, RengaStream stream, void *to, int byte,
                             size_t bytes);
  RengaErrorCode (*streamcreate)(RengaDevice device, RengaStream *stream);
  RengaErrorCode (*streamsynchronize)(RengaDevice device, RengaStream stream);
  RengaErrorCode (*streamdestroy)(RengaDevice device, RengaStream *stream);
  RengaErrorCode (*eventcreate)(RengaDevice device, RengaEvent *event);
  RengaErrorCode (*eventrecord)(RengaDevice device, RengaEvent event, RengaStream stream);
  RengaErrorCode (*eventwait)(RengaDevice device, RengaEvent event, RengaStream stream);
  RengaErrorCode (*eventsynchronize)(RengaDevice device, RengaEvent event);
  RengaErrorCode (*eventquery)(RengaDevice device, RengaEvent event, bool *done);
  RengaErrorCode (*eventdestroy)(RengaDevice device, RengaEvent *event);
  /* An event that keeps the device's time at which it was reached, and the time between two of
     them. done: both were reached since they were recorded last. NULL: work is done when a call
     returns, or the device says no times. */
  RengaErrorCode (*eventcreatetimed)(RengaDevice device, RengaEvent *event);
  RengaErrorCode (*eventseconds)(RengaDevice device, RengaEvent from, RengaEvent to, bool *done,
                                 double *seconds);
  /* One of the types is float32, the other one has 16 bits. */
  RengaErrorCode (*convert)(RengaDevice device, RengaStream stream, int64_t count,
                            RengaDataType from, const void *x, RengaDataType to, void *y);
  /* NULL: who makes the device's kernels rounds, or it has no such products. */
  RengaErrorCode (*round)(RengaDevice device, RengaStream stream, const RengaRounding *rounding);
  /* Vectors are float32, but for values beside the parameters. */
  RengaErrorCode (*add)(RengaDevice device, RengaStream stream, int64_t count, float y[],
                        const float x[]);
  RengaErrorCode (*sumsofsquares)(RengaDevice device, RengaStream stream, int count,
                                  const RengaVector x[], double squares[]);
  RengaErrorCode (*updatesgd)(RengaDevice device, RengaStream stream, const RengaSgdStep *step,
                              double scale, int count, const RengaParameterUpdate updates[]);
  RengaErrorCode (*updateadam)(RengaDevice device, RengaStream stream, const RengaAdamStep *step,
                               double scale, int count, const RengaParameterUpdate updates[]);
  /* As of RengaDeviceReserveGate and so on; NULL: the device has none. */
  RengaErrorCode (*gatereserve)(RengaDevice device, int64_t count, double **values);
  RengaErrorCode (*gateshare)(RengaDevice device, const RengaGate *gate);
  RengaErrorCode (*gate)(RengaDevice device, const RengaGate *gate);
  /* NULL: the device has no updates of rows */
  RengaErrorCode (*sumrows)(RengaDevice device, RengaStream stream, const RengaRowsTask *sum,
                            double *square);
  /* recording.h; NULL: none */
  RengaErrorCode (*recordbegin)(RengaDevice device);
  RengaErrorCode (*recordend)(RengaDevice device, RengaRecording *recording);
  RengaErrorCode (*replay)(RengaDevice device, RengaRecording recording,
                           const RengaKernelContext *context);
  RengaErrorCode (*recordingdestroy)(RengaDevice device, RengaRecording *recording);
  const RengaFabric *fabric; /* NULL: none */
};

typedef struct {
  void *pointer;
  size_t bytes;
} RengaDeviceBlock;

typedef struct {
  char *type, *isa, *view;
  int threads; /* 0: choose */
  bool poison;
} RengaDeviceOptions;

typedef struct _RengaDeviceSpans RengaDeviceSpans; /* span.h */

enum { RENGA_KERNELS_TEXT = 1024 };
struct _p_RengaDevice {
  RENGAHEADER(struct _RengaDeviceOps);
  RengaDeviceOptions options;
  int threads; /* in use, known after RengaDeviceSetUp */
  bool host;
  bool alone;          /* its work goes on, or hangs, while the host waits: waits have a limit */
  bool records;        /* recordings are made; known after RengaDeviceSetUp */
  unsigned precisions; /* as bits: those of factors that it rounds, tf32 and fp8 */
  unsigned last_in;    /* precisions in which stages have images [N,…,C], as bits; known after
                          RengaDeviceSetUp. Kernels take such calls, or leave them */
  bool eights;         /* its kernels round to 8 bits themselves, or leave such a product */
  const char *kernels; /* which of the type's sets of kernels compute: others make other bits; NULL:
                          it has one; known after RengaDeviceSetUp */
  char computed_by[RENGA_KERNELS_TEXT]; /* see RengaDeviceGetKernels */
  size_t used, peak;
  int n_blocks, size_blocks;
  RengaDeviceBlock *blocks; /* what is allocated on the device */
  RengaDeviceStaging staging;
  RengaEvent reached;                /* of a wait for a stream; NULL: there was none */
  RengaDeviceSpans *spans;           /* NULL: none was begun */
  const RengaDeviceChoices *choices; /* NULL: libraries choose nothing */
  void *data;                        /* of the type */
};

/* Cores of this rank: those its binding allows, each shared with the ranks of this node that may
   use it too. Collective on comm. */
RengaErrorCode RengaDeviceCountThreads(MPI_Comm comm, int *threads);

/* -device_view once more, with what libraries have chosen. Collective. */
RengaErrorCode RengaDeviceShowChoices_Private(RengaDevice device);
/* The set of kernels that computes, "" where the type has one: the same set and libraries, the same
   bits. Lent. */
const char *RengaDeviceGetKernelSet_Private(RengaDevice device);
/* Of two texts of RengaDeviceGetKernels: what they have between equal first and last parts. */
typedef struct {
  const char *text[2];
  int length[2];
} RengaKernelsDifference;
RengaKernelsDifference RengaDeviceFindDifference_Private(const char *one, const char *other);

/* Signals of this thread wait between these two, which nest; RengaKernelRun does both, and who runs
   many kernels does it once around them. */
void RengaDeviceHoldSignals_Private(void);
void RengaDeviceReleaseSignals_Private(void);
void RengaDeviceRefuseSignals_Private(void); /* for ever: a thread of a team */

/* Devices whose memory is the host's: fills memory, copies, streams and events of the table. */
RengaErrorCode RengaDeviceSetHost_Private(RengaDevice device);
RengaErrorCode RengaDeviceCreate_Ref(void *device);
RengaErrorCode RengaDeviceCreate_Cpu(void *device);
RengaErrorCode RengaDeviceCreate_Far(void *device);
int64_t RengaFarGetIdle_Private(RengaDevice device);
RengaErrorCode RengaDeviceCreate_Cuda(void *device);
/* Options that one type has; to a device of another type they are an error. */
typedef struct {
  const char *type;
  int count;
  const RengaOptionRow *row; /* [count] */
} RengaDeviceTypeOptions;
extern const RengaDeviceTypeOptions RengaDeviceOptions_Far, RengaDeviceOptions_Cuda;
/* Has a call a tensor of 16-bit floats? */
static inline bool RengaDeviceIsLow(RengaDataType type)
{
  return type == RENGA_BFLOAT16 || type == RENGA_FLOAT16;
}
bool RengaOpCallIsLow_Private(const RengaOpCall *call);
/* Does the device compute in a precision? Plans may be of any; who runs one asks. */
RengaErrorCode RengaDeviceCheckPrecision_Private(RengaDevice device, RengaPrecision precision);
/* Inputs and outputs of a call, with float32 in place of 16-bit floats. */
void RengaOpCallWiden_Private(const RengaOpCall *call, RengaTensorSpec in[], RengaTensorSpec out[]);
/* The kernel's own wide one, between conversions. */
RengaErrorCode RengaKernelWiden_Private(RengaKernel kernel);
/* A product whose factors are rounded to 8 bits: inputs and attributes of that of rounded copies,
   to be freed, after an error too; and a kernel that makes copies for its own wide one. */
RengaErrorCode RengaOpCallOfRounded_Private(const RengaOpCall *call, RengaTensorSpec in[],
                                            RengaAttributes *attributes);
RengaErrorCode RengaKernelRound_Private(RengaKernel kernel);
/* What the two inputs of the call are rounded to. */
void RengaOpCallFormats_Private(const RengaOpCall *call, RengaFp8 format[2]);
/* A kernel that computes on the host: its inputs are copied there, its outputs back. */
RengaErrorCode RengaKernelStage_Private(RengaKernel kernel);
RengaErrorCode RengaDeviceNeedStaging_Private(RengaDevice device, size_t bytes);
RengaErrorCode RengaDeviceFreeStaging_Private(RengaDevice device);
RengaErrorCode RengaDeviceFreeSpans_Private(RengaDevice device);
/* Vectors by the formulas of the ref device, on the host. */
RengaErrorCode RengaDeviceSetStagedVectors_Private(RengaDevice device);
/* A type from outside. */
RengaErrorCode RengaDeviceCheckRule_Private(const RengaDeviceRule *rule);
RengaErrorCode RengaDeviceAdopt_Private(void *device, const void *rule);
/* The ref kernel of an operator; row NULL where there is none. */
RengaErrorCode RengaKernelCreate_Ref(RengaKernel kernel, bool *found);

/* factors.c */
RengaSgdFactors RengaSgdFactorsOf_Private(const RengaSgdStep *step, double scale,
                                          const RengaParameterUpdate *update);
RengaAdamFactors RengaAdamFactorsOf_Private(const RengaAdamStep *step, double scale,
                                            const RengaParameterUpdate *update);
