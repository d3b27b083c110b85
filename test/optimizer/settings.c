/* TEST ranks: 1 2 */
/* Schedules against PyTorch's, groups, options, the view, and what is refused. */
#include "../check.h"
#include "renga/private/optimizer.h"
#include "rengacomm.h"
#include "rengaoptimizer.h"
#include "trajectories.h"
#include <math.h>
#include <string.h>

static RengaErrorCode CheckRates(RengaOptimizer optimizer, const char *schedule, int64_t warmup,
                                 int count, const double expected[])
{
  double rate;
  RengaCall(RengaOptimizerSetSchedule(optimizer, schedule, warmup, 0.25));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, 10 + warmup));
  RengaCall(RengaOptimizerSetUp(optimizer));
  for (int64_t step = 0; step < warmup; step++) {
    RengaCall(RengaOptimizerGetLearningRate(optimizer, step, &rate));
    Expect(rate == 2.0 * (double)(step + 1) / (double)warmup);
  }
  for (int i = 0; i < count; i++) {
    RengaCall(RengaOptimizerGetLearningRate(optimizer, warmup + i, &rate));
    Expect(fabs(rate - expected[i]) < 1e-12);
  }
  RengaCall(RengaOptimizerGetLearningRate(optimizer, 1000, &rate));
  Expect(rate == (strcmp(schedule, "constant") == 0 ? 2.0 : 0.5));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSchedules(RengaOptimizer optimizer)
{
  static const double constant_rates[] = {2, 2, 2};
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 2));
  for (int64_t warmup = 0; warmup < 4; warmup++) {
    RengaCall(CheckRates(optimizer, "constant", warmup, 3, constant_rates));
    RengaCall(CheckRates(optimizer, "linear", warmup, 12, linear_rates));
    RengaCall(CheckRates(optimizer, "cosine", warmup, 10, cosine_rates));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckClipping(RengaOptimizer optimizer)
{
  double scale;
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 2));
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(RengaOptimizerGetScale(optimizer, 8, &scale));
  Expect(scale == 0.25);
  RengaCall(RengaOptimizerGetScale(optimizer, 1.5, &scale));
  Expect(scale == 1);
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 0));
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(RengaOptimizerGetScale(optimizer, 8, &scale));
  Expect(scale == 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGroup(RengaOptimizer optimizer, const char *name, double rate_scale,
                                 double weight_decay, bool frozen)
{
  double scale, decay;
  bool is_frozen;
  RengaCall(RengaOptimizerGetGroup(optimizer, name, &scale, &decay, &is_frozen));
  Expect(scale == rate_scale && decay == weight_decay && is_frozen == frozen);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGroups(RengaOptimizer optimizer)
{
  static const char *const names[] = {"h.0.bias", "h.0.weight", "wte:0", "h.1.bias"};
  RengaCall(RengaOptimizerSetWeightDecay(optimizer, 0.5));
  RengaCall(RengaOptimizerSetGroups(optimizer, "*.bias:weight_decay=0;h.0.*:learning_rate_scale=2,"
                                               "frozen=yes;h.0.bias:frozen=no;wt?:0:frozen=1"));
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(CheckGroup(optimizer, "h.1.weight", 1, 0.5, false));
  RengaCall(CheckGroup(optimizer, "h.1.bias", 1, 0, false));
  RengaCall(CheckGroup(optimizer, "h.0.weight", 2, 0.5, true));
  RengaCall(CheckGroup(optimizer, "h.0.bias", 2, 0, false));
  RengaCall(CheckGroup(optimizer, "wte:0", 1, 0.5, true));
  RengaCall(RengaOptimizerCheckGroups(optimizer, 4, names));
  return RENGA_SUCCESS;
}

/* A frozen parameter keeps its value, another one moves by rate_scale. */
static RengaErrorCode CheckGroupUpdate(RengaComm comm, RengaOptimizer optimizer)
{
  RengaDevice device;
  float parameter = 1, gradient = 0.5f;
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(RengaOptimizerSetSchedule(optimizer, "constant", 0, 0));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.25));
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(RengaOptimizerUpdate(optimizer, device, NULL, "h.0.weight", 0, 1, 1, &parameter,
                                 &gradient, NULL));
  Expect(parameter == 1);
  RengaCall(RengaOptimizerUpdate(optimizer, device, NULL, "h.0.bias", 0, 1, 1, &parameter,
                                 &gradient, NULL));
  Expect(parameter == 0.75f);
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(RengaComm comm, RengaOptimizer optimizer)
{
  char text[2048], name[64];
  RengaViewer viewer;
  snprintf(name, sizeof name, "ascii:optimizer-%d.tmp", RengaCommGetSize(comm));
  RengaCall(RengaViewerCreate(comm, name, &viewer));
  RengaCall(RengaOptimizerView(optimizer, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  if (RengaCommGetRank(comm) > 0) return RENGA_SUCCESS;
  FILE *file = fopen(name + 6, "r");
  Expect(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  remove(name + 6);
  static const char *const parts[] = {
      "type adamw", "learning rate 0.5, cosine", "warm-up of 3 steps", "20 steps to 0.1",
      "beta1 0.8",  "weight decay 0.125",        "clipped to norm 4",  "*.bias"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    RengaCheck(strstr(text, parts[i]), MPI_COMM_SELF, RENGA_ERR_INTERNAL, "no \"%s\" in:\n%s",
               parts[i], text);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOptions(RengaComm comm)
{
  static const char *const given[][2] = {
      {"optimizer_type", "adamw"},         {"optimizer_learning_rate", "0.5"},
      {"optimizer_beta1", "0.8"},          {"optimizer_schedule", "cosine"},
      {"optimizer_warmup_steps", "3"},     {"optimizer_total_steps", "20"},
      {"optimizer_final_ratio", "0.1"},    {"optimizer_clip_norm", "4"},
      {"optimizer_weight_decay", "0.125"}, {"optimizer_groups", "*.bias:weight_decay=0"}};
  RengaOptimizer optimizer;
  const char *type;
  double rate;
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    RengaCall(RengaOptionsSetValue(given[i][0], given[i][1]));
  RengaCall(RengaOptimizerCreate(comm, &optimizer));
  RengaCall(RengaOptimizerSetFromOptions(optimizer));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, 7)); /* the user's 20 stands */
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(RengaOptimizerGetType(optimizer, &type));
  Expect(strcmp(type, "adamw") == 0);
  RengaCall(RengaOptimizerGetLearningRate(optimizer, 19, &rate));
  Expect(rate > 0.05 && rate < 0.06);
  RengaCall(CheckView(comm, optimizer));
  RengaCall(RengaOptimizerDestroy(&optimizer));
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseGroups(RengaOptimizer optimizer, const char *groups)
{
  RengaCall(RengaOptimizerSetGroups(optimizer, groups));
  return RengaOptimizerSetUp(optimizer);
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  static const char *const bad_groups[] = {"bias",
                                           ":frozen=yes",
                                           "*.bias:frozen",
                                           "*:weight_decay=much",
                                           "*:frozen=perhaps",
                                           "*:learning_rate=2",
                                           "*:learning_rate_scale=-1"};
  static const char *const names[] = {"h.0.bias"};
  RengaOptimizer o;
  double value;
  RengaCall(RengaOptimizerCreate(comm, &o));
  ExpectError(RengaOptimizerSetType(o, "adamv"), RENGA_ERR_ARGUMENT, "did you mean adam");
  ExpectError(RengaOptimizerGetLearningRate(o, 0, &value), RENGA_ERR_ORDER, "");
  ExpectError(RengaOptimizerSetMomentum(o, 0.9, false), RENGA_ERR_ARGUMENT, "the type is adamw");
  ExpectError(RengaOptimizerSetBetas(o, 0.9, 1, 1e-8), RENGA_ERR_ARGUMENT, "");
  ExpectError(RengaOptimizerSetLearningRate(o, NAN), RENGA_ERR_ARGUMENT, "");
  ExpectError(RengaOptimizerSetWeightDecay(o, -1), RENGA_ERR_ARGUMENT, "");
  ExpectError(RengaOptimizerSetClipNorm(o, -1), RENGA_ERR_ARGUMENT, "");
  ExpectError(RengaOptimizerSetSchedule(o, "cosinus", 0, 0), RENGA_ERR_ARGUMENT, "");
  RengaCall(RengaOptimizerSetSchedule(o, "cosine", 5, 0));
  ExpectError(RengaOptimizerSetUp(o), RENGA_ERR_ORDER, ""); /* no number of steps */
  RengaCall(RengaOptimizerSetTotalSteps(o, 5));
  ExpectError(RengaOptimizerSetUp(o), RENGA_ERR_OPTION, ""); /* nothing left after the warm-up */
  RengaCall(RengaOptimizerSetTotalSteps(o, 6));
  for (size_t i = 0; i < sizeof bad_groups / sizeof *bad_groups; i++)
    ExpectError(RefuseGroups(o, bad_groups[i]), RENGA_ERR_OPTION, "");
  RengaCall(RefuseGroups(o, "h.0.weight:frozen=yes"));
  ExpectError(RengaOptimizerCheckGroups(o, 1, names), RENGA_ERR_OPTION, "");
  ExpectError(RengaOptimizerGetScale(o, NAN, &value), RENGA_ERR_NUMERIC, "");
  RengaCall(RengaOptimizerSetType(o, RENGA_OPTIMIZER_SGD));
  ExpectError(RengaOptimizerSetBetas(o, 0.9, 0.99, 1e-8), RENGA_ERR_ARGUMENT, "");
  RengaCall(RengaOptimizerSetMomentum(o, 0, true));
  ExpectError(RengaOptimizerSetUp(o), RENGA_ERR_OPTION, ""); /* Nesterov without momentum */
  RengaCall(RengaOptionsSetValue("optimizer_type", "sgd"));
  bool says = RengaCommGetRank(comm) == 0;
  ExpectError(RengaOptimizerSetFromOptions(o), RENGA_ERR_OPTION,
              says ? "-optimizer_beta1 is an option of type adam and adamw" : "");
  RengaCall(RengaOptimizerDestroy(&o));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaOptimizer optimizer;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaOptimizerCreate(comm, &optimizer));
  RengaCall(CheckSchedules(optimizer));
  RengaCall(CheckClipping(optimizer));
  RengaCall(CheckGroups(optimizer));
  RengaCall(CheckGroupUpdate(comm, optimizer));
  RengaCall(RengaOptimizerDestroy(&optimizer));
  RengaCall(CheckOptions(comm));
  RengaCall(CheckRefusals(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
