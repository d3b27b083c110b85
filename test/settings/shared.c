/* TEST ranks: 1 2 */
/* What a program sets in its objects is what it gets: forecasts of memory follow settings that
   change. */
#include "../pipeline/run.h"

static const Run run = {.graph = "mlp:input=8,hidden=32,layers=3,classes=4",
                        .batch = 64,
                        .microbatch = 8,
                        .stages = 1,
                        .replicas = 1};

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, RengaPlan plan,
                                   const char *optimizer, RengaPipeline *pipeline)
{
  RengaOptimizer made;
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &made));
  RengaCall(RengaOptimizerSetType(made, optimizer));
  return RENGA_SUCCESS;
}

/* One pipeline is asked again and again while its settings change; each answer is that of a fresh
   one. */
static RengaErrorCode CheckForecasts(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  static const char *const optimizers[] = {RENGA_OPTIMIZER_ADAM, RENGA_OPTIMIZER_SGD};
  static const char *const reductions[] = {RENGA_REDUCTION_ORDERED, RENGA_REDUCTION_UNORDERED};
  RengaPipeline pipeline, fresh;
  RengaOptimizer optimizer;
  int64_t total[4];
  RengaCall(MakePipeline(comm, graph, plan, RENGA_OPTIMIZER_ADAM, &pipeline));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  for (int i = 0; i < 4; i++) {
    RengaPipelineMemory again, once;
    RengaCall(RengaOptimizerSetType(optimizer, optimizers[i / 2]));
    RengaCall(RengaPipelineSetReduction(pipeline, reductions[i % 2]));
    RengaCall(RengaPipelineForecastStages(pipeline, &again));
    RengaCall(MakePipeline(comm, graph, plan, optimizers[i / 2], &fresh));
    RengaCall(RengaPipelineSetReduction(fresh, reductions[i % 2]));
    RengaCall(RengaPipelineForecastStages(fresh, &once));
    RengaCall(RengaPipelineDestroy(&fresh));
    Expect(memcmp(&again, &once, sizeof once) == 0);
    Expect((again.optimizer > 0) == (i / 2 == 0));
    total[i] = again.forecast;
  }
  Expect(total[0] > total[1] && total[0] > total[2] && total[1] > total[3]);
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(CheckForecasts(comm, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
