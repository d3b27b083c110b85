/* TEST ranks: 1 2 timeout: 300 */
/* The n-th allocation fails, for every n, in each part of a small training: graph, plan, set-up,
   step, checkpoint, resume. The call returns an error on all ranks, nothing that it took is
   left, and the next try has the result of a run that was never disturbed. On several ranks each
   in turn is the one that fails. Arguments: parts to try instead of all. */
#include "../check.h"
#include "renga.h"
#include "renga/private/fault.h"
#include <stdlib.h>

enum { BATCH = 8, MICROBATCH = 2, VOCABULARY = 17, PLACES = 6 };
static const char network[] = "gpt:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17,dropout=0.1";

/* What the parts leave to each other. */
typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  RengaData data;
  double loss;
  uint64_t digest;
  char *file;
} State;

static RengaErrorCode ReadTokens(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user;
  for (int64_t i = 0; i < count * PLACES; i++)
    ((int64_t *)buffer)[i] = (first * PLACES + i * 7 + field) % VOCABULARY;
  return RENGA_SUCCESS;
}

static RengaErrorCode PartGraph(State *s)
{
  RengaCall(RengaGraphCreate(s->comm, &s->graph));
  RengaCall(RengaGraphLoad(s->graph, network));
  RengaCall(RengaGraphSetUp(s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoGraph(State *s)
{
  RengaCall(RengaGraphDestroy(&s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartFile(State *s)
{
  char path[1024];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/test/reference/networks/bert_export.onnx", top ? top : ".");
  RengaCall(RengaGraphCreate(s->comm, &s->graph));
  RengaCall(RengaGraphLoad(s->graph, path));
  RengaCall(RengaGraphSetUp(s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartPlan(State *s)
{
  RengaCall(RengaPartitionCreate(s->comm, &s->partition));
  RengaCall(RengaPartitionSetGraph(s->partition, s->graph));
  RengaCall(RengaPartitionSetBatch(s->partition, BATCH, MICROBATCH));
  RengaCall(RengaPartitionSetStages(s->partition, RengaCommGetSize(s->comm)));
  RengaCall(RengaPartitionSolve(s->partition, &s->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoPlan(State *s)
{
  if (s->plan) RengaCall(RengaPlanDestroy(&s->plan));
  if (s->partition) RengaCall(RengaPartitionDestroy(&s->partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartPipeline(State *s)
{
  RengaOptimizer optimizer;
  RengaCall(RengaPipelineCreate(s->comm, &s->pipeline));
  RengaCall(RengaPipelineSetPlan(s->pipeline, s->graph, s->plan));
  RengaCall(RengaPipelineGetOptimizer(s->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 1));
  RengaCall(RengaPipelineSetTimeout(s->pipeline, 20));
  RengaCall(RengaPipelineSetUp(s->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoPipeline(State *s)
{
  if (s->pipeline) RengaCall(RengaPipelineDestroy(&s->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartStep(State *s)
{
  const RengaBatch batch = {.samples = BATCH, .read = ReadTokens};
  RengaCall(RengaPipelineStep(s->pipeline, &batch, &s->loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartEvaluate(State *s)
{
  const RengaBatch batch = {.samples = BATCH, .read = ReadTokens};
  RengaCall(RengaPipelineEvaluate(s->pipeline, &batch, &s->loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartCheckpoint(State *s)
{
  RengaCall(RengaCheckpointCreate(s->comm, &s->checkpoint));
  RengaCall(RengaCheckpointSetPipeline(s->checkpoint, s->pipeline));
  RengaCall(RengaCheckpointSetDirectory(s->checkpoint, "faults-checkpoints"));
  RengaCall(RengaCheckpointSetUp(s->checkpoint));
  RengaCall(RengaCheckpointWrite(s->checkpoint, &s->file));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoCheckpoint(State *s)
{
  if (s->checkpoint) RengaCall(RengaCheckpointDestroy(&s->checkpoint));
  RengaFree(&s->file);
  return RENGA_SUCCESS;
}

static RengaErrorCode PartResume(State *s)
{
  bool found;
  int64_t step;
  RengaCall(RengaCheckpointCreate(s->comm, &s->checkpoint));
  RengaCall(RengaCheckpointSetPipeline(s->checkpoint, s->pipeline));
  RengaCall(RengaCheckpointSetDirectory(s->checkpoint, "faults-checkpoints"));
  RengaCall(RengaCheckpointSetUp(s->checkpoint));
  RengaCall(RengaCheckpointResume(s->checkpoint, &found, &step));
  return RENGA_SUCCESS;
}

static RengaErrorCode PartData(State *s)
{
  const char *const names[] = {"tokens", "labels"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {PLACES}};
  const RengaTensorSpec specs[] = {spec, spec};
  const int64_t classes[] = {VOCABULARY, VOCABULARY};
  int64_t tokens[3 * PLACES];
  RengaCall(RengaDataCreate(s->comm, &s->data));
  RengaCall(RengaDataSetFile(s->data, "faults.h5"));
  RengaCall(RengaDataSetFields(s->data, 2, names, specs, classes));
  RengaCall(RengaDataSetUp(s->data));
  RengaCall(RengaDataRead(s->data, RENGA_DATA_TRAINING, 0, 0, 0, 3, tokens));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoData(State *s)
{
  if (s->data) RengaCall(RengaDataDestroy(&s->data));
  return RENGA_SUCCESS;
}

/* One try of a part with a failure; leaks are printed. A part without an undo leaves its memory
   to what the others made. */
typedef RengaErrorCode (*PartFunction)(State *state);
static RengaErrorCode TryPart(State *state, const char *name, PartFunction part, PartFunction undo,
                              int64_t n, bool *hit, int *leaks)
{
  char text[2000];
  FILE *file;
  const int rank = RengaCommGetRank(state->comm), size = RengaCommGetSize(state->comm);
  const bool mine = n % size == rank;
  const unsigned mark = RengaMemoryGetMark();
  const int saved = BeginErrors(&file);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, mine ? (n + size - 1) / size : 0);
  const RengaErrorCode code = part(state);
  const int64_t happened = RengaFaultGetCount(RENGA_FAULT_ALLOCATION);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  const RengaErrorCode undone = code && undo ? undo(state) : RENGA_SUCCESS;
  const char *errors = EndErrors(file, saved);
  int here = mine && happened >= (n + size - 1) / size, any = 0;
  RengaCallMPI(MPI_Allreduce(&here, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  *hit = any;
  if (undone || (code && !any) || (code && !strstr(errors, "error"))) {
    printf("%s: allocation %lld on rank %d: code %d, undone %d\n%s\n", name, (long long)n, rank,
           (int)code, (int)undone, errors);
    return RENGA_ERR_INTERNAL;
  }
  if (code && undo && RengaMemoryListSince(mark, sizeof text, text)) {
    printf("%s: allocation %lld on rank %d leaves%s\n", name, (long long)n, rank, text);
    (*leaks)++;
  }
  if (!code && any && undo) RengaCall(undo(state));
  return RENGA_SUCCESS;
}

/* Fails allocation 1, 2, … until there is none of that number; the last try is undisturbed, and
   its result stays. */
static RengaErrorCode TryAll(State *state, const char *name, PartFunction part, PartFunction undo,
                             int64_t *tries)
{
  bool hit = true;
  int leaks = 0;
  for (*tries = 0; hit;) RengaCall(TryPart(state, name, part, undo, ++*tries, &hit, &leaks));
  printf("%s: %lld allocations failed, %d left something\n", name, (long long)*tries - 1, leaks);
  Expect(leaks == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const struct {
    const char *name;
    PartFunction part, undo;
  } parts[] = {{"file", PartFile, UndoGraph},
               {"graph", PartGraph, UndoGraph},
               {"plan", PartPlan, UndoPlan},
               {"pipeline", PartPipeline, UndoPipeline},
               {"step", PartStep, NULL},
               {"evaluate", PartEvaluate, NULL},
               {"checkpoint", PartCheckpoint, UndoCheckpoint},
               {"resume", PartResume, UndoCheckpoint}};
  State state = {0};
  (void)UndoData, (void)PartData;
  setvbuf(stdout, NULL, _IOLBF, 0);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &state.comm));
  int64_t tries;
  int failed = 0;
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
    if (TryAll(&state, parts[p].name, parts[p].part, parts[p].undo, &tries)) failed++;
    if (p == 0 || !strcmp(parts[p].name, "checkpoint")) RengaCall(parts[p].undo(&state));
  }
  RengaCall(UndoCheckpoint(&state));
  RengaCall(UndoPipeline(&state));
  RengaCall(UndoPlan(&state));
  RengaCall(UndoGraph(&state));
  RengaCall(RengaCommDestroy(&state.comm));
  Expect(failed == 0);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
