/* Kernels that follow each other, with the bases that are set: one by one, or as a recording. Messages
   move between them, signals wait. They are left out as soon as some rank is known to have failed. */
#include "../memory.h"
#include "entry.h"
#include "renga/private/device.h"

static RengaErrorCode RunKernel(Chunk *chunk, const Instruction *row,
                                const RengaKernelContext *context)
{
  const void **in = chunk->programs->argument;
  void **out = (void **)(chunk->programs->argument + row->n_in);
  for (int i = 0; i < row->n_in; i++) in[i] = RengaChunkAt_Private(chunk, row->place[i]);
  for (int o = 0; o < row->n_out; o++)
    out[o] = RengaChunkAt_Private(chunk, row->place[row->n_in + o]);
  RengaCall(RengaKernelRun(row->kernel, NULL, context, in, out,
                           RengaChunkAt_Private(chunk, row->workspace)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkRunInstruction_Private(Chunk *chunk, const Instruction *row,
                                                const RengaKernelContext *context)
{
  if (row->kind == INSTRUCTION_KERNEL) {
    RengaCall(RunKernel(chunk, row, context));
    return RENGA_SUCCESS;
  }
  const void *from = RengaChunkAt_Private(chunk, row->place[0]);
  void *to = RengaChunkAt_Private(chunk, row->place[1]);
  if (row->kind == INSTRUCTION_COPY)
    RengaCall(
        RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE, to, from, (size_t)row->bytes));
  else if (row->kind == INSTRUCTION_ZERO)
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, to, 0, (size_t)row->bytes));
  else
    RengaCall(RengaDeviceAdd(chunk->device, NULL, row->type,
                             row->bytes / (int64_t)RengaDataTypeSize(row->type), to, from));
  return RENGA_SUCCESS;
}

static bool PassGoesOn(const EntryTask *task)
{
  return !RengaPipelineHears_Private(task->chunk->pipeline, task->pass, false);
}

static RengaErrorCode RunKernels(const EntryTask *task, Entry *entry)
{
  const RengaComm all = task->chunk->pipeline->rank->all;
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

static RengaErrorCode Start(const EntryTask *task, Entry *entry)
{
  if (!PassGoesOn(task)) return RENGA_SUCCESS;
  RengaDeviceHoldSignals_Private();
  const RengaErrorCode code = RunKernels(task, entry);
  RengaDeviceReleaseSignals_Private();
  RengaCall(RengaPipelineNote_Private(task->chunk->pipeline, task->pass, code));
  return RENGA_SUCCESS;
}

const EntryRule RengaKernelsEntry_Private = {.name = "kernels", .own = true, .start = Start};
