/* Operators of the cuda device that work along rows: Softmax, normalizations, losses, Dropout. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

/* Is the operator a variant that its name tells? */
static bool IsVariant_Cuda(RengaKernel kernel, const char *word)
{
  return strstr(kernel->call.op->name, word) != NULL;
}

static RengaErrorCode SoftmaxCreate_Cuda(RengaKernel kernel)
{
  const RengaCudaLine plain = IsVariant_Cuda(kernel, "Log") ? RENGA_CUDA_LOG_SOFTMAX
                                                            : RENGA_CUDA_SOFTMAX,
                      gradient = IsVariant_Cuda(kernel, "Log") ? RENGA_CUDA_LOG_SOFTMAX_GRAD
                                                               : RENGA_CUDA_SOFTMAX_GRAD;
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[0];
  int axis = 0;
  if (!RengaCudaAllFloats_Private(call)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  const RengaCudaRows s = {.function = IsVariant_Cuda(kernel, "Grad") ? gradient : plain,
                           .outer = RengaOpProduct(x, 0, axis),
                           .n = x->dim[axis],
                           .inner = RengaOpProduct(x, axis + 1, x->ndim)};
  RengaCall(RengaCudaCreateShaped_Private(kernel, RengaCudaModuleOf_Private(kernel)->run.softmax,
                                          sizeof s, &s));
  for (int i = 0; i < call->n_in; i++) RengaCudaAllowOver_Private(kernel, i);
  return RENGA_SUCCESS;
}

/* x is input 1 of gradients. Their sums over rows are cut into at most 128 pieces. */
static RengaErrorCode NormCreate_Cuda(RengaKernel kernel)
{
  enum { MOST_PIECES = 128, LEAST_ROWS = 32 };
  const RengaOpCall *call = &kernel->call;
  const int x_input = IsVariant_Cuda(kernel, "Grad");
  const bool centred = IsVariant_Cuda(kernel, "Layer");
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
static RengaErrorCode AddNormCreate_Cuda(RengaKernel kernel)
{
  RengaCall(NormCreate_Cuda(kernel));
  if (!kernel->run) return RENGA_SUCCESS;
  for (int i = 1; i < 4; i++) RengaCudaMapInput_Private(kernel, i, i < 3 ? i + 1 : 1);
  for (int o = 0; o < 4; o++) RengaCudaMapOutput_Private(kernel, o, o < 3 ? o + 1 : 0);
  for (int i = 0; i < 2; i++) RengaCudaAllowOver_Private(kernel, i);
  return RENGA_SUCCESS;
}

/* scores: which input they are, 1 of gradients; labels stand behind. */
static RengaErrorCode LossCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int scores = IsVariant_Cuda(kernel, "Grad");
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
                           .scored = IsVariant_Cuda(kernel, "LogLikelihood")};
  RengaCall(
      RengaCudaCreateShaped_Private(kernel, scores ? run->lossgrad : run->loss, sizeof s, &s));
  RengaCudaCheckInput_Private(kernel, scores + 1, "label", 0, s.classes, s.ignore);
  if (scores)
    RengaCudaAllowOver_Private(kernel, 1);
  else
    kernel->workspace = (size_t)(s.outer * s.inner) * sizeof(double);
  return RENGA_SUCCESS;
}

/* The same of a lane's classes; scores are input 2 of gradients. */
static RengaErrorCode LossLaneCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const int scores = IsVariant_Cuda(kernel, "Grad") ? 2 : 0;
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
  if (!scores || !kernel->run) return RENGA_SUCCESS;
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

/* It has no log-sum-exp before the weights. */
static RengaErrorCode LogLikelihoodGradCreate_Cuda(RengaKernel kernel)
{
  RengaCall(LossCreate_Cuda(kernel));
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
    {"LogSoftmax", SoftmaxCreate_Cuda},
    {"SoftmaxGrad", SoftmaxCreate_Cuda},
    {"LogSoftmaxGrad", SoftmaxCreate_Cuda},
    {"LayerNormalization", NormCreate_Cuda},
    {"AddLayerNormalization", AddNormCreate_Cuda},
    {"AddRMSNormalization", AddNormCreate_Cuda},
    {"LayerNormalizationGrad", NormCreate_Cuda},
    {"RMSNormalization", NormCreate_Cuda},
    {"RMSNormalizationGrad", NormCreate_Cuda},
    {"CrossEntropy", LossCreate_Cuda},
    {"CrossEntropyGrad", LossCreate_Cuda},
    {"CrossEntropyCount", CrossEntropyCountCreate_Cuda},
    {"CrossEntropyLane", LossLaneCreate_Cuda},
    {"CrossEntropyLaneGrad", LossLaneCreate_Cuda},
    {"CrossEntropyJoin", CrossEntropyJoinCreate_Cuda},
    {"CrossEntropyJoinGrad", CrossEntropyJoinGradCreate_Cuda},
    {"LogLikelihood", LossCreate_Cuda},
    {"LogLikelihoodGrad", LogLikelihoodGradCreate_Cuda},
    {"Dropout", DropoutCreate_Cuda},
    {"RandomUniform", RandomUniformCreate_Cuda},
    {NULL, NULL},
};
