/* Trainer: its rules and parts, up to where it can make steps. */
#include "trainerimpl.h"
#include "renga/private/packages.h"
#include "renga/private/plan.h"
#include <math.h>
#include <string.h>

#define AT(member) offsetof(RengaTrainerRules, member)
static const RengaOptionRow rows[] = {
    {"steps", RENGA_OPTION_INT64, "100", AT(steps), NULL, 0, 1e15,
     "train: number of the last step; watch: steps of the run"},
    {"eval_every", RENGA_OPTION_INT64, "0", AT(eval_every), NULL, 0, 1e15,
     "train: steps between losses of the validation part; 0: only at the end"},
    {"eval_samples", RENGA_OPTION_INT64, "0", AT(eval_samples), NULL, 0, 1e15,
     "train: samples of the validation part that are used; eval: of all; 0: all"},
    {"early_stop", RENGA_OPTION_INT64, "0", AT(early_stop), NULL, 0, 1e15,
     "train: end after so many validations without a smaller loss; 0: never"},
    {"keep_best", RENGA_OPTION_BOOL, "false", AT(keep_best), NULL, 0, 0,
     "train: keep the checkpoint with the least validation loss as best.h5"},
    {"rollback_limit", RENGA_OPTION_INT64, "10", AT(rollback_limit), NULL, 0, 1e9,
     "train: rollbacks of -pipeline_on_nonfinite rollback before it is an error"},
    {"train_learners", RENGA_OPTION_INT, "0", AT(learners), NULL, 0, 1 << 16,
     "train: learners of local SGD, for -train_average local and gossip"},
    {"train_average", RENGA_OPTION_STRING, "sync", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "train: sync, or local SGD: local:K or gossip:K averages parameters every K steps"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaTrainerRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Trainer", ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyTrainer(void *object)
{
  RengaTrainer trainer = object;
  RengaErrorCode code = RENGA_SUCCESS;
  if (trainer->hiding) RengaHidingFree(trainer->hiding); /* while its optimizer lives */
  if (trainer->learners) code = RengaLearnersDestroy(trainer->learners);
  RengaFree(&trainer->learners);
  RengaFree(&trainer->hiding);
  RengaFree(&trainer->rules);
  RengaFree(&trainer->monitor);
  return code;
}

static RengaErrorCode FillTrainer(RengaTrainer trainer)
{
  RengaCall(RengaMalloc(1, &trainer->rules));
  RengaCall(RengaMalloc(1, &trainer->learners));
  RengaCall(RengaMalloc(1, &trainer->hiding));
  RengaCall(RengaMalloc(RENGA_TRAINER_MONITORS, &trainer->monitor));
  RengaCall(RengaOptionsSetDefaults(ROWS, rows, trainer->rules));
  snprintf(trainer->rules->average, sizeof trainer->rules->average, "sync");
  trainer->learners->count = 1;
  trainer->status.best = HUGE_VAL;
  trainer->evaluated = -1;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerCreate - make a trainer

   Collective

   Output:
   . trainer - the new trainer, of 100 steps; RengaTrainerDestroy() frees it

   See also: RengaTrainerSetFromOptions(), RengaTrainerSetData(), RengaTrainerRun()
@*/
RengaErrorCode RengaTrainerCreate(RengaComm comm, RengaTrainer *trainer)
{
  RengaTrainer made;
  RengaCheckPointers(comm, trainer);
  RengaCall(RengaHeaderCreate(comm, "RengaTrainer", sizeof *made, DestroyTrainer, &made));
  const RengaErrorCode code = FillTrainer(made);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *trainer = made;
  return RENGA_SUCCESS;
}

/* average: of the rules, or longer than they can hold. */
static RengaErrorCode TakeRules(RengaTrainer trainer, const RengaTrainerRules *rules,
                                const char *average)
{
  RengaLearners read = {.count = 1};
  RengaCheck(!trainer->parts.data, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetRules comes before RengaTrainerSetData");
  RengaCheck(rules->steps >= 0 && rules->eval_every >= 0 && rules->eval_samples >= 0 &&
                 rules->early_stop >= 0 && rules->rollback_limit >= 0 && rules->learners >= 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "rules of a trainer: no number is below 0");
  RengaCall(RengaLearnersRead(trainer->hdr.comm, average, rules->learners, &read));
  *trainer->rules = *rules;
  snprintf(trainer->rules->average, sizeof trainer->rules->average, "%s", average);
  *trainer->learners = read;
  trainer->learners->manner = trainer->rules->average;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetRules - how many steps, when to evaluate, when to stop

   Input:
   . trainer - the trainer, before its data are set
   . rules - copied; take those of RengaTrainerGetRules() and change some

   Options:
   . -steps -eval_every -eval_samples -early_stop -keep_best -rollback_limit - the same
   . -train_average, -train_learners - local SGD

   Errors: RENGA_ERR_OPTION for local SGD that cannot be read, or without learners;
   RENGA_ERR_ARGUMENT for a number below 0; RENGA_ERR_ORDER after RengaTrainerSetData().

   See also: RengaTrainerGetRules(), RengaTrainerSetFromOptions()
@*/
RengaErrorCode RengaTrainerSetRules(RengaTrainer trainer, const RengaTrainerRules *rules)
{
  RengaCheckPointers(trainer, rules);
  RengaCheck(memchr(rules->average, '\0', sizeof rules->average), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rules of a trainer: average does not end");
  RengaCall(TakeRules(trainer, rules, rules->average));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTrainerGetRules(RengaTrainer trainer, RengaTrainerRules *rules)
{
  RengaCheckPointers(trainer, rules);
  *rules = *trainer->rules;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetFromOptions - take what the user asked for

   Collective

   Input:
   . trainer - the trainer, before its data are set

   Options:
   . -steps - number of the last step (100)
   . -eval_every - steps between evaluations; 0: after the last alone (0)
   . -eval_samples - samples of the validation part, at most; 0: all (0)
   . -early_stop - evaluations without a smaller loss that end the run; 0: never (0)
   . -keep_best - whether the checkpoint with the least validation loss stays (false)
   . -rollback_limit - rollbacks of -pipeline_on_nonfinite before it is an error (10)
   . -train_average - sync, local:K or gossip:K (sync)
   . -train_learners - of local and gossip

   Errors: as of RengaTrainerSetRules().

   See also: RengaTrainerSetRules(), RengaTrainerSetData()
@*/
RengaErrorCode RengaTrainerSetFromOptions(RengaTrainer trainer)
{
  RengaTrainerRules rules;
  const char *average;
  RengaCall(RengaTrainerGetRules(trainer, &rules));
  RengaCall(RengaOptionsSetFromDatabase(trainer->hdr.prefix, ROWS, rows, &rules));
  RengaCall(RengaOptionsGetString("train_average", &average, NULL));
  RengaCall(TakeRules(trainer, &rules, average));
  return RENGA_SUCCESS;
}

/* What evaluations decide needs evaluations. */
static RengaErrorCode CheckEvaluations(RengaTrainer trainer, int64_t samples)
{
  const RengaTrainerRules *rules = trainer->rules;
  RengaCheck(!rules->early_stop || rules->eval_every, trainer->hdr.comm, RENGA_ERR_OPTION,
             "-early_stop %lld counts validations during the run: -eval_every says how often",
             (long long)rules->early_stop);
  RengaCheck((!rules->early_stop && !rules->keep_best) || samples > 0, trainer->hdr.comm,
             RENGA_ERR_OPTION,
             "-%s needs validations, but the data have no validation part: -data_validation or "
             "-eval gives one",
             rules->keep_best ? "keep_best" : "early_stop");
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetData - the network, and the samples that it is trained with

   Input:
   . trainer - the trainer, whose rules are set
   . graph - the network, set up; lent until the trainer is destroyed
   . data - the samples, set up; lent until the trainer is destroyed

   Errors: RENGA_ERR_OPTION where -early_stop or -keep_best lacks evaluations; RENGA_ERR_ORDER after
   RengaTrainerSetPipeline() or RengaTrainerSetPartition().

   See also: RengaTrainerSetReader(), RengaTrainerSetPipeline(), RengaTrainerSetPartition()
@*/
RengaErrorCode RengaTrainerSetData(RengaTrainer trainer, RengaGraph graph, RengaData data)
{
  int64_t samples;
  RengaCheckPointers(trainer, graph);
  RengaCheck(!trainer->learners->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetData comes before RengaTrainerSetPipeline and "
             "RengaTrainerSetPartition");
  RengaCall(RengaDataGetCount(data, RENGA_DATA_VALIDATION, &samples));
  const int64_t wanted = trainer->rules->eval_samples;
  if (wanted && (wanted < samples || trainer->reader)) samples = wanted;
  RengaCall(CheckEvaluations(trainer, samples));
  trainer->parts.eval_samples = samples;
  trainer->parts.graph = graph;
  trainer->parts.data = data;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetPipeline - what trains, made by the program

   Input:
   . trainer - the trainer, whose data are set
   . pipeline - set up, told of short batches; lent until the trainer is destroyed
   . batch - samples of a step, at least 1

   Errors: RENGA_ERR_SUPPORT for learners, which have pipelines of their own; RENGA_ERR_ARGUMENT for
   a batch below 1; RENGA_ERR_ORDER before RengaTrainerSetData(), or where there is a pipeline.

   See also: RengaTrainerSetPlan(), RengaTrainerSetUp()
@*/
RengaErrorCode RengaTrainerSetPipeline(RengaTrainer trainer, RengaPipeline pipeline, int64_t batch)
{
  RengaCheckPointers(trainer, pipeline);
  RengaCheck(trainer->parts.data, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetData comes before RengaTrainerSetPipeline");
  RengaCheck(!trainer->learners->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetPipeline comes once, and not beside RengaTrainerSetPartition");
  RengaCheck(batch > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)batch);
  RengaCheck(!trainer->learners->apart, trainer->hdr.comm, RENGA_ERR_SUPPORT,
             "learners of -train_average %s have pipelines of their own", trainer->rules->average);
  RengaCall(RengaLearnersTake(trainer->hdr.owner, pipeline, batch, trainer->learners));
  trainer->parts.pipeline = pipeline;
  trainer->parts.ranks = trainer->hdr.owner;
  trainer->parts.batch = batch;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillPartition(RengaTrainer trainer, RengaPartition partition, int64_t samples)
{
  RengaSettings settings;
  RengaLearners *learners = trainer->learners;
  const RengaTrainerParts *parts = &trainer->parts;
  RengaCall(RengaLearnersSetPartition(learners, parts->graph, parts->data, partition));
  RengaCall(RengaPipelineGetSettings(learners->pipeline[0], &settings));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaLearnersAddPasses(learners, partition, samples, parts->eval_samples));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetPartition - tell a planner what the trainer is going to do

   Collective

   Input:
   . trainer - the trainer, whose data are set; it makes its pipelines, with their options
   . partition - the partition, after its options: it gets settings, samples, and for learners the
     ranks, the batch and the memory of one

   Errors: RENGA_ERR_OPTION for learners without a batch, or that cannot share it equally;
   RENGA_ERR_SUPPORT for settings that do not go with learners; RENGA_ERR_FILE_FORMAT for data
   without samples; RENGA_ERR_ORDER before RengaTrainerSetData().

   See also: RengaPartitionSolve(), RengaTrainerSetPlan(), RengaTrainerGetParts()
@*/
RengaErrorCode RengaTrainerSetPartition(RengaTrainer trainer, RengaPartition partition)
{
  int64_t samples;
  RengaCheckPointers(trainer, partition);
  RengaTrainerParts *parts = &trainer->parts;
  RengaLearners *learners = trainer->learners;
  const RengaLearners before = *learners;
  RengaCheck(parts->data && !learners->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetPartition comes once, after RengaTrainerSetData");
  RengaCall(RengaDataGetCount(parts->data, RENGA_DATA_TRAINING, &samples));
  RengaCheck(samples > 0, trainer->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "the data set has no samples to train with");
  RengaErrorCode code = RengaLearnersCreate(trainer->hdr.owner, trainer->rules->steps, learners);
  if (!code) code = RengaErrorAgree(trainer->hdr.comm, FillPartition(trainer, partition, samples));
  if (code) {
    (void)RengaLearnersDestroy(learners);
    *learners = before;
  }
  RengaCall(code);
  parts->pipeline = learners->pipeline[0];
  parts->ranks = learners->ranks;
  parts->group = learners->group;
  return RENGA_SUCCESS;
}

/* Each learner has a part of the batch; the last step of an epoch has what is left. */
static RengaErrorCode CheckBatchStatistics(RengaTrainer trainer, RengaPlan plan, int64_t batch,
                                           int64_t samples)
{
  const int learners = trainer->learners->count;
  RengaGraph graph = trainer->parts.graph;
  const int64_t rest = samples % (batch * learners);
  if (samples >= batch * learners) RengaCall(RengaPlanCheckStatistics(plan, graph, batch));
  RengaCall(RengaPlanCheckStatistics(plan, graph, rest / learners));
  if (rest % learners) RengaCall(RengaPlanCheckStatistics(plan, graph, rest / learners + 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayLearners(RengaTrainer trainer, int64_t batch)
{
  const RengaLearners *learners = trainer->learners;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(RengaTrainerSay(trainer,
                            "%d learners train apart (%s), each with %lld of %lld samples of a "
                            "step: %d on each of %d group%s of ranks\n",
                            learners->count, learners->manner, (long long)(batch / learners->count),
                            (long long)batch, learners->own, learners->groups,
                            learners->groups == 1 ? "" : "s"));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetPlan - who computes what, of each learner

   Collective

   Input:
   . trainer - the trainer, whose partition is set
   . plan - found by that partition; lent until the trainer is destroyed

   Errors: RENGA_ERR_PLAN where some micro-batch gives a channel of BatchNormalization one value;
   RENGA_ERR_ORDER before RengaTrainerSetPartition() and after RengaTrainerSetUp().

   See also: RengaTrainerSetPartition(), RengaTrainerSetUp()
@*/
RengaErrorCode RengaTrainerSetPlan(RengaTrainer trainer, RengaPlan plan)
{
  int64_t batch, microbatch, samples;
  RengaCheckPointers(trainer, plan);
  RengaTrainerParts *parts = &trainer->parts;
  RengaCheck(parts->pipeline && !trainer->learners->lent, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetPartition comes before RengaTrainerSetPlan");
  RengaCheck(trainer->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetPlan comes before RengaTrainerSetUp");
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaDataGetCount(parts->data, RENGA_DATA_TRAINING, &samples));
  RengaCall(CheckBatchStatistics(trainer, plan, batch, samples));
  batch *= trainer->learners->count;
  if (batch > samples)
    RengaWarning(trainer->hdr.comm,
                 "a batch of %lld samples is larger than the data set, of which %lld are for "
                 "training: each step takes these, and is an epoch; give a smaller -batch_size or "
                 "more samples",
                 (long long)batch, (long long)samples);
  RengaCall(SayLearners(trainer, batch));
  parts->plan = plan;
  parts->batch = trainer->learners->batch = batch;
  return RENGA_SUCCESS;
}

static int CountInputs(RengaGraph graph)
{
  int count = 0;
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    count += RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_INPUT;
  return count;
}

static RengaErrorCode SetUpParts(RengaTrainer trainer)
{
  RengaOptimizer optimizer;
  const RengaTrainerParts *parts = &trainer->parts;
  RengaLearners *learners = trainer->learners;
  int64_t samples[2] = {[RENGA_DATA_VALIDATION] = parts->eval_samples};
  RengaCall(RengaDataGetCount(parts->data, RENGA_DATA_TRAINING, &samples[RENGA_DATA_TRAINING]));
  RengaCall(RengaDataSetBatch(parts->data, parts->batch));
  RengaCall(RengaPipelineGetOptimizer(parts->pipeline, &optimizer));
  trainer->hiding->data = parts->data;
  trainer->hiding->batch = parts->batch / learners->count;
  RengaCall(
      RengaErrorAgree(trainer->hdr.comm, RengaHidingCreate(trainer->hiding, parts->graph, optimizer,
                                                           trainer->rules->steps)));
  if (!learners->lent) RengaCall(RengaLearnersSetUp(learners, parts->graph, parts->plan, samples));
  RengaCall(RengaLearnersPlaceData(learners, parts->data, CountInputs(parts->graph)));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerSetUp - make all that steps need

   Collective

   Input:
   . trainer - the trainer, whose pipeline or plan is set

   Errors: RENGA_ERR_ORDER before that; RENGA_ERR_SUPPORT for what learners cannot do; those of
   RengaPipelineSetUp() and RengaDataSetBatch().

   See also: RengaTrainerSetCheckpoint(), RengaTrainerResume(), RengaTrainerRun()
@*/
RengaErrorCode RengaTrainerSetUp(RengaTrainer trainer)
{
  RengaCheckPointer(trainer);
  if (trainer->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaCheck(trainer->parts.batch > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetPlan or RengaTrainerSetPipeline comes before RengaTrainerSetUp");
  const RengaErrorCode code = SetUpParts(trainer);
  if (code) {
    RengaHidingFree(trainer->hiding);
    RengaMeanDestroy(&trainer->learners->mean);
  }
  RengaCall(code);
  trainer->status.step = RengaPipelineGetStepNumber(trainer->parts.pipeline);
  trainer->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerGetParts - what the trainer works with

   Output:
   . parts - the parts, lent; NULL or 0 where one is not known yet

   See also: RengaTrainerSetData(), RengaTrainerSetPartition()
@*/
RengaErrorCode RengaTrainerGetParts(RengaTrainer trainer, RengaTrainerParts *parts)
{
  RengaCheckPointers(trainer, parts);
  *parts = trainer->parts;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerGetStatus - how far the run is

   Output:
   . status - a copy

   See also: RengaTrainerRun(), RengaTrainerStep()
@*/
RengaErrorCode RengaTrainerGetStatus(RengaTrainer trainer, RengaTrainerStatus *status)
{
  RengaCheckPointers(trainer, status);
  *status = trainer->status;
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerView - show the rules of a run, and how far it is

   Collective

   Input:
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaTrainerGetRules(), RengaTrainerGetStatus()
@*/
RengaErrorCode RengaTrainerView(RengaTrainer trainer, RengaViewer viewer)
{
  const RengaTrainerRules *rules;
  RengaCheckPointers(trainer, viewer);
  rules = trainer->rules;
  RengaCall(RengaViewerPrintf(
      viewer,
      "Trainer: step %lld of %lld, %lld samples each, evaluation of %lld samples every %lld "
      "steps, early stop after %lld, keep best %s, at most %lld rollbacks, average %s of %d\n",
      (long long)trainer->status.step, (long long)rules->steps, (long long)trainer->parts.batch,
      (long long)trainer->parts.eval_samples, (long long)rules->eval_every,
      (long long)rules->early_stop, rules->keep_best ? "true" : "false",
      (long long)rules->rollback_limit, rules->average, trainer->learners->count));
  return RENGA_SUCCESS;
}

/*@
   RengaTrainerDestroy - free a trainer and its pipelines

   Collective

   Input:
   . trainer - set to NULL; a checkpoint that it was given is destroyed before it

   Errors: those of RengaPipelineDestroy().
@*/
RengaErrorCode RengaTrainerDestroy(RengaTrainer *trainer)
{
  RengaCheckPointer(trainer);
  RengaCall(RengaHeaderDestroy(trainer));
  return RENGA_SUCCESS;
}
