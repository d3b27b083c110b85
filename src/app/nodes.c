/* renga plan on a machine that is not this one, for one or several numbers of its nodes: does it
   fit, how fast is a step, what would twice the nodes give. */
#include "app.h"
#include <math.h>
#include <string.h>

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
  RengaCall(RengaProfileCreate(comm, &planning->profile));
  RengaCall(RengaProfileSetMachine(planning->profile, planning->machine));
  RengaCall(RengaProfileSetType(planning->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetFromOptions(planning->profile));
  RengaCall(RengaPartitionCreate(comm, &planning->partition));
  RengaCall(RengaPartitionSetGraph(planning->partition, graph));
  RengaCall(RengaPartitionSetMachine(planning->partition, planning->machine));
  RengaCall(RengaPartitionSetProfile(planning->partition, planning->profile));
  RengaCall(AppHasChunks(&several));
  if (!several) RengaCall(RengaPartitionSetType(planning->partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetRanks(planning->partition, (int)devices));
  RengaCall(RengaPartitionSetFromOptions(planning->partition));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlanMachine(RengaComm comm, RengaGraph graph, int64_t nodes, RengaPlan *plan)
{
  MachinePlanning planning = {NULL, NULL, NULL};
  RengaErrorCode code = SetUpMachinePlanning(comm, graph, nodes, &planning);
  if (!code) code = RengaPartitionSolve(planning.partition, plan);
  if (planning.partition) RengaCall(RengaPartitionDestroy(&planning.partition));
  if (planning.profile) RengaCall(RengaProfileDestroy(&planning.profile));
  if (planning.machine) RengaCall(RengaMachineDestroy(&planning.machine));
  return code; /* whoever asks decides whether it is an error */
}

static RengaErrorCode DescribePlan(RengaPlan plan, AppNodesRow *row)
{
  const int count = RengaPlanGetStageCount(plan);
  int least = RengaPlanGetStage(plan, 0)->shape.replicas, most = least;
  int64_t batch, microbatch;
  for (int s = 0; s < count; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    if (stage->shape.replicas < least) least = stage->shape.replicas;
    if (stage->shape.replicas > most) most = stage->shape.replicas;
    int64_t memory;
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &memory));
    if (memory > row->memory) row->memory = memory;
    row->recomputed += stage->shape.saved == RENGA_SAVED_RECOMPUTE;
  }
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaPlanGetPrediction(plan, &row->prediction));
  row->used = RengaPlanGetRankCount(plan);
  row->microbatches = RengaPlanMicrobatches(plan, batch);
  row->rate = (double)batch / row->prediction.step;
  if (least == most)
    snprintf(row->shape, sizeof row->shape, "%d x %d", count, most);
  else
    snprintf(row->shape, sizeof row->shape, "%d x %d-%d", count, least, most);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRow(RengaComm comm, RengaGraph graph, int64_t nodes, int64_t per_node,
                              AppNodesRow *row)
{
  RengaPlan plan = NULL;
  *row = (AppNodesRow){.nodes = nodes, .devices = nodes * per_node};
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = AppPlanMachine(comm, graph, nodes, &plan);
  RengaErrorSetHandler(NULL, NULL);
  if (code) snprintf(row->refusal, sizeof row->refusal, "%s", RengaErrorGetMessage());
  if (code == RENGA_ERR_MEMORY || code == RENGA_ERR_PLAN) return RENGA_SUCCESS;
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCheck(!code, printer, code, "%s", row->refusal);
  const RengaErrorCode described = DescribePlan(plan, row);
  row->fits = true;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(described);
  return RENGA_SUCCESS;
}

/* The fewest nodes that it fits on, by planning for some between the most that are too few and the
   fewest that are enough. */
static RengaErrorCode FindFewest(RengaComm comm, RengaGraph graph, int64_t per_node, int count,
                                 const AppNodesRow rows[], AppNodesRow *fewest)
{
  int64_t low = 0;
  *fewest = (AppNodesRow){.nodes = INT64_MAX};
  for (int i = 0; i < count; i++)
    if (rows[i].fits && rows[i].nodes < fewest->nodes) *fewest = rows[i];
  for (int i = 0; i < count; i++)
    if (!rows[i].fits && rows[i].nodes < fewest->nodes && rows[i].nodes > low) low = rows[i].nodes;
  while (fewest->fits && fewest->nodes - low > 1) {
    AppNodesRow middle;
    RengaCall(MakeRow(comm, graph, low + (fewest->nodes - low) / 2, per_node, &middle));
    if (middle.fits)
      *fewest = middle;
    else
      low = middle.nodes;
  }
  return RENGA_SUCCESS;
}

/* Samples per device and second, beside those of the fewest nodes that fit. */
static void CompareSpeeds(int count, AppNodesRow rows[])
{
  const AppNodesRow *first = NULL;
  for (int i = 0; i < count; i++)
    if (rows[i].fits && (!first || rows[i].devices < first->devices)) first = &rows[i];
  for (int i = 0; i < count; i++)
    if (rows[i].fits)
      rows[i].efficiency =
          rows[i].rate / (double)rows[i].devices / (first->rate / (double)first->devices);
}

static RengaErrorCode PrintNodeRow(RengaViewer viewer, const AppNodesRow *row)
{
  char memory[24], step[24], gap[24] = "";
  RengaCall(RengaViewerPrintf(viewer, "  %6lld  %8lld  ", (long long)row->nodes,
                              (long long)row->devices));
  if (!row->fits) {
    RengaCall(RengaViewerPrintf(viewer, "does not fit\n"));
    return RENGA_SUCCESS;
  }
  RengaFormatBytes((double)row->memory, sizeof memory, memory);
  RengaFormatSeconds(row->prediction.step, sizeof step, step);
  if (row->prediction.bound > 0)
    snprintf(gap, sizeof gap, "%.2f %%", 100 * (row->prediction.step / row->prediction.bound - 1));
  RengaCall(RengaViewerPrintf(viewer, "%-12s  %8d  %13lld  %10d  %9s  %8s  %9.4g  %8.1f %%  %8s\n",
                              row->shape, row->used, (long long)row->microbatches, row->recomputed,
                              memory, step, row->rate, 100 * row->efficiency, gap));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintNodeTable(RengaViewer viewer, const char *machine, int count,
                                     const AppNodesRow rows[])
{
  RengaCall(RengaViewerPrintf(viewer, "plans for %s\n", machine));
  RengaCall(RengaViewerPrintf(viewer,
                              "  %6s  %8s  %-12s  %8s  %13s  %10s  %9s  %8s  %9s  %10s  %8s\n",
                              "nodes", "devices", "stages x rep", "used", "micro-batches",
                              "recomputed", "memory", "step", "samples/s", "efficiency", "gap"));
  for (int i = 0; i < count; i++) RengaCall(PrintNodeRow(viewer, &rows[i]));
  return RENGA_SUCCESS;
}

static const AppNodesRow *FindNodeRow(int count, const AppNodesRow rows[], int64_t nodes)
{
  for (int i = 0; i < count; i++)
    if (rows[i].nodes == nodes && rows[i].fits) return &rows[i];
  return NULL;
}

/* What the table says, in words: on how few nodes it fits, and what twice the nodes give. */
static RengaErrorCode PrintAnswers(RengaViewer viewer, const AppNodesRow *fewest, int count,
                                   const AppNodesRow rows[])
{
  char step[24];
  for (int i = 0; i < count; i++)
    if (!rows[i].fits)
      RengaCall(RengaViewerPrintf(viewer, "%lld node%s: %s\n", (long long)rows[i].nodes,
                                  rows[i].nodes == 1 ? "" : "s", rows[i].refusal));
  if (fewest->fits) {
    RengaFormatSeconds(fewest->prediction.step, sizeof step, step);
    RengaCall(RengaViewerPrintf(viewer, "it fits on %lld node%s (%d devices, %s per step)%s\n",
                                (long long)fewest->nodes, fewest->nodes == 1 ? "" : "s",
                                fewest->used, step, fewest->nodes > 1 ? " and on no fewer" : ""));
  }
  for (int i = 0; i < count; i++) {
    const AppNodesRow *twice = FindNodeRow(count, rows, 2 * rows[i].nodes);
    if (!rows[i].fits || !twice) continue;
    RengaFormatSeconds(twice->prediction.step, sizeof step, step);
    RengaCall(RengaViewerPrintf(viewer, "%lld nodes instead of %lld: %.2f times as fast, %s\n",
                                (long long)twice->nodes, (long long)rows[i].nodes,
                                twice->rate / rows[i].rate, step));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowNodes(RengaComm comm, const char *machine, const AppNodesRow *fewest,
                                int count, const AppNodesRow rows[])
{
  const char *view = NULL;
  MPI_Comm printer;
  RengaViewer viewer = NULL;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("plan_view", &view, NULL));
  const bool draw = view && !strncmp(view, "draw", 4);
  RengaCheck(!view || !*view || draw || !strncmp(view, "ascii", 5), printer, RENGA_ERR_OPTION,
             "plans for several numbers of nodes are shown as ascii or draw, not as %s", view);
  RengaCall(RengaViewerCreate(comm, draw ? "ascii" : view, &viewer));
  RengaErrorCode code = PrintNodeTable(viewer, machine, count, rows);
  if (!code) code = PrintAnswers(viewer, fewest, count, rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  if (!draw) return RENGA_SUCCESS;
  RengaCall(RengaViewerCreate(comm, view, &viewer));
  code = AppDrawNodes(viewer, machine, count, rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  if (view[4] == ':') RengaCall(RengaPrintf(printer, "wrote %s\n", view + 5));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlanNodes(RengaComm comm, RengaGraph graph, RengaMachine machine)
{
  AppNodesRow *rows = NULL;
  const int64_t *nodes;
  const char *name;
  int64_t per_node = 0;
  int count = 0;
  RengaCall(RengaMachineGetNodeCounts(machine, &count, &nodes));
  RengaCall(RengaMachineGetDevicesPerNode(machine, &per_node));
  RengaCall(RengaMachineGetName(machine, &name));
  RengaCall(RengaMalloc(count, &rows));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < count && !code; i++)
    code = MakeRow(comm, graph, nodes[i], per_node, &rows[i]);
  AppNodesRow fewest;
  if (!code) code = FindFewest(comm, graph, per_node, count, rows, &fewest);
  if (!code) {
    CompareSpeeds(count, rows);
    code = ShowNodes(comm, name, &fewest, count, rows);
  }
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
