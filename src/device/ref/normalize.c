/* Layer, root-mean-square, group and instance normalisation. In all of them x is cut into rows that
   are normalised by their own statistics; they differ in which scale an element has.

   Ba, Kiros, Hinton: Layer normalization, arXiv 1607.06450. Zhang, Sennrich: Root mean square layer
   normalization, arXiv 1910.07467. Wu, He: Group normalization, arXiv 1803.08494. */
#include "ref.h"
#include <math.h>
#include <string.h>

/* Element i of row r has scale (r % scale_rows * width + i) / scale_run. Layers: scale_rows 1,
   scale_run 1. Groups: scale_rows is the number of groups, scale_run the plane of a channel. */
typedef struct {
  int64_t rows, width, scales, scale_rows, scale_run;
  bool centred; /* the mean is taken off */
} NormRows_Ref;

static int64_t ScaleOf(const NormRows_Ref *rows, int64_t r, int64_t i)
{
  return (r % rows->scale_rows * rows->width + i) / rows->scale_run;
}

static RengaErrorCode LayerRows(const RengaOpCall *call, const RengaTensorSpec *x, bool centred,
                                NormRows_Ref *rows)
{
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  int64_t width = RengaOpProduct(x, axis, x->ndim);
  *rows = (NormRows_Ref){RengaOpProduct(x, 0, axis), width, width, 1, 1, centred};
  return RENGA_SUCCESS;
}

/* groups 0: one for each channel */
static NormRows_Ref GroupRows(const RengaTensorSpec *x, int64_t groups)
{
  int64_t channels = x->dim[1], plane = RengaOpProduct(x, 2, x->ndim);
  if (groups == 0) groups = channels;
  int64_t width = groups > 0 ? channels / groups * plane : 0;
  return (NormRows_Ref){x->dim[0] * groups, width, channels, groups, plane, true};
}

/* Mean and 1 / sqrt(variance + epsilon) of row r. */
static void Statistics_Ref(const NormRows_Ref *rows, RefIn x, int64_t r, double epsilon,
                           double *mean, double *inverse)
{
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < rows->width; i++) sum += RefGet(x, r * rows->width + i);
  *mean = rows->centred ? sum / (double)rows->width : 0;
  for (int64_t i = 0; i < rows->width; i++) {
    double centred = RefGet(x, r * rows->width + i) - *mean;
    squares += centred * centred;
  }
  *inverse = 1 / sqrt(squares / (double)rows->width + epsilon);
}

static void Normalize_Ref(const RengaOpCall *call, const NormRows_Ref *rows, const void *const in[],
                          void *const out[])
{
  RefIn x = RefInput(call, in, 0), scale = RefInput(call, in, 1), bias = RefInput(call, in, 2);
  RefOut y = RefOutput(call, out, 0);
  RefOut means = rows->centred ? RefOutput(call, out, 1) : (RefOut){NULL, y.type};
  RefOut inverses = RefOutput(call, out, rows->centred ? 2 : 1);
  double epsilon = RengaOpCallReal(call, "epsilon"), mean, inverse;
  for (int64_t r = 0; r < rows->rows; r++) {
    Statistics_Ref(rows, x, r, epsilon, &mean, &inverse);
    for (int64_t i = 0; i < rows->width; i++) {
      int64_t at = r * rows->width + i, s = ScaleOf(rows, r, i);
      double value = (RefGet(x, at) - mean) * inverse * RefGet(scale, s);
      RefSet(y, at, bias.data ? value + RefGet(bias, s) : value);
    }
    if (means.data) RefSet(means, r, mean);
    if (inverses.data) RefSet(inverses, r, inverse);
  }
}

typedef struct {
  RefIn dy, x, scale, mean, inverse; /* mean.data NULL: 0 */
} Saved;

static Saved SavedOf(const RengaOpCall *call, const void *const in[], bool centred)
{
  Saved saved = {RefInput(call, in, 0),
                 RefInput(call, in, 1),
                 RefInput(call, in, 2),
                 {NULL, RENGA_FLOAT32},
                 RefInput(call, in, centred ? 4 : 3)};
  if (centred) saved.mean = RefInput(call, in, 3);
  return saved;
}

/* The normalised x, before the scale. */
static double Normal(const NormRows_Ref *rows, const Saved *saved, int64_t r, int64_t i)
{
  double mean = saved->mean.data ? RefGet(saved->mean, r) : 0;
  return (RefGet(saved->x, r * rows->width + i) - mean) * RefGet(saved->inverse, r);
}

/* dx = inverse * (g - mean of g - n * mean of g n), where g = dy * scale and n is the normalised
   x. */
static void NormInputGradient_Ref(const NormRows_Ref *rows, const Saved *saved, RefOut dx)
{
  for (int64_t r = 0; r < rows->rows; r++) {
    double sum = 0, product = 0;
    for (int64_t i = 0; i < rows->width; i++) {
      double g = RefGet(saved->dy, r * rows->width + i) * RefGet(saved->scale, ScaleOf(rows, r, i));
      sum += rows->centred ? g : 0;
      product += g * Normal(rows, saved, r, i);
    }
    for (int64_t i = 0; i < rows->width; i++) {
      double g = RefGet(saved->dy, r * rows->width + i) * RefGet(saved->scale, ScaleOf(rows, r, i));
      double off = (sum + Normal(rows, saved, r, i) * product) / (double)rows->width;
      RefSet(dx, r * rows->width + i, RefGet(saved->inverse, r) * (g - off));
    }
  }
}

/* Scale s is that of scale_run elements in each row whose number is s * scale_run / width modulo
   scale_rows. */
static void ScaleGradient(const NormRows_Ref *rows, const Saved *saved, RefOut dscale, RefOut dbias)
{
  for (int64_t s = 0; s < rows->scales; s++) {
    double scale = 0, bias = 0;
    int64_t first = rows->width > 0 ? s * rows->scale_run / rows->width : rows->rows;
    int64_t from = s * rows->scale_run - first * rows->width;
    for (int64_t r = first; r < rows->rows; r += rows->scale_rows)
      for (int64_t i = from; i < from + rows->scale_run; i++) {
        double g = RefGet(saved->dy, r * rows->width + i);
        scale += g * Normal(rows, saved, r, i);
        bias += g;
      }
    if (dscale.data) RefSet(dscale, s, scale);
    if (dbias.data) RefSet(dbias, s, bias);
  }
}

static void NormGradient_Ref(const RengaOpCall *call, const NormRows_Ref *rows,
                             const void *const in[], void *const out[])
{
  Saved saved = SavedOf(call, in, rows->centred);
  const RefOut dx = RefOutput(call, out, 0);
  const int before =
      rows->centred ? 5 : 4; /* the gradient so far, which the rounded one is added to */
  NormInputGradient_Ref(rows, &saved, dx);
  const int64_t count = RengaOpCallHasInput(call, before) ? RengaTensorSpecCount(&call->out[0]) : 0;
  for (int64_t i = 0; i < count; i++) RefAdd(dx, i, RefGet(RefInput(call, in, before), i));
  ScaleGradient(rows, &saved, RefOutput(call, out, 1), RefOutput(call, out, 2));
}

static RengaErrorCode LayerNormalization_Ref(const RengaOpCall *call,
                                             const RengaKernelContext *context,
                                             const void *const in[], void *const out[])
{
  NormRows_Ref rows;
  RengaCall(LayerRows(call, &call->in[0], true, &rows));
  Normalize_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

/* x + more is rounded before it is normalised. */
static RengaErrorCode AddNormalization_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  (void)context;
  const RefIn x = RefInput(call, in, 0), more = RefInput(call, in, 1);
  const RefOut sum = RefOutput(call, out, 0);
  const int64_t count = RengaTensorSpecCount(&call->out[0]);
  const void *inputs[3] = {out[0], in[2], call->n_in > 3 ? in[3] : NULL};
  RengaTensorSpec spec[3] = {call->out[0], call->in[2], {.ndim = -1}};
  if (call->n_in > 3) spec[2] = call->in[3];
  const RengaOpCall norm = {.op = call->op,
                            .attributes = call->attributes,
                            .n_in = 3,
                            .n_out = call->n_out - 1,
                            .in = spec,
                            .out = call->out + 1};
  NormRows_Ref rows;
  for (int64_t i = 0; i < count; i++) RefSet(sum, i, RefGet(x, i) + RefGet(more, i));
  RengaCall(
      LayerRows(&norm, &spec[0], strcmp(call->op->name, "AddLayerNormalization") == 0, &rows));
  Normalize_Ref(&norm, &rows, inputs, out + 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode LayerNormalizationGrad_Ref(const RengaOpCall *call,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[])
{
  NormRows_Ref rows;
  RengaCall(LayerRows(call, &call->in[1], true, &rows));
  NormGradient_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalization_Ref(const RengaOpCall *call,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[])
{
  NormRows_Ref rows;
  RengaCall(LayerRows(call, &call->in[0], false, &rows));
  Normalize_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalizationGrad_Ref(const RengaOpCall *call,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[])
{
  NormRows_Ref rows;
  RengaCall(LayerRows(call, &call->in[1], false, &rows));
  NormGradient_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

static RengaErrorCode GroupNormalization_Ref(const RengaOpCall *call,
                                             const RengaKernelContext *context,
                                             const void *const in[], void *const out[])
{
  NormRows_Ref rows = GroupRows(&call->in[0], RengaOpCallInt(call, "num_groups"));
  Normalize_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

static RengaErrorCode GroupNormalizationGrad_Ref(const RengaOpCall *call,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[])
{
  NormRows_Ref rows = GroupRows(&call->in[1], RengaOpCallInt(call, "num_groups"));
  NormGradient_Ref(call, &rows, in, out);
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindNormalize(const char *name)
{
  static const RefRow rows[] = {
      {"LayerNormalization", LayerNormalization_Ref},
      {"AddLayerNormalization", AddNormalization_Ref},
      {"AddRMSNormalization", AddNormalization_Ref},
      {"LayerNormalizationGrad", LayerNormalizationGrad_Ref},
      {"RMSNormalization", RMSNormalization_Ref},
      {"RMSNormalizationGrad", RMSNormalizationGrad_Ref},
      {"GroupNormalization", GroupNormalization_Ref},
      {"GroupNormalizationGrad", GroupNormalizationGrad_Ref},
      {"InstanceNormalization", GroupNormalization_Ref}, /* without num_groups */
      {"InstanceNormalizationGrad", GroupNormalizationGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
