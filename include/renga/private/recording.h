/* Recordings: kernels, copies and fills as one piece of work of a device, which a single call
   queues on the default stream. It has the addresses of its recording, which must stay what they
   were until it is destroyed; of a kernel's context only step and sample may be others. */
#pragma once
#include "rengadevice.h"

typedef struct _RengaRecording *RengaRecording;

bool RengaDeviceRecords_Private(RengaDevice device); /* may change to false, for ever */
/* Some kernels wait for the stream while they are queued, those that compute on the host. */
bool RengaKernelCanBeRecorded_Private(RengaKernel kernel);
/* What is queued on stream NULL between the two calls is recorded, and does not run. Nothing else
   may be asked of the device meanwhile. After an error of the first one, or of what is queued, the
   second one comes, too. recording NULL: the device could not, for which others may have failed,
   and records nothing more. */
RengaErrorCode RengaRecordingBegin_Private(RengaDevice device);
RengaErrorCode RengaRecordingEnd_Private(RengaDevice device, RengaRecording *recording);
RengaErrorCode RengaRecordingReplay_Private(RengaDevice device, RengaRecording recording,
                                            const RengaKernelContext *context);
/* All its work is done. */
RengaErrorCode RengaRecordingDestroy_Private(RengaDevice device, RengaRecording *recording);
