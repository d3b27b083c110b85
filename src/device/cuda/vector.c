/* Flat vectors of the cuda device. Tables go to the module in parts that fit into the arguments of
   a kernel; where they are cut changes no bit. */
#include "cuda.h"

_Static_assert(RENGA_CUDA_PIECE == RENGA_VECTOR_PIECE, "norms have other pieces on the GPU");

static RengaErrorCode Convert_Cuda(RengaDevice device, RengaStream stream, int64_t count,
                                   RengaDataType from, const void *x, RengaDataType to, void *y)
{
  const RengaCudaOperand source = {(void *)(uintptr_t)x, RengaCudaTypeOf_Private(from)};
  const RengaCudaOperand target = {y, RengaCudaTypeOf_Private(to)};
  RENGA_CALL_CUDA(device,
                  module_->convert(RengaCudaStream_Private(device, stream), count, source, target));
  return RENGA_SUCCESS;
}

static RengaErrorCode Round_Cuda(RengaDevice device, RengaStream stream, const RengaRounding *r)
{
  const RengaCudaRounding rounding = {
      .format = r->format,
      .rows = 1,
      .columns = r->count,
      .x = {(void *)(uintptr_t)r->x, RengaCudaTypeOf_Private(r->from)},
      .y = {r->y, RENGA_CUDA_BFLOAT16},
      .most = r->work};
  RENGA_CALL_CUDA(device, module_->round(RengaCudaStream_Private(device, stream), &rounding));
  return RENGA_SUCCESS;
}

static RengaCudaOperand ValueOf_Cuda(const RengaParameterUpdate *update)
{
  return (RengaCudaOperand){update->value.data, RengaCudaTypeOf_Private(update->value.type)};
}

static RengaErrorCode Add_Cuda(RengaDevice device, RengaStream stream, int64_t count, float y[],
                               const float x[])
{
  RENGA_CALL_CUDA(device, module_->add(RengaCudaStream_Private(device, stream), count, y, x));
  return RENGA_SUCCESS;
}

static int SmallerCount_Cuda(int a, int b)
{
  return a < b ? a : b;
}

/* The work memory has room for so many numbers once the stream comes to use it. */
static RengaErrorCode NeedParts(RengaDevice device, void *stream, int64_t numbers)
{
  CudaDevice *cuda = device->data;
  const size_t bytes = (size_t)numbers * sizeof(double);
  if (bytes > cuda->parts_bytes) {
    RengaCall(RengaEventSynchronize(device, cuda->parts_free));
    RENGA_CALL_CUDA(device, cuda->parts ? module_->release(cuda->parts) : 0);
    cuda->parts = NULL;
    cuda->parts_bytes = 0;
    void *made = NULL;
    RENGA_CALL_CUDA(device, module_->reserve(bytes, &made));
    cuda->parts = made;
    cuda->parts_bytes = bytes;
  }
  RENGA_CALL_CUDA(device, module_->eventwait(cuda->parts_free, stream));
  return RENGA_SUCCESS;
}

static int RowsFrom(int count, int first)
{
  return SmallerCount_Cuda(RENGA_CUDA_TABLE, count - first);
}

/* The pieces of so many rows. */
static int64_t CountPieces_Cuda(int count, const RengaVector x[])
{
  int64_t pieces = 0;
  for (int i = 0; i < count; i++) pieces += RengaVectorPieces(x[i].count);
  return pieces;
}

/* Some rows of the table: their pieces on the device, then a copy to the host. */
static RengaErrorCode FindNorms_Cuda(RengaDevice device, void *stream, int count,
                                     const RengaVector x[], double squares[])
{
  CudaDevice *cuda = device->data;
  RengaCudaNorm row[RENGA_CUDA_TABLE];
  const int64_t pieces = CountPieces_Cuda(count, x);
  if (pieces == 0) return RENGA_SUCCESS;
  for (int i = 0; i < count; i++)
    row[i] = (RengaCudaNorm){x[i].data, x[i].count, CountPieces_Cuda(i, x)};
  RENGA_CALL_CUDA(device, module_->norms(stream, count, row, pieces, cuda->parts));
  RENGA_CALL_CUDA(device, module_->copy(stream, RENGA_CUDA_DOWN, squares, cuda->parts,
                                        (size_t)pieces * sizeof *squares));
  return RENGA_SUCCESS;
}

/* The largest part of the table says what memory all need: later it is not taken anew. */
static RengaErrorCode SumsOfSquares_Cuda(RengaDevice device, RengaStream stream, int count,
                                         const RengaVector x[], double squares[])
{
  void *queue = RengaCudaStream_Private(device, stream);
  int64_t most = 0;
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    const int64_t pieces = CountPieces_Cuda(RowsFrom(count, k), x + k);
    if (pieces > most) most = pieces;
  }
  if (most == 0) return RENGA_SUCCESS;
  RengaCall(NeedParts(device, queue, most));
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    RengaCall(FindNorms_Cuda(device, queue, RowsFrom(count, k), x + k, squares));
    squares += CountPieces_Cuda(RowsFrom(count, k), x + k);
  }
  RENGA_CALL_CUDA(device, module_->eventrecord(RengaCudaOf_Private(device)->parts_free, queue));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReserveGate_Cuda(RengaDevice device, int64_t count, double **values)
{
  CudaDevice *cuda = device->data;
  void *made = NULL;
  if (!cuda->gate) RENGA_CALL_CUDA(device, module_->reserve(sizeof *cuda->gate, &made));
  if (made) cuda->gate = made;
  if (count > cuda->n_values) {
    RengaCall(RengaStreamSynchronize(device, NULL));
    RENGA_CALL_CUDA(device, cuda->values ? module_->release(cuda->values) : 0);
    cuda->values = NULL;
    cuda->n_values = 0;
    RENGA_CALL_CUDA(device, module_->reserve((size_t)count * sizeof *cuda->values, &made));
    cuda->values = made;
    cuda->n_values = count;
  }
  *values = cuda->values;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareGate_Cuda(RengaDevice device, const RengaGate *gate)
{
  const CudaDevice *cuda = device->data;
  RENGA_CALL_CUDA(device, module_->set(cuda->compute, gate->values, 0,
                                       (size_t)gate->n_values * sizeof *gate->values));
  RENGA_CALL_CUDA(device, module_->gateshare(cuda->compute, gate, cuda->fault));
  return RENGA_SUCCESS;
}

static RengaErrorCode Gate_Cuda(RengaDevice device, const RengaGate *gate)
{
  CudaDevice *cuda = device->data;
  cuda->gated = false;
  if (!gate) return RENGA_SUCCESS;
  RENGA_CALL_CUDA(device, module_->gate(cuda->compute, gate, cuda->gate));
  cuda->gated = true;
  return RENGA_SUCCESS;
}

static const RengaGateFound *GateOf(RengaDevice device)
{
  const CudaDevice *cuda = device->data;
  return cuda->gated ? cuda->gate : NULL;
}

static RengaCudaSgd SgdRow_Cuda(const RengaSgdStep *step, double scale,
                                const RengaParameterUpdate *update)
{
  return (RengaCudaSgd){
      .parameter = update->parameter.data,
      .momentum = update->moment[0].data,
      .gradient = update->gradient.data,
      .value = ValueOf_Cuda(update),
      .count = update->parameter.count,
      .by = RengaSgdFactorsOf_Private(step, scale, update),
  };
}

static RengaErrorCode UpdateSgd_Cuda(RengaDevice device, RengaStream stream,
                                     const RengaSgdStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  RengaCudaSgd row[RENGA_CUDA_TABLE];
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    const int here = RowsFrom(count, k);
    for (int i = 0; i < here; i++) row[i] = SgdRow_Cuda(step, scale, &updates[k + i]);
    RENGA_CALL_CUDA(
        device, module_->sgd(RengaCudaStream_Private(device, stream), GateOf(device), here, row));
  }
  return RENGA_SUCCESS;
}

static RengaCudaAdam AdamRow_Cuda(const RengaAdamStep *step, double scale,
                                  const RengaParameterUpdate *update)
{
  return (RengaCudaAdam){
      .parameter = update->parameter.data,
      .first = update->moment[0].data,
      .second = update->moment[1].data,
      .gradient = update->gradient.data,
      .value = ValueOf_Cuda(update),
      .count = update->parameter.count,
      .by = RengaAdamFactorsOf_Private(step, scale, update),
  };
}

static RengaErrorCode UpdateAdam_Cuda(RengaDevice device, RengaStream stream,
                                      const RengaAdamStep *step, double scale, int count,
                                      const RengaParameterUpdate updates[])
{
  RengaCudaAdam row[RENGA_CUDA_TABLE];
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    const int here = RowsFrom(count, k);
    for (int i = 0; i < here; i++) row[i] = AdamRow_Cuda(step, scale, &updates[k + i]);
    RENGA_CALL_CUDA(
        device, module_->adam(RengaCudaStream_Private(device, stream), GateOf(device), here, row));
  }
  return RENGA_SUCCESS;
}

void RengaCudaSetVectors_Private(RengaDevice device)
{
  device->ops->convert = Convert_Cuda;
  device->ops->round = Round_Cuda;
  device->ops->add = Add_Cuda;
  device->ops->sumsofsquares = SumsOfSquares_Cuda;
  device->ops->gatereserve = ReserveGate_Cuda;
  device->ops->gateshare = ShareGate_Cuda;
  device->ops->gate = Gate_Cuda;
  device->ops->updatesgd = UpdateSgd_Cuda;
  device->ops->updateadam = UpdateAdam_Cuda;
}
