/* Comm: which ranks run on which nodes, as text. */
#include "commimpl.h"
#include <string.h>

typedef struct {
  int node;
  char host[MPI_MAX_PROCESSOR_NAME];
  char switches[COMM_SWITCH_BYTES];
  CommHardware hardware;
} CommPlace;

/* "0-3, 8, 10-11": the ranks on a node, as ranges. */
static RengaErrorCode ViewRanks(RengaViewer viewer, int size, const CommPlace places[], int node)
{
  const char *comma = "";
  for (int first = 0; first < size; first++) {
    if (places[first].node != node) continue;
    int last = first;
    while (last + 1 < size && places[last + 1].node == node) last++;
    if (last > first)
      RengaCall(RengaViewerPrintf(viewer, "%s%d-%d", comma, first, last));
    else
      RengaCall(RengaViewerPrintf(viewer, "%s%d", comma, first));
    comma = ", ";
    first = last;
  }
  return RENGA_SUCCESS;
}

static bool SameSockets(const CommPlace *a, const CommPlace *b)
{
  return a->node == b->node && !strcmp(a->hardware.sockets, b->hardware.sockets);
}

/* first: the first rank of a node, whose ranks stand side by side. */
static RengaErrorCode ViewSockets(RengaViewer viewer, int size, const CommPlace places[], int first)
{
  const char *before = "    sockets: ";
  if (!places[first].hardware.sockets[0]) return RENGA_SUCCESS;
  for (int r = first, last; r < size && places[r].node == places[first].node; r = last + 1) {
    last = r;
    while (last + 1 < size && SameSockets(&places[last + 1], &places[r])) last++;
    RengaCall(RengaViewerPrintf(viewer, "%srank", before));
    if (last > r) RengaCall(RengaViewerPrintf(viewer, "s %d-%d", r, last));
    if (last == r) RengaCall(RengaViewerPrintf(viewer, " %d", r));
    RengaCall(RengaViewerPrintf(viewer, " on %s", places[r].hardware.sockets));
    before = "; ";
  }
  RengaCall(RengaViewerPrintf(viewer, " (physical_package_id of the cores that they may use)\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewPlaces(RengaComm comm, RengaViewer viewer, const CommPlace places[])
{
  static const char nothing[] = "    the system says nothing of network cards (/sys/class/net)\n";
  RengaCall(RengaViewerPrintf(viewer, "Comm: %d rank%s on %d node%s, timeout %g s\n", comm->size,
                              comm->size == 1 ? "" : "s", comm->nodes, comm->nodes == 1 ? "" : "s",
                              RengaWatchGetLimit_Private(comm->hdr.comm)));
  for (int node = 0; node < comm->nodes; node++) {
    int r = 0;
    while (places[r].node != node) r++;
    RengaCall(RengaViewerPrintf(viewer, "  node %d (%s): ranks ", node, places[r].host));
    RengaCall(ViewRanks(viewer, comm->size, places, node));
    if (places[r].switches[0])
      RengaCall(RengaViewerPrintf(viewer, ", switch %s (SLURM_TOPOLOGY_ADDR)", places[r].switches));
    RengaCall(RengaViewerPrintf(viewer, "\n"));
    RengaCall(ViewSockets(viewer, comm->size, places, r));
    const char *cards = places[r].hardware.cards;
    RengaCall(RengaViewerPrintf(viewer, "%s", cards[0] ? cards : nothing));
  }
  if (comm->moved)
    RengaCall(RengaViewerPrintf(viewer,
                                "  the launcher's ranks have other numbers here: those of a node "
                                "stand side by side, and nodes of a switch\n"));
  return RENGA_SUCCESS;
}

/*@
   RengaCommView - print which ranks run on which nodes

   Collective

   Input:
   . viewer - the viewer, of kind ascii

   Options:
   . -comm_view - called by RengaCommSetFromOptions

   Errors: RENGA_ERR_FILE_WRITE where the file cannot be written; RENGA_ERR_TIMEOUT where a rank
   does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaCommSetFromOptions(), RengaViewerCreate()
@*/
RengaErrorCode RengaCommView(RengaComm comm, RengaViewer viewer)
{
  RengaCheckPointers(comm, viewer);
  CommPlace mine = {.node = comm->node}, *places = NULL;
  int length;
  RengaCallMPI(MPI_Get_processor_name(mine.host, &length));
  RengaCommFindSwitches(mine.switches);
  RengaCommFindHardware(&mine.hardware);
  RengaErrorCode code = comm->rank == 0 ? RengaMalloc(comm->size, &places) : RENGA_SUCCESS;
  code = RengaErrorAgree(comm->hdr.comm, code);
  if (!code)
    code = RengaCommGather(comm, &mine, sizeof mine, places, 0, "all ranks to say where they are");
  if (!code && places) code = ViewPlaces(comm, viewer, places);
  RengaFree(&places);
  RengaCall(code);
  return RENGA_SUCCESS;
}
