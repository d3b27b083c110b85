/* All of a pass that may fail on one rank alone, before the ranks agree on it: checks, programs,
   lists and memory. */
#include "pipelineimpl.h"
#include "renga/private/optimizer.h"
#include <string.h>

static RengaErrorCode CheckBatch(RengaPipeline pipeline, const Pass *pass)
{
  const RengaBatch *batch = pass->batch;
  RengaCheckPointer(batch);
  RengaCheck(batch->read != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the batch has no function that reads it");
  RengaCheck(batch->samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)batch->samples);
  RengaCheck(pipeline->has_loss || pass->call == CALL_FORWARD, pipeline->hdr.comm, RENGA_ERR_ORDER,
             "the network has no loss: it can be run forward, not %s",
             pass->training ? "trained" : "evaluated");
  return RENGA_SUCCESS;
}

static RengaErrorCode HashSettings(RengaPipeline pipeline, uint64_t *hash)
{
  RengaSetting setting[RENGA_OPTIMIZER_SETTINGS_MOST];
  int count;
  RengaCall(RengaOptimizerListSettings_Private(pipeline->optimizer, &count, setting));
  *hash = RengaHash(pipeline->on_nonfinite, strlen(pipeline->on_nonfinite), 0);
  for (int s = 0; s < count; s++)
    *hash = RengaHash(&setting[s].hash, sizeof setting[s].hash, *hash);
  return RENGA_SUCCESS;
}

/* Settings of the optimizer that change what is held in memory are those of the set-up. */
static RengaErrorCode CheckLayout(RengaPipeline pipeline)
{
  const char *const *names, *type;
  int count;
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &count, &names));
  RengaCall(RengaOptimizerGetType(pipeline->optimizer, &type));
  bool same = count == pipeline->n_moments;
  for (int m = 0; m < count && same; m++) same = strcmp(names[m], pipeline->moment[m]) == 0;
  RengaCheck(
      same, MPI_COMM_SELF, RENGA_ERR_ORDER,
      "the optimizer, now of type %s, keeps %d moments of each parameter, and memory is laid "
      "out for %d: call RengaPipelineReset and RengaPipelineSetUp",
      type, count, pipeline->n_moments);
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    bool trained;
    RengaCall(RengaPipelineIsTrained_Private(pipeline, p, &trained));
    RengaCheck(trained == parameter->trained, MPI_COMM_SELF, RENGA_ERR_ORDER,
               "the groups of the optimizer %s %s, and memory is laid out otherwise: call "
               "RengaPipelineReset and RengaPipelineSetUp",
               trained ? "no longer freeze" : "now freeze", parameter->name);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareOptimizer(RengaPipeline pipeline, Pass *pass)
{
  uint64_t hash;
  double rate;
  RengaCall(RengaOptimizerSetUp(pipeline->optimizer));
  RengaCall(HashSettings(pipeline, &hash));
  if (hash != pipeline->checked) {
    RengaCall(RengaPipelineCheckGroups_Private(pipeline));
    if (pipeline->stage >= 0) RengaCall(CheckLayout(pipeline));
    pipeline->checked = hash;
  }
  RengaCall(RengaOptimizerFixLearningRate_Private(pipeline->optimizer, pipeline->step, &rate));
  memcpy(&pass->want[WANT_RATE], &rate, sizeof rate);
  memcpy(&pass->want[WANT_SETTINGS], &hash, sizeof hash);
  return RENGA_SUCCESS;
}

/* A step of another size than announced must fit the buffers that were planned. */
static RengaErrorCode CheckFits(RengaPipeline pipeline, const Pass *pass)
{
  RengaSchedule schedule;
  int64_t in_flight;
  int buffers;
  RengaCall(RengaPipelineGetSchedule_Private(pipeline, pass->microbatches, false, &schedule));
  RengaCall(RengaScheduleGetInFlight(schedule, pipeline->stage, &in_flight));
  RengaCall(RengaPipelineCountTreeBuffers_Private(pipeline, pass->microbatches, &buffers));
  RengaCheck(in_flight <= pipeline->slots && buffers <= pipeline->n_buffers, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "a step of %lld samples needs more memory than was planned for %lld: announce it with "
             "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)pass->batch->samples, (long long)pipeline->batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareActions(RengaPipeline pipeline, Pass *pass)
{
  RengaSchedule schedule;
  RengaPipelineRange_Private(pipeline, pass->microbatches, &pass->first, &pass->last);
  if (pass->training) RengaCall(CheckFits(pipeline, pass));
  RengaCall(
      RengaPipelineGetSchedule_Private(pipeline, pass->microbatches, !pass->training, &schedule));
  RengaCall(RengaScheduleGetActions(schedule, pipeline->stage, pipeline->replica, &pass->n_actions,
                                    &pass->action));
  RengaCall(RengaPipelineGetOrder_Private(pipeline, pass->microbatches, !pass->training,
                                          &pass->order, &pass->place));
  return RENGA_SUCCESS;
}

/* The programs that micro-batch number runs. */
static RengaErrorCode PrepareSize(RengaPipeline pipeline, const Pass *pass, int64_t number,
                                  bool adds, bool *uses_sums)
{
  Program *program;
  const int64_t samples = RengaPipelineSamples_Private(pipeline, pass, number);
  RengaCall(RengaPipelineGetProgram_Private(pipeline, pass->kind, samples, pass->target, &program));
  *uses_sums = program->uses_sums;
  if (adds) RengaCall(RengaPipelineGetAdding_Private(pipeline, samples, &program));
  if (*uses_sums)
    RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_PROLOGUE, samples, RENGA_VALUE_NONE,
                                              &program));
  return RENGA_SUCCESS;
}

/* All micro-batches have one size, but for the last of the batch. */
static RengaErrorCode PreparePrograms(RengaPipeline pipeline, Pass *pass)
{
  const int64_t count = pass->last - pass->first;
  const bool adds = pass->training && count > 1 && RengaPipelineIsOrdered_Private(pipeline);
  bool uses_sums;
  if (count > 0) RengaCall(PrepareSize(pipeline, pass, pass->first, adds, &uses_sums));
  if (count > 1) RengaCall(PrepareSize(pipeline, pass, pass->last - 1, adds, &uses_sums));
  RengaCall(PrepareSize(pipeline, pass, 0, false, &uses_sums));
  if (uses_sums) RengaCall(RengaMalloc(pipeline->n_sums * pass->microbatches, &pass->share));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareStage(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(PrepareActions(pipeline, pass));
  RengaCall(PreparePrograms(pipeline, pass));
  if (!pass->training) return RENGA_SUCCESS;
  if (pipeline->statistics > 0) {
    RengaCall(RengaMalloc(pass->microbatches * pipeline->statistics, &pass->statistics));
    RengaCall(RengaMalloc(pipeline->statistics, &pass->scratch));
  }
  RengaCall(RengaPipelineBeginGradients_Private(pipeline));
  return RENGA_SUCCESS;
}

/* Not collective; changes nothing that the next pass could see. */
RengaErrorCode RengaPipelinePrepare_Private(RengaPipeline pipeline, Pass *pass)
{
  pass->training = pass->kind == PROGRAM_TRAINING;
  RengaCall(CheckBatch(pipeline, pass));
  pass->microbatches = RengaPlanMicrobatches(pipeline->plan, pass->batch->samples);
  pass->want[WANT_CALL] = pass->call;
  pass->want[WANT_STEP] = pipeline->step;
  pass->want[WANT_SAMPLES] = pass->batch->samples;
  if (pass->training) RengaCall(PrepareOptimizer(pipeline, pass));
  pass->n_values = 1;
  if (pass->call != CALL_FORWARD) pass->n_values += pass->microbatches;
  if (pass->training) pass->n_values += pipeline->n_network;
  RengaCall(RengaMalloc(pass->n_values, &pass->values));
  if (pass->call != CALL_FORWARD) pass->loss = pass->values;
  if (pipeline->stage >= 0) RengaCall(PrepareStage(pipeline, pass));
  return RENGA_SUCCESS;
}

void RengaPipelineFreePass_Private(Pass *pass)
{
  RengaFree(&pass->values);
  RengaFree(&pass->share);
  RengaFree(&pass->statistics);
  RengaFree(&pass->scratch);
}
