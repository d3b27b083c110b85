/* A text for the shell, run on several hosts at once, each by a process of its own. */
#include "supervisor.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In the child, in a group of its own: what it starts can be ended with it. */
static void BecomeCommand(const char *const word[], int output)
{
  sigset_t none;
  setpgid(0, 0);
  sigemptyset(&none);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  const int nothing = RengaFileDescriptor_Private("/dev/null", O_RDWR, 0);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(nothing, 2) < 0)
    _exit(127);
  execvp(word[0], (char *const *)word);
  _exit(127);
}

static bool StartCommand(const char *const word[], SupervisorAnswer *answer)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  answer->process = fork();
  if (answer->process == 0) BecomeCommand(word, ends[1]);
  close(ends[1]);
  answer->output = ends[0];
  if (answer->process > 0) return true;
  close(ends[0]);
  answer->process = 0;
  answer->output = -1;
  return false;
}

/* ssh hands one text to whatever shell the user has there; srun starts a program. */
static bool StartOnHost(const SupervisorRemote *remote, const char *host, const char *text,
                        SupervisorAnswer *answer)
{
  const char *word[SUPERVISOR_WORDS + 8];
  char quoted[4 * SUPERVISOR_TEXT];
  int n = 0;
  if (*host) {
    while (remote->remote[n]) word[n] = remote->remote[n], n++;
    word[n++] = host;
  }
  if (*host && !remote->shell) {
    snprintf(quoted, sizeof quoted, "exec sh -c '%s'", text);
    word[n++] = quoted;
  } else {
    word[n++] = "sh";
    word[n++] = "-c";
    word[n++] = text;
  }
  word[n] = NULL;
  return StartCommand(word, answer);
}

/* More than there is room for is dropped. */
static void ReadAnswer(SupervisorAnswer *answer)
{
  char piece[SUPERVISOR_TEXT];
  ssize_t got;
  while (answer->output >= 0 && (got = read(answer->output, piece, sizeof piece)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    const size_t room = sizeof answer->text - 1 - answer->length;
    const size_t taken = (size_t)got < room ? (size_t)got : room;
    memcpy(answer->text + answer->length, piece, taken);
    answer->length += taken;
    answer->text[answer->length] = '\0';
  }
  if (answer->output >= 0) close(answer->output);
  answer->output = -1;
}

static void LookAtAnswer(SupervisorAnswer *answer)
{
  int status;
  ReadAnswer(answer);
  if (answer->process <= 0 || waitpid(answer->process, &status, WNOHANG) != answer->process) return;
  ReadAnswer(answer); /* what came between */
  answer->answered = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  answer->process = 0;
}

static void EndAnswer(SupervisorAnswer *answer)
{
  LookAtAnswer(answer);
  if (answer->process > 0) {
    kill(-answer->process, SIGKILL);
    kill(answer->process, SIGKILL); /* it may not have a group yet */
    waitpid(answer->process, NULL, 0);
    answer->process = 0;
  }
  if (answer->output >= 0) close(answer->output);
  answer->output = -1;
}

bool SupervisorAskBegin(const SupervisorHosts *hosts, const bool skip[], const char *text,
                        double seconds, SupervisorQuestion *question)
{
  *question = (SupervisorQuestion){.until = SupervisorSeconds() + seconds};
  question->answer = calloc((size_t)hosts->count, sizeof *question->answer);
  if (!question->answer) return false;
  question->count = hosts->count;
  for (int h = 0; h < hosts->count; h++) {
    question->answer[h].output = -1;
    if (!skip || !skip[h])
      StartOnHost(&hosts->remote, hosts->host[h].name, text, &question->answer[h]);
  }
  return true;
}

bool SupervisorAskIsOver(SupervisorQuestion *question)
{
  bool over = true;
  for (int h = 0; h < question->count; h++) {
    LookAtAnswer(&question->answer[h]);
    if (question->answer[h].process > 0) over = false;
  }
  return over || SupervisorSeconds() > question->until;
}

void SupervisorAskEnd(SupervisorQuestion *question)
{
  for (int h = 0; h < question->count; h++) EndAnswer(&question->answer[h]);
  free(question->answer);
  question->answer = NULL;
  question->count = 0;
}

bool SupervisorRead(const char *const word[], double seconds, size_t size, char text[])
{
  static const struct timespec moment = {0, 20000000};
  const double until = SupervisorSeconds() + seconds;
  SupervisorAnswer *answer = calloc(1, sizeof *answer);
  text[0] = '\0';
  if (!answer || !StartCommand(word, answer)) {
    free(answer);
    return false;
  }
  while (answer->process > 0 && SupervisorSeconds() < until) {
    LookAtAnswer(answer);
    if (answer->process > 0) nanosleep(&moment, NULL);
  }
  EndAnswer(answer);
  const bool good = answer->answered;
  if (good) snprintf(text, size, "%s", answer->text);
  if (*text && text[strlen(text) - 1] == '\n') text[strlen(text) - 1] = '\0';
  free(answer);
  return good;
}
