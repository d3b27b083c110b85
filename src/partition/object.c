/* The object without its type: made for a type that gives itself, and freed. */
#include "partitionimpl.h"

RengaErrorCode RengaPartitionReset_Private(void *object)
{
  RengaPartition partition = object;
  if (partition->ops->destroy) RengaCall(partition->ops->destroy(partition));
  partition->ops[0] = (struct _RengaPartitionOps){0};
  RengaFree(&partition->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyPartition(void *object)
{
  RengaPartition partition = object;
  RengaCall(RengaPartitionReset_Private(partition));
  RengaCall(RengaPartitionFreeGiven_Private(partition));
  RengaCall(RengaHeaderReplace(&partition->profile, NULL));
  RengaCall(RengaHeaderReplace(&partition->machine, NULL));
  RengaCall(RengaHeaderReplace(&partition->settings, NULL));
  RengaCall(RengaHeaderReplace(&partition->graph, NULL));
  RengaFree(&partition->load);
  RengaPartitionFreeReadings_Private(partition);
  RengaFree(&partition->pass);
  RengaCall(RengaPartitionFreeOptions_Private(partition));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreatePlain_Private(RengaComm comm, RengaPartition *partition)
{
  RengaCall(
      RengaHeaderCreate(comm, "RengaPartition", sizeof **partition, DestroyPartition, partition));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionDestroy - free a partition

   Collective

   Input:
   . partition - the partition; set to NULL
@*/
RengaErrorCode RengaPartitionDestroy(RengaPartition *partition)
{
  RengaCheckPointer(partition);
  RengaCall(RengaHeaderDestroy(partition));
  return RENGA_SUCCESS;
}
