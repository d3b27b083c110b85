/* What plans with ranks that share out lanes are, as files and as texts. */
#include "plans.h"
#include "cases.h"

#define PLANNED "-batch_size 8 -microbatch_size 2 -machine_file laptop "
#define CHOSEN                                                                                     \
  "-batch_size 8 -microbatch_size 8 -machine_file laptop -partition_type auto "                    \
  "-layout_tensor auto -graph " HEADS

static const struct {
  const char *file, *options;
  int lanes; /* of heads and columns */
} plans[] = {
    {"lanes-heads.plan",
     PLANNED "-graph_lanes 3 -partition_ranks 4 -layout_pipeline 2 "
             "-layout_tensor 2 -graph " HEADS,
     3},
    {"lanes-two.plan", PLANNED "-graph_lanes 2 -partition_ranks 2 -layout_tensor 2 -graph " HEADS,
     2},
    {"lanes-chunks.plan",
     PLANNED "-graph_lanes 3 -partition_ranks 4 -layout_pipeline 2 "
             "-layout_tensor 2 -layout_chunks 2 -schedule_type zb-v "
             "-graph " HEADS,
     3},
    {"lanes-tokens.plan",
     PLANNED "-graph_token_lanes 3 -partition_ranks 3 -layout_context 3 -graph " HEADS, 1},
    {"lanes-both.plan",
     PLANNED "-graph_lanes 2 -graph_token_lanes 3 -partition_ranks 4 -layout_tensor 2 "
             "-layout_context 2 -graph " HEADS,
     2},
    {"lanes-columns.plan",
     PLANNED "-graph_lanes 3 -partition_ranks 3 -layout_tensor 3 -graph " HEADS, 3},
};
enum { N_PLANS = sizeof plans / sizeof plans[0] };

typedef struct {
  const char *options;
  bool plan; /* else of the network alone */
  const char *says[3], *lacks;
} View;

static const View views[] = {
    {PLANNED "-graph_lanes 3 -partition_ranks 4 -layout_pipeline 2 -layout_tensor 2 "
             "-graph " HEADS,
     true,
     {"tensor-parallel ranks: 2 of them compute each replica of a stage; in stage 0 they take ",
      "bound: of all plans with 2 tensor-parallel ranks for each replica on so many devices"},
     "proved best"},
    {PLANNED "-graph_lanes 2 -graph_token_lanes 3 -partition_ranks 4 -layout_tensor 2 "
             "-layout_context 2 -graph " HEADS,
     true,
     {"lanes of tokens        3, of ", "1 replica, tensor 2, context 2",
      "tensor-, context-parallel ranks: 4 of them compute each replica of a stage; in stage 0 they "
      "take "},
     "proved best"},
    {CHOSEN " -graph_lanes 3 -partition_ranks 2",
     true,
     {"tensor-parallel degrees: 1: ", "; 2: ",
      " (1 stage, 2 ranks in groups of 2, micro-batches of 8)"},
     NULL},
    {CHOSEN " -graph_lanes 3 -partition_ranks 2 -pipeline_reduction unordered",
     true,
     {"; 2: none (2 tensor-parallel ranks (-layout_tensor) do not go with -pipeline_reduction "
      "unordered yet)",
      "lower bound: "},
     NULL},
    /* No rank is idle. */
    {PLANNED "-graph_lanes 3 -microbatch_size 8 -partition_ranks 2 -layout_tensor 2 "
             "-partition_type auto -graph " HEADS,
     true,
     {"proof: no plan with 2 tensor-parallel ranks"},
     "stay idle"},
    /* Without a number of lanes there are as many as tensor ranks, which every chain has heads for.
     */
    {CHOSEN " -partition_ranks 2", true, {"tensor-parallel degrees: 1: ", "; 2: "}, NULL},
    {CHOSEN " -partition_ranks 8",
     true,
     {"tensor-parallel degrees: 1: ", "; 4: ",
      "8 and more: not looked at, as a group would not be in one node"},
     NULL},
    {"-graph_token_lanes 2 -graph lanes-nearest.onnx",
     false,
     {"lanes of tokens        2, of 12 nodes of the network, 1 of them summed"},
     NULL},
    {"-graph_token_lanes 2 -graph lanes-linear.onnx",
     false,
     {"lanes of tokens        2, of 12 nodes of the network, 1 of them summed"},
     NULL},
    {"-graph_token_lanes 2 -graph lanes-rows.onnx",
     false,
     {"lanes of tokens        2, of 5 nodes of the network"},
     NULL},
    {"-graph_token_lanes 3 -graph " HEADS, false, {"lanes of tokens        3, of"}, NULL},
    /* What of a network is in no lane is said. */
    {"-graph_token_lanes 4 -graph resnet:depth=18,width=0.0625,image=33,classes=7",
     false,
     {"warning: -graph_token_lanes 4: 43% of the FLOPs of products are in no lane",
      "products in no lane    43.4% of the FLOPs of products, first behind \"layers.4.c1\""},
     NULL},
};
enum { N_VIEWS = sizeof views / sizeof views[0] };

static RengaErrorCode Solve(RengaComm alone, RengaGraph graph, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(alone, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode Load(RengaComm alone, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(alone, graph));
  RengaCall(RengaGraphSetFromOptions(*graph));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode WritePlan(RengaComm alone, int number)
{
  RengaGraph graph;
  RengaPlan plan, again;
  RengaPlanPrediction one, other;
  int lanes;
  RengaCall(GiveOptions(plans[number].options, true));
  RengaCall(Load(alone, &graph));
  RengaCall(Solve(alone, graph, &plan));
  RengaCall(GiveOptions(plans[number].options, false));
  RengaCall(RengaPlanSave(plan, plans[number].file));
  RengaCall(RengaPlanCreate(alone, &again));
  RengaCall(RengaPlanLoad(again, graph, plans[number].file));
  RengaCall(RengaPlanGetPrediction(plan, &one));
  RengaCall(RengaPlanGetPrediction(again, &other));
  RengaCall(RengaPlanGetLanes(again, &lanes));
  Expect(one.step > 0 && one.step == other.step && one.pipeline == other.pipeline);
  Expect(one.reduce == other.reduce && one.update == other.update);
  Expect(lanes == plans[number].lanes);
  RengaCall(RengaPlanDestroy(&again));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

RengaErrorCode WritePlans(RengaComm alone)
{
  for (int p = 0; p < N_PLANS; p++) RengaCall(WritePlan(alone, p));
  return RENGA_SUCCESS;
}

void RemovePlans(void)
{
  for (int p = 0; p < N_PLANS; p++) remove(plans[p].file);
}

/* What the network says, and the plan, into a file. */
static RengaErrorCode Show(RengaComm alone, const View *view, const char *file)
{
  RengaGraph graph;
  RengaPlan plan = NULL;
  RengaViewer viewer;
  char where[64];
  snprintf(where, sizeof where, "ascii:%s", file);
  RengaCall(GiveOptions(view->options, true));
  RengaCall(RengaOptionsSetValue("plan_explain", "true"));
  RengaCall(Load(alone, &graph));
  if (view->plan) RengaCall(Solve(alone, graph, &plan));
  RengaCall(RengaOptionsClearValue("plan_explain"));
  RengaCall(GiveOptions(view->options, false));
  RengaCall(RengaViewerCreate(alone, where, &viewer));
  RengaCall(RengaGraphView(graph, viewer));
  if (plan) RengaCall(RengaPlanView(plan, viewer));
  if (plan) RengaCall(RengaPlanExplain(plan, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  if (plan) RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

int CountViews(void)
{
  return N_VIEWS;
}

RengaErrorCode CheckView(RengaComm alone, int row)
{
  const View *view = &views[row];
  char name[32], *text;
  FILE *errors;
  enum { ROOM = 1 << 18 };
  snprintf(name, sizeof name, "lanes-%d.view", row);
  const int saved = BeginErrors(&errors);
  const RengaErrorCode code = Show(alone, view, name);
  const char *told = EndErrors(errors, saved);
  RengaCheck(!code, MPI_COMM_SELF, code, "%s\nFAILED: %s", told, view->options);
  RengaCall(RengaMalloc(ROOM, &text));
  FILE *file = fopen(name, "r");
  Expect(file);
  const size_t warned = (size_t)snprintf(text, ROOM / 2, "%s", told);
  text[warned + fread(text + warned, 1, ROOM - 1 - warned, file)] = '\0';
  fclose(file);
  remove(name);
  for (int s = 0; s < 3 && view->says[s]; s++)
    RengaCheck(strstr(text, view->says[s]), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "FAILED: no \"%s\" of %s in:\n%s", view->says[s], view->options, text);
  RengaCheck(!view->lacks || !strstr(text, view->lacks), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "FAILED: \"%s\" of %s in:\n%s", view->lacks, view->options, text);
  RengaFree(&text);
  return RENGA_SUCCESS;
}
