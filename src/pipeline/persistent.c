/* Tensors that live across steps: their first values, their list, and a digest of all of them that
   does not depend on the layout. */
#include "pipelineimpl.h"
#include <string.h>

enum { CHUNK = 1 << 16 }; /* elements made at a time where device memory is not the host's */

static RengaErrorCode FillByChunks(RengaPipeline pipeline, RengaValue whole, int64_t count,
                                   float *to, float *chunk)
{
  for (int64_t first = 0; first < count; first += CHUNK) {
    const int64_t part = count - first < CHUNK ? count - first : CHUNK;
    RengaCall(RengaGraphInitializeValue(pipeline->graph, whole, (uint64_t)pipeline->settings->seed,
                                        first, part, chunk));
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE, to + first, chunk,
                              (size_t)part * sizeof(float)));
  }
  RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode Fill(RengaPipeline pipeline, const char *name, int64_t count, float *to)
{
  const RengaValue whole = RengaGraphFindValue(pipeline->graph, name);
  if (RengaDeviceIsHost(pipeline->device)) {
    RengaCall(RengaGraphInitializeValue(pipeline->graph, whole, (uint64_t)pipeline->settings->seed,
                                        0, count, to));
    return RENGA_SUCCESS;
  }
  float *chunk;
  RengaCall(RengaMalloc(CHUNK, &chunk));
  const RengaErrorCode code = FillByChunks(pipeline, whole, count, to, chunk);
  RengaFree(&chunk);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static float *ParameterAt(RengaPipeline pipeline, const Parameter *parameter)
{
  return (float *)pipeline->persistent_base + parameter->offset;
}

/* First values of parameters and states; constants; zero moments. */
static RengaErrorCode FillAll(RengaPipeline pipeline)
{
  RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, pipeline->persistent_base, 0,
                                (size_t)pipeline->persistent_bytes));
  if (pipeline->memory.optimizer > 0)
    RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, pipeline->moment_base, 0,
                                  (size_t)pipeline->memory.optimizer));
  for (int p = 0; p < pipeline->n_parameters; p++)
    RengaCall(Fill(pipeline, pipeline->parameter[p].name, pipeline->parameter[p].count,
                   ParameterAt(pipeline, &pipeline->parameter[p])));
  for (int s = 0; s < pipeline->n_states; s++) {
    const RengaGraphValue *state = RengaGraphGetValue(pipeline->sub, pipeline->state[s]);
    RengaCall(Fill(pipeline, state->name, RengaTensorSpecCount(&state->spec),
                   (float *)(pipeline->persistent_base + pipeline->state_offset[s])));
  }
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->sub, v);
    if (value->kind == RENGA_VALUE_CONSTANT)
      RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE,
                                pipeline->persistent_base + pipeline->value_place[v].offset,
                                value->data, RengaTensorSpecBytes(&value->spec)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Append(RengaPipeline pipeline, const char *name, const char *moment,
                             const RengaTensorSpec *spec, float *data, bool owner, bool state)
{
  RengaPersistent *row = &pipeline->persistent[pipeline->n_persistents];
  const size_t size = strlen(name) + (moment ? strlen(moment) : 0) + 2;
  char *full;
  RengaCall(RengaMalloc(size, &full));
  snprintf(full, size, moment ? "%s:%s" : "%s", name, moment ? moment : "");
  *row =
      (RengaPersistent){.name = full, .spec = *spec, .data = data, .owner = owner, .state = state};
  pipeline->n_persistents++;
  return RENGA_SUCCESS;
}

static RengaErrorCode ListParameter(RengaPipeline pipeline, const Parameter *parameter,
                                    const char *const moments[])
{
  const RengaTensorSpec *spec = &RengaGraphGetValue(pipeline->sub, parameter->value)->spec;
  RengaCall(Append(pipeline, parameter->name, NULL, spec, ParameterAt(pipeline, parameter),
                   parameter->owner, false));
  for (int m = 0; m < pipeline->n_moments; m++)
    RengaCall(
        Append(pipeline, parameter->name, moments[m], spec,
               (float *)pipeline->moment_base + m * pipeline->parameter_count + parameter->offset,
               parameter->owner, false));
  return RENGA_SUCCESS;
}

/* A state belongs to the first stage that holds it; states are small: replica 0 writes them. */
static bool OwnsState(RengaPipeline pipeline, const char *name)
{
  const RengaValue whole = RengaGraphFindValue(pipeline->graph, name);
  int first = pipeline->stage;
  for (int n = RengaGraphGetNodeCount(pipeline->graph) - 1; n >= 0; n--) {
    const RengaGraphNode *node = RengaGraphGetNode(pipeline->graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] == whole) first = RengaPlanStageOfNode(pipeline->plan, n);
  }
  return first == pipeline->stage && pipeline->replica == 0;
}

/* Not for idle ranks. */
RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline)
{
  const char *const *moments;
  int n_moments;
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &n_moments, &moments));
  RengaCall(FillAll(pipeline));
  RengaCall(RengaMalloc(pipeline->n_parameters * (1 + pipeline->n_moments) + pipeline->n_states + 1,
                        &pipeline->persistent));
  for (int p = 0; p < pipeline->n_parameters; p++)
    RengaCall(ListParameter(pipeline, &pipeline->parameter[p], moments));
  for (int s = 0; s < pipeline->n_states; s++) {
    const RengaGraphValue *state = RengaGraphGetValue(pipeline->sub, pipeline->state[s]);
    RengaCall(Append(pipeline, state->name, NULL, &state->spec,
                     (float *)(pipeline->persistent_base + pipeline->state_offset[s]),
                     OwnsState(pipeline, state->name), true));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetPersistents - the tensors of this rank that live across steps

   Not collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . count - number of tensors; 0 on an idle rank
   . tensors - parameters, moments ("NAME:first_moment") and states of this rank's stage, lent

   Notes: over all ranks each name has one owner, which writes it to checkpoints. Who writes to data
   does so on all ranks that hold the name.
@*/
RengaErrorCode RengaPipelineGetPersistents(RengaPipeline pipeline, int *count,
                                           const RengaPersistent **tensors)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(count);
  RengaCheckPointer(tensors);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  *count = pipeline->n_persistents;
  *tensors = pipeline->persistent;
  return RENGA_SUCCESS;
}

static RengaErrorCode DigestOne(RengaPipeline pipeline, const RengaPersistent *tensor,
                                uint64_t *digest)
{
  const size_t bytes = RengaTensorSpecBytes(&tensor->spec);
  const uint64_t seed = RengaHash(tensor->name, strlen(tensor->name), 0);
  if (RengaDeviceIsHost(pipeline->device)) {
    *digest += RengaHash(tensor->data, bytes, seed);
    return RENGA_SUCCESS;
  }
  char *copy;
  RengaCall(RengaMalloc(bytes + 1, &copy));
  const RengaErrorCode code =
      RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, copy, tensor->data, bytes);
  if (code == RENGA_SUCCESS) *digest += RengaHash(copy, bytes, seed);
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetDigest - a checksum of all parameters, moments and states

   Collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . digest - the sum modulo 2^64 of XXH64(bytes of the tensor; seed XXH64(name)), the same on every
     rank and for every layout that has the same bits
@*/
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(digest);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  uint64_t mine = 0, sum = 0, *all;
  for (int t = 0; t < pipeline->n_persistents; t++)
    if (pipeline->persistent[t].owner)
      RengaCall(DigestOne(pipeline, &pipeline->persistent[t], &mine));
  const int size = RengaCommGetSize(pipeline->all);
  RengaCall(RengaMalloc(size, &all));
  const RengaErrorCode code = RengaCommGather(pipeline->all, &mine, sizeof mine, all, -1,
                                              "all ranks to add up the digest of the parameters");
  for (int r = 0; r < size; r++) sum += all[r];
  RengaFree(&all);
  RengaCall(code);
  *digest = sum;
  return RENGA_SUCCESS;
}
