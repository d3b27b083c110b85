/* Memory of a device, and copies to and from it. */
#include "renga/private/device.h"

/*@
   RengaDeviceIsHost - may the host use the device's pointers?

   See also: RengaDeviceGetMemory()
@*/
bool RengaDeviceIsHost(RengaDevice device)
{
  RengaCheckHandle(device, false);
  return device->host;
}

static RengaErrorCode RememberBlock(RengaDevice device, void *pointer, size_t bytes)
{
  if (device->n_blocks == device->size_blocks) {
    int size = 2 * device->size_blocks + 16;
    RengaCall(RengaRealloc(size, &device->blocks));
    device->size_blocks = size;
  }
  device->blocks[device->n_blocks++] = (RengaDeviceBlock){pointer, bytes};
  device->used += bytes;
  if (device->used > device->peak) device->peak = device->used;
  return RENGA_SUCCESS;
}

/* Memory of the device. What it holds at first is the type's (zero on ref and cpu), or NaN with
   -device_poison. RengaDeviceFree gives it back. bytes: bytes, at least 0; the start is a multiple
   of 64. pointer_to_pointer: address of a pointer, which is set; NULL for 0 bytes. */
RengaErrorCode RengaDeviceMalloc(RengaDevice device, size_t bytes, void *pointer_to_pointer)
{
  RengaCheckPointers(device, pointer_to_pointer);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  void **place = pointer_to_pointer;
  void *made = NULL;
  if (bytes > 0) {
    RengaCall(device->ops->malloc(device, bytes, &made));
    RengaErrorCode code = RememberBlock(device, made, bytes);
    if (code) device->ops->free(device, bytes, &made);
    if (!code && device->options.poison) {
      code = device->ops->setbytes(device, NULL, made, 0xff, bytes);
      if (code) RengaDeviceFree(device, &made);
    }
    RengaCall(code);
  }
  *place = made;
  return RENGA_SUCCESS;
}

/* Give memory of the device back. pointer_to_pointer: address of the pointer, set to NULL; a NULL
   pointer is allowed. */
RengaErrorCode RengaDeviceFree(RengaDevice device, void *pointer_to_pointer)
{
  RengaCheckPointers(device, pointer_to_pointer);
  void **place = pointer_to_pointer;
  if (!*place) return RENGA_SUCCESS;
  int i = device->n_blocks - 1;
  while (i >= 0 && device->blocks[i].pointer != *place) i--;
  RengaCheck(i >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%p was not allocated on this device",
             *place);
  size_t bytes = device->blocks[i].bytes;
  if (device->options.poison) RengaCall(device->ops->setbytes(device, NULL, *place, 0xff, bytes));
  RengaCall(device->ops->free(device, bytes, place));
  device->used -= bytes;
  device->blocks[i] = device->blocks[--device->n_blocks];
  *place = NULL;
  return RENGA_SUCCESS;
}

/* Memory of the host that copies to and from the device are fast with. Any memory of the host can
   be copied; from this a device may copy while the host does something else. RengaDeviceHostFree
   gives it back. bytes: bytes, at least 0; the start is a multiple of 64. */
RengaErrorCode RengaDeviceHostMalloc(RengaDevice device, size_t bytes, void *pointer_to_pointer)
{
  RengaCheckPointers(device, pointer_to_pointer);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  void *made = NULL;
  char *plain = NULL;
  if (device->ops->hostmalloc)
    RengaCall(device->ops->hostmalloc(device, bytes, &made));
  else
    RengaCall(RengaMalloc(bytes, &plain));
  *(void **)pointer_to_pointer = plain ? plain : made;
  return RENGA_SUCCESS;
}

/* Give memory of RengaDeviceHostMalloc back. pointer_to_pointer: address of the pointer, set to
   NULL; no copy is under way with it. */
RengaErrorCode RengaDeviceHostFree(RengaDevice device, void *pointer_to_pointer)
{
  RengaCheckPointers(device, pointer_to_pointer);
  void **place = pointer_to_pointer;
  if (!*place) return RENGA_SUCCESS;
  if (device->ops->hostfree)
    RengaCall(device->ops->hostfree(device, place));
  else
    RengaFree(place);
  *place = NULL;
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceGetMemory - bytes that the device has and uses

   Input:
   . device - the device, set up

   Output:
   . capacity - bytes of the device, shared by all ranks that use it; 0 where unknown
   . used - bytes that are allocated, at least 0
   . peak - the most bytes of these so far, at least 0

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.

   Notes: each may be NULL.

   See also: RengaDeviceView()
@*/
RengaErrorCode RengaDeviceGetMemory(RengaDevice device, size_t *capacity, size_t *used,
                                    size_t *peak)
{
  RengaCheckPointer(device);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  size_t bytes = 0;
  RengaCall(device->ops->capacity(device, &bytes));
  if (capacity) *capacity = bytes;
  if (used) *used = device->used;
  if (peak) *peak = device->peak;
  return RENGA_SUCCESS;
}

/* Copy bytes. A source on the host must stay as it is until the stream has passed the copy (an
   event behind it is done, or the stream was waited for); a destination on the host is written by
   then, and must not be read or written before. stream: the copy is queued on it; NULL: the default
   one. bytes: bytes to copy, at least 0; the two ranges must not overlap. */
RengaErrorCode RengaDeviceCopy(RengaDevice device, RengaStream stream, RengaCopyKind kind, void *to,
                               const void *from, size_t bytes)
{
  RengaCheckPointer(device);
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCheckPointers(to, from);
  RengaCall(device->ops->copy(device, stream, kind, to, from, bytes));
  return RENGA_SUCCESS;
}

/* Fill memory of the device with one byte. bytes: bytes to set, at least 0. */
RengaErrorCode RengaDeviceSetBytes(RengaDevice device, RengaStream stream, void *to, int byte,
                                   size_t bytes)
{
  RengaCheckPointer(device);
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCheckPointer(to);
  RengaCall(device->ops->setbytes(device, stream, to, byte, bytes));
  return RENGA_SUCCESS;
}
