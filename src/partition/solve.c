/* From wishes to a plan: how many stages and replicas, which batch; then the type's plan, or its
   cuts, or the plan of a file. */
#include "partitionimpl.h"
#include "search/search.h"
#include "rengacomm.h"

enum { DEFAULT_BATCH = 32, DEFAULT_MICROBATCHES = 8 };

static RengaErrorCode CheckWishes(RengaPartition partition, int ranks, int stages, int replicas)
{
  MPI_Comm comm = partition->hdr.comm;
  int n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCheck(stages <= n_nodes, comm, RENGA_ERR_PLAN,
             "%d stages, but the network has only %d nodes: ask for fewer stages", stages, n_nodes);
  RengaCheck(
      stages <= ranks, comm, RENGA_ERR_PLAN,
      "%d stages need at least %d ranks, but there are %d: start more ranks or ask for fewer "
      "stages",
      stages, stages, ranks);
  RengaCheck(replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d replicas need at least %d ranks, but there are %d: start more ranks or ask for "
             "fewer replicas",
             replicas, replicas, ranks);
  RengaCheck((int64_t)stages * replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d stages x %d replicas need %lld ranks, but there are %d: start more ranks or ask "
             "for fewer stages or replicas",
             stages, replicas, (long long)stages * replicas, ranks);
  return RENGA_SUCCESS;
}

/* Leaves of a step: more replicas than these have nothing to do. */
static int64_t CountLeaves(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t count = (batch + microbatch - 1) / microbatch;
  const int64_t leaf = partition->leaf ? partition->leaf : 1;
  return (count + leaf - 1) / leaf;
}

/* Before a search, which would find no layout and could not say why. The size of a micro-batch that
   is not given may be made as small as a sample. */
static RengaErrorCode CheckReplicas(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t least = partition->microbatch ? microbatch : 1;
  const int64_t leaves = CountLeaves(partition, batch, least);
  RengaCheck(partition->replicas <= leaves, partition->hdr.comm, RENGA_ERR_PLAN,
             "%d replicas, but a step of %lld samples in micro-batches of %lld makes only %lld "
             "parts, and each replica needs one: ask for fewer replicas, a larger -batch_size or "
             "a smaller -microbatch_size",
             partition->replicas, (long long)batch, (long long)least, (long long)leaves);
  return RENGA_SUCCESS;
}

/* The number of stages and replicas that are not given, and whether all fits. Where replicas are
   not given, those that would have no micro-batch are left out. */
static RengaErrorCode ChooseLayout(RengaPartition partition, int ranks, int64_t leaves, int *stages,
                                   int *replicas)
{
  int own = 0, n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCall(partition->ops->count(partition, &own));
  *stages = own ? own : partition->stages;
  *replicas = partition->replicas;
  RengaCheck(!own || !partition->stages || own == partition->stages, partition->hdr.comm,
             RENGA_ERR_PLAN, "the cuts make %d stages, but %d stages are asked for", own,
             partition->stages);
  RengaCall(CheckWishes(partition, ranks, *stages, *replicas));
  if (!*stages) *stages = *replicas ? ranks / *replicas : 1;
  if (*stages > n_nodes) *stages = n_nodes;
  if (!*replicas) *replicas = ranks / *stages < leaves ? ranks / *stages : (int)leaves;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindBatch(RengaPartition partition, int64_t *batch, int64_t *microbatch)
{
  *batch = partition->batch;
  *microbatch = partition->microbatch;
  if (!*batch) RengaCall(RengaGraphGetFileBatch(partition->graph, batch));
  if (!*batch) *batch = DEFAULT_BATCH;
  if (!*microbatch) *microbatch = (*batch + DEFAULT_MICROBATCHES - 1) / DEFAULT_MICROBATCHES;
  return RENGA_SUCCESS;
}

static RengaErrorCode Cut(RengaPartition partition, int ranks, int64_t leaves, RengaPlan plan)
{
  int count = 0, replicas = 0;
  RengaPlanStage *stages = NULL;
  RengaCall(ChooseLayout(partition, ranks, leaves, &count, &replicas));
  RengaCall(RengaMalloc(count, &stages));
  RengaErrorCode code = partition->ops->solve(partition, count, stages);
  for (int s = 0; s < count; s++) stages[s].shape = RengaStageShapePlain(replicas);
  if (!code) code = RengaPlanSetStages(plan, partition->graph, count, stages);
  RengaFree(&stages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The plan of a type that only cuts, weighed as those of the search are. */
static RengaErrorCode PredictCuts(RengaPartition partition, int ranks, int64_t batch,
                                  int64_t microbatch, RengaPlan plan)
{
  const RengaSearchWish wish = {.find = RengaSearchCutsFind_Private, .context = partition};
  RengaCall(RengaSearchPartition_Private(partition, &wish, ranks, batch, microbatch, plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode Make(RengaPartition partition, int ranks, RengaPlan plan)
{
  int64_t batch, microbatch;
  RengaMachine machine;
  RengaCall(FindBatch(partition, &batch, &microbatch));
  RengaCall(RengaPartitionCheckMicrobatches_Private(partition, batch, microbatch));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (partition->ops->plan || machine || partition->profile)
    RengaCall(CheckReplicas(partition, batch, microbatch));
  if (partition->ops->plan) {
    RengaCall(CheckWishes(partition, ranks, partition->stages, partition->replicas));
    RengaCall(partition->ops->plan(partition, ranks, batch, microbatch, plan));
  } else if (machine || partition->profile) { /* else a plan that only cuts has no prediction */
    int stages = 0;
    RengaCall(partition->ops->count(partition, &stages));
    if (!stages) stages = partition->stages;
    RengaCall(CheckWishes(partition, ranks, stages, partition->replicas));
    RengaCall(PredictCuts(partition, ranks, batch, microbatch, plan));
  } else {
    RengaCheck(!partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
               "-partition_leaves %s: type %s does not know which is faster without costs: give "
               "-reduction_leaf, or -machine_file",
               partition->leaves, partition->hdr.type_name);
    RengaCall(Cut(partition, ranks, CountLeaves(partition, batch, microbatch), plan));
    RengaCall(RengaPlanSetBatch(plan, batch, microbatch));
    if (partition->leaf) RengaCall(RengaPlanSetLeaf(plan, partition->leaf));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSolve - make the plan

   Collective

   Input:
   . partition - the partition, with its graph

   Output:
   . plan - the caller frees it with RengaPlanDestroy()

   Notes: an error says with numbers what does not fit. Ranks that are left over are idle; the view
   of the plan names them.
@*/
RengaErrorCode RengaPartitionSolve(RengaPartition partition, RengaPlan *plan)
{
  RengaPlan made = NULL;
  RengaCheckPointer(partition);
  RengaCheckPointer(plan);
  RengaCheck(partition->graph, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaPartition has no graph: call RengaPartitionSetGraph first");
  int ranks = partition->ranks ? partition->ranks : RengaCommGetSize(partition->hdr.owner);
  RengaCall(RengaErrorAgree(partition->hdr.comm, RengaPlanCreate(partition->hdr.owner, &made)));
  RengaErrorCode code = partition->load ? RengaPartitionLoad_Private(partition, ranks, made)
                                        : Make(partition, ranks, made);
  if (!code && RengaPlanGetLeaf(made) > 1) code = RengaPlanCheck(made, partition->graph, 0);
  if (!code) code = RengaPlanSetAvailableRanks(made, ranks);
  if (!code) code = RengaPlanSetMemoryLimit(made, partition->memory);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (code) RengaPlanDestroy(&made);
  RengaCall(code);
  partition->hdr.state = RENGA_STATE_SOLVED;
  *plan = made;
  return RENGA_SUCCESS;
}
