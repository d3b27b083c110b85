/* Loaded before MPICH in tests (LD_PRELOAD): ranks outnumber the cores there, and a rank of MPICH
   4.0 that waits spins until its time slice ends. UCX's progress function, which each such wait
   calls through the PLT, sleeps here after some calls that found nothing to do, one right behind
   the other: who looks for messages between kernels does not wait. It does not yield: where others
   compute, too, who yields waits for the time slices of all of them. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { SPINS = 100, SLEEP_NS = 50000, WORK_NS = 5000 };

unsigned ucp_worker_progress(void *worker);

static long long Now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

unsigned ucp_worker_progress(void *worker)
{
  static unsigned (*progress)(void *);
  static _Thread_local int idle;
  static _Thread_local long long last;
  if (!progress) { /* where the library was opened for one library alone, it is not next */
    void *found = dlsym(RTLD_NEXT, "ucp_worker_progress");
    void *library = found ? NULL : dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, "ucp_worker_progress");
    /* ISO C has no cast to a pointer to a function. */
    __builtin_memcpy(&progress, &found, sizeof found);
  }
  const bool worked = Now() - last > WORK_NS; /* since the call before */
  unsigned made = progress(worker);
  idle = made || worked ? 0 : idle + 1;
  if (idle > SPINS) {
    idle = SPINS;
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
  }
  last = Now();
  return made;
}
