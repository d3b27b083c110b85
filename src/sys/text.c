/* Text for people: printing on one rank, sizes and counts with units. */
#include "sys.h"
#include "renga/private/number.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Standard output: whether a text that it does not take is only lost, and whether one was. */
static struct {
  bool is_optional, lost;
} output;

/*@
   RengaPrintSetOptional - may standard output lose text?

   Input:
   . optional - true: text that standard output does not take is lost with one warning, and who
     printed it goes on; false: it is an error (default)

   Notes: for programs that have more to do than to print, such as a training whose log's disk is
   full. One whose output may be a pipe that closes ignores the signal SIGPIPE, too.

   See also: RengaPrintFlush(), RengaPrintGetLost()
@*/
void RengaPrintSetOptional(bool optional)
{
  output.is_optional = optional;
  if (!optional) output.lost = false;
}

/*@
   RengaPrintGetLost - did standard output lose text since RengaPrintSetOptional?

   Output:
   . lost - whether it did

   Errors: none beyond a bad argument.

   See also: RengaPrintSetOptional()
@*/
RengaErrorCode RengaPrintGetLost(bool *lost)
{
  RengaCheck(lost, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "RengaPrintGetLost: lost is a null pointer");
  *lost = output.lost;
  return RENGA_SUCCESS;
}

/*@
   RengaPrintFlush - hand over to the system what was printed to standard output

   Errors: RENGA_ERR_FILE_WRITE where standard output does not take it, unless
   RengaPrintSetOptional said that it may be lost.

   See also: RengaPrintf(), RengaPrintSetOptional()
@*/
RengaErrorCode RengaPrintFlush(void)
{
  const int before = ferror(stdout) ? errno : 0;
  errno = before;
  const bool failed = fflush(stdout) != 0 || ferror(stdout);
  const char *reason = errno ? strerror(errno) : "an earlier line failed";
  if (!failed) return RENGA_SUCCESS;
  clearerr(stdout);
  RengaCheck(output.is_optional, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "standard output cannot be written: %s", reason);
  if (!output.lost)
    RengaWarning(MPI_COMM_SELF,
                 "standard output cannot be written: %s; what should stand there is lost, and the "
                 "run goes on",
                 reason);
  output.lost = true;
  return RENGA_SUCCESS;
}

/*@
   RengaPrintf - write to standard output of one rank

   Input:
   . comm - its rank 0 writes
   . format - a format, as of printf

   Errors: those of RengaPrintFlush; RENGA_ERR_LIBRARY from MPI.

   See also: RengaViewerPrintf(), RengaPrintSetOptional()
@*/
RengaErrorCode RengaPrintf(MPI_Comm comm, const char *format, ...)
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank != 0) return RENGA_SUCCESS;
  va_list arguments;
  va_start(arguments, format);
  (void)RengaFilePrintList(stdout, format, arguments); /* the next call sees an error of it */
  va_end(arguments);
  RengaCall(RengaPrintFlush());
  return RENGA_SUCCESS;
}

static void FormatScaled(double value, double base, int units, const char *const names[],
                         size_t size, char text[])
{
  int unit = 0;
  while (fabs(value) >= base && unit + 1 < units) {
    value /= base;
    unit++;
  }
  int places = unit == 0 ? 0 : fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
  RengaTextFormat(text, size, "%.*f%s%s", places, value, names[unit][0] ? " " : "", names[unit]);
}

/*@
   RengaFormatBytes - a size for people: "1.50 GiB"

   Input:
   . bytes - bytes, at least 0
   . size - room in text; 16 is enough

   Output:
   . text - the words

   See also: RengaFormatCount(), RengaFormatSeconds(), RengaParseBytes()
@*/
void RengaFormatBytes(double bytes, size_t size, char text[])
{
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  FormatScaled(bytes, 1024, 6, names, size, text);
}

/*@
   RengaFormatCount - a count for people: "124 M"

   Input:
   . count - any number
   . size - room in text; 16 is enough

   Output:
   . text - the words

   See also: RengaFormatBytes(), RengaFormatSeconds()
@*/
void RengaFormatCount(double count, size_t size, char text[])
{
  static const char *const names[] = {"", "k", "M", "G", "T", "P"};
  FormatScaled(count, 1000, 6, names, size, text);
}

/*@
   RengaFormatSeconds - a time for people: "34.8 ms"

   Input:
   . seconds - seconds, any number
   . size - room in text; 16 is enough

   Output:
   . text - the words

   See also: RengaFormatBytes(), RengaFormatCount()
@*/
void RengaFormatSeconds(double seconds, size_t size, char text[])
{
  static const char *const names[] = {"ns", "us", "ms", "s"};
  double value = seconds * 1e9;
  int unit = seconds == 0 ? 3 : 0;
  while (fabs(value) >= 999.5 && unit < 3) {
    value /= 1e3;
    unit++;
  }
  const int places = value == 0 ? 0 : fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
  RengaTextFormat(text, size, "%.*f %s", places, value, names[unit]);
}
