/* A plan from a file instead of a new one. Who computes what is taken from the file; what a step
   takes and needs is worked out anew, for this network, machine and run. */
#include "partitionimpl.h"
#include "rengacomm.h"
#include "search/search.h"
#include <math.h>
#include <string.h>

static const double SAME_STEP = 0.005; /* share of it */

static RengaErrorCode SayMachine(RengaPartition partition, RengaPlan file)
{
  RengaMachine machine = NULL;
  const char *made_for, *costs, *name = NULL;
  int64_t memory;
  RengaCall(RengaPlanGetOrigin(file, &made_for, &costs, &memory));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (!made_for || !machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetName(machine, &name));
  if (strcmp(name, made_for) != 0)
    RengaWarning(partition->hdr.comm,
                 "%s was made for %s, not for %s: what it takes there is worked out, but another "
                 "plan may be better",
                 partition->load, made_for, name);
  return RENGA_SUCCESS;
}

/* What the file says of the step against what was worked out. */
static RengaErrorCode SayStep(RengaPartition partition, RengaPlan file, RengaPlan plan)
{
  RengaPlanPrediction said, found;
  char was[32], is[32];
  RengaCall(RengaPlanGetPrediction(file, &said));
  RengaCall(RengaPlanGetPrediction(plan, &found));
  RengaFormatSeconds(said.step, sizeof was, was);
  RengaFormatSeconds(found.step, sizeof is, is);
  if (said.step > 0 && found.step <= 0)
    RengaWarning(partition->hdr.comm,
                 "%s predicts %s per step, which cannot be checked without costs: give "
                 "-machine_file, or -profile_type",
                 partition->load, was);
  else if (said.step > 0 && fabs(said.step - found.step) > SAME_STEP * found.step)
    RengaWarning(partition->hdr.comm, "%s predicts %s per step, but here this plan takes %s",
                 partition->load, was, is);
  return RENGA_SUCCESS;
}

static RengaErrorCode SayMemory(RengaPartition partition, RengaPlan file, RengaPlan plan)
{
  for (int s = 0; s < RengaPlanGetStageCount(file); s++) {
    const int64_t said = RengaPlanGetStage(file, s)->memory;
    const int64_t found = RengaPlanGetStage(plan, s)->memory;
    if (!said || !found || said == found) continue;
    RengaWarning(partition->hdr.comm,
                 "%s says that stage %d needs %lld bytes of a device, but here it needs %lld",
                 partition->load, s, (long long)said, (long long)found);
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPlanFile(RengaPartition partition, int ranks, RengaPlan file)
{
  int64_t batch, microbatch;
  RengaCall(RengaPlanLoad(file, partition->graph, partition->load));
  RengaCall(RengaPlanCheck(file, partition->graph, ranks));
  RengaCall(RengaPlanGetBatch(file, &batch, &microbatch));
  if (partition->batch) batch = partition->batch;
  if (partition->microbatch) microbatch = partition->microbatch;
  RengaCall(RengaPlanCheckMicrobatches_Private(partition->hdr.comm, batch, microbatch));
  RengaCall(RengaPlanSetBatch(file, batch, microbatch));
  if (partition->leaf) RengaCall(RengaPlanSetLeaf(file, partition->leaf));
  RengaCall(RengaPlanCheck(file, partition->graph, 0));
  return RENGA_SUCCESS;
}

/* Costs are known of a machine or a profile that is given; those of ranks that are here are
   measured where the file has a prediction that is to be checked. */
static RengaErrorCode HasCosts(RengaPartition partition, RengaPlan file, bool *costs)
{
  RengaMachine machine;
  RengaPlanPrediction said;
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  RengaCall(RengaPlanGetPrediction(file, &said));
  const bool here = RengaPlanGetRankCount(file) <= RengaCommGetSize(partition->hdr.owner);
  *costs = machine || partition->profile || partition->own.type_given || (here && said.step > 0);
  return RENGA_SUCCESS;
}

/* Without costs: the memory alone. */
RengaErrorCode RengaPartitionForecast_Private(RengaPartition partition, RengaPlan plan)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  const int count = RengaPlanGetStageCount(plan);
  RengaForecastMemory *memory = NULL;
  RengaForecastRun run = {0};
  int64_t *samples = NULL, batch, microbatch;
  RengaDevice device;
  void *session = NULL;
  if (!forecast) return RENGA_SUCCESS;
  RengaCall(RengaPartitionGetSettings(partition, &run.settings));
  RengaCall(RengaSettingsGetDevice(run.settings, &device));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaMalloc(count, &memory));
  RengaErrorCode code = RengaPartitionListShort_Private(partition, batch, &run.n_short, &samples);
  run.short_batch = samples;
  if (!code) code = forecast->stages(partition->graph, plan, &run, &session, memory);
  forecast->end(&session);
  RengaFree(&samples);
  for (int s = 0; s < count && !code; s++) {
    const RengaPlanMemory parts = {.parameters = memory[s].parameters,
                                   .gradients = memory[s].gradients,
                                   .optimizer = memory[s].optimizer,
                                   .saved = memory[s].saved,
                                   .temporary = memory[s].temporary,
                                   .messages = memory[s].messages,
                                   .inputs = memory[s].inputs};
    code = RengaPlanSetMemoryParts(plan, s, &parts);
  }
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode JudgeFile(RengaPartition partition, int ranks, RengaPlan file, RengaPlan plan)
{
  const RengaSearchWish wish = {.given = file};
  RengaMachine machine;
  int64_t batch, microbatch;
  bool costs = false;
  RengaCall(HasCosts(partition, file, &costs));
  RengaCall(RengaPlanGetBatch(file, &batch, &microbatch));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (!machine && !partition->profile) ranks = RengaPlanGetRankCount(file);
  if (costs) {
    RengaCall(RengaSearchPartition_Private(partition, &wish, ranks, batch, microbatch, plan));
  } else {
    RengaCall(RengaSearchCopyPlan_Private(partition->graph, file, plan));
    RengaCall(RengaPartitionForecast_Private(partition, plan));
  }
  RengaCall(RengaPartitionCheckMemory_Private(partition, partition->load,
                                              "plan again for this machine", plan));
  RengaCall(SayMachine(partition, file));
  RengaCall(SayStep(partition, file, plan));
  RengaCall(SayMemory(partition, file, plan));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionLoad_Private(RengaPartition partition, int ranks, RengaPlan plan)
{
  RengaPlan file = NULL;
  RengaCall(RengaPlanCreate(partition->hdr.owner, &file));
  RengaErrorCode code = ReadPlanFile(partition, ranks, file);
  if (!code) code = JudgeFile(partition, ranks, file, plan);
  RengaPlanDestroy(&file);
  RengaCall(code);
  return RENGA_SUCCESS;
}
