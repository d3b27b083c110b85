/* renga plan on a machine that is not this one, for several numbers of its nodes: does
   it fit, how fast is a step, what would twice the nodes give. */
#include "app.h"
#include <string.h>

enum { DEVICES_MOST = 1000000 }; /* as of -partition_ranks */

/* Of one planning. */
typedef struct {
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
} MachinePlanning;

static RengaErrorCode SetUpMachinePlanning(RengaComm comm, RengaGraph graph, int64_t nodes,
                                           MachinePlanning *planning)
{
  int64_t devices = 0;
  bool several;
  RengaCall(RengaMachineCreate(comm, &planning->machine));
  RengaCall(RengaMachineSetFromOptions(planning->machine));
  if (nodes) RengaCall(RengaMachineSetNodes(planning->machine, nodes));
  RengaCall(RengaMachineGetDeviceCount(planning->machine, &devices));
  RengaCheck(devices <= DEVICES_MOST, AppPrinter(comm), RENGA_ERR_OPTION,
             "the machine has %lld devices, and plans are of at most %d: give -machine_nodes",
             (long long)devices, DEVICES_MOST);
  RengaCall(RengaProfileCreate(comm, &planning->profile));
  RengaCall(RengaProfileSetMachine(planning->profile, planning->machine));
  RengaCall(RengaProfileSetType(planning->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetFromOptions(planning->profile));
  RengaCall(RengaPartitionCreate(comm, &planning->partition));
  if (graph) RengaCall(RengaPartitionSetGraph(planning->partition, graph));
  RengaCall(RengaPartitionSetMachine(planning->partition, planning->machine));
  RengaCall(RengaPartitionSetProfile(planning->partition, planning->profile));
  RengaCall(AppHasChunks(comm, &several));
  if (!several) RengaCall(RengaPartitionSetType(planning->partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetRanks(planning->partition, (int)devices));
  RengaCall(RengaPartitionSetFromOptions(planning->partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndMachinePlanning(MachinePlanning *planning)
{
  if (planning->partition) RengaCall(RengaPartitionDestroy(&planning->partition));
  if (planning->profile) RengaCall(RengaProfileDestroy(&planning->profile));
  if (planning->machine) RengaCall(RengaMachineDestroy(&planning->machine));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlanMachine(RengaComm comm, RengaGraph graph, int64_t nodes, RengaPlan *plan)
{
  MachinePlanning planning = {NULL, NULL, NULL};
  RengaErrorCode code = SetUpMachinePlanning(comm, graph, nodes, &planning);
  if (!code) code = RengaPartitionSolve(planning.partition, plan);
  RengaCall(EndMachinePlanning(&planning));
  return code; /* whoever asks decides whether it is an error */
}

RengaErrorCode AppCheckMachinePlanning(RengaComm comm)
{
  MachinePlanning planning = {NULL, NULL, NULL};
  const RengaErrorCode code = SetUpMachinePlanning(comm, NULL, 0, &planning);
  RengaCall(EndMachinePlanning(&planning));
  return code;
}

/* The rate at which products could be computed by a device, on the average of kinds, in the
   precision of the options. */
static RengaErrorCode FindDevicePeak(RengaMachine machine, double *peak)
{
  const RengaMachineDevice *device;
  const int64_t *begin;
  const char *precision;
  int kinds = 1;
  RengaCall(RengaOptionsGetString("precision", &precision, NULL));
  RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
  *peak = 0;
  for (int k = 0; k < kinds; k++) {
    const double share = (double)(begin[k + 1] - begin[k]) / (double)begin[kinds];
    const struct {
      const char *precision;
      double rate;
    } rates[] = {{"fp32", device[k].matrix_rate},
                 {"bf16", device[k].matrix_rate_bfloat16},
                 {"fp16", device[k].matrix_rate_float16},
                 {"tf32", device[k].matrix_rate_tf32},
                 {"fp8", device[k].matrix_rate_fp8}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
      if (!strcmp(rates[i].precision, precision)) *peak += share * rates[i].rate;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DescribeNodes(RengaMachine machine, int64_t nodes, AppPlanRow *row)
{
  RengaCall(RengaMachineSetFromOptions(machine));
  if (nodes) RengaCall(RengaMachineSetNodes(machine, nodes));
  RengaCall(RengaMachineGetDeviceCount(machine, &row->devices));
  RengaCall(RengaMachineGetNodes(machine, &row->nodes));
  return FindDevicePeak(machine, &row->peak);
}

/* Stages, replicas, and memory of the fullest device. */
static RengaErrorCode DescribeStages(RengaPlan plan, AppPlanRow *row)
{
  const int count = RengaPlanGetStageCount(plan);
  int least = RengaPlanGetStage(plan, 0)->shape.replicas, most = least;
  for (int s = 0; s < count; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    int64_t memory;
    if (stage->shape.replicas < least) least = stage->shape.replicas;
    if (stage->shape.replicas > most) most = stage->shape.replicas;
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &memory));
    if (memory > row->memory) row->memory = memory;
    row->recomputed += stage->shape.saved == RENGA_SAVED_RECOMPUTE;
    row->flops += stage->forward_flops;
  }
  if (least == most)
    snprintf(row->shape, sizeof row->shape, "%d x %d", count, most);
  else
    snprintf(row->shape, sizeof row->shape, "%d x %d-%d", count, least, most);
  return RENGA_SUCCESS;
}

/* A backward is counted as two forwards, and what is computed again not at all. */
static RengaErrorCode DescribePlan(RengaPlan plan, AppPlanRow *row)
{
  int64_t batch, microbatch;
  RengaCall(DescribeStages(plan, row));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaPlanGetPrediction(plan, &row->prediction));
  row->used = RengaPlanGetRankCount(plan);
  row->microbatches = RengaPlanMicrobatches(plan, batch);
  row->batch = batch;
  row->rate = (double)batch / row->prediction.step;
  row->flops *= 3 * row->rate / (double)row->devices;
  return RENGA_SUCCESS;
}

RengaErrorCode AppMakePlanRow(RengaComm comm, RengaGraph graph, int64_t nodes, AppPlanRow *row)
{
  RengaMachine machine = NULL;
  RengaPlan plan = NULL;
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaErrorCode code = DescribeNodes(machine, nodes, row);
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(code);
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  row->code = AppPlanMachine(comm, graph, nodes, &plan);
  RengaErrorSetHandler(NULL, NULL);
  row->fits = !row->code;
  if (!row->fits) snprintf(row->refusal, sizeof row->refusal, "%s", RengaErrorGetMessage());
  if (!row->fits) return RENGA_SUCCESS;
  code = DescribePlan(plan, row);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* It fits or not; another error ends the program. */
static RengaErrorCode MakeNodeRow(RengaComm comm, RengaGraph graph, int64_t nodes, AppPlanRow *row)
{
  const MPI_Comm printer = AppPrinter(comm);
  *row = (AppPlanRow){.fits = false};
  snprintf(row->value[0], sizeof row->value[0], "%lld", (long long)nodes);
  RengaCall(AppMakePlanRow(comm, graph, nodes, row));
  row->place = (double)row->devices;
  RengaCheck(row->fits || row->code == RENGA_ERR_MEMORY || row->code == RENGA_ERR_PLAN, printer,
             row->code, "%s", row->refusal);
  return RENGA_SUCCESS;
}

/* The fewest nodes that it fits on, by planning for some between the most that are too few and the
   fewest that are enough. */
static RengaErrorCode FindFewest(RengaComm comm, RengaGraph graph, int count,
                                 const AppPlanRow rows[], AppPlanRow *fewest)
{
  int64_t low = 0;
  *fewest = (AppPlanRow){.nodes = INT64_MAX};
  for (int i = 0; i < count; i++)
    if (rows[i].fits && rows[i].nodes < fewest->nodes) *fewest = rows[i];
  for (int i = 0; i < count; i++)
    if (!rows[i].fits && rows[i].nodes < fewest->nodes && rows[i].nodes > low) low = rows[i].nodes;
  while (fewest->fits && fewest->nodes - low > 1) {
    AppPlanRow middle;
    RengaCall(MakeNodeRow(comm, graph, low + (fewest->nodes - low) / 2, &middle));
    if (middle.fits)
      *fewest = middle;
    else
      low = middle.nodes;
  }
  return RENGA_SUCCESS;
}

/* Samples per device and second, beside those of the fewest nodes that fit. */
static void CompareSpeeds(int count, AppPlanRow rows[])
{
  const AppPlanRow *first = NULL;
  for (int i = 0; i < count; i++)
    if (rows[i].fits && (!first || rows[i].devices < first->devices)) first = &rows[i];
  for (int i = 0; i < count; i++)
    if (rows[i].fits)
      rows[i].efficiency =
          rows[i].rate / (double)rows[i].devices / (first->rate / (double)first->devices);
}

static const AppPlanRow *FindNodeRow(int count, const AppPlanRow rows[], int64_t nodes)
{
  for (int i = 0; i < count; i++)
    if (rows[i].nodes == nodes && rows[i].fits) return &rows[i];
  return NULL;
}

/* What the table says, in words: on how few nodes it fits, and what twice the nodes give. */
static RengaErrorCode PrintAnswers(RengaViewer viewer, const AppPlanRow *fewest, int count,
                                   const AppPlanRow rows[])
{
  char step[24];
  for (int i = 0; i < count; i++)
    if (!rows[i].fits)
      RengaCall(RengaViewerPrintf(viewer, "%lld node%s: %s\n", (long long)rows[i].nodes,
                                  rows[i].nodes == 1 ? "" : "s", rows[i].refusal));
  if (fewest->fits) {
    RengaFormatSeconds(fewest->prediction.step, sizeof step, step);
    RengaCall(RengaViewerPrintf(
        viewer, "it fits on %lld node%s (%d device%s, %s per step)%s\n", (long long)fewest->nodes,
        fewest->nodes == 1 ? "" : "s", fewest->used, fewest->used == 1 ? "" : "s", step,
        fewest->nodes > 1 ? "; none of the fewer that were tried does" : ""));
  }
  for (int i = 0; i < count; i++) {
    const AppPlanRow *twice = FindNodeRow(count, rows, 2 * rows[i].nodes);
    if (!rows[i].fits || !twice) continue;
    RengaFormatSeconds(twice->prediction.step, sizeof step, step);
    RengaCall(RengaViewerPrintf(viewer, "%lld nodes instead of %lld: %.2f times as fast, %s\n",
                                (long long)twice->nodes, (long long)rows[i].nodes,
                                twice->rate / rows[i].rate, step));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowNodes(RengaComm comm, const AppPlanTable *table, const AppPlanRow *fewest)
{
  const char *view = NULL;
  char title[256];
  RengaViewer viewer = NULL;
  RengaCall(AppOpenPlanTable(comm, &view, &viewer));
  RengaErrorCode code = AppPrintPlanTable(viewer, table);
  if (!code) code = PrintAnswers(viewer, fewest, table->count, table->rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  snprintf(title, sizeof title, "%s nodes", table->subject);
  const AppCurve curve = {.title = title, .along = "devices", .ideal = true, .n_curves = 1};
  return AppDrawPlanTable(comm, view, &curve, table);
}

RengaErrorCode AppPlanNodes(RengaComm comm, RengaGraph graph, RengaMachine machine)
{
  AppPlanTable table = {.n_along = 1, .along = {"nodes"}, .compared = "efficiency"};
  AppPlanRow fewest;
  const int64_t *nodes;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(AppRefuseOfOnePlan(comm));
  RengaCall(AppReadBudget(comm, graph, &table.budget));
  RengaCall(RengaMachineGetNodeCounts(machine, &table.count, &nodes));
  RengaCall(RengaMachineGetName(machine, &table.subject));
  RengaCall(RengaMalloc(table.count, &table.rows));
  for (int i = 0; i < table.count && !code; i++)
    code = MakeNodeRow(comm, graph, nodes[i], &table.rows[i]);
  if (!code) code = FindFewest(comm, graph, table.count, table.rows, &fewest);
  if (!code) {
    CompareSpeeds(table.count, table.rows);
    code = ShowNodes(comm, &table, &fewest);
  }
  RengaFree(&table.rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
