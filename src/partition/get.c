/* The wishes of a partition, as they were set. */
#include "partitionimpl.h"

/*@
   RengaPartitionGetType - the name of the type, lent

   Output:
   . type - its name
@*/
RengaErrorCode RengaPartitionGetType(RengaPartition partition, const char **type)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(type);
  *type = partition->hdr.type_name;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetStages - number of pipeline stages

   Output:
   . stages - 0: chosen
@*/
RengaErrorCode RengaPartitionGetStages(RengaPartition partition, int *stages)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(stages);
  *stages = partition->stages;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetReplicas - number of copies of each stage

   Output:
   . replicas - 0: chosen
@*/
RengaErrorCode RengaPartitionGetReplicas(RengaPartition partition, int *replicas)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(replicas);
  *replicas = partition->replicas;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetTensor - number of ranks that compute a replica of a stage together

   Output:
   . tensor - 0: 1; RENGA_PARTITION_TENSOR_AUTO: chosen
@*/
RengaErrorCode RengaPartitionGetTensor(RengaPartition partition, int *tensor)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(tensor);
  *tensor = partition->tensor;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetSequence - number of context-parallel ranks, which split a sequence's tokens

   Output:
   . sequence - 0: 1, or chosen by type auto; RENGA_PARTITION_TENSOR_AUTO: chosen
@*/
RengaErrorCode RengaPartitionGetSequence(RengaPartition partition, int *sequence)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(sequence);
  *sequence = partition->sequence;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetRanks - how many ranks to plan for

   Output:
   . ranks - 0: those of the communicator
@*/
RengaErrorCode RengaPartitionGetRanks(RengaPartition partition, int *ranks)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(ranks);
  *ranks = partition->ranks;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetMemory - what each device may use

   Output:
   . bytes - 0: no bound
@*/
RengaErrorCode RengaPartitionGetMemory(RengaPartition partition, int64_t *bytes)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(bytes);
  *bytes = partition->memory;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetLeaf - micro-batches whose gradients are added one after the other

   Output:
   . leaf - 0: chosen
@*/
RengaErrorCode RengaPartitionGetLeaf(RengaPartition partition, int64_t *leaf)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(leaf);
  *leaf = partition->leaf;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetGraph - which network is to be cut, lent

   Output:
   . graph - NULL: none was set
@*/
RengaErrorCode RengaPartitionGetGraph(RengaPartition partition, RengaGraph *graph)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(graph);
  *graph = partition->graph;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetPlanFile - the file that the plan is taken from, lent

   Output:
   . file - NULL: none
@*/
RengaErrorCode RengaPartitionGetPlanFile(RengaPartition partition, const char **file)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(file);
  *file = partition->load;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetBatch - samples per step and per micro-batch

   Output:
   . batch - samples of a step; 0: the network file's, or else 32
   . microbatch - samples of a micro-batch; 0: chosen
@*/
RengaErrorCode RengaPartitionGetBatch(RengaPartition partition, int64_t *batch, int64_t *microbatch)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(batch);
  RengaCheckPointer(microbatch);
  *batch = partition->batch;
  *microbatch = partition->microbatch;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetLeaves - leaves of which the fastest is taken

   Collective

   Input:
   . partition - the partition; its type knows costs, or has a machine or a profile
   . leaves - numbers of micro-batches that may be added one after the other (RengaPlanSetLeaf()):
     "1,4,16". auto: 1, 4, 6, 8 … 96. NULL: auto; of large problems 1, and where that does not fit
     4, 16 and 64

   Options:
   . -partition_leaf - the same

   Errors: with a leaf of RengaPartitionSetLeaf(), in RengaPartitionSetFromOptions() or
   RengaPartitionSolve(); what is no list, in RengaPartitionSolve()

   See also: RengaPartitionGetLeaves(), RengaPartitionSetLeaf()
@*/
RengaErrorCode RengaPartitionSetLeaves(RengaPartition partition, const char *leaves)
{
  char *copy = NULL;
  RengaCheckPointer(partition);
  if (leaves) RengaCall(RengaStringCopy(leaves, &copy));
  RengaFree(&partition->leaves);
  partition->leaves = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetLeaves - leaves of which the fastest is taken, lent

   Output:
   . leaves - the text that RengaPartitionSetLeaves() takes; NULL: none was set
@*/
RengaErrorCode RengaPartitionGetLeaves(RengaPartition partition, const char **leaves)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(leaves);
  *leaves = partition->leaves;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetPlanFile - take the plan from a file instead of making one

   Collective

   Input:
   . file - a file that RengaPlanSave() wrote, or one written by hand (doc/plans.md); NULL: a plan
     is made

   Options:
   . -plan_load - the file

   Notes: stages, replicas, ranks and schedule are the file's; what a step takes and needs is worked
   out anew. Samples and leaf that are set win over the file's own.

   See also: RengaPartitionGetPlanFile(), RengaPlanLoad()
@*/
RengaErrorCode RengaPartitionSetPlanFile(RengaPartition partition, const char *file)
{
  char *copy = NULL;
  RengaCheckPointer(partition);
  if (file) RengaCall(RengaStringCopy(file, &copy));
  RengaFree(&partition->load);
  partition->load = copy;
  return RENGA_SUCCESS;
}
