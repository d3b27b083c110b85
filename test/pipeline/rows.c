/* TEST ranks: 1 4 timeout: 600 */
/* Tables that are updated by the rows that a step read (-optimizer_sparse lazy): losses, norms,
   parameters and moments have the same bits on any layout, with replicas, shards, recomputation
   and late gradients of parameters; sgd has those of the whole table, and adam with exact; adam is
   Adam on the rows that were read, and nothing else changes. The forecast is what is used. */
#include "../delayed.h"
#include "run.h"

static const int64_t samples[] = {14, 14, 7, 3};

/* Two tables whose rows have one gradient, each read by five numbers of a sample. */
static RengaErrorCode BuildTokens(RengaGraph graph)
{
  const RengaTensorSpec numbers = {.type = RENGA_INT64, .ndim = 2, .dim = {-1, 5}};
  const RengaTensorSpec spec[2] = {{.type = RENGA_FLOAT32, .ndim = 2, .dim = {301, 70}},
                                   {.type = RENGA_FLOAT32, .ndim = 2, .dim = {203, 70}}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 0.4};
  RengaValue ids, places, labels, table[2], row[2], y, loss;
  RengaCall(RengaGraphAddInput(graph, "ids", &numbers, &ids));
  RengaCall(RengaGraphAddInput(graph, "places", &numbers, &places));
  RengaCall(RengaGraphAddInput(graph, "labels", &numbers, &labels));
  RengaCall(RengaGraphAddParameter(graph, "tokens", &spec[0], &init, &table[0]));
  RengaCall(RengaGraphAddParameter(graph, "positions", &spec[1], &init, &table[1]));
  RengaCall(RengaGraphAddEmbedding(graph, table[0], ids, &row[0]));
  RengaCall(RengaGraphAddEmbedding(graph, table[1], places, &row[1]));
  RengaCall(RengaGraphAddAdd(graph, row[0], row[1], &y));
  RengaCall(RengaGraphAddLinear(graph, "in", y, 8, true, 0.4, &y));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", y, &y));
  RengaCall(RengaGraphAddLinear(graph, "out", y, 40, true, 0.4, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(RengaGraphAddCrossEntropy(graph, y, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

#define NCF "ncf:users=61,items=47,factors=6,layers=12-8"
/* Few classes: micro-batches read the same rows. */
static const Run networks[] = {
    {.graph = NCF, .classes = 9, .device = "ref"},
    {.graph = NCF, .classes = 40, .device = "cpu", .leaf = 2, .buckets = 2},
    {.graph = "tokens", .build = BuildTokens, .classes = 40, .device = "cpu", .optimizer = "adam"},
    {.graph = "tokens", .build = BuildTokens, .classes = 40, .device = "ref", .optimizer = "sgd"},
    {.graph = NCF,
     .classes = 20,
     .device = "cpu",
     .leaf = 2,
     .groups = "mf.*:weight_decay=0.1;mlp.user.weight:frozen=yes"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas[4];
  unsigned shard, recompute;
  const char *schedule;
} layouts[] = {{1, {1}, 0, 1, "gpipe"},      {1, {2}, 0, 0, "1f1b"},
               {1, {3}, 1, 0, "1f1b"},       {1, {4}, 0, 1, "1f1b"},
               {2, {2, 2}, 3, 0, "1f1b"},    {2, {1, 3}, 0, 0, "gpipe"},
               {3, {1, 2, 1}, 0, 7, "1f1b"}, {4, {1, 1, 1, 1}, 0, 0, "1f1b"},
               {2, {2, 1}, 0, 0, "at-once"}, {2, {1, 2}, 0, 0, "delayed"}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static Run Begin(const Run *network)
{
  Run run = *network;
  run.batch = 14;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.schedule = "1f1b";
  run.sparse = RENGA_SPARSE_LAZY;
  return run;
}

static RengaErrorCode CheckLayouts(RengaComm self, RengaComm comm, const Run *network)
{
  Result expected, result;
  Run run = Begin(network);
  RengaCall(RunAlone(self, &run, &expected));
  for (int l = 0; l < N_LAYOUTS; l++) {
    if (RunCountRanks(layouts[l].stages, layouts[l].replicas) > RengaCommGetSize(comm)) continue;
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].replicas;
    run.shard = layouts[l].shard;
    run.recompute = layouts[l].recompute;
    run.schedule = layouts[l].schedule;
    run.poison = l % 2 == 1;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
  }
  return RENGA_SUCCESS;
}

/* sgd, which leaves rows without a gradient alone, and adam that updates these, too: parameters are
   those of whole tables, to the bit, and gradients take less memory. A norm is added up in another
   order. */
static RengaErrorCode CheckWhole(RengaComm comm, const Run *network, int64_t leaf, bool exact)
{
  Result sparse, whole;
  Run run = Begin(network);
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm);
  run.optimizer = exact ? "adam" : "sgd";
  if (exact) run.sparse = RENGA_SPARSE_EXACT;
  run.clip_norm = 0;
  run.leaf = leaf;
  run.groups = NULL;
  RengaCall(RunAll(comm, &run, &sparse));
  run.sparse = RENGA_SPARSE_OFF;
  RengaCall(RunAll(comm, &run, &whole));
  for (int i = 0; i < run.steps; i++) {
    Expect(sparse.loss[i] == whole.loss[i]);
    Expect(fabs(sparse.norm[i] - whole.norm[i]) <= 1e-12 * whole.norm[i]);
  }
  Expect(sparse.digest == whole.digest && sparse.validation == whole.validation);
  Expect(strcmp(run.graph, "tokens") != 0 || sparse.memory.gradients < whole.memory.gradients);
  return RENGA_SUCCESS;
}

/* A table that something else reads, too, is updated as a whole: gpt's is its output layer's. */
static RengaErrorCode CheckTied(RengaComm comm)
{
  Result lazy, off;
  Run run = Begin(&networks[0]);
  run.graph = "gpt:layers=1,hidden=8,heads=2,sequence=6,vocabulary=901";
  run.classes = 30;
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm);
  RengaCall(RunAll(comm, &run, &lazy));
  run.sparse = RENGA_SPARSE_OFF;
  RengaCall(RunAll(comm, &run, &off));
  RengaCall(RunCompare(&run, &off, &lazy));
  Expect(lazy.memory.gradients == off.memory.gradients);
  return RENGA_SUCCESS;
}

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  float *parameter, *first, *second, *gradient, *before;
  bool *read; /* [rows] */
} Reference;

enum { ROWS = 301, WIDTH = 70, COUNT = ROWS * WIDTH };

static RengaErrorCode OpenReference(RengaComm comm, const Run *run, Reference *r)
{
  float **const vectors[] = {&r->parameter, &r->first, &r->second, &r->gradient, &r->before};
  *r = (Reference){0};
  RengaCall(RunBuild(comm, run, &r->graph));
  RengaCall(RunPlan(comm, run, r->graph, &r->plan));
  RengaCall(RunPipeline(comm, run, r->graph, r->plan, &r->pipeline));
  for (int v = 0; v < 5; v++) RengaCall(RengaMalloc(COUNT, vectors[v]));
  RengaCall(RengaMalloc(ROWS, &r->read));
  RengaCall(RengaPipelineGetParameter(r->pipeline, "tokens", 0, r->parameter));
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseReference(Reference *r)
{
  RengaCall(RengaPipelineDestroy(&r->pipeline));
  RengaCall(RengaPlanDestroy(&r->plan));
  RengaCall(RengaGraphDestroy(&r->graph));
  float **const vectors[] = {&r->parameter, &r->first, &r->second, &r->gradient, &r->before};
  for (int v = 0; v < 5; v++) RengaFree(vectors[v]);
  RengaFree(&r->read);
  return RENGA_SUCCESS;
}

/* Which rows the step reads. */
static RengaErrorCode MarkRead(Reference *r, Source *source, int64_t count)
{
  int64_t ids[14 * 5];
  RengaCall(RunRead(source, 0, 0, count, ids));
  memset(r->read, 0, ROWS * sizeof *r->read);
  for (int64_t i = 0; i < count * 5; i++) r->read[ids[i]] = true;
  return RENGA_SUCCESS;
}

/* Adam with its corrections by the number of the step, on rows that were read. */
static void UpdateReference(Reference *r, int64_t step)
{
  const double rate = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  for (int i = 0; i < COUNT; i++) {
    if (!r->read[i / WIDTH]) continue;
    const double g = r->gradient[i];
    const double m = beta1 * r->first[i] + (1 - beta1) * g;
    const double v = beta2 * r->second[i] + (1 - beta2) * g * g;
    const double mean = m / (1 - pow(beta1, (double)step));
    const double root = sqrt(v / (1 - pow(beta2, (double)step)));
    r->parameter[i] = (float)(r->parameter[i] - rate * mean / (root + epsilon));
    r->first[i] = (float)m;
    r->second[i] = (float)v;
  }
}

/* got: of the pipeline; rows that were not read keep their bits. */
static RengaErrorCode CompareReference(RengaComm comm, Reference *r, const char *name,
                                       const float expected[], const float before[])
{
  float *got;
  RengaCall(RengaMalloc(COUNT, &got));
  RengaCall(RengaPipelineGetParameter(r->pipeline, name, 0, got));
  for (int i = 0; RengaCommGetRank(comm) == 0 && i < COUNT; i++) {
    if (!r->read[i / WIDTH] && before) Expect(got[i] == before[i]);
    RengaCheck(fabs((double)got[i] - expected[i]) <= 1e-6 * fabs((double)expected[i]) + 1e-7,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s[%d] is %.9g, not %.9g", name, i,
               (double)got[i], (double)expected[i]);
  }
  RengaFree(&got);
  return RENGA_SUCCESS;
}

static RengaErrorCode StepReference(RengaComm comm, Reference *r, Source *source, int i)
{
  const RengaBatch batch = {samples[i], RunRead, source};
  double loss;
  RengaCall(MarkRead(r, source, samples[i]));
  RengaCall(RengaPipelineGetParameter(r->pipeline, "tokens", 0, r->before));
  RengaCall(RengaPipelineStep(r->pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetGradient(r->pipeline, "tokens", r->gradient));
  for (int k = 0; k < COUNT; k++)
    Expect(r->read[k / WIDTH] || r->gradient[k] == 0 || RengaCommGetRank(comm) > 0);
  UpdateReference(r, i + 1);
  RengaCall(CompareReference(comm, r, "tokens", r->parameter, r->before));
  RengaCall(CompareReference(comm, r, "tokens:first_moment", r->first, NULL));
  RengaCall(CompareReference(comm, r, "tokens:second_moment", r->second, NULL));
  return RENGA_SUCCESS;
}

/* After set-up the optimizer may not be told otherwise, but for as long as no step is made. */
static RengaErrorCode CheckChange(RengaComm comm, Reference *r, Source *source)
{
  const RengaBatch batch = {samples[0], RunRead, source};
  RengaOptimizer optimizer;
  double loss;
  RengaCall(RengaPipelineGetOptimizer(r->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetSparse(optimizer, RENGA_SPARSE_OFF));
  ExpectError(RengaPipelineStep(r->pipeline, &batch, &loss), RENGA_ERR_ORDER,
              RengaCommGetRank(comm) == 0 ? "-optimizer_sparse is off now" : "");
  RengaCall(RengaOptimizerSetSparse(optimizer, RENGA_SPARSE_LAZY));
  RengaCall(RengaPipelineStep(r->pipeline, &batch, &loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRowCounts(RengaPipeline pipeline)
{
  int64_t rows;
  RengaCall(RengaPipelineGetRows(pipeline, "tokens", &rows));
  Expect(rows == 14 * 5);
  RengaCall(RengaPipelineGetRows(pipeline, "in.weight", &rows));
  Expect(rows == 0);
  ExpectError(RengaPipelineGetRows(pipeline, "labels", &rows), RENGA_ERR_ARGUMENT, "labels");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckReference(RengaComm comm, const char *device)
{
  Reference r;
  Run run = Begin(&networks[2]);
  run.device = device;
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm);
  run.clip_norm = 0;
  RengaCall(OpenReference(comm, &run, &r));
  Source source = {.graph = r.graph, .classes = run.classes};
  RengaCall(CheckRowCounts(r.pipeline));
  for (int i = 0; i < run.steps; i++) {
    source.step = i;
    RengaCall(StepReference(comm, &r, &source, i));
  }
  RengaCall(CheckChange(comm, &r, &source));
  RengaCall(CloseReference(&r));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildBrain(RengaGraph graph)
{
  RengaCall(BuildTokens(graph));
  RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_BF16, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpLazy(RengaComm comm, Run run)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunConfigure(comm, &run, graph, plan, &pipeline));
  const RengaErrorCode code = RengaPipelineSetUp(pipeline);
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm self)
{
  RengaOptimizer optimizer;
  RengaSparse sparse;
  Run run = Begin(&networks[2]);
  run.stages = run.replicas = 1;
  run.build = BuildBrain;
  ExpectError(SetUpLazy(self, run), RENGA_ERR_SUPPORT, "-optimizer_sparse lazy", "bf16", "off");
  RengaCall(RengaOptimizerCreate(self, &optimizer));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  Expect(sparse == RENGA_SPARSE_OFF);
  ExpectError(RengaOptimizerSetSparse(optimizer, (RengaSparse)3), RENGA_ERR_ARGUMENT,
              "3 is no RengaSparse");
  RengaCall(RengaOptimizerSetSparse(optimizer, RENGA_SPARSE_LAZY));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  Expect(sparse == RENGA_SPARSE_LAZY);
  RengaCall(RengaOptimizerDestroy(&optimizer));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckLayouts(self, comm, &networks[n]));
  /* seven micro-batches make three leaves of three */
  for (int64_t leaf = 1; leaf <= (RengaCommGetSize(comm) > 3 ? 2 : 3); leaf++) {
    for (int exact = 0; exact < 2; exact++) {
      RengaCall(CheckWhole(comm, &networks[0], leaf, exact == 1));
      RengaCall(CheckWhole(comm, &networks[2], leaf, exact == 1));
    }
  }
  RengaCall(CheckTied(comm));
  RengaCall(CheckReference(comm, "ref"));
  RengaCall(CheckReference(comm, "cpu"));
  RengaCall(CheckRefusals(self));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

/* Schedules whose backwards are in two parts. */
int main(int argc, char *argv[])
{
  RengaCallAbort(RegisterDelayed());
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  RengaCallAbort(RengaFinalize());
  return 0;
}
