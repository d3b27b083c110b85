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

static RengaErrorCode HashTensor(RengaPipeline pipeline, const RengaPersistent *tensor,
                                 uint64_t *hash)
{
  const size_t bytes = RengaTensorSpecBytes(&tensor->spec);
  const uint64_t seed = RengaHash(tensor->name, strlen(tensor->name), 0);
  if (RengaDeviceIsHost(pipeline->device)) {
    *hash = RengaHash(tensor->data, bytes, seed);
    return RENGA_SUCCESS;
  }
  char *copy;
  RengaCall(RengaMalloc(bytes + 1, &copy));
  RengaErrorCode code =
      RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, copy, tensor->data, bytes);
  if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(pipeline->device, NULL);
  if (code == RENGA_SUCCESS) *hash = RengaHash(copy, bytes, seed);
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Tensors of the network are numbered: each parameter and its moments, then the states. Where the
   network's states lie in that order: [states of this stage]. */
static void NumberStates(RengaPipeline pipeline, int number[], int *count)
{
  int here = 0;
  *count = pipeline->n_network * (1 + pipeline->n_moments);
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
    if (value->kind != RENGA_VALUE_STATE) continue;
    const bool held =
        here < pipeline->n_states &&
        strcmp(RengaGraphGetValue(pipeline->sub, pipeline->state[here])->name, value->name) == 0;
    if (held && number) number[here] = *count;
    here += held;
    ++*count;
  }
}

/* The number of this rank's tensor t; number: of NumberStates. */
static int NumberOf(RengaPipeline pipeline, const int number[], int t)
{
  const int each = 1 + pipeline->n_moments, first = pipeline->n_parameters * each;
  return t < first ? pipeline->parameter[t / each].number * each + t % each : number[t - first];
}

/* This rank's own hash of each tensor that it holds; row: [count][2] hash and inverse, the least
   number in both where there is none. */
static RengaErrorCode HashHeld(RengaPipeline pipeline, int64_t row[])
{
  int *number, count;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(pipeline->n_states + 1, &number));
  NumberStates(pipeline, number, &count);
  for (int i = 0; i < 2 * count; i++) row[i] = INT64_MIN;
  for (int t = 0; t < pipeline->n_persistents && !code; t++) {
    uint64_t hash = 0;
    code = HashTensor(pipeline, &pipeline->persistent[t], &hash);
    const int at = NumberOf(pipeline, number, t);
    memcpy(&row[2 * at], &hash, sizeof hash);
    row[2 * at + 1] = ~row[2 * at];
  }
  RengaFree(&number);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* One tensor on one rank. */
typedef struct {
  int64_t held, stage, replica;
  uint64_t hash;
  char name[160];
} Copy;

/* How many ranks hold the same bits as rank r. */
static int CountAlike(const Copy copy[], int size, int r)
{
  int count = 0;
  for (int i = 0; i < size; i++) count += copy[i].held && copy[i].hash == copy[r].hash;
  return count;
}

/* Most ranks are right, of equally many the first. */
static RengaErrorCode RaiseDeparture(RengaPipeline pipeline, const Copy copy[])
{
  const int size = RengaCommGetSize(pipeline->all);
  int right = -1, wrong = -1;
  for (int r = 0; r < size; r++)
    if (copy[r].held && (right < 0 || CountAlike(copy, size, r) > CountAlike(copy, size, right)))
      right = r;
  for (int r = 0; r < size && wrong < 0; r++)
    if (copy[r].held && copy[r].hash != copy[right].hash) wrong = r;
  RengaRaise(
      pipeline->hdr.comm, RENGA_ERR_INTERNAL,
      "rank %d (stage %lld, replica %lld) departs from rank %d (stage %lld, replica %lld): "
      "%s is not the same there. Copies part where a program writes to one of them alone, or "
      "where memory fails",
      wrong, (long long)copy[wrong].stage, (long long)copy[wrong].replica, right,
      (long long)copy[right].stage, (long long)copy[right].replica, copy[right].name);
}

/* Collective: the tensor in this place differs between its holders. */
static RengaErrorCode NameDeparture(RengaPipeline pipeline, int place)
{
  Copy mine = {.stage = pipeline->stage, .replica = pipeline->replica}, *all = NULL;
  int *number = NULL, count;
  RengaErrorCode code = RengaMalloc(pipeline->n_states + 1, &number);
  if (!code) NumberStates(pipeline, number, &count);
  if (!code) code = RengaMalloc(RengaCommGetSize(pipeline->all), &all);
  for (int t = 0; t < pipeline->n_persistents && !code; t++) {
    const int at = NumberOf(pipeline, number, t);
    if (at != place) continue;
    mine.held = 1;
    snprintf(mine.name, sizeof mine.name, "%s", pipeline->persistent[t].name);
    code = HashTensor(pipeline, &pipeline->persistent[t], &mine.hash);
  }
  RengaFree(&number);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code)
    code = RengaCommGather(pipeline->all, &mine, sizeof mine, all, -1,
                           "all ranks to say which copy departs");
  if (!code) code = RaiseDeparture(pipeline, all);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* row: [count][2] the largest hashes and inverses of all ranks. */
static RengaErrorCode AddHashes(RengaPipeline pipeline, int count, const int64_t row[],
                                uint64_t *digest)
{
  uint64_t sum = 0;
  for (int t = 0; t < count; t++) {
    if (row[2 * t] == INT64_MIN && row[2 * t + 1] == INT64_MIN) continue; /* in no stage */
    if (row[2 * t] != ~row[2 * t + 1]) RengaCall(NameDeparture(pipeline, t));
    sum += (uint64_t)row[2 * t];
  }
  *digest = sum;
  return RENGA_SUCCESS;
}

static RengaErrorCode Compare(RengaPipeline pipeline, int count, int64_t row[], uint64_t *digest)
{
  RengaRequest request;
  const RengaErrorCode mine = HashHeld(pipeline, row);
  row[2 * count] = mine;
  RengaCall(RengaCommStartLargest(pipeline->all, 2 * count + 1, row, &request));
  RengaCall(
      RengaCommWait(pipeline->all, &request, "all ranks to add up the digest of the parameters"));
  RengaCall(mine);
  RengaCheck(row[2 * count] == 0, pipeline->hdr.comm, (RengaErrorCode)row[2 * count],
             "some other rank could not read its parameters");
  RengaCall(AddHashes(pipeline, count, row, digest));
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

   Errors: RENGA_ERR_INTERNAL where copies of a tensor (on replicas, or on stages that share it) are
   not the same; the message names a rank that departs, and the tensor.
@*/
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest)
{
  int count;
  int64_t *row = NULL;
  RengaCall(RengaPipelineCheckReady_Private(pipeline));
  RengaCheckPointer(digest);
  NumberStates(pipeline, NULL, &count);
  RengaErrorCode code = RengaErrorAgree(pipeline->hdr.comm, RengaMalloc(2 * count + 1, &row));
  if (!code) code = Compare(pipeline, count, row, digest);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}
