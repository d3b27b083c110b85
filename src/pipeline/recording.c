/* Parts of programs as recordings, where the device makes such (recording.h). A part that is run
   again with the same addresses is recorded, and replayed from then on: its kernels are queued by
   one call. The addresses follow from the bases of the regions that the part has places in: from
   the slots, the instances of messages, and the gradient buffer of the micro-batch. What else may
   differ from step to step is read from the device's memory (step and sample of random numbers, the
   scale of the loss, sums over the batch) or stands outside of parts (inputs, updates). */
#include "pipelineimpl.h"
#include "renga/private/recording.h"

enum { MOST_RECORDED = 256 }; /* of one part: others are run as they are */

static void MarkRegion(bool used[], const Place *place)
{
  if (place->region != REGION_ABSENT) used[place->region] = true;
}

static bool IsRecordable(const Sequence *sequence)
{
  for (int i = 0; i < sequence->count; i++)
    if (sequence->row[i].kernel && !RengaKernelCanBeRecorded_Private(sequence->row[i].kernel))
      return false;
  return sequence->count > 0;
}

static int PlacesOfInstruction(const Instruction *row)
{
  if (row->kind == INSTRUCTION_KERNEL) return row->n_in + row->n_out;
  return 2;
}

/* The regions that the part has places in. */
static RengaErrorCode FindRegions(Chunk *chunk, Sequence *sequence)
{
  RecordedParts *parts = &sequence->recorded;
  const int regions = REGION_MESSAGE + chunk->outline->n_messages;
  bool *used;
  RengaCall(RengaMalloc(regions, &used));
  const RengaErrorCode code = RengaMalloc(regions, &parts->region);
  for (int i = 0; i < sequence->count && !code; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < PlacesOfInstruction(row); p++) MarkRegion(used, &row->place[p]);
    if (row->kind == INSTRUCTION_KERNEL) MarkRegion(used, &row->workspace);
  }
  for (int r = 0; r < regions && !code; r++)
    if (used[r]) parts->region[parts->n_regions++] = r;
  RengaFree(&used);
  RengaCall(code);
  parts->recordable = IsRecordable(sequence);
  parts->known = true;
  return RENGA_SUCCESS;
}

/* With the bases that are set; NULL: it was not run with them yet. */
static RecordedPart *FindRecordedPart(const Chunk *chunk, const RecordedParts *parts,
                                      const RengaKernelContext *context)
{
  for (int k = 0; k < parts->count; k++) {
    RecordedPart *row = &parts->row[k];
    bool same = row->training == context->training && row->seed == context->seed;
    for (int r = 0; r < parts->n_regions && same; r++)
      same = row->base[r] == chunk->base[parts->region[r]];
    if (same) return row;
  }
  return NULL;
}

static RengaErrorCode RememberPart(const Chunk *chunk, RecordedParts *parts,
                                   const RengaKernelContext *context)
{
  RecordedPart row = {.training = context->training, .seed = context->seed};
  if (parts->count == MOST_RECORDED) return RENGA_SUCCESS;
  if (parts->count % 8 == 0) RengaCall(RengaRealloc(parts->count + 8, &parts->row));
  RengaCall(RengaMalloc(parts->n_regions + 1, &row.base));
  for (int r = 0; r < parts->n_regions; r++) row.base[r] = chunk->base[parts->region[r]];
  parts->row[parts->count++] = row;
  return RENGA_SUCCESS;
}

/* Where the device refuses, there is no recording, and no error: what queues on it failed for that
   alone, or fails again when the part is run as it is. */
static RengaErrorCode RecordPart(Chunk *chunk, const Sequence *sequence,
                                 const RengaKernelContext *context, RecordedPart *row)
{
  RengaErrorCode code = RengaRecordingBegin_Private(chunk->device);
  for (int i = 0; i < sequence->count && !code; i++)
    code = RengaChunkRunInstruction_Private(chunk, &sequence->row[i], context);
  const RengaErrorCode ended = RengaRecordingEnd_Private(chunk->device, &row->recording);
  if (!ended && !RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  RengaKeepFirst_Private(&code, ended);
  if (code)
    RengaKeepFirst_Private(&code, RengaRecordingDestroy_Private(chunk->device, &row->recording));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first run of a part with its addresses is as without recordings: kernels may ask the device
   for memory then. done: it was queued; else the caller runs it. */
RengaErrorCode RengaChunkReplay_Private(Chunk *chunk, Sequence *sequence,
                                        const RengaKernelContext *context, bool *done)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REPLAY);
  RecordedParts *parts = &sequence->recorded;
  *done = false;
  if (!RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  if (!parts->known) RengaCall(FindRegions(chunk, sequence));
  if (!parts->recordable) return RENGA_SUCCESS;
  RecordedPart *row = FindRecordedPart(chunk, parts, context);
  if (!row) {
    RengaCall(RememberPart(chunk, parts, context));
    return RENGA_SUCCESS;
  }
  if (!row->recording) RengaCall(RecordPart(chunk, sequence, context, row));
  if (!row->recording) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaRecordingReplay_Private(chunk->device, row->recording, context);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkForgetRecordings_Private(const Chunk *chunk, Sequence *sequence)
{
  RecordedParts *parts = &sequence->recorded;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int k = 0; k < parts->count; k++) {
    RengaKeepFirst_Private(&code,
                           RengaRecordingDestroy_Private(chunk->device, &parts->row[k].recording));
    RengaFree(&parts->row[k].base);
  }
  RengaFree(&parts->row);
  RengaFree(&parts->region);
  *parts = (RecordedParts){.count = 0};
  RengaCall(code);
  return RENGA_SUCCESS;
}
