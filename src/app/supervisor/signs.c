/* What is heard of a start: rows of the ranks (renga/private/signs.h), and what launchers say of a
   rank that ended badly. */
#include "supervisor.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* An empty row is no sign. */
bool SupervisorSignsTakeRows(const SupervisorSigns *signs)
{
  const int file = RengaFileDescriptor_Private(signs->file, O_WRONLY | O_APPEND, 0);
  if (file < 0) return false;
  const ssize_t wrote = write(file, "\n", 1);
  const int why = errno;
  close(file);
  errno = why;
  return wrote == 1;
}

/* A process that is nobody's child and has nothing else to do: once renga run is gone, killed or
   not, the pipe from it is at its end, and the file goes. */
static void TakeFileAway(const char *name, int pipe)
{
  char letter;
  setsid();
  const int nothing = RengaFileDescriptor_Private("/dev/null", O_RDWR, 0);
  for (int i = 0; i < 3 && nothing >= 0; i++) dup2(nothing, i);
  for (int signal_number = 1; signal_number < NSIG; signal_number++)
    if (signal_number != SIGTERM && signal_number != SIGCHLD) signal(signal_number, SIG_IGN);
  if (chdir("/") != 0) _exit(1);
  while (read(pipe, &letter, 1) < 0 && errno == EINTR) continue;
  unlink(name);
  _exit(0);
}

/* Where there is none the file stays if renga run is killed. */
static void StartCaretaker(const char *name)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    if (fork() == 0) TakeFileAway(name, ends[0]);
    _exit(0);
  }
  close(ends[0]); /* the other end is open as long as this process lives */
  if (child > 0) waitpid(child, NULL, 0);
}

/* In the working folder, which all hosts see, as launchers start the ranks in it. */
RengaErrorCode SupervisorSignsOpen(const char *token, SupervisorSigns *signs)
{
  char folder[SUPERVISOR_TEXT - 64];
  *signs = (SupervisorSigns){.step = -1, .checkpoint = -1};
  RengaCheck(getcwd(folder, sizeof folder), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "renga run: the working folder has no name: %s", strerror(errno));
  snprintf(signs->file, sizeof signs->file, "%s/renga_run.%s.signs", folder, token);
  const int file = RengaFileDescriptor_Private(signs->file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0) close(file);
  RengaCheck(file >= 0 && SupervisorSignsTakeRows(signs), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "renga run: %s: %s; it is what the ranks tell of themselves: start where all hosts "
             "can write",
             signs->file, RengaFileReason_Private(errno));
  StartCaretaker(signs->file);
  return RENGA_SUCCESS;
}

void SupervisorSignsClose(SupervisorSigns *signs)
{
  if (*signs->file) unlink(signs->file);
  free(signs->process);
  signs->process = NULL;
}

void SupervisorSignsBegin(SupervisorSigns *signs)
{
  SupervisorSigns fresh = {.step = -1,
                           .checkpoint = -1,
                           .resumed = -1,
                           .told_rank = -1,
                           .told_code = -1,
                           .told_signal = -1};
  memcpy(fresh.file, signs->file, sizeof fresh.file);
  free(signs->process);
  *signs = fresh;
  signs->moved = SupervisorSeconds();
  const int file = RengaFileDescriptor_Private(signs->file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0) close(file);
}

/* The number behind "what": in a row. */
static long long SignNumber(const char *row, const char *what)
{
  const char *at = strstr(row, what);
  return at ? strtoll(at + strlen(what), NULL, 10) : -1;
}

static void TakeProcesses(SupervisorSigns *signs, const char *row)
{
  const char *at = strchr(row, '[');
  int count = 1;
  if (!at || signs->process) return;
  for (const char *c = at; *c; c++) count += *c == ',';
  signs->process = calloc((size_t)count, sizeof *signs->process);
  for (int r = 0; r < count && signs->process; r++) {
    char *end;
    signs->process[r] = strtoll(at + 1, &end, 10);
    at = end;
    signs->n_processes = r + 1;
  }
}

/* The first error: others follow from it. */
static void TakeErrorSign(SupervisorSigns *signs, const char *row)
{
  const char *text = strstr(row, "\"text\":\"");
  size_t used = 0;
  if (signs->error_code || !text) return;
  signs->error_rank = (int)SignNumber(row, "\"rank\":");
  signs->error_code = (int)SignNumber(row, "\"code\":");
  for (text += 8; *text && *text != '"' && used + 1 < sizeof signs->error; text++) {
    if (*text == '\\' && text[1]) text++;
    signs->error[used++] = *text;
  }
  signs->error[used] = '\0';
}

static void TakeStepSign(SupervisorSigns *signs, long long step, double now)
{
  if (signs->step >= 0 && now - signs->moved > signs->longest) signs->longest = now - signs->moved;
  if (step > signs->step) signs->step = step;
}

static void TakeSign(SupervisorSigns *signs, const char *row)
{
  char sign[32] = "";
  const double now = SupervisorSeconds();
  const long long step = SignNumber(row, "\"step\":");
  if (sscanf(row, "{\"sign\":\"%31[a-z]", sign) != 1) return;
  if (!strcmp(sign, "start")) {
    signs->started = true;
    TakeProcesses(signs, row);
  } else if (!strcmp(sign, "step")) {
    TakeStepSign(signs, step, now);
  } else if (!strcmp(sign, "resumed")) {
    signs->checkpoint = signs->resumed = step;
  } else if (!strcmp(sign, "checkpoint")) {
    signs->checkpoint = step;
    if (step > signs->step) signs->step = step;
  } else if (!strcmp(sign, "error")) {
    TakeErrorSign(signs, row);
  } else if (!strcmp(sign, "end")) {
    signs->ended = true;
    signs->end_code = (int)SignNumber(row, "\"code\":");
  }
  signs->moved = now;
}

/* Of the process that the launcher told of, once the ranks have told theirs. */
static void NameRank(SupervisorSigns *signs)
{
  for (int r = 0; r < signs->n_processes && signs->told && signs->told_rank < 0; r++)
    if (signs->process[r] == signs->told_process) signs->told_rank = r;
}

/* Opened anew, so that a network file system looks again; a last line that is not whole waits. */
void SupervisorSignsLook(SupervisorSigns *signs)
{
  FILE *file = RengaFileOpen_Private(signs->file, "r");
  char *row = NULL;
  size_t size = 0;
  ssize_t length;
  if (!file) return;
  if (fseek(file, signs->at, SEEK_SET) == 0)
    while ((length = getline(&row, &size, file)) > 0 && row[length - 1] == '\n') {
      signs->at += (long)length;
      TakeSign(signs, row);
    }
  free(row);
  fclose(file);
  NameRank(signs);
}

/* MPICH: "=   PID 812 RUNNING AT node2", "=   EXIT CODE: 9", and, of a signal, "... (signal 9)". */
static void HearHydra(SupervisorSigns *signs, const char *line)
{
  const char *code = strstr(line, "EXIT CODE: "), *signal = strstr(line, "(signal ");
  const bool known = signs->told && signs->told_process;
  if (!signs->told &&
      sscanf(line, "= PID %lld RUNNING AT %255s", &signs->told_process, signs->told_host) == 2)
    signs->told = true;
  else if (known && code && signs->told_code < 0)
    signs->told_code = (int)strtol(code + 11, NULL, 10);
  else if (known && signal && strstr(line, "EXIT STRING: ") && signs->told_signal < 0)
    signs->told_signal = (int)strtol(signal + 8, NULL, 10);
}

/* Slurm: "srun: error: node2: task 3: Killed". */
static void HearSlurm(SupervisorSigns *signs, const char *line)
{
  char host[SUPERVISOR_NAME], what[32] = "";
  int task;
  const int got = sscanf(line, "srun: error: %255[^:]: task%*[s] %d", host, &task) == 2 ||
                  sscanf(line, "srun: error: %255[^:]: task %d", host, &task) == 2;
  const char *last = strrchr(line, ':');
  if (signs->told || !got || !last || sscanf(last, ": %31[A-Za-z ]", what) != 1) return;
  if (strstr(what, "Exited") || strstr(what, "Terminated")) return; /* it was ended, with others */
  signs->told = true;
  signs->told_rank = task;
  signs->told_signal = strstr(what, "Killed") ? SIGKILL : strstr(what, "Segm") ? SIGSEGV : -1;
  memcpy(signs->told_host, host, sizeof host);
}

/* Open MPI: "... noticed that process rank 1 with PID 812 on node node2 exited on signal 9". */
static void HearOpenMPI(SupervisorSigns *signs, const char *line)
{
  const char *at = strstr(line, "process rank ");
  if (signs->told || !at ||
      sscanf(at, "process rank %d with PID %lld on node %255s exited on signal %d",
             &signs->told_rank, &signs->told_process, signs->told_host, &signs->told_signal) != 4)
    return;
  signs->told = true;
}

void SupervisorSignsHear(SupervisorSigns *signs, const char *line)
{
  HearHydra(signs, line);
  HearSlurm(signs, line);
  HearOpenMPI(signs, line);
}
