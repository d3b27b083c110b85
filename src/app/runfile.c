/* A run by its rows: what -monitor csv writes. The last row may yet be written anew, with a
   validation, so it is read again; where the file is shorter than it was, a run that goes on has
   taken rows back, and all is read. */
#include "view.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ROW_NUMBERS = 8 };

struct _AppRunFile {
  char *name;
  long at;         /* where the last row begins that was read; 0: none was */
  double seconds;  /* of a step, smoothed */
  int64_t counted; /* the last step that is in it */
};

static bool HasRows(const char *name)
{
  char line[sizeof APP_ROWS_HEADER] = "";
  FILE *file = RengaFileOpen_Private(name, "r");
  if (!file) return false;
  const bool read = fgets(line, sizeof line, file) != NULL;
  fclose(file);
  return read && !strcmp(line, APP_ROWS_HEADER);
}

/* The file of rows that was written last; "": there is none. */
static RengaErrorCode FindRowsFile(const char *folder, size_t size, char name[])
{
  struct stat found;
  struct timespec newest = {0, 0};
  DIR *files = opendir(folder);
  RengaCheck(files, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "renga watch %s: %s", folder,
             RengaFileReason_Private(errno));
  for (struct dirent *file; (file = readdir(files)) != NULL;) {
    char path[4096];
    const char *end = strrchr(file->d_name, '.');
    if (!end || strcmp(end, ".csv") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode) || !HasRows(path)) continue;
    const struct timespec time = found.st_mtim;
    if (time.tv_sec < newest.tv_sec ||
        (time.tv_sec == newest.tv_sec && time.tv_nsec < newest.tv_nsec))
      continue;
    newest = time;
    snprintf(name, size, "%s", path);
  }
  closedir(files);
  return RENGA_SUCCESS;
}

RengaErrorCode AppRunFileOpen(const char *place, AppRunFile *file)
{
  AppRunFile made;
  struct stat found;
  char name[4096] = "";
  if (stat(place, &found) == 0 && S_ISDIR(found.st_mode)) {
    RengaCall(FindRowsFile(place, sizeof name, name));
    RengaCheck(*name, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
               "renga watch %s: the folder has no file that -monitor csv writes", place);
  } else {
    snprintf(name, sizeof name, "%s", place);
    RengaCheck(HasRows(name), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "renga watch %s: it is no file that -monitor csv writes: it does not begin with %s",
               place, APP_ROWS_HEADER);
  }
  RengaCall(RengaMalloc(1, &made));
  made->counted = -1;
  const RengaErrorCode code = RengaStringCopy(name, &made->name);
  if (code) AppRunFileClose(&made);
  RengaCall(code);
  *file = made;
  return RENGA_SUCCESS;
}

/* A whole line: its numbers; NaN where a column is empty. */
static bool ReadRow(char *line, double number[ROW_NUMBERS])
{
  for (int i = 0; i < ROW_NUMBERS; i++) {
    char *end;
    number[i] = RengaReadReal(line, &end);
    if (end == line) number[i] = NAN;
    if (*end != (i + 1 < ROW_NUMBERS ? ',' : '\n')) return false;
    line = end + 1;
  }
  return true;
}

/* step,loss,learning_rate,gradient_norm,samples_per_second,seconds,validation_loss,perplexity */
static void TakeRowNumbers(AppRunFile file, const double number[ROW_NUMBERS], AppView *view)
{
  const double keep = file->seconds > 0 ? 0.8 : 0;
  view->step = (int64_t)number[0];
  view->loss = number[1];
  view->learning_rate = number[2];
  view->gradient_norm = number[3];
  view->rate = number[4];
  view->seconds = number[5];
  if (view->step != file->counted) file->seconds = keep * file->seconds + (1 - keep) * number[5];
  file->counted = view->step;
  if (isnan(number[6])) return;
  view->validated = view->step;
  view->validation_loss = number[6];
  view->perplexity = isnan(number[7]) ? 0 : number[7];
}

static void ReadNewRows(AppRunFile file, FILE *stream, AppView *view)
{
  char *line = NULL;
  size_t size = 0;
  double number[ROW_NUMBERS];
  fseek(stream, file->at, SEEK_SET);
  for (long at = file->at; getline(&line, &size, stream) > 0; at = ftell(stream)) {
    if (!ReadRow(line, number)) continue;
    if (isnan(number[0])) continue;
    TakeRowNumbers(file, number, view);
    file->at = at;
  }
  free(line);
}

RengaErrorCode AppRunFileLook(AppRunFile file, AppView *view, bool *over)
{
  struct stat found;
  struct timespec now;
  FILE *stream = RengaFileOpen_Private(file->name, "r");
  RengaCheck(stream && fstat(fileno(stream), &found) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "renga watch: %s: %s", file->name, RengaFileReason_Private(errno));
  if (found.st_size < file->at) file->at = 0;
  ReadNewRows(file, stream, view);
  fclose(stream);
  snprintf(view->name, sizeof view->name, "%s", file->name);
  bool given;
  RengaCall(RengaOptionsGetInt64("steps", &view->steps, &given));
  if (!given) view->steps = 0;
  clock_gettime(CLOCK_REALTIME, &now);
  view->age = (double)(now.tv_sec - found.st_mtim.tv_sec);
  view->left = view->steps > 0 ? file->seconds * (double)(view->steps - view->step - 1) : -1;
  *over = view->steps > 0 && view->step + 1 >= view->steps;
  return RENGA_SUCCESS;
}

void AppRunFileClose(AppRunFile *file)
{
  RengaFree(&(*file)->name);
  RengaFree(file);
}
