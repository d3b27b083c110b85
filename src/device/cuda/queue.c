/* Memory, copies, streams and events of the cuda device: the module's. A RengaStream and a
   RengaEvent are CUDA's own. */
#include "cuda.h"

static RengaErrorCode Malloc_Cuda(RengaDevice device, size_t bytes, void **pointer)
{
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  RengaCheck(module->reserve(bytes, pointer) == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the GPU has no %zu bytes more: %s", bytes, module->error());
  return RENGA_SUCCESS;
}

static RengaErrorCode Free_Cuda(RengaDevice device, size_t bytes, void **pointer)
{
  (void)bytes;
  RENGA_CALL_CUDA(device, module_->release(*pointer));
  *pointer = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode HostMalloc_Cuda(RengaDevice device, size_t bytes, void **pointer)
{
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  RengaCheck(module->hostreserve(bytes, pointer) == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "no %zu bytes of pinned memory: %s", bytes, module->error());
  return RENGA_SUCCESS;
}

static RengaErrorCode HostFree_Cuda(RengaDevice device, void **pointer)
{
  RENGA_CALL_CUDA(device, module_->hostrelease(*pointer));
  *pointer = NULL;
  return RENGA_SUCCESS;
}

/* What is left beside the workspace of products. */
static RengaErrorCode Capacity_Cuda(RengaDevice device, size_t *bytes)
{
  const size_t workspace = RengaCudaWorkspace_Private(device);
  RENGA_CALL_CUDA(device, module_->memory(bytes));
  *bytes = *bytes > workspace ? *bytes - workspace : 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode Copy_Cuda(RengaDevice device, RengaStream stream, RengaCopyKind kind,
                                void *to, const void *from, size_t bytes)
{
  RengaCudaCopy way = RENGA_CUDA_WITHIN;
  if (kind == RENGA_HOST_TO_DEVICE) way = RENGA_CUDA_UP;
  if (kind == RENGA_DEVICE_TO_HOST) way = RENGA_CUDA_DOWN;
  RENGA_CALL_CUDA(device,
                  module_->copy(RengaCudaStream_Private(device, stream), way, to, from, bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetBytes_Cuda(RengaDevice device, RengaStream stream, void *to, int byte,
                                    size_t bytes)
{
  RENGA_CALL_CUDA(device, module_->set(RengaCudaStream_Private(device, stream), to, byte, bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamCreate_Cuda(RengaDevice device, RengaStream *stream)
{
  void *made = NULL;
  RENGA_CALL_CUDA(device, module_->streamcreate(&made));
  *stream = made;
  return RENGA_SUCCESS;
}

/* What a kernel found wrong on the way, once. */
static RengaErrorCode TellFault_Cuda(RengaDevice device)
{
  RengaCudaFault *fault = RengaCudaOf_Private(device)->fault;
  if (!fault->found) return RENGA_SUCCESS;
  const RengaCudaFault said = *fault;
  fault->found = 0;
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%s %lld at position %lld is outside [0, %lld)",
             said.what, (long long)said.value, (long long)said.place, (long long)said.high);
}

static RengaErrorCode StreamSynchronize_Cuda(RengaDevice device, RengaStream stream)
{
  RENGA_CALL_CUDA(device, module_->streamsynchronize(RengaCudaStream_Private(device, stream)));
  RengaCall(TellFault_Cuda(device));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamDestroy_Cuda(RengaDevice device, RengaStream *stream)
{
  RENGA_CALL_CUDA(device, module_->streamdestroy(*stream));
  *stream = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventCreate_Cuda(RengaDevice device, RengaEvent *event)
{
  void *made = NULL;
  RENGA_CALL_CUDA(device, module_->eventcreate(&made));
  *event = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventRecord_Cuda(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RENGA_CALL_CUDA(device, module_->eventrecord(event, RengaCudaStream_Private(device, stream)));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventWait_Cuda(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RENGA_CALL_CUDA(device, module_->eventwait(event, RengaCudaStream_Private(device, stream)));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSynchronize_Cuda(RengaDevice device, RengaEvent event)
{
  RENGA_CALL_CUDA(device, module_->eventsynchronize(event));
  RengaCall(TellFault_Cuda(device));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventQuery_Cuda(RengaDevice device, RengaEvent event, bool *done)
{
  int is_done = 0;
  RENGA_CALL_CUDA(device, module_->eventquery(event, &is_done));
  *done = is_done;
  if (is_done) RengaCall(TellFault_Cuda(device));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventDestroy_Cuda(RengaDevice device, RengaEvent *event)
{
  RENGA_CALL_CUDA(device, module_->eventdestroy(*event));
  *event = NULL;
  return RENGA_SUCCESS;
}

void RengaCudaSetQueue_Private(RengaDevice device)
{
  device->ops->malloc = Malloc_Cuda;
  device->ops->free = Free_Cuda;
  device->ops->hostmalloc = HostMalloc_Cuda;
  device->ops->hostfree = HostFree_Cuda;
  device->ops->capacity = Capacity_Cuda;
  device->ops->copy = Copy_Cuda;
  device->ops->setbytes = SetBytes_Cuda;
  device->ops->streamcreate = StreamCreate_Cuda;
  device->ops->streamsynchronize = StreamSynchronize_Cuda;
  device->ops->streamdestroy = StreamDestroy_Cuda;
  device->ops->eventcreate = EventCreate_Cuda;
  device->ops->eventrecord = EventRecord_Cuda;
  device->ops->eventwait = EventWait_Cuda;
  device->ops->eventsynchronize = EventSynchronize_Cuda;
  device->ops->eventquery = EventQuery_Cuda;
  device->ops->eventdestroy = EventDestroy_Cuda;
}
