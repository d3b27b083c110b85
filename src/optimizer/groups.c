/* Optimizer: groups of parameters by shell patterns on their names.

   "PATTERN:key=value,key=value;PATTERN:…" A later group overrides an earlier one, key by key. The
   last colon of a group ends its pattern, since names may hold colons. */
#include "optimizerimpl.h"
#include "renga/private/number.h"
#include "renga/private/pattern.h"
#include <math.h>
#include <string.h>

static bool ReadReal(const char *text, double *value)
{
  char *end;
  *value = RengaReadReal(text, &end);
  return end != text && *end == '\0' && isfinite(*value) && *value >= 0;
}

static bool ReadRateScale(RengaOptimizerGroup *group, const char *text)
{
  return ReadReal(text, &group->rate_scale);
}

static bool ReadWeightDecay(RengaOptimizerGroup *group, const char *text)
{
  return ReadReal(text, &group->weight_decay);
}

static bool ReadFrozen(RengaOptimizerGroup *group, const char *text)
{
  static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
  int i = 0;
  while (i < 8 && !RengaIsSameWord(text, words[i])) i++;
  group->frozen = i % 2;
  return i < 8;
}

static const struct {
  const char *name;
  bool (*read)(RengaOptimizerGroup *group, const char *text);
  const char *wanted;
} keys[] = {
    {"learning_rate_scale", ReadRateScale, "a number of at least 0"},
    {"weight_decay", ReadWeightDecay, "a number of at least 0"},
    {"frozen", ReadFrozen, "yes or no"},
};
enum { KEYS = sizeof keys / sizeof *keys };

/* setting is "key=value" and is cut at the sign. */
static RengaErrorCode ParseSetting(MPI_Comm comm, RengaOptimizerGroup *group, char *setting)
{
  char *value = strchr(setting, '=');
  RengaCheck(value != NULL, comm, RENGA_ERR_OPTION,
             "-optimizer_groups: \"%s\" of group %s is not key=value", setting, group->pattern);
  *value++ = '\0';
  int key = 0;
  while (key < KEYS && strcmp(setting, keys[key].name) != 0) key++;
  RengaCheck(
      key < KEYS, comm, RENGA_ERR_OPTION,
      "-optimizer_groups: %s of group %s is none of learning_rate_scale, weight_decay, frozen",
      setting, group->pattern);
  RengaCheck(keys[key].read(group, value), comm, RENGA_ERR_OPTION,
             "-optimizer_groups: %s of group %s is \"%s\", not %s", setting, group->pattern, value,
             keys[key].wanted);
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseGroup(RengaOptimizer optimizer, char *text)
{
  char *colon = strrchr(text, ':'), *rest = NULL;
  RengaCheck(colon != NULL && colon > text, optimizer->hdr.comm, RENGA_ERR_OPTION,
             "-optimizer_groups: \"%s\" is not PATTERN:key=value,…", text);
  *colon = '\0';
  RengaCall(RengaRealloc(optimizer->n_groups + 1, &optimizer->groups));
  RengaOptimizerGroup *group = &optimizer->groups[optimizer->n_groups++];
  *group = (RengaOptimizerGroup){.rate_scale = NAN, .weight_decay = NAN, .frozen = -1};
  RengaCall(RengaStringCopy(text, &group->pattern));
  for (char *s = strtok_r(colon + 1, ",", &rest); s != NULL; s = strtok_r(NULL, ",", &rest))
    RengaCall(ParseSetting(optimizer->hdr.comm, group, s));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerParseGroups(RengaOptimizer optimizer)
{
  if (optimizer->groups_parsed) return RENGA_SUCCESS;
  RengaOptimizerFreeGroups(optimizer);
  if (optimizer->groups_text == NULL) return RENGA_SUCCESS;
  char *text, *rest = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaStringCopy(optimizer->groups_text, &text));
  for (char *g = strtok_r(text, ";", &rest); g && !code; g = strtok_r(NULL, ";", &rest))
    code = ParseGroup(optimizer, g);
  RengaFree(&text);
  RengaCall(code);
  optimizer->groups_parsed = true;
  return RENGA_SUCCESS;
}

void RengaOptimizerFreeGroups(RengaOptimizer optimizer)
{
  for (int i = 0; i < optimizer->n_groups; i++) RengaFree(&optimizer->groups[i].pattern);
  RengaFree(&optimizer->groups);
  optimizer->n_groups = 0;
  optimizer->groups_parsed = false;
}

/*@
   RengaOptimizerSetGroups - treat some parameters in another way

   Input:
   . groups - "PATTERN:key=value,…;PATTERN:…" or NULL; the patterns are those of the shell, on names
     of parameters; the keys are learning_rate_scale, weight_decay and frozen (yes or no)

   Options:
   . -optimizer_groups - the same: "*.bias:weight_decay=0;embedding*:frozen=yes"

   Notes: where several patterns fit a name, the last one that says a key decides it. Errors of the
   text are found where it is first used.

   See also: RengaOptimizerGetGroups(), RengaOptimizerSetUp()
@*/
RengaErrorCode RengaOptimizerSetGroups(RengaOptimizer optimizer, const char *groups)
{
  RengaCheckPointer(optimizer);
  char *copy;
  RengaCall(RengaStringCopy(groups, &copy));
  RengaFree(&optimizer->groups_text);
  optimizer->groups_text = copy;
  optimizer->groups_parsed = false;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerGetGroups(RengaOptimizer optimizer, const char **groups)
{
  RengaCheckPointers(optimizer, groups);
  *groups = optimizer->groups_text;
  return RENGA_SUCCESS;
}

/* What the groups say of a parameter. rate_scale: a factor, at least 0: the parameter's learning
   rate is the step's times this. weight_decay: the parameter's weight decay, at least 0. */
RengaErrorCode RengaOptimizerGetGroup(RengaOptimizer optimizer, const char *name,
                                      double *rate_scale, double *weight_decay, bool *frozen)
{
  RengaCheckPointers(optimizer, name);
  RengaCall(RengaOptimizerParseGroups(optimizer));
  *rate_scale = 1;
  *weight_decay = optimizer->weight_decay;
  *frozen = false;
  for (int i = 0; i < optimizer->n_groups; i++) {
    const RengaOptimizerGroup *group = &optimizer->groups[i];
    if (!RengaIsMatch(group->pattern, name)) continue;
    if (!isnan(group->rate_scale)) *rate_scale = group->rate_scale;
    if (!isnan(group->weight_decay)) *weight_decay = group->weight_decay;
    if (group->frozen >= 0) *frozen = group->frozen;
  }
  return RENGA_SUCCESS;
}

/* Does every group fit a parameter? Collective: all ranks call with the same names. A group that
   fits none is an error with the closest name: it was misspelt. count: the number of names, at
   least 0. names: [count], the names of all parameters of the network. */
RengaErrorCode RengaOptimizerCheckGroups(RengaOptimizer optimizer, int count,
                                         const char *const names[])
{
  RengaCheckPointer(optimizer);
  RengaCall(RengaOptimizerParseGroups(optimizer));
  for (int i = 0; i < optimizer->n_groups; i++) {
    const char *pattern = optimizer->groups[i].pattern;
    int n = 0;
    while (n < count && !RengaIsMatch(pattern, names[n])) n++;
    const char *closest = n < count ? NULL : RengaClosestName(pattern, count, names);
    RengaCheck(n < count, optimizer->hdr.comm, RENGA_ERR_OPTION,
               "-optimizer_groups: no parameter's name fits \"%s\"%s%s", pattern,
               closest ? "; the closest is " : "", closest ? closest : "");
  }
  return RENGA_SUCCESS;
}
