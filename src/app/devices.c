/* renga info -device: what computes on this machine, and why another device does not. */
#include "app.h"

static RengaErrorCode MakeDevice_App(const App *app, const char *type, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(app->comm, device));
  RengaCall(RengaDeviceSetType(*device, type));
  RengaCall(RengaDeviceSetFromOptions(*device));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

/* A device that is not there is no error of this command: its sentence is the answer. */
static RengaErrorCode TryDevice(const App *app, const char *type, RengaViewer viewer)
{
  RengaDevice device = NULL;
  RengaErrorHandler report;
  void *user;
  const MPI_Comm comm = AppPrinter(app->comm);
  RengaErrorGetHandler(&report, &user);
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode mine = MakeDevice_App(app, type, &device);
  RengaErrorSetHandler(report, user);
  const RengaErrorCode found = RengaErrorAgree(comm, mine);
  RengaErrorCode code =
      found ? RengaViewerPrintf(viewer, "device %s: not here: %s\n", type,
                                mine ? RengaErrorGetMessage() : RengaErrorText(found))
            : RengaDeviceView(device, viewer);
  if (device) RengaCall(RengaDeviceDestroy(&device));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The processor's and the GPU's; of another -device_type, that one alone. */
RengaErrorCode AppPrintDevices(const App *app)
{
  static const char *const types[] = {RENGA_DEVICE_CPU, RENGA_DEVICE_CUDA};
  const char *wanted;
  bool given = false;
  RengaViewer viewer = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaOptionsGetString("device_type", &wanted, &given));
  RengaCall(RengaViewerCreate(app->comm, "ascii", &viewer));
  if (given) code = TryDevice(app, wanted, viewer);
  for (size_t t = 0; t < sizeof types / sizeof *types && !given && !code; t++)
    code = TryDevice(app, types[t], viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}
