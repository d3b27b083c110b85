/* Optimizer: the learning rate of each step, and clipping by the norm of the whole gradient. */
#include "optimizerimpl.h"
#include "renga/private/optimizer.h"
#include <math.h>
#include <string.h>

/* progress runs from 0 after the warm-up to 1 after the last step. */
static double ShapeConstant(double progress)
{
  (void)progress;
  return 1;
}

static double ShapeLinear(double progress)
{
  return 1 - progress;
}

static double ShapeCosine(double progress)
{
  return 0.5 * (1 + cos(3.14159265358979323846 * progress));
}

static const struct {
  const char *name;
  double (*shape)(double progress);
  bool falls;
} schedules[] = {
    {"constant", ShapeConstant, false},
    {"linear", ShapeLinear, true},
    {"cosine", ShapeCosine, true},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static int ScheduleFind(const char *name)
{
  int i = 0;
  while (i < SCHEDULES && strcmp(name, schedules[i].name) != 0) i++;
  return i;
}

int64_t RengaOptimizerTotalSteps(RengaOptimizer optimizer)
{
  return optimizer->total_steps_option > 0 ? optimizer->total_steps_option : optimizer->total_steps;
}

RengaErrorCode RengaOptimizerCheckSchedule(RengaOptimizer optimizer)
{
  int64_t total = RengaOptimizerTotalSteps(optimizer);
  if (!schedules[ScheduleFind(optimizer->schedule)].falls) return RENGA_SUCCESS;
  RengaCheck(total > 0, optimizer->hdr.comm, RENGA_ERR_ORDER,
             "schedule %s needs the number of steps: set -optimizer_total_steps or call "
             "RengaOptimizerSetTotalSteps",
             optimizer->schedule);
  RengaCheck(optimizer->warmup_steps < total, optimizer->hdr.comm, RENGA_ERR_OPTION,
             "a warm-up of %lld steps leaves none of the %lld steps for schedule %s",
             (long long)optimizer->warmup_steps, (long long)total, optimizer->schedule);
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetSchedule - how the learning rate changes from step to step

   Input:
   . schedule - constant, linear or cosine
   . warmup_steps - w: step s < w (from 0) has (s + 1) / w of the learning rate; 0: none
   . final_ratio - r, the share of the learning rate that is left at the end. After w steps the rate
     falls as r + (1 - r) f(t), with t = (s - w) / (total - w), and then stays r. f is linear, 1 -
     t, or cosine, (1 + cos(pi t)) / 2

   Options:
   . -optimizer_schedule - the schedule
   . -optimizer_warmup_steps - w
   . -optimizer_final_ratio - r

   Errors: RENGA_ERR_ARGUMENT for a schedule that there is not, a negative warm-up, or a ratio
   that is not in 0 to 1.

   Notes: Loshchilov and Hutter, SGDR, 2017, equation 5, with one period.

   See also: RengaOptimizerGetSchedule(), RengaOptimizerSetTotalSteps()
@*/
RengaErrorCode RengaOptimizerSetSchedule(RengaOptimizer optimizer, const char *schedule,
                                         int64_t warmup_steps, double final_ratio)
{
  RengaCheckPointers(optimizer, schedule);
  RengaCheck(ScheduleFind(schedule) < SCHEDULES, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "there is no schedule %s; there are constant, linear, cosine", schedule);
  RengaCheck(warmup_steps >= 0 && final_ratio >= 0 && final_ratio <= 1, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "%lld warm-up steps must be at least 0, a final ratio of %g in 0 to 1",
             (long long)warmup_steps, final_ratio);
  char *copy;
  RengaCall(RengaStringCopy(schedule, &copy));
  RengaFree(&optimizer->schedule);
  optimizer->schedule = copy;
  optimizer->warmup_steps = warmup_steps;
  optimizer->final_ratio = final_ratio;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetSchedule - how the learning rate changes from step to step

   Output:
   . schedule - the schedule's name, lent by the optimizer
   . warmup_steps - the number of warm-up steps, at least 0: see RengaOptimizerSetSchedule()
   . final_ratio - the share of the learning rate at the end, from 0 to 1: see
     RengaOptimizerSetSchedule()
@*/
RengaErrorCode RengaOptimizerGetSchedule(RengaOptimizer optimizer, const char **schedule,
                                         int64_t *warmup_steps, double *final_ratio)
{
  RengaCheckPointers(optimizer, schedule, warmup_steps, final_ratio);
  *schedule = optimizer->schedule;
  *warmup_steps = optimizer->warmup_steps;
  *final_ratio = optimizer->final_ratio;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetLearningRateFunction - a learning rate of the program's own for each step

   Input:
   . optimizer - the optimizer; also between steps
   . function - a function that is given context, the number of the step, from 0, and the learning
     rate of base and schedule. It sets rate to the one that is taken, at least 0. It must do the
     same on all ranks: a step compares. NULL: none
   . context - handed to it; must live as long as the function is set

   Notes: an error that the function returns is an error of the step.

   See also: RengaOptimizerGetLearningRateFunction(), RengaOptimizerSetLearningRate()
@*/
RengaErrorCode RengaOptimizerSetLearningRateFunction(RengaOptimizer optimizer,
                                                     RengaOptimizerRateFunction function,
                                                     void *context)
{
  RengaCheckPointer(optimizer);
  optimizer->rate_function = function;
  optimizer->fixed_steps = 0;
  optimizer->rate_context = context;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetLearningRateFunction - the program's own learning rate

   Output:
   . function - NULL: none
   . context - the pointer that was set with it
@*/
RengaErrorCode RengaOptimizerGetLearningRateFunction(RengaOptimizer optimizer,
                                                     RengaOptimizerRateFunction *function,
                                                     void **context)
{
  RengaCheckPointers(optimizer, function, context);
  *function = optimizer->rate_function;
  *context = optimizer->rate_context;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetLearningRate - the learning rate of a step

   Input:
   . optimizer - set up
   . step - the number of the step, from 0

   Output:
   . rate - the learning rate, at least 0, before the groups' scales

   Errors: RENGA_ERR_ORDER before RengaOptimizerSetUp; RENGA_ERR_ARGUMENT for a negative step, or
   a rate of the program's function that is negative or not finite; the code of that function.

   See also: RengaOptimizerSetLearningRateFunction(), RengaOptimizerSetSchedule()
@*/
RengaErrorCode RengaOptimizerGetLearningRate(RengaOptimizer optimizer, int64_t step, double *rate)
{
  RengaCheckPointers(optimizer, rate);
  RengaCheckState(optimizer, RENGA_STATE_SETUP, "RengaOptimizerSetUp");
  RengaCheck(step >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "step %lld is negative",
             (long long)step);
  int which = ScheduleFind(optimizer->schedule);
  int64_t warmup = optimizer->warmup_steps, total = RengaOptimizerTotalSteps(optimizer);
  double share = 1;
  if (step < warmup)
    share = (double)(step + 1) / (double)warmup;
  else if (schedules[which].falls) {
    double progress = step < total ? (double)(step - warmup) / (double)(total - warmup) : 1;
    share =
        optimizer->final_ratio + (1 - optimizer->final_ratio) * schedules[which].shape(progress);
  }
  double found = optimizer->learning_rate * share;
  if (optimizer->rate_function && optimizer->fixed_steps == step + 1)
    found = optimizer->fixed_rate;
  else if (optimizer->rate_function)
    RengaCall(optimizer->rate_function(optimizer->rate_context, step, found, &found));
  RengaCheck(isfinite(found) && found >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the learning rate of step %lld is %g, not a number of at least 0", (long long)step,
             found);
  *rate = found;
  return RENGA_SUCCESS;
}

/* Asks the program's function afresh; until the next such call the step's rate is what it said. */
RengaErrorCode RengaOptimizerFixLearningRate_Private(RengaOptimizer optimizer, int64_t step,
                                                     double *rate)
{
  optimizer->fixed_steps = 0;
  RengaCall(RengaOptimizerGetLearningRate(optimizer, step, rate));
  optimizer->fixed_rate = *rate;
  optimizer->fixed_steps = step + 1;
  return RENGA_SUCCESS;
}

/* What the gradients are multiplied with, so that their norm is bounded. Collective: all ranks call
   with the same norm. A norm that is no finite number is an error. Pascanu, Mikolov and Bengio, On
   the difficulty of training recurrent neural networks, 2013, algorithm 1. norm: the norm of the
   gradient of all parameters together, at least 0. scale: min(1, clip_norm / norm); 1 without
   clipping. */
RengaErrorCode RengaOptimizerGetScale(RengaOptimizer optimizer, double norm, double *scale)
{
  RengaCheckPointers(optimizer, scale);
  RengaCheck(isfinite(norm), optimizer->hdr.comm, RENGA_ERR_NUMERIC,
             "the norm of the gradient is %g: lower -optimizer_learning_rate, lengthen "
             "-optimizer_warmup_steps or set -optimizer_clip_norm",
             norm);
  bool clips = optimizer->clip_norm > 0 && norm > optimizer->clip_norm;
  *scale = clips ? optimizer->clip_norm / norm : 1;
  return RENGA_SUCCESS;
}
