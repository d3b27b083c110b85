/* The parts of a small run that trains, writes a checkpoint and resumes from it. */
#include "faults.h"
#include <stdlib.h>
#include <sys/stat.h>

enum { TENSOR = 2, BATCH = 8, MICROBATCH = 2, VOCABULARY = 17, PLACES = 6, PATH = 1024, WIDTH = 8 };
static const char network[] = "gpt:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17,dropout=0.1";
static const char directory[] = "faults-checkpoints", base_directory[] = "faults-base";
static const char data_file[] = "faults-tokens.h5";

/* Every rank comes here, and all fail where one did: what a program does that goes on after an
   error. Functions that exchange messages do so themselves. */
#define Together(s, call) RengaCall(RengaErrorAgree((s)->ranks, (call)))

const char *const kind_names[KINDS] = {"allocation", "message", "file", "read"};
static int64_t reads, read_due;

void SetFault(int kind, int64_t n)
{
  if (kind < RENGA_FAULT_FAILURES) RengaFaultSet((RengaFaultKind)kind, n);
  if (kind != FAULT_READ) return;
  reads = 0;
  read_due = n;
}

int64_t CountFaults(int kind)
{
  return kind == FAULT_READ ? reads : RengaFaultGetCount((RengaFaultKind)kind);
}

static RengaErrorCode ReadTokens(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user;
  if (++reads == read_due)
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "samples %lld, %lld cannot be read",
               (long long)first, (long long)count);
  for (int64_t i = 0; i < count * PLACES; i++)
    ((int64_t *)buffer)[i] = (first * PLACES + i * 7 + field) % VOCABULARY;
  return RENGA_SUCCESS;
}

static RengaErrorCode DoGroup(State *s)
{
  RengaCall(RengaCommSplit(s->comm, 0, 0, &s->group));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoGroup(State *s)
{
  RengaCall(RengaCommDestroy(&s->group));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoFile(State *s)
{
  char path[PATH];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/test/reference/networks/bert_export.onnx", top ? top : ".");
  Together(s, RengaGraphCreate(s->comm, &s->graph));
  RengaCall(RengaGraphLoad(s->graph, path));
  Together(s, RengaGraphSetUp(s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoGraph(State *s)
{
  Together(s, RengaGraphCreate(s->comm, &s->graph));
  Together(s, RengaGraphLoad(s->graph, network));
  if (getenv("RENGA_FAULT_TENSOR")) Together(s, RengaGraphSetLanes(s->graph, TENSOR));
  Together(s, RengaGraphSetUp(s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoGraph(State *s)
{
  if (s->graph) RengaCall(RengaGraphDestroy(&s->graph));
  return RENGA_SUCCESS;
}

/* RENGA_FAULT_SHARD: what the replicas of one stage have a share of; RENGA_FAULT_GROUPS: in so many
   groups; RENGA_FAULT_TENSOR: each of them is two ranks. */
static RengaErrorCode ChooseLayout(State *s, RengaSettings settings)
{
  int size = RengaCommGetSize(s->comm);
  if (getenv("RENGA_FAULT_TENSOR")) {
    RengaCall(RengaPartitionSetTensor(s->partition, TENSOR));
    size /= TENSOR;
  }
  if (getenv("RENGA_FAULT_SHARD")) {
    RengaShard shard = RENGA_SHARD_NOTHING;
    while (strcmp(RengaShardName(shard), getenv("RENGA_FAULT_SHARD")) != 0) shard++;
    RengaCall(RengaSettingsSetShard(settings, shard));
    RengaCall(RengaPartitionSetReplicas(s->partition, size));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSettingsSetChunks(settings, size == 1 ? 2 : 1));
  RengaCall(RengaPartitionSetStages(s->partition, size));
  return RENGA_SUCCESS;
}

/* One rank has two stages. */
static RengaErrorCode DoPlan(State *s)
{
  RengaSettings settings;
  Together(s, RengaPartitionCreate(s->comm, &s->partition));
  Together(s, RengaPartitionSetGraph(s->partition, s->graph));
  Together(s, RengaPartitionSetBatch(s->partition, BATCH, MICROBATCH));
  Together(s, RengaPartitionGetSettings(s->partition, &settings));
  Together(s, ChooseLayout(s, settings));
  Together(s, RengaPartitionSolve(s->partition, &s->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoPlan(State *s)
{
  if (s->plan) RengaCall(RengaPlanDestroy(&s->plan));
  if (s->partition) RengaCall(RengaPartitionDestroy(&s->partition));
  if (s->profile) RengaCall(RengaProfileDestroy(&s->profile));
  if (s->machine) RengaCall(RengaMachineDestroy(&s->machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTokens(RengaDataWriter writer)
{
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 2, .dim = {BATCH, PLACES}};
  int64_t values[BATCH * PLACES];
  int tokens, labels;
  for (int i = 0; i < BATCH * PLACES; i++) values[i] = i * 7 % VOCABULARY;
  RengaCall(RengaDataWriterAdd(writer, "/training/tokens", &spec, &tokens));
  RengaCall(RengaDataWriterAdd(writer, "/training/labels", &spec, &labels));
  RengaCall(RengaDataWriterWrite(writer, tokens, 0, BATCH, values));
  RengaCall(RengaDataWriterWrite(writer, labels, 0, BATCH / 2, values));
  RengaCall(RengaDataWriterWrite(writer, labels, BATCH / 2, BATCH / 2, values));
  RengaCall(RengaDataWriterPutInt(writer, -1, "vocabulary", VOCABULARY));
  RengaCall(RengaDataWriterPutText(writer, tokens, "what", "tokens"));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteData(void)
{
  RengaDataWriter writer = NULL;
  RengaErrorCode code = RengaDataWriterCreate(data_file, &writer);
  if (!code) code = WriteTokens(writer);
  RengaCall(RengaDataWriterClose(&writer, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoWriteData(State *s)
{
  const bool root = RengaCommGetRank(s->comm) == 0;
  Together(s, root ? WriteData() : RENGA_SUCCESS);
  return RENGA_SUCCESS;
}

/* It is whole or not there. */
static RengaErrorCode UndoWriteData(State *s)
{
  const bool root = RengaCommGetRank(s->comm) == 0;
  if (root) Expect(unlink(data_file) == 0 || s->result == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode DoData(State *s)
{
  const char *const names[] = {"tokens", "labels"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {PLACES}};
  const RengaTensorSpec specs[] = {spec, spec};
  const int64_t classes[] = {VOCABULARY, VOCABULARY};
  int64_t tokens[3 * PLACES];
  uint64_t digest;
  Together(s, RengaDataCreate(s->comm, &s->data));
  Together(s, RengaDataSetFile(s->data, data_file));
  Together(s, RengaDataSetFields(s->data, 2, names, specs, classes));
  RengaCall(RengaDataSetUp(s->data));
  Together(s, RengaDataRead(s->data, RENGA_DATA_TRAINING, 0, 0, 2, 3, tokens));
  RengaCall(RengaDataGetDigest(s->data, &digest));
  s->result = (double)digest + (double)RengaHash(tokens, sizeof tokens, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoData(State *s)
{
  if (s->data) RengaCall(RengaDataDestroy(&s->data));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoSearch(State *s)
{
  Together(s, RengaMachineCreate(s->comm, &s->machine));
  RengaCall(RengaMachineLoad(s->machine, "v100"));
  Together(s, RengaProfileCreate(s->comm, &s->profile));
  Together(s, RengaProfileSetMachine(s->profile, s->machine));
  Together(s, RengaProfileSetType(s->profile, RENGA_PROFILE_ANALYTIC));
  Together(s, RengaPartitionCreate(s->comm, &s->partition));
  Together(s, RengaPartitionSetGraph(s->partition, s->graph));
  Together(s, RengaPartitionSetProfile(s->partition, s->profile));
  Together(s, RengaPartitionSetType(s->partition, RENGA_PARTITION_AUTO));
  Together(s, RengaPartitionSetBatch(s->partition, BATCH, MICROBATCH));
  RengaCall(RengaPartitionSolve(s->partition, &s->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoPipeline(State *s)
{
  RengaOptimizer optimizer;
  RengaSettings settings;
  Together(s, RengaPipelineCreate(s->comm, &s->pipeline));
  RengaCall(RengaPipelineGetSettings(s->pipeline, &settings));
  Together(s, RengaSettingsSetFromOptions(settings));
  if (getenv("RENGA_FAULT_SHARD")) Together(s, RengaSettingsSetBuckets(settings, 3));
  if (getenv("RENGA_FAULT_GROUPS"))
    Together(s, RengaSettingsSetShardGroups(settings, atoi(getenv("RENGA_FAULT_GROUPS"))));
  Together(s, RengaPipelineSetPlan(s->pipeline, s->graph, s->plan));
  RengaCall(RengaPipelineGetOptimizer(s->pipeline, &optimizer));
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 1));
  RengaCall(RengaPipelineSetUp(s->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoPipeline(State *s)
{
  if (s->pipeline) RengaCall(RengaPipelineDestroy(&s->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoStep(State *s)
{
  const RengaBatch batch = {.samples = BATCH, .read = ReadTokens};
  RengaCall(RengaPipelineStep(s->pipeline, &batch, &s->result));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadBack(State *s, const char *file)
{
  RengaCheckpoint reader;
  RengaCall(RengaCheckpointCreate(s->comm, &reader));
  RengaCall(RengaCheckpointSetPipeline(reader, s->pipeline));
  RengaCall(RengaCheckpointRead(reader, file));
  RengaCall(RengaCheckpointDestroy(&reader));
  return RENGA_SUCCESS;
}

/* Back to the checkpoint that was made for it. */
static RengaErrorCode UndoStep(State *s)
{
  RengaCall(ReadBack(s, s->base_file));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoEvaluate(State *s)
{
  const RengaBatch batch = {.samples = BATCH, .read = ReadTokens};
  RengaCall(RengaPipelineEvaluate(s->pipeline, &batch, &s->result));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoDigest(State *s)
{
  uint64_t digest;
  RengaCall(RengaPipelineGetDigest(s->pipeline, &digest));
  s->result = (double)digest;
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenCheckpoint(State *s, const char *where, RengaCheckpoint *checkpoint)
{
  Together(s, RengaCheckpointCreate(s->comm, checkpoint));
  Together(s, RengaCheckpointSetPipeline(*checkpoint, s->pipeline));
  Together(s, RengaCheckpointSetDirectory(*checkpoint, where));
  Together(s, RengaCheckpointSetAttribute(*checkpoint, "data", "tokens"));
  RengaCall(RengaCheckpointSetUp(*checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoCheckpoint(State *s)
{
  RengaCall(OpenCheckpoint(s, directory, &s->checkpoint));
  RengaCall(RengaCheckpointWrite(s->checkpoint, NULL));
  return RENGA_SUCCESS;
}

/* A file that is there is whole, and holds what the pipeline does; rank 0 removes it. */
static RengaErrorCode TakeAway(State *s, const char *name)
{
  char path[PATH];
  struct stat status;
  int there;
  uint64_t before, after;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  there = RengaCommGetRank(s->comm) == 0 && stat(path, &status) == 0;
  RengaCallMPI(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
  if (!there) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetDigest(s->pipeline, &before));
  RengaCall(ReadBack(s, path));
  RengaCall(RengaPipelineGetDigest(s->pipeline, &after));
  Expect(before == after);
  if (RengaCommGetRank(s->comm) == 0) Expect(unlink(path) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseCheckpoint(State *s)
{
  if (s->checkpoint) RengaCall(RengaCheckpointDestroy(&s->checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoCheckpoint(State *s)
{
  RengaCall(CloseCheckpoint(s));
  RengaCall(TakeAway(s, "step_000000001.h5"));
  return RENGA_SUCCESS;
}

/* Begun by a step, and waited for by the next call. */
static RengaErrorCode DoBeside(State *s)
{
  bool wrote, stop, found;
  int64_t step;
  RengaCall(OpenCheckpoint(s, directory, &s->checkpoint));
  Together(s, RengaCheckpointSetAsync(s->checkpoint, true));
  Together(s, RengaCheckpointSetFromOptions(s->checkpoint));
  RengaCall(RengaCheckpointSetUp(s->checkpoint));
  RengaCall(RengaCheckpointStep(s->checkpoint, &wrote, &stop));
  RengaCall(RengaCheckpointGetNewest(s->checkpoint, &found, &step));
  return RENGA_SUCCESS;
}

/* A disk that fails is no error: the result says what was written. */
static RengaErrorCode DoTry(State *s)
{
  bool wrote;
  RengaCall(OpenCheckpoint(s, directory, &s->checkpoint));
  RengaCall(RengaCheckpointTry(s->checkpoint, "best", &wrote));
  RengaCall(RengaCheckpointMarkBad(s->checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoTry(State *s)
{
  RengaCall(CloseCheckpoint(s));
  RengaCall(TakeAway(s, "best.h5"));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoResume(State *s)
{
  bool found;
  int64_t step = -1;
  RengaCall(OpenCheckpoint(s, directory, &s->checkpoint));
  RengaCall(RengaCheckpointResume(s->checkpoint, &found, &step));
  Expect(found && step == 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode DoForward(State *s)
{
  const RengaBatch batch = {.samples = BATCH, .read = ReadTokens};
  float logits[BATCH * PLACES * VOCABULARY];
  RengaCall(RengaPipelineForwardTo(s->pipeline, &batch, "logits", RENGA_TO_ALL, logits));
  s->result = (double)RengaHash(logits, sizeof logits, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode DoNamed(State *s)
{
  float values[VOCABULARY * WIDTH];
  const RengaPipelineParameter *list;
  int count;
  Together(s, RengaPipelineListParameters(s->pipeline, &count, &list));
  RengaCall(RengaPipelineGetParameter(s->pipeline, "wte.weight", RENGA_TO_ALL, values));
  RengaCall(RengaPipelineSetParameter(s->pipeline, "wte.weight", 0, values));
  s->result = (double)RengaHash(values, sizeof values, 0) + count;
  return RENGA_SUCCESS;
}

static RengaErrorCode DoInitial(State *s)
{
  RengaCheckpointInitial initial;
  Together(s, RengaCheckpointCreate(s->comm, &s->checkpoint));
  Together(s, RengaCheckpointSetPipeline(s->checkpoint, s->pipeline));
  RengaCall(RengaCheckpointReadInitial(s->checkpoint, base_directory, false, &initial));
  s->result = initial.taken;
  return RENGA_SUCCESS;
}

static RengaErrorCode DoView(State *s)
{
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(s->comm, "ascii:/dev/null", &viewer));
  const RengaErrorCode code = RengaPipelineView(s->pipeline, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The state that steps go back to. */
static RengaErrorCode MakeBase(State *s)
{
  RengaCheckpoint base;
  RengaFree(&s->base_file);
  RengaCall(OpenCheckpoint(s, base_directory, &base));
  RengaCall(RengaCheckpointWrite(base, &s->base_file));
  RengaCall(RengaCheckpointDestroy(&base));
  return RENGA_SUCCESS;
}

const Part parts[] = {
    {"group", DoGroup, UndoGroup, UndoGroup, 0},
    {"write data", DoWriteData, UndoWriteData, NULL, 0},
    {"data", DoData, UndoData, UndoData, 0},
    {"file", DoFile, UndoGraph, UndoGraph, 0},
    {"graph", DoGraph, UndoGraph, NULL, 0},
    {"search", DoSearch, UndoPlan, UndoPlan, 0},
    {"plan", DoPlan, UndoPlan, NULL, 0},
    {"pipeline", DoPipeline, UndoPipeline, MakeBase, 0},
    {"step", DoStep, UndoStep, MakeBase, PART_KEEPS | PART_STEPS},
    {"digest", DoDigest, NULL, NULL, PART_KEEPS},
    {"beside", DoBeside, UndoCheckpoint, UndoCheckpoint, PART_KEEPS | PART_WARNS},
    {"checkpoint", DoCheckpoint, UndoCheckpoint, CloseCheckpoint, PART_KEEPS},
    {"try", DoTry, UndoTry, UndoTry, PART_KEEPS | PART_WARNS},
    {"second step", DoStep, UndoStep, NULL, PART_KEEPS | PART_STEPS},
    {"resume", DoResume, CloseCheckpoint, CloseCheckpoint, 0},
    {"step again", DoStep, UndoStep, MakeBase, PART_KEEPS | PART_STEPS},
    {"evaluate", DoEvaluate, NULL, NULL, PART_KEEPS},
    {"forward", DoForward, NULL, NULL, PART_KEEPS},
    {"named", DoNamed, NULL, NULL, PART_KEEPS},
    {"initial", DoInitial, CloseCheckpoint, CloseCheckpoint, PART_KEEPS},
    {"view", DoView, NULL, NULL, PART_KEEPS},
    {"last digest", DoDigest, NULL, NULL, PART_KEEPS},
};
const int n_parts = sizeof parts / sizeof parts[0];

RengaErrorCode UndoAll(State *s)
{
  RengaFree(&s->base_file);
  RengaCall(UndoPipeline(s));
  RengaCall(UndoPlan(s));
  RengaCall(UndoGraph(s));
  return RENGA_SUCCESS;
}

RengaErrorCode RemoveFiles(void)
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 0) Expect(system("rm -rf faults-checkpoints faults-base faults-tokens.h5*") == 0);
  RengaCallMPI(MPI_Barrier(MPI_COMM_WORLD));
  return RENGA_SUCCESS;
}
