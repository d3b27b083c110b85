/* Partition types from outside: a rule that a program registered says where stages begin. */
#include "partitionimpl.h"
#include "renga/private/quiet.h"

typedef struct {
  const RengaPartitionRule *rule;
} OutsideType;

static RengaErrorCode OutsideFromOptions(RengaPartition partition)
{
  (void)partition;
  return RENGA_SUCCESS;
}

static RengaErrorCode CountOutside(RengaPartition partition, int *stages)
{
  (void)partition;
  *stages = 0;
  return RENGA_SUCCESS;
}

/* The rule's cuts must rise, and leave no stage empty. */
static RengaErrorCode CheckCuts(RengaPartition partition, int count, const int first[])
{
  const OutsideType *outside = partition->data;
  const int n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCheck(first[0] == 0, partition->hdr.comm, RENGA_ERR_PLAN,
             "partition type %s: stage 0 begins with node %d, and not with node 0",
             outside->rule->name, first[0]);
  for (int s = 1; s < count; s++)
    RengaCheck(first[s] > first[s - 1] && first[s] < n_nodes, partition->hdr.comm, RENGA_ERR_PLAN,
               "partition type %s: stage %d begins with node %d, which is not after node %d, with "
               "which stage %d begins, and before %d, the number of nodes",
               outside->rule->name, s, first[s], first[s - 1], s - 1, n_nodes);
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveOutside(RengaPartition partition, int count, RengaPlanStage stages[])
{
  const OutsideType *outside = partition->data;
  int *first = NULL;
  RengaCall(RengaMalloc(count, &first));
  const int64_t errors = RengaErrorCount_Private();
  RengaErrorCode code = outside->rule->cut(partition->graph, count, first, outside->rule->user);
  if (code && RengaErrorCount_Private() == errors)
    code = RengaErrorRaise(MPI_COMM_SELF, code, __func__, __FILE__, __LINE__,
                           "partition type %s, a rule of the program, returned %d",
                           outside->rule->name, (int)code);
  if (!code) code = CheckCuts(partition, count, first);
  for (int s = 0; s < count && !code; s++) {
    stages[s].first = first[s];
    stages[s].last = s + 1 < count ? first[s + 1] : RengaGraphGetNodeCount(partition->graph);
  }
  RengaFree(&first);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewOutsideCuts(RengaPartition partition, RengaViewer viewer)
{
  (void)partition;
  RengaCall(RengaViewerPrintf(viewer, "  cuts by a rule of the program\n"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionAdopt_Private(void *object, const void *rule)
{
  RengaPartition partition = object;
  OutsideType *outside = NULL;
  RengaCall(RengaMalloc(1, &outside));
  outside->rule = rule;
  partition->data = outside;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = OutsideFromOptions,
                                                  .count = CountOutside,
                                                  .solve = SolveOutside,
                                                  .view = ViewOutsideCuts};
  return RENGA_SUCCESS;
}
