/* One start: it is launched, heard and looked at until it ends or has to be ended, and nothing of
   it stays on any host. */
#include "../exitcode.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include "supervisor.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096 };
static const double PAUSE = 0.1, WARNING_EVERY = 1, DRAIN = 1, KILLED = 3, BEFORE_STEPS = 4;

/* What the launcher writes, line by line. */
typedef struct {
  size_t used;
  char line[LINE];
} HeardLine;

typedef struct {
  Supervisor *supervisor; /* lent */
  SupervisorLaunched launched;
  HeardLine heard[2];
  int asked_before; /* signals, when it began */
  SupervisorAsker asker;
  double asked_at, warned_at;        /* warned_at: when the file of -warning was looked at */
  SupervisorQuestion question;       /* to hosts that were lost */
  bool runs, ended, stalled, forced; /* runs: it made a step; forced: ended by renga run */
  bool deaf;                         /* it was said that rows of the ranks are lost */
  double told_at;      /* when the launcher said that a rank ended badly; 0: it did not */
  double forced_after; /* seconds of silence, or since it was asked to leave */
  int status;
  SupervisorStopped stopped;
} RunningStart;

/* On to the same file of renga run; a whole line is also heard. */
static void TakeOutput(RunningStart *start, int i, const char *text, size_t length)
{
  HeardLine *heard = &start->heard[i];
  for (size_t done = 0; done < length;) {
    const ssize_t wrote = write(i + 1, text + done, length - done);
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) break; /* nobody reads it any more */
    if (wrote > 0) done += (size_t)wrote;
  }
  for (size_t c = 0; c < length; c++) {
    if (text[c] != '\n') {
      if (heard->used + 1 < LINE) heard->line[heard->used++] = text[c];
      continue;
    }
    heard->line[heard->used] = '\0';
    SupervisorSignsHear(&start->supervisor->signs, heard->line);
    heard->used = 0;
  }
}

static void ReadLauncher(RunningStart *start)
{
  char text[LINE];
  for (int i = 0; i < 2; i++) {
    int *file = &start->launched.output[i];
    ssize_t got;
    while (*file >= 0 && (got = read(*file, text, sizeof text)) != 0) {
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) break;
      TakeOutput(start, i, text, (size_t)got);
    }
    if (*file >= 0 && got == 0) {
      close(*file);
      *file = -1;
    }
  }
}

/* The launcher, and what became a child of renga run as its own parent ended. */
static void ReapChildren(RunningStart *start)
{
  int status;
  if (start->ended || waitpid(start->launched.process, &status, WNOHANG) != start->launched.process)
    return;
  start->ended = true;
  start->status = status;
}

static void AskStart(RunningStart *start, SupervisorAsker asker)
{
  const Supervisor *supervisor = start->supervisor;
  if (start->asker == SUPERVISOR_NOBODY) start->asked_at = SupervisorSeconds();
  if (start->asker != SUPERVISOR_BY_SIGNAL) start->asker = asker;
  if (supervisor->launcher.kind == SUPERVISOR_SRUN)
    SupervisorAskRanks(&supervisor->hosts, supervisor->options, supervisor->token);
  else
    kill(start->launched.process, SIGTERM);
}

static void EndLauncher(RunningStart *start)
{
  start->forced = true;
  kill(-start->launched.process, SIGKILL);
  kill(start->launched.process, SIGKILL);
}

static void LookAtSignals(RunningStart *start)
{
  const int asked = SupervisorAsked() - start->asked_before;
  if (asked > 0 && start->asker != SUPERVISOR_BY_SIGNAL) {
    SupervisorSay(
        "asked", "",
        "signal %d (%s) asks the run to leave: it has %g s for a last checkpoint (-leave), and "
        "another signal ends it at once",
        SupervisorAskedBy(), strsignal(SupervisorAskedBy()), start->supervisor->options->leave);
    AskStart(start, SUPERVISOR_BY_SIGNAL);
    start->asked_before = SupervisorAsked() - 1;
  } else if (asked > 1 && !start->forced) {
    start->forced_after = SupervisorSeconds() - start->asked_at;
    EndLauncher(start);
  }
}

static void LookAtWarning(RunningStart *start, double now)
{
  Supervisor *supervisor = start->supervisor;
  bool all = false;
  if (!supervisor->options->warning || now - start->warned_at < WARNING_EVERY) return;
  start->warned_at = now;
  const bool some = SupervisorHostsWarn(&supervisor->hosts, supervisor->options->warning, &all);
  if (!some || start->asker != SUPERVISOR_NOBODY) return;
  if (all)
    SupervisorSay("warning", "",
                  "the file %s says that this run has to go: it leaves with a "
                  "checkpoint",
                  supervisor->options->warning);
  AskStart(start, all ? SUPERVISOR_BY_SIGNAL : SUPERVISOR_BY_WARNING);
}

static bool IsAskedForReturn(const SupervisorHost *host, double now)
{
  return host->lost && !host->warned && now >= host->ask_at;
}

/* Would a host that is back, or whose warning is gone, make the run larger? */
static bool WouldGrow(const Supervisor *supervisor, const bool back[])
{
  const int64_t wanted = supervisor->options->ranks;
  int64_t now = 0, then = 0;
  for (int h = 0; h < supervisor->hosts.count; h++) {
    const SupervisorHost *host = &supervisor->hosts.host[h];
    now += host->used;
    if (back[h] || SupervisorHostIsUsable(host)) then += host->ranks;
  }
  if (wanted > 0 && then > wanted) then = wanted;
  return then > now;
}

static void TakeReturns(RunningStart *start, double now)
{
  Supervisor *supervisor = start->supervisor;
  SupervisorHosts *hosts = &supervisor->hosts;
  bool *back = calloc((size_t)hosts->count, sizeof *back);
  for (int h = 0; h < hosts->count && back; h++) {
    if (!IsAskedForReturn(&hosts->host[h], now)) continue;
    back[h] = start->question.answer[h].answered;
    if (!back[h]) hosts->host[h].ask_at = now + supervisor->options->back;
  }
  if (back && WouldGrow(supervisor, back) && start->asker == SUPERVISOR_NOBODY) {
    SupervisorSay("asked", "",
                  "a host that was left out answers again: the run leaves with a "
                  "checkpoint and goes on with it");
    AskStart(start, SUPERVISOR_BY_RETURN);
  }
  free(back);
}

/* Hosts that were lost are asked beside the run, which does not wait for them. */
static void LookForReturns(RunningStart *start, double now)
{
  SupervisorHosts *hosts = &start->supervisor->hosts;
  bool any = false;
  if (!hosts->listed || start->supervisor->options->back == 0) return;
  if (start->question.answer) {
    if (!SupervisorAskIsOver(&start->question)) return;
    TakeReturns(start, now);
    SupervisorAskEnd(&start->question);
    return;
  }
  bool *skip = calloc((size_t)hosts->count, sizeof *skip);
  for (int h = 0; h < hosts->count && skip; h++) {
    skip[h] = !IsAskedForReturn(&hosts->host[h], now);
    any = any || !skip[h];
  }
  if (any)
    SupervisorAskBegin(hosts, skip, ":", start->supervisor->options->probe, &start->question);
  free(skip);
}

/* Silence says nothing of the run where its rows have no place. */
static bool IsDeaf(RunningStart *start, double now)
{
  SupervisorSigns *signs = &start->supervisor->signs;
  if (SupervisorSignsTakeRows(signs)) return false;
  if (!start->deaf)
    SupervisorSay("deaf", "",
                  "%s takes no more rows: %s: nothing is heard of the run, and -stall waits",
                  signs->file, strerror(errno));
  start->deaf = true;
  signs->moved = now;
  return true;
}

/* Without any row for too long; who is stopped is looked for while the ranks are there. */
static void LookForStall(RunningStart *start, double now)
{
  Supervisor *supervisor = start->supervisor;
  const SupervisorSigns *signs = &supervisor->signs;
  double most = supervisor->options->stall;
  if (most > 0 && 10 * signs->longest > most) most = 10 * signs->longest;
  if (signs->step < 0) most *= BEFORE_STEPS; /* plans and measurements give no sign */
  const bool stalls = most > 0 && now - signs->moved > most && !IsDeaf(start, now);
  const bool stays =
      start->asker != SUPERVISOR_NOBODY && now - start->asked_at > supervisor->options->leave;
  if ((!stalls && !stays) || start->forced) return;
  start->stalled = stalls;
  start->forced_after = now - (stalls ? signs->moved : start->asked_at);
  start->stopped =
      SupervisorFindStopped(&supervisor->hosts, supervisor->options, supervisor->token);
  EndLauncher(start);
}

/* srun says that a rank was killed, and then waits for the others, which cannot go on, until the
   KillWait of Slurm is over. */
static void LookForKilled(RunningStart *start, double now)
{
  if (!start->supervisor->signs.told || start->forced) return;
  if (start->told_at == 0) start->told_at = now;
  if (now - start->told_at > KILLED) EndLauncher(start);
}

/* Descendants that have lost their parents are now children of renga run. */
static void EndOrphans(void)
{
  static const struct timespec moment = {0, 10000000};
  char name[64];
  int orphan;
  snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
  for (int looks = 0; looks < 200; looks++) {
    FILE *file = RengaFileOpen_Private(name, "r");
    while (file && fscanf(file, "%d", &orphan) == 1) kill(orphan, SIGKILL);
    if (file) fclose(file);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    if (waitpid(-1, NULL, WNOHANG) < 0) return; /* there is none */
    nanosleep(&moment, NULL);
  }
}

/* The launcher may have ended while some of what it forwards is still in its pipes. */
static void Settle(RunningStart *start)
{
  Supervisor *supervisor = start->supervisor;
  if (start->question.answer) SupervisorAskEnd(&start->question);
  if (!start->forced && start->status == 0) { /* ranks that say goodbye need a moment */
    const double until = SupervisorSeconds() + DRAIN;
    while ((start->launched.output[0] >= 0 || start->launched.output[1] >= 0) &&
           SupervisorSeconds() < until) {
      ReadLauncher(start);
      SupervisorPause(&supervisor->signals, 0.01, start->launched.output);
    }
  }
  ReadLauncher(start);
  SupervisorSweep(&supervisor->hosts, supervisor->options, supervisor->token);
  if (supervisor->alone) EndOrphans();
  ReadLauncher(start);
  for (int i = 0; i < 2; i++)
    if (start->launched.output[i] >= 0) close(start->launched.output[i]);
  SupervisorSignsLook(&supervisor->signs);
}

/* How long a start takes to its first step is what a failure costs. */
static void TellFirstStep(RunningStart *start)
{
  const Supervisor *supervisor = start->supervisor;
  char fields[96];
  if (start->runs || supervisor->signs.step < 0) return;
  start->runs = true;
  snprintf(fields, sizeof fields, "\"start\":%d,\"step\":%lld", supervisor->start,
           (long long)supervisor->signs.step);
  SupervisorSay("running", fields, "%s", "");
}

static void Accompany(RunningStart *start)
{
  Supervisor *supervisor = start->supervisor;
  while (!start->ended) {
    SupervisorPause(&supervisor->signals, PAUSE, start->launched.output);
    ReadLauncher(start);
    SupervisorSignsLook(&supervisor->signs);
    TellFirstStep(start);
    ReapChildren(start);
    if (start->ended) break;
    const double now = SupervisorSeconds();
    LookAtSignals(start);
    LookAtWarning(start, now);
    LookForReturns(start, now);
    LookForStall(start, now);
    LookForKilled(start, now);
  }
}

static bool IsLeaving(int code)
{
  return code == APP_EXIT_TIME_IS_UP || code == APP_EXIT_ASKED_TO_LEAVE;
}

/* The code of the program; what the ranks said of their end tells more than a launcher, which adds
   up codes or forgets them. */
static void JudgeStart(const RunningStart *start, SupervisorEnd *end)
{
  const SupervisorSigns *signs = &start->supervisor->signs;
  const int code =
      WIFEXITED(start->status) ? WEXITSTATUS(start->status) : 128 + WTERMSIG(start->status);
  end->code = signs->ended && signs->end_code ? signs->end_code : code;
  const bool silent = !signs->started && start->asker == SUPERVISOR_NOBODY; /* no ranks of Renga */
  const bool whole = !start->forced && (signs->ended || silent || start->deaf);
  end->outcome = SUPERVISOR_FAILED;
  if (whole && end->code == 0)
    end->outcome = SUPERVISOR_DONE;
  else if (whole && IsLeaving(end->code))
    end->outcome = SUPERVISOR_LEFT;
  else if (signs->error_code)
    end->code = signs->error_code;
}

/* "no sign of rank 3": of whoever waited for it. */
static int RankWithoutSign(const char *text)
{
  const char *at = strstr(text, "no sign of rank ");
  return at && at[16] >= '0' && at[16] <= '9' ? (int)strtol(at + 16, NULL, 10) : -1;
}

static void DescribeTold(const Supervisor *supervisor, SupervisorEnd *end)
{
  const SupervisorSigns *signs = &supervisor->signs;
  char rank[64] = "a process", how[64] = "ended badly";
  if (signs->told_rank >= 0) snprintf(rank, sizeof rank, "rank %d", signs->told_rank);
  if (signs->told_signal > 0)
    snprintf(how, sizeof how, "was ended by signal %d (%s)", signs->told_signal,
             strsignal(signs->told_signal));
  else if (signs->told_code > 0)
    snprintf(how, sizeof how, "ended with code %d", signs->told_code);
  end->rank = signs->told_rank;
  end->host = signs->told_rank >= 0 ? SupervisorHostOfRank(&supervisor->hosts, signs->told_rank)
                                    : SupervisorHostNamed(&supervisor->hosts, signs->told_host);
  if (signs->told_process)
    snprintf(end->reason, sizeof end->reason, "%s (process %lld on %s) %s", rank,
             signs->told_process, signs->told_host, how);
  else
    snprintf(end->reason, sizeof end->reason, "%s on %s %s", rank, signs->told_host, how);
}

/* One that ranks were on, and that was found lost as they were to be ended. */
static int FindLostHost(const SupervisorHosts *hosts)
{
  for (int h = 0; h < hosts->count; h++)
    if (hosts->host[h].used > 0 && hosts->host[h].lost) return h;
  return -1;
}

/* Who is to blame, and a clause that says what happened: of what is known the nearest to the
   cause. */
static void Describe(const RunningStart *start, SupervisorEnd *end)
{
  const Supervisor *supervisor = start->supervisor;
  const SupervisorSigns *signs = &supervisor->signs;
  char *reason = end->reason;
  const size_t size = sizeof end->reason;
  if (start->forced && !signs->told) {
    end->rank = start->stopped.rank;
    end->host = start->stopped.host;
    RengaTextFormat(reason, size,
                    start->stalled ? "nothing was heard of it for %.3g s (-stall)%s%s"
                                   : "it did not leave within %.3g s (-leave)%s%s",
                    start->forced_after, *start->stopped.text ? "; " : "", start->stopped.text);
  } else if (signs->told && signs->told_signal > 0 &&
             (!signs->error_code || signs->error_code == RENGA_ERR_LIBRARY)) {
    DescribeTold(supervisor, end);
  } else if (signs->error_code) {
    const int rank = RankWithoutSign(signs->error);
    end->rank = rank >= 0 ? rank : signs->error_rank;
    end->host = SupervisorHostOfRank(&supervisor->hosts, end->rank);
    snprintf(reason, size, "rank %d said: %s", signs->error_rank, signs->error);
  } else if (signs->told) {
    DescribeTold(supervisor, end);
  } else if ((end->host = FindLostHost(&supervisor->hosts)) >= 0) {
    snprintf(reason, size, "host %s does not answer", supervisor->hosts.host[end->host].name);
  } else if (WIFSIGNALED(start->status)) {
    snprintf(reason, size, "the launcher, %s, was ended by signal %d (%s)",
             supervisor->launcher.word[0], WTERMSIG(start->status),
             strsignal(WTERMSIG(start->status)));
  } else {
    snprintf(reason, size, "%s ended with code %d%s", supervisor->launcher.word[0],
             WEXITSTATUS(start->status),
             signs->started && !signs->ended ? ", and its ranks did not say that they are done"
                                             : "");
  }
}

RengaErrorCode SupervisorRunStart(Supervisor *supervisor, int ranks, SupervisorEnd *end)
{
  RunningStart *start = calloc(1, sizeof *start);
  RengaCheck(start, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes", sizeof *start);
  start->supervisor = supervisor;
  start->asked_before = SupervisorAsked();
  start->stopped = (SupervisorStopped){.rank = -1, .host = -1};
  SupervisorSignsBegin(&supervisor->signs);
  const RengaErrorCode code = SupervisorLaunch(supervisor, ranks, &start->launched);
  if (!code) {
    Accompany(start);
    Settle(start);
    end->asked = start->asker;
    JudgeStart(start, end);
    if (end->outcome == SUPERVISOR_FAILED) Describe(start, end);
  }
  free(start);
  RengaCall(code);
  return RENGA_SUCCESS;
}
