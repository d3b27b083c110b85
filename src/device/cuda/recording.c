/* Recordings of the cuda device are CUDA graphs of the default stream. A graph keeps the arguments
   of its kernels: what differs from one replay to the next, step and sample, kernels that draw
   random numbers take from the device's memory, which is written just before each replay. */
#include "cuda.h"

void RengaCudaRefuseToRecord_Private(CudaDevice *cuda)
{
  if (!cuda->refusal[0]) snprintf(cuda->refusal, sizeof cuda->refusal, "%s", cuda->module->error());
}

static RengaErrorCode RecordBegin_Cuda(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  cuda->records = true;
  cuda->refusal[0] = '\0';
  RengaCall(RengaCudaTakeWorkspace_Private(device, cuda->compute));
  RENGA_CALL_CUDA(device, module_->recordbegin(cuda->compute));
  return RENGA_SUCCESS;
}

/* The run goes on without graphs, unless the GPU answers no more. */
static RengaErrorCode RecordNoMore(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  size_t bytes;
  RENGA_CALL_CUDA(device, module_->memory(&bytes));
  RengaWarning(MPI_COMM_SELF, "GPU %d records no graphs, and runs without (-device_graphs off): %s",
               cuda->number, cuda->refusal);
  device->records = false;
  return RENGA_SUCCESS;
}

/* CUDA refuses when the graph is made, or sooner: at the call that it cannot record. */
static RengaErrorCode RecordEnd_Cuda(RengaDevice device, RengaRecording *recording)
{
  CudaDevice *cuda = device->data;
  void *made = NULL;
  *recording = NULL;
  if (cuda->module->recordend(cuda->compute, &made)) RengaCudaRefuseToRecord_Private(cuda);
  cuda->records = false;
  if (cuda->refusal[0]) {
    if (made) RENGA_CALL_CUDA(device, module_->recordingdestroy(made));
    RengaCall(RecordNoMore(device));
    return RENGA_SUCCESS;
  }
  *recording = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode Replay_Cuda(RengaDevice device, RengaRecording recording,
                                  const RengaKernelContext *context)
{
  CudaDevice *cuda = device->data;
  const RengaCudaMoment now = {context->step, context->sample};
  RengaCall(RengaCudaTakeWorkspace_Private(device, cuda->compute));
  RENGA_CALL_CUDA(device, module_->setmoment(cuda->compute, &now, cuda->moment));
  RENGA_CALL_CUDA(device, module_->replay(recording, cuda->compute));
  return RENGA_SUCCESS;
}

static RengaErrorCode RecordingDestroy_Cuda(RengaDevice device, RengaRecording *recording)
{
  void *gone = *recording;
  *recording = NULL;
  RENGA_CALL_CUDA(device, module_->recordingdestroy(gone));
  return RENGA_SUCCESS;
}

void RengaCudaSetRecordings_Private(RengaDevice device)
{
  device->ops->recordbegin = RecordBegin_Cuda;
  device->ops->recordend = RecordEnd_Cuda;
  device->ops->replay = Replay_Cuda;
  device->ops->recordingdestroy = RecordingDestroy_Cuda;
}
