/* TEST ranks: 1 2 4 */
/* Types from outside: an optimizer does what the same rule does inside, cuts are those that were
   asked for, and what cannot be is refused. */
#include "../check.h"
#include "wave.h"
#include <math.h>

enum { SAMPLES = 24, STEPS = 5, MOST_STAGES = 4 };

static int updates;

/* sgd with momentum 0.5, as a rule of the program. */
static RengaErrorCode UpdatePlain(const RengaOptimizerTask *task, void *user)
{
  const double momentum = *(const double *)user;
  updates++;
  for (int64_t i = 0; i < task->count; i++) {
    const double gradient = task->scale * (double)task->gradient[i];
    const double kept = task->step == 0 ? gradient : momentum * task->moment[0][i] + gradient;
    task->moment[0][i] = (float)kept;
    task->parameter[i] -= (float)(task->learning_rate * kept);
  }
  return RENGA_SUCCESS;
}

static int wanted[MOST_STAGES];

static RengaErrorCode CutAsWanted(RengaGraph graph, int stages, int first[], void *user)
{
  (void)graph;
  (void)user;
  for (int s = 0; s < stages; s++) first[s] = wanted[s];
  return RENGA_SUCCESS;
}

static RengaErrorCode TrainBy(RengaComm comm, RengaGraph graph, const char *type, double *loss)
{
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave};
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, SAMPLES, 4));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, type));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.05));
  if (!strcmp(type, RENGA_OPTIMIZER_SGD))
    RengaCall(RengaOptimizerSetMomentum(optimizer, 0.5, false));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int step = 0; step < STEPS; step++) RengaCall(RengaPipelineStep(pipeline, &batch, loss));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOptimizer(RengaComm comm, RengaGraph graph)
{
  double inside, outside;
  RengaCall(TrainBy(comm, graph, RENGA_OPTIMIZER_SGD, &inside));
  Expect(updates == 0);
  RengaCall(TrainBy(comm, graph, "plain", &outside));
  Expect(updates > 0 && fabs(inside - outside) < 1e-6);
  return RENGA_SUCCESS;
}

/* Two stages for each rank, cut by the rule too. */
static RengaErrorCode TestChunks(RengaPartition partition, int size)
{
  RengaSettings settings;
  RengaPlan plan;
  if (2 * size > MOST_STAGES) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsSetChunks(settings, 2));
  for (int s = 0; s < 2 * size; s++) wanted[s] = s;
  RengaCall(RengaPartitionSolve(partition, &plan));
  Expect(RengaPlanGetStageCount(plan) == 2 * size && RengaPlanGetRankCount(plan) == size);
  for (int s = 0; s < 2 * size; s++) {
    Expect(RengaPlanGetStage(plan, s)->first == s && RengaPlanGetRank(plan, s, 0) == s % size);
    Expect(RengaPlanGetStage(plan, s)->shape.chunks == 2);
  }
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaSettingsSetChunks(settings, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestPartition(RengaComm comm, RengaGraph graph)
{
  const int nodes = RengaGraphGetNodeCount(graph), size = RengaCommGetSize(comm);
  const char *type;
  RengaPartition partition;
  RengaPlan plan = NULL;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetType(partition, "wanted"));
  RengaCall(RengaPartitionGetType(partition, &type));
  Expect(!strcmp(type, "wanted"));
  RengaCall(RengaPartitionSetStages(partition, size));
  for (int s = 0; s < size; s++) wanted[s] = s;
  RengaCall(RengaPartitionSolve(partition, &plan));
  for (int s = 0; s < size; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    Expect(stage->first == s && stage->last == (s + 1 < size ? s + 1 : nodes));
  }
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(TestChunks(partition, size));
  wanted[size - 1] = size > 1 ? nodes : 1;
  const char *said = RengaCommGetRank(comm) ? "" : "partition type wanted: stage";
  ExpectError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN, said);
  Expect(plan == NULL);
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(void)
{
  static const RengaOptimizerRule taken = {.name = "adam", .update = UpdatePlain};
  static const RengaOptimizerRule other = {.name = "plain", .update = UpdatePlain};
  static const RengaOptimizerRule nothing = {.name = "idle"};
  static const RengaPartitionRule same = {.name = "even", .cut = CutAsWanted};
  static const RengaPartitionRule spaced = {.name = "a b", .cut = CutAsWanted};
  ExpectError(RengaOptimizerRegister(&taken), RENGA_ERR_ARGUMENT, "has a type adam already");
  ExpectError(RengaOptimizerRegister(&other), RENGA_ERR_ARGUMENT, "another type plain already");
  ExpectError(RengaOptimizerRegister(&nothing), RENGA_ERR_ARGUMENT, "idle needs an update");
  ExpectError(RengaPartitionRegister(&same), RENGA_ERR_ARGUMENT, "has a type even already");
  ExpectError(RengaPartitionRegister(&spaced), RENGA_ERR_ARGUMENT, "without spaces");
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTypes(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-16-16-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(TestOptimizer(comm, graph));
  RengaCall(TestPartition(comm, graph));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  static const char *const moments[] = {"momentum"};
  static double momentum = 0.5;
  static const RengaOptimizerRule plain = {.name = "plain",
                                           .n_moments = 1,
                                           .moment_names = moments,
                                           .update = UpdatePlain,
                                           .user = &momentum};
  static const RengaPartitionRule cuts = {.name = "wanted", .cut = CutAsWanted};
  (void)argc;
  RengaCallAbort(RengaOptimizerRegister(&plain));
  RengaCallAbort(RengaOptimizerRegister(&plain)); /* again is as good as once */
  RengaCallAbort(RengaPartitionRegister(&cuts));
  RengaCallAbort(TestRefused());
  char *words[] = {argv[0], (char[]){"-optimizer_type"}, (char[]){"plain"}, NULL};
  char **given = words;
  int n_words = 3;
  RengaCallAbort(RengaInitialize(&n_words, &given, NULL)); /* the option knows it */
  RengaCallAbort(TestTypes());
  RengaCallAbort(RengaFinalize());
  return 0;
}
