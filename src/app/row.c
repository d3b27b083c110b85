/* What the places of -monitor have in common. */
#include "monitor.h"

double AppRowRate(const RengaTrainerRow *row)
{
  return row->seconds > 0 ? (double)row->samples / row->seconds : 0;
}

RengaErrorCode AppSayMissing(const char *kind, const char *where, int64_t missing, const char *what,
                             bool goes_on)
{
  if (missing == 0) return RENGA_SUCCESS;
  if (goes_on)
    RengaWarning(MPI_COMM_SELF, "-monitor %s:%s: %lld %s of this run are missing", kind, where,
                 (long long)missing, what);
  RengaCheck(goes_on, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor %s:%s: %lld %s of this run, which is done, are missing", kind, where,
             (long long)missing, what);
  return RENGA_SUCCESS;
}
