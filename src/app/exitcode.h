/* How a training ends that has steps to go, beside the codes of errors. No shell, launcher or batch
   system makes these of a signal, but for the last: a crash is never taken for a checkpoint. */
#pragma once

enum {
  APP_EXIT_CRASHED = 70,        /* renga run gave up, and no error is known: EX_SOFTWARE */
  APP_EXIT_TIME_IS_UP = 75,     /* before -time_limit: EX_TEMPFAIL of sysexits.h, "try again" */
  APP_EXIT_ASKED_TO_LEAVE = 85, /* by a signal, after a last checkpoint: HTCondor's example, too */
  /* By a signal, without -checkpoint_dir: as SIGTERM itself ends a program. */
  APP_EXIT_NOTHING_KEPT = 128 + 15
};

/* leaving.c: signals end the program at once until it says that it leaves, and from then on not. */
void AppCatchLateSignals(void);
void AppLeave(void);
