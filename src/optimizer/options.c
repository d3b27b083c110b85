/* Optimizer: its settings, their options, and its view. */
#include "optimizerimpl.h"
#include "renga/private/optimizer.h"
#include "renga/private/packages.h"
#include <string.h>

#define AT(member) offsetof(struct _p_RengaOptimizer, member)
#define LARGE 1e300
#define BELOW_ONE 0.9999999999999999

static const RengaOptionRow general_rows[] = {
    {"optimizer_type", RENGA_OPTION_STRING, "adamw", AT(type_option), "sgd|adam|adamw", 0, 0,
     "optimizer, by which parameters follow from gradients"},
    {"optimizer_learning_rate", RENGA_OPTION_REAL, "0.001", AT(learning_rate), NULL, 0, LARGE,
     "learning rate before schedule and groups"},
    {"optimizer_weight_decay", RENGA_OPTION_REAL, "0.01", AT(weight_decay), NULL, 0, LARGE,
     "decoupled for adamw; L2 for sgd and adam, whose default is 0"},
    {"optimizer_clip_norm", RENGA_OPTION_REAL, "0", AT(clip_norm), NULL, 0, LARGE,
     "clip the norm of the whole gradient to this; 0: no clipping"},
    {"optimizer_schedule", RENGA_OPTION_STRING, "constant", AT(schedule), "constant|linear|cosine",
     0, 0, "decay of the learning rate after the warm-up"},
    {"optimizer_warmup_steps", RENGA_OPTION_INT64, "0", AT(warmup_steps), NULL, 0, 1e15,
     "warm-up: steps in which the learning rate grows from zero"},
    {"optimizer_total_steps", RENGA_OPTION_INT64, "0", AT(total_steps_option), NULL, 0, 1e15,
     "length of the schedule; 0: the steps of the run"},
    {"optimizer_final_ratio", RENGA_OPTION_REAL, "0", AT(final_ratio), NULL, 0, 1,
     "learning rate after all steps, as a share of the base rate"},
    {"optimizer_groups", RENGA_OPTION_STRING, NULL, AT(groups_text), NULL, 0, 0,
     "PATTERN:key=value,...;... with keys learning_rate_scale, weight_decay, frozen"},
    {"optimizer_sparse", RENGA_OPTION_ENUM, "off", AT(sparse), "off|lazy|exact", 0, 0,
     "gradients of the embedding rows that are read; lazy: update these alone"},
};
static const RengaOptionRow sgd_rows[] = {
    {"optimizer_momentum", RENGA_OPTION_REAL, "0", AT(momentum), NULL, 0, BELOW_ONE,
     "sgd: momentum, the share of the last update that is kept"},
    {"optimizer_nesterov", RENGA_OPTION_BOOL, "false", AT(nesterov), NULL, 0, 0,
     "sgd: Nesterov's momentum"},
};
static const RengaOptionRow adam_rows[] = {
    {"optimizer_beta1", RENGA_OPTION_REAL, "0.9", AT(beta1), NULL, 0, BELOW_ONE,
     "adam, adamw: decay of the first moment, the average of gradients"},
    {"optimizer_beta2", RENGA_OPTION_REAL, "0.999", AT(beta2), NULL, 0, BELOW_ONE,
     "adam, adamw: decay of the second moment, the average of their squares"},
    {"optimizer_epsilon", RENGA_OPTION_REAL, "1e-8", AT(epsilon), NULL, 1e-300, LARGE,
     "adam, adamw: added to the root of the second moment"},
};

#define ROWS(rows) sizeof(rows) / sizeof *(rows), rows
static const struct {
  const char *types[4]; /* that have these options */
  int count;
  const RengaOptionRow *rows;
} sections[] = {
    {{RENGA_OPTIMIZER_SGD, RENGA_OPTIMIZER_ADAM, RENGA_OPTIMIZER_ADAMW, NULL}, ROWS(general_rows)},
    {{RENGA_OPTIMIZER_SGD, NULL}, ROWS(sgd_rows)},
    {{RENGA_OPTIMIZER_ADAM, RENGA_OPTIMIZER_ADAMW, NULL}, ROWS(adam_rows)},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

RengaErrorCode RengaOptimizerRegisterPackage(void)
{
  for (int i = 0; i < SECTIONS; i++)
    RengaCall(RengaOptionsRegister("Optimizer", sections[i].count, sections[i].rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerSetDefaults(RengaOptimizer optimizer)
{
  for (int i = 0; i < SECTIONS; i++)
    RengaCall(RengaOptionsSetDefaults(sections[i].count, sections[i].rows, optimizer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerFreeOptions(RengaOptimizer optimizer)
{
  for (int i = 0; i < SECTIONS; i++)
    RengaCall(RengaOptionsFreeStrings(sections[i].count, sections[i].rows, optimizer));
  return RENGA_SUCCESS;
}

static RengaErrorCode OptionIsGiven(RengaOptimizer optimizer, const char *name, bool *given)
{
  char full[256];
  const char *value;
  const char *prefix = optimizer->hdr.prefix ? optimizer->hdr.prefix : "";
  snprintf(full, sizeof full, "%s%s", prefix, name);
  RengaCall(RengaOptionsGetString(full, &value, given));
  if (!*given && *prefix) RengaCall(RengaOptionsGetString(name, &value, given));
  return RENGA_SUCCESS;
}

static bool SectionFits(int section, const char *type)
{
  if (section == 0) return true; /* of all types, those from outside too */
  for (const char *const *t = sections[section].types; *t != NULL; t++)
    if (strcmp(*t, type) == 0) return true;
  return false;
}

/* The options of other types must not have been given. */
static RengaErrorCode RefuseSection(RengaOptimizer optimizer, int section)
{
  for (int i = 0; i < sections[section].count; i++) {
    bool given;
    const char *name = sections[section].rows[i].name;
    RengaCall(OptionIsGiven(optimizer, name, &given));
    RengaCheck(!given, optimizer->hdr.comm, RENGA_ERR_OPTION,
               "-%s is an option of type %s%s%s; -optimizer_type is %s", name,
               sections[section].types[0], sections[section].types[1] ? " and " : "",
               sections[section].types[1] ? sections[section].types[1] : "",
               optimizer->hdr.type_name);
  }
  return RENGA_SUCCESS;
}

/* Those of all types; whether the type was given among them. */
RengaErrorCode RengaOptimizerReadCommon(RengaOptimizer optimizer, bool *type_given)
{
  bool decay_given;
  RengaCall(OptionIsGiven(optimizer, "optimizer_type", type_given));
  RengaCall(OptionIsGiven(optimizer, "optimizer_weight_decay", &decay_given));
  RengaCall(RengaOptionsSetFromDatabase(optimizer->hdr.prefix, sections[0].count, sections[0].rows,
                                        optimizer));
  if (decay_given) optimizer->weight_decay_given = true;
  return RENGA_SUCCESS;
}

/* Those of its type; those of others are refused. */
RengaErrorCode RengaOptimizerReadOfType(RengaOptimizer optimizer)
{
  for (int i = 1; i < SECTIONS; i++) {
    if (SectionFits(i, optimizer->hdr.type_name))
      RengaCall(RengaOptionsSetFromDatabase(optimizer->hdr.prefix, sections[i].count,
                                            sections[i].rows, optimizer));
    else
      RengaCall(RefuseSection(optimizer, i));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetLearningRate - the learning rate before schedule and groups

   Input:
   . rate - the learning rate, at least 0; it may be changed between steps

   Options:
   . -optimizer_learning_rate - the same

   Errors: RENGA_ERR_ARGUMENT for a rate that is negative or not finite.

   See also: RengaOptimizerGetBaseLearningRate(), RengaOptimizerSetSchedule()
@*/
RengaErrorCode RengaOptimizerSetLearningRate(RengaOptimizer optimizer, double rate)
{
  RengaCheckPointer(optimizer);
  RengaCheck(rate >= 0 && rate <= LARGE, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a learning rate of %g is not a number of at least 0", rate);
  optimizer->learning_rate = rate;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetBaseLearningRate - the learning rate before schedule and groups

   Output:
   . rate - the rate, at least 0, that RengaOptimizerSetLearningRate or -optimizer_learning_rate
     said

   See also: RengaOptimizerSetLearningRate(), RengaOptimizerGetLearningRate()
@*/
RengaErrorCode RengaOptimizerGetBaseLearningRate(RengaOptimizer optimizer, double *rate)
{
  RengaCheckPointers(optimizer, rate);
  *rate = optimizer->learning_rate;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetTotalSteps - the length of the schedule where the user gave none

   Input:
   . steps - steps of the whole training, at least 0, also those before a resumed run

   Options:
   . -optimizer_total_steps - stands above this

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaOptimizerGetTotalSteps(), RengaOptimizerSetSchedule()
@*/
RengaErrorCode RengaOptimizerSetTotalSteps(RengaOptimizer optimizer, int64_t steps)
{
  RengaCheckPointer(optimizer);
  RengaCheck(steps >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%lld steps are fewer than 0",
             (long long)steps);
  optimizer->total_steps = steps;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetTotalSteps - the length of the schedule

   Output:
   . steps - the steps of -optimizer_total_steps, or else of RengaOptimizerSetTotalSteps; 0: neither
     was given
@*/
RengaErrorCode RengaOptimizerGetTotalSteps(RengaOptimizer optimizer, int64_t *steps)
{
  RengaCheckPointers(optimizer, steps);
  *steps = RengaOptimizerTotalSteps(optimizer);
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetWeightDecay - pull parameters towards 0

   Input:
   . weight_decay - L2 for sgd and adam (added to the gradient), decoupled for adamw; at least 0

   Options:
   . -optimizer_weight_decay - the same

   Errors: RENGA_ERR_ARGUMENT for a decay that is negative or not finite.

   See also: RengaOptimizerGetWeightDecay(), RengaOptimizerSetGroups()
@*/
RengaErrorCode RengaOptimizerSetWeightDecay(RengaOptimizer optimizer, double weight_decay)
{
  RengaCheckPointer(optimizer);
  RengaCheck(weight_decay >= 0 && weight_decay <= LARGE, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a weight decay of %g is not a number of at least 0", weight_decay);
  optimizer->weight_decay = weight_decay;
  optimizer->weight_decay_given = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerGetWeightDecay(RengaOptimizer optimizer, double *weight_decay)
{
  RengaCheckPointers(optimizer, weight_decay);
  *weight_decay = optimizer->weight_decay;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerSetClipNorm - bound the norm of the gradient of all parameters together

   Input:
   . norm - the bound; 0: none

   Options:
   . -optimizer_clip_norm - the same

   Errors: RENGA_ERR_ARGUMENT for a norm that is negative or not finite.

   See also: RengaOptimizerGetClipNorm()
@*/
RengaErrorCode RengaOptimizerSetClipNorm(RengaOptimizer optimizer, double norm)
{
  RengaCheckPointer(optimizer);
  RengaCheck(norm >= 0 && norm <= LARGE, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a norm of %g is not a number of at least 0", norm);
  optimizer->clip_norm = norm;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerGetClipNorm(RengaOptimizer optimizer, double *norm)
{
  RengaCheckPointers(optimizer, norm);
  *norm = optimizer->clip_norm;
  return RENGA_SUCCESS;
}

void RengaOptimizerListSettings_Private(RengaOptimizer optimizer, RengaSettingList *list)
{
  const char *type = optimizer->hdr.type_name;
  const bool has_function = optimizer->rate_function != NULL;
  RengaSettingAddText_Private(list, "optimizer_type", type);
  RengaSettingAddInt64_Private(list, "optimizer_total_steps", RengaOptimizerTotalSteps(optimizer));
  RengaSettingAddInt64_Private(list, "learning-rate function", has_function);
  for (int i = 0; i < SECTIONS; i++)
    for (int r = 0; SectionFits(i, type) && r < sections[i].count; r++) {
      const RengaOptionRow *row = &sections[i].rows[r];
      if (row->offset == AT(type_option) || row->offset == AT(total_steps_option)) continue;
      RengaSettingAddRow_Private(list, row, optimizer);
    }
}

static RengaErrorCode ViewSchedule(RengaOptimizer optimizer, RengaViewer viewer)
{
  RengaCall(RengaViewerPrintf(viewer, "  learning rate %g, %s", optimizer->learning_rate,
                              optimizer->schedule));
  if (optimizer->rate_function)
    RengaCall(RengaViewerPrintf(viewer, ", times what the program's function says"));
  if (optimizer->warmup_steps > 0)
    RengaCall(
        RengaViewerPrintf(viewer, ", warm-up of %lld steps", (long long)optimizer->warmup_steps));
  if (strcmp(optimizer->schedule, "constant") != 0)
    RengaCall(RengaViewerPrintf(viewer, ", %lld steps to %g of it",
                                (long long)RengaOptimizerTotalSteps(optimizer),
                                optimizer->final_ratio));
  RengaCall(RengaViewerPrintf(viewer, "\n"));
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerView - print all settings

   Collective

   Input:
   . viewer - the viewer, of kind ascii

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaOptimizerView(RengaOptimizer optimizer, RengaViewer viewer)
{
  RengaCheckPointers(optimizer, viewer);
  RengaCall(RengaViewerPrintf(viewer, "Optimizer: type %s\n", optimizer->hdr.type_name));
  RengaCall(ViewSchedule(optimizer, viewer));
  RengaCall(optimizer->ops->view(optimizer, viewer));
  RengaCall(RengaViewerPrintf(viewer, "  weight decay %g\n", optimizer->weight_decay));
  if (optimizer->clip_norm > 0)
    RengaCall(RengaViewerPrintf(viewer, "  gradients clipped to norm %g\n", optimizer->clip_norm));
  if (optimizer->sparse == RENGA_SPARSE_LAZY)
    RengaCall(RengaViewerPrintf(
        viewer, "  tables that are read by rows are updated by these rows: lazy\n"));
  if (optimizer->sparse == RENGA_SPARSE_EXACT)
    RengaCall(RengaViewerPrintf(
        viewer, "  tables that are read by rows have gradients of these rows: exact\n"));
  if (optimizer->groups_text != NULL)
    RengaCall(RengaViewerPrintf(viewer, "  groups %s\n", optimizer->groups_text));
  return RENGA_SUCCESS;
}
