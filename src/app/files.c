/* What a command writes must not be what it reads: a data set, a network or a checkpoint would be
   gone. What is read and made anew in one form (plans, costs, vocabularies) may be. Files that
   these name (a network's external data) are not looked at. */
#include "app.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
  const char *option, *same_form; /* the output that may take its place */
  bool many;                      /* a list with commas and patterns */
} inputs[] = {
    {"graph", NULL, false},
    {"data", NULL, true},
    {"eval", NULL, true},
    {"initial", NULL, false},
    {"checkpoint", NULL, false},
    {"machine_file", NULL, false},
    {"options_file", NULL, false},
    {"plan_load", "plan_save", false},
    {"plan_diff", NULL, false},
    {"profile_file", "profile_save", false},
    {"vocabulary_file", "vocabulary_save", false},
};
static const char *const outputs[] = {
    "plan_save", "profile_save", "vocabulary_save", "log_trace",   "monitor",      "graph_view",
    "plan_view", "profile_view", "log_view",        "device_view", "schedule_view"};
enum {
  N_INPUTS = sizeof inputs / sizeof inputs[0],
  N_OUTPUTS = sizeof outputs / sizeof outputs[0]
};

/* A regular file, or that of "csv:FILE". */
static bool FindFile(const char *name, struct stat *found)
{
  const char *colon = strchr(name, ':');
  if (stat(name, found) == 0) return S_ISREG(found->st_mode);
  return colon && stat(colon + 1, found) == 0 && S_ISREG(found->st_mode);
}

static RengaErrorCode CheckInputOutput(const char *input, const char *output)
{
  struct stat read, written;
  const bool same = FindFile(output, &written) && FindFile(input, &read) &&
                    read.st_dev == written.st_dev && read.st_ino == written.st_ino;
  RengaCheck(!same, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s is read by this command, and would be replaced by what it writes: give the "
             "output another name",
             output);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMany(const char *list, const char *output)
{
  int count;
  char **names;
  RengaCall(RengaDataFindFiles(list, &count, &names));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < count; i++) {
    if (!code) code = CheckInputOutput(names[i], output);
    RengaFree(&names[i]);
  }
  RengaFree(&names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* option: of the output; NULL: it is a word. n_read words are files that the command reads. */
static RengaErrorCode CheckOutputFile(const App *app, int n_read, const char *option,
                                      const char *output)
{
  for (int i = 0; i < N_INPUTS; i++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(inputs[i].option, &value, &given));
    if (!given || (option && inputs[i].same_form && !strcmp(option, inputs[i].same_form))) continue;
    RengaCall(inputs[i].many ? CheckMany(value, output) : CheckInputOutput(value, output));
  }
  for (int w = 0; w < n_read; w++) RengaCall(CheckInputOutput(app->words[w], output));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(const App *app, bool writes_last)
{
  const int n_read = writes_last ? app->n_words - 1 : app->n_words;
  for (int o = 0; o < N_OUTPUTS; o++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(outputs[o], &value, &given));
    if (given) RengaCall(CheckOutputFile(app, n_read, outputs[o], value));
  }
  if (writes_last) RengaCall(CheckOutputFile(app, n_read, NULL, app->words[n_read]));
  return RENGA_SUCCESS;
}

RengaErrorCode AppCheckFiles(const App *app, bool writes_last)
{
  RengaErrorCode code = RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(app->comm);
  if (RengaCommGetRank(app->comm) == 0) code = CheckAll(app, writes_last);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}

RengaErrorCode AppCheckNewFile(RengaComm comm, const char *file)
{
  RengaErrorCode code = RENGA_SUCCESS;
  bool overwrite;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetBool("overwrite", &overwrite, NULL));
  if (RengaCommGetRank(comm) == 0 && !overwrite && access(file, F_OK) == 0)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, __func__, __FILE__, __LINE__,
                           "%s is there already: -overwrite replaces it, when the new one is whole",
                           file);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}
