/* Groups of tensor ranks (-partition_tensor): what is asked for, and whether ranks make them. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include <stdlib.h>
#include <string.h>

/* Ranks that compute a replica of a stage together. */
int RengaPartitionTensorRanks_Private(RengaPartition partition)
{
  return partition->tensor > 1 ? partition->tensor : 1;
}

/* The type looks for plans with a given number of them, whose lanes are of heads. */
bool RengaPartitionSearchesTensor_Private(RengaPartition partition)
{
  const char *type = partition->hdr.type_name;
  return !RengaGraphLanesAreTokens_Private(partition->graph) &&
         (!strcmp(type, RENGA_PARTITION_AUTO) || !strcmp(type, RENGA_PARTITION_EXACT));
}

/* They are open. In a run on ranks that are here somebody who gives the micro-batch says what
   decides the bits of results: then lanes are chosen where tensor ranks are asked for alone. */
bool RengaPartitionChoosesLanes_Private(RengaPartition partition)
{
  const RengaMachine machine = partition->machine ? partition->machine : partition->own.machine;
  const bool asked = partition->tensor == RENGA_PARTITION_TENSOR_AUTO;
  return RengaGraphLanesAreOpen_Private(partition->graph) &&
         (asked || machine || !partition->microbatch);
}

/* Type auto does it where nobody gave their number and the network has lanes, or may have them. */
bool RengaPartitionChoosesTensor_Private(RengaPartition partition, int ranks)
{
  int lanes, nodes;
  if (partition->tensor == RENGA_PARTITION_TENSOR_AUTO) return true;
  if (partition->tensor != 0 || strcmp(partition->hdr.type_name, RENGA_PARTITION_AUTO) ||
      RengaGraphLanesAreTokens_Private(partition->graph) ||
      RengaGraphGetLanes(partition->graph, &lanes, &nodes))
    return false;
  const bool in_lanes = lanes > 1 && nodes > 0; /* as an earlier plan may have left it */
  if (RengaPartitionChoosesLanes_Private(partition)) return ranks > 1 || in_lanes;
  return ranks > 1 && in_lanes;
}

/* The tensor ranks are chosen beside what a type that searches finds. */
static RengaErrorCode CheckChosenTensor(RengaPartition partition)
{
  const char *share = RengaGraphShareOption_Private(partition->graph);
  int lanes, nodes;
  RengaCall(RengaGraphGetLanes(partition->graph, &lanes, &nodes));
  RengaCheck(partition->ops->plan, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "%s auto is not supported by -partition_type %s, which chooses no layout: give "
             "-partition_type auto, or the number of ranks",
             share, partition->hdr.type_name);
  if (RengaPartitionChoosesLanes_Private(partition)) return RENGA_SUCCESS;
  RengaCheck(lanes > 1, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_tensor auto: tensor ranks share out the lanes of the network, of which "
             "there is 1: give -graph_lanes, or leave it out");
  RengaCheck(nodes > 0, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "%s auto: nothing of the network is computed in lanes: leave it out", share);
  return RENGA_SUCCESS;
}

/* The option that asks for them is that of the kind of lanes which the network has. */
static RengaErrorCode CheckKindOfLanes(RengaPartition partition)
{
  const bool tokens = RengaGraphLanesAreTokens_Private(partition->graph);
  const char *tensor = partition->tensor_text, *sequence = partition->sequence_text;
  RengaCheck(!tokens || !tensor || (strcmp(tensor, "auto") && strtol(tensor, NULL, 10) < 2),
             partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_tensor %s shares out lanes of heads, but the network is computed in "
             "lanes of tokens (-graph_token_lanes): give -partition_sequence %s, or -graph_lanes "
             "instead",
             tensor, tensor);
  RengaCheck(tokens || partition->sequence == 0 || partition->sequence == 1, partition->hdr.comm,
             RENGA_ERR_OPTION,
             "-partition_sequence %s shares out the lanes of tokens of the network, of which there "
             "is 1: give -graph_token_lanes %s or more",
             sequence, partition->sequence > 1 ? sequence : "2");
  return RENGA_SUCCESS;
}

/* The tensor ranks are given. */
RengaErrorCode RengaPartitionCheckTensor_Private(RengaPartition partition)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  RengaCall(CheckKindOfLanes(partition));
  if (partition->tensor == RENGA_PARTITION_TENSOR_AUTO) RengaCall(CheckChosenTensor(partition));
  const char *share = RengaGraphShareOption_Private(partition->graph);
  const bool searches = RengaPartitionSearchesTensor_Private(partition);
  RengaCheck(tensor == 1 || !partition->leaves || searches, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_leaves %s: with %d tensor ranks (%s) the leaf is not chosen: give "
             "-reduction_leaf",
             partition->leaves, tensor, share);
  RengaCheck(
      tensor == 1 || !partition->ops->plan || searches, partition->hdr.comm, RENGA_ERR_SUPPORT,
      "%s %d is not supported by -partition_type %s, which does not choose among such plans: "
      "give -partition_type %seven, tree or manual",
      share, tensor, partition->hdr.type_name,
      RengaGraphLanesAreTokens_Private(partition->graph) ? "" : "auto, exact, ");
  return RENGA_SUCCESS;
}

/* So many ranks make groups of tensor ranks: all of them, where there are such groups. */
RengaErrorCode RengaPartitionFindGroups_Private(RengaPartition partition, int ranks, int *groups)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  const int64_t stages = partition->stages ? partition->stages : 1;
  const int64_t replicas = partition->replicas ? partition->replicas : 1;
  *groups = ranks / tensor;
  const bool searches =
      RengaPartitionSearchesTensor_Private(partition); /* it may leave some idle */
  const bool enough = searches ? stages * replicas <= *groups : *groups % (stages * replicas) == 0;
  RengaCheck(
      tensor == 1 || (ranks % tensor == 0 && enough), partition->hdr.comm, RENGA_ERR_PLAN,
      "%s %d with %lld stages x %lld replicas needs %lld ranks%s, but there are %d: ranks are "
      "stages x replicas x tensor ranks",
      RengaGraphShareOption_Private(partition->graph), tensor, (long long)stages,
      (long long)replicas, (long long)(stages * replicas * tensor),
      partition->stages && partition->replicas ? "" : " or a multiple of them", ranks);
  return RENGA_SUCCESS;
}

/* No rank is left over where there are tensor ranks. */
RengaErrorCode RengaPartitionCheckGroups_Private(RengaPartition partition, int ranks, int stages,
                                                 int replicas)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  RengaCheck(
      tensor == 1 || (int64_t)stages * replicas * tensor == ranks, partition->hdr.comm,
      RENGA_ERR_PLAN,
      "%d stages x %d replicas x %d tensor ranks (%s) are %lld ranks, but there are %d: start "
      "as many, or ask for other stages or replicas",
      stages, replicas, tensor, RengaGraphShareOption_Private(partition->graph),
      (long long)stages * replicas * tensor, ranks);
  return RENGA_SUCCESS;
}
