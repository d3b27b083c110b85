/* Streams: queues of work on a device. Events: places in them. Where the device works while the
   host waits it may never end: the host asks until the time limit then, and says so. */
#include "renga/private/device.h"
#include "renga/private/wait.h"
#include <sched.h>

static const double SPIN_SECONDS = 5e-3; /* times are measured by waits */

static void NameDevice(const void *subject, size_t size, char text[])
{
  const struct _p_RengaDevice *device = subject;
  snprintf(text, size, " (of type %s: a kernel that hangs, or messages that nobody sends)",
           device->hdr.type_name);
}

static RengaErrorCode AwaitWithinLimit(RengaDevice device, RengaEvent event)
{
  RengaWait wait = {.comm = device->hdr.comm,
                    .what = "the device to end what is queued on it",
                    .describe = NameDevice,
                    .subject = device};
  const double begin = MPI_Wtime();
  for (;;) {
    bool done = false;
    RengaCall(device->ops->eventquery(device, event, &done));
    if (done) return RENGA_SUCCESS;
    if (MPI_Wtime() - begin < SPIN_SECONDS)
      sched_yield();
    else
      RengaCall(RengaWaitPause_Private(&wait, 0));
  }
}

/* Whoever destroys waits too, before a set-up that failed, or has to be made again. */
static RengaErrorCode AwaitStream(RengaDevice device, RengaStream stream)
{
  if (!device->reached) RengaCall(device->ops->eventcreate(device, &device->reached));
  RengaCall(device->ops->eventrecord(device, device->reached, stream));
  RengaCall(AwaitWithinLimit(device, device->reached));
  return RENGA_SUCCESS;
}

/* A queue of work. */
RengaErrorCode RengaStreamCreate(RengaDevice device, RengaStream *stream)
{
  RengaCheckPointers(device, stream);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  RengaCall(device->ops->streamcreate(device, stream));
  return RENGA_SUCCESS;
}

/* Wait until all work of a stream is done. stream: NULL: the default stream. */
RengaErrorCode RengaStreamSynchronize(RengaDevice device, RengaStream stream)
{
  RengaCheckPointer(device);
  if (device->alone) RengaCall(AwaitStream(device, stream));
  RengaCall(device->ops->streamsynchronize(device, stream));
  return RENGA_SUCCESS;
}

/* Free a stream whose work is done. stream: set to NULL. */
RengaErrorCode RengaStreamDestroy(RengaDevice device, RengaStream *stream)
{
  RengaCheckPointers(device, stream);
  if (*stream) RengaCall(device->ops->streamdestroy(device, stream));
  return RENGA_SUCCESS;
}

/* A place in a stream, to wait for. event: RengaEventDestroy frees it; done until it is recorded.
   */
RengaErrorCode RengaEventCreate(RengaDevice device, RengaEvent *event)
{
  RengaCheckPointers(device, event);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  RengaCall(device->ops->eventcreate(device, event));
  return RENGA_SUCCESS;
}

/* Put the event behind all work that is in the stream now. stream: NULL: the default stream. */
RengaErrorCode RengaEventRecord(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCheckPointers(device, event);
  RengaCall(device->ops->eventrecord(device, event, stream));
  return RENGA_SUCCESS;
}

/* Work queued on the stream from now on waits for the event. stream: NULL: the default stream. */
RengaErrorCode RengaEventWait(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCheckPointers(device, event);
  RengaCall(device->ops->eventwait(device, event, stream));
  return RENGA_SUCCESS;
}

/* Wait until all work before the event is done. event: the event; one that was never recorded is
   done. */
RengaErrorCode RengaEventSynchronize(RengaDevice device, RengaEvent event)
{
  RengaCheckPointers(device, event);
  if (device->alone) RengaCall(AwaitWithinLimit(device, event));
  RengaCall(device->ops->eventsynchronize(device, event));
  return RENGA_SUCCESS;
}

/* Is all work before the event done? */
RengaErrorCode RengaEventQuery(RengaDevice device, RengaEvent event, bool *done)
{
  RengaCheckPointers(device, event, done);
  RengaCall(device->ops->eventquery(device, event, done));
  return RENGA_SUCCESS;
}

/* Free an event. event: set to NULL. */
RengaErrorCode RengaEventDestroy(RengaDevice device, RengaEvent *event)
{
  RengaCheckPointers(device, event);
  if (*event) RengaCall(device->ops->eventdestroy(device, event));
  return RENGA_SUCCESS;
}

const RengaFabric *RengaDeviceGetFabric_Private(RengaDevice device)
{
  return device->ops->fabric;
}
