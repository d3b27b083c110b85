/* Preloaded in the ranks of one node: another version of the library, another clock. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

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
time_t time(time_t *seconds)
{
  const char *ahead = getenv("RENGA_TEST_CLOCK");
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec += ahead ? strtol(ahead, NULL, 10) : 0;
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}
