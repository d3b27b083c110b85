/* A chunk: its part of the network, differentiated; what it reads, holds and adds up. */
#include "exchange.h"
#include "gradients.h"
#include "renga/private/graph.h"
#include "renga/private/rectangle.h"
#include "rows.h"
#include "updates.h"
#include "window.h"

/* The number of a field among the network's inputs; false for what another stage makes. */
static bool IsData(Chunk *chunk, const RengaGraphValue *value, int *field)
{
  const RengaValue whole = RengaGraphFindValue(chunk->outline->graph, value->name);
  *field = 0;
  if (whole < 0 || RengaGraphGetValue(chunk->outline->graph, whole)->kind != RENGA_VALUE_INPUT)
    return false;
  for (RengaValue v = 0; v < whole; v++)
    *field += RengaGraphGetValue(chunk->outline->graph, v)->kind == RENGA_VALUE_INPUT;
  return true;
}

static RengaErrorCode ListFields(Chunk *chunk)
{
  const RengaGraphRows *rows = chunk->uses->rows;
  for (int l = 0; l < rows->n_leaves; l++) {
    const RengaValue v = rows->leaf[l];
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, v);
    int field;
    if (value->kind != RENGA_VALUE_INPUT || !IsData(chunk, value, &field)) continue;
    RengaCall(RengaRealloc(chunk->inputs->n_fields + 1, &chunk->inputs->field));
    const RengaTensorSpec spec = RengaTensorSpecAt(&value->spec, chunk->outline->microbatch);
    chunk->inputs->field[chunk->inputs->n_fields++] =
        (Field){.value = v, .field = field, .offset = chunk->sizes->input_bytes};
    chunk->sizes->input_bytes += RengaAlign_Private((int64_t)RengaTensorSpecBytes(&spec));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListSums(Chunk *chunk)
{
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub); n++) {
    if (!(chunk->uses->rows->node[n].op->flags & RENGA_OP_BATCH_SUM)) continue;
    const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
    const RengaTensorSpec *spec = &RengaGraphGetValue(chunk->sub, node->in[0])->spec;
    RengaCheck(spec->type == RENGA_FLOAT32 && spec->ndim == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s: a sum over the batch takes a float32 scalar", node->name);
    RengaCall(RengaRealloc(chunk->n_sums + 1, &chunk->sum));
    chunk->sum[chunk->n_sums++] = (BatchSum){.share = node->in[0], .sum = node->out[0]};
  }
  return RENGA_SUCCESS;
}

/* In the network all are float32; what they are kept as the storage says. */
static RengaErrorCode CheckHeld(const RengaGraphValue *value)
{
  bool known = value->spec.type == RENGA_FLOAT32;
  for (int d = 0; d < value->spec.ndim; d++) known = known && value->spec.dim[d] >= 0;
  RengaCheck(
      known, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
      "%s: a parameter or state must be float32 and of a size that does not depend on the batch",
      value->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddParameter(Chunk *chunk, RengaValue value, RengaValue whole,
                                   const RengaRectangle *part, int n_uses, int number)
{
  const RengaGraphValue *view = RengaGraphGetValue(chunk->sub, value);
  const int64_t count = RengaTensorSpecCount(&view->spec);
  RengaCall(CheckHeld(view));
  chunk->parameter[chunk->n_parameters++] = (Parameter){
      .value = value,
      .whole = whole,
      .part = *part,
      .name = RengaGraphGetValue(chunk->outline->graph, whole)->name,
      .count = count,
      .stride = RengaChunkStride_Private(chunk, count),
      .n_uses = n_uses,
      .number = number,
  };
  return RENGA_SUCCESS;
}

static RengaErrorCode AddState(Chunk *chunk, RengaValue value)
{
  RengaCall(CheckHeld(RengaGraphGetValue(chunk->sub, value)));
  RengaCall(RengaRealloc(chunk->states->count + 1, &chunk->states->value));
  RengaCall(RengaRealloc(chunk->states->count + 1, &chunk->states->offset));
  chunk->states->value[chunk->states->count++] = value;
  return RENGA_SUCCESS;
}

/* Those that lanes of this rank read. */
static RengaErrorCode AddPartsOf(Chunk *chunk, RengaValue whole, const RengaGraphNode *split,
                                 const int uses[])
{
  const int number = chunk->outline->number[whole];
  for (int o = 0; o < split->n_out; o++) {
    RengaValue value;
    RengaRectangle part;
    RengaCall(RengaChunkGetPart_Private(chunk, split, o, &value, &part));
    if (RengaLaneCovers(chunk->uses->rank[value], RengaChunkAlone_Private(chunk)))
      RengaCall(AddParameter(chunk, value, whole, &part, uses[value], number + o));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddWholeOf(Chunk *chunk, RengaValue own, RengaValue whole, const int uses[])
{
  RengaRectangle part;
  RengaCall(RengaRectangleWhole(&RengaGraphGetValue(chunk->sub, own)->spec, &part));
  RengaCall(AddParameter(chunk, own, whole, &part, uses[own], chunk->outline->number[whole]));
  return RENGA_SUCCESS;
}

/* A parameter with its parts, or a state, of the chunk's graph. */
static RengaErrorCode AddHeld(Chunk *chunk, RengaValue own, const int uses[])
{
  const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, own);
  /* Caches of other ranks' lanes are theirs; other states all ranks have alike. */
  const bool here =
      !value->cache || RengaLaneCovers(chunk->uses->rank[own], RengaChunkAlone_Private(chunk));
  if (value->kind == RENGA_VALUE_STATE && here) RengaCall(AddState(chunk, own));
  if (value->kind != RENGA_VALUE_PARAMETER) return RENGA_SUCCESS;
  const RengaValue whole = chunk->uses->whole[own];
  const RengaGraphNode *split = RengaOutlinePartsOf_Private(chunk->outline, whole);
  RengaCall(split ? AddPartsOf(chunk, whole, split, uses) : AddWholeOf(chunk, own, whole, uses));
  return RENGA_SUCCESS;
}

/* With all parts, of which the rank may have some. */
static int CountAllParts(const Chunk *chunk)
{
  int held = 0;
  const RengaGraphRows *rows = chunk->uses->rows;
  for (int l = 0; l < rows->n_leaves; l++) {
    const RengaValue whole = chunk->uses->whole[rows->leaf[l]];
    if (whole == RENGA_VALUE_NONE) continue;
    const RengaGraphNode *split = RengaOutlinePartsOf_Private(chunk->outline, whole);
    held += split ? split->n_out : 1;
  }
  return held;
}

/* Parameters and states in the order of the whole network, which a stage's graph has them in. */
static RengaErrorCode ListHeld(Chunk *chunk)
{
  int *uses = NULL;
  RengaCall(RengaMalloc(RengaGraphGetValueCount(chunk->sub) + 1, &uses));
  RengaErrorCode code = RengaRealloc(CountAllParts(chunk) + 1, &chunk->parameter);
  for (int u = 0; u < chunk->uses->count; u++) uses[chunk->uses->row[u].parameter]++;
  for (int l = 0; l < chunk->uses->rows->n_leaves && !code; l++)
    code = AddHeld(chunk, chunk->uses->rows->leaf[l], uses);
  RengaFree(&uses);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void CountStatistics(Chunk *chunk)
{
  for (int u = 0; u < chunk->states->n_updates; u++)
    chunk->states->elements += RengaTensorSpecCount(
        &RengaGraphGetValue(chunk->sub, chunk->states->update[u].batch_value)->spec);
}

/* The stage's graph, differentiated, and what the graph lends. */
static RengaErrorCode MakeGraph(Chunk *chunk)
{
  const Outline *outline = chunk->outline;
  ChunkStates *states = chunk->states;
  const RengaParameterUse *use = NULL;
  int uses = 0;
  RengaCall(RengaMalloc(outline->n_messages + 1, &chunk->link));
  RengaCall(RengaOutlineMakeStage_Private(outline, chunk->stage, &chunk->sub, chunk->link));
  RengaCall(RengaGraphGetLoss(chunk->sub, &chunk->loss->value));
  RengaCall(RengaGraphGetSeed(chunk->sub, &chunk->loss->seed));
  RengaCall(RengaChunkFindSampleLosses_Private(chunk));
  RengaCall(RengaGraphGetStateUpdates(chunk->sub, &states->n_updates, &states->update));
  if (outline->has_loss) RengaCall(RengaGraphGetParameterUses(chunk->sub, &uses, &use));
  RengaCall(RengaChunkMarkParts_Private(chunk));
  RengaCall(RengaChunkListUses_Private(chunk, uses, use));
  return RENGA_SUCCESS;
}

/* The chunk of a stage, for replica 0 and no rank, with nothing in it yet. */
RengaErrorCode RengaChunkBegin_Private(Outline *outline, int stage, Chunk *chunk)
{
  const RengaPlanStage *row = RengaPlanGetStage(outline->plan, stage);
  *chunk = (Chunk){.outline = outline,
                   .device = outline->settings->device,
                   .stage = stage,
                   .replicas = row->shape.replicas,
                   .recompute = row->shape.saved != RENGA_SAVED_KEEP && outline->has_loss};
  chunk->tensor.group = RengaPlanGetLaneGroup_Private(&row->shape, outline->graph);
  RengaCall(RengaPrecisionGetStorage(row->shape.precision, &chunk->storage));
  return RENGA_SUCCESS;
}

/* The portion is the last: with it all are there. */
static RengaErrorCode MakeOwners(Chunk *chunk)
{
  RengaCall(RengaMalloc(1, &chunk->loss));
  RengaCall(RengaMalloc(1, &chunk->uses));
  RengaCall(RengaMalloc(1, &chunk->states));
  RengaCall(RengaMalloc(1, &chunk->inputs));
  RengaCall(RengaMalloc(1, &chunk->rows));
  RengaCall(RengaMalloc(1, &chunk->programs));
  RengaCall(RengaMalloc(1, &chunk->sizes));
  RengaCall(RengaMalloc(1, &chunk->memory));
  RengaCall(RengaMalloc(1, &chunk->at));
  RengaCall(RengaMalloc(1, &chunk->gradients));
  RengaCall(RengaMalloc(1, &chunk->window));
  RengaCall(RengaMalloc(1, &chunk->updates));
  RengaCall(RengaMalloc(1, &chunk->portion));
  chunk->portion->target = RENGA_VALUE_NONE;
  return RENGA_SUCCESS;
}

/* Makes sub and the lists of what it holds; needs no other rank. */
RengaErrorCode RengaChunkSetUp_Private(Chunk *chunk)
{
  RengaCall(MakeOwners(chunk));
  RengaCall(MakeGraph(chunk));
  RengaCall(ListFields(chunk));
  RengaCall(ListSums(chunk));
  RengaCall(ListHeld(chunk));
  CountStatistics(chunk);
  RengaCall(RengaChunkSetUpLinks_Private(chunk));
  RengaCall(RengaChunkSetUpHolders_Private(chunk));
  return RENGA_SUCCESS;
}

static void FreeLists(Chunk *chunk)
{
  RengaFree(&chunk->link);
  RengaFree(&chunk->parameter);
  RengaFree(&chunk->sum);
  RengaFree(&chunk->value_place);
  RengaFree(&chunk->sizes->part);
  RengaFree(&chunk->at->region);
}

/* What owners hold. */
static RengaErrorCode FreeHeld(Chunk *chunk)
{
  RengaErrorCode code = RengaChunkFreeFetches_Private(chunk);
  RengaKeepFirst_Private(&code, RengaChunkFreeBuckets_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeRows_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeInputs_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeParcels_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeTied_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeExchanges_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeUpdates_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreePrograms_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeResults_Private(chunk));
  RengaKeepFirst_Private(&code, RengaChunkFreeStates_Private(chunk));
  RengaChunkFreeUses_Private(chunk);
  FreeLists(chunk);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* However far it came; the arena is the rank's. */
RengaErrorCode RengaChunkFree_Private(Chunk *chunk)
{
  RengaErrorCode code = chunk->portion ? FreeHeld(chunk) : RENGA_SUCCESS;
  GradientFold *fold = chunk->gradients ? &chunk->gradients->fold : NULL;
  RengaFree(&chunk->loss);
  RengaFree(&chunk->uses);
  RengaFree(&chunk->states);
  RengaFree(&chunk->inputs);
  RengaFree(&chunk->rows);
  RengaFree(&chunk->programs);
  RengaFree(&chunk->sizes);
  RengaFree(&chunk->memory);
  RengaFree(&chunk->at);
  RengaFree(&chunk->window);
  RengaFree(&chunk->updates);
  RengaFree(&chunk->portion);
  if (chunk->sub) RengaKeepFirst_Private(&code, RengaGraphDestroy(&chunk->sub));
  RengaComm *comm[] = {&chunk->group, fold ? &fold->owners : NULL, fold ? &fold->inner : NULL,
                       fold ? &fold->across : NULL};
  for (int i = 0; i < 4; i++)
    if (comm[i] && *comm[i]) RengaKeepFirst_Private(&code, RengaCommDestroy(comm[i]));
  RengaFree(&chunk->gradients);
  RengaCall(code);
  return RENGA_SUCCESS;
}
