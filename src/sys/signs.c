/* Signs of life for who supervises the run: what signs.h describes. Streams and the heap are left
   alone, so that a thread may write a last sign while another one is stuck. */
#include "renga/private/signs.h"
#include "renga/private/open.h"
#include "sys.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIGN_TEXT = 4096 };
static const double SIGN_EVERY = 0.2;
static int sign_rank; /* of this process */

static double SignSeconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void WriteSign(const char *text, size_t length)
{
  const char *name = getenv("RENGA_RUN_SIGNS");
  const int file = name ? RengaFileDescriptor_Private(name, O_WRONLY | O_APPEND, 0) : -1;
  if (file < 0) return;
  if (write(file, text, length) < 0) (void)0; /* the next one may be written */
  close(file);
}

static void WriteSignOf(const char *sign, const char *what, int64_t number)
{
  char text[128];
  if (sign_rank != 0) return;
  const int length =
      snprintf(text, sizeof text, "{\"sign\":\"%s\",\"%s\":%lld}\n", sign, what, (long long)number);
  WriteSign(text, (size_t)length);
}

/* Has it been a while since the last one? One that only repeats that the run goes on can wait. */
static bool IsSignDue(void)
{
  static double last;
  if (sign_rank != 0 || !getenv("RENGA_RUN_SIGNS")) return false;
  const double now = SignSeconds();
  if (last > 0 && now - last < SIGN_EVERY) return false;
  last = now;
  return true;
}

static int64_t untold_step = -1; /* that was no time to tell of */

static void TellStep(void)
{
  if (untold_step >= 0) WriteSignOf("step", "step", untold_step);
  untold_step = -1;
}

void RengaSignStep_Private(int64_t step)
{
  untold_step = step;
  if (IsSignDue()) TellStep();
}

void RengaSignWork_Private(void)
{
  static const char text[] = "{\"sign\":\"work\"}\n";
  if (IsSignDue()) WriteSign(text, sizeof text - 1);
}

void RengaSignResumed_Private(int64_t step)
{
  WriteSignOf("resumed", "step", step);
}

void RengaSignCheckpoint_Private(int64_t step)
{
  WriteSignOf("checkpoint", "step", step);
}

void RengaSignEnd(int exit_code)
{
  TellStep();
  WriteSignOf("end", "code", exit_code);
}

/* Nobody else writes yet, so that the row may come in pieces. */
void RengaSignStart(int rank, int count, int64_t (*process)(int rank))
{
  char text[SIGN_TEXT];
  size_t used = 0;
  sign_rank = rank;
  if (sign_rank != 0 || !getenv("RENGA_RUN_SIGNS")) return;
  for (int r = 0; r < count; r++) {
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%lld",
                         r ? "," : "{\"sign\":\"start\",\"processes\":[", (long long)process(r));
    if (used < sizeof text - 64) continue;
    WriteSign(text, used);
    used = 0;
  }
  used += (size_t)snprintf(text + used, sizeof text - used, "]}\n");
  WriteSign(text, used);
}

/* As much of the sentence as there is room for, as a string of JSON. */
static size_t QuoteSign(const char *sentence, size_t size, char text[])
{
  size_t used = 0;
  for (; *sentence && used + 8 < size; sentence++) {
    const unsigned char letter = (unsigned char)*sentence;
    if (letter == '"' || letter == '\\') text[used++] = '\\';
    text[used++] = letter < ' ' ? ' ' : (char)letter;
  }
  text[used] = '\0';
  return used;
}

void RengaSignError(int rank, RengaErrorCode code, const char *sentence)
{
  char text[SIGN_TEXT];
  if (!getenv("RENGA_RUN_SIGNS")) return;
  TellStep();
  size_t used =
      (size_t)snprintf(text, sizeof text, "{\"sign\":\"error\",\"rank\":%d,\"code\":%d,\"text\":\"",
                       rank, (int)code);
  used += QuoteSign(sentence, sizeof text - used - 4, text + used);
  memcpy(text + used, "\"}\n", 3);
  WriteSign(text, used + 3);
}
