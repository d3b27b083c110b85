/* Batch normalisation, local response normalisation, dropout and random numbers.

   Ioffe, Szegedy: Batch normalization, arXiv 1502.03167. */
#include "ref.h"
#include "renga/private/dropout.h"
#include <math.h>
#include <string.h>

/* x as [batch][channels][plane] */
typedef struct {
  int64_t batch, channels, plane;
} Planes;

static Planes PlanesOf(const RengaTensorSpec *x)
{
  return (Planes){x->dim[0], x->dim[1], RengaOpProduct(x, 2, x->ndim)};
}

/* Place of element i (of batch x plane) of a channel. */
static int64_t PlaceOf_Ref(const Planes *planes, int64_t channel, int64_t i)
{
  int64_t n = i / planes->plane;
  return (n * planes->channels + channel) * planes->plane + i % planes->plane;
}

static void ChannelStatistics(const Planes *planes, RefIn x, int64_t channel, double *mean,
                              double *variance)
{
  int64_t count = planes->batch * planes->plane;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) sum += RefGet(x, PlaceOf_Ref(planes, channel, i));
  *mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++) {
    double centred = RefGet(x, PlaceOf_Ref(planes, channel, i)) - *mean;
    squares += centred * centred;
  }
  *variance = squares / (double)count;
}

/* Also of BatchNormalizationRelu, where `more`, if it is there, is added before ReLU. */
static RengaErrorCode BatchNormalization_Ref(const RengaOpCall *call,
                                             const RengaKernelContext *context,
                                             const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0), scale = RefInput(call, in, 1), bias = RefInput(call, in, 2);
  RefIn means = RefInput(call, in, 3), variances = RefInput(call, in, 4);
  RefOut y = RefOutput(call, out, 0);
  RefOut batch_means = RefOutput(call, out, 1), batch_variances = RefOutput(call, out, 2);
  Planes planes = PlanesOf(&call->in[0]);
  double epsilon = RengaOpCallReal(call, "epsilon");
  bool of_batch = context->training && RengaOpCallInt(call, "training");
  const bool relu = strcmp(call->op->name, "BatchNormalizationRelu") == 0;
  const RefIn more = call->n_in > 5 ? RefInput(call, in, 5) : (RefIn){0};
  int64_t count = planes.batch * planes.plane;
  for (int64_t c = 0; c < planes.channels; c++) {
    double mean = RefGet(means, c), variance = RefGet(variances, c);
    if (of_batch) ChannelStatistics(&planes, x, c, &mean, &variance);
    double factor = RefGet(scale, c) / sqrt(variance + epsilon);
    for (int64_t i = 0; i < count; i++) {
      int64_t at = PlaceOf_Ref(&planes, c, i);
      double made = (RefGet(x, at) - mean) * factor + RefGet(bias, c);
      if (more.data) made += RefGet(more, at);
      RefSet(y, at, relu && made < 0 ? 0 : made);
    }
    if (batch_means.data) RefSet(batch_means, c, mean);
    if (batch_variances.data) RefSet(batch_variances, c, variance);
  }
  return RENGA_SUCCESS;
}

/* dy, or what ReLU lets pass of it where its output y is there. */
typedef struct {
  RefIn dy, y;
} Arriving;

static double Arrives(const Arriving *from, int64_t at)
{
  return from->y.data && !(RefGet(from->y, at) > 0) ? 0 : RefGet(from->dy, at);
}

/* One channel of dx = scale * inverse * (dy - mean of dy - n * mean of dy n), n the normalised x;
   where the statistics were not the batch's, the means are left out. */
static void ChannelGradient(const Planes *planes, int64_t channel, const Arriving *dy, RefIn x,
                            double mean, double inverse, double scale, bool of_batch, RefOut dx,
                            double *dscale, double *dbias)
{
  int64_t count = planes->batch * planes->plane;
  *dscale = *dbias = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = PlaceOf_Ref(planes, channel, i);
    *dscale += Arrives(dy, at) * (RefGet(x, at) - mean) * inverse;
    *dbias += Arrives(dy, at);
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t at = PlaceOf_Ref(planes, channel, i);
    double normal = (RefGet(x, at) - mean) * inverse;
    double off = of_batch ? (*dbias + normal * *dscale) / (double)count : 0;
    RefSet(dx, at, scale * inverse * (Arrives(dy, at) - off));
  }
}

/* Also of BatchNormalizationReluGrad: output 3 is the gradient of what was added before ReLU. */
static RengaErrorCode BatchNormalizationGrad_Ref(const RengaOpCall *call,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[])
{
  const bool relu = strcmp(call->op->name, "BatchNormalizationReluGrad") == 0;
  const Arriving dy = {RefInput(call, in, 0), relu ? RefInput(call, in, 1) : (RefIn){0}};
  const int first = relu ? 2 : 1; /* x */
  RefIn x = RefInput(call, in, first), scale = RefInput(call, in, first + 1);
  RefIn means = RefInput(call, in, first + 2), variances = RefInput(call, in, first + 3);
  RefOut dx = RefOutput(call, out, 0);
  RefOut dscale = RefOutput(call, out, 1), dbias = RefOutput(call, out, 2);
  Planes planes = PlanesOf(&call->in[first]);
  double epsilon = RengaOpCallReal(call, "epsilon");
  bool of_batch = context->training && RengaOpCallInt(call, "training");
  for (int64_t c = 0; c < planes.channels; c++) {
    double inverse = 1 / sqrt(RefGet(variances, c) + epsilon), of_scale, of_bias;
    ChannelGradient(&planes, c, &dy, x, RefGet(means, c), inverse, RefGet(scale, c), of_batch, dx,
                    &of_scale, &of_bias);
    if (dscale.data) RefSet(dscale, c, of_scale);
    if (dbias.data) RefSet(dbias, c, of_bias);
  }
  const RefOut more = RefOutput(call, out, 3);
  for (int64_t i = 0; more.data && i < RengaTensorSpecCount(&call->in[0]); i++)
    RefSet(more, i, Arrives(&dy, i));
  return RENGA_SUCCESS;
}

/* x -> the mean and the variance of these rows of the image */
static RengaErrorCode BatchNormalizationLane_Ref(const RengaOpCall *call,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut means = RefOutput(call, out, 0), variances = RefOutput(call, out, 1);
  const Planes planes = PlanesOf(&call->in[0]);
  for (int64_t c = 0; c < planes.channels; c++) {
    double mean, variance;
    ChannelStatistics(&planes, x, c, &mean, &variance);
    RefSet(means, c, mean);
    RefSet(variances, c, variance);
  }
  return RENGA_SUCCESS;
}

/* dmean, dvariance, x, mean: dx = (dmean + 2 (x - mean) dvariance) / n */
static RengaErrorCode BatchNormalizationLaneGrad_Ref(const RengaOpCall *call,
                                                     const RengaKernelContext *context,
                                                     const void *const in[], void *const out[])
{
  RefIn dmean = RefInput(call, in, 0), dvariance = RefInput(call, in, 1);
  RefIn x = RefInput(call, in, 2), means = RefInput(call, in, 3);
  RefOut dx = RefOutput(call, out, 0);
  const Planes planes = PlanesOf(&call->in[2]);
  const int64_t count = planes.batch * planes.plane;
  for (int64_t c = 0; c < planes.channels; c++)
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = PlaceOf_Ref(&planes, c, i);
      const double centred = RefGet(x, at) - RefGet(means, c);
      RefSet(dx, at, (RefGet(dmean, c) + 2 * centred * RefGet(dvariance, c)) / (double)count);
    }
  return RENGA_SUCCESS;
}

static double RowsOfLanes(const int64_t rows[], int lanes)
{
  int64_t all = 0;
  for (int l = 0; l < lanes; l++) all += rows[l];
  return (double)all;
}

/* The batch's statistics of those of lanes; the running ones where nothing is trained. */
static RengaErrorCode BatchNormalizationJoin_Ref(const RengaOpCall *call,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[])
{
  RefOut means = RefOutput(call, out, 0), variances = RefOutput(call, out, 1);
  int lanes;
  const int64_t *rows = RengaOpCallInts(call, "lane_rows", &lanes);
  const double all = RowsOfLanes(rows, lanes);
  for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
    double mean = 0, variance = 0;
    for (int l = 0; l < lanes; l++)
      mean += (double)rows[l] / all * RefGet(RefInput(call, in, 2 + l), c);
    for (int l = 0; l < lanes; l++) {
      const double off = RefGet(RefInput(call, in, 2 + l), c) - mean;
      variance +=
          (double)rows[l] / all * (RefGet(RefInput(call, in, 2 + lanes + l), c) + off * off);
    }
    RefSet(means, c, context->training ? mean : RefGet(RefInput(call, in, 0), c));
    RefSet(variances, c, context->training ? variance : RefGet(RefInput(call, in, 1), c));
  }
  return RENGA_SUCCESS;
}

/* dmean, dvariance, mean, means of lanes */
static RengaErrorCode BatchNormalizationJoinGrad_Ref(const RengaOpCall *call,
                                                     const RengaKernelContext *context,
                                                     const void *const in[], void *const out[])
{
  RefIn dmean = RefInput(call, in, 0), dvariance = RefInput(call, in, 1);
  RefIn mean = RefInput(call, in, 2);
  int lanes;
  const int64_t *rows = RengaOpCallInts(call, "lane_rows", &lanes);
  const double all = RowsOfLanes(rows, lanes);
  for (int l = 0; l < lanes; l++) {
    RefIn own = RefInput(call, in, 3 + l);
    RefOut of_mean = RefOutput(call, out, l), of_variance = RefOutput(call, out, lanes + l);
    for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
      const double share = (double)rows[l] / all, off = RefGet(own, c) - RefGet(mean, c);
      if (of_mean.data)
        RefSet(of_mean, c, share * (RefGet(dmean, c) + 2 * off * RefGet(dvariance, c)));
      if (of_variance.data) RefSet(of_variance, c, share * RefGet(dvariance, c));
    }
  }
  return RENGA_SUCCESS;
}

/* Channels near c: c - (size-1)/2 ... c + size/2, cut at the ends. */
typedef struct {
  int64_t channels, plane, size;
  double alpha, beta, bias;
} Local;

static Local LocalOf(const RengaOpCall *call, const RengaTensorSpec *x)
{
  return (Local){x->dim[1],
                 RengaOpProduct(x, 2, x->ndim),
                 RengaOpCallInt(call, "size"),
                 RengaOpCallReal(call, "alpha"),
                 RengaOpCallReal(call, "beta"),
                 RengaOpCallReal(call, "bias")};
}

/* bias + alpha / size * sum of the squares near element i */
static double Base(const Local *local, RefIn x, int64_t i)
{
  double sum = 0;
  int64_t c = i / local->plane % local->channels;
  for (int64_t k = c - (local->size - 1) / 2; k <= c + local->size / 2; k++)
    if (k >= 0 && k < local->channels) {
      double value = RefGet(x, i + (k - c) * local->plane);
      sum += value * value;
    }
  return local->bias + local->alpha / (double)local->size * sum;
}

static RengaErrorCode LRN_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                              const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  Local local = LocalOf(call, &call->in[0]);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++)
    RefSet(y, i, RefGet(x, i) / pow(Base(&local, x, i), local.beta));
  return RENGA_SUCCESS;
}

/* Element i is in the sums of channels c - size/2 ... c + (size-1)/2. */
static RengaErrorCode LRNGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0), x = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  Local local = LocalOf(call, &call->in[1]);
  int64_t count = RengaTensorSpecCount(&call->in[1]);
  for (int64_t i = 0; i < count; i++) {
    double sum = 0;
    int64_t c = i / local.plane % local.channels;
    for (int64_t k = c - local.size / 2; k <= c + (local.size - 1) / 2; k++)
      if (k >= 0 && k < local.channels) {
        int64_t j = i + (k - c) * local.plane;
        sum += RefGet(dy, j) * RefGet(x, j) * pow(Base(&local, x, j), -local.beta - 1);
      }
    double factor = 2 * local.alpha * local.beta / (double)local.size;
    RefSet(dx, i,
           RefGet(dy, i) * pow(Base(&local, x, i), -local.beta) - factor * RefGet(x, i) * sum);
  }
  return RENGA_SUCCESS;
}

/* A tensor as [outer][samples x factor][inner]: sample b / factor, and of it element
   (o * factor + b % factor) * inner + i. */
typedef struct {
  RengaDropout dropout;
  RefAxis axis;
  int64_t first, factor; /* sample */
} Draws;

static RengaErrorCode StartDraws(const RengaOpCall *call, const RengaKernelContext *context,
                                 const RengaTensorSpec *spec, Draws *draws)
{
  int dimension = 0;
  if (spec->ndim > 0) RengaCall(RengaOpAxis(call, "batch_dim", spec->ndim, &dimension));
  *draws = (Draws){.dropout =
                       RengaDropoutStart(context->seed, context->step, RengaOpCallInt(call, "key")),
                   .axis = spec->ndim > 0 ? RefAxisOf(spec, dimension) : (RefAxis){1, 1, 1},
                   .first = context->sample,
                   .factor = RengaOpCallInt(call, "batch_factor")};
  return RENGA_SUCCESS;
}

static float DrawOne(const Draws *draws, int64_t i)
{
  const RefAxis *axis = &draws->axis;
  int64_t o = i / axis->inner / axis->extent, b = i / axis->inner % axis->extent;
  int64_t element = (o * draws->factor + b % draws->factor) * axis->inner + i % axis->inner;
  return RengaDropoutUniform(&draws->dropout, draws->first + b / draws->factor, element);
}

static RengaErrorCode Dropout_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0), kept = RefOutput(call, out, 1);
  float ratio = context->training ? (float)RengaOpCallReal(call, "ratio") : 0;
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  Draws draws;
  RengaCall(StartDraws(call, context, &call->in[0], &draws));
  for (int64_t i = 0; i < count; i++) {
    bool keep = ratio == 0 || DrawOne(&draws, i) >= ratio;
    RefSet(y, i, keep ? RefGet(x, i) / (1 - (double)ratio) : 0);
    if (kept.data) RefSetInt(kept, i, keep);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RandomUniform_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  RefOut y = RefOutput(call, out, 0);
  Draws draws;
  RengaCall(StartDraws(call, context, &call->out[0], &draws));
  for (int64_t i = 0, count = RengaTensorSpecCount(&call->out[0]); i < count; i++)
    RefSet(y, i, (double)DrawOne(&draws, i));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindBatch(const char *name)
{
  static const RefRow rows[] = {
      {"BatchNormalization", BatchNormalization_Ref},
      {"BatchNormalizationGrad", BatchNormalizationGrad_Ref},
      {"BatchNormalizationRelu", BatchNormalization_Ref},
      {"BatchNormalizationReluGrad", BatchNormalizationGrad_Ref},
      {"BatchNormalizationLane", BatchNormalizationLane_Ref},
      {"BatchNormalizationLaneGrad", BatchNormalizationLaneGrad_Ref},
      {"BatchNormalizationJoin", BatchNormalizationJoin_Ref},
      {"BatchNormalizationJoinGrad", BatchNormalizationJoinGrad_Ref},
      {"LRN", LRN_Ref},
      {"LRNGrad", LRNGrad_Ref},
      {"Dropout", Dropout_Ref},
      {"RandomUniform", RandomUniform_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
