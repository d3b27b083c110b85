/* What a checkpoint tells about its run: all that decides the numbers, so that one that goes on
   with other settings is told which. */
#include "app.h"
#include "renga/private/choice.h"
#include "renga/private/number.h"
#include <inttypes.h>
#include <string.h>

/* Options whose values decide the numbers. */
static const char *const options[] = {"data_shuffle",
                                      "data_owners",
                                      "data_owners_order",
                                      "train_average",
                                      "train_learners",
                                      "data_hide",
                                      "data_importance",
                                      "data_hide_confidence",
                                      "data_hide_warmup",
                                      "data_hide_schedule",
                                      "data_hide_rate",
                                      "data_validation",
                                      "data_masking",
                                      "optimizer_type",
                                      "optimizer_learning_rate",
                                      "optimizer_weight_decay",
                                      "optimizer_clip_norm",
                                      "optimizer_momentum",
                                      "optimizer_nesterov",
                                      "optimizer_beta1",
                                      "optimizer_beta2",
                                      "optimizer_epsilon",
                                      "optimizer_groups",
                                      "optimizer_schedule",
                                      "optimizer_warmup_steps",
                                      "optimizer_final_ratio",
                                      "optimizer_sparse",
                                      "device_type",
                                      "pipeline_reduction",
                                      "pipeline_on_nonfinite",
                                      "graph_trained",
                                      "graph_frozen",
                                      "graph_lora",
                                      "graph_lora_targets",
                                      "graph_lora_alpha",
                                      "graph_lora_dropout",
                                      "graph_divide",
                                      "graph_divide_weight",
                                      "graph_lanes",
                                      "graph_token_lanes",
                                      "graph_split",
                                      "precision",
                                      "precision_keep"};
enum { OPTIONS = sizeof options / sizeof options[0], FOUND = 7, VALUE = 512 };

typedef struct {
  const char *name;
  char value[VALUE];
} Setting;
typedef struct {
  Setting row[FOUND + OPTIONS];
  int count;
} Settings;

static void AddSetting(Settings *settings, const char *name, const char *value)
{
  Setting *row = &settings->row[settings->count++];
  row->name = name;
  snprintf(row->value, VALUE, "%s", value && *value ? value : "none");
}

static void AddNumber(Settings *settings, const char *name, int64_t value)
{
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  AddSetting(settings, name, text);
}

/* As it was given, or else the default of the optimizer's type. */
static RengaErrorCode AddWeightDecay(Settings *settings, RengaOptimizer optimizer)
{
  char text[32];
  const char *value;
  double decay;
  bool given;
  RengaCall(RengaOptionsGetString("optimizer_weight_decay", &value, &given));
  RengaCall(RengaOptimizerGetWeightDecay(optimizer, &decay));
  RengaTextFormat(text, sizeof text, "%g", decay);
  AddSetting(settings, "optimizer_weight_decay", given ? value : text);
  return RENGA_SUCCESS;
}

/* The number of steps matters where the learning rate follows it. */
static RengaErrorCode AddTotalSteps(Settings *settings, int64_t steps)
{
  const char *schedule;
  int64_t total;
  RengaCall(RengaOptionsGetString("optimizer_schedule", &schedule, NULL));
  RengaCall(RengaOptionsGetInt64("optimizer_total_steps", &total, NULL));
  if (strcmp(schedule, "constant") == 0)
    AddSetting(settings, "optimizer_total_steps", "any");
  else
    AddNumber(settings, "optimizer_total_steps", total ? total : steps);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindSettings(const AppOrigin *origin, Settings *settings)
{
  char text[64];
  uint64_t digest;
  int64_t share, microbatch;
  RengaCall(RengaPlanGetBatch(origin->plan, &share, &microbatch));
  RengaCall(RengaDataGetDigest(origin->data, &digest));
  settings->count = 0;
  snprintf(text, sizeof text, "%016" PRIx64, RengaGraphGetDigest(origin->graph));
  AddSetting(settings, "graph_digest", text);
  snprintf(text, sizeof text, "%016" PRIx64, digest);
  AddSetting(settings, "data_digest", text);
  AddNumber(settings, "seed", origin->seed);
  AddNumber(settings, "batch_size", origin->batch);
  AddNumber(settings, "microbatch_size", microbatch);
  AddNumber(settings, "partition_leaf", RengaPlanGetLeaf(origin->plan));
  RengaCall(AddTotalSteps(settings, origin->steps));
  for (int i = 0; i < OPTIONS; i++) {
    const char *value;
    if (strcmp(options[i], "optimizer_weight_decay") == 0) {
      RengaCall(AddWeightDecay(settings, origin->optimizer));
      continue;
    }
    RengaCall(RengaOptionsGetString(options[i], &value, NULL));
    AddSetting(settings, options[i], value);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppSetOrigin(RengaCheckpoint checkpoint, const AppOrigin *origin)
{
  static const char *const texts[] = {"graph", "data", "initial", "initial_adapter"};
  Settings settings;
  RengaCall(FindSettings(origin, &settings));
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "settings_version", "2"));
  for (int i = 0; i < settings.count; i++)
    RengaCall(RengaCheckpointSetAttribute(checkpoint, settings.row[i].name, settings.row[i].value));
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const char *text;
    RengaCall(RengaOptionsGetString(texts[i], &text, NULL));
    if (text) RengaCall(RengaCheckpointSetAttribute(checkpoint, texts[i], text));
  }
  return RENGA_SUCCESS;
}

/* 1e-3 and 0.001 are one value. */
static bool SameValue(const char *a, const char *b)
{
  char *end_a, *end_b;
  if (strcmp(a, b) == 0) return true;
  double x = RengaReadReal(a, &end_a), y = RengaReadReal(b, &end_b);
  return end_a != a && end_b != b && !*end_a && !*end_b && x == y && strlen(a) < 16;
}

/* The word that a setting's value means: some are written in several ways. */
static const char *FindMeaning(const char *name, const char *value)
{
  static const char *const words[][3] = {
      {"data_shuffle", "global", "true"}, {"data_shuffle", "yes", "true"},
      {"data_shuffle", "on", "true"},     {"data_shuffle", "1", "true"},
      {"data_shuffle", "no", "false"},    {"data_shuffle", "off", "false"},
      {"data_shuffle", "0", "false"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(words[i][0], name) == 0 && RengaIsSameWord(words[i][1], value)) return words[i][2];
  return value;
}

/* Checkpoints without a version hold 0 where the weight decay was adamw's default. */
static bool CouldBeDefault(const Setting *is, const char *was, const char *type)
{
  return type && strcmp(type, RENGA_OPTIMIZER_ADAMW) == 0 &&
         strcmp(is->name, "optimizer_weight_decay") == 0 && SameValue(was, "0") &&
         (SameValue(is->value, "0") || SameValue(is->value, "0.01"));
}

/* As the run of the checkpoint wrote it, perhaps under the name of the version before. */
static RengaErrorCode GetSetting(RengaCheckpoint checkpoint, const char *name, const char **value)
{
  const char *old = name;
  *value = NULL;
  for (int i = 0; old && !*value; old = RengaOptionOldName_Private(name, i++))
    RengaCall(RengaCheckpointGetAttribute(checkpoint, old, value));
  return RENGA_SUCCESS;
}

/* is: as it would be written now. */
static RengaErrorCode SettingDiffers(RengaCheckpoint checkpoint, const Setting *is,
                                     const char **was, bool *differs)
{
  const char *version, *type;
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "settings_version", &version));
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "optimizer_type", &type));
  RengaCall(GetSetting(checkpoint, is->name, was));
  *differs = *was && !SameValue(FindMeaning(is->name, *was), FindMeaning(is->name, is->value)) &&
             (version || !CouldBeDefault(is, *was, type));
  return RENGA_SUCCESS;
}

RengaErrorCode AppCompareOrigin(RengaComm comm, RengaCheckpoint checkpoint, const AppOrigin *origin)
{
  Settings settings;
  char table[4096] = "";
  bool strict;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetBool("resume_strict", &strict, NULL));
  RengaCall(FindSettings(origin, &settings));
  for (int i = 0; i < settings.count; i++) {
    const Setting *is = &settings.row[i];
    const char *was;
    size_t used = strlen(table);
    bool differs;
    RengaCall(SettingDiffers(checkpoint, is, &was, &differs));
    if (differs)
      snprintf(table + used, sizeof table - used, "\n    %-24s was %.100s, is %.100s", is->name,
               was, is->value);
  }
  if (!table[0]) return RENGA_SUCCESS;
  RengaCheck(!strict, printer, RENGA_ERR_OPTION,
             "-resume_strict: the run that wrote the checkpoint had other settings:%s", table);
  RengaWarning(printer, "the run that wrote the checkpoint had other settings:%s", table);
  return RENGA_SUCCESS;
}

/* Another batch or a plan of the user's has sizes of its own. */
static RengaErrorCode ChoicesHold(RengaCheckpoint checkpoint, bool *hold)
{
  const char *was, *is, *plan;
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "batch_size", &was));
  RengaCall(RengaOptionsGetString("batch_size", &is, NULL));
  RengaCall(RengaOptionsGetString("plan_load", &plan, NULL));
  *hold = plan == NULL && was && is && SameValue(was, is);
  return RENGA_SUCCESS;
}

/* Lanes are given that the run of the checkpoint did not have: what was said of those is void. */
static RengaErrorCode HasOtherLanes(RengaCheckpoint checkpoint, bool *other)
{
  static const char *const names[] = {"graph_lanes", "graph_token_lanes"};
  *other = false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *was, *is;
    bool given;
    RengaCall(RengaOptionsGetString(names[i], &is, &given));
    RengaCall(RengaCheckpointGetAttribute(checkpoint, names[i], &was));
    *other = *other || (given && !(was && SameValue(was, is)));
  }
  return RENGA_SUCCESS;
}

/* What was chosen is not chosen once more. */
static RengaErrorCode KeepChoice(const char *name, const char *value)
{
  RengaCall(RengaOptionsSetValue(name, value));
  if (strcmp(name, "microbatch_size") == 0)
    RengaCall(RengaOptionsClearValue("partition_microbatch_sizes"));
  return RENGA_SUCCESS;
}

/* Several leaves to choose from fix none. */
static bool Fixes(const char *name, const char *value)
{
  return strcmp(name, "partition_leaf") != 0 || strspn(value, "0123456789") == strlen(value);
}

/* What was chosen for the user stays: it decides the bits. */
RengaErrorCode AppKeepChoices(RengaCheckpoint checkpoint)
{
  static const char *const chosen[] = {"graph_lanes", "graph_token_lanes", "graph_split",
                                       "microbatch_size", "partition_leaf"};
  enum { OF_LANES = 3 };
  int64_t step;
  bool found, hold = false, other = false;
  RengaCall(RengaCheckpointPeek(checkpoint, &found, &step));
  if (found) RengaCall(ChoicesHold(checkpoint, &hold));
  if (found) RengaCall(HasOtherLanes(checkpoint, &other));
  /* Lanes go with any batch. */
  const size_t count = !found ? 0 : hold ? sizeof chosen / sizeof chosen[0] : OF_LANES;
  for (size_t i = other ? OF_LANES : 0; i < count; i++) {
    const char *was, *value;
    bool given;
    RengaCall(RengaOptionsGetString(chosen[i], &value, &given));
    RengaCall(GetSetting(checkpoint, chosen[i], &was));
    if (was && !(given && Fixes(chosen[i], value)) && strcmp(was, "none") != 0)
      RengaCall(KeepChoice(chosen[i], was));
  }
  return RENGA_SUCCESS;
}
