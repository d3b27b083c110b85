/* Optimizer types from outside: a rule that a program registered. */
#include "optimizerimpl.h"
#include "renga/private/quiet.h"

/* A rule of a program gets floats. */
static RengaErrorCode CheckFloats(const RengaOptimizerRule *rule,
                                  const RengaParameterUpdate *update)
{
  bool floats = update->parameter.type == RENGA_FLOAT32 && update->gradient.type == RENGA_FLOAT32;
  for (int m = 0; m < rule->n_moments; m++)
    floats = floats && update->moment[m].type == RENGA_FLOAT32;
  RengaCheck(floats && !update->value.data, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the optimizer %s is from outside: it updates float32 parameters by float32 gradients "
             "and moments, and writes no values of another type beside them",
             rule->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateOneOutside(RengaOptimizer optimizer, const RengaOptimizerStep *step,
                                       const RengaParameterUpdate *update)
{
  float *moment[RENGA_MOMENTS_MOST];
  RengaCall(CheckFloats(optimizer->rule, update));
  for (int m = 0; m < RENGA_MOMENTS_MOST; m++) moment[m] = update->moment[m].data;
  const RengaOptimizerTask task = {.learning_rate = step->learning_rate * update->rate_scale,
                                   .weight_decay = update->weight_decay,
                                   .scale = step->scale,
                                   .step = step->number,
                                   .count = update->parameter.count,
                                   .parameter = update->parameter.data,
                                   .gradient = update->gradient.data,
                                   .moment = moment};
  const int64_t errors = RengaErrorCount_Private();
  const RengaErrorCode code = optimizer->rule->update(&task, optimizer->rule->user);
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "the update of the optimizer %s, a rule of the program, returned %d for %lld elements "
             "in step %lld",
             optimizer->rule->name, (int)code, (long long)task.count, (long long)task.step);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateOutside(RengaOptimizer optimizer, RengaDevice device,
                                    RengaStream stream, const RengaOptimizerStep *step, int count,
                                    const RengaParameterUpdate updates[])
{
  (void)stream;
  RengaCheck(RengaDeviceIsHost(device), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the optimizer %s is from outside, and updates parameters in the host's memory only",
             optimizer->rule->name);
  for (int i = 0; i < count; i++) RengaCall(UpdateOneOutside(optimizer, step, &updates[i]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MomentsOfOutside(RengaOptimizer optimizer, int *count,
                                       const char *const **names)
{
  *count = optimizer->rule->n_moments;
  *names = optimizer->rule->moment_names;
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewOutside(RengaOptimizer optimizer, RengaViewer viewer)
{
  return RengaViewerPrintf(viewer, "  a rule of the program with %d moments\n",
                           optimizer->rule->n_moments);
}

RengaErrorCode RengaOptimizerAdopt(void *object, const void *rule)
{
  RengaOptimizer optimizer = object;
  optimizer->rule = rule;
  optimizer->ops->update = UpdateOutside;
  optimizer->ops->moments = MomentsOfOutside;
  optimizer->ops->view = ViewOutside;
  return RENGA_SUCCESS;
}

bool RengaOptimizerIsOutside_Private(RengaOptimizer optimizer)
{
  return optimizer->rule != NULL;
}
