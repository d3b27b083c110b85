/* Runs cases side by side: each takes so many of the ranks, in the same order everywhere. */
#include "cases.h"
#include "plans.h"
#include "renga/private/fault.h"
#include <time.h>

enum { MOST_RANKS = 64 };

RengaErrorCode AddReference(Cases *cases, const char *options, int *number)
{
  for (*number = 0; *number < cases->references; ++*number)
    if (strcmp(cases->reference[*number].options, options) == 0) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(cases->references + 1, &cases->reference));
  Reference *reference = &cases->reference[cases->references++];
  memset(reference, 0, sizeof *reference);
  RengaCall(RengaStringCopy(options, &reference->options));
  return RENGA_SUCCESS;
}

RengaErrorCode AddNearness(Cases *cases, int one, int other, const char *file)
{
  RengaCall(RengaRealloc(cases->nearnesses + 1, &cases->nearness));
  Nearness *near = &cases->nearness[cases->nearnesses++];
  *near = (Nearness){one, other, NULL};
  if (file) RengaCall(RengaStringCopy(file, &near->file));
  return RENGA_SUCCESS;
}

RengaErrorCode AddCase(Cases *cases, const Case *added)
{
  RengaCall(RengaRealloc(cases->count + 1, &cases->cases));
  Case *new = &cases->cases[cases->count++];
  *new = *added;
  RengaCall(RengaStringCopy(added->options, &new->options));
  return RENGA_SUCCESS;
}

void FreeCases(Cases *cases)
{
  for (int r = 0; r < cases->references; r++) RengaFree(&cases->reference[r].options);
  for (int c = 0; c < cases->count; c++) RengaFree(&cases->cases[c].options);
  for (int n = 0; n < cases->nearnesses; n++) RengaFree(&cases->nearness[n].file);
  RengaFree(&cases->reference);
  RengaFree(&cases->nearness);
  RengaFree(&cases->cases);
}

/* Ranks that have nothing to do leave the processor to the others. */
static RengaErrorCode Await(int count, MPI_Request requests[])
{
  const struct timespec pause = {.tv_nsec = 500000};
  MPI_Status statuses[MOST_RANKS];
  for (int done = 0;;) {
    RengaCallMPI(MPI_Testall(count, requests, &done, statuses));
    if (done) return RENGA_SUCCESS;
    nanosleep(&pause, NULL);
  }
}

RengaErrorCode AwaitAll(void)
{
  MPI_Request request;
  RengaCallMPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
  RengaCall(Await(1, &request));
  return RENGA_SUCCESS;
}

/* The ranks of a case are all there; tag: its number. */
static RengaErrorCode Meet(int count, const int members[], int rank, int tag)
{
  MPI_Request requests[MOST_RANKS];
  int n = 0;
  Expect(count <= MOST_RANKS);
  for (int round = 0; round < 2; round++) {
    for (int m = 1; m < count && rank == members[0]; m++)
      if (round == 0)
        RengaCallMPI(MPI_Irecv(NULL, 0, MPI_BYTE, members[m], tag, MPI_COMM_WORLD, &requests[n++]));
      else
        RengaCallMPI(MPI_Isend(NULL, 0, MPI_BYTE, members[m], tag, MPI_COMM_WORLD, &requests[n++]));
    if (rank != members[0] && round == 0)
      RengaCallMPI(MPI_Isend(NULL, 0, MPI_BYTE, members[0], tag, MPI_COMM_WORLD, &requests[n++]));
    if (rank != members[0] && round == 1)
      RengaCallMPI(MPI_Irecv(NULL, 0, MPI_BYTE, members[0], tag, MPI_COMM_WORLD, &requests[n++]));
    RengaCall(Await(n, requests));
    n = 0;
  }
  return RENGA_SUCCESS;
}

/* Losses of one rank are those of a file, line by line. */
static bool NearFile(const Outcome *one, const char *name)
{
  FILE *file = fopen(name, "r");
  bool good = file != NULL;
  for (int s = 0; s < one->steps && good; s++) {
    double wanted = 0;
    good = fscanf(file, "%lf", &wanted) == 1;
    const double size = wanted < -1 ? -wanted : wanted > 1 ? wanted : 1;
    good = good && one->loss[s] - wanted < 1e-4 * size && wanted - one->loss[s] < 1e-4 * size;
  }
  if (file) fclose(file);
  return good;
}

static void CheckNearness(Cases *cases, const Nearness *near)
{
  const Reference *one = &cases->reference[near->one], *other = &cases->reference[near->other];
  const double loss = one->outcome.loss[one->outcome.steps - 1];
  const double wanted = other->outcome.loss[other->outcome.steps - 1];
  if (near->file ? NearFile(&one->outcome, near->file)
                 : loss - wanted < 1e-4 && wanted - loss < 1e-4)
    return;
  cases->differences++;
  if (near->file)
    printf("FAILED: other losses than %s: mpiexec -n 1 renga train %s\n", near->file, one->options);
  else
    printf(
        "FAILED: the last losses %.9g and %.9g are not near each other: mpiexec -n 1 renga train "
        "%s, mpiexec -n 1 renga train %s\n",
        loss, wanted, one->options, other->options);
}

RengaErrorCode RunReferences(Cases *cases)
{
  RengaComm alone;
  int size, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &alone));
  for (int r = rank; r < cases->references; r += size) {
    const clock_t begin = clock();
    RengaCheck(!Train(alone, cases->reference[r].options, &cases->reference[r].outcome),
               MPI_COMM_SELF, RENGA_ERR_INTERNAL, "FAILED: mpiexec -n 1 renga train %s",
               cases->reference[r].options);
    if (getenv("RENGA_TEST_VERBOSE"))
      printf("%.2f s of one rank: %s\n", (double)(clock() - begin) / CLOCKS_PER_SEC,
             cases->reference[r].options);
  }
  for (int v = 0; v < CountViews(); v++)
    if ((cases->references + v) % size == rank) RengaCall(CheckView(alone, v));
  RengaCall(RengaCommDestroy(&alone));
  RengaCall(AwaitAll());
  for (int r = 0; r < cases->references; r++)
    RengaCallMPI(MPI_Bcast(&cases->reference[r].outcome, sizeof(Outcome), MPI_BYTE, r % size,
                           MPI_COMM_WORLD));
  for (int n = 0; n < cases->nearnesses && rank == 0; n++)
    CheckNearness(cases, &cases->nearness[n]);
  return RENGA_SUCCESS;
}

/* A case that fails is told once, and the others go on. */
static void TellFailure(RengaComm comm, Cases *cases, const char *why, const Case *row,
                        const char *options)
{
  if (RengaCommGetRank(comm) != 0) return;
  cases->differences++;
  printf("FAILED: %s: mpiexec -n %d renga train %s\n", why, row->ranks, options);
}

/* All ranks have the error, and the first one's text has the sentence. */
static void RunRefused(RengaComm comm, Cases *cases, const Case *row, const char *options,
                       const char *sentence, RengaErrorCode wanted)
{
  Outcome outcome;
  char why[1024];
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = Train(comm, options, &outcome);
  const char *text = EndErrors(file, saved);
  if (code == wanted && (RengaCommGetRank(comm) != 0 || strstr(text, sentence))) return;
  snprintf(why, sizeof why, "code %d, not %d with \"%s\", in %.600s", code, wanted, sentence, text);
  TellFailure(comm, cases, why, row, options);
}

static bool AsExpected(const Expected *wanted, const Outcome *one, const Outcome *found)
{
  return (!wanted->shared || wanted->shared == found->shared) &&
         (!wanted->stages || wanted->stages == found->stages) &&
         (!wanted->replicas || wanted->replicas == found->replicas) &&
         (!wanted->recomputed || wanted->recomputed == found->recomputed) &&
         (!wanted->percent ||
          100 * found->parameter_bytes <= wanted->percent * one->parameter_bytes);
}

static void RunCompared(RengaComm comm, Cases *cases, const Case *row, const char *options)
{
  Outcome outcome;
  char why[256];
  const Outcome *wanted = &cases->reference[row->reference].outcome;
  const bool fails = row->fault && RengaCommGetRank(comm) == row->fault_rank;
  if (fails) RengaFaultSet(RENGA_FAULT_MESSAGE, row->fault);
  const RengaErrorCode code = Train(comm, options, &outcome);
  const int64_t messages = RengaFaultGetCount(RENGA_FAULT_MESSAGE);
  if (fails) RengaFaultSet(RENGA_FAULT_MESSAGE, 0);
  if (fails && messages <= row->fault) {
    printf("FAILED: there were only %lld messages to fail\n", (long long)messages);
    cases->differences++;
  }
  /* Cuts are drawn: a stage may have nothing to do. */
  if (code == RENGA_ERR_PLAN && row->number && strstr(RengaErrorGetMessage(), " is empty: "))
    return;
  const bool same = !code && SameOutcome(wanted, &outcome, sizeof why, why);
  if (same && AsExpected(&row->expected, wanted, &outcome)) return;
  if (code)
    snprintf(why, sizeof why, "code %d", code);
  else if (same)
    snprintf(why, sizeof why,
             "%d stages x %d replicas x %d ranks, %d stages recomputed, %lld bytes of parameters "
             "where one rank has %lld",
             outcome.stages, outcome.replicas, outcome.shared, outcome.recomputed,
             (long long)outcome.parameter_bytes, (long long)wanted->parameter_bytes);
  TellFailure(comm, cases, why, row, options);
}

/* Where nothing of the network is in lanes, nothing can be shared out. */
static RengaErrorCode RunCase(RengaComm comm, Cases *cases, const Case *row)
{
  char options[MOST_TEXT], choices[256] = "";
  const Outcome *alone = row->reference < 0 ? NULL : &cases->reference[row->reference].outcome;
  const bool empty = row->number && row->shared > 1 && alone->in_lanes == 0;
  if (row->number) Choose(row->number, row->stages, alone->nodes, sizeof choices, choices);
  Expect(snprintf(options, sizeof options, "%s %s", row->options, empty ? "" : choices) <
         (int)sizeof options);
  const char *sentence = empty ? "nothing of the network is computed in lanes" : row->sentence;
  const clock_t begin = clock();
  if (sentence)
    RunRefused(comm, cases, row, options, sentence, empty ? RENGA_ERR_SUPPORT : row->code);
  else
    RunCompared(comm, cases, row, options);
  if (getenv("RENGA_TEST_VERBOSE") && RengaCommGetRank(comm) == 0)
    printf("%.2f s of the first of %d ranks: %s\n", (double)(clock() - begin) / CLOCKS_PER_SEC,
           row->ranks, options);
  if (RengaCommGetRank(comm) == 0) ++*(sentence ? &cases->refused : &cases->runs);
  return RENGA_SUCCESS;
}

/* A case on its own ranks: the others go on. */
static RengaErrorCode RunOn(Cases *cases, const Case *row, const int members[], int rank, int tag)
{
  MPI_Group all, group;
  MPI_Comm mpi;
  RengaComm comm;
  RengaCall(Meet(row->ranks, members, rank, tag));
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, row->ranks, members, &group);
  RengaCallMPI(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &mpi));
  RengaCall(RengaCommCreate(mpi, &comm));
  RengaCall(RunCase(comm, cases, row));
  RengaCall(RengaCommDestroy(&comm));
  MPI_Comm_free(&mpi);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  return RENGA_SUCCESS;
}

/* Those that have had least to do, in order of rank. */
static void TakeMembers(int size, int load[], int count, int members[])
{
  int latest = 0, chosen = 0;
  bool taken[MOST_RANKS] = {false};
  for (int m = 0; m < count; m++) {
    int least = -1;
    for (int r = 0; r < size; r++)
      if (!taken[r] && (least < 0 || load[r] < load[least])) least = r;
    taken[least] = true;
    if (load[least] > latest) latest = load[least];
  }
  for (int r = 0; r < size; r++)
    if (taken[r]) {
      members[chosen++] = r;
      load[r] = latest + 1;
    }
}

RengaErrorCode RunCases(Cases *cases)
{
  int size, rank, load[MOST_RANKS] = {0}, members[MOST_RANKS], sums[3];
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Expect(size <= MOST_RANKS);
  for (int ranks = size; ranks > 0; ranks--)
    for (int c = 0; c < cases->count; c++) {
      const Case *row = &cases->cases[c];
      Expect(row->ranks <= size);
      if (row->ranks != ranks) continue;
      TakeMembers(size, load, ranks, members);
      bool mine = false;
      for (int m = 0; m < ranks; m++) mine = mine || members[m] == rank;
      if (mine) RengaCall(RunOn(cases, row, members, rank, c));
    }
  RengaCall(AwaitAll());
  const int counts[] = {cases->runs, cases->refused, cases->differences};
  RengaCallMPI(MPI_Allreduce(counts, sums, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  cases->runs = sums[0];
  cases->refused = sums[1];
  cases->differences = sums[2];
  return RENGA_SUCCESS;
}
