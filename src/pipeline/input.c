/* Inputs of micro-batches. On a device whose memory is the host's they are read in place. Elsewhere
   they are read into an instance on the host, one for each slot, and copied on a stream of their
   own, so that copies overlap with computing. Two events of each slot keep the order: `copied`, for
   the first kernel that reads the slot and for the host, which may fill the instance again; and
   `used`, for the next copy to the slot. */
#include "pipelineimpl.h"
#include "renga/private/quiet.h"

/* After the arena. */
RengaErrorCode RengaChunkSetUpInputs_Private(Chunk *chunk)
{
  ChunkInputs *ring = chunk->inputs;
  if (RengaDeviceIsHost(chunk->device) || chunk->sizes->input_bytes == 0) return RENGA_SUCCESS;
  RengaCall(RengaDeviceHostMalloc(
      chunk->device, (size_t)(chunk->memory->slots * chunk->sizes->input_bytes), &ring->host));
  RengaCall(RengaMalloc(chunk->memory->slots, &ring->copied));
  RengaCall(RengaMalloc(chunk->memory->slots, &ring->used));
  for (int s = 0; s < chunk->memory->slots; s++) {
    RengaCall(RengaEventCreate(chunk->device, &ring->copied[s]));
    RengaCall(RengaEventCreate(chunk->device, &ring->used[s]));
  }
  return RENGA_SUCCESS;
}

/* However far it came; no copy is under way. */
RengaErrorCode RengaChunkFreeInputs_Private(Chunk *chunk)
{
  ChunkInputs *ring = chunk->inputs;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int s = 0; ring->used && s < chunk->memory->slots; s++) {
    RengaKeepFirst_Private(&code, RengaEventDestroy(chunk->device, &ring->copied[s]));
    RengaKeepFirst_Private(&code, RengaEventDestroy(chunk->device, &ring->used[s]));
  }
  RengaFree(&ring->field);
  RengaFree(&ring->copied);
  RengaFree(&ring->used);
  RengaKeepFirst_Private(&code, RengaDeviceHostFree(chunk->device, &ring->host));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* One field by the function of the program, whose error may be a bare code. */
static RengaErrorCode ReadInputField(Chunk *chunk, const Pass *pass, const Field *field,
                                     int64_t first, int64_t samples, char *to)
{
  const int64_t errors = RengaErrorCount_Private();
  const RengaErrorCode code =
      pass->batch->read(pass->batch->user, field->field, first, samples, to);
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "the function that reads the batch returned %d for field %d (%s), samples %lld to "
             "%lld of step %lld, on rank %d",
             (int)code, field->field, RengaGraphGetValue(chunk->sub, field->value)->name,
             (long long)first, (long long)(first + samples - 1), (long long)chunk->pipeline->step,
             RengaCommGetRank(chunk->pipeline->rank->all));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The fields that a program needs, each to its place behind `to`. */
static RengaErrorCode ReadAllFields(Chunk *chunk, const Pass *pass, const Program *program,
                                    int64_t number, char *to)
{
  const int64_t first = RengaPassTurn_Private(pass, number) * chunk->outline->microbatch;
  for (int f = 0; f < chunk->inputs->n_fields; f++)
    if (program->reads[f])
      RengaCall(ReadInputField(chunk, pass, &chunk->inputs->field[f], first, program->samples,
                               to + chunk->inputs->field[f].offset));
  return RENGA_SUCCESS;
}

/* From the instance of a slot to the slot. Kernels that are queued from now on find it there. */
static RengaErrorCode CopyInstance(Chunk *chunk, const Program *program, int64_t slot)
{
  const ChunkInputs *ring = chunk->inputs;
  const RengaStream stream = chunk->pipeline->rank->copies;
  const int64_t bytes = chunk->sizes->input_bytes;
  char *to = chunk->at->inputs + slot * bytes;
  RengaSpan span;
  RengaCall(RengaEventWait(chunk->device, ring->used[slot], stream));
  RengaCall(RengaSpanBegin_Private(chunk->device, stream, &span));
  if (RengaDeviceGetPoison(chunk->device))
    RengaCall(RengaDeviceSetBytes(chunk->device, stream, to, 0xff, (size_t)bytes));
  for (int f = 0; f < chunk->inputs->n_fields; f++) {
    const Field *field = &chunk->inputs->field[f];
    if (program->reads[f])
      RengaCall(RengaDeviceCopy(chunk->device, stream, RENGA_HOST_TO_DEVICE, to + field->offset,
                                ring->host + slot * bytes + field->offset,
                                RengaTensorSpecBytes(&program->spec[field->value])));
  }
  RengaCall(
      RengaSpanEnd_Private(chunk->device, stream, span, "inputs", "Copy of inputs", 0, "inputs"));
  RengaCall(RengaEventRecord(chunk->device, ring->copied[slot], stream));
  RengaCall(RengaEventWait(chunk->device, ring->copied[slot], NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadThroughRing(Chunk *chunk, const Pass *pass, const Program *program,
                                      int64_t i, int64_t number)
{
  const ChunkInputs *ring = chunk->inputs;
  const int64_t slot = i % chunk->memory->slots;
  RengaCall(RengaPipelineAwaitEvent_Private(chunk->pipeline, ring->copied[slot]));
  RengaCall(
      ReadAllFields(chunk, pass, program, number, ring->host + slot * chunk->sizes->input_bytes));
  RengaCall(CopyInstance(chunk, program, slot));
  return RENGA_SUCCESS;
}

/* Fields that the program needs, of micro-batch number in place i, into the slot of the bases. */
RengaErrorCode RengaChunkReadFields_Private(Chunk *chunk, const Pass *pass, const Program *program,
                                            int64_t i, int64_t number)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_READ);
  RengaLogEventBegin(event);
  const RengaErrorCode code = chunk->inputs->host ? ReadThroughRing(chunk, pass, program, i, number)
                                                  : ReadAllFields(chunk, pass, program, number,
                                                                  chunk->at->region[REGION_INPUTS]);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* After the last action that reads the inputs of the micro-batch in place i. */
RengaErrorCode RengaChunkReleaseInputs_Private(Chunk *chunk, int64_t i)
{
  if (chunk->inputs->host)
    RengaCall(RengaEventRecord(chunk->device, chunk->inputs->used[i % chunk->memory->slots], NULL));
  return RENGA_SUCCESS;
}
