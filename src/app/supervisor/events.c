/* What renga run tells: a sentence for people, and a row of JSON for programs. */
#include "supervisor.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct {
  FILE *file; /* of -events; NULL: none */
  double began;
} telling;

double SupervisorSeconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double SupervisorSecondsSinceBegin(void)
{
  return SupervisorSeconds() - telling.began;
}

/* Rows of earlier runs stay. */
RengaErrorCode SupervisorEventsOpen(const char *file)
{
  telling.began = SupervisorSeconds();
  if (!file) return RENGA_SUCCESS;
  telling.file = RengaFileOpen_Private(file, "a");
  RengaCheck(telling.file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "renga run -events %s: %s", file,
             RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

size_t SupervisorQuote(const char *text, size_t size, char quoted[])
{
  size_t used = 0;
  quoted[used++] = '"';
  for (; *text && used + 4 < size; text++) {
    const unsigned char letter = (unsigned char)*text;
    if (letter == '"' || letter == '\\') quoted[used++] = '\\';
    quoted[used++] = letter < ' ' ? ' ' : (char)letter;
  }
  quoted[used++] = '"';
  quoted[used] = '\0';
  return used;
}

void SupervisorSay(const char *event, const char *fields, const char *format, ...)
{
  char text[3 * SUPERVISOR_TEXT], quoted[4 * SUPERVISOR_TEXT], row[6 * SUPERVISOR_TEXT], when[32];
  const time_t now = time(NULL);
  struct tm utc;
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  if (*text) fprintf(stderr, "renga run: %s\n", text);
  fflush(stderr);
  if (!telling.file) return;
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  SupervisorQuote(text, sizeof quoted, quoted);
  RengaTextFormat(row, sizeof row,
                  "{\"time\":\"%s\",\"seconds\":%.3f,\"event\":\"%s\",%s%s\"text\":%s}\n", when,
                  SupervisorSecondsSinceBegin(), event, fields, *fields ? "," : "", quoted);
  fputs(row, telling.file);
  fflush(telling.file);
}
