/* Signals that come while renga train already leaves. All ranks leave as one of them is asked; a
   signal that comes to another one later than that must not end it with a code of its own, which
   would look like a crash. */
#include "exitcode.h"
#include <stddef.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t leaving;

/* Until it leaves, signals end the program as they do by themselves. */
static void EndUnlessLeaving(int number)
{
  if (leaving) return;
  signal(number, SIG_DFL);
  raise(number);
}

void AppCatchLateSignals(void)
{
  static const int caught[] = {SIGTERM, SIGINT, SIGHUP};
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = EndUnlessLeaving;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
    if (sigaction(caught[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(caught[i], &action, NULL);
}

void AppLeave(void)
{
  leaving = 1;
}
