/* TEST ranks: 1 2 */
/* The loss of several batches as of one, where samples count differently: labels that are left out,
   a batch of which none counts, several losses with counts of their own, a plain sum. Parts add up
   to the loss of all samples in one batch, in every layout; even batches are found. */
#include "run.h"

enum { MICROBATCH = 2, PARTS = 4, ALL = 11 };
static const int64_t parts[PARTS] = {4, 3, 1, 3};

/* Samples from an offset on; which labels count, by kind. */
typedef enum { ALL_COUNT, SOME_COUNT, NONE_AT_FIRST } Labels;
typedef struct {
  Source source;
  int64_t first;
  Labels labels;
} Part;

static RengaErrorCode ReadPart(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Part *part = user;
  const RengaGraphValue *value = RunField(part->source.graph, field);
  RengaCall(RunRead((void *)&part->source, field, part->first + first, count, buffer));
  if (strncmp(value->name, "labels", 6) != 0) return RENGA_SUCCESS;
  int64_t *labels = buffer;
  for (int64_t i = 0; i < count; i++) {
    const int64_t sample = part->first + first + i;
    const bool other = strcmp(value->name, "labels") != 0;
    const bool out = part->labels != ALL_COUNT && (other ? sample % 2 == 0 : sample % 3 == 1);
    labels[i] = (sample + other) % part->source.classes;
    if (out || (part->labels == NONE_AT_FIRST && sample < parts[0])) labels[i] = -100;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLabelled(RengaGraph graph, const char *name, RengaValue x,
                                  RengaValue *loss)
{
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue labels;
  RengaCall(RengaGraphAddInput(graph, name, &spec, &labels));
  RengaCall(RengaGraphAddLinear(graph, NULL, x, 4, true, 0.4, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddBody(RengaGraph graph, RengaValue *x)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 6}};
  RengaCall(RengaGraphAddInput(graph, "x", &spec, x));
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaGraphAddLinear(graph, NULL, *x, 6, true, 0.4, x));
    RengaCall(RengaGraphAddUnary(graph, "Tanh", *x, x));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddReduced(RengaGraph graph, const char *op, RengaValue x, RengaValue *loss)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddNode(graph, op, NULL, &attributes, 1, &x, 1, NULL, loss));
  RengaAttributesFree(&attributes);
  return RENGA_SUCCESS;
}

static RengaErrorCode OneLoss(RengaGraph graph)
{
  RengaValue x, loss;
  RengaCall(AddBody(graph, &x));
  RengaCall(AddLabelled(graph, "labels", x, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

/* Two counts of labels and one of samples. */
static RengaErrorCode ThreeLosses(RengaGraph graph)
{
  RengaValue x, loss, more;
  RengaCall(AddBody(graph, &x));
  RengaCall(AddLabelled(graph, "labels", x, &loss));
  RengaCall(AddLabelled(graph, "labels of others", x, &more));
  RengaCall(RengaGraphAddAdd(graph, loss, more, &loss));
  RengaCall(AddReduced(graph, "ReduceMean", x, &more));
  RengaCall(RengaGraphAddAdd(graph, loss, more, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlainSum(RengaGraph graph)
{
  RengaValue x, loss;
  RengaCall(AddBody(graph, &x));
  RengaCall(AddReduced(graph, "ReduceSumSquare", x, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static const struct {
  RengaErrorCode (*build)(RengaGraph graph);
  Labels labels;
  bool even;
} cases[] = {
    {OneLoss, ALL_COUNT, true},       {OneLoss, SOME_COUNT, false},
    {OneLoss, NONE_AT_FIRST, false},  {ThreeLosses, ALL_COUNT, true},
    {ThreeLosses, SOME_COUNT, false}, {PlainSum, ALL_COUNT, false},
};

static RengaErrorCode CountAll(RengaPipeline pipeline, Part *part, bool *even)
{
  *even = true;
  part->first = 0;
  for (int p = 0; p < PARTS; part->first += parts[p++]) {
    const RengaBatch batch = {parts[p], ReadPart, part};
    bool same;
    RengaCall(RengaPipelineCount(pipeline, &batch, &same));
    *even = *even && same;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddParts(RengaPipeline pipeline, Part *part, double *sum)
{
  *sum = 0;
  part->first = 0;
  for (int p = 0; p < PARTS; part->first += parts[p++]) {
    const RengaBatch batch = {parts[p], ReadPart, part};
    double loss;
    RengaCall(RengaPipelineEvaluate(pipeline, &batch, &loss));
    *sum += loss;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPipeline(RengaPipeline pipeline, Part *part, bool wanted)
{
  const RengaBatch whole = {ALL, ReadPart, part}, one = {parts[0], ReadPart, part};
  double all, sum, alone, after;
  bool even;
  part->first = 0;
  RengaCall(RengaPipelineEvaluate(pipeline, &whole, &all));
  RengaCall(RengaPipelineEvaluate(pipeline, &one, &alone));
  RengaCall(CountAll(pipeline, part, &even));
  Expect(even == wanted);
  RengaCall(AddParts(pipeline, part, &sum));
  Expect(isfinite(all) && fabs(sum - all) < 1e-6 * fabs(all));
  RengaCall(RengaPipelineForgetCounts(pipeline));
  part->first = 0;
  RengaCall(RengaPipelineEvaluate(pipeline, &one, &after));
  Expect(memcmp(&alone, &after, sizeof alone) == 0);
  Expect(isnan(alone) == (part->labels == NONE_AT_FIRST));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCase(RengaComm comm, int c, int stages, int replicas)
{
  const Run run = {.build = cases[c].build,
                   .batch = ALL,
                   .microbatch = MICROBATCH,
                   .stages = stages,
                   .replicas = replicas,
                   .poison = true};
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  Part part = {.source = {.graph = graph, .classes = 4}, .labels = cases[c].labels};
  RengaCall(CheckPipeline(pipeline, &part, cases[c].even));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int ranks = RengaCommGetSize(comm);
  for (int c = 0; c < (int)(sizeof cases / sizeof cases[0]); c++)
    for (int stages = 1; stages <= ranks; stages *= 2)
      for (int replicas = 1; stages * replicas <= ranks; replicas *= 2)
        RengaCall(CheckCase(comm, c, stages, replicas));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
