/* Segments of programs as recordings, where the device makes such (recording.h). One that is run
   again with the same addresses is recorded, and replayed from then on: its kernels are queued
   by one call. The addresses follow from the bases of the regions that it has places in: from
   the slots, the instances of messages, and the gradient buffer of the micro-batch. What else
   may differ from step to step is read from the device's memory (step and sample of random
   numbers, the scale of the loss, sums over the batch) or stands outside of segments (inputs,
   updates, messages). */
#include "pipelineimpl.h"
#include "renga/private/recording.h"

enum { MOST_RECORDED = 256 }; /* of one segment: others are run as they are */

static void MarkRegion(bool used[], const Place *place)
{
  if (place->region != REGION_ABSENT) used[place->region] = true;
}

static bool IsRecordable(const Sequence *sequence, const Segment *segment)
{
  for (int i = segment->first; i < segment->end; i++) {
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

/* The regions that the segment has places in. */
static RengaErrorCode FindRegions(Chunk *chunk, const Sequence *sequence, Segment *segment)
{
  const int regions = REGION_MESSAGE + chunk->outline->n_messages;
  bool *used;
  RengaCall(RengaMalloc(regions, &used));
  const RengaErrorCode code = RengaMalloc(regions, &segment->region);
  for (int i = segment->first; i < segment->end && !code; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < PlacesOfInstruction(row); p++) MarkRegion(used, &row->place[p]);
    if (row->kind == INSTRUCTION_KERNEL) MarkRegion(used, &row->workspace);
  }
  for (int r = 0; r < regions && !code; r++)
    if (used[r]) segment->region[segment->n_regions++] = r;
  RengaFree(&used);
  RengaCall(code);
  segment->recordable = IsRecordable(sequence, segment);
  segment->known = true;
  return RENGA_SUCCESS;
}

/* With the bases that are set; NULL: it was not run with them yet. */
static RecordedSegment *FindRecorded(const Chunk *chunk, const Segment *segment,
                                     const RengaKernelContext *context)
{
  for (int k = 0; k < segment->n_recorded; k++) {
    RecordedSegment *row = &segment->recorded[k];
    bool same = row->training == context->training && row->seed == context->seed;
    for (int r = 0; r < segment->n_regions && same; r++)
      same = row->base[r] == chunk->base[segment->region[r]];
    if (same) return row;
  }
  return NULL;
}

static RengaErrorCode Remember(const Chunk *chunk, Segment *segment,
                               const RengaKernelContext *context)
{
  RecordedSegment row = {.training = context->training, .seed = context->seed};
  if (segment->n_recorded == MOST_RECORDED) return RENGA_SUCCESS;
  if (segment->n_recorded % 8 == 0)
    RengaCall(RengaRealloc(segment->n_recorded + 8, &segment->recorded));
  RengaCall(RengaMalloc(segment->n_regions + 1, &row.base));
  for (int r = 0; r < segment->n_regions; r++) row.base[r] = chunk->base[segment->region[r]];
  segment->recorded[segment->n_recorded++] = row;
  return RENGA_SUCCESS;
}

/* Where the device refuses, there is no recording, and no error: what queues on it failed for that
   alone, or fails again when the segment is run as it is. */
static RengaErrorCode Record(Chunk *chunk, const Sequence *sequence, const Segment *segment,
                             const RengaKernelContext *context, RecordedSegment *row)
{
  RengaErrorCode code = RengaRecordingBegin_Private(chunk->device);
  for (int i = segment->first; i < segment->end && !code; i++)
    code = RengaChunkRunInstruction_Private(chunk, &sequence->row[i], context);
  const RengaErrorCode ended = RengaRecordingEnd_Private(chunk->device, &row->recording);
  if (!ended && !RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  RengaKeepFirst_Private(&code, ended);
  if (code)
    RengaKeepFirst_Private(&code, RengaRecordingDestroy_Private(chunk->device, &row->recording));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first run of a segment with its addresses is as without recordings: kernels may ask the
   device for memory then. done: it was queued; else the caller runs it. */
RengaErrorCode RengaChunkReplay_Private(Chunk *chunk, const Sequence *sequence, Segment *segment,
                                        const RengaKernelContext *context, bool *done)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REPLAY);
  *done = false;
  if (!RengaDeviceRecords_Private(chunk->device)) return RENGA_SUCCESS;
  if (!segment->known) RengaCall(FindRegions(chunk, sequence, segment));
  if (!segment->recordable) return RENGA_SUCCESS;
  RecordedSegment *row = FindRecorded(chunk, segment, context);
  if (!row) {
    RengaCall(Remember(chunk, segment, context));
    return RENGA_SUCCESS;
  }
  if (!row->recording) RengaCall(Record(chunk, sequence, segment, context, row));
  if (!row->recording) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaRecordingReplay_Private(chunk->device, row->recording, context);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkForgetRecordings_Private(const Chunk *chunk, Segment *segment)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int k = 0; k < segment->n_recorded; k++) {
    RengaKeepFirst_Private(
        &code, RengaRecordingDestroy_Private(chunk->device, &segment->recorded[k].recording));
    RengaFree(&segment->recorded[k].base);
  }
  RengaFree(&segment->recorded);
  RengaFree(&segment->region);
  RengaCall(code);
  return RENGA_SUCCESS;
}
