/* Loaded before MPICH in tests (LD_PRELOAD): ranks outnumber the cores there, and a rank of MPICH
   4.0 that waits spins until its time slice ends. UCX's progress function, which each such wait
   calls through the PLT, gives its core away here: after some calls that found nothing to do by
   sched_yield, later by sleeping. */
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

enum { YIELDS = 20, SLEEP_NS = 50000 };

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
  static unsigned (*progress)(void *);
  static _Thread_local int idle;
  if (!progress) {
    void *found = dlsym(RTLD_NEXT, "ucp_worker_progress");
    /* ISO C has no cast to a pointer to a function. */
    __builtin_memcpy(&progress, &found, sizeof found);
  }
  unsigned made = progress(worker);
  if (made) {
    idle = 0;
  } else if (idle < YIELDS) {
    idle++;
    sched_yield();
  } else {
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
  }
  return made;
}
