/* TEST ranks: 1 2 */
/* Tensors of the program's own in checkpoints: written once, read on all ranks; a file without
   them, and a reader that does not want them, are no error; what cannot be is refused. */
#include "../pipeline/run.h"
#include "rengacheckpoint.h"

enum { EXTRA_COUNT = 1000 };

#define OnFirst(comm, text) (RengaCommGetRank(comm) == 0 ? (text) : "")

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
} ExtraRun;

static RengaErrorCode MakeExtraRun(RengaComm comm, const char *folder, ExtraRun *run)
{
  static const int64_t samples[] = {4};
  char directory[64];
  const Run how = {.graph = "mlp:sizes=6-8-5",
                   .batch = 4,
                   .microbatch = 2,
                   .steps = 1,
                   .samples = samples,
                   .stages = RengaCommGetSize(comm),
                   .replicas = 1};
  snprintf(directory, sizeof directory, "%s%d", folder, RengaCommGetSize(comm));
  RengaCall(RunGraph(comm, how.graph, &run->graph));
  RengaCall(RunPlan(comm, &how, run->graph, &run->plan));
  RengaCall(RunConfigure(comm, &how, run->graph, run->plan, &run->pipeline));
  RengaCall(RengaPipelineSetUp(run->pipeline));
  RengaCall(RengaCheckpointCreate(comm, &run->checkpoint));
  RengaCall(RengaCheckpointSetDirectory(run->checkpoint, directory));
  RengaCall(RengaCheckpointSetUp(run->checkpoint));
  RengaCall(RengaCheckpointSetPipeline(run->checkpoint, run->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndExtraRun(ExtraRun *run)
{
  RengaCall(RengaCheckpointDestroy(&run->checkpoint));
  RengaCall(RengaPipelineDestroy(&run->pipeline));
  RengaCall(RengaPlanDestroy(&run->plan));
  RengaCall(RengaGraphDestroy(&run->graph));
  return RENGA_SUCCESS;
}

/* What a test has written, or one before it that did not come to its end. */
static RengaErrorCode RemoveExtra(RengaComm comm, const char *folder)
{
  char directory[64], file[128];
  snprintf(directory, sizeof directory, "%s%d", folder, RengaCommGetSize(comm));
  snprintf(file, sizeof file, "%s/step_000000000.h5", directory);
  if (RengaCommGetRank(comm) == 0) {
    unlink(file);
    rmdir(directory);
  }
  RengaCall(RengaCommBarrier(comm, "the files to be gone"));
  return RENGA_SUCCESS;
}

/* Writes with `given` numbers (0: none), reads into `wanted` (0: none). */
static RengaErrorCode CheckExtra(RengaComm comm, const char *folder, int64_t given, int64_t wanted)
{
  ExtraRun run;
  float out[EXTRA_COUNT], in[EXTRA_COUNT];
  int64_t step;
  bool found, has;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {given}};
  for (int i = 0; i < EXTRA_COUNT; i++) out[i] = (float)i / 7, in[i] = -1;
  RengaCall(RemoveExtra(comm, folder));
  RengaCall(MakeExtraRun(comm, folder, &run));
  if (given) RengaCall(RengaCheckpointAddTensor(run.checkpoint, "numbers", &spec, out));
  RengaCall(RengaCheckpointWrite(run.checkpoint, NULL));
  RengaCall(EndExtraRun(&run));
  RengaCall(MakeExtraRun(comm, folder, &run));
  spec.dim[0] = wanted;
  if (wanted) RengaCall(RengaCheckpointAddTensor(run.checkpoint, "numbers", &spec, in));
  RengaCall(RengaCheckpointHasTensor(run.checkpoint, "numbers", &has));
  Expect(!has); /* nothing was read yet */
  RengaCall(RengaCheckpointResume(run.checkpoint, &found, &step));
  Expect(found);
  RengaCall(RengaCheckpointHasTensor(run.checkpoint, "numbers", &has));
  Expect(has == (given > 0 && given == wanted));
  for (int64_t i = 0; i < wanted; i++) Expect(in[i] == (has ? out[i] : -1));
  RengaCall(EndExtraRun(&run));
  RengaCall(RemoveExtra(comm, folder));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckExtraErrors(RengaComm comm)
{
  ExtraRun run;
  RengaCheckpoint bare;
  float numbers[2] = {0};
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {2}};
  RengaCall(MakeExtraRun(comm, "errors", &run));
  RengaCall(RengaCheckpointAddTensor(run.checkpoint, "numbers", &spec, numbers));
  ExpectError(RengaCheckpointAddTensor(run.checkpoint, "numbers", &spec, numbers),
              RENGA_ERR_ARGUMENT, OnFirst(comm, "numbers was added to the checkpoint before"));
  spec.type = RENGA_INT64;
  ExpectError(RengaCheckpointAddTensor(run.checkpoint, "others", &spec, numbers), RENGA_ERR_SUPPORT,
              OnFirst(comm, "only float32 is supported"));
  RengaCall(EndExtraRun(&run));
  RengaCall(RengaCheckpointCreate(comm, &bare));
  ExpectError(RengaCheckpointAddTensor(bare, "numbers", &spec, numbers), RENGA_ERR_ORDER,
              "call RengaCheckpointSetPipeline first");
  RengaCall(RengaCheckpointDestroy(&bare));
  RengaCall(RemoveExtra(comm, "errors"));
  return RENGA_SUCCESS;
}

/* Ranks that mean different files part before the first message. */
static RengaErrorCode CheckSameFolder(RengaComm comm)
{
  ExtraRun run;
  const bool last = RengaCommGetRank(comm) == RengaCommGetSize(comm) - 1;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  RengaCall(MakeExtraRun(comm, "same", &run));
  ExpectError(RengaCheckpointRead(run.checkpoint, last ? "one.h5" : "other.h5"), RENGA_ERR_ARGUMENT,
              OnFirst(comm, "differs from rank 0 in its checkpoint to read or write"));
  RengaCall(RengaCheckpointSetDirectory(run.checkpoint, last ? "extra-one" : "extra-other"));
  ExpectError(RengaCheckpointSetUp(run.checkpoint), RENGA_ERR_ARGUMENT,
              OnFirst(comm, "differs from rank 0 in its folder of checkpoints"));
  RengaCall(EndExtraRun(&run));
  RengaCall(RemoveExtra(comm, "same"));
  return RENGA_SUCCESS;
}

/* A folder that is removed during a run is made again. */
static RengaErrorCode CheckRemovedFolder(RengaComm comm)
{
  ExtraRun run;
  char lock[64], *file = NULL;
  RengaCall(MakeExtraRun(comm, "removed", &run));
  snprintf(lock, sizeof lock, "removed%d/.renga_lock", RengaCommGetSize(comm));
  if (RengaCommGetRank(comm) == 0) Expect(unlink(lock) == 0);
  RengaCall(RemoveExtra(comm, "removed"));
  RengaCall(RengaCheckpointWrite(run.checkpoint, &file));
  Expect(access(file, R_OK) == 0 && access(lock, R_OK) == 0);
  RengaFree(&file);
  RengaCall(RengaCommBarrier(comm, "all ranks to have seen the files"));
  RengaCall(EndExtraRun(&run));
  RengaCall(RemoveExtra(comm, "removed"));
  return RENGA_SUCCESS;
}

/* A list of the program's: the tensors of a pipeline, and one that each rank has a number of. */
typedef struct {
  RengaPipeline pipeline;
  int rank, ranks, calls;
  float own;
  RengaPersistent list[64];
} TestList;

static RengaErrorCode GiveList(void *user, int *count, const RengaPersistent **tensors)
{
  TestList *list = user;
  const RengaPersistent *rows;
  RengaCall(RengaPipelineGetPersistents(list->pipeline, count, &rows));
  Expect(*count < (int)(sizeof list->list / sizeof list->list[0]));
  memcpy(list->list, rows, (size_t)*count * sizeof *rows);
  list->list[(*count)++] =
      (RengaPersistent){.name = RENGA_CHECKPOINT_OWN "each",
                        .spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {list->ranks}},
                        .part = {.start = {list->rank}, .extent = {1}},
                        .data = &list->own,
                        .owner = true};
  *tensors = list->list;
  list->calls++;
  return RENGA_SUCCESS;
}

/* written, wanted: with the list. What the file lacks stays as it was. */
static RengaErrorCode CheckList(RengaComm comm, bool written, bool wanted)
{
  ExtraRun run;
  const int rank = RengaCommGetRank(comm);
  TestList list = {.rank = rank, .ranks = RengaCommGetSize(comm), .own = (float)rank + 3};
  int64_t step;
  bool found;
  RengaCall(RemoveExtra(comm, "list"));
  for (int pass = 0; pass < 2; pass++) {
    RengaCall(MakeExtraRun(comm, "list", &run));
    list.pipeline = run.pipeline;
    if (pass ? wanted : written)
      RengaCall(RengaCheckpointSetTensors(run.checkpoint, GiveList, &list));
    if (pass == 0) {
      RengaCall(RengaCheckpointWrite(run.checkpoint, NULL));
      list.own = -1;
    } else {
      RengaCall(RengaCheckpointResume(run.checkpoint, &found, &step));
      Expect(found && list.own == (written && wanted ? (float)rank + 3 : -1));
      Expect((list.calls > 0) == (written || wanted));
    }
    RengaCall(EndExtraRun(&run));
  }
  RengaCall(RemoveExtra(comm, "list"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckExtra(comm, "both", EXTRA_COUNT, EXTRA_COUNT));
  RengaCall(CheckExtra(comm, "written", EXTRA_COUNT, 0));
  RengaCall(CheckExtra(comm, "wanted", 0, EXTRA_COUNT));
  RengaCall(CheckExtra(comm, "others", EXTRA_COUNT, EXTRA_COUNT - 1));
  for (int kind = 0; kind < 4; kind++) RengaCall(CheckList(comm, kind % 2, kind / 2));
  RengaCall(CheckExtraErrors(comm));
  RengaCall(CheckSameFolder(comm));
  RengaCall(CheckRemovedFolder(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
