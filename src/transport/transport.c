/* Transport: the object and its types. */
#include "transportimpl.h"
#include <string.h>

static const RengaTypeRow types[] = {
    {RENGA_TRANSPORT_MPI, RengaTransportCreate_MPI, NULL},
    {RENGA_TRANSPORT_MPI_DEVICE, RengaTransportCreate_MPIDevice, NULL},
    {RENGA_TRANSPORT_STAGED, RengaTransportCreate_Staged, NULL},
    {RENGA_TRANSPORT_NCCL, RengaTransportCreate_NCCL, NULL},
    {NULL, NULL, NULL},
};

static const char class_name[] = "RengaTransport";

/*@
   RengaTransportRegister - add a type of transport from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, and the functions that carry
     messages

   Errors: RENGA_ERR_ARGUMENT for a name that another type has, auto among them, for a rule without
   send, receive and test, with create or destroy alone, and for a size that is none. What the
   functions return are errors of the call that needs them: RengaPipelineSetUp(),
   RengaPipelineStep() and their like.

   Notes: before RengaInitialize, so that -transport_type may choose it; -transport_type auto never
   does. Rules carry memory of the host, that of the device where they are one; else Renga copies
   it to staging memory and from there, as transport staged does. They carry all messages between
   stages, of tensor-parallel ranks and of sums over replicas, but for unordered sums
   (-pipeline_reduction unordered), which are MPI's. Renga waits by asking test: so time limits and
   errors of other ranks end a wait for a message that does not come, too. Results do not depend on
   the transport. Functions are called by the thread that calls Renga.

   See also: RengaSettingsSetTransport(), RengaDeviceRegister()
@*/
RengaErrorCode RengaTransportRegister(const RengaTransportRule *rule)
{
  RengaCheckPointer(rule);
  const char *name = rule->name ? rule->name : "without a name";
  RengaCheck(rule->size == sizeof *rule, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the transport %s: its rule says that it has %zu bytes, and this library's has %zu: "
             "set size to sizeof(RengaTransportRule)",
             name, rule->size, sizeof *rule);
  RengaCheck(rule->send && rule->receive && rule->test, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the transport %s needs send, receive and test", name);
  RengaCheck(!rule->create == !rule->destroy, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the transport %s needs both create and destroy, or neither", name);
  RengaCheck(strcmp(name, RENGA_TRANSPORT_AUTO) != 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s has a type %s already: choose another name", class_name, name);
  RengaCall(RengaTypeRegister_Private(class_name, types, "transport_type", rule->name, rule));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyTransport(void *object)
{
  RengaTransport transport = object;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(transport->users == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%d parcels and convoys of a transport are not destroyed", transport->users);
  if (transport->ops->destroy) code = transport->ops->destroy(transport);
  RengaEvent *const event[] = {&transport->reached, &transport->entered, &transport->left};
  for (int e = 0; e < 3; e++)
    if (*event[e]) RengaKeepFirst_Private(&code, RengaEventDestroy(transport->device, event[e]));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What one rank may lack the memory for. */
static RengaErrorCode OpenTransport(RengaComm comm, RengaDevice device, RengaTransport *transport)
{
  RengaTransport made;
  RengaCall(RengaHeaderCreate(comm, "RengaTransport", sizeof *made, DestroyTransport, &made));
  *transport = made;
  made->device = device;
  RengaEvent *const event[] = {&made->reached, &made->entered, &made->left};
  for (int e = 0; e < 3 && !RengaDeviceIsHost(device); e++)
    RengaCall(RengaEventCreate(device, event[e]));
  return RENGA_SUCCESS;
}

/* Collective. */
static RengaErrorCode ChooseTransport(RengaTransport transport, const char *type)
{
  const RengaTypeRow *row;
  snprintf(transport->reason, sizeof transport->reason, "-transport_type or the program chose it");
  transport->fitted = !type || strcmp(type, RENGA_TRANSPORT_AUTO) == 0;
  if (transport->fitted) RengaCall(RengaTransportFit(transport, &type));
  const RengaTransportRule *rule = RengaTypeOutside_Private(class_name, type);
  if (rule) {
    RengaCall(RengaHeaderSetTypeName(transport, rule->name));
    RengaCall(RengaTransportCreate_Outside(transport, rule));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaTypeFind(class_name, types, type, &row));
  RengaCall(RengaHeaderSetTypeName(transport, row->name));
  RengaCall(row->create(transport));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_Private(RengaComm comm, RengaDevice device, const char *type,
                                            RengaTransport *transport)
{
  RengaTransport made = NULL;
  MPI_Comm mpi;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaErrorCode code = RengaErrorAgree(mpi, OpenTransport(comm, device, &made));
  if (!code) code = ChooseTransport(made, type);
  if (code && made) RengaHeaderDestroy(&made);
  RengaCall(code);
  *transport = made;
  return RENGA_SUCCESS;
}

/* Collective; why: of the first rank whose device cannot have all; "" where all can. */
static RengaErrorCode FindWhoLacks(RengaTransport transport, const RengaTransportNeeds *needs,
                                   char why[TRANSPORT_WHY])
{
  static const char what[] = "all ranks to say whether their devices have room for messages";
  const int size = RengaCommGetSize(transport->hdr.owner);
  int64_t first = size;
  bool fits = true;
  why[0] = '\0';
  if (!transport->ops->fits) return RENGA_SUCCESS;
  const RengaErrorCode code = transport->ops->fits(transport, needs, &fits, why);
  RengaCall(RengaErrorAgree(transport->hdr.comm, code));
  if (fits)
    why[0] = '\0';
  else
    first = RengaCommGetRank(transport->hdr.owner);
  RengaCall(RengaReduceInt64_Private(transport->hdr.comm, MPI_MIN, &first, what));
  if (first < size)
    RengaCall(RengaCommBroadcast(transport->hdr.owner, why, TRANSPORT_WHY, (int)first, what));
  return RENGA_SUCCESS;
}

/* Collective: in place of a type that was chosen before it was known what there is to connect. */
static RengaErrorCode GoByHost(RengaTransport transport, const char *why)
{
  char reason[TRANSPORT_REASON];
  snprintf(reason, sizeof reason, "not %s: %s", transport->hdr.type_name, why);
  RengaErrorCode code = transport->ops->destroy(transport);
  if (!code) code = RengaHeaderSetTypeName(transport, RENGA_TRANSPORT_STAGED);
  if (!code) code = RengaTransportCreate_Staged(transport);
  RengaCall(RengaErrorAgree(transport->hdr.comm, code));
  snprintf(transport->reason, sizeof transport->reason, "%s", reason);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportConnect_Private(RengaTransport transport,
                                             const RengaTransportNeeds *wanted)
{
  RengaTransportNeeds needs = *wanted;
  char why[TRANSPORT_WHY];
  needs.exact = needs.exact && transport->ops->sumexact;
  RengaCall(FindWhoLacks(transport, &needs, why));
  if (why[0] && needs.exact) {
    needs.exact = false;
    RengaCall(FindWhoLacks(transport, &needs, why));
  }
  if (why[0] && transport->fitted) RengaCall(GoByHost(transport, why));
  if (why[0] && !transport->fitted)
    RengaWarning(transport->hdr.comm,
                 "transport %s: %s: messages may wait for each other for ever; what may help: "
                 "-transport_type staged, fewer tensor- or context-parallel ranks, fewer virtual "
                 "stages",
                 transport->hdr.type_name, why);
  if (transport->ops->connect) RengaCall(transport->ops->connect(transport, &needs));
  transport->exact = needs.exact && transport->ops->sumexact;
  return RENGA_SUCCESS;
}

bool RengaTransportSumsExact_Private(RengaTransport transport)
{
  return transport->exact;
}

RengaErrorCode RengaTransportSumExact_Private(RengaTransport transport, int64_t count,
                                              double values[])
{
  RengaCall(transport->ops->sumexact(transport, count, values));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportAbort_Private(RengaTransport transport)
{
  if (transport->ops->abort) RengaCall(transport->ops->abort(transport));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportView_Private(RengaTransport transport, RengaViewer viewer)
{
  const bool host = RengaDeviceIsHost(transport->device);
  const char *device;
  char staging[32] = "no";
  RengaCall(RengaDeviceGetType(transport->device, &device));
  if (transport->staging > 0) RengaFormatBytes((double)transport->staging, sizeof staging, staging);
  RengaCall(RengaViewerPrintf(viewer, "Transport: %s, %s\n", transport->hdr.type_name,
                              transport->ops->does));
  RengaCall(RengaViewerPrintf(viewer,
                              "  memory of device %s %s the host's; %s, staging memory of rank 0: "
                              "%s\n",
                              device, host ? "is" : "is not", transport->reason, staging));
  const size_t buffers = RengaTransportGetBuffers_Private(transport);
  if (buffers == 0) return RENGA_SUCCESS;
  RengaFormatBytes((double)buffers, sizeof staging, staging);
  RengaCall(RengaViewerPrintf(
      viewer, "  its library keeps about %s of rank 0's device, an estimate\n", staging));
  return RENGA_SUCCESS;
}

/* A file is written anew, with what it had. */
RengaErrorCode RengaTransportShow_Private(RengaTransport transport, RengaComm owner)
{
  const char *wanted = RengaCommGetViewWanted_Private(owner);
  RengaViewer viewer;
  if (!wanted) return RENGA_SUCCESS;
  RengaCall(RengaViewerCreate(owner, wanted, &viewer));
  RengaErrorCode code = strchr(wanted, ':') ? RengaCommView(owner, viewer) : RENGA_SUCCESS;
  if (!code) code = RengaTransportView_Private(transport, viewer);
  const RengaErrorCode closed = RengaViewerDestroy(&viewer);
  RengaCall(code);
  RengaCall(closed);
  return RENGA_SUCCESS;
}

const char *RengaTransportGetType_Private(RengaTransport transport)
{
  return transport->hdr.type_name;
}

size_t RengaTransportGetBuffers_Private(RengaTransport transport)
{
  return transport->ops->buffers ? transport->ops->buffers(transport) : 0;
}

size_t RengaTransportGetStaging_Private(RengaTransport transport)
{
  return transport->staging;
}

RengaErrorCode RengaTransportDestroy_Private(RengaTransport *transport)
{
  if (*transport) RengaCall(RengaHeaderDestroy(transport));
  return RENGA_SUCCESS;
}
