/* Kernels that follow each other, with the bases that are set: one by one, or as a recording.
   Messages move between them, signals wait. They are left out as soon as some rank is known to
   have failed. */
#include "entry.h"
#include "renga/private/device.h"

static bool PassGoesOn(const EntryTask *task)
{
  return !RengaPipelineHears_Private(task->chunk->pipeline, task->pass, false);
}

static RengaErrorCode RunKernels(const EntryTask *task, Entry *entry)
{
  const RengaComm all = task->chunk->pipeline->rank.all;
  bool done = false;
  RengaCall(RengaChunkReplay_Private(task, entry, &done));
  if (done) RengaCall(RengaCommProgress(all));
  for (int i = entry->first; i < entry->last && !done && PassGoesOn(task); i++) {
    RengaCall(
        RengaChunkRunInstruction_Private(task->chunk, &task->sequence->row[i], task->context));
    RengaCall(RengaCommProgress(all));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode StartKernelsEntry(const EntryTask *task, Entry *entry)
{
  if (!PassGoesOn(task)) return RENGA_SUCCESS;
  RengaDeviceHoldSignals_Private();
  const RengaErrorCode code = RunKernels(task, entry);
  RengaDeviceReleaseSignals_Private();
  RengaCall(RengaPipelineNote_Private(task->chunk->pipeline, task->pass, code));
  return RENGA_SUCCESS;
}

const EntryRule RengaKernelsEntry_Private = {
    .name = "kernels", .own = true, .start = StartKernelsEntry};
