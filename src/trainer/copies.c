/* Memory for checkpoints beside that of the plan: for those that are written while training goes
   on, and for those that stay in memory. */
#include "mean.h"

/* The parts of tensors that this rank writes: of its learners, and in the first group of the mean.
 */
static RengaErrorCode CountOwnBytes(const RengaLearners *learners, int64_t *bytes)
{
  const RengaPersistent *tensor;
  int count;
  *bytes = 0;
  RengaCall(RengaPipelineGetPersistents(learners->pipeline[0], &count, &tensor));
  for (int i = 0; i < count; i++) {
    const bool mean = learners->apart && learners->group == 0 && learners->mean->taken[i];
    if (tensor[i].owner) *bytes += (learners->own + mean) * RengaPersistentGetBytes(&tensor[i]);
  }
  return RENGA_SUCCESS;
}

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
  RengaCheck(limit <= 0 || bytes + own <= limit, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s %s to memory of the host, of which the plan takes %s: that is more than "
             "-partition_memory %s; give %s, or %s",
             what, copies, taken, given, needed, advice);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOwnCopies(const RengaLearners *learners, RengaPlan plan)
{
  int64_t bytes;
  RengaCall(CountOwnBytes(learners, &bytes));
  RengaCall(CheckOwnMemory(learners, plan, bytes, "-checkpoint_async copies",
                           "write checkpoints at once"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckCopies(const RengaLearners *learners, RengaPlan plan,
                                RengaCheckpoint checkpoint)
{
  RengaDevice device;
  bool async;
  RengaCall(RengaCheckpointGetAsync(checkpoint, &async));
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  if (!async || !RengaDeviceIsHost(device)) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(learners->printer, CheckOwnCopies(learners, plan)));
  return RENGA_SUCCESS;
}

/* Beside the copies of -checkpoint_async. */
static RengaErrorCode CheckMemoryToo(const RengaLearners *learners, RengaPlan plan, int64_t bytes,
                                     bool async)
{
  int64_t copies = 0;
  if (async) RengaCall(CountOwnBytes(learners, &copies));
  RengaCall(CheckOwnMemory(learners, plan, bytes + copies,
                           async ? "-checkpoint_memory and -checkpoint_async copy"
                                 : "-checkpoint_memory copies",
                           "keep no checkpoints in memory"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReserveMemory(const RengaLearners *learners, RengaPlan plan,
                                  RengaCheckpoint checkpoint)
{
  RengaDevice device;
  RengaRequest request = NULL;
  int64_t bytes = 0;
  int steps;
  const char *folder;
  char text[16];
  bool async;
  RengaCall(RengaCheckpointGetAsync(checkpoint, &async));
  RengaCall(RengaCheckpointGetMemory(checkpoint, &steps, &folder));
  if (steps == 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointReserveMemory(checkpoint, &bytes));
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  if (RengaDeviceIsHost(device))
    RengaCall(RengaErrorAgree(learners->printer, CheckMemoryToo(learners, plan, bytes, async)));
  RengaCall(RengaCommStartLargest(learners->all, 1, &bytes, &request));
  RengaCall(RengaCommWait(learners->all, &request, "the memory of all ranks"));
  RengaFormatBytes((double)bytes, sizeof text, text);
  RengaCall(RengaPrintf(learners->printer,
                        "-checkpoint_memory takes up to %s of a rank's node, in %s, beside the "
                        "forecast\n",
                        text, folder));
  return RENGA_SUCCESS;
}
