/* TEST ranks: 1 2 */
/* Example 9: a tool of your own.

   What Renga's own programs are made of is there for others: options with defaults, ranges and
   help; files of keys; errors that say what, where and on which rank; memory that is counted; the
   timeline. This tool reads the description of an experiment and compares the learning rates of two
   optimizers, each of which has options of its own.

     mpiexec -n 2 ./ex9 -teacher_optimizer_learning_rate 0.1 -optimizer_learning_rate 0.01
     ./ex9 -tool_report table.txt -log_view
*/
#include <renga.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char help[] = "Compares the learning rates of a teacher and a pupil.\n";

static const RengaOptionRow options[] = {
    {"tool_report", RENGA_OPTION_STRING, "ex9-report.txt", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "file that the table is written to"},
    {"tool_keep", RENGA_OPTION_BOOL, "no", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "leave the files that the tool wrote"},
};

/* The description of an experiment: a row for each key of its file. */
typedef struct {
  char *name;
  int64_t steps, memory;
  double warmup;
} Experiment;
static const RengaOptionRow keys[] = {
    {"name", RENGA_OPTION_STRING, NULL, offsetof(Experiment, name), NULL, 0, 0,
     "of the experiment"},
    {"steps", RENGA_OPTION_INT64, NULL, offsetof(Experiment, steps), NULL, 1, 1e9,
     "how long it is"},
    {"memory", RENGA_OPTION_BYTES, "1GiB", offsetof(Experiment, memory), NULL, 0, 0, "of a rank"},
    {"warmup", RENGA_OPTION_REAL, "0.1", offsetof(Experiment, warmup), NULL, 0, 1,
     "share of steps"},
};
enum { n_options = sizeof options / sizeof options[0], n_keys = sizeof keys / sizeof keys[0] };
static const char description[] = "ex9-experiment.opts", all_options[] = "ex9-options.opts";

/* Rank 0 writes; all ranks have its error. RengaCheck is for what only one rank finds out. */
static RengaErrorCode WriteOne(const char *name, RengaErrorCode (*write)(FILE *file))
{
  FILE *file = fopen(name, "w");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "cannot write %s", name);
  const RengaErrorCode code = write(file);
  RengaCheck(fclose(file) == 0 && !code, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "cannot write %s",
             name);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteDescription(FILE *file)
{
  fprintf(file, "# What is to be tried.\n-name \"two rates\"\n-steps 50\n-memory 512MiB\n");
  return RENGA_SUCCESS;
}

/* What the user gave, so that the run can be repeated, and then all that could have been given. */
static RengaErrorCode WriteOptions(FILE *file)
{
  RengaCall(RengaOptionsView(file));
  RengaCall(RengaOptionsWriteAll(file));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteFiles(RengaComm comm)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) == 0) code = WriteOne(description, WriteDescription);
  if (RengaCommGetRank(comm) == 0 && !code) code = WriteOne(all_options, WriteOptions);
  RengaCall(RengaErrorAgree(MPI_COMM_WORLD, code));
  return RENGA_SUCCESS;
}

static bool IsOfTool(const char *section, const char *name, void *user)
{
  (void)name;
  return strcmp(section, user) == 0;
}

/* A file with a key that is unknown, missing or out of its range is refused, all of it at once. */
static RengaErrorCode ReadExperiment(Experiment *experiment)
{
  char memory[16];
  RengaCall(RengaOptionsReadTable(MPI_COMM_WORLD, description, n_keys, keys, experiment));
  RengaFormatBytes((double)experiment->memory, sizeof memory, memory);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%s: %lld steps, %g of them to warm up, %s\n",
                        experiment->name, (long long)experiment->steps, experiment->warmup,
                        memory));
  return RENGA_SUCCESS;
}

/* prefix: -teacher_optimizer_learning_rate goes before -optimizer_learning_rate. */
static RengaErrorCode MakeOptimizer(RengaComm comm, const char *prefix,
                                    const Experiment *experiment, RengaOptimizer *optimizer)
{
  const int64_t warmup = (int64_t)(experiment->warmup * (double)experiment->steps);
  RengaCall(RengaOptimizerCreate(comm, optimizer));
  if (prefix) RengaCall(RengaObjectSetOptionsPrefix(*optimizer, prefix));
  RengaCall(RengaOptimizerSetSchedule(*optimizer, "cosine", warmup, 0));
  RengaCall(RengaOptimizerSetTotalSteps(*optimizer, experiment->steps));
  RengaCall(RengaOptimizerSetFromOptions(*optimizer));
  RengaCall(RengaOptimizerSetUp(*optimizer));
  return RENGA_SUCCESS;
}

/* Memory of RengaMalloc is zero, aligned, counted, and an error of RengaFinalize if it is left.
   The timeline of -log_trace gets a bar. */
static RengaErrorCode FindRates(RengaOptimizer optimizer, const char *name, int64_t steps,
                                double **rate, char **title)
{
  char text[64];
  const double begin = MPI_Wtime();
  RengaCall(RengaMalloc(1, rate));
  for (int64_t step = 0; step < steps; step++) {
    RengaCall(RengaRealloc(step + 1, rate)); /* grows as a file does whose end is not known */
    RengaCall(RengaOptimizerGetLearningRate(optimizer, step, &(*rate)[step]));
  }
  snprintf(text, sizeof text, "%s in %lld steps", name, (long long)steps);
  RengaCall(RengaStringCopy(text, title)); /* theirs who asked, by RengaFree */
  RengaLogTrace("tool", text, begin, MPI_Wtime());
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteReport(RengaComm comm, const char *file, int64_t steps,
                                  const char *const title[2], double *const rate[2])
{
  char specification[300];
  RengaViewer viewer;
  snprintf(specification, sizeof specification, "ascii:%s", file);
  RengaCall(RengaViewerCreate(comm, specification, &viewer));
  RengaCall(RengaViewerPrintf(viewer, "step, %s, %s\n", title[0], title[1]));
  for (int64_t step = 0; step < steps; step++)
    RengaCall(RengaViewerPrintf(viewer, "%lld, %.9g, %.9g\n", (long long)step, rate[0][step],
                                rate[1][step]));
  RengaCall(RengaViewerDestroy(&viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode Compare(RengaComm comm, const Experiment *experiment, const char *report)
{
  static const char *const prefix[] = {"teacher_", NULL}, *const name[] = {"teacher", "pupil"};
  double *rate[2];
  char *title[2];
  for (int i = 0; i < 2; i++) {
    RengaOptimizer optimizer;
    RengaCall(MakeOptimizer(comm, prefix[i], experiment, &optimizer));
    RengaCall(FindRates(optimizer, name[i], experiment->steps, &rate[i], &title[i]));
    RengaCall(RengaOptimizerDestroy(&optimizer));
  }
  const char *const titles[] = {title[0], title[1]};
  RengaCall(WriteReport(comm, report, experiment->steps, titles, rate));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "the teacher begins with %g, the pupil with %g\n",
                        rate[0][0], rate[1][0]));
  RengaCheck(rate[0][0] > rate[0][experiment->steps - 1], MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the rate does not fall");
  for (int i = 0; i < 2; i++) {
    RengaFree(&rate[i]);
    RengaFree(&title[i]);
  }
  return RENGA_SUCCESS;
}

/* An error that the program expects: nothing is printed, and the sentence can still be had. */
static RengaErrorCode TryMissing(void)
{
  Experiment none = {0};
  RengaErrorHandler before;
  void *user;
  RengaErrorGetHandler(&before, &user);
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code =
      RengaOptionsReadTable(MPI_COMM_WORLD, "ex9-missing.opts", n_keys, keys, &none);
  RengaErrorSetHandler(before, user);
  if (code == RENGA_SUCCESS)
    RengaRaise(MPI_COMM_WORLD, RENGA_ERR_INTERNAL, "a file that is not there was read");
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "as expected: %s\n", RengaErrorGetMessage()));
  return RENGA_SUCCESS;
}

/* Clocks of several nodes differ: times less zero can be compared. */
static RengaErrorCode SayTime(double zero)
{
  char text[16];
  double mine = MPI_Wtime() - zero, longest = 0;
  RengaCallMPI(MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
  RengaFormatSeconds(longest, sizeof text, text);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "the last rank was done after %s\n", text));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  Experiment experiment = {0};
  const char *report;
  bool keep;
  double zero;
  char section[] = "Tool";
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaLogTraceFindZero(MPI_COMM_WORLD, &zero));
  RengaCall(RengaOptionsGetString("tool_report", &report, NULL));
  RengaCall(RengaOptionsGetBool("tool_keep", &keep, NULL));
  RengaCall(RengaViewerCheckFile(report)); /* before the work, not after it */
  if (RengaCommGetRank(comm) == 0) RengaCall(RengaOptionsHelp(stdout, IsOfTool, section));
  RengaCall(WriteFiles(comm));
  RengaCall(ReadExperiment(&experiment));
  RengaCall(Compare(comm, &experiment, report));
  RengaCall(TryMissing());
  RengaCall(SayTime(zero));
  if (RengaCommGetRank(comm) == 0 && !keep)
    remove(description), remove(all_options), remove(report);
  RengaCall(RengaOptionsFreeStrings(n_keys, keys, &experiment));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  bool answered;
  RengaCallAbort(RengaOptionsRegister("Tool", n_options, options));
  RengaCallAbort(RengaOptionsAddPrefix("teacher_")); /* each option, for the teacher alone */
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
