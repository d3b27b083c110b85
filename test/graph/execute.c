/* The plain runner of the tests. */
#include "execute.h"
#include "renga/private/kernel.h"
#include "renga/private/low.h"
#include <stdlib.h>
#include <string.h>

static RengaTensorSpec SpecOf(const Execute *execute, RengaValue value)
{
  return RengaTensorSpecAt(&RengaGraphGetValue(execute->graph, value)->spec, execute->batch);
}

int64_t ExecuteCountElements(const Execute *execute, RengaValue value)
{
  RengaTensorSpec spec = SpecOf(execute, value);
  return RengaTensorSpecCount(&spec);
}

double ExecuteGet(const Execute *execute, RengaValue value, int64_t element)
{
  const void *data = execute->value[value];
  switch (RengaGraphGetValue(execute->graph, value)->spec.type) {
  case RENGA_FLOAT32:
    return ((const float *)data)[element];
  case RENGA_FLOAT64:
    return ((const double *)data)[element];
  case RENGA_INT32:
    return ((const int32_t *)data)[element];
  case RENGA_INT64:
    return (double)((const int64_t *)data)[element];
  case RENGA_BOOL:
    return ((const unsigned char *)data)[element];
  default:
    return 0;
  }
}

void ExecuteSet(Execute *execute, RengaValue value, int64_t element, double number)
{
  void *data = execute->value[value];
  switch (RengaGraphGetValue(execute->graph, value)->spec.type) {
  case RENGA_FLOAT32:
    ((float *)data)[element] = (float)number;
    break;
  case RENGA_FLOAT64:
    ((double *)data)[element] = number;
    break;
  case RENGA_INT32:
    ((int32_t *)data)[element] = (int32_t)number;
    break;
  case RENGA_INT64:
    ((int64_t *)data)[element] = (int64_t)number;
    break;
  case RENGA_BOOL:
    ((unsigned char *)data)[element] = number != 0;
    break;
  default:
    break;
  }
}

static RengaErrorCode FillFirst(Execute *execute, RengaValue value, uint64_t seed)
{
  int64_t count = ExecuteCountElements(execute, value);
  float *first = NULL;
  RengaCall(RengaMalloc(count + 1, &first));
  RengaErrorCode code = RengaGraphInitializeValue(execute->graph, value, seed, 0, count, first);
  for (int64_t i = 0; i < count; i++) ExecuteSet(execute, value, i, first[i]);
  RengaFree(&first);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode ExecuteCreate(RengaGraph graph, RengaDevice device, int64_t batch, uint64_t seed,
                             Execute *execute)
{
  *execute = (Execute){.graph = graph, .device = device, .batch = batch};
  execute->context = (RengaKernelContext){.seed = seed, .samples = batch, .training = true};
  execute->count = RengaGraphGetValueCount(graph);
  RengaCall(RengaMalloc(execute->count + 1, &execute->value));
  for (int i = 0; i < execute->count; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, i);
    RengaTensorSpec spec = SpecOf(execute, i);
    size_t bytes = RengaTensorSpecBytes(&spec);
    char *data = NULL;
    RengaCall(RengaMalloc(bytes + 64, &data));
    execute->value[i] = data;
    if (value->kind == RENGA_VALUE_CONSTANT) memcpy(data, value->data, bytes);
    if (value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_STATE)
      RengaCall(FillFirst(execute, i, seed));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode ExecuteDestroy(Execute *execute)
{
  for (int i = 0; i < execute->count; i++) RengaFree(&execute->value[i]);
  RengaFree(&execute->value);
  return RENGA_SUCCESS;
}

enum { MOST = 64 }; /* inputs or outputs of a node in a test */

/* Memory of the device for a buffer of the host, with its bytes. */
static RengaErrorCode PutOnDevice(RengaDevice device, const RengaTensorSpec *spec, const void *data,
                                  void **place)
{
  const size_t bytes = spec->ndim < 0 ? 0 : RengaTensorSpecBytes(spec);
  *place = NULL;
  if (!data) return RENGA_SUCCESS;
  RengaCall(RengaDeviceMalloc(device, bytes + 1, place));
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, *place, data, bytes));
  return RENGA_SUCCESS;
}

/* The same where the device's memory is not the host's: by copies. */
static RengaErrorCode RunCopied(Execute *execute, const RengaOpCall *call, const void *const in[],
                                void *const out[])
{
  RengaDevice device = execute->device;
  RengaKernel kernel;
  void *from[MOST], *to[MOST], *workspace = NULL;
  RengaCall(RengaKernelCreate(device, call, &kernel));
  RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel) + 1, &workspace));
  for (int i = 0; i < call->n_in; i++)
    RengaCall(PutOnDevice(device, &call->in[i], in[i], &from[i]));
  for (int i = 0; i < call->n_out; i++)
    RengaCall(PutOnDevice(device, &call->out[i], out[i], &to[i]));
  RengaCall(
      RengaKernelRun(kernel, NULL, &execute->context, (const void *const *)from, to, workspace));
  for (int i = 0; i < call->n_out; i++)
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, out[i], to[i],
                              RengaTensorSpecBytes(&call->out[i])));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (int i = 0; i < call->n_in; i++) RengaCall(RengaDeviceFree(device, &from[i]));
  for (int i = 0; i < call->n_out; i++) RengaCall(RengaDeviceFree(device, &to[i]));
  RengaCall(RengaDeviceFree(device, &workspace));
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCall(Execute *execute, const RengaOpCall *call, const void *const in[],
                              void *const out[])
{
  RengaKernel kernel;
  char *workspace = NULL;
  RengaCall(RengaKernelCreate(execute->device, call, &kernel));
  size_t bytes = RengaKernelGetWorkspace(kernel);
  if (bytes > 0) RengaCall(RengaMalloc(bytes, &workspace));
  RengaErrorCode code = RengaKernelRun(kernel, NULL, &execute->context, in, out, workspace);
  RengaFree(&workspace);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNode(Execute *execute, const RengaGraphNode *node)
{
  RengaTensorSpec in[MOST], out[MOST];
  const void *from[MOST];
  void *to[MOST];
  RengaCheck(node->n_in <= MOST && node->n_out <= MOST, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "node \"%s\" has %d inputs", node->name, node->n_in);
  for (int i = 0; i < node->n_in; i++) {
    bool absent = node->in[i] < 0;
    in[i] = absent ? (RengaTensorSpec){.ndim = -1} : SpecOf(execute, node->in[i]);
    from[i] = absent ? NULL : execute->value[node->in[i]];
  }
  for (int i = 0; i < node->n_out; i++) {
    out[i] = SpecOf(execute, node->out[i]);
    to[i] = execute->value[node->out[i]];
  }
  if (node->op->flags & RENGA_OP_BATCH_SUM) {
    memcpy(to[0], from[0], RengaTensorSpecBytes(&out[0]));
    return RENGA_SUCCESS;
  }
  RengaOpCall call = {node->op, &node->attributes, node->n_in, node->n_out, in, out};
  if (RengaDeviceIsHost(execute->device))
    RengaCall(RunCall(execute, &call, from, to));
  else
    RengaCall(RunCopied(execute, &call, from, to));
  return RENGA_SUCCESS;
}

/* Kernels compute in float32 and round what they make to the type that it is stored in. */
static void RoundStored(Execute *execute, RengaValue value)
{
  const RengaGraphValue *of = RengaGraphGetValue(execute->graph, value);
  float *data = execute->value[value];
  for (int64_t i = 0; of->stored == RENGA_BFLOAT16 && i < ExecuteCountElements(execute, value); i++)
    data[i] = RengaLowFromBrain(RengaLowToBrain(data[i]));
  for (int64_t i = 0; of->stored == RENGA_FLOAT16 && i < ExecuteCountElements(execute, value); i++)
    data[i] = RengaLowFromHalf(RengaLowToHalf(data[i]));
}

RengaErrorCode ExecuteRun(Execute *execute, bool forward_only)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(execute->graph); v++)
    if (RengaGraphGetValue(execute->graph, v)->kind == RENGA_VALUE_PARAMETER)
      RoundStored(execute, v);
  for (int i = 0; i < RengaGraphGetNodeCount(execute->graph); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(execute->graph, i);
    if (forward_only && node->phase != RENGA_PHASE_FORWARD) continue;
    RengaCall(RunNode(execute, node));
    for (int o = 0; o < node->n_out; o++) RoundStored(execute, node->out[o]);
  }
  return RENGA_SUCCESS;
}
