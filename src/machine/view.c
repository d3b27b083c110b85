/* What a machine shows. */
#include "machineimpl.h"

/* Rates of the types that have one of their own. */
static RengaErrorCode ViewRates(const RengaMachineDevice *device, RengaViewer viewer)
{
  const struct {
    const char *type;
    double rate;
  } rates[] = {{"float64", device->matrix_rate_float64},
               {"bfloat16", device->matrix_rate_bfloat16},
               {"float16", device->matrix_rate_float16},
               {"tf32", device->matrix_rate_tf32}};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
    if (rates[i].rate > 0)
      RengaCall(RengaViewerPrintf(viewer, "  products of %s: %.4g TFLOP/s\n", rates[i].type,
                                  1e-12 * rates[i].rate));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineView - show a machine

   Collective

   Input:
   . machine - the machine
   . viewer - where

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaMachineView(RengaMachine machine, RengaViewer viewer)
{
  RengaCheckPointer(machine);
  RengaCheckPointer(viewer);
  if (machine->hdr.state < RENGA_STATE_SETUP) {
    RengaCall(RengaViewerPrintf(viewer, "machine: not described yet\n"));
    return RENGA_SUCCESS;
  }
  const RengaMachineDevice *device = &machine->device;
  char memory[32], bandwidth[32];
  const int64_t devices = machine->level[machine->n_levels - 1].devices;
  RengaFormatBytes((double)device->memory, sizeof memory, memory);
  RengaFormatBytes(device->memory_bandwidth, sizeof bandwidth, bandwidth);
  RengaCall(RengaViewerPrintf(viewer, "machine %s: %lld nodes x %lld devices\n", device->name,
                              (long long)(devices / machine->level[0].devices),
                              (long long)machine->level[0].devices));
  RengaCall(RengaViewerPrintf(
      viewer,
      "  device: %s at %s/s (reached: %.0f %%), products %.4g TFLOP/s (%.0f %%), other %.4g "
      "TFLOP/s (%.0f %%), launch %.3g us\n",
      memory, bandwidth, 100 * device->bandwidth_efficiency, 1e-12 * device->matrix_rate,
      100 * device->matrix_efficiency, 1e-12 * device->vector_rate, 100 * device->vector_efficiency,
      1e6 * device->launch));
  RengaCall(ViewRates(device, viewer));
  if (device->host > 0)
    RengaCall(
        RengaViewerPrintf(viewer, "  the host issues a product in %.3g us\n", 1e6 * device->host));
  if (device->attention_efficiency > 0)
    RengaCall(RengaViewerPrintf(viewer, "  attention: %.3g %% of the rate of products\n",
                                100 * device->attention_efficiency));
  if (device->attention_passes > 0)
    RengaCall(RengaViewerPrintf(viewer, "  attention: its scores pass through memory %.3g times\n",
                                device->attention_passes));
  if (device->unaligned_efficiency > 0)
    RengaCall(RengaViewerPrintf(
        viewer, "  products with rows of no multiple of 4 bytes: %.3g %% of their rate\n",
        100 * device->unaligned_efficiency));
  if (device->scatter_efficiency > 0)
    RengaCall(RengaViewerPrintf(
        viewer, "  gradients of looked-up rows: %.3g %% of the memory's bandwidth\n",
        100 * device->scatter_efficiency));
  if (device->half_depth > 0)
    RengaCall(RengaViewerPrintf(viewer, "  products of %.4g terms reach half of their rate\n",
                                device->half_depth));
  if (device->processors > 0)
    RengaCall(RengaViewerPrintf(viewer, "  tiles of products are dealt to %lld processors\n",
                                (long long)device->processors));
  if (device->all_reduce > 0)
    RengaCall(RengaViewerPrintf(viewer, "  sums of tensor ranks are all-reduces, %.3g us\n",
                                1e6 * device->all_reduce));
  if (device->accumulates)
    RengaCall(RengaViewerPrintf(viewer, "  products add gradients to those before\n"));
  if (device->spread > 0)
    RengaCall(RengaViewerPrintf(viewer, "  devices differ by %.3g %%\n", 100 * device->spread));
  for (int l = 0; l < machine->n_levels; l++) {
    RengaFormatBytes(machine->level[l].bandwidth, sizeof bandwidth, bandwidth);
    RengaCall(RengaViewerPrintf(viewer, "  %s: %lld devices, %.3g us, %s/s from one to another\n",
                                machine->level[l].name, (long long)machine->level[l].devices,
                                1e6 * machine->level[l].latency, bandwidth));
  }
  return RENGA_SUCCESS;
}
