/* Memory for checkpoints beside that of the plan: for those that are written while training goes
   on, and for those that stay in memory. */
#include "mean.h"

/* bytes: for checkpoints, by what. */
static RengaErrorCode CheckOwnMemory(const RengaLearners *learners, RengaPlan plan, int64_t bytes,
                                     const char *what, const char *advice)
{
  char copies[16], taken[16], given[16], needed[16];
  RengaPipelineMemory memory;
  int64_t limit;
  RengaCall(RengaPlanGetMemoryLimit(plan, &limit)); /* of one learner */
  RengaCall(RengaPipelineGetMemory(learners->pipeline[0], &memory));
  const int64_t own = memory.forecast * learners->own;
  limit *= learners->own;
  RengaFormatBytes((double)bytes, sizeof copies, copies);
  RengaFormatBytes((double)own, sizeof taken, taken);
  RengaFormatBytes((double)limit, sizeof given, given);
  RengaFormatBytes((double)(bytes + own), sizeof needed, needed);
  RengaCheck(limit <= 0 || bytes == 0 || bytes + own <= limit, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s %s to memory of the host, of which the plan takes %s: that is more than "
             "-partition_memory %s; give %s, or %s",
             what, copies, taken, given, needed, advice);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckCopies(const RengaLearners *learners, RengaPlan plan,
                                RengaCheckpoint checkpoint)
{
  RengaDevice device;
  int64_t bytes;
  RengaCall(RengaCheckpointGetAsyncMemory(checkpoint, &bytes));
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  if (!RengaDeviceIsHost(device)) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(learners->printer,
                            CheckOwnMemory(learners, plan, bytes, "-checkpoint_async copies",
                                           "write checkpoints at once")));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReserveMemory(const RengaLearners *learners, RengaPlan plan,
                                  RengaCheckpoint checkpoint)
{
  RengaDevice device;
  RengaRequest request = NULL;
  int64_t bytes = 0, copies;
  int steps;
  const char *folder;
  char text[16];
  RengaCall(RengaCheckpointGetMemory(checkpoint, &steps, &folder));
  if (steps == 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointReserveMemory(checkpoint, &bytes));
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  RengaCall(RengaCheckpointGetAsyncMemory(checkpoint, &copies));
  const char *what =
      copies > 0 ? "-checkpoint_memory and -checkpoint_async copy" : "-checkpoint_memory copies";
  if (RengaDeviceIsHost(device))
    RengaCall(
        RengaErrorAgree(learners->printer, CheckOwnMemory(learners, plan, bytes + copies, what,
                                                          "keep no checkpoints in memory")));
  RengaCall(RengaCommStartLargest(learners->all, 1, &bytes, &request));
  RengaCall(RengaCommWait(learners->all, &request, "the memory of all ranks"));
  RengaFormatBytes((double)bytes, sizeof text, text);
  RengaCall(RengaPrintf(learners->printer,
                        "-checkpoint_memory takes up to %s of a rank's node, in %s, beside the "
                        "forecast\n",
                        text, folder));
  return RENGA_SUCCESS;
}
