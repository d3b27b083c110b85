/* renga plan: who would compute what, for any number of ranks, without running. */
#include "hostmemory.h"
#include "simulate.h"
#include <string.h>

enum { ANY_NUMBER = 1 << 20 };

/* Without mpiexec and -partition_ranks there is no number of ranks to fill: as many as the stages
   and replicas that are asked for need. */
static RengaErrorCode OpenLayout(const App *app, RengaPartition partition, bool *open)
{
  const char *names[] = {"partition_ranks", "layout_pipeline", "layout_data"}, *text, *type;
  bool given[3];
  for (int i = 0; i < 3; i++) RengaCall(RengaOptionsGetString(names[i], &text, &given[i]));
  RengaCall(RengaOptionsGetString("partition_type", &type, NULL));
  *open = RengaCommGetSize(app->comm) == 1 && !given[0];
  if (!*open) return RENGA_SUCCESS;
  RengaCall(RengaPartitionSetRanks(partition, ANY_NUMBER));
  RengaCall(RengaPartitionSetReplicas(partition, 1));
  if (strcmp(type, RENGA_PARTITION_MANUAL)) RengaCall(RengaPartitionSetStages(partition, 1));
  return RENGA_SUCCESS;
}

/* Bubble if time goes as FLOPs and a backward takes two forwards, one of them for gradients of
   parameters. */
static RengaErrorCode PrintSchedule(MPI_Comm printer, RengaPlan plan, RengaSchedule schedule)
{
  int p = RengaPlanGetStageCount(plan);
  double *time = NULL, makespan = 0, bubble = 0;
  const char *type;
  RengaCall(RengaMalloc(2 * p, &time));
  const RengaScheduleDurations durations = {.seconds = {[RENGA_ACTION_FORWARD] = time,
                                                        [RENGA_ACTION_RECOMPUTE] = time,
                                                        [RENGA_ACTION_BACKWARD] = time + p,
                                                        [RENGA_ACTION_BACKWARD_INPUT] = time,
                                                        [RENGA_ACTION_BACKWARD_WEIGHT] = time}};
  for (int s = 0; s < p; s++) {
    time[s] = RengaPlanGetStage(plan, s)->forward_flops;
    time[p + s] = 2 * time[s];
  }
  const RengaErrorCode code = RengaScheduleSimulateWith(schedule, &durations, &makespan, &bubble);
  RengaFree(&time);
  RengaCall(code);
  RengaCall(RengaScheduleGetType(schedule, &type));
  RengaCall(RengaPrintf(printer,
                        "  schedule %s: stages wait %.1f %% of the time if it goes as FLOPs\n",
                        type, 100 * bubble));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintMessages(MPI_Comm printer, int count, const RengaMessage messages[])
{
  double forward = 0, backward = 0;
  char forward_text[32], backward_text[32];
  for (int m = 0; m < count; m++) {
    if (messages[m].backward)
      backward += (double)messages[m].bytes;
    else
      forward += (double)messages[m].bytes;
  }
  RengaFormatBytes(forward, sizeof forward_text, forward_text);
  RengaFormatBytes(backward, sizeof backward_text, backward_text);
  RengaCall(RengaPrintf(printer,
                        "  per micro-batch %d messages: %s forward, %s of gradients back\n", count,
                        forward_text, backward_text));
  return RENGA_SUCCESS;
}

/* The plan's own, where the options say nothing. */
static RengaErrorCode SetUpSchedule(RengaPlan plan, int count, const RengaMessage messages[],
                                    RengaSchedule schedule)
{
  const char *type;
  double eager = 0;
  int64_t batch, microbatch;
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaPlanGetSchedule(plan, &type));
  RengaCall(RengaPlanGetEager(plan, &eager));
  if (type) RengaCall(RengaScheduleSetType(schedule, type));
  if (type && eager > 0) RengaCall(RengaScheduleSetEager(schedule, eager));
  RengaCall(RengaScheduleSetFromOptions(schedule));
  RengaCall(RengaScheduleSetPlan(schedule, plan, RengaPlanMicrobatches(plan, batch), count,
                                 messages, false));
  RengaCall(RengaScheduleSetUp(schedule));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewPlanSchedule(const App *app, RengaPlan plan, RengaSchedule schedule)
{
  RengaScheduleStep step = {.plan = plan};
  const char *view;
  bool drawn;
  RengaCall(AppReadScheduleView(app->comm, &view, &drawn));
  RengaCall(drawn ? AppDrawSchedule(app->comm, schedule, view, &step)
                  : RengaScheduleViewFromOptions(schedule));
  return RENGA_SUCCESS;
}

/* What is said of the schedule: what is not said of a plan without a prediction; as -schedule_view
   asks; the step on the links of a machine. */
typedef enum { SHOW_PRINTED, SHOW_VIEWED, SHOW_SIMULATED } ShownPart;

static RengaErrorCode ShowSchedule(const App *app, RengaGraph graph, RengaPlan plan, ShownPart part,
                                   RengaMachine machine)
{
  RengaSchedule schedule = NULL;
  RengaMessage *messages = NULL;
  int count = 0;
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(RengaPlanGetMessages(plan, graph, &count, &messages));
  RengaErrorCode code =
      part == SHOW_PRINTED ? PrintMessages(printer, count, messages) : RENGA_SUCCESS;
  if (!code) code = RengaScheduleCreate(app->comm, &schedule);
  if (!code) code = RengaErrorAgree(printer, SetUpSchedule(plan, count, messages, schedule));
  if (!code && part == SHOW_PRINTED) code = PrintSchedule(printer, plan, schedule);
  if (!code && part == SHOW_VIEWED) code = ViewPlanSchedule(app, plan, schedule);
  if (!code && part == SHOW_SIMULATED)
    code = AppSimulateNetwork(app->comm, schedule, plan, machine);
  if (schedule) RengaCall(RengaScheduleDestroy(&schedule));
  RengaFree(&messages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What the planner did not work out: the pipeline's own set-up says it, and takes nothing. */
static RengaErrorCode AskMemory(const App *app, RengaGraph graph, RengaPlan plan,
                                RengaPipelineMemory memory[])
{
  RengaPipeline pipeline = NULL;
  RengaCall(RengaPipelineCreate(app->comm, &pipeline));
  RengaErrorCode code = RengaPipelineSetFromOptions(pipeline);
  if (!code) code = RengaPipelineSetPlan(pipeline, graph, plan);
  if (!code) code = RengaPipelineForecastStages(pipeline, memory);
  RengaPipelineDestroy(&pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ForecastMemory(const App *app, RengaGraph graph, RengaPlan plan)
{
  RengaPipelineMemory *memory = NULL;
  bool known = true;
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++)
    known = known && RengaPlanGetStage(plan, s)->memory > 0;
  if (known) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(RengaPlanGetStageCount(plan), &memory));
  RengaErrorCode code = AskMemory(app, graph, plan, memory);
  for (int s = 0; s < RengaPlanGetStageCount(plan) && !code; s++) {
    const RengaPlanMemory parts = {.parameters = memory[s].parameters,
                                   .gradients = memory[s].gradients,
                                   .optimizer = memory[s].optimizer,
                                   .saved = memory[s].saved,
                                   .temporary = memory[s].temporary,
                                   .messages = memory[s].messages,
                                   .inputs = memory[s].inputs};
    if (RengaPlanGetStage(plan, s)->memory <= 0) code = RengaPlanSetMemoryParts(plan, s, &parts);
  }
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Types that only cut leave it to who runs the plan to say that it does not fit. */
static RengaErrorCode CheckLimit(const App *app, RengaPlan plan)
{
  char needed[32], allowed[32];
  int64_t limit = 0, bytes = 0;
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(RengaPlanGetMemoryLimit(plan, &limit));
  for (int s = 0; s < RengaPlanGetStageCount(plan) && limit > 0; s++) {
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &bytes));
    RengaFormatBytes((double)bytes, sizeof needed, needed);
    RengaFormatBytes((double)limit, sizeof allowed, allowed);
    RengaCheck(bytes <= limit, printer, RENGA_ERR_PLAN,
               "the plan: stage %d needs %s, but -partition_memory allows %s: -partition_type auto "
               "looks for plans that fit",
               s, needed, allowed);
  }
  return RENGA_SUCCESS;
}

/* The machine that a plan is for, or NULL; nodes 0: of no machine. */
typedef struct {
  RengaMachine machine;
  int64_t nodes, devices;
} PlannedFor;

/* On standard output, with what the options ask beside the plan. */
static RengaErrorCode PrintPlan(const App *app, RengaGraph graph, RengaPlan plan,
                                const PlannedFor *of)
{
  RengaViewer viewer = NULL;
  RengaPlanPrediction prediction;
  AppBudget budget;
  RengaCall(AppReadBudget(app->comm, graph, &budget));
  RengaCall(RengaViewerCreate(app->comm, "ascii", &viewer));
  const RengaErrorCode code = RengaPlanView(plan, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  if (prediction.step <= 0) RengaCall(ShowSchedule(app, graph, plan, SHOW_PRINTED, NULL));
  RengaCall(AppPrintHostMemory(app->comm, plan, of->nodes ? of->devices / of->nodes : 0));
  RengaCall(AppPrintBudget(app->comm, &budget, plan, of->nodes, of->devices));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowPlan(const App *app, RengaGraph graph, RengaPlan plan,
                               const PlannedFor *of)
{
  const char *view;
  bool given = false, drawn = false, simulated;
  RengaCall(RengaOptionsGetString("plan_view", &view, &given));
  RengaCall(ForecastMemory(app, graph, plan));
  RengaCall(CheckLimit(app, plan));
  RengaCall(AppViewPlan(app->comm, plan));
  if (!given) RengaCall(PrintPlan(app, graph, plan, of));
  RengaCall(AppIsSimulated(app->comm, plan, of->machine, !given, &simulated));
  if (simulated) RengaCall(ShowSchedule(app, graph, plan, SHOW_SIMULATED, of->machine));
  RengaCall(RengaOptionsGetString("schedule_view", &view, &drawn));
  if (drawn) RengaCall(ShowSchedule(app, graph, plan, SHOW_VIEWED, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareFiles(const App *app, const char *const files[2], RengaGraph graph,
                                   RengaPlan plans[2])
{
  RengaViewer viewer = NULL;
  for (int i = 0; i < 2; i++) {
    RengaCall(RengaPlanCreate(app->comm, &plans[i]));
    RengaCall(RengaPlanLoad(plans[i], graph, files[i]));
  }
  RengaCall(RengaViewerCreate(app->comm, "ascii", &viewer));
  RengaErrorCode code = RengaViewerPrintf(viewer, "%s -> %s\n", files[0], files[1]);
  if (!code) code = RengaPlanCompare(plans[0], plans[1], viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareWithPlan(const App *app, const char *file, const char *other)
{
  RengaPlan plans[2] = {NULL, NULL};
  RengaGraph graph = NULL; /* of plans by hand, which do not say it */
  bool known;
  const char *name;
  RengaCall(RengaOptionsGetString("graph", &name, &known));
  if (known) RengaCall(AppLoadGraph(app->comm, NULL, &graph));
  const RengaErrorCode code = CompareFiles(app, (const char *const[]){file, other}, graph, plans);
  for (int i = 0; i < 2; i++)
    if (plans[i]) RengaCall(RengaPlanDestroy(&plans[i]));
  if (graph) RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Whether plans are to be compared instead of made. */
static RengaErrorCode FindFiles(const App *app, bool swept, const char **file, bool *given)
{
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(RengaOptionsGetString("plan_diff", file, given));
  RengaCheck(!*given || !swept, printer, RENGA_ERR_OPTION,
             "-plan_diff compares plans, and -plan_sweep makes some: give one of them");
  RengaCheck(!*given || app->n_words >= 1, printer, RENGA_ERR_OPTION,
             "-plan_diff %s needs the file of another plan after it", *file);
  RengaCheck(swept || app->n_words <= (*given ? 1 : 0), printer, RENGA_ERR_OPTION,
             "renga plan: what is \"%s\" for? (options begin with a dash)",
             app->words[*given ? 1 : 0]);
  return RENGA_SUCCESS;
}

/* On the machine that the options name: one plan, or a table for several numbers of its nodes.
   lanes: Renga chooses them. */
static RengaErrorCode PlanMachine(const App *app, RengaGraph graph, const AppLanes *lanes)
{
  RengaMachine machine = NULL;
  RengaPlan plan = NULL;
  const int64_t *nodes;
  int64_t devices = 0, per_node = 1;
  int count = 0;
  RengaCall(RengaMachineCreate(app->comm, &machine));
  RengaErrorCode code = RengaMachineSetFromOptions(machine);
  if (!code) code = RengaMachineGetNodeCounts(machine, &count, &nodes);
  if (!code) code = RengaMachineGetDeviceCount(machine, &devices);
  if (!code) code = RengaMachineGetDevicesPerNode(machine, &per_node);
  if (!code && count > 1)
    code = AppPlanNodes(app->comm, graph, machine);
  else if (!code)
    code = AppPlanMachine(app->comm, graph, 0, &plan);
  const PlannedFor of = {machine, devices / per_node, devices};
  if (!code && plan) code = ShowPlan(app, graph, plan, &of);
  if (!code && plan) code = AppSayFaster(app->comm, graph, machine, lanes, plan);
  if (plan) RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanRanks(const App *app, RengaGraph graph)
{
  RengaPartition partition = NULL;
  RengaPlan plan = NULL;
  bool open = false;
  RengaCall(RengaPartitionCreate(app->comm, &partition));
  RengaErrorCode code = RengaPartitionSetGraph(partition, graph);
  if (!code) code = OpenLayout(app, partition, &open);
  if (!code) code = RengaPartitionSetFromOptions(partition);
  if (!code) code = RengaPartitionSolve(partition, &plan);
  if (!code && open) code = RengaPlanSetAvailableRanks(plan, 0);
  if (!code) code = ShowPlan(app, graph, plan, &(PlannedFor){.machine = NULL});
  if (plan) RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOwnPlan(const App *app)
{
  RengaGraph graph = NULL;
  const char *file, *view;
  AppLanes lanes;
  bool machine = false, drawn;
  RengaCall(RengaOptionsGetString("machine_file", &file, &machine));
  RengaCall(AppReadScheduleView(app->comm, &view, &drawn)); /* a file that cannot be written */
  RengaCall(AppCheckSimulation(app->comm, machine));
  RengaCall(AppFindOpenLanes(&lanes));
  RengaCall(AppLoadGraph(app->comm, NULL, &graph));
  const RengaErrorCode code = machine ? PlanMachine(app, graph, &lanes) : PlanRanks(app, graph);
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Ranks of a described machine have a thread each, where nobody says how many: those of the machine
   that plans are no matter of theirs, but each would need memory to work in. */
static RengaErrorCode SetThreadsOfOthers(const char *sweep)
{
  const char *text;
  bool machine = false, threads = false;
  RengaCall(RengaOptionsGetString("machine_file", &text, &machine));
  RengaCall(RengaOptionsGetString("device_threads", &text, &threads));
  machine = machine || (sweep && strstr(sweep, "machine_file"));
  if (machine && !threads) RengaCall(RengaOptionsSetValue("device_threads", "1"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlan(const App *app)
{
  const char *file = NULL, *sweep;
  bool compare = false, swept = false;
  RengaCall(RengaOptionsGetString("plan_sweep", &sweep, &swept));
  RengaCall(FindFiles(app, swept, &file, &compare));
  RengaCall(SetThreadsOfOthers(sweep));
  if (compare)
    RengaCall(CompareWithPlan(app, file, app->words[0]));
  else
    RengaCall(swept ? AppPlanSweep(app) : MakeOwnPlan(app));
  return RENGA_SUCCESS;
}
