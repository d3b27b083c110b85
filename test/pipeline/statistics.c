/* TEST ranks: 1 2 */
/* Running statistics of BatchNormalization: the mean, and the unbiased variance of each
   micro-batch, also of a short one, with replicas and with stages, as PyTorch has them where the
   micro-batch is its batch. A channel of one value is an error of every rank. */
#include "renga/private/plan.h"
#include "run.h"

enum { CHANNELS = 3, IMAGE = 6 };

/* x, normalised over [N, channels] or over [N, channels, 6, 6]. */
static RengaErrorCode Build(RengaGraph graph, bool image)
{
  const RengaTensorSpec flat = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, CHANNELS}};
  const RengaTensorSpec rows = {
      .type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, CHANNELS, IMAGE, IMAGE}};
  const RengaTensorSpec labels_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  const int64_t width = image ? CHANNELS * IMAGE * IMAGE : CHANNELS;
  RengaValue x, labels, loss;
  RengaCall(RengaGraphAddInput(graph, "x", image ? &rows : &flat, &x));
  RengaCall(RengaGraphAddBatchNormalization(graph, "norm", x, 1e-5, 0.75, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  if (image) RengaCall(RengaGraphAddReshape(graph, x, 2, (const int64_t[]){-1, width}, &x));
  RengaCall(RengaGraphAddLinear(graph, "out", x, 2, true, 0.4, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &labels_spec, &labels));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildFlat(RengaGraph graph)
{
  RengaCall(Build(graph, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildImage(RengaGraph graph)
{
  RengaCall(Build(graph, true));
  return RENGA_SUCCESS;
}

/* Of samples [first, last): by two passes in double. */
static RengaErrorCode AddMicrobatch(Source *source, int64_t plane, int64_t first, int64_t last,
                                    double mean[], double variance[])
{
  float *x = NULL;
  const int64_t count = (last - first) * plane;
  RengaCall(RengaMalloc((last - first) * CHANNELS * plane, &x));
  RengaCall(RunRead(source, 0, first, last - first, x));
  for (int64_t c = 0; c < CHANNELS; c++) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += x[(i / plane * CHANNELS + c) * plane + i % plane];
    for (int64_t i = 0; i < count; i++) {
      const double off = x[(i / plane * CHANNELS + c) * plane + i % plane] - sum / (double)count;
      squares += off * off;
    }
    mean[c] = 0.75 * mean[c] + 0.25 * sum / (double)count;
    variance[c] = 0.75 * variance[c] + 0.25 * squares / (double)(count - 1);
  }
  RengaFree(&x);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckStates(RengaPipeline pipeline, Source *source, const Run *run)
{
  const int64_t plane = run->build == BuildImage ? IMAGE * IMAGE : 1;
  double mean[CHANNELS] = {0}, variance[CHANNELS] = {1, 1, 1};
  float found[2][CHANNELS];
  for (int64_t first = 0; first < run->batch; first += run->microbatch) {
    const int64_t end = first + run->microbatch;
    RengaCall(
        AddMicrobatch(source, plane, first, end < run->batch ? end : run->batch, mean, variance));
  }
  RengaCall(RengaPipelineGetParameter(pipeline, "norm.running_mean", RENGA_TO_ALL, found[0]));
  RengaCall(RengaPipelineGetParameter(pipeline, "norm.running_var", RENGA_TO_ALL, found[1]));
  for (int c = 0; c < CHANNELS; c++)
    Expect(fabs(found[0][c] - mean[c]) < 1e-5 && fabs(found[1][c] - variance[c]) < 1e-5);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRun(RengaComm comm, const Run *run, bool wrong)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  double loss;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(run->build(graph));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  if (!wrong) RengaCall(RengaPlanCheckStatistics(plan, graph, run->batch));
  Source source = {.graph = graph, .classes = 2};
  const RengaBatch batch = {run->batch, RunRead, &source};
  if (wrong)
    ExpectError(RengaPipelineStep(pipeline, &batch, &loss), RENGA_ERR_PLAN,
                RengaCommGetRank(comm) ? ""
                                       : "takes the statistics of a channel in training over one "
                                         "value");
  else
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  if (!wrong) RengaCall(CheckStates(pipeline, &source, run));
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, &loss)); /* takes none */
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static const struct {
  RengaErrorCode (*build)(RengaGraph graph);
  int64_t batch, microbatch;
  bool wrong;
} cases[] = {
    {BuildFlat, 6, 6, false},  {BuildFlat, 7, 4, false},  {BuildFlat, 8, 2, false},
    {BuildImage, 3, 1, false}, {BuildImage, 5, 2, false}, {BuildFlat, 4, 1, true},
    {BuildFlat, 5, 2, true},
};

/* What the network says of itself. */
static RengaErrorCode CheckFact(RengaComm comm, RengaErrorCode (*build)(RengaGraph), int64_t wanted)
{
  RengaGraph graph;
  int count, node;
  int64_t values;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(build(graph));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetBatchStatistics(graph, &count, &node, &values));
  Expect(count == 1 && node >= 0 && values == wanted);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int ranks = RengaCommGetSize(comm);
  RengaCall(CheckFact(comm, BuildFlat, 1));
  RengaCall(CheckFact(comm, BuildImage, IMAGE * IMAGE));
  for (int c = 0; c < (int)(sizeof cases / sizeof cases[0]); c++)
    for (int stages = 1; stages <= ranks; stages++) {
      const Run run = {.build = cases[c].build,
                       .batch = cases[c].batch,
                       .microbatch = cases[c].microbatch,
                       .stages = stages,
                       .replicas = ranks / stages};
      RengaCall(CheckRun(comm, &run, cases[c].wrong));
    }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
