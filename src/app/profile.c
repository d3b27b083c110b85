/* renga profile: what each operator of a network costs. */
#include "app.h"
#include <stdlib.h>
#include <string.h>

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

enum { MOST_SIZES = 64 };

/* As train chooses: an eighth of the batch. */
static RengaErrorCode DefaultSamples(RengaGraph graph, int64_t *samples)
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

/* "1,2,4" */
static RengaErrorCode GetSamples(RengaComm comm, RengaGraph graph, int *count, int64_t samples[])
{
  const char *text;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("profile_samples", &text, NULL));
  *count = 0;
  for (const char *at = text ? text : ""; *at;) {
    char *end;
    const long long size = strtoll(at, &end, 10);
    RengaCheck(end != at && (*end == ',' || *end == '\0') && *count < MOST_SIZES &&
                   size > (*count > 0 ? samples[*count - 1] : 0),
               printer, RENGA_ERR_OPTION,
               "-profile_samples %s: write sizes of micro-batches, rising: 1,2,4", text);
    samples[(*count)++] = size;
    at = end + (*end == ',');
  }
  if (*count > 0) return RENGA_SUCCESS;
  *count = 1;
  RengaCall(DefaultSamples(graph, &samples[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintProfileTotals(RengaComm comm, RengaGraph graph, RengaProfile profile,
                                         int64_t samples, const RengaProfileCost costs[])
{
  RengaGraphTotals totals;
  double forward = 0, backward = 0, update, accumulate;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    forward += costs[n].forward;
    backward += costs[n].backward;
  }
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaCall(RengaProfileGetUpdateSeconds(profile, totals.parameters, &update));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, totals.parameters, &accumulate));
  RengaCall(RengaPrintf(printer,
                        "whole network, micro-batch of %lld: forward %.6g s, backward %.6g s; "
                        "all parameters: add a gradient %.6g s, update %.6g s\n",
                        (long long)samples, forward, backward, accumulate, update));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintSizes(const App *app, RengaGraph graph, RengaProfile profile, int count,
                                 const int64_t samples[])
{
  RengaProfileCost *costs = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &costs));
  for (int s = 0; s < count && code == RENGA_SUCCESS; s++) {
    code = RengaProfileGetCosts(profile, samples[s], costs);
    if (code == RENGA_SUCCESS)
      code = PrintProfileTotals(app->comm, graph, profile, samples[s], costs);
  }
  RengaFree(&costs);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowProfile(const App *app, RengaGraph graph, RengaProfile profile,
                                  RengaMachine machine)
{
  RengaViewer viewer = NULL;
  const char *view, *file, *type;
  int count = 0;
  int64_t samples[MOST_SIZES];
  RengaCall(GetSamples(app->comm, graph, &count, samples));
  RengaCall(PrintSizes(app, graph, profile, count, samples));
  RengaCall(RengaOptionsGetString("profile_save", &file, NULL));
  if (file) RengaCall(RengaProfileSave(profile, file, count, samples));
  RengaCall(RengaProfileGetType(profile, &type));
  if (strcmp(type, RENGA_PROFILE_FILE)) RengaCall(RengaProfileGetMachine(profile, &machine));
  RengaCall(RengaOptionsGetString("profile_view", &view, NULL));
  RengaCall(RengaViewerCreate(app->comm, view ? view : "ascii", &viewer));
  RengaErrorCode code = RengaProfileView(profile, viewer);
  if (!code && machine) code = RengaMachineView(machine, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppProfile(const App *app)
{
  RengaGraph graph = NULL;
  RengaMachine machine = NULL;
  RengaProfile profile = NULL;
  RengaCall(AppLoadGraph(app->comm, NULL, &graph));
  RengaErrorCode code = MakeMachine(app->comm, &machine);
  if (!code) code = RengaProfileCreate(app->comm, &profile);
  if (!code) code = RengaProfileSetGraph(profile, graph);
  if (!code && machine) code = RengaProfileSetMachine(profile, machine);
  if (!code) code = RengaProfileSetFromOptions(profile);
  if (!code) code = ShowProfile(app, graph, profile, machine);
  if (profile) RengaCall(RengaProfileDestroy(&profile));
  if (machine) RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}
