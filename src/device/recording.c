/* Recordings (recording.h): the device type's, where it has them. */
#include "renga/private/recording.h"
#include "renga/private/device.h"

bool RengaDeviceRecords_Private(RengaDevice device)
{
  return device->records;
}

bool RengaKernelCanBeRecorded_Private(RengaKernel kernel)
{
  for (; kernel; kernel = kernel->wide)
    if (kernel->waits) return false;
  return true;
}

RengaErrorCode RengaRecordingBegin_Private(RengaDevice device)
{
  RengaCheck(device->records, MPI_COMM_SELF, RENGA_ERR_SUPPORT, "device %s records nothing",
             device->hdr.type_name);
  RengaCall(device->ops->recordbegin(device));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaRecordingEnd_Private(RengaDevice device, RengaRecording *recording)
{
  RengaCall(device->ops->recordend(device, recording));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaRecordingReplay_Private(RengaDevice device, RengaRecording recording,
                                            const RengaKernelContext *context)
{
  RengaCall(device->ops->replay(device, recording, context));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaRecordingDestroy_Private(RengaDevice device, RengaRecording *recording)
{
  if (*recording) RengaCall(device->ops->recordingdestroy(device, recording));
  return RENGA_SUCCESS;
}
