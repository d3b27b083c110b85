/* TEST ranks: 1 3 */
/* A plan says what it was told, refuses what is wrong with numbers, and survives a file. */
#include "network.h"
#include "renga/private/plan.h"
#include <json-c/json.h>

static RengaGraph graph;
static int n_nodes, cut[3]; /* first nodes of three stages */

static void FillStages(RengaPlanStage stages[3])
{
  for (int s = 0; s < 3; s++)
    stages[s] = (RengaPlanStage){
        .first = cut[s], .last = s < 2 ? cut[s + 1] : n_nodes, .shape = RengaStageShapePlain(2)};
}

static void CheckGetters(RengaPlan plan)
{
  int64_t batch, microbatch;
  int stage, replica;
  TestTrue(RengaPlanGetStageCount(plan) == 3 && RengaPlanGetRankCount(plan) == 6);
  RengaLayout layout;
  RengaCallAbort(RengaPlanGetLayout(plan, &layout));
  TestTrue(layout.stages == 3 && layout.chunks == 1 && layout.tensor == 1 && layout.context == 1 &&
           layout.expert == 1 && layout.shard == RENGA_SHARD_NOTHING);
  TestTrue(RengaPlanGetRank(plan, 1, 1) == 3 && RengaPlanGetRank(plan, 3, 0) == -1);
  RengaCallAbort(RengaPlanFindRank(plan, 4, &stage, &replica));
  TestTrue(stage == 2 && replica == 0);
  RengaCallAbort(RengaPlanFindRank(plan, 6, &stage, &replica));
  TestTrue(stage == -1 && replica == -1);
  for (int n = 0; n < n_nodes; n++)
    TestTrue(RengaPlanStageOfNode(plan, n) == (n >= cut[1]) + (n >= cut[2]));
  TestTrue(RengaPlanStageOfNode(plan, n_nodes) == -1 && RengaPlanGetStage(plan, 3) == NULL);
  RengaCallAbort(RengaPlanGetBatch(plan, &batch, &microbatch));
  TestTrue(batch == 10 && microbatch == 4);
  TestTrue(RengaPlanMicrobatches(plan, 10) == 3 && RengaPlanMicrobatches(plan, 8) == 2);
  int64_t parameters = 0;
  for (int s = 0; s < 3; s++) parameters += RengaPlanGetStage(plan, s)->parameters;
  TestTrue(parameters == 9 * 16 + 17 * 16 + 17 * 4);
  TestTrue(RengaPlanGetStage(plan, 0)->forward_flops >= 2 * 8 * 16);
}

/* Every micro-batch has one replica; numbers of two replicas differ by at most one. */
static void CheckBounds(void)
{
  for (int64_t m = 0; m < 20; m++)
    for (int replicas = 1; replicas < 9; replicas++) {
      TestTrue(RengaPlanBound(m, replicas, 0) == 0 && RengaPlanBound(m, replicas, replicas) == m);
      for (int r = 0; r < replicas; r++) {
        int64_t own = RengaPlanBound(m, replicas, r + 1) - RengaPlanBound(m, replicas, r);
        TestTrue(own == m / replicas || own == (m + replicas - 1) / replicas);
      }
    }
  TestTrue(RengaPlanBound(INT64_MAX, 1 << 20, 1 << 20) == INT64_MAX);
  TestTrue(RengaPlanBound(6, 4, 2) == 4 && RengaPlanBound(15, 8, 4) == 8); /* nodes of a tree */
  for (int64_t m = 0; m < 20; m++)
    for (int64_t leaf = 1; leaf < 6; leaf++)
      for (int replicas = 1; replicas < 5; replicas++)
        for (int r = 0; r <= replicas; r++) {
          const int64_t bound = RengaPlanLeafBound(m, leaf, replicas, r);
          const int64_t wanted = leaf * RengaPlanBound((m + leaf - 1) / leaf, replicas, r);
          TestTrue(bound == (wanted < m ? wanted : m));
        }
  TestTrue(RengaPlanLeafBound(INT64_MAX, 3, 1 << 20, 1 << 20) == INT64_MAX);
}

static void CheckStageErrors(RengaPlan plan)
{
  RengaPlanStage stages[3];
  FillStages(stages);
  TestError(RengaPlanSetStages(plan, graph, 0, stages), RENGA_ERR_PLAN, "a plan with 0 stages");
  stages[1].first++;
  TestError(RengaPlanSetStages(plan, graph, 3, stages), RENGA_ERR_PLAN, "stage 1 begins at node");
  FillStages(stages);
  stages[0].last = stages[1].first = 0;
  TestError(RengaPlanSetStages(plan, graph, 3, stages), RENGA_ERR_PLAN, "stage 0 is empty");
  FillStages(stages);
  stages[2].last--;
  TestError(RengaPlanSetStages(plan, graph, 3, stages), RENGA_ERR_PLAN, "would not be computed");
  stages[2].last += 2;
  TestError(RengaPlanSetStages(plan, graph, 3, stages), RENGA_ERR_PLAN, "the network has");
  FillStages(stages);
  stages[2].shape.replicas = 0;
  TestError(RengaPlanSetStages(plan, graph, 3, stages), RENGA_ERR_PLAN, "stage 2 has 0 replicas");
}

static void CheckOtherErrors(RengaComm comm, RengaPlan plan)
{
  const int twice[] = {0, 1, 2, 3, 4, 1}, negative[] = {0, 1, 2, -3, 4, 5};
  TestError(RengaPlanSetBatch(plan, 0, 1), RENGA_ERR_ARGUMENT, "batch of 0 samples");
  TestError(RengaPlanSetBatch(plan, 8, 0), RENGA_ERR_ARGUMENT, "micro-batch of 0 samples");
  RengaGraph whole = TestNetworkOf(comm, 8);
  TestError(RengaPlanCheck(plan, whole, 6), RENGA_ERR_PLAN,
            "one micro-batch on one replica: -batch_size 8 -microbatch_size 8");
  RengaCallAbort(RengaGraphDestroy(&whole));
  TestError(RengaPlanCheck(plan, graph, 5), RENGA_ERR_PLAN, "needs 6 ranks but there are 5");
  TestError(RengaPlanSetRanks(plan, twice), RENGA_ERR_PLAN, "uses rank 1 twice");
  TestError(RengaPlanSetRanks(plan, negative), RENGA_ERR_PLAN, "rank -3");
  TestError(RengaPlanSetMemory(plan, 3, 1), RENGA_ERR_ARGUMENT, "stage 3 of a plan with 3 stages");
  RengaCallAbort(RengaPlanCheck(plan, graph, 6));
  const int far[] = {0, 1, 2, 3, 4, 9};
  RengaCallAbort(RengaPlanSetRanks(plan, far));
  TestError(RengaPlanCheck(plan, graph, 8), RENGA_ERR_PLAN, "uses rank 9 but there are only");
}

static void CheckView(RengaComm comm, RengaPlan plan)
{
  char text[8192];
  int available = 0;
  RengaViewer viewer;
  RengaCallAbort(RengaPlanSetAvailableRanks(plan, 11));
  RengaCallAbort(RengaPlanGetAvailableRanks(plan, &available));
  TestTrue(available == 11);
  RengaCallAbort(RengaPlanSetMemory(plan, 1, 3 << 20));
  RengaCallAbort(RengaViewerCreate(comm, "ascii:plan-view.txt", &viewer));
  RengaCallAbort(RengaPlanView(plan, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  RengaCallAbort(RengaViewerCreate(comm, "json:plan-view.json", &viewer));
  RengaCallAbort(RengaPlanView(plan, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  RengaCallAbort(RengaViewerCreate(comm, "dot:plan-view.dot", &viewer));
  TestError(RengaPlanView(plan, viewer), RENGA_ERR_SUPPORT,
            RengaCommGetRank(comm) ? "" : "ascii, json or draw");
  RengaCallAbort(RengaViewerDestroy(&viewer));
  if (RengaCommGetRank(comm)) return;
  TestReadFile("plan-view.txt", sizeof text, text);
  TestTrue(
      strstr(text, "plan: 3 stages x 2 replicas; steps of 10 samples in 3 micro-batches of 4"));
  TestTrue(strstr(text, "idle: 5 of 11 ranks (5-8, 10)"));
  TestTrue(strstr(text, "3.00 MiB") && strstr(text, "not known") && strstr(text, "4, 9"));
  struct json_object *root = json_object_from_file("plan-view.json"), *stages, *ranks;
  TestTrue(root && json_object_object_get_ex(root, "stages", &stages));
  TestTrue(json_object_array_length(stages) == 3);
  TestTrue(json_object_object_get_ex(json_object_array_get_idx(stages, 2), "ranks", &ranks));
  TestTrue(json_object_get_int(json_object_array_get_idx(ranks, 1)) == 9);
  json_object_put(root);
  unlink("plan-view.txt"), unlink("plan-view.json"), unlink("plan-view.dot");
}

static void WriteFile(RengaComm comm, const char *text)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen("plan-broken.txt", "w");
    fputs(text, file);
    fclose(file);
  }
  RengaCallAbort(RengaCommBarrier(comm, "the broken file"));
}

static void CheckBroken(RengaComm comm, RengaPlan plan, const char *text, RengaErrorCode code,
                        const char *message)
{
  WriteFile(comm, text);
  TestError(RengaPlanLoad(plan, graph, "plan-broken.txt"), code,
            RengaCommGetRank(comm) ? "" : message);
  RengaCallAbort(RengaCommBarrier(comm, "the broken file's end"));
}

/* Cut the saved text after each byte: it must load whole or fail, never crash. */
static void CheckTruncated(RengaComm comm, RengaPlan plan, const char *text)
{
  size_t length = strlen(text);
  for (size_t keep = 0; keep + 2 < length; keep += 7) {
    char part[4096];
    snprintf(part, sizeof part, "%.*s", (int)keep, text);
    WriteFile(comm, part);
    FILE *errors;
    int saved = BeginErrors(&errors);
    RengaErrorCode code = RengaPlanLoad(plan, graph, "plan-broken.txt");
    EndErrors(errors, saved);
    TestTrue(code == RENGA_ERR_FILE_FORMAT || code == RENGA_ERR_PLAN);
    RengaCallAbort(RengaCommBarrier(comm, "the broken file's end"));
  }
}

static void CheckFile(RengaComm comm, RengaPlan plan)
{
  RengaPlan read;
  char text[4096], head[128];
  int64_t batch, microbatch;
  RengaCallAbort(RengaPlanSave(plan, "plan-saved.txt"));
  RengaCallAbort(RengaPlanCreate(comm, &read));
  RengaCallAbort(RengaPlanLoad(read, graph, "plan-saved.txt"));
  for (int s = 0; s < 3; s++) {
    TestTrue(RengaPlanGetStage(read, s)->first == cut[s]);
    TestTrue(RengaPlanGetStage(read, s)->memory == RengaPlanGetStage(plan, s)->memory);
    for (int r = 0; r < 2; r++)
      TestTrue(RengaPlanGetRank(read, s, r) == RengaPlanGetRank(plan, s, r));
  }
  RengaCallAbort(RengaPlanGetBatch(read, &batch, &microbatch));
  TestTrue(batch == 10 && microbatch == 4);
  TestReadFile("plan-saved.txt", sizeof text, text);
  CheckBroken(comm, read, "hello\n", RENGA_ERR_FILE_FORMAT, "plan-broken.txt, line 1: not a plan");
  CheckBroken(comm, read, "renga-plan 1\n", RENGA_ERR_FILE_FORMAT,
              "another version, 1: this program reads versions 3 to 5");
  snprintf(head, sizeof head, "renga-plan 5\ngraph 0x1 nodes %d\n", n_nodes);
  CheckBroken(comm, read, head, RENGA_ERR_PLAN, "was made for another network");
  CheckTruncated(comm, read, text);
  RengaCallAbort(RengaPlanDestroy(&read));
  unlink("plan-saved.txt"), unlink("plan-broken.txt");
  TestError(RengaPlanSave(plan, "no/such/folder/plan"), RENGA_ERR_FILE_WRITE,
            RengaCommGetRank(comm) ? "" : "no/such/folder/plan");
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaPlan plan;
  RengaPlanStage stages[3];
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  graph = TestNetwork(comm);
  n_nodes = RengaGraphGetNodeCount(graph);
  cut[1] = TestFind(graph, "Linear", 1);
  cut[2] = TestFind(graph, "Linear", 2);
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  TestError(RengaPlanSetRanks(plan, cut), RENGA_ERR_ORDER, "call RengaPlanSetStages first");
  FillStages(stages);
  RengaCallAbort(RengaPlanSetStages(plan, graph, 3, stages));
  RengaCallAbort(RengaPlanSetBatch(plan, 10, 4));
  CheckGetters(plan);
  CheckBounds();
  if (RengaCommGetSize(comm) == 1) CheckStageErrors(plan);
  if (RengaCommGetSize(comm) == 1) CheckOtherErrors(comm, plan);
  const int ranks[] = {0, 1, 2, 3, 4, 9};
  RengaCallAbort(RengaPlanSetRanks(plan, ranks));
  CheckView(comm, plan);
  CheckFile(comm, plan);
  RengaCallAbort(RengaPlanSetBatch(plan, 3, 8));
  TestTrue(RengaPlanMicrobatches(plan, 3) == 1);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
