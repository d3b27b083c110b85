/* What makes a plan wrong, said with the numbers and what to do. */
#include "planimpl.h"
#include <stdlib.h>

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
  return RENGA_SUCCESS;
}

typedef struct {
  int rank, place;
} Place;

static int ComparePlaces(const void *one, const void *other)
{
  const Place *a = one, *b = other;
  return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : a->place - b->place;
}

static RengaErrorCode CheckDistinct(RengaPlan plan, int count, const int ranks[])
{
  Place *places;
  RengaCall(RengaMalloc(count, &places));
  for (int i = 0; i < count; i++) places[i] = (Place){ranks[i], i};
  qsort(places, (size_t)count, sizeof *places, ComparePlaces);
  int twice = 1;
  while (twice < count && places[twice].rank != places[twice - 1].rank) twice++;
  const Place first = places[twice < count ? twice - 1 : 0],
              second = places[twice < count ? twice : 0];
  RengaFree(&places);
  RengaCheck(twice >= count, plan->hdr.comm, RENGA_ERR_PLAN,
             "the plan uses rank %d twice (places %d and %d): a rank has one stage and replica",
             first.rank, first.place, second.place);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanCheckRanks_Private(RengaPlan plan, int count, const int ranks[], int limit)
{
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
        "of %lld, and a replica has whole leaves: give a -reduction_leaf of %lld or less, or "
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
  int64_t whole, batch, microbatch;
  int replicas = 1;
  RengaCall(RengaGraphGetWholeBatch(graph, &whole));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  for (int i = 0; i < plan->count; i++)
    if (plan->stage[i].shape.replicas > replicas) replicas = plan->stage[i].shape.replicas;
  RengaCheck(whole == 0 || (batch == whole && microbatch == whole && replicas == 1), plan->hdr.comm,
             RENGA_ERR_PLAN,
             "the network is read for batches of %lld that are never cut: the plan has a batch of "
             "%lld in micro-batches of %lld on %d replicas, but such a network takes one "
             "micro-batch on one replica: -batch_size %lld -microbatch_size %lld "
             "-partition_replicas 1",
             (long long)whole, (long long)batch, (long long)microbatch, replicas, (long long)whole,
             (long long)whole);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanCheck - find out whether a plan fits a network and a number of ranks

   Collective

   Input:
   . plan - the plan
   . graph - the network, set up
   . ranks - how many there are; 0: any number

   Errors: RENGA_ERR_PLAN, what does not fit, with its numbers; RENGA_ERR_SUPPORT, the stage and the
   field of its shape that the runtime cannot execute.
@*/
RengaErrorCode RengaPlanCheck(RengaPlan plan, RengaGraph graph, int ranks)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(graph);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCheck(
      plan->digest == RengaGraphGetDigest(graph), plan->hdr.comm, RENGA_ERR_PLAN,
      "the plan was made for another network: its digest is 0x%016llx (%d nodes), this network's "
      "is 0x%016llx (%d nodes)",
      (unsigned long long)plan->digest, plan->n_nodes,
      (unsigned long long)RengaGraphGetDigest(graph), RengaGraphGetNodeCount(graph));
  RengaCall(CheckWholeBatch(plan, graph));
  RengaCall(RengaPlanCheckStages_Private(plan, plan->n_nodes, plan->count, plan->stage));
  RengaCall(RengaPlanCheckWork_Private(plan, graph, plan->count, plan->stage));
  RengaCall(RengaPlanCheckRunnable_Private(plan));
  RengaCall(RengaPlanCheckRanks_Private(plan, plan->offset[plan->count], plan->rank, ranks));
  RengaCall(RengaPlanCheckLeaves_Private(plan));
  return RENGA_SUCCESS;
}
