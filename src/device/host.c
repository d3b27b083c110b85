/* What devices share whose memory is the host's: all work is done when a call returns, so streams
   and events have nothing to remember. */
#include "renga/private/device.h"
#include "renga/private/limit.h"
#include <string.h>
#include <sys/mman.h>

struct _RengaStream {
  RengaDevice device;
};
struct _RengaEvent {
  RengaDevice device;
};

/* Large blocks lie in pages of 2 MiB where the system gives these to who asks: a pass over several
   vectors then misses few entries of the TLB. Where it refuses all is as well, but slower. */
static void AskForHugePages(char *data, size_t bytes)
{
#ifdef MADV_HUGEPAGE
  enum { HUGE_PAGE = 2 << 20 };
  const uintptr_t at = (uintptr_t)data, first = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  const uintptr_t last = (at + bytes) / HUGE_PAGE * HUGE_PAGE;
  if (first < last) madvise(data + (first - at), last - first, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

static RengaErrorCode Malloc_Host(RengaDevice device, size_t bytes, void **pointer)
{
  (void)device;
  char *made = NULL;
  RengaCall(RengaMalloc(bytes, &made));
  AskForHugePages(made, bytes);
  *pointer = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode Free_Host(RengaDevice device, size_t bytes, void **pointer)
{
  (void)device;
  (void)bytes;
  RengaFree(pointer);
  return RENGA_SUCCESS;
}

static RengaErrorCode Capacity_Host(RengaDevice device, size_t *bytes)
{
  (void)device;
  *bytes = RengaHostMemory_Private();
  return RENGA_SUCCESS;
}

static RengaErrorCode Copy_Host(RengaDevice device, RengaStream stream, RengaCopyKind kind,
                                void *to, const void *from, size_t bytes)
{
  (void)device;
  (void)stream;
  (void)kind;
  memcpy(to, from, bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetBytes_Host(RengaDevice device, RengaStream stream, void *to, int byte,
                                    size_t bytes)
{
  (void)device;
  (void)stream;
  memset(to, byte, bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamCreate_Host(RengaDevice device, RengaStream *stream)
{
  RengaStream made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->device = device;
  *stream = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamSynchronize_Host(RengaDevice device, RengaStream stream)
{
  RengaCheck(!stream || stream->device == device, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the stream belongs to another device");
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamDestroy_Host(RengaDevice device, RengaStream *stream)
{
  RengaCall(StreamSynchronize_Host(device, *stream));
  RengaFree(stream);
  return RENGA_SUCCESS;
}

static RengaErrorCode EventCreate_Host(RengaDevice device, RengaEvent *event)
{
  RengaEvent made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->device = device;
  *event = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventPass_Host(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCheck(event->device == device, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the event belongs to another device");
  RengaCall(StreamSynchronize_Host(device, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSynchronize_Host(RengaDevice device, RengaEvent event)
{
  RengaCall(EventPass_Host(device, event, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventQuery_Host(RengaDevice device, RengaEvent event, bool *done)
{
  RengaCall(EventPass_Host(device, event, NULL));
  *done = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventDestroy_Host(RengaDevice device, RengaEvent *event)
{
  RengaCall(EventPass_Host(device, *event, NULL));
  RengaFree(event);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceSetHost_Private(RengaDevice device)
{
  device->host = true;
  device->ops->malloc = Malloc_Host;
  device->ops->free = Free_Host;
  device->ops->capacity = Capacity_Host;
  device->ops->copy = Copy_Host;
  device->ops->setbytes = SetBytes_Host;
  device->ops->streamcreate = StreamCreate_Host;
  device->ops->streamsynchronize = StreamSynchronize_Host;
  device->ops->streamdestroy = StreamDestroy_Host;
  device->ops->eventcreate = EventCreate_Host;
  device->ops->eventrecord = EventPass_Host;
  device->ops->eventwait = EventPass_Host;
  device->ops->eventsynchronize = EventSynchronize_Host;
  device->ops->eventquery = EventQuery_Host;
  device->ops->eventdestroy = EventDestroy_Host;
  return RENGA_SUCCESS;
}
