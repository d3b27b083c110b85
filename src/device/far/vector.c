/* Vectors of the far device: the inner device's, when their turn comes. */
#include "far.h"

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
  double *sum; /* of the host */
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

static RengaErrorCode RunSumOfSquares(RengaDevice device, void *argument)
{
  const FarVector *task = argument;
  RengaCall(OpenVector(device, task->count, task->x));
  RengaCall(Inner(device)->ops->sumofsquares(Inner(device), NULL, task->count, task->x, task->sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumOfSquares_Far(RengaDevice device, RengaStream stream, int64_t count,
                                       const float x[], double *sum)
{
  FarVector *task;
  RengaCall(CheckVector(device, count, x, "A norm"));
  RengaCall(RengaFarQueue_Private(device, stream, "A norm", RunSumOfSquares, sizeof *task, &task));
  *task = (FarVector){.count = count, .x = x, .sum = sum};
  RengaCall(device->ops->streamsynchronize(device, stream));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaSgdStep sgd;
  RengaAdamStep adam;
  double scale;
  int64_t count;
  float *parameter, *first, *second;
  const float *gradient;
} FarUpdate;

static RengaErrorCode QueueUpdate(RengaDevice device, RengaStream stream, FarFunction run,
                                  const FarUpdate *update)
{
  FarUpdate *task;
  RengaCall(CheckVector(device, update->count, update->parameter, "An update"));
  RengaCall(CheckVector(device, update->count, update->gradient, "An update"));
  if (update->first) RengaCall(CheckVector(device, update->count, update->first, "An update"));
  if (update->second) RengaCall(CheckVector(device, update->count, update->second, "An update"));
  RengaCall(RengaFarQueue_Private(device, stream, "An update", run, sizeof *task, &task));
  *task = *update;
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenUpdate(RengaDevice device, const FarUpdate *update)
{
  RengaCall(OpenVector(device, update->count, update->parameter));
  RengaCall(OpenVector(device, update->count, update->gradient));
  RengaCall(OpenVector(device, update->count, update->first));
  RengaCall(OpenVector(device, update->count, update->second));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSgd(RengaDevice device, void *argument)
{
  const FarUpdate *task = argument;
  RengaCall(OpenUpdate(device, task));
  RengaCall(Inner(device)->ops->updatesgd(Inner(device), NULL, &task->sgd, task->scale, task->count,
                                          task->parameter, task->gradient, task->first));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateSgd_Far(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int64_t count,
                                    float parameter[], const float gradient[], float momentum[])
{
  const FarUpdate update = {.sgd = *step,
                            .scale = scale,
                            .count = count,
                            .parameter = parameter,
                            .gradient = gradient,
                            .first = momentum};
  RengaCall(QueueUpdate(device, stream, RunSgd, &update));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAdam(RengaDevice device, void *argument)
{
  const FarUpdate *task = argument;
  RengaCall(OpenUpdate(device, task));
  RengaCall(Inner(device)->ops->updateadam(Inner(device), NULL, &task->adam, task->scale,
                                           task->count, task->parameter, task->gradient,
                                           task->first, task->second));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam_Far(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int64_t count,
                                     float parameter[], const float gradient[], float first[],
                                     float second[])
{
  const FarUpdate update = {.adam = *step,
                            .scale = scale,
                            .count = count,
                            .parameter = parameter,
                            .gradient = gradient,
                            .first = first,
                            .second = second};
  RengaCall(QueueUpdate(device, stream, RunAdam, &update));
  return RENGA_SUCCESS;
}

void RengaFarSetVectors_Private(RengaDevice device)
{
  device->ops->add = Add_Far;
  device->ops->sumofsquares = SumOfSquares_Far;
  device->ops->updatesgd = UpdateSgd_Far;
  device->ops->updateadam = UpdateAdam_Far;
}
