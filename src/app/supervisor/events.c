/* What renga run tells: a sentence for people, and a row of JSON for programs. */
#include "supervisor.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
  int file;         /* of -events; -1: none */
  const char *name; /* of it */
  bool torn, full;  /* its last row is not whole; it was said that it takes no more */
  double began;
} telling = {.file = -1};

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
  const int opened =
      RengaFileDescriptor_Private(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  RengaCheck(opened >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "renga run -events %s: %s", file,
             RengaFileReason_Private(errno));
  telling.file = opened;
  telling.name = file;
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

/* A row that is cut off ends before the next one, so that the others can be read. */
static void WriteEventRow(const char *row, size_t length)
{
  const char *text = telling.torn ? "\n" : row;
  size_t left = telling.torn ? 1 : length;
  while (left > 0) {
    const ssize_t wrote = write(telling.file, text, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    text += wrote;
    left -= (size_t)wrote;
    if (left > 0 || !telling.torn) continue;
    telling.torn = false;
    text = row;
    left = length;
  }
  if (left == 0) return;
  telling.torn = telling.torn || left < length;
  if (!telling.full)
    fprintf(stderr, "renga run: -events %s takes no more rows: %s: events are lost\n", telling.name,
            RengaFileReason_Private(errno ? errno : ENOSPC));
  telling.full = true;
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
  if (telling.file < 0) return;
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  SupervisorQuote(text, sizeof quoted, quoted);
  const int length = RengaTextFormat(
      row, sizeof row, "{\"time\":\"%s\",\"seconds\":%.3f,\"event\":\"%s\",%s%s\"text\":%s}\n",
      when, SupervisorSecondsSinceBegin(), event, fields, *fields ? "," : "", quoted);
  WriteEventRow(row, (size_t)length);
}
