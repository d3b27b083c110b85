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

static RengaErrorCode DestroyPlan(void *object)
{
  RengaPlan plan = object;
  FreeNames(plan);
  RengaPlanFreeKept_Private(plan);
  RengaFree(&plan->stage);
  RengaFree(&plan->offset);
  RengaFree(&plan->rank);
  RengaFree(&plan->schedule);
  RengaFree(&plan->machine);
  RengaFree(&plan->costs);
  RengaFree(&plan->message_seconds);
  for (int r = 0; r < 2 * plan->n_reasons; r++) RengaFree(&plan->reason[r]);
  RengaFree(&plan->reason);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanStore_Private(RengaPlan plan, uint64_t digest, int n_nodes, int count,
                                      const RengaPlanStage stages[])
{
  FreeNames(plan);
  RengaPlanFreeKept_Private(plan);
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
  for (int k = 0; k < RENGA_LANE_KINDS; k++) plan->lanes[k] = 1;
  RengaCall(RengaRealloc(plan->offset[count], &plan->rank));
  for (int r = 0; r < plan->offset[count]; r++) plan->rank[r] = r % RengaPlanGetRankCount(plan);
  plan->wave = false;
  plan->n_message_seconds = 0;
  plan->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanCreate - make an empty plan

   Collective

   Input:
   . comm - the ranks that will run it

   Output:
   . plan - the new plan; RengaPlanDestroy() frees it

   See also: RengaPlanSetStages(), RengaPlanLoad(), RengaPlanDestroy()
@*/
RengaErrorCode RengaPlanCreate(RengaComm comm, RengaPlan *plan)
{
  RengaCheckPointers(comm, plan);
  RengaCall(RengaHeaderCreate(comm, "RengaPlan", sizeof **plan, DestroyPlan, plan));
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
   . graph - the network, set up; only looked at
   . count - the number of stages, at least 1
   . stages - first, last, shape of each; the stages follow each other and cover all nodes. With c
     chunks there are p x c stages, all of c chunks, and stage s + p has the shape of stage s

   Errors: RENGA_ERR_PLAN for stages that do not cover the network in order, with the nodes; the
   plan stays as it was.

   Notes: parameters, forward_flops, receives and sends are found from the graph, whatever the
   caller wrote there. A parameter that several stages use counts in each. The ranks become 0, 1,
   … in order of stage, then replica. An error if stages are empty, out of order, or leave nodes
   out.

   See also: RengaPlanGetStage(), RengaPlanCheck()
@*/
RengaErrorCode RengaPlanSetStages(RengaPlan plan, RengaGraph graph, int count,
                                  const RengaPlanStage stages[])
{
  RengaCheckPointers(plan, graph, stages);
  RengaCall(RengaPlanCheckStages_Private(plan, RengaGraphGetNodeCount(graph), count, stages));
  RengaCall(RengaPlanCheckWork_Private(plan, graph, count, stages));
  RengaCall(RengaPlanStore_Private(plan, RengaGraphGetDigest(graph), RengaGraphGetNodeCount(graph),
                                   count, stages));
  RengaPlanGetLanes_Private(graph, plan->lanes);
  RengaCall(RengaPlanFill_Private(plan, graph));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetBatch - samples per step and per micro-batch

   Collective

   Input:
   . batch - samples of a step over all replicas, at least 1
   . microbatch - samples of a micro-batch, at least 1; above the batch: one micro-batch has all

   Errors: RENGA_ERR_ARGUMENT for a batch or micro-batch without samples; RENGA_ERR_PLAN for more
   than 1048576 micro-batches.

   See also: RengaPlanGetBatch(), RengaPlanSetLeaf()
@*/
RengaErrorCode RengaPlanSetBatch(RengaPlan plan, int64_t batch, int64_t microbatch)
{
  RengaCheckPointer(plan);
  RengaCheck(batch >= 1, plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "batch of %lld samples: at least 1 is needed", (long long)batch);
  RengaCheck(microbatch >= 1, plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "micro-batch of %lld samples: at least 1 is needed", (long long)microbatch);
  RengaCall(RengaPlanCheckMicrobatches_Private(plan->hdr.comm, batch, microbatch));
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

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_PLAN for a rank that is negative
   or named twice; the plan stays as it was.

   Notes: a rank has one place; where shapes have chunks, stages s, s + p, s + 2p, … have the same
   ranks, or, as RengaPlanSetWave() says it, s, 2p-1-s, 2p+s, …

   See also: RengaPlanGetRank(), RengaPlanSetAvailableRanks()
@*/
RengaErrorCode RengaPlanSetRanks(RengaPlan plan, const int ranks[])
{
  RengaCheckPointers(plan, ranks);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCall(RengaPlanCheckRanks_Private(plan, ranks, plan->available));
  for (int r = 0; r < plan->offset[plan->count]; r++) plan->rank[r] = ranks[r];
  plan->wave = RengaPlanIsWave_Private(plan, ranks);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetWave - V-shaped placement of the stages of each rank, which turns at both ends

   Collective

   Input:
   . plan - the plan, with its stages, of which each rank has several

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_PLAN where stages that would come
   together have other shapes.

   Notes: the ranks become 0, 1, … in order of the first p stages, then replica; of p ranks each,
   those of stage r have stages 2p-1-r, 2p+r, … too. Where nothing is said they have r + p, r + 2p,
   … RengaPlanSetRanks() with ranks that lie so does the same.

   See also: RengaPlanSetRanks(), RengaPlanGetFirstStage()
@*/
RengaErrorCode RengaPlanSetWave(RengaPlan plan)
{
  int *ranks = NULL;
  RengaCheckPointer(plan);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCall(RengaMalloc(plan->offset[plan->count], &ranks));
  for (int s = 0; s < plan->count; s++) {
    const int first = RengaPlanFirstOf_Private(plan, true, s);
    for (int r = 0; r < plan->offset[s + 1] - plan->offset[s]; r++)
      ranks[plan->offset[s] + r] = plan->offset[first] + r;
  }
  const RengaErrorCode code = RengaPlanSetRanks(plan, ranks);
  RengaFree(&ranks);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetAvailableRanks - how many ranks there are, so that the view can name the idle ones

   Collective

   Input:
   . ranks - number of ranks of the run; 0: not known

   Errors: RENGA_ERR_ARGUMENT for a negative number.
@*/
RengaErrorCode RengaPlanSetAvailableRanks(RengaPlan plan, int ranks)
{
  RengaCheckPointer(plan);
  RengaCheck(ranks >= 0, plan->hdr.comm, RENGA_ERR_ARGUMENT, "%d ranks available", ranks);
  plan->available = ranks;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanGetAvailableRanks(RengaPlan plan, int *ranks)
{
  RengaCheckPointers(plan, ranks);
  *ranks = plan->available;
  return RENGA_SUCCESS;
}

void RengaPlanSetSeconds_Private(RengaPlan plan, int stage, double forward, double backward)
{
  plan->stage[stage].forward_seconds = forward;
  plan->stage[stage].backward_seconds = backward;
}

RengaErrorCode RengaPlanSetMessageSeconds_Private(RengaPlan plan, int count, const double seconds[])
{
  plan->n_message_seconds = 0;
  RengaCall(RengaRealloc(count + 1, &plan->message_seconds));
  for (int m = 0; m < count; m++) plan->message_seconds[m] = seconds[m];
  plan->n_message_seconds = count;
  return RENGA_SUCCESS;
}

int RengaPlanGetMessageSeconds_Private(RengaPlan plan, const double **seconds)
{
  *seconds = plan->message_seconds;
  return plan->n_message_seconds;
}

/*@
   RengaPlanSetMemory - what one device of a stage will need

   Input:
   . plan - the plan, with its stages
   . stage - the number of the stage, from 0
   . bytes - bytes that are forecast for one device, at least 0

   Errors: RENGA_ERR_ARGUMENT for a stage that there is not.

   See also: RengaPlanSetMemoryParts(), RengaPlanGetDeviceMemory()
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

   Input:
   . plan - the plan, with its stages
   . stage - the number of the stage, from 0
   . parts - bytes by category; their sum is the memory of the stage

   Errors: RENGA_ERR_ARGUMENT for a stage that there is not.

   See also: RengaPlanSetMemory()
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

   Input:
   . bytes - the bound; 0: none

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   Notes: RengaPipelineSetUp() refuses a plan whose forecast is above it.

   See also: RengaPlanGetMemoryLimit(), RengaPipelineSetUp()
@*/
RengaErrorCode RengaPlanSetMemoryLimit(RengaPlan plan, int64_t bytes)
{
  RengaCheckPointer(plan);
  RengaCheck(bytes >= 0, plan->hdr.comm, RENGA_ERR_ARGUMENT, "memory limit of %lld bytes",
             (long long)bytes);
  plan->memory_limit = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanGetMemoryLimit(RengaPlan plan, int64_t *bytes)
{
  RengaCheckPointers(plan, bytes);
  *bytes = plan->memory_limit;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetBatch - samples per step and per micro-batch

   Output:
   . batch - samples of a step over all replicas, at least 1
   . microbatch - samples of a micro-batch, not above the batch
@*/
RengaErrorCode RengaPlanGetBatch(RengaPlan plan, int64_t *batch, int64_t *microbatch)
{
  RengaCheckPointers(plan, batch, microbatch);
  *batch = plan->batch;
  *microbatch = plan->microbatch;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetLeaf - micro-batches of a leaf of the sum of gradients

   Collective

   Input:
   . leaf - consecutive micro-batches that are added one after the other, at least 1, which is what
     a new plan has

   Options:
   . -partition_leaf - the number, where a partition makes the plan

   Errors: RENGA_ERR_ARGUMENT for less than 1.

   Notes: the sums of leaves are added by a tree whose every level takes a buffer of gradients.
   Losses and weights depend on the leaf, as they do on the micro-batch, but on no layout. A replica
   has whole leaves, so that there should be many more leaves than replicas.

   See also: RengaPlanGetLeaf()
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
@*/
int64_t RengaPlanGetLeaf(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->leaf;
}

/*@
   RengaPlanDestroy - free a plan

   Collective

   Input:
   . plan - the plan; set to NULL
@*/
RengaErrorCode RengaPlanDestroy(RengaPlan *plan)
{
  RengaCheckPointer(plan);
  RengaCall(RengaHeaderDestroy(plan));
  return RENGA_SUCCESS;
}
