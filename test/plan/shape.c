/* The shape of a stage: compared, printed, and kept by a file field by field; what is no shape is
   refused by the plan, and what the network has no lanes for by a pipeline. Files of the versions
   before are still read. */
#include "network.h"
#include "renga/private/op.h"
#include "renga/private/plan.h"
#include <unistd.h>

static const char file_name[] = "plan-shape.txt";

/* One field that is not plain, how it is printed, and what a pipeline says of it. */
static const struct {
  RengaStageShape shape;
  const char *printed, *refused;
} rows[] = {
    {{2, 1, 3, RENGA_SHARD_NOTHING, RENGA_SAVED_KEEP, RENGA_PRECISION_FP32, 1},
     "2 replicas, context 3",
     "stage 1 has 1 tensor-parallel and 3 context-parallel ranks, but stage 0 has 1 and 1: all "
     "stages must have as many"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static void CheckWords(void)
{
  char text[128];
  const RengaStageShape plain = RengaStageShapePlain(1);
  RengaStageShape again = plain;
  TestTrue(plain.replicas == 1 && plain.tensor == 1 && plain.sequence == 1 && plain.chunks == 1);
  TestTrue(!plain.shard && !plain.saved && !plain.precision);
  RengaCallAbort(RengaStageShapeFormat(&plain, sizeof text, text));
  TestTrue(!strcmp(text, "1 replica"));
  TestTrue(RengaStageShapeEqual(&plain, &again));
  again.saved = RENGA_SAVED_RECOMPUTE;
  RengaCallAbort(RengaStageShapeFormat(&again, sizeof text, text));
  TestTrue(!strcmp(text, "1 replica, saved recompute"));
  TestTrue(!RengaStageShapeEqual(&plain, &again));
  RengaCallAbort(RengaStageShapeFormat(&again, 6, text));
  TestTrue(!strcmp(text, "1 rep"));
  for (int i = 0; i < N_ROWS; i++) {
    const RengaStageShape two = RengaStageShapePlain(2);
    RengaCallAbort(RengaStageShapeFormat(&rows[i].shape, sizeof text, text));
    TestTrue(!strcmp(text, rows[i].printed) && !RengaStageShapeEqual(&rows[i].shape, &two));
  }
}

/* What precisions keep tensors in; 2 moments. */
static void CheckStorage(void)
{
  static const int64_t bytes[] = {4 + 8, 2 + 4 + 8, 2 + 4 + 8, 4 + 8, 2 + 4 + 8};
  RengaStorage storage;
  int64_t counted;
  for (int p = RENGA_PRECISION_FP32; p < RENGA_PRECISION_COUNT; p++) {
    const int value = p == RENGA_PRECISION_FP32 || p == RENGA_PRECISION_TF32 ? 0 : 2;
    RengaCallAbort(RengaPrecisionGetStorage((RengaPrecision)p, &storage));
    RengaCallAbort(RengaStorageCountParameterBytes(&storage, 2, &counted));
    TestTrue(counted == bytes[p] && storage.master == RENGA_FLOAT32);
    RengaCallAbort(RengaStorageCountUpdateBytes(&storage, 2, &counted));
    TestTrue(counted == value + 2 * (4 + 8) + 4);
    RengaCallAbort(RengaStorageCountUpdateBytes(&storage, 0, &counted));
    TestTrue(counted == value + 2 * 4 + 4);
    TestTrue(storage.gradient == RENGA_FLOAT32 && storage.moment == RENGA_FLOAT32);
    TestTrue(storage.value == storage.message && storage.value == storage.saved);
  }
  TestTrue(storage.value == RENGA_BFLOAT16);
  TestError(RengaPrecisionGetStorage((RengaPrecision)5, &storage), RENGA_ERR_ARGUMENT,
            "precision 5 is none: 0 (fp32) to 4 are");
  TestError(RengaStorageCountParameterBytes(&storage, -1, &counted), RENGA_ERR_ARGUMENT,
            "-1 moments of each element");
  TestError(RengaStorageCountUpdateBytes(&storage, -1, &counted), RENGA_ERR_ARGUMENT,
            "-1 moments of each element");
}

static void FillTwo(RengaGraph graph, const RengaStageShape *second, RengaPlanStage stages[2])
{
  const int cut = TestFind(graph, "Linear", 1), n = RengaGraphGetNodeCount(graph);
  stages[0] = (RengaPlanStage){.first = 0, .last = cut, .shape = RengaStageShapePlain(1)};
  stages[1] = (RengaPlanStage){.first = cut, .last = n, .shape = *second};
}

static RengaPlan PlanOf(RengaComm comm, RengaGraph graph, const RengaStageShape *second)
{
  RengaPlan plan;
  RengaPlanStage stages[2];
  FillTwo(graph, second, stages);
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  RengaCallAbort(RengaPlanSetStages(plan, graph, 2, stages));
  RengaCallAbort(RengaPlanSetBatch(plan, 8, 2));
  return plan;
}

static void CheckNoShapes(RengaComm comm, RengaGraph graph)
{
  RengaStageShape shape = RengaStageShapePlain(1);
  RengaPlan plan = PlanOf(comm, graph, &shape);
  RengaPlanStage stages[2];
  shape.tensor = 0;
  FillTwo(graph, &shape, stages);
  TestError(RengaPlanSetStages(plan, graph, 2, stages), RENGA_ERR_PLAN,
            "stage 1 has 0 tensor-parallel ranks: at least 1 is needed");
  shape = RengaStageShapePlain(0);
  FillTwo(graph, &shape, stages);
  TestError(RengaPlanSetStages(plan, graph, 2, stages), RENGA_ERR_PLAN,
            "stage 1 has 0 replicas: at least 1 is needed");
  shape = RengaStageShapePlain(1);
  shape.precision = (RengaPrecision)7;
  FillTwo(graph, &shape, stages);
  TestError(RengaPlanSetStages(plan, graph, 2, stages), RENGA_ERR_PLAN,
            "stage 1 has precision 7: fp32, bf16, fp16, tf32 or fp8 is needed");
  RengaCallAbort(RengaPlanCheck(plan, graph, 0));
  shape.precision = RENGA_PRECISION_BF16;
  FillTwo(graph, &shape, stages);
  RengaCallAbort(RengaPlanSetStages(plan, graph, 2, stages));
  TestError(RengaPlanCheck(plan, graph, 0), RENGA_ERR_PLAN,
            "stage 1 of the plan is of precision bf16, but the network's is fp32");
  RengaCallAbort(RengaPlanDestroy(&plan));
}

/* Each of them goes through a file, shows itself, and is refused where it would be run. */
static void CheckRow(RengaComm comm, RengaGraph graph, int i)
{
  RengaPlan plan = PlanOf(comm, graph, &rows[i].shape), read;
  RengaPipeline pipeline;
  RengaViewer viewer;
  RengaPipelineMemory memory[2];
  char text[8192];
  RengaCallAbort(RengaPlanSave(plan, file_name));
  RengaCallAbort(RengaPlanCreate(comm, &read));
  RengaCallAbort(RengaPlanLoad(read, graph, file_name));
  TestTrue(RengaStageShapeEqual(&RengaPlanGetStage(read, 1)->shape, &rows[i].shape));
  RengaCallAbort(RengaViewerCreate(comm, "ascii:plan-shape-view.txt", &viewer));
  RengaCallAbort(RengaPlanView(read, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  TestReadFile("plan-shape-view.txt", sizeof text, text);
  TestTrue(strstr(text, rows[i].printed));
  RengaCallAbort(RengaPlanCheck(read, graph, 0));
  RengaCallAbort(RengaPipelineCreate(comm, &pipeline));
  RengaCallAbort(RengaPipelineSetPlan(pipeline, graph, read));
  TestError(RengaPipelineForecastStages(pipeline, memory), RENGA_ERR_SUPPORT, rows[i].refused);
  TestError(RengaPipelineSetUp(pipeline), RENGA_ERR_PLAN, "the plan needs 7 ranks");
  RengaCallAbort(RengaPipelineDestroy(&pipeline));
  RengaCallAbort(RengaPlanDestroy(&read));
  RengaCallAbort(RengaPlanDestroy(&plan));
}

/* What is left out is plain; version 3 knew replicas and recomputation. In version 4 context ranks
   were called tensor ranks, where the network has no lanes of heads. */
static void CheckVersions(RengaComm comm, RengaGraph graph)
{
  static const struct {
    const char *version, *line;
    int context;
  } lines[] = {
      {"renga-plan 4", "replicas 3 saved recompute", 1},
      {"renga-plan 4", "replicas 3 tensor 1 saved recompute chunks 1", 1},
      {"renga-plan 3", "replicas 3 recompute 1", 1},
      {"renga-plan 4", "replicas 3 tensor 2 sequence 1 shard none saved recompute", 2},
      {"renga-plan 5", "replicas 3 tensor 1 context 2 saved recompute", 2},
  };
  RengaStageShape wanted = RengaStageShapePlain(3);
  wanted.saved = RENGA_SAVED_RECOMPUTE;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    RengaPlan plan;
    FILE *file = fopen(file_name, "w");
    TestTrue(file);
    fprintf(file, "%s\nbatch 8 microbatch 2\nstages 1\nstage 0 nodes 0 %d %s\nend\n",
            lines[i].version, RengaGraphGetNodeCount(graph), lines[i].line);
    fclose(file);
    wanted.sequence = lines[i].context;
    RengaCallAbort(RengaPlanCreate(comm, &plan));
    RengaCallAbort(RengaPlanLoad(plan, graph, file_name));
    TestTrue(RengaStageShapeEqual(&RengaPlanGetStage(plan, 0)->shape, &wanted));
    RengaCallAbort(RengaPlanDestroy(&plan));
  }
}

static void CheckRefusedLines(RengaComm comm, RengaGraph graph)
{
  static const char *const lines[][2] = {
      {"4", "replicas 1 recompute 1"},
      {"4", "replicas 1 precision fp4"},
      {"4", "replicas 1 tensor 0"},
      {"4", "replicas 1 tensor 2x"},
      {"4", "tensor 2"},
      {"4", "replicas 1 context 1"},
      {"5", "replicas 1 sequence 1"},
      {"4", "replicas 1 chunks 9999999999"},
      {"4", "replicas 1 chunks 1 shard"},
      {"3", "replicas 1 tensor 1"},
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    RengaPlan plan;
    FILE *file = fopen(file_name, "w");
    TestTrue(file);
    fprintf(file, "renga-plan %s\nbatch 8 microbatch 2\nstages 1\nstage 0 nodes 0 %d %s\nend\n",
            lines[i][0], RengaGraphGetNodeCount(graph), lines[i][1]);
    fclose(file);
    RengaCallAbort(RengaPlanCreate(comm, &plan));
    TestError(RengaPlanLoad(plan, graph, file_name), RENGA_ERR_FILE_FORMAT,
              "line 4: not the line of the next stage: stage S nodes FIRST LAST replicas R");
    RengaCallAbort(RengaPlanDestroy(&plan));
  }
}

/* Two replicas of 3 tensor ranks and 2 context ranks behind one rank. */
static void CheckPlaces(RengaComm comm, RengaGraph graph)
{
  const RengaStageShape shape = {
      2, 3, 2, RENGA_SHARD_NOTHING, RENGA_SAVED_KEEP, RENGA_PRECISION_FP32, 1};
  RengaPlan plan = PlanOf(comm, graph, &shape);
  RengaPlanPlace place = {1, 1, 1, 2}, found = {-1, -1, -1, -1};
  int count;
  TestTrue(RengaPlanGetRankCount(plan) == 13);
  TestTrue(RengaPlanGetRank(plan, 1, 1) == 7 && RengaPlanGetRankAt(plan, &place) == 12);
  RengaCallAbort(RengaPlanFindPlaces(plan, 12, 1, &found, &count));
  TestTrue(count == 1 && !memcmp(&found, &place, sizeof place));
  RengaCallAbort(RengaPlanFindPlaces(plan, 13, 1, &found, &count));
  TestTrue(count == 0);
  place.tensor = 3;
  TestTrue(RengaPlanGetRankAt(plan, &place) == -1);
  TestTrue(RengaPlanGetRankAt(plan, NULL) == -1);
  RengaCallAbort(RengaPlanDestroy(&plan));
}

/* Four stages as two chunks of each of three ranks. */
static void CheckChunks(RengaComm comm, RengaGraph graph)
{
  const int n = RengaGraphGetNodeCount(graph),
            cut[] = {0, TestFind(graph, "Linear", 1), TestFind(graph, "Linear", 2), n - 1, n};
  const int ranks[] = {5, 1, 3, 5, 1, 3}, other[] = {5, 1, 3, 5, 3, 1};
  RengaPlanPlace places[2];
  RengaPlanStage stages[4];
  RengaPlan plan, read;
  int count, stage, replica;
  int64_t bytes;
  char text[8192];
  RengaViewer viewer;
  RengaCallAbort(RengaViewerCreate(comm, "ascii:plan-shape-view.txt", &viewer));
  for (int s = 0; s < 4; s++) {
    stages[s] = (RengaPlanStage){
        .first = cut[s], .last = cut[s + 1], .shape = RengaStageShapePlain(1 + s % 2)};
    stages[s].shape.chunks = 2;
  }
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  RengaCallAbort(RengaPlanSetStages(plan, graph, 4, stages));
  TestTrue(RengaPlanGetRankCount(plan) == 3 && RengaPlanGetRank(plan, 3, 1) == 2);
  TestError(RengaPlanSetRanks(plan, other), RENGA_ERR_PLAN,
            "stage 3 has rank 3 where stage 1 has rank 1: with 2 chunks per rank both");
  RengaCallAbort(RengaPlanSetRanks(plan, ranks));
  RengaCallAbort(RengaPlanSave(plan, file_name));
  RengaCallAbort(RengaPlanCreate(comm, &read));
  RengaCallAbort(RengaPlanLoad(read, graph, file_name));
  RengaCallAbort(RengaPlanFindPlaces(read, 3, 2, places, &count));
  TestTrue(count == 2 && places[0].stage == 1 && places[1].stage == 3);
  TestTrue(places[0].replica == 1 && places[1].replica == 1);
  RengaCallAbort(RengaPlanFindRank(read, 3, &stage, &replica));
  TestTrue(stage == 1 && replica == 1);
  RengaCallAbort(RengaPlanCheck(read, graph, 0));
  for (int s = 0; s < 4; s++) RengaCallAbort(RengaPlanSetMemory(read, s, s < 3 ? 10 + s : 0));
  RengaCallAbort(RengaPlanGetDeviceMemory(read, 2, &bytes));
  TestTrue(bytes == 10 + 12);
  RengaCallAbort(RengaPlanGetDeviceMemory(read, 1, &bytes));
  TestTrue(bytes == 0);
  RengaCallAbort(RengaPlanView(read, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  TestReadFile("plan-shape-view.txt", sizeof text, text);
  TestTrue(strstr(text, "4 stages of 1 to 2 replicas, 2 virtual stages per rank"));
  stages[3].shape.tensor = 2;
  TestError(RengaPlanSetStages(plan, graph, 4, stages), RENGA_ERR_PLAN,
            "stages 1 and 3 are chunks of the same ranks");
  stages[3].shape.chunks = 1;
  TestError(RengaPlanSetStages(plan, graph, 4, stages), RENGA_ERR_PLAN,
            "stage 3 has 1 chunks per rank, but stage 0 has 2");
  for (int s = 0; s < 4; s++) stages[s].shape.chunks = 3;
  TestError(RengaPlanSetStages(plan, graph, 4, stages), RENGA_ERR_PLAN,
            "4 stages with 3 chunks per rank");
  stages[0].shape.replicas = stages[0].shape.tensor = stages[0].shape.sequence = 1 << 20;
  TestError(RengaPlanSetStages(plan, graph, 4, stages), RENGA_ERR_PLAN,
            "have more than 16777216 ranks");
  RengaCallAbort(RengaPlanDestroy(&read));
  RengaCallAbort(RengaPlanDestroy(&plan));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &comm));
  RengaGraph graph = TestNetwork(comm);
  CheckWords();
  CheckStorage();
  CheckNoShapes(comm, graph);
  for (int i = 0; i < N_ROWS; i++) CheckRow(comm, graph, i);
  CheckPlaces(comm, graph);
  CheckChunks(comm, graph);
  CheckVersions(comm, graph);
  CheckRefusedLines(comm, graph);
  unlink(file_name), unlink("plan-shape-view.txt");
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
