/* Memory, copies, streams and events of the cuda device: the module's. A RengaStream and a
   RengaEvent are CUDA's own. */
#include "cuda.h"
#include "renga/private/wait.h"

bool RengaCudaIsGivenUp_Private(RengaDevice device)
{
  return RengaWatchIsBroken_Private(device->hdr.comm);
}

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
  if (!RengaCudaIsGivenUp_Private(device)) RENGA_CALL_CUDA(device, module_->release(*pointer));
  *pointer = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode HostMalloc_Cuda(RengaDevice device, size_t bytes, void **pointer)
{
  CudaDevice *cuda = RengaCudaOf_Private(device);
  RengaCall(RengaRealloc(cuda->n_pinned + 1, &cuda->pinned));
  RengaCheck(cuda->module->hostreserve(bytes, pointer) == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "no %zu bytes of pinned memory: %s", bytes, cuda->module->error());
  cuda->pinned[cuda->n_pinned++] = (CudaPinned){*pointer, bytes};
  return RENGA_SUCCESS;
}

/* The place of a block that holds `at`; n_pinned: there is none. */
static int FindPinned(const CudaDevice *cuda, const char *at)
{
  int p = 0;
  while (p < cuda->n_pinned &&
         (at < cuda->pinned[p].at || at >= cuda->pinned[p].at + cuda->pinned[p].bytes))
    p++;
  return p;
}

static RengaErrorCode HostFree_Cuda(RengaDevice device, void **pointer)
{
  CudaDevice *cuda = RengaCudaOf_Private(device);
  const int p = FindPinned(cuda, *pointer);
  if (p < cuda->n_pinned) cuda->pinned[p] = cuda->pinned[--cuda->n_pinned];
  if (!RengaCudaIsGivenUp_Private(device)) RENGA_CALL_CUDA(device, module_->hostrelease(*pointer));
  *pointer = NULL;
  return RENGA_SUCCESS;
}

/* What is left beside the workspace of products and what CUDA takes later: for kernels that are
   loaded when they are launched first, and for graphs. That is an estimate. */
static RengaErrorCode Capacity_Cuda(RengaDevice device, size_t *bytes)
{
  enum { LATER = 64 << 20, LEAST_PART = 64 };
  const size_t free = RengaCudaOf_Private(device)->free, part = free / LEAST_PART;
  const size_t kept = RengaCudaWorkspace_Private(device) + (part < LATER ? part : LATER);
  *bytes = free > kept ? free - kept : 0;
  return RENGA_SUCCESS;
}

/* CUDA itself would wait for a copy to other memory of the host, without a limit. */
static RengaErrorCode AwaitPageable(RengaDevice device, RengaStream stream, const void *to)
{
  const CudaDevice *cuda = RengaCudaOf_Private(device);
  if (FindPinned(cuda, to) == cuda->n_pinned) RengaCall(RengaStreamSynchronize(device, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode Copy_Cuda(RengaDevice device, RengaStream stream, RengaCopyKind kind,
                                void *to, const void *from, size_t bytes)
{
  RengaCudaCopy way = RENGA_CUDA_WITHIN;
  if (kind == RENGA_HOST_TO_DEVICE) way = RENGA_CUDA_UP;
  if (kind == RENGA_DEVICE_TO_HOST) way = RENGA_CUDA_DOWN;
  if (kind == RENGA_DEVICE_TO_HOST) RengaCall(AwaitPageable(device, stream, to));
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
  RENGA_CALL_CUDA(device, module_->streamcreate(1, &made)); /* of copies and messages */
  *stream = made;
  return RENGA_SUCCESS;
}

/* What a kernel found wrong on the way, once. */
static RengaErrorCode TellFault_Cuda(RengaDevice device)
{
  RengaCudaFault *fault = RengaCudaOf_Private(device)->fault;
  if (!fault || !fault->found) return RENGA_SUCCESS;
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
  if (!RengaCudaIsGivenUp_Private(device)) RENGA_CALL_CUDA(device, module_->streamdestroy(*stream));
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

static RengaErrorCode EventCreateTimed_Cuda(RengaDevice device, RengaEvent *event)
{
  void *made = NULL;
  RENGA_CALL_CUDA(device, module_->eventcreatetimed(&made));
  *event = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSeconds_Cuda(RengaDevice device, RengaEvent from, RengaEvent to,
                                        bool *done, double *seconds)
{
  int are_done = 0;
  RENGA_CALL_CUDA(device, module_->eventseconds(from, to, &are_done, seconds));
  *done = are_done;
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
  device->ops->eventcreatetimed = EventCreateTimed_Cuda;
  device->ops->eventseconds = EventSeconds_Cuda;
}
