/* Tensor groups: what goes with them, and whether their ranks do the same. */
#include "exchange.h"
#include "pipelineimpl.h"
#include "renga/private/graph.h"
#include "renga/private/line.h"
#include "renga/private/plan.h"
#include "renga/private/wait.h"
#include <string.h>

int RengaTensorRankOf_Private(const TensorGroup *tensor, int lane)
{
  return RengaPlanTensorRankOfLane_Private(tensor->lanes, tensor->size, lane);
}

/* What tensor ranks do not go with yet, by its name; NULL: nothing. */
static RengaErrorCode NameAgainstTensor(RengaPipeline pipeline, const char **name)
{
  const char *sparse;
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &sparse));
  *name = NULL;
  if (strcmp(sparse, RENGA_SPARSE_LAZY) == 0) *name = "-optimizer_sparse lazy";
  if (!RengaSettingsIsOrdered_Private(pipeline->settings)) *name = "-pipeline_reduction unordered";
  return RENGA_SUCCESS;
}

/* What settings, network and plan say of tensor ranks. */
RengaErrorCode RengaPipelineCheckTensor_Private(RengaPipeline pipeline)
{
  MPI_Comm comm = pipeline->hdr.comm;
  const int size = RengaPlanGetStage(pipeline->plan, 0)->shape.tensor;
  const char *share = RengaGraphShareOption_Private(pipeline->graph), *name;
  int lanes, nodes;
  RengaCall(RengaGraphGetLanes(pipeline->graph, &lanes, &nodes));
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaStageShape *shape = &RengaPlanGetStage(pipeline->plan, s)->shape;
    RengaCheck(shape->tensor == size, comm, RENGA_ERR_SUPPORT,
               "stage %d has %d tensor ranks, but stage 0 has %d: all stages must have as many", s,
               shape->tensor, size);
  }
  RengaCall(NameAgainstTensor(pipeline, &name));
  RengaCheck(size == 1 || !name, comm, RENGA_ERR_SUPPORT,
             "%d tensor ranks (%s) do not go with %s yet", size, share, name);
  RengaCheck(size <= lanes, comm, RENGA_ERR_OPTION,
             "%d tensor ranks (%s) share out the lanes of the network, of which there %s %d: give "
             "%s %d or more",
             size, share, lanes == 1 ? "is" : "are", lanes,
             RengaGraphLanesOption_Private(pipeline->graph), size);
  RengaCheck(size == 1 || nodes > 0, comm, RENGA_ERR_SUPPORT,
             "%d tensor ranks (%s), but nothing of the network is computed in lanes: use stages or "
             "replicas",
             size, share);
  return RENGA_SUCCESS;
}

/* What exchanges there are, in their order, and who gives what in them. */
static uint64_t HashExchanges(const Chunk *chunk)
{
  uint64_t hash = 0;
  for (int p = 0; p < chunk->programs.count; p++)
    for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
      const Sequence *sequence = &chunk->programs.row[p]->part[part];
      for (int i = 0; i < sequence->count; i++) {
        const Instruction *row = &sequence->row[i];
        if (row->kind != INSTRUCTION_EXCHANGE) continue;
        const int64_t place[] = {p, part, row->n_out};
        hash = RengaHash(place, sizeof place, hash);
        for (int t = 0; t < row->n_out; t++) {
          const int64_t term[] = {row->term[t].from, row->term[t].to, row->term[t].bytes};
          hash = RengaHash(term, sizeof term, hash);
        }
      }
    }
  return hash;
}

/* Messages are told apart by their order alone. */
static RengaErrorCode CompareExchanges(const Chunk *chunk, RengaComm comm)
{
  static const char what[] = "the tensor group to compare its exchanges";
  const int64_t mine = (int64_t)(HashExchanges(chunk) >> 1);
  int64_t least = -mine, most = mine;
  MPI_Comm group;
  RengaCall(RengaObjectGetComm(comm, &group));
  RengaCall(RengaReduceInt64_Private(group, MPI_MAX, &least, what));
  RengaCall(RengaReduceInt64_Private(group, MPI_MAX, &most, what));
  RengaCheck(-least == most, group, RENGA_ERR_INTERNAL,
             "the tensor ranks of stage %d, replica %d do not have the same exchanges",
             chunk->stage, chunk->replica);
  return RENGA_SUCCESS;
}

/* All stages of a rank have the same tensor group, which makes its exchanges in the order of its
   list: they are the same on all of its ranks. */
RengaErrorCode RengaPipelineCheckExchanges_Private(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
  const Chunk *first = rank->chunk;
  const bool idle = rank->n_chunks == 0;
  const int color = idle ? -1 : RengaPlanGetRank(pipeline->plan, first->stage, first->replica);
  RengaComm comm = NULL;
  if (RengaPlanGetStage(pipeline->plan, 0)->shape.tensor == 1) return RENGA_SUCCESS;
  RengaErrorCode code = RengaCommSplit(rank->all, color, idle ? 0 : first->tensor.rank, &comm);
  const bool split = !RengaErrorAgree(pipeline->hdr.comm, code);
  for (int c = 0; c < rank->n_chunks && split; c++) /* the others of the group do so too */
    RengaKeepFirst_Private(&code, CompareExchanges(&rank->chunk[c], comm));
  if (comm) RengaKeepFirst_Private(&code, RengaCommDestroy(&comm));
  RengaCall(RengaErrorAgree(pipeline->hdr.comm, code));
  return RENGA_SUCCESS;
}
