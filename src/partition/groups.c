/* Groups of tensor ranks (-partition_tensor): what is asked for, and whether ranks make them. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include <string.h>

/* Ranks that compute a replica of a stage together. */
int RengaPartitionTensorRanks_Private(RengaPartition partition)
{
  return partition->tensor > 1 ? partition->tensor : 1;
}

/* The type looks for plans with a given number of them. */
bool RengaPartitionSearchesTensor_Private(RengaPartition partition)
{
  const char *type = partition->hdr.type_name;
  return !strcmp(type, RENGA_PARTITION_AUTO) || !strcmp(type, RENGA_PARTITION_EXACT);
}

/* The tensor ranks are chosen beside what a type that searches finds. */
static RengaErrorCode CheckChosenTensor(RengaPartition partition)
{
  int lanes, nodes;
  RengaCall(RengaGraphGetLanes(partition->graph, &lanes, &nodes));
  RengaCheck(partition->ops->plan, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "-partition_tensor auto is not supported by -partition_type %s, which chooses no "
             "layout: give -partition_type auto, or the number of tensor ranks",
             partition->hdr.type_name);
  RengaCheck(lanes > 1, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_tensor auto: tensor ranks share out the lanes of the network, of which "
             "there is 1: give -graph_lanes, or leave it out");
  RengaCheck(nodes > 0, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "-partition_tensor auto: nothing of the network is computed in lanes: leave it out");
  return RENGA_SUCCESS;
}

/* The tensor ranks are given. */
RengaErrorCode RengaPartitionCheckTensor_Private(RengaPartition partition)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  if (partition->tensor == RENGA_PARTITION_TENSOR_AUTO) RengaCall(CheckChosenTensor(partition));
  const bool searches = RengaPartitionSearchesTensor_Private(partition);
  RengaCheck(tensor == 1 || !partition->leaves || searches, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_leaves %s: with %d tensor ranks (-partition_tensor) the leaf is not "
             "chosen: give -reduction_leaf",
             partition->leaves, tensor);
  RengaCheck(tensor == 1 || !partition->ops->plan || searches, partition->hdr.comm,
             RENGA_ERR_SUPPORT,
             "-partition_tensor %d is not supported by -partition_type %s, which does not choose "
             "among such plans: give -partition_type auto, exact, even, tree or manual",
             tensor, partition->hdr.type_name);
  return RENGA_SUCCESS;
}

/* So many ranks make groups of tensor ranks: all of them, where there are such groups. */
RengaErrorCode RengaPartitionFindGroups_Private(RengaPartition partition, int ranks, int *groups)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  const int64_t stages = partition->stages ? partition->stages : 1;
  const int64_t replicas = partition->replicas ? partition->replicas : 1;
  *groups = ranks / tensor;
  if (tensor > 1 && ranks % tensor == 0 && RengaPartitionSearchesTensor_Private(partition))
    return RENGA_SUCCESS; /* it says itself that there is no layout */
  RengaCheck(tensor == 1 || (ranks % tensor == 0 && *groups % (stages * replicas) == 0),
             partition->hdr.comm, RENGA_ERR_PLAN,
             "-partition_tensor %d with %lld stages x %lld replicas needs %lld ranks%s, but there "
             "are %d: ranks are stages x replicas x tensor ranks",
             tensor, (long long)stages, (long long)replicas,
             (long long)(stages * replicas * tensor),
             partition->stages && partition->replicas ? "" : " or a multiple of them", ranks);
  return RENGA_SUCCESS;
}

/* No rank is left over where there are tensor ranks. */
RengaErrorCode RengaPartitionCheckGroups_Private(RengaPartition partition, int ranks, int stages,
                                                 int replicas)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  RengaCheck(tensor == 1 || (int64_t)stages * replicas * tensor == ranks, partition->hdr.comm,
             RENGA_ERR_PLAN,
             "%d stages x %d replicas x %d tensor ranks (-partition_tensor) are %lld ranks, but "
             "there are %d: start as many, or ask for other stages or replicas",
             stages, replicas, tensor, (long long)stages * replicas * tensor, ranks);
  return RENGA_SUCCESS;
}
