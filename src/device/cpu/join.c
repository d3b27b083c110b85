/* The loss of what lanes have made of their classes: CrossEntropyJoin and its gradient. A few
   numbers for each label: one thread makes them, in double. */
#include "low.h"
#include "renga/private/op.h"
#include <math.h>

static int64_t JoinLabel(const RengaTensorSpec *spec, const void *labels, int64_t row)
{
  return spec->type == RENGA_INT64 ? ((const int64_t *)labels)[row]
                                   : ((const int32_t *)labels)[row];
}

/* labels and weights: which inputs they are. The lanes raise the error of a label that is no class,
   maybe on other ranks. */
static double JoinWeight_Cpu(const RengaOpCall *call, const void *const in[], int labels,
                             int weights, int64_t row)
{
  const int64_t label = JoinLabel(&call->in[labels], in[labels], row);
  if (label == RengaAttributesInt(call->attributes, "ignore_index", INT64_MIN)) return 0;
  if (!in[weights]) return 1;
  if (label < 0 || label >= call->in[weights].dim[0]) return 0;
  return RengaCpuGet(call->in[weights].type, in[weights], label);
}

static double GetOfLane(const RengaOpCall *call, const void *const in[], int i, int64_t row)
{
  return RengaCpuGet(call->in[i].type, in[i], row);
}

static double JoinLogSums_Cpu(const RengaOpCall *call, const void *const in[], int lanes,
                              int64_t row)
{
  double most = -INFINITY, sum = 0;
  for (int l = 0; l < lanes; l++) most = fmax(most, GetOfLane(call, in, 2 + l, row));
  for (int l = 0; l < lanes; l++) {
    const double own = GetOfLane(call, in, 2 + l, row);
    if (isnan(own)) return own;
    sum += isinf(most) ? 0 : exp(own - most);
  }
  return isinf(most) ? most : most + log(sum);
}

static RengaErrorCode JoinRun_Cpu(RengaKernel kernel, RengaStream stream,
                                  const RengaKernelContext *context, const void *const in[],
                                  void *const out[], void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  const int lanes = (call->n_in - 2) / 2;
  double total = 0;
  for (int64_t row = 0; row < RengaTensorSpecCount(&call->in[0]); row++) {
    const double whole = JoinLogSums_Cpu(call, in, lanes, row);
    const double weight = JoinWeight_Cpu(call, in, 0, 1, row);
    double score = 0; /* all lanes but one have 0 */
    for (int l = 0; l < lanes; l++) score += GetOfLane(call, in, 2 + lanes + l, row);
    if (weight != 0) total += weight * (whole - score);
    if (call->n_out > 1 && out[1]) RengaCpuPut(call->out[1].type, out[1], row, (float)whole);
    if (call->n_out > 2 && out[2]) RengaCpuPut(call->out[2].type, out[2], row, (float)score);
  }
  RengaCpuPut(call->out[0].type, out[0], 0, (float)total);
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                      const RengaKernelContext *context, const void *const in[],
                                      void *const out[], void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  const double gradient = RengaCpuGet(call->in[0].type, in[0], 0);
  for (int64_t row = 0; row < RengaTensorSpecCount(&call->in[1]); row++) {
    const double factor = gradient * JoinWeight_Cpu(call, in, 1, 3, row);
    const double whole = GetOfLane(call, in, 2, row);
    if (out[0]) RengaCpuPut(call->out[0].type, out[0], row, (float)-factor);
    for (int o = 1; o < call->n_out; o++) {
      const double share = factor == 0 ? 0 : exp(GetOfLane(call, in, 3 + o, row) - whole);
      if (out[o]) RengaCpuPut(call->out[o].type, out[o], row, (float)(factor * share));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateJoin_Cpu(RengaKernel kernel, int labels, RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->in[labels].type;
  for (int i = 0; i < labels; i++)
    if (!RengaCpuIsFloat(call->in[i].type)) return RENGA_SUCCESS;
  if ((type == RENGA_INT64 || type == RENGA_INT32) && RengaCpuAllFloats(call, labels + 1))
    kernel->run = run;
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyJoinCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateJoin_Cpu(kernel, 0, JoinRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyJoinGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateJoin_Cpu(kernel, 1, JoinGradRun_Cpu));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuJoin)[] = {
    {"CrossEntropyJoin", CrossEntropyJoinCreate_Cpu},
    {"CrossEntropyJoinGrad", CrossEntropyJoinGradCreate_Cpu},
    {NULL, NULL},
};
