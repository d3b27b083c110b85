/* Progress: a bar on a terminal, plain lines elsewhere; and the places of -monitor. */
#include "http.h"
#include "renga/private/number.h"
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

struct _AppMonitor {
  RengaComm ranks;               /* lent */
  RengaTrainer trainer;          /* lent */
  const RengaDataFields *fields; /* lent */
  AppAccuracy *accuracy;         /* lent */
  MPI_Comm comm;                 /* lent by ranks; its rank 0 prints */
  bool prints;
  bool lines; /* on standard output */
  FILE *bar;  /* the terminal that a bar is drawn on; NULL: none */
  int columns;
  bool bar_is_up;
  int64_t first, steps, tokens, every;
  double shown_at, drawn_at;  /* a line, the bar: seconds of MPI_Wtime */
  double speed, step_seconds; /* samples per second, seconds per step: smoothed */
  AppSinks sinks;
  void *page;         /* of the sinks, on rank 0 */
  AppReports reports; /* NULL: nobody wants them */
};

/* auto: a bar where there is a terminal, on standard output or, for a run whose output goes to a
   file, on the standard error; lines on an output that is none. */
static void ChooseShow(AppMonitor monitor, const char *progress)
{
  const bool is_auto = !strcmp(progress, "auto");
  monitor->columns = 80;
  monitor->lines = !strcmp(progress, "lines");
  if (!strcmp(progress, "bar") || (is_auto && AppTerminal(STDOUT_FILENO, &monitor->columns)))
    monitor->bar = stdout;
  else if (is_auto && AppTerminal(STDERR_FILENO, &monitor->columns))
    monitor->bar = stderr;
  if (is_auto && monitor->bar != stdout) monitor->lines = true;
}

static RengaErrorCode ReadOptions(AppMonitor monitor)
{
  const char *progress;
  RengaCall(RengaOptionsGetInt64("monitor_every", &monitor->every, NULL));
  RengaCall(RengaOptionsGetString("progress", &progress, NULL));
  if (monitor->prints) ChooseShow(monitor, progress);
  return RENGA_SUCCESS;
}

/* 75 s is "1:15", 4000 s is "1:06:40". */
static void FormatSeconds(double seconds, size_t size, char text[])
{
  long long whole = seconds < 1e9 ? (long long)(seconds + 0.5) : 1000000000;
  if (whole < 3600)
    snprintf(text, size, "%lld:%02lld", whole / 60, whole % 60);
  else
    snprintf(text, size, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

/* As a line, or beside a bar. */
static void FormatRow(const struct _AppMonitor *monitor, const RengaTrainerRow *row, bool line,
                      size_t size, char text[])
{
  char speed[32], left[32], rate[48] = "";
  int64_t to_go = monitor->steps - row->step - 1;
  double unit = monitor->tokens ? (double)monitor->tokens : 1;
  RengaFormatCount(monitor->speed * unit, sizeof speed, speed);
  FormatSeconds((double)to_go * monitor->step_seconds, sizeof left, left);
  if (line) RengaTextFormat(rate, sizeof rate, "learning rate %.3g  ", row->learning_rate);
  RengaTextFormat(text, size, "step %lld/%lld  loss %.5g  %s%s %s/s  %s left",
                  (long long)row->step + 1, (long long)monitor->steps, row->loss, rate, speed,
                  monitor->tokens ? "tokens" : "samples", left);
}

static void DrawMonitorBar(AppMonitor monitor, const RengaTrainerRow *row)
{
  char bar[64], text[256];
  FormatRow(monitor, row, false, sizeof text, text);
  int room = monitor->columns - (int)strlen(text) - 5, width = room < 40 ? room : 40;
  int64_t run = monitor->steps - monitor->first, done = row->step + 1 - monitor->first;
  if (width < 4) width = 0;
  int full = (int)(width * done / run);
  for (int i = 0; i < width; i++) bar[i] = i < full ? '#' : '.';
  bar[width] = 0;
  fprintf(monitor->bar, "\r%s%s%s%.*s\033[K", width ? "[" : "", bar, width ? "] " : "",
          monitor->columns - 1, text);
  fflush(monitor->bar);
  monitor->bar_is_up = true;
  monitor->drawn_at = MPI_Wtime();
}

static RengaErrorCode PrintProgress(AppMonitor monitor, const RengaTrainerRow *row)
{
  char text[256];
  FormatRow(monitor, row, true, sizeof text, text);
  monitor->shown_at = MPI_Wtime();
  RengaCall(RengaPrintf(MPI_COMM_SELF, "%s\n", text));
  return RENGA_SUCCESS;
}

/* The first step and the last one are always shown. */
static bool IsEnd(const struct _AppMonitor *monitor, const RengaTrainerRow *row)
{
  return row->step + 1 == monitor->steps || row->step == monitor->first;
}

/* At most ten bars per second. */
static bool IsBarDue(const struct _AppMonitor *monitor, const RengaTrainerRow *row)
{
  return monitor->bar && (IsEnd(monitor, row) || MPI_Wtime() - monitor->drawn_at >= 0.1);
}

/* At most one line per second, or one every so many steps. */
static bool IsLineDue(const struct _AppMonitor *monitor, const RengaTrainerRow *row)
{
  if (!monitor->lines || IsEnd(monitor, row)) return monitor->lines;
  return monitor->every ? (row->step + 1) % monitor->every == 0
                        : MPI_Wtime() - monitor->shown_at >= 1;
}

static void MeasureProgress(AppMonitor monitor, const RengaTrainerRow *row)
{
  double keep = monitor->step_seconds > 0 ? 0.8 : 0;
  monitor->speed = keep * monitor->speed + (1 - keep) * AppRowRate(row);
  monitor->step_seconds = keep * monitor->step_seconds + (1 - keep) * row->seconds;
}

static RengaErrorCode BeginReport(void *user, int64_t step)
{
  const struct _AppMonitor *monitor = user;
  (void)step;
  RengaCall(AppReportsBegin(monitor->reports));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowRow(void *user, const RengaTrainerRow *row)
{
  AppMonitor monitor = user;
  RengaCall(AppReportsEnd(monitor->reports, row));
  if (!monitor->prints) return RENGA_SUCCESS;
  MeasureProgress(monitor, row);
  AppSinksStep(&monitor->sinks, row);
  if (IsLineDue(monitor, row)) RengaCall(PrintProgress(monitor, row));
  if (IsBarDue(monitor, row)) DrawMonitorBar(monitor, row);
  return RENGA_SUCCESS;
}

/* As often as lines of steps. */
static void ShowValidating(AppMonitor monitor, const RengaTrainerProgress *progress)
{
  const long long done = progress->done, samples = progress->samples;
  const int64_t batches = progress->batches;
  const double since = MPI_Wtime() - monitor->shown_at;
  if (monitor->page) AppHttpSetPhase(monitor->page, "validating");
  if (batches == 0) monitor->shown_at = MPI_Wtime(); /* a short one is not worth a line */
  if (!monitor->prints || batches == 0) return;
  if (monitor->lines && (monitor->every ? batches % monitor->every == 0 : since >= 1)) {
    printf("validating, %lld of %lld samples\n", done, samples);
    (void)RengaPrintFlush(); /* the loss that follows is of more worth than this line */
    monitor->shown_at = MPI_Wtime();
  }
  if (!monitor->bar || since < 1 || MPI_Wtime() - monitor->drawn_at < 0.1) return;
  fprintf(monitor->bar, "\rvalidating, %lld of %lld samples\033[K", done, samples);
  fflush(monitor->bar);
  monitor->bar_is_up = true;
  monitor->drawn_at = MPI_Wtime();
}

static RengaErrorCode ShowProgress(void *user, const RengaTrainerProgress *progress)
{
  AppMonitor monitor = user;
  RengaTrainerParts parts;
  RengaCall(RengaTrainerGetParts(monitor->trainer, &parts));
  if (!progress->batch)
    AppAccuracyBegin(monitor->accuracy);
  else
    RengaCall(AppAccuracyAdd(monitor->accuracy, parts.ranks, parts.pipeline, progress->batch));
  if (progress->done < progress->samples) ShowValidating(monitor, progress);
  return RENGA_SUCCESS;
}

/* So that a line of its own may follow. */
static void EndBar(AppMonitor monitor)
{
  if (monitor->bar_is_up) fprintf(monitor->bar, "\n");
  if (monitor->bar_is_up) fflush(monitor->bar);
  monitor->bar_is_up = false;
}

RengaErrorCode AppMonitorSay(AppMonitor monitor, const char *format, ...)
{
  va_list arguments;
  if (!monitor->prints) return RENGA_SUCCESS;
  EndBar(monitor);
  va_start(arguments, format);
  (void)RengaFilePrintList(stdout, format, arguments); /* the next call sees an error of it */
  va_end(arguments);
  RengaCall(RengaPrintFlush());
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowSentence(void *user, const char *sentence)
{
  RengaCall(AppMonitorSay(user, "%s", sentence));
  return RENGA_SUCCESS;
}

/* A line, and the numbers beside those of the step. */
static RengaErrorCode ShowLoss(void *user, double loss, int64_t step, int64_t samples)
{
  AppMonitor monitor = user;
  const AppAccuracy *counts = monitor->accuracy;
  const AppValidation found = {loss, AppPerplexity(monitor->fields, counts, loss),
                               counts->counted > 0 ? counts->right / counts->counted : -1, step,
                               samples};
  char accuracy[64] = "", perplexity[64] = "";
  if (!monitor->prints) return RENGA_SUCCESS;
  if (found.accuracy >= 0)
    RengaTextFormat(accuracy, sizeof accuracy, " accuracy %.2f %%", 100 * found.accuracy);
  if (found.perplexity > 0)
    RengaTextFormat(perplexity, sizeof perplexity, " perplexity %.5g", found.perplexity);
  RengaCall(AppMonitorSay(monitor, "validation loss %.6g%s%s after step %lld (%lld samples)\n",
                          loss, perplexity, accuracy, (long long)step, (long long)samples));
  AppSinksValidation(&monitor->sinks, &found);
  return RENGA_SUCCESS;
}

static RengaErrorCode AttachMonitor(AppMonitor monitor)
{
  void *page;
  const bool reports = AppSinksFind(&monitor->sinks, &AppHttpKind, &page);
  const RengaTrainerMonitor functions = {.begin_step = reports ? BeginReport : NULL,
                                         .step = ShowRow,
                                         .evaluating = ShowProgress,
                                         .evaluated = ShowLoss,
                                         .say = ShowSentence,
                                         .user = monitor};
  RengaCall(RengaTrainerAddMonitor(monitor->trainer, &functions));
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorCreate(RengaComm comm, RengaTrainer trainer, AppMonitor *monitor)
{
  AppMonitor made = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &made));
  *monitor = made;
  made->ranks = comm;
  made->trainer = trainer;
  RengaCall(RengaObjectGetComm(comm, &made->comm));
  made->prints = RengaCommGetRank(comm) == 0;
  RengaCall(ReadOptions(made));
  RengaCall(AppSinksCreate(made->comm, &made->sinks));
  if (made->prints) code = AppSinksOpen(&made->sinks);
  RengaCall(RengaErrorAgree(made->comm, code));
  RengaCall(AttachMonitor(made));
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorBegin(AppMonitor monitor, const AppRun *run, const RengaDataFields *fields,
                               AppAccuracy *accuracy)
{
  RengaErrorCode code = RENGA_SUCCESS;
  monitor->first = run->first;
  monitor->steps = run->steps;
  monitor->tokens = run->tokens;
  monitor->fields = fields;
  monitor->accuracy = accuracy;
  if (monitor->prints) code = AppSinksBegin(&monitor->sinks, run);
  RengaCall(RengaErrorAgree(monitor->comm, code));
  if (!AppSinksFind(&monitor->sinks, &AppHttpKind, &monitor->page)) return RENGA_SUCCESS;
  RengaCall(AppHttpBegin(monitor->ranks, monitor->page, run));
  RengaCall(AppReportsCreate(monitor->ranks, AppHttpTake, monitor->page, &monitor->reports));
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorDestroy(AppMonitor *monitor, bool goes_on)
{
  AppMonitor gone = *monitor;
  if (!gone) return RENGA_SUCCESS;
  EndBar(gone);
  RengaErrorCode code = AppReportsDestroy(&gone->reports);
  const RengaErrorCode closed = gone->prints ? AppSinksClose(&gone->sinks, goes_on) : RENGA_SUCCESS;
  code = RengaErrorAgree(gone->comm, code ? code : closed);
  AppSinksFree(&gone->sinks);
  RengaFree(monitor);
  RengaCall(code);
  return RENGA_SUCCESS;
}
