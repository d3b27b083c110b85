/* The launcher: which one it is, its command line, and its process. */
#include "config.h"
#include "supervisor.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool SupervisorSplit(char *text, int most, const char *word[])
{
  char *next = NULL;
  int n = 0;
  for (char *at = strtok_r(text, " \t", &next); at; at = strtok_r(NULL, " \t", &next)) {
    if (n + 1 >= most) return false;
    word[n++] = at;
  }
  word[n] = NULL;
  return true;
}

static const char *BaseName(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool IsOnPath(const char *program)
{
  const char *path = getenv("PATH");
  char file[4096];
  while (path && *path) {
    const size_t length = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
    if (access(file, X_OK) == 0) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

/* That of the MPI that this program is built with, which need not be the first of the path. */
static const char *OwnLauncher(void)
{
  static const char own[] = RENGA_MPIEXEC;
  const bool there = strchr(own, '/') ? access(own, X_OK) == 0 : own[0] && IsOnPath(own);
  return there ? own : "mpiexec";
}

RengaErrorCode SupervisorLauncherFind(const SupervisorOptions *options,
                                      SupervisorLauncher *launcher)
{
  const bool in_job = getenv("SLURM_JOB_ID") && IsOnPath("srun");
  const char *text = options->launcher ? options->launcher : in_job ? "srun" : OwnLauncher();
  char version[SUPERVISOR_TEXT];
  launcher->text = strdup(text);
  RengaCheck(launcher->text, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for -launcher");
  RengaCheck(SupervisorSplit(launcher->text, SUPERVISOR_WORDS, launcher->word) && launcher->word[0],
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-launcher %s: write mpiexec or srun, and its own options, at most %d words", text,
             SUPERVISOR_WORDS - 1);
  RengaCheck(strchr(launcher->word[0], '/') ? access(launcher->word[0], X_OK) == 0
                                            : IsOnPath(launcher->word[0]),
             MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "renga run: there is no program %s: give -launcher the launcher of your MPI",
             launcher->word[0]);
  launcher->kind = SUPERVISOR_SRUN;
  if (strncmp(BaseName(launcher->word[0]), "srun", 4) == 0) return RENGA_SUCCESS;
  const char *ask[] = {launcher->word[0], "--version", NULL};
  SupervisorRead(ask, 30, sizeof version, version);
  const bool openmpi =
      strstr(version, "Open MPI") || strstr(version, "OpenRTE") || strstr(version, "PRRTE");
  launcher->kind = openmpi ? SUPERVISOR_OPENMPI : SUPERVISOR_MPICH;
  return RENGA_SUCCESS;
}

/* A command line that grows. */
typedef struct {
  int n, most;
  const char **word;
  char ranks[16], nodes[16], *hosts;
} LaunchLine;

static void AddLaunchWord(LaunchLine *line, const char *word)
{
  if (line->n + 1 < line->most) line->word[line->n++] = word;
  line->word[line->n] = NULL;
}

/* "node1:2,node2:2"; Slurm has its own way to deal ranks, and takes names alone. */
static void AddHosts(LaunchLine *line, const SupervisorLauncher *launcher,
                     const SupervisorHosts *hosts)
{
  const size_t size = (size_t)hosts->count * (SUPERVISOR_NAME + 16) + 1;
  size_t used = 0;
  int nodes = 0;
  line->hosts = calloc(size, 1);
  if (!line->hosts) return;
  for (int h = 0; h < hosts->count; h++) {
    const SupervisorHost *host = &hosts->host[h];
    if (host->used == 0) continue;
    used +=
        (size_t)snprintf(line->hosts + used, size - used, "%s%s", nodes++ ? "," : "", host->name);
    if (launcher->kind != SUPERVISOR_SRUN)
      used += (size_t)snprintf(line->hosts + used, size - used, ":%d", host->used);
  }
  snprintf(line->nodes, sizeof line->nodes, "%d", nodes);
  AddLaunchWord(line, launcher->kind == SUPERVISOR_SRUN    ? "--nodelist"
                      : launcher->kind == SUPERVISOR_MPICH ? "-hosts"
                                                           : "--host");
  AddLaunchWord(line, line->hosts);
  if (launcher->kind != SUPERVISOR_SRUN) return;
  AddLaunchWord(line, "--nodes");
  AddLaunchWord(line, line->nodes);
}

/* What a launcher needs beside the words of -launcher. */
static void AddOwnWords(LaunchLine *line, const SupervisorLauncher *launcher,
                        const SupervisorHosts *hosts, const SupervisorOptions *options)
{
  static const char *const variables[] = {"RENGA_RUN", "RENGA_RUN_SIGNS", "RENGA_RUN_START",
                                          "RENGA_RUN_SECONDS"};
  const bool by = options->remote && !strchr(options->remote, ' ') && hosts->listed;
  if (launcher->kind == SUPERVISOR_SRUN) AddLaunchWord(line, "--kill-on-bad-exit=1");
  if (launcher->kind == SUPERVISOR_MPICH && by) {
    AddLaunchWord(line, "-launcher");
    AddLaunchWord(line, "ssh");
    AddLaunchWord(line, "-launcher-exec");
    AddLaunchWord(line, options->remote);
  }
  if (launcher->kind != SUPERVISOR_OPENMPI) return;
  for (size_t v = 0; v < sizeof variables / sizeof variables[0]; v++) {
    AddLaunchWord(line, "-x");
    AddLaunchWord(line, variables[v]);
  }
  if (!by) return;
  AddLaunchWord(line, "--mca");
  AddLaunchWord(line, "plm_rsh_agent");
  AddLaunchWord(line, options->remote);
}

/* renga train goes on from its newest checkpoint; what other programs do is theirs. */
static bool WantsResume(const SupervisorOptions *options)
{
  bool trains = false;
  for (int i = 0; i < options->n_words; i++) {
    const char *word = options->command[i];
    if (strcmp(BaseName(word), "renga") == 0 && i + 1 < options->n_words &&
        strcmp(options->command[i + 1], "train") == 0)
      trains = true;
    if (trains && (strcmp(word, "-resume") == 0 || strcmp(word, "--resume") == 0)) return false;
  }
  return trains;
}

static bool MakeLaunchLine(const SupervisorLauncher *launcher, const SupervisorOptions *options,
                           const SupervisorHosts *hosts, int ranks, LaunchLine *line)
{
  *line = (LaunchLine){.most = options->n_words + 2 * SUPERVISOR_WORDS};
  line->word = calloc((size_t)line->most, sizeof *line->word);
  if (!line->word) return false;
  for (int i = 0; launcher->word[i]; i++) AddLaunchWord(line, launcher->word[i]);
  AddOwnWords(line, launcher, hosts, options);
  if (hosts->listed) AddHosts(line, launcher, hosts);
  snprintf(line->ranks, sizeof line->ranks, "%d", ranks);
  AddLaunchWord(line, "-n");
  AddLaunchWord(line, line->ranks);
  for (int i = 0; i < options->n_words; i++) AddLaunchWord(line, options->command[i]);
  if (WantsResume(options)) AddLaunchWord(line, "-resume");
  return !hosts->listed || line->hosts;
}

/* In the child: a session of its own, so that a terminal's signals go to renga run alone, which
   passes them on. Should renga run be killed, the run is asked to leave. */
static void BecomeLauncher(const Supervisor *supervisor, const LaunchLine *line, pid_t parent,
                           const int output[2])
{
  char number[32];
  sigset_t none;
  snprintf(number, sizeof number, "%d", supervisor->start);
  setenv("RENGA_RUN", supervisor->token, 1);
  setenv("RENGA_RUN_SIGNS", supervisor->signs.file, 1);
  setenv("RENGA_RUN_START", number, 1);
  snprintf(number, sizeof number, "%lld", (long long)SupervisorSecondsSinceBegin());
  setenv("RENGA_RUN_SECONDS", number, 1);
  setsid();
  prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL, 0UL);
  if (getppid() != parent) _exit(127);
  sigemptyset(&none);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  const int nothing = RengaFileDescriptor_Private("/dev/null", O_RDONLY, 0);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output[0], 1) < 0 || dup2(output[1], 2) < 0)
    _exit(127);
  execvp(line->word[0], (char *const *)line->word);
  _exit(127);
}

static RengaErrorCode OpenPipes(int pipes[2][2])
{
  for (int i = 0; i < 2; i++) {
    if (pipe2(pipes[i], O_CLOEXEC) == 0) {
      fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
      continue;
    }
    if (i == 1) close(pipes[0][0]), close(pipes[0][1]);
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, "renga run: no pipe: %s", strerror(errno));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode SupervisorLaunch(const Supervisor *supervisor, int ranks,
                                SupervisorLaunched *launched)
{
  const pid_t parent = getpid();
  LaunchLine line;
  int pipes[2][2];
  RengaCall(OpenPipes(pipes));
  const bool made =
      MakeLaunchLine(&supervisor->launcher, supervisor->options, &supervisor->hosts, ranks, &line);
  launched->process = made ? fork() : -1;
  if (launched->process == 0)
    BecomeLauncher(supervisor, &line, parent, (const int[]){pipes[0][1], pipes[1][1]});
  for (int i = 0; i < 2; i++) {
    launched->output[i] = pipes[i][0];
    close(pipes[i][1]);
  }
  free(line.hosts);
  free(line.word);
  if (launched->process > 0) return RENGA_SUCCESS;
  for (int i = 0; i < 2; i++) close(launched->output[i]);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, "renga run: %s cannot be started: %s",
             supervisor->launcher.word[0], strerror(errno));
}
