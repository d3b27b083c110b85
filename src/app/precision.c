/* renga plan in float32 for a machine whose products of bfloat16 are faster: what those would give.
   It is one more plan, in the sizes of the first, which only the small problems pay for. */
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

/* Options that are set for a while. */
enum { MEANWHILE_MOST = 8 };
typedef struct {
  int count;
  struct {
    const char *name;
    char value[24];
    bool given;
  } was[MEANWHILE_MOST];
} Meanwhile;

static RengaErrorCode SetMeanwhile(Meanwhile *meanwhile, const char *name, const char *text)
{
  const char *value;
  bool given = false;
  RengaCall(RengaOptionsGetString(name, &value, &given));
  const int at = meanwhile->count++;
  meanwhile->was[at].name = name;
  meanwhile->was[at].given = given;
  snprintf(meanwhile->was[at].value, sizeof meanwhile->was[at].value, "%s", value ? value : "");
  RengaCall(RengaOptionsSetValue(name, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetNumberMeanwhile(Meanwhile *meanwhile, const char *name, int64_t number)
{
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  RengaCall(SetMeanwhile(meanwhile, name, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetBack(const Meanwhile *meanwhile)
{
  for (int i = meanwhile->count - 1; i >= 0; i--)
    if (meanwhile->was[i].given)
      RengaCall(RengaOptionsSetValue(meanwhile->was[i].name, meanwhile->was[i].value));
    else
      RengaCall(RengaOptionsClearValue(meanwhile->was[i].name));
  return RENGA_SUCCESS;
}

/* As the network was read and planned, but in bfloat16: a batch that is cut or not, which is not
   told once more, in the same micro-batches, leaves and tensor ranks: other ones take as long to
   look at as they did. Sizes that are listed are those to choose from. Lanes are Renga's choice
   again where they were. */
static RengaErrorCode SetForNarrow(RengaGraph graph, RengaPlan plan, const AppLanes *lanes,
                                   Meanwhile *meanwhile)
{
  const char *sizes;
  int64_t whole, batch, microbatch;
  bool listed = false;
  RengaCall(RengaOptionsGetString("partition_microbatch_sizes", &sizes, &listed));
  RengaCall(RengaGraphGetWholeBatch(graph, &whole));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(SetNumberMeanwhile(meanwhile, "graph_whole_batch", whole));
  if (!listed) RengaCall(SetNumberMeanwhile(meanwhile, "microbatch_size", microbatch));
  RengaCall(SetNumberMeanwhile(meanwhile, "partition_leaf", RengaPlanGetLeaf(plan)));
  RengaCall(
      SetNumberMeanwhile(meanwhile, "layout_tensor", RengaPlanGetStage(plan, 0)->shape.tensor));
  if (lanes->heads) RengaCall(SetMeanwhile(meanwhile, "graph_lanes", "auto"));
  if (lanes->tokens) RengaCall(SetMeanwhile(meanwhile, "graph_token_lanes", "0"));
  RengaCall(SetMeanwhile(meanwhile, "precision", "bf16"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppSayFasterPrecision(RengaComm comm, RengaGraph graph, RengaMachine machine,
                                     const AppLanes *lanes, RengaPlan plan)
{
  RengaPlanPrediction prediction;
  char text[24];
  double step = 0;
  bool open = false;
  Meanwhile meanwhile = {0};
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(IsOpenPrecision(graph, machine, &open));
  if (!open) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaErrorCode code = SetForNarrow(graph, plan, lanes, &meanwhile);
  if (!code) code = PredictOtherStep(comm, &step);
  RengaCall(SetBack(&meanwhile));
  RengaCall(code);
  if (step <= 0 || prediction.step < worth_saying * step) return RENGA_SUCCESS;
  RengaFormatSeconds(step, sizeof text, text);
  RengaCall(RengaPrintf(printer, "  bf16 (-precision bf16) would take at most %s per step", text));
  RengaTextFormat(text, sizeof text, "%.2g", prediction.step / step);
  RengaCall(RengaPrintf(printer, ", %s times as fast; results differ\n", text));
  return RENGA_SUCCESS;
}
