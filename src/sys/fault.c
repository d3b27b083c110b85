/* Failures on purpose, for tests. */
#include "renga/private/fault.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const fault_names[RENGA_FAULT_KINDS] = {"allocation", "message", "file", "kill",
                                                           "stop"};
static atomic_llong fault_count[RENGA_FAULT_KINDS], fault_due[RENGA_FAULT_KINDS];
static struct {
  int rank;     /* of this process */
  bool reports; /* the environment asked how many events there are */
  RengaFaultKind kind;
} fault_asked;
atomic_bool RengaFaultsAreCounted;

void RengaFaultSet(RengaFaultKind kind, int64_t n)
{
  fault_count[kind] = 0;
  fault_due[kind] = n;
  RengaFaultsAreCounted = true;
}

int64_t RengaFaultGetCount(RengaFaultKind kind)
{
  return fault_count[kind];
}

bool RengaFaultCount(RengaFaultKind kind)
{
  const long long due = fault_due[kind];
  const long long count = atomic_fetch_add_explicit(&fault_count[kind], 1, memory_order_relaxed);
  return due > 0 && count + 1 == due;
}

int RengaFaultRefuse(void)
{
  errno = EIO;
  return -1;
}

/* Said first, past all buffers: nothing can be said afterwards. */
static void EndHere(int signal, const char *action, int stage, int64_t microbatch)
{
  char text[160];
  int length = snprintf(text, sizeof text, "RENGA_FAULT: rank %d %s before %s", fault_asked.rank,
                        signal == SIGKILL ? "is killed" : "stops", action);
  const size_t used = (size_t)length, room = sizeof text - used;
  if (microbatch >= 0)
    length += snprintf(text + used, room, " %lld of stage %d\n", (long long)microbatch, stage);
  else
    length += snprintf(text + used, room, stage >= 0 ? " of stage %d\n" : "\n", stage);
  if (write(STDERR_FILENO, text, (size_t)length) >= 0) usleep(500000); /* the launcher reads it */
  kill(getpid(), signal);
}

void RengaFaultMeet(const char *action, int stage, int64_t microbatch)
{
  if (RengaFaultCount(RENGA_FAULT_KILL)) EndHere(SIGKILL, action, stage, microbatch);
  if (RengaFaultCount(RENGA_FAULT_STOP)) EndHere(SIGSTOP, action, stage, microbatch);
}

static RengaErrorCode ReadFault(const char *text, RengaFaultKind kind, const char *number, int rank,
                                int ranks)
{
  char *end = NULL, *last = NULL;
  errno = 0;
  const long long n = strtoll(number, &end, 10);
  const long long only = *end == ':' ? strtoll(end + 1, &last, 10) : rank;
  const char *rest = last ? last : end;
  RengaCheck(end != number && n >= 0 && (!last || last != end + 1) && !*rest && errno == 0,
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "RENGA_FAULT=%s: behind %s: a number, 0 to count, and a rank where only one is meant, "
             "as in %s:17:1",
             text, fault_names[kind], fault_names[kind]);
  RengaCheck(only >= 0 && only < ranks, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "RENGA_FAULT=%s: there is no rank %lld: give one of 0 to %d, or none for all of them",
             text, only, ranks - 1);
  fault_asked.rank = rank;
  fault_asked.reports = n == 0 && only == rank;
  fault_asked.kind = kind;
  if (only == rank) RengaFaultSet(kind, n);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFaultReadEnvironment(int rank, int ranks)
{
  const char *text = getenv("RENGA_FAULT");
  if (!text || !*text) return RENGA_SUCCESS;
  for (int k = 0; k < RENGA_FAULT_KINDS; k++) {
    const size_t length = strlen(fault_names[k]);
    if (strncmp(fault_names[k], text, length) != 0 || text[length] != ':') continue;
    RengaCall(ReadFault(text, (RengaFaultKind)k, text + length + 1, rank, ranks));
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_OPTION,
             "RENGA_FAULT=%s: a kind, a colon and a number: allocation, message, file, kill or "
             "stop, as in message:17",
             text);
}

void RengaFaultReport(void)
{
  if (!fault_asked.reports) return;
  fprintf(stderr, "RENGA_FAULT: rank %d came to %lld events of kind %s\n", fault_asked.rank,
          (long long)RengaFaultGetCount(fault_asked.kind), fault_names[fault_asked.kind]);
}
