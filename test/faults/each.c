/* TEST ranks: 1 2 timeout: 300 */
/* One allocation, one message, one write to a file, one read of a sample fails on one rank, in each
   part of a small run that trains, writes a checkpoint and resumes from it. Either all ranks get an
   error, nothing that they took is left and nothing has changed, or the part is done all the same.
   The files that were there stay whole, and in the end losses and parameters have the bits of the
   run that was not disturbed.

   RENGA_FAULT_TRIES=n: so many events of each kind in each part (20), every k-th from a place that
   follows from RENGA_FAULT_SEED; 0: every event, on each rank. RENGA_FAULT_PART=name: that part
   alone. */
#include "../check.h"
#include "renga.h"
#include "renga/private/fault.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { BATCH = 8, MICROBATCH = 2, VOCABULARY = 17, PLACES = 6, PATH = 1024 };
static const char network[] = "gpt:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17,dropout=0.1";
static const char directory[] = "faults-checkpoints", base_directory[] = "faults-base";

/* What the parts leave to each other. */
typedef struct {
  MPI_Comm ranks;
  RengaComm comm, group;
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  double result; /* of the part: a loss; 0 where it has none */
  char *base_file;
} State;

/* Every rank comes here, and all fail where one did: what a program does that goes on after an
   error. Functions that exchange messages do so themselves. */
#define Together(s, call) RengaCall(RengaErrorAgree((s)->ranks, (call)))

/* The kinds of fault.h, and one that needs no help of the library. */
enum { FAULT_READ = RENGA_FAULT_KINDS, KINDS };
static const char *const kind_names[KINDS] = {"allocation", "message", "file", "read"};
static int64_t reads, read_due;

static void SetFault(int kind, int64_t n)
{
  if (kind < RENGA_FAULT_KINDS) RengaFaultSet((RengaFaultKind)kind, n);
  if (kind != FAULT_READ) return;
  reads = 0;
  read_due = n;
}

static int64_t CountFaults(int kind)
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
  Together(s, RengaGraphSetUp(s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoGraph(State *s)
{
  if (s->graph) RengaCall(RengaGraphDestroy(&s->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoPlan(State *s)
{
  Together(s, RengaPartitionCreate(s->comm, &s->partition));
  Together(s, RengaPartitionSetGraph(s->partition, s->graph));
  Together(s, RengaPartitionSetBatch(s->partition, BATCH, MICROBATCH));
  Together(s, RengaPartitionSetStages(s->partition, RengaCommGetSize(s->comm)));
  Together(s, RengaPartitionSolve(s->partition, &s->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode UndoPlan(State *s)
{
  if (s->plan) RengaCall(RengaPlanDestroy(&s->plan));
  if (s->partition) RengaCall(RengaPartitionDestroy(&s->partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode DoPipeline(State *s)
{
  RengaOptimizer optimizer;
  Together(s, RengaPipelineCreate(s->comm, &s->pipeline));
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

/* A part of the run. undo: so that it can be done again; after it nothing is left of it. */
typedef RengaErrorCode (*PartFunction)(State *state);
typedef struct {
  const char *name;
  PartFunction part, undo;
  PartFunction after; /* once, when it is done */
} Part;

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

static const Part parts[] = {
    {"group", DoGroup, UndoGroup, UndoGroup},
    {"file", DoFile, UndoGraph, UndoGraph},
    {"graph", DoGraph, UndoGraph, NULL},
    {"plan", DoPlan, UndoPlan, NULL},
    {"pipeline", DoPipeline, UndoPipeline, MakeBase},
    {"step", DoStep, UndoStep, MakeBase},
    {"digest", DoDigest, NULL, NULL},
    {"checkpoint", DoCheckpoint, UndoCheckpoint, CloseCheckpoint},
    {"try", DoTry, UndoTry, UndoTry},
    {"second step", DoStep, UndoStep, NULL},
    {"resume", DoResume, CloseCheckpoint, CloseCheckpoint},
    {"step again", DoStep, UndoStep, MakeBase},
    {"evaluate", DoEvaluate, NULL, NULL},
    {"last digest", DoDigest, NULL, NULL},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Of the run that is not disturbed. */
static struct {
  double result;
  int64_t count[KINDS]; /* events of the rank that has most */
} reference[PARTS];

static RengaErrorCode Largest(int64_t *value)
{
  RengaCallMPI(MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
  return RENGA_SUCCESS;
}

/* Parameters are as before where a part failed that changes them when it succeeds. */
static bool KeepsParameters(const Part *part)
{
  return part->part == DoStep || part->part == DoEvaluate || part->part == DoCheckpoint ||
         part->part == DoTry;
}

/* What is wrong with how a part ended, or NULL. */
static const char *Judge(const State *s, int p, int kind, int64_t failed, RengaErrorCode code,
                         int64_t hit, const char *errors)
{
  if (code == RENGA_ERR_TIMEOUT) return "a rank waited for one that had failed";
  if (code && !hit) return "an error where nothing failed";
  if (failed && !code) return "an error on some ranks only";
  if (code && hit && !strstr(errors, "error")) return "nothing was printed";
  if (code && kind == RENGA_FAULT_MESSAGE) return "a message was not started again";
  if (code && kind == RENGA_FAULT_FILE && parts[p].part == DoTry && s->checkpoint &&
      code != RENGA_ERR_FILE_WRITE)
    return "a file that was not written ended the run";
  if (!code && s->result != reference[p].result) return "another result";
  return NULL;
}

/* Event n of rank r fails in part p. leaves: on some rank memory is left. */
static RengaErrorCode TryPart(State *s, int p, int kind, int r, int64_t n, bool *leaves)
{
  const Part *part = &parts[p];
  const int rank = RengaCommGetRank(s->comm);
  const bool keeps = s->pipeline && KeepsParameters(part);
  uint64_t before = 0, after = 0;
  char left[2000] = "";
  FILE *file;
  if (keeps) RengaCall(RengaPipelineGetDigest(s->pipeline, &before));
  const unsigned mark = RengaMemoryGetMark();
  const int saved = BeginErrors(&file);
  s->result = 0;
  SetFault(kind, r == rank ? n : 0);
  const RengaErrorCode code = part->part(s);
  int64_t failed = code, hit = r == rank && CountFaults(kind) >= n;
  SetFault(kind, 0);
  RengaErrorCode undone = Largest(&failed);
  if (!undone) undone = Largest(&hit);
  const char *wrong = NULL;
  if (!undone && part->undo && (!code || part->part != DoStep)) undone = part->undo(s);
  char errors[4096];
  snprintf(errors, sizeof errors, "%.4000s", EndErrors(file, saved));
  wrong = Judge(s, p, kind, failed, code, hit, r == rank ? errors : "error");
  int64_t bad = wrong || undone ? 2 : 0;
  RengaCall(Largest(&bad));
  if (keeps && !bad) undone = RengaPipelineGetDigest(s->pipeline, &after);
  if (!wrong && undone) wrong = "what was left of it could not be undone";
  if (!wrong && before != after) wrong = "parameters have changed";
  if (wrong) bad = 2;
  if (!bad && part->undo && part->part != DoStep &&
      RengaMemoryListSince(mark, sizeof left, left) > 0) {
    wrong = "memory is left";
    bad = 1;
  }
  if (wrong)
    printf("%s: %s %lld of rank %d: %s (rank %d: code %d)%s\n%s", part->name, kind_names[kind],
           (long long)n, r, wrong, rank, (int)code, left, errors);
  RengaCall(Largest(&bad));
  Expect(bad < 2);
  *leaves = bad > 0;
  return RENGA_SUCCESS;
}

static int64_t Setting(const char *name, int64_t otherwise)
{
  const char *text = getenv(name);
  return text ? atoll(text) : otherwise;
}

static RengaErrorCode TryKind(State *s, int p, int kind, int64_t *tried)
{
  const int ranks = RengaCommGetSize(s->comm);
  const int64_t count = reference[p].count[kind], tries = Setting("RENGA_FAULT_TRIES", 20);
  const int64_t stride = tries > 0 && count > tries ? (count + tries - 1) / tries : 1;
  const int64_t first = Setting("RENGA_FAULT_SEED", 1) % stride + 1;
  int64_t failed = 0;
  for (int64_t n = first; n <= count; n += stride)
    for (int r = 0; r < ranks; r++) {
      if (tries > 0 && (n - first) / stride % ranks != r) continue;
      bool leaves;
      RengaCall(TryPart(s, p, kind, r, n, &leaves));
      failed += leaves;
      ++*tried;
    }
  Expect(failed == 0);
  return RENGA_SUCCESS;
}

/* disturbed: with failures before the part is done. */
static RengaErrorCode RunPart(State *s, int p, bool disturbed)
{
  const char *only = getenv("RENGA_FAULT_PART");
  RengaErrorCode worst = RENGA_SUCCESS;
  for (int kind = 0; disturbed && kind < KINDS; kind++) {
    int64_t tried = 0;
    if (only && strcmp(only, parts[p].name) != 0) continue;
    const double begin = MPI_Wtime();
    const RengaErrorCode code = TryKind(s, p, kind, &tried);
    if (code) worst = code;
    if (RengaCommGetRank(s->comm) == 0 && tried > 0)
      printf("%s: %lld times %s failed, of %lld on a rank, %.1f s\n", parts[p].name,
             (long long)tried, kind_names[kind], (long long)reference[p].count[kind],
             MPI_Wtime() - begin);
  }
  RengaCall(worst);
  s->result = 0;
  for (int kind = 0; kind < KINDS; kind++) SetFault(kind, 0);
  RengaCall(parts[p].part(s));
  for (int kind = 0; kind < KINDS && !disturbed; kind++) {
    reference[p].count[kind] = CountFaults(kind);
    RengaCall(Largest(&reference[p].count[kind]));
  }
  if (disturbed) Expect(s->result == reference[p].result);
  reference[p].result = s->result;
  if (parts[p].after) RengaCall(parts[p].after(s));
  return RENGA_SUCCESS;
}

static RengaErrorCode RemoveFiles(void)
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 0) Expect(system("rm -rf faults-checkpoints faults-base") == 0);
  RengaCallMPI(MPI_Barrier(MPI_COMM_WORLD));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAll(bool disturbed)
{
  State s = {0};
  RengaCall(RemoveFiles());
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &s.comm));
  RengaCall(RengaCommSetTimeout(s.comm, 30));
  RengaCall(RengaObjectGetComm(s.comm, &s.ranks));
  for (int p = 0; p < PARTS; p++) RengaCall(RunPart(&s, p, disturbed));
  RengaFree(&s.base_file);
  RengaCall(UndoPipeline(&s));
  RengaCall(UndoPlan(&s));
  RengaCall(UndoGraph(&s));
  RengaCall(RengaCommDestroy(&s.comm));
  RengaCall(RemoveFiles());
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  setvbuf(stdout, NULL, _IOLBF, 0);
  RengaCall(RunAll(false));
  RengaCall(RunAll(true));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
