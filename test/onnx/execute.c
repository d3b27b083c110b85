/* The plainest runtime: forward and backward nodes in their order, one kernel each. */
#include "execute.h"
#include "renga/private/kernel.h"
#include <string.h>

RengaTensorSpec ExecutionSpec(const Execution *execution, RengaValue value)
{
  return RengaTensorSpecAt(&RengaGraphGetValue(execution->graph, value)->spec, execution->batch);
}

static RengaErrorCode Allocate(Execution *execution, RengaValue value)
{
  RengaTensorSpec spec = ExecutionSpec(execution, value);
  if (execution->memory[value]) return RENGA_SUCCESS;
  RengaCall(RengaDeviceMalloc(execution->device, RengaTensorSpecBytes(&spec) + 64,
                              &execution->memory[value]));
  return RENGA_SUCCESS;
}

RengaErrorCode ExecutionSet(Execution *execution, RengaValue value, const void *data)
{
  RengaTensorSpec spec = ExecutionSpec(execution, value);
  RengaCall(Allocate(execution, value));
  RengaCall(RengaDeviceCopy(execution->device, NULL, RENGA_HOST_TO_DEVICE, execution->memory[value],
                            data, RengaTensorSpecBytes(&spec)));
  return RENGA_SUCCESS;
}

RengaErrorCode ExecutionCreate(RengaGraph graph, RengaDevice device, int64_t batch,
                               Execution *execution)
{
  *execution = (Execution){
      .graph = graph, .device = device, .batch = batch, .count = RengaGraphGetValueCount(graph)};
  RengaCall(RengaMalloc(execution->count + 1, &execution->memory));
  for (int i = 0; i < execution->count; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, i);
    if (value->kind == RENGA_VALUE_CONSTANT) RengaCall(ExecutionSet(execution, i, value->data));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode ExecutionDestroy(Execution *execution)
{
  for (int i = 0; i < execution->count; i++)
    if (execution->memory[i]) RengaCall(RengaDeviceFree(execution->device, &execution->memory[i]));
  RengaFree(&execution->memory);
  return RENGA_SUCCESS;
}

RengaErrorCode ExecutionInitialize(Execution *execution, uint64_t seed)
{
  for (int i = 0; i < execution->count; i++) {
    RengaValueKind kind = RengaGraphGetValue(execution->graph, i)->kind;
    if (kind != RENGA_VALUE_PARAMETER && kind != RENGA_VALUE_STATE) continue;
    RengaTensorSpec spec = ExecutionSpec(execution, i);
    float *data = NULL;
    RengaCall(RengaMalloc(RengaTensorSpecCount(&spec) + 1, &data));
    RengaErrorCode code =
        RengaGraphInitializeValue(execution->graph, i, seed, 0, RengaTensorSpecCount(&spec), data);
    if (code == RENGA_SUCCESS) code = ExecutionSet(execution, i, data);
    RengaFree(&data);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

enum { OPERANDS_MAX = 64 };

static RengaErrorCode RunKernel(Execution *execution, const RengaOpCall *call,
                                const void *const in[], void *const out[],
                                const RengaKernelContext *context)
{
  RengaKernel kernel;
  void *workspace = NULL;
  RengaCall(RengaKernelCreate(execution->device, call, &kernel));
  RengaErrorCode code =
      RengaDeviceMalloc(execution->device, RengaKernelGetWorkspace(kernel) + 64, &workspace);
  if (code == RENGA_SUCCESS) code = RengaKernelRun(kernel, NULL, context, in, out, workspace);
  if (workspace) RengaDeviceFree(execution->device, &workspace);
  RengaKernelDestroy(&kernel);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNode(Execution *execution, const RengaGraphNode *node,
                              const RengaKernelContext *context)
{
  RengaTensorSpec specs[2 * OPERANDS_MAX] = {{0}};
  const void *in[OPERANDS_MAX] = {NULL};
  void *out[OPERANDS_MAX] = {NULL};
  RengaCheck(node->n_in <= OPERANDS_MAX && node->n_out <= OPERANDS_MAX, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "node %s has %d inputs", node->name, node->n_in);
  for (int i = 0; i < node->n_in; i++) {
    specs[i] = (RengaTensorSpec){.ndim = -1};
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    specs[i] = ExecutionSpec(execution, node->in[i]);
    in[i] = execution->memory[node->in[i]];
    RengaCheck(in[i], MPI_COMM_SELF, RENGA_ERR_ORDER, "node %s: input %s has no data", node->name,
               RengaGraphGetValue(execution->graph, node->in[i])->name);
  }
  for (int i = 0; i < node->n_out; i++) {
    specs[OPERANDS_MAX + i] = (RengaTensorSpec){.ndim = -1};
    if (node->out[i] == RENGA_VALUE_NONE) continue;
    specs[OPERANDS_MAX + i] = ExecutionSpec(execution, node->out[i]);
    RengaCall(Allocate(execution, node->out[i]));
    out[i] = execution->memory[node->out[i]];
  }
  if (node->op->flags & RENGA_OP_BATCH_SUM) { /* one micro-batch is the batch */
    RengaCall(ExecutionSet(execution, node->out[0], in[0]));
    return RENGA_SUCCESS;
  }
  RengaOpCall call = {.op = node->op,
                      .attributes = &node->attributes,
                      .n_in = node->n_in,
                      .n_out = node->n_out,
                      .in = specs,
                      .out = specs + OPERANDS_MAX};
  RengaErrorCode code = RunKernel(execution, &call, in, out, context);
  RengaCheck(code == RENGA_SUCCESS, MPI_COMM_SELF, code, "node %s (%s) cannot run", node->name,
             node->op->name);
  return RENGA_SUCCESS;
}

RengaErrorCode ExecutionRun(Execution *execution, const RengaKernelContext *context)
{
  for (int i = 0; i < RengaGraphGetNodeCount(execution->graph); i++)
    RengaCall(RunNode(execution, RengaGraphGetNode(execution->graph, i), context));
  return RENGA_SUCCESS;
}
