/* Tensor groups: what goes with them, and whether their ranks do the same. */
#include "exchange.h"
#include "pipelineimpl.h"
#include "renga/private/graph.h"
#include "renga/private/line.h"
#include "renga/private/plan.h"
#include "renga/private/wait.h"

/* What tensor ranks do not go with yet, by its name; NULL: nothing. */
static RengaErrorCode NameAgainstTensor(RengaPipeline pipeline, const char **name)
{
  RengaSparse sparse;
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &sparse));
  *name = NULL;
  if (sparse == RENGA_SPARSE_LAZY) *name = "-optimizer_sparse lazy";
  if (sparse == RENGA_SPARSE_EXACT) *name = "-optimizer_sparse exact";
  if (!RengaSettingsIsOrdered_Private(pipeline->settings)) *name = "-pipeline_reduction unordered";
  return RENGA_SUCCESS;
}

/* The ranks of a group that share out lanes of one kind. */
static RengaErrorCode CheckRanksOfKind(RengaPipeline pipeline, RengaLaneKind kind, int ranks)
{
  MPI_Comm comm = pipeline->hdr.comm;
  const RengaLaneWords *words = &RengaLaneWords_Private[kind];
  const char *name;
  int lanes, nodes;
  if (ranks == 1) return RENGA_SUCCESS;
  RengaGraphCountLanes_Private(pipeline->graph, kind, &lanes, &nodes);
  RengaCall(NameAgainstTensor(pipeline, &name));
  RengaCheck(!name, comm, RENGA_ERR_SUPPORT, "%d %s ranks (%s) do not go with %s yet", ranks,
             words->ranks, words->share, name);
  RengaCheck(nodes > 0, comm, RENGA_ERR_SUPPORT,
             "%d %s ranks (%s), but nothing of the network is computed in lanes: use stages or "
             "replicas",
             ranks, words->ranks, words->share);
  return RENGA_SUCCESS;
}

/* What settings, network and plan say of the ranks that compute a replica together. */
RengaErrorCode RengaPipelineCheckTensor_Private(RengaPipeline pipeline)
{
  const RengaStageShape *first = &RengaPlanGetStage(pipeline->plan, 0)->shape;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaStageShape *shape = &RengaPlanGetStage(pipeline->plan, s)->shape;
    RengaCheck(shape->tensor == first->tensor && shape->sequence == first->sequence,
               pipeline->hdr.comm, RENGA_ERR_SUPPORT,
               "stage %d has %d tensor-parallel and %d context-parallel ranks, but stage 0 has %d "
               "and %d: all stages must have as many",
               s, shape->tensor, shape->sequence, first->tensor, first->sequence);
  }
  RengaCall(RengaPlanCheckGroup_Private(pipeline->graph, first->tensor, first->sequence));
  RengaCall(CheckRanksOfKind(pipeline, RENGA_LANES_OF_HEADS, first->tensor));
  RengaCall(CheckRanksOfKind(pipeline, RENGA_LANES_OF_TOKENS, first->sequence));
  return RENGA_SUCCESS;
}

static uint64_t HashTerms(const Instruction *row, uint64_t hash)
{
  for (int t = 0; t < row->n_out; t++) {
    const int64_t term[] = {row->term[t].from, row->term[t].to, row->term[t].bytes};
    hash = RengaHash(term, sizeof term, hash);
  }
  return hash;
}

/* What ranks of a stage do together, in its order: those of a tensor group their exchanges, and who
   gives what in them; replicas all else. */
static uint64_t HashEntriesOfPart(const Sequence *sequence, bool exchanges, uint64_t hash)
{
  for (int e = 0; e < sequence->n_entries; e++) {
    const Entry *entry = &sequence->entry[e];
    const int64_t place[] = {entry->kind, entry->ends, entry->bucket};
    if (entry->kind == ENTRY_KERNELS || entry->kind == ENTRY_VALUES) continue; /* its own */
    if ((entry->kind == ENTRY_EXCHANGE) != exchanges) continue;
    if (!exchanges) hash = RengaHash(place, sizeof place, hash);
    if (exchanges && !entry->ends) hash = HashTerms(&sequence->row[entry->first], hash);
  }
  return hash;
}

static RengaErrorCode HashEntries(const Chunk *chunk, bool exchanges, uint64_t *hash)
{
  *hash = 0;
  for (int p = 0; p < chunk->programs->count; p++) {
    RengaCall(RengaChunkListProgram_Private(chunk, chunk->programs->row[p]));
    for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
      const int64_t place[] = {p, part};
      *hash = RengaHash(place, sizeof place, *hash);
      *hash = HashEntriesOfPart(&chunk->programs->row[p]->part[part], exchanges, *hash);
    }
  }
  return RENGA_SUCCESS;
}

/* Messages are told apart by their order alone. */
static RengaErrorCode CompareGroupEntries(const Chunk *chunk, bool exchanges, RengaComm comm)
{
  static const char what[] = "the ranks of a stage to compare what they do together";
  uint64_t hash;
  MPI_Comm group;
  RengaCall(RengaObjectGetComm(comm, &group));
  RengaCall(RengaErrorAgree(group, HashEntries(chunk, exchanges, &hash)));
  int64_t least = -(int64_t)(hash >> 1), most = (int64_t)(hash >> 1);
  RengaCall(RengaReduceInt64_Private(group, MPI_MAX, &least, what));
  RengaCall(RengaReduceInt64_Private(group, MPI_MAX, &most, what));
  RengaCheck(-least == most, group, RENGA_ERR_INTERNAL,
             "the %s of stage %d do not have the same %s, in the same order",
             exchanges ? "tensor-parallel ranks" : "replicas", chunk->stage,
             exchanges ? "exchanges" : "sums and gathers");
  return RENGA_SUCCESS;
}

/* All stages of a rank have the same tensor group, and the same replicas. */
static RengaErrorCode CheckGroup(RengaPipeline pipeline, bool exchanges)
{
  Rank *rank = pipeline->rank;
  const Chunk *first = rank->chunk;
  RengaComm comm = NULL;
  int color = -1;
  if (rank->n_chunks > 0) {
    const RengaPlanPlace place =
        RengaPlanPlaceOf_Private(pipeline->plan, first->stage, exchanges ? first->replica : 0,
                                 exchanges ? 0 : first->tensor.rank);
    color = RengaPlanGetRankAt(pipeline->plan, &place);
  }
  RengaErrorCode code = RengaCommSplit(rank->all, color, RengaCommGetRank(rank->all), &comm);
  const bool split = !RengaErrorAgree(pipeline->hdr.comm, code);
  for (int c = 0; c < rank->n_chunks && split; c++) /* the others do so too */
    RengaKeepFirst_Private(&code, CompareGroupEntries(&rank->chunk[c], exchanges, comm));
  if (comm) RengaKeepFirst_Private(&code, RengaCommDestroy(&comm));
  RengaCall(RengaErrorAgree(pipeline->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* All that ranks of a stage do together they do in the order of its lists, which are the same. */
RengaErrorCode RengaPipelineCheckEntries_Private(RengaPipeline pipeline)
{
  bool replicas = false;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++)
    replicas = replicas || RengaPlanGetStage(pipeline->plan, s)->shape.replicas > 1;
  if (replicas) RengaCall(CheckGroup(pipeline, false));
  if (RengaShapeGroup_Private(&RengaPlanGetStage(pipeline->plan, 0)->shape) > 1)
    RengaCall(CheckGroup(pipeline, true));
  return RENGA_SUCCESS;
}
