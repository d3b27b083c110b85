/* Types of device from outside: the functions of a program's rule in the table of a type. */
#include "renga/private/device.h"
#include "renga/private/limit.h"

static const RengaDeviceRule *RuleOf(RengaDevice device)
{
  return device->data;
}

static RengaErrorCode SetUp_Outside(RengaDevice device)
{
  device->threads = 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode Malloc_Outside(RengaDevice device, size_t bytes, void **pointer)
{
  RengaCall(RuleOf(device)->malloc(bytes, pointer, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free_Outside(RengaDevice device, size_t bytes, void **pointer)
{
  RengaCall(RuleOf(device)->free(bytes, pointer, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode Capacity_Outside(RengaDevice device, size_t *bytes)
{
  *bytes = device->host ? RengaHostMemory_Private() : 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode Copy_Outside(RengaDevice device, RengaStream stream, RengaCopyKind kind,
                                   void *to, const void *from, size_t bytes)
{
  RengaCall(RuleOf(device)->copy(stream, kind, to, from, bytes, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetBytes_Outside(RengaDevice device, RengaStream stream, void *to, int byte,
                                       size_t bytes)
{
  RengaCall(RuleOf(device)->setbytes(stream, to, byte, bytes, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamCreate_Outside(RengaDevice device, RengaStream *stream)
{
  RengaCall(RuleOf(device)->streamcreate(stream, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamSynchronize_Outside(RengaDevice device, RengaStream stream)
{
  RengaCall(RuleOf(device)->streamsynchronize(stream, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamDestroy_Outside(RengaDevice device, RengaStream *stream)
{
  RengaCall(RuleOf(device)->streamdestroy(stream, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventCreate_Outside(RengaDevice device, RengaEvent *event)
{
  RengaCall(RuleOf(device)->eventcreate(event, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventRecord_Outside(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCall(RuleOf(device)->eventrecord(event, stream, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventWait_Outside(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaCall(RuleOf(device)->eventwait(event, stream, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSynchronize_Outside(RengaDevice device, RengaEvent event)
{
  RengaCall(RuleOf(device)->eventsynchronize(event, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventQuery_Outside(RengaDevice device, RengaEvent event, bool *done)
{
  RengaCall(RuleOf(device)->eventquery(event, done, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EventDestroy_Outside(RengaDevice device, RengaEvent *event)
{
  RengaCall(RuleOf(device)->eventdestroy(event, RuleOf(device)->user));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunRule(RengaKernel kernel, RengaStream stream,
                              const RengaKernelContext *context, const void *const in[],
                              void *const out[], void *workspace)
{
  const RengaDeviceRule *rule = RuleOf(kernel->device);
  (void)workspace;
  RengaCall(rule->compute(stream, &kernel->call, context, in, out, rule->user));
  return RENGA_SUCCESS;
}

/* Leaves the kernel to the host where the rule does not know it. */
static RengaErrorCode CreateByRule(RengaKernel kernel)
{
  const RengaDeviceRule *rule = RuleOf(kernel->device);
  if (rule->knows && rule->knows(&kernel->call, rule->user)) kernel->run = RunRule;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindKernel_Outside(RengaDevice device, const char *name,
                                         const RengaKernelRow **row)
{
  static const RengaKernelRow any = {"any operator", CreateByRule};
  (void)device;
  (void)name;
  *row = &any;
  return RENGA_SUCCESS;
}

static bool HasStreams(const RengaDeviceRule *rule)
{
  return rule->streamcreate && rule->streamsynchronize && rule->streamdestroy &&
         rule->eventcreate && rule->eventrecord && rule->eventwait && rule->eventsynchronize &&
         rule->eventquery && rule->eventdestroy;
}

static bool HasNoStreams(const RengaDeviceRule *rule)
{
  return !rule->streamcreate && !rule->streamsynchronize && !rule->streamdestroy &&
         !rule->eventcreate && !rule->eventrecord && !rule->eventwait && !rule->eventsynchronize &&
         !rule->eventquery && !rule->eventdestroy;
}

RengaErrorCode RengaDeviceCheckRule_Private(const RengaDeviceRule *rule)
{
  const char *name = rule->name ? rule->name : "without a name";
  RengaCheck(rule->malloc && rule->free && rule->copy && rule->setbytes, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "the device %s needs malloc, free, copy and setbytes", name);
  RengaCheck(HasStreams(rule) || HasNoStreams(rule), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the device %s has some functions of streams and events: give all nine, or none where "
             "its work is done when a call returns",
             name);
  RengaCheck(!rule->knows == !rule->compute, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the device %s needs both knows and compute, or neither", name);
  return RENGA_SUCCESS;
}

static void SetStreams(RengaDevice device)
{
  device->ops->streamcreate = StreamCreate_Outside;
  device->ops->streamsynchronize = StreamSynchronize_Outside;
  device->ops->streamdestroy = StreamDestroy_Outside;
  device->ops->eventcreate = EventCreate_Outside;
  device->ops->eventrecord = EventRecord_Outside;
  device->ops->eventwait = EventWait_Outside;
  device->ops->eventsynchronize = EventSynchronize_Outside;
  device->ops->eventquery = EventQuery_Outside;
  device->ops->eventdestroy = EventDestroy_Outside;
}

RengaErrorCode RengaDeviceAdopt_Private(void *object, const void *rule)
{
  RengaDevice device = object;
  RengaCall(RengaDeviceSetHost_Private(device)); /* streams of work that is done at once */
  device->data = (void *)(uintptr_t)rule;
  device->host = RuleOf(device)->host;
  device->ops->setup = SetUp_Outside;
  device->ops->findkernel = FindKernel_Outside;
  device->ops->malloc = Malloc_Outside;
  device->ops->free = Free_Outside;
  device->ops->capacity = Capacity_Outside;
  device->ops->copy = Copy_Outside;
  device->ops->setbytes = SetBytes_Outside;
  if (HasStreams(RuleOf(device))) SetStreams(device);
  device->alone = HasStreams(RuleOf(device));
  RengaCall(RengaDeviceSetStagedVectors_Private(device));
  return RENGA_SUCCESS;
}
