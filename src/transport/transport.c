/* Transport: the object, its types, and which one fits a device. */
#include "transportimpl.h"
#include <string.h>

static const RengaTypeRow types[] = {
    {RENGA_TRANSPORT_MPI, RengaTransportCreate_MPI, NULL},
    {RENGA_TRANSPORT_STAGED, RengaTransportCreate_Staged, NULL},
    {NULL, NULL, NULL},
};

static RengaErrorCode DestroyTransport(void *object)
{
  RengaTransport transport = object;
  RengaCheck(transport->users == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%d parcels and convoys of a transport are not destroyed", transport->users);
  if (transport->ops->destroy) RengaCall(transport->ops->destroy(transport));
  return RENGA_SUCCESS;
}

/* NULL: nobody asked. */
static RengaErrorCode ChooseTransport(RengaTransport transport, const char *type)
{
  const RengaTypeRow *row;
  bool given = false;
  if (!type) RengaCall(RengaOptionsGetString("comm_transport", &type, &given));
  transport->asked = type != NULL;
  if (!type)
    type = RengaDeviceIsHost(transport->device) ? RENGA_TRANSPORT_MPI : RENGA_TRANSPORT_STAGED;
  RengaCall(RengaTypeFind("RengaTransport", types, type, &row));
  RengaCall(RengaHeaderSetTypeName(transport, row->name));
  RengaCall(row->create(transport));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_Private(RengaComm comm, RengaDevice device, const char *type,
                                            RengaTransport *transport)
{
  RengaTransport made;
  RengaCall(RengaHeaderCreate(comm, "RengaTransport", sizeof *made, DestroyTransport, &made));
  made->device = device;
  const RengaErrorCode code = ChooseTransport(made, type);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *transport = made;
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
  RengaCall(RengaViewerPrintf(
      viewer,
      "  memory of device %s %s the host's; %s, staging memory of rank 0: "
      "%s\n",
      device, host ? "is" : "is not",
      transport->asked ? "-comm_transport or the program chose it" : "so it was chosen", staging));
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

size_t RengaTransportGetStaging_Private(RengaTransport transport)
{
  return transport->staging;
}

RengaErrorCode RengaTransportDestroy_Private(RengaTransport *transport)
{
  if (*transport) RengaCall(RengaHeaderDestroy(transport));
  return RENGA_SUCCESS;
}
