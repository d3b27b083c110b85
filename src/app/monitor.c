/* Progress: a bar on a terminal, plain lines elsewhere; and a CSV file with a row per step. */
#include "app.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char csv_header[] =
    "step,loss,learning_rate,gradient_norm,samples_per_second,seconds,validation_loss,perplexity";

typedef enum { SHOW_NONE, SHOW_LINES, SHOW_BAR } Show;
struct _AppMonitor {
  MPI_Comm comm; /* lent; its rank 0 prints */
  bool prints;
  Show show;
  int columns;
  bool bar_is_up;
  int64_t first, steps, tokens, every;
  double shown_at;            /* seconds of MPI_Wtime */
  double speed, step_seconds; /* samples per second, seconds per step: smoothed */
  char *file_name;
  FILE *file;      /* of rank 0; NULL: there is none, or it could not be written */
  int64_t missing; /* rows that it did not take */
  AppRow row;      /* the last one, and where it stands */
  long row_at;
};

/* Of the steps before first, that many have rows; the steps that samples are hidden from have
   none. */
static RengaErrorCode SayGap(AppMonitor monitor, int64_t rows, int64_t absent)
{
  double hidden;
  RengaCall(RengaOptionsGetReal("data_hide", &hidden, NULL));
  if (rows < monitor->first && hidden == 0)
    RengaWarning(monitor->comm,
                 "-monitor csv:%s: of the %lld steps so far %lld have no row in the file, the "
                 "first of them step %lld",
                 monitor->file_name, (long long)monitor->first, (long long)(monitor->first - rows),
                 (long long)absent);
  return RENGA_SUCCESS;
}

/* Keep the header and the rows of steps before first, so that a resumed run goes on where its
   checkpoint was. */
static RengaErrorCode KeepRows(AppMonitor monitor)
{
  const char *file_name = monitor->file_name;
  FILE *file = fopen(file_name, "r+");
  char *line = NULL;
  size_t size = 0;
  long keep = 0;
  int64_t rows = -1, absent = 0;                      /* the header is counted, too */
  if (!file) return RENGA_SUCCESS;                    /* a new one is made */
  const bool begun = getline(&line, &size, file) > 0; /* else it is empty, as CheckFile makes it */
  const bool known = !begun || !strncmp(line, csv_header, sizeof csv_header - 1);
  while (begun && known) {
    keep = ftell(file);
    if (rows++ >= 0 && strtoll(line, NULL, 10) == absent) absent++;
    if (getline(&line, &size, file) <= 0 || strtoll(line, NULL, 10) >= monitor->first) break;
    if (!strchr(line, '\n')) break;
  }
  free(line);
  bool good = known && ftruncate(fileno(file), keep) == 0;
  fclose(file);
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "-monitor csv:%s: the file is there but is no monitor's: it does not begin with %s",
             file_name, csv_header);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s", file_name,
             strerror(errno));
  if (begun) RengaCall(SayGap(monitor, rows, absent));
  return RENGA_SUCCESS;
}

/* A run that goes on keeps what its first part wrote; another one's file is not replaced. */
static RengaErrorCode OpenMonitorFile(AppMonitor monitor)
{
  bool resume;
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (resume) RengaCall(KeepRows(monitor));
  monitor->file = fopen(monitor->file_name, resume ? "r+" : "w");
  if (!monitor->file && errno == ENOENT) monitor->file = fopen(monitor->file_name, "w");
  RengaCheck(monitor->file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s",
             monitor->file_name, strerror(errno));
  fseek(monitor->file, 0, SEEK_END);
  if (ftell(monitor->file) == 0) fprintf(monitor->file, "%s\n", csv_header);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMonitorFile(const char *name)
{
  bool resume;
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  FILE *file = fopen(name, "a");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s", name,
             strerror(errno));
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  fclose(file);
  RengaCheck(resume || bytes == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor csv:%s: the file is there already and is not replaced: remove it, write to "
             "another, or go on with its run by -resume",
             name);
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorCheck(RengaComm comm)
{
  const char *file;
  MPI_Comm printer;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("monitor", &file, NULL));
  if (!file) return RENGA_SUCCESS;
  RengaCheck(!strncmp(file, "csv:", 4) && file[4], printer, RENGA_ERR_OPTION,
             "-monitor %s: write csv:FILE", file);
  if (RengaCommGetRank(comm) == 0) code = CheckMonitorFile(file + 4);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOptions(AppMonitor monitor)
{
  const char *progress, *file;
  int columns = 80;
  RengaCall(RengaOptionsGetInt64("monitor_every", &monitor->every, NULL));
  RengaCall(RengaOptionsGetString("progress", &progress, NULL));
  RengaCall(RengaOptionsGetString("monitor", &file, NULL));
  monitor->show = !strcmp(progress, "none")                            ? SHOW_NONE
                  : !strcmp(progress, "bar")                           ? SHOW_BAR
                  : !strcmp(progress, "auto") && AppTerminal(&columns) ? SHOW_BAR
                                                                       : SHOW_LINES;
  monitor->columns = columns;
  if (!file) return RENGA_SUCCESS;
  RengaCall(RengaStringCopy(file + 4, &monitor->file_name));
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

static void FormatRow(const struct _AppMonitor *monitor, const AppRow *row, size_t size,
                      char text[])
{
  char speed[32], left[32], rate[48] = "";
  int64_t to_go = monitor->steps - row->step - 1;
  double unit = monitor->tokens ? (double)monitor->tokens : 1;
  RengaFormatCount(monitor->speed * unit, sizeof speed, speed);
  FormatSeconds((double)to_go * monitor->step_seconds, sizeof left, left);
  if (monitor->show == SHOW_LINES)
    snprintf(rate, sizeof rate, "learning rate %.3g  ", row->learning_rate);
  snprintf(text, size, "step %lld/%lld  loss %.5g  %s%s %s/s  %s left", (long long)row->step + 1,
           (long long)monitor->steps, row->loss, rate, speed,
           monitor->tokens ? "tokens" : "samples", left);
}

static void DrawMonitorBar(AppMonitor monitor, const AppRow *row, const char *text)
{
  char bar[64];
  int room = monitor->columns - (int)strlen(text) - 5, width = room < 40 ? room : 40;
  int64_t run = monitor->steps - monitor->first, done = row->step + 1 - monitor->first;
  if (width < 4) width = 0;
  int full = (int)(width * done / run);
  for (int i = 0; i < width; i++) bar[i] = i < full ? '#' : '.';
  bar[width] = 0;
  printf("\r%s%s%s%.*s\033[K", width ? "[" : "", bar, width ? "] " : "", monitor->columns - 1,
         text);
  monitor->bar_is_up = true;
}

/* At most ten bars or one line per second; or every so many steps; the last step always. */
static bool IsDue(const struct _AppMonitor *monitor, const AppRow *row)
{
  double since = MPI_Wtime() - monitor->shown_at;
  if (monitor->show == SHOW_NONE) return false;
  if (row->step + 1 == monitor->steps || row->step == monitor->first) return true;
  if (monitor->show == SHOW_BAR) return since >= 0.1;
  return monitor->every ? (row->step + 1) % monitor->every == 0 : since >= 1;
}

static void MeasureProgress(AppMonitor monitor, const AppRow *row)
{
  double keep = monitor->step_seconds > 0 ? 0.8 : 0;
  double speed = row->seconds > 0 ? (double)row->samples / row->seconds : 0;
  monitor->speed = keep * monitor->speed + (1 - keep) * speed;
  monitor->step_seconds = keep * monitor->step_seconds + (1 - keep) * row->seconds;
}

/* Said once; training goes on without the file, which ends with the last whole row. */
static void GiveUpFile(AppMonitor monitor)
{
  RengaWarning(monitor->comm, "-monitor csv:%s: %s; rows from step %lld on are not written",
               monitor->file_name, strerror(errno), (long long)monitor->row.step);
  fclose(monitor->file);
  monitor->file = NULL;
  monitor->missing = 1;
  if (monitor->row_at > 0 && truncate(monitor->file_name, monitor->row_at) != 0)
    RengaWarning(monitor->comm, "-monitor csv:%s: its last row is torn: %s", monitor->file_name,
                 strerror(errno));
}

/* The last row, again where it stands already. validation: "" or its two columns. */
static void WriteMonitorRow(AppMonitor monitor, const char *validation)
{
  const AppRow *row = &monitor->row;
  bool good = fseek(monitor->file, monitor->row_at, SEEK_SET) == 0 &&
              fprintf(monitor->file, "%lld,%.9g,%.9g,%.9g,%.6g,%.6g,%s\n", (long long)row->step,
                      row->loss, row->learning_rate, row->gradient_norm,
                      row->seconds > 0 ? (double)row->samples / row->seconds : 0, row->seconds,
                      *validation ? validation : ",") > 0;
  if (!good || fflush(monitor->file) != 0) GiveUpFile(monitor);
}

RengaErrorCode AppMonitorCreate(RengaComm comm, int64_t first, int64_t steps, int64_t tokens,
                                AppMonitor *monitor)
{
  AppMonitor made = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &made));
  RengaCall(RengaObjectGetComm(comm, &made->comm));
  made->first = first;
  made->steps = steps;
  made->tokens = tokens;
  made->prints = RengaCommGetRank(comm) == 0;
  RengaCall(ReadOptions(made));
  if (made->prints && made->file_name) code = OpenMonitorFile(made);
  RengaCall(RengaErrorAgree(made->comm, code));
  *monitor = made;
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorStep(AppMonitor monitor, const AppRow *row)
{
  char text[256];
  if (!monitor->prints) return RENGA_SUCCESS;
  MeasureProgress(monitor, row);
  monitor->row = *row;
  if (monitor->file) {
    fseek(monitor->file, 0, SEEK_END);
    monitor->row_at = ftell(monitor->file);
    WriteMonitorRow(monitor, "");
  } else if (monitor->file_name) {
    monitor->missing++;
  }
  if (!IsDue(monitor, row)) return RENGA_SUCCESS;
  FormatRow(monitor, row, sizeof text, text);
  if (monitor->show == SHOW_BAR)
    DrawMonitorBar(monitor, row, text);
  else
    printf("%s\n", text);
  fflush(stdout);
  monitor->shown_at = MPI_Wtime();
  return RENGA_SUCCESS;
}

void AppMonitorValidating(AppMonitor monitor, int64_t done, int64_t samples, int64_t batches)
{
  const double since = MPI_Wtime() - monitor->shown_at;
  const bool bar = monitor->show == SHOW_BAR;
  if (!monitor->prints || monitor->show == SHOW_NONE) return;
  if (batches == 0) monitor->shown_at = MPI_Wtime(); /* a short one is not worth a line */
  if (batches == 0 || (monitor->every && !bar ? batches % monitor->every != 0 : since < 1)) return;
  printf(bar ? "\rvalidating, %lld of %lld samples\033[K" : "validating, %lld of %lld samples\n",
         (long long)done, (long long)samples);
  monitor->bar_is_up = bar;
  monitor->shown_at = MPI_Wtime();
  fflush(stdout);
}

RengaErrorCode AppMonitorValidation(AppMonitor monitor, double loss, double perplexity)
{
  char text[64];
  if (!monitor->file || monitor->row_at == 0) return RENGA_SUCCESS;
  int used = snprintf(text, sizeof text, "%.9g,", loss);
  if (perplexity > 0) snprintf(text + used, sizeof text - (size_t)used, "%.9g", perplexity);
  WriteMonitorRow(monitor, text);
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorSay(AppMonitor monitor, const char *format, ...)
{
  va_list arguments;
  if (!monitor->prints) return RENGA_SUCCESS;
  if (monitor->bar_is_up) printf("\n");
  monitor->bar_is_up = false;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  fflush(stdout);
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseMonitorFile(AppMonitor monitor, bool goes_on)
{
  const bool whole = !monitor->file || fclose(monitor->file) == 0;
  if (!whole)
    RengaWarning(monitor->comm, "-monitor csv:%s: %s", monitor->file_name, strerror(errno));
  const RengaErrorCode code = whole || goes_on ? RENGA_SUCCESS : RENGA_ERR_FILE_WRITE;
  if (monitor->missing == 0) return code;
  if (goes_on)
    RengaWarning(monitor->comm, "-monitor csv:%s: %lld rows of this run are missing",
                 monitor->file_name, (long long)monitor->missing);
  RengaCheck(goes_on, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor csv:%s: %lld rows of this run, which is done, are missing",
             monitor->file_name, (long long)monitor->missing);
  return RENGA_SUCCESS;
}

RengaErrorCode AppMonitorDestroy(AppMonitor *monitor, bool goes_on)
{
  AppMonitor gone = *monitor;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!gone) return RENGA_SUCCESS;
  if (gone->bar_is_up) printf("\n");
  if (gone->prints) code = CloseMonitorFile(gone, goes_on);
  code = RengaErrorAgree(gone->comm, code);
  RengaFree(&gone->file_name);
  RengaFree(monitor);
  RengaCall(code);
  return RENGA_SUCCESS;
}
