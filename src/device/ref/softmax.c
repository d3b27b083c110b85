/* Softmax, its logarithm, and their gradients along one axis. */
#include "ref.h"
#include <math.h>
#include <string.h>

/* Returns the largest number. sum: of exp(x - largest) */
static double MostOfLine_Ref(RefIn x, RefLine line, double *sum)
{
  double most = -INFINITY;
  *sum = 0;
  for (int64_t k = 0; k < line.extent; k++) most = fmax(most, RefGet(x, line.at + k * line.step));
  for (int64_t k = 0; k < line.extent; k++) *sum += exp(RefGet(x, line.at + k * line.step) - most);
  return most;
}

static void SoftmaxLine(const RengaOpCall *call, RefIn x, RefIn unused, RefLine line, RefOut y)
{
  double sum, most = MostOfLine_Ref(x, line, &sum);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(y, i, exp(RefGet(x, i) - most) / sum);
  }
}

static void LogSoftmaxLine(const RengaOpCall *call, RefIn x, RefIn unused, RefLine line, RefOut y)
{
  double sum, most = MostOfLine_Ref(x, line, &sum);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(y, i, RefGet(x, i) - most - log(sum));
  }
}

/* dx = y * (dy - sum of dy y) */
static void SoftmaxGradLine(const RengaOpCall *call, RefIn dy, RefIn y, RefLine line, RefOut dx)
{
  double sum = RefDot(dy, line.at, line.step, y, line.at, line.step, line.extent);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(dx, i, RefGet(y, i) * (RefGet(dy, i) - sum));
  }
}

/* dx = dy - exp(y) * sum of dy */
static void LogSoftmaxGradLine(const RengaOpCall *call, RefIn dy, RefIn y, RefLine line, RefOut dx)
{
  double sum = 0;
  for (int64_t k = 0; k < line.extent; k++) sum += RefGet(dy, line.at + k * line.step);
  for (int64_t k = 0; k < line.extent; k++) {
    int64_t i = line.at + k * line.step;
    RefSet(dx, i, RefGet(dy, i) - exp(RefGet(y, i)) * sum);
  }
}

/* x divided by its norm; a line of zeros stays. */
static void LpLine(const RengaOpCall *call, RefIn x, RefIn unused, RefLine line, RefOut y)
{
  const int64_t p = RengaOpCallInt(call, "p");
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

static const struct {
  const char *op;
  void (*work)(const RengaOpCall *call, RefIn x, RefIn other, RefLine line, RefOut y);
} line_rows[] = {{"Softmax", SoftmaxLine},
                 {"LogSoftmax", LogSoftmaxLine},
                 {"SoftmaxGrad", SoftmaxGradLine},
                 {"LogSoftmaxGrad", LogSoftmaxGradLine},
                 {"LpNormalization", LpLine}};
enum { LINE_ROWS = sizeof line_rows / sizeof line_rows[0] };

/* LINE_ROWS: it is none of them. */
static int FindLineRow(const char *op)
{
  int row = 0;
  while (row < LINE_ROWS && strcmp(line_rows[row].op, op) != 0) row++;
  return row;
}

static RengaErrorCode EachLine(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  int dimension;
  const int row = FindLineRow(call->op->name);
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis axis = RefAxisOf(&call->in[0], dimension);
  for (int64_t o = 0; o < axis.outer; o++)
    for (int64_t i = 0; i < axis.inner; i++)
      line_rows[row].work(call, RefInput(call, in, 0), RefInput(call, in, 1), RefLineOf(axis, o, i),
                          RefOutput(call, out, 0));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindSoftmax(const char *name)
{
  return FindLineRow(name) < LINE_ROWS ? EachLine : NULL;
}
