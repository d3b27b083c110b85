/* Signals that wait while kernels run. */
#include "renga/private/device.h"
#include <signal.h>

/* Products of oneDNN (2.6 and others) use the stack pointer as one register more. A signal that is
   handled on the thread's own stack meanwhile is written over their data, whoever's handler it is:
   the heap is damaged, and products are wrong. So signals wait: for the thread that computes until
   it is done, and with the other threads of its team, which signals have no business with, for
   ever. */
static _Thread_local int held;
static _Thread_local sigset_t before;

void RengaDeviceHoldSignals_Private(void)
{
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t waiting;
  if (held++) return;
  sigfillset(&waiting);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&waiting, own[i]);
  pthread_sigmask(SIG_BLOCK, &waiting, &before);
}

void RengaDeviceReleaseSignals_Private(void)
{
  if (--held == 0) pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void RengaDeviceRefuseSignals_Private(void)
{
  if (held == 0) RengaDeviceHoldSignals_Private();
}
