/* Text for people: printing on one rank, sizes and counts with units. */
#include "sys.h"
#include "renga/private/number.h"
#include <math.h>
#include <stdarg.h>

/*@
   RengaPrintf - write to standard output of one rank

   Not collective

   Input:
   . comm - its rank 0 writes
   . format - as printf

   Errors: RENGA_ERR_FILE_WRITE where standard output does not take it; RENGA_ERR_LIBRARY from
   MPI.

   See also: RengaViewerPrintf()
@*/
RengaErrorCode RengaPrintf(MPI_Comm comm, const char *format, ...)
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank != 0) return RENGA_SUCCESS;
  va_list arguments;
  va_start(arguments, format);
  int written = RengaFilePrintList(stdout, format, arguments);
  va_end(arguments);
  RengaCheck(written >= 0 && fflush(stdout) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "standard output cannot be written");
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

   Not collective

   Input:
   . bytes - the size
   . size - room in text; 16 is enough

   Output:
   . text - the words

   Errors: none.

   See also: RengaFormatCount(), RengaFormatSeconds(), RengaParseBytes()
@*/
void RengaFormatBytes(double bytes, size_t size, char text[])
{
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  FormatScaled(bytes, 1024, 6, names, size, text);
}

/*@
   RengaFormatCount - a count for people: "124 M"

   Not collective

   Input:
   . count - the number
   . size - room in text; 16 is enough

   Output:
   . text - the words

   Errors: none.

   See also: RengaFormatBytes(), RengaFormatSeconds()
@*/
void RengaFormatCount(double count, size_t size, char text[])
{
  static const char *const names[] = {"", "k", "M", "G", "T", "P"};
  FormatScaled(count, 1000, 6, names, size, text);
}

/*@
   RengaFormatSeconds - a time for people: "34.8 ms"

   Not collective

   Input:
   . seconds - the time
   . size - room in text; 16 is enough

   Output:
   . text - the words

   Errors: none.

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
