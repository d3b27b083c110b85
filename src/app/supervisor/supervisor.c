/* renga run: a training is started, and started again from its newest checkpoint where it crashes,
   hangs, or hosts come and go, until it is done, is asked to leave, or comes no further. */
#include "supervisor.h"
#include "../app.h"
#include "../exitcode.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STRIKES = 2, LONGEST_PAUSE = 30, WAIT_FOR_HOSTS = 5 };
static const int nothing_to_read[2] = {-1, -1};

/* Of errors that a start finds by itself: another one would find them, too. */
static bool IsForGood(int code)
{
  static const int codes[] = {RENGA_ERR_SUPPORT, RENGA_ERR_ORDER,    RENGA_ERR_ARGUMENT,
                              RENGA_ERR_OPTION,  RENGA_ERR_SHAPE,    RENGA_ERR_GRAPH,
                              RENGA_ERR_PLAN,    RENGA_ERR_INTERNAL, RENGA_ERR_FILE_FORMAT};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (codes[i] == code) return true;
  return false;
}

/* Like no other run's: it is how its processes are known. */
static RengaErrorCode MakeRunToken(char token[24])
{
  unsigned char bytes[8];
  RengaCheck(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, MPI_COMM_SELF,
             RENGA_ERR_LIBRARY, "renga run: no random number: %s", strerror(errno));
  for (int i = 0; i < (int)sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return RENGA_SUCCESS;
}

static void PauseFor(const Supervisor *supervisor, double seconds)
{
  const double until = SupervisorSeconds() + seconds;
  const int asked = SupervisorAsked();
  for (double left = seconds; left > 0 && SupervisorAsked() == asked;
       left = until - SupervisorSeconds())
    SupervisorPause(&supervisor->signals, left, nothing_to_read);
}

/* Ranks for the next start; 0: it was asked to leave while it waited for hosts. */
static int FindRanks(Supervisor *supervisor)
{
  const SupervisorOptions *options = supervisor->options;
  bool said = false, all;
  for (;;) {
    if (SupervisorAsked()) return 0;
    SupervisorHostsProbe(&supervisor->hosts, options, supervisor->token);
    SupervisorHostsWarn(&supervisor->hosts, options->warning, &all);
    const int ranks = SupervisorHostsDeal(&supervisor->hosts, options);
    if (all) return 0;
    const int64_t least =
        options->least > supervisor->refused ? options->least : supervisor->refused + 1;
    if (ranks >= least) return ranks;
    if (!said)
      SupervisorSay(
          "wait", "",
          "it waits for hosts: those that are left take %d of at least %lld ranks (-least)", ranks,
          (long long)least);
    said = true;
    PauseFor(supervisor, WAIT_FOR_HOSTS);
  }
}

/* Names of the hosts that are used, as strings of JSON. */
static int ListHosts(const Supervisor *supervisor, size_t size, char names[])
{
  char name[2 * SUPERVISOR_NAME];
  size_t used = 0;
  int hosts = 0;
  names[0] = '\0';
  for (int h = 0; h < supervisor->hosts.count; h++) {
    const SupervisorHost *host = &supervisor->hosts.host[h];
    if (host->used == 0) continue;
    hosts++;
    SupervisorQuote(host->name, sizeof name, name);
    if (supervisor->hosts.listed && used + strlen(name) + 2 < size)
      used += (size_t)snprintf(names + used, size - used, "%s%s", used ? "," : "", name);
  }
  return hosts;
}

/* Which step that has is known to the nodes alone. */
static bool KeepsInMemory(const SupervisorOptions *options)
{
  for (int i = 0; i < options->n_words; i++) {
    const char *word = options->command[i] + (strncmp(options->command[i], "--", 2) == 0);
    if (strncmp(word, "-checkpoint_memory", 18) == 0) return true;
  }
  return false;
}

static void SayStart(const Supervisor *supervisor, int ranks)
{
  char fields[2 * SUPERVISOR_TEXT], names[SUPERVISOR_TEXT], places[64] = "", after[96] = "";
  const int hosts = ListHosts(supervisor, sizeof names, names);
  if (supervisor->hosts.listed)
    snprintf(places, sizeof places, " on %d of %d host%s", hosts, supervisor->hosts.count,
             supervisor->hosts.count > 1 ? "s" : "");
  if (supervisor->checkpoint >= 0)
    snprintf(after, sizeof after, ", from the checkpoint of step %lld%s",
             (long long)supervisor->checkpoint,
             KeepsInMemory(supervisor->options) ? " or a newer one in memory" : "");
  snprintf(fields, sizeof fields, "\"start\":%d,\"ranks\":%d,\"checkpoint\":%lld,\"hosts\":[%s]",
           supervisor->start, ranks, (long long)supervisor->checkpoint, names);
  SupervisorSay("start", fields, "start %d: %d rank%s%s%s", supervisor->start, ranks,
                ranks > 1 ? "s" : "", places, after);
}

/* "the newest checkpoint is of step 40" */
static const char *NewestText(const Supervisor *supervisor, char text[64])
{
  if (supervisor->checkpoint < 0) return "no checkpoint is known";
  snprintf(text, 64, "the newest checkpoint is of step %lld", (long long)supervisor->checkpoint);
  return text;
}

/* What the start came to, in all. */
static void CountSteps(Supervisor *supervisor)
{
  const SupervisorSigns *signs = &supervisor->signs;
  const bool further = signs->step > supervisor->best && signs->step > signs->resumed;
  if (signs->checkpoint >= 0) supervisor->checkpoint = signs->checkpoint;
  if (supervisor->start == 1) supervisor->first = supervisor->best = signs->resumed;
  if (further) supervisor->best = signs->step;
  supervisor->idle = further ? 0 : supervisor->idle + 1;
  for (int h = 0; h < supervisor->hosts.count && further; h++)
    supervisor->hosts.host[h].strikes = 0;
}

/* A host that answers and yet ends one start after the other is left out for a while. */
static void BlameHost(Supervisor *supervisor, int h)
{
  SupervisorHosts *hosts = &supervisor->hosts;
  int others = 0;
  if (h < 0 || !hosts->listed) return;
  for (int i = 0; i < hosts->count; i++)
    if (i != h && SupervisorHostIsUsable(&hosts->host[i])) others += hosts->host[i].ranks;
  if (++hosts->host[h].strikes < STRIKES || others < supervisor->options->least) return;
  SupervisorHostLose(hosts, h, supervisor->options);
}

static void SayFailure(const Supervisor *supervisor, const SupervisorEnd *end)
{
  char fields[4 * SUPERVISOR_TEXT], reason[2 * SUPERVISOR_TEXT], after[64] = "";
  SupervisorQuote(end->reason, sizeof reason, reason);
  snprintf(fields, sizeof fields,
           "\"start\":%d,\"code\":%d,\"step\":%lld,\"checkpoint\":%lld,"
           "\"rank\":%d,\"reason\":%s",
           supervisor->start, end->code, (long long)supervisor->signs.step,
           (long long)supervisor->checkpoint, end->rank, reason);
  if (supervisor->signs.step >= 0)
    snprintf(after, sizeof after, " after step %lld", (long long)supervisor->signs.step);
  SupervisorSay("failure", fields, "start %d ended%s: %s", supervisor->start, after, end->reason);
}

static void SayNobodyHeard(const Supervisor *supervisor)
{
  if (supervisor->signs.at == 0 && supervisor->hosts.listed && supervisor->start == 1)
    SupervisorSay("unheard", "",
                  "no rank wrote to %s: its steps are not known; start renga run in "
                  "a folder that all hosts share",
                  supervisor->signs.file);
}

static int CountUsed(const SupervisorHosts *hosts)
{
  int ranks = 0;
  for (int h = 0; h < hosts->count; h++) ranks += hosts->host[h].used;
  return ranks;
}

/* Would there be more ranks if no host was lost? A command may have a layout that needs them. */
static bool LacksHosts(const Supervisor *supervisor)
{
  const int64_t wanted = supervisor->options->ranks;
  int64_t all = 0;
  for (int h = 0; h < supervisor->hosts.count; h++) all += supervisor->hosts.host[h].ranks;
  return CountUsed(&supervisor->hosts) < (wanted > 0 ? wanted : all);
}

/* A failure: true where it is not worth another start, which is said. */
static bool GivesUp(Supervisor *supervisor, const SupervisorEnd *end, int *exit_code)
{
  const SupervisorSigns *signs = &supervisor->signs;
  char newest[64];
  SayFailure(supervisor, end);
  SayNobodyHeard(supervisor);
  *exit_code = signs->error_code ? signs->error_code : APP_EXIT_CRASHED;
  if (end->asked == SUPERVISOR_BY_SIGNAL) {
    const bool lost = signs->step > signs->checkpoint;
    *exit_code = lost ? APP_EXIT_CRASHED : APP_EXIT_ASKED_TO_LEAVE;
    SupervisorSay("left", "", "asked to leave: %s; %s", NewestText(supervisor, newest),
                  lost ? "the steps since are lost" : "nothing is lost");
    return true;
  }
  if (signs->step < 0 && IsForGood(signs->error_code) && LacksHosts(supervisor)) {
    supervisor->refused = CountUsed(&supervisor->hosts);
    return false;
  }
  if (signs->step < 0 && IsForGood(signs->error_code)) {
    SupervisorSay("give up", "", "another start would find the same error: none is made");
    return true;
  }
  if (supervisor->idle >= supervisor->options->starts) {
    SupervisorSay("give up", "",
                  "%d starts in a row came to no new step (-starts): look at their reasons; %s",
                  supervisor->idle, NewestText(supervisor, newest));
    return true;
  }
  BlameHost(supervisor, end->host);
  PauseFor(supervisor, supervisor->idle < 5 ? (1 << supervisor->idle) - 1 : LONGEST_PAUSE);
  return false;
}

/* It left with a checkpoint: for good, unless hosts have come or go. */
static bool LeavesForHosts(const Supervisor *supervisor, const SupervisorEnd *end)
{
  char fields[96], newest[64];
  snprintf(fields, sizeof fields, "\"code\":%d,\"checkpoint\":%lld", end->code,
           (long long)supervisor->checkpoint);
  const bool again = end->code == APP_EXIT_ASKED_TO_LEAVE &&
                     (end->asked == SUPERVISOR_BY_WARNING || end->asked == SUPERVISOR_BY_RETURN);
  if (!again)
    SupervisorSay("left", fields,
                  "%s: the run left with steps to go; %s, from which the same "
                  "command goes on",
                  end->code == APP_EXIT_TIME_IS_UP ? "the time limit is near" : "asked to leave",
                  NewestText(supervisor, newest));
  return again;
}

/* A file of -warning, or a signal, while it waited for hosts. */
static void SayLeftIdle(const Supervisor *supervisor)
{
  char newest[64];
  SupervisorSay("left", "", "asked to leave while nothing ran; %s", NewestText(supervisor, newest));
}

/* One start after the other. */
static RengaErrorCode RunStarts(Supervisor *supervisor, int *exit_code)
{
  for (;;) {
    SupervisorEnd end = {.rank = -1, .host = -1};
    const int ranks = FindRanks(supervisor);
    if (ranks == 0) {
      *exit_code = APP_EXIT_ASKED_TO_LEAVE;
      SayLeftIdle(supervisor);
      return RENGA_SUCCESS;
    }
    supervisor->start++;
    SayStart(supervisor, ranks);
    RengaCall(SupervisorRunStart(supervisor, ranks, &end));
    CountSteps(supervisor);
    if (end.outcome == SUPERVISOR_DONE) {
      *exit_code = 0;
      SupervisorSay("done", "", "the run is complete after %d start%s", supervisor->start,
                    supervisor->start > 1 ? "s" : "");
      return RENGA_SUCCESS;
    }
    if (end.outcome == SUPERVISOR_LEFT && !LeavesForHosts(supervisor, &end)) {
      *exit_code = end.code;
      if (supervisor->options->requeue) SupervisorRequeue(supervisor, end.code);
      return RENGA_SUCCESS;
    }
    if (end.outcome == SUPERVISOR_FAILED && GivesUp(supervisor, &end, exit_code)) {
      if (supervisor->options->requeue && end.asked == SUPERVISOR_BY_SIGNAL)
        SupervisorRequeue(supervisor, *exit_code);
      return RENGA_SUCCESS;
    }
  }
}

/* Under mpiexec each rank would start a run of its own. */
static RengaErrorCode CheckAlone(void)
{
  static const char *const ranks[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
  for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
    RengaCheck(!getenv(ranks[i]), MPI_COMM_SELF, RENGA_ERR_OPTION,
               "renga run starts the ranks itself, and here a launcher has started it (%s is set): "
               "start it without mpiexec or srun",
               ranks[i]);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpSupervisor(Supervisor *supervisor)
{
  const SupervisorOptions *options = supervisor->options;
  RengaCall(CheckAlone());
  supervisor->alone = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
  RengaCall(SupervisorLauncherFind(options, &supervisor->launcher));
  const bool srun = supervisor->launcher.kind == SUPERVISOR_SRUN;
  RengaCall(SupervisorHostsRead(options, srun, &supervisor->hosts));
  RengaCall(MakeRunToken(supervisor->token));
  RengaCall(SupervisorEventsOpen(options->events));
  RengaCall(SupervisorSignsOpen(supervisor->token, &supervisor->signs));
  SupervisorTellEndOfJob();
  prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
  SupervisorCatchSignals(&supervisor->signals);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSupervisor(int argc, char **argv, int *exit_code)
{
  SupervisorOptions options;
  bool help;
  RengaCall(SupervisorReadOptions(argc, argv, &options, &help));
  if (help) return RENGA_SUCCESS;
  Supervisor supervisor = {.options = &options, .best = -1, .checkpoint = -1, .first = -1};
  RengaErrorCode code = SetUpSupervisor(&supervisor);
  if (!code) code = RunStarts(&supervisor, exit_code);
  SupervisorSignsClose(&supervisor.signs);
  free(supervisor.hosts.host);
  free(supervisor.hosts.remote.text);
  free(supervisor.launcher.text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int AppSupervise(int argc, char **argv)
{
  int exit_code = 0;
  const RengaErrorCode code = RunSupervisor(argc, argv, &exit_code);
  return code ? (int)code : exit_code;
}

RengaErrorCode AppSuperviseMisplaced(const App *app)
{
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(app->comm, &printer));
  RengaRaise(printer, RENGA_ERR_OPTION,
             "renga run has options of its own: write run first, as in renga run -n 4 -- renga "
             "train ...");
}
