/* The network that the user names, and its plan. */
#include "app.h"
#include <stdlib.h>
#include <string.h>

RengaErrorCode AppNeedOption(RengaComm comm, const char *name, const char *purpose,
                             const char **value)
{
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString(name, value, NULL));
  RengaCheck(*value, printer, RENGA_ERR_OPTION, "-%s is missing: %s", name, purpose);
  return RENGA_SUCCESS;
}

/* Samples of a batch that is one micro-batch on one replica, by the options; 0: it may be cut. */
static RengaErrorCode FindUncutBatch(int64_t *samples)
{
  int64_t batch, microbatch, replicas, whole;
  bool given;
  RengaCall(RengaOptionsGetInt64("batch_size", &batch, NULL));
  RengaCall(RengaOptionsGetInt64("microbatch_size", &microbatch, NULL));
  RengaCall(RengaOptionsGetInt64("layout_data", &replicas, NULL));
  RengaCall(RengaOptionsGetInt64("graph_whole_batch", &whole, &given));
  *samples = batch == microbatch && replicas <= 1 && !given ? batch : 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadGraph(RengaComm comm, const AppEnds *ends, int64_t whole,
                                RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetWholeBatch(*graph, whole));
  RengaCall(RengaGraphSetFromOptions(*graph));
  if (ends) RengaCall(ends->set(*graph, ends->outputs));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* What is told while a network is read that may be read once more. */
typedef struct {
  int known, warnings; /* known: those of the reading before, which are not repeated */
  bool failed;         /* this rank has an error to tell */
} AppListener;

static void HearReading(const RengaErrorReport *report, void *user)
{
  AppListener *listener = user;
  if (report->code != RENGA_SUCCESS)
    listener->failed = true;
  else if (++listener->warnings > listener->known)
    RengaErrorPrint(report, NULL);
}

static RengaErrorCode ReadQuietly(RengaComm comm, const AppEnds *ends, int64_t whole,
                                  AppListener *listener, RengaGraph *graph)
{
  const MPI_Comm printer = AppPrinter(comm);
  *listener = (AppListener){.known = listener->warnings};
  RengaErrorSetHandler(HearReading, listener);
  RengaErrorCode code = ReadGraph(comm, ends, whole, graph);
  code = RengaErrorAgree(printer, code);
  RengaErrorSetHandler(NULL, NULL);
  return code; /* its sentence is not told yet */
}

/* A file that cannot be cut into micro-batches, for the reason, is read for batches of one. */
static RengaErrorCode ReadUncut(RengaComm comm, const AppEnds *ends, int64_t batch,
                                const char *reason, AppListener *listener, RengaGraph *graph)
{
  const char *name;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("graph", &name, NULL));
  const RengaErrorCode code = ReadQuietly(comm, ends, batch, listener, graph);
  if (code && !listener->failed) return code; /* another rank tells it */
  const char *why = RengaErrorGetMessage();
  RengaCheck(!code || strcmp(why, reason), MPI_COMM_SELF, code, "%s", reason);
  RengaCheck(!code, MPI_COMM_SELF, code,
             "%s. Read for whole batches of %lld, never cut, it is refused too: %s", reason,
             (long long)batch, why);
  RengaCall(RengaPrintf(printer, "%s is read for whole batches of %lld, never cut: %s\n", name,
                        (long long)batch, reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadEitherWay(RengaComm comm, const AppEnds *ends, int64_t batch,
                                    RengaGraph *graph)
{
  AppListener listener = {0};
  char reason[2048];
  const char *mixed = NULL;
  const RengaErrorCode code = ReadQuietly(comm, ends, 0, &listener, graph);
  if (!code) return RENGA_SUCCESS;
  if (*graph) RengaCall(RengaGraphGetMixed(*graph, &mixed));
  snprintf(reason, sizeof reason, "%s", mixed ? mixed : RengaErrorGetMessage());
  if (mixed) {
    RengaCall(RengaGraphDestroy(graph));
    RengaCall(ReadUncut(comm, ends, batch, reason, &listener, graph));
    return RENGA_SUCCESS;
  }
  RengaCheck(!listener.failed, MPI_COMM_SELF, code, "%s", reason);
  return code;
}

static RengaErrorCode SetLanes(const char *option, int lanes)
{
  char number[16];
  snprintf(number, sizeof number, "%d", lanes);
  RengaCall(RengaOptionsSetValue(option, number));
  return RENGA_SUCCESS;
}

RengaErrorCode AppKeepPlannedLanes(RengaGraph graph)
{
  int lanes;
  RengaCall(RengaGraphGetLanes(graph, &lanes, NULL));
  RengaCall(SetLanes("graph_lanes", lanes));
  RengaCall(RengaGraphGetTokenLanes(graph, &lanes, NULL));
  RengaCall(SetLanes("graph_token_lanes", lanes));
  return RENGA_SUCCESS;
}

/* What the graph has chosen is told, and kept in checkpoints, as if it were given. */
static RengaErrorCode KeepLanes(RengaGraph graph)
{
  AppLanes open;
  RengaCall(AppFindOpenLanes(&open));
  if (open.heads || open.tokens) RengaCall(AppKeepPlannedLanes(graph));
  return RENGA_SUCCESS;
}

/* 1: it says none. A file that cannot be read is refused where the plan is made of it. */
static RengaErrorCode ReadPlanLanes(RengaComm comm, const char *file, int *lanes, int *tokens)
{
  RengaPlan plan = NULL;
  *lanes = *tokens = 1;
  RengaCall(RengaPlanCreate(comm, &plan));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = RengaPlanLoad(plan, NULL, file);
  RengaErrorSetHandler(NULL, NULL);
  if (!code) RengaCall(RengaPlanGetLanes(plan, lanes));
  if (!code) RengaCall(RengaPlanGetTokenLanes(plan, tokens));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* The plan of a file is of the lanes that it was made in. */
static RengaErrorCode TakePlanLanes(RengaComm comm)
{
  const char *lanes, *file;
  char number[16];
  int64_t own;
  int count, tokens;
  bool given;
  RengaCall(RengaOptionsGetString("graph_lanes", &lanes, NULL));
  RengaCall(RengaOptionsGetString("plan_load", &file, NULL));
  RengaCall(RengaOptionsGetInt64("graph_token_lanes", &own, &given));
  if (!file) return RENGA_SUCCESS;
  RengaCall(ReadPlanLanes(comm, file, &count, &tokens));
  snprintf(number, sizeof number, "%d", count);
  if (count > 1 && !strcmp(lanes, "auto")) RengaCall(RengaOptionsSetValue("graph_lanes", number));
  snprintf(number, sizeof number, "%d", tokens);
  if (tokens > 1 && !given) RengaCall(RengaOptionsSetValue("graph_token_lanes", number));
  return RENGA_SUCCESS;
}

RengaErrorCode AppFindOpenLanes(AppLanes *open)
{
  const char *lanes;
  int64_t tokens;
  RengaCall(RengaOptionsGetString("graph_lanes", &lanes, NULL));
  RengaCall(RengaOptionsGetInt64("graph_token_lanes", &tokens, NULL));
  open->heads = !strcmp(lanes, "auto");
  open->tokens = tokens == 0;
  return RENGA_SUCCESS;
}

RengaErrorCode AppReopenLanes(const AppLanes *open)
{
  if (open->heads) RengaCall(RengaOptionsSetValue("graph_lanes", "auto"));
  if (open->tokens) RengaCall(RengaOptionsSetValue("graph_token_lanes", "0"));
  return RENGA_SUCCESS;
}

/* FOLDER/NAME of the network hf:FOLDER,key=value, or FOLDER where the name is empty, for RengaFree;
   NULL: the network is another. */
RengaErrorCode AppFolderFile(const char *network, const char *name, char **path)
{
  *path = NULL;
  if (!network || strncmp(network, "hf:", 3) != 0) return RENGA_SUCCESS;
  const int length = (int)strcspn(network + 3, ",");
  const size_t room = (size_t)length + strlen(name) + 2;
  RengaCall(RengaMalloc(room, path));
  snprintf(*path, room, "%.*s%s%s", length, network + 3, *name ? "/" : "", name);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLoadGraph(RengaComm comm, const AppEnds *ends, RengaGraph *graph)
{
  const char *name;
  int64_t batch;
  RengaCall(AppNeedOption(comm, "graph",
                          "an ONNX file or a built-in network, such as "
                          "gpt:layers=4,hidden=256,heads=8,sequence=128,"
                          "vocabulary=256",
                          &name));
  RengaCall(FindUncutBatch(&batch));
  RengaCall(TakePlanLanes(comm));
  *graph = NULL;
  if (batch > 0)
    RengaCall(ReadEitherWay(comm, ends, batch, graph));
  else
    RengaCall(ReadGraph(comm, ends, 0, graph));
  RengaCall(KeepLanes(*graph));
  return RENGA_SUCCESS;
}

/* Parameters that are trained, that are not, and states, which steps may change all the same. */
static void CountTrained(RengaGraph graph, int *trained, int *frozen, int *states)
{
  *trained = *frozen = *states = 0;
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    *states += value->kind == RENGA_VALUE_STATE;
    if (value->kind == RENGA_VALUE_PARAMETER) ++*(value->frozen ? frozen : trained);
  }
}

static RengaErrorCode CheckAnyTrained(MPI_Comm printer, RengaGraph graph)
{
  static const char advice[] =
      "-graph_frozen and the file freeze them, -graph_trained PATTERN,... trains some all the same";
  int trained, frozen, states;
  CountTrained(graph, &trained, &frozen, &states);
  RengaCheck(trained || !frozen || states, printer, RENGA_ERR_OPTION,
             "all %d parameters are frozen, so that nothing would be trained: %s", frozen, advice);
  if (!trained && frozen)
    RengaWarning(printer,
                 "all %d parameters are frozen: steps change nothing but running statistics; %s",
                 frozen, advice);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLoadTrained(RengaComm comm, RengaGraph *graph)
{
  const char *name;
  RengaValue loss;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(AppLoadGraph(comm, &AppHidingEnds, graph));
  RengaCall(RengaGraphGetLoss(*graph, &loss));
  RengaCall(RengaOptionsGetString("graph", &name, NULL));
  RengaCheck(loss != RENGA_VALUE_NONE, printer, RENGA_ERR_GRAPH,
             "%s has no loss, so that there is nothing to train for: export it with its loss, one "
             "floating number, as an output (doc/networks.md); renga predict runs it as it is",
             name);
  RengaCall(CheckAnyTrained(printer, *graph));
  return RENGA_SUCCESS;
}

/* Several stages per rank are asked for: types that search choose one by themselves. */
RengaErrorCode AppHasChunks(RengaComm comm, bool *several)
{
  int64_t chunks = 0;
  const char *schedule = NULL;
  int own = 0;
  bool wave;
  RengaCall(RengaOptionsGetInt64("layout_chunks", &chunks, NULL));
  RengaCall(RengaOptionsGetString("schedule_type", &schedule, NULL));
  RengaCall(RengaScheduleShareLists(comm, schedule));
  RengaCall(RengaScheduleFindPlacement(schedule, &own, &wave));
  if (chunks == 0) chunks = own;
  *several = chunks > 1;
  return RENGA_SUCCESS;
}

/* 0 and 1 say nothing, and auto is a type's to choose. */
static RengaErrorCode AsksForSeveral(const char *option, bool *several)
{
  const char *ranks;
  RengaCall(RengaOptionsGetString(option, &ranks, NULL));
  *several = strtol(ranks, NULL, 10) > 1;
  return RENGA_SUCCESS;
}

/* Nobody says how to share out the network among several ranks. */
static RengaErrorCode IsOpen(RengaComm comm, bool *open)
{
  bool several, sequence, tensor;
  int64_t tokens;
  static const char *const names[] = {"partition_type", "layout_pipeline", "layout_data",
                                      "partition_cuts", "plan_load"};
  RengaCall(AppHasChunks(comm, &several));
  RengaCall(AsksForSeveral("layout_context", &sequence));
  RengaCall(AsksForSeveral("layout_tensor", &tensor));
  RengaCall(RengaOptionsGetInt64("graph_token_lanes", &tokens, NULL));
  /* Types that search have no tensor ranks of lanes of tokens. */
  *open = RengaCommGetSize(comm) > 1 && !several && !sequence && !(tensor && tokens > 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0] && *open; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(names[i], &text, &given));
    *open = !given;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppMakePartition(RengaComm comm, RengaGraph graph, int64_t batch, int replicas,
                                RengaPartition *partition)
{
  bool open = false;
  RengaCall(IsOpen(comm, &open));
  RengaCall(RengaPartitionCreate(comm, partition));
  if (open && !replicas) RengaCall(RengaPartitionSetType(*partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetGraph(*partition, graph));
  RengaCall(RengaPartitionSetBatch(*partition, batch, 0));
  RengaCall(RengaPartitionSetReplicas(*partition, replicas));
  RengaCall(RengaPartitionSetFromOptions(*partition));
  return RENGA_SUCCESS;
}
