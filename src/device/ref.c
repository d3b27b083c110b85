/* The ref device: plain loops, obviously right. Its kernels are in ref/; every other type falls
   back on them. The updates of vectors are the formulas as they are printed, in double. */
#include "renga/private/ref.h"
#include "renga/private/low.h"
#include "renga/private/device.h"
#include <math.h>
#include <string.h>

typedef struct {
  RengaRefKernel run;
} Kernel_Ref;

static RengaErrorCode KernelRun_Ref(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  (void)stream;
  (void)workspace;
  const Kernel_Ref *ref = kernel->data;
  RengaCall(ref->run(&kernel->call, context, in, out));
  return RENGA_SUCCESS;
}

static RengaErrorCode KernelDestroy_Ref(RengaKernel kernel)
{
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaKernelCreate_Ref(RengaKernel kernel, bool *found)
{
  RengaRefKernel run = RengaRefFind(kernel->call.op->name);
  *found = run != NULL;
  if (!run) return RENGA_SUCCESS;
  Kernel_Ref *ref = NULL;
  RengaCall(RengaMalloc(1, &ref));
  ref->run = run;
  kernel->data = ref;
  kernel->run = KernelRun_Ref;
  kernel->destroy = KernelDestroy_Ref;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindKernel_Ref(RengaDevice device, const char *name,
                                     const RengaKernelRow **row)
{
  (void)device;
  (void)name;
  *row = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUp_Ref(RengaDevice device)
{
  device->threads = 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode Convert_Ref(RengaDevice device, RengaStream stream, int64_t count,
                                  RengaDataType from, const void *x, RengaDataType to, void *y)
{
  (void)device;
  (void)stream;
  const float *floats = x;
  const uint16_t *low = x;
  for (int64_t i = 0; i < count; i++) {
    if (to == RENGA_BFLOAT16) ((uint16_t *)y)[i] = RengaLowToBrain(floats[i]);
    if (to == RENGA_FLOAT16) ((uint16_t *)y)[i] = RengaLowToHalf(floats[i]);
    if (from == RENGA_BFLOAT16) ((float *)y)[i] = RengaLowFromBrain(low[i]);
    if (from == RENGA_FLOAT16) ((float *)y)[i] = RengaLowFromHalf(low[i]);
  }
  return RENGA_SUCCESS;
}

static float FloatOf_Ref(RengaDataType type, const void *x, int64_t i)
{
  if (type == RENGA_FLOAT32) return ((const float *)x)[i];
  const uint16_t low = ((const uint16_t *)x)[i];
  return type == RENGA_BFLOAT16 ? RengaLowFromBrain(low) : RengaLowFromHalf(low);
}

static RengaErrorCode Round_Ref(RengaDevice device, RengaStream stream, const RengaRounding *r)
{
  (void)device;
  (void)stream;
  uint32_t most = 0;
  for (int64_t i = 0; i < r->count; i++) {
    const uint32_t size = RengaFp8Size(FloatOf_Ref(r->from, r->x, i));
    most = size > most ? size : most;
  }
  const int exponent = RengaFp8Exponent(r->format, most);
  const float scale = RengaFp8Power(exponent), unscale = RengaFp8Power(-exponent);
  for (int64_t i = 0; i < r->count; i++)
    r->y[i] = RengaFp8ToBrain(r->format, scale, unscale, FloatOf_Ref(r->from, r->x, i));
  return RENGA_SUCCESS;
}

/* The value beside the parameter follows it. */
static RengaErrorCode StoreValue_Ref(RengaDevice device, const RengaParameterUpdate *update)
{
  const RengaVector *value = &update->value;
  const float *parameter = update->parameter.data;
  if (value->data && value->type == RENGA_FLOAT32)
    memcpy(value->data, parameter, (size_t)value->count * sizeof *parameter);
  else if (value->data)
    RengaCall(Convert_Ref(device, NULL, value->count, RENGA_FLOAT32, parameter, value->type,
                          value->data));
  return RENGA_SUCCESS;
}

static RengaErrorCode Add_Ref(RengaDevice device, RengaStream stream, int64_t count, float y[],
                              const float x[])
{
  (void)device;
  (void)stream;
  for (int64_t i = 0; i < count; i++) y[i] += x[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Ref(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[])
{
  (void)device;
  (void)stream;
  for (int k = 0; k < count; k++) {
    const float *data = x[k].data;
    for (int64_t i = 0; i < x[k].count; i++) {
      if (i % RENGA_VECTOR_PIECE == 0) *squares++ = 0;
      squares[-1] += (double)data[i] * data[i];
    }
  }
  return RENGA_SUCCESS;
}

static void UpdateOneSgd(const RengaSgdStep *step, double scale, const RengaParameterUpdate *update)
{
  float *parameter = update->parameter.data, *momentum = update->moment[0].data;
  const float *gradient = update->gradient.data;
  const double rate = step->learning_rate * update->rate_scale;
  for (int64_t i = 0; i < update->parameter.count; i++) {
    double g = (gradient ? scale * gradient[i] : 0) + update->weight_decay * parameter[i];
    double change = g;
    if (momentum) {
      double v = step->first ? g : step->momentum * momentum[i] + (1 - step->dampening) * g;
      momentum[i] = (float)v;
      change = step->nesterov ? g + step->momentum * v : v;
    }
    parameter[i] = (float)(parameter[i] - rate * change);
  }
}

static RengaErrorCode UpdateSgd_Ref(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[])
{
  (void)stream;
  for (int k = 0; k < count; k++) {
    for (int64_t r = 0, read = 0; r < RengaUpdatedRows_Private(&updates[k]); r++) {
      const RengaParameterUpdate row = RengaUpdateOfRow_Private(&updates[k], r, &read);
      UpdateOneSgd(step, scale, &row);
    }
    if (updates[k].rows.width) continue;
    UpdateOneSgd(step, scale, &updates[k]);
    RengaCall(StoreValue_Ref(device, &updates[k]));
  }
  return RENGA_SUCCESS;
}

static void UpdateOneAdam(const RengaAdamStep *step, double scale,
                          const RengaParameterUpdate *update)
{
  float *parameter = update->parameter.data;
  float *first = update->moment[0].data, *second = update->moment[1].data;
  const float *gradient = update->gradient.data;
  const double rate = step->learning_rate * update->rate_scale, decay = update->weight_decay;
  const double correction1 = 1 - pow(step->beta1, (double)step->step);
  const double correction2 = 1 - pow(step->beta2, (double)step->step);
  for (int64_t i = 0; i < update->parameter.count; i++) {
    double p = parameter[i], g = gradient ? scale * gradient[i] : 0;
    if (step->decoupled)
      p *= 1 - rate * decay;
    else
      g += decay * p;
    double m = step->beta1 * first[i] + (1 - step->beta1) * g;
    double v = step->beta2 * second[i] + (1 - step->beta2) * g * g;
    p -= rate * (m / correction1) / (sqrt(v / correction2) + step->epsilon);
    first[i] = (float)m;
    second[i] = (float)v;
    parameter[i] = (float)p;
  }
}

static RengaErrorCode UpdateAdam_Ref(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  (void)stream;
  for (int k = 0; k < count; k++) {
    for (int64_t r = 0, read = 0; r < RengaUpdatedRows_Private(&updates[k]); r++) {
      const RengaParameterUpdate row = RengaUpdateOfRow_Private(&updates[k], r, &read);
      UpdateOneAdam(step, scale, &row);
    }
    if (updates[k].rows.width) continue;
    UpdateOneAdam(step, scale, &updates[k]);
    RengaCall(StoreValue_Ref(device, &updates[k]));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceCreate_Ref(void *object)
{
  RengaDevice device = object;
  RengaCall(RengaDeviceSetHost_Private(device));
  device->ops->setup = SetUp_Ref;
  device->ops->findkernel = FindKernel_Ref;
  device->ops->convert = Convert_Ref;
  device->ops->round = Round_Ref;
  device->precisions = 1U << RENGA_PRECISION_FP8;
  device->ops->add = Add_Ref;
  device->ops->sumsofsquares = SumsOfSquares_Ref;
  device->ops->updatesgd = UpdateSgd_Ref;
  device->ops->updateadam = UpdateAdam_Ref;
  device->ops->sumrows = RengaRefSumRows_Private;
  return RENGA_SUCCESS;
}
