/* TEST ranks: 1 2 timeout: 300 */
/* One allocation, one message, one write to a file, one read of a sample fails on one rank, in each
   part of a small run that trains, writes a checkpoint and resumes from it. Either all ranks get an
   error, nothing that they took is left and nothing has changed, or the part is done all the same.
   The files that were there stay whole, and in the end losses and parameters have the bits of the
   run that was not disturbed.

   RENGA_FAULT_TRIES=n: so many events of each kind in each part (20), every k-th from a place that
   follows from RENGA_FAULT_SEED; 0: every event, on each rank. RENGA_FAULT_PART=name: that part
   alone. */
#include "faults.h"
#include <hdf5.h>
#include <stdlib.h>

enum { PARTS_MOST = 64 };

/* Of the run that is not disturbed. */
static struct {
  double result;
  int64_t count[KINDS]; /* events of the rank that has most */
} reference[PARTS_MOST];

static RengaErrorCode Largest(int64_t *value)
{
  RengaCallMPI(MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
  return RENGA_SUCCESS;
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
  if (code && kind == RENGA_FAULT_FILE && (parts[p].flags & PART_WARNS) && s->checkpoint &&
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
  const bool keeps = part->flags & PART_KEEPS, steps = part->flags & PART_STEPS;
  uint64_t before = 0, after = 0;
  char left[2000] = "";
  FILE *file;
  if (keeps) RengaCall(RengaPipelineGetDigest(s->pipeline, &before));
  const unsigned mark = RengaMemoryGetMark();
  const ssize_t open_before = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  const int saved = BeginErrors(&file);
  s->result = 0;
  SetFault(kind, r == rank ? n : 0);
  const RengaErrorCode code = part->part(s);
  int64_t failed = code, hit = r == rank && CountFaults(kind) >= n;
  SetFault(kind, 0);
  RengaErrorCode undone = Largest(&failed);
  if (!undone) undone = Largest(&hit);
  const char *wrong = NULL;
  if (!undone && part->undo && (!code || !steps)) undone = part->undo(s);
  char errors[4096];
  snprintf(errors, sizeof errors, "%.4000s", EndErrors(file, saved));
  wrong = Judge(s, p, kind, failed, code, hit, r == rank ? errors : "error");
  int64_t bad = wrong || undone ? 2 : 0;
  RengaCall(Largest(&bad));
  if (keeps && !bad) undone = RengaPipelineGetDigest(s->pipeline, &after);
  if (!wrong && undone) wrong = "what was left of it could not be undone";
  if (!wrong && before != after) wrong = "parameters have changed";
  if (!wrong && H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) != open_before)
    wrong = "objects of HDF5 are left open";
  if (wrong) bad = 2;
  if (!bad && part->undo && !steps && RengaMemoryListSince(mark, sizeof left, left) > 0) {
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

static RengaErrorCode RunAll(bool disturbed)
{
  State s = {0};
  RengaCall(RemoveFiles());
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &s.comm));
  RengaCall(RengaCommSetTimeout(s.comm, 150));
  RengaCall(RengaObjectGetComm(s.comm, &s.ranks));
  for (int p = 0; p < n_parts; p++) RengaCall(RunPart(&s, p, disturbed));
  RengaCall(UndoAll(&s));
  RengaCall(RengaCommDestroy(&s.comm));
  RengaCall(RemoveFiles());
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  setvbuf(stdout, NULL, _IOLBF, 0);
  RengaCall(RengaOptionsSetValue("checkpoint_every", "1"));
  RengaCall(RunAll(false));
  RengaCall(RunAll(true));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
