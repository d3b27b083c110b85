/* Tables whose gradient is a list of rows, in a step: slots are filled by backward, given to all
   replicas and added up (rows.c has the whole). */
#include "rows.h"
#include "renga/private/device.h"
#include <string.h>

/* Before the backward of a micro-batch: its slot. */
RengaErrorCode RengaChunkTakeRows_Private(Chunk *chunk, const RengaAction *action)
{
  const int64_t bytes = chunk->sizes->row_slot_bytes;
  chunk->at->region[REGION_ROWS] = chunk->rows->base + action->microbatch * bytes;
  const bool makes =
      action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_INPUT;
  if (bytes > 0 && makes && RengaDeviceGetPoison(chunk->device))
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at->region[REGION_ROWS], 0xff,
                                  (size_t)bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartRowGather(Chunk *chunk, Pass *pass)
{
  RowLists *rows = chunk->rows;
  const RengaCommSumTask task = {.blocks = rows->blocks,
                                 .type = RENGA_FLOAT32,
                                 .result = rows->base,
                                 .adder = RengaConvoyGetAdder_Private(rows->convoy),
                                 .carrier = RengaConvoyGetCarrier_Private(rows->convoy)};
  RengaCall(RengaChunkStartSum_Private(chunk, pass, chunk->group, &task, RengaCommAllGatherBegin,
                                       &rows->gather));
  return RENGA_SUCCESS;
}

/* Bytes of slots that this replica gets from others. */
static int64_t ForeignBytes(const Chunk *chunk)
{
  const RowLists *rows = chunk->rows;
  const int64_t own = chunk->portion->last - chunk->portion->first;
  return (rows->used - own) * chunk->sizes->row_slot_bytes;
}

/* Once all slots of this replica are filled. Fails only where messages are left under way. */
RengaErrorCode RengaChunkBeginRows_Private(Chunk *chunk, Pass *pass)
{
  RowLists *rows = chunk->rows;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  if (rows->count == 0 || chunk->replicas == 1 || rows->begun) return RENGA_SUCCESS;
  rows->begun = true;
  RengaLogEventBegin(event);
  const RengaErrorCode code = StartRowGather(chunk, pass);
  RengaLogEventEnd(event, 0, 1, ForeignBytes(chunk));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Before the update. Fails only where messages are left under way. */
RengaErrorCode RengaChunkEndRows_Private(Chunk *chunk, Pass *pass)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  RengaCall(RengaChunkBeginRows_Private(chunk, pass));
  if (!chunk->rows->gather) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaChunkEndSum_Private(
      chunk, pass, "gathers rows of tables of the other replicas in", &chunk->rows->gather);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of slots that are there: the gradients of all rows of the step. */
RengaErrorCode RengaChunkQueueRowSums_Private(Chunk *chunk)
{
  RowLists *rows = chunk->rows;
  for (int l = 0; l < rows->count; l++) {
    const RowList *list = &rows->row[l];
    const RengaRowsTask task = {.slot = rows->base,
                                .stride = chunk->sizes->row_slot_bytes,
                                .gradients = list->gradients_at,
                                .numbers = list->numbers_at,
                                .slots = rows->used,
                                .rows = list->rows,
                                .last_rows = list->last_rows,
                                .leaf = chunk->outline->leaf,
                                .width = list->width,
                                .length = list->length,
                                .padding = list->padding,
                                .wide = list->wide,
                                .index = list->index,
                                .count = list->count,
                                .sum = list->sum,
                                .work = (uint64_t *)(void *)(rows->base + rows->work_at)};
    RengaCall(RengaDeviceSumRows_Private(chunk->device, NULL, &task, &rows->square[l]));
  }
  return RENGA_SUCCESS;
}

/* Once the device was waited for. squares: [parameters of the network] */
void RengaChunkKeepRowSquares_Private(const Chunk *chunk, double squares[])
{
  for (int l = 0; l < chunk->rows->count; l++) {
    const Parameter *parameter = &chunk->parameter[chunk->rows->row[l].parameter];
    if (parameter->owner) squares[parameter->number] = chunk->rows->square[l];
  }
}

/* The list of a parameter that has one. */
static const RowList *ListOf(const Chunk *chunk, const Parameter *parameter)
{
  for (int l = 0; l < chunk->rows->count; l++)
    if (&chunk->parameter[chunk->rows->row[l].parameter] == parameter) return &chunk->rows->row[l];
  return NULL;
}

/* What an update reads instead of a gradient of the whole table. */
void RengaChunkDescribeRows_Private(const Chunk *chunk, const Parameter *parameter,
                                    RengaParameterUpdate *update)
{
  const RowList *list = ListOf(chunk, parameter);
  const int64_t most = chunk->rows->slots * list->rows;
  update->rows = (RengaRows){.width = list->width,
                             .index = list->index,
                             .count = list->count,
                             .most = most,
                             .whole = chunk->outline->sparse == RENGA_SPARSE_EXACT};
  update->gradient = (RengaVector){list->sum, RENGA_FLOAT32, most * list->width};
}

/* The rows of the last step and their sums, as they lie on the device, in memory of the host. */
static RengaErrorCode FetchRows(const Chunk *chunk, const RowList *list, int64_t count,
                                int64_t index[], float sum[])
{
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, index, list->index,
                            (size_t)count * sizeof *index));
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, sum, list->sum,
                            (size_t)(count * list->width) * sizeof *sum));
  RengaCall(RengaPipelineAwaitDevice_Private(chunk->pipeline));
  return RENGA_SUCCESS;
}

/* The whole gradient of a table with a list: gradient is [length][width]. */
RengaErrorCode RengaChunkSpreadRows_Private(const Chunk *chunk, const Parameter *parameter,
                                            float gradient[])
{
  const RowList *list = ListOf(chunk, parameter);
  int64_t count = 0, *index = NULL;
  float *sum = NULL;
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, &count, list->count,
                            sizeof count));
  RengaCall(RengaPipelineAwaitDevice_Private(chunk->pipeline));
  RengaErrorCode code = RengaMalloc(count + 1, &index);
  if (!code) code = RengaMalloc(count * list->width + 1, &sum);
  if (!code) code = FetchRows(chunk, list, count, index, sum);
  memset(gradient, 0, (size_t)parameter->count * sizeof *gradient);
  for (int64_t r = 0; !code && r < count; r++)
    memcpy(gradient + index[r] * list->width, sum + r * list->width,
           (size_t)list->width * sizeof *sum);
  RengaFree(&index);
  RengaFree(&sum);
  RengaCall(code);
  return RENGA_SUCCESS;
}
