/* -monitor csv:FILE: a row per step. */
#include "monitor.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char csv_header[] = APP_ROWS_HEADER;

typedef struct {
  char *file_name;
  FILE *file;             /* NULL: it is not open yet, or could not be written */
  int64_t first, missing; /* missing: rows that the file did not take */
  int64_t step;           /* of the last row; where it stands, and its columns of training */
  long row_at;
  char columns[256];
} Rows;

/* Of the steps before first, that many have rows; the steps that samples are hidden from have
   none. */
static RengaErrorCode SayGap(const Rows *rows, int64_t count, int64_t absent)
{
  double hidden;
  RengaCall(RengaOptionsGetReal("data_hide", &hidden, NULL));
  if (count < rows->first && hidden == 0)
    RengaWarning(MPI_COMM_SELF,
                 "-monitor csv:%s: of the %lld steps so far %lld have no row in the file, the "
                 "first of them step %lld",
                 rows->file_name, (long long)rows->first, (long long)(rows->first - count),
                 (long long)absent);
  return RENGA_SUCCESS;
}

/* Of the last step before first: a validation may yet come to it. */
static void RememberRow(Rows *rows, const char *line, long at)
{
  size_t letters = 0;
  for (int commas = 0; line[letters] && (line[letters] != ',' || ++commas < 6);) letters++;
  if (strtoll(line, NULL, 10) != rows->first - 1 || !line[letters] ||
      letters >= sizeof rows->columns)
    return;
  snprintf(rows->columns, sizeof rows->columns, "%.*s", (int)letters, line);
  rows->step = rows->first - 1;
  rows->row_at = at;
}

/* Keep the header and the rows of steps before first, so that a resumed run goes on where its
   checkpoint was. */
static RengaErrorCode KeepRows(Rows *rows)
{
  FILE *file = RengaFileOpen_Private(rows->file_name, "r+");
  char *line = NULL;
  size_t size = 0;
  long keep = 0;
  int64_t count = -1, absent = 0;                     /* the header is counted, too */
  if (!file) return RENGA_SUCCESS;                    /* a new one is made */
  const bool begun = getline(&line, &size, file) > 0; /* else it is empty, as OpenRows makes it */
  const bool known = !begun || !strncmp(line, csv_header, sizeof csv_header - 1);
  while (begun && known) {
    if (count >= 0) RememberRow(rows, line, keep);
    keep = ftell(file);
    if (count++ >= 0 && strtoll(line, NULL, 10) == absent) absent++;
    if (getline(&line, &size, file) <= 0 || strtoll(line, NULL, 10) >= rows->first) break;
    if (!strchr(line, '\n')) break;
  }
  free(line);
  bool good = known && ftruncate(fileno(file), keep) == 0;
  fclose(file);
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "-monitor csv:%s: the file is there but is no monitor's: it does not begin with %s",
             rows->file_name, csv_header);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s", rows->file_name,
             RengaFileReason_Private(errno));
  if (begun) RengaCall(SayGap(rows, count, absent));
  return RENGA_SUCCESS;
}

/* A run that goes on keeps what its first part wrote; another one's file is not replaced. */
static RengaErrorCode BeginRows(void *sink, const AppRun *run)
{
  Rows *rows = sink;
  bool resume;
  rows->first = run->first;
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (resume) RengaCall(KeepRows(rows));
  rows->file = RengaFileOpen_Private(rows->file_name, resume ? "r+" : "w");
  if (!rows->file && errno == ENOENT) rows->file = RengaFileOpen_Private(rows->file_name, "w");
  RengaCheck(rows->file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s",
             rows->file_name, RengaFileReason_Private(errno));
  fseek(rows->file, 0, SEEK_END);
  if (ftell(rows->file) == 0) fprintf(rows->file, "%s\n", csv_header);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRowsFile(const char *name)
{
  bool resume;
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  FILE *file = RengaFileOpen_Private(name, "a");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s", name,
             RengaFileReason_Private(errno));
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  fclose(file);
  RengaCheck(resume || bytes == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor csv:%s: the file is there already and is not replaced: remove it, write to "
             "another, or go on with its run by -resume",
             name);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenRows(const char *where, void **sink)
{
  Rows *rows;
  RengaCall(CheckRowsFile(where));
  RengaCall(RengaMalloc(1, &rows));
  *sink = rows;
  RengaCall(RengaStringCopy(where, &rows->file_name));
  return RENGA_SUCCESS;
}

/* Said once; training goes on without the file, which ends with the last whole row. */
static void GiveUpRows(Rows *rows)
{
  RengaWarning(MPI_COMM_SELF, "-monitor csv:%s: %s; rows from step %lld on are not written",
               rows->file_name, RengaFileReason_Private(errno), (long long)rows->step);
  fclose(rows->file);
  rows->file = NULL;
  rows->missing = 1;
  if (rows->row_at > 0 && truncate(rows->file_name, rows->row_at) != 0)
    RengaWarning(MPI_COMM_SELF, "-monitor csv:%s: its last row is torn: %s", rows->file_name,
                 RengaFileReason_Private(errno));
}

/* The last row, again where it stands already. validation: "" or its two columns. */
static void WriteStepRow(Rows *rows, const char *validation)
{
  bool good = fseek(rows->file, rows->row_at, SEEK_SET) == 0 &&
              fprintf(rows->file, "%s,%s\n", rows->columns, *validation ? validation : ",") > 0;
  if (!good || fflush(rows->file) != 0) GiveUpRows(rows);
}

static void AddRow(void *sink, const RengaTrainerRow *row)
{
  Rows *rows = sink;
  rows->step = row->step;
  RengaTextFormat(rows->columns, sizeof rows->columns, "%lld,%.9g,%.9g,%.9g,%.6g,%.6g",
                  (long long)row->step, row->loss, row->learning_rate, row->gradient_norm,
                  AppRowRate(row), row->seconds);
  if (!rows->file) {
    rows->missing++;
    return;
  }
  fseek(rows->file, 0, SEEK_END);
  rows->row_at = ftell(rows->file);
  WriteStepRow(rows, "");
}

static void AddValidationToRow(void *sink, const AppValidation *validation)
{
  Rows *rows = sink;
  char text[64];
  if (!rows->file || rows->row_at == 0) return;
  int used = RengaTextFormat(text, sizeof text, "%.9g,", validation->loss);
  if (validation->perplexity > 0)
    RengaTextFormat(text + used, sizeof text - (size_t)used, "%.9g", validation->perplexity);
  WriteStepRow(rows, text);
}

static RengaErrorCode CloseRows(void **sink, bool goes_on)
{
  Rows *rows = *sink;
  const bool whole = !rows->file || fclose(rows->file) == 0;
  if (!whole)
    RengaWarning(MPI_COMM_SELF, "-monitor csv:%s: %s", rows->file_name,
                 RengaFileReason_Private(errno));
  RengaErrorCode code = whole || goes_on ? RENGA_SUCCESS : RENGA_ERR_FILE_WRITE;
  const RengaErrorCode missing =
      AppSayMissing("csv", rows->file_name, rows->missing, "rows", goes_on);
  RengaFree(&rows->file_name);
  RengaFree(sink);
  return missing ? missing : code;
}

const AppMonitorKind AppRowsKind = {
    "csv", "FILE", OpenRows, BeginRows, AddRow, AddValidationToRow, CloseRows};
