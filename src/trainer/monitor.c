/* What monitors are told. */
#include "trainerimpl.h"
#include "renga/private/number.h"
#include <stdarg.h>

/*@
   RengaTrainerAddMonitor - be told of a run

   Input:
   . monitor - functions that every rank calls; copied

   Errors: RENGA_ERR_SUPPORT for more than 8.

   Notes: an error that a function returns on one rank ends the run on all. A step whose numbers it
   was told of is done and counts.

   See also: RengaTrainerRun(), RengaTrainerGetStatus()
@*/
RengaErrorCode RengaTrainerAddMonitor(RengaTrainer trainer, const RengaTrainerMonitor *monitor)
{
  RengaCheckPointers(trainer, monitor);
  RengaCheck(trainer->n_monitors < RENGA_TRAINER_MONITORS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a trainer has at most %d monitors", RENGA_TRAINER_MONITORS);
  trainer->monitor[trainer->n_monitors++] = *monitor;
  return RENGA_SUCCESS;
}

/* An error of one rank is that of all, which may end a checkpoint under way. */
static RengaErrorCode AgreeOnTold(RengaTrainer trainer, RengaErrorCode code)
{
  code = RengaErrorAgree(trainer->hdr.comm, code);
  if (code && code != RENGA_ERR_TIMEOUT && code != RENGA_ERR_LIBRARY)
    trainer->status.failed = trainer->saves;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Calls a member of each monitor that has it. */
#define TELL(member, ...)                                                                          \
  RengaErrorCode code = RENGA_SUCCESS;                                                             \
  bool told = false;                                                                               \
  for (int m = 0; m < trainer->n_monitors; m++) {                                                  \
    const RengaTrainerMonitor *one = &trainer->monitor[m];                                         \
    told = told || one->member;                                                                    \
    if (one->member && !code) code = one->member(one->user, __VA_ARGS__);                          \
  }                                                                                                \
  if (told) RengaCall(AgreeOnTold(trainer, code))

RengaErrorCode RengaTrainerSay(RengaTrainer trainer, const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  TELL(say, text);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerTellBegin(RengaTrainer trainer, int64_t step)
{
  TELL(begin_step, step);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerTellStep(RengaTrainer trainer, RengaTrainerRow *row)
{
  RengaOptimizer optimizer;
  RengaCall(RengaPipelineGetOptimizer(trainer->parts.pipeline, &optimizer));
  RengaCall(RengaOptimizerGetLearningRate(optimizer, row->step, &row->learning_rate));
  TELL(step, row);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerTellProgress(RengaTrainer trainer, const RengaTrainerProgress *progress)
{
  TELL(evaluating, progress);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerTellLoss(RengaTrainer trainer, double loss)
{
  TELL(evaluated, loss, trainer->status.step, trainer->parts.eval_samples);
  return RENGA_SUCCESS;
}
