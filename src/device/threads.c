/* How many threads a rank should use: the cores its binding allows, shared fairly on the node. */
#include "renga/private/device.h"
#include "renga/private/wait.h"
#include <hwloc.h>
#include <stdlib.h>

/* The number in OMP_NUM_THREADS ("4" or "4,2"), 0 where there is none. */
static int ThreadsOfEnvironment(void)
{
  const char *text = getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  char *end = NULL;
  long threads = strtol(text, &end, 10);
  return end != text && threads > 0 && threads <= 4096 ? (int)threads : 0;
}

/* users[p]: 1 where this process may run on core p. */
static RengaErrorCode FindCores(hwloc_topology_t topology, int count, double users[])
{
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  RengaCheck(set, MPI_COMM_SELF, RENGA_ERR_MEMORY, "hwloc_bitmap_alloc failed");
  if (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(set))
    hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(topology));
  for (int p = 0; p < count; p++) users[p] = hwloc_bitmap_isset(set, (unsigned)p) ? 1 : 0;
  hwloc_bitmap_free(set);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumUsers(MPI_Comm node, int count, double users[], const char *what)
{
  MPI_Request request;
  RengaCallStart(MPI_Iallreduce(users, users + count, count, MPI_DOUBLE, MPI_SUM, node, &request));
  RengaCall(RengaWaitRequest_Private(node, &request, what));
  return RENGA_SUCCESS;
}

/* This rank's share: each core counts 1 / (ranks of this node that may use it). */
static RengaErrorCode ShareCores(MPI_Comm node, hwloc_topology_t topology, double *share)
{
  static const char what[] = "all ranks to count their cores";
  int64_t count = hwloc_bitmap_last(hwloc_topology_get_topology_cpuset(topology)) + 1;
  double *users = NULL; /* [count] this rank's, [count] of all */
  RengaCall(RengaReduceInt64_Private(node, MPI_MAX, &count, what));
  RengaErrorCode code = RengaMalloc(2 * count, &users);
  if (!code) code = FindCores(topology, (int)count, users);
  code = RengaErrorAgree(node, code);
  if (!code) code = SumUsers(node, (int)count, users, what);
  *share = 0;
  for (int p = 0; p < count && !code; p++)
    if (users[p] > 0) *share += 1 / users[count + p];
  RengaFree(&users);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RaiseNoCores(void)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, "hwloc cannot read this machine's cores");
}

/* What this rank has of the node's cores. */
static RengaErrorCode FindShare(MPI_Comm node, double *share)
{
  hwloc_topology_t topology = NULL;
  const bool loaded = hwloc_topology_init(&topology) == 0 && hwloc_topology_load(topology) == 0;
  int64_t all_loaded = loaded;
  RengaErrorCode code =
      RengaReduceInt64_Private(node, MPI_MIN, &all_loaded, "all ranks to look at their cores");
  if (!code) code = all_loaded ? ShareCores(node, topology, share) : RaiseNoCores();
  if (topology) hwloc_topology_destroy(topology);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CountThreads(MPI_Comm comm, int *threads)
{
  MPI_Comm node = MPI_COMM_NULL;
  double share = 0;
  RengaCall(RengaSplitByNode_Private(comm, &node));
  RengaErrorCode code = RengaWatchShare_Private(comm, node);
  if (!code) code = FindShare(node, &share);
  RengaCall(RengaWatchRelease_Private(node));
  RengaCallMPI(MPI_Comm_free(&node));
  RengaCall(code);
  int wanted = ThreadsOfEnvironment();
  *threads = wanted > 0 ? wanted : share > 1 ? (int)(share + 1e-9) : 1;
  return RENGA_SUCCESS;
}

/* Collective the first time for a communicator, which then keeps the answer. */
RengaErrorCode RengaDeviceCountThreads(MPI_Comm comm, int *threads)
{
  static int key = MPI_KEYVAL_INVALID;
  void *kept = NULL;
  int found = 0;
  if (key == MPI_KEYVAL_INVALID)
    RengaCallMPI(
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  RengaCallMPI(MPI_Comm_get_attr(comm, key, (void *)&kept, &found));
  if (found) {
    *threads = (int)(intptr_t)kept;
    return RENGA_SUCCESS;
  }
  RengaCall(CountThreads(comm, threads));
  kept = (void *)(intptr_t)*threads;
  RengaCallMPI(MPI_Comm_set_attr(comm, key, kept));
  return RENGA_SUCCESS;
}
