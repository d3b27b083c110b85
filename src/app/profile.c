/* renga profile: what each operator of a network costs. */
#include "app.h"

static RengaErrorCode MakeMachine(RengaComm comm, RengaMachine *machine)
{
  const char *file;
  RengaCall(RengaOptionsGetString("machine_file", &file, NULL));
  *machine = NULL;
  if (!file) return RENGA_SUCCESS;
  RengaCall(RengaMachineCreate(comm, machine));
  RengaCall(RengaMachineSetFromOptions(*machine));
  return RENGA_SUCCESS;
}

/* As train chooses: an eighth of the batch. */
static RengaErrorCode GetSamples(RengaGraph graph, int64_t *samples)
{
  int64_t batch;
  RengaCall(RengaOptionsGetInt64("microbatch_size", samples, NULL));
  if (*samples > 0) return RENGA_SUCCESS;
  RengaCall(RengaOptionsGetInt64("batch_size", &batch, NULL));
  if (batch == 0) RengaCall(RengaGraphGetFileBatch(graph, &batch));
  if (batch == 0) batch = 32;
  *samples = (batch + 7) / 8;
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintTotals(RengaComm comm, RengaGraph graph, RengaProfile profile,
                                  int64_t samples, const RengaProfileCost costs[])
{
  MPI_Comm printer;
  RengaGraphTotals totals;
  double forward = 0, backward = 0, update, accumulate;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    forward += costs[n].forward;
    backward += costs[n].backward;
  }
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaCall(RengaProfileGetUpdateSeconds(profile, totals.parameters, &update));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, totals.parameters, &accumulate));
  RengaCall(RengaPrintf(printer,
                        "whole network, micro-batch of %lld: forward %.6g s, backward %.6g s; "
                        "all parameters: add a gradient %.6g s, update %.6g s\n",
                        (long long)samples, forward, backward, accumulate, update));
  return RENGA_SUCCESS;
}

static RengaErrorCode Show(const App *app, RengaGraph graph, RengaProfile profile)
{
  RengaProfileCost *costs = NULL;
  RengaViewer viewer = NULL;
  RengaMachine machine;
  const char *view;
  int64_t samples;
  RengaCall(GetSamples(graph, &samples));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &costs));
  RengaErrorCode code = RengaProfileGetCosts(profile, samples, costs);
  if (code == RENGA_SUCCESS) code = RengaProfileGetMachine(profile, &machine);
  if (code == RENGA_SUCCESS) code = PrintTotals(app->comm, graph, profile, samples, costs);
  RengaFree(&costs);
  RengaCall(code);
  RengaCall(RengaOptionsGetString("profile_view", &view, NULL));
  RengaCall(RengaViewerCreate(app->comm, view ? view : "ascii", &viewer));
  RengaCall(RengaProfileView(profile, viewer));
  RengaCall(RengaMachineView(machine, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  return RENGA_SUCCESS;
}

RengaErrorCode AppProfile(const App *app)
{
  RengaGraph graph = NULL;
  RengaMachine machine = NULL;
  RengaProfile profile = NULL;
  RengaCall(AppLoadGraph(app->comm, &graph));
  RengaCall(MakeMachine(app->comm, &machine));
  RengaCall(RengaProfileCreate(app->comm, &profile));
  RengaCall(RengaProfileSetGraph(profile, graph));
  if (machine) RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaProfileSetFromOptions(profile));
  RengaCall(Show(app, graph, profile));
  RengaCall(RengaProfileDestroy(&profile));
  if (machine) RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}
