/* Flat vectors of the cuda device. Tables go to the module in parts that fit into the arguments of
   a kernel; where they are cut changes no bit. */
#include "cuda.h"
#include <math.h>

_Static_assert(RENGA_CUDA_PIECE == RENGA_VECTOR_PIECE, "norms have other pieces on the GPU");

static RengaErrorCode Convert_Cuda(RengaDevice device, RengaStream stream, int64_t count,
                                   RengaDataType from, const void *x, RengaDataType to, void *y)
{
  static const RengaCudaType types[RENGA_TYPE_COUNT] = {[RENGA_FLOAT32] = RENGA_CUDA_FLOAT32,
                                                        [RENGA_BFLOAT16] = RENGA_CUDA_BFLOAT16,
                                                        [RENGA_FLOAT16] = RENGA_CUDA_FLOAT16};
  RENGA_CALL_CUDA(device, module_->convert(RengaCudaStream_Private(device, stream), count,
                                           types[from], x, types[to], y));
  return RENGA_SUCCESS;
}

/* Values beside parameters follow them. */
static RengaErrorCode StoreValues_Cuda(RengaDevice device, RengaStream stream, int count,
                                       const RengaParameterUpdate updates[])
{
  for (int i = 0; i < count; i++) {
    const RengaVector *value = &updates[i].value;
    if (value->data)
      RengaCall(RengaDeviceConvert(device, stream, value->count, RENGA_FLOAT32,
                                   updates[i].parameter.data, value->type, value->data));
  }
  return RENGA_SUCCESS;
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
    RENGA_CALL_CUDA(device, module_->eventsynchronize(cuda->parts_free));
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

/* Some rows of the table: pieces, then rows, on the device; then a copy to the host. */
static RengaErrorCode FindNorms_Cuda(RengaDevice device, void *stream, int count,
                                     const RengaVector x[], double sums[])
{
  CudaDevice *cuda = device->data;
  RengaCudaNorm row[RENGA_CUDA_TABLE];
  int64_t pieces = 0;
  for (int i = 0; i < count; i++) {
    row[i] = (RengaCudaNorm){x[i].data, x[i].count, pieces};
    pieces += (x[i].count + RENGA_CUDA_PIECE - 1) / RENGA_CUDA_PIECE;
  }
  RengaCall(NeedParts(device, stream, pieces + RENGA_CUDA_TABLE));
  double *found = cuda->parts + pieces;
  RENGA_CALL_CUDA(device, module_->norms(stream, count, row, pieces, cuda->parts, found));
  RENGA_CALL_CUDA(
      device, module_->copy(stream, RENGA_CUDA_DOWN, sums, found, (size_t)count * sizeof *sums));
  RENGA_CALL_CUDA(device, module_->eventrecord(cuda->parts_free, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Cuda(RengaDevice device, RengaStream stream, int count,
                                         const RengaVector x[], double sums[])
{
  void *queue = RengaCudaStream_Private(device, stream);
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE)
    RengaCall(FindNorms_Cuda(device, queue, SmallerCount_Cuda(RENGA_CUDA_TABLE, count - k), x + k,
                             sums + k));
  return RENGA_SUCCESS;
}

static RengaCudaSgd SgdRow_Cuda(const RengaSgdStep *step, double scale,
                                const RengaParameterUpdate *update)
{
  return (RengaCudaSgd){
      .parameter = update->parameter.data,
      .momentum = update->moment[0].data,
      .gradient = update->gradient.data,
      .count = update->parameter.count,
      .rate = (float)(step->learning_rate * update->rate_scale),
      .decay = (float)update->weight_decay,
      .scale = (float)scale,
      .keep = step->first ? 0 : (float)step->momentum,
      .take = step->first ? 1 : (float)(1 - step->dampening),
      .a = step->nesterov ? 1 : 0,
      .b = step->nesterov ? (float)step->momentum : 1,
  };
}

static RengaErrorCode UpdateSgd_Cuda(RengaDevice device, RengaStream stream,
                                     const RengaSgdStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  RengaCudaSgd row[RENGA_CUDA_TABLE];
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    const int here = SmallerCount_Cuda(RENGA_CUDA_TABLE, count - k);
    for (int i = 0; i < here; i++) row[i] = SgdRow_Cuda(step, scale, &updates[k + i]);
    RENGA_CALL_CUDA(device, module_->sgd(RengaCudaStream_Private(device, stream), here, row));
  }
  RengaCall(StoreValues_Cuda(device, stream, count, updates));
  return RENGA_SUCCESS;
}

static RengaCudaAdam AdamRow_Cuda(const RengaAdamStep *step, double scale,
                                  const RengaParameterUpdate *update)
{
  const double correction1 = 1 - pow(step->beta1, (double)step->step);
  const double correction2 = 1 - pow(step->beta2, (double)step->step);
  const double rate = step->learning_rate * update->rate_scale, decay = update->weight_decay;
  return (RengaCudaAdam){
      .parameter = update->parameter.data,
      .first = update->moment[0].data,
      .second = update->moment[1].data,
      .gradient = update->gradient.data,
      .count = update->parameter.count,
      .shrink = step->decoupled ? (float)(1 - rate * decay) : 1,
      .decay = step->decoupled ? 0 : (float)decay,
      .scale = (float)scale,
      .keep1 = (float)step->beta1,
      .take1 = (float)(1 - step->beta1),
      .keep2 = (float)step->beta2,
      .take2 = (float)(1 - step->beta2),
      .rate = (float)(rate / correction1),
      .root = (float)(1 / sqrt(correction2)),
      .epsilon = (float)step->epsilon,
  };
}

static RengaErrorCode UpdateAdam_Cuda(RengaDevice device, RengaStream stream,
                                      const RengaAdamStep *step, double scale, int count,
                                      const RengaParameterUpdate updates[])
{
  RengaCudaAdam row[RENGA_CUDA_TABLE];
  for (int k = 0; k < count; k += RENGA_CUDA_TABLE) {
    const int here = SmallerCount_Cuda(RENGA_CUDA_TABLE, count - k);
    for (int i = 0; i < here; i++) row[i] = AdamRow_Cuda(step, scale, &updates[k + i]);
    RENGA_CALL_CUDA(device, module_->adam(RengaCudaStream_Private(device, stream), here, row));
  }
  RengaCall(StoreValues_Cuda(device, stream, count, updates));
  return RENGA_SUCCESS;
}

void RengaCudaSetVectors_Private(RengaDevice device)
{
  device->ops->convert = Convert_Cuda;
  device->ops->add = Add_Cuda;
  device->ops->sumsofsquares = SumsOfSquares_Cuda;
  device->ops->updatesgd = UpdateSgd_Cuda;
  device->ops->updateadam = UpdateAdam_Cuda;
}
