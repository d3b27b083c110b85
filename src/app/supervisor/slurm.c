/* What renga run asks of Slurm: when the job ends, and to put it into the queue again. */
#include "supervisor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Older versions leave it out of the environment. */
void SupervisorTellEndOfJob(void)
{
  const char *job = getenv("SLURM_JOB_ID"), *word[] = {"squeue", "-h", "-j", job, "-o", "%e", NULL};
  char text[SUPERVISOR_TEXT], seconds[32];
  struct tm end = {.tm_isdst = -1};
  if (!job || getenv("SLURM_JOB_END_TIME")) return;
  SupervisorRead(word, 30, sizeof text, text);
  if (sscanf(text, "%d-%d-%dT%d:%d:%d", &end.tm_year, &end.tm_mon, &end.tm_mday, &end.tm_hour,
             &end.tm_min, &end.tm_sec) != 6)
    return;
  end.tm_year -= 1900;
  end.tm_mon--;
  snprintf(seconds, sizeof seconds, "%lld", (long long)mktime(&end));
  setenv("SLURM_JOB_END_TIME", seconds, 1);
}

/* "RUNNING None", "COMPLETING TimeLimit"; "": it is not known. */
static void ReadStateOfJob(const char *job, char text[SUPERVISOR_TEXT])
{
  const char *word[] = {"squeue", "-h", "-j", job, "-t", "all", "-o", "%T %r", NULL};
  SupervisorRead(word, 30, SUPERVISOR_TEXT, text);
}

/* By whoever cancelled it, who does not want it back; over its time limit it may come back. */
static bool IsCancelled(const char *job)
{
  char text[SUPERVISOR_TEXT];
  ReadStateOfJob(job, text);
  return (strncmp(text, "COMPLETING", 10) == 0 || strncmp(text, "CANCELLED", 9) == 0) &&
         !strstr(text, "TimeLimit");
}

/* Slurm ends what runs in the job, which may be scontrol before it has said that all is well. */
static bool RequeueJob(const char *job)
{
  const char *word[] = {"scontrol", "requeue", job, NULL};
  char text[SUPERVISOR_TEXT];
  if (SupervisorRead(word, 30, sizeof text, text)) return true;
  ReadStateOfJob(job, text);
  return *text && strncmp(text, "RUNNING", 7) != 0;
}

void SupervisorRequeue(const Supervisor *supervisor, int code)
{
  const char *job = getenv("SLURM_JOB_ID");
  char fields[64];
  if (!job) {
    SupervisorSay("requeue", "",
                  "-requeue: this is no Slurm job (SLURM_JOB_ID is not set): submit "
                  "it again by hand");
    return;
  }
  if (supervisor->best <= supervisor->first) {
    SupervisorSay("requeue", "",
                  "job %s is not put into the queue again, since it made no new "
                  "step: look at its output, or give it more time",
                  job);
    return;
  }
  if (IsCancelled(job)) {
    SupervisorSay(
        "requeue", "",
        "job %s is not put into the queue again, since Slurm is asked to end it (scancel)", job);
    return;
  }
  if (!RequeueJob(job)) {
    SupervisorSay("requeue", "", "scontrol requeue %s failed: submit the job again by hand", job);
    return;
  }
  snprintf(fields, sizeof fields, "\"code\":%d", code);
  SupervisorSay("requeue", fields, "job %s is put into the queue again and goes on after step %lld",
                job, (long long)supervisor->checkpoint);
}
