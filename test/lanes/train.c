/* Trains a network as the command does, by functions of the library alone. */
#include "train.h"
#include "rengadata.h"
#include "rengapartition.h"
#include "rengaschedule.h"

typedef struct {
  RengaComm comm; /* lent */
  MPI_Comm printer;
  RengaGraph graph;
  RengaData data;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  int64_t seed, steps, batch;
  RengaPipelineMemory *forecast, *taken; /* [stages], [ranks] */
} Training;

typedef struct {
  RengaData data;
  int64_t first, epoch;
} Window;

RengaErrorCode GiveOptions(const char *options, bool give)
{
  char text[MOST_TEXT], *rest, *name = NULL;
  Expect(strlen(options) < sizeof text);
  strcpy(text, options);
  for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (!name) {
      name = word;
      continue;
    }
    RengaCall(give ? RengaOptionsSetValue(name, word) : RengaOptionsClearValue(name));
    name = NULL;
  }
  Expect(!name);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Window *window = user;
  RengaCall(RengaDataRead(window->data, RENGA_DATA_TRAINING, field, window->epoch,
                          window->first + first, count, buffer));
  return RENGA_SUCCESS;
}

static RengaErrorCode Read(Training *t)
{
  bool given;
  RengaCall(RengaOptionsGetInt64("seed", &t->seed, NULL));
  RengaCall(RengaOptionsGetInt64("steps", &t->steps, &given));
  if (!given) t->steps = 3;
  Expect(t->steps <= MOST_STEPS);
  RengaCall(RengaGraphCreate(t->comm, &t->graph));
  RengaCall(RengaGraphSetFromOptions(t->graph));
  RengaCall(RengaGraphSetUp(t->graph));
  RengaCall(RengaDataCreate(t->comm, &t->data));
  RengaCall(RengaDataSetSeed(t->data, (uint64_t)t->seed));
  RengaCall(RengaDataSetFromOptions(t->data));
  RengaCall(RengaDataSetGraph(t->data, t->graph));
  RengaCall(RengaDataSetUp(t->data));
  return RENGA_SUCCESS;
}

static RengaErrorCode Plan(Training *t)
{
  RengaOptimizer optimizer;
  RengaSettings settings;
  int64_t samples, microbatch;
  RengaCall(RengaPipelineCreate(t->comm, &t->pipeline));
  RengaCall(RengaPipelineGetSettings(t->pipeline, &settings));
  RengaCall(RengaSettingsSetSeed(settings, (uint64_t)t->seed));
  RengaCall(RengaPipelineSetFromOptions(t->pipeline));
  RengaCall(RengaPipelineGetOptimizer(t->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, t->steps));
  RengaCall(RengaPipelineGetSettings(t->pipeline, &settings));
  RengaCall(RengaDataGetCount(t->data, RENGA_DATA_TRAINING, &samples));
  RengaCall(RengaPartitionCreate(t->comm, &t->partition));
  RengaCall(RengaPartitionSetGraph(t->partition, t->graph));
  RengaCall(RengaPartitionSetFromOptions(t->partition));
  RengaCall(RengaPartitionSetSettings(t->partition, settings));
  RengaCall(RengaPartitionAddDataPass(t->partition, samples));
  RengaCall(RengaPartitionSolve(t->partition, &t->plan));
  RengaCall(RengaPlanGetBatch(t->plan, &t->batch, &microbatch));
  RengaCall(RengaDataSetBatch(t->data, t->batch));
  RengaCall(RengaPipelineSetPlan(t->pipeline, t->graph, t->plan));
  if (samples % t->batch)
    RengaCall(RengaPipelineSetDataShortBatch(t->pipeline, samples % t->batch));
  return RENGA_SUCCESS;
}

/* The stages of a rank together. */
static void AddForecasts(const Training *t, int stage, RengaPipelineMemory *sum)
{
  *sum = (RengaPipelineMemory){0};
  for (int s = 0; s < RengaPlanGetStageCount(t->plan); s++) {
    const RengaPipelineMemory *own = &t->forecast[s];
    if (RengaPlanGetFirstStage(t->plan, s) != RengaPlanGetFirstStage(t->plan, stage)) continue;
    sum->forecast += own->forecast;
    sum->parameters += own->parameters;
    sum->gradients += own->gradients;
    sum->optimizer += own->optimizer;
    sum->saved += own->saved;
  }
}

/* Of the ranks of a stage the one that takes most is the one that was forecast; on each rank the
   forecast of set-up is what is taken. */
static RengaErrorCode CheckStage(const Training *t, int stage)
{
  RengaPipelineMemory wanted;
  const RengaPipelineMemory *most = NULL;
  const RengaStageShape *shape = &RengaPlanGetStage(t->plan, stage)->shape;
  const int each = shape->sequence * shape->tensor;
  for (int i = 0; i < shape->replicas * each; i++) {
    const RengaPlanPlace place = {.stage = stage,
                                  .replica = i / each,
                                  .sequence = i % each / shape->tensor,
                                  .tensor = i % shape->tensor};
    const RengaPipelineMemory *taken = &t->taken[RengaPlanGetRankAt(t->plan, &place)];
    Expect(taken->measured == taken->forecast && taken->measured > 0);
    if (!most || taken->forecast > most->forecast) most = taken;
  }
  AddForecasts(t, stage, &wanted);
  if (shape->chunks > 1) { /* of each stage another rank may take most */
    Expect(most->measured <= wanted.forecast);
    return RENGA_SUCCESS;
  }
  RengaCheck(most->measured == wanted.forecast, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d was forecast to take %lld bytes before it was set up, and takes %lld", stage,
             (long long)wanted.forecast, (long long)most->measured);
  Expect(most->parameters == wanted.parameters && most->gradients == wanted.gradients);
  Expect(most->optimizer == wanted.optimizer && most->saved == wanted.saved);
  return RENGA_SUCCESS;
}

/* Forecast before set-up, forecast by set-up, and taken: the same bytes on every rank. */
static RengaErrorCode SetUp(Training *t)
{
  RengaPipelineMemory mine;
  RengaCall(RengaMalloc(RengaPlanGetStageCount(t->plan), &t->forecast));
  RengaCall(RengaMalloc(RengaCommGetSize(t->comm), &t->taken));
  RengaCall(RengaPipelineForecastStages(t->pipeline, t->forecast));
  RengaCall(RengaPipelineSetUp(t->pipeline));
  RengaCall(RengaPipelineGetMemory(t->pipeline, &mine));
  RengaCall(RengaCommGather(t->comm, &mine, sizeof mine, t->taken, -1, "memory"));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeWindow(const Training *t, int64_t step, Window *window, RengaBatch *batch)
{
  *window = (Window){.data = t->data};
  RengaCall(RengaDataGetStep(t->data, RENGA_DATA_TRAINING, t->batch, step, &window->first,
                             &batch->samples, &window->epoch));
  batch->read = ReadWindow;
  batch->user = window;
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(const Training *t, Outcome *outcome)
{
  Window window;
  RengaBatch batch;
  for (int64_t s = 0; s < t->steps; s++) {
    RengaCall(TakeWindow(t, s, &window, &batch));
    RengaCall(RengaPipelineStep(t->pipeline, &batch, &outcome->loss[s]));
    RengaCall(RengaPipelineGetGradientNorm(t->pipeline, &outcome->norm[s]));
  }
  RengaCall(TakeWindow(t, 1, &window, &batch));
  RengaCall(RengaPipelineEvaluate(t->pipeline, &batch, &outcome->validation));
  RengaCall(RengaPipelineGetDigest(t->pipeline, &outcome->digest));
  return RENGA_SUCCESS;
}

static RengaErrorCode Describe(const Training *t, Outcome *outcome)
{
  const RengaPlanStage *stage = RengaPlanGetStage(t->plan, 0);
  outcome->steps = (int)t->steps;
  outcome->nodes = RengaGraphGetNodeCount(t->graph);
  int lanes, of_tokens;
  RengaCall(RengaGraphGetLanes(t->graph, &lanes, &outcome->in_lanes));
  RengaCall(RengaGraphGetTokenLanes(t->graph, &lanes, &of_tokens));
  outcome->in_lanes += of_tokens;
  outcome->stages = RengaPlanGetStageCount(t->plan);
  outcome->replicas = stage->shape.replicas;
  outcome->shared = stage->shape.tensor * stage->shape.sequence;
  for (int s = 0; s < outcome->stages; s++) {
    RengaCall(CheckStage(t, s));
    outcome->recomputed += RengaPlanGetStage(t->plan, s)->shape.saved == RENGA_SAVED_RECOMPUTE;
  }
  for (int r = 0; r < RengaCommGetSize(t->comm); r++)
    if (t->taken[r].parameters > outcome->parameter_bytes)
      outcome->parameter_bytes = t->taken[r].parameters;
  return RENGA_SUCCESS;
}

static RengaErrorCode TrainWith(Training *t, Outcome *outcome)
{
  RengaCall(Read(t));
  RengaCall(Plan(t));
  RengaCall(SetUp(t));
  RengaCall(Step(t, outcome));
  RengaCall(RengaErrorAgree(t->printer, Describe(t, outcome)));
  return RENGA_SUCCESS;
}

static void Free(Training *t)
{
  RengaFree(&t->forecast);
  RengaFree(&t->taken);
  if (t->pipeline) RengaPipelineDestroy(&t->pipeline);
  if (t->plan) RengaPlanDestroy(&t->plan);
  if (t->partition) RengaPartitionDestroy(&t->partition);
  if (t->data) RengaDataDestroy(&t->data);
  if (t->graph) RengaGraphDestroy(&t->graph);
}

RengaErrorCode Train(RengaComm comm, const char *options, Outcome *outcome)
{
  Training training = {.comm = comm};
  *outcome = (Outcome){0};
  RengaCall(RengaObjectGetComm(comm, &training.printer));
  RengaErrorCode code = GiveOptions(options, true);
  if (!code) code = TrainWith(&training, outcome);
  Free(&training);
  RengaCall(GiveOptions(options, false));
  return RengaErrorAgree(training.printer, code);
}

/* Norms are those of all parts of the parameters, added one after the other. Which parts there are
   depends on the cuts, so that their last bits may differ. */
static bool NearNorms(double one, double other)
{
  const double difference = one - other;
  return one == other || (difference < 1e-13 * one && difference > -1e-13 * one);
}

bool SameOutcome(const Outcome *one, const Outcome *other, size_t size, char difference[])
{
  for (int s = 0; s < one->steps; s++)
    if (memcmp(&one->loss[s], &other->loss[s], sizeof *one->loss) ||
        !NearNorms(one->norm[s], other->norm[s])) {
      snprintf(difference, size, "step %d has loss %.17g and norm %.17g, not %.17g and %.17g", s,
               other->loss[s], other->norm[s], one->loss[s], one->norm[s]);
      return false;
    }
  snprintf(difference, size,
           "%d steps, validation %.17g and digest 0x%016llx, not %d, %.17g and 0x%016llx",
           other->steps, other->validation, (unsigned long long)other->digest, one->steps,
           one->validation, (unsigned long long)one->digest);
  return one->steps == other->steps && one->digest == other->digest &&
         memcmp(&one->validation, &other->validation, sizeof one->validation) == 0;
}
