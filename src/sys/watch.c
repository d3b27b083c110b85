/* Watches: how ranks that wait for long learn who waits too, and so who has not come.

   A rank that has waited for a quarter of the limit, or that hears of another's waiting, sends a
   notice to ranks at the distances 1 to 7, 8, 16, 32 ..., and again 32 times within the limit. A
   notice holds what the sender waits for, and how long ago each rank was known to wait: after
   log2(size) notices all know of all. A rank of which nobody heard for half of the limit is
   stopped, dead, cut off, or busy elsewhere: it is named. */
#include "watch.h"
#include "sys.h"
#include <stdlib.h>
#include <string.h>

enum { TEXT = 160, NEAR = 7, MOST_PEERS = 40, TAG_NOTICE = 0, MOST_NAMED = 8 };
/* As parts of the limit: when to begin to tell, and how often; when what was told is out of date,
   and when a rank is silent. */
static const double TELL_FROM = 1. / 4, TELL_EVERY = 1. / 32, STALE = 1. / 8, SILENT = 1. / 2;
static const float NEVER = 1e30F;

struct _RengaWatch {
  MPI_Comm side; /* MPI_COMM_NULL: a rank alone */
  int rank, size, holders;
  double limit; /* seconds; 0: none */
  bool broken;
  double listened, told, heard; /* MPI_Wtime; heard: a notice that was fresh */
  double *seen;                 /* by rank: when it was last known to wait */
  size_t bytes;                 /* of a notice: a text, then ages as float */
  int n_peers, peer[MOST_PEERS];
  MPI_Request sent[MOST_PEERS], incoming;
  char *in, *out;              /* one notice; one for each peer */
  char text[MOST_PEERS][TEXT]; /* what the rank at this distance before this one waits for */
  char cells[RENGA_WATCH_CELLS];
};

static struct {
  RengaWatch world;
  double limit;
  int key;    /* of the attribute of communicators */
  int broken; /* waits that ended at their limit */
  char cells[RENGA_WATCH_CELLS];
} watches = {NULL, 300, MPI_KEYVAL_INVALID, 0, ""};

void RengaWatchSetDefaultLimit(double seconds)
{
  watches.limit = seconds;
}

double RengaWatchGetDefaultLimit(void)
{
  return watches.limit;
}

static RengaWatch WatchOf(MPI_Comm comm)
{
  void *kept = NULL;
  int found = 0;
  if (comm == MPI_COMM_NULL || watches.key == MPI_KEYVAL_INVALID) return watches.world;
  MPI_Comm_get_attr(comm, watches.key, (void *)&kept, &found);
  return found ? kept : watches.world;
}

void *RengaWatchCells(MPI_Comm comm)
{
  RengaWatch watch = WatchOf(comm);
  return watch ? watch->cells : watches.cells;
}

void RengaWatchSetWorld(MPI_Comm comm)
{
  watches.world = comm == MPI_COMM_NULL ? NULL : WatchOf(comm);
}

static RengaErrorCode WatchAttach(RengaWatch watch, MPI_Comm comm)
{
  if (watches.key == MPI_KEYVAL_INVALID)
    RengaCallMPI(
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &watches.key, NULL));
  RengaCallMPI(MPI_Comm_set_attr(comm, watches.key, watch));
  watch->holders++;
  return RENGA_SUCCESS;
}

/* Not of the ledger: the watch of the world is still used when leaks are reported. */
static RengaErrorCode WatchAllocate(int rank, int size, RengaWatch *watch)
{
  RengaWatch w = calloc(1, sizeof *w);
  RengaCheck(w, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes", sizeof *w);
  *watch = w;
  w->side = MPI_COMM_NULL;
  w->incoming = MPI_REQUEST_NULL;
  w->rank = rank;
  w->size = size;
  w->bytes = TEXT + (size_t)size * sizeof(float);
  for (int far = 1; far < size && w->n_peers<MOST_PEERS; far += far> NEAR ? far : 1)
    w->peer[w->n_peers++] = far;
  for (int p = 0; p < MOST_PEERS; p++) w->sent[p] = MPI_REQUEST_NULL;
  w->seen = calloc((size_t)size, sizeof *w->seen);
  w->in = calloc((size_t)w->n_peers + 1, w->bytes);
  RengaCheck(w->seen && w->in, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes",
             (size_t)(w->n_peers + 1) * w->bytes);
  w->out = w->in + w->bytes;
  return RENGA_SUCCESS;
}

static void WatchFree(RengaWatch watch)
{
  if (!watch) return;
  free(watch->seen);
  free(watch->in);
  free(watch);
}

static RengaErrorCode WatchOpen(RengaWatch watch, MPI_Comm comm)
{
  MPI_Request request;
  watch->limit = watches.world ? watches.world->limit : watches.limit;
  if (watch->size > 1) {
    RengaCallMPI(MPI_Comm_idup(comm, &watch->side, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to make a communicator"));
    RengaCallMPI(MPI_Comm_set_errhandler(watch->side, MPI_ERRORS_RETURN));
  }
  RengaCall(WatchAttach(watch, comm));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchCreate_Private(MPI_Comm comm)
{
  RengaWatch watch = NULL;
  int rank, size;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaErrorCode code = RengaErrorAgree(comm, WatchAllocate(rank, size, &watch));
  if (!code) code = WatchOpen(watch, comm);
  if (code && code != RENGA_ERR_TIMEOUT) WatchFree(watch);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchShare_Private(MPI_Comm comm, MPI_Comm group)
{
  RengaWatch watch = WatchOf(comm);
  if (watch) RengaCall(WatchAttach(watch, group));
  return RENGA_SUCCESS;
}

static int RankAt(RengaWatch watch, int distance)
{
  return (watch->rank + watch->size + distance) % watch->size;
}

static void TakeNotice(RengaWatch watch, int from, double now)
{
  const float *age = (const float *)(watch->in + TEXT);
  for (int r = 0; r < watch->size; r++)
    if (age[r] < NEVER && now - (double)age[r] > watch->seen[r])
      watch->seen[r] = now - (double)age[r];
  for (int p = 0; p < watch->n_peers; p++)
    if (RankAt(watch, -watch->peer[p]) == from) memcpy(watch->text[p], watch->in, TEXT);
  watch->heard = now;
}

/* Notices that lay here while this rank did not listen say nothing of today. */
static RengaErrorCode Listen(RengaWatch watch, double now)
{
  const bool stale = now - watch->listened > STALE * watch->limit;
  watch->listened = now;
  for (;;) {
    MPI_Status status;
    int there = 0, done = 0;
    if (watch->incoming == MPI_REQUEST_NULL) {
      RengaCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTICE, watch->side, &there, &status));
      if (!there) return RENGA_SUCCESS;
      RengaCallMPI(MPI_Irecv(watch->in, (int)watch->bytes, MPI_BYTE, status.MPI_SOURCE, TAG_NOTICE,
                             watch->side, &watch->incoming));
    }
    RengaCallMPI(MPI_Test(&watch->incoming, &done, &status));
    if (!done) return RENGA_SUCCESS;
    if (!stale) TakeNotice(watch, status.MPI_SOURCE, now);
  }
}

/* open: MPI may still use the watch, which has to stay. */
static RengaErrorCode WatchClose(RengaWatch watch, bool *open)
{
  *open = watch->broken;
  if (watch->size > 1) RengaCall(Listen(watch, MPI_Wtime()));
  for (int p = 0; p < watch->n_peers; p++) {
    int done = 0;
    RengaCallMPI(MPI_Test(&watch->sent[p], &done, MPI_STATUS_IGNORE));
    if (!done) *open = true;
  }
  if (!*open && watch->side != MPI_COMM_NULL) RengaCallMPI(MPI_Comm_free(&watch->side));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchRelease_Private(MPI_Comm comm)
{
  void *kept = NULL;
  int found = 0;
  if (watches.key == MPI_KEYVAL_INVALID) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Comm_get_attr(comm, watches.key, (void *)&kept, &found));
  if (!found) return RENGA_SUCCESS;
  RengaWatch watch = kept;
  RengaCallMPI(MPI_Comm_delete_attr(comm, watches.key));
  if (--watch->holders > 0) return RENGA_SUCCESS;
  if (watch == watches.world) watches.world = NULL;
  bool open;
  RengaErrorCode code = WatchClose(watch, &open);
  if (!open) WatchFree(watch);
  return code;
}

RengaErrorCode RengaWatchSetLimit_Private(MPI_Comm comm, double seconds)
{
  RengaWatch watch = WatchOf(comm);
  if (!watch) return RENGA_SUCCESS;
  watch->limit = seconds;
  if (watch->broken) watches.broken--;
  watch->broken = false;
  RengaMemoryKeep(watches.broken > 0);
  return RENGA_SUCCESS;
}

double RengaWatchGetLimit_Private(MPI_Comm comm)
{
  RengaWatch watch = WatchOf(comm);
  return watch ? watch->limit : watches.limit;
}

bool RengaWatchIsBroken_Private(MPI_Comm comm)
{
  RengaWatch watch = WatchOf(comm);
  return watch && watch->broken;
}

void RengaWatchBreak_Private(MPI_Comm comm)
{
  RengaWatch watch = WatchOf(comm);
  if (watch && !watch->broken) watches.broken++;
  if (watch) watch->broken = true;
  RengaMemoryKeep(true);
}

/* To peers that took the last notice. A peer that is stopped gets no second one. */
static RengaErrorCode Tell(RengaWatch watch, const char *what, double now)
{
  watch->told = watch->seen[watch->rank] = now;
  for (int p = 0; p < watch->n_peers; p++) {
    int done = 0;
    char *notice = watch->out + (size_t)p * watch->bytes;
    float *age = (float *)(notice + TEXT);
    RengaCallMPI(MPI_Test(&watch->sent[p], &done, MPI_STATUS_IGNORE));
    if (!done) continue;
    snprintf(notice, TEXT, "%s", what);
    for (int r = 0; r < watch->size; r++)
      age[r] = watch->seen[r] > 0 ? (float)(now - watch->seen[r]) : NEVER;
    RengaCallMPI(MPI_Isend(notice, (int)watch->bytes, MPI_BYTE, RankAt(watch, watch->peer[p]),
                           TAG_NOTICE, watch->side, &watch->sent[p]));
  }
  return RENGA_SUCCESS;
}

typedef struct {
  char text[1024];
  size_t length;
} Sentence;

static void Say(Sentence *sentence, const char *format, int number, const char *text)
{
  const size_t room = sizeof sentence->text - sentence->length;
  const int n = snprintf(sentence->text + sentence->length, room, format, number, text);
  if (n > 0) sentence->length += (size_t)n < room ? (size_t)n : room - 1;
}

static bool IsSilent(RengaWatch watch, int rank, double now)
{
  return rank != watch->rank && now - watch->seen[rank] > SILENT * watch->limit;
}

/* ranks[i]: rank of the watch that is rank i of comm; a negative number where it is none of it. */
static RengaErrorCode RanksOf(RengaWatch watch, MPI_Comm comm, int *size, int **ranks)
{
  MPI_Group group, all;
  int *mine = NULL;
  RengaCallMPI(MPI_Comm_size(comm, size));
  RengaCall(RengaMalloc(*size, &mine));
  RengaCall(RengaMalloc(*size, ranks));
  for (int i = 0; i < *size; i++) mine[i] = i;
  RengaCallMPI(MPI_Comm_group(comm, &group));
  RengaCallMPI(MPI_Comm_group(watch->side, &all));
  RengaCallMPI(MPI_Group_translate_ranks(group, *size, mine, all, *ranks));
  RengaCallMPI(MPI_Group_free(&group));
  RengaCallMPI(MPI_Group_free(&all));
  RengaFree(&mine);
  return RENGA_SUCCESS;
}

static int SaySilent(RengaWatch watch, int count, const int ranks[], double now, Sentence *sentence)
{
  int silent = 0;
  for (int i = 0; i < count; i++) {
    const int rank = ranks ? ranks[i] : i;
    if (rank < 0 || rank >= watch->size || !IsSilent(watch, rank, now)) continue;
    if (silent < MOST_NAMED) Say(sentence, silent ? ", %d%s" : "; no sign of rank %d%s", rank, "");
    silent++;
  }
  if (silent > MOST_NAMED) Say(sentence, " and %d others%s", silent - MOST_NAMED, "");
  if (silent) Say(sentence, "%.0d%s", 0, " (stopped, busy or cut off)");
  return silent;
}

/* Those of comm that have not come; if all have, those of the others; then what neighbours want. */
static RengaErrorCode SayWhoIsMissing(RengaWatch watch, MPI_Comm comm, double now,
                                      Sentence *sentence)
{
  int *ranks = NULL, count = 0, said = 0;
  RengaCall(RanksOf(watch, comm, &count, &ranks));
  int silent = SaySilent(watch, count, ranks, now, sentence);
  if (silent == 0) silent = SaySilent(watch, watch->size, NULL, now, sentence);
  if (silent == 0) Say(sentence, "; all %d ranks wait%s", watch->size, "");
  for (int p = 0; p < watch->n_peers && said < MOST_NAMED / 2; p++) {
    const int rank = RankAt(watch, -watch->peer[p]);
    if (IsSilent(watch, rank, now) || watch->text[p][0] == 0) continue;
    Say(sentence, "; rank %d waits for: %s", rank, watch->text[p]);
    said++;
  }
  RengaFree(&ranks);
  return RENGA_SUCCESS;
}

static RengaErrorCode EndWait(RengaWait *wait, RengaWatch watch, double now)
{
  char host[MPI_MAX_PROCESSOR_NAME], more[128] = "";
  int length, rank, size;
  Sentence missing = {"", 0};
  RengaCallMPI(MPI_Get_processor_name(host, &length));
  RengaCallMPI(MPI_Comm_rank(wait->comm, &rank));
  RengaCallMPI(MPI_Comm_size(wait->comm, &size));
  if (wait->describe) wait->describe(wait->subject, sizeof more, more);
  if (watch && watch->size > 1) RengaCall(SayWhoIsMissing(watch, wait->comm, now, &missing));
  RengaWatchBreak_Private(wait->comm);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_TIMEOUT,
             "rank %d of %d on %s: nothing moved for %.3g s: %s%s%s", rank, size, host,
             now - wait->since, wait->what, more, missing.text);
}

RengaErrorCode RengaWatchLook(RengaWait *wait, double now)
{
  if (!wait->watch) wait->watch = WatchOf(wait->comm);
  RengaWatch watch = wait->watch;
  const double limit = watch ? watch->limit : watches.limit, waited = now - wait->since;
  if (watch && watch->broken) return RENGA_ERR_TIMEOUT; /* was said before */
  if (limit <= 0) return RENGA_SUCCESS;
  if (watch && watch->size > 1) {
    RengaCall(Listen(watch, now));
    const bool called = waited > TELL_FROM * limit || watch->heard > wait->since;
    if (called && now - watch->told > TELL_EVERY * limit) RengaCall(Tell(watch, wait->what, now));
  }
  if (waited > limit) RengaCall(EndWait(wait, watch, now));
  return RENGA_SUCCESS;
}
