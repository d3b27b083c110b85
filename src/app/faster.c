/* What another choice of the user's would give, which changes results: renga plan in float32 for a
   machine whose products of bfloat16 are faster, and of a network with batch statistics, whose
   micro-batches are as large as fit. It is one more plan each, in the sizes of the first. */
#include "app.h"
#include "renga/private/number.h"

/* Times as fast from which it is said; up to how many nodes of the network times devices another
   precision is looked at. */
static const double worth_saying = 1.3;
enum { MOST_WORK = 200000 };

/* The plan is a searched one that is printed, and nobody says what else is settled. */
static RengaErrorCode IsOpenTo(const char *const settled[], bool *open)
{
  for (int i = 0; settled[i] && *open; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(settled[i], &text, &given));
    *open = !given;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode IsOpenPrecision(RengaGraph graph, RengaMachine machine, bool *open)
{
  static const char *const settled[] = {"precision", "plan_load", "plan_view", NULL};
  const RengaMachineDevice *device;
  int64_t devices;
  RengaCall(RengaMachineGetDevice(machine, &device));
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  *open = device->matrix_rate_bfloat16 > device->matrix_rate &&
          devices * RengaGraphGetNodeCount(graph) < MOST_WORK;
  RengaCall(IsOpenTo(settled, open));
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

/* As the network was read and planned: a batch that is cut or not, which is not told once more, in
   the same leaves, with so many tensor ranks, as other ones take as long to look at as they did.
   Lanes are Renga's choice again where they were. */
static RengaErrorCode SetAsPlanned(RengaGraph graph, RengaPlan plan, const AppLanes *lanes,
                                   int tensor, Meanwhile *meanwhile)
{
  int64_t whole;
  RengaCall(RengaGraphGetWholeBatch(graph, &whole));
  RengaCall(SetNumberMeanwhile(meanwhile, "graph_whole_batch", whole));
  RengaCall(SetNumberMeanwhile(meanwhile, "partition_leaf", RengaPlanGetLeaf(plan)));
  RengaCall(SetNumberMeanwhile(meanwhile, "layout_tensor", tensor));
  if (lanes->heads) RengaCall(SetMeanwhile(meanwhile, "graph_lanes", "auto"));
  if (lanes->tokens) RengaCall(SetMeanwhile(meanwhile, "graph_token_lanes", "0"));
  return RENGA_SUCCESS;
}

/* But in bfloat16. Sizes that are listed are those to choose from. */
static RengaErrorCode SetForNarrow(RengaGraph graph, RengaPlan plan, const AppLanes *lanes,
                                   Meanwhile *meanwhile)
{
  const char *sizes;
  int64_t batch, microbatch;
  bool listed = false;
  const int tensor = RengaPlanGetStage(plan, 0)->shape.tensor;
  RengaCall(SetAsPlanned(graph, plan, lanes, tensor, meanwhile));
  RengaCall(RengaOptionsGetString("partition_microbatch_sizes", &sizes, &listed));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  if (!listed) RengaCall(SetNumberMeanwhile(meanwhile, "microbatch_size", microbatch));
  RengaCall(SetMeanwhile(meanwhile, "precision", "bf16"));
  return RENGA_SUCCESS;
}

/* option: what gives the other plan, which is the one of the options as they are meanwhile. */
static RengaErrorCode SayOtherStep(RengaComm comm, RengaPlan plan, const char *what,
                                   const char *option)
{
  RengaPlanPrediction prediction;
  char text[24];
  double step = 0;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCall(PredictOtherStep(comm, &step));
  if (step <= 0 || prediction.step < worth_saying * step) return RENGA_SUCCESS;
  RengaFormatSeconds(step, sizeof text, text);
  RengaCall(RengaPrintf(printer, "  %s (%s) would take at most %s per step", what, option, text));
  RengaTextFormat(text, sizeof text, "%.2g", prediction.step / step);
  RengaCall(RengaPrintf(printer, ", %s times as fast; results differ\n", text));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayFasterPrecision(RengaComm comm, RengaGraph graph, RengaMachine machine,
                                         const AppLanes *lanes, RengaPlan plan)
{
  bool open = false;
  Meanwhile meanwhile = {0};
  RengaCall(IsOpenPrecision(graph, machine, &open));
  if (!open) return RENGA_SUCCESS;
  RengaErrorCode code = SetForNarrow(graph, plan, lanes, &meanwhile);
  if (!code) code = SayOtherStep(comm, plan, "bf16", "-precision bf16");
  RengaCall(SetBack(&meanwhile));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A micro-batch for each rank, of two values or more for each statistic; 0: the plan's is as
   small, or somebody asks for it. */
static RengaErrorCode FindSmallerMicrobatch(RengaGraph graph, RengaPlan plan, int64_t *size)
{
  static const char *const settled[] = {"microbatch_size", "partition_microbatch_sizes",
                                        "plan_load", "plan_view", NULL};
  int64_t batch, microbatch, values;
  int statistics, node, ranks;
  RengaCall(RengaGraphGetBatchStatistics(graph, &statistics, &node, &values));
  RengaCall(RengaPlanGetAvailableRanks(plan, &ranks));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  bool open = statistics > 0;
  RengaCall(IsOpenTo(settled, &open));
  *size = ranks > 0 ? (batch + ranks - 1) / ranks : batch;
  while (*size < microbatch && (batch % *size ? batch % *size : *size) * values < 2) ++*size;
  if (!open || *size >= microbatch) *size = 0;
  return RENGA_SUCCESS;
}

/* With one tensor rank, where nobody wants others: each rank has a micro-batch. */
static RengaErrorCode SayFasterMicrobatch(RengaComm comm, RengaGraph graph, const AppLanes *lanes,
                                          RengaPlan plan)
{
  Meanwhile meanwhile = {0};
  char option[48];
  int64_t size;
  RengaCall(FindSmallerMicrobatch(graph, plan, &size));
  if (!size) return RENGA_SUCCESS;
  snprintf(option, sizeof option, "-microbatch_size %lld", (long long)size);
  const int tensor = lanes->heads ? 1 : RengaPlanGetStage(plan, 0)->shape.tensor;
  RengaErrorCode code = SetAsPlanned(graph, plan, lanes, tensor, &meanwhile);
  if (!code) code = SetNumberMeanwhile(&meanwhile, "microbatch_size", size);
  if (!code) code = SayOtherStep(comm, plan, "statistics of fewer samples", option);
  RengaCall(SetBack(&meanwhile));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppSayFaster(RengaComm comm, RengaGraph graph, RengaMachine machine,
                            const AppLanes *lanes, RengaPlan plan)
{
  RengaCall(SayFasterMicrobatch(comm, graph, lanes, plan));
  RengaCall(SayFasterPrecision(comm, graph, machine, lanes, plan));
  return RENGA_SUCCESS;
}
