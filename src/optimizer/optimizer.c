/* Optimizer: how parameters follow from their gradients. */
#include "optimizerimpl.h"

static const RengaTypeRow types[] = {
    {RENGA_OPTIMIZER_SGD, RengaOptimizerCreate_SGD, NULL},
    {RENGA_OPTIMIZER_ADAM, RengaOptimizerCreate_Adam, NULL},
    {RENGA_OPTIMIZER_ADAMW, RengaOptimizerCreate_AdamW, NULL},
    {NULL, NULL, NULL},
};

static RengaErrorCode ResetOptimizer(void *object)
{
  RengaOptimizer optimizer = object;
  if (!optimizer->weight_decay_given) optimizer->weight_decay = 0;
  optimizer->rule = NULL;
  return RENGA_SUCCESS;
}

static const RengaClass optimizers = {"RengaOptimizer", "optimizer_type", types, ResetOptimizer,
                                      RengaOptimizerAdopt};

static RengaErrorCode OptimizerDestroy(void *object)
{
  RengaOptimizer optimizer = object;
  RengaOptimizerFreeGroups(optimizer);
  RengaCall(RengaOptimizerFreeOptions(optimizer));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerRegister - add a type of optimizer from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, the moments it keeps for each
     element of a parameter, and its update

   Errors: a name that another type has.

   Notes: before RengaInitialize, so that -optimizer_type may choose it. The update is called on the
   ranks that hold a parameter, in no order that it may rely on; for results that do not depend on
   the layout it must look at nothing but its task and what is the same on all ranks.

   See also: RengaOptimizerSetType(), RengaDeviceRegister()
@*/
RengaErrorCode RengaOptimizerRegister(const RengaOptimizerRule *rule)
{
  RengaCheckPointer(rule);
  RengaCheck(rule->update && rule->n_moments >= 0 && rule->n_moments <= RENGA_MOMENTS_MOST &&
                 (!rule->n_moments || rule->moment_names),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the optimizer %s needs an update, and a name for each of its %d moments, at most %d",
             rule->name ? rule->name : "without a name", rule->n_moments, RENGA_MOMENTS_MOST);
  RengaCall(RengaClassRegisterType_Private(&optimizers, rule->name, rule));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerCreate - make an optimizer

   Collective

   Output:
   . optimizer - the new optimizer, adamw until told otherwise; RengaOptimizerDestroy() frees it

   See also: RengaOptimizerSetType(), RengaOptimizerSetUp(), RengaOptimizerDestroy()
@*/
RengaErrorCode RengaOptimizerCreate(RengaComm comm, RengaOptimizer *optimizer)
{
  RengaCheckPointers(comm, optimizer);
  RengaOptimizer o;
  RengaCall(RengaHeaderCreate(comm, "RengaOptimizer", sizeof *o, OptimizerDestroy, &o));
  RengaErrorCode code = RengaOptimizerSetDefaults(o);
  if (!code) code = RengaOptimizerSetType(o, o->type_option);
  if (code) RengaHeaderDestroy(&o);
  RengaCall(code);
  *optimizer = o;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetType - choose the rule of the update

   Input:
   . type - sgd, adam, adamw or one of RengaOptimizerRegister

   Options:
   . -optimizer_type - the same

   Errors: RENGA_ERR_SUPPORT for a type that there is not.

   Notes: the weight decay becomes the type's, unless it was set: adamw 0.01, others 0.

   See also: RengaOptimizerGetType(), RengaOptimizerRegister()
@*/
RengaErrorCode RengaOptimizerSetType(RengaOptimizer optimizer, const char *type)
{
  RengaCall(RengaClassSetType_Private(&optimizers, optimizer, type, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetFromOptions - take what the user asked for

   Collective

   Options:
   . -optimizer_type - sgd, adam or adamw (adamw)
   . -optimizer_learning_rate - learning rate before schedule and groups (0.001)
   . -optimizer_weight_decay - L2 for sgd and adam (0), decoupled for adamw (0.01)
   . -optimizer_clip_norm - bound of the norm of the whole gradient (0: none)
   . -optimizer_schedule - constant, linear or cosine (constant)
   . -optimizer_warmup_steps - steps in which the learning rate grows (0)
   . -optimizer_total_steps - length of the schedule (the steps of the run)
   . -optimizer_final_ratio - share of the learning rate that is left after all steps (0)
   . -optimizer_groups - PATTERN:key=value,...;... (RengaOptimizerSetGroups)
   . -optimizer_momentum - sgd (0)
   . -optimizer_nesterov - sgd (false)
   . -optimizer_beta1 - adam, adamw (0.9)
   . -optimizer_beta2 - adam, adamw (0.999)
   . -optimizer_epsilon - adam, adamw (1e-8)

   Errors: RENGA_ERR_OPTION for a bad value, or an option of another type; RENGA_ERR_SUPPORT for
   a type that there is not.

   Notes: an option of another type than the one in use is an error.

   See also: RengaOptimizerSetUp()
@*/
RengaErrorCode RengaOptimizerSetFromOptions(RengaOptimizer optimizer)
{
  bool type_given;
  RengaCheckPointer(optimizer);
  RengaCall(RengaOptimizerReadCommon(optimizer, &type_given));
  if (type_given) RengaCall(RengaOptimizerSetType(optimizer, optimizer->type_option));
  RengaCall(RengaOptimizerReadOfType(optimizer));
  optimizer->groups_parsed = false;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerGetType(RengaOptimizer optimizer, const char **type)
{
  RengaCheckPointers(optimizer, type);
  *type = optimizer->hdr.type_name;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetUp - check that the settings fit each other

   Collective

   Errors: RENGA_ERR_OPTION for settings that do not go together or groups that cannot be read;
   RENGA_ERR_ORDER for a schedule without a number of steps.

   See also: RengaOptimizerSetTotalSteps()
@*/
RengaErrorCode RengaOptimizerSetUp(RengaOptimizer optimizer)
{
  RengaCheckPointer(optimizer);
  if (optimizer->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaCheck(!optimizer->nesterov || optimizer->momentum > 0, optimizer->hdr.comm, RENGA_ERR_OPTION,
             "Nesterov's update needs a momentum: set -optimizer_momentum");
  RengaCall(RengaOptimizerCheckSchedule(optimizer));
  RengaCall(RengaOptimizerCheckSparse(optimizer));
  RengaCall(RengaOptimizerParseGroups(optimizer));
  optimizer->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerDestroy - end an optimizer

   Collective

   Input:
   . optimizer - set to NULL
@*/
RengaErrorCode RengaOptimizerDestroy(RengaOptimizer *optimizer)
{
  RengaCheckPointer(optimizer);
  RengaCall(RengaHeaderDestroy(optimizer));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetMoments - the vectors that the optimizer keeps for each parameter

   Output:
   . count - 0 to 2, each as long as the parameter, zero at the start
   . names - their names in a checkpoint; lent

   See also: RengaOptimizerUpdate()
@*/
RengaErrorCode RengaOptimizerGetMoments(RengaOptimizer optimizer, int *count,
                                        const char *const **names)
{
  RengaCheckPointers(optimizer, count, names);
  RengaCall(optimizer->ops->moments(optimizer, count, names));
  return RENGA_SUCCESS;
}

/* One parameter's update, of vectors that are C's floats. */
static RengaErrorCode DescribeUpdate(RengaOptimizer optimizer, int64_t count, float parameter[],
                                     const float gradient[], float *const moment[],
                                     RengaParameterUpdate *update)
{
  int moments = 0;
  const char *const *names;
  RengaCall(RengaOptimizerGetMoments(optimizer, &moments, &names));
  *update = (RengaParameterUpdate){
      .parameter = {parameter, RENGA_FLOAT32, count},
      .gradient = {(float *)(uintptr_t)gradient, RENGA_FLOAT32, count},
  };
  for (int m = 0; m < moments; m++)
    update->moment[m] = (RengaVector){moment[m], RENGA_FLOAT32, count};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerRehearse_Private(RengaOptimizer optimizer, RengaDevice device,
                                              const RengaParameterUpdate *vectors)
{
  const RengaOptimizerStep step = {.learning_rate = 1e-9, .scale = 1, .number = 2};
  RengaParameterUpdate update = *vectors;
  update.rate_scale = 1;
  update.weight_decay = optimizer->weight_decay;
  RengaCall(optimizer->ops->update(optimizer, device, NULL, &step, 1, &update));
  return RENGA_SUCCESS;
}

/* One step of many parameters. updates: [count] parameters, gradients, as many moments as
   RengaOptimizerGetMoments says, and what RengaOptimizerGetGroup says of each parameter; the table
   is copied. */
RengaErrorCode RengaOptimizerUpdateAll(RengaOptimizer optimizer, RengaDevice device,
                                       RengaStream stream, int64_t step, double scale, int count,
                                       const RengaParameterUpdate updates[])
{
  RengaOptimizerStep all = {.scale = scale, .number = step};
  RengaCheckPointer(optimizer);
  RengaCheckState(optimizer, RENGA_STATE_SETUP, "RengaOptimizerSetUp");
  RengaCall(RengaOptimizerGetLearningRate(optimizer, step, &all.learning_rate));
  if (count > 0) RengaCall(optimizer->ops->update(optimizer, device, stream, &all, count, updates));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerUpdate - one step of one parameter

   Input:
   . optimizer - set up
   . device - holds all vectors
   . stream - the work is queued there
   . name - the parameter's name, for the groups
   . step - number of the step, from 0
   . scale - any finite number: the gradient is read as scale × gradient
   . count - elements, all of them float32
   . gradient - [count], the gradient of the loss of the whole batch

   Input and output:
   . parameter - updated, unless a group freezes it
   . moment - as many as RengaOptimizerGetMoments says

   Errors: RENGA_ERR_ORDER before RengaOptimizerSetUp; RENGA_ERR_SUPPORT where a vector has a
   type that the device does not update.

   See also: RengaOptimizerGetMoments()
@*/
RengaErrorCode RengaOptimizerUpdate(RengaOptimizer optimizer, RengaDevice device,
                                    RengaStream stream, const char *name, int64_t step,
                                    double scale, int64_t count, float parameter[],
                                    const float gradient[], float *const moment[])
{
  RengaParameterUpdate update;
  bool frozen;
  RengaCheckPointers(optimizer, name);
  RengaCheckState(optimizer, RENGA_STATE_SETUP, "RengaOptimizerSetUp");
  RengaCall(DescribeUpdate(optimizer, count, parameter, gradient, moment, &update));
  RengaCall(
      RengaOptimizerGetGroup(optimizer, name, &update.rate_scale, &update.weight_decay, &frozen));
  RengaCall(RengaOptimizerUpdateAll(optimizer, device, stream, step, scale, !frozen, &update));
  return RENGA_SUCCESS;
}
