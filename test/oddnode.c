/* Preloaded in the ranks of one node: another version of the library, another clock. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void RengaGetVersion(int *major, int *minor, int *patch, const char **text);

/* RENGA_TEST_VERSION: its text. */
void RengaGetVersion(int *major, int *minor, int *patch, const char **text)
{
  const char *odd = getenv("RENGA_TEST_VERSION");
  void (*get)(int *, int *, int *, const char **);
  *(void **)&get = dlsym(RTLD_NEXT, "RengaGetVersion");
  get(major, minor, patch, text);
  if (odd && text) *text = odd;
}

/* RENGA_TEST_CLOCK: seconds that it is ahead. */
int clock_gettime(clockid_t id, struct timespec *now)
{
  const char *ahead = getenv("RENGA_TEST_CLOCK");
  const int code = (int)syscall(SYS_clock_gettime, id, now);
  if (ahead && id == CLOCK_REALTIME) now->tv_sec += strtol(ahead, NULL, 10);
  return code;
}

time_t time(time_t *seconds)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}
