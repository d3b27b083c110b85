/* Memory and copies of the far device. A copy from the host must find its source as it was when it
   was queued, a copy to the host its destination; until it runs that has garbage. Of memory of the
   host that is under way already (what was copied there comes back) no copy knows what it finds:
   streams and events say which comes first, and results show where they do not. */
#include "far.h"
#include "renga/private/limit.h"
#include <string.h>

enum { GARBAGE = 0xff };

static RengaErrorCode Malloc_Far(RengaDevice device, size_t bytes, void **pointer)
{
  FarDevice *far = device->data;
  RengaCall(RengaClosedMalloc_Private(far->space, bytes, pointer));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free_Far(RengaDevice device, size_t bytes, void **pointer)
{
  FarDevice *far = device->data;
  (void)bytes;
  const RengaErrorCode code = RengaFarWaitAll_Private(device);
  RengaCall(RengaClosedFree_Private(far->space, pointer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Capacity_Far(RengaDevice device, size_t *bytes)
{
  (void)device;
  *bytes = RengaHostMemory_Private();
  return RENGA_SUCCESS;
}

/* [at, at + bytes) lies in one block of the device. */
RengaErrorCode RengaFarCheckRange_Private(RengaDevice device, const void *at, size_t bytes,
                                          const char *what)
{
  const char *first = at;
  for (int b = 0; b < device->n_blocks; b++) {
    const char *start = device->blocks[b].pointer;
    if (first >= start && first + bytes <= start + device->blocks[b].bytes) return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s: the %zu bytes at %p are not in one block of device %s", what, bytes, at,
             device->hdr.type_name);
}

static RengaErrorCode CheckHost(RengaDevice device, const void *at, size_t bytes, const char *what)
{
  const char *first = at;
  for (int b = 0; b < device->n_blocks; b++) {
    const char *start = device->blocks[b].pointer;
    RengaCheck(first + bytes <= start || first >= start + device->blocks[b].bytes, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "%s: %p is said to be the host's and is memory of device %s",
               what, at, device->hdr.type_name);
  }
  return RENGA_SUCCESS;
}

typedef struct {
  void *to;
  const void *from;
  size_t bytes;
  int64_t number;
  uint64_t hash; /* of the host's side when it was queued */
  bool follows;  /* another copy with memory of the host that this one has */
} FarCopy;

static RengaErrorCode CopyInside(RengaDevice device, void *argument)
{
  const FarCopy *copy = argument;
  RengaCall(RengaFarOpen_Private(device, copy->from, copy->bytes));
  RengaCall(RengaFarOpen_Private(device, copy->to, copy->bytes));
  memcpy(copy->to, copy->from, copy->bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyFromHost(RengaDevice device, void *argument)
{
  const FarCopy *copy = argument;
  RengaCall(RengaFarOpen_Private(device, copy->to, copy->bytes));
  RengaCheck(copy->follows || RengaHash(copy->from, copy->bytes, 0) == copy->hash, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL,
             "copy %lld of the device: its source, %zu bytes of the host at %p, changed between "
             "queueing and running",
             (long long)copy->number, copy->bytes, copy->from);
  memcpy(copy->to, copy->from, copy->bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyToHost(RengaDevice device, void *argument)
{
  const FarCopy *copy = argument;
  RengaCall(RengaFarOpen_Private(device, copy->from, copy->bytes));
  RengaCheck(copy->follows || RengaHash(copy->to, copy->bytes, 0) == copy->hash, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL,
             "copy %lld of the device: its destination, %zu bytes of the host at %p, was written "
             "to between queueing and running",
             (long long)copy->number, copy->bytes, copy->to);
  memcpy(copy->to, copy->from, copy->bytes);
  return RENGA_SUCCESS;
}

static const struct {
  const char *name;
  FarFunction run;
  bool from_host, to_host;
} copies[] = {[RENGA_HOST_TO_DEVICE] = {"A copy from the host", CopyFromHost, true, false},
              [RENGA_DEVICE_TO_HOST] = {"A copy to the host", CopyToHost, false, true},
              [RENGA_DEVICE_TO_DEVICE] = {"A copy on the device", CopyInside, false, false}};

/* A copy that is queued has some of these bytes of the host. */
static bool SharesHostBytes(const FarDevice *far, const char *at, size_t bytes)
{
  for (RengaStream stream = far->streams; stream; stream = stream->next)
    for (const FarItem *item = stream->first; item; item = item->next) {
      const FarCopy *copy = (const FarCopy *)(const void *)item->argument;
      if (item->run != CopyFromHost && item->run != CopyToHost) continue;
      const char *other = item->run == CopyFromHost ? copy->from : copy->to;
      if (at < other + copy->bytes && other < at + bytes) return true;
    }
  return false;
}

static RengaErrorCode Copy_Far(RengaDevice device, RengaStream stream, RengaCopyKind kind, void *to,
                               const void *from, size_t bytes)
{
  FarDevice *far = device->data;
  const char *name = copies[kind].name;
  FarCopy made = {.to = to, .from = from, .bytes = bytes, .number = ++far->copies}, *copy;
  if (copies[kind].from_host)
    RengaCall(CheckHost(device, from, bytes, name));
  else
    RengaCall(RengaFarCheckRange_Private(device, from, bytes, name));
  if (copies[kind].to_host)
    RengaCall(CheckHost(device, to, bytes, name));
  else
    RengaCall(RengaFarCheckRange_Private(device, to, bytes, name));
  const char *host = copies[kind].to_host ? to : from;
  made.follows = kind != RENGA_DEVICE_TO_DEVICE && SharesHostBytes(far, host, bytes);
  if (copies[kind].to_host && !made.follows) memset(to, GARBAGE, bytes);
  if (kind != RENGA_DEVICE_TO_DEVICE) made.hash = RengaHash(host, bytes, 0);
  RengaCall(RengaFarQueue_Private(device, stream, name, copies[kind].run, sizeof made, &copy));
  *copy = made;
  return RENGA_SUCCESS;
}

typedef struct {
  void *to;
  int byte;
  size_t bytes;
} FarFill;

static RengaErrorCode RunFill(RengaDevice device, void *argument)
{
  const FarFill *fill = argument;
  RengaCall(RengaFarOpen_Private(device, fill->to, fill->bytes));
  memset(fill->to, fill->byte, fill->bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetBytes_Far(RengaDevice device, RengaStream stream, void *to, int byte,
                                   size_t bytes)
{
  FarFill *fill;
  RengaCall(RengaFarCheckRange_Private(device, to, bytes, "A fill"));
  RengaCall(RengaFarQueue_Private(device, stream, "A fill", RunFill, sizeof *fill, &fill));
  *fill = (FarFill){to, byte, bytes};
  return RENGA_SUCCESS;
}

void RengaFarSetWork_Private(RengaDevice device)
{
  device->ops->malloc = Malloc_Far;
  device->ops->free = Free_Far;
  device->ops->capacity = Capacity_Far;
  device->ops->copy = Copy_Far;
  device->ops->setbytes = SetBytes_Far;
}
