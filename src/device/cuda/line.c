/* Operators of the cuda device that work along rows: Softmax, normalizations, losses, Dropout. */
#include "cuda.h"
#include "renga/private/op.h"

static RengaErrorCode CreateSoftmax_Cuda(RengaKernel kernel, RengaCudaLine function)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[0];
  int axis = 0;
  if (!RengaCudaAllFloats_Private(call)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  const RengaCudaRows s = {.function = function,
                           .outer = RengaOpProduct(x, 0, axis),
                           .n = x->dim[axis],
                           .inner = RengaOpProduct(x, axis + 1, x->ndim)};
  RengaCall(RengaCudaCreateShaped_Private(kernel, RengaCudaModuleOf_Private(kernel)->run.softmax,
                                          sizeof s, &s));
  for (int i = 0; i < call->n_in; i++) RengaCudaAllowOver_Private(kernel, i);
  return RENGA_SUCCESS;
}

static RengaErrorCode SoftmaxCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cuda(kernel, RENGA_CUDA_SOFTMAX));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmaxCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cuda(kernel, RENGA_CUDA_LOG_SOFTMAX));
  return RENGA_SUCCESS;
}

static RengaErrorCode SoftmaxGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cuda(kernel, RENGA_CUDA_SOFTMAX_GRAD));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmaxGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cuda(kernel, RENGA_CUDA_LOG_SOFTMAX_GRAD));
  return RENGA_SUCCESS;
}

/* x: which input it is, 1 of gradients. Their sums over rows are cut into at most 128 pieces. */
static RengaErrorCode CreateNorm_Cuda(RengaKernel kernel, int x_input, bool centred)
{
  enum { MOST_PIECES = 128, LEAST_ROWS = 32 };
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[x_input];
  const RengaCudaFamilies *run = &RengaCudaModuleOf_Private(kernel)->run;
  int axis = 0;
  if (!RengaCudaAllFloats_Private(call)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaCudaNormalize s = {.rows = RengaOpProduct(x, 0, axis),
                          .n = RengaOpProduct(x, axis, x->ndim),
                          .epsilon = (float)RengaAttributesReal(call->attributes, "epsilon", 1e-5),
                          .centred = centred};
  s.rows_per_piece = RengaCudaPieces_Private(s.rows, MOST_PIECES);
  if (s.rows_per_piece < LEAST_ROWS) s.rows_per_piece = LEAST_ROWS;
  s.pieces = RengaCudaPieces_Private(s.rows, s.rows_per_piece);
  RengaCall(
      RengaCudaCreateShaped_Private(kernel, x_input ? run->normgrad : run->norm, sizeof s, &s));
  if (!x_input) return RENGA_SUCCESS;
  kernel->workspace = (size_t)(2 * s.pieces * s.n) * sizeof(float);
  const int more = centred ? 5 : 4;
  if (RengaOpCallHasInput(call, more)) RengaCudaAllowOver_Private(kernel, more);
  return RENGA_SUCCESS;
}

/* x, more, scale, (bias) -> x + more, y, (mean), inverse: the sum is output 3 of the module's. */
static RengaErrorCode CreateAddNorm_Cuda(RengaKernel kernel, bool centred)
{
  RengaCall(CreateNorm_Cuda(kernel, 0, centred));
  if (!kernel->run) return RENGA_SUCCESS;
  for (int i = 1; i < 4; i++) RengaCudaMapInput_Private(kernel, i, i < 3 ? i + 1 : 1);
  for (int o = 0; o < 4; o++) RengaCudaMapOutput_Private(kernel, o, o < 3 ? o + 1 : 0);
  for (int i = 0; i < 2; i++) RengaCudaAllowOver_Private(kernel, i);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLayerNormalizationCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateAddNorm_Cuda(kernel, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddRMSNormalizationCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateAddNorm_Cuda(kernel, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayerNormalizationCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateNorm_Cuda(kernel, 0, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayerNormalizationGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateNorm_Cuda(kernel, 1, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalizationCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateNorm_Cuda(kernel, 0, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalizationGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateNorm_Cuda(kernel, 1, false));
  return RENGA_SUCCESS;
}

/* scores: which input they are, 1 of gradients; labels stand behind. */
static RengaErrorCode CreateLoss_Cuda(RengaKernel kernel, int scores, bool scored)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[scores], *labels = x + 1;
  const RengaCudaFamilies *run = &RengaCudaModuleOf_Private(kernel)->run;
  int axis = 0;
  if (!RengaCudaIsFloat_Private(x) || !RengaCudaIsIndex_Private(labels)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  const RengaCudaLoss s = {.outer = RengaOpProduct(x, 0, axis),
                           .classes = x->dim[axis] - RengaOpCallInt(call, "padding"),
                           .extent = x->dim[axis],
                           .inner = RengaOpProduct(x, axis + 1, x->ndim),
                           .ignore = RengaOpCallInt(call, "ignore_index"),
                           .wide = labels->type == RENGA_INT64,
                           .scored = scored};
  RengaCall(
      RengaCudaCreateShaped_Private(kernel, scores ? run->lossgrad : run->loss, sizeof s, &s));
  RengaCudaCheckInput_Private(kernel, scores + 1, "label", 0, s.classes, s.ignore);
  if (scores)
    RengaCudaAllowOver_Private(kernel, 1);
  else
    kernel->workspace = (size_t)(s.outer * s.inner) * sizeof(double);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cuda(kernel, 0, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cuda(kernel, 1, false));
  return RENGA_SUCCESS;
}

/* The same of a lane's classes. */
static RengaErrorCode CreateLossLane_Cuda(RengaKernel kernel, int scores)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[scores], *labels = x + 1;
  const RengaCudaFamilies *run = &RengaCudaModuleOf_Private(kernel)->run;
  int axis = 0;
  if (!RengaCudaIsFloat_Private(x) || !RengaCudaIsIndex_Private(labels)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  const RengaCudaLoss s = {.outer = RengaOpProduct(x, 0, axis),
                           .classes = x->dim[axis] - RengaOpCallInt(call, "padding"),
                           .extent = x->dim[axis],
                           .inner = RengaOpProduct(x, axis + 1, x->ndim),
                           .ignore = RengaOpCallInt(call, "ignore_index"),
                           .first = RengaOpCallInt(call, "first"),
                           .wide = labels->type == RENGA_INT64,
                           .lane = 1};
  RengaCall(
      RengaCudaCreateShaped_Private(kernel, scores ? run->lossgrad : run->loss, sizeof s, &s));
  RengaCudaCheckInput_Private(kernel, scores + 1, "label", 0, RengaOpCallInt(call, "classes"),
                              s.ignore);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyLaneCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLossLane_Cuda(kernel, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyLaneGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLossLane_Cuda(kernel, 2));
  if (!kernel->run) return RENGA_SUCCESS;
  for (int i = 1; i < 4; i++) RengaCudaMapInput_Private(kernel, i, i + 1);
  RengaCudaMapInput_Private(kernel, 4, 1);
  RengaCudaAllowOver_Private(kernel, 2);
  return RENGA_SUCCESS;
}

/* labels and weights: which inputs they are. More lanes than the module takes arguments are left to
   the host. */
static RengaErrorCode CreateJoin_Cuda(RengaKernel kernel, int labels, int weights, int lanes,
                                      RengaCudaRun run)
{
  const RengaOpCall *call = &kernel->call;
  const bool weighted = RengaOpCallHasInput(call, weights);
  if (!RengaCudaIsIndex_Private(&call->in[labels]) || call->n_in > RENGA_CUDA_ARGUMENTS ||
      call->n_out > RENGA_CUDA_ARGUMENTS)
    return RENGA_SUCCESS;
  for (int i = 0; i < call->n_in; i++)
    if (i != labels && !RengaCudaIsFloat_Private(&call->in[i])) return RENGA_SUCCESS;
  const RengaCudaJoin s = {.rows = RengaTensorSpecCount(&call->in[labels]),
                           .classes = weighted ? call->in[weights].dim[0] : 0,
                           .ignore = RengaOpCallInt(call, "ignore_index"),
                           .wide = call->in[labels].type == RENGA_INT64,
                           .lanes = lanes};
  RengaCall(RengaCudaCreateShaped_Private(kernel, run, sizeof s, &s));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyJoinCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateJoin_Cuda(kernel, 0, 1, (call->n_in - 2) / 2,
                            RengaCudaModuleOf_Private(kernel)->run.join));
  if (kernel->run) kernel->workspace = (size_t)RengaTensorSpecCount(&call->in[0]) * sizeof(double);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyJoinGradCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateJoin_Cuda(kernel, 1, 3, call->n_in - 4,
                            RengaCudaModuleOf_Private(kernel)->run.joingrad));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogLikelihoodCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cuda(kernel, 0, true));
  return RENGA_SUCCESS;
}

/* It has no log-sum-exp before the weights. */
static RengaErrorCode LogLikelihoodGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cuda(kernel, 1, true));
  if (kernel->run) RengaCudaMapInput_Private(kernel, 4, 3);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCountCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *labels = &call->in[0];
  const bool weighted = RengaOpCallHasInput(call, 1);
  if (!RengaCudaIsIndex_Private(labels) || (weighted && !RengaCudaIsFloat_Private(&call->in[1])))
    return RENGA_SUCCESS;
  const RengaCudaLoss s = {.outer = RengaTensorSpecCount(labels),
                           .inner = 1,
                           .classes = weighted ? call->in[1].dim[0] : 0,
                           .ignore = RengaOpCallInt(call, "ignore_index"),
                           .wide = labels->type == RENGA_INT64};
  RengaCall(RengaCudaCreateShaped_Private(kernel, RengaCudaModuleOf_Private(kernel)->run.losscount,
                                          sizeof s, &s));
  if (weighted) RengaCudaCheckInput_Private(kernel, 0, "label", 0, s.classes, s.ignore);
  return RENGA_SUCCESS;
}

/* x: of the shape of the output. */
static RengaErrorCode CreateDraw_Cuda(RengaKernel kernel, const RengaTensorSpec *x, double ratio)
{
  const RengaOpCall *call = &kernel->call;
  const int batch_dim = (int)RengaOpCallInt(call, "batch_dim");
  if (!RengaCudaAllFloats_Private(call) || call->n_out > 1 || batch_dim < 0 || batch_dim >= x->ndim)
    return RENGA_SUCCESS;
  const RengaCudaDraw s = {.count = RengaTensorSpecCount(x),
                           .batch = x->dim[batch_dim],
                           .factor = RengaOpCallInt(call, "batch_factor"),
                           .after = RengaOpProduct(x, batch_dim + 1, x->ndim),
                           .key = RengaOpCallInt(call, "key"),
                           .ratio = (float)ratio};
  RengaCall(RengaCudaCreateShaped_Private(kernel, RengaCudaModuleOf_Private(kernel)->run.draw,
                                          sizeof s, &s));
  return RENGA_SUCCESS;
}

static RengaErrorCode DropoutCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaCall(CreateDraw_Cuda(kernel, &call->in[0], RengaOpCallReal(call, "ratio")));
  if (kernel->run) RengaCudaAllowOver_Private(kernel, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RandomUniformCreate_Cuda(RengaKernel kernel)
{
  RengaCall(CreateDraw_Cuda(kernel, &kernel->call.out[0], 0));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaLineRows[] = {
    {"Softmax", SoftmaxCreate_Cuda},
    {"LogSoftmax", LogSoftmaxCreate_Cuda},
    {"SoftmaxGrad", SoftmaxGradCreate_Cuda},
    {"LogSoftmaxGrad", LogSoftmaxGradCreate_Cuda},
    {"LayerNormalization", LayerNormalizationCreate_Cuda},
    {"AddLayerNormalization", AddLayerNormalizationCreate_Cuda},
    {"AddRMSNormalization", AddRMSNormalizationCreate_Cuda},
    {"LayerNormalizationGrad", LayerNormalizationGradCreate_Cuda},
    {"RMSNormalization", RMSNormalizationCreate_Cuda},
    {"RMSNormalizationGrad", RMSNormalizationGradCreate_Cuda},
    {"CrossEntropy", CrossEntropyCreate_Cuda},
    {"CrossEntropyGrad", CrossEntropyGradCreate_Cuda},
    {"CrossEntropyCount", CrossEntropyCountCreate_Cuda},
    {"CrossEntropyLane", CrossEntropyLaneCreate_Cuda},
    {"CrossEntropyLaneGrad", CrossEntropyLaneGradCreate_Cuda},
    {"CrossEntropyJoin", CrossEntropyJoinCreate_Cuda},
    {"CrossEntropyJoinGrad", CrossEntropyJoinGradCreate_Cuda},
    {"LogLikelihood", LogLikelihoodCreate_Cuda},
    {"LogLikelihoodGrad", LogLikelihoodGradCreate_Cuda},
    {"Dropout", DropoutCreate_Cuda},
    {"RandomUniform", RandomUniformCreate_Cuda},
    {NULL, NULL},
};
