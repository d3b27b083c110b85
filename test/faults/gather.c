/* TEST ranks: 2 3 timeout: 600 */
/* Replicas share the optimizer, or gradients and parameters, too, and a message of one of them
   cannot be started: one of a sum of gradients, or of parameters. All ranks end within the time
   limit: the one says which call failed, the others say so too, or name it as the one that gave no
   sign. From the failure on seconds fly (test/flying.c), so that no slow rank meets the limit. */
#include "../pipeline/run.h"
#include "../plan/plantest.h"
#include <fcntl.h>
#include <unistd.h>

enum { BATCH = 6, STEPS = 3 };

static RengaShard level;

static struct {
  int64_t calls, from; /* from 0: none fails */
} message;
static const char failed_file[] = "gather-failed"; /* there from the first failure on */

static bool Fails(void)
{
  message.calls++;
  if (message.from == 0 || message.calls < message.from) return false;
  if (message.calls == message.from) close(open(failed_file, O_WRONLY | O_CREAT, 0666));
  return true;
}

/* These stand before those of MPI. */
int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
  return Fails() ? MPI_ERR_INTERN : PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

int MPI_Iallgather(const void *mine, int count, MPI_Datatype type, void *all, int each,
                   MPI_Datatype place, MPI_Comm comm, MPI_Request *request)
{
  return Fails() ? MPI_ERR_INTERN
                 : PMPI_Iallgather(mine, count, type, all, each, place, comm, request);
}

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
} Sharded;

static RengaErrorCode MakeSharded(RengaComm comm, Sharded *made)
{
  static const int64_t samples[] = {BATCH};
  const Run run = {.graph = "mlp:sizes=6-16-12-8-5",
                   .classes = 5,
                   .batch = BATCH,
                   .microbatch = 1,
                   .stages = 1,
                   .replicas = RengaCommGetSize(comm),
                   .shard = 1,
                   .level = level,
                   .buckets = 3,
                   .clip_norm = 0.5,
                   .samples = samples};
  RengaCall(RunGraph(comm, run.graph, &made->graph));
  RengaCall(RunPlan(comm, &run, made->graph, &made->plan));
  RengaCall(RunConfigure(comm, &run, made->graph, made->plan, &made->pipeline));
  RengaCall(RengaPipelineSetUp(made->pipeline));
  made->source = (Source){.graph = made->graph, .classes = run.classes};
  return RENGA_SUCCESS;
}

/* Steps, and what brings their gathers to an end. */
static RengaErrorCode MakeSteps(Sharded *made)
{
  const RengaBatch batch = {BATCH, RunRead, &made->source};
  uint64_t digest;
  double loss;
  for (int step = 0; step < STEPS; step++)
    RengaCall(RengaPipelineStep(made->pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(made->pipeline, &digest));
  return RENGA_SUCCESS;
}

/* Alone, or behind others who gave up at the same moment: "no sign of rank 0, 2 (stopped". */
static bool IsNamed(int rank, const char *errors)
{
  char alone[32], behind[32];
  snprintf(alone, sizeof alone, "rank %d", rank);
  snprintf(behind, sizeof behind, ", %d (", rank);
  return strstr(errors, alone) || strstr(errors, behind);
}

/* What this rank says of it; and that all have ended. */
static RengaErrorCode Judge(int rank, int last, RengaErrorCode code, const char *errors)
{
  int64_t failed = code != RENGA_SUCCESS;
  const bool says = rank == last                ? strstr(errors, "MPI_I") != NULL
                    : code == RENGA_ERR_TIMEOUT ? IsNamed(last, errors)
                                                : true;
  RengaCallMPI(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
  if (!says || failed != last + 1)
    printf("%d ranks failed; rank %d: %s", (int)failed, rank, errors);
  Expect(says && failed == last + 1);
  return RENGA_SUCCESS;
}

/* Message n of the last rank, and all that follow; 0: none. calls: how many there were. */
static RengaErrorCode FailMessage(int64_t n, int64_t *calls)
{
  RengaComm comm;
  Sharded made;
  FILE *file;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm)); /* no wait in it makes sense afterwards */
  const int last = RengaCommGetSize(comm) - 1, rank = RengaCommGetRank(comm);
  RengaCall(MakeSharded(comm, &made));
  RengaCall(RengaCommSetTimeout(comm, 100));
  message.calls = 0;
  message.from = rank == last ? n : 0;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = MakeSteps(&made);
  const char *errors = EndErrors(file, saved);
  message.from = 0;
  *calls = message.calls;
  if (n)
    RengaCall(Judge(rank, last, code, errors));
  else
    RengaCall(code);
  if (rank == last) unlink(failed_file);
  RengaCall(RengaPipelineDestroy(&made.pipeline));
  RengaCall(RengaPlanDestroy(&made.plan));
  RengaCall(RengaGraphDestroy(&made.graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode TryLevel(int tries)
{
  int64_t calls = 0, tried;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  RengaCall(FailMessage(0, &calls));
  RengaCallMPI(MPI_Bcast(&calls, 1, MPI_INT64_T, size - 1, MPI_COMM_WORLD));
  Expect(calls > 10);
  if (rank == 0) printf("%s: %d messages\n", RengaShardName(level), (int)calls);
  for (int64_t n = 1; n <= calls; n += calls / tries) RengaCall(FailMessage(n, &tried));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  setenv("RENGA_NODES", "8", 1); /* ranks of a node send no messages */
  for (level = RENGA_SHARD_OPTIMIZER; level <= RENGA_SHARD_PARAMETERS; level++)
    RengaCall(TryLevel(UnlessSlow(4, 1)));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  setenv("RENGA_TEST_FLY", failed_file, 1);
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  LeaveWithoutMPI();
}
