/* The memory that this process may have: the machine's, or less where a batch system or a container
   has put it into a control group with a limit (versions 1 and 2 of Linux's cgroups). */
#include "renga/private/limit.h"
#include "renga/private/open.h"
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* The number in a file; SIZE_MAX where there is none ("max"). */
static size_t LimitIn(const char *file)
{
  FILE *opened = RengaFileOpen_Private(file, "r");
  unsigned long long limit = 0;
  const bool found = opened && fscanf(opened, "%llu", &limit) == 1;
  if (opened) fclose(opened);
  return found && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

/* The least limit of a group and those that it lies in; path is shortened. */
static size_t LeastUpwards(const char *folder, char path[], const char *name)
{
  size_t least = SIZE_MAX;
  for (;;) {
    char file[2 * PATH_SIZE];
    snprintf(file, sizeof file, "%s%s/%s", folder, path, name);
    const size_t limit = LimitIn(file);
    if (limit < least) least = limit;
    char *slash = strrchr(path, '/');
    if (!slash) return least;
    *slash = '\0';
  }
}

size_t RengaGroupLimit_Private(const char *groups, const char *root)
{
  FILE *file = RengaFileOpen_Private(groups, "r");
  char line[PATH_SIZE], folder[PATH_SIZE];
  size_t least = SIZE_MAX;
  while (file && fgets(line, sizeof line, file)) { /* 4:memory:/job, or 0::/job */
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    const bool second = controllers[1] == '\0';
    if (!second && !strstr(controllers + 1, "memory")) continue;
    snprintf(folder, sizeof folder, "%s%s", root, second ? "" : "/memory");
    const size_t limit =
        LeastUpwards(folder, path, second ? "memory.max" : "memory.limit_in_bytes");
    if (limit < least) least = limit;
  }
  if (file) fclose(file);
  return least;
}

size_t RengaHostMemory_Private(void)
{
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  const size_t whole = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
  const size_t limit = RengaGroupLimit_Private("/proc/self/cgroup", "/sys/fs/cgroup");
  return limit < whole ? limit : whole;
}
