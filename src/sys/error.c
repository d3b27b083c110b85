/* Errors: who finds one prints it once; callers add their line to the trace and pass it on. */
#include "sys.h"
#include "renga/private/number.h"
#include "renga/private/quiet.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define RENGA_ERROR_TEXT(name, text) text,
static const char *const error_texts[] = {"success", RENGA_ERROR_MAP(RENGA_ERROR_TEXT)};
#undef RENGA_ERROR_TEXT

enum { MESSAGE_SIZE = 8192 };

/* The error that is being passed up: whether this rank reports it, and how deep its trace is. */
static struct {
  bool reports;
  int depth;
  RengaErrorCode code;
  char message[MESSAGE_SIZE]; /* stays until the next error */
  int64_t count;              /* of all errors found here */
} last = {.reports = true};

static struct {
  RengaErrorHandler report;
  void *user;
  bool shows_trace;
} handler = {RengaErrorPrint, NULL, false};

/*@
   RengaErrorText - what a code means, in words

   Input:
   . code - any error code

   See also: RengaErrorGetMessage()
@*/
const char *RengaErrorText(RengaErrorCode code)
{
  return (unsigned)code < RENGA_ERR_COUNT ? error_texts[code] : "unknown error";
}

bool RengaSysHasMPI(void)
{
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  if (started) MPI_Finalized(&ended);
  return started && !ended;
}

int RengaSysRank(void)
{
  int rank = 0;
  if (RengaSysHasMPI()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static bool RankPrints(MPI_Comm comm)
{
  int rank = 0;
  if (comm != MPI_COMM_NULL && RengaSysHasMPI()) MPI_Comm_rank(comm, &rank);
  return rank == 0;
}

/* One write, so that lines of ranks do not mix. */
static void WriteToStderr(const char *text)
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

void RengaErrorSilence(RengaErrorCode code)
{
  last.reports = false;
  last.code = code;
  snprintf(last.message, sizeof last.message, "another rank has found: %s", RengaErrorText(code));
}

void RengaErrorLeave(void)
{
  last.reports = false;
}

bool RengaErrorIsReported(void)
{
  return last.reports;
}

void RengaErrorShowTrace(bool show)
{
  handler.shows_trace = show;
}

/*@
   RengaErrorPrint - the handler of errors that prints them to standard error

   Input:
   . report - the report: an error, a caller that passes it on, or a warning
   . user - not used

   Options:
   . -error_trace - print also where the error was found, and the callers that passed it on

   Notes: an error is one line. Internal errors, which are defects of a program or of Renga, come
   with their trace always.

   See also: RengaErrorSetHandler(), RengaErrorIgnore()
@*/
void RengaErrorPrint(const RengaErrorReport *report, void *user)
{
  char text[MESSAGE_SIZE + 256];
  const bool traced = handler.shows_trace || report->code == RENGA_ERR_INTERNAL;
  (void)user;
  fflush(stdout);
  if (report->code == RENGA_SUCCESS)
    snprintf(text, sizeof text, "[rank %d] warning: %s\n", report->rank, report->message);
  else
    snprintf(text, sizeof text, "[rank %d] error: %s: %s\n", report->rank,
             RengaErrorText(report->code), report->message);
  if (report->depth == 0) WriteToStderr(text);
  if (report->depth == 0 && report->code != RENGA_SUCCESS)
    RengaSignError(report->rank, report->code, report->message);
  snprintf(text, sizeof text, "[rank %d]   #%d %s() at %s:%d\n", report->rank, report->depth,
           report->function, ShortFile(report->file), report->line);
  if (report->code != RENGA_SUCCESS && traced) WriteToStderr(text);
}

/*@
   RengaErrorIgnore - the handler of errors that prints warnings only

   Input:
   . report - the report: an error, a caller that passes it on, or a warning
   . user - not used

   Notes: for a program that looks at codes and takes the sentence from RengaErrorGetMessage.

   See also: RengaErrorSetHandler(), RengaErrorPrint()
@*/
void RengaErrorIgnore(const RengaErrorReport *report, void *user)
{
  if (report->code == RENGA_SUCCESS) RengaErrorPrint(report, user);
}

/*@
   RengaErrorSetHandler - who is told of errors and warnings

   Input:
   . report - called on the rank that reports; NULL: RengaErrorPrint, as at the start
   . user - handed to it

   Notes: called for an error where it is found (depth 0), then for each function that passes it on
   (depth 1, 2 ...), innermost first; for a warning once, with the code RENGA_SUCCESS. Strings are
   lent until it returns. It must not call functions of Renga that can fail. May be called before
   RengaInitialize, and lasts past RengaFinalize.

   See also: RengaErrorGetHandler(), RengaErrorPrint(), RengaErrorIgnore()
@*/
void RengaErrorSetHandler(RengaErrorHandler report, void *user)
{
  handler.report = report ? report : RengaErrorPrint;
  handler.user = user;
}

/*@
   RengaErrorGetHandler - who is told of errors and warnings

   Output:
   . report, user - the values that RengaErrorSetHandler was given; NULL for either is allowed
@*/
void RengaErrorGetHandler(RengaErrorHandler *report, void **user)
{
  if (report) *report = handler.report;
  if (user) *user = handler.user;
}

static void TellWarnings(const RengaErrorReport *report, void *user)
{
  const RengaQuiet *quiet = user;
  if (report->code == RENGA_SUCCESS) quiet->report(report, quiet->user);
}

int64_t RengaErrorCount_Private(void)
{
  return last.count;
}

void RengaQuietBegin_Private(RengaQuiet *quiet)
{
  RengaErrorGetHandler(&quiet->report, &quiet->user);
  RengaErrorSetHandler(TellWarnings, quiet);
}

void RengaQuietEnd_Private(const RengaQuiet *quiet)
{
  RengaErrorSetHandler(quiet->report, quiet->user);
}

/*@
   RengaErrorGetMessage - the sentence of the last error of this process

   Notes: lent until the next error; "" where there was none. On every rank that failed, whichever
   rank reports the error; a rank that only heard of it (RengaErrorAgree) says so.

   See also: RengaErrorText(), RengaErrorSetHandler()
@*/
const char *RengaErrorGetMessage(void)
{
  return last.message;
}

static void Report(const char *message, const char *function, const char *file, int line,
                   RengaErrorCode code, int depth)
{
  const RengaErrorReport report = {.code = code,
                                   .depth = depth,
                                   .rank = RengaSysRank(),
                                   .message = message,
                                   .function = function,
                                   .file = file,
                                   .line = line};
  handler.report(&report, handler.user);
}

/*@
   RengaErrorRaise - report a new error; use the macros RengaRaise and RengaCheck

   Input:
   . comm - its rank 0 reports; a communicator of several ranks only where all of them surely fail
   . code - the error
   . function, file, line - the place where it was found; lines are numbered from 1
   . format - a sentence that says what is wrong, with the values, and what to do

   Errors: the code that it is given.

   Notes: returns code.

   See also: RengaErrorPass(), RengaErrorAgree()
@*/
RengaErrorCode RengaErrorRaise(MPI_Comm comm, RengaErrorCode code, const char *function,
                               const char *file, int line, const char *format, ...)
{
  char text[MESSAGE_SIZE]; /* the values may be of the last message */
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  strcpy(last.message, text);
  last.code = code;
  last.depth = 0;
  last.count++;
  last.reports = RankPrints(comm);
  if (last.reports) Report(last.message, function, file, line, code, 0);
  return code;
}

/*@
   RengaWarning - something that the user should know, though the work goes on

   Input:
   . comm - its rank 0 reports
   . format - a sentence that says what it is, and what to do

   See also: RengaErrorSetHandler()
@*/
void RengaWarning(MPI_Comm comm, const char *format, ...)
{
  if (!RankPrints(comm)) return;
  char text[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  Report(text, "", "", 0, RENGA_SUCCESS, 0);
}

/*@
   RengaErrorPass - add the calling function to the trace of an error; used by RengaCall

   Input:
   . function, file, line - the place of the call that failed; lines are numbered from 1

   Notes: told to the handler of the rank that reported the error.

   See also: RengaErrorRaise()
@*/
void RengaErrorPass(const char *function, const char *file, int line)
{
  last.depth++;
  if (last.reports) Report(last.message, function, file, line, last.code, last.depth);
}

/*@
   RengaErrorMPI - turn an error of MPI into one of Renga; used by RengaCallMPI

   Input:
   . mpi_error - the number that the call of MPI returned; MPI_SUCCESS is 0
   . call - its text
   . function, file, line - the place of the call; lines are numbered from 1

   Errors: RENGA_ERR_LIBRARY, always.

   See also: RengaErrorRaise()
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
