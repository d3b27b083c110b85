/* Normalisations, softmax, dropout. */
#include "renga/private/op.h"

/* A parameter has the shape of dimensions axis … of x. */
static RengaErrorCode CheckTail(const RengaOpCall *call, int input, const RengaTensorSpec *x,
                                int axis)
{
  const RengaTensorSpec *scale = &call->in[input];
  bool fits = scale->ndim == x->ndim - axis;
  for (int d = 0; fits && d < scale->ndim; d++) fits = scale->dim[d] == x->dim[axis + d];
  RengaOpCheck(fits, call, "input %d must have the shape of x from dimension %d on", input, axis);
  return RENGA_SUCCESS;
}

/* A statistic has the shape of x with 1 from dimension axis on. */
static void StatisticShape(const RengaTensorSpec *x, int axis, RengaTensorSpec *statistic)
{
  RengaOpCopyShape(statistic, x);
  for (int d = axis; d < x->ndim; d++) statistic->dim[d] = 1;
}

static RengaErrorCode CheckStatistic(const RengaOpCall *call, int input, const RengaTensorSpec *x,
                                     int axis)
{
  RengaTensorSpec statistic = {0};
  StatisticShape(x, axis, &statistic);
  RengaOpCheck(RengaOpSameShape(&statistic, &call->in[input]), call,
               "input %d must have the shape of x with 1 from dimension %d on", input, axis);
  return RENGA_SUCCESS;
}

/* Layer: x, scale, (bias) -> y, mean, inverse deviation; RMS: x, scale -> y, inverse deviation */
static RengaErrorCode LayerNormalization(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  for (int i = 1; i < call->n_in; i++)
    if (RengaOpCallHasInput(call, i)) RengaCall(CheckTail(call, i, x, axis));
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) StatisticShape(x, axis, &call->out[i]);
  return RENGA_SUCCESS;
}

/* x, more, scale, (bias) -> x + more, and what a normalisation makes of it */
static RengaErrorCode AddNormalization(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCheck(RengaOpSameShape(&call->in[1], x), call, "what is added differs in shape");
  for (int i = 2; i < call->n_in; i++)
    if (RengaOpCallHasInput(call, i)) RengaCall(CheckTail(call, i, x, axis));
  for (int i = 0; i < 2; i++) RengaOpCopyShape(&call->out[i], x);
  for (int i = 2; i < call->n_out; i++) StatisticShape(x, axis, &call->out[i]);
  return RENGA_SUCCESS;
}

/* dy, x, scale, statistics, (what dx is added to) -> dx, dscale, (dbias) */
static RengaErrorCode LayerNormalizationGrad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[1];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCheck(RengaOpSameShape(&call->in[0], x), call, "gradient and input differ in shape");
  RengaCall(CheckTail(call, 2, x, axis));
  const int more = call->op->max_in - 1;
  for (int i = 3; i < more; i++) RengaCall(CheckStatistic(call, i, x, axis));
  RengaOpCheck(!RengaOpCallHasInput(call, more) || RengaOpSameShape(&call->in[more], x), call,
               "the gradient so far differs in shape");
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) RengaOpCopyShape(&call->out[i], &call->in[2]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckChannels(const RengaOpCall *call, const RengaTensorSpec *x, int first,
                                    int last)
{
  RengaOpCheck(x->ndim >= 2, call, "needs a batch and a channel dimension");
  const int64_t channels = RengaOpChannelsFirst_Private(call, x).dim[1];
  for (int i = first; i < last; i++)
    RengaOpCheck(call->in[i].ndim == 1 && call->in[i].dim[0] == channels, call,
                 "input %d must have one element for each of %lld channels", i,
                 (long long)channels);
  return RENGA_SUCCESS;
}

/* Statistics [N, groups]; a group has several channels. InstanceNormalization: one channel each. */
static RengaErrorCode GroupExtents(const RengaOpCall *call, const RengaTensorSpec *x,
                                   int64_t *groups)
{
  *groups = RengaOpCallInt(call, "num_groups");
  if (*groups == 0) *groups = x->dim[1];
  RengaOpCheck(*groups > 0 && x->dim[1] % *groups == 0, call, "%lld channels in %lld groups",
               (long long)x->dim[1], (long long)*groups);
  return RENGA_SUCCESS;
}

static RengaErrorCode GroupNormalization(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int64_t groups;
  RengaCall(CheckChannels(call, x, 1, 3));
  RengaCall(GroupExtents(call, x, &groups));
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) {
    call->out[i].ndim = 2;
    call->out[i].dim[0] = x->dim[0];
    call->out[i].dim[1] = groups;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GroupNormalizationGrad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[1];
  int64_t groups;
  RengaOpCheck(RengaOpSameShape(&call->in[0], x), call, "gradient and input differ in shape");
  RengaCall(CheckChannels(call, x, 2, 3));
  RengaCall(GroupExtents(call, x, &groups));
  for (int i = 3; i < 5; i++)
    RengaOpCheck(call->in[i].ndim == 2 && call->in[i].dim[0] == x->dim[0] &&
                     call->in[i].dim[1] == groups,
                 call, "input %d must be [%lld,%lld]", i, (long long)x->dim[0], (long long)groups);
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) RengaOpCopyShape(&call->out[i], &call->in[2]);
  return RENGA_SUCCESS;
}

/* x, scale, bias, running mean, running variance -> y, batch mean, batch variance */
static RengaErrorCode ShapeBatchNormalization(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaCall(CheckChannels(call, x, 1, 5));
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) RengaOpCopyShape(&call->out[i], &call->in[1]);
  return RENGA_SUCCESS;
}

/* The same and what is added before ReLU */
static RengaErrorCode BatchNormalizationRelu(RengaOpCall *call)
{
  RengaCall(ShapeBatchNormalization(call));
  RengaOpCheck(!RengaOpCallHasInput(call, 5) || RengaOpSameShape(&call->in[5], &call->in[0]), call,
               "what is added differs in shape");
  return RENGA_SUCCESS;
}

/* dy, y, x, scale, batch mean, batch variance -> dx, dscale, dbias, gradient of what was added */
static RengaErrorCode BatchNormalizationReluGrad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[2];
  for (int i = 0; i < 2; i++)
    RengaOpCheck(RengaOpSameShape(&call->in[i], x), call, "gradient, output and input differ");
  RengaCall(CheckChannels(call, x, 3, 6));
  for (int i = 0; i < call->n_out; i++)
    RengaOpCopyShape(&call->out[i], i == 0 || i == 3 ? x : &call->in[3]);
  return RENGA_SUCCESS;
}

/* dy, x, scale, batch mean, batch variance -> dx, dscale, dbias */
static RengaErrorCode BatchNormalizationGrad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[1];
  RengaOpCheck(RengaOpSameShape(&call->in[0], x), call, "gradient and input differ in shape");
  RengaCall(CheckChannels(call, x, 2, 5));
  RengaOpCopyShape(&call->out[0], x);
  for (int i = 1; i < call->n_out; i++) RengaOpCopyShape(&call->out[i], &call->in[2]);
  return RENGA_SUCCESS;
}

/* x, some rows of an image -> their mean, their variance */
static RengaErrorCode ShapeBatchLane(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaCall(CheckChannels(call, x, 1, 1));
  for (int o = 0; o < 2; o++) {
    call->out[o].ndim = 1;
    call->out[o].dim[0] = x->dim[1];
  }
  return RENGA_SUCCESS;
}

/* dmean, dvariance, x, mean -> dx */
static RengaErrorCode BatchLaneGrad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[2];
  RengaOpCheck(x->ndim >= 2, call, "needs a batch and a channel dimension");
  for (int i = 0; i < 4; i++)
    RengaOpCheck(i == 2 || (call->in[i].ndim == 1 && call->in[i].dim[0] == x->dim[1]), call,
                 "input %d must have one element for each of %lld channels", i,
                 (long long)x->dim[1]);
  RengaOpCopyShape(&call->out[0], x);
  return RENGA_SUCCESS;
}

/* Each input has one element for each channel; rows: how many lane l has of all. */
static RengaErrorCode CheckBatchJoin(const RengaOpCall *call, int lanes)
{
  int n_rows;
  const int64_t *rows = RengaOpCallInts(call, "lane_rows", &n_rows);
  for (int i = 0; i < call->n_in; i++)
    RengaOpCheck(call->in[i].ndim == 1 && call->in[i].dim[0] == call->in[0].dim[0], call,
                 "input %d must have one element for each of %lld channels", i,
                 (long long)call->in[0].dim[0]);
  RengaOpCheck(n_rows == lanes, call, "rows of %d lanes, not of %d", n_rows, lanes);
  for (int l = 0; l < lanes; l++)
    RengaOpCheckValue(rows[l] > 0, call, "lane %d has %lld rows", l, (long long)rows[l]);
  return RENGA_SUCCESS;
}

/* running mean, running variance, means of lanes, variances of lanes -> mean, variance */
static RengaErrorCode ShapeBatchJoin(RengaOpCall *call)
{
  RengaOpCheck(call->n_in % 2 == 0, call, "%d inputs: each lane has a mean and a variance",
               call->n_in);
  RengaCall(CheckBatchJoin(call, (call->n_in - 2) / 2));
  for (int o = 0; o < 2; o++) RengaOpCopyShape(&call->out[o], &call->in[0]);
  return RENGA_SUCCESS;
}

/* dmean, dvariance, mean, means of lanes -> dmeans of lanes, dvariances of lanes */
static RengaErrorCode BatchJoinGrad(RengaOpCall *call)
{
  RengaCall(CheckBatchJoin(call, call->n_in - 3));
  RengaOpCheck(call->n_out == 2 * (call->n_in - 3), call, "%d outputs for %d lanes", call->n_out,
               call->n_in - 3);
  for (int o = 0; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeSoftmax(RengaOpCall *call)
{
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  RengaOpCheck(call->n_in == 1 || RengaOpSameShape(&call->in[0], &call->in[1]), call,
               "gradient and output differ in shape");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

/* Along the axis x is divided by its norm. */
static RengaErrorCode ShapeLpNormalization(RengaOpCall *call)
{
  int axis;
  int64_t p = RengaOpCallInt(call, "p");
  RengaOpCheckValue(p == 1 || p == 2, call, "p is %lld, must be 1 or 2", (long long)p);
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeLocalResponse(RengaOpCall *call)
{
  int64_t size = RengaOpCallInt(call, "size");
  RengaOpCheckValue(size > 0 && size <= INT32_MAX, call, "size is %lld", (long long)size);
  RengaOpCheck(call->in[0].ndim >= 2, call, "needs a batch and a channel dimension");
  RengaOpCheck(call->n_in == 1 || RengaOpSameShape(&call->in[0], &call->in[1]), call,
               "gradient and input differ in shape");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeDropout(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  double ratio = RengaOpCallReal(call, "ratio");
  int64_t factor = RengaOpCallInt(call, "batch_factor");
  int axis;
  RengaOpCheckValue(ratio >= 0 && ratio < 1, call, "ratio is %g, must be in [0,1)", ratio);
  RengaOpCheckValue(factor > 0, call, "batch_factor is %lld", (long long)factor);
  if (x->ndim > 0) RengaCall(RengaOpAxis(call, "batch_dim", x->ndim, &axis));
  for (int i = 0; i < call->n_out; i++) RengaOpCopyShape(&call->out[i], x);
  return RENGA_SUCCESS;
}

/* Numbers in [0,1): the shape is given. */
static RengaErrorCode RandomUniform(RengaOpCall *call)
{
  int64_t factor = RengaOpCallInt(call, "batch_factor");
  int axis;
  RengaOpCheckValue(factor > 0, call, "batch_factor is %lld", (long long)factor);
  RengaOpCheckValue(RengaDataTypeIsFloating(call->out[0].type), call,
                    "the numbers are no integers");
  if (call->out[0].ndim > 0) RengaCall(RengaOpAxis(call, "batch_dim", call->out[0].ndim, &axis));
  return RENGA_SUCCESS;
}

static double FiveFlops(const RengaOpCall *call)
{
  return 5.0 * (double)RengaTensorSpecCount(&call->out[0]);
}

static double TwelveFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->out[0]);
}

/* Twice over x, of which the statistics are. */
static double StatisticsFlops(const RengaOpCall *call)
{
  return 4.0 * (double)RengaTensorSpecCount(&call->in[0]);
}

static double BatchJoinFlops(const RengaOpCall *call)
{
  return 5.0 * (double)RengaTensorSpecCount(&call->in[0]) * (double)call->n_in;
}

#define OWN RENGA_OP_INTERNAL
#define RANDOM "key:int=0 batch_dim:int=0 batch_factor:int=1"
#define LOCAL "alpha:real=0.0001 beta:real=0.75 bias:real=1 size:int=1"

const RengaOperator RengaOperatorsNormalize[] = {
    {"LayerNormalization", 2, 3, 1, 3, 0, LayerNormalization, FiveFlops,
     "axis:int=-1 epsilon:real=1e-5 stash_type:int=1", "F>F", NULL},
    {"LayerNormalizationGrad", 5, 6, 1, 3, OWN, LayerNormalizationGrad, TwelveFlops, "axis:int=-1",
     "F>F", NULL},
    {"RMSNormalization", 2, 2, 1, 2, 0, LayerNormalization, FiveFlops,
     "axis:int=-1 epsilon:real=1e-5 stash_type:int=1", "F>F", NULL},
    {"RMSNormalizationGrad", 4, 5, 1, 2, OWN, LayerNormalizationGrad, TwelveFlops, "axis:int=-1",
     "F>F", NULL},
    {"AddLayerNormalization", 3, 4, 2, 4, OWN, AddNormalization, FiveFlops,
     "axis:int=-1 epsilon:real=1e-5 stash_type:int=1", "F>F", NULL},
    {"AddRMSNormalization", 3, 3, 2, 3, OWN, AddNormalization, FiveFlops,
     "axis:int=-1 epsilon:real=1e-5 stash_type:int=1", "F>F", NULL},
    {"GroupNormalization", 3, 3, 1, 3, 0, GroupNormalization, FiveFlops,
     "num_groups:int=1 epsilon:real=1e-5 stash_type:int=1", "F>F", NULL},
    {"GroupNormalizationGrad", 5, 5, 1, 3, OWN, GroupNormalizationGrad, TwelveFlops,
     "num_groups:int=1", "F>F", NULL},
    {"InstanceNormalization", 3, 3, 1, 3, 0, GroupNormalization, FiveFlops, "epsilon:real=1e-5",
     "F>F", NULL},
    {"InstanceNormalizationGrad", 5, 5, 1, 3, OWN, GroupNormalizationGrad, TwelveFlops, NULL, "F>F",
     NULL},
    {"BatchNormalization", 5, 5, 1, 3, 0, ShapeBatchNormalization, FiveFlops,
     "epsilon:real=1e-5 momentum:real=0.9 training:int=1 channels_last:int=0", "F>F", NULL},
    {"BatchNormalizationGrad", 5, 5, 1, 3, OWN, BatchNormalizationGrad, TwelveFlops,
     "epsilon:real=1e-5 training:int=1 channels_last:int=0", "F>F", NULL},
    {"BatchNormalizationRelu", 5, 6, 1, 3, OWN, BatchNormalizationRelu, FiveFlops,
     "epsilon:real=1e-5 momentum:real=0.9 training:int=1", "F>F", NULL},
    {"BatchNormalizationReluGrad", 6, 6, 1, 4, OWN, BatchNormalizationReluGrad, TwelveFlops,
     "epsilon:real=1e-5 training:int=1", "F>F", NULL},
    {"BatchNormalizationLane", 1, 1, 2, 2, OWN, ShapeBatchLane, StatisticsFlops, NULL, "F>F", NULL},
    {"BatchNormalizationLaneGrad", 4, 4, 1, 1, OWN, BatchLaneGrad, FiveFlops, NULL, "F>F", NULL},
    {"BatchNormalizationJoin", 4, -1, 2, 2, OWN, ShapeBatchJoin, BatchJoinFlops,
     "lane_rows:ints row_values:int=1 momentum:real=0.9", "F>F", NULL},
    {"BatchNormalizationJoinGrad", 4, -1, 2, -1, OWN, BatchJoinGrad, BatchJoinFlops,
     "lane_rows:ints", "F>F", NULL},
    {"Softmax", 1, 1, 1, 1, 0, ShapeSoftmax, TwelveFlops, "axis:int=-1 flat:int=0", "F>F", NULL},
    {"LogSoftmax", 1, 1, 1, 1, 0, ShapeSoftmax, TwelveFlops, "axis:int=-1", "F>F", NULL},
    {"SoftmaxGrad", 2, 2, 1, 1, OWN, ShapeSoftmax, FiveFlops, "axis:int=-1", "F>F", NULL},
    {"LogSoftmaxGrad", 2, 2, 1, 1, OWN, ShapeSoftmax, TwelveFlops, "axis:int=-1", "F>F", NULL},
    {"LpNormalization", 1, 1, 1, 1, 0, ShapeLpNormalization, FiveFlops, "axis:int=-1 p:int=2",
     "F>F", NULL},
    {"LRN", 1, 1, 1, 1, 0, ShapeLocalResponse, TwelveFlops, LOCAL, "F>F", NULL},
    {"LRNGrad", 2, 2, 1, 1, OWN, ShapeLocalResponse, TwelveFlops, LOCAL, "F>F", NULL},
    {"Dropout", 1, 1, 1, 2, RENGA_OP_RANDOM, ShapeDropout, FiveFlops, "ratio:real=0.5 " RANDOM,
     "F>FB", NULL},
    {"RandomUniform", 0, 0, 1, 1, OWN | RENGA_OP_RANDOM | RENGA_OP_OUTPUT_GIVEN, RandomUniform,
     FiveFlops, "to:int=0 " RANDOM, "T>?", NULL},
    {0},
};
