/* Ranks that compute a replica of a stage together: tensor ranks (-layout_tensor), and context
   ranks (-layout_context): what is asked for, and whether ranks make such groups. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include <stdlib.h>
#include <string.h>

/* So many tokens are shared out among context ranks where nobody says so, as attention is most of
   the work and of the memory; fewer where nothing fits without. */
enum { TOKENS_LONG = 16384 };

int RengaPartitionTensorRanks_Private(RengaPartition partition)
{
  return partition->tensor > 1 ? partition->tensor : 1;
}

int RengaPartitionContextRanks_Private(RengaPartition partition)
{
  return partition->sequence > 1 ? partition->sequence : 1;
}

int RengaPartitionGroupRanks_Private(RengaPartition partition)
{
  return RengaPartitionTensorRanks_Private(partition) *
         RengaPartitionContextRanks_Private(partition);
}

RengaLaneKind RengaPartitionChosenKind_Private(RengaPartition partition)
{
  return partition->sequence == RENGA_PARTITION_TENSOR_AUTO ? RENGA_LANES_OF_TOKENS
                                                            : RENGA_LANES_OF_HEADS;
}

/* The type looks for plans with a given number of tensor- and context-parallel ranks. */
bool RengaPartitionSearchesTensor_Private(RengaPartition partition)
{
  const char *type = partition->hdr.type_name;
  return !strcmp(type, RENGA_PARTITION_AUTO) || !strcmp(type, RENGA_PARTITION_EXACT);
}

/* By name, as the network is: of lanes nothing is known. */
static bool HasCostsOfNodes(RengaPartition partition)
{
  const RengaProfile profile = partition->profile ? partition->profile : partition->own.profile;
  const char *type = NULL;
  return profile && !RengaProfileGetType(profile, &type) && type &&
         !strcmp(type, RENGA_PROFILE_FILE);
}

/* In a run on ranks that are here somebody who gives the micro-batch says what decides the bits of
   results: then lanes are chosen where ranks of them are asked for alone. */
static bool MayChooseLanes(RengaPartition partition, int wish)
{
  const RengaMachine machine = partition->machine ? partition->machine : partition->own.machine;
  const bool asked = wish == RENGA_PARTITION_TENSOR_AUTO;
  return !HasCostsOfNodes(partition) &&
         (asked || (wish == 0 && (machine || !partition->microbatch)));
}

bool RengaPartitionChoosesLanes_Private(RengaPartition partition)
{
  return RengaGraphLanesAreOpen_Private(partition->graph) &&
         MayChooseLanes(partition, partition->tensor);
}

bool RengaPartitionChoosesTokens_Private(RengaPartition partition)
{
  return RengaGraphTokensAreOpen_Private(partition->graph) &&
         MayChooseLanes(partition, partition->sequence);
}

/* Of the sequences that samples are, where it is one. */
bool RengaPartitionHasLongInput_Private(RengaPartition partition)
{
  const RengaGraph graph = partition->graph;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind == RENGA_VALUE_INPUT && value->spec.ndim > 1 &&
        value->spec.dim[1] >= TOKENS_LONG)
      return true;
  }
  return false;
}

/* Type auto does it where nobody gave their number and the network has lanes, or may have them. */
bool RengaPartitionChoosesTensor_Private(RengaPartition partition, int ranks)
{
  const int wish[] = {
      [RENGA_LANES_OF_HEADS] = partition->tensor, [RENGA_LANES_OF_TOKENS] = partition->sequence};
  bool in_lanes = false; /* as an earlier plan may have left it */
  if (partition->tensor == RENGA_PARTITION_TENSOR_AUTO ||
      partition->sequence == RENGA_PARTITION_TENSOR_AUTO)
    return true;
  if (strcmp(partition->hdr.type_name, RENGA_PARTITION_AUTO)) return false;
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    int lanes, nodes;
    RengaGraphCountLanes_Private(partition->graph, (RengaLaneKind)k, &lanes, &nodes);
    in_lanes = in_lanes || (wish[k] == 0 && lanes > 1 && nodes > 0);
  }
  if (RengaPartitionChoosesLanes_Private(partition)) return ranks > 1 || in_lanes;
  if (RengaPartitionChoosesTokens_Private(partition) &&
      RengaPartitionHasLongInput_Private(partition))
    return ranks > 1;
  return ranks > 1 && in_lanes;
}

/* "-layout_tensor 2 -layout_context 4": the options that ask for several. */
static void FormatGroup(RengaPartition partition, size_t size, char text[])
{
  const int tensor = RengaPartitionTensorRanks_Private(partition),
            context = RengaPartitionContextRanks_Private(partition);
  int used = 0;
  text[0] = '\0';
  if (tensor > 1) used = snprintf(text, size, "-layout_tensor %d", tensor);
  if (context > 1)
    snprintf(text + used, size - (size_t)used, "%s-layout_context %d", used ? " " : "", context);
}

/* They are chosen beside what a type that searches finds. */
static RengaErrorCode CheckChosenGroup(RengaPartition partition)
{
  const RengaLaneKind kind = RengaPartitionChosenKind_Private(partition);
  const RengaLaneWords *words = &RengaLaneWords_Private[kind];
  int lanes, nodes;
  RengaGraphCountLanes_Private(partition->graph, kind, &lanes, &nodes);
  RengaCheck(partition->ops->plan, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "%s auto is not supported by -partition_type %s, which chooses no layout: give "
             "-partition_type auto, or the number of ranks",
             words->share, partition->hdr.type_name);
  if (kind == RENGA_LANES_OF_HEADS ? RengaPartitionChoosesLanes_Private(partition)
                                   : RengaPartitionChoosesTokens_Private(partition))
    return RENGA_SUCCESS;
  RengaCheck(lanes > 1, partition->hdr.comm, RENGA_ERR_OPTION,
             "%s auto: %s ranks split the lanes of the network, of which there is 1: give %s, or "
             "leave it out",
             words->share, words->ranks, words->lanes);
  RengaCheck(nodes > 0, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "%s auto: nothing of the network is computed in lanes: leave it out", words->share);
  return RENGA_SUCCESS;
}

/* As they are given. */
RengaErrorCode RengaPartitionCheckGroup_Private(RengaPartition partition)
{
  const bool several = RengaPartitionGroupRanks_Private(partition) > 1;
  const bool searches = RengaPartitionSearchesTensor_Private(partition);
  char group[80];
  FormatGroup(partition, sizeof group, group);
  RengaCall(RengaPlanCheckGroup_Private(partition->graph, 1,
                                        RengaPartitionContextRanks_Private(partition)));
  if (partition->tensor == RENGA_PARTITION_TENSOR_AUTO ||
      partition->sequence == RENGA_PARTITION_TENSOR_AUTO)
    RengaCall(CheckChosenGroup(partition));
  RengaCheck(!several || !partition->leaves || searches, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_leaf %s: with %s the leaf is not chosen: give a number", partition->leaves,
             group);
  RengaCheck(!several || !partition->ops->plan || searches, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "%s is not supported by -partition_type %s, which does not choose among such plans: "
             "give -partition_type auto, exact, even, tree or manual",
             group, partition->hdr.type_name);
  return RENGA_SUCCESS;
}

/* So many ranks make groups: all of them, where there are such groups. */
RengaErrorCode RengaPartitionFindGroups_Private(RengaPartition partition, int ranks, int *groups)
{
  const int each = RengaPartitionGroupRanks_Private(partition);
  const int64_t stages = partition->stages ? partition->stages : 1;
  const int64_t replicas = partition->replicas ? partition->replicas : 1;
  char group[80];
  *groups = ranks / each;
  const bool searches =
      RengaPartitionSearchesTensor_Private(partition); /* it may leave some idle */
  const bool enough = searches ? stages * replicas <= *groups : *groups % (stages * replicas) == 0;
  FormatGroup(partition, sizeof group, group);
  RengaCheck(each == 1 || (ranks % each == 0 && enough), partition->hdr.comm, RENGA_ERR_PLAN,
             "%s with %lld stages x %lld replicas needs %lld ranks%s, but there are %d: ranks are "
             "stages x replicas x context-parallel ranks x tensor-parallel ranks",
             group, (long long)stages, (long long)replicas, (long long)(stages * replicas * each),
             partition->stages && partition->replicas ? "" : " or a multiple of them", ranks);
  return RENGA_SUCCESS;
}

/* No rank is left over where there are groups. */
RengaErrorCode RengaPartitionCheckGroups_Private(RengaPartition partition, int ranks, int stages,
                                                 int replicas)
{
  const int each = RengaPartitionGroupRanks_Private(partition);
  char group[80];
  FormatGroup(partition, sizeof group, group);
  RengaCheck(each == 1 || (int64_t)stages * replicas * each == ranks, partition->hdr.comm,
             RENGA_ERR_PLAN,
             "%d stages x %d replicas with %s are %lld ranks, but there are %d: start as many, or "
             "ask for other stages or replicas",
             stages, replicas, group, (long long)stages * replicas * each, ranks);
  return RENGA_SUCCESS;
}
