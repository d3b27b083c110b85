/* TEST ranks: 1 4 */
/* Losses of single samples: the same bits in every layout and in an evaluation of the same
   parameters; their mean is the loss of the batch; asking for them changes no parameter; losses
   that have none are refused by name. */
#include "run.h"

enum { BATCH = 7, MICROBATCH = 2, STEPS = 3, LONGEST = 64 };
static const int64_t samples[] = {7, 7, 3};

static const struct {
  const char *graph;
  int64_t classes, columns;
} networks[] = {
    {"mlp:sizes=6-16-12-8-5", 5, 2},
    {"skip", 4, 2},
    {"gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11", 11, 1},
    {"ncf:users=9,items=9,factors=4,layers=16-8-4", 9, 1},
    {"mlp:sizes=6-16-2", 2, 2},
};

typedef enum { NOTHING, LOSSES, NORMS } Asks;

static RengaErrorCode MakeGraph(RengaComm comm, const char *what, Asks asks, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetSampleLosses(*graph, asks != NOTHING));
  RengaCall(RengaGraphSetSampleNorms(*graph, asks == NORMS));
  if (strcmp(what, "skip") == 0)
    RengaCall(RunSkip(*graph));
  else
    RengaCall(RengaGraphLoad(*graph, what));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* What a run said of its samples. */
typedef struct {
  double loss[STEPS], value[STEPS][LONGEST];
  int64_t columns;
  uint64_t digest;
} Said;

/* An evaluation of the samples that the next step will take: the same numbers. */
static RengaErrorCode EvaluateFirst(RengaGraph graph, RengaPipeline pipeline,
                                    const RengaBatch *batch, float values[])
{
  RengaValue value;
  RengaCall(RengaGraphGetSampleLosses(graph, &value));
  RengaCall(RengaPipelineForwardTo(pipeline, batch, RengaGraphGetValue(graph, value)->name,
                                   RENGA_TO_ALL, values));
  return RENGA_SUCCESS;
}

static RengaErrorCode StepSaid(RengaPipeline pipeline, RengaGraph graph, Source *source, int step,
                               Asks asks, Said *said)
{
  const RengaBatch batch = {samples[step], RunRead, source};
  const double *values;
  int64_t count;
  float before[LONGEST];
  source->step = step;
  if (asks) RengaCall(EvaluateFirst(graph, pipeline, &batch, before));
  RengaCall(RengaPipelineStep(pipeline, &batch, &said->loss[step]));
  if (!asks) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetSampleLosses(pipeline, &count, &said->columns, &values));
  Expect(count == samples[step]);
  memcpy(said->value[step], values, (size_t)(count * said->columns) * sizeof *values);
  for (int64_t i = 0; i < count * said->columns; i++) Expect(values[i] == (double)before[i]);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSaid(RengaComm comm, int n, int stages, int replicas, Asks asks,
                              Said *said)
{
  const Run run = {.graph = networks[n].graph,
                   .batch = BATCH,
                   .microbatch = MICROBATCH,
                   .steps = STEPS,
                   .samples = samples,
                   .stages = stages,
                   .replicas = replicas,
                   .poison = true};
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  memset(said, 0, sizeof *said);
  RengaCall(MakeGraph(comm, run.graph, asks, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  Source source = {.graph = graph, .classes = networks[n].classes};
  for (int s = 0; s < STEPS; s++) RengaCall(StepSaid(pipeline, graph, &source, s, asks, said));
  RengaCall(RengaPipelineGetDigest(pipeline, &said->digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* One label for each sample: the mean of the losses is the loss. The seventh sample of a step has
   a label that does not count. */
static RengaErrorCode CheckMean(const Said *said, bool skips)
{
  for (int s = 0; s < STEPS; s++) {
    double sum = 0;
    const int64_t counted = samples[s] - (skips && samples[s] == 7);
    for (int64_t i = 0; i < samples[s]; i++) sum += said->value[s][i * said->columns];
    Expect(fabs(sum / (double)counted - said->loss[s]) < 1e-5);
    for (int64_t i = 0; i < counted && said->columns == 2; i++) {
      const double sure = said->value[s][2 * i + 1], loss = said->value[s][2 * i];
      Expect(fabs(sure) <= 1.00001 && fabs(sure) > 0.1);
      Expect(sure < 0 ? exp(-loss) <= -sure : fabs(exp(-loss) - sure) < 1e-5);
    }
    if (skips && samples[s] == 7) Expect(said->value[s][6 * said->columns] == 0);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSaid(RengaComm self, RengaComm comm, int n)
{
  static Said expected, found;
  const int ranks = RengaCommGetSize(comm);
  RengaCall(RunSaid(self, n, 1, 1, LOSSES, &expected));
  Expect(expected.columns == networks[n].columns);
  if (expected.columns == 2 || strncmp(networks[n].graph, "ncf", 3) == 0)
    RengaCall(CheckMean(&expected, expected.columns == 2));
  RengaCall(RunSaid(self, n, 1, 1, NOTHING, &found));
  Expect(found.digest == expected.digest); /* asking changes nothing */
  for (int stages = 1; stages <= ranks; stages++)
    for (int replicas = 1; stages * replicas <= ranks; replicas++) {
      RengaCall(RunSaid(comm, n, stages, replicas, LOSSES, &found));
      Expect(memcmp(&found, &expected, sizeof found) == 0);
    }
  return RENGA_SUCCESS;
}

/* Of two classes the gradient of the scores is p - 1 and 1 - p, where p = exp(-loss). */
static RengaErrorCode CheckNorms(RengaComm self, RengaComm comm, int n)
{
  static Said losses, norms, found;
  const int ranks = RengaCommGetSize(comm);
  RengaCall(RunSaid(self, n, 1, 1, LOSSES, &losses));
  RengaCall(RunSaid(self, n, 1, 1, NORMS, &norms));
  Expect(losses.digest == norms.digest && losses.columns == norms.columns);
  for (int s = 0; s < STEPS; s++)
    for (int64_t i = 0; i < samples[s]; i++) {
      const double loss = losses.value[s][i * losses.columns];
      const double norm = norms.value[s][i * losses.columns];
      if (networks[n].classes == 2) Expect(fabs(norm - sqrt(2) * (1 - exp(-loss))) < 1e-5);
      Expect(norm < sqrt(2) && (norm > 0.01 || loss == 0));
      for (int64_t c = 1; c < losses.columns; c++)
        Expect(losses.value[s][i * losses.columns + c] == norms.value[s][i * losses.columns + c]);
    }
  for (int stages = 1; stages <= ranks; stages++) {
    RengaCall(RunSaid(comm, n, stages, ranks / stages, NORMS, &found));
    Expect(memcmp(&found, &norms, sizeof found) == 0);
  }
  return RENGA_SUCCESS;
}

/* A network whose loss is made by the function. */
static RengaErrorCode Refused(RengaComm comm, const char *what, Asks asks, const char *sentence)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetSampleLosses(graph, true));
  RengaCall(RengaGraphSetSampleNorms(graph, asks == NORMS));
  RengaCall(RengaGraphLoad(graph, what));
  ExpectError(RengaGraphSetUp(graph), RENGA_ERR_SUPPORT, sentence);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm self)
{
  RengaGraph graph;
  RengaValue value;
  RengaCall(Refused(self, "bert:layers=1,hidden=8,heads=2,sequence=4,vocabulary=11,next_sentence=1",
                    LOSSES, "a loss of 2 sums over the samples"));
  RengaCall(Refused(self, "ncf:users=9,items=9,factors=4,layers=16-8-4", NORMS,
                    "supported for a cross-entropy and a sum of squares; the loss is a ReduceSum"));
  RengaCall(MakeGraph(self, "skip", NOTHING, &graph));
  RengaCall(RengaGraphGetSampleLosses(graph, &value));
  Expect(value == RENGA_VALUE_NONE);
  ExpectError(RengaGraphSetSampleLosses(graph, true), RENGA_ERR_ORDER, "set up already");
  ExpectError(RengaGraphSetSampleNorms(graph, true), RENGA_ERR_ORDER, "set up already");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Before the first step, and of a network that was not asked. */
static RengaErrorCode CheckOrder(RengaComm self)
{
  static const char *const sentences[] = {"call RengaGraphSetSampleLosses", "before the first"};
  const Run run = {.graph = "skip",
                   .batch = BATCH,
                   .microbatch = MICROBATCH,
                   .steps = 1,
                   .samples = samples,
                   .stages = 1,
                   .replicas = 1};
  for (int asks = 0; asks < 2; asks++) {
    RengaGraph graph;
    RengaPlan plan;
    RengaPipeline pipeline;
    const double *values;
    int64_t count, columns;
    RengaCall(MakeGraph(self, "skip", asks ? LOSSES : NOTHING, &graph));
    RengaCall(RunPlan(self, &run, graph, &plan));
    RengaCall(RunPipeline(self, &run, graph, plan, &pipeline));
    ExpectError(RengaPipelineGetSampleLosses(pipeline, &count, &columns, &values), RENGA_ERR_ORDER,
                sentences[asks]);
    RengaCall(RengaPipelineDestroy(&pipeline));
    RengaCall(RengaPlanDestroy(&plan));
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    RengaCall(CheckSaid(self, comm, (int)n));
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    if (strncmp(networks[n].graph, "ncf", 3) != 0) RengaCall(CheckNorms(self, comm, (int)n));
  RengaCall(CheckRefusals(self));
  RengaCall(CheckOrder(self));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
