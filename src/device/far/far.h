/* What the files of the far device share: queues of work that nobody has waited for yet. */
#pragma once
#include "renga/private/closed.h"
#include "renga/private/device.h"

/* One piece of work; what it needs to know stands right behind it, and is the queue's own. */
typedef RengaErrorCode (*FarFunction)(RengaDevice device, void *argument);
typedef struct FarItem {
  struct FarItem *next;
  const char *what;
  FarFunction run;     /* NULL: it only waits */
  RengaStream awaited; /* for `place` of this stream, */
  int64_t place;       /* before it and all behind it may run */
  _Alignas(64) char argument[];
} FarItem;

struct _RengaStream {
  RengaDevice device;
  RengaStream next; /* of the device */
  FarItem *first, *last;
  int64_t queued, done; /* pieces of work so far */
  bool destroyed;       /* and waits for its next use; events may still name it */
};

/* A place in a stream: what was queued before it. */
struct _RengaEvent {
  RengaDevice device;
  RengaStream stream; /* NULL: not recorded yet */
  int64_t place;
  bool timed;  /* it is a piece of work itself, which notes the time */
  double time; /* MPI_Wtime; 0: not yet */
};

typedef struct {
  int64_t seed;
  char *kernels;
} FarOptions;

typedef struct {
  FarOptions options;
  char kernels[48];            /* which compute: see the device's own member */
  struct _p_RengaDevice inner; /* of type cpu: computes, on memory that is open meanwhile */
  RengaClosedSpace space;
  RengaStream streams, favourite; /* all of them; the one that is preferred at the moment */
  RengaStream compute;            /* what NULL stands for */
  char *memory;                   /* [FAR_QUEUE_BYTES] of items */
  size_t used;
  uint64_t random;
  RengaErrorCode code; /* of the first work that failed, until somebody waits */
  int64_t copies;      /* number of the last one that was queued */
  int64_t idle;        /* waits that left nothing to do */
} FarDevice;

enum { FAR_QUEUE_BYTES = 1 << 21 };

/* queue.c */
RengaErrorCode RengaFarBegin_Private(RengaDevice device);
RengaErrorCode RengaFarEnd_Private(RengaDevice device);
/* Appends work to a stream; the caller fills argument before anything else is called. */
RengaErrorCode RengaFarQueue_Private(RengaDevice device, RengaStream stream, const char *what,
                                     FarFunction run, size_t bytes, void *pointer_to_argument);
RengaErrorCode RengaFarOpen_Private(RengaDevice device, const void *at, size_t bytes);
RengaErrorCode RengaFarWaitAll_Private(RengaDevice device);
void RengaFarSetQueue_Private(RengaDevice device); /* streams and events of the table */
/* work.c */
void RengaFarSetWork_Private(RengaDevice device); /* memory and copies of the table */
RengaErrorCode RengaFarCheckRange_Private(RengaDevice device, const void *at, size_t bytes,
                                          const char *what);
/* vector.c */
void RengaFarSetVectors_Private(RengaDevice device);
/* kernel.c */
extern const RengaKernelRow RengaFarKernelRow;
