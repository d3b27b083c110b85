/* Kernels that follow each other, with the bases that are set: one by one, or as a recording, where
   the device makes such (recording.h). Messages move between them, signals wait. They are left out
   as soon as some rank is known to have failed.

   What is run again with the same addresses is recorded, and replayed from then on: all is queued
   by one call. The addresses follow from the bases of the regions that it has places in: from the
   slots, the instances of messages, and the gradient buffer of the micro-batch. What else may
   differ from step to step is read from the device's memory (step and sample of random numbers, the
   scale of the loss, sums over the batch) or stands between kernels (inputs, updates, messages). */
#include "entry.h"
#include "renga/private/device.h"
#include "renga/private/recording.h"

enum { MOST_RECORDED = 256 }; /* of one entry: others are run as they are */

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

static RengaErrorCode RunInstruction(Chunk *chunk, const Instruction *row,
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

static void MarkRegion(bool used[], const Place *place)
{
  if (place->region != REGION_ABSENT) used[place->region] = true;
}

static bool IsRecordable(const Sequence *sequence, const Entry *entry)
{
  for (int i = entry->first; i < entry->last; i++) {
    const RengaKernel kernel = sequence->row[i].kernel;
    if (kernel && !RengaKernelCanBeRecorded_Private(kernel)) return false;
  }
  return true;
}

static int PlacesOfInstruction(const Instruction *row)
{
  if (row->kind == INSTRUCTION_KERNEL) return row->n_in + row->n_out;
  return 2;
}

/* The regions that the entry has places in. */
static RengaErrorCode FindRegions(Chunk *chunk, const Sequence *sequence, Entry *entry)
{
  const int regions = REGION_MESSAGE + chunk->outline->n_messages;
  bool *used;
  RengaCall(RengaMalloc(regions, &used));
  const RengaErrorCode code = RengaMalloc(regions, &entry->region);
  for (int i = entry->first; i < entry->last && !code; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < PlacesOfInstruction(row); p++) MarkRegion(used, &row->place[p]);
    if (row->kind == INSTRUCTION_KERNEL) MarkRegion(used, &row->workspace);
  }
  for (int r = 0; r < regions && !code; r++)
    if (used[r]) entry->region[entry->n_regions++] = r;
  RengaFree(&used);
  RengaCall(code);
  entry->recordable = IsRecordable(sequence, entry);
  entry->known = true;
  return RENGA_SUCCESS;
}

/* With the bases that are set; NULL: it was not run with them yet. */
static RecordedKernels *FindRecorded(const Chunk *chunk, const Entry *entry,
                                     const RengaKernelContext *context)
{
  for (int k = 0; k < entry->n_recorded; k++) {
    RecordedKernels *row = &entry->recorded[k];
    bool same = row->training == context->training && row->seed == context->seed;
    for (int r = 0; r < entry->n_regions && same; r++)
      same = row->base[r] == chunk->at->region[entry->region[r]];
    if (same) return row;
  }
  return NULL;
}

static RengaErrorCode Remember(const Chunk *chunk, Entry *entry, const RengaKernelContext *context)
{
  RecordedKernels row = {.training = context->training, .seed = context->seed};
  if (entry->n_recorded == MOST_RECORDED) return RENGA_SUCCESS;
  if (entry->n_recorded % 8 == 0) RengaCall(RengaRealloc(entry->n_recorded + 8, &entry->recorded));
  RengaCall(RengaMalloc(entry->n_regions + 1, &row.base));
  for (int r = 0; r < entry->n_regions; r++) row.base[r] = chunk->at->region[entry->region[r]];
  entry->recorded[entry->n_recorded++] = row;
  return RENGA_SUCCESS;
}

/* Where the device refuses, there is no recording, and no error: what queues on it failed for that
   alone, or fails again when the entry is run as it is. */
static RengaErrorCode Record(Chunk *chunk, const Sequence *sequence, const Entry *entry,
                             const RengaKernelContext *context, RecordedKernels *row)
{
  RengaErrorCode code = RengaRecordingBegin_Private(chunk->device);
  for (int i = entry->first; i < entry->last && !code; i++)
    code = RunInstruction(chunk, &sequence->row[i], context);
  const RengaErrorCode ended = RengaRecordingEnd_Private(chunk->device, &row->recording);
  if (!ended && !RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  RengaKeepFirst_Private(&code, ended);
  if (code)
    RengaKeepFirst_Private(&code, RengaRecordingDestroy_Private(chunk->device, &row->recording));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first run of an entry with its addresses is as without recordings: kernels may ask the
   device for memory then. done: it was queued; else the caller runs it. */
static RengaErrorCode ReplayKernels(const EntryTask *task, Entry *entry, bool *done)
{
  Chunk *chunk = task->chunk;
  const Sequence *sequence = task->sequence;
  const RengaKernelContext *context = task->context;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REPLAY);
  *done = false;
  if (!RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  if (!entry->known) RengaCall(FindRegions(chunk, sequence, entry));
  if (!entry->recordable) return RENGA_SUCCESS;
  RecordedKernels *row = FindRecorded(chunk, entry, context);
  if (!row) {
    RengaCall(Remember(chunk, entry, context));
    return RENGA_SUCCESS;
  }
  if (!row->recording) RengaCall(Record(chunk, sequence, entry, context, row));
  if (!row->recording) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaRecordingReplay_Private(chunk->device, row->recording, context);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkForgetRecordings_Private(const Chunk *chunk, Entry *entry)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int k = 0; k < entry->n_recorded; k++) {
    RengaKeepFirst_Private(
        &code, RengaRecordingDestroy_Private(chunk->device, &entry->recorded[k].recording));
    RengaFree(&entry->recorded[k].base);
  }
  RengaFree(&entry->recorded);
  RengaFree(&entry->region);
  RengaCall(code);
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
  RengaCall(ReplayKernels(task, entry, &done));
  if (done) RengaCall(RengaCommProgress(all));
  for (int i = entry->first; i < entry->last && !done && PassGoesOn(task); i++) {
    RengaCall(RunInstruction(task->chunk, &task->sequence->row[i], task->context));
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
