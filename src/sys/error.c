/* Errors: who finds one prints it once; callers add their line to the trace and pass it on. */
#include "sys.h"
#include "renga/private/keep.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RENGA_ERROR_TEXT(name, text) text,
static const char *const error_texts[] = {"success", RENGA_ERROR_MAP(RENGA_ERROR_TEXT)};
#undef RENGA_ERROR_TEXT

enum { MESSAGE_SIZE = 8192, QUIET_RANK_WAITS_SECONDS = 3, ABORT_SECONDS = 8 };

/* The error that is being passed up: whether this rank prints it, and how deep its trace is. */
static struct {
  bool prints;
  int depth;
} trace = {true, 0};

/* Where sentences go instead of standard error; NULL: they are printed. */
static struct {
  char *text;
  size_t size;
} kept;

/*@
   RengaErrorText - what a code means, in words

   Not collective

   Input:
   . code - any error code
@*/
const char *RengaErrorText(RengaErrorCode code)
{
  return (unsigned)code < RENGA_ERR_COUNT ? error_texts[code] : "unknown error";
}

static bool MPIIsUsable(void)
{
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  if (started) MPI_Finalized(&ended);
  return started && !ended;
}

int RengaSysRank(void)
{
  int rank = 0;
  if (MPIIsUsable()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static bool RankPrints(MPI_Comm comm)
{
  int rank = 0;
  if (comm != MPI_COMM_NULL && MPIIsUsable()) MPI_Comm_rank(comm, &rank);
  return rank == 0;
}

/* One write, so that lines of ranks do not mix. */
static void WriteText(const char *text)
{
  size_t left = strlen(text);
  while (left > 0) {
    ssize_t written = write(STDERR_FILENO, text, left);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) {
      text += written;
      left -= (size_t)written;
    }
  }
}

static const char *ShortFile(const char *file)
{
  while (strncmp(file, "../", 3) == 0) file += 3;
  return file;
}

static void WriteTraceLine(const char *function, const char *file, int line)
{
  char text[MESSAGE_SIZE];
  snprintf(text, sizeof text, "[rank %d]   #%d %s() at %s:%d\n", RengaSysRank(), trace.depth,
           function, ShortFile(file), line);
  WriteText(text);
}

void RengaErrorSilence(void)
{
  trace.prints = false;
}

void RengaErrorKeep(size_t size, char text[])
{
  kept.text = text;
  kept.size = size;
  if (text && size) text[0] = 0;
}

/*@
   RengaErrorRaise - report a new error; use the macros RengaRaise and RengaCheck

   Not collective

   Input:
   . comm - its rank 0 prints; a communicator of several ranks only where all of them surely fail
   . code - the error
   . function, file, line - where it was found
   . format - what is wrong, with the values, and what to do

   Notes: returns code.
@*/
RengaErrorCode RengaErrorRaise(MPI_Comm comm, RengaErrorCode code, const char *function,
                               const char *file, int line, const char *format, ...)
{
  trace.depth = 0;
  trace.prints = RankPrints(comm);
  if (!trace.prints) return code;
  if (kept.text) {
    va_list values;
    va_start(values, format);
    vsnprintf(kept.text, kept.size, format, values);
    va_end(values);
    trace.prints = false;
    return code;
  }
  fflush(stdout);
  char text[MESSAGE_SIZE];
  int head =
      snprintf(text, sizeof text, "[rank %d] error: %s: ", RengaSysRank(), RengaErrorText(code));
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  WriteText(text);
  WriteTraceLine(function, file, line);
  return code;
}

/*@
   RengaWarning - something that the user should know, though the work goes on

   Not collective

   Input:
   . comm - its rank 0 prints, to standard error
   . format - as printf
@*/
void RengaWarning(MPI_Comm comm, const char *format, ...)
{
  if (!RankPrints(comm)) return;
  char text[MESSAGE_SIZE];
  fflush(stdout);
  int head = snprintf(text, sizeof text, "[rank %d] warning: ", RengaSysRank());
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  WriteText(text);
}

/*@
   RengaErrorPass - add the calling function to the trace of an error; used by RengaCall

   Not collective

   Input:
   . function, file, line - where the call that failed stands

   Notes: printed only by the rank that printed the message.
@*/
void RengaErrorPass(const char *function, const char *file, int line)
{
  trace.depth++;
  if (trace.prints) WriteTraceLine(function, file, line);
}

/*@
   RengaErrorMPI - turn an error of MPI into one of Renga; used by RengaCallMPI

   Not collective

   Input:
   . mpi_error - what the call returned
   . call - its text
   . function, file, line - where it stands
@*/
RengaErrorCode RengaErrorMPI(int mpi_error, const char *call, const char *function,
                             const char *file, int line)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(mpi_error, text, &length) != MPI_SUCCESS)
    snprintf(text, sizeof text, "error %d", mpi_error);
  return RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, function, file, line, "MPI: %s: %s",
                         call, text);
}

/*@
   RengaErrorAgree - make all ranks fail where one failed

   Collective

   Input:
   . comm - the ranks
   . mine - this rank's code; RENGA_SUCCESS where all is well

   Notes: returns the largest code of all ranks. Ranks that were well themselves stay silent. Waits
   politely, no longer than the time limit (RengaCommSetTimeout).
@*/
RengaErrorCode RengaErrorAgree(MPI_Comm comm, RengaErrorCode mine)
{
  int64_t largest = mine;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &largest, "all ranks to say that all is well"));
  if (mine == RENGA_SUCCESS && largest != RENGA_SUCCESS) RengaErrorSilence();
  return (RengaErrorCode)largest;
}

/*@
   RengaErrorAbort - end every rank of the job with a non-zero exit code

   Not collective

   Input:
   . code - the error; becomes the exit code

   Notes: does not return. A rank that did not print its error lets the one that does go first.
   MPI_Abort may hang where the network is cut: the process ends after 8 s at the latest.
@*/
void RengaErrorAbort(RengaErrorCode code)
{
  int exit_code = code == RENGA_SUCCESS ? RENGA_ERR_INTERNAL : (int)code;
  RengaEndBy(ABORT_SECONDS, exit_code);
  fflush(NULL);
  if (MPIIsUsable()) {
    if (!trace.prints) sleep(QUIET_RANK_WAITS_SECONDS);
    struct timespec forwarded = {0, 50000000}; /* mpiexec may drop what it has not read yet */
    nanosleep(&forwarded, NULL);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  exit(exit_code);
}
