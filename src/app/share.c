/* The speed of a run beside its prediction, for which each thread of a rank has a core. */
#include "app.h"
#include <string.h>
#include <unistd.h>

/* Of a rank, in a step. */
typedef struct {
  int node, threads; /* 0 threads: idle, or not a host's */
  int64_t cores;     /* of the node */
  double seconds;    /* that its threads are busy */
} Load;

/* The node whose ranks have more threads than it has cores; 0 ranks: there is none. */
typedef struct {
  int ranks;
  int64_t threads, cores;
  double least; /* seconds that a step takes at the least: processor time over cores */
} CoreShare;

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
  double seconds = 0;
  for (int s = stage; s < stages; s++) {
    const RengaPlanStage *own = RengaPlanGetStage(plan, s);
    if (RengaPlanGetFirstStage(plan, s) != RengaPlanGetFirstStage(plan, stage)) continue;
    seconds += own->forward_seconds + own->backward_seconds;
  }
  load->seconds = (double)mine * seconds + prediction.update;
  return RENGA_SUCCESS;
}

/* Of the nodes with more threads than cores the one that has the most to do for its cores. */
static void FindFullest(int size, const Load all[], CoreShare *share)
{
  for (int first = 0; first < size; first++) {
    CoreShare node = {.cores = all[first].cores};
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

static RengaErrorCode FindCoreShare(RengaComm comm, RengaPlan plan, RengaDevice device,
                                    CoreShare *share)
{
  Load mine, *all = NULL;
  const int size = RengaCommGetSize(comm);
  *share = (CoreShare){0};
  const MPI_Comm printer = AppPrinter(comm);
  RengaErrorCode code = FindLoad(comm, plan, device, &mine);
  if (!code) code = RengaMalloc(size, &all);
  code = RengaErrorAgree(printer, code); /* before any of them waits for the others */
  if (!code) code = RengaCommGather(comm, &mine, sizeof mine, all, -1, "the threads of all ranks");
  if (!code) FindFullest(size, all, share);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SayShare(RengaComm comm, RengaPlan plan, RengaDevice device,
                               AppMonitor monitor, double predicted)
{
  CoreShare share;
  RengaCall(FindCoreShare(comm, plan, device, &share));
  if (!share.ranks) return RENGA_SUCCESS;
  RengaCall(AppMonitorSay(monitor,
                          "%d ranks with %lld threads share %lld cores: a step takes longer than "
                          "predicted, %.4g s at the least (processor time over cores)\n",
                          share.ranks, (long long)share.threads, (long long)share.cores,
                          share.least > predicted ? share.least : predicted));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintSpeed(RengaComm comm, RengaPlan plan, RengaPipeline pipeline,
                             AppMonitor monitor, double seconds)
{
  RengaPlanPrediction prediction;
  RengaDevice device;
  const char *machine, *costs;
  int64_t memory;
  RengaCall(AppMonitorSay(monitor, "%.4g s per step\n", seconds));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  if (prediction.step <= 0) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetOrigin(plan, &machine, &costs, &memory));
  const bool known = machine && costs && strcmp(costs, RENGA_PROFILE_MEASURED) != 0;
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(SayShare(comm, plan, device, monitor, prediction.step));
  RengaCall(AppMonitorSay(monitor, "predicted %.4g s per step%s%s: measured is %.2f times that\n",
                          prediction.step, known ? " on " : "", known ? machine : "",
                          seconds / prediction.step));
  return RENGA_SUCCESS;
}
