/* renga data KIND FILES OUT: make a data set. */
#include "app.h"
#include <string.h>

#define ROW(name, kind, value, choices, low, high, text)                                           \
  {                                                                                                \
    name, RENGA_OPTION_##kind, value, RENGA_OPTION_NO_OFFSET, choices, low, high, text             \
  }
static const RengaOptionRow rows[] = {
    ROW("sequence", INT64, "128", NULL, 1, 1e9, "data text: tokens per sample"),
    ROW("data_mean", REAL, "0", NULL, -1e30, 1e30,
        "data idx: subtracted from each number, a byte b counting as b / 255"),
    ROW("data_deviation", REAL, "0", NULL, 0, 1e30,
        "data idx: then divided by; 0: mean and deviation of the training images"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static RengaErrorCode MakeText(const App *app, MPI_Comm printer)
{
  int64_t sequence = 0;
  double validation = 0;
  RengaCall(RengaOptionsGetInt64("sequence", &sequence, NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  RengaCall(RengaDataWriteText(app->comm, app->words[1], app->words[2], sequence, validation));
  RengaCall(RengaPrintf(printer, "wrote %s: samples of %lld bytes and the next one\n",
                        app->words[2], (long long)sequence));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeIdx(const App *app, MPI_Comm printer)
{
  const char *const *files = (const char *const *)app->words + 1,
                    *out = app->words[app->n_words - 1];
  double mean = 0, deviation = 0;
  bool mean_given;
  RengaCall(RengaOptionsGetReal("data_mean", &mean, &mean_given));
  RengaCall(RengaOptionsGetReal("data_deviation", &deviation, NULL));
  RengaCheck(!mean_given || deviation > 0, printer, RENGA_ERR_OPTION,
             "-data_mean %g needs -data_deviation: without it both are measured", mean);
  RengaCall(RengaDataWriteIdx(app->comm, app->n_words - 2, files, out, mean, deviation));
  RengaCall(RengaPrintf(printer, "wrote %s: images and labels%s\n", out,
                        app->n_words == 6 ? ", with a validation part" : ""));
  return RENGA_SUCCESS;
}

static const struct {
  const char *name, *usage;
  int words[2];        /* how many, itself and OUT included */
  const char *options; /* of the rows above, and data_validation */
  RengaErrorCode (*make)(const App *app, MPI_Comm printer);
} kinds[] = {
    {"text", "text IN OUT", {3, 3}, "sequence data_validation", MakeText},
    {"idx", "idx IMAGES LABELS [IMAGES LABELS] OUT", {4, 6}, "data_mean data_deviation", MakeIdx},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static RengaErrorCode FindKind(const char *name, MPI_Comm printer, int *kind)
{
  const char *names[N_KINDS], *closest;
  char list[256] = "";
  size_t used = 0;
  *kind = -1;
  for (int k = 0; k < N_KINDS; k++) {
    names[k] = kinds[k].name;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", names[k]);
    if (!strcmp(names[k], name)) *kind = k;
  }
  closest = RengaClosestName(name, N_KINDS, names);
  RengaCheck(*kind >= 0, printer, RENGA_ERR_OPTION,
             "renga data makes data sets of kind %s, not of kind %s%s%s%s", list, name,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
  return RENGA_SUCCESS;
}

/* Is a word one of those of a list? */
static bool IsListed(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
  return false;
}

/* An option of another kind is a mistake. */
static RengaErrorCode CheckOptions(int kind, MPI_Comm printer)
{
  for (int r = 0; r <= N_ROWS; r++) {
    const char *option = r < N_ROWS ? rows[r].name : "data_validation", *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(option, &value, &given));
    RengaCheck(!given || IsListed(kinds[kind].options, option), printer, RENGA_ERR_OPTION,
               "renga data %s does not use -%s", kinds[kind].name, option);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppDataRegister(void)
{
  RengaCall(RengaOptionsRegister("Making data sets", N_ROWS, rows));
  return RENGA_SUCCESS;
}

/* Another command was given an option of the rows above. */
RengaErrorCode AppDataRefuseOptions(RengaComm comm, const char *command)
{
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  for (int r = 0; r < N_ROWS; r++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(rows[r].name, &value, &given));
    RengaCheck(!given, printer, RENGA_ERR_OPTION, "renga %s does not use -%s: it is for renga data",
               command, rows[r].name);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppData(const App *app)
{
  MPI_Comm printer;
  int kind;
  RengaCall(RengaObjectGetComm(app->comm, &printer));
  RengaCall(FindKind(app->words[0], printer, &kind));
  RengaCheck(app->n_words >= kinds[kind].words[0], printer, RENGA_ERR_OPTION,
             "renga data %s: some word is missing; usage: renga data %s", kinds[kind].name,
             kinds[kind].usage);
  RengaCheck(app->n_words <= kinds[kind].words[1], printer, RENGA_ERR_OPTION,
             "renga data %s: what is \"%s\" for? usage: renga data %s", kinds[kind].name,
             app->words[kinds[kind].words[1]], kinds[kind].usage);
  RengaCall(CheckOptions(kind, printer));
  RengaCall(kinds[kind].make(app, printer));
  return RENGA_SUCCESS;
}
