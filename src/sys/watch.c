/* Watches: which one a communicator has, and the time limits. How ranks tell each other who waits
   stands in notice.c, how a watch is made and ends in watchlife.c. */
#include "watch.h"
#include "sys.h"

static struct {
  RengaWatch world;
  double limit;
  int key;    /* of the attribute of communicators */
  int broken; /* waits that ended at their limit */
  char cells[RENGA_WATCH_CELLS];
} watches = {NULL, 300, MPI_KEYVAL_INVALID, 0, ""};

void RengaWatchSetDefaultLimit(double seconds)
{
  watches.limit = seconds;
}

double RengaWatchGetDefaultLimit(void)
{
  return watches.limit;
}

RengaWatch RengaWatchOf(MPI_Comm comm)
{
  void *kept = NULL;
  int found = 0;
  if (comm == MPI_COMM_NULL || watches.key == MPI_KEYVAL_INVALID) return watches.world;
  MPI_Comm_get_attr(comm, watches.key, (void *)&kept, &found);
  return found ? kept : watches.world;
}

void *RengaWatchCells(MPI_Comm comm)
{
  RengaWatch watch = RengaWatchOf(comm);
  return watch ? watch->cells : watches.cells;
}

void RengaWatchSetWorld(MPI_Comm comm)
{
  watches.world = comm == MPI_COMM_NULL ? NULL : RengaWatchOf(comm);
}

RengaErrorCode RengaWatchAttach(RengaWatch watch, MPI_Comm comm)
{
  if (watches.key == MPI_KEYVAL_INVALID)
    RengaCallMPI(
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &watches.key, NULL));
  RengaCallMPI(MPI_Comm_set_attr(comm, watches.key, watch));
  watch->holders++;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchDetach(MPI_Comm comm, RengaWatch *last)
{
  void *kept = NULL;
  int found = 0;
  *last = NULL;
  if (watches.key == MPI_KEYVAL_INVALID) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Comm_get_attr(comm, watches.key, (void *)&kept, &found));
  if (!found) return RENGA_SUCCESS;
  RengaWatch watch = kept;
  RengaCallMPI(MPI_Comm_delete_attr(comm, watches.key));
  if (--watch->holders > 0) return RENGA_SUCCESS;
  if (watch == watches.world) watches.world = NULL;
  *last = watch;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchShare_Private(MPI_Comm comm, MPI_Comm group)
{
  RengaWatch watch = RengaWatchOf(comm);
  if (watch) RengaCall(RengaWatchAttach(watch, group));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchSetLimit_Private(MPI_Comm comm, double seconds)
{
  RengaWatch watch = RengaWatchOf(comm);
  if (!watch) return RENGA_SUCCESS;
  watch->limit = seconds;
  if (watch->broken) watches.broken--;
  watch->broken = false;
  RengaMemoryKeep(watches.broken > 0);
  return RENGA_SUCCESS;
}

double RengaWatchGetLimit_Private(MPI_Comm comm)
{
  RengaWatch watch = RengaWatchOf(comm);
  return watch ? watch->limit : watches.limit;
}

bool RengaWatchIsBroken_Private(MPI_Comm comm)
{
  RengaWatch watch = RengaWatchOf(comm);
  return watch && watch->broken;
}

void RengaWatchBreak_Private(MPI_Comm comm)
{
  RengaWatch watch = RengaWatchOf(comm);
  if (watch && !watch->broken) watches.broken++;
  if (watch) watch->broken = true;
  RengaMemoryKeep(true);
}
