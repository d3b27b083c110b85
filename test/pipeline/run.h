/* What the tests of the pipeline share: networks, made-up data, plans by hand, a short training. */
#pragma once
#include "../check.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"
#include "rengapipeline.h"
#include "rengaschedule.h"
#include <math.h>
#include <string.h>

enum { MOST_STEPS = 8, MOST_FIELDS = 4 };

typedef struct {
  const char *graph; /* as -graph says, or a name for what build makes */
  RengaErrorCode (*build)(RengaGraph graph);
  const char *device, *schedule, *optimizer;
  RengaReduction reduction;
  int stages, replicas;
  const int *unequal;                       /* [stages] replicas, or NULL: all the same */
  unsigned recompute, shard;                /* bit s: stage s; shard: its optimizer, */
  RengaShard level;                         /* or, where it is given, this */
  int64_t batch, microbatch, leaf, classes; /* leaf 0: 1 */
  int steps;
  const int64_t *samples; /* [steps] */
  const int *cuts;        /* [stages - 1] first nodes, or NULL: even */
  double clip_norm;
  const char *groups; /* of the optimizer */
  bool poison;
  int buckets;         /* of gradients; 0: as settings begin */
  int64_t bucket_size; /* bytes; 0: as buckets says */
  int fold_groups;     /* of replicas that add up gradients by themselves first; 0: one */
  bool in_place;       /* sums do not go on while ranks compute */
  int chunks;          /* stages of each rank; 0: one */
  RengaSparse sparse;  /* of the optimizer */
  int tensor;          /* ranks of a replica, and lanes of the network; 0: one */
} Run;

/* Lent. */
static inline RengaSettings SettingsOf(RengaPipeline pipeline)
{
  RengaSettings settings = NULL;
  RengaCallAbort(RengaPipelineGetSettings(pipeline, &settings));
  return settings;
}

typedef struct {
  double loss[MOST_STEPS], norm[MOST_STEPS], validation;
  uint64_t digest, outputs; /* outputs: on rank 0, of a forward pass alone */
  RengaPipelineMemory memory;
} Result;

/* Ranks of all stages. */
static inline int RunCountRanks(int stages, const int replicas[])
{
  int ranks = 0;
  for (int s = 0; s < stages; s++) ranks += replicas[s];
  return ranks;
}

typedef struct {
  RengaGraph graph;
  int64_t step, classes;
} Source;

static inline const RengaGraphValue *RunField(RengaGraph graph, int field)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind == RENGA_VALUE_INPUT && field-- == 0) return value;
  }
  return NULL;
}

/* Inputs that have fewer kinds than there are classes. */
static inline int64_t RunKinds(const char *name, int64_t classes)
{
  static const char *const pairs[] = {"segments", "attention_mask", "next_sentence"};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    if (strcmp(name, pairs[i]) == 0) return 2;
  return classes;
}

/* A sample's numbers follow from step and sample only. Of the labels of every third sample only the
   first counts; the last sample of a step of seven has none. */
static inline RengaErrorCode RunRead(void *user, int field, int64_t first, int64_t count,
                                     void *buffer)
{
  const Source *source = user;
  const RengaGraphValue *value = RunField(source->graph, field);
  Expect(value != NULL);
  const RengaTensorSpec spec = RengaTensorSpecAt(&value->spec, 1);
  const int64_t size = RengaTensorSpecCount(&spec);
  const bool labels = strcmp(value->name, "labels") == 0;
  float *x;
  RengaCall(RengaMalloc(size, &x));
  for (int64_t i = 0; i < count; i++) {
    const int64_t sample = source->step * 1000 + first + i;
    RengaRandomUniform(11, (uint64_t)field, (uint64_t)(sample * size), size, x);
    for (int64_t k = 0; k < size; k++) {
      if (spec.type == RENGA_FLOAT32) {
        ((float *)buffer)[i * size + k] = 2 * x[k] - 1;
        continue;
      }
      int64_t class = (int64_t)(x[k] * (float)RunKinds(value->name, source->classes));
      if (labels && (((first + i) % 3 == 2 && k > 0) || first + i == 6)) class = -100;
      ((int64_t *)buffer)[i * size + k] = class;
    }
  }
  RengaFree(&x);
  return RENGA_SUCCESS;
}

/* A network with what is awkward: a value used in many stages, a parameter used three times,
   inputs of the data set read in the middle and at the end, and an output besides the loss. */
static inline RengaErrorCode RunSkip(RengaGraph graph)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 6}};
  const RengaTensorSpec w_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {6, 6}};
  const RengaTensorSpec label_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 0.4};
  RengaValue x, side, labels, w, h, first, y, loss;
  RengaCall(RengaGraphAddInput(graph, "x", &x_spec, &x));
  RengaCall(RengaGraphAddInput(graph, "side", &x_spec, &side));
  RengaCall(RengaGraphAddInput(graph, "labels", &label_spec, &labels));
  RengaCall(RengaGraphAddParameter(graph, "shared", &w_spec, &init, &w));
  RengaCall(RengaGraphAddLinear(graph, "in", x, 6, true, 0.4, &h));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", h, &first));
  h = first;
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaGraphAddMatMul(graph, h, w, &y));
    RengaCall(RengaGraphAddUnary(graph, i == 1 ? "Relu" : "Tanh", y, &y));
    RengaCall(RengaGraphAddAdd(graph, y, i == 1 ? side : h, &y));
    RengaCall(RengaGraphAddAdd(graph, y, first, &h));
  }
  RengaCall(RengaGraphAddLinear(graph, "out", h, 4, true, 0.4, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(RengaGraphAddCrossEntropy(graph, y, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunGraph(RengaComm comm, const char *what, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  if (strcmp(what, "skip") == 0)
    RengaCall(RunSkip(*graph));
  else
    RengaCall(RengaGraphLoad(*graph, what));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunBuild(RengaComm comm, const Run *run, RengaGraph *graph)
{
  if (run->build == NULL) return RunGraph(comm, run->graph, graph);
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(run->build(*graph));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunPlan(RengaComm comm, const Run *run, RengaGraph graph,
                                     RengaPlan *plan)
{
  RengaPlanStage stage[16] = {{0}};
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  const int nodes = RengaGraphGetNodeCount(graph);
  for (int s = 0; s < run->stages; s++) {
    stage[s].first = s == 0 ? 0 : run->cuts ? run->cuts[s - 1] : nodes * s / run->stages;
    stage[s].last = s == run->stages - 1 ? nodes
                    : run->cuts          ? run->cuts[s]
                                         : nodes * (s + 1) / run->stages;
    stage[s].shape = RengaStageShapePlain(run->unequal ? run->unequal[s] : run->replicas);
    stage[s].shape.precision = precision;
    if (run->recompute >> s & 1) stage[s].shape.saved = RENGA_SAVED_RECOMPUTE;
    if (run->shard >> s & 1) stage[s].shape.shard = run->level ? run->level : RENGA_SHARD_OPTIMIZER;
    if (run->chunks) stage[s].shape.chunks = run->chunks;
    if (run->tensor) stage[s].shape.tensor = run->tensor;
  }
  RengaCall(RengaPlanCreate(comm, plan));
  RengaCall(RengaPlanSetStages(*plan, graph, run->stages, stage));
  int chunks;
  bool wave;
  RengaCall(RengaScheduleFindPlacement(run->schedule, &chunks, &wave));
  if (wave) RengaCall(RengaPlanSetWave(*plan));
  RengaCall(RengaPlanSetBatch(*plan, run->batch, run->microbatch));
  RengaCall(RengaPlanSetLeaf(*plan, run->leaf > 0 ? run->leaf : 1));
  return RENGA_SUCCESS;
}

/* Between the host and the memory of the pipeline's device; waits. */
static inline RengaErrorCode RunCopy(RengaPipeline pipeline, RengaCopyKind kind, void *to,
                                     const void *from, size_t bytes)
{
  RengaDevice device;
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(RengaDeviceCopy(device, NULL, kind, to, from, bytes));
  RengaCall(RengaStreamSynchronize(device, NULL));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunConfigure(RengaComm comm, const Run *run, RengaGraph graph,
                                          RengaPlan plan, RengaPipeline *pipeline)
{
  RengaDevice device;
  RengaOptimizer optimizer;
  RengaSettings settings;
  const char *transport = NULL;
  bool given = false;
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaSettingsSetSeed(SettingsOf(*pipeline), 5));
  RengaCall(RengaPipelineGetDevice(*pipeline, &device));
  RengaCall(RengaDeviceSetType(device, run->device ? run->device : "ref"));
  RengaCall(RengaDeviceSetThreads(device, 1));
  RengaCall(RengaDeviceSetPoison(device, run->poison));
  RengaCall(RengaDeviceSetFromOptions(device)); /* as RENGA_OPTIONS says: -device_type far */
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, run->optimizer ? run->optimizer : "adamw"));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.01));
  if (run->clip_norm > 0) RengaCall(RengaOptimizerSetClipNorm(optimizer, run->clip_norm));
  if (run->groups) RengaCall(RengaOptimizerSetGroups(optimizer, run->groups));
  if (run->sparse) RengaCall(RengaOptimizerSetSparse(optimizer, run->sparse));
  if (run->schedule) RengaCall(RengaSettingsSetSchedule(SettingsOf(*pipeline), run->schedule));
  if (run->reduction) RengaCall(RengaSettingsSetReduction(SettingsOf(*pipeline), run->reduction));
  RengaCall(RengaPipelineGetSettings(*pipeline, &settings));
  if (run->buckets) RengaCall(RengaSettingsSetBuckets(settings, run->buckets));
  if (run->fold_groups) RengaCall(RengaSettingsSetShardGroups(settings, run->fold_groups));
  RengaCall(RengaSettingsSetBucketSize(settings, run->bucket_size));
  RengaCall(RengaSettingsSetOverlap(settings, !run->in_place));
  RengaCall(RengaOptionsGetString("transport_type", &transport, &given));
  if (given) RengaCall(RengaSettingsSetTransport(settings, transport));
  RengaCall(RengaSettingsSetTimeout(SettingsOf(*pipeline), 150));
  for (int i = 0; i < run->steps; i++)
    RengaCall(RengaPipelineSetDataShortBatch(*pipeline, run->samples[i]));
  return RENGA_SUCCESS;
}

/* What the stages of a rank take together. */
static inline void RunAddForecasts(RengaPlan plan, int stage, const RengaPipelineMemory forecast[],
                                   RengaPipelineMemory *sum)
{
  *sum = (RengaPipelineMemory){0};
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    if (RengaPlanGetFirstStage(plan, s) != RengaPlanGetFirstStage(plan, stage)) continue;
    sum->forecast += forecast[s].forecast;
    sum->saved += forecast[s].saved;
    sum->parameters += forecast[s].parameters;
    sum->inputs += forecast[s].inputs;
    sum->gradients += forecast[s].gradients;
    sum->optimizer += forecast[s].optimizer;
    sum->temporary += forecast[s].temporary;
    sum->messages += forecast[s].messages;
  }
}

/* What the stages of each rank take was foretold, to the byte: by the replica that takes most. */
static inline RengaErrorCode RunCheckForecast(RengaComm comm, RengaPlan plan,
                                              const RengaPipelineMemory forecast[],
                                              RengaPipeline pipeline)
{
  const int stages = RengaPlanGetStageCount(plan), ranks = RengaCommGetSize(comm);
  RengaPipelineMemory mine, wanted, *all;
  RengaCall(RengaPipelineGetMemory(pipeline, &mine));
  RengaCall(RengaMalloc(ranks, &all));
  RengaCall(RengaCommGather(comm, &mine, sizeof mine, all, -1, "memory"));
  for (int s = 0; s < stages; s++) {
    const RengaPipelineMemory *worst = &all[RengaPlanGetRank(plan, s, 0)];
    for (int r = 1; r < RengaPlanGetStage(plan, s)->shape.replicas; r++) {
      const RengaPipelineMemory *other = &all[RengaPlanGetRank(plan, s, r)];
      if (other->forecast > worst->forecast) worst = other;
    }
    RunAddForecasts(plan, s, forecast, &wanted);
    Expect(worst->forecast == wanted.forecast && worst->saved == wanted.saved);
    Expect(worst->parameters == wanted.parameters && worst->inputs == wanted.inputs);
    Expect(worst->gradients == wanted.gradients && worst->optimizer == wanted.optimizer);
    Expect(worst->temporary == wanted.temporary && worst->messages == wanted.messages);
  }
  RengaFree(&all);
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunPipeline(RengaComm comm, const Run *run, RengaGraph graph,
                                         RengaPlan plan, RengaPipeline *pipeline)
{
  RengaPipelineMemory forecast[16];
  RengaCall(RunConfigure(comm, run, graph, plan, pipeline));
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++)
    RengaCall(RengaPipelineForecastStage(*pipeline, s, &forecast[s]));
  RengaCall(RengaPipelineSetUp(*pipeline));
  RengaCall(RunCheckForecast(comm, plan, forecast, *pipeline));
  return RENGA_SUCCESS;
}

/* Every output that has a part for each sample, one after the other. */
static inline RengaErrorCode RunOutputs(RengaGraph graph, RengaPipeline pipeline,
                                        const RengaBatch *batch, uint64_t *hash)
{
  const RengaValue *output;
  int count;
  RengaCall(RengaGraphGetOutputs(graph, &count, &output));
  for (int i = 0; i < count; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, output[i]);
    const RengaTensorSpec spec = RengaTensorSpecAt(&value->spec, batch->samples);
    float *buffer = NULL;
    if (value->spec.ndim == 0 || value->spec.dim[0] >= 0) continue;
    RengaCall(RengaMalloc(RengaTensorSpecCount(&spec), &buffer));
    RengaCall(RengaPipelineForward(pipeline, batch, value->name, buffer));
    *hash = RengaHash(buffer, RengaTensorSpecBytes(&spec), *hash);
    RengaFree(&buffer);
  }
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunSteps(const Run *run, RengaGraph graph, RengaPipeline pipeline,
                                      Result *result)
{
  Source source = {.graph = graph, .classes = run->classes};
  for (int i = 0; i < run->steps; i++) {
    source.step = i;
    const RengaBatch batch = {run->samples[i], RunRead, &source};
    RengaCall(RengaPipelineStep(pipeline, &batch, &result->loss[i]));
    RengaCall(RengaPipelineGetGradientNorm(pipeline, &result->norm[i]));
  }
  source.step = 900;
  const RengaBatch batch = {run->batch, RunRead, &source};
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, &result->validation));
  if (run->build) RengaCall(RunOutputs(graph, pipeline, &batch, &result->outputs));
  RengaCall(RengaPipelineGetDigest(pipeline, &result->digest));
  RengaCall(RengaPipelineGetMemory(pipeline, &result->memory));
  return RENGA_SUCCESS;
}

/* All of it. */
static inline RengaErrorCode RunAll(RengaComm comm, const Run *run, Result *result)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  memset(result, 0, sizeof *result);
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  RengaCall(RunSteps(run, graph, pipeline, result));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The same steps on one rank, to compare with: losses are finite, gradients are not nothing. */
static inline RengaErrorCode RunAlone(RengaComm self, const Run *run, Result *result)
{
  Run alone = *run;
  alone.stages = alone.replicas = 1;
  alone.unequal = NULL;
  alone.recompute = alone.shard = 0;
  alone.chunks = 0;
  RengaCall(RunAll(self, &alone, result));
  for (int i = 0; i < run->steps; i++) Expect(isfinite(result->loss[i]) && result->norm[i] > 0);
  return RENGA_SUCCESS;
}

static inline RengaErrorCode RunCompare(const Run *run, const Result *a, const Result *b)
{
  char what[256];
  snprintf(what, sizeof what,
           "%s on %s, %d stages x %d replicas%s in %d groups, %d per rank, recompute %x, shard %x, "
           "leaf %lld, %s",
           run->graph, run->device, run->stages, run->unequal ? run->unequal[0] : run->replicas,
           run->unequal ? " of stage 0" : "", run->fold_groups, run->chunks ? run->chunks : 1,
           run->recompute, run->shard, (long long)run->leaf, run->schedule);
  for (int i = 0; i < run->steps; i++)
    RengaCheck(a->loss[i] == b->loss[i] && a->norm[i] == b->norm[i], MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "%s: step %d has loss %.17g and norm %.17g, not %.17g and %.17g",
               what, i, b->loss[i], b->norm[i], a->loss[i], a->norm[i]);
  RengaCheck(a->validation == b->validation, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: validation %.17g, not %.17g", what, b->validation, a->validation);
  RengaCheck(a->digest == b->digest, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s: other parameters",
             what);
  RengaCheck(b->memory.forecast == b->memory.measured, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: forecast %lld bytes, measured %lld", what, (long long)b->memory.forecast,
             (long long)b->memory.measured);
  return RENGA_SUCCESS;
}
