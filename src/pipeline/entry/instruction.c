/* One instruction of a program, with the bases that are set: a kernel, a copy, a sum or a fill. */
#include "entry.h"

static RengaErrorCode RunKernel(Chunk *chunk, const Instruction *row,
                                const RengaKernelContext *context)
{
  const void **in = chunk->argument;
  void **out = (void **)(chunk->argument + row->n_in);
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
