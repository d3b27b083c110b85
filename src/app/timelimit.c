/* How long the program may run: -time_limit, or what Slurm says of its job. */
#include "app.h"
#include "renga/private/number.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "90", "1:30", "02:00:00", "1-02:00:00": seconds, as Slurm writes times; but a number alone is
   seconds. */
static bool ParseTime(const char *text, double *seconds)
{
  const char *dash = strchr(text, '-');
  char *end;
  double days = 0, sum = 0;
  int parts = 0;
  if (dash) {
    days = RengaReadReal(text, &end);
    if (end != dash || days < 0) return false;
    text = dash + 1;
  }
  for (;;) {
    double part = RengaReadReal(text, &end);
    if (end == text || part < 0 || part > 1e9 || strspn(text, "0123456789.") == 0) return false;
    sum = 60 * sum + part;
    parts++;
    if (*end == '\0') break;
    if (*end != ':' || parts == 3) return false;
    text = end + 1;
  }
  if (dash && parts != 3) return false;
  *seconds = 86400 * days + sum;
  return true;
}

/* Seconds that Slurm leaves; 0: it says nothing, which a job should know. */
static double SlurmSeconds(MPI_Comm printer, bool asked)
{
  const char *text = getenv("SLURM_JOB_END_TIME");
  const double left = text ? RengaReadReal(text, NULL) - (double)time(NULL) : 0;
  if (left > 0 && left < 1e9) return left;
  if (asked || getenv("SLURM_JOB_ID"))
    RengaWarning(printer,
                 "-time_limit auto: no end of a Slurm job is known (SLURM_JOB_END_TIME is %s), so "
                 "there is no limit: -time_limit D-HH:MM:SS sets one",
                 text ? text : "not set");
  return 0;
}

/* A limit is of the whole run: what its earlier starts took, under renga run, is gone. */
static double SecondsOfEarlierStarts(void)
{
  const char *text = getenv("RENGA_RUN_SECONDS");
  const double seconds = text ? RengaReadReal(text, NULL) : 0;
  return seconds > 0 ? seconds : 0;
}

/* Collective: rank 0's answer. seconds: from now, 0 where there is no limit. */
RengaErrorCode AppFindTimeLimit(RengaComm comm, double *seconds)
{
  const char *text;
  bool given;
  *seconds = 0;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("time_limit", &text, &given));
  if (strcmp(text, "auto") == 0)
    *seconds = SlurmSeconds(printer, given);
  else
    RengaCheck(ParseTime(text, seconds), printer, RENGA_ERR_OPTION,
               "-time_limit %s: write seconds, MM:SS, HH:MM:SS or D-HH:MM:SS; 0: none; auto: what "
               "Slurm leaves",
               text);
  if (strcmp(text, "auto") != 0 && *seconds > 0) {
    *seconds -= SecondsOfEarlierStarts();
    if (*seconds < 1) *seconds = 1; /* it leaves after a step */
  }
  RengaCall(RengaCommBroadcast(comm, seconds, sizeof *seconds, 0, "the time limit"));
  return RENGA_SUCCESS;
}
