/* Notices: how ranks that wait for long learn who waits too, and so who has not come.

   A rank that has waited for a quarter of the limit, or that hears of another's waiting, sends a
   notice to ranks at the distances 1 to 7, 8, 16, 32 ..., and again 32 times within the limit. A
   notice holds what the sender waits for, and how long ago each rank was known to wait: after
   log2(size) notices all know of all. A rank of which nobody heard for half of the limit is
   stopped, dead, cut off, or busy elsewhere: it is named. */
#include "watch.h"
#include <string.h>

enum { TAG_NOTICE = 0, MOST_NAMED = 8 };
/* As parts of the limit: when to begin to tell, and how often; when what was told is out of date,
   and when a rank is silent. */
static const double TELL_FROM = 1. / 4, TELL_EVERY = 1. / 32, STALE = 1. / 8, SILENT = 1. / 2;
static const float NEVER = 1e30F;

static int RankAt(RengaWatch watch, int distance)
{
  return (watch->rank + watch->size + distance) % watch->size;
}

static void TakeNotice(RengaWatch watch, int from, double now)
{
  const float *age = (const float *)(watch->in + RENGA_WATCH_TEXT);
  for (int r = 0; r < watch->size; r++)
    if (age[r] < NEVER && now - (double)age[r] > watch->seen[r])
      watch->seen[r] = now - (double)age[r];
  for (int p = 0; p < watch->n_peers; p++)
    if (RankAt(watch, -watch->peer[p]) == from) memcpy(watch->text[p], watch->in, RENGA_WATCH_TEXT);
  watch->heard = now;
}

/* Notices that lay here while this rank did not listen say nothing of today. */
RengaErrorCode RengaWatchListen(RengaWatch watch, double now)
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

/* To peers that took the last notice. A peer that is stopped gets no second one. */
static RengaErrorCode TellPeers(RengaWatch watch, const char *what, double now)
{
  watch->told = watch->seen[watch->rank] = now;
  for (int p = 0; p < watch->n_peers; p++) {
    int done = 0;
    char *notice = watch->out + (size_t)p * watch->bytes;
    float *age = (float *)(notice + RENGA_WATCH_TEXT);
    RengaCallMPI(MPI_Test(&watch->sent[p], &done, MPI_STATUS_IGNORE));
    if (!done) continue;
    snprintf(notice, RENGA_WATCH_TEXT, "%s", what);
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

static void SayMore(Sentence *sentence, const char *format, int number, const char *text)
{
  const size_t room = sizeof sentence->text - sentence->length;
  const int n = snprintf(sentence->text + sentence->length, room, format, number, text);
  if (n > 0) sentence->length += (size_t)n < room ? (size_t)n : room - 1;
}

static bool IsSilent(RengaWatch watch, int rank, double now)
{
  return rank != watch->rank && now - watch->seen[rank] > SILENT * watch->limit;
}

static RengaErrorCode TranslateRanks(RengaWatch watch, MPI_Comm comm, int size, const int mine[],
                                     int ranks[])
{
  MPI_Group group, all;
  RengaCallMPI(MPI_Comm_group(comm, &group));
  RengaCallMPI(MPI_Comm_group(watch->side, &all));
  RengaCallMPI(MPI_Group_translate_ranks(group, size, mine, all, ranks));
  RengaCallMPI(MPI_Group_free(&group));
  RengaCallMPI(MPI_Group_free(&all));
  return RENGA_SUCCESS;
}

/* ranks[i]: rank of the watch that is rank i of comm; a negative number where it is none of it. */
static RengaErrorCode RanksOfWatch(RengaWatch watch, MPI_Comm comm, int *size, int **ranks)
{
  int *mine = NULL;
  RengaCallMPI(MPI_Comm_size(comm, size));
  RengaErrorCode code = RengaMalloc(*size, &mine);
  if (!code) code = RengaMalloc(*size, ranks);
  for (int i = 0; i < *size && !code; i++) mine[i] = i;
  if (!code) code = TranslateRanks(watch, comm, *size, mine, *ranks);
  RengaFree(&mine);
  if (code) RengaFree(ranks);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int SaySilent(RengaWatch watch, int count, const int ranks[], double now, Sentence *sentence)
{
  int silent = 0;
  for (int i = 0; i < count; i++) {
    const int rank = ranks ? ranks[i] : i;
    if (rank < 0 || rank >= watch->size || !IsSilent(watch, rank, now)) continue;
    if (silent < MOST_NAMED)
      SayMore(sentence, silent ? ", %d%s" : "; no sign of rank %d%s", rank, "");
    silent++;
  }
  if (silent > MOST_NAMED) SayMore(sentence, " and %d others%s", silent - MOST_NAMED, "");
  if (silent) SayMore(sentence, "%.0d%s", 0, " (stopped, busy or cut off)");
  return silent;
}

/* Those of comm that have not come; if all have, those of the others; then what neighbours want. */
static RengaErrorCode SayWhoIsMissing(RengaWatch watch, MPI_Comm comm, double now,
                                      Sentence *sentence)
{
  int *ranks = NULL, count = 0, said = 0;
  RengaCall(RanksOfWatch(watch, comm, &count, &ranks));
  int silent = SaySilent(watch, count, ranks, now, sentence);
  if (silent == 0) silent = SaySilent(watch, watch->size, NULL, now, sentence);
  if (silent == 0) SayMore(sentence, "; all %d ranks wait%s", watch->size, "");
  for (int p = 0; p < watch->n_peers && said < MOST_NAMED / 2; p++) {
    const int rank = RankAt(watch, -watch->peer[p]);
    if (IsSilent(watch, rank, now) || watch->text[p][0] == 0) continue;
    SayMore(sentence, "; rank %d waits for: %s", rank, watch->text[p]);
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
  /* All ranks of the sentence are numbered as those of the watch, also where a group waits. */
  const MPI_Comm all = watch && watch->side != MPI_COMM_NULL ? watch->side : wait->comm;
  RengaCallMPI(MPI_Comm_rank(all, &rank));
  RengaCallMPI(MPI_Comm_size(all, &size));
  if (wait->describe) wait->describe(wait->subject, sizeof more, more);
  if (watch && watch->size > 1) RengaCall(SayWhoIsMissing(watch, wait->comm, now, &missing));
  RengaWatchBreak_Private(wait->comm);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_TIMEOUT,
             "rank %d of %d on %s: nothing moved for %.3g s: %s%s%s", rank, size, host,
             now - wait->since, wait->what, more, missing.text);
}

RengaErrorCode RengaWatchLook(RengaWait *wait, double now)
{
  if (!wait->watch) wait->watch = RengaWatchOf(wait->comm);
  RengaWatch watch = wait->watch;
  const double limit = watch ? watch->limit : RengaWatchGetDefaultLimit();
  const double waited = now - wait->since;
  if (watch && watch->broken) return RENGA_ERR_TIMEOUT; /* was said before */
  if (limit <= 0) return RENGA_SUCCESS;
  if (watch && watch->size > 1) {
    RengaCall(RengaWatchListen(watch, now));
    const bool called = waited > TELL_FROM * limit || watch->heard > wait->since;
    if (called && now - watch->told > TELL_EVERY * limit)
      RengaCall(TellPeers(watch, wait->what, now));
  }
  if (waited > limit) RengaCall(EndWait(wait, watch, now));
  return RENGA_SUCCESS;
}
