/* Ranks that share cores: a plan is predicted with a core for each of their threads. */
#include "app.h"
#include <unistd.h>

/* Of a rank, in a step. */
typedef struct {
  int node, threads; /* 0 threads: idle, or not a host's */
  int64_t cores;     /* of the node */
  double seconds;    /* that its threads are busy */
} Load;

static RengaErrorCode FindLoad(RengaComm comm, RengaPlan plan, RengaDevice device, Load *load)
{
  RengaPlanPrediction prediction;
  int stage, replica, stages = RengaPlanGetStageCount(plan);
  int64_t batch, microbatch;
  *load = (Load){.cores = sysconf(_SC_NPROCESSORS_ONLN)};
  RengaCall(RengaCommGetNode(comm, &load->node, NULL, NULL, NULL));
  RengaCall(RengaPlanFindRank(plan, RengaCommGetRank(comm), &stage, &replica));
  if (stage < 0 || !RengaDeviceIsHost(device)) return RENGA_SUCCESS;
  RengaCall(RengaDeviceGetThreads(device, &load->threads));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  const RengaPlanStage *row = RengaPlanGetStage(plan, stage);
  const int64_t all = RengaPlanMicrobatches(plan, batch);
  const int64_t mine = RengaPlanBound(all, row->shape.replicas, replica + 1) -
                       RengaPlanBound(all, row->shape.replicas, replica);
  const int across = stages / row->shape.chunks; /* that the rank's stages are apart */
  double seconds = 0;
  for (int s = stage; s < stages; s += across) {
    const RengaPlanStage *own = RengaPlanGetStage(plan, s);
    seconds += own->forward_seconds + own->backward_seconds;
  }
  load->seconds = (double)mine * seconds + prediction.update;
  return RENGA_SUCCESS;
}

/* Of the nodes with more threads than cores the one that has the most to do for its cores. */
static void FindFullest(int size, const Load all[], AppShare *share)
{
  for (int first = 0; first < size; first++) {
    AppShare node = {.cores = all[first].cores};
    double seconds = 0;
    for (int r = 0; r < size; r++) {
      if (all[r].node != all[first].node || !all[r].threads) continue;
      node.ranks++;
      node.threads += all[r].threads;
      seconds += all[r].seconds * all[r].threads;
    }
    if (node.cores < 1 || node.threads <= node.cores) continue;
    node.least = seconds / (double)node.cores;
    if (node.least > share->least) *share = node;
  }
}

RengaErrorCode AppFindShare(RengaComm comm, RengaPlan plan, RengaDevice device, AppShare *share)
{
  Load mine, *all = NULL;
  const int size = RengaCommGetSize(comm);
  *share = (AppShare){0};
  RengaCall(FindLoad(comm, plan, device, &mine));
  RengaCall(RengaMalloc(size, &all));
  const RengaErrorCode code =
      RengaCommGather(comm, &mine, sizeof mine, all, -1, "the threads of all ranks");
  if (!code) FindFullest(size, all, share);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}
