/* A plan from a file instead of a new one: it must go with network, ranks and memory. */
#include "partitionimpl.h"
#include "search/search.h"
#include <string.h>

/* What a plan's file says of memory, against what a device of this machine has. */
static RengaErrorCode CheckMemory(RengaPartition partition, RengaPlan plan)
{
  double memory = 0;
  char needed[32], allowed[32];
  RengaCall(RengaPartitionMemoryBound_Private(partition, &memory));
  for (int s = 0; memory > 0 && s < RengaPlanGetStageCount(plan); s++) {
    const int64_t bytes = RengaPlanGetStage(plan, s)->memory;
    RengaFormatBytes((double)bytes, sizeof needed, needed);
    RengaFormatBytes(memory, sizeof allowed, allowed);
    RengaCheck((double)bytes <= memory, partition->hdr.comm, RENGA_ERR_PLAN,
               "%s: stage %d needs %s, but a device may use %s: plan again for this machine",
               partition->load, s, needed, allowed);
  }
  return RENGA_SUCCESS;
}

/* A plan for another machine runs, but what it predicts is of that one. */
static RengaErrorCode CheckMachine(RengaPartition partition, RengaPlan plan)
{
  RengaMachine machine = NULL;
  const char *made_for, *costs, *name = NULL;
  int64_t memory;
  RengaCall(RengaPlanGetOrigin(plan, &made_for, &costs, &memory));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (!made_for || !machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetName(machine, &name));
  if (strcmp(name, made_for) != 0)
    RengaWarning(partition->hdr.comm,
                 "%s was made for %s, not for %s: its predictions are of that machine; plan again "
                 "for this one",
                 partition->load, made_for, name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionLoad_Private(RengaPartition partition, int ranks, RengaPlan plan)
{
  int64_t batch, microbatch;
  RengaCall(RengaPlanLoad(plan, partition->graph, partition->load));
  RengaCall(RengaPlanCheck(plan, partition->graph, ranks));
  RengaCall(CheckMemory(partition, plan));
  RengaCall(CheckMachine(partition, plan));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  if (partition->batch) batch = partition->batch;
  if (partition->microbatch) microbatch = partition->microbatch;
  RengaCall(RengaPlanSetBatch(plan, batch, microbatch));
  if (partition->leaf) RengaCall(RengaPlanSetLeaf(plan, partition->leaf));
  return RENGA_SUCCESS;
}
