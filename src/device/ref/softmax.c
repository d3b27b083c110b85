/* Softmax, its logarithm, and their gradients along one axis. */
#include "ref.h"
#include <math.h>

/* Returns the largest number. sum: of exp(x - largest) */
static double MostOfLine_Ref(RefIn x, RefLine line, double *sum)
{
  double most = -INFINITY;
  *sum = 0;
  for (int64_t k = 0; k < line.extent; k++) most = fmax(most, RefGet(x, line.at + k * line.step));
  for (int64_t k = 0; k < line.extent; k++) *sum += exp(RefGet(x, line.at + k * line.step) - most);
  return most;
}

static void SoftmaxLine(RefIn x, RefIn unused, RefLine line, RefOut y)
{
  double sum, most = MostOfLine_Ref(x, line, &sum);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(y, i, exp(RefGet(x, i) - most) / sum);
  }
}

static void LogSoftmaxLine(RefIn x, RefIn unused, RefLine line, RefOut y)
{
  double sum, most = MostOfLine_Ref(x, line, &sum);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(y, i, RefGet(x, i) - most - log(sum));
  }
}

/* dx = y * (dy - sum of dy y) */
static void SoftmaxGradLine(RefIn dy, RefIn y, RefLine line, RefOut dx)
{
  double sum = RefDot(dy, line.at, line.step, y, line.at, line.step, line.extent);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(dx, i, RefGet(y, i) * (RefGet(dy, i) - sum));
  }
}

/* dx = dy - exp(y) * sum of dy */
static void LogSoftmaxGradLine(RefIn dy, RefIn y, RefLine line, RefOut dx)
{
  double sum = 0;
  for (int64_t k = 0; k < line.extent; k++) sum += RefGet(dy, line.at + k * line.step);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(dx, i, RefGet(dy, i) - exp(RefGet(y, i)) * sum);
  }
}

/* x divided by its norm; a line of zeros stays. */
static void LpLine(RefIn x, RefLine line, int64_t p, RefOut y)
{
  double norm = 0;
  for (int64_t k = 0; k < line.extent; k++) {
    double value = RefGet(x, line.at + k * line.step);
    norm += p == 1 ? fabs(value) : value * value;
  }
  if (p == 2) norm = sqrt(norm);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(y, i, norm > 0 ? RefGet(x, i) / norm : 0);
  }
}

static RengaErrorCode EachLine(const RengaOpCall *call, const void *const in[], void *const out[],
                               void (*work)(RefIn, RefIn, RefLine, RefOut))
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++) {
      RefLine line = RefLineOf(axis, o, i);
      if (work)
        work(RefInput(call, in, 0), RefInput(call, in, 1), line, RefOutput(call, out, 0));
      else
        LpLine(RefInput(call, in, 0), line, RengaOpCallInt(call, "p"), RefOutput(call, out, 0));
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode Softmax_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RengaCall(EachLine(call, in, out, SoftmaxLine));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmax_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                     const void *const in[], void *const out[])
{
  RengaCall(EachLine(call, in, out, LogSoftmaxLine));
  return RENGA_SUCCESS;
}

static RengaErrorCode SoftmaxGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                      const void *const in[], void *const out[])
{
  RengaCall(EachLine(call, in, out, SoftmaxGradLine));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmaxGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                         const void *const in[], void *const out[])
{
  RengaCall(EachLine(call, in, out, LogSoftmaxGradLine));
  return RENGA_SUCCESS;
}

static RengaErrorCode LpNormalization_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  RengaCall(EachLine(call, in, out, NULL));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindSoftmax(const char *name)
{
  static const RefRow rows[] = {
      {"Softmax", Softmax_Ref},
      {"LogSoftmax", LogSoftmax_Ref},
      {"SoftmaxGrad", SoftmaxGrad_Ref},
      {"LogSoftmaxGrad", LogSoftmaxGrad_Ref},
      {"LpNormalization", LpNormalization_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
