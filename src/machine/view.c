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
               {"tf32", device->matrix_rate_tf32},
               {"fp8", device->matrix_rate_fp8}};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
    if (rates[i].rate > 0)
      RengaCall(RengaViewerPrintf(viewer, "  products of %s: %.4g TFLOP/s\n", rates[i].type,
                                  1e-12 * rates[i].rate));
  return RENGA_SUCCESS;
}

/* What its kernels reach, as far as it is said. */
static RengaErrorCode ViewReached(const RengaMachineDevice *device, RengaViewer viewer)
{
  const struct {
    const char *what;
    double value;
    const char *of;
  } lines[] = {{"the host issues a product in", 1e6 * device->host, "us"},
               {"attention:", 100 * device->attention_efficiency, "% of the rate of products"},
               {"attention: its scores pass through memory", device->attention_passes, "times"},
               {"products with rows of no multiple of 4 bytes:", 100 * device->unaligned_efficiency,
                "% of their rate"},
               {"gradients of looked-up rows:", 100 * device->scatter_efficiency,
                "% of the memory's bandwidth"},
               {"half of their rate is reached by products of", device->half_depth, "terms"},
               {"tiles of products are dealt to", (double)device->processors, "processors"},
               {"sums of tensor-parallel ranks are all-reduces,", 1e6 * device->all_reduce, "us"},
               {"devices differ by", 100 * device->spread, "%"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (lines[i].value > 0)
      RengaCall(
          RengaViewerPrintf(viewer, "  %s %.4g %s\n", lines[i].what, lines[i].value, lines[i].of));
  if (device->accumulates)
    RengaCall(RengaViewerPrintf(viewer, "  products add gradients to those before\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewNetwork(const RengaMachineNetwork *network, RengaViewer viewer)
{
  char text[32];
  if (network->cards <= 0) return RENGA_SUCCESS;
  RengaFormatBytes(network->card_bandwidth, sizeof text, text);
  RengaCall(RengaViewerPrintf(viewer, "  network cards: %lld a node, %s/s each\n",
                              (long long)network->cards, text));
  RengaFormatBytes(network->uplink_bandwidth, sizeof text, text);
  if (network->uplink_bandwidth > 0)
    RengaCall(RengaViewerPrintf(viewer, "  switches: %lld nodes each, %s/s to others\n",
                                (long long)network->switch_nodes, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewNodes(RengaMachine machine, RengaViewer viewer)
{
  int64_t nodes;
  RengaCall(RengaMachineGetNodes(machine, &nodes));
  RengaCall(
      RengaViewerPrintf(viewer, "machine %s: %lld nodes ", machine->device_name, (long long)nodes));
  for (int n = 0; n < machine->n_islands; n++)
    RengaCall(RengaViewerPrintf(viewer, "%s %lld", n > 0 ? "," : "of",
                                (long long)(machine->island[n + 1] - machine->island[n])));
  if (machine->n_islands == 0)
    RengaCall(RengaViewerPrintf(viewer, "x %lld", (long long)machine->level[0].devices));
  RengaCall(RengaViewerPrintf(viewer, " devices\n"));
  return RENGA_SUCCESS;
}

/* kind: NULL where all devices are alike. */
static RengaErrorCode ViewDevice(const RengaMachineDevice *device, const char *kind, int64_t count,
                                 RengaViewer viewer)
{
  char memory[32], bandwidth[32], of[96] = "device";
  RengaFormatBytes((double)device->memory, sizeof memory, memory);
  RengaFormatBytes(device->memory_bandwidth, sizeof bandwidth, bandwidth);
  if (kind) snprintf(of, sizeof of, "%lld devices %.60s", (long long)count, kind);
  RengaCall(RengaViewerPrintf(
      viewer,
      "  %s: %s at %s/s (reached: %.0f %%), products %.4g TFLOP/s (%.0f %%), other %.4g "
      "TFLOP/s (%.0f %%), launch %.3g us\n",
      of, memory, bandwidth, 100 * device->bandwidth_efficiency, 1e-12 * device->matrix_rate,
      100 * device->matrix_efficiency, 1e-12 * device->vector_rate, 100 * device->vector_efficiency,
      1e6 * device->launch));
  RengaCall(ViewRates(device, viewer));
  RengaCall(ViewReached(device, viewer));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineView - show a machine

   Collective

   Input:
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaMachineView(RengaMachine machine, RengaViewer viewer)
{
  RengaCheckPointers(machine, viewer);
  if (machine->hdr.state < RENGA_STATE_SETUP) {
    RengaCall(RengaViewerPrintf(viewer, "machine: not described yet\n"));
    return RENGA_SUCCESS;
  }
  const RengaMachineDevice *device;
  const int64_t *begin;
  char bandwidth[32];
  int kinds;
  RengaCall(ViewNodes(machine, viewer));
  RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
  for (int k = 0; k < kinds; k++)
    RengaCall(ViewDevice(&device[k], kinds > 1 ? device[k].name : NULL, begin[k + 1] - begin[k],
                         viewer));
  for (int l = 0; l < machine->n_levels; l++) {
    RengaFormatBytes(machine->level[l].bandwidth, sizeof bandwidth, bandwidth);
    RengaCall(RengaViewerPrintf(viewer, "  %s: %lld devices, %.3g us, %s/s from one to another\n",
                                machine->level[l].name, (long long)machine->level[l].devices,
                                1e6 * machine->level[l].latency, bandwidth));
  }
  RengaCall(ViewNetwork(&machine->network, viewer));
  return RENGA_SUCCESS;
}
