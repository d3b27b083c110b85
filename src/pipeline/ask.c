/* Forecasts for others: any stage of any plan, without its ranks and its memory.

   Networks are made of layers that are alike, so that most stages of a large plan are too. A stage
   is written down as a *key*: for each node its class (operator, attributes, shapes, kinds of its
   values), for each input how far back it is made, then the messages. Names and numbers that do not
   change its memory are not in it; what is used in several places of the network is there by its
   number. Stages with the same key are compiled once, and what they take of all replicas, slots and
   buffers follows from their sizes. */
#include "pipelineimpl.h"
#include "renga/private/graph.h"
#include <string.h>

typedef struct {
  int64_t input_bytes, folded_bytes, persistent_bytes, instance_bytes[2];
  int64_t slot_bytes[2], sent_bytes[2], temporary_bytes[2];
  int64_t adding_bytes, gradient_count, parameter_count, tied_bytes;
  int n_moments;
} StageSizes;

typedef struct {
  uint64_t hash;
  int64_t count, *key; /* [count] */
  StageSizes sizes;
} KnownStage;

typedef struct {
  int64_t count, capacity;
  int64_t *number;
} Key;

/* Of one network under one set of settings. */
struct _p_Forecasts {
  struct _p_RengaObject hdr;
  RengaGraph graph;
  uint64_t settings; /* RengaSettingsGetHash() */
  uint64_t *class;   /* [nodes] */
  int *first, *uses; /* [values] first node that reads it, and how many do */
  int n_known;
  KnownStage *known;
  int n_slots, *slot; /* open addressing by hash: known + 1, 0 where free */
  Key key;            /* of the stage that is looked for */
};

enum { OUTPUTS_MOST = 1 << 20, SLOTS_FIRST = 256 };

static RengaErrorCode DestroyForecasts(void *object)
{
  Forecasts forecasts = object;
  for (int k = 0; k < forecasts->n_known; k++) RengaFree(&forecasts->known[k].key);
  RengaFree(&forecasts->known);
  RengaFree(&forecasts->slot);
  RengaFree(&forecasts->key.number);
  RengaFree(&forecasts->class);
  RengaFree(&forecasts->first);
  RengaFree(&forecasts->uses);
  if (forecasts->graph) RengaCall(RengaGraphDestroy(&forecasts->graph));
  return RENGA_SUCCESS;
}

static uint64_t HashText(const char *text, uint64_t seed)
{
  return RengaHash(text, strlen(text) + 1, seed);
}

/* The key of random numbers changes no size. */
static uint64_t HashAttributes(const RengaGraphNode *node, uint64_t hash)
{
  const char *except = node->op->flags & RENGA_OP_RANDOM ? "key" : NULL;
  return RengaAttributesHash(&node->attributes, except, hash);
}

static bool IsOutput(RengaGraph graph, RengaValue value)
{
  int count;
  const RengaValue *output;
  if (RengaGraphGetOutputs(graph, &count, &output)) return false;
  for (int o = 0; o < count; o++)
    if (output[o] == value) return true;
  return false;
}

static RengaErrorCode HashValue(RengaPipeline pipeline, RengaValue v, RengaValue loss,
                                uint64_t *hash)
{
  int64_t number[9 + RENGA_MAX_DIM] = {0};
  double rate_scale, weight_decay;
  bool frozen = false;
  if (v == RENGA_VALUE_NONE) {
    *hash = RengaHash(number, sizeof number, *hash);
    return RENGA_SUCCESS;
  }
  const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
  if (value->kind == RENGA_VALUE_PARAMETER)
    RengaCall(RengaOptimizerGetGroup(pipeline->optimizer, value->name, &rate_scale, &weight_decay,
                                     &frozen));
  const int64_t head[9] = {1,
                           value->kind,
                           value->prepared,
                           value->differentiable,
                           value->frozen || frozen,
                           v == loss,
                           value->producer >= 0 && IsOutput(pipeline->graph, v),
                           value->spec.type,
                           value->spec.ndim};
  memcpy(number, head, sizeof head);
  for (int d = 0; d < value->spec.ndim; d++) number[9 + d] = value->spec.dim[d];
  *hash = RengaHash(number, sizeof number, *hash);
  return RENGA_SUCCESS;
}

static RengaErrorCode Classify(RengaPipeline pipeline, Forecasts forecasts)
{
  RengaValue loss;
  RengaCall(RengaGraphGetLoss(pipeline->graph, &loss));
  for (int n = 0; n < RengaGraphGetNodeCount(pipeline->graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(pipeline->graph, n);
    uint64_t hash = HashAttributes(node, HashText(node->op->name, (uint64_t)node->n_in));
    for (int i = 0; i < node->n_in + node->n_out; i++)
      RengaCall(HashValue(pipeline, i < node->n_in ? node->in[i] : node->out[i - node->n_in], loss,
                          &hash));
    forecasts->class[n] = hash;
    for (int i = 0; i < node->n_in; i++) {
      const RengaValue v = node->in[i];
      if (v == RENGA_VALUE_NONE || (forecasts->uses[v] && forecasts->first[v] == n)) continue;
      if (!forecasts->uses[v]++) forecasts->first[v] = n;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillForecasts(RengaPipeline pipeline, Forecasts forecasts)
{
  const int n_values = RengaGraphGetValueCount(pipeline->graph);
  forecasts->n_slots = SLOTS_FIRST;
  RengaCall(RengaHeaderReference(pipeline->graph));
  forecasts->graph = pipeline->graph;
  RengaCall(RengaMalloc(forecasts->n_slots, &forecasts->slot));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(pipeline->graph) + 1, &forecasts->class));
  RengaCall(RengaMalloc(n_values + 1, &forecasts->first));
  RengaCall(RengaMalloc(n_values + 1, &forecasts->uses));
  RengaCall(Classify(pipeline, forecasts));
  return RENGA_SUCCESS;
}

/* Those that are there, if they are of this network and of settings like these; else new ones. */
static RengaErrorCode FindForecasts(RengaPipeline pipeline)
{
  Forecasts made = pipeline->forecasts;
  uint64_t settings = 0;
  RengaCall(RengaSettingsGetHash(pipeline->settings, &settings));
  if (made && made->graph == pipeline->graph && made->settings == settings) return RENGA_SUCCESS;
  if (made) RengaCall(RengaHeaderDestroy(&pipeline->forecasts));
  RengaCall(RengaHeaderCreate(pipeline->hdr.owner, "RengaForecasts", sizeof *made, DestroyForecasts,
                              &made));
  made->settings = settings;
  const RengaErrorCode code = FillForecasts(pipeline, made);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  pipeline->forecasts = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode Push(Key *key, int64_t number)
{
  if (key->count == key->capacity) {
    key->capacity = 2 * key->capacity + 1024;
    RengaCall(RengaRealloc(key->capacity, &key->number));
  }
  key->number[key->count++] = number;
  return RENGA_SUCCESS;
}

static int64_t PlaceOf(const RengaGraphValue *value, int from)
{
  return ((int64_t)from - value->producer) * OUTPUTS_MOST + value->output;
}

/* Which value an input is: made so far back, or one that only this node reads, or one of the whole
   network. */
static RengaErrorCode PushInput(RengaPipeline pipeline, const RengaGraphNode *node, int n, int i)
{
  enum { NONE, NEAR, OWN, WHOLE };
  Forecasts forecasts = pipeline->forecasts;
  const RengaValue v = node->in[i];
  int first = 0;
  if (v == RENGA_VALUE_NONE) {
    RengaCall(Push(&forecasts->key, NONE));
    return RENGA_SUCCESS;
  }
  const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
  const bool made = value->kind == RENGA_VALUE_ACTIVATION && value->producer >= 0;
  const bool own = value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_CONSTANT;
  while (node->in[first] != v) first++;
  if (made && !value->prepared)
    RengaCall(Push(&forecasts->key, 4 * PlaceOf(value, n) + NEAR));
  else if (own && forecasts->uses[v] == 1)
    RengaCall(Push(&forecasts->key, 4 * first + OWN));
  else
    RengaCall(Push(&forecasts->key, 4 * (int64_t)v + WHOLE));
  return RENGA_SUCCESS;
}

static bool MakesOutput(RengaGraph graph, const RengaGraphNode *node, RengaValue loss)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && (node->out[o] == loss || IsOutput(graph, node->out[o]))) return true;
  return false;
}

/* Prepared nodes are in the stages that read them; those that make an output are where they
   stand. */
static RengaErrorCode PushNode(RengaPipeline pipeline, int n, RengaValue loss)
{
  Forecasts forecasts = pipeline->forecasts;
  const RengaGraphNode *node = RengaGraphGetNode(pipeline->graph, n);
  if (RengaGraphNodeIsPrepared_Private(pipeline->graph, node)) {
    RengaCall(Push(&forecasts->key, MakesOutput(pipeline->graph, node, loss) ? -1 - n : 0));
    return RENGA_SUCCESS;
  }
  RengaCall(Push(&forecasts->key, (int64_t)forecasts->class[n]));
  for (int i = 0; i < node->n_in; i++) RengaCall(PushInput(pipeline, node, n, i));
  return RENGA_SUCCESS;
}

static RengaErrorCode PushMessage(RengaPipeline pipeline, int m, const RengaPlanStage *row,
                                  int stage)
{
  const RengaMessage *message = &pipeline->message[m];
  const RengaValue v = RengaGraphFindValue(pipeline->graph, message->value);
  const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
  const int64_t kind = 2 * (message->to == stage) + message->backward;
  RengaCall(Push(&pipeline->forecasts->key, 4 * PlaceOf(value, row->first) + kind));
  return RENGA_SUCCESS;
}

/* own: [n_own] rows of the message table that the stage has to do with. */
static RengaErrorCode MakeKey(RengaPipeline pipeline, int stage, int n_own, const int own[])
{
  const RengaPlanStage *row = RengaPlanGetStage(pipeline->plan, stage);
  Key *key = &pipeline->forecasts->key;
  RengaValue loss;
  RengaCall(RengaGraphGetLoss(pipeline->graph, &loss));
  key->count = 0;
  RengaCall(Push(key, row->recompute));
  RengaCall(Push(key, pipeline->batch));
  RengaCall(Push(key, pipeline->microbatch));
  RengaCall(Push(key, pipeline->leaf));
  for (int i = 0; i < pipeline->n_short; i++) RengaCall(Push(key, pipeline->short_batch[i]));
  RengaCall(Push(key, row->last - row->first));
  for (int n = row->first; n < row->last; n++) RengaCall(PushNode(pipeline, n, loss));
  for (int i = 0; i < n_own; i++) RengaCall(PushMessage(pipeline, own[i], row, stage));
  return RENGA_SUCCESS;
}

/* Where the key is among those that are known, or where it goes. */
static int *FindSlot(Forecasts forecasts, uint64_t hash, const Key *key)
{
  for (uint64_t at = hash;; at++) {
    int *slot = &forecasts->slot[at % (uint64_t)forecasts->n_slots];
    if (!*slot) return slot;
    const KnownStage *known = &forecasts->known[*slot - 1];
    if (known->hash == hash && known->count == key->count &&
        memcmp(known->key, key->number, (size_t)key->count * sizeof *key->number) == 0)
      return slot;
  }
}

static RengaErrorCode Grow(Forecasts forecasts)
{
  if (2 * forecasts->n_known < forecasts->n_slots) return RENGA_SUCCESS;
  RengaFree(&forecasts->slot);
  forecasts->n_slots *= 4;
  RengaCall(RengaMalloc(forecasts->n_slots, &forecasts->slot));
  for (int k = 0; k < forecasts->n_known; k++) {
    const KnownStage *known = &forecasts->known[k];
    const Key key = {.count = known->count, .number = known->key};
    *FindSlot(forecasts, known->hash, &key) = k + 1;
  }
  return RENGA_SUCCESS;
}

static StageSizes TakeSizes(RengaPipeline pipeline)
{
  StageSizes sizes = {.input_bytes = pipeline->input_bytes,
                      .folded_bytes = pipeline->folded_bytes,
                      .persistent_bytes = pipeline->persistent_bytes,
                      .adding_bytes = pipeline->adding_bytes,
                      .gradient_count = pipeline->gradient_count,
                      .parameter_count = pipeline->parameter_count,
                      .tied_bytes = pipeline->tied_bytes,
                      .n_moments = pipeline->n_moments};
  for (int k = 0; k < 2; k++) {
    sizes.instance_bytes[k] = pipeline->instance_bytes[k];
    sizes.slot_bytes[k] = pipeline->slot_bytes[k];
    sizes.sent_bytes[k] = pipeline->sent_bytes[k];
    sizes.temporary_bytes[k] = pipeline->temporary_bytes[k];
  }
  return sizes;
}

static void GiveSizes(RengaPipeline pipeline, int stage, const StageSizes *sizes)
{
  const RengaPlanStage *row = RengaPlanGetStage(pipeline->plan, stage);
  pipeline->stage = stage;
  pipeline->replicas = row->replicas;
  pipeline->recompute = row->recompute && pipeline->has_loss;
  pipeline->input_bytes = sizes->input_bytes;
  pipeline->folded_bytes = sizes->folded_bytes;
  pipeline->persistent_bytes = sizes->persistent_bytes;
  pipeline->adding_bytes = sizes->adding_bytes;
  pipeline->gradient_count = sizes->gradient_count;
  pipeline->parameter_count = sizes->parameter_count;
  pipeline->tied_bytes = sizes->tied_bytes;
  pipeline->n_moments = sizes->n_moments;
  for (int k = 0; k < 2; k++) {
    pipeline->instance_bytes[k] = sizes->instance_bytes[k];
    pipeline->slot_bytes[k] = sizes->slot_bytes[k];
    pipeline->sent_bytes[k] = sizes->sent_bytes[k];
    pipeline->temporary_bytes[k] = sizes->temporary_bytes[k];
  }
}

/* What RengaPipelineReadPlan_Private finds, of a pipeline that has it. */
static RengaErrorCode CopyReading(RengaPipeline from, RengaPipeline to)
{
  to->stages = from->stages;
  to->batch = from->batch;
  to->microbatch = from->microbatch;
  to->leaf = from->leaf;
  to->has_loss = from->has_loss;
  to->loss = from->loss;
  to->n_network = from->n_network;
  to->n_messages = from->n_messages;
  RengaCall(RengaMalloc(from->n_messages + 1, &to->message));
  RengaCall(RengaMalloc(from->n_messages + 1, &to->link));
  memcpy(to->message, from->message, (size_t)from->n_messages * sizeof *to->message);
  return RENGA_SUCCESS;
}

static RengaErrorCode Compile(RengaPipeline pipeline, int stage, StageSizes *sizes)
{
  RengaPipeline copy;
  RengaCall(RengaPipelineCopy_Private(pipeline, &copy));
  RengaErrorCode code = CopyReading(pipeline, copy);
  if (!code) code = RengaPipelineSetUpStage_Private(copy, stage);
  if (!code) code = RengaPipelineSizeStage_Private(copy);
  if (!code) *sizes = TakeSizes(copy);
  RengaPipelineDestroy(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Sizes of the stage whose key was made. */
static RengaErrorCode FindSizes(RengaPipeline pipeline, Forecasts forecasts, int stage,
                                StageSizes *sizes)
{
  const Key *key = &forecasts->key;
  const size_t bytes = (size_t)key->count * sizeof *key->number;
  KnownStage made = {.hash = RengaHash(key->number, bytes, 0), .count = key->count};
  RengaCall(Grow(forecasts));
  int *slot = FindSlot(forecasts, made.hash, key);
  if (!*slot) {
    RengaCall(Compile(pipeline, stage, &made.sizes));
    RengaCall(RengaRealloc(forecasts->n_known + 1, &forecasts->known));
    RengaCall(RengaMalloc(key->count, &made.key));
    memcpy(made.key, key->number, bytes);
    forecasts->known[forecasts->n_known++] = made;
    *slot = forecasts->n_known;
  }
  *sizes = forecasts->known[*slot - 1].sizes;
  return RENGA_SUCCESS;
}

/* Rows of the message table by stage: those of stage s are own[start[s] … start[s + 1]). */
static RengaErrorCode SortMessages(RengaPipeline pipeline, int **start, int **own)
{
  RengaCall(RengaMalloc(pipeline->stages + 2, start));
  RengaCall(RengaMalloc(2 * pipeline->n_messages + 1, own));
  for (int m = 0; m < pipeline->n_messages; m++) {
    (*start)[pipeline->message[m].from + 2]++;
    (*start)[pipeline->message[m].to + 2]++;
  }
  for (int s = 2; s < pipeline->stages + 2; s++) (*start)[s] += (*start)[s - 1];
  for (int m = 0; m < pipeline->n_messages; m++) {
    (*own)[(*start)[pipeline->message[m].from + 1]++] = m;
    (*own)[(*start)[pipeline->message[m].to + 1]++] = m;
  }
  return RENGA_SUCCESS;
}

/* pipeline is a copy that has read its plan; known stages are those of the original. */
static RengaErrorCode ForecastStages(RengaPipeline pipeline, Forecasts forecasts, int first,
                                     int last, RengaPipelineMemory memory[])
{
  int *start = NULL, *own = NULL;
  RengaErrorCode code = SortMessages(pipeline, &start, &own);
  pipeline->forecasts = forecasts;
  for (int s = first; s < last && !code; s++) {
    StageSizes sizes = {0};
    code = MakeKey(pipeline, s, start[s + 1] - start[s], own + start[s]);
    if (!code) code = FindSizes(pipeline, forecasts, s, &sizes);
    if (!code) GiveSizes(pipeline, s, &sizes);
    if (!code) code = RengaPipelineSizeWorst_Private(pipeline, &memory[s - first]);
  }
  pipeline->forecasts = NULL;
  RengaFree(&start);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Ask(RengaPipeline pipeline, int first, int last, RengaPipelineMemory memory[])
{
  RengaPipeline copy;
  RengaCall(FindForecasts(pipeline));
  RengaCall(RengaPipelineCopy_Private(pipeline, &copy));
  RengaErrorCode code = RengaPipelineReadPlan_Private(copy);
  if (!code) code = ForecastStages(copy, pipeline->forecasts, first, last, memory);
  RengaPipelineDestroy(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecastStage - memory that a stage of a pipeline will take, without its ranks

   Collective the first time where -device_threads is not given, else not

   Input:
   . pipeline - the pipeline, with plan, device, optimizer and options; not yet set up
   . stage - which stage of the plan

   Output:
   . memory - bytes by category on the replica that needs most; what RengaPipelineSetUp will take
     there, to the byte, with the same number of threads; measured is 0

   Notes: the set-up of the stage itself is run, but for its memory, so that no parameter is made:
   stages of any size are forecast on any machine. The device is set up by it.
@*/
RengaErrorCode RengaPipelineForecastStage(RengaPipeline pipeline, int stage,
                                          RengaPipelineMemory *memory)
{
  RengaPipelineMemory worst;
  RengaCheckPointer(pipeline);
  RengaCheckPointer(memory);
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCall(RengaPipelineSetUpDevice_Private(pipeline));
  RengaCheck(stage >= 0 && stage < RengaPlanGetStageCount(pipeline->plan), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "stage %d of a plan of %d stages", stage,
             RengaPlanGetStageCount(pipeline->plan));
  RengaCall(Ask(pipeline, stage, stage + 1, &worst));
  *memory = worst;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecastStages - memory that the stages of a pipeline will take, without their ranks

   Collective the first time where -device_threads is not given, else not

   Input:
   . pipeline - as of RengaPipelineForecastStage()

   Output:
   . memory - [stages of the plan] as of RengaPipelineForecastStage()

   Notes: stages that are alike but for their place in the network are compiled once. They are
   remembered with the pipeline, also when it is given another plan of the same network, until its
   settings are others.
@*/
RengaErrorCode RengaPipelineForecastStages(RengaPipeline pipeline, RengaPipelineMemory memory[])
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(memory);
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCall(RengaPipelineSetUpDevice_Private(pipeline));
  RengaCall(Ask(pipeline, 0, RengaPlanGetStageCount(pipeline->plan), memory));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecast - memory that a stage of a plan will take, as the options stand

   Collective the first time where -device_threads is not given, else not

   Input:
   . graph - the network, set up
   . plan - its plan, with stages and batch
   . stage - which stage

   Output:
   . memory - as of RengaPipelineForecastStage()
@*/
RengaErrorCode RengaPipelineForecast(RengaGraph graph, RengaPlan plan, int stage,
                                     RengaPipelineMemory *memory)
{
  RengaPipeline pipeline;
  RengaCheckPointer(graph);
  RengaCheckPointer(plan);
  RengaCall(RengaPipelineCreate(((struct _p_RengaObject *)plan)->owner, &pipeline));
  RengaErrorCode code = RengaPipelineSetFromOptions(pipeline);
  if (code == RENGA_SUCCESS) code = RengaPipelineSetPlan(pipeline, graph, plan);
  if (code == RENGA_SUCCESS) code = RengaPipelineForecastStage(pipeline, stage, memory);
  RengaPipelineDestroy(&pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}
