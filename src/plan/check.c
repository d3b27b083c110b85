/* What makes a plan wrong, said with the numbers and what to do. */
#include "planimpl.h"
#include "renga/private/graph.h"
#include <stdlib.h>
#include <string.h>

static bool OnlyPrepared(RengaGraph graph, int first, int last)
{
  for (int n = first; n < last; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0 && !RengaGraphGetValue(graph, node->out[o])->prepared) return false;
  }
  return true;
}

static RengaErrorCode CheckStage(RengaPlan plan, int n_nodes, int s, const RengaPlanStage *stage,
                                 int begin)
{
  MPI_Comm comm = plan->hdr.comm;
  RengaCheck(stage->first == begin, comm, RENGA_ERR_PLAN,
             "stage %d begins at node %d but must begin at node %d, where the one before it ends: "
             "stages follow each other in the order of the nodes",
             s, stage->first, begin);
  RengaCheck(stage->last > stage->first, comm, RENGA_ERR_PLAN,
             "stage %d is empty: it begins at node %d and ends before node %d", s, stage->first,
             stage->last);
  RengaCheck(stage->last <= n_nodes, comm, RENGA_ERR_PLAN,
             "stage %d ends before node %d, but the network has %d nodes", s, stage->last, n_nodes);
  RengaCall(RengaPlanCheckShape_Private(plan, s, &stage->shape));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanCheckWork_Private(RengaPlan plan, RengaGraph graph, int count,
                                          const RengaPlanStage stages[])
{
  for (int s = 0; s < count; s++)
    RengaCheck(
        !OnlyPrepared(graph, stages[s].first, stages[s].last), plan->hdr.comm, RENGA_ERR_PLAN,
        "stage %d is empty: nodes %d to %d depend on no parameter and are cloned into each stage "
        "that needs them; move the cut",
        s, stages[s].first, stages[s].last - 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRankCount(RengaPlan plan, int count, const RengaPlanStage stages[])
{
  int64_t ranks = 0;
  for (int s = 0; s < count; s++) {
    ranks += RengaPlanCountRanks_Private(&stages[s].shape);
    RengaCheck(ranks <= RENGA_PLAN_RANKS_MOST, plan->hdr.comm, RENGA_ERR_PLAN,
               "stages 0 to %d have more than %d ranks: replicas, context and tensor multiply", s,
               RENGA_PLAN_RANKS_MOST);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckChunkShapes(RengaPlan plan, int count, const RengaPlanStage stages[])
{
  const int chunks = stages[0].shape.chunks, ring = count / chunks;
  for (int s = 0; s < count; s++)
    RengaCheck(stages[s].shape.chunks == chunks, plan->hdr.comm, RENGA_ERR_PLAN,
               "stage %d has %d chunks per rank, but stage 0 has %d: all stages must have as many",
               s, stages[s].shape.chunks, chunks);
  RengaCheck(count % chunks == 0, plan->hdr.comm, RENGA_ERR_PLAN,
             "%d stages with %d chunks per rank: their number must be a multiple of the chunks",
             count, chunks);
  for (int s = ring; s < count; s++)
    RengaCheck(RengaPlanCountRanks_Private(&stages[s].shape) ==
                       RengaPlanCountRanks_Private(&stages[s - ring].shape) &&
                   stages[s].shape.replicas == stages[s - ring].shape.replicas &&
                   stages[s].shape.tensor == stages[s - ring].shape.tensor,
               plan->hdr.comm, RENGA_ERR_PLAN,
               "stages %d and %d are chunks of the same ranks: they must have the same replicas, "
               "tensor- and context-parallel ranks",
               s - ring, s);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanCheckStages_Private(RengaPlan plan, int n_nodes, int count,
                                            const RengaPlanStage stages[])
{
  MPI_Comm comm = plan->hdr.comm;
  RengaCheck(count >= 1, comm, RENGA_ERR_PLAN, "a plan with %d stages: at least 1 is needed",
             count);
  RengaCheck(count <= n_nodes, comm, RENGA_ERR_PLAN,
             "%d stages, but the network has only %d nodes: use at most %d stages", count, n_nodes,
             n_nodes);
  for (int s = 0, begin = 0; s < count; begin = stages[s++].last)
    RengaCall(CheckStage(plan, n_nodes, s, &stages[s], begin));
  RengaCheck(
      stages[count - 1].last == n_nodes, comm, RENGA_ERR_PLAN,
      "the last stage ends before node %d, but the network has %d nodes: %d would not be computed",
      stages[count - 1].last, n_nodes, n_nodes - stages[count - 1].last);
  RengaCall(CheckRankCount(plan, count, stages));
  RengaCall(CheckChunkShapes(plan, count, stages));
  return RENGA_SUCCESS;
}

typedef struct {
  int rank, place;
} RankPlace;

static int ComparePlaces(const void *one, const void *other)
{
  const RankPlace *a = one, *b = other;
  return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : a->place - b->place;
}

static RengaErrorCode CheckDistinct(RengaPlan plan, int count, const int ranks[])
{
  RankPlace *places;
  RengaCall(RengaMalloc(count, &places));
  for (int i = 0; i < count; i++) places[i] = (RankPlace){ranks[i], i};
  qsort(places, (size_t)count, sizeof *places, ComparePlaces);
  int twice = 1;
  while (twice < count && places[twice].rank != places[twice - 1].rank) twice++;
  const RankPlace first = places[twice < count ? twice - 1 : 0],
                  second = places[twice < count ? twice : 0];
  RengaFree(&places);
  RengaCheck(twice >= count, plan->hdr.comm, RENGA_ERR_PLAN,
             "the plan uses rank %d twice (places %d and %d): a rank has one place", first.rank,
             first.place, second.place);
  return RENGA_SUCCESS;
}

/* The stages of a rank are computed by the same ranks in the same order. */
static RengaErrorCode CheckChunkRanks(RengaPlan plan, const int ranks[])
{
  const int ring = plan->count / plan->stage[0].shape.chunks;
  const bool wave = RengaPlanIsWave_Private(plan, ranks);
  for (int s = ring; s < plan->count; s++) {
    const int first = wave ? RengaPlanFirstOf_Private(plan, true, s) : s - ring;
    for (int r = 0; r < plan->offset[s + 1] - plan->offset[s]; r++)
      RengaCheck(ranks[plan->offset[s] + r] == ranks[plan->offset[first] + r], plan->hdr.comm,
                 RENGA_ERR_PLAN,
                 "stage %d has rank %d where stage %d has rank %d: with %d chunks per rank both "
                 "have the same ranks in the same order",
                 s, ranks[plan->offset[s] + r], first, ranks[plan->offset[first] + r],
                 plan->stage[0].shape.chunks);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanCheckRanks_Private(RengaPlan plan, const int ranks[], int limit)
{
  const int count = RengaPlanGetRankCount(plan);
  RengaCheck(!limit || count <= limit, plan->hdr.comm, RENGA_ERR_PLAN,
             "the plan needs %d ranks but there are %d: start more ranks, or use fewer stages or "
             "replicas",
             count, limit);
  for (int i = 0; i < count; i++) {
    RengaCheck(ranks[i] >= 0, plan->hdr.comm, RENGA_ERR_PLAN, "the plan names rank %d", ranks[i]);
    RengaCheck(!limit || ranks[i] < limit, plan->hdr.comm, RENGA_ERR_PLAN,
               "the plan uses rank %d but there are only ranks 0 to %d: start at least %d ranks",
               ranks[i], limit - 1, ranks[i] + 1);
  }
  RengaCall(CheckDistinct(plan, count, ranks));
  RengaCall(CheckChunkRanks(plan, ranks));
  return RENGA_SUCCESS;
}

/* With leaves of one micro-batch idle replicas are allowed, and named by the view. */
RengaErrorCode RengaPlanCheckLeaves_Private(RengaPlan plan)
{
  const int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch), leaf = plan->leaf;
  const int64_t leaves = (microbatches + leaf - 1) / leaf;
  for (int s = 0; leaf > 1 && s < plan->count; s++)
    RengaCheck(
        plan->stage[s].shape.replicas <= leaves, plan->hdr.comm, RENGA_ERR_PLAN,
        "stage %d has %d replicas, but the %lld micro-batches of a step make only %lld leaves "
        "of %lld, and a replica has whole leaves: give a -partition_leaf of %lld or less, or "
        "fewer replicas",
        s, plan->stage[s].shape.replicas, (long long)microbatches, (long long)leaves,
        (long long)leaf,
        (long long)(microbatches > plan->stage[s].shape.replicas
                        ? microbatches / plan->stage[s].shape.replicas
                        : 1));
  return RENGA_SUCCESS;
}

/* A batch that is never cut. */
static RengaErrorCode CheckWholeBatch(RengaPlan plan, RengaGraph graph)
{
  const int64_t batch = plan->batch, microbatch = plan->microbatch;
  int64_t whole;
  int replicas = 1;
  RengaCall(RengaGraphGetWholeBatch(graph, &whole));
  for (int i = 0; i < plan->count; i++)
    if (plan->stage[i].shape.replicas > replicas) replicas = plan->stage[i].shape.replicas;
  RengaCheck(whole == 0 || (batch == whole && microbatch == whole && replicas == 1), plan->hdr.comm,
             RENGA_ERR_PLAN,
             "the network is read for batches of %lld that are never cut: the plan has a batch of "
             "%lld in micro-batches of %lld on %d replicas, but such a network takes one "
             "micro-batch on one replica: -batch_size %lld -microbatch_size %lld "
             "-layout_data 1",
             (long long)whole, (long long)batch, (long long)microbatch, replicas, (long long)whole,
             (long long)whole);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPrecision(RengaPlan plan, RengaGraph graph)
{
  RengaPrecision network;
  RengaCall(RengaGraphGetPrecision(graph, &network));
  for (int s = 0; s < plan->count; s++)
    RengaCheck(plan->stage[s].shape.precision == network, plan->hdr.comm, RENGA_ERR_PLAN,
               "stage %d of the plan is of precision %s, but the network's is %s: make the plan "
               "with the same -precision",
               s, RengaPrecisionName(plan->stage[s].shape.precision), RengaPrecisionName(network));
  return RENGA_SUCCESS;
}

/* What a plan of so many lanes says of a network in others. The file of an older one does not say
   how many of tokens. */
static void AdviseLanes(RengaGraph graph, const int lanes[], size_t size, char advice[])
{
  int own[RENGA_LANE_KINDS];
  RengaPlanGetLanes_Private(graph, own);
  advice[0] = '\0';
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const size_t used = strlen(advice);
    if (lanes[k] == 0 && own[k] == 1)
      snprintf(advice + used, size - used,
               "; was it made with -graph_token_lanes, give it the same number");
    else if (lanes[k] > 0 && lanes[k] != own[k])
      snprintf(advice + used, size - used, "; %slanes: %d, this network's: %d, give %s %d",
               k == RENGA_LANES_OF_TOKENS ? "token " : "", lanes[k], own[k],
               RengaLaneWords_Private[k].lanes, lanes[k]);
  }
}

RengaErrorCode RengaPlanCheckNetwork_Private(RengaGraph graph, const char *name, uint64_t digest,
                                             int n_nodes, const int lanes[])
{
  const uint64_t own = RengaGraphGetDigest(graph);
  const int own_nodes = RengaGraphGetNodeCount(graph);
  char advice[240];
  MPI_Comm comm;
  AdviseLanes(graph, lanes, sizeof advice, advice);
  RengaCall(RengaObjectGetComm(graph, &comm));
  RengaCheck(digest == own && n_nodes == own_nodes, comm, RENGA_ERR_PLAN,
             "%s was made for another network: its digest is 0x%016llx (%d nodes), this network's "
             "is 0x%016llx (%d nodes)%s",
             name, (unsigned long long)digest, n_nodes, (unsigned long long)own, own_nodes, advice);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanCheck - find out whether a plan fits a network and a number of ranks

   Collective

   Input:
   . graph - the network, set up
   . ranks - the number of ranks that there are; 0: any number

   Errors: RENGA_ERR_PLAN, what does not fit, with its numbers; RENGA_ERR_SUPPORT, the stage and the
   field of its shape that the runtime cannot execute.

   See also: RengaPlanSetStages(), RengaPipelineSetPlan()
@*/
RengaErrorCode RengaPlanCheck(RengaPlan plan, RengaGraph graph, int ranks)
{
  RengaCheckPointers(plan, graph);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCall(
      RengaPlanCheckNetwork_Private(graph, "the plan", plan->digest, plan->n_nodes, plan->lanes));
  RengaCall(CheckWholeBatch(plan, graph));
  RengaCall(RengaPlanCheckStages_Private(plan, plan->n_nodes, plan->count, plan->stage));
  RengaCall(RengaPlanCheckWork_Private(plan, graph, plan->count, plan->stage));
  RengaCall(RengaPlanCheckKept_Private(plan, graph));
  RengaCall(CheckPrecision(plan, graph));
  RengaCall(RengaPlanCheckRanks_Private(plan, plan->rank, ranks));
  RengaCall(RengaPlanCheckLeaves_Private(plan));
  return RENGA_SUCCESS;
}
