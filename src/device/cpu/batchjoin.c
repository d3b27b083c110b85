/* The statistics of a batch of those of lanes of rows: BatchNormalizationJoin and its gradient. A
   few numbers for each channel: one thread makes them, in double. */
#include "low.h"
#include "renga/private/op.h"

static double AllRows_Cpu(const int64_t rows[], int lanes)
{
  int64_t all = 0;
  for (int l = 0; l < lanes; l++) all += rows[l];
  return (double)all;
}

/* in: running mean, running variance, means of lanes, variances of lanes; out: mean, variance */
static RengaErrorCode BatchJoinRun_Cpu(RengaKernel kernel, RengaStream stream,
                                       const RengaKernelContext *context, const void *const in[],
                                       void *const out[], void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  int lanes;
  const int64_t *rows = RengaOpCallInts(call, "lane_rows", &lanes);
  const double all = AllRows_Cpu(rows, lanes);
  for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
    double mean = 0, variance = 0;
    for (int l = 0; l < lanes; l++)
      mean += (double)rows[l] / all * RengaCpuGetOf(call, in, 2 + l, c);
    for (int l = 0; l < lanes; l++) {
      const double off = RengaCpuGetOf(call, in, 2 + l, c) - mean;
      variance += (double)rows[l] / all * (RengaCpuGetOf(call, in, 2 + lanes + l, c) + off * off);
    }
    RengaCpuPutOf(call, out, 0, c, context->training ? mean : RengaCpuGetOf(call, in, 0, c));
    RengaCpuPutOf(call, out, 1, c, context->training ? variance : RengaCpuGetOf(call, in, 1, c));
  }
  return RENGA_SUCCESS;
}

/* in: dmean, dvariance, mean, means of lanes; out: dmeans of lanes, dvariances of lanes */
static RengaErrorCode BatchJoinGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[],
                                           void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  int lanes;
  const int64_t *rows = RengaOpCallInts(call, "lane_rows", &lanes);
  const double all = AllRows_Cpu(rows, lanes);
  for (int l = 0; l < lanes; l++)
    for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
      const double share = (double)rows[l] / all, of_variance = RengaCpuGetOf(call, in, 1, c);
      const double off = (double)RengaCpuGetOf(call, in, 3 + l, c) - RengaCpuGetOf(call, in, 2, c);
      RengaCpuPutOf(call, out, l, c,
                    share * (RengaCpuGetOf(call, in, 0, c) + 2 * off * of_variance));
      RengaCpuPutOf(call, out, lanes + l, c, share * of_variance);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationJoinCreate_Cpu(RengaKernel kernel)
{
  if (RengaCpuAllFloats(&kernel->call, 0)) kernel->run = BatchJoinRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationJoinGradCreate_Cpu(RengaKernel kernel)
{
  if (RengaCpuAllFloats(&kernel->call, 0)) kernel->run = BatchJoinGradRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuBatchJoin)[] = {
    {"BatchNormalizationJoin", BatchNormalizationJoinCreate_Cpu},
    {"BatchNormalizationJoinGrad", BatchNormalizationJoinGradCreate_Cpu},
    {NULL, NULL},
};
