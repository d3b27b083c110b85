/* Vectors of devices that have no functions for them: those of the ref device, on the host. Pieces
   are copied down and up where the device has its own memory. */
#include "renga/private/device.h"
#include "renga/private/op.h"

enum {
  PIECE = RENGA_VECTOR_PIECE,
  MOST_VECTORS = 2 + RENGA_MOMENTS_MOST
}; /* elements; of an update */

/* Vectors of one length, and where their piece is on the host. */
typedef struct {
  struct _p_RengaDevice ref;
  int64_t length;
  int count;
  float *vector[MOST_VECTORS], *host[MOST_VECTORS];
  bool written[MOST_VECTORS];
} VectorTask;

static RengaErrorCode BeginTask(RengaDevice device, int64_t length, VectorTask *task)
{
  *task = (VectorTask){.length = length};
  RengaCall(RengaDeviceCreate_Ref(&task->ref));
  const size_t bytes = MOST_VECTORS * PIECE * sizeof(float);
  if (!device->host) RengaCall(RengaDeviceNeedStaging_Private(device, bytes));
  return RENGA_SUCCESS;
}

static void AddVector(VectorTask *task, const void *vector, bool written)
{
  task->vector[task->count] = (float *)(uintptr_t)vector;
  task->written[task->count++] = written;
}

/* Elements of the piece that begins at `first`. */
static int64_t PieceOf(const VectorTask *task, int64_t first)
{
  return task->length - first < PIECE ? task->length - first : PIECE;
}

static RengaErrorCode FetchPiece(RengaDevice device, RengaStream stream, VectorTask *task,
                                 int64_t first)
{
  const size_t bytes = (size_t)PieceOf(task, first) * sizeof(float);
  for (int v = 0; v < task->count; v++) {
    task->host[v] = task->vector[v] + first;
    if (device->host) continue;
    task->host[v] = (float *)(void *)device->staging.memory + v * PIECE;
    RengaCall(RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_HOST, task->host[v],
                              task->vector[v] + first, bytes));
  }
  RengaCall(RengaStreamSynchronize(device, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode StorePiece(RengaDevice device, RengaStream stream, const VectorTask *task,
                                 int64_t first)
{
  const size_t bytes = (size_t)PieceOf(task, first) * sizeof(float);
  for (int v = 0; v < task->count && !device->host; v++)
    if (task->written[v])
      RengaCall(RengaDeviceCopy(device, stream, RENGA_HOST_TO_DEVICE, task->vector[v] + first,
                                task->host[v], bytes));
  RengaCall(RengaStreamSynchronize(device, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode Convert_Staged(RengaDevice device, RengaStream stream, int64_t count,
                                     RengaDataType from, const void *x, RengaDataType to, void *y)
{
  const size_t from_size = RengaDataTypeSize(from), to_size = RengaDataTypeSize(to);
  VectorTask task;
  RengaCall(BeginTask(device, count, &task));
  for (int64_t first = 0; first < count; first += PIECE) {
    const size_t here = (size_t)PieceOf(&task, first);
    const char *source = (const char *)x + (size_t)first * from_size;
    char *target = (char *)y + (size_t)first * to_size;
    char *down = device->staging.memory, *up = down ? down + PIECE * sizeof(float) : NULL;
    if (!device->host)
      RengaCall(
          RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_HOST, down, source, here * from_size));
    RengaCall(RengaStreamSynchronize(device, stream));
    RengaCall(task.ref.ops->convert(&task.ref, NULL, (int64_t)here, from,
                                    device->host ? source : down, to, device->host ? target : up));
    if (!device->host)
      RengaCall(RengaDeviceCopy(device, stream, RENGA_HOST_TO_DEVICE, target, up, here * to_size));
    RengaCall(RengaStreamSynchronize(device, stream));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Add_Staged(RengaDevice device, RengaStream stream, int64_t count, float y[],
                                 const float x[])
{
  VectorTask task;
  RengaCall(BeginTask(device, count, &task));
  AddVector(&task, y, true);
  AddVector(&task, x, false);
  for (int64_t first = 0; first < count; first += PIECE) {
    RengaCall(FetchPiece(device, stream, &task, first));
    RengaCall(
        task.ref.ops->add(&task.ref, NULL, PieceOf(&task, first), task.host[0], task.host[1]));
    RengaCall(StorePiece(device, stream, &task, first));
  }
  return RENGA_SUCCESS;
}

/* In the order of the ref device. */
static RengaErrorCode SumSquares(RengaDevice device, RengaStream stream, const RengaVector *x,
                                 double squares[])
{
  VectorTask task;
  RengaCall(BeginTask(device, x->count, &task));
  AddVector(&task, x->data, false);
  for (int64_t first = 0; first < x->count; first += PIECE, squares++) {
    RengaCall(FetchPiece(device, stream, &task, first));
    *squares = 0;
    for (int64_t i = 0; i < PieceOf(&task, first); i++)
      *squares += (double)task.host[0][i] * task.host[0][i];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Staged(RengaDevice device, RengaStream stream, int count,
                                           const RengaVector x[], double squares[])
{
  for (int k = 0; k < count; k++) {
    RengaCall(SumSquares(device, stream, &x[k], squares));
    squares += RengaVectorPieces(x[k].count);
  }
  return RENGA_SUCCESS;
}

/* The update of the piece that lies on the host. */
static RengaParameterUpdate PieceOfUpdate(const VectorTask *task, const RengaParameterUpdate *whole,
                                          int64_t first)
{
  RengaParameterUpdate piece = *whole;
  piece.value.data = NULL;
  const int64_t count = PieceOf(task, first);
  int v = 2;
  piece.parameter = (RengaVector){task->host[0], RENGA_FLOAT32, count};
  piece.gradient = (RengaVector){task->host[1], RENGA_FLOAT32, count};
  for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
    if (whole->moment[m].data)
      piece.moment[m] = (RengaVector){task->host[v++], RENGA_FLOAT32, count};
  return piece;
}

/* One of sgd and adam is NULL. */
static RengaErrorCode UpdateStaged(RengaDevice device, RengaStream stream, const RengaSgdStep *sgd,
                                   const RengaAdamStep *adam, double scale,
                                   const RengaParameterUpdate *update)
{
  VectorTask task;
  RengaCall(BeginTask(device, update->parameter.count, &task));
  AddVector(&task, update->parameter.data, true);
  AddVector(&task, update->gradient.data, false);
  for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
    if (update->moment[m].data) AddVector(&task, update->moment[m].data, true);
  for (int64_t first = 0; first < task.length; first += PIECE) {
    RengaCall(FetchPiece(device, stream, &task, first));
    const RengaParameterUpdate piece = PieceOfUpdate(&task, update, first);
    if (sgd)
      RengaCall(task.ref.ops->updatesgd(&task.ref, NULL, sgd, scale, 1, &piece));
    else
      RengaCall(task.ref.ops->updateadam(&task.ref, NULL, adam, scale, 1, &piece));
    RengaCall(StorePiece(device, stream, &task, first));
  }
  if (update->value.data)
    RengaCall(RengaDeviceConvert(device, stream, task.length, RENGA_FLOAT32, update->parameter.data,
                                 update->value.type, update->value.data));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateSgd_Staged(RengaDevice device, RengaStream stream,
                                       const RengaSgdStep *step, double scale, int count,
                                       const RengaParameterUpdate updates[])
{
  for (int k = 0; k < count; k++)
    RengaCall(UpdateStaged(device, stream, step, NULL, scale, &updates[k]));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam_Staged(RengaDevice device, RengaStream stream,
                                        const RengaAdamStep *step, double scale, int count,
                                        const RengaParameterUpdate updates[])
{
  for (int k = 0; k < count; k++)
    RengaCall(UpdateStaged(device, stream, NULL, step, scale, &updates[k]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceSetStagedVectors_Private(RengaDevice device)
{
  device->ops->convert = Convert_Staged;
  device->ops->add = Add_Staged;
  device->ops->sumsofsquares = SumsOfSquares_Staged;
  device->ops->updatesgd = UpdateSgd_Staged;
  device->ops->updateadam = UpdateAdam_Staged;
  return RENGA_SUCCESS;
}
