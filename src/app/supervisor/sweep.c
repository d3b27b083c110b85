/* The processes of this run on all hosts, whatever became of the launcher: they have its variable
   in their environment. Found by /proc and a shell, so that a host needs nothing else. */
#include "supervisor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Zombies have no environment any more. The part of MPICH's launcher that runs the ranks of another
   host got its environment there: it is known as their parent. No single quotes: remote shells
   get the text between two of them. */
static const char sweep[] =
    "n=0; while [ $n -lt 50 ]; do n=$((n+1)); left=; "
    "for f in $(grep -lsa RENGA_RUN=%s /proc/[0-9]*/environ); do "
    "d=${f%%/environ}; p=$(sed -n \"s/^PPid:[^0-9]*//p\" $d/status 2>/dev/null); "
    "case $(cat /proc/$p/comm 2>/dev/null) in hydra_pmi_proxy) kill -9 $p 2>/dev/null;; esac; "
    "kill -9 ${d#/proc/} 2>/dev/null && left=1; done; "
    "[ -n \"$left\" ] || exit 0; sleep 0.1; done; exit 1";

static const char look[] =
    "for f in $(grep -lsa RENGA_RUN=%s /proc/[0-9]*/environ); do d=${f%%/environ}; "
    "r=$(tr \"\\000\" \"\\n\" 2>/dev/null <$f | sed -n -e \"s/^PMI_RANK=//p\" -e "
    "\"s/^PMIX_RANK=//p\" -e \"s/^OMPI_COMM_WORLD_RANK=//p\" -e \"s/^SLURM_PROCID=//p\" | "
    "head -n 1); s=$(sed -n \"s/^State:[^A-Za-z]*\\([A-Za-z]\\).*/\\1/p\" $d/status 2>/dev/null); "
    "[ -z \"$r\" ] || echo \"rank $r ${d#/proc/} $s\"; done; :";

static const char leave[] =
    "for f in $(grep -lsa RENGA_RUN=%s /proc/[0-9]*/environ); do "
    "d=${f%%/environ}; case $(cat $d/comm 2>/dev/null) in srun*) continue;; esac; "
    "grep -qsa SLURM_PROCID= $f && kill -TERM ${d#/proc/}; done; :";

static bool AskAll(const SupervisorHosts *hosts, const char *text, double seconds,
                   SupervisorQuestion *question)
{
  static const struct timespec moment = {0, 10000000};
  if (!SupervisorAskBegin(hosts, NULL, text, seconds, question)) return false;
  while (!SupervisorAskIsOver(question)) nanosleep(&moment, NULL);
  return true;
}

/* A host that was lost begins without processes of this run. */
void SupervisorHostsProbe(SupervisorHosts *hosts, const SupervisorOptions *options,
                          const char *token)
{
  char text[2 * SUPERVISOR_TEXT];
  SupervisorQuestion question;
  if (!hosts->listed) return;
  snprintf(text, sizeof text, sweep, token);
  if (!AskAll(hosts, text, options->probe, &question)) return;
  for (int h = 0; h < hosts->count; h++) {
    const bool answers = question.answer[h].answered;
    if (!answers)
      SupervisorHostLose(hosts, h, options);
    else if (hosts->host[h].lost && SupervisorSeconds() >= hosts->host[h].ask_at)
      SupervisorHostTakeBack(hosts, h);
  }
  SupervisorAskEnd(&question);
}

/* Also hosts that are lost: they may answer again. Where one in use does not, processes may be left
   there, so that nothing is started there before it is swept. */
void SupervisorSweep(SupervisorHosts *hosts, const SupervisorOptions *options, const char *token)
{
  char text[2 * SUPERVISOR_TEXT];
  SupervisorQuestion question;
  snprintf(text, sizeof text, sweep, token);
  if (!AskAll(hosts, text, options->probe, &question)) return;
  for (int h = 0; h < hosts->count; h++) {
    if (question.answer[h].answered || hosts->host[h].lost) continue;
    if (hosts->listed)
      SupervisorHostLose(hosts, h, options);
    else
      SupervisorSay("left", "",
                    "processes of the run stay and cannot be ended: grep -lsa "
                    "RENGA_RUN=%s /proc/[0-9]*/environ names them",
                    token);
  }
  SupervisorAskEnd(&question);
}

/* A line "rank 1 812 T": notes that the rank is there, and takes the first that is stopped. */
static void TakeLookLine(const SupervisorHosts *hosts, const char *line, int ranks, bool there[],
                         SupervisorStopped *stopped)
{
  long long process;
  int rank;
  char state;
  if (sscanf(line, "rank %d %lld %c", &rank, &process, &state) != 3 || rank < 0 || rank >= ranks)
    return;
  there[rank] = true;
  if ((state != 'T' && state != 't') || (stopped->rank >= 0 && stopped->rank <= rank)) return;
  stopped->rank = rank;
  stopped->host = SupervisorHostOfRank(hosts, rank);
  snprintf(stopped->text, sizeof stopped->text, "rank %d (process %lld%s%s) is stopped", rank,
           process, stopped->host >= 0 && hosts->listed ? " on " : "",
           stopped->host >= 0 ? hosts->host[stopped->host].name : "");
}

static void TakeLook(const SupervisorHosts *hosts, char *text, int ranks, bool there[],
                     SupervisorStopped *stopped)
{
  char *next = NULL;
  for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next))
    TakeLookLine(hosts, line, ranks, there, stopped);
}

/* A host that does not answer, else a rank that is not there, where none is stopped. */
static void FindMissingRank(const SupervisorHosts *hosts, const SupervisorQuestion *question,
                            int ranks, const bool there[], SupervisorStopped *stopped)
{
  for (int h = 0; h < hosts->count && hosts->listed; h++) {
    if (!hosts->host[h].used || question->answer[h].answered) continue;
    stopped->host = h;
    snprintf(stopped->text, sizeof stopped->text, "host %s does not answer", hosts->host[h].name);
    return;
  }
  for (int r = 0; r < ranks && stopped->rank < 0; r++) {
    if (there[r]) continue;
    stopped->rank = r;
    stopped->host = SupervisorHostOfRank(hosts, r);
    snprintf(stopped->text, sizeof stopped->text, "rank %d%s%s has no process any more", r,
             stopped->host >= 0 && hosts->listed ? " on " : "",
             stopped->host >= 0 ? hosts->host[stopped->host].name : "");
  }
}

SupervisorStopped SupervisorFindStopped(const SupervisorHosts *hosts,
                                        const SupervisorOptions *options, const char *token)
{
  SupervisorStopped stopped = {.rank = -1, .host = -1};
  char text[2 * SUPERVISOR_TEXT];
  SupervisorQuestion question;
  int ranks = 0;
  for (int h = 0; h < hosts->count; h++) ranks += hosts->host[h].used;
  bool *there = calloc((size_t)ranks + 1, sizeof *there);
  snprintf(text, sizeof text, look, token);
  if (!there || !AskAll(hosts, text, options->probe, &question)) {
    free(there);
    return stopped;
  }
  for (int h = 0; h < hosts->count; h++)
    TakeLook(hosts, question.answer[h].text, ranks, there, &stopped);
  if (stopped.rank < 0) FindMissingRank(hosts, &question, ranks, there, &stopped);
  SupervisorAskEnd(&question);
  free(there);
  return stopped;
}

void SupervisorAskRanks(const SupervisorHosts *hosts, const SupervisorOptions *options,
                        const char *token)
{
  char text[2 * SUPERVISOR_TEXT];
  SupervisorQuestion question;
  snprintf(text, sizeof text, leave, token);
  if (AskAll(hosts, text, options->probe, &question)) SupervisorAskEnd(&question);
}
