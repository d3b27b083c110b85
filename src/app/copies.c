/* Checkpoints that are written while training goes on: memory for them beside that of the plan, and
   their end where a step fails. */
#include "mean.h"

/* The parts of tensors that this rank writes: of its learners, and in the first group of the mean.
 */
static RengaErrorCode CountOwnBytes(const AppLearners *learners, int64_t *bytes)
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

static RengaErrorCode CheckOwnCopies(const AppLearners *learners, RengaPlan plan)
{
  char copies[16], taken[16], given[16], needed[16];
  RengaPipelineMemory memory;
  int64_t bytes, limit;
  RengaCall(RengaPlanGetMemoryLimit(plan, &limit)); /* of one learner */
  RengaCall(RengaPipelineGetMemory(learners->pipeline[0], &memory));
  RengaCall(CountOwnBytes(learners, &bytes));
  const int64_t own = memory.forecast * learners->own;
  limit *= learners->own;
  RengaFormatBytes((double)bytes, sizeof copies, copies);
  RengaFormatBytes((double)own, sizeof taken, taken);
  RengaFormatBytes((double)limit, sizeof given, given);
  RengaFormatBytes((double)(bytes + own), sizeof needed, needed);
  RengaCheck(limit <= 0 || bytes + own <= limit, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "-checkpoint_async copies %s to memory of the host, of which the plan takes %s: that "
             "is more than -partition_memory %s; give %s, or write checkpoints at once",
             copies, taken, given, needed);
  return RENGA_SUCCESS;
}

RengaErrorCode AppCheckCopies(const AppLearners *learners, RengaPlan plan)
{
  MPI_Comm ranks;
  RengaDevice device;
  bool async;
  RengaCall(RengaOptionsGetBool("checkpoint_async", &async, NULL));
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  if (!async || !RengaDeviceIsHost(device)) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(learners->all, &ranks));
  RengaCall(RengaErrorAgree(ranks, CheckOwnCopies(learners, plan)));
  return RENGA_SUCCESS;
}

/* A step that was not finite: the checkpoint that it went on from must not be resumed for ever. */
static void MarkAfterFailure(RengaPipeline pipeline, int64_t step, RengaCheckpoint checkpoint)
{
  RengaPipelineStepInfo info;
  int64_t count = 0;
  if (RengaPipelineGetNonfiniteCount(pipeline, &count) != RENGA_SUCCESS || count == 0)
    return; /* other numbers were wrong */
  if (RengaPipelineGetLastStep(pipeline, &info) == RENGA_SUCCESS && !info.finite &&
      info.step == step)
    RengaCheckpointMarkBad(checkpoint);
}

/* Only where all ranks have the error: a device's fault is that of a rank alone. */
void AppEndCheckpoints(RengaPipeline pipeline, int64_t step, RengaErrorCode code,
                       RengaCheckpoint *checkpoint)
{
  if (code == RENGA_ERR_TIMEOUT || code == RENGA_ERR_LIBRARY || code == RENGA_ERR_INTERNAL ||
      code == RENGA_ERR_MEMORY)
    return;
  if (code == RENGA_ERR_NUMERIC) MarkAfterFailure(pipeline, step, *checkpoint);
  RengaCheckpointDestroy(checkpoint); /* ends a file that is under way */
}
