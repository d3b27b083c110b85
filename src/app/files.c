/* What a command writes must not be what it reads: a data set, a network or a checkpoint would be
   gone. Files that are read and made anew in one form (plans, costs, vocabularies) may be. */
#include "app.h"
#include <string.h>
#include <sys/stat.h>

static const char *const inputs[] = {"graph",      "data",         "eval",        "initial",
                                     "checkpoint", "machine_file", "options_file"};
static const char *const outputs[] = {"plan_save", "profile_save", "vocabulary_save",
                                      "log_trace", "monitor",      "graph_view",
                                      "plan_view", "profile_view", "log_view"};
enum {
  N_INPUTS = sizeof inputs / sizeof inputs[0],
  N_OUTPUTS = sizeof outputs / sizeof outputs[0]
};

/* The file of one of the names of a list with commas, or of "csv:FILE". */
static bool FindFile(const char *name, size_t length, struct stat *found)
{
  char file[4096];
  snprintf(file, sizeof file, "%.*s", (int)length, name);
  const char *colon = strchr(file, ':');
  if (stat(file, found) == 0) return S_ISREG(found->st_mode);
  return colon && stat(colon + 1, found) == 0 && S_ISREG(found->st_mode);
}

static RengaErrorCode CheckPair(const char *input, const char *output)
{
  struct stat read, written;
  if (!FindFile(output, strlen(output), &written)) return RENGA_SUCCESS;
  for (const char *at = input; *at;) {
    const size_t length = strcspn(at, ",");
    const bool same = FindFile(at, length, &read) && read.st_dev == written.st_dev &&
                      read.st_ino == written.st_ino;
    RengaCheck(!same, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
               "%s is read by this command, and would be replaced by what it writes: give the "
               "output another name",
               output);
    at += length + (at[length] == ',');
  }
  return RENGA_SUCCESS;
}

/* n_read words are files that the command reads. */
static RengaErrorCode CheckOutput(const App *app, int n_read, const char *output)
{
  for (int i = 0; i < N_INPUTS; i++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(inputs[i], &value, &given));
    if (given) RengaCall(CheckPair(value, output));
  }
  for (int w = 0; w < n_read; w++) RengaCall(CheckPair(app->words[w], output));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(const App *app, bool writes_last)
{
  const int n_read = writes_last ? app->n_words - 1 : app->n_words;
  for (int o = 0; o < N_OUTPUTS; o++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(outputs[o], &value, &given));
    if (given) RengaCall(CheckOutput(app, n_read, value));
  }
  if (writes_last && n_read >= 0) RengaCall(CheckOutput(app, n_read, app->words[n_read]));
  return RENGA_SUCCESS;
}

RengaErrorCode AppCheckFiles(const App *app, bool writes_last)
{
  RengaErrorCode code = RENGA_SUCCESS;
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(app->comm, &printer));
  if (RengaCommGetRank(app->comm) == 0) code = CheckAll(app, writes_last);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}
