/* The wishes of a partition, set by the program. */
#include "partitionimpl.h"

/*@
   RengaPartitionSetGraph - say which network is to be cut

   Collective

   Input:
   . graph - the network, set up; the partition keeps a reference
@*/
RengaErrorCode RengaPartitionSetGraph(RengaPartition partition, RengaGraph graph)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(graph);
  RengaCall(RengaHeaderReplace(&partition->graph, graph));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetStages - number of pipeline stages

   Collective

   Input:
   . stages - the number of stages, at least 1; 0: 1, or ranks / replicas where the replicas are set

   Options:
   . -layout_pipeline - the number

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaPartitionGetStages(), RengaPartitionSetReplicas()
@*/
RengaErrorCode RengaPartitionSetStages(RengaPartition partition, int stages)
{
  RengaCheckPointer(partition);
  RengaCheck(stages >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d stages", stages);
  partition->stages = stages;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetReplicas - number of copies of each stage

   Collective

   Input:
   . replicas - the number of replicas of each stage, at least 1; 0: ranks / stages

   Options:
   . -layout_data - the number

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaPartitionGetReplicas(), RengaPartitionSetStages()
@*/
RengaErrorCode RengaPartitionSetReplicas(RengaPartition partition, int replicas)
{
  RengaCheckPointer(partition);
  RengaCheck(replicas >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d replicas", replicas);
  partition->replicas = replicas;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetTensor - number of ranks that compute a replica of a stage together

   Collective

   Input:
   . tensor - the tensor-parallel degree, at least 1, at most the lanes of the network. 0: 1, but
     type auto chooses where the network has lanes or their number is open (RengaGraphSetLanes()).
     RENGA_PARTITION_TENSOR_AUTO: plans with 1, 2 and more are searched, and the fastest that fits
     is taken

   Options:
   . -layout_tensor - the number, or auto

   Errors: RENGA_ERR_ARGUMENT for a negative number; of RengaPartitionSolve, RENGA_ERR_PLAN where
   stages x replicas x context-parallel ranks x tensor-parallel ranks are not the ranks,
   RENGA_ERR_OPTION where the network has no lanes of heads, and RENGA_ERR_SUPPORT for type rannc
   where a number is set, for types that search where the network has lanes of tokens too, and for
   types that do not search where it is to be chosen.

   Notes: each of these ranks runs the nodes of consecutive lanes (-graph_lanes), and all of them
   the nodes outside of lanes. Losses and weights are those of one rank with as many lanes. Types
   that search leave groups of these ranks idle where no plan that they find is faster with all; the
   plan says so.

   See also: RengaPartitionGetTensor(), RengaPartitionSetSequence()
@*/
RengaErrorCode RengaPartitionSetTensor(RengaPartition partition, int tensor)
{
  RengaCheckPointer(partition);
  RengaCheck(tensor >= 0 || tensor == RENGA_PARTITION_TENSOR_AUTO, partition->hdr.comm,
             RENGA_ERR_ARGUMENT, "%d tensor-parallel ranks", tensor);
  partition->tensor = tensor;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetSequence - number of context-parallel ranks, which split the tokens of a
   sequence

   Collective

   Input:
   . sequence - the context-parallel degree, at least 1, at most the token lanes of the network. 0:
     type auto chooses it where lanes of tokens are given, where they are open and sequences have
     16,384 tokens or more, or where nothing fits without; other types take 1.
     RENGA_PARTITION_TENSOR_AUTO: types auto and exact always choose it, rannc among even plans

   Options:
   . -layout_context - the number, or auto

   Errors: RENGA_ERR_ARGUMENT for a negative number; of RengaPartitionSolve, RENGA_ERR_OPTION where
   the network has no lanes of tokens (RengaGraphSetTokenLanes()) and none may be chosen, and else
   as RengaPartitionSetTensor().

   Notes: each context-parallel rank has consecutive lanes of tokens, and is as many tensor-parallel
   ranks as are set.

   See also: RengaPartitionGetSequence(), RengaPartitionSetTensor()
@*/
RengaErrorCode RengaPartitionSetSequence(RengaPartition partition, int sequence)
{
  RengaCheckPointer(partition);
  RengaCheck(sequence >= 0 || sequence == RENGA_PARTITION_TENSOR_AUTO, partition->hdr.comm,
             RENGA_ERR_ARGUMENT, "%d context-parallel ranks", sequence);
  partition->sequence = sequence;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetRanks - how many ranks to plan for

   Collective

   Input:
   . ranks - their number, which may differ from this run's; 0: the ranks of the communicator

   Options:
   . -partition_ranks - the number

   Errors: RENGA_ERR_ARGUMENT for a negative number.
@*/
RengaErrorCode RengaPartitionSetRanks(RengaPartition partition, int ranks)
{
  RengaCheckPointer(partition);
  RengaCheck(ranks >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d ranks", ranks);
  partition->ranks = ranks;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetMemory - what each device may use

   Collective

   Input:
   . bytes - per device; 0: no bound

   Options:
   . -partition_memory - the bound, such as 8GiB

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   Notes: the plan carries it, and RengaPipelineSetUp(), which knows the memory of each stage,
   refuses a plan that is over it.
@*/
RengaErrorCode RengaPartitionSetMemory(RengaPartition partition, int64_t bytes)
{
  RengaCheckPointer(partition);
  RengaCheck(bytes >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "a memory of %lld bytes",
             (long long)bytes);
  partition->memory = bytes;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetBatch - samples per step and per micro-batch

   Collective

   Input:
   . batch - samples of a step over all replicas; 0: the network file's, or else 32
   . microbatch - samples of a micro-batch, at least 1. 0: types auto and exact choose it
     (RengaPartitionAutoSetMicrobatchSizes()), and others take an eighth of the batch, rounded up. A
     network with statistics (RengaGraphGetBatchStatistics()) has the whole batch where it fits, or
     that of one replica where their number is given

   Options:
   . -batch_size - samples of a step
   . -microbatch_size - samples of a micro-batch

   Errors: RENGA_ERR_ARGUMENT for a batch or micro-batch that cannot be.

   Notes: results depend on the micro-batch, so that one that is given is kept; the eighth depends
   on no ranks and no layout.
@*/
RengaErrorCode RengaPartitionSetBatch(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  RengaCheckPointer(partition);
  RengaCheck(batch >= 0 && microbatch >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT,
             "a batch of %lld in micro-batches of %lld samples", (long long)batch,
             (long long)microbatch);
  partition->batch = batch;
  partition->microbatch = microbatch;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetLeaf - micro-batches whose gradients are added one after the other

   Collective

   Input:
   . leaf - micro-batches of a leaf of the sum of gradients (RengaPlanSetLeaf()), at least 1. 0: the
     leaf of the plan's file, or one of RengaPartitionSetLeaves() where the type knows costs, or 1

   Options:
   . -partition_leaf - the number

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaPartitionGetLeaf(), RengaPartitionSetLeaves()
@*/
RengaErrorCode RengaPartitionSetLeaf(RengaPartition partition, int64_t leaf)
{
  RengaCheckPointer(partition);
  RengaCheck(leaf >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "leaves of %lld micro-batches",
             (long long)leaf);
  partition->leaf = leaf;
  return RENGA_SUCCESS;
}
