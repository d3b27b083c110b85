/* What a run says of itself at its beginning and its end. */
#include "app.h"
#include "renga/private/number.h"
#include <string.h>

enum { MOST_ROWS = 16 };

/* Of all stages; recomputing: how many of them run forward again. */
static void CountPlanReplicas(RengaPlan plan, int *least, int *most, int *recomputing)
{
  *least = *most = RengaPlanGetStage(plan, 0)->shape.replicas;
  *recomputing = 0;
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    if (stage->shape.replicas < *least) *least = stage->shape.replicas;
    if (stage->shape.replicas > *most) *most = stage->shape.replicas;
    *recomputing += stage->shape.saved == RENGA_SAVED_RECOMPUTE;
  }
}

/* Nothing, where each replica is one rank. */
static void NameGroups(RengaPlan plan, size_t size, char text[])
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, 0)->shape;
  int used = 0;
  if (shape->sequence > 1)
    used = snprintf(text, size, " x %d context-parallel ranks", shape->sequence);
  if (shape->tensor > 1)
    snprintf(text + used, size - (size_t)used, " x %d tensor-parallel ranks", shape->tensor);
}

/* ", 2 stages on each" where ranks have several. */
static void NameChunks(RengaPlan plan, size_t size, char text[])
{
  const int chunks = RengaPlanGetStage(plan, 0)->shape.chunks;
  if (chunks > 1) snprintf(text, size, ", %d stages on each", chunks);
}

static RengaErrorCode PrintReasons(MPI_Comm printer, RengaPlan plan, const char *wanted)
{
  const char *topic = "", *sentence = NULL;
  for (int r = 0; topic; r++) {
    RengaCall(RengaPlanGetReason(plan, r, &topic, &sentence));
    if (topic && !strcmp(topic, wanted))
      RengaCall(RengaPrintf(printer, "%s: %s\n", topic, sentence));
  }
  return RENGA_SUCCESS;
}

/* "; schedule 1f1b, eager 0.5" of what trains in several stages: what is set goes before what is
   planned. */
static RengaErrorCode NameSchedule(RengaPlan plan, RengaPipeline pipeline, size_t size, char text[])
{
  RengaSettings settings;
  const char *type, *planned;
  double eager, planned_eager;
  text[0] = '\0';
  if (!pipeline || RengaPlanGetStageCount(plan) < 2) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsGetSchedule(settings, &type));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  RengaCall(RengaPlanGetSchedule(plan, &planned));
  RengaCall(RengaPlanGetEager(plan, &planned_eager));
  if (!type) type = planned ? planned : RENGA_SCHEDULE_1F1B;
  if (eager < 0) eager = planned_eager;
  snprintf(text, size, "; schedule %s", type);
  if (eager > 0) RengaTextFormat(text + strlen(text), size - strlen(text), ", eager %g", eager);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintLanesOf(MPI_Comm printer, const char *option, int lanes, int nodes)
{
  if (lanes <= 1) return RENGA_SUCCESS;
  if (nodes)
    RengaCall(RengaPrintf(printer, "%d lanes at most, which decide bits (-%s)\n", lanes, option));
  else
    RengaCall(RengaPrintf(printer, "nothing of it is computed in lanes (-%s %d)\n", option, lanes));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintLanes(MPI_Comm printer, RengaGraph graph)
{
  int lanes, nodes;
  RengaCall(RengaGraphGetLanes(graph, &lanes, &nodes));
  RengaCall(PrintLanesOf(printer, "graph_lanes", lanes, nodes));
  RengaCall(RengaGraphGetTokenLanes(graph, &lanes, &nodes));
  RengaCall(PrintLanesOf(printer, "graph_token_lanes", lanes, nodes));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintStart(RengaComm comm, RengaGraph graph, RengaPlan plan,
                             RengaPipeline pipeline)
{
  RengaGraphTotals totals;
  const char *name;
  char parameters[32], fewest[32] = "", groups[96] = "", chunks[48] = "", schedule[320];
  int stages = RengaPlanGetStageCount(plan), least, replicas, recomputing;
  int ranks = RengaPlanGetRankCount(plan), idle = RengaCommGetSize(comm) - ranks;
  int64_t batch, microbatch;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaCall(RengaOptionsGetString("graph", &name, NULL));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaFormatCount((double)totals.parameters, sizeof parameters, parameters);
  RengaCall(RengaPrintf(printer, "%s: %s parameters in %d nodes\n", name, parameters,
                        RengaGraphGetNodeCount(graph)));
  RengaCall(PrintLanes(printer, graph));
  CountPlanReplicas(plan, &least, &replicas, &recomputing);
  NameChunks(plan, sizeof chunks, chunks);
  RengaCall(NameSchedule(plan, pipeline, sizeof schedule, schedule));
  NameGroups(plan, sizeof groups, groups);
  if (least < replicas) snprintf(fewest, sizeof fewest, "%d to ", least);
  RengaCall(RengaPrintf(printer,
                        "%d stage%s x %s%d replica%s%s on %d rank%s%s; steps of %lld samples in "
                        "micro-batches of %lld%s\n",
                        stages, stages == 1 ? "" : "s", fewest, replicas, replicas == 1 ? "" : "s",
                        groups, ranks, ranks == 1 ? "" : "s", chunks, (long long)batch,
                        (long long)microbatch, schedule));
  if (recomputing > 0)
    RengaCall(RengaPrintf(printer, "%d of %d stages %s before backward\n", recomputing, stages,
                          recomputing == 1 ? "recomputes" : "recompute"));
  if (idle > 0)
    RengaCall(RengaPrintf(printer, "%d of %d ranks %s idle\n", idle, RengaCommGetSize(comm),
                          idle == 1 ? "is" : "are"));
  if (RengaPlanMicrobatches(plan, batch) < replicas)
    RengaCall(RengaPrintf(printer,
                          "only %lld of %d replicas have a micro-batch: -microbatch_size must be "
                          "smaller for all to work\n",
                          (long long)RengaPlanMicrobatches(plan, batch), replicas));
  RengaCall(PrintReasons(printer, plan, RENGA_PLAN_CHOSEN));
  if (pipeline) RengaCall(PrintReasons(printer, plan, RENGA_PLAN_STATISTICS)); /* it trains */
  return RENGA_SUCCESS;
}

/* A view that goes to standard output is all that stands there. */
RengaErrorCode AppViewPlan(RengaComm comm, RengaPlan plan)
{
  const char *view, *save;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaPlanViewFromOptions(plan));
  RengaCall(RengaOptionsGetString("plan_view", &view, NULL));
  RengaCall(RengaOptionsGetString("plan_save", &save, NULL));
  const char *file = view ? strchr(view, ':') : NULL;
  if (view && !file) return RENGA_SUCCESS;
  if (file) RengaCall(RengaPrintf(printer, "wrote %s\n", file + 1));
  if (save) RengaCall(RengaPrintf(printer, "wrote %s\n", save));
  return RENGA_SUCCESS;
}

typedef struct {
  int64_t forecast, measured, resident;
} Memory;

static RengaErrorCode PrintRank(MPI_Comm printer, RengaPlan plan, int rank, int width,
                                const Memory *memory)
{
  char forecast[32], measured[32], resident[32], what[128];
  RengaCall(AppDescribeRank(plan, rank, sizeof what, what));
  RengaFormatBytes((double)memory->forecast, sizeof forecast, forecast);
  RengaFormatBytes((double)memory->measured, sizeof measured, measured);
  RengaFormatBytes((double)memory->resident, sizeof resident, resident);
  RengaCall(RengaPrintf(printer, "  %4d  %-*s %12s %12s %12s\n", rank, width, what, forecast,
                        measured, resident));
  return RENGA_SUCCESS;
}

/* Characters of the longest description of a rank. */
static RengaErrorCode MeasureRanks(RengaPlan plan, int size, int *width)
{
  char what[128];
  *width = 0;
  for (int r = 0; r < size; r++) {
    RengaCall(AppDescribeRank(plan, r, sizeof what, what));
    if ((int)strlen(what) > *width) *width = (int)strlen(what);
  }
  return RENGA_SUCCESS;
}

/* All ranks where they are few; else those with the least and the most. */
static RengaErrorCode PrintRanks(MPI_Comm printer, RengaPlan plan, int size, const Memory all[])
{
  int least = 0, most = 0, width;
  RengaCall(MeasureRanks(plan, size, &width));
  RengaCall(RengaPrintf(
      printer, "memory (resident: of the process, before it ends)\n  %4s  %-*s %12s %12s %12s\n",
      "rank", width, "", "forecast", "measured", "resident"));
  for (int r = 0; r < size; r++) {
    if (all[r].measured < all[least].measured) least = r;
    if (all[r].measured > all[most].measured) most = r;
    if (size <= MOST_ROWS) RengaCall(PrintRank(printer, plan, r, width, &all[r]));
  }
  if (size <= MOST_ROWS) return RENGA_SUCCESS;
  RengaCall(PrintRank(printer, plan, least, width, &all[least]));
  RengaCall(PrintRank(printer, plan, most, width, &all[most]));
  return RENGA_SUCCESS;
}

/* Of all ranks, to all ranks; RengaFree(all). */
static RengaErrorCode GatherMemory(RengaComm comm, RengaPipeline pipeline, Memory **all)
{
  RengaPipelineMemory memory = {0};
  const MPI_Comm printer = AppPrinter(comm);
  RengaErrorCode code = RengaPipelineGetMemory(pipeline, &memory);
  const Memory mine = {memory.forecast, memory.measured, (int64_t)RengaMemoryResident()};
  if (!code) code = RengaMalloc(RengaCommGetSize(comm), all);
  code = RengaErrorAgree(printer, code); /* before any of them waits for the others */
  if (!code) code = RengaCommGather(comm, &mine, sizeof mine, *all, -1, "the memory of all ranks");
  if (code) RengaFree(all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Ranks with several stages know what these take together: the parts are forecast. */
static RengaErrorCode SetForecasts(RengaPlan plan, RengaPipeline pipeline)
{
  const int stages = RengaPlanGetStageCount(plan);
  RengaPipelineMemory *memory;
  RengaCall(RengaMalloc(stages, &memory));
  RengaErrorCode code = RengaPipelineForecastStages(pipeline, memory);
  for (int s = 0; s < stages && !code; s++) code = RengaPlanSetMemory(plan, s, memory[s].forecast);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* "mf.user.weight is updated by the rows that a step reads: up to 1024 of 138493", or has gradients
   of these */
static RengaErrorCode PrintTablesByRows(RengaComm comm, RengaPipeline pipeline)
{
  const RengaPipelineParameter *list;
  int count;
  const MPI_Comm printer = AppPrinter(comm);
  RengaOptimizer optimizer;
  RengaSparse sparse;
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  const char *is = sparse == RENGA_SPARSE_EXACT ? "has gradients of" : "is updated by";
  RengaCall(RengaPipelineListParameters(pipeline, &count, &list));
  for (int p = 0; p < count; p++) {
    int64_t rows = 0;
    if (!list[p].state) RengaCall(RengaPipelineGetRows(pipeline, list[p].name, &rows));
    if (rows > 0)
      RengaCall(RengaPrintf(printer, "%s %s the rows that a step reads: up to %lld of %lld\n",
                            list[p].name, is, (long long)rows, (long long)list[p].spec.dim[0]));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppSetPlanMemory(RengaComm comm, RengaPlan plan, RengaPipeline pipeline)
{
  Memory *all = NULL;
  RengaCall(PrintTablesByRows(comm, pipeline));
  if (RengaPlanGetStage(plan, 0)->shape.chunks > 1) {
    MPI_Comm printer;
    RengaCall(RengaObjectGetComm(comm, &printer));
    RengaCall(RengaErrorAgree(printer, SetForecasts(plan, pipeline)));
    return RENGA_SUCCESS;
  }
  RengaCall(GatherMemory(comm, pipeline, &all));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int s = 0; s < RengaPlanGetStageCount(plan) && !code; s++) {
    int64_t most = 0;
    const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
    const int each = shape->sequence * shape->tensor;
    for (int i = 0; i < shape->replicas * each; i++) {
      const RengaPlanPlace place = {.stage = s,
                                    .replica = i / each,
                                    .sequence = i % each / shape->tensor,
                                    .tensor = i % shape->tensor};
      const int64_t bytes = all[RengaPlanGetRankAt(plan, &place)].forecast;
      if (bytes > most) most = bytes;
    }
    code = RengaPlanSetMemory(plan, s, most);
  }
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintMemory(RengaComm comm, RengaPlan plan, RengaPipeline pipeline)
{
  Memory *all = NULL;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(GatherMemory(comm, pipeline, &all));
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) == 0) code = PrintRanks(printer, plan, RengaCommGetSize(comm), all);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintDigest(RengaPipeline pipeline, AppMonitor monitor)
{
  bool wanted = false;
  uint64_t digest = 0;
  RengaCall(RengaOptionsGetBool("parameter_digest", &wanted, NULL));
  if (!wanted) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetDigest(pipeline, &digest));
  RengaCall(AppMonitorSay(monitor, "parameter digest 0x%016llx\n", (unsigned long long)digest));
  return RENGA_SUCCESS;
}
