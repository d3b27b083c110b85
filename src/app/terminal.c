/* Does what this process prints end on a terminal? Under mpiexec it is a pipe, so the launcher is
   asked: the first ancestor that is one, through /proc. */
#include "app.h"
#include "renga/private/open.h"
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const launchers[] = {"mpiexec", "mpirun", "orterun", "prterun", "srun"};

/* Name and parent of a process; false where it cannot be seen. */
static bool ReadProcess(int process, size_t size, char name[], int *parent)
{
  char file_name[64], text[512];
  snprintf(file_name, sizeof file_name, "/proc/%d/stat", process);
  FILE *file = RengaFileOpen_Private(file_name, "r");
  if (!file) return false;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  char *open = strchr(text, '('), *close = strrchr(text, ')');
  if (!open || !close || sscanf(close + 1, " %*c %d", parent) != 1) return false;
  snprintf(name, size, "%.*s", (int)(close - open - 1), open + 1);
  return true;
}

static bool IsLauncher(const char *name)
{
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
    if (!strncmp(name, launchers[i], strlen(launchers[i]))) return true;
  return false;
}

/* The output of the launcher with that number, opened to ask its size; -1 where it is no terminal.
 */
static int OpenLaunchersOutput(int output)
{
  char name[64], file_name[64];
  for (int process = (int)getppid(), parent = 0, steps = 0; process > 1 && steps < 8; steps++) {
    if (!ReadProcess(process, sizeof name, name, &parent)) return -1;
    if (IsLauncher(name)) {
      snprintf(file_name, sizeof file_name, "/proc/%d/fd/%d", process, output);
      int file = RengaFileDescriptor_Private(file_name, O_WRONLY, 0);
      if (file >= 0 && isatty(file)) return file;
      if (file >= 0) close(file);
      return -1;
    }
    process = parent;
  }
  return -1;
}

static int ColumnsOf(int file)
{
  struct winsize size;
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool AppTerminal(int output, int *columns)
{
  *columns = 80;
  if (isatty(output)) {
    *columns = ColumnsOf(output);
    return true;
  }
  int file = OpenLaunchersOutput(output);
  if (file < 0) return false;
  *columns = ColumnsOf(file);
  close(file);
  return true;
}
