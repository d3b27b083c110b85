/* Vectors: sums of gradients, norms, and the optimizers' updates, many vectors in one call. */
#include "renga/private/device.h"

static const char *NameOfVectorType(RengaDataType type)
{
  return type >= 0 && type < RENGA_TYPE_COUNT ? RengaDataTypeName(type) : "untyped";
}

static RengaErrorCode CheckType(RengaDataType type, const char *what)
{
  RengaCheck(type == RENGA_FLOAT32, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s of %s vectors is not supported: float32 is", what, NameOfVectorType(type));
  return RENGA_SUCCESS;
}

static bool CanConvert(RengaDataType from, RengaDataType to)
{
  return from == to || (from == RENGA_FLOAT32 && RengaDeviceIsLow(to)) ||
         (to == RENGA_FLOAT32 && RengaDeviceIsLow(from));
}

/* A vector in another type. count: elements, at least 0. from: type of x: RENGA_FLOAT32,
   RENGA_BFLOAT16 or RENGA_FLOAT16; any where it is y's, too. to: type of y: RENGA_FLOAT32 where x
   has 16 bits, else any of the three. y: exactly x where it is widened or copied; else rounded to
   nearest, ties to even: what is too large is infinite, a NaN stays one. */
RengaErrorCode RengaDeviceConvert(RengaDevice device, RengaStream stream, int64_t count,
                                  RengaDataType from, const void *x, RengaDataType to, void *y)
{
  RengaCheckPointer(device);
  RengaCheck(CanConvert(from, to), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a conversion of %s to %s vectors is not supported: float32 to and from bfloat16 and "
             "float16 is",
             NameOfVectorType(from), NameOfVectorType(to));
  if (count <= 0) return RENGA_SUCCESS;
  if (from == to)
    RengaCall(RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_DEVICE, y, x,
                              (size_t)count * RengaDataTypeSize(from)));
  else
    RengaCall(device->ops->convert(device, stream, count, from, x, to, y));
  return RENGA_SUCCESS;
}

/* Y += x. type: the type of the elements: RENGA_FLOAT32. count: elements, at least 0. */
RengaErrorCode RengaDeviceAdd(RengaDevice device, RengaStream stream, RengaDataType type,
                              int64_t count, void *y, const void *x)
{
  RengaCheckPointer(device);
  RengaCall(CheckType(type, "a sum"));
  if (count > 0) RengaCall(device->ops->add(device, stream, count, y, x));
  return RENGA_SUCCESS;
}

/* The sums of squares of the pieces of vectors. The square of a vector's 2-norm is the sum of its
   pieces' in their order. Pieces are counted from where the vector begins: of a part that begins
   with a whole piece they are the same numbers. count: the number of vectors, at least 0. x:
   [count] the vectors; the table is copied. squares: memory of the host, filled once the stream was
   waited for: RengaVectorPieces() numbers of each vector, one vector after the other. They are
   double, and the same for any number of threads. */
RengaErrorCode RengaDeviceSumsOfSquares(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[])
{
  RengaCheckPointer(device);
  for (int i = 0; i < count; i++) RengaCall(CheckType(x[i].type, "a norm"));
  if (count > 0) RengaCall(device->ops->sumsofsquares(device, stream, count, x, squares));
  return RENGA_SUCCESS;
}

bool RengaDeviceHasGate_Private(RengaDevice device)
{
  return device->ops->gate != NULL;
}

RengaErrorCode RengaDeviceReserveGate_Private(RengaDevice device, int64_t count, double **values)
{
  RengaCall(device->ops->gatereserve(device, count, values));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceShareGate_Private(RengaDevice device, const RengaGate *gate)
{
  RengaCall(device->ops->gateshare(device, gate));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceSetGate_Private(RengaDevice device, const RengaGate *gate)
{
  RengaCall(device->ops->gate(device, gate));
  return RENGA_SUCCESS;
}

/* update: number i of count */
static RengaErrorCode CheckValue(int i, int count, const RengaParameterUpdate *update)
{
  const RengaVector *value = &update->value;
  if (!value->data) return RENGA_SUCCESS;
  RengaCheck(CanConvert(RENGA_FLOAT32, value->type), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "update %d of %d: values of %s beside the parameters are not supported: bfloat16, "
             "float16 and float32 are",
             i, count, NameOfVectorType(value->type));
  RengaCheck(value->count == update->parameter.count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "update %d of %d: %lld elements have values of %lld", i, count,
             (long long)update->parameter.count, (long long)value->count);
  return RENGA_SUCCESS;
}

/* An update of rows is one of a table that has as many, and writes no values beside it. */
static RengaErrorCode CheckRows(RengaDevice device, int i, int count,
                                const RengaParameterUpdate *update)
{
  const RengaRows *rows = &update->rows;
  const int64_t wanted = rows->width ? rows->most * rows->width : update->parameter.count;
  RengaCheck(update->gradient.count == wanted, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "update %d of %d: %lld elements have a gradient of %lld", i, count, (long long)wanted,
             (long long)update->gradient.count);
  if (!rows->width) return RENGA_SUCCESS;
  RengaCheck(rows->width > 0 && update->parameter.count % rows->width == 0 && rows->count &&
                 rows->most >= 0 && (rows->index || !rows->most),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "update %d of %d: %lld rows of %lld elements, of a table of %lld elements", i, count,
             (long long)rows->most, (long long)rows->width, (long long)update->parameter.count);
  RengaCheck(!update->value.data, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "update %d of %d: an update of rows writes no values of %s beside them", i, count,
             NameOfVectorType(update->value.type));
  RengaCheck(RengaDeviceHasRows_Private(device), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a device of type %s has no updates of rows", device->hdr.type_name);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUpdates(RengaDevice device, int count,
                                   const RengaParameterUpdate updates[])
{
  for (int i = 0; i < count; i++) {
    const RengaParameterUpdate *update = &updates[i];
    RengaCall(CheckType(update->parameter.type, "an update"));
    RengaCall(CheckType(update->gradient.type, "an update by gradients"));
    RengaCall(CheckValue(i, count, update));
    for (int m = 0; m < RENGA_MOMENTS_MOST; m++)
      if (update->moment[m].data)
        RengaCall(CheckType(update->moment[m].type, "an update by moments"));
    RengaCall(CheckRows(device, i, count, update));
  }
  return RENGA_SUCCESS;
}

static bool HaveMoments(int count, const RengaParameterUpdate updates[], int moments)
{
  for (int i = 0; i < count; i++)
    for (int m = 0; m < moments; m++)
      if (!updates[i].moment[m].data && updates[i].parameter.count > 0) return false;
  return true;
}

/* One step of stochastic gradient descent. Sutskever et al., On the importance of initialization
   and momentum in deep learning, 2013, in the form that has the rate outside the momentum. scale:
   any finite number: the gradient is g = scale * gradient + w * parameter. count: the number of
   parameters, at least 0. updates: [count] the parameters, their gradients, rate scales and weight
   decays w; the table is copied. Parameter p -= rate * rate_scale * u; u is g without momentum, v
   with it, g + m v with Nesterov's. Moment 0 is v = m v + (1 - d) g, or v = g in the first step;
   none where m is 0. */
RengaErrorCode RengaDeviceUpdateSgd(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[])
{
  RengaCheckPointers(device, step);
  RengaCall(CheckUpdates(device, count, updates));
  RengaCheck(step->momentum == 0 || HaveMoments(count, updates, 1), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "momentum is %g and there is no buffer for it", step->momentum);
  if (count > 0) RengaCall(device->ops->updatesgd(device, stream, step, scale, count, updates));
  return RENGA_SUCCESS;
}

/* One step of Adam or AdamW. Kingma and Ba, Adam, 2015, algorithm 1; Loshchilov and Hutter,
   Decoupled weight decay regularization, 2019. scale: any finite number: the gradient is g = scale
   * gradient (+ decay * parameter where it is not decoupled). count: the number of parameters, at
   least 0. updates: [count] the parameters, their gradients, rate scales and weight decays; the
   table is copied. parameter p -= r m' / (sqrt(v') + epsilon), r = rate * rate_scale, after p *= 1
   - r * decay where decoupled. Moment 0 is m = beta1 m + (1 - beta1) g; m' = m / (1 - beta1^step).
   Moment 1 is v = beta2 v + (1 - beta2) g^2; v' = v / (1 - beta2^step). */
RengaErrorCode RengaDeviceUpdateAdam(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  RengaCheckPointers(device, step);
  RengaCheck(step->step >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "step is %lld: the first is 1",
             (long long)step->step);
  RengaCall(CheckUpdates(device, count, updates));
  RengaCheck(HaveMoments(count, updates, 2), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "an update of Adam needs two moments");
  if (count > 0) RengaCall(device->ops->updateadam(device, stream, step, scale, count, updates));
  return RENGA_SUCCESS;
}
