/* Streams: queues of work on a device. Events: places in them. */
#include "renga/private/device.h"

/*@
   RengaStreamCreate - a queue of work

   Not collective

   Input:
   . device - the device, set up

   Output:
   . stream - RengaStreamDestroy frees it

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.

   See also: RengaStreamSynchronize(), RengaStreamDestroy()
@*/
RengaErrorCode RengaStreamCreate(RengaDevice device, RengaStream *stream)
{
  RengaCheckPointer(device);
  RengaCheckPointer(stream);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  RengaCall(device->ops->streamcreate(device, stream));
  return RENGA_SUCCESS;
}

/*@
   RengaStreamSynchronize - wait until all work of a stream is done

   Not collective

   Input:
   . device - the device
   . stream - NULL: the default stream

   Errors: those of work that ran meanwhile, which a device may find late.

   See also: RengaStreamCreate(), RengaEventSynchronize()
@*/
RengaErrorCode RengaStreamSynchronize(RengaDevice device, RengaStream stream)
{
  RengaCheckPointer(device);
  RengaCall(device->ops->streamsynchronize(device, stream));
  return RENGA_SUCCESS;
}

/*@
   RengaStreamDestroy - free a stream whose work is done

   Not collective

   Input:
   . device - the device
   . stream - set to NULL

   Errors: none beyond bad arguments.

   See also: RengaStreamCreate()
@*/
RengaErrorCode RengaStreamDestroy(RengaDevice device, RengaStream *stream)
{
  RengaCheckPointer(device);
  RengaCheckPointer(stream);
  if (*stream) RengaCall(device->ops->streamdestroy(device, stream));
  return RENGA_SUCCESS;
}

/*@
   RengaEventCreate - a place in a stream, to wait for

   Not collective

   Input:
   . device - the device, set up

   Output:
   . event - RengaEventDestroy frees it; done until it is recorded

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.

   See also: RengaEventRecord(), RengaEventWait(), RengaEventDestroy()
@*/
RengaErrorCode RengaEventCreate(RengaDevice device, RengaEvent *event)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  RengaCall(device->ops->eventcreate(device, event));
  return RENGA_SUCCESS;
}

/*@
   RengaEventRecord - put the event behind all work that is in the stream now

   Not collective

   Input:
   . device - the device
   . event - the event
   . stream - NULL: the default stream

   Errors: none beyond bad arguments.

   See also: RengaEventWait(), RengaEventQuery()
@*/
RengaErrorCode RengaEventRecord(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  RengaCall(device->ops->eventrecord(device, event, stream));
  return RENGA_SUCCESS;
}

/*@
   RengaEventWait - work queued on the stream from now on waits for the event

   Not collective

   Input:
   . device - the device
   . event - the event
   . stream - NULL: the default stream

   Errors: none beyond bad arguments.

   See also: RengaEventRecord(), RengaEventSynchronize()
@*/
RengaErrorCode RengaEventWait(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  RengaCall(device->ops->eventwait(device, event, stream));
  return RENGA_SUCCESS;
}

/*@
   RengaEventSynchronize - wait until all work before the event is done

   Not collective

   Input:
   . device - the device
   . event - the event; one that was never recorded is done

   Errors: those of work that ran meanwhile.

   See also: RengaEventQuery(), RengaStreamSynchronize()
@*/
RengaErrorCode RengaEventSynchronize(RengaDevice device, RengaEvent event)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  RengaCall(device->ops->eventsynchronize(device, event));
  return RENGA_SUCCESS;
}

/*@
   RengaEventQuery - is all work before the event done?

   Not collective

   Input:
   . device - the device
   . event - the event

   Output:
   . done - set without waiting

   Errors: none beyond bad arguments.

   See also: RengaEventSynchronize()
@*/
RengaErrorCode RengaEventQuery(RengaDevice device, RengaEvent event, bool *done)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  RengaCheckPointer(done);
  RengaCall(device->ops->eventquery(device, event, done));
  return RENGA_SUCCESS;
}

/*@
   RengaEventDestroy - free an event

   Not collective

   Input:
   . device - the device
   . event - set to NULL

   Errors: none beyond bad arguments.

   See also: RengaEventCreate()
@*/
RengaErrorCode RengaEventDestroy(RengaDevice device, RengaEvent *event)
{
  RengaCheckPointer(device);
  RengaCheckPointer(event);
  if (*event) RengaCall(device->ops->eventdestroy(device, event));
  return RENGA_SUCCESS;
}

const RengaFabric *RengaDeviceGetFabric_Private(RengaDevice device)
{
  return device->ops->fabric;
}
