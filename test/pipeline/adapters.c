/* TEST ranks: 1 4 */
/* Adapters and frozen parameters. A network with adapters begins as it is without them; its
   gradients are those of the network with merged weights, multiplied by the other factor. What is
   frozen has no gradient and no moments and keeps its bits, and all other gradients are those of
   the network in which nothing is frozen. Any layout has the same bits. */
#include "rengacheckpoint.h"
#include "run.h"

static const int64_t samples[] = {8, 8, 7};
static const Run base = {.graph = "skip",
                         .device = "ref",
                         .schedule = "gpipe",
                         .stages = 1,
                         .replicas = 1,
                         .batch = 8,
                         .microbatch = 2,
                         .classes = 4,
                         .steps = 3,
                         .samples = samples,
                         .clip_norm = 0.5};
enum { RANK = 2, WIDTH = 6, MOST = WIDTH * WIDTH };
static const RengaGraphLora lora = {.rank = RANK, .alpha = 3, .targets = "in,share?,out.weight"};
static const double scale = 1.5;

/* The weights of the network: shared is read three times, as it is stored, [inputs, outputs]. */
static const struct {
  const char *weight, *layer;
  int outputs;
  bool transposed;
} weights[] = {
    {"in.weight", "in", 6, false}, {"shared", "shared", 6, true}, {"out.weight", "out", 4, false}};
enum { WEIGHTS = sizeof weights / sizeof weights[0] };

static RengaErrorCode BuildPlain(RengaGraph graph)
{
  RengaCall(RunSkip(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildAdapted(RengaGraph graph)
{
  RengaCall(RengaGraphSetLora(graph, &lora));
  RengaCall(RunSkip(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildFrozen(RengaGraph graph)
{
  RengaCall(RengaGraphSetFrozen(graph, "in.*,shared"));
  RengaCall(RunSkip(graph));
  return RENGA_SUCCESS;
}

/* Backward goes to the first layer, whose weight is frozen and whose bias is not. */
static RengaErrorCode BuildFrozenWeights(RengaGraph graph)
{
  RengaCall(RengaGraphSetFrozen(graph, "*"));
  RengaCall(RengaGraphSetTrained(graph, "*bias"));
  RengaCall(RunSkip(graph));
  return RENGA_SUCCESS;
}

/* With a dropout that each layer draws for itself, and parameters of the network besides. */
static RengaErrorCode BuildGpt(RengaGraph graph)
{
  const RengaGraphLora dropped = {
      .rank = 3, .dropout = 0.25, .targets = "qkv,blocks.1.*,proj.weight"};
  RengaCall(RengaGraphSetLora(graph, &dropped));
  RengaCall(RengaGraphSetTrained(graph, "*.bias"));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=2,hidden=8,heads=2,sequence=4,vocabulary=16"));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
} Made;

static RengaErrorCode Make(RengaComm comm, const Run *run, Made *made)
{
  RengaCall(RunBuild(comm, run, &made->graph));
  RengaCall(RunPlan(comm, run, made->graph, &made->plan));
  RengaGraph found;
  RengaCall(RunPipeline(comm, run, made->graph, made->plan, &made->pipeline));
  RengaCall(RengaPipelineGetGraph(made->pipeline, &found));
  Expect(found == made->graph);
  return RENGA_SUCCESS;
}

static RengaErrorCode Unmake(Made *made)
{
  RengaCall(RengaPipelineDestroy(&made->pipeline));
  RengaCall(RengaPlanDestroy(&made->plan));
  RengaCall(RengaGraphDestroy(&made->graph));
  return RENGA_SUCCESS;
}

static const char *Factor(int w, const char *part, char name[64])
{
  snprintf(name, 64, "%s.%s.weight", weights[w].layer, part);
  return name;
}

/* ---- the formula, on one rank ---- */
/* B is nothing that a run begins with, so that A has a gradient. a, b: [WEIGHTS] */
static RengaErrorCode SetFactors(RengaPipeline pipeline, float a[][MOST], float b[][MOST])
{
  char name[64];
  for (int w = 0; w < WEIGHTS; w++) {
    RengaCall(RengaPipelineGetParameter(pipeline, Factor(w, "lora_A", name), 0, a[w]));
    RengaCall(RengaPipelineGetParameter(pipeline, Factor(w, "lora_B", name), 0, b[w]));
    for (int i = 0; i < weights[w].outputs * RANK; i++) Expect(b[w][i] == 0);
    for (int i = 0; i < RANK * WIDTH; i++)
      Expect(a[w][i] != 0 && fabs((double)a[w][i]) <= 1 / sqrt(WIDTH));
    RengaRandomNormal(3, (uint64_t)w, 0, (int64_t)weights[w].outputs * RANK, b[w]);
    RengaCall(RengaPipelineSetParameter(pipeline, name, 0, b[w]));
  }
  return RENGA_SUCCESS;
}

/* Of element (output, input) of a weight. */
static int PlaceInWeight(int w, int output, int input)
{
  return weights[w].transposed ? input * weights[w].outputs + output : output * WIDTH + input;
}

static RengaErrorCode MergeFactors(RengaPipeline plain, float a[][MOST], float b[][MOST])
{
  for (int w = 0; w < WEIGHTS; w++) {
    float weight[MOST];
    RengaCall(RengaPipelineGetParameter(plain, weights[w].weight, 0, weight));
    for (int o = 0; o < weights[w].outputs; o++)
      for (int i = 0; i < WIDTH; i++) {
        double sum = 0;
        for (int k = 0; k < RANK; k++)
          sum += (double)b[w][o * RANK + k] * (double)a[w][k * WIDTH + i];
        weight[PlaceInWeight(w, o, i)] += (float)(scale * sum);
      }
    RengaCall(RengaPipelineSetParameter(plain, weights[w].weight, 0, weight));
  }
  return RENGA_SUCCESS;
}

static bool IsNear(double one, double other)
{
  return fabs(one - other) <= 2e-5 * fmax(1, fabs(other));
}

static RengaErrorCode CompareFactors(const Made *adapted, const Made *merged, int w,
                                     const float a[], const float b[])
{
  float da[MOST], db[MOST], dw[MOST];
  char name[64];
  double largest = 0;
  RengaCall(RengaPipelineGetGradient(adapted->pipeline, Factor(w, "lora_A", name), da));
  RengaCall(RengaPipelineGetGradient(adapted->pipeline, Factor(w, "lora_B", name), db));
  RengaCall(RengaPipelineGetGradient(merged->pipeline, weights[w].weight, dw));
  for (int k = 0; k < RANK; k++)
    for (int i = 0; i < WIDTH; i++) {
      double wanted = 0;
      for (int o = 0; o < weights[w].outputs; o++)
        wanted += scale * (double)b[o * RANK + k] * (double)dw[PlaceInWeight(w, o, i)];
      largest = fmax(largest, fabs(wanted));
      Expect(IsNear((double)da[k * WIDTH + i], wanted));
    }
  for (int o = 0; o < weights[w].outputs; o++)
    for (int k = 0; k < RANK; k++) {
      double wanted = 0;
      for (int i = 0; i < WIDTH; i++)
        wanted += scale * (double)a[k * WIDTH + i] * (double)dw[PlaceInWeight(w, o, i)];
      Expect(IsNear((double)db[o * RANK + k], wanted));
    }
  Expect(largest > 1e-3);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFormula(RengaComm self)
{
  float a[WEIGHTS][MOST], b[WEIGHTS][MOST];
  Run run = base;
  Made adapted, merged;
  Result with, without;
  run.steps = 1;
  run.build = BuildAdapted;
  RengaCall(Make(self, &run, &adapted));
  RengaCall(SetFactors(adapted.pipeline, a, b));
  RengaCall(RunSteps(&run, adapted.graph, adapted.pipeline, &with));
  run.build = BuildPlain;
  RengaCall(Make(self, &run, &merged));
  RengaCall(MergeFactors(merged.pipeline, a, b));
  RengaCall(RunSteps(&run, merged.graph, merged.pipeline, &without));
  Expect(IsNear(with.loss[0], without.loss[0]));
  for (int w = 0; w < WEIGHTS; w++) RengaCall(CompareFactors(&adapted, &merged, w, a[w], b[w]));
  RengaCall(Unmake(&adapted));
  RengaCall(Unmake(&merged));
  return RENGA_SUCCESS;
}

/* ---- what is frozen ---- */
enum { PARAMETERS = 16 };
typedef struct {
  int count;
  char name[PARAMETERS][64];
  bool frozen[PARAMETERS];
  float before[PARAMETERS][MOST], after[PARAMETERS][MOST];
  float gradient[PARAMETERS][MOST]; /* of the last step */
  Result result;
} Trained;

static RengaErrorCode KeepValues(const Made *made, Trained *trained, float value[][MOST])
{
  const RengaPipelineParameter *list;
  RengaCall(RengaPipelineListParameters(made->pipeline, &trained->count, &list));
  Expect(trained->count <= PARAMETERS);
  for (int p = 0; p < trained->count; p++) {
    Expect(RengaTensorSpecCount(&list[p].spec) <= MOST);
    snprintf(trained->name[p], sizeof trained->name[p], "%s", list[p].name);
    trained->frozen[p] = list[p].frozen;
    RengaCall(RengaPipelineGetParameter(made->pipeline, list[p].name, 0, value[p]));
  }
  return RENGA_SUCCESS;
}

/* Of parameters that are not frozen each rank lists the moments that it has, of others none. */
static RengaErrorCode CheckMoments(const Made *made, const Trained *trained)
{
  const RengaPersistent *tensor;
  int count;
  RengaCall(RengaPipelineGetPersistents(made->pipeline, &count, &tensor));
  for (int t = 0; t < count; t++) {
    const char *colon = strchr(tensor[t].name, ':');
    if (!colon) continue;
    for (int p = 0; p < trained->count; p++) {
      const bool its = strlen(trained->name[p]) == (size_t)(colon - tensor[t].name) &&
                       !strncmp(trained->name[p], tensor[t].name, strlen(trained->name[p]));
      Expect(!its || !trained->frozen[p]);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaComm comm, const Run *run, Trained *trained)
{
  Made made;
  memset(trained, 0, sizeof *trained);
  RengaCall(Make(comm, run, &made));
  RengaCall(KeepValues(&made, trained, trained->before));
  RengaCall(CheckMoments(&made, trained));
  RengaCall(RunSteps(run, made.graph, made.pipeline, &trained->result));
  RengaCall(KeepValues(&made, trained, trained->after));
  for (int p = 0; p < trained->count; p++) {
    if (!trained->frozen[p]) {
      RengaCall(RengaPipelineGetGradient(made.pipeline, trained->name[p], trained->gradient[p]));
      continue;
    }
    ExpectError(RengaPipelineGetGradient(made.pipeline, trained->name[p], trained->gradient[p]),
                RENGA_ERR_ARGUMENT,
                RengaCommGetRank(comm) == 0 ? "no such parameter, frozen, or no step yet" : "");
  }
  RengaCall(Unmake(&made));
  return RENGA_SUCCESS;
}

/* On rank 0, which has the values. One step: later ones have other parameters. */
static RengaErrorCode CompareTrained(const Trained *all, const Trained *some)
{
  int frozen = 0;
  Expect(some->count == all->count);
  for (int p = 0; p < some->count; p++) {
    const bool same = !memcmp(some->before[p], some->after[p], sizeof some->before[p]);
    Expect(same == some->frozen[p] && !all->frozen[p]);
    Expect(!memcmp(some->before[p], all->before[p], sizeof some->before[p]));
    frozen += some->frozen[p];
    if (!some->frozen[p])
      Expect(!memcmp(some->gradient[p], all->gradient[p], sizeof some->gradient[p]));
  }
  Expect(frozen > 0 && frozen < some->count);
  Expect(some->result.loss[0] == all->result.loss[0] && some->result.norm[0] < all->result.norm[0]);
  Expect(some->result.memory.optimizer < all->result.memory.optimizer);
  Expect(some->result.memory.gradients < all->result.memory.gradients);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFrozen(RengaComm comm, RengaComm self)
{
  RengaErrorCode (*const builds[])(RengaGraph graph) = {BuildFrozen, BuildFrozenWeights};
  static Trained all, some, apart;
  Run run = base;
  run.steps = 1;
  run.clip_norm = 0;
  run.build = BuildPlain;
  RengaCall(Train(self, &run, &all));
  for (int i = 0; i < 2; i++) {
    run.build = builds[i];
    run.stages = run.replicas = 1;
    RengaCall(Train(self, &run, &some));
    RengaCall(CompareTrained(&all, &some));
    if (RengaCommGetSize(comm) < 4) continue;
    run.stages = run.replicas = 2;
    RengaCall(Train(comm, &run, &apart));
    if (RengaCommGetRank(comm) == 0)
      Expect(!memcmp(some.gradient, apart.gradient, sizeof some.gradient) &&
             !memcmp(some.after, apart.after, sizeof some.after));
  }
  return RENGA_SUCCESS;
}

/* ---- layouts ---- */
static RengaErrorCode CheckLayouts(RengaComm comm, RengaComm self)
{
  static const struct {
    int stages, replicas;
    unsigned recompute, shard;
    RengaShard level;
    const char *schedule;
  } layouts[] = {
      {2, 2, 0, 0, RENGA_SHARD_NOTHING, "1f1b"},   {4, 1, 15, 0, RENGA_SHARD_NOTHING, "1f1b"},
      {4, 1, 0, 0, RENGA_SHARD_NOTHING, "zb-h2"},  {1, 4, 0, 1, RENGA_SHARD_OPTIMIZER, "gpipe"},
      {2, 2, 0, 3, RENGA_SHARD_GRADIENTS, "1f1b"}, {1, 4, 1, 1, RENGA_SHARD_PARAMETERS, "gpipe"}};
  RengaErrorCode (*const builds[])(RengaGraph graph) = {BuildAdapted, BuildFrozenWeights, BuildGpt};
  for (int i = 0; i < 3; i++) {
    Run run = base;
    Result alone, result;
    run.build = builds[i];
    if (run.build == BuildGpt) run.classes = 16;
    RengaCall(RunAlone(self, &run, &alone));
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0] && RengaCommGetSize(comm) == 4; k++) {
      run.stages = layouts[k].stages;
      run.replicas = layouts[k].replicas;
      run.recompute = layouts[k].recompute;
      run.shard = layouts[k].shard;
      run.level = layouts[k].level;
      run.schedule = layouts[k].schedule;
      RengaCall(RunAll(comm, &run, &result));
      RengaCall(RunCompare(&run, &alone, &result));
    }
  }
  return RENGA_SUCCESS;
}

/* ---- folders ---- */
static RengaErrorCode WriteFolder(RengaComm self, RengaPipeline pipeline, const char *folder)
{
  RengaCheckpointExportSettings settings = {.type = RENGA_FLOAT32};
  RengaCheckpoint checkpoint;
  char kept[64], merged[64];
  snprintf(kept, sizeof kept, "%s.kept", folder);
  snprintf(merged, sizeof merged, "%s.merged", folder);
  RengaCall(RengaCheckpointCreate(self, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, pipeline));
  RengaCall(RengaCheckpointSetDirectory(checkpoint, kept));
  RengaCall(RengaCheckpointSetUp(checkpoint));
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaCheckpointExport(self, kept, folder, &settings));
  settings.merged = true;
  RengaCall(RengaCheckpointExport(self, kept, merged, &settings));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadFolder(RengaComm self, RengaPipeline pipeline, const char *folder,
                                 RengaCheckpointInitial *initial)
{
  RengaCheckpoint checkpoint;
  RengaCall(RengaCheckpointCreate(self, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, pipeline));
  const RengaErrorCode code = RengaCheckpointReadAdapter(checkpoint, folder, initial);
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return code;
}

/* Only one of the weights is stored transposed, and it is square. */
static RengaErrorCode CheckMerged(RengaComm self, const char *folder, float a[][MOST],
                                  float b[][MOST])
{
  RengaCheckpointInitial initial;
  RengaCheckpoint checkpoint;
  float wanted[WEIGHTS][MOST], found[MOST];
  char merged[80];
  Run run = base;
  Made made;
  run.build = BuildPlain;
  RengaCall(Make(self, &run, &made));
  RengaCall(MergeFactors(made.pipeline, a, b));
  for (int w = 0; w < WEIGHTS; w++)
    RengaCall(RengaPipelineGetParameter(made.pipeline, weights[w].weight, 0, wanted[w]));
  snprintf(merged, sizeof merged, "%s.merged", folder);
  RengaCall(RengaCheckpointCreate(self, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, made.pipeline));
  RengaCall(RengaCheckpointReadInitial(checkpoint, merged, false, &initial));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  for (int w = 0; w < WEIGHTS; w++) {
    RengaCall(RengaPipelineGetParameter(made.pipeline, weights[w].weight, 0, found));
    for (int i = 0; i < weights[w].outputs * WIDTH; i++)
      Expect(fabs((double)found[i] - (double)wanted[w][i]) <= 1e-6);
  }
  RengaCall(Unmake(&made));
  return RENGA_SUCCESS;
}

/* From a program: one process writes them and reads them. */
static RengaErrorCode CheckFolder(RengaComm comm, RengaComm self)
{
  float a[WEIGHTS][MOST], b[WEIGHTS][MOST], found[MOST];
  RengaCheckpointInitial initial;
  char folder[64], name[64];
  Run run = base;
  Made made;
  if (RengaCommGetRank(comm) > 0) return RENGA_SUCCESS;
  snprintf(folder, sizeof folder, "folder%d", RengaCommGetSize(comm));
  run.build = BuildAdapted;
  RengaCall(Make(self, &run, &made));
  RengaCall(SetFactors(made.pipeline, a, b));
  RengaCall(WriteFolder(self, made.pipeline, folder));
  RengaCall(Unmake(&made));
  RengaCall(Make(self, &run, &made));
  RengaCall(ReadFolder(self, made.pipeline, folder, &initial));
  Expect(initial.step == -1 && initial.taken == 2 * WEIGHTS && initial.network == 2 * WEIGHTS);
  for (int w = 0; w < WEIGHTS; w++) {
    RengaCall(RengaPipelineGetParameter(made.pipeline, Factor(w, "lora_B", name), 0, found));
    Expect(!memcmp(found, b[w], sizeof *found * (size_t)weights[w].outputs * RANK));
  }
  RengaCall(Unmake(&made));
  RengaCall(CheckMerged(self, folder, a, b));
  run.build = BuildPlain;
  RengaCall(Make(self, &run, &made));
  ExpectError(ReadFolder(self, made.pipeline, folder, &initial), RENGA_ERR_OPTION,
              "is an adapter of rank 2, and the network has none");
  RengaCall(Unmake(&made));
  return RENGA_SUCCESS;
}

/* ---- settings ---- */
static RengaErrorCode CheckBeginning(RengaComm self)
{
  Run run = base;
  Result with, without;
  run.steps = 1;
  run.build = BuildAdapted;
  RengaCall(RunAll(self, &run, &with));
  run.build = BuildPlain;
  RengaCall(RunAll(self, &run, &without));
  Expect(with.loss[0] == without.loss[0] && with.validation != without.validation);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMarks(RengaComm self)
{
  RengaGraph graph;
  RengaGraphLora found;
  Run run = base;
  run.build = BuildAdapted;
  RengaCall(RunBuild(self, &run, &graph));
  RengaCall(RengaGraphGetLora(graph, &found));
  Expect(found.rank == RANK && found.alpha == 3 && found.dropout == 0);
  Expect(!strcmp(found.targets, lora.targets));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    const bool factor = strstr(value->name, ".lora_") != NULL;
    Expect(value->frozen == !factor && (value->adapter != RENGA_ADAPTER_NONE) == factor);
    Expect((value->adapter == RENGA_ADAPTER_TRANSPOSED) ==
           (factor && !strncmp(value->name, "shared", 6)));
  }
  ExpectError(RengaGraphSetLora(graph, &lora), RENGA_ERR_ORDER, "call it before RengaGraphSetUp");
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(self, &graph));
  RengaCall(RengaGraphSetLora(graph, &(RengaGraphLora){.rank = 4, .targets = "x"}));
  RengaCall(RengaGraphGetLora(graph, &found));
  Expect(found.alpha == 4);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Refuse(RengaComm self, const RengaGraphLora *wrong, const char *what)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(self, &graph));
  RengaCall(RengaGraphSetLora(graph, wrong));
  RengaCall(RunSkip(graph));
  ExpectError(RengaGraphSetUp(graph), RENGA_ERR_OPTION, what);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm self)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(self, &graph));
  ExpectError(RengaGraphSetLora(graph, &(RengaGraphLora){.rank = -1}), RENGA_ERR_ARGUMENT,
              "adapters of rank -1: must be from 0 to 65536");
  ExpectError(RengaGraphSetLora(graph, &(RengaGraphLora){.rank = 1, .alpha = (double)NAN}),
              RENGA_ERR_ARGUMENT, "adapters with alpha");
  ExpectError(RengaGraphSetLora(graph, &(RengaGraphLora){.rank = 1, .dropout = 1}),
              RENGA_ERR_ARGUMENT, "adapters with a dropout of 1");
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(Refuse(self, &(RengaGraphLora){.rank = 1}, "-graph_lora needs -graph_lora_targets"));
  RengaCall(Refuse(self, &(RengaGraphLora){.targets = "in"},
                   "need -graph_lora: adapters of which rank?"));
  RengaCall(Refuse(self, &(RengaGraphLora){.rank = 1, .targets = "in,inn"},
                   "-graph_lora_targets: \"inn\" fits no parameter of the network"));
  RengaCall(Refuse(self, &(RengaGraphLora){.rank = 1, .targets = "in.bias"},
                   "\"in.bias\" fits in.bias, which has no adapter"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  RengaCall(CheckMarks(self));
  RengaCall(CheckRefusals(self));
  RengaCall(CheckBeginning(self));
  RengaCall(CheckFormula(self));
  RengaCall(CheckFolder(comm, self));
  RengaCall(CheckFrozen(comm, self));
  RengaCall(CheckLayouts(comm, self));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
