/* TEST ranks: 1 3 */
/* Files that are wrong: each is an error on all ranks that says what and where, without a crash, a
   hang or a leak; and files that end too early. Random changes of right files are mutations.c. */
#include "../check.h"
#include "rengacomm.h"
#include "renga/private/graph.h"
#include "malformed.h"
#include "wrong.h"

static RengaErrorCode Read(RengaComm comm, const char *name)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaErrorCode code = RengaGraphReadOnnx(graph, name);
  if (code == RENGA_SUCCESS) code = RengaGraphSetUp(graph);
  RengaCall(RengaGraphDestroy(&graph));
  return code;
}

typedef struct {
  RengaComm comm;
  MPI_Comm mpi;
  int rank;
} World;

/* Rank 0 writes the file, all read it; on rank 0 the parts must be in the message. */
static RengaErrorCode Check(const World *world, const char *name, const Message *model,
                            RengaErrorCode wanted, const char *where, const char *what)
{
  FILE *file;
  RengaCallMPI(MPI_Barrier(world->mpi));
  if (world->rank == 0 && model) RengaCall(WriteMessage(model, malformed_file));
  RengaCallMPI(MPI_Barrier(world->mpi));
  int saved = BeginErrors(&file);
  RengaErrorCode code = Read(world->comm, model ? malformed_file : name);
  const char *text = EndErrors(file, saved);
  RengaCheck(code == wanted, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: error %d (%s), not %d (%s): %s", name, (int)code, RengaErrorText(code),
             (int)wanted, RengaErrorText(wanted), text);
  bool said = world->rank > 0 || (strstr(text, where) && strstr(text, what));
  RengaCheck(said, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: neither \"%s\" nor \"%s\" may lack in: %s", name, where, what, text);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCases(const World *world)
{
  for (int i = 0; i < malformed_count; i++) {
    Message *model = malformed_rows[i].make();
    RengaErrorCode code = Check(world, malformed_rows[i].name, model, malformed_rows[i].code,
                                malformed_rows[i].where, malformed_rows[i].what);
    MessageFree(model);
    RengaCall(code);
  }
  for (int i = 0; i < wrong_count; i++) {
    const WrongRow *row = &wrong_rows[i];
    Message *model = NewModelOf(row->opset, row->text);
    RengaErrorCode code = Check(world, row->name, model, row->code, row->where, row->what);
    MessageFree(model);
    RengaCall(code);
  }
  RengaCall(Check(world, "no-such.onnx", NULL, RENGA_ERR_FILE_OPEN, "no-such.onnx", "No such"));
  RengaCall(Check(world, ".", NULL, RENGA_ERR_FILE_OPEN, ".", "not a regular file"));
  RengaCall(Check(world, "/dev/zero", NULL, RENGA_ERR_FILE_OPEN, "/dev/zero", "not a regular"));
  return RENGA_SUCCESS;
}

/* Every length of a file but the whole one is wrong, or lacks what comes last. */
static RengaErrorCode RunTruncations(const World *world)
{
  Message *message = NewNetwork(0);
  const size_t whole = message->count;
  RengaErrorCode read = RENGA_SUCCESS;
  for (size_t count = 1; count < whole && read == RENGA_SUCCESS; count += 7) {
    FILE *file;
    message->count = count;
    RengaCallMPI(MPI_Barrier(world->mpi));
    if (world->rank == 0) read = WriteMessage(message, malformed_file);
    RengaCallMPI(MPI_Barrier(world->mpi));
    int saved = BeginErrors(&file);
    RengaErrorCode code = Read(world->comm, malformed_file);
    const char *text = EndErrors(file, saved);
    if (code == RENGA_SUCCESS || (world->rank == 0 && !strstr(text, malformed_file)))
      read = RENGA_ERR_INTERNAL;
  }
  MessageFree(message);
  RengaCheck(read == RENGA_SUCCESS, MPI_COMM_SELF, read, "a truncated file is read");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAll(void)
{
  World world;
  size_t before, after, peak;
  int64_t blocks;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &world.comm));
  RengaCall(RengaObjectGetComm(world.comm, &world.mpi));
  RengaCallMPI(MPI_Comm_rank(world.mpi, &world.rank));
  RengaMemoryGetUsage(&before, &peak, &blocks);
  RengaCall(RunCases(&world));
  RengaCall(RunTruncations(&world));
  RengaMemoryGetUsage(&after, &peak, &blocks);
  RengaCheck(after == before, MPI_COMM_SELF, RENGA_ERR_MEMORY, "%zu bytes are left",
             after - before);
  RengaCallMPI(MPI_Barrier(world.mpi));
  if (world.rank == 0) remove(malformed_file), remove(malformed_link);
  RengaCall(RengaCommDestroy(&world.comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunAll)
