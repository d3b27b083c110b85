#include "formula.h"
#include <math.h>

static RengaErrorCode CheckOutput(const Execution *execution, const char *name, Formula formula,
                                  const float x[])
{
  double wanted[FORMULA_ELEMENTS] = {0};
  RengaValue value = RengaGraphFindValue(execution->graph, "y");
  RengaCheck(value != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_GRAPH, "%s: no y", name);
  RengaTensorSpec spec = ExecutionSpec(execution, value);
  int64_t count = formula(x, execution->batch, wanted);
  const float *y = execution->memory[value];
  RengaCheck(RengaTensorSpecCount(&spec) == count, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%s: y has %lld elements, not %lld", name, (long long)RengaTensorSpecCount(&spec),
             (long long)count);
  for (int64_t i = 0; i < count; i++)
    RengaCheck(fabs((double)y[i] - wanted[i]) <= 1e-5 * (1 + fabs(wanted[i])), MPI_COMM_SELF,
               RENGA_ERR_NUMERIC, "%s, batch %lld: y[%lld] is %.9g, not %.9g", name,
               (long long)execution->batch, (long long)i, (double)y[i], wanted[i]);
  return RENGA_SUCCESS;
}

RengaErrorCode RunFormula(RengaGraph graph, RengaDevice device, const char *name, Formula formula,
                          int64_t batch)
{
  Execution execution;
  float x[FORMULA_ELEMENTS];
  RengaKernelContext context = {.training = true, .samples = batch};
  for (int i = 0; i < FORMULA_ELEMENTS; i++) x[i] = (float)sin(1.0 + 2.0 * i);
  RengaCall(ExecutionCreate(graph, device, batch, &execution));
  RengaErrorCode code = ExecutionInitialize(&execution, 0);
  if (code == RENGA_SUCCESS) code = ExecutionSet(&execution, RengaGraphFindValue(graph, "x"), x);
  if (code == RENGA_SUCCESS) code = ExecutionRun(&execution, &context);
  if (code == RENGA_SUCCESS) code = CheckOutput(&execution, name, formula, x);
  RengaCall(ExecutionDestroy(&execution));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode NewFormulaDevice(RengaComm comm, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(comm, device));
  RengaCall(RengaDeviceSetType(*device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}
