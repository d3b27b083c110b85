/* TEST ranks: 1 2 */
/* Views of a plan that knows all: table, JSON, picture, reasons, and what another plan has
   otherwise. */
#include "network.h"
#include <json-c/json.h>

enum { MOST_TEXT = 1 << 15 };
static const char view_name[] = "plan-view-test.out";

static RengaPlan MakePlan(RengaComm comm, RengaGraph graph, int replicas, double step)
{
  const int one = TestFind(graph, "Linear", 1), two = TestFind(graph, "Linear", 2);
  RengaStageShape again = RengaStageShapePlain(1);
  again.saved = RENGA_SAVED_RECOMPUTE;
  const RengaPlanStage stages[] = {
      {.first = 0,
       .last = one,
       .shape = RengaStageShapePlain(replicas),
       .forward_seconds = 1,
       .backward_seconds = 2},
      {.first = one,
       .last = two,
       .shape = again,
       .memory = 28 << 20,
       .parts = {1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20, 7 << 20},
       .forward_seconds = 0.001,
       .backward_seconds = 0.002},
      {.first = two,
       .last = RengaGraphGetNodeCount(graph),
       .shape = RengaStageShapePlain(2),
       .memory = 3 << 20,
       .forward_seconds = 0.5,
       .backward_seconds = 1},
  };
  const RengaPlanPrediction prediction = {step, 8, 1, 0.5, 8, 0.25};
  RengaPlan plan;
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  RengaCallAbort(RengaPlanSetStages(plan, graph, 3, stages));
  RengaCallAbort(RengaPlanSetBatch(plan, 12, 3));
  RengaCallAbort(RengaPlanSetSchedule(plan, "1f1b"));
  RengaCallAbort(RengaPlanSetEager(plan, 0.5));
  RengaCallAbort(RengaPlanSetOrigin(plan, "v100", "analytic", 32 << 20));
  RengaCallAbort(RengaPlanSetPrediction(plan, &prediction));
  RengaCallAbort(RengaPlanSetMemoryLimit(plan, 32 << 20));
  RengaCallAbort(RengaPlanAddReason(plan, "limit", "stage 1 < all & \"more\""));
  return plan;
}

/* What a view writes; all ranks get it. */
static void View(RengaComm comm, const char *kind, RengaPlan plan, RengaPlan other,
                 RengaErrorCode (*view)(RengaPlan, RengaViewer), char text[MOST_TEXT])
{
  char specification[64];
  RengaViewer viewer;
  snprintf(specification, sizeof specification, "%s:%s", kind, view_name);
  RengaCallAbort(RengaViewerCreate(comm, specification, &viewer));
  RengaCallAbort(other ? RengaPlanCompare(plan, other, viewer) : view(plan, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  RengaCallAbort(RengaCommBarrier(comm, "the view"));
  TestReadFile(view_name, MOST_TEXT, text);
  RengaCallAbort(RengaCommBarrier(comm, "all to read the view"));
}

static void CheckTable(RengaComm comm, RengaPlan plan)
{
  static const char *const wanted[] = {
      ("plan: 3 stages of 1 to 2 replicas; steps of 12 samples in 4 micro-batches of 3; schedule "
       "1f1b, eager 0.5\n"),
      "made for: v100, 32.0 MiB per device; costs analytic\n",
      "predicted: 9.50 s per step, 1.263 samples/s; pipeline 8.00 s, bubble 25.0 %",
      "lower bound: no plan takes less than 8.00 s; gap 18.75 %\n",
      "recomputes",
      "2.00 s   25.0 %", /* two replicas, two micro-batches each, of 3 s: 6 of 8 */
      "memory of a device",
      "5.00 MiB    6.00 MiB    7.00 MiB    28.0 MiB",
      "not known",
  };
  char text[MOST_TEXT];
  View(comm, "ascii", plan, NULL, RengaPlanView, text);
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    if (!strstr(text, wanted[i])) fprintf(stderr, "no \"%s\" in\n%s", wanted[i], text);
    TestTrue(strstr(text, wanted[i]));
  }
  View(comm, "ascii", plan, NULL, RengaPlanExplain, text);
  TestTrue(strstr(text, "why this plan\n  limit: stage 1 < all & \"more\"\n"));
  TestTrue(strstr(text, "lower bound"));
}

/* What the stages receive is what the message table sends forward. */
static void CheckMessages(RengaPlan plan, RengaGraph graph)
{
  RengaMessage *messages;
  int count;
  double to[3] = {0}, from[3] = {0};
  RengaCallAbort(RengaPlanGetMessages(plan, graph, &count, &messages));
  for (int m = 0; m < count; m++) {
    if (messages[m].backward) continue;
    to[messages[m].to] += (double)messages[m].bytes;
    from[messages[m].from] += (double)messages[m].bytes;
  }
  for (int s = 0; s < 3; s++) {
    TestTrue(RengaPlanGetStage(plan, s)->receives * 3 == to[s]);
    TestTrue(RengaPlanGetStage(plan, s)->sends * 3 == from[s]);
  }
  TestTrue(to[2] > 0);
  RengaFree(&messages);
}

static double Number(struct json_object *object, const char *name)
{
  struct json_object *value;
  TestTrue(json_object_object_get_ex(object, name, &value));
  return json_object_get_double(value);
}

static void CheckJson(RengaComm comm, RengaPlan plan)
{
  char text[MOST_TEXT];
  struct json_object *rows, *row = NULL, *part;
  View(comm, "json", plan, NULL, RengaPlanView, text);
  struct json_object *root = json_tokener_parse(text);
  TestTrue(root && json_object_object_get_ex(root, "predicted", &row));
  TestTrue(Number(root, "eager") == 0.5 && Number(root, "device_memory") == 32 << 20);
  TestTrue(Number(row, "step") == 9.5 && Number(row, "gap") == 0.1875);
  TestTrue(json_object_object_get_ex(root, "stages", &rows) && json_object_array_length(rows) == 3);
  row = json_object_array_get_idx(rows, 1);
  TestTrue(json_object_object_get_ex(row, "recompute", &part) && json_object_get_boolean(part));
  TestTrue(json_object_object_get_ex(row, "memory_parts", &part) &&
           Number(part, "saved") == 4 << 20);
  TestTrue(Number(json_object_array_get_idx(rows, 0), "waits") == 0.25);
  TestTrue(json_object_object_get_ex(root, "reasons", &rows) &&
           json_object_array_length(rows) == 1);
  json_object_put(root);
}

static int CountText(const char *text, const char *part)
{
  int count = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) count++;
  return count;
}

/* Tags are closed, the parts are there, and what stands for itself is escaped. */
static void CheckDrawing(RengaComm comm, RengaPlan plan)
{
  char text[MOST_TEXT];
  View(comm, "draw", plan, NULL, RengaPlanView, text);
  TestTrue(!strncmp(text, "<svg ", 5) && strstr(text, "</svg>\n"));
  TestTrue(CountText(text, "<text") == CountText(text, "</text>"));
  TestTrue(strstr(text, ">stage 2<") && strstr(text, ">limit<") && strstr(text, ">waiting<"));
  TestTrue(strstr(text, "gap 18.75 %") && strstr(text, ">optimizer<") && !strstr(text, "nan"));
  /* The limit has its bytes on the axis, or above it where it is far above what is used. */
  TestTrue(strstr(text, ">32.0 MiB<") && !strstr(text, "↑") && strstr(text, "bubble"));
  RengaCallAbort(RengaPlanSetMemoryLimit(plan, (int64_t)1 << 40));
  View(comm, "draw", plan, NULL, RengaPlanView, text);
  TestTrue(strstr(text, ">1.00 TiB ↑<") && strstr(text, "; red: limit<") &&
           !strstr(text, ">limit<"));
  RengaCallAbort(RengaPlanSetMemoryLimit(plan, 32 << 20));
}

static void CheckCompare(RengaComm comm, RengaPlan plan, RengaPlan other)
{
  char text[MOST_TEXT];
  View(comm, "ascii", plan, plan, NULL, text);
  TestTrue(strstr(text, "3 stages are the same; 0 of ") && !strstr(text, "->"));
  View(comm, "ascii", plan, other, NULL, text);
  TestTrue(strstr(text, "9.50 s -> 10.0 s (+5.26 %)") &&
           strstr(text, "ranks                5 -> 6"));
  TestTrue(strstr(text, "    replicas           2 -> 3") && strstr(text, "0-1 -> 0-2"));
  TestTrue(strstr(text, "0 stages are the same"));
}

/* Two cuts in other places, one stage less, another network. */
static void CheckOthers(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  const int two = TestFind(graph, "Linear", 2), n = RengaGraphGetNodeCount(graph);
  const RengaPlanStage stages[] = {{.first = 0, .last = two, .shape = RengaStageShapePlain(1)},
                                   {.first = two, .last = n, .shape = RengaStageShapePlain(1)}};
  char text[MOST_TEXT], wanted[64];
  RengaPlan other, read;
  RengaViewer viewer;
  RengaCallAbort(RengaPlanCreate(comm, &other));
  TestError(RengaPlanCompare(plan, other, NULL), RENGA_ERR_ARGUMENT, "viewer");
  RengaCallAbort(RengaPlanSetStages(other, graph, 2, stages));
  View(comm, "ascii", plan, other, NULL, text);
  TestTrue(strstr(text, "stage 2 is only in the first plan") && strstr(text, "not known"));
  snprintf(wanted, sizeof wanted, "%d of %d nodes are in another stage",
           n - TestFind(graph, "Linear", 1), n);
  TestTrue(strstr(text, wanted));
  RengaCallAbort(RengaPlanSave(other, view_name)); /* read again without its network */
  RengaCallAbort(RengaPlanCreate(comm, &read));
  RengaCallAbort(RengaPlanLoad(read, NULL, view_name));
  RengaCallAbort(RengaPlanCheck(read, graph, 2));
  View(comm, "ascii", other, read, NULL, text);
  TestTrue(strstr(text, "2 stages are the same; 0 of"));
  RengaCallAbort(RengaViewerCreate(comm, "json:plan-view-test.out", &viewer));
  TestError(RengaPlanCompare(plan, other, viewer), RENGA_ERR_SUPPORT,
            RengaCommGetRank(comm) ? "" : "compared as ascii");
  TestError(RengaPlanExplain(plan, viewer), RENGA_ERR_SUPPORT,
            RengaCommGetRank(comm) ? "" : "shown as ascii");
  RengaCallAbort(RengaViewerDestroy(&viewer));
  RengaCallAbort(RengaPlanDestroy(&read));
  RengaCallAbort(RengaPlanDestroy(&other));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaGraph graph = TestNetwork(comm);
  RengaPlan plan = MakePlan(comm, graph, 2, 9.5), other = MakePlan(comm, graph, 3, 10);
  CheckTable(comm, plan);
  CheckMessages(plan, graph);
  CheckJson(comm, plan);
  CheckDrawing(comm, plan);
  CheckCompare(comm, plan, other);
  CheckOthers(comm, graph, plan);
  unlink(view_name);
  RengaCallAbort(RengaPlanDestroy(&other));
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
