/* renga plan in float32 for a machine whose products of bfloat16 are faster: what those would give.
   It is one more plan, which only the small problems pay for. */
#include "app.h"
#include "renga/private/number.h"

/* Times as fast from which it is said; up to how many nodes of the network times devices. */
static const double worth_saying = 1.3;
enum { MOST_WORK = 200000 };

/* Nobody says which precision, and the plan is a searched one that is printed. */
static RengaErrorCode IsOpenPrecision(RengaGraph graph, RengaMachine machine, bool *open)
{
  static const char *const settled[] = {"precision", "plan_load", "plan_view"};
  const RengaMachineDevice *device;
  int64_t devices;
  RengaCall(RengaMachineGetDevice(machine, &device));
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  *open = device->matrix_rate_bfloat16 > device->matrix_rate &&
          devices * RengaGraphGetNodeCount(graph) < MOST_WORK;
  for (size_t i = 0; i < sizeof settled / sizeof settled[0] && *open; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(settled[i], &text, &given));
    *open = !given;
  }
  return RENGA_SUCCESS;
}

/* step 0: there is no such plan, for whatever reason. */
static RengaErrorCode PredictOtherStep(RengaComm comm, double *step)
{
  RengaGraph graph = NULL;
  RengaPlan plan = NULL;
  RengaPlanPrediction prediction = {0};
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  RengaErrorCode code = AppLoadGraph(comm, NULL, &graph);
  if (!code) code = AppPlanMachine(comm, graph, 0, &plan);
  RengaErrorSetHandler(NULL, NULL);
  if (!code) code = RengaPlanGetPrediction(plan, &prediction);
  *step = code ? 0 : prediction.step;
  if (plan) RengaCall(RengaPlanDestroy(&plan));
  if (graph) RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* As the network was read, but in bfloat16: lanes where Renga chooses them, and a batch that is cut
   or not, which is not told once more. The options are then as they were. */
static RengaErrorCode PredictNarrowStep(RengaComm comm, RengaGraph graph, const AppLanes *lanes,
                                        double *step)
{
  const char *chosen;
  char kept[16], tokens[24], whole[24];
  int64_t samples, token_lanes;
  bool given;
  RengaCall(RengaOptionsGetString("graph_lanes", &chosen, NULL));
  snprintf(kept, sizeof kept, "%s", chosen);
  RengaCall(RengaOptionsGetInt64("graph_token_lanes", &token_lanes, NULL));
  snprintf(tokens, sizeof tokens, "%lld", (long long)token_lanes);
  RengaCall(RengaOptionsGetInt64("graph_whole_batch", &samples, &given));
  RengaCall(RengaGraphGetWholeBatch(graph, &samples));
  snprintf(whole, sizeof whole, "%lld", (long long)samples);
  RengaCall(RengaOptionsSetValue("graph_whole_batch", whole));
  RengaCall(RengaOptionsSetValue("precision", "bf16"));
  RengaCall(AppReopenLanes(lanes));
  const RengaErrorCode code = PredictOtherStep(comm, step);
  if (!given) RengaCall(RengaOptionsClearValue("graph_whole_batch"));
  RengaCall(RengaOptionsClearValue("precision"));
  if (lanes->heads) RengaCall(RengaOptionsSetValue("graph_lanes", kept));
  if (lanes->tokens) RengaCall(RengaOptionsSetValue("graph_token_lanes", tokens));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppSayFasterPrecision(RengaComm comm, RengaGraph graph, RengaMachine machine,
                                     const AppLanes *lanes, RengaPlan plan)
{
  RengaPlanPrediction prediction;
  char text[24];
  double step = 0;
  bool open = false;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(IsOpenPrecision(graph, machine, &open));
  if (!open) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCall(PredictNarrowStep(comm, graph, lanes, &step));
  if (step <= 0 || prediction.step < worth_saying * step) return RENGA_SUCCESS;
  RengaFormatSeconds(step, sizeof text, text);
  RengaCall(RengaPrintf(printer, "  bf16 (-precision bf16) would take %s per step", text));
  RengaTextFormat(text, sizeof text, "%.2g", prediction.step / step);
  RengaCall(RengaPrintf(printer, ", %s times as fast; results differ\n", text));
  return RENGA_SUCCESS;
}
