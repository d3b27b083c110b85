/* renga plan on a machine that is not this one, for several numbers of its nodes, or values of an
   option: does it fit, how fast is a step, what would twice the nodes give. */
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
  RengaCall(AppHasChunks(comm, &several));
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

static RengaErrorCode DescribePlan(RengaPlan plan, AppPlanRow *row)
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
  row->batch = batch;
  row->rate = (double)batch / row->prediction.step;
  if (least == most)
    snprintf(row->shape, sizeof row->shape, "%d x %d", count, most);
  else
    snprintf(row->shape, sizeof row->shape, "%d x %d-%d", count, least, most);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRow(RengaComm comm, RengaGraph graph, int64_t nodes, int64_t per_node,
                              AppPlanRow *row)
{
  RengaPlan plan = NULL;
  *row = (AppPlanRow){
      .nodes = nodes, .devices = nodes * per_node, .place = (double)(nodes * per_node)};
  snprintf(row->name, sizeof row->name, "%lld", (long long)nodes);
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
    RengaCall(MakeRow(comm, graph, low + (fewest->nodes - low) / 2, per_node, &middle));
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

/* What is printed. */
typedef struct {
  const char *subject, *along; /* plans for what; what the rows differ in */
  bool nodes;                  /* numbers of nodes, not an option's values */
  AppBudget budget;
} RowTable;

/* What the whole training takes. */
static RengaErrorCode PrintCost(RengaViewer viewer, const RowTable *table, const AppPlanRow *row)
{
  char time[24];
  double steps;
  if (table->budget.samples <= 0) return RENGA_SUCCESS;
  const double seconds = AppTrainingTime(&table->budget, row->batch, row->prediction.step, &steps);
  AppFormatDays(seconds, sizeof time, time);
  RengaCall(RengaViewerPrintf(viewer, "  %10s  %10.4g", time, seconds / 3600 * (double)row->nodes));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintPlanRow(RengaViewer viewer, const RowTable *table, const AppPlanRow *row)
{
  char memory[24], step[24], gap[24] = "";
  const int width = table->nodes ? 6 : (int)strlen(table->along);
  RengaCall(RengaViewerPrintf(viewer, "  %*s  %8lld  ", width, row->name, (long long)row->devices));
  if (!row->fits) {
    RengaCall(RengaViewerPrintf(viewer, "does not fit\n"));
    return RENGA_SUCCESS;
  }
  RengaFormatBytes((double)row->memory, sizeof memory, memory);
  RengaFormatSeconds(row->prediction.step, sizeof step, step);
  if (row->prediction.bound > 0)
    snprintf(gap, sizeof gap, "%.2f %%", 100 * (row->prediction.step / row->prediction.bound - 1));
  RengaCall(RengaViewerPrintf(viewer, "%-12s  %8d  %13lld  %10d  %9s  %8s  %9.4g  %8.1f %%  %8s",
                              row->shape, row->used, (long long)row->microbatches, row->recomputed,
                              memory, step, row->rate, 100 * row->efficiency, gap));
  RengaCall(PrintCost(viewer, table, row));
  RengaCall(RengaViewerPrintf(viewer, "\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintTable(RengaViewer viewer, const RowTable *table, int count,
                                 const AppPlanRow rows[])
{
  RengaCall(RengaViewerPrintf(viewer, "plans for %s\n", table->subject));
  RengaCall(RengaViewerPrintf(
      viewer, "  %6s  %8s  %-12s  %8s  %13s  %10s  %9s  %8s  %9s  %10s  %8s", table->along,
      "devices", "stages x rep", "used", "micro-batches", "recomputed", "memory", "step",
      "samples/s", table->nodes ? "efficiency" : "of best", "gap"));
  if (table->budget.samples > 0)
    RengaCall(RengaViewerPrintf(viewer, "  %10s  %10s", "training", "node-hours"));
  RengaCall(RengaViewerPrintf(viewer, "\n"));
  for (int i = 0; i < count; i++) RengaCall(PrintPlanRow(viewer, table, &rows[i]));
  return RENGA_SUCCESS;
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
        viewer, "it fits on %lld node%s (%d devices, %s per step)%s\n", (long long)fewest->nodes,
        fewest->nodes == 1 ? "" : "s", fewest->used, step,
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

/* Before anything is planned. */
static RengaErrorCode RefuseOfOne(RengaComm comm)
{
  static const char *const of_one[] = {"plan_save", "schedule_view"};
  MPI_Comm printer;
  const char *text;
  bool given;
  RengaCall(RengaObjectGetComm(comm, &printer));
  for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
    RengaCall(RengaOptionsGetString(of_one[i], &text, &given));
    RengaCheck(!given, printer, RENGA_ERR_OPTION,
               "-%s %s is for one plan, and a table of several is asked for", of_one[i], text);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenTableView(RengaComm comm, const char **view, RengaViewer *viewer)
{
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("plan_view", view, NULL));
  const bool draw = *view && !strncmp(*view, "draw", 4);
  RengaCheck(!*view || !**view || draw || !strncmp(*view, "ascii", 5), printer, RENGA_ERR_OPTION,
             "a table of several plans is shown as ascii or draw, not as %s", *view);
  RengaCall(RengaViewerCreate(comm, draw ? "ascii" : *view, viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawTable(RengaComm comm, const char *view, const AppCurve *curve, int count,
                                const AppPlanRow rows[])
{
  MPI_Comm printer;
  RengaViewer viewer = NULL;
  if (!view || strncmp(view, "draw", 4)) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaViewerCreate(comm, view, &viewer));
  const RengaErrorCode code = AppDrawRows(viewer, curve, count, rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  if (view[4] == ':') RengaCall(RengaPrintf(printer, "wrote %s\n", view + 5));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowNodes(RengaComm comm, const char *machine, const AppBudget *budget,
                                const AppPlanRow *fewest, int count, const AppPlanRow rows[])
{
  const char *view = NULL;
  char title[256];
  RengaViewer viewer = NULL;
  const RowTable table = {.subject = machine, .along = "nodes", .nodes = true, .budget = *budget};
  RengaCall(OpenTableView(comm, &view, &viewer));
  RengaErrorCode code = PrintTable(viewer, &table, count, rows);
  if (!code) code = PrintAnswers(viewer, fewest, count, rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  snprintf(title, sizeof title, "%s nodes", machine);
  const AppCurve curve = {.title = title, .along = "devices", .ideal = true};
  return DrawTable(comm, view, &curve, count, rows);
}

RengaErrorCode AppPlanNodes(RengaComm comm, RengaGraph graph, RengaMachine machine)
{
  AppPlanRow *rows = NULL;
  AppBudget budget;
  const int64_t *nodes;
  const char *name;
  int64_t per_node = 0;
  int count = 0;
  RengaCall(RefuseOfOne(comm));
  RengaCall(AppReadBudget(comm, graph, &budget));
  RengaCall(RengaMachineGetNodeCounts(machine, &count, &nodes));
  RengaCall(RengaMachineGetDevicesPerNode(machine, &per_node));
  RengaCall(RengaMachineGetName(machine, &name));
  RengaCall(RengaMalloc(count, &rows));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < count && !code; i++)
    code = MakeRow(comm, graph, nodes[i], per_node, &rows[i]);
  AppPlanRow fewest;
  if (!code) code = FindFewest(comm, graph, per_node, count, rows, &fewest);
  if (!code) {
    CompareSpeeds(count, rows);
    code = ShowNodes(comm, name, &budget, &fewest, count, rows);
  }
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- -plan_sweep ---- */

enum { SWEEP_MOST = 64 };
typedef struct {
  char option[32];
  int count;
  char value[SWEEP_MOST][24];
} Sweep;

static bool IsSwept(const char *name)
{
  static const char *const names[] = {"batch_size",       "microbatch_size",    "reduction_leaf",
                                      "partition_stages", "partition_replicas", "pipeline_chunks",
                                      "partition_memory"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* "batch_size:512,1024" */
static RengaErrorCode ReadSweep(MPI_Comm printer, const char *text, Sweep *sweep)
{
  const size_t length = strcspn(text, ":");
  *sweep = (Sweep){.count = 0};
  snprintf(sweep->option, sizeof sweep->option, "%.*s", (int)length, text);
  RengaCheck(IsSwept(sweep->option) && text[length] == ':', printer, RENGA_ERR_OPTION,
             "-plan_sweep %s: write OPTION:VALUE,VALUE,... of batch_size, microbatch_size, "
             "reduction_leaf, partition_stages, partition_replicas, pipeline_chunks or "
             "partition_memory",
             text);
  for (const char *at = text + length + 1; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const size_t size = strcspn(at, ",");
    RengaCheck(sweep->count < SWEEP_MOST && size > 0 && size < sizeof sweep->value[0], printer,
               RENGA_ERR_OPTION, "-plan_sweep %s: at most %d values, none empty, please", text,
               SWEEP_MOST);
    snprintf(sweep->value[sweep->count++], sizeof sweep->value[0], "%.*s", (int)size, at);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeSweepRow(RengaComm comm, RengaGraph graph, const Sweep *sweep, int i,
                                   AppPlanRow *row)
{
  int64_t nodes = row->nodes, number;
  RengaCall(RengaOptionsSetValue(sweep->option, sweep->value[i]));
  RengaCall(RengaParseBytes(sweep->value[i], &number));
  RengaCall(MakeRow(comm, graph, nodes, row->devices / nodes, row));
  row->place = (double)number;
  snprintf(row->name, sizeof row->name, "%s", sweep->value[i]);
  return RENGA_SUCCESS;
}

static void CompareWithBest(int count, AppPlanRow rows[])
{
  double best = 0;
  for (int i = 0; i < count; i++)
    if (rows[i].fits && rows[i].rate > best) best = rows[i].rate;
  for (int i = 0; i < count; i++)
    if (rows[i].fits) rows[i].efficiency = rows[i].rate / best;
}

static RengaErrorCode ShowSweep(RengaComm comm, const RowTable *table, int count,
                                const AppPlanRow rows[])
{
  const char *view = NULL;
  RengaViewer viewer = NULL;
  RengaCall(OpenTableView(comm, &view, &viewer));
  RengaErrorCode code = PrintTable(viewer, table, count, rows);
  for (int i = 0; i < count && !code; i++)
    if (!rows[i].fits)
      code = RengaViewerPrintf(viewer, "%s %s: %s\n", table->along, rows[i].name, rows[i].refusal);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  const AppCurve curve = {.title = table->subject, .along = table->along};
  return DrawTable(comm, view, &curve, count, rows);
}

RengaErrorCode AppPlanSweep(RengaComm comm, RengaGraph graph, RengaMachine machine,
                            const char *text)
{
  Sweep sweep;
  RowTable table = {.nodes = false};
  AppPlanRow *rows = NULL;
  MPI_Comm printer;
  char title[256];
  const char *name;
  const int64_t *listed;
  int64_t devices, per_node;
  int counts;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(ReadSweep(printer, text, &sweep));
  RengaCall(RefuseOfOne(comm));
  RengaCall(RengaMachineGetNodeCounts(machine, &counts, &listed));
  RengaCheck(counts <= 1, printer, RENGA_ERR_OPTION,
             "-plan_sweep %s is for one number of nodes, -machine_nodes has %d", text, counts);
  RengaCall(AppReadBudget(comm, graph, &table.budget));
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  RengaCall(RengaMachineGetDevicesPerNode(machine, &per_node));
  RengaCall(RengaMachineGetName(machine, &name));
  const int64_t nodes = devices / per_node;
  snprintf(title, sizeof title, "%s, %lld node%s", name, (long long)nodes, nodes == 1 ? "" : "s");
  table.subject = title, table.along = sweep.option;
  RengaCall(RengaMalloc(sweep.count, &rows));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < sweep.count && !code; i++) {
    rows[i] = (AppPlanRow){.nodes = nodes, .devices = devices};
    code = MakeSweepRow(comm, graph, &sweep, i, &rows[i]);
  }
  CompareWithBest(code ? 0 : sweep.count, rows);
  if (!code) code = ShowSweep(comm, &table, sweep.count, rows);
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
