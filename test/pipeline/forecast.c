/* TEST ranks: 1 */
/* Stages far larger than this machine are forecast: GPT-3 175B in 96 stages of 8 replicas. */
#include "run.h"

enum { STAGES = 96, REPLICAS = 8, HIDDEN = 12288 };

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPlanStage stage[STAGES] = {{0}};
  RengaPipelineMemory first, middle;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(
      RunGraph(comm, "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=50257", &graph));
  const int nodes = RengaGraphGetNodeCount(graph);
  for (int s = 0; s < STAGES; s++)
    stage[s] = (RengaPlanStage){
        .first = nodes * s / STAGES, .last = nodes * (s + 1) / STAGES, .replicas = REPLICAS};
  RengaCall(RengaPlanCreate(comm, &plan));
  RengaCall(RengaPlanSetStages(plan, graph, STAGES, stage));
  RengaCall(RengaPlanSetBatch(plan, 1536, 1));
  RengaCall(RengaPlanSetSchedule(plan, RENGA_SCHEDULE_1F1B));
  RengaCall(RengaPipelineForecast(graph, plan, 0, &first));
  RengaCall(RengaPipelineForecast(graph, plan, STAGES / 2, &middle));
  /* the table of words, and about a layer: 12 hidden^2 weights; adamw has two moments of each */
  Expect(first.parameters > (int64_t)50257 * HIDDEN * 4);
  Expect(middle.parameters > (int64_t)8 * HIDDEN * HIDDEN * 4);
  Expect(middle.parameters < (int64_t)16 * HIDDEN * HIDDEN * 4);
  Expect(middle.optimizer >= 2 * (middle.parameters - 1000000) && middle.saved > 0);
  Expect(middle.forecast == middle.parameters + middle.gradients + middle.optimizer + middle.saved +
                                middle.temporary + middle.messages + middle.inputs);
  const RengaPlanMemory parts = {middle.parameters, middle.gradients, middle.optimizer,
                                 middle.saved,      middle.temporary, middle.messages,
                                 middle.inputs};
  RengaCall(RengaPlanSetMemoryParts(plan, 1, &parts));
  Expect(RengaPlanGetStage(plan, 1)->memory == middle.forecast);
  Expect(RengaPlanGetStage(plan, 1)->parts.saved == middle.saved);
  ExpectError(RengaPipelineForecast(graph, plan, STAGES, &first), RENGA_ERR_ARGUMENT,
              "stage 96 of a plan of 96 stages");
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
