/* The command line of renga run. Its options are its own, since those of the library come with MPI,
   and end where the command begins. */
#include "supervisor.h"
#include "renga/private/number.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum { WORD_COUNT, WORD_SECONDS, WORD_TEXT, WORD_FLAG } RunOptionKind;
typedef struct {
  const char *name, *what, *text, *value; /* what: of its value; value: the default */
  RunOptionKind kind;
  size_t offset;
  double least, most;
} RunOption;

#define RUN_OPTION(name, what, value, kind, member, least, most, text)                             \
  {                                                                                                \
    name, what, text, value, WORD_##kind, offsetof(SupervisorOptions, member), least, most         \
  }
static const RunOption run_options[] = {
    RUN_OPTION("n", "RANKS", "0", COUNT, ranks, 0, 1 << 24, "ranks; 0: as many as the hosts take"),
    RUN_OPTION("hosts", "FILE", NULL, TEXT, hosts, 0, 0, "file of hosts, a line NAME:RANKS each"),
    RUN_OPTION("least", "RANKS", "1", COUNT, least, 1, 1 << 24,
               "fewest ranks to go on with where hosts are lost"),
    RUN_OPTION("launcher", "COMMAND", NULL, TEXT, launcher, 0, 0,
               "what starts ranks: mpiexec, in a Slurm job srun, or \"srun --mpi=pmi2\""),
    RUN_OPTION("remote", "COMMAND", NULL, TEXT, remote, 0, 0,
               "what runs a command on a host: ssh, or in a Slurm job srun"),
    RUN_OPTION("starts", "N", "3", COUNT, starts, 1, 1e6,
               "give up after so many starts in a row without a new step"),
    RUN_OPTION("stall", "SECONDS", "900", SECONDS, stall, 0, 1e9,
               "seconds without a step after which all ranks are restarted; 0: never"),
    RUN_OPTION("leave", "SECONDS", "600", SECONDS, leave, 1, 1e9,
               "seconds for the last checkpoint of a run that must leave"),
    RUN_OPTION("probe", "SECONDS", "10", SECONDS, probe, 0.1, 1e6,
               "seconds that a host has to answer before it is left out"),
    RUN_OPTION("back", "SECONDS", "60", SECONDS, back, 0, 1e9,
               "seconds between questions to a host that was left out"),
    RUN_OPTION("warning", "FILE", NULL, TEXT, warning, 0, 0,
               "file that names hosts about to go away: the run leaves them"),
    RUN_OPTION("requeue", NULL, "false", FLAG, requeue, 0, 0,
               "put a Slurm job with steps to go into the queue again"),
    RUN_OPTION("events", "FILE", NULL, TEXT, events, 0, 0,
               "file that gets a row of JSON for each event"),
};
enum {
  RUN_OPTIONS = sizeof run_options / sizeof run_options[0],
  HELP_INDENT = 37,
  HELP_WIDTH = 80
};

static const char usage[] =
    "usage: renga run [options] -- COMMAND\n"
    "\n"
    "Starts COMMAND, such as renga train or python3 train.py, on ranks, and again\n"
    "where it crashes or hangs, from its newest checkpoint.\n"
    "\n"
    "Supervision\n";

/* Words of a text in lines of at most HELP_WIDTH letters, behind so many blanks. */
static void PrintHelpWords(const char *text, int indent, int column)
{
  for (; *text; text += strspn(text, " ")) {
    const int length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > HELP_WIDTH) {
      printf("\n");
      column = 0;
    }
    if (column < indent)
      column += printf("%*s", indent - column, "");
    else
      column += printf(" ");
    column += printf("%.*s", length, text);
    text += length;
  }
  printf("\n");
}

static void FormatValues(const RunOption *option, size_t size, char text[])
{
  static const char *const kinds[] = {
      [WORD_COUNT] = "int", [WORD_SECONDS] = "real", [WORD_TEXT] = "text", [WORD_FLAG] = "bool"};
  int used = snprintf(text, size, "%s", kinds[option->kind]);
  if (option->most > 0)
    used += RengaTextFormat(text + used, size - (size_t)used, ", %.9g to %.9g", option->least,
                            option->most);
  if (option->value) snprintf(text + used, size - (size_t)used, "; default %s", option->value);
}

/* As that of other commands. */
static void PrintHelp(void)
{
  printf("%s", usage);
  for (int i = 0; i < RUN_OPTIONS; i++) {
    const RunOption *option = &run_options[i];
    char values[128];
    FormatValues(option, sizeof values, values);
    PrintHelpWords(option->text, HELP_INDENT, printf("  -%s ", option->name));
    PrintHelpWords(values, HELP_INDENT + 2, 0);
  }
}

static RengaErrorCode PlaceValue(const RunOption *option, const char *text,
                                 SupervisorOptions *options)
{
  void *place = (char *)options + option->offset;
  char *end = NULL;
  if (option->kind == WORD_TEXT) {
    RengaCheck(*text, MPI_COMM_SELF, RENGA_ERR_OPTION, "renga run -%s: its value is empty",
               option->name);
    *(const char **)place = text;
    return RENGA_SUCCESS;
  }
  const double number = RengaReadReal(text, &end);
  const bool whole = option->kind == WORD_SECONDS || number == (double)(int64_t)number;
  RengaCheck(
      end != text && *end == '\0' && number >= option->least && number <= option->most && whole,
      MPI_COMM_SELF, RENGA_ERR_OPTION, "renga run -%s %s: write a%s number of %.9g to %.9g",
      option->name, text, option->kind == WORD_COUNT ? " whole" : "", option->least, option->most);
  if (option->kind == WORD_COUNT)
    *(int64_t *)place = (int64_t)number;
  else
    *(double *)place = number;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindRunOption(const char *word, const RunOption **option)
{
  const char *names[RUN_OPTIONS], *name = word + 1 + (word[1] == '-');
  *option = NULL;
  for (int i = 0; i < RUN_OPTIONS; i++) {
    names[i] = run_options[i].name;
    if (strcmp(name, names[i]) == 0) *option = &run_options[i];
  }
  const char *closest = RengaClosestName(name, RUN_OPTIONS, names);
  RengaCheck(*option, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "renga run has no option %s%s%s%s; options of the command come behind it, as in "
             "renga run -n 4 -- renga train -steps 10",
             word, closest ? "; did you mean -" : "", closest ? closest : "", closest ? "?" : "");
  return RENGA_SUCCESS;
}

/* From word i on. next: the word behind what was taken. */
static RengaErrorCode TakeRunOption(int argc, char **argv, int i, SupervisorOptions *options,
                                    int *next)
{
  const RunOption *option;
  RengaCall(FindRunOption(argv[i], &option));
  *next = i + 1;
  if (option->kind == WORD_FLAG) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    const bool no = strcmp(value, "false") == 0;
    *(bool *)((char *)options + option->offset) = !no;
    if (no || strcmp(value, "true") == 0) *next = i + 2;
    return RENGA_SUCCESS;
  }
  RengaCheck(i + 1 < argc, MPI_COMM_SELF, RENGA_ERR_OPTION, "renga run %s needs a value: %s %s",
             argv[i], argv[i], option->what);
  RengaCall(PlaceValue(option, argv[i + 1], options));
  *next = i + 2;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRunOptions(const SupervisorOptions *options)
{
  RengaCheck(options->n_words > 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "renga run: which command? As in renga run -n 4 -- renga train -graph net.onnx ...");
  return RENGA_SUCCESS;
}

RengaErrorCode SupervisorReadOptions(int argc, char **argv, SupervisorOptions *options, bool *help)
{
  int i = 2;
  *options = (SupervisorOptions){.command = argv + argc};
  *help = false;
  for (int o = 0; o < RUN_OPTIONS; o++)
    if (run_options[o].value && run_options[o].kind != WORD_FLAG)
      RengaCall(PlaceValue(&run_options[o], run_options[o].value, options));
  while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
    if (!strcmp(argv[i], "-help") || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      PrintHelp();
      *help = true;
      return RENGA_SUCCESS;
    }
    RengaCall(TakeRunOption(argc, argv, i, options, &i));
  }
  if (i < argc && strcmp(argv[i], "--") == 0) i++;
  options->command = argv + i;
  options->n_words = argc - i;
  RengaCall(CheckRunOptions(options));
  return RENGA_SUCCESS;
}
