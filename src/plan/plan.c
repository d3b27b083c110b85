/* The plan: which stage computes which nodes, on which ranks, with which batch: set and get. */
#include "planimpl.h"
#include "rengacomm.h"
#include "renga/private/packages.h"

static const RengaOptionRow rows[] = {
    {"plan_view", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "show the plan: ascii[:FILE], json[:FILE] or draw:FILE.svg"},
    {"plan_explain", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "say why the plan is as it is"},
    {"plan_save", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "write the plan to this file"},
    {"plan_load", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "take the plan from this file instead of making one"},
};

RengaErrorCode RengaPlanRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Plan", (int)(sizeof rows / sizeof rows[0]), rows));
  return RENGA_SUCCESS;
}

static void FreeNames(RengaPlan plan)
{
  for (int s = 0; plan->first_name && s < plan->count; s++) RengaFree(&plan->first_name[s]);
  RengaFree(&plan->first_name);
}

static RengaErrorCode Destroy(void *object)
{
  RengaPlan plan = object;
  FreeNames(plan);
  RengaFree(&plan->stage);
  RengaFree(&plan->offset);
  RengaFree(&plan->rank);
  RengaFree(&plan->schedule);
  RengaFree(&plan->machine);
  RengaFree(&plan->costs);
  for (int r = 0; r < 2 * plan->n_reasons; r++) RengaFree(&plan->reason[r]);
  RengaFree(&plan->reason);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanStore_Private(RengaPlan plan, uint64_t digest, int n_nodes, int count,
                                      const RengaPlanStage stages[])
{
  FreeNames(plan);
  plan->count = 0;
  RengaCall(RengaRealloc(count, &plan->stage));
  RengaCall(RengaRealloc(count + 1, &plan->offset));
  RengaCall(RengaMalloc(count, &plan->first_name));
  plan->offset[0] = 0;
  for (int s = 0; s < count; s++) {
    plan->stage[s] = stages[s];
    plan->offset[s + 1] = plan->offset[s] + (int)RengaPlanCountRanks_Private(&stages[s].shape);
  }
  plan->count = count;
  plan->n_nodes = n_nodes;
  plan->digest = digest;
  RengaCall(RengaRealloc(plan->offset[count], &plan->rank));
  for (int r = 0; r < plan->offset[count]; r++) plan->rank[r] = r % RengaPlanGetRankCount(plan);
  plan->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanCreate - make an empty plan

   Collective

   Input:
   . comm - the ranks that will run it

   Output:
   . plan - to be freed with RengaPlanDestroy()
@*/
RengaErrorCode RengaPlanCreate(RengaComm comm, RengaPlan *plan)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(plan);
  RengaCall(RengaHeaderCreate(comm, "RengaPlan", sizeof **plan, Destroy, plan));
  (*plan)->batch = (*plan)->microbatch = (*plan)->leaf = 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanSetCuts_Private(RengaPlan plan, RengaGraph graph, int count,
                                        const RengaPlanStage stages[])
{
  const int n_nodes = RengaGraphGetNodeCount(graph);
  RengaCall(RengaPlanCheckStages_Private(plan, n_nodes, count, stages));
  RengaCall(RengaPlanStore_Private(plan, RengaGraphGetDigest(graph), n_nodes, count, stages));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetStages - say which nodes each stage computes

   Collective

   Input:
   . plan - the plan
   . graph - the network, set up; only looked at
   . count - number of stages
   . stages - first, last, shape of each; the stages follow each other and cover all nodes. With c
     chunks there are p x c stages, all of c chunks, and stage s + p has the shape of stage s

   Notes: parameters, forward_flops, receives and sends are found from the graph, whatever the
   caller wrote there. A parameter that several stages use counts in each. The ranks become 0, 1,
   … in order of stage, then replica. An error if stages are empty, out of order, or leave nodes
   out.
@*/
RengaErrorCode RengaPlanSetStages(RengaPlan plan, RengaGraph graph, int count,
                                  const RengaPlanStage stages[])
{
  RengaCheckPointer(plan);
  RengaCheckPointer(graph);
  RengaCheckPointer(stages);
  RengaCall(RengaPlanCheckStages_Private(plan, RengaGraphGetNodeCount(graph), count, stages));
  RengaCall(RengaPlanCheckWork_Private(plan, graph, count, stages));
  RengaCall(RengaPlanStore_Private(plan, RengaGraphGetDigest(graph), RengaGraphGetNodeCount(graph),
                                   count, stages));
  RengaCall(RengaPlanFill_Private(plan, graph));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetBatch - samples per step and per micro-batch

   Collective

   Input:
   . plan - the plan
   . batch - samples of a step over all replicas, at least 1
   . microbatch - samples of a micro-batch, at least 1; above the batch: one micro-batch has all
@*/
RengaErrorCode RengaPlanSetBatch(RengaPlan plan, int64_t batch, int64_t microbatch)
{
  RengaCheckPointer(plan);
  RengaCheck(batch >= 1, plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "batch of %lld samples: at least 1 is needed", (long long)batch);
  RengaCheck(microbatch >= 1, plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "micro-batch of %lld samples: at least 1 is needed", (long long)microbatch);
  plan->batch = batch;
  plan->microbatch = microbatch < batch ? microbatch : batch;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetRanks - say which rank works at which place

   Collective

   Input:
   . plan - the plan, with its stages
   . ranks - [stage][replica][sequence][tensor], in order where none are set; copied

   Notes: a rank has one place; where shapes have chunks, stages s, s + p, s + 2p, … have the same
   ranks.
@*/
RengaErrorCode RengaPlanSetRanks(RengaPlan plan, const int ranks[])
{
  RengaCheckPointer(plan);
  RengaCheckPointer(ranks);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCall(RengaPlanCheckRanks_Private(plan, ranks, plan->available));
  for (int r = 0; r < plan->offset[plan->count]; r++) plan->rank[r] = ranks[r];
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetAvailableRanks - how many ranks there are, so that the view can name the idle ones

   Collective

   Input:
   . plan - the plan
   . ranks - number of ranks of the run; 0: not known
@*/
RengaErrorCode RengaPlanSetAvailableRanks(RengaPlan plan, int ranks)
{
  RengaCheckPointer(plan);
  RengaCheck(ranks >= 0, plan->hdr.comm, RENGA_ERR_ARGUMENT, "%d ranks available", ranks);
  plan->available = ranks;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetAvailableRanks - how many ranks there are

   Not collective

   Input:
   . plan - the plan

   Output:
   . ranks - as RengaPlanSetAvailableRanks() set them; 0: not known
@*/
RengaErrorCode RengaPlanGetAvailableRanks(RengaPlan plan, int *ranks)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(ranks);
  *ranks = plan->available;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetMemory - what one device of a stage will need

   Not collective

   Input:
   . plan - the plan, with its stages
   . stage - number of the stage
   . bytes - forecast for one device
@*/
RengaErrorCode RengaPlanSetMemory(RengaPlan plan, int stage, int64_t bytes)
{
  RengaCheckPointer(plan);
  RengaCheck(stage >= 0 && stage < plan->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of a plan with %d stages", stage, plan->count);
  plan->stage[stage].memory = bytes;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetMemoryParts - what one device of a stage will need, by what it is for

   Not collective

   Input:
   . plan - the plan, with its stages
   . stage - number of the stage
   . parts - bytes by category; their sum is the memory of the stage
@*/
RengaErrorCode RengaPlanSetMemoryParts(RengaPlan plan, int stage, const RengaPlanMemory *parts)
{
  RengaCheckPointer(parts);
  RengaCall(RengaPlanSetMemory(plan, stage,
                               parts->parameters + parts->gradients + parts->optimizer +
                                   parts->saved + parts->temporary + parts->messages +
                                   parts->inputs));
  plan->stage[stage].parts = *parts;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetMemoryLimit - bytes that a device of any stage may use

   Not collective

   Input:
   . plan - the plan
   . bytes - the bound; 0: none

   Notes: RengaPipelineSetUp() refuses a plan whose forecast is above it.
@*/
RengaErrorCode RengaPlanSetMemoryLimit(RengaPlan plan, int64_t bytes)
{
  RengaCheckPointer(plan);
  RengaCheck(bytes >= 0, plan->hdr.comm, RENGA_ERR_ARGUMENT, "memory limit of %lld bytes",
             (long long)bytes);
  plan->memory_limit = bytes;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetMemoryLimit - bytes that a device of any stage may use

   Not collective

   Input:
   . plan - the plan

   Output:
   . bytes - the bound; 0: none
@*/
RengaErrorCode RengaPlanGetMemoryLimit(RengaPlan plan, int64_t *bytes)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(bytes);
  *bytes = plan->memory_limit;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetStageCount - number of stages

   Not collective

   Input:
   . plan - the plan
@*/
int RengaPlanGetStageCount(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->count;
}

/*@
   RengaPlanGetStage - one stage, lent until the plan changes

   Not collective

   Input:
   . plan - the plan
   . stage - number of the stage; NULL is returned where there is no such stage
@*/
const RengaPlanStage *RengaPlanGetStage(RengaPlan plan, int stage)
{
  RengaCheckHandle(plan, NULL);
  return stage >= 0 && stage < plan->count ? &plan->stage[stage] : NULL;
}

/*@
   RengaPlanGetRankAt - the rank that works at a place

   Not collective

   Input:
   . plan - the plan
   . place - stage, replica, and the numbers of its sequence and tensor rank, each from 0; -1 is
     returned where there is no such place
@*/
int RengaPlanGetRankAt(RengaPlan plan, const RengaPlanPlace *place)
{
  RengaCheckHandle(plan, -1);
  RengaCheckHandle(place, -1);
  const RengaPlanStage *row = RengaPlanGetStage(plan, place->stage);
  if (!row || place->replica < 0 || place->replica >= row->shape.replicas || place->sequence < 0 ||
      place->sequence >= row->shape.sequence || place->tensor < 0 ||
      place->tensor >= row->shape.tensor)
    return -1;
  const int group = place->replica * row->shape.sequence + place->sequence;
  return plan->rank[plan->offset[place->stage] + group * row->shape.tensor + place->tensor];
}

/*@
   RengaPlanGetRank - the first rank of a stage's replica

   Not collective

   Input:
   . plan - the plan
   . stage - number of the stage
   . replica - number of the replica; -1 is returned where there is no such place
@*/
int RengaPlanGetRank(RengaPlan plan, int stage, int replica)
{
  RengaCheckHandle(plan, -1);
  return RengaPlanGetRankAt(plan, &(RengaPlanPlace){.stage = stage, .replica = replica});
}

/*@
   RengaPlanGetRankCount - number of ranks that have work

   Not collective

   Input:
   . plan - the plan
@*/
int RengaPlanGetRankCount(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->count ? plan->offset[plan->count / plan->stage[0].shape.chunks] : 0;
}

/*@
   RengaPlanFindRank - the first place of a rank

   Not collective

   Input:
   . plan - the plan
   . rank - the rank

   Output:
   . stage - its stage, -1 where the rank is idle
   . replica - its replica, -1 where the rank is idle

   Notes: RengaPlanFindPlaces() gives all places, and their sequence and tensor ranks.
@*/
RengaErrorCode RengaPlanFindRank(RengaPlan plan, int rank, int *stage, int *replica)
{
  RengaPlanPlace place = {.stage = -1, .replica = -1};
  int count;
  RengaCheckPointer(stage);
  RengaCheckPointer(replica);
  RengaCall(RengaPlanFindPlaces(plan, rank, 1, &place, &count));
  *stage = place.stage;
  *replica = place.replica;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanFindPlaces - all places at which a rank works

   Not collective

   Input:
   . plan - the plan
   . rank - the rank
   . most - places that there is room for

   Output:
   . places - [most] the first of them, stage after stage; others are not touched
   . count - of all places, also of those without room: 0 where the rank is idle, else the chunks of
     its stages' shapes
@*/
RengaErrorCode RengaPlanFindPlaces(RengaPlan plan, int rank, int most, RengaPlanPlace places[],
                                   int *count)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(places);
  RengaCheckPointer(count);
  *count = 0;
  for (int s = 0; s < plan->count; s++)
    for (int r = plan->offset[s]; r < plan->offset[s + 1]; r++) {
      const RengaStageShape *shape = &plan->stage[s].shape;
      const int at = r - plan->offset[s], each = shape->sequence * shape->tensor;
      if (plan->rank[r] != rank) continue;
      if (*count < most)
        places[*count] = (RengaPlanPlace){.stage = s,
                                          .replica = at / each,
                                          .sequence = at % each / shape->tensor,
                                          .tensor = at % shape->tensor};
      ++*count;
    }
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetBatch - samples per step and per micro-batch

   Not collective

   Input:
   . plan - the plan

   Output:
   . batch - samples of a step over all replicas
   . microbatch - samples of a micro-batch, not above the batch
@*/
RengaErrorCode RengaPlanGetBatch(RengaPlan plan, int64_t *batch, int64_t *microbatch)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(batch);
  RengaCheckPointer(microbatch);
  *batch = plan->batch;
  *microbatch = plan->microbatch;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetLeaf - micro-batches of a leaf of the sum of gradients

   Collective

   Input:
   . plan - the plan
   . leaf - how many consecutive micro-batches are added up one after the other; at least 1, which
     is what a new plan has

   Options:
   . -reduction_leaf - the number, where a partition makes the plan

   Notes: the sums of leaves are added by a tree whose every level takes a buffer of gradients.
   Losses and weights depend on the leaf, as they do on the micro-batch, but on no layout. A replica
   has whole leaves, so that there should be many more leaves than replicas.
@*/
RengaErrorCode RengaPlanSetLeaf(RengaPlan plan, int64_t leaf)
{
  RengaCheckPointer(plan);
  RengaCheck(leaf >= 1, plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "a leaf of %lld micro-batches: at least 1 is needed", (long long)leaf);
  plan->leaf = leaf;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetLeaf - micro-batches of a leaf of the sum of gradients

   Not collective

   Input:
   . plan - the plan
@*/
int64_t RengaPlanGetLeaf(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->leaf;
}

/*@
   RengaPlanMicrobatches - number of micro-batches of a step

   Not collective

   Input:
   . plan - the plan
   . samples - of this step, over all replicas; the last micro-batch may be short
@*/
int64_t RengaPlanMicrobatches(RengaPlan plan, int64_t samples)
{
  RengaCheckHandle(plan, 0);
  return (samples + plan->microbatch - 1) / plan->microbatch;
}

/*@
   RengaPlanBound - the first micro-batch of a replica

   Not collective

   Input:
   . microbatches - of the step
   . replicas - number of replicas
   . replica - 0 … replicas; replica r has micro-batches bound(r) … bound(r + 1) - 1

   Notes: the numbers of two replicas differ by at most one; with more replicas than micro-batches
   some have none.
@*/
int64_t RengaPlanBound(int64_t microbatches, int replicas, int replica)
{
  return microbatches / replicas * replica + microbatches % replicas * replica / replicas;
}

/*@
   RengaPlanLeafBound - the first micro-batch of a replica that has whole leaves

   Not collective

   Input:
   . microbatches - of the step
   . leaf - micro-batches of a leaf of the sum of gradients; the last leaf may have fewer
   . replicas - number of replicas
   . replica - 0 … replicas; replica r has micro-batches bound(r) … bound(r + 1) - 1

   Notes: the numbers of leaves of two replicas differ by at most one; with more replicas than
   leaves some have none.
@*/
int64_t RengaPlanLeafBound(int64_t microbatches, int64_t leaf, int replicas, int replica)
{
  const int64_t leaves = microbatches / leaf + (microbatches % leaf > 0);
  const int64_t bound = RengaPlanBound(leaves, replicas, replica);
  return bound < leaves ? bound * leaf : microbatches;
}

/*@
   RengaPlanStageOfNode - the stage whose interval has a node

   Not collective

   Input:
   . plan - the plan
   . node - number of the node; -1 is returned where no stage has it

   Notes: prepared nodes are computed wherever they are needed, not only in this stage.
@*/
int RengaPlanStageOfNode(RengaPlan plan, int node)
{
  RengaCheckHandle(plan, -1);
  int low = 0, high = plan->count;
  if (node < 0 || node >= plan->n_nodes) return -1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (plan->stage[middle].first <= node)
      low = middle;
    else
      high = middle;
  }
  return low < high ? low : -1;
}

/*@
   RengaPlanDestroy - free a plan

   Collective

   Input:
   . plan - the plan; set to NULL
@*/
RengaErrorCode RengaPlanDestroy(RengaPlan *plan)
{
  RengaCall(RengaHeaderDestroy(plan));
  return RENGA_SUCCESS;
}
