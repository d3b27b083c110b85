/* renga eval: the loss of a network over a data set, or its answers to questions. */
#include "text.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <math.h>
#include <string.h>

static const char eval_header[] = "initial,step,part,samples,loss,perplexity,accuracy";

typedef struct {
  AppForward forward;
  AppAccuracy accuracy;
  FILE *file; /* of -monitor, on rank 0 */
  int64_t samples;
  double loss, perplexity; /* perplexity 0: there is none */
} Evaluation;

/* Rows are added to a file of this command, so that several checkpoints make a table. */
static RengaErrorCode OpenEvaluations(const char *name, FILE **file)
{
  char line[sizeof eval_header + 1] = "";
  *file = RengaFileOpen_Private(name, "a+");
  RengaCheck(*file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor csv:%s: %s", name,
             RengaFileReason_Private(errno));
  rewind(*file);
  const bool begun = fgets(line, sizeof line, *file) != NULL;
  fseek(*file, 0, SEEK_END); /* between reading and writing C wants a new place */
  if (begun) {
    line[strcspn(line, "\n")] = '\0';
    RengaCheck(strcmp(line, eval_header) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "-monitor csv:%s: the file is there, but not one of renga eval: it does not begin "
               "with %s",
               name, eval_header);
  } else {
    fprintf(*file, "%s\n", eval_header);
  }
  return RENGA_SUCCESS;
}

/* Before any work. */
static RengaErrorCode OpenEvaluationMonitor(Evaluation *evaluation)
{
  const AppForward *forward = &evaluation->forward;
  RengaErrorCode code = RENGA_SUCCESS;
  const char *name;
  RengaCall(RengaOptionsGetString("monitor", &name, NULL));
  if (!name) return RENGA_SUCCESS;
  RengaCheck(!strncmp(name, "csv:", 4) && name[4], forward->printer, RENGA_ERR_OPTION,
             "-monitor %s: write csv:FILE", name);
  if (RengaCommGetRank(forward->comm) == 0) code = OpenEvaluations(name + 4, &evaluation->file);
  RengaCall(RengaErrorAgree(forward->printer, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode CountAnswered(void *user, const RengaTrainerProgress *progress)
{
  Evaluation *evaluation = user;
  if (progress->batch)
    RengaCall(AppAccuracyAdd(&evaluation->accuracy, evaluation->forward.comm,
                             evaluation->forward.pipeline, progress->batch));
  return RENGA_SUCCESS;
}

static RengaErrorCode EvaluateParts(Evaluation *evaluation)
{
  const AppForward *forward = &evaluation->forward;
  const RengaTrainerMonitor monitor = {.evaluating = CountAnswered, .user = evaluation};
  RengaTrainer trainer;
  RengaCall(RengaTrainerCreate(forward->comm, &trainer));
  RengaCall(RengaTrainerAddMonitor(trainer, &monitor));
  RengaCall(RengaTrainerSetData(trainer, forward->graph, forward->data));
  RengaCall(RengaTrainerSetPipeline(trainer, forward->pipeline, forward->batch));
  RengaCall(RengaTrainerSetUp(trainer));
  AppAccuracyBegin(&evaluation->accuracy);
  RengaCall(RengaTrainerEvaluate(trainer, forward->samples, &evaluation->loss));
  RengaCall(RengaTrainerDestroy(&trainer));
  for (int p = 0; p <= RENGA_DATA_VALIDATION; p++) evaluation->samples += forward->samples[p];
  evaluation->perplexity = AppPerplexity(&forward->fields, &evaluation->accuracy, evaluation->loss);
  return RENGA_SUCCESS;
}

/* A name as a cell of a table: in quotes, those within it twice. */
static void PutQuoted(FILE *file, const char *text)
{
  fputc('"', file);
  for (; *text; text++) {
    if (*text == '"') fputc('"', file);
    fputc(*text, file);
  }
  fputc('"', file);
}

/* What there is none of is an empty cell. */
static RengaErrorCode WriteEvaluation(const Evaluation *evaluation)
{
  FILE *file = evaluation->file;
  const AppAccuracy *accuracy = &evaluation->accuracy;
  const char *initial;
  RengaCall(RengaOptionsGetString("initial", &initial, NULL));
  PutQuoted(file, initial ? initial : "");
  RengaFilePrint(file, ",%lld,%s,%lld,%.17g,", (long long)evaluation->forward.step,
                 evaluation->forward.part, (long long)evaluation->samples, evaluation->loss);
  if (evaluation->perplexity > 0) RengaFilePrint(file, "%.9g", evaluation->perplexity);
  fputc(',', file);
  if (accuracy->counted > 0) RengaFilePrint(file, "%.9g", accuracy->right / accuracy->counted);
  fputc('\n', file);
  RengaCheck(fflush(file) == 0 && !ferror(file), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "the row of -monitor could not be written: %s", RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

/* On rank 0, where -monitor is given. */
static RengaErrorCode KeepEvaluation(const Evaluation *evaluation, const char *of)
{
  const AppForward *forward = &evaluation->forward;
  const RengaErrorCode code = evaluation->file ? WriteEvaluation(evaluation) : RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(forward->printer, code));
  RengaCheck(isfinite(evaluation->loss), forward->printer, RENGA_ERR_NUMERIC,
             "the loss over the %s is not finite", of);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReportEvaluation(const Evaluation *evaluation)
{
  const AppForward *forward = &evaluation->forward;
  char perplexity[64] = "", accuracy[64] = "";
  if (evaluation->perplexity > 0)
    RengaTextFormat(perplexity, sizeof perplexity, " perplexity %.5g", evaluation->perplexity);
  if (evaluation->accuracy.counted > 0)
    RengaTextFormat(accuracy, sizeof accuracy, " accuracy %.2f %%",
                    100 * evaluation->accuracy.right / evaluation->accuracy.counted);
  RengaCall(RengaPrintf(forward->printer, "loss %.9g%s%s over %lld samples (%s)\n",
                        evaluation->loss, perplexity, accuracy, (long long)evaluation->samples,
                        forward->part));
  RengaCall(KeepEvaluation(evaluation, "samples"));
  return RENGA_SUCCESS;
}

/* -eval_samples: the first of those that were chosen. */
static RengaErrorCode LimitSamples(AppForward *forward)
{
  int64_t most;
  RengaCall(RengaOptionsGetInt64("eval_samples", &most, NULL));
  for (int p = 0; p <= RENGA_DATA_VALIDATION && most > 0; p++) {
    if (forward->samples[p] > most) forward->samples[p] = most;
    most -= forward->samples[p];
    if (most == 0 && p == RENGA_DATA_TRAINING) forward->samples[RENGA_DATA_VALIDATION] = 0;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EvaluateData(Evaluation *evaluation)
{
  AppForward *forward = &evaluation->forward;
  static const char *const unused[] = {"vocabulary_file", "output"};
  for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
    RengaCall(AppRefuseUnused(forward->printer, unused[i], "it is for -eval_choices"));
  RengaCall(AppForwardOpen(forward->comm, true, NULL, forward));
  RengaCall(LimitSamples(forward));
  RengaCall(AppAccuracyCreate(forward->graph, &forward->fields, &evaluation->accuracy));
  RengaCall(AppForwardSetUp(forward));
  RengaCall(EvaluateParts(evaluation));
  RengaCall(ReportEvaluation(evaluation));
  AppAccuracyDestroy(&evaluation->accuracy);
  RengaCall(AppForwardDestroy(forward));
  return RENGA_SUCCESS;
}

static RengaErrorCode EvaluateQuestions(Evaluation *evaluation, const char *file)
{
  AppForward *forward = &evaluation->forward;
  AppChoices found;
  RengaCall(AppEvaluateChoices(forward->comm, file, &found));
  const double share = 100 / (double)found.questions;
  forward->step = found.step;
  forward->part = "choices";
  evaluation->samples = found.questions;
  evaluation->loss = found.loss;
  evaluation->perplexity = exp(found.loss);
  evaluation->accuracy = (AppAccuracy){.right = found.right, .counted = (double)found.questions};
  RengaCall(RengaPrintf(forward->printer,
                        "accuracy %.2f %%, by length %.2f %%, of the right answers loss %.9g "
                        "perplexity %.5g over %lld questions\n",
                        share * found.right, share * found.right_by_length, found.loss,
                        evaluation->perplexity, (long long)found.questions));
  RengaCall(KeepEvaluation(evaluation, "right answers"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppEval(const App *app)
{
  Evaluation evaluation = {.forward = {.comm = app->comm}};
  const char *questions;
  RengaCall(RengaObjectGetComm(app->comm, &evaluation.forward.printer));
  RengaCall(RengaOptionsGetString("eval_choices", &questions, NULL));
  RengaCall(OpenEvaluationMonitor(&evaluation));
  RengaCall(questions ? EvaluateQuestions(&evaluation, questions) : EvaluateData(&evaluation));
  if (evaluation.file) fclose(evaluation.file);
  return RENGA_SUCCESS;
}
