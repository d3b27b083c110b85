/* Which stages hold this stage's parameters, how often each uses them, and who writes them. It
   follows from network and plan: no rank is asked. */
#include "parameter.h"
#include "portion.h"
#include "renga/private/graph.h"

static int64_t *StageHolds(const Chunk *chunk, int parameter, int stage)
{
  return &chunk->uses->holds[(int64_t)parameter * chunk->outline->stages + stage];
}

static bool IsHeldFirstHere(Chunk *chunk, int parameter)
{
  for (int s = 0; s < chunk->stage; s++)
    if (*StageHolds(chunk, parameter, s) > 0) return false;
  return true;
}

static bool HasUses(const Chunk *chunk, int parameter)
{
  for (int s = 0; s < chunk->outline->stages; s++)
    if (*StageHolds(chunk, parameter, s) > 1) return true;
  return false;
}

/* Replicas as a heap, the one with the least to do first, of equal ones the first. */
static void SiftDown(int count, int heap[], const int64_t load[])
{
  for (int at = 0, child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count) {
      const int a = heap[child], b = heap[child + 1];
      if (load[b] < load[a] || (load[b] == load[a] && b < a)) child++;
    }
    const int own = heap[at], other = heap[child];
    if (load[own] < load[other] || (load[own] == load[other] && own < other)) return;
    heap[at] = other;
    heap[child] = own;
  }
}

/* One writer of each parameter: in its first stage, the replica that has least to write so far. */
static RengaErrorCode ChooseOwners(Chunk *chunk)
{
  int64_t *load = NULL;
  int *heap = NULL;
  RengaErrorCode code = RengaMalloc(chunk->replicas, &load);
  if (!code) code = RengaMalloc(chunk->replicas, &heap);
  if (code) RengaFree(&load);
  RengaCall(code);
  for (int r = 0; r < chunk->replicas; r++) heap[r] = r;
  for (int p = 0; p < chunk->n_parameters; p++) {
    Parameter *parameter = &chunk->parameter[p];
    if (!IsHeldFirstHere(chunk, p)) continue;
    load[heap[0]] += parameter->count;
    const int holders =
        chunk->outline->parts[parameter->whole] ? chunk->uses->rank[parameter->value] : 0;
    parameter->owner =
        heap[0] == chunk->replica &&
        chunk->tensor.rank == RengaLaneGroupAt_Private(&chunk->tensor.group, holders, 0);
    SiftDown(chunk->replicas, heap, load);
  }
  RengaFree(&heap);
  RengaFree(&load);
  return RENGA_SUCCESS;
}

static RengaErrorCode IsParameterFrozen(const Chunk *chunk, int number, bool *frozen)
{
  const RengaValue whole = chunk->parameter[number].whole;
  RengaCall(RengaOutlineIsFrozen_Private(chunk->outline,
                                         RengaGraphGetValue(chunk->outline->graph, whole), frozen));
  return RENGA_SUCCESS;
}

/* Not frozen, and some stage has a gradient for it. */
RengaErrorCode RengaChunkIsTrained_Private(const Chunk *chunk, int number, bool *trained)
{
  bool frozen;
  RengaCall(IsParameterFrozen(chunk, number, &frozen));
  *trained = !frozen && HasUses(chunk, number);
  return RENGA_SUCCESS;
}

/* A state that is updated in two stages would need statistics from both. */
static RengaErrorCode CheckStates(Chunk *chunk)
{
  const RengaPlanStage *stage = RengaPlanGetStage(chunk->outline->plan, chunk->stage);
  for (int u = 0; u < chunk->states->n_updates; u++) {
    const char *name = RengaGraphGetValue(chunk->sub, chunk->states->update[u].state)->name;
    const RengaValue whole = RengaGraphFindValue(chunk->outline->graph, name);
    const int *node;
    int count;
    RengaCall(RengaGraphGetReaders_Private(chunk->outline->graph, whole, &count, &node));
    for (int i = 0; i < count; i++)
      RengaCheck(node[i] >= stage->first && node[i] < stage->last, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
                 "state %s is used in several stages (node %s): cut elsewhere", name,
                 RengaGraphGetNode(chunk->outline->graph, node[i])->name);
  }
  return RENGA_SUCCESS;
}

/* Behind a parameter and, where it is in parts, all of these, which follow each other. */
static int EndOfWhole(const Chunk *chunk, int first)
{
  int p = first + 1;
  while (p < chunk->n_parameters && chunk->parameter[p].whole == chunk->parameter[first].whole) p++;
  return p;
}

/* This stage's parameter, or the first part that this rank has of it, or -1: they are in the order
   of the network. */
static int FindFirstOf(const Chunk *chunk, RengaValue whole)
{
  int low = 0, high = chunk->n_parameters;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (chunk->parameter[middle].whole < whole)
      low = middle + 1;
    else
      high = middle;
  }
  return low < chunk->n_parameters && chunk->parameter[low].whole == whole ? low : -1;
}

/* shares: [stages] whether a stage has a parameter of this one. */
static RengaErrorCode MarkHolders(Chunk *chunk, bool shares[])
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    const int *node;
    int count;
    RengaCall(RengaGraphGetReaders_Private(chunk->outline->graph, chunk->parameter[p].whole, &count,
                                           &node));
    for (int i = 0; i < count; i++) {
      const int stage = RengaPlanStageOfNode(chunk->outline->plan, node[i]);
      *StageHolds(chunk, p, stage) = 1;
      shares[stage] = true;
    }
  }
  return RENGA_SUCCESS;
}

/* Uses of this stage's parameters in another stage, from that stage's own gradients. */
static RengaErrorCode CountHolders(Chunk *chunk, int stage)
{
  const RengaParameterUse *use;
  RengaGraph sub;
  int count;
  RengaCall(RengaOutlineMakeStage_Private(chunk->outline, stage, &sub, NULL));
  const RengaErrorCode code = RengaGraphGetParameterUses(sub, &count, &use);
  for (int u = 0; !code && u < count; u++) {
    const char *name = RengaGraphGetValue(sub, use[u].parameter)->name;
    const int first = FindFirstOf(chunk, RengaGraphFindValue(chunk->outline->graph, name));
    for (int p = first; first >= 0 && p < EndOfWhole(chunk, first); p++)
      ++*StageHolds(chunk, p, stage);
  }
  RengaGraphDestroy(&sub);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindHolders(Chunk *chunk, bool shares[])
{
  RengaCall(MarkHolders(chunk, shares));
  for (int p = 0; p < chunk->n_parameters; p++)
    *StageHolds(chunk, p, chunk->stage) = 1 + chunk->parameter[p].n_uses;
  for (int s = 0; chunk->outline->has_loss && s < chunk->outline->stages; s++)
    if (shares[s] && s != chunk->stage) RengaCall(CountHolders(chunk, s));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkSetUpHolders_Private(Chunk *chunk)
{
  bool *shares = NULL;
  RengaCall(
      RengaMalloc((int64_t)chunk->n_parameters * chunk->outline->stages + 1, &chunk->uses->holds));
  RengaErrorCode code = RengaMalloc(chunk->outline->stages, &shares);
  if (!code) code = FindHolders(chunk, shares);
  RengaFree(&shares);
  RengaCall(code);
  for (int p = 0; p < chunk->n_parameters; p++) {
    RengaCall(IsParameterFrozen(chunk, p, &chunk->parameter[p].frozen));
    RengaCall(RengaChunkIsTrained_Private(chunk, p, &chunk->parameter[p].trained));
  }
  RengaCall(RengaChunkPlaceParameters_Private(chunk));
  RengaCall(ChooseOwners(chunk));
  RengaCall(CheckStates(chunk));
  return RENGA_SUCCESS;
}
