/* TEST ranks: 1 */
/* What crosses between stages: straight forward, back along the chain, nothing that is prepared. */
#include "network.h"

static void CheckRow(const RengaMessage *row, const char *value, int from, int to, bool backward,
                     int64_t bytes)
{
  TestTrue(!strcmp(row->value, value) && row->from == from && row->to == to);
  TestTrue(row->backward == backward && row->bytes == bytes);
}

static const char *OutputName(RengaGraph graph, int node)
{
  return RengaGraphGetValue(graph, RengaGraphGetNode(graph, node)->out[0])->name;
}

static RengaPlan MakePlan(RengaComm comm, RengaGraph graph, int count, const int firsts[])
{
  RengaPlan plan;
  RengaPlanStage stages[8] = {0};
  for (int s = 0; s < count; s++)
    stages[s] =
        (RengaPlanStage){.first = firsts[s],
                         .last = s + 1 < count ? firsts[s + 1] : RengaGraphGetNodeCount(graph),
                         .shape = RengaStageShapePlain(1)};
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  RengaCallAbort(RengaPlanSetStages(plan, graph, count, stages));
  RengaCallAbort(RengaPlanSetBatch(plan, 12, 3));
  return plan;
}

/* h is used in stages 1 and 2: two messages forward, a chain of two back. */
static void CheckSkip(RengaComm comm)
{
  RengaGraph graph = TestNetwork(comm);
  int h = TestFind(graph, "Relu", 0), k = TestFind(graph, "Relu", 1), count;
  const int firsts[] = {0, TestFind(graph, "Linear", 1), TestFind(graph, "Add", 0)};
  RengaMessage *rows;
  RengaPlan plan = MakePlan(comm, graph, 3, firsts);
  RengaCallAbort(RengaPlanGetMessages(plan, graph, &count, &rows));
  TestTrue(count == 6);
  int64_t bytes = 3 * 16 * 4;
  CheckRow(&rows[0], OutputName(graph, h), 0, 1, false, bytes);
  CheckRow(&rows[1], OutputName(graph, h), 0, 2, false, bytes);
  CheckRow(&rows[2], OutputName(graph, h), 2, 1, true, bytes);
  CheckRow(&rows[3], OutputName(graph, h), 1, 0, true, bytes);
  CheckRow(&rows[4], OutputName(graph, k), 1, 2, false, bytes);
  CheckRow(&rows[5], OutputName(graph, k), 2, 1, true, bytes);
  RengaFree(&rows);
  RengaCallAbort(RengaPlanDestroy(&plan));
  plan = MakePlan(comm, graph, 1, firsts);
  RengaCallAbort(RengaPlanGetMessages(plan, graph, &count, &rows));
  TestTrue(count == 0);
  RengaFree(&rows);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaGraphDestroy(&graph));
}

/* In every cut of a GPT: rows are of activations that are not prepared, and schedules prove. */
static void CheckGpt(RengaComm comm)
{
  RengaGraph graph;
  RengaCallAbort(RengaGraphCreate(comm, &graph));
  RengaCallAbort(RengaGraphLoad(graph, "gpt:layers=2,hidden=16,heads=2,sequence=8,vocabulary=32"));
  RengaCallAbort(RengaGraphSetUp(graph));
  for (int c = 1; c < RengaGraphGetNodeCount(graph); c++) {
    const int firsts[] = {0, c};
    RengaMessage *rows;
    RengaSchedule schedule;
    int count;
    if (TestPrepared(graph, c) || TestPrepared(graph, c - 1)) continue;
    RengaPlan plan = MakePlan(comm, graph, 2, firsts);
    RengaCallAbort(RengaPlanGetMessages(plan, graph, &count, &rows));
    TestTrue(count > 0);
    for (int m = 0; m < count; m++) {
      const RengaGraphValue *value =
          RengaGraphGetValue(graph, RengaGraphFindValue(graph, rows[m].value));
      TestTrue(!value->prepared && value->kind == RENGA_VALUE_ACTIVATION);
      TestTrue(rows[m].from == rows[m].backward && rows[m].to == !rows[m].backward);
    }
    RengaCallAbort(RengaScheduleCreate(comm, &schedule));
    RengaCallAbort(RengaScheduleSetShape(schedule, 2, NULL, 5, count, rows, false));
    RengaCallAbort(RengaScheduleSetUp(schedule));
    RengaCallAbort(RengaScheduleDestroy(&schedule));
    RengaFree(&rows);
    RengaCallAbort(RengaPlanDestroy(&plan));
  }
  RengaCallAbort(RengaGraphDestroy(&graph));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  CheckSkip(comm);
  CheckGpt(comm);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
