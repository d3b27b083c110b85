/* Ranks tell rank 0 about a step now and then. Each goes by its own clock, and rank 0 looks between
   its steps for what has come: nobody waits for a report, and none is sent before the last one has
   been taken. Only the step that is told about has its timeline kept. */
#include "report.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum { REPORT_TAG = 1, MOST_AT_ONCE = 32 };

struct _AppReports {
  RengaComm comm; /* of its own, so that no message is taken for another's */
  MPI_Comm ranks; /* lent by comm */
  int rank, size;
  void (*take)(void *user, const AppReport *report);
  void *user;
  double interval, last, began; /* seconds; last: of MPI_Wtime */
  bool keeps;                   /* this step is told about */
  AppReport mine, sent, came;   /* sent, came: being sent, being received */
  MPI_Request sending, receiving;
  int64_t count;  /* sent by this rank */
  int64_t *taken; /* [size] on rank 0 */
};

RengaErrorCode AppReportsCreate(RengaComm comm, void (*take)(void *user, const AppReport *report),
                                void *user, AppReports *reports)
{
  AppReports made;
  MPI_Comm all;
  RengaCall(RengaObjectGetComm(comm, &all));
  RengaCall(RengaErrorAgree(all, RengaMalloc(1, &made)));
  *reports = made;
  RengaCall(RengaCommCreate(all, &made->comm));
  RengaCall(RengaObjectGetComm(made->comm, &made->ranks));
  made->rank = RengaCommGetRank(comm);
  made->size = RengaCommGetSize(comm);
  RengaCall(RengaErrorAgree(all, RengaMalloc(made->size, &made->taken)));
  made->take = take;
  made->user = user;
  made->interval = fmax(1, made->size / (double)MOST_AT_ONCE);
  made->last = -HUGE_VAL;
  made->sending = made->receiving = MPI_REQUEST_NULL;
  return RENGA_SUCCESS;
}

/* A bar of this step; those that do not fit are left out. */
static void KeepBar(void *user, const char *track, const char *name, double begin, double end)
{
  AppReports reports = user;
  AppReport *mine = &reports->mine;
  if (mine->bars == APP_MOST_BARS || begin < reports->began) return;
  AppBar *bar = &mine->bar[mine->bars++];
  bar->begin = (float)(begin - reports->began);
  bar->end = (float)(end - reports->began);
  snprintf(bar->track, sizeof bar->track, "%s", track);
  snprintf(bar->name, sizeof bar->name, "%s", name);
}

RengaErrorCode AppReportsBegin(AppReports reports)
{
  const double now = MPI_Wtime();
  if (!reports || now - reports->last < reports->interval) return RENGA_SUCCESS;
  reports->keeps = true;
  reports->began = now;
  reports->mine.bars = 0;
  RengaCall(RengaLogTraceSetListener(KeepBar, reports));
  return RENGA_SUCCESS;
}

/* Where the last report is still under way this one is dropped. */
static RengaErrorCode SendReport(AppReports reports)
{
  int done;
  RengaCallMPI(MPI_Test(&reports->sending, &done, MPI_STATUS_IGNORE));
  if (!done) return RENGA_SUCCESS;
  const size_t bytes = offsetof(AppReport, bar) + (size_t)reports->mine.bars * sizeof(AppBar);
  memcpy(&reports->sent, &reports->mine, bytes);
  RengaCallMPI(MPI_Isend(&reports->sent, (int)bytes, MPI_BYTE, 0, REPORT_TAG, reports->ranks,
                         &reports->sending));
  reports->count++;
  return RENGA_SUCCESS;
}

static void TakeReport(AppReports reports)
{
  const AppReport *came = &reports->came;
  if (came->rank < 0 || came->rank >= reports->size) return;
  reports->taken[came->rank]++;
  reports->take(reports->user, came);
}

/* What has come so far, but no more than MOST_AT_ONCE. */
static RengaErrorCode TakeReports(AppReports reports)
{
  int done = 1;
  for (int i = 0; i < MOST_AT_ONCE && done; i++) {
    if (reports->receiving != MPI_REQUEST_NULL) {
      RengaCallMPI(MPI_Test(&reports->receiving, &done, MPI_STATUS_IGNORE));
      if (done) TakeReport(reports);
      continue;
    }
    MPI_Status status;
    RengaCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, REPORT_TAG, reports->ranks, &done, &status));
    if (done)
      RengaCallMPI(MPI_Irecv(&reports->came, (int)sizeof reports->came, MPI_BYTE, status.MPI_SOURCE,
                             REPORT_TAG, reports->ranks, &reports->receiving));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppReportsEnd(AppReports reports, const RengaTrainerRow *row)
{
  if (!reports) return RENGA_SUCCESS;
  if (reports->rank == 0 && reports->size > 1) RengaCall(TakeReports(reports));
  if (!reports->keeps) return RENGA_SUCCESS;
  RengaCall(RengaLogTraceSetListener(NULL, reports));
  reports->keeps = false;
  reports->last = MPI_Wtime();
  reports->mine.rank = reports->rank;
  reports->mine.step = row->step;
  reports->mine.seconds = row->seconds;
  reports->mine.resident = (int64_t)RengaMemoryResident();
  if (reports->rank == 0)
    reports->take(reports->user, &reports->mine);
  else
    RengaCall(SendReport(reports));
  return RENGA_SUCCESS;
}

/* For no longer than the time limit. */
static RengaErrorCode WaitForReport(AppReports reports, MPI_Request *request)
{
  const struct timespec pause = {0, 50000};
  const double since = MPI_Wtime();
  double limit;
  int done = 0;
  RengaCall(RengaCommGetTimeout(reports->comm, &limit));
  for (;;) {
    RengaCallMPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return RENGA_SUCCESS;
    RengaCheck(
        limit == 0 || MPI_Wtime() - since < limit, MPI_COMM_SELF, RENGA_ERR_TIMEOUT,
        "rank %d waited %g s for the last reports on the run: another rank does not come, or "
        "give a longer -timeout",
        reports->rank, limit);
    nanosleep(&pause, NULL);
  }
}

/* Rank 0, which knows how many each rank has sent: all of these are on their way. */
static RengaErrorCode TakeAllReports(AppReports reports, const int64_t sent[])
{
  if (reports->receiving != MPI_REQUEST_NULL) {
    RengaCall(WaitForReport(reports, &reports->receiving));
    TakeReport(reports);
  }
  for (int r = 1; r < reports->size; r++)
    while (reports->taken[r] < sent[r]) {
      RengaCallMPI(MPI_Irecv(&reports->came, (int)sizeof reports->came, MPI_BYTE, r, REPORT_TAG,
                             reports->ranks, &reports->receiving));
      RengaCall(WaitForReport(reports, &reports->receiving));
      reports->came.rank = r;
      TakeReport(reports);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode EndReports(AppReports reports)
{
  int64_t *sent = NULL;
  RengaCall(RengaErrorAgree(reports->ranks, RengaMalloc(reports->size, &sent)));
  RengaErrorCode code = RengaCommGather(reports->comm, &reports->count, sizeof *sent, sent, 0,
                                        "all ranks to end their reports");
  if (!code && reports->rank == 0) code = TakeAllReports(reports, sent);
  RengaFree(&sent);
  RengaCall(code);
  RengaCall(WaitForReport(reports, &reports->sending));
  return RENGA_SUCCESS;
}

RengaErrorCode AppReportsDestroy(AppReports *reports)
{
  AppReports gone = *reports;
  if (!gone) return RENGA_SUCCESS;
  RengaCall(RengaLogTraceSetListener(NULL, gone));
  RengaCall(EndReports(gone));
  RengaCall(RengaCommDestroy(&gone->comm));
  RengaFree(&gone->taken);
  RengaFree(reports);
  return RENGA_SUCCESS;
}
