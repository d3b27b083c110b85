/* The table of costs: a row for each distinct call of the last question, the most costly first. */
#include "profileimpl.h"
#include <stdlib.h>
#include <string.h>

enum { TEXT = 160 };

typedef struct {
  int call, count;
  ProfilePart part;
  double seconds; /* of all nodes that share it */
} CostRow;

static int CompareViewRows(const void *a, const void *b)
{
  const CostRow *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
  return (x->call > y->call) - (x->call < y->call);
}

static RengaErrorCode PrintRows(RengaProfile profile, RengaViewer viewer, int count,
                                const CostRow rows[], double all)
{
  RengaCall(RengaViewerPrintf(viewer,
                              "  count  phase     seconds each   GFLOP/s    GB/s  share  call (* "
                              "in a cache)\n"));
  for (int r = 0; r < count; r++) {
    char text[TEXT];
    const ProfileCall *call = &profile->call[rows[r].call];
    const RengaOpCall op = RengaProfileOpCall_Private(call);
    const double seconds = call->seconds > 0 ? call->seconds : 1e-12;
    RengaProfileCallText_Private(call, sizeof text, text);
    RengaCall(RengaViewerPrintf(
        viewer, "  %5d  %-8s %13.6g %9.4g %7.3g %5.1f%%  %s\n", rows[r].count,
        rows[r].part == PROFILE_PART_FORWARD ? "forward" : "backward", call->seconds,
        1e-9 * RengaOperatorFlops(&op) / seconds, 1e-9 * RengaProfileBytes_Private(&op) / seconds,
        all > 0 ? 100 * rows[r].seconds / all : 0, text));
  }
  return RENGA_SUCCESS;
}

/* rows[call] counts the nodes; those of none are left out. */
static RengaErrorCode PrintCostTable(RengaProfile profile, RengaViewer viewer, CostRow rows[])
{
  int used = 0;
  double all = 0;
  for (int c = 0; c < profile->n_calls; c++) rows[c].call = c;
  for (int n = 0; n < RengaGraphGetNodeCount(profile->whole); n++) {
    if (profile->number[n] < 0) continue;
    CostRow *row = &rows[profile->number[n]];
    row->part = profile->part[n];
    row->count++;
    row->seconds += profile->call[profile->number[n]].seconds;
    all += profile->call[profile->number[n]].seconds;
  }
  for (int c = 0; c < profile->n_calls; c++)
    if (rows[c].count > 0) rows[used++] = rows[c];
  qsort(rows, (size_t)used, sizeof *rows, CompareViewRows);
  RengaCall(PrintRows(profile, viewer, used, rows, all));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileView - show what operators cost

   Collective

   Input:
   . profile - the profile; the calls are those of the last RengaProfileGetCosts()
   . viewer - the viewer that it is shown by

   Options:
   . -profile_view - for renga profile: where

   Errors: RENGA_ERR_SUPPORT for a viewer that is not ascii; RENGA_ERR_FILE_WRITE where the file
   does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaProfileView(RengaProfile profile, RengaViewer viewer)
{
  CostRow *rows = NULL;
  RengaCheckPointers(profile, viewer);
  RengaCheck(strcmp(RengaViewerGetKind(viewer), "ascii") == 0, profile->hdr.comm, RENGA_ERR_SUPPORT,
             "a profile is shown as ascii or ascii:FILE, not as %s", RengaViewerGetKind(viewer));
  RengaCall(RengaViewerPrintf(viewer, "profile: %s, %d distinct calls\n", profile->hdr.type_name,
                              profile->n_calls));
  if (profile->ops->view) RengaCall(profile->ops->view(profile, viewer));
  if (!profile->number || profile->n_calls == 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(profile->n_calls, &rows));
  const RengaErrorCode code = PrintCostTable(profile, viewer, rows);
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
