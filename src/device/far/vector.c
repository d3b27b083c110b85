/* Vectors of the far device: the inner device's, when their turn comes. */
#include "far.h"
#include "renga/private/op.h"
#include <string.h>

static struct _p_RengaDevice *Inner(RengaDevice device)
{
  FarDevice *far = device->data;
  return &far->inner;
}

static RengaErrorCode OpenVector(RengaDevice device, int64_t count, const float x[])
{
  RengaCall(RengaFarOpen_Private(device, x, (size_t)count * sizeof *x));
  return RENGA_SUCCESS;
}

typedef struct {
  int64_t count;
  float *y;
  const float *x;
} FarVector;

static RengaErrorCode CheckVector(RengaDevice device, int64_t count, const float x[],
                                  const char *what)
{
  RengaCall(RengaFarCheckRange_Private(device, x, (size_t)count * sizeof *x, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAdd(RengaDevice device, void *argument)
{
  const FarVector *task = argument;
  RengaCall(OpenVector(device, task->count, task->y));
  RengaCall(OpenVector(device, task->count, task->x));
  RengaCall(Inner(device)->ops->add(Inner(device), NULL, task->count, task->y, task->x));
  return RENGA_SUCCESS;
}

static RengaErrorCode Add_Far(RengaDevice device, RengaStream stream, int64_t count, float y[],
                              const float x[])
{
  FarVector *task;
  RengaCall(CheckVector(device, count, y, "A sum"));
  RengaCall(CheckVector(device, count, x, "A sum"));
  RengaCall(RengaFarQueue_Private(device, stream, "A sum", RunAdd, sizeof *task, &task));
  *task = (FarVector){.count = count, .y = y, .x = x};
  return RENGA_SUCCESS;
}

typedef struct {
  int64_t count;
  RengaDataType from, to;
  const void *x;
  void *y;
} FarConversion;

static RengaErrorCode RunConversion(RengaDevice device, void *argument)
{
  const FarConversion *task = argument;
  const size_t count = (size_t)task->count;
  RengaCall(RengaFarOpen_Private(device, task->x, count * RengaDataTypeSize(task->from)));
  RengaCall(RengaFarOpen_Private(device, task->y, count * RengaDataTypeSize(task->to)));
  RengaCall(Inner(device)->ops->convert(Inner(device), NULL, task->count, task->from, task->x,
                                        task->to, task->y));
  return RENGA_SUCCESS;
}

static RengaErrorCode Convert_Far(RengaDevice device, RengaStream stream, int64_t count,
                                  RengaDataType from, const void *x, RengaDataType to, void *y)
{
  static const char what[] = "A conversion";
  FarConversion *task;
  RengaCall(RengaFarCheckRange_Private(device, x, (size_t)count * RengaDataTypeSize(from), what));
  RengaCall(RengaFarCheckRange_Private(device, y, (size_t)count * RengaDataTypeSize(to), what));
  RengaCall(RengaFarQueue_Private(device, stream, what, RunConversion, sizeof *task, &task));
  *task = (FarConversion){.count = count, .from = from, .to = to, .x = x, .y = y};
  return RENGA_SUCCESS;
}

enum { FAR_ROWS = 256 }; /* of a table that are queued together */

typedef struct {
  int count;
  double *squares; /* of the host */
  RengaVector x[];
} FarNorms;

static RengaErrorCode RunSumsOfSquares(RengaDevice device, void *argument)
{
  const FarNorms *task = argument;
  for (int i = 0; i < task->count; i++)
    RengaCall(OpenVector(device, task->x[i].count, task->x[i].data));
  RengaCall(
      Inner(device)->ops->sumsofsquares(Inner(device), NULL, task->count, task->x, task->squares));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Far(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[])
{
  for (int i = 0; i < count; i++) RengaCall(CheckVector(device, x[i].count, x[i].data, "A norm"));
  for (int first = 0; first < count; first += FAR_ROWS) {
    const int rows = count - first < FAR_ROWS ? count - first : FAR_ROWS;
    FarNorms *task;
    RengaCall(RengaFarQueue_Private(device, stream, "A norm", RunSumsOfSquares,
                                    sizeof *task + (size_t)rows * sizeof *x, &task));
    task->count = rows;
    task->squares = squares;
    memcpy(task->x, x + first, (size_t)rows * sizeof *x);
    for (int i = 0; i < rows; i++) squares += RengaVectorPieces(x[first + i].count);
  }
  return RENGA_SUCCESS;
}

typedef struct {
  RengaSgdStep sgd;
  RengaAdamStep adam;
  double scale;
  int count;
  RengaParameterUpdate row[];
} FarUpdates;

static size_t BytesBeside(const RengaParameterUpdate *update)
{
  return (size_t)update->value.count * RengaDataTypeSize(update->value.type);
}

static RengaErrorCode CheckRowsOf(RengaDevice device, const RengaRows *rows)
{
  RengaCall(RengaFarCheckRange_Private(device, rows->index,
                                       (size_t)rows->most * sizeof *rows->index, "An update"));
  RengaCall(RengaFarCheckRange_Private(device, rows->count, sizeof *rows->count, "An update"));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenRowsOf(RengaDevice device, const RengaRows *rows)
{
  if (!rows->width) return RENGA_SUCCESS;
  RengaCall(RengaFarOpen_Private(device, rows->index, (size_t)rows->most * sizeof *rows->index));
  RengaCall(RengaFarOpen_Private(device, rows->count, sizeof *rows->count));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUpdate(RengaDevice device, const RengaParameterUpdate *update)
{
  const int64_t count = update->parameter.count;
  RengaCall(CheckVector(device, count, update->parameter.data, "An update"));
  RengaCall(CheckVector(device, update->gradient.count, update->gradient.data, "An update"));
  for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
    if (update->moment[m].data)
      RengaCall(CheckVector(device, count, update->moment[m].data, "An update"));
  if (update->value.data)
    RengaCall(
        RengaFarCheckRange_Private(device, update->value.data, BytesBeside(update), "An update"));
  if (update->rows.width) RengaCall(CheckRowsOf(device, &update->rows));
  return RENGA_SUCCESS;
}

/* head: all but the rows. */
static RengaErrorCode QueueUpdates(RengaDevice device, RengaStream stream, FarFunction run,
                                   FarUpdates head, int count, const RengaParameterUpdate updates[])
{
  for (int i = 0; i < count; i++) RengaCall(CheckUpdate(device, &updates[i]));
  for (int first = 0; first < count; first += FAR_ROWS) {
    FarUpdates *task;
    head.count = count - first < FAR_ROWS ? count - first : FAR_ROWS;
    const size_t bytes = (size_t)head.count * sizeof *updates;
    RengaCall(RengaFarQueue_Private(device, stream, "An update", run, sizeof *task + bytes, &task));
    *task = head;
    memcpy(task->row, updates + first, bytes);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenUpdates(RengaDevice device, const FarUpdates *task)
{
  for (int i = 0; i < task->count; i++) {
    const RengaParameterUpdate *update = &task->row[i];
    const int64_t count = update->parameter.count;
    RengaCall(OpenVector(device, count, update->parameter.data));
    RengaCall(OpenVector(device, update->gradient.count, update->gradient.data));
    RengaCall(OpenRowsOf(device, &update->rows));
    for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
      RengaCall(OpenVector(device, count, update->moment[m].data));
    RengaCall(RengaFarOpen_Private(device, update->value.data, BytesBeside(update)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSgd(RengaDevice device, void *argument)
{
  const FarUpdates *task = argument;
  RengaCall(OpenUpdates(device, task));
  RengaCall(Inner(device)->ops->updatesgd(Inner(device), NULL, &task->sgd, task->scale, task->count,
                                          task->row));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateSgd_Far(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[])
{
  const FarUpdates head = {.sgd = *step, .scale = scale};
  RengaCall(QueueUpdates(device, stream, RunSgd, head, count, updates));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAdam(RengaDevice device, void *argument)
{
  const FarUpdates *task = argument;
  RengaCall(OpenUpdates(device, task));
  RengaCall(Inner(device)->ops->updateadam(Inner(device), NULL, &task->adam, task->scale,
                                           task->count, task->row));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam_Far(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  const FarUpdates head = {.adam = *step, .scale = scale};
  RengaCall(QueueUpdates(device, stream, RunAdam, head, count, updates));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaRowsTask sum;
  double *square; /* of the host */
} FarRowSum;

/* From the first slot to the end of the last. */
static size_t BytesOfSlots(const RengaRowsTask *sum)
{
  return (size_t)(sum->slots * sum->stride);
}

static RengaErrorCode RunRowSum(RengaDevice device, void *argument)
{
  const FarRowSum *task = argument;
  const RengaRowsTask *sum = &task->sum;
  const size_t positions = (size_t)RengaRowsTaskPositions(sum);
  RengaCall(RengaFarOpen_Private(device, sum->slot, BytesOfSlots(sum)));
  RengaCall(RengaFarOpen_Private(device, sum->index, positions * sizeof *sum->index));
  RengaCall(RengaFarOpen_Private(device, sum->count, sizeof *sum->count));
  RengaCall(OpenVector(device, (int64_t)positions * sum->width, sum->sum));
  RengaCall(RengaFarOpen_Private(device, sum->work, 2 * positions * sizeof *sum->work));
  RengaCall(Inner(device)->ops->sumrows(Inner(device), NULL, sum, task->square));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumRows_Far(RengaDevice device, RengaStream stream, const RengaRowsTask *sum,
                                  double *square)
{
  static const char what[] = "A sum of rows";
  const size_t positions = (size_t)RengaRowsTaskPositions(sum);
  FarRowSum *task;
  RengaCall(RengaFarCheckRange_Private(device, sum->slot, BytesOfSlots(sum), what));
  RengaCall(RengaFarCheckRange_Private(device, sum->index, positions * sizeof *sum->index, what));
  RengaCall(RengaFarCheckRange_Private(device, sum->count, sizeof *sum->count, what));
  RengaCall(CheckVector(device, (int64_t)positions * sum->width, sum->sum, what));
  RengaCall(RengaFarCheckRange_Private(device, sum->work, 2 * positions * sizeof *sum->work, what));
  RengaCall(RengaFarQueue_Private(device, stream, what, RunRowSum, sizeof *task, &task));
  *task = (FarRowSum){.sum = *sum, .square = square};
  return RENGA_SUCCESS;
}

void RengaFarSetVectors_Private(RengaDevice device)
{
  device->ops->convert = Convert_Far;
  device->ops->add = Add_Far;
  device->ops->sumsofsquares = SumsOfSquares_Far;
  device->ops->updatesgd = UpdateSgd_Far;
  device->ops->updateadam = UpdateAdam_Far;
  device->ops->sumrows = SumRows_Far;
}
